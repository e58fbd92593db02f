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
    raise NotImplementedError("cure_01 is not written yet. A hint: rankzero hint 16 cure_01")


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
    raise NotImplementedError("cure_02 is not written yet. A hint: rankzero hint 16 cure_02")


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
    raise NotImplementedError("cure_03 is not written yet. A hint: rankzero hint 16 cure_03")


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
    raise NotImplementedError("cure_04 is not written yet. A hint: rankzero hint 16 cure_04")


def cure_05(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 05: the training loss never falls below about 1.5, although most predictions become right.

    Start from `train` in patients/patient_05.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. The log has "loss", in nats, and "accuracy", a share of the batch: a number per step.
    """
    raise NotImplementedError("cure_05 is not written yet. A hint: rankzero hint 16 cure_05")


def cure_06(
    model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 06: a run over several epochs learns for a moment, and then its loss stays where it is.

    Start from `train` in patients/patient_06.py. `images` is float [N, C, H, W], `labels` int64 [N]. An epoch goes
    through all pictures in batches of `batch_size`; over the `epochs` the learning rate falls linearly from `lr` to
    0. The log has "loss" per batch.
    """
    raise NotImplementedError("cure_06 is not written yet. A hint: rankzero hint 16 cure_06")


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
    raise NotImplementedError("cure_07 is not written yet. A hint: rankzero hint 16 cure_07")


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
    raise NotImplementedError("cure_08 is not written yet. A hint: rankzero hint 16 cure_08")


def cure_09(model: GPT, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int) -> Log:
    """Cures patient 09: the first loss of a small GPT is several times ln V, and the loss lags behind ever after.

    Start from `train` in patients/patient_09.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. `model` is a GPT of random weights, which may be replaced before the first step. The
    log has "loss", in nats per token: a number per step.
    """
    raise NotImplementedError("cure_09 is not written yet. A hint: rankzero hint 16 cure_09")


def cure_10(
    model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 10: the loss stays near ln 10, in every epoch, and no learning rate changes that.

    Start from `train` in patients/patient_10.py. `images` is float [N, C, H, W], `labels` int64 [N]. An epoch goes
    through the pictures in random order, in batches of `batch_size`, and leaves out an incomplete batch. The log
    has "loss" per batch.
    """
    raise NotImplementedError("cure_10 is not written yet. A hint: rankzero hint 16 cure_10")


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
    raise NotImplementedError("cure_11 is not written yet. A hint: rankzero hint 16 cure_11")


# ---------------------------------------------------------------------------------------- too good to be true (silent)
def cure_12(model: GPT, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int) -> Log:
    """Cures patient 12: the loss falls to nearly 0 within a few dozen steps, far below what this text allows.

    Start from `train` in patients/patient_12.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. Each window gives `block_size` predictions. The log has "loss", in nats per token: a
    number per step.
    """
    raise NotImplementedError("cure_12 is not written yet. A hint: rankzero hint 16 cure_12")


def cure_13(
    model: nn.ModuleDict, tokens: Tensor, *, steps: int, batch_size: int, block_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 13: the loss of a small transformer is far too low, and the text that it writes is nonsense.

    Start from `train` in patients/patient_13.py. `tokens` is int64 [N]. A step draws `batch_size` windows of
    `block_size` + 1 tokens. `model` has the modules "tokens", "places", "qkv", "out" and "head" of a transformer of
    one layer and one head of attention. The log has "loss", in nats per token: a number per step.
    """
    raise NotImplementedError("cure_13 is not written yet. A hint: rankzero hint 16 cure_13")


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
    raise NotImplementedError("cure_14 is not written yet. A hint: rankzero hint 16 cure_14")


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
    raise NotImplementedError("cure_15 is not written yet. A hint: rankzero hint 16 cure_15")


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
    raise NotImplementedError("cure_16 is not written yet. A hint: rankzero hint 16 cure_16")


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
    raise NotImplementedError("cure_17 is not written yet. A hint: rankzero hint 16 cure_17")


def cure_18(
    model: nn.Module, images: Tensor, labels: Tensor, *, device: str, steps: int, batch_size: int, lr: float, seed: int
) -> dict[str, Tensor]:
    """Cures patient 18: on the CPU all is well; on another device the first step raises a RuntimeError about devices.

    Start from `train` in patients/patient_18.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. Both live on the CPU; the model is trained on `device`. The log has "loss", a tensor
    [steps] on `device`.
    """
    raise NotImplementedError("cure_18 is not written yet. A hint: rankzero hint 16 cure_18")


def cure_19(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, views: int, lr: float, seed: int
) -> Log:
    """Cures patient 19: the first backward pass raises a RuntimeError: a tensor has no grad_fn.

    Start from `train` in patients/patient_19.py. `images` is float [N, C, H, W], `labels` int64 [N]. A step draws
    `batch_size` pictures. The loss of a step is the mean over `views` views of each picture. The log has "loss" per
    step.
    """
    raise NotImplementedError("cure_19 is not written yet. A hint: rankzero hint 16 cure_19")


def cure_20(
    model: nn.Module, pictures: np.ndarray, labels: np.ndarray, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 20: the first step raises a RuntimeError about two dtypes.

    Start from `train` in patients/patient_20.py. `pictures` is an array of numbers [N, C, H, W], `labels` one of
    whole numbers [N]. The model keeps its weights' dtype. The log has "loss" per step.
    """
    raise NotImplementedError("cure_20 is not written yet. A hint: rankzero hint 16 cure_20")


# ------------------------------------------------------------------------------------------------------- several ranks
def cure_21(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 21: on several ranks the loss is worse than on one, and each rank saves another model.

    Start from `train` in patients/patient_21.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. The ranks train one model on the batches of all ranks. The log has
    this rank's "loss" and "weight_sum", the sum of all weights: a number per step.
    """
    raise NotImplementedError("cure_21 is not written yet. A hint: rankzero hint 16 cure_21")


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
    raise NotImplementedError("cure_22 is not written yet. A hint: rankzero hint 16 cure_22")


def cure_23(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, every: int, lr: float, seed: int
) -> Log:
    """Cures patient 23: a run on several ranks stops at its first line of the log, and no rank raises an error.

    Start from `train` in patients/patient_23.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. The log of rank 0 has "loss", the mean over all ranks, every
    `every` steps.
    """
    raise NotImplementedError("cure_23 is not written yet. A hint: rankzero hint 16 cure_23")


def cure_24(
    model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch_size: int, lr: float, seed: int
) -> Log:
    """Cures patient 24: two ranks learn no better than one rank, although they see twice as many pictures per step.

    Start from `train` in patients/patient_24.py. Called on each rank, with equal arguments except that `model` may
    hold other weights. `batch_size` is per rank. The log has this rank's "loss" per step.
    """
    raise NotImplementedError("cure_24 is not written yet. A hint: rankzero hint 16 cure_24")
