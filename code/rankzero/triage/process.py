"""Process of an observed script: it runs to its end or to a limit of time, and leaves the records of its processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankzero.errors import UserError
from rankzero.triage.record import Failure, Record, read

RUN_SCRIPT = Path(__file__).parent / "observe" / "run_script.py"
LOOK_S = 0.5  # between two looks at the records
GRACE_S = 5.0  # for the script to end by itself after SIGTERM


@dataclass
class Run:
    """A script that has run."""

    records: list[Record]
    code: int  # exit code, negative for a signal
    stopped: bool  # at the limit of time
    last_line: str  # of its output


def check_script(script: Path) -> None:
    """UserError unless the file is a Python script."""
    try:
        compile(script.read_bytes(), str(script), "exec")
    except OSError as error:
        raise UserError(f"cannot read {script} ({error.strerror}).") from None
    except (SyntaxError, ValueError) as error:
        place = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UserError(f"{script}{place} is no Python ({getattr(error, 'msg', error)}).") from None


def run(script: Path, arguments: Sequence[str], limit_s: float, progress: Callable[[str], None]) -> Run:
    """Runs the script at most `limit_s` seconds, without showing its output.

    `progress` is called with a line about the run every LOOK_S. No process of the script is left behind.
    """
    check_script(script)
    with tempfile.TemporaryDirectory(prefix="rankzero-triage-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        command = [sys.executable, "-u", str(RUN_SCRIPT), str(script), *arguments]
        environment = os.environ | {"RANKZERO_TRIAGE": name}
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                stopped = _wait(process, folder, limit_s, progress)
            finally:
                _kill(process)
        lines = (folder / "output").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        records = read_records(folder)
    done = Run(records, process.returncode, stopped, lines[-1] if lines else "")
    _add_failure(done)
    return done


def _wait(process: "subprocess.Popen[bytes]", folder: Path, limit_s: float, progress: Callable[[str], None]) -> bool:
    """Waits for the end of the script, or ends it at the limit; returns whether it was ended."""
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < limit_s:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(LOOK_S, max(0.01, limit_s - seconds)))
            return False
        progress(f"{_counted(folder)}, {seconds:.0f} s of at most {limit_s:g} s")
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    return True


def _counted(folder: Path) -> str:
    """Returns the updates so far in words."""
    updates = [len(model.steps) for record in read_records(folder) for model in record.models]
    return f"{max(updates, default=0)} updates"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kills every process of the session that the script leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_records(folder: Path) -> list[Record]:
    """Returns the records in a folder, with what the files of collectives add about processes that were killed."""
    records = {}
    for file in folder.glob("*.json"):
        with contextlib.suppress(ValueError, OSError):
            records[file.stem] = read(file)
    for file in folder.glob("*.calls"):
        with contextlib.suppress(ValueError, OSError):
            state = json.loads(file.read_text())
            record = records.setdefault(file.stem, Record(pid=int(file.stem)))
            record.collectives, record.calls, record.in_collective = state["begun"], state["calls"], state["inside"]
            record.rank, record.ranks = state["rank"], state["ranks"]
    return list(records.values())


def _add_failure(done: Run) -> None:
    """Notes how the script failed, where no exception says it; what follows from its end at the limit is left out."""
    if done.stopped:
        for record in done.records:
            record.failure = None
    elif done.code and not any(record.failure for record in done.records):
        kind = signal.Signals(-done.code).name if done.code < 0 else f"exit code {done.code}"
        done.records.append(Record(failure=Failure(kind, done.last_line)))
