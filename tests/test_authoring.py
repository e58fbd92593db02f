"""A new lab is laid out whole or not at all, and its gates say what to write next."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rankzero.authoring import verify_lab as gates
from rankzero.authoring.new_lab import instructions, new_lab
from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.errors import UserError
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_file
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.probes.loader import load
from rankzero.figures import themes
from rankzero.figures.figure import PageFigure
from rankzero.publish.sync import pages, sync, sync_lab

NOT_STARTED = LocalProbeClient()  # for gates that run no learner's code
TABLE = "<!-- labs: by number -->\n<!-- /labs -->\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The skeleton of a repository without labs."""
    (tmp_path / "labs").mkdir()
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "training-loop.md").write_text("# Training loop\n\n## The order of the calls\n")
    (tmp_path / "README.md").write_text(TABLE)
    (tmp_path / "handbook" / "README.md").write_text(TABLE)
    return tmp_path


@pytest.fixture
def lab(root: Path) -> Lab:
    return new_lab("99", "two-words", root)[0]


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file()}


def test_a_new_lab_has_every_file_and_stands_in_the_tables(lab: Lab) -> None:
    assert (lab.slug, lab.title, lab.starter.name) == ("lab-99-two-words", "Two words", "train_two_words.py")
    assert [*gates._files(lab, NOT_STARTED)] == []
    assert [*gates._exercises(lab, NOT_STARTED)] == []
    assert [*gates._figures(lab, NOT_STARTED)] == []
    assert "raise NotImplementedError" in lab.stubs.read_text()
    assert "1. How many tokens does each loss stand for?" in lab.page.read_text()
    assert "| 99 Two words | Two words: not written yet. | draft |" in (lab.root / "README.md").read_text()


@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.number)
def test_the_diffs_of_break_it_apply(lab: Lab) -> None:
    assert [*gates._break_it(lab, NOT_STARTED)] == []


def test_a_diff_that_does_not_apply_any_more_is_named(lab: Lab) -> None:
    source = str(lab.starter.relative_to(lab.root))
    (lab.folder / "bug.diff").write_text(f"--- a/{source}\n+++ b/{source}\n@@ -1,1 +1,1 @@\n-another line\n+a bug\n")
    (failure,) = gates._break_it(lab, NOT_STARTED)
    assert failure.startswith(f"code/lab-99-two-words/bug.diff does not apply (patch failed: {source}:1): ")


def test_a_new_lab_is_a_draft_until_its_line_is_removed(lab: Lab) -> None:
    assert lab.draft
    assert (all_labs(lab.root), all_labs(lab.root, drafts=True)) == ([], [lab])
    assert lab.page not in pages(lab.root)
    manifest = lab.folder / "lab.toml"
    manifest.write_text(manifest.read_text().replace("draft = true\n", ""))
    (finished,) = all_labs(lab.root)
    assert finished.page in pages(lab.root)
    sync_lab(finished, executed=False)
    assert "[99 Two words](labs/lab-99-two-words.md)" in (lab.root / "README.md").read_text()


def test_make_sync_writes_a_drafts_files_and_its_check_leaves_them_out(lab: Lab) -> None:
    lab.stubs.write_text("stale")
    changed = list(sync(lab.root, check=True))
    assert lab.stubs not in changed
    assert lab.stubs in list(sync_lab(lab, check=True, executed=False))


def test_a_new_labs_reference_passes_and_its_known_wrong_solutions_do_not(lab: Lab) -> None:
    def fails(file: Path) -> set[str]:
        expected, got = load(lab.reference), load(file)
        probes = load(lab.probes)
        return {
            check.name
            for exercise in exercises_of(lab)
            for check in exercise.checks
            if check.judge(getattr(probes, check.probe)(got, 1), getattr(probes, check.probe)(expected, 1))
        }

    assert fails(lab.reference) == set()
    for wrong in known_wrong(lab).values():
        assert fails(wrong_file(lab, wrong)) == set(wrong.fails)


def test_a_new_labs_starter_and_claims_run(lab: Lab, tmp_path: Path) -> None:
    size = ("--hidden-dim", "8", "--layers", "1", "--heads", "2", "--block-size", "8", "--batch-size", "2")
    assert load(lab.starter).main([*size, "--steps", "2", "--out", str(tmp_path / "runs")]) == 0
    assert (tmp_path / "runs" / "lab-99-001" / "log.jsonl").exists()
    compile(lab.claims.read_text(), lab.claims, "exec")


def test_a_new_labs_figures_stand_on_its_page_and_can_be_drawn(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankzero.figures.figure.ROOT", lab.root)
    drawn = [value for value in vars(load(lab.figures)).values() if isinstance(value, PageFigure)]
    assert re.findall("<!-- figure: (.*) -->", lab.page.read_text()) == [figure.name for figure in drawn]
    assert all(themes.light(figure).startswith("<svg") for figure in drawn)


def test_a_new_labs_python_is_in_style(lab: Lab) -> None:
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(lab.root)]
        assert subprocess.run(ruff, capture_output=True, text=True, check=False).stdout == ""


def test_the_next_thing_to_write_is_said_with_file_and_line(lab: Lab) -> None:
    first, *others = gates._instructions(lab, NOT_STARTED)
    assert first.startswith(
        "code/lab-99-two-words/lab.toml, line 1: write title, part, one sentence of what the reader"
    )
    assert {file for file, _, _ in instructions(lab)} >= {lab.page, lab.checks, lab.known_wrong}
    manifest = lab.folder / "lab.toml"
    manifest.write_text("".join(line for line in manifest.open() if "# write:" not in line))
    assert "train_two_words.py, line 1: write in this file" in next(gates._instructions(lab, NOT_STARTED))
    assert len([*gates._instructions(lab, NOT_STARTED)]) == len(others) - 2


@pytest.mark.parametrize(
    ("gate", "file", "old", "new", "sentence"),
    [
        ("_files", "page", "## Break It", "## Broken", "the heading '## Break It' is missing"),
        ("_files", "page", "## Further Reading", "", "the heading '## Further Reading' is missing"),
        (
            "_figures",
            "page",
            "<!-- figure: lab-99-step -->",
            "",
            "-two-words.md has 1 of the 2 figures that a page",
        ),
        ("_figures", "page", "## Concept Goal", "## A\n\n## B", "has no figure before its section 'B'"),
        ("_figures", "page", "## Concept Goal", "## 1\n\n## 2", "words/figures.py: see 'Add a figure' in CONTRIBUTING"),
        ("_exercises", "page", "<!-- hints: mean_loss -->", "", "add the lines <!-- hints: mean_loss --> and"),
        ("_exercises", "checks", '"How many tokens does each loss stand for?",', "", "has 1 hints: write two or more"),
        (
            "_exercises",
            "checks",
            '"mean_loss/equal"',
            '"mean_loss/weighted"',
            "two checks are named mean_loss",
        ),
        ("_exercises", "known_wrong", "loop.md#the-order", "loop.md#an-order", "there is no heading handbook/training"),
        ("_generated", "reference", "nats per token, a", "nats, a", "exercises.py differs from its source: run `make"),
    ],
)
def test_each_gate_says_what_to_correct(lab: Lab, gate: str, file: str, old: str, new: str, sentence: str) -> None:
    path: Path = getattr(lab, file)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    exercises_of.cache_clear()
    known_wrong.cache_clear()
    failures = [*getattr(gates, gate)(lab, NOT_STARTED)]
    assert any(sentence in failure for failure in failures), failures


def test_the_gate_of_mine_names_a_function_that_is_missing(lab: Lab) -> None:
    assert [*gates._mine(lab, NOT_STARTED)] == []
    text = lab.mine.read_text()
    lab.mine.write_text(text.replace('"mean_loss"', '"median_loss"'))
    with pytest.raises(UserError, match=r"mine.py: median_loss in USES is no function of an exercise"):
        next(gates._mine(lab, NOT_STARTED))
    lab.mine.write_text(text.replace("return {}", 'return {"step": print}'))
    with pytest.raises(UserError, match=r"train_two_words.py has no step to replace"):
        next(gates._mine(lab, NOT_STARTED))


def test_the_gates_of_answers_name_the_check(lab: Lab) -> None:
    """A check that accepts a mistake, one that loses points for a right answer, and a stub that is not up to date."""
    checks = lab.checks.read_text()
    lab.checks.write_text(checks.replace('judge=number_equals("mean", "the mean loss"),', "judge=all_of(),"))
    lab.stubs.write_text(lab.stubs.read_text().replace("def mean_loss", "def mean_los"))
    lab.known_wrong.write_text(lab.known_wrong.read_text().replace('("mean_loss/weighted",)', '("mean_loss/equal",)'))
    right = (lab.tests / "right_answers.py").read_text()
    (lab.tests / "right_answers.py").write_text(right.replace("return sum(", "return -sum("))
    exercises_of.cache_clear()
    known_wrong.cache_clear()
    with LocalProbeClient() as client:
        assert [*gates._known_wrong(lab, client)] == [
            "divided_by_batches does not fail mean_loss/weighted: correct the check, or remove it from `fails`.",
            "mean_of_means does not fail mean_loss/equal: correct the check, or remove it from `fails`.",
        ]
        (right_answer,) = gates._right(lab, client)
        assert "right answer 'divides first' to mean_loss loses mean_loss/equal (" in right_answer
        assert [*gates._stub(lab, client)] == [
            "code/lab-99-two-words/exercises.py differs from its source: run `make sync`."
        ]


@pytest.mark.parametrize(
    ("number", "name", "sentence"),
    [
        ("9", "trial", "a lab's number is two digits, such as 09; it cannot be '9'"),
        ("98", "Trial_Lab", "a lab's name is lower-case words with hyphens between"),
        ("99", "trial", "lab 99 exists already, as lab-99-two-words"),
        ("98", "left-over", "left-over.md exists already: remove it or choose another name; nothing was written"),
    ],
)
def test_a_lab_that_cannot_be_made_writes_nothing(lab: Lab, number: str, name: str, sentence: str) -> None:
    (lab.root / "labs" / "lab-98-left-over.md").touch()
    before = files(lab.root)
    with pytest.raises(UserError, match=sentence):
        new_lab(number, name, lab.root)
    assert files(lab.root) == before


@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.slug)
def test_no_instruction_is_left_in_a_lab(lab: Lab) -> None:
    assert [*instructions(lab)] == []
