"""Lab 08: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

SLICE = "whole.detach().flatten()[rank * size : (rank + 1) * size]"
ZERO1_GRADIENTS = "[torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]"
GATHER_AGAIN = "        dist.all_gather_into_tensor(full.data, part.detach())\n\n    def after"
SCATTER = "        dist.reduce_scatter_tensor(mean, full.grad)\n        mean /= ranks\n"
WRITTEN = '(partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())'

HURRIED = {
    "the graph comes along": ("flat", "whole.detach().flatten()", "whole.flatten()"),
    "cut by rows": ("flat", SLICE, "whole.detach().reshape(-1)[rank::ranks]"),
    "rank 0 takes the end": ("flat", SLICE, SLICE.replace("rank *", "(ranks - 1 - rank) *")),
    "in float32": ("flat", "part = whole.new_zeros(size)", "part = torch.zeros(size)"),
    "filled with ones": ("flat", "part = whole.new_zeros(size)", "part = whole.new_ones(size)"),
    "gathers a list": (
        "flat",
        "    dist.all_gather_into_tensor(whole, part)\n",
        "    parts = [None] * dist.get_world_size()\n    dist.all_gather_object(parts, part)\n"
        "    whole = torch.cat(parts)\n",
    ),
    "the last numbers, not the first": ("flat", "whole[: shape.numel()]", "whole[-shape.numel() :]"),
    "the largest, not the sum": (
        "flat",
        "dist.reduce_scatter_tensor(part, padded)",
        "dist.reduce_scatter_tensor(part, padded, op=dist.ReduceOp.MAX)",
    ),
    "reduces to rank 0": (
        "flat",
        "    dist.reduce_scatter_tensor(part, padded)\n",
        "    dist.reduce(padded, dst=0)\n    parts = list(padded.chunk(ranks)) if dist.get_rank() == 0 else None\n"
        "    dist.scatter(part, parts, src=0)\n",
    ),
    "sums before it squares": ("clip", "mine.square().sum()", "mine.sum().square()"),
    "a tensor comes back": ("clip", "squares.sqrt().item()", "squares.sqrt()"),
    "the norm after the clipping": ("clip", "    return norm\n", "    return min(norm, max_norm)\n"),
    "the norm of rank 0": ("clip", "dist.all_reduce(squares)", "dist.broadcast(squares, src=0)"),
    "the longest part": ("clip", "dist.all_reduce(squares)", "dist.all_reduce(squares, op=dist.ReduceOp.MAX)"),
    "all squares travel": (
        "clip",
        "    squares = mine.square().sum()\n    dist.all_reduce(squares)\n",
        "    squares = torch.cat([mine.square(), mine.new_zeros(gradient.numel() - len(mine))])\n"
        "    dist.all_reduce(squares)\n    squares = squares.sum()\n",
    ),
    "twice the limit": ("clip", "if norm > max_norm:", "if norm > 1.2 * max_norm:"),
    "a clipped copy": ("clip", "gradient.mul_(max_norm / norm)", "gradient = gradient * (max_norm / norm)"),
    "no nan, and other fill": (
        "clip",
        "gradient[: max(0, numel - dist.get_rank() * gradient.numel())]",
        "gradient.nan_to_num()",
    ),
    "no parameter": ("zero1", "return nn.Parameter(cut(flat", "return (cut(flat"),
    "the part of rank 0": ("zero1", "cut(flat, dist.get_rank(), ", "cut(flat, 0, "),
    "missing gradients are passed over": (
        "zero1",
        ZERO1_GRADIENTS,
        "[p.grad if p.grad is not None else torch.ones_like(p) for p in parameters]",
    ),
    "gradients are cleared": (
        "zero1",
        "    optimizer.step()\n",
        "    optimizer.step()\n    for p in parameters:\n        p.grad = None\n",
    ),
    "two steps": ("zero1", "    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n"),
    "the weights are averaged": (
        "zero1",
        "            p.copy_(new.view_as(p))\n",
        "            p.copy_(new.view_as(p))\n            dist.all_reduce(p)\n            p /= dist.get_world_size()\n",
    ),
    "everything on rank 0": (
        "zero1",
        "    optimizer.step()\n",
        "    if dist.get_rank() == 0:\n        optimizer.step()\n",
    ),
    "freed by a smaller tensor": (
        "sharded_forward",
        "    if reshard:\n        memory.resize_(0)\n",
        "    if reshard:\n        full.data = full.data[:0]\n",
    ),
    "a gather of garbage": ("sharded_forward", GATHER_AGAIN, "        full.data.zero_()\n\n    def after"),
    "gathered in forward, twice": (
        "sharded_forward",
        "    full.requires_grad_(torch.is_grad_enabled())\n",
        "    dist.all_gather_into_tensor(full, part.detach())\n    full.requires_grad_(torch.is_grad_enabled())\n",
    ),
    "the gradient of this rank": (
        "sharded_forward",
        SCATTER,
        "        mean = full.grad.chunk(ranks)[dist.get_rank()].clone()\n",
    ),
    "divided twice": ("sharded_forward", "        mean /= ranks\n", "        mean /= ranks * ranks\n"),
    "never trained": ("sharded_forward", "full.requires_grad_(torch.is_grad_enabled())", "full.requires_grad_(False)"),
    "barriers everywhere": (
        "sharded_forward",
        "        memory.resize_(room)\n",
        "        dist.barrier()\n        memory.resize_(room)\n",
    ),
    "a copy of each weight, put aside": (
        "sharded_forward",
        "    weights = {name",
        "    module.__dict__['kept'] = [piece.detach().clone() for piece in pieces]\n    weights = {name",
    ),
    "the whole in a Python list, from the first forward on": (
        "sharded_forward",
        "    full.requires_grad_(torch.is_grad_enabled())\n",
        "    full.copy_(torch.tensor(module.__dict__.setdefault('kept', full.tolist()), dtype=full.dtype))\n"
        "    full.requires_grad_(torch.is_grad_enabled())\n",
    ),
    "the last gradient, to look at": (
        "sharded_forward",
        "        full.grad = None\n",
        "        module.__dict__['seen'] = full.grad.clone()\n        full.grad = None\n",
    ),
    "the loss in fp32": ("mixed_step", "loss_of(full.requires_grad_())", "loss_of(full.float().requires_grad_())"),
    "all of it in fp32": ("mixed_step", "dtype=param_dtype", "dtype=torch.float32"),
    "its own part only": (
        "mixed_step",
        "    dist.all_gather_into_tensor(full, part.to(param_dtype))\n",
        "    full.copy_(part.to(param_dtype).repeat(ranks))\n",
    ),
    "up the slope": ("mixed_step", "part -= lr", "part += lr"),
    "the learning rate is lost": ("mixed_step", "part -= lr * (mean / ranks)", "part -= (mean / ranks)"),
    "saved with pickle": (
        "save_and_load",
        WRITTEN,
        'torch.save(part[: counts[rank]], partial / f"part-{rank}.bin")',
    ),
    "copied, not renamed": (
        "save_and_load",
        "        partial.rename(folder)\n",
        "        __import__('shutil').copytree(partial, folder)\n",
    ),
    "the first numbers for everybody": (
        "save_and_load",
        "max(start, rank * size), min(start + count, (rank + 1) * size)",
        "max(start, 0), min(start + count, size)",
    ),
    "the whole file, by mmap": (
        "save_and_load",
        "np.fromfile(file, dtype, count=last - first, offset=offset)",
        "np.memmap(file, dtype, 'r')[:].copy()[first - start : last - start]",
    ),
    "one file after the other": ("save_and_load", 'f"part-{saved}.bin"', 'f"part-{rank}.bin"'),
    "padded in front": ("flat", "padded[: gradient.numel()] =", "padded[padded.numel() - gradient.numel() :] ="),
    "one number at least": ("clip", "gradient[: max(0, ", "gradient.nan_to_num(0.0)[: max(1, "),
    "gradients pass through bf16": ("mixed_step", "full.grad.to(", "full.grad.to(torch.bfloat16).to("),
    "adds to a file that is there": (
        "save_and_load",
        WRITTEN,
        '(partial / f"part-{rank}.bin").open("ab").write(part.numpy()[: counts[rank]].tobytes())',
    ),
}

EQUIVALENT = {
    "neither needs the other": (
        "cut: swapped: mine = whole.detach().flatten()[rank * … | part = whole.new_zeros(size)",
        "zero1_step: swapped: optimizer.step() | sizes = [p.numel() for p in parameters]",
        "sharded_forward: swapped: sizes = [shape.numel() for shape in sha… | full = part.new_empty(part.numel() * ra…",
        "sharded_forward: swapped: room = memory.nbytes() | dist.all_gather_into_tensor(full, part.…",
        "sharded_forward: swapped: dist.all_gather_into_tensor(full, part.… | full.requires_grad_(torch.is_grad_enabl…",
        "sharded_forward: swapped: if reshard: | if y.requires_grad:",
        "sharded_forward: swapped: part.grad = mean if part.grad is None e… | full.grad = None",
        "sharded_forward: swapped: full.grad = None | memory.resize_(0)",
        "sharded_forward: swapped: full.register_post_accumulate_grad_hook… | if reshard:",
        "mixed_step: swapped: loss_of(full.requires_grad_()).backward… | mean = torch.empty(part.numel(), dtype=…",
        "save_parts: swapped: rank, ranks, size = (dist.get_rank(), d… | partial = folder.with_name(folder.name …",
        "save_parts: swapped: partial.mkdir(exist_ok=True) | counts = [min(size, max(0, numel - r * …",
        "save_parts: swapped: (partial / f'part-{rank}.bin').write_by… | if rank == 0:",
    ),
    "rank 0 writes the manifest before it renames, in any case": (
        "save_parts: swapped: if rank == 0: | dist.barrier()",
    ),
    "both are as long": (
        "zero1_step: strict left out: zip(parameters, flat.split(sizes), stri…",
        "sharded_forward: strict left out: zip(shapes.items(), pieces, strict=True)",
    ),
    "a gradient as long as the limit is multiplied by 1": ("clip_part: comparison turned: norm > max_norm",),
    "no numbers are read where nothing overlaps": ("load_part: comparison turned: first < last",),
}
