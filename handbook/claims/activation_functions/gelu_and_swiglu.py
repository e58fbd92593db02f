"""Claims of handbook/activation-functions.md: GELU and SwiGLU."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from rankzero.claims.claim import claim
from rankzero.learn.models import llama
from rankzero.learn.models.gpt import MLP, GPTConfig
from rankzero.learn.models.llama import LlamaConfig

from .shared import _grid


@claim(
    "two-gelus",
    "GELU's tanh form is at most {expected[tanh form]:.4f} from the exact one; SiLU, stretched, "
    "{expected[SiLU(1.702 x) / 1.702]}; SiLU as it is {expected[SiLU]}, 400 times the first.",
    expected={"tanh form": 0.000473, "SiLU(1.702 x) / 1.702": 0.0203, "SiLU": 0.193},
    tolerance=5e-5,
    unit="largest difference",
)
def two_gelus() -> Mapping[str, float]:
    """Compares the curves at 160,001 points from -8 to 8."""
    grid = _grid()
    others = {
        "tanh form": F.gelu(grid, approximate="tanh"),
        "SiLU(1.702 x) / 1.702": F.silu(1.702 * grid) / 1.702,
        "SiLU": F.silu(grid),
    }
    return {name: (other - F.gelu(grid)).abs().max().item() for name, other in others.items()}


@claim(
    "swiglu-parameters",
    "SwiGLU has as many weights as the plain MLP of width 4C at h = 8/3 C, {expected[Llama-2-7B]:.4f} times as many "
    "in Llama-2-7B, {expected[Llama-3-8B]} in Llama-3-8B, {expected[4 C]} at h = 4C.",
    expected={"8/3 C": 1, "Llama-2-7B": 1.0078125, "Llama-3-8B": 1.3125, "4 C": 1.5},
    unit="times",
    source="[GLU variants](https://arxiv.org/abs/2002.05202)",
)
def swiglu_parameters() -> Mapping[str, float]:
    """Builds the labs' MLPs without memory and counts their weights; 8/3 C at C = 768, as in the paper, the rest at
    4,096.
    """

    def count(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    def times(width: int, ffn: int) -> float:
        with torch.device("meta"):
            gated = llama.MLP(LlamaConfig(1, n_head=4, n_kv_head=4, hidden_dim=width, ffn_dim=ffn))
            return count(gated) / count(MLP(GPTConfig(1, hidden_dim=width)))

    return {
        "8/3 C": times(768, 2048),
        "Llama-2-7B": times(4096, 11_008),
        "Llama-3-8B": times(4096, 14_336),
        "4 C": times(4096, 16_384),
    }


@claim(
    "unscaled-attention-saturates",
    "Without division by the root of the width, one of 64 keys has more than 0.99 of the weight in {expected[64]} % "
    "of rows at a width of 64 and in {expected[256]} % at 256; with it, in none.",
    expected={"64": 22, "64, scaled": 0, "256": 49, "256, scaled": 0},
    tolerance=4,
    unit="% of rows",
)
def unscaled_attention() -> Mapping[str, float]:
    """Takes softmax of the scores of 512 queries and 64 keys of standard normal numbers; the tolerance is two standard
    errors of 512 rows.
    """
    torch.manual_seed(0)
    shares = {}
    for width in (64, 256):
        queries, keys = torch.randn(2, 512, width, dtype=torch.float64)
        scores = queries @ keys[:64].T
        for name, logits in ((f"{width}", scores), (f"{width}, scaled", scores / width**0.5)):
            shares[name] = 100 * (logits.softmax(-1).amax(-1) > 0.99).double().mean().item()
    return shares
