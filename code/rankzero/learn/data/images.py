"""torchvision, imported also where its compiled operators do not load.

A torchvision from the main package index is compiled for the CUDA build of torch. Beside a CPU build its compiled
operators do not load, and `import torchvision` stops at `operator torchvision::nms does not exist`. Datasets,
transforms and models need no compiled operator: declaring the names that the import looks for is enough for them.
"""

import importlib
from types import ModuleType

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a Library object unregisters its schemas when it is collected


def import_torchvision() -> tuple[ModuleType, bool]:
    """Returns torchvision, and whether the import had to be repaired: then box operators such as `nms` do not work.

    ImportError where it is not installed, or fails in another way.
    """
    if _declared:
        return importlib.import_module("torchvision"), True
    try:
        return importlib.import_module("torchvision"), False
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise ImportError(f"torchvision does not load: {error}") from error
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)
    return importlib.import_module("torchvision"), True
