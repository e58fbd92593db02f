"""The input is made to ask for a gradient before the model runs. Then layers that are frozen must pass gradients on to
it, and keep what that takes: measure the model as it is trained, not a neighbor of it."""

import torch

EXERCISE = "saved_bytes"
FAILS = ("saved_bytes/frozen",)
READ = "handbook/forward-pass.md#a-linear-layer-keeps-its-input"


def saved_bytes(model, x):
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x.detach().requires_grad_())
    del output
    return sum(storage.nbytes() for storage in kept.values())
