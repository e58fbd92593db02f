"""A hook is registered on every parameter. A frozen one gets no gradient, and torch refuses the hook with a
RuntimeError. Only parameters with `requires_grad` take part in backward."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/special",)
READ = "handbook/distributed-data-parallel.md#one-average"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
