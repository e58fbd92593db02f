"""Claims of handbook/distributed-data-parallel.md on the time of an exchange, computed from sizes and bandwidths."""

import math
from collections.abc import Mapping

from rankzero.claims.claim import claim
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.recipes import RECIPES

PARAMETERS = 1e9
GRADIENT_BYTES = RECIPES["fp32"].gradient
COMPUTE = 400e12  # FLOP/s that a device attains
BACKWARD, FORWARD = 4, 2  # FLOPs per parameter and token


def bandwidth(nodes: int, per_node: int) -> float:
    """Bytes per second, one way, of a ring over all ranks of nodes of H100s with `per_node` ranks, one port each."""
    ranks = nodes * per_node
    return HARDWARE["h100"].bandwidth(ranks, 1, per_node, ranks)


ONE_PORT = bandwidth(8, 1)  # one rank per node


def exchange_ms(nodes: int = 8, per_node: int = 1, payload: float = GRADIENT_BYTES * PARAMETERS) -> float:
    """Milliseconds in which a rank of a ring sends its part of `payload` bytes of gradients."""
    ranks = nodes * per_node
    return 1000 * 2 * (ranks - 1) / ranks * payload / bandwidth(nodes, per_node)


def compute_ms(flops: float, tokens: float) -> float:
    """Milliseconds of a pass that takes `flops` per parameter and token."""
    return 1000 * flops * PARAMETERS * tokens / COMPUTE


@claim(
    "ddp-exchange-hidden",
    "A billion fp32 gradients, 400 TFLOP/s per rank. On 8 ranks, one per node (50 GB/s), the exchange takes "
    "{expected[exchange]} ms and hides behind a backward of {expected[tokens]:,} tokens; with 16,384 tokens per rank a "
    "step waits {expected[wait, 1 bucket]} ms for one bucket and {expected[wait, 8 buckets]} ms for the last of 8. On "
    "64 ranks that fill 8 nodes (8 ports, 400 GB/s) it takes {expected[full nodes]:.1f} ms and hides from "
    "{expected[full nodes, tokens]:,.0f} tokens on.",
    expected={
        "forward": 81.92,
        "backward": 163.84,
        "exchange": 140,
        "tokens": 14_000,
        "wait, 1 bucket": 140,
        "wait, 8 buckets": 17.5,
        "full nodes": 19.6875,
        "full nodes, tokens": 1968.75,
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
        "full nodes": exchange_ms(8, 8),
        "full nodes, tokens": exchange_ms(8, 8) / compute_ms(BACKWARD, 1),
    }


@claim(
    "ddp-problem-answers",
    "Answers to the chapter's problems: at most {expected[1: ranks]} ranks with one rank per node, "
    "{expected[1: ranks, full nodes]} in full nodes; {expected[2: every time]:,.0f} and "
    "{expected[2: once]:.0f} ms; {expected[4: ranks]:.0f} ranks; ring {expected[5: ring, ms]:.2f} ms, tree "
    "{expected[5: tree, ms]:.2f} ms, equal at {expected[5: equal, MB]:.1f} MB.",
    expected={
        "1: ranks": 33,
        "1: ranks, full nodes": 263,
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

    def most_ranks(bytes_per_second: float) -> int:
        return math.floor(1 + 2 * 524_288 * bytes_per_second / (GRADIENT_BYTES * COMPUTE))

    return {
        "1: ranks": most_ranks(ONE_PORT),
        "1: ranks, full nodes": most_ranks(bandwidth(8, 8)),
        "2: every time": 8 * (forward + max(backward, exchange_ms())),
        "2: once": 8 * (forward + backward) + exchange_ms() - backward,
        "4: ranks": math.log(2) / -math.log(1 - 0.01),
        "5: ring, ms": 1000 * 2 * (ranks - 1) * (latency + size / (ranks * ONE_PORT)),
        "5: tree, ms": 1000 * 2 * levels * (latency + size / ONE_PORT),
        "5: equal, MB": 1e-6 * latency * ONE_PORT * (ranks - 1 - levels) / (levels - (ranks - 1) / ranks),
    }
