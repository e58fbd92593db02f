"""The learner's functions in Lab 09's starter: `rankzero run 09 --mine`.

Beside each checkpoint of the starter, the learner's functions write a file of their own. Then the live state is
overwritten with nan, and the run continues from what `newest_intact` returns. A mistake changes the losses.
"""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

USES = ("save_durably", "newest_intact", "snapshot", "BackgroundSaver")  # functions whose exercises must pass first
OPTIONS = ("--device", "cpu", "--ranks", "1")  # of the starter, for both runs: one rank holds the whole state
ROUNDING = 0.0  # a restored state gives the same losses bit for bit


def tensors_of(state: Any) -> Iterator[Tensor]:
    """Yields the tensors in nested dicts and lists; of a sharded tensor, the part of this rank."""
    if isinstance(state, DTensor):
        yield state.to_local()
    elif isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict | list):
        for item in state.values() if isinstance(state, dict) else state:
            yield from tensors_of(item)


def read(path: Path) -> list[Tensor]:
    """Returns the tensors in a file that the learner's functions wrote."""
    return torch.load(path, weights_only=True)


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    save_durably, newest_intact = learner.save_durably, learner.newest_intact
    background_saver = learner.BackgroundSaver

    class Saver(starter.Saver):  # type: ignore[misc]
        def save(self, state: Callable[[], dict[str, Any]], **facts: Any) -> float:
            stall: float = super().save(state, **facts)

            def write(tensors: list[Tensor]) -> None:
                file = io.BytesIO()
                torch.save(tensors, file)
                save_durably(self.folder / f"step-{facts['step']}.pt", file.getvalue())

            live, writer = list(tensors_of(state())), background_saver(write)
            writer.save(live)
            with torch.no_grad():
                for tensor in live:
                    tensor.fill_(torch.nan if tensor.is_floating_point() else 0)  # what the next steps could do
                writer.wait()
                step, saved = newest_intact(self.folder, read)
                if step != facts["step"]:
                    raise ValueError(f"newest_intact returned step {step} after step {facts['step']} was saved")
                for tensor, value in zip(live, saved, strict=True):
                    tensor.copy_(value)
            return stall

    return {"Saver": Saver}
