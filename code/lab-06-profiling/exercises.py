"""Lab 06, exercises: what a profiler does for you, written by hand.

Ten exercises, in the order of the page; later ones call earlier ones. Replace each line that raises
NotImplementedError; keep the signatures. A trace is what torch.profiler exports: a list of events in no particular
order. The relevant events have `"ph": "X"`, and

    "name"   its name                  "cat"   its kind: "user_annotation" for a range that was named by the user,
    "ts"     when it began, in µs              "cpu_op" for an operation of PyTorch
    "dur"    how long it took, in µs   "tid"   the thread it ran on

Steps and phases are ranges: a step's name is "ProfilerStep#" and a number, which may begin above 0; a phase's name is
in PHASES. Other events have other kinds, or lack some of these keys. A range on the GPU ("gpu_user_annotation") has the
same name as the range on the host; ignore it. No function changes the events that are passed to it.

    rankzero check 06                      # all of them
    rankzero check 06 phase_fractions      # one
    rankzero hint 06 phase_fractions       # when stuck
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Event = dict[str, Any]

PHASES = ("optimizer", "backward", "forward", "data")  # where several run at once, the first of them gets the time

# The causes that `diagnose` returns, and their limits.
CAUSES = ("starved loader", "sync every step", "many tiny ops", "none of these")
DATA_SHARE = 0.5  # of the measured steps' time
# Calls of aten::_local_scalar_dense per measured step: each hands one number of a tensor to Python. A healthy step of
# the labs has 27: AdamW reads the step count of each parameter, which is on the CPU, whatever the parameter is on.
SYNCS = 100
TINY_MS, TINY_SHARE = 0.02, 0.2  # mean self time of a call; share of all operations' self time


def merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the time that `intervals` (start, end) cover, as intervals that neither overlap nor touch, sorted.

    `intervals` may be in any order, and may be empty. Each result is a tuple or a list of two numbers. The function
    does not change the list it is given. Read: handbook/profiling.md
    """
    raise NotImplementedError("merged is not written yet. A hint: rankzero hint 06 merged")


def phase_fractions(events: list[Event], warmup: int) -> tuple[float, dict[str, float]]:
    """Returns how long a step takes, and the fraction of its time for each phase.

    The first `warmup` steps, in the order of time, do not count; the others are the measured steps. Returns the median
    of their durations in milliseconds, and for each phase, and for "idle", its fraction of their total time. Each
    instant inside a measured step counts once: for the phase that covers it, on any thread; where several phases cover
    it, for the first of them in PHASES; where none does, for "idle". A phase may have several ranges in a step, some
    inside others. A range may extend past the end of a step. A phase without any range has the fraction 0.0. The
    fractions add up to 1. All are plain floats. Use your `merged`.

    Read: handbook/profiling.md
    """
    raise NotImplementedError("phase_fractions is not written yet. A hint: rankzero hint 06 phase_fractions")


def self_times(events: list[Event], warmup: int) -> dict[str, tuple[int, float]]:
    """Returns calls and self time of each operation in the measured steps: its name -> (calls, milliseconds).

    A list of the two numbers counts as a tuple. Operations are of kind "cpu_op", and count if they begin inside a
    measured step: at its start or later, and before its end. An operation may call others, which then lie inside it on
    the same thread. An operation's self time is its duration minus the durations of the operations that it calls
    directly, also of those that begin after the step. So the self times of a thread add up to the time in which its
    operations ran.

    Read: handbook/profiling.md
    """
    raise NotImplementedError("self_times is not written yet. A hint: rankzero hint 06 self_times")


def palm_flops(parameters: int, looked_up: int, layers: int, heads: int, head_dim: int, seq_len: int) -> int:
    """Returns the FLOPs that training on one token needs, forward and backward, by PaLM's formula 6N + 12LHQT.

    N is `parameters` minus `looked_up`, the number of parameters that are only looked up and never multiplied. There
    are L = `layers`, H = `heads` per layer, Q = `head_dim` numbers per head, and T = `seq_len` tokens per sequence. A
    multiply-add is two FLOPs. The half of the attention that is masked counts too.

    Source: PaLM, arXiv 2204.02311, appendix B. Read: handbook/mfu.md
    """
    raise NotImplementedError("palm_flops is not written yet. A hint: rankzero hint 06 palm_flops")


def mfu(tokens_per_second: float, token_flops: int, devices: int, sheet: list[dict[str, Any]], dtype: str) -> float:
    """Model FLOPs utilization: the share of the devices' peak that the model's own FLOPs take.

    `tokens_per_second` is the rate of all `devices` together, `token_flops` the FLOPs per token. `sheet` has the rows
    of one device's data sheet: {"dtype": "bf16", "tflops": 1979, "sparsity": True} is 1,979·10¹² FLOP/s. A row with
    "sparsity" is for matrices of which half is zero, at twice the rate of dense matrices; training multiplies dense
    matrices, in `dtype`.
    """
    raise NotImplementedError("mfu is not written yet. A hint: rankzero hint 06 mfu")


def hfu(model_utilization: float, recomputed: float) -> float:
    """Hardware FLOPs utilization of a run with the MFU `model_utilization`, which runs a part of its forward again.

    `recomputed` is the share of the forward's FLOPs that is recomputed: 0 without activation checkpointing, 1 if the
    whole forward pass runs again. Backward takes twice the FLOPs of forward.
    """
    raise NotImplementedError("hfu is not written yet. A hint: rankzero hint 06 hfu")


def tiny_share(operations: Mapping[str, tuple[int, float]]) -> float:
    """The share of all self time that tiny operations have, between 0 and 1; 0.0 without any self time.

    `operations` are as `self_times` returns them: name -> (calls, milliseconds). An operation is tiny if its calls take
    less than TINY_MS of self time on average.
    """
    raise NotImplementedError("tiny_share is not written yet. A hint: rankzero hint 06 tiny_share")


def diagnose(events: list[Event], warmup: int) -> str:
    """Returns the one of CAUSES that slows the measured steps of a trace: the first of these that holds.

    - "starved loader": `data` takes more than DATA_SHARE of the steps' time
    - "sync every step": at least SYNCS calls of "aten::_local_scalar_dense" per step
    - "many tiny ops": tiny operations have more than TINY_SHARE of all operations' self time
    - "none of these"

    Use your `phase_fractions`, `self_times` and `tiny_share`. Read: handbook/profiling.md
    """
    raise NotImplementedError("diagnose is not written yet. A hint: rankzero hint 06 diagnose")


def patients() -> dict[str, str]:
    """Returns the cause that slows each of the lab's slow scripts: "patient_a", "patient_b", "patient_c" -> a cause.

    Each cause is one of CAUSES. Profile with `profile_step.py --script patient_a.py` and so on, before you read them.
    """
    raise NotImplementedError("patients is not written yet. A hint: rankzero hint 06 patients")


def gradient_norm(module: nn.Module) -> float:
    """Returns the L2 norm of the gradients of all of the module's parameters, taken as one vector.

    Parameters without a gradient, such as those that were frozen before backward, add nothing; without any gradient the
    norm is 0.0. A parameter that is frozen after backward still has a gradient, which counts. A parameter that the
    module uses in two places counts once. The gradients stay as they are. They are squared and added
    in their own dtype or a wider one, at least in float32: the square of 300 is too large for float16. Read:
    handbook/backpropagation.md
    """
    raise NotImplementedError("gradient_norm is not written yet. A hint: rankzero hint 06 gradient_norm")


def note(module: nn.Module, activations: list[Tensor], gradients: list[Tensor]) -> Callable[[], None]:
    """Notes the size of one module's outputs and of their gradients from now on; returns a function that ends this.

    Each call of the module adds the root mean square of its output, a single tensor, to `activations`. Each time that
    backward computes the loss's gradient with respect to that output, the gradient's L2 norm is added to `gradients`.
    There may be no backward, and an output may need no gradient. After a call of the returned function nothing is
    added, not even by a backward that follows, and the hooks of other code are still there.

    The notes are scalar tensors without a graph, under create_graph=True too, computed in the tensor's own dtype but at
    least in float32. Each has memory of its own, for one number, and nothing else is kept. They stay on the device:
    only the caller reads them, because a read waits for the device. The model's results, gradients and modes do not
    change, also where the next module changes the output in place. Read: handbook/backpropagation.md
    """
    raise NotImplementedError("note is not written yet. A hint: rankzero hint 06 note")


@contextmanager
def watch(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, dict[str, list[Tensor]]]]:
    """Calls `note` for `modules` while the block runs; at the end of the block, also by an error or Ctrl-C, ends them.

    Yields a dictionary that fills up: for each name of `modules`, "activation" and "gradient", the two lists of your
    `note`; a module that is never called has empty ones, and a module with two names has notes under both. An error
    in the block reaches the code that runs it.

    Read: handbook/backpropagation.md
    """
    raise NotImplementedError("watch is not written yet. A hint: rankzero hint 06 watch")
