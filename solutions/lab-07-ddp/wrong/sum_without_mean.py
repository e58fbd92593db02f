"""The all-reduce adds up, and nobody divides. The gradient is K times too long, which AdamW hides, and clipping and
SGD do not. Each rank's loss is a mean over its own rows, so the batch's gradient is the mean over the ranks."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient",)
READ = "labs/lab-07-ddp.md#mental-model"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.all_reduce(parameter.grad)

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
