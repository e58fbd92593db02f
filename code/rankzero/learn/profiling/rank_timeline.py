"""Rank timeline: when each rank computed and communicated, read from the trace of each rank and drawn."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankzero.learn.profiling.traces import COLORS as PHASES

COMPUTE, COMMUNICATION = "compute", "communication"
COLLECTIVES = {
    "all_reduce": "#d1622b",
    "all_gather": "#e0a43c",
    "reduce_scatter": "#a63a50",
    "broadcast": "#7f7f7f",
    "send": "#4aa3a2",
    "recv": "#2f6f73",
    "other": "#b0b0b0",
}


@dataclass(frozen=True)
class Span:
    """A phase or a collective of one rank, from `start` to `end` in µs of a clock that all ranks of a machine share."""

    rank: int
    lane: str  # COMPUTE or COMMUNICATION
    name: str
    start: float
    end: float


@contextmanager
def record_spans() -> Iterator[list[Span]]:
    """Records the spans of this rank in the context. The list is filled when the context ends.

    Compute is every phase that the code has named with `record_function`: data, forward, backward, optimizer; on CUDA,
    the time in which the GPU worked on the phase. Communication is the work of the backend, in its own
    thread or stream.
    """
    spans: list[Span] = []
    with torch.profiler.profile() as profiler:
        yield spans
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        spans += spans_in_trace(json.loads(file.read_text(encoding="utf-8")), dist.get_rank())


def spans_in_trace(trace: dict[str, Any], rank: int) -> list[Span]:
    """Returns the spans of one rank in an exported trace, sorted by start."""
    base = trace.get("baseTimeNanoseconds", 0) / 1000
    events = trace["traceEvents"]
    on_gpu = any(event.get("cat") == "gpu_user_annotation" for event in events)
    spans = []
    for event in events:
        name, kind = event.get("name", ""), event.get("cat")
        if kind == ("gpu_user_annotation" if on_gpu else "user_annotation") and name in PHASES:
            lane = COMPUTE
        elif (kind == "kernel" and name.startswith("nccl")) or (kind == "user_annotation" and name.startswith("gloo:")):
            lane, name = COMMUNICATION, _collective(name)
        else:
            continue
        spans.append(Span(rank, lane, name, base + event["ts"], base + event["ts"] + event["dur"]))
    return sorted(spans, key=lambda span: span.start)


def _collective(name: str) -> str:
    """Returns the collective that a name means: 'gloo:all_reduce', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)'."""
    plain = name.lower().replace("_", "")
    return next((collective for collective in COLLECTIVES if collective.replace("_", "") in plain), "other")


def plot_rank_timeline(ranks: list[list[Span]], title: str = "") -> Figure:
    """Draws two rows per rank, computation and communication, over one time axis in ms."""
    begin = min(span.start for spans in ranks for span in spans)
    figure = Figure(figsize=(10, 0.55 * 2 * len(ranks) + 1.3), layout="constrained")
    axes = figure.subplots()
    colors = PHASES | COLLECTIVES
    labels = []
    for number, spans in enumerate(ranks):
        for offset, lane in enumerate((COMPUTE, COMMUNICATION)):
            row = 2.3 * number + offset
            labels.append((row, f"rank {number}: {lane}"))
            for span in spans:
                if span.lane == lane:
                    bar = ((span.start - begin) / 1000, (span.end - span.start) / 1000)
                    axes.broken_barh([bar], (row - 0.4, 0.8), color=colors[span.name], edgecolor="white", linewidth=0.4)
    drawn = {span.name for spans in ranks for span in spans}
    patches = [Patch(color=color, label=name) for name, color in colors.items() if name in drawn]
    axes.set_yticks([row for row, _ in labels], [text for _, text in labels])
    axes.invert_yaxis()
    axes.set(xlabel="ms", xlim=(0, None), title=title)
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
