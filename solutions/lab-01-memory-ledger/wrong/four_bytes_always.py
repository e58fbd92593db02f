"""Every number is taken to have 4 bytes. In bf16 it has 2: ask the tensor for element_size(), or its storage for
nbytes()."""

import torch

EXERCISE = "saved_bytes"
FAILS = ("saved_bytes/half",)
READ = "handbook/forward-pass.md#a-linear-layer-keeps-its-input"


def saved_bytes(model, x):
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage, tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    del output
    return sum(4 * storage.nbytes() // size for storage, size in kept.values())
