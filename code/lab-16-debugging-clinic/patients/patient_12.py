"""Patient 12: the loss falls to nearly 0 within a few dozen steps, far below what this text allows."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: GPT, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)
    log: dict[str, list[float]] = {"loss": []}
    model.train()
    for _ in range(steps):
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        inputs = windows[:, :-1]
        targets = windows[:, :-1].flatten()
        logits = model(inputs).flatten(0, 1)  # [B * T, V]
        loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    corpus = load_corpus()
    model = GPT(GPTConfig(corpus.vocab_size, block_size=32, n_layer=2, n_head=2, hidden_dim=32)).to(device)
    sizes = {"steps": 100, "batch_size": 8, "block_size": 32, "lr": 0.01}
    return {"model": model, "tokens": corpus.train.to(device), **sizes, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
