"""Archives (.zip, .tar.gz) that students hand in: listed and read into memory within limits, or refused.

Nothing is unpacked to disk, so no name leads out of the archive and no link is followed; both are refused with a
reason.
"""

import contextlib
import functools
import gzip
import io
import os
import re
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from rankzero.grading.intake.untrusted_files import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MIB,
    Entry,
    RefusedError,
    is_skipped,
    open_plain,
    refused,
    too_large,
    why,
)

MAX_PACKED = 64 * MIB
MAX_UNPACKED = 64 * MIB  # of a .tar.gz, which must be unpacked to its end to be listed
MAX_TABLE = 4 * MIB  # of a zip archive's list of members
MAX_RATIO = 200  # unpacked to packed
CHUNK = MIB // 4
UTF_8, UNICODE_PATH = 0x800, 0x7075  # a member's flag, and the kind of an extra field
SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar")
OTHER_KINDS = re.compile(r"(\.tar)?\.(7z|rar|gz|xz|bz2|zst)$", re.IGNORECASE)  # which are not opened


def archive_stem(name: str) -> str:
    """Returns an archive's name without its suffix, or '' if the name has no archive's suffix."""
    suffix = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), None)
    return name[: -len(suffix)] if suffix else ""


class Archive:
    """The archive `root/place`. `times` multiplies the limits of one student's archive, for an archive of a class.

    A zip archive of many students stays open until `close`.
    """

    def __init__(self, root: Path, place: tuple[str, ...], times: int = 1) -> None:
        self.root, self.place, self.times = root, place, times
        self._zip: zipfile.ZipFile | None = None

    def close(self) -> None:
        """Closes the file. An entry that is read later opens it again."""
        if self._zip and self._zip.fp:
            self._zip.fp.close()
        self._zip = None

    def entries(self, max_bytes: Callable[[tuple[str, ...]], int]) -> list[Entry]:
        """Returns its files in their order. Of a .tar.gz, only files with `max_bytes(path)` above 0 can be read.

        RefusedError for an archive that is corrupt, too large, or a decompression bomb.
        """
        name = self.place[-1].lower()
        try:
            is_zip = name.endswith(".zip")
            entries = self._zip_entries() if is_zip else self._tar_entries(max_bytes, packed=not name.endswith(".tar"))
            return [entry for entry in entries if not any(is_skipped(part) for part in entry.path)]
        except RefusedError:
            raise
        except Exception as error:  # zipfile and tarfile raise many kinds of errors on crafted bytes
            if isinstance(error, OSError) and error.errno:
                raise RefusedError(why(error)) from None
            raise RefusedError(f"is no archive ({type(error).__name__})") from None

    def _opened(self) -> zipfile.ZipFile:
        if self._zip is None:
            file = open_plain(self.root, self.place, MAX_PACKED * self.times)
            try:
                self._zip = zipfile.ZipFile(cast(BinaryIO, _LimitedReads(file, MAX_TABLE * self.times)))
            except BaseException:
                file.close()
                raise
        return self._zip

    def _zip_entries(self) -> Iterator[Entry]:
        members = self._opened().infolist()
        self._count(len(members))
        for info in members:
            name, garbled = _member_name(info)
            path, reason = _path_of(name)
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind == stat.S_IFLNK:
                reason = reason or "is a symbolic link"
            elif info.is_dir():
                if not path or not path[-1].lower().endswith(".py"):
                    continue
                reason = reason or "is a folder"
            elif kind not in (0, stat.S_IFREG):
                reason = reason or "is no plain file"
            modified = _zip_time(info)
            entry = Entry(path, modified, functools.partial(self._read_member, info), garbled=garbled)
            yield refused(path, reason, modified) if reason else entry

    def _read_member(self, info: zipfile.ZipInfo, cap: int) -> bytes:
        if info.flag_bits & 0x1:
            raise RefusedError("is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RefusedError("is packed in another way than deflate")
        if reason := too_large(info.file_size, cap):
            raise RefusedError(reason)
        if info.file_size > CHUNK and info.file_size > MAX_RATIO * info.compress_size:
            raise RefusedError(f"swells to more than {MAX_RATIO} times its packed size")
        try:
            with self._opened().open(info) as file:
                data = _read(cast(BinaryIO, file), cap)
        except Exception as error:
            raise RefusedError(f"is corrupt in its archive ({type(error).__name__})") from None
        finally:
            if self.times == 1:  # a class has more archives than a process may have open files
                self.close()
        if len(data) != info.file_size:
            raise RefusedError("is corrupt in its archive")
        return data

    def _tar_entries(self, max_bytes: Callable[[tuple[str, ...]], int], packed: bool) -> Iterator[Entry]:
        """Reads once from front to end, and keeps files with a size limit above 0 in memory."""
        for tar, info in self._tar_members(packed):
            path, reason = _path_of(info.name)
            if info.isdir() and not (path and path[-1].lower().endswith(".py")):
                continue
            cap = max_bytes(path) if path else 0
            if info.islnk() and cap and not reason:
                target, _ = _path_of(info.linkname)
                yield Entry(path, info.mtime, functools.partial(self._read_linked, target, packed))
            elif reason := reason or _tar_kind(info) or (too_large(info.size, cap) if cap else None):
                yield refused(path, reason, info.mtime)
            elif cap:
                data = _read(cast(BinaryIO, tar.extractfile(info)), cap)
                yield Entry(path, info.mtime, functools.partial(_in_memory, data))
            else:
                yield Entry(path, info.mtime, refused(path, "is not read").read)

    def _tar_members(self, packed: bool) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        with open_plain(self.root, self.place, MAX_PACKED * self.times) as file:
            limit = min(MAX_UNPACKED * self.times, max(MIB, os.fstat(file.fileno()).st_size * MAX_RATIO))
            stream = _ForwardOnly(cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file, CHUNK, limit)
            with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r:") as tar:
                for count, info in enumerate(tar, start=1):
                    tar.members.clear()  # type: ignore[attr-defined]  # otherwise tarfile keeps all members
                    self._count(count)
                    yield tar, info

    def _read_linked(self, target: tuple[str, ...], packed: bool, cap: int) -> bytes:
        """Returns the member that a hard link names, by a second pass, because the archive is read forward only."""
        with contextlib.suppress(OSError, EOFError, tarfile.TarError):
            for tar, info in self._tar_members(packed):
                if _path_of(info.name)[0] == target and info.isreg() and not info.issparse():
                    return _in_memory(_read(cast(BinaryIO, tar.extractfile(info)), cap), cap)
        raise RefusedError("is a hard link to a file that the archive lacks")

    def _count(self, members: int) -> None:
        if members > MAX_ENTRIES * self.times:
            raise RefusedError(f"holds more than {MAX_ENTRIES * self.times:,} files")


class _LimitedReads:
    """A file that refuses reads of more than `at_once` bytes, since an archive's table may state any size."""

    def __init__(self, file: BinaryIO, at_once: int) -> None:
        self.file, self.at_once = file, at_once
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        """As `read` of any file."""
        data = self.file.read(self.at_once + 1 if size < 0 else min(size, self.at_once + 1))
        if len(data) > self.at_once:
            raise RefusedError("is an archive with a table or a header that is far too large")
        return data


class _ForwardOnly(_LimitedReads):
    """A file that is read forward only, up to `limit` bytes, since an unpacked stream may have no end."""

    def __init__(self, file: BinaryIO, at_once: int, limit: int) -> None:
        super().__init__(file, at_once)
        self.position, self.limit = 0, limit
        self.seek, self.tell = self._seek, lambda: self.position

    def read(self, size: int = -1) -> bytes:
        """As `read` of any file."""
        data = super().read(size)
        self.position += len(data)
        if self.position > self.limit:
            raise RefusedError(f"unpacks to more than {self.limit:,} bytes")
        return data

    def _seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or position < self.position:
            raise RefusedError("is an archive that cannot be read in one pass")
        while self.position < position and self.read(min(CHUNK, position - self.position)):
            pass
        return self.position


def _read(file: BinaryIO, cap: int) -> bytes:
    """Reads at most `cap` + 1 bytes, in chunks."""
    parts: list[bytes] = []
    remaining = cap + 1
    while remaining and (part := file.read(min(CHUNK, remaining))):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)


def _in_memory(data: bytes, cap: int) -> bytes:
    if reason := too_large(len(data), cap):
        raise RefusedError(reason)
    return data


def _tar_kind(info: tarfile.TarInfo) -> str | None:
    if info.issym() or info.islnk():
        return f"is a {'symbolic' if info.issym() else 'hard'} link"
    if info.isdir():
        return "is a folder"
    return None if info.isreg() and not info.issparse() else "is no plain file"


def _path_of(name: str) -> tuple[tuple[str, ...], str | None]:
    """Returns the parts of a member's name, and the reason if the name is refused."""
    parts = name.replace("\\", "/").split("/")
    path = tuple(part for part in parts if part not in ("", ".", ".."))
    if name.startswith(("/", "\\")) or ".." in parts or name[1:2] == ":":
        return path[:MAX_DEPTH], "has a name that leads out of its archive"
    if "\0" in name or len(name) > 1000 or len(path) > MAX_DEPTH:
        return path[:MAX_DEPTH], "has a name that is too long, too deep or holds a NUL"
    return path, None


def _member_name(info: zipfile.ZipInfo) -> tuple[str, bool]:
    """Returns a member's name, and whether it is a guess because nothing says how its letters are written.

    Zip archives mark a name as UTF-8 by a flag, or repeat it in UTF-8 in the extra field 0x7075. The tool of macOS does
    neither and writes UTF-8; other tools write the code page of their machine, which nothing names.
    """
    name = info.orig_filename
    if info.flag_bits & UTF_8 or name.isascii():
        return name, False
    raw = name.encode("cp437")
    try:
        return _unicode_path(info.extra, raw) or raw.decode(), False
    except UnicodeDecodeError:
        return name, True


def _unicode_path(extra: bytes, raw: bytes) -> str:
    """Returns the name in the extra field 0x7075, if it belongs to the name `raw`, or ''."""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        field, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == UNICODE_PATH and len(field) > 5 and struct.unpack_from("<BI", field) == (1, zlib.crc32(raw)):
            return field[5:].decode()
    return ""


def _zip_time(info: zipfile.ZipInfo) -> float:
    """Returns a member's time. Zip archives hold local time without a zone, which is read as this machine's."""
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0
