"""Grades one submission for Classroom 50, which runs this in a student's checkout, in GitHub Actions.

Set REPOSITORY, COMMIT and LAB below, and put this file into the organization's repository `classroom50` as
CLASSROOM/autograders/ASSIGNMENT/autograder.py. The assignment's runtime needs `{"python": "3.12",
"apt": ["bubblewrap"]}`. Writes result.json (https://github.com/foundation50/classroom50/wiki/Advanced-Autograding), or
ends with an exit code other than 0, which means that there is no grade.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = "https://github.com/your-organization/rankzero"
COMMIT = "0" * 40  # of REPOSITORY: the version of Rank Zero that grades
LAB = "02"
INDEX = ""  # address of torch's CPU builds, from pytorch.org: installs in a minute instead of several


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("RUNNER_TEMP")) as folder:
        home = Path(folder)
        # A self-hosted runner with bubblewrap and user namespaces can set RANKZERO to its installed command.
        rankzero = os.environ.get("RANKZERO") or install(home)
        shutil.copytree(".", home / "submissions" / "student", symlinks=True, ignore=shutil.ignore_patterns(".git"))
        run(rankzero, "grade", str(home / "submissions"), "--lab", LAB, "--out", str(home / "out"))
        run(rankzero, "feedback", str(home / "out"), "student", "--lab", LAB)
        grade = json.loads((home / "out" / "grades" / LAB / "student.json").read_text(encoding="utf-8"))
    if not grade["gradable"]:
        sys.exit("Grading itself failed: this does not count as zero.")
    Path("result.json").write_text(json.dumps(result(grade), indent=1), encoding="utf-8")


def install(home: Path) -> str:
    """Installs Rank Zero at COMMIT and returns the path of its command."""
    run("sudo", "sysctl", "-w", "kernel.apparmor_restrict_unprivileged_userns=0")  # Ubuntu 24.04 forbids namespaces
    source, pip = home / "rankzero", home / ".venv" / "bin" / "pip"
    run("git", "init", "--quiet", str(source))
    run("git", "-C", str(source), "fetch", "--quiet", "--depth=1", REPOSITORY, COMMIT)
    run("git", "-C", str(source), "checkout", "--quiet", "FETCH_HEAD")
    run(sys.executable, "-m", "venv", str(home / ".venv"))
    if INDEX:
        pins = (source / "requirements.txt").read_text(encoding="utf-8").splitlines()
        run(str(pip), "install", "--index-url", INDEX, *(pin for pin in pins if pin.startswith("torch")))
    run(str(pip), "install", "-e", str(source))
    return str(pip.with_name("rankzero"))


def result(grade: dict[str, Any]) -> dict[str, Any]:
    """Returns the result that Classroom 50 collects; Classroom 50's runner adds owner and type."""
    report = grade["report"]
    rows = [
        {
            "test-name": check["check"],
            "passed": check["status"] == "pass",
            "score": check["points"],
            "max-score": check["max_points"],
            "message": check["text"],
        }
        for check in (report["results"] if report else ())
    ]
    return {
        "schema": "classroom50/result/v1",
        **{name: os.environ[name.upper()] for name in ("classroom", "assignment")},
        "submission": os.environ["SUBMISSION_TAG"],
        "commit": os.environ["COMMIT_URL"],
        "release": os.environ["RELEASE_URL"],
        "review": os.environ.get("REVIEW_URL") or os.environ["COMMIT_URL"],
        "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(row["score"] for row in rows),
        "max-score": grade["max_points"],
        "tests": rows,
    }


def run(*command: str) -> None:
    """Runs a command and prints its output. SystemExit if the command fails: then there is no grade."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    token = secrets.token_hex(16)  # keeps a submission's output from being taken for a command to GitHub
    print(f"::stop-commands::{token}\n{done.stdout}\n::{token}::", flush=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:2])} ended with exit code {done.returncode}: there is no grade.")


if __name__ == "__main__":
    main()
