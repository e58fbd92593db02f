"""Patient 02: with eight micro-batches per update, training is worse than with one batch of the same size."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "loss", "end"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    accumulate: int,
    lr: float,
    seed: int,
) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-2)
    log: dict[str, list[float]] = {"loss": [], "gradient_norm": []}
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for part in rows.chunk(accumulate):  # micro-batches of one size
            loss = F.cross_entropy(model(images[part]), labels[part])
            loss.backward()
            total += loss.item()
        norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        optimizer.step()
        log["loss"].append(total / accumulate)
        log["gradient_norm"].append(torch.stack(norms).norm().item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_mlp(1, 8, 10).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    return {"model": model, **data, "steps": 80, "batch_size": 64, "accumulate": 8, "lr": 0.2, "seed": seed}


if __name__ == "__main__":
    for step, loss in enumerate(train(**setup())["loss"], start=1):
        print(f"step {step:4d}  loss {loss:.4f}")
