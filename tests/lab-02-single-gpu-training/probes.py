"""Probes of Lab 02: each calls the learner's code on random inputs, and returns its results as plain values.

Most is computed in float64, where equivalent computations agree to about 1e-13. The judges' tolerance of 1e-9 is far
from these differences and from those of mistakes. What only shows in bf16 is judged by 2 %.
"""

import contextlib
import math
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.exercises.probes.answers import HANDED
from rankzero.exercises.probes.forward_recorder import ForwardRecorder
from rankzero.exercises.probes.untrusted_values import (
    a_float,
    flat,
    gradients,
    in_training,
    named_weights,
    plain_number,
    tuple_items,
    type_name,
    weights,
)
from rankzero.learn.models.gpt import GPT, GPTConfig

PADDING = -100  # cross_entropy's default for `ignore_index`
SGD, ADAMW = torch.optim.SGD, torch.optim.AdamW


class Sizes:
    """The sizes of a seed's model and batches; no two of them are equal."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.batch, self.block, self.heads = draw.choice((2, 3)), draw.randrange(4, 8), 2
        self.width, self.vocab = 2 * draw.choice((4, 5, 6)), draw.randrange(13, 25)


def new_model(sizes: Sizes, dropout: float, sure: float, averages: bool) -> GPT:
    """Returns a tiny GPT in training mode, with a tied, a frozen and an unused layer.

    `sure` scales its logits, and with them its losses. With `averages` its last norm is a BatchNorm of each position,
    which computes another thing in training mode than in evaluation mode, and keeps averages in buffers.
    """
    model = GPT(GPTConfig(sizes.vocab, sizes.block, 1, sizes.heads, sizes.width, dropout=dropout))
    model.unused = nn.Linear(3, 2)
    if averages:
        model.norm = nn.BatchNorm1d(sizes.block)  # type: ignore[assignment]
        model.norm.running_mean, model.norm.running_var = torch.randn(sizes.block), 1 + torch.rand(sizes.block)
    with torch.no_grad():  # larger weights than usual, so that the loss is far from ln V and mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.norm.weight.mul_(sure)
    model.position_embedding.requires_grad_(False)
    return model


def make_model(seed: int, dropout: float = 0.0, sure: float = 1.0, averages: bool = False) -> GPT:
    """Returns the seed's model in float64."""
    torch.manual_seed(seed)
    return new_model(Sizes(seed), dropout, sure, averages).double()


def make_half(seed: int) -> GPT:
    """Returns the seed's model in bf16, with its last norm in float32."""
    model = make_model(seed).bfloat16()
    model.norm.float()
    return model


def groups(model: nn.Module, **of_vectors: float) -> list[dict[str, Any]]:
    """Returns a model's parameters in two groups of an optimizer: the vectors, such as weights of norms, and others.

    `of_vectors` are settings of the vectors' group, such as its own learning rate.
    """
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    return [{"params": [p for p in model.parameters() if p.dim() > 1]}, {"params": vectors, **of_vectors}]


def make_batch(seed: int, number: int = 0, size: int | None = None) -> tuple[Tensor, Tensor]:
    """Returns batch `number` of a seed: random tokens and targets, int64 [size, T] each.

    Token 0, which some code takes for padding, is among the targets, and so are one or more of real padding.
    """
    sizes, generator = Sizes(seed), torch.Generator().manual_seed(seed + number)
    x, y = torch.randint(sizes.vocab, (2, size or sizes.batch, sizes.block), generator=generator)
    x[0, 0] = y[0, 0] = 0
    y[-1, -1 - int(torch.randint(sizes.block - 2, (1,), generator=generator)) :] = PADDING
    return x, y


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy over the real tokens, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=PADDING)


def buffers(model: nn.Module) -> np.ndarray:
    """Returns all buffers of a model as one flat float64 array: BatchNorm's averages, and how often they were moved."""
    return flat(nn.Module.buffers(model))


def gradients_and_gaps(model: nn.Module) -> np.ndarray:
    """Returns all gradients of a model, and for each of its parameters 1 if it has none, otherwise 0."""
    return np.concatenate([gradients(model), [parameter.grad is None for parameter in nn.Module.parameters(model)]])


def in_both_modes(train: Callable[[nn.Module, Tensor, Tensor], list[Any]], seed: int) -> dict[str, Any]:
    """Calls `train` with a model in training mode and in evaluation mode; returns its losses and the modes afterwards.

    The model has dropout, whose random generator is seeded just before. One of its layers is in the other mode.
    """
    losses, left = [], []
    for training in (True, False):
        model = make_model(seed, dropout=0.5).train(training)
        model.norm.train(not training)
        modules = [*model.modules()]
        torch.manual_seed(seed + 7919)  # a seed that no learner would choose
        losses += train(model, *make_batch(seed))
        left.append([in_training(module) for module in modules])
    return {"losses": losses, "left": left}


# --------------------------------------------------------------------------------------------------------- train_step
def pair(returned: Any) -> dict[str, Any]:
    """Returns the type of what train_step returned, the types of its two parts, and the two floats."""
    parts = tuple_items(returned, 2)
    return {
        "type": type_name(returned) if parts is None else "tuple",
        "types": [type_name(part) for part in parts or ()],
        "loss": a_float(parts[0]) if parts else None,
        "norm": a_float(parts[1]) if parts else None,
    }


def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step with SGD, which shows scales that AdamW would hide. The loss and its gradients are large."""
    model, (x, y) = make_model(seed, sure=30.0), make_batch(seed)
    given = flat([x, y])
    returned = learner.train_step(model, SGD(model.parameters(), lr=0.1), x, y, math.inf)
    return pair(returned) | named_weights(model) | {"untouched": bool((flat([x, y]) == given).all())}


def by_hand(*arguments: Any, **settings: Any) -> None:
    """Replaces a function that all of torch's clipping functions call, however a file has imported them."""
    raise RuntimeError("the clipping in train_step is to be written by hand, without torch.nn.utils")


def clipped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes a step with a gradient far above the limit, one just above it, and one just below it.

    The optimizer has two groups with different learning rates.
    """
    draw, after, norms, untouched = random.Random(seed), [], [], True
    limits = draw.uniform(1e-3, 1e-2), draw.uniform(0.8, 0.99), draw.uniform(1.01, 1.2)
    model = make_model(seed, sure=5.0)
    loss_of(model, *make_batch(seed)).backward()
    norm = np.linalg.norm(flat(p.grad for p in model.parameters() if p.grad is not None))
    for limit in limits:
        model, (x, y) = make_model(seed, sure=5.0), make_batch(seed)
        with patch.object(nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", by_hand):
            returned = learner.train_step(model, SGD(groups(model, lr=0.5), lr=1.0), x, y, float(limit * norm))
        norms.append(pair(returned)["norm"])
        after.append(weights(model))
        untouched &= bool((flat([x, y]) == flat(make_batch(seed))).all())
    limits_asked = [float(limit) for limit in limits]
    answers = {"norms": norms, "limits": limits_asked, "untouched": untouched}
    return answers | named_weights(model) | {"weights": np.concatenate(after)}


def several_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes several steps on as many batches of different size, some of them clipped, every other in training mode."""
    model, draw = make_model(seed, averages=True), random.Random(seed)
    optimizer, recorder = SGD(model.parameters(), lr=0.1), ForwardRecorder(model)
    for number in range(draw.randrange(3, 6)):
        limit = draw.choice((0.1, math.inf))
        model.train(number % 2 == 0)
        learner.train_step(model, optimizer, *make_batch(seed, number, draw.randrange(2, 6)), limit)
    return named_weights(model) | {"buffers": buffers(model), "passes": recorder.passes}


def after_a_strange_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step after a backward pass of other code, such as a gradient monitor or a failed step.

    That code has also left a gradient on a layer that this step does not use. With a gradient of 0, weight decay would
    move that layer.
    """
    model = make_model(seed)
    (loss_of(model, *make_batch(seed, 1)) + model.get_submodule("unused")(torch.ones(3).double()).sum()).backward()
    optimizer = SGD(model.parameters(), lr=0.1, weight_decay=0.5)
    returned = learner.train_step(model, optimizer, *make_batch(seed), math.inf)
    return named_weights(model) | {"norm": pair(returned)["norm"]}


def step_in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step of a model with dropout, in training and in evaluation mode."""

    def train(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        return [pair(learner.train_step(model, SGD(model.parameters(), lr=0.1), x, y, math.inf))["loss"]]

    return in_both_modes(train, seed)


def step_at_the_edges(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step on a batch of padding, after another step with momentum, and one step of a gradient of 0."""
    model, (x, y) = make_model(seed, averages=True), make_batch(seed)
    optimizer = ADAMW(model.parameters(), lr=0.1)
    for number in range(2):
        optimizer.zero_grad()
        loss_of(model, *make_batch(seed, number)).backward()
        optimizer.step()
    padding = pair(learner.train_step(model, optimizer, x, torch.full_like(y, PADDING), 1.0))
    left = {
        "gradients": gradients_and_gaps(model),
        "buffers": buffers(model),
        "averages": flat(value for state in optimizer.state.values() for value in state.values()),
        "modes": [in_training(module) for module in model.modules()],
        "trainable": [parameter.requires_grad for parameter in model.parameters()],
        "random": torch.rand(1).item(),
    }
    still = make_model(seed)
    still.norm.requires_grad_(False).weight.zero_()  # all logits are constants
    flat_step = pair(learner.train_step(still, SGD(still.parameters(), lr=0.1), x, y, 1.0))
    return left | {
        "padding": [padding["loss"], padding["norm"]],
        "weights": weights(model),
        "flat": [flat_step["loss"], flat_step["norm"]],
        "still": weights(still),
    }


def step_in_half(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes two clipped steps of a model in bf16 whose last norm is in float32."""
    model, numbers = make_half(seed), []
    before = [parameter.dtype for parameter in model.parameters()]
    optimizer = SGD(model.parameters(), lr=0.1)
    for number in range(2):
        step = pair(learner.train_step(model, optimizer, *make_batch(seed, number), 0.01))
        numbers += [step["loss"], step["norm"]]
    return {"numbers": numbers, "same types": before == [parameter.dtype for parameter in model.parameters()]}


# ----------------------------------------------------------------------------------------------------------- evaluate
def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches of different size, the last of one sequence; only that one is hard. A generator has no length.

    The last position is padding in all of them, and in the last batch the position before it, or more of them, too.
    """
    draw = random.Random(seed)
    for number, size in enumerate((draw.randrange(4, 7), draw.randrange(2, 4), 1)):
        x, y = make_batch(seed, number, size)
        targets = y if size == 1 else torch.where(y == PADDING, y, x)
        targets[:, -1 - (size == 1) :] = PADDING
        yield x, targets


def list_of_floats(returned: Any) -> dict[str, Any]:
    """Returns the type of a returned list, the types of its items, each once in one text, and its numbers."""
    items = list.copy(returned) if type(returned) is list else []
    return {
        "type": type_name(returned),
        "types": ", ".join(sorted({type_name(item) for item in items})),
        "losses": [a_float(item) for item in items],
    }


class Exact(nn.Module):
    """Returns logits whose losses are exact numbers, in bf16 too: token n has the loss LOSSES[n] if its target is 1."""

    LOSSES = 36.0, 1024.0, 72.0, 2048.0, math.nan, 0.0

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor([[loss or -64.0, 0.0, -64.0] for loss in self.LOSSES]))

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] -> [B, T, 3]"""
        return self.rows[tokens]


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates batches of different size and difficulty, with large losses, and batches with a loss of exactly 0."""
    answers = list_of_floats(learner.evaluate(make_model(seed, sure=100.0), batches(seed)))
    exact = [(torch.tensor([[0], [1], [5]]), torch.ones(3, 1, dtype=torch.int64)) for _ in range(2)]
    return answers | {"sure": list_of_floats(learner.evaluate(Exact().double(), iter(exact)))["losses"]}


def with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates a model with much dropout, and with a BatchNorm, that is in training mode."""
    model = make_model(seed, dropout=0.5, averages=True)
    return list_of_floats(learner.evaluate(model, batches(seed))) | {"buffers": buffers(model)}


def many_in_half(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates a model in bf16 on many batches. The sum of one batch, such as 1060, is between two bf16 numbers.

    At the last position one real token of one batch has a loss of nan.
    """
    draw = random.Random(seed)
    first, second = draw.sample(([0, 2, 0], [1, 3, 1]), 2)
    data = [(torch.tensor([first, second]), torch.ones(2, 3, dtype=torch.int64)) for _ in range(draw.randrange(60, 80))]
    draw.choice(data)[0][0, 2] = 4
    return list_of_floats(learner.evaluate(Exact().bfloat16(), iter(data)))


def what_is_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the tensors that autograd saves during the evaluation, and the outputs of the model with a graph.

    Hooks of the learner's own could keep saved tensors from the count, but no hook takes an output off its graph.
    """
    model, kept, graphs = make_model(seed), 0, 0

    def note(output: Tensor) -> None:
        nonlocal graphs
        graphs += output.requires_grad

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += 1
        return tensor.detach()

    passes = ForwardRecorder(model, note)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        learner.evaluate(model, batches(seed))
    return named_weights(model) | {"kept": kept, "graphs": graphs, "logits": passes.logits()}


def modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the mode of each part of the model after the evaluation; two layers are in the other mode.

    One of these is a part of two modules: train() of either of them sets its mode.
    """
    left, logits = [], []
    for training in (True, False):
        model, shared = make_model(seed), nn.Dropout()
        model.unused = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
        model.train(training)
        model.norm.train(not training)
        shared.train(not training)
        modules, passes = [*model.modules()], ForwardRecorder(model)
        learner.evaluate(model, batches(seed))
        left.append([in_training(module) for module in modules])
        logits.append(passes.logits())
    return {"left": left, "logits": logits}


def switches(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates with gradients on and off, one layer frozen; returns the global switch and requires_grad afterwards."""
    left, model = [], make_model(seed)
    parameters, passes = [*model.parameters()], ForwardRecorder(model)
    for on in (True, False):
        with torch.set_grad_enabled(on):
            learner.evaluate(model, batches(seed))
            left.append(torch.is_grad_enabled())
    trainable = [parameter.requires_grad for parameter in parameters]
    return {"grad": left, "trainable": trainable, "logits": passes.logits()}


def what_is_disturbed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns, after an evaluation: accumulated gradients, the batches, the next random number, a loss with dropout."""
    model, data = make_model(seed), [*batches(seed)]
    loss_of(model, *make_batch(seed)).backward()
    passes = ForwardRecorder(model)
    learner.evaluate(model, iter(data))
    random_number = torch.rand(1).item()
    dropping = make_model(seed, dropout=0.5)
    learner.evaluate(dropping, batches(seed))
    torch.manual_seed(seed)
    return {
        "gradients": gradients_and_gaps(model),
        "batches": flat(tensor for batch in data for tensor in batch),
        "random": random_number,
        "loss": loss_of(dropping.train(), *make_batch(seed)).item(),
        "logits": passes.logits(),
    }


# ------------------------------------------------------------------------------------------------------ learning_rate
def rates(name: str, learner: ModuleType, steps: Iterable[int], settings: tuple[Any, ...]) -> dict[str, Any]:
    """Returns the rates of a schedule, their types, and for the judge its steps and settings.

    The last step is asked for first, and before it another schedule: a rate depends on the arguments alone.
    """
    asked, (peak, warmup, total, floor) = [*steps], settings
    for step in asked:
        learner.learning_rate(step, 2 * peak, warmup, total + 1, floor / 2)
    returned = [learner.learning_rate(step, *settings) for step in reversed(asked)][::-1]
    return {
        name: [plain_number(rate) for rate in returned],
        f"{name} types": [type_name(rate) for rate in returned],
        f"{name} steps": asked,
        f"{name} settings": list(settings),
    }


def schedule(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the learning rates of a random schedule, from the first step to steps far after the last."""
    draw = random.Random(seed)
    peak, warmup = draw.uniform(0.1, 1.0), draw.randrange(4, 9)
    total, floor = warmup + draw.randrange(8, 20), peak * draw.uniform(0.3, 0.4)  # above the first rates of the warm-up
    settings = peak, warmup, total, floor
    later = [*range(total + 1, 2 * total), 3 * total, draw.randrange(10**4, 10**6)]
    return {
        **rates("warmup", learner, range(warmup), settings),
        **rates("cosine", learner, range(warmup, total + 1), settings),
        **rates("after", learner, later, settings),
    }


def no_warmup(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the learning rates of a schedule without warm-up and of one with a single step, and after their ends."""
    draw = random.Random(seed)
    peak, total = draw.uniform(0.1, 1.0), draw.randrange(8, 20)
    steps = range(2 * total)
    none, one = ((peak, warmup, total, peak * draw.uniform(0.05, 0.3)) for warmup in (0, 1))
    return {**rates("none", learner, steps, none), **rates("one", learner, steps, one)}


# -------------------------------------------------------------------------------------------------- overfit_one_batch
def overfit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overfits to a target that takes many steps."""
    model, (x, y) = make_model(seed), make_batch(seed)
    draw, given = random.Random(seed), flat([x, y])
    lr, target = draw.uniform(0.01, 0.03), draw.uniform(0.7, 1.2)
    answers = list_of_floats(learner.overfit_one_batch(model, x, y, lr=lr, target=target, max_steps=300))
    losses = answers["losses"]
    below = next((n for n, loss in enumerate(losses, start=1) if type(loss) is float and loss < target), len(losses))
    untouched = bool((flat([x, y]) == given).all())
    counts = {"count": len(losses), "losses": losses[:below]}
    return answers | counts | named_weights(model) | {"untouched": untouched}


def at_the_target(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overfits to a target that is exactly the first loss, and to the next larger number."""

    def train(target: float, max_steps: int) -> list[float | str]:
        losses = learner.overfit_one_batch(make_model(seed), *make_batch(seed), 0.02, target, max_steps)
        return list_of_floats(losses)["losses"]

    first = train(math.inf, 1)[:1]  # every loss is below infinity
    steps = random.Random(seed).randrange(3, 7)
    targets = [target for loss in first if type(loss) is float for target in (loss, math.nextafter(loss, math.inf))]
    return {"steps": steps, "counts": [len(train(target, steps)) for target in targets]}


def gives_up(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overfits to an unreachable target, in many steps and in none. The rate is 0, so the loss is constant."""
    steps, types, counts, losses, logits, ran = random.Random(seed).randrange(50, 71), [], [], [], [], []

    def limit(_: Tensor) -> None:
        if passes.passes > 2 * steps + max_steps:  # as in a loop that waits for a count equal to max_steps
            raise RuntimeError(f"with max_steps={max_steps}, the model ran {passes.passes} times, and the loop goes on")

    for max_steps in (steps, 0):
        model = make_model(seed)
        passes = ForwardRecorder(model, limit)
        answers = list_of_floats(learner.overfit_one_batch(model, *make_batch(seed), 0.0, 0.0, max_steps))
        types.append(answers["type"])
        counts.append(len(answers["losses"]))
        losses += answers["losses"]
        logits.append(passes.logits())
        ran.append(len(passes.inputs))
    asked = [steps, 0]
    return {"types": types, "max_steps": asked, "counts": counts, "losses": losses, "logits": logits, "ran": ran}


def overfit_in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes two steps of a model with dropout and old gradients, in training and in evaluation mode.

    Returns the losses of both, and the weights of a layer that is not used.
    """

    def train(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        unused = [*model.get_submodule("unused").parameters()]
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 100.0) if parameter.requires_grad else None
        losses = list_of_floats(learner.overfit_one_batch(model, x, y, 0.02, 0.0, 2))["losses"][:2]
        return [*losses, float(flat(unused).sum())]

    return in_both_modes(train, seed)


# --------------------------------------------------------------------------------------------------------- checkpoint
DROPOUTS = (0.0, 0.5)


def _make(seed: int, kind: int, dropout: float) -> tuple[GPT, torch.optim.Optimizer]:
    """Returns a model, in float32 if it has dropout, and AdamW or SGD with momentum, in two groups.

    The seed of the data is `kind`: two models of one kind differ in their weights alone.
    """
    torch.manual_seed(seed)
    model = new_model(Sizes(kind), dropout, 1.0, averages=True)
    if not dropout:
        return (model := model.double()), ADAMW(groups(model), lr=0.05)
    return model, SGD(groups(model), lr=0.05, momentum=0.5) if kind % 2 else ADAMW(groups(model), lr=0.05)


def _go_on(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, steps: range) -> list[float]:
    """Trains for these steps like the loop on the lab's page, and returns the losses."""
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, *make_batch(seed, step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def _validate(model: nn.Module, seed: int) -> float:
    """Returns the loss in evaluation mode, which depends on the averages of BatchNorm; draws no random numbers."""
    loss = loss_of(model.eval(), *make_batch(seed, 99)).item()
    model.train()
    return loss


def _step(seed: int) -> int:
    return random.Random(seed).randrange(100, 10**6)


def _name(seed: int) -> str:
    return f"checkpoint-{_step(seed)}{('', '.bin')[seed % 2]}"


def _save(learner: ModuleType, seed: int, dropout: float) -> dict[str, Any]:
    """Saves twice at one place, and later at another. Hands over the bytes of the first place, and its weights.

    The current folder is another one: a file that is saved there is not found by the process that loads.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, step = Path(folder, _name(seed)), _step(seed)
        model, optimizer = _make(seed, seed, dropout)
        optimizer.param_groups[0].update(weight_decay=0.2, lr=0.04)
        learner.save_checkpoint(path, model, optimizer, step - 3)  # an older checkpoint, which the next replaces
        model.train()
        _go_on(model, optimizer, seed, range(3))
        optimizer.param_groups[0]["lr"] = 0.02  # as by a schedule
        model.norm.eval()  # one layer is in the other mode
        learner.save_checkpoint(path, model, optimizer, step)
        files = sorted(file.name for file in path.parent.iterdir())
        handed = {f"{HANDED}weights": weights(model)}
        left = gradients_and_gaps(model)
        modes = [in_training(module) for module in model.modules()]
        model.train()
        uninterrupted = _go_on(model, optimizer, seed, range(3, 7))
        endings = "tmp", "temp", "partial", "part", "bak", "new", "old"
        beside = [path.with_name(f"later.{ending}") for ending in endings]
        for file in beside:
            file.write_text(file.name)  # of another program
        learner.save_checkpoint(path.with_name("later.pt"), model, optimizer, step + 4)  # must not change the first
        lost = [file.name for file in beside if not file.is_file() or file.read_bytes() != file.name.encode()]
        if path.is_file():
            handed[f"{HANDED}file"] = np.frombuffer(path.read_bytes(), np.uint8)
    return {"uninterrupted": uninterrupted, "gradients": left, "modes": modes, "files": files, "lost": lost} | handed


def save(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves and continues. The model has no dropout."""
    return _save(learner, seed, DROPOUTS[0])


def save_with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves and continues a model with dropout, which draws random numbers in each step."""
    return _save(learner, seed, DROPOUTS[1])


@contextlib.contextmanager
def _saved(saved: dict[str, Any]) -> Iterator[Path]:
    """Yields the path of the file that `_save` has handed over, moved and renamed; nothing is there if it has none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "moved.pt")
        if f"{HANDED}file" in saved:
            path.write_bytes(saved[f"{HANDED}file"].tobytes())
        yield path


def _load(learner: ModuleType, seed: int, dropout: float, saved: dict[str, Any]) -> dict[str, Any]:
    """Loads the handed file in a process that has not saved it, and continues."""
    with _saved(saved) as path:
        model, optimizer = _make(seed + 1, seed, dropout)  # other weights, another random state, other settings
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        content = path.read_bytes() if path.exists() else b""
        model.eval().norm.train()
        step = learner.load_checkpoint(path, model, optimizer)
        left = [file.name for file in path.parent.iterdir()]
        unchanged = left == [path.name] and path.read_bytes() == content
    modes = [in_training(module) for module in model.modules()]
    strange = [name for name, parameter in nn.Module.named_parameters(model) if id(parameter) not in held]
    validated = _validate(model, seed)
    resumed = _go_on(model, optimizer, seed, range(3, 7))
    return {
        "first": resumed[:1],
        "later": resumed[1:],
        "strange": len(strange),
        "validated": validated,
        "unchanged": unchanged,
        "loaded": modes,
        "type": type_name(step),
        "step": plain_number(step),
    }


def resume(learner: ModuleType, seed: int, saved: dict[str, Any]) -> dict[str, Any]:
    """Loads what `save` has saved into a new model, and continues."""
    return _load(learner, seed, DROPOUTS[0], saved)


def resume_with_dropout(learner: ModuleType, seed: int, saved: dict[str, Any]) -> dict[str, Any]:
    """Loads what `save_with_dropout` has saved into a new model, and continues."""
    return _load(learner, seed, DROPOUTS[1], saved)


def _numbers(content: Any) -> Iterator[np.ndarray]:
    """Yields the numbers of each float64 tensor in a file of any structure: the model is in float64."""
    if isinstance(content, dict | list | tuple):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _numbers(part)
    elif isinstance(content, Tensor) and content.dtype == torch.float64:
        yield flat([content])


class Trap:
    """Content of a hostile file: unpickling it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def file_is_safe(learner: ModuleType, seed: int, saved: dict[str, Any]) -> dict[str, Any]:
    """Tells whether the file opens with weights_only=True, and whether load_checkpoint opens or runs hostile files.

    One of these holds an object alone, one all that the file holds and this object. `held` is the share of the weights
    that are in the file, `sum` their sum.
    """
    with _saved(saved) as path:
        if not path.exists():
            return {"file": "missing", "holds": "", "held": 0.0, "sum": 0.0, "sprung": False, "loaded": 0}
        declared = torch.serialization.get_safe_globals()  # by the learner's file, not by other programs
        torch.serialization.clear_safe_globals()
        held: list[Any] = []
        refused = _failure(lambda: held.append(torch.load(path, weights_only=True)))
        torch.serialization.add_safe_globals(declared)
        holds = re.search(r"GLOBAL (\S+)", refused)
        model, optimizer = _make(seed, seed, DROPOUTS[0])
        sprung, loaded = path.with_name("sprung"), 0
        trap = Trap(sprung)
        for hostile in (trap, {**held[0], "more": trap} if held and type(held[0]) is dict else [*held, trap]):
            torch.save(hostile, path)
            loaded += not _failure(lambda: learner.load_checkpoint(path, model, optimizer))
        wanted = saved[f"{HANDED}weights"]
        inside = np.isin(wanted, np.concatenate([np.zeros(0), *_numbers(held)]))
        return {
            "loaded": loaded,
            "file": "refused" if refused else "opens",
            "holds": holds[1] if holds else "",
            "held": float(inside.mean()),
            "sum": float(wanted[inside].sum()),
            "sprung": sprung.exists(),
        }


def _failure(action: Callable[[], object]) -> str:
    try:
        action()
    except Exception as error:  # every error counts as a failure
        return str(error) or "without a word"
    return ""
