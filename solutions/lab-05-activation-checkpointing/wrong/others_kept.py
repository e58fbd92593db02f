"""The condition is the wrong way round: what is not in `keep` is kept, and what is in it runs again. The policy is
turned into its opposite, with the dear operations done twice."""

import torch
from exercises import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

EXERCISE = "checkpoint_selective"
FAILS = (
    "checkpoint_selective/runs",
    "checkpoint_selective/memory",
)
READ = "handbook/memory.md#keep-what-is-dear"


def checkpoint_selective(function, *inputs, keep):
    kept = []
    again = False

    class KeepOrReuse(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in keep or func not in (torch.ops.aten.addmm.default, torch.ops.aten.gelu.default):
                return func(*args, **(kwargs or {}))
            if again:
                return kept.pop(0).detach()
            kept.append(func(*args, **(kwargs or {})))
            return kept[-1]

    def run(*inputs):
        nonlocal again
        with KeepOrReuse():
            output = function(*inputs)
        again = True
        return output

    return checkpoint(run, *inputs)
