"""Every save is added up, though several operations may keep the same memory: the output of one layer is the input
of the next. Count each storage once."""

import torch

EXERCISE = "saved_bytes"
FAILS = (
    "saved_bytes/chain",
    "saved_bytes/views",
)
READ = "handbook/forward-pass.md#a-linear-layer-keeps-its-input"


def saved_bytes(model, x):
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = []

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept.append(tensor.untyped_storage())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    del output
    return sum(storage.nbytes() for storage in kept)
