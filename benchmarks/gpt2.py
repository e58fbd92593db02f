"""GPT-2 124M at 1,024 tokens: from Lab 02's plain loop to the fastest, one technique per rung.

Each rung keeps what the rungs before it switched on. Printed per rung: tokens/s, MFU by PaLM's formula (6N + 12LHQT
per token, over the device's dense bf16 peak), the allocator's peak beside the ledger's prediction. The last rung runs
twice: as a bare loop, and under Lab 02's meter and log.

    python benchmarks/gpt2.py                              # all rungs, on a GPU
    python benchmarks/gpt2.py --rungs 3 --steps 30         # the first three, longer
    python benchmarks/gpt2.py --toy --device cpu           # a tiny model on the CPU, to see that it runs
"""

import argparse
import contextlib
import gc
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import AdamW

from rankzero.errors import UserError
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, device_name, peak_flops
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.options import StarterParser, positive_int
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.ledger.models import PRESETS
from rankzero.ledger.predict import predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

TOY = GPTConfig(vocab_size=97, block_size=16, n_layer=2, n_head=2, hidden_dim=32)
RUNS = 5  # of `--steps` steps each: the spread is over these


@dataclass(frozen=True)
class Rung:
    """The techniques in use."""

    name: str
    tf32: bool = False
    bf16: bool = False
    fused_attention: bool = False
    padded: bool = False  # a vocabulary that is a multiple of 64
    fused_optimizer: bool = False
    compiled: bool = False
    batch: int = 1  # multiple of --batch-size
    cudnn: bool = False  # cuDNN's attention where there is one


def ladder() -> list[Rung]:
    """The rungs, each with one technique more than the rung before it."""
    rungs = [Rung("Lab 02's loop, attention in separate operations")]
    techniques: tuple[tuple[str, str, Any], ...] = (
        ("+ fused attention", "fused_attention", True),
        ("+ TF32", "tf32", True),
        ("+ bf16 autocast", "bf16", True),
        ("+ vocabulary of 50,304", "padded", True),
        ("+ fused AdamW", "fused_optimizer", True),
        ("+ torch.compile", "compiled", True),
        ("+ twice the batch", "batch", 2),
        ("+ cuDNN's attention", "cudnn", True),
    )
    for name, field, value in techniques:
        rungs.append(replace(rungs[-1], name=name, **{field: value}))
    return rungs


@dataclass(frozen=True)
class Result:
    """The measurements of one rung. Rates are the median, the lowest and the highest run."""

    name: str
    tokens_per_s: tuple[float, float, float]
    mfu: float | None  # None where the device's peak is not known
    peak_mib: float  # of the allocator; 0 on the CPU
    predicted_mib: float  # by the ledger, without what the optimizer's step needs
    loss: float
    seconds: float  # of the whole rung, compilation included


def make_parser() -> StarterParser:
    parser = StarterParser(description="GPT-2 124M: each technique's tokens/s and MFU, one rung after another.")
    add = parser.add_argument
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    add("--batch-size", type=positive_int, default=16, help="sequences of 1,024 tokens per step")
    add("--steps", type=positive_int, default=10, help=f"steps per run; each rung has {RUNS} runs")
    add("--rungs", type=positive_int, default=len(ladder()), help="number of rungs, from the plain loop on")
    add("--corpus", help="'tinyshakespeare', or the path of a text; random tokens without it")
    add("--toy", action="store_true", help="a model of two layers of width 32 with 16 tokens")
    add("--json", type=Path, help="file to write the results to")
    return parser


def attention_kernels(rung: Rung) -> contextlib.AbstractContextManager[None]:
    """Attention in separate operations; fused by torch's choice; or fused by cuDNN first."""
    if not rung.fused_attention:
        return sdpa_kernel(SDPBackend.MATH)
    if not rung.cudnn:
        return contextlib.nullcontext()
    others = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION, *others], set_priority=True)


@contextlib.contextmanager
def switched_on(rung: Rung) -> Iterator[None]:
    """Sets what is global in torch: the precision of fp32 products and the kernel of attention."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if rung.tf32 else "highest")
    try:
        with attention_kernels(rung):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def make_batches(options: argparse.Namespace, config: GPTConfig, rows: int, device: torch.device) -> list[Tensor]:
    """Eight batches [rows, T + 1] on the device: of the corpus, or of random tokens."""
    if not options.corpus:
        generator = torch.Generator().manual_seed(0)
        shape = (8, rows, config.block_size + 1)
        return list(torch.randint(config.vocab_size, shape, generator=generator).to(device))
    train = load_corpus(options.corpus).train
    drawn = [random_batch(train, step=n, seed=0, batch_size=rows, block_size=config.block_size + 1) for n in range(8)]
    return [x.clamp(max=config.vocab_size - 1).to(device) for x, _ in drawn]


def make_step(
    rung: Rung, model: GPT, optimizer: AdamW, batches: list[Tensor], device: torch.device
) -> Callable[[int], Tensor]:
    """Returns the function that takes step number N: Lab 02's, under autocast and compiled where the rung says so."""

    def loss_of(tokens: Tensor) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=rung.bf16):
            logits = model(tokens[:, :-1])
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    compute = torch.compile(loss_of) if rung.compiled else loss_of

    def step(number: int) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = compute(batches[number % len(batches)])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def rates(take: Callable[[int], Tensor], steps: int, tokens: int, device: torch.device) -> tuple[list[float], float]:
    """Returns tokens/s of each run after a warm-up, and the last loss."""
    for number in range(3):
        loss = take(number)
    found = []
    for _ in range(RUNS):
        synchronize(device)
        begin = time.perf_counter()
        for number in range(steps):
            loss = take(number)
        synchronize(device)
        found.append(steps * tokens / (time.perf_counter() - begin))
    return found, loss.item()


def synchronize(device: torch.device) -> None:
    """Waits until the device has done what was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class Prepared:
    """A model with the rung's techniques switched on. `step(n)` takes step n; a step has `rows` sequences."""

    model: GPT
    config: GPTConfig
    step: Callable[[int], Tensor]
    rows: int

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.rows * self.config.block_size


@contextlib.contextmanager
def prepared(rung: Rung, options: argparse.Namespace, device: torch.device) -> Iterator[Prepared]:
    """Makes model, optimizer and batches; inside the block the rung's techniques are switched on."""
    config = TOY if options.toy else PRESETS["gpt2"]
    assert isinstance(config, GPTConfig)
    if rung.padded:
        config = replace(config, vocab_size=-(-config.vocab_size // 64) * 64)
    rows = options.batch_size * rung.batch
    torch._dynamo.reset()  # drops the last rung's compiled functions, which hold its model
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    torch.manual_seed(0)
    model = GPT(config).to(device)
    optimizer = AdamW(model.parameters(), lr=3e-4, fused=rung.fused_optimizer or None)
    with switched_on(rung):
        batches = make_batches(options, config, rows, device)
        yield Prepared(model, config, make_step(rung, model, optimizer, batches, device), rows)


def run_rung(rung: Rung, options: argparse.Namespace, device: torch.device, *, metered: bool = False) -> Result:
    """Trains with the rung's techniques and measures. With `metered`, Lab 02's meter and log run along."""
    begin = time.perf_counter()
    with prepared(rung, options, device) as made, contextlib.ExitStack() as stack:
        take = made.step
        if metered:
            take = stack.enter_context(under_meter(take, made.model, made.tokens, device))
        steps = options.steps if rung.bf16 else max(1, options.steps // 3)  # fp32 steps are long
        found, loss = rates(take, steps, made.tokens, device)
    rate = statistics.median(found)
    peak = peak_flops(device, torch.bfloat16)
    recipe = RECIPES["amp" if rung.bf16 else "fp32"]
    ledger = predict(made.config, recipe, OPTIMIZERS["adamw"], batch_size=made.rows, seq_len=made.config.block_size)
    return Result(
        rung.name,
        (rate, min(found), max(found)),
        rate * made.model.flops_per_token() / peak if peak else None,
        torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else 0.0,
        ledger.peak()[1] / 2**20,
        loss,
        time.perf_counter() - begin,
    )


@contextlib.contextmanager
def under_meter(
    take: Callable[[int], Tensor], model: GPT, tokens: int, device: torch.device
) -> Iterator[Callable[[int], Tensor]]:
    """The same steps, each reported to Lab 02's meter, which writes its log and prints nothing here."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        log = Path(folder, "log.jsonl")
        meter = StepMeter(log, first_step=0, last_step=10**9, tokens_per_step=tokens, device=device,
                          flops_per_token=model.flops_per_token(), dtype=torch.bfloat16)  # fmt: skip

        def step(number: int) -> Tensor:
            loss = take(number)
            meter.step(loss, 3e-4)
            return loss

        with meter:
            yield step


def row_of(result: Result, first: Result | None) -> str:
    """One line of the table."""
    rate, low, high = result.tokens_per_s
    mfu = f"{100 * result.mfu:5.1f} %" if result.mfu is not None else "      –"
    times = f"{rate / first.tokens_per_s[0]:6.2f} ×" if first else "  1.00 ×"
    memory = f"{result.peak_mib:9,.0f} {result.predicted_mib:9,.0f}"
    return f"{result.name:<48}{rate:11,.0f} ±{50 * (high - low) / rate:4.1f} % {times} {mfu} {memory}"


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        device = choose_device(options.device)
    except UserError as error:
        parser.error(str(error))
    print(f"{device_name(device)}, torch {torch.__version__}; GPT-2 124M" + (", toy size" if options.toy else ""))
    print(f"{'':<48}{'tokens/s':>11} {'spread':>7} {'times':>8} {'MFU':>7} {'peak MiB':>9} {'predicted':>9}")
    results: list[Result] = []
    rungs = ladder()[: options.rungs]
    runs = [*((rung, False) for rung in rungs), (replace(rungs[-1], name="the last rung under Lab 02's meter"), True)]
    for rung, metered in runs:
        try:
            results.append(run_rung(rung, options, device, metered=metered))
        except RuntimeError as error:  # of CUDA's memory, or of a compiler that is missing
            print(f"{rung.name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", file=sys.stderr)
            continue
        print(row_of(results[-1], results[0]), flush=True)
        if options.json:  # after each rung: a run that is cut off keeps what it has
            options.json.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
