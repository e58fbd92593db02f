"""Known-wrong solutions of Lab 04, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "last_part_only",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The gradients that come back are those of the last micro-batch, divided by k. Those of the
        earlier micro-batches are gone: cleared or replaced instead of added up.""",
        change="""
-                sums[place] = gradient if so_far is None else so_far + gradient
+                sums[place] = gradient
""",
    ),
    KnownWrong(
        "loss_undivided",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The gradients are the sum of the k micro-batches' mean gradients: k times the batch's. SGD then
        steps k times too far, and a clipping limit acts k times too early. AdamW divides such a factor out again, so
        its loss curve does not show it.""",
        change="""
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten())
@@
-        total += loss.item()
+        total += loss.item() / k
""",
    ),
    KnownWrong(
        "added_twice",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Gradients count more than once in the sums. p.grad still holds earlier gradients when the next
        backward adds to it, and it may even be the same tensor as the sum. Once its gradient is in the sum, p.grad has
        to be None.""",
        change="""
             if parameter.grad is not None:
@@
-                parameter.grad = None
+    model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "parts_of_k_sequences",
        fails=("accumulate/gradient", "accumulate/loss", "accumulate/memory"),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The micro-batches have k sequences each; k is the number of micro-batches. With 12 sequences and
        k = 3 that is four parts of 3 instead of three parts of 4, and a division by 3 makes loss and gradient 4/3 of
        what they should be.""",
        change="""
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in zip(x.split(k), y.split(k), strict=True):
""",
    ),
    KnownWrong(
        "gradients_left_behind",
        fails=("accumulate/gradient",),
        read="labs/lab-04-gradient-accumulation.md#accumulate",
        explanation="""p.grad is not None afterwards. The next backward adds to what is left there, a backward of
        somebody else or of the next micro-batch: then gradients count more than once.""",
        change="""
-                parameter.grad = None
+                parameter.grad = None
+    for parameter in parameters:
+        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
""",
    ),
    KnownWrong(
        "tokens_cut_not_sequences",
        fails=("accumulate/gradient", "accumulate/loss", "accumulate/memory"),
        read="labs/lab-04-gradient-accumulation.md#accumulate",
        explanation="""The batch is cut along T, not along B: each micro-batch has all sequences and a part of their
        tokens. Tokens at the start of a later part then see none of the tokens before them, and take positions from 0
        again. A micro-batch is B/k whole sequences.""",
        change="""
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in zip(x.chunk(k, 1), y.chunk(k, 1)):
""",
    ),
    KnownWrong(
        "first_part_only",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The gradients that come back are those of the first micro-batch, divided by k. Those of later
        micro-batches are never added.""",
        change="""
-                sums[place] = gradient if so_far is None else so_far + gradient
+                sums[place] = gradient if so_far is None else so_far
""",
    ),
    KnownWrong(
        "loss_divided_twice",
        fails=("accumulate/loss",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The loss is divided by the number of micro-batches twice. The gradient is right and the loss
        curve is k times too low: an untrained model seems to start far below ln V.""",
        change="""
-    return total, sums
+    return total / k, sums
""",
    ),
    KnownWrong(
        "loss_of_the_last_part",
        fails=("accumulate/loss",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The function returns the loss of the last micro-batch. Logged, it is the loss of a smaller batch,
        and so wobbles more than the gradient that was followed. The batch's loss is the mean over all
        micro-batches.""",
        change="""
-    return total, sums
+    return loss.item() * k, sums
""",
    ),
    KnownWrong(
        "sums_in_bf16",
        fails=("accumulate/sums",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The gradients of a bf16 model are added up in bf16. With 8 bits of precision a sum of k numbers
        loses what is below a 256th of it: each further micro-batch counts less than the one before. Convert each
        gradient to fp32, and add those.""",
        change="""
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
+                gradient = parameter.grad
""",
    ),
    KnownWrong(
        "converted_at_the_end",
        fails=("accumulate/sums",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The gradients that come back are fp32, but they were added up in bf16 before, and a conversion
        brings no digit back. The sum itself has to be in fp32, from the first addition on.""",
        change="""
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
+                gradient = parameter.grad
@@
-    return total, sums
+    return total, [None if one is None else one.to(torch.promote_types(one.dtype, torch.float32)) for one in sums]
""",
    ),
    KnownWrong(
        "whole_batch_at_once",
        fails=("accumulate/sums", "accumulate/memory"),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The whole batch goes through the model at once. The gradient and the loss are right, of course;
        the point was that its activations do not fit.""",
        change="""
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
-        loss.backward()
+    for micro_x, micro_y in ((x, y),):
+        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten())
+        loss.backward()
""",
    ),
    KnownWrong(
        "graph_retained",
        fails=("accumulate/memory",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The activations of a micro-batch are kept after its backward (retain_graph, or a loss that still
        has its graph), so two or more are held at once. Each micro-batch has a graph of its own, so no graph is walked
        twice and there is nothing to retain.""",
        change="""
-        loss.backward()
+        loss.backward(retain_graph=True)
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("accumulate/stale",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""Gradients from before are added in. They come from somebody else's backward: a gradient monitor,
        or a step that failed. Old gradients have to be gone before the first backward.""",
        change="""
-    model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "zeros_for_unused",
        fails=("accumulate/stale",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""A parameter that gets no gradient from this batch has zeros instead of None. None and zero are
        not the same to an optimizer: it skips a parameter whose gradient is None, and lets weight decay and momentum
        move one whose gradient is zero.""",
        change="""
-    model.zero_grad(set_to_none=True)
+    model.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "divides_what_is_not_there",
        fails=("accumulate/stale", "accumulate/frozen"),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""A frozen or unused parameter has no gradient: its p.grad is None, and None can be neither added
        nor divided nor converted. Skip those parameters.""",
        change="""
-            if parameter.grad is not None:
+            if parameter.grad is not False:
""",
    ),
    KnownWrong(
        "zeros_for_frozen",
        fails=("accumulate/stale", "accumulate/frozen"),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""A frozen parameter has a sum of zeros instead of None. None and zero are not the same to an
        optimizer: it skips a parameter whose gradient is None, and lets weight decay and momentum move one whose
        gradient is zero. A frozen layer then shrinks.""",
        change="""
-    sums: list[Tensor | None] = [None for _ in parameters]
+    wide = [torch.promote_types(parameter.dtype, torch.float32) for parameter in parameters]
+    sums = [torch.zeros_like(parameter, dtype=dtype) for parameter, dtype in zip(parameters, wide, strict=True)]
""",
    ),
    KnownWrong(
        "none_left_out",
        fails=("accumulate/stale", "accumulate/frozen"),
        read="labs/lab-04-gradient-accumulation.md#accumulate",
        explanation="""The list has no place for a parameter that gets no gradient, so each tensor after it stands at
        another parameter's place. The list has one entry per parameter, in the order of model.parameters(), and None
        for such a parameter.""",
        change="""
-    return total, sums
+    return total, [one for one in sums if one is not None]
""",
    ),
    KnownWrong(
        "training_mode_forced",
        fails=("accumulate/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into training mode, whatever mode it was in. Which mode is right is the caller's
        choice: fine-tuning with dropout off on purpose then trains with it on.""",
        change="""
+    model.train()
     model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "evaluation_mode_forced",
        fails=("accumulate/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into evaluation mode, whatever mode it was in. Its dropout is off then, and a
        run that was to be regularized is not. Which mode is right is the caller's choice.""",
        change="""
     model.zero_grad(set_to_none=True)
+    model.eval()
""",
    ),
    KnownWrong(
        "divides_by_tokens_so_far",
        fails=("accumulate_tokens/gradient",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Early micro-batches weigh too much: each sum is divided by the tokens counted so far, because
        later micro-batches have not been counted when the first one runs. Count the whole group first: that takes the
        targets only, not the model.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
-    total = 0.0
+    total, scored = 0.0, 0
     for x, y in micro_batches:
+        scored += int((y != -100).sum())
         summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
-        (summed / scored).backward()
+        (summed / max(1, scored)).backward()
""",
    ),
    KnownWrong(
        "mean_of_means",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Each micro-batch counts the same, however many scored tokens it has. A token among few others
        then counts more than one among many: this is the mean of means, and another gradient. Trainers shipped it for
        years, because with equal lengths it is right.""",
        definitions="""
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    total = 0.0
    for x, y in micro_batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(micro_batches)
        loss.backward()
        total += loss.item()
    return total
""",
    ),
    KnownWrong(
        "padding_counts",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""The sum is divided by all targets, those marked -100 included. They add nothing to the sum, but
        they make the divisor larger: the more padding, the smaller the loss and the gradient.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(y.numel() for _, y in micro_batches)
""",
    ),
    KnownWrong(
        "padding_is_a_target",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Targets marked -100 are scored as if they were token 0. The model is trained to write token 0
        wherever there was padding or a prompt.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(y.numel() for _, y in micro_batches)
@@
-        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
+        summed = F.cross_entropy(model(x).flatten(0, 1), y.clamp(min=0).flatten(), reduction="sum")
""",
    ),
    KnownWrong(
        "targets_weigh",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Each micro-batch's mean is weighted by its number of targets, padding included. The mean is one
        over scored tokens, so the weight has to be their number: otherwise tokens in a micro-batch with much padding
        count more.""",
        definitions="""
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    targets = sum(y.numel() for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) * y.numel() / targets
        loss.backward()
        total += loss.item()
    return total
""",
    ),
    KnownWrong(
        "sequences_weigh",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Each micro-batch's mean is weighted by its number of sequences. That is right where every
        sequence has the same number of scored tokens. Here lengths and padding differ, so tokens in short or
        much-padded sequences count more.""",
        definitions="""
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    sequences = sum(len(x) for x, _ in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) * len(x) / sequences
        loss.backward()
        total += loss.item()
    return total
""",
    ),
    KnownWrong(
        "token_zero_is_padding",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Scored targets that are token 0 are missing from the divisor. The marker is -100; token 0 is a
        token like any other, and cross_entropy does score it.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(int((y > 0).sum()) for _, y in micro_batches)
""",
    ),
    KnownWrong(
        "targets_shifted_once_more",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="labs/lab-04-gradient-accumulation.md#accumulate_tokens",
        explanation="""The targets are shifted by one against the logits. `y` holds the next token of each position
        already: shifted once more, the model learns the token after the next one, and each sequence loses one of its
        targets.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(int((y[:, 1:] != -100).sum()) for _, y in micro_batches)
@@
-        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
+        summed = F.cross_entropy(model(x)[:, :-1].flatten(0, 1), y[:, 1:].flatten(), reduction="sum")
""",
    ),
    KnownWrong(
        "tokens_cleared_every_micro_batch",
        fails=("accumulate_tokens/gradient",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The gradients are those of the last micro-batch alone: p.grad is cleared, or replaced, at each
        micro-batch. Clear once, before the first backward.""",
        change="""
-        (summed / scored).backward()
+        model.zero_grad()
+        (summed / scored).backward()
""",
    ),
    KnownWrong(
        "logs_a_mean_of_means",
        fails=("accumulate_tokens/loss",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""The gradient is weighted by tokens, but the loss that is returned is the mean of the
        micro-batches' means. The curve then shows another number than the one that is trained on, and moves when only
        the padding changes.""",
        change="""
-    total = 0.0
+    means = []
@@
-        total += summed.item()
-    return total / scored
+        if count := int((y != -100).sum()):
+            means.append(summed.item() / count)
+    return sum(means) / len(means)
""",
    ),
    KnownWrong(
        "loss_divided_by_the_micro_batches_too",
        fails=("accumulate_tokens/loss",),
        read="labs/lab-04-gradient-accumulation.md#accumulate_tokens",
        explanation="""The loss that comes back is divided by the number of micro-batches once more. The gradient is
        right; the loss is too small by that number. A sum over all scored tokens, divided by their number, is the mean
        already.""",
        change="""
-    return total / scored
+    return total / scored / len(micro_batches)
""",
    ),
    KnownWrong(
        "loss_of_the_last_micro_batch",
        fails=("accumulate_tokens/loss",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Of the loss only the last micro-batch's part comes back. The gradient is right. The parts of all
        micro-batches have to be added up.""",
        change="""
-        total += summed.item()
+        total = summed.item()
""",
    ),
    KnownWrong(
        "mean_times_count",
        fails=("accumulate_tokens/empty",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""A micro-batch with nothing scored makes everything nan: its mean is 0/0, and nan times 0 is nan.
        Every gradient is nan from there on. A sum over nothing is 0, so add up sums.""",
        change="""
-        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
-        (summed / scored).backward()
-        total += summed.item()
-    return total / scored
+        share = int((y != -100).sum()) / scored
+        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) * share
+        loss.backward()
+        total += loss.item()
+    return total
""",
    ),
    KnownWrong(
        "one_token_at_least",
        fails=("accumulate_tokens/empty",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""A micro-batch with nothing scored counts as one token, so the whole group is divided by one too
        many for each such micro-batch. A guard against 0 belongs on the total, if anywhere, not on the parts.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(max(1, int((y != -100).sum())) for _, y in micro_batches)
""",
    ),
    KnownWrong(
        "one_backward_for_the_group",
        fails=("accumulate_tokens/memory",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""Backward runs once for the whole group. The number is right without counting ahead, but every
        micro-batch's activations wait for that backward. Count the targets first; they are there before any
        forward.""",
        definitions="""
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    summed, scored = 0.0, 0
    for x, y in micro_batches:
        summed = summed + F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        scored += int((y != -100).sum())
    loss = summed / scored
    loss.backward()
    return loss.item()
""",
    ),
    KnownWrong(
        "tokens_over_old_gradients",
        fails=("accumulate_tokens/stale",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""Gradients from before are added in, divided by nothing. They come from somebody else's backward.
        Clear before the first micro-batch.""",
        change="""
-    model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "zeros_for_idle",
        fails=("accumulate_tokens/stale",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""A parameter that gets no gradient from this group has a p.grad afterwards, an old one or zeros.
        An optimizer steps every parameter whose p.grad is not None: weight decay and momentum move it. Set every p.grad
        to None before the first backward, also of frozen parameters.""",
        change="""
-    model.zero_grad(set_to_none=True)
+    model.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "targets_overwritten",
        fails=("accumulate_tokens/undisturbed",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""The caller's targets are changed: -100 is gone from them. This call may be right; in the next
        epoch the same tensors have no padding any more, and another token is trained on in its place. Functions with an
        underscore, such as clamp_, write into the tensor.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    masks = [(y != -100).flatten() for _, y in micro_batches]
+    scored = sum(int(mask.sum()) for mask in masks)
     total = 0.0
-    for x, y in micro_batches:
-        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
+    for (x, y), mask in zip(micro_batches, masks, strict=True):
+        losses = F.cross_entropy(model(x).flatten(0, 1), y.clamp_(min=0).flatten(), reduction="none")
+        summed = (losses * mask).sum()
""",
    ),
    KnownWrong(
        "cleared_every_micro_batch",
        fails=("train_epoch/update",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Each update follows the last micro-batch of its group, divided by k; the gradients of the others
        are cleared before they are used. Clear once per group, before its first backward.""",
        change="""
-        optimizer.zero_grad(set_to_none=True)
@@
         for x, y in group:
+            optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "steps_at_multiples",
        fails=("train_epoch/update",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The first update comes after one micro-batch, and from then on each comes k - 1 too early,
        because `i % k == 0` is true for i = 0. What follows the last update is lost. Updates belong after micro-batch
        k, 2k, ...: `(i + 1) % k == 0`. This bug shipped in public training code, together with a loss that nobody
        divided.""",
        definitions="""
def train_epoch(model, optimizer, micro_batches, k):
    losses, total = [], 0.0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
        loss.backward()
        total += loss.item()
        if i % k == 0:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(total)
            total = 0.0
    return losses
""",
    ),
    KnownWrong(
        "updates_every_micro_batch",
        fails=("train_epoch/update",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Every micro-batch gets an update of its own. That is training with a small batch. Backward k
        times, then step once.""",
        definitions="""
def train_epoch(model, optimizer, micro_batches, k):
    losses = []
    for x, y in micro_batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
        loss.backward()
        optimizer.step()
        losses.append(loss.item() * k)
    return losses
""",
    ),
    KnownWrong(
        "updates_follow_the_sum",
        fails=("train_epoch/update",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Each update follows the sum of k gradients, not their mean, and with SGD goes k times as far as
        the batch's own update would. The losses that are returned may look right.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
@@
-        losses.append(total)
+        losses.append(total / len(group))
""",
    ),
    KnownWrong(
        "cleared_before_the_update",
        fails=("train_epoch/update",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The gradients are cleared between the last backward and the update, so the update finds none and
        moves nothing. Clear before a group's first backward.""",
        change="""
+        optimizer.zero_grad()
         optimizer.step()
""",
    ),
    KnownWrong(
        "cleared_once_an_epoch",
        fails=("train_epoch/groups",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The first update is right; each later one also follows the gradients of all groups before it, at
        weights that the model no longer has. Clear the gradients before each group.""",
        change="""
-    losses: list[float] = []
-    stream = iter(micro_batches)
+    losses, stream = [], iter(micro_batches)
+    optimizer.zero_grad()
     while group := list(itertools.islice(stream, k)):
-        optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "a_loss_each_micro_batch",
        fails=("train_epoch/losses",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""One loss is returned for each micro-batch, not for each update. A curve over these has k times as
        many points as there were steps, and each point is the loss of a small batch: noisier than what the updates
        followed.""",
        change="""
-        total = 0.0
         for x, y in group:
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
-            loss.backward()
-            total += loss.item()
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+            (loss / len(group)).backward()
+            losses.append(loss.item())
         optimizer.step()
-        losses.append(total)
""",
    ),
    KnownWrong(
        "losses_from_after_the_update",
        fails=("train_epoch/losses",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The losses are those after the update, on the tokens that the update has just followed. They are
        always a little lower than the loss on new text, and cost a second forward pass. Keep the loss that backward
        started from.""",
        change="""
-        total = 0.0
         for x, y in group:
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
-            loss.backward()
-            total += loss.item()
+            (F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)).backward()
         optimizer.step()
-        losses.append(total)
+        with torch.no_grad():
+            after = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in group]
+        losses.append(sum(after) / len(group))
""",
    ),
    KnownWrong(
        "sums_of_losses",
        fails=("train_epoch/losses",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Each number that comes back is the sum of a group's losses, not their mean. The updates are
        right; the curve starts at k times ln V, and a leftover group seems to have learned a lot at once.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
-            loss.backward()
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+            (loss / len(group)).backward()
""",
    ),
    KnownWrong(
        "losses_of_the_last_micro_batch",
        fails=("train_epoch/losses",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Each loss is that of its group's last micro-batch. The updates are right, but each point of the
        curve is the loss of a small batch. The mean over the group belongs to the update.""",
        change="""
-        losses.append(total)
+        losses.append(loss.item() * len(group))
""",
    ),
    KnownWrong(
        "an_update_of_nothing",
        fails=("train_epoch/leftover",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""An update is made of nothing where no micro-batch is left, and a loss of 0 is reported. AdamW
        skips parameters without a gradient, but the step counts, here and in a schedule.""",
        change="""
-    losses: list[float] = []
-    stream = iter(micro_batches)
-    while group := list(itertools.islice(stream, k)):
+    losses, stream = [], iter(micro_batches)
+    group = list(itertools.islice(stream, k))
+    while True:
@@
-    return losses
+        if not (group := list(itertools.islice(stream, k))):
+            return losses
""",
    ),
    KnownWrong(
        "leftover_divided_by_k",
        fails=("train_epoch/leftover",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The last group is divided by k although it has fewer micro-batches. Gradient and loss of the last
        update are too small, by (micro-batches left) / k. Divide by the number that the group has.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
""",
    ),
    KnownWrong(
        "leftover_gradient_divided_by_k",
        fails=("train_epoch/leftover",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The gradient of the last group is divided by k although the group has fewer micro-batches, so the
        last update is too short. The losses that come back are right, so no curve shows it. Divide by the number that
        the group has.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
-            loss.backward()
-            total += loss.item()
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+            (loss / k).backward()
+            total += loss.item() / len(group)
""",
    ),
    KnownWrong(
        "leftover_dropped",
        fails=("train_epoch/leftover",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""The last micro-batches get no update where their number is not a multiple of k. Their gradients
        were computed and are cleared at the next epoch's start. With a fixed order it is the same data each time that
        is never learned.""",
        definitions="""
def train_epoch(model, optimizer, micro_batches, k):
    losses, total = [], 0.0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
        loss.backward()
        total += loss.item()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(total)
            total = 0.0
    return losses
""",
    ),
    KnownWrong(
        "a_backward_each_group",
        fails=("train_epoch/memory",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""Backward runs once per group. Every micro-batch's activations are held until then: the memory of
        the whole batch, which accumulation was to avoid.""",
        definitions="""
def train_epoch(model, optimizer, micro_batches, k):
    losses, stream = [], iter(micro_batches)
    while group := list(itertools.islice(stream, k)):
        optimizer.zero_grad()
        loss = sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in group) / len(group)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
""",
    ),
    KnownWrong(
        "reads_everything_first",
        fails=("train_epoch/memory",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""All micro-batches are read before the first update, and the whole data set is held in memory. A
        stream that never ends never gets to its first update. Take k at a time.""",
        change="""
-    losses: list[float] = []
-    stream = iter(micro_batches)
-    while group := list(itertools.islice(stream, k)):
+    losses, every = [], list(micro_batches)
+    for start in range(0, len(every), k):
+        group = every[start : start + k]
""",
    ),
    KnownWrong(
        "cleared_after_the_update",
        fails=("train_epoch/stale",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""Gradients from before the first group go into the first update, though each later group begins
        without any. Clearing after an update is the same as clearing before a group only as long as nobody else calls
        backward: a gradient monitor, or an epoch that was broken off.""",
        change="""
-        optimizer.zero_grad(set_to_none=True)
@@
         optimizer.step()
+        optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "epoch_in_training_mode",
        fails=("train_epoch/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into training mode, whatever mode it was in. Which mode is right is the caller's
        choice: fine-tuning with dropout off on purpose then trains with it on.""",
        change="""
-    stream = iter(micro_batches)
+    stream = iter(micro_batches)
+    model.train()
""",
    ),
    KnownWrong(
        "norm_after_clipping",
        fails=("clip_once/norm",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""What is returned is the norm after the clipping. It never says more than max_norm: a run that
        logs it shows a flat line at the limit, and the spike that was clipped is invisible. Return the norm from
        before.""",
        change="""
             gradient.mul_(max_norm / norm)
-    return norm
+    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
""",
    ),
    KnownWrong(
        "largest_number_is_the_norm",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the size of the largest number. That is a norm too, the infinity norm, but it is
        shorter than the length of the vector: the root of the sum of all squares is asked for. Gradients are clipped
        too late and stay too long.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = max((gradient.double().abs().max().item() for gradient in gradients), default=0.0)
""",
    ),
    KnownWrong(
        "norms_added_up",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the sum of the tensors' norms. Lengths of parts do not add up to the length of the
        whole; their squares do. The sum is too large, so the gradient is clipped too early and ends shorter than
        max_norm.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = sum(gradient.double().norm().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "root_forgotten",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the squared length: its root is missing. A gradient of length 10 seems to be 100
        long, and is cut to a tenth of the limit.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = sum(gradient.double().square().sum().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "sizes_added_up",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the sum of the sizes of all numbers. That is a norm too, the L1 norm, but it is
        longer than the vector: the root of the sum of all squares is asked for. Gradients are clipped too early and end
        too short.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = sum(gradient.double().abs().sum().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "root_mean_square",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the root of the mean square, not of the sum: too small by the root of the number of
        parameters. Gradients are clipped too late and stay too long.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    count = max(1, sum(gradient.numel() for gradient in gradients))
+    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients) / count)
""",
    ),
    KnownWrong(
        "longest_tensor_is_the_norm",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is that of the longest tensor alone. The whole gradient is longer, so it is clipped too
        late and stays too long. The squares of all tensors belong to the sum.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = max((gradient.double().norm().item() for gradient in gradients), default=0.0)
""",
    ),
    KnownWrong(
        "clipped_by_value",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each number is cut to the range from -max_norm to max_norm. That is clipping by value: it
        flattens large numbers and leaves small ones, so the gradient turns, and its length may still be over max_norm
        many times.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    for gradient in gradients:
+        gradient.clamp_(-max_norm, max_norm)
""",
    ),
    KnownWrong(
        "each_tensor_by_itself",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each tensor is clipped to max_norm by its own norm. Large tensors are shortened, small ones are
        not, so the gradient turns: the update no longer follows the gradient of the loss. The whole gradient is one
        vector and has one factor.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    for gradient in gradients:
+        gradient.mul_(min(1.0, max_norm / max(gradient.norm().item(), 1e-12)))
""",
    ),
    KnownWrong(
        "generator_used_up",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Nothing is clipped where `parameters` is a generator, as model.parameters() is: after the first
        loop it is empty, so a second loop finds nothing, and says nothing. Keep the gradients in a list.""",
        definitions="""
def clip_gradients(parameters, max_norm):
    norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in parameters if p.grad is not None))
    if norm > max_norm:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    return norm
""",
    ),
    KnownWrong(
        "new_tensors_for_gradients",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""p.grad is another tensor after the clipping. The numbers are right, but for a moment each
        gradient is there twice, and code that refers to the old tensor, such as DDP with its buckets that p.grad views,
        now has another one than the optimizer. Multiply in place.""",
        definitions="""
def clip_gradients(parameters, max_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in parameters))
    if norm > max_norm:
        for p in parameters:
            p.grad = p.grad * (max_norm / norm)
    return norm
""",
    ),
    KnownWrong(
        "factor_upside_down",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""A gradient that is too long is made longer still: the factor is norm / max_norm. It has to be
        max_norm / norm, which is below 1 there.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.mul_(norm / max_norm)
""",
    ),
    KnownWrong(
        "nothing_is_written",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Gradients over the limit stay as they are. The norm is right, so nothing looks wrong. A product
        like g * factor is a new tensor, and the optimizer reads p.grad: multiply in place.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient = gradient * (max_norm / norm)
""",
    ),
    KnownWrong(
        "divides_by_a_norm_of_zero",
        fails=("clip_once/limit", "clip_once/none"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""A gradient that is 0 everywhere makes the quotient max_norm / norm fail: Python raises
        ZeroDivisionError, and a tensor makes inf of it. Ask first whether the norm is over the limit: then it is not
        0.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    factor = min(1.0, max_norm / norm)
+    for gradient in gradients:
+        gradient.mul_(factor)
""",
    ),
    KnownWrong(
        "lengthened_to_the_limit",
        fails=("clip_once/limit",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Every gradient is scaled to max_norm, the short ones too. That is normalizing, not clipping: near
        a minimum, where gradients are small, each update is as long as ever. And a gradient of length 0 is divided by
        0.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    for gradient in gradients:
+        gradient.mul_(max_norm / (norm + 1e-12))
@@
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
""",
    ),
    KnownWrong(
        "needs_every_gradient",
        fails=("clip_once/none", "clip_once/once"),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""A parameter without a gradient is not passed over. A frozen parameter, or one that this forward
        pass did not use, has None there, and None has no squares.""",
        change="""
-    gradients = [p.grad for p in parameters if p.grad is not None]
+    gradients = [p.grad for p in parameters]
""",
    ),
    KnownWrong(
        "zeros_for_missing",
        fails=("clip_once/none",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""A parameter without a gradient has a gradient of zeros afterwards. The norm is right, but None
        and zero differ: the optimizer now moves a frozen parameter by its weight decay.""",
        definitions="""
def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    for p in parameters:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in parameters))
    if norm > max_norm:
        for p in parameters:
            p.grad.mul_(max_norm / norm)
    return norm
""",
    ),
    KnownWrong(
        "squares_in_sixteen_bits",
        fails=("clip_once/formats",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The squares of 16-bit gradients are computed or added in their own dtype. In fp16 the square of
        256 is inf, so the norm is inf and the clipped gradient 0; in bf16 the norm has three digits. Convert to fp32 or
        wider before squaring.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
""",
    ),
    KnownWrong(
        "clipped_after_the_update",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The update has followed the long gradient: the clipping comes after it, and what is shortened is
        thrown away by the next zero_grad. The norm that is logged is right, so nothing looks wrong.""",
        change="""
-    norm = clip_gradients(model.parameters(), max_norm)
     optimizer.step()
-    return norm
+    return clip_gradients(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "clipped_every_micro_batch",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is clipped while it still grows, after each backward. The running sum is cut again
        and again, so the first micro-batches lose more than the last, and the direction turns toward the last one. The
        norm that comes back is of a mixture. Clip when the group's gradient is complete.""",
        change="""
         count += 1
+        clip_gradients(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "clipped_then_divided",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The sum of the gradients is clipped first and divided by their number after that. The clipping
        then acts at max_norm / k, and a gradient that was too long ends k times too short. Make the mean first; what is
        clipped must be what the update follows.""",
        change="""
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), max_norm) / count
+    for parameter in model.parameters():
+        if parameter.grad is not None:
+            parameter.grad.div_(count)
""",
    ),
    KnownWrong(
        "clips_the_sum",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradients are never divided by the number of micro-batches. Where the gradient is clipped
        that does not show, since its length is max_norm either way; the norm is k times too large, so clipping begins k
        times too early, and below the limit each update is k times too long.""",
        change="""
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
""",
    ),
    KnownWrong(
        "clips_with_old_gradients",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#none-is-not-zero",
        explanation="""Gradients from before the group are added to the group's, and what is clipped is their sum. Clear
        before the first backward.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "update_in_one_backward",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""Backward runs once for the group. The gradient and its clipping are right, but every
        micro-batch's activations wait for that one backward: the update holds as much as the whole batch.""",
        change="""
-    for x, y in micro_batches:
-        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
-        count += 1
+    total = 0.0
+    for x, y in micro_batches:
+        total = total + F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        count += 1
+    total.backward()
""",
    ),
    KnownWrong(
        "update_reads_everything_first",
        fails=("clip_once/once",),
        read="labs/lab-04-gradient-accumulation.md#clip_once",
        explanation="""All micro-batches are read before the first forward pass, to count them. A group that is larger
        than memory does not fit. Add up the gradients of the undivided losses, count along, and divide the gradients by
        the count before they are clipped.""",
        change="""
-    for x, y in micro_batches:
+    for x, y in list(micro_batches):
""",
    ),
    KnownWrong(
        "sum_clipped_to_a_scaled_limit",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The update follows the sum of the gradients, as many times too long as there are micro-batches,
        clipped to a limit that is too large by the same number. The norm that comes back is right, so no log shows it.
        What the optimizer gets has to be the mean.""",
        change="""
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), count * max_norm) / count
""",
    ),
    KnownWrong(
        "divided_by_one_too_few",
        fails=("clip_once/once",),
        read="labs/lab-04-gradient-accumulation.md#clip_once",
        explanation="""The sum of n gradients is divided by n - 1, so the gradient and its norm are too large by the
        factor n / (n - 1). One common cause: enumerate counts from 0, so its last number is n - 1.""",
        change="""
-            parameter.grad.div_(count)
+            parameter.grad.div_(max(1, count - 1))
""",
    ),
    KnownWrong(
        "divided_by_the_count_so_far",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""Each loss is divided by the number of micro-batches read so far: the first by 1, the second by 2.
        The first ones weigh most, and the sum is no mean. Divide the sum by the count at the end, or shrink what is
        there each time one is added.""",
        change="""
-        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
-        count += 1
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
+        count += 1
+        (F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / count).backward()
""",
    ),
    KnownWrong(
        "updates_norm_after_clipping",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm that comes back from the update is that of the clipped gradient. It is never above
        max_norm, so a spike is invisible in the log. Return the norm from before the clipping.""",
        change="""
-    norm = clip_gradients(model.parameters(), max_norm)
+    clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), math.inf)
""",
    ),
    KnownWrong(
        "limit_times_the_count",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The limit is multiplied by the number of micro-batches although the gradient is their mean
        already. Updates may be that many times too long. max_norm is the limit of what the update follows.""",
        change="""
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), count * max_norm)
""",
    ),
    KnownWrong(
        "micro_batches_counted",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The number is that of micro-batches, not of updates. A cosine of this length is only 1/k of the
        way down when the run ends: it trains at nearly the peak rate to the last.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * micro_batches
""",
    ),
    KnownWrong(
        "one_update_more",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""Each pass counts an update for what is left, also where nothing is. With a multiple of k it is
        one too many in each pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * (micro_batches // k + 1)
""",
    ),
    KnownWrong(
        "rounded_once",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""All passes together are divided by k and rounded up once, as if a group could reach over the end
        of a pass into the next. Each pass ends with its own update for what is left, so round up in each.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return math.ceil(epochs * micro_batches / k)
""",
    ),
    KnownWrong(
        "updates_rounded_down",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The number is rounded down: the update for what is left is not counted. A schedule made with this
        number ends before the run does, by one update per pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * (micro_batches // k)
""",
    ),
    KnownWrong(
        "rounded_to_the_nearest",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The number of groups in a pass is rounded to the nearest. Where less than half a group is left at
        the end of the pass, its update is not counted. Round up.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * round(micro_batches / k)
""",
    ),
    KnownWrong(
        "all_rounded_down",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""All passes together are divided by k and rounded down. Each pass ends with an update of its own
        for what is left: round up, in each pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * micro_batches // k
""",
    ),
    KnownWrong(
        "one_pass_counted",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The number is that of one pass, whatever `epochs` says. A schedule of that length is over after
        the first pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return math.ceil(micro_batches / k)
""",
    ),
    KnownWrong(
        "leftover_counted_once",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The update for what is left is counted once, not once per pass. Every pass ends with such an
        update where k does not divide the number of micro-batches.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * (micro_batches // k) + (micro_batches % k > 0)
""",
    ),
    KnownWrong(
        "a_rate_each_micro_batch",
        fails=("schedule/rates",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""One rate comes back for each micro-batch. The updates are right, but a plot of these rates has k
        times as many points as there were updates.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates += [optimizer.param_groups[0]["lr"]] * len(group)
""",
    ),
    KnownWrong(
        "next_rates_reported",
        fails=("schedule/rates",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The rates are those of the next updates: they were read after scheduler.step(). The training is
        right and the log is off by one, so the first rate is missing and the last one was never used.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
@@
             scheduler.step()
+            rates.append(optimizer.param_groups[0]["lr"])
""",
    ),
    KnownWrong(
        "rate_moves_every_micro_batch",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The schedule moves once for each micro-batch. It runs through k times too fast: warm-up is over
        after 1/k of its updates, and the rate is at its floor when 1/k of the run is done.""",
        change="""
-            scheduler.step()
+            for _ in group:
+                scheduler.step()
""",
    ),
    KnownWrong(
        "groups_reach_over_passes",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#a-batch-in-parts",
        explanation="""What is left at the end of a pass goes into one group with the first micro-batches of the next
        pass. Each pass ends with an update of its own: a group that reaches over the end mixes two passes and makes
        fewer updates than count_updates says.""",
        change="""
-    for epoch in epochs:
+    for epoch in [itertools.chain.from_iterable(epochs)]:
""",
    ),
    KnownWrong(
        "rate_moves_every_pass",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The schedule moves once per pass. Many examples do that, with schedules whose steps are meant to
        be epochs. A schedule whose length is a number of updates then hardly moves.""",
        change="""
-            scheduler.step()
+        scheduler.step()
""",
    ),
    KnownWrong(
        "rate_moves_first",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The schedule moves before each update. Its first rate is never used, and every update has the
        next one's. torch warns of it once, in a line that is easily overlooked.""",
        change="""
         while group := list(itertools.islice(stream, k)):
+            scheduler.step()
@@
-            scheduler.step()
""",
    ),
    KnownWrong(
        "rate_of_the_last_group",
        fails=("schedule/rates",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The rates are those of the last parameter group. Groups may have rates of their own, as a group
        without weight decay often does; those of the first one are asked for.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates.append(optimizer.param_groups[-1]["lr"])
""",
    ),
    KnownWrong(
        "leftover_moves_no_rate",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The rate does not move after the update for what is left at the end of a pass. That is an update
        like any other, and count_updates counts it: a schedule of that length would not reach its end.""",
        change="""
-            scheduler.step()
+            if len(group) == k:
+                scheduler.step()
""",
    ),
    KnownWrong(
        "schedule_restarts_each_pass",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""Each pass begins the schedule again: after the first update of each pass the rate is the same. A
        schedule counts the updates of the whole run; scheduler.step() without an argument goes on where it was.""",
        change="""
-        stream = iter(epoch)
-        while group := list(itertools.islice(stream, k)):
+        stream = iter(epoch)
+        updates = itertools.count(1)
+        while group := list(itertools.islice(stream, k)):
@@
-            scheduler.step()
+            scheduler.step(next(updates))
""",
    ),
    KnownWrong(
        "rate_never_moves",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The rate stays what it was at the start: nothing moves the schedule. It moves by
        scheduler.step(), once after each update.""",
        change="""
-            scheduler.step()
+            pass
""",
    ),
    KnownWrong(
        "first_rate_reported",
        fails=("schedule/rates",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The list holds the rate that the schedule began with, once per update. The updates are right, and
        the log shows a rate that never changes. Read the rate before each update.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates.append(scheduler.base_lrs[0])
""",
    ),
    KnownWrong(
        "rate_moves_after_each_pass_too",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The rate moves once more at the end of each pass, where no update was made. A schedule counts
        updates, so it is over before the run is.""",
        change="""
-            scheduler.step()
+            scheduler.step()
+        scheduler.step()
""",
    ),
    KnownWrong(
        "moves_twice_where_nothing_is_left",
        fails=("schedule/moves",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""The rate moves once too often in a pass whose micro-batches are a multiple of k: also at the end
        of the pass, as if an update for what is left came there. Nothing is left, so there is no such update.""",
        change="""
-            scheduler.step()
+            if len(group) == k:
+                scheduler.step()
+        scheduler.step()
""",
    ),
    KnownWrong(
        "rate_moves_after_the_pass",
        fails=("schedule/moves",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""All updates of a pass use the same rate; the schedule moves only at the end of the pass, though
        as many times as there were updates. The rates that come back look right, and no update used them but the first.
        Move the rate between two updates.""",
        change="""
-        stream = iter(epoch)
-        while group := list(itertools.islice(stream, k)):
-            rates.append(optimizer.param_groups[0]["lr"])
-            train_epoch(model, optimizer, group, k)
-            scheduler.step()
+        for _ in train_epoch(model, optimizer, epoch, k):
+            rates.append(optimizer.param_groups[0]["lr"])
+            scheduler.step()
""",
    ),
    KnownWrong(
        "one_group_moves",
        fails=("schedule/moves",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""Only the first parameter group has the new rate; the others keep the rate they began with. The
        usual second group, without weight decay, then never decays its rate. scheduler.step() moves them all.""",
        change="""
     rates: list[float] = []
+    others = [group["lr"] for group in optimizer.param_groups[1:]]
@@
-        while group := list(itertools.islice(stream, k)):
+        while micro_batches := list(itertools.islice(stream, k)):
             rates.append(optimizer.param_groups[0]["lr"])
-            train_epoch(model, optimizer, group, k)
+            train_epoch(model, optimizer, micro_batches, k)  # noqa: F821
             scheduler.step()
+            for group, rate in zip(optimizer.param_groups[1:], others, strict=True):
+                group["lr"] = rate
""",
    ),
    KnownWrong(
        "passes_read_at_once",
        fails=("schedule/stream",),
        read="handbook/gradient-mechanics.md#everything-else-happens-once-an-update",
        explanation="""Each pass is read to its end before its first update. Rates and weights are right; a pass that is
        larger than memory does not fit, and one that streams from a disk waits for its end first. Take k at a time.""",
        change="""
-        stream = iter(epoch)
-        while group := list(itertools.islice(stream, k)):
+        every = list(epoch)
+        for start in range(0, len(every), k):
             rates.append(optimizer.param_groups[0]["lr"])
-            train_epoch(model, optimizer, group, k)
+            train_epoch(model, optimizer, every[start : start + k], k)  # noqa: F821
""",
    ),
    KnownWrong(
        "mean_norm_squared",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""For the small batch the square of the mean norm is used, not the mean of the squared norms. The
        square of a mean is always the smaller one, so noise is underestimated, and the estimate of |G|^2 is biased.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
+    norm_small = gradients.norm(dim=1).mean().item() ** 2
""",
    ),
    KnownWrong(
        "noise_counted_as_signal",
        fails=("noise_scale/signal",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The squared length of the averaged gradient is taken for |G|^2. It is that plus tr(S)/B_b: noise
        does not cancel out of a square. With little signal nearly all of it is noise, and the noise scale comes out
        near the batch size whatever it is.""",
        change="""
-    signal = (big * norm_big - small * norm_small) / (big - small)
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
-    return signal, noise
+    return norm_big, (norm_small - norm_big) / (1 / small - 1 / big)
""",
    ),
    KnownWrong(
        "norms_not_squared",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Lengths are used where squared lengths belong. It is the squared length that grows by tr(S)/B:
        the two equations hold for squares only.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
-    norm_big = gradients.mean(0).square().sum().item()
+    norm_small = gradients.norm(dim=1).mean().item()
+    norm_big = gradients.mean(0).norm().item()
""",
    ),
    KnownWrong(
        "rows_added_up",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The large batch's gradient is taken as the sum of the rows. It is their mean: each row is itself
        a mean over its micro-batch. The sum is k times as long, its square k^2 times.""",
        change="""
-    norm_big = gradients.mean(0).square().sum().item()
+    norm_big = gradients.sum(0).square().sum().item()
""",
    ),
    KnownWrong(
        "sizes_swapped",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""B_b and B_s are swapped: the mean of the rows is taken for the small batch and a row for the
        large one. The estimates then come out with wrong signs and sizes; |G|^2 is too large and the noise is
        negative.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
-    norm_big = gradients.mean(0).square().sum().item()
+    norm_small = gradients.mean(0).square().sum().item()
+    norm_big = gradients.square().sum(1).mean().item()
""",
    ),
    KnownWrong(
        "estimates_swapped",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="labs/lab-04-gradient-accumulation.md#noise_scale",
        explanation="""The two estimates come back in the wrong order: tr(S) stands where |G|^2 is expected. Both are
        floats, so nothing else shows it.""",
        change="""
-    return signal, noise
+    return noise, signal
""",
    ),
    KnownWrong(
        "mean_over_the_parameters",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Both estimates are too small by the number of parameters P: the squares of a gradient's numbers
        are averaged where they are to be added. A squared length is a sum.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
-    norm_big = gradients.mean(0).square().sum().item()
+    norm_small = gradients.square().mean().item()
+    norm_big = gradients.mean(0).square().mean().item()
""",
    ),
    KnownWrong(
        "first_row_is_the_small_batch",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="labs/lab-04-gradient-accumulation.md#noise_scale",
        explanation="""The squared length of one row stands for the small batch. The estimates are right on average
        only, and much noisier than they need to be. There are k rows: take the mean of their squared lengths.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
+    norm_small = gradients[0].square().sum().item()
""",
    ),
    KnownWrong(
        "negative_signal_cut",
        fails=("noise_scale/signal",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""A negative estimate of |G|^2 comes back as 0. An unbiased estimate of a small square has to fall
        below 0 now and then; cut at 0 it is too large on average, and noise_scale averages these numbers.""",
        change="""
-    return signal, noise
+    return max(signal, 0.0), noise
""",
    ),
    KnownWrong(
        "divided_by_k",
        fails=("noise_scale/noise",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""tr(S) is too small by the factor (k - 1) / k: the variance divides by k where the mean was taken
        from the same k rows. With two rows that halves the noise. Divide by k - 1.""",
        change="""
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
-    return signal, noise
+    return signal, small * gradients.var(0, correction=0).sum().item()
""",
    ),
    KnownWrong(
        "noise_of_a_micro_batch",
        fails=("noise_scale/noise",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""tr(S) is that of a micro-batch's gradient. S is the covariance of one sequence's gradient, larger
        by the micro-batch's size. The noise scale then comes out in micro-batches, not in sequences.""",
        change="""
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
-    return signal, noise
+    return signal, gradients.var(0).sum().item()
""",
    ),
    KnownWrong(
        "mean_of_ratios",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Each step's own ratio is averaged. A step whose estimate of |G|^2 happens to be near 0 has a huge
        ratio, and a step without a signal an infinite one; such steps decide the mean. Average numerator and
        denominator first, then divide.""",
        change="""
-    signal = sum(one for one, _ in estimates) / len(estimates)
-    noise = sum(one for _, one in estimates) / len(estimates)
-    return noise / signal if signal > 0 else math.inf
+    ratios = [noise / signal if signal > 0 else math.inf for signal, noise in estimates]
+    return sum(ratios) / len(ratios)
""",
    ),
    KnownWrong(
        "negative_estimates_cut",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Negative estimates of |G|^2 are raised to 0 before they are averaged. A square cannot be
        negative, but an unbiased estimate of one can, and has to: cut at 0, the estimates are too large on average.
        Test the average, not each.""",
        change="""
-    signal = sum(one for one, _ in estimates) / len(estimates)
-    noise = sum(one for _, one in estimates) / len(estimates)
+    signal = sum(max(one, 0.0) for one, _ in estimates)
+    noise = sum(one for _, one in estimates)
""",
    ),
    KnownWrong(
        "negative_estimates_left_out",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Steps whose estimate of |G|^2 is negative are left out. They are no failures: an unbiased
        estimate of something small must fall below 0 now and then, and those above balance it. Without them the signal
        is overestimated.""",
        change="""
     estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [(signal, noise) for signal, noise in estimates if signal > 0]
+    if not estimates:
+        return math.inf
""",
    ),
    KnownWrong(
        "only_the_last_step",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The ratio of one step is returned. A single step's estimate of |G|^2 is so noisy that it is often
        negative; that is why several are averaged.""",
        change="""
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(steps[-1], micro_batch)]
""",
    ),
    KnownWrong(
        "longer_steps_weigh_more",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Steps with more micro-batches count more in the averages. Each step's estimate is an unbiased
        estimate of the same two numbers, and each counts once.""",
        change="""
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps for _ in gradients]
""",
    ),
    KnownWrong(
        "ratio_upside_down",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The function returns |G|^2 / tr(S), the signal-to-noise ratio of one sequence. The noise scale is
        its inverse: the number of sequences at which noise and signal are equal.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return signal / noise if signal > 0 else math.inf
""",
    ),
    KnownWrong(
        "steps_in_one_batch",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The rows of all steps are put into one large batch. Between two steps the weights have moved, so
        their gradients differ for another reason than noise, and that difference is counted as noise. Estimate in each
        step, then average.""",
        change="""
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(torch.cat(list(steps)), micro_batch)]
""",
    ),
    KnownWrong(
        "mean_of_ratios_of_either_sign",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The result is the mean of the steps' ratios, negative ones among them. A step whose estimate of
        |G|^2 is just above or just below 0 has a ratio of any size and decides the mean. Average both estimates first,
        then divide once.""",
        change="""
-    signal = sum(one for one, _ in estimates) / len(estimates)
-    noise = sum(one for _, one in estimates) / len(estimates)
-    return noise / signal if signal > 0 else math.inf
+    return sum(noise / signal for signal, noise in estimates) / len(estimates)
""",
    ),
    KnownWrong(
        "scale_in_micro_batches",
        fails=("noise_scale/ratio",),
        read="labs/lab-04-gradient-accumulation.md#noise_scale",
        explanation="""The noise scale is too small by the factor micro_batch: it is in micro-batches. tr(S) is the
        noise of one sequence, and so tr(S) / |G|^2 is in sequences already.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return noise / signal / micro_batch if signal > 0 else math.inf
""",
    ),
    KnownWrong(
        "noise_added_up",
        fails=("noise_scale/ratio",),
        read="labs/lab-04-gradient-accumulation.md#noise_scale",
        explanation="""The noise is added up over the steps, and only |G|^2 is averaged, so the noise scale is too large
        by the number of steps. Average both.""",
        change="""
-    noise = sum(one for _, one in estimates) / len(estimates)
+    noise = sum(one for _, one in estimates)
""",
    ),
    KnownWrong(
        "negative_noise_scale",
        fails=("noise_scale/no-signal",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""Where the noise drowns the signal, the estimate of |G|^2 is negative, and so is this "noise
        scale": a batch size below 0. math.inf says that no signal was found.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return noise / signal
""",
    ),
    KnownWrong(
        "size_of_the_signal",
        fails=("noise_scale/no-signal",),
        read="handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise",
        explanation="""The noise scale is finite and positive although no signal was found. A negative estimate of |G|^2
        is no small positive one with the wrong sign; it says that the noise in it is larger than what it estimates.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return noise / abs(signal)
""",
    ),
)

HURRIED = {
    "accumulate": {
        "the last part is forgotten": """
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in list(zip(x.chunk(k), y.chunk(k)))[:-1]:
""",
        "every k-th sequence": """
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in ((x[i::k], y[i::k]) for i in range(k)):
""",
        "one sequence at a time": """
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in zip(x.split(1), y.split(1), strict=True):
""",
        "keeps the losses and their graphs": """
-        loss.backward()
-        total += loss.item()
+        loss.backward(retain_graph=True)
+        total = total + loss
@@
-    return total, sums
+    return total.item(), sums
""",
        "a tensor with its graph for the loss": """
-        total += loss.item()
+        total = total + loss
""",
        "sums in float64": """
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
+                gradient = parameter.grad.double()
""",
        "a tuple of sums": """
-    return total, sums
+    return total, tuple(sums)
""",
        "by name": """
-    return total, sums
+    return total, {name: one for (name, _), one in zip(model.named_parameters(), sums)}
""",
        "the last micro-batch's loss weighs double": """
-    return total, sums
+    return (total + loss.item()) * k / (k + 1), sums
""",
        "on a copy of the model": """
-    model.zero_grad(set_to_none=True)
+    model = __import__('copy').deepcopy(model)
""",
        "in float32": """
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss = F.cross_entropy(model(micro_x).flatten(0, 1).float(), micro_y.flatten()) / k
""",
        "divides by sequences": """
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / len(x)
""",
        "updates by hand": """
         total += loss.item()
+        for p in model.parameters():
+            p.data -= 1e-3 * (0 if p.grad is None else p.grad)
""",
        "the loss of a second look": """
-        total += loss.item()
+        total += F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()).item() / k
""",
    },
    "accumulate_tokens": {
        "counts the inputs": """
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(int((x != 0).sum()) for x, y in micro_batches)
""",
        "stops at the first that is empty": """
     for x, y in micro_batches:
+        if (y == -100).all():
+            break
""",
        "long ones first": """
-    for x, y in micro_batches:
+    for x, y in sorted(micro_batches, key=lambda pair: -pair[0].numel()):
""",
        "padding is written into the inputs": """
     for x, y in micro_batches:
+        x = x.masked_fill(y == -100, 0)
""",
    },
    "train_epoch": {
        "reads everything for its length": """
     losses: list[float] = []
+    micro_batches = list(micro_batches)
""",
        "one left over is dropped": """
     while group := list(itertools.islice(stream, k)):
+        if len(group) == 1 < k:
+            break
""",
        "losses pile up": """
-        total = 0.0
+        total = sum(losses)
""",
        "needs an iterator": """
-    stream = iter(micro_batches)
+    stream = micro_batches
""",
        "needs a length": """
-    stream = iter(micro_batches)
+    stream = iter(micro_batches[: len(micro_batches)])
""",
        "keeps one more group in hand": """
-    stream = iter(micro_batches)
+    source = iter(micro_batches)
+    stream = (one for pair in iter(lambda: list(itertools.islice(source, 2 * k)), []) for one in pair)
""",
        "frozen parameters are not cleared": """
-        optimizer.zero_grad(set_to_none=True)
+        for parameter in model.parameters():
+            if parameter.requires_grad and parameter.shape != (3,):
+                parameter.grad = None
""",
        "returns tensors": """
-        losses.append(total)
+        losses.append(loss.detach() * 0 + total)
""",
        "two updates a group": """
         optimizer.step()
+        optimizer.step()
""",
    },
    "clip_once": {
        "the embedding is not clipped": """
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(list(model.parameters())[1:], max_norm)
""",
        "the limit is always 1": """
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), 1.0)
""",
        "torch clips": """
-    gradients = [p.grad for p in parameters if p.grad is not None]
+    return float(nn.utils.clip_grad_norm_(parameters, max_norm))
+    gradients = []
""",
        "clips twice, returns the second": """
     norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), max_norm)
""",
        "each tensor has the whole limit": """
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = math.hypot(*(clip_gradients([p], max_norm) for p in model.parameters()))
""",
        "one batch of all": """
-    for x, y in micro_batches:
+    for x, y in [tuple(torch.cat(every) for every in zip(*micro_batches))]:
""",
        "counts before it reads": """
-    count = 0
+    count = len(micro_batches) - len(micro_batches)
""",
        "stacks the norms": """
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = torch.stack([gradient.double().norm() for gradient in gradients]).norm().item()
""",
        "short gradients are rounded": """
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    for gradient in gradients:
+        gradient.mul_(min(1.0, max_norm / (norm + 1e-6)) if norm > 0.5 * max_norm else 1.0 - 1e-7)
""",
        "all gradients become fp32": """
-    gradients = [p.grad for p in parameters if p.grad is not None]
+    gradients = []
+    for p in parameters:
+        if p.grad is not None:
+            p.grad.data = p.grad.data.float() if p.dtype in (torch.float16, torch.bfloat16) else p.grad.data
+            gradients.append(p.grad)
""",
        "clips from twice the limit on": """
-    if norm > max_norm:
+    if norm > 2 * max_norm:
""",
    },
    "schedule": {
        "passes are lists": """
-        stream = iter(epoch)
+        stream = iter(list(epoch))
""",
        "reads the passes first": """
-    for epoch in epochs:
+    for epoch in list(epochs):
""",
        "a float": """
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * -(-micro_batches / k // 1)
""",
        "at least one update": """
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * max(1, math.ceil(micro_batches / k))
""",
        "moves twice": """
             scheduler.step()
+            scheduler.step()
""",
    },
    "noise_scale": {
        "no negative signal in the average": """
-    signal = sum(one for one, _ in estimates) / len(estimates)
+    signal = sum(max(one, 0.0) for one, _ in estimates) / len(estimates)
""",
        "tensors": """
-    return signal, noise
+    return torch.tensor(signal), torch.tensor(noise)
""",
        "a tensor of infinity": """
-    return noise / signal if signal > 0 else math.inf
+    return noise / signal if signal > 0 else torch.tensor(math.inf)
""",
        "centers the rows in place": """
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
+    noise = gradients.sub_(gradients.mean(0)).square().sum().item() * small / (len(gradients) - 1)
""",
        "needs a list of steps": """
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(gradients, micro_batch) for gradients in [] + steps]
""",
        "the median step": """
-    signal = sum(one for one, _ in estimates) / len(estimates)
+    signal = sorted(one for one, _ in estimates)[len(estimates) // 2]
""",
    },
}
