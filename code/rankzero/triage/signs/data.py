"""Signs of the data: batches that repeat, labels that do not fit, validation data that were trained on."""

from collections.abc import Iterator

from rankzero.triage.record import Model, Record
from rankzero.triage.signs.sign import SYMPTOM, Sign, sign_if

FEWEST_STEPS = 5
FEWEST_REPEATS = 50
CONTRADICT = 0.3  # share of repeated rows with another label; noise of labels stays below
OVERLAP = 0.05  # share of validation rows
REPEATED = 0.3  # share of pieces of sequences, some of which a text repeats by itself
FEWEST_PIECES = 32


def signs(record: Record) -> Iterator[Sign]:
    """Yields the signs of each model that is given a batch."""
    for model in record.models:
        if model.steps:
            yield from _batches(model)
            yield from _labels(model)
            yield from _overlap(model)


def _batches(model: Model) -> Iterator[Sign]:
    batches = [step.batch for step in model.steps if step.batch]
    if len(batches) >= FEWEST_STEPS:
        distinct = len(set(batches))
        drawn = model.reused < len(batches) // 2 and model.larger_data
        yield sign_if(
            distinct <= max(1, len(batches) // 20) and drawn,
            "batches",
            f"{distinct} distinct among {len(batches)}",
            "another batch in each step",
            "same-batch",
        )


def _labels(model: Model) -> Iterator[Sign]:
    if model.repeats >= FEWEST_REPEATS:
        share = model.contradictions / model.repeats
        yield sign_if(
            share > CONTRADICT,
            "labels of rows that come again",
            f"{share:.0%} of {model.repeats} rows came with another label than before",
            "the same label",
            "inputs-and-labels-misaligned",
        )
    if len(model.probe) == 2:
        right, chance = model.probe
        losses = [step.loss for step in model.steps if step.loss is not None]
        flat = len(losses) < 10 or min(losses[-5:]) > 0.8 * max(losses[:5])
        yield sign_if(
            right < chance + 0.05 and flat,
            "labels that a linear classifier predicts",
            f"{right:.0%} right; the most frequent label would give {chance:.0%}",
            "more than chance",
            "inputs-and-labels-misaligned",
            strength=SYMPTOM,
        )


def _overlap(model: Model) -> Iterator[Sign]:
    if model.overlap is not None and model.overlap_pieces >= FEWEST_PIECES:
        yield sign_if(
            model.overlap > (REPEATED if model.sequences else OVERLAP),
            "validation data",
            f"{model.overlap:.0%} of the validation data were among the training data",
            "hardly any",
            "validation-in-training",
        )
