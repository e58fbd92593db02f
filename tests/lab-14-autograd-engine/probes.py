"""Probes of Lab 14: each calls the learner's code on random inputs, and returns its results as plain values.

An operation is called on several cases; every answer about it is a list with an item per case. Most is computed in
float64, where right computations agree to about 1e-13.
"""

import math
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankzero.exercises.probes.untrusted_values import (
    flat,
    gradients,
    kind_text,
    plain_number,
    tuple_items,
    type_name,
)
from rankzero.learn.models.gpt import GPT, GPTConfig

Array = np.ndarray
Shape = tuple[int, ...]


def plain(value: Any) -> Any:
    """Returns a copy of a float array or scalar as an array; for anything else, its type as a text."""
    if type(value) in (np.float64, np.float32, float):
        return np.array(value)
    if type(value) is np.ndarray and value.dtype in (np.float64, np.float32):
        return np.array(value, order="C")
    return kind_text(value)


def form(value: Any) -> str:
    """Returns dtype and shape of an array: 'float64 [2, 3]'."""
    kept = plain(value)
    return kept if isinstance(kept, str) else f"{kept.dtype} {list(kept.shape)}"


def numbers(seed: int, *shapes: Shape, low: float = 0.3, high: float = 2.0, signs: bool = True) -> list[Array]:
    """Returns an array of each shape, of random numbers that are not near 0."""
    draw = np.random.default_rng(seed)
    arrays = [draw.uniform(low, high, shape) for shape in shapes]
    return [np.asarray(array * (draw.choice((-1.0, 1.0), np.shape(array)) if signs else 1)) for array in arrays]


def sizes(seed: int, count: int) -> list[int]:
    """Returns different sizes of axes, above 1."""
    return random.Random(seed).sample(range(2, 7), count)


# ------------------------------------------------------------------------------------------------------ the operations
def operations(
    learner: ModuleType, cases: Sequence[tuple[str, Callable[..., Any], Sequence[Array], Shape]], seed: int
) -> dict[str, Any]:
    """Calls each case's operation on its operands, and vjp of the result on an array of the case's shape, twice."""
    answers: dict[str, list[Any]] = {
        name: []
        for name in (
            "cases",
            "types",
            "data",
            "shares",
            "again",
            "shapes",
            "parents",
            "operands",
            "data after",
            "given",
        )
    }
    for number, (case, operation, arrays, shape) in enumerate(cases):
        values = [learner.Value(array.copy()) for array in arrays]
        result = operation(*values)
        (g,) = numbers(seed + 5000 + number, shape)
        if all(array.size == 1 for array in (*arrays, g)):  # a case to do by hand
            operands = zip("ab", arrays, strict=False)
            case += "".join(f", {name} = {array.item():.6f}" for name, array in (*operands, ("g", g)))
        answers["cases"].append(case)
        answers["types"].append("Value" if type(result) is learner.Value else kind_text(result))
        answers["shapes"].append([list(array.shape) for array in arrays])
        if type(result) is not learner.Value:
            continue
        g = g.astype(result.data.dtype if type(result.data) is np.ndarray else g.dtype)
        answers["data"].append(plain(result.data))
        vjp, given = result.vjp, g.copy()
        for name in ("shares", "again"):
            returned = vjp(given) if vjp is not None else None
            shares = tuple_items(returned, len(arrays))
            answers[name].append([plain(share) for share in shares] if shares else kind_text(returned))
        answers["parents"].append(_places(result.parents, values))
        answers["operands"].append([plain(value.data) for value in values] + [plain(value.grad) for value in values])
        answers["data after"].append(plain(result.data))
        answers["given"].append(given)
    return answers


def _places(parents: Any, values: Sequence[Any]) -> Any:
    """Returns the place of each parent among `values`, -1 for a foreign one; the type of anything but a tuple."""
    if type(parents) is not tuple:
        return kind_text(parents)
    return [next((place for place, value in enumerate(values) if value is parent), -1) for parent in parents]


def of_numbers(learner: ModuleType, seed: int, name: str) -> dict[str, Any]:
    """An operation of two operands of one shape: numbers, and arrays."""
    n, m = sizes(seed, 2)
    cases: list[Any] = []
    for number, shape in enumerate(((), (n,), (n, m))):
        arrays = numbers(seed + 10 * number, shape, shape)
        cases.append((f"{name} of operands of shape {list(shape)}", getattr(learner, name), arrays, shape))
    return operations(learner, cases, seed)


def of_add(learner: ModuleType, seed: int) -> dict[str, Any]:
    return of_numbers(learner, seed, "add")


def of_multiply(learner: ModuleType, seed: int) -> dict[str, Any]:
    return of_numbers(learner, seed, "multiply")


def of_broadcast(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums and products of operands of different shapes, either of which is repeated."""
    n, m, k = sizes(seed, 3)
    cases: list[Any] = []
    for number, (left, right) in enumerate((((n, m), (m,)), ((n, 1), (1, m)), ((), (k, n)), ((m, 1), (k, m, n)))):
        shape = np.broadcast_shapes(left, right)
        for name in ("add", "multiply"):
            text = f"{name} of shapes {list(left)} and {list(right)}"
            cases.append((text, getattr(learner, name), numbers(seed + number, left, right), shape))
    return operations(learner, cases, seed)


def of_power(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Powers with ints of numbers of both signs, and with fractions of positive numbers."""
    draw, (n, m), cases = random.Random(seed), sizes(seed, 2), []
    for exponent in (2, 3, -1, -2, 1, draw.randrange(4, 6), draw.uniform(0.2, 0.8), -draw.uniform(1.2, 2.8), 0.5):
        shape = draw.choice(((), (n,), (n, m)))
        arrays = numbers(seed + int(10 * exponent) + 50, shape, signs=isinstance(exponent, int))
        text = f"power with exponent {exponent:.4g}"
        cases.append((text, lambda a, exponent=exponent: learner.power(a, exponent), arrays, shape))
    return operations(learner, cases, seed)


def of_power_at_zero(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Powers with exponents 0, 1, 2 and 3 of an array with a 0 in it, and of the number 0."""
    (n,), cases = sizes(seed, 1), []
    (array,) = numbers(seed, (n + 1,))
    array[random.Random(seed).randrange(n)] = 0.0
    for exponent in (0, 0.0, 1, 2, 3, 1.0):
        for base in (array, np.zeros(())):
            what = "an array that contains 0" if base.ndim else "the number 0"
            text = f"power of {what} with exponent {exponent}"
            cases.append((text, lambda a, exponent=exponent: learner.power(a, exponent), [base], base.shape))
    with np.errstate(all="ignore"):
        return operations(learner, cases, seed)


def one_operand(learner: ModuleType, seed: int, name: str, extreme: Sequence[float] = ()) -> dict[str, Any]:
    """An operation of one operand: a number, an array, and an array with the numbers `extreme`."""
    n, m = sizes(seed, 2)
    cases: list[Any] = []
    for number, shape in enumerate(((), (n,), (m, n), (1,))):
        cases.append((f"{name} of shape {list(shape)}", getattr(learner, name), numbers(seed + number, shape), shape))
    if extreme:
        text = f"{name} of {', '.join(f'{number:g}' for number in extreme)}"
        cases.append((text, getattr(learner, name), [np.array(extreme)], (len(extreme),)))
    with np.errstate(all="ignore"):
        return operations(learner, cases, seed)


def of_exp(learner: ModuleType, seed: int) -> dict[str, Any]:
    return one_operand(learner, seed, "exp")


def of_tanh(learner: ModuleType, seed: int) -> dict[str, Any]:
    return one_operand(learner, seed, "tanh", (-800.0, 800.0, 20.5))


def of_relu(learner: ModuleType, seed: int) -> dict[str, Any]:
    return one_operand(learner, seed, "relu")


def of_relu_at_zero(learner: ModuleType, seed: int) -> dict[str, Any]:
    (n,) = sizes(seed, 1)
    (array,) = numbers(seed, (n + 1,))
    array[random.Random(seed).randrange(n)] = 0.0
    cases = [("relu of an array that contains 0", learner.relu, [array], array.shape)]
    return operations(learner, cases, seed)


def arithmetic_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Operations in float32, and of a value with itself: what they leave as it is."""
    n, m = sizes(seed, 2)
    left, right = (array.astype(np.float32) for array in numbers(seed, (n, m), (m,)))
    cases: list[Any] = [
        ("add in float32", learner.add, [left, right], left.shape),
        ("multiply in float32", learner.multiply, [left, right], left.shape),
        ("power in float32", lambda a: learner.power(a, 3), [left], left.shape),
        ("power in float32 with exponent -0.5", lambda a: learner.power(a, -0.5), [abs(right)], right.shape),
        ("power in float32 with exponent 0", lambda a: learner.power(a, 0), [right], right.shape),
    ]
    return operations(learner, cases, seed) | with_itself(learner, seed)


def with_itself(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The sum and the product of a value with itself."""
    answers: dict[str, Any] = {"itself": []}
    for operation in (learner.add, learner.multiply):
        (array,) = numbers(seed, (2,))
        value = learner.Value(array)
        result = operation(value, value)
        shares = tuple_items(result.vjp(np.ones(2)), 2)
        answers["itself"] += [plain(share) for share in shares] if shares else [None, None]
    return answers


def nonlinear_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The operations of one operand in float32."""
    (array,) = (array.astype(np.float32) for array in numbers(seed, (*sizes(seed, 2),)))
    cases = [(f"{name} in float32", getattr(learner, name), [array], array.shape) for name in ("exp", "tanh", "relu")]
    return operations(learner, cases, seed)


# ------------------------------------------------------------------------------------------------------------ the graph
class Node:
    """A node of a graph that counts how often its parents are read, how deep in calls, and how often it is compared."""

    reads = compared = depth = 0
    deepest = 10**6  # calls to count at most

    def __init__(self, parents: Sequence["Node"]) -> None:
        self._parents = tuple(parents)

    @property
    def parents(self) -> tuple["Node", ...]:
        Node.reads += 1
        if Node.reads > 200_000:
            raise RuntimeError("the parents of the nodes are read more than 200,000 times")
        frame, depth = sys._getframe(1), 0
        while (frame := frame.f_back) is not None and depth < Node.deepest:  # type: ignore[assignment]
            depth += 1
        Node.depth = max(Node.depth, depth)
        return self._parents

    def __eq__(self, other: object) -> bool:
        Node.compared += 1
        return self is other

    __hash__ = object.__hash__


def ordered(learner: ModuleType, nodes: Sequence[Node]) -> dict[str, Any]:
    """Orders the graph of the last node; answers the nodes by number, and what the order took."""
    Node.reads = Node.compared = Node.depth = 0
    here, frame = 0, sys._getframe()
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        here += 1
    Node.deepest = here + 60
    order = learner.topological_order(nodes[-1])
    reads, compared, depth = Node.reads, Node.compared, Node.depth - here
    place = {id(node): number for number, node in enumerate(nodes)}
    return {
        "type": type_name(order),
        "order": [place.get(id(node), -1) for node in order] if type(order) is list else [],
        "parents": [[place[id(parent)] for parent in node._parents] for node in nodes],
        "reads": reads,
        "compared": compared,
        "depth": depth,
    }


def effort(answers: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Replaces what an order took, which differs among right codes, by whether it is proportional to the nodes."""
    few = answers.pop("reads") <= 4 * nodes, answers.pop("compared") <= 4 * nodes
    return answers | {"few reads": few[0], "few comparisons": few[1], "shallow": answers.pop("depth") < 40}


def random_graph(seed: int) -> list[Node]:
    """Returns nodes of which each has parents among the earlier ones, some twice; the last one reaches most."""
    draw, nodes = random.Random(seed), [Node(()) for _ in range(3)]
    for _ in range(draw.randrange(6, 10)):
        nodes.append(Node(draw.choices(nodes, k=draw.randrange(1, 4))))
    return [*nodes, Node(nodes[-4:])]


def order_of_a_tree(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A graph in which no node is used twice."""
    draw, nodes = random.Random(seed), [Node(()) for _ in range(random.Random(seed).randrange(5, 8))]
    free = [*nodes]
    while len(free) > 1:
        draw.shuffle(free)
        taken = [free.pop() for _ in range(min(len(free), draw.randrange(2, 4)))]
        nodes.append(Node(taken))
        free.append(nodes[-1])
    return effort(ordered(learner, nodes), len(nodes))


def order_of_a_graph(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A graph in which nodes are used several times, on paths of different length."""
    nodes = random_graph(seed)
    a, b = nodes[0], Node((nodes[-1], nodes[1]))
    return effort(ordered(learner, [*nodes, b, Node((a, b, a))]), len(nodes) + 2)


def order_of_one(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A single node, which a random number of other nodes use."""
    root = Node(())
    users = [Node((root, root)) for _ in range(random.Random(seed).randrange(2, 5000))]
    answers = effort(ordered(learner, [*users, root]), 1)
    return answers | {"kept": all(user._parents[0] is root for user in users)}


def order_of_a_chain(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A chain of thousands of nodes, one after the other."""
    nodes = [Node(())]
    for _ in range(random.Random(seed).randrange(2000, 3000)):
        nodes.append(Node((nodes[-1],)))
    limit = sys.getrecursionlimit()
    answers = effort(ordered(learner, nodes), len(nodes))
    answers["limit kept"] = sys.getrecursionlimit() == limit
    sys.setrecursionlimit(limit)
    return answers


def order_of_a_ladder(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A ladder, whose number of paths doubles with each of its rungs."""
    nodes = [Node(())]
    for _ in range(random.Random(seed).randrange(60, 90)):
        left, right = Node((nodes[-1],)), Node((nodes[-1],))
        nodes += [left, right, Node((left, right))]
    return effort(ordered(learner, nodes), len(nodes))


# --------------------------------------------------------------------------------------------------------- broadcasting
def reductions(learner: ModuleType, seed: int, pairs: Sequence[tuple[Shape, Shape]], dtype: str) -> dict[str, Any]:
    answers: dict[str, Any] = {"cases": [], "reduced": [], "forms": [], "given": []}
    for number, (large, small) in enumerate(pairs):
        gradient = numbers(seed + number, large)[0].astype(dtype)
        kept = gradient.copy()
        result = learner.unbroadcast(gradient, small)
        answers["cases"].append(f"from {list(large)} to {list(small)}")
        answers["reduced"].append(plain(result))
        answers["forms"].append(form(result))
        answers["given"].append(bool((gradient == kept).all()))
    return answers


def new_axes(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = sizes(seed, 3)
    return reductions(learner, seed, [((k, n), (n,)), ((m, k, n), (n,)), ((k, n, m), (n, m)), ((n,), ())], "float64")


def axes_of_one(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = sizes(seed, 3)
    return reductions(learner, seed, [((n, m), (n, 1)), ((n, m), (1, m)), ((n, m, k), (1, m, 1))], "float64")


def both_kinds_of_axes(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = sizes(seed, 3)
    pairs = [((k, n, m), (n, 1)), ((m, k, n), (1, 1)), ((k, n, m), (1, n, 1)), ((n, m, k), ()), ((k, 1, n), (1, n))]
    return reductions(learner, seed, pairs, "float64")


def nothing_to_sum(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    pairs: list[tuple[Shape, Shape]] = [((n, m), (n, m)), ((), ()), ((1, n), (1, n)), ((n, n), (n,)), ((n, m), (1, m))]
    return reductions(learner, seed, pairs, "float32")


def sums(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums over no, one, several and all axes, with and without `keepdims`."""
    n, m, k = sizes(seed, 3)
    cases: list[Any] = []
    for axis, keepdims, dtype in (
        *((None, False, "float64"), (0, False, "float64"), (1, True, "float64"), (-1, False, "float64")),
        *(((0, 2), False, "float64"), ((-1, 1), True, "float64"), (None, True, "float32"), (1, False, "float32")),
    ):
        arrays = [array.astype(dtype) for array in numbers(seed, (n, m, k))]
        text = f"sum_over of shape {[n, m, k]}, axis={axis}, keepdims={keepdims}"
        shape = arrays[0].sum(axis=axis, keepdims=keepdims).shape
        cases.append((text, lambda a, axis=axis, keepdims=keepdims: learner.sum_over(a, axis, keepdims), arrays, shape))
    square = numbers(seed, (n, n))
    cases.append((f"sum_over of shape {[n, n]}, axis=1", lambda a: learner.sum_over(a, axis=1), square, (n,)))
    cases.append(("sum_over of shape []", learner.sum_over, numbers(seed, ()), ()))
    return operations(learner, cases, seed)


# ------------------------------------------------------------------------------------------------------------- backward
class Graph:
    """Values of a probe's own: each a linear combination of its parents, whose vjp notes how it is called."""

    def __init__(self, learner: ModuleType, seed: int) -> None:
        self.learner, self.draw = learner, np.random.default_rng(seed)
        self.values: list[Any] = []
        self.calls: list[list[str]] = []  # the forms of the arrays that each value's vjp gets
        self.kept: list[tuple[Array, Array]] = []  # arrays that a vjp got or returned, each with a copy

    def input(self, *shape: int, dtype: str = "float64") -> Any:
        return self._add(self.learner.Value(self.draw.uniform(0.5, 2, shape).astype(dtype)))

    def combine(self, *parents: Any, weights: Sequence[Any] | None = None, dtype: str = "float64") -> Any:
        """A value of the shape to which its parents broadcast. Weights of None pass the gradient itself on."""
        shape = np.broadcast_shapes(*(parent.data.shape for parent in parents))
        factors = [self.draw.uniform(0.5, 2, shape) for _ in parents] if weights is None else weights
        data = sum((1 if c is None else c) * parent.data for c, parent in zip(factors, parents, strict=True))
        number = len(self.values)

        def vjp(g: Array) -> tuple[Array, ...]:
            self.calls[number].append(form(g))
            shares = tuple(g if c is None else c * g for c in factors)
            self.kept += [(array, array.copy()) for array in (g, *shares) if type(array) is np.ndarray]
            return shares

        return self._add(self.learner.Value(np.asarray(data).astype(dtype), parents, vjp))

    def _add(self, value: Any) -> Any:
        self.values.append(value)
        self.calls.append([])
        return value

    def after(self, root: Any, times: int = 1) -> dict[str, Any]:
        """Runs `backward` from the root; answers every gradient, and what a vjp saw."""
        data = [np.array(value.data) for value in self.values]
        for _ in range(times):
            self.learner.backward(root)
        grads = [value.grad for value in self.values]
        pairs = [(a, b) for n, a in enumerate(grads) for b in grads[:n]]
        arrays = all(type(grad) is np.ndarray for grad in grads)
        place = {id(value): number for number, value in enumerate(self.values)}
        sources = [", ".join(f"v{place[id(parent)]}" for parent in value.parents) for value in self.values]
        return {
            "grads": [plain(grad) for grad in grads],
            "forms": [form(grad) for grad in grads],
            "graph": "; ".join(f"v{number} of {names}" for number, names in enumerate(sources) if names),
            "calls": self.calls,
            "data kept": all(np.array_equal(value.data, old) for value, old in zip(self.values, data, strict=True)),
            "arrays kept": all(np.array_equal(array, old) for array, old in self.kept),
            "memory": arrays and any(np.shares_memory(a, b) for a, b in pairs),
        }


def along_a_chain(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A chain of values, of numbers and of arrays of one shape; a value beside it that the root does not depend on."""
    graph = Graph(learner, seed)
    x = graph.input(*((), (3,), (2, 4))[seed % 3])
    aside = graph.combine(x)
    value = x
    for _ in range(3):
        value = graph.combine(value)
    graph.combine(aside)
    return graph.after(value)


def reused(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An input that is used by two values, twice by one of them."""
    graph = Graph(learner, seed)
    a, b = graph.input(2), graph.input(2)
    p = graph.combine(a, a)
    return graph.after(graph.combine(p, graph.combine(b, a)))


def out_of_order(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Intermediate values that are used at several distances from the root."""
    graph = Graph(learner, seed)
    a = graph.input()
    p = graph.combine(a)
    q = graph.combine(p)
    r = graph.combine(q, p)
    s = graph.combine(q)
    left, right = (p, graph.combine(r, s)) if seed % 2 else (graph.combine(s, r), p)
    return graph.after(graph.combine(left, right, q))


def of_smaller_shapes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Values whose parents were broadcast, and a root that is an array."""
    n, m, k = sizes(seed, 3)
    graph = Graph(learner, seed)
    row, column, number = graph.input(m), graph.input(n, 1), graph.input()
    large = graph.combine(row, column)
    return graph.after(graph.combine(large, number, graph.input(k, 1, 1), row))


def mixed_dtypes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Values in float32 and in float64 in one graph."""
    graph = Graph(learner, seed)
    a, b = graph.input(3, dtype="float32"), graph.input(3)
    p = graph.combine(a, a, weights=(0.5, 0.25), dtype="float32")
    return graph.after(graph.combine(p, b, weights=(np.full(3, 0.75), 1.5)))


def twice(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two calls, and a third from another root over the same values."""
    graph = Graph(learner, seed)
    a, b = graph.input(2), graph.input(2)
    p = graph.combine(a, b)
    root = graph.combine(p, a)
    first = graph.after(root, times=2)
    other = graph.after(graph.combine(p))
    grads = {name: [*first[name], *other[name]] for name in ("grads", "forms")}
    return grads | {"graph": first["graph"]}


def passed_on(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Values whose vjp returns the very array that it got, once per parent, as a sum's vjp may."""
    graph = Graph(learner, seed)
    a, b = graph.input(3), graph.input(3)
    p = graph.combine(a, b, weights=(None, None))
    q = graph.combine(p, a, weights=(None, None))
    r = graph.combine(q, a, b, weights=(None, 2.0, None))
    return graph.after(graph.combine(r, p, weights=(None, None)))


def a_long_chain(learner: ModuleType, seed: int) -> dict[str, Any]:
    graph = Graph(learner, seed)
    value = x = graph.input()
    for _ in range(1500):
        value = graph.combine(value, weights=(1.001,))
    graph.learner.backward(value)
    return {"grads": [plain(x.grad)], "forms": [form(x.grad)], "graph": "a chain of 1,500 values"}


def expression(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An expression with the operators of Value: reflected ones, quotients, negative powers, reuse and `+=`."""
    Value, (a_data, b_data) = learner.Value, numbers(seed, (), ())
    learner.backward(Value(a_data))  # a backward that is not written yet is named before an operation is
    a, b = Value(a_data), Value(b_data)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a) ** 2
    d += 3 * d - (b - a)
    e = c - d
    f = 1.5 - e**2 / 2
    g = f / 2.0 + 10.0 / (f**2 + 1) + 2**2 * (a * a + 1) ** -2 - b * b**-1
    g.backward()
    values = (a, b, c, d, e, f, g)
    return {
        "data": [plain(value.data) for value in values],
        "grads": [plain(value.grad) for value in values],
        "forms": [form(value.grad) for value in values],
    }


# ----------------------------------------------------------------------------------------------------------- the layers
def products(learner: ModuleType, seed: int, pairs: Sequence[tuple[Shape, Shape]], dtype: str) -> dict[str, Any]:
    cases: list[Any] = []
    for number, (left, right) in enumerate(pairs):
        arrays = [array.astype(dtype) for array in numbers(seed + number, left, right)]
        text = f"matmul of shapes {list(left)} and {list(right)}"
        cases.append((text, learner.matmul, arrays, (arrays[0] @ arrays[1]).shape))
    return operations(learner, cases, seed)


def matrices(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = sizes(seed, 3)
    return products(learner, seed, [((n, m), (m, k)), ((1, n), (n, m)), ((n, 1), (1, k)), ((n, n), (n, n))], "float64")


def batches(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k, b, c = sizes(seed, 5)
    pairs = [((b, n, m), (b, m, k)), ((b, n, m), (m, k)), ((n, m), (b, m, k)), ((c, 1, n, m), (b, m, k))]
    return products(learner, seed, pairs, "float64")


def vectors(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k, b = sizes(seed, 4)
    pairs: list[tuple[Shape, Shape]] = [((n,), (n,)), ((n, m), (m,)), ((m,), (m, k))]
    return products(learner, seed, [*pairs, ((b, n, m), (m,)), ((m,), (b, m, k)), ((n, n), (n,))], "float64")


def products_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = sizes(seed, 3)
    return products(learner, seed, [((n, m), (m, k)), ((k, n, m), (m, n))], "float32")


def entropies(learner: ModuleType, seed: int, *, scale: float = 1.0, dtype: str = "float64") -> dict[str, Any]:
    """Losses of batches of different size, one of a single example, with labels in two dtypes."""
    draw, cases = np.random.default_rng(seed), []
    V = int(draw.integers(3, 9))
    for B, kind in ((int(draw.integers(3, 7)), np.int64), (1, np.int64), (V, np.int32)):
        logits = (scale * draw.standard_normal((B, V))).astype(dtype)
        labels = draw.integers(V, size=B).astype(kind)
        text = f"cross_entropy of logits [{B}, {V}]" + (f" around {scale:g}" if scale > 1 else "")
        cases.append((text, lambda a, labels=labels: learner.cross_entropy(a, labels), [logits], ()))
    with np.errstate(all="ignore"):
        return operations(learner, cases, seed)


def entropy(learner: ModuleType, seed: int) -> dict[str, Any]:
    return entropies(learner, seed)


def entropy_of_large_logits(learner: ModuleType, seed: int) -> dict[str, Any]:
    return entropies(learner, seed, scale=3000.0)


def entropy_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """In float32, with labels that the caller goes on using."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(4, size=5)
    kept = labels.copy()
    answers = entropies(learner, seed, dtype="float32")
    learner.cross_entropy(learner.Value(draw.standard_normal((5, 4))), labels).vjp(np.ones(()))
    return answers | {"labels kept": bool((labels == kept).all())}


# ----------------------------------------------------------------------------------------------------- gradient_check
class Function:
    """A function of values for gradient_check: the sum of c * x ** 3 / 3 over its inputs, with errors in its gradient.

    `errors` has a factor per input and place: right where it is 1. Notes each array that it is called with.
    """

    def __init__(self, learner: ModuleType, shapes: Sequence[Shape], seed: int, factor: float = 1.0) -> None:
        self.learner, self.calls = learner, 0
        draw = np.random.default_rng(seed)
        self.arrays = [np.asarray(draw.uniform(0.4, 1.4, shape) * draw.choice((-1, 1), shape)) for shape in shapes]
        self.scales = [factor * draw.uniform(0.5, 1.5, shape) for shape in shapes]
        self.errors = [np.ones(shape) for shape in shapes]
        self.types: set[str] = set()
        self.copies: list[Array] = []
        self.base = 0.0  # the sum of all numbers, once the function was called with them as they are

    def __call__(self, *values: Any) -> Any:
        self.calls += 1
        self.types |= {"Value" if type(value) is self.learner.Value else kind_text(value) for value in values}
        arrays = [value.data for value in values]
        if all(np.array_equal(array, own) for array, own in zip(arrays, self.copies, strict=True)):
            self.base = float(sum(array.sum() for array in arrays))
        shares = [
            np.asarray(c * array**2 * error) for c, array, error in zip(self.scales, arrays, self.errors, strict=True)
        ]
        total = sum(float((c * array**3).sum()) / 3 for c, array in zip(self.scales, arrays, strict=True))
        return self.learner.Value(total, values, lambda g: tuple(g * share for share in shares), "cubes")

    def checked(self, step: float | None = None) -> dict[str, Any]:
        self.copies = [array.copy() for array in self.arrays]
        result = self.learner.gradient_check(self, self.arrays, **({} if step is None else {"step": step}))
        return {
            "type": type_name(result),
            "disagreement": plain_number(result),
            "kept": all(np.array_equal(a, b, equal_nan=True) for a, b in zip(self.arrays, self.copies, strict=True)),
            "types": sorted(self.types),
            "base": self.base,
        }


def _shapes(seed: int) -> list[Shape]:
    n, m = sizes(seed, 2)
    return [(n, m), (), (m,)]


def of_a_right_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    return Function(learner, _shapes(seed), seed).checked()


def of_a_wrong_number(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One number of one input has a wrong derivative, each input in turn; too large and too small."""
    answers: list[dict[str, Any]] = []
    for number in range(3):
        for error in (1.4, 0.3, -1.0):
            function = Function(learner, _shapes(seed), seed, factor=0.2)
            place = tuple(random.Random(seed + number).randrange(1, size) for size in function.arrays[number].shape)
            function.errors[number][place] = error
            answers.append(function.checked())
    return {name: [answer[name] for answer in answers] for name in answers[0]}


def of_large_derivatives(learner: ModuleType, seed: int) -> dict[str, Any]:
    """All derivatives are in the hundreds, and one is wrong."""
    function = Function(learner, _shapes(seed), seed, factor=1000.0)
    function.errors[2][0] = 1.3
    return function.checked(step=1e-5)


def of_a_large_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With a step so large that the curvature shows, most in the second input, and a number far smaller than it."""
    function = Function(learner, _shapes(seed), seed, factor=0.13)
    function.scales[1] = np.asarray(0.26)
    function.arrays[0][0, 0] = 1e-9
    return function.checked(step=0.1 + 0.1 * random.Random(seed).random())


def of_nan(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One derivative is nan, neither the first nor the last."""
    function = Function(learner, _shapes(seed), seed)
    function.errors[0][1, 1] = math.nan
    return function.checked()


# ---------------------------------------------------------------------------------------------------------------- hooks
class Flaw(nn.Module):
    """A layer that raises an error when told to, with that number."""

    raises = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.raises:
            raise ArithmeticError(self.raises)
        return x


class Largest(nn.Module):
    """A layer whose output is integers."""

    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(-1)


class Layers(nn.Module):
    """Layers inside layers, one that is called twice, one with a tuple as its output, one with integers, dropout."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        n, m, k = sizes(seed, 3)
        self.first = f"embedding{random.Random(seed).randrange(10**6)}"
        self.add_module(self.first, nn.Embedding(11, n))
        self.recurrent = nn.LSTM(n, m, batch_first=True)
        self.activation = nn.ReLU()
        self.unused = nn.Linear(2, 2)
        self.middle = nn.Sequential(nn.Linear(m, k), nn.Sequential(nn.Dropout(0.5), nn.Linear(k, m)))
        self.flaw, self.largest = Flaw(), Largest()

    def forward(self, tokens: Tensor) -> Tensor:
        x, _ = self.recurrent(self.get_submodule(self.first)(tokens))
        x = self.activation(self.middle(self.activation(x)))
        self.largest(x)
        return self.flaw(x)


def hook_counts(model: nn.Module) -> list[int]:
    """Returns the number of hooks of every kind of each module."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [sum(len(vars(module)[kind]) for kind in kinds) for module in nn.Module.modules(model)]


def statistics(
    learner: ModuleType, seed: int, dtype: torch.dtype = torch.float64, train: bool = True
) -> dict[str, Any]:
    """The rows of a model with dropout, in training or evaluation mode, and how it ran."""
    model = Layers(seed).to(dtype).train(train)
    model.middle[0].train(not train)
    graphs: list[bool] = []
    model.register_forward_hook(lambda module, inputs, output: graphs.append(output.requires_grad))
    before, modes = hook_counts(model), [module.training for module in model.modules()]
    tokens = torch.randint(11, (3, 4), generator=torch.Generator().manual_seed(seed))
    torch.manual_seed(seed + 1)
    rows = learner.layer_statistics(model, tokens)
    items = [tuple_items(row, 4) for row in rows] if type(rows) is list else []
    whole = [item for item in items if item]
    return {
        "type": type_name(rows),
        "rows": len(items) - len(whole),  # rows that are no tuples of four
        "names": [item[0] if type(item[0]) is str else kind_text(item[0]) for item in whole],
        "types": sorted({type_name(number) for item in whole for number in item[1:]}),
        "numbers": [[plain_number(number) for number in item[1:]] for item in whole],
        "graphs": graphs,
        "hooks": [after - old for after, old in zip(hook_counts(model), before, strict=True)],
        "modes kept": modes == [module.training for module in model.modules()],
        "grad on": torch.is_grad_enabled(),
    }


def statistics_in_training(learner: ModuleType, seed: int) -> dict[str, Any]:
    return statistics(learner, seed)


def statistics_in_evaluation(learner: ModuleType, seed: int) -> dict[str, Any]:
    return statistics(learner, seed, train=False)


def statistics_in_half(learner: ModuleType, seed: int) -> dict[str, Any]:
    return statistics(learner, seed, torch.bfloat16, train=False)


def statistics_after_an_error(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The model raises an error in its last layer; then it runs again without one."""
    model = Layers(seed)
    before = hook_counts(model)
    model.flaw.raises = 1 + random.Random(seed).randrange(10**6)
    raised = "nothing"
    try:
        learner.layer_statistics(model, torch.zeros(2, 3, dtype=torch.int64))
    except ArithmeticError as error:
        raised = f"the layer's error {error}"
    model.flaw.raises = 0
    left = [after - old for after, old in zip(hook_counts(model), before, strict=True)]
    return {"raised": raised, "hooks": left, "grad on": torch.is_grad_enabled()}


class Net(nn.Module):
    """Three layers; the one in the middle is watched. Keeps each gradient of its output, with a copy."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        n, m, k = sizes(seed, 3)
        self.width = n
        self.arrived: list[tuple[Tensor, Tensor]] = []
        self.before, self.layer, self.after = nn.Linear(n, m), nn.Linear(m, k), nn.Linear(k, 2)

    def forward(self, x: Tensor) -> Tensor:
        output = self.layer(self.before(x).tanh())
        if output.requires_grad:
            output.register_hook(lambda gradient: self.arrived.append((gradient, gradient.clone())))
        return self.after(output.tanh()).square().mean()


def _passes(learner: ModuleType, seed: int, shares: Sequence[float]) -> dict[str, Any]:
    """Passes inside the block, each of another loss; the limit is a share of the first one's norm."""
    net = Net(seed).double()
    x = torch.randn(4, net.width).double()
    net(x).backward()
    norm = float(np.linalg.norm(flat([net.arrived[0][1]])))
    net.zero_grad()
    seen: list[float] = []

    def note(module: nn.Module, inner: Any, outer: Any) -> None:
        seen.append(float(outer[0].norm()))

    net.layer.register_full_backward_hook(note)
    before, found, arrived = hook_counts(net), [], []
    with learner.clip_layer_gradient(net.layer, norm * shares[0]) as norms:
        for share in shares:
            inputs = x.clone().requires_grad_()
            (net(inputs) * (share / shares[0])).backward()
            found.append(np.concatenate([gradients(net), flat([inputs.grad])]))
            arrived.append(torch.equal(*net.arrived[-1]))
            net.zero_grad()
    left = [after - old for after, old in zip(hook_counts(net), before, strict=True)]
    inputs = x.clone().requires_grad_()
    (net(inputs) * 100).backward()
    return {
        "gradients": found,
        "after": np.concatenate([gradients(net), flat([inputs.grad])]),
        "arrived": arrived,
        "type": type_name(norms),
        "norms": [plain_number(number) for number in norms] if type(norms) is list else [],
        "types": sorted({type_name(number) for number in norms}) if type(norms) is list else [],
        "hooks": left,
        "seen": len(seen),
    }


def clipped_passes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The limit is far below the norm of one pass, and below that of the next."""
    return _passes(learner, seed, (random.Random(seed).uniform(0.05, 0.3), 0.9))


def small_passes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The limit is above the norms, one of which is 0."""
    share = random.Random(seed).uniform(1.2, 3)
    return _passes(learner, seed, (share, share / 2, 0.0))


def clip_after_an_error(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An error inside the block, before and after a backward pass."""
    answers: dict[str, Any] = {"raised": [], "hooks": [], "gradients": []}
    for passes in (0, 1):
        net = Net(seed).double()
        x, before, raised = torch.randn(4, net.width).double(), hook_counts(net), "nothing"
        try:
            with learner.clip_layer_gradient(net.layer, 1e-3):
                for _ in range(passes):
                    net(x).backward()
                raise ArithmeticError
        except ArithmeticError:
            raised = "the block's error"
        net.zero_grad()
        (net(x) * 10).backward()
        answers["raised"].append(raised)
        answers["hooks"].append([after - old for after, old in zip(hook_counts(net), before, strict=True)])
        answers["gradients"].append(gradients(net))
    return answers


def new_gpt(seed: int) -> tuple[GPT, Tensor, Tensor]:
    """Returns a tiny GPT in float64, tokens [B, T] and numbers [B, T, C] for the output of a block."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    B, T, C = draw.choice((2, 3)), draw.randrange(4, 8), 2 * draw.choice((4, 5, 6))
    model = GPT(GPTConfig(vocab_size=draw.randrange(13, 20), block_size=T, n_layer=3, n_head=2, hidden_dim=C)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, torch.randint(13, (B, T)), torch.randn(B, T, C).double()


def patched(learner: ModuleType, seed: int, positions: Sequence[int] | None, gradient: bool = False) -> dict[str, Any]:
    """Runs a GPT with a patched block, twice inside the block and once after it."""
    model, tokens, replacement = new_gpt(seed)
    block = model.blocks[random.Random(seed).randrange(3)]
    replacement.requires_grad_(gradient)
    kept, outputs = replacement.detach().clone(), []
    block.register_forward_hook(lambda module, inputs, output: outputs.append((output, output.detach().clone())))
    before = hook_counts(model)
    with learner.patch_activations(block, replacement, *([] if positions is None else [positions])):
        first = model(tokens)
        other = model(tokens.flip(0))
    left = [after - old for after, old in zip(hook_counts(model), before, strict=True)]
    answers = {
        "patched": flat([first, other]),
        "after": flat([model(tokens)]),
        "hooks": left,
        "outputs kept": len(outputs) == 3 and all(torch.equal(output, copy) for output, copy in outputs),
        "replacement kept": torch.equal(replacement, kept),
    }
    if gradient:
        (first * torch.linspace(-1, 1, first.numel()).double().view(first.shape)).sum().backward()
        grad = replacement.grad
        answers["of replacement"] = flat([torch.zeros_like(replacement) if grad is None else grad])
        answers["of weights"] = np.nan_to_num(gradients(model))
    return answers


def patched_whole(learner: ModuleType, seed: int) -> dict[str, Any]:
    return patched(learner, seed, None)


def _positions(seed: int) -> list[int]:
    T = new_gpt(seed)[1].shape[1]
    return random.Random(seed).sample([1, -1, 0 - T, 2 - T], 2 + seed % 2)


def patched_positions(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Some positions; one position; and none, which patches nothing."""
    rows = [patched(learner, seed, positions) for positions in (_positions(seed), (-2,), [])]
    return {name: [row[name] for row in rows] for name in rows[0]}


def patched_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    rows = [patched(learner, seed, positions, gradient=True) for positions in (_positions(seed), None)]
    return {name: [row[name] for row in rows] for name in rows[0]}


def patch_after_an_error(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An error inside the block, and one block within another."""
    model, tokens, replacement = new_gpt(seed)
    before, raised = hook_counts(model), "nothing"
    try:
        with learner.patch_activations(model.blocks[0], replacement):
            raise ArithmeticError
    except ArithmeticError:
        raised = "the block's error"
    left = [after - old for after, old in zip(hook_counts(model), before, strict=True)]
    after = model(tokens)
    with suppress(ArithmeticError), learner.patch_activations(model.blocks[1], replacement, [0]):
        with learner.patch_activations(model.blocks[2], replacement, [1]):
            inner = model(tokens)
        outer = model(tokens)
    return {"raised": raised, "hooks": left, "after": flat([after]), "nested": flat([inner, outer])}
