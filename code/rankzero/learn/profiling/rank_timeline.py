"""When each rank computed and when it communicated: recorded by torch.profiler, drawn one above the other."""

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
    """Something that a rank did from `start` to `end`, in µs of a clock that the ranks of one machine share."""

    rank: int
    lane: str  # COMPUTE or COMMUNICATION
    name: str
    start: float
    end: float


@contextmanager
def recorded() -> Iterator[list[Span]]:
    """Records what this rank does in the context; the list is filled when it ends.

    Compute is what the code has named with `record_function`: data, forward, backward, optimizer; on CUDA, the time in
    which the GPU worked on it. Communication is what the backend really does, in a thread or a stream of its own.
    """
    spans: list[Span] = []
    with torch.profiler.profile() as profiler:
        yield spans
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        spans += spans_of(json.loads(file.read_text(encoding="utf-8")), dist.get_rank())


def spans_of(trace: dict[str, Any], rank: int) -> list[Span]:
    """The spans of one rank in an exported trace, in the order of time."""
    base = trace.get("baseTimeNanoseconds", 0) / 1000
    events = trace["traceEvents"]
    on_gpu = any(event.get("cat") == "gpu_user_annotation" for event in events)
    found = []
    for event in events:
        name, kind = event.get("name", ""), event.get("cat")
        if kind == ("gpu_user_annotation" if on_gpu else "user_annotation") and name in PHASES:
            lane = COMPUTE
        elif (kind == "kernel" and name.startswith("nccl")) or (kind == "user_annotation" and name.startswith("gloo:")):
            lane, name = COMMUNICATION, _collective(name)
        else:
            continue
        found.append(Span(rank, lane, name, base + event["ts"], base + event["ts"] + event["dur"]))
    return sorted(found, key=lambda span: span.start)


def _collective(name: str) -> str:
    """Which collective 'gloo:all_reduce' or 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)' is."""
    plain = name.lower().replace("_", "")
    return next((one for one in COLLECTIVES if one.replace("_", "") in plain), "other")


def plot_ranks(ranks: list[list[Span]], title: str = "") -> Figure:
    """Two rows for each rank, what it computes and what it communicates, over the same time axis in ms."""
    begin = min(span.start for spans in ranks for span in spans)
    figure = Figure(figsize=(10, 0.55 * 2 * len(ranks) + 1.3), layout="constrained")
    axes = figure.subplots()
    colors = PHASES | COLLECTIVES
    labels = []
    for number, spans in enumerate(ranks):
        for place, lane in enumerate((COMPUTE, COMMUNICATION)):
            row = 2.3 * number + place
            labels.append((row, f"rank {number}: {lane}"))
            for span in spans:
                if span.lane == lane:
                    bar = ((span.start - begin) / 1000, (span.end - span.start) / 1000)
                    axes.broken_barh([bar], (row - 0.4, 0.8), color=colors[span.name], edgecolor="white", linewidth=0.4)
    seen = {span.name for spans in ranks for span in spans}
    patches = [Patch(color=color, label=name) for name, color in colors.items() if name in seen]
    axes.set_yticks([row for row, _ in labels], [text for _, text in labels])
    axes.invert_yaxis()
    axes.set(xlabel="ms", xlim=(0, None), title=title)
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
