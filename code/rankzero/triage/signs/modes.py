"""Signs of modes: dropout and BatchNorm in training and in validation."""

from collections.abc import Iterator

from rankzero.triage.record import Record
from rankzero.triage.signs.sign import Sign, sign_if


def signs(record: Record) -> Iterator[Sign]:
    """Yields the signs of each trained model that has layers with two modes."""
    for model in record.models:
        if not model.mode_layers or not model.steps:
            continue
        evaluated = model.eval_after_train
        yield sign_if(
            evaluated > 0.1 * model.training_calls,
            "mode while training",
            f"{model.mode_layers} in evaluation mode in {evaluated} of {model.training_calls} training passes",
            "training mode",
            "stays-in-eval-mode",
        )
        if model.validation_calls:
            yield sign_if(
                model.validation_in_train > 0.5 * model.validation_calls,
                "mode while validating",
                f"{model.mode_layers} in training mode in {model.validation_in_train} of {model.validation_calls} "
                "passes without gradients",
                "evaluation mode",
                "validates-in-train-mode",
            )
