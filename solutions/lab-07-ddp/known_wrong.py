"""Known-wrong solutions of Lab 07, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "added_in_both_rounds",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""What arrives is added in the second round too. There the chunks are finished sums: they replace
        what the rank holds, which was counted in them already.""",
        change="""
-        if step < ranks - 1:
-            theirs.add_(received)
-        else:
-            theirs.copy_(received)
+        theirs.add_(received)
""",
    ),
    KnownWrong(
        "everybody_sends_first",
        fails=("ring_all_reduce/sum", "ring_all_reduce/neighbors"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Every rank sends before it receives. `dist.send` returns when the other side has received, and
        the other side is sending as well: all ranks wait for ever. Let the sending go on in the background (`isend`),
        receive, then wait for it; or let even ranks send first and odd ones receive first.""",
        change="""
-        sending = dist.isend(mine, (rank + 1) % ranks)
+        dist.send(mine, (rank + 1) % ranks)
         dist.recv(received, (rank - 1) % ranks)
-        sending.wait()
""",
    ),
    KnownWrong(
        "mean_in_the_ring",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The result is divided by K. An all-reduce adds up; whether a mean is wanted is the caller's
        business, and a caller that divides as well would have 1/K of it.""",
        change="""
             theirs.copy_(received)
+    tensor.div_(ranks)
""",
    ),
    KnownWrong(
        "one_step_short",
        fails=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""There are 2(K-1) steps, and this stops one before. K - 1 steps finish one chunk on each rank; it
        takes K - 1 more until everyone has all of them, so on every rank one chunk is still an unfinished sum.""",
        change="""
-    for step in range(2 * (ranks - 1)):
+    for step in range(2 * (ranks - 1) - 1):
""",
    ),
    KnownWrong(
        "received_over_the_chunk",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""What comes is received into the chunk itself, so this rank's own numbers there are lost before
        they can be added. The messages are right, and no sum is ever made. Receive into a tensor of its own, then add
        that to the chunk.""",
        definitions="""
def ring_all_reduce(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(2 * (ranks - 1)):
        mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
        sending = dist.isend(mine, (rank + 1) % ranks)
        dist.recv(theirs, (rank - 1) % ranks)
        sending.wait()
""",
    ),
    KnownWrong(
        "remainder_forgotten",
        fails=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""A chunk is N // K numbers long, and K of them are not the whole tensor when K does not divide N.
        The numbers at the end are never added up: each rank keeps its own. Chunks may differ in length by one.""",
        change="""
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    size = tensor.numel() // ranks
+    chunks = [tensor.view(-1)[n * size : (n + 1) * size] for n in range(ranks)]
""",
    ),
    KnownWrong(
        "result_in_a_copy",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The sum is made in a copy and returned. `tensor` itself must change: its owner holds no other
        name for the result, and gradients are averaged where they are.""",
        change="""
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    result = tensor.clone()
+    chunks = result.view(-1).tensor_split(ranks)
@@
             theirs.copy_(received)
+    return result
""",
    ),
    KnownWrong(
        "second_round_starts_anew",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The second round starts with chunk r on rank r, as the first did. But after K - 1 steps the chunk
        that is complete on rank r is chunk r + 1, modulo K: the one that it received last. The others send unfinished
        sums around.""",
        change="""
     for step in range(2 * (ranks - 1)):
+        if step == ranks - 1:
+            rank -= 1
@@
-        sending = dist.isend(mine, (rank + 1) % ranks)
-        dist.recv(received, (rank - 1) % ranks)
+        sending = dist.isend(mine, (dist.get_rank() + 1) % ranks)
+        dist.recv(received, (dist.get_rank() - 1) % ranks)
""",
    ),
    KnownWrong(
        "rank_0_adds",
        fails=("ring_all_reduce/neighbors",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""Rank 0 receives every rank's tensor, adds, and sends the sum to each. The result is right. But
        rank 0 carries all of it: (K-1) N numbers in and as many out, while the other links are idle. In the ring every
        rank sends the same 2(K-1)/K N, however many there are.""",
        definitions="""
def ring_all_reduce(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    received = torch.empty_like(tensor)
    for other in range(1, ranks):
        dist.recv(received, other)
        tensor.add_(received)
    for other in range(1, ranks):
        dist.send(tensor, other)
""",
    ),
    KnownWrong(
        "torchs_own",
        fails=("ring_all_reduce/neighbors",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""`dist.all_reduce` is what this exercise builds. Write the messages yourself: which chunk goes
        where, in which step.""",
        definitions="""
def ring_all_reduce(tensor):
    dist.all_reduce(tensor)
""",
    ),
    KnownWrong(
        "whole_tensor_travels",
        fails=("ring_all_reduce/bytes",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The whole tensor travels around the ring and is added up on every rank. The sum is right after K
        - 1 steps, but each of them sends all N numbers: (K-1) N a rank, where chunks need 2(K-1)/K N. With 8 ranks that
        is 4 times as much.""",
        definitions="""
def ring_all_reduce(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    travels = tensor.clone()
    for _ in range(ranks - 1):
        received = torch.empty_like(travels)
        sending = dist.isend(travels, (rank + 1) % ranks)
        dist.recv(received, (rank - 1) % ranks)
        sending.wait()
        tensor.add_(received)
        travels = received
""",
    ),
    KnownWrong(
        "buffers_forgotten",
        fails=("data_parallel/start",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Only the parameters are broadcast. Buffers, such as BatchNorm's running averages, are part of the
        model too: forward reads them, and the optimizer never makes them equal.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.parameters():
""",
    ),
    KnownWrong(
        "no_broadcast",
        fails=("data_parallel/start",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Nothing is sent at the start. Averaged gradients keep models equal that are equal; these begin
        with different random weights, so every rank computes its gradient at another point, and the mean of those is
        the gradient of nothing. A common seed helps only until somebody draws one number more. Broadcast rank 0's
        parameters and buffers.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
-
""",
    ),
    KnownWrong(
        "always_two_ranks",
        fails=("data_parallel/gradient",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The sum is divided by 2, whatever the number of ranks. It works on the machine it was tried on.
        Ask the group: `dist.get_world_size()`.""",
        change="""
-        parameter.grad.div_(dist.get_world_size())
+        parameter.grad.div_(2)
""",
    ),
    KnownWrong(
        "late_binding",
        fails=("data_parallel/gradient", "data_parallel/calls"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The hook uses the loop's variable instead of its argument. Python looks that name up when the
        hook runs, after the loop: every hook averages the last parameter's gradient, again and again, and nobody the
        others'. Use the parameter that the hook is handed.""",
        change="""
-    def average(parameter: Tensor) -> None:
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+    def average(_):
+        if parameter.grad is not None:
+            dist.all_reduce(parameter.grad)
+            parameter.grad.div_(dist.get_world_size())
""",
    ),
    KnownWrong(
        "never_averaged",
        fails=("data_parallel/gradient", "data_parallel/calls"),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""The ranks begin with the same model, and nothing happens in backward: each follows the gradient
        of its own rows, and after the first step they are K models. Every parameter needs a hook that averages its
        gradient.""",
        definitions="""
def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "parameter_averaged",
        fails=("data_parallel/gradient",),
        read="labs/lab-07-ddp.md#break-it",
        explanation="""`register_post_accumulate_grad_hook` hands the hook the parameter, not its gradient. This
        averages the weights, which differ by one update at most, so that little is noticed; and each rank follows the
        gradient of its own rows alone. Average `parameter.grad`.""",
        change="""
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        dist.all_reduce(parameter.data)
+        parameter.data.div_(dist.get_world_size())
""",
    ),
    KnownWrong(
        "rank_0s_gradient",
        fails=("data_parallel/gradient", "data_parallel/calls"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Rank 0's gradient is broadcast to everybody. The ranks stay equal, and all but rank 0 have
        computed for nothing: the other ranks' rows are never learned from. The mean over all ranks is wanted.""",
        change="""
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        dist.broadcast(parameter.grad, src=0)
""",
    ),
    KnownWrong(
        "slopes_averaged",
        fails=("data_parallel/gradient",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""`register_hook` on a parameter sees what *this* backward adds, before it is added. What was
        accumulated before, in micro-batches that were not averaged, stays each rank's own, and the models drift apart.
        A post-accumulate hook sees `p.grad` when everything is in it.""",
        change="""
-    def average(parameter: Tensor) -> None:
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+    def average(slopes):
+        mean = slopes / dist.get_world_size()
+        dist.all_reduce(mean)
+        return mean
@@
-            parameter.register_post_accumulate_grad_hook(average)
+            parameter.register_hook(average)
""",
    ),
    KnownWrong(
        "sum_without_mean",
        fails=("data_parallel/gradient",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""The all-reduce adds up, and nobody divides. The gradient is K times too long, which AdamW hides,
        and clipping and SGD do not. Each rank's loss is a mean over its own rows, so the batch's gradient is the mean
        over the ranks.""",
        change="""
-        parameter.grad.div_(dist.get_world_size())
""",
    ),
    KnownWrong(
        "after_backward",
        fails=("data_parallel/calls",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""The gradients are averaged when backward is over. They are right, and every all-reduce waits
        until nothing is left to compute: the network idles in backward, and the processor after it. Send each gradient
        as soon as it is complete.""",
        change="""
+    complete = []
+
     def average(parameter: Tensor) -> None:
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        complete.append(parameter)
+        if len(complete) == 1:
+            torch.autograd.Variable._execution_engine.queue_callback(average_all)
+
+    def average_all():
+        for parameter in complete:
+            dist.all_reduce(parameter.grad)
+            parameter.grad.div_(dist.get_world_size())
+        complete.clear()
""",
    ),
    KnownWrong(
        "tied_twice",
        fails=("data_parallel/calls", "data_parallel/special"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A tied parameter has two names and gets two hooks. The mean of a mean is the same, so the values
        are right; but its gradient, often the largest of the model, is sent twice. `model.parameters()` names each
        parameter once.""",
        change="""
-    for parameter in model.parameters():
+    for _, parameter in model.named_parameters(remove_duplicate=False):
""",
    ),
    KnownWrong(
        "frozen_hooked",
        fails=("data_parallel/special",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A hook is registered on every parameter. A frozen one gets no gradient, and torch refuses the
        hook with a RuntimeError. Only parameters with `requires_grad` take part in backward.""",
        change="""
-        if parameter.requires_grad:
-            parameter.register_post_accumulate_grad_hook(average)
+        parameter.register_post_accumulate_grad_hook(average)
""",
    ),
    KnownWrong(
        "cap_as_a_maximum",
        fails=("overlap/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""A bucket is closed before a parameter would take it over the cap. DDP closes it after: the cap is
        reached, not kept. So a bucket can be larger than the cap by almost one parameter, and two frameworks with the
        same cap send different sizes.""",
        change="""
-    buckets: list[list[nn.Parameter]] = []
-    held = cap
+    buckets, held = [], 0
     for parameter in reversed([p for p in parameters if p.requires_grad]):
-        if held >= cap:
+        size = parameter.numel() * parameter.element_size()
+        if not buckets or held + size > cap:
@@
-        held += parameter.numel() * parameter.element_size()
+        held += size
""",
    ),
    KnownWrong(
        "first_layer_first",
        fails=("overlap/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The buckets are filled in the order of the model. Backward completes the last layer first: the
        first bucket is then full only at the very end, the others wait for it, and nothing overlaps.""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in [p for p in parameters if p.requires_grad]:
""",
    ),
    KnownWrong(
        "frozen_in_a_bucket",
        fails=("overlap/buckets", "overlap/gradient"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""Frozen parameters are in the buckets. Backward never completes their gradients, so a bucket that
        holds one is never full, and waits until finish().""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in reversed(list(parameters)):
@@
-        parameter.register_post_accumulate_grad_hook(note)
+        if parameter.requires_grad:
+            parameter.register_post_accumulate_grad_hook(note)
""",
    ),
    KnownWrong(
        "numbers_not_bytes",
        fails=("overlap/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The cap is in bytes, and numbers are counted. A float32 has 4 bytes, a bfloat16 has 2: the
        buckets become that much larger, and there are fewer of them to overlap.""",
        change="""
-        held += parameter.numel() * parameter.element_size()
+        held += parameter.numel()
""",
    ),
    KnownWrong(
        "bucket_not_divided",
        fails=("overlap/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The buckets are sums over the ranks: nobody divides by K. With SGD each step is K times as
        long.""",
        change="""
-            means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
+            means = flat.split([p.numel() for p in bucket])
""",
    ),
    KnownWrong(
        "means_not_handed_back",
        fails=("overlap/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The means are in the flat buffers, and the parameters keep their own gradients. `torch.cat`
        copies: what the all-reduce does to the copy, no `p.grad` sees. Write the parts back.""",
        change="""
-                parameter.grad = mean.view_as(parameter)
+                mean.view_as(parameter)
""",
    ),
    KnownWrong(
        "counts_not_set_back",
        fails=("overlap/calls",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The counts of missing gradients are not set back. From the second step on they are below 0, no
        bucket is ever full, and finish() starts all of them: the values are right, and the overlap is gone after one
        step.""",
        change="""
-        missing[:] = [len(bucket) for bucket in buckets]
""",
    ),
    KnownWrong(
        "everything_in_finish",
        fails=("overlap/calls",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""All buckets are started in finish(). They are few and large, and they all run when backward is
        over: the network is idle while there is something to compute, and the processor after. A bucket can go as soon
        as it is full.""",
        change="""
-        while len(started) < len(buckets) and missing[len(started)] == 0:
-            start_next()
""",
    ),
    KnownWrong(
        "one_each",
        fails=("overlap/calls",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""One all-reduce a parameter, without buckets. Each has a cost of its own before its first byte
        arrives; a model has many small parameters, and their all-reduces take longer to start than to run. Send a
        bucket at once.""",
        change="""
-    buckets = make_buckets(model.parameters(), cap)
+    buckets = make_buckets(model.parameters(), 1)  # noqa: F821  the reference's, or yours
""",
    ),
    KnownWrong(
        "never_waits",
        fails=("overlap/waits",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""finish() reads the buckets without waiting for their all-reduces. What is there then depends on
        who was faster: on a quiet machine mostly the sum, with a late rank this rank's own gradient. It shows as a loss
        that cannot be repeated.""",
        change="""
-        for bucket, (flat, work) in zip(buckets, started, strict=True):
-            work.wait()
+        for bucket, (flat, _) in zip(buckets, started, strict=True):
""",
    ),
    KnownWrong(
        "waits_for_the_last",
        fails=("overlap/waits",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""finish() waits for the bucket that was started last, as if those before it had to be done by
        then. All-reduces that run in the background may end in any order: gloo has several threads for them. Wait for
        each.""",
        change="""
-        for bucket, (flat, work) in zip(buckets, started, strict=True):
-            work.wait()
+        started[-1][1].wait()
+        for bucket, (flat, _) in zip(buckets, started, strict=True):
""",
    ),
    KnownWrong(
        "waits_in_the_hook",
        fails=("overlap/waits",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""The all-reduce is called without async_op=True, so the hook returns when it is done, and backward
        stands still for the time of every bucket. The values and the counts are right; only the overlap, for which
        buckets exist, is not there.""",
        change="""
-        work = dist.all_reduce(flat, async_op=True)
-        assert work is not None
-        started.append((flat, work))
+        dist.all_reduce(flat)
+        started.append(flat)
@@
-        for bucket, (flat, work) in zip(buckets, started, strict=True):
-            work.wait()
+        for bucket, flat in zip(buckets, started, strict=True):
""",
    ),
    KnownWrong(
        "order_of_filling",
        fails=("overlap/uneven",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""A bucket is sent as soon as it is full, in whatever order they fill. Where ranks use different
        layers, the first all-reduce of one rank meets another bucket of the other. With equal sizes the wrong gradients
        are added up, and nobody says so; with unequal ones the run hangs or dies. Send in one order on every rank.""",
        change="""
-    started: list[tuple[Tensor, dist.Work]] = []
+    started = {}

-    def start_next() -> None:
-        bucket = buckets[len(started)]
-        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
-        work = dist.all_reduce(flat, async_op=True)
-        assert work is not None
-        started.append((flat, work))
+    def start(number):
+        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in buckets[number]])
+        started[number] = flat, dist.all_reduce(flat, async_op=True)
@@
-        while len(started) < len(buckets) and missing[len(started)] == 0:
-            start_next()
+        if missing[bucket_of[parameter]] == 0:
+            start(bucket_of[parameter])
@@
-        while len(started) < len(buckets):
-            start_next()
-        for bucket, (flat, work) in zip(buckets, started, strict=True):
+        for number in range(len(buckets)):
+            if number not in started:
+                start(number)
+        for number, (flat, work) in started.items():
             work.wait()
-            means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
-            for parameter, mean in zip(bucket, means, strict=True):
+            means = flat.div_(dist.get_world_size()).split([p.numel() for p in buckets[number]])
+            for parameter, mean in zip(buckets[number], means, strict=True):
""",
    ),
    KnownWrong(
        "unfilled_buckets_forgotten",
        fails=("overlap/uneven",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""finish() waits for what was started and forgets the buckets that never filled. Where a layer is
        unused, its bucket, and all after it, are not averaged at all: each rank follows its own gradient there.
        finish() must start the rest, with zeros for what is missing.""",
        change="""
-        while len(started) < len(buckets):
-            start_next()
-        for bucket, (flat, work) in zip(buckets, started, strict=True):
+        for bucket, (flat, work) in zip(buckets, started, strict=False):
""",
    ),
    KnownWrong(
        "neighbors_together",
        fails=("shard/each",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""Each rank takes one contiguous part. That divides the data too, but it is not what torch's
        sampler does: with K ranks, rank r reads order[r], order[r + K], and so on. A checkpoint's position, or a
        comparison with one process, then means other samples.""",
        change="""
-    return order[rank : each * ranks : ranks]
+    return order[rank * each : (rank + 1) * each]
""",
    ),
    KnownWrong(
        "torchs_sampler",
        fails=("shard/each",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""DistributedSampler computes this, and is what this exercise builds: an order that all ranks
        share, made longer or shorter, and every K-th of it. Write it out; it is five lines.""",
        definitions="""
from torch.utils.data import DistributedSampler


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    sampler = DistributedSampler(range(length), ranks, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)
""",
    ),
    KnownWrong(
        "epoch_forgotten",
        fails=("shard/shuffle",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""The epoch is not in the seed: every epoch has the order of the first. That is what happens to
        torch's DistributedSampler when nobody calls `set_epoch`. The run looks healthy, and the same samples meet in
        the same batches each time.""",
        change="""
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed)).tolist()
""",
    ),
    KnownWrong(
        "global_generator",
        fails=("shard/shuffle",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""torch's global generator is seeded. The order is right, and everything else that draws, dropout
        above all, now begins again from the same state in every epoch. Give the shuffle a generator of its own.""",
        change="""
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        torch.manual_seed(seed + epoch)
+        order = torch.randperm(length).tolist()
""",
    ),
    KnownWrong(
        "rank_in_the_seed",
        fails=("shard/shuffle",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""Each rank shuffles with a seed of its own. Then the ranks take their K-th parts of different
        orders: some samples are read by several ranks, and others by none.""",
        change="""
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch + rank)).tolist()
""",
    ),
    KnownWrong(
        "last_sample_repeated",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""The last sample is repeated until the ranks have equally many. The usual padding starts again at
        the beginning of the order, so that no single sample counts K times in the last step.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
+    order += order[-1:] * (each * ranks - len(order))
""",
    ),
    KnownWrong(
        "own_share_repeated",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""Each rank fills up its own share with its own first sample. The padding belongs to the order,
        before it is cut up: it repeats the order's first samples, whichever rank they fall to.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
-    return order[rank : each * ranks : ranks]
+    mine = order[rank : each * ranks : ranks]
+    while len(mine) < each:
+        mine += (mine or order)[: each - len(mine)]
+    return mine
""",
    ),
    KnownWrong(
        "padded_once",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""The order is padded once from its beginning. With fewer samples than half the ranks once is not
        enough, and the last ranks get nothing. It is rare, and then the run hangs.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
+    order += order[: each * ranks - len(order)]
""",
    ),
    KnownWrong(
        "ragged_ranks",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""Nothing is padded: some ranks get one sample more than others. In the last step they wait in an
        all-reduce for ranks that have left the loop, until the time limit.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
""",
    ),
    KnownWrong(
        "drop_last_ignored",
        fails=("shard/drop_last",),
        read="handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice",
        explanation="""`drop_last` is not looked at: the order is padded in any case. Padding repeats samples, which is
        harmless in training and wrong where each must count once.""",
        change="""
-    each = length // ranks if drop_last else -(-length // ranks)
+    each = -(-length // ranks)
""",
    ),
    KnownWrong(
        "divided_by_the_ranks_twice",
        fails=("accumulate/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The loss is divided by K as well as by k. DDP divides by K already, when it averages over the
        ranks: now the gradient is a K-th of what it should be.""",
        change="""
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
+            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / (k * dist.get_world_size())
             loss.backward()
-        total += loss.detach()
+        total += loss.detach() * dist.get_world_size()
""",
    ),
    KnownWrong(
        "first_one_sent",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The first micro-batch is sent, and the others are not. What the first all-reduce averaged, the
        next micro-batches add their own gradients to, different ones on each rank. Send after the last one.""",
        change="""
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+        with contextlib.nullcontext() if number == 1 else ddp.no_sync():
""",
    ),
    KnownWrong(
        "flag_set_after_forward",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""The flag `require_backward_grad_sync` is set between forward and backward. DDP has read it in
        forward: each setting holds for the *next* micro-batch. The last one runs with the flag of the one before, and
        its backward sends nothing.""",
        change="""
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
-            loss.backward()
+        loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        ddp.require_backward_grad_sync = number == k
+        loss.backward()
""",
    ),
    KnownWrong(
        "last_slopes_only",
        fails=("accumulate/gradient",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""The last micro-batch's gradients are averaged in `register_hook`. That hook sees what *this*
        backward adds, not what is accumulated: the earlier micro-batches' gradients stay the rank's own, and the models
        drift apart. A post-accumulate hook, or DDP, averages `p.grad`.""",
        change="""
+
+    def average(slopes):
+        mean = slopes / dist.get_world_size()
+        dist.all_reduce(mean)
+        return mean
+
     for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
-            loss.backward()
+        hooks = [p.register_hook(average) for p in ddp.module.parameters() if number == k]
+        loss = F.cross_entropy(ddp.module(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss.backward()
+        for hook in hooks:
+            hook.remove()
""",
    ),
    KnownWrong(
        "never_sent",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""All micro-batches run in `no_sync()`, the last one too. Nothing is ever sent: K models train on a
        K-th of the data each, and drift apart. The last forward and backward belong outside.""",
        change="""
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+        with ddp.no_sync():
""",
    ),
    KnownWrong(
        "not_divided_by_k",
        fails=("accumulate/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The losses are not divided by k, so the gradient is k times that of the batch. DDP divides by the
        ranks, not by the micro-batches.""",
        change="""
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
+            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten())
             loss.backward()
-        total += loss.detach()
+        total += loss.detach() / k
""",
    ),
    KnownWrong(
        "forward_outside",
        fails=("accumulate/quiet",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Only backward stands in `no_sync()`. DDP reads its flag in forward, where it prepares for the
        backward to come; forward ran outside, so every backward sends.""",
        change="""
+        loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
         with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
""",
    ),
    KnownWrong(
        "sent_every_time",
        fails=("accumulate/quiet",),
        read="labs/lab-07-ddp.md#what-to-notice",
        explanation="""Every micro-batch's backward sends. The gradient is right, since a sum of means is the mean of
        the sums, and it costs k times the traffic: exactly what accumulation was to save.""",
        change="""
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
-            loss.backward()
+    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+        loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss.backward()
""",
    ),
    KnownWrong(
        "whole_share_at_once",
        fails=("accumulate/quiet",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The rank's rows go through the model at once. The gradient is the same, and so is the traffic,
        but the activations of all of them are held: k has no effect.""",
        definitions="""
def accumulate(ddp, x, y, k):
    ddp.zero_grad(set_to_none=True)
    loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten())
    loss.backward()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
""",
    ),
    KnownWrong(
        "losses_added_up",
        fails=("accumulate/loss",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""The losses are added up over the ranks and not divided: what is logged grows with the number of
        ranks.""",
        change="""
-    return total.item() / dist.get_world_size()
+    return total.item()
""",
    ),
    KnownWrong(
        "own_loss",
        fails=("accumulate/loss",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Each rank returns the loss of its own rows. DDP averages gradients and nothing else: a log
        written by rank 0 then shows a K-th of the batch, noisier than the run is, and ranks that decide by it decide
        differently.""",
        change="""
-    dist.all_reduce(total)
-    return total.item() / dist.get_world_size()
+    return total.item()
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("accumulate/stale",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-it",
        explanation="""Nothing clears the gradients first. What an earlier step left is added to the batch's gradient,
        and averaged with it.""",
        change="""
-    ddp.zero_grad(set_to_none=True)
""",
    ),
)

HURRIED = {
    "ring_all_reduce": {
        "rank 0's sum is broadcast": """
     rank, ranks = dist.get_rank(), dist.get_world_size()
+    dist.reduce(tensor, 0)
+    dist.broadcast(tensor, 0)
+    return
""",
        "everything is gathered": """
     rank, ranks = dist.get_rank(), dist.get_world_size()
+    every = [torch.empty_like(tensor) for _ in range(ranks)]
+    dist.all_gather(every, tensor)
+    tensor.copy_(sum(every))
+    return
""",
        "the ring runs the other way": """
-        sending = dist.isend(mine, (rank + 1) % ranks)
-        dist.recv(received, (rank - 1) % ranks)
+        sending = dist.isend(mine, (rank - 1) % ranks)
+        dist.recv(received, (rank + 1) % ranks)
""",
        "chunks of the rounded-up length": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.view(-1).split(-(-tensor.numel() // ranks))
""",
        "for two ranks only": """
-    for step in range(2 * (ranks - 1)):
+    for step in range(2):
""",
        "the first dimension is cut": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.tensor_split(ranks)  # views: what is written into them is written into tensor
""",
        "sums in float32": """
-            theirs.add_(received)
+            theirs.copy_(theirs.float() + received.float())
""",
        "the sum is off by one chunk": """
-        mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
+        mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step) % ranks]
""",
        "cut by chunk": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.view(-1).chunk(ranks)  # views: what is written into them is written into tensor
""",
    },
    "data_parallel": {
        "only parameters that learn are sent": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*(p for p in model.parameters() if p.dim() > 1), *model.buffers()):
""",
        "the saved buffers are sent": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.state_dict().values():
""",
        "the last rank's model": """
-        dist.broadcast(tensor.detach(), src=0)
+        dist.broadcast(tensor.detach(), src=dist.get_world_size() - 1)
""",
        "the mean of all models": """
-        dist.broadcast(tensor.detach(), src=0)
+        tensor = tensor.detach()
+        dist.all_reduce(tensor)
+        tensor /= dist.get_world_size()
""",
        "sent twice": """
         dist.all_reduce(parameter.grad)
+        dist.all_reduce(parameter.grad)
""",
        "divided after backward would be": """
-        parameter.grad.div_(dist.get_world_size())
+        parameter.grad.mul_(1 / (dist.get_world_size() + 1))
""",
        "a loss hook": """
-            parameter.register_post_accumulate_grad_hook(average)
+            parameter.register_hook(lambda slopes: dist.all_reduce(slopes))
""",
        "the largest gradient": """
-        dist.all_reduce(parameter.grad)
+        dist.all_reduce(parameter.grad, op=dist.ReduceOp.MAX)
""",
        "once only": """
         assert parameter.grad is not None
+        if hasattr(parameter, 'sent'):
+            return
+        parameter.sent = True
""",
        "matrices only": """
-        if parameter.requires_grad:
+        if parameter.requires_grad and parameter.dim() > 1:
""",
        "only what a state_dict has": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.state_dict().values():
""",
    },
    "overlap": {
        "buckets by number of parameters": """
-        held += parameter.numel() * parameter.element_size()
+        held += 1
""",
        "four bytes a number": """
-        held += parameter.numel() * parameter.element_size()
+        held += parameter.numel() * 4
""",
        "one large bucket": """
-    buckets = make_buckets(model.parameters(), cap)
+    buckets = make_buckets(model.parameters(), 10**9)
""",
        "waits for the bucket before": """
         started.append((flat, work))
+        started[max(0, len(started) - 2)][1].wait()
""",
        "only the first step is averaged": """
-        missing[:] = [len(bucket) for bucket in buckets]
-        started.clear()
""",
        "missing gradients stay missing": """
-                parameter.grad = mean.view_as(parameter)
+                parameter.grad = parameter.grad if parameter.grad is None else mean.view_as(parameter)
""",
        "added to the gradient": """
-                parameter.grad = mean.view_as(parameter)
+                old = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
+                parameter.grad = old + mean.view_as(parameter)
""",
        "no gradient is left out, by ones": """
-        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+        flat = torch.cat([(torch.ones_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
""",
        "at most one bucket a hook": """
-        while len(started) < len(buckets) and missing[len(started)] == 0:
+        if len(started) < len(buckets) and missing[len(started)] == 0:
""",
        "the last bucket waits for finish": """
-        while len(started) < len(buckets) and missing[len(started)] == 0:
+        while len(started) < len(buckets) - 1 and missing[len(started)] == 0:
""",
        "hooks on frozen parameters": """
-    for parameter in bucket_of:
+    for parameter in model.parameters():
""",
        "tied ones counted twice": """
-    buckets = make_buckets(model.parameters(), cap)
+    buckets = make_buckets((p for _, p in model.named_parameters(remove_duplicate=False)), cap)
""",
        "in float32": """
         flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+        flat = flat.float()
""",
    },
    "shard": {
        "a generator comes back": """
-    return order[rank : each * ranks : ranks]
+    return (order[n] for n in range(rank, each * ranks, ranks))
""",
        "drawn from the epoch alone": """
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = torch.randperm(length, generator=torch.Generator().manual_seed(epoch)).tolist()
""",
        "the seed times the epoch": """
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed * epoch)).tolist()
""",
        "shuffled in numpy": """
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = __import__('numpy').random.default_rng(seed + epoch).permutation(length).tolist()
""",
        "padding from the end": """
-        order += order[: each * ranks - len(order)]
+        order += order[len(order) - each * ranks :]
""",
        "shuffled after it is cut": """
-    return order[rank : each * ranks : ranks]
+    mine = list(range(length))[rank::ranks]
+    return [mine[n] for n in torch.randperm(len(mine)).tolist()] if shuffle else mine
""",
        "both rounded down": """
-    each = length // ranks if drop_last else -(-length // ranks)
+    each = length // ranks if drop_last else max(1, length // ranks)
""",
        "shares are sorted": """
-    return order[rank : each * ranks : ranks]
+    return sorted(order[rank : each * ranks : ranks])
""",
    },
    "accumulate": {
        "the last but one sends": """
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+        with contextlib.nullcontext() if number == k - 1 else ddp.no_sync():
""",
        "sends from the second on": """
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+        with contextlib.nullcontext() if number > 1 else ddp.no_sync():
""",
        "averages the gradients itself": """
         total += loss.detach()
+    for p in ddp.parameters():
+        dist.all_reduce(p.grad)
+        p.grad /= dist.get_world_size()
""",
        "the gradients are averaged by hand at the end": """
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+        with ddp.no_sync():
@@
         total += loss.detach()
+    for p in ddp.parameters():
+        dist.all_reduce(p.grad)
+        p.grad /= dist.get_world_size()
""",
        "the loss is averaged in every micro-batch": """
-        total += loss.detach()
-    dist.all_reduce(total)
+        mine = loss.detach().clone()
+        dist.all_reduce(mine)
+        total += mine
""",
        "the last loss": """
-        total += loss.detach()
+        total = loss.detach() * k
""",
        "a tensor comes back": """
-    return total.item() / dist.get_world_size()
+    return total / dist.get_world_size()
""",
        "the largest loss": """
-    dist.all_reduce(total)
+    dist.all_reduce(total, op=dist.ReduceOp.MAX)
""",
        "the last micro-batch first": """
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
+    for number, (micro_x, micro_y) in enumerate(list(zip(x.chunk(k), y.chunk(k), strict=True))[::-1], start=1):
""",
        "all ranks' rows, as if they were gathered": """
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
+            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k * dist.get_world_size()
""",
        "one sequence at a time": """
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
+    for number, (micro_x, micro_y) in enumerate(zip(x.split(1), y.split(1), strict=True), start=1):
""",
    },
}
