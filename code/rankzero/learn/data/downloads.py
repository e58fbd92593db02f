"""Downloads: a file from the network, kept in the user's cache folder, its SHA-256 checked before it is used."""

import hashlib
import os
import urllib.error
import urllib.request
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.errors import UserError


def cache_folder() -> Path:
    """Returns the folder for downloads: $RANKZERO_CACHE, or `rankzero` in the user's cache folder."""
    if folder := os.environ.get("RANKZERO_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankzero"


def downloaded(url: str, sha256: str, *, name: str, cached: str, fetch_it: str, copy_of_yours: str) -> bytes:
    """Returns the content of `url` from the file `cached` in the cache folder, or downloads it once and keeps it there.

    UserError where there is no network, another content or no place to keep it. The error calls the content `name` and
    says the way out: `fetch_it` where there is no network, `copy_of_yours` where the content differs.
    """
    file = cache_folder() / cached
    if file.is_file() and has_digest(content := file.read_bytes(), sha256):
        return content
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            content = response.read()
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"could not download {name} ({reason}): {fetch_it}") from None
    if not has_digest(content, sha256):
        raise UserError(f"{url} did not answer with {name} (its SHA-256 differs): {copy_of_yours}")
    try:
        write_atomically(file, content)
    except OSError as error:
        raise UserError(
            f"could not keep {name} in {file.parent} ({error.strerror}): "
            "name a folder that can be written with the environment variable RANKZERO_CACHE."
        ) from None
    return content


def has_digest(content: bytes, sha256: str) -> bool:
    """Returns whether `content` has the SHA-256 `sha256`, in hexadecimal."""
    return hashlib.sha256(content).hexdigest() == sha256
