"""The state is kept in a variable of the program instead of in the file. It is gone when the process is, and whoever
resumes in another one finds an empty file."""

import copy

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/file", "checkpoint/step", "checkpoint/weights")
READ = "handbook/training-loop.md#around-the-step"

KEPT = {}


def save_checkpoint(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    KEPT.update(copy.deepcopy(state), step=step, rng=torch.get_rng_state())
    torch.save({}, path)


def load_checkpoint(path, model, optimizer):
    model.load_state_dict(KEPT["model"])
    optimizer.load_state_dict(KEPT["optimizer"])
    torch.set_rng_state(KEPT["rng"])
    return KEPT["step"]
