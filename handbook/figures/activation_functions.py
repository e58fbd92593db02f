"""Figures of the chapter on activation functions."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure

CURVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "ReLU": F.relu,
    "leaky ReLU": F.leaky_relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
}


@figure(
    "six-activations",
    caption="Six activation functions (blue) and their derivatives (orange, dashed), which multiply the gradient in "
    "the backward pass. The sigmoid's derivative is at most [0.25](claim:curves-largest-derivative). The "
    "derivatives of sigmoid and tanh vanish on both sides, those of ReLU, GELU and SiLU on the left side only.",
    description="Six panels from -5 to 5. Sigmoid and tanh are S-shaped; their derivatives are bumps around 0, 0.25 "
    "and 1 high. ReLU is 0 on the left and x on the right; its derivative jumps from 0 to 1. Leaky ReLU looks the "
    "same, with a derivative of 0.01 on the left. GELU and SiLU dip slightly below 0 on the left; their derivatives "
    "rise smoothly from 0 to a little above 1 and settle at 1.",
)
def six_activations() -> Figure:
    drawing, rows = style.new_figure(4.3, rows=2, columns=3, sharex=True, sharey=True)
    for axes, (name, curve) in zip(rows.flat, CURVES.items(), strict=True):
        x = torch.linspace(-5, 5, 1001, dtype=torch.float64, requires_grad=True)
        (derivative,) = torch.autograd.grad(curve(x).sum(), x)
        axes.axhline(0, color=style.GRID, linewidth=0.8)
        axes.axvline(0, color=style.GRID, linewidth=0.8)
        axes.plot(x.tolist(), curve(x).tolist(), color=style.BLUE)
        axes.plot(x.tolist(), derivative.tolist(), color=style.ORANGE, linestyle="--", linewidth=1.5)
        axes.set_title(name)
        axes.set(xlim=(-5, 5), ylim=(-1.2, 2.2), xticks=[-4, -2, 0, 2, 4], yticks=[-1, 0, 1, 2])
    rows[0, 0].text(4.9, 1.12, "value", color=style.BLUE, ha="right", va="bottom")
    rows[0, 0].text(4.9, 0.12, "derivative", color=style.ORANGE, ha="right", va="bottom")
    for axes in rows[1]:
        axes.set_xlabel("input")
    return drawing


@figure(
    "dead-units",
    caption="Units of 64 that are off for every example, over 20 steps of SGD at four rates. On raw inputs three steps "
    "at a rate of 0.2 leave [47](claim:large-steps-kill-relus) dead. With centered inputs only the rate of 0.5 kills "
    "units, and only a few.",
    description="Two panels of dead units over steps. Raw inputs: 4 units are dead at the start; at a rate of 0.03 the "
    "number stays, at 0.1 it rises to 15, at 0.2 it rises to 47 at once, at 0.5 to 64. Centered inputs: the lines "
    "stay at 0, except a few units at a rate of 0.5.",
)
def dead_units() -> Figure:
    drawing, panels = style.new_figure(2.8, columns=2, sharey=True)
    colors = dict(zip(("0.03", "0.1", "0.2", "0.5"), (style.BLUE, style.GREEN, style.AMBER, style.ORANGE), strict=True))
    for name, line in measured_chart("large-steps-kill-relus").lines.items():
        inputs, rate = name.split()
        axes = panels[int(inputs == "centered")]
        steps, dead, _, _ = columns(line)
        axes.plot(steps, dead, "o-", color=colors[rate], markersize=2.6, linewidth=1.3)
        if inputs == "raw" or dead[-1] > 0:
            style.label_line(axes, steps[-1], dead[-1], f"rate {rate}", colors[rate])
    for axes, title in zip(panels, ("raw inputs, from 0 to 1", "centered inputs"), strict=True):
        axes.set_title(title)
        axes.set(xlabel="step", xticks=[0, 5, 10, 15, 20], ylim=(-3, 68), yticks=[0, 16, 32, 48, 64])
        axes.grid(axis="y")
    panels[0].set(ylabel="dead units of 64", xlim=(0, 26))
    panels[1].set(xlim=(0, 26))
    return drawing


@figure(
    "kept-by-activation",
    caption="Memory that an MLP of widths C, 4C and C (SwiGLU: 8/3 C) keeps for the backward pass, in units of its "
    "input. The input and the second layer's input take 5 at width 4C; [ReLU, sigmoid and "
    "tanh](claim:kept-between-two-linears) add nothing to them.",
    description="Horizontal bars. ReLU, sigmoid and tanh 5. Leaky ReLU in place 5. Leaky ReLU, GELU, SiLU and ReLU "
    "squared 9. SwiGLU with 8/3 C 11.7. x times sigmoid of x 13. GELU written out 21.",
)
def kept_by_activation() -> Figure:
    bars = {
        "ReLU": "ReLU, sigmoid, tanh",
        "leaky ReLU in place": "leaky ReLU in place",
        "leaky ReLU": "leaky ReLU",
        "GELU": "GELU, SiLU",
        "ReLU squared": "ReLU squared",
        "SwiGLU": "SwiGLU, h = 8/3 C",
        "x * sigmoid(x)": "x * sigmoid(x)",
        "GELU by hand": "GELU written out",
    }
    kept = measured_value("kept-between-two-linears")
    drawing, axes = style.new_figure(2.9)
    for place, (name, label) in enumerate(bars.items()):
        shared = 1 + 8 / 3 if name == "SwiGLU" else 5
        axes.barh(place, shared, 0.66, color=style.GRAY)
        axes.barh(place, kept[name] - shared, 0.66, left=shared, color=style.ACTIVATIONS)
        axes.text(kept[name] + 0.2, place, f"{kept[name]:.3g}", va="center", fontweight="bold")
        axes.text(-0.25, place, label, ha="right", va="center")
    axes.text(15, 1.0, "inputs of the linear layers", color=style.GRAY, va="center", ha="left")
    axes.text(15, 2.2, "added by the activation", color=style.ACTIVATIONS, va="center", ha="left")
    axes.set_yticks([])
    axes.set(ylim=(len(bars) - 0.4, -0.6), xlim=(0, 23), xlabel="kept bytes, in units of the MLP's input")
    return drawing
