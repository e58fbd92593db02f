"""Patient 22: the run on several ranks is hardly faster than on one: in many steps all ranks but one wait."""

import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.image_sets import load_images
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.image_classifiers import small_cnn

SYMPTOM = "seconds", "ratio"  # a series of the log, and what of it shows the complaint


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
) -> dict[str, list[float]]:
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: dict[str, list[float]] = {"loss": [], "val_loss": [], "seconds": []}
    for step in range(1, steps + 1):
        began = time.perf_counter()
        rows = torch.randint(len(images), (world * batch_size,), generator=generator)[rank::world]  # this rank's
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        if rank == 0 and step % every == 0:
            with torch.no_grad():
                log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
        log["seconds"].append(time.perf_counter() - began)  # before this rank waits for the others
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        log["loss"].append(loss.item())
    return log


def setup(seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Returns the arguments of `train`, on each rank."""
    torch.manual_seed(seed)
    digits, model = load_images("digits"), small_cnn(1, 10).to(device)
    data = {"images": digits.train_images.to(device) / 255, "labels": digits.train_labels.to(device)}
    data |= {"val_images": digits.val_images.to(device) / 255, "val_labels": digits.val_labels.to(device)}
    return {"model": model, **data, "steps": 30, "batch_size": 16, "every": 2, "lr": 0.05, "seed": seed}


if __name__ == "__main__":
    for rank, log in enumerate(run_world(lambda: train(**setup()), 2, seconds=20)):
        print(f"rank {rank}  losses " + " ".join(f"{loss:.3f}" for loss in log["loss"][::10]))
