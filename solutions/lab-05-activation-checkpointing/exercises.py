"""Lab 05, exercises: activation checkpointing, written by hand.

Five exercises, in the order of the page. Replace each line that raises NotImplementedError; keep the signatures. The
class `Recompute` and the tuple `Layer` are given; you may write other classes and functions beside them.

    rankzero check 05                  # all of them
    rankzero check 05 checkpoint       # one
    rankzero hint 05 checkpoint        # when stuck
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


# ------------------------------------------------------------------------------------------------------ count the runs
def runs_per_block(blocks: Sequence[nn.Module], step: Callable[[], object]) -> list[int]:
    """Calls `step` once, and counts how often it runs each of `blocks` forward, in the order of `blocks`.

    `step` is a whole training step, so a block that is recomputed in backward runs twice. Nothing of the counting is
    left behind, even if `step` raises, and then its error goes on to whoever called. Read: PyTorch's
    `nn.Module.register_forward_pre_hook`
    """
    ### BEGIN SOLUTION
    counts = [0] * len(blocks)

    def counter(place: int) -> Callable[..., None]:
        def count(module: nn.Module, inputs: Any) -> None:
            counts[place] += 1

        return count

    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
    try:
        step()
    finally:
        for handle in handles:
            handle.remove()
    return counts
    ### END SOLUTION


# ---------------------------------------------------------------------------------------------------------- checkpoint
class Recompute(torch.autograd.Function):
    """One node of autograd's graph in the place of all those that `function` would make. Given; you write its parts.

    Autograd calls `forward` with gradients off, so nothing inside keeps activations.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], asks: Tensor, *inputs: Any) -> Tensor:
        """What `checkpoint` passes to `Recompute.apply`; `ctx` is the node, and goes to `backward` later."""
        return checkpoint_forward(ctx, function, inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """One gradient for each argument of `forward`: None for `function` and `asks`, then one for each input."""
        return None, None, *checkpoint_backward(ctx, gradients[0])


def checkpoint_forward(ctx: Any, function: Callable[..., Tensor], inputs: tuple[Any, ...]) -> Tensor:
    """Runs `function(*inputs)`, notes in `ctx` what `checkpoint_backward` needs, and returns the output.

    Tensors among the inputs go into `ctx.save_for_backward`, which may be called once. An attribute of `ctx` would keep
    them as long as the loss lives, and autograd could not tell when somebody overwrites one. Everything else may become
    an attribute: the function, inputs that are no tensors, the state of torch's CPU generator, and what autocast is set
    to on the CPU.
    """
    ### BEGIN SOLUTION
    ctx.function = function
    ctx.others = [None if isinstance(one, Tensor) else (one,) for one in inputs]  # None: a tensor's place
    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
    ctx.random_state = torch.get_rng_state()
    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
    return function(*inputs)
    ### END SOLUTION


def checkpoint_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Runs the function again, this time with gradients on, and backpropagates `gradient` through it.

    `gradient` is the loss's gradient by the output of `checkpoint_forward`. The weights that the function uses get
    theirs in `.grad`. Returned is one gradient for each input: None for one that is no tensor or asks for none
    (`ctx.needs_input_grad[2:]` says which ask).

    The second run draws the random numbers of the first and runs under the same autocast. Afterwards the generator is
    where it was before this function.
    """
    ### BEGIN SOLUTION
    tensors = iter(ctx.saved_tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
    ]
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.random_state)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
    ### END SOLUTION


def checkpoint(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """`function(*inputs)`, of which autograd keeps the tensors among the inputs only; it runs again in backward.

    Output and gradients equal those of a plain `function(*inputs)`, in every bit, with dropout too. So do the random
    numbers that are drawn later. `function` returns one tensor and may use weights, which get their gradients even if
    no input asks for one: autograd runs a node's backward only if one of its tensors does, so hand `Recompute.apply` an
    empty tensor, `asks`, that does. Without torch.utils.checkpoint: that is PyTorch's answer to this exercise. Read:
    handbook/memory.md, "Recompute what, and when"
    """
    ### BEGIN SOLUTION
    asks = torch.empty(0, requires_grad=True)
    return Recompute.apply(function, asks, *inputs)  # type: ignore[no-any-return]
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------------------ segments
def checkpoint_segments(blocks: Sequence[nn.Module], x: Tensor, segments: int) -> Tensor:
    """Runs `blocks` one after another on `x`, cut into `segments` runs of blocks, each under your `checkpoint`.

    1 <= segments <= len(blocks). Lengths differ by at most one, and longer segments come first: 7 blocks in 3 segments
    are 3, 2 and 2. Autograd keeps the input of each segment, and each block runs twice in a training step.
    """
    ### BEGIN SOLUTION

    def run(start: int, end: int) -> Callable[[Tensor], Tensor]:
        def segment(x: Tensor) -> Tensor:
            for block in blocks[start:end]:
                x = block(x)
            return x

        return segment

    short, longer = divmod(len(blocks), segments)
    start = 0
    for place in range(segments):
        end = start + short + (place < longer)
        x = checkpoint(run(start, end), x)
        start = end
    return x
    ### END SOLUTION


def best_segments(layers: int, boundary: int, inside: int) -> int:
    """How many segments, cut as in `checkpoint_segments`, make the peak of `layers` equal blocks the lowest.

    A segment's input takes `boundary` bytes. A block that runs with gradients on keeps `inside` bytes, its input
    included. While a segment runs again, what it keeps is there, and the inputs of all segments before it; those after
    it are gone. The peak is the most that is there during backward, over all segments. Of several equally good numbers
    of segments it is the smallest.
    """
    ### BEGIN SOLUTION

    def peak(segments: int) -> int:
        short, longer = divmod(layers, segments)
        return max(before * boundary + (short + (before < longer)) * inside for before in range(segments))

    return min(range(1, layers + 1), key=peak)
    ### END SOLUTION


# ----------------------------------------------------------------------------------------------------------- selective
def checkpoint_selective(function: Callable[..., Tensor], *inputs: Any, keep: Collection[Any]) -> Tensor:
    """As `checkpoint`, but operations in `keep` run once: their outputs are kept, and handed out in the second run.

    `keep` holds operators as a `TorchDispatchMode` sees them, such as `torch.ops.aten.mm.default`, a matrix product.
    Each returns one tensor and draws no random numbers. Everything else runs again. Use your `checkpoint`. When
    backward has passed, the outputs are gone. Without torch.utils.checkpoint here too.

    In a mode's `__torch_dispatch__`, `func(*args, **kwargs)` runs the operation, and what you return is what the
    program gets. Autograd writes on what it gets: in the second run hand out `kept.detach()`, not the tensor itself.
    Read: handbook/memory.md, "Recompute what, and when"
    """
    ### BEGIN SOLUTION
    kept: list[Tensor] = []
    again = False

    class KeepOrReuse(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in keep:
                return func(*args, **(kwargs or {}))
            if again:
                return kept.pop(0).detach()
            kept.append(func(*args, **(kwargs or {})))
            return kept[-1]

    def run(*inputs: Any) -> Tensor:
        nonlocal again
        with KeepOrReuse():
            output = function(*inputs)
        again = True
        return output

    return checkpoint(run, *inputs)
    ### END SOLUTION


# ---------------------------------------------------------------------------------------------------- plan to a budget
class Layer(NamedTuple):
    """One of the layers that run one after another. Given."""

    inside: int  # bytes it keeps for backward, its input included
    boundary: int  # bytes of its input: all that it keeps between forward and backward if it is recomputed
    flops: int  # of its forward pass: what recomputing it costs


def peak_bytes(layers: Sequence[Layer], recomputed: Collection[int]) -> int:
    """The most bytes that `layers` keep at once during backward, those at the places `recomputed` being recomputed.

    Backward goes through the layers from the last to the first. While it is at one, that layer holds its `inside`
    bytes, recomputed or not; the layers before it hold what they kept in forward, and those after it hold nothing.
    """
    ### BEGIN SOLUTION
    peak = before = 0
    for place, layer in enumerate(layers):
        peak = max(peak, before + layer.inside)
        before += layer.boundary if place in recomputed else layer.inside
    return peak
    ### END SOLUTION


def plan(layers: Sequence[Layer], budget: int) -> list[int]:
    """The places of the layers to recompute, ascending, so that the peak is at most `budget` bytes at least FLOPs.

    Exact, not a guess: no other choice within the budget recomputes fewer FLOPs. There are at most 10 layers, so that
    trying all 1,024 choices is fine; of no layers, the plan is an empty list. ValueError if no choice fits.
    """
    ### BEGIN SOLUTION
    best: list[int] | None = None
    least = 0
    for choice in range(2 ** len(layers)):
        places = [place for place in range(len(layers)) if choice >> place & 1]
        flops = sum(layers[place].flops for place in places)
        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
            best, least = places, flops
    if best is None:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return best
    ### END SOLUTION
