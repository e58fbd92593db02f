"""Twin report: ill runs beside their healthy twins, as numbers, tables, plots and a log."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

ILL, HEALTHY = "#d1622b", "#3b6fb6"
UNITS = {"memory": "MiB", "waiting": "share of a step", "seconds": "s per step", "weight_sum": "by rank"}
HEADING = f"{'no':>4}  {'looked at':<18} {'patient':>9} {'healthy':>9}  complaint"


@dataclass
class Run:
    """One run of a patient or of its twin: the log of each rank, or the error that ended it."""

    logs: list[dict[str, list[float]]] = field(default_factory=list)
    error: str = ""


@dataclass
class Case:
    """A patient and its healthy twin, which begins with the same weights, draws the same batches and is not ill."""

    number: str
    complaint: str
    symptom: tuple[str, str]
    ill: Run
    healthy: Run


def number_of(run: Run, symptom: tuple[str, str]) -> float | None:
    """The number that shows the complaint; None where the run has no such number."""
    name, how = symptom
    series = [log[name] for log in run.logs if log.get(name)]
    if not series:
        return None
    if how == "start":
        return series[0][0]
    if how == "growth":  # from the first to the last
        return series[0][-1] - series[0][0]
    if how == "ratio":  # of the slowest rank to the fastest
        means = [statistics.fmean(values) for values in series]
        return max(means) / min(means)
    ends = [statistics.fmean(values[-max(1, len(values) // 10) :]) for values in series]  # of the last tenth
    return max(ends) - min(ends) if how == "spread" else ends[0]


def row(case: Case) -> str:
    """A line of the ward's table."""
    numbers = [number_of(run, case.symptom) for run in (case.ill, case.healthy)]
    errors = ["error" if run.error else "none" for run in (case.ill, case.healthy)]
    words = [f"{n:.3f}" if n is not None else error for n, error in zip(numbers, errors, strict=True)]
    return f"{case.number:>4}  {', '.join(case.symptom):<18} {words[0]:>9} {words[1]:>9}  {shorten(case.complaint)}"


def shorten(text: str, length: int = 46) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rsplit(' ', 1)[0]} …"


def details(case: Case) -> str:
    """All series of the log at ten moments, the patient's beside its twin's; of several ranks, those of each."""
    lines = [f"patient {case.number}: {case.complaint}"]
    for who, run in (("patient", case.ill), ("healthy", case.healthy)):
        if run.error:
            lines += [f"\n{who} ended with an error:", *(f"    {line}" for line in run.error.splitlines())]
    for rank, log in enumerate(case.healthy.logs):
        of_rank = f", rank {rank}" if len(case.healthy.logs) > 1 else ""
        ill = case.ill.logs[rank] if rank < len(case.ill.logs) else {}
        for name, values in ((name, values) for name, values in log.items() if values):
            lines.append(f"\n{name + of_rank:<24}{'patient':>12}{'healthy':>12}")
            places = {*range(0, len(values), -(-len(values) // 9)), len(values) - 1}
            for place in sorted(places):
                cell = f"{ill[name][place]:12.4f}" if place < len(ill.get(name, [])) else f"{'-':>12}"
                lines.append(f"  {place + 1:>5} of {len(values):<11} {cell}{values[place]:12.4f}")
    return "\n".join(lines)


def draw(cases: Sequence[Case]) -> Figure:
    """The series of the complaint, patient and healthy: a small plot for each case; of several ranks, a line each."""
    columns = min(4, len(cases))
    rows = -(-len(cases) // columns)
    figure = Figure(figsize=(max(6, 3.2 * columns), max(4, 2.3 * rows)), layout="constrained")
    for place, case in enumerate(cases, start=1):
        name, how = case.symptom
        axes = figure.add_subplot(rows, columns, place)
        for run, color in ((case.healthy, HEALTHY), (case.ill, ILL)):
            for rank, log in enumerate(run.logs):
                values = log.get(name, [])
                shown = [value - values[0] for value in values] if how == "growth" else values
                axes.plot(range(1, len(shown) + 1), shown, color=color, alpha=0.8 if rank == 0 else 0.5)
        if case.ill.error:
            note = "the patient raises an error" if any(log.get(name) for log in case.healthy.logs) else "an error"
            axes.text(0.97, 0.93, note, color=ILL, fontsize=8, ha="right", va="top", transform=axes.transAxes)
        title = f"{name.replace('_', ' ')}, {UNITS.get(name, 'nats')}"
        axes.set_title(f"{case.number}: {title}{' since the first' if how == 'growth' else ''}", fontsize=9)
        axes.tick_params(labelsize=7)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    lines = [Line2D([], [], color=color) for color in (ILL, HEALTHY)]
    figure.legend(lines, ["patient", "healthy twin"], loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("step, or validation", fontsize=9)
    return figure


def write_log(file: Path, cases: Sequence[Case], settings: dict[str, Any]) -> None:
    """A line per step, of all healthy runs after each other, with the patient's loss beside the healthy loss."""
    events: list[dict[str, Any]] = [{"event": "run", "settings": settings}]
    for case in cases:
        healthy, ill = ((run.logs or [{}])[0].get("loss", []) for run in (case.healthy, case.ill))
        for place, loss in enumerate(healthy):
            beside = {"ill": ill[place]} if place < len(ill) else {}
            events.append({"event": "step", "step": len(events), "loss": loss, "patient": case.number} | beside)
    file.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")


def last_collectives(file: Path, count: int = 2) -> str:
    """Returns the last calls in a dump of torch's flight recorder, one per line, the last one last."""
    calls = json.loads(file.read_text(encoding="utf-8"))["entries"][-count:]
    return "\n".join(
        f"    call {call['collective_seq_id']:>3} of group {call['process_group'][0]}  "
        f"{call['profiling_name'].split(':')[-1]} {call['input_sizes'][0]}"
        for call in calls
    )
