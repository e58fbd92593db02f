"""Lab 05: draws time against bytes for every way to recompute the blocks of one model.

Bytes are exact: what autograd keeps after forward, and the most that it keeps at any moment of the step. FLOPs are
counted. Times are this machine's: the median of repeats, taken in turns so that a slow moment hits all policies alike.

    python compare_policies.py                                   # half a minute on two CPU cores
    python compare_policies.py --dropout 0 --layers 16 --repeats 20
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.learn.data.batches import random_batch, to_device
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, seed_everything
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory, check_fits
from rankzero.learn.runs.options import StarterParser, positive_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.stop_request import report_stop, signals_raise
from rankzero.learn.runs.tracking import call_tracked, check_tracking

starter: Any = find_lab("05").import_starter()


class SegmentedGPT(starter.RecomputingGPT):  # type: ignore[misc]
    """Adds policies "2", "3", ...: segments of so many blocks."""

    def run_blocks(self, x: Tensor) -> Tensor:
        if not self.policy.isdigit():
            return super().run_blocks(x)
        for start in range(0, len(self.blocks), int(self.policy)):
            x = starter.checkpoint(nn.Sequential(*self.blocks[start : start + int(self.policy)]), x)
        return x


@dataclass
class Point:
    """One policy: bytes, FLOPs, and the seconds of each repeat."""

    policy: str
    kept: int = 0
    peak: int = 0
    flops: int = 0
    seconds: list[float] = field(default_factory=list)


def forward_and_backward(model: nn.Module, x: Tensor, y: Tensor, memory: PhaseMemory | None = None) -> None:
    """The part of a step that recomputation changes; the update is the same under every policy."""
    model.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    if memory:
        memory.record("forward")
    loss.backward()
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


def measure(model: SegmentedGPT, x: Tensor, y: Tensor, policies: list[str], repeats: int) -> list[Point]:
    """Each policy's point, in the order of `policies`."""
    points = [Point(policy) for policy in policies]
    optimizer = torch.optim.SGD(model.parameters())
    for point in points:
        model.policy = point.policy
        with PhaseMemory(model, optimizer, x.device) as memory:
            forward_and_backward(model, x, y, memory)
        point.kept, point.peak = memory.rows[0].activations, memory.peak_activations
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # fused attention goes uncounted
            forward_and_backward(model, x, y)
        point.flops = counter.get_total_flops()
    for _ in range(repeats):
        for point in points:
            model.policy = point.policy
            begin = time.perf_counter()
            forward_and_backward(model, x, y)
            point.seconds.append(time.perf_counter() - begin)
    return points


def ratio(point: Point, plain: Point) -> float:
    """How much longer a step takes than the plain one beside it: the median over the repeats."""
    return statistics.median(one / other for one, other in zip(point.seconds, plain.seconds, strict=True))


def name_of(policy: str) -> str:
    """As the figure and the table call it."""
    return (
        f"segments of {policy}"
        if policy.isdigit()
        else {"blocks": "each block", "sqrt": "√n segments"}.get(policy, policy)
    )


def table(points: list[Point]) -> str:
    """The points as text; times as ratios to the first, which keeps everything."""
    lines = ["policy           kept MiB   peak MiB     FLOPs      time"]
    for point in points:
        cells = f"{point.kept / MIB:10.2f}{point.peak / MIB:11.2f}{point.flops / points[0].flops:9.3f}×"
        lines.append(f"{name_of(point.policy):<15}{cells}{ratio(point, points[0]):9.2f}×")
    return "\n".join(lines)


# How the figure shows a policy: color and marker.
LOOKS = {"none": ("#444444", "X"), "blocks": ("#3b6fb6", "o"), "sqrt": ("#d1622b", "s"), "selective": ("#5a8f4e", "D")}


def draw(points: list[Point], title: str) -> Figure:
    """Time of a step over its peak bytes: down and to the left is better."""
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    axes = figure.subplots()
    at = {point.policy: (point.peak / MIB, ratio(point, points[0])) for point in points}
    segments = sorted(at[one] for one in at if one not in ("none", "selective"))  # each block first, all in one last
    axes.plot(*zip(*segments, strict=True), "o--", color="0.7", markersize=4, linewidth=1, zorder=1)
    for point in points:
        if point.policy in LOOKS:
            color, marker = LOOKS[point.policy]
            words = f"{name_of(point.policy)}: {point.peak / MIB:.1f} MiB, {point.flops / points[0].flops:.2f}× FLOPs"
            axes.plot(*at[point.policy], marker, color=color, markersize=10, label=words)
        else:  # its number stands above the point; words would run into each other
            place: Any = {"textcoords": "offset points", "xytext": (0, 9), "ha": "center", "zorder": 4}
            axes.annotate(point.policy, at[point.policy], **place, color="0.35", fontsize=9)
    axes.set(xlabel="activations at the fullest moment (MiB)", ylabel="time of forward and backward, none = 1")
    axes.set(title=f"{title}\ngray: segments of so many blocks", xlim=(0, None))
    axes.margins(y=0.15)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)  # below: nothing is under it
    return figure


def compare(options: argparse.Namespace) -> None:
    """Measures every policy, draws them into a new folder, and prints the table."""
    seed_everything(0)
    device, corpus = choose_device(options.device), load_corpus(options.corpus)
    shape = (options.block_size, options.layers, options.heads, options.hidden_dim)
    config = GPTConfig(corpus.vocab_size, *shape, dropout=options.dropout)
    check_fits(config.training_bytes(options.batch_size), device)
    batch = {"batch_size": options.batch_size, "block_size": options.block_size}
    x, y = to_device(*random_batch(corpus.train, step=0, seed=0, **batch), device)
    some = {2, options.layers // 2, 3 * options.layers // 4, options.layers}  # up to all blocks in one segment
    lengths = sorted(n for n in some - {round(options.layers**0.5)} if n > 1)
    model = SegmentedGPT(config).to(device)
    points = measure(model, x, y, [*starter.POLICIES, *map(str, lengths)], options.repeats)
    blocks = f"{config.n_layer} block{'s' * (config.n_layer > 1)}"
    title = f"{blocks}, {config.hidden_dim} wide, dropout {config.dropout:g}, {device.type}"
    file = new_run_folder(options.out, "lab-05-policies") / "policies.png"
    draw(points, title).savefig(file, dpi=130)
    print(f"{title}\n\n{table(points)}\n\ntime against bytes: {file}")


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    import_dynamo_lazily()
    parser = StarterParser(description="Lab 05: draws time against bytes for every way to recompute.")
    for name, value, words in (
        ("--layers", 16, "transformer blocks"),
        ("--hidden-dim", 64, "width of the model; a multiple of --heads"),
        ("--heads", 4, "attention heads per block"),
        ("--block-size", 64, "tokens per sequence"),
        ("--batch-size", 12, "sequences per step"),
        ("--repeats", 6, "steps that are timed, of each policy"),
    ):
        parser.add_argument(name, type=positive_int, default=value, help=words)
    parser.add_argument("--dropout", type=float, default=0.1, help="probability")
    parser.add_argument(
        "--corpus", default="embedded", help="'embedded', 'tinyshakespeare', or the path of a text file"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    options = parser.parse_args(arguments)
    try:
        check_tracking(options)
        with signals_raise():
            call_tracked(compare, "lab-05-policies", options)
    except UserError as error:
        parser.error(str(error))
    except KeyboardInterrupt as error:
        return report_stop(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
