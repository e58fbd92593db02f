"""Claims of handbook/training-loop.md."""

import io
import itertools
import math
from collections.abc import Mapping

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, AdamW
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import CPU, bytes_by_phase, make_batch, make_model, token_loss
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory
from rankzero.ledger.ledger import Kind
from rankzero.ledger.measure import measure, storage_bytes
from rankzero.ledger.recipes import find_optimizer, find_recipe

ZERO = "[ZeRO](https://arxiv.org/abs/1910.02054), section 3.1"
PALM = "[PaLM](https://arxiv.org/abs/2204.02311), appendix B"


# --------------------------------------------------------------------------------------------------------- the order
def _fit_one_batch(order: tuple[str, ...], steps: int) -> list[float]:
    """Losses of a small float64 GPT on one batch: before the first of `steps` rounds of the calls, and after each."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(24, block_size=8, n_layer=1, n_head=2, hidden_dim=32)).double()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randint(24, (2, 4, 8))
    losses = []
    for _ in range(steps):
        loss = token_loss(model, x, y)
        losses.append(loss.item())
        for call in order:
            {"zero": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[call]()
    return [*losses, token_loss(model, x, y).item()]


@claim(
    "three-silent-orders",
    "Of the six orders of clear, backward and update after the forward pass, two train, one raises an error and three "
    "leave the loss where it was.",
    expected={"train": 2, "raise": 1, "change nothing": 3},
    unit="orders",
)
def six_orders() -> Mapping[str, float]:
    """Fits one batch for five steps with each order and looks at the loss: lower, equal in every bit, or an error."""

    def outcome(order: tuple[str, ...]) -> str:
        try:
            before, *_, after = _fit_one_batch(order, steps=5)
        except RuntimeError:
            return "raise"
        return "train" if after < before else "change nothing" if after == before else "climb"

    outcomes = [outcome(order) for order in itertools.permutations(("zero", "backward", "step"))]
    return {which: outcomes.count(which) for which in ("train", "raise", "change nothing")}


@claim(
    "never-clearing-climbs",
    "A loop that never clears its gradients ends above the loss of the untrained model.",
    expected=True,
    unit="",
)
def never_clearing() -> Charted:
    """Fits one batch for 60 steps of backward and update alone, and compares the last loss with the first.

    The chart has the losses of this loop, of the right order and of two orders that train nothing, every 3 steps.
    """
    orders = {
        "right order": ("zero", "backward", "step"),
        "clear too late": ("backward", "zero", "step"),
        "update first": ("zero", "step", "backward"),
        "never clear": ("backward", "step"),
    }
    losses = {name: _fit_one_batch(order, steps=60) for name, order in orders.items()}
    lines = {
        name: [(step, line[step], line[step], line[step]) for step in range(0, 61, 3)] for name, line in losses.items()
    }
    chart = Chart("one batch, four orders of the calls", "step", "loss, nats per token", lines)
    return Charted(losses["never clear"][-1] > losses["never clear"][0], chart)


@claim(
    "losses-of-counting-tables",
    "On Lab 02's validation text, a table of character frequencies has a loss of {expected[one character]} nats per "
    "token, and a table of what follows each character {expected[pairs]}.",
    expected={"one character": 3.28, "pairs": 2.6},
    tolerance=0.05,
    unit="nats per token",
)
def counting_tables() -> Mapping[str, float]:
    """Counts characters and pairs in the training text, adds 1 to each count, and scores the validation text.

    The tolerance leaves room for the text, which differs a little between Python versions.
    """
    corpus = load_corpus("embedded")
    size, train, val = corpus.vocab_size, corpus.train, corpus.val
    singles = torch.bincount(train, minlength=size) + 1.0
    pairs = torch.bincount(train[:-1] * size + train[1:], minlength=size**2).view(size, size) + 1.0
    return {
        "one character": -(singles / singles.sum()).log()[val].mean().item(),
        "pairs": -(pairs / pairs.sum(1, keepdim=True)).log()[val[:-1], val[1:]].mean().item(),
    }


# ------------------------------------------------------------------------------------------------------ what is held
@claim(
    "adamw-state-8-bytes",
    "AdamW's two averages take {expected} bytes per parameter in fp32.",
    expected=8,
    unit="B per parameter",
)
def adamw_state() -> float:
    """Takes one step on Lab 02's GPT and counts the bytes of exp_avg and exp_avg_sq over its parameters."""
    model = make_model()
    optimizer = AdamW(model.parameters())
    model(torch.zeros(1, 8, dtype=torch.int64)).sum().backward()
    optimizer.step()
    averages = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    return storage_bytes(averages) / model.parameter_count()


@claim(
    "adamw-step-count-4-bytes",
    "AdamW's step count takes {expected} bytes per tensor.",
    expected=4,
    unit="B per tensor",
)
def adamw_step_count() -> float:
    """Takes one step on Lab 02's GPT and counts the bytes of `step` over the model's 27 parameter tensors."""
    model = make_model()
    optimizer = AdamW(model.parameters())
    token_loss(model, *make_batch()).backward()
    optimizer.step()
    return storage_bytes(state["step"] for state in optimizer.state.values()) / len(list(model.parameters()))


@claim(
    "adamw-state-appears-at-the-first-update",
    "Before the first update AdamW holds nothing.",
    expected={"forward": 0, "backward": 0, "update": 8 * 808_064 + 4 * 27},
    unit="B",
)
def adamw_state_appears() -> Mapping[str, float]:
    """Runs the first step of Lab 02's GPT and counts the optimizer's bytes after each phase."""
    return bytes_by_phase()["optimizer"]


@claim(
    "fp32-adamw-16-bytes",
    "fp32 training with AdamW takes {expected} bytes per parameter before the first activation: 4 of weights, 4 of "
    "gradients, 8 of averages.",
    expected=16,
    unit="B per parameter",
)
def fp32_adamw() -> float:
    """Runs a step of Lab 02's GPT and adds up weights, gradients and optimizer state, the step counts left out."""
    model = make_model()
    held = bytes_by_phase()
    step_counts = 4 * len(list(model.parameters()))
    total = sum(held[role]["update"] for role in ("weights", "gradients", "optimizer")) - step_counts
    return total / model.parameter_count()


@claim(
    "mixed-adamw-16-bytes",
    "16-bit weights and gradients with an fp32 master copy and two fp32 averages take 2 + 2 + "
    "{expected[optimizer state]} = 16 bytes per parameter too.",
    expected={"weights": 2, "gradients": 2, "optimizer state": 12},
    unit="B per parameter",
    source=ZERO,
)
def mixed_adamw() -> Mapping[str, float]:
    """Trains Lab 02's GPT in bf16 with an fp32 master copy for one step and counts, the step counts left out."""
    model = make_model()
    ledger = measure(model.config, find_recipe("mixed"), find_optimizer("adamw"), batch_size=1, seq_len=8, peaks=False)
    step_counts = 4 * len(list(model.parameters()))
    totals = {
        "weights": ledger.total(Kind.WEIGHTS),
        "gradients": ledger.total(Kind.GRADIENTS),
        "optimizer state": ledger.total(Kind.OPTIMIZER) - step_counts,
    }
    return {name: total / model.parameter_count() for name, total in totals.items()}


@claim(
    "between-steps-12-bytes",
    "fp32 AdamW keeps {expected} bytes per parameter from step to step, and a checkpoint must hold them.",
    expected=12,
    unit="B per parameter",
)
def between_steps() -> float:
    """Takes a step on Lab 02's GPT, clears the gradients, and counts all that the model and AdamW still hold.

    The step counts, 4 bytes per tensor, are left out.
    """
    model = make_model()
    optimizer = AdamW(model.parameters())
    token_loss(model, *make_batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with PhaseMemory(model, optimizer, CPU) as memory:
        memory.record("between")
    return (memory.rows[0].total - 4 * len(list(model.parameters()))) / model.parameter_count()


# ------------------------------------------------------------------------------------------------------ accumulation
def _gradient(parts: int, divide_by: int) -> torch.Tensor:
    """A small float64 GPT's gradient over a batch of 8 sequences, backward run on each of `parts` parts of it."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(96, block_size=16, n_layer=2, n_head=2, hidden_dim=32)).double()
    batch = torch.randint(96, (8, 17))
    for part in batch.chunk(parts):
        (token_loss(model, part[:, :-1], part[:, 1:]) / divide_by).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@claim(
    "four-parts-one-gradient",
    "The gradients of four equal parts, each loss divided by 4, add up to the gradient of the whole batch.",
    expected=0,
    tolerance=1e-15,
    unit="largest difference",
)
def four_parts() -> float:
    """Computes both in float64 for a small GPT and takes the largest difference between two numbers.

    The tolerance is rounding: every gradient is below 1, and float64 has 16 digits.
    """
    return (_gradient(parts=4, divide_by=4) - _gradient(parts=1, divide_by=1)).abs().max().item()


@claim(
    "undivided-parts-times-4",
    "If nobody divides the loss, four parts make gradients 4 times those of the mean; SGD's step grows as much, "
    "AdamW's does not.",
    expected={"gradient": 4, "SGD's step": 4, "AdamW's step": 1},
    tolerance=0.01,
    unit="times",
)
def undivided_parts() -> Mapping[str, float]:
    """Divides lengths: of the gradient, and of the first step that each optimizer takes along it.

    The tolerance leaves room for AdamW's epsilon, which matters where a gradient is tiny.
    """
    gradients = {"whole": _gradient(parts=1, divide_by=1), "undivided": _gradient(parts=4, divide_by=1)}

    def step_length(optimizer_class: type[SGD] | type[AdamW], gradient: torch.Tensor) -> float:
        weights = torch.zeros_like(gradient, requires_grad=True)
        weights.grad = gradient.clone()
        optimizer_class([weights], lr=1e-3).step()
        return weights.detach().norm().item()

    ratio = {"gradient": (gradients["undivided"].norm() / gradients["whole"].norm()).item()}
    for name, optimizer_class in (("SGD's step", SGD), ("AdamW's step", AdamW)):
        long, short = (step_length(optimizer_class, gradients[which]) for which in ("undivided", "whole"))
        ratio[name] = long / short
    return ratio


# ------------------------------------------------------------------------------------------------------------ resume
def _losses(steps: int, stop_at: int | None, keep_averages: bool = True) -> list[float]:
    """Losses of a small GPT with dropout; at `stop_at` it is saved, thrown away, and loaded into a new one."""
    torch.manual_seed(0)
    model, batches = _new_model(), torch.randint(96, (steps, 2, 4, 16))
    optimizer = AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step, (x, y) in enumerate(batches):
        if step == stop_at:
            file = io.BytesIO()
            torch.save([model.state_dict(), optimizer.state_dict(), torch.get_rng_state()], file)
            file.seek(0)
            weights, averages, random_state = torch.load(file, weights_only=True)
            model = _new_model()
            model.load_state_dict(weights)
            optimizer = AdamW(model.parameters(), lr=1e-2)
            if keep_averages:
                optimizer.load_state_dict(averages)
            torch.set_rng_state(random_state)
        optimizer.zero_grad()
        loss = token_loss(model, x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _new_model() -> GPT:
    return GPT(GPTConfig(96, block_size=16, n_layer=1, n_head=2, hidden_dim=32, dropout=0.1))


@claim(
    "resume-bit-for-bit",
    "10 steps, save, load and 10 more give the losses of 20 steps, bit for bit, dropout included.",
    expected=0,
    unit="of 20 losses differ",
)
def resume() -> float:
    """Runs a small GPT with dropout both ways and counts the losses that differ in any bit."""
    return sum(a != b for a, b in zip(_losses(20, stop_at=10), _losses(20, stop_at=None), strict=True))


@claim(
    "averages-left-out-second-loss",
    "Without AdamW's averages the first loss after the restart is identical and the second is not.",
    expected={"first loss differs": 0, "second loss differs": 1},
    unit="",
)
def averages_left_out() -> Mapping[str, float]:
    """Restarts the same run from weights and random state alone, and compares the next two losses bit for bit."""
    whole, restarted = _losses(12, stop_at=None), _losses(12, stop_at=10, keep_averages=False)
    return {
        "first loss differs": int(whole[10] != restarted[10]),
        "second loss differs": int(whole[11] != restarted[11]),
    }


# ------------------------------------------------------------------------------------------------------------- speed
@claim(
    "palm-formula-against-counted",
    "PaLM's formula gives Lab 02's GPT {expected[formula]} FLOPs per token, forward and backward; PyTorch's "
    "counter finds {expected[counted]}.",
    expected={"formula": 6 * 799_872 + 12 * 4 * 128 * 64, "counted": 6 * (799_872 - 9 * 128) + 12 * 4 * 128 * 64},
    unit="FLOPs per token",
    source=PALM,
)
def palm_formula() -> Mapping[str, float]:
    """Computes the formula, and counts the matrix products of a step with PyTorch's counter, attention unfused.

    The formula is larger by 6 FLOPs for each of the norms' 9 · 128 weights, which are in no matrix product.
    """
    model, (x, y) = make_model(), make_batch()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        token_loss(model, x, y).backward()
    return {"formula": model.flops_per_token(), "counted": counter.get_total_flops() // x.numel()}


# ---------------------------------------------------------------------------------------------------------- problems
@claim(
    "training-loop-problem-answers",
    "A step of Lab 02 takes at least {expected[Lab 02's step, µs]:.1f} µs at 312 TFLOP/s; 10 billion tokens through "
    "GPT-2 take {expected[GPT-2, hours]:.1f} hours at 40 % of that; never clearing gives a period of "
    "{expected[period, steps]:.1f} steps at ηλ = 0.01; Lab 02 peaks at {expected[whole batch, MB]:.1f} MB with the "
    "whole batch and {expected[two halves, MB]:.1f} MB with two halves.",
    expected={
        "Lab 02's step, µs": 12.78,
        "GPT-2, hours": 19.03,
        "period, steps": 62.81,
        "whole batch, MB": 36.06,
        "two halves, MB": 26.11,
    },
    tolerance=0.01,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the worked number of the box and the answers of problems 1, 2 and 4; step counts are left out."""
    lab, held = make_model(), bytes_by_phase(steps=2)
    with torch.device("meta"):
        gpt2 = GPT(GPTConfig(50_257, block_size=1024, n_layer=12, n_head=12, hidden_dim=768))
    states = 4 * lab.parameter_count()
    activations = held["activations"]["forward"]
    return {
        "Lab 02's step, µs": lab.flops_per_token() * 768 / 312e12 * 1e6,
        "GPT-2, hours": gpt2.flops_per_token() * 10e9 / (0.4 * 312e12) / 3600,
        "period, steps": 2 * math.pi / math.acos(1 - 0.01 / 2),
        "whole batch, MB": (3 * states + activations) / 1e6,
        "two halves, MB": (4 * states + activations / 2) / 1e6,
    }
