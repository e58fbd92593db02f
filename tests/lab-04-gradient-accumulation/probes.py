"""Probes of Lab 04: each calls the learner's code on random inputs, and returns its results as plain values.

Everything is computed in float64, where the order of additions changes only the 16th digit, and a mistake changes one
of the first digits.
"""

import random
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.exercises.probes.forward_recorder import ForwardRecorder
from rankzero.exercises.probes.untrusted_values import (
    flat,
    gradients,
    in_training,
    plain_number,
    plain_numbers,
    tuple_items,
    type_name,
    weights,
)
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory

VOCAB, BLOCK = 13, 6
MicroBatch = tuple[Tensor, Tensor]


def make_model(seed: int, dropout: float = 0.0, sure: float = 1.0) -> GPT:
    """Returns a tiny GPT in float64, in training mode. `sure` scales its logits, and with them its losses."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8, dropout=dropout))
    with torch.no_grad():  # larger weights than usual, so that the loss is far from ln V and mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.head.weight.mul_(sure)
    return model.double()


def make_batch(seed: int, size: int, tokens: int = BLOCK) -> MicroBatch:
    """Returns random tokens and targets, int64 [size, tokens] each, with token 0, which some code takes for padding."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, tokens), generator=generator)
    x[0, 0] = y[0, 0] = 0
    return x, y


def make_micro_batches(seed: int, count: int, size: int = 2) -> list[MicroBatch]:
    """Returns `count` micro-batches of equal size and unequal difficulty."""
    batches = [make_batch(seed + 1000 * number, size) for number in range(count)]
    return [(x, y if number % 2 else x) for number, (x, y) in enumerate(batches)]


def split(seed: int) -> tuple[int, int]:
    """Returns the number of micro-batches and of sequences in each; the two numbers differ."""
    return random.Random(seed).choice([(3, 2), (4, 2), (4, 3), (3, 4), (3, 5)])


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    """Returns an SGD optimizer, which shows factors of the gradient that AdamW would hide."""
    return torch.optim.SGD(model.parameters(), lr=lr)


def kind_of(values: Any) -> str:
    """Returns a type such as 'list of float', 'list of float and Tensor' or 'tuple'."""
    if type(values) is not list:
        return type_name(values)
    return f"list of {' and '.join(sorted({type_name(value) for value in values})) or 'float'}"


def leave_old_gradients(model: nn.Module, seed: int) -> None:
    """Leaves gradients in the model, like a gradient monitor or a failed step."""
    loss_of(model, *make_batch(seed + 77, 3)).backward()


class Activations:
    """Records, at the end of each forward pass, the activations that autograd holds, in micro-batches."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        """Takes `x`, the input of one micro-batch."""
        self._model, self._x = model, x
        self._backwards = 0

    def during(self, work: Callable[[], Any]) -> dict[str, Any]:
        """Runs `work`, and returns the rounded counts, the number of backward passes, and the model's logits."""
        cpu, optimizer = torch.device("cpu"), sgd(self._model)
        with PhaseMemory(self._model, optimizer, cpu) as single:
            logits = self._model(self._x)
            single.record("one")
        del logits
        unit = single.rows[0].activations
        with PhaseMemory(self._model, optimizer, cpu) as memory:

            def forward(output: Tensor) -> None:
                if output.requires_grad:  # a forward pass without gradients saves no tensors
                    memory.record("forward")
                    output.register_hook(self._count)  # also counts torch.autograd.grad

            passes = ForwardRecorder(self._model, forward)
            work()
        held = [round(row.activations / unit, 2) for row in memory.rows]
        return {"held": held, "backwards": self._backwards, "logits": passes.logits()}

    def _count(self, gradient: Tensor) -> None:
        self._backwards += 1


class Stream:
    """Micro-batches that can be read once and have no length; counts the micro-batches read."""

    def __init__(self, micro_batches: list[MicroBatch]) -> None:
        self._micro_batches = iter(micro_batches)
        self.taken = 0

    def __iter__(self) -> Iterator[MicroBatch]:
        return self

    def __next__(self) -> MicroBatch:
        batch = next(self._micro_batches)
        self.taken += 1
        return batch


class Updates:
    """Records, at each optimizer.step(), the sequences that the model has processed and the micro-batches read."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, stream: Stream | None = None) -> None:
        self.after: list[int] = []  # sequences processed by the model
        self.taken: list[int] = []  # micro-batches read
        passes = ForwardRecorder(model)

        def note(*_: Any) -> None:
            self.after.append(sum(x.shape[0] for x in passes.inputs))
            self.taken.append(stream.taken if stream else 0)

        optimizer.register_step_post_hook(note)


# --------------------------------------------------------------------------------------------------------- accumulate
def whole_batch(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates one batch in k parts, with a large loss."""
    k, size = split(seed)
    model, (x, y) = make_model(seed, sure=30.0), make_batch(seed, k * size)
    before = weights(model)
    loss = learner.accumulate(model, x, y, k)
    return {
        "k": k,
        "type": type_name(loss),
        "loss": plain_number(loss),
        "gradients": gradients(model),
        "moved": int((weights(model) != before).sum()),
    }


def parts_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the activations that autograd holds at the end of each forward pass, in micro-batches."""
    model, (x, y) = make_model(seed), make_batch(seed, 8)
    activations = Activations(model, x[:2])
    return activations.during(lambda: learner.accumulate(model, x, y, 4))


def over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates a batch over old gradients."""
    model, (x, y) = make_model(seed), make_batch(seed, 6)
    leave_old_gradients(model, seed)
    learner.accumulate(model, x, y, 3)
    return {"gradients": gradients(model)}


def with_a_frozen_layer(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates the gradients of a model with one frozen parameter."""
    model, (x, y) = make_model(seed), make_batch(seed, 6)
    model.position_embedding.weight.requires_grad_(False)
    learner.accumulate(model, x, y, 3)
    return {"gradients": gradients(model), "trainable": [p.requires_grad for p in model.parameters()]}


def _in_both_modes(work: Callable[[nn.Module], Any], seed: int) -> dict[str, Any]:
    losses, left, passed = [], [], list[list[Any]]()
    for training in (True, False):
        model = make_model(seed, dropout=0.5).train(training)
        modules, passes = [*model.modules()], ForwardRecorder(model)
        torch.manual_seed(2**31 + seed)  # a seed that no learner would choose
        losses.append(plain_number(work(model)))
        left.append([in_training(module) for module in modules])
        passed += [x.tolist() for x in passes.inputs]
    return {"losses": losses, "left": left, "passed": passed}


def in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns losses with dropout, in training and in evaluation mode, and the modes afterwards."""
    return _in_both_modes(lambda model: learner.accumulate(model, *make_batch(seed, 6), 3), seed)


# -------------------------------------------------------------------------------------------------- accumulate_tokens
def make_ragged(seed: int) -> list[MicroBatch]:
    """Returns three micro-batches of different shapes and shares of scored tokens, each with a scored token."""
    draw = torch.Generator().manual_seed(seed)
    micro_batches = []
    for number, (size, tokens, share) in enumerate(((2, 6, 0.9), (4, 4, 0.3), (3, 5, 0.6))):
        x, y = make_batch(seed + 1000 * number, size, tokens)
        y = torch.where(torch.rand(y.shape, generator=draw) < share, y if number else x, -100)
        y[0, 0] = 0
        y[0, 1] = -100
        micro_batches.append((x, y))
    return micro_batches


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates micro-batches with different numbers of scored tokens, and large losses."""
    model = make_model(seed, sure=30.0)
    loss = learner.accumulate_tokens(model, make_ragged(seed))
    return {"type": type_name(loss), "loss": plain_number(loss), "gradients": gradients(model)}


def nothing_scored(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates micro-batches, one of which has no scored token."""
    model, (x, y) = make_model(seed), make_batch(seed, 3)
    micro_batches = make_ragged(seed)
    micro_batches.insert(seed % 3, (x, torch.full_like(y, -100)))
    loss = learner.accumulate_tokens(model, micro_batches)
    return {"loss": plain_number(loss), "gradients": gradients(model)}


def ragged_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the activations that autograd holds at the end of each forward pass, in micro-batches."""
    model, micro_batches = make_model(seed), make_micro_batches(seed, 4)
    activations = Activations(model, micro_batches[0][0])
    return activations.during(lambda: learner.accumulate_tokens(model, micro_batches))


def ragged_over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates micro-batches over old gradients."""
    model = make_model(seed)
    leave_old_gradients(model, seed)
    learner.accumulate_tokens(model, make_ragged(seed))
    return {"gradients": gradients(model)}


def the_callers_tensors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the micro-batches after the calls, losses with dropout in both modes, and the modes afterwards."""
    micro_batches = make_ragged(seed)
    observed = _in_both_modes(lambda model: learner.accumulate_tokens(model, micro_batches), seed)
    return observed | {
        "inputs": torch.cat([x.flatten() for x, _ in micro_batches]).numpy(),
        "targets": torch.cat([y.flatten() for _, y in micro_batches]).numpy(),
    }


# -------------------------------------------------------------------------------------------------------- train_epoch
def _epoch(learner: ModuleType, seed: int, count: int, k: int, old: bool = False) -> dict[str, Any]:
    model = make_model(seed)
    optimizer, stream = sgd(model), Stream(make_micro_batches(seed, count))
    if old:
        leave_old_gradients(model, seed)
    updates = Updates(model, optimizer, stream)
    losses = learner.train_epoch(model, optimizer, stream, k)
    return {
        "k": k,
        "type": kind_of(losses),
        "losses": plain_numbers(losses),
        "after": [sequences // 2 for sequences in updates.after],
        "weights": weights(model),
    }


def one_group(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on exactly one group of micro-batches."""
    k = 3 + seed % 2
    return _epoch(learner, seed, k, k)


def full_groups(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on three full groups."""
    k = 2 + seed % 2
    return _epoch(learner, seed, 3 * k, k)


def with_a_leftover(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on numbers of micro-batches that are not a multiple of a group, and on no micro-batch."""
    k = 3 + seed % 2
    counts = [2 * k + 2, k + 1, k - 1, 0]
    results = [_epoch(learner, seed, count, k) for count in counts]
    return {
        "k": k,
        "counts": counts,
        "after": [result["after"] for result in results],
        "losses": [result["losses"] for result in results],
        "weights": np.concatenate([result["weights"] for result in results]),
    }


def epoch_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the activations held at the end of each forward pass, and the micro-batches read at the first update."""
    k, model = 3, make_model(seed)
    optimizer, micro_batches = sgd(model, lr=0.0), make_micro_batches(seed, 9)  # lr 0: all passes have the same weights
    stream = Stream(micro_batches)
    activations = Activations(model, micro_batches[0][0])
    updates: list[Updates] = []

    def work() -> None:
        updates.append(Updates(model, optimizer, stream))
        learner.train_epoch(model, optimizer, stream, k)

    observed = activations.during(work)
    taken = updates[0].taken
    return observed | {"k": k, "taken": taken[0] if taken else None}


def epoch_over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on one group over old gradients."""
    return _epoch(learner, seed, 3, 3, old=True)


# ---------------------------------------------------------------------------------------------------------- clip_once
def make_gradients(seed: int, length: float, missing: bool = False) -> list[nn.Parameter]:
    """Returns parameters whose gradients have a total norm of `length`; with `missing`, one gradient is missing."""
    draw = torch.Generator().manual_seed(seed)
    parameters = []
    for number, shape in enumerate(((4, 3), (5,), (2, 2, 3))):
        parameter = nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64))
        parameter.grad = torch.randn(shape, generator=draw, dtype=torch.float64) * (1, 20, 0.1)[number]
        parameters.append(parameter)
    norm = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).norm()
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad *= length / norm
    if missing:
        parameters.insert(1, nn.Parameter(torch.ones(3, dtype=torch.float64)))
    return parameters


def by_hand(*arguments: Any, **settings: Any) -> None:
    """Replaces a function that all of torch's clipping functions call, however a file has imported them."""
    raise RuntimeError("clip_gradients is to be written by hand, without torch.nn.utils")


def _clipped(
    learner: ModuleType, parameters: list[nn.Parameter], max_norm: float, read_once: bool = True
) -> dict[str, Any]:
    before = [parameter.grad for parameter in parameters]
    values = [parameter.detach().clone() for parameter in parameters]
    with patch.object(nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", by_hand):
        norm = learner.clip_gradients((parameter for parameter in parameters) if read_once else parameters, max_norm)
    return {
        "type": type_name(norm),
        "norm": plain_number(norm),
        "max_norm": max_norm,
        "gradients": flat(torch.full_like(p, torch.nan) if p.grad is None else p.grad for p in parameters),
        "in place": all(p.grad is gradient for p, gradient in zip(parameters, before, strict=True)),
        "moved": sum(int((p.detach() != value).sum()) for p, value in zip(parameters, values, strict=True)),
    }


def a_long_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips a gradient that exceeds the limit by a random factor, from a generator and from a list."""
    draw = random.Random(seed)
    max_norm = draw.uniform(0.5, 2.0)
    length = max_norm * draw.uniform(3, 50)
    in_a_list = _clipped(learner, make_gradients(seed, length), max_norm, read_once=False)
    observed = _clipped(learner, make_gradients(seed, length), max_norm)
    return observed | {"in a list": in_a_list["gradients"]}


def near_the_limit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips gradients with norms below the limit of 2, of 0, and slightly above the limit."""
    results = [_clipped(learner, make_gradients(seed, length), 2.0) for length in (0.3, 0.0, 2.1)]
    return {
        "norms": [result["norm"] for result in results],
        "lengths": [float(np.linalg.norm(result["gradients"])) for result in results],
    }


def a_missing_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips gradients of parameters, one of which has no gradient."""
    return _clipped(learner, make_gradients(seed, 7.0, missing=True), 1.0)


def one_clipped_update(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes an update over old gradients, with a gradient far above the limit and with a gradient below the limit."""
    norms, final_weights, steps, observed = [], [], [], dict[str, Any]()
    micro_batches = make_micro_batches(seed, 3)
    for max_norm in (0.05, 1e6):
        model = make_model(seed)
        optimizer = sgd(model)
        updates = Updates(model, optimizer)
        leave_old_gradients(model, seed)
        activations = Activations(model, micro_batches[0][0])

        def work(model: nn.Module = model, optimizer: Any = optimizer, max_norm: float = max_norm) -> None:
            norms.append(learner.clipped_update(model, optimizer, micro_batches, max_norm))

        observed = activations.during(work)
        final_weights.append(weights(model))
        steps.append(len(updates.after))
    return observed | {
        "types": [type_name(norm) for norm in norms],
        "norms": [plain_number(norm) for norm in norms],
        "weights": np.concatenate(final_weights),
        "steps": steps,
    }


# ----------------------------------------------------------------------------------------------------------- schedule
def counts(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts updates, with and without a remainder."""
    draw = random.Random(seed)
    k = draw.randrange(3, 7)
    cases = [
        (draw.randrange(4, 9) * k, k, 1),
        (draw.randrange(4, 9) * k + draw.randrange(1, k), k, 1),
        (draw.randrange(4, 9) * k + 1, k, draw.randrange(2 * k, 3 * k)),
        (k - 1, k, 2),
    ]
    returned = [learner.count_updates(*case) for case in cases]
    return {
        "cases": [list(case) for case in cases],
        "types": [type_name(count) for count in returned],
        "counts": [plain_number(count) for count in returned],
    }


def scheduled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains two passes over seven micro-batches, three per update, with a learning rate that falls at every update."""
    model = make_model(seed)
    head, *rest = model.parameters()
    groups = [{"params": rest, "lr": 0.1}, {"params": [head], "lr": 0.02}]
    optimizer = torch.optim.SGD(groups)
    factor = 0.5 + (seed % 1000) / 3000
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, factor)
    first, second = (Stream(make_micro_batches(seed + 10 * epoch, 7)) for epoch in range(2))
    updates = Updates(model, optimizer, first)
    rates = learner.train_scheduled(model, optimizer, scheduler, iter((first, second)), 3)
    return {
        "type": kind_of(rates),
        "rates": plain_numbers(rates),
        "after": [sequences // 2 for sequences in updates.after],
        "k": 3,
        "taken": updates.taken[0] if updates.taken else None,
        "left": [group["lr"] for group in optimizer.param_groups],
        "weights": weights(model),
    }


# -------------------------------------------------------------------------------------------------------- noise_scale
def make_steps(seed: int, signal: float = 3.0) -> tuple[list[Tensor], int]:
    """Returns gradients of several steps, each with another k, around a mean with norm `signal`; and the size."""
    draw = torch.Generator().manual_seed(seed)
    size = 2 + seed % 5
    mean = torch.randn(20, generator=draw, dtype=torch.float64)
    mean *= signal / mean.norm()
    steps = []
    for k in (4, 2, 5, 3):
        noise = torch.randn(k, 20, generator=draw, dtype=torch.float64) * 1.5
        steps.append(mean + noise / size**0.5)
    return steps, size


def estimates(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns both estimates for a step and for a step whose rows cancel, and the changes of the gradients."""
    steps, size = make_steps(seed)
    untouched = steps[0].clone()
    pairs = []
    for gradients_ in (steps[0], torch.cat([steps[1], -steps[1]])):
        pair = learner.noise_estimates(gradients_, size)
        pairs.append(tuple_items(pair, 2) or (None, None))
    return {
        "types": [type_name(value) for pair in pairs for value in pair],
        "signals": [plain_number(signal) for signal, _ in pairs],
        "noises": [plain_number(noise) for _, noise in pairs],
        "changed": int((steps[0] != untouched).sum()),
    }


def scale(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the noise scale of several steps; the rows of one step cancel, so its estimate of |G|^2 is negative."""
    steps, size = make_steps(seed)
    steps.insert(1, torch.cat([steps[2], -steps[2]]))
    returned = learner.noise_scale(steps, size)
    return {"type": type_name(returned), "scale": plain_number(returned)}


def no_signal(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the noise scale of rows that cancel: the mean gradient is 0, and the estimate of |G|^2 is negative."""
    steps, size = make_steps(seed)
    opposed = [torch.cat([step, -step]) for step in steps]
    return {"scale": plain_number(learner.noise_scale(opposed, size))}
