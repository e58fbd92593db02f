"""Reading a checkpoint file that somebody else may have written, or damaged."""

import pickle
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from rankzero.learn.errors import UserError


def read_checkpoint(path: Path, *, keys: Collection[str], settings: Collection[str]) -> dict[str, Any]:
    """The dictionary saved in `path`, its tensors on the CPU.

    It must have all of `keys`, and under "settings" a dictionary with all of `settings`.

    `weights_only` admits tensors and plain values alone, so that a file cannot run code. UserError where the file is
    missing, damaged (every checksum is verified), or no checkpoint of this kind.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            intact = archive.testzip() is None
        checkpoint: Any = torch.load(path, map_location="cpu", weights_only=True) if intact else None
    except FileNotFoundError:
        raise UserError(f"checkpoint {path} does not exist.") from None
    except (
        OSError,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        pickle.UnpicklingError,
    ):
        intact = False
    if not intact:
        raise UserError(f"checkpoint {path} is damaged, or is not a checkpoint: resume from another, or start anew.")
    if not _has(checkpoint, keys) or not _has(checkpoint.get("settings"), settings):
        raise UserError(f"checkpoint {path} was not written by this lab: resume from another, or start anew.")
    return checkpoint


def _has(value: Any, keys: Collection[str]) -> bool:
    return isinstance(value, dict) and set(keys) <= set(value)
