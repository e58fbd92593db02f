"""Lab 04: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

ZIPPED = "zip(x.chunk(k), y.chunk(k), strict=True)"
MARKED = "scored = sum(int((y != -100).sum())"
SUMMED = "        summed = F.cross_entropy"
GROUP = "        total = 0.0\n        for x, y in group:\n"
REPORT = "        losses.append(total)\n"
CLIP = "    norm = clip_gradients(model.parameters(), max_norm)\n"
SIGNAL = "sum(one for one, _ in estimates) / len(estimates)"

HURRIED = {
    "the last part is forgotten": ("accumulate", ZIPPED, "list(zip(x.chunk(k), y.chunk(k)))[:-1]"),
    "the sequences are cut, not the batch": ("accumulate", ZIPPED, "zip(x.chunk(k, 1), y.chunk(k, 1))"),
    "every k-th sequence": ("accumulate", ZIPPED, "((x[i::k], y[i::k]) for i in range(k))"),
    "one sequence at a time": ("accumulate", ZIPPED, "zip(x.split(1), y.split(1), strict=True)"),
    "keeps the losses and their graphs": (
        "accumulate",
        "        loss.backward()\n        total += loss.item()\n    return total\n",
        "        loss.backward(retain_graph=True)\n        total = total + loss\n    return total.item()\n",
    ),
    "on a copy of the model": (
        "accumulate",
        "    model.zero_grad(set_to_none=True)\n    total = 0.0\n    for micro_x",
        "    model = __import__('copy').deepcopy(model)\n    total = 0.0\n    for micro_x",
    ),
    "in float32": ("accumulate", "model(micro_x).flatten(0, 1)", "model(micro_x).flatten(0, 1).float()"),
    "divides by sequences": ("accumulate", "micro_y.flatten()) / k", "micro_y.flatten()) / len(x)"),
    "updates by hand": (
        "accumulate",
        "        total += loss.item()\n    return total\n",
        "        total += loss.item()\n    for p in model.parameters():\n        p.data -= 1e-3 * p.grad\n"
        "    return total\n",
    ),
    "counts the inputs": ("accumulate_tokens", MARKED + " for _, y", "scored = sum(int((x != 0).sum()) for x, y"),
    "stops at the first that is empty": (
        "accumulate_tokens",
        SUMMED,
        "        if (y == -100).all():\n            break\n" + SUMMED,
    ),
    "long ones first": (
        "accumulate_tokens",
        "    for x, y in micro_batches:\n" + SUMMED,
        "    for x, y in sorted(micro_batches, key=lambda pair: -pair[0].numel()):\n" + SUMMED,
    ),
    "padding is written into the inputs": (
        "accumulate_tokens",
        "    for x, y in micro_batches:\n" + SUMMED,
        "    for x, y in micro_batches:\n        x = x.masked_fill(y == -100, 0)\n" + SUMMED,
    ),
    "reads everything for its length": (
        "train_epoch",
        "    stream = iter(micro_batches)\n    while group",
        "    micro_batches = list(micro_batches)\n    stream = iter(micro_batches)\n    while group",
    ),
    "one left over is dropped": (
        "train_epoch",
        "        optimizer.zero_grad(set_to_none=True)\n" + GROUP,
        "        if len(group) == 1 < k:\n            break\n        optimizer.zero_grad(set_to_none=True)\n" + GROUP,
    ),
    "losses pile up": ("train_epoch", GROUP, GROUP.replace("0.0", "sum(losses)")),
    "returns tensors": ("train_epoch", REPORT, "        losses.append(loss.detach() * 0 + total)\n"),
    "two updates a group": (
        "train_epoch",
        "        optimizer.step()\n" + REPORT,
        "        optimizer.step()\n" * 2 + REPORT,
    ),
    "the embedding is not clipped": (
        "clip_once",
        CLIP,
        CLIP.replace("model.parameters()", "list(model.parameters())[1:]"),
    ),
    "the limit is always 1": ("clip_once", CLIP, CLIP.replace("max_norm)", "1.0)")),
    "torch clips": (
        "clip_once",
        "    gradients = [p.grad for p in parameters if p.grad is not None]\n",
        "    return float(nn.utils.clip_grad_norm_(parameters, max_norm))\n    gradients = []\n",
    ),
    "clips twice, returns the second": ("clip_once", CLIP, CLIP * 2),
    "each tensor has the whole limit": (
        "clip_once",
        CLIP,
        "    norm = math.hypot(*(clip_gradients([p], max_norm) for p in model.parameters()))\n",
    ),
    "one batch of all": (
        "clip_once",
        "    for x, y in micro_batches:\n        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())\n"
        "        (loss / len",
        "    x, y = (torch.cat(every) for every in zip(*micro_batches, strict=True))\n"
        "    for _ in range(1):\n        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())\n"
        "        (loss / 1 ** len",
    ),
    "clips from twice the limit on": ("clip_once", "if norm > max_norm:", "if norm > 2 * max_norm:"),
    "passes run into each other": ("schedule", "in epochs:", "in [itertools.chain(*epochs)]:"),
    "the rate of the last group": ("schedule", 'param_groups[0]["lr"]', 'param_groups[-1]["lr"]'),
    "passes are lists": (
        "schedule",
        "    for epoch in epochs:\n        stream = iter(epoch)",
        "    for epoch in epochs:\n        stream = iter(list(epoch))",
    ),
    "rounds to the nearest": ("schedule", "math.ceil(micro_batches / k)", "round(micro_batches / k)"),
    "moves twice": ("schedule", "            scheduler.step()\n", "            scheduler.step()\n" * 2),
    "no negative signal": ("noise_scale", "return signal, noise", "return max(signal, 0.0), noise"),
    "no negative signal in the average": (
        "noise_scale",
        SIGNAL,
        "sum(max(one, 0.0) for one, _ in estimates) / len(estimates)",
    ),
    "steps with more rows count more": (
        "noise_scale",
        "    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]\n",
        "    estimates = [noise_estimates(every, micro_batch) for every in steps for _ in every]\n",
    ),
    "the median step": ("noise_scale", SIGNAL, "sorted(one for one, _ in estimates)[len(estimates) // 2]"),
    "the first row is the small batch": (
        "noise_scale",
        "gradients.square().sum(1).mean()",
        "gradients[0].square().sum()",
    ),
    "the loss of a second look": (
        "accumulate",
        "        total += loss.item()\n    return total\n",
        "        total += F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()).item() / k\n"
        "    return total\n",
    ),
    "the largest gradient is the norm": (
        "clip_once",
        "math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))",
        "max(gradient.abs().max().item() for gradient in gradients)",
    ),
    "the rate from before any schedule": ("schedule", 'optimizer.param_groups[0]["lr"]', "scheduler.base_lrs[0]"),
}

RIGHT = {
    "calls forward": ("accumulate", "model(micro_x)", "model.forward(micro_x)"),
    "a named tuple": (
        "noise_scale",
        "return signal, noise",
        "return __import__('collections').namedtuple('Estimates', ['signal', 'noise'])(signal, noise)",
    ),
}

EQUIVALENT = {
    "it is the default": (
        "accumulate: set_to_none left out: model.zero_grad(set_to_none=True)",
        "accumulate_tokens: set_to_none left out: model.zero_grad(set_to_none=True)",
        "accumulate_tokens: ignore_index left out: F.cross_entropy(model(x).flatten(0, 1),…",
        "train_epoch: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
        "clipped_update: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
    ),
    "both have k parts, since k divides the batch": (
        "accumulate: strict left out: zip(x.chunk(k), y.chunk(k), strict=True)",
    ),
    "neither needs the other": (
        "accumulate: swapped: model.zero_grad(set_to_none=True) | total = 0.0",
        "accumulate: swapped: loss.backward() | total += loss.item()",
        "accumulate_tokens: swapped: model.zero_grad(set_to_none=True) | scored = sum((int((y != -100).sum()) fo…",
        "accumulate_tokens: swapped: scored = sum((int((y != -100).sum()) fo… | total = 0.0",
        "accumulate_tokens: swapped: (summed / scored).backward() | total += summed.item()",
        "train_epoch: swapped: losses: list[float] = [] | stream = iter(micro_batches)",
        "train_epoch: swapped: optimizer.zero_grad(set_to_none=True) | total = 0.0",
        "train_epoch: swapped: optimizer.step() | losses.append(total)",
        "train_epoch: swapped: loss.backward() | total += loss.item()",
        "noise_estimates: swapped: small, big = (micro_batch, len(gradient… | norm_small = gradients.square().sum(1).…",
        "noise_estimates: swapped: norm_small = gradients.square().sum(1).… | norm_big = gradients.mean(0).square().s…",
        "noise_scale: swapped: signal = sum((one for one, _ in estimat… | noise = sum((one for _, one in estimate…",
    ),
    "an update does not move the rate": (
        "train_scheduled: swapped: rates.append(optimizer.param_groups[0][… | train_epoch(model, optimizer, group, k)",
    ),
    "a gradient as long as the limit is multiplied by 1": ("clip_gradients: comparison turned: norm > max_norm",),
    "no estimate is exactly 0": ("noise_scale: comparison turned: signal > 0",),
}
