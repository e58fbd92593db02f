"""The buckets are filled in the order of the model. Backward completes the last layer first: the first bucket is then
full only at the very end, the others wait for it, and nothing overlaps."""

EXERCISE = "overlap"
FAILS = ("overlap/buckets",)
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def make_buckets(parameters, cap):
    buckets = []
    held = cap
    for parameter in [p for p in parameters if p.requires_grad]:
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(parameter)
        held += parameter.numel() * parameter.element_size()
    return buckets
