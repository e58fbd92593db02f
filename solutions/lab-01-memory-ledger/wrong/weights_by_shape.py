"""A kept tensor is taken for a weight because it has a weight's shape. A batch may have that shape by chance: compare
memory, by the address of the storage."""

import torch

EXERCISE = "saved_bytes"
FAILS = ("saved_bytes/square",)
READ = "handbook/forward-pass.md#a-linear-layer-keeps-its-input"


def saved_bytes(model, x):
    shapes = {size for p in model.parameters() for size in (p.shape, p.shape[::-1])}
    kept = {}

    def pack(tensor):
        if tensor.shape not in shapes:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    del output
    return sum(storage.nbytes() for storage in kept.values())
