"""Patient 07: a network with a new head for ten other classes learns far more slowly than it should."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_cnn

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Sequential,
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
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    model[-1] = head  # in place of the pretrained head
    log: dict[str, list[float]] = {"loss": []}
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        model.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits = load_images("digits")
    modules = {"model": small_cnn(1, 10).to(device), "head": nn.Linear(64 * 16, 10).to(device)}
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    return {**modules, **data, "steps": 60, "batch_size": 32, "lr": 0.02, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
