"""Argument notes: a failure names an argument that was changed, or an iterator that was read after its end."""

from pathlib import Path

import pytest

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.runner import check_file
from rankzero.exercises.probes.argument_notes import note_text


def failures(client: LocalProbeClient, folder: Path, lab: str, name: str, old: str, new: str) -> list[str]:
    """Returns the texts of the failed checks of exercise `name`, with `old` replaced by `new` in the reference."""
    curriculum_lab = find_lab(lab)
    source = curriculum_lab.reference.read_text()
    assert old in source
    file = folder / "exercises.py"
    file.write_text(source.replace(old, new, 1))
    client.forget(file)
    chosen = tuple(exercise for exercise in exercises_of(curriculum_lab) if exercise.name == name)
    report = check_file(curriculum_lab, file, chosen, seed=3, client=client, explain=False)
    return [result.text for result in report.results if result.status not in ("pass", "skipped")]


def test_an_iterator_that_was_read_twice_is_named(client: LocalProbeClient, tmp_path: Path) -> None:
    old = "    closed: list[list[nn.Parameter]] = []\n"
    texts = failures(client, tmp_path, "07", "make_buckets", old, f"    print(len(list(parameters)))\n{old}")
    assert "make_buckets read the iterator `parameters` again after its end" in texts[0]


@pytest.mark.parametrize(("statement", "named"), [("y += 0", True), ("y = y + 0", False)])
def test_a_changed_argument_is_named(client: LocalProbeClient, tmp_path: Path, statement: str, named: bool) -> None:
    old = "    loss = F.cross"
    texts = failures(client, tmp_path, "02", "train_step", old, f"    {statement}\n    loss = 1.5 * F.cross")
    assert texts
    assert ("train_step changed its argument `y`, which is the caller's." in texts[0]) is named


def test_what_the_reference_changes_too_is_not_named(client: LocalProbeClient, tmp_path: Path) -> None:
    texts = failures(client, tmp_path, "08", "clip", "gradient.mul_(max_norm / norm)", "gradient.mul_(2)")
    assert texts
    assert "changed its argument" not in " ".join(texts)


def test_a_forged_note_is_left_out() -> None:
    assert note_text(frozenset({"f x changed", "f <b> changed", "f x praised", "x" * 10**5})) == (
        " f changed its argument `x`, which is the caller's."
    )
