"""Lab 02, probes: they call the learner's code on fresh random inputs and return what came of it as plain values.

Everything is computed in float64, so that a different but equal way to compute agrees to about 1e-13, and the judges'
1e-9 separates right from wrong with room on both sides.
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
    """A tiny GPT in float64, in training mode. `sure` scales its logits, and losses with them."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8, dropout=dropout))
    with torch.no_grad():  # larger weights than usual, so that the loss is far from ln V and mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.head.weight.mul_(sure)
    return model.double()


def make_batch(seed: int, size: int = 4) -> tuple[Tensor, Tensor]:
    """Random tokens and targets, int64 [size, BLOCK] each. Token 0, which some take for padding, is among them."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, BLOCK), generator=generator)
    x[0, 0] = y[0, 0] = 0
    return x, y


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def in_both_modes(train: Callable[[nn.Module, Tensor, Tensor], Any], seed: int) -> dict[str, Any]:
    """What `train` returns for a model with dropout, found in training and in evaluation mode, and the modes it leaves.

    Dropout draws from a generator that is seeded just before.
    """
    losses, left = [], []
    for training in (True, False):
        model = make_model(seed, dropout=0.5).train(training)
        modules = [*model.modules()]
        torch.manual_seed(2**31 + seed)  # no seed that somebody would write
        found = train(model, *make_batch(seed))
        losses += (plain_numbers(found) or []) if type(found) is list else [plain_number(found)]
        left.append([in_training(module) for module in modules])
    return {"losses": losses, "left": left}


# --------------------------------------------------------------------------------------------------------- train_step
def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step of plain SGD, which shows every scale that AdamW would hide. The loss and its gradients are large."""
    model, (x, y) = make_model(seed, sure=30.0), make_batch(seed)
    loss = learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)
    return {"type": type_name(loss), "loss": plain_number(loss), "weights": weights(model)}


def three_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three steps on three batches, one after another."""
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        learner.train_step(model, optimizer, *make_batch(seed + step))
    return {"weights": weights(model)}


def after_a_strange_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step after somebody else has called backward: a gradient monitor, say, or a failed step."""
    model = make_model(seed)
    loss_of(model, *make_batch(seed + 1)).backward()
    learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), *make_batch(seed))
    return {"weights": weights(model)}


def step_in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step of a model with dropout, in training and in evaluation mode."""

    def train(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        return learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)

    return in_both_modes(train, seed)


# ----------------------------------------------------------------------------------------------------------- evaluate
def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Three batches of 5, 5 and 1 sequences; the last one alone is hard. A generator: it has no length."""
    for number, size in enumerate((5, 5, 1)):
        x, y = make_batch(seed + number, size)
        yield (x, y if size == 1 else x)


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Batches of different size and difficulty, with large losses."""
    loss = learner.evaluate(make_model(seed, sure=200.0), batches(seed))
    return {"type": type_name(loss), "loss": plain_number(loss)}


def with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model with much dropout, left in training mode."""
    model = make_model(seed, dropout=0.5)
    return {"loss": plain_number(learner.evaluate(model, batches(seed)))}


def what_is_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the tensors that autograd is asked to keep meanwhile, and looks at the weights after."""
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
    """Which mode each part of the model is left in."""
    left, logits = [], []
    for training in (True, False):
        model = make_model(seed).train(training)
        modules, passes = [*model.modules()], ForwardRecorder(model)
        learner.evaluate(model, batches(seed))
        left.append([in_training(module) for module in modules])
        logits.append(passes.logits())
    return {"left": left, "logits": logits}


def switches(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Whether gradients are on after it, found on and off, and which weights ask for them; one layer is frozen."""
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
    """Gradients that wait for their update, the next random number, and the next loss of a model with dropout."""
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
    """Every rate of a random schedule, from the first step to some after the last."""
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
    """A schedule without a warm-up."""
    draw = random.Random(seed)
    peak, total = draw.uniform(0.1, 1.0), draw.randrange(8, 20)
    return {"rates": [plain_number(learner.learning_rate(step, peak, 0, total, peak / 7)) for step in range(total + 1)]}


# -------------------------------------------------------------------------------------------------- overfit_one_batch
def overfit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """To a target that takes a good number of steps."""
    model, (x, y) = make_model(seed), make_batch(seed)
    losses = learner.overfit_one_batch(model, x, y, lr=0.02, target=1.0, max_steps=200)
    found = plain_numbers(losses)
    return {
        "type": type_name(losses),
        "losses": found[:5] if found else found,
        "count": len(found) if found is not None else None,
        "weights": weights(model),
    }


def at_the_target(learner: ModuleType, seed: int) -> dict[str, Any]:
    """To a target that is exactly the first loss."""

    def train(target: float, max_steps: int) -> list[float | None]:
        losses = learner.overfit_one_batch(make_model(seed), *make_batch(seed), 0.02, target, max_steps)
        return plain_numbers(losses) or []

    first = train(math.inf, 1)  # every loss is below that
    return {"count": len(train(first[0] or 0.0, 3)) if first else None}


def gives_up(learner: ModuleType, seed: int) -> dict[str, Any]:
    """To a target out of reach, with some steps and with none. The rate is 0: the loss stays where it is."""
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
    """Two steps of a model with dropout, in training and in evaluation mode."""
    return in_both_modes(lambda model, x, y: learner.overfit_one_batch(model, x, y, 0.02, 0.0, 2)[:2], seed)


# --------------------------------------------------------------------------------------------------------- checkpoint
DROPOUTS = (0.0, 0.5)


def _go_on(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, steps: range) -> list[float]:
    """Trains for some steps as the page's loop does; the losses."""
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
    learner.save_checkpoint(path, model, optimizer, step - 3)  # an older one, which the next is to replace
    _go_on(model, optimizer, seed, range(3))
    optimizer.param_groups[0]["lr"] = 0.02  # as a schedule does
    learner.save_checkpoint(path, model, optimizer, step)
    left = gradients(model)
    uninterrupted = _go_on(model, optimizer, seed, range(3, 7))
    learner.save_checkpoint(path.with_name("later.pt"), model, optimizer, step + 4)  # no concern of the first
    return {"uninterrupted": uninterrupted, "gradients": left}


def _step(seed: int) -> int:
    return random.Random(seed).randrange(100, 10**6)


def _load(learner: ModuleType, path: Path, seed: int, dropout: float) -> dict[str, Any]:
    model = make_model(seed + 1, dropout)  # other weights, another state of the generator
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)  # other settings
    step = learner.load_checkpoint(path, model, optimizer)
    resumed = _go_on(model, optimizer, seed, range(3, 7))
    return {"first": resumed[:1], "later": resumed[1:], "type": type_name(step), "step": plain_number(step)}


def _with_each(work: Callable[[Path, float], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The answers of `work` for a model without dropout and for one with it, each in a folder of its own."""
    answers: dict[str, Any] = {}
    for dropout in DROPOUTS:
        (place := folder / str(dropout)).mkdir(exist_ok=True)
        answers |= {f"{dropout} {name}": answer for name, answer in work(place / "checkpoint.pt", dropout).items()}
    return answers


@functools.cache
def _save_and_load(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One process saves and ends; another loads, and has nothing but the files.

    Both models in the same two processes: a process costs more than all that it computes.
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
    """Save, go on; load into a fresh model, go on; without dropout."""
    return _of(DROPOUTS[0], _save_and_load(learner, seed))


def resume_with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same with dropout, which draws random numbers in each step."""
    return _of(DROPOUTS[1], _save_and_load(learner, seed))


def _numbers(content: Any) -> Iterator[float]:
    """The largest number of each float64 tensor in a file, however it is laid out: the model is in float64."""
    if isinstance(content, dict | list | tuple):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _numbers(part)
    elif isinstance(content, Tensor) and content.dtype == torch.float64 and content.numel():
        yield float(content.max())


class Trap:
    """A hostile file's content: whoever unpickles it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def file_is_safe(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Whether the file opens with weights_only=True, and whether load_checkpoint runs what a hostile one names."""
    with tempfile.TemporaryDirectory() as folder:
        path, sprung = Path(folder) / "checkpoint.pt", Path(folder) / "sprung"
        model = make_model(seed)
        optimizer = torch.optim.AdamW(model.parameters())
        learner.save_checkpoint(path, model, optimizer, 3)
        if not path.exists():
            return {"file": "missing", "holds": "", "largest": None, "sprung": False}
        declared = torch.serialization.get_safe_globals()  # by the learner's file; elsewhere nobody knows of it
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
    except Exception as error:  # whatever it is, it did not work
        return str(error) or "without a word"
    return ""
