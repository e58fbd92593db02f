"""Claims of handbook/errata.md, section *Distributed*."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.optim import SGD, AdamW
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.fake_ranks import one_of
from rankzero.claims.toolkit.gradients import flat, gradient, gradient_of, off_by
from rankzero.claims.toolkit.lab_model import SHAPE, TINY, next_token_loss, seeded_gpt
from rankzero.learn.models.gpt import GPT
from rankzero.ledger.measure import storage_bytes

from .shared import GB


def ring_all_reduce(ranks: list[Tensor]) -> int:
    """Sums the ranks' vectors, in place, by passing chunks around a ring; returns the bytes that rank 0 sends."""
    n = len(ranks)
    chunks = [rank.chunk(n) for rank in ranks]  # chunks[rank][i] is a view of the rank's vector
    sent = 0
    for step in range(2 * (n - 1)):
        # Each rank passes on the chunk it received last. After n - 1 steps it owns one complete sum; then sums travel.
        moving = [chunks[rank][(rank - step) % n].clone() for rank in range(n)]
        sent += moving[0].nbytes
        for rank in range(n):
            target = chunks[rank][(rank - 1 - step) % n]
            if step < n - 1:
                target += moving[rank - 1]
            else:
                target.copy_(moving[rank - 1])
    return sent


def sent_in_a_ring(payload: float, n: int) -> float:
    """Returns the bytes that a rank sends to all-reduce `payload`, counted in a small ring whose sum is checked."""
    torch.manual_seed(0)
    ranks = [torch.randn(n * 16, dtype=torch.float64) for _ in range(n)]
    total = torch.stack(ranks).sum(0)
    sent = ring_all_reduce(ranks)
    assert all(torch.allclose(rank, total) for rank in ranks)
    return payload * sent / ranks[0].nbytes


@claim(
    "errata-ring-all-reduce",
    "A ring all-reduce of n ranks sends 2(n-1)/n times the payload: {expected[payload, 8 ranks]} GB for the "
    "{expected[payload, 7e9 gradients of 2 B]} GB of a 7B model in 16 bits.",
    expected={
        "payload, 7e9 gradients of 2 B": 14,
        "payload, 8 ranks": 24.5,
        "payload, 16 ranks": 26.25,
        "7e9 gradients of 4 B, 16 ranks": 52.5,
        "350e6 of 4 B, 4 ranks": 2.1,
    },
    unit="GB per rank",
    source="[NCCL tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)",
)
def ring_all_reduce_bytes() -> Mapping[str, float]:
    """Passes chunks around rings of vectors, checks the sums, counts the bytes sent, scales them up."""
    payload = 7e9 * torch.empty((), dtype=torch.bfloat16).element_size()
    return {
        "payload, 7e9 gradients of 2 B": payload / GB,
        "payload, 8 ranks": sent_in_a_ring(payload, 8) / GB,
        "payload, 16 ranks": sent_in_a_ring(payload, 16) / GB,
        "7e9 gradients of 4 B, 16 ranks": sent_in_a_ring(2 * payload, 16) / GB,
        "350e6 of 4 B, 4 ranks": sent_in_a_ring(350e6 * 4, 4) / GB,
    }


def bytes_of_rank_0(stage: int, ranks: int) -> int:
    """Trains Lab 02's model in bf16 with fp32 masters, its state cut into flat shards; counts what one rank holds."""
    torch.manual_seed(0)
    model = GPT(SHAPE).bfloat16()
    F.cross_entropy(model(torch.randint(96, (2, 8))).flatten(0, 1), torch.randint(96, (16,))).backward()
    gradients = gradient_of(model)
    shard = gradients.numel() // ranks if stage else gradients.numel()
    master = nn.Parameter(flat(list(model.parameters()))[:shard].float())
    optimizer = AdamW([master])
    master.grad = gradients[:shard].float()
    optimizer.step()
    master.grad = None
    held = gradients[:shard].clone() if stage == 2 else gradients
    averages = [optimizer.state[master][name] for name in ("exp_avg", "exp_avg_sq")]
    return storage_bytes([*model.parameters(), held, master, *averages])


@claim(
    "errata-zero-at-64-ranks",
    "ZeRO-1 saves {expected[ZeRO-1, 64 ranks]} times and ZeRO-2 {expected[ZeRO-2, 64 ranks]} times at 64 ranks; 4 "
    "and 8 are their limits.",
    expected={"ZeRO-1, 64 ranks": 3.82, "ZeRO-2, 64 ranks": 7.21, "ZeRO-1, 4 ranks": 2.29, "ZeRO-2, 4 ranks": 2.91},
    unit="times less",
    tolerance=0.005,
    source="[ZeRO](https://arxiv.org/abs/1910.02054)",
)
def zero_at_64_ranks() -> Mapping[str, float]:
    """Shards the state of Lab 02's model (808,064 parameters, a multiple of 64) and counts the tensors of a rank."""
    whole = bytes_of_rank_0(stage=0, ranks=1)
    return {
        f"ZeRO-{stage}, {ranks} ranks": whole / bytes_of_rank_0(stage, ranks) for ranks in (64, 4) for stage in (1, 2)
    }


@claim(
    "errata-7b-on-8-ranks",
    "ZeRO-1 divides the 84 GB of a 7B model's optimizer state by 8. A rank holds {expected[ZeRO-1]} GB all the same, "
    "because weights and gradients stay whole.",
    expected={"ZeRO-1": 38.5, "ZeRO-2": 26.25},
    unit="GB per rank",
    tolerance=0.01,
    source="[ZeRO](https://arxiv.org/abs/1910.02054)",
)
def seven_billion_on_8_ranks() -> Mapping[str, float]:
    """Shards the state of Lab 02's model over 8 ranks, counts the tensors of a rank per parameter, times 7e9."""
    parameters = sum(parameter.numel() for parameter in GPT(SHAPE).parameters())
    return {f"ZeRO-{stage}": 7e9 * bytes_of_rank_0(stage, 8) / parameters / GB for stage in (1, 2)}


@claim(
    "errata-bytes-per-work",
    "From 8 to 64 ranks a ring sends {expected[same global batch]} times the bytes per FLOP if the global batch stays, "
    "and {expected[same batch per rank]} times if the batch per rank stays.",
    expected={"same global batch": 9, "same batch per rank": 1.125},
    unit="times the bytes per FLOP",
)
def bytes_per_work() -> Mapping[str, float]:
    """Counts the bytes that a rank sends in rings of 8 and 64, over the share of the work that a rank computes."""
    few, many = sent_in_a_ring(1, 8), sent_in_a_ring(1, 64)
    return {"same global batch": (many * 64) / (few * 8), "same batch per rank": many / few}


@claim(
    "errata-fsdp-gathers",
    "fully_shard gathers 4 blocks twice a step, {expected[reshard: all-gathers]} all-gathers; without resharding "
    "after forward once, 4.",
    expected={
        "reshard: all-gathers": 8,
        "reshard: reduce-scatters": 4,
        "keep: all-gathers": 4,
        "keep: reduce-scatters": 4,
    },
    unit="collectives",
)
def fsdp_gathers() -> Mapping[str, float]:
    """Runs forward and backward eagerly, on fake tensors, as one of 64 fake ranks, and counts the collectives."""
    measured = {}
    with one_of(64) as mesh:
        for name, reshard in (("reshard", True), ("keep", False)):
            with FakeTensorMode(), CommDebugMode() as collectives:
                model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
                for block in model:
                    fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
                model(torch.randn(8, 256)).sum().backward()
            counts = {str(kind): count for kind, count in collectives.get_comm_counts().items()}
            measured[f"{name}: all-gathers"] = sum(n for kind, n in counts.items() if "allgather" in kind)
            measured[f"{name}: reduce-scatters"] = sum(n for kind, n in counts.items() if "reduce_scatter" in kind)
    return measured


@claim(
    "errata-fsdp2-hooks",
    "fully_shard puts hooks before and after a module's forward and turns its parameters into DTensors.",
    expected=True,
    unit="",
)
def fsdp2_hooks() -> bool:
    """Shards a layer over 64 fake ranks and looks at it."""
    with one_of(64) as mesh, FakeTensorMode():
        layer = nn.Linear(256, 256)
        assert not layer._forward_pre_hooks
        assert not layer._forward_hooks
        fully_shard(layer, mesh=mesh)
        sharded = all(isinstance(parameter, DTensor) for parameter in layer.parameters())
        return sharded and bool(layer._forward_pre_hooks) and bool(layer._forward_hooks)


@claim(
    "errata-sampler-repeats",
    "DistributedSampler hands {expected[different samples]} samples to 4 ranks as {expected[draws]} draws: two "
    "samples are seen twice.",
    expected={"draws": 12, "different samples": 10},
    unit="samples",
)
def sampler_repeats() -> Mapping[str, float]:
    """Makes the sampler of each rank with its defaults and counts the indices that they give."""
    data = TensorDataset(torch.arange(10))
    draws: list[int] = []
    for rank in range(4):
        draws += DistributedSampler(data, num_replicas=4, rank=rank)
    return {"draws": len(draws), "different samples": len(set(draws))}


Make = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]


def moved(make: Make, rate: float, parts: int) -> Tensor:
    """Returns the way of a tiny GPT's weights in `parts` updates at `rate`, one for each part of 32 sequences."""
    model, starts = seeded_gpt(TINY)
    tokens = (starts[:, :1] + 3 * torch.arange(TINY.block_size + 1)) % TINY.vocab_size  # each 3 more than the last
    start = flat(list(model.parameters()))
    optimizer = make(list(model.parameters()), rate)
    for part in tokens.chunk(parts):
        gradient(model, lambda part=part: next_token_loss(model, part))  # type: ignore[misc]
        optimizer.step()
    return flat(list(model.parameters())) - start


def scaling_error(make: Make, rate: float) -> float:
    """In %: one step of 8 times the batch and the rate, against the 8 small steps."""
    return 100 * off_by(moved(make, 8 * rate, parts=1), moved(make, rate, parts=8))


@claim(
    "errata-linear-scaling",
    "One step at 8 times the batch and rate is not 8 steps: SGD's error vanishes with the rate, AdamW's does not.",
    expected={"SGD, rate 0.1": 62.8, "SGD, rate 0.001": 0.9, "AdamW, rate 1e-3": 100.8, "AdamW, rate 1e-5": 87},
    unit="% of the way moved",
    tolerance=0.1,
)
def linear_scaling() -> Mapping[str, float]:
    """Trains a tiny GPT in fp64 both ways from the same weights on the same 32 sequences that count
    up by 3, and compares where it ends."""

    def adamw(parameters: list[nn.Parameter], rate: float) -> AdamW:
        return AdamW(parameters, lr=rate, weight_decay=0)

    return {
        "SGD, rate 0.1": scaling_error(lambda p, rate: SGD(p, lr=rate), 0.1),
        "SGD, rate 0.001": scaling_error(lambda p, rate: SGD(p, lr=rate), 0.001),
        "AdamW, rate 1e-3": scaling_error(adamw, 1e-3),
        "AdamW, rate 1e-5": scaling_error(adamw, 1e-5),
    }
