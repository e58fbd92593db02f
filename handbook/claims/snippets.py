"""Claims of handbook/snippets.md, and the functions that the page shows and no lab has."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.checkpoint import checkpoint_sequential

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.learn.models.gpt import GPT, GPTConfig


def run_in_segments(blocks: nn.Sequential, x: Tensor, segments: int) -> Tensor:
    """Keeps one input per segment; only the last segment keeps everything."""
    y: Tensor = checkpoint_sequential(blocks, segments, x, use_reentrant=False)
    return y


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for an optimizer: weight decay for matrices alone."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]


def accumulated_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    micro_batch: int,
) -> Tensor:
    """One update by the mean loss over all tokens of x and y, int64 [B, T]."""
    optimizer.zero_grad(set_to_none=True)
    for part_x, part_y in zip(x.split(micro_batch), y.split(micro_batch), strict=True):
        logits = model(part_x).flatten(0, 1)
        loss = F.cross_entropy(logits, part_y.flatten(), reduction="sum")
        (loss / y.numel()).backward()  # its share of the mean over the whole batch
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # once, at the end
    optimizer.step()
    return norm


class Counted(nn.Module):
    """A layer that counts its forward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.runs = nn.Linear(4, 4), 0

    def forward(self, x: Tensor) -> Tensor:
        """[B, 4] -> [B, 4]"""
        self.runs += 1
        y: Tensor = self.layer(x).tanh()
        return y


@claim(
    "snippets-runs-per-layer",
    "In a step of 8 layers in 4 segments, checkpoint_sequential runs the first six layers {expected[first six]} times "
    "and the last two {expected[last two]} time.",
    expected={"first six": 2, "last two": 1},
    unit="forward passes per step",
)
def runs_per_layer() -> Charted:
    """Counts the forward passes of each layer in one step; the early stop leaves no whole layer out."""
    layers = [Counted() for _ in range(8)]
    run_in_segments(nn.Sequential(*layers), torch.randn(2, 4, requires_grad=True), 4).sum().backward()
    runs = [layer.runs for layer in layers]
    points = [(str(place), *3 * (float(count),)) for place, count in enumerate(runs, start=1)]
    chart = Chart("Forward passes in a step", "layer", "forward passes", {"runs": points})
    first, last = set(runs[:6]), set(runs[6:])
    return Charted({"first six": max(first | {0}), "last two": max(last | {0})}, chart)


@claim(
    "snippets-same-gradient",
    "checkpoint_sequential changes {expected} numbers of the gradients of 8 layers.",
    expected=0,
    unit="numbers that differ",
)
def same_gradient() -> float:
    """Compares the gradients of all layers bit for bit with those of a plain step."""
    torch.manual_seed(0)
    layers, x = nn.Sequential(*(Counted() for _ in range(8))), torch.randn(2, 4)
    gradients = []
    for segments in (0, 4):
        y = run_in_segments(layers, x.clone().requires_grad_(), segments) if segments else layers(x)
        layers.zero_grad()
        y.sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in layers.parameters() if p.grad is not None]))
    return int((gradients[0] != gradients[1]).sum())


@claim(
    "snippets-decay-groups",
    "Of the {expected[parameters]} tensors of Lab 02's GPT, {expected[decayed]} get weight decay by their dimensions. "
    "The names bias and LayerNorm.weight keep {expected[by name]} of them from it.",
    expected={"parameters": 27, "decayed": 18, "by name": 0},
    unit="tensors",
)
def decay_group_sizes() -> Mapping[str, float]:
    """Counts the tensors of both groups, and those whose name contains one of the two names."""
    model = GPT(GPTConfig(vocab_size=96))
    decayed, others = (len(group["params"]) for group in decay_groups(model, 0.1))
    found = [n for n, _ in model.named_parameters() if "bias" in n or "LayerNorm.weight" in n]
    return {"parameters": decayed + others, "decayed": decayed, "by name": len(found)}


@claim(
    "snippets-accumulation",
    "Twelve sequences in parts of 5, 5 and 2 and in one part have gradient norms that differ by {expected}.",
    expected=0,
    unit="of the norm",
    tolerance=1e-12,
)
def accumulation() -> float:
    """Runs accumulated_step with both sizes on a small GPT in float64 and compares the norms before clipping."""
    norms = []
    for micro_batch in (12, 5):
        torch.manual_seed(0)
        model = GPT(GPTConfig(vocab_size=32, block_size=8, n_layer=1, n_head=2, hidden_dim=16)).double()
        x, y = torch.randint(32, (2, 12, 8))
        norms.append(accumulated_step(model, SGD(model.parameters(), lr=0.1), x, y, micro_batch).item())
    return abs(norms[1] / norms[0] - 1)
