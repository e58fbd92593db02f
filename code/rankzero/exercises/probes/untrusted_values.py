"""Plain values of what a learner's code returned or left behind, for probes.

It may be an object that lies: about its type, its length, what it equals, or otherwise each time it is asked. So these
insist on exact types and call the type's own methods, never one that a subclass or an instance put in its place.
"""

from collections.abc import Iterable
from types import NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_OWN = (float, int, bool, str, list, tuple, dict, set, NoneType, complex, Tensor, nn.Parameter)
_NUMPY = (np.float64, np.float32, np.float16, np.int64, np.int32, np.bool_)


def type_name(value: object) -> str:
    """The name of its type: 'float' is Python's float, and no class that somebody called so."""
    known = next((one for one in _OWN if type(value) is one), None)
    if known:
        return known.__name__
    name = str(type.__dict__["__name__"].__get__(type(value)))
    return f"another {name}" if name in {one.__name__ for one in _OWN} else name


def is_tensor(value: object) -> bool:
    """Whether it is a tensor or parameter, and of no class of somebody's own."""
    return type(value) is Tensor or type(value) is nn.Parameter


def plain_number(value: Any) -> int | float | None:
    """The value of a number or of a one-element tensor; None for anything else, a bool among them."""
    if is_tensor(value) and Tensor.numel(value) == 1:
        return float(Tensor.item(value))
    if any(type(value) is one for one in _NUMPY):
        value = value.item()
    if type(value) is int:
        return value if abs(value) < 2**53 else float(value)
    return value if type(value) is float else None


def plain_numbers(values: Any) -> list[int | float | None] | None:
    """The same for a list; None for anything else."""
    return [plain_number(value) for value in values] if type(values) is list else None


def tuple_items(value: Any, count: int) -> tuple[Any, ...] | None:
    """What a tuple of `count` holds, a named one among them; None for anything else."""
    if not issubclass(type(value), tuple) or tuple.__len__(value) != count:
        return None
    return tuple(tuple.__iter__(value))


def dict_items(value: Any) -> dict[Any, Any] | None:
    """What a dictionary holds, a Counter or defaultdict among them; None for anything else."""
    return dict(dict.items(value)) if issubclass(type(value), dict) else None


def boolean(value: Any) -> bool | None:
    """The value of a bool, or of a tensor or NumPy scalar that holds one; None for anything else."""
    if is_tensor(value) and value.dtype == torch.bool and Tensor.numel(value) == 1:
        return bool(Tensor.item(value))
    if type(value) is np.bool_:
        return bool(value)
    return value if type(value) is bool else None


def array(tensor: Any) -> np.ndarray:
    """A copy of a tensor's numbers, in float64 and its shape. TypeError for anything but a tensor."""
    if not is_tensor(tensor):
        raise TypeError(f"a tensor was expected where a {type_name(tensor)} came back")
    return np.array(Tensor.numpy(Tensor.detach(Tensor.double(Tensor.detach(tensor)))))


def flat(tensors: Iterable[Any]) -> np.ndarray:
    """All numbers of the tensors in one float64 array; one nan for None."""
    every = [np.full(1, np.nan) if one is None else array(one).ravel() for one in tensors]
    return np.concatenate([np.empty(0), *every])


def weights(model: nn.Module) -> np.ndarray:
    """All of a model's weights in one float64 array."""
    return flat(nn.Module.parameters(model))


def gradients(model: nn.Module) -> np.ndarray:
    """All of its gradients in one float64 array; nan where there is none."""
    every = [(one, one.grad) for one in nn.Module.parameters(model)]
    return flat(torch.full_like(one, torch.nan) if grad is None else grad for one, grad in every)


def in_training(module: nn.Module) -> bool:
    """Whether the module is in training mode: as the instance has it, whatever class it claims to be of by now."""
    return bool(nn.Module.__dict__["__dict__"].__get__(module)["training"])
