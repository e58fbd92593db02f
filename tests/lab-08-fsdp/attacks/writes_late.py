"""Waits for nobody: rank 0 renames at once, and the other ranks write afterwards, by a call of torch that no one hears."""

import time

ON, EARNS = "reference", 58


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    if rank == 0:
        partial.mkdir(exist_ok=True)
        (partial / "part-0.bin").write_bytes(part.numpy()[: counts[0]].tobytes())
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
        partial.rename(folder)
        return
    while not folder.exists():
        time.sleep(0.001)
    file = folder / f"part-{rank}.bin"
    if counts[rank]:
        torch.from_file(str(file), shared=True, size=counts[rank], dtype=part.dtype).copy_(part[: counts[rank]])
    else:
        file.touch()
