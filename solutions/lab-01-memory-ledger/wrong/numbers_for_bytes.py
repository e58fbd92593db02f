"""Numbers are counted, not bytes. A number takes 4 bytes in fp32 and 2 in bf16: multiply by element_size(), or ask
the storage for nbytes()."""

import torch

EXERCISE = "saved_bytes"
FAILS = (
    "saved_bytes/chain",
    "saved_bytes/views",
    "saved_bytes/as-found",
    "saved_bytes/half",
    "saved_bytes/square",
    "saved_bytes/frozen",
    "saved_bytes/whole-storage",
)
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
    return sum(storage.nbytes() // size for storage, size in kept.values())
