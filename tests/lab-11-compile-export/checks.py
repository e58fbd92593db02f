"""Lab 11, checks: what each exercise's code must do, for how many points, and how a mistake is worded."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, equals_reference, items_of, mismatch_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

FP32 = 1e-5  # a few roundings of fp32
COMPILING = 20.0  # seconds of a probe that compiles: a second or two, and more on a busy machine
BF16 = 2e-2  # a few roundings of bf16, of numbers around 1


def each_case(name: str, says: Callable[[str, object, Any], str], tolerance: float = 0.0) -> Judge:
    """Passes if each item of the list `name` equals the reference's; `says` gets the case, the item and the right one.

    The reference's answer `cases` names the items.
    """

    def judge(got: Answers, expected: Answers) -> str | None:
        items = items_of(got, name, len(expected[name]))
        cases = [*expected.get("cases", []), *range(1, len(expected[name]) + 1)]
        for case, item, reference in zip(cases, items, expected[name], strict=False):
            if not equal(item, reference, tolerance):
                return says(str(case), item, reference)
        return None

    return judge


def each_is(name: str, subject: str, tolerance: float = 0.0) -> Judge:
    """Passes if each item of `name` equals the reference's; the failure begins with the case and `subject`."""
    return each_case(name, lambda case, got, want: f"{case}: {subject} {mismatch_text(got, want)}", tolerance)


def array_text(subject: str, got: object, expected: np.ndarray, tolerance: float) -> str | None:
    """Returns a sentence on the first number that differs; None if the arrays are equal."""
    if not isinstance(got, np.ndarray) or got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{subject}: no tensor of numbers of shape {list(expected.shape)} came back."
    if equal(got, expected, tolerance):
        return None
    apart = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    place = tuple(int(index) for index in np.argwhere(apart)[0]) if apart.any() else (0,) * got.ndim
    where = f"{subject}, number [{', '.join(map(str, place))}]"
    return f"{where}, {mismatch_text(float(got[place]), float(expected[place]))}"


def arrays_equal(name: str, subject: str, tolerance: float = FP32) -> Judge:
    """Passes if each array of the list `name`, or of the lists in it, equals the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        cases = [*expected.get("cases", []), *(f"number {n}" for n in range(1, 99))]
        pairs = zip(cases, items_of(got, name, len(expected[name])), expected[name], strict=False)
        for case, item, reference in pairs:
            inner = isinstance(reference, list)
            arrays = item if inner and isinstance(item, list) and len(item) == len(reference) else [item]
            references = reference if inner else [reference]
            arrays = arrays if len(arrays) == len(references) else [None] * len(references)
            for number, (array, right) in enumerate(zip(arrays, references, strict=True)):
                words = f"{case}: {subject}" + f" {number}" * inner
                if failure := array_text(words, array, right, tolerance):
                    return failure
        return None

    return judge


def array_equals(name: str, subject: str, tolerance: float = FP32) -> Judge:
    """Passes if the array `name` equals the reference's."""
    return lambda got, expected: array_text(subject, got.get(name), expected[name], tolerance)


def holds(name: str, failure: str) -> Judge:
    """Passes if the answer `name` equals the reference's; the failure is one sentence."""
    return equals_reference(name, 0, lambda *_: failure)


def unchanged(name: str) -> Judge:
    """Passes if the answer `unchanged` is the reference's; the report adds the name of the argument."""
    return holds("unchanged", f"{name} is not as it was before the call.")


def forms_equal(subject: str) -> Judge:
    """Passes if each text of `forms` is the reference's."""
    return each_case("forms", lambda case, got, want: f"{case}: {subject} is {shorten(got)}; expected {want}.")


# ------------------------------------------------------------------------------------------- graphs and compilations
SIZES = each_is("sizes", "graph_sizes")
COUNTS = each_is("counts", "compilations")


def nothing_kept(got: Answers, expected: Answers) -> str | None:
    """The compiler keeps nothing, also after an exception; the exception and the settings are as they were."""
    if not equal(got.get("ended"), expected["ended"]):
        return f"where the function raises {expected['ended']}, graph_sizes ends with {shorten(got.get('ended'))}."
    whens = "after a call", "after a call whose function raised", "after a call whose function raised"
    for when, count, right in zip(whens, items_of(got, "kept", len(expected["kept"])), expected["kept"], strict=True):
        if not equal(count, right):
            return f"{when}, the compiler still keeps {shorten(count)} compiled variants of the function; expected 0."
    return None


def mode_of_the_caller(got: Answers, expected: Answers) -> str | None:
    """The function runs with gradients on or off, as the caller has them."""
    if equal(got.get("modes"), expected["modes"]):
        return None
    return (
        "of two calls of graph_sizes, with gradients on and off, `function` runs with torch.is_grad_enabled() as "
        f"{shorten(got.get('modes'))}; expected {expected['modes']}, the caller's mode."
    )


def calls_in_order(got: Answers, expected: Answers) -> str | None:
    """Each item of `calls` is one call, in order."""
    seen, right = got.get("seen"), expected["seen"]
    if equal(seen, right):
        return None
    count = len(seen) if isinstance(seen, list) else 0
    if count != len(right):
        return (
            f"the compiled function's code ran {count} times between its graphs; expected {len(right)}, one per call."
        )
    return "the calls were not made in the order of `calls`, or with other arguments."


SETTINGS = holds("settings", "a setting of torch._dynamo.config is not as it was before the call.")


def called_once(got: Answers, expected: Answers) -> str | None:
    """The function runs once."""
    numbers = items_of(got, "called", len(expected["called"]))
    for case, number, right in zip(expected["cases"], numbers, expected["called"], strict=True):
        if not equal(number, right):
            return (
                f"{case}: the code at the breaks ran {shorten(number)} times; expected {right}: call the function once."
            )
    return None


# ---------------------------------------------------------------------------------------------- clipping and updates
def one_graph(got: Answers, expected: Answers) -> str | None:
    """Four calls compile one graph."""
    counts = items_of(got, "graphs", len(expected["graphs"]))
    for case, graphs, right in zip(expected["cases"], counts, expected["graphs"], strict=True):
        if not equal(graphs, right):
            return (
                f"{case}: four calls with values on both sides of the limit compile {shorten(graphs)} graphs; "
                f"expected {right}: one graph, compiled once."
            )
    return None


def asked_once(got: Answers, expected: Answers) -> str | None:
    """rate is called once per update, with 1, 2, 3, ..."""
    for steps, right in zip(items_of(got, "asked", len(expected["asked"])), expected["asked"], strict=True):
        if not equal(steps, right):
            return f"rate was called with {shorten(steps)}; expected {right}: once per update, with Python's ints."
    return None


def single_number_updated(got: Answers, expected: Answers) -> str | None:
    """A parameter of shape [] is updated, without an error."""
    if not equal(got.get("ended"), expected["ended"]):
        return f"the update of a parameter of shape [] ends with {shorten(got.get('ended'))}; its shape may be any."
    return array_text("the parameter of shape []", got.get("single"), expected["single"], FP32)


def updates_once(got: Answers, expected: Answers) -> str | None:
    """The first update compiles one graph that all parameters enter, later ones nothing."""
    if not equal(got.get("counts"), expected["counts"]):
        return f"the updates compiled {shorten(got.get('counts'))} graphs; expected {expected['counts']}."
    if not equal(got.get("enters"), expected["enters"]):
        return (
            f"{shorten(got.get('enters'))} tensors enter the graph; expected at least {expected['enters']}: "
            "every parameter, every gradient, and the rate."
        )
    return None


# ----------------------------------------------------------------------------------------------------------- buckets
def numbers_named(got: Answers, expected: Answers) -> str | None:
    """The error's text has the length and the largest bucket."""
    for case, named, right in zip(
        expected["cases"], items_of(got, "named", len(expected["named"])), expected["named"], strict=True
    ):
        if not equal(named, right):
            return f"{case}: the error's text must name the length and the largest bucket."
    return None


def buckets_are_sizes(got: Answers, expected: Answers) -> str | None:
    """At most `count` sizes, in ascending order."""
    for name, failure in (("too many", "more than `count` buckets came back"), ("ascending", "not ascending ints")):
        flags = items_of(got, name, len(expected[name]))
        for case, flag, right in zip(expected["cases"], flags, expected[name], strict=True):
            if not equal(flag, right):
                return f"{case}: {failure}."
    return None


LEAST = all_of(each_is("padding", "the padding in the returned buckets"), buckets_are_sizes)


# ------------------------------------------------------------------------------------------------------------- times
def times_equal(*names: str) -> Judge:
    """Passes if these times equal the reference's, by place in the tuple and by name."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for name in names:
            pairs = items_of(got, name, len(expected[name]))
            for case, pair, right in zip(expected["cases"], pairs, expected[name], strict=True):
                by_place, by_name = pair if isinstance(pair, list) and len(pair) == 2 else (pair, None)
                if not equal(by_place, right[0]):
                    return f"{case}, the time `{name}` {mismatch_text(by_place, right[0])}"
                if not equal(by_name, right[1]):
                    return f"{case}, the result has no time of the name `{name}`: return a Timings."
        return None

    return judge


def turns_taken(got: Answers, expected: Answers) -> str | None:
    """The calls, in their order, and the readings of the clock."""
    for case, calls, right in zip(
        expected["cases"], items_of(got, "calls", len(expected["calls"])), expected["calls"], strict=True
    ):
        if not equal(calls, right):
            text = ", ".join(map(str, calls[:9])) if isinstance(calls, list) else calls
            return (
                f"{case}, the calls were: {shorten(text)}; expected {', '.join(right[:9])}{', ...' * (len(right) > 9)}."
            )
    for case, readings, right in zip(
        expected["cases"], items_of(got, "readings", len(expected["readings"])), expected["readings"], strict=True
    ):
        if not equal(readings, right):
            return (
                f"{case}, calls (c, e) and readings of the clock (t) were {shorten(readings)}; expected {right[:60]}."
            )
    return None


CALLS = all_of(
    each_is("calls", "the number of calls"),
    each_case("types", lambda case, got, want: f"{case} is of type {shorten(got)}; expected {want}."),
)


# ------------------------------------------------------------------------------------------------------------ digits
def errors_equal(tolerance: float) -> Judge:
    """Passes if both errors of each case equal the reference's, within a share of themselves."""

    def judge(got: Answers, expected: Answers) -> str | None:
        rows = items_of(got, "errors", len(expected["errors"]))
        for case, row, right in zip(expected["cases"], rows, expected["errors"], strict=True):
            pair = row if isinstance(row, list) and len(row) == 2 else [None, None]
            for subject, error, reference in zip(("eager", "compiled"), pair, right, strict=True):
                if not equal(error, reference, 0) and not _near(error, reference, tolerance):
                    return f"{case}: the error of {subject} {_error_text(error, reference)}"
        return None

    return judge


def _near(number: object, other: float, share: float) -> bool:
    return type(number) is float and abs(number - other) <= share * other


def _error_text(error: object, reference: float) -> str:
    got = f"{error:.3e}" if type(error) is float else shorten(error)
    return f"is {got}; expected {reference:.3e}, a Python float."


def modes_equal(name: str, when: str) -> Judge:
    """Passes if every module has the mode that it had."""

    def judge(got: Answers, expected: Answers) -> str | None:
        right = expected[name]
        for number, (mode, reference) in enumerate(zip(items_of(got, name, len(right)), right, strict=True)):
            if not equal(mode, reference):
                module = f"module {number} of model.modules()" if number else "the model"
                words = {True: "train", False: "eval"}
                return f"{when}, {module} is in {words[not reference]} mode; it was in {words[reference]} mode before."
        return None

    return judge


def names_changed(got: Answers, expected: Answers) -> str | None:
    """No weight or buffer has changed."""
    if equal(got.get("changed"), expected["changed"]):
        return None
    return f"weights or buffers have changed: {shorten(got.get('changed'))}."


def refusals(got: Answers, expected: Answers) -> str | None:
    """Each shape outside the range is refused."""
    flags = items_of(got, "refused", len(expected["refused"]))
    for case, flag, right in zip(expected["cases"], flags, expected["refused"], strict=True):
        if not equal(flag, right):
            return f"exported for {expected['limits']}, the program computes scores of {case}; expected an error."
    return None


def scores_equal(got: Answers, expected: Answers) -> str | None:
    """Each shape's scores; a text says which error came instead."""
    scores = items_of(got, "scores", len(expected["scores"]))
    for case, score, right in zip(expected["cases"], scores, expected["scores"], strict=True):
        if isinstance(score, str):
            return f"{case}: the exported program ends with {shorten(score)}; expected scores."
        if failure := array_text(f"{case}: the scores", score, right, FP32):
            return failure
    return None


def scores_of_eval(got: Answers, expected: Answers) -> str | None:
    """Two calls give the scores of eval mode."""
    if len(items := items_of(got, "scores", len(expected["scores"]))) != len(expected["scores"]):
        return "no scores came back."
    for number, (score, right) in enumerate(zip(items, expected["scores"], strict=True), 1):
        if failure := array_text(f"call {number} of the exported program: the scores", score, right, FP32):
            return failure
    return None


EXERCISES = (
    Exercise(
        name="graph_sizes",
        functions=("graph_sizes",),
        minutes=20,
        difficulty="medium",
        proves="you can write a backend that shows which graphs torch.compile captures",
        hints=(
            "A backend takes a graph module and example inputs, and returns the function that runs in place of the "
            "graph. torch calls it once per graph: let it append to a list.",
            "gm.graph.nodes are the nodes of a graph; node.op is the kind, such as 'placeholder' or 'call_function'. "
            "Return gm.forward, so that the graph runs as it is.",
            "torch._dynamo.reset() before the call deletes earlier compilations. Call it again in a finally clause, so "
            "that it also runs after an exception.",
        ),
        checks=(
            Check(
                "graph_sizes/operations",
                "counts the operations of a graph, and nothing else",
                points=4,
                probe="graphs_counted",
                seconds=COMPILING,
                judge=SIZES,
            ),
            Check(
                "graph_sizes/breaks",
                "counts each graph of a function with breaks, in one call",
                points=3,
                probe="graphs_with_breaks",
                seconds=COMPILING,
                judge=all_of(SIZES, called_once),
            ),
            Check(
                "graph_sizes/again",
                "counts the same whatever was compiled before",
                points=3,
                probe="graphs_counted_again",
                seconds=COMPILING,
                judge=SIZES,
                requires=("graph_sizes/operations",),
            ),
            Check(
                "graph_sizes/nothing-left",
                "leaves the compiler reset, also after an exception",
                points=2,
                probe="nothing_left",
                seconds=COMPILING,
                judge=all_of(
                    nothing_kept,
                    SETTINGS,
                    holds("grad", "torch.is_grad_enabled() is not as it was before the call."),
                    mode_of_the_caller,
                    equals_reference("sizes", 0, lambda got, want: f"graph_sizes {mismatch_text(got, want)}"),
                ),
                requires=("graph_sizes/operations",),
            ),
        ),
    ),
    Exercise(
        name="compilations",
        functions=("compilations",),
        minutes=15,
        difficulty="medium",
        proves="you can count which calls compile again, and for which shapes",
        hints=(
            "The backend runs when a graph is compiled, not when it is called: how long is its list before a call, and "
            "how long after?",
            "Call torch.compile once, before the loop over `calls`, and pass `dynamic` on. With a new backend in every "
            "call, every call compiles.",
        ),
        checks=(
            Check(
                "compilations/shapes",
                "counts the compilations that each call causes",
                points=4,
                probe="shapes_compiled",
                seconds=COMPILING,
                judge=COUNTS,
            ),
            Check(
                "compilations/dynamic",
                "compiles with the given `dynamic`, each time from the beginning",
                points=3,
                probe="dynamic_compiled",
                seconds=COMPILING,
                judge=COUNTS,
            ),
            Check(
                "compilations/graphs",
                "counts every graph of a call, and makes each call once",
                points=2,
                probe="graphs_compiled",
                seconds=COMPILING,
                judge=all_of(COUNTS, calls_in_order),
            ),
            Check(
                "compilations/limit",
                "keeps torch's limit of compilations, and leaves the compiler reset",
                points=2,
                probe="limit_reached",
                seconds=COMPILING,
                judge=all_of(
                    COUNTS,
                    holds("kept", "after the call, the compiler still keeps compiled variants of the function."),
                    SETTINGS,
                ),
            ),
        ),
    ),
    Exercise(
        name="clip_in_one_graph",
        functions=("clip_in_one_graph",),
        minutes=15,
        difficulty="medium",
        proves="you can replace a branch on data by operations on tensors, with the same values and gradients",
        hints=(
            "Both results are computable for every x: compute a factor that is 1 below the limit.",
            "torch.where(condition, a, b) selects without a branch. A 0-dimensional tensor stays in the graph where "
            ".item() would leave it.",
            "The norm of x.detach() has no gradient, as the number of .item() has none. x.float() first, and the dtype "
            "of x last.",
        ),
        checks=(
            Check(
                "clip_in_one_graph/values",
                "gives the values of the function with the branch, in the dtype of x",
                points=4,
                probe="clipped",
                judge=all_of(forms_equal("the result"), arrays_equal("values", "the result", FP32), unchanged("x")),
                tolerance=FP32,
            ),
            Check(
                "clip_in_one_graph/gradients",
                "gives its gradients, which do not flow through the norm",
                points=3,
                probe="clip_gradients",
                judge=all_of(
                    arrays_equal("gradients", "the gradient of x", FP32), array_equals("result", "the result of zeros")
                ),
                tolerance=FP32,
            ),
            Check(
                "clip_in_one_graph/graph",
                "is one graph, compiled once for values on both sides of the limit",
                points=3,
                probe="clip_compiled",
                seconds=COMPILING,
                judge=all_of(one_graph, arrays_equal("values", "the compiled result of call", FP32)),
                tolerance=FP32,
            ),
        ),
    ),
    Exercise(
        name="make_update",
        functions=("make_update",),
        minutes=20,
        difficulty="medium",
        proves="you can change a number in every step without compiling in every step",
        hints=(
            "Two functions: an inner one that subtracts and is compiled, and update, which counts its calls, asks for "
            "the rate, and calls the inner one.",
            "torch.tensor(rate) is data like any other input. Make it outside the compiled function, in each update.",
            "torch.no_grad() around the subtractions: without it, parameters that require gradients refuse changes in "
            "place. Compile when make_update is called, not in each update.",
        ),
        checks=(
            Check(
                "make_update/values",
                "subtracts rate times gradient in place, with the rate of this call",
                points=4,
                probe="updated",
                seconds=COMPILING,
                judge=all_of(arrays_equal("after", "parameter"), asked_once),
                tolerance=FP32,
            ),
            Check(
                "make_update/once",
                "compiles one graph at the first update and none later",
                points=4,
                probe="updates_compiled",
                seconds=COMPILING,
                judge=all_of(updates_once, arrays_equal("after", "the updated parameter")),
                tolerance=FP32,
            ),
            Check(
                "make_update/some",
                "keeps dtypes, skips parameters without a gradient, and counts for itself",
                points=2,
                probe="updates_of_some",
                seconds=COMPILING,
                judge=all_of(
                    arrays_equal("after", "parameter", BF16),
                    single_number_updated,
                    asked_once,
                    holds("same types", "a parameter's dtype has changed."),
                    holds("recorded", "a parameter has a grad_fn: the update was recorded by autograd."),
                ),
                tolerance=BF16,
            ),
        ),
    ),
    Exercise(
        name="pad_to_bucket",
        functions=("bucket_of", "pad_to_bucket"),
        minutes=15,
        difficulty="easy",
        proves="you can turn many lengths into few, without a change of the loss",
        hints=(
            "Which buckets hold the sequence at all? The smallest of these.",
            "F.pad(tensor, (left, right), value=...) pads the last dimension. Tokens and targets get different values.",
            "F.cross_entropy leaves targets of -100 out of sum and mean: its ignore_index.",
        ),
        checks=(
            Check(
                "pad_to_bucket/bucket",
                "finds the smallest bucket that holds the length",
                points=2,
                probe="buckets_found",
                judge=all_of(each_is("buckets", "the bucket"), unchanged("buckets")),
            ),
            Check(
                "pad_to_bucket/no-bucket",
                "refuses a length that no bucket holds, and names both numbers",
                points=2,
                probe="no_bucket",
                judge=all_of(
                    each_case("ended", lambda case, got, want: f"{case} ended with {shorten(got)}; expected {want}."),
                    numbers_named,
                    equals_reference(
                        "fits",
                        0,
                        lambda got, want: (
                            f"the bucket of a length one below the largest bucket {mismatch_text(got, want)}"
                        ),
                    ),
                ),
            ),
            Check(
                "pad_to_bucket/padded",
                "pads tokens and targets on the right, to the bucket",
                points=3,
                probe="padded",
                judge=all_of(
                    forms_equal("the pair of tokens and targets"),
                    arrays_equal("tokens", "tokens", 0.0),
                    arrays_equal("targets", "targets", 0.0),
                    unchanged("an argument"),
                ),
            ),
            Check(
                "pad_to_bucket/loss",
                "leaves the loss of a causal model as it was",
                points=3,
                probe="loss_of_padded",
                judge=each_case(
                    "losses", lambda case, got, want: f"the loss of batch {case} {mismatch_text(got, want)}", 1e-4
                ),
                tolerance=1e-4,
            ),
        ),
    ),
    Exercise(
        name="best_buckets",
        functions=("best_buckets",),
        minutes=35,
        difficulty="hard",
        proves="you can choose from the data the shapes to compile for",
        hints=(
            "In a best choice each bucket is one of the lengths, because a larger bucket only adds padding. The "
            "longest length is always a bucket.",
            "Sort the different lengths. If the last bucket holds the lengths from number start on, its padding is "
            "known. For the shorter lengths the same problem remains, with one bucket less.",
            "best[end] = min over start of previous[start] + padding of one bucket for lengths start to end - 1; "
            "`previous` is the table with one bucket less. Sums of counts and of tokens from the left make the padding "
            "one subtraction.",
            "Keep the chosen sizes beside each number. best[0] is 0 in every table, because no lengths need no "
            "padding; this also allows fewer buckets than `count`.",
        ),
        checks=(
            Check(
                "best_buckets/least",
                "finds the buckets with the least padding",
                points=4,
                probe="buckets_chosen",
                judge=all_of(LEAST, unchanged("lengths")),
            ),
            Check(
                "best_buckets/frequent",
                "counts a length as often as it occurs",
                points=3,
                probe="buckets_of_frequent_lengths",
                judge=LEAST,
            ),
            Check(
                "best_buckets/ends",
                "needs no padding where there are as many buckets as lengths, and takes one bucket too",
                points=2,
                probe="buckets_at_the_ends",
                judge=LEAST,
            ),
            Check(
                "best_buckets/many",
                "is quick for 300 lengths and 12 buckets",
                points=3,
                probe="many_lengths",
                judge=LEAST,
                requires=("best_buckets/least",),
            ),
        ),
    ),
    Exercise(
        name="timings",
        functions=("timings",),
        minutes=15,
        difficulty="easy",
        proves="you can time compiled calls apart from the compilation",
        hints=(
            "Three parts: the compiled function's first call, timed; the eager function's first call, not timed; then "
            "the rounds.",
            "A small inner function reads the clock, calls, and returns the difference: use it for every timed call. "
            "statistics.median takes a list.",
        ),
        checks=(
            Check(
                "timings/first",
                "times the compiled function's first call, alone",
                points=2,
                probe="timed",
                judge=times_equal("first"),
            ),
            Check(
                "timings/medians",
                "returns medians in which no first call takes part",
                points=3,
                probe="timed",
                judge=times_equal("eager", "compiled"),
            ),
            Check(
                "timings/turns",
                "calls both functions in turns, and reads the clock beside each timed call",
                points=3,
                probe="timed",
                judge=turns_taken,
            ),
        ),
    ),
    Exercise(
        name="break_even",
        functions=("break_even",),
        minutes=10,
        difficulty="easy",
        proves="you can say after how many calls compiling has paid",
        hints=(
            "After n calls: eager has taken n * eager; compiled has taken first + (n - 1) * compiled.",
            "The first call costs first - eager more than an eager call; each later call saves eager - compiled. Two "
            "cases need no division: a first call that is no slower, and later calls that are no faster.",
        ),
        checks=(
            Check(
                "break_even/pays",
                "finds the first call after which the compiled function has taken no more time",
                points=3,
                probe="breaks_even",
                judge=CALLS,
            ),
            Check(
                "break_even/never",
                "returns infinity where compiling never pays, and 1 where it pays at once",
                points=2,
                probe="never_even",
                judge=CALLS,
            ),
        ),
    ),
    Exercise(
        name="errors_against_float64",
        functions=("errors_against_float64",),
        minutes=20,
        difficulty="medium",
        proves="you can tell rounding from a wrong result",
        hints=(
            "Three runs of the same inputs: the model, the compiled model, and a copy of the model in float64.",
            "copy.deepcopy(model).double() leaves the model as it is. Inputs of floating point need .double() too; "
            "token ids stay int64.",
            "Eval mode for all three: note module.training of each of model.modules() before, and put it back in a "
            "finally clause. Subtract in float64: (result.double() - exact).abs().max().",
        ),
        checks=(
            Check(
                "errors_against_float64/errors",
                "measures both against the model in float64",
                points=4,
                probe="errors_of_eval",
                judge=errors_equal(1e-5),
                tolerance=1e-7,
            ),
            Check(
                "errors_against_float64/bf16",
                "does so for a bf16 model, without rounding the difference",
                points=2,
                probe="errors_of_bf16",
                judge=all_of(errors_equal(1e-5), names_changed),
                tolerance=1e-5,
            ),
            Check(
                "errors_against_float64/dropout",
                "compares without dropout, also where the model is in train mode",
                points=3,
                probe="errors_of_training",
                judge=errors_equal(1e-5),
                tolerance=1e-7,
            ),
            Check(
                "errors_against_float64/state",
                "leaves modes, weights, gradients, inputs and the random state as they were",
                points=3,
                probe="state_kept",
                judge=all_of(
                    modes_equal("after", "after the call"),
                    names_changed,
                    holds("recorded", "the compiled model ran with gradients recorded."),
                    holds("drawn", "torch's random state has changed: something drew random numbers."),
                    arrays_equal("gradients", "the gradient of parameter", 0.0),
                    holds("input kept", "the input is not as it was before the call."),
                    equals_reference("ended", 0, lambda got, want: f"the call ended with {shorten(got)}; not {want}."),
                    modes_equal("failed", "after an exception of the model"),
                ),
            ),
        ),
    ),
    Exercise(
        name="last_rows",
        functions=("last_rows",),
        minutes=15,
        difficulty="medium",
        proves="you can index a tensor by a tensor within one graph, for every batch size",
        hints=(
            "hidden[b, lengths[b] - 1] for all b at once: indexing by two tensors, or gather along dimension 1.",
            "gather wants an index of as many dimensions as `hidden`: [B, 1, C], expanded from [B, 1, 1].",
            "A sum over hidden times a mask of 0 and 1 is nan where the padding is nan: select, don't multiply.",
        ),
        checks=(
            Check(
                "last_rows/rows",
                "returns each sequence's row at its last token",
                points=3,
                probe="rows_found",
                judge=all_of(
                    forms_equal("the result"), arrays_equal("rows", "the rows", 0.0), unchanged("an argument")
                ),
            ),
            Check(
                "last_rows/padding",
                "is untouched by nan in the padding, which gets a gradient of 0",
                points=2,
                probe="rows_beside_nan",
                judge=all_of(array_equals("rows", "the rows", 0.0), array_equals("gradient", "the gradient of hidden")),
                tolerance=FP32,
            ),
            Check(
                "last_rows/graph",
                "is one graph for all batch sizes and lengths",
                points=3,
                probe="rows_compiled",
                seconds=COMPILING,
                judge=all_of(
                    equals_reference(
                        "counts",
                        0,
                        lambda got, want: (
                            "with dynamic=True, calls with four batch sizes and lengths compile "
                            f"{shorten(got)} graphs; expected {want}."
                        ),
                    ),
                    arrays_equal("rows", "the rows", 0.0),
                ),
                requires=("last_rows/rows",),
            ),
            Check(
                "last_rows/export",
                "can be exported for any batch size",
                points=2,
                probe="rows_exported",
                seconds=COMPILING,
                judge=arrays_equal("rows", "the rows", 0.0),
                requires=("last_rows/rows",),
            ),
        ),
    ),
    Exercise(
        name="export_for_serving",
        functions=("export_for_serving",),
        minutes=25,
        difficulty="hard",
        proves="you can export a model for a range of shapes, and it refuses all others",
        hints=(
            "torch.export.export(model, example, dynamic_shapes=...): the example's sizes are not special, but without "
            "dynamic_shapes the program takes no other.",
            "dynamic_shapes has an entry per argument, here a dictionary from dimension to torch.export.Dim(name, "
            "min=..., max=...). Both arguments share the batch's Dim.",
            "An example with a batch of 1 makes the compiler believe that 1 is the only batch size: take 2 or more.",
            "model.eval() before the export, or dropout is part of the program; restore each module's mode afterwards.",
        ),
        checks=(
            Check(
                "export_for_serving/shapes",
                "computes the model's scores for every shape in the range, after saving and loading",
                points=4,
                probe="exported",
                seconds=COMPILING,
                judge=scores_equal,
                tolerance=FP32,
            ),
            Check(
                "export_for_serving/refuses",
                "refuses a batch or a length above the range",
                points=3,
                probe="refused",
                seconds=COMPILING,
                judge=all_of(refusals, array_equals("inside", "the scores of the largest shape")),
                requires=("export_for_serving/shapes",),
                tolerance=FP32,
            ),
            Check(
                "export_for_serving/eval",
                "exports eval mode, and leaves the model's modes and weights as they were",
                points=3,
                probe="exported_from_training",
                seconds=COMPILING,
                judge=all_of(scores_of_eval, modes_equal("after", "after the export"), names_changed),
                tolerance=FP32,
            ),
        ),
    ),
)
