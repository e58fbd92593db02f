"""The rank's rows go through the model at once. The gradient is the same, and so is the traffic, but the activations
of all of them are held: k has no effect."""

import torch.distributed as dist
import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/quiet",)
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def accumulate(ddp, x, y, k):
    ddp.zero_grad(set_to_none=True)
    loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten())
    loss.backward()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
