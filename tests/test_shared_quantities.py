"""Shared quantities: claims of several pages that state one quantity agree with one formula of the library."""

import math
from collections.abc import Mapping

import pytest

from rankzero.claims.registry import all_claims
from rankzero.learn.distributed.collectives import RING
from rankzero.ledger.hardware import GB, HARDWARE
from rankzero.ledger.predict import states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES, bytes_per_parameter
from rankzero.ledger.segments import even, lengths_of_lowest_peak, peak_of_lengths

ADAMW = OPTIMIZERS["adamw"]
MIXED = RECIPES["mixed"]
AVERAGES = MIXED.state * len(ADAMW.moments)


def saved(stage: int, ranks: int) -> float:
    """Returns how many times fewer bytes of states a rank holds with a stage of ZeRO."""
    return 16 / states_per_rank(1, MIXED, ADAMW, zero=stage, ranks=ranks)


def exchange_ms(gigabytes: float, nodes: int) -> float:
    """Returns the ms in which 16 H100s all-reduce so many GB, with a network port for each GPU of a node."""
    bandwidth = HARDWARE["h100"].bandwidth(16, stride=1, per_node=16 // nodes, world_size=16)
    return 1000 * gigabytes * GB * RING["all_reduce"](16) / bandwidth


def recipe(name: str) -> float:
    return bytes_per_parameter(RECIPES[name], ADAMW)


# The quantity: its value by the library, and the claims that state it, with the part of each: "" for a claim of one
# number, and the sum of all parts for "*".
Parts = Mapping[str, str]
QUANTITIES: dict[str, tuple[float, Parts]] = {
    "bytes per parameter, mixed precision": (
        recipe("mixed"),
        {
            "errata-bytes-per-parameter": "mixed",
            "bytes-per-parameter": "mixed",
            "mixed-adamw-16-bytes": "*",
            "lab-01-bytes-per-parameter": "mixed",
            "six-bytes-are-weights": "all",
        },
    ),
    "bytes per parameter, fp32": (
        recipe("fp32"),
        {
            "errata-bytes-per-parameter": "fp32",
            "bytes-per-parameter": "fp32",
            "fp32-adamw-16-bytes": "",
            "lab-01-bytes-per-parameter": "fp32",
        },
    ),
    "bytes per parameter, fp32 gradients": (
        recipe("mixed-fp32-grad"),
        {"errata-bytes-per-parameter": "fp32 gradients", "bytes-per-parameter": "mixed-fp32-grad"},
    ),
    "bytes per parameter, gradients summed in fp32": (
        recipe("mixed-fp32-accum"),
        {
            "errata-bytes-per-parameter": "fp32 sums",
            "bytes-per-parameter": "mixed-fp32-accum",
            "fp32-accumulation-20-bytes": "*",
        },
    ),
    "bytes per parameter, weights and masters": (
        MIXED.weight + MIXED.master,
        {"errata-bytes-per-parameter": "mixed, weights and masters", "six-bytes-are-weights": "weights and masters"},
    ),
    "ring of 4, vectors sent": (
        RING["all_reduce"](4),
        {
            "ring-sends": "K = 4: bytes",
            "all-reduce-on-the-wire": "K = 4",
            "gloo-bytes-on-the-wire": "all-reduce",
            "lab-07-ring-bytes": "4 ranks",
        },
    ),
    "ring of 8, GB sent of 14": (14 * RING["all_reduce"](8), {"errata-ring-all-reduce": "payload, 8 ranks"}),
    "ring of 16, GB sent of 14": (14 * RING["all_reduce"](16), {"errata-ring-all-reduce": "payload, 16 ranks"}),
    "14 GB on 16 ranks of two full nodes, ms": (
        exchange_ms(14, nodes=2),
        {"errata-exchange-time": "16-bit, 2 full nodes"},
    ),
    "14 GB on 16 ranks, one per node, ms": (exchange_ms(14, nodes=16), {"errata-exchange-time": "16-bit, 16 nodes"}),
    "ZeRO-1 on 64 ranks": (
        saved(1, 64),
        {"errata-zero-at-64-ranks": "ZeRO-1, 64 ranks", "zero-4x-and-8x": "stage 1"},
    ),
    "ZeRO-2 on 64 ranks": (
        saved(2, 64),
        {"errata-zero-at-64-ranks": "ZeRO-2, 64 ranks", "zero-4x-and-8x": "stage 2"},
    ),
    "ZeRO-1 on 4 ranks": (saved(1, 4), {"errata-zero-at-64-ranks": "ZeRO-1, 4 ranks", "lab-01-zero-1": ""}),
    "ZeRO-1 on 4 ranks, bytes per parameter": (16 / saved(1, 4), {"zero-held-on-real-ranks": "4 ranks, stage 1"}),
    "peak of 64 GPT blocks in 8 segments": (peak_of_lengths(even(64, 8), 16), {"recompute-segments-of-a-gpt": "8"}),
    "peak of 64 GPT blocks in 32 segments": (peak_of_lengths(even(64, 32), 16), {"recompute-segments-of-a-gpt": "32"}),
    "lowest peak of 64 GPT blocks": (
        peak_of_lengths(lengths_of_lowest_peak(64, 16), 16),
        {"recompute-segments-of-a-gpt": "unequal"},
    ),
    "first loss over 96 characters": (
        math.log(96),
        {"untrained-loss-near-ln-v": "V 96", "lab-02-first-loss": "first loss", "clinic-first-losses": "ln 96"},
    ),
    "7B in fp32, GB": (7 * recipe("fp32"), {"errata-7b-in-fp32": "7e9 parameters", "seven-billion": "7B fp32"}),
    "averages of 7B, GB": (7 * AVERAGES, {"errata-7b-adam-state": "m and v", "adam-state-7b": "m and v"}),
    "averages and masters of 7B, GB": (
        7 * (AVERAGES + MIXED.master),
        {
            "errata-7b-adam-state": "m, v and master weights",
            "adam-state-7b": "with masters",
            "offload-optimizer": "freed",
        },
    ),
    "7B with ZeRO-1 on 8 ranks, GB": (
        states_per_rank(7, MIXED, ADAMW, zero=1, ranks=8),
        {"errata-7b-on-8-ranks": "ZeRO-1"},
    ),
}
# Claims that state one quantity without a formula: each number, within its tolerance, is the first one's.
MEASURED: dict[str, Parts] = {
    "first loss of Lab 02": {"lab-02-first-loss": "first loss", "clinic-first-losses": "healthy"},
    "recomputation of GPT-2's blocks, % more FLOPs": {
        "gpt2-recompute-flops": "whole block",
        "errata-checkpointing-flops": "blocks",
    },
    "the same with the early stop": {
        "gpt2-recompute-flops": "early stop",
        "errata-checkpointing-flops": "blocks, early stop",
    },
    "share of activations at B 12, T 64": {"activation-share": "B 12, T 64", "errata-activation-share": "B 12, T 64"},
    "draws of ten samples on four ranks": {"input-sampler-pads": "given", "errata-sampler-repeats": "draws"},
    "compilations for six lengths": {"compile-lengths": "by default", "errata-recompilations": "by default"},
    "gradient of 24 and 8 sequences, % off": {
        "unequal-ranks": "plain",
        "errata-accumulation-breaks": "24 and 8 sequences",
    },
    "backward over forward of a classifier": {
        "first-layer-skips-dx": "backward / forward",
        "errata-backward-twice-forward": "MLP 784-256-10",
    },
    "cache of 4,096 tokens, GiB": {"kv-cache-4096": "", "lab-01-kv-cache": ""},
}


def stated(slug: str, part: str) -> float:
    """Returns the number that a claim expects."""
    expected = all_claims()[slug].expected
    if isinstance(expected, Mapping):
        return sum(expected.values()) if part == "*" else float(expected[part])
    return float(expected)


def differing(value: float, parts: Parts, rounding: float = 0.0) -> dict[str, float]:
    """Returns the claims' numbers that are farther from `value` than their tolerance, by the claims' slugs."""
    numbers = {slug: stated(slug, part) for slug, part in parts.items()}
    return {
        slug: number
        for slug, number in numbers.items()
        if not math.isclose(number, value, rel_tol=1e-9, abs_tol=all_claims()[slug].tolerance + rounding)
    }


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_claims_of_several_pages_agree_with_the_formula(quantity: str) -> None:
    value, parts = QUANTITIES[quantity]
    assert differing(value, parts) == {}, f"the library says {value:g}"


@pytest.mark.parametrize("quantity", MEASURED)
def test_claims_of_several_pages_agree_with_each_other(quantity: str) -> None:
    (slug, part), *_ = MEASURED[quantity].items()
    assert differing(stated(slug, part), MEASURED[quantity], rounding=all_claims()[slug].tolerance) == {}
