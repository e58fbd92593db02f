"""Patient 04: the validation loss is high and jumps, although the training loss is as it should be."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images

SYMPTOM = "val_loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    val_images: Tensor,
    val_labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    every: int,
    lr: float,
    seed: int,
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: dict[str, list[float]] = {"loss": [], "val_loss": []}
    for step in range(1, steps + 1):
        model.train()
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        if step % every == 0:
            total = 0.0
            with torch.no_grad():
                for x, y in zip(val_images.split(batch_size), val_labels.split(batch_size), strict=True):
                    total += F.cross_entropy(model(x), y, reduction="sum").item()
            log["val_loss"].append(total / len(val_images))
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits = load_images("digits")
    layers = nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)
    model = nn.Sequential(nn.Flatten(), *layers).to(device)
    data = {"images": digits.train_images[:600].to(device) / 255, "labels": digits.train_labels[:600].to(device)}
    data |= {"val_images": digits.val_images.to(device) / 255, "val_labels": digits.val_labels.to(device)}
    return {"model": model, **data, "steps": 200, "batch_size": 16, "every": 10, "lr": 0.05, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
