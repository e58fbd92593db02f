"""Socket folder: a short one for multiprocessing, since a socket's path has at most 107 bytes, whatever TMPDIR is."""

import multiprocessing
import multiprocessing.util
import os
import shutil
import tempfile
from contextlib import suppress

LONGEST = 60  # bytes of the folder for temporary files; multiprocessing appends about 32
PREFIX = "rankzero-sockets-"
SHORT = ("/tmp", "/var/tmp", "/dev/shm")


def shorten_socket_paths() -> None:
    """Gives multiprocessing in this process and its children a short private folder if TMPDIR's path is long.

    Needed by fork servers, and by a DataLoader's workers, which send tensors as open files.
    """
    settings: dict[str, object] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if settings.get("tempdir") or len(os.fsencode(tempfile.gettempdir())) <= LONGEST:
        return
    for place in SHORT:
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=place)  # mode 700
            multiprocessing.util.Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-100)
            settings["tempdir"] = folder
            return
