"""Operations of an action: their number by name, the numbers that Python reads, whether the action raises."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Calls(TorchDispatchMode):
    """Counts the operations that reach the dispatcher, by name: on a GPU, about one kernel each."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.by_name[str(func).removeprefix("aten.").split(".")[0]] += 1
        return func(*args, **(kwargs or {}))

    @property
    def reads(self) -> int:
        """Numbers that were read from a tensor into Python."""
        return self.by_name["_local_scalar_dense"]


def calls_of(action: Callable[[], object]) -> Calls:
    """Runs an action and counts its operations."""
    with Calls() as calls:
        action()
    return calls


def raises(action: Callable[[], object], error: type[Exception] = RuntimeError) -> int:
    """Returns 1 if the action raises such an error, otherwise 0."""
    try:
        action()
    except error:
        return 1
    return 0
