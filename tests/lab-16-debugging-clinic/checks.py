"""Lab 16, checks: what each cure must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
Where one result is right, the log and the weights are compared with the reference's. Where several results are right,
the judge looks at what the model got: batches, rows, rates, devices.
"""

import math
from typing import Any

import numpy as np

from rankzero.exercises.checks.answer_schema import integer, real_number
from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, items_of, mismatch_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

CLOSE = 1e-4  # relative: float32 over a dozen steps, in another order of the same operations
NAMES = {
    "loss": "the loss of step",
    "gradient_norm": "the gradient norm of step",
    "accuracy": "the accuracy of step",
    "feature_norm": "the feature norm of step",
    "weight_sum": "the sum of the weights after step",
    "val_loss": "the loss of validation",
}


def kind(value: object) -> str:
    """Returns a short description of an answer."""
    if isinstance(value, np.ndarray):
        return f"numbers of shape {list(value.shape)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "missing" if value is None else shorten(value, 60)


def series_failure(got: object, expected: list[Any], name: str, case: str, tolerance: float = CLOSE) -> str | None:
    """Returns a sentence unless a series of the log equals the expected one; names the first wrong number."""
    if not isinstance(got, list):
        return f'with {case}: log["{name}"] is {kind(got)}; expected a list of {len(expected)} numbers.'
    for place, (value, wanted) in enumerate(zip(got, expected, strict=False), start=1):
        if not real_number(value):
            return f'with {case}: number {place} of log["{name}"] is {kind(value)}.'
        if not equal(value, wanted, tolerance):
            return f"with {case}: {NAMES[name]} {place} {mismatch_text(value, wanted)}"
    if len(got) != len(expected):
        return f'with {case}: log["{name}"] has {len(got)} numbers; expected {len(expected)}.'
    return None


def series(*names: str) -> Judge:
    """Each series of the log equals the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        failures = (series_failure(got.get(name), expected[name], name, expected["case"]) for name in names)
        return next((failure for failure in failures if failure), None)

    return judge


def weights_failure(got: object, expected: Any, case: str, whose: str = "the model") -> str | None:
    if not isinstance(got, np.ndarray) or got.shape != expected.shape or got.dtype != expected.dtype:
        return f"with {case}: {whose} ends with {kind(got)} as weights; expected {kind(expected)}."
    if equal(got, expected, CLOSE):
        return None
    wrong = ~np.isclose(got, expected, rtol=CLOSE, atol=CLOSE, equal_nan=True)
    place = int(np.nonzero(wrong)[0][0])
    number = mismatch_text(float(got[place]), float(expected[place])).rstrip(".")
    return f"with {case}: {whose}'s weight {place} {number} ({int(wrong.sum())} of {got.size} differ)."


def weights(got: Answers, expected: Answers) -> str | None:
    """All weights and buffers after the run equal the reference's."""
    return weights_failure(got.get("weights"), expected["weights"], expected["case"])


def text_equals(name: str, subject: str) -> Judge:
    """Passes if a text, or a list of texts, equals the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if equal(got.get(name), expected[name]):
            return None
        values = got.get(name)
        if isinstance(values, list) and isinstance(expected[name], list):
            pairs = enumerate(zip(values, expected[name], strict=False), start=1)
            for place, (value, wanted) in pairs:
                if not equal(value, wanted):
                    said = f"{subject} {place} is {kind(value)}; expected {kind(wanted)}"
                    return f"with {expected['case']}: {said}."
            return f"with {expected['case']}: {len(values)} times {subject}; expected {len(expected[name])}."
        return f"with {expected['case']}: {subject} is {kind(values)}; expected {kind(expected[name])}."

    return judge


def honest(name: str, subject: str) -> Judge:
    """The log's losses are those of the batches that the model got, with the labels of these rows."""

    def judge(got: Answers, expected: Answers) -> str | None:
        true = got.get(f"true {name}")
        if not isinstance(true, list) or len(true) != len(expected[f"true {name}"]):
            return f"with {expected['case']}: {kind(true)} batches; expected {len(expected[f'true {name}'])} {subject}."
        if not all(type(value) is float and math.isfinite(value) for value in true):
            return f"with {expected['case']}: the model's outputs are no finite numbers, or of another shape."
        logged = got.get(name)
        if not isinstance(logged, list) or len(logged) != len(true):
            return f'with {expected["case"]}: log["{name}"] is {kind(logged)}; expected {len(true)} numbers.'
        for place, (value, wanted) in enumerate(zip(logged, true, strict=True), start=1):
            if not equal(value, wanted, CLOSE) or type(value) is not float:
                said = f"{NAMES[name]} {place} is {kind(value)}"
                return f"with {expected['case']}: {said}; its outputs and the labels of its rows give {wanted:.6f}."
        return None

    return judge


def replays(got: Answers, expected: Answers) -> str | None:
    """Training on the batches that the model got, with the patient's optimizer, leads to the weights that it has."""
    weights, again, case = got.get("weights"), got.get("replayed weights"), expected["case"]
    if not isinstance(again, np.ndarray) or again.shape != expected["weights"].shape or again.dtype.kind != "f":
        return f"with {case}: training on the same batches gives {kind(again)} as weights."
    if not np.isfinite(again).all():
        return f"with {case}: training on the same batches gives weights that are not finite."
    if failure := weights_failure(weights, again, case):
        return f"{failure[:-1]}: training on the batches that the model got leads there."
    return None


# ------------------------------------------------------------------------------------------------------ several results
def rates_fall(got: Answers, expected: Answers) -> str | None:
    """The rate falls from lr to 0 over the run, by epochs or by batches."""
    rates, highest, case = got.get("lr"), expected["lr"], expected["case"]
    if not isinstance(rates, np.ndarray) or rates.shape != highest.shape or rates.dtype != highest.dtype:
        return f"with {case}: {kind(rates)} updates by an optimizer; expected {len(highest)}."
    if not equal(float(rates[0]), float(highest[0]), CLOSE):
        return f"with {case}: the learning rate of update 1 is {rates[0]:.6f}; expected {highest[0]:.6f}."
    wrong = ~((rates <= highest * (1 + CLOSE)) & (rates >= highest - expected["fall"] * (1 + CLOSE)))
    if wrong.any():
        place = int(np.nonzero(wrong)[0][0])
        between = f"{highest[place] - expected['fall']:.6f} and {highest[place]:.6f}"
        return (
            f"with {case}: the learning rate of update {place + 1} is {rates[place]:.6f}; expected between {between}."
        )
    return None


def falls_as_reference(got: Answers, expected: Answers) -> str | None:
    """The first two losses, which any right schedule gives, and the size of all others."""
    logged, case = got.get("loss"), expected["case"]
    if failure := series_failure(
        logged[:2] if isinstance(logged, list) else logged, expected["loss"][:2], "loss", case
    ):
        return failure
    losses = items_of(got, "loss", len(expected["loss"]))
    for place, (value, wanted) in enumerate(zip(losses, expected["loss"], strict=True), start=1):
        if type(value) is not float or not 0.5 * wanted < value < 2 * wanted + 0.2:
            return f"with {case}: the loss of step {place} is {kind(value)}; expected about {wanted:.3f}."
    return None


def starts_uniform(got: Answers, expected: Answers) -> str | None:
    """The first loss is near ln V, because the first logits are small and not all equal."""
    first, spread, uniform = got.get("first"), got.get("spread"), expected["uniform"]
    if type(first) is not float or not abs(first - uniform) < 0.25:
        return f"with {expected['case']}: the first loss is {kind(first)}; ln V is {uniform:.3f}."
    if type(spread) is not float or not 1e-6 < spread < 0.8:
        return (
            f"with {expected['case']}: the first logits have a standard deviation of {kind(spread)}; expected 0 to 0.8."
        )
    return None


def learns(got: Answers, expected: Answers) -> str | None:
    last, reference, first = got.get("last"), expected["last"], expected["first"]
    band = 0.5 * (first - reference)
    if type(last) is not float or not abs(last - reference) < band:
        return f"with {expected['case']}: the last losses are {kind(last)} on average; expected about {reference:.3f}."
    if not equal(got.get("count"), expected["count"]):
        return f"with {expected['case']}: {kind(got.get('count'))} losses; expected {expected['count']}."
    return None


def rows_once(got: Answers, expected: Answers) -> str | None:
    """Every epoch draws each picture at most once, in full batches."""
    batches = items_of(got, "rows", len(expected["rows"]))
    size = len(expected["rows"][0])
    per_epoch = len({row for batch in expected["rows"] for row in batch}) // size
    for place, batch in enumerate(batches):
        epoch = batches[place - place % per_epoch : place]
        earlier = {row for rows in epoch for row in rows}
        rows = batch if isinstance(batch, list) and len(batch) == size and all(map(integer, batch)) else None
        if rows is None or len(set(rows)) < size or min(rows) < 0 or earlier & set(rows):
            said = "a picture is drawn twice in an epoch, or a batch does not have the batch size"
            return f"with {expected['case']}: batch {place + 1} is {kind(batch)}: {said}."
    return None


def batches_differ(got: Answers, expected: Answers) -> str | None:
    """Every step draws another batch, all of them from the text."""
    if not equal(got.get("shapes"), expected["shapes"]):
        said = f"the outputs of the training batches are {kind(got.get('shapes'))}"
        return f"with {expected['case']}: {said}; expected {len(expected['shapes'])} of shape {expected['shapes'][0]}."
    if not equal(got.get("outside"), expected["outside"]):
        return f"with {expected['case']}: {kind(got.get('outside'))} training windows are not in `tokens`."
    if not equal(got.get("different"), expected["different"]):
        steps = len(expected["shapes"])
        return f"with {expected['case']}: {steps} steps draw {kind(got.get('different'))} different batches."
    return None


def parts_are_apart(got: Answers, expected: Answers) -> str | None:
    """Training rows and validation rows share none, and are all rows together."""
    parts = {}
    for name in ("train rows", "val rows"):
        rows = got.get(name)
        if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype != np.int64:
            return f"with {expected['case']}: the {name} are {kind(rows)}."
        parts[name] = rows.tolist()
    train, val, case = parts["train rows"], parts["val rows"], expected["case"]
    if shared := sorted(set(train) & set(val)):
        return f"with {case}: {len(shared)} of {expected['held out']} validation pictures are training pictures, too."
    if sorted(train + val) != list(range(expected["pictures"])) or len(val) != expected["held out"]:
        said = f"{len(train)} pictures train and {len(val)} validate"
        return f"with {case}: {said}; all {expected['pictures']} do one of both, and {expected['held out']} validate."
    return None


def memory_stays(got: Answers, expected: Answers) -> str | None:
    """At no validation do graphs keep more tensors than one validation needs."""
    memory = items_of(got, "memory", expected["validations"])
    for place, (value, base) in enumerate(zip(memory, expected["base"], strict=False), start=1):
        if type(value) is not float or not -CLOSE < value - base < expected["one"] + CLOSE:
            extra = f"{value - base:.0f}" if type(value) is float and math.isfinite(value) else kind(value)
            said = f'at validation {place}, graphs keep {extra[:20]} tensors (log["memory"])'
            return f"with {expected['case']}: {said}; one validation needs at most {expected['one']}."
    return None


def encodes_once(got: Answers, expected: Answers) -> str | None:
    """`encode` gets no more characters than the text has, or than all windows have."""
    encoded: Any = got.get("encoded")
    if not integer(encoded) or not 0 < encoded <= expected["enough"]:
        return f"with {expected['case']}: `encode` gets {kind(encoded)} characters; {expected['enough']} are enough."
    count = len(expected["waiting"])
    for value in items_of(got, "waiting", count):
        if type(value) is not float or not 0 <= value <= 1:
            return f'with {expected["case"]}: log["waiting"] has {kind(value)}; expected {count} shares from 0 to 1.'
    return None


# -------------------------------------------------------------------------------------------------------- several ranks
def of_ranks(name: str) -> Judge:
    """A series of each rank's log equals the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        every = items_of(got, name, len(expected[name]))
        for rank, (values, wanted) in enumerate(zip(every, expected[name], strict=True)):
            if failure := series_failure(values, wanted, name, f"{expected['case']}, rank {rank}"):
                return failure
        return None

    return judge


def weights_of_ranks(got: Answers, expected: Answers) -> str | None:
    every = items_of(got, "weights", len(expected["weights"]))
    for rank, (values, wanted) in enumerate(zip(every, expected["weights"], strict=True)):
        if failure := weights_failure(values, wanted, expected["case"], f"rank {rank}"):
            return failure
    return None


def starts_equal(got: Answers, expected: Answers) -> str | None:
    """All ranks begin with the weights that one of them was given."""
    begins, case = items_of(got, "begins", len(expected["begins"])), expected["case"]
    for rank, given in enumerate(begins):
        if not integer(given) or not 0 <= given < len(begins):
            return f"with {case}: rank {rank} begins with weights that no rank was given."
        if given != begins[0]:
            said = f"rank 0 begins with the weights given to rank {begins[0]}, rank {rank} with those of rank {given}"
            return f"with {case}: {said}."
    firsts = items_of(got, "first", len(begins))
    for rank, (first, wanted) in enumerate(zip(firsts, expected["first"], strict=True)):
        right = wanted if begins[0] == expected["begins"][0] else first
        if not isinstance(first, list) or len(first) != 1 or type(first[0]) is not float or not 0 < first[0] < 100:
            return f"with {case}: the first loss of rank {rank} is {kind(first)}."
        if failure := series_failure(first, right, "loss", f"{case}, rank {rank}"):
            return failure
    return None


def trains_one_model(got: Answers, expected: Answers) -> str | None:
    """After a start with rank 0's weights all is as in the reference; after another start all ranks are equal."""
    if failure := starts_equal(got, expected):
        return failure
    if equal(got["begins"], expected["begins"]):
        return all_of(of_ranks("loss"), of_ranks("weight_sum"), weights_of_ranks)(got, expected)
    every = items_of(got, "weights", len(expected["weights"]))
    failures = (
        weights_failure(values, every[0], expected["case"], f"rank {rank}") for rank, values in enumerate(every)
    )
    if not isinstance(every[0], np.ndarray) or every[0].shape != expected["weights"][0].shape:
        return f"with {expected['case']}: rank 0 ends with {kind(every[0])} as weights."
    return next((failure for failure in failures if failure), None)


def nobody_waits_forever(got: Answers, expected: Answers) -> str | None:
    """The ranks come to an end."""
    if equal(got.get("stuck"), expected["stuck"]):
        return None
    calls, places = got.get("stuck"), got.get("places")
    if not isinstance(calls, list) or not isinstance(places, list):
        return f"the answer `stuck` is {kind(calls)}: the form that the probe gives it is a list."
    told = ", ".join(f"rank {rank} {shorten(place, 70)}" for rank, place in enumerate(places[:3]))
    return f"the ranks wait for each other forever: {told}."


def work_is_shared(got: Answers, expected: Answers) -> str | None:
    """Each validation picture passes through the model of one rank, and no rank has more than its part."""
    rows = items_of(got, "rows", len(expected["rows"]))
    total = expected["validations"] * expected["pictures"]
    most = expected["validations"] * -(-expected["pictures"] // len(rows))
    said = f"the ranks validate {shorten(rows, 60)} pictures"
    case = expected["case"]
    if not all(integer(count) and 0 <= count <= most for count in rows):
        return f"with {case}: {said}; {total} in all are at most {most} per rank."
    if sum(rows) != total:
        return f"with {case}: {said}; expected {total} in all."
    if not equal(got.get("timed"), expected["timed"]):
        return (
            f'with {case}: log["seconds"] has {kind(got.get("timed"))} numbers per rank; expected {expected["timed"]}.'
        )
    return None


def ranks_draw_apart(got: Answers, expected: Answers) -> str | None:
    """In each step the ranks have different batches, all of the batch size."""
    ranks, steps, size = len(expected["rows"]), len(expected["rows"][0]), len(expected["rows"][0][0])
    every = items_of(got, "rows", ranks)
    for rank, batches in enumerate(every):
        if not isinstance(batches, list) or len(batches) != steps:
            return f"with {expected['case']}: rank {rank} has {kind(batches)} batches; expected {steps}."
        for step, batch in enumerate(batches, start=1):
            whole = isinstance(batch, list) and len(batch) == size and all(integer(row) and row >= 0 for row in batch)
            if not whole:
                said = f"batch {step} of rank {rank} is {kind(batch)}"
                return f"with {expected['case']}: {said}; expected {size} of the pictures."
            if any(sorted(batch) == sorted(other[step - 1]) for other in every[:rank]):
                return f"with {expected['case']}: in step {step}, rank {rank} has the same pictures as a lower rank."
    return None


OF_EACH_RANK = ("loss", "true loss", "weights", "replayed weights")


def ranks_agree(got: Answers, expected: Answers) -> str | None:
    """Each rank logs the losses of its own batches, and all end with one model that has learned as the reference."""
    case = expected["case"]
    for rank in range(len(expected["loss"])):
        sides = [
            {name: items_of(answers, name, len(expected["loss"]))[rank] for name in OF_EACH_RANK}
            | {"case": f"{case}, rank {rank}"}
            for answers in (got, expected)
        ]
        if failure := honest("loss", "steps")(*sides) or replays(*sides):
            return failure
    finals = items_of(got, "final", len(expected["final"]))
    for rank, (value, wanted) in enumerate(zip(finals, expected["final"], strict=True)):
        if type(value) is not float or not 0.6 * wanted < value < 1.6 * wanted:
            said = f"rank {rank} ends with a loss of {kind(value)} on all pictures"
            return f"with {case}: {said}; expected about {wanted:.3f}."
        if not equal(value, finals[0], CLOSE):
            return f"with {case}: the models of rank 0 and of rank {rank} end with different losses on all pictures."
    return None


def series_of_first_epoch(got: Answers, expected: Answers) -> str | None:
    """The losses of the first epoch, whose order every right cure shares."""
    return series_failure(got.get("first epoch"), expected["first epoch"], "loss", expected["case"])


EXERCISES = (
    Exercise(
        name="cure_01",
        functions=("cure_01",),
        minutes=10,
        difficulty="easy",
        proves="you can keep the gradients of different updates apart",
        hints=(
            "Compare the gradient norms with those of the healthy run. At which step do they part?",
            "`backward` adds to `.grad`. Which line of the loop makes a gradient begin at 0?",
        ),
        checks=(
            Check(
                "cure_01/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_01",
                judge=all_of(series("loss", "gradient_norm"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_02",
        functions=("cure_02",),
        minutes=10,
        difficulty="easy",
        proves="you can make micro-batches give the gradient of the whole batch",
        hints=(
            "By which factor do the first gradient norms of patient and healthy run differ?",
            "The mean over a batch is the mean of its micro-batches' means. backward() only adds gradients up.",
        ),
        checks=(
            Check(
                "cure_02/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_02",
                judge=all_of(series("loss", "gradient_norm"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_03",
        functions=("cure_03",),
        minutes=10,
        difficulty="easy",
        proves="you can keep training and validation in their own modes",
        hints=(
            "What else changes for dropout and BatchNorm at the step where the training loss drops?",
            "A mode holds until another call changes it: follow it through the first validation.",
        ),
        checks=(
            Check(
                "cure_03/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_03",
                judge=all_of(series("loss", "val_loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_04",
        functions=("cure_04",),
        minutes=10,
        difficulty="easy",
        proves="you can validate the model that will be used",
        hints=(
            "The training losses agree with the healthy run's. Which layers compute something else for the same input?",
            "`no_grad` switches the recording of gradients. What switches dropout and BatchNorm?",
        ),
        checks=(
            Check(
                "cure_04/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_04",
                judge=all_of(series("loss", "val_loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_05",
        functions=("cure_05",),
        minutes=10,
        difficulty="easy",
        proves="you can give a loss function what it expects",
        hints=(
            "Compute the least loss that ten classes can have if every logit lies between 0 and 1.",
            "Read in torch's documentation what `cross_entropy` does with its input first.",
        ),
        checks=(
            Check(
                "cure_05/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_05",
                judge=all_of(series("loss", "accuracy"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_06",
        functions=("cure_06",),
        minutes=15,
        difficulty="medium",
        proves="you can match a schedule's length with its steps",
        hints=(
            "Print the learning rate of each batch. After how many batches is it 0?",
            "`total_iters` counts calls of `scheduler.step()`: one per batch, or one per epoch?",
        ),
        checks=(
            Check(
                "cure_06/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_06",
                judge=all_of(rates_fall, falls_as_reference, replays),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_07",
        functions=("cure_07",),
        minutes=15,
        difficulty="medium",
        proves="you can find parameters that no optimizer updates",
        hints=(
            "Compare the weights of each layer before and after the run. Which of them do not move?",
            "An optimizer holds the parameters that the model had when the optimizer was made.",
        ),
        checks=(
            Check(
                "cure_07/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_07",
                judge=all_of(series("loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_08",
        functions=("cure_08",),
        minutes=15,
        difficulty="medium",
        proves="you can find the place where a graph is cut",
        hints=(
            "Which parameters have a gradient of None after the backward pass?",
            "Follow the features from the encoder to the head. Where does the tensor lose its `grad_fn`?",
        ),
        checks=(
            Check(
                "cure_08/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_08",
                judge=all_of(series("loss", "feature_norm"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_09",
        functions=("cure_09",),
        minutes=15,
        difficulty="medium",
        proves="you can read the first loss",
        hints=(
            "What loss does a model have that gives all tokens the same probability?",
            "How large are the first logits? Which standard deviation is the default of `nn.init.normal_`?",
        ),
        checks=(
            Check(
                "cure_09/start",
                "begins with a loss near ln V",
                points=1,
                probe="cure_09",
                judge=all_of(text_equals("batches", "a batch and its output"), starts_uniform),
                seconds=5.0,
                tolerance=CLOSE,
            ),
            Check(
                "cure_09/learns",
                "learns from there",
                points=1,
                probe="cure_09",
                judge=all_of(text_equals("batches", "a batch and its output"), learns, replays),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_10",
        functions=("cure_10",),
        minutes=10,
        difficulty="easy",
        proves="you can keep inputs and labels together",
        hints=(
            "Take one batch and look: does each picture show its label?",
            "Every index that is applied to the pictures must be applied to the labels.",
        ),
        checks=(
            Check(
                "cure_10/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_10",
                judge=all_of(series_of_first_epoch, rows_once, honest("loss", "steps")),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_11",
        functions=("cure_11",),
        minutes=15,
        difficulty="medium",
        proves="you can draw a new batch in every step",
        hints=(
            "Print the starts of the first three steps.",
            "A generator with a seed gives a sequence. Where does this sequence begin, in each step?",
        ),
        checks=(
            Check(
                "cure_11/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_11",
                judge=all_of(batches_differ, honest("loss", "steps"), honest("val_loss", "validations"), replays),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_12",
        functions=("cure_12",),
        minutes=10,
        difficulty="easy",
        proves="you can shift targets against inputs",
        hints=(
            "Decode the first row of inputs and of targets. What is the model asked to predict?",
            "A window has `block_size` + 1 tokens: all but the last are inputs, and all but the first are targets.",
        ),
        checks=(
            Check(
                "cure_12/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_12",
                judge=all_of(series("loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_13",
        functions=("cure_13",),
        minutes=20,
        difficulty="medium",
        proves="you can keep the future from a causal model",
        hints=(
            "Change the last token of an input. Which outputs change?",
            "A position attends to itself and to earlier ones: scores of later ones become -inf before the softmax.",
        ),
        checks=(
            Check(
                "cure_13/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_13",
                judge=all_of(series("loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_14",
        functions=("cure_14",),
        minutes=15,
        difficulty="medium",
        proves="you can split data so that validation measures generalization",
        hints=(
            "Which rows are in both parts? Compare the two index tensors as sets.",
            "If the training rows are all but the last ones, which rows are left to validate?",
        ),
        checks=(
            Check(
                "cure_14/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_14",
                judge=all_of(
                    parts_are_apart,
                    honest("loss", "batches"),
                    honest("val_loss", "validations"),
                    text_equals("val modes", "the mode of the validation"),
                    replays,
                ),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_15",
        functions=("cure_15",),
        minutes=15,
        difficulty="medium",
        proves="you can find tensors that keep their graphs alive",
        hints=(
            "What does each entry of `val_losses` hold besides a number?",
            "A tensor with a `grad_fn` keeps the activations of its forward pass. Keep numbers, or record no graph.",
        ),
        checks=(
            Check(
                "cure_15/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_15",
                judge=all_of(series("loss", "val_loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
            Check(
                "cure_15/memory",
                "keeps no graph from validation to validation",
                points=1,
                probe="cure_15",
                judge=memory_stays,
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_16",
        functions=("cure_16",),
        minutes=10,
        difficulty="easy",
        proves="you can do work once that need not be repeated",
        hints=(
            "Which line takes the time between the beginning of a step and its forward pass?",
            "Does its result differ from step to step?",
        ),
        checks=(
            Check(
                "cure_16/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_16",
                judge=all_of(series("loss"), weights, encodes_once),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_17",
        functions=("cure_17",),
        minutes=10,
        difficulty="easy",
        proves="you can read the shapes in an error",
        hints=(
            "Which of the two shapes in the message is the head's? What does the other one consist of?",
            "One row per picture, with all its features: which dimensions must be joined?",
        ),
        checks=(
            Check(
                "cure_17/healthy",
                "trains as the healthy run does",
                points=1,
                probe="cure_17",
                judge=all_of(series("loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_18",
        functions=("cure_18",),
        minutes=10,
        difficulty="easy",
        proves="you can move data to a model's device",
        hints=(
            "What does `x.to(device)` change, and what does it return?",
            "Assign the result, for pictures and labels.",
        ),
        checks=(
            Check(
                "cure_18/device",
                "trains on another device",
                points=1,
                probe="cure_18_elsewhere",
                judge=all_of(
                    text_equals("batches", "the batch of step"),
                    text_equals("loss", 'log["loss"]'),
                    text_equals("weights on", "the device of the weights"),
                ),
                seconds=5.0,
                tolerance=CLOSE,
            ),
            Check(
                "cure_18/numbers",
                "trains on the CPU as before",
                points=1,
                probe="cure_18",
                judge=all_of(series("loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_19",
        functions=("cure_19",),
        minutes=10,
        difficulty="easy",
        proves="you can keep a loss connected to the parameters",
        hints=(
            "Which of the tensors on the way to `loss` has no `grad_fn`?",
            "`torch.tensor` makes a new tensor of numbers. What joins tensors?",
        ),
        checks=(
            Check(
                "cure_19/healthy",
                "trains as the healthy run does",
                points=1,
                probe="cure_19",
                judge=all_of(series("loss"), weights),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_20",
        functions=("cure_20",),
        minutes=10,
        difficulty="easy",
        proves="you can bring data from NumPy to a model",
        hints=(
            "Which dtype does NumPy's mean have, and so the normalized pictures?",
            "Convert the data, which are small, and not the model.",
        ),
        checks=(
            Check(
                "cure_20/healthy",
                "trains as the healthy run does",
                points=1,
                probe="cure_20",
                judge=all_of(series("loss"), weights, text_equals("dtypes", "the dtype of the weights")),
                seconds=5.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_21",
        functions=("cure_21",),
        minutes=15,
        difficulty="medium",
        proves="you can make ranks train one model",
        hints=(
            "Compare the weights of the ranks before the first step.",
            "Averaged gradients move all ranks alike. What must be equal before?",
        ),
        checks=(
            Check(
                "cure_21/start",
                "starts all ranks with equal weights",
                points=1,
                probe="cure_21",
                judge=starts_equal,
                seconds=10.0,
                tolerance=CLOSE,
            ),
            Check(
                "cure_21/healthy",
                "trains as the healthy run does",
                points=1,
                probe="cure_21",
                judge=trains_one_model,
                seconds=10.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_22",
        functions=("cure_22",),
        minutes=20,
        difficulty="medium",
        proves="you can share work between ranks",
        hints=(
            "Which lines does only one rank run? What do the others do meanwhile?",
            "Let each rank validate every K-th picture, and add up sums, not means: the parts may differ in size.",
        ),
        checks=(
            Check(
                "cure_22/healthy",
                "trains as the healthy run does",
                points=1,
                probe="cure_22",
                judge=all_of(of_ranks("loss"), weights_of_ranks, series("val_loss")),
                seconds=10.0,
                tolerance=CLOSE,
            ),
            Check(
                "cure_22/share",
                "validates each picture on one rank",
                points=2,
                probe="cure_22",
                judge=work_is_shared,
                seconds=10.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_23",
        functions=("cure_23",),
        minutes=15,
        difficulty="medium",
        proves="you can read where ranks hang",
        hints=(
            "In which line does each rank wait? Which rank never comes there?",
            "Every rank must call every collective of its group. What only rank 0 does must contain none.",
        ),
        checks=(
            Check(
                "cure_23/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_23",
                judge=all_of(nobody_waits_forever, series("loss"), weights_of_ranks),
                seconds=10.0,
                tolerance=CLOSE,
            ),
        ),
    ),
    Exercise(
        name="cure_24",
        functions=("cure_24",),
        minutes=15,
        difficulty="medium",
        proves="you can give each rank data of its own",
        hints=(
            "Compare the losses of the ranks, digit by digit.",
            "What does the generator's seed depend on, and what not?",
        ),
        checks=(
            Check(
                "cure_24/healthy",
                "trains as the healthy run does",
                points=2,
                probe="cure_24",
                judge=all_of(ranks_draw_apart, ranks_agree),
                seconds=10.0,
                tolerance=CLOSE,
            ),
        ),
    ),
)
