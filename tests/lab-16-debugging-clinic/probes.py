"""Probes of Lab 16: each runs a learner's cure on a random model and random data, and returns its log as plain values.

Nothing is constant over seeds: sizes, depth, dtype, number of steps, learning rate. A log is read by name; what a cure
may do in several right ways (draw other batches, split other rows) is described by the batches that the model got.
`true loss` is computed here from the model's own outputs and the labels of the rows that it got.
"""

import copy
import math
import random
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import register_optimizer_step_pre_hook

from rankzero.exercises.probes.rank_probes import StuckRanksError, run_on_ranks
from rankzero.exercises.probes.untrusted_values import array, dict_items, flat, is_tensor, kind_text, plain_numbers
from rankzero.learn.models.gpt import GPT, GPTConfig

SECONDS = 4.0  # a world's time limit; a right cure takes a tenth of it on an idle machine
MOST = 2000  # numbers of a series that are read
F32, F64 = torch.float32, torch.float64


# ------------------------------------------------------------------------------------------------------ random inputs
class Draw(random.Random):
    """Random sizes, models and data of one probe."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(f"{name} {seed}")
        self.dtype = self.choice((F32, F64))
        self.torch_seed = self.randrange(2**31)

    def seed_weights(self) -> None:
        torch.manual_seed(self.torch_seed)

    def common(self, steps: tuple[int, int] = (7, 13), **others: Any) -> dict[str, Any]:
        """Arguments that nearly every cure has."""
        return {
            "steps": self.randrange(*steps),
            "batch_size": self.randrange(4, 10),
            "lr": self.uniform(0.01, 0.05),
            "seed": self.randrange(10**6),
        } | others

    def layers(self, inputs: int, classes: int, *, norm: bool, dropout: bool) -> list[nn.Module]:
        """A multi-layer perceptron of one or two hidden layers for pictures, with BatchNorm or dropout."""
        self.seed_weights()
        layers: list[nn.Module] = [nn.Flatten()]
        for _ in range(self.choice((1, 2))):
            width = self.randrange(6, 12)
            layers += [nn.Linear(inputs, width), *([nn.BatchNorm1d(width)] if norm else []), nn.ReLU()]
            layers += [nn.Dropout(self.uniform(0.2, 0.6))] if dropout else []
            inputs = width
        return [layer.to(self.dtype) for layer in (*layers, nn.Linear(inputs, classes))]

    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return self.choice((1, 2, 3)), self.randrange(3, 6), self.randrange(3, 6)

    def pictures(self, shape: tuple[int, ...], classes: int, count: int = 0) -> tuple[Tensor, Tensor]:
        """Different pictures [N, C, H, W] and labels [N] that depend on them."""
        numbers = np.random.default_rng(self.randrange(2**31))
        x = torch.from_numpy(numbers.normal(size=(count or self.randrange(24, 50), *shape)))
        y = (x.flatten(1) @ torch.from_numpy(numbers.normal(size=(int(np.prod(shape)), classes)))).argmax(dim=-1)
        return x.to(self.dtype), y

    def text(self, vocab: int, count: int = 0) -> Tensor:
        """Tokens [N]: each follows from the token before it and a random number of three."""
        tokens = [self.randrange(vocab)]
        for _ in range((count or self.randrange(300, 600)) - 1):
            tokens.append((5 * tokens[-1] + 1 + self.randrange(3)) % vocab)
        return torch.tensor(tokens)

    def gpt(self, vocab: int, block: int, *, dropout: bool) -> GPT:
        self.seed_weights()
        heads = self.choice((1, 2))
        shape = {"n_layer": self.choice((1, 2)), "n_head": heads, "hidden_dim": heads * self.choice((6, 8))}
        config = GPTConfig(vocab, block, dropout=self.uniform(0.05, 0.2) if dropout else 0.0, **shape)
        return GPT(config).to(self.dtype).train(not dropout)


def text_case(draw: Draw, *, dropout: bool = False, blocks: tuple[int, int] = (5, 12), **others: Any) -> dict[str, Any]:
    """Arguments of a cure that trains a GPT; with `dropout`, it is given in evaluation mode."""
    vocab, block = draw.randrange(11, 24), draw.randrange(*blocks)
    arguments = {"model": draw.gpt(vocab, block, dropout=dropout), "tokens": draw.text(vocab), "block_size": block}
    return arguments | draw.common(**others)


def picture_case(draw: Draw, *, norm: bool = False, dropout: bool = False, **others: Any) -> dict[str, Any]:
    """Arguments of a cure that trains a multi-layer perceptron; with `dropout`, it is given in evaluation mode."""
    shape, classes = draw.shape(), draw.randrange(3, 8)
    layers = draw.layers(int(np.prod(shape)), classes, norm=norm, dropout=dropout)
    x, y = draw.pictures(shape, classes)
    model = nn.Sequential(*layers).train(not dropout)
    return {"model": model, "images": x, "labels": y} | draw.common(**others)


def validated_case(draw: Draw, *, norm: bool, ranks: int = 1) -> dict[str, Any]:
    """Arguments of a cure with a validation every `every` steps, whose pictures do not divide by several ranks."""
    every = draw.randrange(2, 5)
    arguments = picture_case(draw, norm=norm, dropout=norm, steps=(3 * every, 4 * every + 2))
    images, labels = arguments["images"], arguments["labels"]
    count = draw.choice([count for count in range(11, len(images) - 8) if count % ranks or ranks == 1])
    return {
        **arguments,
        "every": every,
        "images": images[count:],
        "labels": labels[count:],
        "val_images": images[:count],
        "val_labels": labels[:count],
    }


# ------------------------------------------------------------------------------------------------------ plain answers
def series(log: Any, name: str) -> Any:
    """A series of a log as a list of numbers; a text for anything else."""
    items = dict_items(log)
    if items is None:
        return kind_text(log)
    value: Any = items.get(name)
    if is_tensor(value) and value.dim() == 1 and value.device.type == "cpu":
        return array(value[:MOST]).tolist()
    numbers = plain_numbers(value[:MOST]) if type(value) is list else None
    return kind_text(value) if numbers is None else numbers


def case_text(arguments: dict[str, Any]) -> str:
    """The sizes of a case, for a failure's sentence."""
    numbers = {name: value for name, value in arguments.items() if type(value) in (int, float)}
    return ", ".join(
        f"{name}={value:.3g}" if type(value) is float else f"{name}={value}" for name, value in numbers.items()
    )


def trained(
    learner: ModuleType, name: str, arguments: dict[str, Any], names: tuple[str, ...], *models: nn.Module
) -> Any:
    """Calls a cure; returns the series of its log, and all weights and buffers afterwards."""
    torch.manual_seed(arguments["seed"] + 1)  # of dropout
    log = getattr(learner, name)(**arguments)
    tensors = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
    answers: dict[str, Any] = {series_name: series(log, series_name) for series_name in names}
    return answers | {"case": case_text(arguments), "weights": flat(tensors)}


def without_hooks(model: nn.Module) -> nn.Module:
    """Returns a copy of a model without its hooks."""
    copied = copy.copy(model)
    copied._forward_hooks, copied._forward_pre_hooks = OrderedDict(), OrderedDict()
    return copy.deepcopy(copied)


class Seen:
    """The batches that a model gets: the rows of `data` that they hold, and the outputs."""

    def __init__(self, model: nn.Module, data: Tensor) -> None:
        self.numbers = {self.key(row): number for number, row in enumerate(data)}
        self.batches: list[tuple[list[int], Tensor, bool]] = []  # rows, outputs, whether gradients are recorded
        self.modes: list[tuple[bool, bool]] = []  # whether gradients are recorded, whether the model trains
        model.register_forward_hook(self.note)

    @staticmethod
    def key(row: Tensor) -> bytes:
        return row.detach().cpu().numpy().tobytes()

    def note(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        rows = [self.numbers.get(self.key(row), -1) for row in inputs[0]]
        self.batches.append((rows, output.detach().clone(), torch.is_grad_enabled() and module.training))
        self.modes.append((torch.is_grad_enabled(), module.training))

    def losses(self, labels: Tensor, *, training: bool) -> list[float]:
        """The mean loss of each batch, with the labels of its own rows."""
        chosen = [(rows, output) for rows, output, grad in self.batches if grad == training]
        return [F.cross_entropy(output, labels[rows]).item() for rows, output in chosen]


def replayed(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[Tensor, Tensor]],
    rates: Sequence[float] = (),
    clip: float = math.inf,
) -> np.ndarray:
    """Trains `model` on these inputs and targets, a step per batch, with these rates, if any, and clipped gradients.

    On several ranks, with the mean gradient.
    """
    model.train()
    for place, (x, y) in enumerate(batches):
        if place < len(rates):
            optimizer.param_groups[0]["lr"] = rates[place]
        output = model(x)
        optimizer.zero_grad()
        F.cross_entropy(output.reshape(y.numel(), -1), y.flatten()).backward()
        for parameter in model.parameters() if dist.is_initialized() else ():
            dist.all_reduce(parameter.grad)
            assert parameter.grad is not None
            parameter.grad /= dist.get_world_size()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return flat(model.parameters())


# --------------------------------------------------------------------------- patients of one process: one right result
def cure_01(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = text_case(Draw("01", seed), dropout=True)
    return trained(learner, "cure_01", arguments, ("loss", "gradient_norm"), arguments["model"])


def cure_02(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("02", seed)
    accumulate = draw.randrange(2, 5)
    arguments = picture_case(draw, dropout=True, accumulate=accumulate, batch_size=accumulate * draw.randrange(2, 5))
    return trained(learner, "cure_02", arguments, ("loss", "gradient_norm"), arguments["model"])


def cure_03(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = validated_case(Draw("03", seed), norm=True)
    return trained(learner, "cure_03", arguments, ("loss", "val_loss"), arguments["model"])


def cure_04(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = validated_case(Draw("04", seed), norm=True)
    return trained(learner, "cure_04", arguments, ("loss", "val_loss"), arguments["model"])


def cure_05(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = picture_case(Draw("05", seed), dropout=True)
    return trained(learner, "cure_05", arguments, ("loss", "accuracy"), arguments["model"])


def cure_07(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = picture_case(Draw("07", seed), dropout=True)
    layers, old = list(arguments["model"])[:-1], arguments["model"][-1]
    torch.manual_seed(seed)
    arguments["head"] = nn.Linear(old.in_features, old.out_features).to(old.weight.dtype)
    return trained(learner, "cure_07", arguments, ("loss",), *layers, arguments["head"])


def cure_08(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = picture_case(Draw("08", seed))
    *layers, head = arguments.pop("model")
    arguments |= {"encoder": nn.Sequential(*layers[:-1]), "head": head}
    return trained(learner, "cure_08", arguments, ("loss", "feature_norm"), arguments["encoder"], head)


def cure_12(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = text_case(Draw("12", seed), dropout=True)
    return trained(learner, "cure_12", arguments, ("loss",), arguments["model"])


def cure_13(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("13", seed)
    draw.dtype = F64  # Adam enlarges the rounding of small gradients, and fused attention rounds in another order
    arguments, width = text_case(draw), draw.randrange(6, 12)
    vocab = arguments["model"].config.vocab_size
    draw.seed_weights()
    layers: dict[str, nn.Module] = {
        "tokens": nn.Embedding(vocab, width),
        "places": nn.Embedding(arguments["block_size"], width),
    }
    layers |= {
        "qkv": nn.Linear(width, 3 * width, bias=False),
        "out": nn.Linear(width, width),
        "head": nn.Linear(width, vocab),
    }
    arguments["model"] = nn.ModuleDict(layers).to(draw.dtype)
    return trained(learner, "cure_13", arguments, ("loss",), arguments["model"])


def cure_17(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("17", seed)
    arguments, (channels, height, width) = picture_case(draw), draw.shape()
    classes, features = draw.randrange(3, 8), draw.randrange(2, 5)
    draw.seed_weights()
    del arguments["model"]
    body = nn.Sequential(nn.Conv2d(channels, features, 3, padding=1), nn.ReLU()).to(draw.dtype)
    head = nn.Linear(features * height * width, classes).to(draw.dtype)
    arguments["images"], arguments["labels"] = draw.pictures((channels, height, width), classes)
    arguments |= {"body": body, "head": head}
    return trained(learner, "cure_17", arguments, ("loss",), body, head)


def cure_19(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("19", seed)
    arguments = picture_case(draw, views=draw.randrange(2, 5))
    return trained(learner, "cure_19", arguments, ("loss",), arguments["model"])


def cure_20(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("20", seed)
    draw.dtype = F32
    arguments = picture_case(draw)
    pictures = (20 * arguments.pop("images").double().numpy() + 100).round()
    arguments["pictures"] = pictures.astype(draw.choice(("uint8", "int16", "float64")))
    arguments["labels"] = arguments["labels"].numpy().astype(draw.choice(("uint8", "int32", "int64")))
    answers = trained(learner, "cure_20", arguments, ("loss",), arguments["model"])
    return answers | {"dtypes": sorted({str(parameter.dtype) for parameter in arguments["model"].parameters()})}


# ----------------------------------------------------------------------- patients of one process: several right results
def cure_06(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`lr` has the optimizer's rate at each update."""
    draw = Draw("06", seed)
    arguments = picture_case(draw)
    del arguments["steps"]
    arguments["epochs"] = draw.choice((3, 4, 6))  # 5 is the default of `total_iters`
    model, images, labels = copy.deepcopy(arguments["model"].eval()), arguments["images"], arguments["labels"].clone()
    seen = Seen(arguments["model"], images)
    rates: list[float] = []

    def note(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        rates.append(float(optimizer.param_groups[0]["lr"]))

    handle = register_optimizer_step_pre_hook(note)
    try:
        answers = trained(learner, "cure_06", arguments, ("loss",), arguments["model"])
    finally:
        handle.remove()
    batches = [(images[rows], labels[rows]) for rows, _, grad in seen.batches if grad]
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments["lr"], momentum=0.9)
    again = replayed(model, optimizer, batches[:MOST], rates)
    return answers | {
        "replayed weights": again,
        "lr": np.array(rates),
        "fall": arguments["lr"] / arguments["epochs"],
    }


def cure_09(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`first` and `last` are losses, `spread` the standard deviation of the first logits."""
    draw = Draw("09", seed)
    arguments = text_case(draw, blocks=(9, 14), steps=(25, 36), lr=draw.uniform(0.008, 0.012))
    half = arguments["model"].eval().config.vocab_size // 2  # of the tokens, all alike: no window occurs twice
    arguments["tokens"] = torch.tensor([draw.randrange(half) for _ in range(draw.randrange(300, 600))])
    windows = arguments["tokens"].unfold(0, arguments["block_size"] + 1, 1)
    seen = Seen(arguments["model"], windows[:, :-1])
    starts: list[nn.Module] = []
    arguments["model"].register_forward_pre_hook(
        lambda module, inputs: starts.append(without_hooks(module)) if not starts else None
    )
    shapes: list[str] = []
    spreads: list[float] = []

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        shapes.append(f"{list(inputs[0].shape)} to {list(output.shape)}")
        spreads.append(output.detach().double().std().item())

    arguments["model"].register_forward_hook(note)
    answers = trained(learner, "cure_09", arguments, ("loss",), arguments["model"])
    loss = answers["loss"] if isinstance(answers["loss"], list) else []
    numbers = [value for value in loss if type(value) is float]
    again = np.empty(0)
    if starts:
        optimizer = torch.optim.AdamW(starts[0].parameters(), lr=arguments["lr"], weight_decay=0.01)
        batches = [(windows[rows, :-1], windows[rows, 1:]) for rows, _, grad in seen.batches if grad and -1 not in rows]
        again = replayed(starts[0], optimizer, batches[:MOST], clip=1.0)
    whole = bool(loss) and len(numbers) == len(loss)
    return {
        "case": answers["case"],
        "batches": shapes[:MOST],
        "count": len(loss),
        "first": numbers[0] if whole else None,
        "last": float(np.mean(numbers[-5:])) if whole else None,
        "spread": spreads[0] if spreads else None,
        "weights": answers["weights"],
        "replayed weights": again,
        "uniform": float(np.log(arguments["model"].config.vocab_size)),
    }


def cure_10(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`rows` has the rows of each batch."""
    draw = Draw("10", seed)
    arguments = picture_case(draw, dropout=True)
    size = arguments["batch_size"]
    whole_batches = len(arguments["images"]) // size - draw.randrange(2)  # and no picture or one beyond them
    for name in ("images", "labels"):
        arguments[name] = arguments[name][: whole_batches * size + seed % 2]
    del arguments["steps"]
    arguments["epochs"] = draw.randrange(2, 5)
    seen, labels = Seen(arguments["model"], arguments["images"]), arguments["labels"].clone()
    answers = trained(learner, "cure_10", arguments, ("loss",), arguments["model"])
    per_epoch = len(labels) // arguments["batch_size"]
    whole = [rows for rows, _, _ in seen.batches][:MOST]
    return {
        "case": answers["case"],
        "loss": answers["loss"],
        "first epoch": answers["loss"][:per_epoch] if isinstance(answers["loss"], list) else answers["loss"],
        "true loss": seen.losses(labels, training=True),
        "rows": whole,
    }


def cure_11(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`different` counts the different training batches."""
    draw = Draw("11", seed)
    arguments = text_case(draw, steps=(8, 16))
    model = copy.deepcopy(arguments["model"].eval())
    vocab, block = model.config.vocab_size, arguments["block_size"]
    arguments["tokens"] = torch.tensor([draw.randrange(vocab) for _ in range(draw.randrange(300, 600))])
    arguments["val_tokens"] = draw.text(vocab, draw.randrange(3 * block, 6 * block))
    windows = arguments["tokens"].unfold(0, block + 1, 1)
    val_windows = arguments["val_tokens"].unfold(0, block + 1, block)
    training = Seen(arguments["model"], windows[:, :-1])
    outputs: list[Tensor] = []
    arguments["model"].register_forward_hook(
        lambda module, inputs, output: None if module.training else outputs.append(output.detach().clone())
    )
    answers = trained(learner, "cure_11", arguments, ("loss", "val_loss"), arguments["model"])
    batches = [(rows, output) for rows, output, grad in training.batches if grad]
    right = val_windows[:, 1:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments["lr"])
    again = replayed(model, optimizer, [(windows[rows, :-1], windows[rows, 1:]) for rows, _ in batches[:MOST]])
    return {
        "weights": answers["weights"],
        "replayed weights": again,
        "case": answers["case"],
        "loss": answers["loss"],
        "true loss": [
            F.cross_entropy(output.flatten(0, 1), windows[rows, 1:].flatten()).item() for rows, output in batches
        ],
        "shapes": [list(output.shape) for _, output in batches],
        "outside": sum(rows.count(-1) for rows, _ in batches),
        "different": len({tuple(rows) for rows, _ in batches}),
        "val_loss": answers["val_loss"],
        "true val_loss": [
            F.cross_entropy(output.flatten(0, 1), right.flatten()).item() if output.shape[:2] == right.shape else None
            for output in outputs
        ],
    }


def cure_14(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`train rows` and `val rows` are the different rows of all training and of all validation batches."""
    draw = Draw("14", seed)
    arguments = picture_case(draw)
    model = copy.deepcopy(arguments["model"].eval())
    del arguments["steps"]
    arguments |= {"epochs": draw.randrange(2, 5), "held_out": draw.randrange(4, 11)}
    images = arguments["images"].clone()
    seen, labels = Seen(arguments["model"], arguments["images"]), arguments["labels"].clone()
    answers = trained(learner, "cure_14", arguments, ("loss", "val_loss"), arguments["model"])
    parts = {
        name: np.array(
            sorted({row for rows, _, grad in seen.batches if grad == training for row in rows}), dtype=np.int64
        )
        for name, training in (("train rows", True), ("val rows", False))
    }
    validations = [(rows, output) for rows, output, grad in seen.batches if not grad]
    per_epoch = max(1, len(validations) // arguments["epochs"])
    true = []
    for first in range(0, len(validations), per_epoch):
        group = validations[first : first + per_epoch]
        rows = [row for batch, _ in group for row in batch]
        true.append(F.cross_entropy(torch.cat([output for _, output in group]), labels[rows]).item())
    batches = [(images[rows], labels[rows]) for rows, _, grad in seen.batches if grad]
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments["lr"])
    return {
        "weights": answers["weights"],
        "replayed weights": replayed(model, optimizer, batches[:MOST]),
        "case": answers["case"],
        "pictures": len(labels),
        "held out": arguments["held_out"],
        "batch size": arguments["batch_size"],
        **parts,
        "loss": answers["loss"],
        "true loss": seen.losses(labels, training=True),
        "val_loss": answers["val_loss"],
        "true val_loss": true,
        "val modes": sorted({"training" if training else "evaluation" for grad, training in seen.modes if not grad}),
    }


class Kept:
    """A tensor that a graph keeps for its backward pass."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


@contextmanager
def kept_tensors() -> Iterator[Callable[[], int]]:
    """Counts the tensors that graphs keep at this moment."""
    alive: weakref.WeakSet[Kept] = weakref.WeakSet()

    def pack(tensor: Tensor) -> Kept:
        kept = Kept(tensor.detach())  # with its graph, the graph would keep itself
        alive.add(kept)
        return kept

    with saved_tensors_hooks(pack, lambda kept: kept.tensor):
        yield lambda: len(alive)


def cure_15(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`memory_mib` gives a random number each time, plus the number of tensors that graphs keep."""
    draw = Draw("15", seed)
    arguments = validated_case(draw, norm=False)
    base = [draw.uniform(100, 200) for _ in range(20)]
    asked: list[float] = []
    with kept_tensors() as count:
        model = copy.deepcopy(arguments["model"])
        batches = arguments["val_images"].split(arguments["batch_size"])
        outputs = [F.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.long)) for x in batches]
        one = count()
        del outputs

        def memory_mib() -> float:
            asked.append(base[len(asked) % len(base)] + count())
            return asked[-1]

        arguments["memory_mib"] = memory_mib
        answers = trained(learner, "cure_15", arguments, ("loss", "val_loss", "memory"), arguments["model"])
    return answers | {"base": base, "one": one, "validations": arguments["steps"] // arguments["every"]}


def cure_16(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`encoded` counts the characters that `encode` got."""
    draw = Draw("16", seed)
    arguments = text_case(draw)
    text = "".join(chr(97 + token) for token in arguments.pop("tokens").tolist())
    encoded: list[int] = []

    def encode(part: str) -> Tensor:
        encoded.append(len(part))
        return torch.tensor([ord(letter) - 97 for letter in part])

    arguments |= {"text": text, "encode": encode}
    answers = trained(learner, "cure_16", arguments, ("loss", "waiting"), arguments["model"])
    windows = arguments["steps"] * arguments["batch_size"] * (arguments["block_size"] + 1)
    return answers | {"encoded": sum(encoded), "enough": len(text) + windows}


def cure_18(learner: ModuleType, seed: int) -> dict[str, Any]:
    """On the CPU."""
    arguments = picture_case(Draw("18", seed), device="cpu")
    return trained(learner, "cure_18", arguments, ("loss",), arguments["model"])


def cure_18_elsewhere(learner: ModuleType, seed: int) -> dict[str, Any]:
    """On the device meta, which has shapes and no numbers."""
    arguments = picture_case(Draw("18 elsewhere", seed), device="meta")
    batches: list[str] = []
    arguments["model"].register_forward_pre_hook(
        lambda module, inputs: batches.append(f"{inputs[0].device.type} {list(inputs[0].shape)}")
    )
    items = dict_items(learner.cure_18(**arguments)) or {}
    loss: Any = items.get("loss")
    return {
        "case": case_text(arguments),
        "batches": batches[:MOST],
        "loss": f"{loss.device.type} {list(loss.shape)}" if is_tensor(loss) else kind_text(loss),
        "weights on": sorted({parameter.device.type for parameter in arguments["model"].parameters()}),
    }


# ------------------------------------------------------------------------------------------------------- several ranks
def ranks_of(draw: Draw) -> int:
    return draw.choice((2, 3))


def on_ranks(function: Callable[..., Any], draw: Draw, *arguments: Any) -> list[Any]:
    return list(run_on_ranks(function, ranks_of(draw), *arguments, seconds=SECONDS, debug=False))


def rank_case(name: str, seed: int, *, apart: bool, **others: Any) -> dict[str, Any]:
    """Arguments on this rank; with `apart` its weights differ from those of other ranks."""
    draw = Draw(name, seed)
    ranks_of(draw)  # the same draws as in the probe's process
    draw.torch_seed += dist.get_rank() * apart
    return picture_case(draw, **others)


def _equal_start(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = rank_case("21", seed, apart=True)
    model, starts = arguments["model"], list[Tensor]()
    own = nn.utils.parameters_to_vector(model.parameters()).detach()
    given = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(given, own)

    def note(module: nn.Module, inputs: Any) -> None:
        starts.append(nn.utils.parameters_to_vector(module.parameters()).detach().clone())

    model.register_forward_pre_hook(note)
    answers = trained(learner, "cure_21", arguments, ("loss", "weight_sum"), model)
    same = [rank for rank, weights in enumerate(given) if starts and torch.allclose(starts[0], weights, rtol=1e-5)]
    first = answers["loss"][:1] if isinstance(answers["loss"], list) else answers["loss"]
    return answers | {"begins": same[0] if same else -1, "first": first}


def cure_21(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`begins` has the rank whose given weights each rank has in its first forward pass, or -1."""
    ranks = on_ranks(_equal_start, Draw("21", seed), learner, seed)
    names = ("loss", "weight_sum", "weights", "begins", "first")
    return {"case": ranks[0]["case"], **{name: [rank[name] for rank in ranks] for name in names}}


def _shared_validation(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("22", seed)
    arguments = validated_case(draw, ranks=ranks_of(draw), norm=False)
    rows: list[int] = []
    arguments["model"].register_forward_pre_hook(
        lambda module, inputs: None if torch.is_grad_enabled() else rows.append(len(inputs[0]))
    )
    answers = trained(learner, "cure_22", arguments, ("loss", "val_loss", "seconds"), arguments["model"])
    validations = arguments["steps"] // arguments["every"]
    return answers | {"rows": sum(rows), "pictures": len(arguments["val_images"]), "validations": validations}


def cure_22(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`rows` counts the validation pictures that each rank passed through its model."""
    ranks = on_ranks(_shared_validation, Draw("22", seed), learner, seed)
    first = ranks[0]
    return {
        **{name: first[name] for name in ("case", "val_loss", "pictures", "validations")},
        **{name: [rank[name] for rank in ranks] for name in ("loss", "weights", "rows")},
        "timed": [len(rank["seconds"]) if isinstance(rank["seconds"], list) else 0 for rank in ranks],
    }


def _logged_mean(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = Draw("every 23", seed)
    every = draw.randrange(2, 5)
    arguments = rank_case("23", seed, apart=False, every=every, steps=(3 * every, 3 * every + 2))
    return dict(trained(learner, "cure_23", arguments, ("loss",), arguments["model"]))


def cure_23(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The log of rank 0, and the weights of all ranks; if the ranks hang, the collective in which each waits."""
    draw = Draw("23", seed)
    try:
        ranks = on_ranks(_logged_mean, draw, learner, seed)
    except StuckRanksError as error:
        return {"stuck": [place.call for place in error.places], "places": list(map(str, error.places))}
    weights = [rank["weights"] for rank in ranks]
    return {"case": ranks[0]["case"], "stuck": [], "loss": ranks[0]["loss"], "weights": weights}


def _own_rows(learner: ModuleType, seed: int) -> dict[str, Any]:
    arguments = rank_case("24", seed, apart=True)
    images, labels = arguments["images"].clone(), arguments["labels"].clone()
    model = copy.deepcopy(arguments["model"])
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    seen = Seen(arguments["model"], images)
    answers = trained(learner, "cure_24", arguments, ("loss",), arguments["model"])
    rows = [batch for batch, _, _ in seen.batches]
    true = seen.losses(labels, training=True)
    with torch.no_grad():
        final = F.cross_entropy(arguments["model"](images), labels).item()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments["lr"], momentum=0.9)
    counts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(rows))  # a replay needs as many batches on each rank
    batches = [(images[batch], labels[batch]) for batch in rows if set(counts) == {arguments["steps"]}]
    again = replayed(model, optimizer, batches)
    names = {"weights": answers["weights"], "replayed weights": again}
    return {"case": answers["case"], "loss": answers["loss"], "true loss": true, "rows": rows, "final": final} | names


def cure_24(learner: ModuleType, seed: int) -> dict[str, Any]:
    """`rows` has the rows of each batch of each rank, `final` the loss of each rank's model on all pictures."""
    ranks = on_ranks(_own_rows, Draw("24", seed), learner, seed)
    names = ("loss", "true loss", "rows", "final", "weights", "replayed weights")
    return {"case": ranks[0]["case"], **{name: [rank[name] for rank in ranks] for name in names}}
