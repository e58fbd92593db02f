"""The gradients are cleared before saving, to keep the file small or the memory low. They are not in the file anyway,
and a run that accumulates over several batches loses those it had so far."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/undisturbed",)
READ = "handbook/backpropagation.md#pgrad-adds-it-does-not-replace"


def save_checkpoint(path, model, optimizer, step):
    optimizer.zero_grad()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state | {"step": step, "rng": torch.get_rng_state()}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    return state["step"]
