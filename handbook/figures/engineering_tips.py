"""Figures of the chapter on engineering tips."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure


@figure(
    "where-two-runs-part",
    caption="Difference of the losses of two runs of a small GPT. With all seeds equal the difference is "
    "[0 at every step](claim:two-runs-part). A data generator without a seed separates the runs at once. The same "
    "sequences in another order change only the last digits at first, and training makes the difference grow.",
    description="Two lines over 120 steps on a logarithmic axis. With other data the difference is between a "
    "thousandth and a tenth from the first step on. With the same data in another order it begins near 1e-7 and grows.",
)
def where_two_runs_part() -> Figure:
    chart = measured_chart("two-runs-part")
    drawing, axes = style.new_figure(2.9)
    names = {
        "other data": ("data generator without a seed", style.ORANGE),
        "other order": ("sums in another order", style.BLUE),
    }
    for key, (name, color) in names.items():
        x, sizes, *_ = columns(chart.lines[key])
        axes.plot(x, sizes, color=color, linewidth=1.4)
        style.label_line(axes, x[-1], sizes[-1], name, color)
    axes.text(60, 1.3e-8, "all seeds equal: the difference is 0", color=style.GREEN, ha="center", va="bottom")
    axes.set_yscale("log")
    axes.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1], ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1"])
    axes.minorticks_off()
    axes.set(xlabel="step", ylabel="difference of the losses, nats", xlim=(0, 121), ylim=(1e-8, 2))
    axes.grid(axis="y")
    return drawing


def cost_of_a_read(host: float, device: float, restart: float) -> float:
    """Time that a read at the end of a step adds; `restart` is the host's time from the read to the next kernel."""
    return max(0.0, restart + device - max(host, device))


@figure(
    "cost-of-a-read",
    caption="Time that a read per step adds, by the formula above, for the host of the worked number. While "
    "the host is clearly slower than the device, a read costs nothing. The share is largest where both are equally "
    "fast, and falls as the device's work grows.",
    description="Two curves of the added share of a step over the device's time from 2 to 80 ms. For 2 ms between read "
    "and next kernel the share is 0 up to 8 ms, rises to 20 % at 10 ms and falls to 5 % at 40 ms. For half a "
    "millisecond it rises to 5 % at 10 ms and falls likewise.",
)
def figure_cost_of_a_read() -> Figure:
    drawing, axes = style.new_figure(2.7)
    times = [2 + 0.25 * index for index in range(313)]
    for restart, color in ((2.0, style.ORANGE), (0.5, style.BLUE)):
        share = [100 * cost_of_a_read(10, device, restart) / max(10, device) for device in times]
        axes.plot(times, share, color=color)
        x, y = {2.0: (22, 10.4), 0.5: (38, 1.5)}[restart]
        axes.text(x, y, f"{restart:g} ms from read to next kernel", color=color, va="bottom")
    axes.axvline(10, color=style.MUTED, linestyle=":", linewidth=1)
    axes.text(9.4, 21.4, "host slower", color=style.MUTED, ha="right", va="bottom")
    axes.text(10.6, 21.4, "device slower: the host runs ahead", color=style.MUTED, va="bottom")
    axes.set(xlabel="device's time for a step, ms", ylabel="% added by a read", xlim=(0, 80), ylim=(0, 24))
    axes.grid(axis="y")
    return drawing
