"""Claims of handbook/memory.md: what the allocator of a GPU holds, beside the ledger and over time."""

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread, free_memory, gpu, milliseconds, peak_mib, pick, rehearsing
from rankzero.claims.toolkit.lab_model import token_loss
from rankzero.claims.toolkit.starters import starter
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.ledger import BEGIN, END, FORWARD
from rankzero.ledger.measure import RecipeOptimizer, default_dtype, loss_of
from rankzero.ledger.models import build
from rankzero.ledger.predict import predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

MIB = 2**20


def counters() -> tuple[float, float]:
    """MiB allocated and reserved by torch's allocator; zero in a rehearsal."""
    if rehearsing():
        return 0.0, 0.0
    return torch.cuda.memory_allocated() / MIB, torch.cuda.memory_reserved() / MIB


@claim(
    "gpu-recompute-frontier",
    "On a GPU recomputing each block makes forward and backward of a GPT slower by less than half, and lowers their "
    "peak above the weights by more than half.",
    expected={"slower by less than half": 1, "peak lower by more than half": 1},
    unit="",
    needs=("cuda",),
)
def recompute_frontier() -> Charted:
    """Times forward and backward of Lab 05's GPT under each policy and reads the allocator's peak; 12 layers 768 wide,
    8 x 1,024 tokens, all in bf16."""
    tokens = pick(1024, 16)
    config = GPTConfig(pick(4096, 64), tokens, pick(12, 4), pick(12, 2), pick(768, 32))
    model = starter("05").RecomputingGPT(config).to(gpu(), torch.bfloat16)
    x = torch.randint(config.vocab_size, (pick(8, 2), tokens), device=gpu())

    def both() -> None:
        token_loss(model, x, x).backward()
        model.zero_grad()

    times, peaks = {}, {}
    for policy in starter("05").POLICIES:
        model.policy = policy
        times[policy], peaks[policy] = milliseconds(both), peak_mib(both)
    lines: dict[str, list[Point]] = {policy: [times[policy].point(peaks[policy])] for policy in times}
    value = {
        "slower by less than half": int(times["blocks"].median < 1.5 * times["none"].median),
        "peak lower by more than half": int(peaks["blocks"] < 0.5 * peaks["none"]),
    }
    axes = "peak above the weights (MiB)", "forward and backward (ms)"
    return Charted(value, Chart("Recomputation: time against memory", *axes, lines))


@claim(
    "gpu-reserved-over-steps",
    "On a GPU reserved memory never falls over three training steps, and after the first it is the same at the end of "
    "every step, while allocated memory rises and falls in each.",
    expected={"reserved falls": 0, "same after steps 2 and 3": 1, "allocated falls": 1},
    unit="",
    needs=("cuda",),
)
def reserved_over_steps() -> Charted:
    """Reads both counters after forward, backward and update of three steps of a GPT 512 wide."""
    free_memory()
    model = GPT(GPTConfig(pick(4096, 64), pick(256, 8), 4, pick(8, 2), pick(512, 16))).to(gpu())
    optimizer = AdamW(model.parameters())
    x = torch.randint(pick(4096, 64), (pick(16, 2), pick(256, 8)), device=gpu())
    read = [counters()]
    for _ in range(3):
        optimizer.zero_grad()
        loss = token_loss(model, x, x)
        read.append(counters())
        loss.backward()
        read.append(counters())
        optimizer.step()
        del loss
        read.append(counters())
    allocated, reserved = zip(*read, strict=True)
    falls = [any(b < a for a, b in itertools.pairwise(kind)) for kind in (allocated, reserved)]
    lines = {
        name: [Spread.of([value]).point(number / 3) for number, value in enumerate(kind)]
        for name, kind in (("allocated", allocated), ("reserved", reserved))
    }
    value = {
        "reserved falls": int(falls[1]),
        "same after steps 2 and 3": int(reserved[6] == reserved[9]),
        "allocated falls": int(falls[0]),
    }
    return Charted(value, Chart("Memory over three training steps", "step", "MiB", lines))


@claim(
    "gpu-memory-snapshot",
    "In a snapshot of CUDA's allocator the active blocks add up to the allocated bytes and the segments to the "
    "reserved bytes.",
    expected={"active blocks - allocated": 0, "segments - reserved": 0},
    unit="B",
    needs=("cuda",),
)
def memory_snapshot() -> dict[str, float]:
    """Allocates and frees tensors of many sizes, and adds up torch.cuda.memory_snapshot()."""
    tensors: list[Any] = [torch.empty(997 * number, device=gpu()) for number in range(1, 200)]
    del tensors[::3]
    if rehearsing():
        return {"active blocks - allocated": 0, "segments - reserved": 0}
    torch.cuda.synchronize()
    segments = torch.cuda.memory_snapshot()
    blocks = [block for segment in segments for block in segment["blocks"]]
    active = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    return {
        "active blocks - allocated": active - torch.cuda.memory_allocated(),
        "segments - reserved": sum(segment["total_size"] for segment in segments) - torch.cuda.memory_reserved(),
    }


CONFIGS: dict[str, tuple[str, str, int, int, int]] = {  # recipe, optimizer, width, layers, sequences of 256 tokens
    "fp32, AdamW": ("fp32", "adamw", 512, 4, 8),
    "fp32, momentum": ("fp32", "momentum", 512, 4, 8),
    "fp32, SGD": ("fp32", "sgd", 512, 4, 8),
    "fp32, AdamW, B 1": ("fp32", "adamw", 512, 4, 1),
    "fp32, AdamW, B 32": ("fp32", "adamw", 512, 4, 32),
    "fp32, AdamW, 1,024 wide": ("fp32", "adamw", 1024, 4, 8),
    "fp32, AdamW, 12 layers": ("fp32", "adamw", 512, 12, 8),
    "autocast, AdamW": ("amp", "adamw", 512, 4, 8),
    "bf16 with masters, AdamW": ("mixed", "adamw", 512, 4, 8),
    "bf16, AdamW": ("bf16", "adamw", 512, 4, 8),
}


def peaks_of_a_step(name: str) -> tuple[float, float, float, float]:
    """MiB of one configuration: predicted for forward and backward, the allocator's peak there and in the update, and
    what rounding to blocks of 512 bytes adds to weights, gradients and the optimizer's numbers.

    The peaks are of the third step, above what was allocated before the model was made: cuBLAS's workspaces, which a
    product before it has allocated, do not count.
    """
    recipe_name, optimizer_name, width, layers, rows = CONFIGS[name]
    recipe, optimizer, tokens = RECIPES[recipe_name], OPTIMIZERS[optimizer_name], pick(256, 8)
    config = GPTConfig(pick(4096, 64), tokens, layers, pick(8, 2), pick(width, 16))
    ledger = predict(config, recipe, optimizer, batch_size=rows, seq_len=tokens)
    predicted = max(sum(ledger.at(phase).values()) for phase in (FORWARD, BEGIN, END))
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.ones(64, 64, device=gpu(), dtype=dtype, requires_grad=True)
        (a @ a).sum().backward()  # backward's thread has a workspace of its own
    free_memory()
    before = counters()[0]
    with gpu(), default_dtype(recipe):
        model = build(config)
    updater = RecipeOptimizer(model, recipe, optimizer)
    x: Tensor = torch.randint(config.vocab_size, (rows, tokens), device=gpu())
    peaks = [0.0, 0.0]
    for _ in range(3):
        updater.zero_grad()
        for number, part in enumerate((lambda: loss_of(model, recipe, x, x).backward(), updater.step)):
            if not rehearsing():
                torch.cuda.reset_peak_memory_stats()
            part()
            if not rehearsing():
                peaks[number] = torch.cuda.max_memory_allocated() / MIB - before
    states = [value for state in updater.torch.state.values() for value in state.values() if isinstance(value, Tensor)]
    held = [*updater.parameters, *updater.gradient_tensors(), *updater.masters, *updater.accumulators, *states]
    return predicted / MIB, peaks[0], peaks[1], sum(-tensor.nbytes % 512 for tensor in held) / MIB


@claim(
    "gpu-ledger-against-allocator",
    "Over ten configurations the ledger's peak of forward and backward is within 10 % of the allocator's on a GPU.",
    expected=0,
    unit="% of the allocator's peak, the largest difference",
    tolerance=10,
    needs=("cuda",),
)
def ledger_against_allocator() -> Charted:
    """Predicts and trains ten small GPTs and reads the allocator's peak in forward and backward, and in the update.
    Of what the ledger does not have, rounding is computed; the rest is temporaries of kernels."""
    found = {name: peaks_of_a_step(name) for name in CONFIGS}
    rests = {name: both - predicted - rounding for name, (predicted, both, _, rounding) in found.items()}
    names = ("predicted, forward and backward", "allocator, forward and backward", "allocator, update", "rounding")
    lines = {
        line: [Spread.of([peaks[number]]).point(name) for name, peaks in found.items()]
        for number, line in enumerate(names)
    }
    lines["the rest"] = [Spread.of([rest]).point(name) for name, rest in rests.items()]
    differences = [100 * abs(predicted / (both or predicted) - 1) for predicted, both, _, _ in found.values()]
    return Charted(max(differences), Chart("Peak of a training step", "", "MiB", lines))
