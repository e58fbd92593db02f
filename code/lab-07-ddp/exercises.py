"""Lab 07, exercises: data parallel training over several processes, written by hand.

Nine exercises, in the order of the page; some call the one before. Replace each line that raises NotImplementedError;
keep the signatures.
K = ranks, the processes that train together, numbered 0 to K-1. Each of them runs your code; torch.distributed is ready
(`import torch.distributed as dist`), and its default group holds all of them. Every rank must call the same
collectives in the same order, or all of them wait.

    rankzero check 07                     # all of them
    rankzero check 07 exchange            # one
    rankzero hint 07 exchange             # when stuck
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def exchange(outgoing: Tensor, incoming: Tensor) -> None:
    """Sends `outgoing` to rank + 1, and fills `incoming` with the message of rank - 1, modulo K: one step of a ring.

    There are two ranks or more. Both tensors are contiguous, of the same dtype on all ranks and of any shape; they may
    have no number. `incoming` has as many numbers as the rank before sends, which may be more or fewer than `outgoing`.
    `outgoing` stays as it is. When exchange returns, both messages are complete: the caller may change `outgoing`.

    Use dist.send, recv, isend, irecv or batch_isend_irecv, and no collective. `dist.send` returns when the other rank
    has received, so not all ranks may send first.
    Read: handbook/distributed-data-parallel.md, "Cost of the average"
    """
    raise NotImplementedError("exchange is not written yet. A hint: rankzero hint 07 exchange")


def ring_all_reduce(tensor: Tensor) -> None:
    """Replaces `tensor` on every rank by the sum over all ranks, in place, with messages between neighbors only.

    `tensor` is contiguous, of a floating-point dtype, of any shape, and of the same dtype and shape on all ranks. Its N
    numbers are cut into K chunks as equal as can be, as `tensor_split` does; some are empty where N < K. Each rank
    sends to rank + 1 and receives from rank - 1, modulo K, one chunk at a time: in K - 1 steps the chunks travel around
    and are added up, in K - 1 more steps the finished sums travel around. So a rank sends 2(K-1) messages, and all
    ranks together send 2(K-1) N numbers. One rank alone sends nothing.

    `exchange` above is one step. Source: NCCL's ring; Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
    2009. Read: handbook/distributed-data-parallel.md, "Cost of the average"
    """
    raise NotImplementedError("ring_all_reduce is not written yet. A hint: rankzero hint 07 ring_all_reduce")


def same_start(model: nn.Module) -> None:
    """Gives every rank the model of rank 0: one broadcast for each parameter and each buffer.

    Frozen parameters count, and buffers of any dtype, also those that no state_dict holds (persistent=False). Tensors
    may have any memory layout, such as channels_last. A tied parameter, found in two modules, is sent once. The model
    keeps its tensors, with their memory and strides, because an optimizer or a view may hold them already: only their
    numbers change. `requires_grad` and the mode, train or eval, stay.

    Read: handbook/distributed-data-parallel.md, "One average"
    """
    raise NotImplementedError("same_start is not written yet. A hint: rankzero hint 07 same_start")


def data_parallel(model: nn.Module) -> None:
    """Keeps the ranks' models equal in training: the same start, and the same gradient after every backward.

    The ranks begin with different weights; `same_start` above changes that. From then on, when backward returns, each
    `p.grad` is the mean over the ranks of the accumulated gradients, in train and in eval mode. So K batches of equal
    size, one per rank, give the gradient of one batch with all of them. Each trainable parameter is averaged as soon as
    its gradient is complete, by one all-reduce per backward, in the gradient's dtype. A tied parameter, found in two
    modules, is averaged once. A frozen parameter costs nothing in backward. A parameter that no rank's loss depends on
    keeps the gradient None. (If some ranks use a parameter and others do not, this function hangs; `overlap` below does
    not.)

    Read: handbook/distributed-data-parallel.md, "One average"
    """
    raise NotImplementedError("data_parallel is not written yet. A hint: rankzero hint 07 data_parallel")


def make_buckets(parameters: Iterable[nn.Parameter], cap: int) -> list[list[nn.Parameter]]:
    """Groups the trainable parameters into buckets, about in the order in which backward completes them: last first.

    A bucket holds one dtype, so that its gradients fit into one tensor: each dtype has an open bucket of its own. A
    bucket is closed as soon as it holds `cap` bytes or more. So the cap is no maximum: the parameter that reaches it
    still belongs to the bucket, and the next parameter of that dtype opens another. Frozen parameters are in no bucket.
    `parameters` may be a generator.

    Returns the closed buckets in the order in which they were closed, then the open ones in the order in which they
    were opened. This is DDP's rule for parameters on one device.
    Read: handbook/distributed-data-parallel.md, "How DDP hides the cost"
    """
    raise NotImplementedError("make_buckets is not written yet. A hint: rankzero hint 07 make_buckets")


def reduce_bucket(bucket: Sequence[nn.Parameter]) -> Callable[[], None]:
    """Starts *one* all-reduce of all gradients of a bucket, and returns at once. The returned function waits for it.

    The parameters of the bucket have one dtype and any shapes. They and their gradients may have any memory layout,
    such as channels_last. The gradients travel in one flat tensor of that dtype, in the order of the bucket, with zeros
    for a gradient that is None. The returned function, which is called once, leaves in every `p.grad` the mean over the
    ranks, in the shape of `p`.

    Read: handbook/distributed-data-parallel.md, "How DDP hides the cost"
    """
    raise NotImplementedError("reduce_bucket is not written yet. A hint: rankzero hint 07 reduce_bucket")


def overlap(model: nn.Module, cap: int) -> Callable[[], None]:
    """Averages gradients over the ranks by buckets, while backward goes on. Returns `finish`, to call before the step.

    All ranks hold the same model already. In backward, as soon as every gradient of a bucket is complete, *one*
    all-reduce of the whole bucket is started and not waited for, as `reduce_bucket` does. Buckets are started in
    `make_buckets`' order on every rank: a bucket that is full too early waits for the buckets before it.

    finish() starts the buckets that backward has not started, in the same order, with zeros for each gradient that is
    missing on this rank; waits for all; and leaves in every `p.grad` of the buckets the mean over the ranks. So ranks
    that use different parameters still call the same collectives. Then everything is ready for the next backward, which
    may use other parameters of a bucket: each backward is followed by one finish(). When backward begins, gradients are
    None or zeros.

    A parameter that no rank has used ends with a gradient of zeros, where `data_parallel`, DDP and `fully_shard` leave
    None: AdamW's weight decay then moves it. DDP avoids this with one more all-reduce, of a flag per parameter.
    Read: handbook/distributed-data-parallel.md, "How DDP hides the cost"
    """
    raise NotImplementedError("overlap is not written yet. A hint: rankzero hint 07 overlap")


def shard(
    length: int, rank: int, ranks: int, *, epoch: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
) -> list[int]:
    """Returns the indices that `rank` reads in `epoch`, of a data set of `length` samples: every `ranks`-th index.

    The order is that of the data set, or with `shuffle` torch.randperm(length) from a separate generator, seeded with
    `seed + epoch`: the same on all ranks, and a new one in each epoch. All ranks get equally many samples. If `ranks`
    does not divide the length of the order, the order is continued from its beginning, several times if necessary;
    with `drop_last` it is cut at its end instead. Nothing is sent: each rank computes its own share.

    These are the indices of torch.utils.data.DistributedSampler, whose set_epoch(epoch) sets the epoch. Write its
    steps yourself: an answer that uses it is refused.
    Read: handbook/distributed-data-parallel.md, "Data and random seeds"
    """
    raise NotImplementedError("shard is not written yet. A hint: rankzero hint 07 shard")


def accumulate(ddp: DistributedDataParallel, x: Tensor, y: Tensor, k: int) -> float:
    """One rank's part of a batch in `k` equal micro-batches, with the gradients sent once, after the last.

    `ddp` maps token ids int64 [b, T] to logits [b, T, V]; `x` and `y` are this rank's rows, int64 [B/K, T], and `k`
    divides their number. A token whose target is -100 has no loss: `F.cross_entropy` ignores it. So ranks and
    micro-batches count different numbers of tokens, and a mean of their means is not the mean over all tokens. A
    micro-batch, or all rows of a rank, may have no counted token; its forward and backward run all the same.

    The rows go through the model first to last, one forward and one backward per micro-batch. Gradients from before
    the call must not count. DDP averages over the ranks in the backward of the last micro-batch, and no gradient is
    sent before: see `ddp.no_sync()`, and note that DDP decides in *forward* whether the next backward sends. Besides
    the gradients there are at most two all-reduces, of one or two numbers each, before the first micro-batch or after
    the last.
    `x`, `y` and the model's mode stay as they are, and DDP sends in the next backward after the call.

    Leaves in each `p.grad` the gradient of the mean loss over all ranks' counted tokens, and returns that mean, a
    Python float in nats, the same on every rank.
    Read: handbook/distributed-data-parallel.md, "How DDP hides the cost"
    """
    raise NotImplementedError("accumulate is not written yet. A hint: rankzero hint 07 accumulate")
