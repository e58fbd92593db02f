"""Starter of Lab 01: its command line, its output and its files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from starters import LONG_S

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.ledger.activations import kept_tensors
from rankzero.ledger.ledger import Kind
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.predict import kv_cache_row, predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

LAB = find_lab("01")
starter = LAB.import_starter()
SMALL_MODEL = ["--layers", "2", "--heads", "2", "--hidden-dim", "32", "--vocab-size", "50", "--seq-len", "16"]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert starter.main(list(arguments)) == 0
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> str:
    """Runs the starter, which must end with exit code 2 and leave no files, and returns its sentence on stderr."""
    with pytest.raises(SystemExit) as stopped:
        starter.main([*arguments, "--out", str(folder / "runs")])
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert not (folder / "runs").exists()
    return printed.err


def test_the_documented_command_works_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, str(LAB.starter), "--batch-size", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "124,337,664 parameters" in done.stdout
    picture = tmp_path / "runs" / "lab-01-001" / "ledger.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("device", ["fake", "cpu"])
def test_every_kind_agrees_on_fake_and_on_real_tensors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, device: str
) -> None:
    printed = output(capsys, *SMALL_MODEL, "--device", device, "--out", str(tmp_path))
    differences = re.findall(r"^(?:weights|gradients|optimizer|activations|KV cache).*([+-][\d,]+)$", printed, re.M)
    assert differences == ["+0"] * 5


def test_the_command_line_prints_the_published_table_of_zero(capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, "--parameters", "7.5e9", "--recipe", "mixed")
    rows = {line.split()[0]: [float(cell) for cell in line.split()[1:]] for line in printed.splitlines()[2:]}
    assert [round(size, 1) for size in rows["64"]] == [120.0, 31.4, 16.6, 1.9]
    assert rows["4"] == [120.0, 52.5, 41.25, 30.0]
    assert [round(size, 1) for size in rows["16"]] == [120.0, 35.6, 21.6, 7.5]
    assert [round(size, 3) for size in rows["1,024"]] == [120.0, 30.088, 15.103, 0.117]


def test_json_is_printed_and_no_files_are_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = json.loads(output(capsys, *SMALL_MODEL, "--json"))
    assert whole["predicted"]["totals"]["weights"] == whole["measured"]["totals"]["weights"] > 0
    assert list(tmp_path.iterdir()) == []
    sharded = json.loads(output(capsys, *SMALL_MODEL, "--json", "--ranks", "4", "--zero", "3"))
    assert sharded["measured"] is None
    padding = 2 * 32 * 4  # the embedding: 50 rows of 32 fp32 numbers make 4 shards of 13 rows
    assert sharded["predicted"]["totals"]["weights"] * 4 == whole["predicted"]["totals"]["weights"] + padding


def test_a_layout_that_is_only_predicted_is_marked_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recomputed = output(capsys, *SMALL_MODEL, "--checkpointing", "block", "--out", str(tmp_path))
    assert "block inputs" in recomputed
    assert "only predicted" not in recomputed
    assert "only predicted" in output(capsys, *SMALL_MODEL, "--ranks", "2", "--out", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "gpt5"], "there is no preset 'gpt5': use one of gpt2, llama-2-7b"),
        (["--preset", "gpt2", "--layers", "3"], "--preset gpt2 has its own sizes: leave out --layers"),
        (["--heads", "5"], "hidden_dim 768 does not divide into 5 attention heads"),
        (["--layers", "0"], "--layers: '0' must be a whole number of at least 1"),
        (["--recipe", "fp8"], "--recipe: invalid choice: 'fp8' (choose from"),
        (["--ranks", "999999999999"], "999,999,999,999 ranks are more than the model's 124,337,664 parameters"),
        (["--parameters", "10", "--ranks", "64"], "64 ranks are more than 10 parameters"),
        (["--preset", "gpt2", "--seq-len", "2000"], "sequences of 2000 tokens: this model takes 1 to 1024"),
        (["--preset", "llama-3-70b", "--device", "cpu"], "out of memory: this would need about"),
        (["--tensor-ranks", "5"], "5 tensor ranks cannot share 12 heads"),
        (["--batchsize", "3"], "unknown option --batchsize: did you mean --batch-size?"),
    ],
)
def test_impossible_sizes_get_one_sentence_before_any_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    assert sentence in fails(capsys, tmp_path, *arguments)


def test_help_names_every_option_and_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        starter.main(["--help"])
    assert stopped.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("--preset", "llama-3-70b", "--batch-size", "--seq-len", "--recipe", "--json", *RECIPES, *OPTIMIZERS):
        assert word in text


# ------------------------------------------------------------------------- the reference answers agree with the library
@pytest.mark.parametrize("layers", [2, 12])
def test_the_reference_answers_agree_with_the_ledger(layers: int) -> None:
    reference = load(LAB.reference)
    config = PRESETS["gpt2"]
    count = reference.parameter_count(config.vocab_size, config.block_size, config.n_layer, config.hidden_dim, True)
    assert count == parameter_count(config)
    tensors = 3 + 6 * config.n_layer
    for recipe in ("fp32", "mixed", "mixed-fp32-accum", "bf16"):
        for optimizer in ("sgd", "momentum", "adamw"):
            ledger = predict(config, RECIPES[recipe], OPTIMIZERS[optimizer], batch_size=1, seq_len=layers)
            states = reference.state_bytes(count, tensors, recipe, optimizer)
            assert [*states.values()] == [ledger.total(kind) for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)]
    block = sum(saved.count * saved.size for saved in kept_tensors(config, RECIPES["bf16"]) if saved.where == "block")
    assert reference.activation_bytes(3, 64, config.hidden_dim, config.n_head, 2, True) == 3 * 64 * block
    cache = kv_cache_row(PRESETS["llama-3-8b"], 5, 100, 2).bytes
    assert reference.kv_cache_bytes(32, 32, 8, 4096, 5, 100, 2) == cache
