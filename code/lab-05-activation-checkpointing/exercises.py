"""Lab 05, exercises: activation checkpointing, written by hand.

Nine exercises, in the order of the page; later ones call earlier ones. Replace each line that raises
NotImplementedError; keep the signatures. The tuple `Layer` is given; you may write other classes and functions.

    rankzero check 05                  # all of them
    rankzero check 05 checkpoint       # one
    rankzero hint 05 checkpoint        # when stuck
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode


# ------------------------------------------------------------------------------------------------------ count the runs
def runs_per_block(blocks: Sequence[nn.Module], step: Callable[[], object]) -> list[int]:
    """Calls `step` once, and counts how often it runs each of `blocks` forward, in the order of `blocks`.

    `step` is a whole training step, so a block that is recomputed in backward runs twice. Runs in eval mode count too,
    and runs that an error ends early: PyTorch's checkpoint ends a second run as soon as backward has what it needs.
    A block may be listed twice: each of its places has the count of all its runs. The function leaves nothing on the
    blocks, their parts and their parameters, such as a hook or an attribute, even if an error or Ctrl-C ends `step`;
    the error reaches the caller. Read: PyTorch's `nn.Module.register_forward_pre_hook`
    """
    raise NotImplementedError("runs_per_block is not written yet. A hint: rankzero hint 05 runs_per_block")


# ------------------------------------------------------------------------------------------------------ the second run
def repeatable(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """Stores the state on which `function(*inputs)` depends; returns a function that runs it later in this state.

    `repeatable` itself does not call `function`. The returned function takes no arguments, calls `function` once each
    time that it is called, returns its result, and

    - passes the inputs in their places: for each tensor a new one in each call, detached from the graph that made it,
      requiring a gradient if the input does; everything else (numbers, lists, None) unchanged. The caller's tensors
      stay as they are, and no numbers are copied.
    - runs it with gradients on, even if they are off, as they are in backward.
    - runs it under the autocast of the CPU as it was when `repeatable` was called: on or off, and its dtype.
    - gives it, each time, the random numbers that torch's CPU generator would have drawn when `repeatable` was called.
      Afterwards the generator has the state from before the run, also if `function` raises an error.
    - raises RuntimeError instead if a tensor among the inputs was overwritten in place since `repeatable` was called:
      every in-place operation adds 1 to the tensor's `_version`.

    Read: handbook/recomputation.md, "State that the second run needs"
    """
    raise NotImplementedError("repeatable is not written yet. A hint: rankzero hint 05 repeatable")


# ---------------------------------------------------------------------------------------------------------- checkpoint
def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """Returns `function(*inputs)`; autograd keeps only the tensors among the inputs, and backward runs it again.

    Output and gradients equal those of a plain `function(*inputs)` in every bit, with dropout and under autocast too,
    and so do the random numbers that are drawn later. `function` returns a tensor or a tuple of tensors and may use
    weights. The graph is that of a plain call: torch.autograd.grad works through it, and weights get their gradients
    even if no input requires one. The starter's class does neither. With retain_graph=True several backwards work too,
    each through a part of the graph or all of it. Calls do not affect each other, in any order of their backwards.

    While `with saved_tensors_hooks(pack, unpack):` is active, autograd calls `pack(tensor)` for each tensor that it
    would keep, and keeps the value that `pack` returns. In backward it calls `unpack` with that value, once for each,
    and uses the result as the tensor. A second run passes the same tensors to its own hooks in the same order. After
    backward none of these tensors exists any more, and no input to which no other code refers: keep them detached from
    the graph of the second run, or remove each when backward takes it. Use your `repeatable`. Do not use
    torch.utils.checkpoint, which is PyTorch's answer to this exercise. Read: handbook/recomputation.md, "State that the
    second run needs"
    """
    raise NotImplementedError("checkpoint is not written yet. A hint: rankzero hint 05 checkpoint")


# ------------------------------------------------------------------------------------------------------------ segments
def segment_lengths(blocks: int, segments: int) -> list[int]:
    """Returns the lengths of `segments` segments of `blocks` blocks: 7 blocks in 3 segments are 3, 2 and 2.

    1 <= segments <= blocks. Lengths differ by at most one, and longer segments come first.
    """
    raise NotImplementedError("segment_lengths is not written yet. A hint: rankzero hint 05 segment_lengths")


def checkpoint_segments(blocks: Sequence[nn.Module], x: Tensor, segments: int) -> Tensor:
    """Runs `blocks` one after another on `x`, in segments of `segment_lengths`, each under your `checkpoint`.

    1 <= segments <= len(blocks). Autograd keeps the input of each segment, and each block runs twice in a training
    step.
    """
    raise NotImplementedError("checkpoint_segments is not written yet. A hint: rankzero hint 05 checkpoint_segments")


def best_segments(layers: int, boundary: int, inside: int) -> int:
    """Returns the number of segments, cut as in `segment_lengths`, with the lowest peak for `layers` equal blocks.

    A segment's input takes `boundary` bytes. A block that runs with gradients on keeps `inside` bytes, its input
    included. While a segment runs again, memory holds the bytes that its blocks keep and the inputs of all segments
    before it; the inputs of the segments after it are gone. The peak is the largest number of bytes in memory during
    backward, over all segments. Of several numbers of segments with the same peak, returns the smallest.
    """
    raise NotImplementedError("best_segments is not written yet. A hint: rankzero hint 05 best_segments")


# ----------------------------------------------------------------------------------------------------------- selective
def keep_or_reuse(function: Callable[..., Any], keep: Collection[Any]) -> Callable[..., Any]:
    """Returns a function to call twice with equal inputs: operations in `keep` run in the first call only.

    The first call returns `function(*inputs)` and keeps the output of each operation in `keep`. In the second call
    such an operation does not run: it gets its kept output, in the order of the first call. Everything else runs twice.
    After the second call nothing is kept any more.

    `keep` contains operators as a `TorchDispatchMode` gets them, such as `torch.ops.aten.mm.default`, a matrix product.
    Another overload, such as `mm.out`, is another operator. Each returns one tensor, which no code changes in place,
    and draws no random numbers. In a mode's `__torch_dispatch__`, `func(*args, **kwargs)` runs the operation, and your
    return value is the operation's result. Autograd attaches the graph of the first run to that tensor: keep
    `output.detach()`, or the kept tensors and the graph refer to each other. Read: handbook/recomputation.md,
    "Selective recomputation"
    """
    raise NotImplementedError("keep_or_reuse is not written yet. A hint: rankzero hint 05 keep_or_reuse")


def checkpoint_selective(function: Callable[..., Any], *inputs: Any, keep: Collection[Any]) -> Any:
    """As `checkpoint`, but operations in `keep` run once: their outputs are kept, and used in the second run.

    After backward the outputs no longer exist, so only one backward is possible. Use your `checkpoint` and
    `keep_or_reuse`, and no torch.utils.checkpoint.
    """
    raise NotImplementedError("checkpoint_selective is not written yet. A hint: rankzero hint 05 checkpoint_selective")


# ---------------------------------------------------------------------------------------------------- plan to a budget
class Layer(NamedTuple):
    """One of the layers that run one after another. Given."""

    inside: int  # bytes it keeps for backward, its input included
    boundary: int  # bytes of its input: all that it keeps between forward and backward if it is recomputed
    flops: int  # FLOPs of its forward pass, which recomputation adds


def peak_bytes(layers: Sequence[Layer], recomputed: Collection[int]) -> int:
    """Returns the most bytes that `layers` keep at once during backward; layers at the places `recomputed` run again.

    Backward goes through the layers from the last to the first. While it is at a layer, that layer keeps its `inside`
    bytes, recomputed or not. The layers before it keep their bytes from forward: `boundary` if recomputed, `inside` if
    not. The layers after it keep nothing. Without layers, the peak is 0.
    """
    raise NotImplementedError("peak_bytes is not written yet. A hint: rankzero hint 05 peak_bytes")


def plan(layers: Sequence[Layer], budget: int) -> list[int]:
    """Returns the places of the layers to recompute, ascending: a peak of at most `budget` bytes, for the fewest FLOPs.

    The plan is exact: no other choice within the budget recomputes fewer FLOPs. There are at most 10 layers, so you can
    try all 1,024 choices. FLOPs have no upper limit. Without layers, the plan is an empty list. ValueError if no choice
    fits.
    """
    raise NotImplementedError("plan is not written yet. A hint: rankzero hint 05 plan")
