"""The generator is seeded with the step's number on saving and on loading, instead of being saved. Saving then
changes the run that saves: it draws other masks than if it had not saved."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/random", "checkpoint/undisturbed")
READ = "handbook/training-loop.md#around-the-step"


def save_checkpoint(path, model, optimizer, step):
    torch.manual_seed(step)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.manual_seed(state["step"])
    return state["step"]
