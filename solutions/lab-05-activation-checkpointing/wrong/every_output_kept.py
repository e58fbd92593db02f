"""Every operation's output is kept, whatever `keep` says. Nothing is computed twice, and more is kept than without
checkpointing: outputs that no derivative reads, too."""

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
            if func is torch.ops.aten.addmm.default or func is torch.ops.aten.gelu.default:
                if again:
                    return kept.pop(0).detach()
                kept.append(func(*args, **(kwargs or {})))
                return kept[-1]
            return func(*args, **(kwargs or {}))

    def run(*inputs):
        nonlocal again
        with KeepOrReuse():
            output = function(*inputs)
        again = True
        return output

    return checkpoint(run, *inputs)
