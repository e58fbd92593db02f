"""Recorded output on lab pages: each recorded command is run again and compared."""

import re
import signal
from pathlib import Path

import draft_labs
import pytest
from warm_process import run_script

from rankzero.curriculum import Lab, find_lab
from rankzero.errors import UserError
from rankzero.publish.recordings import command_of, is_of_a_bug, prepare, recordings, run_again

ENVIRONMENT = {"COLUMNS": "100", "RANKZERO_MACHINE": "machine.json"}
FIRST_STEP = r"^step +1/"
EXACT = ("model ", "equal ", "NOT EQUAL ", "sent in ")
RECORDINGS = [(lab, file) for lab in draft_labs.tested_labs() for file in recordings(lab)]
LATE = ("10", "11", "15", "16")  # their starters load, compile, search or examine for half a minute
EARLY = [(lab, file) for lab, file in RECORDINGS if file.stem == "first-run" and lab.number not in LATE]


def losses(text: str) -> dict[str, float]:
    """Returns the losses in nats by names like 'step 50 loss' and 'step 50 validation loss'."""
    matches = re.findall(r"^step +(\d+)/\d+  (loss|validation loss) ([\d.]+)", text, re.MULTILINE)
    return {f"step {step} {kind}": float(value) for step, kind, value in matches}


def exact(text: str) -> list[str]:
    """Returns the lines that are the same on every machine: model, verdicts, bytes sent, and memory by role.

    The output of a starter that does not train is exact in all lines; of a profile, only the model and the
    FLOPs are, of measured operations, only their costs, of a search, only its model, and of a clinic, all but numbers.
    """
    if re.search(r"^trial +state", text, re.MULTILINE):  # another last digit, and the search takes another way
        return [line for line in text.splitlines() if line.startswith(("model ", "trial  state"))]
    if re.search(r"^ +no +looked at", text, re.MULTILINE):
        lines = [line for line in text.splitlines() if not line.startswith(("device ", "time "))]
        return [re.sub(r" +-?\d+\.\d+", " ...", line) for line in lines]
    if re.search(r"^phase +fraction", text, re.MULTILINE):
        return [line for line in text.splitlines() if line.startswith(("model ", "FLOPs "))]
    if re.search(r"^operation +MFLOP", text, re.MULTILINE):  # of measured operations, the costs are exact
        return re.findall(r"^(?:operation +MFLOP|\w[\w ]{13}(?: +[\d.]+){2} +[\d.]+)(?= )", text, re.MULTILINE)
    table = re.search(r"^MiB after.*?\n\n", text, re.MULTILINE | re.DOTALL)
    if not table and not losses(text):
        return text.splitlines()
    # Another CPU rounds the losses of two runs that differ in another way; which runs differ, and where, is exact.
    verdicts = re.sub(r"loss [\d.]+ instead of [\d.]+", "loss", text)
    lines = [line for line in verdicts.splitlines() if line.startswith(EXACT)]
    return lines + [re.sub(r" +\S+$", "", line) for line in (table[0].strip().splitlines() if table else ())]


def test_recordings_may_differ_in_speed_and_memory_but_not_in_the_model() -> None:
    run = "model   1 layer\nstep     1/100  loss 4.5308  {} tokens/s  peak {} MiB\n"
    assert exact(run.format("3,299", 290)) == exact(run.format("1,996", 312)) == ["model   1 layer"]
    assert exact("4 bytes\n") != exact("5 bytes\n")


def each_recording(recorded: list[tuple[Lab, Path]]) -> pytest.MarkDecorator:
    ids = [f"{lab.slug}-{recording.stem}" for lab, recording in recorded]
    return pytest.mark.parametrize(("lab", "recording"), recorded, ids=ids)


def compare(lab: Lab, recording: Path, recorded: str, printed: str) -> None:
    assert exact(printed) == exact(recorded)
    assert losses(printed).keys() == losses(recorded).keys()
    # Another CPU adds in another order, another Python has a slightly different text, and a bug may amplify both.
    tolerance = 0.5 if is_of_a_bug(lab, recording) or "embedded: 418,648" not in printed else 0.05
    for name, loss in losses(recorded).items():
        assert losses(printed)[name] == pytest.approx(loss, abs=tolerance), name


@each_recording(EARLY)
def test_a_starter_prints_the_first_lines_of_its_recording(lab: Lab, recording: Path, tmp_path: Path) -> None:
    """The starter is stopped after the first step's loss; a starter that does not train runs to its end."""
    starter, *options = prepare(lab, recording, tmp_path)
    done = run_script(tmp_path / starter, *options, cwd=tmp_path, until=FIRST_STEP, environment=ENVIRONMENT)
    recorded = recording.read_text(encoding="utf-8")
    beginning = re.split(f"(?<=\n)(?={FIRST_STEP})", recorded, maxsplit=1, flags=re.MULTILINE)
    if len(beginning) == 2:
        recorded = beginning[0] + beginning[1].splitlines(keepends=True)[0]
    assert done.returncode in (0, -signal.SIGKILL) or is_of_a_bug(lab, recording), done.stderr
    compare(lab, recording, recorded, f"{command_of(recording)}\n{done.stdout}")


@pytest.mark.prove
@each_recording(RECORDINGS)
def test_a_recorded_command_prints_the_whole_recording(lab: Lab, recording: Path) -> None:
    compare(lab, recording, recording.read_text(encoding="utf-8"), run_again(lab, recording))


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 2


def test_a_recording_of_another_command_is_refused(tmp_path: Path) -> None:
    lab, file = find_lab("02"), tmp_path / "x.txt"
    file.write_text("$ rm -rf /\n")
    with pytest.raises(UserError, match=r"x.txt: its first line must be `\$ python code/lab-"):
        run_again(lab, file)
    file.write_text(f"$ python {lab.starter.relative_to(lab.root)} --steps zero\n")
    with pytest.raises(UserError, match=r"ended with 2: .*--steps: 'zero'"):
        run_again(lab, file)
