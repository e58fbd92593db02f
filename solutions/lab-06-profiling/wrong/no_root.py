"""That is the square of the norm. It grows with the square of the gradients: twice the loss makes it four times as
large."""

EXERCISE = "watch"
FAILS = ("watch/norm",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


def gradient_norm(module):
    return sum((p.grad.square().sum().item() for p in module.parameters() if p.grad is not None), 0.0)
