"""Figures of the chapter on loss functions."""

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure


@figure(
    "loss-of-a-probability",
    caption="Cross-entropy of one token by the probability of the right token. An untrained model gives each of "
    "96 characters about 1/96, so its loss is near [4.56 nats](claim:untrained-loss-near-ln-v). The loss has no upper "
    "limit. Its gradient with respect to the logit of the right token, the model's score for it, never exceeds 1.",
    description="A falling line of minus ln p over p from one in a million to 1, on a logarithmic axis: 13.8 nats at "
    "the left, 4.56 at p = 1/96, 0.69 at p = 1/2, 0 at p = 1. Below it, the size of the gradient, 1 minus p, is 1 "
    "almost everywhere and falls to 0 only near p = 1.",
)
def loss_of_a_probability() -> Figure:
    drawing, axes = style.new_figure(3.2)
    probabilities = np.logspace(-6, 0, 241)
    axes.plot(probabilities, -np.log(probabilities), color=style.BLUE)
    axes.plot(probabilities, 1 - probabilities, color=style.ORANGE)
    for probability, name in ((1 / 96, "p = 1/96, a guess: ln 96 = 4.56 nats"), (0.5, "p = 1/2: 0.69 nats")):
        axes.plot(probability, -math.log(probability), "o", color=style.BLUE, markersize=6)
        right = probability < 0.1
        options: dict[str, Any] = {
            "xytext": (8, 4) if right else (-4, 22),
            "ha": "left" if right else "center",
            "va": "bottom",
        }
        style.label_line(axes, probability, -math.log(probability), name, style.INK, **options)
    axes.text(3e-5, 11.6, "loss: −ln p", color=style.BLUE)
    axes.text(1.3e-6, 1.4, "size of the gradient at the right token's logit: 1 − p", color=style.ORANGE)
    axes.set_xscale("log")
    axes.set(xlabel="probability p of the right token", ylabel="nats", xlim=(1e-6, 1.15), ylim=(0, 14.5))
    return drawing


@figure(
    "routes-to-the-loss",
    caption="The loss of a token whose logit is 0 beside a larger logit, in fp32. `exp` overflows above "
    "[88](claim:largest-gap-by-route); the finished probability is too small for an exact logarithm above "
    "[103](claim:largest-gap-by-route). `cross_entropy` subtracts the largest logit first and stays exact.",
    description="Three lines of the loss over the larger logit from 0 to 160. All follow the diagonal. The route exp, "
    "sum, log and the route softmax, log end at crosses near 88 and 103; the line of cross_entropy continues to 160.",
)
def routes_to_the_loss() -> Figure:
    ends = measured_value("largest-gap-by-route")
    drawing, axes = style.new_figure(2.9)
    looks = (("exp / sum, log", style.PURPLE, 9), ("softmax, log", style.AMBER, 5), ("cross_entropy", style.BLUE, 1.6))
    for name, color, width in looks:
        end = min(160.0, ends[name])
        gaps = np.linspace(0, end, 161)
        axes.plot(gaps, np.logaddexp(0, gaps), color=color, linewidth=width, solid_capstyle="butt")
        if ends[name] < 160:
            axes.plot(end, end, "X", color=style.INK, markersize=8)
            text = f"{name}: wrong above {ends[name]:.0f}"
            style.label_line(axes, end, end, text, color, ha="right", xytext=(-12, 6))
    style.label_line(axes, 130, 130, "cross_entropy", style.BLUE, xytext=(8, -8))
    axes.set(xlabel="larger logit", ylabel="loss, nats", xlim=(0, 165), ylim=(0, 165))
    return drawing
