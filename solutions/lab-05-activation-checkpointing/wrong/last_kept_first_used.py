"""The kept outputs are taken from the end of the list. Backward goes from the last operation to the first, but the
second run is a forward pass: it asks for the first output first."""

from exercises import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

EXERCISE = "checkpoint_selective"
FAILS = (
    "checkpoint_selective/gradients",
    "checkpoint_selective/runs",
    "checkpoint_selective/memory",
)
READ = "handbook/memory.md#keep-what-is-dear"


def checkpoint_selective(function, *inputs, keep):
    kept = []
    again = False

    class KeepOrReuse(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func not in keep:
                return func(*args, **(kwargs or {}))
            if again:
                return kept.pop().detach()
            kept.append(func(*args, **(kwargs or {})))
            return kept[-1]

    def run(*inputs):
        nonlocal again
        with KeepOrReuse():
            output = function(*inputs)
        again = True
        return output

    return checkpoint(run, *inputs)
