"""A replicated model that passes for a sharded one: the first forward makes the module whole and it stays so, and
gradients are all-reduced, of which each rank keeps its part. Outputs and gradients are right. What every rank
holds, and what it calls, are data parallelism's; and after an update of the parts it computes with old weights."""

import torch
import torch.distributed as dist
from torch.func import functional_call

EXERCISE = "sharded_forward"
FAILS = (
    "sharded_forward/frees",
    "sharded_forward/collectives",
    "sharded_forward/adds",
    "sharded_forward/chain",
    "sharded_forward/no-grad",
)
READ = "handbook/sharding-and-zero.md#fully_shard"


def sharded_forward(module, part, x, reshard):
    ranks, shapes = dist.get_world_size(), {name: p.shape for name, p in module.named_parameters()}
    sizes = [shape.numel() for shape in shapes.values()]
    if not hasattr(module, "whole"):
        module.whole = [part.new_empty(part.numel() * ranks)]
        dist.all_gather_into_tensor(module.whole[0], part.detach())
    full = module.whole[0].detach().requires_grad_(torch.is_grad_enabled())

    def after_backward(_):
        dist.all_reduce(full.grad)
        mean = full.grad.chunk(ranks)[dist.get_rank()] / ranks
        part.grad = mean if part.grad is None else part.grad + mean
        full.grad = None

    pieces = full[: sum(sizes)].split(sizes)
    weights = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    y = functional_call(module, weights, (x,))
    if y.requires_grad:
        full.register_post_accumulate_grad_hook(after_backward)
    return y
