"""Probes of Lab 15: each calls the learner's code on random inputs, and returns its results as plain values.

A probe runs several cases; an answer is a list with an item per case. Most is computed in float64, where right
computations agree to about 1e-13.
"""

import copy
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from rankzero.exercises.probes.untrusted_values import (
    array,
    dict_items,
    in_training,
    is_tensor,
    kind_text,
    plain_number,
    tuple_items,
    type_name,
)

F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16
Shape = tuple[int, ...]
Settings = dict[str, Any]


def sizes(seed: int, count: int) -> list[int]:
    """Returns different sizes of axes, above 1."""
    return random.Random(seed).sample(range(2, 7), count)


def numbers(seed: int, shape: Shape, dtype: torch.dtype = F64) -> Tensor:
    """Returns random numbers of either sign that are not near 0."""
    draw = np.random.default_rng(seed)
    return torch.from_numpy(np.asarray(draw.uniform(0.4, 2, shape) * draw.choice((-1.0, 1.0), shape))).to(dtype)


def shown(number: Any) -> str:
    """Returns a setting's value as a text of few digits."""
    if isinstance(number, tuple):
        return "(" + ", ".join(map(shown, number)) + ")"
    return f"{number:.4g}" if type(number) is float else str(number)


def tensor_or_kind(value: Any) -> Any:
    """Returns a tensor's numbers as a float64 array; for anything else, its type as a text."""
    return array(value) if is_tensor(value) else kind_text(value)


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Returns a gradient that is there."""
    assert parameter.grad is not None
    return parameter.grad


def form(value: Any) -> str:
    """Returns dtype and shape of a tensor: 'float64 [2, 3]'; for anything else, its type."""
    return f"{str(value.dtype)[6:]} {list(value.shape)}" if is_tensor(value) else kind_text(value)


# ----------------------------------------------------------------------------------------------------------- the steps
Case = tuple[Shape, torch.dtype, Settings, int]  # shape, dtype, settings of the step function, number of steps


def steps_of(
    learner: ModuleType, name: str, cases: Sequence[Case], seed: int, zeros: Sequence[int] = ()
) -> dict[str, Any]:
    """Calls a step function several times on a parameter, whose gradient tensor is overwritten after each call.

    The gradient of a step in `zeros`, counted from 0, is 0 everywhere. In fp32 and bf16 gradients have the parameter's
    sign: numbers that cancel would leave too few digits to compare.
    """
    columns = ("cases", "start", "weights", "form", "kept", "names", "tensors", "forms", "step")
    answers: dict[str, Any] = {column: [] for column in columns}
    for number, (shape, dtype, settings, steps) in enumerate(cases):
        parameter = nn.Parameter(numbers(seed + 100 * number, shape, dtype))
        gradients = [numbers(seed + 100 * number + step + 1, shape, dtype) for step in range(steps)]
        if dtype != F64:
            gradients = [gradient.abs() * parameter.detach().sign() for gradient in gradients]
        for step in zeros:
            gradients[step] = torch.zeros_like(parameter.detach())
        answers["cases"].append(_case_text(name, parameter, gradients, settings))
        answers["start"].append(array(parameter))
        state: dict[str, Any] = {}
        weights, kept = [], True
        for gradient in gradients:
            given = gradient.clone()
            with torch.no_grad():
                getattr(learner, name)(parameter, given, state, **settings)
            kept = kept and torch.equal(given, gradient)
            given.fill_(7.0)
            weights.append(array(parameter))
        held = dict_items(state) or {}
        answers["weights"].append(weights)
        answers["form"].append(form(parameter))
        answers["kept"].append(kept)
        answers["names"].append(sorted(str(key) if type(key) is str else kind_text(key) for key in held))
        tensors = {key: value for key, value in sorted(held.items(), key=str) if key != "step"}
        answers["tensors"].append([tensor_or_kind(value) for value in tensors.values()])
        answers["forms"].append([form(value) for value in tensors.values()])
        answers["step"].append([type_name(held["step"]), plain_number(held["step"])] if "step" in held else [])
    return answers


def _case_text(name: str, parameter: Tensor, gradients: Sequence[Tensor], settings: Settings) -> str:
    values = ", ".join(f"{key}={shown(value)}" for key, value in settings.items())
    what = form(parameter)
    if parameter.numel() == 1:  # a case to do by hand
        rows = ", ".join(f"{gradient.item():.6f}" for gradient in gradients)
        what += f" that is {parameter.item():.6f}, gradients {rows}"
    return f"{name}({values}) of {what}"


def shapes(seed: int) -> list[Shape]:
    """A number, a vector, a matrix, and the weight of a convolution, in random order."""
    n, m, k = sizes(seed, 3)
    kinds: list[Shape] = [(1,), (n,), (n, m), (m, k, 2, 2)]
    random.Random(seed).shuffle(kinds)
    return kinds


def rate(draw: random.Random) -> float:
    return draw.uniform(0.02, 0.2)


def sgd(learner: ModuleType, seed: int, make: Callable[[random.Random], Settings], steps: int = 3) -> dict[str, Any]:
    draw = random.Random(seed)
    cases = [(shape, F64, {"lr": rate(draw)} | make(draw), steps) for shape in ((), *shapes(seed)[:3])]
    return steps_of(learner, "sgd_step", cases, seed, zeros=(1,) if steps > 2 else ())


def sgd_plain(learner: ModuleType, seed: int) -> dict[str, Any]:
    return sgd(learner, seed, lambda draw: {})


def sgd_decay(learner: ModuleType, seed: int) -> dict[str, Any]:
    return sgd(learner, seed, lambda draw: {"weight_decay": draw.uniform(0.1, 1)})


def sgd_momentum(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With momentum; then with momentum and decay."""

    def make(draw: random.Random) -> Settings:
        return {"momentum": draw.uniform(0.4, 0.95)}

    plain = sgd(learner, seed, make, 4)
    both = sgd(learner, seed + 7, lambda draw: make(draw) | {"weight_decay": draw.uniform(0.1, 1)}, 4)
    return {name: plain[name] + both[name] for name in plain}


def sgd_dampening(learner: ModuleType, seed: int) -> dict[str, Any]:
    return sgd(learner, seed, lambda draw: {"momentum": draw.uniform(0.4, 0.95), "dampening": draw.uniform(0.1, 0.9)})


def sgd_nesterov(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Nesterov's momentum; then with decay."""

    def make(draw: random.Random) -> Settings:
        return {"momentum": draw.uniform(0.4, 0.95), "nesterov": True}

    plain = sgd(learner, seed, make, 4)
    both = sgd(learner, seed + 7, lambda draw: make(draw) | {"weight_decay": draw.uniform(0.1, 1)}, 4)
    return {name: plain[name] + both[name] for name in plain}


def sgd_state(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With and without momentum, in three dtypes."""
    draw, kinds = random.Random(seed), shapes(seed)
    settings = {"momentum": 0.5, "weight_decay": draw.uniform(0.1, 0.5), "lr": rate(draw)}
    cases: list[Case] = [
        (kinds[0], F64, settings, 1),
        (kinds[0], F64, settings | {"weight_decay": 0.0}, 3),
        (kinds[1], F32, settings, 3),
        (kinds[2], BF16, settings, 3),
        (kinds[3], F64, {"lr": rate(draw)}, 2),
    ]
    return steps_of(learner, "sgd_step", cases, seed)


def adam(
    learner: ModuleType,
    seed: int,
    steps: int,
    name: str = "adam_step",
    decay: bool = False,
    dtypes: Sequence[torch.dtype] = (F64,),
    zeros: Sequence[int] = (),
) -> dict[str, Any]:
    """Random betas, and an eps that shows."""
    draw, cases = random.Random(seed), []
    for number, shape in enumerate(((), *shapes(seed)[:3])):
        settings = {
            "lr": rate(draw),
            "betas": (draw.uniform(0.3, 0.9), draw.uniform(0.5, 0.99)),
            "eps": draw.uniform(0.05, 0.3),
        }
        if decay or name == "adamw_step":
            settings["weight_decay"] = draw.uniform(0.2, 1) if decay else 0.0
        cases.append((shape, dtypes[number % len(dtypes)], settings, steps))
    return steps_of(learner, name, cases, seed, zeros)


def adam_first(learner: ModuleType, seed: int) -> dict[str, Any]:
    return adam(learner, seed, 1)


def adam_later(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Five steps, the third with a gradient of zeros; then two steps with torch's defaults."""
    answers = adam(learner, seed, 5, zeros=(2,))
    defaults = steps_of(learner, "adam_step", [(shape, F64, {"lr": 0.1}, 2) for shape in shapes(seed)[:2]], seed)
    return {name: answers[name] + defaults[name] for name in answers}


def adam_decay(learner: ModuleType, seed: int) -> dict[str, Any]:
    return adam(learner, seed, 3, decay=True)


def adam_dtypes(learner: ModuleType, seed: int) -> dict[str, Any]:
    return adam(learner, seed, 3, decay=True, dtypes=(F64, F32, BF16, F32))


def adamw_without_decay(learner: ModuleType, seed: int) -> dict[str, Any]:
    return adam(learner, seed, 3, "adamw_step")


def adamw_decay(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With decay; then with the default decay."""
    answers = adam(learner, seed, 3, "adamw_step", decay=True, zeros=(1,))
    default = steps_of(learner, "adamw_step", [(shapes(seed)[0], F64, {"lr": 0.2}, 2)], seed)
    return {name: answers[name] + default[name] for name in answers}


def adamw_dtypes(learner: ModuleType, seed: int) -> dict[str, Any]:
    return adam(learner, seed, 3, "adamw_step", decay=True, dtypes=(F32, BF16, F64, BF16))


# ----------------------------------------------------------------------------------------------- the step of all groups
class Rule:
    """A step function that notes its calls: it counts in the state, and adds the gradient to the parameter."""

    def __init__(self, parameters: Sequence[nn.Parameter], fails_at: int = -1, number: int = 0) -> None:
        self.place = {id(parameter): place for place, parameter in enumerate(parameters)}
        self.calls: list[list[Any]] = []
        self.settings: list[list[Any]] = []
        self.given: list[Any] = []
        self.dicts: list[Any] = []
        self.grad_on: list[bool] = []
        self.inference: list[bool] = []
        self.fails_at, self.number = fails_at, number

    def __call__(self, parameter: Any, gradient: Any, state: Any, **settings: Any) -> None:
        if len(self.calls) == self.fails_at:
            raise ArithmeticError(self.number)
        before = dict_items(state)
        self.calls.append([self.place.get(id(parameter), -1), -1 if before is None else before.get("count", 0)])
        self.given.append(tensor_or_kind(gradient))
        self.settings.append([f"{name}={shown(value)}" for name, value in sorted(settings.items())])
        self.dicts.append(state)
        self.grad_on.append(torch.is_grad_enabled())
        self.inference.append(torch.is_inference_mode_enabled())
        if before is not None:
            state["count"] = before.get("count", 0) + 1
        with torch.no_grad():
            parameter.add_(gradient)


def new_groups(seed: int, gradients: str = "all") -> tuple[list[dict[str, Any]], list[nn.Parameter]]:
    """Groups with settings of their own, and all their parameters. `gradients`: all, some, zeros or frozen for some."""
    draw = random.Random(seed)
    groups: list[dict[str, Any]] = []
    parameters: list[nn.Parameter] = []
    for number in range(draw.choice((2, 3))):
        kinds = shapes(seed + number)[: draw.choice((2, 3))]
        # Equal numbers in all parameters of one shape: only their identity tells them apart.
        if not number:
            kinds.insert(draw.randrange(len(kinds) + 1), ())  # a single number
        own = [nn.Parameter(torch.ones(shape, dtype=draw.choice((F64, F32)))) for shape in kinds]
        entries: list[tuple[str, Any]] = [("params", own), ("lr", rate(draw))]
        if number % 2:
            entries.append(("weight_decay", draw.uniform(0, 1)))
        else:
            entries.append(("betas", (draw.uniform(0, 1), 0.5)))
        draw.shuffle(entries)
        groups.append(dict(entries))
        parameters += own
    for place, parameter in enumerate(parameters):
        parameter.grad = numbers(seed + place, tuple(parameter.shape), parameter.dtype)
    if gradients == "frozen":
        for place in draw.sample(range(len(parameters)), 2):
            parameters[place].requires_grad_(False)
    elif gradients != "all":
        for place in draw.sample(range(len(parameters)), 2):
            parameters[place].grad = None if gradients == "some" else torch.zeros_like(parameters[place])
    return groups, parameters


def rule_calls(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two steps, with other gradients in the second."""
    groups, parameters = new_groups(seed)
    rule, states = Rule(parameters), dict[Any, Any]()
    gradients, lost = [gradient_of(parameter) for parameter in parameters], []
    for step in range(2):
        learner.optimizer_step(groups, states, rule)
        lost += [parameter.grad is None for parameter in parameters]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient * (2 + step)
    return {
        "lost": any(lost),
        "calls": [place for place, _ in rule.calls],
        "given": rule.given,
        "weights": [array(parameter) for parameter in parameters],
        "parameters": [form(parameter) for parameter in parameters],
    }


def rule_settings(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two steps, with another rate in the second; what is left of the groups."""
    groups, parameters = new_groups(seed)
    rule, states = Rule(parameters), dict[Any, Any]()
    before = [list(group) for group in groups]
    learner.optimizer_step(groups, states, rule)
    kept = [list(group) for group in groups] == before
    whole = [group["params"] for group in groups if "params" in group]
    kept = kept and sum(map(len, whole)) == len(parameters)
    if kept:
        groups[0]["lr"] = groups[0]["lr"] / 10
        learner.optimizer_step(groups, states, rule)
    return {"settings": rule.settings, "kept": kept}


def rule_without_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """In the first step some gradients are None, are zeros, or belong to frozen parameters; then all are there."""
    answers: dict[str, Any] = {"calls": [], "states": [], "counts": [], "none kept": []}
    for number, kind in enumerate(("some", "zeros", "frozen")):
        groups, parameters = new_groups(seed + number, kind)
        missing = [parameter.grad is None for parameter in parameters]
        rule, states = Rule(parameters), dict[Any, Any]()
        learner.optimizer_step(groups, states, rule)
        answers["none kept"].append(missing == [parameter.grad is None for parameter in parameters])
        answers["states"].append(len(states))
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        learner.optimizer_step(groups, states, rule)
        answers["calls"].append([place for place, _ in rule.calls])
        answers["counts"].append([count for _, count in rule.calls])
    return answers


def rule_states(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three steps, after a restart that has given one parameter a state; then another optimizer with no states."""
    groups, parameters = new_groups(seed)
    resumed = random.Random(seed).randrange(len(parameters))
    rule = Rule(parameters)
    before = random.Random(seed).randrange(10, 10**6)
    states: dict[Any, Any] = {parameters[resumed]: {"count": before}}
    for _ in range(3):
        learner.optimizer_step(groups, states, rule)
    own = [states.get(parameter) for parameter in parameters]
    dicts = {id(state) for state in own if type(state) is dict}
    counts = [count for _, count in rule.calls]
    second = Rule(parameters)
    learner.optimizer_step(groups, {}, second)
    return {
        "counts": counts,
        "held": [state.get("count", -1) if type(state) is dict else kind_text(state) for state in own],
        "dicts": len(dicts),
        "states": len(states),
        "of another": [count for _, count in second.calls],
        "before": before,
    }


def rule_grad_mode(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With autograd on and off before; without an error and with one in the middle."""
    answers: dict[str, Any] = {"cases": [], "during": [], "inference": [], "after": [], "raised": [], "calls": []}
    for before in (True, False):
        for fails in (False, True):
            groups, parameters = new_groups(seed)
            fails_at = random.Random(seed).randrange(1, len(parameters)) if fails else -1
            rule = Rule(parameters, fails_at, random.Random(seed).randrange(10**6))
            raised = "nothing"
            with torch.set_grad_enabled(before):
                try:
                    learner.optimizer_step(groups, {}, rule)
                except ArithmeticError as error:
                    raised = f"the rule's error {error}"
                answers["after"].append(torch.is_grad_enabled() == before)
            answers["cases"].append(
                f"with autograd {'on' if before else 'off'} before{' and an error in `rule`' if fails else ''}"
            )
            answers["during"].append(any(rule.grad_on))
            answers["inference"].append(any(rule.inference))
            answers["raised"].append(raised)
            answers["calls"].append(len(rule.calls))
    return answers


# ---------------------------------------------------------------------------------------------------------------- Muon
def matrices(learner: ModuleType, seed: int, cases: Sequence[tuple[Shape, torch.dtype, int | None]]) -> dict[str, Any]:
    """Orthogonalizes a random matrix per case; steps of None leave the argument out."""
    columns = ("cases", "results", "forms", "kept", "apart", "products")
    answers: dict[str, Any] = {column: [] for column in columns}
    for number, (shape, dtype, steps) in enumerate(cases):
        matrix = (numbers(seed + 10 * number, shape) * 10 ** random.Random(seed + number).uniform(-2, 2)).to(dtype)
        given = matrix.clone()
        with FlopCounterMode(display=False) as counter:
            result = learner.newton_schulz(given, *([] if steps is None else [steps]))
        answers["cases"].append(f"newton_schulz of a {form(matrix)} matrix in {5 if steps is None else steps} steps")
        answers["results"].append(tensor_or_kind(result))
        answers["forms"].append(form(result))
        answers["kept"].append(torch.equal(given, matrix))
        if is_tensor(result) and tuple(result.shape) == shape:
            given.add_(1)
            answers["apart"].append(bool(np.array_equal(array(result), answers["results"][-1])))
        else:
            answers["apart"].append(True)
        small, large = sorted(shape)
        most = (5 if steps is None else steps) * 8 * small * small * large  # of any order of the products
        answers["products"].append(bool(counter.get_total_flops() <= most))
    return answers


def square_matrices(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return matrices(learner, seed, [((1, 1), F64, None), ((n, n), F64, None), ((m, m), F64, None)])


def numbers_of_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, _ = sizes(seed, 2)
    return matrices(learner, seed, [((n, n), F64, steps) for steps in (0, 1, 2, 6)])


def wide_and_tall(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return matrices(
        learner, seed, [((n, n + m), F64, None), ((n + m, n), F64, None), ((1, n), F64, None), ((m, 1), F64, None)]
    )


def small_side(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return matrices(learner, seed, [((6 * n, m), F64, None), ((m, 6 * n), F64, None), ((n, n), F64, None)])


def matrices_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return matrices(
        learner, seed, [((n, m), F32, None), ((m, n), BF16, None), ((n, n), F64, None), ((m, n), F64, None)]
    )


def zero_matrices(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Matrices of zeros, and a matrix whose norm is below 1e-7."""
    n, m = sizes(seed, 2)
    answers: dict[str, Any] = {"cases": [], "results": [], "forms": []}
    for factor in (0.0, 0.0, 1e-9):
        n, m = m, n
        result = learner.newton_schulz(numbers(seed, (n, m)) * factor)
        what = "of zeros" if not factor else "of norm below 1e-7"
        answers["cases"].append(f"newton_schulz of a float64 [{n}, {m}] matrix {what}")
        answers["results"].append(tensor_or_kind(result))
        answers["forms"].append(form(result))
    return answers


def muon(learner: ModuleType, seed: int, kinds: Sequence[Shape], count: int = 3, **fixed: Any) -> dict[str, Any]:
    draw, cases = random.Random(seed), []
    for shape in kinds:
        settings = {"lr": rate(draw), "momentum": draw.uniform(0.3, 0.95), "weight_decay": 0.0, "steps": 2} | fixed
        cases.append((shape, F64, settings, count))
    return steps_of(learner, "muon_step", cases, seed)


def muon_first(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step on square matrices, in 1 to 5 Newton-Schulz steps."""
    n, m = sizes(seed, 2)
    answers = muon(learner, seed, [(1, 1), (n, n)], 1)
    more = muon(learner, seed + 1, [(m, m)], 1, steps=random.Random(seed).choice((1, 3, 4)))
    default = steps_of(learner, "muon_step", [((n, n), F64, {"lr": 0.1, "weight_decay": 0.0}, 1)], seed)
    return {name: answers[name] + more[name] + default[name] for name in answers}


def muon_plain(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return muon(learner, seed, [(n, n), (m, m)], nesterov=False)


def muon_nesterov(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return muon(learner, seed, [(n, n), (m, m)], nesterov=True)


def muon_scaling(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    return muon(learner, seed, [(n + m, n), (n, n + m), (m, 1)], 2)


def muon_decay(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    answers = muon(learner, seed, [(n + m, n), (m, m)], 2, weight_decay=random.Random(seed).uniform(0.2, 1))
    default = steps_of(learner, "muon_step", [((m, n), F64, {"lr": 0.1}, 1)], seed)
    return {name: answers[name] + default[name] for name in answers}


def muon_state(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    settings = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.5, "steps": 2}
    cases: list[Case] = [((n, m), F64, settings, 1), ((m, n), F32, settings, 2), ((m, m), BF16, settings, 2)]
    cases.append(((n, n), F64, settings | {"nesterov": False}, 3))
    return steps_of(learner, "muon_step", cases, seed)


class Position(nn.Module):
    """A layer with a matrix of its own, which belongs to no layer of torch."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, m))
        self.bias = nn.Parameter(torch.randn(1, 1, m))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table + self.bias


class SmallEmbedding(nn.Embedding):
    """A subclass of nn.Embedding."""


def chosen(learner: ModuleType, model: nn.Module, head: nn.Module) -> dict[str, Any]:
    """The names of the parameters in both lists; a foreign object is named by its type."""
    name = {id(parameter): name for name, parameter in model.named_parameters()}
    before = [parameter.requires_grad for parameter in model.parameters()]
    result = learner.muon_parameters(model, head)
    lists = tuple_items(result, 2)
    whole = lists is not None and all(type(items) is list for items in lists)
    answers: dict[str, Any] = {"type": type_name(result), "types": [type_name(items) for items in lists or ()]}
    answers["muon"], answers["adamw"] = (
        [[name.get(id(item), kind_text(item)) for item in items] for items in lists] if lists and whole else ([], [])
    )
    answers["all"] = list(name.values())
    answers["kept"] = before == [parameter.requires_grad for parameter in model.parameters()]
    return answers


def together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def sequence(seed: int, layers: Sequence[nn.Module]) -> nn.Sequential:
    """Returns the layers one after the other, under random names."""
    draw = random.Random(seed)
    return nn.Sequential(OrderedDict((f"{place}_{draw.randrange(1000)}", each) for place, each in enumerate(layers)))


def hidden_matrices(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Embedding, hidden layers with and without bias, head: at a random depth."""
    rows = []
    for number in range(2):
        draw, (n, m) = random.Random(seed + number), sizes(seed + number, 2)
        layers: list[nn.Module] = [nn.Embedding(9, n)]
        for _ in range(draw.randrange(2, 4)):
            layers += [nn.Linear(n, m, bias=draw.random() < 0.5), nn.Linear(m, n)]
        head = nn.Linear(n, 9, bias=bool(number))
        rows.append(chosen(learner, sequence(seed, [sequence(seed + number, layers), head]), head))
    return together(rows)


def other_dimensions(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Convolutions, norms, biases, and a matrix that no layer of torch owns."""
    n, m = sizes(seed, 2)
    head = nn.Linear(m, 3)
    layers: list[nn.Module] = [nn.Conv1d(n, m, 3), nn.LayerNorm(n), Position(n, m), nn.Conv2d(n, m, 1), nn.Linear(m, n)]
    random.Random(seed).shuffle(layers)
    layers.append(nn.BatchNorm1d(n))
    return together([chosen(learner, sequence(seed, [*layers, head]), head)])


def misleading_names(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Layers whose names say something else; a head that is a block of layers; embeddings within layers."""
    n, m = sizes(seed, 2)
    head = nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 5))
    inner = {"weights": SmallEmbedding(4, n), "head": nn.Linear(n, m), "lm_head": nn.Linear(m, n)}
    outer = {"mlp": nn.Embedding(7, n), "embedding": nn.Linear(n, n), "projection": head, "norm": nn.Linear(n, m)}
    number = random.Random(seed).randrange(1000)
    model = nn.ModuleDict({f"{name}{number}": layer for name, layer in outer.items()})
    model["block"] = nn.ModuleDict({f"{name}{number}": layer for name, layer in inner.items()})
    return together([chosen(learner, model, head)])


def shared_parameters(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A head and a hidden layer that share the embedding's matrix; two hidden layers that share one."""
    n, m = sizes(seed, 2)
    rows = []
    for number in range(3):
        embedding, head = nn.Embedding(6, n), nn.Linear(n, 6)
        first, second = nn.Linear(n, n), nn.Linear(n, n)
        if number == 0:
            head.weight = embedding.weight
        if number == 1:
            second.weight = first.weight
        if number == 2:
            square = nn.Embedding(n, n)
            first.weight = square.weight
            embedding = square
        order = [first, embedding, nn.Linear(n, m), second] if seed % 2 else [embedding, first, second, nn.Linear(m, n)]
        rows.append(chosen(learner, sequence(seed, [*order, head]), head))
    return together(rows)


def frozen_parameters(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    head = nn.Linear(n, 4)
    layers = [nn.Embedding(5, n), nn.Linear(n, m), nn.Linear(m, n), nn.LayerNorm(n), nn.Linear(n, n), head]
    draw = random.Random(seed)
    for layer in (0, draw.choice((1, 2)), draw.choice((3, 4))):
        layers[layer].requires_grad_(False)
    head.bias.requires_grad_(False)
    return together([chosen(learner, sequence(seed, layers), head)])


# ------------------------------------------------------------------------------------------------- around the optimizer
class Averaged(nn.Module):
    """A model with a frozen layer, and buffers of floats, integers and booleans, one of which is not saved."""

    def __init__(self, seed: int, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(seed)
        n, m = sizes(seed, 2)
        self.first, self.second = nn.Linear(n, m), nn.Linear(m, n)
        self.third = nn.Linear(n, m, bias=False)
        self.third.requires_grad_(False)
        self.norm = nn.BatchNorm1d(m)
        self.register_buffer("mask", torch.rand(n) < 0.5)
        self.register_buffer("positions", torch.randn(n), persistent=False)
        if shared:
            self.third.weight = self.first.weight

    def change(self, seed: int) -> None:
        """Gives all weights and buffers new numbers, as training would."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
            for buffer in self.buffers():
                if buffer.dtype == torch.bool:
                    buffer.logical_not_()
                elif buffer.dtype == torch.int64:
                    buffer.add_(int(torch.randint(50, 1000, (), generator=generator)))
                else:
                    buffer.copy_(torch.randn(buffer.shape, generator=generator))


def averages(
    learner: ModuleType,
    seed: int,
    steps: Sequence[tuple[int, float | None]],
    dtypes: tuple[torch.dtype, torch.dtype] = (F64, F64),
    shared: bool = False,
) -> dict[str, Any]:
    """Updates an average several times; `steps` has the arguments `step` and `decay`, None for its default."""
    model = Averaged(seed, shared).to(dtypes[1])
    average = copy.deepcopy(model).to(dtypes[0])
    requires = [parameter.requires_grad for parameter in average.parameters()]
    answers: dict[str, Any] = {"cases": [], "weights": [], "buffers": [], "forms": [], "model kept": []}
    for number, (step, decay) in enumerate(steps):
        model.change(seed + number)
        kept = copy.deepcopy(model)
        learner.update_average(average, model, step, *([] if decay is None else [decay]))
        answers["model kept"].append(_same_numbers(model, kept))
        answers["cases"].append(f"step={step}, decay={0.999 if decay is None else decay:.4g}")
        answers["weights"].append([tensor_or_kind(p) for p in average.parameters()])
        answers["buffers"].append([tensor_or_kind(b) for b in average.buffers()])
        answers["forms"].append([form(tensor) for tensor in (*average.parameters(), *average.buffers())])
    before = copy.deepcopy(average)
    model.change(seed + 1000)
    names = [name for name, _ in average.named_parameters()], [name for name, _ in average.named_buffers()]
    return answers | {
        "names": names[0],
        "buffer names": names[1],
        "apart": _same_numbers(average, before),
        "graph": [parameter.grad_fn is not None for parameter in average.parameters()],
        "requires": requires == [parameter.requires_grad for parameter in average.parameters()],
        "grad on": torch.is_grad_enabled(),
    }


def _same_numbers(model: nn.Module, other: nn.Module) -> bool:
    pairs = zip((*model.parameters(), *model.buffers()), (*other.parameters(), *other.buffers()), strict=True)
    return all(is_tensor(one) and torch.equal(one, two) for one, two in pairs)


def average_late(learner: ModuleType, seed: int) -> dict[str, Any]:
    """So late that the decay is whole."""
    draw = random.Random(seed)
    return averages(learner, seed, [(draw.randrange(10**5, 10**6), draw.uniform(0.2, 0.95)) for _ in range(2)])


def average_early(learner: ModuleType, seed: int) -> dict[str, Any]:
    """In the first updates, and where the two shares cross."""
    draw = random.Random(seed)
    steps: list[tuple[int, float | None]] = [(0, None), (1, None), (draw.randrange(2, 60), None)]
    return averages(learner, seed, [*steps, (draw.randrange(5, 9), 0.5), (draw.randrange(10, 40), 0.5)])


def average_in_half(learner: ModuleType, seed: int) -> dict[str, Any]:
    """An average in float32 of a model in bfloat16: updates too small for bfloat16, and a large one."""
    large = random.Random(seed).uniform(0.2, 0.6)
    return averages(learner, seed, [*[(10**5, 0.999)] * 3, (10**5, large)], (F32, BF16))


def average_shared(learner: ModuleType, seed: int) -> dict[str, Any]:
    return averages(learner, seed, [(10**5, random.Random(seed).uniform(0.2, 0.9))] * 2, shared=True)


def unit_case(seed: int, shape: Shape, dtype: torch.dtype = F64, share: float = 1.0) -> nn.Parameter:
    """A parameter whose units have gradients from far below to above their weights."""
    parameter = nn.Parameter(numbers(seed, shape, dtype))
    factors = torch.ones(shape, dtype=F64)
    if len(shape) > 1:
        spread = np.random.default_rng(seed).permutation(np.geomspace(0.05, 4, shape[0]))
        factors = torch.from_numpy(spread).view(-1, *[1] * (len(shape) - 1))
    parameter.grad = (numbers(seed + 1, shape) * factors * share).to(dtype)
    return parameter


def clipped(learner: ModuleType, parameters: Sequence[nn.Parameter], *settings: Any) -> dict[str, Any]:
    """Clips the gradients of parameters, given as a generator, and answers what became of them."""
    weights = [parameter.detach().clone() for parameter in parameters]
    tensors = [parameter.grad for parameter in parameters]
    before = [None if grad is None else array(grad) for grad in tensors]
    count = learner.clip_adaptively((parameter for parameter in parameters), *settings)
    values = [] if not settings else [f"clipping={shown(settings[0])}", *(f"eps={shown(eps)}" for eps in settings[1:])]
    return {
        "cases": [f"clip_adaptively({', '.join(values)}) of {form(parameter)}" for parameter in parameters],
        "before": before,
        "gradients": [None if parameter.grad is None else tensor_or_kind(parameter.grad) for parameter in parameters],
        "forms": [form(parameter.grad) if parameter.grad is not None else "None" for parameter in parameters],
        "same": [parameter.grad is grad for parameter, grad in zip(parameters, tensors, strict=True)],
        "kept": [torch.equal(parameter, weight) for parameter, weight in zip(parameters, weights, strict=True)],
        "types": [type_name(count)],
        "counts": [plain_number(count)],
    }


def units_of_matrices(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    parameters = [unit_case(seed + place, shape) for place, shape in enumerate(((n, m), (m, n), (n, n), (m, 1)))]
    return clipped(learner, parameters, random.Random(seed).uniform(0.3, 0.8))


def units_of_convolutions(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = sizes(seed, 3)
    kinds: list[Shape] = [(n, m, 3, 2), (k, n, 2), (1, m, 2, 2)]
    return clipped(learner, [unit_case(seed + place, shape) for place, shape in enumerate(kinds)], 0.4)


def units_of_vectors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Vectors and single numbers, above and below the limit."""
    n, m = sizes(seed, 2)
    kinds: list[Shape] = [(n,), (m,), (), (1,), (n,)]
    parameters = [unit_case(seed + place, shape, share=(3, 0.05)[place % 2]) for place, shape in enumerate(kinds)]
    for parameter in parameters[:2]:
        gradient_of(parameter)[0] *= 4  # a limit per number would clip this one alone
    return clipped(learner, parameters, random.Random(seed).uniform(0.3, 0.8))


def units_near_zero(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Weights of zero, and below eps; with another eps, and with the defaults."""
    n, m = sizes(seed, 2)
    answers: dict[str, Any] = {}
    for settings in ((0.5, random.Random(seed).uniform(0.1, 0.3)), ()):
        parameters = [unit_case(seed + place, (n, m)) for place in range(2)]
        with torch.no_grad():
            parameters[0].zero_()
            parameters[1][0] *= 1e-5
            row = gradient_of(parameters[1])[0]
            row *= 0.07 / row.norm()  # above its limit, and below the first eps
        gradient_of(parameters[1])[-1] *= 1e-6
        rows = clipped(learner, parameters, *settings)
        answers = {name: answers.get(name, []) + row for name, row in rows.items()}
    return answers


def units_without_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gradients of None, of zeros, and with a row of zeros, also where the weights are zero and eps is 0."""
    n, m = sizes(seed, 2)
    parameters = [unit_case(seed + place, shape) for place, shape in enumerate(((n, m), (m,), (n, m), (m, n)))]
    parameters[random.Random(seed).randrange(2)].grad = None
    gradient_of(parameters[2]).zero_()
    gradient_of(parameters[3])[0] = 0
    with torch.no_grad():
        parameters[2][0] = 0
    return clipped(learner, parameters, 0.4, 0.0)


def units_in_half(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m = sizes(seed, 2)
    kinds = zip(((n, m), (m,), (m, n)), (F32, BF16, BF16), strict=True)
    return clipped(learner, [unit_case(seed + place, *kind) for place, kind in enumerate(kinds)], 0.4)


class Tested:
    """A model with buffers, its optimizer, and a training step that notes rates and returns given losses."""

    def __init__(self, seed: int, losses: Sequence[float], steps_before: int, fails_at: int = -1) -> None:
        torch.manual_seed(seed)
        self.number = random.Random(seed).randrange(10**6)  # of the error
        draw, (n, m) = random.Random(seed), sizes(seed, 2)
        self.model = nn.Sequential(nn.Linear(n, m), nn.BatchNorm1d(m), nn.Linear(m, 1)).double()
        groups = [{"params": list(layer.parameters()), "lr": rate(draw)} for layer in self.model]
        settings: Settings = {"momentum": 0.9} if seed % 2 else {}
        self.optimizer = (torch.optim.SGD if seed % 2 else torch.optim.AdamW)(groups[:2], lr=0.1, **settings)
        self.optimizer.add_param_group(groups[2])
        self.x = torch.randn(6, n, dtype=F64)
        self.losses, self.fails_at = losses, fails_at
        self.rates: list[list[float]] = []
        for _ in range(steps_before):
            self.train()
        self.model.eval()
        self.model[draw.randrange(3)].train()
        self.tensors = [*map(id, self.model.parameters())]
        self.before = copy.deepcopy(self.state())

    def train(self) -> None:
        self.model.train()
        self.optimizer.zero_grad()
        self.model(self.x).square().mean().backward()
        self.optimizer.step()

    def train_step(self) -> float:
        self.rates.append([plain_number(group["lr"]) for group in self.optimizer.param_groups])
        if len(self.rates) - 1 == self.fails_at:
            raise ArithmeticError(self.number)
        self.train()
        return self.losses[len(self.rates) - 1]

    def state(self) -> dict[str, Any]:
        held = self.optimizer.state
        return {
            "parameters": [array(parameter) for parameter in self.model.parameters()],
            "buffers": [array(buffer) for buffer in self.model.buffers()],
            "modes": [in_training(layer) for layer in self.model.modules()],
            "state of the optimizer": [
                tensor_or_kind(value) if is_tensor(value) else plain_number(value)
                for parameter in self.model.parameters()
                for _, value in sorted(held.get(parameter, {}).items())
            ],
            "rates": [plain_number(group["lr"]) for group in self.optimizer.param_groups],
        }

    def test(self, learner: ModuleType, rates: Sequence[float], *settings: Any) -> dict[str, Any]:
        raised, result = "nothing", None
        try:
            result = learner.range_test(self.model, self.optimizer, self.train_step, rates, *settings)
        except ArithmeticError as error:
            raised = f"the step's error {error}"
        after = self.state()
        return {
            "type": type_name(result),
            "types": sorted({type_name(item) for item in result}) if type(result) is list else [],
            "losses": [plain_number(loss) for loss in result] if type(result) is list else [],
            "seen": self.rates,
            "given": list(rates),
            "raised": raised,
            "same tensors": self.tensors == [*map(id, self.model.parameters())],
            **after,
            **{f"same {name}": _equal(after[name], self.before[name]) for name in after},
        }


def _equal(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(values) == len(others) and all(
        np.array_equal(np.asarray(one), np.asarray(two)) for one, two in zip(values, others, strict=True)
    )


def new_rates(draw: random.Random, count: int) -> list[float]:
    factor = draw.uniform(1.5, 3)
    return [1e-4 * factor**step for step in range(count)]


def range_test_of_all(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Losses that never rise far: every rate gets a step; after earlier steps, and before any."""
    rows = []
    for before in (3, 0):
        draw = random.Random(seed + before)
        count = draw.randrange(4, 9)
        losses = [draw.uniform(2, 7) for _ in range(count)]
        rows.append(Tested(seed + before, losses, before).test(learner, new_rates(draw, count)))
    return together(rows)


def range_test_stopped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Losses that fall and then rise above the limit; the limit is a multiple of the lowest, not of the first."""
    rows = []
    for number, stop in enumerate((None, 1.5, 10.0)):
        draw = random.Random(seed + number)
        factor = 4.0 if stop is None else stop
        falling = sorted((draw.uniform(1, 3) for _ in range(draw.randrange(2, 4))), reverse=True)
        rising = [falling[-1] * factor * share for share in (0.95, 0.7, 1.0, 1.05, 1.3, 2)]
        losses = [3 * falling[0] * factor, *falling[1:], *rising, 1.1 * factor * rising[-1], 1.0]
        run = Tested(seed + number, losses, 1)
        rows.append(run.test(learner, new_rates(draw, len(losses)), *([] if stop is None else [stop])))
    return together(rows)


def range_test_not_finite(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A loss that is nan or infinite, in the middle or at the beginning."""
    rows = []
    for number, (bad, place) in enumerate(((math.nan, 2), (math.inf, 3), (math.nan, 0), (-math.inf, 1), (math.inf, 0))):
        draw = random.Random(seed + number)
        losses = [draw.uniform(2, 3) for _ in range(5)]
        losses[place] = bad
        rows.append(Tested(seed + number, losses, 1).test(learner, new_rates(draw, 5)))
    return together(rows)


def range_test_with_an_error(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The third step raises an error."""
    draw = random.Random(seed)
    return together([Tested(seed + n, [2.0] * 6, n, fails_at=2).test(learner, new_rates(draw, 6)) for n in (0, 2)])


def curve(draw: random.Random, count: int, noise: float) -> list[float]:
    """Losses that are flat, fall, and rise, with noise."""
    start, low = draw.randrange(1, count // 3), draw.randrange(count // 2, count - 2)
    return [
        3.5 - 2 * min(1.0, max(0.0, (k - start) / (low - start))) ** 2
        + 0.7 * max(0, k - low) + noise * draw.uniform(-1, 1)
        for k in range(count)
    ]  # fmt: skip


def suggestions(learner: ModuleType, curves: Sequence[tuple[list[float], list[float], float | None]]) -> dict[str, Any]:
    answers: dict[str, Any] = {"cases": [], "rates": [], "suggested": [], "types": []}
    for rates, losses, smoothing in curves:
        result = learner.suggested_rate(list(rates), list(losses), *([] if smoothing is None else [smoothing]))
        given = [f"{loss:.4g}" for loss in losses]
        text = f"losses {', '.join(given[:12])}{', ...' if len(given) > 12 else ''}"
        answers["cases"].append(f"{text}, smoothing={0.9 if smoothing is None else smoothing:.3g}")
        answers["rates"].append(list(rates))
        answers["suggested"].append(plain_number(result))
        answers["types"].append(type_name(result))
    return answers


def even_rates(draw: random.Random, count: int) -> list[float]:
    first, factor = draw.uniform(1e-5, 1e-3), draw.uniform(1.3, 2)
    return [first * factor**k for k in range(count)]


def suggested_plain(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Short curves without smoothing, at even rates."""
    draw, curves = random.Random(seed), []
    for _ in range(8):
        count = draw.randrange(8, 11)
        curves.append((even_rates(draw, count), curve(draw, count, 0.3), 0.0))
    return suggestions(learner, curves)


def suggested_uneven(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Rates that rise by uneven factors, without smoothing."""
    draw, curves = random.Random(seed), []
    for _ in range(10):
        count = draw.randrange(8, 12)
        rates = [draw.uniform(1e-5, 1e-3)]
        while len(rates) < count:
            rates.append(rates[-1] * draw.choice((1.1, 1.4, 2.5, 5)))
        curves.append((rates, curve(draw, count, 0.3), 0.0))
    return suggestions(learner, curves)


def suggested_smooth(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Noisy curves, with the default smoothing and with others."""
    draw, curves = random.Random(seed), []
    for smoothing in (None, None, None, 0.5, 0.8, 0.95, draw.uniform(0.6, 0.9), draw.uniform(0.6, 0.9)):
        count = draw.randrange(30, 50)
        curves.append((even_rates(draw, count), curve(draw, count, 0.4), smoothing))
        early = [1 + 2 * 0.8**k + 0.1 * draw.uniform(-1, 1) for k in range(count)]  # falls from its first step on
        curves.append((even_rates(draw, count), early, smoothing))
    return suggestions(learner, curves)


def suggested_ends(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Losses that end early, or with values that are not finite, after which lower losses follow."""
    draw, curves = random.Random(seed), []
    for number, bad in enumerate((math.nan, math.inf, None, math.nan, -math.inf, None)):
        count = draw.randrange(14, 20)
        losses = curve(draw, count, 0.1)[: draw.randrange(11, 13)]
        if bad is not None:
            losses += [bad, 1.0, -9.0, -9.0][: (4, 4, 0, 1, 4)[number]]
        curves.append((even_rates(draw, count), losses, 0.0))
    return suggestions(learner, curves)


def suggested_nothing(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Losses that only rise, or stay; losses too few for a trend; and one fall among rises."""
    draw, curves = random.Random(seed), []
    rising = [1 + draw.uniform(0, 1)]
    while len(rising) < 8:
        rising.append(rising[-1] + draw.uniform(0.1, 1))
    for losses in (rising, [2.5] * 6, [3.0, 1.0], [math.nan, math.nan], [], [3.0, 2.0, math.inf]):
        curves.append((even_rates(draw, max(6, len(losses))), losses, 0.0))
    curves.append((even_rates(draw, 8), [*rising[:4], *[rising[2] - 1] * 2, *rising[4:6]], 0.0))
    return suggestions(learner, curves)


# ----------------------------------------------------------------------------------------------------------- the search
class Study:
    """Trials with random curves; the running trial is the last one made, and stands among the others."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.trials = draw, list[dict[str, Any]]()
        self.interval = draw.choice((1, 10, 250))

    def add(self, state: str, level: float, steps: int, **changes: Any) -> dict[str, Any]:
        """Adds a trial whose validation values are near `level`, and whose training values say the opposite."""
        reported = [self.interval * (k + 1) for k in range(steps)]
        values = {step: level + self.draw.uniform(-0.05, 0.05) for step in reported}
        trial = {
            "number": len(self.trials),
            "state": state,
            "parameters": {"lr": self.draw.uniform(0, 1)},
            "seed": self.draw.randrange(100),
            "training": {step: 10 - value for step, value in values.items()},
            "validation": values | changes.pop("values", {}),
        }
        self.trials.append(trial)
        return trial


Decision = tuple[str, list[Any], dict[str, Any], Settings]  # a description, all trials, the running one, settings


def decisions(learner: ModuleType, seed: int, studies: Callable[[random.Random], Iterator[Decision]]) -> dict[str, Any]:
    """Asks for every study of three rounds, in random order: no order of answers is right for two seeds."""
    draw = random.Random(seed)
    answers: dict[str, Any] = {"cases": [], "pruned": [], "types": [], "kept": []}
    rows = [row for _ in range(3) for row in studies(draw)]
    for text, trials, trial, settings in draw.sample(rows, len(rows)):
        before = copy.deepcopy(trials)
        result = learner.should_prune(trial, trials, **settings)
        answers["kept"].append(repr(trials) == repr(before))
        own = ", ".join(f"{step}: {value:.4g}" for step, value in trial["validation"].items())
        last = max(trial["validation"], default=None)
        others = sorted(
            other["validation"][last]
            for other in trials
            if other["state"] == "complete" and last in other["validation"]
        )
        values = ", ".join(f"{value:.4g}" for value in others)
        asked = ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "default settings"
        answers["cases"].append(
            f"{text}: the trial has {{{own}}}; complete trials with step {last} have {values or 'none'} there; {asked}"
        )
        answers["pruned"].append(bool(result) if type(result) in (bool, np.bool_) else kind_text(result))
        answers["types"].append(type_name(result))
    return answers


def shuffled(study: Study) -> list[Any]:
    study.draw.shuffle(study.trials)
    return study.trials


def simple_studies(draw: random.Random) -> Iterator[Decision]:
    """Odd and even numbers of complete trials; the running trial is a little better or worse than the median."""
    for count in (5, 6, 7, 8, 5, 6):
        for place in (-0.4, 0.4):
            study = Study(draw)
            # Uneven levels: the mean is far above the median.
            levels = [1.0 * k for k in range(1, count)] + [draw.uniform(30, 50)]
            for level in levels:
                study.add("complete", level, 4)
            middle = sorted(levels)[(count - 1) // 2 : count // 2 + 1]
            trial = study.add("running", sum(middle) / len(middle) + place, draw.randrange(1, 4))
            text = f"{count} complete trials"
            yield text, shuffled(study), trial, {"startup_trials": 3}
    study = Study(draw)
    for level in (1.0, 2.0, 3.0, 4.0, 5.0):
        study.add("complete", level, 4, values={study.interval * k: level for k in (1, 2, 3, 4)})
    trial = study.add("running", 9.0, 3, values={3 * study.interval: 3.0})
    yield "a trial at the median", shuffled(study), trial, {"startup_trials": 3}
    study = Study(draw)
    for level in (1.0, 3.0, 8.0):
        study.add("complete", level, 4)
    trial = study.add("running", 4.0, 3, values={3 * study.interval: 9.0})
    yield "a trial that got much worse", shuffled(study), trial, {"startup_trials": 2}


def prune_by_median(learner: ModuleType, seed: int) -> dict[str, Any]:
    return decisions(learner, seed, simple_studies)


def prune_by_best(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The trial's last value is worse than its best, or its last step is not the last that was written."""

    def studies(draw: random.Random) -> Iterator[Decision]:
        for first, last in ((2.0, 6.0), (6.0, 2.0), (6.0, 7.0), (2.0, 9.0), (7.0, 6.0)):
            for backwards in (False, True):
                study = Study(draw)
                for level in (1.0, 3.0, 4.0, 5.0, 8.0):
                    study.add("complete", level, 4, values={study.interval: 9.0})
                values = {study.interval: first, 2 * study.interval: 6.5, 3 * study.interval: last}
                trial = study.add("running", 6.5, 3, values=values)
                if backwards:
                    trial["validation"] = dict(reversed(trial["validation"].items()))
                yield "five complete trials", shuffled(study), trial, {"startup_trials": 2}

    return decisions(learner, seed, studies)


def prune_at_the_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Complete trials change their values after the step; some never reached it."""

    def studies(draw: random.Random) -> Iterator[Decision]:
        for own, early, late in ((3.0, 2.0, 5.0), (3.0, 4.0, 1.0), (3.0, 2.0, 5.0)):
            study = Study(draw)
            for _ in range(6):
                later = {study.interval * k: late for k in (3, 4, 5)} | {study.interval: late}
                study.add("complete", early, 5, values=later)
            trial = study.add("running", own, 2)
            yield "trials that change", shuffled(study), trial, {"startup_trials": 2}
        for own, long, short in ((3.0, 2.0, 9.0), (3.0, 4.0, 1.0), (3.0, 4.0, 1.0)):
            study = Study(draw)
            for _ in range(3):
                study.add("complete", long, 6)
            for _ in range(4):
                study.add("complete", short, 2)  # of a smaller budget: never reached the step
            trial = study.add("running", own, draw.randrange(3, 6))
            yield "four trials that never reached the step", shuffled(study), trial, {"startup_trials": 2}
        study = Study(draw)
        for _ in range(6):
            study.add("complete", 1.0, 2)
        yield "no trial reached the step", study.trials, study.add("running", 5.0, 4), {"startup_trials": 2}

    return decisions(learner, seed, studies)


def prune_at_the_start(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Few complete trials beside others; other numbers than the default; steps before and at the warm-up's end."""

    def studies(draw: random.Random) -> Iterator[Decision]:
        for complete, settings in ((4, {}), (5, {}), (2, {"startup_trials": 3}), (3, {"startup_trials": 3})):
            study = Study(draw)
            for _ in range(complete):
                study.add("complete", 1.0, 4)
            for state in ("failed", "running", "pruned"):
                study.add(state, 1.0, 4)
            trial = study.add("running", 5.0, 2)
            yield f"{complete} complete trials beside others", shuffled(study), trial, settings
        study = Study(draw)
        for steps in (4, 4, 2, 2, 2, 2):
            study.add("complete", 1.0, steps)
        yield "six complete trials, two of them with the step", shuffled(study), study.add("running", 5.0, 3), {}
        for steps in (1, 2, 3):
            study = Study(draw)
            study.interval = draw.choice((10, 250))
            for _ in range(6):
                study.add("complete", 1.0, 4)
            trial = study.add("running", 5.0, steps)
            yield "six complete trials", shuffled(study), trial, {"warmup_steps": 2 * study.interval}
        study = Study(draw)
        for _ in range(6):
            study.add("complete", 1.0, 4)
        yield "a trial without values", study.trials, study.add("running", 5.0, 0), {}
        study = Study(draw)
        yield "no other trial", study.trials, study.add("running", 5.0, 2), {"startup_trials": 0}
        study = Study(draw)
        yield "no other trial, and NaN", study.trials, study.add("running", math.nan, 2), {"startup_trials": 0}

    return decisions(learner, seed, studies)


def prune_by_direction(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Values of which a larger one is better."""

    def studies(draw: random.Random) -> Iterator[Decision]:
        for own, peak in ((2.0, 0.0), (4.0, 0.0), (2.0, 5.0), (1.0, 2.5), (3.5, 0.2)):
            study = Study(draw)
            for level in (1.0, 2.5, 3.0, 6.0, 9.0):
                study.add("complete", level, 4)
            trial = study.add("running", own, 3, values={study.interval: peak})
            yield "five complete trials", shuffled(study), trial, {"direction": "maximize", "startup_trials": 2}

    return decisions(learner, seed, studies)


def prune_by_state(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trials that were pruned, that failed, or that run, beside complete ones, of other values."""

    def studies(draw: random.Random) -> Iterator[Decision]:
        for state in ("pruned", "failed", "running"):
            for own, level in ((4.0, 9.0), (2.0, 0.5)):
                study = Study(draw)
                for _ in range(5):
                    study.add("complete", 3.0, 4)
                for _ in range(7):
                    study.add(state, level, 4)
                yield f"beside 7 {state} trials", shuffled(study), study.add("running", own, 3), {"startup_trials": 2}

    return decisions(learner, seed, studies)


def prune_with_nan(learner: ModuleType, seed: int) -> dict[str, Any]:
    """NaN among the trial's values, as all of them, and among the values of others; infinity, which is a value."""

    def studies(draw: random.Random) -> Iterator[Decision]:
        for direction in ("minimize", "maximize"):
            settings: Settings = {"direction": direction, "startup_trials": 2}
            for first, last in ((math.nan, 2.0), (math.nan, 4.0), (2.0, math.nan), (4.0, math.nan)):
                study = Study(draw)
                for _ in range(5):
                    study.add("complete", 3.0, 3)
                trial = study.add("running", 0.0, 2, values={study.interval: first, 2 * study.interval: last})
                yield "NaN among the trial's values", shuffled(study), trial, settings
            study = Study(draw)
            for _ in range(5):
                study.add("complete", 3.0, 3)
            trial = study.add("running", 0.0, 2, values={study.interval: math.nan, 2 * study.interval: math.nan})
            yield "only NaN in the trial", shuffled(study), trial, settings
            for own in (2.0, 4.0):
                study = Study(draw)
                for level in (3.0, 3.0, 3.0, math.nan, math.nan, math.nan, math.nan):
                    study.add("complete", level, 3)
                trial = study.add("running", own, 2)
                yield "NaN in four other trials", shuffled(study), trial, settings
            study = Study(draw)
            for _ in range(5):
                study.add("complete", math.nan, 3)
            yield "only NaN in other trials", study.trials, study.add("running", 4.0, 2), settings
            yield from not_finite(draw, settings)

    return decisions(learner, seed, studies)


def not_finite(draw: random.Random, settings: Settings) -> Iterator[Decision]:
    """Infinity, which is a value, among others and in the trial; and a last value of NaN, whose step still counts."""
    study = Study(draw)
    for level in (1.0, 1.0, math.inf, math.inf, math.inf):
        study.add("complete", level, 3)
    yield "infinity in three other trials", shuffled(study), study.add("running", 4.0, 2), settings
    study = Study(draw)
    for _ in range(5):
        study.add("complete", 3.0, 3)
    yield "infinity in the trial", shuffled(study), study.add("running", math.inf, 2), settings
    first, early = (4.0, 9.0) if settings["direction"] == "minimize" else (2.0, 1.0)
    study = Study(draw)
    for _ in range(5):
        study.add("complete", 3.0, 3, values={study.interval: early})
    values = {study.interval: first, 2 * study.interval: math.nan}
    yield "NaN as the trial's last value", shuffled(study), study.add("running", 0.0, 2, values=values), settings


Rows = list[tuple[Any, ...]]  # parameters, seed, value at the budget, and changes of the trial


class Search:
    """Trials of configurations on seeds; `budget` is the step that counts."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.budget = draw, draw.choice((100, 5000))
        self.seeds = draw.sample(range(10), 3)
        self.base = draw.uniform(0, 5)  # of all values
        self.rates: dict[str, float] = {}
        self.trials: list[dict[str, Any]] = []

    def parameters(self, name: str) -> dict[str, Any]:
        """Returns parameters by a letter; equal letters give equal parameters, in any order of entries."""
        lr = self.rates.setdefault(name, self.draw.uniform(1e-4, 1e-1))
        optimizer = "muon" if name < "m" else "adamw"
        items = [("lr", lr), ("batch_size", 16), ("optimizer", optimizer), ("weight_decay", 0.0)]
        self.draw.shuffle(items)
        return dict(items)

    def add(self, name: str, seed: int, value: float, **changes: Any) -> None:
        early, late = self.draw.uniform(1, 9), self.draw.uniform(1, 9)
        value += self.base
        values = {self.budget // 2: early, self.budget: value, 2 * self.budget: late}
        trial = {
            "number": len(self.trials),
            "state": "complete",
            "parameters": self.parameters(name),
            "seed": seed,
            "training": {step: 10 - value for step, value in values.items()},
            "validation": values,
        }
        self.trials.append(trial | changes)

    def spread(self, name: str, mean: float, seeds: Sequence[int] | None = None, **changes: Any) -> None:
        """Adds a trial per seed; the values have this mean."""
        chosen = self.seeds if seeds is None else list(seeds)
        offsets = [self.draw.uniform(-0.8, 0.8) for _ in chosen]
        middle = sum(offsets) / len(offsets)
        for seed, offset in zip(chosen, offsets, strict=True):
            self.add(name, seed, mean + offset - middle, **changes)


def choices(
    learner: ModuleType, searches: Sequence[tuple[str, Search, Settings]], in_order: bool = False
) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "cases": [],
        "types": [],
        "names": [],
        "rates": [],
        "other entries": [],
        "means": [],
        "spreads": [],
        "kept": [],
    }
    for text, search, settings in searches:
        search.draw.shuffle(search.trials)
        if in_order:  # the first search oldest first, the others newest first
            search.trials.sort(key=lambda trial: trial["number"], reverse=bool(answers["cases"]))
        given = copy.deepcopy(search.trials)
        result = learner.best_configuration(given, search.budget, search.seeds, **settings)
        held = dict_items(result) or {}
        parameters = dict_items(held.get("parameters")) or {}
        answers["cases"].append(text)
        answers["types"].append(type_name(result))
        answers["names"].append(sorted(map(str, held)))
        entries = {str(key): value for key, value in parameters.items()}
        right = search.parameters("x") | {name: entries.get(name) for name in ("lr", "optimizer")}
        missing = [f"{name}, which is {value}, is missing" for name, value in right.items() if name not in entries]
        other = [f"{name} has another value" for name in entries if right.get(name) != entries[name]]
        answers["other entries"].append(sorted(missing + other) if held else [])
        answers["rates"].append(plain_number(parameters.get("lr")))
        answers["means"].append(plain_number(held.get("mean")))
        answers["spreads"].append(plain_number(held.get("spread")))
        answers["kept"].append(given == search.trials)
    return answers


def choice_by_mean(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Each has all seeds; the lowest single value belongs to a worse mean."""
    searches = list[tuple[str, Search, Settings]]()
    for number in range(3):
        search = Search(random.Random(seed + number))
        search.spread("a", 4.0)
        search.spread("b", 3.0)
        low = 0.5
        for place, own in enumerate(search.seeds):
            search.add("z", own, low if place == number else 5.5 + 0.1 * place)
        search.add("c", search.seeds[0], 3.6)
        search.add("c", search.seeds[1], 3.5)
        search.add("c", search.seeds[2], 3.4)
        searches.append(("three seeds for each of four configurations", search, {}))
    single = Search(random.Random(seed + 9))
    single.seeds = single.seeds[:1]
    for name, mean in (("a", 3.0), ("n", 2.0), ("z", 4.0)):
        single.add(name, single.seeds[0], mean)
    return choices(learner, [*searches, ("one seed", single, {})])


def choice_by_seeds(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Some have fewer seeds, or others, or a lucky one besides."""
    searches = list[tuple[str, Search, Settings]]()
    for number in range(2):
        search = Search(random.Random(seed + number))
        search.spread("b", 3.0)
        search.spread("c", 4.0)
        search.spread("a", 1.0, search.seeds[:2])
        search.spread("n", 0.5, [11, 12, 13])
        search.spread("z", 0.8, [*search.seeds[:2], 14])
        search.add("c", 15, -20.0)  # not among the seeds
        search.add("b", 16, 40.0)
        searches.append(("configurations with seeds missing, and with others", search, {}))
    search = Search(random.Random(seed))
    search.spread("b", 3.0)
    search.trials[search.draw.randrange(3)]["parameters"]["batch_size"] = 16.0
    search.spread("c", 4.0)
    text = "the best configuration's batch_size is 16 in two trials and 16.0 in the third, which are equal"
    return choices(learner, [*searches, (text, search, {})])


def choice_by_budget(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trials that ended before the budget; trials of a longer budget, whose last value is better."""
    searches = list[tuple[str, Search, Settings]]()
    for number in range(2):
        search = Search(random.Random(seed + number))
        search.spread("b", 3.0)
        search.spread("c", 4.0)
        for own in search.seeds:
            search.add("a", own, 5.0)
            search.trials[-1]["validation"][2 * search.budget] = 0.1
            search.add("z", own, 0.2)
            values = search.trials[-1]["validation"]
            search.trials[-1]["validation"] = {search.budget // 2: values[search.budget]}  # ended early
            search.add("n", own, 0.2)
            values = search.trials[-1]["validation"]
            search.trials[-1]["validation"] = {search.budget // 2: 5.0, 2 * search.budget: values[search.budget]}
        searches.append(("trials of other budgets", search, {}))
    return choices(learner, searches)


def choice_by_state(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trials that were pruned, that failed or that run, with better values."""
    searches = list[tuple[str, Search, Settings]]()
    for state in ("pruned", "failed", "running"):
        search = Search(random.Random(seed))
        search.spread("b", 3.0)
        search.spread("c", 4.0)
        search.spread("a", 1.0, state=state)
        searches.append((f"a configuration whose trials are {state}", search, {}))
    return choices(learner, searches)


def choice_with_reruns(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trials of one seed twice: a later one that counts, one that does not, and one that fills no missing seed."""
    searches = list[tuple[str, Search, Settings]]()
    for number in range(2):
        draw = random.Random(seed + number)
        search = Search(draw)
        search.spread("b", 3.0)
        search.spread("c", 2.0)
        search.add("c", search.seeds[number], 9.0)  # the later value: the mean is no longer the best
        search.add("b", search.seeds[0], 0.0, state="failed")
        search.add("b", search.seeds[1], math.nan)
        search.spread("z", 1.0, [search.seeds[0], search.seeds[0], search.seeds[1]])
        searches.append(("trials that were started again", search, {}))
        search = Search(draw)
        search.spread("a", 5.0)
        search.add("b", search.seeds[0], 9.0)
        search.spread("b", 3.0)
        search.spread("c", 4.0)
        searches.append(("a trial that was started again and got better", search, {}))
    return choices(learner, searches, in_order=True)


def choice_by_direction(learner: ModuleType, seed: int) -> dict[str, Any]:
    search = Search(random.Random(seed))
    for name, mean in (("a", 3.0), ("b", 4.0), ("z", 2.0)):
        search.spread(name, mean)
    return choices(learner, [("larger values are better", search, {"direction": "maximize"})])


def losses_of_zero(seed: int) -> Iterator[tuple[str, Search, Settings]]:
    """The best configuration has a loss of exactly 0.0 on one seed, or on all seeds."""
    for zeros in (1, 3):
        search = Search(random.Random(seed + zeros))
        search.spread("c", 4.0)
        search.base = 0.0
        for place, own in enumerate(search.seeds):
            search.add("b", own, 0.0 if place < zeros else search.draw.uniform(0.1, 0.9))
        yield f"the best configuration has a loss of 0.0 on {zeros} of 3 seeds", search, {}


def choice_with_nan(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Values that are not finite, in either direction; and no configuration that takes part."""
    searches = list[tuple[str, Search, Settings]]()
    for direction, bad in (
        ("minimize", math.nan),
        ("minimize", -math.inf),
        ("maximize", math.inf),
        ("maximize", math.nan),
    ):
        search = Search(random.Random(seed))
        search.spread("b", 3.0)
        search.spread("a", 3.5)
        for name in ("c", "z"):
            level = 1.0 if direction == "minimize" else 9.0
            search.spread(name, level, search.seeds[:2] if name == "c" else search.seeds[1:])
            search.add(name, search.seeds[2] if name == "c" else search.seeds[0], bad)
        searches.append((f"a value of {bad}", search, {"direction": direction}))
    searches += losses_of_zero(seed)
    empty, partial = Search(random.Random(seed)), Search(random.Random(seed))
    partial.spread("a", 1.0, partial.seeds[:2])
    partial.spread("b", 1.0, state="failed")
    return choices(learner, [*searches, ("no trials", empty, {}), ("no configuration with all seeds", partial, {})])
