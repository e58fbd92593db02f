"""Only the optimizer's averages are saved, optimizer.state_dict()["state"], not its settings. They are part of the
run too: a schedule moves the rate, so the run goes on at the rate that the new optimizer was made with."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/optimizer",)
READ = "handbook/training-loop.md#around-the-step"


def save_checkpoint(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}
    torch.save(state | {"step": step, "rng": torch.get_rng_state()}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state["optimizer"]})
    torch.set_rng_state(state["rng"])
    return state["step"]
