"""Rank 0 renames the folder when rank 0 has written. The others may still be writing: their files are missing, or
end up in a folder that nobody renames."""

import json

import torch.distributed as dist

EXERCISE = "save_and_load"
FAILS = ("save_and_load/files", "save_and_load/complete")
READ = "handbook/sharding-and-zero.md#checkpoints"


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
    if rank == 0:
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    if rank == 0:
        partial.rename(folder)
