"""Lab 11: train one GPT twice, eager and compiled, and count what the compiler does.

Read `train_step`, `count_compilations` and `race` first: what is compiled, what is counted, what is timed.
B = sequences per batch, T = tokens per sequence, which differs from step to step, V = tokens in the vocabulary.

    python train_compiled.py                          # under a minute on two CPU cores, and the time of compiling
    python train_compiled.py --dynamic no --pad-to 16 # one compilation for each of three lengths
    python train_compiled.py --backend aot_eager      # without a C++ compiler: captures graphs, generates no kernels
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, to_device
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, check_fits, memory_now
from rankzero.learn.runs.options import StarterParser, positive_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import add_model_options, run_starter

LAB = "lab-11"
DYNAMIC = {"auto": None, "no": False, "yes": True}  # given to torch.compile, whose own default is None
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 11: train one GPT twice, eager and compiled, and count what is compiled.")
    add = parser.add_argument
    add("--steps", type=positive_int, default=60, help="optimizer steps of each of the two models")
    add("--backend", choices=("inductor", "aot_eager", "eager"), default="inductor", help="what runs captured graphs")
    add("--mode", choices=MODES, default="default", help="of the backend inductor")
    add("--dynamic", choices=tuple(DYNAMIC), default="yes", help="whether one compilation serves many lengths")
    add("--pad-to", type=positive_int, default=1, help="pad sequences to a multiple of so many tokens; 1: no padding")
    add("--package", action="store_true", help="also build an AOTInductor package: half a minute, C++ compiler needed")
    add_model_options(parser)
    parser.set_defaults(resume=None, batch_size=8, hidden_dim=64, layers=2)
    return parser


# ------------------------------------------------------------------------------------------------------- what is timed
class BatchLoss(nn.Module):
    """The model and its loss: the part of a step that is compiled."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean loss in nats per token that is no padding. `x` and `y` are int64 [B, T]; targets of -100 are padding."""
        logits = self.model(x)  # [B, T, V]
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Run(NamedTuple):
    """One of the two models, with the seconds and the loss of each of its steps."""

    loss_of: Any  # BatchLoss, or the compiled BatchLoss
    optimizer: Optimizer
    seconds: list[float]
    losses: list[float]


def train_step(run: Run, x: Tensor, y: Tensor) -> Tensor:
    """One update. `x` and `y` are int64 [B, T]; returns the loss before it, in nats per token."""
    run.optimizer.zero_grad(set_to_none=True)
    loss = run.loss_of(x, y)  # one call of compiled code, if the guards hold
    loss.backward()  # compiled with it: the compiler captures forward and derives backward
    run.optimizer.step()
    return loss.detach()


def timed_step(run: Run, x: Tensor, y: Tensor) -> None:
    """Takes a step, and records its loss and its seconds."""
    started = time.perf_counter()
    run.losses.append(train_step(run, x, y).item())  # reading the loss waits for the device
    run.seconds.append(time.perf_counter() - started)


# ----------------------------------------------------------------------------------------------------- what is counted
def graphs_compiled() -> int:
    """Graphs that this process has captured so far, by the compiler's own counter."""
    from torch._dynamo.utils import counters  # here, because it imports the compiler

    return int(counters["stats"]["unique_graphs"])


def count_compilations(loss_of: BatchLoss, lengths: list[int], dynamic: bool | None) -> list[int]:
    """Compilations caused by a batch of each length in turn. Backend eager captures graphs and generates no code."""
    torch._dynamo.reset()
    counts, compiled = [], torch.compile(loss_of, backend="eager", dynamic=dynamic)
    for length in lengths:
        before = graphs_compiled()
        tokens = loss_of.model.head.weight.new_zeros((2, length), dtype=torch.int64)
        compiled(tokens, tokens)
        counts.append(graphs_compiled() - before)
    torch._dynamo.reset()
    return counts


def length_of(step: int, options: argparse.Namespace) -> int:
    """Tokens per sequence in the batch of a step: a function of seed and step, as the batch is."""
    random = np.random.default_rng((options.seed, step, 1))
    return int(random.integers(options.block_size // 4, options.block_size)) + 1


def padded(x: Tensor, y: Tensor, multiple: int, longest: int) -> tuple[Tensor, Tensor]:
    """Both tensors, int64 [B, T], with T rounded up to a multiple, but not above `longest`. Padding has no target."""
    missing = min(-x.shape[1] % multiple, longest - x.shape[1])
    return F.pad(x, (0, missing)), F.pad(y, (0, missing), value=-100)


def race(runs: dict[str, Run], tokens: Tensor, options: argparse.Namespace, device: torch.device, log: Path) -> int:
    """Trains the models in turns on the same batches; returns the exit code. Turns share a machine's slow moments."""
    with finish_step_on_interrupt() as interrupted, log.open("a", encoding="utf-8") as file:
        for step in range(options.steps):
            length = length_of(step, options)
            sizes = {"batch_size": options.batch_size, "block_size": length}
            batch = random_batch(tokens, step=step, seed=options.seed, **sizes)
            x, y = to_device(*padded(*batch, options.pad_to, options.block_size), device)
            before = graphs_compiled()
            for run in runs.values():
                timed_step(run, x, y)
            compilations, loss = graphs_compiled() - before, runs["compiled"].losses[-1]
            event = {
                "event": "step",
                "step": step + 1,
                "length": x.shape[1],
                "loss": loss,
                "compilations": compilations,
            }
            event |= {f"{name}_ms": 1000 * run.seconds[-1] for name, run in runs.items()}
            file.write(json.dumps(event) + "\n")
            if compilations or (step + 1) % 20 == 0 or step + 1 == options.steps:
                words = [f"step {step + 1:>4}/{options.steps}", f"loss {loss:.4f}", f"T {x.shape[1]:>3}"]
                words += [f"{name} {event[f'{name}_ms']:>9,.1f} ms" for name in runs]
                print("  ".join(words + ["compiled"] * bool(compilations)))
            if interrupted:
                print(f"\nStopped by {interrupted.name} after step {step + 1}; its times are in {log}")
                return interrupted.exit_code
    return 0


def print_verdict(runs: dict[str, Run], device: torch.device) -> None:
    """Prints the median steps, the time that compiling took, after how many steps it has paid, and the digits."""
    eager, compiled = (statistics.median(run.seconds) for run in runs.values())
    extra = sum(runs["compiled"].seconds) - compiled * len(runs["compiled"].seconds)
    pays = f"pays after {extra / (eager - compiled):,.0f} steps" if compiled < eager else "never pays"
    times = f"eager {1000 * eager:.1f} ms, compiled {1000 * compiled:.1f} ms: {eager / compiled:.2f} times"
    apart = max(abs(a - b) for a, b in zip(*(run.losses for run in runs.values()), strict=True))
    print(f"\nmedian step   {times}")
    print(f"compiling     {extra:.1f} s, {pays}\nlosses        differ by at most {apart:.1e} nats")
    print(f"memory        peak {memory_now(device).get('peak', 0) / MIB:,.0f} MiB, both models together")


def export_model(model: GPT, folder: Path, package: bool) -> None:
    """Saves the model as a graph for any length, loads it, and compares; with `package`, also as machine code."""
    longest, device = model.config.block_size, model.head.weight.device
    tokens = torch.arange(longest - 1, device=device)[None] % model.config.vocab_size  # [1, T]
    lengths = torch.export.Dim("length", min=2, max=longest)
    program = torch.export.export(model.eval(), (tokens,), dynamic_shapes=({1: lengths},))
    torch.export.save(program, folder / "model.pt2")
    loaded = torch.export.load(folder / "model.pt2").module()  # without GPT's code
    short = tokens[:, : longest // 2]
    apart, size = (loaded(short) - model(short)).abs().max().item(), (folder / "model.pt2").stat().st_size
    print(f"\nexported      {folder / 'model.pt2'}, {size / 1000:,.0f} kB; loaded, it differs by {apart:.1e}")
    try:
        loaded(torch.zeros(1, longest + 1, dtype=torch.int64, device=device))
        print(f"T = {longest + 1:<9} NOT refused")
    except (AssertionError, RuntimeError) as error:
        print(f"T = {longest + 1:<9} refused: {str(error).splitlines()[0]}")
    if package:
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "package.pt2"))
        apart = (torch._inductor.aoti_load_package(path)(short) - model(short)).abs().max().item()
        print(f"package       {path}, {os.path.getsize(path) / 1000:,.0f} kB; loaded, it differs by {apart:.1e}")


def check_options(options: argparse.Namespace) -> None:
    """UserError for sequences too short to differ in length, and where a C++ compiler is needed and there is none."""
    if options.block_size < 8:
        raise UserError(f"--block-size {options.block_size} leaves no choice of lengths: use 8 tokens or more.")
    compiler = os.environ.get("CXX", "g++")
    if (options.backend == "inductor" or options.package) and not shutil.which(compiler):
        need = f"--backend {options.backend}{' --package' * options.package} needs a C++ compiler, and {compiler}"
        raise UserError(f"{need} is not found: install it, or use --backend aot_eager without --package.")


def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Counts, trains and exports as `options` say; returns the exit code."""
    check_options(options)
    device = choose_device(options.device)
    corpus = load_corpus(options.corpus)
    check_length(corpus.train, options.block_size, f"the training part of corpus {corpus.name}")
    config = GPTConfig(corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    check_fits(2 * config.training_bytes(options.batch_size), device)
    folder = new_run_folder(options.out, LAB)
    runs = {}
    for name in ("eager", "compiled"):
        seed_everything(options.seed)  # the same weights for both
        loss_of = BatchLoss(GPT(config).to(device))
        runs[name] = Run(loss_of, AdamW(loss_of.parameters(), lr=options.lr), [], [])
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {loss_of.model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    print(f"run     {options.steps} steps of each, batch {options.batch_size}, into {folder}/\n")
    lengths = [options.block_size * part // 8 for part in (3, 4, 5, 6, 7, 8)]
    print(f"compilations for batches of {', '.join(map(str, lengths))} tokens, in this order")
    for name, dynamic in DYNAMIC.items():
        print(f"  --dynamic {name:<5} {count_compilations(loss_of, lengths, dynamic)}")
    how: dict[str, Any] = {"backend": options.backend, "dynamic": DYNAMIC[options.dynamic]}
    if options.backend == "inductor":
        how["mode"] = options.mode
        print("\nThe first compiled step may take a minute. torch keeps its kernels: the next run takes seconds.")
    runs["compiled"] = runs["compiled"]._replace(loss_of=torch.compile(loss_of, **how))
    log = folder / "log.jsonl"
    log.write_text(json.dumps({"event": "run", **fingerprint(device)}) + "\n", encoding="utf-8")
    code = race(runs, corpus.train, options, device, log)
    if code == 0:
        print_verdict(runs, device)
        export_model(loss_of.model, folder, options.package)
        from rankzero.learn.profiling.step_times import plot_step_times  # imports matplotlib: half a second

        plot_step_times({name: run.seconds for name, run in runs.items()}).savefig(folder / "steps.png", dpi=110)
    print(f"\nfiles         {folder}/: log.jsonl{', model.pt2, steps.png' if code == 0 else ''}")
    return code


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab=LAB)


if __name__ == "__main__":
    sys.exit(main())
