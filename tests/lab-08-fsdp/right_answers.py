"""Right answers to Lab 08 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT: dict[str, dict[str, str]] = {}

EQUIVALENT = {
    "the two statements are independent": (
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
    "rank 0 writes the manifest before the rename in both orders": (
        "save_parts: swapped: if rank == 0: | dist.barrier()",
    ),
    "the zipped lists have the same length": (
        "zero1_step: strict left out: zip(parameters, flat.split(sizes), stri…",
        "sharded_forward: strict left out: zip(shapes.items(), pieces, strict=True)",
    ),
    "a gradient whose norm is the limit is multiplied by 1": ("clip_part: comparison replaced: norm > max_norm",),
    "no numbers are read where nothing overlaps": ("load_part: comparison replaced: first < last",),
}
