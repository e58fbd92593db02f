"""Shared study: an Optuna study in one SQLite file, which several processes open, and which may be killed."""

import fcntl
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import psutil
from sqlalchemy.exc import SQLAlchemyError

from rankzero.errors import UserError

BUSY_S = 60.0  # a process waits so long for another one's write
SETTINGS = "settings"  # attribute of the study that holds what makes its trials comparable


def open_study(
    storage: Path, pruner: optuna.pruners.BasePruner, settings: Mapping[str, Any], *, first: Mapping[str, Any]
) -> optuna.Study:
    """Makes the study in the file `storage`, or opens it. A study minimizes its trials' values.

    `settings` are kept with a new study, whose first trial gets the parameters `first`. UserError where the file is no
    study, or one with other settings, whose trials could not be compared with those to come.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # one line per trial is printed by the caller
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    try:
        with one_at_a_time(storage):
            database = optuna.storages.RDBStorage(
                f"sqlite:///{storage}", engine_kwargs={"connect_args": {"timeout": BUSY_S}}
            )
            study = optuna.create_study(study_name="search", storage=database, pruner=pruner, load_if_exists=True)
            if not study.trials and SETTINGS not in study.user_attrs:
                study.set_user_attr(SETTINGS, dict(settings))
                study.enqueue_trial(dict(first))
    except OSError as error:
        raise UserError(f"cannot write to {storage} ({error.strerror}): choose another --storage.") from None
    except (SQLAlchemyError, RuntimeError) as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise UserError(f"{storage} is no study of Optuna ({reason}): name another --storage.") from None
    kept = study.user_attrs.get(SETTINGS, {})
    for name, value in settings.items():
        if kept.get(name) != value:
            raise UserError(
                f"the trials in {storage} have {name} {kept.get(name)}, and new ones would have {value}: "
                f"give --{name.replace('_', '-')} {kept.get(name)}, or name another --storage."
            )
    return study


def existing(storage: Path | None) -> Path:
    """Returns the file of a study that another process has made. UserError where there is none."""
    if not storage or not storage.is_file():
        raise UserError(f"--join adds trials to a study: name its file with --storage, which is {storage} now.")
    return storage


@contextmanager
def one_at_a_time(storage: Path) -> Iterator[None]:
    """Holds a lock beside `storage`. The kernel releases the lock when the process ends, however it ends."""
    with storage.with_name(f".{storage.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def this_process() -> list[Any]:
    """Returns machine, number and start time of this process: no two processes have all three alike."""
    return [os.uname().nodename, os.getpid(), psutil.Process().create_time()]


def is_alive(process: list[Any] | None) -> bool:
    """Returns whether a process of `this_process` still runs; False for None.

    A process on another machine cannot be seen, and counts as alive.
    """
    if process is None:
        return False
    machine, number, started = process
    if machine != os.uname().nodename:
        return True
    try:
        other = psutil.Process(number)
        return other.status() != psutil.STATUS_ZOMBIE and other.create_time() == started
    except psutil.NoSuchProcess:
        return False
