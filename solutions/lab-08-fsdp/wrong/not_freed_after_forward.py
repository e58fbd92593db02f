"""The weights are gathered again in backward, into memory that was never given back: both the memory of keeping
them and the communication of freeing them."""

import torch
import torch.distributed as dist
from torch.func import functional_call

EXERCISE = "sharded_forward"
FAILS = ("sharded_forward/frees", "sharded_forward/chain")
READ = "handbook/sharding-and-zero.md#fully_shard"


def sharded_forward(module, part, x, reshard):
    ranks, shapes = dist.get_world_size(), {name: p.shape for name, p in module.named_parameters()}
    sizes = [shape.numel() for shape in shapes.values()]
    full = part.new_empty(part.numel() * ranks)  # one tensor for all weights, so that one gather fills it
    memory = full.untyped_storage()
    room = memory.nbytes()
    dist.all_gather_into_tensor(full, part.detach())
    full.requires_grad_(torch.is_grad_enabled())

    def before_backward(slope):
        memory.resize_(room)
        dist.all_gather_into_tensor(full.data, part.detach())

    def after_backward(_):
        mean = torch.empty_like(part)
        dist.reduce_scatter_tensor(mean, full.grad)
        mean /= ranks
        part.grad = mean if part.grad is None else part.grad + mean
        full.grad = None
        memory.resize_(0)

    pieces = full[: sum(sizes)].split(sizes)
    weights = {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    y = functional_call(module, weights, (x,))
    if y.requires_grad:
        full.register_post_accumulate_grad_hook(after_backward)
        if reshard:
            y.register_hook(before_backward)
    return y
