"""Patient 18: on the CPU all is well; on another device the first step raises a RuntimeError about devices."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module, images: Tensor, labels: Tensor, *, device: str, steps: int, batch_size: int, lr: float, seed: int
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        x, y = images[rows], labels[rows]
        x.to(device)
        y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"loss": torch.stack(losses)}  # on `device`: reading a number would wait for it


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`. Without a GPU, torch's device `meta` stands for one: shapes, no numbers."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_mlp(1, 8, 10)
    data = {"images": digits.train_images / 255, "labels": digits.train_labels}
    other = "cuda" if torch.cuda.is_available() else "meta"
    return {"model": model, **data, "device": other, "steps": 60, "batch_size": 32, "lr": 0.1, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
