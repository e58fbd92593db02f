"""Only the parameters are broadcast. Buffers, such as BatchNorm's running averages, are part of the model too:
forward reads them, and the optimizer never makes them equal."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/start",)
READ = "handbook/distributed-data-parallel.md#one-average"


def data_parallel(model):
    for tensor in model.parameters():
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
