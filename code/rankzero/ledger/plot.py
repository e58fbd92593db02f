"""The ledger as a picture: one stacked bar for each moment of a training step."""

from matplotlib.figure import Figure

from rankzero.ledger.ledger import PHASES, Kind, Ledger

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
    axes = figure.subplots()
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
    return figure
