"""Untrusted files in a folder: listed, and read only if they are plain, small and complete.

No link is followed, and no FIFO or device is opened. A refused file stays in the list, with the reason.
"""

import contextlib
import errno
import functools
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MIB = 2**20
MAX_ENTRIES = 20_000  # of one student's folder or archive
MAX_DEPTH = 12
# Folders that hold no submission, and may be very large.
SKIPPED = {"__MACOSX", "__pycache__", "node_modules", "venv", "env", "site-packages"}

_KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


class RefusedError(Exception):
    """This file, folder or archive is not read. The text is the reason, to follow its name: 'is a symbolic link'."""


@dataclass(frozen=True)
class Entry:
    """A file in a folder or an archive, or an object there that is refused."""

    path: tuple[str, ...]  # from the folder's or the archive's top
    modified: float  # seconds since 1970; 0 if unknown
    read: Callable[[int], bytes]  # takes the size limit; returns a plain file, or raises RefusedError
    why: str = ""  # the reason, if its path or kind is refused already
    claimed: float = 0.0  # the time that a student's own archive states; 0 outside of one
    garbled: bool = False  # whether its archive does not say how the letters of its name are written


def refused(path: tuple[str, ...], why: str, modified: float = 0.0) -> Entry:
    """Returns an entry that cannot be read, with the reason."""

    def read(_: int) -> bytes:
        raise RefusedError(why)

    return Entry(path, modified, read, why)


def is_skipped(name: str) -> bool:
    """Returns whether a folder of that name is skipped, as hidden folders, environments and caches are."""
    return name.startswith(".") or name in SKIPPED


def list_folder(root: Path, place: tuple[str, ...]) -> list[Entry]:
    """Returns all files below the folder `root/place`. RefusedError if it is a link or holds too many files."""
    entries: list[Entry] = []
    remaining = MAX_ENTRIES

    def walk(folder: int, path: tuple[str, ...]) -> None:
        nonlocal remaining
        with os.scandir(folder) as listing:
            items = list(itertools.islice(listing, remaining + 1))
            remaining -= len(items)
            if remaining < 0:
                raise RefusedError(f"holds more than {MAX_ENTRIES:,} files")
            for item in sorted(items, key=lambda item: item.name):
                item_path, status = (*path, item.name), item.stat(follow_symlinks=False)
                if is_skipped(item.name):
                    continue
                if not stat.S_ISDIR(status.st_mode):
                    entries.append(file_entry(root, place, item_path, status))
                    continue
                if item.name.lower().endswith(".py"):
                    entries.append(refused(item_path, "is a folder"))
                if len(item_path) > MAX_DEPTH:
                    entries.append(refused(item_path, f"lies deeper than {MAX_DEPTH} folders"))
                    continue
                try:
                    inner = _open(item.name, folder, os.O_DIRECTORY)
                except OSError as error:
                    entries.append(refused(item_path, why(error)))
                    continue
                try:
                    walk(inner, item_path)
                finally:
                    os.close(inner)

    with _opened_folder(root, place) as folder:
        walk(folder, ())
    return entries


def list_names(root: Path, place: tuple[str, ...] = ()) -> dict[str, os.stat_result]:
    """Returns the status of everything directly in the folder `root/place`. RefusedError if it cannot be listed."""
    with _opened_folder(root, place) as folder, os.scandir(folder) as listing:
        return {item.name: item.stat(follow_symlinks=False) for item in sorted(listing, key=lambda item: item.name)}


@contextlib.contextmanager
def _opened_folder(root: Path, place: tuple[str, ...]) -> Iterator[int]:
    """Yields a file descriptor of the folder `root/place`. RefusedError for any OSError, also in the block."""
    try:
        folder = _open_below(root, place, os.O_DIRECTORY)
        try:
            yield folder
        finally:
            os.close(folder)
    except OSError as error:
        raise RefusedError(why(error)) from None


def file_entry(root: Path, place: tuple[str, ...], path: tuple[str, ...], status: os.stat_result) -> Entry:
    """Returns the entry of `root/place/path`, which is not a folder: a file, or a refused object."""
    if reason := _not_plain(status, root):
        return refused(path, reason, status.st_mtime)
    return Entry(path, status.st_mtime, lambda cap: read_plain(root, place + path, cap))


def read_plain(root: Path, place: tuple[str, ...], cap: int) -> bytes:
    """Returns the plain file `root/place` as it is at one moment. RefusedError if it is not plain or keeps changing."""
    try:
        for _ in range(3):
            with open_plain(root, place, cap) as file:
                before = os.fstat(file.fileno())
                data = file.read(cap + 1)
                after = os.fstat(file.fileno())
            unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
            if unchanged and len(data) == after.st_size:
                return data
    except OSError as error:
        raise RefusedError(why(error)) from None
    raise RefusedError("changes while it is read")


def open_plain(root: Path, place: tuple[str, ...], cap: int) -> BinaryIO:
    """Opens the plain file `root/place` of at most `cap` bytes. RefusedError for anything else; OSError as `open`."""
    number = _open_below(root, place, 0)
    status = os.fstat(number)
    if reason := _not_plain(status, root) or too_large(status.st_size, cap):
        os.close(number)
        raise RefusedError(reason)
    return os.fdopen(number, "rb")


def _open_below(root: Path, place: tuple[str, ...], flags: int) -> int:
    """Opens one folder after another, so that no folder on the way is a link, or is replaced by a link meanwhile."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for step, name in enumerate(place, start=1):
        try:
            below = _open(name, at, flags if step == len(place) else os.O_DIRECTORY)
        finally:
            os.close(at)
        at = below
    return at


def _open(name: str, at: int, flags: int) -> int:
    status = os.lstat(name, dir_fd=at)  # before opening it: opening a device may have an effect
    is_expected = stat.S_ISDIR if flags & os.O_DIRECTORY else stat.S_ISREG
    if not is_expected(status.st_mode):
        raise RefusedError(_odd_kind(status) or "is no folder")
    try:
        return os.open(name, flags | os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise RefusedError("is a symbolic link") from None
        raise


def _not_plain(status: os.stat_result, root: Path) -> str | None:
    """Returns why a file below `root` is refused by its kind, or None. All names of a plain file are below `root`."""
    if reason := _odd_kind(status):
        return reason
    if status.st_nlink == 1 or _names_below(root)[status.st_dev, status.st_ino] >= status.st_nlink:
        return None
    return f"is a hard link: the same file has {status.st_nlink} names, some of them elsewhere; hand in a copy of it"


def _odd_kind(status: os.stat_result) -> str | None:
    return None if stat.S_ISREG(status.st_mode) else f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}"


@functools.lru_cache(maxsize=1)
def _names_below(root: Path) -> Counter[tuple[int, int]]:
    """Returns the number of names of each file with several names below `root`, by device and inode."""
    names: Counter[tuple[int, int]] = Counter()
    for folder, _, files in os.walk(root):
        for file in files:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(folder, file))
                if status.st_nlink > 1:
                    names[status.st_dev, status.st_ino] += 1
    return names


def too_large(size: int, cap: int) -> str | None:
    """Returns why a file of this size is refused, or None."""
    return f"has {size:,} bytes; the limit is {cap:,}" if size > cap else None


def why(error: OSError) -> str:
    """Returns why a file that raised this error is refused."""
    return f"cannot be read ({error.strerror or type(error).__name__})"
