"""The model's weights are counted. Backward reads them too, so autograd keeps them, but they are there anyway:
they are no cost of this batch."""

import torch

EXERCISE = "saved_bytes"
FAILS = (
    "saved_bytes/chain",
    "saved_bytes/as-found",
)
READ = "handbook/forward-pass.md#a-linear-layer-keeps-its-input"


def saved_bytes(model, x):
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    del output
    return sum(storage.nbytes() for storage in kept.values())
