"""A bucket is closed before a parameter would take it over the cap. DDP closes it after: the cap is reached, not
kept. So a bucket can be larger than the cap by almost one parameter, and two frameworks with the same cap send
different sizes."""

EXERCISE = "overlap"
FAILS = ("overlap/buckets",)
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def make_buckets(parameters, cap):
    buckets, held = [], 0
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        size = parameter.numel() * parameter.element_size()
        if not buckets or held + size > cap:
            buckets.append([])
            held = 0
        buckets[-1].append(parameter)
        held += size
    return buckets
