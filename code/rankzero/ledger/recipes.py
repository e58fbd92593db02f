"""Recipes: which numbers a parameter has, and how many bytes each of them takes.

"Bytes per parameter" means nothing without its recipe: 8, 12, 16, 18 and 20 are all right, each for another one.
"""

from dataclasses import dataclass

from rankzero.errors import UserError


@dataclass(frozen=True)
class Recipe:
    """Bytes that one parameter takes, by role. Optimizer numbers are counted by `Optimizer`."""

    name: str
    says: str
    weight: int  # the parameter that the model computes with
    gradient: int  # its .grad, from backward to the update; 0 if it is added to the accumulator at once
    state: int  # each number of the optimizer's
    copy: int = 0  # bf16 copy that autocast makes of a matrix, from forward to the end of backward
    master: int = 0  # fp32 copy that the optimizer updates
    accumulator: int = 0  # fp32 sum of the gradients of micro-batches


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("fp32", "everything in fp32", weight=4, gradient=4, state=4),
        Recipe("amp", "fp32 weights under torch.autocast to bf16", weight=4, gradient=4, state=4, copy=2),
        Recipe("mixed", "bf16 model, fp32 master weights and state", weight=2, gradient=2, state=4, master=4),
        Recipe(
            "mixed-fp32-accum",
            "mixed, and the gradients also summed up in fp32",
            weight=2,
            gradient=2,
            state=4,
            master=4,
            accumulator=4,
        ),
        Recipe(
            "mixed-fp32-grad",
            "mixed, with gradients in fp32 only, as in Megatron-LM",
            weight=2,
            gradient=0,
            state=4,
            master=4,
            accumulator=4,
        ),
        Recipe("bf16", "everything in bf16, the optimizer's state too", weight=2, gradient=2, state=2),
        Recipe(
            "bf16-fp32-accum",
            "bf16, and the gradients also summed up in fp32",
            weight=2,
            gradient=2,
            state=2,
            accumulator=4,
        ),
    )
}


@dataclass(frozen=True)
class Optimizer:
    """What an optimizer remembers of each parameter."""

    name: str
    moments: tuple[str, ...]  # numbers a parameter
    counts_steps: bool = False  # a 4-byte step count for each tensor
    eight_bit: bool = False  # 1 byte a number, and an fp32 scale for each block of 256


OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("sgd", ()),
        Optimizer("momentum", ("velocity",)),
        Optimizer("adamw", ("m", "v"), counts_steps=True),
        Optimizer("adam8bit", ("m", "v"), eight_bit=True),
    )
}
EIGHT_BIT_BLOCK = 256  # bitsandbytes, optim/optimizer.py, Optimizer2State.init_state
EIGHT_BIT_SMALLEST = 4096  # there too: a tensor with fewer elements keeps its state in fp32


def find_recipe(name: str) -> Recipe:
    """UserError for a name that there is not."""
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}: use one of {', '.join(RECIPES)}.")
    return RECIPES[name]


def find_optimizer(name: str) -> Optimizer:
    """UserError for a name that there is not."""
    if name not in OPTIMIZERS:
        raise UserError(f"there is no optimizer {name!r}: use one of {', '.join(OPTIMIZERS)}.")
    return OPTIMIZERS[name]


def bytes_per_parameter(recipe: Recipe, optimizer: Optimizer) -> float:
    """Weights, gradients and optimizer state of one parameter; step counts left out, autocast's copy counted."""
    own = recipe.weight + recipe.gradient + recipe.copy + recipe.master + recipe.accumulator
    each = 1 + 4 / EIGHT_BIT_BLOCK if optimizer.eight_bit else recipe.state
    return own + each * len(optimizer.moments)
