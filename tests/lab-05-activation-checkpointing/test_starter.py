"""Starter of Lab 05 and its chart of policies."""

import importlib.util
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from matplotlib.backends.backend_agg import FigureCanvasAgg
from starters import TINY, Starter, losses

from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.profiling.memory import PhaseMemory

LAB05 = Starter("05")
LAB, starter = LAB05.lab, LAB05.module
train, fails = LAB05.train, LAB05.fails
POLICIES = ("none", "blocks", "sqrt", "selective")
SMALL = GPTConfig(vocab_size=11, block_size=8, n_layer=4, n_head=2, hidden_dim=16, dropout=0.3)


def make_model(policy: str) -> Any:
    torch.manual_seed(0)
    model = starter.RecomputingGPT(SMALL)
    model.policy = policy
    return model


def loss_of(model: Any) -> torch.Tensor:
    torch.manual_seed(1)
    return F.cross_entropy(model(torch.arange(16).view(2, 8) % 11).flatten(0, 1), torch.arange(16) % 7)


def gradients(model: Any) -> list[torch.Tensor | None]:
    return [p.grad for p in model.parameters()]


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    names = ("steps", "layers", "hidden_dim", "recompute", "dropout")
    assert tuple(options[name] for name in names) == (100, 9, 64, "blocks", 0.1)


@pytest.mark.parametrize("corpus", [pytest.param("embedded", marks=pytest.mark.prove), "text.txt"])
def test_every_policy_has_the_same_losses_and_the_run_prints_the_equality(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corpus: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be, that is the question\n" * 20)
    shape = ["--steps", "6", "--layers", "4", "--dropout", "0.3", "--corpus", corpus]
    runs = {policy: losses(train(tmp_path, *shape, "--recompute", policy)) for policy in POLICIES}
    assert all(logged == runs["none"] for logged in runs.values()), "every loss, bit for bit"
    differences = re.findall(r"^equal .*: (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert differences == ["blocks 0, sqrt 0, selective 0"] * 4


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_gradients_are_equal_with_and_without_frozen_embeddings(policy: str) -> None:
    for frozen in (False, True):
        plain, recomputing = make_model("none"), make_model(policy)
        for model in (plain, recomputing):
            model.token_embedding.requires_grad_(not frozen)
            model.position_embedding.requires_grad_(not frozen)
            loss_of(model).backward()
        for expected, gradient in zip(gradients(plain), gradients(recomputing), strict=True):
            assert (gradient is None) == (expected is None)
            assert gradient is None or expected is None or torch.equal(gradient, expected)


def test_random_numbers_after_a_step_are_the_same_for_every_policy() -> None:
    drawn = set()
    for policy in POLICIES:
        model = make_model(policy)
        loss = loss_of(model)
        first = torch.rand(1).item()
        loss.backward()
        drawn.add((first, torch.rand(1).item()))
    assert len(drawn) == 1


def test_policies_keep_the_expected_activations() -> None:
    kept, peaks = {}, {}
    for policy in POLICIES:
        model = make_model(policy)
        with PhaseMemory(model, torch.optim.SGD(model.parameters()), torch.device("cpu")) as memory:
            loss = loss_of(model)
            memory.record("forward")
            loss.backward()
            memory.record("backward")
        kept[policy], peaks[policy] = memory.rows[0].activations, memory.peak_activations
        assert memory.rows[1].activations == 0
    assert kept["sqrt"] < kept["blocks"] < kept["selective"] < kept["none"]
    assert kept["blocks"] - kept["sqrt"] == 2 * (2 * 8 * 16 * 4), "4 inputs or 2"
    assert peaks["blocks"] < peaks["sqrt"] < peaks["none"]


def test_evaluation_keeps_no_graph_and_draws_no_random_numbers() -> None:
    model = make_model("blocks").eval()
    state = torch.get_rng_state()
    with torch.no_grad():
        assert not model(torch.zeros(1, 8, dtype=torch.int64)).requires_grad
    assert torch.equal(torch.get_rng_state(), state)


def test_resume_is_exact_with_dropout_and_another_policy(tmp_path: Path) -> None:
    whole = train(tmp_path, "--steps", "20")
    half = train(tmp_path, "--steps", "10", "--recompute", "none")
    checkpoint = str(half / "checkpoint.pt")
    resumed = train(tmp_path, "--steps", "20", "--recompute", "selective", "--resume", checkpoint)
    assert losses(half) + losses(resumed) == losses(whole), "every loss, bit for bit"


@pytest.mark.prove
def test_a_run_with_the_largest_seed_trains(tmp_path: Path) -> None:
    assert len(losses(train(tmp_path, "--steps", "2", "--seed", str(10**12)))) == 2


@pytest.mark.prove
def test_a_checkpoint_keeps_its_dropout(tmp_path: Path) -> None:
    half = train(tmp_path, "--steps", "3", "--dropout", "0.4")
    assert torch.load(half / "checkpoint.pt", weights_only=True)["settings"]["dropout"] == 0.4
    whole = train(tmp_path, "--steps", "6", "--dropout", "0.4")
    resumed = train(tmp_path, "--steps", "6", "--resume", str(half / "checkpoint.pt"))
    assert losses(half) + losses(resumed) == losses(whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recompute", "all"], "--recompute: invalid choice: 'all' (choose from"),
        (["--dropout", "1"], "dropout is 1.0: it must be at least 0 and below 1"),
        (["--dropout", "nan"], "dropout is nan: it must be at least 0 and below 1"),
        (["--dropout", "much"], "--dropout: invalid float value: 'much'"),
        (["--recompte", "none"], "unknown option --recompte: did you mean --recompute?"),
        (["--resume"], "no run under runs/ has a checkpoint to resume from"),
        (["--hidden-dim", "130"], "hidden_dim 130 does not divide into 4 attention heads"),
    ],
)
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fails(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------- the chart
def chart() -> Any:
    spec = importlib.util.spec_from_file_location("compare_policies", LAB.folder / "compare_policies.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_chart_names_every_policy_with_its_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = [word for word in TINY if word not in ("--layers", "1")]
    assert chart().main([*tiny, "--layers", "4", "--repeats", "1", "--device", "cpu", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    rows = {line[:15].strip(): line[15:].split() for line in out.splitlines() if "×" in line}
    assert rows.keys() == {"none", "each block", "√n segments", "selective", "segments of 3", "segments of 4"}
    assert rows["none"][2:] == ["1.000×", "1.00×"]
    assert float(rows["each block"][1]) < float(rows["none"][1])
    assert rows["each block"][2] == rows["√n segments"][2] > rows["selective"][2]
    assert (tmp_path / "lab-05-policies-001" / "policies.png").read_bytes().startswith(b"\x89PNG")


def test_labels_of_the_chart_do_not_overlap() -> None:
    module = chart()
    places = {
        "none": 9100,
        "blocks": 860,
        "sqrt": 2330,
        "selective": 4310,
        "2": 1280,
        "8": 4550,
        "12": 6780,
        "16": 9040,
    }
    points = [module.Point(policy, 1, peak << 10, 100, [1.0]) for policy, peak in places.items()]
    figure = module.draw(points, "16 blocks")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = [*figure.axes[0].texts, *figure.legends[0].get_texts()]
    boxes = [(label.get_text(), label.get_window_extent(canvas.get_renderer())) for label in labels]
    pairs = combinations(boxes, 2)
    assert not [(first, second) for (first, box), (second, other_box) in pairs if box.overlaps(other_box)]


def test_a_bad_option_of_the_chart_gets_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--repeats", "0"], "--repeats: '0' must be a whole number of at least 1"),
        (["--dropout", "2"], "dropout is 2.0"),
        (["--corpus", "none.txt"], "corpus none.txt does not exist"),
    ):
        with pytest.raises(SystemExit) as stopped:
            chart().main([*arguments, "--out", str(tmp_path / "runs")])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
