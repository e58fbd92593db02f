"""Lab 05, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
Gradients are compared in every bit: the second run is the same operations on the same numbers in the same order.
"""

from itertools import accumulate
from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import TOLERANCE, all_of, equals_reference, mismatch_text, number_equals, shorten
from rankzero.exercises.probes.answers import Answers, equal


def same_bits(name: str, what: str) -> Judge:
    """The array `name` is the reference's, bit for bit; otherwise says what is missing, or how far off it is."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got[name], expected[name]
        if equal(mine, wanted):
            return None
        if not isinstance(mine, np.ndarray) or mine.dtype != wanted.dtype:
            return f"{what} is not an array of float64 numbers."
        if mine.shape != wanted.shape:
            shapes = f"{shorten(list(mine.shape))}; expected {list(wanted.shape)}"
            return f"{what} is missing (None)." if np.isnan(mine).all() else f"{what} has the shape {shapes}."
        missing, surplus = (np.isnan(one) & ~np.isnan(other) for one, other in ((mine, wanted), (wanted, mine)))
        if missing.any():
            return f"{what} is missing (None): {missing.sum()} of its {missing.size} numbers."
        if surplus.any():
            there = f"{what} has {surplus.sum()} numbers where a plain call leaves None"
            return f"{there}, because they require no gradient or are unused."
        with np.errstate(all="ignore"):
            worst, largest = (float(np.nanmax(np.abs(one))) for one in (mine - wanted, wanted))
        cause = ": rounding, because of a narrower dtype or another order of additions"
        so_small = cause if worst < 1e-5 * largest else ""
        differs = f"{what} differs from that of a plain call by up to {worst:.2g}"
        return f"{differs}; expected no difference in any bit{so_small}."

    return judge


def bits_of(**parts: str) -> Judge:
    """Several arrays, in order."""
    return all_of(*(same_bits(name, what) for name, what in parts.items()))


def each(got: object, expected: list[Any]) -> list[Any]:
    """Returns the learner's items as a list of the expected length; a list of None if it has another length or type."""
    return got if isinstance(got, list) and len(got) == len(expected) else [None] * len(expected)


def counted(number: object) -> str:
    """A number, '1,234' if it is whole, or whatever came back for one."""
    return f"{number:,}" if type(number) is int and abs(number) < 10**15 else shorten(number)


# ------------------------------------------------------------------------------------------------------ runs_per_block
def counts_are_right(got: Answers, expected: Answers) -> str | None:
    """Each block's count."""
    if equal(got["counts"], expected["counts"]):
        return None
    listed = f"{len(expected['counts'])} listed blocks, of which the first and the last are the same,"
    ended = " One run of the last block but one ends with an error; it counts."
    return f"the counts of {listed} are {shorten(got['counts'])}; expected the list {expected['counts']}.{ended}"


def nothing_left(got: Answers, expected: Answers) -> str | None:
    """No hook, attribute or class of its own, after a step that ends and after one that raises."""
    if not equal(got["error"], expected["error"]):
        ended = f"the step raised {expected['error']}, and the caller got {shorten(got['error'])}"
        return f"{ended}: the error must reach the caller."
    ends = ("after", "a step"), ("after an error", "a step that raised an error"), ("after Ctrl-C", "Ctrl-C in a step")
    for when, words in ends:
        if equal(got[when], expected[when]):
            continue
        if type(got[when]) is int and got[when] < expected[when]:
            return f"after {words}, a hook of other code on a block is gone."
        more = counted(got[when] - expected[when] if type(got[when]) is int else None)
        return f"after {words}, hooks, attributes or other classes are left on the blocks: {more}; expected 0."
    return None if got["class"] is True else "a method of the blocks' class is still replaced at the end."


# ---------------------------------------------------------------------------------------------------------- repeatable
def runs_once_when_asked(got: Answers, expected: Answers) -> str | None:
    """Not when the run is noted, once when it is asked for."""
    early, later = each(got["runs"], expected["runs"])
    if not equal(early, 0):
        return f"repeatable itself ran the function {counted(early)} times; expected 0: it only stores the state."
    if not equal(later, 1):
        return f"the function that repeatable returned ran the block {counted(later)} times; expected 1."
    return None


def has_a_graph_of_its_own(got: Answers, expected: Answers) -> str | None:
    """The second run makes a graph that ends at its inputs, and leaves the caller's tensors and mode alone."""
    if got["asks"] is not True:
        return (
            "called with gradients off, as in backward, the second run makes no graph: its output requires no gradient."
        )
    if got["went on"] is not False:
        return "the second run's graph extends past its input: the tensor from which the input was made got a gradient."
    if got["attached"] is not True:
        return "the caller's own input is detached from its graph: pass a new tensor, which detach() returns."
    return None if got["off"] is True else "gradients are on after the second run; they were off before it."


def same_draws(got: Answers, expected: Answers) -> str | None:
    """The masks of both runs, and what is drawn after."""
    if not equal(got["first"], expected["first"]):
        return "repeatable changed the random generator: the first run, which comes after it, draws other numbers."
    if not equal(got["second"], expected["second"]):
        return "the dropout masks of the two runs differ: the second run did not draw the same random numbers."
    if not equal(got["third"], expected["third"]):
        return "called once more, the function that repeatable returned draws other random numbers than before."
    moments = ("the first run", "the second run", "a second run that raised an error")
    for moment, mine, wanted in zip(moments, each(got["drawn"], expected["drawn"]), expected["drawn"], strict=True):
        if not equal(mine, wanted):
            return f"the random number that is drawn after {moment} {mismatch_text(mine, wanted)}"
    return None


AUTOCASTS = (
    "noted under float16, run without autocast",
    "noted under bfloat16, run without autocast",
    "noted and run without autocast",
    "noted under float16, run under bfloat16",
    "noted without autocast, run under bfloat16",
    "noted under bfloat16, run under float16",
)


def autocast_is_noted(got: Answers, expected: Answers) -> str | None:
    """The dtype of a linear layer's output in each case."""
    for case, mine, wanted in zip(AUTOCASTS, each(got["seen"], expected["seen"]), expected["seen"], strict=True):
        if not equal(mine, wanted):
            return f"{case}: a linear layer gives {shorten(mine)}; expected {wanted}."
    return None if got["left on"] is False else "autocast is on after the second run; it was off before."


TENSORS = (
    "a float64 input that requires a gradient and has a graph",
    "a float64 input that requires a gradient",
    "a float32 input that requires no gradient",
    "a bfloat16 input that requires a gradient",
    "an int64 input",
    "a bool input",
)


def inputs_arrive(got: Answers, expected: Answers) -> str | None:
    """Each input in its place, with its dtype and what it requires; the caller's tensors as they were."""
    if not equal(got["count"], expected["count"]):
        return f"the second run gets {counted(got['count'])} inputs; expected {expected['count']}."
    if not equal(got["next count"], expected["next count"]):
        again = f"called once more, the function that repeatable returned passes {counted(got['next count'])} inputs"
        return f"{again}; expected {expected['count']}. An iterator, such as zip, gives its items only once."
    if not equal(got["same"], expected["same"]):
        kinds = {"scale": "a number", "more": "a list", "nothing": "None"}
        arrived = {name for name in got["same"] if isinstance(name, str)} if isinstance(got["same"], list) else set()
        lost = ", ".join(kind for name, kind in kinds.items() if name not in arrived) or "a number, a list or None"
        return f"{lost} was not passed unchanged in its place among the inputs."
    for what in ("dtypes", "values", "asks", "attached", "copied"):
        for subject, mine, wanted in zip(TENSORS, each(got[what], expected[what]), expected[what], strict=True):
            if equal(mine, wanted):
                continue
            found, right = (shorten(one, 40) for one in (mine, wanted))
            words = {
                "dtypes": f"has the dtype {found}; expected {right}",
                "values": "is passed with other numbers, or in another place",
                "asks": f"is passed with requires_grad={found}; expected {right}",
                "attached": "is passed with the graph that made it; expected a detached tensor",
                "copied": "is passed as a copy, which needs as much memory; detach() shares the numbers",
            }
            return f"{subject} {words[what]}."
    if not equal(got["caller"], expected["caller"]):
        return "requires_grad of the caller's own tensors is changed: pass new tensors, which detach() returns."
    if equal(got["new"], expected["new"]):
        return None
    return (
        "called once more, the function that repeatable returned passes the same tensors as before. Gradients that the "
        "run before left in their .grad are still there: pass new tensors in each call."
    )


CHANGES = ("an input", "an input that requires no gradient", "an input, with the same numbers,")


def overwriting_is_noticed(got: Answers, expected: Answers) -> str | None:
    """A RuntimeError for an overwritten input, and for nothing else."""
    outcomes = {change: got[change] for change in (*CHANGES, "nothing", "a weight")}  # all: they tell mistakes apart
    for change, mine in outcomes.items():
        if not equal(mine, wanted := expected[change]):
            return f"{change} was overwritten in place after repeatable was called: {shorten(mine)}; expected {wanted}."
    return None


# ---------------------------------------------------------------------------------------------------------- checkpoint
def nothing_inside_is_kept(got: Answers, expected: Answers) -> str | None:
    """Between forward and backward, nothing from inside the block is there."""
    if equal(got["kept"], 0):
        return None
    return f"{counted(got['kept'])} bytes made inside the block are in memory after its forward; expected 0."


def gradients_are_recomputed(got: Answers, expected: Answers) -> str | None:
    """Gradients come from the second run: none is what values from the first run give."""
    if equal(got["stale"], expected["stale"]):
        return None
    return (
        "a layer's weights became 0 between forward and backward, but the next layer's gradient is that of the old "
        "weights: it comes from values that the first run kept, not from a second run."
    )


def runs_twice(got: Answers, expected: Answers) -> str | None:
    """Once in forward, once in backward."""
    for phase in ("forward", "backward"):
        if not equal(got[phase], expected[phase]):
            return f"the block ran {counted(got[phase])} times in {phase}; expected {expected[phase]}."
    return None


def products_are_seen(got: Answers, expected: Answers) -> str | None:
    """The operations that ran are those of so many runs."""
    if equal(got["products"], expected["products"]):
        return None
    return f"the block's matrix products ran {shorten(got['products'])} times; expected {expected['products']}."


def saved_for_backward(got: Answers, expected: Answers) -> str | None:
    """Autograd knows of the input: it lets it go, and notices when it is overwritten."""
    if not equal(got["released"], expected["released"]):
        left = f"{counted(got['released'])} bytes of the input are in memory after backward, while the loss exists"
        return (
            f"{left}; expected 0. A list may keep them, the graph of a kept tensor that is not detached, or a "
            "reference cycle, such as that of a class which is defined inside checkpoint."
        )
    if not equal(got["noticed"], expected["noticed"]):
        return (
            f"the input was overwritten between forward and backward: {shorten(got['noticed'])}; expected RuntimeError."
        )
    return None


def two_outputs(got: Answers, expected: Answers) -> str | None:
    """A tuple comes back as a tuple."""
    if equal(got["type"], "tuple"):
        return None
    return (
        f"for a function that returns a tuple, the result is {shorten(got['type'])}; expected a tuple of two tensors."
    )


def same_dtypes(name: str, where: str) -> Judge:
    """The dtypes of outputs and gradients."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for mine, wanted in zip(each(got[name], expected[name]), expected[name], strict=True):
            if not equal(mine, wanted):
                return f"{where}, an output or a gradient is of {shorten(mine)}; expected {wanted}."
        return None

    return judge


def nothing_filled(got: Answers, expected: Answers) -> str | None:
    """torch.autograd.grad returns gradients and writes none."""
    if equal(got["filled"], 0):
        return None
    return f"torch.autograd.grad was called, and {counted(got['filled'])} tensors got a .grad; expected 0."


ASKED = (
    "two inputs, with retain_graph=True",
    "the same inputs again",
    "one of these inputs, after that",
    "the input of another call, after a backward through a part of the first call",
    "the other input of the first call, after that",
)


def several_backwards(got: Answers, expected: Answers) -> str | None:
    """A second backward over one graph, or over another, gets its own tensors."""
    for asked, mine, wanted in zip(ASKED, each(got["parts"], expected["parts"]), expected["parts"], strict=True):
        if not equal(mine, wanted):
            found = f"raised {shorten(mine)}" if isinstance(mine, str) else "gave another gradient than for plain calls"
            return f"torch.autograd.grad for {asked}: {found}."
    return None


def seen_dtypes(got: Answers, expected: Answers) -> str | None:
    """Each run under the autocast of the first."""
    found = got["seen"] if isinstance(got["seen"], list) else []
    if len(found) != len(expected["seen"]):
        runs = f"{len(found)} times; expected {len(expected['seen'])}, once in each forward and once in each backward"
        return f"two checkpointed steps ran the block {runs}."
    for place, (mine, wanted) in enumerate(zip(found, expected["seen"], strict=True)):
        if not equal(mine, wanted):
            which = ("first run under autocast", "second run of it", "first run without", "second run of it")[place]
            return f"in the {which}, a linear layer gives {shorten(mine)}; expected {wanted}."
    return None


def recomputed_all_the_same(got: Answers, expected: Answers) -> str | None:
    """An input that asks for nothing is no reason to keep what is inside."""
    if equal(got["runs"], expected["runs"]):
        return None
    return f"with an input that requires no gradient, the block ran {counted(got['runs'])} times in a step; expected 2."


def not_under_no_grad(got: Answers, expected: Answers) -> str | None:
    """Without gradients the output asks for none."""
    return None if got["under no_grad"] is False else "under no_grad the output requires a gradient."


# ------------------------------------------------------------------------------------------------------------ segments
def order(diary: object, expected: Answers) -> str:
    """The places of the blocks that ran; each block wrote down its name, a random number."""
    names = {name: place for place, name in enumerate(expected["names"])}
    if not isinstance(diary, list):
        return shorten(diary)
    return shorten([names.get(one, "?") if type(one) is int else "?" for one in diary[:100]], 200)


def cut_right(got: Answers, expected: Answers) -> str | None:
    """Forward runs each block once; backward goes through the segments from the last, each forward."""
    where = f"{expected['blocks']} blocks in {expected['segments']} segments"
    for phase in ("forward", "backward"):
        if not equal(got[phase], expected[phase]):
            mine, wanted = (order(one[phase], expected) for one in (got, expected))
            return f"{where}: in {phase} the blocks ran in the order {mine}; expected {wanted}."
    return None


def both_ends(got: Answers, expected: Answers) -> str | None:
    """One segment, and as many as blocks."""
    for name, words in (("one", "1 segment"), ("each", f"{expected['blocks']} segments")):
        if not equal(got[name], expected[name]):
            mine, wanted = (order(one[name], expected) for one in (got, expected))
            return (
                f"{expected['blocks']} blocks in {words}: in backward they ran in the order {mine}; expected {wanted}."
            )
    return None


def inputs_are_kept(got: Answers, expected: Answers) -> str | None:
    """The inputs of the segments after the first."""
    if equal(got["kept"], expected["kept"]):
        return None
    mine = got["kept"] if type(got["kept"]) is int and abs(got["kept"]) < 10**15 else None
    tensors = shorten(None) if mine is None else f"{mine / expected['size']:g}"
    return (
        f"{expected['blocks']} blocks in {expected['segments']} segments keep {tensors} tensors of the input's "
        f"size beside the input; expected {expected['kept'] / expected['size']:g}."
    )


def best_counts(got: Answers, expected: Answers) -> str | None:
    """The best number of segments of each case."""
    for sizes, mine, wanted in zip(
        expected["sizes"], each(got["best"], expected["best"]), expected["best"], strict=True
    ):
        if not equal(mine, wanted):
            called = f"best_segments({sizes[0]}, {sizes[1]}, {sizes[2]})"
            return f"{called} is {shorten(mine)}; expected {wanted}."
    return None


def lengths_are_right(got: Answers, expected: Answers) -> str | None:
    """The lengths of each case."""
    right = expected["lengths"]
    for (blocks, segments), mine, wanted in zip(expected["cases"], each(got["lengths"], right), right, strict=True):
        if not equal(mine, wanted):
            returned = f"segment_lengths({blocks}, {segments}) is {shorten(mine)}; expected {wanted}"
            in_order = isinstance(mine, list) and all(type(one) is int for one in mine)
            order = ": the lengths are right, their order is not" if in_order and sorted(mine)[::-1] == wanted else ""
            return f"{returned}{order}."
    return None


# ----------------------------------------------------------------------------------------------------------- selective
def reused_values(got: Answers, expected: Answers) -> str | None:
    """The values that both calls return; a weight changes in between, so that kept outputs differ from new ones."""
    for kind in ("products", "GELUs"):
        if not equal(got[f"early, {kind}"], 0):
            return f"keep_or_reuse itself ran the function {counted(got[f'early, {kind}'])} times; expected 0."
        if not equal(got[f"first, {kind}"], expected[f"first, {kind}"]):
            words = "the first call returns other numbers than the function"
            return f"with {kind} kept, {words}. Some of its operations have keyword arguments."
        if not equal(got[f"second, {kind}"], expected[f"second, {kind}"]):
            return f"with {kind} kept, the second call does not use the outputs that the first call kept."
        if not equal(got[f"other, {kind}"], expected[f"other, {kind}"]):
            return f"with {kind} kept, of two functions called in turn, one gets outputs of the other, or none."
    return None


def reused_counts(got: Answers, expected: Answers) -> str | None:
    """How often each operation runs in each call, of two functions together."""
    for kept in ("products", "GELUs", "both", "none"):
        rows = zip(("products", "GELUs", "additions"), each(got[kept], expected[kept]), expected[kept], strict=True)
        for kind, mine, wanted in rows:
            if not equal(mine, wanted):
                first, second = (counted(one) for one in each(mine, wanted))
                both = (
                    f"{first} times in the first calls and {second} in the second; expected {wanted[0]} and {wanted[1]}"
                )
                return f"of two functions, with {kept} kept, {kind} ran {both}."
    if not equal(got["sums"], expected["sums"]):
        first, second = (counted(one) for one in each(got["sums"], expected["sums"]))
        ran = f"x.sum(1) + x.sum() ran {first} sums in the first call and {second} in the second; expected 2 and 1"
        return f"with sum.default kept, {ran}: x.sum(1) is sum.dim_IntList, another operator."
    return None


def reused_memory(got: Answers, expected: Answers) -> str | None:
    """The kept outputs between the calls, and nothing after."""
    for when, words in (("held", "between the calls"), ("left", "after the second call")):
        for kind in ("products", "GELUs"):
            mine, wanted = got[f"{when}, {kind}"], expected[f"{when}, {kind}"]
            if not equal(mine, wanted):
                return f"with {kind} kept, {counted(mine)} bytes from inside exist {words}; expected {wanted:,}."
    return None


def kinds_run(got: Answers, expected: Answers) -> str | None:
    """Kept operations run once, the others twice; gradients come from what was kept and from the second run."""
    for name in (f"{kind}, {kept} kept" for kept in ("products", "GELUs", "none") for kind in ("products", "GELUs")):
        mine, wanted = got[name], expected[name]
        if not equal(mine, wanted):
            kind, _, kept = name.partition(", ")
            forward, backward = (counted(one) for one in each(mine, wanted))
            both = f"{forward} times in forward and {backward} in backward; expected {wanted[0]} and {wanted[1]}"
            return f"with {kept}, {kind} ran {both}."
    for kept in ("products", "GELUs", "none"):
        if not equal(got[f"weights, {kept} kept"], expected[f"weights, {kept} kept"], TOLERANCE):
            return (
                f"with {kept} kept, the blocks were changed between forward and backward; expected gradients from kept "
                "outputs and from a second run of all other operations, but some come from neither."
            )
    return None


def outputs_are_kept(got: Answers, expected: Answers) -> str | None:
    """The bytes of the outputs, no more."""
    for name in ("products", "GELUs"):
        if not equal(got[name], expected[name]):
            there, wanted = counted(got[name]), expected[name]
            return f"with {name} kept, {there} bytes from inside are in memory after forward; expected {wanted:,}."
    return None


def gone_without_backward(got: Answers, expected: Answers) -> str | None:
    """Nothing exists of an output that nobody used."""
    if equal(got["dropped"], expected["dropped"]):
        return None
    return (
        f"the output was dropped and no backward follows: {counted(got['dropped'])} bytes from inside still exist; "
        "expected 0."
    )


same_loss = equals_reference("loss", 0, lambda *_: "the loss differs from that of a plain call.")


# ---------------------------------------------------------------------------------------------------------------- plan
def peaks_are_right(got: Answers, expected: Answers) -> str | None:
    """Each choice's peak."""
    right = expected["peaks"]
    for choice, mine, wanted in zip(expected["choices"], each(got["peaks"], right), right, strict=True):
        if not equal(mine, wanted):
            found = f"{counted(mine)} bytes" if type(mine) is int else shorten(mine)
            return f"with {choice or 'nothing'} recomputed, the peak is {found}; expected {wanted:,} bytes."
    return None


# Budgets, by the share of all choices of layers to recompute that would fit.
BUDGETS = ("all choices meet", *(f"{share} % of the choices meet" for share in (90, 75, 60, 50, 40, 25, 10, 5)))
BUDGETS = (*BUDGETS, "only the choice with the lowest peak meets")


def _no_plan(budget: str, plan: Any, layers: list[Any]) -> str | None:
    """Returns the sentence about a result that is not an ascending list of places; None if it is one."""
    if isinstance(plan, list) and all(type(one) is int and 0 <= one < len(layers) for one in plan):
        if plan == sorted(set(plan)):
            return None
        plan = f"{shorten(plan)}, not ascending"
    return f"for a budget that {budget}, plan {_gave(plan)}; expected a list of places, ascending."


def _gave(plan: Any) -> str:
    """Returns what a plan did, 'raised ValueError' or 'returned [1, 2]'."""
    return "raised ValueError" if equal(plan, "ValueError") else f"returned {shorten(plan, 120)}"


def _peak(layers: list[Any], plan: list[int]) -> int:
    held = list(accumulate((one[1] if p in plan else one[0] for p, one in enumerate(layers)), initial=0))
    return int(max(before + one[0] for before, one in zip(held, layers, strict=False)))


def plans_fit(got: Answers, expected: Answers) -> str | None:
    """Each plan's peak is within its budget."""
    every = each(got["plans"], expected["plans"])
    words_of = [*BUDGETS, *[f"some choices of {len(one)} layers meet" for one in expected["layers"][len(BUDGETS) :]]]
    rows = zip(words_of, expected["layers"], expected["budgets"], every, strict=True)
    for words, layers, budget, plan in rows:
        if said := _no_plan(words, plan, layers):
            return said
        if (over := _peak(layers, plan) - budget) > 0:
            return f"for a budget that {words}, the plan's peak is {over:,} bytes above it."
    return None


def plans_are_cheapest(got: Answers, expected: Answers) -> str | None:
    """Each plan recomputes as little as possible."""
    budgets, right = (*BUDGETS, *["one expensive layer or two cheaper ones meet"] * 2), expected["plans"]
    for budget, layers, plan, best in zip(budgets, expected["layers"], each(got["plans"], right), right, strict=True):
        if said := _no_plan(budget, plan, layers):
            return said
        flops, wanted = (sum(layers[place][2] for place in one) for one in (plan, best))
        if flops != wanted:
            return f"for a budget that {budget}, the plan recomputes {flops:,} FLOPs; expected {wanted:,}."
    return None


def refusals(got: Answers, expected: Answers) -> str | None:
    """A budget that nothing meets is refused, and no other; no layers need no bytes."""
    for budget, said in zip(expected["asked"], each(got["said"], expected["said"]), strict=True):
        below = expected["least"] - budget
        if below > 0 and not equal(said, "ValueError"):
            less = f"{below:,} bytes" if below > 1 else "one byte"
            gave = "a plan" if isinstance(said, list) else shorten(said)
            return f"for a budget {less} below the lowest possible peak, the result is {gave}; expected a ValueError."
        if below <= 0 and (wrong := _no_plan("all choices meet", said, expected["layers"])):
            return wrong
    none = got["no layers"]
    return None if equal(none, []) else f"without layers, plan {_gave(none)}; expected an empty list."


GRADIENTS = bits_of(
    output="the output",
    input="the gradient of the model's input",
    weights="the gradient of the block's weights",
    before="the gradient of the weights before the block",
)

EXERCISES = (
    Exercise(
        name="runs_per_block",
        functions=("runs_per_block",),
        minutes=10,
        difficulty="easy",
        proves="you can measure which blocks are recomputed",
        hints=(
            "A module's forward pre-hook is called each time before the module runs.",
            "register_forward_pre_hook returns a handle with a method remove(). A step can fail: call remove() in a "
            "finally clause.",
            "Register one hook per block, which adds 1 to counts[place]. A function that is made in a loop reads the "
            "last value of the loop's variable, so make each hook in another function, which takes place as argument.",
        ),
        checks=(
            Check(
                "runs_per_block/counts",
                "counts each forward of each block, with and without gradients",
                points=2,
                probe="counted",
                judge=counts_are_right,
            ),
            Check(
                "runs_per_block/step",
                "runs the step once, and leaves its gradients as they are",
                points=1,
                probe="counted",
                judge=all_of(
                    number_equals("steps", "the number of times that step ran", 0),
                    same_bits("gradients", "the gradient of the blocks' weights"),
                ),
            ),
            Check(
                "runs_per_block/removed",
                "leaves nothing on the blocks, even if an error or Ctrl-C ends the step",
                points=2,
                probe="left_behind",
                judge=nothing_left,
            ),
        ),
    ),
    Exercise(
        name="repeatable",
        functions=("repeatable",),
        minutes=20,
        difficulty="medium",
        proves="you know which state a second run needs to repeat the first",
        hints=(
            "The function's output depends on its inputs, its weights, random numbers, and the setting of autocast. "
            "The weights will still be there. Store the other state before the first run, not when the second begins.",
            "x.detach() has the numbers of x but not its graph; requires_grad_(flag) sets whether a tensor requires a "
            "gradient. isinstance(value, Tensor) tells tensors from other inputs.",
            "torch.get_rng_state() and set_rng_state; torch.is_autocast_enabled('cpu') and "
            "torch.get_autocast_dtype('cpu'); with torch.enable_grad(), torch.autocast('cpu', enabled=..., dtype=...).",
            "In the second run, set the generator to the stored state first. Afterwards restore the state that it had "
            "before the second run, in a finally clause.",
        ),
        checks=(
            Check(
                "repeatable/graph",
                "runs the function once, when asked, and with a graph of its own",
                points=3,
                probe="second_run",
                judge=all_of(
                    runs_once_when_asked,
                    has_a_graph_of_its_own,
                    same_bits("output", "the output of the second run"),
                    same_bits("weights", "the gradient of the weights through the second run"),
                ),
            ),
            Check(
                "repeatable/random",
                "draws the random numbers of the first run, and leaves the generator where it was",
                points=3,
                probe="random_numbers",
                judge=same_draws,
            ),
            Check(
                "repeatable/autocast",
                "runs under the autocast of the time when it was made",
                points=1,
                probe="autocast_again",
                judge=all_of(autocast_is_noted, same_bits("outputs", "the output of the second runs")),
            ),
            Check(
                "repeatable/inputs",
                "passes every input in its place, tensors detached, everything else unchanged",
                points=2,
                probe="repeated_inputs",
                judge=inputs_arrive,
            ),
            Check(
                "repeatable/overwritten",
                "raises RuntimeError if an input was overwritten",
                points=1,
                probe="overwritten_input",
                judge=all_of(overwriting_is_noticed, same_bits("outputs", "the output of the second runs")),
            ),
        ),
    ),
    Exercise(
        name="checkpoint",
        functions=("checkpoint",),
        minutes=25,
        difficulty="hard",
        proves="you can keep tensors out of autograd's memory, and recompute them when backward needs them",
        hints=(
            "Autograd keeps the value that your pack returns in place of a tensor. A number takes hardly any memory; "
            "which number lets you find the same tensor among those of a second run?",
            "Number the tensors in the order of the calls of pack. The first unpack starts the second run, under other "
            "hooks, which store its tensors by their numbers. Your repeatable, called before the first run, returns "
            "the function for the second run.",
            "unpack(number) removes the tensor from those that the second run stored, so that it exists only until "
            "backward has used it. If it is not stored, remove the others and start a second run. checkpoint itself "
            "runs function(*inputs) under these hooks and returns the result.",
        ),
        checks=(
            Check(
                "checkpoint/gradients",
                "gives the output and gradients of a plain call, in every bit",
                points=3,
                probe="without_dropout",
                judge=all_of(
                    GRADIENTS,
                    same_dtypes("dtypes", "with a block in float64"),
                    same_dtypes("narrow dtypes", "with a block in float32 or bfloat16"),
                    bits_of(
                        **{
                            "narrow output": "the output in a narrower dtype",
                            "narrow input": "the gradient of the model's input in a narrower dtype",
                            "narrow weights": "the gradient of the block's weights in a narrower dtype",
                        }
                    ),
                    equals_reference(
                        "modes", 0, lambda *_: "the block's mode, or whether gradients are on, has changed."
                    ),
                ),
                requires=("repeatable/graph",),
            ),
            Check(
                "checkpoint/memory",
                "keeps nothing from inside, and runs the block twice",
                points=4,
                probe="what_is_kept",
                judge=all_of(
                    nothing_inside_is_kept,
                    runs_twice,
                    products_are_seen,
                    gradients_are_recomputed,
                    same_bits("output", "the output"),
                ),
                requires=("repeatable/graph",),
            ),
            Check(
                "checkpoint/dropout",
                "drops the same numbers in the second run",
                points=2,
                probe="with_dropout",
                judge=GRADIENTS,
                requires=("checkpoint/gradients", "repeatable/random"),
            ),
            Check(
                "checkpoint/generator",
                "leaves the random generator where a plain call does, after forward and after backward",
                points=1,
                probe="generator",
                judge=all_of(
                    number_equals("drawn after forward", "the random number that is drawn after the forward", 0),
                    number_equals("drawn after backward", "the random number that is drawn after the backward", 0),
                ),
                requires=("checkpoint/gradients", "repeatable/random"),
            ),
            Check(
                "checkpoint/inputs",
                "takes inputs of any kind, and returns what the function returns",
                points=1,
                probe="several_inputs",
                judge=all_of(
                    two_outputs,
                    bits_of(
                        output="the output of a function of eight inputs",
                        other="its second output",
                        a="the gradient of an input",
                        b="the gradient of a second input",
                        c="the gradient of an input that requires none",
                        low="the gradient of a bfloat16 input",
                    ),
                    same_dtypes("dtypes", "with inputs of several dtypes"),
                ),
                requires=("checkpoint/gradients", "repeatable/inputs"),
            ),
            Check(
                "checkpoint/frozen",
                "gives the weights their gradients when no input requires one",
                points=1,
                probe="no_input_asks",
                judge=all_of(
                    same_bits("weights", "the gradient of the weights, with an input that requires none,"),
                    recomputed_all_the_same,
                    products_are_seen,
                    gradients_are_recomputed,
                    not_under_no_grad,
                ),
                requires=("repeatable/graph",),
            ),
            Check(
                "checkpoint/saved",
                "frees the input with backward, and raises an error if it was overwritten",
                points=2,
                probe="what_is_saved",
                judge=all_of(saved_for_backward, same_bits("output", "the output")),
                requires=("repeatable/graph", "repeatable/overwritten"),
            ),
            Check(
                "checkpoint/autocast",
                "runs under the same autocast again",
                points=1,
                probe="under_autocast",
                judge=all_of(
                    seen_dtypes,
                    same_bits("weights", "the gradient of a block that ran under autocast"),
                    same_bits("plain", "the gradient of a block that ran without autocast"),
                ),
                requires=("repeatable/graph", "repeatable/autocast"),
            ),
            Check(
                "checkpoint/autograd-grad",
                "works with torch.autograd.grad, several times too, which returns gradients and writes none",
                points=1,
                probe="by_autograd_grad",
                judge=all_of(
                    nothing_filled,
                    same_bits("asked", "the result of torch.autograd.grad for the input and the weights"),
                    same_bits("alone", "the result of torch.autograd.grad for the input alone"),
                    several_backwards,
                ),
                requires=("checkpoint/gradients",),
            ),
        ),
    ),
    Exercise(
        name="segment_lengths",
        functions=("segment_lengths",),
        minutes=5,
        difficulty="easy",
        proves="you can cut blocks into segments where the division has a remainder",
        hints=(
            "divmod(blocks, segments) gives the length of the short segments, and the number of segments that are one "
            "block longer.",
            "7 blocks in 3 segments: divmod gives 2 and 1, so one segment has 3 blocks and two have 2.",
        ),
        checks=(
            Check(
                "segment_lengths/lengths",
                "cuts evenly, longer segments first",
                points=2,
                probe="lengths",
                judge=lengths_are_right,
            ),
        ),
    ),
    Exercise(
        name="segments",
        functions=("checkpoint_segments", "best_segments"),
        minutes=20,
        difficulty="medium",
        proves="you can say which number of segments is best, and why it is not always the square root",
        hints=(
            "Go through segment_lengths(len(blocks), segments), and keep the number of the segment's first block.",
            "A function that is made in a loop reads the loop's variables when it runs. Yours runs again in backward, "
            "after the loop, so make it in another function, which takes the segment's start and end.",
            "Segment number i (from 0) peaks at i * boundary + its length * inside: the inputs of earlier segments, "
            "and the activations of its blocks. The peak is the largest of these; of numbers with the same peak, "
            "min(range(1, layers + 1), key=peak) takes the first.",
        ),
        checks=(
            Check(
                "segments/cut",
                "cuts into even segments and runs each again, from the last to the first",
                points=3,
                probe="cut",
                judge=cut_right,
                requires=("checkpoint/memory", "segment_lengths/lengths"),
            ),
            Check(
                "segments/gradients",
                "gives the output and gradients of a plain run, dropout included",
                points=2,
                probe="segments_trained",
                judge=bits_of(
                    output="the output",
                    input="the gradient of the input",
                    weights="the gradient of the blocks' weights",
                ),
                requires=("checkpoint/dropout", "segment_lengths/lengths"),
            ),
            Check(
                "segments/memory",
                "keeps one input per segment",
                points=1,
                probe="segments_kept",
                judge=all_of(inputs_are_kept, gradients_are_recomputed),
                requires=("checkpoint/memory", "segment_lengths/lengths"),
            ),
            Check(
                "segments/ends",
                "works with one segment, and with one per block",
                points=1,
                probe="one_segment_and_as_many_as_blocks",
                judge=both_ends,
                requires=("checkpoint/memory", "segment_lengths/lengths"),
            ),
            Check(
                "segments/best",
                "finds the number with the lowest peak",
                points=2,
                probe="best",
                judge=best_counts,
                requires=("segment_lengths/lengths",),
            ),
        ),
    ),
    Exercise(
        name="keep_or_reuse",
        functions=("keep_or_reuse",),
        minutes=20,
        difficulty="medium",
        proves="you can choose for each operation whether it runs twice",
        hints=(
            "A TorchDispatchMode gets every operation that runs inside `with`, in both calls.",
            "The second call runs the same operations in the same order, so a list of outputs is enough.",
            "In __torch_dispatch__, for a func in keep: in the first call run it, append output.detach() to the list "
            "and return the output; in the second call remove the list's first output and return it. A variable of "
            "the outer function, which is set after the first call, shows which call is running.",
        ),
        checks=(
            Check(
                "keep_or_reuse/values",
                "uses the outputs of the first call, in their order",
                points=2,
                probe="reused",
                judge=reused_values,
            ),
            Check(
                "keep_or_reuse/runs",
                "runs the operations in keep once and all others twice",
                points=2,
                probe="reused_runs",
                judge=all_of(
                    reused_counts, equals_reference("first", 0, lambda *_: "the first call returns other numbers.")
                ),
            ),
            Check(
                "keep_or_reuse/memory",
                "keeps these outputs and nothing else, and nothing after the second call",
                points=1,
                probe="reused_bytes",
                judge=all_of(
                    reused_memory,
                    equals_reference("first, products", 0, lambda *_: "the first call returns other numbers."),
                ),
            ),
        ),
    ),
    Exercise(
        name="checkpoint_selective",
        functions=("checkpoint_selective",),
        minutes=5,
        difficulty="easy",
        proves="you can keep expensive outputs and recompute cheap ones",
        hints=(
            "checkpoint calls a function twice, and keep_or_reuse returns a function for two calls.",
            "Pass the function that keep_or_reuse returns, and the inputs, to checkpoint.",
        ),
        checks=(
            Check(
                "checkpoint_selective/gradients",
                "gives the gradients and random numbers of a plain call",
                points=1,
                probe="selective_trained",
                judge=all_of(
                    same_loss,
                    bits_of(
                        input="the gradient of the model's input",
                        weights="the gradient of the weights",
                        before="the gradient of the weights before",
                    ),
                    bits_of(
                        **{
                            "row, input": "the gradient of the input, with two calls in a row,",
                            "row, weights": "the gradient of the weights, with two calls in a row,",
                        }
                    ),
                    equals_reference(
                        "drawn", 0, lambda *_: "random numbers that are drawn later differ from those of a plain call."
                    ),
                ),
                requires=("checkpoint/dropout", "checkpoint/generator", "keep_or_reuse/values"),
            ),
            Check(
                "checkpoint_selective/runs",
                "runs the operations in keep once and all others twice",
                points=1,
                probe="selective_runs",
                judge=all_of(kinds_run, same_loss),
                requires=("checkpoint/memory", "keep_or_reuse/runs"),
            ),
            Check(
                "checkpoint_selective/memory",
                "keeps the outputs of the chosen operations and nothing else",
                points=1,
                probe="selective_kept",
                judge=outputs_are_kept,
                requires=("checkpoint/memory", "keep_or_reuse/memory"),
            ),
            Check(
                "checkpoint_selective/released",
                "frees these outputs after backward, and also if no backward follows",
                points=1,
                probe="selective_released",
                judge=all_of(
                    number_equals(
                        "released", "the number of bytes from inside after backward, while the loss exists,", 0
                    ),
                    gone_without_backward,
                    same_loss,
                ),
                requires=("checkpoint_selective/memory", "checkpoint/saved"),
            ),
        ),
    ),
    Exercise(
        name="peak_bytes",
        functions=("peak_bytes",),
        minutes=10,
        difficulty="easy",
        proves="you can predict the peak of any choice of layers",
        hints=(
            "Go from the first layer to the last, and sum the bytes that the layers so far keep. While backward is at "
            "a layer, its whole inside is in memory too, recomputed or not.",
            "The peak is the largest of these sums: the bytes that the layers before keep, plus the layer's inside. "
            "For the next layer, add the layer's boundary if it is recomputed, and its inside if not.",
        ),
        checks=(
            Check(
                "peak_bytes/peak",
                "predicts the peak of a choice",
                points=2,
                probe="peaks",
                judge=peaks_are_right,
            ),
            Check(
                "peak_bytes/no-layers",
                "is 0 without layers",
                points=1,
                probe="peak_of_nothing",
                judge=number_equals("peak", "the peak without layers", 0),
                requires=("peak_bytes/peak",),
            ),
        ),
    ),
    Exercise(
        name="plan",
        functions=("plan",),
        minutes=15,
        difficulty="medium",
        proves="you can fit a model into a budget at the least cost, and show that it is the least",
        hints=(
            "Backward begins at the last layer, when all layers before it still keep their bytes. Does recomputing "
            "the last layer lower the peak?",
            "for choice in range(2 ** len(layers)): layer p is recomputed if choice >> p & 1. Of the choices whose "
            "peak fits, take the one with the fewest FLOPs.",
        ),
        checks=(
            Check(
                "plan/fits",
                "chooses layers whose peak is within the budget",
                points=2,
                probe="fits",
                judge=plans_fit,
                requires=("peak_bytes/peak",),
            ),
            Check(
                "plan/cheapest",
                "recomputes the fewest FLOPs",
                points=3,
                probe="cheapest",
                judge=plans_are_cheapest,
                requires=("peak_bytes/peak",),
            ),
            Check(
                "plan/refuses",
                "raises ValueError for a budget that no choice meets",
                points=1,
                probe="impossible",
                judge=refusals,
                requires=("peak_bytes/peak",),
            ),
        ),
    ),
)
