"""Claims of handbook/optimizers.md."""

import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adafactor, Adagrad, Adam, AdamW, Muon, Optimizer, RMSprop, SparseAdam
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.counting_gpt import STEPS, excess
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.ledger.measure import storage_bytes

Make = Callable[[list[Tensor]], Optimizer]


def moves(make: Make, gradients: Iterable[Tensor]) -> list[Tensor]:
    """How far a float64 weight tensor that begins at 0 moves in each step, against the sign of the gradient."""
    weights: Tensor | None = None
    found = []
    for gradient in gradients:
        if weights is None:
            weights = torch.zeros_like(gradient, requires_grad=True)
            optimizer = make([weights])
        before = weights.detach().clone()
        weights.grad = gradient.clone()
        optimizer.step()
        found.append(before - weights.detach())
    return found


def constant(value: float, steps: int) -> list[Tensor]:
    """The same gradient of one number, again and again."""
    return [torch.full((1,), value, dtype=torch.float64)] * steps


def noise(steps: int, size: int = 1000, mean: float = 0.0) -> list[Tensor]:
    """Gradients of `size` independent numbers with variance 1."""
    generator = torch.Generator().manual_seed(0)
    return [mean + torch.randn(size, dtype=torch.float64, generator=generator) for _ in range(steps)]


def rms(tensor: Tensor) -> float:
    return tensor.square().mean().sqrt().item()


# ----------------------------------------------------------------------------------------------------------- by hand
def by_hand(name: str, gradients: list[Tensor], start: Tensor, lr: float) -> Tensor:
    """The weights after an update with each gradient, by the formulas of the page; weight decay is 0.1 where used."""
    p, u = start.clone(), torch.zeros_like(start)
    m, v = torch.zeros_like(start), torch.zeros_like(start)
    for t, gradient in enumerate(gradients, start=1):
        g = gradient + 0.1 * p if name == "Adam, L2" else gradient
        if name in ("momentum", "Nesterov"):
            u = 0.9 * u + g
            p = p - lr * (u if name == "momentum" else g + 0.9 * u)
        elif name == "RMSprop":
            v = 0.99 * v + 0.01 * g**2
            p = p - lr * g / (v.sqrt() + 1e-8)
        elif name == "SGD":
            p = p - lr * g
        else:
            if name == "AdamW":
                p = p - lr * 0.1 * p
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            p = p - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    return p


@claim(
    "optimizers-by-hand",
    "SGD, momentum, Nesterov, RMSprop, Adam with L2 and AdamW, written from their formulas, agree with PyTorch's.",
    expected=dict.fromkeys(("SGD", "momentum", "Nesterov", "RMSprop", "Adam, L2", "AdamW"), 0),
    tolerance=1e-14,
    unit="largest difference of a weight near 1",
)
def optimizers_by_hand() -> Mapping[str, float]:
    """Makes 50 updates of 1,000 random weights in float64 with random gradients, by hand and with torch.optim.

    The tolerance is rounding: 50 updates, each wrong by about 1e-16.
    """
    kinds: dict[str, Make] = {
        "SGD": lambda p: SGD(p, lr=1e-2),
        "momentum": lambda p: SGD(p, lr=1e-2, momentum=0.9),
        "Nesterov": lambda p: SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
        "RMSprop": lambda p: RMSprop(p, lr=1e-2),
        "Adam, L2": lambda p: Adam(p, lr=1e-2, weight_decay=0.1),
        "AdamW": lambda p: AdamW(p, lr=1e-2, weight_decay=0.1),
    }
    gradients, start = noise(50), noise(1)[0]
    found = {}
    for name, make in kinds.items():
        weights = start.clone().requires_grad_()
        optimizer = make([weights])
        for gradient in gradients:
            weights.grad = gradient.clone()
            optimizer.step()
        found[name] = (weights.detach() - by_hand(name, gradients, start, 1e-2)).abs().max().item()
    return found


# ---------------------------------------------------------------------------------------------------------- momentum
@claim(
    "momentum-multiplies-the-rate",
    "With momentum 0.9 and a gradient that stays, PyTorch's step grows to {expected[200th step]} times lr · g; with "
    "dampening 0.9 it stays at 1.",
    expected={"first step": 1, "200th step": 10, "200th, dampening 0.9": 1},
    tolerance=1e-6,
    unit="times lr · g",
)
def momentum_multiplies() -> Mapping[str, float]:
    """Makes 200 updates of one weight with gradient 1 and rate 1, with and without dampening."""
    plain = moves(lambda p: SGD(p, lr=1, momentum=0.9), constant(1, 200))
    damped = moves(lambda p: SGD(p, lr=1, momentum=0.9, dampening=0.9), constant(1, 200))
    return {"first step": plain[0].item(), "200th step": plain[-1].item(), "200th, dampening 0.9": damped[-1].item()}


@claim(
    "momentum-after-a-rate-cut",
    "After the rate is cut to a tenth, the next step of PyTorch's momentum is a tenth of the last; with the rate "
    "inside the velocity it is {expected[rate inside the velocity]} %.",
    expected={"PyTorch": 10, "rate inside the velocity": 91},
    tolerance=0.01,
    unit="% of the step before",
)
def momentum_after_a_cut() -> Mapping[str, float]:
    """Makes 200 updates with gradient 1 at rate 1 and one at 0.1: with torch, and by hand with v <- 0.9 v + lr g."""
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = SGD([weight], lr=1.0, momentum=0.9)
    steps, textbook, velocity = [], [], 0.0
    for t in range(201):
        rate = 1.0 if t < 200 else 0.1
        optimizer.param_groups[0]["lr"] = rate
        before = weight.item()
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        steps.append(before - weight.item())
        velocity = 0.9 * velocity + rate
        textbook.append(velocity)
    return {"PyTorch": 100 * steps[-1] / steps[-2], "rate inside the velocity": 100 * textbook[-1] / textbook[-2]}


@claim(
    "nesterov-is-the-look-ahead-point",
    "PyTorch's Nesterov weights are the textbook's look-ahead points: what the textbook computes gradients at.",
    expected=0,
    tolerance=1e-14,
    unit="largest distance",
)
def nesterov_look_ahead() -> float:
    """Runs 50 steps on a quadratic with curvatures 1 and 10, in float64: torch's weights against theta + 0.9 v."""
    curvature = torch.tensor([1.0, 10.0], dtype=torch.float64)
    weights = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = SGD([weights], lr=0.02, momentum=0.9, nesterov=True)
    theta, velocity, farthest = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64), 0.0
    for _ in range(50):
        weights.grad = curvature * weights.detach()
        optimizer.step()
        velocity = 0.9 * velocity - 0.02 * curvature * (theta + 0.9 * velocity)
        theta = theta + velocity
        farthest = max(farthest, (weights.detach() - (theta + 0.9 * velocity)).abs().max().item())
    return farthest


# -------------------------------------------------------------------------------------------------------------- Adam
@claim(
    "adam-first-step-is-the-rate",
    "Adam's first step is the rate, whether the gradient is 1e-4 or 1e4; at 1e-8, the size of epsilon, it is half. "
    "RMSprop's is ten times the rate.",
    expected={"g = 1e4": 1, "g = 1": 1, "g = 1e-4": 1, "g = 1e-8": 0.5, "RMSprop, g = 1": 10},
    tolerance=2e-4,
    unit="times lr",
)
def first_step() -> Mapping[str, float]:
    """Makes one update of one weight with each gradient. The tolerance is epsilon beside 1e-4."""
    sizes = {"1e4": 1e4, "1": 1.0, "1e-4": 1e-4, "1e-8": 1e-8}
    adam = {
        f"g = {name}": moves(lambda p: Adam(p, lr=1.0), constant(size, 1))[0].item() for name, size in sizes.items()
    }
    return adam | {"RMSprop, g = 1": moves(lambda p: RMSprop(p, lr=1.0), constant(1, 1))[0].item()}


@claim(
    "adam-step-signal-and-noise",
    "Adam's mean step is the rate times mean / root mean square of the gradient: {expected[no noise]} without noise, "
    "{expected[noise 1x]} with as much noise as signal, {expected[noise 10x]:.2f} with ten times as much. Noise "
    "alone makes steps of {expected[noise alone, rms]}.",
    expected={"no noise": 1, "noise 1x": 0.71, "noise 10x": 0.1, "noise alone, rms": 0.23},
    tolerance=0.01,
    unit="times lr",
)
def signal_and_noise() -> Mapping[str, float]:
    """Feeds Adam 1,000 weights with gradients of a fixed mean and deviation 1 (or 0) and averages 1,000 moves.

    The rms is of the last moves. 0.23 is the square root of (1 - beta1) / (1 + beta1), an average's noise.
    """

    def adam(gradients: list[Tensor]) -> list[Tensor]:
        return moves(lambda p: Adam(p, lr=1.0), gradients)

    def mean(steps: list[Tensor]) -> float:
        return torch.stack(steps).mean().item()

    alone = torch.stack(adam(noise(1000))[-200:])
    return {
        "no noise": mean(adam(constant(1, 1000))),
        "noise 1x": mean(adam(noise(1000, mean=1.0))),
        "noise 10x": mean(adam(noise(1000, mean=0.1))),
        "noise alone, rms": rms(alone),
    }


class Uncorrected(Optimizer):
    """Adam without its bias correction."""

    def __init__(self, params: Any, lr: float, beta2: float) -> None:
        super().__init__(params, {"lr": lr, "beta2": beta2})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p] or {"m": torch.zeros_like(p), "v": torch.zeros_like(p)}
                self.state[p] = state
                state["m"].lerp_(p.grad, 0.1)
                state["v"].lerp_(p.grad**2, 1 - group["beta2"])
                p -= group["lr"] * state["m"] / (state["v"].sqrt() + 1e-8)


@claim(
    "adam-without-bias-correction",
    "Without bias correction and with a gradient that stays, Adam's first step is {expected[0.999, first]} times the "
    "rate and the twelfth, the longest, {expected[0.999, longest]} times; with beta2 = 0.95 they are "
    "{expected[0.95, first]} and {expected[0.95, longest]:.2f}.",
    expected={"0.999, first": 3.16, "0.999, longest": 6.57, "0.95, first": 0.45, "0.95, longest": 1.10},
    tolerance=0.005,
    unit="times lr",
)
def without_bias_correction() -> Mapping[str, float]:
    """Makes 100 updates of one weight with gradient 1 and takes the first move and the largest."""
    found: dict[str, float] = {}
    for beta2 in (0.999, 0.95):
        steps = [step.item() for step in moves(lambda p, b=beta2: Uncorrected(p, 1.0, b), constant(1, 100))]  # type: ignore[misc]
        found |= {f"{beta2}, first": steps[0], f"{beta2}, longest": max(steps)}
    return found


@claim(
    "adam-when-gradients-grow",
    "If gradients become 1,000 times larger and stay so, Adam's steps reach {expected[0.999]} times the rate with "
    "beta2 = 0.999, and {expected[0.95]} times with 0.95.",
    expected={"0.999": 6.4, "0.95": 1.1},
    tolerance=0.05,
    unit="times lr",
)
def when_gradients_grow() -> Mapping[str, float]:
    """Makes 3,000 updates of one weight with gradient 0.001, then 100 with gradient 1, and takes the largest move."""
    gradients = constant(1e-3, 3000) + constant(1, 100)
    return {
        str(beta2): max(
            step.item()
            for step in moves(lambda p, b=beta2: Adam(p, lr=1.0, betas=(0.9, b)), gradients)  # type: ignore[misc]
        )
        for beta2 in (0.999, 0.95)
    }


@claim(
    "adam-after-one-bad-batch",
    "One batch with gradients 100 times too large makes Adam's next step {expected[0.999, next]} times as long as "
    "usual with beta2 = 0.999 and {expected[0.95, next]} times with 0.95; 200 steps later steps are "
    "{expected[0.999, later]} and {expected[0.95, later]:.1f} times as long.",
    expected={"0.999, next": 10.0, "0.999, later": 0.55, "0.95, next": 1.9, "0.95, later": 1.0},
    tolerance=0.1,
    unit="times the usual step",
)
def after_one_bad_batch() -> Mapping[str, float]:
    """Feeds 1,000 weights noise, one batch of it times 100; compares the rms of moves with that before."""
    gradients = noise(1700)
    gradients[1400] = 100 * gradients[1400]
    found = {}
    for beta2 in (0.999, 0.95):
        steps = moves(lambda p, b=beta2: Adam(p, lr=1.0, betas=(0.9, b)), gradients)  # type: ignore[misc]
        usual = rms(torch.stack(steps[1300:1400]))
        found[f"{beta2}, next"] = rms(steps[1400]) / usual
        found[f"{beta2}, later"] = rms(torch.stack(steps[1580:1620])) / usual
    return found


@claim(
    "adam-in-fp16-needs-a-larger-epsilon",
    "In fp16 Adam's default epsilon is 0, and a weight whose gradient is 0 becomes NaN; with 1e-7 it stays.",
    expected={"1e-8": 1, "1e-7": 0, "1e-8, bf16": 0},
    unit="NaN among 2 weights",
)
def epsilon_in_fp16() -> Mapping[str, float]:
    """Makes one update of two weights of 1 with gradients 0 and 1, and counts what is not a number."""

    def not_numbers(dtype: torch.dtype, eps: float) -> int:
        weights = torch.ones(2, dtype=dtype, requires_grad=True)
        optimizer = Adam([weights], lr=1e-1, eps=eps)
        weights.grad = torch.tensor([0.0, 1.0], dtype=dtype)
        optimizer.step()
        return int(weights.isnan().sum())

    return {
        "1e-8": not_numbers(torch.float16, 1e-8),
        "1e-7": not_numbers(torch.float16, 1e-7),
        "1e-8, bf16": not_numbers(torch.bfloat16, 1e-8),
    }


# ------------------------------------------------------------------------------------------------------ weight decay
@claim(
    "l2-inside-adam",
    "After 1,000 steps at rate 1e-3 with decay 0.1, AdamW has left 0.905 of every weight; Adam with L2 has left "
    "{expected[Adam, g 0.01]:.2f} where gradients are about 0.01, 0.905 at 1 and {expected[Adam, g 100]:.3f} at 100.",
    expected={
        "Adam, g 0.01": 0.262,
        "Adam, g 1": 0.905,
        "Adam, g 100": 1.0,
        "AdamW, g 0.01": 0.905,
        "AdamW, g 1": 0.905,
        "AdamW, g 100": 0.905,
    },
    tolerance=0.002,
    unit="of the weight left",
)
def l2_inside_adam() -> Mapping[str, float]:
    """Starts 1,000 weights at 1 and feeds them noise of three sizes, which pushes nowhere on average; takes means."""
    found = {}
    gradients = noise(1000)
    for kind in (Adam, AdamW):
        for scale in (0.01, 1, 100):
            weights = torch.ones(1000, dtype=torch.float64, requires_grad=True)
            optimizer = kind([weights], lr=1e-3, weight_decay=0.1)
            for gradient in gradients:
                weights.grad = scale * gradient
                optimizer.step()
            found[f"{kind.__name__}, g {scale}"] = weights.mean().item()
    return found


@claim(
    "decay-by-dimension-and-by-name",
    "In Lab 02's GPT p.dim() >= 2 finds {expected[matrices]} matrices and {expected[norms]} norms; a filter of the "
    "names bias, LayerNorm.weight and embedding exempts no norm and {expected[exempt by name]} numbers in the two "
    "embeddings, the output layer among them.",
    expected={"matrices": 18, "norms": 9, "norms by name": 0, "exempt by name": 20_480, "head exempt by name": 1},
    unit="",
)
def decay_groups() -> Mapping[str, float]:
    """Sorts the model's parameters both ways, and looks whether the output layer's matrix is among the exempt."""
    model = make_model()
    named = dict(model.named_parameters())
    exempt = [p for name, p in named.items() if any(part in name for part in ("bias", "LayerNorm.weight", "embedding"))]
    return {
        "matrices": sum(p.dim() >= 2 for p in named.values()),
        "norms": sum(p.dim() < 2 for p in named.values()),
        "norms by name": sum(p.dim() < 2 for p in exempt),
        "exempt by name": sum(p.numel() for p in exempt),
        "head exempt by name": sum(p is model.head.weight for p in exempt),
    }


# ------------------------------------------------------------------------------------------------------------- state
def _state_bytes(make: Make, matrices_only: bool = False) -> float:
    """Bytes of state a parameter after one step of Lab 02's GPT, step counts left out."""
    model = make_model()
    parameters: list[Tensor] = [p for p in model.parameters() if p.dim() == 2 or not matrices_only]
    optimizer = make(parameters)
    token_loss(model, *make_batch(2)).backward()
    optimizer.step()
    kept = [
        value
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, Tensor) and name != "step"
    ]
    return storage_bytes(kept) / sum(p.numel() for p in parameters)


@claim(
    "state-by-optimizer",
    "fp32 state of Lab 02's GPT: SGD 0, momentum 4, RMSprop 4, Adagrad 4, AdamW {expected[AdamW]}, AMSGrad "
    "{expected[AMSGrad]}, Adafactor {expected[Adafactor]}, Muon 4 (of its matrices) bytes a parameter.",
    expected={
        "SGD": 0,
        "momentum": 4,
        "RMSprop": 4,
        "Adagrad": 4,
        "AdamW": 8,
        "AMSGrad": 12,
        "Adafactor": 0.05,
        "Muon": 4,
    },
    tolerance=0.005,
    unit="B a parameter",
)
def state_by_optimizer() -> Mapping[str, float]:
    """Takes a step with each optimizer of torch.optim and counts the bytes of its state, step counts left out.

    The tolerance is Adafactor's: its rows and columns depend on the shapes.
    """
    return {
        "SGD": _state_bytes(lambda p: SGD(p, lr=1e-2)),
        "momentum": _state_bytes(lambda p: SGD(p, lr=1e-2, momentum=0.9)),
        "RMSprop": _state_bytes(lambda p: RMSprop(p)),
        "Adagrad": _state_bytes(lambda p: Adagrad(p)),
        "AdamW": _state_bytes(lambda p: AdamW(p)),
        "AMSGrad": _state_bytes(lambda p: AdamW(p, amsgrad=True)),
        "Adafactor": _state_bytes(lambda p: Adafactor(p)),
        "Muon": _state_bytes(lambda p: Muon(p), matrices_only=True),
    }


class _WatchStep(TorchDispatchMode):
    """Counts operations on tensors, and the most bytes that live in tensors which those operations made.

    Reading a number, and the profiler's marks, are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.live, self.peak = 0, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(part in str(func) for part in ("profiler", "_local_scalar_dense", "lift_fresh")):
            return result
        self.calls += 1
        given = {value.data_ptr() for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)}
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.data_ptr() not in given:  # in-place operations return what they got
                self.live += value.nbytes
                weakref.finalize(value, self._freed, value.nbytes)
        self.peak = max(self.peak, self.live)
        return result

    def _freed(self, size: int) -> None:
        self.live -= size


def _second_step(**options: bool) -> _WatchStep:
    """Watches the second step of AdamW on Lab 02's GPT, on the CPU."""
    model = make_model()
    optimizer = AdamW(model.parameters(), **options)  # type: ignore[arg-type]
    token_loss(model, *make_batch(2)).backward()
    optimizer.step()
    with _WatchStep() as watch:
        optimizer.step()
    return watch


@claim(
    "adamw-calls-a-step",
    "A step of AdamW on Lab 02's 27 tensors is {expected[loop]} operations in a loop, {expected[foreach]} with "
    "foreach=True and {expected[fused]} with fused=True.",
    expected={"loop": 9 * 27, "foreach": 9, "fused": 2},
    unit="operations",
)
def adamw_calls() -> Mapping[str, float]:
    """Counts what the second step dispatches on the CPU."""
    return {
        "loop": _second_step(foreach=False).calls,
        "foreach": _second_step(foreach=True).calls,
        "fused": _second_step(fused=True).calls,
    }


@claim(
    "adamw-temporaries-of-a-step",
    "Meanwhile it holds temporaries: three of the largest tensor in the loop, 4 bytes a parameter with foreach=True, "
    "none with fused=True.",
    expected={"loop": 3 * 4 * 512 * 128, "foreach": 4 * 808_064, "fused": 0},
    unit="B",
)
def adamw_temporaries() -> Mapping[str, float]:
    """Adds up, operation by operation, the bytes of new tensors that are alive, and takes the most.

    The third is the tensor before's: its name lives until the next one takes it.
    """
    return {
        "loop": _second_step(foreach=False).peak,
        "foreach": _second_step(foreach=True).peak,
        "fused": _second_step(fused=True).peak,
    }


@claim(
    "muon-evens-out-singular-values",
    "Muon's update of a matrix whose gradient has singular values from 1 to 10 has them between 0.65 and 1.25.",
    expected={"smallest": 0.95, "largest": 0.95},
    tolerance=0.3,
    unit="",
    source="[Muon](https://kellerjordan.github.io/posts/muon/)",
)
def muon_singular_values() -> Mapping[str, float]:
    """Gives torch.optim.Muon a 64 x 64 gradient with those singular values and takes those of the step at rate 1.

    The tolerance is the claim: its five iterations in bf16 are meant to be rough.
    """
    torch.manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(64, 64))
    right, _ = torch.linalg.qr(torch.randn(64, 64))
    weights = torch.zeros(64, 64, requires_grad=True)
    optimizer = Muon([weights], lr=1.0, weight_decay=0.0)
    weights.grad = left @ torch.diag(torch.linspace(1, 10, 64)) @ right
    optimizer.step()
    values = torch.linalg.svdvals(weights.detach())
    return {"smallest": values.min().item(), "largest": values.max().item()}


# ------------------------------------------------------------------------------------- gradients that are not there
@claim(
    "none-is-skipped-zero-is-not",
    "A weight without gradient stays; one with a gradient of 0 is moved by momentum's and Adam's memory, and decayed.",
    expected={"momentum, None": 0, "momentum, zero": 1, "AdamW, None": 0, "AdamW, zero": 1, "AdamW new, zero": 1},
    unit="weights of 1 moved",
)
def none_and_zero() -> Mapping[str, float]:
    """Makes an update with gradient 1, then one with None or 0; "new" has only the one with 0, so only decay acts."""

    def moved(make: Make, gradient: Tensor | None, first: bool = True) -> int:
        weights = torch.ones(1, requires_grad=True)
        optimizer = make([weights])
        if first:
            weights.grad = torch.ones(1)
            optimizer.step()
        before = weights.detach().clone()
        weights.grad = gradient
        optimizer.step()
        return int((weights != before).sum())

    def momentum(p: list[Tensor]) -> Optimizer:
        return SGD(p, lr=0.1, momentum=0.9)

    def adamw(p: list[Tensor]) -> Optimizer:
        return AdamW(p, lr=0.1)

    return {
        "momentum, None": moved(momentum, None),
        "momentum, zero": moved(momentum, torch.zeros(1)),
        "AdamW, None": moved(adamw, None),
        "AdamW, zero": moved(adamw, torch.zeros(1)),
        "AdamW new, zero": moved(adamw, torch.zeros(1), first=False),
    }


@claim(
    "embedding-rows-that-move",
    "A batch that uses one of ten rows of an embedding, after one that used two others, moves 1 row with SGD, "
    "{expected[AdamW, no decay]} with AdamW without decay, all {expected[AdamW]} with decay, and 1 with SparseAdam.",
    expected={"SGD": 1, "AdamW, no decay": 3, "AdamW": 10, "SparseAdam": 1},
    unit="rows",
)
def embedding_rows() -> Mapping[str, float]:
    """Looks up rows 1 and 2, updates, looks up row 3, updates, and counts the rows that the second update changed."""

    def moved(make: Make, sparse: bool = False) -> int:
        torch.manual_seed(0)
        table = nn.Embedding(10, 4, sparse=sparse)
        optimizer = make(list(table.parameters()))
        for rows in ((1, 2), (3,)):
            before = table.weight.detach().clone()
            optimizer.zero_grad()
            table(torch.tensor(rows)).square().sum().backward()
            optimizer.step()
        return int((table.weight != before).any(dim=1).sum())

    return {
        "SGD": moved(lambda p: SGD(p, lr=0.1)),
        "AdamW, no decay": moved(lambda p: AdamW(p, lr=0.1, weight_decay=0)),
        "AdamW": moved(lambda p: AdamW(p, lr=0.1)),
        "SparseAdam": moved(lambda p: SparseAdam(p, lr=0.1), sparse=True),
    }


# -------------------------------------------------------------------------------------------------------- checkpoint
@claim(
    "optimizer-state-goes-by-position",
    "load_state_dict gives state to parameters by their order, not by name: with two of a shape swapped it says "
    "nothing, and each gets the other's averages. It also puts the saved rate over the one you asked for.",
    expected={"average saved of a": 0.1, "average loaded into a": 10, "rate asked for": 0.5, "rate loaded": 0.1},
    tolerance=1e-6,
    unit="",
)
def state_by_position() -> Mapping[str, float]:
    """Steps once with gradients 1 and 100, saves, and loads into an optimizer that got the parameters swapped."""
    a, b = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    first = AdamW([a, b], lr=0.1)
    a.grad, b.grad = torch.ones(3), 100 * torch.ones(3)
    first.step()
    second = AdamW([b, a], lr=0.5)
    asked = second.param_groups[0]["lr"]
    second.load_state_dict(first.state_dict())
    return {
        "average saved of a": first.state[a]["exp_avg"][0].item(),
        "average loaded into a": second.state[a]["exp_avg"][0].item(),
        "rate asked for": asked,
        "rate loaded": second.param_groups[0]["lr"],
    }


@claim(
    "first-step-after-lost-state",
    "Without its saved averages, Adam's first step after a restart is {expected} times as long as its usual step on "
    "noise.",
    expected=4.4,
    tolerance=0.1,
    unit="times the usual step",
)
def lost_state() -> float:
    """Feeds 10,000 weights 300 batches of noise; divides the rms of a new Adam's first move by that of the old."""
    gradients = noise(300, size=10_000)
    usual = rms(moves(lambda p: Adam(p, lr=1.0), gradients)[-1])
    return rms(moves(lambda p: Adam(p, lr=1.0), gradients[-1:])[0]) / usual


# -------------------------------------------------------------------------------------------------------- which, when
@claim(
    "sgd-against-adamw",
    "On counting text SGD with its own best rate, 1.0, ends 0.03 nats behind AdamW at 0.03; at 0.03 it is "
    "{expected[SGD, 0.03]:.1f} behind.",
    expected={"AdamW, 0.03": 0.07, "SGD, 1.0": 0.10, "SGD, 0.03": 1.84},
    tolerance=0.05,
    unit="nats a token above the floor",
)
def sgd_against_adamw() -> Mapping[str, float]:
    """Trains a tiny GPT for 100 steps with a cosine to 0, in float64, and scores it on new text."""

    def cosine(peak: float) -> Callable[[int], float]:
        return lambda step: peak * 0.5 * (1 + math.cos(math.pi * step / STEPS))

    return {
        "AdamW, 0.03": excess(cosine(0.03)),
        "SGD, 1.0": excess(cosine(1.0), make=lambda p: SGD(p)),
        "SGD, 0.03": excess(cosine(0.03), make=lambda p: SGD(p)),
    }
