"""Installation: `pip install -r requirements.txt` and the project's own extras pin the same versions."""

import re
import tomllib

from rankzero.curriculum import ROOT

NAMED_BY_THE_LABS = {"torch", "torchvision", "numpy", "matplotlib", "jupyterlab", "nbval", "pytest"}


def pins(requirements: list[str]) -> dict[str, str]:
    """Package name -> pinned version, of the requirements that pin one."""
    found = (re.fullmatch(r"([\w-]+)==([\w.]+)", requirement.strip()) for requirement in requirements)
    return {match[1]: match[2] for match in found if match}


def test_requirements_txt_pins_what_pyproject_pins() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    pinned_by_project = pins(project["dependencies"] + extras)
    pinned_for_people = pins(lines)
    assert pinned_for_people.keys() >= NAMED_BY_THE_LABS
    assert pinned_for_people.items() <= pinned_by_project.items()
    assert "--editable ." in lines  # so that starters and notebooks find rankzero


def test_a_learner_installs_no_tool_of_the_authors() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not pins(project["dependencies"]).keys() & {"mypy", "pytest", "ray", "ruff", "kubernetes-validate", "sphinx"}
