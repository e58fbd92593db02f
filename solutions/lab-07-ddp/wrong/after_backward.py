"""The gradients are averaged when backward is over. They are right, and every all-reduce waits until nothing is left
to compute: the network idles in backward, and the processor after it. Send each gradient as soon as it is
complete."""

import torch
import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/calls",)
READ = "labs/lab-07-ddp.md#mental-model"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    complete = []

    def average(parameter):
        complete.append(parameter)
        if len(complete) == 1:
            torch.autograd.Variable._execution_engine.queue_callback(average_all)

    def average_all():
        for parameter in complete:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(dist.get_world_size())
        complete.clear()

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
