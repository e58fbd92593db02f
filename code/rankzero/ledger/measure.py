"""Measured ledger: the bytes of every tensor that two training steps of a real model hold, and of its KV cache.

With fake tensors (`device="fake"`) PyTorch runs the same step with shapes and dtypes but no data, so a model of 70
billion parameters is measured without its memory.
"""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.tensor import DTensor
from torch.optim import SGD, AdamW
from torch.optim import Optimizer as TorchOptimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.errors import UserError
from rankzero.ledger.ledger import BEGIN, END, FORWARD, PHASES, UPDATE, Kind, Ledger, Row
from rankzero.ledger.models import Config, build
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.recipes import Optimizer, Recipe

BYTES_TO_DTYPE = {2: torch.bfloat16, 4: torch.float32}


@contextlib.contextmanager
def default_dtype(recipe: Recipe) -> Iterator[None]:
    """Gives new tensors in the context the dtype of the recipe's weights."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(BYTES_TO_DTYPE[recipe.weight])
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Returns the bytes behind `tensors`, fake or real; memory that several tensors share counts once.

    Of a DTensor, this rank's part counts.
    """
    storages = {storage._cdata: storage for storage in map(storage_of, tensors)}
    return sum(storage.nbytes() for storage in storages.values())


def local_part(tensor: Tensor) -> Tensor:
    """Returns this rank's part of a DTensor, and any other tensor itself."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def storage_of(tensor: Tensor) -> torch.UntypedStorage:
    """Returns the storage of a tensor's numbers on this rank."""
    return local_part(tensor).untyped_storage()


class SavedTensors:
    """Counts, while active, the bytes that autograd saves for backward, by the module that was running."""

    def __init__(self, model: nn.Module) -> None:
        self.by_module: dict[str, int] = {}
        self._names = {module: name for name, module in model.named_modules()}
        self._running = [""]
        self._seen = {storage_of(p)._cdata for p in model.parameters()}
        self._alive: list[Any] = []  # keeps storages alive, so that no address is used twice
        self.storages: set[int] = set()

    @contextlib.contextmanager
    def active(self, left_out: Callable[[], set[int]] = set) -> Iterator["SavedTensors"]:
        """Counts in the context. `left_out` returns storages that are not activations, such as copies of weights."""

        def pack(tensor: Tensor) -> Tensor:
            storage = storage_of(tensor)
            if storage._cdata not in self._seen | left_out():
                self._seen.add(storage._cdata)
                self._alive.append(storage)
                name = re.sub(r"\.\d+\.", ".*.", self._running[-1])  # all blocks together
                self.by_module[name] = self.by_module.get(name, 0) + storage.nbytes()
            return tensor

        with (
            nn.modules.module.register_module_forward_pre_hook(self._enter),
            nn.modules.module.register_module_forward_hook(self._leave),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        ):
            yield self

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self._running.append(self._names.get(module, ""))
        # Sharded weights are gathered into other storages than the model has before and after.
        self._seen.update(storage_of(p)._cdata for p in module.parameters(recurse=False))

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._running.pop()


class WeightCopies(TorchDispatchMode):
    """Notes, while active, the copies of parameters in another dtype, which autocast makes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._weights = {p.untyped_storage()._cdata for p in model.parameters()}
        self._copies: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        of_weight = func is torch.ops.aten._to_copy.default and (
            isinstance(args[0], nn.Parameter) or args[0].untyped_storage()._cdata in self._weights
        )
        if of_weight:
            self._copies[out.untyped_storage()._cdata] = out.untyped_storage()
        return out

    def storages(self) -> set[int]:
        """Returns the storages of the copies."""
        return set(self._copies)

    def bytes(self) -> int:
        """Returns the bytes of all copies."""
        return sum(storage.nbytes() for storage in self._copies.values())


class KeysAndValues(TorchFunctionMode):
    """Counts, while active, the bytes of keys and values in calls of attention, which a KV cache must keep."""

    bytes = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in args[1:3])
        return func(*args, **(kwargs or {}))


class RecipeOptimizer:
    """Updates a model by a recipe: on the model's weights, or on fp32 master copies of them."""

    def __init__(self, model: nn.Module, recipe: Recipe, optimizer: Optimizer) -> None:
        self.recipe = recipe
        self.parameters = list(model.parameters())
        self.masters = [p.detach().float() for p in self.parameters] if recipe.master else []
        self.accumulators = (
            [torch.zeros_like(p, dtype=torch.float32) for p in self.parameters] if recipe.accumulator else []
        )
        for accumulator, parameter in zip(self.accumulators, self.parameters, strict=False):
            parameter.register_post_accumulate_grad_hook(partial(self._add, accumulator))
        self.torch = self._make(optimizer, self.masters or self.parameters)

    def _add(self, accumulator: Tensor, parameter: Tensor) -> None:
        accumulator.add_(parameter.grad)  # type: ignore[arg-type]
        if not self.recipe.gradient:
            parameter.grad = None

    @staticmethod
    def _make(optimizer: Optimizer, parameters: list[Any]) -> TorchOptimizer:
        if optimizer.name == "sgd":
            return SGD(parameters, lr=0.1)
        if optimizer.name == "momentum":
            return SGD(parameters, lr=0.1, momentum=0.9)
        if optimizer.name == "adamw":
            return AdamW(parameters, lr=1e-3)
        raise UserError(f"{optimizer.name} is not in PyTorch, so it is predicted only: measure sgd, momentum or adamw.")

    def step(self) -> None:
        """Takes one update; the gradients of the model's own dtype stay until `zero_grad`."""
        updated = self.masters or self.parameters
        gradients = [parameter.grad for parameter in self.parameters]
        for target, gradient in zip(updated, self.accumulators or gradients, strict=True):
            target.grad = None if gradient is None else gradient.to(target.dtype)
        self.torch.step()
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        with torch.no_grad():
            for master, parameter in zip(self.masters, self.parameters, strict=False):
                parameter.copy_(master)
                master.grad = None

    def zero_grad(self) -> None:
        """Drops the gradients and zeroes the fp32 sums."""
        for parameter in self.parameters:
            parameter.grad = None
        for accumulator in self.accumulators:
            accumulator.zero_()

    def gradient_tensors(self) -> list[Tensor]:
        """Returns the gradients in the model's own dtype."""
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def gradient_of(self, parameter: Tensor) -> Tensor:
        """Returns the gradient that data-parallel ranks sum: the parameter's, or its fp32 sum over micro-batches."""
        if parameter.grad is not None:
            return parameter.grad
        return next(a for a, p in zip(self.accumulators, self.parameters, strict=True) if p is parameter)

    def state_tensors(self, name: str) -> list[Tensor]:
        """Returns the optimizer's state tensors called `name`, such as "exp_avg"."""
        return [state[name] for state in self.torch.state.values() if isinstance(state.get(name), Tensor)]


STATE_NAMES = {"m": "exp_avg", "v": "exp_avg_sq", "step counts": "step", "velocity": "momentum_buffer"}


def measure(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    *,
    batch_size: int,
    seq_len: int,
    device: str = "cpu",
    checkpointing: str = "none",
    peaks: bool = True,
    after: Callable[[str], None] = lambda phase: None,
) -> Ledger:
    """Returns the bytes of one training step of the model.

    `device` is "cpu", "fake" or a CUDA device; `checkpointing` is as in Layout.

    `peaks` also lets PyTorch's memory tracker find the temporary buffers, which takes a second step and more time.
    `after` is called with the name of each phase of the counted step when the phase ends, for comparisons with an
    allocator. UserError for impossible sizes, and for an optimizer that PyTorch lacks.
    """
    Layout(checkpointing=checkpointing).check(config)
    mode = FakeTensorMode() if device == "fake" else contextlib.nullcontext()
    torch_device = torch.device("cpu" if device == "fake" else device)
    with mode, torch_device:
        with default_dtype(recipe):
            model = build(config, checkpointing)
        updater = RecipeOptimizer(model, recipe, optimizer)
        x, y = torch.randint(config.vocab_size, (2, batch_size, seq_len))
        rows = _count(model, updater, recipe, x, y, after)
        if peaks:
            rows += _temporary(model, updater, recipe, x, y)
    return Ledger("measured", tuple(row for row in rows if row.bytes))


def loss_of(model: nn.Module, recipe: Recipe, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy; under autocast if the recipe has bf16 copies."""
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=bool(recipe.copy)):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def _count(
    model: nn.Module, updater: RecipeOptimizer, recipe: Recipe, x: Tensor, y: Tensor, after: Callable[[str], None]
) -> list[Row]:
    saved, copies, cache = SavedTensors(model), WeightCopies(model), KeysAndValues()
    with copies, cache, saved.active(left_out=copies.storages):
        loss = loss_of(model, recipe, x, y)  # from here on autograd holds the activations
    after(FORWARD)
    loss.backward()  # turns activations into gradients, and frees them
    after(END)
    gradients = storage_bytes(updater.gradient_tensors())
    updater.step()  # at the first step the optimizer makes its state
    after(UPDATE)
    rows = [
        *rows_of_states(model, updater, gradients),
        Row(Kind.WEIGHTS, "autocast's bf16 copies", copies.bytes(), phases=(FORWARD, BEGIN)),
        *(Row(Kind.ACTIVATIONS, name or "loss", size) for name, size in saved.by_module.items()),
        Row(Kind.KV_CACHE, "keys and values", cache.bytes),
    ]
    updater.zero_grad()
    return rows


def rows_of_states(model: nn.Module, updater: RecipeOptimizer, gradients: int) -> list[Row]:
    """Returns weights, gradients and the optimizer's state after an update."""
    return [
        Row(Kind.WEIGHTS, "parameters", storage_bytes(model.parameters())),
        Row(Kind.GRADIENTS, "of this backward", gradients),
        Row(Kind.GRADIENTS, "fp32 sum of micro-batches", storage_bytes(updater.accumulators), phases=PHASES),
        Row(Kind.OPTIMIZER, "master weights", storage_bytes(updater.masters)),
        *(Row(Kind.OPTIMIZER, name, storage_bytes(updater.state_tensors(key))) for name, key in STATE_NAMES.items()),
    ]


def _temporary(model: nn.Module, updater: RecipeOptimizer, recipe: Recipe, x: Tensor, y: Tensor) -> list[Row]:
    """Returns the rise of tracked memory in backward above the end of forward, and in the update above its end.

    Gradients are no temporary buffers: finished gradients are subtracted.
    """
    tracker = MemTracker()
    tracker.track_external(model, updater.torch, x, y, *updater.masters, *updater.accumulators)

    def total(which: str, *kinds: str) -> int:
        snapshots = tracker.get_tracker_snapshot(which).values()
        return sum(size for sizes in snapshots for kind, size in sizes.items() if str(kind).split(".")[-1] in kinds)

    def above(base: int) -> int:
        peak = total("peak", "Total") - total("peak", "GRAD") - base
        tracker._peak_mem, tracker._peak_mem_snap = {}, {}  # so that the next peak is the next phase's
        return max(0, peak)

    def after_the_loss(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        inputs[0].register_hook(lambda gradient: rises.append(above(before)))

    rises: list[int] = []
    with tracker, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracker warns about parameters without a gradient
        hook = model.get_submodule("norm").register_forward_pre_hook(after_the_loss)
        loss = loss_of(model, recipe, x, y)
        hook.remove()
        before = total("current", "Total")
        tracker._peak_mem, tracker._peak_mem_snap = {}, {}
        loss.backward()
        rises.append(above(before))
        updater.step()
        update = max(0, total("peak", "Total") - total("current", "Total"))
    return [
        Row(Kind.TEMPORARY, "peak of backward", max(rises)),
        Row(Kind.TEMPORARY, "peak of the update", update, phases=(UPDATE,)),
    ]
