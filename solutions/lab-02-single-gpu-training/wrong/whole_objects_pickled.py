"""The model and the optimizer themselves are saved, not their state_dict(). Such a file is a program: opening it
runs whatever it names, so weights_only=True refuses it, and it breaks when the class moves or changes."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/file",)
READ = "handbook/training-loop.md#around-the-step"


def save_checkpoint(path, model, optimizer, step):
    state = {"model": model, "optimizer": optimizer, "step": step, "rng": torch.get_rng_state()}
    torch.save(state, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, weights_only=False)
    model.load_state_dict(state["model"].state_dict())
    optimizer.load_state_dict(state["optimizer"].state_dict())
    torch.set_rng_state(state["rng"])
    return state["step"]
