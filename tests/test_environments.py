"""The environments of learners: colors, widths, terminals, time zones, languages, folders and owners break nothing."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import clean_environment
import pytest
from interrupts import LIMIT_S
from starters import TINY
from tiers import sampled
from warm_process import cold_starts

from rankzero.curriculum import find_lab
from rankzero.grading.lab_digest import commit
from rankzero.learn.distributed.socket_folder import shorten_socket_paths
from rankzero.learn.machine.fingerprint import git_commit

COLORS, NO_COLORS, NARROW, DUMB = {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}, {"COLUMNS": "40"}, {"TERM": "dumb"}
ASCII, ANOTHER_DATE = {"LANG": "C", "LC_ALL": "C"}, {"TZ": "Pacific/Kiritimati"}
ANOTHER_OWNER = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_COUNT": "0"}
ENVIRONMENTS = {
    "colors on a narrow terminal": COLORS | NARROW,
    "no colors, and another date": NO_COLORS | ANOTHER_DATE,
    "ASCII on a dumb terminal": ASCII | DUMB,
    "a long TMPDIR, and a checkout of another user": ANOTHER_OWNER,
}
COMMANDS = (
    ("list", 0, "Single-GPU training loop"),
    ("grade --help", 0, "Grades a class in a sandbox."),
    (f"check 02 train_step --file {find_lab('02').stubs}", 1, "Next: write train_step, line"),
)


def run(words: list[str], folder: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Runs `rankzero WORDS`; returns its exit code and its words, without colors, frames and breaks of lines.

    A new Python runs the command where the variables are read when Python or torch starts.
    """
    environment = os.environ | variables
    command = [sys.executable, "-m", "rankzero", *words]
    with cold_starts() if {"LC_ALL", "TMPDIR"} & set(variables) else nullcontext():
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", (done.stdout + done.stderr).decode("utf-8"))
    return done.returncode, " ".join(re.sub("[│╭╮╰╯─|+]|-{2,}(?= |$)", " ", text).split())


@pytest.fixture(params=sampled(ENVIRONMENTS, ["colors on a narrow terminal", "ASCII on a dumb terminal"]))
def variables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return ENVIRONMENTS[request.param] | (long_folder(tmp_path) if "TMPDIR" in request.param else {})


def long_folder(parent: Path) -> dict[str, str]:
    folder = parent / ("long" * 28)
    folder.mkdir()
    return {"TMPDIR": str(folder)}


def test_commands_say_the_same_in_every_environment(variables: dict[str, str], tmp_path: Path) -> None:
    for words, code, sentence in COMMANDS:
        ended, text = run(words.split(), tmp_path, variables)
        assert ended == code, text
        assert sentence in text
        assert "Traceback" not in text


@pytest.mark.prove
@pytest.mark.real
@pytest.mark.timeout(900)
def test_ranks_start_where_the_path_of_a_socket_in_tmpdir_would_be_too_long(tmp_path: Path) -> None:
    ended, text = run(["run", "07", *TINY, "--steps", "1"], tmp_path, long_folder(tmp_path))
    assert ended == 0, text
    assert "Traceback" not in text


def test_multiprocessing_gets_a_short_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, object] = {}
    monkeypatch.setattr(multiprocessing.current_process(), "_config", settings)
    shorten_socket_paths()
    assert settings == {}, "the folder of the tests is short"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 28)))
    shorten_socket_paths()
    folder = Path(str(settings["tempdir"]))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(folder / "pymp-12345678" / "listener-12345678")) <= 107
    folder.rmdir()


def test_a_checkout_of_another_user_has_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    own = (git_commit(), commit())
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own way to act as if
    commit.cache_clear()
    assert (git_commit(), commit()) == own


@pytest.mark.skipif(not os.access(sys.prefix, os.W_OK), reason="the list of fonts is kept in this environment")
def test_pictures_are_drawn_with_the_fonts_of_this_environment() -> None:
    import matplotlib

    assert Path(matplotlib.get_cachedir()).parent == Path(sys.prefix)


def test_processes_that_a_test_starts_heed_ctrl_c_although_a_background_command_ignores_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        clean_environment.heed_signals()
        with cold_starts():
            shown = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
            done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.stdout == "True\n"
