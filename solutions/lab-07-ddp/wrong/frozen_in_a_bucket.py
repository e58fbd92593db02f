"""Frozen parameters are in the buckets. Backward never completes their gradients, so a bucket that holds one is never
full, and waits until finish()."""

import torch
import torch.distributed as dist

EXERCISE = "overlap"
FAILS = ("overlap/buckets", "overlap/gradient")
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def make_buckets(parameters, cap):
    buckets = []
    held = cap
    for parameter in reversed(list(parameters)):
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(parameter)
        held += parameter.numel() * parameter.element_size()
    return buckets


def overlap(model, cap):
    buckets = make_buckets(model.parameters(), cap)
    bucket_of = {parameter: number for number, bucket in enumerate(buckets) for parameter in bucket}
    missing = [len(bucket) for bucket in buckets]
    started = []

    def start_next():
        bucket = buckets[len(started)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        work = dist.all_reduce(flat, async_op=True)
        started.append((flat, work))

    def note(parameter):
        missing[bucket_of[parameter]] -= 1
        while len(started) < len(buckets) and missing[len(started)] == 0:
            start_next()

    def finish():
        while len(started) < len(buckets):
            start_next()
        for bucket, (flat, work) in zip(buckets, started, strict=True):
            work.wait()
            means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
            for parameter, mean in zip(bucket, means, strict=True):
                parameter.grad = mean.view_as(parameter)
        missing[:] = [len(bucket) for bucket in buckets]
        started.clear()

    for parameter in bucket_of:
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(note)
    return finish
