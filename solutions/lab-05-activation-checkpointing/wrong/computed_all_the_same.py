"""The second run takes the kept output off the list, and computes it as well. The memory is spent and the time is
too."""

from exercises import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

EXERCISE = "checkpoint_selective"
FAILS = ("checkpoint_selective/runs",)
READ = "handbook/memory.md#keep-what-is-dear"


def checkpoint_selective(function, *inputs, keep):
    kept = []
    again = False

    class KeepOrReuse(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func not in keep:
                return func(*args, **(kwargs or {}))
            if again:
                func(*args, **(kwargs or {}))
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
