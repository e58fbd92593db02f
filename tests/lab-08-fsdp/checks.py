"""Lab 08, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
Where ranks answer, the first index of an answer is the rank.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankzero.exercises.checks.answer_schema import (
    boolean,
    count,
    either,
    has_form,
    integer,
    list_of,
    none,
    real_number,
    row_of,
    short_text,
)
from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    TOLERANCE,
    all_of,
    has_reference_form,
    mismatch_text,
    rounding_text,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

EXACT = 1e-12  # float64 rounds at 1e-16; the sums here have a few dozen terms
SINGLE = 1e-6  # float32 rounds at 6e-8
MODES = ["with reshard", "without reshard"]
POLICIES = ["bf16 and fp32", "fp32 and fp32", "bf16 and bf16", "fp32 and bf16"]  # compute, reduce
What = Sequence[str] | Callable[[Answers], Sequence[str]]  # names of what is compared, or how to tell them

number = either(real_number, none)


def collective(value: Any) -> bool:
    """The probe's record of one collective: 'all_gather of 24 float64', or a barrier without a size."""
    return short_text(value) and re.fullmatch(r"barrier|\w+ of \d{1,12} \w*", value) is not None


def message_or_none(value: Any) -> bool:
    """The same of one that sends numbers; no text where there was none."""
    return (collective(value) and value != "barrier") or (type(value) is str and not value)


def array_or_none(value: Any) -> bool:
    """A tensor's numbers; None for what was no tensor."""
    return value is None or (isinstance(value, np.ndarray) and value.dtype == np.float64)


def names_of(what: What, expected: Answers) -> Sequence[str]:
    """The names of what is compared."""
    return what(expected) if callable(what) else what


def shape_of(case: Any) -> str:
    """'(2, 3)'"""
    return str(tuple(case))


def cut_parts(expected: Answers) -> list[str]:
    """Every part that was cut."""
    found = []
    for place, (shape, ranks) in enumerate(expected["cases"]):
        one = shape_of(shape) + (", transposed," if place == 3 else "")
        found += [f"rank {rank}'s part of a tensor of shape {one} on {ranks} rank(s)" for rank in range(ranks)]
    return found


def gathered(expected: Answers) -> list[str]:
    """Every whole that was gathered."""
    ranks = len(expected["calls"])
    return [f"the whole tensor of shape {shape_of(shape)} on {ranks} ranks" for shape in expected["cases"]]


def reduced(expected: Answers) -> list[str]:
    """Every gradient that was reduced."""
    shapes = [shape_of(shape) for shape in expected["cases"]]
    shapes[2] += ", transposed,"
    return [f"the part of the mean of gradients of shape {shape} on {len(expected['calls'])} ranks" for shape in shapes]


def arrays_differ(mine: Any, wanted: np.ndarray, tolerance: float) -> str:
    """Returns the difference of one array in a sentence, and a factor if all numbers have it; empty if none differs."""
    if not isinstance(mine, np.ndarray) or mine.dtype.kind != wanted.dtype.kind:
        return "is not a tensor."
    if mine.shape != wanted.shape:
        return f"has shape {shorten(list(mine.shape))}; expected {list(wanted.shape)}."
    if equal(mine, wanted, tolerance):
        return ""
    there = np.abs(wanted) > 1e-9
    with np.errstate(all="ignore"):
        factors = mine[there] / wanted[there]
        one_factor = len(factors) > 1 and np.isfinite(factors).all() and np.ptp(factors) < 1e-6 * abs(factors[0])
        off = np.abs(np.nan_to_num(mine, nan=np.inf, posinf=np.inf, neginf=-np.inf) - wanted)
    if one_factor and abs(factors[0]) > 0 and abs(factors[0] - 1) > 1e-3:
        return f"is {factors[0]:.4g} times the expected one."
    worst = int(np.nanargmax(off))
    pair = float(mine.flat[worst]), float(wanted.flat[worst])
    both = mismatch_text(*pair).replace("is ", f"has {'one' if wanted.size == 1 else f'number {worst}'} that is ", 1)
    return both + (rounding_text(*pair) if tolerance < SINGLE else "")


def rows(value: Any) -> list[Any] | None:
    """Returns the entries for each rank: the rows of an array, or the entries of a list."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return value if isinstance(value, list) else None


def like(name: str, got: Answers, expected: Answers) -> list[tuple[Any, Any]] | None:
    """Pairs of what each rank has and should have; None if there are not as many."""
    mine, wanted = rows(got[name]), rows(expected[name])
    if mine is None or wanted is None or len(mine) != len(wanted):
        return None
    return list(zip(mine, wanted, strict=True))


def unformed(name: str) -> str:
    """Returns the sentence about an answer that no probe gives."""
    return f"the answer `{name}` does not have the form that the probe gives it."


def by_rank(name: str, what: What, tolerance: float = EXACT) -> Judge:
    """On every rank, each array of the list `name` is the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        pairs = like(name, got, expected)
        if pairs is None:
            return unformed(name)
        for rank, (mine, wanted) in enumerate(pairs):
            each, right = rows(mine), rows(wanted)
            if each is None or right is None or len(each) != len(right):
                return unformed(name)
            for one, array, of in zip(each, right, names_of(what, expected), strict=True):
                if wrong := arrays_differ(
                    np.asarray(one) if isinstance(one, np.floating) else one, np.asarray(array), tolerance
                ):
                    return f"on rank {rank}, {of} {wrong}"
        return None

    return judge


def calls(name: str, what: What) -> Judge:
    """Every rank called the collectives that the reference called, in that order, with messages of that size."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for rank, (mine, wanted) in enumerate(zip(got[name], expected[name], strict=True)):
            for of, one, other in zip(names_of(what, expected), mine, wanted, strict=True):
                if one != other:
                    return f"{of}: {calls_differ(rank, one, other)}"
        return None

    return all_of(has_form(name, list_of(collective), 2), judge)


def calls_differ(rank: int, mine: Sequence[str], wanted: Sequence[str]) -> str:
    """Returns what a rank called and should have called; of more than three collectives, the first that differs."""
    if len(mine) + len(wanted) <= 3 or mine == wanted:
        return f"rank {rank} called {listed(mine)}; expected {listed(wanted)}."
    place = next((place for place, pair in enumerate(zip(mine, wanted, strict=False)) if pair[0] != pair[1]), -1)
    place = min(len(mine), len(wanted)) if place < 0 else place
    one = mine[place] if place < len(mine) else "missing"
    other = wanted[place] if place < len(wanted) else f"no more than {len(wanted)}"
    return f"collective {place + 1} on rank {rank} is {one}; expected {other}."


def listed(every: Sequence[str]) -> str:
    """'all_gather of 9 float64, then barrier', or 'no collective'."""
    return shorten(", then ".join(every[:20]) or "no collective", 200)


def kept_dtypes(what: What) -> Judge:
    """On every rank, each result has the dtype of the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for rank, (mine, wanted) in enumerate(zip(got["dtypes"], expected["dtypes"], strict=True)):
            for one, right, of in zip(mine, wanted, names_of(what, expected), strict=True):
                if one != right:
                    return f"on rank {rank}, {of} is {one}; expected {right}, the dtype that was given."
        return None

    return all_of(has_form("dtypes", short_text, 2), judge)


def none_of(name: str, says: str, depth: int = 1) -> Judge:
    """The number `name` is 0 on every rank; `says` has a place for the first that is not."""

    def judge(got: Answers, expected: Answers) -> str | None:
        every = got[name] if depth else [got[name]]
        return next((says.format(one) for one in every if one), None)

    return all_of(has_form(name, count, depth), judge)


NOT_WAITED_FOR = (
    "{} collectives with async_op=True were not waited for: call wait() on the object that such a call returns."
)


# ---------------------------------------------------------------------------------------------------------------- flat
def right_parts(got: Answers, expected: Answers) -> str | None:
    """Each part has one dimension, its size, its numbers and its dtype."""
    for place, of in enumerate(cut_parts(expected)):
        if wrong := arrays_differ(got["parts"][place], expected["parts"][place], 0):
            return f"{of} {wrong}"
        if (kind := got["dtypes"][place]) != (right := expected["dtypes"][place]):
            return f"{of} is {kind}; expected {right}."
    return None


def own_storage(got: Answers, expected: Answers) -> str | None:
    """Each part keeps its own numbers in memory, and no others."""
    parts = cut_parts(expected)
    if got["shared"]:
        return (
            f"{got['shared']} of {len(parts)} parts share the memory of the whole tensor, "
            "which stays in memory as long as its part does."
        )
    for of, mine, wanted in zip(parts, got["storages"], expected["storages"], strict=True):
        if mine != wanted:
            return f"{of} keeps {mine} numbers in memory; expected {wanted}."
    return f"{got['graphs']} parts belong to autograd's graph; detach the tensor first." if got["graphs"] else None


OWN_STORAGE = all_of(has_form("shared", count), has_form("graphs", count), has_form("storages", count, 1), own_storage)


# ----------------------------------------------------------------------------------------------------------- clip_part
LONG, AT_THE_LIMIT = "", " at the limit"  # two gradients that are several times too long, and three others


def clipped_gradients(expected: Answers, which: str) -> list[str]:
    """Every gradient that was clipped."""
    numels = [f"a gradient of {numel} number{'s' * (numel > 1)}" for numel in expected[f"numels{which}"]]
    how = (
        ("", "") if which == LONG else (", 0.95 times as long as allowed", ", all 0", ", 1.05 times as long as allowed")
    )
    return [f"{of}{kind} on {expected['ranks']} ranks" for of, kind in zip(numels, how, strict=True)]


def norms(which: str) -> Judge:
    """The norms of these gradients are Python floats and right, on every rank."""
    norm, kinds = f"norm{which}", f"type{which}"

    def judge(got: Answers, expected: Answers) -> str | None:
        for rank, (mine, wanted) in enumerate(zip(got[norm], expected[norm], strict=True)):
            for place, of in enumerate(clipped_gradients(expected, which)):
                if got[kinds][rank][place] == "ZeroDivisionError":
                    return f"clip_part raises ZeroDivisionError for {of}: do not divide by a norm of 0."
                if not equal(mine[place], wanted[place], TOLERANCE):
                    both = mismatch_text(mine[place], wanted[place])
                    is_limit = equal(mine[place], expected[f"limits{which}"][place], TOLERANCE)
                    why = " That is the limit: the norm before clipping was expected." if is_limit else ""
                    if which == LONG and equal(mine[place], np.nan):
                        why = " The padding, which is nan here, is in the norm."
                    return f"on rank {rank}, the norm of {of} {both}{why}"
                if (kind := got[kinds][rank][place]) != "float":
                    return f"on rank {rank}, the return value is of type {kind}; expected a Python float."
        return None

    return all_of(has_form(norm, number, 2), has_form(kinds, short_text, 2), judge)


def sends_its_squares(got: Answers, expected: Answers) -> str | None:
    """The one number that a rank adds to the all-reduce is the sum of the squares of its own numbers."""
    for rank, (mine, wanted) in enumerate(zip(got["sent"], expected["sent"], strict=True)):
        for place, of in enumerate(clipped_gradients(expected, LONG)):
            if not equal(mine[place], wanted[place], 1e-5):
                both = f"sent {shorten(mine[place])} in its all-reduces; expected {shorten(wanted[place])}"
                return f"for {of}, rank {rank} {both}: the sum of the squares of its own numbers."
    return None


def parts_clipped(which: str) -> Judge:
    """Every rank's part was multiplied by the right number, in place."""
    parts, moved, limits = f"part{which}", f"moved{which}", f"limits{which}"

    def judge(got: Answers, expected: Answers) -> str | None:
        for place, of in enumerate(clipped_gradients(expected, which)):
            of = f"{of}, clipped to {expected[limits][place]:.3f}"
            mine, wanted = (np.concatenate([part[place] for part in each[parts]]) for each in (got, expected))
            if mine.shape != wanted.shape:
                return f"{of}, has {mine.size} numbers; expected {wanted.size}."
            if equal(mine, wanted, 1e-5):  # torch's own clipping divides by norm + 1e-6
                continue
            if np.isnan(mine).any():
                return f"{of}, is nan: the norm includes the padding."
            with np.errstate(all="ignore"):
                length, right = (float(np.linalg.norm(one)) for one in (mine, wanted))
                cosine = float(mine @ wanted / max(length * right, 1e-300))
            why = "" if cosine > 1 - 1e-9 else ", and its direction has changed: the ranks' factors differ"
            if equal(length, expected[f"norm{which}"][0][place], TOLERANCE):
                why = ": the part did not change: it was not changed in place, or not at all, as with a norm of nan"
            return f"the norm of {of}, {mismatch_text(length, right).rstrip('.')}{why}."
        if any(one for rank in got[moved] for one in rank):
            return "the part has other memory than before: change it in place."
        return None

    def vector(value: Any) -> bool:
        return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 1

    return all_of(has_form(parts, vector, 2), has_form(moved, boolean, 2), judge)


# --------------------------------------------------------------------------------------------------------------- zero1
def a_parameter(got: Answers, expected: Answers) -> str | None:
    """The part is an nn.Parameter."""
    wrong = next((kind for kind in got["type"] if kind != "Parameter"), None)
    return f"the return value is of type {wrong}; expected an nn.Parameter." if wrong is not None else None


def parts_of_all(got: Answers, expected: Answers) -> str | None:
    """Every rank has its part."""
    pairs = like("part", got, expected)
    if pairs is None:
        return unformed("part")
    for rank, (mine, wanted) in enumerate(pairs):
        if wrong := arrays_differ(mine, wanted, 0):
            return f"on rank {rank}, the part of {expected['total'][0]} weights on {len(pairs)} ranks {wrong}"
        if (kind := got["dtype"][rank]) != (right := expected["dtype"][rank]):
            return f"on rank {rank}, the part is {kind}; expected {right}, the weights' dtype."
    return None


def state_of_a_part(got: Answers, expected: Answers) -> str | None:
    """AdamW made for it keeps two numbers per weight of the part, and of no other."""
    for rank, (mine, wanted) in enumerate(zip(got["state"], expected["state"], strict=True)):
        if mine != wanted:
            return f"AdamW keeps {mine} numbers on rank {rank}; expected {wanted}: two for each weight of the part."
    for rank, (mine, wanted) in enumerate(zip(got["numbers"], expected["numbers"], strict=True)):
        if mine != wanted:
            return f"the part keeps {mine} numbers in memory on rank {rank}; expected {wanted}."
    return None


def updated(got: Answers, expected: Answers) -> str | None:
    """After the first update every rank has the weights of the optimizer on one process, with the mean gradient."""
    for rank, (mine, wanted) in enumerate(zip(got["first"], expected["first"], strict=True)):
        if wrong := arrays_differ(mine, wanted, EXACT):
            return f"on rank {rank}, after update 1 with {expected['optimizer']}, the vector of all weights {wrong}"
    return None


def updated_again(got: Answers, expected: Answers) -> str | None:
    """After the second and the third too."""
    for rank, (every, right) in enumerate(zip(got["weights"], expected["weights"], strict=True)):
        for update, (mine, wanted) in enumerate(zip(every, right, strict=True), start=2):
            if wrong := arrays_differ(mine, wanted, EXACT):
                told = f"after update {update} with {expected['optimizer']}"
                return f"on rank {rank}, {told}, the vector of all weights {wrong}"
    return None


def same_tensors(got: Answers, expected: Answers) -> str | None:
    """The parameters still live where they lived, and there was one step per update."""
    if any(got["moved"]):
        return f"{max(got['moved'])} of 4 parameters have other memory than before: copy the new weights into them."
    if got["steps"] != expected["steps"]:
        steps, right = got["steps"], expected["steps"]
        rank = next((rank for rank, (one, other) in enumerate(zip(steps, right, strict=True)) if one != other), 0)
        return (
            f"optimizer.step() was called {steps[rank]} times on rank {rank}; expected {right[rank]}, once per update."
        )
    return None


SAME_TENSORS = all_of(has_form("moved", count, 1), has_form("steps", count, 1), same_tensors)


def nothing_besides(got: Answers, expected: Answers) -> str | None:
    """Only a part's gradient and a part's state stay after an update."""
    for rank, (mine, wanted) in enumerate(zip(got["state"], expected["state"], strict=True)):
        if mine != wanted:
            return f"after three updates the optimizer keeps {mine} numbers on rank {rank}; expected {wanted}."
    for rank, kept in enumerate(got["kept"]):
        if kept:
            return (
                f"besides part.grad and the optimizer's state, {kept} numbers stay in memory on rank {rank} from one "
                "update to the next; expected 0. A rank that holds state of all weights saves no memory."
            )
    return None


# ------------------------------------------------------------------------------------- whole_weights, reduce_into_part
def named_weights(got: Answers, expected: Answers) -> str | None:
    """Each weight has its name, its shape and its numbers, on every rank."""
    for rank, (mine, wanted) in enumerate(zip(got["names"], expected["names"], strict=True)):
        for turn, (one, right) in enumerate(zip(mine, wanted, strict=True)):
            if sorted(one) != sorted(right):
                return f"on rank {rank}, the weights' names are {shorten(one, 120)}; expected {right}."
            if len(got["weights"][rank][turn]) != len(right):
                return unformed("weights")
            for name, its in zip(right, expected["weights"][rank][turn], strict=True):
                if wrong := arrays_differ(got["weights"][rank][turn][one.index(name)], its, 0):
                    return f"on rank {rank}, the weight {name} {wrong}"
    return None


def views_of_full(got: Answers, expected: Answers) -> str | None:
    """`full` has the numbers of all parts in its own dtype, is a leaf, and the weights are views into it."""
    for rank, rows_of_rank in enumerate(got["full"]):
        for turn, (numel, stored, changed) in enumerate(rows_of_rank):
            kind, right = got["dtype"][rank][turn], expected["dtype"][rank][turn]
            wanted = expected["full"][rank][turn][0]
            if numel != wanted or stored != wanted:
                return (
                    f"on rank {rank}, full has {numel} numbers and its storage {stored}; "
                    f"expected {wanted} for both, with padding."
                )
            if kind != right:
                return f"on rank {rank}, full is {kind}; expected {right}, the part's dtype."
            if views := got["views"][rank][turn]:
                return (
                    f"on rank {rank}, {views} of the weights are not views of full: freeing full would not free them."
                )
            if (grad := got["grad"][rank][turn]) != (needed := expected["grad"][rank][turn]):
                when = "on" if needed[0] else "off"
                told = f"requires_grad={grad[0]}, is_leaf={grad[1]}"
                return f"with gradients {when}, full has {told}; expected requires_grad={needed[0]}, is_leaf=True."
            if apart := got["apart"][rank][turn]:
                return (
                    f"on rank {rank}, the gradients of {apart} weights do not reach full: make the weights views of "
                    "full itself, with gradients on, after full.requires_grad_()."
                )
            if changed:
                return f"on rank {rank}, {changed} numbers of the part were changed."
    return None


def collectives(name: str, function: str) -> Judge:
    """One collective per call, as the reference makes it."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for rank, (mine, wanted) in enumerate(zip(got[name], expected[name], strict=True)):
            if mine != wanted:
                one, right = next((a, b) for a, b in zip(mine, wanted, strict=True) if a != b)
                if isinstance(right[0], list):  # of several calls
                    every = [call for each in one for call in each], [call for each in right for call in each]
                    one, right = next((pair for pair in zip(one, right, strict=False) if pair[0] != pair[1]), every)
                return f"in {function}, {calls_differ(rank, one, right)}"
        return None

    return judge


CALLED = all_of(has_form("calls", list_of(collective), 2), collectives("calls", "whole_weights"))
REDUCED = all_of(has_form("reduced", list_of(list_of(collective)), 2), collectives("reduced", "reduce_into_part"))


def gradients_added(got: Answers, expected: Answers) -> str | None:
    """part.grad is the mean, and after a second call the sum of two."""
    for rank, (mine, wanted) in enumerate(zip(got["gradients"], expected["gradients"], strict=True)):
        for one, right in zip(mine, wanted, strict=True):
            for call, (array, its) in enumerate(zip(one, right, strict=True), start=1):
                if wrong := arrays_differ(array, its, EXACT):
                    return f"on rank {rank}, after call {call} of reduce_into_part, part.grad {wrong}"
    return None


def given_back(got: Answers, expected: Answers) -> str | None:
    """full.grad is None, and the storage of full has no bytes."""
    for rank, mine in enumerate(got["left"]):
        for has_gradient, size, room in (entry for turn in mine for entry in turn):
            if has_gradient:
                return f"on rank {rank}, full.grad is still there: the whole gradient stays in memory."
            if size:
                storage = "the storage that full had, and that its views have,"
                return f"on rank {rank}, {storage} has {size} bytes after reduce_into_part; expected 0."
            if room:
                return (
                    f"on rank {rank}, the storage of part.grad has {room} numbers more than part.grad; expected none."
                )
    return None


# ----------------------------------------------------------------------------------------------------- sharded_forward
TIMES = ("forward", "backward", "the second forward", "the second backward")


def freed(got: Answers, expected: Answers) -> str | None:
    """The whole weights are gone when they should be, and there when they should be."""
    weights, ranks = expected["sizes"][0], expected["ranks"]
    for rank, (mine, wanted) in enumerate(zip(got["held"], expected["held"], strict=True)):
        for mode, (after, right) in zip(MODES, zip(mine, wanted, strict=True), strict=True):
            for when, one, other in zip(TIMES, after, right, strict=True):
                if one != other:
                    return (
                        f"{mode}, rank {rank} holds {one} numbers of whole weights after {when}; expected {other} "
                        f"(the module has {weights}, in {ranks} parts of {-(-weights // ranks)})."
                    )
    wasted = [one for every in got["waste"] for one in every if one]
    if wasted:
        return (
            f"after backward {wasted[0]} numbers of a whole gradient, or of weights copied in backward, are "
            "still held; expected 0."
        )
    return None


FREED = all_of(has_form("held", count, 3), has_form("waste", count, 2), freed)


def one_whole(got: Answers, expected: Answers) -> str | None:
    """Of two modules only one was whole at any time."""
    most, right = max(got["most"]), max(expected["most"])
    if most > right:
        return (
            f"of two modules with {expected['sizes'][1]} weights each, {most} numbers of whole weights were in memory "
            f"at once; expected {right}, the weights of one module with its padding."
        )
    if min(got["most"]) < min(expected["most"]):
        return "the whole weights of the two modules were never in memory."
    return None


def chained(got: Answers, expected: Answers) -> str | None:
    """The gradients of the two modules."""
    return by_rank("gradients", ["the gradient of module 1 of 2", "the gradient of module 2 of 2"])(got, expected)


def without_gradients(got: Answers, expected: Answers) -> str | None:
    """Under no_grad: the output, one gather, and nothing left."""
    pairs = like("evaluated", got, expected)
    if pairs is None:
        return unformed("evaluated")
    for rank, (mine, wanted) in enumerate(pairs):
        if got["raised"][rank]:
            return f"under no_grad, rank {rank} raised: {shorten(got['raised'][rank])}"
        if wrong := arrays_differ(mine, np.asarray(wanted), EXACT):
            return f"under no_grad, on rank {rank}, the output {wrong}"
        if got["asked"][rank] != expected["asked"][rank]:
            return f"under no_grad, {calls_differ(rank, got['asked'][rank], expected['asked'][rank])}"
        if got["kept"][rank]:
            return (
                f"under no_grad, rank {rank} still holds {got['kept'][rank]} numbers of whole weights after forward; "
                "expected 0, because no backward pass will free them."
            )
    return None


WITHOUT_GRADIENTS = all_of(
    has_form("raised", lambda value: type(value) is str, 1),
    has_form("asked", list_of(collective), 1),
    has_form("kept", count, 1),
    without_gradients,
)


def used_twice(got: Answers, expected: Answers) -> str | None:
    """Backward works after two calls of one module."""
    for rank, modes in enumerate(got["raised in both"]):
        for mode, raised in zip(MODES, modes, strict=True):
            if raised:
                return (
                    f"{mode}, when the module was called twice before one backward, rank {rank} raised: "
                    f"{shorten(raised)}. Each call needs a whole tensor of its own."
                )
    return None


# ---------------------------------------------------------------------------------------------------------- mixed_step
def given_whole(got: Answers, expected: Answers) -> str | None:
    """Compares what loss_of was given."""
    for rank in range(len(expected["part"])):
        for place, policy in enumerate(POLICIES):
            kind, right = got["given dtype"][rank][place], expected["given dtype"][rank][place]
            if kind != right:
                return f"with {policy}, loss_of was given {kind} on rank {rank}; expected {right}."
            if wrong := arrays_differ(got["given"][rank][place], expected["given"][rank][place], 0):
                return f"with {policy}, the vector given to loss_of on rank {rank} {wrong}"
            if (times := got["times"][rank][place]) != 3:
                return f"with {policy}, loss_of was called {times} times in three steps on rank {rank}; expected 3."
    return None


GIVEN_WHOLE = all_of(
    has_form("given dtype", short_text, 2),
    has_form("given", array_or_none, 2),
    has_form("times", count, 2),
    given_whole,
)


def master_kept(got: Answers, expected: Answers) -> str | None:
    """The part is the same tensor, in fp32."""
    for rank in range(len(expected["part"])):
        for place, policy in enumerate(POLICIES):
            if got["dtype"][rank][place] != "torch.float32":
                return f"with {policy}, the part is {got['dtype'][rank][place]} after the step; expected torch.float32."
            if got["moved"][rank][place]:
                return f"with {policy}, the part has other memory than before: update it in place."
    return None


MASTER_KEPT = all_of(has_form("dtype", short_text, 2), has_form("moved", boolean, 2), master_kept)


# ----------------------------------------------------------------------------------------------- save_parts, load_part
SAVED = ("step-0.5", "step-1.5")  # the names of the two folders


def right_files(got: Answers, expected: Answers) -> str | None:
    """The folders hold one file per rank with that rank's numbers, and the manifest."""
    if not equal(got["folders"], expected["folders"]):
        there = names(got["folders"], "no folders")
        why = " step-0.5.partial was there before, from a killed save: write into it." * ("step-0.5.partial" in there)
        return f"after two saves there are {there}; expected {' and '.join(SAVED)}.{why}"
    for name, numel, dtype in zip(SAVED, expected["numels"], ("float64", "float32"), strict=True):
        save = f"the save of {numel} {dtype} numbers on {expected['ranks']} ranks"
        if not equal(files := got[f"{name} files"], right := expected[f"{name} files"]):
            return f"{save} has the files {names(files, 'none')}; expected {', '.join(right)}."
        if not equal(sizes := got[f"{name} sizes"], right := expected[f"{name} sizes"]):
            return f"in {save}, the parts' files have {shorten(sizes)} bytes; expected {right}."
        if wrong := arrays_differ(got[f"{name} numbers"], expected[f"{name} numbers"], 0):
            return f"in {save}, the concatenated files hold a tensor that {wrong}"
        if not equal(says := got[f"{name} manifest"], right := expected[f"{name} manifest"]):
            said = shorten(says, 120) if isinstance(says, str) and says else "nothing"
            return f"the manifest says {said}; expected {right}."
    for name, verb in (("manifests", "wrote the manifest"), ("renames", "renamed the folder")):
        others = [rank for rank, count in enumerate(got[name]) if count]
        if others:
            return f"rank {others[0]} {verb}; expected only rank 0 to do so."
    others = [rank for rank, count in enumerate(got["others"]) if count]
    if others:
        return f"rank {others[0]} wrote the file of another rank; expected each rank to write its own."
    changed = next((f"{number} numbers of rank {rank}'s" for rank, number in enumerate(got["changed"]) if number), "")
    return f"{changed} part changed while it was saved." if changed else None


def names(every: Any, none: str) -> str:
    """Names in a row, or the word for none."""
    return shorten(", ".join(map(shorten, every[:20])) or none, 200) if isinstance(every, list) else none


def complete(got: Answers, expected: Answers) -> str | None:
    """No rank was still to write when the folder got its name."""
    late = max(got["early"])
    ranks = "one rank was" if late == 1 else f"{late} ranks were"
    told = f"the folder had its final name while {ranks} still to write: a kill at that moment leaves a broken save."
    return told if late else None


STALE = float(np.frombuffer(b"x" * 8)[0])  # what a killed save has left


def begun(got: Answers, expected: Answers) -> str | None:
    """Something of this tensor was saved, whatever is wrong with the rest: rank 0's first number."""
    for name, mine, wanted in zip(SAVED, got["begins"], expected["begins"], strict=True):
        if equal(mine, STALE):
            return f"{name}/part-0.bin begins with the bytes of a killed save: replace that file, do not append to it."
        if not equal(mine, wanted):
            return f"there is no {name}/part-0.bin that begins with rank 0's first number."
    return None


BEGUN = all_of(has_form("begins", number, 1), begun)


def sends_nothing(got: Answers, expected: Answers) -> str | None:
    """No collective but barriers, or messages of a few numbers."""
    for rank, call in enumerate(got["largest"]):
        name, _, size = call.partition(" of ")
        if size and int(size.split()[0]) > 256:  # a part has 311 float64 and more
            return f"rank {rank} called {name} of {size}; each rank writes its own numbers and sends none of them."
    return None


def loaded(got: Answers, expected: Answers) -> str | None:
    """Every part of every world."""
    for (numel, by, ranks, of_rank), mine, wanted, kind, right in zip(
        expected["cases"], got["parts"], expected["parts"], got["kinds"], expected["kinds"], strict=True
    ):
        of = f"rank {of_rank}'s part of {numel} numbers saved on {by} ranks, loaded on {ranks}"
        if not equal(mine, wanted) and isinstance(mine, np.ndarray) and wanted.any() and not mine.any():
            return f"{of}, is all 0 after the files have been overwritten with 0: it has no memory of its own."
        if wrong := arrays_differ(mine, wanted, 0):
            return f"{of}, {wrong}"
        if kind != right:
            return f"{of}, is {kind}; expected {right}."
    return f"load_part called {listed(got['calls'])}; expected no collective." if got["calls"] else None


LOADED_RIGHT = all_of(
    has_form("parts", array_or_none, 1),
    has_form("kinds", short_text, 1),
    has_form("calls", list_of(collective)),
    loaded,
)


def reads_its_part(got: Answers, expected: Answers) -> str | None:
    """Hardly more bytes were read than the part has, and no file was whole in memory."""
    part, read, most, reader = 8 * expected["each"], got["read"], got["most"], f"rank {expected['reader']} of 16"
    if expected["read"] is not None and not (integer(read) and read == part):
        return (
            f"{reader} read {many(read)} bytes of {16 * part:,} that 2 ranks saved; expected {part:,}, its part, "
            "which is an eighth of one file."
        )
    if not (integer(most) and part <= most < 7.5 * part):
        return (
            f"{reader} allocated up to {many(most)} bytes at once to load a part of {part:,} bytes; expected less "
            f"than {8 * part:,}, the size of one file."
        )
    if not equal(got["large"], expected["large"], TOLERANCE):
        return f"the sum of {reader}'s part {mismatch_text(got['large'], expected['large'])}"
    return None


def many(count: Any) -> str:
    """A count with its commas, or the text of anything else."""
    return f"{count:,}" if integer(count) else shorten(count)


EXERCISES = (
    Exercise(
        name="flat",
        functions=("cut", "gather", "reduce_gradient"),
        minutes=20,
        difficulty="easy",
        proves="you can take any tensor apart over any number of ranks, and put it together again",
        hints=(
            "7 numbers on 3 ranks: which length must three equal parts have to hold them all? What follows the "
            "seventh number, and which results must not contain it?",
            "ceil(P/N) is -(-P // N). Pad the flat tensor with zeros to N times that length: rank r's part is a slice, "
            "of which you need a copy. A reduce-scatter sums; where do you divide?",
            "cut: part = whole.new_zeros(size), then copy the slice into its beginning. gather: "
            "dist.all_gather_into_tensor(whole, part), then whole[:shape.numel()].view(shape). reduce_gradient: "
            "dist.reduce_scatter_tensor(part, padded), then part / N.",
        ),
        checks=(
            Check(
                "flat/cut",
                "takes the right numbers, and fills up with zeros",
                2,
                "cuts",
                all_of(has_form("parts", array_or_none, 1), has_form("dtypes", short_text, 1), right_parts),
            ),
            Check(
                "flat/storage",
                "gives a part its own memory, of its size",
                2,
                "cuts",
                OWN_STORAGE,
                requires=("flat/cut",),
            ),
            Check(
                "flat/gather",
                "puts the whole together on every rank, in its dtype",
                2,
                "gathers",
                all_of(
                    kept_dtypes(gathered),
                    by_rank("wholes", gathered),
                    none_of("changed", "{} numbers of the part were changed."),
                ),
            ),
            Check(
                "flat/mean",
                "gives each rank its part of the mean gradient, in its dtype",
                2,
                "reductions",
                all_of(
                    kept_dtypes(reduced),
                    by_rank("parts", reduced),
                    none_of("changed", "{} numbers of the gradient were changed."),
                ),
            ),
            Check(
                "flat/gathers-once",
                "gathers by one all-gather",
                1,
                "gathers",
                all_of(calls("calls", gathered), none_of("unwaited", NOT_WAITED_FOR)),
                requires=("flat/gather",),
            ),
            Check(
                "flat/reduces-once",
                "reduces by one reduce-scatter",
                1,
                "reductions",
                all_of(calls("calls", reduced), none_of("unwaited", NOT_WAITED_FOR)),
                requires=("flat/mean",),
            ),
        ),
    ),
    Exercise(
        name="clip",
        functions=("clip_part",),
        minutes=10,
        difficulty="easy",
        proves="you can clip a gradient of which each rank holds only a shard",
        hints=(
            "Each rank can compute the norm of its own part. Which number can be added over ranks: the norm, or "
            "the number before the root?",
            "Square and sum the numbers that are not padding, all-reduce that one number, then take the root. Every "
            "rank gets the same norm and so the same factor.",
            "mine = gradient[:max(0, numel - rank * gradient.numel())]; squares = mine.square().sum(); "
            "dist.all_reduce(squares); norm = squares.sqrt().item(); if norm > max_norm: "
            "gradient.mul_(max_norm / norm).",
        ),
        checks=(
            Check("clip/norm", "returns the whole gradient's norm, on every rank", 2, "clipped", norms(LONG)),
            Check("clip/direction", "shortens all parts by one factor, in place", 1, "clipped", parts_clipped(LONG)),
            Check(
                "clip/limit",
                "leaves a gradient just below the limit, shortens one just above it",
                1,
                "clipped",
                all_of(norms(AT_THE_LIMIT), parts_clipped(AT_THE_LIMIT)),
                requires=("clip/norm", "clip/direction"),
            ),
            Check(
                "clip/one-number",
                "sends one number",
                1,
                "clipped",
                all_of(
                    calls("calls", lambda expected: clipped_gradients(expected, LONG)),
                    calls("calls at the limit", lambda expected: clipped_gradients(expected, AT_THE_LIMIT)),
                    has_form("sent", list_of(real_number), 2),
                    sends_its_squares,
                ),
                requires=("clip/norm",),
            ),
        ),
    ),
    Exercise(
        name="zero1",
        functions=("make_part", "zero1_step"),
        minutes=20,
        difficulty="medium",
        proves="N ranks need the optimizer's memory once, not N times, and get the weights of one process",
        hints=(
            "An optimizer keeps state for the parameters it was given. What if it is given one parameter, which is "
            "this rank's part of all weights?",
            "Concatenate the gradients in the order of the weights, None as zeros, and reduce-scatter them: the result "
            "is part.grad. After optimizer.step() each rank has its part of the new weights only.",
            "part.grad = reduce_gradient(torch.cat([...])); optimizer.step(); flat = gather(part.detach(), "
            "torch.Size([total])); then copy_ each slice into its parameter under torch.no_grad().",
        ),
        checks=(
            Check(
                "zero1/part",
                "makes this rank's part of all weights, a parameter",
                2,
                "parts_of_weights",
                all_of(has_form("type", short_text, 1), has_form("dtype", short_text, 1), a_parameter, parts_of_all),
            ),
            Check(
                "zero1/state",
                "lets the optimizer keep state for the part only",
                1,
                "parts_of_weights",
                all_of(has_form("state", count, 1), has_form("numbers", count, 1), state_of_a_part),
            ),
            Check(
                "zero1/update",
                "updates all weights on all ranks, as one process would",
                2,
                "updates",
                all_of(has_reference_form("first"), updated, SAME_TENSORS),
            ),
            Check(
                "zero1/missing",
                "takes a missing gradient as 0, and leaves gradients as they are",
                2,
                "updates",
                all_of(
                    has_reference_form("weights"),
                    updated_again,
                    none_of(
                        "disturbed",
                        "{} gradients in three updates were not what they were before: p.grad is the caller's.",
                    ),
                ),
                requires=("zero1/update",),
            ),
            Check(
                "zero1/memory",
                "keeps nothing but a part's gradient and state",
                1,
                "updates",
                all_of(has_form("state", count, 1), has_form("kept", count, 1), nothing_besides),
                requires=("zero1/update",),
            ),
            Check(
                "zero1/collectives",
                "sends gradients once, by reduce-scatter, and weights once, by all-gather",
                2,
                "updates",
                calls("calls", [f"update {place}" for place in (1, 2, 3)]),
                requires=("zero1/update",),
            ),
        ),
    ),
    Exercise(
        name="whole_weights",
        functions=("whole_weights", "reduce_into_part"),
        minutes=20,
        difficulty="medium",
        proves="you can gather a module's weights in one collective, and reduce its gradient in one",
        hints=(
            "An all-gather fills one tensor. How can each weight be a part of it, without a copy of any number?",
            "full[:total].split(sizes) returns views, and so does piece.view(shape). For the gradient, full.grad is as "
            "long as N parts, so the reduce-scatter needs no more padding. Where do you divide, and what if part.grad "
            "is not None?",
            "full = part.new_empty(N * part.numel()); all_gather_into_tensor(full, part.detach()); "
            "full.requires_grad_(torch.is_grad_enabled()), before the views are made. Back: "
            "reduce_scatter_tensor(mean, full.grad); mean /= N; add it to part.grad; full.grad = None; "
            "full.untyped_storage().resize_(0).",
        ),
        checks=(
            Check(
                "whole_weights/weights",
                "gives each weight its name, shape and numbers",
                2,
                "wholes",
                all_of(
                    has_form("names", list_of(short_text), 2),
                    has_form("weights", list_of(array_or_none), 2),
                    named_weights,
                ),
            ),
            Check(
                "whole_weights/views",
                "makes views into one leaf, of the part's dtype, by one all-gather",
                1,
                "wholes",
                all_of(
                    has_form("full", row_of(count, count, count), 2),
                    has_form("dtype", short_text, 2),
                    has_form("views", count, 2),
                    has_form("grad", row_of(boolean, boolean), 2),
                    has_form("apart", count, 2),
                    views_of_full,
                    CALLED,
                ),
                requires=("whole_weights/weights",),
            ),
            Check(
                "whole_weights/reduced",
                "adds this rank's part of the mean gradient to part.grad, by one reduce-scatter",
                2,
                "wholes",
                all_of(has_form("gradients", array_or_none, 3), gradients_added, REDUCED),
            ),
            Check(
                "whole_weights/given-back",
                "frees the whole gradient and the whole weights",
                1,
                "wholes",
                all_of(has_form("left", row_of(boolean, count, count), 3), given_back),
                requires=("whole_weights/reduced",),
            ),
        ),
    ),
    Exercise(
        name="sharded_forward",
        functions=("sharded_forward",),
        minutes=30,
        difficulty="hard",
        proves="you know what fully_shard does at each module, and when a whole weight exists",
        hints=(
            "Write the calls of one module on a line: gather, use, free, gather, use, reduce, free. Which of them does "
            "forward make, which does backward, and which event starts the calls of backward?",
            "`full` is a leaf that requires a gradient: full.register_post_accumulate_grad_hook runs when its gradient "
            "is complete, and y.register_hook runs when backward reaches the module.",
            "memory = full.untyped_storage(). After forward memory.resize_(0). In y's hook memory.resize_(bytes), "
            "all_gather_into_tensor(full.data, part.detach()). In full's hook reduce_into_part(full, part). No hooks "
            "if y does not require a gradient.",
        ),
        checks=(
            Check(
                "sharded_forward/output",
                "runs the module with all its weights",
                1,
                "modules",
                by_rank("y", [f"{mode}, the output" for mode in MODES]),
                requires=("whole_weights/views",),
            ),
            Check(
                "sharded_forward/gradient",
                "leaves this rank's part of the mean gradient",
                3,
                "modules",
                all_of(
                    by_rank("input gradient", [f"{mode}, the gradient of x" for mode in MODES]),
                    by_rank("gradient", [f"{mode}, part.grad" for mode in MODES]),
                ),
                requires=("sharded_forward/output",),
            ),
            Check(
                "sharded_forward/frees",
                "frees the whole weights after forward if reshard, and after backward",
                2,
                "modules",
                FREED,
                requires=("sharded_forward/output",),
            ),
            Check(
                "sharded_forward/collectives",
                "gathers once in forward, again in backward if reshard, reduces once",
                2,
                "modules",
                all_of(
                    calls("forward", [f"forward, {mode}" for mode in MODES]),
                    calls("backward", [f"backward, {mode}" for mode in MODES]),
                ),
                requires=("sharded_forward/output",),
            ),
            Check(
                "sharded_forward/adds",
                "follows an update of the part, and adds to the gradient that is there",
                1,
                "modules",
                all_of(
                    by_rank("fresh", [f"{mode}, after an update of the part, the output" for mode in MODES]),
                    by_rank("again", [f"{mode}, after a second backward, part.grad" for mode in MODES]),
                    has_form("raised in both", lambda value: type(value) is str, 2),
                    used_twice,
                    by_rank("both", [f"{mode}, after two calls and one backward, part.grad" for mode in MODES]),
                ),
                requires=("sharded_forward/gradient",),
            ),
            Check(
                "sharded_forward/chain",
                "holds one of two modules at a time",
                2,
                "modules",
                all_of(chained, has_form("most", count, 1), one_whole),
                requires=("sharded_forward/gradient",),
            ),
            Check(
                "sharded_forward/no-grad",
                "frees the whole weights after forward under torch.no_grad()",
                1,
                "modules",
                WITHOUT_GRADIENTS,
                requires=("sharded_forward/output",),
            ),
        ),
    ),
    Exercise(
        name="mixed_step",
        functions=("mixed_step",),
        minutes=15,
        difficulty="medium",
        proves="you can say which bytes travel in which precision, and what stays in fp32",
        hints=(
            "The part, the weights that are computed with and the sum of gradients each have a dtype. Where exactly "
            "is a number cast, before or after it is sent?",
            "Cast the part to bf16, then gather: half the bytes of fp32. Cast the gradient to fp32, then reduce: twice "
            "the bytes of bf16, and a sum that keeps its digits. The update reads fp32 and writes fp32.",
            "full = torch.empty(N * part.numel(), dtype=param_dtype); all_gather_into_tensor(full, "
            "part.to(param_dtype)); loss_of(full.requires_grad_()).backward(); reduce_scatter_tensor(mean, "
            "full.grad.to(reduce_dtype)); part -= lr * (mean / N).float().",
        ),
        checks=(
            Check("mixed_step/computes", "computes with the whole weights in param_dtype", 1, "mixed", GIVEN_WHOLE),
            Check(
                "mixed_step/update",
                "makes the update by the mean in reduce_dtype",
                3,
                "mixed",
                by_rank("first", [f"with {one}, the first change of the part" for one in POLICIES], SINGLE),
            ),
            Check(
                "mixed_step/master",
                "keeps the part in fp32, in place, over several steps",
                1,
                "mixed",
                all_of(
                    MASTER_KEPT,
                    by_rank("part", [f"with {one}, after three steps the part" for one in POLICIES], SINGLE),
                ),
            ),
            Check(
                "mixed_step/bytes",
                "sends weights in param_dtype, gradients in reduce_dtype, once each",
                3,
                "mixed",
                calls("calls", [f"with {one}" for one in POLICIES]),
                requires=("mixed_step/computes",),
            ),
        ),
    ),
    Exercise(
        name="save_parts",
        functions=("save_parts",),
        minutes=15,
        difficulty="medium",
        proves="a kill at any moment leaves no broken save, and no rank needs the whole tensor",
        hints=(
            "A rename is one operation, and writing takes many. Which name may the folder have while a rank still "
            "writes into it, and how can rank 0 wait until every rank has written?",
            "counts are min(size, max(0, numel - r * size)) for each rank r. part.numpy()[:count].tobytes() are a "
            "part's bytes without padding.",
            "Write into the partial folder, the manifest on rank 0; dist.barrier(); then rank 0 renames.",
        ),
        checks=(
            Check(
                "save_parts/files",
                "writes each rank's numbers, and the manifest",
                2,
                "saves",
                all_of(
                    *(has_form(name, count, 1) for name in ("manifests", "renames", "changed", "others")), right_files
                ),
            ),
            Check(
                "save_parts/complete",
                "gives the folder its name when every rank has written",
                2,
                "saves",
                all_of(has_form("early", count, 1), complete, BEGUN),
            ),
            Check(
                "save_parts/sends-none",
                "saves without sending weights",
                1,
                "saves",
                all_of(has_form("largest", message_or_none, 1), sends_nothing, BEGUN),
            ),
        ),
    ),
    Exercise(
        name="load_part",
        functions=("load_part",),
        minutes=15,
        difficulty="medium",
        proves="one, three or four ranks can resume what two ranks saved",
        hints=(
            "Place every saved file and your own part on one line from 0 to numel. Where two intervals overlap, from "
            "max of the starts to min of the ends, there is something to read.",
            "The file of saved rank r begins where the counts before it end. The dtype is in the manifest, and its "
            "itemsize makes an offset in numbers an offset in bytes.",
            "For each file, first = max(start, rank * size), last = min(start + count, (rank + 1) * size); if first < "
            "last, np.fromfile with count=last - first and offset=(first - start) * itemsize.",
        ),
        checks=(
            Check(
                "load_part/parts",
                "loads on any number of ranks what any number has saved, into memory of its own",
                3,
                "loads",
                LOADED_RIGHT,
            ),
            Check(
                "load_part/reads",
                "reads no more than its part",
                1,
                "loads",
                reads_its_part,
                requires=("load_part/parts",),
            ),
        ),
    ),
)
