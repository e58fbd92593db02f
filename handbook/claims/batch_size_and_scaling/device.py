"""Claims of handbook/batch-size-and-scaling.md: the device."""

import time
from collections.abc import Mapping

import torch
from torch.optim import AdamW
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss


@claim(
    "intensity-grows-with-rows",
    "A bf16 product with a 4096 × 4096 matrix does {expected[1 row]} FLOP per byte for one row, {expected[128 rows]} "
    "for 128, {expected[4096 rows]} for 4,096.",
    expected={"1 row": 1, "128 rows": 120, "342 rows": 293, "4096 rows": 1365},
    tolerance=0.5,
    unit="FLOPs per byte",
)
def intensity() -> Mapping[str, float]:
    """Counts the product's FLOPs with PyTorch's counter and the bytes of its three matrices, each moved once."""
    measured = {}
    for rows in (1, 128, 342, 4096):
        x, w = (torch.empty(n, 4096, dtype=torch.bfloat16, device="meta") for n in (rows, 4096))
        with FlopCounterMode(display=False) as counter:
            y = x @ w
        name = f"{rows} row{'s' if rows > 1 else ''}"
        measured[name] = counter.get_total_flops() / (x.nbytes + w.nbytes + y.nbytes)
    return measured


def tokens_per_second(tokens: int, groups: int = 5) -> list[float]:
    """Tokens per second of processor time in training steps of Lab 02's GPT: one rate for each group of warm steps."""
    model, (x, y) = make_model(), make_batch(max(1, tokens // 64), min(tokens, 64))
    optimizer = AdamW(model.parameters(), lr=1e-3)
    steps, rates = max(2, 64 // tokens), []
    for _ in range(groups + 1):
        begin = time.process_time()
        for _ in range(steps):
            optimizer.zero_grad()
            token_loss(model, x, y).backward()
            optimizer.step()
        rates.append(steps * tokens / (time.process_time() - begin))
    return rates[1:]  # the first group warms up


@claim(
    "tokens-per-second-by-batch",
    "On one thread of a CPU, Lab 02's GPT trains on more than 5 times as many tokens per second with 64 tokens in a "
    "batch as with 4, and on less than 2 times as many with 1,024 as with 256.",
    expected=True,
    unit="",
)
def tokens_per_second_by_batch() -> Charted:
    """Times forward, backward and AdamW's update in processor time, five groups of steps for each size of the batch.

    The chart divides every rate by the median rate of a batch of 4 tokens. Sequences have at most 64 tokens.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rates = {tokens: tokens_per_second(tokens) for tokens in (4, 16, 64, 128, 256, 512, 1024)}
    finally:
        torch.set_num_threads(threads)
    smallest = Spread.of(rates[4]).median
    points = [Spread.of([rate / smallest for rate in rates[tokens]]).point(tokens) for tokens in rates]
    middle = {tokens: Spread.of(rates[tokens]).median for tokens in rates}
    value = middle[64] > 5 * middle[4] and middle[1024] < 2 * middle[256]
    axes = "tokens in the batch", "tokens per second, as a multiple of a batch of 4"
    return Charted(value, Chart("Training rate of Lab 02's GPT", *axes, {"CPU": points}, "x"))
