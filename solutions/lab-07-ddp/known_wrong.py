"""Known-wrong solutions of Lab 07, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "everybody_sends_first",
        fails=("exchange/incoming", "exchange/neighbors", "exchange/complete"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Every rank sends before it receives. `dist.send` returns only when the other rank has received,
        and that rank is sending too, so all ranks wait forever. Send in the background (`isend`), receive, then wait
        for the send; or let even ranks send first and odd ranks receive first.""",
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
        explanation="""Every rank receives before it sends, so all ranks wait in `dist.recv` for a message that no rank
        has sent. Send in the background (`sending = dist.isend(...)`), receive, then call `sending.wait()`; or let even
        ranks send first and odd ranks receive first.""",
        change="""
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
     dist.recv(incoming, (rank - 1) % ranks)
-    assert sending is not None
-    sending.wait()
+    dist.send(outgoing, (rank + 1) % ranks)
""",
    ),
    KnownWrong(
        "empty_message_not_sent",
        fails=("exchange/incoming", "exchange/neighbors", "exchange/complete"),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""A rank with no number to send returns at once. The rank before still sends, and no code receives;
        the next rank may wait forever. Only `outgoing` is empty: receive `incoming` all the same.""",
        change="""
+    if not outgoing.numel():
+        return
     sending = dist.isend(outgoing, (rank + 1) % ranks)
""",
    ),
    KnownWrong(
        "own_numbers_returned",
        fails=("exchange/incoming", "exchange/neighbors"),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""Nothing is sent: `incoming` holds this rank's own numbers. In each step of a ring, a rank sends
        one message to the next rank and receives one message from the rank before it.""",
        definitions="""
def exchange(outgoing, incoming):
    flat = outgoing.flatten()
    incoming.view(-1)[: len(flat)] = flat[: incoming.numel()]
""",
    ),
    KnownWrong(
        "gathered_from_all",
        fails=("exchange/neighbors",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""Every rank receives the tensors of all ranks and keeps one of them. `incoming` is right, but the
        other K - 1 tensors are sent without need. In each step of a ring, a rank sends one message to rank + 1 and
        receives one from rank - 1.""",
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
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""exchange returns while a message may still be on the way. The caller may then read `incoming`
        before it is filled, or change `outgoing` before it is sent. The result depends on timing, so most runs look
        right. `isend` and `irecv` return an object with a wait(): call it before exchange returns.""",
        change="""
-    sending.wait()
+    dist.started = [*getattr(dist, "started", []), sending]
""",
    ),
    KnownWrong(
        "added_in_both_rounds",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The last K - 1 steps add the arriving chunks too. In these steps a chunk is a complete sum, which
        already contains the rank's own numbers: it must replace the chunk that the rank holds.""",
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
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The ring ends after K - 1 steps. By then each rank has the finished sum of one chunk, a different
        chunk on each rank: this is a reduce-scatter. K - 1 more steps have to send the finished sums around the
        ring.""",
        change="""
-    for step in range(2 * (ranks - 1)):
+    for step in range(ranks - 1):
""",
    ),
    KnownWrong(
        "mean_in_the_ring",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The result is divided by K. An all-reduce returns the sum; a caller that needs the mean divides
        by K, and here would divide twice.""",
        change="""
             chunk.copy_(received)
+    tensor.div_(ranks)
""",
    ),
    KnownWrong(
        "one_step_short",
        fails=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The ring ends one step too early: it takes 2(K-1) steps. After K - 1 steps each rank has one
        finished chunk, and K - 1 more steps send the finished chunks to all ranks. Here one chunk on every rank is
        still an unfinished sum.""",
        change="""
-    for step in range(2 * (ranks - 1)):
+    for step in range(2 * (ranks - 1) - 1):
""",
    ),
    KnownWrong(
        "received_over_the_chunk",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""No sum is computed: the received numbers replace this rank's own numbers, also in the first K - 1
        steps, in which they must be added. The messages are right. Receive into a separate tensor, then add it to the
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
        "sum_in_another_tensor",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The sums of the first K - 1 steps are not kept in `tensor`: the next step sends this rank's own
        numbers again, and every rank ends with chunks of single ranks. `chunk = chunk + received` makes a new tensor;
        `chunk += received` and `chunk.add_(received)` add in place.""",
        change="""
-            chunk.add_(received)
+            chunk = chunk + received
""",
    ),
    KnownWrong(
        "remainder_forgotten",
        fails=("ring_all_reduce/sum", "ring_all_reduce/bytes"),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""Each chunk has N // K numbers. If K does not divide N, the K chunks do not cover the tensor, and
        its last numbers are never summed: each rank keeps its own. The lengths of chunks may differ by one, as those of
        `tensor_split` do.""",
        change="""
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    size = tensor.numel() // ranks
+    chunks = [tensor.view(-1)[n * size : (n + 1) * size] for n in range(ranks)]
""",
    ),
    KnownWrong(
        "result_in_a_copy",
        fails=("ring_all_reduce/sum",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""`tensor` does not change: the sum is in another tensor. The caller reads `tensor`, because
        gradients are averaged in place. Write into views of `tensor`.""",
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
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The last K - 1 steps start with chunk r on rank r, as the first K - 1 steps do. But the chunk
        that is complete on rank r by then is chunk (r + 1) % K, which it received last. The other chunks of rank r are
        unfinished sums, and one of them is sent around.""",
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
        explanation="""Rank 0 receives the tensors of all ranks, adds them, and sends the sum to each rank. The result
        is right, but rank 0 receives (K-1) N numbers and sends as many, while the other links are idle. In a ring every
        rank sends 2(K-1)/K N numbers, less than 2N for any K.""",
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
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""`dist.all_reduce` is the function that this exercise builds. Write the messages yourself: which
        chunk is sent to which rank, in which step.""",
        definitions="""
def ring_all_reduce(tensor):
    dist.all_reduce(tensor)
""",
    ),
    KnownWrong(
        "chunks_of_the_rounded_up_length",
        fails=("ring_all_reduce/bytes",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""Each chunk has N / K numbers, rounded up, until no numbers are left, so the last chunks are
        shorter than the others by more than one number, or empty. In each step, ranks with little to add then wait for
        ranks with more. The lengths may differ by one, as those of `tensor_split` do.""",
        change="""
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = list(tensor.view(-1).split(max(1, -(-tensor.numel() // ranks))))
+    chunks += [tensor.view(-1)[:0]] * (ranks - len(chunks))
""",
    ),
    KnownWrong(
        "padded_to_a_multiple",
        fails=("ring_all_reduce/bytes",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""The tensor is padded until K divides its length. The sum is right, but the ranks send the padding
        too, and each rank holds a padded copy of the tensor. The lengths of chunks may differ by one.""",
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
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""Every step sends the whole tensor to the next rank, where it is added. The sum is right after K -
        1 steps, but each rank sends (K-1) N numbers, where chunks need 2(K-1)/K N. With 8 ranks that is 4 times as
        much.""",
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
        "too_short_to_split",
        fails=("ring_all_reduce/short",),
        read="handbook/distributed-data-parallel.md#cost-of-the-average",
        explanation="""A tensor with fewer numbers than ranks stays as it is, so each rank keeps its own numbers. Some
        chunks of such a tensor are empty, and the ring works with them: the messages of an empty chunk have no
        bytes.""",
        change="""
     rank, ranks = dist.get_rank(), dist.get_world_size()
+    if tensor.numel() < ranks:
+        return
""",
    ),
    KnownWrong(
        "no_broadcast",
        fails=("same_start/parameters", "same_start/buffers"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Nothing is sent at the start. Averaged gradients keep models equal only if they start equal. With
        different weights the ranks compute gradients at different points, and the mean of these is the gradient of no
        model. A common seed fails once a rank draws one number more. Broadcast rank 0's parameters and buffers.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "not_every_rank_calls",
        fails=("same_start/parameters", "same_start/buffers"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""A rank waits in a collective that another rank does not call. Every rank must call
        `dist.broadcast(tensor, src=0)`: in this call rank 0 sends, and the other ranks receive. Call it outside of `if
        dist.get_rank() == 0:`.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
+    if dist.get_rank() == 0:
+        for tensor in (*model.parameters(), *model.buffers()):
+            dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "sent_to_each_rank",
        fails=("same_start/parameters", "same_start/buffers"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Rank 0 sends its tensors to one rank after the other. So rank 0 sends the model K - 1 times, and
        the other ranks wait. `dist.send` also refuses a tensor of another memory layout, such as channels_last. In a
        broadcast, ranks that have received a tensor send it on.""",
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
        "frozen_forgotten",
        fails=("same_start/parameters",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Frozen parameters are not sent. Forward reads them, and no gradient makes them equal later: with
        different weights in a frozen backbone, the ranks train on different features. Send all parameters, trainable or
        frozen.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*(p for p in model.parameters() if p.requires_grad), *model.buffers()):
""",
    ),
    KnownWrong(
        "mean_of_all_models",
        fails=("same_start/parameters",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Every rank gets the mean of all ranks' parameters. The ranks are equal then, but the mean of K
        random initializations has a variance that is K times too small, and the mean of a loaded model and K - 1 random
        models is neither of them. Send rank 0's parameters.""",
        change="""
+    for parameter in model.parameters():
+        dist.all_reduce(parameter.detach())
+        parameter.detach().div_(dist.get_world_size())
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.buffers():
""",
    ),
    KnownWrong(
        "broadcast_of_a_copy",
        fails=("same_start/parameters",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A tensor of another memory layout, such as channels_last, is copied by `.contiguous()`. The
        broadcast then fills the copy, and the model keeps its own numbers. Broadcast the tensor itself, or write the
        copy back.""",
        change="""
-        dist.broadcast(tensor.detach(), src=0)
+        dist.broadcast(tensor.detach().contiguous(), src=0)
""",
    ),
    KnownWrong(
        "buffers_forgotten",
        fails=("same_start/buffers",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Buffers are not sent. Buffers, such as BatchNorm's running averages, are part of the model:
        forward reads them, and no optimizer makes them equal. Send `model.buffers()` too.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in model.parameters():
""",
    ),
    KnownWrong(
        "saved_buffers_only",
        fails=("same_start/buffers",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Buffers that are in no state_dict, made with persistent=False, are not sent. A checkpoint does
        not need them, but forward reads them. `model.buffers()` returns all buffers.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
+    names = model.state_dict().keys() - dict(model.named_parameters(remove_duplicate=False)).keys()
+    for tensor in (*model.parameters(), *(model.get_buffer(name) for name in sorted(names))):
+        dist.broadcast(tensor.detach(), src=0)
""",
    ),
    KnownWrong(
        "tied_sent_twice",
        fails=("same_start/once",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A tied parameter belongs to two modules and is sent for each of them. The values are right, but
        the tensor, often the largest of the model, is sent twice. `model.parameters()` returns each parameter once.""",
        change="""
-    for tensor in (*model.parameters(), *model.buffers()):
+    own = (p for module in model.modules() for p in module.parameters(recurse=False))
+    for tensor in (*own, *model.buffers()):
""",
    ),
    KnownWrong(
        "new_buffers",
        fails=("same_start/once",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The received numbers are in new tensors, which replace tensors of the model. An optimizer, a view
        or another name that refers to an old tensor keeps the old numbers. Receive into the tensors that the model
        has.""",
        change="""
     for tensor in (*model.parameters(), *model.buffers()):
         dist.broadcast(tensor.detach(), src=0)
+    for module in model.modules():
+        module._buffers = {name: buffer.clone() for name, buffer in module._buffers.items()}
""",
    ),
    KnownWrong(
        "data_of_a_clone",
        fails=("same_start/once",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""`tensor.data = copy` gives every tensor of the model the memory of its copy. Views of the old
        memory keep the old numbers, and for a moment both are in memory. Write the received numbers into the tensor:
        tensor.data.copy_(copy).""",
        change="""
-        dist.broadcast(tensor.detach(), src=0)
+        received = tensor.detach().clone(memory_format=torch.contiguous_format)
+        dist.broadcast(received, src=0)
+        tensor.data = received
""",
    ),
    KnownWrong(
        "each_its_own_start",
        fails=("data_parallel/start",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""The ranks keep their own weights at the start. Averaged gradients keep models equal only if they
        start equal. With different weights the ranks compute gradients at different points, and the mean of these is
        the gradient of no model. Call `same_start` first.""",
        change="""
-    same_start(model)
-
""",
    ),
    KnownWrong(
        "always_two_ranks",
        fails=("data_parallel/gradient",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The sum is divided by 2, whatever the number of ranks. The mean is right on two ranks only.
        `dist.get_world_size()` returns the number of ranks.""",
        change="""
-        parameter.grad.div_(dist.get_world_size())
+        parameter.grad.div_(2)
""",
    ),
    KnownWrong(
        "late_binding",
        fails=("data_parallel/gradient", "data_parallel/calls"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Every hook averages the gradient of the last parameter, and the other gradients are never
        averaged. A hook that uses the loop's variable reads it when the hook runs, after the loop. Use the parameter
        that is passed to the hook.""",
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
        explanation="""The ranks start with the same model, but no gradient is averaged in backward. Each rank follows
        the gradient of its own rows, so after the first step there are K different models. Register a hook on each
        trainable parameter that averages its gradient.""",
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
        explanation="""Nothing is averaged in eval mode. The mode changes dropout and BatchNorm, not gradients:
        fine-tuning a model in eval mode would train K different models. Average in every backward.""",
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
        explanation="""The weights are averaged, and the gradients are not. Weights of the ranks differ by one update at
        most, so the mean changes little, and each rank follows the gradient of its own rows.
        `register_post_accumulate_grad_hook` passes the parameter to its hook: average `parameter.grad`.""",
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
        explanation="""Rank 0's gradient is broadcast to every rank. The models stay equal, but the gradients of the
        other ranks are lost, so training uses the rows of rank 0 only. All-reduce the gradients and divide by K.""",
        change="""
-        assert parameter.grad is not None
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        dist.broadcast(parameter.grad, src=0)
""",
    ),
    KnownWrong(
        "hook_gradient_averaged",
        fails=("data_parallel/gradient",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Each backward averages only the gradient that it adds, as a hook of `register_hook` receives it.
        Gradients that were accumulated before are not averaged and differ by rank, so the models drift apart. A
        post-accumulate hook runs when `p.grad` is complete: average that.""",
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
        explanation="""The gradients are summed over the ranks and not divided by K. Each rank's loss is a mean over its
        own rows, so the batch's gradient is the mean over the ranks. The sum is K times too large, which AdamW hides,
        and clipping and SGD do not.""",
        change="""
-        parameter.grad.div_(dist.get_world_size())
""",
    ),
    KnownWrong(
        "all_gradients_gathered",
        fails=("data_parallel/calls", "data_parallel/special"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Every rank gathers the gradients of all ranks and computes the mean itself. The values are right,
        but each rank receives K - 1 gradients and needs memory for K. In a ring all-reduce each rank receives 2(K-1)/K
        of one gradient.""",
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
        explanation="""One all-reduce sends all gradients when the last of them is complete. Nothing is sent while
        backward computes, and if a parameter is unused, its gradient is never complete, so nothing is sent at all.
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
        explanation="""The gradients are averaged when backward is over. The values are right, but the network is idle
        during backward, and the processor waits for the network after it. Send each gradient as soon as it is
        complete.""",
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
        explanation="""A tied parameter belongs to two modules and is averaged for each of them. The second mean changes
        nothing, so the values are right, but the gradient, often the largest of the model, is sent twice.
        `model.parameters()` returns each parameter once.""",
        change="""
-    for parameter in model.parameters():
+    for parameter in (p for module in model.modules() for p in module.parameters(recurse=False)):
""",
    ),
    KnownWrong(
        "averages_not_waited_for",
        fails=("data_parallel/calls", "data_parallel/special"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The all-reduces are started with async_op=True and not waited for. p.grad may then be divided, or
        read by the optimizer, before its sum has arrived; on an idle machine it mostly arrives in time. Call wait() on
        the object that `all_reduce` returns, or leave out async_op.""",
        change="""
-        dist.all_reduce(parameter.grad)
+        dist.all_reduce(parameter.grad, async_op=True)
""",
    ),
    KnownWrong(
        "frozen_hooked",
        fails=("data_parallel/special",),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""A hook is registered on a frozen parameter, which gets no gradient: torch raises a RuntimeError.
        Register hooks only on parameters with `requires_grad`.""",
        change="""
-        if parameter.requires_grad:
-            parameter.register_post_accumulate_grad_hook(average)
+        parameter.register_post_accumulate_grad_hook(average)
""",
    ),
    KnownWrong(
        "generator_reversed",
        fails=("make_buckets/buckets",),
        read="labs/lab-07-ddp.md#make_buckets",
        explanation="""reversed() needs a sequence, and `parameters` may be a generator, as model.parameters() returns
        one. Make a list of it first, and reverse the list.""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in reversed(parameters):
+        if not parameter.requires_grad:
+            continue
""",
    ),
    KnownWrong(
        "cap_as_a_maximum",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket is closed before the parameter that would take it above the cap. DDP closes it after the
        parameter that reaches the cap, so a bucket can be larger than the cap by almost one parameter. With the same
        cap, these buckets differ from DDP's.""",
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
        explanation="""A bucket with exactly `cap` bytes stays open and takes one more parameter. Close a bucket as soon
        as it has `cap` bytes or more.""",
        change="""
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if sum(p.numel() * p.element_size() for p in bucket) > cap:
""",
    ),
    KnownWrong(
        "open_in_the_order_of_dtypes",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The open buckets are in the order in which their dtypes first appeared. They belong in the order
        in which the buckets were opened: when a dtype's bucket is closed, the next bucket of that dtype comes after all
        buckets that are open already.""",
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
        explanation="""The buckets are filled in the order of the model. Backward completes the last layer first, so the
        first bucket is full only at the end of backward. The other buckets wait for it, and nothing overlaps. Fill the
        buckets from the last parameter to the first.""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in [p for p in parameters if p.requires_grad]:
""",
    ),
    KnownWrong(
        "frozen_in_a_bucket",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Frozen parameters are in the buckets. Backward gives them no gradient, so a bucket with a frozen
        parameter is never full and is sent only in finish(). Leave frozen parameters out.""",
        change="""
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
+    for parameter in reversed(list(parameters)):
""",
    ),
    KnownWrong(
        "numbers_not_bytes",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The cap is in bytes, but the numbers are counted. A float32 number takes 4 bytes and a bfloat16
        number 2, so the buckets are 4 or 2 times too large, and fewer of them can overlap with backward.""",
        change="""
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
+        if sum(p.numel() for p in bucket) >= cap:
""",
    ),
    KnownWrong(
        "dtypes_in_one_bucket",
        fails=("make_buckets/buckets",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Parameters of different dtypes share a bucket. A bucket is sent as one tensor, which has one
        dtype: some gradients are then sent in a larger dtype than their own, or the all-reduce fails. Keep one open
        bucket per dtype.""",
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
        explanation="""A bucket is closed as soon as a parameter of another dtype follows. Where fp32 norms alternate
        with bfloat16 weights, every bucket has one or two parameters, and each bucket costs an all-reduce. Leave the
        bucket open, and open another for the other dtype.""",
        change="""
+        others = [dtype for dtype in filling if dtype != parameter.dtype]
+        closed += [filling.pop(dtype) for dtype in others]
         bucket = filling.setdefault(parameter.dtype, [])
""",
    ),
    KnownWrong(
        "finish_called",
        fails=("reduce_bucket/mean", "reduce_bucket/once"),
        read="labs/lab-07-ddp.md#reduce_bucket",
        explanation="""reduce_bucket returns None and not a function, so the caller has no function to call. Either
        `return` is missing, or the inner function is called: `return finish()` returns the value of that call, which
        is None. Write `return finish`, without parentheses.""",
        change="""
-    return finish
+    return finish()
""",
    ),
    KnownWrong(
        "none_in_a_bucket",
        fails=("reduce_bucket/mean", "reduce_bucket/once"),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The line in the message uses None like another object. Two values of this exercise may be None:
        the gradient of a parameter that this rank's loss does not depend on, in whose place zeros are sent
        (torch.zeros_like(p)); and the result of a collective that is called without async_op=True.""",
        change="""
-    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+    flat = torch.cat([p.grad.flatten() for p in bucket])
""",
    ),
    KnownWrong(
        "bucket_not_divided",
        fails=("reduce_bucket/mean",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The gradients are sums over the ranks and are not divided by K. With SGD each step is K times too
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
        explanation="""The parameters keep their own gradients. `torch.cat` copies, so the all-reduce changes the flat
        tensor and no `p.grad`. Write the parts of the flat tensor back into the gradients.""",
        change="""
-            parameter.grad = mean.view_as(parameter)
+            mean.view_as(parameter)
""",
    ),
    KnownWrong(
        "zeros_of_the_default_dtype",
        fails=("reduce_bucket/mean", "reduce_bucket/once"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The zeros for a gradient that is None are float32, so the flat tensor of a bfloat16 bucket is
        float32 too: it sends twice the bytes, and its parts cannot become gradients of bfloat16 parameters.
        torch.zeros_like(p) has the parameter's dtype.""",
        change="""
-    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+    flat = torch.cat([(torch.zeros(p.shape) if p.grad is None else p.grad).flatten() for p in bucket])
""",
    ),
    KnownWrong(
        "view_of_a_gradient",
        fails=("reduce_bucket/mean", "reduce_bucket/once"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""`view(-1)` fails for a gradient that is not contiguous, such as that of a channels_last
        convolution: a view cannot put its numbers in order. `flatten()` and `reshape(-1)` copy such a gradient, and are
        views of any other.""",
        change="""
-    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+    flat = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.view(-1) for p in bucket])
""",
    ),
    KnownWrong(
        "a_reduction_each",
        fails=("reduce_bucket/once",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""There is one all-reduce per parameter, so the bucket has no effect. Each all-reduce takes time to
        start, whatever its size, and for the many small parameters of a model that is longer than the transfer.
        Concatenate the gradients, and send them in one all-reduce.""",
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
        explanation="""The all-reduce starts in the returned function, when backward is over. The network is idle during
        backward, and the processor waits for the network after it. Start the all-reduce in reduce_bucket, and wait for
        it in the returned function.""",
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
        explanation="""The flat tensor is read without waiting for its all-reduce. If the all-reduce was fast, the
        tensor holds the sum; if another rank was late, it holds this rank's own gradient. The losses then differ
        between runs. Call wait() before you read it.""",
        change="""
-        work.wait()
""",
    ),
    KnownWrong(
        "waits_at_once",
        fails=("reduce_bucket/waits",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""reduce_bucket returns only when the all-reduce is done, so backward stops for the time of every
        bucket. The values and the number of all-reduces are right, but nothing overlaps, which is the purpose of
        buckets. Start with async_op=True, and wait in the returned function.""",
        change="""
-    work = dist.all_reduce(flat, async_op=True)
+    dist.all_reduce(flat)
@@
-        assert work is not None
-        work.wait()
""",
    ),
    KnownWrong(
        "nothing_to_call_before_the_step",
        fails=("overlap/gradient", "overlap/calls"),
        read="labs/lab-07-ddp.md#overlap",
        explanation="""overlap returns None and not a function, so the caller has no function to call before the step.
        Either `return` is missing, or the inner function is called: `return finish()` returns the value of that call,
        which is None. Write `return finish`, without parentheses.""",
        change="""
-    return finish
+    return finish()
""",
    ),
    KnownWrong(
        "unfinished_gradients",
        fails=("overlap/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The all-reduces are started, but their results are not written into `p.grad`: each rank keeps its
        own gradients. finish() must wait for every bucket and write the means back.""",
        change="""
-        for finish_bucket in started:
-            finish_bucket()
""",
    ),
    KnownWrong(
        "counts_not_set_back",
        fails=("overlap/gradient", "overlap/calls"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""From the second step on, buckets start at the wrong time: too early, with zeros for gradients
        that backward has not computed yet, or only in finish(). Each finish() must reset the counts of missing
        gradients.""",
        change="""
-        missing[:] = [len(bucket) for bucket in buckets]
""",
    ),
    KnownWrong(
        "ready_if_there_is_a_gradient",
        fails=("overlap/gradient", "overlap/calls"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket counts as full if no `p.grad` is None. Gradients that were set to zeros before backward
        (zero_grad(set_to_none=False)) are not None, so all buckets start at the first hook, with zeros. Count the hooks
        that have run.""",
        change="""
-        missing[bucket_of[parameter]] -= 1
-        while len(started) < len(buckets) and missing[len(started)] == 0:
+        while len(started) < len(buckets) and all(p.grad is not None for p in buckets[len(started)]):
""",
    ),
    KnownWrong(
        "everything_in_finish",
        fails=("overlap/calls",),
        read="labs/lab-07-ddp.md#mental-model",
        explanation="""All buckets are started in finish(), when backward is over. The network is idle during backward,
        and the processor waits for the network after it. Start each bucket as soon as it is full and the buckets before
        it are started.""",
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
        explanation="""There is one all-reduce per parameter, so the cap has no effect. Each all-reduce takes time to
        start, whatever its size, and for the many small parameters of a model that is longer than the transfer. Send
        each bucket in one all-reduce.""",
        change="""
-    buckets = make_buckets(model.parameters(), cap)
+    buckets = make_buckets(model.parameters(), 1)  # noqa: F821  the reference's, or yours
""",
    ),
    KnownWrong(
        "order_of_filling",
        fails=("overlap/calls", "overlap/uneven"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A bucket is sent as soon as it is full, in any order. If ranks use different layers, the first
        all-reduce of one rank is paired with another bucket of the other rank: with equal sizes wrong gradients are
        summed without an error, and with different sizes the run hangs or fails. Start buckets in the same order on
        every rank.""",
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
        explanation="""Backward waits for each all-reduce that it starts. The values and the number of all-reduces are
        right, but nothing overlaps, which is the purpose of buckets. Wait in finish().""",
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
        explanation="""finish() waits only for the bucket that was started last. All-reduces in the background may end
        in any order, because gloo runs them in several threads: an earlier bucket may not be done. Wait for every
        bucket.""",
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
        explanation="""Buckets that backward did not fill are not averaged when finish() returns. If a layer is unused,
        its bucket and all later buckets keep this rank's own gradients. finish() must start these buckets, with zeros
        for missing gradients, and wait for them as for the others.""",
        change="""
-        while len(started) < len(buckets):
-            started.append(reduce_bucket(buckets[len(started)]))
         for finish_bucket in started:
""",
    ),
    KnownWrong(
        "counts_of_unfilled_buckets_kept",
        fails=("overlap/uneven",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The count of a bucket that backward did not fill is not reset. In the next step the bucket starts
        too early, without gradients that backward has not computed yet. finish() must reset the counts of all
        buckets.""",
        change="""
         while len(started) < len(buckets) and missing[len(started)] == 0:
+            missing[len(started)] = len(buckets[len(started)])
@@
-        missing[:] = [len(bucket) for bucket in buckets]
""",
    ),
    KnownWrong(
        "neighbors_together",
        fails=("shard/each",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""Each rank takes one contiguous part of the order. That divides the data too, but in torch's
        sampler rank r reads order[r], order[r + K] and so on. A position in a checkpoint, or a comparison with one
        process, would then refer to other samples.""",
        change="""
-    return order[rank : each * ranks : ranks]
+    return order[rank * each : (rank + 1) * each]
""",
    ),
    KnownWrong(
        "torchs_sampler",
        fails=("shard/each",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""DistributedSampler computes what this exercise builds: one order for all ranks, padded or cut, of
        which each rank takes every K-th sample. Write these steps yourself.""",
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
        explanation="""The seed does not depend on the epoch, so every epoch has the order of the first. torch's
        DistributedSampler does the same if `set_epoch` is not called. The run looks healthy, but the same samples share
        a batch in every epoch.""",
        change="""
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed)).tolist()
""",
    ),
    KnownWrong(
        "global_generator",
        fails=("shard/shuffle",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""torch's global generator is seeded or used. The order is right, but all other random numbers,
        such as those of dropout, depend on it: if it is seeded in each epoch, dropout repeats its masks. Shuffle with a
        separate torch.Generator.""",
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
        explanation="""Each rank shuffles with its own seed. The ranks then take every K-th sample of different orders:
        some samples are read by several ranks, and others by none. Use the same seed on all ranks.""",
        change="""
-        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
+        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch + rank)).tolist()
""",
    ),
    KnownWrong(
        "last_sample_repeated",
        fails=("shard/padding",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""The last sample is repeated until all ranks have equally many samples. Continue from the
        beginning of the order instead, as torch's sampler does, so that no single sample is read many times in the last
        step.""",
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
        explanation="""The last samples of the order are repeated until all ranks have equally many. torch's sampler
        repeats the first samples of the order, so a run that continues with that sampler would read other samples.""",
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
        explanation="""Each rank pads its own share with its own first samples. The padding belongs to the whole order:
        append the order's first samples to the order, then give each rank every K-th sample.""",
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
        explanation="""The order is padded once from its beginning. With fewer samples than half the ranks that is not
        enough: the last ranks get no sample, and the run hangs in a collective. Append the beginning of the order until
        all ranks have equally many samples.""",
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
        explanation="""Nothing is padded, so some ranks get one sample more than others. In the last step these ranks
        wait in an all-reduce for ranks that have left the loop, until the time limit. Append the beginning of the order
        until all ranks have equally many samples.""",
        change="""
-    while len(order) < each * ranks:
-        order += order[: each * ranks - len(order)]
""",
    ),
    KnownWrong(
        "drop_last_ignored",
        fails=("shard/drop_last",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""`drop_last` has no effect: the order is always padded. Padding repeats samples, which is harmless
        in training and wrong where no sample may count twice. With drop_last, cut the order at its end.""",
        change="""
-    each = length // ranks if drop_last else -(-length // ranks)
+    each = -(-length // ranks)
""",
    ),
    KnownWrong(
        "cut_off_by_the_remainder",
        fails=("shard/drop_last",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""Where the ranks divide the length, nothing is to be left out, and the slice `[:-remainder]` is
        `[:-0]`, which is empty: no rank gets a sample. Cut at length // ranks * ranks.""",
        change="""
     while len(order) < each * ranks:
+        if drop_last:
+            break
@@
-    return order[rank : each * ranks : ranks]
+    return order[: -(length % ranks)][rank::ranks] if drop_last else order[rank : each * ranks : ranks]
""",
    ),
    KnownWrong(
        "divided_by_the_ranks_twice",
        fails=("accumulate/gradient",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The gradient is 1/K of the right gradient. The sum of the losses is divided by the number of
        tokens of all ranks, and DDP's mean over ranks divides it by K once more. Multiply the loss by K before
        backward.""",
        change="""
-            (loss * ranks).backward()  # DDP divides by the ranks
+            loss.backward()
""",
    ),
    KnownWrong(
        "mean_of_means",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The mean loss of every micro-batch has the same weight, whatever its number of counted tokens. A
        token among many ignored tokens then has more weight than a token of a full row. Divide the sum of the losses by
        the number of counted tokens of all ranks.""",
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
        explanation="""The mean loss of every rank has the same weight, whatever its number of counted tokens. A token
        of a rank with few of them then has more weight than a token of a rank with many. Sum the counts over the ranks
        before you divide a loss by them.""",
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
        "tokens_of_one_rank",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Each rank divides its losses by the number of its own counted tokens, and the quotients are
        summed over the ranks. The result is the sum of the ranks' means, about K times the right value. Call
        dist.all_reduce on the number of tokens before you divide by that number: it is then the number of all
        ranks.""",
        change="""
-    dist.all_reduce(tokens)  # of all ranks
""",
    ),
    KnownWrong(
        "ignored_tokens_counted",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The loss is divided by the number of all tokens, ignored tokens included. The gradient is too
        small, by a different factor in every batch, so padding changes the size of the step. Count the targets that are
        not -100.""",
        change="""
-    ranks, tokens = dist.get_world_size(), (y != -100).sum()
+    ranks, tokens = dist.get_world_size(), torch.tensor(y.numel())
""",
    ),
    KnownWrong(
        "first_one_sent",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The gradients are averaged in the backward of the first micro-batch and not after it. The next
        micro-batches then add gradients to that average, different ones on each rank. Average in the backward of the
        last micro-batch.""",
        change="""
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+        with contextlib.nullcontext() if number == 1 else ddp.no_sync():
""",
    ),
    KnownWrong(
        "flag_set_after_forward",
        fails=("accumulate/gradient", "accumulate/quiet"),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""The last backward sends nothing. DDP reads its flag `require_backward_grad_sync` in forward, so a
        change between forward and backward takes effect in the next micro-batch, and the last micro-batch runs with the
        flag of the one before it. Set the flag, or use `no_sync()`, before forward.""",
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
        "last_gradients_only",
        fails=("accumulate/gradient",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Only the gradient of the last micro-batch is averaged, as a hook of `register_hook` receives it.
        The gradients that earlier micro-batches accumulated are not averaged, so the models drift apart. DDP and
        post-accumulate hooks average all of `p.grad`.""",
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
        explanation="""No gradients are sent, not even in the backward of the last micro-batch. Each rank trains its own
        model on 1/K of the data, and the models drift apart. Run the last forward and backward outside of
        `no_sync()`.""",
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
        explanation="""Every backward sends gradients, although it runs inside `no_sync()`. DDP reads its flag in
        forward, and forward ran outside. Put both inside.""",
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
        explanation="""The backward of every micro-batch sends gradients. The gradient is right, because a sum of means
        is the mean of the sums, but it takes k times the traffic, which accumulation should avoid. Run every
        micro-batch but the last inside `no_sync()`.""",
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
        explanation="""All rows of the rank go through the model at once, so k has no effect. The gradient and the
        traffic are the same, but the activations of all rows are in memory at the same time. Run one micro-batch after
        the other.""",
        change="""
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+    for micro_x, micro_y in [(x, y)]:
+        with contextlib.nullcontext():
""",
    ),
    KnownWrong(
        "micro_batches_of_k_rows",
        fails=("accumulate/quiet",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The micro-batches have k rows each, and k is their number. `x.split(k)` makes pieces of k rows,
        `x.chunk(k)` makes k pieces.""",
        change="""
-    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
+    pieces = list(zip(x.split(k), y.split(k), strict=True))
+    for number, (micro_x, micro_y) in enumerate(pieces, start=1):
+        with contextlib.nullcontext() if number == len(pieces) else ddp.no_sync():
""",
    ),
    KnownWrong(
        "losses_of_all_ranks_added_up",
        fails=("accumulate/loss",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The function returns K times the mean loss, so a logged loss grows with the number of ranks. Only
        the gradient needs the factor K, because DDP divides it by K.""",
        change="""
-    return total.item()
+    return total.item() * ranks
""",
    ),
    KnownWrong(
        "own_loss",
        fails=("accumulate/loss",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Each rank returns the loss of its own rows, because DDP averages only gradients. The log of rank
        0 then shows a part of the batch, with more noise, and ranks that decide by the loss decide differently.
        All-reduce the loss.""",
        change="""
-    dist.all_reduce(total)
-    return total.item()
+    return total.item() * ranks
""",
    ),
    KnownWrong(
        "own_mean",
        fails=("accumulate/loss",),
        read="labs/lab-07-ddp.md#common-misunderstandings",
        explanation="""Each rank returns the mean loss of its own tokens, because DDP averages only gradients. Ranks
        that decide by the loss, such as when to stop, then decide differently. All-reduce the sum of the losses, and
        divide it by the number of counted tokens of all ranks.""",
        change="""
-    dist.all_reduce(total)
-    return total.item()
+    return (total * tokens / (y != -100).sum()).item()
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("accumulate/stale",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""Gradients from before the call are not cleared: they are added to the batch's gradient and
        averaged with it. Clear them before the first backward.""",
        change="""
-    ddp.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "mean_of_no_token",
        fails=("accumulate/stale",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""The mean loss of each micro-batch is multiplied by its number of counted tokens. If it has none,
        the mean is 0 / 0, which is nan, and nan times 0 is nan too. Use reduction="sum".""",
        change="""
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
+            mean = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten())
+            loss = mean * (micro_y != -100).sum() / tokens
""",
    ),
    KnownWrong(
        "skipped_without_tokens",
        fails=("accumulate/stale",),
        read="handbook/distributed-data-parallel.md#how-ddp-hides-the-cost",
        explanation="""A micro-batch without counted tokens is skipped. If it is the last one of a rank, this rank sends
        no gradients, and DDP on the other ranks waits for them. Run forward and backward all the same: the sum of no
        losses is 0, and so is its gradient.""",
        change="""
+        if not (micro_y != -100).any():
+            continue
         with contextlib.nullcontext() if number == k else ddp.no_sync():
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
        "tied ones twice, by name": """
-    for tensor in (*model.parameters(), *model.buffers()):
+    for tensor in (*(p for _, p in model.named_parameters(remove_duplicate=False)), *model.buffers()):
""",
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
        "four bytes per number": """
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
        "one token at least on each rank": """
-    ranks, tokens = dist.get_world_size(), (y != -100).sum()
+    ranks, tokens = dist.get_world_size(), (y != -100).sum().clamp(min=1)
""",
        "skipped without tokens, except the last": """
+        if number < k and not (micro_y != -100).any():
+            continue
         with contextlib.nullcontext() if number == k else ddp.no_sync():
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
