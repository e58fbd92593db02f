"""Lab 16: a clinic of training runs, each ill with one cause. You see symptoms, name the cause, and cure the run.

Read `examine`, `run_one` and `commit` first: how a patient runs beside its healthy twin, what ends a loud patient, and
what your diagnosis is compared with. The patients are in patients/, a file each.

    python clinic.py                    # the ward: every patient that needs one process; half a minute on two CPU cores
    python clinic.py 07                 # all symptoms of one patient
    python clinic.py --causes           # the causes to choose from
    python clinic.py 07 --cause KEY     # your diagnosis
"""

import argparse
import importlib.util
import os
import sys
import threading
import time
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from rankzero.curriculum import ROOT
from rankzero.errors import UserError
from rankzero.learn.distributed.world import WorldError, run_world
from rankzero.learn.machine.device import choose_device, device_name
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.runs.options import StarterParser, non_negative_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.training_options import run_starter
from rankzero.learn.runs.twin_report import HEADING, Case, Run, details, draw, last_collectives, row, write_log
from rankzero.triage.causes import CAUSES

FOLDER, SOLUTIONS = (ROOT / part / "lab-16-debugging-clinic" for part in ("code", "solutions"))
PATIENTS = sorted(file.stem[-2:] for file in (FOLDER / "patients").glob("patient_*.py"))
OF_RANKS = PATIENTS[20:]
RANKS, PATIENCE_S = 2, 8.0  # processes of a patient of several ranks, and seconds after which such a run has hung
os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")  # collectives that torch's flight recorder keeps, on each rank


def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 16: training runs that are ill: see the symptoms, name the cause.")
    add = parser.add_argument
    add("patient", nargs="?", help="number of one patient, 01 to 24 (default: all that need one process)")
    add("--cause", metavar="KEY", help="your diagnosis of this patient, a key that --causes lists")
    add("--causes", action="store_true", help="list the causes to choose from")
    add("--quick", action="store_true", help="a third of the steps: shows that all runs, and fewer symptoms")
    add("--seed", type=non_negative_int, default=0, help="of the weights and of the batches")
    add("--device", default="cpu", help="auto, cpu, cuda, cuda:N or mps; patients of several ranks run on the CPU")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    parser.set_defaults(resume=None, checkpoint=None)
    return parser


# ---------------------------------------------------------------------------------------------------------- a patient
def load(file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def patient_module(number: str) -> ModuleType:
    return load(FOLDER / "patients" / f"patient_{number}.py", f"patient_{number}")


def cure_of(number: str) -> Callable[..., Any]:
    """The patient's `train` without its illness, from the solutions. `rankzero run 16 --mine` takes the learner's."""
    cure: Callable[..., Any] = getattr(load(SOLUTIONS / "exercises.py", "clinic_solutions"), f"cure_{number}")
    return cure


def setup_of(number: str, seed: int, device: str, quick: bool) -> dict[str, Any]:
    """The arguments of a patient's `train`, made for each run: a run changes the model that it gets."""
    arguments = patient_module(number).setup(seed, device)
    length = "steps" if "steps" in arguments else "epochs"
    return arguments | {length: -(-arguments[length] // 3)} if quick else arguments


def run_one(train: Callable[..., Any], number: str, options: argparse.Namespace) -> Run:
    try:
        log = train(**setup_of(number, options.seed, options.device, options.quick))
        return Run([{name: plain(values) for name, values in log.items()}])
    except NotImplementedError:  # an exercise that is not written yet
        raise
    except Exception as error:  # a loud patient
        frame = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if "patient_" in f.filename), None)
        where = f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}\n" if frame else ""
        return Run(error=f"{where}{type(error).__name__}: {error}")


def plain(values: Any) -> list[float]:
    """The numbers of a series; none of the device `meta`, which has shapes only."""
    return [] if isinstance(values, torch.Tensor) and values.device.type == "meta" else [float(v) for v in values]


# ------------------------------------------------------------------------------------------------------ several ranks
def run_ranks(train: Callable[..., Any] | None, number: str, options: argparse.Namespace, folder: Path) -> Run:
    """Runs `train`, or else the patient's own, on each of RANKS ranks."""
    try:
        arguments = number, options.seed, options.quick, train, folder.resolve()
        return Run(run_world(on_rank, RANKS, *arguments, seconds=PATIENCE_S))
    except WorldError as error:
        dumps = [f"rank {file.stem[-1]}\n{last_collectives(file)}" for file in sorted(folder.glob("rank-*.json"))]
        recorder = "\n".join(["", "the last collectives, by torch's flight recorder:", *dumps]) if dumps else ""
        return Run(error=f"{error}{recorder}")


def on_rank(number: str, seed: int, quick: bool, train: Callable[..., Any] | None, folder: Path) -> Any:
    torch.set_num_threads(1)
    arguments = setup_of(number, seed, "cpu", quick)
    alarm = threading.Timer(PATIENCE_S - 3, dump_collectives, (folder / f"rank-{dist.get_rank()}.json",))
    alarm.daemon = True
    alarm.start()  # a rank that hangs in a collective cannot dump anything itself
    log = (train or patient_module(number).train)(**arguments)
    alarm.cancel()
    return log


def dump_collectives(file: Path) -> None:
    """Writes what torch's flight recorder knows of this rank: every collective, with its group, number and shapes."""
    from torch._C._distributed_c10d import _dump_fr_trace_json  # type: ignore[attr-defined]

    file.write_bytes(_dump_fr_trace_json())


# --------------------------------------------------------------------------------------------------------- the symptom
def examine(number: str, options: argparse.Namespace, folder: Path) -> Case:
    """Runs a patient, then its twin, with the same seed."""
    patient = patient_module(number)
    complaint = (patient.__doc__ or "").partition(": ")[2].strip()
    if number in OF_RANKS:
        runs = [run_ranks(train, number, options, folder) for train in (None, cure_of(number))]
    else:
        runs = [run_one(train, number, options) for train in (patient.train, cure_of(number))]
    return Case(number, complaint, patient.SYMPTOM, *runs)


# ------------------------------------------------------------------------------------------------------- the diagnosis
def commit(number: str, key: str) -> int:
    """Says whether `key` is the patient's cause, and why; exit code 0 if it is."""
    if key not in CAUSES:
        raise UserError(f"{key!r} is no cause: clinic.py --causes lists them.")
    diagnosis = tomllib.loads((SOLUTIONS / "diagnoses.toml").read_text(encoding="utf-8"))[number]
    if key == diagnosis["cause"]:
        print(f"Right: {CAUSES[key].meaning}.\n{diagnosis['why']}\nThe sign: {diagnosis['symptom']}.")
        print(f"\nCure it in work/ and check the cure: rankzero check 16 cure_{number}")
        return 0
    fine = diagnosis["fine"].get(key, "Nothing in this script does that, and it would show another symptom.")
    print(f"No: not {key}.\n{fine}\n\nLook at the symptoms again: clinic.py {number}")
    return 1


def train(options: argparse.Namespace, saved: object) -> int:
    """Examines the patients, or judges a diagnosis; returns the exit code."""
    if options.causes:
        print("\n".join(f"{key:<32}{cause.meaning}" for key, cause in CAUSES.items()))
        return 0
    if options.patient not in (None, *PATIENTS):
        raise UserError(f"patient {options.patient!r} is not in this clinic: name one of 01 to {PATIENTS[-1]}.")
    if options.cause:
        if options.patient is None:
            raise UserError("--cause needs a patient: clinic.py 07 --cause KEY.")
        return commit(options.patient, options.cause)
    device = choose_device(options.device)
    options.device = str(device)
    torch.set_num_threads(1)  # the models are small: a second thread would only wait
    folder, began = new_run_folder(options.out, "lab-16"), time.perf_counter()
    numbers = [options.patient] if options.patient else [n for n in PATIENTS if n not in OF_RANKS]
    print(f"device  {device} ({device_name(device)})")
    print(f"run     {len(numbers)} of {len(PATIENTS)} patients, each beside its healthy twin, seed {options.seed}")
    print(f"\n{HEADING}", flush=True)
    cases = []
    for number in numbers:
        cases.append(examine(number, options, folder))
        print(row(cases[-1]), flush=True)
    write_log(folder / "log.jsonl", cases, {"seed": options.seed, "quick": options.quick} | fingerprint(device))
    picture = folder / (f"patient-{options.patient}.png" if options.patient else "ward.png")
    draw(cases).savefig(picture, dpi=110)
    if options.patient:
        print(f"\n{details(cases[0])}\n\ndiagnosis   clinic.py {options.patient} --cause KEY (--causes lists them)")
    else:
        print(f"\nin full     clinic.py 07; of several ranks: {', '.join(OF_RANKS)}")
    print(f"files       {picture}, {folder / 'log.jsonl'}\ntime        {time.perf_counter() - began:.0f} s")
    return 0


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab="lab-16")


if __name__ == "__main__":
    sys.exit(main())
