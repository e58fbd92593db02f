"""Devices, random seeds, peak FLOP/s and the fingerprint of the machine."""

import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rankzero.curriculum import ROOT
from rankzero.errors import UserError
from rankzero.learn.machine.device import choose_device, peak_flops, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint, git_commit


def test_auto_finds_a_device_that_works() -> None:
    assert torch.ones(2, device=choose_device()).sum().item() == 2
    assert choose_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["tpu", "gpu", "", "cuda:x", "meta", "cpu gpu"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="is not known: use auto, cpu, cuda, cuda:N or mps"):
        choose_device(name)


def test_a_missing_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"device cuda is not there: torch .* sees no CUDA device; use --device cpu"):
        choose_device("cuda")
    with pytest.raises(UserError, match="device mps is not there"):
        choose_device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="device cuda:2 is not there: this machine has 2, counted from cuda:0"):
        choose_device("cuda:2")
    assert choose_device("cuda:1") == torch.device("cuda", 1)


def test_a_seed_covers_all_three_generators() -> None:
    def draw() -> tuple[float, float, float]:
        seed_everything(5)
        return random.random(), float(np.random.rand()), torch.rand(1).item()

    assert draw() == draw()
    seed_everything(2**62)  # NumPy's random seeds have 32 bits only


def test_deterministic_mode_sets_torch_and_cublas() -> None:
    # In a new process, because the mode is global.
    code = (
        "import torch, os; from rankzero.learn.machine.device import seed_everything\n"
        "seed_everything(0, deterministic=True)\n"
        "print(torch.are_deterministic_algorithms_enabled(), os.environ['CUBLAS_WORKSPACE_CONFIG'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", ":4096:8"]


@pytest.mark.parametrize(
    ("name", "dtype", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", torch.bfloat16, 312e12),
        ("NVIDIA A100-SXM4-80GB", torch.float32, 19.5e12),
        ("NVIDIA H100 80GB HBM3", torch.float16, 989e12),
        ("NVIDIA H200", torch.float32, 67e12),
        ("NVIDIA H100 PCIe", torch.bfloat16, None),
        ("NVIDIA GeForce GTX 1050", torch.float32, None),
    ],
)
def test_peak_flops(monkeypatch: pytest.MonkeyPatch, name: str, dtype: torch.dtype, peak: float | None) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_flops(torch.device("cuda"), dtype) == peak
    assert peak_flops(torch.device("cpu"), dtype) is None


def test_fingerprint_names_commit_and_versions() -> None:
    facts = fingerprint(torch.device("cpu"))
    assert facts["torch"] == torch.__version__
    assert facts["device"] == "cpu"
    assert facts["commit"] == git_commit(ROOT)["commit"], "none where the repository is a copy without git"
    assert str(facts["date"]).endswith("+00:00")


def test_the_fingerprint_has_the_commit_and_tells_changed_files(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    (tmp_path / "file").touch()
    for command in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "Add a file"]):
        subprocess.run([*git, *command], check=True)
    made = git_commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", str(made["commit"]))
    assert made["dirty"] is False
    (tmp_path / "file").write_text("changed")
    assert git_commit(tmp_path) == made | {"dirty": True}


def test_without_git_the_fingerprint_has_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) == {"commit": None, "dirty": None}
