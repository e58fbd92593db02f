"""Claims of handbook/checkpoints-and-faults.md: contents and size of a checkpoint, and exact resume."""

import copy
import io
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import TINY, next_token_loss, seeded_gpt
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.ledger.models import PRESETS, parameter_count

SMALL = GPTConfig(vocab_size=5000)
SIZING = "[nanoGPT](https://github.com/karpathy/nanoGPT/blob/master/transformer_sizing.ipynb)"


# -------------------------------------------------------------------------------------------------------------- size
@claim(
    "checkpoint-file-12",
    "A checkpoint with AdamW's state takes {expected} bytes per parameter on disk, and less than 0.1 for names and "
    "padding.",
    expected=12,
    unit="B per parameter",
    tolerance=0.1,  # names, step counts, the zip directory
)
def checkpoint_file_12() -> float:
    """Saves the small model and its optimizer after a step with torch.save, and divides the size by the parameters."""
    model, buffer = GPT(SMALL), io.BytesIO()
    optimizer = AdamW(model.parameters())
    model(torch.zeros(1, 4, dtype=torch.int64)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    return buffer.tell() / parameter_count(SMALL)


@claim(
    "nanogpt-file",
    "Of nanoGPT's file of 1,542,470,366 bytes for GPT-2, 12 bytes per parameter and 12 causal masks explain all but "
    "{expected[left after masks]}.",
    expected={"12 B per parameter": 1_492_051_968, "left": 50_418_398, "left after masks": 86_750},
    unit="B",
    source=SIZING,
)
def nanogpt_file() -> dict[str, float]:
    """Subtracts 12 bytes for each parameter of the same shape, then one fp32 [1024, 1024] mask for each layer."""
    config, size = PRESETS["gpt2"], 1_542_470_366
    states_on_disk = 12 * parameter_count(config)
    masks = config.n_layer * config.block_size**2 * 4
    left = size - states_on_disk
    return {"12 B per parameter": states_on_disk, "left": left, "left after masks": left - masks}


# ------------------------------------------------------------------------------------------------------- every part
class Training:
    """A small classifier in fp16 with every part that a training step may depend on."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
        self.average = copy.deepcopy(self.model)
        self.optimizer = AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = LambdaLR(self.optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step, 40) / 40)))
        self.scaler = GradScaler("cpu")
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(512, 16, generator=generator)
        self.labels = torch.randint(4, (512,), generator=generator)
        self.position = 0

    def step(self) -> tuple[float, float]:
        """Trains on the next 8 examples; returns the loss, and the loss of the averaged weights on all examples."""
        rows = slice(self.position, self.position + 8)
        self.position += 8
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(self.model(self.inputs[rows]), self.labels[rows])
        self.scaler.scale(100 * loss).backward()  # large gradients, so that the scaler must lower its scale
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with warnings.catch_warnings(action="ignore"):  # the scaler may skip the first update
            self.schedule.step()
        with torch.no_grad():
            for mean, weight in zip(self.average.parameters(), self.model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)
            averaged = nn.functional.cross_entropy(self.average(self.inputs), self.labels)
        return loss.item(), averaged.item()

    def state(self) -> dict[str, Any]:
        """Returns a copy of all parts, by name."""
        parts = {
            "weights": self.model.state_dict(),
            "optimizer state": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "loss scaler": self.scaler.state_dict(),
            "EMA": self.average.state_dict(),
            "random state": torch.get_rng_state(),
            "position in the data": self.position,
        }
        return copy.deepcopy(parts)

    def load(self, parts: dict[str, Any]) -> None:
        """Takes the parts that are given; the others stay as in a new run."""
        loads: dict[str, Callable[[Any], Any]] = {
            "weights": self.model.load_state_dict,
            "optimizer state": self.optimizer.load_state_dict,
            "schedule": self.schedule.load_state_dict,
            "loss scaler": self.scaler.load_state_dict,
            "EMA": self.average.load_state_dict,
            "random state": torch.set_rng_state,
            "position in the data": lambda position: setattr(self, "position", position),
        }
        for name, part in parts.items():
            loads[name](part)


@claim(
    "parts-left-out",
    "Resumed without one part, the first loss that differs is the first without weights, random state or position, the "
    "second without optimizer state or loss scaler, the third without the schedule; without the average of the weights "
    "no training loss differs. With all parts none of 20 losses differs.",
    expected={
        "nothing": 0,
        "weights": 1,
        "optimizer state": 2,
        "schedule": 3,
        "loss scaler": 2,
        "EMA": 0,
        "EMA, averaged weights": 1,
        "random state": 1,
        "position in the data": 1,
    },
    unit="the number of the first loss that differs; 0 for none",
)
def parts_left_out() -> Mapping[str, float]:
    """Saves after 10 steps of a small model in fp16, resumes without one part, and compares 20 losses bit by bit."""
    training = Training()
    for _ in range(10):
        training.step()
    saved = training.state()
    expected = [training.step() for _ in range(20)]
    first: dict[str, float] = {}
    for missing in ("nothing", *saved):
        resumed = Training()
        torch.manual_seed(1)  # a new process has another random state
        resumed.load({name: part for name, part in copy.deepcopy(saved).items() if name != missing})
        pairs = [(resumed.step(), right) for right in expected]
        differ = [number for number, (got, right) in enumerate(pairs, 1) if got[0] != right[0]]
        first[missing] = min(differ, default=0)
        if missing == "EMA":
            differ = [number for number, (got, right) in enumerate(pairs, 1) if got[1] != right[1]]
            first["EMA, averaged weights"] = min(differ, default=0)
    return first


# ---------------------------------------------------------------------------------------------------- a moving snapshot
@claim(
    "state-dict-is-no-copy",
    "Of the 9 tensors of a state dict that was taken before an update, {expected[new]} have the values after it: a "
    "state dict refers to the weights and copies nothing.",
    expected={"old": 0, "new": 9},
    unit="tensors",
)
def state_dict_is_no_copy() -> Mapping[str, float]:
    """Takes the state dict of a tiny GPT and a deep copy, makes one update, and compares the bits of both."""
    model, tokens = seeded_gpt(TINY)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    next_token_loss(model, tokens).backward()
    held, copied = model.state_dict(), copy.deepcopy(model.state_dict())
    optimizer.step()
    names = [name for name in held if name != "head.weight"]  # tied to the embedding: the same tensor
    old = sum(torch.equal(held[name], copied[name]) for name in names)
    return {"old": old, "new": sum(torch.equal(held[name], model.state_dict()[name]) for name in names) - old}


# ------------------------------------------------------------------------------------------------------ number of ranks
def train_on_ranks(parts: dict[str, Any] | None) -> tuple[list[float], dict[str, Any]]:
    """On each rank: data-parallel steps up to the 30th; their losses, and the state after the tenth.

    Each step has the same 8 sequences, divided among the ranks, whatever their number.
    """
    torch.manual_seed(0)
    model = GPT(TINY)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    done = 0
    if parts is not None:
        model.load_state_dict(parts["model"])
        optimizer.load_state_dict(parts["optimizer"])
        done = parts["step"]
    batches = torch.randint(32, (30, 8, 17), generator=torch.Generator().manual_seed(1))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    losses, saved = [], parts or {}
    for step in range(done, 30):
        if step == 10:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            saved = copy.deepcopy(saved)
        batch = batches[step]
        optimizer.zero_grad()
        loss = next_token_loss(model, batch.chunk(ranks)[rank]) / ranks
        loss.backward()
        total = loss.detach()
        for tensor in (total, *(weight.grad for weight in model.parameters() if weight.grad is not None)):
            dist.all_reduce(tensor)
        optimizer.step()
        losses.append(float(total))
    return losses, saved


@claim(
    "resume-on-other-ranks",
    "Saved on 4 ranks and resumed on 4, {expected[4 ranks]} of 20 losses differ; resumed on 2 ranks, losses differ and "
    "all 20 agree to 4 digits.",
    expected={"4 ranks": 0, "2 ranks: some differ": 1, "2 ranks: agree to 4 digits": 20},
    unit="losses",
)
def resume_on_other_ranks() -> Mapping[str, float]:
    """Trains a tiny GPT on 4 processes, resumes after 10 steps on 4 and on 2 with the same batches, compares losses."""
    losses, saved = run_world(train_on_ranks, 4, None)[0]
    whole = losses[10:]
    same: list[float] = run_world(train_on_ranks, 4, saved)[0][0]
    other: list[float] = run_world(train_on_ranks, 2, saved)[0][0]
    return {
        "4 ranks": sum(a != b for a, b in zip(whole, same, strict=True)),
        "2 ranks: some differ": float(other != whole),
        "2 ranks: agree to 4 digits": sum(math.isclose(a, b, rel_tol=5e-5) for a, b in zip(whole, other, strict=True)),
    }


@claim(
    "rng-state-is-bytes",
    "torch.set_rng_state takes a tensor of bytes on the CPU; for another tensor it raises 'RNG state must be a "
    "torch.ByteTensor'.",
    expected={"bytes": 0, "another dtype": 1, "another device": 1},
    unit="1: TypeError",
)
def rng_state_is_bytes() -> Mapping[str, float]:
    """Sets the state of the CPU's generator from its bytes, from the same numbers in int64, and on the device meta."""

    def refused(state: torch.Tensor) -> int:
        try:
            torch.set_rng_state(state)
        except TypeError as error:
            return int("RNG state must be a torch.ByteTensor" in str(error))
        return 0

    state = torch.get_rng_state()
    tensors = {"bytes": state, "another dtype": state.long(), "another device": state.to("meta")}
    return {name: refused(tensor) for name, tensor in tensors.items()}
