"""Probes of Lab 03: each calls the learner's code on random inputs, and returns its results as plain values.

Probes compute in float64 where possible, so that equivalent computations agree to about 1e-13. Probes of 16-bit formats
run in these formats, on sizes that a CPU multiplies fast.
"""

import random
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rankzero.exercises.probes.forward_recorder import ForwardRecorder
from rankzero.exercises.probes.untrusted_values import (
    boolean,
    flat,
    in_training,
    is_tensor,
    plain_number,
    tuple_items,
    type_name,
    weights,
)
from rankzero.learn.models.gpt import GPT, GPTConfig

VOCAB, BLOCK = 13, 6
LOW = (torch.bfloat16, torch.float16)


def make_model(seed: int, dtype: torch.dtype = torch.float64) -> GPT:
    """Returns a tiny GPT in training mode, with a loss far from ln V."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8))
    with torch.no_grad():  # larger weights than usual, so that mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


def make_batch(seed: int, size: int = 4) -> tuple[Tensor, Tensor]:
    """Returns random tokens and targets, int64 [size, BLOCK] each."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, BLOCK), generator=generator)
    return x, y


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def bits(dtype: torch.dtype) -> str:
    """Returns a dtype's name, such as 'bfloat16'."""
    return str(dtype).removeprefix("torch.")


def what(value: Any) -> str:
    """Returns the dtype of a tensor or the type of another value: 'float16', 'int', 'NoneType'."""
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
    """Returns the lost shares of a gradient with many zeros, of a gradient of zeros, and of a missing gradient."""
    count = random.Random(seed).randrange(90, 290)
    gradient = torch.cat([small_numbers(seed, count), torch.zeros(3 * count)])
    shares = [learner.share_lost(gradients, 1.0, torch.float16) for gradients in ([gradient], [torch.zeros(3)], [None])]
    return {"shares": [plain_number(share) for share in shares]}


def several_tensors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lost share of several gradients: large and small tensors, and a parameter without a gradient."""
    gradients = [
        small_numbers(seed, random.Random(seed).randrange(200, 600)),
        None,
        torch.ones(7, 3),
        small_numbers(seed + 1, 20).double(),
    ]
    return {"share": plain_number(learner.share_lost(iter(gradients), 1.0, torch.float16))}


def scaled_and_in_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lost shares with scales up to 65536, which is infinite in fp16, and in bf16."""
    draw = random.Random(seed)
    numbers, small = small_numbers(seed, draw.randrange(300, 600)), 2.0 ** draw.randrange(2, 6)
    large = torch.full((50,), 10.0)  # inf in fp16 with the large scale, which is no lost number
    cases = [
        ([numbers], small, torch.float16),
        ([torch.cat([numbers * 2.0**-12, large])], 65536.0, torch.float16),
        ([numbers], 1.0, torch.bfloat16),
        ([numbers * 2.0**-105], 1.0, torch.bfloat16),  # the end of bf16's range
    ]
    before = flat(cases[1][0])
    shares = [plain_number(learner.share_lost(*case)) for case in cases]
    return {"scale": small, "shares": shares, "changed": int((flat(cases[1][0]) != before).sum())}


# -------------------------------------------------------------------------------------------------------- cast_inputs
def policies(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the dtype of each argument after each policy, for mixed lists of arguments."""
    torch.manual_seed(seed)
    fp32, bf16, fp16, fp64 = (torch.randn(3).to(dtype) for dtype in (torch.float32, *LOW, torch.float64))
    lists = {
        "two fp32": [fp32, fp32.clone()],
        "fp32 and bf16": [fp32, bf16],
        "bf16 and fp32": [bf16, fp32],
        "two bf16": [bf16, bf16.clone()],
        "bf16 and fp16": [bf16, fp16],
        "fp16": [fp16],
    }
    others = {
        "not a float": [fp32, torch.arange(3), torch.ones(3, dtype=torch.bool), None, 0.5, 7, (8,), "mean"],
        "float64": [fp64, fp32],
        "float64 and bf16": [fp64, bf16],
    }
    observed: dict[str, Any] = {}
    for policy in ("lower", "fp32", "widest", ""):
        low = [LOW[0]] if policy == "" else LOW
        for name, cases in (("floats", lists), ("others", others)):
            casts = [[*learner.cast_inputs(policy, args, dtype)] for args in cases.values() for dtype in low]
            observed[f"{name} {policy}"] = [[what(value) for value in cast] for cast in casts]
            observed[f"values {name} {policy}"] = flat(value for cast in casts for value in cast if is_tensor(value))
    arguments = [1e6 * fp32, torch.arange(3), bf16]  # 1e6 is in the range of bf16, but not of fp16
    types = {type_name(learner.cast_inputs(policy, tuple(arguments), LOW[0])) for policy in ("lower", "")}
    observed["type"] = "list" if types == {"list"} else min(types - {"list"})
    observed["values"] = flat([value for low in LOW for value in learner.cast_inputs("lower", arguments, low)])
    observed["left"] = flat(arguments)
    cast = learner.cast_inputs("", arguments, LOW[0])
    observed["same"] = [value is argument for value, argument in zip(cast, arguments, strict=True)]
    return observed


def gradients_through(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the gradients of an fp32 leaf multiplied in bf16, and of a bf16 leaf multiplied in fp32."""
    torch.manual_seed(seed)
    grads: list[Tensor | None] = []
    for policy, dtype in (("lower", torch.float32), ("fp32", torch.bfloat16)):
        leaf, other = torch.randn(3, dtype=dtype, requires_grad=True), torch.randn(3)
        cast = learner.cast_inputs(policy, [leaf, other], torch.bfloat16)
        product = (cast[0] * cast[1]).sum()
        if product.requires_grad:
            product.backward()
        grads.append(leaf.grad)
    return {"dtypes": [what(gradient) for gradient in grads], "grads": flat(grads)}


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
Run = tuple[float, list[bool], int]  # first scale, whether each step was finite, growth interval


def _histories(learner: ModuleType, runs: list[Run]) -> dict[str, Any]:
    """Returns scales and counts after each step of each run."""
    scales, counts = [], []
    for scale, finite, interval in runs:
        good: Any = 0
        scales.append(list[Any]())
        counts.append(list[Any]())
        for step_is_finite in finite:
            returned = learner.update_scale(scale, good, step_is_finite, interval)
            pair = tuple_items(returned, 2)
            if pair is None:
                return {"returned": type_name(returned), "scales": [], "counts": []}
            kinds = [type_name(value) for value in pair]
            if kinds[0] not in ("int", "float") or kinds[1] not in ("int", "bool"):
                return {"returned": f"({', '.join(kinds)})", "scales": [], "counts": []}
            scale, good = pair
            scales[-1].append(plain_number(scale))
            counts[-1].append(plain_number(good))
    inputs = {
        "starts": [run[0] for run in runs],
        "finite": [run[1] for run in runs],
        "intervals": [run[2] for run in runs],
    }
    return inputs | {"returned": "pair", "scales": scales, "counts": counts}


def back_off(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale after many overflows in sequence, below fp16's smallest number and far above it."""
    draw = random.Random(seed)
    starts = [2.0 ** draw.randrange(3, 6), *(2.0 ** draw.randrange(30, 200) for _ in range(3))]
    return _histories(learner, [(start, [False] * 30, 4) for start in starts])


def growth(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale after finite steps only: three intervals from large scales, and an interval of 1."""
    draw = random.Random(seed)
    interval, starts = draw.randrange(3, 7), [2.0 ** draw.randrange(32, 40), 2.0 ** draw.randrange(20, 60)]
    random_starts = [2.0 ** draw.randrange(-60, 200) for _ in range(2)]
    return _histories(
        learner,
        [
            *((start, [True] * (3 * interval), interval) for start in (starts[0], *random_starts)),
            (starts[1], [True] * 60, 1),
        ],
    )


def both(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale after finite steps and overflows, some just before the scale grows and some in sequence."""
    draw = random.Random(seed)
    interval = draw.randrange(4, 7)
    finite = [True] * (interval - 1) + [False] + [True] * (interval - 1) + [False, False]
    finite += [True] * (2 * interval) + [False] + [draw.random() < 0.8 for _ in range(20)]
    return _histories(learner, [(65536.0, finite, interval)])


def by_default(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Updates the scale without growth_interval, after different numbers of finite steps: 2,000 are the default."""
    draw = random.Random(seed)
    before = [draw.randrange(5, 90), 99, 499, 999, 1998, 1999]
    starts = [2.0 ** draw.randrange(-60, 200) for _ in before]
    starts[-1] = 2.0 ** draw.randrange(200)  # below 1e-9 a diagnosis cannot see whether this step doubles the scale
    updated = [learner.update_scale(start, good, True) for start, good in zip(starts, before, strict=True)]
    return {"before": before, "starts": starts, "scales": [plain_number(scale) for scale, _ in updated]}


# ------------------------------------------------------------------------------------------------------------ unscale
def with_gradients(seed: int, large: float = 1.0) -> GPT:
    """Returns a tiny float64 GPT with random gradients; its position embedding is frozen and has no gradient."""
    model = make_model(seed)
    model.position_embedding.weight.requires_grad_(False)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = large * torch.randn_like(parameter)
    return model


def grads(model: nn.Module) -> list[Tensor]:
    """Returns the gradients of a model, without missing gradients."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns gradients, weights and verdict after unscaling the parameters of a generator, which can be read once."""
    model, scale = with_gradients(seed), 2.0 ** random.Random(seed).randrange(1, 17)
    parameters = [*model.parameters()]
    before, memory = grads(model), [gradient.view(-1) for gradient in grads(model)]
    finite = learner.unscale((parameter for parameter in model.parameters()), scale)
    after = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return {
        "type": type_name(finite),
        "scale": scale,
        "grads": flat(after),
        "in_place": len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True)),
        "in_memory": flat(memory),  # the gradients as views of the same memory show them
        "weights": weights(model),
        "frozen": what(model.position_embedding.weight.grad),
    }


def spoiled(seed: int) -> Iterator[tuple[str, GPT]]:
    """Yields models with bad numbers in their gradients, by value and place."""
    for value in (torch.inf, -torch.inf, torch.nan):
        for place, name in ((0, "first"), (-1, "last"), (3, "fourth")):
            model = with_gradients(seed)
            bad = grads(model)[place].view(-1)
            bad[seed % bad.numel()] = value
            yield f"{value} in the {name} gradient", model
    both, whole = (with_gradients(seed) for _ in range(2))
    grads(both)[0].view(-1)[0], grads(both)[-1].view(-1)[0] = torch.inf, -torch.inf
    yield "inf in the first gradient and -inf in the last", both
    grads(whole)[2].fill_(torch.nan)
    yield "nothing but nan in the third gradient", whole


Case = tuple[str, Iterable[nn.Parameter]]


def _verdicts(learner: ModuleType, seed: int, cases: list[Case], scale: float) -> dict[str, Any]:
    """Returns the verdict on each case by name; the cases come in random order."""
    random.Random(seed).shuffle(cases)
    finite = [boolean(learner.unscale(parameters, scale)) for _, parameters in cases]
    return {"names": [name for name, _ in cases], "finite": finite}


def bad_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the verdict on each model with bad numbers, and on as many good models between them."""
    bad: list[Case] = [(name, model.parameters()) for name, model in spoiled(seed)]
    good: list[Case] = [("finite numbers everywhere", with_gradients(seed + n).parameters()) for n in range(len(bad))]
    return _verdicts(learner, seed, bad + good, 8.0)


def large_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the verdict on finite gradients whose sums or norms overflow, and on infinite gradients between them."""
    draw = torch.Generator().manual_seed(seed)

    def parameters(size: float) -> list[nn.Parameter]:
        made = [nn.Parameter(torch.zeros(30, dtype=torch.float64)) for _ in range(3)]
        for parameter in made:
            parameter.grad = size * (0.5 + 0.5 * torch.rand(30, generator=draw, dtype=torch.float64))
        return made

    cases: list[Case] = [
        (f"gradients of about 1e{power}, all in fp64 and finite,", parameters(float(f"1e{power}")))
        for power in (307, 200, 100, -200)
        for _ in range(2)
    ]
    cases.append(("no gradients at all", [nn.Parameter(torch.zeros(3)) for _ in range(2)]))
    return _verdicts(learner, seed, [*cases, *[("nothing but inf", parameters(torch.inf)) for _ in cases]], 2.0)


def spoiled_and_divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the gradients after unscaling if the first gradient has an infinite number."""
    model = with_gradients(seed)
    grads(model)[0].view(-1)[0] = torch.inf
    learner.unscale(list(model.parameters()), 16.0)
    return {"grads": flat(grads(model)), "scale": 16.0}


# -------------------------------------------------------------------------------------------------------- scaled_step
def _sgd(model: nn.Module, momentum: float = 0.0) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)


def _pair(returned: Any) -> tuple[Any, Any]:
    """Returns the loss and whether there was an update, which is None if only one value was returned."""
    pair = tuple_items(returned, 2)
    return (returned, None) if pair is None else (pair[0], pair[1])


def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step in float64, which autocast does not cast, with a threshold far above the gradient's norm."""
    model, scale = make_model(seed), 2.0 ** random.Random(seed).randrange(8, 17)
    returned = learner.scaled_step(model, _sgd(model), *make_batch(seed), scale, 1e6)
    loss, updated = _pair(returned)
    return {
        "type": type_name(returned) if updated is None else f"({type_name(loss)}, {type_name(updated)})",
        "loss": plain_number(loss),
        "updated": boolean(updated),
        "scale": scale,
        "weights": weights(model),
    }


def clipped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes a step whose true norm is far above the limit, and a step whose true norm is a third of the limit."""
    observed: dict[str, Any] = {}
    for name, factor, scale in (("above", 0.03, 2.0), ("below", 3.0, 1024.0)):
        model, batch = make_model(seed), make_batch(seed)
        loss_of(model, *batch).backward()
        norm = float(torch.nn.utils.get_total_norm(grads(model)))
        model.zero_grad()
        before = weights(model)
        learner.scaled_step(model, _sgd(model), *batch, scale, factor * norm)
        observed[f"norm {name}"], observed[f"limit {name}"], observed[f"scale {name}"] = norm, factor * norm, scale
        # With a learning rate of 0.1, the update is a tenth of the gradient that the optimizer used.
        observed[f"seen {name}"] = float(np.linalg.norm(weights(model) - before)) / 0.1
        observed[f"weights {name}"] = weights(model)
    return observed


def overflow(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes steps with one number that is not finite, after a good step, and counts changed weights and state."""
    moved, nans, state_changed, updated = [], [], [], []
    for bad in (torch.inf, torch.nan):
        model = make_model(seed)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
        loss_of(model, *make_batch(seed + 1)).backward()
        optimizer.step()
        before, state = weights(model), _state(optimizer)
        parameter = model.get_parameter("blocks.0.norm1.weight" if bad == torch.inf else "norm.weight")
        parameter.register_hook(lambda grad, bad=bad: grad.index_fill(0, torch.tensor([seed % 8]), bad))
        _, was_updated = _pair(learner.scaled_step(model, optimizer, *make_batch(seed), 16.0, 1.0))
        moved.append(int((weights(model) != before).sum()))
        nans.append(int(np.isnan(weights(model)).sum()))
        state_changed.append(int((_state(optimizer) != state).sum()))
        updated.append(boolean(was_updated))
    return {"moved": moved, "nan": nans, "state": state_changed, "updated": updated, "of": int(before.size)}


def _state(optimizer: torch.optim.Optimizer) -> np.ndarray:
    return flat([tensor for state in optimizer.state.values() for tensor in state.values()])


def formats(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the dtypes in which layers, loss and backward run, and the dtype of the weights afterwards."""
    observed: dict[str, list[Any]] = {name: [] for name in ("linear", "norm", "backward", "loss", "weights", "after")}
    for low in LOW:
        model, batch = make_model(seed, torch.float32), make_batch(seed)

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
        loss, _ = _pair(learner.scaled_step(model, _sgd(model), *batch, 16.0, 1.0, low))
        observed["loss"].append(plain_number(loss))
        observed["weights"].append(what(model.head.weight))
        observed["after"].append("on" if torch.is_autocast_enabled("cpu") else "off")
    return dict(observed)


def after_others(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes a step over old gradients: finite gradients, and infinite gradients of an overflow."""
    observed: dict[str, Any] = {}
    for name, old in (("finite", 1.0), ("infinite", torch.inf)):
        model = make_model(seed)
        loss_of(model, *make_batch(seed + 1)).backward()
        for gradient in grads(model):
            gradient.mul_(old)
        _, updated = _pair(learner.scaled_step(model, _sgd(model), *make_batch(seed), 64.0, 1e6))
        observed |= {f"weights {name}": weights(model), f"updated {name}": boolean(updated)}
    return observed


def start_of_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the size of the gradient at the logits, multiplied by a scale beyond the range of fp16."""
    model, scale, sizes = make_model(seed), 2.0 ** random.Random(seed).randrange(17, 21), []

    def on_logits(out: Tensor) -> None:
        out.register_hook(lambda grad: sizes.append(float(grad.abs().sum())))

    ForwardRecorder(model, on_logits)
    learner.scaled_step(model, _sgd(model), *make_batch(seed), scale, 1e6)
    return {"scale": scale, "sizes": sizes}


def several_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes three steps with momentum on three batches, with another scale for each step."""
    model = make_model(seed)
    optimizer, modes, modules = _sgd(model, momentum=0.5), list[bool](), [*model.modules()]
    ForwardRecorder(model, lambda out: modes.append(in_training(model)))
    for step in range(3):
        learner.scaled_step(model, optimizer, *make_batch(seed + step), 2.0 ** (4 + step), 1e6)
    return {"weights": weights(model), "modes": [in_training(module) for module in modules], "passes": modes}


# ----------------------------------------------------------------------------------------------------- master_weights
def half_model(seed: int) -> nn.Sequential:
    """Returns two linear layers in bf16 around a norm in fp32, which is a common choice."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias=False)).bfloat16()
    model.get_submodule("1").float()
    return model


def give_gradients(model: nn.Module, seed: int, size: float) -> None:
    """Sets random gradients, each in its parameter's dtype."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = size * torch.randn_like(parameter)


def copies(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the masters' types and values, and the number of weights that change with the masters."""
    model = half_model(seed)
    before = weights(model)
    masters = learner.make_masters(model)
    if type(masters) is not list:
        return {"type": type_name(masters)}
    observed = {
        "type": type_name(masters),
        "dtypes": [what(master) for master in masters],
        "shapes": [str(tuple(master.shape)) if is_tensor(master) else type_name(master) for master in masters],
        "leaves": [is_tensor(master) and master.is_leaf and master.requires_grad for master in masters],
        "masters": flat(masters),
    }
    with torch.no_grad():
        for master in masters:
            Tensor.add_(master, 1.0)
    return observed | {"model": int((weights(model) != before).sum())}


def one_master_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns masters and model after one step of SGD, and whether the model still has the same tensors."""
    model = half_model(seed)
    masters = [*learner.make_masters(model)]
    parameters = list(model.parameters())
    addresses = [Tensor.data_ptr(tensor) for tensor in parameters]
    give_gradients(model, seed, 1.0)
    learner.master_step(model, masters, torch.optim.SGD(masters, lr=0.1))
    after = list(model.parameters())
    shared = {Tensor.data_ptr(tensor) for tensor in masters} & {Tensor.data_ptr(tensor) for tensor in after}
    return {
        "masters": flat(masters),
        "weights": weights(model),
        "dtypes": [what(tensor) for tensor in after],
        "same": all(a is b for a, b in zip(after, parameters, strict=True)),
        "memory": [Tensor.data_ptr(tensor) for tensor in after] == addresses,
        "shared": len(shared),
    }


def many_small_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes 40 steps, each too small to change a bf16 weight."""
    model = half_model(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(1.0 + torch.rand_like(parameter))
    masters = [*learner.make_masters(model)]
    optimizer, before = torch.optim.SGD(masters, lr=1e-4), weights(model)
    for _ in range(40):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 4.0)
        learner.master_step(model, masters, optimizer)
    moved = weights(model) - before
    return {"masters": flat(masters), "weights": weights(model), "moved": float(moved.mean())}


def some_without_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes two steps of AdamW with weight decay; one parameter has no gradient in the second step."""
    model = half_model(seed)
    masters = [*learner.make_masters(model)]
    optimizer = torch.optim.AdamW(masters, lr=0.1, weight_decay=0.1)
    give_gradients(model, seed, 1.0)
    learner.master_step(model, masters, optimizer)
    before, first = flat(masters), model.get_parameter("0.weight").numel()
    give_gradients(model, seed + 1, 1.0)
    model.get_parameter("0.weight").grad = None
    learner.master_step(model, masters, optimizer)
    after = flat(masters)
    return {
        "moved": int((after[:first] != before[:first]).sum()),
        "masters": after,
        "weights": weights(model),
        "steps": [float(state["step"]) for state in optimizer.state.values()],
    }
