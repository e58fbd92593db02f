"""Probes of Lab 05: each calls the learner's code on random models, and returns its results as plain values.

Checkpointing runs the same operations on the same numbers in the same order, so a right answer is equal in every bit.
Every number of a probe has few bits, so that sums are exact: bits then depend on the answer alone, and not on the
processor's instruction set, on the order of addition or on a tensor's place in memory.

Probes also count memory: all that is made inside `Watch` and still exists. Values can be stored elsewhere, in a file.
So a probe also changes a block between forward and backward, such that gradients from a second run are 0 and gradients
from stored values are not.
"""

import gc
import random
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import EnumType
from functools import partial
from itertools import accumulate
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from rankzero.exercises.probes.left_behind import Attached, Watch
from rankzero.exercises.probes.untrusted_values import (
    array,
    described,
    flat,
    gradients,
    is_tensor,
    tuple_items,
    type_name,
)

WIDTH, ROWS = 6, 5
FEW, MANY = (3, 400), (800, 900)  # rows of an input; with MANY, `Watch` counts copies in NumPy too


def not_by_hand(*_: Any, **__: Any) -> Any:
    """Replaces PyTorch's own checkpoint, because the learner writes it in the exercise."""
    raise RuntimeError("torch.utils.checkpoint is PyTorch's answer; yours does without it.")


# All of that module, however a file has imported it: a class stays, so that without its methods nothing is left of it.
# This process only runs probes.
for _name, _part in list(vars(torch.utils.checkpoint).items()):
    if getattr(_part, "__module__", "") != torch.utils.checkpoint.__name__ or isinstance(_part, EnumType):
        continue
    if isinstance(_part, type):
        for _method in [one for one, value in vars(_part).items() if isinstance(value, FunctionType | staticmethod)]:
            setattr(_part, _method, not_by_hand)
    else:
        setattr(torch.utils.checkpoint, _name, not_by_hand)


def with_exact_sums(module: nn.Module) -> nn.Module:
    """Returns `module` in float64, with two weights per row 1 or -1 and all other weights 0.

    With inputs from `numbers`, its products and sums are exact in forward and in backward: they have at most 53 bits.
    """
    for parameter in module.double().parameters():
        chosen = torch.rand(parameter.shape).argsort(-1) < 2
        parameter.data = chosen * (2.0 * torch.randint(2, parameter.shape) - 1).double()
    return module


class Block(nn.Module):
    """A small residual block (linear, activation, dropout, linear, add) that records each of its runs in `diary`."""

    share = 0.5  # factor of the block's result before it is added to the input
    again = 0  # runs of all blocks inside a backward

    def __init__(
        self,
        name: int = 0,
        dropout: float = 0.0,
        diary: list[int] | None = None,
        bend: nn.Module | None = None,
        width: int = WIDTH,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.frozen, self.unused = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        self.drop = nn.Dropout(dropout)
        self.bend = bend or nn.ReLU()
        self.name, self.diary = name, [] if diary is None else diary
        with_exact_sums(self)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]"""
        self.diary.append(self.name)
        Block.again += torch._C._current_graph_task_id() >= 0
        return torch.add(x, self.drop(self.down(self.bend(self.up(x)))), alpha=self.share) + self.frozen


def shape_of(seed: int) -> tuple[int, ...]:
    """Returns the shape of an input, which varies with the seed: [B, C] or [B, T, C]."""
    draw = random.Random(seed)
    return (*(draw.randrange(2, 6) for _ in range(draw.choice([1, 2]))), draw.randrange(4, 9))


def clear_first_layers(blocks: Iterable[Block]) -> None:
    """Sets the weights of each block's first layer to 0 without autograd.

    If a block runs afterwards, the second layer's input is 0, and so is the gradient of its weights.
    """
    for block in blocks:
        for parameter in block.up.parameters():
            parameter.data.zero_()


def from_kept_values(blocks: Iterable[Block]) -> int:
    """Counts gradients that would be 0 if each block had run after `clear_first_layers`."""
    return sum(int(array(block.down.weight.grad).any()) for block in blocks if block.down.weight.grad is not None)


def array_or_nan(tensor: Any) -> np.ndarray:
    """Returns the numbers of a tensor, or one nan for None."""
    return np.full(1, np.nan) if tensor is None else array(tensor)


def tensor(value: Any) -> Tensor:
    """Returns `value` if it is a true tensor. TypeError for other types and for subclasses that imitate tensors."""
    if not is_tensor(value):
        raise TypeError(f"the return value is of type {type_name(value)}; expected a tensor.")
    return value


def numbers(*shape: int, asks: bool = False, bits: int = 27) -> Tensor:
    """Returns random float64 numbers between -2 and 2 with `bits` bits, by default more than float32 has."""
    return (torch.randint(-(2**bits), 2**bits, shape).double() / 2 ** (bits - 1)).requires_grad_(asks)


def backward_of(output: Tensor) -> None:
    """Runs backward from a weighted sum of the output, so that the output's gradient is not all ones."""
    weighted_sum(output).backward()


def weighted_sum(output: Tensor) -> Tensor:
    """Returns the sum of the output's numbers times 1, 1.125, ... 1.875 in turn."""
    return (output * (1 + torch.arange(output.numel()) % 8 / 8).to(output.dtype).view_as(output)).sum()


# ------------------------------------------------------------------------------------------------------ runs_per_block
def whole(value: Any) -> Any:
    """Returns a whole number, also NumPy's, or a list of whole numbers; for another value its type and text."""
    if type(value) is list and all(type(number) in WHOLE for number in value):
        return [int(number) for number in value]
    if value is None:
        return "None"
    return int(value) if type(value) in WHOLE else described(value)


WHOLE = (int, np.int64, np.int32)


class Unwritten(list[int]):
    """A diary that records nothing, so that code cannot read the number of runs in it."""

    def append(self, name: int) -> None:
        """Records nothing."""


def counted(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts runs of 3 to 6 blocks, 0 to 11 each: the first goes backward, the second has gradients, others none.

    The first block is listed twice; the last one is in eval mode, and an error ends its last run.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    blocks = nn.ModuleList(Block(diary=Unwritten()) for _ in range(draw.randrange(3, 7)))
    blocks[-1].eval()
    times = [draw.randrange(2, 12), 0, *(draw.randrange(1, 12) for _ in blocks[2:])]
    x, steps = numbers(ROWS, WIDTH), 0

    def step() -> None:
        nonlocal steps
        steps += 1
        for block, count in zip(blocks, times, strict=True):
            for run in range(count):
                with torch.set_grad_enabled(run < 2):
                    y = block(x)
                if run == 0:
                    backward_of(y)
        with suppress(RuntimeError):
            blocks[-1](x[:, 1:])  # too narrow for its first layer

    returned = learner.runs_per_block([*blocks, blocks[0]], step)
    return {"counts": whole(returned), "steps": steps, "gradients": gradients(blocks)}


def left_behind(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts what is on the blocks after a step, one with an error and one with Ctrl-C; some hooks existed before."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    blocks, x = [Block() for _ in range(3)], numbers(ROWS, WIDTH)
    attached, methods = Attached(*blocks), (Block.forward, nn.Module.__call__)
    for block in blocks:
        for _ in range(draw.randrange(1, 20)):
            block.register_forward_pre_hook(lambda *_: None)
    words = f"step {draw.randrange(10**9)}"

    def fails() -> None:
        blocks[0](x)
        raise ZeroDivisionError(words)

    def interrupted() -> None:
        raise KeyboardInterrupt

    learner.runs_per_block(blocks, lambda: [block(x) for block in blocks])
    after, error = attached.more(), "no error"
    try:
        learner.runs_per_block(blocks, fails)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"[:80]
    failed = attached.more()
    with suppress(KeyboardInterrupt):
        learner.runs_per_block(blocks, interrupted)
    same = Block.forward is methods[0] and nn.Module.__call__ is methods[1]
    left = {"after": after, "after an error": failed, "after Ctrl-C": attached.more()}
    return left | {"error": error, "class": same}


# --------------------------------------------------------------------------------------------------------- repeatable
def second_run(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs a block a second time with gradients off, as in backward, and goes backward through that run."""
    torch.manual_seed(seed)
    shape = shape_of(seed)
    block, x = Block(width=shape[-1]), numbers(*shape, asks=True)
    block.frozen.requires_grad_(False)
    inside = x * 2
    again = learner.repeatable(block, (inside,))
    early = len(block.diary)
    with torch.no_grad():
        output = tensor(again())
        off = not torch.is_grad_enabled()
    runs = [early, len(block.diary)]
    if output.requires_grad:
        backward_of(output)
    return {
        "runs": runs,
        "asks": output.requires_grad,
        "output": array_or_nan(output),
        "weights": gradients(block),
        "went on": x.grad is not None,
        "off": off,
        "attached": inside.grad_fn is not None and inside.requires_grad,
    }


def random_numbers(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the masks of three runs, and what is drawn after two and after a second run that raises an error."""
    torch.manual_seed(seed)
    draw, shape = random.Random(seed), shape_of(seed)
    block, x = Block(dropout=0.5, width=shape[-1]), numbers(FEW[1], shape[-1])  # so many that no two masks are equal

    def fails(x: Tensor) -> Tensor:
        torch.rand(3)
        raise ZeroDivisionError

    torch.manual_seed(2**31 + seed)  # a seed that no learner would choose
    torch.rand(draw.randrange(1, 9))  # the generator is no longer where its seed put it
    again, failing = learner.repeatable(block, (x,)), learner.repeatable(fails, (x,))
    first, drawn = block(x), [torch.rand(1).item()]
    torch.rand(draw.randrange(1, 9))
    second = tensor(again())
    drawn.append(torch.rand(1).item())
    with suppress(ZeroDivisionError):
        failing()
    drawn.append(torch.rand(1).item())
    return {"first": array(first), "second": array(second), "third": array(tensor(again())), "drawn": drawn}


def autocast_again(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns a linear layer's outputs, and their dtypes, in second runs noted and run under different autocasts."""
    torch.manual_seed(seed)
    layer, x = with_exact_sums(nn.Linear(WIDTH, WIDTH)).float(), numbers(ROWS, WIDTH, bits=4).float()
    plain, outputs = nullcontext(), []
    half, brain = torch.autocast("cpu", dtype=torch.float16), torch.autocast("cpu", dtype=torch.bfloat16)
    for noted in ((half, plain), (brain, plain), (plain, plain), (half, brain), (plain, brain), (brain, half)):
        with noted[0]:
            again = learner.repeatable(layer, (x,))
        with noted[1]:
            outputs.append(tensor(again()))
    seen = [str(output.dtype) for output in outputs]
    return {"seen": seen, "outputs": flat(outputs), "left on": torch.is_autocast_enabled("cpu")}


def repeated_inputs(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Records what the second run is given of tensors of several dtypes, numbers, a list and None, in random order.

    Counts also what a third run is given.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    leaf = numbers(3, asks=True)
    more = [1.5, 2.5]
    named: dict[str, Any] = {
        "attached": leaf * 2,
        "leaf": leaf,
        "frozen": torch.randn(2, draw.randrange(2, 5)),
        "bf16": torch.randn(4).bfloat16().requires_grad_(),
        "rows": torch.randperm(5),
        "mask": torch.rand(3) > 0.5,
        "scale": draw.uniform(1, 2),
        "more": more,
        "nothing": None,
    }
    order = draw.sample([*named], len(named))
    flags = {name: value.requires_grad for name, value in named.items() if isinstance(value, Tensor)}
    given: dict[str, Any] = {}

    def note(*inputs: Any) -> Tensor:
        given.update(zip(order, inputs, strict=False))
        given["count"] = len(inputs)
        return torch.zeros(1)

    again = learner.repeatable(note, tuple(named[name] for name in order))
    again()
    before = dict(given)
    again()
    tensors: list[Any] = [given.get(name) for name in flags]
    return {
        "order": order,
        "count": before["count"],
        "next count": given["count"],
        "new": [given.get(name) is not before.get(name) for name, flag in flags.items() if flag],
        "asks": [value.requires_grad if is_tensor(value) else None for value in tensors],
        "attached": [value.grad_fn is not None if is_tensor(value) else None for value in tensors],
        "same": [name for name in named if name not in flags and given.get(name) is named[name]],
        "values": [array(value) if is_tensor(value) else type_name(value) for value in tensors],
        "dtypes": [str(value.dtype) if is_tensor(value) else None for value in tensors],
        "copied": [
            value.data_ptr() != named[name].data_ptr() if is_tensor(value) else None
            for name, value in zip(flags, tensors, strict=True)
        ],
        "caller": [named[name].requires_grad == flag for name, flag in flags.items()],
    }


def overwritten_input(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs again after an in-place change of an input with and without requires_grad, of a weight, of nothing.

    Returns what each second run ends with, and the outputs of those that end without an error.
    """
    torch.manual_seed(seed)
    block, x = Block(), numbers(ROWS, WIDTH, asks=True)
    outputs: list[Tensor] = []

    def outcome(value: Tensor, change: Callable[[], object]) -> str:
        again = learner.repeatable(block, (torch.ones(1), value)[1:])
        change()
        try:
            outputs.append(tensor(again()))
        except Exception as error:
            return type_name(error)
        return "no error"

    inside, frozen, untouched, same = x * 2, numbers(ROWS, WIDTH), x * 2, x * 2
    untouched.detach().mul_(1)  # before it is noted
    with torch.no_grad():
        return {
            "an input": outcome(inside, inside.zero_),
            "an input that requires no gradient": outcome(frozen, lambda: frozen[0].add_(1)),
            "an input, with the same numbers,": outcome(same, lambda: same.mul_(1)),
            "nothing": outcome(untouched, lambda: None),
            "a weight": outcome(x * 2, lambda: block.up.weight.mul_(2)),
            "outputs": flat(outputs),
        }


# ---------------------------------------------------------------------------------------------------------- checkpoint
@contextmanager
def explained() -> Iterator[None]:
    """Explains a KeyError or an IndexError of a hook in backward."""
    Block.again = 0
    try:
        yield
    except (KeyError, IndexError) as error:
        if not any("autograd" in frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise
        if not Block.again:
            raise LookupError(
                "backward needs a tensor, but the function has not run again. The tensor that backward needs first is "
                "often not the last one of the first run: start the second run for any tensor that is not there."
            ).with_traceback(error.__traceback__) from None
        raise LookupError(
            f"{type(error).__name__} {error}: backward needs a tensor that the code did not store in the second run. "
            "That run must save the same tensors in the same order, and its inputs must require a gradient if those of "
            "the first run do. It has leaves (tensors without grad_fn) where the first run has none."
        ).with_traceback(error.__traceback__) from None


@explained()
def _trained(learner: ModuleType, seed: int, dropout: float, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Makes a step through a checkpointed block between two others, then more uses of the block's weights.

    The second use is in a function that is not a module; the third adds to gradients that exist; the last is of the
    block in evaluation mode. One weight of the block is frozen and one is unused.
    """
    torch.manual_seed(seed)
    shape = shape_of(seed)
    before, block, after = (Block(name, dropout, width=shape[-1]).to(dtype) for name in range(3))
    block.frozen.requires_grad_(False)
    x = numbers(*shape, bits=27 if dtype == torch.float64 else 4).to(dtype).requires_grad_()
    torch.manual_seed(2**31 + seed)  # a seed that no learner would choose
    output = tensor(learner.checkpoint(block, before(x)))
    drawn = torch.rand(1).item()
    reused = tensor(learner.checkpoint(lambda inside: block(inside).abs(), x))
    output = after(output)
    backward_of(output)
    backward_of(reused)
    backward_of(tensor(learner.checkpoint(block, x)))
    block.eval()
    evaluated = tensor(learner.checkpoint(block, x))
    backward_of(evaluated)
    return {
        "output": array_or_nan(output),
        "evaluated": array_or_nan(evaluated),
        "input": array_or_nan(x.grad),
        "before": gradients(before),
        "weights": gradients(block),
        "dtypes": [str(output.dtype), *(str(p.grad.dtype) for p in block.parameters() if p.grad is not None)],
        "modes": [block.training, torch.is_grad_enabled()],
        "drawn after forward": drawn,
        "drawn after backward": torch.rand(1).item(),
    }


def _without_draws(results: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in results.items() if "drawn" not in name}


def without_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains through a checkpointed block without dropout, in float64 and in bf16."""
    low = _without_draws(_trained(learner, seed, 0.0, torch.bfloat16))
    results = _without_draws(_trained(learner, seed, dropout=0.0))
    return results | {f"narrow {name}": value for name, value in low.items()}


def with_dropout(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Trains through a checkpointed block with dropout, which draws random numbers, as do later operations."""
    return _without_draws(_trained(learner, seed, dropout=0.5))


def generator(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the random numbers drawn after forward and after backward of a block with dropout."""
    results = _trained(learner, seed, dropout=0.5)
    return {name: value for name, value in results.items() if "drawn" in name}


@explained()
def what_is_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the bytes that the block's forward leaves, in tensors or in copies elsewhere, and the block's runs.

    The block counts its runs, and `products` counts its operations, which are missing if it runs outside `Watch`.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    width = draw.randrange(5, 8)
    block, x = Block(width=width), numbers(draw.randrange(*MANY), width, asks=True)
    inside = x * 2
    with Watch() as watch:
        output = tensor(learner.checkpoint(block, inside))
        kept = watch.bytes_but(output, inside)
        once, products = len(block.diary), watch.ran.get("addmm", 0)
        clear_first_layers([block])
        backward_of(output)
    return {
        "kept": kept,
        "forward": once,
        "backward": len(block.diary) - once,
        "products": [products, watch.ran.get("addmm", 0) - products],
        "stale": from_kept_values([block]),
        "output": array_or_nan(output[:ROWS]),
    }


@explained()
def what_is_saved(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Tells what exists after backward, and whether an input that was overwritten raises an error."""
    torch.manual_seed(seed)
    shape = shape_of(seed)
    block, x = Block(width=shape[-1]), numbers(*shape, asks=True)
    with Watch() as watch:
        output = tensor(learner.checkpoint(block, x * 2))
        held, values = watch.bytes_but(output), array_or_nan(output)
        loss = output.sum()
        del output
        loss.backward()
        released = watch.bytes_but(loss, x.grad, *[p.grad for p in block.parameters()])
    overwritten = x * 2
    output = tensor(learner.checkpoint(block, overwritten))
    overwritten.detach().zero_()
    try:
        output.sum().backward()
        noticed = "no error"
    except Exception as error:
        noticed = type_name(error)
    return {"output": values, "held": held, "released": released, "noticed": noticed}


def several_inputs(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Checkpoints a function of tensors with and without requires_grad, numbers, a list and None, in random order.

    It returns a tuple of two tensors, and both go into the loss.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    rows, width = draw.randrange(3, 8), draw.randrange(4, 9)
    a, b = numbers(rows, width, asks=True, bits=8), numbers(width, asks=True, bits=8)
    c, low = numbers(rows, width, bits=8), numbers(width, bits=3).bfloat16().requires_grad_()
    named = {
        "a": a,
        "b": b,
        "c": c,
        "low": low,
        "rows": torch.randperm(rows),
        "scale": draw.randrange(17, 24) / 8,
        "more": [1.5, 2.5],
        "nothing": None,
    }
    order = draw.sample([*named], len(named))

    def mixed(*inputs: Any) -> tuple[Tensor, Tensor]:
        by_name = dict(zip(order, inputs, strict=True))
        assert by_name["nothing"] is None
        product = by_name["a"] * by_name["b"].square() + by_name["c"] * by_name["a"].square()
        return product[by_name["rows"]] * by_name["scale"] + sum(by_name["more"]), by_name["low"].square()

    gradient = numbers(rows, width, bits=26)  # float32, which has 24 bits, would round it
    returned = learner.checkpoint(mixed, *[named[name] for name in order])
    outputs = tuple_items(returned, 2)
    if outputs is None:
        return {"type": type_name(returned)}
    output, other = map(tensor, outputs)
    torch.autograd.backward([output, other], [gradient, torch.ones_like(other)])
    return {
        "type": "tuple",
        "output": array_or_nan(output),
        "other": array_or_nan(other),
        "a": array_or_nan(a.grad),
        "b": array_or_nan(b.grad),
        "c": array_or_nan(c.grad),
        "low": array_or_nan(low.grad),
        "dtypes": [str(output.dtype), str(other.dtype), str(None if low.grad is None else low.grad.dtype)],
    }


@explained()
def no_input_asks(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Checkpoints a block behind a frozen embedding: its weights need gradients, but its input needs none."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    width = draw.randrange(5, 8)
    block, x = Block(width=width), numbers(draw.randrange(3, 9), width)

    def run(x: Tensor) -> Tensor:  # no module: a closure has no parameters()
        return block(x)

    with Watch() as watch:
        output = tensor(learner.checkpoint(run, x))
        if output.requires_grad:
            backward_of(output)
    runs, weights = len(block.diary), gradients(block)
    with torch.no_grad():
        silent = tensor(learner.checkpoint(run, x)).requires_grad
    block.zero_grad()
    output = tensor(learner.checkpoint(run, x))
    clear_first_layers([block])
    if output.requires_grad:
        backward_of(output)
    return {
        "weights": weights,
        "runs": runs,
        "products": watch.ran.get("addmm", 0),
        "stale": from_kept_values([block]),
        "under no_grad": silent,
    }


@explained()
def under_autocast(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs forward under autocast and backward outside it, as recommended; then forward without, backward inside.

    The dtype is float16, because bf16 is autocast's default on the CPU.
    """
    torch.manual_seed(seed)
    block, x = Block().float(), torch.randn(ROWS, WIDTH, requires_grad=True)
    dtypes: list[str] = []
    block.up.register_forward_hook(lambda module, inputs, output: dtypes.append(str(output.dtype)))
    with torch.autocast("cpu", dtype=torch.float16):
        output = tensor(learner.checkpoint(block, x))
    backward_of(output.float())
    autocast = gradients(block)
    block.zero_grad()
    output = tensor(learner.checkpoint(block, x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output.sum().backward()
    return {"seen": dtypes, "weights": autocast, "plain": gradients(block)}


def by_autograd_grad(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Asks torch.autograd.grad for gradients of the input and the weights, then of the input alone.

    Asks also in turn for parts of one graph, which is retained, and for the gradient of another call.
    """
    torch.manual_seed(seed)
    shape = shape_of(seed)
    block, x = Block(width=shape[-1]), numbers(*shape, asks=True)
    weights = [block.up.weight, block.down.weight, block.unused]
    output = tensor(learner.checkpoint(block, x * 2))
    asked = torch.autograd.grad(weighted_sum(output), [x, *weights], allow_unused=True)
    (alone,) = torch.autograd.grad(weighted_sum(tensor(learner.checkpoint(block, x * 2))), [x])
    a, b, c = (numbers(ROWS, WIDTH, asks=True, bits=8) for _ in range(3))
    both = weighted_sum(tensor(learner.checkpoint(lambda a, b: a.square() * b.square(), a, b)))
    other = weighted_sum(tensor(learner.checkpoint(lambda c: c.square(), c)))
    parts: list[Any] = []
    for of, wrt in ((both, [a, b]), (both, [a, b]), (both, [b]), (other, [c]), (both, [a])):
        try:
            parts.append(flat(torch.autograd.grad(of, wrt, retain_graph=True)))
        except Exception as error:
            parts.append(f"{type_name(error)}: {error}"[:120])
    return {
        "parts": parts,
        "asked": flat(asked),
        "alone": array_or_nan(alone),
        "filled": sum(parameter.grad is not None for parameter in [x, *block.parameters()]),
    }


# ------------------------------------------------------------------------------------------------------------ segments
def lengths(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the lengths of segments: even and uneven ones, half of them longer, one segment, as many as blocks."""
    draw = random.Random(seed)
    few = draw.randrange(4, 9)
    cases = [(few * draw.randrange(2, 6), few), (few * draw.randrange(2, 6) + draw.randrange(2, few), few)]
    cases += [(few, 1), (few, few), (few, few - 1), (4 * draw.randrange(1, 6) + 2, 4)]
    draw.shuffle(cases)
    returned = [learner.segment_lengths(*case) for case in cases]
    return {"cases": [list(case) for case in cases], "lengths": [whole(value) for value in returned]}


def _segments(learner: ModuleType, seed: int, clear: bool = False) -> dict[str, Any]:
    """Makes a step through blocks with dropout whose number is no multiple of the segments; records bytes and runs.

    With `clear`, the blocks' first layers are cleared between forward and backward, the input is large, and bytes are
    counted.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    segments = draw.randrange(4, 6)
    count = segments * draw.randrange(2, 4) + draw.randrange(2, segments - 1)
    diary: list[int] = []
    names = draw.sample(range(10**6), count)
    width = draw.randrange(4, 9)
    blocks = [Block(name, 0.5, diary, width=width) for name in names]
    x = numbers(draw.randrange(*(MANY if clear else FEW)), width, asks=True, bits=8)
    with Watch() as watch:
        output = tensor(learner.checkpoint_segments(nn.ModuleList(blocks), x, segments))
        kept = watch.bytes_but(output, states=segments) if clear else 0
    forward = list(diary)
    if clear:
        clear_first_layers(blocks)
    backward_of(output)
    return {
        "blocks": count,
        "segments": segments,
        "names": names,
        "size": x.nbytes,
        "output": array_or_nan(output),
        "input": array_or_nan(x.grad),
        "weights": gradients(nn.ModuleList(blocks)),
        "kept": kept,
        "stale": from_kept_values(blocks),
        "forward": forward,
        "backward": diary[len(forward) :],
    }


def cut(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the blocks that run in forward and the blocks that run again in backward, in order."""
    results = _segments(learner, seed)
    return {name: results[name] for name in ("blocks", "segments", "names", "forward", "backward")}


def segments_trained(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the output and the gradients."""
    results = _segments(learner, seed)
    return {name: results[name] for name in ("blocks", "segments", "output", "input", "weights")}


def segments_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes kept after forward without the input, the input's size, and gradients from kept values."""
    results = _segments(learner, seed, clear=True)
    return {name: results[name] for name in ("blocks", "segments", "size", "kept", "stale")}


def one_segment_and_as_many_as_blocks(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Checkpoints all blocks in one segment, and one block per segment."""
    torch.manual_seed(seed)
    draw, backwards = random.Random(seed), []
    count = draw.randrange(2, 6)
    names = draw.sample(range(10**6), count)
    for segments in (1, count):
        diary: list[int] = []
        blocks = [Block(name, 0.0, diary) for name in names]
        backward_of(tensor(learner.checkpoint_segments(blocks, numbers(ROWS, WIDTH), segments)))
        backwards.append(diary[count:])
    return {"blocks": count, "names": names, "one": backwards[0], "each": backwards[1]}


def best(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the best number of segments for blocks that save many and few activations inside."""
    draw = random.Random(seed)
    sizes = [(1, 10, 160), *((draw.randrange(9, 100), 1000, 1000 * draw.randrange(2, 20)) for _ in range(9))]
    sizes += [(draw.randrange(20, 100), 1000, 1000 + draw.randrange(3))]
    sizes += [(draw.randrange(20, 100), 1000, draw.randrange(1500, 4000)) for _ in range(4)]
    sizes += [(2, 1000, 1001), (2, 1000, 1000)]

    def called(*case: int) -> Any:
        try:
            return whole(learner.best_segments(*case))
        except ValueError as error:  # as of min() of nothing
            return f"an error (ValueError: {error})"[:80]

    return {"sizes": [list(case) for case in sizes], "best": [called(*case) for case in sizes]}


# ----------------------------------------------------------------------------------------------------------- selective
PRODUCT, GELU, RELU = (getattr(torch.ops.aten, name).default for name in ("addmm", "gelu", "relu"))
TANH_GELU = partial(nn.GELU, approximate="tanh")  # an operation with a keyword argument


def _reused(learner: ModuleType, seed: int, keep: Any) -> dict[str, Any]:
    """Calls two blocks twice and clears their first layers in between; another block takes its turns meanwhile."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    width = draw.randrange(4, 9)
    block, more, other = (Block(bend=TANH_GELU(), width=width) for _ in range(3))
    x = numbers(draw.randrange(*MANY), width)
    with torch.no_grad(), Watch() as watch:
        run, run_other = learner.keep_or_reuse(nn.Sequential(block, more), keep), learner.keep_or_reuse(other, keep)
        early = len(block.diary)
        first, first_other = tensor(run(x)), tensor(run_other(x))
        held = watch.bytes_but(first, first_other)
        once = dict(watch.ran)
        clear_first_layers([block, more])
        second_other, second = tensor(run_other(x)), tensor(run(x))  # backward takes the last block first
        left = watch.bytes_but(first, first_other, second, second_other)
    names = ("addmm", "gelu", "add")
    return {
        "early": early,
        "first": array(first[:ROWS]),
        "second": array(second[:ROWS]),
        "other": array(first_other[:ROWS] - second_other[:ROWS]),
        "ran": [[once.get(name, 0), watch.ran.get(name, 0) - once.get(name, 0)] for name in names],
        "held": held,
        "left": left,
    }


def reused(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the results of both calls with products kept, and with GELUs kept."""
    kinds = {"products": {PRODUCT}, "GELUs": [GELU]}
    results = {kept: _reused(learner, seed, keep) for kept, keep in kinds.items()}
    names = ("early", "first", "second", "other")
    return {f"{name}, {kept}": result[name] for kept, result in results.items() for name in names}


def reused_runs(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts runs of products, GELUs and additions in both calls, with each kind kept and with none kept.

    Counts also the runs of a function with two overloads of one operation, of which one is kept.
    """
    kinds = {"products": {PRODUCT}, "GELUs": [GELU], "both": (GELU, PRODUCT), "none": ()}
    results = {kept: _reused(learner, seed, keep) for kept, keep in kinds.items()}
    ran = {kept: result["ran"] for kept, result in results.items()}
    with Watch() as watch:
        run = learner.keep_or_reuse(lambda x: x.sum(1) + x.sum(), {torch.ops.aten.sum.default})
        sums = [(run(numbers(ROWS, WIDTH)), watch.ran.get("sum", 0))[1] for _ in range(2)]
    return ran | {"first": results["none"]["first"], "sums": [sums[0], sums[1] - sums[0]]}


def reused_bytes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes that exist between the calls, and after the second call."""
    kinds = {"products": {PRODUCT}, "GELUs": {GELU}}
    results = {kept: _reused(learner, seed, keep) for kept, keep in kinds.items()}
    return {f"{name}, {kept}": result[name] for kept, result in results.items() for name in ("held", "left", "first")}


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turns Python's collection of cycles off, so that what a cycle holds is found on every seed and not on some."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _selective(
    learner: ModuleType, seed: int, keep: Any, bend: Callable[[], nn.Module] = TANH_GELU, clear: bool = False
) -> dict[str, Any]:
    """Makes a step through blocks with dropout and further activations. Sums with GELUs are not exact.

    With `clear`, the input is large, bytes count, nothing is dropped, and the blocks are changed before backward: their
    first layers are cleared, and they add nothing to their inputs.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    count = draw.randrange(2, 5)
    more = draw.choice([n for n in range(1, 7) if n != count + 1])  # otherwise GELUs and products keep equal bytes
    width = draw.randrange(4, 9)
    blocks = [Block(place, 0.0 if clear else 0.5, bend=bend(), width=width) for place in range(count)]
    block = nn.Sequential(*blocks, *(bend() for _ in range(more)))
    before = Block(width=width)
    x = numbers(draw.randrange(*(MANY if clear else FEW)), width, asks=True)
    inside = before(x)
    with without_garbage_collection(), Watch() as watch:
        output = tensor(learner.checkpoint_selective(block, inside, keep=keep))
        kept, ran = watch.bytes_but(output, inside) if clear else 0, dict(watch.ran)
        drawn = torch.rand(1).item()
        loss = weighted_sum(output)
        del output
        for cleared in blocks if clear else ():
            clear_first_layers([cleared])
            cleared.share = 0.0
        loss.backward()
        held = [p.grad for p in [*block.parameters(), *before.parameters()]]
        released = watch.bytes_but(loss, x.grad, inside, *held) if clear else 0
    return {
        "loss": loss.item(),
        "input": array_or_nan(x.grad),
        "before": gradients(before),
        "weights": gradients(block),
        "drawn": [drawn, torch.rand(1).item()],
        "kept": kept,
        "products": [ran.get("addmm", 0), watch.ran.get("addmm", 0) - ran.get("addmm", 0)],
        "GELUs": [ran.get("gelu", 0), watch.ran.get("gelu", 0) - ran.get("gelu", 0)],
        "released": released,
    }


def selective_trained(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns gradients and random numbers with products and ReLUs kept, for one call and for two in sequence."""
    results = _selective(learner, seed, {PRODUCT, RELU}, nn.ReLU)
    blocks = nn.ModuleList(nn.Sequential(Block(), with_exact_sums(nn.Linear(WIDTH, WIDTH))) for _ in range(2))
    x = output = numbers(ROWS, WIDTH, asks=True)
    for block in blocks:  # each ends with a product, so its output is also kept
        output = tensor(learner.checkpoint_selective(block, output, keep={PRODUCT, RELU}))
    backward_of(output)
    row = {"row, input": array_or_nan(x.grad), "row, weights": gradients(blocks)}
    return row | {name: results[name] for name in ("loss", "input", "before", "weights", "drawn")}


def selective_runs(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts runs of products and GELUs in forward and in backward, with each kind kept and with none kept.

    Returns also the gradients, which come from kept outputs and from a second run of changed blocks.
    """
    kinds = {"products": {PRODUCT}, "GELUs": [GELU], "none": ()}
    results = {kept: _selective(learner, seed, keep, clear=True) for kept, keep in kinds.items()}
    ran = {f"{kind}, {kept} kept": result[kind] for kept, result in results.items() for kind in ("products", "GELUs")}
    weights = {f"weights, {kept} kept": np.nan_to_num(result["weights"]) for kept, result in results.items()}
    return ran | weights | {"loss": results["GELUs"]["loss"]}


def selective_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes kept after forward."""
    kinds = {"products": {PRODUCT}, "GELUs": {GELU}}
    return {kept: _selective(learner, seed, keep, clear=True)["kept"] for kept, keep in kinds.items()}


def selective_released(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the bytes that exist after backward while the loss still exists, and after an output that was dropped."""
    results = _selective(learner, seed, {PRODUCT}, clear=True)
    block, x = Block(), numbers(random.Random(seed).randrange(*MANY), WIDTH, asks=True)
    with Watch() as watch:
        output = tensor(learner.checkpoint_selective(block, x, keep={PRODUCT}))
        del output
        gc.collect()
        dropped = watch.bytes_but()
    return {name: results[name] for name in ("released", "loss")} | {"dropped": dropped}


# ---------------------------------------------------------------------------------------------------------------- plan
Sizes = list[list[int]]  # of each layer: bytes inside, bytes of its input, FLOPs


def _sizes(seed: int) -> Sizes:
    """Returns seven layers with random costs that differ for every choice: one large and expensive, two cheap."""
    draw = random.Random(seed)
    sizes = [draw.randrange(50, 150) * 1001 + draw.randrange(1000) for _ in range(7)]
    times = [draw.randrange(2, 9) for _ in sizes]
    flops = [draw.randrange(10**6, 10**8) for _ in sizes]
    large, *cheap = draw.choice([2, 3, 4, 5]), draw.choice([0, 1]), 6
    sizes[large], times[large], flops[large] = sizes[large] + 50_000, 30, flops[large] + 10**8
    for place in cheap:
        flops[place] = draw.randrange(10**5, 10**6)
    return [[size * n, size, cost] for size, n, cost in zip(sizes, times, flops, strict=True)]


def _layers(learner: ModuleType, sizes: Sizes) -> list[Any]:
    return [learner.Layer(*layer) for layer in sizes]


def peaks(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the peaks with no layer, the last layer, all layers and random layers recomputed."""
    layers, draw = _layers(learner, _sizes(seed)), random.Random(seed)
    count = len(layers)
    choices = [[], [count - 1], [0], [*range(count)], *(sorted(draw.sample(range(count), n)) for n in (2, 3, 4))]
    returned = [learner.peak_bytes(layers, choice) for choice in choices]
    rising = _layers(learner, [[10, 5, 1], [100, 7, 1], [20, 9, 1]])  # the fullest layer is not the last
    returned.append(learner.peak_bytes(rising, {0, 1, 2}))
    return {"choices": [*choices, [0, 1, 2]], "peaks": [whole(peak) for peak in returned]}


def peak_of_nothing(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the peak of no layers."""
    return {"peak": whole(learner.peak_bytes([], []))}


def _peak(sizes: Sizes, places: list[int]) -> int:
    kept = (layer[1] if place in places else layer[0] for place, layer in enumerate(sizes))
    held = list(accumulate(kept, initial=0))
    return max(before + layer[0] for before, layer in zip(held, sizes, strict=False))


def _planned(learner: ModuleType, sizes: Sizes, budget: int) -> Any:
    """Returns the places of the learner's plan, or a description of another result."""
    try:
        return whole(learner.plan(_layers(learner, sizes), budget))
    except ValueError:
        return "ValueError"


SHARES = (1, 0.9, 0.75, 0.6, 0.5, 0.4, 0.25, 0.1, 0.05, 0)


def _budgets(sizes: Sizes) -> list[int]:
    """Returns budgets from the peak without recomputation down to the smallest peak of all choices."""
    reached = sorted({_peak(sizes, [p for p in range(len(sizes)) if c >> p & 1]) for c in range(2 ** len(sizes))})
    return [reached[int(share * (len(reached) - 1))] for share in SHARES]


def fits(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Plans for several budgets, and for random other layers with one budget each, so that one plan cannot fit all."""
    sizes, draw = _sizes(seed), random.Random(seed)
    cases = [(sizes, budget) for budget in _budgets(sizes)]
    for _ in range(OTHERS):
        others = [[draw.randrange(50, 999), draw.randrange(1, 50), draw.randrange(1, 999)] for _ in range(6)]
        cases.append((others, draw.choice(_budgets(others)[3:])))
    return {
        "layers": [layers for layers, _ in cases],
        "budgets": [budget for _, budget in cases],
        "plans": [_planned(learner, layers, budget) for layers, budget in cases],
    }


OTHERS = 8  # choices of layers and of a budget


def cheapest(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Plans for several budgets, and for two that one layer meets alone and two others meet together."""
    sizes = _sizes(seed)
    cases = [
        *((sizes, budget) for budget in _budgets(sizes)),
        *(_one_or_two(seed, costs) for costs in ([10], [16, 14])),
    ]
    plans = [_planned(learner, layers, budget) for layers, budget in cases]
    return {"layers": [layers for layers, _ in cases], "plans": plans}


def _one_or_two(seed: int, costs: list[int]) -> tuple[Sizes, int]:
    """Returns layers and a budget: each layer of one of these costs meets it alone, two others of cost 6 together.

    The cheapest plan costs 10**18 FLOPs or more, as much as a search may take for infinity; the sum of all fits int64.
    """
    draw = random.Random(seed)
    size, cost = draw.randrange(100, 200), draw.randrange(100, 200) * 10**15
    alone = [[5 * size, size, one * cost] for one in costs]
    together = [[3 * size, size, 6 * cost]] * 2
    places = sorted(draw.sample(range(len(alone) + 2), len(alone)))  # the cheapest one comes last
    sizes = together.copy()
    for place, layer in zip(places, alone, strict=True):
        sizes.insert(place, layer)
    return [*sizes, [9 * size, size, cost]], (5 * len(alone) + 6 - 4 + 9) * size


def impossible(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Plans for impossible budgets, by one byte and by more, mixed with large budgets; and for no layers."""
    sizes, draw = _sizes(seed), random.Random(seed)
    largest, *_, least = _budgets(sizes)
    budgets = [least - 1, *(least - draw.randrange(2, 1000) for _ in range(7)), *[largest + 1] * 8]
    draw.shuffle(budgets)
    return {
        "layers": sizes,
        "least": least,
        "asked": budgets,
        "said": [_planned(learner, sizes, budget) for budget in budgets],
        "no layers": _planned(learner, [], 1),
    }
