"""Patient 08: the loss falls, but it stays above that of a healthy run, however long the run is."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    encoder: nn.Module,
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
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=lr)
    log: dict[str, list[float]] = {"loss": [], "feature_norm": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        features = encoder(images[rows])  # [B, C]
        norm = features.detach().norm(dim=-1).mean()
        features = features.data.relu()
        loss = F.cross_entropy(head(features), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["feature_norm"].append(norm.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits = load_images("digits")
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 16)).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    modules = {"encoder": encoder, "head": nn.Linear(16, 10).to(device)}
    return {**modules, **data, "steps": 200, "batch_size": 32, "lr": 0.01, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
