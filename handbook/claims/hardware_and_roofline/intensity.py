"""Claims of handbook/hardware-and-roofline.md: ridges, and FLOPs and bytes of operations."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import AdamW
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.ledger.hardware import HARDWARE

SHEETS = (
    "NVIDIA's data sheets of [A100](https://www.nvidia.com/en-us/data-center/a100/), "
    "[H100](https://www.nvidia.com/en-us/data-center/h100/) and [H200](https://www.nvidia.com/en-us/data-center/h200/)"
)
# Dense bf16 FLOP/s (the sheets print twice that, with sparsity, for H100 and H200) and bytes/s of HBM. SXM cards.
DEVICES = {
    name: (HARDWARE[key].peaks[2], HARDWARE[key].hbm)
    for name, key in (("A100 80 GB", "a100"), ("H100", "h100"), ("H200", "h200"))
}


class Traffic(TorchDispatchMode):
    """Adds up the bytes of the tensors that each operation reads and writes, as a device without a cache would."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        read, written = ([t for t in tree_leaves(value) if isinstance(t, Tensor)] for value in ((args, kwargs), out))
        aliases = [argument.alias_info for argument in func._schema.arguments]
        in_place = any(alias is not None and alias.is_write for alias in aliases)
        is_view = {t.data_ptr() for t in read} & {t.data_ptr() for t in written}
        if in_place or not is_view:  # a view moves nothing
            self.bytes += sum(t.nbytes for t in read) + sum(t.nbytes for t in written)
        return out


# ------------------------------------------------------------------------------------------------------- the roofline
@claim(
    "ridge-points",
    "Ridge of the roofline: dense bf16 FLOP/s over bytes/s of memory.",
    expected={"A100 80 GB": 153, "H100": 295, "H200": 206},
    tolerance=0.5,
    unit="FLOP/B",
    source=SHEETS,
)
def ridge_points() -> Mapping[str, float]:
    """Divides the published peaks."""
    return {name: flops / bandwidth for name, (flops, bandwidth) in DEVICES.items()}


@claim(
    "matmul-intensity",
    "A product of square bf16 matrices of n rows has n/3 FLOPs per byte: 2n³ over three matrices of 2n² bytes.",
    expected={"n = 256": 256 / 3, "n = 1024": 1024 / 3, "n = 4096": 4096 / 3},
    tolerance=1e-9,
    unit="FLOP/B",
)
def matmul_intensity() -> Mapping[str, float]:
    """Multiplies matrices without data; counts FLOPs with PyTorch's counter and the bytes of all three."""
    found = {}
    for n in (256, 1024, 4096):
        with FakeTensorMode(), FlopCounterMode(display=False) as counter:
            a, b = (torch.empty(n, n, dtype=torch.bfloat16) for _ in range(2))
            c = a @ b
        found[f"n = {n}"] = counter.get_total_flops() / (a.nbytes + b.nbytes + c.nbytes)
    return found


@claim(
    "thin-matmul-intensity",
    "One row times a matrix [4096, 4096] in bf16 has {expected[1 row]} FLOP per byte; 295 rows, as many as H100's "
    "ridge, have {expected[295 rows]}.",
    expected={"1 row": 1.0, "295 rows": 258},
    tolerance=0.5,
    unit="FLOP/B",
)
def thin_matmul() -> Mapping[str, float]:
    """As for square matrices."""
    found = {}
    for rows, name in ((1, "1 row"), (295, "295 rows")):
        with FakeTensorMode(), FlopCounterMode(display=False) as counter:
            a, b = (torch.empty(n, 4096, dtype=torch.bfloat16) for n in (rows, 4096))
            c = a @ b
        found[name] = counter.get_total_flops() / (a.nbytes + b.nbytes + c.nbytes)
    return found


def _bytes_per_element(run: Callable[[Tensor], object], dtype: torch.dtype = torch.bfloat16) -> float:
    x = torch.ones(64, 1024, dtype=dtype)
    with Traffic() as traffic:
        run(x)
    return traffic.bytes / x.numel()


@claim(
    "elementwise-traffic",
    "Bytes that bf16 operations move for each element: GELU reads one and writes one, LayerNorm a little more, and "
    "GELU written as eight operations several times that.",
    expected={"gelu": 4, "layer norm": 4.04, "gelu by hand": 36},
    tolerance=0.01,
    unit="B",
)
def elementwise_traffic() -> Mapping[str, float]:
    """Adds up the bytes of the tensors that each operation gets and makes."""

    def by_hand(x: Tensor) -> Tensor:  # the tanh form
        return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))

    weight = torch.ones(1024, dtype=torch.bfloat16)
    return {
        "gelu": _bytes_per_element(F.gelu),
        "layer norm": _bytes_per_element(lambda x: F.layer_norm(x, (1024,), weight)),
        "gelu by hand": _bytes_per_element(by_hand),
    }


# ---------------------------------------------------------------------------------------------------------- operations
def _adamw_traffic() -> float:
    """Bytes of the second step of AdamW, tensor by tensor, on Lab 02's model: the first also makes the state."""
    model = make_model()
    optimizer = AdamW(model.parameters(), foreach=False)
    token_loss(model, *make_batch(batch_size=1)).backward()
    optimizer.step()
    with Traffic() as traffic:
        optimizer.step()
    return traffic.bytes


@claim(
    "adamw-traffic",
    "Bytes per parameter that a step of AdamW in fp32 moves: {expected[fused]} if fused, which reads four numbers and "
    "writes three; {expected[loop]} if each operation reads and writes its own tensors.",
    expected={"fused": 28, "loop": 84},
    tolerance=0.2,
    unit="B",
)
def adamw_traffic() -> Mapping[str, float]:
    """Adds up the bytes of the tensors of each operation; of the fused one, weights, averages (read and written) and
    gradients."""
    model = make_model()
    optimizer = AdamW(model.parameters(), fused=True)
    token_loss(model, *make_batch(batch_size=1)).backward()
    optimizer.step()
    moved = 0
    for parameter, state in optimizer.state.items():
        assert parameter.grad is not None
        moved += parameter.grad.nbytes + 2 * (parameter.nbytes + state["exp_avg"].nbytes + state["exp_avg_sq"].nbytes)
    parameters = model.parameter_count()
    return {"fused": moved / parameters, "loop": _adamw_traffic() / parameters}
