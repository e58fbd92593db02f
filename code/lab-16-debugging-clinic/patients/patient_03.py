"""Patient 03: after the first validation the training loss drops at once, and the validation loss rises."""

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
    model.train()
    for step in range(1, steps + 1):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        if step % every == 0:
            model.eval()
            with torch.no_grad():
                log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits = load_images("digits")
    layers = nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)
    model = nn.Sequential(nn.Flatten(), *layers).to(device)
    data = {"images": digits.train_images[:300].to(device) / 255, "labels": digits.train_labels[:300].to(device)}
    data |= {"val_images": digits.val_images.to(device) / 255, "val_labels": digits.val_labels.to(device)}
    data["labels"][:100] = torch.randint(10, (100,))  # a third of the labels are random
    return {"model": model, **data, "steps": 300, "batch_size": 32, "every": 20, "lr": 0.1, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
