"""Patient 20: the first step raises a RuntimeError about two dtypes."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module, pictures: np.ndarray, labels: np.ndarray, *, steps: int, batch_size: int, lr: float, seed: int
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).to(device)
    targets = torch.from_numpy(labels.astype(np.int64)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: dict[str, list[float]] = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_mlp(1, 8, 10).to(device)
    data = {"pictures": digits.train_images.numpy(), "labels": digits.train_labels.numpy()}
    return {"model": model, **data, "steps": 60, "batch_size": 32, "lr": 0.02, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
