"""Lab 03, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

import math

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
    same_length,
    same_weights,
    shorten,
)
from rankzero.exercises.probes.answers import Answers, equal

# A loss or a share in fp32, of some hundred terms, is exact to about 1e-6; rounded to 16 bits it is off by 1e-3.
FP32 = 1e-5
CLIPPED = 1e-5  # torch's own clipping divides by norm + 1e-6, so clipping before the division differs by so much
SIXTEEN = 1e-3  # gradients that went through 16 bits, on the same machine
OF_ZEROS = (
    "the share of a gradient of which three quarters are 0 already",
    "the share of a gradient of zeros alone",
    "the share where the only gradient is None",
    "the share of no gradients",
)
NO_NUMBERS = "the share over several tensors is nan: one has no numbers, and their mean, 0 / 0, is nan."
IN_ANOTHER_ORDER = "the micro-batches went through in another order."
OF_MODES = [f"the loss of a model with dropout 0.5 in {mode} mode" for mode in ("training", "evaluation")]
OF_MODES.append("the loss of a model without dropout in training mode")


def floats(got: Answers, expected: Answers) -> str | None:
    """Passes if each share is a Python float."""
    for kind in got["types"]:
        if not equal(kind, "float"):
            return f"the return value is of type {shorten(kind)}; expected the share, a Python float."
    return None


def shares(*subjects: str) -> Judge:
    """Passes if each share is a float and the reference's; names the first that is wrong."""
    return all_of(same_length("types"), floats, numbers_equal("shares", *subjects, tolerance=FP32))


def not_in_place(got: Answers, expected: Answers) -> str | None:
    """Passes if the gradients are unchanged."""
    if not equal(got["changed"], 0):
        return (
            f"the call changed {shorten(got['changed'])} numbers of the gradients; store the product in a new tensor."
        )
    return None


def of_scales(got: Answers, expected: Answers) -> str | None:
    """Passes if the share is right with each scale and format."""
    of = [
        "gradients",
        "gradients, some of them infinite,",
        "gradients",
        "gradients near 2**-130",
        "gradients",
        *["fp64 and fp32 gradients"] * 2,
    ]
    every = zip(of, expected["dtypes"], expected["scales"], strict=True)
    return shares(*(f"the share of {what} lost in {dtype} with scale {scale:g}" for what, dtype, scale in every))(
        got, expected
    )


def dtypes(kind: str, policy: str) -> Judge:
    """Passes if dtypes and values after a policy are the reference's."""
    called = f'"{policy}"' if policy else 'policy ""'

    def judge(got: Answers, expected: Answers) -> str | None:
        every = zip(
            expected[f"asked {kind} {policy}"], got[f"{kind} {policy}"], expected[f"{kind} {policy}"], strict=True
        )
        for asked, mine, wanted in every:
            if not equal(mine, wanted):
                made = shorten(", ".join(map(str, mine[:20]))) if isinstance(mine, list) else ""
                hint = " A Parameter is a Tensor too." if "Parameter" in asked else ""
                return f"{called} casts ({asked}) to {made or 'nothing'}; expected {', '.join(wanted)}.{hint}"
        return None

    words = f"the values after {called} differ from those that a cast gives."
    return all_of(
        same_length(f"{kind} {policy}"), judge, equals_reference(f"values {kind} {policy}", TOLERANCE, lambda *_: words)
    )


def a_new_list(got: Answers, expected: Answers) -> str | None:
    """Passes if the answer is a list, and no list of the caller."""
    if not equal(got["type"], "list"):
        return f"the return value is of type {shorten(got['type'])}; expected a list."
    return None if equal(got["new"], expected["new"]) else "the returned list is `args` itself; make a new list."


def same_objects(got: Answers, expected: Answers) -> str | None:
    """Passes if policy "" returns the same objects."""
    return None if equal(got["same"], expected["same"]) else 'policy "" returns new tensors; expected the same tensors.'


def gradients_arrive(got: Answers, expected: Answers) -> str | None:
    """Passes if gradients flow back through the casts."""
    for mine, wanted, way in zip(got["dtypes"], expected["dtypes"], expected["ways"], strict=True):
        if mine != wanted:
            arrived = "no gradient arrives" if mine == "NoneType" else f"a gradient in {shorten(mine)} arrives"
            return f"{arrived} at a tensor that was cast from {way}; expected one in {wanted}."
    return None if equal(got["grads"], expected["grads"], FP32) else "gradients through a cast have other values."


def like_autocast(got: Answers, expected: Answers) -> str | None:
    """Passes if loss and gradients equal torch.autocast's bit for bit, and torch.autocast's equal the reference's."""
    low = expected["low"]
    if not equal(got["loss"], got["torch"]):
        both = mismatch_text(got["loss"], got["torch"]).rstrip(".")
        return f"the loss of a GPT under your casts to {low} {both}, bit for bit as under torch.autocast."
    differ = np.count_nonzero(got["by hand"] != got["by torch"])
    if differ:
        return f"{differ} of {got['by torch'].size} gradients of a GPT differ from those under torch.autocast ({low})."
    if not equal(got["torch"], expected["torch"], FP32) or not equal(got["by torch"], expected["by torch"], SIXTEEN):
        return f"torch.autocast gives another loss or other gradients after a run with your casts ({low})."
    return None


def three_values(got: Answers, expected: Answers) -> str | None:
    """Passes if update_scale returned a float and two ints."""
    if equal(got["returned"], "three"):
        return None
    found = shorten(got["returned"])
    return f"the return value is of type {found}; expected (scale, good_steps, overflows), a float and two ints."


HISTORIES = {
    "scales": "the scale",
    "counts": "the count of good steps",
    "overflows": "the count of overflows",
}


def _scale(value: object) -> str:
    """Returns a scale as text: as a power of two if it is one, and is very large or small."""
    if type(value) is not float:
        return shorten(value, 40)
    mantissa, exponent = math.frexp(value)
    return f"2**{exponent - 1}" if mantissa == 0.5 and not 0.01 < value < 1e5 else repr(value)


def history(name: str) -> Judge:
    """Passes if each scale, or count, of each run is the reference's; names the first step after which it is wrong."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for run, (mine, wanted) in enumerate(zip(got[name], expected[name], strict=True)):
            mine = mine if isinstance(mine, list) and len(mine) == len(wanted) else [None] * len(wanted)
            for step, (value, right) in enumerate(zip(mine, wanted, strict=True)):
                if not equal(value, right, TOLERANCE):
                    both = f"is {_scale(value)}; expected {_scale(right)}."
                    return f"{HISTORIES[name]} after {_steps(expected, run, step)} {both}"
        return None

    return all_of(same_length(name), judge)


def _steps(expected: Answers, run: int, step: int) -> str:
    finite, interval, start = expected["finite"][run], expected["intervals"][run], _scale(expected["starts"][run])
    if all(finite):
        return f"{step + 1} good steps with growth_interval={interval}, from scale {start},"
    if not any(finite):
        return f"{step + 1} overflow{'s in a row' if step else ''}, from scale {start},"
    signs = "".join("g" if good else "o" for good in finite[: step + 1])
    settings = f"growth_interval={interval} and hysteresis={expected['hysteresis'][run]}"
    return f"the steps {signs} (g: good, o: overflow) with {settings}, from scale {start},"


def defaults(got: Answers, expected: Answers) -> str | None:
    """Passes if the defaults are 2000 good steps and one overflow."""
    every = zip(expected["before"], expected["starts"], got["scales"], expected["scales"], strict=True)
    for before, start, mine, wanted in every:
        if not equal(mine, wanted, TOLERANCE):
            step = f"good step {before + 1} in a row, from scale {_scale(start)} and without a growth_interval,"
            return f"the scale after {step} is {_scale(mine)}; expected {_scale(wanted)}."
    mine, wanted, start = got["after an overflow"], expected["after an overflow"], _scale(expected["starts"][-1])
    if not equal(mine, wanted, TOLERANCE):
        both = f"is {_scale(mine)}; expected {_scale(wanted)}."
        return f"the scale after one overflow, from scale {start} and without hysteresis, {both}"
    return None


def a_list_of_positions(got: Answers, expected: Answers) -> str | None:
    """Passes if the answer is a list."""
    if equal(got["type"], "list"):
        return None
    return f"the return value is of type {shorten(got['type'])}; expected a list of positions, [] if all are finite."


def divided(got: Answers, expected: Answers) -> str | None:
    """Passes if the gradients are divided, and nothing else."""
    if not equal(got["weights"], expected["weights"], TOLERANCE):
        return "the call changed the weights; divide the gradients only."
    kinds = zip(got["dtypes"], expected["dtypes"], strict=True)
    for position, (mine, wanted) in enumerate(kinds):
        if not equal(mine, wanted):
            now = f"the dtype of the gradient at position {position} is {shorten(mine)} after the call"
            return f"{now}; expected {wanted}. NoneType: no gradient."
    return divided_gradients(got, expected)


def divided_gradients(got: Answers, expected: Answers, when: str = "") -> str | None:
    """Passes if each gradient is the reference's."""
    if not isinstance(got["grads"], np.ndarray) or got["grads"].shape != expected["grads"].shape:
        return f"{when}gradients are missing or new after the call; divide each in place."
    if equal(got["grads"], expected["grads"], TOLERANCE):
        return None
    wrong = ~np.isclose(got["grads"], expected["grads"], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    first = int(np.argmax(wrong))
    pair = float(got["grads"][first]), float(expected["grads"][first])
    both, scale = mismatch_text(*pair).rstrip("."), expected["scale"]
    replaced = np.isfinite(pair[0]) and not np.isfinite(pair[1])
    hint = " Report a number that is not finite, and do not replace it." if replaced else ""
    differ = f"({wrong.sum()} differ).{hint}"
    return f"{when}number {first} of all gradients after unscale with scale {scale:g} {both} {differ}"


def divided_all_the_same(got: Answers, expected: Answers) -> str | None:
    """Passes if all gradients are divided although one is not finite, and one that the division makes inf is found."""
    failure = divided_gradients(got, expected, "with one number that is not finite in the gradient at position 3, ")
    case = "an fp16 gradient of 40000 at position 1, divided by the scale 0.5 to inf,"
    return failure or _positions(case, got["not_finite"], expected["not_finite"])


def divided_once(got: Answers, expected: Answers) -> str | None:
    """Passes if a parameter that occurs twice is divided once, and listed twice."""
    failure = divided_gradients(got, expected, "in a list in which parameters occur twice, ")
    return failure or _positions("a list in which parameters occur twice", got["not_finite"], expected["not_finite"])


def in_place(got: Answers, expected: Answers) -> str | None:
    """Passes if the gradients are in the same tensors and memory."""
    if got["in_place"] is True and equal(got["in_memory"], expected["in_memory"], TOLERANCE):
        return None
    return "the gradients are other tensors after the call; divide the existing tensors in place (div_)."


def positions_found(got: Answers, expected: Answers) -> str | None:
    """Passes if the positions in each case are right."""
    for name, mine, wanted in zip(expected["names"], got["not_finite"], expected["not_finite"], strict=True):
        if failure := _positions(name, mine, wanted):
            return failure
    return None


def _positions(case: str, mine: object, wanted: list[int]) -> str | None:
    return None if equal(mine, wanted) else f"with {case} the function returns {shorten(mine)}; expected {wanted}."


def a_loss_and_a_bool(got: Answers, expected: Answers) -> str | None:
    """Passes if the step returned (float, bool)."""
    if equal(got["type"], expected["type"]):
        return None
    return f"the return value is of type {shorten(got['type'])}; expected (float, bool): the loss and updated."


def norm_seen(got: Answers, expected: Answers) -> str | None:
    """Passes if the optimizer read a gradient with the right norm and direction."""
    for name in ("above", "below"):
        mine, wanted = got[f"seen {name}"], expected[f"seen {name}"]
        if not equal(mine, wanted, CLIPPED):
            norm, limit = expected[f"norm {name}"], expected[f"limit {name}"]
            true = f"norm {norm:.4g} before clipping, max_norm={limit:.4g} and scale {expected[f'scale {name}']:g}"
            saw = f"{mine:.4g}" if isinstance(mine, float) else shorten(mine)
            return f"the optimizer read a gradient of norm {saw}; expected {wanted:.4g}, for {true}."
    same = all(equal(got[f"weights {name}"], expected[f"weights {name}"], CLIPPED) for name in ("above", "below"))
    return None if same else "after clipping, the gradient has the right norm but another direction."


def nothing_moves(got: Answers, expected: Answers) -> str | None:
    """Passes if weights and optimizer are unchanged after a gradient that is not finite."""
    every = zip(expected["ways"], got["moved"], got["nan"], got["state"], got["updated"], strict=True)
    for way, moved, nans, state, updated in every:
        if moved or nans:
            became = f" ({nans} of them became nan)" if nans else ""
            return f"with {way}, {moved} of {expected['of']} weights changed{became}; expected 0."
        if state:
            return f"with {way}, {state} numbers of AdamW's state changed; expected 0."
        if updated is not False:
            return f"with {way}, the step returns updated={updated}; expected False."
    for way, kind, loss, wanted in zip(expected["ways"], got["types"], got["losses"], expected["losses"], strict=True):
        if not equal(kind, "(float, bool)"):
            return f"with {way}, the return value is of type {shorten(kind)}; expected (float, bool)."
        if not equal(loss, wanted, FP32):
            whole = " It is the mean over all micro-batches, also where one of them overflows."
            return f"with {way}, the loss {mismatch_text(loss, wanted)}{whole}"
    return None


def infinite_loss_updates(got: Answers, expected: Answers) -> str | None:
    """Passes if a step with an infinite loss, but a finite gradient, is an update."""
    if got["updated despite it"] is not True:
        return "with an infinite loss, but a finite gradient, no update was made; only the gradient decides."
    mine, wanted = got["infinite loss"], expected["infinite loss"]
    return None if equal(mine, wanted) else f"the returned loss {mismatch_text(mine, wanted)}"


def caller_keeps_tokens(got: Answers, expected: Answers) -> str | None:
    """Passes if the micro-batches are unchanged."""
    same = equal(got["tokens"], expected["tokens"])
    return None if same else "the call changed tokens or targets of the micro-batches; they belong to the caller."


def mode_stays(got: Answers, expected: Answers) -> str | None:
    """Passes if the model runs in its mode and stays in it."""
    modes = ("training", "evaluation", "training")
    for mode, wanted, left in zip(modes, (True, False, True), got["left"], strict=True):
        if any(module is not wanted for module in left):
            return f"a model in {mode} mode, or a part of it, was in the other mode after the call."
    if not equal(got["passes"], expected["passes"]):
        return "a forward pass ran in another mode than the model had before the call, or there were too many passes."
    return None


def backward_is_scaled(got: Answers, expected: Answers) -> str | None:
    """Passes if backward runs once for each micro-batch, from the scaled loss."""
    if equal(got["sizes"], expected["sizes"], TOLERANCE):
        return None
    sizes = [size for size in got["sizes"] if type(size) is float] if isinstance(got["sizes"], list) else []
    count = expected["count"]
    if len(sizes) != count:
        return f"backward went through the logits {len(sizes)} times for {count} micro-batches; expected {count}."
    if not equal(got["inputs"], expected["inputs"]):
        return IN_ANOTHER_ORDER
    factor = expected["scale"] * sizes[0] / expected["sizes"][0]
    return (
        f"backward starts with {factor:,.8g} times the gradient of the mean loss of {count} micro-batches; "
        f"expected {expected['scale']:,.8g} times, the scale."
    )


def in_order(got: Answers, expected: Answers) -> str | None:
    """Passes if there is one forward and one backward for each micro-batch, in their order."""
    if not equal(got["order"], expected["order"]):
        order = got["order"] if isinstance(got["order"], list) else []
        return f"the passes ran in the order {shorten(', '.join(map(str, order[:8])))}; expected forward, backward, ..."
    if not equal(got["passes"], expected["passes"]):
        return f"the model ran {shorten(got['passes'])} times; expected {expected['passes']}, once per micro-batch."
    if not equal(got["at weight"], expected["at weight"], TOLERANCE):
        return "backward does not go from the scaled loss to the weights once for each micro-batch."
    return None if equal(got["inputs"], expected["inputs"]) else IN_ANOTHER_ORDER


def right_formats(got: Answers, expected: Answers) -> str | None:
    """Passes if forward and loss run under autocast, backward does not, and the weights stay fp32."""
    for called, mine, wanted in zip(expected["passes"], got["linear"], expected["linear"], strict=True):
        if not equal(mine, wanted):
            return f"{called}, a linear layer's output is {shorten(mine)}; expected {wanted}."
    for called, mine in zip(expected["called"], got["weights"], strict=True):
        if not equal(mine, "float32"):
            return f"{called}, the weights are {shorten(mine)} after the step; under autocast they stay float32."
    for called, mine in zip(expected["passes"], got["norm"], strict=True):
        if not equal(mine, "float32"):
            return f"{called}, the last norm's output is {shorten(mine)}; under autocast it is float32."
    for called, mine, wanted in zip(expected["called"], got["loss"], expected["loss"], strict=True):
        if not equal(mine, wanted, FP32):
            return f"{called}, the loss {mismatch_text(mine, wanted)} Check that all of it runs under autocast."
    backward = got["backward"] if isinstance(got["backward"], list) else []
    if any(equal(state, "on") for state in backward):
        return "autocast is on during backward; call backward after the autocast block."
    if not equal(backward, expected["backward"]):
        return f"backward went through the logits {len(backward)} times; expected {len(expected['backward'])}."
    return None if equal(got["after"], expected["after"]) else "autocast is still on after the step."


def old_gradients_do_not_count(got: Answers, expected: Answers) -> str | None:
    """Passes if neither finite nor infinite old gradients change the step."""
    for name, updated in zip(("finite", "infinite"), got["updated"], strict=True):
        if updated is not True:
            return f"with {name} gradients of an earlier backward in place, a good step is skipped; expected an update."
    return same_weights("after a step with gradients of an earlier backward in place")(got, expected)


def masters(what: str) -> Judge:
    """Passes if the masters hold the reference's numbers."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got["masters"], expected["masters"]
        if equal(mine, wanted, TOLERANCE):
            return None
        if not isinstance(mine, np.ndarray) or mine.shape != wanted.shape:
            return (
                f"the masters hold {mine.size if isinstance(mine, np.ndarray) else 0} numbers; expected {wanted.size}."
            )
        wrong = ~np.isclose(mine, wanted, rtol=TOLERANCE, atol=TOLERANCE)
        first = int(np.argmax(wrong))
        both = mismatch_text(float(mine[first]), float(wanted[first])).rstrip(".")
        return f"number {first} of the masters {what} {both} ({wrong.sum()} of {wrong.size} differ)."

    return judge


def fp32_copies(got: Answers, expected: Answers) -> str | None:
    """Passes if the masters are fp32 leaves with memory of their own."""
    if not equal(got["type"], "list"):
        return f"the return value is of type {shorten(got['type'])}; expected a list."
    if isinstance(got["shapes"], list) and len(got["shapes"]) != len(expected["shapes"]):
        per = "one per item of model.parameters(): none for a buffer, one for a frozen or shared one"
        return f"there are {len(got['shapes'])} masters; expected {len(expected['shapes'])}, {per}."
    for name in ("shapes", "dtypes"):
        if not equal(got[name], expected[name]):
            found = shorten(", ".join(map(str, got[name][:20])) if isinstance(got[name], list) else got[name])
            return f"the masters' {name} are {found}; expected {', '.join(expected[name])}."
    if not equal(got["leaves"], expected["leaves"]):
        return "a master is not a leaf with requires_grad=True; an optimizer needs nn.Parameter(...)."
    if not equal(got["model"], 0):
        changed = shorten(got["model"])
        return f"adding 1 to every master changed {changed} of the model's weights; a master needs its own memory."
    return None


def the_same_tensors(got: Answers, expected: Answers) -> str | None:
    """Passes if the model's parameters are the same tensors in the same memory."""
    if not equal(got["dtypes"], expected["dtypes"]):
        found = shorten(", ".join(map(str, got["dtypes"][:20])) if isinstance(got["dtypes"], list) else got["dtypes"])
        return f"the model's parameters are {found} after the step; expected {', '.join(expected['dtypes'])}."
    if not equal(got["shared"], 0):
        return "a parameter of the model shares its memory with a master after the step."
    if not (got["same"] is True and got["memory"] is True):
        return "the model's parameters lie in other memory after the step; copy into the existing tensors (copy_)."
    return None


def gradients_stay(got: Answers, expected: Answers) -> str | None:
    """Passes if the model's gradients are unchanged."""
    return None if got["gradients"] is True else "the step changed the gradients of the model's parameters."


def none_stays(got: Answers, expected: Answers) -> str | None:
    """Passes if the master of a parameter without a gradient is not updated."""
    failure = masters("after a step in which one gradient is None, and another step,")(got, expected)
    if not equal(got["moved"], 0):
        moved = shorten(got["moved"])
        return f"the step changed {moved} numbers of a master whose parameter has no gradient; expected 0."
    return failure


EXERCISES = (
    Exercise(
        name="share_lost",
        functions=("share_lost",),
        minutes=10,
        difficulty="easy",
        proves="you can measure what a format does to your gradients before you train in it",
        hints=(
            "Multiply by the scale, store in `dtype`, and count the numbers that are 0 after storing.",
            "Keep two counts over all tensors: of the numbers that are not 0 before, and of those among them that are "
            "0 after storing. Divide once, at the end. Multiply first, in the gradient's own dtype.",
            "nonzero = gradient[gradient != 0]; lost += int(((nonzero * scale).to(dtype) == 0).sum()); "
            "there += nonzero.numel()",
        ),
        checks=(
            Check(
                "share_lost/fp16",
                "counts the numbers that become 0 in fp16",
                points=2,
                probe="one_tensor",
                judge=all_of(
                    is_of_type("float", "the share, a Python float,"),
                    number_equals("share", "the share of numbers between 2**-40 and 2**-8 that fp16 loses", FP32),
                ),
            ),
            Check(
                "share_lost/zeros",
                "leaves out numbers that were 0 before",
                points=1,
                probe="zeros_among_them",
                judge=all_of(not_in_place, shares(*OF_ZEROS)),
                requires=("share_lost/fp16",),
            ),
            Check(
                "share_lost/tensors",
                "weighs every number the same, over all tensors",
                points=1,
                probe="several_tensors",
                judge=all_of(
                    same_length("types"),
                    floats,
                    lambda got, _: NO_NUMBERS if shorten(got["share"]) == "nan" else None,
                    number_equals("share", "the share over tensors of unequal shapes, one empty, and a None", FP32),
                ),
                requires=("share_lost/fp16",),
            ),
            Check(
                "share_lost/scale",
                "scales before it stores, in any 16-bit format",
                points=2,
                probe="scaled_and_in_bf16",
                judge=all_of(not_in_place, of_scales),
                requires=("share_lost/fp16",),
            ),
        ),
    ),
    Exercise(
        name="cast_inputs",
        functions=("cast_inputs",),
        minutes=20,
        difficulty="medium",
        proves="you know that autocast casts the inputs of an operation, and never a stored weight",
        hints=(
            "First find the arguments that may be cast at all: floating-point tensors, but not float64. The "
            "policies differ only in the dtype that these tensors get.",
            'For "widest", look at all arguments before you cast the first. Two bf16 tensors stay bf16.',
            "one.to(target) if isinstance(one, Tensor) and one.is_floating_point() and one.dtype != torch.float64 else "
            "one; .to keeps the graph, and returns the tensor itself if it has the dtype already.",
        ),
        checks=(
            Check(
                "cast_inputs/lower",
                'casts to the low format for "lower"',
                points=2,
                probe="policies",
                judge=all_of(
                    a_new_list,
                    dtypes("floats", "lower"),
                    equals_reference(
                        "values",
                        TOLERANCE,
                        lambda *_: 'the values after "lower" differ from those that rounding gives.',
                    ),
                ),
            ),
            Check(
                "cast_inputs/fp32",
                'casts to fp32 for "fp32"',
                points=1,
                probe="policies",
                judge=dtypes("floats", "fp32"),
            ),
            Check(
                "cast_inputs/widest",
                'casts to fp32 for "widest" if any argument is fp32',
                points=2,
                probe="policies",
                judge=dtypes("floats", "widest"),
            ),
            Check(
                "cast_inputs/as-they-are",
                'changes no argument for policy ""',
                points=1,
                probe="policies",
                judge=all_of(dtypes("floats", ""), dtypes("others", ""), same_objects),
            ),
            Check(
                "cast_inputs/others",
                "does not cast integers, masks, None, numbers and fp64",
                points=1,
                probe="policies",
                judge=all_of(
                    *(dtypes("others", policy) for policy in ("lower", "fp32", "widest")),
                    equals_reference(
                        "left", 0.0, lambda *_: "the call changed its arguments; a cast makes a new tensor."
                    ),
                    equals_reference("kept", 0, lambda *_: "the call replaced items of the list `args`."),
                ),
                requires=("cast_inputs/lower", "cast_inputs/fp32", "cast_inputs/widest"),
            ),
            Check(
                "cast_inputs/gradients",
                "lets gradients flow back, each in its tensor's own dtype",
                points=1,
                probe="gradients_through",
                judge=all_of(has_reference_form("dtypes"), gradients_arrive),
                requires=("cast_inputs/lower", "cast_inputs/fp32"),
            ),
            Check(
                "cast_inputs/gpt",
                "runs a GPT as torch.autocast does, bit for bit",
                points=2,
                probe="a_whole_gpt",
                judge=all_of(has_reference_form("by hand", "by torch"), like_autocast),
                requires=("cast_inputs/lower", "cast_inputs/fp32", "cast_inputs/gradients"),
            ),
        ),
    ),
    Exercise(
        name="update_scale",
        functions=("update_scale",),
        minutes=15,
        difficulty="medium",
        proves="you know how a loss scale finds the largest power of two without overflow",
        hints=(
            "Three cases: an overflow, the good step that completes an interval, any other good step.",
            "The current step counts too, as a good step or as an overflow. Good steps are counted in a row. "
            "Overflows are counted since the scale last grew, with good steps between them.",
            "if not finite: overflows += 1; halve if overflows >= hysteresis; good_steps becomes 0. If good_steps + 1 "
            "== growth_interval: double, and both counts become 0. Otherwise only good_steps changes.",
        ),
        checks=(
            Check(
                "update_scale/backs-off",
                "halves the scale at each overflow, without limit",
                points=2,
                probe="back_off",
                judge=all_of(three_values, history("scales")),
            ),
            Check(
                "update_scale/grows",
                "doubles the scale with the last good step of an interval",
                points=2,
                probe="growth",
                judge=all_of(three_values, history("scales")),
            ),
            Check(
                "update_scale/counts-anew",
                "counts good steps in a row, from 0 after each change",
                points=1,
                probe="both",
                judge=all_of(three_values, history("counts"), history("scales")),
                requires=("update_scale/backs-off", "update_scale/grows"),
            ),
            Check(
                "update_scale/hysteresis",
                "halves the scale from overflow number `hysteresis` since the last growth on",
                points=2,
                probe="tolerant",
                judge=all_of(three_values, history("scales"), history("counts"), history("overflows")),
                requires=("update_scale/counts-anew",),
            ),
            Check(
                "update_scale/default",
                "by default, grows after 2000 good steps and halves at the first overflow",
                points=1,
                probe="by_default",
                judge=all_of(same_length("scales"), defaults),
                requires=("update_scale/backs-off", "update_scale/grows"),
            ),
        ),
    ),
    Exercise(
        name="unscale",
        functions=("unscale",),
        minutes=15,
        difficulty="medium",
        proves="you can remove the loss scale from all gradients and find every inf and nan in them",
        hints=(
            "One loop over the parameters can divide and test. What must happen with a parameter whose gradient is "
            "None, and with one that occurs a second time?",
            "enumerate gives the positions. isfinite is False for inf, -inf and nan. A bad gradient goes into the "
            "list; it does not end the loop. id(parameter) tells whether a parameter has been divided already.",
            "For each position and parameter with a gradient: parameter.grad.div_(scale), unless id(parameter) is in a "
            "set; then append the position if not parameter.grad.isfinite().all().",
        ),
        checks=(
            Check(
                "unscale/divides",
                "divides every gradient and nothing else",
                points=2,
                probe="divided",
                judge=all_of(a_list_of_positions, same_length("dtypes"), divided),
            ),
            Check(
                "unscale/in-place",
                "divides the existing gradients, in place",
                points=1,
                probe="divided",
                judge=in_place,
                requires=("unscale/divides",),
            ),
            Check(
                "unscale/finite",
                "finds inf, -inf and nan, and returns their positions",
                points=2,
                probe="bad_numbers",
                judge=all_of(same_length("not_finite"), positions_found),
            ),
            Check(
                "unscale/large",
                "does not report large finite numbers",
                points=1,
                probe="large_numbers",
                judge=all_of(same_length("not_finite"), positions_found),
            ),
            Check(
                "unscale/all",
                "divides every gradient even where one is infinite, and tests it after the division",
                points=1,
                probe="spoiled_and_divided",
                judge=divided_all_the_same,
                requires=("unscale/divides",),
            ),
            Check(
                "unscale/once",
                "divides the gradient of a parameter that occurs twice once",
                points=1,
                probe="divided_once",
                judge=divided_once,
                requires=("unscale/divides", "unscale/finite"),
            ),
        ),
    ),
    Exercise(
        name="scaled_step",
        functions=("scaled_step",),
        minutes=20,
        difficulty="medium",
        proves="you can combine autocast, scale, accumulation, clipping and skipping in the right order",
        hints=(
            "backward adds to p.grad. Which lines of Lab 02's step run once for each micro-batch, and which run once "
            "for all of them? Gradients may be added only if all of them are multiplied by the same scale.",
            "Once before: clear. For each micro-batch: forward and loss under autocast; outside it, backward on the "
            "loss times scale / number of micro-batches. Once after: your unscale; if it returns an empty list, clip "
            "and update.",
            'with torch.autocast("cpu", dtype=low): the loss; then (loss * scale / len(micro_batches)).backward(); '
            "after the loop updated = not unscale(model.parameters(), scale); if updated: clip and step; return the "
            "mean of the losses, updated.",
        ),
        checks=(
            Check(
                "scaled_step/loss",
                "returns the mean loss without the scale, and True after an update",
                points=1,
                probe="one_step",
                judge=all_of(
                    a_loss_and_a_bool,
                    number_equals("loss", "the mean loss of all micro-batches"),
                    equals_reference(
                        "updated", 0, lambda *_: "the step returns updated=False after an update with finite gradients."
                    ),
                    caller_keeps_tokens,
                ),
            ),
            Check(
                "scaled_step/update",
                "updates the weights with the unscaled gradient of the mean loss, at every step",
                points=2,
                probe="several_steps",
                judge=same_weights("after three steps with momentum, each with another scale"),
            ),
            Check(
                "scaled_step/scaled",
                "runs backward on the scaled loss of each micro-batch in turn",
                points=1,
                probe="start_of_backward",
                judge=all_of(backward_is_scaled, in_order),
            ),
            Check(
                "scaled_step/clip",
                "clips the norm of the unscaled gradient",
                points=1,
                probe="clipped",
                judge=norm_seen,
                requires=("scaled_step/update",),
            ),
            Check(
                "scaled_step/skip",
                "updates nothing when a gradient is not finite, and only then",
                points=2,
                probe="overflow",
                judge=all_of(
                    has_reference_form("moved", "nan", "state", "updated"),
                    *map(same_length, ("types", "losses")),
                    nothing_moves,
                    infinite_loss_updates,
                ),
                requires=("unscale/finite", "scaled_step/loss"),
            ),
            Check(
                "scaled_step/formats",
                "runs forward and loss under autocast, and only these",
                points=1,
                probe="formats",
                judge=all_of(*map(same_length, ("linear", "norm", "loss", "weights")), right_formats),
            ),
            Check(
                "scaled_step/stale",
                "ignores gradients that were there before, even infinite ones",
                points=1,
                probe="after_others",
                judge=all_of(same_length("updated"), old_gradients_do_not_count),
                requires=("scaled_step/loss", "scaled_step/update"),
            ),
            Check(
                "scaled_step/mode",
                "runs the model in its mode, and leaves it in that mode",
                points=1,
                probe="in_both_modes",
                judge=all_of(
                    has_reference_form("left"),
                    mode_stays,
                    numbers_equal("losses", *OF_MODES, tolerance=FP32),
                ),
                requires=("scaled_step/loss", "scaled_step/update"),
            ),
        ),
    ),
    Exercise(
        name="master_weights",
        functions=("make_masters", "master_step"),
        minutes=20,
        difficulty="medium",
        proves="you know why a 16-bit weight needs a 32-bit master, and in which order to copy gradients and weights",
        hints=(
            "Copy the gradients to the masters, let the optimizer update the masters, and round the masters into the "
            "weights. After make_masters, never copy weights into masters.",
            "float() of an fp32 tensor is that tensor, not a copy. master.grad needs the master's dtype, and is None "
            "where the parameter's gradient is None.",
            "nn.Parameter(p.detach().clone().float()) makes a master; master.grad = None if p.grad is None else "
            "p.grad.float(); optimizer.step(); then, under torch.no_grad(), p.copy_(master) for each.",
        ),
        checks=(
            Check(
                "master_weights/copies",
                "makes fp32 copies with memory of their own",
                points=2,
                probe="copies",
                judge=all_of(fp32_copies, masters("after make_masters")),
            ),
            Check(
                "master_weights/step",
                "updates the masters, and rounds them into the weights",
                points=2,
                probe="one_master_step",
                judge=all_of(masters("after one step"), same_weights("after one step")),
            ),
            Check(
                "master_weights/small",
                "adds up steps that are too small for a 16-bit weight",
                points=2,
                probe="many_small_steps",
                judge=all_of(masters("after many small steps"), same_weights("after many small steps")),
                requires=("master_weights/step",),
            ),
            Check(
                "master_weights/none",
                "does not update a master whose parameter has no gradient",
                points=1,
                probe="some_without_gradient",
                judge=none_stays,
                requires=("master_weights/step",),
            ),
            Check(
                "master_weights/model",
                "keeps the model's parameters in the same tensors, with their gradients",
                points=1,
                probe="one_master_step",
                judge=all_of(the_same_tensors, gradients_stay),
                requires=("master_weights/step",),
            ),
        ),
    ),
)
