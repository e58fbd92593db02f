"""The fill is written with the part, and counted. It belongs to this number of ranks: loaded on another number it
stands in the middle of the weights."""

import json

import torch.distributed as dist

EXERCISE = "save_and_load"
FAILS = ("save_and_load/files",)
READ = "handbook/sharding-and-zero.md#checkpoints"


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    counts = [size] * ranks
    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
    if rank == 0:
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    dist.barrier()
    if rank == 0:
        partial.rename(folder)
