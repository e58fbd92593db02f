"""`register_hook` on a parameter sees what *this* backward adds, before it is added. What was accumulated before, in
micro-batches that were not averaged, stays each rank's own, and the models drift apart. A post-accumulate hook sees
`p.grad` when everything is in it."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient",)
READ = "labs/lab-07-ddp.md#common-misunderstandings"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(slopes):
        mean = slopes / dist.get_world_size()
        dist.all_reduce(mean)
        return mean

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_hook(average)
