"""Figures of the chapter on checkpoints and faults."""

from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box
from rankzero.ledger.interruptions import Interruptions, young

SECOND, MINUTE = 1 / 3600, 1 / 60  # in hours
INTERVALS = tuple(MINUTE * 2 ** (step / 6) for step in range(61))  # hours: 1 minute to 17 hours
LLAMA_GPUS, LLAMA_HOURS, LLAMA_FAILURES = 16_384, 54 * 24, 419


@figure(
    "lost-work-by-interval",
    caption="Machine time lost by a job of 16,384 GPUs that fails every [3.1 hours](claim:llama-failures), with saves "
    "of 30 seconds. With rare saves, a failure loses much work; with frequent saves, training often waits. Near [13.6 "
    "minutes](claim:llama-interval) lost work and waiting take equal time, and their sum is smallest.",
    description="Three curves over the interval between saves, from 1 minute to 2 hours on a logarithmic axis. Time "
    "spent saving falls from 50 percent to below 1. Lost work rises from below 1 percent to about 40. Their sum has "
    "its minimum near 13.6 minutes, at 7.7 percent, where the two curves cross.",
)
def lost_work_by_interval() -> Figure:
    drawing, axes = style.new_figure(3.3)
    between, save = LLAMA_HOURS / LLAMA_FAILURES, 30 * SECOND
    intervals = [MINUTE * 2 ** (step / 8) for step in range(56)]
    failures = Interruptions(save, failures=1 / between)
    saving = [100 * save / interval for interval in intervals]
    whole = [100 * (failures.machine_time(interval) - 1) for interval in intervals]
    lost = [sum_ - part for sum_, part in zip(whole, saving, strict=True)]
    minutes = [60 * interval for interval in intervals]
    for values, color in ((saving, style.ORANGE), (lost, style.PURPLE), (whole, style.BLUE)):
        axes.plot(minutes, values, color=color)
    best = 60 * young(save, between)
    lowest = 100 * (failures.machine_time(best / 60) - 1)
    axes.plot([best, best], [0, lowest], color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.plot([best], [lowest], "o", color=style.BLUE, markersize=6)
    text = f"save every {best:.1f} minutes:\n{lowest:.1f} % lost"
    axes.text(best, 21, text, ha="center", color=style.BLUE)
    axes.text(1.25, 21, "waiting\nfor saves", color=style.ORANGE, va="center")
    axes.text(70, 11, "work lost\nat failures", color=style.PURPLE, va="center")
    axes.text(51, 21, "sum", color=style.BLUE, va="center", ha="right")
    axes.set_xscale("log", base=2)
    ticks = [1, 2, 5, 10, 20, 60, 120]
    axes.set_xticks(ticks, [f"{tick} min" if tick < 60 else f"{tick // 60} h" for tick in ticks])
    axes.set(xlabel="interval between saves", ylabel="machine time lost, %", ylim=(0, 40), xlim=(1, 120))
    axes.grid(axis="y")
    return drawing


# ------------------------------------------------------------------------------------------------- the files of a save
INSTANTS = (  # the files that a kill and a power cut leave at each instant: name, state
    ("writing", (("ckpt", "old"), ("partial", "torn")), (("ckpt", "old"), ("partial", "torn"))),
    ("file synced", (("ckpt", "old"), ("partial", "new")), (("ckpt", "old"), ("partial", "new"))),
    ("renamed", (("ckpt", "new"),), (("ckpt", "old or new"),)),
    ("folder synced", (("ckpt", "new"),), (("ckpt", "new"),)),
)
STATES = {"old": style.GRAY, "torn": style.ORANGE, "new": style.BLUE, "old or new": style.SKY}


@figure(
    "files-of-a-save",
    caption="The files that remain if a kill or a power cut comes at one of four instants of a save. `ckpt` can be "
    "loaded in all four cases. Below the line are two ways of saving with fewer steps: after both, the only file may "
    "be a torn `ckpt`.",
    description="A table of four instants. While writing: ckpt is old, and a partial file is torn. Once the file is "
    "synced: ckpt is old, the partial file is new and whole. Once it is renamed: ckpt is new after a kill, old or new "
    "after a power cut. Once the folder is synced: ckpt is new in both cases. Two rows below show shorter ways: a save "
    "in place leaves a torn ckpt after a kill, and a rename without fsync can leave a torn ckpt after a power cut.",
)
def files_of_a_save() -> Figure:
    drawing, axes = style.new_figure(3.7)
    style.blank(axes, 30, 15.2)
    left, wide, step = 5.2, 5.2, 6.3
    for row, (text, y) in enumerate((("after a\nkill", 3.6), ("after a\npower cut", 7.6))):
        axes.text(0.2, y, text, va="center", fontweight="bold")
        for place, (_, *cases) in enumerate(INSTANTS):
            for level, (name, state) in enumerate(cases[row]):
                file_box(axes, left + place * step, y - 1.65 + 1.7 * level, wide, name, state)
    for place, (instant, *_) in enumerate(INSTANTS):
        middle = left + place * step + wide / 2
        axes.text(middle, 0.5, instant, ha="center", va="center", fontsize=10, fontweight="bold")
        if place:
            arrow(axes, (left + place * step - 0.95, 0.5), (left + place * step - 0.1, 0.5))
    axes.plot([0.2, 29.8], [9.9, 9.9], color=style.GRID, linewidth=0.9)
    axes.text(0.2, 11.2, "write to ckpt in place", va="center")
    file_box(axes, 11.5, 10.4, wide, "ckpt", "torn")
    axes.text(17.2, 11.2, "after a kill: nothing to load", va="center", color=style.MUTED)
    axes.text(0.2, 13.7, "rename without fsync", va="center")
    file_box(axes, 11.5, 12.9, wide, "ckpt", "torn")
    axes.text(17.2, 13.7, "possible after a power cut", va="center", color=style.MUTED)
    return drawing


def file_box(axes: Axes, x: float, y: float, wide: float, name: str, state: str) -> None:
    """Draws a file with its name and state; a torn file has a dashed edge."""
    box(axes, x, y, wide, 1.45, edge=STATES[state], line=1.6, rounding=0.15)
    if state == "torn":
        axes.patches[-1].set_linestyle((0, (3, 2)))
    axes.text(x + wide / 2, y + 0.75, f"{name}: {state}", ha="center", va="center", fontsize=9.5)


# ------------------------------------------------------------------------------------------------------------ the stall
@figure(
    "stall-of-a-save",
    caption="Steps of a GPT of 6.5 million parameters on 2 processes with one save of 78 MB, measured on two busy CPU "
    "cores. The synchronous save stalls training until the files are written. The asynchronous save stalls it only for "
    "the copy, [less than half as long](claim:stall-of-a-save).",
    description="Three rows of steps on one time axis. Without a save, the steps follow one another. With a "
    "synchronous save, one long stall separates two steps. With an asynchronous save the stall is short, and a thin "
    "bar below it shows that the files are written during the following steps.",
)
def stall_of_a_save() -> Figure:
    drawing, axes = style.new_figure(2.9)
    lines = measured_chart("stall-of-a-save").lines
    rows = ("no save", "synchronous", "asynchronous")
    for place, name in enumerate(rows):
        now = 0.0
        (saved_before, stall, _, _), *_ = lines[f"{name}: stall"]
        (_, writing, _, _), *_ = lines[f"{name}: write"]
        steps, times, _, _ = columns(lines[name])
        for number, time in zip(steps, times, strict=True):
            if number == saved_before and name != "no save":
                axes.barh(place, stall, 0.4, left=now, color=style.ORANGE)
                axes.text(now + stall / 2, place - 0.36, f"stall: {stall:,.0f} ms", ha="center", color=style.ORANGE)
                now += stall
                if writing:
                    axes.barh(place + 0.3, writing, 0.1, left=now, color=style.GREEN)
                    axes.text(now, place + 0.6, "files are written", color=style.GREEN)
            axes.barh(place, time, 0.4, left=now, color=style.BLUE, edgecolor=style.PAPER, linewidth=0.8)
            now += time
    axes.text(0, -0.3, "one box per step", color=style.BLUE)
    axes.set_yticks(range(3), rows)
    axes.set(xlabel="time, ms", ylim=(2.8, -0.7))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return drawing


# ------------------------------------------------------------------------------------------------------------- dollars
ON_DEMAND, SPOT = 40.0, 16.0  # example prices of the job, dollars per hour
TRAINING = 100  # hours
EXAMPLE = Interruptions(save=60 * SECOND, restart=5 * MINUTE, failures=1 / 400)
JOBS = {
    "on demand": (ON_DEMAND, EXAMPLE),
    "spot, 30 s of notice": (SPOT, replace(EXAMPLE, preemptions=1 / 6, notice=30 * SECOND)),
    "spot, 120 s of notice": (SPOT, replace(EXAMPLE, preemptions=1 / 6, notice=120 * SECOND)),
}


@figure(
    "spot-or-on-demand",
    caption="Expected dollars for 100 hours of training at example prices: 40 dollars per hour on demand, 16 on spot "
    "machines that are taken back every 6 hours on average. The job fails every 400 hours. Saves take 60 seconds. "
    "With a notice of 30 seconds, which is too short for a save, the spot job costs at best [1,751 "
    "dollars](claim:spot-dollars). The dots are the cheapest intervals, and the crosses are Young's: both cost nearly "
    "the same.",
    description="Three curves of dollars over the interval between saves, from 1 minute to 17 hours. On demand the "
    "cost falls from 8,000 to about 4,000 dollars. Spot with a notice of 30 seconds falls to 1,750 dollars near half "
    "an hour and rises steeply beyond 4 hours. Spot with a notice of 120 seconds stays near 1,650 dollars.",
)
def spot_or_on_demand() -> Figure:
    drawing, axes = style.new_figure(3.3)
    minutes = [60 * interval for interval in INTERVALS]
    colors = style.GRAY, style.ORANGE, style.BLUE
    for color, (name, (price, job)) in zip(colors, JOBS.items(), strict=True):
        costs = [job.dollars(interval, TRAINING, price) for interval in INTERVALS]
        axes.plot(minutes, costs, color=color)
        best, root = job.best_interval(), young(job.save, 1 / job.losses)
        for interval, marker in ((best, "o"), (root, "x")):
            axes.plot(60 * interval, job.dollars(interval, TRAINING, price), marker, color=color, markersize=6)
        style.label_line(axes, minutes[-1], min(costs[-1], 7800), name, color)
    axes.set_xscale("log", base=2)
    ticks = [1, 4, 15, 60, 240, 960]
    axes.set_xticks(ticks, [f"{tick} min" if tick < 60 else f"{tick // 60} h" for tick in ticks])
    axes.set(
        xlabel="interval between saves", ylabel="dollars for 100 hours of training", ylim=(0, 8200), xlim=(1, 1024)
    )
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y")
    return drawing
