"""Claims of handbook/mfu.md: kernels on a GPU, measured one by one."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import GPT_2
from rankzero.claims.toolkit.gpu import Spread, free_memory, gpu, milliseconds, peak_mib, pick
from rankzero.learn.models.gpt import GPT, GPTConfig

MATMUL_DTYPES = {
    "fp32": (torch.float32, "highest"),
    "TF32": (torch.float32, "high"),
    "bf16": (torch.bfloat16, "highest"),
    "fp16": (torch.float16, "highest"),
}


def rate(m: int, k: int, n: int, name: str) -> Spread:
    """TFLOP/s of a product [m, k] @ [k, n] in a format of MATMUL_DTYPES."""
    dtype, precision = MATMUL_DTYPES[name]
    a, b = torch.randn(m, k, device=gpu()).to(dtype), torch.randn(k, n, device=gpu()).to(dtype)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        return milliseconds(lambda: a @ b).inverse(2 * m * k * n / 1e9)
    finally:
        torch.set_float32_matmul_precision(before)


def bandwidth() -> Spread:
    """GB/s of the device's memory: a copy of 2 GiB reads and writes each byte."""
    source = torch.ones(pick(2**31, 2**20), dtype=torch.uint8, device=gpu())
    target = torch.empty_like(source)
    return milliseconds(lambda: target.copy_(source)).inverse(2 * source.nbytes / 1e6)


@claim(
    "gpu-matmul-rate",
    "On a GPU a bf16 product of square matrices 8,192 wide runs at more than 10 times the rate of one 256 wide, and "
    "at more than 4 times the rate in fp32; TF32 lies between.",
    expected={"bf16: large > 10 x small": 1, "bf16 > 4 x fp32": 1, "fp32 < TF32 < bf16": 1},
    unit="",
    needs=("cuda",),
)
def matmul_rate() -> Charted:
    """Times products of square matrices by CUDA events, for each width and format; a rate is 2 N^3 / time."""
    widths = pick([256, 512, 1024, 2048, 4096, 8192], [32, 64])
    lines = {name: [rate(n, n, n, name).point(n) for n in widths] for name in MATMUL_DTYPES}
    large = {name: line[-1][1] for name, line in lines.items()}
    value = {
        "bf16: large > 10 x small": int(large["bf16"] > 10 * lines["bf16"][0][1]),
        "bf16 > 4 x fp32": int(large["bf16"] > 4 * large["fp32"]),
        "fp32 < TF32 < bf16": int(large["fp32"] < large["TF32"] < large["bf16"]),
    }
    return Charted(value, Chart("Rate of a square product", "width of the matrices", "TFLOP/s", lines, "xy"))


@claim(
    "gpu-measured-roofline",
    "On a GPU the rate of a bf16 product [8,192, 8,192] @ [8,192, m] follows the roofline: with one column it is more "
    "than half of what the measured bandwidth allows, with 4,096 columns more than 5 times the rate of 16.",
    expected={"1 column: more than half of the bandwidth": 1, "4,096 columns > 5 x 16 columns": 1},
    unit="",
    needs=("cuda",),
)
def measured_roofline() -> Charted:
    """Times the product for each number of columns m; its intensity is FLOPs per byte of both inputs and the output.
    The roof is the smaller of measured bandwidth x intensity and the highest measured rate."""
    n, columns = pick((8192, [1, 4, 16, 64, 128, 256, 512, 1024, 4096]), (64, [1, 4, 16]))
    intensity = {m: 2 * n * n * m / (2 * (n * n + 2 * n * m)) for m in columns}
    rates = {m: rate(n, n, m, "bf16") for m in columns}
    roof, top = bandwidth().median / 1e3, max(spread.median for spread in rates.values())  # TB/s, TFLOP/s
    lines = {
        "measured": [rates[m].point(intensity[m]) for m in columns],
        "roof": [Spread.of([min(roof * intensity[m], top)]).point(intensity[m]) for m in columns],
    }
    value = {
        "1 column: more than half of the bandwidth": int(rates[1].median > 0.5 * roof * intensity[1]),
        "4,096 columns > 5 x 16 columns": int(rates[columns[-1]].median > 5 * rates[16].median),
    }
    title = f"Measured roofline, bf16 products, {roof:.2f} TB/s of memory bandwidth"
    return Charted(value, Chart(title, "FLOPs per byte", "TFLOP/s", lines, "xy"))


def by_formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in separate operations, with a mask on the inputs' device."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ v


def fused_by(backend: SDPBackend) -> Callable[..., Tensor]:
    """PyTorch's fused attention with one of its kernels."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return attention


def attentions() -> dict[str, Callable[..., Tensor]]:
    """The ways to compute attention that this device has."""
    efficient = pick(SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)  # the CPU lacks that kernel
    return {
        "separate operations": by_formula,
        "memory-efficient": fused_by(efficient),
        "flash": fused_by(SDPBackend.FLASH_ATTENTION),
    }


def run_attention(attention: Callable[..., Tensor], tokens: int) -> Callable[[], None]:
    """Forward and backward of causal attention for 4 sequences, 12 heads of 64 numbers, in bf16."""
    shape = (pick(4, 1), pick(12, 1), tokens, 64)
    q, k, v = (torch.randn(shape, device=gpu(), dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    return lambda: attention(q, k, v).sum().backward()


@claim(
    "gpu-attention-time",
    "On a GPU forward and backward of causal attention over 4,096 tokens take more than 3 times as long in separate "
    "operations as in the flash kernel.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def attention_time() -> Charted:
    """Times both passes for 4 sequences, 12 heads of 64, in bf16, at each length and with each kernel."""
    lengths = pick([256, 512, 1024, 2048, 4096], [16, 32])
    lines = {
        name: [milliseconds(run_attention(attention, tokens)).point(tokens) for tokens in lengths]
        for name, attention in attentions().items()
    }
    value = lines["separate operations"][-1][1] > 3 * lines["flash"][-1][1]
    return Charted(value, Chart("Attention, forward and backward", "tokens per sequence", "ms", lines, "xy"))


@claim(
    "gpu-attention-memory",
    "On a GPU twice the tokens need about four times the memory for attention in separate operations, and about twice "
    "with the flash kernel (at 2,048 and 4,096 tokens).",
    expected={"separate operations": 4, "flash": 2},
    unit="times the bytes",
    tolerance=0.4,
    needs=("cuda",),
)
def attention_memory() -> Charted:
    """Reads the allocator's peak during both passes, above what the inputs hold, at each length."""
    lengths = pick([256, 512, 1024, 2048, 4096], [16, 32])
    lines = {
        name: [Spread.of([peak_mib(run_attention(attention, tokens))]).point(tokens) for tokens in lengths]
        for name, attention in attentions().items()
    }
    value = {name: lines[name][-1][1] / lines[name][-2][1] for name in ("separate operations", "flash")}
    return Charted(value, Chart("Attention, forward and backward", "tokens per sequence", "peak MiB", lines, "xy"))


@claim(
    "gpu-adamw-kernels",
    "On a GPU one AdamW step on GPT-2's parameters is fastest as a fused kernel and slowest as a loop over tensors.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def adamw_kernels() -> Charted:
    """Times optimizer.step() on GPT-2's 148 tensors with gradients in place, in each of the three ways."""
    config = pick(GPT_2, GPTConfig(64, n_layer=1))
    bars = {}
    ways: dict[str, dict[str, Any]] = {
        "loop": {"foreach": False},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
    }
    for name, options in ways.items():
        free_memory()
        model = GPT(config).to(gpu())
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        bars[name] = milliseconds(AdamW(model.parameters(), **options).step)
        del model
    chart = Chart("One AdamW step", "", "ms", {"AdamW": [spread.point(name) for name, spread in bars.items()]})
    return Charted(bars["fused"].median < bars["foreach"].median < bars["loop"].median, chart)


def head_time(vocabulary: int) -> Spread:
    """Milliseconds of an output layer and its loss, both passes, for 8 x 1,024 tokens of width 768 in bf16."""
    tokens, width = pick((8192, 768), (32, 16))
    head = nn.Linear(width, vocabulary, bias=False).to(gpu(), torch.bfloat16)
    x = torch.randn(tokens, width, device=gpu(), dtype=torch.bfloat16, requires_grad=True)
    y = torch.randint(vocabulary, (tokens,), device=gpu())
    return milliseconds(lambda: F.cross_entropy(head(x), y).backward())


@claim(
    "gpu-padded-vocabulary",
    "On a GPU an output layer for 50,304 tokens, a multiple of 64, takes no longer than one for 50,257.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def padded_vocabulary() -> Charted:
    """Times output layer and loss, forward and backward, for both sizes of the vocabulary."""
    sizes = pick([50257, 50304], [257, 320])
    spreads = [head_time(size) for size in sizes]
    bars = [spread.point(f"{size:,}") for size, spread in zip(sizes, spreads, strict=True)]
    value = spreads[1].median <= spreads[0].median
    return Charted(value, Chart("Output layer and loss, both passes", "tokens in the vocabulary", "ms", {"head": bars}))
