"""AdamW's step count is missing: one 4-byte number for each parameter tensor. A few hundred bytes, but a ledger
that is right to the byte is a ledger in which a leak shows."""

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
    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    steps = 0
    return {
        "weights": weight * n_parameters,
        "gradients": gradient * n_parameters,
        "optimizer state": (master + averages * average) * n_parameters + steps,
    }
