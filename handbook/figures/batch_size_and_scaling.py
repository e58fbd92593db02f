"""Figures of the chapter on batch size and scaling."""

import statistics

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow
from rankzero.ledger.hardware import find_hardware

BY_SIZE = (style.ORANGE, style.AMBER, style.BLUE, style.GREEN)  # small batches to large ones


@figure(
    "gradients-of-two-weights",
    caption="Gradients of a model with two weights. Each dot is the mean gradient of one batch; the arrow is the "
    "gradient over all data. [32 %](claim:gradients-of-two-weights) of one-example gradients point away from the "
    "arrow, [5.5 %](claim:gradients-of-two-weights) of the means of 8 and none of the means of 64. This model's "
    "noise scale, defined below, is 8.",
    description="Three clouds of dots around the tip of an arrow, for batches of 1, 8 and 64. At batch 1 the dots "
    "spread over the panel, several times as far as the arrow is long. At 8 they spread about as far as the arrow is "
    "long. At 64 they lie close to its tip.",
)
def gradients_of_two_weights() -> Figure:
    lines = dict(measured_chart("gradients-of-two-weights").lines)
    (tip_x,), (tip_y,), _, _ = columns(lines.pop("true gradient"))
    drawing, panels = style.new_figure(2.9, columns=3, sharey=True)
    for axes, (name, line), color in zip(panels, lines.items(), (style.ORANGE, style.BLUE, style.GREEN), strict=True):
        x, y, _, _ = columns(line)
        axes.axhline(0, color=style.GRID, linewidth=0.8)
        axes.axvline(0, color=style.GRID, linewidth=0.8)
        axes.plot(x, y, "o", color=color, markersize=3, alpha=0.6, markeredgewidth=0)
        arrow(axes, (0, 0), (tip_x, tip_y), color=style.INK, line=2, head=14)
        axes.patches[-1].set_zorder(3)  # above the dots
        axes.set_title(name, color=color)
        axes.set(xlim=(-3, 4), ylim=(-3, 3.6), aspect="equal", xlabel="gradient of weight 1")
    panels[0].set_ylabel("gradient of weight 2")
    return drawing


@figure(
    "batch-gradients-of-a-gpt",
    caption="Gradients of batches of the small GPT, in lengths of the true gradient G. The distance from the origin is "
    "the length of a gradient. One sentence's gradient is [74°](claim:batch-gradients-of-a-gpt) from G and mostly "
    "noise; the mean of 64 sentences is [24°](claim:batch-gradients-of-a-gpt) from G.",
    description="An arrow for G points up from the origin. Four groups of dots lie to its right, all at the height of "
    "its tip, with dotted lines from the origin: batches of 1 sentence 3.5 lengths of G away, of 4 sentences 1.7, of "
    "16 sentences 0.9 and of 64 sentences 0.4. Groups of larger batches are smaller.",
)
def batch_gradients_of_a_gpt() -> Figure:
    drawing, axes = style.new_figure(3.2)
    angles = measured_value("batch-gradients-of-a-gpt")
    lines = measured_chart("batch-gradients-of-a-gpt").lines
    for (name, line), color in zip(lines.items(), BY_SIZE, strict=True):
        along, across, _, _ = columns(line)
        far = statistics.median(across)
        axes.plot([0, far], [0, 1], color=color, linewidth=0.9, linestyle=":")
        axes.plot(across, along, "o", color=color, markersize=3.2, alpha=0.6, markeredgewidth=0)
        axes.text(far, 1.62, f"{name}\n{angles[name]:.0f}°", color=color, ha="center", va="bottom", fontsize=10)
    arrow(axes, (0, 0), (0, 1), color=style.INK, line=2.2, head=14)
    axes.text(-0.07, 0.5, "G", ha="right", va="center", fontweight="bold")
    axes.set(xlim=(-0.3, 4.5), ylim=(-0.05, 2.02), aspect="equal", yticks=[0, 0.5, 1, 1.5])
    axes.set(xlabel="remainder, perpendicular to G, in |G|", ylabel="part along G, in |G|")
    return drawing


@figure(
    "steps-and-examples-of-a-gpt",
    caption="Steps and sentences in which a small GPT reaches 1.7 nats, for seven batch sizes B, each at the best of "
    "six learning rates; median and range of three samples. Small batches need the fewest sentences and large batches "
    "the fewest steps. The curve is the formula for S and E above, with a fitted noise scale of "
    "[19 sentences](claim:steps-and-examples-of-a-gpt).",
    description="Seven points on logarithmic axes, from many steps and few sentences at B = 2 at the upper left to few "
    "steps and many sentences at B = 128 at the lower right, on a curve with a bend. The point of the curve at the "
    "noise scale is marked at the bend. Dotted lines show the fewest steps and the fewest sentences.",
)
def steps_and_examples_of_a_gpt() -> Figure:
    value = measured_value("steps-and-examples-of-a-gpt")
    lines = measured_chart("steps-and-examples-of-a-gpt").lines
    drawing, axes = style.new_figure(3.4)
    least, scale = value["fewest"], value["noise scale"]
    sentences, steps, _, _ = columns(lines["fit"])
    axes.plot(sentences, steps, color=style.GRAY, linewidth=1.3)
    sentences, steps, fewest, most = columns(lines["measured"])
    axes.plot(sentences, steps, "o", color=style.BLUE, markersize=6)
    for x, y, low, high in zip(sentences, steps, fewest, most, strict=True):
        axes.plot([low * x / y, high * x / y], [low, high], color=style.BLUE, linewidth=1.2)
        text = f"B = {x / y:.0f}" if x == sentences[0] else f"{x / y:.0f}"
        axes.annotate(text, (x, y), (7, -4), textcoords="offset points", va="top", color=style.BLUE, fontsize=9.5)
    axes.plot(2 * least * scale, 2 * least, "D", color=style.ORANGE, markersize=7)
    place = {"xytext": (26, 22), "textcoords": "offset points", "color": style.ORANGE, "va": "bottom"}
    axes.annotate(
        "B = noise scale: twice the fewest steps,\ntwice the fewest sentences", (2 * least * scale, 2 * least),
        arrowprops={"arrowstyle": "-", "color": style.ORANGE}, **place,
    )  # fmt: skip
    axes.axhline(least, color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.axvline(least * scale, color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.text(3900, least * 0.93, "fewest steps", color=style.MUTED, ha="right", va="top", fontsize=9.5)
    axes.text(least * scale * 0.96, 270, "fewest\nsentences", color=style.MUTED, ha="right", va="top", fontsize=9.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([300, 1000, 3000], ["300", "1,000", "3,000"])
    axes.set_yticks([10, 20, 50, 100, 200], ["10", "20", "50", "100", "200"])
    axes.minorticks_off()
    axes.set(xlabel="sentences until 1.7 nats", ylabel="steps until 1.7 nats", xlim=(190, 4000), ylim=(9, 300))
    axes.grid()
    return drawing


@figure(
    "tokens-per-second-by-batch",
    caption="Left: training speed of Lab 02's GPT on one CPU thread, with the spread of repetitions. Up to 16 tokens "
    "the speed grows almost in proportion to the batch, then more slowly. Right: the largest share of an H100's "
    "arithmetic that one bf16 product with a 4096 × 4096 weight can use, by its rows, from data sheets.",
    description="Left: a line that rises from 1 at 4 tokens through about 10 at 64 tokens to about 30 at 1,024 tokens. "
    "Right: a line that rises in proportion to the rows, reaches 100 % at about 345 rows, and stays there.",
)
def tokens_per_second_by_batch() -> Figure:
    drawing, (left, right) = style.new_figure(2.9, columns=2)
    (line,) = measured_chart("tokens-per-second-by-batch").lines.values()
    tokens, rate, low, high = columns(line)
    left.plot(tokens, rate, "o-", color=style.BLUE)
    left.fill_between(tokens, low, high, color=style.BLUE, alpha=0.2, linewidth=0)
    left.set(xlabel="tokens in the batch", ylabel="tokens/s, multiple of batch 4", ylim=(0, 40))
    left.set_title("measured: a small GPT on a CPU")
    sheet = find_hardware("h100")
    rows = [2 ** (power / 8) for power in range(97)]
    # FLOPs per byte of [rows, 4096] @ [4096, 4096] in bf16, each matrix moved once
    intensities = [2 * n * 4096**2 / (2 * (2 * n * 4096 + 4096**2)) for n in rows]
    right.plot(rows, [100 * min(1, sheet.hbm * each / sheet.peaks[2]) for each in intensities], color=style.ORANGE)
    right.set(xlabel="rows (sequences × tokens)", ylabel="% of peak FLOP/s", ylim=(0, 112))
    right.set_title("limit: one product on an H100")
    for axes, ticks in ((left, (4, 16, 64, 256, 1024)), (right, (1, 8, 64, 512, 4096))):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.grid()
    return drawing


@figure(
    "progress-by-devices",
    caption="Weak scaling with 8 sequences per device, serial share 0.01 and a noise scale of 1,000 sequences. 512 "
    "devices process 507 times as many tokens per second as one device, but reach a loss only 100 times as fast.",
    description="Two lines over 1 to 1,024 devices on logarithmic axes. Tokens per second follow the diagonal. "
    "Progress toward a loss leaves the diagonal near 32 devices and flattens toward 125.",
)
def progress_by_devices() -> Figure:
    serial, per_device, noise_scale = 0.01, 8, 1000
    devices = [2 ** (power / 4) for power in range(41)]
    tokens = [serial + (1 - serial) * n for n in devices]
    start = 1 + per_device / noise_scale
    progress = [rate * start / (1 + per_device * n / noise_scale) for n, rate in zip(devices, tokens, strict=True)]
    drawing, axes = style.new_figure(3.1)
    axes.plot(devices, tokens, color=style.BLUE)
    axes.plot(devices, progress, color=style.ORANGE)
    axes.text(100, 165, "tokens per second", color=style.BLUE, ha="right", va="bottom")
    axes.text(1000, 50, "progress: 1 / time to a loss", color=style.ORANGE, ha="right", va="top")
    axes.axvline(noise_scale / per_device, color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.text(noise_scale / per_device * 0.94, 1.5, "batch = noise scale", color=style.MUTED, ha="right", fontsize=9.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = (1, 4, 16, 64, 256, 1024)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="devices", ylabel="multiple of one device", xlim=(1, 1100), ylim=(1, 1300))
    axes.grid()
    return drawing
