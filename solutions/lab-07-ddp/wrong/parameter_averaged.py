"""`register_post_accumulate_grad_hook` hands the hook the parameter, not its gradient. This averages the weights, which
differ by one update at most, so that little is noticed; and each rank follows the gradient of its own rows alone.
Average `parameter.grad`."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient",)
READ = "labs/lab-07-ddp.md#break-it"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.data)
        parameter.data.div_(dist.get_world_size())

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
