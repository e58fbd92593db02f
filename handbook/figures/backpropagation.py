"""Figures of the chapter on backpropagation."""

from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

BOX = (12.8, 9.0)  # width and height of a node
PLACES = {name: (0.2 + 21.35 * column, 19.0) for column, name in enumerate("wahbyL")} | {"v": (64.25, 2.0)}
FORMULAS = {"w": "w", "v": "v", "a": "a = 2w", "h": "h = tanh a", "b": "b = vh", "y": "y = a + b", "L": "L = (y−1)²"}


@dataclass(frozen=True)
class Graph:
    """Values of the small network, gradients of its loss, and the derivative of each operation by each input."""

    values: dict[str, float]
    gradients: dict[str, float]
    derivatives: dict[tuple[str, str], float]


def run_graph() -> Graph:
    """Runs the chapter's small network forward and backward in PyTorch."""
    w, v = (torch.tensor(start, requires_grad=True) for start in (0.5, -1.0))
    a = 2 * w
    h = torch.tanh(a)
    b = v * h
    y = a + b
    loss = (y - 1) ** 2
    nodes = {"w": w, "v": v, "a": a, "h": h, "b": b, "y": y, "L": loss}
    for node in (a, h, b, y, loss):
        node.retain_grad()
    loss.backward()
    gradients = {name: node.grad.item() for name, node in nodes.items() if node.grad is not None}
    values = {name: node.item() for name, node in nodes.items()}
    derivatives = {
        ("w", "a"): 2.0,
        ("a", "h"): 1 - values["h"] ** 2,
        ("h", "b"): values["v"],
        ("v", "b"): values["h"],
        ("b", "y"): 1.0,
        ("a", "y"): 1.0,
        ("y", "L"): 2 * (values["y"] - 1),
    }
    return Graph(values, gradients, derivatives)


def number(value: float) -> str:
    """Two decimals, with a minus sign as long as a plus."""
    return f"{value:.2f}".replace("-", "−")


def draw_edges(axes: Axes, graph: Graph, *, backward: bool) -> None:
    """Draws an arrow per edge; backward arrows point to the input and name the derivative that they multiply by."""
    width, height = BOX
    color = style.GRADIENTS if backward else style.BLUE
    for (source, target), derivative in graph.derivatives.items():
        (x0, y0), (x1, y1) = PLACES[source], PLACES[target]
        start, end, bend = (x0 + width, y0 + height / 2), (x1, y1 + height / 2), 0.0
        place = ((start[0] + end[0]) / 2, start[1] - 0.6)
        if source == "v":
            start, end = (x0 + width / 2, y0 + height), (x1 + width / 2, y1)
            place = (start[0] + 1, (start[1] + end[1]) / 2 + 1.4)
        if (source, target) == ("a", "y"):
            start, end, bend = (x0 + width / 2, y0 + height), (x1 + width / 2, y1 + height), 0.28
            place = ((start[0] + end[0]) / 2, 39.8)
        if backward:
            start, end, bend = end, start, -bend
            axes.text(
                *place, f"×{number(derivative)}".replace(".00", ""), color=color, fontsize=8.6,
                ha="left" if source == "v" else "center", va="bottom",
            )  # fmt: skip
        arrow(axes, start, end, color=color, bend=bend)


@figure(
    "small-graph",
    caption="A network of two weights w and v, run forward and backward. Forward computes a value at each node. "
    "Backward starts with dL/dL = 1 at the right end and multiplies by one derivative per edge. Two paths lead back to "
    "a, so their gradients are added there.",
    description="Two drawings of the same graph. Forward, from left to right: w 0.5, a = 2w is 1, h = tanh a is 0.76, "
    "b = vh with v = -1 is -0.76, y = a + b is 0.24, L = (y - 1) squared is 0.58; a second arrow leads from a directly "
    "to y. Backward, from right to left: 1 at L, -1.52 at y and b, -1.16 at v, 1.52 at h, -0.88 at a, which is the sum "
    "of 0.64 and -1.52, and -1.77 at w.",
)
def small_graph() -> Figure:
    graph = run_graph()
    drawing, rows = style.new_figure(4.9, rows=2)
    width, height = BOX
    for axes, backward in zip(rows, (False, True), strict=True):
        style.blank(axes, 120, 40)
        draw_edges(axes, graph, backward=backward)
        for name, (x, y) in PLACES.items():
            leaf = name in ("w", "v")
            content = number(graph.gradients[name] if backward else graph.values[name])
            title = f"dL/d{name}" if backward else FORMULAS[name]
            edge = (style.GRADIENTS if backward else style.BLUE) if leaf else style.MUTED
            box(axes, x, y, width, height, f"{title}\n{content}", rounding=1, edge=edge, line=1.8 if leaf else 0.8,
                size=9)  # fmt: skip
        axes.text(0, 3, "backward: gradients" if backward else "forward: values", fontweight="bold", va="center",
                  color=style.GRADIENTS if backward else style.BLUE, fontsize=10.5)  # fmt: skip
    a_parts = graph.gradients["y"], graph.gradients["h"] * graph.derivatives["a", "h"]
    sum_text = f"{number(a_parts[1])} {'−' if a_parts[0] < 0 else '+'} {number(abs(a_parts[0]))}"
    rows[1].text(28, 17.6, f"sum of both paths:\n{sum_text}", ha="center", va="bottom", fontsize=9)
    return drawing


@figure(
    "gradient-by-depth",
    caption="Gradients in a stack of 30 layers, each 64 wide. Left: the gradient of each layer's output. With sigmoids "
    "it shrinks by a factor of [0.24](claim:gradient-factor-per-layer) per layer on its way to the first layer. "
    "Right: the gradient of each layer's weights, which is also proportional to the layer's input.",
    description="Two panels over the layers 1 to 30, on a logarithmic axis from 1e-18 to 1e9. Left, the gradient of "
    "each layer's output: all lines start near 100 at layer 30. Sigmoid falls to 1e-16 at layer 1, ReLU with the "
    "default weights of nn.Linear to 1e-9, and ReLU with He's weights, tanh and sigmoid with residual connections stay "
    "near 100. Right, the gradient of the weights: the line of ReLU with default weights is flat near 4e-9.",
)
def gradient_by_depth() -> Figure:
    drawing, panels = style.new_figure(3.5, columns=2, sharey=True)
    colors = (style.ORANGE, style.AMBER, style.PURPLE, style.BLUE, style.GREEN)
    lines = measured_chart("gradient-factor-per-layer").lines
    names = [name.removesuffix(", output") for name in lines if name.endswith(", output")]
    for axes, part in zip(panels, ("output", "weight"), strict=True):
        for name, color in zip(names, colors, strict=True):
            layers, norms, _, _ = columns(lines[f"{name}, {part}"])
            axes.plot(layers, norms, color=color)
        axes.set_title(f"gradient of each layer's {part if part == 'output' else 'weights'}")
        axes.set_yscale("log")
        axes.set(xlabel="layer", xlim=(1, 30), xticks=[1, 10, 20, 30], ylim=(1e-18, 1e9))
        axes.set_yticks([1e-15, 1e-10, 1e-5, 1, 1e5])
        axes.grid(axis="y")
    panels[0].set_ylabel("norm of the gradient")
    places = {
        "sigmoid": (15, 1e-12),
        "ReLU, nn.Linear's weights": (2, 8e-5),
        "tanh": (2, 4e2),
        "ReLU, He's weights": (2, 2e5),
        "sigmoid with residual": (2, 1.5e7),
    }
    for name, color in zip(names, colors, strict=True):
        text = name.replace("weights", "\ndefault weights") if "Linear" in name else name
        panels[0].text(*places[name], text, color=color, fontsize=9.5)
    return drawing


HOOKS = {  # number and color by name
    "forward pre": ("1", style.BLUE),
    "forward": ("2", style.BLUE),
    "full backward pre": ("3", style.ORANGE),
    "tensor": ("4", style.GREEN),
    "post-accumulate": ("5", style.GREEN),
    "full backward": ("6", style.ORANGE),
}
HOOK_PLACES = {  # on the board of `draw_layers_with_hooks`
    "1": (22, 6.4),
    "2": (42, 6.4),
    "3": (42, 11.6),
    "4": (32, 15.9),
    "5": (32, 21.3),
    "6": (22, 11.6),
}


def draw_badge(axes: Axes, x: float, y: float, number: str, color: str) -> None:
    """Draws a filled circle with the number of a hook."""
    axes.plot(x, y, "o", color=color, markersize=15, zorder=3)
    axes.text(x, y, number, ha="center", va="center", color=style.text_on(color), fontsize=9.5, zorder=4)


def draw_layers_with_hooks(axes: Axes) -> None:
    """Draws three layers, the passes through them in both directions, and the six hooks of the middle one."""
    style.blank(axes, 64, 22.6)
    for left, name in ((5, "layer 0"), (26, "layer 1"), (47, "layer 2")):
        box(axes, left, 4, 12, 10, name, rounding=0.6, size=10.5, weight="bold" if "1" in name else "normal")
    for start, end in ((0, 5), (17, 26), (38, 47), (59, 64)):
        arrow(axes, (start, 6.4), (end, 6.4), color=style.BLUE, line=2)
        arrow(axes, (end, 11.6), (start, 11.6), color=style.ORANGE, line=2)
    axes.text(0, 1.6, "forward: activations", color=style.BLUE, fontweight="bold", va="center")
    axes.text(64, 1.6, "backward: gradients", color=style.ORANGE, fontweight="bold", va="center", ha="right")
    arrow(axes, (32, 14), (32, 19.9), color=style.GREEN, line=2)
    axes.text(34, 21.3, "weight.grad", color=style.GREEN, fontweight="bold", va="center", ha="left")


@figure(
    "hooks-of-one-layer",
    caption="The six hooks of layer 1, at the place of each, and how far each reaches. A full cell is "
    "[10 times](claim:reach-of-six-hooks) its value without the hook, if the hook multiplies what it gets by 10; an "
    "empty cell is unchanged.",
    description="Above, three layers in a row. Activations pass from left to right: hook 1 stands before layer 1 and "
    "hook 2 after it. Gradients pass from right to left: hook 3 stands where they enter layer 1 and hook 6 where they "
    "leave it. Hooks 4 and 5 stand on the way from layer 1 down to weight.grad. Below, a table: the two forward hooks "
    "fill the output and the gradients of all three layers, full backward pre those of layers 0 and 1, tensor and "
    "post-accumulate that of layer 1, full backward that of layer 0.",
)
def hooks_of_one_layer() -> Figure:
    factors = measured_value("reach-of-six-hooks")
    drawing, (top, table) = style.new_figure(5.3, rows=2, height_ratios=(22, 25))
    draw_layers_with_hooks(top)
    style.blank(table, 64, 25)
    heads = {"output": "output", "before": "layer 0\n.grad", "own": "layer 1\n.grad", "after": "layer 2\n.grad"}
    for place, head in enumerate(heads.values()):
        table.text(32 + 9 * place, 2.4, head, ha="center", va="center", fontsize=9.5)
    for row, (kind, (number, color)) in enumerate(HOOKS.items()):
        draw_badge(top, *HOOK_PLACES[number], number, color)
        middle = 6.8 + 3.1 * row
        draw_badge(table, 1.6, middle, number, color)
        table.text(4, middle, kind, va="center", fontsize=10.5)
        for place, name in enumerate(heads):
            changed = round(factors[f"{kind}, {name}"]) == 10
            box(table, 28.2 + 9 * place, middle - 1.25, 7.6, 2.5, "× 10" if changed else "",
                color=color if changed else style.PANEL, line=0 if changed else 0.8)  # fmt: skip
    return drawing


@figure(
    "patched-depth-by-depth",
    caption="Activation patching in a GPT trained to answer with the value that a pointer names. One value of the "
    "prompt was changed; each cell puts the original activations of one position back. The answer "
    "[returns](claim:patching-follows-a-value) at the position that holds the value at that depth: block 0 moves it to "
    "the pointer, blocks 1 to 3 to the last position.",
    description="A grid of five depths by six positions. The prompt at the bottom is value, value, value, pointer, "
    "question, question; the second value is marked as changed. From bottom to top: after the embedding only the "
    "second value is filled with 100 %; after block 0 only the pointer; after block 1 mostly the pointer and a little "
    "the last position; after block 2 mostly the last position; after block 3 only the last position.",
)
def patched_depth_by_depth() -> Figure:
    lines = measured_chart("patching-follows-a-value").lines
    drawing, axes = style.new_figure(3.7)
    style.blank(axes, 64, 32.6)
    prompt = ("value", "value", "value", "pointer", "?", "?")
    for row, (depth, points) in enumerate(lines.items()):
        top = 22.4 - 4.6 * row
        axes.text(
            12.6, top + 2, "after the embedding" if row == 0 else f"after {depth}", ha="right", va="center", fontsize=9
        )
        for place, (_, share, _, _) in enumerate(points):
            left = 14 + 8.2 * place
            box(axes, left, top, 7.4, 4)
            if share > 0.02:
                box(axes, left, top + 4 * (1 - min(share, 1)), 7.4, 4 * min(share, 1), color=style.PURPLE, line=0)
            shown = f"{share:.0%}" if share > 0.02 else ""
            axes.text(left + 3.7, top + 2, shown, ha="center", va="center", fontsize=10,
                      color=style.PAPER if share > 0.4 else style.INK)  # fmt: skip
    for place, token in enumerate(prompt):
        color = style.ORANGE if place == 1 else style.INK
        axes.text(17.7 + 8.2 * place, 28.4, token, ha="center", va="center", fontsize=10, color=color)
    axes.text(25.9, 31.4, "changed", ha="center", va="center", fontsize=10, color=style.ORANGE, fontweight="bold")
    axes.text(58.7, 31.4, "answers here", ha="center", va="center", fontsize=10, fontweight="bold")
    axes.text(12.6, 28.4, "prompt", ha="right", va="center", fontsize=9)
    axes.text(14, 1.4, "answer's logit difference that the patch restores", fontweight="bold", va="center")
    return drawing
