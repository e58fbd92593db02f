"""All ranks write the same manifest to the same place at the same time. Most often that ends well. Two writers of
one file can also leave one that is neither's: what is one for all is one rank's to write."""

import json

import torch.distributed as dist

EXERCISE = "save_and_load"
FAILS = ("save_and_load/files",)
READ = "handbook/sharding-and-zero.md#checkpoints"


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
    if True:
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    dist.barrier()
    if rank == 0:
        partial.rename(folder)
