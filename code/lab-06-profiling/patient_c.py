"""Patient C: the losses are right and the steps are slow. Profile it first, read it second.

python profile_step.py --script patient_c.py
"""

import argparse

import torch
from torch import Tensor

from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import Corpus


def next_batch(corpus: Corpus, step: int, options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """As profile_step.py's, from the text itself: token ids are made when they are needed."""
    text = corpus.decode(corpus.train)
    tokens = torch.tensor([corpus.characters.index(character) for character in text])
    size = {"batch_size": options.batch_size, "block_size": options.block_size}
    return random_batch(tokens, step=step, seed=options.seed, **size)
