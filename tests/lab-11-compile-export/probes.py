"""Lab 11, probes: they call the learner's code on random inputs and return plain values.

Graphs are captured by torch's compiler and run as they are: no code is generated, so no C++ compiler is needed. The
modules that the compiler imports at its first use are imported here, before the probes' process is forked.
"""

import copy
import io
import logging
import math
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from types import ModuleType
from typing import Any

import networkx  # type: ignore[import-untyped]  # noqa: F401
import torch
import torch._dynamo.repro.after_dynamo
import torch._dynamo.testing
import torch.export._trace
import torch.nn.functional as F
from torch import Tensor, fx, nn

from rankzero.exercises.probes.untrusted_values import (
    array,
    in_training,
    is_tensor,
    kind_text,
    plain_number,
    tuple_items,
    type_name,
)

Call = Callable[..., Any]
_ENTRIES = torch._dynamo.eval_frame._debug_get_cache_entry_list  # bound before a learner's file can replace it
logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # warnings of limits would look like the learner's prints


def ints(value: Any) -> list[int] | str:
    """Returns the numbers of a list of Python's ints; for anything else a text that says what it is."""
    if type(value) is not list:
        return kind_text(value)
    return list(value) if all(type(item) is int for item in value) else "a list of other things than ints"


def values(tensor: Any) -> Any:
    """Returns a tensor's numbers as an array, None for anything else."""
    return array(tensor) if is_tensor(tensor) else None


def failure(action: Callable[[], object]) -> str:
    """Returns the name of the exception's type that `action` raises; 'no error' if it raises none."""
    try:
        action()
    except NotImplementedError:
        raise
    except Exception as error:
        return type_name(error)
    return "no error"


def unwatched(function: Any) -> Any:
    """Returns the learner's function without the wrapper that watches its arguments, which the compiler would trace."""
    return vars(function).get("__wrapped__", function)


def cached_entries(function: Call) -> int:
    """Returns how many compiled variants of a function the compiler keeps."""
    return len(_ENTRIES(function.__code__))


class Counter:
    """A backend that notes each graph: its operations, and its inputs that are tensors."""

    def __init__(self) -> None:
        self.operations: list[int] = []
        self.inputs: list[int] = []

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Call:
        self.operations.append(sum(node.op.startswith("call_") for node in gm.graph.nodes))
        self.inputs.append(sum(isinstance(example, Tensor) for example in example_inputs))
        return gm.forward


# -------------------------------------------------------------------------------------------------- graphs of one call
OPERATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.sin,
    torch.relu,
    lambda x: x.cos(),
    lambda x: x + 1,
    lambda x: 0.5 * x,
    lambda x: x.clamp(min=-1.0),
)


METHOD = OPERATIONS[2]


def chain(draw: random.Random, count: int) -> Callable[[Tensor], Tensor]:
    """Returns a function of `count` operations in a row, one of them a method."""
    operations = draw.choices(OPERATIONS, k=count)
    operations[draw.randrange(count)] = METHOD

    def run(x: Tensor) -> Tensor:
        for operation in operations:
            x = operation(x)
        return x

    return run


class Layers(nn.Module):
    """Linear layers with weights and a buffer, and a few operations after each."""

    shift: Tensor

    def __init__(self, draw: random.Random, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4, bias=draw.random() < 0.5) for _ in range(layers))
        self.register_buffer("shift", torch.ones(4))
        self.parts = [chain(draw, draw.randrange(1, 4)) for _ in range(layers)]

    def forward(self, x: Tensor) -> Tensor:
        for layer, part in zip(self.layers, self.parts, strict=True):
            x = part(layer(x)) + self.shift
        return x


def broken_at(parts: list[Callable[[Tensor], Tensor]], after: Callable[[Tensor], None]) -> Callable[[Tensor], Tensor]:
    """Returns a function of all parts in a row; between two parts, `after` breaks the graph."""
    first, *others = parts
    if len(others) == 1:
        second = others[0]

        def two(x: Tensor) -> Tensor:
            x = first(x)
            after(x)
            return second(x)

        return two
    second, third = others

    def three(x: Tensor) -> Tensor:
        x = first(x)
        after(x)
        x = second(x)
        after(x)
        return third(x)

    return three


def some_rows(draw: random.Random, rows: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    return torch.randn(rows or draw.randrange(2, 9), 4, generator=generator)


def graphs_counted(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Functions and a module without a break, and a function that does nothing with tensors."""
    draw = random.Random(seed)
    x = some_rows(draw)
    last = chain(draw, draw.randrange(1, 4))
    functions: list[tuple[str, Call, tuple[Tensor, ...]]] = [
        ("a chain of functions and methods", chain(draw, draw.randrange(3, 12)), (x,)),
        ("a module with weights and a buffer", Layers(draw, draw.randrange(2, 4)), (x,)),
        ("a function of two inputs", lambda x, y: (x * y).sum() + last(y), (x, x + 1)),
        ("a function that computes nothing", lambda x: None, (x,)),
    ]
    counts = [ints(learner.graph_sizes(function, *inputs)) for _, function, inputs in functions]
    return {"cases": [name for name, _, _ in functions], "sizes": counts}


def graphs_with_breaks(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Functions with one or two breaks, and how often each was called."""
    draw = random.Random(seed)
    calls: list[float] = []

    @torch._dynamo.disable  # type: ignore[untyped-decorator]
    def note(x: Tensor) -> None:
        calls.append(float(x.sum()))

    def branch(x: Tensor) -> Tensor:
        x = before(x)
        return after(x) if x.sum().item() > -1e9 else x

    before, after = chain(draw, draw.randrange(2, 7)), chain(draw, draw.randrange(1, 7))
    sizes = draw.sample(range(1, 10), 5)
    two = broken_at([chain(draw, size) for size in sizes[:2]], note)
    three = broken_at([chain(draw, size) for size in sizes[2:]], note)
    functions = [("one break", two), ("two breaks", three), ("an `if` that reads .item()", branch)]
    counts, called = [], []
    for _, function in functions:
        already = len(calls)
        counts.append(ints(learner.graph_sizes(function, some_rows(draw))))
        called.append(len(calls) - already)
    return {"cases": [name for name, _ in functions], "sizes": counts, "called": called}


def graphs_counted_again(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One function many times, with other shapes and after a compilation by somebody else."""
    draw = random.Random(seed)
    function = chain(draw, draw.randrange(3, 15))
    torch._dynamo.reset()
    elsewhere = torch.compile(function, backend="eager", dynamic=False)
    for rows in range(2, 10):  # as many as torch compiles of one function
        elsewhere(some_rows(draw, rows))
    counts = [ints(learner.graph_sizes(function, some_rows(draw, rows))) for rows in (4, 4, 5, 10)]
    torch._dynamo.reset()
    return {"cases": [f"call {number} of graph_sizes" for number in range(1, 5)], "sizes": counts}


def nothing_left(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Compiled variants that stay after graph_sizes, also after an exception; torch's settings, and gradients' mode."""
    draw = random.Random(seed)
    function = chain(draw, draw.randrange(2, 6))

    def fails(x: Tensor) -> Tensor:
        function(x)
        raise LookupError("no such token")

    seen: list[bool] = []

    def asks(x: Tensor) -> Tensor:
        seen.append(torch.is_grad_enabled())
        return function(x)

    modes = []
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            learner.graph_sizes(asks, some_rows(draw))
        modes.append(sorted(set(seen)))
        seen.clear()
    with torch._dynamo.config.patch(recompile_limit=draw.randrange(5, 12)):  # a limit that no earlier call has set
        settings = torch._dynamo.config.get_config_copy()
        sizes = ints(learner.graph_sizes(function, some_rows(draw)))
        kept = [cached_entries(function)]
        ended = failure(lambda: learner.graph_sizes(fails, some_rows(draw)))
        kept += [cached_entries(function), cached_entries(fails)]
        same = settings == torch._dynamo.config.get_config_copy()
    grad = torch.is_grad_enabled()
    return {"sizes": sizes, "kept": kept, "ended": ended, "settings": same, "grad": grad, "modes": modes}


# ------------------------------------------------------------------------------------------- compilations of many calls
def calls_of(draw: random.Random, lengths: list[int]) -> list[tuple[Any, ...]]:
    return [(some_rows(draw, rows),) for rows in lengths]


def new_lengths(draw: random.Random, count: int) -> list[int]:
    """Returns numbers of rows: `count` different ones, and some of them again, never the first two alike."""
    different = draw.sample(range(2, 40), count)
    return different[:2] + draw.choices(different, k=3) + different[2:] + draw.choices(different, k=2)


def shapes_compiled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Calls with several numbers of rows, with torch's default; in one case a single row comes last."""
    draw = random.Random(seed)
    cases, counts = [], []
    for lengths in (new_lengths(draw, draw.randrange(3, 5)), [draw.randrange(2, 9)] * draw.randrange(2, 7)):
        lengths = [*lengths, 1] if len(set(lengths)) > 1 else lengths
        cases.append(f"calls with {lengths} rows")
        counts.append(ints(learner.compilations(chain(draw, 3), calls_of(draw, lengths))))
    return {"cases": cases, "counts": counts}


def dynamic_compiled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same calls with each value of `dynamic`."""
    draw = random.Random(seed)
    calls = calls_of(draw, new_lengths(draw, draw.randrange(4, 7)))
    function = chain(draw, 3)
    torch._dynamo.reset()
    elsewhere = torch.compile(function, backend="eager")
    for rows in (2, 3):  # the compiler notes that the number of rows varies
        elsewhere(some_rows(draw, rows))
    counts = [ints(learner.compilations(function, calls, dynamic)) for dynamic in (None, False, True)]
    return {"cases": [f"dynamic={value}" for value in (None, False, True)], "counts": counts}


def graphs_compiled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A function with breaks, called with several shapes in order, each once; a module."""
    draw = random.Random(seed)
    seen: list[float] = []

    @torch._dynamo.disable  # type: ignore[untyped-decorator]
    def note(x: Tensor) -> None:
        seen.append(round(float(x.sum()), 4))

    parts = [chain(draw, draw.randrange(1, 4)) for _ in range(draw.choice([2, 3]))]
    calls = calls_of(draw, new_lengths(draw, 3))
    counts = [ints(learner.compilations(broken_at(parts, note), calls))]
    counts.append(ints(learner.compilations(Layers(draw, 2), calls_of(draw, new_lengths(draw, 3)))))
    return {"cases": [f"a function with {len(parts) - 1} breaks", "a module"], "counts": counts, "seen": seen}


def limit_reached(learner: ModuleType, seed: int) -> dict[str, Any]:
    """More shapes than torch compiles of one function; what is left behind."""
    draw = random.Random(seed)
    lengths = draw.sample(range(2, 40), 10)
    lengths.insert(draw.randrange(4, 8), lengths[0])
    function = chain(draw, 2)
    settings = torch._dynamo.config.get_config_copy()
    calls = calls_of(draw, lengths)
    counts = [ints(learner.compilations(function, calls, False))]
    kept = [cached_entries(function)]
    same = settings == torch._dynamo.config.get_config_copy()
    return {"cases": ["ten shapes with dynamic=False"], "counts": counts, "kept": kept, "settings": same}


# --------------------------------------------------------------------------------------------------- one graph, clipped
def clip_cases(draw: random.Random) -> list[tuple[str, Tensor, float]]:
    """Tensors of several shapes and both dtypes, above and below their limit."""
    cases = []
    full, half = torch.float32, torch.bfloat16
    for dtype, share in ((full, 0.3), (full, 1.7), (half, 0.3), (half, 0.5), (half, 1.7)):
        wide = [draw.randrange(8, 12), draw.randrange(8, 12)]  # enough numbers that a norm in bf16 shows
        shape = wide if dtype == half else [draw.randrange(2, 7) for _ in range(draw.randrange(1, 4))]
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        x = (torch.randn(shape, generator=generator) * draw.uniform(0.2, 5)).to(dtype)
        limit = round(float(x.float().norm()) * share * draw.uniform(0.9, 1.1), 3)
        where = "above" if share < 1 else "below"
        cases.append((f"x {str(dtype).removeprefix('torch.')} {shape} with a norm {where} the limit", x, limit))
    return cases


def clipped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Values, without gradients."""
    cases = clip_cases(random.Random(seed))
    before = [x.clone() for _, x, _ in cases]
    results = [learner.clip_in_one_graph(x, limit) for _, x, limit in cases]
    return {
        "cases": [name for name, _, _ in cases],
        "forms": [kind_text(result) for result in results],
        "values": [values(result) for result in results],
        "unchanged": all(torch.equal(x, old) for (_, x, _), old in zip(cases, before, strict=True)),
    }


def clip_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gradients for random gradients of the result; also of zeros."""
    draw = random.Random(seed)
    cases = clip_cases(draw)
    cases.append(("x float32 [5] of zeros", torch.zeros(5), draw.uniform(0.5, 2)))
    gradients, zeros = [], []
    for _, x, limit in cases:
        x.requires_grad_()
        result = learner.clip_in_one_graph(x, limit)
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        if is_tensor(result) and result.requires_grad:
            gradient = torch.randn(x.shape, generator=generator).to(x.dtype)
            result.backward(gradient.to(result.dtype).reshape(result.shape))
        gradients.append(values(x.grad))
        zeros.append(values(result))
    return {"cases": [name for name, _, _ in cases], "gradients": gradients, "result": zeros[-1]}


def clip_compiled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Graphs and compilations of calls with values on both sides of the limit, with gradients and without."""
    draw = random.Random(seed)
    limit, shape = draw.uniform(0.5, 2), [draw.randrange(2, 7), draw.randrange(2, 7)]
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    answers: dict[str, Any] = {"cases": ["without gradients", "with gradients"], "graphs": [], "values": []}
    for requires_grad in (False, True):
        torch._dynamo.reset()
        counter, counts, results = Counter(), [], []
        compiled = torch.compile(unwatched(learner.clip_in_one_graph), backend=counter)
        for scale in draw.sample([0.01, 0.1, 3.0, 10.0], 4):
            already = len(counter.operations)
            x = (torch.randn(shape, generator=generator) * scale).requires_grad_(requires_grad)
            results.append(values(compiled(x, limit)))
            counts.append(len(counter.operations) - already)
        answers["graphs"].append(counts)
        answers["values"].append(results)
    torch._dynamo.reset()
    return answers


# ------------------------------------------------------------------------------------------------ updates compiled once
def some_parameters(draw: random.Random, dtypes: tuple[torch.dtype, ...]) -> list[Tensor]:
    """Returns a parameter of each dtype, the first and most others with requires_grad."""
    parameters: list[Tensor] = []
    for dtype in dtypes:
        shape = [draw.randrange(1, 5) for _ in range(draw.randrange(1, 3))]
        tensor = torch.randn(shape, generator=torch.Generator().manual_seed(draw.randrange(2**31))).to(dtype)
        parameters.append(nn.Parameter(tensor) if not parameters or draw.random() < 0.7 else tensor)
    return parameters


def some_gradients(draw: random.Random, parameters: list[Tensor]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    return [torch.randn(tensor.shape, generator=generator).to(tensor.dtype) for tensor in parameters]


class Rates:
    """A schedule with a warm-up, as a function of the step, which notes each argument and its type."""

    def __init__(self, draw: random.Random) -> None:
        self.peak, self.warmup = draw.uniform(0.05, 0.5), draw.randrange(2, 5)
        self.asked: list[Any] = []

    def __call__(self, step: int) -> float:
        self._note(step)
        if step <= self.warmup:
            return self.peak * step / self.warmup
        return self.peak * math.sqrt(self.warmup / step)

    @torch._dynamo.disable  # type: ignore[untyped-decorator]
    def _note(self, step: int) -> None:
        self.asked.append(step if type(step) is int else kind_text(step))


def updated(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Parameters after several updates, for a backend by its name and one that is a function."""
    draw = random.Random(seed)
    after, asked = [], []
    backends: tuple[Any, ...] = ("eager", Counter())
    for backend in draw.sample(backends, 2):
        torch._dynamo.reset()
        parameters = some_parameters(draw, (torch.float32,) * draw.randrange(2, 4))
        rates = Rates(draw)
        update = learner.make_update(parameters, rates, backend)
        for _ in range(draw.randrange(4, 8)):
            update(some_gradients(draw, parameters))
        after.append([array(parameter) for parameter in parameters])
        asked.append(rates.asked)
    torch._dynamo.reset()
    return {"after": after, "asked": asked}


def updates_compiled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """How many graphs each update compiles, and how many tensors enter the first graph."""
    draw = random.Random(seed)
    torch._dynamo.reset()
    counter, counts = Counter(), []
    parameters = some_parameters(draw, (torch.float32,) * draw.randrange(2, 5))
    update = learner.make_update(parameters, Rates(draw), counter)
    for _ in range(draw.randrange(10, 13)):
        already = len(counter.operations)
        update(some_gradients(draw, parameters))
        counts.append(len(counter.operations) - already)
    torch._dynamo.reset()
    enters = min([*counter.inputs[:1], 2 * len(parameters) + 1])
    return {"counts": counts, "enters": enters, "after": [array(parameter) for parameter in parameters]}


def updates_of_some(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two updates in turns, over parameters of several dtypes, some without a gradient; then a single number."""
    draw = random.Random(seed)
    torch._dynamo.reset()
    sets = [some_parameters(draw, (torch.float32, torch.bfloat16, torch.float64, torch.float32)) for _ in range(2)]
    without = [draw.randrange(4) for _ in range(2)]
    kinds = [[str(tensor.dtype) for tensor in parameters] for parameters in sets]
    rates = [Rates(draw) for _ in range(2)]
    updates = [learner.make_update(parameters, rate, "eager") for parameters, rate in zip(sets, rates, strict=True)]
    for number in (0, 1, 0, 0, 1, 0, 1):
        gradients: list[Tensor | None] = [*some_gradients(draw, sets[number])]
        gradients[without[number]] = None
        updates[number](gradients)
    single = torch.tensor(draw.uniform(1, 2))
    update = learner.make_update([single], Rates(draw), "eager")
    ended = failure(lambda: update([torch.ones(())]))
    torch._dynamo.reset()
    return {
        "ended": ended,
        "single": array(single),
        "after": [[array(tensor) for tensor in parameters] for parameters in sets],
        "asked": [rate.asked for rate in rates],
        "same types": kinds == [[str(tensor.dtype) for tensor in parameters] for parameters in sets],
        "recorded": any(tensor.grad_fn is not None for parameters in sets for tensor in parameters),
    }


# --------------------------------------------------------------------------------------------------- buckets of lengths
def some_buckets(draw: random.Random) -> list[int]:
    buckets = draw.sample(range(4, 200), draw.randrange(3, 7))
    while buckets[0] == min(buckets):  # the first bucket is not always the smallest that holds a sequence
        draw.shuffle(buckets)
    return buckets


def buckets_found(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Buckets of random lengths: among them the buckets' own sizes, and the sizes beside them."""
    draw = random.Random(seed)
    buckets = some_buckets(draw)
    before = list(buckets)
    lengths = [draw.randrange(1, max(buckets)) for _ in range(6)] + [max(buckets), min(buckets), min(buckets) + 1, 1]
    found = [learner.bucket_of(length, buckets) for length in lengths]
    return {
        "cases": [f"length {length} of the buckets {before}" for length in lengths],
        "buckets": [bucket if type(bucket) is int else kind_text(bucket) for bucket in found],
        "unchanged": buckets == before,
    }


def no_bucket(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Lengths that fit into no bucket: the error, and the numbers in its text."""
    draw = random.Random(seed)
    buckets = [2 * size for size in some_buckets(draw)]
    length = max(buckets) + draw.randrange(1, 90)
    tokens = torch.zeros(2, length, dtype=torch.int64)
    actions: tuple[tuple[str, Callable[[], object]], ...] = (
        (f"bucket_of({length}, {buckets})", lambda: learner.bucket_of(length, buckets)),
        (f"pad_to_bucket of {length} tokens", lambda: learner.pad_to_bucket(tokens, tokens, buckets, 0)),
        (f"bucket_of({length + 1}, ...)", lambda: learner.bucket_of(length + 1, buckets)),
    )
    ended, named = [], []
    for _, action in actions:
        text = ""
        try:
            action()
            ended.append("no error")
        except NotImplementedError:
            raise
        except Exception as error:
            ended.append(type_name(error))
            text = str(error)
        named.append([str(number) in text for number in (length + (action is actions[2][1]), max(buckets))])
    fits = learner.bucket_of(max(buckets) - 1, buckets)
    found = fits if type(fits) is int else kind_text(fits)
    return {"cases": [name for name, _ in actions], "ended": ended, "named": named, "fits": found}


def some_batch(draw: random.Random, length: int, padding: int) -> tuple[Tensor, Tensor]:
    """Returns tokens and targets from 3 up; a target is -100 already, and one is the token that pads."""
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    tokens = torch.randint(3, 20, (draw.randrange(2, 5), length), generator=generator)
    targets = torch.randint(3, 20, tokens.shape, generator=generator)
    targets[0, draw.randrange(length)] = -100
    targets[1, 0] = padding
    return tokens, targets


def padded(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Batches whose length lies between buckets, or is one."""
    draw = random.Random(seed)
    answers: dict[str, Any] = {name: [] for name in ("cases", "forms", "tokens", "targets")}
    unchanged = True
    for exact in (False, True, False):
        buckets = sorted(draw.sample(range(8, 40, 2), 4), reverse=not answers["cases"])
        length = sorted(buckets)[2] if exact else draw.randrange(3, sorted(buckets)[2], 2)  # odd: no bucket
        padding = draw.randrange(3) if exact else 2
        tokens, targets = some_batch(draw, length, padding)
        before = tokens.clone(), targets.clone()
        returned = learner.pad_to_bucket(tokens, targets, buckets, padding)
        new_tokens, new_targets = tuple_items(returned, 2) or (returned, None)
        answers["cases"].append(f"{length} tokens, buckets {buckets}")
        answers["forms"].append([kind_text(new_tokens), kind_text(new_targets)])
        answers["tokens"].append(values(new_tokens))
        answers["targets"].append(values(new_targets))
        unchanged &= torch.equal(tokens, before[0]) and torch.equal(targets, before[1])
    return {**answers, "unchanged": bool(unchanged)}


def loss_of_padded(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The loss of a causal model on padded batches."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    table, head = torch.randn(20, 6, generator=generator), torch.randn(20, 6, generator=generator)
    losses = []
    for _ in range(3):
        padding = draw.randrange(3)
        tokens, targets = some_batch(draw, draw.randrange(3, 12), padding)
        new = tuple_items(learner.pad_to_bucket(tokens, targets, [16, 12, 24], padding), 2)
        if new is None or new[0].shape[1] <= tokens.shape[1]:  # without padding, no loss changes
            losses.append(math.nan)
            continue
        logits = table[new[0]].cumsum(1) @ head.T
        losses.append(F.cross_entropy(logits.flatten(0, 1), new[1].flatten()).item())
    return {"losses": losses}


def total_padding(lengths: list[int], buckets: Any) -> Any:
    """Returns the padding of these lengths in the buckets; a text where a length fits nowhere or a bucket is no int."""
    sizes = ints(buckets)
    if isinstance(sizes, str):
        return sizes
    fitting = [min((size for size in sizes if size >= length), default=0) for length in lengths]
    return "a length fits into no bucket" if 0 in fitting else sum(fitting) - sum(lengths)


def _best(learner: ModuleType, cases: list[tuple[list[int], int]]) -> dict[str, Any]:
    before = copy.deepcopy(cases)
    found = [learner.best_buckets(lengths, count) for lengths, count in cases]
    return {
        "cases": [
            f"{count} buckets for {len(lengths)} lengths" + f" {lengths}" * (len(lengths) < 9)
            for lengths, count in before
        ],
        "padding": [total_padding(lengths, buckets) for (lengths, _), buckets in zip(before, found, strict=True)],
        "too many": [
            type(buckets) is list and len(buckets) > count for (_, count), buckets in zip(before, found, strict=True)
        ],
        "ascending": [
            isinstance(sizes := ints(buckets), list) and all(a < b for a, b in pairwise(sizes)) for buckets in found
        ],
        "unchanged": cases == before,
    }


def buckets_chosen(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The least padding of a few lengths, each of which occurs once."""
    draw = random.Random(seed)
    cases = []
    for count in (1, 2, 3, 4):
        lengths = draw.sample(range(5, 60), draw.randrange(3, 5)) + draw.sample(range(200, 900), draw.randrange(2, 5))
        draw.shuffle(lengths)
        cases.append((lengths, count))
    step = draw.randrange(6, 15)
    even = [step * place + draw.randrange(2) for place in range(1, 13)]  # where the best split in two helps no further
    return _best(learner, [*cases, (draw.sample(even, 12), 3)])


def buckets_of_frequent_lengths(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A length that occurs a thousand times: its bucket is the one that would save the least if it came once."""
    draw = random.Random(seed)
    cases = []
    for _ in range(4):
        lengths = [3 * number for number in draw.sample(range(2, 40), draw.randrange(5, 8))]
        two_buckets = {size: total_padding(lengths, [size, max(lengths)]) for size in lengths if size < max(lengths)}
        lengths += [max(two_buckets, key=two_buckets.__getitem__)] * draw.randrange(900, 1100)
        draw.shuffle(lengths)
        cases.append((lengths, 2))
    return _best(learner, cases)


def buckets_at_the_ends(learner: ModuleType, seed: int) -> dict[str, Any]:
    """As many buckets as lengths or more, and one length alone."""
    draw = random.Random(seed)
    lengths = draw.sample(range(5, 400), 5)
    cases = [(lengths * 2, 5), (lengths[:3], draw.randrange(4, 9)), (lengths[:1] * 7, 3), (lengths, 1)]
    return _best(learner, cases)


def many_lengths(learner: ModuleType, seed: int) -> dict[str, Any]:
    """300 different lengths, 12 buckets."""
    draw = random.Random(seed)
    lengths = draw.sample(range(1, 2000), 300)
    return _best(learner, [(lengths, 12)])


# ------------------------------------------------------------------------------------------------------------- times
class Workshop:
    """A clock that only calls move forward, in whole seconds, and two functions whose calls it notes.

    The eager function's first call, and the compiled function's first call, take longer. Every reading moves the clock
    by nothing; `log` notes a reading as "t".
    """

    def __init__(self, draw: random.Random, rounds: int) -> None:
        self.now, self.log = float(draw.randrange(1000)), []  # type: ignore[var-annotated]
        self.costs = {
            "eager": [draw.randrange(200, 300), *draw.sample(range(20, 90), rounds)],
            "compiled": [draw.randrange(400, 900), *draw.sample(range(1, 60), rounds)],
        }

    def clock(self) -> float:
        self.log.append("t")
        return self.now

    def call(self, name: str) -> None:
        number = self.log.count(name)
        self.log.append(name)
        costs = self.costs[name]
        self.now += costs[number] if number < len(costs) else 1000

    def eager(self) -> None:
        self.call("eager")

    def compiled(self) -> None:
        self.call("compiled")


def timed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Times of both functions, for odd and even numbers of rounds, and the order of their calls."""
    draw = random.Random(seed)
    calls, readings = [], []
    times: dict[str, list[Any]] = {"first": [], "eager": [], "compiled": []}
    counts = [1, draw.choice([2, 4, 6]), draw.choice([3, 5, 7])]
    for rounds in counts:
        workshop = Workshop(draw, rounds)
        returned = learner.timings(workshop.eager, workshop.compiled, rounds, workshop.clock)
        items = tuple_items(returned, 3) or [returned] * 3
        for (name, pairs), item in zip(times.items(), items, strict=True):
            pairs.append([plain_number(item), plain_number(getattr(returned, name, None))])
        calls.append([name for name in workshop.log if name != "t"])
        readings.append(" ".join(name[0] for name in workshop.log))
    return {
        "cases": [f"with rounds={rounds}" for rounds in counts],
        **times,
        "calls": calls,
        "readings": readings,
    }


def _even(learner: ModuleType, cases: list[tuple[float, float, float]]) -> dict[str, Any]:
    found = [learner.break_even(first, eager, compiled) for first, eager, compiled in cases]
    return {
        "cases": [f"break_even({first:g}, {eager:g}, {compiled:g})" for first, eager, compiled in cases],
        "calls": [plain_number(value) for value in found],
        "types": [type_name(value) for value in found],
    }


def breaks_even(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Compiled calls that are faster, whole seconds: some break even exactly, others within a call."""
    draw = random.Random(seed)
    cases = []
    for exact in (True, True, False, False, False):
        compiled = draw.randrange(1, 20)
        gain = draw.randrange(2, 12)
        rest = 0 if exact else draw.randrange(1, gain)
        first = compiled + gain + draw.randrange(2, 40) * gain + rest
        cases.append((float(first), float(compiled + gain), float(compiled)))
    return _even(learner, cases)


def never_even(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Compiled calls that are no faster, and first calls that are no slower than eager."""
    draw = random.Random(seed)
    eager = draw.randrange(5, 50)
    slower, first = eager + draw.randrange(1, 9), eager * draw.randrange(3, 90)
    sure = (float(eager + 2 * draw.randrange(9, 90) + 1), float(eager), float(eager - 2))
    cases = [
        (first, eager, eager),
        (first, eager, slower),
        (eager, eager, eager),
        (eager - 1, eager, slower),
        (eager - 1, eager, eager - 2),
    ]
    return _even(learner, [*((float(a), float(b), float(c)) for a, b, c in cases), sure])


# ------------------------------------------------------------------------------------------------------------- digits
class Net(nn.Module):
    """Embedding or linear input, dropout, a part that may be frozen in eval mode, a buffer."""

    def __init__(self, draw: random.Random, tokens: bool) -> None:
        super().__init__()
        width = draw.randrange(5, 12)
        self.first: nn.Module = nn.Embedding(12, width) if tokens else nn.Linear(6, width)
        self.drop = nn.Dropout(draw.uniform(0.2, 0.6))
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Sequential(nn.Linear(width, 20), nn.GELU(), nn.Dropout(0.3), nn.Linear(20, 4))
        self.register_buffer("scale", torch.tensor(draw.uniform(50, 150)))
        self.fails = False

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        if self.fails:
            raise LookupError("no such token")
        hidden = self.norm(self.drop(self.first(x)))
        result: Tensor = self.last(hidden) * self.scale
        return result if weight is None else result * weight


def some_net(draw: random.Random, tokens: bool = False) -> tuple[Net, tuple[Tensor, ...]]:
    torch.manual_seed(draw.randrange(2**31))
    model = Net(draw, tokens)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    rows = draw.randrange(3, 9)
    return model, (torch.randint(12, (rows,)) if tokens else torch.randn(rows, 6),)


class Rounded:
    """Runs a model as a compiler might: with other roundings in its result."""

    def __init__(self, model: nn.Module, size: float, seed: int) -> None:
        self.model, self.size, self.seed = model, size, seed
        self.recorded = False

    def __call__(self, *inputs: Tensor) -> Tensor:
        result: Tensor = self.model(*inputs)
        self.recorded |= result.requires_grad
        generator = torch.Generator().manual_seed(self.seed)
        return result + (self.size * torch.randn(result.shape, generator=generator)).to(result.dtype)


def _errors(returned: Any) -> Any:
    items = tuple_items(returned, 2)
    return [plain_number(item) if type(item) is float else kind_text(item) for item in items or (returned,)]


def errors_of_eval(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Models in eval mode, of floats, of token ids, and with two inputs."""
    draw = random.Random(seed)
    cases, errors = [], []
    for name in ("a float32 input", "token ids", "two inputs"):
        model, inputs = some_net(draw, tokens=name == "token ids")
        model.eval()
        if name == "two inputs":
            inputs = (*inputs, torch.rand(len(inputs[0]), 1) + 1)
        compiled = Rounded(model, draw.uniform(2e-3, 9e-3), draw.randrange(2**31))
        cases.append(name)
        errors.append(_errors(learner.errors_against_float64(model, compiled, *inputs)))
    return {"cases": cases, "errors": errors}


def errors_of_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model in bf16, whose own error is larger than the other roundings."""
    draw = random.Random(seed)
    model, inputs = some_net(draw)
    model.eval().bfloat16()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    compiled = Rounded(model, draw.uniform(0.1, 0.5), draw.randrange(2**31))
    errors = _errors(learner.errors_against_float64(model, compiled, inputs[0].bfloat16()))
    return {"cases": ["a bfloat16 model"], "errors": [errors], "changed": _changed(model, state)}


def errors_of_training(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model in train mode with dropout, and a frozen part in eval mode; the modes and states afterwards."""
    draw = random.Random(seed)
    model, inputs = some_net(draw)
    model.train()
    for part in draw.sample([model.norm, model.last, model.last[2], model.drop], 2):
        part.eval()
    compiled = Rounded(model, draw.uniform(2e-3, 9e-3), draw.randrange(2**31))
    errors = [_errors(learner.errors_against_float64(model, compiled, *inputs))]
    return {"cases": ["a model in train mode"], "errors": errors}


def _changed(model: nn.Module, state: dict[str, Tensor]) -> list[str]:
    """Returns the names of weights and buffers with another dtype or other numbers than in `state`."""
    pairs = [(name, tensor, state[name]) for name, tensor in model.state_dict().items()]
    return [name for name, tensor, old in pairs if tensor.dtype != old.dtype or not torch.equal(tensor, old)]


def state_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Modes, weights, buffers, gradients, random state and inputs after a comparison, and after an exception."""
    draw = random.Random(seed)
    model, inputs = some_net(draw)
    model.train()
    for part in draw.sample([model.norm, model.last, model.last[2], model.drop], 2):
        part.eval()
    modes = [in_training(module) for module in model.modules()]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, draw.uniform(1, 2))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = inputs[0].clone()
    torch.manual_seed(draw.randrange(2**31))
    compiled = Rounded(model, 0.01, 1)
    random_before = torch.get_rng_state()
    errors = _errors(learner.errors_against_float64(model, compiled, *inputs))
    drawn = not torch.equal(random_before, torch.get_rng_state())
    after = [in_training(module) for module in model.modules()]
    changed = _changed(model, state)
    gradients = [None if parameter.grad is None else array(parameter.grad) for parameter in model.parameters()]
    model.fails = True
    ended = failure(lambda: learner.errors_against_float64(model, compiled, *inputs))
    failed = [in_training(module) for module in model.modules()]
    changed += [name for name in _changed(model, state) if name not in changed]
    return {
        "errors": errors,
        "modes": modes,
        "after": after,
        "failed": failed,
        "ended": ended,
        "changed": changed,
        "drawn": drawn,
        "recorded": compiled.recorded,
        "gradients": gradients,
        "input kept": bool(torch.equal(inputs[0], before)),
    }


# ------------------------------------------------------------------------------------------------------------- export
def some_hidden(draw: random.Random, batch: int = 0, length: int = 0) -> tuple[Tensor, Tensor]:
    """Returns hidden states [B, T, C] and lengths [B]; one sequence fills its row, one has a single token."""
    batch, length = batch or draw.randrange(2, 6), length or draw.randrange(3, 9)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    hidden = torch.randn(batch, length, draw.randrange(2, 7), generator=generator)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[-1], lengths[0] = 1, length
    return hidden, lengths


def rows_found(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The last rows in three dtypes; for one sequence, too."""
    draw = random.Random(seed)
    cases, forms, rows = [], [], []
    unchanged = True
    for dtype, batch in ((torch.float32, 0), (torch.bfloat16, 0), (torch.float64, 1)):
        hidden, lengths = some_hidden(draw, batch)
        hidden = hidden.to(dtype)
        before = hidden.clone(), lengths.clone()
        returned = learner.last_rows(hidden, lengths)
        cases.append(f"hidden {str(dtype).removeprefix('torch.')} {list(hidden.shape)}, lengths {lengths.tolist()}")
        forms.append(kind_text(returned))
        rows.append(values(returned))
        unchanged &= torch.equal(hidden, before[0]) and torch.equal(lengths, before[1])
    return {"cases": cases, "forms": forms, "rows": rows, "unchanged": bool(unchanged)}


def rows_beside_nan(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Last rows where the padding holds nan, and the gradient of the hidden states."""
    draw = random.Random(seed)
    hidden, lengths = some_hidden(draw)
    for number, length in enumerate(lengths.tolist()):
        hidden[number, length:] = draw.choice([math.nan, math.inf])
    hidden.requires_grad_()
    returned = learner.last_rows(hidden, lengths)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    if is_tensor(returned) and returned.requires_grad:
        returned.backward(torch.randn(returned.shape, generator=generator))
    return {"rows": values(returned), "gradient": values(hidden.grad)}


def rows_compiled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Compilations of last_rows for several batch sizes and lengths with dynamic shapes, and its operations by size."""
    draw = random.Random(seed)
    torch._dynamo.reset()
    counter, counts, rows = Counter(), [], []
    compiled = torch.compile(unwatched(learner.last_rows), backend=counter, dynamic=True)
    cases = []
    batches, lengths_of = draw.sample(range(2, 12), 4), draw.sample(range(3, 20), 4)
    width = draw.randrange(2, 7)
    for batch, length in zip(batches, lengths_of, strict=True):
        hidden, lengths = some_hidden(draw, batch, length)
        hidden = hidden[..., :1].expand(-1, -1, width).contiguous()
        already = len(counter.operations)
        rows.append(values(compiled(hidden, lengths)))
        counts.append(len(counter.operations) - already)
        cases.append(f"a batch of {batch} with {length} tokens")
    torch._dynamo.reset()
    return {"cases": cases, "counts": counts, "rows": rows}


class RowsModule(nn.Module):
    """A module that returns the learner's last rows."""

    def __init__(self, last_rows: Call) -> None:
        super().__init__()
        self.last_rows = last_rows

    def forward(self, hidden: Tensor, lengths: Tensor) -> Any:
        return self.last_rows(hidden, lengths)


def rows_exported(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An exported module that calls last_rows, run with batch sizes and lengths other than the example's."""
    draw = random.Random(seed)
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=1, max=64)
    module = RowsModule(unwatched(learner.last_rows))
    example = torch.randn(3, 5, 4), torch.tensor([2, 5, 1])
    program = torch.export.export(module, example, dynamic_shapes=({0: batch, 1: length}, {0: batch})).module()
    cases, rows = [], []
    for size in [*draw.sample(range(2, 20), 2), 1]:
        hidden, lengths = some_hidden(draw, size)
        hidden = hidden[..., :1].expand(-1, -1, 4).contiguous()
        rows.append(values(program(hidden, lengths)))
        cases.append(f"an exported program with a batch of {size}")
    return {"cases": cases, "rows": rows}


class Scorer(nn.Module):
    """A small causal model: scores of the next token after the last token of each sequence, with dropout."""

    def __init__(self, draw: random.Random, positions: int) -> None:
        super().__init__()
        width, vocabulary = 2 * draw.randrange(2, 5), draw.randrange(4, 9)
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.drop, self.head = nn.Dropout(0.4), nn.Linear(width, vocabulary)
        self.frozen = nn.Dropout(0.4)
        self.register_buffer("shift", torch.randn(width))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.tokens(tokens) + self.places(places)) + self.shift
        x = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True)[:, 0]
        index = (lengths - 1)[:, None, None].expand(-1, 1, x.shape[2])
        scores: Tensor = self.head(self.frozen(x.gather(1, index).squeeze(1)))
        return scores


def some_scorer(draw: random.Random) -> tuple[Scorer, int, int]:
    torch.manual_seed(draw.randrange(2**31))
    max_batch, max_length = draw.randrange(4, 12), draw.randrange(5, 20)
    model = Scorer(draw, max_length + 30)
    return model.train(draw.random() < 0.5), max_batch, max_length


def some_tokens(draw: random.Random, batch: int, length: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    return torch.randint(0, 4, (batch, length), generator=generator), lengths


def _loaded(program: Any) -> Any:
    """Returns an exported program as it comes back from a file. TypeError for anything else."""
    if type(program) is not torch.export.ExportedProgram:
        raise TypeError(f"export_for_serving returned {kind_text(program)}; expected an ExportedProgram")
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


def _scores(program: Call, inputs: tuple[Tensor, Tensor]) -> Any:
    """Returns the scores as an array, or the name of the error's type."""
    try:
        return values(program(*inputs))
    except Exception as error:
        return f"an error, {type_name(error)}"


def exported(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model, exported, saved and loaded, on many shapes of its range."""
    draw = random.Random(seed)
    model, max_batch, max_length = some_scorer(draw)
    program = _loaded(learner.export_for_serving(model.eval(), max_batch, max_length))
    shapes = [(draw.randrange(2, max_batch), draw.randrange(2, max_length)) for _ in range(3)]
    shapes += [
        (draw.randrange(3, max_batch), 3),
        (max_batch, max_length),
        (1, draw.randrange(2, max_length)),
        (draw.randrange(2, max_batch), 1),
        (1, 1),
    ]
    scores = [_scores(program, some_tokens(draw, *shape)) for shape in shapes]
    return {"cases": [f"{batch} sequences of {length} tokens" for batch, length in shapes], "scores": scores}


def refused(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shapes just outside the range, in the batch or in the length, and the last shapes inside."""
    draw = random.Random(seed)
    model, max_batch, max_length = some_scorer(draw)
    program = _loaded(learner.export_for_serving(model.eval(), max_batch, max_length))
    outside = [(max_batch + 1, max_length), (max_batch, max_length + 1), (max_batch + draw.randrange(2, 20), 2)]
    refusals = [isinstance(_scores(program, some_tokens(draw, *shape)), str) for shape in outside]
    inside = _scores(program, some_tokens(draw, max_batch, max_length))
    named = [f"{batch} sequences of {length} tokens" for batch, length in outside]
    tokens, lengths = some_tokens(draw, draw.randrange(3, max_batch + 1), 4)
    refusals.append(isinstance(_scores(program, (tokens, lengths[:-1])), str))
    named.append(f"{len(tokens)} sequences with {len(lengths) - 1} lengths")
    limits = f"at most {max_batch} sequences of {max_length} tokens"
    return {"cases": named, "limits": limits, "refused": refusals, "inside": inside}


def exported_from_training(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model in train mode, with a part in eval mode: the program's scores, and the model's modes and weights."""
    draw = random.Random(seed)
    model, max_batch, max_length = some_scorer(draw)
    model.train()
    draw.choice([model.frozen, model.drop, model.head]).eval()
    modes = [in_training(module) for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    program = _loaded(learner.export_for_serving(model, max_batch, max_length))
    after = [in_training(module) for module in model.modules()]
    changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, state[name])]
    inputs = some_tokens(draw, draw.randrange(2, max_batch), draw.randrange(4, max_length))
    scores = []
    for _ in range(2):
        with suppress(Exception):
            scores.append(values(program(*inputs)))
    return {"modes": modes, "after": after, "changed": changed, "scores": scores}
