"""Atomic writes: a file is replaced whole, or stays as it was."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes `content` (text as UTF-8) to `path` and makes the folder if it is missing. OSError where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as partial:
        partial.write_bytes(content if isinstance(content, bytes) else content.encode())


@contextlib.contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yields the path to write to, a hidden file beside `path` that becomes `path` when the block ends.

    After an error in the block, `path` is as before and the hidden file is removed. A reader never sees half a file;
    a killed writer leaves the hidden file and nothing else. Not for threads that write the same `path`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
