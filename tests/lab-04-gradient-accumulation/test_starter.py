"""Starter of Lab 04: micro-batches give the gradient of the whole batch, and the losses of Lab 02."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from starters import TINY, Starter, losses
from torch import Tensor, nn
from torch.optim import SGD

from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory
from rankzero.learn.runs.plots import read_log

LAB02, LAB04 = Starter("02"), Starter("04")
starter, train, fails = LAB04.module, LAB04.train, LAB04.fails
TWELVE = ("--batch-size", "12")


def make(seed: int = 0) -> tuple[GPT, Tensor, Tensor]:
    """Returns a tiny float64 GPT and a batch of 12 sequences."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(24, block_size=8, n_layer=2, n_head=2, hidden_dim=16)).double()
    x, y = torch.randint(24, (2, 12, 8))
    return model, x, y


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


# ----------------------------------------------------------------------------------------------------------- equality
@pytest.mark.parametrize("micro_batch", [1, 2, 4, 5, 7, 11])
@pytest.mark.parametrize("seed", [0, 1])
def test_micro_batches_give_the_gradient_of_the_whole_batch(micro_batch: int, seed: int) -> None:
    model, x, y = make(seed)
    optimizer = SGD(model.parameters(), lr=0.0)
    whole_loss, whole_norm = starter.train_step(model, optimizer, x, y, 12)
    whole = flat(model).clone()
    loss, norm = starter.train_step(model, optimizer, x, y, micro_batch)
    assert (flat(model) - whole).abs().max() <= 1e-12 * whole.abs().max()
    assert loss.item() == pytest.approx(whole_loss.item(), rel=1e-6)  # the logged loss is summed in float32
    assert norm.item() == pytest.approx(whole_norm.item(), rel=1e-12)
    assert norm.item() == pytest.approx(whole.norm().item(), rel=1e-12)


def test_a_step_agrees_with_lab_02s_step() -> None:
    (model02, x, y), (model04, _, _) = make(), make()
    loss = LAB02.module.train_step(model02, SGD(model02.parameters(), lr=0.5), x, y)
    accumulated, _ = starter.train_step(model04, SGD(model04.parameters(), lr=0.5), x, y, 5)
    assert accumulated.item() == pytest.approx(loss.item(), rel=1e-6)
    for parameter, expected in zip(model04.parameters(), model02.parameters(), strict=True):
        assert torch.allclose(parameter, expected, rtol=1e-12, atol=1e-14)


def test_the_gradient_is_clipped_once_and_the_norm_before_clipping_is_returned() -> None:
    model, x, y = make()
    _, norm = starter.train_step(model, SGD(model.parameters(), lr=0.0), x, y, 4)
    whole = flat(model).clone()
    _, norm_with_clipping = starter.train_step(model, SGD(model.parameters(), lr=0.0), x, y, 4, norm.item() / 3)
    assert norm_with_clipping.item() == pytest.approx(norm.item(), rel=1e-12)
    assert torch.allclose(flat(model), whole / 3, rtol=1e-5)  # torch's clipping adds 1e-6 to the norm
    starter.train_step(model, SGD(model.parameters(), lr=0.0), x, y, 4, 100 * norm.item())
    assert torch.allclose(flat(model), whole, rtol=1e-12), "a limit above the norm changes no gradient"


def test_only_the_activations_of_one_micro_batch_are_held() -> None:
    model, x, y = make()
    optimizer = SGD(model.parameters(), lr=0.0)

    def peak(micro_batch: int) -> int:
        with PhaseMemory(model, optimizer, torch.device("cpu")) as memory:
            starter.train_step(model, optimizer, x, y, micro_batch, after=memory.record)
        return max(row.activations for row in memory.rows)

    # A micro-batch's ids are views, which keep the whole batch's ids in memory; the positions also stay.
    ids = 2 * 8 * 12 * 8 + 8 * 8 + 8
    assert peak(4) - ids == pytest.approx((peak(12) - ids) / 3, rel=1e-3)


@pytest.mark.prove
# ----------------------------------------------------------------------------------------------------------------- run
def test_micro_batches_do_not_change_the_losses(tmp_path: Path) -> None:
    whole, parts, ragged = (
        [loss for _, loss in losses(train(tmp_path, *TWELVE, "--steps", "20", "--micro-batch", size))]
        for size in ("12", "4", "5")
    )
    assert parts == pytest.approx(whole, abs=5e-4)
    assert ragged == pytest.approx(whole, abs=5e-4)


def test_the_losses_are_those_of_lab_02(tmp_path: Path) -> None:
    losses02 = losses(LAB02.train(tmp_path / "02", *TWELVE, "--steps", "20"))
    losses04 = losses(train(tmp_path / "04", *TWELVE, "--steps", "20"))
    assert [loss for _, loss in losses04] == pytest.approx([loss for _, loss in losses02], abs=5e-4)


def test_the_run_prints_the_equality_before_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 40)
    train(tmp_path, *TWELVE, "--steps", "1", "--micro-batch", "5", "--corpus", str(text))
    out = capsys.readouterr().out
    assert "batch 12 = 2 x 5 + 2, into" in out
    assert "equal within 1e-12 in float64" in out
    assert "NOT EQUAL" not in out
    (float64,) = re.findall(r"^float64 +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)$", out, re.MULTILINE)
    assert float(float64[2]) < 1e-12
    assert float(float64[4]) < 0.6 * float(float64[3]), "the micro-batch holds 5 of 12 sequences' activations"
    table = out[out.index("MiB after") :]
    assert [line.split()[0] for line in table.splitlines()[1:8]] == ["forward", "backward"] * 3 + ["update"]


def test_the_comparison_uses_the_gradient_of_train_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, y = make()

    def undivided(model: nn.Module, optimizer: SGD, x: Tensor, y: Tensor, micro_batch: int, **options: object) -> None:
        optimizer.zero_grad()
        for micro_x, micro_y in zip(x.split(micro_batch), y.split(micro_batch), strict=True):
            nn.functional.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()).backward()
        options["after"]("backward")  # type: ignore[operator]
        optimizer.step()

    assert "NOT EQUAL" not in starter.compare_gradients(model, x, y, 4)
    monkeypatch.setattr(starter, "train_step", undivided)
    assert "NOT EQUAL" in starter.compare_gradients(model, x, y, 4)


@pytest.mark.parametrize("steps", [0, 3])
def test_a_step_with_no_update_or_several_is_not_equal(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    model, x, y = make()
    right = starter.train_step

    def changed(model: nn.Module, optimizer: SGD, x: Tensor, y: Tensor, micro_batch: int, **options: object) -> None:
        for _ in range(1 if micro_batch == len(x) else steps):
            right(model, optimizer, x, y, len(x), **options)
        options["after"]("update")  # type: ignore[operator]

    monkeypatch.setattr(starter, "train_step", changed)
    assert "NOT EQUAL" in starter.compare_gradients(model, x, y, 4)


def test_the_comparison_changes_no_weight_gradient_or_dtype() -> None:
    model, x, y = make()
    before = [p.detach().clone() for p in model.parameters()]
    starter.compare_gradients(model, x, y, 4)
    assert all(torch.equal(p, old) and p.grad is None for p, old in zip(model.parameters(), before, strict=True))
    assert next(model.parameters()).dtype == torch.float64


def test_the_equality_also_holds_on_the_embedded_text() -> None:
    corpus = load_corpus("embedded")
    torch.manual_seed(0)
    model = GPT(GPTConfig(corpus.vocab_size, block_size=16, n_layer=1, n_head=2, hidden_dim=32))
    x, y = random_batch(corpus.train, step=0, seed=0, batch_size=12, block_size=16)
    assert starter.compare_gradients(model, x, y, 4).endswith("the order of additions differs")
    assert "NOT EQUAL" not in starter.compare_gradients(model, x, y, 5)


@pytest.mark.prove
def test_norms_are_logged_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train(tmp_path, *TWELVE, "--steps", "3")
    norms = [event["grad_norm"] for event in read_log(folder / "log.jsonl")["step"]]
    assert len(norms) == 3
    assert all(norm > 0 for norm in norms)
    assert f"  grad norm {norms[0]:.3f}  " in capsys.readouterr().out


@pytest.mark.prove
def test_a_batch_too_large_for_the_comparison_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = starter.check_fits

    def check_fits(needed: int, device: torch.device, *first: str) -> None:
        fits(needed if needed < 10**7 else 10**18, device, *first)

    monkeypatch.setattr(starter, "check_fits", check_fits)
    folder = train(tmp_path, "--batch-size", "128", "--steps", "2")
    assert "The whole batch would not fit, so there is nothing to compare with." in capsys.readouterr().out
    assert len(losses(folder)) == 2


def test_out_of_memory_gets_one_sentence_that_names_the_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train_step(*arguments: object, **options: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(starter, "train_step", train_step)
    with pytest.raises(SystemExit):
        starter.main(["--out", str(tmp_path), "--steps", "1", *TINY, *TWELVE])
    assert "out of memory: use a smaller --micro-batch, --batch-size, --block-size," in capsys.readouterr().err


def test_resume_is_exact_and_keeps_micro_batch_and_clip(tmp_path: Path) -> None:
    options = ("--micro-batch", "3", "--clip", "0.5")
    whole = train(tmp_path, "--steps", "12", *options)
    half = train(tmp_path, "--steps", "6", *options)
    resumed = train(tmp_path, "--steps", "12", "--resume", str(half / "checkpoint.pt"))
    assert losses(half) + losses(resumed) == losses(whole), "every loss, bit for bit"
    (facts,) = read_log(resumed / "log.jsonl")["run"]
    assert (facts["settings"]["micro_batch"], facts["settings"]["clip"]) == (3, 0.5)


@pytest.mark.prove
def test_the_documented_default_works_from_any_folder(tmp_path: Path) -> None:
    done = LAB04.run("--steps", "2", *TINY, *TWELVE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "lab-04-001"
    assert {file.name for file in folder.iterdir()} == {"log.jsonl", "curves.png", "checkpoint.pt"}


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    names = ("steps", "batch_size", "micro_batch", "clip", "eval_every")
    assert [options[name] for name in names] == [200, 12, 4, 0.0, 100]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--micro-batch", "0"], "--micro-batch: '0' must be a whole number of at least 1"),
        (["--micro-batch", "13"], "--micro-batch 13 is more than --batch-size 12: use --micro-batch 12 or less"),
        (["--batch-size", "2"], "--micro-batch 4 is more than --batch-size 2: use --micro-batch 2 or less"),
        (["--clip", "-1"], "--clip: '-1' must be a number of at least 0"),
        (["--clip", "nan"], "--clip: 'nan' must be a number of at least 0"),
        (["--microbatch", "4"], "unknown option --microbatch: did you mean --micro-batch?"),
        (["--batch-size", "1000000000", "--micro-batch", "1"], "out of memory: this would need about"),
        (["--batch-size", "1000000000", "--micro-batch", "1000000000"], "use a smaller --micro-batch, --batch-size,"),
        (["--resume", "other.pt"], "checkpoint other.pt was not written by this lab"),
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
    torch.save({"weights": torch.zeros(2)}, "other.pt")
    assert message in fails(arguments, capsys)
    assert [file.name for file in tmp_path.iterdir()] == ["other.pt"]


@pytest.mark.prove
def test_lab_02s_checkpoint_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = LAB02.train(tmp_path, "--steps", "2") / "checkpoint.pt"
    capsys.readouterr()
    assert "was not written by this lab" in fails(["--resume", str(checkpoint), "--steps", "4"], capsys)


def test_break_it_is_a_patch_of_this_starter(tmp_path: Path) -> None:
    target = tmp_path / LAB04.lab.starter.relative_to(LAB04.lab.root)
    target.parent.mkdir(parents=True)
    target.write_text(LAB04.lab.starter.read_text())
    subprocess.run(["git", "apply", str(LAB04.lab.folder / "one-part-first.diff")], cwd=tmp_path, check=True)
    source = target.read_text()
    assert "if i % k == 0:" in source
    assert "y.numel()  # its share" not in source
