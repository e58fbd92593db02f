"""Signs of the loss: its first value, its inputs and targets, its curve."""

import math
from collections.abc import Iterator, Sequence

from rankzero.triage.record import Model, Record
from rankzero.triage.signs.sign import SYMPTOM, Sign, middle, sign_if

FAR_ABOVE = 1.5  # times ln K, plus 1 nat: more than a random start with equal chances gives
EQUAL = 0.9  # share of equal tokens
VISIBLE = 1e-4  # relative change of an output that is no rounding
FEWEST_STEPS = 30  # of a curve that can be judged
FELL = 0.02  # relative fall of the loss that counts


def signs(record: Record) -> Iterator[Sign]:
    """Yields the signs of each model whose output a loss function judges."""
    for model in record.models:
        if model.loss_calls and model.steps:
            yield from _first_loss(model)
            yield from _inputs(model)
        if any(step.loss is not None for step in model.steps):
            yield from curve(
                [step.loss for step in model.steps if step.loss is not None],
                falls=bool(model.classes or not model.loss_calls),
            )


def _first_loss(model: Model) -> Iterator[Sign]:
    if model.classes and model.classes > 1 and model.first_loss is not None:
        even = math.log(model.classes)
        gains = {layer.name: layer.gain for layer in model.layers if layer.gain is not None}
        largest = max(gains, key=lambda name: gains[name], default="")
        yield sign_if(
            model.first_loss > FAR_ABOVE * even + 1,
            "first loss",
            f"{model.first_loss:.2f} nats for {model.classes} classes"
            + (f"; {largest}: std {gains[largest]:.1f} / sqrt(inputs)" if largest else ""),
            f"about ln {model.classes} = {even:.2f}",
            "bad-initialization",
            largest,
        )


def _inputs(model: Model) -> Iterator[Sign]:
    if model.classes:
        looks = min(8, model.loss_calls)
        yield sign_if(
            model.probability_calls >= looks,
            "scores in the loss function",
            "probabilities, with sum 1 per item" if model.probability_calls >= looks else "logits",
            "logits",
            "softmax-before-loss",
        )
    if model.target_is_input is not None:
        yield sign_if(
            model.target_is_input > EQUAL,
            "targets and inputs",
            f"{model.target_is_input:.0%} of targets equal the input at their position",
            "few, by chance",
            "target-is-input",
        )
    if model.sees_next is not None:
        yield sign_if(
            model.sees_next > VISIBLE,
            "causality",
            f"a change of a later token changes earlier outputs by {model.sees_next:.0e} of the largest",
            "by 0",
            "no-causal-mask",
        )


def curve(losses: Sequence[float], *, falls: bool) -> Iterator[Sign]:
    """Yields the signs of a loss curve, one value per update; `falls`: a loss that should fall, as no GAN's does."""
    broken = next((step for step, loss in enumerate(losses, start=1) if not math.isfinite(loss)), None)
    if broken or len(losses) >= FEWEST_STEPS:
        yield sign_if(
            broken is not None,
            "finite losses",
            f"{losses[broken - 1]} at update {broken}" if broken else f"{len(losses)} finite numbers",
            "finite numbers",
            "loss-not-finite",
            strength=SYMPTOM,
        )
    if broken or len(losses) < FEWEST_STEPS or not falls:
        return
    tenth = max(3, len(losses) // 10)
    first, last = middle(losses[:tenth]), middle(losses[-tenth:])
    yield sign_if(
        last > first * (1 - FELL),
        "loss curve",
        f"from {first:.3f} to {last:.3f} in {len(losses)} updates",
        f"a fall by more than {FELL:.0%}",
        "learns-nothing",
        strength=SYMPTOM,
    )
