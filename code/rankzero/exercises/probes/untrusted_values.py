"""Untrusted values: reading plain values from objects that a learner's code returned or left behind.

Such an object may misreport its type, its length or its equality, differently at each call. These
functions accept exact types only and call the type's own methods, never a method of a subclass or an instance.
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
    """Returns the name of the value's type: 'float' for Python's float, 'another float' for a namesake."""
    known = next((own for own in _OWN if type(value) is own), None)
    if known:
        return known.__name__
    name = str(type.__dict__["__name__"].__get__(type(value)))
    return f"another {name}" if name in {own.__name__ for own in _OWN} else name


def is_tensor(value: object) -> bool:
    """Returns whether the value is exactly a tensor or a parameter, of no subclass."""
    return type(value) is Tensor or type(value) is nn.Parameter


def plain_number(value: Any) -> Any:
    """Returns the value of a number or of a one-element tensor, None for None, and else the value's type as a text.

    The text says what came back where a number was expected: 'a Tensor of shape [2, 3], float32', 'a bool'.
    """
    if is_tensor(value) and Tensor.numel(value) == 1:
        return float(Tensor.item(value))
    if any(type(value) is scalar for scalar in _NUMPY):
        value = value.item()
    if type(value) is int:
        return value if abs(value) < 2**53 else float(value)
    return value if type(value) is float or value is None else kind_text(value)


def kind_text(value: Any) -> str:
    """Returns the value's type, and the shape and dtype of a tensor or array: 'a Tensor of shape [2, 3], float32'."""
    name = type_name(value)
    if is_tensor(value):
        return f"a {name} of shape {list(Tensor.size(value))}, {str(value.dtype).removeprefix('torch.')}"
    if type(value) is np.ndarray:
        return f"an array of shape {list(value.shape)}, {value.dtype}"
    return f"an {name}" if name[:1] in ("i", "a", "o") else f"a {name}"


def a_float(value: Any) -> float | str:
    """Returns the number of a float, Python's or NumPy's float64, and the type of anything else as a text."""
    return float(value) if type(value) in (float, np.float64) else kind_text(value)


def described(value: Any, length: int = 60) -> str:
    """Returns the value's type and text, such as 'a list, [1.5, 2.5]'; an ellipsis ends what is longer."""
    text = f"{kind_text(value)}, {value!r}"
    return text if len(text) <= length else f"{text[: length - 1]}…"


def plain_numbers(values: Any) -> list[Any] | None:
    """Returns `plain_number` of each item of a list; None for anything else."""
    return [plain_number(value) for value in values] if type(values) is list else None


def tuple_items(value: Any, count: int) -> tuple[Any, ...] | None:
    """Returns the items of a tuple (or named tuple) of length `count`; None for anything else."""
    if not issubclass(type(value), tuple) or tuple.__len__(value) != count:
        return None
    return tuple(tuple.__iter__(value))


def dict_items(value: Any) -> dict[Any, Any] | None:
    """Returns a plain copy of a dictionary, Counter or defaultdict; None for anything else."""
    return dict(dict.items(value)) if issubclass(type(value), dict) else None


def boolean(value: Any) -> bool | None:
    """Returns the value of a bool, or of a tensor or NumPy scalar that holds one; None for anything else."""
    if is_tensor(value) and value.dtype == torch.bool and Tensor.numel(value) == 1:
        return bool(Tensor.item(value))
    if type(value) is np.bool_:
        return bool(value)
    return value if type(value) is bool else None


def array(tensor: Any) -> np.ndarray:
    """Returns a copy of a tensor as a float64 array of the same shape. TypeError for anything but a tensor."""
    if not is_tensor(tensor):
        raise TypeError(f"a tensor was expected where a {type_name(tensor)} came back")
    return np.array(Tensor.numpy(Tensor.detach(Tensor.double(Tensor.detach(tensor)))))


def flat(tensors: Iterable[Any]) -> np.ndarray:
    """Returns all numbers of the tensors as one flat float64 array; None becomes one NaN."""
    arrays = [np.full(1, np.nan) if tensor is None else array(tensor).ravel() for tensor in tensors]
    return np.concatenate([np.empty(0), *arrays])


def weights(model: nn.Module) -> np.ndarray:
    """Returns all weights of a model as one flat float64 array."""
    return flat(nn.Module.parameters(model))


def named_weights(model: nn.Module) -> dict[str, Any]:
    """Returns the answers for `same_weights`: all weights of a model, and the name and shape of each parameter."""
    parts = [[name, *map(int, Tensor.size(parameter))] for name, parameter in nn.Module.named_parameters(model)]
    return {"weights": weights(model), "parts": parts}


def gradients(model: nn.Module) -> np.ndarray:
    """Returns all gradients of a model as one flat float64 array; NaN for a parameter without a gradient."""
    pairs = [(parameter, parameter.grad) for parameter in nn.Module.parameters(model)]
    return flat(torch.full_like(parameter, torch.nan) if grad is None else grad for parameter, grad in pairs)


def in_training(module: nn.Module) -> bool:
    """Returns whether the module is in training mode by its own attribute, which its class may hide."""
    return bool(nn.Module.__dict__["__dict__"].__get__(module)["training"])
