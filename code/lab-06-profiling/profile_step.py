"""Lab 06: where the time of a training step goes.

The step is Lab 02's, with a name on each phase. Read `train_step` and the loop in `train_steps`, then `account`, which
adds the time up. B = sequences per batch, T = tokens per sequence.

    python profile_step.py                             # 5 steps, a few seconds
    python profile_step.py --script patient_a.py       # the same with somebody else's code in the loop
    python profile_step.py --recompute --watch-layers
"""

import argparse
import functools
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # before torch: its profiler would announce itself on stderr

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import AdamW, Optimizer
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from rankzero.learn.data.batches import check_length, random_batch, to_device
from rankzero.learn.data.corpus import Corpus, load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.peak_flops import reference_peak
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling import traces
from rankzero.learn.profiling.memory import check_fits
from rankzero.learn.runs.options import StarterParser, non_negative_int, positive_float, positive_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.step_meter import report_steps
from rankzero.learn.runs.training_options import add_model_options, run_starter
from rankzero.learn.runs.user_functions import load_user_functions

PHASES = ("data", "forward", "backward", "optimizer")
Phase = Callable[[str], AbstractContextManager[object]]


def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 06: where the time of a training step goes.")
    add = parser.add_argument
    add("--wait", type=non_negative_int, default=1, help="steps before the profiler is switched on")
    add("--warmup", type=non_negative_int, default=3, help="steps with the profiler on that are thrown away")
    add("--active", type=positive_int, default=5, help="steps that are measured")
    add("--script", type=Path, help="a file whose next_batch or train_step takes the place of this one's")
    add("--recompute", action="store_true", help="keep only the input of each block and run it again in backward")
    add("--watch-layers", action="store_true", help="draw activations and gradients by depth, with hooks")
    add("--peak-flops", type=positive_float, help="the device's dense FLOP/s in fp32; known or measured otherwise")
    add_model_options(parser)
    parser.set_defaults(resume=None)  # a profile is nothing to go on with
    return parser


# ----------------------------------------------------------------------------------------------------------- one step
def next_batch(corpus: Corpus, step: int, options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """The batch of a step and its targets, int64 [B, T] each."""
    size = {"batch_size": options.batch_size, "block_size": options.block_size}
    return random_batch(corpus.train, step=step, seed=options.seed, **size)


def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    phase: Phase = record_function,
) -> Tensor:
    """One update of the model. `x` and `y` are int64 [B, T]; returns the loss before the update, in nats per token.

    The code inside `phase(name)` appears in the trace under that name.
    """
    with phase("optimizer"):
        optimizer.zero_grad(set_to_none=True)  # or backward adds to the last step's gradients

    with phase("forward"):
        logits = model(x)  # [B, T, V]; autograd keeps what backward needs: the activations
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # mean over the B*T tokens

    with phase("backward"):
        loss.backward()  # fills p.grad of every parameter, and frees the activations

    with phase("optimizer"):
        optimizer.step()  # the first time, AdamW makes its two averages per parameter
    return loss.detach()  # without its graph: a kept loss would keep the graph's nodes


@contextmanager
def finished_phase(name: str, device: torch.device) -> Iterator[None]:
    """A range that ends when its work is done; on a GPU, a call only queues work."""
    with record_function(name):
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)


# ------------------------------------------------------------------------------------------------------------ measure
def train_steps(
    model: nn.Module,
    optimizer: Optimizer,
    corpus: Corpus,
    options: argparse.Namespace,
    script: dict[str, Any],
    count: int,
    after_step: Callable[[], None],
) -> list[Tensor]:
    """Lab 02's loop, with one phase more, `data`. Returns the losses."""
    device, losses = next(model.parameters()).device, []
    phase = functools.partial(finished_phase, device=device)
    for step in range(count):
        with phase("data"):
            x, y = script["next_batch"](corpus, step, options)  # [B, T] each
            x, y = to_device(x, y, device)
        losses.append(script["train_step"](model, optimizer, x, y, phase))
        after_step()
    return losses


def profile_steps(loop: Callable[..., list[Tensor]], options: argparse.Namespace, trace: Path) -> list[Tensor]:
    """Trains for wait + warmup + active steps and exports a trace of the active ones. Returns all losses."""
    wait, warmup, active = options.wait, options.warmup, options.active
    gpu = [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with profile(
        activities=[ProfilerActivity.CPU, *gpu],
        schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(trace)),
    ) as profiler:  # its step() ends a step's range, ProfilerStep#N, and begins the next
        return loop(wait + warmup + active, profiler.step)


def account(events: list[traces.Event]) -> tuple[float, dict[str, float]]:
    """Mean milliseconds of a step, and its fractions by phase and idle, the gaps between phases. Their sum is 1."""
    named = traces.ranges(events)
    steps = [(start, end) for start, end, name in named if name.startswith("ProfilerStep#")]
    spent = dict.fromkeys((*PHASES, "idle"), 0.0)  # µs
    for step_start, step_end in steps:
        now = step_start
        for start, end, name in named:
            if name in PHASES and step_start <= start < step_end:
                spent["idle"] += max(0.0, start - now)  # a gap; none where ranges overlap
                spent[name] += end - start
                now = max(now, end)
        spent["idle"] += step_end - now
    total = sum(end - start for start, end in steps)
    return total / len(steps) / 1000, {name: microseconds / total for name, microseconds in spent.items()}


def count_flops(model: nn.Module, x: Tensor, y: Tensor) -> tuple[int, int]:
    """FLOPs of forward and of backward in matrix products, attention unfused so that its products are counted."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        forward = counter.get_total_flops()
        loss.backward()
    model.zero_grad(set_to_none=True)
    return forward, counter.get_total_flops() - forward


def watch_layers(layers: Iterable[nn.Module], run: Callable[[], Tensor]) -> tuple[list[float], list[float]]:
    """Root mean square of each layer's output, and of the gradient that reaches it when `run`'s loss goes backward."""
    activations: list[Tensor] = []
    gradients: list[Tensor] = []

    def hook(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        activations.append(output.detach().square().mean().sqrt())
        output.register_hook(lambda gradient: gradients.append(gradient.square().mean().sqrt()))

    handles = [layer.register_forward_hook(hook) for layer in layers]
    try:
        run().backward()
    finally:
        for handle in handles:  # a hook that stays runs in every later step
            handle.remove()
    return [value.item() for value in activations], [value.item() for value in reversed(gradients)]


# ------------------------------------------------------------------------------------------------------------ the run
def run(options: argparse.Namespace, saved: object) -> int:
    """Profiles as `options` say; returns the exit code."""
    seed_everything(options.seed)
    device, corpus = choose_device(options.device), load_corpus(options.corpus)
    script: dict[str, Any] = {"next_batch": next_batch, "train_step": train_step}
    if options.script:
        script |= load_user_functions(options.script, script, folder=Path(__file__).parent)
    check_length(corpus.train, options.block_size, f"the training part of corpus {corpus.name}")
    config = GPTConfig(corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    check_fits(config.training_bytes(options.batch_size), device)
    model = GPT(config).to(device)
    if options.recompute:
        for block in model.blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    optimizer, folder = AdamW(model.parameters(), lr=options.lr), new_run_folder(options.out, "lab-06")
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    print(f"run     {options.wait} + {options.warmup} steps, then {options.active} measured, into {folder}/\n")

    loop = functools.partial(train_steps, model, optimizer, corpus, options, script)
    losses = profile_steps(loop, options, folder / "trace.json")
    events = traces.read_trace(folder / "trace.json")
    step_ms, fractions = account(events)
    print(f"phase       fraction   ms/step\n{'':-<30}")
    for name, fraction in {**fractions, "sum": sum(fractions.values())}.items():
        print(f"{name:<10}{fraction:>10.6f}{fraction * step_ms:>10.2f}")
    if (busy := traces.device_busy(events)) is not None:
        print(f"GPU busy  {busy:>10.6f}")
    print(f"\n{traces.operations_table(events)}")

    ends = [time.perf_counter()]
    loop(options.active, lambda: ends.append(time.perf_counter()))  # once more, without the profiler
    plain_ms = 1000 * statistics.median(end - start for start, end in itertools.pairwise(ends))
    print(f"\nstep without the profiler: {plain_ms:.2f} ms; with it: {step_ms:.2f} ms")
    x, y = to_device(*next_batch(corpus, 0, options), device)
    forward, backward = count_flops(GPT(config).to(device), x, y)  # what the model needs
    executed = sum(count_flops(model, x, y))  # what is done: more, if blocks run again
    multiplied = sum(p.numel() for p in model.parameters() if p.dim() == 2) - model.position_embedding.weight.numel()
    palm = 6 * multiplied + 12 * config.n_layer * config.hidden_dim * config.block_size  # H heads of Q are hidden_dim
    print(f"FLOPs of a step: {forward:,} forward + {backward:,} backward = {forward + backward:,}")
    print(f"FLOPs by 6N + 12LHQT: {palm * x.numel():,} with N = {multiplied:,}")
    print(f"FLOPs executed: {executed:,}")
    if peak := reference_peak(device, options.peak_flops):
        mfu, hfu = (flops / (plain_ms / 1000) / peak[0] for flops in (forward + backward, executed))
        print(f"MFU {mfu:.3f}, HFU {hfu:.3f} of {peak[0] / 1e9:,.0f} GFLOP/s ({peak[1]})")
    report_steps(folder / "log.jsonl", losses)
    traces.plot_timeline(events).savefig(folder / "timeline.png", dpi=110)
    if options.watch_layers:
        outputs, gradients = watch_layers(model.blocks, lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
        figure = traces.plot_by_depth({"output of a block": outputs, "gradient there": gradients}, "root mean square")
        figure.savefig(folder / "layers.png", dpi=110)
    print("files   timeline.png, trace.json (for https://ui.perfetto.dev)" + ", layers.png" * options.watch_layers)
    return 0


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), run, arguments, lab="lab-06")


if __name__ == "__main__":
    sys.exit(main())
