"""Starter of Lab 07: its losses are those of Lab 02, and its ranks start, stop and fail together."""

import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from starters import LONG_S, Starter, import_starter, losses
from tiers import sampled
from torch import Tensor
from warm_process import cold_starts

from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.plots import read_log

LAB02, LAB07 = Starter("02"), Starter("07")
starter, fails = LAB07.module, LAB07.fails
SMALL = ("--hidden-dim", "32", "--layers", "1", "--heads", "2", "--block-size", "16", "--batch-size", "12")


def train(folder: Path, *arguments: str, of: Starter = LAB07) -> Path:
    return of.train(folder, "--batch-size", "12", *arguments)


def command(*arguments: str, torchrun: int = 0) -> list[str]:
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(torchrun)] if torchrun else []
    return [sys.executable, *launch, str(LAB07.lab.starter), *SMALL, *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


# ----------------------------------------------------------------------------------------------------------- equality
def compared(dtype: torch.dtype, corpus: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns, on one rank, gradient and loss of the starter on the rank's rows and of Lab 02 on the whole batch."""
    starter, lab_02 = import_starter("07"), import_starter("02")
    torch.manual_seed(0)
    text = load_corpus("embedded")
    model = GPT(GPTConfig(text.vocab_size, block_size=8, n_layer=2, n_head=2, hidden_dim=16)).to(dtype)
    x, y = torch.randint(24, (2, 12, 8))
    if corpus:
        x, y = random_batch(text.train, step=0, seed=0, batch_size=12, block_size=8)
    averaged = starter.first_gradient(model, *starter.my_rows(x, y), dtype, parallel=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loss = lab_02.train_step(model, optimizer, x, y)
    whole = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    optimizer.zero_grad()
    # The loss is the mean over all ranks, even without DDP.
    mean_loss = starter.train_step(model, optimizer, *starter.my_rows(x, y))
    return averaged, whole, mean_loss, loss


@pytest.mark.parametrize("corpus", [False, True])
@pytest.mark.parametrize("ranks", sampled([2, 4], [2]))
def test_a_step_on_k_ranks_equals_lab_02s_step_on_the_whole_batch(ranks: int, corpus: bool) -> None:
    for averaged, whole, mean_loss, loss in run_world(compared, ranks, torch.float64, corpus):
        assert (averaged - whole).abs().max() <= 1e-12 * whole.abs().max()
        assert mean_loss.item() == pytest.approx(loss.item(), rel=1e-12)


def unsynchronized() -> str:
    """Returns the starter's comparison for ranks that do not average their gradients."""
    starter = import_starter("07")
    torch.manual_seed(0)
    model = GPT(GPTConfig(24, block_size=8, n_layer=1, n_head=2, hidden_dim=16))
    vars(starter)["DistributedDataParallel"] = lambda module: module  # in this rank's process only
    return str(starter.compare_gradients(model, *torch.randint(24, (2, 12, 8))))


def test_ranks_that_do_not_average_are_not_equal() -> None:
    assert all("NOT EQUAL" in comparison for comparison in run_world(unsynchronized, 2))


def test_runs_on_2_and_3_ranks_have_the_losses_of_lab_02(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab02_folder = train(tmp_path, "--steps", "21", of=LAB02)
    expected = losses(lab02_folder)
    validation = read_log(lab02_folder / "log.jsonl")["eval"][-1]["val_loss"]
    capsys.readouterr()
    for ranks in (2, 3):
        folder = train(tmp_path, "--steps", "21", "--ranks", str(ranks))
        out = capsys.readouterr().out
        assert f"{ranks} ranks over gloo" in out
        assert f"batch 12 = {ranks} x {12 // ranks}" in out
        assert "\nequal within 1e-12" in out
        assert "[rank 1]" not in out, "rank 0 prints for all"
        assert [step for step, _ in losses(folder)] == [step for step, _ in expected]
        for (_, loss), (_, expected_loss) in zip(losses(folder), expected, strict=True):
            assert loss == pytest.approx(expected_loss, abs=5e-4)
        log = read_log(folder / "log.jsonl")
        assert log["eval"][-1]["val_loss"] == pytest.approx(validation, abs=5e-4)
        assert len(log["ranks"][-1]["forward_ms"]) == ranks
        assert log["run"][0]["ranks"] == ranks


def test_sent_bytes_are_printed_before_and_after_the_buckets_are_rebuilt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, "--steps", "2", "--hidden-dim", "192", "--layers", "2", "--heads", "4", "--ranks", "2")
    out = capsys.readouterr().out
    weights = 4 * int(re.findall(r"([\d,]+) parameters", out)[0].replace(",", ""))
    for rank in range(2):
        assert f"sent in step 1, rank {rank}: all_reduce {weights:,} + 4\n" in out
        (second,) = re.findall(rf"sent in step 2, rank {rank}: broadcast .*, all_reduce ([\d,+ ]+) \+ 4\n", out)
        buckets = [int(bucket.replace(",", "")) for bucket in second.split(" + ")]
        assert len(buckets) > 1
        assert sum(buckets) == weights
        assert buckets[0] >= 2**20, "the first bucket is closed when it reaches 1 MiB"


# ----------------------------------------------------------------------------------------------------- start and resume
@pytest.mark.real
def test_torchrun_starts_the_ranks_and_the_files_are_written_once(tmp_path: Path) -> None:
    done = subprocess.run(
        command("--steps", "3", torchrun=2),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step     3/3  loss") == 1
    assert {file.name for file in (tmp_path / "runs" / "lab-07-001").iterdir()} == {
        "log.jsonl",
        "curves.png",
        "checkpoint.pt",
    }
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == ["lab-07-001"]


def test_a_run_resumes_on_other_numbers_of_ranks_and_in_lab_02(tmp_path: Path) -> None:
    whole = train(tmp_path, "--steps", "12", "--ranks", "2")
    half = train(tmp_path, "--steps", "6", "--ranks", "2")
    checkpoint = str(half / "checkpoint.pt")
    on_two_ranks = train(tmp_path, "--steps", "12", "--resume", checkpoint, "--ranks", "2")
    assert losses(half) + losses(on_two_ranks) == losses(whole), "every loss, bit for bit"
    expected = dict(losses(whole))
    for resumed in (
        train(tmp_path, "--steps", "12", "--resume", checkpoint, "--ranks", "3"),
        train(tmp_path, "--steps", "12", "--resume", checkpoint, of=LAB02),
    ):
        assert [step for step, _ in losses(resumed)] == [7, 8, 9, 10, 11, 12]
        assert all(loss == pytest.approx(expected[step], abs=5e-4) for step, loss in losses(resumed))
    names = torch.load(checkpoint, weights_only=True)["model"]
    assert not any(name.startswith("module.") for name in names)


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    assert [options[name] for name in ("steps", "batch_size", "ranks", "eval_every")] == [200, 12, None, 100]


# ------------------------------------------------------------------------------------------------------------ mistakes
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "5"], "--batch-size 12 does not divide by 5 ranks: use 10, say."),
        (["--ranks", "0"], "--ranks: '0' must be a whole number of at least 1"),
        (["--batch-size", "1"], "--batch-size 1 does not divide by 2 ranks: use 2, say."),
        (["--device", "mps"], "device 'mps' is not for ranks: use auto, cpu, cuda, or cuda:N"),
        (["--device", "cuda:64"], "device 'cuda:64' is not for ranks"),
        (["--checkpoint", "there.pt"], "there.pt exists: resume from it with --resume, or choose another --checkpoint"),
        (["--batch-size", "1000000000"], "out of memory: this would need about"),
        (["--resume", "there.pt"], "checkpoint there.pt was not written by this lab"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weights": torch.zeros(2)}, "there.pt")
    assert message in fails(arguments, capsys)
    assert [file.name for file in tmp_path.iterdir()] == ["there.pt"]


def test_a_folder_that_rank_0_cannot_make_stops_all_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").write_text("in the way")
    assert "cannot write to" in fails([*SMALL, "--out", str(tmp_path / "runs")], capsys)


@pytest.mark.real
def test_an_uneven_batch_gets_one_sentence_from_all_ranks_together(tmp_path: Path) -> None:
    done = LAB07.run_as_ranks(2, *SMALL, "--batch-size", "5", cwd=tmp_path)
    assert [process.returncode for process in done] == [2, 2]
    errors = "".join(process.stderr for process in done)
    assert errors.count("--batch-size 5 does not divide by 2 ranks: use 4, say.") == 1
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------- stop and fail
def running(tmp_path: Path, start: AbstractContextManager[None]) -> tuple[subprocess.Popen[str], str]:
    """Returns a run of two ranks that has trained a step, and its output so far."""
    with start:
        process = subprocess.Popen(
            command("--steps", "1000000"),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    assert process.stdout is not None
    printed = ""
    while "step     1/" not in printed:
        line = process.stdout.readline()
        assert line, f"ended early: {printed}{process.communicate(timeout=LONG_S)}"
        printed += line
    return process, printed


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def ranks_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Returns the rank processes: the children of the fork server, which is a child of the starter."""
    return [child for child in family(process) if child.ppid() != process.pid]


@pytest.mark.prove
@pytest.mark.real
def test_ctrl_c_stops_all_ranks_after_the_same_step(tmp_path: Path) -> None:
    process, _ = running(tmp_path, cold_starts())
    started = family(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert err == ""
    folder = tmp_path / "runs" / "lab-07-001"
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)["step"]
    assert f"Stopped by Ctrl-C after step {saved}, which is saved. Go on with\n  python " in out
    assert losses(folder)[-1][0] == saved
    _, alive = psutil.wait_procs(started, timeout=LONG_S)
    assert not alive


@pytest.mark.real
def test_a_killed_rank_gets_one_report_and_no_process_stays(tmp_path: Path) -> None:
    process, _ = running(tmp_path, nullcontext())
    started = family(process)
    _, last = ranks_of(process)
    last.kill()
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 1
    assert re.search(r"rank \d of 2 at step \d+ was killed by SIGKILL", err), err
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(started, timeout=LONG_S)
    assert not alive


@pytest.mark.prove
@pytest.mark.real
def test_the_smallest_script_trains_on_all_rows_under_torchrun() -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = str(LAB07.lab.folder / "smallest_ddp.py")
    with cold_starts():
        run = subprocess.run([*launch, script], env=environment(), capture_output=True, text=True, timeout=LONG_S)
    assert run.returncode == 0, run.stderr
    nats = [float(loss) for loss in re.findall(r"^epoch \d: (\S+) nats over 4096 rows", run.stdout, re.MULTILINE)]
    assert len(nats) == 3
    assert nats == sorted(nats, reverse=True)


def test_break_it_is_a_patch_of_this_starter(tmp_path: Path) -> None:
    target = tmp_path / LAB07.lab.starter.relative_to(LAB07.lab.root)
    target.parent.mkdir(parents=True)
    target.write_text(LAB07.lab.starter.read_text())
    subprocess.run(["git", "apply", str(LAB07.lab.folder / "averages-the-weights.diff")], cwd=tmp_path, check=True)
    assert "dist.all_reduce(gradient.data)" in target.read_text()


def averaged_weights(steps: int) -> dict[str, Any]:
    """Trains with the bug of the page, hooks that average the parameter, and returns this rank's weights."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).double()

    def average(gradient: Tensor) -> None:
        torch.distributed.all_reduce(gradient.data)
        gradient.data /= torch.distributed.get_world_size()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + torch.distributed.get_rank())
        optimizer.zero_grad()
        model(torch.randn(4, 3, generator=generator, dtype=torch.float64)).square().mean().backward()
        optimizer.step()
    return {"weights": model.weight.detach()}


def test_hooks_that_average_the_weights_leave_the_ranks_with_different_weights() -> None:
    first, second = (returned["weights"] for returned in run_world(averaged_weights, 2, 5))
    assert (first - second).abs().max() > 1e-3
