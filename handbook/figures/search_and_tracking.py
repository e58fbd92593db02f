"""Figures of the chapter on search and tracking."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure


@figure(
    "trials-over-tokens",
    caption="Twenty trials of Lab 15's default search: each line is the validation loss of one trial. A cross marks "
    "where the pruner ended a trial. [More than a quarter](claim:lab-15-search) of the trials end early, which saves "
    "more than a fifth of all tokens. The best trial is the thick orange line.",
    description="Falling lines of validation loss over tokens, from about 4 to 3 nats. Blue lines reach the right "
    "edge at 32,768 tokens; gray lines with a cross at their end stop earlier, most of them at a quarter. One "
    "orange line is the lowest at the end.",
)
def trials_over_tokens() -> Figure:
    drawing, axes = style.new_figure(3.4)
    lines = {name: columns(line)[:2] for name, line in measured_chart("lab-15-search").lines.items() if line}
    complete = {name: losses[-1] for name, (_, losses) in lines.items() if name.endswith("complete")}
    best = min(complete, key=lambda name: complete[name])
    for name, (tokens, losses) in sorted(lines.items(), key=lambda item: item[0] == best):
        pruned = name.endswith("pruned")
        color = style.ORANGE if name == best else style.GRAY if pruned else style.BLUE
        axes.plot(tokens, losses, color=color, linewidth=2.4 if name == best else 1.0)
        axes.plot(tokens[-1:], losses[-1:], "x" if pruned else "o", color=color, markersize=5)
    tokens, losses = lines[best]
    style.label_line(axes, tokens[-1], losses[-1], "  best", style.ORANGE)
    style.label_line(axes, tokens[-1], max(complete.values()), "  complete", style.BLUE)
    axes.plot([], [], "x-", color=style.GRAY, label="pruned")
    axes.legend(frameon=False, loc="upper right")
    axes.set(xlabel="tokens", ylabel="validation loss (nats per token)", xlim=(0, 38_000))
    axes.set_xticks([0, 8_192, 16_384, 24_576, 32_768], ["0", "8,192", "16,384", "24,576", "32,768"])
    axes.grid(axis="y")
    return drawing


@figure(
    "tpe-and-random",
    caption="The best value so far in searches over four settings that all matter. Lines are medians of 20 searches; "
    "shaded is the middle half. TPE draws its first 10 trials at random, up to the dotted line. After 40 trials TPE "
    "is closer to the minimum in [18 of 20](claim:search-tpe-and-random) searches.",
    description="Two falling lines over 40 trials on a logarithmic axis. They are one line for the first 10 trials. "
    "After that the line of TPE falls faster and ends at a fifth of the value of random search.",
)
def tpe_and_random() -> Figure:
    drawing, axes = style.new_figure(2.7)
    for (name, line), color in zip(
        measured_chart("search-tpe-and-random").lines.items(), (style.ORANGE, style.BLUE), strict=True
    ):
        trials, middle, low, high = columns(line)
        axes.fill_between(trials, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(trials, middle, color=color)
        style.label_line(axes, trials[-1], middle[-1], f"  {name}", color)
    axes.axvline(10.5, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set(xlabel="trials", ylabel="squared distance\nfrom the minimum", xlim=(1, 46))
    axes.grid(axis="y")
    return drawing


@figure(
    "early-ranks",
    caption="Twelve random choices of Lab 15's settings, trained to the end: rank correlation between the order of "
    "their validation losses at each moment and the order at the end. After an eighth of the tokens the order [still "
    "changes](claim:search-early-ranks) much; after half of the tokens it hardly changes.",
    description="A line over the share of the tokens: 0.60 at an eighth, 0.80 at a quarter, 0.92 at half, then 1.",
)
def early_ranks() -> Figure:
    drawing, axes = style.new_figure(2.4)
    share, correlation, _, _ = columns(measured_chart("search-early-ranks").lines["loss"])
    axes.plot(share, correlation, "o-", color=style.BLUE)
    axes.set(xlabel="% of a trial's tokens", ylabel="rank correlation\nwith the end", xlim=(0, 104), ylim=(0, 1.08))
    axes.grid(axis="y")
    return drawing
