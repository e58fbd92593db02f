"""The GPU session (`rankzero gpu`) on a machine without a GPU: refusals, the rehearsal, its file, and the import."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from gpt2_kernels import family_of, kernel_times
from gpu_session import __main__ as session
from gpu_session.child import Child, TimeIsUpError
from gpu_session.parts import Found, Part, at_once, output_of_starter
from gpu_session.pictures import draw
from matplotlib.colors import to_hex

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import Claim
from rankzero.claims.import_results import import_results
from rankzero.claims.measurements import read_measurements
from rankzero.claims.registry import all_claims
from rankzero.claims.toolkit.gpu import Spread
from rankzero.curriculum import ROOT, all_labs
from rankzero.errors import UserError
from rankzero.learn.distributed.rank import device_of_rank

MACHINE = {"date": "2026-11-22T10:00:00+00:00", "cpu": "a processor", "python": "3.12.1", "torch": "2.11.0"}
ALLOCATOR = {
    "cuda-one-byte",
    "cuda-segments",
    "cuda-fragments",
    "reserved-outlives-allocated",
    "lab-03-cuda-memory",
}
CLAIM = "gpu-matmul-rate"
LONG_S = 300.0  # limit of a process that ends by itself


def gpu(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "rankzero", "gpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def results(**changes: Any) -> dict[str, Any]:
    """A session's file with one claim, as it is after a run on a GPU."""
    chart = Chart("Rate", "width", "TFLOP/s", {"bf16": [(256, 1.0, 0.9, 1.1)]}).as_json()
    claim = all_claims()[CLAIM]
    line = {"measured": claim.expected, "runs": [claim.expected] * 3, "seconds": 1.5, "digest": claim.digest}
    return {
        "format": 1,
        "rehearsal": False,
        "machine": {**MACHINE, "gpu": ["NVIDIA H100"], "driver": "580.1"},
        "parts": [],
        "claims": {CLAIM: {**line, "slug": CLAIM, "chart": chart}},
        **changes,
    }


def write(folder: Path, values: Any) -> Path:
    file = folder / "gpu.json"
    file.write_text(values if isinstance(values, str) else json.dumps(values))
    return file


# ------------------------------------------------------------------------------------------------------------ refusals
@pytest.mark.prove
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_one_sentence_names_the_rehearsal_and_nothing_is_written(tmp_path: Path) -> None:
    done = gpu("--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "sees no CUDA device" in done.stderr
    assert "--rehearse" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--minutes", "0"], "--minutes 0: there must be some time"),
        pytest.param(["--only", "nothing"], "no part's name contains 'nothing'", marks=pytest.mark.prove),
    ],
)
def test_bad_options_get_one_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = gpu("--rehearse", "--out", str(tmp_path), *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (tmp_path / "gpu.json").exists()


@pytest.mark.prove
def test_the_results_of_an_earlier_session_are_not_overwritten(tmp_path: Path) -> None:
    file = write(tmp_path, "precious")
    done = gpu("--rehearse", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "gpu.json exists: name another folder" in done.stderr
    assert file.read_text() == "precious"


@pytest.mark.prove
def test_help_names_every_part() -> None:
    text = gpu("--help").stdout
    for part in ("doctor", "claims", "labs", "tests", "ladder", "measurements", "--minutes", "--rehearse", "--only"):
        assert part in text


@pytest.mark.prove
# ------------------------------------------------------------------------------------------------------- the session
def test_a_rehearsal_of_some_parts_writes_results_summary_and_pictures(tmp_path: Path) -> None:
    done = gpu("--rehearse", "--only", "gpu-adamw", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["rehearsal"]
    assert [part["status"] for part in found["parts"]] == ["passed"]
    assert [point[0] for point in found["claims"]["gpu-adamw-kernels"]["chart"]["lines"]["AdamW"]] == [
        *("loop", "foreach", "fused"),
    ]
    assert (tmp_path / "gpu-adamw-kernels.svg").stat().st_size > 1000
    assert "a rehearsal on the CPU" in (tmp_path / "summary.md").read_text()
    taken, left_out = import_results(tmp_path / "gpu.json", all_claims(), tmp_path / "measurements")
    assert (taken, left_out) == ([], {"gpu-adamw-kernels": "a rehearsal: in order, and not written"})


@pytest.mark.prove
def test_the_whole_rehearsal_passes_and_imports(tmp_path: Path) -> None:
    done = gpu("--rehearse", "--out", str(tmp_path))
    found = json.loads((tmp_path / "gpu.json").read_text())
    statuses = {part["name"]: part["status"] for part in found["parts"]}
    assert {name for name, status in statuses.items() if status != "passed"} == ALLOCATOR, done.stdout
    cuda = {slug for slug, claim in all_claims().items() if "cuda" in claim.needs}
    assert cuda - ALLOCATOR == found["claims"].keys()
    assert {f"lab {lab.number}" for lab in all_labs()} <= {name[:6] for name in statuses}
    _, left_out = import_results(tmp_path / "gpu.json", all_claims(), tmp_path / "measurements")
    assert set(left_out.values()) == {"a rehearsal: in order, and not written"}


@pytest.mark.parametrize(
    ("error", "package"),
    [
        ("exit code 1: Traceback ... ModuleNotFoundError: No module named 'optuna'", "optuna"),
        ("exit code 2: feed.py: the digits come from scikit-learn, which is not installed: install it", "scikit-learn"),
    ],
)
def test_a_part_whose_package_is_missing_is_left_out(error: str, package: str) -> None:
    def fail(seconds: float) -> Found:
        raise RuntimeError(error)

    outcome, _ = session.run_part(Part("one", "about", fail), 1.0)
    assert (outcome.status, outcome.text) == ("left out", f"{package} is not installed")


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error"), TimeIsUpError("not done"), KeyError("x"), OSError("full")]
)
def test_a_part_that_fails_is_an_outcome(error: Exception) -> None:
    def fail(seconds: float) -> Found:
        raise error

    outcome, found = session.run_part(Part("one", "about", fail), 1.0)
    assert (outcome.status, found) == ("failed", None)
    assert str(error) in outcome.text


def test_what_has_no_time_left_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def note(seconds: float) -> Found:
        ran.append(seconds)
        return Found("passed", "", {})

    monkeypatch.setattr(session, "parts", lambda settings: [Part(f"part {n}", "", note) for n in range(3)])
    options = session.make_parser().parse_args(["--out", str(tmp_path), "--minutes", "0.001", "--rehearse"])
    assert session.run_session(options) == 0
    assert ran == []
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert {part["text"] for part in parts} == {"0.001 minutes are over"}


def test_ctrl_c_ends_the_session_and_keeps_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> Found:
        raise KeyboardInterrupt

    found = [Part("first", "", lambda seconds: Found("passed", "", {})), Part("second", "", interrupt)]
    monkeypatch.setattr(session, "parts", lambda settings: [*found, *found])
    options = session.make_parser().parse_args(["--out", str(tmp_path), "--rehearse"])
    assert session.run_session(options) == 130
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert [part["status"] for part in parts] == ["passed", "left out", "left out", "left out"]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("print('NOT EQUAL from step 3 on'); raise SystemExit(1)", "^NOT EQUAL from step 3 on$"),
        ("print('NOT EQUAL from step 3 on')", "^NOT EQUAL from step 3 on$"),
        ("print('equal'); raise KeyError('width')", "exit code 1: .*KeyError: 'width'"),
    ],
)
def test_a_starter_with_unequal_results_or_an_error_has_failed(program: str, error: str) -> None:
    with Child([sys.executable, "-c", program]) as child, pytest.raises(RuntimeError, match=error):
        output_of_starter(child, LONG_S)


def test_a_missing_module_of_the_repository_is_a_failure() -> None:
    def fail(seconds: float) -> Found:
        raise RuntimeError("ModuleNotFoundError: No module named 'rankzero.claim'")

    outcome, _ = session.run_part(Part("one", "about", fail), 1.0)
    assert outcome.status == "failed"


@pytest.mark.real
def test_a_child_that_hangs_is_ended_with_ranks_in_sessions_of_their_own() -> None:
    rank = "[sys.executable, '-c', 'import time; time.sleep(6000)'], start_new_session=True"  # as torchrun starts them
    program = f"import subprocess, sys; rank = subprocess.Popen({rank}); print(rank.pid, flush=True); rank.wait()"
    child = Child([sys.executable, "-c", program])
    rank_id = int(child.line(LONG_S))
    with pytest.raises(TimeIsUpError, match="not done after 0 s"):
        child.line(0.1)
    child.end()
    assert child._process.returncode == -9
    psutil.wait_procs([psutil.Process(rank_id)] if psutil.pid_exists(rank_id) else [], timeout=LONG_S)
    assert not psutil.pid_exists(rank_id)


# -------------------------------------------------------------------------------------------------------- the import
def test_imported_measurements_keep_machine_date_runs_and_chart(tmp_path: Path) -> None:
    taken, left_out = import_results(write(tmp_path, results()), all_claims(), tmp_path / "measurements")
    assert (taken, left_out) == ([CLAIM], {})
    kept = read_measurements(tmp_path / "measurements")[CLAIM]
    assert (kept.machine, kept.date) == ("NVIDIA H100", "2026-11-22")
    assert kept.versions == "Python 3.12.1, torch 2.11.0, driver 580.1"
    assert len(kept.runs) == 3
    assert kept.chart is not None
    assert kept.chart["lines"] == {"bf16": [[256.0, 1.0, 0.9, 1.1]]}
    assert (tmp_path / "measurements" / "cuda.json").exists()


def test_claims_that_failed_changed_or_are_gone_are_left_out_with_the_reason(tmp_path: Path) -> None:
    values = results()
    line = values["claims"][CLAIM]
    values["claims"] = {
        CLAIM: {**line, "digest": "0" * 12},
        "gone": line,
        "gpt2-ladder": {"slug": "gpt2-ladder", "error": "out of memory"},
    }
    taken, left_out = import_results(write(tmp_path, values), all_claims(), tmp_path / "measurements")
    assert taken == []
    assert left_out == {
        CLAIM: "the claim has changed since it was measured",
        "gone": "there is no such claim now",
        "gpt2-ladder": "out of memory",
    }


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("not JSON", "is no file of `rankzero gpu`"),
        ("[]", "is no file of `rankzero gpu`"),
        ({"format": 99}, "has format 99, and this version reads 1"),
        ({"format": 1, "claims": {"a": {"measured": 1}}, "machine": {}}, "is no file of `rankzero gpu`"),
        ({"format": 1, "machine": {}}, "is no file of `rankzero gpu`"),
    ],
    ids=["text", "list", "format", "machine", "claims"],
)
def test_a_file_that_is_none_is_refused(values: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        import_results(write(tmp_path, values), all_claims(), tmp_path / "measurements")
    assert not (tmp_path / "measurements").exists()


def test_a_missing_file_is_named_by_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero", "claims", "--import", str(tmp_path / "none.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "none.json cannot be read (No such file or directory)" in done.stderr


# ------------------------------------------------------------------------------------------------- charts and devices
def test_a_charted_value_is_judged_by_its_value() -> None:
    from rankzero.claims import run

    def measure() -> Charted:
        """Returns three."""
        return Charted(3, Chart("t", "x", "y", {"a": [Spread.of([1.0, 3.0, 2.0]).point(8)]}))

    claim = Claim("a", "b", "c", 3, "", measure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "find_claim", lambda slug: claim)
        outcome = run.run_claim("a")
    assert (outcome.holds, outcome.measured) == (True, 3)
    assert outcome.chart is not None
    assert outcome.chart.lines["a"] == [(8, 2.0, 1.0, 3.0)]


def test_lines_are_labelled_at_their_ends_and_names_become_bars() -> None:
    lines = draw(Chart("t", "width", "ms", {"one": [(1, 2, 1, 3), (2, 3, 2, 4)], "two": [(1, 1, 1, 1)]}, "xy"))
    (axes,) = lines.axes
    assert {text.get_text() for text in axes.texts} == {"one", "two"}
    assert len({to_hex(line.get_color()) for line in axes.lines}) == 2
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    bars = draw(Chart("t", "", "ms", {"step": [("eager", 2, 1, 3), ("graph", 1, 1, 1)]}))
    assert [label.get_text() for label in bars.axes[0].get_yticklabels()] == ["eager", "graph"]


def test_ranks_share_a_gpu_that_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert [device_of_rank("cuda:0", rank, 2) for rank in range(2)] == [torch.device("cuda:0")] * 2
    with pytest.raises(UserError, match="2 ranks need 2 CUDA devices"):
        device_of_rank("cuda", 0, 2)
    with pytest.raises(UserError, match="device 'cuda:1' is not for ranks"):
        device_of_rank("cuda:1", 0, 2)


# ---------------------------------------------------------------------------------------------------- parts at once
def test_parts_that_time_nothing_run_at_once_and_the_others_alone() -> None:
    both = threading.Barrier(2, timeout=LONG_S)
    order: list[str] = []

    def meets(name: str) -> Found:
        both.wait()  # passes only if the other part runs now
        order.append(name)
        return Found("passed", name, {})

    def alone(seconds: float) -> Found:
        order.append("alone")
        return Found("passed", "alone", {})

    made = [
        Part("alone", "", alone),
        Part("a", "", lambda seconds: meets("a"), times_nothing=True),
        Part("b", "", lambda seconds: meets("b"), times_nothing=True),
    ]
    with ThreadPoolExecutor(2) as pool:
        found = [part.run(1.0).text for part in at_once(made, pool)]
    assert found == ["alone", "a", "b"]
    assert order[0] == "alone"


# ------------------------------------------------------------------------------------------------- kernels by family
@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT", "matrix products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matrix products"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu>", "matrix products"),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_32", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "attention"),
        ("triton_red_fused__log_softmax_12", "compiled point-wise operations and sums"),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", "optimizer"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", "other operations"),
    ],
)
def test_a_kernel_belongs_to_its_family(kernel: str, family: str) -> None:
    assert family_of(kernel) == family


def test_kernels_and_waiting_add_up_to_the_step() -> None:
    times = kernel_times([("nvjet_a", 9.0), ("triton_b", 3.0)], step_ms=5.0, steps=3)
    assert times["matrix products"] == 3.0
    assert times["waiting"] == 1.0
    assert sum(times.values()) == 5.0
