"""Precision recipes and optimizers: the numbers stored per parameter, and the bytes of each.

"Bytes per parameter" depends on the recipe: 8, 12, 16, 18 and 20 are all correct, each for another recipe.
"""

from dataclasses import dataclass, replace

from rankzero.errors import UserError


@dataclass(frozen=True)
class Recipe:
    """Bytes per parameter, by role. `Optimizer` gives the count of the optimizer's numbers."""

    name: str
    says: str
    weight: int  # the parameter that the model computes with
    gradient: int  # its .grad, from backward to the update; 0 if it is added to the accumulator at once
    state: int  # of each number of the optimizer
    copy: int = 0  # bf16 copy that autocast makes of a matrix, from forward to the end of backward
    master: int = 0  # fp32 copy that the optimizer updates
    accumulator: int = 0  # fp32 sum of the gradients of micro-batches


FP32, AMP, MIXED, BF16 = (
    Recipe("fp32", "everything in fp32", weight=4, gradient=4, state=4),
    Recipe("amp", "fp32 weights under torch.autocast to bf16",
           weight=4, gradient=4, state=4, copy=2),
    Recipe("mixed", "bf16 model, fp32 master weights and state",
           weight=2, gradient=2, state=4, master=4),
    Recipe("bf16", "everything in bf16, the optimizer's state too",
           weight=2, gradient=2, state=2),
)  # fmt: skip
MIXED_SUMMED = replace(
    MIXED, name="mixed-fp32-accum", says="mixed, and the gradients also summed up in fp32", accumulator=4
)
MIXED_FP32_GRADIENTS = replace(
    MIXED_SUMMED, name="mixed-fp32-grad", says="mixed, with gradients in fp32 only, as in Megatron-LM", gradient=0
)
BF16_SUMMED = replace(
    BF16, name="bf16-fp32-accum", says="bf16, and the gradients also summed up in fp32", accumulator=4
)
RECIPES = {recipe.name: recipe for recipe in (FP32, AMP, MIXED, MIXED_SUMMED, MIXED_FP32_GRADIENTS, BF16, BF16_SUMMED)}


@dataclass(frozen=True)
class Optimizer:
    """The state that an optimizer keeps per parameter."""

    name: str
    moments: tuple[str, ...]  # numbers per parameter
    counts_steps: bool = False  # a 4-byte step count per tensor
    eight_bit: bool = False  # 1 byte per number, and an fp32 scale per block of 256


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
EIGHT_BIT_SMALLEST = 4096  # same function: a tensor with fewer elements keeps its state in fp32


def find_recipe(name: str) -> Recipe:
    """Returns the recipe called `name`. UserError for an unknown name."""
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}: use one of {', '.join(RECIPES)}.")
    return RECIPES[name]


def find_optimizer(name: str) -> Optimizer:
    """Returns the optimizer called `name`. UserError for an unknown name."""
    if name not in OPTIMIZERS:
        raise UserError(f"there is no optimizer {name!r}: use one of {', '.join(OPTIMIZERS)}.")
    return OPTIMIZERS[name]


def bytes_per_parameter(recipe: Recipe, optimizer: Optimizer) -> float:
    """Returns the bytes of weight, gradient and optimizer state per parameter. Step counts are left out."""
    own = recipe.weight + recipe.gradient + recipe.copy + recipe.master + recipe.accumulator
    each = 1 + 4 / EIGHT_BIT_BLOCK if optimizer.eight_bit else recipe.state
    return own + each * len(optimizer.moments)
