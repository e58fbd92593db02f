"""Run folders, reading of checkpoints, and interruption."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from agents import free_port
from warm_process import cold_starts

from rankzero.errors import UserError
from rankzero.learn.runs.checkpoints import read_checkpoint
from rankzero.learn.runs.run_folder import check_new_file, latest_checkpoint, new_run_folder


def test_each_run_gets_a_folder_with_the_next_number(tmp_path: Path) -> None:
    assert new_run_folder(tmp_path / "a" / "runs", "lab-02").name == "lab-02-001"
    (tmp_path / "lab-02-007").mkdir()
    (tmp_path / "lab-02-notes").mkdir()
    assert new_run_folder(tmp_path, "lab-02").name == "lab-02-008"
    assert new_run_folder(tmp_path, "lab-03").name == "lab-03-001"


def test_an_unwritable_folder_for_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_text("in the way")
    for place in (file, Path("/dev/null/runs"), Path("/proc/runs")):
        with pytest.raises(UserError, match=rf"cannot write to {place} .*: choose another place with --out"):
            new_run_folder(place, "lab-02")
    assert file.read_text() == "in the way"


def test_the_latest_checkpoint_is_in_the_folder_with_the_highest_number(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has a checkpoint to resume from: name one with --resume PATH"):
        latest_checkpoint(tmp_path, "lab-02")
    for number in ("009", "010", "1000"):
        (tmp_path / f"lab-02-{number}").mkdir()
        if number != "1000":
            (tmp_path / f"lab-02-{number}" / "checkpoint.pt").touch()
    assert latest_checkpoint(tmp_path, "lab-02").parent.name == "lab-02-010"


def test_an_existing_checkpoint_is_replaced_only_by_a_run_that_resumes_from_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.pt"
    check_new_file(file, may_replace=None)
    assert not file.exists()
    file.touch()
    check_new_file(file, may_replace=tmp_path / "." / "mine.pt")
    for other in (None, tmp_path / "other.pt"):
        if other:
            other.touch()
        with pytest.raises(UserError, match=r"mine.pt exists: resume from it with --resume"):
            check_new_file(file, may_replace=other)
    with pytest.raises(UserError, match=r"cannot write to .*nowhere"):
        check_new_file(tmp_path / "nowhere" / "x.pt", may_replace=None)


def read(path: Path) -> object:
    return read_checkpoint(path, settings={"seed"})


def save(path: Path, **changes: object) -> None:
    checkpoint = {
        "model": {"w": torch.arange(1000.0)},
        "optimizer": {},
        "step": 3,
        "corpus_sha256": "",
        "settings": {"seed": 1},
    }
    torch.save(checkpoint | changes, path)


LONG_S = 300.0  # limit of a process that ends by itself
STARTED_BY_TORCHRUN = """
import atexit, sys
from rankzero.learn.runs.options import StarterParser
from rankzero.learn.runs.training_options import run_starter

atexit.register(print, "Python cleans up")
parser = StarterParser()
parser.set_defaults(resume=None, ranks=None, device="cpu")
sys.exit(run_starter(parser, lambda options, saved: print("its last words", end="") or 3, [], lab="lab-08", ranks=True))
"""


@pytest.mark.real
def test_a_rank_of_torchrun_keeps_its_exit_code_and_ends_before_python_cleans_up() -> None:
    """While Python cleans up, threads of FSDP's group free tensors, which has aborted runs that had succeeded."""
    world = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    store = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-c", STARTED_BY_TORCHRUN]
    with cold_starts():
        done = subprocess.run(
            command, env={**os.environ, **world, **store}, capture_output=True, text=True, timeout=LONG_S
        )
    assert (done.returncode, done.stdout) == (3, "its last words"), done.stderr


def test_a_saved_checkpoint_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save(path)
    saved = read_checkpoint(path, settings={"seed"})
    assert torch.equal(saved["model"]["w"], torch.arange(1000.0))
    assert saved["path"] == path


def test_a_flipped_bit_in_a_tensor_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save(path)
    content = path.read_bytes()
    place = content.find(torch.arange(1000.0).numpy().tobytes()[400:440])
    assert place > 0
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(UserError, match=r"a.pt is damaged"):
        read(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_checkpoint_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.pt"
    save(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(UserError, match=r"a.pt is damaged, or is not a checkpoint"):
        read(path)


class RunsCode:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.file}",)


def test_a_file_with_code_is_refused_without_running_the_code(tmp_path: Path) -> None:
    code = RunsCode(tmp_path / "was-here")
    torch.save({"model": code, "settings": {"seed": 1}}, tmp_path / "zip.pt")
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps(code))
    for name in ("zip.pt", "pickle.pt"):
        with pytest.raises(UserError, match="damaged, or is not a checkpoint"):
            read(tmp_path / name)
    assert not code.file.exists()


def test_a_flipped_bit_in_the_archives_directory_never_changes_the_loaded_tensors(tmp_path: Path) -> None:
    # torch's own reader takes some of these archives for folders and returns uninitialized memory.
    path = tmp_path / "a.pt"
    save(path)
    content = path.read_bytes()
    directory = content.index(b"PK\x01\x02")
    for place in range(directory, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        try:
            saved = read_checkpoint(path, settings={"seed"})
        except UserError:
            continue
        assert torch.equal(saved["model"]["w"], torch.arange(1000.0)), f"byte {place}"


@pytest.mark.parametrize(
    "changes", [{"settings": {}}, {"settings": 3}, {"step": -1}, {"step": "3"}, {"step": None}, {"step": True}]
)
def test_a_checkpoint_of_another_program_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    save(tmp_path / "a.pt", **changes)
    with pytest.raises(UserError, match=r"a.pt was not written by this lab"):
        read(tmp_path / "a.pt")


@pytest.mark.parametrize("content", [{"model": {}}, [1], None])
def test_another_file_of_torch_save_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a.pt was not written by this lab"):
        read(tmp_path / "a.pt")


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"checkpoint .*a.pt does not exist"):
        read(tmp_path / "a.pt")
    with pytest.raises(UserError, match="damaged, or is not a checkpoint"):
        read(tmp_path)
