"""Makes Gradescope's autograder for one lab, from the repository's last commit.

    python launch/gradescope/make_zip.py 02 --late "10% a day" --index URL

Its root holds what Gradescope looks for, setup.sh and run_autograder, beside our settings and the repository.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from rankzero.curriculum import ROOT, find_lab
from rankzero.errors import UserError

HERE = Path(__file__).resolve().parent


def make_zip(lab: str, late: str, index: str, out: Path) -> None:
    """Writes the zip. SystemExit with a sentence where git cannot."""
    settings = json.dumps({"lab": lab, "late": late, "index": index})
    command = ["git", "archive", "--format=zip", f"--output={out.resolve()}"]
    command += [f"--add-file={HERE / name}" for name in ("setup.sh", "run_autograder")]
    command += [f"--add-virtual-file=settings.json:{settings}", "--prefix=rankzero/", "HEAD"]
    if subprocess.run(command, cwd=ROOT).returncode:  # which has said why
        sys.exit(f"git cannot pack {ROOT}: it must be a clone, and git 2.37 or newer.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("lab", help="its number, such as 02")
    parser.add_argument("--late", default="", help='penalty for late work, such as "10%% a day" (default: none)')
    parser.add_argument("--index", default="", help="address of torch's CPU builds: the image is gigabytes smaller")
    parser.add_argument("--out", type=Path, help="the zip (default: gradescope-lab-NN.zip)")
    options = parser.parse_args()
    try:
        lab = find_lab(options.lab).number
    except UserError as error:
        sys.exit(f"{error}")
    out = options.out or Path(f"gradescope-lab-{lab}.zip")
    make_zip(lab, options.late, options.index, out)
    print(f"Made {out} of the last commit. Upload it in Gradescope under Configure Autograder.")


if __name__ == "__main__":
    main()
