"""Master weights are added where the weights are fp32 already. A copy is needed only where the model computes with
fewer bits than the optimizer."""

EXERCISE = "state_bytes"
FAILS = (
    "state_bytes/fp32",
    "state_bytes/optimizers",
)
READ = "handbook/memory.md#bytes-a-parameter-8-12-16-18-20"


def state_bytes(n_parameters, n_tensors, recipe, optimizer):
    weight, gradient, master, average = {
        "fp32": (4, 4, 4, 4),
        "mixed": (2, 2, 4, 4),
        "mixed-fp32-accum": (2, 6, 4, 4),
        "bf16": (2, 2, 0, 2),
    }[recipe]
    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    steps = 4 * n_tensors if optimizer == "adamw" else 0
    return {
        "weights": weight * n_parameters,
        "gradients": gradient * n_parameters,
        "optimizer state": (master + averages * average) * n_parameters + steps,
    }
