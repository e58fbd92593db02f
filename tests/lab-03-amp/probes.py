"""Lab 03, probes: they call the learner's code on fresh random inputs and return what came of it as plain values.

What can be computed in float64 is, so that a different but equal way to compute agrees to about 1e-13. What is about
16 bits runs in them, on sizes that a CPU multiplies in no time.
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
    """A tiny GPT in training mode, its loss far from ln V."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8))
    with torch.no_grad():  # larger weights than usual, so that mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


def make_batch(seed: int, size: int = 4) -> tuple[Tensor, Tensor]:
    """Random tokens and targets, int64 [size, BLOCK] each."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, BLOCK), generator=generator)
    return x, y


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def bits(dtype: torch.dtype) -> str:
    """'bfloat16'"""
    return str(dtype).removeprefix("torch.")


def what(value: Any) -> str:
    """A tensor's dtype, the type of anything else: 'float16', 'int', 'NoneType'."""
    return bits(value.dtype) if is_tensor(value) else type_name(value)


# --------------------------------------------------------------------------------------------------------- share_lost
def small_numbers(seed: int, count: int) -> Tensor:
    """fp32 [count]: of either sign, 2^-40 to 2^-8 in size, and some that lie where fp16's range ends."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.rand(count, generator=generator) * 32 - 40
    signs = torch.randint(2, (count,), generator=generator) * 2 - 1
    numbers = signs * torch.exp2(exponents)
    numbers[:4] = torch.tensor([2.0**-25, 2.0**-25 * (1 + 2.0**-20), -(2.0**-24), -(2.0**-14)])
    return numbers


def one_tensor(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One matrix of small numbers, as they are, in fp16."""
    draw = random.Random(seed)
    rows, columns = draw.randrange(12, 30), draw.randrange(12, 30)
    share = learner.share_lost([small_numbers(seed, rows * columns).view(rows, columns)], 1.0, torch.float16)
    return {"type": type_name(share), "share": plain_number(share)}


def zeros_among_them(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Many numbers that are zero already, and a gradient of zeros alone."""
    count = random.Random(seed).randrange(90, 290)
    gradient = torch.cat([small_numbers(seed, count), torch.zeros(3 * count)])
    shares = [learner.share_lost(one, 1.0, torch.float16) for one in ([gradient], [torch.zeros(3)], [None])]
    return {"shares": [plain_number(share) for share in shares]}


def several_tensors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A large tensor of small numbers, a small one of large numbers, and a parameter without a gradient."""
    gradients = [
        small_numbers(seed, random.Random(seed).randrange(200, 600)),
        None,
        torch.ones(7, 3),
        small_numbers(seed + 1, 20).double(),
    ]
    return {"share": plain_number(learner.share_lost(iter(gradients), 1.0, torch.float16))}


def scaled_and_in_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same numbers times scales up to one that is itself infinite in fp16, and in the other format."""
    draw = random.Random(seed)
    numbers, small = small_numbers(seed, draw.randrange(300, 600)), 2.0 ** draw.randrange(2, 6)
    large = torch.full((50,), 10.0)  # inf in fp16 with the large scale, and not lost for that
    asked = [
        ([numbers], small, torch.float16),
        ([torch.cat([numbers * 2.0**-12, large])], 65536.0, torch.float16),
        ([numbers], 1.0, torch.bfloat16),
        ([numbers * 2.0**-105], 1.0, torch.bfloat16),  # where bf16's range ends
    ]
    before = flat(asked[1][0])
    shares = [plain_number(learner.share_lost(*one)) for one in asked]
    return {"scale": small, "shares": shares, "changed": int((flat(asked[1][0]) != before).sum())}


# -------------------------------------------------------------------------------------------------------- cast_inputs
def policies(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The dtype of each argument after each policy, for mixed lists of arguments."""
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
    found: dict[str, Any] = {}
    for policy in ("lower", "fp32", "widest", ""):
        low = [LOW[0]] if policy == "" else LOW
        for name, every in (("floats", lists), ("others", others)):
            casts = [[*learner.cast_inputs(policy, args, dtype)] for args in every.values() for dtype in low]
            found[f"{name} {policy}"] = [[what(one) for one in cast] for cast in casts]
            found[f"values {name} {policy}"] = flat(one for cast in casts for one in cast if is_tensor(one))
    asked = [1e6 * fp32, torch.arange(3), bf16]  # beyond fp16, not beyond bf16
    types = {type_name(learner.cast_inputs(policy, tuple(asked), LOW[0])) for policy in ("lower", "")}
    found["type"] = "list" if types == {"list"} else min(types - {"list"})
    found["values"] = flat([one for low in LOW for one in learner.cast_inputs("lower", asked, low)])
    found["left"] = flat(asked)
    found["same"] = [one is other for one, other in zip(learner.cast_inputs("", asked, LOW[0]), asked, strict=True)]
    return found


def gradients_through(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The gradient of an fp32 leaf whose product was computed in bf16, and of a bf16 one computed in fp32."""
    torch.manual_seed(seed)
    grads: list[Tensor | None] = []
    for policy, dtype in (("lower", torch.float32), ("fp32", torch.bfloat16)):
        leaf, other = torch.randn(3, dtype=dtype, requires_grad=True), torch.randn(3)
        cast = learner.cast_inputs(policy, [leaf, other], torch.bfloat16)
        product = (cast[0] * cast[1]).sum()
        if product.requires_grad:
            product.backward()
        grads.append(leaf.grad)
    return {"dtypes": [what(one) for one in grads], "grads": flat(grads)}


# What torch.autocast has on its lists for the CPU, of the functions that a GPT calls.
POLICY = {F.linear: "lower", F.scaled_dot_product_attention: "lower", F.cross_entropy: "fp32", torch.stack: "widest"}


class HandMade(TorchFunctionMode):
    """Autocast with the learner's casts: sees each call of a torch function before it happens."""

    def __init__(self, learner: ModuleType, low: torch.dtype) -> None:
        super().__init__()
        self.learner, self.low = learner, low

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Casts the arguments, then calls."""
        cast = list(self.learner.cast_inputs(POLICY.get(func, ""), args, self.low))
        odd = [type_name(one) for one in cast if isinstance(one, Tensor) and not is_tensor(one)]
        if odd:
            raise TypeError(f"a tensor was expected where a {odd[0]} came back")
        return func(*cast, **(kwargs or {}))


def a_whole_gpt(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Loss and gradients of a GPT under the learner's casts, and under torch.autocast."""
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
Run = tuple[float, list[bool], int]  # the first scale, which steps were finite, and the interval


def _histories(learner: ModuleType, runs: list[Run]) -> dict[str, Any]:
    """Scales and counts after each step of each run."""
    scales, counts = [], []
    for scale, finite, interval in runs:
        good: Any = 0
        scales.append(list[Any]())
        counts.append(list[Any]())
        for one in finite:
            returned = learner.update_scale(scale, good, one, interval)
            pair = tuple_items(returned, 2)
            if pair is None:
                return {"returned": type_name(returned), "scales": [], "counts": []}
            kinds = [type_name(one) for one in pair]
            if kinds[0] not in ("int", "float") or kinds[1] not in ("int", "bool"):
                return {"returned": f"({', '.join(kinds)})", "scales": [], "counts": []}
            scale, good = pair
            scales[-1].append(plain_number(scale))
            counts[-1].append(plain_number(good))
    asked = {
        "starts": [run[0] for run in runs],
        "finite": [run[1] for run in runs],
        "intervals": [run[2] for run in runs],
    }
    return asked | {"returned": "pair", "scales": scales, "counts": counts}


def back_off(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Steps that overflow, one after another: down to a scale below fp16's smallest number, and far above it."""
    draw = random.Random(seed)
    starts = [2.0 ** draw.randrange(3, 6), *(2.0 ** draw.randrange(30, 200) for _ in range(3))]
    return _histories(learner, [(start, [False] * 30, 4) for start in starts])


def growth(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Good steps alone: three intervals, up from scales that people take for the largest; and an interval of 1."""
    draw = random.Random(seed)
    interval, starts = draw.randrange(3, 7), [2.0 ** draw.randrange(32, 40), 2.0 ** draw.randrange(20, 60)]
    every = [2.0 ** draw.randrange(-60, 200) for _ in range(2)]
    return _histories(
        learner,
        [
            *((start, [True] * (3 * interval), interval) for start in (starts[0], *every)),
            (starts[1], [True] * 60, 1),
        ],
    )


def both(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Good steps with overflows between them: twice one just before the scale would have grown, twice in a row."""
    draw = random.Random(seed)
    interval = draw.randrange(4, 7)
    finite = [True] * (interval - 1) + [False] + [True] * (interval - 1) + [False, False]
    finite += [True] * (2 * interval) + [False] + [draw.random() < 0.8 for _ in range(20)]
    return _histories(learner, [(65536.0, finite, interval)])


def by_default(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Without a growth_interval: one good step after so many others, and whether that is as many as it takes."""
    draw = random.Random(seed)
    before = [draw.randrange(5, 90), 99, 499, 999, 1998, 1999]
    starts = [2.0 ** draw.randrange(-60, 200) for _ in before]
    starts[-1] = 2.0 ** draw.randrange(200)  # below 1e-9 a diagnosis cannot see whether this step doubles the scale
    found = [learner.update_scale(start, good, True) for start, good in zip(starts, before, strict=True)]
    return {"before": before, "starts": starts, "scales": [plain_number(scale) for scale, _ in found]}


# ------------------------------------------------------------------------------------------------------------ unscale
def with_gradients(seed: int, large: float = 1.0) -> GPT:
    """A tiny float64 GPT with random gradients; its position embedding is frozen and has none."""
    model = make_model(seed)
    model.position_embedding.weight.requires_grad_(False)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = large * torch.randn_like(parameter)
    return model


def grads(model: nn.Module) -> list[Tensor]:
    """Its gradients, those that are there."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gradients, weights and the verdict after unscaling; the parameters come as a generator, which passes once."""
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
        "in_memory": flat(memory),  # what those who hold on to the gradients' memory see
        "weights": weights(model),
        "frozen": what(model.position_embedding.weight.grad),
    }


def spoiled(seed: int) -> Iterator[tuple[str, GPT]]:
    """Models with bad numbers in their gradients, by what and where they are."""
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
    """The verdict on each case, by its name; they come in an order that nobody can know."""
    random.Random(seed).shuffle(cases)
    finite = [boolean(learner.unscale(parameters, scale)) for _, parameters in cases]
    return {"names": [name for name, _ in cases], "finite": finite}


def bad_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The verdict on each spoiled model, and on as many good ones between them."""
    bad: list[Case] = [(name, model.parameters()) for name, model in spoiled(seed)]
    good: list[Case] = [("finite numbers everywhere", with_gradients(seed + n).parameters()) for n in range(len(bad))]
    return _verdicts(learner, seed, bad + good, 8.0)


def large_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The verdict on finite gradients whose sums and norms are beyond their own range; infinite ones between them."""
    draw = torch.Generator().manual_seed(seed)

    def parameters(size: float) -> list[nn.Parameter]:
        every = [nn.Parameter(torch.zeros(30, dtype=torch.float64)) for _ in range(3)]
        for one in every:
            one.grad = size * (0.5 + 0.5 * torch.rand(30, generator=draw, dtype=torch.float64))
        return every

    cases: list[Case] = [
        (f"gradients of about 1e{power}, all in fp64 and finite,", parameters(float(f"1e{power}")))
        for power in (307, 200, 100, -200)
        for _ in range(2)
    ]
    cases.append(("no gradients at all", [nn.Parameter(torch.zeros(3)) for _ in range(2)]))
    return _verdicts(learner, seed, [*cases, *[("nothing but inf", parameters(torch.inf)) for _ in cases]], 2.0)


def spoiled_and_divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The gradients after unscaling when the first of them is infinite."""
    model = with_gradients(seed)
    grads(model)[0].view(-1)[0] = torch.inf
    learner.unscale(list(model.parameters()), 16.0)
    return {"grads": flat(grads(model)), "scale": 16.0}


# -------------------------------------------------------------------------------------------------------- scaled_step
def _sgd(model: nn.Module, momentum: float = 0.0) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)


def _pair(returned: Any) -> tuple[Any, Any]:
    """Loss and whether there was an update; None for the second where only one thing came back."""
    pair = tuple_items(returned, 2)
    return (returned, None) if pair is None else (pair[0], pair[1])


def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step in float64, which autocast leaves alone, with a threshold far above the gradient's norm."""
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
    """One step whose true norm is far above the limit, and one whose true norm is a third of it."""
    found: dict[str, Any] = {}
    for name, factor, scale in (("above", 0.03, 2.0), ("below", 3.0, 1024.0)):
        model, batch = make_model(seed), make_batch(seed)
        loss_of(model, *batch).backward()
        norm = float(torch.nn.utils.get_total_norm(grads(model)))
        model.zero_grad()
        before = weights(model)
        learner.scaled_step(model, _sgd(model), *batch, scale, factor * norm)
        found[f"norm {name}"], found[f"limit {name}"], found[f"scale {name}"] = norm, factor * norm, scale
        # With a rate of 0.1 the way is a tenth of the gradient that the optimizer saw.
        found[f"seen {name}"] = float(np.linalg.norm(weights(model) - before)) / 0.1
        found[f"weights {name}"] = weights(model)
    return found


def overflow(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Steps with one number in one gradient that is not finite, after a good step: what moves all the same."""
    moved, nans, state_changed, updated = [], [], [], []
    for bad in (torch.inf, torch.nan):
        model = make_model(seed)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
        loss_of(model, *make_batch(seed + 1)).backward()
        optimizer.step()
        before, state = weights(model), _state(optimizer)
        where = model.get_parameter("blocks.0.norm1.weight" if bad == torch.inf else "norm.weight")
        where.register_hook(lambda grad, bad=bad: grad.index_fill(0, torch.tensor([seed % 8]), bad))
        _, was = _pair(learner.scaled_step(model, optimizer, *make_batch(seed), 16.0, 1.0))
        moved.append(int((weights(model) != before).sum()))
        nans.append(int(np.isnan(weights(model)).sum()))
        state_changed.append(int((_state(optimizer) != state).sum()))
        updated.append(boolean(was))
    return {"moved": moved, "nan": nans, "state": state_changed, "updated": updated, "of": int(before.size)}


def _state(optimizer: torch.optim.Optimizer) -> np.ndarray:
    return flat([tensor for state in optimizer.state.values() for tensor in state.values()])


def formats(learner: ModuleType, seed: int) -> dict[str, Any]:
    """In which dtype the linear layers, the loss and backward run; and the dtype of the weights after it."""
    found: dict[str, list[Any]] = {name: [] for name in ("linear", "norm", "backward", "loss", "weights", "after")}
    for low in LOW:
        model, batch = make_model(seed, torch.float32), make_batch(seed)

        def in_backward(grad: Tensor) -> None:
            found["backward"].append("on" if torch.is_autocast_enabled("cpu") else "off")

        def on_linear(module: nn.Module, args: Any, out: Tensor) -> None:
            found["linear"].append(what(out))

        def on_norm(module: nn.Module, args: Any, out: Tensor) -> None:
            found["norm"].append(what(out))

        def on_logits(out: Tensor) -> None:
            out.register_hook(in_backward)

        model.get_submodule("blocks.0.mlp.up").register_forward_hook(on_linear)
        model.norm.register_forward_hook(on_norm)
        ForwardRecorder(model, on_logits)
        loss, _ = _pair(learner.scaled_step(model, _sgd(model), *batch, 16.0, 1.0, low))
        found["loss"].append(plain_number(loss))
        found["weights"].append(what(model.head.weight))
        found["after"].append("on" if torch.is_autocast_enabled("cpu") else "off")
    return dict(found)


def after_others(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A step when old gradients are there: finite ones, and those that an overflow left."""
    found: dict[str, Any] = {}
    for name, old in (("finite", 1.0), ("infinite", torch.inf)):
        model = make_model(seed)
        loss_of(model, *make_batch(seed + 1)).backward()
        for gradient in grads(model):
            gradient.mul_(old)
        _, updated = _pair(learner.scaled_step(model, _sgd(model), *make_batch(seed), 64.0, 1e6))
        found |= {f"weights {name}": weights(model), f"updated {name}": boolean(updated)}
    return found


def start_of_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The size of the gradient that backward has at the logits: the scale, which fp16 itself cannot hold, is on it."""
    model, scale, sizes = make_model(seed), 2.0 ** random.Random(seed).randrange(17, 21), []

    def on_logits(out: Tensor) -> None:
        out.register_hook(lambda grad: sizes.append(float(grad.abs().sum())))

    ForwardRecorder(model, on_logits)
    learner.scaled_step(model, _sgd(model), *make_batch(seed), scale, 1e6)
    return {"scale": scale, "sizes": sizes}


def several_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three steps with momentum on three batches, each with a scale of its own."""
    model = make_model(seed)
    optimizer, modes, modules = _sgd(model, momentum=0.5), list[bool](), [*model.modules()]
    ForwardRecorder(model, lambda out: modes.append(in_training(model)))
    for step in range(3):
        learner.scaled_step(model, optimizer, *make_batch(seed + step), 2.0 ** (4 + step), 1e6)
    return {"weights": weights(model), "modes": [in_training(one) for one in modules], "passes": modes}


# ----------------------------------------------------------------------------------------------------- master_weights
def half_model(seed: int) -> nn.Sequential:
    """Two linear layers in bf16 around a norm that is kept in fp32, as many keep it."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias=False)).bfloat16()
    model.get_submodule("1").float()
    return model


def give_gradients(model: nn.Module, seed: int, size: float) -> None:
    """Random gradients, each in its parameter's dtype."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = size * torch.randn_like(parameter)


def copies(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The masters' types and values, and whether changing them changes the model."""
    model = half_model(seed)
    before = weights(model)
    masters = learner.make_masters(model)
    if type(masters) is not list:
        return {"type": type_name(masters)}
    found = {
        "type": type_name(masters),
        "dtypes": [what(one) for one in masters],
        "shapes": [str(tuple(one.shape)) if is_tensor(one) else type_name(one) for one in masters],
        "leaves": [is_tensor(one) and one.is_leaf and one.requires_grad for one in masters],
        "masters": flat(masters),
    }
    with torch.no_grad():
        for master in masters:
            Tensor.add_(master, 1.0)
    return found | {"model": int((weights(model) != before).sum())}


def one_master_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Masters and model after one step of SGD, and which tensors the model is made of."""
    model = half_model(seed)
    masters = [*learner.make_masters(model)]
    parameters = list(model.parameters())
    addresses = [Tensor.data_ptr(one) for one in parameters]
    give_gradients(model, seed, 1.0)
    learner.master_step(model, masters, torch.optim.SGD(masters, lr=0.1))
    after = list(model.parameters())
    shared = {Tensor.data_ptr(one) for one in masters} & {Tensor.data_ptr(one) for one in after}
    return {
        "masters": flat(masters),
        "weights": weights(model),
        "dtypes": [what(one) for one in after],
        "same": all(a is b for a, b in zip(after, parameters, strict=True)),
        "memory": [Tensor.data_ptr(one) for one in after] == addresses,
        "shared": len(shared),
    }


def many_small_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """40 steps, each too small for a bf16 weight to notice."""
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
    """Two steps of AdamW with weight decay; in the second, one parameter has no gradient."""
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
