"""Installation: `pip install -r requirements.txt` and the project's own extras pin the same versions."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from rankzero.curriculum import ROOT

NAMED_BY_THE_LABS = {"torch", "torchvision", "numpy", "matplotlib", "optuna", "mlflow", "jupyterlab", "nbval", "pytest"}


def pins(requirements: list[str]) -> dict[str, str]:
    """Returns package name -> version for the requirements that pin a version."""
    matches = (re.fullmatch(r"([\w-]+)==([\w.]+)", requirement.strip()) for requirement in requirements)
    return {match[1]: match[2] for match in matches if match}


def test_requirements_txt_and_pyproject_pin_the_same_versions() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    pinned_by_project = pins(project["dependencies"] + extras)
    pinned_by_requirements = pins(lines)
    assert pinned_by_requirements.keys() >= NAMED_BY_THE_LABS
    assert pinned_by_requirements.items() <= pinned_by_project.items()
    assert "--editable ." in lines  # so that starters and notebooks find rankzero


def test_a_learner_installs_no_developer_tools() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not pins(project["dependencies"]).keys() & {
        "mlflow",
        "mypy",
        "pytest",
        "ray",
        "ruff",
        "kubernetes-validate",
        "sphinx",
    }


# Stands for Python and pip: makes an environment that holds itself, and logs what is installed. It has no CPU build.
PYTHON = """#!/bin/sh
case "$*" in
-c*) exit 0 ;;
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*) echo "$*" >> installed.txt ;;
esac
case "$*" in *+cpu) exit 1 ;; esac
"""


def test_set_up_shows_the_download_of_pytorch_and_no_list_of_packages(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "python3").write_text(PYTHON)
    (tmp_path / "python3").chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "PYTHON=./python3", ".venv/ready"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if len(line) > 90] == []
    *pytorch, others = (tmp_path / "installed.txt").read_text().splitlines()
    torch = pins(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"])[
        "torch"
    ]
    assert pytorch[-1].endswith(f" install --disable-pip-version-check torch=={torch}")
    assert others.endswith(" install --disable-pip-version-check --quiet --editable .")
