"""Patient 14: the validation loss falls to nearly 0, and on new data the model is much worse."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "val_loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    held_out: int,
    epochs: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(images), generator=generator)
    train_rows, val_rows = shuffled[:-held_out], shuffled[:held_out]
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    log: dict[str, list[float]] = {"loss": [], "val_loss": []}
    for _ in range(epochs):
        model.train()
        for rows in train_rows[torch.randperm(len(train_rows), generator=generator)].split(batch_size):
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log["loss"].append(loss.item())
        model.eval()
        with torch.no_grad():
            log["val_loss"].append(F.cross_entropy(model(images[val_rows]), labels[val_rows]).item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_mlp(1, 8, 10).to(device)
    data = {"images": digits.train_images[:200].to(device) / 255, "labels": digits.train_labels[:200].to(device)}
    return {"model": model, **data, "held_out": 50, "epochs": 25, "batch_size": 16, "lr": 0.01, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
