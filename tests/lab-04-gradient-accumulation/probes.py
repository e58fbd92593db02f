"""Lab 04, probes: they call the learner's code on fresh random inputs and return what came of it as plain values.

Everything is computed in float64, so that the order of additions shows in the 16th digit only, and a mistake in the
first few.
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
    """A tiny GPT in float64, in training mode. `sure` scales its logits, and losses with them."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=8, dropout=dropout))
    with torch.no_grad():  # larger weights than usual, so that the loss is far from ln V and mistakes show
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.head.weight.mul_(sure)
    return model.double()


def make_batch(seed: int, size: int, tokens: int = BLOCK) -> MicroBatch:
    """Random tokens and targets, int64 [size, tokens] each. Token 0, which some take for padding, is among them."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(VOCAB, (2, size, tokens), generator=generator)
    x[0, 0] = y[0, 0] = 0
    return x, y


def make_micro_batches(seed: int, count: int, size: int = 2) -> list[MicroBatch]:
    """`count` micro-batches of equal size and unequal difficulty."""
    every = [make_batch(seed + 1000 * number, size) for number in range(count)]
    return [(x, y if number % 2 else x) for number, (x, y) in enumerate(every)]


def split(seed: int) -> tuple[int, int]:
    """How many micro-batches, and of how many sequences: never two equal numbers."""
    return random.Random(seed).choice([(3, 2), (4, 2), (4, 3), (3, 4), (3, 5)])


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    """Plain SGD: it shows every factor that AdamW would hide."""
    return torch.optim.SGD(model.parameters(), lr=lr)


def kind_of(values: Any) -> str:
    """'list of float', 'list of float and Tensor', 'tuple', ..."""
    if type(values) is not list:
        return type_name(values)
    return f"list of {' and '.join(sorted({type_name(value) for value in values})) or 'float'}"


def leave_old_gradients(model: nn.Module, seed: int) -> None:
    """What a gradient monitor or a failed step leaves behind."""
    loss_of(model, *make_batch(seed + 77, 3)).backward()


class Activations:
    """Notes, at the end of each forward pass, how many micro-batches' activations autograd holds."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        """`x` is one micro-batch's input."""
        self._model, self._x = model, x
        self._backwards = 0

    def during(self, work: Callable[[], Any]) -> dict[str, Any]:
        """Runs `work`; the counts, rounded, how often backward ran, and what the model gave."""
        cpu, optimizer = torch.device("cpu"), sgd(self._model)
        with PhaseMemory(self._model, optimizer, cpu) as one:
            kept = self._model(self._x)
            one.record("one")
        del kept
        unit = one.rows[0].activations
        with PhaseMemory(self._model, optimizer, cpu) as memory:

            def forward(output: Tensor) -> None:
                if output.requires_grad:  # a look at the loss keeps nothing
                    memory.record("forward")
                    output.register_hook(self._count)  # torch.autograd.grad is a backward, too

            passes = ForwardRecorder(self._model, forward)
            work()
        held = [round(row.activations / unit, 2) for row in memory.rows]
        return {"held": held, "backwards": self._backwards, "logits": passes.logits()}

    def _count(self, slopes: Tensor) -> None:
        self._backwards += 1


class Stream:
    """Micro-batches that can be read once and have no length; counts how many were taken."""

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
    """Notes, at each optimizer.step(), how many sequences have gone through the model, and how many were read."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, stream: Stream | None = None) -> None:
        self.after: list[int] = []  # sequences through the model
        self.taken: list[int] = []  # micro-batches read
        passes = ForwardRecorder(model)

        def note(*_: Any) -> None:
            self.after.append(sum(x.shape[0] for x in passes.inputs))
            self.taken.append(stream.taken if stream else 0)

        optimizer.register_step_post_hook(note)


# --------------------------------------------------------------------------------------------------------- accumulate
def whole_batch(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One batch in k parts, with a large loss."""
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
    """What autograd holds at the end of each forward pass, in micro-batches."""
    model, (x, y) = make_model(seed), make_batch(seed, 8)
    activations = Activations(model, x[:2])
    return activations.during(lambda: learner.accumulate(model, x, y, 4))


def over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With gradients from before in place."""
    model, (x, y) = make_model(seed), make_batch(seed, 6)
    leave_old_gradients(model, seed)
    learner.accumulate(model, x, y, 3)
    return {"gradients": gradients(model)}


def with_a_frozen_layer(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model with one frozen parameter."""
    model, (x, y) = make_model(seed), make_batch(seed, 6)
    model.position_embedding.weight.requires_grad_(False)
    learner.accumulate(model, x, y, 3)
    return {"gradients": gradients(model), "trainable": [p.requires_grad for p in model.parameters()]}


def _in_both_modes(work: Callable[[nn.Module], Any], seed: int) -> dict[str, Any]:
    losses, left, passed = [], [], list[list[Any]]()
    for training in (True, False):
        model = make_model(seed, dropout=0.5).train(training)
        modules, passes = [*model.modules()], ForwardRecorder(model)
        torch.manual_seed(2**31 + seed)  # no seed that somebody would write
        losses.append(plain_number(work(model)))
        left.append([in_training(module) for module in modules])
        passed += [x.tolist() for x in passes.inputs]
    return {"losses": losses, "left": left, "passed": passed}


def in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A model with dropout, found in training and in evaluation mode: the losses, and the modes it leaves."""
    return _in_both_modes(lambda model: learner.accumulate(model, *make_batch(seed, 6), 3), seed)


# -------------------------------------------------------------------------------------------------- accumulate_tokens
def make_ragged(seed: int) -> list[MicroBatch]:
    """Three micro-batches of different shapes and different shares of scored tokens; each scores at least one."""
    draw = torch.Generator().manual_seed(seed)
    every = []
    for number, (size, tokens, share) in enumerate(((2, 6, 0.9), (4, 4, 0.3), (3, 5, 0.6))):
        x, y = make_batch(seed + 1000 * number, size, tokens)
        y = torch.where(torch.rand(y.shape, generator=draw) < share, y if number else x, -100)
        y[0, 0] = 0
        y[0, 1] = -100
        every.append((x, y))
    return every


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Micro-batches with different numbers of scored tokens, and large losses."""
    model = make_model(seed, sure=30.0)
    loss = learner.accumulate_tokens(model, make_ragged(seed))
    return {"type": type_name(loss), "loss": plain_number(loss), "gradients": gradients(model)}


def nothing_scored(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same with a micro-batch in which no token is scored."""
    model, (x, y) = make_model(seed), make_batch(seed, 3)
    micro_batches = make_ragged(seed)
    micro_batches.insert(seed % 3, (x, torch.full_like(y, -100)))
    loss = learner.accumulate_tokens(model, micro_batches)
    return {"loss": plain_number(loss), "gradients": gradients(model)}


def ragged_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """What autograd holds at the end of each forward pass, in micro-batches."""
    model, micro_batches = make_model(seed), make_micro_batches(seed, 4)
    activations = Activations(model, micro_batches[0][0])
    return activations.during(lambda: learner.accumulate_tokens(model, micro_batches))


def ragged_over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With gradients from before in place."""
    model = make_model(seed)
    leave_old_gradients(model, seed)
    learner.accumulate_tokens(model, make_ragged(seed))
    return {"gradients": gradients(model)}


def the_callers_tensors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The micro-batches after the calls; the losses with dropout in both modes, and the modes it leaves."""
    micro_batches = make_ragged(seed)
    found = _in_both_modes(lambda model: learner.accumulate_tokens(model, micro_batches), seed)
    return found | {
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
    """As many micro-batches as one update takes."""
    k = 3 + seed % 2
    return _epoch(learner, seed, k, k)


def full_groups(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three full groups."""
    k = 2 + seed % 2
    return _epoch(learner, seed, 3 * k, k)


def with_a_leftover(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two full groups and some micro-batches more; one more than a group; fewer than one group; none."""
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
    """Activations held at the end of each forward pass; how far was read ahead at the first update."""
    k, model = 3, make_model(seed)
    optimizer, micro_batches = sgd(model, lr=0.0), make_micro_batches(seed, 9)  # each pass gives what it would anyway
    stream = Stream(micro_batches)
    activations = Activations(model, micro_batches[0][0])
    updates: list[Updates] = []

    def work() -> None:
        updates.append(Updates(model, optimizer, stream))
        learner.train_epoch(model, optimizer, stream, k)

    found = activations.during(work)
    taken = updates[0].taken
    return found | {"k": k, "taken": taken[0] if taken else None}


def epoch_over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One group, with gradients from before in place."""
    return _epoch(learner, seed, 3, 3, old=True)


# ---------------------------------------------------------------------------------------------------------- clip_once
def make_gradients(seed: int, length: float, missing: bool = False) -> list[nn.Parameter]:
    """Parameters of unequal size whose gradients together are `length` long; with `missing`, one has none."""
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
    """Stands in what each of torch's functions that clip calls, however a file has imported them."""
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
    """Longer than the limit, by a random factor; in a generator, and in a list."""
    draw = random.Random(seed)
    max_norm = draw.uniform(0.5, 2.0)
    length = max_norm * draw.uniform(3, 50)
    in_a_list = _clipped(learner, make_gradients(seed, length), max_norm, read_once=False)
    found = _clipped(learner, make_gradients(seed, length), max_norm)
    return found | {"in a list": in_a_list["gradients"]}


def near_the_limit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shorter than the limit of 2, of length 0, and a little longer than the limit."""
    every = [_clipped(learner, make_gradients(seed, length), 2.0) for length in (0.3, 0.0, 2.1)]
    return {
        "norms": [one["norm"] for one in every],
        "lengths": [float(np.linalg.norm(one["gradients"])) for one in every],
    }


def a_missing_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One parameter has no gradient."""
    return _clipped(learner, make_gradients(seed, 7.0, missing=True), 1.0)


def one_clipped_update(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A group whose gradient is far over the limit, with old gradients in place; then one that is under it."""
    norms, every, steps, found = [], [], [], dict[str, Any]()
    micro_batches = make_micro_batches(seed, 3)
    for max_norm in (0.05, 1e6):
        model = make_model(seed)
        optimizer = sgd(model)
        updates = Updates(model, optimizer)
        leave_old_gradients(model, seed)
        activations = Activations(model, micro_batches[0][0])

        def work(model: nn.Module = model, optimizer: Any = optimizer, max_norm: float = max_norm) -> None:
            norms.append(learner.clipped_update(model, optimizer, micro_batches, max_norm))

        found = activations.during(work)
        every.append(weights(model))
        steps.append(len(updates.after))
    return found | {
        "types": [type_name(norm) for norm in norms],
        "norms": [plain_number(norm) for norm in norms],
        "weights": np.concatenate(every),
        "steps": steps,
    }


# ----------------------------------------------------------------------------------------------------------- schedule
def counts(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Numbers of updates, with and without a remainder."""
    draw = random.Random(seed)
    k = draw.randrange(3, 7)
    cases = [
        (draw.randrange(4, 9) * k, k, 1),
        (draw.randrange(4, 9) * k + draw.randrange(1, k), k, 1),
        (draw.randrange(4, 9) * k + 1, k, draw.randrange(2 * k, 3 * k)),
        (k - 1, k, 2),
    ]
    found = [learner.count_updates(*case) for case in cases]
    return {
        "cases": [list(case) for case in cases],
        "types": [type_name(one) for one in found],
        "counts": [plain_number(one) for one in found],
    }


def scheduled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two passes over seven micro-batches, three an update, with a rate that falls at every move."""
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
    """Gradients of several steps, each of another k, around a mean `signal` long; and the micro-batch's size."""
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
    """Both estimates of one step, and of one whose rows cancel; and the gradients after."""
    steps, size = make_steps(seed)
    untouched = steps[0].clone()
    every = []
    for gradients_ in (steps[0], torch.cat([steps[1], -steps[1]])):
        found = learner.noise_estimates(gradients_, size)
        every.append(tuple_items(found, 2) or (None, None))
    return {
        "types": [type_name(one) for found in every for one in found],
        "signals": [plain_number(signal) for signal, _ in every],
        "noises": [plain_number(noise) for _, noise in every],
        "changed": int((steps[0] != untouched).sum()),
    }


def scale(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The noise scale of several steps; in one of them the rows cancel, and its estimate of |G|^2 is negative."""
    steps, size = make_steps(seed)
    steps.insert(1, torch.cat([steps[2], -steps[2]]))
    found = learner.noise_scale(steps, size)
    return {"type": type_name(found), "scale": plain_number(found)}


def no_signal(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Rows that cancel: the mean gradient is 0, and the estimate of |G|^2 is below it."""
    steps, size = make_steps(seed)
    opposed = [torch.cat([step, -step]) for step in steps]
    return {"scale": plain_number(learner.noise_scale(opposed, size))}
