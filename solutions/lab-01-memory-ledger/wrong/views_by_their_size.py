"""Each tensor is counted by its own size, once for each address. A view keeps all of the memory it looks at alive,
however small a part it is; three views of one storage are one storage."""

import torch

EXERCISE = "saved_bytes"
FAILS = (
    "saved_bytes/views",
    "saved_bytes/whole-storage",
)
READ = "handbook/forward-pass.md#a-linear-layer-keeps-its-input"


def saved_bytes(model, x):
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def pack(tensor):
        address = tensor.untyped_storage().data_ptr()
        if address not in own:
            kept[address] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    del output
    return sum(tensor.numel() * tensor.element_size() for tensor in kept.values())
