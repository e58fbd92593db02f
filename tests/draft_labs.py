"""Draft labs in the tests: labs that are not finished are left out, unless `verify-lab` sets RANKZERO_DRAFTS=1."""

import functools
import os
from pathlib import Path

from rankzero.curriculum import Lab, all_labs

INCLUDED = os.environ.get("RANKZERO_DRAFTS") == "1"
LEFT_OUT = [lab for lab in all_labs(drafts=True) if lab.draft and not INCLUDED]


def tested_labs() -> list[Lab]:
    """Returns the labs that the tests are about."""
    return all_labs(drafts=INCLUDED)


@functools.cache
def is_left_out(file: Path) -> bool:
    """Returns whether a file or folder is part of a lab that is left out."""
    return any(lab.owns(file) for lab in LEFT_OUT)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves the tests and notebooks of drafts out of pytest's search for tests."""
    return True if is_left_out(collection_path) else None
