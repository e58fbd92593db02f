"""Lab 14, exercises: an autograd engine, written by hand, and hooks into torch's own.

Eleven exercises, in the order of the page; later exercises call earlier ones. Replace the lines that raise
NotImplementedError; keep the signatures. The class Value is given: read it first. A gradient is dL/d(something), where
L is the sum of all numbers of the value on which `backward` is called. A float is Python's float, an array NumPy's.

    rankzero check 14                  # all of them
    rankzero check 14 backward         # one
    rankzero hint 14 backward          # when stuck
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Array = np.ndarray
Number = float | int


class Value:
    """An array in a computation, with its gradient and the values that it was computed from. Given: nothing to write.

    data     float32 or float64 array; a number is an array of shape ()
    grad     array of the same shape and dtype; zeros until `backward` adds to it
    parents  the values that it was computed from, in the order of the operation's arguments; none for an input
    vjp      vector-Jacobian product: a function that takes dL/d(this value), an array of the shape of `data`, and
             returns a tuple of arrays, dL/d(parent) for each parent; None for an input
    name     name of the operation, for drawings
    """

    __array_ufunc__ = None  # NumPy leaves array + value to Value.__radd__

    def __init__(
        self,
        data: Any,
        parents: tuple["Value", ...] = (),
        vjp: Callable[[Array], tuple[Array, ...]] | None = None,
        name: str = "",
    ) -> None:
        array = np.asarray(data)
        self.data = array if array.dtype == np.float32 else array.astype(np.float64, copy=False)
        self.grad = np.zeros_like(self.data)
        self.parents, self.vjp, self.name = parents, vjp, name

    def value(self, other: Any) -> "Value":
        """Returns the other operand of an operation; makes a number or an array a Value in this value's dtype."""
        return other if isinstance(other, Value) else Value(np.asarray(other, dtype=self.data.dtype))

    def __add__(self, other: Any) -> "Value":
        return add(self, self.value(other))

    def __radd__(self, other: Any) -> "Value":
        return add(self.value(other), self)

    def __mul__(self, other: Any) -> "Value":
        return multiply(self, self.value(other))

    def __rmul__(self, other: Any) -> "Value":
        return multiply(self.value(other), self)

    def __neg__(self) -> "Value":
        return multiply(self, self.value(-1.0))

    def __sub__(self, other: Any) -> "Value":
        return add(self, -self.value(other))

    def __rsub__(self, other: Any) -> "Value":
        return add(self.value(other), -self)

    def __pow__(self, exponent: Number) -> "Value":
        return power(self, exponent)

    def __truediv__(self, other: Any) -> "Value":
        return multiply(self, power(self.value(other), -1))

    def __rtruediv__(self, other: Any) -> "Value":
        return multiply(self.value(other), power(self, -1))

    def __matmul__(self, other: Any) -> "Value":
        return matmul(self, self.value(other))

    def backward(self) -> None:
        backward(self)

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"


# ------------------------------------------------------------------------------------------------------ the operations
def add(a: Value, b: Value) -> Value:
    """The sum a + b, number by number, with NumPy's broadcasting where the shapes differ.

    Returns a new Value with parents (a, b). Its vjp takes `g`, an array of the result's shape, and returns the tuple
    (dL/da, dL/db). Both have the result's shape; `backward` will sum them over the axes that were broadcast. `a` and
    `b` may be the same value. Their data and grad stay as they are, and so does `g`. All operations below work alike.

    With data 2.0 and 5.0 the result's data is 7.0, and vjp(3.0) returns (3.0, 3.0).
    Read: handbook/backpropagation.md, "Derivatives multiply along a path"
    """
    raise NotImplementedError("add is not written yet. A hint: rankzero hint 14 add")


def multiply(a: Value, b: Value) -> Value:
    """The product a * b, number by number, with NumPy's broadcasting where the shapes differ.

    With data 2.0 and 5.0 the result's data is 10.0, and vjp(3.0) returns (15.0, 6.0).
    """
    raise NotImplementedError("multiply is not written yet. A hint: rankzero hint 14 multiply")


def power(a: Value, exponent: Number) -> Value:
    """The power a ** exponent, number by number. `exponent` is an int or a float, not a Value: it gets no gradient.

    The result has the one parent `a`, and vjp returns a tuple of one array. If `exponent` is 0, the power is 1 and
    its derivative 0, also at a = 0. If `exponent` is 1, the derivative is 1, also at a = 0. If `exponent` is negative,
    no number of `a` is 0.

    With data 3.0 and exponent -2 the result's data is 1/9, and vjp(1.0) returns (-2/27,).
    """
    raise NotImplementedError("power is not written yet. A hint: rankzero hint 14 power")


def exp(a: Value) -> Value:
    """The exponential function of `a`, number by number.

    With data 0.0 the result's data is 1.0, and vjp(2.0) returns (2.0,).
    """
    raise NotImplementedError("exp is not written yet. A hint: rankzero hint 14 exp")


def tanh(a: Value) -> Value:
    """The hyperbolic tangent of `a`, number by number. Large numbers, at which exp would overflow, give 1 or -1.

    With data 0.0 the result's data is 0.0, and vjp(2.0) returns (2.0,).
    """
    raise NotImplementedError("tanh is not written yet. A hint: rankzero hint 14 tanh")


def relu(a: Value) -> Value:
    """The larger of 0 and each number of `a`. At 0, where it has no derivative, the gradient is 0, as in torch.

    With data [-1, 0, 2] the result's data is [0, 0, 2], and vjp([5, 5, 5]) returns ([0, 0, 5],).
    """
    raise NotImplementedError("relu is not written yet. A hint: rankzero hint 14 relu")


# ------------------------------------------------------------------------------------------------------------ the graph
def topological_order(root: Any) -> list[Any]:
    """The nodes that `root` was computed from, and `root` itself: each node once, and after all of its parents.

    A node is any object with `parents`, a tuple of nodes, which may contain a node twice; two nodes are the same only
    if they are the same object. Returns a list, `root` last. A chain of nodes may be longer than Python's limit of
    nested calls (sys.getrecursionlimit()), and there may be far more paths than nodes: the work is proportional to the
    number of nodes and parents. The nodes stay as they are.

    For y = (a * b) + a with the product p, both [a, b, p, y] and [b, a, p, y] are right.
    Read: handbook/backpropagation.md, "One backward pass gives every gradient"
    """
    raise NotImplementedError("topological_order is not written yet. A hint: rankzero hint 14 topological_order")


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of an array of shape `shape` that was broadcast to the shape of `gradient`.

    Broadcasting repeats an array along new axes in front and along axes of size 1. The gradient of a number is the sum
    over its repetitions. Returns an array of exactly `shape` and of the dtype of `gradient`; for the shape () a NumPy
    number, which np.sum returns, will do. `gradient` stays as it is.

    unbroadcast(np.ones((4, 2, 3)), (2, 1)) is [[12], [12]]: 4 * 3 repetitions of each of the two numbers.
    Read: handbook/backpropagation.md, "Gradients add where paths meet"
    """
    raise NotImplementedError("unbroadcast is not written yet. A hint: rankzero hint 14 unbroadcast")


def sum_over(a: Value, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Value:
    """The sum of `a` over one axis, over several, or over all of them (None), as np.sum computes it.

    An axis may be negative. With `keepdims` the summed axes stay, with size 1. The vjp of a sum is a broadcast: it
    returns a tuple of one array, which has the shape of `a`.

    For data of shape [2, 3] and axis=1, the result has shape [2], and vjp([10, 20]) is ([[10, 10, 10], [20, 20, 20]],).
    """
    raise NotImplementedError("sum_over is not written yet. A hint: rankzero hint 14 sum_over")


def backward(root: Value) -> None:
    """Adds to `grad` of `root`, and of every value that it was computed from, the gradient of the sum of `root`.

    Calls each value's vjp once, after all shares of its gradient are added up, with an array of the shape and dtype of
    its data. Each array that vjp returns is a share of a parent's gradient: it is reduced to the parent's shape by
    `unbroadcast`, and converted to the parent's dtype. A value that is used several times gets the sum of its shares.
    A second call adds exactly the same again to every `grad`, of inputs and of intermediate results. No two values'
    grads share memory. Arrays that a vjp got or returned stay as they are, as does all data. A chain of thousands of
    values raises no RecursionError.

    For y = a * a + a with a = 3.0, backward(y) makes y.grad 1.0 and a.grad 7.0; a second backward(y) makes them 2.0
    and 14.0.
    Read: handbook/backpropagation.md, "Gradients add up in p.grad"
    """
    raise NotImplementedError("backward is not written yet. A hint: rankzero hint 14 backward")


# ----------------------------------------------------------------------------------------------------------- the layers
def matmul(a: Value, b: Value) -> Value:
    """The matrix product a @ b, as np.matmul computes it.

    Matrices [n, m] and [m, k] give [n, k]. More axes in front are a batch of matrices, and are broadcast. An operand
    with a single axis, [m], counts as a matrix: [1, m] on the left, [m, 1] on the right; the result lacks the axis that
    was added. The vjp returns a tuple of two arrays, dL/da and dL/db: the axes of the batch in front, as the result has
    them, then the axes of `a` or `b` without its batch. `backward` will sum over the batch where it was broadcast.

    With a = [[1, 2]] and b = [[3], [4]] the result's data is [[11]], and vjp([[1]]) returns ([[3, 4]], [[1], [2]]).
    Read: handbook/backpropagation.md, "Two matrix products per linear layer"
    """
    raise NotImplementedError("matmul is not written yet. A hint: rankzero hint 14 matmul")


def cross_entropy(logits: Value, labels: Array) -> Value:
    """The mean over a batch of -log(probability of the right class), as one operation with its own vjp.

    `logits` [B, V] are scores of V classes for B examples; softmax turns them into probabilities. `labels` [B] are
    ints, the right classes. Logits may be in the thousands, where exp overflows; the result and its gradient must still
    be finite. Returns a Value of shape () with the one parent `logits`. Its vjp may be called more than once.

    With logits [[0, 0]] and labels [1] the result's data is log 2, and vjp(1.0) returns ([[0.5, -0.5]],).
    Read: handbook/loss-functions.md
    """
    raise NotImplementedError("cross_entropy is not written yet. A hint: rankzero hint 14 cross_entropy")


def gradient_check(function: Callable[..., Value], arrays: Sequence[Array], step: float = 1e-6) -> float:
    """The largest disagreement between `backward` and central differences, over all numbers of all `arrays`.

    `function` takes one Value per array, all float64, and returns a Value of shape (); called again with the same
    numbers, it returns the same. The central difference of one number x is (f(x + step) - f(x - step)) / (2 step),
    while all other numbers stay. The disagreement is |gradient - difference| / max(1, |difference|). Returns the
    largest disagreement as a Python float; nan if any of them is nan. The arrays stay as they are, bit for bit.

    For x ** 3 at [1.0, 2.0] it is below 1e-8; with a wrong vjp, which returns 2 x ** 2, it is about 0.33.
    Read: handbook/backpropagation.md, "Check a gradient with finite differences"
    """
    raise NotImplementedError("gradient_check is not written yet. A hint: rankzero hint 14 gradient_check")


# ---------------------------------------------------------------------------------------------- hooks into torch's own
def layer_statistics(model: nn.Module, *inputs: Tensor) -> list[tuple[str, float, float, float]]:
    """Runs `model(*inputs)` once, and returns statistics of the output of each layer, by forward hooks.

    A layer is a module without modules in it. Returns one tuple per call of a layer, in the order of the calls: the
    layer's name in model.named_modules(), and its output's mean, standard deviation (the variance divides by the count,
    not by the count minus 1) and fraction of zeros, Python floats computed in float64. An output that is not a tensor
    of floating-point numbers is left out. The model stays in its mode, training or evaluation, and runs without a
    graph. Afterwards, also after an error, no hook is left that was not there before.

    For nn.Sequential(nn.ReLU()) and the input [-1.0, 3.0]: [("0", 1.5, 1.5, 0.5)].
    Read: handbook/backpropagation.md, "Hooks that look and hooks that change"
    """
    raise NotImplementedError("layer_statistics is not written yet. A hint: rankzero hint 14 layer_statistics")


@contextmanager
def clip_layer_gradient(layer: nn.Module, max_norm: float) -> Iterator[list[float]]:
    """Limits, inside a `with` block, the norm of the gradient of the output of `layer`, in each backward pass.

    The output is a single tensor. A gradient with a norm above `max_norm` is multiplied by max_norm / norm before the
    gradients of the layer's weights and of earlier layers are computed from it; any other gradient stays as it is. The
    hook changes no tensor in place. The `with` statement's `as` variable is a list, to which each pass appends the norm
    before clipping, a Python float. After the block, also after an error in it, the hook is removed; other hooks of the
    layer stay.

    With max_norm=1.0 and dL/d(output) = [3.0, 4.0], the gradient becomes [0.6, 0.8], and the list is [5.0].
    Read: handbook/backpropagation.md, "Hooks that look and hooks that change"
    """
    raise NotImplementedError("clip_layer_gradient is not written yet. A hint: rankzero hint 14 clip_layer_gradient")


@contextmanager
def patch_activations(block: nn.Module, replacement: Tensor, positions: Sequence[int] | None = None) -> Iterator[None]:
    """Replaces the output of `block`, inside a `with` block, by `replacement` at the given positions of the sequence.

    The output and `replacement` are [B, T, C]. `positions` are indices on the axis T, which may be negative; None means
    all positions. Every call of the block within the `with` is patched. Neither the block's own output nor
    `replacement` is changed in place. Gradients reach the block through the positions that are not replaced, and
    `replacement` through those that are. After the `with`, also after an error in it, the block gives its own output
    again; other hooks of the block stay.

    The output [[[1.0], [2.0]]] with the replacement [[[8.0], [9.0]]] at the positions [-1] becomes [[[1.0], [9.0]]].
    Read: handbook/backpropagation.md, "Hooks that look and hooks that change"
    """
    raise NotImplementedError("patch_activations is not written yet. A hint: rankzero hint 14 patch_activations")
