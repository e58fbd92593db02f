"""Claims of handbook/recomputation.md."""

import functools
import itertools
import random
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.kept_bytes import LiveBytes, Recomputed
from rankzero.claims.toolkit.starters import starter
from rankzero.learn.models.gpt import GPT, Block, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory
from rankzero.ledger.segments import even, lengths_of_lowest_peak, peak_of_lengths

CHEN = "[Chen et al.](https://arxiv.org/abs/1604.06174)"
Run = Callable[[Tensor], Tensor]


def peak_of_segments(blocks: list[nn.Module], x: Tensor, lengths: list[int]) -> float:
    """The most that autograd keeps during a step through Lab 05's checkpoints, in tensors of the size of `x`."""
    model = nn.ModuleList(blocks)
    with PhaseMemory(model, torch.optim.SGD(model.parameters()), torch.device("cpu")) as memory:
        y, place = x.clone().requires_grad_(), 0
        for length in lengths:
            y = starter("05").checkpoint(nn.Sequential(*blocks[place : place + length]), y)
            place += length
        y.sum().backward()
    return memory.peak_activations / x.nbytes


@claim(
    "recompute-root-of-layers",
    "16 layers that keep one tensor each (linear, tanh) peak lowest in about √16 segments: 4 or 5 of them.",
    expected={"1": 17, "2": 10, "4": 8, "5": 8, "8": 10, "16": 17},
    unit="tensors of the input's size",
    source=CHEN,
)
def root_of_layers() -> Mapping[str, float]:
    """Runs each number of segments and counts what autograd keeps at the fullest moment."""
    torch.manual_seed(0)
    blocks: list[nn.Module] = [nn.Sequential(nn.Linear(32, 32, bias=False), nn.Tanh()) for _ in range(16)]
    return {str(n): peak_of_segments(blocks, torch.randn(64, 32), even(16, n)) for n in (1, 2, 4, 5, 8, 16)}


GPT_SEGMENTS = {str(n): even(64, n) for n in (8, 32, 40, 64)} | {"unequal": lengths_of_lowest_peak(64, inside=16)}


@claim(
    "recompute-segments-of-a-gpt",
    "64 GPT blocks peak at {expected[8]} inputs in 8 segments, {expected[32]} in 32, {expected[40]} in 40, "
    "{expected[64]} in 64, and {expected[unequal]} in segments of 3, then 2, then 1 blocks, the least of all lengths.",
    expected={name: peak_of_lengths(lengths, inside=16) for name, lengths in GPT_SEGMENTS.items()},
    unit="B·T·C",
    tolerance=0.4,  # statistics of norms and attention: a few numbers per token
)
def segments_of_a_gpt() -> Mapping[str, float]:
    """Runs 64 small blocks in segments and counts what autograd keeps at the fullest moment. Expected: the formula."""
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=1, block_size=8, n_head=1, hidden_dim=128)
    blocks: list[nn.Module] = [Block(config) for _ in range(64)]
    x = torch.randn(1, 8, 128)
    return {name: peak_of_segments(blocks, x, lengths) for name, lengths in GPT_SEGMENTS.items()}


def peak_of_choice(blocks: list[nn.Module], x: Tensor, recomputed: Collection[int]) -> int:
    """Bytes that autograd keeps at the fullest moment with those blocks recomputed, each alone."""
    model = nn.ModuleList(blocks)
    with PhaseMemory(model, torch.optim.SGD(model.parameters()), torch.device("cpu")) as memory:
        y = x.clone().requires_grad_()
        for place, block in enumerate(blocks):
            y = starter("05").checkpoint(block, y) if place in recomputed else block(y)
        y.sum().backward()
    return memory.peak_activations


def blocks_of_all_sizes() -> tuple[list[nn.Module], Tensor]:
    """Six residual layers that keep from little to much inside."""
    torch.manual_seed(0)
    widths = (32, 256, 64, 512, 16, 128)
    return [nn.Sequential(nn.Linear(64, n), nn.GELU(), nn.Linear(n, 64)) for n in widths], torch.randn(16, 64)


@claim(
    "recompute-peak-is-predicted",
    "The peak of every choice of six layers to recompute is what the layers before one hold, and all inside it: off "
    "by {expected} bytes in 64 choices.",
    expected=0,
    unit="B, the largest difference",
)
def peak_is_predicted() -> float:
    """Counts what autograd keeps for each of the 64 choices, and subtracts the prediction from single layers."""
    blocks, x = blocks_of_all_sizes()
    inside = [peak_of_choice([block], x, ()) for block in blocks]
    worst = 0
    for choice in itertools.chain.from_iterable(itertools.combinations(range(6), n) for n in range(7)):
        held = [x.nbytes if place in choice else size for place, size in enumerate(inside)]
        predicted = max(sum(held[:place]) + size for place, size in enumerate(inside))
        worst = max(worst, abs(predicted - peak_of_choice(blocks, x, choice)))
    return worst


@claim(
    "recompute-the-last-saves-nothing",
    "Recomputing the last of eight GPT blocks lowers the peak by {expected[last]} bytes, recomputing the first by "
    "{expected[first]:.0f} inputs.",
    expected={"last": 0, "first": 15.05},
    unit="B·T·C",
    tolerance=0.05,  # statistics of norms and attention
)
def the_last_saves_nothing() -> Mapping[str, float]:
    """Counts what autograd keeps at the fullest moment with no, the last and the first block recomputed."""
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=1, block_size=16, n_head=2, hidden_dim=128)
    blocks: list[nn.Module] = [Block(config) for _ in range(8)]
    x = torch.randn(2, 16, 128)
    plain = peak_of_choice(blocks, x, ())
    return {name: (plain - peak_of_choice(blocks, x, [at])) / x.nbytes for name, at in (("last", 7), ("first", 0))}


def gpt_block(kind: str) -> Run:
    """A GPT block of Lab 02's width: plain, recomputed, or recomputed except for its matrix products."""
    torch.manual_seed(0)
    block = Block(GPTConfig(vocab_size=1))
    if kind == "plain":
        return block
    how: dict[str, Any] = {"use_reentrant": False}
    if kind == "products kept":
        how["context_fn"] = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    return lambda x: checkpoint(block, x, **how)


@claim(
    "recompute-products-kept",
    "Beside its input a GPT block keeps {expected[plain]} tensors of that size; {expected[products kept]} with only "
    "the outputs of its matrix products kept.",
    expected={"plain": 15, "products kept": 9, "recomputed": 0},
    unit="B·T·C beside the input",
    tolerance=0.1,  # statistics of norms and attention
)
def products_kept() -> Mapping[str, float]:
    """Counts the bytes that outlive the block's forward pass; its output, and views of its weights, left out."""
    measured = {}
    for kind in ("plain", "products kept", "recomputed"):
        run, x = gpt_block(kind), torch.randn(12, 64, 128, requires_grad=True)
        with LiveBytes() as live:
            y = run(x)
        measured[kind] = (live.now() - y.nbytes - 4 * 12 * 128**2) / x.nbytes
    return measured


@claim(
    "recompute-products-flops",
    "Recomputing a block costs {expected[recomputed]} % more FLOPs, and with its matrix products kept "
    "{expected[products kept]:.1f} % at 64 tokens.",
    expected={"recomputed": 33.3, "products kept": 2.56},
    unit="% more FLOPs",
    tolerance=0.05,
)
def products_flops() -> Mapping[str, float]:
    """Counts forward and backward of one block, attention by the formula so that it is counted, without early stop."""
    counts = {}
    for kind in ("plain", "recomputed", "products kept"):
        run, x = gpt_block(kind), torch.randn(2, 64, 128, requires_grad=True)
        with (
            torch.utils.checkpoint.set_checkpoint_early_stop(False),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as counter,
        ):
            run(x).sum().backward()
        counts[kind] = counter.get_total_flops()
    return {kind: 100 * (counts[kind] / counts["plain"] - 1) for kind in ("recomputed", "products kept")}


@claim(
    "recompute-batchnorm-twice",
    "BatchNorm in a recomputed block moves its running averages twice a step.",
    expected={"plain": 1, "recomputed": 2},
    unit="updates per step",
)
def batchnorm_twice() -> Mapping[str, float]:
    """Runs a step through PyTorch's checkpoint and without it, and reads BatchNorm's count of batches."""
    found = {}
    for kind in ("plain", "recomputed"):
        norm, x = nn.BatchNorm1d(4), torch.randn(8, 4, requires_grad=True)
        y = norm(x) if kind == "plain" else checkpoint(norm, x, use_reentrant=False)
        y.square().sum().backward()
        found[kind] = int(norm.num_batches_tracked or 0)
    return found


@claim(
    "recompute-same-bits",
    "Recomputing each block of a GPT, dropout included, changes {expected} numbers of its gradients.",
    expected=0,
    unit="numbers that differ",
)
def same_bits() -> float:
    """Runs a step with PyTorch's checkpoint around each block and one without, from the same seed, and compares."""
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        model = GPT(GPTConfig(vocab_size=32, block_size=16, dropout=0.2))
        if again:
            model.blocks = nn.ModuleList(Recomputed(block) for block in model.blocks)
        model(torch.arange(32).view(2, 16)).square().sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    return int((found[0] != found[1]).sum())


@claim(
    "recompute-random-state",
    "The state of torch's CPU generator takes {expected} bytes.",
    expected=5056,
    unit="B",
)
def random_state() -> float:
    """Asks torch for the state and counts its bytes."""
    return torch.get_rng_state().nbytes


@claim(
    "recompute-reentrant-frozen",
    "PyTorch's reentrant checkpoint gives no weight a gradient if its input asks for none; the other kind gives both.",
    expected={"reentrant": 0, "not reentrant": 2},
    unit="of 2 weights with a gradient",
)
def reentrant_frozen() -> Mapping[str, float]:
    """Runs a small network behind an input that asks for no gradient, and counts the gradients."""
    found = {}
    for name, reentrant in (("reentrant", True), ("not reentrant", False)):
        net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.GELU(), nn.Linear(4, 4, bias=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that gradients will be None
            y = checkpoint(net, torch.randn(2, 4), use_reentrant=reentrant)
        if y.requires_grad:
            y.sum().backward()
        found[name] = sum(p.grad is not None for p in net.parameters())
    return found


@claim(
    "recompute-greedy-is-not-best",
    "Over 200 random sets of seven layers, recomputing the most bytes per FLOP first costs {expected} % more FLOPs "
    "than the best choice.",
    expected=24,
    unit="% more FLOPs",
    tolerance=1,
)
def greedy_is_not_best() -> float:
    """Plans each set to half of its peak, by ratio and by trying all 128 choices, and compares the sums of FLOPs."""
    draw, sums = random.Random(0), [0.0, 0.0]

    def peak(inside: list[int], chosen: Collection[int]) -> int:
        held = [1 if place in chosen else size for place, size in enumerate(inside)]
        return max(sum(held[:place]) + size for place, size in enumerate(inside))

    for _ in range(200):
        inside, flops = [draw.randrange(2, 17) for _ in range(7)], [draw.uniform(1, 10) for _ in range(7)]
        budget = sum(inside) / 2 + max(inside) / 2
        chosen: list[int] = []
        order = sorted(range(7), key=lambda place: flops[place] / (inside[place] - 1))
        while peak(inside, chosen) > budget and len(chosen) < 7:
            chosen.append(order[len(chosen)])
        every = [[p for p in range(7) if choice >> p & 1] for choice in range(128)]
        costs = [sum(flops[p] for p in one) for one in every if peak(inside, one) <= budget]
        if peak(inside, chosen) <= budget and costs:
            sums[0] += sum(flops[p] for p in chosen)
            sums[1] += min(costs)
    return 100 * (sums[0] / sums[1] - 1)


@claim(
    "recompute-other-metadata",
    "If the second run makes a tensor of another dtype, PyTorch raises 'Recomputed values for the following tensors "
    "have different metadata than during the forward pass'; equal runs raise nothing.",
    expected={"another dtype": 1, "the same": 0},
    unit="1: CheckpointError",
)
def other_metadata() -> Mapping[str, float]:
    """Checkpoints a function that reads a flag, changes the flag or not before backward, and looks for the text."""

    def refused(changed: bool) -> int:
        flag = {"double": False}
        x = torch.ones(3, requires_grad=True)
        y = checkpoint(lambda x: (x.double() if flag["double"] else x).sin().sin(), x, use_reentrant=False)
        flag["double"] = changed
        try:
            y.sum().backward()
        except RuntimeError as error:
            return int("have different metadata than during the forward pass" in str(error))
        return 0

    return {"another dtype": refused(True), "the same": refused(False)}
