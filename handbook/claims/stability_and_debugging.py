"""Claims of handbook/stability-and-debugging.md."""

import math
import statistics
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.kept_bytes import kept_tensors
from rankzero.claims.toolkit.starters import starter
from rankzero.curriculum import find_lab
from rankzero.triage import process
from rankzero.triage.judge import judge


def run(number: str, *, cured: bool = False, **changes: Any) -> dict[str, list[float]]:
    """The log of a patient of Lab 16, or of its healthy twin, with other arguments where `changes` has them."""
    clinic, threads = starter("16"), torch.get_num_threads()
    torch.set_num_threads(1)  # a second thread makes such small models slower
    arguments: dict[str, Any] = clinic.setup_of(number, 0, "cpu", False) | changes
    train = clinic.cure_of(number) if cured else clinic.patient_module(number).train
    log: dict[str, list[float]] = train(**arguments)
    torch.set_num_threads(threads)
    return log


def end(values: list[float]) -> float:
    """The mean of the last tenth."""
    return statistics.fmean(values[-max(1, len(values) // 10) :])


def line(values: list[float], every: int) -> list[Point]:
    return [(place + 1, values[place], values[place], values[place]) for place in range(0, len(values), every)]


@claim(
    "clinic-first-losses",
    "Of the GPTs in Lab 16's clinic, the healthy ones begin at {expected[healthy]:.2f} nats, near ln 96 = "
    "{expected[ln 96]:.2f}. A patient with too large weights begins at {expected[large weights]:.1f}, and a patient "
    "whose targets are its inputs at {expected[unshifted]:.2f}.",
    expected={"healthy": 4.53, "ln 96": 4.56, "large weights": 14.19, "unshifted": 4.16},
    tolerance=0.05,
    unit="nats per token",
)
def clinic_first_losses() -> Mapping[str, float]:
    """Takes one step of patient 09's twin, of patient 09 and of patient 12."""
    logs = {
        "healthy": run("09", cured=True, steps=1),
        "large weights": run("09", steps=1),
        "unshifted": run("12", steps=1),
    }
    return {name: log["loss"][0] for name, log in logs.items()} | {"ln 96": math.log(96)}


@claim(
    "random-data-finds-leaks",
    "On random tokens, which nobody can predict, a healthy model stays at {expected[healthy text]:.2f} nats, near ln "
    "96, and two models with a leak fall to {expected[unshifted]:.2f} and {expected[no mask]:.2f}. With random labels "
    "of ten classes, a healthy validation loss rises to {expected[healthy split]:.1f}, and one on training pictures "
    "falls to {expected[overlapping split]:.1f}.",
    expected={
        "healthy text": 4.57,
        "unshifted": 0.01,
        "no mask": 0.35,
        "healthy split": 4.6,
        "overlapping split": 0.5,
    },
    tolerance=0.3,
    unit="nats",
)
def random_data_finds_leaks() -> Charted:
    """Trains patients 12, 13 and 14, and the twins of 12 and 14, on random tokens or labels with seed 0."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(96, (100_000,), generator=generator)
    labels = torch.randint(10, (200,), generator=generator)
    logs = {
        "healthy text": run("12", cured=True, tokens=tokens)["loss"],
        "unshifted": run("12", tokens=tokens)["loss"],
        "no mask": run("13", tokens=tokens)["loss"],
        "healthy split": run("14", cured=True, labels=labels)["val_loss"],
        "overlapping split": run("14", labels=labels)["val_loss"],
    }
    lines = {name: line(values, max(1, len(values) // 40)) for name, values in logs.items()}
    chart = Chart("losses on data from which nothing can be learned", "step", "loss, nats", lines)
    return Charted({name: end(values) for name, values in logs.items()}, chart)


@claim(
    "noise-of-a-comparison",
    "The losses of two runs with different rates differ by a number whose standard deviation over the steps is "
    "{expected[other batches]:.2f} with other batches, and {expected[same batches]:.2f} with the same batches.",
    expected={"other batches": 0.29, "same batches": 0.11},
    tolerance=0.04,
    unit="nats per token",
)
def noise_of_a_comparison() -> Mapping[str, float]:
    """Trains a small GPT on batches of 8 by 32 tokens for 250 steps at rates of 0.01 and 0.005; uses the last 125."""
    first = run("01", cured=True, steps=250, lr=0.01)["loss"]
    seeds = {"same batches": 0, "other batches": 1}
    others = {name: run("01", cured=True, steps=250, lr=0.005, seed=seed)["loss"] for name, seed in seeds.items()}
    differences = {name: [a - b for a, b in zip(first, losses, strict=True)] for name, losses in others.items()}
    return {name: statistics.stdev(values[125:]) for name, values in differences.items()}


@claim(
    "softmax-floor",
    "If probabilities are given to cross_entropy, the loss of 10 classes cannot fall below {expected[10 classes]:.2f} "
    "nats, and that of 96 classes not below {expected[96 classes]:.2f}.",
    expected={"10 classes": 1.461, "96 classes": 3.582},
    tolerance=0.001,
    unit="nats",
)
def softmax_floor() -> Mapping[str, float]:
    """Gives cross_entropy the best probabilities, 1 for the right class and 0 for all others."""
    floors = {}
    for classes in (10, 96):
        probabilities = F.one_hot(torch.tensor([0]), classes).float()
        floors[f"{classes} classes"] = F.cross_entropy(probabilities, torch.tensor([0])).item()
    return floors


@claim(
    "memory-per-validation",
    "A validation that runs with autograd on, and whose loss is kept, keeps {expected:.2f} MiB for a CNN of 29,066 "
    "parameters and 360 pictures of 8 by 8 pixels.",
    expected=10.65,
    tolerance=0.05,
    unit="MiB per validation",
)
def memory_per_validation() -> float:
    """Adds up the different tensors, but for weights, that autograd keeps for one validation of patient 15."""
    arguments = starter("16").setup_of("15", 0, "cpu", False)
    model, size = arguments["model"], arguments["batch_size"]

    def validate() -> None:
        for x, y in zip(arguments["val_images"].split(size), arguments["val_labels"].split(size), strict=True):
            F.cross_entropy(model(x), y, reduction="sum")

    assert sum(parameter.numel() for parameter in model.parameters()) == 29_066
    kept = {tensor.data_ptr(): tensor.nbytes for tensor in kept_tensors(validate, left_out=model)}
    return sum(kept.values()) / 2**20


@claim(
    "summed-micro-batches-norm",
    "If the losses of 8 micro-batches are summed, the first gradient norm is {expected:.2f} times that of their mean.",
    expected=8.0,
    tolerance=0.01,
    unit="times",
)
def summed_micro_batches_norm() -> float:
    """Takes the first step of patient 02 and of its twin on the same batch."""
    return run("02", steps=1)["gradient_norm"][0] / run("02", cured=True, steps=1)["gradient_norm"][0]


def messages() -> dict[str, tuple[Any, str]]:
    """Actions that raise an error, each with words of its message."""
    x, w = torch.ones(2, 3), torch.ones(4, 5, requires_grad=True)
    saved = torch.ones(3, requires_grad=True)
    exponent = saved.exp()
    once = (saved * saved).sum()
    once.backward()

    def in_place() -> None:
        exponent.add_(1)
        exponent.sum().backward()

    return {
        "shapes": (lambda: x @ w, "shapes cannot be multiplied"),
        "sizes": (lambda: x + torch.ones(2, 2), "must match the size of tensor"),
        "devices": (lambda: nn.Linear(3, 3)(x.to("meta")), "device"),
        "no graph": (lambda: x.sum().backward(), "does not require grad and does not have a grad_fn"),
        "dtypes": (lambda: x.double() @ torch.ones(3, 3), "same dtype"),
        "label dtype": (lambda: F.cross_entropy(x, torch.ones(2)), "expected target dtype"),
        "label": (lambda: F.cross_entropy(x, torch.tensor([0, 3])), "out of bounds"),
        "twice": (once.backward, "backward through the graph a second time"),
        "in place": (in_place, "modified by an inplace operation"),
        "memory": (lambda: torch.empty(2**60), "memory"),
    }


@claim(
    "error-messages",
    "All {expected} error messages of the table appear as it quotes them.",
    expected=10,
    unit="messages",
)
def error_messages() -> int:
    """Provokes each error on the CPU, and counts the messages with the words of the table."""
    found = 0
    for action, words in messages().values():
        try:
            action()
        except (RuntimeError, IndexError, ValueError) as error:
            found += words in str(error)
    return found


# ------------------------------------------------------------------------------------------------------------- triage
TWIN = """
def train():
    from rankzero.curriculum import find_lab
    clinic = find_lab("16").import_starter()
    clinic.cure_of("{number}")(**clinic.patient_module("{number}").setup())

if __name__ == "__main__":
    if {ranks}:
        from rankzero.learn.distributed.world import run_world
        run_world(train, 2, seconds=60)
    else:
        train()
"""


def triage(script: Path) -> list[str]:
    """The causes that `rankzero triage` names for a script."""
    return judge(process.run(script, (), 200.0, lambda line: None).records).causes()


@claim(
    "triage-names-causes",
    "`rankzero triage` names the cause of {expected[patients]} of Lab 16's 24 patients first, and finds nothing in "
    "{expected[twins]} of their 24 healthy twins.",
    expected={"patients": 24, "twins": 24},
    tolerance=1,
    unit="scripts",
)
def triage_names_causes() -> Mapping[str, int]:
    """Runs each patient's script, and a script that trains its twin, as the command does, one after the other."""
    diagnoses = tomllib.loads((find_lab("16").reference.parent / "diagnoses.toml").read_text(encoding="utf-8"))
    named = healthy = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, diagnosis in diagnoses.items():
            twin = Path(folder, f"twin_{number}.py")
            twin.write_text(TWIN.format(number=number, ranks=number > "20"), encoding="utf-8")
            patient = find_lab("16").folder / "patients" / f"patient_{number}.py"
            named += triage(patient)[:1] == [diagnosis["cause"]]
            healthy += not triage(twin)
    return {"patients": named, "twins": healthy}
