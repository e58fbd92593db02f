"""Lab 03's starter and its first batch, for the claims of its page and of the chapter Precision."""

import functools
from types import ModuleType

import torch
from torch import Tensor

from rankzero.claims.toolkit.lab_model import make_model
from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT

FORMATS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def starter() -> ModuleType:
    """train_amp.py"""
    return find_lab("03").import_starter()


def first_batch() -> tuple[GPT, Tensor, Tensor]:
    """The starter's untrained model, and its first batch of the embedded text, int64 [12, 64] each."""
    corpus = load_corpus("embedded")
    x, y = random_batch(corpus.train, step=0, seed=0, batch_size=12, block_size=64)
    return make_model(vocab_size=corpus.vocab_size), x, y


@functools.cache
def gradients() -> dict[str, tuple[Tensor, Tensor]]:
    """Format -> the gradient of that batch without a scale, and with a scale of 65,536 that is divided out again."""
    model, x, y = first_batch()
    compute = starter().gradient
    return {name: (compute(model, x, y, low, 1.0), compute(model, x, y, low, 65536.0)) for name, low in FORMATS.items()}


def off_by(measured: Tensor) -> float:
    """Length of the difference to the fp32 gradient over the length of that."""
    exact = gradients()["fp32"][0]
    return float((measured - exact).norm() / exact.norm())
