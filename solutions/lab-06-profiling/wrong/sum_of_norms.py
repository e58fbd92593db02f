"""The norms of the parameters' gradients are added. Lengths do not add up that way: of vectors that stand at right
angles, as the parts of one long vector do, the squares add up, and the root comes last."""

EXERCISE = "watch"
FAILS = ("watch/norm",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


def gradient_norm(module):
    return sum(p.grad.norm().item() for p in module.parameters() if p.grad is not None) + 0.0
