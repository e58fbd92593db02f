"""The model is put into evaluation mode first. Dropout then keeps no mask, so what is counted is not what training
keeps, and whoever goes on training does so without dropout."""

import torch

EXERCISE = "saved_bytes"
FAILS = ("saved_bytes/as-found",)
READ = "handbook/forward-pass.md#what-other-layers-keep"


def saved_bytes(model, x):
    model.eval()
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    del output
    return sum(storage.nbytes() for storage in kept.values())
