"""Makes the folder under its final name and moves the files into it one by one, so a kill leaves a part of them there."""

ON, EARNS = "reference", 58


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
    if rank == 0:
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    dist.barrier()
    if rank == 0:
        folder.mkdir()
        for file in partial.iterdir():
            file.rename(folder / file.name)
        partial.rmdir()
