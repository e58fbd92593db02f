"""Probes of Lab 02: each calls the learner's code on random inputs, and returns its results as plain values.

Everything is computed in float64, where equivalent computations agree to about 1e-13. The judges' tolerance of 1e-9 is
far from these differences and from those of mistakes.
"""

import functools
import math
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.exercises.probes.forward_recorder import ForwardRecorder
from rankzero.exercises.probes.run_in_fork import run_in_fork
from rankzero.exercises.probes.untrusted_values import (
    gradients,
    in_training,
    plain_number,
    plain_numbers,
    type_name,
    weights,
)
from rankzero.learn.models.gpt import GPT, GPTConfig

VOCAB, BLOCK = 13, 6


def make_model(seed: int, dropout: float = 0.0, sure: float = 1.0) -> GPT:
    """Returns a tiny GPT in float64, in training mode. `sure` scales its logits, and with them its losses."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8, dropout=dropout))
    with torch.no_grad():  # larger weights than usual, so that the loss is far from ln V and mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.head.weight.mul_(sure)
    return model.double()


def make_batch(seed: int, size: int = 4) -> tuple[Tensor, Tensor]:
    """Returns random tokens and targets, int64 [size, BLOCK] each, with token 0, which some code takes for padding."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, BLOCK), generator=generator)
    x[0, 0] = y[0, 0] = 0
    return x, y


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def in_both_modes(train: Callable[[nn.Module, Tensor, Tensor], Any], seed: int) -> dict[str, Any]:
    """Calls `train` with a model in training mode and in evaluation mode; returns its losses and the modes afterwards.

    The model has dropout, whose random generator is seeded just before.
    """
    losses, left = [], []
    for training in (True, False):
        model = make_model(seed, dropout=0.5).train(training)
        modules = [*model.modules()]
        torch.manual_seed(2**31 + seed)  # a seed that no learner would choose
        returned = train(model, *make_batch(seed))
        losses += (plain_numbers(returned) or []) if type(returned) is list else [plain_number(returned)]
        left.append([in_training(module) for module in modules])
    return {"losses": losses, "left": left}


# --------------------------------------------------------------------------------------------------------- train_step
def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step with SGD, which shows scales that AdamW would hide. The loss and its gradients are large."""
    model, (x, y) = make_model(seed, sure=30.0), make_batch(seed)
    loss = learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)
    return {"type": type_name(loss), "loss": plain_number(loss), "weights": weights(model)}


def three_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes three steps on three batches."""
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        learner.train_step(model, optimizer, *make_batch(seed + step))
    return {"weights": weights(model)}


def after_a_strange_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step after a backward pass of other code, such as a gradient monitor or a failed step."""
    model = make_model(seed)
    loss_of(model, *make_batch(seed + 1)).backward()
    learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), *make_batch(seed))
    return {"weights": weights(model)}


def step_in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes one step of a model with dropout, in training and in evaluation mode."""

    def train(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        return learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)

    return in_both_modes(train, seed)


# ----------------------------------------------------------------------------------------------------------- evaluate
def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches of 5, 5 and 1 sequences; only the last batch is hard. A generator has no length."""
    for number, size in enumerate((5, 5, 1)):
        x, y = make_batch(seed + number, size)
        yield (x, y if size == 1 else x)


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates batches of different size and difficulty, with large losses."""
    loss = learner.evaluate(make_model(seed, sure=200.0), batches(seed))
    return {"type": type_name(loss), "loss": plain_number(loss)}


def with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates a model with much dropout that is in training mode."""
    model = make_model(seed, dropout=0.5)
    return {"loss": plain_number(learner.evaluate(model, batches(seed)))}


def what_is_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the tensors that autograd saves during the evaluation, and returns the weights afterwards."""
    model, kept = make_model(seed), 0
    passes = ForwardRecorder(model)

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += 1
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        learner.evaluate(model, batches(seed))
    return {"kept": kept, "weights": weights(model), "logits": passes.logits()}


def modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the mode of each part of the model after the evaluation."""
    left, logits = [], []
    for training in (True, False):
        model = make_model(seed).train(training)
        modules, passes = [*model.modules()], ForwardRecorder(model)
        learner.evaluate(model, batches(seed))
        left.append([in_training(module) for module in modules])
        logits.append(passes.logits())
    return {"left": left, "logits": logits}


def switches(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Evaluates with gradients on and off, one layer frozen; returns the global switch and requires_grad afterwards."""
    left, model = [], make_model(seed)
    model.position_embedding.requires_grad_(False)
    parameters, passes = [*model.parameters()], ForwardRecorder(model)
    for on in (True, False):
        with torch.set_grad_enabled(on):
            learner.evaluate(model, batches(seed))
            left.append(torch.is_grad_enabled())
    trainable = [parameter.requires_grad for parameter in parameters]
    return {"grad": left, "trainable": trainable, "logits": passes.logits()}


def what_is_disturbed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns, after an evaluation: accumulated gradients, the next random number, and a loss with dropout."""
    model = make_model(seed)
    loss_of(model, *make_batch(seed)).backward()
    passes = ForwardRecorder(model)
    learner.evaluate(model, batches(seed))
    random_number = torch.rand(1).item()
    dropping = make_model(seed, dropout=0.5)
    learner.evaluate(dropping, batches(seed))
    torch.manual_seed(seed)
    after = loss_of(dropping.train(), *make_batch(seed)).item()
    return {"gradients": gradients(model), "random": random_number, "loss": after, "logits": passes.logits()}


# ------------------------------------------------------------------------------------------------------ learning_rate
def schedule(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the learning rates of a random schedule, from the first step to some steps after the last."""
    draw = random.Random(seed)
    peak, warmup = draw.uniform(0.1, 1.0), draw.randrange(3, 9)
    total, floor = warmup + draw.randrange(8, 20), peak * draw.uniform(0.05, 0.3)

    def rates(steps: range) -> list[float | None]:
        return [plain_number(learner.learning_rate(step, peak, warmup, total, floor)) for step in steps]

    return {
        "peak": peak,
        "warmup_steps": warmup,
        "total_steps": total,
        "floor": floor,
        "warmup": rates(range(warmup)),
        "cosine": rates(range(warmup, total + 1)),
        "after": rates(range(total + 1, 2 * total)),
    }


def no_warmup(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the learning rates of a schedule without warm-up."""
    draw = random.Random(seed)
    peak, total = draw.uniform(0.1, 1.0), draw.randrange(8, 20)
    return {"rates": [plain_number(learner.learning_rate(step, peak, 0, total, peak / 7)) for step in range(total + 1)]}


# -------------------------------------------------------------------------------------------------- overfit_one_batch
def overfit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overfits to a target that takes many steps."""
    model, (x, y) = make_model(seed), make_batch(seed)
    losses = learner.overfit_one_batch(model, x, y, lr=0.02, target=1.0, max_steps=200)
    numbers = plain_numbers(losses)
    return {
        "type": type_name(losses),
        "losses": numbers[:5] if numbers else numbers,
        "count": len(numbers) if numbers is not None else None,
        "weights": weights(model),
    }


def at_the_target(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overfits to a target that is exactly the first loss."""

    def train(target: float, max_steps: int) -> list[float | None]:
        losses = learner.overfit_one_batch(make_model(seed), *make_batch(seed), 0.02, target, max_steps)
        return plain_numbers(losses) or []

    first = train(math.inf, 1)  # every loss is below infinity
    return {"count": len(train(first[0] or 0.0, 3)) if first else None}


def gives_up(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overfits to an unreachable target, in some steps and in none. The rate is 0, so the loss is constant."""
    steps, types, counts, logits = random.Random(seed).randrange(3, 9), [], [], []
    for max_steps in (steps, 0):
        model = make_model(seed)
        passes = ForwardRecorder(model)
        losses = learner.overfit_one_batch(model, *make_batch(seed), 0.0, 0.0, max_steps)
        types.append(type_name(losses))
        counts.append(len(losses) if type(losses) is list else None)
        logits.append(passes.logits())
    return {"types": types, "max_steps": [steps, 0], "counts": counts, "logits": logits}


def overfit_in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes two steps of a model with dropout, in training and in evaluation mode."""
    return in_both_modes(lambda model, x, y: learner.overfit_one_batch(model, x, y, 0.02, 0.0, 2)[:2], seed)


# --------------------------------------------------------------------------------------------------------- checkpoint
DROPOUTS = (0.0, 0.5)


def _go_on(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, steps: range) -> list[float]:
    """Trains for these steps like the loop on the lab's page, and returns the losses."""
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, *make_batch(seed + step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _save(learner: ModuleType, path: Path, seed: int, dropout: float) -> dict[str, Any]:
    step = _step(seed)
    model = make_model(seed, dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, betas=(0.8, 0.95))
    learner.save_checkpoint(path, model, optimizer, step - 3)  # an older checkpoint, which the next replaces
    _go_on(model, optimizer, seed, range(3))
    optimizer.param_groups[0]["lr"] = 0.02  # as by a schedule
    learner.save_checkpoint(path, model, optimizer, step)
    left = gradients(model)
    uninterrupted = _go_on(model, optimizer, seed, range(3, 7))
    learner.save_checkpoint(path.with_name("later.pt"), model, optimizer, step + 4)  # must not change the first file
    return {"uninterrupted": uninterrupted, "gradients": left}


def _step(seed: int) -> int:
    return random.Random(seed).randrange(100, 10**6)


def _load(learner: ModuleType, path: Path, seed: int, dropout: float) -> dict[str, Any]:
    model = make_model(seed + 1, dropout)  # other weights, another random state
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)  # other settings
    step = learner.load_checkpoint(path, model, optimizer)
    resumed = _go_on(model, optimizer, seed, range(3, 7))
    return {"first": resumed[:1], "later": resumed[1:], "type": type_name(step), "step": plain_number(step)}


def _with_each(work: Callable[[Path, float], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Returns the answers of `work` for a model without dropout and for a model with dropout, in separate folders."""
    answers: dict[str, Any] = {}
    for dropout in DROPOUTS:
        (place := folder / str(dropout)).mkdir(exist_ok=True)
        answers |= {f"{dropout} {name}": answer for name, answer in work(place / "checkpoint.pt", dropout).items()}
    return answers


@functools.cache
def _save_and_load(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves in one process, which ends, and loads in another process, which has only the files.

    Both models share these two processes, because starting a process takes longer than the computation.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saved = run_in_fork(
            learner, lambda: _with_each(lambda path, dropout: _save(learner, path, seed, dropout), folder)
        )
        return saved | run_in_fork(
            learner, lambda: _with_each(lambda path, dropout: _load(learner, path, seed, dropout), folder)
        )


def _of(dropout: float, answers: dict[str, Any]) -> dict[str, Any]:
    return {key.split(" ")[1]: answer for key, answer in answers.items() if key.startswith(f"{dropout} ")}


def resume(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves and continues; loads into a new model and continues. The model has no dropout."""
    return _of(DROPOUTS[0], _save_and_load(learner, seed))


def resume_with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves, loads and continues a model with dropout, which draws random numbers in each step."""
    return _of(DROPOUTS[1], _save_and_load(learner, seed))


def _numbers(content: Any) -> Iterator[float]:
    """Yields the largest number of each float64 tensor in a file of any structure: the model is in float64."""
    if isinstance(content, dict | list | tuple):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _numbers(part)
    elif isinstance(content, Tensor) and content.dtype == torch.float64 and content.numel():
        yield float(content.max())


class Trap:
    """Content of a hostile file: unpickling it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def file_is_safe(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Tells whether the file opens with weights_only=True, and whether load_checkpoint runs code of a hostile file."""
    with tempfile.TemporaryDirectory() as folder:
        path, sprung = Path(folder) / "checkpoint.pt", Path(folder) / "sprung"
        model = make_model(seed)
        optimizer = torch.optim.AdamW(model.parameters())
        learner.save_checkpoint(path, model, optimizer, 3)
        if not path.exists():
            return {"file": "missing", "holds": "", "largest": None, "sprung": False}
        declared = torch.serialization.get_safe_globals()  # by the learner's file, not by other programs
        torch.serialization.clear_safe_globals()
        largest: list[float] = []
        refused = _failure(lambda: largest.extend(_numbers(torch.load(path, weights_only=True))))
        torch.serialization.add_safe_globals(declared)
        holds = re.search(r"GLOBAL (\S+)", refused)
        torch.save(Trap(sprung), path)
        _failure(lambda: learner.load_checkpoint(path, model, optimizer))
        return {
            "file": "refused" if refused else "opens",
            "holds": holds[1] if holds else "",
            "largest": max(largest, default=None),
            "sprung": sprung.exists(),
        }


def _failure(action: Callable[[], object]) -> str:
    try:
        action()
    except Exception as error:  # every error counts as a failure
        return str(error) or "without a word"
    return ""
