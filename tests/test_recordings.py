"""Recorded output on lab pages: each recorded command is run again and compared."""

import re
import signal
from pathlib import Path

import pytest
from warm_process import run_script

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.errors import UserError
from rankzero.publish.recordings import command_of, is_of_a_bug, prepare, recordings, run_again

FIRST_STEP = r"^step +1/"
EXACT = ("model ", "equal ", "NOT EQUAL ", "sent in ")
RECORDINGS = [(lab, file) for lab in all_labs() for file in recordings(lab)]


def losses(text: str) -> dict[str, float]:
    """Returns the losses in nats by names like 'step 50 loss' and 'step 50 validation loss'."""
    matches = re.findall(r"^step +(\d+)/\d+  (loss|validation loss) ([\d.]+)", text, re.MULTILINE)
    return {f"step {step} {kind}": float(value) for step, kind, value in matches}


def exact(text: str) -> list[str]:
    """Returns the lines that are the same on every machine: model, verdicts, bytes sent, and memory by role.

    The output of a starter that does not train is exact in all lines; of a profile, only the model and the FLOPs are.
    """
    if re.search(r"^phase +fraction", text, re.MULTILINE):
        return [line for line in text.splitlines() if line.startswith(("model ", "FLOPs "))]
    table = re.search(r"^MiB after.*?\n\n", text, re.MULTILINE | re.DOTALL)
    if not table and not losses(text):
        return text.splitlines()
    lines = [line for line in text.splitlines() if line.startswith(EXACT)]
    return lines + [re.sub(r" +\S+$", "", line) for line in (table[0].strip().splitlines() if table else ())]


def test_recordings_may_differ_in_speed_and_memory_but_not_in_the_model() -> None:
    run = "model   1 layer\nstep     1/100  loss 4.5308  {} tokens/s  resident {} MiB\n"
    assert exact(run.format("3,299", 290)) == exact(run.format("1,996", 312)) == ["model   1 layer"]
    assert exact("4 bytes\n") != exact("5 bytes\n")


def each_recording() -> pytest.MarkDecorator:
    ids = [f"{lab.slug}-{recording.stem}" for lab, recording in RECORDINGS]
    return pytest.mark.parametrize(("lab", "recording"), RECORDINGS, ids=ids)


def compare(lab: Lab, recording: Path, recorded: str, printed: str) -> None:
    assert exact(printed) == exact(recorded)
    assert losses(printed).keys() == losses(recorded).keys()
    # Another CPU adds in another order, another Python has a slightly different text, and a bug may amplify both.
    tolerance = 0.5 if is_of_a_bug(lab, recording) or "embedded: 418,648" not in printed else 0.05
    for name, loss in losses(recorded).items():
        assert losses(printed)[name] == pytest.approx(loss, abs=tolerance), name


@each_recording()
def test_a_starter_prints_the_first_lines_of_its_recording(lab: Lab, recording: Path, tmp_path: Path) -> None:
    """The starter is stopped after the first step's loss; a starter that does not train runs to its end."""
    starter, *options = prepare(lab, recording, tmp_path)
    done = run_script(tmp_path / starter, *options, cwd=tmp_path, until=FIRST_STEP, environment={"COLUMNS": "100"})
    recorded = recording.read_text(encoding="utf-8")
    beginning = re.split(f"(?<=\n)(?={FIRST_STEP})", recorded, maxsplit=1, flags=re.MULTILINE)
    if len(beginning) == 2:
        recorded = beginning[0] + beginning[1].splitlines(keepends=True)[0]
    assert done.returncode in (0, -signal.SIGKILL) or is_of_a_bug(lab, recording), done.stderr
    compare(lab, recording, recorded, f"{command_of(recording)}\n{done.stdout}")


@pytest.mark.prove
@each_recording()
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
