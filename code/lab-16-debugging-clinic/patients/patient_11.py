"""Patient 11: the training loss falls fast and far, and the loss on other text rises."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig

SYMPTOM = "val_loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: GPT,
    tokens: Tensor,
    val_tokens: Tensor,
    *,
    steps: int,
    batch_size: int,
    block_size: int,
    lr: float,
    seed: int,
) -> dict[str, list[float]]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    val_windows = val_tokens.unfold(0, block_size + 1, block_size)  # [N, T + 1]
    log: dict[str, list[float]] = {"loss": [], "val_loss": []}
    for _ in range(steps):
        model.train()
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            val_loss = F.cross_entropy(model(val_windows[:, :-1]).flatten(0, 1), val_windows[:, 1:].flatten())
        log["loss"].append(loss.item())
        log["val_loss"].append(val_loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    corpus = load_corpus()
    model = GPT(GPTConfig(corpus.vocab_size, block_size=32, n_layer=2, n_head=2, hidden_dim=32)).to(device)
    sizes = {"steps": 80, "batch_size": 8, "block_size": 32, "lr": 0.004}
    data = {"tokens": corpus.train.to(device), "val_tokens": corpus.val[:257].to(device)}
    return {"model": model, **data, **sizes, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
