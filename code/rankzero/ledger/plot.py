"""Plots of a ledger, a stacked bar per moment of a step, and of a plan, with the time of a step beside the bars."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.ledger.ledger import PHASES, Kind, Ledger
from rankzero.ledger.plan.plan import Plan
from rankzero.ledger.plan.step_time import HIDDEN, LABELS

COLORS = {
    Kind.WEIGHTS: "#4c72b0",
    Kind.GRADIENTS: "#dd8452",
    Kind.OPTIMIZER: "#55a868",
    Kind.ACTIVATIONS: "#c44e52",
    Kind.TEMPORARY: "#937860",
    Kind.COMMUNICATION: "#8172b3",
}


def plot_ledgers(*ledgers: Ledger) -> Figure:
    """Draws bars in GB (10^9 bytes); with several ledgers, side by side at each moment."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    draw_ledgers(figure.subplots(), *ledgers)
    return figure


def draw_ledgers(axes: Axes, *ledgers: Ledger) -> None:
    """Draws the bars of `plot_ledgers` into given axes."""
    width = 0.8 / len(ledgers)
    for index, ledger in enumerate(ledgers):
        places = [moment - 0.4 + width * (index + 0.5) for moment in range(len(PHASES))]
        base = [0.0] * len(PHASES)
        for kind, color in COLORS.items():
            heights = [ledger.at(phase)[kind] / 1e9 for phase in PHASES]
            if any(heights):
                label = kind.value if index == 0 else None
                axes.bar(places, heights, width * 0.94, bottom=base, color=color, label=label, alpha=1 - 0.3 * index)
                base = [below + height for below, height in zip(base, heights, strict=True)]
        if len(ledgers) > 1:
            for place, height in zip(places, base, strict=True):
                axes.text(place, height, ledger.title, ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(PHASES)), PHASES)
    axes.set_ylabel("GB (10⁹ bytes) on one rank")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.08)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def plot_plan(plan: Plan) -> Figure:
    """Draws GB on the fullest rank at each moment under the GPU's memory; beside it, if the step fits, its time."""
    figure = Figure(figsize=(12.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.45, 1))
    draw_ledgers(left, plan.ledger)
    memory, peak = plan.hardware.memory / 1e9, plan.ledger.peak()[1] / 1e9
    if peak > memory / 4:  # otherwise the line would compress the bars
        left.axhline(memory, color="black", linestyle="--", linewidth=1)
        left.text(-0.45, memory, f"{plan.hardware.name}: {memory:g} GB", va="bottom", fontsize=8)
        left.set_ylim(top=1.12 * max(memory, peak))
    ranks = f"{plan.name}, one rank of {plan.layout.world_size:,}"
    left.set_title(f"{ranks}: at most {peak:.3g} GB of {memory:g}", fontsize=10)
    if plan.room >= 0:
        draw_time(right, plan)
    else:
        right.set_axis_off()
    return figure


def draw_time(axes: Axes, plan: Plan) -> None:
    """Draws the parts of a step end to end, and hidden communication below them."""
    step = plan.estimate
    factor, unit = (1.0, "s") if step.seconds >= 0.1 else (1e3, "ms")
    names: list[str] = []
    begin = 0.0
    for name, seconds in step.parts.items():
        if seconds:
            axes.barh(len(names), seconds * factor, left=begin, color="#4c72b0" if name == "compute" else "#c44e52")
            begin += seconds * factor
            share = f" {seconds * factor:.3g} {unit}, {seconds / step.seconds:.1%}"
            axes.text(begin, len(names), share, va="center", fontsize=8)
            names.append(LABELS[name])
    if step.hidden:
        axes.barh(len(names), step.hidden * factor, color="#bbbbbb")
        text = f" {step.hidden * factor:.3g} {unit}, meanwhile"
        axes.text(step.hidden * factor, len(names), text, va="center", fontsize=8)
        names.append(HIDDEN)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(right=1.4 * factor * max(step.seconds, step.hidden))
    axes.set_xlabel(f"{unit} of one step{plan.bound}")
    axes.set_title(f"one step: {step.seconds * factor:.3g} {unit}, MFU {step.mfu:.1%}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
