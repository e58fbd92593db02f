"""Probes of Lab 08: each calls the learner's code on two to four real ranks, and returns its results as plain values.

A probe's process only makes inputs; every computation is on a rank. Numbers are float64 where precision is not the
subject, so that the order of additions changes only the 16th digit; in smaller dtypes they are whole numbers, whose
sums and means are exact.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.exercises.probes.collective_waits import SettledCounter
from rankzero.exercises.probes.rank_probes import run_on_ranks
from rankzero.exercises.probes.untrusted_values import array, is_tensor, plain_number, type_name
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.work_clock import WorkClock, descendants

FILL = 99.0  # the padding behind the last number of a part, which must not be used


def draw(seed: int, *shape: int) -> Tensor:
    """Returns normally distributed numbers, float64; none is 0."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def draw_as(dtype: torch.dtype, seed: int, *shape: int) -> Tensor:
    """Returns `draw`; in a smaller dtype whole numbers, multiples of 12, so that means over 2 to 4 ranks are exact."""
    numbers = draw(seed, *shape)
    return numbers if dtype == torch.float64 else (12 * (3 * numbers).clamp(-8, 8).round()).to(dtype)


def draw_ranks(seed: int, *choices: int) -> int:
    """Returns one of these numbers of ranks."""
    return random.Random(f"ranks {seed}").choice(choices)


def part_of(whole: Tensor, rank: int, ranks: int, fill: float = 0.0) -> Tensor:
    """Returns the part that a rank keeps, as a right `cut` returns it."""
    size = -(-whole.numel() // ranks)
    part = torch.full((size,), fill, dtype=whole.dtype)
    rank_numbers = whole.detach().flatten()[rank * size : (rank + 1) * size]
    part[: len(rank_numbers)] = rank_numbers
    return part


def plain(value: Any) -> Any:
    """Returns a tensor's numbers as an array, and None for another value."""
    return array(value) if is_tensor(value) else None


def a_tensor(value: Any, function: str) -> Tensor:
    """Returns `value` if it is a tensor. TypeError with a sentence if the learner's function returned another value."""
    if not is_tensor(value):
        raise TypeError(f"{function} returned a {type_name(value)}; a tensor was expected")
    return value


def said(counter: CollectiveCounter) -> list[str]:
    """Returns the calls in order, such as 'all_gather of 24 float64' or 'barrier'."""
    sizes = {"float64": 8, "float32": 4, "int64": 8, "bfloat16": 2, "float16": 2, "uint8": 1}
    return [
        record.collective
        if record.collective == "barrier"
        else f"{record.collective} of {record.bytes // sizes.get(record.dtype, 1)} {record.dtype}"
        for record in counter.records
    ]


def merged(by_rank: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the ranks' answers as lists by rank; arrays of one shape become one array with a row per rank."""
    combined: dict[str, Any] = {}
    for name in by_rank[0]:
        values = [answers[name] for answers in by_rank]
        can_stack = all(isinstance(value, np.ndarray) and value.shape == values[0].shape for value in values)
        combined[name] = np.stack(values) if can_stack else values
    return combined


def references(tensors: Any) -> list[StorageWeakRef]:
    """Returns weak references to the storage of every tensor in nested lists."""
    if isinstance(tensors, list | tuple):
        return [reference for entry in tensors for reference in references(entry)]
    return [StorageWeakRef(tensors.untyped_storage())] if isinstance(tensors, Tensor) else []


def alive(followed: Sequence[StorageWeakRef], expected: int, patience: float) -> int:
    """Counts the float64 numbers in the storages that still exist, after waiting until there are at most `expected`.

    Waits `patience` seconds, longer on a busy machine, because gloo's thread may free a storage shortly after `wait`.
    """
    clock = WorkClock(lambda: [os.getpid()])
    until = clock.now() + patience
    while True:
        storages = [torch.UntypedStorage._new_with_weak_ptr(reference.cdata) for reference in followed]
        existing = {storage._cdata: storage.nbytes() // 8 for storage in storages if storage is not None}
        numbers = sum(existing.values())
        del storages
        if numbers <= expected or clock.now() > until:
            return numbers
        time.sleep(0.001)


def room_besides(tensors: Sequence[Tensor | None]) -> int:
    """Counts the numbers in the tensors' storages that belong to none of the tensors, as around a view of a part."""
    room: dict[int, int] = {}
    for tensor in tensors:
        if tensor is not None:
            storage = tensor.untyped_storage()
            numbers = storage.nbytes() // tensor.element_size()
            room[storage._cdata] = room.get(storage._cdata, numbers) - tensor.numel()
    return sum(max(0, numbers) for numbers in room.values())


# ---------------------------------------------------------------------------------------------------------------- flat
Shape = tuple[int, ...]


def cuts(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Cuts tensors of several shapes for every rank of worlds of several sizes; returns parts and storages."""
    chance = random.Random(seed)
    cases: list[tuple[Shape, int]] = [((3 * chance.randrange(2, 20) + 1,), 3), ((4,), 3)]
    cases += [((2, chance.randrange(2, 20)), 2), ((3, 2), 4), ((), 2), ((chance.randrange(3, 40),), 1)]
    dtypes = [chance.choice(DTYPES) for _ in cases]

    def work() -> dict[str, Any]:
        parts, storages, shapes, kinds, shared, graphs = [], [], [], [], 0, 0
        for place, ((shape, ranks), dtype) in enumerate(zip(cases, dtypes, strict=True)):
            whole = nn.Parameter(draw(seed + place, *shape).to(dtype))
            if place == 3:
                whole = nn.Parameter(draw(seed + place, *reversed(shape)).to(dtype).T)  # not contiguous
            for rank in range(ranks):
                part = a_tensor(learner.cut(whole, rank, ranks), "cut")
                parts.append(plain(part))
                shapes.append(list(part.shape))
                kinds.append(str(part.dtype))
                storages.append(part.untyped_storage().nbytes() // part.element_size())
                shared += part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
                graphs += part.requires_grad
        observed = {"parts": parts, "shapes": shapes, "dtypes": kinds, "storages": storages}
        return observed | {"shared": shared, "graphs": graphs}

    return dict(run_on_ranks(work, 1)[0]) | {"cases": [[list(shape), ranks] for shape, ranks in cases]}


def gathers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gathers tensors of one, two and no dimensions and of several dtypes on two to four ranks; one has no padding."""
    chance, ranks = random.Random(seed), draw_ranks(seed, 2, 3, 4)
    cases: list[Shape] = [(ranks * chance.randrange(2, 30) + 1,), (2, chance.randrange(2, 20)), ()]
    cases.append((chance.randrange(2, 9), ranks))
    dtypes = [*chance.sample(DTYPES, 3), torch.float64]

    def work() -> dict[str, Any]:
        rank, wholes, kinds, calls, changed, unwaited = dist.get_rank(), [], [], [], 0, 0
        for place, (shape, dtype) in enumerate(zip(cases, dtypes, strict=True)):
            part = part_of(draw(seed + place, *shape).to(dtype), rank, ranks, fill=FILL)
            before = part.clone()
            with SettledCounter() as counter:
                whole = a_tensor(learner.gather(part, torch.Size(shape)), "gather")
            wholes.append(plain(whole))
            kinds.append(str(whole.dtype))
            calls.append(said(counter))
            changed += int((part != before).sum())
            unwaited += counter.unwaited
        return {"wholes": wholes, "dtypes": kinds, "calls": calls, "changed": changed, "unwaited": unwaited}

    return merged(run_on_ranks(work, ranks)) | {"cases": [list(shape) for shape in cases]}


def reductions(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Reduces gradients on three or four ranks, of several dtypes: one needs padding, one none, one is transposed."""
    chance, ranks = random.Random(seed), draw_ranks(seed, 3, 4)
    cases: list[Shape] = [(ranks * chance.randrange(2, 30) + 1,), (2, ranks * chance.randrange(1, 6)), (3, 2)]
    dtypes = chance.sample(DTYPES, 3)

    def work() -> dict[str, Any]:
        rank, parts, kinds, calls, changed, unwaited = dist.get_rank(), [], [], [], 0, 0
        for place, (shape, dtype) in enumerate(zip(cases, dtypes, strict=True)):
            gradient = draw_as(dtype, seed + 10 * rank + place, *shape)
            if place == 2:
                gradient = draw_as(dtype, seed + 10 * rank + place, *reversed(shape)).T
            before = gradient.clone()
            with SettledCounter() as counter:
                part = a_tensor(learner.reduce_gradient(gradient), "reduce_gradient")
            parts.append(plain(part))
            kinds.append(str(part.dtype))
            calls.append(said(counter))
            changed += int((gradient != before).sum())
            unwaited += counter.unwaited
        return {"parts": parts, "dtypes": kinds, "calls": calls, "changed": changed, "unwaited": unwaited}

    return merged(run_on_ranks(work, ranks)) | {"cases": [list(shape) for shape in cases]}


# ----------------------------------------------------------------------------------------------------------- clip_part
def by_hand(*arguments: Any, **settings: Any) -> None:
    """Replaces a function that all of torch's clipping functions call, however a file has imported them."""
    raise RuntimeError("clip_part is to be written by hand, without torch.nn.utils")


class Sent(CollectiveCounter):
    """Counts collectives, and keeps the number that this rank adds to an all-reduce of one number."""

    numbers: tuple[float, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name == "c10d::allreduce_" and args[0][0].numel() == 1:
            self.numbers += (float(args[0][0]),)
        return super().__torch_dispatch__(func, types, args, kwargs)


def _clipped(learner: ModuleType, whole: Tensor, max_norm: float, fill: float) -> dict[str, Any]:
    """Clips one gradient in parts."""
    numel, rank = whole.numel(), dist.get_rank()
    part = part_of(whole, rank, dist.get_world_size(), fill)
    used, address = max(0, min(len(part), numel - rank * len(part))), part.data_ptr()
    grouping: Any = nn.utils.clip_grad._group_tensors_by_device_and_dtype.__wrapped__  # type: ignore[attr-defined]
    code, grouping.__code__ = grouping.__code__, by_hand.__code__  # under whatever name a file has it
    norm: Any
    try:
        with Sent() as counter:
            norm = learner.clip_part(part, numel, max_norm)
    except ZeroDivisionError as error:
        if whole.any():
            raise
        norm = error
    finally:
        grouping.__code__ = code
    return {
        "type": type_name(norm),
        "norm": None if isinstance(norm, ZeroDivisionError) else plain_number(norm),
        "part": plain(part[:used]),
        "moved": part.data_ptr() != address,
        "calls": said(counter),
        "sent": list(counter.numbers),
    }


def clipped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Clips gradients on four ranks, so that the last rank has few numbers or none.

    Two gradients are several times the limit, with nan in the padding. Then, with another limit and numbers in the
    padding, gradients have 0.95, 0 and 1.05 times the norm that is allowed; each rank's part has a smaller norm.
    """
    chance, ranks = random.Random(seed), 4
    limits, factor = [chance.uniform(0.5, 2.0), chance.uniform(1.0, 5.0)], chance.uniform(3, 50)
    some = ranks * chance.randrange(2, 9) + 1  # the last rank has fewer numbers than the others
    few = 5  # and here none: the part of rank 3 begins behind the end, which it does on no fewer ranks
    numels = [[some, few], [some, few, some]]

    def work() -> dict[str, Any]:
        results = []
        for place, numel in enumerate(numels[0]):
            whole = draw(seed + place, numel)
            whole[0] *= 5  # so that the norms of the ranks' parts differ
            results.append(_clipped(learner, whole * (limits[0] * factor / whole.norm()), limits[0], torch.nan))
        for place, (numel, length) in enumerate(zip(numels[1], (0.95, 0.0, 1.05), strict=True)):
            whole = draw(seed + place, numel)
            results.append(_clipped(learner, whole * (length * limits[1] / whole.norm()), limits[1], FILL))
        first, others = results[:2], results[2:]
        above_limit = {name: [result[name] for result in first] for name in results[0]}
        return above_limit | {f"{name} at the limit": [result[name] for result in others] for name in results[0]}

    inputs = {"limits": [limits[0]] * 2, "limits at the limit": [limits[1]] * 3, "ranks": ranks}
    return merged(run_on_ranks(work, ranks)) | inputs | {"numels": numels[0], "numels at the limit": numels[1]}


# --------------------------------------------------------------------------------------------------------------- zero1
def make_parameters(seed: int, dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    """Returns a few weights in four tensors, the same on every rank."""
    chance = random.Random(f"shapes {seed}")
    shapes: list[Shape] = [(2, chance.randrange(2, 90)), (chance.randrange(3, 90),), (), (1,)]
    return [nn.Parameter(draw(seed + place, *shape).to(dtype)) for place, shape in enumerate(shapes)]


OPTIMIZERS: tuple[tuple[Any, dict[str, Any]], ...] = (
    # A large eps, because AdamW would otherwise hide a gradient that is wrong by a factor.
    (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.3, "eps": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.RMSprop, {"lr": 0.05, "eps": 0.1, "weight_decay": 0.1}),
)


def state_numbers(optimizer: torch.optim.Optimizer) -> int:
    """Counts the numbers in the averages of an optimizer, without its step counters."""
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return sum(value.untyped_storage().nbytes() // value.element_size() for value in kept if value.dim())


def parts_of_weights(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the parts of all weights on two to four ranks, and the numbers that AdamW keeps for each part."""
    dtype = random.Random(f"dtype {seed}").choice(DTYPES)

    def work() -> dict[str, Any]:
        parameters = make_parameters(seed, dtype)
        parameters[0].requires_grad_(False)
        part = a_tensor(learner.make_part([*parameters]), "make_part")
        observed = {"type": type_name(part), "part": plain(part), "state": 0, "dtype": str(part.dtype)}
        observed["total"] = sum(p.numel() for p in parameters)
        observed["numbers"] = part.untyped_storage().nbytes() // part.element_size()
        optimizer = torch.optim.AdamW([part])
        part.grad = torch.ones_like(part)
        optimizer.step()
        return observed | {"state": state_numbers(optimizer)}

    return merged(run_on_ranks(work, draw_ranks(seed, 2, 3, 4)))


class Made(CollectiveCounter):
    """Counts collectives, and follows the storage of every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[StorageWeakRef] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self._made += references(result)
        return result

    def kept(self, besides: Sequence[Tensor | None]) -> int:
        """Counts the numbers in tensors that were made and still exist, without the tensors `besides`."""
        known = {tensor.untyped_storage()._cdata for tensor in besides if tensor is not None}
        others = alive([reference for reference in self._made if reference.cdata not in known], 0, 0.1)
        return others + room_besides(besides)


def updates(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes three updates on three or four ranks with different gradients.

    Some are None in the second update, and in the third one all of rank 0 and one of every rank.
    """
    make_optimizer, settings = OPTIMIZERS[random.Random(f"optimizer {seed}").randrange(len(OPTIMIZERS))]

    def work() -> dict[str, Any]:
        rank, parameters = dist.get_rank(), make_parameters(seed)
        made: list[Made] = [Made()]
        with made[0]:
            part = learner.make_part([*parameters])
        optimizer = make_optimizer([part], **settings)
        steps = [0]
        optimizer.register_step_post_hook(lambda *_: steps.__setitem__(0, steps[0] + 1))
        before, weights, calls, disturbed = [p.data_ptr() for p in parameters], [], [], 0
        for step in range(3):
            for place, p in enumerate(parameters):
                p.grad = draw(seed + 100 * step + 10 * rank + place, *p.shape)
                missing = {1: ((1, 2), (2,), ())[rank % 3], 2: (1,) if rank else (0, 1, 2, 3)}
                if place in missing.get(step, ()):
                    p.grad = None
            kept = [None if p.grad is None else p.grad.clone() for p in parameters]
            with Made() as counter:
                learner.zero1_step([*parameters], part, optimizer)
            made.append(counter)
            for p, old in zip(parameters, kept, strict=True):
                now = plain(p.grad)
                disturbed += now is not None if old is None else now is None or not np.array_equal(now, plain(old))
            calls.append(said(counter))
            weights.append(torch.cat([p.detach().flatten() for p in parameters]).numpy().copy())
        state = [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)]
        known = [*parameters, *(p.grad for p in parameters), part, part.grad, *state]
        return {
            "first": weights[0],
            "weights": np.stack(weights[1:]),
            "calls": calls,
            "steps": steps[0],
            "disturbed": disturbed,
            "moved": sum(p.data_ptr() != place for p, place in zip(parameters, before, strict=True)),
            "state": state_numbers(optimizer),
            "kept": max(counter.kept(known) for counter in made),
        }

    observed = merged(run_on_ranks(work, draw_ranks(seed, 3, 4)))
    return observed | {"optimizer": make_optimizer.__name__}


# ------------------------------------------------------------------------------------------------------- whole_weights
class Tied(nn.Module):
    """Two layers of one shape, whose matrices `wholes` ties, a frozen layer, a scalar, and a buffer."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        chance = random.Random(f"tied {seed}")
        width = chance.randrange(2, 9)
        self.first, self.scale = nn.Linear(width, width), nn.Parameter(torch.zeros(()))
        self.last = nn.Linear(width, width, bias=chance.random() < 0.5)
        self.norm = nn.LayerNorm(width).requires_grad_(False)
        self.register_buffer("shift", torch.zeros(3))
        self.to(dtype)


def wholes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Puts the weights of two modules of different dtypes together, with and without gradients, and reduces back."""
    ranks = draw_ranks(seed, 2, 3, 4)
    dtypes = random.Random(seed).sample(DTYPES, 2)

    def work() -> dict[str, Any]:
        rank = dist.get_rank()
        observed: dict[str, Any] = {}
        names = (
            "names",
            "shapes",
            "weights",
            "full",
            "dtype",
            "views",
            "grad",
            "apart",
            "calls",
            "gradients",
            "reduced",
            "left",
        )
        for place, dtype in enumerate(dtypes):
            shell = Tied(seed + place, dtype).to("meta")
            results: dict[str, Any] = {}
            shell.last.weight = shell.first.weight  # tied again: each got a tensor of its own on the meta device
            sizes = [p.numel() for p in shell.parameters()]
            flat = draw_as(dtype, seed + place, sum(sizes))
            part = nn.Parameter(part_of(flat, rank, ranks, fill=FILL))
            before = part.detach().clone()
            with torch.set_grad_enabled(place == 0), CollectiveCounter() as counter:
                full, weights = learner.whole_weights(shell, part)
            a_tensor(full, "whole_weights")
            storage = full.untyped_storage()
            tensors = [a_tensor(weight, "whole_weights") for weight in weights.values()]
            shared = [weight.untyped_storage().data_ptr() == storage.data_ptr() for weight in tensors]
            results["names"], results["shapes"] = list(weights), [list(weight.shape) for weight in tensors]
            results["weights"] = [plain(weight) for weight in tensors]
            results["full"] = [full.numel(), storage.nbytes() // full.element_size(), int((part != before).sum())]
            results["dtype"], results["views"] = str(full.dtype), sum(not view for view in shared)
            results["grad"], results["calls"] = [full.requires_grad, full.is_leaf], said(counter)
            results["apart"] = sum(_reaches(weight, full) != full.requires_grad for weight in tensors)
            results |= _reduced(learner, part, seed + 7 * place)
            for name in names:
                observed.setdefault(name, []).append(results[name])
        return observed

    return merged(run_on_ranks(work, ranks))


def _reaches(weight: Tensor, full: Tensor) -> bool:
    """Returns whether the gradient of the weight reaches `full`, through the graph; True if only the weight has one."""
    if not (weight.requires_grad and full.requires_grad):
        return weight.requires_grad
    return torch.autograd.grad(weight.sum(), full, allow_unused=True)[0] is not None


def _reduced(learner: ModuleType, part: nn.Parameter, seed: int) -> dict[str, Any]:
    """Reduces a whole gradient into `part` twice; returns the sums, the calls, and what is left of the whole."""
    ranks, calls, sums, left = dist.get_world_size(), [], [], []
    for turn in range(2):
        full = draw_as(part.dtype, seed, part.numel() * ranks).requires_grad_()
        full.grad = draw_as(part.dtype, seed + 10 * dist.get_rank() + turn, full.numel())
        storage = full.untyped_storage()  # also that of the views
        with CollectiveCounter() as counter:
            learner.reduce_into_part(full, part)
        calls.append(said(counter))
        sums.append(plain(part.grad))
        left.append([full.grad is not None, storage.nbytes(), room_besides([part.grad])])
    return {"gradients": sums, "reduced": calls, "left": left}


# ----------------------------------------------------------------------------------------------------- sharded_forward
Layers = tuple[int, int, int]  # inputs, hidden numbers and outputs of a module of two layers


def draw_layers(seed: int, ranks: int, alike: bool = False) -> Layers:
    """Returns sizes of a module whose weights do not divide by the ranks; `alike`: as many outputs as inputs.

    Storages are identified by their size: a matrix has more numbers than the activations, and not as many as a part.
    """
    chance = random.Random(f"layers {seed} {alike}")
    while True:
        inputs, inner, outputs = chance.randrange(3, 7), chance.randrange(5, 30), chance.randrange(3, 7)
        layers = (inputs, inner, inputs if alike else outputs)
        matrices = (layers[0] * inner, inner * layers[2])
        if weights_of(layers) % ranks and -(-weights_of(layers) // ranks) not in matrices:
            return layers


def weights_of(layers: Layers) -> int:
    """Counts the weights and biases."""
    inputs, inner, outputs = layers
    return inputs * inner + inner + inner * outputs + outputs


class Whole(TorchDispatchMode):
    """Follows the storages of whole weights: of every tensor that was gathered, or that a module used as its weights.

    `now()` returns the present count of their numbers; `most` is the largest count at any collective or use.
    """

    def __init__(self, layers: Layers) -> None:
        """Takes the sizes `layers` of a module.

        A tensor made in forward that is as large as the smaller matrix counts as a copy of the weights: all other
        tensors made there are smaller, except copies of a part.
        """
        super().__init__()
        self.most, self._numbers = 0, weights_of(layers)
        self._patience = {"weights": 0.1, "gradients": 0.1}  # seconds: gloo's thread frees storages slightly later
        self._matrix = layers[1] * min(layers[0], layers[2])
        self.calls: list[str] = []
        self._weights: list[StorageWeakRef] = []
        self._gradients: list[StorageWeakRef] = []
        self._counter = CollectiveCounter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace not in ("c10d", "_c10d_functional"):
            made = func(*args, **(kwargs or {}))
            for tensor in made if isinstance(made, list | tuple) else [made]:
                if not isinstance(tensor, Tensor) or tensor.device.type == "meta":
                    continue
                storage = tensor.untyped_storage().nbytes() // tensor.element_size()
                if storage >= self._matrix and storage != -(-self._numbers // dist.get_world_size()):
                    # In backward, gradients are as large, so a tensor made there counts only if it stays.
                    in_forward = torch._C._current_graph_task_id() == -1
                    self._follow(self._weights if in_forward else self._gradients, [tensor])
            return made
        result = self._counter.__torch_dispatch__(func, types, args, kwargs)
        self.calls = said(self._counter)
        name = func._schema.name
        if "allgather" in name or "all_gather" in name or "broadcast" in name or "recv" in name:
            self._follow(self._weights, [args[0]] if isinstance(args[0], Tensor) else args[0])
        if "reduce_scatter" in name:
            self._follow(self._gradients, [args[1]] if isinstance(args[1], Tensor) else args[1])
        self.most = max(self.most, self.now(self._numbers + 1))
        return result

    def used(self, module: nn.Module, *_: Any) -> None:
        """Follows the weights that the module is about to use, as a forward pre-hook."""
        self._follow(self._weights, [p for p in module.parameters() if p.device.type != "meta"])
        self.most = max(self.most, self.now(self._numbers + 1))

    def now(self, expected: int = 0) -> int:
        """Counts the numbers of whole weights in memory, after waiting until there are at most `expected`."""
        return self._alive("weights", self._weights, expected)

    def gradients(self, part: Tensor) -> int:
        """Counts the numbers of whole gradients and copies made in backward that are in memory, without part.grad."""
        known = {tensor.untyped_storage()._cdata for tensor in (part, part.grad) if tensor is not None}
        others = self._alive("gradients", [entry for entry in self._gradients if entry.cdata not in known], 0)
        return others + room_besides([part.grad])

    def _alive(self, kind: str, followed: list[StorageWeakRef], expected: int) -> int:
        numbers = alive(followed, expected, self._patience[kind])
        if numbers > expected:
            self._patience[kind] = 0.0  # the storages are not gloo's, so waiting again is useless
        return numbers

    def _follow(self, into: list[StorageWeakRef], tensors: Any) -> None:
        into += references(tensors)


def make_shell(seed: int, whole: Whole, layers: Layers) -> tuple[nn.Module, nn.Parameter]:
    """Returns a small module on the meta device, and this rank's part of its weights."""
    module = nn.Sequential(nn.Linear(*layers[:2]), nn.Tanh(), nn.Linear(*layers[1:])).double()
    with torch.no_grad():
        for place, p in enumerate(module.parameters()):
            p.copy_(draw(seed + place, *p.shape))
    flat = torch.cat([p.detach().flatten() for p in module.parameters()])
    part = nn.Parameter(part_of(flat, dist.get_rank(), dist.get_world_size(), fill=FILL))
    module = module.to("meta")
    module.register_forward_pre_hook(whole.used)
    return module, part


def _one_module(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs forward and backward of one module twice, with reshard and without; then two forwards, one backward."""
    layers = draw_layers(seed, dist.get_world_size())
    observed: dict[str, Any] = {
        "y": [],
        "input gradient": [],
        "gradient": [],
        "held": [],
        "forward": [],
        "backward": [],
    }
    observed |= {"waste": [], "fresh": [], "again": [], "both": [], "raised in both": []}
    for reshard in (True, False):
        with Whole(layers) as whole:
            module, part = make_shell(seed, whole, layers)
            x = draw(seed + 50 + dist.get_rank(), 2, layers[0]).requires_grad_()
            y = a_tensor(learner.sharded_forward(module, part, x, reshard), "sharded_forward")
            held, forward = [whole.now(0 if reshard else weights_of(layers) + 1)], whole.calls
            (y * draw(seed + 60 + dist.get_rank(), *y.shape)).sum().backward()
            held.append(whole.now())
            observed["y"].append(plain(y))
            observed["input gradient"].append(plain(x.grad))
            observed["gradient"].append(plain(part.grad))
            observed["held"].append(held)
            observed["forward"].append(forward)
            observed["backward"].append(whole.calls[len(forward) :])
            observed["waste"].append(whole.gradients(part))
            with torch.no_grad():
                part.add_(draw(seed + 70 + dist.get_rank(), *part.shape))  # like an optimizer
            y = learner.sharded_forward(module, part, x, reshard)
            observed["fresh"].append(plain(y))
            held.append(whole.now(0 if reshard else weights_of(layers) + 1))
            y.square().sum().backward()
            held.append(whole.now())
            observed["again"].append(plain(part.grad))
            try:
                inputs = [draw(seed + place + dist.get_rank(), 2, layers[0]) for place in (80, 90)]
                outputs = [learner.sharded_forward(module, part, x, reshard) for x in inputs]
                torch.cat(outputs).square().sum().backward()
                raised = ""
            except RuntimeError as error:
                raised = str(error)[:100].partition("\n")[0]
            observed["both"].append(plain(part.grad))
            observed["raised in both"].append(raised)
    return observed


def _two_modules(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs two modules in sequence, with reshard, and then one module without gradients."""
    layers = draw_layers(seed, dist.get_world_size(), alike=True)
    with Whole(layers) as whole:
        pairs = [make_shell(seed + 10 * place, whole, layers) for place in (0, 1)]
        y = draw(seed + 50 + dist.get_rank(), 2, layers[0])
        for module, part in pairs:
            y = a_tensor(learner.sharded_forward(module, part, y, True), "sharded_forward")
        y.square().sum().backward()
    observed = {
        "most": whole.most,
        "calls": whole.calls,
        "gradients": [plain(part.grad) for _, part in pairs],
    }
    with Whole(layers) as whole, torch.no_grad():
        module, part = make_shell(seed, whole, layers)
        try:
            y = learner.sharded_forward(module, part, draw(seed, 2, layers[0]), False)
            observed |= {"evaluated": plain(y), "kept": whole.now(), "asked": whole.calls, "raised": ""}
        except RuntimeError as error:
            observed |= {"evaluated": None, "kept": 0, "asked": [], "raised": str(error)[:100].partition("\n")[0]}
    return observed


def modules(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs one module and then two modules, on two or three ranks."""
    ranks = draw_ranks(seed, 2, 3)

    def work() -> dict[str, Any]:
        gc.disable()  # so that tensors in reference cycles stay
        return _one_module(learner, seed) | _two_modules(learner, seed)

    sizes = [weights_of(draw_layers(seed, ranks, alike)) for alike in (False, True)]
    return merged(run_on_ranks(work, ranks)) | {"sizes": sizes, "ranks": ranks}


# ---------------------------------------------------------------------------------------------------------- mixed_step
PRECISIONS = (
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.float32, torch.bfloat16),
)


def mixed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes three steps with a few weights on three ranks with each precision policy; divisions by 3 are not exact."""
    ranks, count = 3, 3 * random.Random(seed).randrange(4, 300)

    def work() -> dict[str, Any]:
        rank, results = dist.get_rank(), []
        factors = draw(seed + rank, count).float()
        for param_dtype, reduce_dtype in PRECISIONS:
            given: list[Tensor] = []

            def loss_of(full: Tensor, given: list[Tensor] = given) -> Tensor:
                given.append(full.detach().clone())
                return (full * full * factors.to(full.dtype)).sum() / 3

            part = part_of(draw(seed + 7, count).float(), rank, ranks)
            address, before = part.data_ptr(), part.clone()
            after: list[Tensor] = []
            with CollectiveCounter() as counter:
                for _ in range(3):
                    learner.mixed_step(part, loss_of, 0.01, param_dtype, reduce_dtype)
                    after.append(part.clone())
            results.append(
                {
                    "given": plain(given[0]) if given else None,
                    "given dtype": str(given[0].dtype) if given else "nothing",
                    "times": len(given),
                    "calls": said(counter),
                    "first": plain(after[0] - before),
                    "moved": part.data_ptr() != address,
                    "dtype": str(part.dtype),
                    "part": plain(part),
                }
            )
        return {name: [result[name] for result in results] for name in results[0]}

    return merged(run_on_ranks(work, ranks))


# ----------------------------------------------------------------------------------------------- save_parts, load_part
class Saving:
    """Delays a rank that is about to write a file until rank 0 needs this rank in a collective or has returned.

    If rank 0 has renamed the folder by then, rank 0 has not waited for this rank. Before rank 0 removes a file of an
    earlier save, it waits until each other rank has written, or needs rank 0 in a collective.
    """

    def __init__(self, folder: Path, counts: Sequence[int], begun: Any) -> None:
        """Takes the count of numbers of each rank, and `begun`, an array that all ranks share.

        It has the number of collectives that rank 0 has begun, whether rank 0 has returned, and for each rank, whether
        the folder existed before the rank wrote. Then, whether rank 0 is about to remove a file, and for each other
        rank, the number of collectives that it has begun.
        """
        self.folder, self.begun, self.finished, self.watching = folder, begun, 0, True
        self._counts = counts
        self.wrote_manifest = self.wrote_others = self.renamed = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        self.renamed |= self.watching and event == "os.rename"
        if self.watching and event in ("shutil.rmtree", "os.remove", "os.rmdir") and not dist.get_rank():
            self._let_others_write()
        if self.watching and event in ("os.rename", "os.mkdir"):
            self._name_given(*arguments[: 1 + (event == "os.rename")])
        if not self.watching or event not in ("open", "os.mkdir") or isinstance(arguments[0], int):
            return
        writes = event == "os.mkdir" or any(letter in str(arguments[1] or "") for letter in "wax+")
        self.wrote_manifest |= writes and str(arguments[0]).endswith("manifest.json")
        part = re.search(r"part-(\d+)\.bin$", str(arguments[0]))
        self.wrote_others |= bool(writes and part and int(part[1]) != dist.get_rank())
        if writes and self.folder.name in str(arguments[0]):
            clock = WorkClock(lambda: descendants(os.getppid()))
            until = clock.now() + 1.0
            removing = 2 + len(self._counts)
            while dist.get_rank() and not (self.begun[1] or self.begun[removing] or self.begun[0] > self.finished):
                if clock.now() > until:
                    break
                time.sleep(0.0005)
            self.begun[2 + dist.get_rank()] |= self.folder.exists()

    def _let_others_write(self) -> None:
        """Waits until the other ranks wait for rank 0 in a collective or have returned."""
        removing = 2 + len(self._counts)
        clock = WorkClock(lambda: descendants(os.getppid()))
        until = clock.now() + 1.0
        self.begun[removing] = 1
        while min(self.begun[removing + 1 :]) <= self.finished and clock.now() < until:
            time.sleep(0.0005)
        self.begun[removing] = 0

    def _name_given(self, *paths: Any) -> None:
        """Notes the ranks whose files are missing when the folder gets its name, or is filled under that name."""
        source, target = Path(str(paths[0])), Path(str(paths[-1]))
        if self.folder.name not in (target.name, target.parent.name):
            return
        for rank, count in enumerate(self._counts):
            missing = source == target or not (source / f"part-{rank}.bin").is_file()
            self.begun[2 + rank] |= 2 * bool(count and missing)


class Steps(TorchDispatchMode):
    """Records each collective: on rank 0 when it begins, on other ranks when it ends."""

    def __init__(self, saving: Saving, begun: Any) -> None:
        super().__init__()
        self.saving, self.begun, self.counter = saving, begun, CollectiveCounter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        collective = func.namespace in ("c10d", "_c10d_functional")
        if collective:
            rank = dist.get_rank()
            self.begun[2 + len(self.saving._counts) + rank if rank else 0] += 1
        result = self.counter.__torch_dispatch__(func, types, args, kwargs)
        if collective:
            self.saving.finished += 1
        return result


@contextlib.contextmanager
def a_folder() -> Iterator[Path]:
    """Makes an empty folder and removes it afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def saves(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves tensors of about 1000 and of few numbers on three or four ranks; two ranks have fewer than a part of these.

    An earlier save of the first tensor was killed. The folders' names have a dot, as a file with a suffix has.
    """
    ranks = draw_ranks(seed, 3, 4)
    numels = (ranks * random.Random(seed).randrange(310, 360) + 1, {3: 1, 4: 5}[ranks])
    dtypes = (torch.float64, torch.float32)

    def work(folder: Path, begun: Any) -> dict[str, Any]:
        rank, calls, manifests, renames, changed = dist.get_rank(), [], 0, 0, 0
        others = 0
        for place, (numel, dtype) in enumerate(zip(numels, dtypes, strict=True)):
            part = part_of(draw(seed + place, numel).to(dtype), rank, ranks, fill=FILL)
            before = part.clone()
            target, shared_counts = folder / f"step-{place}.5", begun[place]
            size = -(-numel // ranks)
            saving = Saving(target, [min(size, max(0, numel - r * size)) for r in range(ranks)], shared_counts)
            with Steps(saving, shared_counts) as steps:
                try:
                    learner.save_parts(target, part, numel)
                except OSError:
                    if not any(shared_counts[2 : 2 + ranks]):
                        raise
            saving.watching = False
            if rank:
                shared_counts[2 + ranks + rank] = 10**9
            manifests += saving.wrote_manifest and rank > 0
            renames += saving.renamed and rank > 0
            others += saving.wrote_others
            changed += int((part != before).sum())
            if rank == 0:
                shared_counts[1] = 1
            sent = [call for call in said(steps.counter) if " of " in call]  # barriers have no size
            largest = max(sent, key=lambda call: int(call.split()[2]), default="").split()
            total = str(sum(int(call.split()[2]) for call in sent))
            calls.append(" ".join([*largest[:2], total, *largest[3:]]) if largest else "")
            dist.barrier()
        counts = {"manifests": manifests, "renames": renames, "changed": changed, "others": others}
        return {"largest": calls[0], **counts}

    with a_folder() as folder:
        (folder / "step-0.5.partial").mkdir()
        (folder / "step-0.5.partial" / "part-0.bin").write_bytes(b"x" * 20000)
        begun = [multiprocessing.RawArray("i", 2 + 2 * ranks) for _ in numels]
        observed: dict[str, Any] = merged(run_on_ranks(work, ranks, folder, begun))
        observed["ranks"] = ranks
        shared_flags = [shared[2 : 2 + ranks] for shared in begun]
        observed["early"] = [_early(folder / f"step-{place}.5", flags) for place, flags in enumerate(shared_flags)]
        observed["numels"] = list(numels)
        observed["begins"] = [_first_number(folder / "step-0.5" / "part-0.bin", "float64")]
        observed["begins"] += [_first_number(folder / "step-1.5" / "part-0.bin", "float32")]
        observed["folders"] = sorted(file.name for file in folder.iterdir())
        for name, dtype in (("step-0.5", "float64"), ("step-1.5", "float32")):
            files = sorted((folder / name).iterdir()) if (folder / name).is_dir() else []
            observed[f"{name} files"] = [file.name for file in files]
            observed[f"{name} manifest"] = _manifest(folder / name / "manifest.json")
            observed[f"{name} sizes"] = [file.stat().st_size for file in files if file.suffix == ".bin"]
            whole = b"".join(file.read_bytes() for file in files if file.suffix == ".bin")
            even = len(whole) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
            observed[f"{name} numbers"] = np.frombuffer(whole[:even], dtype).copy()
    return observed


def _early(folder: Path, ranks: Sequence[int]) -> int:
    """Counts the ranks that wrote, 1, or whose file was still missing, 2, when the folder had its name."""
    return sum(bool(seen & 1 or (seen and (folder / f"part-{rank}.bin").is_file())) for rank, seen in enumerate(ranks))


def _first_number(file: Path, dtype: str) -> float | None:
    """Returns the first number of a file, and None if the file is missing or too short."""
    numbers = np.frombuffer(file.read_bytes()[: np.dtype(dtype).itemsize], dtype) if file.is_file() else np.empty(0)
    return float(numbers[0]) if len(numbers) else None


def _manifest(file: Path) -> str:
    """Returns the manifest as JSON with sorted keys, or "" if it cannot be read."""
    try:
        return json.dumps(json.loads(file.read_text()), sort_keys=True)[:200]
    except (OSError, ValueError):
        return ""


def write_parts(folder: Path, whole: Tensor, ranks: int) -> None:
    """Writes the files that `ranks` ranks would save."""
    folder.mkdir()
    size, numbers = -(-whole.numel() // ranks), whole.numpy()
    pieces = [numbers[rank * size : (rank + 1) * size] for rank in range(ranks)]
    for rank, piece in enumerate(pieces):
        (folder / f"part-{rank}.bin").write_bytes(piece.tobytes())
    manifest = {"numel": whole.numel(), "dtype": str(numbers.dtype), "counts": [len(piece) for piece in pieces]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def bytes_read() -> int | None:
    """Returns the bytes that this process has read from files, or None if the system does not count them."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except OSError:  # only Linux counts them
        return None


def loads(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Loads parts on other numbers of ranks: a dozen float64 numbers, and fewer float32 numbers.

    The files are overwritten before the parts are read. Also counts the bytes that one of 16 ranks reads and holds of a
    checkpoint of about 640,000 bytes; its part has about 40,000. Counts are rounded to whole parts, so that they do not
    depend on the length of a path, and are at least one part, because the system reads a file that is mapped into
    memory.
    """
    chance = random.Random(seed)
    each, numels, saved = chance.randrange(4500, 5500), (chance.randrange(9, 16), 5), (2, chance.choice([3, 4]))
    worlds = ((1, 2, 3, 4), (1, 2, chance.choice([3, 6])))  # the one rank needs the numbers of three files
    reader = chance.choice([5, 6, 7, 13, 14, 15])
    cases = [
        (numel, by, ranks, rank)
        for numel, by, every in zip(numels, saved, worlds, strict=True)
        for ranks in every
        for rank in range(ranks)
    ]

    def in_parts(count: int) -> int:
        return max(1, round(count / (8 * each))) * 8 * each

    def work(folder: Path) -> dict[str, Any]:
        with CollectiveCounter() as counter:
            loaded = [
                a_tensor(learner.load_part(folder / f"saved-{by}", rank, ranks), "load_part")
                for _, by, ranks, rank in cases
            ]
        for file in folder.glob("saved-*/part-*.bin"):  # the next save may reuse the place
            with file.open("r+b") as opened:
                opened.write(b"\0" * file.stat().st_size)
        parts, kinds = [plain(part) for part in loaded], [str(part.dtype) for part in loaded]
        tracemalloc.start()
        before = bytes_read()
        large = a_tensor(learner.load_part(folder / "large", reader, 16), "load_part")
        after = bytes_read()
        peak_bytes = in_parts(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        read = None if before is None or after is None else in_parts(after - before)
        observed = {"parts": parts, "kinds": kinds, "calls": said(counter), "read": read, "most": peak_bytes}
        return observed | {"each": each, "large": float(large.double().sum())}

    with a_folder() as folder:
        write_parts(folder / "large", draw(seed, 16 * each), 2)
        write_parts(folder / f"saved-{saved[0]}", draw(seed, numels[0]), saved[0])
        write_parts(folder / f"saved-{saved[1]}", draw(seed + 1, numels[1]).float(), saved[1])
        return dict(run_on_ranks(work, 1, folder)[0]) | {"cases": [list(case) for case in cases], "reader": reader}
