"""Claims of handbook/mfu.md: published utilizations, MFU and HFU, computed again from published inputs."""

import functools
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.models import PRESETS, build

PALM = "[PaLM](https://arxiv.org/abs/2204.02311), appendix B"
TITAN = (
    "[torchtitan](https://github.com/pytorch/torchtitan/blob/main/benchmarks/llama3_h100_202412_torchtitan.md), table 1"
)
MOSAIC = "[LLM Foundry](https://github.com/mosaicml/llm-foundry/blob/main/scripts/train/benchmarking/README.md)"
KORTHIKANTI = "[Korthikanti et al.](https://arxiv.org/abs/2205.05198), table 5"


@claim(
    "palm-mfu",
    "PaLM 540B: 238.3 thousand tokens/s on 6,144 TPU v4 of 275 TFLOP/s are an MFU of {expected} %.",
    expected=46.2,
    tolerance=0.05,
    unit="%",
    source=PALM,
)
def palm_mfu() -> float:
    """6N + 12LHQT with N 540.35 billion, L 118, H 48, Q 256, T 2,048, from the published inputs."""
    per_token = 6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048
    return 100 * 238_300 * per_token / (6144 * 275e12)


@claim(
    "torchtitan-mfu",
    "Llama-3-8B at 8,192 tokens, 5,762 and 6,667 tokens/s on an H100 (989 TFLOP/s): MFU {expected[eager]} % and, "
    "compiled, {expected[compiled]:.1f} %.",
    expected={"eager": 33.7, "compiled": 39.0},
    tolerance=0.05,
    unit="%",
    source=TITAN,
)
def torchtitan_mfu() -> Mapping[str, float]:
    """Builds the model without data and counts its parameters, the token embedding left out: it is only looked up."""
    config = PRESETS["llama-3-8b"]
    with torch.device("meta"):
        model = build(config)
    looked_up = config.vocab_size * config.hidden_dim
    multiplied = sum(p.numel() for p in model.parameters()) - looked_up
    per_token = 6 * multiplied + 12 * config.n_layer * config.hidden_dim * 8192
    return {name: 100 * rate * per_token / 989e12 for name, rate in (("eager", 5762), ("compiled", 6667))}


@claim(
    "embedding-counted-mfu",
    "The same run with the token embedding, which multiplies nothing, counted into N: {expected} % instead of 33.7.",
    expected=35.6,
    tolerance=0.05,
    unit="%",
)
def embedding_counted() -> float:
    """As torchtitan's MFU, with all parameters."""
    config = PRESETS["llama-3-8b"]
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build(config).parameters())
    return 100 * 5762 * (6 * parameters + 12 * config.n_layer * config.hidden_dim * 8192) / 989e12


@claim(
    "mosaicml-mfu",
    "MPT-7B at 2,048 tokens, 10,643 tokens/s on an H100 of 989.5 TFLOP/s: MFU {expected} %.",
    expected=46.44,
    tolerance=0.01,
    unit="%",
    source=MOSAIC,
)
def mosaicml_mfu() -> float:
    """The published 6,658,859,008 parameters, 32 layers of width 4,096."""
    return 100 * 10_643 * (6 * 6_658_859_008 + 12 * 32 * 4096 * 2048) / 989.5e12


@claim(
    "published-hfu-four-thirds",
    "Rows with activation checkpointing, MPT-7B, 13B and 70B on H100: HFU over MFU is 4/3.",
    expected={"7B": 4 / 3, "13B": 4 / 3, "70B": 4 / 3},
    tolerance=0.001,
    unit="",
    source=MOSAIC,
)
def published_hfu() -> Mapping[str, float]:
    """Divides the published columns: 53.9 by 40.42, 55.47 by 41.6, 56.76 by 42.57."""
    return {"7B": 53.9 / 40.42, "13B": 55.47 / 41.6, "70B": 56.76 / 42.57}


def _attention_twice(self: Any, x: Tensor) -> Tensor:
    """CausalSelfAttention.forward, with its core run again in backward."""
    B, T, C = x.shape
    q, k, v = self.qkv(x).view(B, T, 3, self.n_head, C // self.n_head).permute(2, 0, 3, 1, 4)
    core = functools.partial(F.scaled_dot_product_attention, is_causal=True)
    y: Tensor = checkpoint(core, q, k, v, use_reentrant=False)
    out: Tensor = self.proj(y.transpose(1, 2).reshape(B, T, C))
    return out


def _step_flops(layers: int, hidden_dim: int, heads: int, *, again: bool) -> int:
    config = GPTConfig(51_200, block_size=2048, n_layer=layers, n_head=heads, hidden_dim=hidden_dim)
    with FakeTensorMode(), sdpa_kernel(SDPBackend.MATH), set_checkpoint_early_stop(False):
        model = GPT(config)
        if again:
            for block in model.blocks:
                attention: Any = block.attention
                attention.forward = functools.partial(_attention_twice, attention)
        with FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, 2048, dtype=torch.int64)).sum().backward()
    return counter.get_total_flops()


@claim(
    "megatron-hfu",
    "FLOPs that recomputing attention's core alone adds to a step of Megatron's models. The published HFU is above "
    "MFU by about three times as much, 5.3, 2.7, 1.8 and 1.2 %.",
    expected={"22B": 1.73, "175B": 0.90, "530B": 0.55, "1T": 0.44},
    tolerance=0.005,
    unit="%",
    source=KORTHIKANTI,
)
def megatron_hfu() -> Mapping[str, float]:
    """Counts GPTs of these shapes with one layer and with two, without data, and adds the rest of the layers."""
    shapes = {"22B": (48, 6144, 64), "175B": (96, 12288, 96), "530B": (105, 20480, 128), "1T": (128, 25600, 160)}
    found = {}
    for name, (layers, width, heads) in shapes.items():
        total = {}
        for again in (False, True):
            one, two = (_step_flops(count, width, heads, again=again) for count in (1, 2))
            total[again] = one + (layers - 1) * (two - one)
        found[name] = 100 * (total[True] / total[False] - 1)
    return found
