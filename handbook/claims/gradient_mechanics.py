"""Claims of handbook/gradient-mechanics.md."""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, AdamW
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import gradient_of
from rankzero.claims.toolkit.lab_model import CPU, make_batch, make_model, small_gpt, token_loss
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.profiling.memory import PhaseMemory

NOISE = "[McCandlish et al.](https://arxiv.org/abs/1812.06162), appendix A"


# ------------------------------------------------------------------------------------------------------ None and zero
@claim(
    "none-is-not-zero",
    "AdamW leaves a parameter without a gradient as it is, and shrinks one whose gradient is zero by its weight decay; "
    "after a step that moved it, momentum moves it too.",
    expected={"None": 1, "zero": 0.999, "zero, after a step": 0.9245},
    tolerance=2e-4,
    unit="of the weight is left",
)
def none_and_zero() -> Mapping[str, float]:
    """Steps AdamW, rate 0.1 and weight decay 0.01, on a weight of 1 in three ways and reads the weight.

    In the third, a gradient of 1 comes before the zero: the weight is 0.9 after it, and what the zero leaves of that is
    given.
    """

    def left(*gradients: float | None) -> float:
        weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimizer = AdamW([weight], lr=0.1, weight_decay=0.01)
        values = []
        for gradient in gradients:
            weight.grad = None if gradient is None else torch.full_like(weight, gradient)
            optimizer.step()
            values.append(weight.item())
        return values[-1] / (values[-2] if len(values) > 1 else 1.0)

    return {"None": left(None), "zero": left(0.0), "zero, after a step": left(1.0, 0.0)}


# ------------------------------------------------------------------------------------------------------- accumulation
@claim(
    "accumulation-costs-no-flops",
    "12 sequences in one piece, in 3 micro-batches or in 12 take the same number of FLOPs.",
    expected={"3 micro-batches": 0, "12 micro-batches": 0},
    unit="FLOPs more",
)
def no_flops() -> Mapping[str, float]:
    """Counts the matrix products of forward and backward of Lab 02's GPT, attention unfused, each way."""
    model, (x, y) = make_model(), make_batch()

    def flops(parts: int) -> int:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            for micro_x, micro_y in zip(x.chunk(parts), y.chunk(parts), strict=True):
                token_loss(model, micro_x, micro_y).backward()
        return counter.get_total_flops()

    return {f"{parts} micro-batches": flops(parts) - flops(1) for parts in (3, 12)}


@claim(
    "accumulation-in-sixteen-bits",
    "64 micro-batches added up in bf16 are off by {expected[bf16]} % of the gradient's length, in fp16 by "
    "{expected[fp16]} %, in fp32 by less than a thousandth of that.",
    expected={"bf16": 0.9, "fp16": 0.1, "fp32": 0},
    tolerance=0.2,
    unit="% of the gradient's length",
)
def sixteen_bits() -> Charted:
    """Adds 2 to 64 micro-batch gradients of a float64 GPT, in float64 and each dtype; the length of the difference.

    Only the sum is in the narrow dtype: the gradients are the same. The tolerance covers another build's rounding.
    """
    model = small_gpt()
    gradients = []
    for tokens in torch.randint(24, (64, 2, 9)):
        model.zero_grad()
        token_loss(model, tokens[:, :-1], tokens[:, 1:]).backward()
        gradients.append(gradient_of(model))

    def off(dtype: torch.dtype, k: int) -> float:
        right = torch.stack(gradients[:k]).mean(0)
        total = torch.zeros_like(right, dtype=dtype)
        for gradient in gradients[:k]:
            total += (gradient / k).to(dtype)
        return 100 * ((total.double() - right).norm() / right.norm()).item()

    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    errors = {name: {k: off(dtype, k) for k in (2, 4, 8, 16, 32, 64)} for name, dtype in dtypes.items()}
    lines: dict[str, list[Point]] = {
        name: [(k, error, error, error) for k, error in by_k.items()] for name, by_k in errors.items()
    }
    axes = "micro-batches", "error, % of the gradient's length"
    chart = Chart("Error of a sum of micro-batch gradients", *axes, lines, "xy")
    return Charted({name: by_k[64] for name, by_k in errors.items()}, chart)


@claim(
    "fp32-accumulation-20-bytes",
    "Mixed precision that accumulates its bf16 gradients in fp32 takes 20 bytes per parameter: 2 + 2 + "
    "{expected[accumulators]} + {expected[optimizer]}.",
    expected={"weights": 2, "gradients": 2, "accumulators": 4, "optimizer": 12},
    unit="B per parameter",
    source="[Ultra-Scale Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook)",
)
def twenty_bytes() -> Mapping[str, float]:
    """Trains Lab 02's GPT so for one update of two micro-batches and counts what is held before the update's end.

    AdamW's step counts, 4 bytes per tensor, are left out.
    """
    model, (x, y) = make_model().bfloat16(), make_batch()
    parameters = list(model.parameters())
    masters = [nn.Parameter(p.detach().float()) for p in parameters]
    optimizer = AdamW(masters)
    for micro_x, micro_y in zip(x.chunk(2), y.chunk(2), strict=True):
        (token_loss(model, micro_x, micro_y) / 2).backward()
        for parameter, master in zip(parameters, masters, strict=True):
            assert parameter.grad is not None
            master.grad = parameter.grad.float() if master.grad is None else master.grad + parameter.grad
    optimizer.step()
    averages: list[Tensor | None] = [
        state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")
    ]
    held: dict[str, list[Tensor | None]] = {
        "weights": [*parameters],
        "gradients": [p.grad for p in parameters],
        "accumulators": [master.grad for master in masters],
        "optimizer": [*masters, *averages],
    }
    count = sum(p.numel() for p in parameters)
    return {name: sum(t.numel() * t.element_size() for t in ts if t is not None) / count for name, ts in held.items()}


@claim(
    "retained-graphs-pile-up",
    "With retain_graph=True and the losses in a list, three micro-batches hold three times the activations of one.",
    expected={"freed": 1, "retained": 3},
    tolerance=0.01,
    unit="micro-batches' activations after the third forward",
)
def retained_graphs() -> Mapping[str, float]:
    """Runs three micro-batches of Lab 02's GPT both ways and counts what autograd keeps at the third loss."""
    model, (x, y) = make_model(), make_batch()

    def held(retain: bool) -> list[int]:
        losses = []
        with PhaseMemory(model, SGD(model.parameters()), CPU) as memory:
            for micro_x, micro_y in zip(x.chunk(3), y.chunk(3), strict=True):
                losses.append(token_loss(model, micro_x, micro_y))
                memory.record("forward")
                losses[-1].backward(retain_graph=retain)
        return [row.activations for row in memory.rows]

    one = held(False)[0]
    return {"freed": held(False)[2] / one, "retained": held(True)[2] / one}


# --------------------------------------------------------------------------------------------- what breaks the equality
@claim(
    "batchnorm-in-eval-mode-accumulates",
    "With BatchNorm the sum over four micro-batches is a different gradient; in evaluation mode, where it uses its "
    "running averages, it is the same.",
    expected={"training mode equal": 0, "evaluation mode equal": 1},
    unit="",
)
def batchnorm_modes() -> Mapping[str, float]:
    """Compares both gradients of a small network with BatchNorm in float64, in either mode; equal is within 1e-12."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).double()
    x = torch.randn(32, 16, dtype=torch.float64)

    def gradient(parts: int) -> Tensor:
        net.zero_grad()
        for part in x.chunk(parts):
            ((net(part) - part[:, :1]).square().mean() / parts).backward()
        return gradient_of(net)

    found = {}
    for mode in ("training", "evaluation"):
        net.train(mode == "training")
        found[f"{mode} mode equal"] = int(((gradient(4) - gradient(1)).norm() < 1e-12 * gradient(1).norm()).item())
    return found


@claim(
    "dropout-masks-differ-by-micro-batch",
    "With dropout 0.1 and the same seed, 4 micro-batches give a different gradient than the whole batch, because "
    "other masks are drawn. With one mask they would be equal, as in evaluation mode.",
    expected={"training mode equal": 0, "evaluation mode equal": 1},
    unit="",
)
def dropout_masks() -> Mapping[str, float]:
    """Compares both gradients of a small float64 GPT with dropout, seeded again before each; equal is within 1e-12."""
    x, y = torch.randint(24, (2, 8, 8), generator=torch.Generator().manual_seed(1))
    model = small_gpt(dropout=0.1)

    def gradient(parts: int) -> Tensor:
        torch.manual_seed(0)
        model.zero_grad()
        for micro_x, micro_y in zip(x.chunk(parts), y.chunk(parts), strict=True):
            (token_loss(model, micro_x, micro_y) / parts).backward()
        return gradient_of(model)

    found = {}
    for mode in ("training", "evaluation"):
        model.train(mode == "training")
        found[f"{mode} mode equal"] = int(((gradient(4) - gradient(1)).norm() < 1e-12 * gradient(1).norm()).item())
    return found


@claim(
    "mean-of-means-weighs-short-texts",
    "Two micro-batches of 60 and 4 scored tokens, each averaged on its own: a token of the second counts "
    "{expected[times]} times one of the first, and the gradient is off by more than half its length.",
    expected={"times": 15, "off by more than half": 1},
    tolerance=1e-9,
    unit="",
)
def mean_of_means() -> Mapping[str, float]:
    """Compares both gradients of a small float64 GPT, and reads the weight of a token from the gradients of its logits.

    The gradients of a scored token's logits are its weight times (softmax - target), so their sizes give the weight.
    """
    model = small_gpt()
    x, y = torch.randint(24, (2, 16, 8), generator=torch.Generator().manual_seed(2))
    y[0, :4] = -100  # 60 scored in the first half
    y[8, 4:] = y[9:] = -100  # 4 in the second

    def gradient(reduction: str) -> tuple[Tensor, list[float]]:
        model.zero_grad()
        weights, divisor = [], 2 if reduction == "mean" else int((y != -100).sum())
        for micro_x, micro_y in ((x[:8], y[:8]), (x[8:], y[8:])):
            logits = model(micro_x)
            logits.retain_grad()
            (F.cross_entropy(logits.flatten(0, 1), micro_y.flatten(), reduction=reduction) / divisor).backward()
            one = (micro_y != -100).nonzero()[0].tolist()
            error = logits.detach()[*one].softmax(-1) - F.one_hot(micro_y[*one], 24)
            weights.append((logits.grad[*one].norm() / error.norm()).item() if logits.grad is not None else 0.0)
        return gradient_of(model), weights

    (wrong, weights), (right, _) = gradient("mean"), gradient("sum")
    return {
        "times": weights[1] / weights[0],
        "off by more than half": int(((wrong - right).norm() > 0.5 * right.norm()).item()),
    }


# ---------------------------------------------------------------------------------------------------------------- noise
@claim(
    "gradient-norm-shrinks-with-the-batch",
    "In a trained model the squared norm of a batch's gradient falls with the batch: |G|² + tr(Σ)/B. One sequence's "
    "gradient is more than 3 times as long as that of 64.",
    expected=True,
    unit="",
)
def norm_and_batch() -> bool:
    """Trains Lab 02's GPT for 60 steps; compares the mean norm of 64 sequences' gradients with that of their mean."""
    model = make_model()
    text = load_corpus("embedded").train
    optimizer = AdamW(model.parameters(), lr=1e-3)
    for step in range(60):
        optimizer.zero_grad()
        token_loss(model, *random_batch(text, step=step, seed=0, batch_size=4, block_size=32)).backward()
        optimizer.step()
    x, y = random_batch(text, step=1000, seed=0, batch_size=64, block_size=32)
    total, norms = None, []
    for sequence, targets in zip(x.split(1), y.split(1), strict=True):
        model.zero_grad()
        token_loss(model, sequence, targets).backward()
        gradient = gradient_of(model)
        total = gradient if total is None else total + gradient
        norms.append(gradient.norm().item())
    assert total is not None
    return sum(norms) / 64 > 3 * (total.norm().item() / 64)


def noisy_gradients(draws: int, k: int, size: int) -> Tensor:
    """[draws, k, 50] gradients of micro-batches of `size` sequences around a known G, |G|² = 9, with tr(Σ) = 200."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.zeros(50, dtype=torch.float64)
    mean[:9] = 1.0
    spread = torch.linspace(1, 7, 50, dtype=torch.float64)
    spread *= math.sqrt(200 / spread.square().sum().item())
    return mean + torch.randn(draws, k, 50, generator=generator, dtype=torch.float64) * spread / math.sqrt(size)


@claim(
    "noise-scale-estimator-is-unbiased",
    "Over 20,000 draws of four micro-batches, the estimates of |G|² = {expected[|G|²]} and tr(Σ) = {expected[tr(Σ)]} "
    "are right on average; the squared norm of the mean is not.",
    expected={"|G|²": 9, "tr(Σ)": 200, "squared norm of the mean": 9 + 200 / 16},
    tolerance=0.5,
    unit="",
    source=NOISE,
)
def unbiased() -> Mapping[str, float]:
    """Draws gradients of 4 micro-batches of 4 sequences around a known mean, and averages the estimates.

    The draws are seeded; the tolerance is over twice the largest standard error, 0.2 for tr(Σ).
    """
    gradients, small, big = noisy_gradients(20_000, 4, 4), 4, 16
    norm_small = gradients.square().sum(-1).mean(-1)
    norm_big = gradients.mean(1).square().sum(-1)
    return {
        "|G|²": ((big * norm_big - small * norm_small) / (big - small)).mean().item(),
        "tr(Σ)": ((norm_small - norm_big) / (1 / small - 1 / big)).mean().item(),
        "squared norm of the mean": norm_big.mean().item(),
    }


@claim(
    "one-noise-estimate-is-often-negative",
    "From two micro-batches of 4 sequences, where |G|² = 9 and tr(Σ) = 200, one estimate of |G|² in ten or more is "
    "negative.",
    expected=True,
    unit="",
)
def negative_estimates() -> bool:
    """Counts the negative ones among 20,000 estimates from two micro-batches of 4 sequences each."""
    gradients, small, big = noisy_gradients(20_000, 2, 4), 4, 8
    norm_small, norm_big = gradients.square().sum(-1).mean(-1), gradients.mean(1).square().sum(-1)
    return ((big * norm_big - small * norm_small < 0).double().mean() > 0.1).item() is True


# ---------------------------------------------------------------------------------------------------------------- hooks
@claim(
    "hooks-fire-once-a-backward",
    "A post-accumulate hook on each of Lab 02's 27 parameters fires 27 times per backward: {expected[an update]} times "
    "in an update of three micro-batches, of which the last 27 see the whole gradient.",
    expected={"a backward": 27, "an update": 81, "see the whole gradient": 27},
    unit="calls",
)
def hooks() -> Mapping[str, float]:
    """Registers the hooks, runs three micro-batches, and compares what each call saw with the gradient at the end."""
    model, (x, y) = make_model(), make_batch()
    calls: list[tuple[int, nn.Parameter, float]] = []

    def watch(part: list[int]) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            assert isinstance(parameter, nn.Parameter)
            assert parameter.grad is not None
            calls.append((part[0], parameter, parameter.grad.double().norm().item()))

        return hook

    part = [0]
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(watch(part))
    for micro_x, micro_y in zip(x.chunk(3), y.chunk(3), strict=True):
        (token_loss(model, micro_x, micro_y) / 3).backward()
        part[0] += 1
    final = {p: p.grad.double().norm().item() for p in model.parameters() if p.grad is not None}
    return {
        "a backward": sum(number == 0 for number, _, _ in calls),
        "an update": len(calls),
        "see the whole gradient": sum(norm == final[parameter] for _, parameter, norm in calls),
    }


@claim(
    "hooks-run-from-the-last-layer",
    "The hooks of Lab 02's GPT fire from the last layer to the first. The tied embedding, used at both ends, is last.",
    expected={"blocks in order": 1, "tied embedding's place from the end": 0},
    unit="",
)
def hook_order() -> Mapping[str, float]:
    """Notes the names of the parameters as their gradients become ready in one backward."""
    model, order = make_model(), list[str]()
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    token_loss(model, *make_batch()).backward()
    blocks = [int(name.split(".")[1]) for name in order if name.startswith("blocks.")]
    return {
        "blocks in order": int(blocks == sorted(blocks, reverse=True)),
        "tied embedding's place from the end": len(order) - 1 - order.index("token_embedding.weight"),
    }
