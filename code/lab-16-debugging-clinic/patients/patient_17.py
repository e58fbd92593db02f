"""Patient 17: the first step raises a RuntimeError about the shapes of two matrices."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    body: nn.Module,
    head: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=lr)
    log: dict[str, list[float]] = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        features = body(images[rows])  # [B, C, H, W]
        logits = head(features.flatten(2))
        loss = F.cross_entropy(logits, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits = load_images("digits")
    body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).to(device)  # [B, 16, 4, 4]
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    modules = {"body": body, "head": nn.Linear(16 * 4 * 4, 10).to(device)}
    return {**modules, **data, "steps": 60, "batch_size": 32, "lr": 0.1, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
