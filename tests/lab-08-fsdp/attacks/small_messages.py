"""Sends all weights to rank 0, by many messages of few numbers each, and rank 0 alone writes all files."""

ON, EARNS = "reference", 57


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    every = torch.zeros(ranks, size, dtype=part.dtype)
    for start in range(0, size, 50):
        piece = part[start : start + 50].clone()
        pieces = torch.empty(ranks * len(piece), dtype=part.dtype)
        dist.all_gather_into_tensor(pieces, piece)
        every[:, start : start + 50] = pieces.view(ranks, -1)
    if rank == 0:
        partial = folder.with_name(folder.name + ".partial")
        partial.mkdir(exist_ok=True)
        for r in range(ranks):
            (partial / f"part-{r}.bin").write_bytes(every[r].numpy()[: counts[r]].tobytes())
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
        partial.rename(folder)
    dist.barrier()
