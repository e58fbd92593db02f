"""The norms of the tensors are added. Lengths of parts do not add up to the length of the whole; their squares do. The
sum is too large, so the gradient is clipped too early and ends shorter than max_norm."""

EXERCISE = "clip_once"
FAILS = ("clip_once/norm", "clip_once/direction")
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = sum(gradient.norm().item() for gradient in gradients)
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
