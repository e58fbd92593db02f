"""Reports of a loop that loads and trains: its profile, the waiting for each loader, equal losses, samples."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import profile

from rankzero.learn.profiling.loader_record import Record, seconds_of

LADDER_HEADING = f"{'loader':<24}{'ms/step':>9}{'training':>10}{'waits':>8}{'pictures/s':>12}\n{'':-<63}"


def profile_table(profiler: profile, steps: int) -> str:
    """Returns the time per step of the loader, of its stages, and of training, as torch.profiler has measured it."""
    spent = {row.key.partition("#")[0]: row.cpu_time_total / 1000 / steps for row in profiler.key_averages()}
    whole = spent["enumerate(DataLoader)"] + spent["train_step"]  # DataLoader names its range by itself
    lines = [f"profile of {steps} steps    ms/step   share", "-" * 37]
    for name in ("enumerate(DataLoader)", "  read", "  decode", "  augment", "train_step"):
        time = spent[name.strip()]
        lines.append(f"{name:<22}{time:>7.2f}{time / whole:>8.0%}")
    return "\n".join(lines)


def ladder_row(name: str, record: Record, batch_size: int) -> str:
    """Returns a loader's line under LADDER_HEADING."""
    steps, (whole, training) = len(record.moments), seconds_of(record.moments)
    times = f"{1000 * whole / steps:>9.1f}{1000 * training / steps:>10.1f}{1 - training / whole:>8.0%}"
    return f"{name:<24}{times}{steps * batch_size / whole:>12,.0f}"


def compare_losses(records: Mapping[str, Record]) -> str:
    """Returns in one line whether training gave the same losses with each loader; it begins with `equal` if so."""
    (_, first), *others = ((name, torch.stack(record.losses)) for name, record in records.items())
    for name, losses in others:
        if not torch.equal(losses, first[: len(losses)]):
            step = int((losses != first).any(1).nonzero()[0])
            values = f"{losses[step, 0]:.4f} instead of {first[step, 0]:.4f}"
            return f"NOT EQUAL from step {step + 1} on with {name!r}: loss {values}"
    return f"equal bit for bit: {len(first)} losses with each of {len(records)} loaders"


def epoch_row(step: int, last: int, record: Record, right: Mapping[str, float]) -> str:
    """Returns the line of an epoch of training: mean loss, time that waits, held-out pictures in the right class.

    The line of the first epoch follows one with the loss of the first step.
    """
    loss = torch.stack(record.losses)[:, 0].mean().item()
    whole, training = seconds_of(record.moments)
    words = [f"step {step:>5}/{last}", f"loss {loss:.4f}", f"waits {1 - training / whole:>3.0%}"]
    words.append("held out right: " + ", ".join(f"{name} {share:.1%}" for name, share in right.items()))
    first = f"step {1:>5}/{last}  loss {record.losses[0][0].item():.4f}\n" if step == len(record.losses) else ""
    return first + "  ".join(words)


def sample_counts(record: Record, count: int) -> str:
    """Returns how many of the `count` samples all ranks together have trained on in an epoch, and how often."""
    times = torch.bincount(torch.tensor(record.numbers), minlength=count)
    if dist.get_backend() == "nccl":
        times = times.cuda()
    dist.all_reduce(times)
    once, more, left = (int((times == 1).sum()), int((times > 1).sum()), int((times == 0).sum()))
    return f"samples of this epoch: {once:,} once, {more:,} more than once, {left:,} left out"


def write_files(
    folder: Path, settings: Mapping[str, Any], records: Mapping[str, Record], losses: Sequence[Tensor]
) -> None:
    """Writes the losses of the training's steps to log.jsonl, and draws the ladder and the timeline."""
    events: list[dict[str, Any]] = [{"event": "run", "settings": {key: str(value) for key, value in settings.items()}}]
    for step, (loss, *others) in enumerate(torch.stack(list(losses)).tolist() if losses else (), start=1):
        events.append({"event": "step", "step": step, "loss": loss, "mlp_loss": others[0]})
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    if records:
        from rankzero.learn.profiling.loader_plots import plot_ladder, plot_loader_timeline  # matplotlib: half a second

        plot_ladder(records).savefig(folder / "ladder.png", dpi=110)
        plot_loader_timeline(records).savefig(folder / "timeline.png", dpi=110)
