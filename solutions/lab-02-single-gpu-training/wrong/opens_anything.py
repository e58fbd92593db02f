"""The file is read with weights_only=False. A pickle is a program: opening one that somebody else wrote runs whatever
it names. A checkpoint of tensors and plain values needs none of that."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/file",)
READ = "handbook/training-loop.md#around-the-step"


def save_checkpoint(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state | {"step": step, "rng": torch.get_rng_state()}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    return state["step"]
