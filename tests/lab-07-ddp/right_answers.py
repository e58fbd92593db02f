"""Right answers to Lab 07 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "ring_all_reduce": {
        "begins with the chunk of the rank before": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.view(-1).tensor_split(ranks)
+    chunks = (*chunks[-1:], *chunks[:-1])  # views: what is written into them is written into tensor
""",
    },
}

EQUIVALENT = {
    "the assertion is for the type checker": (
        "data_parallel: left out: assert parameter.grad is not None",
        "data_parallel: swapped: assert parameter.grad is not None | dist.all_reduce(parameter.grad)",
        "overlap: left out: assert work is not None",
        "overlap: swapped: assert work is not None | started.append((flat, work))",
    ),
    "the two statements are independent": (
        "ring_all_reduce: swapped: received = torch.empty_like(theirs) | sending = dist.isend(mine, (rank + 1) %…",
        "make_buckets: swapped: buckets: list[list[nn.Parameter]] = [] | held = cap",
        "make_buckets: swapped: buckets[-1].append(parameter) | held += parameter.numel() * parameter.e…",
        "make_buckets: swapped: buckets.append([]) | held = 0",
        "overlap: swapped: bucket_of = {parameter: number for numb… | missing = [len(bucket) for bucket in bu…",
        "overlap: swapped: missing = [len(bucket) for bucket in bu… | started: list[tuple[Tensor, dist.Work]]…",
        "overlap: swapped: for bucket, (flat, work) in zip(buckets… | missing[:] = [len(bucket) for bucket in…",
        "overlap: swapped: missing[:] = [len(bucket) for bucket in… | started.clear()",
        "shard: swapped: if shuffle: | each = length // ranks if drop_last els…",
        "accumulate: swapped: ddp.zero_grad(set_to_none=True) | total = torch.zeros(())",
    ),
    "the sent chunk is not the written chunk": ("ring_all_reduce: swapped: sending.wait() | if step < ranks - 1:",),
    "dividing before or after the sum gives the same gradient": (
        "data_parallel: swapped: dist.all_reduce(parameter.grad) | parameter.grad.div_(dist.get_world_size…",
    ),
    "the zipped lists have the same length": (
        "overlap: strict left out: zip(buckets, started, strict=True)",
        "overlap: strict left out: zip(bucket, means, strict=True)",
        "accumulate: strict left out: zip(x.chunk(k), y.chunk(k), strict=True)",
    ),
    "the list is cut to its length at the end": ("shard: operator replaced: each * ranks - len(order)",),
    "the argument is the default": ("accumulate: set_to_none left out: ddp.zero_grad(set_to_none=True)",),
}
