"""Lab 06, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

from typing import Any

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import (
    TOLERANCE,
    all_of,
    equals_reference,
    is_of_type,
    mismatch_text,
    number_equals,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

PHASES = ("data", "forward", "backward", "optimizer", "idle")
CAUSES = ("starved loader", "sync every step", "many tiny ops", "none of these")


def intervals(got: Answers, expected: Answers) -> str | None:
    """The merged intervals are the reference's, and the given ones are untouched."""
    if not equal(got["type"], "list"):
        return f"what came back is of type {shorten(got['type'])}; a list of pairs (start, end) was expected."
    if not equal(got["given"], expected["given"]):
        return "the list that was given is changed after it: work on a copy, or on sorted(intervals)."
    if not equal(got["merged"], expected["merged"]):
        mine, wanted = _pairs(got["merged"]), _pairs(expected["merged"])
        return f"the merged intervals are {mine}; expected {wanted}."
    return None if equal(got["empty"], []) else "no intervals at all should give an empty list."


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
            return f"what came back is of type {kind}; a pair was expected: milliseconds, and a dictionary."
        if not equal(got["names"], expected["names"]):
            return f"the dictionary has the names {names(got['names'])}; expected {', '.join(expected['names'])}."
        if not equal(got["events"], expected["events"]):
            return "the events that were given are changed after it; somebody else may need them."
        for phase in PHASES:
            if not equal(got[phase], expected[phase], TOLERANCE):
                both = mismatch_text(got[phase], expected[phase]).rstrip(".")
                return f"{where}, the fraction of {phase} {both}; yours add up to {worded(got['sum'])}."
        return None

    return judge


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
            return f"what came back is of type {shorten(got['type'])}; a dictionary, name to (calls, ms), was expected."
        if not equal(got["names"], expected["names"]):
            return f"{where}, the operations are {names(got['names'])}; expected {', '.join(expected['names'])}."
        mine, right = got[what], expected[what]
        if not isinstance(mine, list) or len(mine) != len(right):
            return f"{where}, there are no {what} for each of the operations."
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
        return f"{what} is of type {shorten(got['type'])}; a number was expected."

    return judge


CASES = {
    "starved": "data takes 60 % of the steps and more, and little else is wrong",
    "starved, reads": "data takes more than half of the steps, and numbers are read often too",
    "starved, tiny": "data takes more than half of the steps, and many operations are tiny too",
    "reads": "more than SYNCS numbers a step are read, and the first, unmeasured steps wait long for data",
    "just enough reads": "exactly SYNCS numbers a step are read",
    "reads, tiny": "more than SYNCS numbers a step are read, and many operations are tiny too",
    "tiny": "30 % of the operations' self time is in calls of 5 µs, and the first, unmeasured steps wait for data",
    "tiny, five reads": "30 % of the operations' self time is in calls of 5 µs, and five numbers a step are read",
    "half tiny": "45 % of the operations' self time is in calls of 5 µs",
    "nothing but tiny": "most of the operations' self time is in calls of 5 µs",
    "tiny, long pauses": "30 % of the operations' self time is in calls of 5 µs, and nothing runs for half of the step",
    "third tiny": "a third of the operations' self time is in calls of 15 µs",
    "nothing": "the measured steps have no such mark, and the first, unmeasured ones wait long for data",
    "nothing, after a slow start": "the measured steps have no such mark; the first ones read numbers and are tiny",
    "loads ahead": "data is loaded by another thread while the model works",
    "five reads": "five numbers a step are read",
    "few reads": "fewer than SYNCS numbers a step are read, more than SYNCS in all",
    "many reads": "55 numbers a step are read, fewer than SYNCS",
    "some reads": "30 numbers a step are read, more than SYNCS in all",
    "many, not tiny": "there are many calls of 45 µs each, which is more than TINY_MS",
    "many, one long": "an operation's calls are short but for one, so that their mean is more than TINY_MS",
    "tiny, little time": "most calls take 3 µs, and all of those together 17 % of the operations' self time",
    "data leads": "data takes more than any other phase, and less than DATA_SHARE",
    "idle, some data": "data takes a quarter of the steps, and idle more than that",
}


MEASURED = "with two steps of warm-up, and operations that begin between two steps or end there"


def causes(*names: str) -> Judge:
    """Each of these traces gets its cause."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            place = f"trace {expected['order'].index(name)}"
            if not equal(got[place], expected[place]):
                verdict = shorten(repr(got[place]))
                return f"a trace in which {CASES[name]} is called {verdict}; expected {expected[place]!r}."
        return None

    return judge


def patient(name: str) -> Judge:
    """The patient's cause is named. The answer is not given away."""

    def judge(got: Answers, expected: Answers) -> str | None:
        found = got[name]
        if equal(found, expected[name]):
            return None
        if not isinstance(found, str) or not found:
            return f"{name} is not among the names of the dictionary that came back."
        if found not in CAUSES:
            return f"{name}: {shorten(repr(found))} is none of CAUSES, which are {', '.join(map(repr, CAUSES))}."
        said = f"{found!r} is not what slows it"
        return f"{name}: {said}. Profile it with --script {name}.py, and compare with a run without --script."

    return judge


def listed(name: str, kind: str, what: str) -> Judge:
    """The notes of one module are the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got[f"{kind} of {name}"], expected[f"{kind} of {name}"]
        if not isinstance(mine, list) or equal(mine, [None]):
            return f"{what}: there is no list of scalars under [name][{kind!r}]."
        if len(mine) != len(wanted):
            return f"{what}: {len(mine)} entries after two steps; expected {len(wanted)}."
        for place, (number, right) in enumerate(zip(mine, wanted, strict=True), start=1):
            if not equal(number, right, TOLERANCE):
                return f"{what}: entry {place} {mismatch_text(number, right)}"
        return None

    return judge


def removed(got: Answers, expected: Answers) -> str | None:
    """No hook of its own is left, and nobody else's is gone."""
    for key, when in (("left", "after the block"), ("left after an exception", "after an exception in the block")):
        if not equal(got[key], expected[key]):
            return f"{when} the model has {shorten(got[key])} hooks; expected {expected[key]}: other people's."
    if not equal(got["noted after"], got["noted"]):
        return "a forward pass after the block still adds to the notes."
    if not equal(got["raised"], expected["raised"]):
        return f"a step that raises {expected['raised']} in the block ends with {shorten(got['raised'])}."
    return None


def nothing_kept(got: Answers, expected: Answers) -> str | None:
    """The notes are scalars without a graph, and keep no tensor of the model alive."""
    if not equal(got["graphs"], 0):
        return (
            f"{shorten(got['graphs'])} of the notes have a graph behind them: detach before you compute on the output."
        )
    if not equal(got["alive"], 0):
        kept = shorten(got["alive"])
        return f"{kept} of the model's tensors are still in memory after the step: the notes hold on to them."
    if not equal(got["scalars"], got["tensors"]):
        tensors, scalars = shorten(got["tensors"]), shorten(got["scalars"])
        return f"of {tensors} tensors in the notes {scalars} are scalars; all were expected."
    return None


def nothing_waits(got: Answers, expected: Answers) -> str | None:
    """No number is read in the block."""
    if not equal(got["waits"], 0):
        waits = shorten(got["waits"])
        return f"in one step the hooks read {waits} numbers, and wait for the device each time; expected 0."
    if not equal(got["tensors"], got["entries"]) or not got["entries"]:
        return (
            f"{shorten(got['tensors'])} of {shorten(got['entries'])} notes are tensors; scalar tensors were expected."
        )
    return None


def undisturbed(got: Answers, expected: Answers) -> str | None:
    """Loss, gradients, random numbers and mode are those of a step without hooks."""
    if not equal(got["loss"], expected["loss"]):
        return f"the loss under watch {mismatch_text(got['loss'], expected['loss'])}"
    if not equal(got["gradients"], expected["gradients"]):
        return "the gradients after a step under watch differ from those of a step without."
    if not equal(got["random"], expected["random"]):
        return "the run draws other random numbers after the block."
    return None if equal(got["training"], expected["training"]) else "a module is in another mode after it than before."


# That the notes are of this model's numbers shows that they were taken; whether they are right is for watch/activation.
noted = equals_reference("activation", TOLERANCE, lambda *_: "the notes are not of what passed through the layer.")

# The patients' names never change, and what ails them does not either: only who can tell fresh traces apart is asked.
EXAMINED = ("diagnose/starved", "diagnose/sync", "diagnose/tiny")

EXERCISES = (
    Exercise(
        name="phase_fractions",
        functions=("merged", "phase_fractions"),
        minutes=30,
        difficulty="medium",
        proves="you can turn a trace into fractions that add up to 1, whatever overlaps",
        hints=(
            "Sort by start. An interval that starts no later than the last one ends makes that one longer, or lies "
            "inside it; any other begins a new one.",
            'Look at kind "user_annotation" only. Sort the steps by their time, not by their name, and drop the first '
            "`warmup`. Merge a phase's ranges before you add them up, and cut them at the borders of the steps.",
            "Go through PHASES and collect ranges as you go: what the merged collection covers more than before is "
            "this phase's own time. What all of them leave is idle.",
        ),
        checks=(
            Check(
                "phase_fractions/merged",
                "merges intervals that overlap, touch or lie inside others",
                points=3,
                probe="intervals",
                judge=intervals,
            ),
            Check(
                "phase_fractions/sequence",
                "gives each phase, and idle, its fraction of the steps' time",
                points=3,
                probe="one_after_another",
                judge=fractions("with phases one after another"),
            ),
            Check(
                "phase_fractions/warm-up",
                "leaves the first steps out",
                points=2,
                probe="slow_first_steps",
                judge=fractions("with three slow steps of warm-up"),
                requires=("phase_fractions/sequence",),
            ),
            Check(
                "phase_fractions/nested",
                "counts a range inside another of the same phase once",
                points=2,
                probe="ranges_inside",
                judge=fractions("with ranges inside ranges"),
                requires=("phase_fractions/sequence",),
            ),
            Check(
                "phase_fractions/threads",
                "counts each instant once where several threads are at work, inside the measured steps only",
                points=2,
                probe="threads",
                judge=fractions("with three threads at work"),
                requires=("phase_fractions/sequence",),
            ),
            Check(
                "phase_fractions/step-time",
                "gives the median step in milliseconds",
                points=1,
                probe="slow_first_steps",
                judge=all_of(
                    is_of_type("tuple", "a pair"),
                    number_equals("step_ms", "the median of the measured steps, in milliseconds,"),
                ),
            ),
        ),
    ),
    Exercise(
        name="self_times",
        functions=("self_times",),
        minutes=20,
        difficulty="medium",
        proves="you know why aten::linear is at the top of one table and aten::mm at the top of the other",
        hints=(
            "An operation's total time holds that of the operations it calls. Take from each one the durations of "
            "those directly inside it.",
            "Sort by thread, then start, the longer first. Keep a stack of operations that have not ended: its top is "
            "the caller of the next one.",
            "For each operation: pop what ran on another thread or has ended; if something is left, take this "
            "operation's duration from it; add the duration, and one call, to its own name; push it.",
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
                "leaves the operations of the first steps out",
                points=2,
                probe="measured_operations",
                judge=all_of(operations(MEASURED, "calls"), operations(MEASURED, "ms")),
                requires=("self_times/flat", "self_times/nested"),
            ),
            Check(
                "self_times/threads",
                "takes nothing from an operation for what another thread does meanwhile",
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
            "Forward is one unit, backward two. Doing a share r of the forward again makes 3 + r of 3.",
        ),
        checks=(
            Check(
                "utilization/formula",
                "counts 6N + 12LHQT",
                points=3,
                probe="formula",
                judge=all_of(
                    a_number("what palm_flops returns", "flops"),
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
                    a_number("what mfu returns", "dense"),
                    number_equals("palm", "the MFU of PaLM on 6,144 devices of 275 TFLOP/s"),
                    number_equals("dense", "the MFU of a run in fp32"),
                    number_equals("sparse", "the MFU of a run in bf16, whose row counts sparse matrices,"),
                    number_equals("tf32", "the MFU of a run in tf32, whose row counts sparse matrices,"),
                    number_equals("one", "the MFU of a run on one device"),
                    number_equals(
                        "impossible", "the MFU of a rate that somebody has measured wrongly, which shows because it"
                    ),
                ),
            ),
            Check(
                "utilization/hfu",
                "adds what is computed again",
                points=2,
                probe="hardware",
                judge=equals_reference(
                    "hfu",
                    TOLERANCE,
                    lambda got, expected: (
                        "HFU with nothing, some and all of the forward done again, and of an MFU that was measured "
                        f"wrongly, {mismatch_text(got, expected)}"
                    ),
                ),
            ),
        ),
    ),
    Exercise(
        name="diagnose",
        functions=("diagnose", "patients"),
        minutes=25,
        difficulty="medium",
        proves="you can name what slows a run from its trace, before you read its code",
        hints=(
            "You have written what it needs: the fractions say whether data starves the step, self times count calls.",
            "Calls are a step, so divide by the measured steps. A mean self time is an operation's self time over its "
            "calls. The causes are asked in the order of the docstring.",
            "data > DATA_SHARE; calls of aten::_local_scalar_dense / steps >= SYNCS; the self time of operations with "
            "milliseconds / calls < TINY_MS, as a share of all self time, > TINY_SHARE. For the patients, look at what "
            "differs from the healthy run: a phase, the operations with most calls, or a count.",
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
                judge=causes("reads", "just enough reads", "reads, tiny"),
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
                requires=("phase_fractions/sequence", "self_times/nested"),
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
                requires=("phase_fractions/threads", "self_times/nested", "self_times/measured", "diagnose/starved"),
            ),
            Check(
                "patients/a",
                "names what ails patient A",
                points=1,
                probe="named",
                judge=patient("patient_a"),
                requires=EXAMINED,
            ),
            Check(
                "patients/b",
                "names what ails patient B",
                points=1,
                probe="named",
                judge=patient("patient_b"),
                requires=EXAMINED,
            ),
            Check(
                "patients/c",
                "names what ails patient C",
                points=1,
                probe="named",
                judge=patient("patient_c"),
                requires=EXAMINED,
            ),
        ),
    ),
    Exercise(
        name="watch",
        functions=("gradient_norm", "watch"),
        minutes=30,
        difficulty="hard",
        proves="you can look inside a model that trains, and leave no trace",
        hints=(
            "A vector's length is the root of the sum of squares; of several vectors together, the root of the sum of "
            "all squares. Skip parameters whose .grad is None.",
            "register_forward_hook gives you the output, and returns a handle whose remove() takes the hook away. A "
            "tensor's own register_hook sees its gradient in backward, if it needs one.",
            "Make each hook in a function of its own, so that it remembers its name. Detach before you compute; append "
            "the scalar tensor, without item(). try: yield log, finally: remove every handle.",
        ),
        checks=(
            Check(
                "watch/norm",
                "takes the gradients of a module for one vector",
                points=2,
                probe="gradient_norms",
                judge=all_of(
                    is_of_type("float", "a Python float"),
                    number_equals("before", "the norm before any backward", 0),
                    number_equals("frozen", "the norm of a frozen layer", 0),
                    number_equals("part", "the norm of a layer with weight and bias"),
                    number_equals("whole", "the norm of a model with a frozen part"),
                    number_equals("tied", "the norm of a module that uses one layer twice"),
                ),
            ),
            Check(
                "watch/activation",
                "notes the root mean square of every output",
                points=2,
                probe="watched",
                judge=all_of(
                    listed("out", "activation", "outputs of a layer"),
                    listed("twice", "activation", "outputs of a layer that each step calls twice"),
                    listed("in", "activation", "outputs of a frozen layer"),
                ),
            ),
            Check(
                "watch/gradient",
                "notes the norm of every output's gradient, where there is one",
                points=2,
                probe="watched",
                judge=all_of(
                    listed("out", "gradient", "gradients of a layer's outputs"),
                    listed("twice", "gradient", "gradients of the outputs of a layer that each step calls twice"),
                    listed("in", "gradient", "gradients of a frozen layer's outputs"),
                ),
            ),
            Check(
                "watch/no-backward",
                "works where no backward follows",
                points=1,
                probe="without_backward",
                judge=all_of(
                    number_equals("activation", "the list of activations of a forward pass under no_grad"),
                    number_equals("gradient", "the list of gradients of a forward pass under no_grad"),
                ),
                requires=("watch/activation",),
            ),
            Check(
                "watch/removed",
                "removes its own hooks and no other, after an exception too",
                points=2,
                probe="removal",
                judge=removed,
            ),
            Check(
                "watch/nothing-kept",
                "keeps neither graph nor activation",
                points=1,
                probe="kept",
                judge=all_of(nothing_kept, noted),
                requires=("watch/activation",),
            ),
            Check(
                "watch/no-wait",
                "does not wait for the device",
                points=1,
                probe="kept",
                judge=all_of(nothing_waits, noted),
                requires=("watch/activation",),
            ),
            Check(
                "watch/undisturbed",
                "changes nothing that the model computes",
                points=1,
                probe="undisturbed",
                judge=undisturbed,
            ),
        ),
    ),
)
