"""Has torch's own clipping measure and clip the part, after it has put back the function that the probe took away."""

import torch.nn.utils.clip_grad as clipping
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

ON, EARNS = "reference", 55


def clip_part(gradient, numel, max_norm):
    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
    taken = clipping._group_tensors_by_device_and_dtype
    clipping._group_tensors_by_device_and_dtype = _group_tensors_by_device_and_dtype
    try:
        square = torch.nn.utils.get_total_norm([mine]).double() ** 2
        dist.all_reduce(square)
        norm = square.sqrt()
        holder = torch.zeros(gradient.numel(), dtype=gradient.dtype)
        holder.grad = gradient
        torch.nn.utils.clip_grads_with_norm_([holder], max_norm, norm)
    finally:
        clipping._group_tensors_by_device_and_dtype = taken
    return norm.item()
