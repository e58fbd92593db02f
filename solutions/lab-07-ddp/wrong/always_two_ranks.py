"""The sum is divided by 2, whatever the number of ranks. It works on the machine it was tried on. Ask the group:
`dist.get_world_size()`."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient",)
READ = "handbook/distributed-data-parallel.md#one-average"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(2)

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
