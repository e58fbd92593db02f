"""Installation: `pip install -r requirements.txt` and the project's own extras pin the same versions."""

import re
import tomllib

from rankzero.curriculum import ROOT

NAMED_BY_THE_LABS = {"torch", "torchvision", "numpy", "matplotlib", "jupyterlab", "nbval", "pytest"}


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
    assert not pins(project["dependencies"]).keys() & {"mypy", "pytest", "ray", "ruff", "kubernetes-validate", "sphinx"}
