"""A clean environment: what the person who runs the tests has set changes no verdict.

`clean` is called when `conftest.py` is imported, before any process is started; every process of a test inherits it.
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from typing import Any

# Colors, widths, the time zone, and a git command around the tests, such as a hook's, which names its own repository.
REMOVED = (
    *("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("COLUMNS", "LINES", "COLORTERM", "TZ", "LANGUAGE"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
    *("GIT_CONFIG", "GIT_CONFIG_PARAMETERS"),
    "PYTHONDONTWRITEBYTECODE",  # with it, every process compiles every module again
)
REMOVED_BEGINNINGS = ("LC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
SET = {
    "TERM": "xterm-256color",
    "LANG": "C.UTF-8",
    "OMP_WAIT_POLICY": "PASSIVE",  # a thread that waits lets others run: the tests' processes share few cores
    # git takes a checkout that another user owns, as in a container with a mounted folder
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
DEFAULTS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}
LONGEST = 60  # characters of the folder for temporary files: a socket's path in it has at most 107


def clean() -> None:
    """Removes and sets variables of this process, and moves its temporary files if their folder's name is long."""
    for name in list(os.environ):
        if name in REMOVED or name.startswith(REMOVED_BEGINNINGS):
            del os.environ[name]
    os.environ.update(SET)
    if os.access(sys.prefix, os.W_OK):
        # The user's list of fonts may be that of an environment that is gone, and the user's settings change pictures.
        os.environ["MPLCONFIGDIR"] = os.path.join(sys.prefix, "matplotlib")
    sys.dont_write_bytecode = False
    heed_signals()
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST:
        folder = tempfile.mkdtemp(prefix="rankzero-tests-", dir="/tmp")  # private: mode 700
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["TMPDIR"] = tempfile.tempdir = folder


def heed_signals() -> None:
    """Makes this process and those that it starts heed Ctrl-C again: a shell's background command ignores it."""
    for number, handler in DEFAULTS.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
