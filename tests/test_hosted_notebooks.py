"""Hosted notebooks: what a learner's notebook does where Rank Zero is missing, and the links that open it there."""

import importlib.util
import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from warm_process import cold_starts

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.publish import hosted_notebooks, notebooks, repository_address
from rankzero.publish.repository_address import read_address

ADDRESS = "https://github.com/ada/rank-zero"


def test_the_address_is_set_in_one_place(tmp_path: Path) -> None:
    assert read_address(tmp_path) == ""
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{ADDRESS}/"\n')
    assert read_address(tmp_path) == ADDRESS
    page = tmp_path / "README.md"
    filled = repository_address.fill(page, "<!-- repository: address -->\n<!-- /repository -->\n", tmp_path)
    assert f"```sh\ngit clone {ADDRESS} rank-zero && cd rank-zero\nmake lab-02 " in filled
    assert repository_address.fill(page, filled, tmp_path) == filled


def test_without_an_address_the_first_commands_can_be_pasted_in_a_clone(tmp_path: Path) -> None:
    text = "<!-- repository: address -->\n<!-- /repository -->\n"
    assert "its folder. Then:\n\n```sh\nmake lab-02 " in repository_address.fill(tmp_path / "README.md", text, tmp_path)


def test_an_address_on_github_gives_links_to_colab_and_kaggle() -> None:
    colab, kaggle = hosted_notebooks.links("lab-02-x", ADDRESS).split(" · ")
    assert "(https://colab.research.google.com/github/ada/rank-zero/blob/main/notebooks/lab-02-x.ipynb)" in colab
    assert f"(https://kaggle.com/kernels/welcome?src={ADDRESS}/blob/main/notebooks/lab-02-x.ipynb)" in kaggle
    assert hosted_notebooks.links("lab-02-x", "") == hosted_notebooks.links("lab-02-x", "https://example.org/a/b") == ""


def test_page_and_notebook_get_the_links_once_the_address_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = find_lab("02")
    monkeypatch.setattr(hosted_notebooks, "read_address", lambda root: ADDRESS)
    page = hosted_notebooks.fill(lab, "<!-- hosted: notebook -->\n<!-- /hosted -->\n")
    introduction, install, *_ = notebooks.without_answers(lab.notebook_source, ADDRESS).cells
    for text in (page, introduction.source):
        assert hosted_notebooks.links(lab.slug, ADDRESS) in text
    assert f'os.environ.get("RANKZERO_REPOSITORY", "{ADDRESS}")' in install.source


@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.slug)
def test_every_page_and_notebook_can_do_without_a_clone(lab: Lab) -> None:
    assert "<!-- hosted: notebook -->\n" in lab.page.read_text(encoding="utf-8")
    cells = nbformat.read(lab.notebook, as_version=4).cells
    first = next(cell for cell in cells if cell.cell_type == "code")
    assert first.source == hosted_notebooks.first_cell(read_address())


@pytest.mark.parametrize("address", ["", "nowhere"])
def test_a_repository_that_cannot_be_cloned_is_one_sentence(tmp_path: Path, address: str) -> None:
    """In a Python that finds the standard library alone."""
    command = [sys.executable, "-I", "-S", "-c", hosted_notebooks.first_cell(address)]
    with cold_starts():
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert f"repository '{address}' does not exist" in done.stdout  # git's reason
    assert done.stderr == ("Rank Zero was not installed. Check the network and REPOSITORY, then run this cell again.\n")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the first cell runs, which do nothing here, in a Python without Rank Zero."""
    commands: list[list[str]] = []

    def record(command: list[str], **_: bool) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", record)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return commands


def test_the_first_cell_clones_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    monkeypatch.chdir(tmp_path)
    clone = ["git", "clone", "--depth", "1", ADDRESS, "rank-zero"]
    install = [sys.executable, "-m", "pip", "install", "--editable", "rank-zero"]
    exec(hosted_notebooks.first_cell(ADDRESS), {})
    (tmp_path / "rank-zero").mkdir()  # the next run finds the clone
    exec(hosted_notebooks.first_cell(ADDRESS), {})
    assert commands == [clone, install, install]
    assert sys.path[-1] == str(tmp_path / "rank-zero" / "code")


def test_a_notebook_in_a_clone_installs_that_clone(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    monkeypatch.chdir(ROOT / "notebooks")
    exec(hosted_notebooks.first_cell(""), {})
    assert commands == [[sys.executable, "-m", "pip", "install", "--editable", ".."]]


def test_a_library_that_was_loaded_before_its_installation_needs_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]
) -> None:
    """Colab loads NumPy before the first cell, which may install another version."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(np, "__version__", "1.0")
    with pytest.raises(SystemExit, match=r"^Rank Zero is installed\. Restart the session, then run all cells again\.$"):
        exec(hosted_notebooks.first_cell(ADDRESS), {})
    assert len(commands) == 2


@pytest.fixture(scope="module")
def hosted_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Python that has what a hosted service has, Jupyter's kernel, and not Rank Zero; its kernel is named hosted."""
    folder = tmp_path_factory.mktemp("hosted")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pin = next(line for line in (ROOT / "requirements.txt").read_text().splitlines() if line.startswith("ipykernel=="))
    subprocess.run([python, "-m", "pip", "install", "--quiet", pin], check=True)
    kernel = folder / "kernels" / "hosted" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": command, "display_name": "hosted", "language": "python"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("RANKZERO_REPOSITORY", str(ROOT))
        patch.delenv("PYTHONPATH", raising=False)
        yield python
    shutil.rmtree(folder)  # a gigabyte of libraries


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.slug)
def test_the_notebook_runs_in_an_empty_folder(lab: Lab, hosted_python: Path, tmp_path: Path) -> None:
    subprocess.run([hosted_python, "-m", "pip", "uninstall", "--quiet", "--yes", "rankzero"], check=True)
    notebook = nbformat.read(lab.notebook, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=1200, kernel_name="hosted", resources=place).execute()
    printed = [output.get("text", "") for cell in notebook.cells[:2] for output in cell.get("outputs", [])]
    assert printed == ["Installing Rank Zero and its libraries. This can take some minutes.\n"]
    assert (tmp_path / "rank-zero" / "code").is_dir()
