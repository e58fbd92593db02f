"""Lab 08, exercises: weights, gradients and optimizer state in parts, one on each rank, written by hand.

Eight exercises, in the order of the page. Replace each line that raises NotImplementedError; keep the signatures.
N = ranks, P = numbers in the whole, a *part* = the ceil(P/N) of them that one rank keeps. In every function all ranks
of the default process group are calling at the same time; dist.get_rank() says which one you are. The collectives are
torch's: all_gather_into_tensor, reduce_scatter_tensor, all_reduce, barrier.

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
    """The part of `whole` that `rank` of `ranks` keeps: one dimension, ceil(P/N) numbers, the same size on every rank.

    The numbers are taken in the order of `whole.flatten()`: rank 0 has the first ones, rank 1 the next. Where they do
    not suffice, zeros fill up the part (the *fill*); a rank may have nothing else. No communication. The part has a
    storage of its own, exactly its size: a view would keep the whole alive. It belongs to no graph of autograd's.
    `whole` may have any shape, and need not be contiguous.
    Read: handbook/sharding-and-zero.md, "An all-reduce is two halves"
    """
    raise NotImplementedError("cut is not written yet. A hint: rankzero hint 08 cut")


def gather(part: Tensor, shape: torch.Size) -> Tensor:
    """The whole of that shape, () included, put together from every rank's `part`; `cut` undone, on every rank.

    One all-gather, in which each rank sends its part once. The fill at the end is no number of the whole, which has the
    dtype of the part.
    """
    raise NotImplementedError("gather is not written yet. A hint: rankzero hint 08 gather")


def reduce_gradient(gradient: Tensor) -> Tensor:
    """This rank's part of the mean, over ranks, of their `gradient`s. The part is as `cut` makes it, fill included.

    One reduce-scatter: a rank receives the sum of the part it keeps, and of nothing else. `gradient` has any shape and
    floating-point dtype, the same on every rank, and need not be contiguous; it is the caller's and stays as it is. The
    part has its dtype.
    """
    raise NotImplementedError("reduce_gradient is not written yet. A hint: rankzero hint 08 reduce_gradient")


def clip_part(gradient: Tensor, numel: int, max_norm: float) -> float:
    """Shortens a gradient that lies in parts to the length `max_norm` where it is longer; returns what it was.

    `gradient` is this rank's part, as `cut` makes it, of a gradient of `numel` numbers. What stands in the fill is
    undefined, and may be nan: it is no number of the gradient. The length is that of the whole gradient, and every rank
    multiplies its part, in place, by the same number. One all-reduce, of one number.

    Returns a Python float, the same on every rank. Write it by hand, without torch.nn.utils.
    Read: handbook/sharding-and-zero.md, "What changes in the loop"
    """
    raise NotImplementedError("clip_part is not written yet. A hint: rankzero hint 08 clip_part")


def make_part(parameters: Sequence[nn.Parameter]) -> nn.Parameter:
    """This rank's part of all weights, laid end to end in this order, as a parameter that an optimizer can update.

    Every rank has the same weights, all of one dtype. An optimizer made for the part, torch.optim.AdamW([part]), holds
    state for the part only: this is ZeRO-1.
    """
    raise NotImplementedError("make_part is not written yet. A hint: rankzero hint 08 make_part")


def zero1_step(parameters: Sequence[nn.Parameter], part: nn.Parameter, optimizer: Optimizer) -> None:
    """One update of all weights by the mean of the ranks' gradients, each rank updating its `part` of them only.

    `part` is what `make_part` returned, and `optimizer` holds it alone: any of torch's that treats each number by
    itself, as SGD, AdamW and RMSprop do; not Adafactor or Muon, which need a matrix's rows. Each rank has its own
    p.grad. Where it is None, this rank's gradient is 0, and another rank's may not be. So a weight that no rank uses
    has a gradient of 0: weight decay moves it, where DDP and `fully_shard` pass over it. One reduce-scatter of all
    gradients, one optimizer.step(), one all-gather of all weights. After it every rank has the same new weights in the
    same parameter tensors, and every p.grad is as it was.
    """
    raise NotImplementedError("zero1_step is not written yet. A hint: rankzero hint 08 zero1_step")


def whole_weights(module: nn.Module, part: nn.Parameter) -> tuple[Tensor, dict[str, Tensor]]:
    """The weights of a module, put together for the moment: one flat tensor, and its pieces by name.

    `module` is a shell: its parameters are on the meta device, and have shapes but no numbers. The numbers are in
    `part`: module.parameters(), laid end to end, as `cut` makes it. All have one dtype; some may be frozen or tied.

    Returns (full, weights). `full` is what one all-gather has filled: N * part.numel() numbers of the part's dtype, a
    leaf of autograd's graph that requires a gradient if gradients are on (torch.is_grad_enabled()). `weights` has a
    view into `full` for each name of module.named_parameters(), in the parameter's shape: no copies, so that freeing
    `full` frees all of them. `part` stays as it is.
    """
    raise NotImplementedError("whole_weights is not written yet. A hint: rankzero hint 08 whole_weights")


def reduce_into_part(full: Tensor, part: nn.Parameter) -> None:
    """Adds this rank's part of the mean of the ranks' `full.grad` to `part.grad`, and gives the whole back.

    One reduce-scatter of full.grad, which has N * part.numel() numbers. `part.grad` may be None before. After it
    `full.grad` is None, and the storage of `full` has no bytes: full.untyped_storage().resize_(0).
    """
    raise NotImplementedError("reduce_into_part is not written yet. A hint: rankzero hint 08 reduce_into_part")


def sharded_forward(module: nn.Module, part: nn.Parameter, x: Tensor, reshard: bool) -> Tensor:
    """module(x), its weights put together for the moment: FSDP for one module.

    `module` and `part` are as in `whole_weights`. functional_call(module, weights, (x,)) runs the module with the
    weights of a dictionary {name: tensor}. The output is one tensor.

    Forward gathers the whole weights, once, and uses them. With `reshard` their memory is given back before this
    function returns, and they are gathered again when backward reaches the module; without it they stay until then.
    Under torch.no_grad() there will be no backward, and nothing stays in any case.

    Backward adds this rank's part of the mean gradient to `part.grad`, as `reduce_into_part` does, when the module's
    gradient is complete. In all: 2 all-gathers with `reshard`, 1 without, and 1 reduce-scatter.

    Autograd keeps the weights it has seen. full.untyped_storage().resize_(0) gives back their memory all the same, and
    resize_(bytes) makes room again; full.data is the same tensor for code that autograd should not notice.
    Read: handbook/sharding-and-zero.md, "fully_shard"
    """
    raise NotImplementedError("sharded_forward is not written yet. A hint: rankzero hint 08 sharded_forward")


def mixed_step(
    part: Tensor, loss_of: Callable[[Tensor], Tensor], lr: float, param_dtype: torch.dtype, reduce_dtype: torch.dtype
) -> None:
    """One SGD step of weights that lie in parts, computed in `param_dtype`, averaged in `reduce_dtype`, kept in fp32.

    `part` is this rank's part of the fp32 weights, the *master* copy: it stays fp32 and is updated in place, by
    part -= lr * gradient. The parts of all ranks, laid end to end, are what `loss_of` takes, in `param_dtype`: a vector
    of N * part.numel() numbers. It returns this rank's loss, a scalar, and is called once. The gradient is the mean
    over ranks: it is summed in `reduce_dtype`, the sum is divided by N in `reduce_dtype`, and from there on everything
    is fp32. For N = 3 the quotient is rounded to `reduce_dtype`.

    One all-gather, which sends `param_dtype`, and one reduce-scatter, which sends `reduce_dtype`.
    """
    raise NotImplementedError("mixed_step is not written yet. A hint: rankzero hint 08 mixed_step")


def save_parts(folder: Path, part: Tensor, numel: int) -> None:
    """Saves a tensor of `numel` numbers that lies in parts, as `cut` makes them; each rank writes what it has.

    `folder` does not exist yet. When it does, under that name, it is complete, whatever is killed at whatever moment:
    all is written into `folder.with_name(folder.name + ".partial")`, and rank 0 renames that when every rank has
    written. A partial folder of that name may have been left by a killed save. No weights are sent between ranks.
    `part` is float32 or float64, and stays as it is.

    Rank r writes `part-{r}.bin`: the bytes of its numbers, without the fill. Rank 0 writes `manifest.json`:
    {"numel": 10, "dtype": "float64", "counts": [4, 4, 2]}, dtype by its NumPy name, counts by rank.
    Read: handbook/sharding-and-zero.md, "Checkpoints"
    """
    raise NotImplementedError("save_parts is not written yet. A hint: rankzero hint 08 save_parts")


def load_part(folder: Path, rank: int, ranks: int) -> Tensor:
    """The part that `rank` of `ranks` keeps, as `cut` makes it, of what `save_parts` saved on any number of ranks.

    No communication, and a rank reads no more than the numbers of its own part, besides the manifest: the whole may not
    fit. The part has a memory of its own: the files may be overwritten or removed afterwards.
    np.fromfile(file, dtype, count=..., offset=...) reads some of a file; its offset is in bytes.
    """
    raise NotImplementedError("load_part is not written yet. A hint: rankzero hint 08 load_part")
