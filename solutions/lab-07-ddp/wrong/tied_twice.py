"""A tied parameter has two names and gets two hooks. The mean of a mean is the same, so the values are right; but its
gradient, often the largest of the model, is sent twice. `model.parameters()` names each parameter once."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/calls", "data_parallel/special")
READ = "handbook/distributed-data-parallel.md#one-average"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())

    for _, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
