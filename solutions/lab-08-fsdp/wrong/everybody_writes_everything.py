"""Every rank gathers the whole and writes it: full state on every rank. N times the bytes on the disk, and the one
moment of the run at which the model must fit into one rank's memory."""

import json

import torch.distributed as dist

EXERCISE = "save_and_load"
FAILS = ("save_and_load/files", "save_and_load/sends-none")
READ = "handbook/sharding-and-zero.md#checkpoints"


def save_parts(folder, part, numel):
    rank, ranks, size = dist.get_rank(), dist.get_world_size(), part.numel()
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(exist_ok=True)
    counts = [min(size, max(0, numel - r * size)) for r in range(ranks)]
    whole = part.new_empty(size * ranks)
    dist.all_gather_into_tensor(whole, part)
    (partial / f"part-{rank}.bin").write_bytes(whole.numpy()[:numel].tobytes())
    if rank == 0:
        manifest = {"numel": numel, "dtype": str(part.numpy().dtype), "counts": counts}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    dist.barrier()
    if rank == 0:
        partial.rename(folder)
