"""Lab 02, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    TOLERANCE,
    all_of,
    equals_reference,
    has_reference_form,
    is_of_type,
    mismatch_text,
    number_equals,
    numbers_equal,
    ran_on_the_batches,
    same_length,
    same_weights,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

OF_BOTH_MODES = [f"the loss of a model with dropout 0.5 in {mode} mode" for mode in ("training", "evaluation")]
OF_TWO_STEPS = [f"loss {n} of a model with dropout 0.5 in {m} mode" for m in ("training", "evaluation") for n in (1, 2)]
A_FLOAT = is_of_type("float", "the loss, a Python float,", ": loss.item() makes one")


def each_rate(name: str, first: str) -> Judge:
    """Every rate of a part of the schedule is the reference's; names the first step that is not."""

    def judge(got: Answers, expected: Answers) -> str | None:
        start = {"zero": 0, "warmup": expected.get("warmup_steps"), "total": expected.get("total_steps", 0) + 1}[first]
        for offset, (rate, wanted) in enumerate(zip(got[name], expected[name], strict=True)):
            if not equal(rate, wanted, TOLERANCE):
                return f"the rate of step {start + offset}{_settings(expected)} {mismatch_text(rate, wanted)}"
        return None

    return all_of(same_length(name), judge)


def _settings(expected: Answers) -> str:
    if "peak" not in expected:
        return " without a warm-up"
    return (
        f" (peak {expected['peak']:.3f}, warmup_steps {expected['warmup_steps']}, "
        f"total_steps {expected['total_steps']}, floor {expected['floor']:.3f})"
    )


def _mode_is_restored(got: Answers, expected: Answers) -> str | None:
    """The model is left in the mode it was found in."""
    names = {True: "training", False: "evaluation"}
    for found, left in zip((True, False), got["left"], strict=True):
        odd = [one for one in left if one is not found]
        if left[0] is not found:
            return f"a model found in {names[found]} mode was left in {names[not found]} mode."
        if odd:
            parts = f"{len(odd)} of its {len(left) - 1} modules were left in {names[not found]} mode"
            return f"a model was found in {names[found]} mode, and {parts}: model.train(...) reaches all of them."
    return None


mode_is_restored = all_of(has_reference_form("left"), _mode_is_restored)


def nothing_is_kept(got: Answers, expected: Answers) -> str | None:
    """Autograd kept nothing."""
    if not equal(got["kept"], 0):
        kept = shorten(got["kept"])
        return f"autograd kept {kept} tensors for a backward pass that never comes; expected 0."
    return None


def grad_is_restored(got: Answers, expected: Answers) -> str | None:
    """Gradients are on or off as before, and the same weights ask for them."""
    for found, left in zip(("on", "off"), got["grad"], strict=True):
        if left is not (found == "on"):
            return f"gradients were {found} before it and are {'on' if left else 'off'} after it."
    frozen = [wanted for mine, wanted in zip(got["trainable"], expected["trainable"], strict=True) if mine != wanted]
    if frozen:
        return "weights no longer ask for gradients after it." if frozen[0] else "a layer that was frozen no longer is."
    return None


def a_list_of_losses(got: Answers, expected: Answers) -> str | None:
    """The losses came back as a list of numbers."""
    for kind in got["types"] if "types" in expected else [got["type"]]:
        if not equal(kind, "list"):
            return f"what came back is of type {shorten(kind)}; a list of floats was expected."
    losses = got["losses"] if "losses" in expected else []
    numbers = isinstance(losses, list) and all(type(one) in (int, float) for one in losses)
    return None if numbers else "the list that came back holds something that is no number."


def counts(got: Answers, expected: Answers) -> str | None:
    """As many losses as steps."""
    for max_steps, count, wanted in zip(expected["max_steps"], got["counts"], expected["counts"], strict=True):
        if not equal(count, wanted):
            both = mismatch_text(count, wanted)
            return f"the number of losses for a target of 0 and max_steps={max_steps} {both}"
    return None


def same_losses(what: str, *names: str) -> Judge:
    """The losses after loading, the first or the later ones, are those of the reference's uninterrupted run."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            before = {"first": 0, "later": 1}[name]
            pairs = zip(got[name], expected["uninterrupted"][before : before + len(expected[name])], strict=True)
            for number, (loss, wanted) in enumerate(pairs, start=before + 1):
                if not equal(loss, wanted, 0.0):
                    both = mismatch_text(loss, wanted).rstrip(".")
                    return f"loss {number} after loading {both}, as in the uninterrupted run and in every bit: {what}."
        return None

    return all_of(has_reference_form(*names), judge)


def file_opens(got: Answers, expected: Answers) -> str | None:
    """The file holds tensors and plain values only."""
    if equal(got["file"], "missing"):
        return "there is no file at `path` after save_checkpoint."
    if not equal(got["file"], "opens"):
        more = f"a {shorten(got['holds'])}, not only" if got["holds"] else "more than"
        return f"torch.load(path, weights_only=True) refuses the file: it holds {more} tensors and plain values."
    if got["sprung"] is not False:
        return "load_checkpoint ran what a hostile file asked it to; torch.load(path, weights_only=True) refuses such."
    return None


EXERCISES = (
    Exercise(
        name="train_step",
        functions=("train_step",),
        minutes=10,
        difficulty="easy",
        proves="you know the four calls, their order and why it is that order",
        hints=(
            "Four calls: clear the gradients, forward, backward, update. Which of them must not see old gradients?",
            "F.cross_entropy wants logits [N, V] and targets [N]: flatten two dimensions of the one and all of the "
            "other. Clear right before you need clean gradients, not after you have made them.",
            "optimizer.zero_grad(); loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()); then backward, then "
            "step. loss.item() is the float.",
        ),
        checks=(
            Check(
                "train_step/loss",
                "returns the loss before the update, a float",
                points=3,
                probe="one_step",
                judge=all_of(A_FLOAT, number_equals("loss", "the loss")),
            ),
            Check(
                "train_step/update",
                "moves the weights once, along this batch's gradient",
                points=3,
                probe="one_step",
                judge=same_weights("after one step of SGD"),
            ),
            Check(
                "train_step/steps",
                "follows each batch alone when called again",
                points=2,
                probe="three_steps",
                judge=same_weights("after three steps on three batches"),
                requires=("train_step/update",),
            ),
            Check(
                "train_step/stale",
                "is not misled by gradients that were there before",
                points=1,
                probe="after_a_strange_backward",
                judge=same_weights("after a step with old gradients in place"),
                requires=("train_step/update",),
            ),
            Check(
                "train_step/mode",
                "trains the model in the mode it is in, with its dropout",
                points=1,
                probe="step_in_both_modes",
                judge=all_of(numbers_equal("losses", *OF_BOTH_MODES), mode_is_restored),
                requires=("train_step/loss",),
            ),
        ),
    ),
    Exercise(
        name="evaluate",
        functions=("evaluate",),
        minutes=15,
        difficulty="easy",
        proves="your validation loss measures the model you have, costs no training memory and disturbs nothing",
        hints=(
            "There are two switches, model.eval() and torch.no_grad(), and neither does the other's work.",
            'Batches differ in size. Add up losses with reduction="sum" and count tokens; divide once, at the end.',
            "was_training = model.training; model.eval(); with torch.no_grad(): loop over the batches; "
            "model.train(was_training); return total / tokens.",
        ),
        checks=(
            Check(
                "evaluate/mean",
                "weighs every token the same",
                points=3,
                probe="ragged",
                judge=all_of(A_FLOAT, number_equals("loss", "the mean over batches of 5, 5 and 1 sequences")),
            ),
            Check(
                "evaluate/dropout",
                "measures the model without dropout",
                points=2,
                probe="with_dropout",
                judge=number_equals("loss", "the loss of a model with dropout 0.5"),
                requires=("evaluate/mean",),
            ),
            Check(
                "evaluate/no-graph",
                "keeps nothing for a backward pass, and trains nothing",
                points=2,
                probe="what_is_kept",
                judge=all_of(nothing_is_kept, same_weights("after an evaluation"), ran_on_the_batches()),
            ),
            Check(
                "evaluate/mode",
                "leaves the model in the mode it was found in",
                points=1,
                probe="modes",
                judge=all_of(mode_is_restored, ran_on_the_batches()),
            ),
            Check(
                "evaluate/grad-mode",
                "leaves gradients on or off, and weights frozen or not, as it found them",
                points=1,
                probe="switches",
                judge=all_of(has_reference_form("grad", "trainable"), grad_is_restored, ran_on_the_batches()),
            ),
            Check(
                "evaluate/undisturbed",
                "leaves gradients and the random generator to the run",
                points=1,
                probe="what_is_disturbed",
                judge=all_of(
                    equals_reference(
                        "gradients", TOLERANCE, lambda *_: "gradients that were there before it are changed after it."
                    ),
                    equals_reference(
                        "random", 0, lambda *_: "the run draws other random numbers after it: was it seeded anew?"
                    ),
                    number_equals("loss", "the next training loss of a model with dropout 0.5"),
                    ran_on_the_batches(),
                ),
            ),
        ),
    ),
    Exercise(
        name="learning_rate",
        functions=("learning_rate",),
        minutes=15,
        difficulty="medium",
        proves="you can write a schedule whose every step is what you say it is",
        hints=(
            "Three pieces: the warm-up, the cosine, and after the end. Write down the rate of the first and last "
            "step of each piece before you write code.",
            "The warm-up's step 0 has peak / warmup_steps, so count (step + 1). The cosine's progress runs from 0 at "
            "warmup_steps to 1 at total_steps, and must not run on.",
            "floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress)), with progress = "
            "min(1, (step - warmup_steps) / (total_steps - warmup_steps)).",
        ),
        checks=(
            Check(
                "learning_rate/warm-up",
                "rises in equal parts and starts above 0",
                points=3,
                probe="schedule",
                judge=each_rate("warmup", "zero"),
            ),
            Check(
                "learning_rate/cosine",
                "falls from the peak to the floor along a cosine",
                points=4,
                probe="schedule",
                judge=each_rate("cosine", "warmup"),
            ),
            Check(
                "learning_rate/after",
                "stays at the floor after the last step",
                points=1,
                probe="schedule",
                judge=each_rate("after", "total"),
            ),
            Check(
                "learning_rate/no-warm-up",
                "works without a warm-up",
                points=2,
                probe="no_warmup",
                judge=each_rate("rates", "zero"),
                requires=("learning_rate/cosine",),
            ),
        ),
    ),
    Exercise(
        name="overfit_one_batch",
        functions=("overfit_one_batch",),
        minutes=15,
        difficulty="easy",
        proves="you can test any training loop in a minute, before it costs a night",
        hints=(
            "One optimizer for the whole function: AdamW's averages are part of the run.",
            "Call your train_step and append its loss, until the last loss is below the target or the list is full.",
            "while len(losses) < max_steps and (not losses or losses[-1] >= target): "
            "losses.append(train_step(model, optimizer, x, y))",
        ),
        checks=(
            Check(
                "overfit_one_batch/losses",
                "takes the steps of one AdamW, and returns each loss from before its update",
                points=3,
                probe="overfit",
                judge=all_of(a_list_of_losses, number_equals("losses", "the list of the first losses")),
                requires=("train_step/update", "train_step/steps"),
            ),
            Check(
                "overfit_one_batch/stops",
                "takes no step after the first loss below the target, and that one's update still happens",
                points=3,
                probe="overfit",
                judge=all_of(number_equals("count", "the number of losses"), same_weights("at the end")),
                requires=("overfit_one_batch/losses",),
            ),
            Check(
                "overfit_one_batch/below",
                "goes on at a loss that equals the target: it is not below it",
                points=1,
                probe="at_the_target",
                judge=number_equals("count", "with the first loss as target and max_steps=3, the number of losses"),
                requires=("overfit_one_batch/losses",),
            ),
            Check(
                "overfit_one_batch/gives-up",
                "stops at max_steps when the target is out of reach",
                points=2,
                probe="gives_up",
                judge=all_of(
                    has_reference_form("types"),
                    a_list_of_losses,
                    has_reference_form("counts"),
                    counts,
                    ran_on_the_batches(),
                ),
                requires=("train_step/update",),
            ),
            Check(
                "overfit_one_batch/mode",
                "trains the model in the mode it is in, with its dropout",
                points=1,
                probe="overfit_in_both_modes",
                judge=all_of(numbers_equal("losses", *OF_TWO_STEPS), mode_is_restored),
                requires=("train_step/mode", "overfit_one_batch/losses"),
            ),
        ),
    ),
    Exercise(
        name="checkpoint",
        functions=("save_checkpoint", "load_checkpoint"),
        minutes=20,
        difficulty="medium",
        proves="your run can die at any step and nobody can tell from its losses",
        hints=(
            "List what the next step depends on. The weights are one of four things.",
            "AdamW's averages are in optimizer.state_dict(). Dropout draws from a generator whose state "
            "torch.get_rng_state() returns and torch.set_rng_state() puts back.",
            'torch.save({"model": ..., "optimizer": ..., "step": ..., "rng": ...}, path), the first two being '
            "state_dict(); torch.load(path, weights_only=True) reads it.",
        ),
        checks=(
            Check(
                "checkpoint/file",
                "writes a file that opens with weights_only=True, and opens no other",
                points=1,
                probe="file_is_safe",
                judge=all_of(
                    file_opens,
                    number_equals("largest", "the largest float64 number in the file, where the weights belong,"),
                ),
            ),
            Check(
                "checkpoint/step",
                "gives the step back",
                points=1,
                probe="resume",
                judge=all_of(
                    is_of_type("int", "the step, an int,"),
                    number_equals("step", "the step that load_checkpoint returns", 0),
                ),
            ),
            Check(
                "checkpoint/weights",
                "restores the weights: the first loss after loading",
                points=2,
                probe="resume",
                judge=same_losses("it depends on the weights alone", "first"),
            ),
            Check(
                "checkpoint/optimizer",
                "restores the optimizer: the losses after that",
                points=3,
                probe="resume",
                judge=same_losses("it depends on what the optimizer remembers", "later"),
                requires=("checkpoint/weights",),
            ),
            Check(
                "checkpoint/random",
                "restores the random generator: the losses of a model with dropout",
                points=2,
                probe="resume_with_dropout",
                judge=same_losses("dropout draws from torch's generator", "first", "later"),
                requires=("checkpoint/weights", "checkpoint/optimizer"),
            ),
            Check(
                "checkpoint/undisturbed",
                "does not disturb the run that saves",
                points=1,
                probe="resume_with_dropout",
                judge=all_of(
                    equals_reference(
                        "uninterrupted", 0, lambda *_: "the run that saved goes on differently than without it."
                    ),
                    equals_reference(
                        "gradients", 0, lambda *_: "gradients that were there before it are changed after it."
                    ),
                ),
                requires=("checkpoint/weights",),
            ),
        ),
    ),
)
