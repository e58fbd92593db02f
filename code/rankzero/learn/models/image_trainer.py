"""Image trainer: a small CNN beside a small MLP, trained on the same batches of pictures, on all ranks if several."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from rankzero.errors import UserError
from rankzero.learn.distributed.rank_sync import mean_over_ranks
from rankzero.learn.models.image_classifiers import small_cnn, small_mlp


class ImageTrainer:
    """Trains a CNN, and beside it an MLP with `mlp`; both are made from `seed`, so that two trainers start alike."""

    def __init__(
        self, statistics: Sequence[Tensor], side: int, classes: int, lr: float, seed: int, *, mlp: bool = False
    ) -> None:
        """`statistics` are mean and standard deviation by channel, each [1, C, 1, 1], on the device to train on."""
        self.mean, self.std = statistics
        self.device, channels = self.mean.device, self.mean.shape[1]
        torch.manual_seed(seed)
        models = {"CNN": small_cnn(channels, classes)} | ({"MLP": small_mlp(channels, side, classes)} if mlp else {})
        self.models = {name: model.to(self.device) for name, model in models.items()}
        self.ranks = dist.get_world_size() if dist.is_initialized() else 1
        if self.ranks > 1:
            self.models = {name: DistributedDataParallel(model) for name, model in self.models.items()}  # type: ignore[misc]
        self.optimizers = {name: AdamW(model.parameters(), lr=lr) for name, model in self.models.items()}

    def logits(self, name: str, images: Tensor) -> Tensor:
        """[B, C, S, S] uint8 -> [B, K]: bytes become numbers on the device, after the copy."""
        x = images.to(self.device, non_blocking=True)  # returns at once if the batch is in pinned memory
        scores: Tensor = self.models[name]((x.float() / 255 - self.mean) / self.std)
        return scores

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """One update of each model, from uint8 [B, C, S, S] and int64 [B]; returns their losses in nats, [models]."""
        losses, labels = [], labels.to(self.device, non_blocking=True)
        for name, optimizer in self.optimizers.items():
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(self.logits(name, images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # a step ends when its work is done, not when it is queued
        return mean_over_ranks(torch.stack(losses)) if self.ranks > 1 else torch.stack(losses)

    def summary(self) -> str:
        """Returns the models and their sizes in words."""
        sizes = {name: sum(p.numel() for p in model.parameters()) for name, model in self.models.items()}
        return ", ".join(f"{name} of {size:,} parameters" for name, size in sizes.items())

    @torch.no_grad()
    def shares_right(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        """Share of the pictures that each model puts into the right class; each counts once, also over ranks."""
        if self.ranks > 1:
            images, labels = (part[dist.get_rank() :: self.ranks] for part in (images, labels))
        counts = torch.zeros(len(self.models) + 1, dtype=torch.int64, device=self.device)
        for x, y in zip(images.split(512), labels.split(512), strict=True):
            right = [(self.logits(name, x).argmax(-1) == y.to(self.device)).sum() for name in self.models]
            counts += torch.stack([*right, torch.tensor(len(y), device=self.device)])
        if self.ranks > 1:
            dist.all_reduce(counts)
        *right_counts, total = counts.tolist()
        return {name: right / total for name, right in zip(self.models, right_counts, strict=True)}


def check_sizes(batch_size: int, side: int, pictures: int, ranks: int) -> None:
    """UserError unless the batch divides over the ranks, is there, and has pictures that the CNN can take."""
    if batch_size % ranks:
        raise UserError(f"--batch-size {batch_size} does not divide into {ranks} ranks: use a multiple.")
    if batch_size > pictures:
        raise UserError(f"--batch-size {batch_size} is more than the {pictures} training pictures: use a smaller one.")
    if side < 8:
        raise UserError(f"--side {side} is too small for the CNN: use 8 or more.")
