"""Lab 14, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    TOLERANCE,
    all_of,
    items_of,
    mismatch_text,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

FLOAT32 = 1e-5  # a hundred roundings of float32


def _form(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} array of shape {list(value.shape)}"
    return "missing" if value is None else shorten(value)


def _returned(value: object) -> str:
    return "something else" if value is None or equal(value, []) else _form(value)


def _joined(names: object) -> str:
    return shorten(", ".join(map(shorten, names)) if isinstance(names, list) and names else "nothing")


def array_failure(subject: str, got: object, expected: np.ndarray, tolerance: float = TOLERANCE) -> str | None:
    """Returns a sentence unless `got` has the shape, dtype and numbers of `expected`; names the first wrong number."""
    if not isinstance(got, np.ndarray) or got.shape != expected.shape:
        return f"{subject} is {_form(got)}; expected {_form(expected)}."
    if got.dtype != expected.dtype:
        return f"{subject} is in {got.dtype}; expected {expected.dtype}."
    if equal(got, expected, tolerance):
        return None
    wrong = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    place = tuple(int(index[0]) for index in np.nonzero(np.atleast_1d(wrong)))[: got.ndim]
    where = f" at {list(place)}" if place else ""
    count = f" ({int(wrong.sum())} of {got.size} numbers differ)" if got.size > 1 else ""
    return f"{subject}{where} {mismatch_text(float(got[place]), float(expected[place])).rstrip('.')}{count}."


def _tolerance(array: np.ndarray) -> float:
    return FLOAT32 if array.dtype == np.float32 else TOLERANCE


# ------------------------------------------------------------------------------------------------------- the operations
def summed_to(array: object, whole: tuple[int, ...], shape: list[int]) -> np.ndarray | None:
    """Returns a gradient of an operand of `shape`, summed over what was broadcast to the shape `whole`.

    It may have been summed already. None for anything else than an array of one of the two shapes.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.shape not in (whole, tuple(shape)):
        return None
    new = array.ndim - len(shape)
    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
    return np.asarray(array.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape))


OPERANDS = {1: ("a",), 2: ("a", "b")}


def is_value(got: Answers, expected: Answers) -> str | None:
    """Every result is a Value."""
    for case, kind in zip(expected["cases"], items_of(got, "types", len(expected["cases"])), strict=True):
        if not equal(kind, "Value"):
            return f"{case} returns {shorten(kind)}; expected a Value."
    return None


def data_of_cases(got: Answers, expected: Answers) -> str | None:
    """The data of every result."""
    count = len(expected["cases"])
    for case, data, wanted in zip(expected["cases"], items_of(got, "data", count), expected["data"], strict=True):
        if failure := array_failure(f"{case}: the result's data", data, wanted, _tolerance(wanted)):
            return failure
    return None


def gradients_of_cases(name: str = "shares", when: str = "") -> Judge:
    """The gradients that vjp returns in every case, summed to the shape of the operand."""

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(expected["cases"])
        cases = zip(expected["cases"], items_of(got, name, count), expected[name], expected["shapes"], strict=True)
        for case, shares, wanted, shapes in cases:
            if not isinstance(shares, list) or len(shares) != len(wanted):
                kind = "nothing" if equal(shares, "a NoneType") else _returned(shares)
                form = "one array: (x,)" if len(wanted) == 1 else "two arrays, one per parent: (x, y)"
                return f"{case}: vjp returns {kind}{when}; expected a tuple of {form}."
            names = ("logits",) if case.startswith("cross_entropy") else OPERANDS[len(wanted)]
            for operand, share, right, shape in zip(names, shares, wanted, shapes, strict=True):
                subject = f"{case}: dL/d{operand}{when}"
                reference, reduced = (summed_to(array, right.shape, shape) for array in (right, share))
                if reduced is None:
                    return f"{subject} is {_form(share)}; expected {_form(right)}."
                assert reference is not None
                if failure := array_failure(subject, reduced, reference, _tolerance(right)):
                    return failure
        return None

    return judge


def operation_kept(got: Answers, expected: Answers) -> str | None:
    """The operands, their gradients, the given gradient and the result's own data are as they were."""
    count = len(expected["cases"])
    names = ("parents", "operands", "given", "data after")
    columns = [items_of(got, name, count) for name in names], [expected[name] for name in names]
    for number, case in enumerate(expected["cases"]):
        (parents, operands, given, data), (places, kept, right_given, right_data) = (
            [column[number] for column in side] for side in columns
        )
        if not equal(parents, places):
            return f"{case}: the result's parents must be a tuple of the operands themselves, in their order."
        half = len(kept) // 2
        if not isinstance(operands, list) or not equal(operands[:half], kept[:half], 0.0):
            return f"{case}: the data of an operand is changed; an operation makes a new Value."
        if not equal(operands[half:], kept[half:], 0.0):
            return f"{case}: an operand's grad is changed; vjp returns gradients, and `backward` adds them up."
        if not equal(given, right_given, 0.0):
            return f"{case}: vjp changes the array that it is given."
        if not equal(data, right_data, _tolerance(right_data)):
            return f"{case}: vjp changes the data of the result."
    return None


is_operation = all_of(is_value, data_of_cases, gradients_of_cases())
kept = all_of(
    is_operation, operation_kept, gradients_of_cases("again", ", when vjp is called a second time with the same g,")
)


def of_itself(got: Answers, expected: Answers) -> str | None:
    """A value with itself: both shares are returned, apart."""
    names = ("dL/da of a + a", "dL/db of a + a", "dL/da of a * a", "dL/db of a * a")
    for subject, share, wanted in zip(names, items_of(got, "itself", 4), expected["itself"], strict=True):
        if failure := array_failure(f"with the same value as both operands, {subject}", share, wanted):
            return failure
    return None


# ------------------------------------------------------------------------------------------------------------ the graph
def is_a_list(got: Answers, expected: Answers) -> str | None:
    """A list of nodes of the graph came back."""
    if not equal(got.get("type"), "list"):
        return f"the return value is of type {shorten(got.get('type'))}; expected a list."
    if not isinstance(got.get("order"), list):
        return "the answer `order` is no list."
    foreign = sum(1 for node in got["order"] if type(node) is not int or node not in range(len(expected["parents"])))
    return f"{foreign} items of the list are no nodes of the graph." if foreign else None


def is_an_order(got: Answers, expected: Answers) -> str | None:
    """Every node that the root depends on, once, after its parents; the root last."""
    order, wanted, parents = got["order"], expected["order"], expected["parents"]
    place: dict[int, int] = {}
    for number, node in enumerate(order):
        if node in place:
            return f"a node is in the list twice, at {place[node]} and at {number}; the graph has {len(wanted)} nodes."
        place[node] = number
    if missing := [node for node in wanted if node not in place]:
        return f"{len(missing)} of the {len(wanted)} nodes that the root depends on are not in the list."
    if len(place) > len(wanted):
        return f"the list has {len(place)} nodes, but the root depends on {len(wanted)}, itself included."
    for number, node in enumerate(order):
        for parent in parents[node]:
            if place[parent] > number:
                return (
                    f"the node at {number} of the list stands before one of its parents, which is at {place[parent]}."
                )
    return None if order[-1:] == wanted[-1:] else "the root is not the last node of the list."


def is_shallow(got: Answers, expected: Answers) -> str | None:
    """Calls are not nested, and Python's limit on nesting stays."""
    if got.get("limit kept") is not True:
        return "the function changes sys.getrecursionlimit(), which belongs to the whole program."
    deep = "reads the parents of a node 40 or more calls within calls deep: a longer chain raises RecursionError."
    return None if got.get("shallow") is True else f"the function {deep}"


def is_linear(got: Answers, expected: Answers) -> str | None:
    """The parents of a node are read a few times, and nodes are looked up, not compared one by one."""
    if got.get("few reads") is not True:
        return "the parents of the nodes are read more than 4 times per node: nodes are visited again on every path."
    if got.get("few comparisons") is not True:
        return "nodes are compared more than 4 times per node: `in` searches a list item by item, and a set at once."
    return None


# --------------------------------------------------------------------------------------------------------- broadcasting
def reduced(got: Answers, expected: Answers) -> str | None:
    """Every reduced gradient, and that the given one stays."""
    count = len(expected["cases"])
    answers = (items_of(got, name, count) for name in ("reduced", "given"))
    for case, array, given, wanted in zip(expected["cases"], *answers, expected["reduced"], strict=True):
        if failure := array_failure(f"unbroadcast {case}: the result", array, wanted, _tolerance(wanted)):
            return failure
        if given is not True:
            return f"unbroadcast {case}: the given gradient is changed."
    return None


# ------------------------------------------------------------------------------------------------------------- backward
def all_grads(got: Answers, expected: Answers) -> str | None:
    """The gradient of every value of the graph, by its number."""
    count = len(expected["grads"])
    for number, (grad, wanted) in enumerate(zip(items_of(got, "grads", count), expected["grads"], strict=True)):
        if failure := array_failure(f"grad of v{number}", grad, wanted, _tolerance(wanted)):
            return f"{failure} The graph: {expected['graph']}."
    return None


def grads_of_both_calls(got: Answers, expected: Answers) -> str | None:
    """The gradients after two calls of backward, and after one of another root over the same values."""
    count = len(expected["grads"])
    first = (count - 1) // 2  # the second graph has one value more
    for number, (grad, wanted) in enumerate(zip(items_of(got, "grads", count), expected["grads"], strict=True)):
        when = "after two calls of backward" if number < first else "after a third call, from another root"
        place = number if number < first else number - first
        if failure := array_failure(f"{when}, grad of v{place}", grad, wanted):
            return f"{failure} The graph: {expected['graph']}."
    return None


def vjp_calls(got: Answers, expected: Answers) -> str | None:
    """Each vjp was called once, with an array of the right form."""
    count, graph = len(expected["calls"]), f"The graph: {expected['graph']}."
    for number, (calls, wanted) in enumerate(zip(items_of(got, "calls", count), expected["calls"], strict=True)):
        if isinstance(calls, list) and len(calls) != len(wanted):
            return f"vjp of v{number} is called {len(calls)} times; expected {len(wanted)}. {graph}"
        if not equal(calls, wanted):
            form = _joined(calls)
            return f"vjp of v{number} is called with {form}; expected {_joined(wanted)}. {graph}"
    return None


def arrays_kept(got: Answers, expected: Answers) -> str | None:
    """Data and the arrays of a vjp stay, and grads share no memory."""
    if got.get("data kept") is not True:
        return "the data of a value is changed."
    if got.get("arrays kept") is not True:
        return "an array that a vjp got or returned is changed in place; another value may use the same array."
    if got.get("memory") is not False:
        return "the grads of two values share memory: a change of one in place changes the other."
    return None


def data_of_expression(got: Answers, expected: Answers) -> str | None:
    """The numbers of the expression, before its gradients."""
    count = len(expected["data"])
    for name, data, wanted in zip("abcdefg", items_of(got, "data", count), expected["data"], strict=True):
        if failure := array_failure(f"in an expression with Value's operators, the number {name}", data, wanted, 1e-8):
            return failure
    return None


def grads_of_expression(got: Answers, expected: Answers) -> str | None:
    """The gradients of the expression."""
    count = len(expected["grads"])
    for name, grad, wanted in zip("abcdefg", items_of(got, "grads", count), expected["grads"], strict=True):
        if failure := array_failure(f"in an expression with Value's operators, dg/d{name}", grad, wanted, 1e-8):
            return failure
    return None


# ------------------------------------------------------------------------------------------------------- gradient_check
def is_float(got: Answers, expected: Answers) -> str | None:
    """A Python float, or several, came back."""
    wanted = expected["type"]
    kinds = items_of(got, "type", len(wanted)) if isinstance(wanted, list) else [got.get("type")]
    for kind in kinds:
        if not (equal(kind, "float") or equal(kind, "float64")):
            return f"the return value is of type {shorten(kind)}; expected a Python float."
    return None


def below(limit: float) -> Judge:
    """The disagreement of a right gradient is rounding only."""

    def judge(got: Answers, expected: Answers) -> str | None:
        number = got.get("disagreement")
        small = type(number) is float and 0 <= number < limit
        subject = "for a right gradient the disagreement"
        text = f"{number:.3g}" if type(number) is float else shorten(number)
        return None if small else f"{subject} is {text}; expected rounding, below {limit:g}."

    return judge


WRONG_NUMBERS = tuple(
    f"with one derivative of input {number} of 3 multiplied by {error:g}, the disagreement"
    for number in range(3)
    for error in (1.4, 0.3, -1.0)
)


def disagreements(*subjects: str) -> Judge:
    """Each disagreement is the reference's, to the accuracy of a difference of numbers."""

    def judge(got: Answers, expected: Answers) -> str | None:
        wanted = expected["disagreement"]
        several = isinstance(wanted, list)
        numbers = items_of(got, "disagreement", len(wanted)) if several else [got.get("disagreement")]
        for subject, number, right in zip(subjects, numbers, wanted if several else [wanted], strict=True):
            if not equal(number, right, 1e-6):
                return f"{subject} {mismatch_text(number, right)}"
        return None

    return judge


def check_kept(got: Answers, expected: Answers) -> str | None:
    """The arrays stay, and the function gets Values."""
    if not equal(got.get("kept"), expected["kept"]):
        return "the caller's arrays are changed after it, perhaps in their last digits."
    if not equal(got.get("types"), expected["types"]):
        return "the function is called with something other than one Value per array."
    if not equal(got.get("base"), expected["base"], TOLERANCE):
        return "the function is never called with the arrays as they are, where `backward` must start."
    return None


# ---------------------------------------------------------------------------------------------------------------- hooks
def no_hooks_left(got: Answers, expected: Answers) -> str | None:
    """Every module has the hooks that it had before."""
    counts = got.get("hooks")
    if equal(counts, expected["hooks"]):
        return None
    rows = counts if isinstance(counts, list) and counts and isinstance(counts[0], list) else [counts]
    numbers = [number for row in rows if isinstance(row, list) for number in row if type(number) is int]
    if surplus := sum(number for number in numbers if 0 < number < 10**6):
        return f"hooks that are left on the modules afterwards, and go on working: {surplus}; expected none."
    return "hooks that were there before are gone."


def raised(got: Answers, expected: Answers) -> str | None:
    """The error in the block, or of the layer, reached the caller."""
    if equal(got.get("raised"), expected["raised"]):
        return None
    errors = expected["raised"] if isinstance(expected["raised"], list) else [expected["raised"]]
    return f"{errors[0]} did not reach the caller."


def rows_of_layers(got: Answers, expected: Answers) -> str | None:
    """A list of tuples of a name and three floats."""
    if not equal(got.get("type"), "list"):
        return f"the return value is of type {shorten(got.get('type'))}; expected a list of tuples."
    if not equal(got.get("rows"), 0):
        return "the list has items that are no tuples of four: a name and three floats."
    if not equal(got.get("types"), ["float"]):
        return f"the rows hold items of type {_joined(got.get('types'))}; expected Python floats after the name."
    return None


def names_of_layers(got: Answers, expected: Answers) -> str | None:
    """The names of the layers, in the order of their calls."""
    names, wanted = got.get("names"), expected["names"]
    if equal(names, wanted):
        return None
    listed = names if isinstance(names, list) and all(type(name) is str for name in names) else []
    for name in dict.fromkeys(wanted):
        if listed.count(name) != wanted.count(name):
            return f"rows of layer {name}: {listed.count(name)}; calls of it: {wanted.count(name)}."
    if surplus := [name for name in listed if name not in wanted]:
        return f"there is a row for {shorten(surplus[0]) or 'the whole model'}, which should have none."
    return f"the rows are in the order {_joined(listed)}; expected {', '.join(wanted)}."


QUANTITIES = ("mean", "standard deviation", "share of zeros")


def numbers_of_layers(*quantities: int) -> Judge:
    """The quantities of every row."""

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(expected["names"])
        rows = zip(expected["names"], items_of(got, "numbers", count), expected["numbers"], strict=True)
        for name, row, wanted in rows:
            for quantity in quantities:
                number = row[quantity] if isinstance(row, list) and len(row) == 3 else None
                if not equal(number, wanted[quantity], 1e-8):
                    return f"layer {name}: the {QUANTITIES[quantity]} {mismatch_text(number, wanted[quantity])}"
        return None

    return judge


def ran_once(got: Answers, expected: Answers) -> str | None:
    """The model ran once, without a graph, in its mode."""
    graphs = got.get("graphs")
    runs = len(graphs) if isinstance(graphs, list) else 0
    if runs != 1:
        return f"the model ran {runs} times; expected one run."
    if not equal(graphs, [False]):
        return "the model's output has a graph, which keeps every activation for a backward pass."
    if got.get("grad on") is not True:
        return "gradients are switched off after it."
    return None if got.get("modes kept") is True else "modules are in another mode than before."


def of_passes(what: str) -> Judge:
    """The gradients of each backward pass inside the block."""

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(expected["gradients"])
        for number, (array, wanted) in enumerate(
            zip(items_of(got, "gradients", count), expected["gradients"], strict=True), start=1
        ):
            if not equal(array, wanted, TOLERANCE):
                both = _norms(array, wanted)
                return f"{what}, backward pass {number} of {count}: the norm of all gradients {both}"
        return None

    return judge


def _norms(array: object, wanted: np.ndarray) -> str:
    if not isinstance(array, np.ndarray) or array.shape != wanted.shape:
        return "cannot be compared: gradients are missing."
    norms = float(np.linalg.norm(np.nan_to_num(array))), float(np.linalg.norm(np.nan_to_num(wanted)))
    if equal(norms[0], norms[1], TOLERANCE):
        return f"is {norms[0]:.6g}, as it should be, but single gradients differ."
    return mismatch_text(*norms)


def norms_of_passes(got: Answers, expected: Answers) -> str | None:
    """The list has the norm of each pass, before clipping."""
    if not equal(got.get("type"), "list"):
        return f"the `as` variable is of type {shorten(got.get('type'))}; expected a list."
    norms, wanted = got.get("norms"), expected["norms"]
    if not isinstance(norms, list) or len(norms) != len(wanted):
        count = len(norms) if isinstance(norms, list) else 0
        return f"the list of norms has {count} items after {len(wanted)} backward passes."
    for number, (norm, right) in enumerate(zip(norms, wanted, strict=True), start=1):
        if not equal(norm, right, TOLERANCE):
            return f"norm {number} of the list {mismatch_text(norm, right)}"
    if not equal(got.get("types"), ["float"]):
        return f"the list of norms holds {_joined(got.get('types'))}; expected Python floats."
    return None


def changes_nothing_in_place(got: Answers, expected: Answers) -> str | None:
    """The gradient that arrives at the layer's output is as it was, and other hooks still run."""
    if not equal(got.get("arrived"), expected["arrived"]):
        return "the tensor that arrives as the gradient of the layer's output is changed in place."
    return None if equal(got.get("seen"), expected["seen"]) else "another hook of the layer no longer runs."


def after_the_block(got: Answers, expected: Answers) -> str | None:
    """A pass after the block is not clipped."""
    if equal(got.get("after"), expected["after"], TOLERANCE):
        return None
    return f"after the block, the norm of all gradients {_norms(got.get('after'), expected['after'])}"


def patched_logits(name: str, what: str) -> Judge:
    """The logits of runs with a patched block, or after it."""

    def judge(got: Answers, expected: Answers) -> str | None:
        values, wanted = got.get(name), expected[name]
        pairs = (
            zip(items_of(got, name, len(wanted)), wanted, strict=True)
            if isinstance(wanted, list)
            else [(values, wanted)]
        )
        for array, right in pairs:
            if not isinstance(array, np.ndarray) or array.shape != right.shape:
                return f"{what} have other sizes than without a patch."
            if not equal(array, right, TOLERANCE):
                share = float((~np.isclose(array, right, rtol=TOLERANCE, atol=TOLERANCE)).mean())
                worst = float(np.abs(np.nan_to_num(array) - right).max())
                return f"{what}: {share:.0%} of the numbers are wrong, by up to {worst:.3g}."
        return None

    return judge


def tensors_kept(got: Answers, expected: Answers) -> str | None:
    """Neither the block's output nor the replacement is changed in place."""
    for name, what in (("outputs kept", "the block's own output"), ("replacement kept", "`replacement`")):
        if not equal(got.get(name), expected[name]):
            return f"{what} is changed in place: code that still uses that tensor gets other numbers."
    return None


def check(name: str, says: str, points: int, probe: str, judge: Judge, *requires: str, **settings: Any) -> Check:
    return Check(name, says, points=points, probe=probe, judge=judge, requires=requires, **settings)


EXERCISES = (
    Exercise(
        name="arithmetic",
        functions=("add", "multiply", "power"),
        minutes=15,
        difficulty="easy",
        proves="you can write an operation together with its vector-Jacobian product",
        hints=(
            "Each function is one line: Value(data, parents, vjp, name). vjp multiplies g by the derivative of the "
            "result with respect to each parent. What is d(a + b)/da? What is d(a * b)/da?",
            "d(a * b)/da is b. A lambda may use a.data and b.data. The derivative of a ** n is n * a ** (n - 1), and "
            "for n = 0 it is 0: handle n = 0 as a separate case, because 0 * 0.0 ** -1 is nan.",
            'Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply"). A tuple of one array '
            "needs its comma: (x,).",
        ),
        checks=(
            check("arithmetic/add", "adds, and passes the gradient to both operands", 1, "of_add", is_operation),
            check(
                "arithmetic/multiply",
                "multiplies, and gives each operand the other one times the gradient",
                2,
                "of_multiply",
                is_operation,
            ),
            check(
                "arithmetic/power",
                "raises to powers: ints, fractions, negative ones",
                3,
                "of_power",
                is_operation,
            ),
            check(
                "arithmetic/power-at-0",
                "has the right derivative at 0, for exponents 0, 1, 2 and 3",
                1,
                "of_power_at_zero",
                is_operation,
                "arithmetic/power",
            ),
            check(
                "arithmetic/broadcast",
                "broadcasts operands of different shapes",
                1,
                "of_broadcast",
                is_operation,
                "arithmetic/add",
                "arithmetic/multiply",
            ),
            check(
                "arithmetic/kept",
                "keeps float32, names its parents in order and changes nothing",
                2,
                "arithmetic_kept",
                all_of(kept, of_itself),
                "arithmetic/add",
                "arithmetic/multiply",
                "arithmetic/power",
            ),
        ),
    ),
    Exercise(
        name="nonlinear",
        functions=("exp", "tanh", "relu"),
        minutes=10,
        difficulty="easy",
        proves="you know three derivatives by heart, and which of them need the result alone",
        hints=(
            "The derivative of exp is exp itself: keep the result and use it again in vjp.",
            "tanh' is 1 - result ** 2; np.tanh does not overflow. relu' is 1 where a > 0, and 0 elsewhere.",
            "vjp of relu: lambda g: (g * (a.data > 0),). np.maximum(a.data, 0) is the result, also for arrays.",
        ),
        checks=(
            check("nonlinear/exp", "computes exp and its gradient", 3, "of_exp", is_operation),
            check("nonlinear/tanh", "computes tanh and its gradient, also far from 0", 3, "of_tanh", is_operation),
            check("nonlinear/relu", "computes relu and its gradient", 2, "of_relu", is_operation),
            check(
                "nonlinear/relu-at-0",
                "gives relu the gradient 0 at 0",
                1,
                "of_relu_at_zero",
                is_operation,
                "nonlinear/relu",
            ),
            check(
                "nonlinear/kept",
                "keeps float32, names its parent and changes nothing",
                1,
                "nonlinear_kept",
                kept,
                "nonlinear/exp",
                "nonlinear/tanh",
                "nonlinear/relu",
            ),
        ),
    ),
    Exercise(
        name="topological_order",
        functions=("topological_order",),
        minutes=20,
        difficulty="medium",
        proves="you can order a graph of any depth so that backward visits each node once",
        hints=(
            "A node may enter the list when all of its parents are in it. Draw y = (a * b) + a, and do it by hand.",
            "With recursion, visit(node) would visit the parents that were not visited yet, and then append node. "
            "Without recursion, keep the nodes that are not appended yet on a stack, each with its parents that are "
            "still to be visited.",
            "stack = [(root, iter(root.parents))]. Look at the last pair: if its iterator has a parent that is not in "
            "the set `seen`, add that parent to `seen` and push it; if it has none, append the node and pop the pair.",
        ),
        checks=(
            check(
                "topological_order/tree",
                "lists every node after its parents, and the root last",
                3,
                "order_of_a_tree",
                all_of(is_a_list, is_an_order),
            ),
            check(
                "topological_order/graph",
                "lists a node that is used several times once, after all of its parents",
                3,
                "order_of_a_graph",
                all_of(is_a_list, is_an_order),
                "topological_order/tree",
            ),
            check(
                "topological_order/one",
                "lists a root without parents, and none of the nodes that use it",
                1,
                "order_of_one",
                all_of(is_a_list, is_an_order),
            ),
            check(
                "topological_order/deep",
                "orders a chain of thousands of nodes without recursion",
                2,
                "order_of_a_chain",
                all_of(is_a_list, is_an_order, is_shallow),
                "topological_order/tree",
            ),
            check(
                "topological_order/linear",
                "takes time in proportion to the nodes, not to the paths",
                1,
                "order_of_a_ladder",
                all_of(is_a_list, is_an_order, is_linear),
                "topological_order/tree",
            ),
        ),
    ),
    Exercise(
        name="broadcasting",
        functions=("unbroadcast", "sum_over"),
        minutes=15,
        difficulty="medium",
        proves="you know that the vjp of a broadcast is a sum, and the vjp of a sum is a broadcast",
        hints=(
            "A number that is repeated five times has five gradients. What is done with the gradients of several uses?",
            "Broadcasting adds gradient.ndim - len(shape) new axes in front: sum over these first. Then sum over each "
            "axis whose size in `shape` is 1, with keepdims=True.",
            "vjp of sum_over: reshape g to the shape that the sum would have with keepdims=True, then "
            "np.broadcast_to(..., a.data.shape).",
        ),
        checks=(
            check("broadcasting/front", "sums over new axes in front", 2, "new_axes", reduced),
            check("broadcasting/ones", "sums over axes of size 1, and keeps them", 2, "axes_of_one", reduced),
            check(
                "broadcasting/both",
                "sums over both kinds of axes at once",
                2,
                "both_kinds_of_axes",
                reduced,
                "broadcasting/front",
                "broadcasting/ones",
            ),
            check(
                "broadcasting/nothing",
                "returns an equal array where nothing was broadcast, in float32 too",
                1,
                "nothing_to_sum",
                reduced,
            ),
            check(
                "broadcasting/sum",
                "sums over given axes, and broadcasts the gradient back",
                3,
                "sums",
                all_of(is_operation, kept),
            ),
        ),
    ),
    Exercise(
        name="backward",
        functions=("backward",),
        minutes=25,
        difficulty="hard",
        proves="you can compute every gradient of a graph in one pass",
        hints=(
            "Keep the gradients of this call in a dictionary whose keys are Values, not in `grad`, which may hold the "
            "gradients of an earlier call. The root's gradient is an array of ones.",
            "Walk topological_order(root) backwards. At each value: its gradient is complete; add it to value.grad; "
            "call vjp; add each share to the parent's entry of the dictionary, after unbroadcast and astype.",
            "Write gradients[parent] = gradients[parent] + share, not +=, which would change an array that a vjp has "
            "returned. The same for value.grad = value.grad + gradient.",
        ),
        checks=(
            check("backward/chain", "multiplies along a chain", 1, "along_a_chain", all_grads),
            check("backward/reuse", "adds up the shares of every use", 2, "reused", all_grads, "backward/chain"),
            check(
                "backward/order",
                "calls each vjp once, when all shares are there",
                1,
                "out_of_order",
                all_of(all_grads, vjp_calls),
                "backward/reuse",
            ),
            check(
                "backward/broadcast",
                "sums a gradient over what was broadcast",
                1,
                "of_smaller_shapes",
                all_of(all_grads, vjp_calls),
                "backward/chain",
            ),
            check(
                "backward/dtype",
                "gives each value a gradient of its own dtype",
                1,
                "mixed_dtypes",
                all_of(all_grads, vjp_calls),
                "backward/chain",
            ),
            check(
                "backward/again",
                "adds exactly the same again in a second call",
                1,
                "twice",
                grads_of_both_calls,
                "backward/chain",
            ),
            check(
                "backward/kept",
                "changes no array but grad, and shares no memory between grads",
                1,
                "passed_on",
                all_of(all_grads, arrays_kept),
                "backward/chain",
            ),
            check(
                "backward/deep",
                "handles a chain of a thousand values and more",
                1,
                "a_long_chain",
                all_grads,
                "backward/chain",
            ),
            check(
                "backward/expression",
                "differentiates an expression with all of Value's operators",
                1,
                "expression",
                all_of(data_of_expression, grads_of_expression),
                "backward/chain",
                "arithmetic/add",
                "arithmetic/multiply",
                "arithmetic/power",
            ),
        ),
    ),
    Exercise(
        name="matmul",
        functions=("matmul",),
        minutes=20,
        difficulty="medium",
        proves="you can derive the two matrix products of a linear layer's backward, whatever the shapes",
        hints=(
            "g has the shape [n, k] of the result, dL/da must have [n, m], and b has [m, k]. Only one product of g "
            "and b has that shape, up to transposes.",
            "dL/da = g @ b transposed, dL/db = a transposed @ g. In a batch of matrices, transpose only the last two "
            "axes: np.swapaxes(b.data, -1, -2).",
            "For an operand with one axis, add the axis that np.matmul adds, to the operand and to g (np.expand_dims), "
            "compute as for matrices, and take the axis out of that operand's gradient again: [..., 0, :] or [..., 0].",
        ),
        checks=(
            check("matmul/matrices", "multiplies matrices, and has the right gradients", 4, "matrices", is_operation),
            check(
                "matmul/batches",
                "multiplies batches of matrices, broadcast where sizes differ",
                2,
                "batches",
                is_operation,
                "matmul/matrices",
            ),
            check(
                "matmul/vectors",
                "takes operands with a single axis, on either side",
                2,
                "vectors",
                is_operation,
                "matmul/matrices",
            ),
            check(
                "matmul/kept",
                "keeps float32, names its parents in order and changes nothing",
                2,
                "products_kept",
                kept,
                "matmul/matrices",
            ),
        ),
    ),
    Exercise(
        name="cross_entropy",
        functions=("cross_entropy",),
        minutes=20,
        difficulty="medium",
        proves="you can fuse softmax, logarithm and mean into one operation that never overflows",
        hints=(
            "log(softmax) is logits - log(sum(exp(logits))). Subtract the largest logit of each row first: the result "
            "is the same, and exp does not overflow.",
            "Pick the right classes by log_p[np.arange(B), labels]. The gradient of the mean is softmax, minus 1 at "
            "the right class, divided by B.",
            "Make a new array in vjp, gradient = np.exp(log_p), subtract 1 from gradient[np.arange(B), labels], and "
            "return (g * gradient / B,).",
        ),
        checks=(
            check("cross_entropy/loss", "computes the mean loss", 3, "entropy", all_of(is_value, data_of_cases)),
            check(
                "cross_entropy/gradient",
                "computes the gradient, and multiplies it by g",
                4,
                "entropy",
                gradients_of_cases(),
                "cross_entropy/loss",
            ),
            check(
                "cross_entropy/large",
                "stays finite with logits in the thousands",
                2,
                "entropy_of_large_logits",
                is_operation,
                "cross_entropy/loss",
                "cross_entropy/gradient",
            ),
            check(
                "cross_entropy/kept",
                "keeps float32, gives the same gradient a second time and changes nothing",
                1,
                "entropy_kept",
                all_of(kept, lambda got, expected: None if got["labels kept"] is True else "`labels` is changed."),
                "cross_entropy/loss",
                "cross_entropy/gradient",
            ),
        ),
    ),
    Exercise(
        name="gradient_check",
        functions=("gradient_check",),
        minutes=20,
        difficulty="medium",
        proves="you can test any gradient by differences of the function",
        hints=(
            "Two loops: over the arrays, and over the numbers of each. Move one number up, then down, and leave all "
            "others as they are.",
            "np.ndindex(array.shape) yields every index, also of an array of shape (). Move a number in a copy of its "
            "array, and make new Values of all arrays for each call.",
            "Collect abs(gradient - difference) / max(1.0, abs(difference)) in a list; np.max returns nan if one item "
            "is nan, and Python's max may not.",
        ),
        checks=(
            check(
                "gradient_check/right",
                "finds no fault with a right gradient",
                2,
                "of_a_right_gradient",
                all_of(is_float, below(1e-7), check_kept),
                "backward/chain",
            ),
            check(
                "gradient_check/wrong",
                "finds one wrong number in any input, and by how much it is wrong",
                4,
                "of_a_wrong_number",
                all_of(is_float, disagreements(*WRONG_NUMBERS), check_kept),
                "backward/chain",
            ),
            check(
                "gradient_check/relative",
                "divides by the difference where that is above 1",
                1,
                "of_large_derivatives",
                disagreements("with derivatives in the hundreds, one of them 30 % too large, the disagreement"),
                "backward/chain",
            ),
            check(
                "gradient_check/central",
                "takes central differences with the given step",
                2,
                "of_a_large_step",
                all_of(disagreements("for a right gradient and a step above 0.1, the disagreement"), check_kept),
                "backward/chain",
            ),
            check(
                "gradient_check/nan",
                "returns nan if a gradient is nan",
                1,
                "of_nan",
                disagreements("with one derivative nan, the disagreement"),
                "backward/chain",
            ),
        ),
    ),
    Exercise(
        name="layer_statistics",
        functions=("layer_statistics",),
        minutes=20,
        difficulty="medium",
        proves="you can look into a running model without changing it",
        hints=(
            "module.register_forward_hook(hook) calls hook(module, inputs, output) after each call of the module, and "
            "returns a handle with remove().",
            "The hook needs the name of its module: make the hook in a function that takes the name, or with "
            "functools.partial. A layer is a module without children: not any(module.children()).",
            "Remove the handles in `finally`, and run the model under torch.no_grad(). output.double() first, then "
            "mean(), std(correction=0) and (output == 0).double().mean(), each with .item().",
        ),
        checks=(
            check(
                "layer_statistics/names",
                "has a row per call of a layer, in the order of the calls",
                3,
                "statistics_in_evaluation",
                all_of(rows_of_layers, names_of_layers),
            ),
            check(
                "layer_statistics/numbers",
                "computes mean, standard deviation and share of zeros",
                2,
                "statistics_in_evaluation",
                numbers_of_layers(0, 1, 2),
                "layer_statistics/names",
            ),
            check(
                "layer_statistics/mode",
                "runs the model once, without a graph, in the mode it is in",
                2,
                "statistics_in_training",
                all_of(ran_once, numbers_of_layers(0, 1, 2)),
                "layer_statistics/numbers",
            ),
            check(
                "layer_statistics/half",
                "computes in float64 for a model in bf16",
                1,
                "statistics_in_half",
                numbers_of_layers(0, 1, 2),
                "layer_statistics/numbers",
            ),
            check(
                "layer_statistics/removed",
                "leaves no hook behind",
                1,
                "statistics_in_evaluation",
                all_of(no_hooks_left, numbers_of_layers(0, 1, 2)),
                "layer_statistics/numbers",
            ),
            check(
                "layer_statistics/error",
                "leaves no hook behind after an error either",
                1,
                "statistics_after_an_error",
                all_of(raised, no_hooks_left),
                "layer_statistics/removed",
            ),
        ),
    ),
    Exercise(
        name="clip_layer_gradient",
        functions=("clip_layer_gradient",),
        minutes=20,
        difficulty="medium",
        proves="you can change a gradient during backward, and remove your hook",
        hints=(
            "Two kinds of module hooks run in backward. Which of them runs before the layer's own gradients are "
            "computed?",
            "layer.register_full_backward_pre_hook(hook) calls hook(module, grad_output); grad_output is a tuple. A "
            "tuple that the hook returns replaces grad_output; None leaves grad_output unchanged.",
            "Return (grad_output[0] * (max_norm / norm),) if norm > max_norm. Yield the list inside try, and remove "
            "the handle in finally.",
        ),
        checks=(
            check(
                "clip_layer_gradient/clipped",
                "clips before the layer's weights and the layers before it get their gradients",
                3,
                "clipped_passes",
                of_passes("with a limit below the norm"),
            ),
            check(
                "clip_layer_gradient/small",
                "leaves a gradient below the limit, and a gradient of 0, as it is",
                1,
                "small_passes",
                of_passes("with a limit above the norm"),
            ),
            check(
                "clip_layer_gradient/norms",
                "lists the norm of each pass before clipping",
                2,
                "clipped_passes",
                norms_of_passes,
            ),
            check(
                "clip_layer_gradient/in-place",
                "changes no tensor in place, and no other hook",
                1,
                "clipped_passes",
                changes_nothing_in_place,
                "clip_layer_gradient/clipped",
            ),
            check(
                "clip_layer_gradient/removed",
                "is gone after the block",
                2,
                "clipped_passes",
                all_of(no_hooks_left, after_the_block),
                "clip_layer_gradient/clipped",
            ),
            check(
                "clip_layer_gradient/error",
                "is gone after an error in the block",
                1,
                "clip_after_an_error",
                all_of(raised, no_hooks_left, of_passes("after an error in the block")),
                "clip_layer_gradient/removed",
            ),
        ),
    ),
    Exercise(
        name="patch_activations",
        functions=("patch_activations",),
        minutes=20,
        difficulty="medium",
        proves="you can test what a block does by replacing its output",
        hints=(
            "A forward hook that returns a tensor replaces the module's output by it.",
            "With positions, start from a clone of the output: other code may hold the block's own output. Autograd "
            "follows a clone, and an assignment into it.",
            "patched = output.clone(); patched[:, list(positions)] = replacement[:, list(positions)]; return patched. "
            "Remove the handle in finally.",
        ),
        checks=(
            check(
                "patch_activations/whole",
                "replaces a block's whole output, in every call",
                3,
                "patched_whole",
                patched_logits("patched", "the logits of a GPT with a patched block"),
            ),
            check(
                "patch_activations/positions",
                "replaces the given positions only, negative ones too",
                2,
                "patched_positions",
                patched_logits("patched", "with positions, the logits"),
                "patch_activations/whole",
            ),
            check(
                "patch_activations/kept",
                "changes neither the block's own output nor `replacement`",
                1,
                "patched_positions",
                tensors_kept,
                "patch_activations/positions",
            ),
            check(
                "patch_activations/gradient",
                "lets gradients flow to the block where it is not patched, and to the replacement where it is",
                1,
                "patched_gradients",
                all_of(
                    patched_logits("of replacement", "the gradient of `replacement`"),
                    patched_logits("of weights", "the gradient of the model's weights"),
                ),
                "patch_activations/positions",
            ),
            check(
                "patch_activations/removed",
                "gives the block its own output back after the `with`",
                2,
                "patched_whole",
                all_of(no_hooks_left, patched_logits("after", "after the `with`, the logits")),
                "patch_activations/whole",
            ),
            check(
                "patch_activations/error",
                "is removed after an error in the `with`, and one patch may stand within another",
                1,
                "patch_after_an_error",
                all_of(
                    raised,
                    no_hooks_left,
                    patched_logits("after", "after an error in the `with`, the logits"),
                    patched_logits("nested", "with one patch within another, the logits"),
                ),
                "patch_activations/removed",
            ),
        ),
    ),
)
