"""Gradescope's autograder as a zip, for one lab, from the repository's last commit.

    python launch/gradescope/make_zip.py 02 --late-percent-per-day 10 --index URL

The zip holds setup.sh and run_autograder, which Gradescope runs, settings.json and the repository.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

from rankzero.curriculum import ROOT, LatePolicy, find_lab, validate
from rankzero.errors import UserError

HERE = Path(__file__).resolve().parent


def make_zip(lab: str, late: dict[str, float], index: str, out: Path) -> None:
    """Writes the zip. SystemExit with a sentence if git cannot pack the repository."""
    settings = json.dumps({"lab": lab, "late": late, "index": index})
    # Whatever this machine's settings, a script whose lines end in CR LF does not start.
    command = ["git", "-c", "core.autocrlf=false", "-c", "core.eol=lf", "archive", "--format=zip"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("setup.sh", "run_autograder"):
            script = Path(folder, name)
            script.write_bytes((HERE / name).read_bytes().replace(b"\r\n", b"\n"))
            script.chmod(0o755)
            command.append(f"--add-file={script}")
        command += [f"--output={out.resolve()}", f"--add-virtual-file=settings.json:{settings}"]
        done = subprocess.run([*command, "--prefix=rankzero/", "HEAD"], cwd=ROOT)
    if done.returncode:  # git has printed the reason
        sys.exit(f"git cannot pack {ROOT}: it must be a clone, and git 2.37 or newer.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("lab", help="the lab's number, such as 02")
    parser.add_argument("--late-percent-per-day", type=float, help="percent of the points that each late day costs")
    parser.add_argument("--late-max-days", type=int, help="days late after which nothing counts; 0 refuses late work")
    parser.add_argument("--late-grace-hours", type=float, help="hours after the deadline that cost nothing")
    parser.add_argument("--index", default="", help="address of torch's CPU builds: the image is gigabytes smaller")
    parser.add_argument("--out", type=Path, help="the zip (default: gradescope-lab-NN.zip)")
    options = parser.parse_args()
    late = {key.name: getattr(options, f"late_{key.name}") for key in fields(LatePolicy)}
    late = {key: value for key, value in late.items() if value is not None}
    try:
        lab = find_lab(options.lab).number
        validate(LatePolicy, late, "the late policy")
    except UserError as error:
        sys.exit(f"{error}")
    out = options.out or Path(f"gradescope-lab-{lab}.zip")
    make_zip(lab, late, options.index, out)
    print(f"Made {out} of the last commit. Upload it in Gradescope under Configure Autograder.")


if __name__ == "__main__":
    main()
