"""Patient 06: a run over several epochs learns for a moment, and then its loss stays where it is."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_cnn

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)
    log: dict[str, list[float]] = {"loss": []}
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        for rows in order.split(batch_size):  # the last batch may be smaller
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            scheduler.step()
            log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_cnn(1, 10).to(device)
    data = {"images": digits.train_images[:512].to(device) / 255, "labels": digits.train_labels[:512].to(device)}
    return {"model": model, **data, "epochs": 6, "batch_size": 32, "lr": 0.02, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
