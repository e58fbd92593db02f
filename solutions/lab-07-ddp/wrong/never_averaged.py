"""The ranks begin with the same model, and nothing happens in backward: each follows the gradient of its own rows,
and after the first step they are K models. Every parameter needs a hook that averages its gradient."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient", "data_parallel/calls")
READ = "labs/lab-07-ddp.md#mental-model"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)
