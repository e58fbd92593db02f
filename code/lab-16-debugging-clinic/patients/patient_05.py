"""Patient 05: the training loss never falls below about 1.5, although most predictions become right."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    log: dict[str, list[float]] = {"loss": [], "accuracy": []}
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        scores = model(images[rows]).softmax(dim=-1)  # [B, K]
        loss = F.cross_entropy(scores, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["accuracy"].append((scores.argmax(dim=-1) == labels[rows]).float().mean().item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_mlp(1, 8, 10).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    return {"model": model, **data, "steps": 150, "batch_size": 64, "lr": 0.003, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
