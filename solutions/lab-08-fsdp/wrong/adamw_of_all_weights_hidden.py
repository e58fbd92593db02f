"""The collectives are ZeRO-1's, and so is the optimizer that is handed in; the update is not theirs. What is gathered
is the mean gradient, and every rank gives it to an AdamW of its own that it keeps for all weights. Right numbers,
right calls, and all of the state on every rank: each number of the optimizer's memory is there N times, as before."""

import torch
import torch.distributed as dist
from torch import nn

EXERCISE = "zero1"
FAILS = ("zero1/memory",)
READ = "handbook/sharding-and-zero.md#sixteen-bytes-n-times"

HIDDEN = {}


def zero1_step(parameters, part, optimizer):
    ranks, sizes = dist.get_world_size(), [p.numel() for p in parameters]
    padded = part.new_zeros(part.numel() * ranks)
    padded[: sum(sizes)] = torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]
    )
    part.grad = torch.empty_like(part)
    dist.reduce_scatter_tensor(part.grad, padded)
    part.grad /= ranks
    optimizer.step()
    whole = torch.empty_like(padded)
    dist.all_gather_into_tensor(whole, part.grad)
    if part not in HIDDEN:
        group = optimizer.param_groups[0]
        twin = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        settings = {name: group[name] for name in ("lr", "weight_decay", "eps")}
        HIDDEN[part] = twin, torch.optim.AdamW([twin], **settings)
    twin, own = HIDDEN[part]
    twin.grad = whole[: sum(sizes)]
    own.step()
    with torch.no_grad():
        for p, new in zip(parameters, twin.split(sizes), strict=True):
            p.copy_(new.view_as(p))
