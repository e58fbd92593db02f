"""Probes of Lab 03: each calls the learner's code on random inputs, and returns its results as plain values.

Probes compute in float64 where possible, so that equivalent computations agree to about 1e-13. Probes of 16-bit formats
run in these formats, on sizes that a CPU multiplies fast.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rankzero.exercises.probes.forward_recorder import ForwardRecorder
from rankzero.exercises.probes.untrusted_values import (
    a_float,
    boolean,
    flat,
    in_training,
    is_tensor,
    kind_text,
    named_weights,
    plain_number,
    tuple_items,
    type_name,
    weights,
)
from rankzero.learn.models.gpt import GPT, GPTConfig

VOCAB, BLOCK = 13, 6
LOW = (torch.bfloat16, torch.float16)
MicroBatch = tuple[Tensor, Tensor]


def make_model(seed: int, dtype: torch.dtype = torch.float64, dropout: float = 0.0) -> GPT:
    """Returns a tiny GPT of random width in training mode, with a loss far from ln V."""
    torch.manual_seed(seed)
    width = random.Random(seed).choice((8, 12, 16))
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=width, dropout=dropout))
    with torch.no_grad():  # larger weights than usual, so that mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


def make_batch(seed: int, size: int = 4, tokens: int = BLOCK) -> MicroBatch:
    """Returns random tokens and targets, int64 [size, tokens] each."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, tokens), generator=generator)
    return x, y


def make_micro_batches(seed: int, at_least: int = 1) -> list[MicroBatch]:
    """Returns up to four micro-batches of one random shape and of unequal difficulty."""
    draw = random.Random(seed + 5)
    size, tokens = draw.randrange(1, 5), draw.randrange(2, BLOCK + 1)
    batches = [make_batch(seed + 1000 * number, size, tokens) for number in range(draw.randrange(at_least, 5))]
    return [(x, y if number % 2 else x) for number, (x, y) in enumerate(batches)]


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def bits(dtype: torch.dtype) -> str:
    """Returns a dtype's name, such as 'bfloat16'."""
    return str(dtype).removeprefix("torch.")


def what(value: Any) -> str:
    """Returns the dtype of a tensor or the type of another value: 'float16', 'int', 'list of float32'."""
    if type(value) is list and value:
        return f"list of {what(value[0])}"
    return bits(value.dtype) if is_tensor(value) else type_name(value)


# --------------------------------------------------------------------------------------------------------- share_lost
def small_numbers(seed: int, count: int) -> Tensor:
    """Returns fp32 [count]: numbers of either sign and 2^-40 to 2^-8 in size, some at the end of fp16's range."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.rand(count, generator=generator) * 32 - 40
    signs = torch.randint(2, (count,), generator=generator) * 2 - 1
    numbers = signs * torch.exp2(exponents)
    numbers[:4] = torch.tensor([2.0**-25, 2.0**-25 * (1 + 2.0**-20), -(2.0**-24), -(2.0**-14)])
    return numbers


def one_tensor(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lost share of one matrix of small numbers in fp16, without a scale."""
    draw = random.Random(seed)
    rows, columns = draw.randrange(12, 30), draw.randrange(12, 30)
    share = learner.share_lost([small_numbers(seed, rows * columns).view(rows, columns)], 1.0, torch.float16)
    return {"type": type_name(share), "share": plain_number(share)}


def zeros_among_them(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lost shares of a gradient with many zeros, of a gradient of zeros, and without gradients."""
    count = random.Random(seed).randrange(90, 290)
    gradient = torch.cat([small_numbers(seed, count), torch.zeros(3 * count)])
    lists: list[list[Tensor | None]] = [[gradient], [torch.zeros(3)], [None], []]
    before, types, shares = gradient.clone(), list[str](), list[Any]()
    for gradients in lists:
        try:
            share = learner.share_lost(gradients, 1.0, torch.float16)
            types.append(type_name(share))
            shares.append(plain_number(share))
        except NotImplementedError:  # not written yet
            raise
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            types.append("float")
            shares.append(f"missing, because of {kind_text(error)}")
    return {
        "types": types,
        "shares": shares,
        "changed": int((gradient != before).sum()),
    }


def several_tensors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lost share of gradients of many shapes and sizes, read once: one is missing, one has no numbers."""
    draw = random.Random(seed)
    gradients = [
        small_numbers(seed, draw.randrange(200, 600)),
        None,
        torch.ones(draw.randrange(2, 9), 3),
        small_numbers(seed + 1, 6 * draw.randrange(2, 5)).double().view(3, -1).T,  # not contiguous
        torch.zeros(0, 4),
        small_numbers(seed + 2, 5)[0],  # no dimensions
        small_numbers(seed + 3, 8 * draw.randrange(1, 5)).view(2, -1, 4),
    ]
    share = learner.share_lost((gradient for gradient in gradients), 1.0, torch.float16)
    return {"types": [type_name(share)], "share": plain_number(share)}


def scaled_and_in_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lost shares with scales up to 2^125, beyond the range of fp16, in bf16 and of fp64 gradients."""
    draw = random.Random(seed)
    numbers, small = small_numbers(seed, draw.randrange(300, 600)), 2.0 ** draw.randrange(2, 6)
    large = torch.tensor([10.0, torch.inf]).repeat(25)  # all inf in fp16 with the large scale: no lost numbers
    cases: list[tuple[list[Tensor | None], float, torch.dtype]] = [
        ([numbers], small, torch.float16),
        ([torch.cat([numbers * 2.0**-12, large])], 65536.0, torch.float16),
        ([numbers], 1.0, torch.bfloat16),
        ([numbers * 2.0**-105], 1.0, torch.bfloat16),  # the end of bf16's range
        ([numbers], 2.0 ** -draw.randrange(2, 6), torch.float16),
        ([numbers.double() * 2.0**-130, numbers], 2.0**125, torch.bfloat16),  # fp32 holds few of the first
        ([numbers.double() * 2.0**-130, numbers], 2.0, torch.bfloat16),  # the first are lost, and count
    ]
    before = flat(tensor for gradients, *_ in cases for tensor in gradients)
    shares = [learner.share_lost(*case) for case in cases]
    return {
        "scales": [scale for _, scale, _ in cases],
        "dtypes": [bits(dtype) for *_, dtype in cases],
        "types": [type_name(share) for share in shares],
        "shares": [plain_number(share) for share in shares],
        "changed": int((flat(tensor for gradients, *_ in cases for tensor in gradients) != before).sum()),
    }


# -------------------------------------------------------------------------------------------------------- cast_inputs
def names(arguments: list[Any]) -> str:
    """Returns the dtypes or types of arguments: 'float32, Parameter in float32, NoneType'."""
    return ", ".join("Parameter in " * (type(one) is nn.Parameter) + what(one) for one in arguments)


def copied(value: Any) -> Any:
    """Returns a copy of a tensor or parameter, and any other value itself."""
    if type(value) is nn.Parameter:
        return nn.Parameter(value.detach().clone())
    return value.clone() if is_tensor(value) else value


def mixtures(seed: int) -> list[list[Tensor]]:
    """Returns lists of one to four fp32, bf16 and fp16 tensors of random shapes, every pair of dtypes among them."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    dtypes = (torch.float32, *LOW)
    kinds = [[one, other] for one in dtypes for other in dtypes] + [[dtype] for dtype in dtypes]
    kinds += [draw.choices(dtypes, k=draw.randrange(3, 5)) for _ in range(3)] + [[*LOW, torch.float32]]
    draw.shuffle(kinds)
    return [
        [torch.randn(draw.choice([(3,), (2, 5), (), (0, 2)]), generator=generator).to(dtype) for dtype in kind]
        for kind in kinds
    ]


def policies(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the dtype of each argument after each policy, for mixed lists of arguments."""
    torch.manual_seed(seed)
    count = 2 + seed % 7
    fp32, bf16, fp16, fp64 = (torch.randn(count).to(dtype) for dtype in (torch.float32, *LOW, torch.float64))
    lists: dict[str, list[list[Any]]] = {
        "floats": [*([*tensors] for tensors in mixtures(seed)), [bf16, nn.Parameter(fp32)]],
        "others": [
            [fp32, torch.arange(3), torch.ones(3, dtype=torch.bool), None, 0.5, 7, (8,), "mean", [fp32]],
            [torch.ones(2, dtype=torch.complex64), fp16, torch.ones(2, dtype=torch.uint8)],
            [fp64, fp32],
            [fp64, bf16],
            [fp16, fp64, fp32],
            [torch.arange(count)],
        ],
    }
    observed: dict[str, Any] = {"type": "list", "kept": [], "new": []}
    given: list[Any] = []  # copies for each call, so that a changed argument shows in `left` only
    for policy in ("lower", "fp32", "widest", ""):
        for kind, cases in lists.items():
            lows = [LOW[0]] if policy == "" else LOW
            asked = [([copied(value) for value in case], low) for case in cases for low in lows]
            given += [value for args, _ in asked for value in args if kind == "floats"]
            items = [[*args] for args, _ in asked]
            observed[f"asked {kind} {policy}"] = [f"{names(args)} with low={bits(low)}" for args, low in asked]
            returned = [learner.cast_inputs(policy, args, low) for args, low in asked]
            types = {type_name(cast) for cast in returned} - {"list"}
            observed["type"] = min(types, default=observed["type"])
            observed["new"].append(not any(cast is args for cast, (args, _) in zip(returned, asked, strict=True)))
            observed["kept"].append([[*map(id, args)] for args, _ in asked] == [[*map(id, args)] for args in items])
            casts = [[*cast] for cast in returned]
            observed[f"{kind} {policy}"] = [[what(value) for value in cast] for cast in casts]
            tensors = [value for cast in casts for value in cast if is_tensor(value) and not value.is_complex()]
            observed[f"values {kind} {policy}"] = flat(tensors)
    arguments = (1e6 * fp32, torch.arange(3), bf16)  # 1e6 is in the range of bf16, but not of fp16
    in_a_tuple = {type_name(learner.cast_inputs(policy, arguments, LOW[0])) for policy in ("lower", "fp32", "")}
    observed["type"] = min(in_a_tuple - {"list"}, default=observed["type"])
    observed["values"] = flat([value for low in LOW for value in learner.cast_inputs("lower", arguments, low)])
    observed["left"] = flat([*arguments, *given])
    cast = learner.cast_inputs("", arguments, LOW[0])
    observed["same"] = [value is argument for value, argument in zip(cast, arguments, strict=True)]
    return observed


def gradients_through(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the gradients of leaves that were cast down and up, in the order of `ways`."""
    torch.manual_seed(seed)
    low, other_low, shape = LOW[seed // 2 % 2], LOW[1 - seed // 2 % 2], (1 + seed % 4, 2 + seed % 3)
    ways = [("lower", torch.float32), ("fp32", torch.bfloat16), ("fp32", torch.float16), ("widest", LOW[seed % 2])]
    ways.append(("lower", other_low))
    grads: list[Tensor | None] = []
    for policy, dtype in ways:
        leaf = torch.randn(shape, dtype=dtype, requires_grad=True)
        other = torch.randint(1, 9, shape).float()  # the same numbers in every format
        cast = learner.cast_inputs(policy, [leaf, other], low)
        product = (cast[0] * cast[1]).sum()
        if product.requires_grad:
            product.backward()
        grads.append(leaf.grad)
    return {
        "ways": [f"{bits(dtype)} to {bits(low if policy == 'lower' else torch.float32)}" for policy, dtype in ways],
        "dtypes": [what(gradient) for gradient in grads],
        "grads": flat(grads),
    }


# Policies of torch.autocast on a CPU, for the functions that a GPT calls.
POLICY = {F.linear: "lower", F.scaled_dot_product_attention: "lower", F.cross_entropy: "fp32", torch.stack: "widest"}


class HandMade(TorchFunctionMode):
    """Autocast with the learner's casts: casts the arguments of each call of a torch function."""

    def __init__(self, learner: ModuleType, low: torch.dtype) -> None:
        super().__init__()
        self.learner, self.low = learner, low

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Casts the arguments and calls the function."""
        cast = list(self.learner.cast_inputs(POLICY.get(func, ""), args, self.low))
        subclasses = [type_name(value) for value in cast if isinstance(value, Tensor) and not is_tensor(value)]
        if subclasses:
            raise TypeError(f"a tensor was expected where a {subclasses[0]} came back")
        return func(*cast, **(kwargs or {}))


def a_whole_gpt(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns loss and gradients of a GPT under the learner's casts and under torch.autocast."""
    model, (x, y), low = make_model(seed, torch.float32), make_batch(seed), LOW[seed % 2]
    parameters, results = [*model.parameters()], []
    for context in (HandMade(learner, low), torch.autocast("cpu", dtype=low)):
        model.zero_grad()
        with context:
            loss = loss_of(model, x, y)
        loss.backward()
        results.append((plain_number(loss), flat([p.grad for p in parameters])))
    (loss_by_hand, by_hand), (loss_by_torch, by_torch) = results
    return {"low": bits(low), "loss": loss_by_hand, "torch": loss_by_torch, "by hand": by_hand, "by torch": by_torch}


# ------------------------------------------------------------------------------------------------------- update_scale
@dataclass
class Run:
    """Steps of one training run, and the settings of its loss scale."""

    start: float  # the first scale
    finite: list[bool]  # whether each step's gradients were finite
    interval: int
    hysteresis: int = 1


def _histories(learner: ModuleType, runs: list[Run]) -> dict[str, Any]:
    """Returns scale and counts after each step of each run."""
    kept: dict[str, list[Any]] = {"scales": [], "counts": [], "overflows": []}
    for run in runs:
        scale, good, overflows = run.start, 0, 0
        for history in kept.values():
            history.append(list[Any]())
        for finite in run.finite:
            returned = learner.update_scale(scale, good, overflows, finite, run.interval, run.hysteresis)
            items = tuple_items(returned, 3)
            if items is None:
                return {"returned": type_name(returned)} | {name: list[Any]() for name in kept}
            kinds = [type_name(value) for value in items]
            if kinds != ["float", "int", "int"]:
                return {"returned": f"({', '.join(kinds)})"} | {name: list[Any]() for name in kept}
            scale, good, overflows = items
            for history, value in zip(kept.values(), items, strict=True):
                history[-1].append(plain_number(value))
    inputs = {
        "starts": [run.start for run in runs],
        "finite": [run.finite for run in runs],
        "intervals": [run.interval for run in runs],
        "hysteresis": [run.hysteresis for run in runs],
    }
    return inputs | {"returned": "three"} | kept


def back_off(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale after many overflows in sequence, below fp16's smallest number and far above it."""
    draw = random.Random(seed)
    starts = [2.0 ** draw.randrange(3, 6), *(2.0 ** draw.randrange(30, 200) for _ in range(3))]
    return _histories(learner, [Run(start, [False] * 30, 4) for start in starts])


def growth(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale after finite steps only: three intervals from large scales, and an interval of 1."""
    draw = random.Random(seed)
    interval, starts = draw.randrange(3, 7), [2.0 ** draw.randrange(32, 40), 2.0 ** draw.randrange(20, 60)]
    random_starts = [2.0 ** draw.randrange(-60, 200) for _ in range(2)]
    runs = [Run(start, [True] * (3 * interval), interval) for start in (starts[0], *random_starts)]
    return _histories(learner, [*runs, Run(starts[1], [True] * 60, 1)])


def both(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale after finite steps and overflows, some just before the scale grows and some in sequence."""
    draw = random.Random(seed)
    interval = draw.randrange(4, 7)
    finite = [True] * (interval - 1) + [False] + [True] * (interval - 1) + [False, False]
    finite += [True] * (2 * interval) + [False] + [draw.random() < 0.8 for _ in range(20)]
    return _histories(learner, [Run(2.0 ** draw.randrange(10, 30), finite, interval)])


def tolerant(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates scales that bear one to three overflows, with good steps between them and growth after them."""
    draw = random.Random(seed)
    runs = []
    for hysteresis in (2, draw.randrange(3, 5)):
        interval = draw.randrange(3, 6)
        finite = ([False] + [True] * (interval - 1)) * (hysteresis + 1)  # good steps between do not reset the count
        finite += [True] * interval + [False] * (hysteresis + 2) + [True] * interval + [False] * hysteresis
        finite += [draw.random() < 0.7 for _ in range(20)]
        runs.append(Run(2.0 ** draw.randrange(10, 30), finite, interval, hysteresis))
    return _histories(learner, runs)


def by_default(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale without growth_interval and hysteresis, after different numbers of finite steps."""
    draw = random.Random(seed)
    before = [draw.randrange(5, 90), 99, 499, 999, 1998, 1999]
    starts = [2.0 ** draw.randrange(-60, 200) for _ in before]
    starts[-1] = 2.0 ** draw.randrange(200)  # below 1e-9 a diagnosis cannot see whether this step doubles the scale
    updated = [learner.update_scale(start, good, 0, True)[0] for start, good in zip(starts, before, strict=True)]
    overflow = learner.update_scale(starts[-1], draw.randrange(1999), 0, False)[0]
    return {
        "before": before,
        "starts": starts,
        "scales": [a_float(scale) for scale in updated],
        "after an overflow": a_float(overflow),
    }


# ------------------------------------------------------------------------------------------------------------ unscale
DTYPES = (torch.float64, torch.float32, *LOW)


def with_gradients(seed: int, dtypes: tuple[torch.dtype, ...] = (torch.float64,)) -> list[nn.Parameter]:
    """Returns seven to nine parameters of random shapes and of these dtypes in turn; the third has no gradient."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    parameters = []
    for number in range(draw.randrange(7, 10)):
        shape = draw.choice([(5,), (3, 4), (), (2, 3, 2), (draw.randrange(1, 9), 2)])
        dtype = dtypes[number % len(dtypes)]
        parameters.append(nn.Parameter(torch.randn(shape, generator=generator).to(dtype)))
        if number != 2:
            parameters[-1].grad = torch.randn(shape, generator=generator).to(dtype)
    parameters[3] = nn.Parameter(torch.randn(4, 3, generator=generator).to(dtypes[3 % len(dtypes)]))
    parameters[3].grad = torch.randn(3, 4, generator=generator).to(parameters[3].dtype).T  # not contiguous
    return parameters


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Returns the gradient of a parameter that has one."""
    assert parameter.grad is not None
    return parameter.grad


def flat_gradients(parameters: list[nn.Parameter]) -> np.ndarray:
    """Returns all gradients as one array; NaN for a missing gradient."""
    return flat(parameter.grad for parameter in parameters)


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns gradients and weights after unscaling the parameters of a generator, which can be read once."""
    dtypes = DTYPES[: 1 + seed % 4]
    parameters, scale = with_gradients(seed, dtypes), 2.0 ** random.Random(seed).randrange(1, 9)
    present = [parameter for parameter in parameters if parameter.grad is not None]
    before = [gradient_of(parameter) for parameter in present]
    memory = [gradient.detach() for gradient in before]
    not_finite = learner.unscale((parameter for parameter in parameters), scale)
    return {
        "type": type_name(not_finite),
        "not_finite": positions(not_finite),
        "scale": scale,
        "grads": flat_gradients(parameters),
        "dtypes": [what(parameter.grad) for parameter in parameters],
        "in_place": all(a is parameter.grad for a, parameter in zip(before, present, strict=True)),
        "in_memory": flat(memory),  # other tensors of the same memory show the division
        "weights": flat(parameters),
    }


def divided_once(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns gradients and positions after unscaling a list in which parameters occur two and three times."""
    parameters = with_gradients(seed)
    gradient_of(parameters[0]).view(-1)[0] = torch.nan if seed % 2 else torch.inf
    listed = [*parameters, parameters[-1], parameters[1], parameters[0], parameters[1]]  # one twice in a row
    not_finite = learner.unscale(listed, 16.0)
    return {"scale": 16.0, "not_finite": positions(not_finite), "grads": flat_gradients(parameters[1:])}


def positions(value: Any) -> list[Any]:
    """Returns a list of ints as it is, and the type of anything else, or of an item of another type."""
    if type(value) is not list:
        return [type_name(value)]
    return [item if type(item) is int else type_name(item) for item in value]


Case = tuple[str, list[nn.Parameter]]


def spoiled(seed: int) -> Iterator[Case]:
    """Yields parameters with bad numbers in their gradients, by value and place."""
    draw = random.Random(seed)
    for value in (torch.inf, -torch.inf, torch.nan):
        for place in (0, -1, 3, 4):
            parameters = with_gradients(seed, draw.choice([DTYPES, DTYPES[:1], DTYPES[1:]]))
            gradient = gradient_of(parameters[place])
            gradient[tuple(draw.randrange(size) for size in gradient.shape)] = value
            yield f"{value} in the gradient at position {place % len(parameters)}", parameters
    both, whole, long = (with_gradients(seed, DTYPES) for _ in range(3))
    long[4] = nn.Parameter(torch.zeros(3000))
    long[4].grad = torch.zeros(3000).index_fill(0, torch.tensor([draw.randrange(3000)]), torch.nan)
    yield "nan in a gradient of 3000 numbers", long
    gradient_of(both[0]).fill_(torch.inf)
    gradient_of(both[-1]).fill_(-torch.inf)
    yield "inf in the first gradient and -inf in the last", both
    gradient_of(whole[4]).fill_(torch.nan)
    gradient_of(whole[5]).fill_(torch.nan)
    yield "nothing but nan in two gradients", whole


def _verdicts(learner: ModuleType, seed: int, cases: list[Case], scale: float) -> dict[str, Any]:
    """Returns the positions found in each case by name; the cases come in random order."""
    random.Random(seed).shuffle(cases)
    found = [positions(learner.unscale(iter(parameters), scale)) for _, parameters in cases]
    return {"names": [name for name, _ in cases], "not_finite": found}


def bad_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the positions found in each case with bad numbers, and in as many good cases between them."""
    bad = [*spoiled(seed)]
    good: list[Case] = [("finite numbers everywhere", with_gradients(seed + n, DTYPES)) for n in range(len(bad))]
    return _verdicts(learner, seed, bad + good, 8.0)


def large_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the positions found in finite gradients whose sums or norms overflow, and in infinite gradients."""
    draw = torch.Generator().manual_seed(seed)

    def parameters(size: float, dtype: torch.dtype) -> list[nn.Parameter]:
        made = [nn.Parameter(torch.zeros(30, dtype=dtype)) for _ in range(3)]
        for parameter in made:
            parameter.grad = (size * (0.5 + 0.5 * torch.rand(30, generator=draw, dtype=torch.float64))).to(dtype)
        return made

    sizes = [(float(f"1e{power}"), torch.float64) for power in (307, 200, 100, -200)]
    sizes += [(3e38, torch.float32), (1e30, torch.float32), (3e38, torch.bfloat16), (65000.0, torch.float16)]
    cases = [(f"finite {bits(dtype)} gradients of about {size:g}", parameters(size, dtype)) for size, dtype in sizes]
    cases.append(("no gradients at all", [nn.Parameter(torch.zeros(3)) for _ in range(2)]))
    cases.append(("no parameters at all", []))
    return _verdicts(
        learner, seed, [*cases, *[("nothing but inf", parameters(torch.inf, dtype)) for _, dtype in sizes]], 2.0
    )


def spoiled_and_divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns all gradients after unscaling if the gradient at position 3 has a number that is not finite.

    Returns also the positions found where only the division by a scale below 1 makes a gradient infinite.
    """
    parameters, grown = with_gradients(seed), with_gradients(seed, (torch.float16,))
    gradient_of(parameters[3])[seed % 4, seed % 3] = (torch.inf, -torch.inf, torch.nan)[seed % 3]
    gradient_of(grown[1]).fill_(40000.0)
    learner.unscale(list(parameters), 16.0)
    not_finite = positions(learner.unscale(list(grown), 0.5))
    return {"grads": flat_gradients(parameters), "scale": 16.0, "not_finite": not_finite}


# -------------------------------------------------------------------------------------------------------- scaled_step
def _groups(parameters: Sequence[nn.Parameter], rate: float) -> list[dict[str, Any]]:
    """Returns the parameters in two groups of an optimizer; the second has the learning rate `rate`."""
    return [{"params": parameters[:2]}, {"params": parameters[2:], "lr": rate}]


def _sgd(model: nn.Module, momentum: float = 0.0, decay: float = 0.0, rate: float = 0.05) -> torch.optim.SGD:
    groups = _groups([*model.parameters()], rate)
    return torch.optim.SGD(groups, lr=0.1, momentum=momentum, weight_decay=decay)


def _pair(returned: Any) -> tuple[Any, Any]:
    """Returns the loss and whether there was an update, which is None if only one value was returned."""
    pair = tuple_items(returned, 2)
    return (returned, None) if pair is None else (pair[0], pair[1])


def _pair_type(returned: Any) -> str:
    loss, updated = _pair(returned)
    return type_name(returned) if updated is None else f"({type_name(loss)}, {type_name(updated)})"


def mean_loss(model: nn.Module, micro_batches: list[MicroBatch]) -> Tensor:
    """Returns the mean loss over all micro-batches, a scalar with its graph."""
    return torch.stack([loss_of(model, *pair) for pair in micro_batches]).mean()


def tokens_of(micro_batches: list[MicroBatch]) -> np.ndarray:
    """Returns all tokens and targets."""
    return torch.cat([torch.cat(pair).flatten() for pair in micro_batches]).numpy()


def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step in float64, which autocast does not cast, with a threshold far above the gradient's norm."""
    model, scale = make_model(seed), 2.0 ** random.Random(seed).randrange(8, 17)
    micro_batches = make_micro_batches(seed, at_least=2)
    returned = learner.scaled_step(model, _sgd(model), tuple(micro_batches), scale, 1e6)
    loss, updated = _pair(returned)
    return {
        "type": _pair_type(returned),
        "loss": plain_number(loss),
        "updated": boolean(updated),
        "scale": scale,
        "count": len(micro_batches),
        "tokens": tokens_of(micro_batches),
        **named_weights(model),
    }


def clipped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes a step whose true norm is far above the limit, and a step whose true norm is below the limit."""
    observed, draw = dict[str, Any](), random.Random(seed)
    for name, factor, scale in (("above", draw.uniform(0.02, 0.3), 2.0), ("below", draw.uniform(2, 4), 1024.0)):
        model, micro_batches = make_model(seed), make_micro_batches(seed, at_least=2)
        mean_loss(model, micro_batches).backward()
        norm = float(torch.nn.utils.get_total_norm([gradient_of(p) for p in model.parameters()]))
        model.zero_grad()
        before = weights(model)
        learner.scaled_step(model, _sgd(model, rate=0.1), micro_batches, scale, factor * norm)
        observed[f"norm {name}"], observed[f"limit {name}"], observed[f"scale {name}"] = norm, factor * norm, scale
        # With a learning rate of 0.1, the update is a tenth of the gradient that the optimizer used.
        observed[f"seen {name}"] = float(np.linalg.norm(weights(model) - before)) / 0.1
        observed[f"weights {name}"] = weights(model)
    return observed


def overflow(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes steps with numbers that are not finite, after a good step, and counts changed weights and state.

    One number is inf or nan, in the gradient of one micro-batch, or the loss of one micro-batch is nan; the last steps
    overflow in fp16 and in fp32 by their scale. Returns also whether a step with an infinite loss, but a finite
    gradient, is an update: one target's logit is -inf.
    """
    bad_numbers = {"one inf in one gradient": torch.inf, "one nan in one gradient": torch.nan}
    scales = {"an overflow in fp16": 2.0**40, "a scale of 2**127": 2.0**127}
    ways = [*bad_numbers, "a loss of nan in one micro-batch", *scales]
    observed: dict[str, list[Any]] = {name: [] for name in ("moved", "nan", "state", "updated", "types", "losses")}
    for way in ways:
        model, bad = make_model(seed, torch.float32 if way in scales else torch.float64), bad_numbers.get(way)
        model.norm.weight.data.mul_(30.0 if way == ways[-1] else 1.0)  # for a loss far above 2
        optimizer = torch.optim.AdamW(_groups([*model.parameters()], 0.05), lr=0.1, weight_decay=0.1)
        micro_batches = make_micro_batches(seed, at_least=2)
        loss_of(model, *make_batch(seed + 1)).backward()
        optimizer.step()
        before, state = weights(model), _state(optimizer)
        at_pass = (seed + ways.index(way)) % len(micro_batches)
        if bad:
            parameter = model.get_parameter("blocks.0.norm1.weight" if bad == torch.inf else "head.weight")
            _spoil(parameter, bad, at_pass)
        elif way not in scales:
            factors = itertools.chain([1.0] * at_pass, [torch.nan], itertools.repeat(1.0))
            model.norm.register_forward_hook(lambda _, args, out, factors=factors: out * next(factors))
        returned = learner.scaled_step(model, optimizer, micro_batches, scales.get(way, 16.0), 1.0)
        loss, was_updated = _pair(returned)
        observed["moved"].append(int((weights(model) != before).sum()))
        observed["nan"].append(int(np.isnan(weights(model)).sum()))
        observed["state"].append(int((_state(optimizer) != state).sum()))
        observed["updated"].append(boolean(was_updated))
        observed["types"].append(_pair_type(returned))
        observed["losses"].append(plain_number(loss))
    model, micro_batches = make_model(seed), make_micro_batches(seed, at_least=2)
    mask = torch.zeros(VOCAB, dtype=torch.float64).index_fill(0, micro_batches[0][1][0, :1], -torch.inf)
    model.head.register_forward_hook(lambda *passed: passed[-1] + mask)
    loss, was_updated = _pair(learner.scaled_step(model, _sgd(model), micro_batches, 16.0, 1.0))
    infinite = {"infinite loss": plain_number(loss), "updated despite it": boolean(was_updated)}
    return {**observed, **infinite, "ways": ways, "of": int(before.size)}


def _spoil(parameter: nn.Parameter, bad: float, at_pass: int) -> None:
    """Puts one bad number into the gradient of `parameter` in one of its backward passes."""
    passes = []

    def hook(grad: Tensor) -> Tensor:
        passes.append(grad)
        last = torch.tensor([grad.numel() - 1])
        return grad.flatten().index_fill(0, last, bad).view_as(grad) if len(passes) == at_pass + 1 else grad

    parameter.register_hook(hook)


def _state(optimizer: torch.optim.Optimizer) -> np.ndarray:
    return flat([tensor for state in optimizer.state.values() for tensor in state.values()])


def formats(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the dtypes in which layers, loss and backward run, and the dtype of the weights afterwards."""
    kinds = ("linear", "norm", "backward", "loss", "weights", "after")
    observed: dict[str, list[Any]] = {name: [] for name in kinds}
    for low in (*LOW, None):  # None: the default
        model, micro_batches = make_model(seed, torch.float32), make_micro_batches(seed, at_least=2)

        def in_backward(grad: Tensor) -> None:
            observed["backward"].append("on" if torch.is_autocast_enabled("cpu") else "off")

        def on_linear(module: nn.Module, args: Any, out: Tensor) -> None:
            observed["linear"].append(what(out))

        def on_norm(module: nn.Module, args: Any, out: Tensor) -> None:
            observed["norm"].append(what(out))

        def on_logits(out: Tensor) -> None:
            out.register_hook(in_backward)

        model.get_submodule("blocks.0.mlp.up").register_forward_hook(on_linear)
        model.norm.register_forward_hook(on_norm)
        ForwardRecorder(model, on_logits)
        arguments = (model, _sgd(model), micro_batches, 16.0, 1.0)
        loss, _ = _pair(learner.scaled_step(*arguments, *([low] if low else [])))
        observed["loss"].append(a_float(loss))
        observed["weights"].append(what(model.head.weight))
        observed["after"].append("on" if torch.is_autocast_enabled("cpu") else "off")
    called = [f"with low={bits(low)}" if low else "without `low`" for low in (*LOW, None)]
    passes = [where for where in called for _ in micro_batches]
    return {**observed, "called": called, "passes": passes}


def after_others(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes a step with weight decay over old gradients, one of an unused parameter: finite, and infinite ones."""
    after, updated = [], []
    for old in (1.0, torch.inf):
        model = make_model(seed)
        loss_of(model, *make_batch(seed + 1)).backward()
        idle = nn.Parameter(torch.ones(3, dtype=torch.float64))
        idle.grad = torch.ones_like(idle)
        model.register_parameter("unused", idle)
        for parameter in model.parameters():
            gradient_of(parameter).mul_(old)
        optimizer = _sgd(model, decay=0.5)
        updated.append(boolean(_pair(learner.scaled_step(model, optimizer, make_micro_batches(seed), 64.0, 1e6))[1]))
        after.append(weights(model))
    return named_weights(model) | {"weights": np.concatenate(after), "updated": updated}


def start_of_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the size of each micro-batch's gradient at the logits and at a weight, and the order of the passes.

    The scale is beyond the range of fp16.
    """
    model, scale, sizes = make_model(seed), 2.0 ** random.Random(seed).randrange(17, 21), list[float]()
    micro_batches, order, at_weight = make_micro_batches(seed, at_least=2), list[str](), list[float]()

    def on_logits(out: Tensor) -> None:
        order.append("forward")
        out.register_hook(on_gradient)

    def on_gradient(grad: Tensor) -> None:
        order.append("backward")
        sizes.append(float(grad.abs().sum()))

    passes = ForwardRecorder(model, on_logits)
    model.head.weight.register_hook(lambda grad: at_weight.append(float(grad.abs().sum())))
    learner.scaled_step(model, _sgd(model), micro_batches, scale, 1e6)
    return {
        "passes": passes.passes,
        "at weight": at_weight,
        "scale": scale,
        "count": len(micro_batches),
        "sizes": sizes,
        "order": order,
        "inputs": [x.tolist() for x in passes.inputs],
    }


def several_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes three steps with momentum, with another scale for each; one parameter is frozen and one is not used."""
    model = make_model(seed)
    model.position_embedding.weight.requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(3, dtype=torch.float64)))
    optimizer, first = _sgd(model, momentum=0.5), random.Random(seed).randrange(-3, 12)
    for step in range(3):
        learner.scaled_step(model, optimizer, make_micro_batches(seed + step, 2), 2.0 ** (first + step), 1e6)
    return named_weights(model) | {"scales": [2.0 ** (first + step) for step in range(3)]}


def in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns losses in both modes, last without dropout, and the modes of all modules in the passes and afterwards."""
    losses, left, passes = list[Any](), list[list[bool]](), list[bool]()
    for training, dropout in ((True, 0.5), (False, 0.5), (True, 0.0)):
        model = make_model(seed, dropout=dropout).train(training)
        modules = [*model.modules()]

        def on_logits(out: Tensor, modules: list[nn.Module] = modules) -> None:
            passes.append(all(map(in_training, modules)))

        ForwardRecorder(model, on_logits)
        torch.manual_seed(seed + 7919)  # a seed that no learner would choose
        loss, _ = _pair(learner.scaled_step(model, _sgd(model), make_micro_batches(seed, 2), 16.0, 1e6))
        losses.append(a_float(loss))
        left.append([in_training(module) for module in modules])
    return {"losses": losses, "left": left, "passes": passes}


# ----------------------------------------------------------------------------------------------------- master_weights
def half_model(seed: int) -> nn.Sequential:
    """Returns linear layers in bf16 or fp16 around an fp32 norm with a buffer; two layers share a weight."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    rows, columns = draw.randrange(5, 9), draw.randrange(5, 9)
    layers = [nn.Linear(rows, columns), nn.LayerNorm(columns), nn.Linear(columns, rows, bias=False)]
    model = nn.Sequential(*layers, nn.Linear(rows, columns)).to(LOW[seed % 2])
    model.get_submodule("1").float().register_buffer("seen", torch.tensor(3.0))
    model.get_submodule("3").weight = model.get_submodule("0").weight
    return model


def give_gradients(model: nn.Module, seed: int, size: float) -> None:
    """Sets random gradients, each in its parameter's dtype."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = size * torch.randn_like(parameter)


def copies(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the masters' types and values, and the number of weights that change with the masters.

    One parameter is frozen; its master may be frozen too.
    """
    model, before = half_model(seed), weights(half_model(seed))
    parameters = [*model.parameters()]
    parameters[seed % len(parameters)].requires_grad_(False)
    masters = learner.make_masters(model)
    if type(masters) is not list:
        return {"type": type_name(masters)}
    observed = {
        "type": type_name(masters),
        "dtypes": [what(master) for master in masters],
        "shapes": [str(tuple(master.shape)) if is_tensor(master) else type_name(master) for master in masters],
        "leaves": [
            is_tensor(master) and master.is_leaf and (master.requires_grad or place == seed % len(parameters))
            for place, master in enumerate(masters)
        ],
        "masters": flat(masters),
    }
    with torch.no_grad():
        for master in masters:
            Tensor.add_(master, 1.0)
    return observed | {"model": int((weights(model) != before).sum())}


def one_master_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns masters and model after one step of SGD with two groups, and whether the model has the same tensors.

    In the groups, two masters of one shape are in swapped places, as biases are after a split by weight decay.
    """
    model = half_model(seed)
    masters = [*learner.make_masters(model)]
    in_groups = [masters[place] for place in (0, 3, 2, 1, *range(4, len(masters)))]
    parameters = list(model.parameters())
    addresses = [Tensor.data_ptr(tensor) for tensor in parameters]
    give_gradients(model, seed, 1.0)
    gradients = flat(parameter.grad for parameter in parameters)
    learner.master_step(model, masters, torch.optim.SGD(_groups(in_groups, 0.05), lr=0.1, momentum=0.5))
    after = list(model.parameters())
    shared = {Tensor.data_ptr(tensor) for tensor in masters} & {Tensor.data_ptr(tensor) for tensor in after}
    left = flat(parameter.grad for parameter in after)
    return {
        "masters": flat(masters),
        **named_weights(model),
        "dtypes": [what(tensor) for tensor in after],
        "same": all(a is b for a, b in zip(after, parameters, strict=True)),
        "memory": [Tensor.data_ptr(tensor) for tensor in after] == addresses,
        "shared": len(shared),
        "gradients": left.shape == gradients.shape and bool((left == gradients).all()),
    }


def many_small_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes 40 to 60 steps, each too small to change a 16-bit weight."""
    model, steps = half_model(seed), random.Random(seed).randrange(40, 61)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(1.0 + torch.rand_like(parameter))
    masters = [*learner.make_masters(model)]
    optimizer, before = torch.optim.SGD(masters, lr=1e-4), weights(model)
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 4.0)
        learner.master_step(model, masters, optimizer)
    moved = weights(model) - before
    return named_weights(model) | {"steps": steps, "masters": flat(masters), "moved": float(moved.mean())}


def some_without_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes three steps of AdamW with weight decay; one parameter has no gradient in the second step."""
    model = half_model(seed)
    masters = [*learner.make_masters(model)]
    missing = seed % len(masters)
    optimizer = torch.optim.AdamW(masters, lr=0.1, weight_decay=0.1)
    give_gradients(model, seed, 1.0)
    learner.master_step(model, masters, optimizer)
    before = flat([masters[missing]])
    give_gradients(model, seed + 1, 1.0)
    list(model.parameters())[missing].grad = None
    learner.master_step(model, masters, optimizer)
    moved = int((flat([masters[missing]]) != before).sum())
    give_gradients(model, seed + 2, 1.0)
    learner.master_step(model, masters, optimizer)
    return {
        "moved": moved,
        "masters": flat(masters),
        **named_weights(model),
        "steps": [float(state["step"]) for state in optimizer.state.values()],
    }
