"""Claims of handbook/engineering-tips.md, what stays, breaks and must be on record."""

import contextlib
import io
import json
import os
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.claims.toolkit.op_counter import calls_of, raises

MIB = 2**20


# ---------------------------------------------------------------------------------------------------- memory that stays
def nodes_below(tensor: Tensor) -> int:
    """Nodes of the graph that `tensor` keeps alive."""
    seen: set[Any] = set()
    waiting: list[Any] = [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return len(seen)


@claim(
    "running-total-keeps-graphs",
    "A running total of losses keeps {expected[total += loss, a step]} more graph nodes each step of Lab 02's GPT; "
    "of detached losses, none.",
    expected={"total += loss, a step": 120, "total += loss.detach()": 0},
    unit="nodes",
)
def running_total() -> Mapping[str, float]:
    """Adds up the losses of four steps both ways and counts the nodes behind the sum after the third and the fourth."""
    model, (x, y) = make_model(), make_batch(2, 16)
    kept, cut, counts = torch.zeros(()), torch.zeros(()), []
    for _ in range(4):
        loss = token_loss(model, x, y)
        loss.backward()
        kept, cut = kept + loss, cut + loss.detach()
        counts.append(nodes_below(kept))
    return {"total += loss, a step": counts[3] - counts[2], "total += loss.detach()": nodes_below(cut)}


@claim(
    "zeros-still-move",
    "After a step AdamW moves a weight on by {expected[zeros]} (rate 0.1) if its gradient is now zeros, by "
    "{expected[None]} if it is None.",
    expected={"None": 0, "zeros": 0.067},
    tolerance=0.001,
    unit="",
)
def zeros_still_move() -> Mapping[str, float]:
    """Takes a step with gradient 1, clears both ways, and steps again."""
    measured = {}
    for name, set_to_none in (("None", True), ("zeros", False)):
        weight = torch.ones(1, requires_grad=True)
        optimizer = AdamW([weight], lr=0.1, weight_decay=0.0)
        weight.grad = torch.ones(1)
        optimizer.step()
        before = weight.item()
        optimizer.zero_grad(set_to_none=set_to_none)
        optimizer.step()
        measured[name] = before - weight.item()
    return measured


def out_of_memory_with(watched: list["weakref.ref[Tensor]"]) -> None:
    """Makes 4 MiB of activations and then asks for more than there is."""
    activations = torch.zeros(MIB)
    watched.append(weakref.ref(activations))
    torch.empty(2**60)


def bytes_alive(watched: list["weakref.ref[Tensor]"]) -> int:
    """Bytes of the watched tensors that still exist."""
    return sum(tensor.nbytes for reference in watched if (tensor := reference()) is not None)


@claim(
    "except-keeps-the-frame",
    "Inside `except`, the failed step's 4 MiB still exist; after it they are gone, unless the error was kept.",
    expected={"inside except": 4, "after it": 0, "error kept": 4, "its text kept": 0},
    unit="MiB",
)
def except_keeps() -> Mapping[str, float]:
    """Runs out of memory in earnest on the CPU and asks weak references which tensors are there."""
    measured: dict[str, float] = {}
    watched: list[weakref.ref[Tensor]] = []
    try:
        out_of_memory_with(watched)
    except RuntimeError:
        measured["inside except"] = bytes_alive(watched) / MIB
    measured["after it"] = bytes_alive(watched) / MIB
    for what in ("error kept", "its text kept"):
        watched.clear()
        kept: list[object] = []
        try:
            out_of_memory_with(watched)
        except RuntimeError as error:
            kept.append(error if what == "error kept" else str(error))
        measured[what] = bytes_alive(watched) / MIB
        kept.clear()
    return measured


@claim(
    "half-a-backward",
    "A backward that fails in block 1 of 4 leaves 13 of 27 gradients; a retry that does not clear doubles those 13.",
    expected={"gradients left": 13, "doubled by the retry": 13},
    unit="tensors",
)
def half_a_backward() -> Mapping[str, float]:
    """Raises MemoryError in the backward pass of Lab 02's GPT, runs it again, and compares with a clean gradient."""
    model, (x, y) = make_model(), make_batch(2, 16)

    def fail(gradient: Tensor) -> None:
        raise MemoryError("as if out of memory")

    def watch(module: nn.Module, inputs: object, output: Tensor) -> None:
        output.register_hook(fail)

    hook = model.blocks[1].register_forward_hook(watch)
    with contextlib.suppress(MemoryError):
        token_loss(model, x, y).backward()
    hook.remove()
    left = sum(p.grad is not None for p in model.parameters())
    token_loss(model, x, y).backward()
    retried = [p.grad for p in model.parameters()]
    model.zero_grad()
    token_loss(model, x, y).backward()
    clean = [p.grad for p in model.parameters()]
    doubled = sum(
        torch.allclose(a, 2 * b) for a, b in zip(retried, clean, strict=True) if a is not None and b is not None
    )
    return {"gradients left": left, "doubled by the retry": doubled}


# ------------------------------------------------------------------------------------------------------- silent or loud
@claim(
    "data-goes-behind-autograd",
    "Doubling a sigmoid's output through .data makes its derivative -0.68 instead of {expected[true derivative]:.2f}; "
    "without .data it is an error.",
    expected={"true derivative": 0.197, "after .data": -0.676, "without .data: error": 1},
    tolerance=0.001,
    unit="",
)
def data_goes_behind() -> Mapping[str, float]:
    """Differentiates sigmoid at 1, its output untouched, doubled through .data, and doubled in place."""

    def derivative(change: Callable[[Tensor], object]) -> float:
        x = torch.ones(1, requires_grad=True)
        s = torch.sigmoid(x)
        change(s)
        s.sum().backward()
        assert x.grad is not None
        return x.grad.item()

    return {
        "true derivative": derivative(lambda s: None),
        "after .data": derivative(lambda s: s.data.mul_(2)),
        "without .data: error": raises(lambda: derivative(lambda s: s.mul_(2))),
    }


@claim(
    "inference-tensors-refuse",
    "A tensor made in inference_mode raises where training uses or changes it; one made under no_grad does not.",
    expected={"no_grad": 0, "inference_mode": 1, "inference_mode, in place": 1},
    unit="errors",
)
def inference_tensors() -> Mapping[str, float]:
    """Multiplies such a tensor with a weight and runs backward; and adds 1 to it in place."""
    weight = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        plain = torch.ones(3)
    with torch.inference_mode():
        made = torch.ones(3)
    return {
        "no_grad": raises(lambda: (weight * plain).sum().backward()),
        "inference_mode": raises(lambda: (weight * made).sum().backward()),
        "inference_mode, in place": raises(lambda: made.add_(1)),
    }


@claim(
    "anomaly-mode-reads",
    "Anomaly mode raises the calls of forward and backward from {expected[calls, without]} to "
    "{expected[calls, with]}, {expected[reads, with]} of which read a number.",
    expected={"calls, without": 352, "calls, with": 838, "reads, without": 0, "reads, with": 162},
    unit="",
)
def anomaly_mode() -> Mapping[str, float]:
    """Counts the calls of one step of Lab 02's GPT both ways, the optimizer left out."""
    model, (x, y) = make_model(), make_batch(2, 16)

    def step() -> None:
        model.zero_grad()
        token_loss(model, x, y).backward()

    plain = calls_of(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is slow, which is the point here
        with torch.autograd.detect_anomaly():
            checked = calls_of(step)
    return {
        "calls, without": plain.by_name.total(),
        "calls, with": checked.by_name.total(),
        "reads, without": plain.reads,
        "reads, with": checked.reads,
    }


# -------------------------------------------------------------------------------------------------------------- records
@claim(
    "jsonl-survives-a-kill",
    "Cut anywhere, a log of a line an event keeps every finished line; a JSON list cut anywhere cannot be read.",
    expected={"cuts that lose a finished line": 0, "cuts that leave a readable list": 0},
    unit="",
)
def jsonl() -> Mapping[str, float]:
    """Writes 20 events both ways and cuts each file at every byte."""
    events = [{"step": step, "loss": 4.5 / (step + 1)} for step in range(20)]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    whole = json.dumps(events)
    lost = readable = 0
    for cut in range(1, len(lines)):
        finished = lines[:cut].count("\n")
        lost += [json.loads(line) for line in lines[:cut].split("\n")[:-1]] != events[:finished]
    for cut in range(1, len(whole)):
        with contextlib.suppress(json.JSONDecodeError):
            json.loads(whole[:cut])
            readable += 1
    return {"cuts that lose a finished line": lost, "cuts that leave a readable list": readable}


class KilledError(Exception):
    """Stands for the end of the process."""


def write_until(path: Path, content: bytes, limit: int) -> None:
    """Writes `content`, or the first `limit` bytes of it and dies."""
    path.write_bytes(content[:limit])
    if limit < len(content):
        raise KilledError


def save_in_place(path: Path, content: bytes, limit: int) -> None:
    """Over what is there."""
    write_until(path, content, limit)


def save_beside(path: Path, content: bytes, limit: int) -> None:
    """Into another file, which takes the name when it is whole."""
    beside = path.with_suffix(".tmp")
    write_until(beside, content, limit)
    os.replace(beside, path)


@claim(
    "rename-keeps-the-old-file",
    "Killed at any of {expected[renamed]} moments, a save in place leaves no readable checkpoint; one that renames "
    "leaves the old one.",
    expected={"in place": 0, "renamed": 50},
    unit="of 50 readable",
)
def rename() -> Mapping[str, float]:
    """Saves over an old checkpoint both ways, dies after a part of the bytes, and loads what has the name then."""
    new, old = io.BytesIO(), io.BytesIO()
    for step, file in enumerate((old, new)):
        torch.save({"weight": torch.zeros(1000), "step": step}, file)
    readable = {"in place": 0, "renamed": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.pt")
        for limit in np.linspace(0, len(new.getvalue()) - 1, 50, dtype=int):
            for way, save in (("in place", save_in_place), ("renamed", save_beside)):
                path.write_bytes(old.getvalue())
                with contextlib.suppress(KilledError):
                    save(path, new.getvalue(), limit)
                with contextlib.suppress(Exception):
                    torch.load(path, weights_only=True)
                    readable[way] += 1
    return readable
