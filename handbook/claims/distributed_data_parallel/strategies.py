"""Claims of handbook/distributed-data-parallel.md on averages, bytes and strategies, in worlds of real processes."""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import gradient, off_by
from rankzero.claims.toolkit.lab_model import TINY, next_token_loss, seeded_gpt
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.tcp_bytes import tcp_bytes_sent
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT

MIB = 2**20


# --------------------------------------------------------------------------------------------------------- the average
def averaged_gradient(part: Callable[[Tensor], Tensor]) -> Tensor:
    """DDP's gradient of a small GPT in float64, from the sequences that `part` takes of 32."""
    model, tokens = seeded_gpt(TINY)
    wrapped = DistributedDataParallel(model)
    return gradient(wrapped, lambda: next_token_loss(wrapped, part(tokens)))


def own_part(tokens: Tensor) -> Tensor:
    """This rank's of as many equal parts as there are ranks."""
    return tokens.chunk(dist.get_world_size())[dist.get_rank()]


@claim(
    "ranks-average-to-the-whole",
    "The average of 2 or 4 ranks' gradients, each of an equal part, is the gradient of one process on all sequences.",
    expected={"2 ranks": 0, "4 ranks": 0},
    tolerance=1e-12,
    unit="of the gradient's length",
)
def ranks_average() -> Mapping[str, float]:
    """Runs DDP on a small GPT in float64, and one process on the whole batch of 32; compares the gradients.

    The tolerance is rounding: float64 has 16 digits, and the ranks add in another order.
    """
    model, tokens = seeded_gpt(TINY)
    whole = gradient(model, lambda: next_token_loss(model, tokens))
    return {f"{ranks} ranks": off_by(run_world(averaged_gradient, ranks, own_part)[0], whole) for ranks in (2, 4)}


def unequal_gradient(weighted: bool) -> Tensor:
    """DDP's gradient where rank 0 has 24 of 32 sequences; weighted, each loss counts by its part of the tokens."""
    model, tokens = seeded_gpt(TINY)
    wrapped = DistributedDataParallel(model)
    part = tokens[:24] if dist.get_rank() == 0 else tokens[24:]
    count = torch.tensor(float(part[:, 1:].numel()))
    total = count.clone()
    dist.all_reduce(total)
    factor = (dist.get_world_size() * count / total).item() if weighted else 1.0
    return gradient(wrapped, lambda: next_token_loss(wrapped, part) * factor)


@claim(
    "unequal-ranks",
    "With 24 sequences on one rank and 8 on another, DDP's plain average is {expected[plain]} % off; weighted by "
    "tokens it is exact.",
    expected={"plain": 60, "weighted": 0},
    tolerance=0.5,
    unit="% of the gradient's length",
)
def unequal_ranks() -> Mapping[str, float]:
    """Compares both with the gradient of all 32 in one process. A rank's weight is ranks · its tokens / all tokens."""
    model, tokens = seeded_gpt(TINY)
    whole = gradient(model, lambda: next_token_loss(model, tokens))
    plain, weighted = run_world(lambda: (unequal_gradient(False), unequal_gradient(True)), 2)[0]
    return {"plain": 100 * off_by(plain, whole), "weighted": 100 * off_by(weighted, whole)}


def normed_net() -> tuple[nn.Module, Tensor, Tensor]:
    """A small classifier with BatchNorm in float64, 32 inputs and their classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).double()
    return model, torch.randn(32, 8, dtype=torch.float64), torch.randint(4, (32,))


def normed_gradient() -> Tensor:
    """DDP's gradient of the classifier, each rank with its part of the inputs."""
    model, x, y = normed_net()
    wrapped = DistributedDataParallel(model)
    return gradient(wrapped, lambda: F.cross_entropy(wrapped(own_part(x)), own_part(y)))


@claim(
    "batch-norm-by-rank",
    "With BatchNorm, 4 ranks of 8 examples are {expected} % off the gradient of 32 in one process.",
    expected=35,
    tolerance=0.5,
    unit="% of the gradient's length",
)
def batch_norm_by_rank() -> float:
    """Runs DDP on 4 ranks, whose BatchNorm sees 8 examples each, and one process on all 32."""
    model, x, y = normed_net()
    whole = gradient(model, lambda: F.cross_entropy(model(x), y))
    return 100 * off_by(run_world(normed_gradient, 4)[0], whole)


# ------------------------------------------------------------------------------------------------------------ the ring
def ring_all_reduce(x: Tensor) -> None:
    """Sums `x` over all ranks, in place, by sending chunks to the right neighbor. Its length divides by the ranks."""
    rank, K = dist.get_rank(), dist.get_world_size()
    chunks, arrived = x.chunk(K), torch.empty_like(x[: len(x) // K])
    for step in range(2 * (K - 1)):
        sending, receiving = (rank - step) % K, (rank - step - 1) % K
        request = dist.isend(chunks[sending], (rank + 1) % K)  # both send first: a plain send could wait forever
        dist.recv(arrived, (rank - 1) % K)
        assert request is not None
        request.wait()
        if step < K - 1:
            chunks[receiving].add_(arrived)
        else:
            chunks[receiving].copy_(arrived)


def ring_sends() -> tuple[float, float, float]:
    """Messages and bytes that this rank sends to sum a vector, and how far the sum is off."""
    torch.manual_seed(dist.get_rank())
    x = torch.randn(12 * 100, dtype=torch.float64)
    total = x.clone()
    dist.all_reduce(total)
    with CollectiveCounter() as counted:
        ring_all_reduce(x)
    return counted.calls["send"], counted.bytes["send"] / x.nbytes, off_by(x, total)


@claim(
    "ring-sends",
    "In a ring of K each rank sends 2(K − 1) messages, together 2(K − 1)/K of the vector: 1, "
    "{expected[K = 3: bytes]:.2f} and {expected[K = 4: bytes]} of it.",
    expected={
        "K = 2: messages": 2,
        "K = 2: bytes": 1,
        "K = 3: messages": 4,
        "K = 3: bytes": 4 / 3,
        "K = 4: messages": 6,
        "K = 4: bytes": 1.5,
        "sums that differ": 0,
    },
    unit="messages, or times the vector",
    source="[NCCL tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)",
)
def sends_in_a_ring() -> Mapping[str, float]:
    """Sums random vectors of real ranks with a ring written in send and receive; counts what each rank sends."""
    measured: dict[str, float] = {}
    differ = 0
    for K in (2, 3, 4):
        answers = run_world(ring_sends, K)
        measured[f"K = {K}: messages"] = max(messages for messages, _, _ in answers)
        measured[f"K = {K}: bytes"] = max(part for _, part, _ in answers)
        differ += sum(off > 1e-12 for _, _, off in answers)
    return {**measured, "sums that differ": differ}


def all_reduce_on_the_wire() -> float:
    """TCP bytes that this rank sends for an all-reduce of 4 MiB, in vectors."""
    x = torch.ones(MIB)
    counts = []
    for _ in range(2):  # the first opens connections
        dist.all_reduce(x)
        dist.barrier()  # every rank has received everything, so the kernel has sent everything
        counts.append(tcp_bytes_sent())
    return (counts[1] - counts[0]) / x.nbytes


@claim(
    "all-reduce-on-the-wire",
    "PyTorch's own all-reduce over gloo sends 2(K − 1)/K of the vector too: 1, {expected[K = 3]:.2f} and "
    "{expected[K = 4]} of it.",
    expected={"K = 2": 1, "K = 3": 4 / 3, "K = 4": 1.5},
    tolerance=0.01,
    unit="times the vector",
)
def wire() -> Mapping[str, float]:
    """Reads from the kernel what the TCP sockets of each rank have sent, before and after; takes the largest.

    The tolerance leaves room for headers of messages and for a barrier.
    """
    return {f"K = {K}": max(run_world(all_reduce_on_the_wire, K)) for K in (2, 3, 4)}


# ------------------------------------------------------------------------------------------------- what strategies send
class Copy(torch.autograd.Function):
    """Hands its input to a column-split layer; backward sums the ranks' gradients."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        """The same tensor."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> Tensor:
        """All-reduces."""
        dy = dy.contiguous()
        dist.all_reduce(dy)
        return dy


class Sum(torch.autograd.Function):
    """Sums the ranks' parts of a row-split layer's output."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        """All-reduces."""
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> Tensor:
        """The same gradient."""
        return dy


Pass = Callable[[Tensor], Tensor]


def split_layer() -> tuple[dict[str, float], float]:
    """A layer of attention and MLP, its heads and hidden units split over the ranks: what it sends, how far it is off.

    A block of a Transformer without norms: [B, T, C] in and out, two heads a rank.
    """
    rank, ranks, B, T, C, heads = dist.get_rank(), dist.get_world_size(), 2, 8, 32, 4
    torch.manual_seed(0)
    x = torch.randn(B, T, C, dtype=torch.float64, requires_grad=True)
    q, k, v, out = (torch.randn(C, C, dtype=torch.float64) / C**0.5 for _ in range(4))
    up, down = (torch.randn(shape, dtype=torch.float64) / C**0.5 for shape in ((C, 4 * C), (4 * C, C)))

    def layer(x: Tensor, heads: int, weights: list[Tensor], enter: Pass, leave: Pass) -> Tensor:
        q, k, v, out, up, down = weights
        h = enter(x)
        Q, K, V = ((h @ w).view(B, T, heads, -1).transpose(1, 2) for w in (q, k, v))
        attended = F.scaled_dot_product_attention(Q, K, V, is_causal=True).transpose(1, 2).flatten(2)
        x = x + leave(attended @ out)
        return x + leave(F.gelu(enter(x) @ up) @ down)

    def same(x: Tensor) -> Tensor:
        return x

    weights = [q, k, v, out, up, down]
    shards = [w.chunk(ranks, dim=dim)[rank] for w, dim in zip(weights, (1, 1, 1, 0, 1, 0), strict=True)]
    (whole,) = torch.autograd.grad(layer(x, heads, weights, same, same).square().sum(), x)
    with CollectiveCounter() as counted:
        (split,) = torch.autograd.grad(layer(x, heads // ranks, shards, Copy.apply, Sum.apply).square().sum(), x)
    sent = {"calls": counted.calls["all_reduce"], "tensors": counted.bytes["all_reduce"] / x.nbytes}
    return sent, off_by(split, whole)


@claim(
    "tensor-parallel-layer",
    "A layer split by heads and hidden units all-reduces its [B, T, C] activations 4 times: twice in forward and twice "
    "in backward.",
    expected={"all-reduces": 4, "activations summed": 4},
    unit="per layer",
    source="[Shoeybi et al.](https://arxiv.org/abs/1909.08053), section 3",
)
def tensor_parallel_layer() -> Mapping[str, float]:
    """Runs a small layer, forward and backward, whole and on two ranks; compares, and counts the all-reduces."""
    sent, off = run_world(split_layer, 2)[0]
    assert off < 1e-12
    return {"all-reduces": sent["calls"], "activations summed": sent["tensors"]}


def gradient_bytes(recipe: str) -> float:
    """Bytes per parameter that DDP all-reduces in a step."""
    torch.manual_seed(0)
    model = GPT(TINY)
    wrapped = DistributedDataParallel(model.bfloat16() if recipe == "bf16 weights" else model)
    if recipe == "autocast, fp16 hook":
        wrapped.register_comm_hook(None, fp16_compress_hook)
    tokens = torch.randint(TINY.vocab_size, (4, TINY.block_size + 1))
    with CollectiveCounter() as counted:
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.startswith("autocast")):
            loss = next_token_loss(wrapped, tokens)
        loss.backward()
    return counted.bytes["all_reduce"] / TINY.parameter_count()


@claim(
    "gradients-on-the-wire-dtype",
    "DDP sends gradients in the weights' dtype: 4 bytes per parameter under autocast, 2 if weights are bf16.",
    expected={"fp32": 4, "autocast": 4, "bf16 weights": 2, "autocast, fp16 hook": 2},
    unit="B per parameter",
)
def gradients_on_the_wire() -> Mapping[str, float]:
    """Takes one step of a small GPT on two ranks, and counts what is all-reduced."""
    recipes = ("fp32", "autocast", "bf16 weights", "autocast, fp16 hook")
    return run_world(lambda: {recipe: gradient_bytes(recipe) for recipe in recipes}, 2)[0]
