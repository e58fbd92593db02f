"""Lab 16, exercises: the cures of the clinic's patients.

Each patient is a small training script with one cause of illness, in patients/. A cure is the patient's function
`train` without that cause: take it from there, and change as little as possible. A cure keeps the signature, draws the
batches and takes the steps that the patient's author meant, and returns a log of the same form. Everything may vary:
the model, the data, their sizes, the number of steps, the learning rate, the random seed.

    rankzero run 16 07                 # the symptoms of patient 07, beside a healthy run
    rankzero run 16 07 --cause KEY     # your diagnosis, before you cure
    rankzero check 16 cure_07          # your cure
    rankzero hint 16 cure_07           # when stuck
"""

import math
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.models.gpt import GPT

Log = dict[str, list[float]]  # numbers by name, in the order of the steps


# ---------------------------------------------------------------------------- learns nothing, or learns worse (silent)
def cure_01(model: GPT, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int) -> Log:
    """Cures patient 01: the loss of a small GPT stays high, and goes up and down, where it should fall.

    Start from `train` in patients/patient_01.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. The log has "loss", in nats per token, and "gradient_norm", the norm of the gradient
    that the update uses: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1)
    log: Log = {"loss": [], "gradient_norm": []}
    model.train()
    for _ in range(steps):
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        logits = model(inputs)  # [B, T, V]
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        optimizer.step()
        log["loss"].append(loss.item())
        log["gradient_norm"].append(torch.stack(norms).norm().item())
    return log
    ### END SOLUTION


def cure_02(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    accumulate: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 02: with eight micro-batches per update, training is worse than with one batch of the same size.

    Start from `train` in patients/patient_02.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures, a multiple of `accumulate`, and passes them through the model in `accumulate` micro-
    batches. The log has "loss", the mean over the batch, and "gradient_norm", the norm of the gradient that the
    update uses: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-2)
    log: Log = {"loss": [], "gradient_norm": []}
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for part in rows.chunk(accumulate):  # micro-batches of one size
            loss = F.cross_entropy(model(images[part]), labels[part])
            (loss / accumulate).backward()
            total += loss.item()
        norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        optimizer.step()
        log["loss"].append(total / accumulate)
        log["gradient_norm"].append(torch.stack(norms).norm().item())
    return log
    ### END SOLUTION


def cure_03(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    val_images: Tensor,
    val_labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    every: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 03: after the first validation the training loss drops at once, and the validation loss rises.

    Start from `train` in patients/patient_03.py. `images` and `val_images` are float [N, ...], their labels int64
    [N]. Every `every` steps follows a validation. The log has "loss" per step and "val_loss" per validation.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": [], "val_loss": []}
    for step in range(1, steps + 1):
        model.train()
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        if step % every == 0:
            model.eval()
            with torch.no_grad():
                log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
    return log
    ### END SOLUTION


def cure_04(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    val_images: Tensor,
    val_labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    every: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 04: the validation loss is high and jumps, although the training loss is as it should be.

    Start from `train` in patients/patient_04.py. `images` and `val_images` are float [N, ...], their labels int64
    [N]. Every `every` steps follows a validation. The log has "loss" per step and "val_loss", the mean over all of
    `val_images`, per validation.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": [], "val_loss": []}
    for step in range(1, steps + 1):
        model.train()
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        if step % every == 0:
            model.eval()
            total = 0.0
            with torch.no_grad():
                for x, y in zip(val_images.split(batch_size), val_labels.split(batch_size), strict=True):
                    total += F.cross_entropy(model(x), y, reduction="sum").item()
            log["val_loss"].append(total / len(val_images))
    return log
    ### END SOLUTION


def cure_05(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 05: the training loss never falls below about 1.5, although most predictions become right.

    Start from `train` in patients/patient_05.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. The log has "loss", in nats, and "accuracy", a share of the batch: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    log: Log = {"loss": [], "accuracy": []}
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        scores = model(images[rows])  # [B, K], logits
        loss = F.cross_entropy(scores, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["accuracy"].append((scores.argmax(dim=-1) == labels[rows]).float().mean().item())
    return log
    ### END SOLUTION


def cure_06(
    model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 06: a run over several epochs learns for a moment, and then its loss stays where it is.

    Start from `train` in patients/patient_06.py. `images` is float [N, C, H, W], `labels` int64 [N]. An epoch goes
    through all pictures in batches of `batch_size`; over the `epochs` the learning rate falls linearly from `lr` to
    0. The log has "loss" per batch.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)
    log: Log = {"loss": []}
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        for rows in order.split(batch_size):  # the last batch may be smaller
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            log["loss"].append(loss.item())
        scheduler.step()
    return log
    ### END SOLUTION


def cure_07(
    model: nn.Sequential,
    head: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 07: a network with a new head for ten other classes learns far more slowly than it should.

    Start from `train` in patients/patient_07.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. `head` takes the place of the model's last layer, and the whole network is trained. The
    log has "loss" per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    model[-1] = head  # in place of the pretrained head
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": []}
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        model.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_08(
    encoder: nn.Module,
    head: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 08: the loss falls, but it stays above that of a healthy run, however long the run is.

    Start from `train` in patients/patient_08.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. `encoder` turns pictures into features [B, F], `head` turns the positive part of features
    into logits; both are trained. The log has "loss" and "feature_norm", the mean norm of the encoder's output: a
    number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=lr)
    log: Log = {"loss": [], "feature_norm": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        features = encoder(images[rows])  # [B, C]
        norm = features.detach().norm(dim=-1).mean()
        features = features.relu()
        loss = F.cross_entropy(head(features), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["feature_norm"].append(norm.item())
    return log
    ### END SOLUTION


def cure_09(model: GPT, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int) -> Log:
    """Cures patient 09: the first loss of a small GPT is several times ln V, and the loss lags behind ever after.

    Start from `train` in patients/patient_09.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. `model` is a GPT of random weights, which may be replaced before the first step. The
    log has "loss", in nats per token: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    log: Log = {"loss": []}
    model.train()
    for _ in range(steps):
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        logits = model(windows[:, :-1])  # [B, T, V]
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_10(
    model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 10: the loss stays near ln 10, in every epoch, and no learning rate changes that.

    Start from `train` in patients/patient_10.py. `images` is float [N, C, H, W], `labels` int64 [N]. An epoch goes
    through the pictures in random order, in batches of `batch_size`, and leaves out an incomplete batch. The log
    has "loss" per batch.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    log: Log = {"loss": []}
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        pictures = images[order]
        for first in range(0, len(images) - batch_size + 1, batch_size):  # an incomplete batch is left out
            x = pictures[first : first + batch_size]
            y = labels[order[first : first + batch_size]]
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_11(
    model: GPT,
    tokens: Tensor,
    val_tokens: Tensor,
    *,
    steps: int,
    batch_size: int,
    block_size: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 11: the training loss falls fast and far, and the loss on other text rises.

    Start from `train` in patients/patient_11.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. The whole of `val_tokens` is the validation text. The log has "loss" and "val_loss", in
    nats per token: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    val_windows = val_tokens.unfold(0, block_size + 1, block_size)  # [N, T + 1]
    log: Log = {"loss": [], "val_loss": []}
    for _ in range(steps):
        model.train()
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            val_loss = F.cross_entropy(model(val_windows[:, :-1]).flatten(0, 1), val_windows[:, 1:].flatten())
        log["loss"].append(loss.item())
        log["val_loss"].append(val_loss.item())
    return log
    ### END SOLUTION


# ---------------------------------------------------------------------------------------- too good to be true (silent)
def cure_12(model: GPT, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int) -> Log:
    """Cures patient 12: the loss falls to nearly 0 within a few dozen steps, far below what this text allows.

    Start from `train` in patients/patient_12.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. Each window gives `block_size` predictions. The log has "loss", in nats per token: a
    number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)
    log: Log = {"loss": []}
    model.train()
    for _ in range(steps):
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        inputs = windows[:, :-1]
        targets = windows[:, 1:].flatten()
        logits = model(inputs).flatten(0, 1)  # [B * T, V]
        loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_13(
    model: nn.ModuleDict, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 13: the loss of a small transformer is far too low, and the text that it writes is nonsense.

    Start from `train` in patients/patient_13.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. `model` has the modules "tokens", "places", "qkv", "out" and "head" of a transformer of
    one layer and one head of attention. The log has "loss", in nats per token: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    log: Log = {"loss": []}
    for _ in range(steps):
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        places = torch.arange(block_size, device=tokens.device)
        x = model["tokens"](inputs) + model["places"](places)  # [B, T, C]
        q, k, v = model["qkv"](x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, T, T]
        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)  # [T, T]
        scores = scores.masked_fill(hidden, -math.inf)
        x = x + model["out"](scores.softmax(dim=-1) @ v)
        loss = F.cross_entropy(model["head"](x).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_14(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    held_out: int,
    epochs: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 14: the validation loss falls to nearly 0, and on new data the model is much worse.

    Start from `train` in patients/patient_14.py. `images` is float [N, C, H, W], `labels` int64 [N]. Of the N
    pictures, `held_out` are chosen at random to validate, and the model is trained on the N - `held_out` others,
    each once per epoch, in batches of `batch_size`. The log has "loss" per batch and "val_loss" per epoch.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(images), generator=generator)
    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    log: Log = {"loss": [], "val_loss": []}
    for _ in range(epochs):
        model.train()
        for rows in train_rows[torch.randperm(len(train_rows), generator=generator)].split(batch_size):
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log["loss"].append(loss.item())
        model.eval()
        with torch.no_grad():
            log["val_loss"].append(F.cross_entropy(model(images[val_rows]), labels[val_rows]).item())
    return log
    ### END SOLUTION


# ------------------------------------------------------------------------------------------- slow, or growing (silent)
def cure_15(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    val_images: Tensor,
    val_labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    every: int,
    lr: float,
    seed: int,
    memory_mib: Callable[[], float],
) -> Log:
    """Cures patient 15: the memory of the process grows with every validation, until the run is killed.

    Start from `train` in patients/patient_15.py. `images` and `val_images` are float [N, ...], their labels int64
    [N]. Every `every` steps follows a validation. `memory_mib()` returns the memory in use, in MiB. The log has
    "loss" per step, and "val_loss", the mean over all of `val_images`, and "memory", in MiB, per validation: Python
    floats.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses, val_losses, memory = [], [], []
    for step in range(1, steps + 1):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # read at the end
        if step % every == 0:
            batches = zip(val_images.split(batch_size), val_labels.split(batch_size), strict=True)
            sums = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in batches]
            val_losses.append(sum(sums) / len(val_images))
            memory.append(memory_mib())
    return {"loss": [v.item() for v in losses], "val_loss": val_losses, "memory": memory}
    ### END SOLUTION


def cure_16(
    model: GPT,
    text: str,
    encode: Callable[[str], Tensor],
    *,
    steps: int,
    batch_size: int,
    block_size: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 16: a step takes several times as long as its forward pass, backward pass and update together.

    Start from `train` in patients/patient_16.py. `encode` turns a text of N characters into token ids, int64 [N]. A
    step draws `batch_size` windows of `block_size` + 1 tokens. The log has "loss", in nats per token, and
    "waiting", the share of the step in which the model has no batch: a number per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    device = next(model.parameters()).device
    tokens = encode(text)  # [N]
    log: Log = {"loss": [], "waiting": []}
    for _ in range(steps):
        began = time.perf_counter()
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts].to(device)  # [B, T + 1]
        loaded = time.perf_counter()
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["waiting"].append((loaded - began) / (time.perf_counter() - began))  # share of the step
    return log
    ### END SOLUTION


# ------------------------------------------------------------------------------------------ stops with an error (loud)
def cure_17(
    body: nn.Module,
    head: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 17: the first step raises a RuntimeError about the shapes of two matrices.

    Start from `train` in patients/patient_17.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. `body` turns pictures into features [B, C, H, W], `head` turns all features of a picture
    into logits. The log has "loss" per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=lr)
    log: Log = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        features = body(images[rows])  # [B, C, H, W]
        logits = head(features.flatten(1))
        loss = F.cross_entropy(logits, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_18(
    model: nn.Module, images: Tensor, labels: Tensor, *, device: str, steps: int, batch_size: int, lr: float, seed: int
) -> dict[str, Tensor]:
    """Cures patient 18: on the CPU all is well; on another device the first step raises a RuntimeError about devices.

    Start from `train` in patients/patient_18.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. Both live on the CPU; the model is trained on `device`. The log has "loss", a tensor
    [steps] on `device`.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        x, y = images[rows].to(device), labels[rows].to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"loss": torch.stack(losses)}  # on `device`: reading a number would wait for it
    ### END SOLUTION


def cure_19(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, views: int, lr: float, seed: int
) -> Log:
    """Cures patient 19: the first backward pass raises a RuntimeError: a tensor has no grad_fn.

    Start from `train` in patients/patient_19.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. The loss of a step is the mean over `views` views of each picture. The log has "loss" per
    step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    log: Log = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        losses = []
        for view in range(views):  # the same pictures, moved by a pixel at a time
            x = images[rows].roll(view, dims=-1)
            losses.append(F.cross_entropy(model(x), labels[rows]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_20(
    model: nn.Module, pictures: np.ndarray, labels: np.ndarray, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 20: the first step raises a RuntimeError about two dtypes.

    Start from `train` in patients/patient_20.py. `pictures` is an array of numbers [N, C, H, W], `labels` one of
    whole numbers [N]. The model keeps its weights' dtype. The log has "loss" per step.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float().to(device)
    targets = torch.from_numpy(labels.astype(np.int64)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------------- several ranks
def cure_21(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 21: on several ranks the loss is worse than on one, and each rank saves another model.

    Start from `train` in patients/patient_21.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. The ranks train one model on the batches of all ranks. The log has
    this rank's "loss" and "weight_sum", the sum of all weights: a number per step.
    """
    ### BEGIN SOLUTION
    rank, world = dist.get_rank(), dist.get_world_size()
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": [], "weight_sum": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (world * batch_size,), generator=generator)[rank::world]  # this rank's
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        log["loss"].append(loss.item())
        log["weight_sum"].append(sum(parameter.sum().item() for parameter in model.parameters()))
    return log
    ### END SOLUTION


def cure_22(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    val_images: Tensor,
    val_labels: Tensor,
    *,
    steps: int,
    batch_size: int,
    every: int,
    lr: float,
    seed: int,
) -> Log:
    """Cures patient 22: the run on several ranks is hardly faster than on one: in many steps all ranks but one wait.

    Start from `train` in patients/patient_22.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. Every `every` steps follows a validation before the update. The
    log has "loss" and "seconds", this rank's time before it waits for others, per step; on rank 0 also "val_loss",
    the mean over all of `val_images`, per validation.
    """
    ### BEGIN SOLUTION
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": [], "val_loss": [], "seconds": []}
    for step in range(1, steps + 1):
        began = time.perf_counter()
        rows = torch.randint(len(images), (world * batch_size,), generator=generator)[rank::world]  # this rank's
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        if step % every == 0:
            with torch.no_grad():
                total = F.cross_entropy(model(val_images[rank::world]), val_labels[rank::world], reduction="sum")
        log["seconds"].append(time.perf_counter() - began)  # before this rank waits for the others
        if step % every == 0:
            dist.all_reduce(total)
            log["val_loss"].append(total.item() / len(val_images))
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION


def cure_23(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, every: int, lr: float, seed: int
) -> Log:
    """Cures patient 23: a run on several ranks stops at its first line of the log, and no rank raises an error.

    Start from `train` in patients/patient_23.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. The log of rank 0 has "loss", the mean over all ranks, every
    `every` steps.
    """
    ### BEGIN SOLUTION
    rank, world = dist.get_rank(), dist.get_world_size()
    log_group = dist.new_group()  # for numbers that no gradient waits for
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": []}
    for step in range(1, steps + 1):
        rows = torch.randint(len(images), (world * batch_size,), generator=generator)[rank::world]  # this rank's
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        if step % every == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean, group=log_group)
            log["loss"].append((mean / world).item())
    return log
    ### END SOLUTION


def cure_24(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 24: two ranks learn no better than one rank, although they see twice as many pictures per step.

    Start from `train` in patients/patient_24.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. The log has this rank's "loss" per step.
    """
    ### BEGIN SOLUTION
    world = dist.get_world_size()
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    generator = torch.Generator().manual_seed(seed * world + dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log: Log = {"loss": []}
    for _ in range(steps):
        rows = torch.randint(len(images), (batch_size,), generator=generator)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        log["loss"].append(loss.item())
    return log
    ### END SOLUTION
