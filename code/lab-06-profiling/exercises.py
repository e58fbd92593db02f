"""Lab 06, exercises: what a profiler does for you, written by hand.

Ten exercises, in the order of the page; later ones call earlier ones. Replace each line that raises
NotImplementedError; keep the signatures. A trace is what torch.profiler exports: a list of events in no particular
order. The ones that matter have `"ph": "X"`, and

    "name"   what it was               "cat"   its kind: "user_annotation" for a range that somebody named,
    "ts"     when it began, in µs              "cpu_op" for an operation of PyTorch
    "dur"    how long it took, in µs   "tid"   the thread it ran on

Steps and phases are ranges: a step's name begins with "ProfilerStep#", a phase's name is in PHASES. Other events have
other kinds, or lack some of these keys; a range on the GPU ("gpu_user_annotation") bears the name of the one on the
host and is no concern here. No function changes the events that it is given.

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

PHASES = ("optimizer", "backward", "forward", "data")  # where several run at once, the time is the first one's

# What `diagnose` calls by its name, and from where on.
CAUSES = ("starved loader", "sync every step", "many tiny ops", "none of these")
DATA_SHARE = 0.5  # of the measured steps' time
# Calls of aten::_local_scalar_dense a measured step: each hands one number of a tensor to Python. A healthy step of the
# labs has 27, in which AdamW reads the step count of each parameter; it is on the CPU, whatever the parameter is on.
SYNCS = 100
TINY_MS, TINY_SHARE = 0.02, 0.2  # mean self time of a call; share of all operations' self time


def merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The time that `intervals` (start, end) cover, as intervals that neither overlap nor touch, sorted.

    The list that is given may be in any order, and stays as it is. Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("merged is not written yet. A hint: rankzero hint 06 merged")


def phase_fractions(events: list[Event], warmup: int) -> tuple[float, dict[str, float]]:
    """How long a step takes, and where its time goes.

    The first `warmup` steps, in the order of time, do not count; the others are the measured steps. Returns the median
    of their durations in milliseconds, and for each phase, and for "idle", its fraction of their whole time. Each
    instant inside a measured step counts once: for the phase that covers it, on whatever thread; for the one that
    comes first in PHASES where several do; for "idle" where none does. A phase may have several ranges in a step, some
    inside others, may reach over the border of a step, and may have no range at all: its fraction is then 0.0. The
    fractions add up to 1. All are plain floats. Use your `merged`.

    Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("phase_fractions is not written yet. A hint: rankzero hint 06 phase_fractions")


def self_times(events: list[Event], warmup: int) -> dict[str, tuple[int, float]]:
    """Calls and self time of each operation in the measured steps: its name -> (calls, milliseconds).

    Operations are of kind "cpu_op", and count where they begin inside a measured step. An operation may call others,
    which then lie inside it on the same thread. Self time is its own duration without that of the operations
    that it calls directly, so that the self times of all add up to the time in which any ran.

    Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("self_times is not written yet. A hint: rankzero hint 06 self_times")


def palm_flops(parameters: int, looked_up: int, layers: int, heads: int, head_dim: int, seq_len: int) -> int:
    """FLOPs that training on one token needs, forward and backward, by PaLM's formula 6N + 12LHQT.

    N are the `parameters` without those `looked_up`, which are only looked up and never multiplied. L `layers` of H
    `heads` of `head_dim` = Q numbers; T = `seq_len` tokens a sequence. A multiply-add is two FLOPs, and that half of
    the attention is masked is not discounted.

    Source: PaLM, arXiv 2204.02311, appendix B. Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("palm_flops is not written yet. A hint: rankzero hint 06 palm_flops")


def mfu(tokens_per_second: float, token_flops: int, devices: int, sheet: list[dict[str, Any]], dtype: str) -> float:
    """Model FLOPs utilization: the share of the devices' peak that the model's own FLOPs take.

    `tokens_per_second` is the rate of all `devices` together, `token_flops` what one token needs. `sheet` are rows of
    one device's data sheet: {"dtype": "bf16", "tflops": 1979, "sparsity": True} is 1,979·10¹² FLOP/s. A row with
    "sparsity" counts matrices of which half is zero, at twice the rate of dense ones; training multiplies dense ones,
    in `dtype`.
    """
    raise NotImplementedError("mfu is not written yet. A hint: rankzero hint 06 mfu")


def hfu(model_utilization: float, recomputed: float) -> float:
    """Hardware FLOPs utilization of a run with that MFU which does this share of its forward's FLOPs a second time.

    `recomputed` is 0 without activation checkpointing, 1 where the whole forward pass runs again. Backward takes twice
    the FLOPs of forward.
    """
    raise NotImplementedError("hfu is not written yet. A hint: rankzero hint 06 hfu")


def tiny_share(operations: Mapping[str, tuple[int, float]]) -> float:
    """The share of all self time that tiny operations have, between 0 and 1; 0.0 without any self time.

    `operations` are as `self_times` returns them: name -> (calls, milliseconds). An operation is tiny if its calls take
    less than TINY_MS of self time on average.
    """
    raise NotImplementedError("tiny_share is not written yet. A hint: rankzero hint 06 tiny_share")


def diagnose(events: list[Event], warmup: int) -> str:
    """Which of CAUSES slows the measured steps of a trace: the first of these that is so.

    - "starved loader": `data` takes more than DATA_SHARE of the steps' time
    - "sync every step": at least SYNCS calls of "aten::_local_scalar_dense" per step
    - "many tiny ops": tiny operations have more than TINY_SHARE of all operations' self time
    - "none of these"

    Use your `phase_fractions`, `self_times` and `tiny_share`. Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("diagnose is not written yet. A hint: rankzero hint 06 diagnose")


def patients() -> dict[str, str]:
    """What ails each of the lab's three slow scripts: "patient_a", "patient_b", "patient_c" -> one of CAUSES.

    Find out with `profile_step.py --script patient_a.py` and so on, before you read them.
    """
    raise NotImplementedError("patients is not written yet. A hint: rankzero hint 06 patients")


def gradient_norm(module: nn.Module) -> float:
    """The length of the gradient of all of the module's parameters together, as one vector: an L2 norm.

    Parameters without a gradient, frozen ones for example, add nothing; without any gradient it is 0.0. A parameter
    that the module uses in two places counts once. The gradients stay as they are. They are squared and added in their
    own dtype or a wider one, at least in float32: the square of 300 is too large for float16. Read:
    handbook/backpropagation.md
    """
    raise NotImplementedError("gradient_norm is not written yet. A hint: rankzero hint 06 gradient_norm")


def note(module: nn.Module, activations: list[Tensor], gradients: list[Tensor]) -> Callable[[], None]:
    """Notes down what passes through one module from now on, and returns a function that ends it.

    Each call of the module adds the root mean square of its output, a single tensor, to `activations`. Each time that
    backward passes there, the L2 norm of the loss's gradient with respect to that output is added to `gradients`. There
    may be no backward, and an output may need no gradient. After the returned function was called nothing is added,
    not even by a backward that follows, and the hooks of others are still there.

    What is added are scalar tensors without a graph, computed in the tensor's own dtype but at least in float32;
    nothing else is kept. They stay on the device: reading them, which waits for it, is left to the caller. What the
    model computes, its gradients and its modes are not touched. Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("note is not written yet. A hint: rankzero hint 06 note")


@contextmanager
def watch(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, dict[str, list[Tensor]]]]:
    """While the block runs, notes down what passes through `modules`; at its end, however it ends, stops doing so.

    Yields a dictionary that fills up: for each name of `modules`, "activation" and "gradient", the two lists of your
    `note`; a module that is never called has empty ones. An error in the block reaches the code that runs it.

    Read: handbook/profiling-and-roofline.md
    """
    raise NotImplementedError("watch is not written yet. A hint: rankzero hint 06 watch")
