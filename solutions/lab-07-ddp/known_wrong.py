"""Known-wrong solutions of Lab 07, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "everybody_sends_first",
        fails=("exchange/incoming", "exchange/neighbors", "exchange/complete"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Every rank sends before it receives. `dist.send` returns when the other side has received, and
        the other side is sending as well: all ranks wait forever. Send in the background (`isend`), receive, then wait
        for the sending; or let even ranks send first and odd ranks receive first.""",
        change="""
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
+    dist.send(outgoing, (rank + 1) % ranks)
     dist.recv(incoming, (rank - 1) % ranks)
-    assert sending is not None
-    sending.wait()
""",
    ),
    KnownWrong(
        "everybody_receives_first",
        fails=("exchange/incoming", "exchange/neighbors", "exchange/complete"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Every rank waits in `dist.recv`, and no message comes: either each rank receives before it sends,
        or nobody keeps what `isend` returned, and its message is dropped. Send in the background (`sending =
        dist.isend(...)`), receive, then `sending.wait()`; or let even ranks send first and odd ranks receive first.""",
        change="""
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
     dist.recv(incoming, (rank - 1) % ranks)
-    assert sending is not None
-    sending.wait()
+    dist.send(outgoing, (rank + 1) % ranks)
""",
    ),
    KnownWrong(
        "own_numbers_returned",
        fails=("exchange/incoming", "exchange/neighbors"),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""Nothing is sent: `incoming` holds this rank's own numbers. A step of a ring has two messages on
        each rank, one out to the next rank and one in from the rank before.""",
        definitions="""
def exchange(outgoing, incoming):
    flat = outgoing.flatten()
    incoming.view(-1)[: len(flat)] = flat[: incoming.numel()]
""",
    ),
    KnownWrong(
        "gathered_from_all",
        fails=("exchange/neighbors",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""Every rank receives from every rank and keeps one tensor of K. `incoming` is right, but a step of
        a ring has two messages per rank; here K - 1 of K tensors have travelled for nothing.""",
        definitions="""
def exchange(outgoing, incoming):
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, outgoing)
    incoming.copy_(every[dist.get_rank() - 1])
""",
    ),
    KnownWrong(
        "sending_not_waited_for",
        fails=("exchange/complete",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""exchange returns while a message may still be on the way. The caller then reads `incoming` before
        it is filled, or writes into `outgoing` before it is sent. It depends on who is faster, so most runs look right.
        What `isend` and `irecv` return has a wait(); call it before the function returns.""",
        change="""
-    sending.wait()
+    dist.started = [*getattr(dist, "started", []), sending]
""",
    ),
    KnownWrong(
        "added_in_both_rounds",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""What arrives is added in the second round too. There the chunks are finished sums: they replace
        what the rank holds, which was counted in them already.""",
        change="""
-        if step < ranks - 1:
-            chunk.add_(received)
-        else:
-            chunk.copy_(received)
+        chunk.add_(received)
""",
    ),
    KnownWrong(
        "half_of_the_ring",
        fails=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The ring ends after K - 1 steps. Then each rank has one finished sum, another chunk on every
        rank, and that is a reduce-scatter. K - 1 more steps send the finished sums around.""",
        change="""
-    for step in range(2 * (ranks - 1)):
+    for step in range(ranks - 1):
""",
    ),
    KnownWrong(
        "mean_in_the_ring",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The result is divided by K. An all-reduce adds up; whether a mean is wanted is the caller's
        business, and a caller that divides as well would have 1/K of it.""",
        change="""
             chunk.copy_(received)
+    tensor.div_(ranks)
""",
    ),
    KnownWrong(
        "one_step_short",
        fails=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""There are 2(K-1) steps, and this stops one before. K - 1 steps finish one chunk on each rank; it
        takes K - 1 more until every rank has all of them, so on every rank one chunk is still an unfinished sum.""",
        change="""
-    for step in range(2 * (ranks - 1)):
+    for step in range(2 * (ranks - 1) - 1):
""",
    ),
    KnownWrong(
        "received_over_the_chunk",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""No sum is ever made: what comes replaces this rank's own numbers, also in the first K - 1 steps,
        where it has to be added to them. The messages are right. Receive into a tensor of its own, then add that to the
        chunk.""",
        change="""
-        if step < ranks - 1:
-            chunk.add_(received)
-        else:
-            chunk.copy_(received)
+        chunk.copy_(received)
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
        explanation="""`tensor` does not change. Its owner holds no other name for the result: gradients are averaged
        where they are. Write into views of `tensor`.""",
        change="""
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    result = tensor.clone()
+    chunks = result.view(-1).tensor_split(ranks)
@@
             chunk.copy_(received)
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
""",
    ),
    KnownWrong(
        "rank_0_adds",
        fails=("ring_all_reduce/neighbors",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""Rank 0 receives every rank's tensor, adds, and sends the sum to each. The result is right. But
        rank 0 carries all of it: (K-1) N numbers in and as many out, while the other links are idle. In the ring every
        rank sends the same 2(K-1)/K N, however many ranks there are.""",
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
        "chunks_of_the_rounded_up_length",
        fails=("ring_all_reduce/bytes",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The chunks are N / K numbers long, rounded up, until nothing is left: the last one is shorter
        than the others by more than one, or missing. Then one rank has less to add than the others, who wait for each
        other in every step. As equal as can be means lengths that differ by one, as `tensor_split` cuts.""",
        change="""
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = list(tensor.view(-1).split(max(1, -(-tensor.numel() // ranks))))
+    chunks += [tensor.view(-1)[:0]] * (ranks - len(chunks))
""",
    ),
    KnownWrong(
        "padded_to_a_multiple",
        fails=("ring_all_reduce/bytes",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The tensor is padded to a multiple of K, and the padding travels with it. The sum is right;
        the ranks send numbers that are none of the tensor's, and hold a padded copy of it. Chunks may differ in
        length by one.""",
        definitions="""
def ring_all_reduce(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    size = -(-tensor.numel() // ranks)
    padded = torch.cat([tensor.view(-1), tensor.new_zeros(size * ranks - tensor.numel())])
    chunks = padded.view(ranks, size)
    for step in range(2 * (ranks - 1)):
        chunk = chunks[(rank - step - 1) % ranks]
        received = torch.empty_like(chunk)
        exchange(chunks[(rank - step) % ranks], received)  # noqa: F821
        if step < ranks - 1:
            chunk.add_(received)
        else:
            chunk.copy_(received)
    tensor.copy_(padded[: tensor.numel()].view_as(tensor))
""",
    ),
    KnownWrong(
        "whole_tensor_travels",
        fails=("ring_all_reduce/bytes",),
        read="handbook/distributed-data-parallel.md#what-the-average-costs",
        explanation="""The whole tensor travels around the ring and is added up on every rank. The sum is right after K
        - 1 steps, but each of them sends all N numbers: (K-1) N per rank, where chunks need 2(K-1)/K N. With 8 ranks
        that is 4 times as much.""",
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
        "no_broadcast",
        fails=("same_start/parameters", "same_start/buffers"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Nothing is sent at the start. Averaged gradients keep models equal that are equal; these begin
        with different random weights, so every rank computes its gradient at another point, and the mean of those is
        the gradient of nothing. A common seed helps only until one rank draws one number more. Broadcast rank 0's
        parameters and buffers.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "frozen_forgotten",
        fails=("same_start/parameters",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Frozen parameters are not sent. No gradient will ever make them equal, and forward reads them:
        with a frozen backbone of different weights, the ranks train on different features. Everything that forward
        reads must be equal, trained or not.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*(p for p in model.parameters() if p.requires_grad), *model.buffers()):
""",
    ),
    KnownWrong(
        "mean_of_all_models",
        fails=("same_start/parameters",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Every rank gets the mean of all ranks' parameters. They are equal, but they are no rank's:
        the mean of K random initializations is K times too small in variance, and the mean of a loaded model and K
        - 1 random ones is neither. Rank 0's model is the one that counts.""",
        change="""
+    for parameter in model.parameters():
+        dist.all_reduce(parameter.detach())
+        parameter.detach().div_(dist.get_world_size())
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.buffers():
""",
    ),
    KnownWrong(
        "buffers_forgotten",
        fails=("same_start/buffers",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Buffers are not sent. Buffers, such as BatchNorm's running averages, are part of the model too:
        forward reads them, and the optimizer never makes them equal.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.parameters():
""",
    ),
    KnownWrong(
        "saved_buffers_only",
        fails=("same_start/buffers",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The buffers that no state_dict holds, made with persistent=False, are not sent. A file does not
        need them, and forward reads them all the same. `model.buffers()` names all buffers.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
+    names = model.state_dict().keys() - dict(model.named_parameters(remove_duplicate=False)).keys()
+    for tensor in (*model.parameters(), *(model.get_buffer(name) for name in sorted(names))):
+        dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "sent_to_each_rank",
        fails=("same_start/once",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Rank 0 sends its tensors to one rank after the other. The values are right, and rank 0 sends
        the model K - 1 times, while the other ranks wait. In a broadcast, ranks that have received pass on what
        they have.""",
        definitions="""
def same_start(model):
    for tensor in (*model.parameters(), *model.buffers()):
        if dist.get_rank():
            dist.recv(tensor.detach(), 0)
        else:
            for other in range(1, dist.get_world_size()):
                dist.send(tensor.detach(), other)
""",
    ),
    KnownWrong(
        "tied_sent_twice",
        fails=("same_start/once",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A tied parameter is found under two names and sent under both. The values are right; the tensor,
        often the largest of the model, travels twice. `model.parameters()` names each parameter once.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*(p for _, p in model.named_parameters(remove_duplicate=False)), *model.buffers()):
""",
    ),
    KnownWrong(
        "new_buffers",
        fails=("same_start/once",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The received numbers are in new tensors, which take the places of the model's own. Everything
        that held the old tensors still has them: an optimizer, a view, another name of the same tensor. Receive into
        the tensors that the model has.""",
        change="""
     for tensor in (*model.parameters(), *model.buffers()):
         dist.broadcast(tensor.detach(), src=0)
+    for module in model.modules():
+        module._buffers = {name: buffer.clone() for name, buffer in module._buffers.items()}
""",
    ),
    KnownWrong(
        "each_its_own_start",
        fails=("data_parallel/start",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""The ranks keep their own weights at the start. Averaged gradients keep models equal that are
        equal; from different weights every rank computes its gradient at another point, and the mean of those is the
        gradient of nothing. Make the models equal first, as `same_start` does.""",
        change="""
-    same_start(model)
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
        explanation="""Every hook averages the gradient of the last parameter, again and again, and no hook the others'.
        Where a hook uses the loop's variable, Python looks that name up when the hook runs, after the loop. Use the
        parameter that the hook is handed.""",
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
        explanation="""The ranks begin with the same model, and nothing is averaged in backward: each follows the
        gradient of its own rows, and after the first step they are K models. Every parameter needs a hook that averages
        its gradient.""",
        definitions="""
def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "only_in_train_mode",
        fails=("data_parallel/gradient", "data_parallel/calls"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""In eval mode nothing is averaged. The mode switches dropout and BatchNorm, not gradients: a
        fine-tuning that keeps the model in eval mode would train K models. Average in every backward.""",
        change="""
+        if not model.training:
+            return
         assert parameter.grad is not None
""",
    ),
    KnownWrong(
        "parameter_averaged",
        fails=("data_parallel/gradient",),
        read="labs/lab-07-ddp.md#break-it",
        explanation="""The weights are averaged, not the gradients: `register_post_accumulate_grad_hook` hands its hook
        the parameter. The ranks' weights differ by one update at most, so that little is noticed; and each rank follows
        the gradient of its own rows alone. Average `parameter.grad`.""",
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
        explanation="""Rank 0's gradient is broadcast to every rank. The ranks stay equal, and all but rank 0 have
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
        explanation="""What is averaged is what *this* backward adds, before it is added, as a hook of `register_hook`
        sees it. What was accumulated before, in micro-batches that were not averaged, stays each rank's own, and the
        models drift apart. A post-accumulate hook sees `p.grad` when everything is in it.""",
        change="""
-    def average(parameter: Tensor) -> None:
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+    def average(gradient):
+        mean = gradient / dist.get_world_size()
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
        explanation="""The gradients are added up and not divided. They are K times too large, which AdamW hides, and
        clipping and SGD do not. Each rank's loss is a mean over its own rows, so the batch's gradient is the mean over
        the ranks.""",
        change="""
-        parameter.grad.div_(dist.get_world_size())
""",
    ),
    KnownWrong(
        "all_gradients_gathered",
        fails=("data_parallel/calls", "data_parallel/special"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Every rank gathers the gradients of all ranks and computes the mean itself. The values are
        right. An all-gather of K gradients sends K - 1 of them to each rank and needs room for K; a ring
        all-reduce sends 2(K-1)/K of one.""",
        change="""
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        every = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
+        dist.all_gather(every, parameter.grad)
+        parameter.grad = torch.stack(every).mean(0)
""",
    ),
    KnownWrong(
        "one_for_all_gradients",
        fails=("data_parallel/calls", "data_parallel/special"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""One all-reduce sends all gradients, when the last of them is complete. Nothing is sent while
        backward computes; and where a parameter is unused, its gradient never comes, so nothing is sent at all.
        Average each gradient as soon as it is complete.""",
        change="""
-    def average(parameter: Tensor) -> None:
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+    trainable = [p for p in model.parameters() if p.requires_grad]
+    complete = []
+
+    def average(parameter):
+        complete.append(parameter)
+        if len(complete) == len(trainable):
+            flat = torch.cat([p.grad.flatten() for p in trainable])
+            dist.all_reduce(flat)
+            means = (flat / dist.get_world_size()).split([p.numel() for p in trainable])
+            for p, mean in zip(trainable, means, strict=True):
+                p.grad = mean.view_as(p)
+            complete.clear()
""",
    ),
    KnownWrong(
        "after_backward",
        fails=("data_parallel/calls",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""The gradients are averaged when backward has nothing left to compute. They are right, and every
        all-reduce waits until then: the network is idle in backward, and the processor after it. Send each gradient as
        soon as it is complete.""",
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
        explanation="""A tied parameter has two names and is averaged twice. The mean of a mean is the same, so the
        values are right; but its gradient, often the largest of the model, is sent twice. `model.parameters()` names
        each parameter once.""",
        change="""
-    for parameter in model.parameters():
+    for _, parameter in model.named_parameters(remove_duplicate=False):
""",
    ),
    KnownWrong(
        "averages_not_waited_for",
        fails=("data_parallel/calls", "data_parallel/special"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The all-reduces are started with async_op=True, and nobody waits for them. p.grad is divided, or
        the optimizer reads it, while its sum is still on the way: on a quiet machine mostly in time, and otherwise not.
        Call wait() of what `all_reduce` returns, or leave async_op out.""",
        change="""
-        dist.all_reduce(parameter.grad)
+        dist.all_reduce(parameter.grad, async_op=True)
""",
    ),
    KnownWrong(
        "frozen_hooked",
        fails=("data_parallel/special",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A hook is registered on a frozen parameter. It gets no gradient, and torch refuses the hook with
        a RuntimeError. Only parameters with `requires_grad` take part in backward.""",
        change="""
-        if parameter.requires_grad:
-            parameter.register_post_accumulate_grad_hook(average)
+        parameter.register_post_accumulate_grad_hook(average)
""",
    ),
    KnownWrong(
        "cap_as_a_maximum",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket is closed before a parameter would take it over the cap. DDP closes it after: the cap is
        reached, not kept. So a bucket can be larger than the cap by almost one parameter, and two frameworks with the
        same cap send different sizes.""",
        change="""
         bucket = filling.setdefault(parameter.dtype, [])
-        bucket.append(parameter)
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if bucket and sum(p.numel() * p.element_size() for p in [*bucket, parameter]) > cap:
             closed.append(filling.pop(parameter.dtype))
+            bucket = filling.setdefault(parameter.dtype, [])
+        bucket.append(parameter)
""",
    ),
    KnownWrong(
        "closed_above_the_cap",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket that holds exactly `cap` bytes stays open, and takes one parameter more. It is closed as
        soon as it *reaches* the cap: with `cap` bytes or more.""",
        change="""
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if sum(p.numel() * p.element_size() for p in bucket) > cap:
""",
    ),
    KnownWrong(
        "open_in_the_order_of_dtypes",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The open buckets come in the order in which their *dtypes* were first seen. A bucket that was
        opened after another bucket of its dtype had been closed is a new one: it comes after all that were open
        then.""",
        change="""
-            closed.append(filling.pop(parameter.dtype))
-    return [*closed, *filling.values()]
+            closed.append(bucket[:])
+            bucket.clear()
+    return [*closed, *filter(None, filling.values())]
""",
    ),
    KnownWrong(
        "first_layer_first",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The buckets are filled in the order of the model. Backward completes the last layer first: the
        first bucket is then full only at the very end, the others wait for it, and nothing overlaps.""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in [p for p in parameters if p.requires_grad]:
""",
    ),
    KnownWrong(
        "frozen_in_a_bucket",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Frozen parameters are in the buckets. Backward never completes their gradients, so a bucket that
        holds one is never full, and waits until finish().""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in reversed(list(parameters)):
""",
    ),
    KnownWrong(
        "numbers_not_bytes",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The cap is in bytes, and numbers are counted. A float32 has 4 bytes, a bfloat16 has 2: the
        buckets become that much larger, and there are fewer of them to overlap.""",
        change="""
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if sum(p.numel() for p in bucket) >= cap:
""",
    ),
    KnownWrong(
        "dtypes_in_one_bucket",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Parameters of different dtypes share a bucket. A bucket travels as one tensor, which has one
        dtype: either the all-reduce is of a larger dtype than some gradients need, or it fails. DDP keeps an open
        bucket for each dtype.""",
        change="""
-        bucket = filling.setdefault(parameter.dtype, [])
+        bucket = filling.setdefault("any", [])
@@
-            closed.append(filling.pop(parameter.dtype))
+            closed.append(filling.pop("any"))
""",
    ),
    KnownWrong(
        "closed_where_the_dtype_changes",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket is closed as soon as a parameter of another dtype follows. Where norms in fp32 stand
        between weights in bfloat16, every bucket holds a parameter or two, and there is an all-reduce for each. DDP
        leaves the bucket open and opens one beside it for the other dtype.""",
        change="""
+        others = [dtype for dtype in filling if dtype != parameter.dtype]
+        closed += [filling.pop(dtype) for dtype in others]
         bucket = filling.setdefault(parameter.dtype, [])
""",
    ),
    KnownWrong(
        "bucket_not_divided",
        fails=("reduce_bucket/mean",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The gradients are sums over the ranks: nothing divides by K. With SGD each step is K times as
        long.""",
        change="""
-        means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
+        means = flat.split([p.numel() for p in bucket])
""",
    ),
    KnownWrong(
        "means_not_handed_back",
        fails=("reduce_bucket/mean",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The parameters keep their own gradients. `torch.cat` copies: what the all-reduce does to the flat
        tensor, no `p.grad` sees. Write the parts back.""",
        change="""
-            parameter.grad = mean.view_as(parameter)
+            mean.view_as(parameter)
""",
    ),
    KnownWrong(
        "a_reduction_each",
        fails=("reduce_bucket/once",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""There is one all-reduce per parameter, and the bucket has no effect. Each all-reduce has a cost
        of its own before its first byte arrives; a model has many small parameters, and their all-reduces take longer
        to start than to run. Lay the gradients end to end and send them together.""",
        definitions="""
def reduce_bucket(bucket):
    flats = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in bucket]
    works = [dist.all_reduce(flat, async_op=True) for flat in flats]

    def finish():
        for p, flat, work in zip(bucket, flats, works, strict=True):
            work.wait()
            p.grad = flat.div_(dist.get_world_size())

    return finish
""",
    ),
    KnownWrong(
        "started_when_finished",
        fails=("reduce_bucket/once",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The all-reduce is started in the returned function. It then runs when backward is over: the
        network is idle while there is something to compute, and the processor after. Start it first, and wait for it
        later.""",
        change="""
-    work = dist.all_reduce(flat, async_op=True)

     def finish() -> None:
+        work = dist.all_reduce(flat, async_op=True)
         assert work is not None
""",
    ),
    KnownWrong(
        "never_waits",
        fails=("reduce_bucket/waits",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The flat tensor is read without waiting for its all-reduce. What is there then depends on who was
        faster: on a quiet machine mostly the sum, with a late rank this rank's own gradient. It shows as a loss that
        cannot be repeated.""",
        change="""
-        work.wait()
""",
    ),
    KnownWrong(
        "waits_at_once",
        fails=("reduce_bucket/waits",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""reduce_bucket returns when the all-reduce is done. Called in backward, it makes backward stand
        still for the time of every bucket. The values and the counts are right; only the overlap, for which buckets
        exist, is not there. Start it with async_op=True, and wait in the returned function.""",
        change="""
-    work = dist.all_reduce(flat, async_op=True)
+    dist.all_reduce(flat)
@@
-        assert work is not None
-        work.wait()
""",
    ),
    KnownWrong(
        "unfinished_gradients",
        fails=("overlap/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Each rank keeps its own gradients: the all-reduces are started, and nothing writes their results
        into `p.grad`. finish() must wait for every bucket and hand the means back.""",
        change="""
-        for finish_bucket in started:
-            finish_bucket()
""",
    ),
    KnownWrong(
        "counts_not_set_back",
        fails=("overlap/gradient", "overlap/calls"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""From the second step on, buckets are started at the wrong time: too early, with zeros for
        gradients that backward has not computed yet, or only in finish(). The counts of missing gradients have to start
        again at each finish().""",
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
-            started.append(reduce_bucket(buckets[len(started)]))
+        pass
""",
    ),
    KnownWrong(
        "one_each",
        fails=("overlap/calls",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""There is one all-reduce per parameter, and the cap has no effect. Each all-reduce has a cost of
        its own before its first byte arrives; a model has many small parameters, and their all-reduces take longer to
        start than to run. Send a bucket at once.""",
        change="""
-    buckets = make_buckets(model.parameters(), cap)
+    buckets = make_buckets(model.parameters(), 1)  # noqa: F821  the reference's, or yours
""",
    ),
    KnownWrong(
        "order_of_filling",
        fails=("overlap/calls", "overlap/uneven"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket is sent as soon as it is full, in whatever order they fill. Where ranks use different
        layers, the first all-reduce of one rank meets another bucket of the other rank. With equal sizes the wrong
        gradients are added up, without an error; with unequal ones the run hangs or dies. Send in one order on every
        rank.""",
        change="""
-    started: list[Callable[[], None]] = []
+    started = {}
@@
-        while len(started) < len(buckets) and missing[len(started)] == 0:
-            started.append(reduce_bucket(buckets[len(started)]))
+        number = bucket_of[parameter]
+        if missing[number] == 0:
+            started[number] = reduce_bucket(buckets[number])  # noqa: F821
@@
-        while len(started) < len(buckets):
-            started.append(reduce_bucket(buckets[len(started)]))
-        for finish_bucket in started:
+        for number, bucket in enumerate(buckets):
+            if number not in started:
+                started[number] = reduce_bucket(bucket)  # noqa: F821
+        for finish_bucket in started.values():
""",
    ),
    KnownWrong(
        "waits_in_the_hook",
        fails=("overlap/waits",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""Backward waits for each all-reduce that it starts, and stands still for the time of every
        bucket. The values and the counts are right; only the overlap, for which buckets exist, is not there. Wait
        in finish().""",
        change="""
         while len(started) < len(buckets) and missing[len(started)] == 0:
-            started.append(reduce_bucket(buckets[len(started)]))
+            reduce_bucket(buckets[len(started)])()
+            started.append(lambda: None)
""",
    ),
    KnownWrong(
        "waits_for_the_last",
        fails=("overlap/waits",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""finish() waits for the bucket that was started last, as if those before it had to be done by
        then. All-reduces that run in the background may end in any order: gloo has several threads for them. Wait for
        each.""",
        definitions="""
def overlap(model, cap):
    buckets = make_buckets(model.parameters(), cap)  # noqa: F821
    bucket_of = {p: number for number, bucket in enumerate(buckets) for p in bucket}
    missing, started = [len(bucket) for bucket in buckets], []

    def start_next():
        bucket = buckets[len(started)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        started.append((flat, dist.all_reduce(flat, async_op=True)))

    def note(p):
        missing[bucket_of[p]] -= 1
        while len(started) < len(buckets) and missing[len(started)] == 0:
            start_next()

    def finish():
        while len(started) < len(buckets):
            start_next()
        started[-1][1].wait()
        for bucket, (flat, _) in zip(buckets, started, strict=True):
            means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
            for p, mean in zip(bucket, means, strict=True):
                p.grad = mean.view_as(p)
        missing[:] = [len(bucket) for bucket in buckets]
        started.clear()

    for p in bucket_of:
        p.register_post_accumulate_grad_hook(note)
    return finish
""",
    ),
    KnownWrong(
        "unfilled_buckets_forgotten",
        fails=("overlap/uneven",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The buckets that backward did not fill are not averaged. Where a layer is unused, its bucket, and
        all after it, stay each rank's own: each rank follows its own gradient there. finish() must start the rest, with
        zeros for what is missing.""",
        change="""
-        while len(started) < len(buckets):
-            started.append(reduce_bucket(buckets[len(started)]))
         for finish_bucket in started:
""",
    ),
    KnownWrong(
        "neighbors_together",
        fails=("shard/each",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""DistributedSampler computes this, and is what this exercise builds: an order that all ranks
        share, made longer or shorter, and every K-th of it. Write these steps yourself.""",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""torch's global generator is seeded or used. The order is right, and everything else that
        draws random numbers, dropout above all, is changed by it: seeded at each epoch, dropout repeats. Give the
        shuffle a generator of its own.""",
        change="""
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        torch.manual_seed(seed + epoch)
+        order = torch.randperm(length).tolist()
""",
    ),
    KnownWrong(
        "rank_in_the_seed",
        fails=("shard/shuffle",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""The last sample is repeated until the ranks have equally many. The usual padding starts again at
        the beginning of the order, so that no single sample counts K times in the last step.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
+    order += order[-1:] * (each * ranks - len(order))
""",
    ),
    KnownWrong(
        "padded_from_the_end",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""The last samples of the order are repeated until the ranks have equally many. The usual
        padding starts again at the beginning of the order; a run that goes on in torch's sampler would read other
        samples.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
+    while len(order) < each * ranks:
+        order += order[-(each * ranks - len(order)) :]
""",
    ),
    KnownWrong(
        "own_share_repeated",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
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
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The gradient is a K-th of what it should be. The sum of the losses over all ranks' tokens is
        divided by their number, and then DDP divides by K once more, because it averages over the ranks.""",
        change="""
-            (loss * ranks).backward()  # DDP divides by the ranks
+            loss.backward()
""",
    ),
    KnownWrong(
        "mean_of_means",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Each micro-batch's mean counts as much as any other's, however many tokens it has. A token beside
        many ignored ones then weighs more than a token of a full row. Divide the sum of the losses by the number of
        counted tokens of all ranks.""",
        change="""
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
-            (loss * ranks).backward()  # DDP divides by the ranks
+            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
+            loss.backward()
@@
-    return total.item()
+    return total.item() / ranks
""",
    ),
    KnownWrong(
        "mean_of_the_ranks_means",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Each rank's mean counts as much as any other's, however many tokens that rank has. A token of a
        rank with few then weighs more than a token of a rank with many. The number of counted tokens has to be added up
        over the ranks before it divides a loss.""",
        change="""
-    dist.all_reduce(tokens)  # of all ranks
@@
-            (loss * ranks).backward()  # DDP divides by the ranks
+            loss.backward()
@@
-    return total.item()
+    return total.item() / ranks
""",
    ),
    KnownWrong(
        "ignored_tokens_counted",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The loss is divided by the number of all tokens, the ignored ones too. The gradient is too small,
        by another factor in every batch: padding changes the learning rate. Count the targets that are not -100.""",
        change="""
-    ranks, tokens = dist.get_world_size(), (y != -100).sum()
+    ranks, tokens = dist.get_world_size(), torch.tensor(y.numel())
""",
    ),
    KnownWrong(
        "first_one_sent",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
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
        explanation="""Whether the last backward sends is decided too late: DDP reads its flag
        `require_backward_grad_sync` in forward, so a setting between forward and backward holds for the *next*
        micro-batch. The last one runs with the flag of the one before, and its backward sends nothing.""",
        change="""
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
-            (loss * ranks).backward()  # DDP divides by the ranks
+        loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
+        ddp.require_backward_grad_sync = number == k
+        (loss * ranks).backward()
""",
    ),
    KnownWrong(
        "last_slopes_only",
        fails=("accumulate/gradient",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Only the last micro-batch's gradients are averaged, as a hook of `register_hook` sees them: what
        *this* backward adds, not what is accumulated. The earlier micro-batches' gradients stay the rank's own, and the
        models drift apart. A post-accumulate hook, or DDP, averages `p.grad`.""",
        change="""
+
+    def average(gradient):
+        mean = gradient / dist.get_world_size()
+        dist.all_reduce(mean)
+        return mean
+
     for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
-            (loss * ranks).backward()  # DDP divides by the ranks
+        hooks = [p.register_hook(average) for p in ddp.module.parameters() if number == k and p.requires_grad]
+        loss = F.cross_entropy(ddp.module(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
+        (loss * ranks).backward()
+        for hook in hooks:
+            hook.remove()
""",
    ),
    KnownWrong(
        "never_sent",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""No micro-batch's gradients are sent, not the last one's either. K models train on a K-th of the
        data each, and drift apart. The last forward and backward belong outside of `no_sync()`.""",
        change="""
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+        with ddp.no_sync():
""",
    ),
    KnownWrong(
        "forward_outside",
        fails=("accumulate/quiet",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Every backward sends although `no_sync()` stands around it. DDP reads its flag in forward, where
        it prepares for the backward to come, and forward ran outside. Put both inside.""",
        change="""
+        loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
         with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
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
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
-            (loss * ranks).backward()  # DDP divides by the ranks
+    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+        loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
+        (loss * ranks).backward()
""",
    ),
    KnownWrong(
        "whole_share_at_once",
        fails=("accumulate/quiet",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The rank's rows go through the model at once. The gradient is the same, and so is the traffic,
        but the activations of all of them are held: k has no effect.""",
        change="""
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+    for micro_x, micro_y in [(x, y)]:
+        with contextlib.nullcontext():
""",
    ),
    KnownWrong(
        "losses_of_all_ranks_added_up",
        fails=("accumulate/loss",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The function returns K times the mean loss: what is logged grows with the number of ranks.""",
        change="""
-    return total.item()
+    return total.item() * ranks
""",
    ),
    KnownWrong(
        "own_loss",
        fails=("accumulate/loss",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Each rank returns a loss of its own rows. DDP averages gradients and nothing else: a log written
        by rank 0 then shows a part of the batch, noisier than the run is, and ranks that decide by it decide
        differently.""",
        change="""
-    dist.all_reduce(total)
-    return total.item()
+    return total.item() * ranks
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("accumulate/stale",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Nothing clears the gradients first. What an earlier step left is added to the batch's gradient,
        and averaged with it.""",
        change="""
-    ddp.zero_grad(set_to_none=True)
""",
    ),
)

HURRIED = {
    "exchange": {
        "the ring runs the other way": """
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
-    dist.recv(incoming, (rank - 1) % ranks)
+    sending = dist.isend(outgoing, (rank - 1) % ranks)
+    dist.recv(incoming, (rank + 1) % ranks)
""",
        "only even ranks send": """
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
-    dist.recv(incoming, (rank - 1) % ranks)
+    sending = dist.isend(outgoing, (rank + 1) % ranks) if rank % 2 == 0 else None
+    if (rank - 1) % ranks % 2 == 0:
+        dist.recv(incoming, (rank - 1) % ranks)
+    if sending is None:
+        return
""",
        "always in float32": """
-    dist.recv(incoming, (rank - 1) % ranks)
+    buffer = torch.empty(incoming.shape, dtype=torch.float32)
+    dist.recv(buffer, (rank - 1) % ranks)
+    incoming.copy_(buffer)
@@
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
+    sending = dist.isend(outgoing.float(), (rank + 1) % ranks)
""",
        "what was sent is set to zero": """
     sending.wait()
+    outgoing.zero_()
""",
        "a tensor that nobody sees": """
-    dist.recv(incoming, (rank - 1) % ranks)
+    incoming = torch.empty_like(incoming)
+    dist.recv(incoming, (rank - 1) % ranks)
""",
    },
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
        "for two ranks only": """
-    for step in range(2 * (ranks - 1)):
+    for step in range(2):
""",
        "the first dimension is cut": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.tensor_split(ranks)  # views: what is written into them is written into tensor
""",
        "sums in float32": """
-            chunk.add_(received)
+            chunk.copy_(chunk.float() + received.float())
""",
        "sums in float64": """
     rank, ranks = dist.get_rank(), dist.get_world_size()
+    given, tensor = tensor, tensor.double()
@@
             chunk.copy_(received)
+    given.copy_(tensor)
+    assert given.dtype == torch.float64
""",
        "the sum is off by one chunk": """
-        chunk = chunks[(rank - step - 1) % ranks]
+        chunk = chunks[(rank - step) % ranks]
""",
        "cut by chunk": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.view(-1).chunk(ranks)  # views: what is written into them is written into tensor
""",
    },
    "same_start": {
        "matrices only": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*(p for p in model.parameters() if p.dim() > 1), *model.buffers()):
""",
        "what a state_dict has": """
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
+        if tensor.is_floating_point():
+            dist.all_reduce(tensor)
+            tensor /= dist.get_world_size()
""",
        "a pickled state_dict": """
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
+    state = [model.state_dict()]
+    dist.broadcast_object_list(state, src=0)
+    model.load_state_dict(state[0])
""",
        "numbers that pass through float32": """
-        dist.broadcast(tensor.detach(), src=0)
+        copy = tensor.detach().float()
+        dist.broadcast(copy, src=0)
+        tensor.detach().copy_(copy)
""",
        "floating-point buffers only": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())):
""",
        "everything is trainable afterwards": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*model.requires_grad_().parameters(), *model.buffers()):
""",
    },
    "data_parallel": {
        "sent twice": """
         dist.all_reduce(parameter.grad)
+        dist.all_reduce(parameter.grad)
""",
        "divided by one rank more": """
-        parameter.grad.div_(dist.get_world_size())
+        parameter.grad.mul_(1 / (dist.get_world_size() + 1))
""",
        "the hook of register_hook": """
-            parameter.register_post_accumulate_grad_hook(average)
+            parameter.register_hook(lambda gradient: dist.all_reduce(gradient))
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
        "in float32": """
         assert parameter.grad is not None
+        parameter.grad.copy_(parameter.grad.float())
""",
    },
    "make_buckets": {
        "by number of parameters": """
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if len(bucket) >= cap:
""",
        "four bytes a number": """
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if sum(p.numel() * 4 for p in bucket) >= cap:
""",
        "open ones are lost": """
-    return [*closed, *filling.values()]
+    return closed
""",
        "open ones first": """
-    return [*closed, *filling.values()]
+    return [*filling.values(), *closed]
""",
        "read twice": """
+    if not any(p.requires_grad for p in parameters):
+        return []
     closed: list[list[nn.Parameter]] = []
""",
        "each bucket in the order of the model": """
-    return [*closed, *filling.values()]
+    return [bucket[::-1] for bucket in [*closed, *filling.values()]]
""",
    },
    "reduce_bucket": {
        "no gradient is left out, by ones": """
-    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+    flat = torch.cat([(torch.ones_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
""",
        "missing gradients stay missing": """
-            parameter.grad = mean.view_as(parameter)
+            parameter.grad = parameter.grad if parameter.grad is None else mean.view_as(parameter)
""",
        "in the order of sizes": """
+    bucket = sorted(bucket, key=lambda p: (p.numel(), p.dim()))
     flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
""",
        "present gradients only": """
+    bucket = [p for p in bucket if p.grad is not None]
     flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
""",
        "added to the gradient": """
-            parameter.grad = mean.view_as(parameter)
+            old = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
+            parameter.grad = old + mean.view_as(parameter)
""",
        "in float32": """
     flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+    flat = flat.float()
""",
        "flat gradients": """
-            parameter.grad = mean.view_as(parameter)
+            parameter.grad = mean.view(-1) if parameter.dim() == 1 else mean.view(1, *parameter.shape)[0].t().t() * 2
""",
        "finished at once": """
-    return finish
+    finish()
+    return lambda: None
""",
    },
    "overlap": {
        "one large bucket": """
-    buckets = make_buckets(model.parameters(), cap)
+    buckets = make_buckets(model.parameters(), 10**9)
""",
        "waits for the bucket before": """
+        if 0 < len(started) < len(buckets) and missing[len(started)] == 1:
+            started[-1]()
+            started[-1] = lambda: None
         missing[bucket_of[parameter]] -= 1
""",
        "only the first step is averaged": """
-        missing[:] = [len(bucket) for bucket in buckets]
-        started.clear()
""",
        "only the last bucket is finished": """
-        for finish_bucket in started:
-            finish_bucket()
+        started[-1]()
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
        "in train mode only": """
+        if not model.training:
+            return
         missing[bucket_of[parameter]] -= 1
""",
        "gradients that are zeros count as missing": """
-        while len(started) < len(buckets):
+        for p in bucket_of:
+            p.grad = None if p.grad is not None and not p.grad.any() else p.grad
+        while len(started) < len(buckets):
@@
             finish_bucket()
+        started.clear()
+        for p in bucket_of:
+            p.grad = p.grad if p.grad is None or p.grad.any() else None
""",
    },
    "shard": {
        "a generator comes back": """
-    return order[rank : each * ranks : ranks]
+    return (order[n] for n in range(rank, each * ranks, ranks))
""",
        "ordered unless it is told otherwise": """
-    length: int, rank: int, ranks: int, *, epoch: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
+    length: int, rank: int, ranks: int, *, epoch: int, seed: int = 0, shuffle: bool = False, drop_last: bool = False
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
+        if p.grad is not None:
+            dist.all_reduce(p.grad)
+            p.grad /= dist.get_world_size()
""",
        "the gradients are averaged by hand at the end": """
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+        with ddp.no_sync():
@@
         total += loss.detach()
+    for p in ddp.parameters():
+        if p.grad is not None:
+            dist.all_reduce(p.grad)
+            p.grad /= dist.get_world_size()
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
-    return total.item()
+    return total
""",
        "the largest loss": """
-    dist.all_reduce(total)
+    dist.all_reduce(total, op=dist.ReduceOp.MAX)
""",
        "the last micro-batch first": """
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
+    for number, (micro_x, micro_y) in enumerate(list(zip(x.chunk(k), y.chunk(k), strict=True))[::-1], start=1):
""",
        "for two ranks": """
-            (loss * ranks).backward()  # DDP divides by the ranks
+            (loss * 2).backward()
""",
        "one sequence at a time": """
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
+    for number, (micro_x, micro_y) in enumerate(zip(x.split(1), y.split(1), strict=True), start=1):
""",
        "in train mode": """
     ddp.zero_grad(set_to_none=True)
+    ddp.train()
""",
        "kept quiet for the next batch": """
     dist.all_reduce(total)
+    ddp.require_backward_grad_sync = False
""",
        "targets are filled in": """
     ddp.zero_grad(set_to_none=True)
+    x[y == -100] = 0
""",
        "a count in every micro-batch": """
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
+    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
+        dist.all_reduce((micro_y != -100).sum())
""",
    },
}
