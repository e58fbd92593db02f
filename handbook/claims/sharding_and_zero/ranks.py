"""Claims of handbook/sharding-and-zero.md that are measured on real ranks: processes that talk over gloo."""

import functools
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import next_token_loss
from rankzero.learn.distributed.world import WorldError, run_world
from rankzero.learn.models.gpt import GPT

from .on_ranks import (
    SMALL,
    all_stages,
    drop_another_layer,
    load,
    norms,
    reduced_under_autocast,
    redundancy_optimizer,
    ring_volumes,
    save,
    shares,
    skip_a_block,
    tokens_of,
    trained,
    trained_both_ways,
    two_halves,
)
from .shared import ZERO_PAPER


# ------------------------------------------------------------------------------------------------------ ZeRO by hand
@functools.cache
def stages_on(ranks: int) -> list[tuple[list[float], list[Tensor], list[dict[str, float]]]]:
    """Returns the values of `all_stages` on each of so many real ranks."""
    return run_world(all_stages, ranks, 2)


@claim(
    "zero-held-on-real-ranks",
    "ZeRO 0 to 3 hold 16, {expected[2 ranks, stage 1]}, {expected[2 ranks, stage 2]} and "
    "{expected[2 ranks, stage 3]} bytes per parameter on each of 2 ranks, and 16, {expected[4 ranks, stage 1]}, "
    "{expected[4 ranks, stage 2]} and 4 on each of 4.",
    expected={
        "2 ranks, stage 0": 16,
        "2 ranks, stage 1": 10,
        "2 ranks, stage 2": 9,
        "2 ranks, stage 3": 8,
        "4 ranks, stage 0": 16,
        "4 ranks, stage 1": 7,
        "4 ranks, stage 2": 5.5,
        "4 ranks, stage 3": 4,
    },
    unit="B per parameter",
    source=ZERO_PAPER,
)
def held_on_real_ranks() -> Mapping[str, float]:
    """Trains a small GPT for two steps by a ZeRO of 40 lines, in 2 and 4 processes; adds up the tensors each holds."""
    measured: dict[str, float] = {}
    for ranks in (2, 4):
        by_rank = [held for held, _, _ in stages_on(ranks)]
        assert all(held == by_rank[0] for held in by_rank)
        measured |= {f"{ranks} ranks, stage {stage}": held for stage, held in enumerate(by_rank[0])}
    return measured


@claim(
    "zero-stages-same-weights",
    "After two steps on 2 ranks no weight differs between ZeRO's stages, nor between ranks.",
    expected=0,
    unit="weights of 28,320",
)
def stages_agree() -> int:
    """Compares all weights of three stages and two ranks with those of plain data parallelism, bit by bit."""
    vectors = [vector for _, weights, _ in stages_on(2) for vector in weights]
    return max(int((vector != vectors[0]).sum()) for vector in vectors)


@claim(
    "zero-bytes-in-collectives",
    "ZeRO-1 and 2 reduce-scatter 2 bytes per parameter and all-gather 2, where plain data parallelism all-reduces 2.",
    expected={
        "stage 0: all_reduce": 2,
        "stage 1: reduce_scatter": 2,
        "stage 1: all_gather": 2,
        "stage 2: reduce_scatter": 2,
        "stage 2: all_gather": 2,
    },
    unit="B per parameter",
    source=ZERO_PAPER,
)
def bytes_in_collectives() -> Mapping[str, float]:
    """Counts what a step of the ZeRO by hand gives to the process group on 4 real ranks."""
    sent = stages_on(4)[0][2][:3]
    return {f"stage {stage}: {name}": size for stage, sizes in enumerate(sent) for name, size in sizes.items()}


# ------------------------------------------------------------------------------------------------------ on the wire
@functools.cache
def halves_on_4() -> list[tuple[float, dict[str, float]]]:
    """Returns the values of `two_halves` on 4 real ranks; the check of the calls, which sends bytes too, is off."""
    return run_world(two_halves, 4, debug=False)


@claim(
    "gloo-bytes-on-the-wire",
    "On 4 ranks gloo's all-reduce sends 2(N-1)/N, its all-gather (N-1)/N, its reduce-scatter as much as an all-reduce.",
    expected={"all-reduce": 1.5, "reduce-scatter": 1.5, "all-gather": 0.75},
    tolerance=0.01,  # headers, and the barrier
    unit="times the payload",
    source="[NCCL tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)",
)
def bytes_on_the_wire() -> Mapping[str, float]:
    """Asks the kernel how many bytes the sockets of a rank sent per collective of 4 MiB; the median of the ranks."""
    by_rank = [sent for _, sent in halves_on_4()]
    return {name: statistics.median(sent[name] for sent in by_rank) for name in by_rank[0]}


@claim(
    "all-reduce-is-two-halves",
    "Reduce-scatter, then all-gather, gives what all-reduce gives.",
    expected=0,
    tolerance=1e-6,  # the order of the sums
    unit="of the largest sum",
)
def all_reduce_is_two_halves() -> float:
    """Sums random vectors of 4 ranks both ways and takes the largest difference."""
    return max(off for off, _ in halves_on_4())


@claim(
    "three-against-two",
    "fully_shard with resharding sends {expected[reshard]} times the model where DDP sends 2; without resharding 2.",
    expected={"DDP": 2, "keep": 2, "reshard": 3},
    unit="times the model, times (N-1)/N",
    source=ZERO_PAPER,
)
def three_against_two() -> Mapping[str, float]:
    """Counts the collectives of a step of eight layers on 2 real ranks; an all-reduce twice, as a ring sends it."""
    return run_world(ring_volumes, 2)[0]


@claim(
    "ddp-under-autocast",
    "Under autocast DDP all-reduces fp32 gradients: {expected} bytes per parameter, which a ring sends twice.",
    expected=4,
    unit="B per parameter",
)
def ddp_under_autocast() -> float:
    """Counts the all-reduces of a step of eight layers on 2 real ranks, with forward under autocast to bf16."""
    return run_world(reduced_under_autocast, 2)[0]


# -------------------------------------------------------------------------------------------- fully_shard, for real
@claim(
    "fully-shard-shares",
    "fully_shard leaves a rank exactly 4/N bytes of weights, 4/N of gradients and 8/N of averages per parameter.",
    expected={
        "2 ranks: weights": 2,
        "2 ranks: gradients": 2,
        "2 ranks: averages": 4,
        "4 ranks: weights": 1,
        "4 ranks: gradients": 1,
        "4 ranks: averages": 2,
    },
    unit="B per parameter",
)
def fully_shard_shares() -> Mapping[str, float]:
    """Trains Lab 02's GPT for a step in 2 and 4 processes and adds up each rank's storages."""
    measured: dict[str, float] = {}
    for ranks in (2, 4):
        by_rank = run_world(shares, ranks)
        assert all(rank == by_rank[0] for rank in by_rank)
        names = ("weights", "gradients", "averages")
        measured |= {f"{ranks} ranks: {name}": size for name, size in zip(names, by_rank[0], strict=True)}
    return measured


@claim(
    "sharded-is-ddp-is-one",
    "Three steps of AdamW end at the same weights in one process, with DDP and with fully_shard on 2 ranks.",
    expected={"DDP": 0, "fully_shard": 0},
    tolerance=1e-12,
    unit="largest difference of a weight",
)
def sharded_is_ddp() -> Mapping[str, float]:
    """Trains a small GPT in fp64 on the same 8 sequences all three ways."""
    alone = trained("no ranks", 0, 1)
    return {name: float((end - alone).abs().max()) for name, end in run_world(trained_both_ways, 2)[0].items()}


@claim(
    "norm-over-shards",
    "The shards of a gradient on 2 ranks have norms of {expected[rank 0]:.2f} and {expected[rank 1]} of its own; "
    "squares must be all-reduced first.",
    expected={"rank 0": 0.70, "rank 1": 0.72, "by hand": 1, "torch": 1},
    tolerance=0.005,
    unit="of the norm",
)
def norm_over_shards() -> Mapping[str, float]:
    """Shards a small GPT over 2 real ranks and takes norms of the gradient; the whole one comes from one process."""
    torch.manual_seed(0)
    model = GPT(SMALL).double()
    next_token_loss(model, tokens_of(0, 1, SMALL)).backward()
    right = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    first, second = run_world(norms, 2)
    return {
        "rank 0": first["own"] / right,
        "rank 1": second["own"] / right,
        "by hand": first["by hand"] / right,
        "torch": second["torch"] / right,
    }


# --------------------------------------------------------------------------------------------------------- checkpoints
@functools.cache
def checkpointed() -> dict[str, float]:
    """Saves on 2 real ranks, loads on 3, and returns the numbers of both claims below."""
    with tempfile.TemporaryDirectory() as folder:
        saved = run_world(save, 2, folder)
        names = [path.name for path in Path(folder).iterdir()]
        loaded = run_world(load, 3, folder)
    before = saved[0][0]
    return {
        "files of shards": sum(name.endswith(".distcp") for name in names),
        "index": names.count(".metadata"),
        "tensors that differ": sum(not torch.equal(rank[name], before[name]) for rank in loaded for name in before),
        "rank 0": saved[0][1],
        "rank 1": saved[1][1],
    }


@claim(
    "saved-on-2-loaded-on-3",
    "A sharded checkpoint of 2 ranks is 2 files and an index; loaded on 3 ranks no weight and no average differs.",
    expected={"files of shards": 2, "index": 1, "tensors that differ": 0},
    unit="",
    source="[torch.distributed.checkpoint](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html)",
)
def saved_on_2_loaded_on_3() -> Mapping[str, float]:
    """Saves a small GPT and AdamW's state from 2 processes, loads them into 3, gathers both and compares the bits."""
    return {name: checkpointed()[name] for name in ("files of shards", "index", "tensors that differ")}


@claim(
    "full-state-on-rank-0",
    "A full state dict puts all weights on rank 0, the tied matrix twice, and nothing on rank 1.",
    expected={"rank 0": 4, "rank 1": 0},
    unit="B per parameter",
)
def full_state_on_rank_0() -> Mapping[str, float]:
    """Asks for it on 2 ranks and adds up the tensors; the second name of the tied matrix is taken off."""
    count, tied = SMALL.parameter_count(), 4 * SMALL.vocab_size * SMALL.hidden_dim
    return {"rank 0": (checkpointed()["rank 0"] - tied) / count, "rank 1": checkpointed()["rank 1"] / count}


# ------------------------------------------------------------------------------------------- ZeroRedundancyOptimizer
@claim(
    "zero-redundancy-optimizer",
    "ZeroRedundancyOptimizer assigns whole tensors: {expected[largest part]:.2f} of the state to one rank of 4. It "
    "broadcasts each of them.",
    expected={"largest part": 6 / 14, "all-reduced by DDP": 1, "broadcast": 1, "broadcasts": 9},
    tolerance=0.01,
    unit="of the model; broadcasts",
    source="[PyTorch](https://docs.pytorch.org/docs/stable/distributed.optim.html)",
)
def zero_redundancy_optimizer() -> Mapping[str, float]:
    """Trains a table and eight layers on 4 real ranks, with DDP; counts averages held and bytes handed to the group."""
    ranks = run_world(redundancy_optimizer, 4)
    _, sizes, broadcasts = ranks[0]
    return {
        "largest part": max(part for part, _, _ in ranks),
        "all-reduced by DDP": sizes["all_reduce"],
        "broadcast": sizes["broadcast"],
        "broadcasts": broadcasts,
    }


# ------------------------------------------------------------------------------------------------------------ failures
@claim(
    "rows-of-another-layer",
    "Two ranks that each skip a different layer compute with rows of other layers, without an error.",
    expected={"rank 0": 0.25, "rank 1": 0.25},
    unit="of the rows",
)
def rows_of_another_layer() -> Mapping[str, float]:
    """Runs layers 1 and 2 on rank 0, 0 and 2 on rank 1, and compares each gathered row with that of the layer."""
    results = run_world(drop_another_layer, 2, debug=True)
    return {f"rank {rank}": foreign / rows for rank, (foreign, rows) in enumerate(results)}


@claim(
    "skipped-block-is-named",
    "A rank that skips a block calls different collectives; with TORCH_DISTRIBUTED_DEBUG=DETAIL c10d names it.",
    expected=True,
    unit="",
)
def skipped_block_is_named() -> bool:
    """Lets one of 2 real ranks leave out a block, with c10d's check of calls, and reads the world's error."""
    try:
        run_world(skip_a_block, 2, debug=True)
    except WorldError as error:
        return "the ranks called different collectives" in str(error)
    return False
