"""Plots of a loop that loads and trains: waiting and training time per step, and a timeline of workers and steps."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from rankzero.learn.profiling.loader_record import Record, seconds_of

LOAD, STEP, WAIT = "#e69f00", "#3b6fb6", "#d1622b"


def plot_ladder(records: Mapping[str, Record]) -> Figure:
    """Draws the milliseconds of each loader's average step: training, and waiting for the batch."""
    figure = Figure(figsize=(8, 0.45 * len(records) + 1.3), layout="constrained")
    axes = figure.subplots()
    for row, record in enumerate(records.values()):
        whole, steps = (1000 * seconds / len(record.moments) for seconds in seconds_of(record.moments))
        axes.barh(row, steps, color=STEP)
        axes.barh(row, whole - steps, left=steps, color=WAIT, hatch="////", edgecolor="white")
        axes.text(whole, row, f" waits {1 - steps / whole:.0%}", va="center")
    axes.set_yticks(range(len(records)), list(records))
    axes.invert_yaxis()
    axes.margins(x=0.14)
    axes.set(xlabel="ms per step: training (blue), waiting for the batch (hatched)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def plot_loader_timeline(records: Mapping[str, Record], steps: int = 16) -> Figure:
    """Draws the first steps of each loader: a row for each worker, a row for the steps, on one scale of time."""
    heights = [len({moment.worker for moment in record.moments[:steps]}) + 1.4 for record in records.values()]
    figure = Figure(figsize=(9, 0.32 * sum(heights) + 1.2), layout="constrained")
    panels = figure.subplots(len(records), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for axes, (name, record) in zip(panels, records.items(), strict=True):
        shown, begin = record.moments[:steps], record.moments[0].asked
        workers = sorted({moment.worker for moment in shown})
        for moment in shown:
            row = workers.index(moment.worker)
            spans = ((moment.load_begin, moment.load_end, row, LOAD), (moment.taken, moment.done, len(workers), STEP))
            for start, end, y, color in spans:
                axes.barh(y, 1000 * (end - start), left=1000 * (start - begin), color=color, edgecolor="white", lw=0.5)
            wait, since = 1000 * (moment.taken - moment.asked), 1000 * (moment.asked - begin)
            axes.barh(len(workers), wait, left=since, color="none", edgecolor=WAIT, hatch="////", lw=0.5)
        axes.set_yticks(range(len(workers) + 1), [f"loads ({worker})" for worker in workers] + ["trains"])
        axes.invert_yaxis()
        axes.set_title(name, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(f"ms since the loop asked for its first batch; the first {steps} batches; waiting is hatched")
    return figure
