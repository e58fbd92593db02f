"""Dev container: its file has the form that the specification asks for, and sets up what the Makefile offers."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rankzero.curriculum import ROOT

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "devcontainer.json").read_text(encoding="utf-8"))
CONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))


def test_the_dev_container_has_the_specified_form() -> None:
    jsonschema.validate(CONTAINER, SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"image": None},
        {"image": "python"},  # of any version
        {"postCreateCommand": 3},
        {"postCreateCommands": "make doctor"},
        {"extensions": ["ms-python.python"]},  # where they were before `customizations`
        {"customizations": {"vscode": {"extensions": "ms-python.python"}}},
        {"hostRequirements": {"memory": "8 GB"}},
    ],
    ids=str,
)
def test_a_wrong_dev_container_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(CONTAINER | change, SCHEMA)


def test_the_dev_container_has_the_python_that_the_workflow_tests() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    (setup,) = (step for step in workflow["jobs"]["test"]["steps"] if "setup-python" in step.get("uses", ""))
    assert CONTAINER["image"].split(":")[1] == setup["with"]["python-version"]


def test_the_command_after_creation_installs_the_notebooks_libraries(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    planned = subprocess.run(
        [*CONTAINER["postCreateCommand"].split(), "--dry-run"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "-m venv .venv" in planned.stdout
    assert "pip install --disable-pip-version-check --editable '.[notebook]'" in planned.stdout
