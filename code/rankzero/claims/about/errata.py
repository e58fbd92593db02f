"""Claims of handbook/errata.md: sentences that many texts print, each with the measurement that judges it."""

import contextlib
import copy
import dataclasses
import math
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.learn.gpt import GPT, Block, GPTConfig
from rankzero.learn.llama import Llama, LlamaConfig
from rankzero.learn.memory import tensor_bytes
from rankzero.ledger.ledger import Kind, Ledger
from rankzero.ledger.measure import SavedTensors, measure, storage_bytes
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

PAGE = "handbook/errata.md"
GB, GIB = 10**9, 2**30
LAB_02 = GPTConfig(vocab_size=96)
TINY = GPTConfig(vocab_size=32, block_size=16, n_layer=1, n_head=2, hidden_dim=32)  # 9 parameter tensors
GPT_2 = cast(GPTConfig, PRESETS["gpt2"])


def seeded_gpt(config: GPTConfig, *, double: bool = True) -> tuple[GPT, Tensor]:
    """A GPT and random tokens [32, block_size + 1], the same on every machine."""
    torch.manual_seed(0)
    model = GPT(config)
    return model.double() if double else model, torch.randint(config.vocab_size, (32, config.block_size + 1))


def token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of each next token."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def flat(tensors: Iterator[Tensor] | list[Tensor]) -> Tensor:
    """All numbers of the tensors as one vector, copied."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def gradient(model: nn.Module, *losses: Callable[[], Tensor]) -> Tensor:
    """The sum of the gradients of the losses, as one vector."""
    model.zero_grad()
    for loss in losses:
        loss().backward()
    return flat([p.grad for p in model.parameters() if p.grad is not None])


def off_by(measured: Tensor, right: Tensor) -> float:
    """Length of the difference over the length of what is right."""
    return float((measured - right).norm() / right.norm())


def kept_tensors(layer: Callable[..., Any], *inputs: Any) -> list[Tensor]:
    """Tensors that autograd keeps while `layer(*inputs)` runs, a module's own parameters left out."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(*inputs)
    own = {p.data_ptr() for p in layer.parameters()} if isinstance(layer, nn.Module) else set()
    return [tensor for tensor in kept if tensor.data_ptr() not in own]


class Recomputed(nn.Module):
    """Keeps only the input of a module, and runs it again in backward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """As the module inside."""
        return checkpoint(self.inner, x, use_reentrant=False)


# ------------------------------------------------------------------------------------------------------------- memory
def states(ledger: Ledger) -> dict[str, int]:
    """Bytes of weights, gradients and optimizer state by row; step counts, a few bytes a tensor, left out."""
    wanted = (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
    return {row.name: row.bytes for row in ledger.rows if row.kind in wanted and row.name != "step counts"}


def lab_02_states(recipe: str) -> dict[str, float]:
    """Bytes a parameter by row, after a step of AdamW on Lab 02's model."""
    ledger = measure(LAB_02, RECIPES[recipe], OPTIMIZERS["adamw"], batch_size=2, seq_len=8, peaks=False)
    return {name: size / parameter_count(LAB_02) for name, size in states(ledger).items()}


@claim(
    "errata-bytes-per-parameter",
    "Weights, gradients and AdamW's state by recipe; weights and master weights alone are 6 bytes a parameter.",
    page=PAGE,
    expected={"fp32": 16, "mixed": 16, "fp32 gradients": 18, "fp32 sums": 20, "mixed, weights and masters": 6},
    unit="B a parameter",
    source="[ZeRO](https://arxiv.org/abs/1910.02054)",
)
def bytes_per_parameter() -> Mapping[str, float]:
    """Trains Lab 02's GPT for one step with each recipe and adds up the bytes of every tensor that is held."""
    recipes = {"fp32": "fp32", "mixed": "mixed", "fp32 gradients": "mixed-fp32-grad", "fp32 sums": "mixed-fp32-accum"}
    totals = {name: sum(lab_02_states(recipe).values()) for name, recipe in recipes.items()}
    mixed = lab_02_states("mixed")
    return totals | {"mixed, weights and masters": mixed["parameters"] + mixed["master weights"]}


@claim(
    "errata-7b-in-fp32",
    "Training 7 billion parameters with AdamW in fp32 holds 112 GB before the first activation.",
    page=PAGE,
    expected={"7e9 parameters": 112, "Llama-2-7B": 107.8},
    unit="GB",
    tolerance=0.05,
)
def seven_billion_in_fp32() -> Mapping[str, float]:
    """Lab 02's measured bytes a parameter times 7e9; and a step of Llama-2-7B itself on fake tensors, counted."""
    llama = PRESETS["llama-2-7b"]
    ledger = measure(llama, RECIPES["fp32"], OPTIMIZERS["adamw"], batch_size=1, seq_len=8, device="fake", peaks=False)
    return {
        "7e9 parameters": 7e9 * sum(lab_02_states("fp32").values()) / GB,
        "Llama-2-7B": sum(states(ledger).values()) / GB,
    }


@claim(
    "errata-7b-adam-state",
    "Adam's two averages of 7 billion parameters are 56 GB; 84 GB counts the fp32 master weights too.",
    page=PAGE,
    expected={"m and v": 56, "m, v and master weights": 84},
    unit="GB",
)
def seven_billion_adam_state() -> Mapping[str, float]:
    """Counts the optimizer's tensors after a mixed-precision step of Lab 02's model, a parameter, times 7e9."""
    rows = lab_02_states("mixed")
    averages = rows["m"] + rows["v"]
    return {
        "m and v": 7e9 * averages / GB,
        "m, v and master weights": 7e9 * (averages + rows["master weights"]) / GB,
    }


@claim(
    "errata-adam-state-dtype",
    "AdamW's averages have the dtype of the parameters: in a bf16 model they are bf16.",
    page=PAGE,
    expected={"fp32 model": 8, "bf16 model": 4},
    unit="B a parameter",
)
def adam_state_dtype() -> Mapping[str, float]:
    """Steps AdamW on a layer of each dtype and counts the bytes of exp_avg and exp_avg_sq."""
    measured = {}
    for name, dtype in (("fp32 model", torch.float32), ("bf16 model", torch.bfloat16)):
        layer = nn.Linear(64, 64, bias=False, dtype=dtype)
        optimizer = AdamW(layer.parameters())
        layer(torch.ones(1, 64, dtype=dtype)).sum().backward()
        optimizer.step()
        state = optimizer.state[layer.weight]
        measured[name] = storage_bytes([state["exp_avg"], state["exp_avg_sq"]]) / layer.weight.numel()
    return measured


@claim(
    "errata-bf16-weight-stands-still",
    "A weight of 1 in bf16 does not move in 100 steps of AdamW at a rate of 1e-3; in fp32 it falls to 0.9.",
    page=PAGE,
    expected={"bf16": 1, "fp32": 0.9},
    unit="",
    tolerance=1e-4,
)
def bf16_weight_stands_still() -> Mapping[str, float]:
    """Steps AdamW, without decay, on one weight whose gradient is always 1."""
    measured = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        weight = nn.Parameter(torch.ones(1, dtype=dtype))
        optimizer = AdamW([weight], lr=1e-3, weight_decay=0)
        for _ in range(100):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        measured[name] = weight.item()
    return measured


@claim(
    "errata-activation-share",
    "Of one model's training memory, activations are 2 to 89 %, by the shape of the batch.",
    page=PAGE,
    expected={"B 1, T 8": 2, "B 12, T 64": 67, "B 48, T 64": 89},
    unit="%",
    tolerance=0.5,
)
def activation_share() -> Mapping[str, float]:
    """Counts Lab 02's model in fp32 with AdamW, all rows of a step added up, at three shapes."""
    shares = {}
    for batch_size, seq_len in ((1, 8), (12, 64), (48, 64)):
        fp32, adamw = RECIPES["fp32"], OPTIMIZERS["adamw"]
        ledger = measure(LAB_02, fp32, adamw, batch_size=batch_size, seq_len=seq_len, peaks=False)
        share = ledger.total(Kind.ACTIVATIONS) / ledger.total()
        shares[f"B {batch_size}, T {seq_len}"] = 100 * share
    return shares


@claim(
    "errata-kept-by-relu-and-batchnorm",
    "ReLU keeps its output and BatchNorm its input, 4 bytes an element: neither a mask nor two statistics.",
    page=PAGE,
    expected={"ReLU": 4, "BatchNorm": 4},
    unit="B an element",
    tolerance=0.02,
)
def kept_by_relu_and_batchnorm() -> Mapping[str, float]:
    """Counts the bytes that autograd keeps of 1,024 rows of 256; BatchNorm's statistics are the second decimal."""
    x = torch.randn(1024, 256, requires_grad=True)
    layers = {"ReLU": nn.ReLU(), "BatchNorm": nn.BatchNorm1d(256)}
    return {name: tensor_bytes(kept_tensors(layer, x)) / x.numel() for name, layer in layers.items()}


def attention_by_formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[B, H, T, D] three times -> [B, H, T, D], with the [T, T] matrix of scores written out."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ v


def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same by PyTorch's own kernel."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@claim(
    "errata-attention-doubling",
    "Twice the tokens: attention's square grows 4 times, what fused attention keeps and GPT-2's FLOPs about 2 times.",
    page=PAGE,
    expected={"softmax kept by the formula": 4, "kept by the fused kernel": 2, "forward FLOPs of GPT-2": 2.265},
    unit="times",
    tolerance=0.0005,
)
def attention_doubling() -> Mapping[str, float]:
    """Saved tensors of both attentions at 512 and 1,024 tokens; FLOPs of GPT-2's shape at 1,024 and 2,048."""
    square, fused = [], []
    for T in (512, 1024):
        q, k, v = torch.randn(3, 1, 4, T, 32, requires_grad=True).unbind()
        kept = kept_tensors(attention_by_formula, q, k, v)
        square.append(tensor_bytes([t for t in kept if t.shape[-2:] == (T, T) and t.is_floating_point()]))
        fused.append(tensor_bytes(kept_tensors(fused_attention, q, k, v)))
    flops = [gpt2_flops(seq_len=T, backward=False) for T in (1024, 2048)]
    return {
        "softmax kept by the formula": square[1] / square[0],
        "kept by the fused kernel": fused[1] / fused[0],
        "forward FLOPs of GPT-2": flops[1] / flops[0],
    }


# -------------------------------------------------------------------------------------------------------- distributed
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
    """What a rank sends to all-reduce `payload`, by the count of a small ring whose sum is checked."""
    torch.manual_seed(0)
    ranks = [torch.randn(n * 16, dtype=torch.float64) for _ in range(n)]
    total = torch.stack(ranks).sum(0)
    sent = ring_all_reduce(ranks)
    assert all(torch.allclose(rank, total) for rank in ranks)
    return payload * sent / ranks[0].nbytes


@claim(
    "errata-ring-all-reduce",
    "A ring all-reduce of n ranks sends 2(n-1)/n times the payload: 24.5 GB for the 14 GB of a 7B model in 16 bits.",
    page=PAGE,
    expected={"7e9 gradients of 2 B, 8 ranks": 24.5, "350e6 of 4 B, 4 ranks": 2.1},
    unit="GB a rank",
    source="[NCCL tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)",
)
def ring_all_reduce_bytes() -> Mapping[str, float]:
    """Passes chunks around a ring of 8 and of 4 vectors, checks the sums, counts the bytes sent, scales them up."""
    half = torch.empty((), dtype=torch.bfloat16).element_size()
    return {
        "7e9 gradients of 2 B, 8 ranks": sent_in_a_ring(7e9 * half, 8) / GB,
        "350e6 of 4 B, 4 ranks": sent_in_a_ring(350e6 * 4, 4) / GB,
    }


def bytes_of_rank_0(stage: int, ranks: int) -> int:
    """Trains Lab 02's model in bf16 with fp32 masters, its state cut into flat shards; counts what one rank holds."""
    torch.manual_seed(0)
    model = GPT(LAB_02).bfloat16()
    F.cross_entropy(model(torch.randint(96, (2, 8))).flatten(0, 1), torch.randint(96, (16,))).backward()
    gradients = flat([p.grad for p in model.parameters() if p.grad is not None])
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
    "ZeRO-1 saves 3.82 times and ZeRO-2 7.21 times at 64 ranks; 4 and 8 are their limits.",
    page=PAGE,
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


@contextlib.contextmanager
def fake_ranks(n: int) -> Iterator[DeviceMesh]:
    """A mesh of `n` ranks of which only this one exists: collectives return at once."""
    hook = sys.excepthook  # which init_process_group replaces
    dist.init_process_group("fake", rank=0, world_size=n, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (n,))  # outside of fake mode: it reads a tensor
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook


@claim(
    "errata-fsdp-gathers",
    "fully_shard gathers 4 blocks twice a step, 8 all-gathers; without resharding after forward once, 4.",
    page=PAGE,
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
    with fake_ranks(64) as mesh, warnings.catch_warnings(action="ignore"):
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
    page=PAGE,
    expected=True,
    unit="",
)
def fsdp2_hooks() -> bool:
    """Shards a layer over 64 fake ranks and looks at it."""
    with fake_ranks(64) as mesh, FakeTensorMode():
        layer = nn.Linear(256, 256)
        assert not layer._forward_pre_hooks
        assert not layer._forward_hooks
        fully_shard(layer, mesh=mesh)
        sharded = all(isinstance(parameter, DTensor) for parameter in layer.parameters())
        return sharded and bool(layer._forward_pre_hooks) and bool(layer._forward_hooks)


@claim(
    "errata-sampler-repeats",
    "DistributedSampler hands 10 samples to 4 ranks as 12 draws: two samples are seen twice.",
    page=PAGE,
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
    """How far the weights of a tiny GPT move in `parts` updates at `rate`, one for each part of 32 sequences."""
    model, starts = seeded_gpt(TINY)
    tokens = (starts[:, :1] + 3 * torch.arange(TINY.block_size + 1)) % TINY.vocab_size  # each 3 more than the last
    start = flat(list(model.parameters()))
    optimizer = make(list(model.parameters()), rate)
    for part in tokens.chunk(parts):
        gradient(model, lambda part=part: token_loss(model, part))  # type: ignore[misc]
        optimizer.step()
    return flat(list(model.parameters())) - start


def scaling_error(make: Make, rate: float) -> float:
    """In %: one step of 8 times the batch and the rate, against the 8 small steps."""
    return 100 * off_by(moved(make, 8 * rate, parts=1), moved(make, rate, parts=8))


@claim(
    "errata-linear-scaling",
    "One step at 8 times the batch and rate is not 8 steps: SGD's error vanishes with the rate, AdamW's does not.",
    page=PAGE,
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


# ---------------------------------------------------------------------------------------------------------- precision
@claim(
    "errata-cuda-amp-autocast",
    "torch.cuda.amp.autocast(device_type=...) raises TypeError; torch.amp.autocast takes the device.",
    page=PAGE,
    expected=True,
    unit="",
)
def cuda_amp_autocast() -> bool:
    """Calls both as the text prints them."""
    with warnings.catch_warnings(action="ignore"):  # the old one warns that it is deprecated
        try:
            torch.cuda.amp.autocast(device_type="cuda", dtype=torch.float16)  # type: ignore[call-arg]
        except TypeError:
            torch.amp.autocast(device_type="cuda", dtype=torch.float16)
            return True
    return False


@claim(
    "errata-smallest-exponent",
    "The smallest power of two that survives: 2^-24 in fp16, 2^-133 in bf16, 2^-149 in fp32.",
    page=PAGE,
    expected={"fp16": -24, "bf16": -133, "fp32": -149},
    unit="",
)
def smallest_exponent() -> Mapping[str, float]:
    """Casts powers of two from fp64, each half of the last, until one becomes zero."""
    measured = {}
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        powers = torch.ldexp(torch.ones(200, dtype=torch.float64), -torch.arange(200))
        measured[name] = -(int((powers.to(dtype) > 0).sum()) - 1)
    return measured


@claim(
    "errata-fp16-overflows-to-inf",
    "65,519 becomes 65,504 in fp16, 65,520 becomes inf; NaN comes later, from inf - inf.",
    page=PAGE,
    expected=True,
    unit="",
)
def fp16_overflows_to_inf() -> bool:
    """Casts both numbers, then subtracts."""
    below, above = torch.tensor([65519.0, 65520.0]).half()
    return below.item() == 65504 and above.item() == math.inf and math.isnan((above - above).item())


@claim(
    "errata-gradients-flushed",
    "Gradients of Lab 02's first step in fp16: 23 % are below 6.1e-5, 0.04 % become zero; scaled by 65,536 none does.",
    page=PAGE,
    expected={"below 6.1e-5": 22.77, "zero in fp16": 0.04, "zero in fp16, scaled": 0, "zero in bf16": 0},
    unit="% of gradients",
    tolerance=0.01,
)
def gradients_flushed() -> Mapping[str, float]:
    """Casts the fp32 gradients of a seeded model on random tokens and counts zeros that were not zero before."""
    model, tokens = seeded_gpt(LAB_02, double=False)
    g = gradient(model, lambda: token_loss(model, tokens))
    g = g[g != 0]

    def percent(which: Tensor) -> float:
        return 100 * float(which.double().mean())

    scaled = (g * 65536).half()
    assert scaled.isfinite().all()
    return {
        "below 6.1e-5": percent(g.abs() < torch.finfo(torch.float16).smallest_normal),
        "zero in fp16": percent(g.half() == 0),
        "zero in fp16, scaled": percent(scaled == 0),
        "zero in bf16": percent(g.bfloat16() == 0),
    }


def gpt2_ledger(recipe: str) -> Ledger:
    """A step of GPT-2's shape on 8 sequences of 1,024 tokens, on fake tensors."""
    fields: dict[str, Any] = {"batch_size": 8, "seq_len": 1024, "device": "fake", "peaks": False}
    return measure(GPT_2, RECIPES[recipe], OPTIMIZERS["adamw"], **fields)


@claim(
    "errata-autocast-memory",
    "Autocast to bf16 makes GPT-2's activations 1.48 times smaller, weights, gradients and state 1.12 times larger.",
    page=PAGE,
    expected={"activations, times less": 1.48, "in the blocks, times less": 1.78, "states, times more": 1.12},
    unit="",
    tolerance=0.005,
)
def autocast_memory() -> Mapping[str, float]:
    """Counts a step of GPT-2's shape, B 8, T 1,024, in fp32 and under autocast, copies of the weights included."""
    fp32, amp = gpt2_ledger("fp32"), gpt2_ledger("amp")
    blocks = [
        sum(row.bytes for row in ledger.rows if row.kind is Kind.ACTIVATIONS and row.name.startswith("blocks."))
        for ledger in (fp32, amp)
    ]
    return {
        "activations, times less": fp32.total(Kind.ACTIVATIONS) / amp.total(Kind.ACTIVATIONS),
        "in the blocks, times less": blocks[0] / blocks[1],
        "states, times more": sum(states(amp).values()) / sum(states(fp32).values()),
    }


# ------------------------------------------------------------------------------------------------------- recomputation
def fake_gpt2(recompute: str = "") -> nn.Module:
    """GPT-2's shape; "blocks" recomputes each block, "all" the whole forward pass."""
    model = GPT(dataclasses.replace(GPT_2, block_size=2048))  # room for 2,048 tokens; adds no FLOPs, no activations
    if recompute == "blocks":
        model.blocks = nn.ModuleList(Recomputed(block) for block in model.blocks)
    return Recomputed(model) if recompute == "all" else model


def gpt2_flops(recompute: str = "", *, early_stop: bool = False, seq_len: int = 1024, backward: bool = True) -> int:
    """FLOPs of one sequence of `seq_len` tokens, attention's products included."""
    with FakeTensorMode(), sdpa_kernel(SDPBackend.MATH), set_checkpoint_early_stop(early_stop):
        model, ids = fake_gpt2(recompute), torch.zeros(1, seq_len, dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            logits = model(ids)
            if backward:
                logits.sum().backward()
    return counter.get_total_flops()


@claim(
    "errata-checkpointing-flops",
    "Recomputing GPT-2's blocks costs 24.3 % more FLOPs, 17.7 % with the early stop; the whole forward 33.3 %.",
    page=PAGE,
    expected={"blocks": 24.3, "blocks, early stop": 17.7, "whole forward": 33.3},
    unit="% more FLOPs",
    tolerance=0.05,
)
def checkpointing_flops() -> Mapping[str, float]:
    """Counts forward and backward of GPT-2's shape on 1,024 fake tokens under each policy."""
    plain = gpt2_flops()
    counts = {
        "blocks": gpt2_flops("blocks"),
        "blocks, early stop": gpt2_flops("blocks", early_stop=True),
        "whole forward": gpt2_flops("all"),
    }
    return {name: 100 * (count / plain - 1) for name, count in counts.items()}


def gpt2_activations(recompute: str, backend: SDPBackend) -> float:
    """GiB that the forward pass of GPT-2's shape leaves, B 8, T 1,024, fp32, loss included."""
    with FakeTensorMode(), sdpa_kernel(backend):
        model, tokens = fake_gpt2(recompute), torch.zeros(8, 1025, dtype=torch.int64)
        saved = SavedTensors(model)
        with saved.active():
            token_loss(model, tokens)
    return sum(saved.by_module.values()) / GIB


@claim(
    "errata-checkpointing-memory",
    "What GPT-2's forward pass leaves (B 8, T 1,024, fp32), with each block recomputed or not.",
    page=PAGE,
    expected={"fused attention": 6.09, "attention by the formula": 10.58, "blocks recomputed": 1.86},
    unit="GiB",
    tolerance=0.005,
)
def checkpointing_memory() -> Mapping[str, float]:
    """Adds up the tensors that autograd keeps, on fake tensors, memory that several share counted once."""
    return {
        "fused attention": gpt2_activations("", SDPBackend.FLASH_ATTENTION),
        "attention by the formula": gpt2_activations("", SDPBackend.MATH),
        "blocks recomputed": gpt2_activations("blocks", SDPBackend.FLASH_ATTENTION),
    }


class LiveBytes(TorchDispatchMode):
    """While active, counts the bytes of tensors that were made and not yet freed, and the most there ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self._alive:
                self._enter(tensor.untyped_storage())
        return out

    def _enter(self, storage: torch.UntypedStorage) -> None:
        self._alive.add(storage._cdata)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._leave, storage._cdata, storage.nbytes())

    def _leave(self, address: int, size: int) -> None:
        self._alive.discard(address)
        self.now -= size


@claim(
    "errata-square-root-segments",
    "The peak of 16 transformer blocks in units of one block's input: 4 segments of 4 need twice what 16 of 1 do.",
    page=PAGE,
    expected={"nothing recomputed": 268, "4 segments": 79, "16 segments": 42},
    unit="B·T·C",
    tolerance=3,
)
def square_root_segments() -> Mapping[str, float]:
    """Runs the blocks and counts live bytes. Expected: the inputs of segments, 16 for each block of the one at work
    (and a remainder), and about 10 for slopes on their way: 4 before and 4 after the GELU, 2 around the block."""
    n, config = 16, GPTConfig(vocab_size=1, block_size=256, n_head=1, hidden_dim=64)
    measured = {}
    for name, size in (("nothing recomputed", n), ("4 segments", 4), ("16 segments", 1)):
        blocks = [Block(config) for _ in range(n)]
        parts = [nn.Sequential(*blocks[i : i + size]) for i in range(0, n, size)]
        model = nn.Sequential(*(Recomputed(part) for part in parts) if size < n else parts)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)  # so that gradients are not counted
        x = torch.randn(8, config.block_size, config.hidden_dim, requires_grad=True)
        with LiveBytes() as live:
            model(x).sum().backward()
        measured[name] = live.peak / x.nbytes
    return measured


@claim(
    "errata-backward-twice-forward",
    "Backward takes twice the FLOPs of forward in a GPT, but only as many if the first layer is most of a network.",
    page=PAGE,
    expected={"GPT": 2, "MLP 784-256-10": 1.01},
    unit="times forward",
    tolerance=0.005,
)
def backward_twice_forward() -> Mapping[str, float]:
    """Counts the FLOPs of forward and of backward for Lab 02's GPT and for a small classifier of images."""
    tokens = torch.zeros(2, 64, dtype=torch.int64)
    mlp = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    measured = {}
    for name, model, x in (("GPT", GPT(LAB_02), tokens), ("MLP 784-256-10", mlp, torch.randn(2, 784))):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            out = model(x)
            forward = counter.get_total_flops()
            out.sum().backward()
        measured[name] = counter.get_total_flops() / forward - 1
    return measured


# ----------------------------------------------------------------------------------------------------------- the loop
@claim(
    "errata-accumulation",
    "Four micro-batches give the gradient of the batch if each loss is divided by 4; undivided it is 4 times as long.",
    page=PAGE,
    expected={"divided": 0, "undivided": 3},
    unit="of the gradient's length",
    tolerance=1e-12,
)
def accumulation() -> Mapping[str, float]:
    """Compares gradients of a tiny GPT in fp64. No learning rate appears anywhere."""
    model, tokens = seeded_gpt(TINY)
    right = gradient(model, lambda: token_loss(model, tokens))
    losses = [lambda part=part: token_loss(model, part) for part in tokens.chunk(4)]
    quarters = [lambda loss=loss: loss() / 4 for loss in losses]
    return {
        "divided": off_by(gradient(model, *quarters), right),
        "undivided": off_by(gradient(model, *losses), right),
    }


@claim(
    "errata-accumulation-breaks",
    "With BatchNorm, or with micro-batches of unequal size, the divided sum is another gradient.",
    page=PAGE,
    expected={"BatchNorm": 39, "24 and 8 sequences": 60},
    unit="% of the gradient's length",
    tolerance=0.5,
)
def accumulation_breaks() -> Mapping[str, float]:
    """The same comparison, in fp64, for a network with BatchNorm and for a batch of 32 cut into 24 and 8."""
    model, tokens = seeded_gpt(TINY)
    right = gradient(model, lambda: token_loss(model, tokens))
    unequal = [lambda part=part: token_loss(model, part) / 2 for part in tokens.split([24, 8])]
    norm = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).double()
    x = torch.randn(32, 16, dtype=torch.float64)
    whole = gradient(norm, lambda: (norm(x) - x[:, :1]).square().mean())
    parts = [lambda part=part: (norm(part) - part[:, :1]).square().mean() / 4 for part in x.chunk(4)]
    return {
        "BatchNorm": 100 * off_by(gradient(norm, *parts), whole),
        "24 and 8 sequences": 100 * off_by(gradient(model, *unequal), right),
    }


@claim(
    "errata-undivided-loss",
    "A loss 8 times too large makes SGD's step 8 times as long and leaves AdamW's as it was.",
    page=PAGE,
    expected={"SGD": 8, "AdamW": 1},
    unit="times as long",
    tolerance=0.001,
)
def undivided_loss() -> Mapping[str, float]:
    """Updates a tiny GPT once, in fp64, with the gradient and with 8 times the gradient."""

    def step_length(optimizer_type: type[SGD] | type[AdamW], factor: int) -> float:
        model, tokens = seeded_gpt(TINY)
        start = flat(list(model.parameters()))
        optimizer = optimizer_type(model.parameters(), lr=1e-3)
        gradient(model, lambda: factor * token_loss(model, tokens))
        optimizer.step()
        return float((flat(list(model.parameters())) - start).norm())

    return {kind.__name__: step_length(kind, 8) / step_length(kind, 1) for kind in (SGD, AdamW)}


@claim(
    "errata-clipped-norms",
    "After clipping to 1, a gradient 1,000 times too long is 1 long, like every other; the return value tells.",
    page=PAGE,
    expected={"ordinary, after clipping": 1, "spike, after clipping": 1, "spike / ordinary, as returned": 1000},
    unit="",
    tolerance=0.01,
)
def clipped_norms() -> Mapping[str, float]:
    """Clips the gradient of Lab 02's first step, and that of a loss 1,000 times as large."""
    model, tokens = seeded_gpt(LAB_02, double=False)
    returned, after = [], []
    for factor in (1, 1000):
        gradient(model, lambda factor=factor: factor * token_loss(model, tokens[:12]))  # type: ignore[misc]
        returned.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        after.append(float(flat([p.grad for p in model.parameters() if p.grad is not None]).norm()))
    return {
        "ordinary, after clipping": after[0],
        "spike, after clipping": after[1],
        "spike / ordinary, as returned": returned[1] / returned[0],
    }


@claim(
    "errata-no-decay-names",
    'A filter for "LayerNorm.weight" finds none of the norms of our GPT or Llama; p.dim() < 2 finds them all.',
    page=PAGE,
    expected={"GPT, by name": 0, "GPT, by dimension": 9, "Llama, by name": 0, "Llama, by dimension": 9},
    unit="of 9 norms",
)
def no_decay_names() -> Mapping[str, float]:
    """Filters the parameters of two models of 4 layers, two norms a layer and one at the end."""
    llama = Llama(LlamaConfig(vocab_size=96, n_layer=4, n_head=4, n_kv_head=2, hidden_dim=64, ffn_dim=128))
    measured = {}
    for name, model in (("GPT", GPT(LAB_02)), ("Llama", llama)):
        named = dict(model.named_parameters())
        measured[f"{name}, by name"] = sum("LayerNorm.weight" in key for key in named)
        measured[f"{name}, by dimension"] = sum(parameter.dim() < 2 for parameter in named.values())
    return measured


def raises(action: Callable[[], object]) -> bool:
    """Whether it ends in an exception."""
    try:
        action()
    except (RuntimeError, AttributeError):
        return True
    return False


@claim(
    "errata-silent-bugs-raise",
    "backward() on a loss that went through .item(), and adding tensors of two devices, raise an exception.",
    page=PAGE,
    expected=True,
    unit="",
)
def silent_bugs_raise() -> bool:
    """Tries both: the loss as a number and as a new tensor, and CPU plus PyTorch's meta device."""
    loss = nn.Linear(4, 1)(torch.ones(2, 4)).mean()
    return all(
        (
            raises(lambda: loss.item().backward()),
            raises(torch.tensor(loss.item()).backward),
            raises(lambda: torch.ones(3) + torch.ones(3, device="meta")),
        )
    )


@claim(
    "errata-warm-up-from-zero",
    "A warm-up of step / warmup changes none of 27 parameter tensors in its first update, (step+1)/(warmup+1) all.",
    page=PAGE,
    expected={"step / warmup": 0, "(step + 1) / (warmup + 1)": 27},
    unit="tensors changed",
)
def warm_up_from_zero() -> Mapping[str, float]:
    """Makes update 0 of a warm-up over 10 with AdamW on Lab 02's model and compares every parameter."""
    measured = {}
    step, warmup = 0, 10
    for name, share in (("step / warmup", step / warmup), ("(step + 1) / (warmup + 1)", (step + 1) / (warmup + 1))):
        model, tokens = seeded_gpt(LAB_02, double=False)
        before = [p.detach().clone() for p in model.parameters()]
        optimizer = AdamW(model.parameters(), lr=1e-3 * share)
        token_loss(model, tokens[:2]).backward()
        optimizer.step()
        measured[name] = sum(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    return measured


@claim(
    "errata-weight-gradient",
    "The gradient of nn.Linear's weight is dy.T @ x; x.T @ dy has the other shape.",
    page=PAGE,
    expected=True,
    unit="",
)
def weight_gradient() -> bool:
    """Compares both products with what autograd puts into weight.grad of a layer of 3 inputs and 5 outputs."""
    linear, x, dy = nn.Linear(3, 5).double(), torch.randn(7, 3).double(), torch.randn(7, 5).double()
    linear(x).backward(dy)
    found = linear.weight.grad
    assert found is not None
    return torch.allclose(found, dy.T @ x) and (x.T @ dy).shape != found.shape


@claim(
    "errata-first-loss",
    "The first loss of Lab 02's model is ln 96 = 4.56 nats a token.",
    page=PAGE,
    expected=math.log(96),
    unit="nats",
    tolerance=0.1,
)
def first_loss() -> float:
    """The loss of the untrained model on random tokens."""
    model, tokens = seeded_gpt(LAB_02, double=False)
    with torch.no_grad():
        return float(token_loss(model, tokens))


def cost_of_item(model: nn.Module, tokens: Tensor, *, steps: int, repeats: int = 5) -> float:
    """In %: how much longer steps take if the loss is read in each of them. Medians of alternating runs."""
    optimizer = AdamW(model.parameters())

    def seconds(read: bool) -> float:
        synchronize(tokens.device)
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = token_loss(model, tokens)
            loss.backward()
            optimizer.step()
            if read:
                loss.item()
        synchronize(tokens.device)
        return time.perf_counter() - begin

    seconds(read=True)  # warm-up
    pairs = [(seconds(read=False), seconds(read=True)) for _ in range(repeats)]
    without, reading = (statistics.median(column) for column in zip(*pairs, strict=True))
    return 100 * (reading / without - 1)


def synchronize(device: torch.device) -> None:
    """Waits until the device has done what was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@claim(
    "errata-item-cost",
    "Where kernels outlast their queueing (GPT-2's shape, B 8, T 1,024), loss.item() each step costs less than 10 %.",
    page=PAGE,
    expected=0,
    unit="% of a step",
    tolerance=10,
    needs=("cuda",),
)
def item_cost() -> float:
    """Times 20 steps with and without reading the loss, five times each in turn, and compares the medians."""
    device = torch.device("cuda")
    return cost_of_item(GPT(GPT_2).to(device), torch.randint(50257, (8, 1025), device=device), steps=20)


# -------------------------------------------------------------------------------------------------------- checkpoints
@claim(
    "errata-scheduler-forgotten",
    "A cosine schedule resumed halfway from model and optimizer alone ends at 25 % of its peak rate, not at 0.",
    page=PAGE,
    expected={"never stopped": 0, "resumed": 25},
    unit="% of the peak rate",
    tolerance=1e-6,
)
def scheduler_forgotten() -> Mapping[str, float]:
    """Runs 10 steps; and 5 steps, then 5 more with a new scheduler and an optimizer that loads the old one's state."""

    def start() -> tuple[AdamW, CosineAnnealingLR]:
        optimizer = AdamW([nn.Parameter(torch.ones(1))], lr=1.0)
        return optimizer, CosineAnnealingLR(optimizer, T_max=10)

    def run(optimizer: AdamW, scheduler: CosineAnnealingLR, steps: int) -> float:
        for _ in range(steps):
            optimizer.step()
            scheduler.step()
        return 100 * float(optimizer.param_groups[0]["lr"])

    optimizer, scheduler = start()
    run(optimizer, scheduler, 5)
    resumed, fresh = start()
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return {"never stopped": run(optimizer, scheduler, 5), "resumed": run(resumed, fresh, 5)}


class SignalDuringUpdate(TorchDispatchMode):
    """Sends SIGTERM to this process when the optimizer is about to move the given parameter tensor."""

    def __init__(self, tensor: int) -> None:
        super().__init__()
        self.left = tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.addcdiv_.default:
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGTERM)
        return func(*args, **(kwargs or {}))


def train_until_sigterm(file: Path) -> None:
    """One step of a tiny GPT whose SIGTERM handler saves at once. The file also gets the states before and after."""
    model, tokens = seeded_gpt(TINY)
    whole = copy.deepcopy(model)
    states: dict[str, Any] = {"before": copy.deepcopy(model.state_dict())}
    gradient(whole, lambda: token_loss(whole, tokens))
    AdamW(whole.parameters(), lr=1e-3).step()
    states["after"] = whole.state_dict()
    optimizer = AdamW(model.parameters(), lr=1e-3)

    def save_and_exit(signum: int, frame: object) -> None:
        torch.save(states | {"step": 0, "model": model.state_dict()}, file)
        os._exit(0)

    signal.signal(signal.SIGTERM, save_and_exit)
    gradient(model, lambda: token_loss(model, tokens))
    with SignalDuringUpdate(tensor=5):
        optimizer.step()


@claim(
    "errata-save-in-the-handler",
    "A SIGTERM handler that saves in mid-update writes a model that never was: of 9 tensors 4 new, 1 half done, 4 old.",
    page=PAGE,
    expected={"of the new step": 4, "of the old step": 4, "of neither": 1},
    unit="tensors",
)
def save_in_the_handler() -> Mapping[str, float]:
    """Sends a training process SIGTERM while AdamW works on its fifth tensor, and compares the file it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint.pt"
        process = multiprocessing.get_context("spawn").Process(target=train_until_sigterm, args=(file,))
        process.start()
        process.join(60)
        saved = torch.load(file)
    names = [name for name in saved["model"] if name != "head.weight"]  # tied to the embedding: the same tensor
    new = sum(torch.equal(saved["model"][name], saved["after"][name]) for name in names)
    old = sum(torch.equal(saved["model"][name], saved["before"][name]) for name in names)
    return {"of the new step": new, "of the old step": old, "of neither": len(names) - new - old}


@claim(
    "errata-newest-deleted",
    "Keeping the last 3 of sorted names padded to 6 digits deletes the checkpoint of step 1,000,000 as the oldest.",
    page=PAGE,
    expected={"newest left": 999_900, "files left": 3},
    unit="",
)
def newest_deleted() -> Mapping[str, float]:
    """Writes a file each 100 steps up to step 1,000,000, each time deletes all but the last 3 of the sorted names."""
    with tempfile.TemporaryDirectory() as folder:
        for step in range(999_500, 1_000_001, 100):
            (Path(folder) / f"ckpt_step{step:06d}.pt").touch()
            for old in sorted(Path(folder).glob("ckpt_*.pt"))[:-3]:
                old.unlink()
        left = [int(file.stem.removeprefix("ckpt_step")) for file in Path(folder).iterdir()]
    return {"newest left": max(left), "files left": len(left)}
