"""Record: the observations in one process of a script, plain values that travel as one JSON file."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Step:
    """One update of a model. A norm is the Euclidean norm over all parameters."""

    loss: float | None = None  # mean per item, at the last call of a loss function before the update
    lr: float = 0.0  # largest of the optimizer's groups
    backward_calls: int = 0
    backward_place: str = ""  # file:line of all backward calls of the step; empty if there are several places
    loss_share: float | None = None  # sum over the backward calls of (tensor that backward got) / (mean loss)
    stale: float | None = None  # norm of the gradients before the step's first backward call
    arrived: float | None = None  # norm of the gradients after the last backward call
    used: float | None = None  # norm of the gradients when the optimizer began its update
    batch: str = ""  # digest of the model's inputs
    wait_s: float | None = None  # from the end of the last update to the first forward pass
    whole_s: float | None = None  # from the end of the last update to the end of this one
    local_s: float | None = None  # of this, without collectives and without backward passes that contain some
    clips: list[str] = field(default_factory=list)  # moment of each clipping: before update, after update, scaled
    weights: float | None = None  # weighted sum over all weights after the update; equal for equal weights


@dataclass
class Layer:
    """One parameter of a model."""

    name: str
    shape: list[int]
    gain: float | None = None  # std of the first values times the root of the number of inputs
    called: bool = False  # its module ran in a training forward pass
    in_optimizer: bool = False
    backward_calls: int = 0  # that found a training forward pass of the model before them
    gradients: int = 0  # of these calls, after which the parameter had a gradient
    changed: bool | None = None  # between the first and the last look
    gradient: float | None = None  # norm at the last look
    update_ratio: float | None = None  # norm of the update / norm of the parameter, at the last look


@dataclass
class Model:
    """A module that the script calls directly, with the steps that update it."""

    name: str
    steps: list[Step] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    orphans: int = 0  # parameters in its optimizer that belong to no called module and get no gradient
    data_parallel: bool = False  # DistributedDataParallel, or collectives on the gradients
    # calls of the loss function
    classes: int | None = None
    first_loss: float | None = None
    loss_calls: int = 0
    probability_calls: int = 0  # of these, with inputs that are probabilities
    validation_losses: list[float] = field(default_factory=list)
    target_is_input: float | None = None  # share of targets equal to the input at the same position
    target_is_next: float | None = None  # share of targets equal to the input one position later
    sees_next: float | None = None  # largest change of an output when only a later input changes
    # modes
    training_calls: int = 0
    mode_layers: str = ""  # names of the layers whose mode matters, such as Dropout
    eval_after_train: int = 0  # training calls in evaluation mode, after one in training mode
    validation_calls: int = 0
    validation_in_train: int = 0
    # data
    rows: int = 0  # distinct rows of the training inputs
    contradictions: int = 0  # rows that came again with another label
    repeats: int = 0  # rows that came again
    probe: list[float] = field(default_factory=list)  # linear classifier: share right, share of the largest class
    overlap: float | None = None  # share of validation pieces that were in training inputs
    overlap_pieces: int = 0
    sequences: bool = False  # the pieces are parts of token sequences, some of which a language repeats
    reused: int = 0  # batches that lie where the batch before lies: the script keeps one tensor
    larger_data: bool = False  # a tensor in memory has the batch's kind of rows, and at least twice as many
    dead: dict[str, float] = field(default_factory=dict)  # share of units that are 0 for a whole batch, by layer


@dataclass
class Memory:
    """Memory after an update."""

    step: int
    nodes: int  # nodes of autograd's graph that live tensors hold
    resident: int  # bytes


@dataclass
class Failure:
    """The exception that ended a process, or the last lines that it wrote."""

    kind: str
    message: str
    place: str = ""  # file:line of the script


@dataclass
class Record:
    """All observations of one process."""

    pid: int = 0
    rank: int = 0
    ranks: int = 1
    models: list[Model] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    schedules: list[dict[str, Any]] = field(default_factory=list)  # name, calls, length (or None)
    anomaly_detection: bool = False
    collectives: int = 0  # begun
    calls: list[str] = field(default_factory=list)  # the last collectives begun, with their shapes
    in_collective: bool = False
    failure: Failure | None = None
    trouble: str = ""  # an error of an observer

    def main(self) -> Model | None:
        """Returns the model with the most updates, the first one of several."""
        trained = [model for model in self.models if model.steps]
        return max(trained, key=lambda model: len(model.steps), default=None)


def write(record: Record, file: Path) -> None:
    """Writes the record; a reader sees the old file or the new one, never a part."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(dataclasses.asdict(record)), encoding="utf-8")
    partial.replace(file)


def read(file: Path) -> Record:
    """Returns the record in a file of `write`."""
    values = json.loads(file.read_text(encoding="utf-8"))
    models = [
        Model(
            **{
                **model,
                "steps": [Step(**step) for step in model["steps"]],
                "layers": [Layer(**layer) for layer in model["layers"]],
            }
        )
        for model in values["models"]
    ]
    memory = [Memory(**entry) for entry in values["memory"]]
    failure = Failure(**values["failure"]) if values["failure"] else None
    return Record(**{**values, "models": models, "memory": memory, "failure": failure})
