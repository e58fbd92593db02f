"""Starter of Lab 03. Parts that it shares with Lab 02 have their tests in Lab 02."""

import ast
import inspect
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from starters import TINY, Starter, losses
from tiers import sampled
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.runs.checkpoints import save_checkpoint
from rankzero.learn.runs.plots import read_log
from rankzero.learn.runs.training_options import learning_rate

LAB03 = Starter("03")
LAB, starter = LAB03.lab, LAB03.module
train, fails = LAB03.train, LAB03.fails
ROW = re.compile(r"^(fp32|bf16|fp16) +([\d.]+)% +([\d.]+) +([\d.]+) +([\d,]+) of ([\d,]+)$", re.MULTILINE)


def format_rows(printed: str) -> dict[str, tuple[float, float, float, int]]:
    """Returns, by format: lost share in percent, error without and with the scale, gradients that the scale changed."""
    return {
        name: (float(lost), float(plain), float(scaled), int(changed.replace(",", "")))
        for name, lost, plain, scaled, changed, _ in ROW.findall(printed)
    }


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    assert (options["steps"], options["precision"], options["loss_scale"], options["growth_interval"]) == (
        250,
        "bf16",
        65536.0,
        2000,
    )


@pytest.mark.parametrize("precision", sampled(["fp32", "bf16", "fp16"], ["fp16"]))
def test_a_small_run_learns_in_each_precision(tmp_path: Path, precision: str) -> None:
    folder = train(tmp_path, "--steps", "120", "--lr", "5e-3", "--precision", precision)
    log = read_log(folder / "log.jsonl")
    assert log["step"][0]["loss"] == pytest.approx(4.56, abs=0.15)
    assert log["eval"][-1]["val_loss"] < 3.5
    (facts,) = log["run"]
    assert facts["settings"]["precision"] == precision


WORDS = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer\n" * 40


@pytest.mark.prove
@pytest.mark.parametrize("corpus", ["embedded", pytest.param("verse.txt", marks=pytest.mark.prove)])
def test_the_scale_changes_no_bit_in_fp32_and_bf16_and_restores_lost_gradients_in_fp16(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], corpus: str
) -> None:
    (tmp_path / "verse.txt").write_text(WORDS)
    text = corpus if corpus == "embedded" else str(tmp_path / corpus)
    # With a batch this large the scale changes nearly every gradient, and the error of fp16 is far from rounding.
    size = ("--hidden-dim", "64", "--layers", "2", "--block-size", "64", "--batch-size", "256")
    train(tmp_path, "--steps", "1", "--corpus", text, *size)
    rows = format_rows(capsys.readouterr().out)
    assert rows["fp32"] == (0.0, 0.0, 0.0, 0)
    assert rows["bf16"][0] == 0.0
    assert rows["bf16"][3] == 0
    lost, plain, scaled, changed = rows["fp16"]
    assert lost > 0
    assert changed > 0
    assert scaled < plain / 2
    # bf16 rounds by 2^-8 of a number at most, fp16 by 2^-11: three bits, a factor of 8.
    assert rows["bf16"][2] / scaled == pytest.approx(8, rel=0.25)


def test_a_scale_beyond_the_range_of_a_format_changes_its_gradients() -> None:
    model, x, y = small_model()
    table = starter.format_table(model, x, y, 2.0**127)
    lines = {line.split()[0]: line for line in table.splitlines()}
    assert " 0 of " not in lines["fp32"]  # 2^127 times a gradient above 2 is beyond fp32
    assert "nan" in lines["fp16"]


@pytest.mark.prove
def test_a_scale_below_one_is_printed_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, "--steps", "1", "--precision", "fp16", "--loss-scale", "0.5")
    printed = capsys.readouterr().out
    assert "changed by the scale of 0.5\n" in printed
    assert "format  fp16, loss scale 0.5\n" in printed


def small_model() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    corpus = load_corpus("embedded")
    model = starter.GPT(starter.GPTConfig(corpus.vocab_size, block_size=32, n_layer=2, hidden_dim=64))
    with torch.no_grad():
        model.token_embedding.weight.mul_(2.0**8)
    x, y = starter.random_batch(corpus.train, step=0, seed=0, batch_size=4, block_size=32)
    return model, x, y


@pytest.mark.parametrize("precision", [pytest.param("bf16", marks=pytest.mark.prove), "fp16"])
def test_resume_is_exact_in_the_middle_of_a_growth_interval(tmp_path: Path, precision: str) -> None:
    options = ("--precision", precision, "--growth-interval", "4")
    whole = train(tmp_path, "--steps", "40", *options)
    half = train(tmp_path, "--steps", "22", *options)
    resumed = train(tmp_path, "--steps", "40", "--resume", str(half / "checkpoint.pt"))
    assert losses(half) + losses(resumed) == losses(whole), "every loss, bit for bit"
    final_states = [torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (whole, resumed)]
    assert final_states[0]["scaler"] == final_states[1]["scaler"]
    assert all(torch.equal(tensor, final_states[1]["model"][name]) for name, tensor in final_states[0]["model"].items())
    if precision == "fp16":
        assert final_states[0]["scaler"]["skipped"] > 0
    else:
        assert final_states[0]["scaler"]["scale"] == 1


OVERFLOWS = ("--precision", "fp16", "--loss-scale", "1.2676506002282294e30")  # 2^100


@pytest.mark.prove
def test_a_run_whose_steps_were_all_skipped_can_be_resumed(tmp_path: Path) -> None:
    whole = train(tmp_path, "--steps", "100", *OVERFLOWS)
    half = train(tmp_path, "--steps", "3", *OVERFLOWS)
    saved = torch.load(half / "checkpoint.pt", weights_only=True)
    assert (saved["optimizer"]["state"], saved["scaler"]["skipped"]) == ({}, 3)
    resumed = train(tmp_path, "--steps", "100", "--resume", str(half / "checkpoint.pt"))
    assert losses(half) + losses(resumed) == losses(whole)
    final_states = [torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (whole, resumed)]
    assert final_states[0]["scaler"] == final_states[1]["scaler"]
    assert 3 < final_states[0]["scaler"]["skipped"] < 100


@pytest.mark.prove
def test_a_checkpoint_has_averages_if_and_only_if_there_was_an_update(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = train(tmp_path, "--steps", "3", "--precision", "fp16") / "checkpoint.pt"
    capsys.readouterr()
    saved = torch.load(checkpoint, weights_only=True)
    averages, skipped_all = saved["optimizer"], {"scaler": saved["scaler"] | {"skipped": 3}}
    no_averages = {"optimizer": averages | {"state": {}}}
    for change in (no_averages, skipped_all, no_averages | {"scaler": {"skipped": torch.ones(2)}}):
        torch.save(saved | change, checkpoint)
        assert "holds another model" in fails(["--resume", str(checkpoint), "--steps", "4"], capsys)


@pytest.mark.prove
def test_weights_gradients_and_averages_stay_fp32(tmp_path: Path) -> None:
    saved = torch.load(train(tmp_path, "--steps", "2") / "checkpoint.pt", weights_only=True)
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}
    assert {state["exp_avg"].dtype for state in saved["optimizer"]["state"].values()} == {torch.float32}


def test_an_overflow_changes_only_the_scale() -> None:
    model, x, y = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = starter.LossScaler(True, 2.0**60, 2000)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    starter.train_step(model, optimizer, x, y, torch.float16, scaler)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert not optimizer.state
    assert (scaler.scale, scaler.skipped, scaler.good_steps) == (2.0**59, 1, 0)


def test_the_scaler_has_the_scales_of_torchs_grad_scaler() -> None:
    """Both scalers get the same gradients, with overflows and growth."""
    scaler = starter.LossScaler(True, 65536.0, 3)
    torch_scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=3)
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizers = [torch.optim.SGD([weight], lr=1e-6) for weight in weights]
    for size in (1.0, 2.0, 1e36, 3.0, torch.nan, 1.0, 1.0, 1.0, 1.0, -torch.inf, 1.0, 1.0, 1.0):
        for weight in weights:
            weight.grad = torch.tensor([size, 1.0]) * scaler.scale
        torch_scaler.scale(torch.ones(1))  # creates the scale in the first step
        torch_scaler.step(optimizers[1])
        torch_scaler.update()
        finite = scaler.unscale(iter([weights[0]]))
        if finite:
            optimizers[0].step()
        scaler.update(finite)
        assert scaler.scale == torch_scaler.get_scale()
        assert torch.equal(weights[0], weights[1])


def test_backward_runs_outside_autocast() -> None:
    model, x, y = small_model()
    autocast_states: list[bool] = []

    class BackwardRecorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if "backward" in str(func):
                autocast_states.append(torch.is_autocast_enabled("cpu"))
            return func(*args, **(kwargs or {}))

    with BackwardRecorder():
        starter.train_step(
            model, torch.optim.SGD(model.parameters()), x, y, torch.bfloat16, starter.LossScaler(False, 1.0, 1)
        )
    assert autocast_states
    assert not any(autocast_states)


@pytest.mark.prove
def test_the_utilization_uses_the_peak_of_the_format_of_the_products(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peaks = {torch.float32: 1e12, torch.bfloat16: 4e12}
    monkeypatch.setattr("rankzero.learn.runs.step_meter.peak_flops", lambda device, dtype: peaks[dtype])
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        window = read_log(train(tmp_path, "--steps", "3", "--precision", precision) / "log.jsonl")["window"][-1]
        flops_per_token = window["mfu"] * peaks[dtype] / window["tokens_per_s"]
        assert flops_per_token == pytest.approx(6 * (96 * 32 + 12 * 32**2 + 3 * 32) + 12 * 32 * 16)


def body(function: Callable[..., Any]) -> str:
    """Returns the code of a function without its docstring."""
    (node,) = ast.parse(inspect.getsource(function)).body
    assert isinstance(node, ast.FunctionDef)
    return ast.unparse(ast.Module(node.body[1:], type_ignores=[]))


def test_functions_of_rankzero_learn_have_the_code_that_lab_02_explains() -> None:
    lab02 = Starter("02").module
    assert body(learning_rate) == body(lab02.learning_rate)
    assert body(save_checkpoint) == body(lab02.save_checkpoint)


BAD_OPTIONS = [
    (["--precision", "fp8"], "--precision: 'fp8' is no precision: use fp32, bf16, fp16."),
    (["--loss-scale", "1000"], "--loss-scale: '1000' must be a power of two"),
    (["--loss-scale", "0"], "--loss-scale: '0' must be a power of two"),
    (["--loss-scale", "nan"], "--loss-scale: 'nan' must be a power of two"),
    (["--loss-scale", "1e300"], "--loss-scale: '1e300' must be a power of two"),
    (["--growth-interval", "0"], "--growth-interval: '0' must be a whole number of at least 1"),
    (["--steps", "-5"], "--steps: '-5' must be a whole number of at least 1"),
    (["--resume"], "no run under runs/ has a checkpoint to resume from"),
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
    assert message in fails(arguments, capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.prove
@pytest.mark.parametrize(
    "change",
    [{"scaler": None}, {"scaler": {"scale": "x"}}, {"scaler": {"scale": None, "good_steps": 1, "skipped": 0}}],
)
def test_a_checkpoint_without_the_scalers_state_gets_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object]
) -> None:
    checkpoint = train(tmp_path, "--steps", "2", "--precision", "fp16") / "checkpoint.pt"
    torch.save(torch.load(checkpoint, weights_only=True) | change, checkpoint)
    capsys.readouterr()
    message = fails(["--resume", str(checkpoint), "--steps", "4", "--out", str(tmp_path / "more")], capsys)
    assert "has no scaler: resume from another, or start a new run" in message
    assert not (tmp_path / "more").exists()


@pytest.mark.prove
def test_a_bf16_run_can_be_resumed_in_fp16_with_a_new_scaler(tmp_path: Path) -> None:
    half = train(tmp_path, "--steps", "2")
    resumed = train(tmp_path, "--steps", "4", "--resume", str(half / "checkpoint.pt"), "--precision", "fp16")
    assert torch.load(resumed / "checkpoint.pt", weights_only=True)["scaler"]["scale"] == 65536


def test_a_checkpoint_of_lab_02_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = Starter("02").train(tmp_path, "--steps", "1") / "checkpoint.pt"
    capsys.readouterr()
    assert "was not written by this lab" in fails(["--resume", str(checkpoint)], capsys)


def test_the_bug_on_the_page_ends_in_nan(tmp_path: Path) -> None:
    (tmp_path / "code" / LAB.slug).mkdir(parents=True)
    copy = tmp_path / "code" / LAB.slug / LAB.starter.name
    copy.write_text(LAB.starter.read_text())
    subprocess.run(["git", "apply", str(LAB.folder / "update-on-inf.diff")], cwd=tmp_path, check=True)
    bug = ["--precision", "fp16", "--growth-interval", "3", "--steps", "60"]
    done = subprocess.run([sys.executable, str(copy), *TINY, *bug], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the loss became nan at step" in done.stderr


def test_ctrl_c_also_saves_the_scaler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes in step 5; Lab 02 tests a starter that gets it from another process."""
    steps: list[int] = []
    right = starter.train_step

    def interrupted(*arguments: Any, **options: Any) -> Any:
        steps.append(len(steps) + 1)
        if len(steps) == 5:
            signal.raise_signal(signal.SIGINT)
        return right(*arguments, **options)

    monkeypatch.setattr(starter, "train_step", interrupted)
    runs = tmp_path / "runs"
    assert starter.main([*TINY, "--steps", "100", "--precision", "fp16", "--out", str(runs)]) == 130
    saved = torch.load(runs / "lab-03-001" / "checkpoint.pt", weights_only=True)
    assert saved["step"] == steps[-1] == 5
    assert 0 < saved["scaler"]["good_steps"] <= 5
