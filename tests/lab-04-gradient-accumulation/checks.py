"""Lab 04, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

import math
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
    rounding_text,
    same_length,
    same_weights,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

EXACT = 1e-12  # float64 rounds at 1e-16; the sums here have a few hundred terms
OF_MODES = [f"the loss of a model with dropout 0.5 in {mode} mode" for mode in ("training", "evaluation")]
OF_MODES.append("the loss of a model without dropout in training mode")
A_FLOAT = is_of_type("float", "the loss, a Python float,", ": loss.item() returns one")
OF_STEPS = ("", " where the rows cancel", " with one sequence per row")
IN_FP32 = 1e-3  # the estimates are differences of squared lengths
FAR_CLIPPED = 1e-5  # torch's own clipping divides by norm + 1e-6
SIXTEEN = 0.01  # bf16 has 8 bits of precision
IN_SUMS = 1e-5  # sums in fp32; sums in bf16 are off by 1e-3 and more


def same_gradients(when: str, tolerance: float = EXACT) -> Judge:
    """Passes if the gradients are the reference's; the failure recognizes one factor common to all."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got["gradients"], expected["gradients"]
        if equal(mine, wanted, tolerance):
            return None
        if not _numbers_like(mine, wanted):
            return f"{when}, the gradients are not {wanted.size} numbers."
        missing, none = np.isnan(mine), np.isnan(wanted)
        if missing.all():
            return f"{when}, no weight has a gradient."
        if (missing & ~none).any():
            return f"{when}, there is no gradient of {_parameters(missing & ~none, expected)}; expected one."
        if (none & ~missing).any():
            what = "a gradient" if mine[none & ~missing].any() else "a gradient of zeros"
            return f"{when}, there is {what} of {_parameters(none & ~missing, expected)}; expected None."
        if infinite := int(np.isinf(mine).sum()):
            return f"{when}, {infinite} of {len(mine)} gradients are nan or inf; expected none."
        there = np.abs(np.nan_to_num(wanted)) > 1e-9
        factors = mine[there] / wanted[there]
        if len(factors) and np.ptp(factors) < 1e-6 * abs(factors[0]):
            named = _number_named(factors[0], expected)
            return f"{when}, every gradient is {factors[0]:.4g} times the expected one.{named}"
        differences = np.nan_to_num(np.abs(mine - wanted), nan=0.0)
        worst = int(np.argmax(differences))
        pair, where = (
            (float(mine[worst]), float(wanted[worst])),
            _parameters(differences == differences[worst], expected),
        )
        return f"{when}, a number of the gradient of {where} {mismatch_text(*pair)}{rounding_text(*pair)}"

    return judge


def _parameters(places: np.ndarray, expected: Answers) -> str:
    """Returns the names of the parameters with a number at one of these places."""
    ends = np.cumsum([math.prod(shape) for _, *shape in expected["parts"]])
    there = zip(expected["parts"], np.split(places, ends[:-1]), strict=True)
    return shorten(", ".join(name for (name, *_), found in there if found.any()))


def same_loss(got: Answers, expected: Answers) -> str | None:
    """Passes if the loss is the reference's; the failure recognizes the factors that the probe names."""
    mine, wanted = got.get("loss"), expected["loss"]
    if equal(mine, wanted, TOLERANCE):
        return None
    named = _number_named(mine / wanted, expected) if type(mine) is float else ""
    return f"the loss {mismatch_text(mine, wanted)}{rounding_text(mine, wanted)}{named}"


def _number_named(factor: float, expected: Answers) -> str:
    """Returns a sentence on the number that `factor` is, or is 1 divided by, of those that the probe names, or ''."""
    for name, number in zip(expected.get("names", []), expected.get("numbers", []), strict=True):
        if number > 1 and equal(factor, float(number), 1e-6):
            return f" That is {number} times the expected number, and {number} is the number of {name}."
        if number > 1 and equal(factor * number, 1.0, 1e-6):
            return f" That is 1/{number} of the expected number, and {number} is the number of {name}."
    return ""


def _numbers_like(mine: object, wanted: np.ndarray) -> bool:
    return isinstance(mine, np.ndarray) and mine.dtype == wanted.dtype and mine.shape == wanted.shape


def loss_and_sums(got: Answers, expected: Answers) -> str | None:
    """Passes if a float and a list of tensors came back, with right dtypes and no graph, and every p.grad is None."""
    if not equal(got["type"], expected["type"]):
        found = shorten(got["type"])
        return f"the return value is of type {found}; expected (loss, gradients), a Python float and a list."
    for place, (mine, wanted) in enumerate(zip(_list(got["kinds"]), expected["kinds"], strict=False)):
        if not equal(mine, wanted):
            none = " (NoneType: no gradient)" if "NoneType" in (str(mine), wanted) else ""
            name = expected["parts"][place][0]
            return f"item {place} of the list, for {name}, is of type {shorten(mine)}; expected {wanted}{none}."
    if not equal(got["kinds"], expected["kinds"]):
        return f"there are {len(_list(got['kinds']))} items in the list; expected {len(expected['kinds'])}."
    if not equal(got["graphs"], 0):
        return f"{shorten(got['graphs'])} of the tensors in the list have a graph; expected none."
    if not equal(got["left"], 0):
        left = shorten(got["left"])
        return (
            f"p.grad is still there for {left} of the parameters after the call; expected None in all, frozen or not."
        )
    return None


def sums_keep_digits(got: Answers, expected: Answers) -> str | None:
    """Passes if gradients and losses of a bf16 model are added up in fp32, and other sums have the right dtypes."""
    mine, wanted = got["gradients"], expected["gradients"]
    if not equal(got["bf16 loss"], expected["bf16 loss"], SIXTEEN):
        both = mismatch_text(got["bf16 loss"], expected["bf16 loss"])
        return f"with bf16 logits, one large loss and {expected['k'] - 1} small ones, the mean loss {both}"
    for kind, right in zip(_list(got["sums"]), expected["sums"], strict=False):
        if not equal(kind, right):
            return f"the list holds {shorten(kind)}; expected {right}."
    if equal(mine, wanted, IN_SUMS):
        return None
    when = f"with a bf16 model and k = {expected['k']}"
    if not _numbers_like(mine, wanted) or np.isnan(mine).any():
        return f"{when}, the gradients are not {wanted.size} numbers."
    off = float(np.linalg.norm(mine - wanted) / np.linalg.norm(wanted))
    if off > 0.1:
        return same_gradients(when)(got, expected)
    return (
        f"{when}, the gradient is off by {off:.2%} of its length, as sums in bf16 are; sums in fp32 are off by 0.00 %."
    )


def caller_keeps_tokens(got: Answers, expected: Answers) -> str | None:
    """Passes if the tokens and targets are unchanged."""
    return None if equal(got["tokens"], expected["tokens"]) else "the call changed the tokens or targets."


def nothing_moved(got: Answers, expected: Answers) -> str | None:
    """Passes if no weight was changed."""
    moved = got["moved"]
    return None if equal(moved, 0) else f"the call changed {shorten(moved)} weights; expected 0."


def one_at_a_time(got: Answers, expected: Answers) -> str | None:
    """Passes if autograd held the activations of one micro-batch at a time, and of each once."""
    held, backwards = got["held"], got["backwards"]
    if not isinstance(held, list) or not all(type(one) is float and 0 <= one < 1e6 for one in held):
        return "the activations that autograd held at the end of each forward pass could not be measured."
    if not held:
        return "the model was never called."
    if type(backwards) is not int or backwards < 1:
        return "backward never ran."
    if max(held) > 1.5:
        most = f"the activations of {max(held):.0f} micro-batches at the end of forward pass {np.argmax(held) + 1}"
        return f"autograd holds {most}; expected 1{'.' if held[0] > 1.5 else ': run backward after each.'}"
    if backwards < expected["backwards"]:
        return f"backward ran {backwards} times; expected {expected['backwards']}, once per micro-batch."
    if backwards != len(held):
        return f"the model was called {len(held)} times, and backward ran {shorten(backwards)} times; expected as many."
    if not equal(got["reached"], expected["reached"]):
        return f"backward reached the weights {shorten(got['reached'])} times; expected {expected['reached']}."
    if not equal(got["turns"], expected["turns"]):
        return "the passes did not alternate: one forward and one backward of each micro-batch, then the next one."
    if abs(sum(held) - sum(expected["held"])) > 0.5:
        return f"{sum(held):.1f} micro-batches' activations were there in all; expected {sum(expected['held']):.0f}."
    if type(got["peak"]) is not float or not 0 < got["peak"] <= 1.8 * expected["peak"]:
        times = f"{got['peak'] / expected['peak']:.1f}" if type(got["peak"]) is float else "many"
        return f"autograd held {times} times the activations of one micro-batch and its loss; expected 1."
    return None


def once_each(got: Answers, expected: Answers) -> str | None:
    """Passes if the model ran once for each micro-batch, with gradients or without."""
    if equal(got["passes"], expected["passes"]):
        return None
    return f"the model ran {shorten(got['passes'])} times; expected {expected['passes']}, once per micro-batch."


def keeps_few(got: Answers, expected: Answers) -> str | None:
    """Passes if at most two micro-batches more than with the reference were in memory at once."""
    if type(got["kept"]) is int and 1 <= got["kept"] <= expected["kept"] + 2:
        return None
    return f"{shorten(got['kept'])} micro-batches were in memory at once; expected at most {expected['kept']}."


def reads_no_further(got: Answers, expected: Answers) -> str | None:
    """Passes if at each update at most one micro-batch beyond the group had been read."""
    if not _list(got["taken"]):
        return "there was no update."
    for update, (mine, wanted) in enumerate(zip(got["taken"], expected["taken"], strict=False)):
        if type(mine) is not int or not wanted <= mine <= wanted + 1:
            return f"at update {update + 1}, {shorten(mine)} micro-batches had been read; expected {wanted}."
    count = len(expected["taken"])
    return None if len(got["taken"]) == count else f"there were {len(got['taken'])} updates; expected {count}."


def reads_one_by_one(got: Answers, expected: Answers) -> str | None:
    """Passes if at the end of each forward pass at most one micro-batch beyond it had been read."""
    for place, (mine, wanted) in enumerate(zip(_list(got["read"]), expected["read"], strict=False)):
        if type(mine) is not int or not wanted <= mine <= wanted + 1:
            return f"at forward pass {place + 1}, {shorten(mine)} micro-batches had been read; expected {wanted}."
    count = len(expected["read"])
    return None if len(_list(got["read"])) == count else f"the model did not run {count} times, once per micro-batch."


def passes_in_turn(got: Answers, expected: Answers) -> str | None:
    """Passes if one pass had been taken at the first update, and at each later one at most one beyond the current."""
    for place, (mine, wanted) in enumerate(zip(_list(got["started"]), expected["started"], strict=False)):
        if type(mine) is not int or not wanted <= mine <= wanted + bool(place):
            return f"at update {place + 1} {shorten(mine)} passes had been taken from `epochs`; expected {wanted}."
    return None


def _modes_are_kept(got: Answers, expected: Answers) -> str | None:
    """Passes if the model has the same mode after the call as before."""
    names = {True: "training", False: "evaluation"}
    for found, left in zip((True, False, True), got["left"], strict=True):
        odd = sum(one is not found for one in left)
        if left[0] is not found:
            return f"a model in {names[found]} mode was in {names[not found]} mode after the call."
        if odd:
            return f"{odd} modules of a model in {names[found]} mode were in {names[not found]} mode after the call."
    return None


modes_are_kept = all_of(has_reference_form("left"), _modes_are_kept)


def in_order(got: Answers, expected: Answers) -> str | None:
    """Passes if each sequence went through the model once, in order, in micro-batches of the right size."""
    wanted = expected["passed"]
    mine = [one if isinstance(one, list) else [] for one in _list(got["passed"])]
    for place, (one, other) in enumerate(zip(mine, wanted, strict=False)):
        if len(one) != len(other):
            return f"forward pass {place + 1} got {len(one)} sequences; expected {len(other)}."
        if not equal(one, other):
            return f"forward pass {place + 1} got other sequences than expected; keep their order."
    return None if len(mine) == len(wanted) else f"there were {len(mine)} forward passes; expected {len(wanted)}."


def updates_come_after(got: Answers, expected: Answers) -> str | None:
    """Passes if optimizer.step() was called after the right micro-batches."""
    if equal(got["after"], expected["after"]):
        return None
    return f"with k = {expected['k']}, {_places(got['after'], expected['after'])}"


def leftovers_too(got: Answers, expected: Answers) -> str | None:
    """Passes if updates and losses are right for several lengths of the data."""
    cases = [f"{count} micro-batches with k = {k}" for count, k in zip(expected["counts"], expected["ks"], strict=True)]
    for case, mine, wanted in zip(cases, got["after"], expected["after"], strict=True):
        if not equal(mine, wanted):
            return f"for {case}, {_places(mine, wanted)}"
    for case, kind in zip(cases, got["types"], strict=True):
        if not equal(kind, "list of float"):
            return f"for {case}, the return value is a {shorten(kind)}; expected a list of Python floats."
    for case, mine, wanted in zip(cases, got["losses"], expected["losses"], strict=True):
        if not equal(mine, wanted, TOLERANCE):
            return f"the losses of {case}: {_lists(mine, wanted)}"
    return None


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _places(mine: Any, wanted: list[int]) -> str:
    if not _list(mine):
        return f"there was no update; expected {len(wanted)}."
    more = len(mine) - len(wanted)
    if wanted and more > 0 and equal(mine, [*wanted, *[wanted[-1]] * more]):
        return (
            f"optimizer.step() was called {len(mine)} times; expected {len(wanted)}. After the last micro-batch there "
            f"{'was one call' if more == 1 else f'were {more} calls'} too many."
        )
    told, right = (", ".join(map(str, after[:20])) or "none" for after in (mine, wanted))
    return f"updates came when {shorten(told)} micro-batches had gone through the model; expected {right}."


def a_list(got: Answers, expected: Answers) -> str | None:
    """Passes if the return value is a list of Python floats."""
    if not equal(got["type"], "list of float"):
        return f"the return value is a {shorten(got['type'])}; expected a list of Python floats."
    return None


def same_list(name: str, what: str, tolerance: float = TOLERANCE) -> Judge:
    """Passes if the list `name` is the reference's: in length, then number by number."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if equal(got[name], expected[name], tolerance):
            return None
        return f"{what}: {_lists(got[name], expected[name], tolerance)}"

    return judge


def _lists(mine: Any, wanted: list[float], tolerance: float = TOLERANCE) -> str:
    if not isinstance(mine, list):
        return "the answer is not a list of numbers."
    if len(mine) != len(wanted):
        return f"there are {len(mine)}; expected {len(wanted)}."
    place = next(place for place, (a, b) in enumerate(zip(mine, wanted, strict=True)) if not equal(a, b, tolerance))
    both = mismatch_text(mine[place], wanted[place])
    return f"number {place + 1} of {len(wanted)} {both}{rounding_text(mine[place], wanted[place])}"


def empty_passes(mine: Any, wanted: Any) -> str:
    """Returns a sentence on the rates of the passes [], [b], [] and [b], where b is a micro-batch."""
    told = mine if isinstance(mine, str) else _rates(mine)
    rule = "A pass without micro-batches makes no update, and the next pass follows."
    return f"with the passes [], [b], [], [b], the rates are {shorten(told)}; expected {_rates(wanted)}. {rule}"


def _rates(found: Any) -> str:
    return ", ".join(f"{one:.6g}" if type(one) is float else shorten(one, 20) for one in _list(found)[:6]) or "none"


def is_clipped(got: Answers, expected: Answers) -> str | None:
    """Passes if the gradients are the reference's, up to the small number that torch's own clipping adds."""
    in_a_list = equal(got.get("in a list"), expected.get("in a list"), FAR_CLIPPED)
    if equal(got["gradients"], expected["gradients"], FAR_CLIPPED):
        return None if in_a_list else "with the parameters in a list, the gradients differ from those of a generator."
    if not _numbers_like(got["gradients"], expected["gradients"]):
        return f"after clipping, the gradients are not {expected['gradients'].size} numbers."
    limit = f"clipped to {expected['max_norm']:.3f}"
    if in_a_list and "in a list" in expected:
        limit = f"with the parameters in a generator (in a list it is right), {limit}"
    mine, wanted = (np.clip(np.nan_to_num(one["gradients"]), -1e100, 1e100) for one in (got, expected))
    cosine = float(mine @ wanted / max(np.linalg.norm(mine) * np.linalg.norm(wanted), 1e-300))
    missing, asked = (int(np.isnan(each["gradients"]).sum()) for each in (got, expected))
    if missing < asked:
        count = asked - missing
        return f"a parameter without a gradient has one of {count} numbers after clipping; expected None in p.grad."
    if missing > asked:
        return f"{missing - asked} numbers of the gradient are missing after clipping; expected a gradient in p.grad."
    length = f"the gradient has the norm {np.linalg.norm(mine):.4f}; expected {np.linalg.norm(wanted):.4f}"
    turned = (
        ""
        if cosine > 1 - 1e-6
        else f", and its direction has changed by {np.degrees(np.arccos(min(1.0, cosine))):.0f} degrees"
    )
    return f"{limit}, {length}{turned}."


def in_place(got: Answers, expected: Answers) -> str | None:
    """Passes if p.grad holds the same tensors, and no weight changed."""
    return (
        nothing_moved(got, expected) or None
        if got["in place"] is True and equal(got["in memory"], expected["in memory"], FAR_CLIPPED)
        else "p.grad is another tensor than before; change it in place."
    )


def norms_of_updates(got: Answers, expected: Answers) -> str | None:
    """Passes if both norms are floats, and the reference's."""
    for kind in got["types"]:
        if kind != "float":
            return f"the return value is of type {shorten(kind)}; expected the norm, a Python float."
    below, above = (f"with max_norm {limit:.4g}" for limit in expected["limits"])
    cases = (below, above, f"{above} and the micro-batches in a list")
    for case, mine, wanted in zip(cases, got["norms"], expected["norms"], strict=True):
        if not equal(mine, wanted, TOLERANCE):
            of = f"the returned norm, of {expected['count']} micro-batches' mean gradient,"
            return f"{case}, {of} {mismatch_text(mine, wanted)}{_times(mine, wanted)}"
    return None


def _times(mine: Any, wanted: float) -> str:
    """Returns the ratio to the expected number, as ' That is 3 times the expected number.'; '' for no number."""
    if type(mine) not in (int, float) or not wanted or not abs(mine) < 1e100:
        return ""
    if equal(mine, wanted, FAR_CLIPPED):
        return " A difference this small comes from fp32 where the gradients are fp64, or from a small number added."
    return f" That is {mine / wanted + 0.0:.4g} times the expected number."


def one_step(got: Answers, expected: Answers) -> str | None:
    """Passes if optimizer.step() was called once."""
    if equal(got["steps"], expected["steps"]):
        return None
    steps = " and ".join(shorten(one, 20) for one in _list(got["steps"])[:2])
    return f"optimizer.step() was called {steps} times; expected 1."


def weights_of_updates(got: Answers, expected: Answers) -> str | None:
    """Passes if both models' weights are the reference's."""
    if not _numbers_like(got["weights"], expected["weights"]):
        return f"after an update, the model does not have {expected['weights'].size // 2} weights."
    for number, limit in enumerate(expected["limits"]):
        mine, wanted = (np.split(each["weights"], 2)[number] for each in (got, expected))
        if not equal(mine, wanted, 1e-7):  # torch's own clipping differs by 1e-6 of a step of 0.005
            before = expected["before"]
            still = wanted == before
            if equal(mine[~still], wanted[~still], 1e-7):
                changed = int((mine != wanted)[still].sum())
                return f"the update changed {changed} weights of parameters without a gradient; expected 0."
            update, right = (np.clip(np.nan_to_num(weights - before), -1e100, 1e100) for weights in (mine, wanted))
            lengths = float(np.linalg.norm(update)), float(np.linalg.norm(right))
            cosine = float(update @ right) / max(lengths[0] * lengths[1], 1e-300)
            turned = (
                f" and rotated by {np.degrees(np.arccos(max(-1.0, cosine))):.0f} degrees" if cosine < 1 - 1e-6 else ""
            )
            times = f"{lengths[0] / lengths[1]:.4g} times as long as expected{turned}"
            return f"with max_norm {limit:.4g} and {expected['count']} micro-batches, the update is {times}."
    return None


def near_limits(got: Answers, expected: Answers) -> str | None:
    """Passes if short gradients stay unchanged, one just above the limit is shortened, and the norms are right."""
    every = zip(expected["asked"], got["types"], got["norms"], got["lengths"], expected["lengths"], strict=True)
    for asked, kind, norm, length, wanted in every:
        case = f"of a gradient with norm {asked:.4f}, with max_norm {expected['limit']:.4f}"
        if not equal(norm, asked, TOLERANCE):
            return f"the returned norm {case}, {mismatch_text(norm, asked)}"
        if not equal(kind, "float"):
            return f"the returned norm {case}, is of type {shorten(kind)}; expected a Python float."
        if not equal(length, wanted, TOLERANCE):
            small = equal(length, wanted, FAR_CLIPPED)
            hint = (
                " A difference this small comes from a small number added to the norm, or from fp32." if small else ""
            )
            return f"the norm after clipping {case}, {mismatch_text(length, wanted)}{hint}"
    if not equal(got["short"], expected["short"], EXACT):
        return "the call changed a gradient below the limit; expected no change."
    same = equal(got["gradients"], expected["gradients"], TOLERANCE)
    return None if same else "after clipping, numbers of the gradients differ from those expected."


def norm_of_all(got: Answers, expected: Answers) -> str | None:
    """Passes if the norm is the reference's; the failure recognizes a difference of the size of fp32 rounding."""
    mine, wanted = got["norm"], expected["norm"]
    if equal(mine, wanted, TOLERANCE):
        return None
    small = equal(mine, wanted, FAR_CLIPPED)
    cause = (
        " A difference this small comes from adding squares of fp64 gradients in fp32, or a small number to the norm."
    )
    return f"the norm of all gradients together {mismatch_text(mine, wanted)}{cause if small else ''}"


def norms_without_some(got: Answers, expected: Answers) -> str | None:
    """Passes if the norm is right where some or all gradients are None."""
    for case, kind, mine, wanted in zip(
        ("some parameters", "every parameter"), got["types"], got["norms"], expected["norms"], strict=True
    ):
        if not equal(mine, wanted, TOLERANCE):
            return f"with {case} without a gradient, the norm {mismatch_text(mine, wanted)}"
        if not equal(kind, "float"):
            return f"with {case} without a gradient, the return value is a {shorten(kind)}; expected a Python float."
    return None


def formats_kept(got: Answers, expected: Answers) -> str | None:
    """Passes if gradients keep their dtypes, and are clipped by a norm from exact squares."""
    for mine, wanted in zip(got["dtypes"], expected["dtypes"], strict=True):
        if not equal(mine, wanted):
            return f"the dtype of a {wanted} gradient is {shorten(mine)} after clipping."
    if not equal(got["norm"], expected["norm"], FAR_CLIPPED):
        both = mismatch_text(got["norm"], expected["norm"])
        close = type(got["norm"]) is float and abs(got["norm"] / expected["norm"] - 1) < SIXTEEN * 10
        rounded = " So small a difference appears where norms or squares are rounded to 16 bits." if close else ""
        return f"the norm of fp16, bf16, fp32 and fp64 gradients of about 300 {both}{rounded}"
    same = _numbers_like(got["gradients"], expected["gradients"])
    same = same and equal(got["gradients"], expected["gradients"], SIXTEEN)
    return None if same else "fp16, bf16, fp32 and fp64 gradients are not all multiplied by the same number."


def each_count(got: Answers, expected: Answers) -> str | None:
    """Passes if every number of updates is right, and an int."""
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
    """Passes if two Python floats came back, and the gradients are unchanged."""
    if not equal(got["types"], expected["types"]):
        found = shorten(", ".join(map(str, _list(got["types"])[:2])))
        return f"the types of the return value are ({found}); expected two Python floats, for |G|^2 and tr(S)."
    changed = got["changed"]
    return (
        None
        if equal(changed, 0)
        else f"the call changed {shorten(changed)} numbers of `gradients`; they belong to the caller."
    )


def estimates_equal(name: str, estimated: str) -> Judge:
    """Passes if each estimate is the reference's; the failure names the sizes, of which one is often the factor."""

    def judge(got: Answers, expected: Answers) -> str | None:
        every = zip(OF_STEPS, got[name], expected[name], expected["sizes"], strict=True)
        for where, mine, wanted, (k, size, numbers) in every:
            if not equal(mine, wanted, TOLERANCE):
                both = f"{mismatch_text(mine, wanted)}{_times(mine, wanted)}"
                sizes = f"with k = {k}, micro_batch = {size} and P = {numbers}"
                return f"{sizes}, the estimate of {estimated}{where} {both}"
        return None

    return all_of(same_length(name), judge)


def scales(got: Answers, expected: Answers) -> str | None:
    """Passes if the noise scale of several steps, and of one step, is right."""
    cases = ("several steps", "one step")
    for case, kind, mine, wanted in zip(cases, got["types"], got["scales"], expected["scales"], strict=True):
        if not equal(mine, wanted, TOLERANCE):
            small = (
                " A difference this small comes from a result in fp32, or a small number added to |G|^2."
                if equal(mine, wanted, FAR_CLIPPED)
                else ""
            )
            return f"the noise scale of {case} {mismatch_text(mine, wanted)}{small}"
        if not equal(kind, "float"):
            return f"the noise scale of {case} is of type {shorten(kind)}; expected a Python float."
    return None


def float_infinity(got: Answers, expected: Answers) -> str | None:
    """Passes if infinity came back, as a Python float."""
    if not equal(got["scale"], expected["scale"]):
        return f"with an estimate of |G|^2 below 0, the noise scale {mismatch_text(got['scale'], expected['scale'])}"
    if not equal(got["of zeros"], expected["of zeros"]):
        return f"with gradients of zeros, the result {mismatch_text(got['of zeros'], expected['of zeros'])}"
    return is_of_type("float", "math.inf, a Python float,")(got, expected)


EXERCISES = (
    Exercise(
        name="accumulate",
        functions=("accumulate",),
        minutes=15,
        difficulty="medium",
        proves="you can compute a batch's gradient from parts that fit in memory, precisely also in a 16-bit model",
        hints=(
            "backward adds to p.grad, in the parameter's dtype. Your sums are other tensors. What value must p.grad "
            "have before each backward?",
            "The k parts are equal in size, so the mean over the batch is the mean of their means: multiply each "
            "part's loss by 1/k. After each backward, add every p.grad that is not None to its sum, and set p.grad to "
            "None.",
            "model.zero_grad(); for micro_x, micro_y in zip(x.chunk(k), y.chunk(k)): loss = cross-entropy / k; "
            "loss.backward(); total += loss.item(); then for each parameter: gradient = p.grad.to(torch.promote_types("
            "p.dtype, torch.float32)); add it to its sum; p.grad = None.",
        ),
        checks=(
            Check(
                "accumulate/gradient",
                "computes the whole batch's gradient, and changes no weight",
                points=2,
                probe="whole_batch",
                judge=all_of(loss_and_sums, same_gradients("after the last micro-batch"), nothing_moved),
            ),
            Check(
                "accumulate/loss",
                "returns the whole batch's mean loss, a float",
                points=1,
                probe="whole_batch",
                judge=all_of(same_loss, caller_keeps_tokens),
            ),
            Check(
                "accumulate/sums",
                "adds the gradients and losses of a bf16 model in fp32 or wider",
                points=1,
                probe="in_bf16",
                judge=all_of(once_each, loss_and_sums, same_length("sums"), sums_keep_digits),
                requires=("accumulate/gradient", "accumulate/loss"),
            ),
            Check(
                "accumulate/memory",
                "holds one micro-batch's activations at a time",
                points=1,
                probe="parts_in_memory",
                judge=all_of(one_at_a_time, once_each, ran_on_the_batches()),
                requires=("accumulate/gradient",),
            ),
            Check(
                "accumulate/stale",
                "ignores gradients that were there before",
                points=1,
                probe="over_old_gradients",
                judge=all_of(same_gradients("with old gradients in place"), loss_and_sums),
                requires=("accumulate/gradient",),
            ),
            Check(
                "accumulate/frozen",
                "handles frozen parameters, and parameters that one micro-batch does not use",
                points=1,
                probe="with_a_frozen_layer",
                judge=all_of(
                    once_each,
                    loss_and_sums,
                    same_gradients("with one parameter frozen and two that some micro-batches do not use"),
                    equals_reference("in one", EXACT, lambda *_: "with k = 1, the gradients differ from the batch's."),
                    equals_reference("trainable", 0, lambda *_: "the call changed requires_grad of a parameter."),
                ),
                requires=("accumulate/gradient",),
            ),
            Check(
                "accumulate/mode",
                "runs the model in its mode, with its dropout",
                points=1,
                probe="in_both_modes",
                judge=all_of(in_order, modes_are_kept, numbers_equal("losses", *OF_MODES)),
                requires=("accumulate/loss", "accumulate/memory"),
            ),
        ),
    ),
    Exercise(
        name="accumulate_tokens",
        functions=("accumulate_tokens",),
        minutes=15,
        difficulty="medium",
        proves="you can give every scored token the same weight, with padding, prompts and documents of any length",
        hints=(
            "A mean of means gives a micro-batch of three tokens the weight of one of three hundred. By which number "
            "should every token's loss be divided?",
            "Count the targets that are not -100, over the whole group, before the first forward. Then use "
            'reduction="sum" and divide each sum by that count.',
            "scored = sum(int((y != -100).sum()) for _, y in micro_batches); per micro-batch: (summed / scored)"
            ".backward(). A micro-batch without scored tokens has the sum 0; its mean would be 0/0.",
        ),
        checks=(
            Check(
                "accumulate_tokens/gradient",
                "computes the gradient of the mean over all scored tokens",
                points=3,
                probe="ragged",
                judge=same_gradients("after micro-batches with different numbers of scored tokens"),
            ),
            Check(
                "accumulate_tokens/loss",
                "returns the mean loss over all scored tokens, a float",
                points=2,
                probe="ragged",
                judge=all_of(A_FLOAT, same_loss),
            ),
            Check(
                "accumulate_tokens/empty",
                "handles a micro-batch without scored tokens",
                points=2,
                probe="nothing_scored",
                judge=all_of(
                    number_equals("loss", "with a micro-batch without scored tokens, the loss"),
                    same_gradients("with a micro-batch without scored tokens"),
                ),
                requires=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
            ),
            Check(
                "accumulate_tokens/memory",
                "holds one micro-batch's activations at a time",
                points=1,
                probe="ragged_in_memory",
                judge=all_of(one_at_a_time, once_each, ran_on_the_batches()),
                requires=("accumulate_tokens/gradient",),
            ),
            Check(
                "accumulate_tokens/stale",
                "ignores gradients that were there before",
                points=1,
                probe="ragged_over_old_gradients",
                judge=same_gradients("with old gradients in place"),
                requires=("accumulate_tokens/gradient",),
            ),
            Check(
                "accumulate_tokens/undisturbed",
                "changes neither the caller's tensors nor the model's mode",
                points=1,
                probe="the_callers_tensors",
                requires=("accumulate_tokens/loss",),
                judge=all_of(
                    equals_reference("targets", 0, lambda *_: "the call changed the targets; work on a copy."),
                    equals_reference("inputs", 0, lambda *_: "the call changed the inputs; work on a copy."),
                    in_order,
                    modes_are_kept,
                    numbers_equal("losses", *OF_MODES),
                    nothing_moved,
                ),
            ),
        ),
    ),
    Exercise(
        name="train_epoch",
        functions=("train_epoch",),
        minutes=20,
        difficulty="medium",
        proves="you can make each update after the right micro-batches, the last update included",
        hints=(
            "For 8 micro-batches and k = 3, write down the micro-batches after which an update comes, and the number "
            "by which each loss is divided.",
            "If you read a group's micro-batches before you run the first, the last group needs no special case: "
            "divide by len(group). itertools.islice(stream, k) takes the next k, or fewer.",
            "stream = iter(micro_batches); while group := list(itertools.islice(stream, k)): zero_grad, then loss / "
            "len(group) and backward for each, then one optimizer.step().",
        ),
        checks=(
            Check(
                "train_epoch/update",
                "makes one update per k micro-batches, with their mean gradient",
                points=1,
                probe="one_group",
                judge=all_of(updates_come_after, same_weights("after one group")),
            ),
            Check(
                "train_epoch/groups",
                "makes each update with its own group's gradient alone",
                points=1,
                probe="full_groups",
                judge=all_of(updates_come_after, same_weights("after several full groups")),
                requires=("train_epoch/update",),
            ),
            Check(
                "train_epoch/losses",
                "returns one loss per update, the mean over the group",
                points=1,
                probe="full_groups",
                judge=all_of(a_list, same_list("losses", "the losses of full groups")),
                requires=("train_epoch/groups",),
            ),
            Check(
                "train_epoch/leftover",
                "makes the last update with the mean of the micro-batches that are left",
                points=2,
                probe="with_a_leftover",
                judge=all_of(
                    *map(same_length, ("after", "types", "losses")),
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
                judge=all_of(one_at_a_time, reads_no_further, keeps_few, ran_on_the_batches()),
                requires=("train_epoch/update",),
            ),
            Check(
                "train_epoch/stale",
                "ignores gradients that were there before",
                points=1,
                probe="epoch_over_old_gradients",
                judge=same_weights("after two groups with weight decay, with old gradients in place"),
                requires=("train_epoch/groups",),
            ),
            Check(
                "train_epoch/mode",
                "changes neither the model's mode nor the caller's tensors",
                points=1,
                probe="epoch_in_both_modes",
                judge=all_of(in_order, numbers_equal("losses", *OF_MODES), modes_are_kept, caller_keeps_tokens),
                requires=("train_epoch/losses",),
            ),
        ),
    ),
    Exercise(
        name="clip_once",
        functions=("clip_gradients", "clipped_update"),
        minutes=15,
        difficulty="medium",
        proves="you clip the gradient that the update uses, and return its norm before clipping",
        hints=(
            "All gradients are one vector, with one norm and one factor. When is the gradient of the update complete?",
            "model.parameters() is a generator: a second loop over it gets no parameters. Collect the gradients that "
            "are not None in a list first.",
            "norm = math.sqrt(sum of gradient.double().square().sum().item()); if norm > max_norm, gradient.mul_("
            "max_norm / norm) for each. In clipped_update: all backwards and a count, then divide every gradient by "
            "the count, then clip_gradients once, then optimizer.step().",
        ),
        checks=(
            Check(
                "clip_once/norm",
                "returns the norm before clipping, a float",
                points=1,
                probe="a_long_gradient",
                judge=all_of(
                    is_of_type("float", "the norm, a Python float,"),
                    norm_of_all,
                    number_equals("norm in a list", "with the parameters in a list, the norm"),
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
                "changes no gradient below the limit, or 0, and shortens one just above the limit",
                points=1,
                probe="near_the_limit",
                judge=all_of(*map(same_length, ("types", "norms", "lengths")), near_limits),
                requires=("clip_once/norm", "clip_once/direction"),
            ),
            Check(
                "clip_once/none",
                "skips parameters without a gradient",
                points=1,
                probe="a_missing_gradient",
                judge=all_of(*map(same_length, ("types", "norms")), norms_without_some, is_clipped),
                requires=("clip_once/norm", "clip_once/direction"),
            ),
            Check(
                "clip_once/formats",
                "computes the norm of 16-bit gradients in fp32 or fp64, and keeps each dtype",
                points=1,
                probe="mixed_formats",
                judge=all_of(same_length("dtypes"), formats_kept),
                requires=("clip_once/norm", "clip_once/direction"),
            ),
            Check(
                "clip_once/once",
                "clips the group's gradient once, before the update",
                points=2,
                probe="one_clipped_update",
                judge=all_of(
                    one_step,
                    one_at_a_time,
                    reads_one_by_one,
                    keeps_few,
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
        proves="you can make a schedule of 10,000 updates last for 10,000 updates, with any k",
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
                "counts the updates of several passes, each with leftover micro-batches",
                points=3,
                probe="counts",
                judge=all_of(has_reference_form("types"), same_length("counts"), each_count),
            ),
            Check(
                "schedule/rates",
                "returns the rate that each update used",
                points=2,
                probe="scheduled",
                judge=all_of(
                    a_list,
                    same_list("rates", "the rates of several passes, all but the last with a group that is not full"),
                    equals_reference("with empty passes", TOLERANCE, empty_passes),
                ),
                requires=("train_epoch/leftover",),
            ),
            Check(
                "schedule/moves",
                "changes every rate once per update, after the update",
                points=2,
                probe="scheduled",
                judge=all_of(
                    equals_reference(
                        "left",
                        TOLERANCE,
                        lambda got, expected: (
                            f"after the last update, the rates of the two parameter groups are {_rates(got)}; "
                            f"expected {_rates(expected)}."
                        ),
                    ),
                    same_weights("after several passes, all but the last with a group that is not full"),
                ),
                requires=("train_epoch/leftover",),
            ),
            Check(
                "schedule/stream",
                "reads no further than the group",
                points=1,
                probe="scheduled",
                judge=all_of(reads_no_further, same_length("started"), passes_in_turn),
                requires=("train_epoch/memory", "schedule/moves"),
            ),
        ),
    ),
    Exercise(
        name="noise_scale",
        functions=("noise_estimates", "noise_scale"),
        minutes=15,
        difficulty="hard",
        proves="you can estimate from a run's gradients the batch size above which more tokens per update help little",
        hints=(
            "Two batch sizes, two squared lengths, two unknowns: |G_B|^2 = |G|^2 + tr(S)/B for B_s and for B_b. Solve.",
            "The small batch is one row: take the mean over the rows of their squared lengths. The large one is the "
            "mean of all rows, whose squared length comes after the mean.",
            "|G|^2 = (B_b n_b - B_s n_s) / (B_b - B_s), tr(S) = (n_s - n_b) / (1/B_s - 1/B_b), with n the squared "
            "lengths. noise_scale: the mean of the tr(S) divided by the mean of the |G|^2.",
        ),
        checks=(
            Check(
                "noise_scale/signal",
                "estimates |G|^2 without bias",
                points=2,
                probe="estimates",
                judge=all_of(
                    two_floats,
                    estimates_equal("signals", "|G|^2"),
                    number_equals("signal in fp32", "in fp32, the estimate of |G|^2", IN_FP32),
                ),
            ),
            Check(
                "noise_scale/noise",
                "estimates tr(S), the noise of one sequence, without bias",
                points=2,
                probe="estimates",
                judge=all_of(
                    two_floats,
                    estimates_equal("noises", "tr(S)"),
                    number_equals("noise in fp32", "in fp32, the estimate of tr(S)", IN_FP32),
                ),
            ),
            Check(
                "noise_scale/ratio",
                "averages both estimates over the steps, then divides",
                points=3,
                probe="scale",
                judge=all_of(*map(same_length, ("types", "scales")), scales),
                requires=("noise_scale/signal", "noise_scale/noise"),
            ),
            Check(
                "noise_scale/no-signal",
                "returns infinity where no signal was found",
                points=1,
                probe="no_signal",
                judge=float_infinity,
                requires=("noise_scale/ratio",),
            ),
        ),
    ),
)
