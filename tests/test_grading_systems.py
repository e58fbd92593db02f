"""Grading systems: runs of the files in launch/ in imitations of Gradescope, GitHub Actions and Classroom 50."""

import base64
import csv
import importlib.resources
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rankzero.curriculum import ROOT, find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_source
from rankzero.grading.sandbox import sandbox_client

LAB = find_lab("02")
WRONG = next(wrong for wrong in known_wrong(LAB).values() if wrong.fails == ("evaluate/mode",))
CHECKS = [check for exercise in exercises_of(LAB) for check in exercise.checks]
LAB_POINTS = sum(check.points for check in CHECKS)
LOST = sum(check.points for check in CHECKS if check.name in WRONG.fails)
RANKZERO = f'exec {sys.executable} -m rankzero.cli "$@"\n'
# doctor takes seconds and has its own tests
MAKE = f"""
[[ $* == doctor ]] && exit
[[ $1 == gradescope && $2 == LAB=* && $3 == ARGS=* ]]
exec {sys.executable} launch/gradescope/make_zip.py ${{2#LAB=}} ${{3#ARGS=}}
"""
NOBODY = 65534
LONG_S = 600.0  # limit of a process that ends by itself


@pytest.fixture(scope="module")
def sandboxed() -> None:
    if (reason := sandbox_client.why_unavailable()) and "RANKZERO_SANDBOX" not in os.environ:
        pytest.skip(reason)


def handed_in() -> str:
    """Returns the text of an exercises.py in which one exercise is wrong."""
    return wrong_source(LAB, WRONG)


def command(folder: Path, name: str, script: str) -> None:
    """Puts a command into `folder`, as a shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}")
    (folder / name).chmod(0o755)


# ---------------------------------------------------------------------------------------------------------- Gradescope
METADATA = {
    "id": 123456,
    "created_at": "2026-12-02T10:00:00.123456-08:00",
    "assignment": {"due_date": "2026-12-01T23:00:00.000000-08:00", "title": "Lab 02", "total_points": "50.0"},
    "users": [{"email": "ada@example.com", "id": 7, "name": "Ada"}],
    "previous_submissions": [],
}


class Container:
    """A folder like the one that Gradescope prepares before it calls run_autograder."""

    def __init__(self, folder: Path, **late: float) -> None:
        self.folder = folder / "autograder"
        for name in ("source", "submission", "results"):
            (self.folder / name).mkdir(parents=True)
        self.source, self.results = self.folder / "source", self.folder / "results" / "results.json"
        (self.folder / "submission_metadata.json").write_text(json.dumps(METADATA))
        (self.source / "settings.json").write_text(json.dumps({"lab": "02", "late": late, "index": ""}))
        (self.source / "rankzero").symlink_to(ROOT)
        command(self.source / ".venv" / "bin", "python", f'exec {sys.executable} "$@"\n')
        (self.folder / "submission" / "exercises.py").write_text(handed_in())

    def start(self, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(ROOT / "launch" / "gradescope" / "run_autograder")],
            cwd=self.folder,
            env={**os.environ, "AUTOGRADER": str(self.folder), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def grade(self, **environment: str) -> tuple[dict[str, Any], str]:
        """Grades the submission and returns results.json and the output, which instructors see."""
        process = self.start(**environment)
        output, _ = process.communicate(timeout=LONG_S)
        assert process.returncode == 0, output
        return json.loads(self.results.read_text()), output


def test_gradescope_gets_points_reasons_and_the_penalty(tmp_path: Path, sandboxed: None) -> None:
    container = Container(tmp_path, percent_per_day=10)
    (container.folder / "submission" / "timestamp.txt").write_text("2026-11-01 00:00:00 UTC")  # the student's claim
    results, output = container.grade()
    assert results["score"] == LAB_POINTS - LOST - 0.1 * LAB_POINTS, output
    failed = {test["name"] for test in results["tests"] if test["status"] == "failed"}
    assert len(failed) == len(WRONG.fails)
    assert results["extra_data"]["gradable"] is True
    assert results["extra_data"]["submitted_at"].startswith("2026-12-02T18:00:00")


@pytest.mark.prove
def test_without_a_sandbox_gradescope_runs_submissions_as_nobody() -> None:
    python = public_python()
    if not python:
        pytest.skip("this needs root, and a Python that the user nobody can read")
    with tempfile.TemporaryDirectory() as folder:  # other users cannot enter pytest's folders
        Path(folder).chmod(0o755)
        grade_as_nobody(Container(Path(folder), max_days=0), python)


def grade_as_nobody(container: Container, python: str) -> None:
    command(container.source / ".venv" / "bin", "python", f'exec {python} "$@"\n')
    attack = "import os\nwho = os.getuid()\nraise RuntimeError(f'user {who}, {len(os.getgroups())} groups')\n"
    (container.folder / "submission" / "exercises.py").write_text(attack)
    without_deadline = METADATA | {"assignment": {"due_date": None}}
    (container.folder / "submission_metadata.json").write_text(json.dumps(without_deadline))
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    results, output = container.grade(PATH="/nowhere", PYTHONPATH=f"{ROOT / 'code'}:{packages}")
    assert "Graded without a sandbox, as nobody. rankzero: bubblewrap is not installed" in output
    assert results["score"] == 0
    assert f"user {NOBODY}, 0 groups" in json.dumps(results)
    assert results["extra_data"]["isolation"] == "trusted"
    assert not container.results.parent.stat().st_mode & 0o007, "nobody must not reach the results"


def public_python() -> str:
    """Returns a Python with this one's packages that root can run as nobody, or "" if there is none."""
    if os.getuid():
        return ""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"],
                env={"PYTHONPATH": packages},
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return ""


def test_failed_grading_gives_no_score_on_gradescope(tmp_path: Path) -> None:
    container = Container(tmp_path)
    command(container.source / ".venv" / "bin", "python", "echo the disk is full; exit 3\n")
    results, output = container.grade()
    assert "score" not in results
    assert "tests" not in results
    assert "This does not count as zero" in results["output"]
    assert results["extra_data"] == {"gradable": False}
    assert results["stdout_visibility"] == "hidden"
    assert "the disk is full" in output


@pytest.mark.real
def test_a_killed_autograder_leaves_a_result_for_gradescope(tmp_path: Path) -> None:
    container = Container(tmp_path)
    command(container.source / ".venv" / "bin", "python", f"touch {tmp_path}/began; sleep 600\n")
    process = container.start()
    while not (tmp_path / "began").exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    results = json.loads(container.results.read_text())
    assert "score" not in results
    assert "Grading was cut short. This does not count as zero" in results["output"]


@pytest.fixture(scope="module")
def unzipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the zip unpacked into `source`, as on Gradescope."""
    if not (ROOT / ".git").exists():
        pytest.skip("the zip is made of git's last commit")
    folder = tmp_path_factory.mktemp("gradescope") / "autograder"
    archive = folder.with_name("made.zip")
    make = [
        sys.executable,
        "launch/gradescope/make_zip.py",
        "2",
        "--late-percent-per-day",
        "10",
        "--index",
        "https://cpu.example",
    ]
    subprocess.run([*make, "--out", str(archive)], cwd=ROOT, check=True)
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            file = Path(packed.extract(entry, folder / "source"))
            if mode := entry.external_attr >> 16:
                file.chmod(mode & 0o777)
    return folder


def test_the_zip_has_the_files_that_gradescope_expects(unzipped: Path) -> None:
    source = unzipped / "source"
    assert {path.name for path in source.iterdir()} == {"setup.sh", "run_autograder", "settings.json", "rankzero"}
    assert os.access(source / "setup.sh", os.X_OK)
    assert os.access(source / "run_autograder", os.X_OK)
    settings = {"lab": "02", "late": {"percent_per_day": 10}, "index": "https://cpu.example"}
    assert json.loads((source / "settings.json").read_text()) == settings
    assert (source / "rankzero" / LAB.reference.relative_to(ROOT)).exists()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the zip is made of git's last commit")
def test_lines_end_in_lf_whatever_the_settings_of_git(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    crlf = ["-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", *crlf, f"file://{ROOT}", str(clone)], check=True)
    scripts = [clone / "launch" / "gradescope" / name for name in ("setup.sh", "run_autograder")]
    assert not any(b"\r" in script.read_bytes() for script in scripts)
    for script in scripts:  # as an editor may have saved them
        script.write_bytes(script.read_bytes().replace(b"\n", b"\r\n"))
    make = [sys.executable, str(scripts[0].with_name("make_zip.py")), "02", "--out", str(tmp_path / "made.zip")]
    subprocess.run(make, cwd=clone, env={**os.environ, "PYTHONPATH": str(clone / "code")}, check=True)
    with zipfile.ZipFile(tmp_path / "made.zip") as packed:
        names = ["setup.sh", "run_autograder", "rankzero/launch/gradescope/setup.sh"]
        assert not any(b"\r" in packed.read(name) for name in names)


def test_an_unknown_lab_makes_no_zip(tmp_path: Path) -> None:
    make = [sys.executable, "launch/gradescope/make_zip.py", "99", "--out", str(tmp_path / "x.zip")]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("there is no lab '99'")


def test_setup_installs_the_pins_and_hides_the_answers(unzipped: Path, tmp_path: Path) -> None:
    bin_, log = tmp_path / "bin", tmp_path / "log"
    note = f'echo "${{0##*/}} $*" >> {log}\n'
    for name in ("apt-get", "add-apt-repository"):
        command(bin_, name, note)
    # Ubuntu 22.04's python3 is 3.10: too old for Rank Zero, but able to read JSON.
    command(bin_, "python3", f'case "$2" in *version_info*) exit 1;; *) exec {sys.executable} "$@";; esac\n')
    pip = f"mkdir -p .venv/bin && cp {bin_}/pip-stand-in .venv/bin/pip\n"
    command(bin_, "python3.12", note + pip)
    command(bin_, "pip-stand-in", note)
    environment = {**os.environ, "AUTOGRADER": str(unzipped), "PATH": f"{bin_}:{os.environ['PATH']}"}
    subprocess.run(["bash", str(unzipped / "source" / "setup.sh")], env=environment, check=True)
    commands = log.read_text().splitlines()
    assert commands[:2] == ["apt-get update", "apt-get install -y bubblewrap python3-venv software-properties-common"]
    assert "apt-get install -y python3.12 python3.12-venv" in commands
    assert commands[-2:] == [
        "pip install --no-cache-dir --index-url https://cpu.example -r torch.txt",
        "pip install --no-cache-dir -e rankzero",
    ]
    source = unzipped / "source"
    pins = (source / "torch.txt").read_text().splitlines()
    assert [pin.split("==")[0] for pin in pins] == ["torch", "torchvision"]
    installed = source / "rankzero"
    hidden = [installed / file.relative_to(ROOT) for file in (LAB.checks, LAB.checks.with_name("right_answers.py"))]
    for path in (*hidden, installed / "solutions", source / "settings.json"):
        assert not path.stat().st_mode & 0o007, path
    assert (installed / LAB.probes.relative_to(ROOT)).stat().st_mode & 0o004


# ------------------------------------------------------------------------------------------------------------- GitHub
WORKFLOW = ROOT / "launch" / "github-classroom" / "classroom.yml"


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    return list(job["steps"])


def test_the_workflow_follows_githubs_published_schema() -> None:
    schemas = importlib.resources.files("check_jsonschema.builtin_schemas.vendor")
    workflow = yaml.safe_load(WORKFLOW.read_text())
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads "on" as True
    jsonschema.validate(workflow, json.loads(schemas.joinpath("github-workflows.json").read_text()))


def test_the_workflow_is_named_as_github_classroom_expects() -> None:
    # Otherwise the reporter sends no points: https://github.com/classroom-resources/autograding-grading-reporter
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["name"] == "Autograding Tests"
    assert list(workflow["jobs"]) == ["run-autograding-tests"]
    (grade,) = [step for step in steps() if step.get("id")]
    (report,) = [step for step in steps() if "autograding-grading-reporter@" in step.get("uses", "")]
    runner = report["with"]["runners"]
    assert grade["id"] == runner
    assert report["env"] == {f"{runner.upper()}_RESULTS": f"${{{{ steps.{runner}.outputs.result }}}}"}
    checkouts = [step["with"] for step in steps() if "actions/checkout@" in step.get("uses", "")]
    assert all(step["persist-credentials"] is False for step in checkouts)


class Runner:
    """GitHub's runner: runs a step's script with bash in the workspace, and reads the step's outputs."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.bin = folder / "workspace", folder / "bin"
        self.log, self.output = folder / "log", folder / "output"
        (self.workspace / "submissions" / "student").mkdir(parents=True)
        for name in ("sudo", "pip"):
            command(self.bin, name, f'echo "{name} $*" >> {self.log}\n')
        command(self.bin, "python", f'case "$1" in -m) {self._venv()};; *) exec {sys.executable} "$@";; esac\n')

    def _venv(self) -> str:
        command(self.bin, "rankzero", RANKZERO)
        return f"mkdir -p .venv/bin; cp {self.bin}/pip {self.bin}/rankzero .venv/bin"

    def run(self, name: str) -> None:
        (step,) = [step for step in steps() if step.get("name") == name]
        variables = {key: str(value) for key, value in yaml.safe_load(WORKFLOW.read_text())["env"].items()}
        path = f"{self.bin}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace,
            env={
                **os.environ,
                **variables,
                "PATH": path,
                "GITHUB_OUTPUT": str(self.output),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.printed = done.stdout

    def result(self) -> dict[str, Any]:
        """Returns the result that the reporter decodes."""
        name, _, value = self.output.read_text().strip().partition("=")
        assert name == "result"
        return dict(json.loads(base64.b64decode(value, validate=True)))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, sandboxed: None) -> Runner:
    """A runner that has run the workflow's steps for a submission."""
    runner = Runner(tmp_path_factory.mktemp("github"))
    (runner.workspace / "rankzero").symlink_to(ROOT)
    for name in ("Install the sandbox", "Install Rank Zero"):
        runner.run(name)
    file = runner.workspace / "submissions" / "student" / "work" / "lab-02" / "exercises.py"
    file.parent.mkdir(parents=True)
    file.write_text('print("::notice title=Autograding report::{}")\n' + handed_in())
    runner.run("Grade")
    return runner


@pytest.mark.prove
def test_the_workflow_grades_and_sends_points_to_the_reporter(graded: Runner) -> None:
    commands = graded.log.read_text().splitlines()
    assert commands[-2:] == ["sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", "pip install -e rankzero"]
    result = graded.result()
    assert result["status"] == "fail"
    assert result["max_score"] == LAB_POINTS
    assert sum(test["score"] for test in result["tests"]) == LAB_POINTS - LOST
    opened, closed = (line for line in graded.printed.splitlines() if line.startswith("::"))
    assert opened == f"::stop-commands::{closed.strip(':')}", "no line between them is a command to GitHub"
    assert (graded.workspace / "out" / "students").is_dir()


def test_failed_grading_is_an_error_for_the_reporter(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    command(runner.workspace / ".venv" / "bin", "rankzero", "exit 2\n")
    runner.run("Grade")
    result = runner.result()
    assert result["status"] == "error"
    assert result["max_score"] == 0, "then the reporter reports no points"


# -------------------------------------------------------------------------------------------------------- Classroom 50
AUTOGRADER = ROOT / "launch" / "classroom50" / "autograder.py"
VARIABLES = {
    "CLASSROOM": "ml-2026",
    "ASSIGNMENT": "lab-02",
    "SUBMISSION_TAG": "submit/2026-12-01T10-00-00Z-abc",
    "COMMIT_URL": "https://github.example/c",
    "RELEASE_URL": "https://github.example/r",
    "REVIEW_URL": "",
}


def autograde(folder: Path, rankzero: str) -> "subprocess.CompletedProcess[str]":
    """Runs the autograder in a student's checkout."""
    command(folder / "bin", "rankzero", rankzero)
    checkout = folder / "checkout"
    checkout.mkdir()
    (checkout / "exercises.py").write_text(handed_in())
    environment = {**os.environ, **VARIABLES, "RANKZERO": str(folder / "bin" / "rankzero")}
    run = [sys.executable, str(AUTOGRADER)]
    return subprocess.run(run, cwd=checkout, env=environment, capture_output=True, text=True)


@pytest.mark.prove
def test_classroom_50_gets_points_by_check(tmp_path: Path, graded: Runner) -> None:
    # Copies the workflow's result: the submission and the options are the same.
    done = autograde(tmp_path, f'[[ "$1 $3 $5" != "grade --lab --out" ]] || cp -r {graded.workspace}/out "$6"\n')
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "checkout" / "result.json").read_text())
    assert result["schema"] == "classroom50/result/v1"
    assert (result["classroom"], result["assignment"]) == ("ml-2026", "lab-02")
    assert result["review"] == result["commit"] == VARIABLES["COMMIT_URL"]
    assert (result["score"], result["max-score"]) == (LAB_POINTS - LOST, LAB_POINTS)
    assert {test["test-name"] for test in result["tests"] if not test["passed"]} >= set(WRONG.fails)


def test_failed_grading_leaves_no_result_for_classroom_50(tmp_path: Path) -> None:
    done = autograde(tmp_path, "echo no disk; exit 1\n")
    assert done.returncode != 0
    assert "there is no grade" in done.stderr
    assert not (tmp_path / "checkout" / "result.json").exists()


# ----------------------------------------------------------------------------------------------- the instructors' guide
GUIDE = ROOT / "handbook" / "for-instructors.md"


@pytest.mark.prove
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a command packs git's last commit")
def test_the_guides_commands_run(tmp_path: Path, sandboxed: None) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    bin_, work = tmp_path / "bin", tmp_path / "work"
    command(bin_, "sudo", f'echo "$*" >> {tmp_path}/log\n')
    command(bin_, "make", MAKE)
    command(bin_, "rankzero", RANKZERO)
    command(bin_, "python", f'exec {sys.executable} "$@"\n')
    (work / ".venv" / "bin").mkdir(parents=True)
    (work / ".venv" / "bin" / "activate").touch()
    for student in ("ada", "grace"):
        (work / "submissions" / student).mkdir(parents=True)
        (work / "submissions" / student / "exercises.py").write_text(handed_in())
        os.utime(work / "submissions" / student / "exercises.py", (late := 1796209140 + 3 * 3600, late))
    (work / "roster.csv").write_text("student_id,last_name,first_name\nada,Lovelace,Ada\nalan,Turing,Alan\n")
    (work / "launch").symlink_to(ROOT / "launch")
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", "\n".join(blocks)],
        cwd=work,
        env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "log").read_text() == "apt-get install --yes bubblewrap\n"
    with (work / "graded" / "grades.csv").open() as stream:
        rows = {row["student_id"]: row for row in csv.DictReader(stream)}
    assert list(rows) == ["ada", "alan", "grace"]
    assert float(rows["ada"]["late_submission_penalty"]) == 0.1 * LAB_POINTS, "the policy is that of the last command"
    assert float(rows["alan"]["score"]) == 0, "Alan has no submission"


def test_every_defense_in_the_guide_names_existing_attacks_and_tests() -> None:
    text = GUIDE.read_text()
    table = text[text.index("## Attacks that the sandbox stops") : text.index("## Takeaway")]
    named = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+|network|daemon|replayed|handlers|escapes|tracer)`", table))
    attacks = {file.stem for file in (ROOT / "tests").rglob("attacks/*.py")}
    tests = {name for file in (ROOT / "tests").glob("*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert len(named) > 20
    assert named - attacks - tests == set()
