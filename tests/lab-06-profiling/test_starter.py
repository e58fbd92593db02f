"""Starter of Lab 06: its output, its trace, and the diagnoses of the three patient scripts."""

import contextlib
import functools
import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from starters import TINY, Starter
from starters import losses as logged_losses
from tiers import sampled

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.learn.profiling.traces import Event, device_busy, plot_by_depth, plot_timeline, ranges, read_trace

LAB06 = Starter("06")
LAB, starter = LAB06.lab, LAB06.module
fails = LAB06.fails
reference = load(LAB.reference)
CPU = ("--device", "cpu", "--active", "2", "--warmup", "1")
PHASES = {"data", "forward", "backward", "optimizer"}


def profiled(folder: Path, *arguments: str) -> tuple[str, list[Event]]:
    """Runs the starter in this process, and returns its output and its trace."""
    before = set(folder.glob("runs/*"))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert starter.main([*CPU, *arguments, "--out", str(folder / "runs")]) == 0
    (run_folder,) = set(folder.glob("runs/*")) - before
    return printed.getvalue(), read_trace(run_folder / "trace.json")


def numbers(text: str, pattern: str) -> list[float]:
    """Returns the numbers that the groups of `pattern` match in `text`."""
    match = re.search(pattern, text)
    assert match, text
    return [float(group.replace(",", "")) for group in match.groups()]


def calls(events: list[Event], name: str) -> float:
    """Returns the calls per step of operations whose names begin with `name`."""
    steps = sum(label.startswith("ProfilerStep#") for _, _, label in ranges(events))
    return sum(label.startswith(name) for _, _, label in ranges(events, "cpu_op")) / steps


def test_the_documented_command_works_from_any_folder(tmp_path: Path) -> None:
    done = LAB06.run(*TINY, "--script", "patient_b.py", "--watch-layers", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "run     1 + 3 steps, then 5 measured, into runs/lab-06-001/" in done.stdout
    folder = tmp_path / "runs" / "lab-06-001"
    assert {file.name for file in folder.iterdir()} == {"log.jsonl", "trace.json", "timeline.png", "layers.png"}
    assert (folder / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    assert (options["wait"], options["warmup"], options["active"]) == (1, 3, 5)
    assert (options["batch_size"], options["block_size"], options["hidden_dim"]) == (12, 64, 128)
    shared = vars(find_lab("02").import_starter().make_parser().parse_args([]))
    assert {name: value for name, value in options.items() if shared.get(name, value) != value} == {}


def test_the_fractions_add_up_to_1_and_agree_with_the_exercise(tmp_path: Path) -> None:
    text, events = profiled(tmp_path, *TINY)
    step_ms, fractions = starter.account(events)
    assert set(fractions) == PHASES | {"idle"}
    assert all(fraction > 0 for fraction in fractions.values())
    assert sum(fractions.values()) == pytest.approx(1, abs=1e-6)
    assert "sum         1.000000" in text
    _, by_exercise = reference.phase_fractions(events, 0)
    assert by_exercise == pytest.approx(fractions, abs=1e-6)
    (printed,) = numbers(text, r"sum +1\.0+ +([\d.]+)")
    assert printed == pytest.approx(step_ms, abs=0.01)


def test_a_phase_that_is_counted_twice_makes_the_sum_exceed_1(tmp_path: Path) -> None:
    _, events = profiled(tmp_path, *TINY)
    twice = [*events, *(event for event in events if event["name"] == "backward")]
    _, fractions = starter.account(twice)
    _, right = starter.account(events)
    assert sum(fractions.values()) == pytest.approx(1 + right["backward"], abs=1e-6)
    assert fractions["idle"] == pytest.approx(right["idle"], abs=1e-6)


@pytest.mark.prove
def test_only_the_active_steps_are_in_the_trace(tmp_path: Path) -> None:
    _, events = profiled(tmp_path, *TINY, "--wait", "2", "--active", "3")
    assert [name for _, _, name in ranges(events) if name.startswith("ProfilerStep")] == [
        f"ProfilerStep#{number}" for number in (3, 4, 5)
    ]
    assert calls(events, "aten::zeros_like") == 0, "the optimizer's state is made in an earlier step"


@pytest.mark.parametrize("shape", [(), ("--layers", "3", "--heads", "1", "--hidden-dim", "24", "--block-size", "40")])
@pytest.mark.parametrize("text", sampled(["embedded", "a text of its own"], ["embedded"]))
def test_counted_flops_equal_the_formula(tmp_path: Path, shape: tuple[str, ...], text: str) -> None:
    corpus = text
    if text != "embedded":
        corpus = str(tmp_path / "text.txt")
        Path(corpus).write_text("To be, or not to be, that is the question:\n" * 20)
    printed, _ = profiled(tmp_path, *TINY, *shape, "--corpus", corpus)
    forward, backward, total = numbers(printed, r"FLOPs of a step: ([\d,]+) forward \+ ([\d,]+) backward = ([\d,]+)")
    (formula,) = numbers(printed, r"6N \+ 12LHQT: ([\d,]+) with")
    (executed,) = numbers(printed, r"executed: ([\d,]+)")
    assert forward + backward == total == formula == executed
    assert backward == 2 * forward


def test_recomputation_executes_more_flops_with_the_same_losses(tmp_path: Path) -> None:
    plain, _ = profiled(tmp_path, *TINY, "--peak-flops", "1e12")
    recomputed, events = profiled(tmp_path, *TINY, "--peak-flops", "1e12", "--recompute")
    assert losses(recomputed) == losses(plain)
    assert calls(events, "aten::mm") > 0
    needed, executed = (numbers(recomputed, rf"{name}: ([\d,]+)")[0] for name in (r"12LHQT", "executed"))
    mfu, hfu = numbers(recomputed, r"MFU ([\d.]+), HFU ([\d.]+) of 1,000 GFLOP/s \(given\)")
    assert executed > needed
    assert hfu >= mfu


def losses(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", text)]


def test_a_profiled_run_has_the_losses_of_lab_02(tmp_path: Path) -> None:
    lab02 = Starter("02")
    plain = lab02.train(tmp_path, "--steps", "4", "--warmup-steps", "0", "--eval-every", "4", "--device", "cpu")
    options = starter.make_parser().parse_args([*TINY, "--device", "cpu"])
    torch.manual_seed(0)
    corpus = starter.load_corpus("embedded")
    model = starter.GPT(starter.GPTConfig(corpus.vocab_size, 16, 1, 2, 32))
    optimizer = starter.AdamW(model.parameters(), lr=options.lr)
    script = {"next_batch": starter.next_batch, "train_step": starter.train_step}
    options.wait, options.warmup, options.active = 1, 1, 2
    loop = functools.partial(starter.train_steps, model, optimizer, corpus, options, script)
    profiled_losses = starter.profile_steps(loop, options, tmp_path / "trace.json")
    assert [loss.item() for loss in profiled_losses] == [loss for _, loss in logged_losses(plain)]


# ---------------------------------------------------------------------------------------------------------- patients
@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[Event]]]:
    """Output and trace of the healthy run and of the three patients, with the model on the page."""
    folder = tmp_path_factory.mktemp("patients")
    results = {"healthy": profiled(folder)}
    for name in ("patient_a", "patient_b", "patient_c"):
        results[name] = profiled(folder, "--script", f"{name}.py")
    return results


@pytest.mark.real
@pytest.mark.parametrize("name", ["patient_a", "patient_b", "patient_c"])
def test_a_patient_has_the_expected_diagnosis_and_the_healthy_losses(name: str, runs: Any, tmp_path: Path) -> None:
    text, events = runs[name]
    assert losses(text) == pytest.approx(losses(runs["healthy"][0]), abs=1e-4)
    for _ in range(2):  # on a busy machine, tiny operations may have been interrupted: profile again
        if reference.diagnose(events, 0) != reference.patients()[name]:
            _, events = profiled(tmp_path, "--script", f"{name}.py")
    assert reference.diagnose(events, 0) == reference.patients()[name]


@pytest.mark.real
def test_the_healthy_run_has_no_diagnosis(runs: Any) -> None:
    _, events = runs["healthy"]
    assert reference.diagnose(events, 0) == "none of these"
    assert calls(events, "aten::_local_scalar_dense") == 27


@pytest.mark.real
def test_each_patient_has_its_own_symptom_only(runs: Any) -> None:
    fractions = {name: starter.account(events)[1] for name, (_, events) in runs.items()}
    assert max(fractions["patient_c"], key=lambda phase: fractions["patient_c"][phase]) == "data"
    assert fractions["patient_a"]["idle"] == max(phases["idle"] for phases in fractions.values())
    reads = {name: calls(events, "aten::_local_scalar_dense") for name, (_, events) in runs.items()}
    assert reads == {"healthy": 27, "patient_a": 162, "patient_b": 27, "patient_c": 27}
    operations = {name: calls(events, "aten::") for name, (_, events) in runs.items()}
    assert operations["patient_b"] > 10 * operations["healthy"]
    assert max(operations["patient_a"], operations["patient_c"]) < 2 * operations["healthy"]


# -------------------------------------------------------------------------------------------------------------- errors
BAD_OPTIONS = [
    (["--step", "5"], "unknown option --step"),
    (["--active", "0"], "--active: '0' must be a whole number of at least 1"),
    (["--warmup", "-1"], "--warmup: '-1' must be a whole number of at least 0"),
    (["--peak-flops", "0"], "--peak-flops: '0' must be a number above 0"),
    (["--hidden-dim", "130"], "hidden_dim 130 does not divide into 4 attention heads"),
    (["--batch-size", "1000000000"], "out of memory: this would need about"),
    (["--corpus", "none.txt"], "corpus none.txt does not exist"),
    (["--block-size", "1000000"], "too short for one sequence of 1000000"),
    (["--device", "cuda:99"], "device cuda:99 is not there"),
    (["--script", "none.py"], "script none.py does not exist: name a Python file that defines next_batch or"),
    (["--script", "broken.py"], "script broken.py cannot be used (SyntaxError"),
    (["--script", "empty.py"], "script empty.py defines neither next_batch nor train_step"),
    (["--script", "leaves.py"], "script leaves.py cannot be used (SystemExit: 3)"),
    (["--script", "no_function.py"], "script no_function.py: train_step is no function"),
    (
        ["--script", "other_parameters.py"],
        "script other_parameters.py: train_step(model, x) cannot be called as it is here, as "
        "train_step(model, optimizer, x, y, phase)",
    ),
    (["--out", "empty.py"], "cannot write to empty.py"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_OPTIONS, ids=lambda value: str(value)[:40])
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("def train_step(:\n")
    Path("empty.py").write_text("x = 1\n")
    Path("leaves.py").write_text("raise SystemExit(3)\n")
    Path("no_function.py").write_text("train_step = 3\n")
    Path("other_parameters.py").write_text("def train_step(model, x):\n    return 0.0\n")
    before = set(tmp_path.iterdir())
    assert message in fails(arguments, capsys)
    assert set(tmp_path.iterdir()) == before


def test_ctrl_c_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(starter, "train_step", interrupted)
    assert starter.main([*TINY, *CPU, "--out", str(tmp_path)]) == 130
    assert "Stopped by Ctrl-C" in capsys.readouterr().err


@pytest.mark.prove
def test_a_run_changes_no_file_of_another_run(tmp_path: Path) -> None:
    profiled(tmp_path, *TINY)
    before = {file: file.read_bytes() for file in (tmp_path / "runs" / "lab-06-001").iterdir()}
    profiled(tmp_path, *TINY)
    assert {file: file.read_bytes() for file in before} == before
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_watching_layers_leaves_no_hook_even_after_an_error() -> None:
    layers = [torch.nn.Linear(3, 3) for _ in range(4)]
    outputs, gradients = starter.watch_layers(layers, lambda: torch.nn.Sequential(*layers)(torch.ones(2, 3)).sum())
    assert len(outputs) == len(gradients) == 4
    assert gradients[-1] == pytest.approx(1.0), "the sum's gradient along the last output is 1"

    def fails_in_forward() -> torch.Tensor:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        starter.watch_layers(layers, fails_in_forward)
    assert [len(layer._forward_hooks) for layer in layers] == [0, 0, 0, 0]


@pytest.mark.prove
def test_a_script_may_return_the_loss_as_a_number(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("def train_step(model, optimizer, x, y, phase):\n    return 2.5\n")
    text, _ = profiled(tmp_path, *TINY, "--script", str(script))
    assert losses(text) == [2.5, 2.5]


def test_the_fractions_of_the_timeline_exclude_the_time_between_steps() -> None:
    spans = [("ProfilerStep#3", 0, 100), ("data", 0, 10), ("forward", 10, 30), ("backward", 40, 50)]
    spans += [("ProfilerStep#4", 180, 100), ("data", 180, 10), ("forward", 190, 30), ("backward", 220, 50)]
    events = [
        {"ph": "X", "cat": "user_annotation", "name": name, "ts": start, "dur": duration, "tid": 1}
        for name, start, duration in spans
    ]
    texts = [float(text.get_text()) for text in plot_timeline(events).axes[0].texts]
    assert texts == [0.1, 0.3, 0.5, 0.0, 0.1]


def test_labels_of_layers_are_whole_numbers() -> None:
    figure = plot_by_depth({"output": [1.0, 2.0, 3.0, 4.0]}, "size")
    figure.canvas.draw()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels() if "." in label.get_text()] == []


def test_the_trace_of_a_gpu_gives_its_busy_fraction() -> None:
    def event(name: str, cat: str, start: float, duration: float) -> Event:
        return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": duration, "tid": 1}

    steps = [event("ProfilerStep#3", "user_annotation", 0, 100), event("ProfilerStep#4", "user_annotation", 100, 100)]
    assert device_busy(steps) is None
    kernels = [
        event("gemm", "kernel", 10, 40),
        event("copy", "gpu_memcpy", 30, 40),  # on another stream, half of it overlaps
        event("fill", "gpu_memset", 120, 10),
        event("late", "kernel", 500, 50),  # outside the steps
    ]
    assert device_busy([*steps, *kernels]) == pytest.approx((60 + 10) / 200)
    phases = [event("forward", "user_annotation", 5, 80), event("backward", "user_annotation", 110, 60)]
    rows = plot_timeline([*steps, *phases, *kernels]).axes[0].get_yticklabels()
    assert [label.get_text() for label in rows] == [*starter.PHASES, "idle", "operations", "GPU kernels"]
