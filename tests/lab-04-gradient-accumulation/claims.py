"""Claims of labs/lab-04-gradient-accumulation.md."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import degrees_between, gradient_of
from rankzero.claims.toolkit.lab_model import CPU, make_batch, make_model, small_gpt, text_batch, token_loss
from rankzero.claims.toolkit.starters import logged_losses, starter
from rankzero.learn.profiling.memory import PhaseMemory


def held_by(micro_batch: int) -> list[Any]:
    """Returns the memory of each phase of the starter's first step, with batches of 12."""
    model = make_model()
    optimizer = AdamW(model.parameters())
    with PhaseMemory(model, optimizer, CPU) as memory:
        starter("04").train_step(model, optimizer, *make_batch(), micro_batch, after=memory.record)
    return memory.rows


# --------------------------------------------------------------------------------------------------------- the equality
@claim(
    "lab-04-parts-equal-the-whole",
    "In float64 the gradient of 12 sequences and the sum over 4 + 4 + 4, or over 5 + 5 + 2, agree in 12 digits.",
    expected={"4 + 4 + 4": 0, "5 + 5 + 2": 0},
    tolerance=1e-12,
    unit="largest difference, of the largest gradient",
)
def parts_equal_the_whole() -> Mapping[str, float]:
    """Takes what the starter's train_step hands to the optimizer, for Lab 02's GPT, and compares number by number.

    The tolerance is rounding: float64 has 16 digits, and a weight's gradient is a sum over 768 tokens.
    """
    model, batch = make_model(), make_batch()
    whole, _ = starter("04").first_gradient(model, *batch, 12, torch.float64)

    def apart(micro_batch: int) -> float:
        parts, _ = starter("04").first_gradient(model, *batch, micro_batch, torch.float64)
        return ((parts - whole).abs().max() / whole.abs().max()).item()

    return {"4 + 4 + 4": apart(4), "5 + 5 + 2": apart(5)}


@claim(
    "lab-04-float32-rounds",
    "In float32 the same two gradients agree in 5 digits at least.",
    expected=0,
    tolerance=1e-5,
    unit="largest difference, of the largest gradient",
)
def float32_rounds() -> float:
    """The same comparison for 4 + 4 + 4 in float32, whose numbers have 7 digits."""
    model, batch = make_model(), make_batch()
    whole, parts = (starter("04").first_gradient(model, *batch, size, torch.float32)[0] for size in (12, 4))
    return ((parts - whole).abs().max() / whole.abs().max()).item()


@claim(
    "lab-04-same-losses",
    "20 updates with micro-batches of 4, or of 5, give the losses of whole batches to the third decimal.",
    expected={"4 + 4 + 4": 0, "5 + 5 + 2": 0},
    tolerance=5e-4,
    unit="nats, largest difference",
)
def same_losses() -> Mapping[str, float]:
    """Runs the starter with a tiny model, three times, and compares the losses that it logs.

    The tolerance: float32 rounds the gradients in their 7th digit, and AdamW's quotient carries that into the weights.
    """

    def losses(micro_batch: int) -> list[float]:
        return logged_losses("04", "--steps=20", f"--micro-batch={micro_batch}")

    whole = losses(12)

    def apart(micro_batch: int) -> float:
        return max(abs(a - b) for a, b in zip(losses(micro_batch), whole, strict=True))

    return {"4 + 4 + 4": apart(4), "5 + 5 + 2": apart(5)}


# --------------------------------------------------------------------------------------------------------------- memory
@claim(
    "lab-04-activations-follow-the-micro-batch",
    "Activations are 2,195,968 bytes per sequence of the micro-batch. 12,804 bytes more do not depend on it: the "
    "whole batch's token ids and targets, the positions, and one number of the loss.",
    expected={str(b): 2_195_968 * b + 2 * 8 * 12 * 64 + 8 * 64 + 4 for b in (12, 6, 4, 1)},
    unit="B",
)
def activations() -> Mapping[str, float]:
    """Runs the starter's first step with four sizes of micro-batch and takes the most activations of any phase.

    The ids stay whole because a micro-batch is a view: what autograd saves of it keeps the batch's memory.
    """
    return {str(b): max(row.activations for row in held_by(b)) for b in (12, 6, 4, 1)}


@claim(
    "lab-04-gradients-wait",
    "From the second micro-batch on, activations and a full set of gradients are held together: "
    "{expected[second forward]} MiB in all, against {expected[whole batch]} for the whole batch at once.",
    expected={"first forward": 11.47, "second forward": 14.55, "whole batch": 28.23},
    tolerance=0.005,
    unit="MiB",
)
def gradients_wait() -> Mapping[str, float]:
    """Reads the starter's tables: weights, gradients and activations after the first two forwards, and of the whole."""
    parts, whole = held_by(4), held_by(12)
    held = {"first forward": parts[0], "second forward": parts[2], "whole batch": whole[0]}
    return {name: row.total / 2**20 for name, row in held.items()}


@claim(
    "lab-04-one-backward-holds-all",
    "Three losses added up and one backward hold the activations of the whole batch, and {expected} bytes more.",
    expected=1_032,
    unit="B more than the whole batch",
)
def one_backward() -> float:
    """Runs three forwards and adds the losses before any backward, and counts what autograd keeps."""
    model, (x, y) = make_model(), make_batch()
    with PhaseMemory(model, AdamW(model.parameters()), CPU) as memory:
        losses = [token_loss(model, micro_x, micro_y) for micro_x, micro_y in zip(x.split(4), y.split(4), strict=True)]
        total = torch.stack(losses).sum()
        memory.record("three forwards")
        total.backward()
    return memory.rows[0].activations - (2_196_992 * 12 + 516)  # see lab-02-activations-by-phase


# ------------------------------------------------------------------------------------------------------------ the bug
def train_small(optimizer_class: Any, lr: float, factor: float, steps: int = 40) -> tuple[list[float], list[float]]:
    """Losses and gradient norms of a small float64 GPT whose loss is multiplied by `factor` before backward."""
    model = small_gpt(n_layer=1)
    optimizer = optimizer_class(model.parameters(), lr=lr)
    losses: list[float] = []
    norms: list[float] = []
    for x, y in torch.randint(24, (steps, 2, 6, 8)):
        optimizer.zero_grad()
        loss = token_loss(model, x, x if len(losses) % 2 else y)
        (factor * loss).backward()
        norms.append(nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


@claim(
    "lab-04-adamw-hides-the-factor",
    "Nobody divides by 3: AdamW's losses over 40 steps stay within a thousandth of a nat, SGD's do not; the first "
    "gradient norm is 3 times as long with both.",
    expected={"AdamW within 0.001": 1, "SGD within 0.001": 0, "norm, AdamW": 3, "norm, SGD": 3},
    tolerance=1e-9,
    unit="",
)
def adamw_hides() -> Mapping[str, float]:
    """Trains a small GPT with the loss as it is and times 3, with both optimizers, and compares losses and norms."""
    found: dict[str, float] = {}
    for name, optimizer_class, lr in (("AdamW", AdamW, 1e-3), ("SGD", SGD, 0.1)):
        (right, norms), (wrong, long) = (train_small(optimizer_class, lr, factor) for factor in (1.0, 3.0))
        found[f"{name} within 0.001"] = int(max(abs(a - b) for a, b in zip(right, wrong, strict=True)) < 1e-3)
        found[f"norm, {name}"] = long[0] / norms[0]
    return found


@claim(
    "lab-04-undivided-meets-the-limit",
    "In 40 AdamW updates of a small model a limit of 2 would clip no gradient. Where nobody divides by 3, it would "
    "clip all 40.",
    expected={"divided": 0, "not divided": 40},
    unit="of 40 gradients longer than 2",
)
def undivided_clips() -> Mapping[str, float]:
    """Trains a small GPT with the loss as it is and times 3, and counts the gradients that are longer than 2.

    No norm is near the limit: the longest of the first run is 1.8, the shortest of the second 3.6.
    """
    norms = {"divided": train_small(AdamW, 1e-3, 1.0)[1], "not divided": train_small(AdamW, 1e-3, 3.0)[1]}
    return {name: sum(norm > 2 for norm in every) for name, every in norms.items()}


# ------------------------------------------------------------------------------------------------------------ clipping
@claim(
    "lab-04-clip-each-turns",
    "Clipping to 1 after each backward turns the gradient of Lab 02's first batch, 4.19 long: by "
    "{expected[after each of 3]} degrees with 3 micro-batches, by {expected[after each of 12]} with 12.",
    expected={"once": 0, "after each of 3": 10, "after each of 12": 18},
    tolerance=3,
    unit="degrees from the gradient",
)
def clip_each() -> Mapping[str, float]:
    """Accumulates the first batch both ways and measures the angle to the gradient that nobody clipped.

    The embedded text differs a little between Python versions, and so does the batch: hence the tolerance.
    """
    x, y = text_batch()

    def clipped(parts: int, each: bool, limit: float = 1.0) -> Tensor:
        model = make_model()
        for micro_x, micro_y in zip(x.chunk(parts), y.chunk(parts), strict=True):
            (token_loss(model, micro_x, micro_y) / parts).backward()
            if each:
                nn.utils.clip_grad_norm_(model.parameters(), limit)
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        return gradient_of(model)

    whole = clipped(1, each=False, limit=math.inf)

    return {
        "once": degrees_between(whole, clipped(3, each=False)),
        "after each of 3": degrees_between(whole, clipped(3, each=True)),
        "after each of 12": degrees_between(whole, clipped(12, each=True)),
    }


@claim(
    "lab-04-schedule-k-times-too-fast",
    "A cosine over 300 updates whose scheduler steps once a micro-batch, three an update, is at its end after "
    "{expected[once a micro-batch]}.",
    expected={"once an update": 300, "once a micro-batch": 100},
    unit="updates until the rate is 0",
)
def schedule_too_fast() -> Mapping[str, float]:
    """Steps torch's own cosine both ways beside an SGD and counts updates until the rate first falls below 1e-12."""

    def updates(moves: int) -> int:
        optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=300)
        count = 0
        while optimizer.param_groups[0]["lr"] > 1e-12:
            optimizer.step()
            count += 1
            for _ in range(moves):
                scheduler.step()
        return count

    return {"once an update": updates(1), "once a micro-batch": updates(3)}
