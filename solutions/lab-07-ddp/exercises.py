"""Lab 07, exercises: data parallel training over several processes, written by hand.

Five exercises, in the order of the page. Replace each line that raises NotImplementedError; keep the signatures.
K = ranks, the processes that train together, numbered 0 to K-1. Each of them runs your code; torch.distributed is ready
(`import torch.distributed as dist`), and its default group holds all of them. Every rank must call the same
collectives in the same order, or all of them wait.

    rankzero check 07                     # all of them
    rankzero check 07 ring_all_reduce     # one
    rankzero hint 07 ring_all_reduce      # when stuck
"""

import contextlib
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def ring_all_reduce(tensor: Tensor) -> None:
    """Replaces `tensor` on every rank by the sum over all ranks, in place, with messages between neighbors only.

    `tensor` is contiguous, floating point, of any shape, and of the same shape on all ranks. Its N numbers are cut into
    K chunks as equal as can be, as `tensor_split` does; some are empty where N < K. Each rank sends to rank + 1 and
    receives from rank - 1, modulo K, one chunk at a time: in K - 1 steps the chunks travel around and are added up, in
    K - 1 more the finished sums travel around. So a rank sends 2(K-1) messages, and all of them together 2(K-1) N
    numbers. One rank alone sends nothing.

    Use dist.send, recv, isend, irecv or batch_isend_irecv, and no collective. `dist.send` returns when the other side
    has received. Source: NCCL's ring; Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
    Read: handbook/distributed-data-parallel.md, "What the average costs"
    """
    ### BEGIN SOLUTION
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
    for step in range(2 * (ranks - 1)):
        mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
        received = torch.empty_like(theirs)
        sending = dist.isend(mine, (rank + 1) % ranks)
        dist.recv(received, (rank - 1) % ranks)
        sending.wait()
        if step < ranks - 1:
            theirs.add_(received)
        else:
            theirs.copy_(received)
    ### END SOLUTION


def data_parallel(model: nn.Module) -> None:
    """Makes the ranks' models train as one: the same start, and the same gradient after every backward.

    Rank 0's parameters and buffers replace those of the other ranks now. From then on, when backward returns, each
    `p.grad` holds the mean over the ranks of what is accumulated there, so that equal batches on K ranks give the
    gradient of all of them together. Each trainable parameter is averaged as soon as its gradient is complete, by one
    all-reduce a backward; one that is tied, and so found under two names, is still one. A frozen parameter costs
    nothing in backward. One that no rank's loss depends on keeps the gradient None. (If some ranks use a parameter and
    others do not, this simple way hangs: `overlap` below does better.)

    Read: handbook/distributed-data-parallel.md, "One average"
    """
    ### BEGIN SOLUTION
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter: Tensor) -> None:
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
    ### END SOLUTION


def make_buckets(parameters: Iterable[nn.Parameter], cap: int) -> list[list[nn.Parameter]]:
    """Groups the trainable parameters into buckets, about in the order in which backward completes them: last first.

    A bucket is closed as soon as it holds `cap` bytes or more. So the cap is no maximum: the parameter that reaches it
    still belongs to the bucket. Frozen parameters are in none. `parameters` can be a generator.

    Returns the buckets in the order in which they will be sent. This is DDP's rule.
    Read: handbook/distributed-data-parallel.md, "How DDP hides it"
    """
    ### BEGIN SOLUTION
    buckets: list[list[nn.Parameter]] = []
    held = cap
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(parameter)
        held += parameter.numel() * parameter.element_size()
    return buckets
    ### END SOLUTION


def overlap(model: nn.Module, cap: int) -> Callable[[], None]:
    """Averages gradients over the ranks by buckets, while backward goes on. Returns `finish`, to call before the step.

    All ranks hold the same model already. In backward, as soon as every gradient of a bucket is complete, *one*
    all-reduce of the whole bucket is started and not waited for. Buckets are started in `make_buckets`' order on every
    rank: one that is full too early waits for those before it.

    finish() starts the buckets that backward could not, in the same order, with zeros for each gradient that this
    rank's loss did not give; waits for all; and leaves in every `p.grad` of the buckets the mean over the ranks. So
    ranks that use different parameters still call the same collectives. Then everything is ready for the next
    backward: each is followed by one finish(). Gradients are None, or of this backward alone, when it is called.

    Read: handbook/distributed-data-parallel.md, "How DDP hides it"
    """
    ### BEGIN SOLUTION
    buckets = make_buckets(model.parameters(), cap)
    bucket_of = {parameter: number for number, bucket in enumerate(buckets) for parameter in bucket}
    missing = [len(bucket) for bucket in buckets]
    started: list[tuple[Tensor, dist.Work]] = []

    def start_next() -> None:
        bucket = buckets[len(started)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        work = dist.all_reduce(flat, async_op=True)
        assert work is not None
        started.append((flat, work))

    def note(parameter: Tensor) -> None:
        missing[bucket_of[parameter]] -= 1
        while len(started) < len(buckets) and missing[len(started)] == 0:
            start_next()

    def finish() -> None:
        while len(started) < len(buckets):
            start_next()
        for bucket, (flat, work) in zip(buckets, started, strict=True):
            work.wait()
            means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
            for parameter, mean in zip(bucket, means, strict=True):
                parameter.grad = mean.view_as(parameter)
        missing[:] = [len(bucket) for bucket in buckets]
        started.clear()

    for parameter in bucket_of:
        parameter.register_post_accumulate_grad_hook(note)
    return finish
    ### END SOLUTION


def shard(
    length: int, rank: int, ranks: int, *, epoch: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
) -> list[int]:
    """The samples that `rank` reads in `epoch`, of a data set of `length` samples: every `ranks`-th of one order.

    The order is that of the data set, or with `shuffle` torch.randperm(length) from a generator of its own, seeded
    with `seed + epoch`: the same on all ranks, another in each epoch. All ranks get equally many samples. What makes
    the order too short is taken from its beginning again, as often as it takes; with `drop_last` the samples too many
    at its end are left out. Nothing is sent: each rank computes its own share.

    These are the indices of torch.utils.data.DistributedSampler, whose set_epoch(epoch) sets the epoch.
    Read: handbook/distributed-data-parallel.md, "To each rank its own data and its own dice"
    """
    ### BEGIN SOLUTION
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    while len(order) < each * ranks:
        order += order[: each * ranks - len(order)]
    return order[rank : each * ranks : ranks]
    ### END SOLUTION


def accumulate(ddp: DistributedDataParallel, x: Tensor, y: Tensor, k: int) -> float:
    """One rank's part of a batch in `k` equal micro-batches, with the gradients sent once, after the last.

    `ddp` maps token ids int64 [b, T] to logits [b, T, V]; `x` and `y` are this rank's rows, int64 [B/K, T], and `k`
    divides their number. They go through the model first to last, one forward and one backward a micro-batch.
    Gradients from before must not count. DDP averages over the ranks in the backward of the last micro-batch, and
    nothing is sent before: see `ddp.no_sync()`, and mind that DDP decides in *forward* whether the next backward sends.

    Leaves in each `p.grad` the gradient of the mean loss over all ranks' tokens, and returns that mean, a Python float
    in nats, the same on every rank.
    Read: handbook/distributed-data-parallel.md, "How DDP hides it"
    """
    ### BEGIN SOLUTION
    ddp.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
        with contextlib.nullcontext() if number == k else ddp.no_sync():
            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
            loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
    ### END SOLUTION
