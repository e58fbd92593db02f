"""Generated files equal their sources, and the machinery that makes them refuses what is malformed."""

import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.errors import UserError
from rankzero.publish import excerpts, hosted_notebooks, lab_facts, lab_tables, notebooks
from rankzero.publish.site.views.ledger_script import script, sources
from rankzero.publish.sync import sync


def test_nothing_generated_is_stale() -> None:
    assert list(sync(check=True)) == [], "run `make sync` and commit what it writes"


def test_no_page_holds_both_sides_of_a_conflict() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(file for room in ("handbook", "labs", "code") for file in (ROOT / room).rglob("*.md")),
    ]
    markers = ("<<<<<<< ", ">>>>>>> ")
    assert [
        page.name for page in pages if any(line.startswith(markers) for line in page.read_text().splitlines())
    ] == []


SITE = "code/rankzero/publish/site"
SOURCE = '''"""A module."""


@decorated
def one(x):
    a = 1
    b = 2
    return a + b


class Two:
    def method(self):
        return "deep"


def three():
    """Three."""
    return 3
'''


def fill(tmp_path: Path, spec: str) -> str:
    (tmp_path / "a.py").write_text(SOURCE)
    (tmp_path / "a.txt").write_text("$ run\nfirst\nlast\n")
    (tmp_path / "a.sbatch").write_text("# one\nsrun \\\n    two \\\n    three\n")
    (tmp_path / "a.yaml").write_text("spec:\n  one: 1 # first\n  two: 2\n")
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- excerpt: {spec} -->\nold\n<!-- /excerpt -->\nafter\n")
    return excerpts.fill(page, page.read_text(), tmp_path)


def filled(spec: str, language: str, code: str) -> str:
    return f"before\n<!-- excerpt: {spec} -->\n```{language}\n{code}\n```\n<!-- /excerpt -->\nafter\n"


@pytest.mark.parametrize(
    ("spec", "language", "code"),
    [
        ("a.py#one", "python", "@decorated\ndef one(x):\n    a = 1\n    b = 2\n    return a + b"),
        ("a.py#Two.method", "python", 'def method(self):\n    return "deep"'),
        ('a.py#one from="a = 1" to="b = 2"', "python", "a = 1\nb = 2"),
        ('a.py#one from="return"', "python", "return a + b"),
        ('a.txt to="first"', "text", "$ run\nfirst"),
        ('a.sbatch from="two" to="three"', "bash", "two \\\nthree"),
        ('a.yaml from="one" to="two"', "yaml", "one: 1 # first\ntwo: 2"),
        ("a.py#one body", "python", "a = 1\nb = 2\nreturn a + b"),
        ("a.py#three body", "python", "return 3"),
    ],
)
def test_an_excerpt_is_filled(tmp_path: Path, spec: str, language: str, code: str) -> None:
    assert fill(tmp_path, spec) == filled(spec, language, code)


def test_a_diff_shows_what_changed_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(SOURCE.replace("A module", "Another").replace("b = 2", "b = 3"))
    assert fill(tmp_path, 'a.py#one since="old.py"') == filled(
        'a.py#one since="old.py"', "diff", "     a = 1\n-    b = 3\n+    b = 2\n     return a + b"
    )
    assert fill(tmp_path, 'a.py since="old.py"').count("\n-") == 1  # the docstrings differ too, and do not show
    with pytest.raises(UserError, match="nothing changed since"):
        fill(tmp_path, 'a.py#three since="old.py"')


def test_filling_twice_changes_nothing(tmp_path: Path) -> None:
    text = fill(tmp_path, "a.py#one")
    (tmp_path / "page.md").write_text(text)
    assert excerpts.fill(tmp_path / "page.md", text, tmp_path) == text


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("b.py", r"page.md: excerpt 'b.py': .*No such file"),
        ("a.py#four", "there is no four in it"),
        ('a.py#one from="zzz"', "'zzz' is on 0 lines of it, not on one"),
        ('a.py from="return"', "'return' is on 3 lines of it, not on one"),
        ("a.py something else", "expected FILE#NAME"),
    ],
)
def test_an_excerpt_that_cannot_be_filled(tmp_path: Path, spec: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        fill(tmp_path, spec)


def test_an_excerpt_that_is_not_closed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- excerpt: a.py -->\n")
    with pytest.raises(UserError, match="not closed"):
        excerpts.fill(page, page.read_text(), tmp_path)


BOX = "<!-- lab: box -->\n| minutes | difficulty | needs |\n|---|---|---|\n| {} | a CPU |\n<!-- /lab -->\n"


def test_facts_on_a_labs_page_come_from_its_manifest_and_its_checks() -> None:
    lab = find_lab("02")
    blocks = "<!-- facts: evaluate -->\n{}<!-- /facts -->\n<!-- hints: evaluate -->\n{}<!-- /hints -->\n"
    filled = lab_facts.fill(lab, BOX.format("1 | 2") + blocks.format("old\n", ""))
    assert filled.startswith(BOX.format(f"{lab.minutes} | {lab.difficulty}"))
    assert "10 points · 20 minutes · medium · proves that your validation loss" in filled
    assert "<details><summary>Hints</summary>\n\n1. Two switches are needed" in filled
    assert "old" not in filled
    assert lab_facts.fill(lab, filled) == filled


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "<!-- facts: walk -->\n<!-- /facts -->",
            "facts 'walk': checks.py has no such exercise; it has train_step",
        ),
        ("<!-- hints: evaluate -->\n", "a comment <!-- hints: … --> is not closed by <!-- /hints -->"),
        (
            "<!-- lab: box -->\n90 minutes\n<!-- /lab -->",
            "lab 'box': expected <!-- lab: box --> and a table of one row",
        ),
    ],
)
def test_facts_that_cannot_be_filled(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        lab_facts.fill(find_lab("02"), text)


def test_the_tables_of_labs_list_existing_and_planned_labs_by_number(tmp_path: Path) -> None:
    (tmp_path / "labs").mkdir()
    planned = tmp_path / "labs" / "planned.toml"
    table = '[[lab]]\nnumber = "0{0}"\ntitle = "T{0}"\npart = "One device"\nsummary = "S"\n'
    planned.write_text(table.format(7) + table.format(9))
    folder = tmp_path / "code" / "lab-07-x"
    folder.mkdir(parents=True)
    (folder / "train.py").touch()
    manifest = 'title = "X"\npart = "One device"\nsummary = "Y."\nstarter = "train.py"\nchapters = []\nminutes = 5\n'
    (folder / "lab.toml").write_text(manifest + 'difficulty = "hard"\nneeds = ["cpu"]\n')
    page = tmp_path / "handbook" / "README.md"
    text = "<!-- labs: by number -->\n<!-- /labs -->\n<!-- labs: by part -->\n<!-- /labs -->\n"
    filled = lab_tables.fill(page, text, tmp_path)
    assert "| [07 X](../labs/lab-07-x.md) | Y. | 5 | hard |\n| 09 T9 | S | planned | |\n" in filled
    assert "| 0 · One device | [07 X](../labs/lab-07-x.md), 09 T9 |\n" in filled
    planned.write_text("[[lab]]\nnumber = 9\n")
    with pytest.raises(UserError, match=r"planned.toml: expected tables \[\[lab\]\] with number, title, part and"):
        lab_tables.fill(page, text, tmp_path)


NOTEBOOK = """# %% [markdown]
# **Predict** a number.

# %% tags=["nbval-check-output"]
guess = 6 * 7  # predict: apples

print(guess)

# %% [markdown] tags=["answer"]
# Because six sevens are forty-two.
"""


def source(tmp_path: Path, text: str = NOTEBOOK) -> Path:
    path = tmp_path / "notebook.py"
    path.write_text(text)
    return path


def test_the_learner_gets_no_answers(tmp_path: Path) -> None:
    notebook = notebooks.without_answers(source(tmp_path))
    text = nbformat.writes(notebook)
    assert [cell.source for cell in notebook.cells] == [
        "**Predict** a number.",
        hosted_notebooks.first_cell(""),
        "guess = None  # predict: apples\n\nprint(guess)",
        "*Your explanation:*",
    ]
    assert "42" not in text
    assert "6 * 7" not in text
    assert "forty" not in text
    assert "tags" not in text


@pytest.mark.real
def test_execution_and_staleness(tmp_path: Path) -> None:
    path, made = source(tmp_path), tmp_path / "notebook.ipynb"
    notebook = notebooks.with_answers(path)
    nbformat.write(notebook, made)
    assert notebooks.is_stale(made, notebook, executed=True), "not executed yet"
    notebooks.execute(notebook, path)
    assert notebook.cells[1].outputs[0].text == "42\n"
    nbformat.write(notebook, made)
    assert not notebooks.is_stale(made, notebooks.with_answers(path), executed=True)
    changed = notebooks.with_answers(source(tmp_path, NOTEBOOK.replace("6 * 7", "6 * 8")))
    assert notebooks.is_stale(made, changed, executed=True)
    assert notebooks.is_stale(made, notebook, executed=False), "a learner's notebook has no outputs"


@pytest.mark.real
def test_a_cell_that_fails_names_its_source(tmp_path: Path) -> None:
    path = source(tmp_path, "# %%\n1 / 0\n")
    with pytest.raises(UserError, match=r"notebook.py: a cell fails with ZeroDivisionError: division by zero"):
        notebooks.execute(notebooks.with_answers(path), path)


@pytest.mark.parametrize("line", ["print(3)  # predict: apples", "guess = 3 # predict: apples", "# predict: apples"])
def test_a_malformed_prediction_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(UserError, match=r"notebook.py: cell 0: a prediction must read"):
        notebooks.with_answers(source(tmp_path, f"# %%\n{line}\n"))


@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.slug)
def test_no_answer_leaks_into_the_learners_notebook(lab: Lab) -> None:
    learners = "\n".join(cell.source for cell in nbformat.read(lab.notebook, as_version=4).cells)
    for cell in notebooks.with_answers(lab.notebook_source).cells:
        if "answer" in cell.metadata.get("tags", []):
            assert cell.source.splitlines()[0] not in learners
    assert learners.count("= None  # predict:") == lab.notebook_source.read_text().count("# predict:") > 0


def test_sync_check_writes_nothing_and_names_the_stale(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    page = tmp_path / "page.md"
    page.write_text("<!-- excerpt: a.py#one -->\n<!-- /excerpt -->\n")
    before = page.read_text()
    assert list(sync(tmp_path, check=True)) == [page]
    assert page.read_text() == before
    assert list(sync(tmp_path)) == [page]
    assert list(sync(tmp_path)) == []


def test_an_interrupted_installation_of_the_sites_packages_is_repeated(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    folder = tmp_path / SITE
    folder.mkdir(parents=True)
    for name in ("requirements.txt", "pyproject.toml", f"{SITE}/package.json", f"{SITE}/package-lock.json"):
        (tmp_path / name).touch()
    commands = tmp_path / ".venv/bin"
    commands.mkdir(parents=True)
    for name, line in {"python": "", "rankzero": "", "npm": "echo installs >> npm.log; test -e online"}.items():
        (commands / name).write_text(f"#!/bin/sh\n{line}\n")
        (commands / name).chmod(0o755)
    (tmp_path / ".venv/ready").touch()
    make = ["make", "-C", str(tmp_path), "PYTHON=python3", "site"]
    assert subprocess.run(make, capture_output=True).returncode != 0
    (tmp_path / "online").touch()
    for _ in range(2):
        subprocess.run(make, capture_output=True, check=True)
    assert (tmp_path / "npm.log").read_text() == 2 * "installs\n"


@pytest.mark.parametrize("line", ["counts[1] += 2", "counts[1] = 2", "with counts: pass"])
def test_python_that_the_calculator_cannot_translate_is_refused(line: str) -> None:
    modules = sources()
    assert "function weightRows(" in script(modules)
    begin = "    rows = []\n"
    modules["ledger/predict.py"] = modules["ledger/predict.py"].replace(begin, f"{begin}    {line}\n", 1)
    with pytest.raises(NotImplementedError, match="counts"):
        script(modules)
