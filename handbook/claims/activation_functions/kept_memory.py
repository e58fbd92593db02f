"""Claims of handbook/activation-functions.md: kept memory."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.claims.claim import claim
from rankzero.learn.models import llama
from rankzero.learn.models.llama import LlamaConfig
from rankzero.learn.profiling.memory import tensor_bytes

from .shared import Curve, _gelu_by_hand


class _Between(nn.Module):
    """A curve between two linear layers, 192 and 768 wide."""

    def __init__(self, curve: Curve) -> None:
        super().__init__()
        self.up, self.down, self.curve = nn.Linear(192, 768), nn.Linear(768, 192), curve

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.curve(self.up(x)))


def _kept_units(module: nn.Module) -> float:
    """Returns the bytes that autograd keeps, parameters left out, in units of the input's."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor

    x = torch.randn(256, 192, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(x)
    own = {p.data_ptr() for p in module.parameters()}
    return tensor_bytes(tensor for tensor in kept if tensor.data_ptr() not in own) / x.nbytes


@claim(
    "kept-between-two-linears",
    "Between linear layers of C and 4C an MLP keeps 5 times its input with ReLU, sigmoid or tanh, in place or not, 9 "
    "with GELU or SiLU, {expected[GELU by hand]} with GELU's tanh form written out; SwiGLU with h = 8/3 C keeps "
    "{expected[SwiGLU]:.1f}.",
    expected={
        "ReLU": 5,
        "ReLU in place": 5,
        "sigmoid": 5,
        "tanh": 5,
        "leaky ReLU": 9,
        "leaky ReLU in place": 5,
        "GELU": 9,
        "SiLU": 9,
        "SiLU in place": 9,
        "ReLU squared": 9,
        "x * sigmoid(x)": 13,
        "GELU by hand": 21,
        "SwiGLU": 1 + 4 * 8 / 3,
    },
    unit="times the input",
)
def kept_between() -> Mapping[str, float]:
    """Counts the storages that autograd keeps, through its hooks; one that two layers share counts once."""
    curves: dict[str, Curve] = {
        "ReLU": F.relu,
        "ReLU in place": lambda x: F.relu(x, inplace=True),
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "leaky ReLU": F.leaky_relu,
        "leaky ReLU in place": lambda x: F.leaky_relu(x, inplace=True),
        "GELU": F.gelu,
        "SiLU": F.silu,
        "SiLU in place": lambda x: F.silu(x, inplace=True),
        "ReLU squared": lambda x: F.relu(x).square(),
        "x * sigmoid(x)": lambda x: x * torch.sigmoid(x),
        "GELU by hand": _gelu_by_hand,
    }
    units = {name: _kept_units(_Between(curve)) for name, curve in curves.items()}
    gated = llama.MLP(LlamaConfig(1, hidden_dim=192, n_head=2, n_kv_head=2, ffn_dim=512))
    return units | {"SwiGLU": _kept_units(gated)}


@claim(
    "in-place-after-what",
    "In-place ReLU is fine after a linear layer, a LayerNorm or GELU, and raises in backward after a sigmoid, a "
    "softmax or another ReLU, which keep their output.",
    expected={"linear": 0, "LayerNorm": 0, "GELU": 0, "sigmoid": 1, "softmax": 1, "ReLU": 1},
    unit="raises",
)
def in_place_after() -> Mapping[str, float]:
    """Runs each with F.relu_ behind it, forward and backward, and looks for the RuntimeError."""
    x = torch.randn(4, 8, requires_grad=True)
    before: dict[str, Curve] = {
        "linear": nn.Linear(8, 8),
        "LayerNorm": nn.LayerNorm(8),
        "GELU": F.gelu,
        "sigmoid": torch.sigmoid,
        "softmax": nn.Softmax(dim=-1),
        "ReLU": F.relu,
    }

    def raises(first: Curve) -> int:
        try:
            F.relu_(first(x)).sum().backward()
        except RuntimeError as error:
            return int("inplace operation" in str(error))
        return 0

    return {name: raises(first) for name, first in before.items()}
