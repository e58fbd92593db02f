"""Claims of handbook/optimizers.md: optimizer state."""

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adafactor, Adagrad, AdamW, Muon, RMSprop
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.ledger.measure import storage_bytes

from .shared import Make


def _state_bytes(make: Make, matrices_only: bool = False) -> float:
    """Returns bytes of state per parameter after one step of Lab 02's GPT, step counts left out."""
    model = make_model()
    parameters: list[Tensor] = [p for p in model.parameters() if p.dim() == 2 or not matrices_only]
    optimizer = make(parameters)
    token_loss(model, *make_batch(2)).backward()
    optimizer.step()
    kept = [
        value
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, Tensor) and name != "step"
    ]
    return storage_bytes(kept) / sum(p.numel() for p in parameters)


@claim(
    "state-by-optimizer",
    "fp32 state of Lab 02's GPT: SGD 0, momentum 4, RMSprop 4, Adagrad 4, AdamW {expected[AdamW]}, AMSGrad "
    "{expected[AMSGrad]}, Adafactor {expected[Adafactor]}, Muon 4 (of its matrices) bytes per parameter.",
    expected={
        "SGD": 0,
        "momentum": 4,
        "RMSprop": 4,
        "Adagrad": 4,
        "AdamW": 8,
        "AMSGrad": 12,
        "Adafactor": 0.05,
        "Muon": 4,
    },
    tolerance=0.005,
    unit="B per parameter",
)
def state_by_optimizer() -> Mapping[str, float]:
    """Makes an update with each optimizer of torch.optim and counts the bytes of its state, step counts left out.

    The tolerance is Adafactor's: its rows and columns depend on the shapes.
    """
    return {
        "SGD": _state_bytes(lambda p: SGD(p, lr=1e-2)),
        "momentum": _state_bytes(lambda p: SGD(p, lr=1e-2, momentum=0.9)),
        "RMSprop": _state_bytes(lambda p: RMSprop(p)),
        "Adagrad": _state_bytes(lambda p: Adagrad(p)),
        "AdamW": _state_bytes(lambda p: AdamW(p)),
        "AMSGrad": _state_bytes(lambda p: AdamW(p, amsgrad=True)),
        "Adafactor": _state_bytes(lambda p: Adafactor(p)),
        "Muon": _state_bytes(lambda p: Muon(p), matrices_only=True),
    }


class _WatchStep(TorchDispatchMode):
    """Counts operations on tensors, and the most bytes that live in tensors which those operations made.

    Reading a number, and the profiler's marks, are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.live, self.peak = 0, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(part in str(func) for part in ("profiler", "_local_scalar_dense", "lift_fresh")):
            return result
        self.calls += 1
        given = {value.data_ptr() for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)}
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.data_ptr() not in given:  # in-place operations return what they got
                self.live += value.nbytes
                weakref.finalize(value, self._freed, value.nbytes)
        self.peak = max(self.peak, self.live)
        return result

    def _freed(self, size: int) -> None:
        self.live -= size


def _second_step(**options: bool) -> _WatchStep:
    """Watches the second step of AdamW on Lab 02's GPT, on the CPU."""
    model = make_model()
    optimizer = AdamW(model.parameters(), **options)  # type: ignore[arg-type]
    token_loss(model, *make_batch(2)).backward()
    optimizer.step()
    with _WatchStep() as watch:
        optimizer.step()
    return watch


@claim(
    "adamw-calls-a-step",
    "A step of AdamW on Lab 02's 27 tensors is {expected[loop]} operations in a loop, {expected[foreach]} with "
    "foreach=True and {expected[fused]} with fused=True.",
    expected={"loop": 9 * 27, "foreach": 9, "fused": 2},
    unit="operations",
)
def adamw_calls() -> Mapping[str, float]:
    """Counts the operations that the second step dispatches on the CPU."""
    return {
        "loop": _second_step(foreach=False).calls,
        "foreach": _second_step(foreach=True).calls,
        "fused": _second_step(fused=True).calls,
    }


@claim(
    "adamw-temporaries-of-a-step",
    "During a step AdamW holds temporary tensors: three of the largest tensor in the loop, 4 bytes per parameter "
    "with foreach=True, none with fused=True.",
    expected={"loop": 3 * 4 * 512 * 128, "foreach": 4 * 808_064, "fused": 0},
    unit="B",
)
def adamw_temporaries() -> Mapping[str, float]:
    """Adds up, operation by operation, the bytes of new tensors in memory, and takes the largest sum.

    The third is left over from the tensor before: its name keeps it until the next tensor takes the name.
    """
    return {
        "loop": _second_step(foreach=False).peak,
        "foreach": _second_step(foreach=True).peak,
        "fused": _second_step(fused=True).peak,
    }


@claim(
    "muon-evens-out-singular-values",
    "Muon's update of a matrix whose gradient has singular values from 1 to 10 has them between 0.65 and 1.25.",
    expected={"smallest": 0.95, "largest": 0.95},
    tolerance=0.3,
    unit="",
    source="[Muon](https://kellerjordan.github.io/posts/muon/)",
)
def muon_singular_values() -> Charted:
    """Gives torch.optim.Muon a 64 x 64 gradient with those singular values and takes those of the update at rate 1.

    The tolerance is the claim: its five iterations in bf16 are meant to be rough.
    """
    torch.manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(64, 64))
    right, _ = torch.linalg.qr(torch.randn(64, 64))
    weights = torch.zeros(64, 64, requires_grad=True)
    optimizer = Muon([weights], lr=1.0, weight_decay=0.0)
    before = torch.linspace(10, 1, 64)
    weights.grad = left @ torch.diag(before) @ right
    optimizer.step()
    values = torch.linalg.svdvals(weights.detach())
    lines = {
        name: [(index + 1, size, size, size) for index, size in enumerate(sizes.tolist())]
        for name, sizes in (("gradient", before), ("update", values))
    }
    chart = Chart(
        title="Singular values before and after Muon", x="singular value, by size", y="size", lines=lines, log="y"
    )
    return Charted({"smallest": values.min().item(), "largest": values.max().item()}, chart)
