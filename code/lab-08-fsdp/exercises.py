"""Lab 08, exercises: sharded weights, gradients and optimizer state, written by hand.

Eight exercises, in the order of the page. Replace each line that raises NotImplementedError; keep the signatures.
N = ranks, P = numbers in the whole tensor, a *part* = the shard of ceil(P/N) numbers that one rank keeps. All ranks of
the default process group call a function at the same time; dist.get_rank() returns this rank's number. The collectives
are torch's: all_gather_into_tensor, reduce_scatter_tensor, all_reduce, barrier.

    rankzero check 08                  # all of them
    rankzero check 08 flat             # one
    rankzero hint 08 flat              # when stuck
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer


def cut(whole: Tensor, rank: int, ranks: int) -> Tensor:
    """Returns the part of `whole` that `rank` of `ranks` keeps: one dimension, ceil(P/N) numbers on every rank.

    The numbers are in the order of `whole.flatten()`: rank 0 has the first ones, rank 1 the next. The last parts end
    in zeros (the *padding*) where numbers are missing; a part may consist of padding only. No communication. The part
    has a storage of exactly its own size: a view would keep the whole tensor alive. It belongs to no autograd graph.
    `whole` may have any shape, and need not be contiguous.
    Read: handbook/sharding-and-zero.md, "An all-reduce is two halves"
    """
    raise NotImplementedError("cut is not written yet. A hint: rankzero hint 08 cut")


def gather(part: Tensor, shape: torch.Size) -> Tensor:
    """Returns the whole tensor of that shape, () included, from all ranks' parts, on every rank: the inverse of `cut`.

    One all-gather, in which each rank sends its part once. The padding at the end does not belong to the whole tensor,
    which has the dtype of the part. There may be no padding.
    """
    raise NotImplementedError("gather is not written yet. A hint: rankzero hint 08 gather")


def reduce_gradient(gradient: Tensor) -> Tensor:
    """Returns this rank's part of the mean of the ranks' `gradient`s. The part is as `cut` makes it, with padding.

    One reduce-scatter: a rank receives the sum of its own part only. `gradient` has any shape and floating-point dtype,
    the same on every rank, and need not be contiguous. The function does not change `gradient`. The part has the dtype
    of `gradient`.
    """
    raise NotImplementedError("reduce_gradient is not written yet. A hint: rankzero hint 08 reduce_gradient")


def clip_part(gradient: Tensor, numel: int, max_norm: float) -> float:
    """Scales a sharded gradient down to the norm `max_norm` if its norm is larger; returns the norm before.

    `gradient` is this rank's part, as `cut` makes it, of a gradient of `numel` numbers. The padding is undefined and
    may be nan: it does not belong to the gradient. The norm is that of the whole gradient, and every rank multiplies
    its part, in place, by the same number. One all-reduce, of one number. PyTorch divides `max_norm` by the norm plus
    1e-6, which is right here too. The gradient may be all 0.

    Returns a Python float, the same on every rank. Write it by hand, without torch.nn.utils.
    Read: handbook/sharding-and-zero.md, "Changes in the loop"
    """
    raise NotImplementedError("clip_part is not written yet. A hint: rankzero hint 08 clip_part")


def make_part(parameters: Sequence[nn.Parameter]) -> nn.Parameter:
    """Returns this rank's part of all weights, concatenated in this order, as a parameter for an optimizer.

    Every rank has the same weights, all of one dtype; frozen ones are in the part too, and have a gradient of 0. An
    optimizer of the part, torch.optim.AdamW([part]), holds state for the part only: this is ZeRO-1.
    """
    raise NotImplementedError("make_part is not written yet. A hint: rankzero hint 08 make_part")


def zero1_step(parameters: Sequence[nn.Parameter], part: nn.Parameter, optimizer: Optimizer) -> None:
    """Updates all weights by the mean of the ranks' gradients; each rank updates only its `part` of them.

    `part` is what `make_part` returned, and `optimizer` holds only `part`. The optimizer must treat each number by
    itself, as SGD, AdamW and RMSprop do; Adafactor and Muon need a matrix's rows. Each rank has its own p.grad. If it
    is None, even for all parameters of a rank, this rank's gradient is 0; another rank's may differ. So a weight that
    no rank uses has a gradient of 0, and weight decay moves it; DDP and `fully_shard` skip it. One reduce-scatter of
    all gradients, one optimizer.step(), one all-gather of all weights. Afterwards every rank has the same new weights
    in the same parameter tensors, and every p.grad is unchanged.
    """
    raise NotImplementedError("zero1_step is not written yet. A hint: rankzero hint 08 zero1_step")


def whole_weights(module: nn.Module, part: nn.Parameter) -> tuple[Tensor, dict[str, Tensor]]:
    """Gathers the whole weights of a module: one flat tensor, and views into it by name.

    `module` has its parameters on the meta device, with shapes and without numbers. The numbers are in `part`:
    module.parameters(), concatenated, as `cut` makes it. All have one dtype; some may be frozen or tied.

    Returns (full, weights). One all-gather fills `full`: N * part.numel() numbers of the part's dtype, a leaf of
    autograd's graph that requires a gradient if gradients are on (torch.is_grad_enabled()). `weights` has a view into
    `full` for each name of module.named_parameters(), in the parameter's shape, so that backward fills full.grad.
    Views are no copies: freeing `full` frees all of them. The function does not change `part`.
    """
    raise NotImplementedError("whole_weights is not written yet. A hint: rankzero hint 08 whole_weights")


def reduce_into_part(full: Tensor, part: nn.Parameter) -> None:
    """Adds this rank's part of the mean of the ranks' `full.grad` to `part.grad`, and frees `full`.

    One reduce-scatter of full.grad, which has N * part.numel() numbers. `part.grad` may be None before. Afterwards
    `full.grad` is None, and the storage that `full` shares with its views has no bytes: resize it, as with
    full.untyped_storage().resize_(0). Other memory for `full` leaves the views the old one.
    """
    raise NotImplementedError("reduce_into_part is not written yet. A hint: rankzero hint 08 reduce_into_part")


def sharded_forward(module: nn.Module, part: nn.Parameter, x: Tensor, reshard: bool) -> Tensor:
    """Returns module(x), with weights that are gathered for the computation: FSDP for one module.

    `module` and `part` are as in `whole_weights`. functional_call(module, weights, (x,)) runs the module with the
    weights of a dictionary {name: tensor}. The output is one tensor.

    Forward gathers the whole weights once and uses them. With `reshard` their memory is freed before this function
    returns, and they are gathered again when backward reaches the module; without it they stay until then. Under
    torch.no_grad() there is no backward, and the memory is freed in both cases.

    When the module's gradient is complete, backward adds this rank's part of the mean gradient to `part.grad`, as
    `reduce_into_part` does. In all: 2 all-gathers with `reshard`, 1 without, and 1 reduce-scatter. A module may be
    called several times before backward.

    Autograd keeps references to the weights. full.untyped_storage().resize_(0) frees their memory all the same, and
    resize_(bytes) allocates it again; full.data is the same tensor outside of autograd's record.
    Read: handbook/sharding-and-zero.md, "fully_shard"
    """
    raise NotImplementedError("sharded_forward is not written yet. A hint: rankzero hint 08 sharded_forward")


def mixed_step(
    part: Tensor, loss_of: Callable[[Tensor], Tensor], lr: float, param_dtype: torch.dtype, reduce_dtype: torch.dtype
) -> None:
    """One SGD step of sharded weights: computed in `param_dtype`, averaged in `reduce_dtype`, stored in fp32.

    `part` is this rank's part of the fp32 weights, the *master* copy: it stays fp32 and is updated in place, by
    part -= lr * gradient. `loss_of` takes the concatenated parts of all ranks in `param_dtype`, a vector of
    N * part.numel() numbers. It returns this rank's loss, a scalar, and is called once. The gradient is the mean over
    ranks: it is summed in `reduce_dtype`, the sum is divided by N in `reduce_dtype`, and all later computation is in
    fp32. For N = 3 the quotient is rounded to `reduce_dtype`.

    One all-gather, which sends `param_dtype`, and one reduce-scatter, which sends `reduce_dtype`.
    """
    raise NotImplementedError("mixed_step is not written yet. A hint: rankzero hint 08 mixed_step")


def save_parts(folder: Path, part: Tensor, numel: int) -> None:
    """Saves a sharded tensor of `numel` numbers, with parts as `cut` makes them; each rank writes its own part.

    `folder` does not exist yet. Whenever it exists under that name, it is complete, even if a rank is killed: all
    ranks write into `folder.with_name(folder.name + ".partial")`, and rank 0 renames that folder when every rank has
    written. The name may have a dot, as "step-1.5" has. A killed save may have left a partial folder of that name, with
    files in it. Ranks come at any time: the others may write before rank 0 begins. No weights are sent between ranks.
    `part` is float32 or float64; the function does not change it.

    Rank r writes `part-{r}.bin`: the bytes of its numbers, without padding. Several of the last ranks may have fewer
    numbers than a part, or none. Rank 0 writes `manifest.json`:
    {"numel": 10, "dtype": "float64", "counts": [4, 4, 2]}, dtype by its NumPy name, counts by rank.
    Read: handbook/sharding-and-zero.md, "Checkpoints"
    """
    raise NotImplementedError("save_parts is not written yet. A hint: rankzero hint 08 save_parts")


def load_part(folder: Path, rank: int, ranks: int) -> Tensor:
    """Loads the part of `rank` of `ranks`, as `cut` makes it, from what `save_parts` saved on any number of ranks.

    No communication. Besides the manifest a rank reads only the numbers of its own part, because the whole may not fit.
    The part has its own memory: the files may be overwritten or removed afterwards.
    Where many ranks saved and few load, a part spans three files or more.
    np.fromfile(file, dtype, count=..., offset=...) reads some of a file; its offset is in bytes.
    """
    raise NotImplementedError("load_part is not written yet. A hint: rankzero hint 08 load_part")
