"""Patient 15: the memory of the process grows with every validation, until the run is killed."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_cnn
from rankzero.learn.profiling.memory import memory_now

SYMPTOM = "memory", "growth"  # a series of the log, and what of it shows the complaint


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
    memory_mib: Callable[[], float],
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses, val_losses, memory = [], [], []
    for step in range(1, steps + 1):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # read at the end
        if step % every == 0:
            batches = zip(val_images.split(batch_size), val_labels.split(batch_size), strict=True)
            sums = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
            val_losses.append(sum(sums) / len(val_images))
            memory.append(memory_mib())
    return {"loss": [v.item() for v in losses], "val_loss": [v.item() for v in val_losses], "memory": memory}


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_cnn(1, 10).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    data |= {"val_images": digits.val_images.to(device) / 255, "val_labels": digits.val_labels.to(device)}
    data |= {"memory_mib": lambda: next(iter(memory_now(torch.device(device)).values())) / 2**20}
    return {"model": model, **data, "steps": 40, "batch_size": 32, "every": 4, "lr": 0.02, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
