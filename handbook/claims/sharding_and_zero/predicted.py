"""Claims of handbook/sharding-and-zero.md that follow from formulas and from the planner."""

from collections.abc import Mapping

from rankzero.claims.claim import claim
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.plan import make_plan
from rankzero.ledger.predict import states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

from .shared import ZERO_PAPER

MIXED, ADAMW = RECIPES["mixed"], OPTIMIZERS["adamw"]


@claim(
    "sharding-speeds-up-the-update",
    "GPT-2 on 64 H100s, 1,024 tokens per rank: the plan's MFU is {expected[DDP]} % with DDP, {expected[ZeRO-1]} % with "
    "ZeRO-1 and {expected[fully_shard]} % with fully_shard, because DDP updates all weights on every rank.",
    expected={
        "DDP": 31.0,
        "ZeRO-1": 36.9,
        "fully_shard": 48.9,
        "DDP, 8,192 tokens": 46.6,
        "fully_shard, 8,192 tokens": 49.9,
    },
    tolerance=0.05,
    unit="% MFU, planned",
)
def sharding_speeds_up_the_update() -> Mapping[str, float]:
    """Plans the step with the planner's assumption that products alone reach half of the peak."""
    names = {"DDP": 0, "ZeRO-1": 1, "fully_shard": 3}
    found = {name: make_plan("gpt2", Layout(data=64, zero=zero)).estimate.mfu for name, zero in names.items()}
    for name in ("DDP", "fully_shard"):
        large = make_plan("gpt2", Layout(data=64, zero=names[name]), batch_size=8)
        found[f"{name}, 8,192 tokens"] = large.estimate.mfu
    return {name: 100 * mfu for name, mfu in found.items()}


@claim(
    "tokens-that-hide-a-gather",
    "At half of an H100's peak a block computes as long as its bf16 gather takes from {expected[NVLink]:,} tokens per "
    "rank on within a node (NVLink), from {expected[full nodes]:,} between full nodes of 8 (8 ports) and from "
    "{expected[one port]:,} with one rank per node (one port).",
    expected={"NVLink": 1_099, "full nodes": 1_236, "one port": 9_890, "full nodes, fp32 reduction": 1_854},
    tolerance=0.5,
    unit="tokens per rank",
)
def tokens_that_hide_a_gather() -> Mapping[str, float]:
    """Divides half of the peak by the bytes per second of a group; backward sends 2 + 4 bytes for 4 FLOPs if fp32."""
    h100 = HARDWARE["h100"]
    rate = h100.flops(2, autocast=False) / 2
    full_nodes = rate / h100.bandwidth(ranks=64, stride=1, per_node=8, world_size=64)
    return {
        "NVLink": rate / h100.bandwidth(ranks=8, stride=1, per_node=8, world_size=8),
        "full nodes": full_nodes,
        "one port": rate / h100.bandwidth(ranks=8, stride=1, per_node=1, world_size=8),
        "full nodes, fp32 reduction": full_nodes * 6 / 4,
    }


@claim(
    "sharding-problem-answers",
    "7 billion parameters beside 4 GB of activations fit into 24 GB from {expected[ZeRO-2 ranks]} ranks on with ZeRO-2 "
    "and from {expected[ZeRO-3 ranks]} with ZeRO-3. GPT-2's root holds {expected[root share]} of its parameters.",
    expected={
        "ZeRO-1 at best": 28,
        "ZeRO-2 ranks": 17,
        "ZeRO-3 ranks": 6,
        "root share": 0.317,
        "reshard, 4 micro-batches": 168,
        "no sync": 126,
        "ZeRO-1": 28,
        "padding of 769 rows on 768": 1.997,
    },
    tolerance=0.001,
    unit="as named: GB, ranks, share of the parameters, GB times (N-1)/N, times the bytes",
    source=ZERO_PAPER,
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers of the chapter's problems from states per rank, a preset's sizes, and counts of bytes."""

    def ranks_needed(zero: int) -> int:
        held = (
            (ranks, states_per_rank(7e9, MIXED, ADAMW, zero=zero, ranks=ranks) + 4e9 <= 24e9) for ranks in range(1, 99)
        )
        return next(ranks for ranks, fits in held if fits)

    gpt2 = PRESETS["gpt2"]
    blocks = gpt2.n_layer * (12 * gpt2.hidden_dim**2 + 2 * gpt2.hidden_dim)
    model, micro_batches = 14, 4
    return {
        "ZeRO-1 at best": states_per_rank(7e9, MIXED, ADAMW, zero=1, ranks=10**9) / 1e9,
        "ZeRO-2 ranks": ranks_needed(2),
        "ZeRO-3 ranks": ranks_needed(3),
        "root share": 1 - blocks / parameter_count(gpt2),
        "reshard, 4 micro-batches": 3 * micro_batches * model,
        "no sync": (2 * micro_batches + 1) * model,
        "ZeRO-1": 2 * model,
        "padding of 769 rows on 768": 768 * 2 / 769,
    }
