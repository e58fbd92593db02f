"""Figures of the page of Lab 03."""

from matplotlib.figure import Figure

from rankzero.claims.toolkit.starters import starter
from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run

LARGEST = 65504.0  # of fp16


def scale_search(gradients: list[float], growth_interval: int) -> tuple[list[float], list[int]]:
    """Returns the starter's scale in each step, and the skipped steps, for the largest gradient of each step."""
    scaler = starter("03").LossScaler(True, 65536.0, growth_interval)
    scales, skipped = [], []
    for step, gradient in enumerate(gradients, 1):
        scales.append(scaler.scale)
        finite = gradient * scaler.scale <= LARGEST
        if not finite:
            skipped.append(step)
        scaler.update(finite)
    return scales, skipped


@figure(
    "lab-03-scale-search",
    caption="The starter's scaler searches for the scale. The gradients are made up: the largest halves twice, then "
    "grows eightfold for six steps. After 5 good steps the scale doubles. Where it exceeds the largest safe scale, a "
    "gradient overflows, the step is skipped, and the scale is halved.",
    description="A staircase of the scale over 60 steps on a logarithmic axis, and above it a line of the largest safe "
    "scale. The scale rises to the line, crosses it by one doubling, and is halved at once; when the line drops, four "
    "halvings follow. Crosses mark the skipped steps.",
)
def scale_search_over_steps() -> Figure:
    gradients = [0.3] * 14 + [0.15] * 14 + [0.075] * 10 + [0.6] * 6 + [0.075] * 16
    scales, skipped = scale_search(gradients, 5)
    steps = range(1, len(scales) + 1)
    drawing, axes = style.new_figure(2.9)
    axes.step(steps, [LARGEST / gradient for gradient in gradients], where="mid", color=style.GRAY, linestyle="--")
    axes.step(steps, scales, where="mid", color=style.BLUE)
    axes.plot(skipped, [scales[step - 1] for step in skipped], "x", color=style.ORANGE, markersize=7, mew=2)
    axes.text(20, 2**19.15, "largest safe scale", color=style.MUTED, ha="center")
    axes.text(9, 2**15.45, "scale", color=style.BLUE, ha="center")
    axes.text(40.5, 2**20.2, "overflow: step skipped", color=style.ORANGE, va="center")
    axes.set_yscale("log", base=2)
    axes.set_yticks([2**power for power in range(16, 21)], [f"{2**power:,}" for power in range(16, 21)])
    axes.set(xlabel="step", ylabel="loss scale", xlim=(0, 61), ylim=(2**15.2, 2**20.6))
    axes.grid(axis="y")
    return drawing


@figure(
    "lab-03-first-run",
    caption="The first run's numbers. Left, how far the first batch's gradient is from fp32's, "
    "[0.0044 of its length](claim:lab-03-off-by-eps) in bf16; the lines mark half an eps, the largest rounding of one "
    "number. Right, the activations of the first step: [15.98 instead of 25.14 MiB](claim:lab-03-activations).",
    description="Left, three bars: bf16 is off by 4.4 thousandths of the gradient's length, fp16 by 0.76, fp16 with a "
    "scale by 0.55; short lines mark half an eps of each format, 3.9 and 0.49 thousandths. Right, two bars of "
    "activations: 25.1 MiB in fp32 and 16.0 MiB in bf16, of which 1.5 MiB are copies of weights.",
)
def first_run() -> Figure:
    drawing, (error, memory) = style.new_figure(2.8, columns=2, width_ratios=(1.25, 1))
    measured = measured_value("lab-03-off-by-eps")
    bars = (("bf16", 2.0**-8, style.BLUE), ("fp16", 2.0**-11, style.ORANGE), ("fp16, scaled", 2.0**-11, style.GREEN))
    for place, (name, half_eps, color) in enumerate(bars):
        error.bar(place, measured[name], 0.6, color=color)
        error.text(place, measured[name] + 0.1, f"{measured[name]:.2g}", ha="center", fontweight="bold")
        error.hlines(1000 * half_eps, place - 0.42, place + 0.42, color=style.INK, linewidth=1.4)
    error.text(0.47, 1000 * 2.0**-8, "half an eps", va="center")
    error.set_xticks(range(3), [name for name, _, _ in bars])
    error.set(ylabel="thousandths of its length", ylim=(0, 5.2), title="Error of the gradient")
    activations = measured_value("lab-03-activations")
    mib = {name: size / 2**20 for name, size in activations.items()}
    copies = mib["bf16 copies of weights"]
    for place, name in enumerate(("fp32", "bf16")):
        memory.bar(place, mib[name], 0.6, color=style.ACTIVATIONS)
        memory.text(place, mib[name] + 0.5, f"{mib[name]:.1f} MiB", ha="center", fontweight="bold")
    memory.bar(1, copies, 0.6, bottom=mib["bf16"] - copies, color=style.WEIGHTS)
    memory.text(1.34, mib["bf16"] - copies / 2, "copies of\nweights", color=style.WEIGHTS, va="center")
    memory.set_xticks(range(2), ("fp32", "bf16"))
    memory.set(ylabel="MiB", ylim=(0, 29), xlim=(-0.5, 2.0), title="Activations")
    return drawing


@figure(
    "lab-03-break-it",
    caption="Two recorded fp16 runs of 120 steps that differ in one line. If the gradient is clipped before it is "
    "unscaled, the model of 106,816 parameters trains without an error, only more slowly.",
    description="Training loss as lines and validation loss as diamonds over 120 steps. Both runs begin at 4.58. The "
    "run that unscales first ends at a validation loss of 2.87, the run that clips first at 3.04.",
)
def break_it() -> Figure:
    drawing, axes = style.new_figure(2.9)
    runs = (
        ("fp16", style.BLUE, "unscaled, then clipped"),
        ("clip-before-unscale", style.ORANGE, "clipped, then unscaled"),
    )
    for name, color, label in runs:
        run = recorded_run("03", name)
        axes.plot(*zip(*run.training, strict=True), "o-", color=color)
        axes.plot(*zip(*run.validation, strict=True), "D", color=color, markersize=6)
        style.label_line(axes, *run.training[-1], label, color, xytext=(10, 0))
    axes.text(38, 3.1, "diamonds: validation", color=style.MUTED, ha="right", va="top")
    axes.set(xlabel="step", ylabel="nats per token", xlim=(0, 164), ylim=(2.5, 4.8))
    axes.set_xticks(range(0, 121, 20))
    return drawing
