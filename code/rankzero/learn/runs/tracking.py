"""Tracking of runs in MLflow: parameters, metrics by step and files, in a store beside the run folders.

Any starter tracks its run with `--track mlflow`. The run appears in MLflow when the starter has made its run's folder,
and gets what the folder's log.jsonl gets, under the same names. No other file knows MLflow, which the extra `tracking`
installs.
"""

import argparse
import fcntl
import importlib.util
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rankzero.errors import UserError

STORE, ARTIFACTS = "mlflow.db", "mlflow-artifacts"  # in the folder of --out
RUN_ID = ".mlflow-run"  # in a run's folder: by it, a resumed run goes on in MLflow
KIND = {"mlflow.experimentKind": "custom_model_development"}  # MLflow's page then shows training, and no chats
KEPT = {".jsonl", ".json", ".png", ".txt", ".html"}  # files of a run's folder that become artifacts
LOG = "log"
AT_ONCE = 500  # metrics per request; MLflow takes 1,000
_run: "_Run | None" = None  # of this process


def check_tracking(options: argparse.Namespace) -> None:
    """UserError if the run is to be tracked and MLflow is not installed."""
    if options.track and importlib.util.find_spec("mlflow") is None:
        advice = "install it with .venv/bin/pip install --editable '.[tracking]', or leave --track out."
        raise UserError(f"--track {options.track} needs MLflow, which is not installed: {advice}")


def call_tracked(train: Callable[..., Any], lab: str, options: argparse.Namespace, *others: Any) -> Any:
    """Returns train(options, *others), an exit code or None; with `--track mlflow`, tracks the call as a run of MLflow.

    The run's status becomes FINISHED, KILLED (by Ctrl-C or SIGTERM) or FAILED. Of several ranks, rank 0 alone tracks.
    """
    global _run
    if not options.track or os.environ.get("RANK", "0") != "0" or _is_other_rank():
        return train(options, *others)
    _run, status = _Run(options, lab, *others), "FAILED"
    try:
        code = train(options, *others)
        status = "FINISHED" if not code else "KILLED" if code > 128 else "FAILED"
        return code
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        run, _run = _run, None
        run.end(status)


def track_folder(folder: Path) -> None:
    """Begins to track the run whose folder was just made, if this process tracks its run."""
    if _run:
        _run.begin(folder)


def track_log() -> None:
    """Sends to MLflow what the log has gained, if this process tracks its run."""
    if _run:
        _run.jobs.put(LOG)


def _is_other_rank() -> bool:
    import torch.distributed as dist

    return dist.is_initialized() and dist.get_rank() != 0


class _Run:
    """One run in MLflow, and how much of its folder's log MLflow has.

    A thread talks to MLflow, so that neither a step nor another rank waits for its import and for its tables. Where
    MLflow fails, one sentence says so, and the run goes on without it.
    """

    def __init__(self, options: argparse.Namespace, lab: str, saved: Any = None, *others: Any) -> None:
        self.options, self.lab, self.store = options, lab, options.out / STORE
        self.resumed_from = Path(saved["path"]) if isinstance(saved, dict) and "path" in saved else None
        self.folder: Path | None = None
        self.read = self.last_step = 0  # bytes of the log; step up to which MLflow has metrics
        self.jobs = queue.SimpleQueue[str]()  # LOG, or the status with which the run ends
        self.thread = threading.Thread(target=self._work, daemon=True)

    def begin(self, folder: Path) -> None:
        """Makes the run in MLflow, or goes on with the run from which this run resumes."""
        if not self.folder:  # a folder may be made, then claimed
            self.folder = folder
            self.thread.start()

    def end(self, status: str) -> None:
        """Sends the rest of the log and the files, and ends the run in MLflow."""
        if self.folder:  # or the starter ended before it had one
            self.jobs.put(status)
            self.thread.join()

    def _work(self) -> None:
        try:
            self._open()
            while (job := self.jobs.get()) == LOG:
                self._send_log()
            self._close(job)
        except Exception as error:  # of MLflow, of its database, or of the disk
            reason = str(error).splitlines()[0]
            print(
                f"--track mlflow has stopped, and the run goes on: {self.store}: {reason}", file=sys.stderr, flush=True
            )

    def _open(self) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)  # or they print how tables are made
        with self.store.with_name(f".{STORE}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two processes would both make the tables
            self.client = MlflowClient(tracking_uri=f"sqlite:///{self.store}")
            experiment = self.client.get_experiment_by_name(self.lab)
            artifacts = self.store.with_name(ARTIFACTS).absolute().as_uri()
            number = (
                experiment.experiment_id if experiment else self.client.create_experiment(self.lab, artifacts, KIND)
            )
        assert self.folder
        self.run_id = self._earlier_run() or self.client.create_run(number, run_name=self.folder.name).info.run_id
        (self.folder / RUN_ID).write_text(self.run_id, encoding="utf-8")
        self._send_parameters()

    def _earlier_run(self) -> str | None:
        """Returns the id of the run that is resumed, if this store has it, and notes its last step."""
        from mlflow.exceptions import MlflowException

        places = [self.folder, *(self.resumed_from.parents[:2] if self.resumed_from else ())]
        for file in (place / RUN_ID for place in places if place):
            if not file.is_file():
                continue
            run_id = file.read_text(encoding="utf-8")
            try:
                self.client.update_run(run_id, status="RUNNING")
            except MlflowException:
                continue  # a run of another store
            self.last_step = max((metric.step for metric in self.client.get_metric_history(run_id, "loss")), default=0)
            return run_id
        return None

    def _send_parameters(self) -> None:
        """Sends the options. MLflow never changes a parameter: one that a resumed run changes becomes a tag."""
        before = self.client.get_run(self.run_id).data.params
        for name, value in vars(self.options).items():
            if value is None or name in ("track", "resume", "folder"):
                continue
            if name not in before:
                self.client.log_param(self.run_id, name, value)
            elif before[name] != str(value):
                self.client.set_tag(self.run_id, f"resumed.{name}", str(value))

    def _send_log(self) -> None:
        """Sends the numbers of each complete new line of the log that has a step."""
        assert self.folder
        log = self.folder / "log.jsonl"
        if not log.is_file():
            return
        from mlflow.entities import Metric

        with log.open("rb") as file:
            file.seek(self.read)
            lines = [line for line in file if line.endswith(b"\n")]
        self.read += sum(map(len, lines))
        now = int(1000 * time.time())
        events = [event for line in lines if (event := json.loads(line)).get("step", 0) > self.last_step]
        metrics = [Metric(name, number, now, event["step"]) for event in events for name, number in numbers_of(event)]
        for first in range(0, len(metrics), AT_ONCE):
            self.client.log_batch(self.run_id, metrics=metrics[first : first + AT_ONCE])

    def _close(self, status: str) -> None:
        assert self.folder
        self._send_log()
        for file in sorted(self.folder.iterdir()):
            if file.suffix in KEPT and not file.name.startswith("."):
                self.client.log_artifact(self.run_id, str(file), self.folder.name)
        self.client.set_terminated(self.run_id, status)
        look = f"mlflow ui --backend-store-uri sqlite:///{self.store}"
        print(f"tracked as {self.folder.name}, {status}: {look}", flush=True)


def numbers_of(event: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields name and value of each number of an event of a log. Numbers in a list or dict get name.key.

    A window's loss is left out: it is the mean of the losses of its steps, which have the same name.
    """
    for name, value in event.items():
        if name in ("event", "step") or (name == "loss" and event["event"] == "window"):
            continue
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, number in [(name, value), *((f"{name}.{key}", part) for key, part in parts)]:
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield key, float(number)
