"""Patient 13: the loss of a small transformer is far too low, and the text that it writes is nonsense."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.corpus import load_corpus

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.ModuleDict, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    log: dict[str, list[float]] = {"loss": []}
    for _ in range(steps):
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        places = torch.arange(block_size, device=tokens.device)
        x = model["tokens"](inputs) + model["places"](places)  # [B, T, C]
        q, k, v = model["qkv"](x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, T, T]
        x = x + model["out"](scores.softmax(dim=-1) @ v)
        loss = F.cross_entropy(model["head"](x).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    corpus, C, T = load_corpus(), 32, 16
    layers = {"tokens": nn.Embedding(corpus.vocab_size, C), "places": nn.Embedding(T, C)}
    layers |= {"qkv": nn.Linear(C, 3 * C), "out": nn.Linear(C, C), "head": nn.Linear(C, corpus.vocab_size)}
    sizes = {"steps": 300, "batch_size": 16, "block_size": T, "lr": 0.01}
    return {"model": nn.ModuleDict(layers).to(device), "tokens": corpus.train.to(device), **sizes, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
