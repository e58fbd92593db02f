"""Trace of one process: exported by torch.profiler in Chrome's format, read, tabulated and drawn."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

Event = dict[str, Any]

COLORS = {"data": "#d1622b", "forward": "#3b6fb6", "backward": "#8c6bb1", "optimizer": "#5a8f4e", "idle": "#c9c9c9"}


def read_trace(path: Path) -> list[Event]:
    """Returns the events of a trace file; times are in µs."""
    events: list[Event] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def ranges(events: list[Event], cat: str = "user_annotation") -> list[tuple[float, float, str]]:
    """Returns (start, end, name) of the events of one category, sorted by start. Times are in µs."""
    return sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e.get("cat") == cat)


def device_busy(events: list[Event]) -> float | None:
    """Returns the fraction of the steps' time in which the GPU runs a kernel or copies; None without a GPU."""
    work = [span for kind in ("kernel", "gpu_memcpy", "gpu_memset") for span in ranges(events, kind)]
    steps = [(start, end) for start, end, name in ranges(events) if name.startswith("ProfilerStep#")]
    if not work:
        return None
    busy, until = 0.0, 0.0
    for start, end, _ in sorted(work):  # kernels of several streams overlap: each instant counts once
        start = max(start, until)
        if any(begin <= start < stop for begin, stop in steps):
            busy += max(0.0, end - start)
        until = max(until, end)
    return busy / sum(stop - begin for begin, stop in steps)


def operations_table(events: list[Event], rows: int = 6) -> str:
    """Returns a table of the operations with the most self time, or of the GPU's kernels, with their calls per step."""
    steps = sum(name.startswith("ProfilerStep#") for _, _, name in ranges(events))
    operations = _own_times(events)
    kernels: dict[str, list[float]] = {}
    for start, end, name in ranges(events, "kernel"):
        kernels.setdefault(name, []).append(end - start)
    heading, times = ("kernel", kernels) if kernels else ("operation, by self time in a step", operations)
    total = sum(map(sum, times.values()))
    lines = [f"{heading:<58}{'calls':>7}{'ms':>8}{'share':>7}", "-" * 80]
    for name in sorted(times, key=lambda name: -sum(times[name]))[:rows]:
        spent = sum(times[name])
        lines.append(
            f"{name[:58]:<58}{len(times[name]) / steps:>7.1f}{spent / steps / 1000:>8.2f}{spent / total:>7.3f}"
        )
    for label, group in (("all operations", operations), ("all kernels", kernels)):
        if group:
            spent, calls = sum(map(sum, group.values())), sum(map(len, group.values()))
            lines.append(f"{label:<58}{calls / steps:>7.1f}{spent / steps / 1000:>8.2f}")
    reads = len(operations.get("aten::_local_scalar_dense", ()))
    lines.append(f"{'numbers handed to Python (_local_scalar_dense)':<58}{reads / steps:>7.1f}")
    return "\n".join(lines)


def _own_times(events: list[Event]) -> dict[str, list[float]]:
    """Returns the self time in µs of each call of each PyTorch operation, by name, without autograd's engine."""
    self_times: dict[str, list[float]] = {}
    open_calls: list[tuple[int, float, list[float], int]] = []  # thread, end, the list that holds its time, its index
    operations = [e for e in events if e.get("cat") == "cpu_op" and e["name"].startswith("aten::")]
    for op in sorted(operations, key=lambda e: (e["tid"], e["ts"], -e["dur"])):
        while open_calls and (open_calls[-1][0] != op["tid"] or open_calls[-1][1] <= op["ts"]):
            open_calls.pop()
        if open_calls:
            _, _, times, index = open_calls[-1]
            times[index] -= op["dur"]
        times_of_op = self_times.setdefault(op["name"], [])
        times_of_op.append(op["dur"])
        open_calls.append((op["tid"], op["ts"] + op["dur"], times_of_op, len(times_of_op) - 1))
    return self_times


def plot_timeline(events: list[Event], steps: int = 3) -> Figure:
    """Draws the first steps of a trace: a row per phase, a row for time without a phase, and a row for operations."""
    named = ranges(events)
    shown = [(start, end) for start, end, name in named if name.startswith("ProfilerStep#")][:steps]
    begin, end = shown[0][0], shown[-1][1]

    def bars(spans: list[tuple[float, float, str]]) -> list[tuple[float, float]]:
        return [((start - begin) / 1000, (stop - start) / 1000) for start, stop, _ in spans if begin <= start < end]

    phases = [span for span in named if span[2] in COLORS]
    rows = {name: bars([span for span in phases if span[2] == name]) for name in COLORS if name != "idle"}
    rows["idle"] = _gaps(shown, phases, begin)
    rows["operations"] = bars(_outermost(ranges(events, "cpu_op")))
    if kernels := ranges(events, "kernel"):
        rows["GPU kernels"] = bars(kernels)
    figure = Figure(figsize=(10, 0.45 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, (name, spans) in enumerate(rows.items()):
        hairline = 0.7 if name in COLORS else 0  # so that a phase of a few µs is seen
        axes.broken_barh(spans, (row - 0.36, 0.72), color=COLORS.get(name, "#333333"), linewidth=hairline)
        share = sum(length for _, length in spans) / (sum(stop - start for start, stop in shown) / 1000)
        if name in COLORS:
            axes.text(1.01, row, f"{share:.3f}", transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    for start, stop in shown:
        for edge in (start, stop):
            axes.axvline((edge - begin) / 1000, color="#999999", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    title = f"{len(shown)} {'step' if len(shown) == 1 else 'steps'}; at the right, each phase's fraction of them"
    axes.set(xlabel="ms", xlim=(0, (end - begin) / 1000), title=title)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _outermost(spans: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """Returns `spans` without those that begin before an earlier span has ended and would be drawn on top of it."""
    outermost: list[tuple[float, float, str]] = []
    for span in spans:
        if not outermost or span[0] >= outermost[-1][1]:
            outermost.append(span)
    return outermost


def _gaps(
    steps: list[tuple[float, float]], phases: list[tuple[float, float, str]], begin: float
) -> list[tuple[float, float]]:
    """Returns (start, length) in ms of the time inside the steps that no phase covers."""
    gaps = []
    for step_start, step_end in steps:
        now = step_start
        for start, stop, _ in [*phases, (step_end, step_end, "")]:
            if step_start <= start <= step_end:
                if start > now:
                    gaps.append(((now - begin) / 1000, (start - now) / 1000))
                now = max(now, stop)
    return gaps


def plot_by_depth(series: dict[str, list[float]], ylabel: str) -> Figure:
    """Draws each series over depth, the first layer at the left, on a logarithmic scale."""
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for name, values in series.items():
        axes.plot(range(1, len(values) + 1), values, ".-", label=name)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="layer, counted from the input", ylabel=ylabel)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
