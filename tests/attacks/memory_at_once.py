"""Takes more memory than there is, at once."""

ON, EARNS, STATUS = "stubs", 0, "oom"


def learning_rate(*_):
    return [bytearray(2**40)]


import torch


def train_step(*_):
    return torch.ones(2**32)
