"""Lab 04, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

from typing import Any

import numpy as np

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

EXACT = 1e-12  # float64 rounds at 1e-16; the sums here have a few hundred terms
OF_BOTH_MODES = [f"the loss of a model with dropout 0.5 in {mode} mode" for mode in ("training", "evaluation")]
A_FLOAT = is_of_type("float", "the loss, a Python float,", ": loss.item() makes one")
OF_TWO_STEPS = ("", " where the rows cancel")
FAR_CLIPPED = 1e-5  # torch's own clipping divides by norm + 1e-6


def same_gradients(when: str, tolerance: float = EXACT) -> Judge:
    """The gradients are the reference's; says so where all of them are too large by one factor."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got["gradients"], expected["gradients"]
        if equal(mine, wanted, tolerance):
            return None
        if not _numbers_like(mine, wanted):
            return f"{when}, there are not {wanted.size} gradients."
        missing, asked = int(np.isnan(mine).sum()), int(np.isnan(wanted).sum())
        if missing == len(mine):
            return f"{when}, there is no gradient, or all of it is nan."
        if missing > asked:
            return f"{when}, {missing} of {len(mine)} weights have no gradient, or nan for one; expected {asked}."
        if missing < asked:
            return f"{when}, {asked - missing} weights have a gradient that should have none: p.grad stays None."
        there = np.abs(np.nan_to_num(wanted)) > 1e-9
        factors = mine[there] / wanted[there]
        if len(factors) and np.ptp(factors) < 1e-6 * abs(factors[0]):
            return f"{when}, every gradient is {factors[0]:.4g} times the expected one."
        worst = int(np.argmax(np.nan_to_num(np.abs(mine - wanted), nan=0.0)))
        return f"{when}, gradient {worst} of {len(wanted)} {mismatch_text(float(mine[worst]), float(wanted[worst]))}"

    return judge


def _numbers_like(mine: object, wanted: np.ndarray) -> bool:
    return isinstance(mine, np.ndarray) and mine.dtype == wanted.dtype and mine.shape == wanted.shape


def nothing_moved(got: Answers, expected: Answers) -> str | None:
    """No weight was changed."""
    moved = got["moved"]
    return None if equal(moved, 0) else f"{shorten(moved)} weights were changed; only gradients should be."


def one_at_a_time(got: Answers, expected: Answers) -> str | None:
    """Autograd never held the activations of more than one micro-batch, and of each once."""
    held, backwards = got["held"], got["backwards"]
    if not isinstance(held, list) or not all(type(one) is float and 0 <= one < 1e6 for one in held):
        return "what autograd held at the end of each forward pass could not be measured."
    if not held:
        return "the model was never called."
    if type(backwards) is not int or backwards < 1:
        return "backward never ran."
    if max(held) > 1.5:
        most = f"the activations of {max(held):.0f} micro-batches at the end of forward pass {np.argmax(held) + 1}"
        return f"autograd holds {most}; expected 1{'.' if held[0] > 1.5 else ': run backward after each.'}"
    if backwards < expected["backwards"]:
        return f"backward ran {backwards} times; expected {expected['backwards']}, once a micro-batch."
    if backwards != len(held):
        return f"the model was called {len(held)} times, and backward ran {shorten(backwards)} times; expected as many."
    if abs(sum(held) - sum(expected["held"])) > 0.5:
        return f"{sum(held):.1f} micro-batches' activations were there in all; expected {sum(expected['held']):.0f}."
    return None


def reads_no_further(got: Answers, expected: Answers) -> str | None:
    """At the first update, no more than one micro-batch beyond the group was read."""
    taken, k = got["taken"], expected["k"]
    if taken is None:
        return "there was no update."
    if type(taken) is not int or not k <= taken <= k + 1:
        return f"at the first update {shorten(taken)} micro-batches had been read; expected {k}, one group."
    return None


def _modes_are_kept(got: Answers, expected: Answers) -> str | None:
    """The model is left in the mode it was found in."""
    names = {True: "training", False: "evaluation"}
    for found, left in zip((True, False), got["left"], strict=True):
        odd = sum(one is not found for one in left)
        if left[0] is not found:
            return f"a model found in {names[found]} mode was left in {names[not found]} mode."
        if odd:
            parts = f"{odd} of its modules were left in {names[not found]} mode"
            return f"a model was found in {names[found]} mode, and {parts}."
    return None


modes_are_kept = all_of(has_reference_form("left"), _modes_are_kept)


def in_order(got: Answers, expected: Answers) -> str | None:
    """The sequences went through the model as they come, in micro-batches of the right size, each once."""
    wanted = expected["passed"]
    mine = [one if isinstance(one, list) else [] for one in _list(got["passed"])]
    for place, (one, other) in enumerate(zip(mine, wanted, strict=False)):
        if len(one) != len(other):
            return f"forward pass {place + 1} got {len(one)} sequences; expected {len(other)}."
        if not equal(one, other):
            return f"forward pass {place + 1} got other sequences than expected: they go through first to last."
    return None if len(mine) == len(wanted) else f"there were {len(mine)} forward passes; expected {len(wanted)}."


def updates_come_after(got: Answers, expected: Answers) -> str | None:
    """optimizer.step() was called after the right micro-batches."""
    if equal(got["after"], expected["after"]):
        return None
    return f"with k = {expected['k']}, {_places(got['after'], expected['after'])}"


def leftovers_too(got: Answers, expected: Answers) -> str | None:
    """The same for several lengths of the data."""
    for count, mine, wanted in zip(expected["counts"], got["after"], expected["after"], strict=True):
        if not equal(mine, wanted):
            return f"of {count} micro-batches with k = {expected['k']}, {_places(mine, wanted)}"
    for count, mine, wanted in zip(expected["counts"], got["losses"], expected["losses"], strict=True):
        if not equal(mine, wanted, TOLERANCE):
            return f"the losses of {count} micro-batches with k = {expected['k']}: {_lists(mine, wanted)}"
    return None


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _places(mine: Any, wanted: list[int]) -> str:
    if not _list(mine):
        return f"there was no update; expected {len(wanted)}."
    told, right = (", ".join(map(str, after[:20])) or "none" for after in (mine, wanted))
    return f"updates came when {shorten(told)} micro-batches had gone through the model; expected {right}."


def a_list(got: Answers, expected: Answers) -> str | None:
    """What came back is a list of Python floats."""
    if not equal(got["type"], "list of float"):
        return f"what came back is a {shorten(got['type'])}; a list of Python floats was expected."
    return None


def same_list(name: str, what: str, tolerance: float = TOLERANCE) -> Judge:
    """The list `name` is the reference's: in length, then number by number."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if equal(got[name], expected[name], tolerance):
            return None
        return f"{what}: {_lists(got[name], expected[name], tolerance)}"

    return judge


def _lists(mine: Any, wanted: list[float], tolerance: float = TOLERANCE) -> str:
    if not isinstance(mine, list):
        return "no list of numbers came back."
    if len(mine) != len(wanted):
        return f"there are {len(mine)}; expected {len(wanted)}."
    place = next(place for place, (a, b) in enumerate(zip(mine, wanted, strict=True)) if not equal(a, b, tolerance))
    return f"number {place + 1} of {len(wanted)} {mismatch_text(mine[place], wanted[place])}"


def is_clipped(got: Answers, expected: Answers) -> str | None:
    """The gradients are the reference's, up to the small number that torch's own clipping adds."""
    in_a_list = equal(got.get("in a list"), expected.get("in a list"), FAR_CLIPPED)
    if equal(got["gradients"], expected["gradients"], FAR_CLIPPED):
        return None if in_a_list else "with the parameters in a list, the gradients differ from those of a generator."
    if not _numbers_like(got["gradients"], expected["gradients"]):
        return f"there are not {expected['gradients'].size} gradients after it."
    limit = f"clipped to {expected['max_norm']:.3f}"
    if in_a_list and "in a list" in expected:
        limit = f"with the parameters in a generator (in a list it is right), {limit}"
    mine, wanted = (np.clip(np.nan_to_num(one["gradients"]), -1e100, 1e100) for one in (got, expected))
    cosine = float(mine @ wanted / max(np.linalg.norm(mine) * np.linalg.norm(wanted), 1e-300))
    missing, asked = (int(np.isnan(each["gradients"]).sum()) for each in (got, expected))
    if missing < asked:
        return f"a parameter without a gradient has one of {asked - missing} numbers after it: p.grad stays None."
    if missing > asked:
        return f"{missing - asked} numbers of the gradient are nan after it."
    length = f"the gradient is {np.linalg.norm(mine):.4f} long; expected {np.linalg.norm(wanted):.4f}"
    turned = (
        "" if cosine > 1 - 1e-6 else f", and it has turned by {np.degrees(np.arccos(min(1.0, cosine))):.0f} degrees"
    )
    return f"{limit}, {length}{turned}."


def in_place(got: Answers, expected: Answers) -> str | None:
    """The same tensors are still in p.grad, and no weight moved."""
    return (
        nothing_moved(got, expected) or None
        if got["in place"] is True
        else "p.grad is another tensor than before: change it in place."
    )


def norms_of_updates(got: Answers, expected: Answers) -> str | None:
    """Both norms are floats, and the reference's."""
    for kind in got["types"]:
        if kind != "float":
            return f"what came back is of type {shorten(kind)}; the norm, a Python float, was expected."
    for limit, mine, wanted in zip(("0.05", "1e6"), got["norms"], expected["norms"], strict=True):
        if not equal(mine, wanted, TOLERANCE):
            return f"with max_norm {limit}, the norm that came back {mismatch_text(mine, wanted)}"
    return None


def one_step(got: Answers, expected: Answers) -> str | None:
    """optimizer.step() was called once."""
    if equal(got["steps"], expected["steps"]):
        return None
    steps = " and ".join(shorten(one, 20) for one in _list(got["steps"])[:2])
    return f"optimizer.step() was called {steps} times; expected 1."


def weights_of_updates(got: Answers, expected: Answers) -> str | None:
    """Both models' weights are the reference's."""
    if not _numbers_like(got["weights"], expected["weights"]):
        return f"after the updates there are not {expected['weights'].size // 2} weights."
    for number, limit in enumerate(("0.05", "1e6")):
        mine, wanted = (np.split(each["weights"], 2)[number] for each in (got, expected))
        if not equal(mine, wanted, 1e-7):  # torch's own clipping differs by 1e-6 of a step of 0.005
            worst = int(np.nanargmax(np.abs(np.nan_to_num(mine, nan=np.inf) - wanted)))
            both = mismatch_text(float(mine[worst]), float(wanted[worst]))
            return f"after an update with max_norm {limit}, weight {worst} of {len(wanted)} {both}"
    return None


def each_count(got: Answers, expected: Answers) -> str | None:
    """Every number of updates is right, and an int."""
    every = zip(expected["cases"], got["types"], got["counts"], expected["counts"], strict=True)
    for case, kind, mine, wanted in every:
        micro_batches, k, epochs = case
        of = f"count_updates({micro_batches}, {k}, {epochs})"
        if not equal(mine, wanted):
            return f"{of} {mismatch_text(mine, wanted)}"
        if kind != "int":
            return f"{of} is of type {shorten(kind)}; expected an int."
    return None


def two_floats(got: Answers, expected: Answers) -> str | None:
    """Two Python floats came back, and the gradients are what they were."""
    if not equal(got["types"], expected["types"]):
        return "a tuple of two Python floats was expected: the estimates of |G|^2 and of tr(S)."
    changed = got["changed"]
    return (
        None if equal(changed, 0) else f"{shorten(changed)} numbers of `gradients` were changed; they are the caller's."
    )


EXERCISES = (
    Exercise(
        name="accumulate",
        functions=("accumulate",),
        minutes=10,
        difficulty="easy",
        proves="you can make a batch's gradient from parts that fit, to the last digits",
        hints=(
            "backward adds to p.grad. What must happen once before the first part, and never between two parts?",
            "The mean over the batch is the mean of the k parts' means, since they are equal in size: each part's loss "
            "counts 1/k. Call backward for each part, while its activations are the only ones.",
            "model.zero_grad(); for micro_x, micro_y in zip(x.chunk(k), y.chunk(k)): loss = cross-entropy / k; "
            "loss.backward(); total += loss.item().",
        ),
        checks=(
            Check(
                "accumulate/gradient",
                "leaves the whole batch's gradient, and moves no weight",
                points=2,
                probe="whole_batch",
                judge=all_of(same_gradients("after the last micro-batch"), nothing_moved),
            ),
            Check(
                "accumulate/loss",
                "returns the whole batch's mean loss, a float",
                points=1,
                probe="whole_batch",
                judge=all_of(A_FLOAT, number_equals("loss", "the loss")),
            ),
            Check(
                "accumulate/memory",
                "holds one micro-batch's activations at a time",
                points=2,
                probe="parts_in_memory",
                judge=all_of(one_at_a_time, ran_on_the_batches()),
            ),
            Check(
                "accumulate/stale",
                "is not misled by gradients that were there before",
                points=1,
                probe="over_old_gradients",
                judge=same_gradients("with old gradients in place"),
                requires=("accumulate/gradient",),
            ),
            Check(
                "accumulate/frozen",
                "leaves frozen parameters frozen, and without a gradient",
                points=1,
                probe="with_a_frozen_layer",
                judge=all_of(
                    same_gradients("with one parameter frozen"),
                    equals_reference(
                        "trainable", 0, lambda *_: "other parameters ask for gradients after it than before."
                    ),
                ),
                requires=("accumulate/gradient",),
            ),
            Check(
                "accumulate/mode",
                "leaves the model in the mode it is in, with its dropout",
                points=1,
                probe="in_both_modes",
                judge=all_of(in_order, numbers_equal("losses", *OF_BOTH_MODES), modes_are_kept),
                requires=("accumulate/loss", "accumulate/memory"),
            ),
        ),
    ),
    Exercise(
        name="accumulate_tokens",
        functions=("accumulate_tokens",),
        minutes=15,
        difficulty="medium",
        proves="padding, prompts and short documents do not change what your model is trained on",
        hints=(
            "A mean of means weighs a micro-batch of three tokens like one of three hundred. What is the one number "
            "that every token's loss should be divided by?",
            "Count the targets that are not -100, over the whole group, before the first forward. Then use "
            'reduction="sum" and divide each sum by that count.',
            "scored = sum(int((y != -100).sum()) for _, y in micro_batches); per micro-batch: (summed / scored)"
            ".backward(). A micro-batch with nothing scored sums to 0, where its mean is 0/0.",
        ),
        checks=(
            Check(
                "accumulate_tokens/gradient",
                "leaves the gradient of the mean over all scored tokens",
                points=3,
                probe="ragged",
                judge=same_gradients("after micro-batches with different numbers of scored tokens"),
            ),
            Check(
                "accumulate_tokens/loss",
                "returns the mean loss over all scored tokens, a float",
                points=2,
                probe="ragged",
                judge=all_of(A_FLOAT, number_equals("loss", "the loss")),
            ),
            Check(
                "accumulate_tokens/empty",
                "is not thrown off by a micro-batch in which nothing is scored",
                points=2,
                probe="nothing_scored",
                judge=all_of(
                    number_equals("loss", "with a micro-batch in which nothing is scored, the loss"),
                    same_gradients("with a micro-batch in which nothing is scored"),
                ),
                requires=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
            ),
            Check(
                "accumulate_tokens/memory",
                "holds one micro-batch's activations at a time",
                points=1,
                probe="ragged_in_memory",
                judge=all_of(one_at_a_time, ran_on_the_batches()),
            ),
            Check(
                "accumulate_tokens/stale",
                "is not misled by gradients that were there before",
                points=1,
                probe="ragged_over_old_gradients",
                judge=same_gradients("with old gradients in place"),
                requires=("accumulate_tokens/gradient",),
            ),
            Check(
                "accumulate_tokens/undisturbed",
                "leaves the caller's tensors, and the model's mode, as they are",
                points=1,
                probe="the_callers_tensors",
                requires=("accumulate_tokens/loss",),
                judge=all_of(
                    equals_reference("targets", 0, lambda *_: "the targets are changed after it: work on a copy."),
                    equals_reference("inputs", 0, lambda *_: "the inputs are changed after it: work on a copy."),
                    in_order,
                    numbers_equal("losses", *OF_BOTH_MODES),
                    modes_are_kept,
                ),
            ),
        ),
    ),
    Exercise(
        name="train_epoch",
        functions=("train_epoch",),
        minutes=20,
        difficulty="medium",
        proves="your updates fall where you say they do, the last one included",
        hints=(
            "Write down, for 8 micro-batches and k = 3, after which ones an update comes, and by what each loss is "
            "divided.",
            "If you know a group's micro-batches before you run the first, the group that is left needs no special "
            "case: len(group) is what you divide by. itertools.islice(stream, k) takes the next k, or fewer.",
            "stream = iter(micro_batches); while group := list(itertools.islice(stream, k)): zero_grad, then loss / "
            "len(group) and backward for each, then one optimizer.step().",
        ),
        checks=(
            Check(
                "train_epoch/update",
                "makes one update for k micro-batches, along their mean gradient",
                points=2,
                probe="one_group",
                judge=all_of(updates_come_after, same_weights("after one group")),
            ),
            Check(
                "train_epoch/groups",
                "makes each update along its own group's gradient alone",
                points=1,
                probe="full_groups",
                judge=all_of(updates_come_after, same_weights("after three groups")),
                requires=("train_epoch/update",),
            ),
            Check(
                "train_epoch/losses",
                "returns one loss an update, the mean over the group",
                points=1,
                probe="full_groups",
                judge=all_of(a_list, same_list("losses", "the losses of three full groups")),
                requires=("train_epoch/groups",),
            ),
            Check(
                "train_epoch/leftover",
                "makes the last update from what is left, counted as it is",
                points=2,
                probe="with_a_leftover",
                judge=all_of(
                    same_length("after"),
                    same_length("losses"),
                    leftovers_too,
                    same_weights("after a group that was not full"),
                ),
                requires=("train_epoch/groups", "train_epoch/losses"),
            ),
            Check(
                "train_epoch/memory",
                "holds one micro-batch's activations, and reads no further than the group",
                points=1,
                probe="epoch_in_memory",
                judge=all_of(one_at_a_time, reads_no_further, ran_on_the_batches()),
                requires=("train_epoch/update",),
            ),
            Check(
                "train_epoch/stale",
                "is not misled by gradients that were there before",
                points=1,
                probe="epoch_over_old_gradients",
                judge=same_weights("after one group, with old gradients in place"),
                requires=("train_epoch/update",),
            ),
        ),
    ),
    Exercise(
        name="clip_once",
        functions=("clip_gradients", "clipped_update"),
        minutes=15,
        difficulty="medium",
        proves="you clip the gradient that the update follows, and see what you clipped",
        hints=(
            "One vector, one length, one factor. Which gradient does the update follow, and when is it complete?",
            "model.parameters() is a generator: a second loop over it finds nothing. Collect the gradients that are "
            "not None in a list first.",
            "norm = math.sqrt(sum of gradient.square().sum().item()); if norm > max_norm, gradient.mul_(max_norm / "
            "norm) for each. In clipped_update: all backwards, then clip_gradients once, then optimizer.step().",
        ),
        checks=(
            Check(
                "clip_once/norm",
                "returns the norm from before the clipping, a float",
                points=1,
                probe="a_long_gradient",
                judge=all_of(
                    is_of_type("float", "the norm, a Python float,"),
                    number_equals("norm", "the norm of all gradients together"),
                ),
            ),
            Check(
                "clip_once/direction",
                "shortens all gradients by one factor, in place",
                points=2,
                probe="a_long_gradient",
                judge=all_of(is_clipped, in_place),
            ),
            Check(
                "clip_once/limit",
                "leaves a gradient that is short, or 0, and shortens one that is just over the limit",
                points=1,
                probe="near_the_limit",
                judge=all_of(
                    same_list("lengths", "the lengths after clipping gradients 0.3, 0 and 2.1 long to 2", FAR_CLIPPED),
                    same_list("norms", "the norms that come back of gradients 0.3, 0 and 2.1 long"),
                ),
                requires=("clip_once/norm", "clip_once/direction"),
            ),
            Check(
                "clip_once/none",
                "passes over parameters without a gradient",
                points=1,
                probe="a_missing_gradient",
                judge=all_of(number_equals("norm", "with one parameter without a gradient, the norm"), is_clipped),
                requires=("clip_once/norm", "clip_once/direction"),
            ),
            Check(
                "clip_once/once",
                "clips the group's gradient once, before its one update",
                points=3,
                probe="one_clipped_update",
                judge=all_of(
                    one_step,
                    one_at_a_time,
                    has_reference_form("types"),
                    same_length("norms"),
                    norms_of_updates,
                    weights_of_updates,
                ),
                requires=("clip_once/norm", "clip_once/direction"),
            ),
        ),
    ),
    Exercise(
        name="schedule",
        functions=("count_updates", "train_scheduled"),
        minutes=15,
        difficulty="easy",
        proves="a schedule of 10,000 updates lasts for 10,000 updates, whatever k is",
        hints=(
            "A schedule counts updates. How many does train_epoch make of 7 micro-batches with k = 3, and how many in "
            "two passes?",
            "Round up in each pass, not once over all passes. In the loop the rate moves after the update that used "
            "it: optimizer.step() before scheduler.step().",
            "For each group: rates.append(optimizer.param_groups[0]['lr']); train_epoch(model, optimizer, group, k); "
            "scheduler.step().",
        ),
        checks=(
            Check(
                "schedule/count",
                "counts the updates of several passes, each with its leftover",
                points=3,
                probe="counts",
                judge=all_of(has_reference_form("types"), same_length("counts"), each_count),
            ),
            Check(
                "schedule/rates",
                "returns the rate that each update used",
                points=2,
                probe="scheduled",
                judge=all_of(a_list, same_list("rates", "the rates of two passes of 7 micro-batches, k = 3")),
                requires=("train_epoch/leftover",),
            ),
            Check(
                "schedule/moves",
                "moves every rate once an update, after it",
                points=2,
                probe="scheduled",
                judge=all_of(
                    equals_reference(
                        "left",
                        TOLERANCE,
                        lambda got, expected: f"the rate that is left at the end {mismatch_text(got, expected)}",
                    ),
                    same_weights("after two passes of 7 micro-batches, k = 3"),
                ),
                requires=("train_epoch/leftover",),
            ),
            Check(
                "schedule/stream",
                "reads no further than the group",
                points=1,
                probe="scheduled",
                judge=reads_no_further,
                requires=("train_epoch/memory", "schedule/moves"),
            ),
        ),
    ),
    Exercise(
        name="noise_scale",
        functions=("noise_estimates", "noise_scale"),
        minutes=15,
        difficulty="hard",
        proves="you can say from a run's own gradients how large a batch is worth its tokens",
        hints=(
            "Two batch sizes, two squared lengths, two unknowns: |G_B|^2 = |G|^2 + tr(S)/B for B_s and for B_b. Solve.",
            "The small batch is one row: take the mean over the rows of their squared lengths. The large one is the "
            "mean of all rows, whose squared length comes after the mean.",
            "|G|^2 = (B_b n_b - B_s n_s) / (B_b - B_s), tr(S) = (n_s - n_b) / (1/B_s - 1/B_b), with n the squared "
            "lengths. noise_scale: mean of the one over mean of the other.",
        ),
        checks=(
            Check(
                "noise_scale/signal",
                "estimates |G|^2 without bias",
                points=2,
                probe="estimates",
                judge=all_of(
                    two_floats, numbers_equal("signals", *("the estimate of |G|^2" + where for where in OF_TWO_STEPS))
                ),
            ),
            Check(
                "noise_scale/noise",
                "estimates tr(S), the noise of one sequence, without bias",
                points=2,
                probe="estimates",
                judge=all_of(
                    two_floats, numbers_equal("noises", *("the estimate of tr(S)" + where for where in OF_TWO_STEPS))
                ),
            ),
            Check(
                "noise_scale/ratio",
                "averages both estimates over the steps, then divides",
                points=3,
                probe="scale",
                judge=all_of(
                    is_of_type("float", "the noise scale, a Python float,"),
                    number_equals("scale", "the noise scale of five steps"),
                ),
                requires=("noise_scale/signal", "noise_scale/noise"),
            ),
            Check(
                "noise_scale/no-signal",
                "says infinity where no signal was found",
                points=1,
                probe="no_signal",
                judge=number_equals("scale", "with a mean gradient of 0, the noise scale"),
                requires=("noise_scale/ratio",),
            ),
        ),
    ),
)
