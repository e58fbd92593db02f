"""Figures of the chapter on regularization."""

import math

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure

CLASSES, SMOOTHING = 16, 0.1


@figure(
    "two-loss-curves",
    caption="A GPT of 13,408 parameters trained on 512 predictions. The training loss falls to "
    "[0.15 nats](claim:two-curves). The validation loss is lowest at step 15 and ends at "
    "[4.55 nats](claim:two-curves), worse than guessing.",
    description="Two lines of loss over 80 steps, from 2.77. The training loss falls steadily to 0.15. The validation "
    "loss falls to 2.40 at step 15 and then rises to 4.55. Dotted lines mark guessing at 2.77 and the source itself "
    "at 2.03.",
)
def two_loss_curves() -> Figure:
    drawing, axes = style.new_figure(3.1)
    numbers, lines = measured_value("two-curves"), measured_chart("two-curves").lines
    for level, name in (("guessing", "guessing"), ("source", "the source itself")):
        axes.axhline(numbers[level], color=style.MUTED, linewidth=0.9, linestyle=":")
        axes.text(80, numbers[level] + 0.06, name, color=style.MUTED, ha="right", va="bottom", fontsize=9)
    for name, color in (("training", style.BLUE), ("validation", style.ORANGE)):
        steps, losses, _, _ = columns(lines[name])
        axes.plot(steps, losses, "o-", color=color)
        style.label_line(axes, steps[-1], losses[-1], f"{name} {losses[-1]:.2f}", color)
    best = numbers["best at step"]
    axes.plot([best], [numbers["best"]], "o", color=style.ORANGE, markersize=8)
    axes.text(best, numbers["best"] + 0.62, f"best: {numbers['best']:.2f}", color=style.ORANGE, ha="center")
    axes.set(xlabel="step", ylabel="loss, nats per letter", xlim=(0, 96), ylim=(0, 4.9), xticks=range(0, 81, 20))
    return drawing


@figure(
    "validation-by-method",
    caption="Validation loss of the same run with one change at a time. Weight decay, dropout and label smoothing "
    "slow the rise, but leave the lowest point where it was. Four times the text lowers it by "
    "[0.21 nats](claim:text-moves-the-best).",
    description="Six lines of validation loss over 80 steps. Without a regularizer the line rises to 4.5 after step "
    "15. With label smoothing it ends at 3.7, with dropout at 3.0, with weight decay at 2.8. All four have their "
    "lowest point near 2.4. With 4 times the text the line falls to 2.2 and ends at 2.4; with 16 times it falls to "
    "2.1.",
)
def validation_by_method() -> Figure:
    drawing, axes = style.new_figure(3.4)
    colors = (style.GRAY, style.AMBER, style.PURPLE, style.GREEN, style.SKY, style.BLUE)
    shifts = {"dropout 0.2": 5, "weight decay 5": -3}  # points, where two names are close
    for (name, line), color in zip(measured_chart("text-moves-the-best").lines.items(), colors, strict=True):
        steps, losses, _, _ = columns(line)
        axes.plot(steps, losses, color=color)
        style.label_line(axes, steps[-1], losses[-1], name, color, xytext=(6, shifts.get(name, 0)))
    axes.plot([0, 80], [math.log(CLASSES)] * 2, color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.text(13, math.log(CLASSES) + 0.03, "guessing", color=style.MUTED, va="bottom", fontsize=9)
    axes.set(xlabel="step", ylabel="validation loss, nats per letter", xlim=(0, 106), ylim=(1.9, 4.7))
    axes.set_xticks(range(0, 81, 20))
    return drawing


@figure(
    "smoothed-loss",
    caption="Loss against the probability of the right class, for 16 classes; the other 15 share the rest evenly. "
    "The plain loss falls to 0. The loss with smoothing 0.1 is lowest, [0.565 nats](claim:smoothed-floors), at a "
    "probability of 0.906, and rises beyond it.",
    description="Two curves over the probability of the right class from 0.3 to 1. The plain loss falls from 1.2 to 0. "
    "The smoothed loss falls from 1.4 to 0.565 at 0.906, marked by a dot, and rises steeply toward 1.",
)
def smoothed_loss() -> Figure:
    drawing, axes = style.new_figure(2.7)
    other = SMOOTHING / CLASSES  # target of each other class
    right = 1 - SMOOTHING + other
    probabilities = [0.3 + step * 0.7 / 2000 for step in range(2000)]

    def smoothed(p: float) -> float:
        return -right * math.log(p) - (CLASSES - 1) * other * math.log((1 - p) / (CLASSES - 1))

    axes.plot(probabilities, [-math.log(p) for p in probabilities], color=style.BLUE)
    axes.plot(probabilities, [smoothed(p) for p in probabilities], color=style.ORANGE)
    axes.plot([right], [smoothed(right)], "o", color=style.ORANGE, markersize=7)
    axes.text(right, smoothed(right) + 0.1, f"{smoothed(right):.3f}", color=style.ORANGE, ha="center")
    axes.text(0.55, 1.02, "with smoothing 0.1", color=style.ORANGE)
    axes.text(0.5, 0.42, "plain", color=style.BLUE)
    axes.set(xlabel="probability of the right class", ylabel="loss, nats", xlim=(0.3, 1), ylim=(0, 1.5))
    return drawing


@figure(
    "average-of-weights",
    caption="Validation loss of the weights and of their average with β = 0.9. Left: with new text in every step the "
    "average lags at first and ends [0.014 nats](claim:average-is-no-cure) better. Right: on repeated text the average "
    "overfits too, a few steps later.",
    description="Two panels of validation loss over 80 steps. Left, both lines fall from 2.8 to 2.1; the average is "
    "higher until about step 40, then slightly lower. Right, both fall to 2.4 and rise again, the weights to 4.55 and "
    "the average to 4.2.",
)
def average_of_weights() -> Figure:
    lines = measured_chart("average-is-no-cure").lines
    drawing, panels = style.new_figure(2.8, columns=2)
    for axes, run, title in zip(panels, ("fresh", "overfitted"), ("new text in every step", "32 lines"), strict=True):
        for name, color in (("weights", style.GRAY), ("average", style.BLUE)):
            steps, losses, _, _ = columns(lines[f"{name} {run}"])
            axes.plot(steps, losses, color=color)
            if run == "overfitted":
                style.label_line(axes, steps[-1], losses[-1], name, color)
        axes.set_title(title)
        axes.set(xlabel="step", xticks=range(0, 81, 20))
    panels[0].set(ylabel="validation loss, nats per letter", xlim=(0, 81))
    panels[1].set(xlim=(0, 102))
    return drawing
