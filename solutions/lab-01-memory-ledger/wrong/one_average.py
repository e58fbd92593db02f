"""AdamW keeps two averages a parameter: of the gradient and of its square. One is what SGD with momentum keeps."""

EXERCISE = "state_bytes"
FAILS = (
    "state_bytes/fp32",
    "state_bytes/mixed",
    "state_bytes/bf16",
)
READ = "handbook/memory.md#what-optimizers-remember"


def state_bytes(n_parameters, n_tensors, recipe, optimizer):
    weight, gradient, master, average = {
        "fp32": (4, 4, 0, 4),
        "mixed": (2, 2, 4, 4),
        "mixed-fp32-accum": (2, 6, 4, 4),
        "bf16": (2, 2, 0, 2),
    }[recipe]
    averages = {"sgd": 0, "momentum": 1, "adamw": 1}[optimizer]
    steps = 4 * n_tensors if optimizer == "adamw" else 0
    return {
        "weights": weight * n_parameters,
        "gradients": gradient * n_parameters,
        "optimizer state": (master + averages * average) * n_parameters + steps,
    }
