"""Figures of the chapter on mental models."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box


@figure(
    "pictures-of-a-step",
    caption="Twelve pictures of this chapter, each under the part of a training step that it explains. The pictures in "
    "the band below concern the whole step.",
    description="A row of five boxes joined by arrows: batch, forward, loss and backward, gradients, update; an arrow "
    "leads from update back to batch. Under each box are names of mental models: poll; tape, stack; hill; ruler, one "
    "large process, ring; filter. A band below all boxes: ledger, roofline, queue, photograph.",
)
def pictures_of_a_step() -> Figure:
    drawing, axes = style.new_figure(2.9)
    style.blank(axes, 25, 9.9)
    places = {
        "batch": ("poll",),
        "forward": ("stack",),
        "backward": ("tape", "hill"),
        "gradients": ("one process", "ring"),
        "update": ("filter", "ruler"),
    }
    for index, (place, names) in enumerate(places.items()):
        x = 0.2 + 5.05 * index
        box(axes, x, 1.6, 4.2, 1.7, place, color=style.BLUE)
        if index:
            arrow(axes, (x - 0.85, 2.45), (x, 2.45))
        for row, name in enumerate(names):
            box(axes, x, 3.8 + 1.6 * row, 4.2, 1.3, name, rounding=0.3)
    arrow(axes, (22.5, 1.5), (2.3, 1.5), bend=0.07)
    axes.text(12.4, 0.35, "the next step", ha="center", va="center", color=style.MUTED)
    for index, (name, question) in enumerate(
        {"ledger": "what it holds", "roofline": "how fast", "queue": "who waits", "photograph": "what it needs"}.items()
    ):
        box(axes, 0.2 + 6.2 * index, 7.3, 5.8, 2.2, f"{name}:\n{question}", color=style.PANEL, edge=style.ORANGE)
    return drawing


@figure(
    "same-hill-two-rates",
    caption="Gradient descent on one parabola from one initial point, at two rates. Every step goes in the direction "
    "in which the loss falls. With [rate × curvature](claim:largest-stable-rate) below 2 the loss falls, above 2 it "
    "rises.",
    description="Two lines of loss over 12 steps on a logarithmic axis. At rate times curvature 1.8 the line falls "
    "from 1 to below 0.01. At 2.2 it rises from 1 to above 50.",
)
def same_hill_two_rates() -> Figure:
    drawing, axes = style.new_figure(2.5)
    steps = range(13)
    for product, color in ((1.8, style.BLUE), (2.2, style.ORANGE)):
        losses = [(1 - product) ** (2 * step) for step in steps]  # each step multiplies the distance by 1 - product
        axes.plot(steps, losses, "o-", color=color)
        style.label_line(axes, steps[-1], losses[-1], f"rate × curvature = {product}", color)
    axes.axhline(1, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set(xlabel="steps", ylabel="loss, of the first", xlim=(0, 17))
    axes.set_xticks([0, 4, 8, 12])
    axes.grid(axis="y")
    return drawing
