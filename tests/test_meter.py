"""Step meter: its log, its output and its speeds, on a clock that the test controls."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rankzero.errors import UserError
from rankzero.learn.runs import step_meter as meter_module
from rankzero.learn.runs.plots import read_log
from rankzero.learn.runs.step_meter import StepMeter, gpu_utilization

CPU = torch.device("cpu")


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(meter_module, "time", clock)
    return clock


def make(tmp_path: Path, **settings: Any) -> StepMeter:
    defaults: dict[str, Any] = {
        "first_step": 0,
        "last_step": 6,
        "tokens_per_step": 100,
        "flops_per_token": 10,
        "device": CPU,
    }
    return StepMeter(tmp_path / "log.jsonl", **defaults | {"every": 3} | settings)


def train(meter: StepMeter, clock: Clock, losses: list[float]) -> None:
    for number, loss in enumerate(losses):
        clock.now += 10.0 if number == 0 else 0.5  # the first step is slow, as on a real machine
        meter.step(torch.tensor(loss), lr=0.1)


def test_every_loss_is_logged_exactly_and_windows_are_timed(tmp_path: Path, clock: Clock) -> None:
    losses = [4.1, 3.3, 2.7, 2.2, 1.9, 1.7]
    with make(tmp_path) as meter:
        train(meter, clock, losses)
        overall = meter.overall()
    log = read_log(tmp_path / "log.jsonl")
    assert [event["loss"] for event in log["step"]] == [torch.tensor(loss).item() for loss in losses]
    assert [event["step"] for event in log["window"]] == [1, 3, 6]
    assert [event["tokens_per_s"] for event in log["window"]] == [10.0, 200.0, 200.0]
    assert [event["step_ms"] for event in log["window"]] == [10_000, 500, 500]
    assert "resident" in log["window"][0]["memory"]
    assert "mfu" not in log["window"][0], "the CPU's peak is unknown"
    assert overall == "200 tokens/s, 500.0 ms/step", "without the slow first step"


def test_time_in_a_pause_is_not_training_time(tmp_path: Path, clock: Clock) -> None:
    with make(tmp_path) as meter:
        train(meter, clock, [4.0, 3.0])
        with meter.paused():
            clock.now += 1000
        meter.evaluation(3.5)
        train(meter, clock, [2.0])
    log = read_log(tmp_path / "log.jsonl")
    assert [event["tokens_per_s"] for event in log["window"]] == [10.0, 200.0, 10.0]
    assert log["eval"] == [{"step": 2, "val_loss": 3.5}]


def test_mfu_is_logged_if_the_peak_is_known(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_module, "peak_flops", lambda device, dtype: 8000.0)
    with make(tmp_path) as meter:
        train(meter, clock, [4.0, 3.0, 2.0])
    window = read_log(tmp_path / "log.jsonl")["window"][1]
    assert window["mfu"] == pytest.approx(200 * 10 / 8000)


def test_output_to_a_file_has_plain_lines(tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as meter:
        train(meter, clock, [4.0, 3.0, 2.0])
        meter.evaluation(2.5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("step     3/6  loss 2.5000  200 tokens/s  500.0 ms/step  peak ")
    assert lines[2] == "step     3/6  validation loss 2.5000"
    assert not any("\x1b" in line or "\r" in line for line in lines)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ({"allocated": 2**20, "reserved": 3 * 2**20, "peak": 2**21}, "peak 2 MiB"),  # CUDA
        ({"allocated": 2**20, "reserved": 3 * 2**20}, "allocated 1 MiB"),  # MPS, which counts no peak
    ],
)
def test_a_line_ends_with_the_memory_that_the_device_counts(
    memory: dict[str, int],
    words: str,
    tmp_path: Path,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meter_module, "memory_now", lambda device: memory)
    with make(tmp_path) as meter:
        train(meter, clock, [4.0, 3.0, 2.0])
    assert capsys.readouterr().out.splitlines()[1].endswith(f"500.0 ms/step  {words}")


def test_a_nan_loss_stops_the_run_and_is_in_the_log(tmp_path: Path, clock: Clock) -> None:
    message = r"the loss became nan at step 2, where the learning rate was 0.1: .* smaller --lr"
    with make(tmp_path) as meter, pytest.raises(UserError, match=message):
        train(meter, clock, [4.0, float("nan"), float("inf")])
    assert len(read_log(tmp_path / "log.jsonl")["step"]) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no file that is always full")
def test_a_full_disk_ends_the_run_with_one_sentence(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with (
        pytest.raises(UserError, match=r"^cannot write to \S+ \(No space left on device\): free some space.$"),
        make(tmp_path) as meter,
    ):
        train(meter, clock, [4.0, 3.0])


def test_a_run_that_fails_leaves_a_readable_log(tmp_path: Path, clock: Clock) -> None:
    def fail() -> None:
        with make(tmp_path) as meter:
            train(meter, clock, [4.0, 3.0, 2.0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"event": "step", "st')  # as after a kill during a write
    assert len(read_log(tmp_path / "log.jsonl")["step"]) == 3


def test_utilization_is_none_without_a_gpu() -> None:
    assert gpu_utilization(CPU) is None


def test_further_values_of_a_step_are_logged_and_their_mean_is_shown(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path) as meter:
        for norm in (4.0, 1.0, 2.0):
            clock.now += 0.5
            meter.step(torch.tensor(2.5), lr=0.1, grad_norm=torch.tensor(norm))
    log = read_log(tmp_path / "log.jsonl")
    assert [event["grad_norm"] for event in log["step"]] == [4.0, 1.0, 2.0]
    assert "step     3/6  loss 2.5000  grad norm 1.500  " in capsys.readouterr().out
