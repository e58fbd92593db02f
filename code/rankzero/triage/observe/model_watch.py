"""Model watch: what the observers remember of one model between its calls, beside the model's part of the record."""

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from rankzero.triage.record import Layer, Model, Step


@dataclass
class ForwardPass:
    """One call of a model with gradients; a backward pass after it makes it one of training."""

    inputs: list[Tensor]
    in_train: bool
    in_eval: bool
    alone: bool  # the input was the only argument
    loss: Any = None  # loss_functions.LossCall
    backward_calls: int = 0  # since then, of any model


class ModelWatch:
    """One module that the script calls itself, with its parameters."""

    def __init__(self, module: nn.Module) -> None:
        self.modules = [weakref.ref(module)]
        named = list(module.named_parameters())
        self.parameters = [weakref.ref(parameter) for _, parameter in named]
        self.ids = {id(parameter) for _, parameter in named}
        self.record = Model(name=type(module).__name__, layers=[_layer(name, value) for name, value in named])
        owners = {id(parameter): id(part) for part in module.modules() for parameter in part.parameters(recurse=False)}
        self.owners = [owners.get(id(parameter), id(module)) for _, parameter in named]
        self.called: set[int] = set()  # ids of the parts that ran in a training forward pass
        self.step = Step()
        self.waiting: ForwardPass | None = None  # for its backward pass
        self.learns = False  # it has got a gradient
        self.gradient_before = 0.0  # norm of all gradients before a backward pass
        self.trained: ForwardPass | None = None  # the last forward pass of training
        self.seen_in_train = False
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # that have updated it
        self.relus = 0  # calls of ReLU in the forward pass so far
        self.before: list[Tensor | None] = []  # the weights before an update
        self.alive_units: dict[int, list[Tensor]] = {}  # of each ReLU, in the last batches
        # The data; digests are unsigned numbers of 64 bits.
        self.rows: Any = None  # digests of the rows of the last batch
        self.labels: dict[int, int] = {}  # by digest of the row
        self.examples: list[tuple[Any, int]] = []  # rows with labels
        self.trained_pieces: set[int] = set()
        self.validated_pieces: dict[int, Any] = {}  # by digest of the batch
        self.address = 0  # of the last batch
        self.kept_batch: Tensor | None = None

    def alive(self) -> bool:
        """Returns whether a parameter of the model still exists; the script may make the modules again around it."""
        return any(reference() is not None for reference in self.parameters)

    def holds(self, module: nn.Module) -> bool:
        """Returns whether this is the watch of `module`, and not of a dead one that had its address."""
        return any(reference() is module for reference in self.modules)

    def module(self) -> nn.Module | None:
        """Returns the module that the script called first, or one around it."""
        return next((module for reference in self.modules if (module := reference()) is not None), None)

    def weights(self) -> list[nn.Parameter | None]:
        """Returns the parameters in the order of the record's layers; None for one that is gone."""
        return [reference() for reference in self.parameters]

    def gradients(self, updated: bool = False) -> list[Tensor]:
        """Returns the gradients that are there; with `updated`, of parameters that an optimizer updates."""
        pairs = zip(self.record.layers, self.weights(), strict=True)
        weights = [weight for layer, weight in pairs if weight is not None and (layer.in_optimizer or not updated)]
        return [weight.grad for weight in weights if weight.grad is not None]

    def modes(self) -> list[tuple[str, bool]]:
        """Returns class and mode of each layer that works differently in training: BatchNorm, Dropout with p > 0."""
        module = self.module()
        parts = module.modules() if module is not None else iter(())
        return [(type(part).__name__, part.training) for part in parts if _has_modes(part)]

    def data_parallel(self) -> bool:
        """Returns whether DistributedDataParallel is around the model."""
        return any(type(reference()).__name__ == "DistributedDataParallel" for reference in self.modules)


def _has_modes(part: nn.Module) -> bool:
    if isinstance(part, _BatchNorm):
        return bool(part.track_running_stats)
    return isinstance(part, _DropoutNd) and part.p > 0


def _layer(name: str, weight: nn.Parameter) -> Layer:
    layer = Layer(name=name, shape=list(weight.shape))
    if weight.dim() >= 2 and type(weight) is nn.Parameter and weight.device.type != "meta" and weight.numel() > 1:
        inputs = weight[0].numel()
        layer.gain = float(weight.detach().float().std()) * inputs**0.5
    return layer


def norm(tensors: list[Tensor]) -> float:
    """Returns the Euclidean norm over all tensors; 0 for none."""
    norms = [tensor.detach().float().norm() for tensor in tensors if tensor.device.type != "meta" and tensor.numel()]
    return float(torch.stack([part.cpu() for part in norms]).norm()) if norms else 0.0
