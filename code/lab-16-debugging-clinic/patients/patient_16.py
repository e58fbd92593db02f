"""Patient 16: a step takes several times as long as its forward pass, backward pass and update together."""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.learn.data.corpus import load_corpus, load_text
from rankzero.learn.models.gpt import GPT, GPTConfig

SYMPTOM = "waiting", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: GPT,
    text: str,
    encode: Callable[[str], Tensor],
    *,
    steps: int,
    batch_size: int,
    block_size: int,
    lr: float,
    seed: int,
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    device = next(model.parameters()).device
    log: dict[str, list[float]] = {"loss": [], "waiting": []}
    for _ in range(steps):
        began = time.perf_counter()
        tokens = encode(text)  # [N]
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts].to(device)  # [B, T + 1]
        loaded = time.perf_counter()
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["waiting"].append((loaded - began) / (time.perf_counter() - began))  # share of the step
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    corpus, text = load_corpus(), load_text("embedded")
    model = GPT(GPTConfig(corpus.vocab_size, block_size=32, n_layer=2, n_head=2, hidden_dim=32)).to(device)
    sizes = {"steps": 30, "batch_size": 8, "block_size": 32, "lr": 0.01}
    return {"model": model, "text": text, "encode": corpus.encode, **sizes, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
