"""Lab 02, probes: they call the learner's code on fresh random inputs and return what came of it as plain values.

Everything is computed in float64, so that a different but equal way to compute agrees to about 1e-13, and the judges'
1e-9 separates right from wrong with room on both sides.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.gpt import GPT, GPTConfig

VOCAB, BLOCK = 13, 6


def make_model(seed: int, dropout: float = 0.0) -> GPT:
    """A tiny GPT in float64, in training mode."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8, dropout=dropout))
    with torch.no_grad():  # larger weights than usual, so that the loss is far from ln V and mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def make_batch(seed: int, size: int = 4) -> tuple[Tensor, Tensor]:
    """Random tokens and random targets, int64 [size, BLOCK] each."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, BLOCK), generator=generator)
    return x, y


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def number(value: Any) -> float | None:
    """The value of a number or of a one-element tensor; None for anything else."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach())
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def numbers(values: Any) -> list[float | None] | None:
    """The same for a list."""
    return [number(value) for value in values] if isinstance(values, list) else None


def weights(model: nn.Module) -> np.ndarray:
    """All weights in one array."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy().copy()


# --------------------------------------------------------------------------------------------------------- train_step
def one_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step of plain SGD, which shows every scale that AdamW would hide."""
    model, (x, y) = make_model(seed), make_batch(seed)
    loss = learner.train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)
    return {"type": type(loss).__name__, "loss": number(loss), "weights": weights(model)}


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


def with_the_models_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One step of a model with dropout, in training mode; dropout draws from a generator seeded just before."""
    model, (x, y) = make_model(seed, dropout=0.5), make_batch(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(seed)
    return {"loss": number(learner.train_step(model, optimizer, x, y)), "training": model.training}


# ----------------------------------------------------------------------------------------------------------- evaluate
def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Three batches of 5, 5 and 1 sequences; the last one alone is hard. A generator: it has no length."""
    for number_, size in enumerate((5, 5, 1)):
        x, y = make_batch(seed + number_, size)
        yield (x, y if size == 1 else x)


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Batches of different size and difficulty."""
    loss = learner.evaluate(make_model(seed), batches(seed))
    return {"type": type(loss).__name__, "loss": number(loss)}


def with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model with much dropout, left in training mode."""
    model = make_model(seed, dropout=0.5)
    return {"loss": number(learner.evaluate(model, batches(seed)))}


def what_is_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the tensors that autograd is asked to keep meanwhile, and looks at the weights after."""
    model, kept = make_model(seed), 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += 1
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        learner.evaluate(model, batches(seed))
    return {"kept": kept, "weights": weights(model)}


def modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Which mode the model is left in, and whether gradients are still on."""
    left, trainable = [], True
    for training in (True, False):
        model = make_model(seed).train(training)
        learner.evaluate(model, batches(seed))
        left.append(model.training)
        trainable = trainable and all(parameter.requires_grad for parameter in model.parameters())
    return {"left": left, "grad": torch.is_grad_enabled(), "trainable": trainable}


# ------------------------------------------------------------------------------------------------------ learning_rate
def schedule(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Every rate of a random schedule, from the first step to some after the last."""
    draw = random.Random(seed)
    peak, warmup = draw.uniform(0.1, 1.0), draw.randrange(3, 9)
    total, floor = warmup + draw.randrange(8, 20), peak * draw.uniform(0.05, 0.3)

    def rates(steps: range) -> list[float | None]:
        return [number(learner.learning_rate(step, peak, warmup, total, floor)) for step in steps]

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
    return {"rates": [number(learner.learning_rate(step, peak, 0, total, peak / 7)) for step in range(total + 1)]}


# -------------------------------------------------------------------------------------------------- overfit_one_batch
def overfit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """To a target that takes a good number of steps."""
    model, (x, y) = make_model(seed), make_batch(seed)
    losses = learner.overfit_one_batch(model, x, y, lr=0.02, target=1.0, max_steps=200)
    found = numbers(losses)
    return {
        "type": type(losses).__name__,
        "losses": found[:5] if found else found,
        "count": len(found) if found is not None else None,
        "weights": weights(model),
    }


def gives_up(learner: ModuleType, seed: int) -> dict[str, Any]:
    """To a target out of reach."""
    draw = random.Random(seed)
    max_steps = draw.randrange(3, 9)
    losses = learner.overfit_one_batch(make_model(seed), *make_batch(seed), lr=0.02, target=0.0, max_steps=max_steps)
    found = numbers(losses)
    return {"max_steps": max_steps, "count": len(found) if found is not None else None}


# --------------------------------------------------------------------------------------------------------- checkpoint
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


def _save_and_load(learner: ModuleType, seed: int, dropout: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        model = make_model(seed, dropout)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        _go_on(model, optimizer, seed, range(3))
        learner.save_checkpoint(path, model, optimizer, 3)
        uninterrupted = _go_on(model, optimizer, seed, range(3, 7))
        learner.save_checkpoint(
            path.with_name("later.pt"), model, optimizer, 7
        )  # another file: no concern of the first

        other = make_model(seed + 1, dropout)  # other weights, another state of the generator
        fresh = torch.optim.AdamW(other.parameters(), lr=0.05)
        step = learner.load_checkpoint(path, other, fresh)
        resumed = _go_on(other, fresh, seed, range(3, 7))
    return {"uninterrupted": uninterrupted, "resumed": resumed, "type": type(step).__name__, "step": number(step)}


def resume(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Save, go on; load into a fresh model, go on; without dropout."""
    return _save_and_load(learner, seed, dropout=0.0)


def resume_with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same with dropout, which draws random numbers in each step."""
    return _save_and_load(learner, seed, dropout=0.5)


def file_is_safe(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Whether the file opens with weights_only=True."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        model = make_model(seed)
        learner.save_checkpoint(path, model, torch.optim.AdamW(model.parameters()), 3)
        if not path.exists():
            return {"file": "missing"}
        try:
            torch.load(path, weights_only=True)
        except Exception:  # whatever it is, the file did not open
            return {"file": "refused"}
        return {"file": "opens"}
