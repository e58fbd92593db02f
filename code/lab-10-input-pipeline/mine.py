"""The learner's functions in Lab 10's starter: `rankzero run 10 --mine`.

The learner's channel_statistics and prepare normalize the pictures, after each batch has come through the learner's
Prefetcher, so that a lost batch, another order or another scale gives other losses.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from rankzero.learn.models.image_trainer import ImageTrainer

USES = ("channel_statistics", "prepare", "Prefetcher")  # functions whose exercises must pass first
# Of the starter, for both runs: the loaders and the losses, without slow reads and without the report on the text.
OPTIONS = ("--device", "cpu", "--workers", "1", "--read-ms", "0", "--epochs", "2", "--merges", "0")
PROGRESS = ("device ", "loader ", "this process loads", "+ ")  # beginnings of lines to show before the first step
ROUNDING = 1e-3  # a mean rounded otherwise in its last digit; hundreds of updates amplify the difference


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    statistics, prepare, prefetcher = learner.channel_statistics, learner.prepare, learner.Prefetcher
    make_loader = starter.make_loader

    def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
        mean, std = statistics(images.permute(0, 2, 3, 1))
        return mean.view(1, -1, 1, 1), std.view(1, -1, 1, 1)

    class LearnersTrainer(ImageTrainer):
        def logits(self, name: str, images: Tensor) -> Tensor:
            batch = prepare(images.permute(0, 2, 3, 1), self.mean.flatten(), self.std.flatten())
            scores: Tensor = self.models[name](batch)
            return scores

    class ReadAhead:
        def __init__(self, loader: Any) -> None:
            self.loader = loader

        def __iter__(self) -> Iterator[Any]:
            batches: Iterator[Any] = prefetcher(self.loader, 2)
            return batches

    def loader_of(pictures: Any, order: Any, settings: dict[str, Any]) -> Any:
        loader = make_loader(pictures, order, settings)
        return ReadAhead(loader) if settings["num_workers"] else loader  # the profiler sees this thread alone

    return {"channel_statistics": channel_statistics, "ImageTrainer": LearnersTrainer, "make_loader": loader_of}
