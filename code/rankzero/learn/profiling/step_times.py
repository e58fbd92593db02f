"""Step times of two runs, eager and compiled, drawn beside their sums, which meet where compiling has paid."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def plot_step_times(seconds: Mapping[str, Sequence[float]]) -> Figure:
    """Draws the milliseconds of each step, and the seconds of all steps so far; returns the figure.

    `seconds` are the times of the steps by the name of the run. Both axes of time are logarithmic, because a step that
    compiles takes a thousand times as long as others.
    """
    figure, (single, total) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, times in seconds.items():
        steps = range(1, len(times) + 1)
        single.plot(steps, [1000 * time for time in times], ".", label=name)
        total.plot(steps, list(accumulate(times)), label=name)
    single.set(xlabel="step", ylabel="ms", yscale="log", title="time of each step")
    total.set(xlabel="step", ylabel="s", yscale="log", title="time of all steps so far")
    for axes in (single, total):
        axes.grid(alpha=0.3)
        axes.legend()
    plt.close(figure)
    return figure
