"""Claims of handbook/distributed-data-parallel.md on the time of an exchange, computed from sizes and bandwidths."""

import math
from collections.abc import Mapping

from rankzero.claims.claim import claim
from rankzero.ledger.recipes import RECIPES

RANKS, PARAMETERS = 8, 1e9
GRADIENT_BYTES = RECIPES["fp32"].gradient
COMPUTE, BANDWIDTH = 400e12, 50e9  # FLOP/s that a device attains; bytes per second of a network card of 400 Gb/s
BACKWARD, FORWARD = 4, 2  # FLOPs per parameter and token


def exchange_ms() -> float:
    """Milliseconds in which a rank of a ring sends its part of the gradients."""
    return 1000 * 2 * (RANKS - 1) / RANKS * GRADIENT_BYTES * PARAMETERS / BANDWIDTH


def compute_ms(flops: float, tokens: float) -> float:
    """Milliseconds of a pass that takes `flops` per parameter and token."""
    return 1000 * flops * PARAMETERS * tokens / COMPUTE


@claim(
    "ddp-exchange-hidden",
    "A billion fp32 gradients on 8 ranks, 400 TFLOP/s each, over a ring of 50 GB/s: the exchange takes "
    "{expected[exchange]} ms and hides behind a backward of {expected[tokens]:,} tokens. With 16,384 tokens per rank, "
    "a step waits {expected[wait, 1 bucket]} ms for one bucket and {expected[wait, 8 buckets]} ms for the last of 8.",
    expected={
        "forward": 81.92,
        "backward": 163.84,
        "exchange": 140,
        "tokens": 14_000,
        "wait, 1 bucket": 140,
        "wait, 8 buckets": 17.5,
    },
    tolerance=1e-6,
    unit="ms, or tokens",
)
def exchange_hidden() -> Mapping[str, float]:
    """Divides bytes by bandwidth and FLOPs by FLOP/s. Equal buckets: all but the last are sent during backward."""
    tokens = 16_384
    return {
        "forward": compute_ms(FORWARD, tokens),
        "backward": compute_ms(BACKWARD, tokens),
        "exchange": exchange_ms(),
        "tokens": exchange_ms() / compute_ms(BACKWARD, 1),
        "wait, 1 bucket": exchange_ms(),
        "wait, 8 buckets": exchange_ms() / 8,
    }


@claim(
    "ddp-problem-answers",
    "Answers to the chapter's problems: at most {expected[1: ranks]} ranks; {expected[2: every time]:,.0f} and "
    "{expected[2: once]:.0f} ms; {expected[4: ranks]:.0f} ranks; ring {expected[5: ring, ms]:.2f} ms, tree "
    "{expected[5: tree, ms]:.2f} ms, equal at {expected[5: equal, MB]:.1f} MB.",
    expected={
        "1: ranks": 33,
        "2: every time": 1201.92,
        "2: once": 365.28,
        "4: ranks": 68.97,
        "5: ring, ms": 1.301,
        "5: tree, ms": 0.372,
        "5: equal, MB": 5.68,
    },
    tolerance=0.005,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Evaluates the formulas that the answers derive, for the numbers that the problems give."""
    forward, backward = compute_ms(FORWARD, 2048), compute_ms(BACKWARD, 2048)
    ranks, size, latency = 64, 2**20, 10e-6
    levels = math.log2(ranks)
    return {
        "1: ranks": math.floor(1 + 2 * 524_288 * BANDWIDTH / (GRADIENT_BYTES * COMPUTE)),
        "2: every time": 8 * (forward + max(backward, exchange_ms())),
        "2: once": 8 * (forward + backward) + exchange_ms() - backward,
        "4: ranks": math.log(2) / -math.log(1 - 0.01),
        "5: ring, ms": 1000 * 2 * (ranks - 1) * (latency + size / (ranks * BANDWIDTH)),
        "5: tree, ms": 1000 * 2 * levels * (latency + size / BANDWIDTH),
        "5: equal, MB": 1e-6 * latency * BANDWIDTH * (ranks - 1 - levels) / (levels - (ranks - 1) / ranks),
    }
