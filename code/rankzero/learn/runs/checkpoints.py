"""Checkpoints in one file: written, read, and refused if damaged or of another model, text or length."""

import argparse
import io
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.corpus import Corpus

MODEL_SHAPE = ("hidden_dim", "layers", "heads", "block_size")  # settings that a checkpoint's weights depend on
KEYS = ("model", "optimizer", "step", "settings", "corpus_sha256")


def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, **state: Any) -> None:
    """Writes everything the next step depends on, atomically; Lab 02's starter explains each part.

    UserError where the file cannot be written.
    """
    partial = path.with_name(f".{os.getpid()}.partial")
    try:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), **state}
        torch.save(state, partial)
        partial.replace(path)  # one atomic rename
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        advice = "free some space or choose another --checkpoint."
        raise UserError(f"could not save {path} ({error}): {advice}") from None
    finally:
        partial.unlink(missing_ok=True)


def read_checkpoint(path: Path, *, settings: Collection[str]) -> dict[str, Any]:
    """Returns the checkpoint saved in `path`, its tensors on the CPU, with the path under "path".

    It has "model", "optimizer", "step", "corpus_sha256", and under "settings" a dictionary with all of `settings`.
    `weights_only` admits tensors and plain values alone, so that a file cannot run code. UserError where the file is
    missing, damaged (every checksum is verified), or not a checkpoint of this kind.
    """
    try:
        checkpoint = torch.load(io.BytesIO(_verified(path)), map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"checkpoint {path} does not exist.") from None
    except Exception:  # on a damaged file, torch and zipfile raise errors of any type
        raise UserError(
            f"checkpoint {path} is damaged, or is not a checkpoint: resume from another, or start a new run."
        ) from None
    if not _has(checkpoint, KEYS) or not _has(checkpoint["settings"], settings) or not _is_count(checkpoint["step"]):
        raise UserError(f"checkpoint {path} was not written by this lab: resume from another, or start a new run.")
    return checkpoint | {"path": path}


def saved_numbers(saved: dict[str, Any], part: str, names: Collection[str]) -> dict[str, Any]:
    """Returns the numbers `names` in a part of the checkpoint. UserError where one is missing or not a number."""
    numbers: Any = saved.get(part)
    if not _has(numbers, names) or not all(type(numbers[name]) in (int, float) for name in names):
        raise UserError(f"checkpoint {saved['path']} has no {part}: resume from another, or start a new run.")
    return {name: numbers[name] for name in names}


def check_same_run(saved: dict[str, Any], options: argparse.Namespace, corpus: Corpus, model: nn.Module) -> None:
    """UserError unless the checkpoint `saved` is of this model and this text, and has steps left to train."""
    path = saved["path"]
    for name in MODEL_SHAPE:
        saved_value, value, option = saved["settings"][name], getattr(options, name), "--" + name.replace("_", "-")
        if saved_value != value:
            raise UserError(
                f"checkpoint {path} holds a model of {option} {saved_value!r}, not {value}: leave {option} out."
            )
    if saved["corpus_sha256"] != corpus.sha256:
        raise UserError(f"checkpoint {path} was trained on another text than {corpus.name}: pass the same --corpus.")
    if "model" in saved:  # absent from a sharded checkpoint, whose loading checks the shapes
        _check_training_state(saved, model)
    if saved["step"] >= options.steps:
        raise UserError(f"checkpoint {path} is at step {saved['step']} already: ask for more than that with --steps.")


def _check_training_state(saved: dict[str, Any], model: nn.Module) -> None:
    """UserError unless `saved` holds weights and AdamW averages of the shape and type of `model`'s parameters.

    AdamW makes its averages in its first update, so a run whose loss scaler has skipped every step has no averages.
    """
    weights, parameters = saved["model"], dict(model.named_parameters(remove_duplicate=False))
    same_weights = _has(weights, parameters) and all(_like(weights[name], p) for name, p in parameters.items())
    if not same_weights or not _is_adamw_state(saved["optimizer"], model, updated=not _skipped_every_step(saved)):
        raise UserError(f"checkpoint {saved['path']} holds another model: resume from another, or start a new run.")


def _skipped_every_step(saved: dict[str, Any]) -> bool:
    scaler: Any = saved.get("scaler")
    return _has(scaler, ("skipped",)) and _is_count(scaler["skipped"]) and scaler["skipped"] == saved["step"]


def _is_adamw_state(state: Any, model: nn.Module, *, updated: bool) -> bool:
    parameters = list(model.parameters()) if updated else []
    if not _has(state, ("state", "param_groups")) or not _has(state["state"], range(len(parameters))):
        return False
    if state["state"] and not updated:
        return False
    for number, parameter in enumerate(parameters):
        averages = state["state"][number]
        if not _has(averages, ("exp_avg", "exp_avg_sq", "step")):
            return False
        if not (_like(averages["exp_avg"], parameter) and _like(averages["exp_avg_sq"], parameter)):
            return False
    fresh = torch.optim.AdamW(model.parameters()).state_dict()["param_groups"]
    groups = state["param_groups"]
    return isinstance(groups, list) and [_kinds(group) for group in groups] == [_kinds(group) for group in fresh]


def _verified(path: Path) -> bytes:
    """Returns the file's entries in a new archive, each read with its checksum verified.

    torch's own reader verifies less: one flipped bit in the archive's directory makes it load uninitialized memory.
    """
    verified = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(verified, "w") as copy:
        for entry in archive.infolist():
            copy.writestr(entry.filename, archive.read(entry))
    return verified.getvalue()


def _has(value: Any, keys: Collection[Any]) -> bool:
    return isinstance(value, dict) and set(keys) <= set(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _like(value: Any, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape and value.dtype == parameter.dtype


def _kinds(group: Any) -> dict[str, type]:
    return {name: type(value) for name, value in group.items()} if isinstance(group, dict) else {}
