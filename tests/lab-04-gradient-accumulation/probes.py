"""Probes of Lab 04: each calls the learner's code on random inputs, and returns its results as plain values.

Most is computed in float64, where the order of additions changes only the 16th digit, and a mistake changes one of the
first digits. Probes of 16-bit formats run in these formats.
"""

import math
import random
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.exercises.probes.forward_recorder import ForwardRecorder
from rankzero.exercises.probes.untrusted_values import (
    a_float,
    flat,
    in_training,
    is_tensor,
    kind_text,
    named_weights,
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
    """Returns a tiny GPT of random width in float64, in training mode. `sure` scales its logits, and so its losses."""
    torch.manual_seed(seed)
    width = random.Random(seed).choice((6, 8, 12))
    model = GPT(GPTConfig(VOCAB, BLOCK, n_layer=1, n_head=2, hidden_dim=width, dropout=dropout))
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


def make_micro_batches(seed: int, count: int) -> list[MicroBatch]:
    """Returns `count` micro-batches of one random shape and of unequal difficulty."""
    draw = random.Random(seed)
    size, tokens = draw.randrange(2, 4), draw.randrange(3, BLOCK + 1)
    batches = [make_batch(seed + 1000 * number, size, tokens) for number in range(count)]
    return [(x, y if number % 2 else x) for number, (x, y) in enumerate(batches)]


def tokens_of(micro_batches: list[MicroBatch]) -> np.ndarray:
    """Returns all tokens and targets."""
    return torch.cat([torch.cat([tensor.flatten() for tensor in pair]) for pair in micro_batches]).numpy()


def split(seed: int) -> tuple[int, int, int]:
    """Returns the number of micro-batches, of sequences in each and of tokens in a sequence; the first two differ."""
    draw = random.Random(seed)
    k, size = draw.choice([(3, 2), (4, 2), (4, 3), (3, 4), (3, 5), (5, 2), (2, 4), (6, 2), (5, 3)])
    return k, size, draw.randrange(3, BLOCK + 1)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy, a scalar with its graph."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


class Sometimes(GPT):
    """A GPT that adds its parameter `late` to the logits if the first token is 1, and else its parameter `early`."""

    @classmethod
    def of(cls, model: GPT) -> "Sometimes":
        """Returns the model with these parameters; none of them changes the loss."""
        model.__class__ = cls
        for name in ("early", "late"):
            model.register_parameter(name, nn.Parameter(torch.ones(VOCAB, dtype=torch.float64)))
        assert isinstance(model, cls)
        return model

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the logits."""
        return super().forward(tokens) + self.get_parameter("late" if tokens[0, 0] == 1 else "early")


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    """Returns an SGD optimizer, which shows factors of the gradient that AdamW would hide.

    Every second parameter is in a second group, with half the learning rate.
    """
    parameters = [*model.parameters()]
    groups: list[dict[str, Any]] = [{"params": parameters[::2]}, {"params": parameters[1::2], "lr": lr / 2}]
    return torch.optim.SGD(groups, lr=lr)


def kind_of(values: Any) -> str:
    """Returns a type such as 'list of float', 'list of float and Tensor' or 'tuple'."""
    if type(values) is not list:
        return type_name(values)
    return f"list of {' and '.join(sorted({type_name(value) for value in values})) or 'float'}"


def flat_gradients(parameters: Iterable[Tensor], values: Iterable[Any]) -> np.ndarray:
    """Returns the parameters' gradients `values` as one array: NaN in place of None, and inf in place of a nan."""
    arrays = [
        np.full(parameter.numel(), np.nan)
        if value is None
        else np.nan_to_num(flat([value]), nan=np.inf, posinf=np.inf, neginf=-np.inf)
        for parameter, value in zip(parameters, values, strict=True)
    ]
    return np.concatenate([np.empty(0), *arrays])


def named_gradients(model: nn.Module) -> dict[str, Any]:
    """Returns all gradients of a model, as `flat_gradients` does, and the names and shapes of its parameters."""
    parameters = [*nn.Module.parameters(model)]
    found = flat_gradients(parameters, [parameter.grad for parameter in parameters])
    return {"gradients": found, "parts": named_weights(model)["parts"]}


def leave_old_gradients(model: nn.Module, seed: int) -> None:
    """Leaves gradients in the model, like a gradient monitor or a failed step.

    Afterwards one parameter is frozen and one is not used by the model; both have an old gradient.
    """
    loss_of(model, *make_batch(seed + 77, 3)).backward()
    model.get_parameter("position_embedding.weight").requires_grad_(False)
    idle = nn.Parameter(torch.ones(3, dtype=torch.float64))
    idle.grad = torch.ones(3, dtype=torch.float64)
    model.register_parameter("unused", idle)


class Activations:
    """Records the activations that autograd holds, at the end of each forward pass and at most, in micro-batches."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        """Takes `x`, the input of one micro-batch."""
        self._model, self._x = model, x
        self._backwards = self._reached = 0

    def during(self, work: Callable[[], Any]) -> dict[str, Any]:
        """Runs `work`, and returns the rounded counts, the numbers of passes, and the model's logits.

        `turns` are the backward passes before each forward pass, `reached` is how many came to the last layer's weight.
        """
        cpu, optimizer = torch.device("cpu"), sgd(self._model)
        with PhaseMemory(self._model, optimizer, cpu) as single:
            logits = self._model(self._x)
            single.record("one")
        del logits
        unit, turns = single.rows[0].activations, list[int]()
        with PhaseMemory(self._model, optimizer, cpu) as memory:

            def forward(output: Tensor) -> None:
                if output.requires_grad:  # a forward pass without gradients saves no tensors
                    memory.record("forward")
                    turns.append(self._backwards)
                    output.register_hook(self._count)  # also counts torch.autograd.grad

            passes = ForwardRecorder(self._model, forward)
            self._model.get_parameter("head.weight").register_hook(self._reach)
            work()
        return {
            "held": [round(row.activations / unit, 2) for row in memory.rows],
            "peak": round(memory.peak_activations / unit, 2),
            "turns": turns,
            "passes": passes.passes,
            "backwards": self._backwards,
            "reached": self._reached,
            "logits": passes.logits(),
        }

    def _count(self, gradient: Tensor) -> None:
        self._backwards += 1

    def _reach(self, gradient: Tensor) -> None:
        self._reached += 1


class Stream:
    """Micro-batches that can be read once, not copied, and have no length; each is in memory only while it is used.

    Counts the micro-batches read, and the most that were in memory at once.
    """

    def __init__(self, micro_batches: list[MicroBatch]) -> None:
        self._micro_batches = iter(micro_batches)
        self.taken = self.kept = 0
        self._read: list[weakref.ref[Tensor]] = []

    def __iter__(self) -> Iterator[MicroBatch]:
        return self

    def __next__(self) -> MicroBatch:
        x, y = (tensor.clone() for tensor in next(self._micro_batches))
        self.taken += 1
        self._read.append(weakref.ref(x))
        self.kept = max(self.kept, sum(one() is not None for one in self._read))
        return x, y

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("`micro_batches` can be read only once: it cannot be copied")


class Repeatable:
    """Micro-batches as an iterable that is no iterator, as a list is. RuntimeError if it is read again and again."""

    def __init__(self, micro_batches: list[MicroBatch]) -> None:
        self._micro_batches = micro_batches
        self._reads = 0

    def __iter__(self) -> Iterator[MicroBatch]:
        self._reads += 1
        if self._reads > 3:
            raise RuntimeError("`micro_batches` was read from its beginning again and again; call iter() once")
        return iter(self._micro_batches)


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
def what(value: Any, like: Tensor | None = None) -> str:
    """Returns the dtype of a tensor, and its shape if it differs from like's; the type of any other value."""
    if not is_tensor(value):
        return type_name(value)
    dtype, shape = str(value.dtype).removeprefix("torch."), Tensor.size(value)
    return (
        dtype if like is None or shape == like.shape else f"{dtype} with the shape {list(shape)}, not its parameter's"
    )


def _accumulated(returned: Any, model: nn.Module) -> dict[str, Any]:
    """Returns the loss, and the sums as one array: NaN for a parameter that has none."""
    loss, sums = tuple_items(returned, 2) or (None, None)
    listed = sums if type(sums) is list else []
    parameters = [*model.parameters()]
    listed = [*listed, *[None] * (len(parameters) - len(listed))] if len(listed) < len(parameters) else listed
    return {
        "type": f"({type_name(loss)}, {type_name(sums)})" if type(returned) is tuple else type_name(returned),
        "loss": plain_number(loss),
        "kinds": [what(value, like) for value, like in zip(listed, parameters, strict=True)],
        "gradients": flat_gradients(parameters, listed),
        "graphs": sum(is_tensor(value) and value.requires_grad for value in listed),
        "left": sum(parameter.grad is not None for parameter in parameters),
        "parts": named_weights(model)["parts"],
    }


def whole_batch(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates one batch in k parts, with a large loss."""
    k, size, tokens = split(seed)
    model, (x, y) = make_model(seed, sure=30.0), make_batch(seed, k * size, tokens)
    before = weights(model)
    observed = _accumulated(learner.accumulate(model, x, y, k), model)
    observed |= {
        "names": ["micro-batches", "sequences per micro-batch", "tokens per micro-batch", "tokens in the batch"],
        "numbers": [k, size, size * tokens, k * size * tokens],
    }
    return observed | {"k": k, "moved": int((weights(model) != before).sum()), "tokens": tokens_of([(x, y)])}


def in_bf16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates many gradients of a bf16 model, with fp32 logits: powers of two divide exactly in every format.

    Returns the dtypes of the sums of 16-bit models, also with k = 1, of an fp32 and of a mixed model too, and the loss
    of one with bf16 logits.
    """
    draw = random.Random(seed)
    k, size, observed, others = draw.choice((16, 32, 64)), draw.randrange(2, 5), dict[str, Any](), list[str]()
    for dtype, parts in ((torch.bfloat16, 1), (torch.float16, k), (torch.float32, k), (torch.bfloat16, k)):
        model = make_model(seed).to(dtype)
        forward = model.forward
        vars(model)["forward"] = lambda tokens, forward=forward: forward(tokens).float()
        passes = list[None]()
        model.norm.register_forward_hook(lambda *_, passes=passes: passes.append(None))
        observed = _accumulated(learner.accumulate(model, *make_batch(seed, k, size), parts), model)
        when = f"parameters with k = {parts}"
        pairs = zip(observed["kinds"], model.parameters(), strict=True)
        others += [f"{kind} for {what(p)} {when}" for kind, p in pairs]
    mixed = nn.Sequential(nn.Embedding(VOCAB, 4), nn.Linear(4, VOCAB, dtype=torch.float64))
    mixed[1].register_forward_pre_hook(lambda _, args: args[0].double())
    kinds = _accumulated(learner.accumulate(mixed, *make_batch(seed, k, size), k), mixed)["kinds"]
    others += [f"{kind} for {what(p)} {when}" for kind, p in zip(kinds, mixed.parameters(), strict=True)]
    # The first loss is 40 and each other one 0.1, which a sum in bf16 rounds away.
    table, tokens = nn.Embedding(VOCAB, VOCAB), torch.full((k, 1), draw.randrange(2, VOCAB))
    table.weight.data = 4.75 * torch.eye(VOCAB)
    table.weight.data[0, 0], tokens[0] = 40, 0
    returned = learner.accumulate(table.bfloat16(), tokens, tokens.clamp(min=1), k)
    loss = a_float((tuple_items(returned, 2) or (None,))[0])
    return observed | {"k": k, "sums": others, "bf16 loss": loss, "passes": len(passes)}


def parts_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the activations that autograd holds at the end of each forward pass, in micro-batches."""
    draw = random.Random(seed)
    size = draw.randrange(2, 4)
    k = size + draw.randrange(1, 4)
    model, (x, y) = make_model(seed), make_batch(seed, k * size, draw.randrange(3, BLOCK + 1))
    activations = Activations(model, x[:size])
    return activations.during(lambda: learner.accumulate(model, x, y, k))


def over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates a batch over old gradients, one of them of a frozen parameter and one of an unused parameter."""
    k, size, tokens = split(seed)
    model, (x, y) = make_model(seed), make_batch(seed, k * size, tokens)
    leave_old_gradients(model, seed)
    return _accumulated(learner.accumulate(model, x, y, k), model)


def with_a_frozen_layer(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates the gradients of a model with a frozen parameter, in one part and in a part per sequence.

    In the parts, one parameter is not used by the first sequence, and one is not used by the last.
    """
    model, k = make_model(seed), random.Random(seed).randrange(2, 6)
    frozen = ("position_embedding.weight", "blocks.0.norm1.weight", "head.weight")[seed % 3]
    model.get_parameter(frozen).requires_grad_(False)
    x, y = make_batch(seed, k)
    one = _accumulated(learner.accumulate(model, x, y, 1), model)
    x[-1, 0] = 1
    passes = ForwardRecorder(Sometimes.of(model))
    many = _accumulated(learner.accumulate(model, x, y, k), model) | {"passes": passes.passes}
    return many | {"in one": one["gradients"], "trainable": [p.requires_grad for p in model.parameters()]}


def _in_both_modes(work: Callable[[nn.Module], Any], seed: int) -> dict[str, Any]:
    """Returns losses in both modes, last without dropout, the modes afterwards, and the sequences of each pass."""
    losses, left, passed = [], [], list[list[Any]]()
    for training, dropout in ((True, 0.5), (False, 0.5), (True, 0.0)):
        model = make_model(seed, dropout=dropout).train(training)
        modules, passes = [*model.modules()], ForwardRecorder(model)
        torch.manual_seed(seed + 7919)  # a seed that no learner would choose
        losses.append(a_float(work(model)))
        left.append([in_training(module) for module in modules])
        passed += [x.tolist() for x in passes.inputs]
    return {"losses": losses, "left": left, "passed": passed}


def in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns losses in training and in evaluation mode, last without dropout, and the modes afterwards."""
    k, size, tokens = split(seed)
    batch = make_batch(seed, k * size, tokens)
    return _in_both_modes(lambda model: (tuple_items(learner.accumulate(model, *batch, k), 2) or (None,))[0], seed)


# -------------------------------------------------------------------------------------------------- accumulate_tokens
def make_ragged(seed: int) -> list[MicroBatch]:
    """Returns three or four micro-batches of different shapes and shares of scored tokens, each with a scored token."""
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    shares = [0.9, 0.3, 0.6, 0.45][: draw.randrange(3, 5)]
    draw.shuffle(shares)
    micro_batches = []
    for number, (size, share) in enumerate(zip((2, 4, 1, 3), shares, strict=False)):  # the longest one is in the middle
        x, y = make_batch(seed + 1000 * number, size, draw.randrange(4, BLOCK + 1))
        y = torch.where(torch.rand(y.shape, generator=generator) < share, y if number else x, -100)
        y[0, 0] = 0
        y[0, 1] = -100
        micro_batches.append((x, y))
    return micro_batches


def ragged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates micro-batches with different numbers of scored tokens, and large losses."""
    model, micro_batches = make_model(seed, sure=30.0), make_ragged(seed)
    targets = torch.cat([y.flatten() for _, y in micro_batches])
    loss = learner.accumulate_tokens(model, tuple(micro_batches))
    return {
        "type": type_name(loss),
        "loss": plain_number(loss),
        **named_gradients(model),
        "names": ["micro-batches", "scored tokens"],
        "numbers": [len(micro_batches), int((targets != -100).sum())],
    }


def nothing_scored(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates micro-batches, of which the first two and one or two others have no scored token."""
    model, micro_batches = make_model(seed), make_ragged(seed)
    for number, place in enumerate((1 + seed // 2 % 3, 0, 0, 4)[: 3 + seed % 2]):
        x, y = make_batch(seed + number, 1 + number % 3)
        micro_batches.insert(place, (x, torch.full_like(y, -100)))
    loss = learner.accumulate_tokens(model, micro_batches)
    return {"loss": a_float(loss), **named_gradients(model)}


def ragged_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the activations that autograd holds, in micro-batches, each with a target that is not scored."""
    model, micro_batches = make_model(seed), make_micro_batches(seed, 3 + seed % 3)
    micro_batches = [(x, y.index_fill(1, torch.tensor([1]), -100)) for x, y in micro_batches]
    activations = Activations(model, micro_batches[0][0])
    return activations.during(lambda: learner.accumulate_tokens(model, micro_batches))


def ragged_over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates micro-batches over old gradients, one of a frozen parameter and one of an unused parameter."""
    model = make_model(seed)
    leave_old_gradients(model, seed)
    learner.accumulate_tokens(model, make_ragged(seed))
    return named_gradients(model)


def the_callers_tensors(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the micro-batches and weights after the calls, losses in both modes, and the modes."""
    micro_batches = make_ragged(seed)
    observed = _in_both_modes(lambda model: learner.accumulate_tokens(model, micro_batches), seed)
    model = make_model(seed)
    learner.accumulate_tokens(model, micro_batches)
    return observed | {
        "inputs": torch.cat([x.flatten() for x, _ in micro_batches]).numpy(),
        "targets": torch.cat([y.flatten() for _, y in micro_batches]).numpy(),
        "moved": int((weights(model) != weights(make_model(seed))).sum()),
    }


# -------------------------------------------------------------------------------------------------------- train_epoch
def _epoch(learner: ModuleType, seed: int, count: int, k: int, old: bool = False, once: bool = True) -> dict[str, Any]:
    """Trains on `count` micro-batches that can be read `once` or again, with `old` gradients in place or without.

    With `old`, the optimizer has weight decay, and the last group uses other parameters than those before.
    """
    model, micro_batches = make_model(seed), make_micro_batches(seed, count)
    if old:
        leave_old_gradients(Sometimes.of(model), seed)
        for x, _ in micro_batches[-k:]:
            x[0, 0] = 1
    optimizer, stream = sgd(model), Stream(micro_batches)
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.5 * old
    size = len(micro_batches[0][0]) if count else 1
    updates = Updates(model, optimizer, stream)
    losses = learner.train_epoch(model, optimizer, stream if once else Repeatable(micro_batches), k)
    return {
        "k": k,
        "type": kind_of(losses),
        "losses": plain_numbers(losses),
        "after": [sequences // size for sequences in updates.after],
        "taken": updates.taken,
        **named_weights(model),
        "tokens": tokens_of(micro_batches) if count else np.zeros(0, np.int64),
    }


def one_group(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on exactly one group of micro-batches."""
    k = 3 + seed % 4
    return _epoch(learner, seed, k, k)


def full_groups(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on two to four full groups, from an iterable that is no iterator."""
    draw = random.Random(seed)
    k = draw.randrange(2, 5)
    return _epoch(learner, seed, draw.randrange(2, 5) * k, k, once=False)


def with_a_leftover(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on numbers of micro-batches that are not a multiple of a group, on none, and with groups of one."""
    k = 3 + seed % 2
    counts, ks = [2 * k + 2, k + 1, k - 1, 0, 2], [k, k, k, k, 1]
    cases = enumerate(zip(counts, ks, strict=True))
    results = [_epoch(learner, seed, count, size, once=bool(number % 2)) for number, (count, size) in cases]
    return {
        "ks": ks,
        "counts": counts,
        "types": [result["type"] for result in results],
        "after": [result["after"] for result in results],
        "losses": [result["losses"] for result in results],
        "weights": np.concatenate([result["weights"] for result in results]),
        "parts": results[0]["parts"],
    }


def epoch_in_memory(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the activations held, the micro-batches read at each update, and the most in memory at once."""
    k, model = 2 + seed % 3, make_model(seed)
    optimizer, micro_batches = sgd(model, lr=0.0), make_micro_batches(seed, 5 * k)  # lr 0: the weights stay
    stream = Stream(micro_batches)
    activations = Activations(model, micro_batches[0][0])
    updates: list[Updates] = []

    def work() -> None:
        updates.append(Updates(model, optimizer, stream))
        learner.train_epoch(model, optimizer, stream, k)

    return activations.during(work) | {"k": k, "taken": updates[0].taken, "kept": stream.kept}


def epoch_over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains on two groups over old gradients, one of a frozen parameter and one of an unused parameter."""
    k = 2 + seed % 3
    return _epoch(learner, seed, 2 * k, k, old=True)


def epoch_in_both_modes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns first losses in both modes, the modes afterwards, and the order of the sequences."""
    micro_batches, k = make_micro_batches(seed, 4), 2 + seed % 2

    def work(model: nn.Module) -> Any:
        losses = learner.train_epoch(model, sgd(model), iter(micro_batches), k)
        return losses[0] if type(losses) is list and losses else None

    return _in_both_modes(work, seed) | {"tokens": tokens_of(micro_batches)}


# ---------------------------------------------------------------------------------------------------------- clip_once
def unless_it_fails(call: Callable[[], Any]) -> Any:
    """Returns what `call` returns, or a text with the type of the error that an empty or zero input causes."""
    try:
        return call()
    except NotImplementedError:  # not written yet
        raise
    except (ArithmeticError, LookupError, RuntimeError, StopIteration, TypeError, ValueError) as error:
        return f"missing, because of {kind_text(error)}"


def make_gradients(seed: int, length: float, missing: bool = False) -> list[nn.Parameter]:
    """Returns parameters whose gradients have a total norm of `length`; with `missing`, one or two gradients are."""
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    shapes: list[tuple[int, ...]] = [(4, draw.randrange(2, 5)), (draw.randrange(3, 8),), (2, 2, 3), ()]
    sizes = [1, 20, 0.1, 3]
    draw.shuffle(sizes)
    parameters = []
    for shape, size in zip(shapes[: draw.randrange(3, 5)], sizes, strict=False):
        parameter = nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))
        parameter.grad = torch.randn(shape, generator=generator, dtype=torch.float64) * size
        parameters.append(parameter)
    norm = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).norm()
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad *= length / norm
    for _ in range(1 + seed % 2 if missing else 0):
        parameters.insert(draw.randrange(4), nn.Parameter(torch.ones(3, dtype=torch.float64)))
    return parameters


def by_hand(*arguments: Any, **settings: Any) -> None:
    """Replaces a function that all of torch's clipping functions call, however a file has imported them."""
    raise RuntimeError("clip_gradients is to be written by hand, without torch.nn.utils")


def _clipped(
    learner: ModuleType, parameters: list[nn.Parameter], max_norm: float, read_once: bool = True
) -> dict[str, Any]:
    before = [parameter.grad for parameter in parameters]
    memory = [gradient if gradient is None else gradient.detach() for gradient in before]
    values = [parameter.detach().clone() for parameter in parameters]
    with patch.object(nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", by_hand):
        norm = learner.clip_gradients((parameter for parameter in parameters) if read_once else parameters, max_norm)
    return {
        "type": type_name(norm),
        "norm": a_float(norm),
        "max_norm": max_norm,
        "gradients": flat_gradients(parameters, [parameter.grad for parameter in parameters]),
        "in memory": flat_gradients(parameters, memory),  # other tensors of the same memory show the clipping
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
    return observed | {
        "in a list": in_a_list["gradients"],
        "norm in a list": in_a_list["norm"],
        "in place": observed["in place"] and in_a_list["in place"],
    }


def near_the_limit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips gradients with norms below a limit, of 0, and slightly above the limit."""
    draw = random.Random(seed)
    limit = draw.uniform(0.5, 4)
    lengths = [limit * draw.uniform(0.05, 0.3), limit * draw.uniform(0.9, 0.99), 0.0, limit * draw.uniform(1.03, 1.1)]
    results = [_clipped(learner, make_gradients(seed, length), limit) for length in lengths]
    return {
        "limit": limit,
        "asked": lengths,
        "types": [result["type"] for result in results],
        "norms": [result["norm"] for result in results],
        "lengths": [float(np.linalg.norm(result["gradients"])) for result in results],
        "gradients": np.concatenate([result["gradients"] for result in results]),
        "short": np.concatenate([result["gradients"] for result in results[:3]]),
    }


def a_missing_gradient(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips gradients of parameters, of which one or two have no gradient, and then of parameters without any."""
    observed = _clipped(learner, make_gradients(seed, 7.0, missing=True), 1.0)
    empty = [nn.Parameter(torch.ones(2)) for _ in range(seed % 3)]
    none = unless_it_fails(lambda: _clipped(learner, empty, 1.0))
    none = {"type": none, "norm": none} if type(none) is str else none
    return observed | {"types": [observed["type"], none["type"]], "norms": [observed["norm"], none["norm"]]}


def mixed_formats(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips gradients in four formats, with numbers whose squares fp16 cannot hold.

    If each gradient's norm is rounded to its format, the whole norm is off by more than 0.01 % on every seed.
    """
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    dtypes = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    draw.shuffle(dtypes)
    exact = rounded = 1.0
    while abs(rounded / exact - 1) < 1e-4:
        sizes = [draw.randrange(30, 60) for _ in range(5)]
        numbers = [300 + 100 * torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
        grads = [one.to(dtype) for one, dtype in zip(numbers, [*dtypes, torch.float16], strict=True)]
        exact, rounded = math.hypot(*(g.double().norm() for g in grads)), math.hypot(*(g.norm() for g in grads))
    parameters = [nn.Parameter(torch.zeros_like(gradient)) for gradient in grads]
    for parameter, gradient in zip(parameters, grads, strict=True):
        parameter.grad = gradient
    observed = _clipped(learner, parameters, 1000.0)
    return observed | {"dtypes": [what(p.grad) for p in parameters]}


def one_clipped_update(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes an update over old gradients, with a gradient far above the limit and with a gradient below the limit.

    The last micro-batch uses another parameter than those before. The optimizer has groups with different learning
    rates. Weight decay would show in parameters without a gradient.
    """
    draw = random.Random(seed)
    norms, final_weights, steps, read, runs, kept = [], [], [], list[int](), list[dict[str, Any]](), list[int]()
    micro_batches, limits = make_micro_batches(seed, draw.randrange(5, 8)), [draw.uniform(0.02, 0.1), 1e6]
    micro_batches[-1][0][0, 0] = 1
    for max_norm in limits:
        model, stream = Sometimes.of(make_model(seed)), Stream(micro_batches)
        leave_old_gradients(model, seed)
        before = weights(model)
        settings = ({"lr": 0.1}, {"lr": 0.05}, {"weight_decay": 0.5})
        groups: list[dict[str, Any]] = [{"params": list[Tensor](), **setting} for setting in settings]
        for number, (name, parameter) in enumerate(model.named_parameters()):
            place = 2 if name in ("unused", "position_embedding.weight") else number % 2
            groups[place]["params"].append(parameter)
        optimizer = torch.optim.SGD(groups, lr=0.1)
        updates = Updates(model, optimizer)
        activations = Activations(model, micro_batches[0][0])

        def work(model: Any = model, optimizer: Any = optimizer, limit: float = max_norm, stream: Any = stream) -> None:
            ForwardRecorder(model, lambda output: read.append(stream.taken))
            norms.append(learner.clipped_update(model, optimizer, stream, limit))

        runs.append(activations.during(work))
        kept.append(stream.kept)
        final_weights.append(weights(model))
        steps.append(len(updates.after))
    in_a_list = make_model(seed)
    norms.append(learner.clipped_update(in_a_list, sgd(in_a_list), micro_batches, 1e6))
    return {
        **{name: runs[0][name] + runs[1][name] for name in ("held", "turns", "passes", "backwards", "reached")},
        "peak": max(run["peak"] for run in runs),
        "kept": max(kept),
        "limits": limits,
        "before": before,
        "count": len(micro_batches),
        "read": read,
        "types": [type_name(norm) for norm in norms],
        "norms": [plain_number(norm) for norm in norms],
        "weights": np.concatenate(final_weights),
        "parts": named_weights(model)["parts"],
        "steps": steps,
    }


# ----------------------------------------------------------------------------------------------------------- schedule
def counts(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts updates, with and without a remainder, of nothing, and with one left over of a large k."""
    draw = random.Random(seed)
    k, large = draw.randrange(3, 7), draw.randrange(1000, 10_000)
    cases = [
        (draw.randrange(4, 9) * k, k, 1),
        (draw.randrange(4, 9) * k + draw.randrange(1, k), k, 1),
        (draw.randrange(4, 9) * k + 1, k, draw.randrange(2 * k, 3 * k)),
        (k - 1, k, 2),
        (draw.randrange(5, 20), 1, draw.randrange(2, 5)),
        (0, k, 3),
        (2 * k + 1, k, 0),
        (3 * large + 1, large, 1),
    ]
    returned = [learner.count_updates(*case) for case in cases]
    return {
        "cases": [list(case) for case in cases],
        "types": [type_name(count) for count in returned],
        "counts": [plain_number(count) for count in returned],
    }


def scheduled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains three or four passes, the last one of full groups, with a learning rate that falls at every update.

    The scheduler has taken a step before, as in a run that resumes. Returns also the rates of a run in which every
    second pass, from the first on, has no micro-batches.
    """
    draw, model = random.Random(seed), make_model(seed)
    head, *rest = model.parameters()
    optimizer = torch.optim.SGD([{"params": rest, "lr": 0.1}, {"params": [head], "lr": 0.02}])
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, draw.uniform(0.4, 0.9))
    optimizer.step()  # without gradients, so that torch does not warn
    scheduler.step()
    k = draw.randrange(2, 5)
    # The leftovers of the first two passes would fit into one group.
    lengths = [draw.randrange(2, 4) * k + rest for rest in (1, draw.randrange(1, k), draw.randrange(1, k))]
    lengths = [*lengths[: draw.randrange(2, 4)], k * draw.randrange(1, 3)]
    passes = [Stream(make_micro_batches(seed + 10 * number, length)) for number, length in enumerate(lengths)]
    asked: list[int] = []  # passes that have been asked for
    started: list[int] = []  # their number at each update
    taken: list[int] = []  # the micro-batches read at each update

    def epochs() -> Iterator[Stream]:
        for number, stream in enumerate(passes):
            asked.append(number)
            yield stream

    def note(*_: Any) -> None:
        started.append(len(asked))
        taken.append(sum(stream.taken for stream in passes))

    optimizer.register_step_post_hook(note)
    rates = learner.train_scheduled(model, optimizer, scheduler, epochs(), k)
    small = make_model(seed)
    other = sgd(small)
    falling = torch.optim.lr_scheduler.ExponentialLR(other, 0.5)
    few = [make_micro_batches(seed, count) for count in (0, 1, 0, 1)]
    some = unless_it_fails(lambda: learner.train_scheduled(small, other, falling, few, k))
    return {
        "with empty passes": some if type(some) is str else plain_numbers(some),
        "type": kind_of(rates),
        "rates": plain_numbers(rates),
        "k": k,
        "lengths": lengths,
        "taken": taken,
        "started": started,
        "left": [group["lr"] for group in optimizer.param_groups],
        **named_weights(model),
    }


# -------------------------------------------------------------------------------------------------------- noise_scale
def make_steps(seed: int, signal: float = 3.0) -> tuple[list[Tensor], int]:
    """Returns gradients of several steps, each with another k, around a mean with norm `signal`; and the size."""
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    size, numbers = draw.randrange(2, 8), draw.randrange(12, 30)
    mean = torch.randn(numbers, generator=generator, dtype=torch.float64)
    mean *= signal / mean.norm()
    ks = [4, 2, 5, 3, 7][: draw.randrange(3, 6)]
    draw.shuffle(ks)
    noises = [torch.randn(k, numbers, generator=generator, dtype=torch.float64) * 1.5 for k in ks]
    return [mean + noise / size**0.5 for noise in noises], size


def estimates(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns both estimates for a step, for a step whose rows cancel, for one sequence per row, and in fp32."""
    steps, size = make_steps(seed)
    opposed = torch.cat([steps[1], -steps[1]])
    cases = [(steps[0], size), (opposed, size), (steps[2], 1), (steps[0].float(), size)]
    before = flat(gradients_ for gradients_, _ in cases)
    returned = [learner.noise_estimates(*case) for case in cases]
    pairs = [tuple_items(pair, 2) or (None, None) for pair in returned]
    return {
        "types": [type_name(value) for pair in pairs for value in pair],
        "signals": [plain_number(signal) for signal, _ in pairs[:3]],
        "noises": [plain_number(noise) for _, noise in pairs[:3]],
        "signal in fp32": plain_number(pairs[3][0]),
        "noise in fp32": plain_number(pairs[3][1]),
        "sizes": [[*gradients_.shape[:1], size_, gradients_.shape[1]] for gradients_, size_ in cases[:3]],
        "changed": int((flat(gradients_ for gradients_, _ in cases) != before).sum()),
    }


def scale(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the noise scale of several steps; the rows of one step cancel, so its estimate of |G|^2 is negative.

    That of the last step is large: alone it would give a small ratio.
    """
    steps, size = make_steps(seed)
    steps[-1] += 1.0
    steps.insert(seed % 3, torch.cat([steps[2], -steps[2]]))
    returned = learner.noise_scale(tuple(steps), size)
    single = learner.noise_scale([steps[-1] + 5.0], size)
    return {"types": [type_name(returned), type_name(single)], "scales": [plain_number(returned), plain_number(single)]}


def no_signal(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the noise scale of rows that nearly cancel: the estimate of |G|^2 is negative, the mean not exactly 0.

    Returns also that of gradients of zeros.
    """
    steps, size = make_steps(seed)
    opposed = [torch.cat([step + 0.01, -step]) for step in steps]
    returned = learner.noise_scale(opposed, size)
    zeros = unless_it_fails(lambda: learner.noise_scale([torch.zeros(3, 5)] * 2, size))
    return {
        "type": type_name(returned),
        "scale": plain_number(returned),
        "of zeros": zeros if type(zeros) is str else a_float(zeros),
    }
