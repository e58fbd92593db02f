"""Figures of the chapter on stability and debugging."""

import math

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

FALLING = ("01", "05", "07", "08", "09", "12")


@figure(
    "falling-and-ill",
    caption="Six patients (orange), each beside its healthy twin (blue), which has the same weights at the start and "
    "draws the same batches. All six orange losses fall, and none of the six runs raises an error.",
    description="Six small plots of loss over steps. In patients 01, 07 and 08 the orange line falls more slowly than "
    "the blue line and ends far above it. In 05 it levels off near 1.5. In 09 it begins three times as high. In 12 it "
    "falls to 0, far below the blue line.",
)
def falling_and_ill() -> Figure:
    lines = measured_chart("lab-16-ward").lines
    drawing, panels = style.new_figure(3.6, 2, 3)
    for axes, number in zip(panels.flat, FALLING, strict=True):
        for who, color in (("healthy", style.BLUE), ("patient", style.ORANGE)):
            x, loss, *_ = columns(lines[f"{number} {who} 0"])
            axes.plot(x, loss, color=color, linewidth=1.5)
        axes.set_title(f"patient {number}", fontsize=10)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
    for axes in panels[:, 0]:
        axes.set_ylabel("loss, nats")
    for axes in panels[1]:
        axes.set_xlabel("step")
    return drawing


@figure(
    "random-data",
    caption="The same models on random tokens, of which none can be predicted. The healthy loss stays near ln 96, the "
    "loss of equal probabilities. Both losses below that line prove that the targets reach the model's inputs; they "
    "end at [0.01 and 0.35](claim:random-data-finds-leaks).",
    description="Three lines over up to 300 steps and a dotted line at 4.56 nats. The healthy line stays on the dotted "
    "line. An orange line falls to 0 within 30 steps, and a purple line falls below 1 within 60 steps.",
)
def random_data() -> Figure:
    drawing, axes = style.new_figure(2.9)
    lines = measured_chart("random-data-finds-leaks").lines
    axes.axhline(math.log(96), color=style.MUTED, linestyle=":", linewidth=1.2)
    for name, color in (("healthy text", style.BLUE), ("unshifted", style.ORANGE), ("no mask", style.PURPLE)):
        x, loss, *_ = columns(lines[name])
        axes.plot(x, loss, color=color)
    axes.text(300, math.log(96) + 0.12, "ln 96", color=style.MUTED, ha="right", va="bottom")
    axes.text(106, 4.3, "healthy", color=style.BLUE, va="top")
    axes.text(104, 0.13, "targets are the inputs", color=style.WORDS[style.ORANGE], va="center", fontsize=9)
    axes.text(104, 0.85, "later tokens are visible", color=style.PURPLE, va="center")
    axes.set(xlabel="step", ylabel="loss, nats per token", xlim=(0, 302), ylim=(0, 5.4))
    axes.grid(axis="y")
    return drawing


LOOKS = (  # in the order of rankzero.triage.judge
    ("Do the ranks agree?", "weights, batches, times, collectives"),
    ("Does the script run to its end?", "the message, and the line of the script"),
    ("Does each update use its own gradients?", "zero_grad, sums, clipping, graph, optimizer"),
    ("Do training and validation run in their modes?", "train() and eval()"),
    ("Is the first loss near ln K?", "initial weights, scale of the inputs"),
    ("Does the loss see logits, and no output its target?", "softmax, shift, mask"),
    ("Are batches new, labels right, held-out data held out?", "random seed, shuffling, split"),
    ("Does the rate follow its plan?", "unit of the schedule: batches or epochs"),
    ("Do time and memory of a step stay small?", "loading, graphs that are kept"),
    ("Does the loss fall?", "learning rate, labels"),
)


@figure(
    "triage-tree",
    caption="The looks of `rankzero triage`, in the order in which it names causes. A look that explains others comes "
    "first. A loss that does not fall is only a symptom: it counts if no look above it has found a cause.",
    description="Ten boxes with questions below each other, joined by blue arrows marked yes. From each box an orange "
    "arrow marked no leads right to the place to look at. From top to bottom: ranks, errors, gradients, modes, first "
    "loss, logits and visible targets, data, learning rate, time and memory, loss.",
)
def triage_tree() -> Figure:
    drawing, axes = style.new_figure(5.6)
    height, gap = 2.0, 0.9
    axes.set(xlim=(0, 41), ylim=((height + gap) * len(LOOKS) + 1.2, 0))
    axes.set_axis_off()
    for row, (question, place) in enumerate(LOOKS):
        top = 0.1 + (height + gap) * row
        middle = top + height / 2
        box(axes, 0.1, top, 21.5, height, question, edge=style.BLUE, size=9)
        arrow(axes, (21.7, middle), (24.3, middle), color=style.ORANGE)
        axes.text(22.9, middle - 0.15, "no", color=style.WORDS[style.ORANGE], ha="center", va="bottom", fontsize=9)
        box(axes, 24.4, top, 16.5, height, place, edge=style.ORANGE, size=9)
        arrow(axes, (10.8, top + height), (10.8, top + height + gap), color=style.BLUE)
        axes.text(11.2, top + height + gap / 2, "yes", color=style.BLUE, va="center", fontsize=9)
    axes.text(
        10.8, (height + gap) * len(LOOKS) + 0.6, "no sign of a known bug", ha="center", va="center", weight="bold"
    )
    return drawing
