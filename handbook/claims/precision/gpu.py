"""Claims of handbook/precision.md: mixed precision on a GPU."""

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread, free_memory, gpu, milliseconds, pick
from rankzero.claims.toolkit.lab_model import token_loss
from rankzero.learn.models.gpt import GPT, GPTConfig


def step_time(width: int, low: torch.dtype | None, precision: str = "highest") -> Spread:
    """Milliseconds of a training step of a GPT of that width, under autocast to `low` or in fp32."""
    free_memory()
    torch.manual_seed(0)
    tokens = pick(512, 8)
    model = GPT(GPTConfig(pick(4096, 64), tokens, pick(4, 1), max(1, width // 64), width)).to(gpu())
    optimizer = AdamW(model.parameters(), fused=True)
    x = torch.randint(pick(4096, 64), (pick(8, 2), tokens), device=gpu())

    def step() -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(gpu().type, dtype=low or torch.bfloat16, enabled=low is not None):
            loss = token_loss(model, x, x)
        loss.backward()
        optimizer.step()
        return loss

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        return milliseconds(step)
    finally:
        torch.set_float32_matmul_precision(before)


@claim(
    "gpu-amp-by-width",
    "On a GPU autocast to bf16 speeds up a training step of a GPT 2,048 wide more than twice, and more than it speeds "
    "up one 128 wide.",
    expected={"2,048 wide: more than twice": 1, "2,048 more than 128": 1},
    unit="",
    needs=("cuda",),
)
def amp_by_width() -> Charted:
    """Times training steps on 8 x 512 tokens in fp32, in TF32 and under autocast to bf16, for each width."""
    ways = {"TF32": (None, "high"), "bf16 autocast": (torch.bfloat16, "highest")}
    lines: dict[str, list[Point]] = {name: [] for name in ways}
    for width in pick([128, 256, 512, 1024, 2048], [16, 32]):
        plain = step_time(width, None).median
        for name, (low, precision) in ways.items():
            lines[name].append(step_time(width, low, precision).inverse(plain).point(width))
    small, large = lines["bf16 autocast"][0][1], lines["bf16 autocast"][-1][1]
    value = {"2,048 wide: more than twice": int(large > 2), "2,048 more than 128": int(large > small)}
    axes = "width of the model", "times as fast as fp32"
    return Charted(value, Chart("Speed-up of a training step", *axes, lines, "x"))
