"""Lab 02, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

import math

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    TOLERANCE,
    all_of,
    equals_reference,
    has_reference_form,
    is_of_type,
    items_of,
    mismatch_text,
    number_equals,
    numbers_equal,
    same_length,
    same_weights,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

OF_BOTH_MODES = [f"the loss of a model with dropout 0.5 in {mode} mode" for mode in ("training", "evaluation")]
OF_TWO_STEPS = [
    f"with old gradients in place, {what} of a model with dropout 0.5 in {mode} mode,"
    for mode in ("training", "evaluation")
    for what in ("the loss of step 1 of 2,", "the loss of step 2 of 2,", "the sum of the weights of an unused layer")
]
BF16_TOLERANCE = 0.02  # five times what rounding to the 8 bits of bf16 changes in a loss or a norm
FLOATS = ("float", "float64")  # Python's, and NumPy's float64, which is a subclass of it
FLOAT32 = 1e-5  # sixty times what float32, which evaluate may use, changes in the losses of a model in float64
EXACT = (
    "A difference this small comes from another formula, from rounding, or from float32 where the model is in float64."
)


def exactly(judge: Judge, *names: str) -> Judge:
    """Adds a sentence to the failure of `judge` if the answers `names` miss the reference by less than a millionth.

    It replaces the sentence of other judges on fp32, which is one of several causes.
    """

    def explained(got: Answers, expected: Answers) -> str | None:
        failure = judge(got, expected)
        failure = failure and failure.split(" A difference this small appears")[0]
        equals, near = (
            all(equal(got.get(name), expected[name], limit) for name in names) for limit in (TOLERANCE, 1e-6)
        )
        explains = failure and near and not equals and "is of type" not in failure
        return f"{failure} {EXACT}" if explains else failure

    return explained


def _float_failure(kind: object, subject: str) -> str | None:
    if any(equal(kind, name) for name in FLOATS):
        return None
    tensor = equal(kind, "Tensor") or equal(kind, "Parameter")
    hint = ", which may keep its graph in memory (.item() returns a float)" if tensor else ""
    return f"{subject} is of type {shorten(kind)}{hint}; expected a Python float."


def a_pair_of_floats(got: Answers, expected: Answers) -> str | None:
    """Passes if the step returned a tuple of two floats."""
    types = got["types"] if isinstance(got["types"], list) else []
    if not equal(got["type"], "tuple") or len(types) != 2:
        found = shorten(got["type"])
        return f"the return value is of type {found}; expected a tuple of two floats, the loss and the norm."
    failures = (_float_failure(kind, subject) for kind, subject in zip(types, ("the loss", "the norm"), strict=True))
    return next((failure for failure in failures if failure), None)


def a_list_of_floats(got: Answers, expected: Answers) -> str | None:
    """Passes if the losses are a list of floats."""
    if not equal(got["type"], "list"):
        return f"the return value is of type {shorten(got['type'])}; expected a list of floats."
    if equal(got["types"], ""):
        return "the returned list is empty."
    if any(equal(got["types"], names) for names in (*FLOATS, ", ".join(FLOATS))):
        return None
    tensors = equal(got["types"], "Tensor")
    hint = ", which may keep their graphs in memory (.item() returns a float)" if tensors else ""
    return f"the list holds items of type {shorten(got['types'])}{hint}; expected Python floats."


def of_each_position(tolerance: float, nan: str = "which has padding only,") -> Judge:
    """Passes if the list has the reference's loss at each position; names the first position that is wrong.

    `nan` describes a position at which the reference's loss is nan.
    """

    def judge(got: Answers, expected: Answers) -> str | None:
        losses = got["losses"] if isinstance(got["losses"], list) else []
        if len(losses) != len(expected["losses"]):
            return f"{len(losses)} losses came back; expected {len(expected['losses'])}, one for each position."
        for position, (loss, wanted) in enumerate(zip(losses, expected["losses"], strict=True)):
            if not equal(loss, wanted, tolerance):
                only = f", {nan}" if math.isnan(wanted) else ""
                return f"the mean loss at position {position} of {len(losses)}{only} {mismatch_text(loss, wanted)}"
        return None

    return judge


def counts_a_loss_of_0(got: Answers, expected: Answers) -> str | None:
    """Passes unless a real token with a loss of 0 is left out of the mean."""
    if not equal(got["sure"], [530.0], FLOAT32):
        return None
    return (
        "three real tokens have the losses 36, 1024 and 0; their mean is 530, without the third. Expected 353.333333."
    )


def norms_returned(got: Answers, expected: Answers) -> str | None:
    """Passes if the norms are the reference's; the failure recognizes squares of the norms."""
    norms = numbers_equal("norms", *(f"{limit}, the norm returned" for limit in LIMITS))
    failure = exactly(norms, "norms")(got, expected)
    squares = equal(got["norms"], [norm * norm for norm in expected["norms"]], TOLERANCE)
    return f"{failure} That is the square of the norm: the root is missing." if failure and squares else failure


def untouched(got: Answers, expected: Answers) -> str | None:
    """Passes if the caller's batch is unchanged."""
    return None if got["untouched"] is True else "the call changed `x` or `y`; they belong to the caller."


LIMITS = "with max_norm far below the norm", "with max_norm just below the norm", "with max_norm just above the norm"


def clipped_weights(got: Answers, expected: Answers) -> str | None:
    """Passes if the weights are right after steps that clip much, clip a little and do not clip."""
    weights, wanted = got["weights"], expected["weights"]
    if not isinstance(weights, np.ndarray) or weights.shape != wanted.shape:
        return "the model has another number of weights after the step."
    parts = zip(LIMITS, expected["limits"], np.split(weights, 3), np.split(wanted, 3), strict=True)
    steps = (
        same_weights(f"after one step of SGD {limit} ({share:.3g} times the norm)")(
            {"weights": part}, {"weights": right, "parts": expected["parts"]}
        )
        for limit, share, part, right in parts
    )
    return next((failure for failure in steps if failure), None)


OF_PADDING = {
    "gradients": "gradients that were there before",
    "buffers": "BatchNorm's averages",
    "averages": "the optimizer's averages or its count of steps",
    "modes": "the mode of the model",
    "trainable": "which weights are frozen",
    "random": "torch's random generator",
}


def bears_the_edges(got: Answers, expected: Answers) -> str | None:
    """Passes if a batch of padding changes nothing, and a gradient of 0 makes no division by 0."""
    for name, what in (("padding", "a batch of padding"), ("flat", "a gradient that is 0")):
        numbers = got[name] if isinstance(got[name], list) and len(got[name]) == 2 else [None, None]
        for number, wanted, part in zip(numbers, expected[name], ("loss", "norm"), strict=True):
            if not equal(number, wanted, TOLERANCE):
                return f"with {what}, the {part} {mismatch_text(number, wanted)}"
    if not equal(got["weights"], expected["weights"], 0.0):
        return (
            "a batch of padding changed the weights; expected no update (AdamW moves weights with a gradient of 0 too)."
        )
    for name, what in OF_PADDING.items():
        if not equal(got.get(name), expected[name]):
            return f"a batch of padding changed {what}; expected no change."
    return (
        None
        if equal(got["still"], expected["still"], 0.0)
        else "a step of SGD with a gradient of 0 changed the weights."
    )


def each_rate(name: str) -> Judge:
    """Passes if every rate of a part of the schedule is a float and right; names the first step that is wrong."""

    def judge(got: Answers, expected: Answers) -> str | None:
        peak, warmup, total, floor = expected[f"{name} settings"]
        asked = f"(peak {peak:.3f}, warmup_steps {warmup}, total_steps {total}, floor {floor:.3f})"
        rows = zip(expected[f"{name} steps"], got[f"{name} types"], got[name], expected[name], strict=True)
        for step, kind, rate, wanted in rows:
            if failure := _float_failure(kind, f"the rate of step {step} {asked}"):
                return failure
            if not equal(rate, wanted, TOLERANCE):
                return f"the rate of step {step} {asked} {mismatch_text(rate, wanted)}"
        return None

    return all_of(same_length(f"{name} types"), same_length(name), judge)


MODES = {True: "training", False: "evaluation"}


def _mode_is_restored(got: Answers, expected: Answers) -> str | None:
    """Passes if each module of the model has the same mode after the call as before."""
    for left, found in zip(got["left"], expected["left"], strict=True):
        wrong = [mode for mode, was in zip(left, found, strict=True) if mode is not was]
        if left[0] is not found[0]:
            return f"a model in {MODES[found[0]]} mode was in {MODES[not found[0]]} mode after the call."
        if wrong:
            were = "was" if len(wrong) == 1 else "were"
            changed = f"{len(wrong)} of its {len(left) - 1} modules {were} in {MODES[bool(wrong[0])]} mode"
            return f"a model was in {MODES[found[0]]} mode; {changed} after the call, and not before it."
    return None


mode_is_restored = all_of(has_reference_form("left"), _mode_is_restored)


def nothing_is_kept(got: Answers, expected: Answers) -> str | None:
    """Passes if autograd saved nothing."""
    if not equal(got["graphs"], 0):
        count = shorten(got["graphs"])
        return f"{count} of the model's outputs had a graph, which keeps activations for a backward pass; expected 0."
    if not equal(got["kept"], 0):
        return f"autograd saved {shorten(got['kept'])} tensors for a backward pass that never happens; expected 0."
    return None


def ran_on_the_batches(got: Answers, expected: Answers) -> str | None:
    """Passes if the model ran on each sequence of the batches as it is, by the mean of its logits."""
    if equal(got["logits"], expected["logits"], TOLERANCE):
        return None
    return (
        "the model did not run on every sequence of every batch, each as it is. A batch is missing, as the first one "
        "of a generator that was read before the loop, or the model was given other tokens."
    )


def grad_is_restored(got: Answers, expected: Answers) -> str | None:
    """Passes if gradients are on or off as before, and the same weights have requires_grad=True."""
    for found, left in zip(("on", "off"), got["grad"], strict=True):
        if left is not (found == "on"):
            return f"gradients were {found} before the call and are {'on' if left else 'off'} after it."
    frozen = [wanted for left, wanted in zip(got["trainable"], expected["trainable"], strict=True) if left != wanted]
    if frozen:
        change = "trainable before the call are frozen" if frozen[0] else "frozen before the call are trainable"
        return f"weights that were {change} after it."
    return None


def are_lists(got: Answers, expected: Answers) -> str | None:
    """Passes if the function returned a list, with and without a step."""
    for kind, max_steps in zip(got["types"], expected["max_steps"], strict=True):
        if not equal(kind, "list"):
            return (
                f"with max_steps={max_steps}, the return value is of type {shorten(kind)}; expected a list of floats."
            )
    return None


def counts(got: Answers, expected: Answers) -> str | None:
    """Passes if there are as many losses and training passes as steps."""
    for name, what in (("counts", "losses"), ("ran", "training passes")):
        for max_steps, count, wanted in zip(expected["max_steps"], got[name], expected[name], strict=True):
            if not equal(count, wanted):
                both = mismatch_text(count, wanted)
                return f"the number of {what} for a target of 0 and max_steps={max_steps} {both}"
    return None


def all_losses(got: Answers, expected: Answers) -> str | None:
    """Passes if each loss up to the first below the target is the reference's."""
    losses, wanted = got["losses"] if isinstance(got["losses"], list) else [], expected["losses"]
    for number, (loss, right) in enumerate(zip(losses, wanted, strict=False), start=1):
        if not equal(loss, right, TOLERANCE):
            return f"the loss of step {number}, counted from 1, {mismatch_text(loss, right)}"
    if len(losses) != len(wanted):
        return f"{len(losses)} losses came back up to the first one below the target; expected {len(wanted)}."
    return None


def below_the_target(got: Answers, expected: Answers) -> str | None:
    """Passes if the loop goes on at a loss that equals the target, and stops at one that is just below it."""
    targets = ("the first loss", "the next float64 above the first loss")
    for target, count, wanted in zip(targets, items_of(got, "counts", 2), expected["counts"], strict=True):
        if not equal(count, wanted):
            subject = f"with {target} as target and max_steps={expected['steps']}, the number of losses"
            return f"{subject} {mismatch_text(count, wanted)} Compare the loss itself, not rounded."
    return None


def updates_the_model(got: Answers, expected: Answers) -> str | None:
    """Passes if the optimizer that loading has restored holds the parameters of the model."""
    if equal(got["strange"], 0):
        return None
    many = f"{shorten(got['strange'])} of the model's parameters are new tensors after loading"
    return f"{many}. The optimizer still updates the old ones, so training no longer changes the model."


def same_losses(what: str, *names: str) -> Judge:
    """Passes if the losses after loading are those of the reference's uninterrupted run; `what` ends the failure."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            before = {"first": 0, "later": 1}[name]
            pairs = zip(got[name], expected["uninterrupted"][before : before + len(expected[name])], strict=True)
            for number, (loss, wanted) in enumerate(pairs, start=before + 1):
                if not equal(loss, wanted, 0.0):
                    both = mismatch_text(loss, wanted).rstrip(".")
                    return f"loss {number} after loading {both}, bit for bit as in the uninterrupted run; {what}."
        return None

    return all_of(has_reference_form(*names), judge)


def file_opens(got: Answers, expected: Answers) -> str | None:
    """Passes if the file holds tensors and plain values only."""
    if equal(got["file"], "missing"):
        return "there is no file at `path` after save_checkpoint."
    if not equal(got["file"], "opens"):
        more = f"a {shorten(got['holds'])}, not only" if got["holds"] else "more than"
        return f"torch.load(path, weights_only=True) refuses the file: it holds {more} tensors and plain values."
    if got["sprung"] is not False:
        return "load_checkpoint ran code from a hostile file; torch.load(path, weights_only=True) refuses such a file."
    if not equal(got["loaded"], 0):
        return "load_checkpoint returned from a file that weights_only=True refuses; expected an exception."
    return None


def holds_the_weights(got: Answers, expected: Answers) -> str | None:
    """Passes if the file holds all weights in the model's dtype."""
    if equal(got["held"], 1.0):
        return number_equals("sum", "the sum of the weights in the file")(got, expected)
    share = f"{100 * got['held']:.0f} %" if type(got["held"]) is float else shorten(got["held"])
    return f"the file holds {share} of the model's weights as float64 numbers, the model's dtype; expected all of them."


def one_file(got: Answers, expected: Answers) -> str | None:
    """Passes if saving writes one file and loading does not change it."""
    if not equal(got["files"], expected["files"]):
        names = got["files"] if isinstance(got["files"], list) else []
        held = ", ".join(shorten(name, 40) for name in names[:5]) or "nothing"
        return f"the folder of `path` holds {held} after save_checkpoint; expected {expected['files'][0]} alone."
    if not equal(got["lost"], []):
        lost = shorten(got["lost"][0], 40) if isinstance(got["lost"], list) else shorten(got["lost"], 40)
        return f"save_checkpoint with the path later.pt overwrote or removed {lost}, another program's file beside it."
    return None if got["unchanged"] is True else "load_checkpoint changed the file, or left another one beside it."


EXERCISES = (
    Exercise(
        name="train_step",
        functions=("train_step",),
        minutes=15,
        difficulty="medium",
        proves="you know the calls of a step and their order, with clipping between backward and update",
        hints=(
            "Clear, forward, backward, clip, update. Which of these calls gives a wrong result if old gradients are "
            "still there? Which batch needs none of these calls?",
            "F.cross_entropy takes logits [N, V] and targets [N]: flatten the first two dimensions of the logits and "
            "both of the targets. It skips targets of -100; if all are -100, its mean is nan. The norm is the root of "
            "one sum of squares over all p.grad that are not None.",
            "Return early where (y != -100).any() is false. After backward, norm = math.sqrt of the sum of all "
            "p.grad.square().sum().item(); only if it is above max_norm, multiply each p.grad in place. item() returns "
            "a float.",
        ),
        checks=(
            Check(
                "train_step/loss",
                "returns two floats; the loss is the mean over the real tokens, before the update",
                points=2,
                probe="one_step",
                judge=all_of(a_pair_of_floats, exactly(number_equals("loss", "the loss"), "loss")),
            ),
            Check(
                "train_step/norm",
                "returns the global norm of the gradient before it is clipped",
                points=1,
                probe="clipped",
                judge=norms_returned,
            ),
            Check(
                "train_step/update",
                "moves the weights once, along this batch's gradient",
                points=1,
                probe="one_step",
                judge=all_of(same_weights("after one step of SGD with max_norm=math.inf"), untouched),
            ),
            Check(
                "train_step/clip",
                "shortens a gradient above the limit to the limit, and no other",
                points=1,
                probe="clipped",
                judge=all_of(exactly(clipped_weights, "weights"), untouched),
                requires=("train_step/update",),
            ),
            Check(
                "train_step/steps",
                "follows each batch alone when called again, and runs the model once per step",
                points=1,
                probe="several_steps",
                judge=all_of(
                    same_weights("after several steps on as many batches"),
                    equals_reference(
                        "buffers",
                        TOLERANCE,
                        lambda *_: (
                            "BatchNorm's averages are not those of one forward pass per step in the model's mode."
                        ),
                    ),
                    number_equals("passes", "the number of forward passes in several steps, one per step,", 0),
                ),
                requires=("train_step/clip",),
            ),
            Check(
                "train_step/stale",
                "ignores gradients that were there before",
                points=1,
                probe="after_a_strange_backward",
                judge=all_of(
                    same_weights("after a step with old gradients in place"),
                    number_equals("norm", "with old gradients in place, the norm"),
                ),
                requires=("train_step/update", "train_step/norm"),
            ),
            Check(
                "train_step/mode",
                "trains the model in its mode, with its dropout",
                points=1,
                probe="step_in_both_modes",
                judge=all_of(numbers_equal("losses", *OF_BOTH_MODES), mode_is_restored),
                requires=("train_step/loss",),
            ),
            Check(
                "train_step/edges",
                "handles a batch of padding and a gradient of 0",
                points=1,
                probe="step_at_the_edges",
                judge=bears_the_edges,
                requires=("train_step/clip",),
            ),
            Check(
                "train_step/half",
                "trains a model in bf16 with a layer in float32",
                points=1,
                probe="step_in_half",
                judge=all_of(
                    numbers_equal(
                        "numbers",
                        *(f"in bf16, the {part} of step {step}" for step in (1, 2) for part in ("loss", "norm")),
                        tolerance=BF16_TOLERANCE,
                    ),
                    equals_reference("same types", 0, lambda *_: "parameters have another dtype after the step."),
                ),
                requires=("train_step/norm", "train_step/clip"),
            ),
        ),
    ),
    Exercise(
        name="evaluate",
        functions=("evaluate",),
        minutes=20,
        difficulty="medium",
        proves="your validation loss is that of the whole model, needs no training memory and leaves the run unchanged",
        hints=(
            "Two switches are needed: model.eval() changes what layers compute, and torch.no_grad() stops autograd "
            "from saving tensors. Each module has its own mode.",
            "Keep two sums for each position, of losses and of real tokens, and divide once, at the end. "
            'F.cross_entropy takes logits [B, V, T] with targets [B, T] too; with reduction="none" it returns '
            "[B, T], 0 where the target is padding.",
            "losses.sum(dim=0, dtype=torch.float64) adds over the batch; (y != -100).sum(dim=0) counts tokens. For "
            "tensors, 0 / 0 is nan. First store (module, module.training) for each of model.modules(); at the end, "
            "set each mode back.",
        ),
        checks=(
            Check(
                "evaluate/mean",
                "returns the mean at each position, weighing every real token the same",
                points=3,
                probe="ragged",
                judge=all_of(
                    a_list_of_floats,
                    counts_a_loss_of_0,
                    of_each_position(FLOAT32),
                    numbers_equal("sure", "the mean of the losses 36, 1024 and 0", tolerance=FLOAT32),
                ),
                tolerance=FLOAT32,
            ),
            Check(
                "evaluate/dropout",
                "runs the model without dropout, and with BatchNorm's averages, which do not change",
                points=1,
                probe="with_dropout",
                judge=all_of(
                    of_each_position(FLOAT32),
                    equals_reference("buffers", 0, lambda *_: "the evaluation changed BatchNorm's averages."),
                ),
                tolerance=FLOAT32,
                requires=("evaluate/mean",),
            ),
            Check(
                "evaluate/no-graph",
                "saves nothing for a backward pass, and changes no weights",
                points=2,
                probe="what_is_kept",
                judge=all_of(nothing_is_kept, same_weights("after an evaluation"), ran_on_the_batches),
            ),
            Check(
                "evaluate/mode",
                "leaves each module in its mode",
                points=1,
                probe="modes",
                judge=all_of(mode_is_restored, ran_on_the_batches),
            ),
            Check(
                "evaluate/grad-mode",
                "leaves gradients on or off, and weights frozen or trainable, as before",
                points=1,
                probe="switches",
                judge=all_of(has_reference_form("grad", "trainable"), grad_is_restored, ran_on_the_batches),
            ),
            Check(
                "evaluate/undisturbed",
                "leaves gradients, batches and the random generator unchanged",
                points=1,
                probe="what_is_disturbed",
                judge=all_of(
                    equals_reference(
                        "gradients", TOLERANCE, lambda *_: "the call changed gradients that were there before it."
                    ),
                    equals_reference("batches", 0, lambda *_: "the call changed `x` or `y` of a batch."),
                    equals_reference(
                        "random",
                        0,
                        lambda *_: "torch draws other random numbers after the call: the call used torch's generator.",
                    ),
                    number_equals("loss", "the next training loss of a model with dropout 0.5"),
                    ran_on_the_batches,
                ),
            ),
            Check(
                "evaluate/half",
                "adds up the losses of a model in bf16 with enough precision, and a loss of nan too",
                points=1,
                probe="many_in_half",
                judge=of_each_position(FLOAT32, "where one real token has a loss of nan,"),
                requires=("evaluate/mean",),
                tolerance=FLOAT32,
            ),
        ),
    ),
    Exercise(
        name="learning_rate",
        functions=("learning_rate",),
        minutes=15,
        difficulty="medium",
        proves="you can write a schedule that has the right rate at every step",
        hints=(
            "Three pieces: the warm-up, the cosine, and after the end. Write down the rate of the first and last "
            "step of each piece before you write code.",
            "The warm-up's step 0 has peak / warmup_steps, so count (step + 1). The cosine's progress runs from 0 at "
            "warmup_steps to 1 at total_steps, and stays at 1 after it.",
            "0.5 * (1 + math.cos(math.pi * progress)) falls from 1 to 0; scale it so that it falls from peak to "
            "floor. progress = min(1, steps since the warm-up / steps between warm-up and end).",
        ),
        checks=(
            Check(
                "learning_rate/warm-up",
                "rises in equal parts and starts above 0",
                points=3,
                probe="schedule",
                judge=exactly(each_rate("warmup"), "warmup"),
            ),
            Check(
                "learning_rate/cosine",
                "falls from the peak to the floor along a cosine",
                points=4,
                probe="schedule",
                judge=exactly(each_rate("cosine"), "cosine"),
            ),
            Check(
                "learning_rate/after",
                "stays at the floor after the last step",
                points=1,
                probe="schedule",
                judge=each_rate("after"),
            ),
            Check(
                "learning_rate/no-warm-up",
                "works without a warm-up, and with a warm-up of one step",
                points=2,
                probe="no_warmup",
                judge=all_of(each_rate("none"), each_rate("one")),
                requires=("learning_rate/cosine", "learning_rate/after"),
            ),
        ),
    ),
    Exercise(
        name="overfit_one_batch",
        functions=("overfit_one_batch",),
        minutes=15,
        difficulty="easy",
        proves="you can test any training loop in a minute, before a long run",
        hints=(
            "Create one optimizer for the whole function: AdamW's averages carry over from step to step.",
            "Call your train_step and append its loss, until the last loss is below the target or max_steps steps are "
            "taken.",
            "A while loop with two conditions: len(losses) < max_steps, and either no loss yet or the last one >= "
            "target. train_step returns a pair; max_norm=math.inf clips nothing.",
        ),
        checks=(
            Check(
                "overfit_one_batch/losses",
                "takes the steps of one AdamW, and returns each loss from before its update",
                points=3,
                probe="overfit",
                judge=all_of(a_list_of_floats, exactly(all_losses, "losses")),
                requires=("train_step/update", "train_step/steps"),
            ),
            Check(
                "overfit_one_batch/stops",
                "stops after the update whose loss was first below the target",
                points=3,
                probe="overfit",
                judge=all_of(number_equals("count", "the number of losses"), same_weights("at the end"), untouched),
                requires=("overfit_one_batch/losses",),
            ),
            Check(
                "overfit_one_batch/below",
                "goes on at a loss that equals the target, and stops at one just below it",
                points=1,
                probe="at_the_target",
                judge=below_the_target,
                requires=("overfit_one_batch/losses",),
            ),
            Check(
                "overfit_one_batch/gives-up",
                "stops at max_steps when the target is out of reach",
                points=2,
                probe="gives_up",
                judge=all_of(
                    has_reference_form("types"),
                    are_lists,
                    has_reference_form("counts", "ran"),
                    counts,
                    numbers_equal("losses", *["a loss at a learning rate of 0"] * 70),
                    ran_on_the_batches,
                ),
                requires=("train_step/update",),
            ),
            Check(
                "overfit_one_batch/mode",
                "trains the model in its mode, with its dropout, and ignores old gradients",
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
        proves="your run can stop at any step and resume with the same losses",
        hints=(
            "List the four things that the next step depends on. The weights are one of them.",
            "AdamW's averages are in optimizer.state_dict(). Dropout draws from a generator whose state "
            "torch.get_rng_state() returns and torch.set_rng_state() restores.",
            "One dictionary in one torch.save: two state_dict(), the step, the generator's state. torch.load(path, "
            "weights_only=True) reads it; for each of the four, one call restores it.",
        ),
        checks=(
            Check(
                "checkpoint/file",
                "writes a file that opens with weights_only=True, and opens no other",
                points=1,
                probe="file_is_safe",
                after="save",
                judge=all_of(file_opens, holds_the_weights),
            ),
            Check(
                "checkpoint/step",
                "returns the saved step",
                points=1,
                probe="resume",
                after="save",
                judge=all_of(
                    is_of_type("int", "the step, an int,"),
                    number_equals("step", "the step that load_checkpoint returns", 0),
                ),
            ),
            Check(
                "checkpoint/weights",
                "restores the weights: the first loss after loading",
                points=1,
                probe="resume",
                after="save",
                judge=same_losses("this loss depends on the weights alone", "first"),
            ),
            Check(
                "checkpoint/buffers",
                "restores the buffers: the loss in evaluation mode after loading",
                points=1,
                probe="resume",
                after="save",
                judge=number_equals(
                    "validated", "after loading, the loss in evaluation mode, with BatchNorm's averages,", 0
                ),
                requires=("checkpoint/weights",),
            ),
            Check(
                "checkpoint/optimizer",
                "restores the optimizer: the later losses after loading",
                points=2,
                probe="resume",
                after="save",
                judge=all_of(
                    updates_the_model,
                    same_losses("this loss depends on the optimizer's averages and settings", "later"),
                ),
                requires=("checkpoint/weights",),
            ),
            Check(
                "checkpoint/random",
                "restores the random generator: the losses of a model with dropout",
                points=2,
                probe="resume_with_dropout",
                after="save_with_dropout",
                judge=same_losses("dropout draws from torch's generator", "first", "later"),
                requires=("checkpoint/weights", "checkpoint/optimizer"),
            ),
            Check(
                "checkpoint/one-file",
                "keeps everything in one file, which loading does not change",
                points=1,
                probe="resume",
                after="save",
                judge=one_file,
                requires=("checkpoint/weights",),
            ),
            Check(
                "checkpoint/undisturbed",
                "does not change the run that saves, nor the mode of the model that it loads",
                points=1,
                probe="resume_with_dropout",
                after="save_with_dropout",
                judge=all_of(
                    equals_reference(
                        "uninterrupted",
                        0,
                        lambda *_: "the run that saved has other losses afterwards than without saving.",
                    ),
                    equals_reference(
                        "gradients", 0, lambda *_: "save_checkpoint changed gradients that were there before."
                    ),
                    equals_reference("modes", 0, lambda *_: "modules are in another mode after saving than before."),
                    equals_reference("loaded", 0, lambda *_: "modules are in another mode after loading than before."),
                ),
                requires=("checkpoint/weights",),
            ),
        ),
    ),
)
