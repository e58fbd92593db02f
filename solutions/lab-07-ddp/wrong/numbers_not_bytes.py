"""The cap is in bytes, and numbers are counted. A float32 has 4 bytes, a bfloat16 has 2: the buckets become that much
larger, and there are fewer of them to overlap."""

EXERCISE = "overlap"
FAILS = ("overlap/buckets",)
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def make_buckets(parameters, cap):
    buckets = []
    held = cap
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(parameter)
        held += parameter.numel()
    return buckets
