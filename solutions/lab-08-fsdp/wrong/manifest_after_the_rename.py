"""The manifest is written when the folder has its name, as a seal on it. Killed between the two, the run leaves a
folder with a good name and all parts, which nobody can load. What says that a save is complete is the name, so all
that belongs to it is written before."""

import json

import torch.distributed as dist

EXERCISE = "save_and_load"
FAILS = ("save_and_load/complete",)
READ = "handbook/sharding-and-zero.md#checkpoints"


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
    dist.barrier()
    if rank == 0:
        partial.rename(folder)
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (folder / "manifest.json").write_text(json.dumps(manifest))
