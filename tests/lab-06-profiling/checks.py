"""Lab 06, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

from itertools import pairwise
from typing import Any

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    TOLERANCE,
    all_of,
    equals_reference,
    is_of_type,
    mismatch_text,
    number_equals,
    numbers_equal,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

PHASES = ("data", "forward", "backward", "optimizer", "idle")
CAUSES = ("starved loader", "sync every step", "many tiny ops", "none of these")


def intervals(got: Answers, expected: Answers) -> str | None:
    """The merged intervals are the reference's, and the given ones are untouched."""
    if not equal(got["type"], "list"):
        return f"the return value is of type {shorten(got['type'])}; expected a list of pairs (start, end)."
    if not equal(got["given"], expected["given"]):
        return "merged changes the list that is passed to it: work on a copy, or on sorted(intervals)."
    if not equal(got["merged"], expected["merged"]):
        mine, wanted = _pairs(got["merged"]), _pairs(expected["merged"])
        return f"the merged intervals are {mine}; expected {wanted}{_left_over(got['merged'])}."
    if isinstance(got["empty"], str):
        return f"merged([]) raises {shorten(got['empty'])}; expected an empty list."
    return None if equal(got["empty"], []) else "the result for an empty list is not an empty list."


def _left_over(flat: Any) -> str:
    """The first two intervals of the result that overlap or touch."""
    if not isinstance(flat, list) or not all(type(end) in (int, float) for end in flat):
        return ""
    pairs = sorted(zip(flat[::2], flat[1::2], strict=False))
    both = next((both for both in pairwise(pairs) if both[1][0] <= both[0][1]), ())
    return f": {_pairs([*both[0]])} and {_pairs([*both[1]])} still overlap or touch" if both else ""


def _pairs(flat: Any) -> str:
    if not isinstance(flat, list) or len(flat) < 2:
        return "none"
    pairs = zip(flat[:60:2], flat[1:60:2], strict=False)
    return shorten(" ".join(f"{shorten(start, 9)}–{shorten(end, 9)}" for start, end in pairs), 200)


def fractions(where: str) -> Judge:
    """Every fraction is the reference's; names the first that is not, and what all of them add up to."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if not equal(got["type"], "tuple"):
            kind = shorten(got["type"])
            return f"the return value is of type {kind}; expected a pair of milliseconds and a dictionary."
        if not equal(got["names"], expected["names"]):
            return f"the dictionary has the names {names(got['names'])}; expected {', '.join(expected['names'])}."
        if not equal(got["events"], expected["events"]):
            return "the function changes the events that are passed to it; expected them to stay as they are."
        for phase in PHASES:
            if not equal(got[phase], expected[phase], TOLERANCE):
                both = off_by(got[phase], expected[phase], 1e-3, WHY_SMALL).rstrip(".")
                added = f"your fractions add up to {worded(got['sum'])}{common_factor(got, expected)}"
                return f"{where}, the fraction of {phase} {both}; {added}."
        return None

    return judge


WHY_SMALL = "such as that of times to microseconds, or from other steps than the measured ones"
# Other units, by the factor that they bring.
UNITS = {100.0: "that is a percentage", 1000.0: "look at the units", 1e-3: "look at the units"}


def common_factor(got: Answers, expected: Answers) -> str:
    """Returns the divisor of the phases' times, if all fractions are off by the same factor."""
    pairs = [(got[phase], expected[phase]) for phase in PHASES if phase != "idle" and expected[phase]]
    if not all(type(mine) is float for mine, _ in pairs):
        return ""
    factors = [mine / wanted for mine, wanted in pairs]
    if not factors or not all(equal(factor, factors[0], TOLERANCE) for factor in factors):
        return ""
    if words := UNITS.get(round(factors[0], 6)):
        return f": {words}"
    return f", and you divide by {1 / factors[0]:.4g} times the time of the measured steps"


def unit_or_rounding(got: Any, expected: Any) -> str:
    """Returns the unit or rounding that turns the expected number into the given one, if one does."""
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        every = [unit_or_rounding(*pair) for pair in zip(got, expected, strict=True) if not equal(*pair, TOLERANCE)]
        return every[0] if every and len({*every}) == 1 else ""
    if type(got) is not float or type(expected) is not float:
        return ""
    if digits := next((digits for digits in range(1, 7) if got == round(expected, digits)), 0):
        return f": it is rounded to {digits} digits; return it without rounding"
    return next((f": {words}" for factor, words in UNITS.items() if equal(got, factor * expected, TOLERANCE)), "")


def plain_number(name: str, subject: str) -> Judge:
    """The number `name` is the reference's; of one in another unit or a rounded one, the cause."""

    def says(got: object, expected: object) -> str:
        return f"{subject} {mismatch_text(got, expected).rstrip('.')}{unit_or_rounding(got, expected)}."

    return equals_reference(name, TOLERANCE, says)


def off_by(got: Any, expected: Any, rounding: float = 1e-5, source: str = "or from a narrower dtype") -> str:
    """The two numbers, and of a difference up to `rounding` its usual cause."""
    text = mismatch_text(got, expected)
    if isinstance(got, int | float) and isinstance(expected, float) and equal(got, expected, rounding):
        return f"{text.rstrip('.')}: a difference this small comes from rounding, {source}."
    return text


def norm_equals(name: str, subject: str, tolerance: float = TOLERANCE) -> Judge:
    """A norm; of a very small difference, its usual cause."""
    return equals_reference(name, tolerance, lambda got, expected: f"{subject} {off_by(got, expected)}")


def worded(number: Any) -> str:
    """A number with six digits."""
    return f"{number:.6f}" if isinstance(number, float) and abs(number) < 1e9 else shorten(number, 40)


def names(every: Any) -> str:
    """Names in a row."""
    return (
        shorten(", ".join(shorten(one, 60) for one in every[:20]) or "none", 200) if isinstance(every, list) else "none"
    )


def operations(where: str, what: str) -> Judge:
    """Each operation's calls or milliseconds are the reference's; names the first that is not."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if not equal(got["type"], "dict"):
            return f"the return value is of type {shorten(got['type'])}; expected a dictionary, name to (calls, ms)."
        if not equal(got["names"], expected["names"]):
            return f"{where}, the operations are {names(got['names'])}; expected {', '.join(expected['names'])}."
        if not equal(got["events"], expected["events"]):
            return "the function changes the events that are passed to it; expected them to stay as they are."
        if not equal(got["kinds"], expected["kinds"]):
            return f"calls are of type {names(got['kinds'])}; expected a whole number."
        mine, right = got[what], expected[what]
        if not isinstance(mine, list) or len(mine) != len(right):
            return f"{where}, {what} are not given for each of the operations."
        for name, one, wanted in zip(expected["names"], mine, right, strict=True):
            if not equal(one, wanted, TOLERANCE):
                words = {"calls": "the number of calls", "ms": "the self time in milliseconds"}[what]
                return f"{where}, {words} of {name} {mismatch_text(one, wanted)}"
        return None

    return judge


def a_number(what: str, name: str) -> Judge:
    """The answer `name` is a plain number, whole or not."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if type(got[name]) in (int, float):
            return None
        return f"{what} is of type {shorten(got['type'])}; expected a number."

    return judge


CASES = {
    "starved": "data takes 60 % of the steps and more, and little else is wrong",
    "starved, reads": "data takes more than half of the steps, and numbers are read often too",
    "starved, tiny": "data takes more than half of the steps, and many operations are tiny too",
    "reads": "more than SYNCS numbers per step are read, and the first, unmeasured steps wait long for data",
    "more reads": "at least three times SYNCS numbers per step are read",
    "fewer reads": "somewhat more than SYNCS numbers per step are read",
    "just enough reads": "exactly SYNCS numbers per step are read",
    "reads, tiny": "more than SYNCS numbers per step are read, and many operations are tiny too",
    "tiny": "30 % of the operations' self time is in calls of 5 µs, and the first, unmeasured steps wait for data",
    "tiny, five reads": "30 % of the operations' self time is in calls of 5 µs, and five numbers per step are read",
    "half tiny": "45 % of the operations' self time is in calls of 5 µs",
    "nothing but tiny": "most of the operations' self time is in calls of 5 µs",
    "tiny, long pauses": "30 % of the operations' self time is in calls of 5 µs, and nothing runs for half of the step",
    "third tiny": "a third of the operations' self time is in calls of 15 µs",
    "nothing": "the measured steps show no cause, and the first, unmeasured ones wait long for data",
    "nothing, after a slow start": "the measured steps show no cause; the first have many reads and tiny operations",
    "loads ahead": "data is loaded by another thread while the model works",
    "five reads": "five numbers per step are read",
    "few reads": "fewer than SYNCS numbers per step are read, more than SYNCS in all",
    "many reads": "55 numbers per step are read, fewer than SYNCS",
    "some reads": "30 numbers per step are read, more than SYNCS in all",
    "many, not tiny": "there are many calls of 45 µs each, which is more than TINY_MS",
    "many, one long": "one call of an operation is long and the others are short, with a mean of more than TINY_MS",
    "tiny, little time": "most calls take 3 µs, and all of those together 17 % of the operations' self time",
    "data leads": "data takes more than any other phase, and less than DATA_SHARE",
    "idle, some data": "data takes a quarter of the steps, and idle more than that",
}


MEASURED = "with steps of warm-up, and operations that begin between two steps or exactly at a step's end, or end there"


def causes(*names: str) -> Judge:
    """Each of these traces gets its cause."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            place = f"trace {expected['order'].index(name)}"
            if not equal(got[place], expected[place]):
                verdict = shorten(repr(got[place]))
                return f"a trace in which {CASES[name]}: the result is {verdict}; expected {expected[place]!r}."
        return None

    return judge


def patient(name: str) -> Judge:
    """The patient's cause is named. The answer is not given away."""

    def judge(got: Answers, expected: Answers) -> str | None:
        found = got[name]
        if equal(found, expected[name]):
            return None
        if not isinstance(found, str) or not found:
            return f"the returned dictionary has no cause for {name}."
        if found not in CAUSES:
            return f"{name}: {shorten(repr(found))} is not in CAUSES, which are {', '.join(map(repr, CAUSES))}."
        said = f"{found!r} is not its cause"
        return f"{name}: {said}. Profile it with --script {name}.py, and compare with a run without --script."

    return judge


def listed(name: str, kind: str, what: str, tolerance: float = TOLERANCE) -> Judge:
    """The notes of one module are the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got[f"{kind} {name}"], expected[f"{kind} {name}"]
        if not isinstance(mine, list) or equal(mine, [None]):
            return f"{what}: there is no list of scalars for each {kind}."
        if len(mine) != len(wanted):
            return f"{what}: {len(mine)} notes of {kind}; expected {len(wanted)}."
        for place, (number, right) in enumerate(zip(mine, wanted, strict=True), start=1):
            if not equal(number, right, tolerance):
                found = "has no single number." if number is None else off_by(number, right)
                return f"{what}: note {place} of {kind} {found}"
        return None

    return judge


def ended(got: Answers, expected: Answers) -> str | None:
    """Nothing is added after the end, and no hook of others is gone."""
    moments = (
        "one step and two forwards: activations",
        "one step and two forwards: gradients",
        "the end and a backward of both noted forwards: gradients",
        "the end and one more step: activations",
        "the end and one more step: gradients",
    )
    if failure := numbers_equal("counts", *(f"the number of notes after {moment}" for moment in moments))(
        got, expected
    ):
        return failure
    if not equal(got["left"], expected["left"]):
        hooks = f"{shorten(got['left'])} hooks or new attributes; expected {expected['left']}, the hooks of other code"
        return f"after the end the model has {hooks}."
    return None


def filled(got: Answers, expected: Answers) -> str | None:
    """The dictionary has each name with its two lists, from the beginning; the caller's dictionary is as it was."""
    if not equal(got["type"], "dict"):
        return f"the value that watch yields is of type {shorten(got['type'])}; expected a dictionary."
    if not equal(got["names"], expected["names"]):
        return f"the dictionary has the names {names(got['names'])}; expected {', '.join(expected['names'])}."
    if not equal(got["keys"], expected["keys"]):
        return "each name of the dictionary needs exactly two lists, 'activation' and 'gradient', empty ones too."
    return None if got["given"] is True else "watch changes the dictionary of modules that is passed to it."


def removed(got: Answers, expected: Answers) -> str | None:
    """No hook of its own is left, and nobody else's is gone."""
    for key, when in (
        ("left", "after the block"),
        ("left after an exception", "after an exception in the block"),
        ("left after Ctrl-C", "after Ctrl-C (KeyboardInterrupt) in the block"),
    ):
        if not equal(got[key], expected[key]):
            found = f"{when} the model has {shorten(got[key])} hooks or new attributes"
            return f"{found}; expected {expected[key]}, the hooks of other code."
    if not equal(got["noted after"], got["noted"]):
        return "a forward pass after the block still adds to the notes."
    if not equal(got["raised"], expected["raised"]):
        return f"the block raises {expected['raised']}, but the code around it gets {shorten(got['raised'])}."
    return None


def nothing_kept(got: Answers, expected: Answers) -> str | None:
    """The notes are scalars without a graph, and nothing of the size of an output is kept."""
    if not equal(got["graphs"], 0):
        return f"notes with a graph: {shorten(got['graphs'])}; expected 0. Detach the output, and its gradient, first."
    if not equal(got["held"], 0):
        return f"bytes of outputs, gradients or copies in memory after the step: {shorten(got['held'])}; expected 0."
    if not equal(got["scalars"], got["tensors"]):
        return f"notes that are scalars: {shorten(got['scalars'])}; expected all {shorten(got['tensors'])}."
    return None


def nothing_waits(got: Answers, expected: Answers) -> str | None:
    """No number is read in the block."""
    if not equal(got["waits"], 0):
        found = f"reads of numbers, or copies to the host, by the hooks in a step: {shorten(got['waits'])}"
        return f"{found}; expected 0. They wait for the device."
    if not equal(got["tensors"], got["entries"]) or not got["entries"]:
        return f"notes that are tensors: {shorten(got['tensors'])}; expected all {shorten(got['entries'])}."
    return None


def undisturbed(got: Answers, expected: Answers) -> str | None:
    """Loss, gradients, random numbers and mode are those of a step without hooks."""
    if not equal(got["loss"], expected["loss"]):
        return f"the loss of a step with notes {mismatch_text(got['loss'], expected['loss'])}"
    if not equal(got["gradients"], expected["gradients"]):
        return "the gradients after a step with notes differ from those of a step without notes."
    if not equal(got["in place"], ""):
        step = "a step in which nn.ReLU(inplace=True) changes the noted output raised an error"
        return f"{step}: {shorten(got['in place'])}."
    if not equal(got["gradients in place"], expected["gradients in place"]):
        return "the gradients differ if nn.ReLU(inplace=True) changes the noted output."
    if not equal(got["random"], expected["random"]):
        return "the run draws other random numbers after a step with notes."
    return None if equal(got["training"], expected["training"]) else "the mode of a module, train or eval, has changed."


def sheet_unchanged(got: Answers, expected: Answers) -> str | None:
    """The data sheet is as it was."""
    return None if got["sheet"] is True else "mfu changes the data sheet that is passed to it."


def same_shares(got: Answers, expected: Answers) -> str | None:
    """Each share, and the operations as they were."""
    if not equal(got["type"], "float"):
        return f"the return value is of type {shorten(got['type'])}; expected a float, also for 0.0."
    words = (
        "of some tiny and some long operations",
        "of tiny operations only",
        "of long operations only",
        "of no operations",
        "of operations without any self time",
    )
    if failure := numbers_equal("shares", *(f"the share {case}" for case in words))(got, expected):
        return failure
    return None if got["unchanged"] is True else "tiny_share changes the operations that are passed to it."


NARROW = 1e-5  # float32 has 24 bits; a mistake in float16 or bfloat16 is larger than 1e-4

# That the notes are of this model's numbers shows that they were taken; whether they are right is for note/activation.
noted = equals_reference("activation", TOLERANCE, lambda *_: "the notes are not those of the layer's outputs.")

# The patients and their causes never change, so these checks require a diagnosis that is right on fresh traces.
EXAMINED = ("diagnose/starved", "diagnose/sync", "diagnose/tiny")

EXERCISES = (
    Exercise(
        name="merged",
        functions=("merged",),
        minutes=10,
        difficulty="easy",
        proves="you can measure what overlapping ranges cover",
        hints=(
            "Sort by start. An interval that starts no later than the result's last interval ends extends that "
            "interval, or lies inside it; any other interval is added to the result.",
            "sorted(intervals) is a new list. If the next interval overlaps or touches the result's last interval, "
            "the end of the last interval becomes the larger of the two ends.",
        ),
        checks=(
            Check(
                "merged/merged",
                "merges intervals that overlap, touch or lie inside others",
                points=3,
                probe="intervals",
                judge=intervals,
            ),
        ),
    ),
    Exercise(
        name="phase_fractions",
        functions=("phase_fractions",),
        minutes=20,
        difficulty="medium",
        proves="you can turn a trace into fractions that add up to 1, whatever overlaps",
        hints=(
            'Look at kind "user_annotation" only. Sort the steps by their time, not by their name, and drop the first '
            "`warmup`. Merge a phase's ranges before you add them up, and cut them at the borders of the steps.",
            "Go through PHASES and collect the ranges of all phases so far. The time that the merged ranges cover now, "
            "but did not cover before this phase, is the time of this phase. The time that is never covered is idle.",
        ),
        checks=(
            Check(
                "phase_fractions/sequence",
                "gives each phase, and idle, its fraction of the steps' time",
                points=3,
                probe="one_after_another",
                judge=fractions("with phases one after another"),
                requires=("merged/merged",),
            ),
            Check(
                "phase_fractions/warm-up",
                "leaves the first steps out",
                points=2,
                probe="slow_first_steps",
                judge=fractions("with slow steps of warm-up"),
                requires=("merged/merged", "phase_fractions/sequence"),
            ),
            Check(
                "phase_fractions/absent",
                "gives 0.0 to a phase without a range",
                points=1,
                probe="absent_phase",
                judge=fractions("with a phase that has no range"),
                requires=("merged/merged", "phase_fractions/sequence"),
            ),
            Check(
                "phase_fractions/nested",
                "counts a range inside another of the same phase once, and no range of another name",
                points=2,
                probe="ranges_inside",
                judge=fractions("with ranges inside ranges, and names that only contain a phase's name"),
                requires=("merged/merged", "phase_fractions/sequence"),
            ),
            Check(
                "phase_fractions/threads",
                "counts each instant once where several threads are at work, inside the measured steps only",
                points=2,
                probe="threads",
                judge=fractions("with three threads at work"),
                requires=("merged/merged", "phase_fractions/sequence"),
            ),
            Check(
                "phase_fractions/step-time",
                "gives the median step in milliseconds",
                points=1,
                probe="slow_first_steps",
                judge=all_of(
                    is_of_type("tuple", "a pair"),
                    plain_number("step_ms", "the median of the measured steps, in milliseconds,"),
                ),
            ),
        ),
    ),
    Exercise(
        name="self_times",
        functions=("self_times",),
        minutes=20,
        difficulty="medium",
        proves="you know why aten::linear is at the top by total time, and aten::mm at the top by self time",
        hints=(
            "An operation's total time includes that of the operations that it calls. Subtract from each operation "
            "the durations of the operations directly inside it.",
            "Sort by thread, then start, the longer first. Keep a stack of operations that have not ended: its top is "
            "the caller of the next operation.",
            "For each operation: pop those that ran on another thread or have ended; if one is left on the stack, "
            "subtract this operation's duration from it; add the duration, and one call, to this operation's own "
            "name; push it.",
        ),
        checks=(
            Check(
                "self_times/flat",
                "adds up calls and milliseconds by name",
                points=2,
                probe="flat_operations",
                judge=all_of(
                    operations("with no call inside another", "calls"), operations("with no call inside another", "ms")
                ),
            ),
            Check(
                "self_times/nested",
                "counts time inside several operations for the innermost only",
                points=3,
                probe="nested_operations",
                judge=operations("with three levels of calls", "ms"),
                requires=("self_times/flat",),
            ),
            Check(
                "self_times/measured",
                "counts an operation if it begins in a measured step, and no other",
                points=2,
                probe="measured_operations",
                judge=all_of(operations(MEASURED, "calls"), operations(MEASURED, "ms")),
                requires=("self_times/flat", "self_times/nested"),
            ),
            Check(
                "self_times/threads",
                "subtracts nothing from an operation for operations of another thread",
                points=1,
                probe="operations_on_threads",
                judge=operations("with two threads", "ms"),
                requires=("self_times/flat", "self_times/nested"),
            ),
        ),
    ),
    Exercise(
        name="utilization",
        functions=("palm_flops", "mfu", "hfu"),
        minutes=15,
        difficulty="easy",
        proves="a utilization that you report can be compared with a published one",
        hints=(
            "Forward multiplies and adds once for each weight and token: 2N FLOPs. Backward takes twice that. "
            "Attention's two products take 4LHQT forward.",
            "The rate belongs to all devices, the data sheet to one. A sparse row is twice the dense peak.",
            "Forward is one unit of FLOPs, backward two. With a share r of the forward recomputed, the hardware "
            "executes 3 + r units where the model needs 3.",
        ),
        checks=(
            Check(
                "utilization/formula",
                "counts 6N + 12LHQT",
                points=3,
                probe="formula",
                judge=all_of(
                    a_number("the result of palm_flops", "flops"),
                    number_equals("palm", "for PaLM (540.35 billion parameters), the FLOPs of one token"),
                    number_equals("flops", "where some parameters are only looked up, the FLOPs of one token"),
                ),
            ),
            Check(
                "utilization/mfu",
                "divides by the dense peak of that dtype, of all devices",
                points=4,
                probe="utilization",
                judge=all_of(
                    a_number("the result of mfu", "dense"),
                    sheet_unchanged,
                    plain_number("palm", "the MFU of PaLM on 6,144 devices of 275 TFLOP/s"),
                    plain_number("dense", "the MFU of a run in fp32"),
                    plain_number("sparse", "the MFU of a run in bf16, whose row counts sparse matrices,"),
                    plain_number("tf32", "the MFU of a run in tf32, whose row counts sparse matrices,"),
                    plain_number("one", "the MFU of a run on one device"),
                    plain_number("impossible", "the MFU of a rate that was measured wrongly and is above the peak"),
                ),
            ),
            Check(
                "utilization/hfu",
                "adds the FLOPs that are recomputed",
                points=2,
                probe="hardware",
                judge=equals_reference(
                    "hfu",
                    TOLERANCE,
                    lambda got, expected: (
                        "HFU with none, some and all of the forward recomputed, and of an MFU that was measured "
                        f"wrongly, {mismatch_text(got, expected).rstrip('.')}{unit_or_rounding(got, expected)}."
                    ),
                ),
            ),
        ),
    ),
    Exercise(
        name="tiny_share",
        functions=("tiny_share",),
        minutes=5,
        difficulty="easy",
        proves="you can measure the share of the time that small calls take",
        hints=(
            "A mean self time is an operation's self time over its calls, both from its pair.",
            "Add up the milliseconds of operations with milliseconds / calls < TINY_MS; divide by all milliseconds.",
        ),
        checks=(
            Check(
                "tiny_share/share",
                "gives the share of self time in operations whose mean is below TINY_MS",
                points=3,
                probe="shares",
                judge=same_shares,
            ),
        ),
    ),
    Exercise(
        name="diagnose",
        functions=("diagnose",),
        minutes=15,
        difficulty="medium",
        proves="you can name what slows a run from its trace, before you read its code",
        hints=(
            "Your functions give all that it needs: fractions show whether data starves the step, self times count "
            "calls.",
            "Calls per step: divide by the measured steps. Test the causes in the order of the docstring.",
            "data > DATA_SHARE; calls of aten::_local_scalar_dense / steps >= SYNCS; "
            "tiny_share(operations) > TINY_SHARE.",
        ),
        checks=(
            Check(
                "diagnose/starved",
                "names a starved loader, whatever else is wrong",
                points=1,
                probe="causes",
                judge=causes("starved", "starved, reads", "starved, tiny"),
                requires=("phase_fractions/sequence", "phase_fractions/warm-up"),
            ),
            Check(
                "diagnose/sync",
                "names frequent reads, whatever the size of operations",
                points=1,
                probe="causes",
                judge=causes("reads", "more reads", "fewer reads", "just enough reads", "reads, tiny"),
                requires=("phase_fractions/sequence", "self_times/flat"),
            ),
            Check(
                "diagnose/tiny",
                "names tiny operations",
                points=1,
                probe="causes",
                judge=causes(
                    "tiny, five reads", "nothing but tiny", "half tiny", "tiny", "tiny, long pauses", "third tiny"
                ),
                requires=("phase_fractions/sequence", "self_times/nested", "tiny_share/share"),
            ),
            Check(
                "diagnose/none",
                "raises no false alarm",
                points=2,
                probe="causes",
                judge=causes(
                    "tiny, little time",
                    "nothing",
                    "nothing, after a slow start",
                    "loads ahead",
                    "five reads",
                    "some reads",
                    "many reads",
                    "few reads",
                    "many, not tiny",
                    "many, one long",
                    "data leads",
                    "idle, some data",
                ),
                requires=(
                    "phase_fractions/threads",
                    "self_times/nested",
                    "self_times/measured",
                    "tiny_share/share",
                    "diagnose/starved",
                ),
            ),
        ),
    ),
    Exercise(
        name="patients",
        functions=("patients",),
        minutes=10,
        difficulty="medium",
        proves="you can name what slows a run before you read its code",
        hints=(
            "Run profile_step.py with and without --script, and look at what differs: a phase, the operations with "
            "most calls, or the count of numbers handed to Python.",
            "Your diagnose reads the trace.json of a run: json.load(file)['traceEvents'], with warmup=0, since the "
            "starter keeps measured steps only.",
        ),
        checks=(
            Check(
                "patients/a",
                "names the cause that slows patient A",
                points=1,
                probe="named",
                judge=patient("patient_a"),
                requires=EXAMINED,
            ),
            Check(
                "patients/b",
                "names the cause that slows patient B",
                points=1,
                probe="named",
                judge=patient("patient_b"),
                requires=EXAMINED,
            ),
            Check(
                "patients/c",
                "names the cause that slows patient C",
                points=1,
                probe="named",
                judge=patient("patient_c"),
                requires=EXAMINED,
            ),
        ),
    ),
    Exercise(
        name="gradient_norm",
        functions=("gradient_norm",),
        minutes=10,
        difficulty="easy",
        proves="you can measure the gradient that clipping measures",
        hints=(
            "A vector's norm is the root of the sum of its squares; the norm of several vectors as one vector is the "
            "root of the sum of all squares.",
            "Skip parameters whose .grad is None. gradient.double() before you square; math.sqrt gives a float.",
        ),
        checks=(
            Check(
                "gradient_norm/norm",
                "returns the norm of all gradients as one vector, and does not change them",
                points=2,
                probe="gradient_norms",
                judge=all_of(
                    is_of_type("float", "a Python float"),
                    number_equals("before", "the norm before any backward", 0),
                    number_equals("frozen", "the norm of a frozen layer", 0),
                    norm_equals("part", "the norm of a layer that was frozen after backward"),
                    norm_equals("whole", "the norm of a model with a frozen part"),
                    norm_equals("tied", "the norm of a module that uses one layer twice"),
                    norm_equals("pair", "the norm of two layers that share their weight"),
                    equals_reference("unchanged", 0, lambda *_: "gradient_norm changes the gradients."),
                ),
            ),
            Check(
                "gradient_norm/narrow",
                "squares and adds float16 and bfloat16 in float32 or wider",
                points=1,
                probe="narrow_norms",
                judge=all_of(
                    *(
                        number_equals(kind, f"the norm of gradients in {kind}", NARROW)
                        for kind in ("float32", "float16", "bfloat16")
                    ),
                    number_equals("mixed", "the norm of gradients in float16, bfloat16 and float32 together", NARROW),
                ),
                requires=("gradient_norm/norm",),
            ),
        ),
    ),
    Exercise(
        name="note",
        functions=("note",),
        minutes=20,
        difficulty="hard",
        proves="you can look inside a module that trains, and stop looking",
        hints=(
            "register_forward_hook gives you the output, and returns a handle whose remove() takes the hook away. A "
            "tensor's own register_hook sees its gradient in backward, if it needs one.",
            "Detach before you compute; append the scalar tensor, without item(). "
            "torch.promote_types(tensor.dtype, torch.float32) is a dtype that is wide enough.",
            "Collect the handles of all hooks, those of the tensors too, in a list. The returned function removes all "
            "of them, so that a later backward runs no hook.",
        ),
        checks=(
            Check(
                "note/activation",
                "notes the root mean square of every output",
                points=2,
                probe="noted",
                judge=all_of(
                    listed("of out", "activation", "outputs of a layer"),
                    listed("of twice", "activation", "outputs of a layer that each step calls twice"),
                    listed("of in", "activation", "outputs of a frozen layer"),
                    listed("of never", "activation", "a layer that is never called"),
                ),
            ),
            Check(
                "note/gradient",
                "notes the norm of every output's gradient, where there is one",
                points=2,
                probe="noted",
                judge=all_of(
                    listed("of out", "gradient", "outputs of a layer"),
                    listed("of twice", "gradient", "outputs of a layer that each step calls twice"),
                    listed("of in", "gradient", "outputs of a frozen layer"),
                    listed("of never", "gradient", "a layer that is never called"),
                ),
            ),
            Check(
                "note/no-backward",
                "works where no backward follows",
                points=1,
                probe="without_backward",
                judge=all_of(
                    number_equals("activation", "the list of activations of a forward pass under no_grad"),
                    number_equals("gradient", "the list of gradients of a forward pass under no_grad"),
                ),
                requires=("note/activation",),
            ),
            Check(
                "note/narrow",
                "computes notes of float16 and bfloat16 in float32 or wider",
                points=1,
                probe="narrow_notes",
                judge=all_of(
                    *(
                        listed(f"in {dtype}", kind, f"a layer in {dtype}", NARROW)
                        for dtype in ("float16", "bfloat16")
                        for kind in ("activation", "gradient")
                    ),
                ),
                requires=("note/activation", "note/gradient"),
            ),
            Check(
                "note/end",
                "adds nothing after its end, and leaves the hooks of others",
                points=2,
                probe="after_the_end",
                judge=ended,
            ),
            Check(
                "note/nothing-kept",
                "keeps neither graph nor activation",
                points=1,
                probe="kept",
                judge=all_of(nothing_kept, noted),
                requires=("note/activation",),
            ),
            Check(
                "note/no-wait",
                "does not wait for the device",
                points=1,
                probe="kept",
                judge=all_of(nothing_waits, noted),
                requires=("note/activation",),
            ),
            Check(
                "note/undisturbed",
                "changes nothing that the model computes",
                points=1,
                probe="undisturbed",
                judge=undisturbed,
            ),
        ),
    ),
    Exercise(
        name="watch",
        functions=("watch",),
        minutes=10,
        difficulty="medium",
        proves="you can watch a model and leave no trace, whatever happens",
        hints=(
            "@contextmanager turns a function with one yield into a context: the code before the yield runs at the "
            "beginning of the block, the code after the yield at its end.",
            "Make the dictionary with its lists first, call note for each module, and keep the functions that it "
            "returns. try: yield log, finally: call each of these functions.",
        ),
        checks=(
            Check(
                "watch/notes",
                "fills a list of activations and one of gradients for each name",
                points=2,
                probe="watched",
                judge=all_of(
                    filled,
                    listed("of out", "activation", "outputs of a layer"),
                    listed("of twice", "activation", "outputs of a layer that each step calls twice"),
                    listed("of in", "activation", "outputs of a frozen layer"),
                    listed("of never", "activation", "a layer that is never called"),
                    listed("of again", "activation", "the second name of a layer that has two"),
                    listed("of out", "gradient", "outputs of a layer"),
                    listed("of twice", "gradient", "outputs of a layer that each step calls twice"),
                    listed("of in", "gradient", "outputs of a frozen layer"),
                    listed("of never", "gradient", "a layer that is never called"),
                ),
                requires=("note/activation", "note/gradient"),
            ),
            Check(
                "watch/removed",
                "removes its own hooks and no other, after an exception or Ctrl-C too",
                points=2,
                probe="removal",
                judge=removed,
                requires=("note/end",),
            ),
        ),
    ),
)
