"""Lab 07: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

CHUNKS = "chunks = tensor.view(-1).tensor_split(ranks)"
MINE = "mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]"
REDUCE = "        dist.all_reduce(parameter.grad)\n"
DIVIDE = "        parameter.grad.div_(dist.get_world_size())\n"
BROADCAST = "dist.broadcast(tensor.detach(), src=0)"
HOOK = "            parameter.register_post_accumulate_grad_hook(average)\n"
START = "        while len(started) < len(buckets) and missing[len(started)] == 0:\n            start_next()\n"
BACK = "                parameter.grad = mean.view_as(parameter)\n"
RESET = "        missing[:] = [len(bucket) for bucket in buckets]\n"
ORDER = "order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()"
PAD = "    while len(order) < each * ranks:\n        order += order[: each * ranks - len(order)]\n"
QUIET = "contextlib.nullcontext() if number == k else ddp.no_sync()"

HURRIED = {
    "rank 0's sum is broadcast": (
        "ring_all_reduce",
        "    " + CHUNKS,
        "    dist.reduce(tensor, 0)\n    dist.broadcast(tensor, 0)\n    return\n    " + CHUNKS,
    ),
    "everything is gathered": (
        "ring_all_reduce",
        "    " + CHUNKS,
        "    every = [torch.empty_like(tensor) for _ in range(ranks)]\n    dist.all_gather(every, tensor)\n"
        "    tensor.copy_(sum(every))\n    return\n    " + CHUNKS,
    ),
    "the ring runs the other way": (
        "ring_all_reduce",
        "        sending = dist.isend(mine, (rank + 1) % ranks)\n        dist.recv(received, (rank - 1) % ranks)\n",
        "        sending = dist.isend(mine, (rank - 1) % ranks)\n        dist.recv(received, (rank + 1) % ranks)\n",
    ),
    "chunks of the rounded-up length": (
        "ring_all_reduce",
        CHUNKS,
        "chunks = tensor.view(-1).split(-(-tensor.numel() // ranks))",
    ),
    "for two ranks only": (
        "ring_all_reduce",
        "    for step in range(2 * (ranks - 1)):",
        "    for step in range(2):",
    ),
    "the first dimension is cut": (
        "ring_all_reduce",
        "tensor.view(-1).tensor_split(ranks)",
        "tensor.tensor_split(ranks)",
    ),
    "sums in float32": ("ring_all_reduce", "theirs.add_(received)", "theirs.copy_(theirs.float() + received.float())"),
    "the sum is off by one chunk": ("ring_all_reduce", "(rank - step - 1) % ranks]", "(rank - step) % ranks]"),
    "only parameters that learn are sent": (
        "data_parallel",
        "(*model.parameters(), *model.buffers())",
        "(*(p for p in model.parameters() if p.dim() > 1), *model.buffers())",
    ),
    "the saved buffers are sent": (
        "data_parallel",
        "(*model.parameters(), *model.buffers())",
        "model.state_dict().values()",
    ),
    "the last rank's model": ("data_parallel", "src=0)", "src=dist.get_world_size() - 1)"),
    "the mean of all models": (
        "data_parallel",
        BROADCAST,
        "tensor = tensor.detach()\n        dist.all_reduce(tensor)\n        tensor /= dist.get_world_size()",
    ),
    "sent twice": ("data_parallel", REDUCE, REDUCE * 2),
    "divided after backward would be": (
        "data_parallel",
        DIVIDE,
        "        parameter.grad.mul_(1 / (dist.get_world_size() + 1))\n",
    ),
    "a loss hook": (
        "data_parallel",
        HOOK,
        "            parameter.register_hook(lambda slopes: dist.all_reduce(slopes))\n",
    ),
    "the largest gradient": ("data_parallel", REDUCE, REDUCE.replace("grad)", "grad, op=dist.ReduceOp.MAX)")),
    "once only": (
        "data_parallel",
        REDUCE,
        "        if hasattr(parameter, 'sent'):\n            return\n        parameter.sent = True\n" + REDUCE,
    ),
    "matrices only": (
        "data_parallel",
        "if parameter.requires_grad:",
        "if parameter.requires_grad and parameter.dim() > 1:",
    ),
    "buckets by number of parameters": ("overlap", "parameter.numel() * parameter.element_size()", "1"),
    "four bytes a number": ("overlap", "parameter.element_size()", "4"),
    "one large bucket": (
        "overlap",
        "buckets = make_buckets(model.parameters(), cap)",
        "buckets = make_buckets(model.parameters(), 10**9)",
    ),
    "waits for the bucket before": (
        "overlap",
        "        started.append((flat, work))\n",
        "        started.append((flat, work))\n        started[max(0, len(started) - 2)][1].wait()\n",
    ),
    "only the first step is averaged": ("overlap", RESET + "        started.clear()\n", ""),
    "missing gradients stay missing": (
        "overlap",
        BACK,
        "                parameter.grad = parameter.grad if parameter.grad is None else mean.view_as(parameter)\n",
    ),
    "added to the gradient": (
        "overlap",
        BACK,
        "                old = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad\n"
        "                parameter.grad = old + mean.view_as(parameter)\n",
    ),
    "no gradient is left out, by ones": ("overlap", "torch.zeros_like(p) if", "torch.ones_like(p) if"),
    "at most one bucket a hook": (
        "overlap",
        "        while len(started) < len(buckets) and",
        "        if len(started) < len(buckets) and",
    ),
    "the last bucket waits for finish": (
        "overlap",
        "while len(started) < len(buckets) and",
        "while len(started) < len(buckets) - 1 and",
    ),
    "hooks on frozen parameters": (
        "overlap",
        "    for parameter in bucket_of:\n",
        "    for parameter in model.parameters():\n",
    ),
    "tied ones counted twice": (
        "overlap",
        "make_buckets(model.parameters(), cap)",
        "make_buckets((p for _, p in model.named_parameters(remove_duplicate=False)), cap)",
    ),
    "in float32": ("overlap", "        work = dist", "        flat = flat.float()\n        work = dist"),
    "a generator comes back": (
        "shard",
        "    return order[rank : each * ranks : ranks]",
        "    return (order[n] for n in range(rank, each * ranks, ranks))",
    ),
    "drawn from the epoch alone": ("shard", "seed + epoch", "epoch"),
    "the seed times the epoch": ("shard", "seed + epoch", "seed * epoch"),
    "shuffled in numpy": (
        "shard",
        ORDER,
        "order = __import__('numpy').random.default_rng(seed + epoch).permutation(length).tolist()",
    ),
    "padding from the end": ("shard", "order[: each * ranks - len(order)]", "order[len(order) - each * ranks :]"),
    "shuffled after it is cut": (
        "shard",
        "    return order[rank : each * ranks : ranks]",
        "    mine = list(range(length))[rank::ranks]\n"
        "    return [mine[n] for n in torch.randperm(len(mine)).tolist()] if shuffle else mine",
    ),
    "both rounded down": ("shard", "-(-length // ranks)", "max(1, length // ranks)"),
    "the last but one sends": ("accumulate", QUIET, QUIET.replace("number == k", "number == k - 1")),
    "sends from the second on": ("accumulate", QUIET, QUIET.replace("number == k", "number > 1")),
    "averages the gradients itself": (
        "accumulate",
        "    dist.all_reduce(total)\n",
        "    for p in ddp.parameters():\n        dist.all_reduce(p.grad)\n        p.grad /= dist.get_world_size()\n"
        "    dist.all_reduce(total)\n",
    ),
    "the gradients are averaged by hand at the end": (
        "accumulate",
        "        with " + QUIET + ":\n"
        "            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k\n"
        "            loss.backward()\n"
        "        total += loss.detach()\n",
        "        with ddp.no_sync():\n"
        "            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k\n"
        "            loss.backward()\n"
        "        total += loss.detach()\n"
        "    for p in ddp.parameters():\n        dist.all_reduce(p.grad)\n        p.grad /= dist.get_world_size()\n",
    ),
    "the loss is averaged in every micro-batch": (
        "accumulate",
        "        total += loss.detach()\n    dist.all_reduce(total)\n",
        "        mine = loss.detach().clone()\n        dist.all_reduce(mine)\n        total += mine\n",
    ),
    "the last loss": ("accumulate", "total += loss.detach()", "total = loss.detach() * k"),
    "a tensor comes back": ("accumulate", "return total.item() /", "return total /"),
    "the largest loss": ("accumulate", "dist.all_reduce(total)", "dist.all_reduce(total, op=dist.ReduceOp.MAX)"),
    "the last micro-batch first": (
        "accumulate",
        "zip(x.chunk(k), y.chunk(k), strict=True)",
        "list(zip(x.chunk(k), y.chunk(k), strict=True))[::-1]",
    ),
    "all ranks' rows, as if they were gathered": (
        "accumulate",
        "micro_y.flatten()) / k",
        "micro_y.flatten()) / k * dist.get_world_size()",
    ),
    "one sequence at a time": (
        "accumulate",
        "zip(x.chunk(k), y.chunk(k), strict=True)",
        "zip(x.split(1), y.split(1), strict=True)",
    ),
    "only what a state_dict has": (
        "data_parallel",
        "(*model.parameters(), *model.buffers())",
        "model.state_dict().values()",
    ),
    "cut by chunk": ("ring_all_reduce", ".tensor_split(ranks)", ".chunk(ranks)"),
    "shares are sorted": (
        "shard",
        "return order[rank : each * ranks : ranks]",
        "return sorted(order[rank : each * ranks : ranks])",
    ),
}

RIGHT = {
    "begins with the chunk before its own": (
        "ring_all_reduce",
        "chunks = tensor.view(-1).tensor_split(ranks)",
        "chunks = tensor.view(-1).tensor_split(ranks)\n    chunks = (*chunks[-1:], *chunks[:-1])",
    )
}

EQUIVALENT = {
    "it is for the type checker": (
        "data_parallel: left out: assert parameter.grad is not None",
        "data_parallel: swapped: assert parameter.grad is not None | dist.all_reduce(parameter.grad)",
        "overlap: left out: assert work is not None",
        "overlap: swapped: assert work is not None | started.append((flat, work))",
    ),
    "neither needs the other": (
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
    "what is sent is not what is written into": ("ring_all_reduce: swapped: sending.wait() | if step < ranks - 1:",),
    "a part of a sum is as good as a sum of parts": (
        "data_parallel: swapped: dist.all_reduce(parameter.grad) | parameter.grad.div_(dist.get_world_size…",
    ),
    "both have the same length": (
        "overlap: strict left out: zip(buckets, started, strict=True)",
        "overlap: strict left out: zip(bucket, means, strict=True)",
        "accumulate: strict left out: zip(x.chunk(k), y.chunk(k), strict=True)",
    ),
    "what is too much is cut off at the end": ("shard: operator turned: each * ranks - len(order)",),
    "it is the default": ("accumulate: set_to_none left out: ddp.zero_grad(set_to_none=True)",),
}
