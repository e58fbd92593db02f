"""Lab 14: an autograd engine with a tape, in NumPy, which trains a net on digits and is compared with torch.

Read the class Tensor, one operation, then `backward`. Every operation has the same form: it computes its result, and
records how the gradient of the result becomes gradients of its operands. The other functions test the engine, by
differences of the loss and beside torch. B = pictures in a batch, P = pixels, H = hidden units, V = classes.

    python engine.py                                   # seconds: the first step in detail, then the training
    python engine.py --draw graph.svg --steps 1        # the graph of a step, to open in a browser
    python engine.py --dtype float32 --plot
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rankzero.errors import UserError
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.profiling.graph_svg import graph_svg
from rankzero.learn.runs.options import (
    StarterParser,
    non_negative_float,
    non_negative_int,
    positive_float,
    positive_int,
)
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import run_starter

Array = np.ndarray


# --------------------------------------------------------------------------------------------------------- the engine
TAPE: list["Tensor"] = []  # the results of all operations since the last backward, in the order of their computation


@dataclass(eq=False)
class Tensor:
    """An array, how it was computed, and its gradient once `backward` has run."""

    data: Array
    name: str
    parents: tuple["Tensor", ...] = ()  # the operands of the operation; none for inputs and weights
    vjp: Callable[[Array], tuple[Array, ...]] | None = None  # vector-Jacobian product: dL/d(this) -> dL/d(each parent)
    grad: Array | None = None  # dL/d(this), of the shape of data

    def __post_init__(self) -> None:
        if self.vjp:
            TAPE.append(self)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """[B, P] @ [P, H] -> [B, H]"""
    product = a.data @ b.data
    return Tensor(product, "matmul", (a, b), lambda g: (g @ b.data.T, a.data.T @ g))


def add_row(a: Tensor, row: Tensor) -> Tensor:
    """[B, H] + [H] -> [B, H]. The row is used B times: its gradient sums B rows."""
    return Tensor(a.data + row.data, "add row", (a, row), lambda g: (g, g.sum(axis=0)))


def add(a: Tensor, b: Tensor) -> Tensor:
    """Two arrays of one shape."""
    return Tensor(a.data + b.data, "add", (a, b), lambda g: (g, g))


def sigmoid(a: Tensor) -> Tensor:
    """1 / (1 + exp(-a)), number by number. Its derivative needs the result alone, so `a` may be freed."""
    y = 1 / (1 + np.exp(-a.data))
    return Tensor(y, "sigmoid", (a,), lambda g: (g * y * (1 - y),))


def half_squares(a: Tensor, factor: float) -> Tensor:
    """factor / 2 times the sum of all squares, a scalar: the weight decay, as a part of the loss."""
    half = np.asarray(factor / 2 * np.sum(a.data**2), dtype=a.data.dtype)
    return Tensor(half, "half squares", (a,), lambda g: (g * factor * a.data,))


def cross_entropy(logits: Tensor, labels: Array) -> Tensor:
    """Mean cross-entropy of logits [B, V] and labels int [B], a scalar, in nats per picture."""
    p = np.exp(logits.data - logits.data.max(axis=1, keepdims=True))  # without the maximum, exp may overflow
    p /= p.sum(axis=1, keepdims=True)
    one_hot = np.eye(p.shape[1], dtype=p.dtype)[labels]
    loss = -np.log((p * one_hot).sum(axis=1)).mean()
    return Tensor(loss, "cross-entropy", (logits,), lambda g: (g * (p - one_hot) / len(labels),))


def backward(loss: Tensor) -> None:
    """Fills `grad` of every tensor that led to the loss, and clears the tape."""
    loss.grad = np.ones_like(loss.data)  # dL/dL
    for result in reversed(TAPE):  # complete: results that used it came before
        if result.grad is None or result.vjp is None:
            continue  # the loss does not depend on it
        for parent, share in zip(result.parents, result.vjp(result.grad), strict=True):
            parent.grad = share if parent.grad is None else parent.grad + share
    TAPE.clear()


def graph(loss: Tensor) -> list[Tensor]:
    """The tensors on the tape and their operands, each once, operands first."""
    return list(dict.fromkeys(tensor for result in TAPE for tensor in (*result.parents, result)))


# ------------------------------------------------------------------------------------------------------ the net, twice
def engine_loss(net: dict[str, Tensor], x: Array, labels: Array, decay: float) -> tuple[Tensor, Tensor, Tensor]:
    """Two layers; the loss, hidden [B, H] and logits [B, V]. Weight decay uses each weight matrix a second time."""
    hidden = sigmoid(add_row(matmul(Tensor(x, "x"), net["w1"]), net["b1"]))
    logits = add_row(matmul(hidden, net["w2"]), net["b2"])
    penalty = add(half_squares(net["w1"], decay), half_squares(net["w2"], decay))
    return add(cross_entropy(logits, labels), penalty), hidden, logits


def engine_step(weights: dict[str, Array], x: Array, labels: Array, decay: float) -> tuple[float, dict[str, Any]]:
    """Forward and backward by the engine; returns loss and gradients. New tensors: no gradient of an earlier step."""
    net = {name: Tensor(array, name) for name, array in weights.items()}
    loss, hidden, logits = engine_loss(net, x, labels, decay)
    backward(loss)
    return float(loss.data), {name: t.grad for name, t in (net | {"hidden": hidden, "logits": logits}).items()}


def torch_step(weights: dict[str, Array], x: Array, labels: Array, decay: float) -> tuple[float, dict[str, Any]]:
    """The same by torch. Backward frees the gradients of hidden and logits, so hooks on these tensors keep them."""
    net = {name: torch.from_numpy(array).requires_grad_() for name, array in weights.items()}
    hidden = torch.sigmoid(torch.from_numpy(x) @ net["w1"] + net["b1"])
    logits = hidden @ net["w2"] + net["b2"]
    penalty = decay / 2 * (net["w1"].square().sum() + net["w2"].square().sum())
    loss = F.cross_entropy(logits, torch.from_numpy(labels)) + penalty
    gradients: dict[str, Any] = {}
    hidden.register_hook(lambda gradient: gradients.update(hidden=gradient))  # a hook that looks: it returns None
    logits.register_hook(lambda gradient: gradients.update(logits=gradient))
    loss.backward()
    gradients |= {name: weight.grad for name, weight in net.items()}
    return loss.item(), {name: gradient.numpy() for name, gradient in gradients.items()}


def print_gradients(weights: dict[str, Array], x: Array, labels: Array, decay: float) -> None:
    """Prints norms of the engine's first gradients, their differences from torch's, and a test by differences."""
    own, twin = (step(weights, x, labels, decay)[1] for step in (engine_step, torch_step))
    print("gradient  shape     norm      torch differs by  gradient . d   difference along d")
    for name, gradient in own.items():
        line = f"{name:<8}  {list(gradient.shape)!s:<8}  {np.linalg.norm(gradient):.6f}"
        line += f"  {np.abs(gradient - twin[name]).max():<16.1e}"
        if name in weights:  # one derivative along a random d tests all numbers
            d = np.random.default_rng(1).standard_normal(gradient.shape).astype(gradient.dtype)
            h = 1e-5 if x.dtype == np.float64 else 1e-2
            moved = (weights | {name: weights[name] + sign * h * d} for sign in (1, -1))
            ahead, behind = (engine_step(other, x, labels, decay)[0] for other in moved)
            line += f"  {np.sum(gradient * d):+.8f}    {(ahead - behind) / (2 * h):+.8f}"
        print(line.rstrip() + "\n" * (name == "logits"))


# ------------------------------------------------------------------------------------------------------------ the run
def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 14: an autograd engine in NumPy, tested against differences and torch.")
    add = parser.add_argument
    add("--steps", type=positive_int, default=500, help="steps of gradient descent")
    add("--batch-size", type=positive_int, default=64, help="pictures per step")
    add("--hidden-dim", type=positive_int, default=32, help="units of the hidden layer")
    add("--lr", type=positive_float, default=1.0, help="learning rate: an update is -lr * gradient")
    add("--decay", type=non_negative_float, default=1e-3, help="the loss contains decay / 2 * the squares of w1 and w2")
    add("--dtype", choices=("float64", "float32"), default="float64", help="of all numbers: float64 or float32")
    add("--images", default="digits", help="'digits', 'fashion-mnist', or a folder with files in MNIST's format")
    add("--draw", type=Path, metavar="FILE", help="write the graph of the first step's loss to FILE, as SVG")
    add("--plot", action="store_true", help="draw both losses of every step into the run's folder")
    add("--seed", type=non_negative_int, default=0, help="random seed of the weights and of the batches")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    parser.set_defaults(resume=None)
    return parser


def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Trains the net twice, by the engine and by torch, on the same batches; returns the exit code."""
    images, dtype, rng = load_images(options.images), np.dtype(options.dtype), np.random.default_rng(options.seed)
    pixels, labels = images.train_images.flatten(1).numpy(), images.train_labels.numpy()
    P, H, V = pixels.shape[1], options.hidden_dim, len(images.classes)
    first = {"w1": rng.standard_normal((P, H)) / math.sqrt(P), "b1": np.zeros(H)}
    first |= {"w2": rng.standard_normal((H, V)) / math.sqrt(H), "b2": np.zeros(V)}
    own, twin = ({name: array.astype(dtype) for name, array in first.items()} for _ in range(2))

    def batch(step: int) -> tuple[Array, Array]:
        chosen = np.random.default_rng((options.seed, step)).integers(len(labels), size=options.batch_size)
        return (pixels[chosen] / 255).astype(dtype), labels[chosen]

    if options.draw:
        tensors = graph(engine_loss({name: Tensor(w, name) for name, w in own.items()}, *batch(0), options.decay)[0])
        TAPE.clear()
        try:
            options.draw.write_text(graph_svg(tensors, lambda t: (t.name, str(list(t.data.shape)))), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {options.draw} ({error.strerror}): choose another --draw.") from None
    folder = new_run_folder(options.out, "lab-14")
    print(f"images  {images.summary()}")
    print(f"net     {P}-{H}-{V}, {sum(map(np.size, own.values())):,} weights in {dtype}")
    print(f"run     {options.steps} steps of {options.batch_size} pictures, into {folder}/\n")
    print_gradients(own, *batch(0), options.decay)
    losses, times = list[tuple[float, float]](), np.zeros(2)
    with finish_step_on_interrupt() as interrupted, (folder / "log.jsonl").open("w", encoding="utf-8") as log:
        log.write(json.dumps({"event": "run", "settings": vars(options), **fingerprint()}, default=str) + "\n")
        while not losses or (len(losses) < options.steps and not interrupted):
            x, y = batch(len(losses))
            both: list[float] = []
            for n, (compute, weights) in enumerate(((engine_step, own), (torch_step, twin))):
                start = time.perf_counter()
                loss, gradients = compute(weights, x, y, options.decay)
                times[n] += time.perf_counter() - start
                both.append(loss)
                for name, array in weights.items():
                    array -= options.lr * gradients[name]  # gradient descent
            losses.append((both[0], both[1]))
            step = len(losses)
            log.write(json.dumps({"event": "step", "step": step, "loss": both[0], "torch_loss": both[1]}) + "\n")
            if not math.isfinite(both[0]):
                raise UserError(f"the loss became {both[0]} at step {step}: start again with a smaller --lr.")
            if step == 1 or step % 100 == 0 or step == options.steps or interrupted:
                print(f"step {step:>5}/{options.steps}  loss {both[0]:.6f}  torch {both[1]:.6f}")
    np.savez(folder / "weights.npz", **own)  # type: ignore[arg-type]
    val_x, val_y = (images.val_images.flatten(1).numpy() / 255).astype(dtype), images.val_labels.numpy()
    logits = engine_loss({name: Tensor(w, name) for name, w in own.items()}, val_x, val_y, options.decay)[2]
    if options.plot:
        from rankzero.learn.runs.plots import plot_losses  # imports matplotlib: half a second

        curves = dict(zip(("engine", "torch"), zip(*losses, strict=True), strict=True))
        plot_losses(curves, None).savefig(folder / "losses.png", dpi=110)
    print(f"\nvalidation   {(logits.data.argmax(axis=1) == val_y).mean():.1%} of {len(val_y):,} pictures right")
    print(f"losses       engine and torch differ by at most {max(abs(a - b) for a, b in losses):.1e}")
    print("time         engine {:.2f} ms/step, torch {:.2f} ms/step".format(*1000 * times / len(losses)))
    print(f"files        log.jsonl, weights.npz{', losses.png' * options.plot} in {folder}/")
    if len(losses) < options.steps:
        print(f"\nStopped by {interrupted.name} after step {len(losses)}; its weights are saved.")
    return interrupted.exit_code if len(losses) < options.steps else 0


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab="lab-14")


if __name__ == "__main__":
    sys.exit(main())
