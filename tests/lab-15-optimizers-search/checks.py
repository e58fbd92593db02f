"""Lab 15, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import TOLERANCE, all_of, items_of, mismatch_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

# Of numbers that were computed in a dtype; a few roundings, in another order.
TOLERANCES = {"float64": TOLERANCE, "float32": 2e-5, "bfloat16": 0.04}


def kind(value: object) -> str:
    """Returns a short description of an answer."""
    if isinstance(value, np.ndarray):
        return f"a tensor of shape {list(value.shape)}"
    return "missing" if value is None else shorten(value)


def listed(values: object) -> str:
    """Returns the items of a list as a text: 'a, b', or 'none'."""
    return shorten(", ".join(map(shorten, values)), 120) if isinstance(values, list) and values else "none"


def tensor_failure(
    subject: str, got: object, expected: Any, tolerance: float = TOLERANCE, whole: bool = False
) -> str | None:
    """Returns a sentence unless `got` has the shape and numbers of `expected`; names the first wrong number.

    With `whole`, the tensor holds integers, and right numbers are named without a fraction.
    """
    if not isinstance(expected, np.ndarray):
        return None if equal(got, expected) else f"{subject} is {kind(got)}; expected {kind(expected)}."
    if not isinstance(got, np.ndarray) or got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{subject} is {kind(got)}; expected {kind(expected)}."
    if equal(got, expected, tolerance):
        return None
    wrong = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    place = tuple(int(index[0]) for index in np.nonzero(np.atleast_1d(wrong)))[: got.ndim]
    where = f" at {list(place)}" if place else ""
    count = f" ({int(wrong.sum())} of {got.size} numbers differ)" if got.size > 1 else ""
    numbers: list[float] = [float(got[place]), float(expected[place])]
    if whole:
        numbers = [int(number) if number.is_integer() else number for number in numbers]
    return f"{subject}{where} {mismatch_text(*numbers).rstrip('.')}{count}."


def scale_failure(subject: str, got: object, expected: Any, tolerance: float) -> str | None:
    """Returns a sentence unless the numbers agree relative to the largest one: a tolerance may exceed them all."""
    if not isinstance(expected, np.ndarray) or not isinstance(got, np.ndarray) or not np.abs(expected).max(initial=0):
        return None
    largest, right = (float(np.abs(array).max()) for array in (got, expected))
    if equal(np.asarray(got / right), np.asarray(expected / right), tolerance):  # NumPy divides [] into a float
        return None
    return f"{subject} {mismatch_text(largest, right).rstrip('.')}, its largest number, or others differ."


def tolerance_of(form: object) -> float:
    """Returns the tolerance for a tensor by its form, 'float32 [2, 3]'."""
    return TOLERANCES.get(str(form).split(" ")[0], TOLERANCE)


# ----------------------------------------------------------------------------------------------------------- the steps
def weights_of_cases(got: Answers, expected: Answers) -> str | None:
    """The parameter after every step of every case."""
    count = len(expected["cases"])
    for number, steps in enumerate(items_of(got, "weights", count)):
        case, wanted = expected["cases"][number], expected["weights"][number]
        rows = steps if isinstance(steps, list) and len(steps) == len(wanted) else [None] * len(wanted)
        tolerance = tolerance_of(expected["form"][number])
        for step, (row, right) in enumerate(zip(rows, wanted, strict=True), start=1):
            if failure := tensor_failure(f"{case}: after step {step}, the parameter", row, right, tolerance):
                if equal(row, items_of(got, "start", count)[number]):
                    return f"{case}: after step {step}, the parameter is as it was before: change it in place."
                return failure + count_text(items_of(got, "step", count)[number], expected["step"][number])
    return None


def count_text(step: object, expected: Any) -> str:
    """Returns a sentence on a count of steps of another type, which may round otherwise; else nothing."""
    if not expected or not isinstance(step, list) or len(step) != 2 or equal(step[0], expected[0]):
        return ""
    reason = ": powers of a tensor round to its dtype" if equal(step[0], "Tensor") else ""
    return f' state["step"] is of type {kind(step[0])}; expected {expected[0]}{reason}.'


def dtypes_of_cases(got: Answers, expected: Answers) -> str | None:
    """The parameter keeps its dtype and shape."""
    count = len(expected["cases"])
    for case, form, wanted in zip(expected["cases"], items_of(got, "form", count), expected["form"], strict=True):
        if not equal(form, wanted):
            return f"{case}: the parameter is then {kind(form)}; expected {wanted}."
    return None


def gradients_kept(got: Answers, expected: Answers) -> str | None:
    """The caller's gradients stay as they are."""
    for case, kept in zip(expected["cases"], items_of(got, "kept", len(expected["cases"])), strict=True):
        if kept is not True:
            return f"{case}: `gradient` is changed, which is the caller's."
    return None


def states_of_cases(got: Answers, expected: Answers) -> str | None:
    """The entries of the state: names, dtypes, numbers."""
    count = len(expected["cases"])
    columns = [items_of(got, name, count) for name in ("names", "forms", "tensors", "step")]
    right = [expected[name] for name in ("names", "forms", "tensors", "step")]
    for number, case in enumerate(expected["cases"]):
        (names, forms, tensors, step), (right_names, right_forms, right_tensors, right_step) = (
            [column[number] for column in side] for side in (columns, right)
        )
        if not equal(names, right_names):
            return f"{case}: the state has the entries {listed(names)}; expected {listed(right_names)}."
        if not equal(forms, right_forms):
            return f"{case}: the tensors of the state are {listed(forms)}; expected {listed(right_forms)}."
        values = tensors if isinstance(tensors, list) and len(tensors) == len(right_tensors) else None
        entries = [name for name in right_names if name != "step"]
        for place, name in enumerate(entries):
            tensor, tolerance = values[place] if values else None, tolerance_of(right_forms[place])
            if failure := tensor_failure(f'{case}: state["{name}"]', tensor, right_tensors[place], tolerance):
                return failure
            if failure := scale_failure(f'{case}: state["{name}"]', tensor, right_tensors[place], tolerance):
                return failure
        if values is None:
            return f"{case}: the state has no tensors of these names: {listed(entries)}."
        if not equal(step, right_step):
            wanted = f"{right_step[1]}, of type {right_step[0]}" if right_step else "no such entry"
            text = (
                f"{kind(step[1])}, of type {kind(step[0])}" if isinstance(step, list) and len(step) == 2 else "missing"
            )
            return f'{case}: state["step"] is {text}; expected {wanted}.'
    return None


is_step = all_of(weights_of_cases, gradients_kept)
whole_step = all_of(weights_of_cases, gradients_kept, dtypes_of_cases, states_of_cases)


# ----------------------------------------------------------------------------------------------- the step of all groups
def rule_is_called(got: Answers, expected: Answers) -> str | None:
    """The rule gets every parameter once per step, in order, with its gradient."""
    calls, wanted = got.get("calls"), expected["calls"]
    if not isinstance(calls, list) or len(calls) != len(wanted):
        called = calls if isinstance(calls, list) else []
        forms = enumerate(expected["parameters"])
        missed = [
            f"parameter {place}, {form}" for place, form in forms if not any(equal(call, place) for call in called)
        ]
        return (
            f"in two steps of {len(expected['parameters'])} parameters, `rule` is called {len(called)} times; "
            f"expected {len(wanted)}. Never called for: {listed(missed)}."
        )
    if not equal(calls, wanted):
        return f"`rule` is called for parameters {listed(calls)}; expected {listed(wanted)} (-1 is a foreign object)."
    for number, (given, right) in enumerate(zip(items_of(got, "given", len(wanted)), expected["given"], strict=True)):
        if failure := tensor_failure(f"in call {number + 1} of `rule`, the gradient", given, right, 1e-6):
            return failure
    if not equal(got.get("lost"), expected["lost"]):
        return "after the step the `grad` of a parameter is None; gradients stay as they are."
    count = len(expected["weights"])
    for number, (weight, right) in enumerate(zip(items_of(got, "weights", count), expected["weights"], strict=True)):
        if failure := tensor_failure(f"after two steps, parameter {number}", weight, right, 1e-5):
            return failure
    return None


def rule_gets_settings(got: Answers, expected: Answers) -> str | None:
    """Every call gets the settings of its own group, and the groups stay whole."""
    wanted = expected["settings"]
    settings = got.get("settings")
    rows = settings if isinstance(settings, list) else []
    for number, right in enumerate(wanted):
        row = rows[number] if number < len(rows) else None
        if not equal(row, right):
            return f"call {number + 1} of `rule` gets the settings {listed(row)}; expected {listed(right)}."
    if got.get("kept") is not True:
        return "the groups are not as they were before the call: an entry is missing or new."
    return None if len(rows) == len(wanted) else f"`rule` is called {len(rows)} times; expected {len(wanted)}."


def rule_skips_none(got: Answers, expected: Answers) -> str | None:
    """A parameter without a gradient gets neither a call nor a state; a gradient of zeros gets both."""
    kinds = (
        "some gradients None in the first of two steps",
        "some gradients zeros in the first of two steps",
        "requires_grad False for some parameters",
    )
    columns = [items_of(got, name, len(kinds)) for name in ("calls", "states", "counts", "none kept")]
    right = [expected[name] for name in ("calls", "states", "counts")]
    for text, calls, states, counts, kept, *wanted in zip(kinds, *columns, *right, strict=True):
        if not equal(calls, wanted[0]):
            called, asked = listed(calls), listed(wanted[0])
            return f"with {text}, `rule` is called for {called}; expected {asked}."
        if not equal(states, wanted[1]):
            return f"with {text}, {kind(states)} parameters have a state after a step; expected {wanted[1]}."
        if not equal(counts, wanted[2]):
            return (
                f"with {text}, the states given to `rule` have counted "
                f"{listed(counts)} calls; expected {listed(wanted[2])}."
            )
        if kept is not True:
            return f"with {text}, a gradient that was None is none no longer."
    return None


def rule_keeps_states(got: Answers, expected: Answers) -> str | None:
    """Every parameter has its own state, which lives on."""
    if not equal(got.get("dicts"), expected["dicts"]):
        return f"{expected['dicts']} parameters have {kind(got.get('dicts'))} different dicts in `states` after a step."
    for name, text in (
        ("counts", "the states given to `rule` have counted"),
        ("held", "the states in `states` have counted"),
        ("of another", "with other `states`, the states given to `rule` have counted"),
    ):
        if not equal(got.get(name), expected[name]):
            return (
                f"in three steps, {text} {listed(got.get(name))} calls; expected {listed(expected[name])}. "
                f"One of the parameters had a state of {expected['before']} calls before."
            )
    if not equal(got.get("states"), expected["states"]):
        return f"`states` has {kind(got.get('states'))} entries; expected {expected['states']}."
    return None


def rule_without_autograd(got: Answers, expected: Answers) -> str | None:
    """Autograd is off in the rule, and as before afterwards."""
    count = len(expected["cases"])
    columns = [items_of(got, name, count) for name in ("during", "inference", "after", "raised", "calls")]
    for case, during, inference, after, raised, calls, right, wanted in zip(
        expected["cases"], *columns, expected["raised"], expected["calls"], strict=True
    ):
        if during is not False:
            return f"{case}: autograd is on while `rule` runs."
        if inference is not False:
            return f"{case}: `rule` runs in inference mode; expected torch.no_grad()."
        if after is not True:
            return f"{case}: afterwards autograd is no longer as it was before."
        if not equal(raised, right):
            return f"{case}: the call raises {kind(raised)}; expected {right}."
        if not equal(calls, wanted):
            return f"{case}: `rule` is called {kind(calls)} times; expected {wanted}."
    return None


# ---------------------------------------------------------------------------------------------------------------- Muon
def matrices_of_cases(got: Answers, expected: Answers) -> str | None:
    """The result of every case."""
    count = len(expected["cases"])
    columns = items_of(got, "forms", count), items_of(got, "results", count)
    for case, form, result, right_form, right in zip(
        expected["cases"], *columns, expected["forms"], expected["results"], strict=True
    ):
        if not equal(form, right_form):
            return f"{case}: the result is {kind(form)}; expected {right_form}."
        tolerance = {"float32": 1e-3, "bfloat16": 0.2}.get(right_form.split(" ")[0], TOLERANCE)
        if failure := tensor_failure(f"{case}: the result", result, right, tolerance):
            return failure
    return None


def matrix_kept(got: Answers, expected: Answers) -> str | None:
    """The argument stays, and shares no memory with the result."""
    count = len(expected["cases"])
    for case, kept, apart in zip(
        expected["cases"], items_of(got, "kept", count), items_of(got, "apart", count), strict=True
    ):
        if kept is not True:
            return f"{case}: `matrix` is changed, which is the caller's."
        if apart is not True:
            return f"{case}: the result shares memory with `matrix`: a later change of one changes the other."
    return None


def products_are_small(got: Answers, expected: Answers) -> str | None:
    """The products' FLOPs are those of the smaller side."""
    for case, small in zip(expected["cases"], items_of(got, "products", len(expected["cases"])), strict=True):
        if small is not True:
            return f"{case}: the products take more FLOPs than with X Xᵀ of the smaller side: transpose a tall matrix."
    return None


def lists_of_parameters(got: Answers, expected: Answers) -> str | None:
    """Both lists, for every model."""
    count = len(expected["all"])
    columns = [items_of(got, name, count) for name in ("type", "types", "muon", "adamw", "kept")]
    for form, types, muon, adamw, kept, *right in zip(
        *columns, expected["muon"], expected["adamw"], expected["all"], strict=True
    ):
        if not equal(form, "tuple") or not equal(types, ["list", "list"]):
            inside = f" of {listed(types)}" if equal(form, "tuple") else ""
            return f"the return value is of type {kind(form)}{inside}; expected a tuple of two lists."
        for name, names, wanted in (("Muon", muon, right[0]), ("AdamW", adamw, right[1])):
            if equal(names, wanted):
                continue
            given = [str(item) for item in names] if isinstance(names, list) else []
            if extra := [item for item in given if item not in wanted]:
                return f"{name} gets {listed(extra)}; expected {listed(wanted)} of the parameters {listed(right[2])}."
            if missing := [item for item in wanted if item not in given]:
                return f"{name} does not get {listed(missing)} of the parameters {listed(right[2])}."
            return f"{name} gets {listed(given)}; expected each once, in the model's order: {listed(wanted)}."
        if kept is not True:
            return "requires_grad of a parameter is changed."
    return None


# ------------------------------------------------------------------------------------------------- around the optimizer
def averaged(column: str, names: str, what: str) -> Judge:
    """The weights or the buffers of the average, after every update."""

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(expected["cases"])
        rows = zip(expected["cases"], items_of(got, column, count), expected[column], expected["forms"], strict=True)
        offset = len(expected["names"]) if column == "buffers" else 0
        for case, row, right, forms in rows:
            values = row if isinstance(row, list) and len(row) == len(right) else [None] * len(right)
            for place, (value, wanted) in enumerate(zip(values, right, strict=True)):
                subject = f"after update_average with {case}, {what} {expected[names][place]} of the average"
                form = forms[offset + place]
                whole = form.startswith(("int", "bool"))
                if failure := tensor_failure(subject, value, wanted, tolerance_of(form), whole):
                    return failure
        return None

    return judge


average_weights = averaged("weights", "names", "parameter")
average_buffers = averaged("buffers", "buffer names", "buffer")


def average_forms(got: Answers, expected: Answers) -> str | None:
    """Parameters and buffers of the average keep their dtypes."""
    names = [*expected["names"], *expected["buffer names"]]
    for row, right in zip(items_of(got, "forms", len(expected["cases"])), expected["forms"], strict=True):
        forms = row if isinstance(row, list) and len(row) == len(right) else [None] * len(right)
        for name, form, wanted in zip(names, forms, right, strict=True):
            if not equal(form, wanted):
                return f"{name} of the average is {kind(form)}; expected {wanted}."
    return None


def average_apart(got: Answers, expected: Answers) -> str | None:
    """The model stays as it is, the two share no memory, and no graph is built."""
    if not equal(got.get("model kept"), expected["model kept"]):
        return "`model` is changed; only `average` may be."
    if got.get("apart") is not True:
        return "a later change of `model` changes `average`: the two share memory."
    if not equal(got.get("graph"), expected["graph"]):
        return "a parameter of the average has a graph behind it."
    if got.get("requires") is not True:
        return "requires_grad of a parameter of the average is changed."
    return None if got.get("grad on") is True else "autograd is off after the call."


def units_clipped(got: Answers, expected: Answers) -> str | None:
    """The gradients after clipping."""
    count = len(expected["cases"])
    for number, gradient in enumerate(items_of(got, "gradients", count)):
        subject = f"{expected['cases'][number]}: the gradient"
        tolerance = tolerance_of(expected["forms"][number])
        if failure := tensor_failure(subject, gradient, expected["gradients"][number], tolerance):
            unchanged = equal(gradient, items_of(got, "before", count)[number])
            return f"{failure} It is as it was before." if unchanged else failure
    return None


def units_counted(got: Answers, expected: Answers) -> str | None:
    """The number of clipped units, as an int."""
    for form, count, right in zip(
        items_of(got, "types", len(expected["types"])),
        items_of(got, "counts", len(expected["types"])),
        expected["counts"],
        strict=True,
    ):
        if not equal(form, "int"):
            return f"the return value is of type {kind(form)}; expected an int, the number of units clipped."
        if not equal(count, right):
            return f"the function returns {kind(count)} clipped units; expected {right}."
    return None


def units_in_place(got: Answers, expected: Answers) -> str | None:
    """Gradients stay the same tensors, in their dtype; parameters stay."""
    count = len(expected["cases"])
    columns = [items_of(got, name, count) for name in ("forms", "same", "kept")]
    for case, form, same, kept, right in zip(expected["cases"], *columns, expected["forms"], strict=True):
        if not equal(form, right):
            return f"{case}: the gradient is then {kind(form)}; expected {right}."
        if same is not True:
            return f"{case}: `grad` is another tensor than before: multiply it in place."
        if kept is not True:
            return f"{case}: the parameter is changed; only its gradient may be."
    return None


def losses_of_test(got: Answers, expected: Answers) -> str | None:
    """The rates at which steps were taken, and the list of losses."""
    count = len(expected["seen"])
    columns = [items_of(got, name, count) for name in ("type", "types", "losses", "seen")]
    for form, types, losses, seen, *right in zip(
        *columns, expected["losses"], expected["seen"], expected["given"], strict=True
    ):
        steps = len(seen) if isinstance(seen, list) else 0
        rates = f"{len(right[2])} rates"
        given = ", ".join(f"{loss:.4g}" for loss in right[0])
        if steps != len(right[1]):
            return f"with {rates}, {steps} steps are taken; expected {len(right[1])}, with the losses {given}."
        for step, (row, wanted) in enumerate(zip(seen, right[1], strict=True), start=1):
            if not equal(row, wanted, 1e-12):
                return (
                    f"in step {step} of {rates}, the rates of the groups are {listed(row)}; expected {listed(wanted)}."
                )
        if not equal(form, "list"):
            return f"the return value is of type {kind(form)}; expected a list of losses."
        if not equal(losses, right[0], 1e-12):
            return f"with {rates}, the function returns the losses {listed(losses)}; expected {listed(right[0])}."
        if not equal(types, ["float"]):
            return f"the list holds {listed(types)}; expected Python floats."
    return None


def restored(*names: str) -> Judge:
    """These are as they were before the call, bit for bit."""
    subjects = {
        "parameters": "model's parameters",
        "buffers": "model's buffers",
        "modes": "modes (train or eval) of the model's layers",
        "state of the optimizer": "entries of the optimizer's state",
        "rates": "optimizer's rates",
    }

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(expected["seen"])
        for name in names:
            for same in items_of(got, f"same {name}", count):
                if same is not True:
                    return f"the {subjects[name]} after the call differ from those before it."
            for after, right in zip(items_of(got, name, count), expected[name], strict=True):
                if not equal(after, right, TOLERANCE):
                    return f"the {subjects[name]} after the call are not those of the probe's own training."
        for same in items_of(got, "same tensors", count):
            if same is not True:
                return "the model has other parameter tensors than before; the optimizer still holds the old ones."
        return None

    return judge


def error_passed_on(got: Answers, expected: Answers) -> str | None:
    """The error of the training step reaches the caller."""
    for raised, right in zip(items_of(got, "raised", len(expected["raised"])), expected["raised"], strict=True):
        if not equal(raised, right):
            return f"after an error in `train_step`, the caller gets {kind(raised)}; expected {right}."
    return None


def suggestions(got: Answers, expected: Answers) -> str | None:
    """The suggested rate of every curve."""
    count = len(expected["cases"])
    for case, rate, right, rates in zip(
        expected["cases"], items_of(got, "suggested", count), expected["suggested"], expected["rates"], strict=True
    ):
        if equal(rate, right, 1e-12):
            continue
        places = {number: place for place, number in enumerate(rates)}
        if type(rate) is float and rate in places and right is not None:
            return f"with {case}, the rate of step {places[rate]} is returned; expected that of step {places[right]}."
        wanted = "None" if right is None else f"{right:.6g}"
        return f"with {case}, {'None' if rate is None else kind(rate)} is returned; expected {wanted}."
    return None


# ----------------------------------------------------------------------------------------------------------- the search
def decisions(got: Answers, expected: Answers) -> str | None:
    """Every decision, as a bool."""
    count = len(expected["cases"])
    columns = [items_of(got, name, count) for name in ("pruned", "types", "kept")]
    for case, pruned, form, kept, right in zip(expected["cases"], *columns, expected["pruned"], strict=True):
        if not equal(pruned, right):
            return f"{case}. The result is {kind(pruned)}; expected {right}."
        if not (equal(form, "bool") or equal(form, "bool_")):
            return f"the return value is of type {kind(form)}; expected a bool."
        if kept is not True:
            return "a trial is changed."
    return None


def choices(*names: str) -> Judge:
    """The chosen parameters, by their rate, with mean and spread."""
    subjects = {"rates": "`lr` of the chosen parameters", "means": '"mean"', "spreads": '"spread"'}

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(expected["cases"])
        forms = items_of(got, "types", count), items_of(got, "names", count), items_of(got, "kept", count)
        for number, (case, form, keys, kept) in enumerate(zip(expected["cases"], *forms, strict=True)):
            if not equal(form, expected["types"][number]):
                return f"{case}: the return value is of type {kind(form)}; expected {expected['types'][number]}."
            if not equal(keys, expected["names"][number]):
                return f"{case}: the dict has {listed(keys)}; expected {listed(expected['names'][number])}."
            for name in names:
                value, right = items_of(got, name, count)[number], expected[name][number]
                if not equal(value, right, TOLERANCE):
                    return f"{case}: {subjects[name]} {mismatch_text(value, right)}"
            if not equal(other := items_of(got, "other entries", count)[number], []):
                return f'{case}: "parameters" is not the dict of a trial with all of its entries: {listed(other)}.'
            if kept is not True:
                return f"{case}: `trials` are changed."
        return None

    return judge


def check(name: str, says: str, points: int, probe: str, judge: Judge, *requires: str, **settings: Any) -> Check:
    return Check(name, says, points=points, probe=probe, judge=judge, requires=requires, **settings)


EXERCISES = (
    Exercise(
        name="sgd_step",
        functions=("sgd_step",),
        minutes=15,
        difficulty="easy",
        proves="you can write momentum, dampening and Nesterov's momentum as torch does",
        hints=(
            "Write the step without momentum first: a gradient with decay, then a change of the parameter in place. "
            "parameter -= ... changes the tensor; parameter = parameter - ... only makes another tensor.",
            "The first step stores g itself, without dampening. Store a copy: g may be the caller's own tensor, which "
            "will be overwritten.",
            'state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening). Nesterov adds momentum times the '
            "new buffer to g, which has the decay in it.",
        ),
        checks=(
            check("sgd_step/plain", "steps along the gradient without momentum", 2, "sgd_plain", is_step),
            check("sgd_step/decay", "adds the decay to the gradient", 1, "sgd_decay", is_step, "sgd_step/plain"),
            check(
                "sgd_step/momentum",
                "adds gradients up in a buffer, the decay among them",
                3,
                "sgd_momentum",
                is_step,
                "sgd_step/plain",
            ),
            check(
                "sgd_step/dampening",
                "dampens every gradient but the first",
                1,
                "sgd_dampening",
                is_step,
                "sgd_step/momentum",
            ),
            check(
                "sgd_step/nesterov",
                "looks ahead by the new buffer",
                2,
                "sgd_nesterov",
                is_step,
                "sgd_step/momentum",
            ),
            check(
                "sgd_step/state",
                "keeps the buffer in the state, in the parameter's dtype, and nothing without momentum",
                1,
                "sgd_state",
                whole_step,
                "sgd_step/momentum",
            ),
        ),
    ),
    Exercise(
        name="adam_step",
        functions=("adam_step",),
        minutes=20,
        difficulty="medium",
        proves="you can write Adam with its bias correction",
        hints=(
            "In the first step the state is empty: make m and v with torch.zeros_like(parameter), and t = 0.",
            "Raise t by 1 before the correction. m and v stay in the state without it: correcting makes new tensors.",
            "m.mul_(beta1).add_(g, alpha=1 - beta1); v.mul_(beta2).addcmul_(g, g, value=1 - beta2). eps is added to "
            "the root, not to v.",
        ),
        checks=(
            check("adam_step/first", "takes a first step with its bias corrected", 3, "adam_first", is_step),
            check(
                "adam_step/later",
                "keeps its averages and its count over steps",
                3,
                "adam_later",
                is_step,
                "adam_step/first",
            ),
            check(
                "adam_step/decay",
                "makes the decay a part of the gradient",
                2,
                "adam_decay",
                is_step,
                "adam_step/later",
            ),
            check(
                "adam_step/state",
                "keeps m, v and the count under torch's names, in the parameter's dtype",
                2,
                "adam_dtypes",
                whole_step,
                "adam_step/decay",
            ),
        ),
    ),
    Exercise(
        name="adamw_step",
        functions=("adamw_step",),
        minutes=10,
        difficulty="easy",
        proves="you can apply weight decay outside of Adam's averages",
        hints=(
            "Which line of adam_step mentions the decay? AdamW leaves it out, and has one line more at its beginning.",
            "parameter.mul_(1 - lr * weight_decay), then adam_step without a decay.",
        ),
        checks=(
            check(
                "adamw_step/none",
                "is Adam where the decay is 0",
                1,
                "adamw_without_decay",
                is_step,
                "adam_step/later",
            ),
            check(
                "adamw_step/decay",
                "first shrinks the parameter by lr * weight_decay",
                3,
                "adamw_decay",
                is_step,
                "adamw_step/none",
            ),
            check(
                "adamw_step/state",
                "keeps the decay out of m and v, and every dtype",
                2,
                "adamw_dtypes",
                whole_step,
                "adamw_step/none",
            ),
        ),
    ),
    Exercise(
        name="optimizer_step",
        functions=("optimizer_step",),
        minutes=15,
        difficulty="easy",
        proves="you can apply a rule to groups of parameters, each with its own settings and state",
        hints=(
            "Two loops: over the groups, and over group['params']. The settings are all entries of the group but that "
            "one.",
            "states.setdefault(parameter, {}) returns the parameter's dict, and stores an empty one first if there is "
            "none. Tensors as keys are compared by identity.",
            "with torch.no_grad(): puts the mode back by itself, after an error too.",
        ),
        checks=(
            check(
                "optimizer_step/calls",
                "calls the rule for each parameter with its gradient, in order",
                3,
                "rule_calls",
                rule_is_called,
            ),
            check(
                "optimizer_step/settings",
                "gives each parameter the settings of its own group",
                2,
                "rule_settings",
                rule_gets_settings,
                "optimizer_step/calls",
            ),
            check(
                "optimizer_step/none",
                "leaves out a gradient of None, and not a gradient of zeros",
                2,
                "rule_without_gradients",
                rule_skips_none,
                "optimizer_step/calls",
            ),
            check(
                "optimizer_step/state",
                "gives each parameter its own state, which lives on",
                2,
                "rule_states",
                rule_keeps_states,
                "optimizer_step/calls",
            ),
            check(
                "optimizer_step/autograd",
                "switches autograd off for the rule, and back afterwards",
                1,
                "rule_grad_mode",
                rule_without_autograd,
                "optimizer_step/calls",
            ),
        ),
    ),
    Exercise(
        name="newton_schulz",
        functions=("newton_schulz",),
        minutes=20,
        difficulty="medium",
        proves="you can bring all singular values of a matrix near 1 without computing them",
        hints=(
            "x = matrix / matrix.norm() makes every singular value at most 1. Then a loop of one line.",
            "With gram = x @ x.T, the step is x = a * x + (b * gram + c * gram @ gram) @ x: each product keeps the "
            "singular vectors.",
            "clamp(min=1e-7) keeps the division finite. For a tall matrix start with matrix.T, and return x.T.",
        ),
        checks=(
            check(
                "newton_schulz/square",
                "makes the singular values of square matrices nearly equal",
                3,
                "square_matrices",
                matrices_of_cases,
            ),
            check(
                "newton_schulz/steps",
                "takes as many steps as asked for",
                1,
                "numbers_of_steps",
                matrices_of_cases,
                "newton_schulz/square",
            ),
            check(
                "newton_schulz/rectangular",
                "takes wide and tall matrices",
                2,
                "wide_and_tall",
                matrices_of_cases,
                "newton_schulz/square",
            ),
            check(
                "newton_schulz/small-side",
                "multiplies along the smaller side",
                2,
                "small_side",
                all_of(matrices_of_cases, products_are_small),
                "newton_schulz/rectangular",
            ),
            check(
                "newton_schulz/zero",
                "leaves a matrix of zeros as it is",
                1,
                "zero_matrices",
                matrices_of_cases,
                "newton_schulz/rectangular",
            ),
            check(
                "newton_schulz/kept",
                "keeps the dtype, and the caller's matrix",
                1,
                "matrices_kept",
                all_of(matrices_of_cases, matrix_kept),
                "newton_schulz/rectangular",
            ),
        ),
    ),
    Exercise(
        name="muon_step",
        functions=("muon_step",),
        minutes=15,
        difficulty="medium",
        proves="you can write Muon, whose step does not depend on the size of the gradient",
        hints=(
            "The buffer is an average here, as Adam's m, but without correction: u.lerp_(gradient, 1 - momentum).",
            "Nesterov averages once more: gradient.lerp(u, momentum) is momentum * u + (1 - momentum) * gradient.",
            "The decay uses lr, the update lr * math.sqrt(max(1, n / m)): rows over columns.",
        ),
        checks=(
            check(
                "muon_step/first",
                "steps by the orthogonal matrix of the gradient",
                2,
                "muon_first",
                is_step,
                "newton_schulz/rectangular",
            ),
            check(
                "muon_step/momentum",
                "averages gradients in its buffer",
                2,
                "muon_plain",
                is_step,
                "newton_schulz/rectangular",
            ),
            check(
                "muon_step/nesterov",
                "looks ahead by the new buffer",
                2,
                "muon_nesterov",
                is_step,
                "muon_step/momentum",
            ),
            check(
                "muon_step/scaling",
                "scales the step by the shape of the matrix",
                1,
                "muon_scaling",
                is_step,
                "muon_step/nesterov",
            ),
            check(
                "muon_step/decay",
                "shrinks the parameter by the rate before scaling",
                2,
                "muon_decay",
                is_step,
                "muon_step/scaling",
            ),
            check(
                "muon_step/state",
                "keeps the buffer in the state, and every dtype",
                1,
                "muon_state",
                whole_step,
                "muon_step/decay",
            ),
        ),
    ),
    Exercise(
        name="muon_parameters",
        functions=("muon_parameters",),
        minutes=15,
        difficulty="medium",
        proves="you can tell hidden matrices from embeddings, head, norms and biases in any model",
        hints=(
            "model.modules() yields every layer, nested ones too. Collect what must not go to Muon first.",
            "isinstance(module, nn.Embedding) is true for subclasses as well. A set of parameters compares them by "
            "identity; model.parameters() yields a shared parameter once.",
            "A parameter goes to Muon if it is trained, has ndim == 2, and is in neither an embedding nor the head.",
        ),
        checks=(
            check(
                "muon_parameters/hidden",
                "gives Muon the hidden matrices, and AdamW all others",
                3,
                "hidden_matrices",
                lists_of_parameters,
            ),
            check(
                "muon_parameters/dimensions",
                "gives Muon parameters of exactly two dimensions, whatever layer owns them",
                2,
                "other_dimensions",
                lists_of_parameters,
                "muon_parameters/hidden",
            ),
            check(
                "muon_parameters/names",
                "decides by class and instance, not by name",
                2,
                "misleading_names",
                lists_of_parameters,
                "muon_parameters/hidden",
            ),
            check(
                "muon_parameters/shared",
                "has a shared parameter once, and never at Muon if an embedding or the head uses it",
                2,
                "shared_parameters",
                lists_of_parameters,
                "muon_parameters/hidden",
            ),
            check(
                "muon_parameters/frozen",
                "leaves out what is frozen",
                1,
                "frozen_parameters",
                lists_of_parameters,
                "muon_parameters/hidden",
            ),
        ),
    ),
    Exercise(
        name="update_average",
        functions=("update_average",),
        minutes=20,
        difficulty="medium",
        proves="you can average the weights of a model over its training, and know what must not be averaged",
        hints=(
            "zip(average.parameters(), model.parameters()) pairs the weights; parameters() yields a shared one once. "
            "Buffers have their own iterator.",
            "mean.lerp_(parameter, 1 - d) moves mean toward the parameter. Convert the parameter first: "
            "parameter.to(mean.dtype).",
            "Under torch.no_grad(): lerp_ for parameters, buffer.copy_(...) for buffers. state_dict() would list a "
            "shared weight twice, and leave out a buffer that is not saved.",
        ),
        checks=(
            check("update_average/weights", "averages the weights", 3, "average_late", average_weights),
            check(
                "update_average/warm-up",
                "keeps less in the first updates",
                2,
                "average_early",
                average_weights,
                "update_average/weights",
            ),
            check("update_average/buffers", "copies every buffer", 2, "average_late", average_buffers),
            check(
                "update_average/shared",
                "updates a shared weight once",
                1,
                "average_shared",
                average_weights,
                "update_average/weights",
            ),
            check(
                "update_average/dtypes",
                "averages weights of bfloat16 in float32",
                1,
                "average_in_half",
                all_of(average_weights, average_buffers, average_forms),
                "update_average/weights",
                "update_average/buffers",
            ),
            check(
                "update_average/apart",
                "leaves the model as it is, and shares nothing with it",
                1,
                "average_late",
                all_of(average_weights, average_apart),
                "update_average/weights",
                "update_average/buffers",
            ),
        ),
    ),
    Exercise(
        name="clip_adaptively",
        functions=("clip_adaptively",),
        minutes=20,
        difficulty="medium",
        proves="you can clip a gradient to a share of the size of its weights",
        hints=(
            "tensor.reshape(units, -1).norm(dim=1) is the norm of every unit; units is len(parameter), or 1 for a "
            "vector or a single number.",
            "limit = clipping * weight_norm.clamp(min=eps). Divide only where the norm is above the limit: "
            "torch.where chooses, and 0 / 0 is never chosen.",
            "grad.mul_(factor.view(-1, 1, 1, ...)) broadcasts one factor per unit, in place; the view has as many axes "
            "as the parameter.",
        ),
        checks=(
            check("clip_adaptively/rows", "clips each row of a matrix", 3, "units_of_matrices", units_clipped),
            check(
                "clip_adaptively/convolutions",
                "clips each output of a convolution",
                1,
                "units_of_convolutions",
                units_clipped,
                "clip_adaptively/rows",
            ),
            check("clip_adaptively/vectors", "takes a vector as one unit", 1, "units_of_vectors", units_clipped),
            check(
                "clip_adaptively/near-zero",
                "counts weights as eps large at least",
                2,
                "units_near_zero",
                units_clipped,
                "clip_adaptively/rows",
            ),
            check(
                "clip_adaptively/none",
                "bears gradients of None and of zeros",
                1,
                "units_without_gradients",
                units_clipped,
                "clip_adaptively/rows",
                "clip_adaptively/vectors",
            ),
            check(
                "clip_adaptively/count",
                "returns the number of units clipped",
                1,
                "units_of_matrices",
                all_of(units_clipped, units_counted),
                "clip_adaptively/rows",
            ),
            check(
                "clip_adaptively/in-place",
                "changes the gradient in place, in its dtype, and no parameter",
                1,
                "units_in_half",
                all_of(units_clipped, units_in_place),
                "clip_adaptively/rows",
                "clip_adaptively/vectors",
            ),
        ),
    ),
    Exercise(
        name="range_test",
        functions=("range_test",),
        minutes=20,
        difficulty="medium",
        proves="you can run an experiment on a model and leave no trace of it",
        hints=(
            "state_dict() returns the tensors themselves, not copies: later steps change them. copy.deepcopy makes "
            "copies.",
            "Set group['lr'] for each group in optimizer.param_groups. nan compares false with everything, so write "
            "the test such that nan ends the loop.",
            "try: the loop; finally: model.load_state_dict(...) and optimizer.load_state_dict(...) of the copies. The "
            "mode of a layer is its attribute `training`; model.modules() yields every layer.",
        ),
        checks=(
            check(
                "range_test/losses",
                "takes a step at every rate, and returns the losses",
                2,
                "range_test_of_all",
                losses_of_test,
            ),
            check(
                "range_test/stop",
                "ends after a loss above a multiple of the lowest",
                2,
                "range_test_stopped",
                losses_of_test,
                "range_test/losses",
            ),
            check(
                "range_test/not-finite",
                "ends after a loss that is not finite",
                1,
                "range_test_not_finite",
                losses_of_test,
                "range_test/losses",
            ),
            check(
                "range_test/model",
                "puts weights, buffers and modes back",
                2,
                "range_test_of_all",
                restored("parameters", "buffers", "modes"),
                "range_test/losses",
            ),
            check(
                "range_test/optimizer",
                "puts the optimizer's state and rates back",
                2,
                "range_test_of_all",
                restored("state of the optimizer", "rates"),
                "range_test/losses",
            ),
            check(
                "range_test/error",
                "puts everything back after an error too",
                1,
                "range_test_with_an_error",
                all_of(error_passed_on, restored("parameters", "buffers", "modes", "state of the optimizer", "rates")),
                "range_test/model",
                "range_test/optimizer",
            ),
        ),
    ),
    Exercise(
        name="suggested_rate",
        functions=("suggested_rate",),
        minutes=15,
        difficulty="medium",
        proves="you can choose a rate from a noisy curve",
        hints=(
            "Three passes: drop what follows a loss that is not finite, smooth, then look for the steepest trend.",
            "mean = smoothing * mean + (1 - smoothing) * loss; smooth.append(mean / (1 - smoothing ** k)). Without the "
            "division the curve would begin near 0.",
            "Trends exist for k in range(1, len(smooth) - 1), per math.log(rates[k + 1] / rates[k - 1]).",
        ),
        checks=(
            check("suggested_rate/steepest", "finds the steepest fall", 3, "suggested_plain", suggestions),
            check(
                "suggested_rate/factors",
                "counts the fall per factor of the rate",
                2,
                "suggested_uneven",
                suggestions,
                "suggested_rate/steepest",
            ),
            check(
                "suggested_rate/smoothing",
                "smooths with a corrected running mean",
                3,
                "suggested_smooth",
                suggestions,
                "suggested_rate/steepest",
            ),
            check(
                "suggested_rate/end",
                "leaves out what follows a loss that is not finite",
                1,
                "suggested_ends",
                suggestions,
                "suggested_rate/steepest",
            ),
            check(
                "suggested_rate/none",
                "returns None where nothing falls",
                1,
                "suggested_nothing",
                suggestions,
                "suggested_rate/steepest",
            ),
        ),
    ),
    Exercise(
        name="should_prune",
        functions=("should_prune",),
        minutes=20,
        difficulty="medium",
        proves="you can end a trial early without an unfair comparison",
        hints=(
            "Write the cases that return False first, in the order of the docstring. The last step is the largest key, "
            "not the last one written.",
            "Only complete trials that have a value at exactly that step take part; math.isnan finds NaN.",
            "Multiply all values by -1 to turn maximizing into minimizing. statistics.median takes the mean of the "
            "middle two.",
        ),
        checks=(
            check("should_prune/median", "prunes what is worse than the median", 3, "prune_by_median", decisions),
            check(
                "should_prune/best",
                "judges a trial by its best value so far",
                1,
                "prune_by_best",
                decisions,
                "should_prune/median",
            ),
            check(
                "should_prune/step",
                "compares with values of the same step alone",
                2,
                "prune_at_the_step",
                decisions,
                "should_prune/median",
            ),
            check(
                "should_prune/start",
                "waits for enough complete trials and steps",
                2,
                "prune_at_the_start",
                decisions,
                "should_prune/median",
            ),
            check(
                "should_prune/state",
                "compares with complete trials alone",
                1,
                "prune_by_state",
                decisions,
                "should_prune/median",
            ),
            check(
                "should_prune/direction",
                "takes larger values as better where asked",
                1,
                "prune_by_direction",
                decisions,
                "should_prune/median",
            ),
            check(
                "should_prune/nan",
                "takes NaN as no value",
                2,
                "prune_with_nan",
                decisions,
                "should_prune/median",
                "should_prune/direction",
            ),
        ),
    ),
    Exercise(
        name="best_configuration",
        functions=("best_configuration",),
        minutes=20,
        difficulty="medium",
        proves="you can compare configurations at one budget and on the same seeds",
        hints=(
            "Collect values in two levels: by parameters, then by seed. A dict is no key of a dict, but "
            "frozenset(parameters.items()) is.",
            "In order of their numbers, a later trial simply replaces an earlier one of the same parameters and seed. "
            "Decide first whether it counts.",
            "Take the parameters with a value for every seed; statistics.mean and statistics.stdev do the rest.",
        ),
        checks=(
            check(
                "best_configuration/mean",
                "chooses by the mean over seeds",
                3,
                "choice_by_mean",
                choices("rates", "means"),
            ),
            check(
                "best_configuration/spread",
                "tells the spread over seeds",
                1,
                "choice_by_mean",
                choices("spreads"),
                "best_configuration/mean",
            ),
            check(
                "best_configuration/seeds",
                "compares parameters that ran all seeds, on these alone",
                2,
                "choice_by_seeds",
                choices("rates", "means"),
                "best_configuration/mean",
            ),
            check(
                "best_configuration/budget",
                "compares values of one budget",
                2,
                "choice_by_budget",
                choices("rates", "means"),
                "best_configuration/mean",
            ),
            check(
                "best_configuration/state",
                "counts complete trials alone",
                1,
                "choice_by_state",
                choices("rates", "means"),
                "best_configuration/mean",
            ),
            check(
                "best_configuration/again",
                "counts the last of several trials with one seed",
                2,
                "choice_with_reruns",
                choices("rates", "means"),
                "best_configuration/mean",
                "best_configuration/seeds",
            ),
            check(
                "best_configuration/direction",
                "takes larger values as better where asked",
                1,
                "choice_by_direction",
                choices("rates", "means"),
                "best_configuration/mean",
            ),
            check(
                "best_configuration/nan",
                "chooses no value that is not finite, and nothing where nothing takes part",
                2,
                "choice_with_nan",
                choices("rates", "means"),
                "best_configuration/mean",
                "best_configuration/seeds",
                "best_configuration/direction",
            ),
        ),
    ),
)
