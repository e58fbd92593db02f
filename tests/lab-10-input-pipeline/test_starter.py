"""Starter of Lab 10: loaders that change no loss, samples read once, and mistakes answered in one sentence."""

import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from starters import Starter, losses

from rankzero.learn.data.image_sets import FASHION_MNIST_SHA256, load_images
from rankzero.learn.data.slow_store import SlowStore

LAB10 = Starter("10")
starter, fails = LAB10.module, LAB10.fails
QUICK = ("--device", "cpu", "--read-ms", "0", "--epochs", "1", "--merges", "16")


def write_set(folder: Path, *, pictures: int = 64, side: int = 9) -> Path:
    """Writes random pictures in MNIST's format into `folder`; returns the folder."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for name in FASHION_MNIST_SHA256:
        count = pictures if name.startswith("train") else 20
        shape = (count, side, side) if "images" in name else (count,)
        array = random.integers(0, 256 if "images" in name else 10, shape, dtype=np.uint8)
        content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()
        (folder / name).write_bytes(gzip.compress(content))
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("data") / "set")


def printed(tmp_path: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the starter, which must succeed; returns what it prints."""
    assert starter.main([*QUICK, *arguments, "--out", str(tmp_path)]) == 0
    return capfd.readouterr().out


# ------------------------------------------------------------------------------------------------------------- the run
def test_a_run_profiles_climbs_trains_and_reports(
    tmp_path: Path, small: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = printed(tmp_path, capfd, "--data", str(small), "--batch-size", "8", "--epochs", "2")
    assert re.search(
        r"^enumerate\(DataLoader\) +[\d.]+ +\d+%\n  read .*\n  decode .*\n  augment .*\ntrain_step", out, re.M
    )
    rungs = re.findall(r"^(this process loads|\+ .*?)  .*%", out, re.MULTILINE)
    long = [line for line in out.splitlines() if len(line) > 80 and not line.startswith(("data ", "run ", "files "))]
    assert long == [], "a terminal has 80 columns"
    assert rungs == ["this process loads", "+ 2 workers", "+ 8 batches ahead", "+ persistent workers", "+ decoded once"]
    assert "+ pinned memory            left out: only a GPU copies from pinned memory" in out
    assert "equal bit for bit: 24 losses with each of 5 loaders" in out
    assert "samples of this epoch: 64 once, 0 more than once, 0 left out" in out
    assert re.search(r"^ +272 +\d\.\d\d +[\d,]+$", out, re.MULTILINE), "256 bytes and 16 merges"
    (folder,) = tmp_path.glob("lab-10-*")
    assert [step for step, _ in losses(folder)] == list(range(1, 17))
    assert (folder / "ladder.png").stat().st_size > 5000
    assert (folder / "timeline.png").stat().st_size > 5000
    assert json.loads((folder / "log.jsonl").read_text().splitlines()[1])["mlp_loss"] > 0


def test_without_workers_the_ladder_has_two_rungs(
    tmp_path: Path, small: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = printed(tmp_path, capfd, "--data", str(small), "--batch-size", "8", "--workers", "0")
    assert "with each of 2 loaders" in out


@pytest.mark.prove
def test_the_seed_decides_the_losses(tmp_path: Path, small: Path) -> None:
    runs = {}
    for name, seed in (("first", "0"), ("again", "0"), ("other", "1")):
        out = tmp_path / name
        common = ("--data", str(small), "--batch-size", "8", "--workers", "0", "--seed", seed)
        assert starter.main([*QUICK, *common, "--out", str(out)]) == 0
        runs[name] = losses(out / "lab-10-001")
    assert runs["first"] == runs["again"] != runs["other"]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.prove)])
def test_ranks_of_torchrun_divide_the_samples_and_train_the_same_model(ranks: int, small: Path, tmp_path: Path) -> None:
    common = [*QUICK, "--data", str(small), "--batch-size", "8", "--workers", "1"]
    assert starter.main([*common, "--out", str(tmp_path / "alone")]) == 0
    results = LAB10.run_as_ranks(ranks, *common, "--out", str(tmp_path / "ranks"), cwd=tmp_path)
    assert [result.returncode for result in results] == [0] * ranks, results[0].stderr
    assert "samples of this epoch: 64 once, 0 more than once, 0 left out" in results[0].stdout
    assert "equal bit for bit" in results[0].stdout
    assert [result.stdout for result in results[1:]] == [""] * (ranks - 1)
    alone, together = (losses(tmp_path / name / "lab-10-001") for name in ("alone", "ranks"))
    assert [loss for _, loss in together] == pytest.approx([loss for _, loss in alone], abs=1e-4)


def test_the_bug_of_the_page_is_seen_by_the_comparison(small: Path, tmp_path: Path) -> None:
    target = tmp_path / LAB10.lab.starter.relative_to(LAB10.lab.root)
    target.parent.mkdir(parents=True)
    target.write_text(LAB10.lab.starter.read_text())
    subprocess.run(["git", "apply", str(LAB10.lab.folder / "epoch-forgotten.diff")], cwd=tmp_path, check=True)
    command = [sys.executable, str(target), *QUICK, "--data", str(small), "--batch-size", "8"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert "NOT EQUAL from step 9 on with '+ persistent workers': loss " in done.stdout, done.stderr
    assert done.returncode == 1


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.prove)])
def test_a_signal_ends_the_run_and_its_workers_with_one_sentence(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(LAB10.lab.starter), "--device", "cpu", "--read-ms", "2", "--batch-size", "8"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("this process loads"):
                break  # the rung with workers begins
        own = psutil.Process(process.pid)
        while len(workers := [child for child in own.children() if os.getpgid(child.pid) == child.pid]) < 2:
            assert process.poll() is None
        os.killpg(process.pid, number)  # as a terminal does
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert err.strip() == f"Stopped by {name} at once: files that were saved before are kept."
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]


# ------------------------------------------------------------------------------------------------------------ mistakes
def torn(folder: Path) -> None:
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-5]))


def other_magic(folder: Path) -> None:
    file = folder / "train-labels-idx1-ubyte.gz"
    file.write_bytes(gzip.compress(b"\0\0\x0d\x01" + gzip.decompress(file.read_bytes())[4:]))


def lost(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (torn, r"train-images-idx3-ubyte.gz is damaged: 5,179 bytes follow its header, which says 64 x 9 x 9"),
        (other_magic, r"train-labels-idx1-ubyte.gz is not in MNIST's format \(it begins with 00 00 0d 01\)"),
        (lost, r"has no t10k-labels-idx1-ubyte.gz: it needs the four files of a set in MNIST's format"),
    ],
)
def test_a_damaged_set_of_pictures_gets_one_sentence(
    damage: Callable[[Path], None], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write_set(tmp_path / "set")
    damage(folder)
    assert re.search(message, fails(["--data", str(folder), "--out", str(tmp_path / "runs")], capfd))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "-1"], "--workers: '-1' must be a whole number of at least 0"),
        (["--read-ms", "nan"], "--read-ms: 'nan' must be a number of at least 0"),
        (
            ["--data", "nowhere"],
            "folder nowhere does not exist: pass a folder with four files in MNIST's format, 'digits' or",
        ),
        (["--data", "empty"], "folder empty has no train-images-idx3-ubyte.gz"),
        (["--text", "nowhere.txt"], "nowhere.txt does not exist"),
        (["--text", "empty"], "empty has no document: name a folder with at least two text files"),
        (
            ["--text", "latin"],
            "latin/b.txt is not UTF-8 text (byte 0xe9 at offset 3): move this file out of the folder latin.",
        ),
        (["--text", "one.txt"], "one.txt has one document"),
        (["--side", "4"], "--side 4 is too small for the CNN: use 8 or more"),
        (["--workers", "9999"], "--workers 9999 is more than the 40 batches of an epoch: use fewer."),
        (["--batch-size", "2000"], "--batch-size 2000 is more than the 1437 training pictures"),
        (["--worker", "1"], "unknown option --worker: did you mean --workers?"),
        (["--device", "gpu"], "device 'gpu' is not for ranks: use auto, cpu, cuda"),
        (["--out", "/proc/nowhere"], "cannot write to /proc/nowhere"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "a.txt").write_text("plain")
    (tmp_path / "latin" / "b.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "one.txt").write_text("one paragraph\nof two lines")
    monkeypatch.chdir(tmp_path)
    assert message in fails(arguments, capfd)
    assert not (tmp_path / "runs").exists()


def test_a_batch_that_does_not_divide_over_the_ranks_gets_one_sentence(tmp_path: Path) -> None:
    first, second = LAB10.run_as_ranks(2, *QUICK, "--batch-size", "9", cwd=tmp_path)
    assert (first.returncode, second.returncode) == (2, 2)
    assert "--batch-size 9 does not divide into 2 ranks: use a multiple." in first.stderr
    assert second.stderr == ""


# -------------------------------------------------------------------------------------------------------- its parts
def pictures(**changes: Any) -> Any:
    digits = load_images("digits")
    options = {"store": SlowStore(digits.train_images[:40], 0), "labels": digits.train_labels, "side": 16, "seed": 0}
    return starter.Pictures(**(options | changes))


def test_a_shift_depends_on_seed_epoch_and_number_alone() -> None:
    data = pictures()
    batch = data[[(0, 3), (1, 3), (0, 7)]]
    again = pictures()[[(0, 7), (0, 3)]]
    assert torch.equal(batch.images[0], again.images[1])
    assert torch.equal(batch.images[2], again.images[0])
    shown = {pictures(seed=seed)[[(epoch, 3)]].images.numpy().tobytes() for seed in range(3) for epoch in range(5)}
    assert len(shown) > 5
    assert batch.images.dtype == torch.uint8
    assert batch.labels.tolist() == [load_images("digits").train_labels[number].item() for number in (3, 3, 7)]


def test_decoding_once_changes_no_batch() -> None:
    slow, fast = pictures(), pictures()
    fast.decoded = torch.stack([fast.picture(number) for number in range(len(fast.store))])
    keys = [(2, number) for number in (5, 0, 39)]
    assert torch.equal(slow[keys].images, fast[keys].images)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_draw_every_sample_of_whole_batches_once(ranks: int) -> None:
    orders = [starter.EpochOrder(50, 12, 7, rank, ranks) for rank in range(ranks)]
    epochs = []
    for epoch in range(3):
        for order in orders:
            order.epoch = epoch
        shares = [list(order) for order in orders]
        assert all(len(share) == 4 == len(order) for share, order in zip(shares, orders, strict=True))
        keys = [key for share in shares for batch in share for key in batch]
        assert {key[0] for key in keys} == {epoch}
        numbers = [number for _, number in keys]
        assert len(numbers) == len(set(numbers)) == 48
        epochs.append(tuple(numbers))
    assert len(set(epochs)) == 3
