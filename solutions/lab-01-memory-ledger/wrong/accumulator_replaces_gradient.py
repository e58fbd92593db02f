"""The fp32 sum takes the place of the bf16 gradients. There are recipes like that (Megatron-LM's, 18 bytes a
parameter); in this one backward still writes bf16 gradients, which are then added to the sum: 20."""

EXERCISE = "state_bytes"
FAILS = (
    "state_bytes/accumulation",
    "state_bytes/optimizers",
)
READ = "handbook/memory.md#bytes-a-parameter-8-12-16-18-20"


def state_bytes(n_parameters, n_tensors, recipe, optimizer):
    weight, gradient, master, average = {
        "fp32": (4, 4, 0, 4),
        "mixed": (2, 2, 4, 4),
        "mixed-fp32-accum": (2, 4, 4, 4),
        "bf16": (2, 2, 0, 2),
    }[recipe]
    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    steps = 4 * n_tensors if optimizer == "adamw" else 0
    return {
        "weights": weight * n_parameters,
        "gradients": gradient * n_parameters,
        "optimizer state": (master + averages * average) * n_parameters + steps,
    }
