"""Patient 19: the first backward pass raises a RuntimeError: a tensor has no grad_fn."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, views: int, lr: float, seed: int
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    log: dict[str, list[float]] = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        losses = []
        for view in range(views):  # the same pictures, moved by a pixel at a time
            x = images[rows].roll(view, dims=-1)
            losses.append(F.cross_entropy(model(x), labels[rows]).item())
        loss = torch.tensor(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_mlp(1, 8, 10).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    return {"model": model, **data, "steps": 60, "batch_size": 32, "views": 2, "lr": 0.003, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
