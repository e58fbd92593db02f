"""Claims of handbook/profiling-and-roofline.md."""

import functools
import math
import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread, gpu, pick, synchronize
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.models import PRESETS, build

PALM = "[PaLM](https://arxiv.org/abs/2204.02311), appendix B"
TITAN = (
    "[torchtitan](https://github.com/pytorch/torchtitan/blob/main/benchmarks/llama3_h100_202412_torchtitan.md), table 1"
)
MOSAIC = "[LLM Foundry](https://github.com/mosaicml/llm-foundry/blob/main/scripts/train/benchmarking/README.md)"
KORTHIKANTI = "[Korthikanti et al.](https://arxiv.org/abs/2205.05198), table 5"


# -------------------------------------------------------------------------------------------------------- MFU and HFU
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


# -------------------------------------------------------------------------------------------------------- by the clock
@claim(
    "launch-is-not-the-work",
    "On a GPU, a clock around the call of a large product, without a wait, shows less than a tenth of its time.",
    expected=0,
    tolerance=0.1,
    unit="of the time",
    needs=("cuda",),
)
def launch_time() -> float:
    """Times a product of fp32 matrices [8192, 8192] on the GPU five times with and without a wait, and divides."""
    a = torch.randn(pick(8192, 64), pick(8192, 64), device=gpu())
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for wait in [True, *[False, True] * 5]:
        synchronize()
        start = time.perf_counter()
        _ = a @ a
        if wait:
            synchronize()
        seconds[wait].append(time.perf_counter() - start)
    return statistics.median(seconds[False]) / statistics.median(seconds[True][1:])


# -------------------------------------------------------------------------------------------------------------- depth
def gradient_by_depth(gain: float, *, bounded: bool = False, depth: int = 30) -> list[float]:
    """Gradient at each layer over that at the last, of a stack of tanh layers 64 wide, float64; RMS of each.

    `bounded` gives each layer a residual connection and a norm.
    """
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64, bias=False).double() for _ in range(depth)]
    norms = [nn.LayerNorm(64).double() for _ in range(depth)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=gain / 8)  # 8 = √64: with gain 1 a linear layer keeps the size
    x, seen = torch.randn(128, 64, dtype=torch.float64, requires_grad=True), []
    for layer, normalize in zip(layers, norms, strict=True):
        x = x + torch.tanh(layer(normalize(x))) if bounded else torch.tanh(layer(x))
        x.retain_grad()
        seen.append(x)
    x.square().mean().backward()
    sizes = [value.grad.square().mean().sqrt().item() for value in seen if value.grad is not None]
    return [size / sizes[-1] for size in sizes]


@claim(
    "gradients-by-depth",
    "Gradient at the first of 30 tanh layers over that at the last, as a power of ten, by the weights' gain: with 0.5 "
    "it vanishes, with 3 it explodes, and a residual connection with a norm keeps it within about ten times.",
    expected={"0.5": -7.89, "1": -0.10, "3": 3.60, "0.5, residual and norm": 0.38, "3, residual and norm": 1.10},
    tolerance=0.02,
    unit="power of ten",
)
def gradients_by_depth() -> Charted:
    """Runs one backward through each stack, in float64, and takes the logarithm of the quotient."""
    ratios = {f"{gain:g}": gradient_by_depth(gain) for gain in (0.5, 1.0, 3.0)}
    ratios |= {f"{gain:g}, residual and norm": gradient_by_depth(gain, bounded=True) for gain in (0.5, 3.0)}
    lines = {
        name: [Spread.of([size]).point(layer) for layer, size in enumerate(line, 1)] for name, line in ratios.items()
    }
    chart = Chart("Gradient by depth", "layer", "gradient, relative to the last layer", lines, "y")
    return Charted({name: math.log10(line[0]) for name, line in ratios.items()}, chart)


@claim(
    "weight-gradients-by-depth",
    "Gradient of the first layer's weights over that of the last one's, in the plain stack of 30 tanh layers: with a "
    "gain of 0.5 about equal, with 3 thousands of times as large. And how large the last one's is.",
    expected={"0.5": 0.06, "3": 3.87, "0.5, the last": -17.65},
    tolerance=0.02,
    unit="power of ten",
)
def weight_gradients_by_depth() -> Mapping[str, float]:
    """Runs one backward through each stack, in float64; the logarithms of the quotient and of the L2 norm."""
    found = {}
    for gain in (0.5, 3):
        torch.manual_seed(0)
        layers = [nn.Linear(64, 64, bias=False).double() for _ in range(30)]
        for layer in layers:
            nn.init.normal_(layer.weight, std=gain / 8)
        x = torch.randn(128, 64, dtype=torch.float64)
        for layer in layers:
            x = torch.tanh(layer(x))
        x.square().mean().backward()
        norms = [layer.weight.grad.norm().item() for layer in layers if layer.weight.grad is not None]
        found[f"{gain}"] = math.log10(norms[0] / norms[-1])
        if gain == 0.5:
            found["0.5, the last"] = math.log10(norms[-1])
    return found
