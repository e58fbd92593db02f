"""Lab 05, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
Gradients are compared in every bit: the second run is the same operations on the same numbers in the same order.
"""

from itertools import accumulate
from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, equals_reference, number_equals, shorten
from rankzero.exercises.probes.answers import Answers, equal


def same_bits(name: str, what: str) -> Judge:
    """The array `name` is the reference's, bit for bit; says whether numbers are missing, or how far off they are."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got[name], expected[name]
        if equal(mine, wanted):
            return None
        if not isinstance(mine, np.ndarray) or mine.dtype != wanted.dtype:
            return f"{what} is no array of float64 numbers."
        if mine.shape == wanted.shape and np.array_equal(np.isnan(mine), np.isnan(wanted)):
            with np.errstate(all="ignore"):
                worst = np.nanmax(np.abs(mine - wanted))
            return f"{what} differs from that of a plain call by up to {worst:.2g}; expected no difference in any bit."
        if np.isnan(mine).all():
            return f"{what} is missing (None)."
        if np.isnan(wanted).all():
            return f"{what} is there; expected none, since nobody asked for it."
        return f"{what} has other parts than that of a plain call: {np.isnan(mine).sum()} numbers are missing."

    return judge


def bits_of(**parts: str) -> Judge:
    """Several arrays, in order."""
    return all_of(*(same_bits(name, what) for name, what in parts.items()))


def each(got: object, expected: list[Any]) -> list[Any]:
    """What came back in the place of each that was expected; None for each if it is no list of that length."""
    return got if isinstance(got, list) and len(got) == len(expected) else [None] * len(expected)


def counted(number: object) -> str:
    """A number, '1,234' if it is whole, or whatever came back for one."""
    return f"{number:,}" if type(number) is int and abs(number) < 10**15 else shorten(number)


# ------------------------------------------------------------------------------------------------------ runs_per_block
def counts_are_right(got: Answers, expected: Answers) -> str | None:
    """Each block's count."""
    if equal(got["counts"], expected["counts"]):
        return None
    return f"the counts of 4 blocks are {shorten(got['counts'])}; expected {expected['counts']}."


def nothing_left(got: Answers, expected: Answers) -> str | None:
    """No hook, no replaced method, after a step that ends and after one that raises."""
    if not equal(got["error"], expected["error"]):
        ended = f"a step that raises {expected['error']} ended with {shorten(got['error'])}"
        return f"{ended}: the error must go on to the caller."
    for when, words in (("after", "a step"), ("after an error", "a step that raised an error")):
        if equal(got[when], expected[when]):
            continue
        if type(got[when]) is int and got[when] < expected[when]:
            return f"after {words}, a hook is gone that somebody else had put on a block."
        more = got[when] - expected[when] if type(got[when]) is int else None
        return f"after {words}, {counted(more)} hooks or replaced methods are left; expected 0."
    return None if got["class"] is True else "a method of the blocks' class is still replaced at the end."


# ---------------------------------------------------------------------------------------------------------- checkpoint
def nothing_inside_is_kept(got: Answers, expected: Answers) -> str | None:
    """Between forward and backward, nothing from inside the block is there."""
    if not equal(got["kept"], 0):
        return f"{counted(got['kept'])} bytes made inside the block are still there after its forward; expected 0."
    if got["copied"] is not False:
        return "values made inside the block are still there after its forward, copied out of their tensors."
    return None


def gradients_are_recomputed(got: Answers, expected: Answers) -> str | None:
    """Gradients come from the second run: none is what values from the first run give."""
    if equal(got["stale"], expected["stale"]):
        return None
    return (
        "a layer's weights became 0 between forward and backward, and the next layer's gradient is what the old "
        "weights give: it comes from values that the first run left somewhere, not from the second run."
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
        left = counted(got["released"])
        return f"{left} bytes of the input are still there after backward, while the loss lives; expected 0."
    if got["noticed"] is not True:
        return "the input was overwritten between forward and backward and no error was raised: gradients are wrong."
    return None


def seen_dtypes(got: Answers, expected: Answers) -> str | None:
    """Each run under the autocast of the first."""
    found = got["seen"] if isinstance(got["seen"], list) else []
    for place, (mine, wanted) in enumerate(zip(found, expected["seen"], strict=False)):
        if not equal(mine, wanted):
            which = ("first run under autocast", "second run of it", "first run without", "second run of it")[place]
            return f"in the {which}, a linear layer gives {shorten(mine)}; expected {wanted}."
    if len(found) != len(expected["seen"]):
        return f"two checkpointed steps ran the block {len(found)} times; expected {len(expected['seen'])}."
    return None


def recomputed_all_the_same(got: Answers, expected: Answers) -> str | None:
    """An input that asks for nothing is no reason to keep what is inside."""
    if equal(got["runs"], expected["runs"]):
        return None
    return f"with an input that asks for no gradient, the block ran {counted(got['runs'])} times in a step; expected 2."


def not_under_no_grad(got: Answers, expected: Answers) -> str | None:
    """Without gradients the output asks for none."""
    return None if got["under no_grad"] is False else "under no_grad the output asks for a gradient."


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


# ----------------------------------------------------------------------------------------------------------- selective
def kinds_run(got: Answers, expected: Answers) -> str | None:
    """Kept operations run once, the others twice."""
    for name in (f"{kind}, {kept} kept" for kept in ("products", "GELUs", "none") for kind in ("products", "GELUs")):
        mine, wanted = got[name], expected[name]
        if not equal(mine, wanted):
            kind, _, kept = name.partition(", ")
            forward, backward = (counted(one) for one in each(mine, wanted))
            both = f"{forward} times in forward and {backward} in backward; expected {wanted[0]} and {wanted[1]}"
            return f"with {kept}, {kind} ran {both}."
    return None


def outputs_are_kept(got: Answers, expected: Answers) -> str | None:
    """The bytes of the outputs, no more, in tensors; and what is not kept is computed again."""
    for name in ("products", "GELUs"):
        if not equal(got[name], expected[name]):
            there, wanted = counted(got[name]), expected[name]
            return f"with {name} kept, {there} bytes from inside are there after forward; expected {wanted:,}."
    if equal(got["stale"], expected["stale"]):
        return None
    return (
        "the blocks' last operation, which is not in keep, was changed between forward and backward, and gradients are "
        "what it gave before: it did not run again."
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


# What a budget is: so many of all choices of layers to recompute would fit.
BUDGETS = ("all choices meet", *(f"{share} % of the choices meet" for share in (90, 75, 60, 50, 40, 25, 10, 5)))
BUDGETS = (*BUDGETS, "only the leanest choice meets")


def _no_plan(budget: str, plan: Any, layers: list[Any]) -> str | None:
    """What is wrong with what came back, if it is no list of places at all."""
    if isinstance(plan, list) and all(type(one) is int and 0 <= one < len(layers) for one in plan):
        if plan == sorted(set(plan)):
            return None
        plan = f"{shorten(plan)}, not ascending"
    return f"for a budget that {budget}, plan gave {shorten(plan, 120)}; expected a list of places, ascending."


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
    budgets, right = (*BUDGETS, "one dear layer or two cheaper ones meet"), expected["plans"]
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
            return f"for a budget {less} below the leanest choice, plan gave {gave}; expected a ValueError."
        if below <= 0 and (wrong := _no_plan("all choices meet", said, expected["layers"])):
            return wrong
    none = got["no layers"]
    return None if equal(none, []) else f"for no layers, plan gave {shorten(none)}; expected an empty list."


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
        proves="you can see what is recomputed instead of believing it",
        hints=(
            "A module's forward pre-hook is called each time the module runs, before it does.",
            "register_forward_pre_hook returns a handle with a method remove(). A step can fail: try ... finally.",
            "One hook a block that adds 1 to counts[place]. A function made in a loop sees the loop's last place, so "
            "make each hook in a function of its own that takes the place.",
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
                "leaves nothing on the blocks, even if the step raises",
                points=2,
                probe="left_behind",
                judge=nothing_left,
            ),
        ),
    ),
    Exercise(
        name="checkpoint",
        functions=("checkpoint_forward", "checkpoint_backward", "checkpoint"),
        minutes=40,
        difficulty="hard",
        proves="you know what a second run needs to be the first one again",
        hints=(
            "The function's output depends on its inputs, its weights, random numbers, and what autocast is set to. "
            "The weights are still there in backward. The rest is yours to keep.",
            "In backward: detach the inputs, so that the second graph ends there, and ask for gradients where "
            "the first inputs did. Set the generator back, run with gradients on, set the generator forward again.",
            "torch.autograd.backward(output, gradient) fills .grad of the weights and of your detached inputs; return "
            "the latter. torch.get_rng_state() and set_rng_state; torch.is_autocast_enabled('cpu') and "
            "torch.get_autocast_dtype('cpu').",
            "checkpoint hands Recompute.apply the function, torch.empty(0, requires_grad=True), and the inputs.",
        ),
        checks=(
            Check(
                "checkpoint/gradients",
                "gives the output and gradients of a plain call, in every bit",
                points=4,
                probe="without_dropout",
                judge=all_of(
                    GRADIENTS,
                    equals_reference(
                        "modes", 0, lambda *_: "the block's mode, or whether gradients are on, has changed."
                    ),
                ),
            ),
            Check(
                "checkpoint/memory",
                "keeps nothing from inside, and runs the block twice",
                points=3,
                probe="what_is_kept",
                judge=all_of(
                    nothing_inside_is_kept,
                    runs_twice,
                    products_are_seen,
                    gradients_are_recomputed,
                    same_bits("output", "the output"),
                ),
            ),
            Check(
                "checkpoint/dropout",
                "drops the same numbers in the second run",
                points=3,
                probe="with_dropout",
                judge=GRADIENTS,
                requires=("checkpoint/gradients",),
            ),
            Check(
                "checkpoint/generator",
                "leaves the random generator where a plain call does, after forward and after backward",
                points=2,
                probe="generator",
                judge=all_of(
                    number_equals("drawn after forward", "the random number that is drawn after the forward", 0),
                    number_equals("drawn after backward", "the random number that is drawn after the backward", 0),
                ),
                requires=("checkpoint/gradients",),
            ),
            Check(
                "checkpoint/inputs",
                "takes several inputs, tensors or not, and gives those a gradient that ask for one",
                points=2,
                probe="several_inputs",
                judge=bits_of(
                    output="the output of a function of seven inputs",
                    a="the gradient of an input",
                    b="the gradient of a second input",
                    c="the gradient of an input that asks for none",
                ),
                requires=("checkpoint/gradients",),
            ),
            Check(
                "checkpoint/frozen",
                "gives the weights their gradients when no input asks for one",
                points=1,
                probe="no_input_asks",
                judge=all_of(
                    same_bits("weights", "the gradient of the weights, with an input that asks for none,"),
                    recomputed_all_the_same,
                    products_are_seen,
                    gradients_are_recomputed,
                    not_under_no_grad,
                ),
            ),
            Check(
                "checkpoint/saved",
                "hands the input to autograd, which releases and guards it",
                points=1,
                probe="what_is_saved",
                judge=all_of(saved_for_backward, same_bits("output", "the output")),
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
            ),
        ),
    ),
    Exercise(
        name="segments",
        functions=("checkpoint_segments", "best_segments"),
        minutes=25,
        difficulty="medium",
        proves="you can say which number of segments is best, and why it is not always the root",
        hints=(
            "divmod(len(blocks), segments) gives the length of the short segments and how many are one longer.",
            "A function made in a loop looks its variables up when it runs, and yours runs again in backward, after "
            "the loop. Make it in a function of its own that takes where the segment starts and ends.",
            "Segment number i (from 0) peaks at i * boundary + its length * inside: the inputs before it, and all that "
            "its blocks keep. The peak is the largest of these; min(range(1, layers + 1), key=peak) takes the first of "
            "equals.",
        ),
        checks=(
            Check(
                "segments/cut",
                "cuts into even segments and runs each again, from the last to the first",
                points=3,
                probe="cut",
                judge=cut_right,
                requires=("checkpoint/memory",),
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
                requires=("checkpoint/dropout",),
            ),
            Check(
                "segments/memory",
                "keeps one input a segment",
                points=1,
                probe="segments_kept",
                judge=all_of(inputs_are_kept, gradients_are_recomputed),
                requires=("checkpoint/memory",),
            ),
            Check(
                "segments/ends",
                "works with one segment, and with one a block",
                points=1,
                probe="one_segment_and_as_many_as_blocks",
                judge=both_ends,
                requires=("checkpoint/memory",),
            ),
            Check(
                "segments/best",
                "finds the number with the lowest peak",
                points=3,
                probe="best",
                judge=best_counts,
            ),
        ),
    ),
    Exercise(
        name="checkpoint_selective",
        functions=("checkpoint_selective",),
        minutes=25,
        difficulty="hard",
        proves="you can keep what is dear and recompute what is cheap, one operation at a time",
        hints=(
            "A TorchDispatchMode sees every operation of what runs inside `with`, in forward and in the second run.",
            "The second run asks for the same operations in the same order: a list is all the memory you need.",
            "Wrap the function: the first call runs under a mode that appends outputs of operations in keep, the "
            "second under one that takes the first of the list off and returns it, detached. Hand it to checkpoint.",
        ),
        checks=(
            Check(
                "checkpoint_selective/gradients",
                "gives the gradients and random numbers of a plain call",
                points=2,
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
                        "drawn", 0, lambda *_: "random numbers that are drawn later are others than after a plain call."
                    ),
                ),
                requires=("checkpoint/dropout", "checkpoint/generator"),
            ),
            Check(
                "checkpoint_selective/runs",
                "runs what is kept once and everything else twice",
                points=3,
                probe="selective_runs",
                judge=all_of(kinds_run, same_loss),
                requires=("checkpoint/memory",),
            ),
            Check(
                "checkpoint_selective/memory",
                "keeps the outputs of the chosen operations and nothing else",
                points=2,
                probe="selective_kept",
                judge=outputs_are_kept,
                requires=("checkpoint/memory",),
            ),
            Check(
                "checkpoint_selective/released",
                "has let them go when backward has passed",
                points=1,
                probe="selective_released",
                judge=all_of(
                    number_equals(
                        "released", "the number of bytes from inside after backward, while the loss lives,", 0
                    ),
                    same_loss,
                ),
                requires=("checkpoint_selective/memory", "checkpoint/saved"),
            ),
        ),
    ),
    Exercise(
        name="plan",
        functions=("peak_bytes", "plan"),
        minutes=20,
        difficulty="medium",
        proves="you can fit a model into a budget at the least cost, and show that it is the least",
        hints=(
            "Walk from the first layer to the last and carry what the layers so far hold. When backward is at a layer, "
            "it adds its whole inside, recomputed or not.",
            "The last layer is at work when everything before it is still there: recomputing it saves nothing.",
            "for choice in range(2 ** len(layers)): layer p is in if choice >> p & 1. Of those whose peak fits, the "
            "one with the fewest FLOPs.",
        ),
        checks=(
            Check(
                "plan/peak",
                "predicts the peak of a choice",
                points=4,
                probe="peaks",
                judge=peaks_are_right,
            ),
            Check(
                "plan/fits",
                "chooses layers whose peak is within the budget",
                points=2,
                probe="fits",
                judge=plans_fit,
                requires=("plan/peak",),
            ),
            Check(
                "plan/cheapest",
                "recomputes no more FLOPs than it must",
                points=3,
                probe="cheapest",
                judge=plans_are_cheapest,
                requires=("plan/peak",),
            ),
            Check(
                "plan/refuses",
                "refuses a budget that nothing meets",
                points=1,
                probe="impossible",
                judge=refusals,
                requires=("plan/peak",),
            ),
        ),
    ),
)
