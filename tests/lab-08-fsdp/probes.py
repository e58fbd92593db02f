"""Lab 08, probes: they call the learner's code on two or three real ranks and return what came of it as plain values.

A probe's own process only makes inputs; every computation is a rank's. Numbers are float64 where precision is not the
subject, so that the order of additions shows in the 16th digit only.
"""

import contextlib
import gc
import json
import multiprocessing
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.exercises.probes.rank_probes import run_on_ranks
from rankzero.exercises.probes.time_limits import stretched
from rankzero.exercises.probes.untrusted_values import array, is_tensor, plain_number, type_name
from rankzero.learn.distributed.collectives import CollectiveCounter

FILL = 99.0  # what stands behind the last number of a part, where it means nothing


def draw(seed: int, *shape: int) -> Tensor:
    """Normal numbers, float64; none is 0."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def part_of(whole: Tensor, rank: int, ranks: int, fill: float = 0.0) -> Tensor:
    """The part that a rank keeps, as `cut` is to make it."""
    size = -(-whole.numel() // ranks)
    part = torch.full((size,), fill, dtype=whole.dtype)
    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
    part[: len(mine)] = mine
    return part


def plain(value: Any) -> Any:
    """A tensor's numbers as an array; None for what is no tensor."""
    return array(value) if is_tensor(value) else None


def a_tensor(value: Any, function: str) -> Tensor:
    """The tensor that a function of the learner's returned. TypeError, in words, for anything else."""
    if not is_tensor(value):
        raise TypeError(f"{function} returned a {type_name(value)}; a tensor was expected")
    return value


def said(counter: CollectiveCounter) -> list[str]:
    """What was called, in order: 'all_gather of 24 float64', a barrier without a size."""
    sizes = {"float64": 8, "float32": 4, "int64": 8, "bfloat16": 2, "float16": 2, "uint8": 1}
    return [
        record.collective
        if record.collective == "barrier"
        else f"{record.collective} of {record.bytes // sizes.get(record.dtype, 1)} {record.dtype}"
        for record in counter.records
    ]


def merged(by_rank: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What each rank answered, as lists by rank; arrays of one shape become one array with a row for each rank."""
    found: dict[str, Any] = {}
    for name in by_rank[0]:
        every = [one[name] for one in by_rank]
        stacks = all(isinstance(one, np.ndarray) and one.shape == every[0].shape for one in every)
        found[name] = np.stack(every) if stacks else every
    return found


def references(tensors: Any) -> list[StorageWeakRef]:
    """Weak references to the memory of every tensor in a list of lists."""
    if isinstance(tensors, list | tuple):
        return [one for entry in tensors for one in references(entry)]
    return [StorageWeakRef(tensors.untyped_storage())] if isinstance(tensors, Tensor) else []


def alive(followed: Sequence[StorageWeakRef], expected: int, patience: float) -> int:
    """Float64 numbers in the storages that are still there; waits `patience` seconds for there to be no more than
    `expected`, on a busy machine longer: gloo's own thread may let go of one a little after `wait`.
    """
    until = time.monotonic() + stretched(patience)
    while True:
        storages = [torch.UntypedStorage._new_with_weak_ptr(one.cdata) for one in followed]
        numbers = sum({one._cdata: one.nbytes() // 8 for one in storages if one is not None}.values())
        del storages
        if numbers <= expected or time.monotonic() > until:
            return numbers
        time.sleep(0.001)


# ---------------------------------------------------------------------------------------------------------------- flat
Shape = tuple[int, ...]


def cuts(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Parts of tensors of several shapes, for every rank of worlds of several sizes; and their storages."""
    chance = random.Random(seed)
    cases: list[tuple[Shape, int]] = [((3 * chance.randrange(2, 20) + 1,), 3), ((4,), 3)]
    cases += [((2, chance.randrange(2, 20)), 2), ((3, 2), 4), ((), 2), ((chance.randrange(3, 40),), 1)]

    def work() -> dict[str, Any]:
        parts, storages, shapes, shared, graphs = [], [], [], 0, 0
        for place, (shape, ranks) in enumerate(cases):
            whole = nn.Parameter(draw(seed + place, *shape))
            if place == 3:
                whole = nn.Parameter(draw(seed + place, *reversed(shape)).T)  # not contiguous
            for rank in range(ranks):
                part = a_tensor(learner.cut(whole, rank, ranks), "cut")
                parts.append(plain(part))
                shapes.append(list(part.shape))
                storages.append(part.untyped_storage().nbytes() // part.element_size())
                shared += part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
                graphs += part.requires_grad
        return {"parts": parts, "shapes": shapes, "storages": storages, "shared": shared, "graphs": graphs}

    return dict(run_on_ranks(work, 1)[0]) | {"cases": [[list(shape), ranks] for shape, ranks in cases]}


def gathers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Wholes of one dimension, of two and of none, put together on three ranks."""
    chance = random.Random(seed)
    cases: list[Shape] = [(3 * chance.randrange(2, 30) + 1,), (2, chance.randrange(2, 20)), ()]

    def work() -> dict[str, Any]:
        rank, wholes, shapes, calls = dist.get_rank(), [], [], []
        for place, shape in enumerate(cases):
            part = part_of(draw(seed + place, *shape), rank, 3, fill=FILL)
            with CollectiveCounter() as counter:
                whole = a_tensor(learner.gather(part, torch.Size(shape)), "gather")
            wholes.append(plain(whole))
            shapes.append(list(whole.shape))
            calls.append(said(counter))
        return {"wholes": wholes, "shapes": shapes, "calls": calls}

    return merged(run_on_ranks(work, 3)) | {"cases": [list(shape) for shape in cases]}


def reductions(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gradients of one dimension, of two, and of two transposed, another on each of two ranks."""
    chance = random.Random(seed)
    cases: list[Shape] = [(2 * chance.randrange(2, 30) + 1,), (2, chance.randrange(2, 20)), (3, 2)]

    def work() -> dict[str, Any]:
        rank, parts, calls, changed = dist.get_rank(), [], [], 0
        for place, shape in enumerate(cases):
            gradient = draw(seed + 10 * rank + place, *shape)
            if place == 2:
                gradient = draw(seed + 10 * rank + place, *reversed(shape)).T
            before = gradient.clone()
            with CollectiveCounter() as counter:
                parts.append(plain(a_tensor(learner.reduce_gradient(gradient), "reduce_gradient")))
            calls.append(said(counter))
            changed += int((gradient != before).sum())
        return {"parts": parts, "calls": calls, "changed": changed}

    return merged(run_on_ranks(work, 2)) | {"cases": [list(shape) for shape in cases]}


# ----------------------------------------------------------------------------------------------------------- clip_part
def by_hand(*arguments: Any, **settings: Any) -> None:
    """Stands in what each of torch's functions that clip calls, however a file has imported them."""
    raise RuntimeError("clip_part is to be written by hand, without torch.nn.utils")


def _clipped(learner: ModuleType, whole: Tensor, max_norm: float, fill: float) -> dict[str, Any]:
    """One gradient in three parts."""
    numel, rank = whole.numel(), dist.get_rank()
    part = part_of(whole, rank, 3, fill)
    mine, room = max(0, min(len(part), numel - rank * len(part))), part.data_ptr()
    torchs = patch.object(nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", by_hand)
    with CollectiveCounter() as counter, torchs:
        norm = learner.clip_part(part, numel, max_norm)
    return {
        "type": type_name(norm),
        "norm": plain_number(norm),
        "part": plain(part[:mine]),
        "moved": part.data_ptr() != room,
        "calls": said(counter),
    }


def clipped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gradients on three ranks: two several times as long as the limit, of 7 and of 4 numbers, so that the last rank
    has few, or none, with nan in the fill; then, with a limit of 2 and numbers in the fill, gradients 1.9, 0 and 2.1
    long, of which each rank's own part is shorter.
    """
    chance = random.Random(seed)
    limit, factor = chance.uniform(0.5, 2.0), chance.uniform(3, 50)

    def work() -> dict[str, Any]:
        every = []
        for place, numel in enumerate((7, 4)):
            whole = draw(seed + place, numel)
            whole[0] *= 5  # so that the ranks' own lengths differ
            every.append(_clipped(learner, whole * (limit * factor / whole.norm()), limit, torch.nan))
        for place, (numel, length) in enumerate(((7, 1.9), (4, 0.0), (7, 2.1))):
            whole = draw(seed + place, numel)
            every.append(_clipped(learner, whole * (length / whole.norm()), 2.0, FILL))
        first, others = every[:2], every[2:]
        found = {name: [one[name] for one in first] for name in every[0]}
        return found | {f"{name} at the limit": [one[name] for one in others] for name in every[0]}

    return merged(run_on_ranks(work, 3)) | {"limits": [limit, limit], "limits at the limit": [2.0] * 3}


# --------------------------------------------------------------------------------------------------------------- zero1
def make_parameters(seed: int) -> list[nn.Parameter]:
    """A few weights in four tensors, the same on every rank."""
    chance = random.Random(f"shapes {seed}")
    shapes: list[Shape] = [(2, chance.randrange(2, 90)), (chance.randrange(3, 90),), (), (1,)]
    return [nn.Parameter(draw(seed + place, *shape)) for place, shape in enumerate(shapes)]


def state_numbers(optimizer: torch.optim.Optimizer) -> int:
    """How many numbers an optimizer keeps in averages, without its step counters."""
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return sum(value.untyped_storage().nbytes() // value.element_size() for value in kept if value.dim())


def parts_of_weights(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The parts of all weights on two ranks, and what AdamW keeps for each."""

    def work() -> dict[str, Any]:
        parameters = make_parameters(seed)
        part = a_tensor(learner.make_part([*parameters]), "make_part")
        found = {"type": type_name(part), "part": plain(part), "state": 0, "total": sum(p.numel() for p in parameters)}
        found["numbers"] = part.untyped_storage().nbytes() // part.element_size()
        optimizer = torch.optim.AdamW([part])
        part.grad = torch.ones_like(part)
        optimizer.step()
        return found | {"state": state_numbers(optimizer)}

    return merged(run_on_ranks(work, 2))


class Made(CollectiveCounter):
    """Counts collectives, and follows the memory of every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[StorageWeakRef] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self._made += references(result)
        return result

    def kept(self, besides: Sequence[Tensor | None]) -> int:
        """Numbers in what was made and is still in memory, but for what belongs to the tensors `besides`."""
        known = {one.untyped_storage()._cdata for one in besides if one is not None}
        return alive([one for one in self._made if one.cdata not in known], 0, 0.1)


def updates(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three updates by AdamW on three ranks, each with gradients of its own; in the second, some are None."""

    def work() -> dict[str, Any]:
        rank, parameters = dist.get_rank(), make_parameters(seed)
        made: list[Made] = [Made()]
        with made[0]:
            part = learner.make_part([*parameters])
        # A large eps, so that a gradient that is too long by a factor shows: AdamW would divide it away.
        optimizer = torch.optim.AdamW([part], lr=0.1, weight_decay=0.3, eps=0.1)
        steps = [0]
        optimizer.register_step_post_hook(lambda *_: steps.__setitem__(0, steps[0] + 1))
        before, weights, calls, disturbed = [p.data_ptr() for p in parameters], [], [], 0
        for step in range(3):
            for place, p in enumerate(parameters):
                p.grad = draw(seed + 100 * step + 10 * rank + place, *p.shape)
                if step == 1 and place in ((1, 2), (2,), ())[rank]:
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
        state = [value for one in optimizer.state.values() for value in one.values() if isinstance(value, Tensor)]
        known = [*parameters, *(p.grad for p in parameters), part, part.grad, *state]
        return {
            "first": weights[0],
            "weights": np.stack(weights[1:]),
            "calls": calls,
            "steps": steps[0],
            "disturbed": disturbed,
            "moved": sum(p.data_ptr() != place for p, place in zip(parameters, before, strict=True)),
            "state": state_numbers(optimizer),
            "kept": max(one.kept(known) for one in made),
        }

    return merged(run_on_ranks(work, 3))


# ----------------------------------------------------------------------------------------------------- sharded_forward
Layers = tuple[int, int, int]  # numbers in, between and out of a module of two layers


def draw_layers(seed: int, alike: bool = False) -> Layers:
    """Sizes of a module whose weights do not divide by two; `alike`: as many out as in.

    Memory is told apart by its size: each matrix has more numbers than the activations, and not as many as a part.
    """
    chance = random.Random(f"layers {seed} {alike}")
    while True:
        inputs, inner, outputs = chance.randrange(3, 7), chance.randrange(5, 30), chance.randrange(3, 7)
        layers = (inputs, inner, inputs if alike else outputs)
        matrices = (layers[0] * inner, inner * layers[2])
        if weights_of(layers) % 2 and -(-weights_of(layers) // 2) not in matrices:
            return layers


def weights_of(layers: Layers) -> int:
    """How many weights and biases there are."""
    inputs, inner, outputs = layers
    return inputs * inner + inner + inner * outputs + outputs


class Whole(TorchDispatchMode):
    """Follows the memory of whole weights: every tensor that was gathered, or that a module used as its weights.

    `now()` says how many numbers of them there are at this moment; `most` is the most at any collective, or any use.
    """

    def __init__(self, layers: Layers) -> None:
        """`layers` are a module's. What is made in forward with as many as its smaller matrix counts as a copy of its
        weights: all else that is made there is smaller, but for copies of a part.
        """
        super().__init__()
        self.most, self._numbers = 0, weights_of(layers)
        self._patience = {"weights": 0.1, "gradients": 0.1}  # seconds: gloo's thread lets go a little later
        self._matrix = layers[1] * min(layers[0], layers[2])
        self.calls: list[str] = []
        self._weights: list[StorageWeakRef] = []
        self._gradients: list[StorageWeakRef] = []
        self._counter = CollectiveCounter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace not in ("c10d", "_c10d_functional"):
            made = func(*args, **(kwargs or {}))
            for one in made if isinstance(made, list | tuple) else [made]:
                if not isinstance(one, Tensor) or one.device.type == "meta":
                    continue
                storage = one.untyped_storage().nbytes() // one.element_size()
                if storage >= self._matrix and storage != -(-self._numbers // 2):
                    # In backward gradients are as large: what matters there is whether it stays.
                    in_forward = torch._C._current_graph_task_id() == -1
                    self._follow(self._weights if in_forward else self._gradients, [one])
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
        """A forward pre-hook: notes the weights that the module is about to use."""
        self._follow(self._weights, [p for p in module.parameters() if p.device.type != "meta"])
        self.most = max(self.most, self.now(self._numbers + 1))

    def now(self, expected: int = 0) -> int:
        """Numbers of whole weights that are in memory. Waits a moment for those that should not be."""
        return self._alive("weights", self._weights, expected)

    def gradients(self, part: Tensor) -> int:
        """Numbers of whole gradients that are in memory, and of copies made in backward, without those of part.grad."""
        known = {one.untyped_storage()._cdata for one in (part, part.grad) if one is not None}
        return self._alive("gradients", [one for one in self._gradients if one.cdata not in known], 0)

    def _alive(self, kind: str, followed: list[StorageWeakRef], expected: int) -> int:
        numbers = alive(followed, expected, self._patience[kind])
        if numbers > expected:
            self._patience[kind] = 0.0  # it is not gloo's thread
        return numbers

    def _follow(self, into: list[StorageWeakRef], tensors: Any) -> None:
        into += references(tensors)


def make_shell(seed: int, whole: Whole, layers: Layers) -> tuple[nn.Module, nn.Parameter]:
    """A small module without its numbers, and this rank's part of them."""
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
    """Forward and backward of one module, twice, with reshard and without."""
    layers = draw_layers(seed)
    found: dict[str, Any] = {"y": [], "slope": [], "gradient": [], "held": [], "forward": [], "backward": []}
    found |= {"waste": [], "fresh": [], "again": []}
    for reshard in (True, False):
        with Whole(layers) as whole:
            module, part = make_shell(seed, whole, layers)
            x = draw(seed + 50 + dist.get_rank(), 2, layers[0]).requires_grad_()
            y = a_tensor(learner.sharded_forward(module, part, x, reshard), "sharded_forward")
            held, forward = [whole.now(0 if reshard else weights_of(layers) + 1)], whole.calls
            (y * draw(seed + 60 + dist.get_rank(), *y.shape)).sum().backward()
            held.append(whole.now())
            found["y"].append(plain(y))
            found["slope"].append(plain(x.grad))
            found["gradient"].append(plain(part.grad))
            found["held"].append(held)
            found["forward"].append(forward)
            found["backward"].append(whole.calls[len(forward) :])
            found["waste"].append(whole.gradients(part))
            with torch.no_grad():
                part.add_(draw(seed + 70 + dist.get_rank(), *part.shape))  # as an optimizer would
            y = learner.sharded_forward(module, part, x, reshard)
            found["fresh"].append(plain(y))
            y.square().sum().backward()
            found["again"].append(plain(part.grad))
    return found


def _two_modules(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two modules, one after the other, with reshard; then one without gradients."""
    layers = draw_layers(seed, alike=True)
    with Whole(layers) as whole:
        pairs = [make_shell(seed + 10 * place, whole, layers) for place in (0, 1)]
        y = draw(seed + 50 + dist.get_rank(), 2, layers[0])
        for module, part in pairs:
            y = a_tensor(learner.sharded_forward(module, part, y, True), "sharded_forward")
        y.square().sum().backward()
    found = {
        "most": whole.most,
        "calls": whole.calls,
        "gradients": [plain(part.grad) for _, part in pairs],
    }
    with Whole(layers) as whole, torch.no_grad():
        module, part = make_shell(seed, whole, layers)
        try:
            y = learner.sharded_forward(module, part, draw(seed, 2, layers[0]), False)
            found |= {"evaluated": plain(y), "kept": whole.now(), "asked": whole.calls, "raised": ""}
        except RuntimeError as error:
            found |= {"evaluated": None, "kept": 0, "asked": [], "raised": str(error)[:100].partition("\n")[0]}
    return found


def modules(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One module, then two, on two ranks."""

    def work() -> dict[str, Any]:
        gc.disable()  # so that what is kept by a cycle stays
        return _one_module(learner, seed) | _two_modules(learner, seed)

    sizes = [weights_of(draw_layers(seed, alike)) for alike in (False, True)]
    return merged(run_on_ranks(work, 2)) | {"sizes": sizes}


# ---------------------------------------------------------------------------------------------------------- mixed_step
PRECISIONS = ((torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16))


def mixed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three steps of a few weights on two ranks, in each of three policies."""
    count = 2 * random.Random(seed).randrange(4, 500)

    def work() -> dict[str, Any]:
        rank, found = dist.get_rank(), []
        slopes = draw(seed + rank, count).float()
        for param_dtype, reduce_dtype in PRECISIONS:
            given: list[Tensor] = []

            def loss_of(full: Tensor, given: list[Tensor] = given) -> Tensor:
                given.append(full.detach().clone())
                return (full * full * slopes.to(full.dtype)).sum() / 3

            part = part_of(draw(seed + 7, count).float(), rank, 2)
            room, before = part.data_ptr(), part.clone()
            with CollectiveCounter() as counter:
                learner.mixed_step(part, loss_of, 0.01, param_dtype, reduce_dtype)
            calls, first = said(counter), part.clone()
            for _ in range(2):
                learner.mixed_step(part, loss_of, 0.01, param_dtype, reduce_dtype)
            found.append(
                {
                    "given": plain(given[0]) if given else None,
                    "given dtype": str(given[0].dtype) if given else "nothing",
                    "calls": calls,
                    "first": plain(first - before),
                    "moved": part.data_ptr() != room,
                    "dtype": str(part.dtype),
                    "part": plain(part),
                }
            )
        return {name: [one[name] for one in found] for name in found[0]}

    return merged(run_on_ranks(work, 2))


# ------------------------------------------------------------------------------------------------------- save_and_load
class Saving:
    """Watches a rank save: where a rank is about to write, it waits until rank 0 can go no further without it.

    If rank 0 has given the folder its name by then, it has not waited for this rank.
    """

    def __init__(self, folder: Path, begun: Any) -> None:
        """`begun` is shared by all ranks: collectives that rank 0 has begun, whether it has returned; and for each
        rank, whether it found the folder there before it wrote.
        """
        self.folder, self.begun, self.finished, self.watching = folder, begun, 0, True
        self.wrote_manifest = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching or event not in ("open", "os.mkdir") or isinstance(arguments[0], int):
            return
        writes = event == "os.mkdir" or any(letter in str(arguments[1] or "") for letter in "wax+")
        self.wrote_manifest |= writes and str(arguments[0]).endswith("manifest.json")
        if writes and self.folder.name in str(arguments[0]):
            until = time.monotonic() + stretched(1.0)
            while dist.get_rank() and not self.begun[1] and self.begun[0] <= self.finished and time.monotonic() < until:
                time.sleep(0.0005)
            self.begun[2 + dist.get_rank()] |= self.folder.exists()


class Steps(TorchDispatchMode):
    """Notes each collective of rank 0 as it begins, and of the others as it ends."""

    def __init__(self, saving: Saving, begun: Any) -> None:
        super().__init__()
        self.saving, self.begun, self.counter = saving, begun, CollectiveCounter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        collective = func.namespace in ("c10d", "_c10d_functional")
        if collective and not dist.get_rank():
            self.begun[0] += 1
        result = self.counter.__torch_dispatch__(func, types, args, kwargs)
        if collective:
            self.saving.finished += 1
        return result


@contextlib.contextmanager
def a_folder() -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def saves(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Tensors of some 1000 and of 4 numbers, saved by three ranks; a killed save has left something of the first."""
    numels, dtypes = (3 * random.Random(seed).randrange(310, 360) + 2, 4), (torch.float64, torch.float32)

    def work(folder: Path, begun: Any) -> dict[str, Any]:
        rank, calls, manifests = dist.get_rank(), [], 0
        for place, (numel, dtype) in enumerate(zip(numels, dtypes, strict=True)):
            part = part_of(draw(seed + place, numel).to(dtype), rank, 3, fill=FILL)
            target, mine = folder / f"step-{place}", begun[place]
            saving = Saving(target, mine)
            with Steps(saving, mine) as steps:
                try:
                    learner.save_parts(target, part, numel)
                except OSError:
                    if not any(mine[2:]):
                        raise
            saving.watching = False
            manifests += saving.wrote_manifest and rank > 0
            if rank == 0:
                mine[1] = 1
            sent = [call for call in said(steps.counter) if " of " in call]  # barriers send nothing
            calls.append(max(sent, key=lambda call: int(call.split()[2]), default=""))
            dist.barrier()
        return {"largest": calls[0], "manifests": manifests}

    with a_folder() as folder:
        (folder / "step-0.partial").mkdir()
        (folder / "step-0.partial" / "part-0.bin").write_bytes(b"x" * 20000)
        begun = [multiprocessing.RawArray("i", 5) for _ in numels]
        found: dict[str, Any] = merged(run_on_ranks(work, 3, folder, begun))
        found["early"] = [sum(one[2:]) for one in begun]
        found["numels"] = list(numels)
        found["begins"] = [_first_number(folder / "step-0" / "part-0.bin", "float64")]
        found["begins"] += [_first_number(folder / "step-1" / "part-0.bin", "float32")]
        found["folders"] = sorted(file.name for file in folder.iterdir())
        for name, dtype in (("step-0", "float64"), ("step-1", "float32")):
            files = sorted((folder / name).iterdir()) if (folder / name).is_dir() else []
            found[f"{name} files"] = [file.name for file in files]
            found[f"{name} manifest"] = _manifest(folder / name / "manifest.json")
            found[f"{name} sizes"] = [file.stat().st_size for file in files if file.suffix == ".bin"]
            whole = b"".join(file.read_bytes() for file in files if file.suffix == ".bin")
            even = len(whole) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
            found[f"{name} numbers"] = np.frombuffer(whole[:even], dtype).copy()
    return found


def _first_number(file: Path, dtype: str) -> float | None:
    """What a file begins with; None without it."""
    numbers = np.frombuffer(file.read_bytes()[: np.dtype(dtype).itemsize], dtype) if file.is_file() else np.empty(0)
    return float(numbers[0]) if len(numbers) else None


def _manifest(file: Path) -> str:
    """The manifest in one form, whatever its spaces and order."""
    try:
        return json.dumps(json.loads(file.read_text()), sort_keys=True)[:200]
    except (OSError, ValueError):
        return ""


def write_parts(folder: Path, whole: Tensor, ranks: int) -> None:
    """What `ranks` ranks would have saved."""
    folder.mkdir()
    size, numbers = -(-whole.numel() // ranks), whole.numpy()
    pieces = [numbers[rank * size : (rank + 1) * size] for rank in range(ranks)]
    for rank, piece in enumerate(pieces):
        (folder / f"part-{rank}.bin").write_bytes(piece.tobytes())
    manifest = {"numel": whole.numel(), "dtype": str(numbers.dtype), "counts": [len(piece) for piece in pieces]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def bytes_read() -> int | None:
    """What this process has read from files so far; None where the system does not count."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except OSError:  # only Linux counts
        return None


def loads(learner: ModuleType, seed: int) -> dict[str, Any]:
    """11 numbers saved on 2 ranks, loaded on 1, 2, 3 and 4; 5 float32 saved on 4, loaded on 2 and 3. And how many bytes
    rank 1 of 16 reads of some 640,000 saved on 2 ranks, and holds at most: those of its part are some 40,000.

    Less than its part counts as its part: a file that is mapped into memory is read by the system.
    """
    each = random.Random(seed).randrange(4500, 5500)

    def work(folder: Path) -> dict[str, Any]:
        parts: list[Any] = []
        kinds = []
        with CollectiveCounter() as counter:
            for name, worlds in (("two", (1, 2, 3, 4)), ("four", (2, 3))):
                for ranks in worlds:
                    every = [
                        a_tensor(learner.load_part(folder / name, rank, ranks), "load_part") for rank in range(ranks)
                    ]
                    parts += [plain(part) for part in every]
                    kinds += [str(getattr(part, "dtype", "no tensor")) for part in every]
        tracemalloc.start()
        before = bytes_read()
        large = a_tensor(learner.load_part(folder / "large", 1, 16), "load_part")
        after = bytes_read()
        most = max(8 * each, tracemalloc.get_traced_memory()[1] // 1000 * 1000)
        tracemalloc.stop()
        read = None if before is None or after is None else max(8 * each, (after - before) // 1000 * 1000)
        found = {"parts": parts, "kinds": kinds, "calls": said(counter), "read": read, "most": most}
        return found | {"each": each, "large": float(large.double().sum())}

    with a_folder() as folder:
        write_parts(folder / "large", draw(seed, 16 * each), 2)
        write_parts(folder / "two", draw(seed, 11), 2)
        write_parts(folder / "four", draw(seed + 1, 5).float(), 4)
        return dict(run_on_ranks(work, 1, folder)[0])
