"""Lab 10, checks: what each exercise's code must do, for how many points, and how a mistake is worded."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    all_of,
    equals_reference,
    is_of_type,
    mismatch_text,
    number_equals,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

FP32 = 1e-5  # sums and quotients in fp32 differ by about 1e-6 of a number


def items(got: object, expected: list[Any]) -> list[Any]:
    """Returns the list `got` if it is as long as `expected`, and otherwise as many times None."""
    return got if isinstance(got, list) and len(got) == len(expected) else [None] * len(expected)


def holds(name: str, failure: str) -> Judge:
    """Passes if the answer `name` equals the reference's; the failure is one sentence."""
    return equals_reference(name, 0, lambda *_: failure)


def forms_equal(*subjects: str) -> Judge:
    """Passes if each text of the list `forms` is the reference's; `subjects` name the values."""

    def judge(got: Answers, expected: Answers) -> str | None:
        forms = items(got.get("forms"), expected["forms"])
        for subject, form, reference in zip(subjects, forms, expected["forms"], strict=True):
            if not equal(form, reference):
                return f"{subject} is {shorten(form)}; expected {reference}."
        return None

    return judge


def form_equals(subject: str) -> Judge:
    """Passes if the text `form` is the reference's."""
    return equals_reference("form", 0, lambda got, want: f"{subject} is {shorten(got)}; expected {want}.")


def array_equals(name: str, subject: str, tolerance: float = 0.0, axes: str = "") -> Judge:
    """Passes if the array `name` equals the reference's; the failure names the first number that differs."""

    def judge(got: Answers, expected: Answers) -> str | None:
        array, reference = got.get(name), expected[name]
        if not isinstance(array, np.ndarray) or array.shape != reference.shape or array.dtype != reference.dtype:
            return f"{subject}: no tensor of numbers in the right shape came back."
        if equal(array, reference, tolerance):
            return None
        apart = ~np.isclose(array, reference, rtol=tolerance, atol=tolerance, equal_nan=True)
        place = tuple(int(index) for index in np.argwhere(apart)[0]) if apart.any() else (0,) * array.ndim
        where = f"{subject}[{', '.join(map(str, place))}]" + f" ({axes})" * bool(axes)
        return f"{where} {mismatch_text(float(array[place]), float(reference[place]))}"

    return judge


def unchanged(name: str) -> Judge:
    """Passes if the answer `unchanged` is True; the report adds the name of the argument."""
    return holds("unchanged", f"{name} is not as it was before the call.")


def row_text(row: object) -> str:
    """Returns a row of whole numbers as a list, as short as it can be."""
    numbers = row.tolist() if isinstance(row, np.ndarray) and row.ndim == 1 else row
    if isinstance(numbers, list) and all(isinstance(number, float) and number.is_integer() for number in numbers):
        numbers = [int(number) for number in numbers]
    return shorten(numbers, 100)


def rows_equal(*names: str) -> Judge:
    """Passes if each of these arrays equals the reference's; the failure shows the first row that differs."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            rows, reference = got.get(name), expected[name]
            if equal(rows, reference):
                continue
            if not isinstance(rows, np.ndarray) or rows.shape != reference.shape:
                return f"{name}: no tensor of the right shape came back."
            for number, (row, right) in enumerate(zip(rows, reference, strict=True)):
                if not equal(row, right):
                    return f"row {number} of {name} is {row_text(row)}; expected {row_text(right)}."
            return f"{name} holds other numbers than expected."
        return None

    return judge


# ------------------------------------------------------------------------------------------------------------ evaluate
RESULT = "the mean loss", "the share of right predictions"


def result_equals(got: Answers, expected: Answers) -> str | None:
    """The loss and the share of right predictions."""
    results = items(got.get("result"), expected["result"])
    types = items(got.get("types"), expected["types"])
    for subject, result, kind, reference in zip(RESULT, results, types, expected["result"], strict=True):
        if not equal(kind, "float"):
            return f"{subject} is of type {shorten(kind)}; a Python float was expected."
        if not equal(result, reference, FP32):
            return f"{subject} {mismatch_text(result, reference)}"
    return None


def samples_read(got: Answers, expected: Answers) -> str | None:
    """Each sample is read once, and no batch is too large."""
    reads = items(got.get("reads"), expected["reads"])
    if not equal(reads, expected["reads"]):
        number = next(number for number, read in enumerate(reads) if not equal(read, 1))
        return f"sample {number} of {len(reads)} was read {shorten(reads[number])} times; expected 1."
    large = got.get("too large")
    return None if equal(large, 0) else f"{shorten(large)} batches had more than batch_size samples."


def modes_equal(name: str) -> Judge:
    """Passes if the evaluation `name` ended as expected and each module has the mode that it had."""
    when = f"after an evaluation {name}"

    def judge(got: Answers, expected: Answers) -> str | None:
        ended, before, after = items(got.get(name), expected[name])
        reference = expected[name]
        if not equal(ended, reference[0]):
            return f"{when}, evaluate ended with {shorten(ended)}; expected {reference[0]}."
        if not equal(before, reference[1]):
            return "the answers do not have the form that the probe gives them."
        for number, (mode, right) in enumerate(zip(items(after, reference[2]), reference[2], strict=True)):
            if not equal(mode, right):
                module = f"part {number} of the model" if number else "the model"
                words = {True: "train", False: "eval"}
                return f"{when}, {module} is in {words[not right]} mode; it was in {words[right]} mode before."
        return None

    return judge


# ------------------------------------------------------------------------------------------- ranks, workers and epochs
def times_text(times: object, expected: list[int], thing: str = "sample") -> str | None:
    """Returns what is wrong with how often each sample comes; None if each comes once and nothing else does."""
    found = items(times, expected)
    if equal(found, expected):
        return None
    if not equal(found[-1], expected[-1]):
        return f"{shorten(found[-1])} of the {thing}s that came are none of the {len(expected) - 1}."
    number = next((number for number, count in enumerate(found[:-1]) if not equal(count, expected[number])), 0)
    others = sum(1 for count in found[:-1] if not equal(count, 1)) - 1
    also = f" Of {len(found) - 1} {thing}s, {others} more are read too often or not at all." if others > 0 else ""
    return f"{thing} {number} comes {shorten(found[number])} times; expected once.{also}"


def each_once(got: Answers, expected: Answers) -> str | None:
    """In each case, each sample comes once, in shares that are tensors."""
    forms = got.get("forms")
    if not equal(forms, expected["forms"]):
        some = forms if isinstance(forms, list) else [forms]
        wrong = next((form for form in some if not equal(form, "int64 [n]")), None)
        return f"a share is {shorten(wrong)}; expected a tensor int64 [n]."
    for case, times, reference in zip(
        expected["cases"], items(got.get("times"), expected["times"]), expected["times"], strict=True
    ):
        if failure := times_text(times, reference):
            return f"{case_text(case)}: {failure}"
    return None


def case_text(case: list[int]) -> str:
    size, _, _, ranks, workers = case
    return f"{size} samples on {ranks} ranks of {workers} workers"


def sizes_equal(got: Answers, expected: Answers) -> str | None:
    """In each case, the shares are as equal as they can be."""
    for case, sizes, reference in zip(
        expected["cases"], items(got.get("sizes"), expected["sizes"]), expected["sizes"], strict=True
    ):
        ranks, workers = items(sizes, reference)
        if not equal(ranks, reference[0]):
            return f"{case_text(case)}: the ranks read {shorten(ranks)}; expected {reference[0]}, in some order."
        if not equal(workers, reference[1]):
            pairs = zip(items(workers, reference[1]), reference[1], strict=True)
            wrong = next((counts for counts, right in pairs if not equal(counts, right)), None)
            return f"{case_text(case)}: the workers of a rank read {shorten(wrong)}; they may differ by one."
    return None


def orders_differ(got: Answers, expected: Answers) -> str | None:
    """Orders are random, differ by epoch and by seed, and repeat."""
    if not equal(got.get("size"), expected["size"]):
        return "the answer `size` does not have the form that the probe gives it."
    if not equal(got.get("in order"), expected["in order"]):
        return "neighboring samples follow one another: the order is not random."
    epochs, right = got.get("epochs"), expected["epochs"]
    if not equal(epochs, right):
        return f"{right} epochs of one seed have {shorten(epochs)} different orders; expected {right}."
    if not equal(got.get("pairs"), expected["pairs"]):
        return (
            f"8 pairs of seed and epoch, such as (1, 2) and (2, 1), have {shorten(got.get('pairs'))} different "
            "orders; expected 6."
        )
    if not equal(got.get("same samples"), expected["same samples"]):
        return "rank 0 of 2 reads the same samples in two epochs; expected others."
    if not equal(got.get("repeats"), expected["repeats"]):
        return (
            f"drawn a second time, {shorten(got.get('repeats'))} of {expected['repeats']} orders are the same; "
            "expected all: the order is a function of seed and epoch alone."
        )
    return None


GENERATORS = "random.random()", "np.random.random()", "torch.rand(1)"


def next_numbers_equal(name: str, when: str) -> Judge:
    """Passes if the global generators give the numbers that they give without the function."""

    def judge(got: Answers, expected: Answers) -> str | None:
        numbers = items(got.get(name), expected[name])
        for generator, number, reference in zip(GENERATORS, numbers, expected[name], strict=True):
            if not equal(number, reference):
                return f"{when}, {generator} gives another number than it would have: a global generator was used."
        return None

    return judge


def generators_equal(name: str, failure: str) -> Judge:
    """Passes if the counts of the list `name`, one for each generator, are the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        counts = items(got.get(name), expected[name])
        for generator, count, reference in zip(GENERATORS, counts, expected[name], strict=True):
            if not equal(count, reference):
                return failure.format(generator=generator, got=shorten(count), expected=reference)
        return None

    return judge


def changes_counted(got: Answers, expected: Answers) -> str | None:
    """A change of any of the four numbers changes what each generator draws."""
    rows = zip(
        ("seed", "epoch", "rank", "worker"),
        items(got.get("changed"), expected["changed"]),
        expected["changed"],
        strict=True,
    )
    for name, counts, references in rows:
        for generator, count, reference in zip(GENERATORS, items(counts, references), references, strict=True):
            if not equal(count, reference):
                return (
                    f"with another {name}, {generator} gives another first number in {shorten(count)} of "
                    f"{reference} cases; expected all."
                )
    return None


def seeds_differ(got: Answers, expected: Answers) -> str | None:
    """No two workers start the same numbers; a failure names two."""
    answers = [items(got.get(name), expected[name]) for name in ("of sums", "different", "pairs")]
    for generator, of_sums, different, pair, right_of_sums, right in zip(
        GENERATORS, *answers, expected["of sums"], expected["different"], strict=True
    ):
        if not equal(of_sums, right_of_sums):
            return (
                f"{right_of_sums} workers were seeded by four numbers that differ, but have the same sum: {generator} "
                f"gave {shorten(of_sums)} different first numbers; expected {right_of_sums}."
            )
        if not equal(different, right) or not equal(pair, []):
            first, second = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
            return (
                f"{right} workers start {shorten(different)} different numbers with {generator}. Seed, epoch, rank "
                f"and worker of two that start alike: {shorten(first)}, {shorten(second)}."
            )
    return None


def large_seeds_work(got: Answers, expected: Answers) -> str | None:
    """No seed is too large."""
    if equal(got.get("right"), expected["right"]) and equal(got.get("ended"), expected["ended"]):
        return None
    ended = got.get("ended")
    names = ", ".join(map(str, ended)) if isinstance(ended, list) else ended
    return f"with a number of more than 32 bits, seed_worker ended with {shorten(names)}; expected no error."


# ---------------------------------------------------------------------------------------------------------- TextStream
def windows_equal(got: Answers, expected: Answers) -> str | None:
    """Each window comes once, in the right form, with its tokens and targets."""
    if not equal(got.get("forms"), expected["forms"]):
        given = got.get("forms")
        forms = given if isinstance(given, list) else []
        wrong = next((form for form in forms if not any(equal(form, right) for right in expected["forms"])), forms)
        return f"a sample has {shorten(wrong)}; expected {'; '.join(expected['forms'])}."
    if failure := times_text(got.get("windows"), expected["windows"], "window"):
        return f"rank 0 of 1, without workers: {failure}"
    for name in ("x", "y"):
        rows = items(got.get(name), expected[name])
        for number, (row, reference) in enumerate(zip(rows, expected[name], strict=True)):
            if not equal(row, reference):
                return f"{name} of window {number} is {shorten(row)}; expected {reference}."
    return None


def stream_case(case: list[int]) -> str:
    return "{} ranks of {} workers, {} windows".format(*case)


def stream_shares(got: Answers, expected: Answers) -> str | None:
    """Each window comes once over all ranks and workers, in shares as equal as they can be."""
    where = stream_case(expected["case"])
    if failure := times_text(got.get("times"), expected["times"], "window"):
        return f"{where}: {failure}"
    if not equal(got.get("sizes"), expected["sizes"]):
        return f"{where}: the workers read {shorten(got.get('sizes'))} windows; expected {expected['sizes']}."
    numbers = got.get("numbers")
    return None if equal(numbers, expected["numbers"]) else f'{where}: the "worker" of some samples is another worker.'


def stream_epochs_differ(got: Answers, expected: Answers) -> str | None:
    """Each epoch has each window once, and epochs have several orders."""
    for workers, epochs, reference in zip(
        ("without workers", "with workers"), items(got.get("times"), expected["times"]), expected["times"], strict=True
    ):
        for number, (times, right) in enumerate(zip(items(epochs, reference), reference, strict=True)):
            if failure := times_text(times, right, "window"):
                return f"2 ranks {workers}, epoch {number}: {failure}"
    different = items(got.get("different"), expected["different"])
    if equal(different, expected["different"]):
        return None
    wrong = next((count for count in different if not equal(count, 3)), None)
    return f"the number of different orders in 3 epochs is {shorten(wrong)}; expected 3."


def resumed_text(case: list[int]) -> str:
    ranks, workers, size, epochs, batches = case
    return f"{ranks} ranks of {workers} workers, stopped in epoch {epochs} after {batches} batches of {size}"


def resumes(got: Answers, expected: Answers) -> str | None:
    """In each case, each window comes once in the interrupted epoch, and it is that of the uninterrupted run."""
    times, same = (items(got.get(name), expected[name]) for name in ("times", "same"))
    for number, case in enumerate(expected["cases"]):
        if failure := times_text(times[number], expected["times"][number], "window"):
            return f"{resumed_text(case)}, resumed: {failure}"
        if not equal(same[number], expected["same"][number]):
            return f"{resumed_text(case)}, resumed: other windows come than in a run that never stopped."
    return None


def stopped_often(got: Answers, expected: Answers) -> str | None:
    """Each window comes once per epoch."""
    for number, (times, right) in enumerate(
        zip(items(got.get("times"), expected["times"]), expected["times"], strict=True)
    ):
        if failure := times_text(times, right, "window"):
            return f"{expected['workers']} workers, stopped after every batch or two, epoch {number}: {failure}"
    return None


def state_is_small(got: Answers, expected: Answers) -> str | None:
    """The state does not grow with the text, and does not change afterwards."""
    if not equal(got.get("grows"), expected["grows"]):
        return "the state of a longer text is longer: it lists windows; expected a few numbers per worker."
    for change, count, right in zip(
        ("the stream goes on", "another stream has loaded it and goes on"),
        items(got.get("changed"), expected["changed"]),
        expected["changed"],
        strict=True,
    ):
        if not equal(count, right):
            return f"a state that state_dict returned changes while {change}."
    read = got.get("read")
    return (
        None
        if equal(read, expected["read"])
        else f"the streams read {shorten(read)} windows; expected {expected['read']}."
    )


REFUSED = (
    *("a state of one worker more", "a state of one worker less", "a state of one rank more"),
    "a state without workers in a stream of one worker",
)


def refusals(got: Answers, expected: Answers) -> str | None:
    """States of other ranks and workers are refused, and change nothing."""
    for subject, ended, reference in zip(
        REFUSED, items(got.get("ended"), expected["ended"]), expected["ended"], strict=True
    ):
        if not equal(ended, reference):
            return f"{subject}: load_state_dict ended with {shorten(ended)}; expected {reference}."
    read = got.get("read")
    return None if equal(read, expected["read"]) else "after a state was refused, the stream reads other windows."


# --------------------------------------------------------------------------------------------------------------- texts
PARTS = "tokens", "targets", "documents", "positions"


def rows_of(*names: str) -> Judge:
    """Passes if these parts of the packed rows are the reference's, in form and numbers."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            form, reference = got.get(f"form of {name}"), expected[f"form of {name}"]
            if not equal(form, reference):
                return f"{name} is {shorten(form)}; expected {reference}."
        return rows_equal(*names)(got, expected)

    return judge


def mask_equals(got: Answers, expected: Answers) -> str | None:
    """Each token attends to what it may."""
    if not equal(got.get("form"), expected["form"]):
        return f"the mask is {shorten(got.get('form'))}; expected {expected['form']}."
    mask, reference = got.get("mask"), expected["mask"]
    if equal(mask, reference):
        return None
    if not isinstance(mask, np.ndarray) or mask.shape != reference.shape or not (mask != reference).any():
        return "the mask does not have the form that the probe gives it."
    row, _, query, key = (int(place) for place in np.argwhere(mask != reference)[0])
    may, should = ("may" if value else "may not" for value in (mask[row, 0, query, key], reference[row, 0, query, key]))
    documents = row_text(expected["documents"][row])
    return f"of the documents {documents}, token {query} {may} attend to token {key}; it {should}, by the contract."


def attention_is_finite(got: Answers, expected: Answers) -> str | None:
    """No token of attention's output is nan."""
    attended = items(got.get("attended"), expected["attended"])
    if equal(attended, expected["attended"]):
        return None
    return f"{shorten(attended[0])} numbers that attention gives with this mask are nan; expected 0."


# -------------------------------------------------------------------------------------------------------------- tokens
def cases_equal(name: str, describe: Callable[[Answers, int], str]) -> Judge:
    """Passes if each answer of the list `name` is the reference's; `describe(expected, number)` names the case."""

    def judge(got: Answers, expected: Answers) -> str | None:
        answers = items(got.get(name), expected[name])
        for number, (answer, reference) in enumerate(zip(answers, expected[name], strict=True)):
            if not equal(answer, reference):
                found = "something of another type" if answer is None else shorten(answer, 120)
                return f"{describe(expected, number)} is {found}; expected {shorten(reference, 120)}."
        return None

    return judge


def pair_counts(got: Answers, expected: Answers) -> str | None:
    """The count of each pair, of each list."""
    for tokens, counts, reference in zip(
        expected["lists"], items(got.get("counts"), expected["counts"]), expected["counts"], strict=True
    ):
        if equal(counts, reference):
            continue
        if not isinstance(counts, list):
            return "count_pairs returned no dict."
        wrong = next((pair for pair in reference if not any(equal(pair, other) for other in counts)), None)
        if wrong is None:
            return f"in {shorten(tokens)} count_pairs finds pairs that do not occur."
        found = next((p[1] for p in counts if isinstance(p, list) and len(p) == 2 and equal(p[0], wrong[0])), 0)
        return f"in {shorten(tokens)} the pair {tuple(wrong[0])} occurs {wrong[1]} times; got {shorten(found)}."
    return None


def learned_equal(got: Answers, expected: Answers) -> str | None:
    """The merges of each text, in their order."""
    for text, merges, reference in zip(
        expected["texts"], items(got.get("learned"), expected["learned"]), expected["learned"], strict=True
    ):
        if equal(merges, reference):
            continue
        where = f"the text {shorten(repr(text), 50)}"
        if not isinstance(merges, list):
            return f"{where}: train_bpe returned no list of pairs of ints."
        for number, (merge, right) in enumerate(zip(merges, reference, strict=False)):
            if not equal(merge, right):
                return f"{where}: merge {number} is {shorten(merge)}; expected {right}."
        return f"{where}: {len(merges)} merges; expected {len(reference)}."
    return None


def tokens_equal(got: Answers, expected: Answers) -> str | None:
    """The tokens of each text; a failure shows the first that differs."""
    answers = items(got.get("tokens"), expected["tokens"])
    for text, merges, tokens, reference in zip(
        expected["texts"], expected["merges"], answers, expected["tokens"], strict=True
    ):
        if equal(tokens, reference):
            continue
        where = f"encode({text!r}, {merges})".replace("[", "(").replace("]", ")")
        if not isinstance(tokens, list):
            return f"{where} is no list of ints."
        for number, (token, right) in enumerate(zip(tokens, reference, strict=False)):
            if not equal(token, right):
                return f"{where}: token {number} is {shorten(token)}; expected {right}."
        return f"{where}: {len(tokens)} tokens; expected {len(reference)}."
    return None


def merge_case(expected: Answers, number: int) -> str:
    tokens, pair, new = expected["cases"][number]
    return f"merge_pair({shorten(tokens, 100)}, {tuple(pair)}, {new})"


# -------------------------------------------------------------------------------------------------------- reading ahead
def received(got: Answers, expected: Answers) -> str | None:
    """The caller gets the items in their order, then the error or StopIteration."""
    values = got.get("got")
    if equal(values, expected["got"]):
        return None
    if not isinstance(values, list):
        return "the answer `got` does not have the form that the probe gives it."
    for number, reference in enumerate(expected["got"]):
        value = values[number] if number < len(values) else "nothing"
        if not equal(value, reference):
            outcome = "waits forever" if equal(value, "still waiting") else f"gives {shorten(value)}"
            return f"call {number + 1} of next {outcome}; expected {shorten(reference)}."
    return f"{len(values)} calls of next came back; expected {len(expected['got'])}."


def drawn_counts(got: Answers, expected: Answers) -> str | None:
    """As many items are drawn as may be, and no more."""
    if failure := received(got, expected):
        return failure
    counts, ahead = items(got.get("drawn"), expected["drawn"]), expected["ahead"]
    for number, (count, reference) in enumerate(zip(counts, expected["drawn"], strict=True)):
        if not equal(count, reference):
            after = f"after {number} calls of next"
            return f"with ahead={ahead}, {shorten(count)} items are drawn {after}; expected {reference}."
    return None


def closes(got: Answers, expected: Answers) -> str | None:
    """close returns, the thread has ended, and nothing comes afterwards."""
    if failure := received(got, expected):
        return failure
    ended = items(got.get("ended"), expected["ended"])
    for call, result in zip(("close", "a second close"), ended, strict=True):
        if not equal(result, "None"):
            return f"{call}, while the thread waits for room: {shorten(result)}; expected that it returns."
    if not equal(got.get("alive"), expected["alive"]):
        return f"when close has returned, {shorten(got.get('alive'))} thread still runs; expected 0."
    if not equal(got.get("drawn"), expected["drawn"]):
        return f"{shorten(got.get('drawn'))} items were drawn after close; expected 0."
    after = items(got.get("after"), expected["after"])
    if equal(after, expected["after"]):
        return None
    wrong = next((value for value in after if not equal(value, "StopIteration")), None)
    return f"next after close gives {shorten(wrong)}; expected StopIteration."


def closes_while_drawing(got: Answers, expected: Answers) -> str | None:
    """close waits for the item that is being drawn, and no other is drawn."""
    if failure := received(got, expected):
        return failure
    if not equal(got.get("early"), expected["early"]):
        return "close returned while the thread was drawing an item; expected that it waits for the thread's end."
    if not equal(got.get("returned"), expected["returned"]):
        found = shorten(got.get("returned"))
        right = expected["returned"]
        return f"close returned when {found} items were drawn; expected {right}, with the item under way."
    if not equal(got.get("alive"), expected["alive"]):
        return f"when close has returned, {shorten(got.get('alive'))} thread still runs; expected 0."
    drawn = got.get("drawn")
    right = expected["drawn"]
    return None if equal(drawn, right) else f"{shorten(drawn)} items are drawn; expected {right}."


THREADS = all_of(
    received,
    holds("own", "items are drawn in the thread that calls next; expected another thread."),
    equals_reference("threads", 0, lambda got, _: f"{shorten(got)} threads draw items; expected 1."),
    equals_reference("left", 0, lambda got, _: f"after the last item, threads: {shorten(got)}; expected: ended."),
)

EXERCISES = (
    Exercise(
        name="channel_statistics",
        functions=("channel_statistics",),
        minutes=10,
        difficulty="easy",
        proves="you can compute the statistics that normalize pictures, for each channel",
        hints=(
            "Which dimensions of [N, H, W, C] does a channel's mean go over? All but the last.",
            "uint8 overflows at 255, and a difference of two large, nearly equal sums loses digits: convert first, and "
            "let torch.std compute from the differences to the mean. correction=0 divides by N H W.",
        ),
        checks=(
            Check(
                "channel_statistics/values",
                "gives each channel its mean and standard deviation, from 0 to 1",
                points=4,
                probe="statistics",
                judge=all_of(
                    forms_equal("the mean", "the standard deviation"),
                    array_equals("mean", "mean", FP32),
                    array_equals("std", "std", FP32),
                    unchanged("images"),
                ),
                tolerance=FP32,
            ),
            Check(
                "channel_statistics/accurate",
                "is accurate where many pixels are nearly alike",
                points=2,
                probe="statistics_of_flat_pictures",
                judge=all_of(
                    forms_equal("the mean", "the standard deviation"),
                    array_equals("mean", "mean", 2e-6),
                    array_equals("std", "std", 2e-6),
                ),
                requires=("channel_statistics/values",),
            ),
        ),
    ),
    Exercise(
        name="prepare",
        functions=("prepare",),
        minutes=20,
        difficulty="medium",
        proves="you can turn decoded pictures into a normalized batch, and augment training data alone",
        hints=(
            "Three steps: shift the bytes (only with a generator), normalize, change the order of the dimensions.",
            "permute changes the order of the dimensions; view and reshape keep the order of the numbers and change "
            "only the shape. contiguous() after permute puts the numbers in their new order in memory.",
            "Pad each picture with 2 rows and columns of zeros on every side. The picture shifted by dy, dx is the "
            "part of the padded picture that begins at row 2 - dy and column 2 - dx.",
        ),
        checks=(
            Check(
                "prepare/normalized",
                "gives float32 [B, C, H, W], each channel normalized with its own numbers",
                points=3,
                probe="prepared",
                judge=all_of(
                    form_equals("the batch"),
                    array_equals("batch", "batch", FP32, "picture, channel, row, column"),
                    unchanged("an argument"),
                ),
                tolerance=FP32,
            ),
            Check(
                "prepare/contiguous",
                "gives a contiguous batch",
                points=1,
                probe="strides",
                judge=equals_reference(
                    "strides", 0, lambda got, want: f"the batches have strides {shorten(got)}; contiguous: {want}."
                ),
                requires=("prepare/normalized",),
            ),
            Check(
                "prepare/validation",
                "is not random without a generator",
                points=2,
                probe="without_generator",
                judge=all_of(
                    array_equals("first", "batch", FP32, "picture, channel, row, column"),
                    array_equals("second", "the same batch, a second time: batch", FP32),
                    next_numbers_equal("numbers", "after prepare without a generator"),
                ),
                requires=("prepare/normalized",),
                tolerance=FP32,
            ),
            Check(
                "prepare/shifted",
                "shifts each training picture by its own dy and dx, and fills with 0 before it normalizes",
                points=4,
                probe="shifted",
                judge=all_of(
                    form_equals("the batch"),
                    array_equals("batch", "batch", FP32, "picture, channel, row, column"),
                    unchanged("an argument"),
                ),
                requires=("prepare/normalized",),
                tolerance=FP32,
            ),
            Check(
                "prepare/generator",
                "draws from the given generator, B pairs per batch, and from no other",
                points=2,
                probe="numbers_drawn",
                judge=all_of(
                    equals_reference(
                        "own",
                        0,
                        lambda *_: "after two batches, the given generator has not drawn what two batches need.",
                    ),
                    next_numbers_equal("global", "after two training batches"),
                ),
                requires=("prepare/normalized",),
            ),
        ),
    ),
    Exercise(
        name="evaluate",
        functions=("evaluate",),
        minutes=20,
        difficulty="medium",
        proves="you can measure a model so that every target counts once, and leave the model as it was",
        hints=(
            "Add up, over all batches, the losses of all targets and the number of targets; divide once, at the end.",
            'F.cross_entropy(..., reduction="sum") leaves targets of -100 out of the sum. Leave them out of the count '
            "too.",
            "model.train() at the end puts every module into train mode, also a module that was frozen in eval mode. "
            "Store module.training of each of model.modules() before, and restore it in a finally clause.",
        ),
        checks=(
            Check(
                "evaluate/pictures",
                "weighs every sample alike, also those of a smaller last batch",
                points=3,
                probe="pictures_evaluated",
                judge=all_of(result_equals, samples_read),
                tolerance=FP32,
            ),
            Check(
                "evaluate/padding",
                "weighs every target alike, and does not count padding",
                points=3,
                probe="texts_evaluated",
                judge=all_of(result_equals, samples_read),
                requires=("evaluate/pictures",),
                tolerance=FP32,
            ),
            Check(
                "evaluate/precision",
                "computes the loss in fp32 where the scores are bf16",
                points=1,
                probe="low_precision",
                judge=all_of(number_equals("loss", RESULT[0], FP32), is_of_type("float", "a Python float")),
                requires=("evaluate/pictures",),
                tolerance=FP32,
            ),
            Check(
                "evaluate/modes",
                "runs the model in eval mode without gradients, and puts every mode back",
                points=3,
                probe="modes",
                judge=all_of(
                    equals_reference(
                        "training",
                        0,
                        lambda got, _: f"{shorten(got)} times, a part of the model ran in train mode; expected 0.",
                    ),
                    equals_reference(
                        "recorded", 0, lambda got, _: f"{shorten(got)} batches recorded gradients; expected 0."
                    ),
                    modes_equal("of a model in train mode"),
                    modes_equal("of a model in eval mode"),
                    modes_equal("that fails"),
                ),
            ),
        ),
    ),
    Exercise(
        name="epoch_indices",
        functions=("epoch_indices",),
        minutes=15,
        difficulty="medium",
        proves="you can divide an epoch among ranks and workers",
        hints=(
            "First draw one order of all samples, which is the same for every worker of every rank. Then take the "
            "worker's part of this order.",
            "np.random.default_rng((seed, epoch)) makes a generator of its own, whose state depends on both numbers.",
            "order[rank::ranks] is the rank's share. Take the worker's share of the rank's share in the same way.",
        ),
        checks=(
            Check(
                "epoch_indices/once",
                "gives each sample to one worker of one rank",
                points=4,
                probe="divided",
                judge=each_once,
            ),
            Check(
                "epoch_indices/even",
                "gives ranks, and workers of a rank, shares that differ by one sample at most",
                points=2,
                probe="share_sizes",
                judge=sizes_equal,
                requires=("epoch_indices/once",),
            ),
            Check(
                "epoch_indices/order",
                "draws a random order that is a function of seed and epoch alone",
                points=3,
                probe="orders",
                judge=orders_differ,
                requires=("epoch_indices/once",),
            ),
            Check(
                "epoch_indices/global",
                "leaves the global random generators as they are",
                points=1,
                probe="generators_left",
                judge=next_numbers_equal("numbers", "after epoch_indices"),
            ),
        ),
    ),
    Exercise(
        name="seed_worker",
        functions=("seed_worker",),
        minutes=10,
        difficulty="easy",
        proves="you can give every worker random numbers of its own that repeat in another run",
        hints=(
            "Three generators, three calls: random.seed, np.random.seed, torch.manual_seed.",
            "The sum of the four values is no seed, because it is the same for many workers. "
            "np.random.SeedSequence((a, b, c, d)) mixes four numbers of any size; its generate_state(3) returns three "
            "seeds, one for each generator.",
        ),
        checks=(
            Check(
                "seed_worker/repeats",
                "starts the same random numbers for the same four numbers",
                points=2,
                probe="seeds_repeat",
                judge=generators_equal(
                    "repeats",
                    "seeded twice alike, {generator} repeats {got} of {expected} numbers; expected all.",
                ),
            ),
            Check(
                "seed_worker/differs",
                "starts other random numbers where seed, epoch, rank or worker differs",
                points=3,
                probe="one_differs",
                judge=changes_counted,
            ),
            Check(
                "seed_worker/mixes",
                "mixes the four numbers so that equal sums are different seeds",
                points=2,
                probe="several_differ",
                judge=seeds_differ,
                requires=("seed_worker/differs",),
            ),
            Check(
                "seed_worker/large",
                "takes numbers of any size",
                points=1,
                probe="large_seeds",
                judge=large_seeds_work,
            ),
        ),
    ),
    Exercise(
        name="TextStream",
        functions=("TextStream",),
        minutes=30,
        difficulty="hard",
        proves="you can read a stream with many workers on many ranks, stop anywhere, and lose or repeat nothing",
        hints=(
            "Workers hold copies: a change in a worker's copy never reaches the training process. So the training "
            'process calls advance, which counts the windows trained on. Why does a sample carry "worker"?',
            "__iter__ yields the windows of the worker's share of the epoch's indices from position n on, where n is "
            "the count that advance keeps for this worker.",
            "The state is the epoch and one count per worker, copied into a new list. advance compares the sum of the "
            "counts with this rank's share of the windows.",
        ),
        checks=(
            Check(
                "TextStream/windows",
                "yields each window with its targets, without workers",
                points=3,
                probe="stream_windows",
                judge=windows_equal,
                requires=("epoch_indices/once",),
            ),
            Check(
                "TextStream/divided",
                "gives each window to one worker of one rank",
                points=3,
                probe="stream_divided",
                judge=stream_shares,
                requires=("TextStream/windows", "epoch_indices/even"),
            ),
            Check(
                "TextStream/epochs",
                "begins the next epoch after the last window, in another order",
                points=2,
                probe="stream_epochs",
                judge=stream_epochs_differ,
                requires=("TextStream/divided", "epoch_indices/order"),
            ),
            Check(
                "TextStream/resumed",
                "goes on after the last window trained on, wherever it was stopped",
                points=4,
                probe="stream_resumed",
                judge=resumes,
                requires=("TextStream/divided",),
            ),
            Check(
                "TextStream/often",
                "may be stopped again and again, across epochs",
                points=1,
                probe="stream_stopped_often",
                judge=stopped_often,
                requires=("TextStream/epochs", "TextStream/resumed"),
            ),
            Check(
                "TextStream/state",
                "has a small state that stays as it is",
                points=2,
                probe="stream_state",
                judge=state_is_small,
                requires=("TextStream/windows",),
            ),
            Check(
                "TextStream/refuses",
                "refuses a state of other ranks or workers",
                points=1,
                probe="stream_refuses",
                judge=refusals,
                requires=("TextStream/divided",),
            ),
        ),
    ),
    Exercise(
        name="pack_documents",
        functions=("pack_documents",),
        minutes=25,
        difficulty="medium",
        proves="you can fill rows with documents and say which token belongs to which",
        hints=(
            "Build four flat lists for all documents first, as if there were one endless row. Pad them, then cut.",
            "The targets of a document are its tokens from the second on, then eos, then -100 for the eos.",
            "A token's position is its index in the flat list minus the start of its document, or minus the start of "
            "its row if that comes later.",
        ),
        checks=(
            Check(
                "pack_documents/tokens",
                "puts documents one after the other, an eos behind each, and pads the last row",
                points=2,
                probe="packed",
                judge=all_of(rows_of("tokens"), unchanged("documents")),
            ),
            Check(
                "pack_documents/targets",
                "gives each token the next of its document as target",
                points=3,
                probe="packed",
                judge=rows_of("targets"),
                requires=("pack_documents/tokens",),
            ),
            Check(
                "pack_documents/documents",
                "numbers documents, and restarts positions in each",
                points=2,
                probe="packed",
                judge=rows_of("documents", "positions"),
                requires=("pack_documents/tokens",),
            ),
            Check(
                "pack_documents/rows",
                "continues a long document in the next row",
                points=3,
                probe="packed_long",
                judge=rows_of(*PARTS),
                requires=("pack_documents/targets", "pack_documents/documents"),
            ),
            Check(
                "pack_documents/odd",
                "packs empty documents, and documents that hold eos",
                points=2,
                probe="packed_oddly",
                judge=rows_of(*PARTS),
                requires=("pack_documents/rows",),
            ),
            Check(
                "pack_documents/full",
                "adds no padding where documents fill their rows",
                points=1,
                probe="packed_exactly",
                judge=rows_of(*PARTS),
                requires=("pack_documents/rows",),
            ),
            Check(
                "pack_documents/none",
                "returns no row for no document",
                points=1,
                probe="packed_none",
                judge=rows_of(*PARTS),
            ),
        ),
    ),
    Exercise(
        name="document_mask",
        functions=("document_mask",),
        minutes=10,
        difficulty="easy",
        proves="you can keep attention inside a document",
        hints=(
            "documents[:, :, None] == documents[:, None, :] compares each token with every token of its row.",
            "tril() keeps the entries with j <= i. If all padding were masked, which rows of the mask would have no "
            "True? softmax needs at least one.",
        ),
        checks=(
            Check(
                "document_mask/documents",
                "lets a token attend to itself and to earlier tokens of its document",
                points=3,
                probe="mask_of_documents",
                judge=all_of(mask_equals, unchanged("documents")),
            ),
            Check(
                "document_mask/padding",
                "lets padding attend to itself alone, so that no output is nan",
                points=2,
                probe="mask_of_padding",
                judge=all_of(mask_equals, attention_is_finite),
                requires=("document_mask/documents",),
            ),
        ),
    ),
    Exercise(
        name="train_bpe",
        functions=("count_pairs", "merge_pair", "train_bpe"),
        minutes=25,
        difficulty="medium",
        proves="you can train a byte-pair tokenizer",
        hints=(
            "collections.Counter counts what it is given; itertools.pairwise gives the pairs of neighbors.",
            "merge_pair needs a while loop with an index: add 2 to the index after a merged pair, 1 otherwise. A for "
            "loop over pairs would merge overlapping pairs.",
            "min(counts, key=lambda pair: (-counts[pair], pair)) is the most frequent pair, and of equally frequent "
            "pairs the smallest.",
        ),
        checks=(
            Check(
                "train_bpe/count",
                "counts pairs of neighbors, overlapping ones too (count_pairs)",
                points=2,
                probe="pairs_counted",
                judge=all_of(pair_counts, unchanged("tokens")),
            ),
            Check(
                "train_bpe/merge",
                "merges a pair from left to right, without overlap (merge_pair)",
                points=3,
                probe="pairs_merged",
                judge=all_of(cases_equal("merged", merge_case), unchanged("tokens")),
            ),
            Check(
                "train_bpe/learns",
                "learns the most frequent pair, again and again, over bytes",
                points=3,
                probe="bpe_learned",
                judge=learned_equal,
                requires=("train_bpe/count", "train_bpe/merge"),
            ),
            Check(
                "train_bpe/ties",
                "takes the smallest of equally frequent pairs",
                points=2,
                probe="bpe_ties",
                judge=learned_equal,
                requires=("train_bpe/learns",),
            ),
            Check(
                "train_bpe/ends",
                "ends where no pair occurs twice",
                points=1,
                probe="bpe_ends",
                judge=learned_equal,
                requires=("train_bpe/ties",),
            ),
        ),
    ),
    Exercise(
        name="encode",
        functions=("encode", "decode"),
        minutes=15,
        difficulty="easy",
        proves="you can turn any text into tokens and back",
        hints=(
            "encode treats a new text as training treated the training text: it applies merge after merge, each to all "
            "tokens.",
            "For decode, write a table with the bytes of each token: 256 single bytes, then the bytes of the two parts "
            "of each merge. Join the bytes of all tokens, and decode UTF-8 once, at the end.",
        ),
        checks=(
            Check(
                "encode/tokens",
                "applies the merges in the order in which they were learned",
                points=3,
                probe="encoded",
                judge=tokens_equal,
                requires=("train_bpe/merge",),
            ),
            Check(
                "encode/decode",
                "decodes tokens, and replaces bytes that are no character (decode)",
                points=3,
                probe="decoded",
                judge=all_of(
                    cases_equal(
                        "ended", lambda expected, number: f"the outcome of decode({expected['tokens'][number]}, merges)"
                    ),
                    cases_equal("returned", lambda expected, number: f"decode({expected['tokens'][number]}, merges)"),
                ),
            ),
            Check(
                "encode/round-trip",
                "returns any text as it was",
                points=2,
                probe="round_trip",
                judge=cases_equal(
                    "returned", lambda expected, number: f"decode(encode({expected['texts'][number][:30]!a}))"
                ),
                requires=("encode/tokens", "encode/decode"),
            ),
        ),
    ),
    Exercise(
        name="Prefetcher",
        functions=("Prefetcher",),
        minutes=30,
        difficulty="hard",
        proves="you can prepare data in a thread, in bounded memory, and end it cleanly",
        hints=(
            "A queue.Queue passes items on in order. Put pairs (kind, item) in it, with three kinds: an item, the end, "
            "and an exception.",
            "With queue.Queue(maxsize=ahead), a thread that waits in put holds one more item. A Semaphore "
            "counts free places instead: acquire before drawing, release when __next__ returns an item.",
            "close sets a flag, releases the semaphore so that a waiting thread sees the flag, and joins the thread.",
        ),
        checks=(
            Check(
                "Prefetcher/order",
                "returns all items in order, drawn by another thread, and then StopIteration at every call",
                points=3,
                probe="prefetched",
                judge=THREADS,
            ),
            Check(
                "Prefetcher/ahead",
                "draws `ahead` items ahead, and no more",
                points=3,
                probe="drawn_ahead",
                judge=drawn_counts,
                requires=("Prefetcher/order",),
            ),
            Check(
                "Prefetcher/error",
                "raises the source's exception in its place",
                points=3,
                probe="error_ahead",
                judge=all_of(
                    received,
                    equals_reference(
                        "left",
                        0,
                        lambda got, _: f"after the exception, threads: {shorten(got)}; expected: ended.",
                    ),
                ),
                requires=("Prefetcher/order",),
            ),
            Check(
                "Prefetcher/close",
                "ends the thread where it waits for room",
                points=3,
                probe="closed",
                judge=closes,
                requires=("Prefetcher/order",),
            ),
            Check(
                "Prefetcher/drawing",
                "waits in close for the item that is being drawn",
                points=2,
                probe="closed_while_drawing",
                judge=closes_while_drawing,
                requires=("Prefetcher/close",),
            ),
        ),
    ),
)
