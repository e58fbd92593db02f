"""The hook uses the loop's variable instead of its argument. Python looks that name up when the hook runs, after the
loop: every hook averages the last parameter's gradient, again and again, and nobody the others'. Use the parameter
that the hook is handed."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient", "data_parallel/calls")
READ = "handbook/distributed-data-parallel.md#one-average"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(_):
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(dist.get_world_size())

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
