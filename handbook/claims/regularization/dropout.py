"""Claims of handbook/regularization.md: dropout."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model
from rankzero.learn.models.gpt import Block

from .shared import T, _loss, _model, _score, _write


@claim(
    "dropout-keeps-the-mean",
    "Dropout of 0.2 keeps the mean of ones at 1, gives them a variance of p / (1 - p) = {expected[variance]}, and "
    "does nothing in eval mode.",
    expected={"mean": 1, "variance": 0.25, "changed in eval mode": 0},
    tolerance=0.002,
    unit="",
)
def keeps_the_mean() -> Mapping[str, float]:
    """Drops from a million ones; the tolerance is four standard errors."""
    torch.manual_seed(0)
    ones, layer = torch.ones(1_000_000, dtype=torch.float64), nn.Dropout(0.2)
    dropped = layer(ones)
    changed = layer.eval()(ones).ne(ones).sum().item()
    return {"mean": dropped.mean().item(), "variance": dropped.var().item(), "changed in eval mode": changed}


class _Draws(TorchDispatchMode):
    """Counts operations that draw a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += any(word in str(func) for word in ("bernoulli", "native_dropout"))
        return func(*args, **(kwargs or {}))


@claim(
    "dropout-places",
    "A GPT of four layers drops at {expected[train mode]} places: 1 + 3L; in eval mode at none.",
    expected={"train mode": 13, "eval mode": 0},
    unit="masks drawn",
)
def dropout_places() -> Mapping[str, float]:
    """Counts the random masks of one forward pass of Lab 02's model with dropout 0.1."""
    model, counts = make_model(dropout=0.1), {}
    for name, training in (("train mode", True), ("eval mode", False)):
        with _Draws() as draws:
            model.train(training)(make_batch(2, 16)[0])
        counts[name] = draws.count
    return counts


@claim(
    "forgotten-eval",
    "After 100 steps with dropout 0.2, train mode makes the loss {expected[training text]} nats worse on the "
    "training text and 0.1 better on new text.",
    expected={"training text": 0.4, "new text": -0.1},
    tolerance=0.08,
    unit="nats worse",
)
def forgotten_eval() -> Mapping[str, float]:
    """Scores the trained model in both modes, train mode with the mean of ten draws."""
    text, model = _write(32, seed=1), _model(dropout=0.2)
    optimizer = AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(100):
        optimizer.zero_grad()
        _loss(model, text).backward()
        optimizer.step()
    worse = {}
    for name, part in (("training text", text), ("new text", _write(128, seed=2))):
        exact = _score(model, part)
        with torch.no_grad():
            worse[name] = sum(_loss(model, part).item() for _ in range(10)) / 10 - exact
    return worse


@claim(
    "dropout-breaks-accumulation",
    "The gradient of one batch of 8 lines and that of two of 4 are equal without dropout and {expected[dropout 0.2]} "
    "% apart with 0.2.",
    expected={"dropout 0": 0, "dropout 0.2": 43},
    tolerance=5,
    unit="% of the length",
)
def breaks_accumulation() -> Mapping[str, float]:
    """Seeds alike, runs backward on one batch and on halves of it, and divides the length of the difference.

    The tolerance allows other masks on another machine.
    """

    def gradient(parts: int, dropout: float) -> Tensor:
        model, text = _model(dropout), _write(8, seed=1)
        torch.manual_seed(0)
        for part in text.chunk(parts):
            (_loss(model, part) / parts).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    apart = {}
    for dropout in (0, 0.2):
        whole, halves = gradient(1, dropout), gradient(2, dropout)
        apart[f"dropout {dropout}"] = 100 * ((whole - halves).norm() / whole.norm()).item()
    return apart


@claim(
    "checkpoint-replays-dropout",
    "A recomputed block with dropout 0.2 gives the same gradient bit for bit; without the saved random state one of "
    "its matrices' is {expected[state not kept]} % off.",
    expected={"state kept": 0, "state not kept": 41},
    tolerance=5,
    unit="% of the length",
)
def replays_dropout() -> Mapping[str, float]:
    """Runs a block plain and checkpointed, with preserve_rng_state on and off, and compares mlp.up's gradients.

    The tolerance allows other masks on another machine; with the state kept the difference measured is 0.
    """

    def gradient(keep: bool | None) -> Tensor:
        block = _model(dropout=0.2).blocks[0]
        assert isinstance(block, Block)
        torch.manual_seed(1)
        x = torch.randn(4, T, 32, dtype=torch.float64, requires_grad=True)
        output = block(x) if keep is None else checkpoint(block, x, use_reentrant=False, preserve_rng_state=keep)
        output.square().sum().backward()
        assert block.mlp.up.weight.grad is not None
        return block.mlp.up.weight.grad

    plain = gradient(None)
    return {
        name: 100 * ((gradient(keep) - plain).norm() / plain.norm()).item()
        for name, keep in (("state kept", True), ("state not kept", False))
    }
