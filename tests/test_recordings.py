"""The output that lab pages show is what the starters print: each recorded command is run again and compared."""

import re
from pathlib import Path

import pytest

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.errors import UserError
from rankzero.publish.recordings import recordings, run_again

EXACT = ("model ", "equal ", "NOT EQUAL ", "sent in ")
RECORDINGS = [(lab, file) for lab in all_labs() for file in recordings(lab)]


def losses(text: str) -> dict[str, float]:
    """'step 50 loss' and 'step 50 validation loss' -> nats."""
    found = re.findall(r"^step +(\d+)/\d+  (loss|validation loss) ([\d.]+)", text, re.MULTILINE)
    return {f"step {step} {kind}": float(value) for step, kind, value in found}


def exact(text: str) -> list[str]:
    """Lines that must be the same everywhere: the model, verdicts, bytes sent; memory by role, the process's own not.

    What does not train is exact from the first line to the last. Of a profile, the model and the FLOPs are.
    """
    if re.search(r"^phase +fraction", text, re.MULTILINE):
        return [line for line in text.splitlines() if line.startswith(("model ", "FLOPs "))]
    table = re.search(r"^MiB after.*?\n\n", text, re.MULTILINE | re.DOTALL)
    if not table:
        return text.splitlines()
    lines = [line for line in text.splitlines() if line.startswith(EXACT)]
    return lines + [re.sub(r" +\S+$", "", line) for line in table[0].strip().splitlines()]


@pytest.mark.parametrize(("lab", "recording"), RECORDINGS, ids=lambda value: getattr(value, "stem", None))
def test_a_recorded_command_still_prints_what_the_page_shows(lab: Lab, recording: Path) -> None:
    recorded = recording.read_text(encoding="utf-8")
    now = run_again(lab, recording)
    assert exact(now) == exact(recorded)
    assert losses(now).keys() == losses(recorded).keys()
    # Another CPU adds in another order, another Python brings a slightly different text, and a bug may amplify both.
    is_bug = (lab.folder / f"{recording.stem}.diff").exists()
    tolerance = 0.5 if is_bug or "embedded: 418,648" not in now else 0.05
    for name, loss in losses(recorded).items():
        assert losses(now)[name] == pytest.approx(loss, abs=tolerance), name


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 2


def test_a_recording_of_something_else_is_refused(tmp_path: Path) -> None:
    lab, file = find_lab("02"), tmp_path / "x.txt"
    file.write_text("$ rm -rf /\n")
    with pytest.raises(UserError, match=r"x.txt: its first line must be `\$ python code/lab-"):
        run_again(lab, file)
    file.write_text(f"$ python {lab.starter.relative_to(lab.root)} --steps zero\n")
    with pytest.raises(UserError, match=r"ended with 2: .*--steps: 'zero'"):
        run_again(lab, file)
