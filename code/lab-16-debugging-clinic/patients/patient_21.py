"""Patient 21: on several ranks the loss is worse than on one, and each rank saves another model."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.image_classifiers import small_mlp

SYMPTOM = "weight_sum", "spread"  # a series of the log, and what of it shows the complaint


def train(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> dict[str, list[float]]:
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: dict[str, list[float]] = {"loss": [], "weight_sum": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (world * batch_size,), generator=generator)[rank::world]  # this rank's
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        log["loss"].append(loss.item())
        log["weight_sum"].append(sum(parameter.sum().item() for parameter in model.parameters()))
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`, on each rank."""
    torch.manual_seed(seed + dist.get_rank())
    digits, model = load_images("digits"), small_mlp(1, 8, 10).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    return {"model": model, **data, "steps": 60, "batch_size": 32, "lr": 0.1, "seed": seed}


if __name__ == "__main__":
    for rank, log in enumerate(run_world(lambda: train(**setup()), 2, seconds=20)):
        print(f"rank {rank}  losses " + " ".join(f"{loss:.3f}" for loss in log["loss"][::10]))
