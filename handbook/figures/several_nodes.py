"""Figures of the chapter on several nodes."""

import re

from matplotlib.figure import Figure

from rankzero.curriculum import ROOT
from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

SBATCH = ROOT / "launch" / "slurm" / "train.sbatch"


@figure(
    "two-meeting-points",
    caption="Two nodes of two ranks. The agents meet in the store at the endpoint, whose address all nodes get. "
    "The ranks meet in a second store, at [another port](claim:ranks-meet-at-another-port) of node 0.",
    description="Two large boxes, node 0 and node 1, each with an agent at the top and two ranks below it: ranks 0 "
    "and 1, ranks 2 and 3. Between the nodes are two stores. Both agents point to the upper store, the "
    "endpoint. All ranks point to the lower store, MASTER_ADDR and MASTER_PORT.",
)
def two_meeting_points() -> Figure:
    drawing, axes = style.new_figure(2.9)
    style.blank(axes, 120, 47)
    for left, node in ((1, 0), (85, 1)):
        box(axes, left, 5, 34, 41, rounding=1.5, color="none")
        axes.text(left + 17, 3.8, f"node {node}", ha="center", va="bottom", fontweight="bold")
        box(axes, left + 5, 9, 24, 10, "agent\n(torchrun)", color=style.PANEL, rounding=1)
        for index in range(2):
            box(axes, left + 3 + 15 * index, 30, 13, 12, f"rank {2 * node + index}", color=style.BLUE,
                rounding=1)  # fmt: skip
            arrow(axes, (left + 12 + 10 * index, 19.5), (left + 9.5 + 15 * index, 29.5))
    axes.text(18, 24.5, "starts", ha="center", va="center", color=style.MUTED)
    axes.text(102, 24.5, "starts", ha="center", va="center", color=style.MUTED)
    box(axes, 47, 8, 26, 12, "store\nat the endpoint", color=style.AMBER, rounding=1)
    box(axes, 47, 30, 26, 12, "second store\non node 0", color=style.SKY, rounding=1)
    for end, start in ((46.5, 30.5), (73.5, 89.5)):
        arrow(axes, (start, 14), (end, 14), color=style.AMBER, line=2)
    for end, start in ((46.5, 33), (73.5, 87.5)):
        arrow(axes, (start, 36), (end, 36), color=style.SKY, line=2)
    axes.text(60, 21, "who has which ranks?", ha="center", va="top", fontsize=9.5)
    axes.text(60, 43, "MASTER_ADDR:MASTER_PORT", ha="center", va="top", fontsize=9)
    return drawing


@figure(
    "stopping-in-time",
    caption="The time limits of the Slurm file, to scale. Steps and save must fit into the agent's wait, and the "
    "agent's wait into the time between SIGTERM and the end of the job.",
    description="A time axis from 0, when Slurm sends SIGTERM, to the end of the job at 300 seconds. The top bar, "
    "Slurm's wait, covers all 300 seconds. The middle bar, the agent's wait, covers 240 seconds, at whose"
    " end the agent sends SIGKILL. The bottom bar shows an example: up to ten steps of 2 seconds, then a "
    "save.",
)
def stopping_in_time() -> Figure:
    text = SBATCH.read_text(encoding="utf-8")
    (notice,) = map(int, re.findall(r"--signal=TERM@(\d+)", text))
    (agent,) = map(int, re.findall(r"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=(\d+)", text))
    drawing, axes = style.new_figure(2.2)
    rows = (
        ("scheduler", ((0, notice, style.PANEL, f"Slurm waits {notice} s"),)),
        ("agent", ((0, agent, style.SKY, f"torchrun waits {agent} s"),)),
        ("ranks", ((0, 20, style.ACTIVATIONS, ""), (20, 60, style.GREEN, "save"))),
    )
    for row, (_, bars) in enumerate(rows):
        for start, length, color, label in bars:
            box(axes, start, row + 0.15, length, 0.7, label, color=color, edge=style.PAPER)
    axes.text(83, 2.5, "up to ten steps of 2 s, then a save of 60 s: an example", va="center", color=style.MUTED)
    axes.text(agent + 3, 1.5, "SIGKILL by agent", va="center", color=style.ORANGE, fontsize=9.5)
    axes.set_yticks([0.5, 1.5, 2.5], [name for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, notice + 8), ylim=(3, 0), xlabel="seconds since SIGTERM", xticks=range(0, notice + 1, 60))
    return drawing
