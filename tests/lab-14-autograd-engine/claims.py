"""Claims of labs/lab-14-autograd-engine.md."""

import contextlib
import io
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import starter
from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.learn.runs.plots import read_log


def exercises() -> Any:
    """The solved exercises."""
    return load(find_lab("14").reference)


# ------------------------------------------------------------------------------------------------------ beside torch
def both_losses(*arguments: str) -> list[tuple[float, float]]:
    """The losses of the engine and of torch at each step of a run of the starter."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        assert starter("14").main([*arguments, "--out", folder]) == 0
        (log,) = Path(folder).glob("*/log.jsonl")
        return [(event["loss"], event["torch_loss"]) for event in read_log(log)["step"]]


def points(values: list[float]) -> list[tuple[float, float, float, float]]:
    """The values at step 1 and at every 20th step, as points of a chart."""
    return [(step, *[values[step - 1]] * 3) for step in (1, *range(20, len(values) + 1, 20))]


@claim(
    "lab-14-losses-beside-torch",
    "Over the 500 steps of the default run the losses of the engine and of torch differ by less than 1e-12 in float64, "
    "and by more than 1e-8 in float32.",
    expected={"float64, below 1e-12": 1, "float32, above 1e-8": 1, "float32, below 1e-4": 1},
    unit="",
)
def losses_beside_torch() -> Charted:
    """Runs the starter with seed 0 in both dtypes, and takes the largest difference of the two losses of a step."""
    lines, largest = {}, {}
    for dtype in ("float64", "float32"):
        losses = both_losses("--steps=500", f"--dtype={dtype}")
        apart = [abs(own - other) for own, other in losses]
        largest[dtype] = max(apart)
        for name, values in (("engine", [own for own, _ in losses]), ("difference", apart)):
            lines[f"{name}, {dtype}"] = points(values)
    value = {
        "float64, below 1e-12": int(largest["float64"] < 1e-12),
        "float32, above 1e-8": int(largest["float32"] > 1e-8),
        "float32, below 1e-4": int(largest["float32"] < 1e-4),
    }
    return Charted(value, Chart("Losses of the engine and of torch", "step", "nats per picture", lines, log="y"))


def backward_that_sets(loss: Any) -> None:
    """The starter's backward, except that a tensor's gradient is the share that arrives last."""
    tape = starter("14").TAPE
    loss.grad = np.ones_like(loss.data)
    for result in reversed(tape):
        if result.grad is not None and result.vjp is not None:
            for parent, share in zip(result.parents, result.vjp(result.grad), strict=True):
                parent.grad = share
    tape.clear()


@claim(
    "lab-14-set-not-added",
    "An engine that sets gradients instead of adding them trains to a loss of {expected[set]:.3f} after 500 steps; the "
    "right engine to {expected[added]:.3f}. The losses differ by up to {expected[largest difference]:.2f}.",
    expected={"added": 0.3183, "set": 0.3613, "largest difference": 0.05},
    tolerance=5e-4,
    unit="nats per picture",
)
def set_not_added() -> Charted:
    """Runs the starter with such a backward; w1 and w2 are used twice, so the decay's gradient replaces the other."""
    with unittest.mock.patch.object(starter("14"), "backward", backward_that_sets):
        losses = both_losses("--steps=500")
    apart = [abs(own - other) for own, other in losses]
    lines = {
        "added": points([other for _, other in losses]),
        "set": points([own for own, _ in losses]),
        "difference": points(apart),
    }
    value = {"added": losses[-1][1], "set": losses[-1][0], "largest difference": max(apart)}
    return Charted(value, Chart("Gradients set and added", "step", "nats per picture", lines, log="y"))


@claim(
    "lab-14-cost-against-torch",
    "One step of the engine, forward and backward of 1,024 pictures with 512 hidden units, takes less than 5 times the "
    "CPU time of torch's step.",
    expected=True,
    unit="",
)
def cost_against_torch() -> bool:
    """Times both steps of the starter on one thread, seven times each in turn, and compares the shortest times."""
    lab, rng = starter("14"), np.random.default_rng(0)
    weights = {"w1": rng.standard_normal((64, 512)) / 8, "b1": np.zeros(512)}
    weights |= {"w2": rng.standard_normal((512, 10)) / 23, "b2": np.zeros(10)}
    x, labels = rng.random((1024, 64)), rng.integers(10, size=1024)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: dict[str, list[int]] = {"engine_step": [], "torch_step": []}
    try:
        for _ in range(7):
            for name, taken in times.items():
                start = time.process_time_ns()
                getattr(lab, name)(weights, x, labels, 1e-3)
                taken.append(time.process_time_ns() - start)
    finally:
        torch.set_num_threads(threads)
    return min(times["engine_step"]) < 5 * min(times["torch_step"])


@claim(
    "lab-14-numbers-against-arrays",
    "The sum of a product of [16, 8] and [8, 4] takes {expected[nodes of numbers]} nodes as numbers and "
    "{expected[nodes of arrays]} as arrays; forward and backward take more than 20 times the time.",
    expected={"nodes of numbers": 16 * 8 + 8 * 4 + 512 + 511, "nodes of arrays": 4, "more than 20 times": 1},
    unit="",
)
def numbers_against_arrays() -> Mapping[str, float]:
    """Computes the sum by the solved exercises, as 160 Values and as two; takes the shortest CPU time of five."""
    lab, rng = exercises(), np.random.default_rng(0)
    x, w = rng.standard_normal((16, 8)), rng.standard_normal((8, 4))

    def of_numbers() -> Any:
        left, right = ([[lab.Value(number) for number in row] for row in array] for array in (x, w))
        products = [left[i][k] * right[k][j] for i in range(16) for j in range(4) for k in range(8)]
        total = products[0]
        for product in products[1:]:
            total = total + product
        return total

    def of_arrays() -> Any:
        return lab.sum_over(lab.Value(x) @ lab.Value(w))

    def shortest(make: Callable[[], Any]) -> int:
        times = []
        for _ in range(5):
            start = time.process_time_ns()
            make().backward()
            times.append(time.process_time_ns() - start)
        return min(times)

    return {
        "nodes of numbers": len(lab.topological_order(of_numbers())),
        "nodes of arrays": len(lab.topological_order(of_arrays())),
        "more than 20 times": int(shortest(of_numbers) > 20 * shortest(of_arrays)),
    }


@claim(
    "lab-14-micrograd-example",
    "The example of micrograd's README gives the numbers that it prints: {expected[g]}, and the gradients "
    "{expected[dg/da]} and {expected[dg/db]}.",
    expected={"g": 24.7041, "dg/da": 138.8338, "dg/db": 645.5773},
    tolerance=5e-5,
    unit="",
    source="[micrograd](https://github.com/karpathy/micrograd)",
)
def micrograd_example() -> Mapping[str, float]:
    """Computes the example with the solved exercises: augmented assignment, reuse of values, quotients, powers."""
    lab = exercises()
    a, b = lab.Value(-4.0), lab.Value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + lab.relu(b + a)
    d += 3 * d + lab.relu(b - a)
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g.backward()
    return {"g": float(g.data), "dg/da": float(a.grad), "dg/db": float(b.grad)}


# ---------------------------------------------------------------------------------------------------------- the order
def chain(length: int) -> Any:
    """A value, and `length` additions of 1, each to the result before."""
    value = exercises().Value(0.0)
    for _ in range(length):
        value = value + 1.0
    return value


def order_by_recursion(root: Any) -> list[Any]:
    """The topological order by a function that calls itself for each parent."""
    order, seen = [], set()

    def visit(node: Any) -> None:
        if node not in seen:
            seen.add(node)
            for parent in node.parents:
                visit(parent)
            order.append(node)

    visit(root)
    return order


@claim(
    "lab-14-chain-without-recursion",
    "The order with a stack lists the {expected[nodes]} nodes of a chain of 50,000 additions. The order by recursion "
    "raises RecursionError at 1,000 additions, with Python's default limit of 1,000 calls.",
    expected={"nodes": 100_001, "recursion fails": 1},
    unit="",
)
def chain_without_recursion() -> Mapping[str, float]:
    """Orders both chains; an addition of a number makes two nodes, the number and the sum."""
    nodes = len(exercises().topological_order(chain(50_000)))
    limit, failed = sys.getrecursionlimit(), 0
    sys.setrecursionlimit(1000)
    try:
        order_by_recursion(chain(1000))
    except RecursionError:
        failed = 1
    finally:
        sys.setrecursionlimit(limit)
    return {"nodes": nodes, "recursion fails": failed}


def order_by_distance(root: Any) -> list[Any]:
    """Each node once, those far from the root first, as a breadth-first search from the root meets them, reversed."""
    met = [root]
    for node in met:
        met += [parent for parent in dict.fromkeys(node.parents) if parent not in met]
    return met[::-1]


def graph_with_a_skip() -> dict[str, Any]:
    """Values by name: w = 0.5, a = w * w + w, h = tanh a, y = a * h, L = y * y. A short and a long path lead to a."""
    lab = exercises()
    w = lab.Value(0.5)
    s = w * w
    a = s + w
    h = lab.tanh(a)
    y = a * h
    return {"w": w, "s": s, "a": a, "h": h, "y": y, "L": y * y}


def gradients_in(order: Callable[[Any], list[Any]]) -> dict[str, float]:
    """Gradients of `graph_with_a_skip`, by a backward pass that visits each node once, in the reverse of `order`."""
    values = graph_with_a_skip()
    values["L"].grad = np.ones(())
    for node in reversed(order(values["L"])):
        if node.vjp is not None:
            for parent, share in zip(node.parents, node.vjp(node.grad), strict=True):
                parent.grad = parent.grad + share
    return {name: float(value.grad) for name, value in values.items()}


@claim(
    "lab-14-order-by-distance",
    "L = (a tanh a)² with a = w² + w at w = 0.5: visited by their distance from L, the values give dL/dw "
    "{expected[by distance]:.2f} instead of {expected[topological]:.2f}.",
    expected={"topological": 2.0628, "by distance": 1.2102},
    tolerance=5e-5,
    unit="dL/dw",
)
def wrong_order() -> Mapping[str, float]:
    """Runs one backward pass over both orders. By distance, the vjp of a is called before tanh's share is added."""
    orders = {"topological": exercises().topological_order, "by distance": order_by_distance}
    return {name: gradients_in(order)["w"] for name, order in orders.items()}


# ------------------------------------------------------------------------------------------------------- broadcasting
@claim(
    "lab-14-bias-without-sum",
    "A bias [3] added to [4, 3] gets a gradient of shape [4, 3]; its sum over the rows is {expected[summed]} per "
    "number, and each row alone {expected[one row]}.",
    expected={"summed": 4, "one row": 1},
    unit="dL/db, L the sum of all numbers",
)
def bias_without_sum() -> Mapping[str, float]:
    """Adds zeros [3] to zeros [4, 3], and compares what vjp returns with what backward adds to the bias's grad."""
    lab = exercises()
    bias = lab.Value(np.zeros(3))
    total = lab.Value(np.zeros((4, 3))) + bias
    share = total.vjp(np.ones((4, 3)))[1]
    total.backward()
    assert share.shape == (4, 3)
    return {"summed": float(bias.grad[0]), "one row": float(share[0, 0])}
