"""Run file: OUT/run.json, which holds the settings of a run for its next part, and the lock of the folder OUT."""

import contextlib
import errno
import fcntl
import importlib.metadata
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import validate
from rankzero.errors import UserError
from rankzero.grading.grader import GradingSettings
from rankzero.grading.seed_pool import SEEDS, SeedPool, seed_text

RUN_FILE, LOCK_FILE = "run.json", ".lock"
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def lock_folder(out: Path, resume: bool) -> Iterator[dict[str, Any]]:
    """Locks the folder OUT for this process. Yields the contents of its run.json, or {} if OUT is new.

    UserError if another process has locked it, if it holds anything and `resume` is False, or if its disk is full.
    """
    run_file = out / RUN_FILE
    if not resume and out.is_dir() and {file.name for file in out.iterdir()} - {LOCK_FILE}:
        content = "the grades of an earlier run: go on with them by --resume" if run_file.exists() else "other files"
        raise UserError(f"{out} holds {content}; or name another folder with --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK_FILE).open("w")
    except OSError as error:
        raise UserError(f"cannot write {out} ({error.strerror}): name another folder with --out.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another `rankzero grade` is writing {out}: wait, or name another folder.") from None
        try:
            yield _read_run(run_file)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            sentence = f"cannot write {out} ({error.strerror}): make room. Grades so far are kept; --resume goes on."
            raise UserError(sentence) from None
        finally:
            (out / LOCK_FILE).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                out.rmdir()  # fails, as intended, unless the folder is empty


def _read_run(run_file: Path) -> dict[str, Any]:
    if not run_file.exists():
        return {}
    try:
        earlier_run: dict[str, Any] = json.loads(run_file.read_text(encoding="utf-8"))
        earlier_run["pool"] = validate(SeedPool, earlier_run["pool"], run_file, "pool")
    except (OSError, ValueError, TypeError, KeyError, UserError) as error:
        raise UserError(
            f"{run_file} cannot be read ({error}): name another folder with --out to grade again."
        ) from None
    return earlier_run


def choose_pool(earlier_run: Mapping[str, Any], requested: Sequence[int], count: int | None) -> SeedPool:
    """Returns the seeds of the run to resume, or else a new pool. `requested` seeds replace those of the pool.

    UserError if the run to resume has other seeds than the requested ones.
    """
    if requested and count:
        raise UserError("--seed names the seeds and --seeds draws them: give one of the two.")
    if "pool" not in earlier_run:
        return SeedPool(secrets.token_hex(32), count=count or SEEDS, fixed=tuple(requested))
    pool: SeedPool = earlier_run["pool"]
    if requested and tuple(requested) != pool.fixed:
        seeds = f"has {seed_text(pool.fixed)}" if pool.fixed else "draws its seeds"
        raise UserError(f"--seed {requested[0]}: the run to resume {seeds}; another seed needs another --out.")
    return replace(pool, count=count or pool.count)


def write_run(settings: GradingSettings, rules: Mapping[str, Any], out: Path) -> None:
    """Writes OUT/run.json: the settings, and the `rules`, which are the deadline, the late policy and the roster."""
    version = importlib.metadata.version("rankzero")
    values = {**asdict(settings), "rules": dict(rules), "version": version}
    write_atomically(out / RUN_FILE, json.dumps(values, indent=1))
    (out / RUN_FILE).chmod(0o600)  # the seeds of the next gradings follow from the secret in it
