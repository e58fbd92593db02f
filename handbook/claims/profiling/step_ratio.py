"""Claim of handbook/profiling.md: time of backward over time of forward, by the size of the batch."""

import time

import torch

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss

TOKENS = (1, 4, 16, 64, 256)  # in a batch of sequences of at most 64 tokens


def ratios(tokens: int, groups: int = 5, steps: int = 6) -> Spread:
    """Processor time of backward over that of forward, in warm steps of Lab 02's GPT: medians of groups of steps."""
    model, (x, y) = make_model(), make_batch(max(1, tokens // 64), min(tokens, 64))
    measured = []
    for _ in range(groups + 1):
        forward = backward = 0.0
        for _ in range(steps):
            begin = time.process_time()
            loss = token_loss(model, x, y)
            middle = time.process_time()
            loss.backward()
            forward, backward = forward + middle - begin, backward + time.process_time() - middle
        measured.append(backward / forward)
    return Spread.of(measured[1:])  # the first group warms up


@claim(
    "backward-to-forward-by-tokens",
    "In warm steps of Lab 02's GPT on one thread of a CPU, backward over forward is a smaller ratio of times for a "
    "batch of 1 token than for one of 256, although the ratio of FLOPs is 2 for both.",
    expected=True,
    unit="",
)
def backward_to_forward_by_tokens() -> Charted:
    """Adds up the processor time of both passes over six steps, five times for each size, after a warm-up."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        points = [ratios(tokens).point(tokens) for tokens in TOKENS]
    finally:
        torch.set_num_threads(threads)
    chart = Chart(
        "Backward as a multiple of forward", "tokens in the batch", "time of backward / forward", {"CPU": points}, "x"
    )
    return Charted(points[0][1] < points[-1][1] - 0.1, chart)
