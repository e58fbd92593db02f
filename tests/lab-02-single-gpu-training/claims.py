"""Claims of labs/lab-02-single-gpu-training.md."""

import math
import tempfile
from collections.abc import Mapping

import torch
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import (
    CPU,
    bytes_by_phase,
    make_batch,
    make_model,
    text_batch,
    text_model,
    token_loss,
)
from rankzero.claims.toolkit.starters import logged_losses, starter
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.profiling.memory import PhaseMemory, memory_now


# ------------------------------------------------------------------------------------------------- what is held, when
@claim(
    "lab-02-parameters",
    "Lab 02's GPT has (V + T + 1)C + L(12C² + 2C) = {expected} parameters.",
    expected=(96 + 64 + 1) * 128 + 4 * (12 * 128**2 + 2 * 128),
    unit="parameters",
)
def parameters() -> float:
    """Builds the model and counts the numbers in its parameters; the tied matrix counts once."""
    return make_model().parameter_count()


@claim(
    "lab-02-weights",
    "Lab 02's weights take 3.08 MiB: 4 bytes for each of 808,064 parameters.",
    expected=4 * 808_064,
    unit="B",
)
def weights() -> float:
    """Counts the bytes behind the model's parameters."""
    return bytes_by_phase()["weights"]["forward"]


@claim(
    "lab-02-gradients-by-phase",
    "Gradients take as much as the weights, and only from backward on.",
    expected={"forward": 0, "backward": 4 * 808_064, "update": 4 * 808_064},
    unit="B",
)
def gradients() -> Mapping[str, float]:
    """Counts the bytes of p.grad after each phase of the first step."""
    return bytes_by_phase()["gradients"]


@claim(
    "lab-02-activations-by-phase",
    "Activations are 25.14 MiB after forward and 0 after backward.",
    expected={"forward": 26_364_420, "backward": 0, "update": 0},
    unit="B",
)
def activations() -> Mapping[str, float]:
    """Counts what autograd keeps after each phase of the first step; the formula is the forward chapter's."""
    return bytes_by_phase()["activations"]


@claim(
    "twice-the-batch-twice-the-activations",
    "With twice the batch only the activations double, but for the positions and one number of the loss.",
    expected={"weights": 0, "gradients": 0, "optimizer": 0, "activations": 26_364_420 - (8 * 64 + 4)},
    unit="B more",
)
def twice_the_batch() -> Mapping[str, float]:
    """Runs a step at B = 12 and one at B = 24 and subtracts, role by role, the most that each phase holds."""
    small, large = bytes_by_phase(batch_size=12), bytes_by_phase(batch_size=24)
    return {role: max(large[role].values()) - max(small[role].values()) for role in small}


@claim(
    "reserved-outlives-allocated",
    "A freed tensor of 64 MiB leaves `allocated`, and stays in `reserved`, which is never smaller.",
    expected={"allocated falls by": 64, "reserved falls by": 0, "reserved never smaller": 1},
    unit="MiB",
    needs=("cuda",),
)
def reserved() -> Mapping[str, float]:
    """Makes a tensor of 64 MiB on the GPU, frees it, and asks torch's allocator before and after."""
    device = torch.device("cuda")
    tensor = torch.empty(64 * 2**20, dtype=torch.uint8, device=device)
    before = memory_now(device)
    del tensor
    after = memory_now(device)
    return {
        **{f"{name} falls by": (before[name] - after[name]) / 2**20 for name in ("allocated", "reserved")},
        "reserved never smaller": int(all(state["reserved"] >= state["allocated"] for state in (before, after))),
    }


# ------------------------------------------------------------------------------------------------------------ the run
@claim(
    "lab-02-first-loss",
    "Lab 02's first loss is {expected[first loss]} nats, close to ln 96 = 4.564, and the untrained model's mean loss "
    "lies below that.",
    expected={"first loss": 4.53, "mean of 20 batches below ln V": 1},
    tolerance=0.15,
    unit="nats",
)
@torch.no_grad()
def first_loss() -> Mapping[str, float]:
    """Scores the starter's first 20 batches with its untrained model.

    The text differs a little between Python versions, and so does the first batch; the tolerance is how far a batch of
    this text is from another.
    """
    model = text_model()
    losses = [token_loss(model, *text_batch(step)).item() for step in range(20)]
    below = sum(losses) / len(losses) < math.log(load_corpus("embedded").vocab_size)
    return {"first loss": losses[0], "mean of 20 batches below ln V": int(below)}


@claim(
    "lab-02-resumes-exactly",
    "The starter's 10 steps and, after a resume, 10 more have the losses of 20 steps, bit for bit.",
    expected=0,
    unit="of 20 losses differ",
)
def resumes_exactly() -> float:
    """Runs the starter three times with a small model on the CPU and compares the losses in its logs."""
    with tempfile.TemporaryDirectory() as folder:
        whole = logged_losses("02", "--steps=20")
        parts = logged_losses("02", "--steps=10", f"--checkpoint={folder}/saved.pt")
        parts += logged_losses("02", "--steps=20", f"--resume={folder}/saved.pt")
    return sum(a != b for a, b in zip(whole, parts, strict=True))


@claim(
    "first-rate-of-the-warm-up",
    "With 20 steps of warm-up the starter's first rate is 1/20 of the full one; a first rate of 0 moves no weight.",
    expected={"first rate over full": 1 / 20, "weights moved at rate 0": 0},
    unit="",
)
def warm_up() -> Mapping[str, float]:
    """Asks the starter's schedule for step 0, and counts the weights that an AdamW step at rate 0 changes."""
    model = make_model()
    before = [p.detach().clone() for p in model.parameters()]
    starter("02").train_step(model, AdamW(model.parameters(), lr=0.0), *make_batch())
    moved = sum(int((p != old).sum()) for p, old in zip(model.parameters(), before, strict=True))
    rate = starter("02").learning_rate(0, peak=1.0, warmup_steps=20, decay_steps=0)
    return {"first rate over full": rate, "weights moved at rate 0": moved}


# ----------------------------------------------------------------------------------------------------------- break it
@claim(
    "clear-too-late-moves-nothing",
    "A loop that clears between backward and update moves no weight, and AdamW makes no state.",
    expected={"weights moved": 0, "optimizer state": 0},
    unit="",
)
def clear_too_late() -> Mapping[str, float]:
    """Runs two such steps on Lab 02's GPT, compares the weights bit for bit and counts the optimizer's bytes."""
    model = make_model()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = AdamW(model.parameters(), lr=1e-3)
    with PhaseMemory(model, optimizer, CPU) as memory:
        for _ in range(2):
            token_loss(model, *make_batch()).backward()
            optimizer.zero_grad()
            optimizer.step()
        memory.record("end")
    moved = sum(int((p != old).sum()) for p, old in zip(model.parameters(), before, strict=True))
    return {"weights moved": moved, "optimizer state": memory.rows[0].optimizer}
