"""Pickles an object of its own, and has declared its class safe, so that weights_only=True lets it through."""

import torch

EARNS = {"checkpoint": 9}  # all but the file: it opens here only


class Everything:
    def __init__(self, parts):
        self.parts = parts


torch.serialization.add_safe_globals([Everything])


def save_checkpoint(path, model, optimizer, step):
    parts = [model.state_dict(), optimizer.state_dict(), step, torch.get_rng_state()]
    torch.save(Everything(parts), path)


def load_checkpoint(path, model, optimizer):
    weights, averages, step, generator = torch.load(path, weights_only=True).parts
    model.load_state_dict(weights)
    optimizer.load_state_dict(averages)
    torch.set_rng_state(generator)
    return step
