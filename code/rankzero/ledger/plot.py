"""The ledger as a picture: one stacked bar for each moment of a training step. A plan: beside it, where time goes."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.ledger.ledger import PHASES, Kind, Ledger
from rankzero.ledger.plan import Plan

COLORS = {
    Kind.WEIGHTS: "#4c72b0",
    Kind.GRADIENTS: "#dd8452",
    Kind.OPTIMIZER: "#55a868",
    Kind.ACTIVATIONS: "#c44e52",
    Kind.TEMPORARY: "#937860",
    Kind.COMMUNICATION: "#8172b3",
}


def plot_ledgers(*ledgers: Ledger) -> Figure:
    """Bars in GB (10^9 bytes); with several ledgers, they stand side by side at each moment."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    draw_ledgers(figure.subplots(), *ledgers)
    return figure


def draw_ledgers(axes: Axes, *ledgers: Ledger) -> None:
    """Those bars into given axes."""
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
    """Left, GB on the fullest rank at each moment, under what its GPU has; right, the seconds of a step."""
    figure = Figure(figsize=(12.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.45, 1))
    draw_ledgers(left, plan.ledger)
    memory = plan.hardware.memory / 1e9
    left.axhline(memory, color="black", linestyle="--", linewidth=1)
    left.text(-0.45, memory, f"{plan.hardware.name}: {memory:g} GB", va="bottom", fontsize=8)
    left.set_ylim(top=1.12 * max(memory, plan.ledger.peak()[1] / 1e9))
    left.set_title(f"{plan.name} over {plan.layout.world_size:,} ranks: one rank holds", fontsize=10)

    step = plan.estimate
    parts = {name: seconds for name, seconds in step.parts.items() if seconds} | {"hidden communication": step.hidden}
    begin, names = 0.0, list(parts)
    for place, (name, seconds) in enumerate(parts.items()):
        hidden = name.startswith("hidden")
        start, color = (0.0, "#bbbbbb") if hidden else (begin, "#4c72b0" if name == "compute" else "#c44e52")
        right.barh(place, seconds, left=start, color=color)
        share = "meanwhile" if hidden else f"{seconds / step.seconds:.1%}"
        right.text(start + seconds, place, f" {seconds:.3g} s, {share}", va="center", fontsize=8)
        begin += 0 if hidden else seconds
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set_xlim(right=1.4 * max(step.seconds, step.hidden))
    right.set_xlabel("seconds of one step, at least")
    right.set_title(f"one step: {step.seconds:.3g} s, MFU {step.mfu:.1%}", fontsize=10)
    right.spines[["top", "right"]].set_visible(False)
    return figure
