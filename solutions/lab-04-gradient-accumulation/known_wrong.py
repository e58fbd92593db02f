"""Known-wrong solutions of Lab 04, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "last_part_only",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The returned gradients are those of the last micro-batch, divided by k. The gradients of the
        earlier micro-batches are cleared or replaced. Add each micro-batch's gradients to the sums.""",
        change="""
-                sums[place] = gradient if so_far is None else so_far + gradient
+                sums[place] = gradient
""",
    ),
    KnownWrong(
        "loss_undivided",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The gradients are the sum of the k micro-batches' mean gradients: k times the batch's gradient.
        SGD then steps k times too far, and clipping starts k times too early. AdamW cancels such a factor, so its loss
        does not show it. Divide by k.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Some gradients are in the sums more than once. p.grad still holds earlier gradients when the next
        backward adds to it, or p.grad and the sum are the same tensor. Set p.grad to None after adding it to the
        sum.""",
        change="""
             if parameter.grad is not None:
@@
-                parameter.grad = None
+    model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "parts_of_k_sequences",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The micro-batches have k sequences each, but k is the number of micro-batches. 12 sequences with
        k = 3 must give three micro-batches of 4; four of 3, divided by 3, make loss and gradient 4/3 of the right
        ones.""",
        change="""
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in zip(x.split(k), y.split(k), strict=True):
""",
    ),
    KnownWrong(
        "gradients_left_behind",
        fails=("accumulate/gradient",),
        read="labs/lab-04-gradient-accumulation.md#accumulate",
        explanation="""p.grad is not None after the call. The next backward adds to it, so those gradients count more
        than once. Set every p.grad to None.""",
        change="""
-                parameter.grad = None
+                parameter.grad = None
+    for parameter in parameters:
+        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
""",
    ),
    KnownWrong(
        "tokens_cut_not_sequences",
        fails=("accumulate/gradient", "accumulate/loss"),
        read="labs/lab-04-gradient-accumulation.md#accumulate",
        explanation="""The batch is split along T, not along B. Tokens in a later part then cannot attend to the tokens
        before them, and their positions start at 0 again. A micro-batch is B/k whole sequences.""",
        change="""
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
+    for micro_x, micro_y in zip(x.chunk(k, 1), y.chunk(k, 1)):
""",
    ),
    KnownWrong(
        "first_part_only",
        fails=("accumulate/gradient",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The returned gradients are those of the first micro-batch, divided by k. Add the gradients of the
        later micro-batches too.""",
        change="""
-                sums[place] = gradient if so_far is None else so_far + gradient
+                sums[place] = gradient if so_far is None else so_far
""",
    ),
    KnownWrong(
        "loss_divided_twice",
        fails=("accumulate/loss",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The loss is divided by the number of micro-batches twice. The gradient is right, but the loss is
        too small by k: an untrained model seems to start far below ln V. Divide once.""",
        change="""
-    return total, sums
+    return total / k, sums
""",
    ),
    KnownWrong(
        "loss_of_the_last_part",
        fails=("accumulate/loss",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The returned loss is that of the last micro-batch. In a log it is noisier than the gradient that
        was used, because it comes from a smaller batch. Return the mean over all micro-batches.""",
        change="""
-    return total, sums
+    return loss.item() * k, sums
""",
    ),
    KnownWrong(
        "sums_in_bf16",
        fails=("accumulate/sums",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The gradients of a bf16 model are added up in bf16. With 8 bits of precision, a sum drops the
        part of each addend that is below a 256th of the sum, so later micro-batches count less. Convert each gradient
        to fp32 before adding it.""",
        change="""
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
+                gradient = parameter.grad
""",
    ),
    KnownWrong(
        "one_gradient_in_16_bits",
        fails=("accumulate/sums",),
        read="labs/lab-04-gradient-accumulation.md#accumulate",
        explanation="""A parameter that gets only one gradient, as with k = 1, has it in its own dtype, such as bf16.
        The list then has sums of mixed dtypes, and the caller may add to them in bf16. Convert the first gradient to
        fp32 too.""",
        change="""
-                sums[place] = gradient if so_far is None else so_far + gradient
+                sums[place] = parameter.grad if so_far is None else so_far + gradient
""",
    ),
    KnownWrong(
        "converted_at_the_end",
        fails=("accumulate/sums",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The returned gradients are fp32, but they were added up in bf16 first. A conversion at the end
        does not restore the lost digits. Keep the sum in fp32 from the first addition on.""",
        change="""
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
+                gradient = parameter.grad
@@
-    return total, sums
+    return total, [None if one is None else one.to(torch.promote_types(one.dtype, torch.float32)) for one in sums]
""",
    ),
    KnownWrong(
        "losses_added_in_bf16",
        fails=("accumulate/sums",),
        read="handbook/precision.md#rounding-in-sums",
        explanation="""The losses are added up in the dtype that they have, which is bf16 for a bf16 model. A loss below
        1/256 of the sum is then rounded away. Add loss.item(), a Python float.""",
        change="""
-        total += loss.item()
+        total = total + loss.detach()
@@
-    return total, sums
+    return float(total), sums
""",
    ),
    KnownWrong(
        "whole_batch_at_once",
        fails=("accumulate/sums", "accumulate/memory", "accumulate/frozen"),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The whole batch goes through the model at once. Gradient and loss are right, but the activations
        of the whole batch are in memory, which accumulation avoids. Run one forward and one backward for each
        micro-batch.""",
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
        "parts_of_k_sequences_weighted",
        fails=("accumulate/sums", "accumulate/memory", "accumulate/frozen"),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The micro-batches have k sequences each, as x.split(k) gives, but k is the number of
        micro-batches. Loss and gradient are right, but with a large k one micro-batch is the whole batch, and so are
        the activations in memory. x.chunk(k) gives k parts.""",
        change="""
-    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
+    for micro_x, micro_y in zip(x.split(k), y.split(k), strict=True):
+        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) * len(micro_x) / len(x)
""",
    ),
    KnownWrong(
        "graph_retained",
        fails=("accumulate/memory",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""The activations of a micro-batch stay in memory after its backward, as with retain_graph=True or
        with a loss that keeps its graph. Each micro-batch has its own graph, and one backward is enough for it. Drop
        the graph, and keep loss.item().""",
        change="""
-        loss.backward()
+        loss.backward(retain_graph=True)
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("accumulate/stale",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Gradients from before the call are added to the sums. Other code may leave some behind, such as a
        gradient monitor or a step that failed. Set every p.grad to None before the first backward.""",
        change="""
-    model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "zeros_for_unused",
        fails=("accumulate/stale",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A parameter that gets no gradient from this batch has zeros instead of None. An optimizer skips a
        parameter whose gradient is None, but with zeros it applies weight decay and momentum. Clear with
        set_to_none=True.""",
        change="""
-    model.zero_grad(set_to_none=True)
+    model.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "divides_what_is_not_there",
        fails=("accumulate/stale", "accumulate/frozen"),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A p.grad of None is used like a tensor. p.grad is None for a frozen parameter and for one that
        the batch did not use; None cannot be added, divided or converted. Skip such parameters.""",
        change="""
-            if parameter.grad is not None:
+            if parameter.grad is not False:
""",
    ),
    KnownWrong(
        "zeros_for_frozen",
        fails=("accumulate/stale", "accumulate/frozen"),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A frozen parameter has a sum of zeros instead of None. An optimizer skips a parameter whose
        gradient is None, but with zeros it applies weight decay and momentum, so a frozen layer would shrink. Return
        None.""",
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
        explanation="""The list has no entry for a parameter without a gradient, so each later tensor is at another
        parameter's place. The list has one entry per parameter, in the order of model.parameters(), and None for such a
        parameter.""",
        change="""
-    return total, sums
+    return total, [one for one in sums if one is not None]
""",
    ),
    KnownWrong(
        "first_micro_batch_decides",
        fails=("accumulate/frozen",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A parameter that the first micro-batch does not use has no sum, although a later one uses it.
        Start a parameter's sum at its first gradient that is not None, in any micro-batch.""",
        change="""
-                sums[place] = gradient if so_far is None else so_far + gradient
+                if so_far is not None or torch.equal(micro_x, x[: len(micro_x)]):
+                    sums[place] = gradient if so_far is None else so_far + gradient
""",
    ),
    KnownWrong(
        "training_mode_forced",
        fails=("accumulate/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is put into training mode although the caller had it, or a part of it, in evaluation
        mode. Fine-tuning with dropout off on purpose then trains with dropout on. Run the model in the mode it has.""",
        change="""
+    model.train()
     model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "evaluation_mode_forced",
        fails=("accumulate/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is put into evaluation mode although the caller had it in training mode. Dropout is
        then off, so the run is less regularized than intended. Run the model in the mode it has.""",
        change="""
     model.zero_grad(set_to_none=True)
+    model.eval()
""",
    ),
    KnownWrong(
        "divides_by_tokens_so_far",
        fails=("accumulate_tokens/gradient",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Each sum is divided by the tokens counted so far, so early micro-batches weigh too much. Count
        the scored tokens of the whole group before the first forward pass: the targets are enough for that.""",
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
        explanation="""Each micro-batch has the same weight, so a token among few others counts more than one among
        many. This mean of means equals the mean over all tokens only where all micro-batches have equally many. Divide
        every sum by the group's scored tokens.""",
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
        explanation="""The sum is divided by all targets, those marked -100 included. They add nothing to the sum, so
        the more padding there is, the smaller loss and gradient are. Divide by the scored tokens.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(y.numel() for _, y in micro_batches)
""",
    ),
    KnownWrong(
        "padding_is_a_target",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""Targets marked -100 count as token 0. The model then learns to predict token 0 at padding and in
        prompts. Leave them out of the sum and of the count.""",
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
        explanation="""Each micro-batch's mean is weighted by its number of targets, padding included. Tokens in a
        micro-batch with much padding then count more. Weight it by the number of scored tokens.""",
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
        explanation="""Each micro-batch's mean is weighted by its number of sequences. That is right only if every
        sequence has equally many scored tokens; otherwise tokens in short or padded sequences count more. Weight it by
        scored tokens.""",
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
        explanation="""Targets that are token 0 are missing from the divisor. Only -100 marks padding; cross_entropy
        scores token 0 like any other token. Count the targets that are not -100.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(int((y > 0).sum()) for _, y in micro_batches)
""",
    ),
    KnownWrong(
        "targets_shifted_once_more",
        fails=("accumulate_tokens/gradient", "accumulate_tokens/loss"),
        read="labs/lab-04-gradient-accumulation.md#accumulate_tokens",
        explanation="""The targets are shifted by one against the logits. `y` already holds the token after each
        position. With a second shift the model learns to predict two tokens ahead, and each sequence loses a
        target.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The gradients are those of the last micro-batch alone: p.grad is cleared or replaced at each
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
        explanation="""The gradient is weighted by tokens, but the returned loss is the mean of the micro-batches'
        means. It is not the loss that is trained on, and it changes when only the padding changes. Return the mean over
        all scored tokens.""",
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
        explanation="""The returned loss is divided by the number of micro-batches as well. The gradient is right, but
        the loss is too small. The sum over all scored tokens divided by their number is already the mean.""",
        change="""
-    return total / scored
+    return total / scored / len(micro_batches)
""",
    ),
    KnownWrong(
        "loss_of_the_last_micro_batch",
        fails=("accumulate_tokens/loss",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""The returned loss contains only the last micro-batch's part. The gradient is right. Add up the
        parts of all micro-batches.""",
        change="""
-        total += summed.item()
+        total = summed.item()
""",
    ),
    KnownWrong(
        "mean_times_count",
        fails=("accumulate_tokens/empty",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""A micro-batch without scored tokens makes loss and gradients nan: its mean is 0 / 0, and nan
        times 0 is nan. Use sums, because a sum over no tokens is 0, or skip such a micro-batch.""",
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
        explanation="""A micro-batch without scored tokens counts as one token, so the divisor is too large by one for
        each of them. A guard against 0 may stand at the total, not at each micro-batch.""",
        change="""
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = sum(max(1, int((y != -100).sum())) for _, y in micro_batches)
""",
    ),
    KnownWrong(
        "one_backward_for_the_group",
        fails=("accumulate_tokens/memory",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""Backward runs once for the whole group. Loss and gradient are right, but the activations of all
        micro-batches are in memory until then. Count the scored tokens first, which needs no forward pass; then run
        backward for each micro-batch.""",
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
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Gradients from before the call are part of the result. Other code may leave some behind. Clear
        them before the first backward.""",
        change="""
-    model.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "zeros_for_idle",
        fails=("accumulate_tokens/stale",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A parameter that gets no gradient from this group has an old p.grad or zeros after the call. An
        optimizer updates every parameter whose p.grad is not None, by weight decay and momentum. Set every p.grad to
        None first, also those of frozen parameters.""",
        change="""
-    model.zero_grad(set_to_none=True)
+    model.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "targets_overwritten",
        fails=("accumulate_tokens/undisturbed",),
        read="handbook/gradient-mechanics.md#unequal-micro-batches",
        explanation="""The call changes the caller's targets: -100 is replaced. In the next epoch the same tensors have
        no padding mark, and the model trains on another token there. Work on a copy; functions such as clamp_ write
        into the tensor.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Each update uses only the last micro-batch of its group, divided by k: the gradients of the
        others are cleared before the update. Clear once per group, before its first backward.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The first update comes after one micro-batch, each later one k - 1 too early, and micro-batches
        after the last update are lost. `i % k == 0` does that, because it is true for i = 0. Update after micro-batch
        k, 2k, ...: `(i + 1) % k == 0`, and once more if micro-batches are left.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Every micro-batch gets its own update, which is training with a small batch. Run backward k
        times, then update once.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Each update uses the sum of k gradients, not their mean, so with SGD it is k times too long. The
        returned losses may look right. Divide by the number of micro-batches.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The gradients are cleared between the last backward and the update, so the update changes
        nothing. Clear them before the first backward of a group.""",
        change="""
+        optimizer.zero_grad()
         optimizer.step()
""",
    ),
    KnownWrong(
        "cleared_once_an_epoch",
        fails=("train_epoch/groups",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The first update is right. Each later update also contains the gradients of all groups before it,
        which belong to older weights. Clear the gradients before each group.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The list has one loss per micro-batch, not per update. A plot then has k times as many points as
        updates, and each point is the noisier loss of a small batch. Return the mean over each group.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The losses are those after the update. They are too low, because the weights were just fitted to
        these tokens, and they cost a second forward pass. Return the losses from the forward passes before the
        update.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Each number is the sum of a group's losses, not their mean. The updates are right, but the curve
        starts at k times ln V, and a smaller last group seems to have a much lower loss. Return the mean.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Each loss is that of the last micro-batch of its group. The updates are right, but each point of
        the curve is the noisier loss of a small batch. Return the mean over the group.""",
        change="""
-        losses.append(total)
+        losses.append(loss.item() * len(group))
""",
    ),
    KnownWrong(
        "an_update_of_nothing",
        fails=("train_epoch/leftover",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""An update without micro-batches is made, and a loss of 0 is reported for it. Optimizers skip
        parameters without a gradient, but a schedule counts the update. Update only if the group has a micro-batch.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The last group is divided by k although it has fewer micro-batches. Its gradient and loss are too
        small. Divide by the number of micro-batches in the group.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
""",
    ),
    KnownWrong(
        "leftover_gradient_divided_by_k",
        fails=("train_epoch/leftover",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The last group's gradient is divided by k although the group has fewer micro-batches, so its
        update is too short. The returned losses are right and do not show it. Divide by the number of micro-batches in
        the group.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The last micro-batches get no update if their number is not a multiple of k. With a fixed order
        the model never trains on that data. Make a last update from the micro-batches that are left.""",
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
        explanation="""Backward runs once per group. The activations of all its micro-batches are in memory until then,
        which accumulation avoids. Run backward for each micro-batch.""",
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
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""All micro-batches are read before the first update, so the whole data set is in memory, and an
        endless stream never gets an update. Read k micro-batches at a time.""",
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
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Gradients from before the first group are part of the first update. Clearing only after updates
        is not enough: other code may leave gradients behind, such as a gradient monitor. Clear before the first
        backward of each group.""",
        change="""
-        optimizer.zero_grad(set_to_none=True)
@@
         optimizer.step()
+        optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "epoch_cleared_to_zero",
        fails=("train_epoch/stale",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Old gradients are set to 0, not to None. An optimizer skips a parameter only if its gradient is
        None: with 0, weight decay and momentum change a parameter that this group does not use. Clear with
        set_to_none=True.""",
        change="""
-        optimizer.zero_grad(set_to_none=True)
+        optimizer.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "epoch_in_training_mode",
        fails=("train_epoch/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is put into training mode although the caller had it, or a part of it, in evaluation
        mode. Fine-tuning with dropout off on purpose then trains with dropout on. Run the model in the mode it has.""",
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
        explanation="""The returned norm is that of the clipped gradient. It is never above max_norm, so a log shows a
        flat line and hides every spike. Return the norm before clipping.""",
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
        explanation="""The norm is the largest absolute value, the infinity norm. It is smaller than the root of the sum
        of all squares, so clipping starts too late and leaves gradients too long.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = max((gradient.double().abs().max().item() for gradient in gradients), default=0.0)
""",
    ),
    KnownWrong(
        "norms_added_up",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the sum of the tensors' norms. The squares of the norms add up, not the norms. The
        sum is too large, so clipping starts too early and makes the gradient shorter than max_norm.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = sum(gradient.double().norm().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "root_forgotten",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the sum of squares without the root. A gradient of norm 10 then seems to have norm
        100 and is clipped to a tenth of the limit. Take the root.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = sum(gradient.double().square().sum().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "sizes_added_up",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the sum of all absolute values, the L1 norm. It is larger than the root of the sum of
        all squares, so clipping starts too early and makes gradients too short.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = sum(gradient.double().abs().sum().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "root_mean_square",
        fails=("clip_once/norm", "clip_once/direction"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the root of the mean square, not of the sum of squares. It is too small by the root
        of the number of parameters, so clipping starts too late and leaves gradients too long.""",
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
        explanation="""The norm is that of one tensor, the longest. The norm of all gradients together is larger, so
        clipping starts too late and leaves the gradient too long. Add the squares of all tensors.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = max((gradient.double().norm().item() for gradient in gradients), default=0.0)
""",
    ),
    KnownWrong(
        "clipped_by_value",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each number is clipped to the range from -max_norm to max_norm. That changes only the large
        numbers, so the gradient points in another direction, and its norm may still be above max_norm. Multiply all
        numbers by one factor.""",
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
        explanation="""Each tensor is clipped by its own norm. Long tensors are shortened and short ones are not, so the
        update points in another direction than the gradient. Multiply all tensors by one factor.""",
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
        explanation="""Nothing is clipped if `parameters` is a generator, as model.parameters() is. A generator yields
        its items only once: after a first loop, a second loop gets no parameters and raises no error. Keep the
        gradients in a list.""",
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
        explanation="""p.grad is a new tensor after clipping. For a moment each gradient is in memory twice, and code
        that refers to the old tensor, such as DDP's buckets, keeps the unclipped numbers. Multiply in place.""",
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
        explanation="""A gradient above the limit becomes longer, as when the factor is norm / max_norm. The factor is
        max_norm / norm, which is below 1.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.mul_(norm / max_norm)
""",
    ),
    KnownWrong(
        "nothing_is_written",
        fails=("clip_once/direction",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Gradients above the limit are not changed, although the returned norm is right. A product such as
        g * factor is a new tensor, and the optimizer reads p.grad. Multiply in place.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient = gradient * (max_norm / norm)
""",
    ),
    KnownWrong(
        "divides_by_a_norm_of_zero",
        fails=("clip_once/limit", "clip_once/none"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""max_norm / norm is computed even if the norm is 0. Python then raises ZeroDivisionError, and a
        tensor division returns inf. Divide only if the norm is above max_norm.""",
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
        "epsilon_in_the_norm",
        fails=("clip_once/limit",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is multiplied by max_norm / (norm + 1e-6), as in torch.nn.utils.clip_grad_norm_. The
        clipped gradient is then shorter than max_norm, by much if the norm is itself near 1e-6. This exercise asks for
        max_norm / norm.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.mul_(max_norm / (norm + 1e-6))
""",
    ),
    KnownWrong(
        "lengthened_to_the_limit",
        fails=("clip_once/limit",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Every gradient is scaled to the norm max_norm, also a shorter one. Near a minimum, where
        gradients are small, updates then stay long. Multiply only a gradient whose norm is above max_norm.""",
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
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A p.grad of None is used like a tensor. p.grad is None for a frozen parameter and for one that
        the forward pass did not use. Skip such parameters.""",
        change="""
-    gradients = [p.grad for p in parameters if p.grad is not None]
+    gradients = [p.grad for p in parameters]
""",
    ),
    KnownWrong(
        "stack_of_nothing",
        fails=("clip_once/none",),
        read="labs/lab-04-gradient-accumulation.md#clip_once",
        explanation="""Where no parameter has a gradient, the call raises an error: torch.stack, torch.cat and max need
        at least one tensor. The norm of no numbers is 0.0. Python's sum of an empty list is 0.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = torch.stack([gradient.double().norm() for gradient in gradients]).norm().item()
""",
    ),
    KnownWrong(
        "zeros_for_missing",
        fails=("clip_once/none", "clip_once/once"),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""A parameter without a gradient has a gradient of zeros after the call. The norm is right, but an
        optimizer skips a parameter only if its gradient is None: with zeros, weight decay changes a frozen parameter.
        Leave p.grad None.""",
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
        explanation="""The squares of 16-bit gradients are computed or added in 16 bits. In fp16 the square of 256 is
        inf, so the norm is inf and the clipped gradient 0; in bf16 the norm has about three digits. Convert to fp32 or
        fp64 before squaring.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
""",
    ),
    KnownWrong(
        "norm_rounded_to_sixteen_bits",
        fails=("clip_once/formats",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm of each 16-bit gradient is rounded to 16 bits. gradient.norm() and
        torch.linalg.vector_norm return the gradient's dtype: about three digits in bf16. Convert the gradient to fp32
        or fp64 before you take its norm.""",
        change="""
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = math.sqrt(sum(gradient.norm().item() ** 2 for gradient in gradients))
""",
    ),
    KnownWrong(
        "clipped_after_the_update",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Clipping comes after the update, so the update uses the unclipped gradient. The returned norm is
        right and does not show it. Clip before optimizer.step().""",
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
        explanation="""The gradient is clipped after each backward, before it is complete. The first micro-batches are
        cut more often than the last, so the gradient's direction changes, and the returned norm is not that of the mean
        gradient. Clip once, after the last backward.""",
        change="""
         count += 1
+        clip_gradients(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "clipped_then_divided",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The sum of the gradients is clipped and then divided by their number k. The limit is then
        effectively max_norm / k, so clipping starts too early and updates are too short. Divide first, then clip the
        mean.""",
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
        explanation="""The gradients are not divided by the number of micro-batches, k. The norm is k times too large,
        so clipping starts k times too early, and below the limit each update is k times too long. Divide before
        clipping.""",
        change="""
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
""",
    ),
    KnownWrong(
        "first_group_alone",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Only the gradients of the optimizer's first parameter group are divided and clipped. The update
        uses all of them. Take the parameters of the model.""",
        change="""
-    for parameter in model.parameters():
+    for parameter in optimizer.param_groups[0]["params"]:
@@
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(optimizer.param_groups[0]["params"], max_norm)
""",
    ),
    KnownWrong(
        "each_parameter_group_by_itself",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each parameter group of the optimizer is clipped by itself, to max_norm. The gradients of all
        groups together can then be longer than max_norm, and their direction changes. All parameters have one norm and
        one factor.""",
        change="""
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = math.hypot(*(clip_gradients(group["params"], max_norm) for group in optimizer.param_groups))
""",
    ),
    KnownWrong(
        "clips_with_old_gradients",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Gradients from before the call are part of the clipped gradient and of the update. Clear them
        before the first backward.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "update_cleared_to_zero",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Old gradients are set to 0, not to None. An optimizer skips a parameter only if its gradient is
        None: with 0, weight decay and momentum change a parameter that no micro-batch uses. Clear with
        set_to_none=True.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
+    optimizer.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "update_in_one_backward",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""Backward runs once for the group. Gradient and clipping are right, but the activations of all
        micro-batches are in memory until then. Run backward for each micro-batch.""",
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
        explanation="""All micro-batches are read before the first forward pass, as when they are counted first. A group
        that is larger than memory does not fit. Run backward on each loss undivided, count the micro-batches, and
        divide the gradients by the count before clipping.""",
        change="""
-    for x, y in micro_batches:
+    for x, y in list(micro_batches):
""",
    ),
    KnownWrong(
        "sum_clipped_to_a_scaled_limit",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The update uses the sum of the gradients, with a limit multiplied by the number of micro-batches.
        The update is too long by that number. The returned norm is right and does not show it. Divide the gradients
        first.""",
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
        explanation="""The sum of n gradients is divided by n - 1, so gradient and norm are too large by n / (n - 1). A
        common cause: enumerate counts from 0, so its last number is n - 1.""",
        change="""
-            parameter.grad.div_(count)
+            parameter.grad.div_(max(1, count - 1))
""",
    ),
    KnownWrong(
        "divided_by_the_count_so_far",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Each loss is divided by the number of micro-batches read so far, so the first ones weigh most,
        and the sum is not the mean. Divide the sum of the gradients by the final count.""",
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
        "mean_of_those_that_use_it",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Where some micro-batches do not use a parameter, its gradient is the mean over the others. In the
        mean over the group, a micro-batch that does not use it counts like a gradient of 0. Divide the sum by the
        number of all micro-batches.""",
        change="""
-        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
         count += 1
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
+        old = [p.grad for p in model.parameters()]
+        model.zero_grad()
+        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
+        for p, mean in zip(model.parameters(), old):
+            new = p.grad
+            p.grad = new if mean is None else mean if new is None else mean + (new - mean) / count
""",
    ),
    KnownWrong(
        "updates_norm_after_clipping",
        fails=("clip_once/once",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""clipped_update returns the norm of the clipped gradient. It is never above max_norm, so a log
        hides every spike. Return the norm before clipping.""",
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
        explanation="""The limit is multiplied by the number of micro-batches although the gradient is already their
        mean. Updates may then be too long by that number. Clip the mean gradient to max_norm.""",
        change="""
-    norm = clip_gradients(model.parameters(), max_norm)
+    norm = clip_gradients(model.parameters(), count * max_norm)
""",
    ),
    KnownWrong(
        "micro_batches_counted",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The result is the number of micro-batches, not of updates. A cosine schedule of that length has
        made only 1/k of its way when the run ends, so the rate stays near its peak. Divide by k in each pass, rounded
        up.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * micro_batches
""",
    ),
    KnownWrong(
        "one_update_more",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""Each pass counts one update for leftover micro-batches, even if none are left. If k divides the
        number of micro-batches, that is one too many per pass. Round up instead.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * (micro_batches // k + 1)
""",
    ),
    KnownWrong(
        "rounded_once",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""All passes together are divided by k and rounded up once, as if a group could continue in the
        next pass. Each pass ends with its own update for leftover micro-batches: round up in each pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return math.ceil(epochs * micro_batches / k)
""",
    ),
    KnownWrong(
        "updates_rounded_down",
        fails=("schedule/count",),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The number is rounded down, so the updates for leftover micro-batches are not counted. A schedule
        of that length ends too early, by one update per pass. Round up in each pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * (micro_batches // k)
""",
    ),
    KnownWrong(
        "rounded_to_the_nearest",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The number of groups in a pass is rounded to the nearest integer. If less than half a group is
        left, its update is not counted. Round up.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * round(micro_batches / k)
""",
    ),
    KnownWrong(
        "all_rounded_down",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""All passes together are divided by k and rounded down. Each pass ends with its own update for
        leftover micro-batches: round up in each pass.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * micro_batches // k
""",
    ),
    KnownWrong(
        "one_pass_counted",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The result is the number of updates in one pass, for every `epochs`. A schedule of that length
        ends after the first pass. Multiply by epochs.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return math.ceil(micro_batches / k)
""",
    ),
    KnownWrong(
        "leftover_counted_once",
        fails=("schedule/count",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The update for leftover micro-batches is counted once, not once per pass. If k does not divide
        the number of micro-batches, every pass ends with such an update.""",
        change="""
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * (micro_batches // k) + (micro_batches % k > 0)
""",
    ),
    KnownWrong(
        "a_rate_each_micro_batch",
        fails=("schedule/rates",),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The list has one rate per micro-batch. The updates are right, but a plot of these rates has k
        times as many points as updates. Append one rate per update.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates += [optimizer.param_groups[0]["lr"]] * len(group)
""",
    ),
    KnownWrong(
        "next_rates_reported",
        fails=("schedule/rates",),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The rates are those of the next updates, as when they are read after scheduler.step(). The
        training is right, but the log lacks the first rate and ends with one that no update used. Read the rate before
        the update.""",
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
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule advances once per micro-batch, k times too fast: warm-up ends after 1/k of its
        updates, and the rate reaches its end after 1/k of the run. Call scheduler.step() once per update.""",
        change="""
-            scheduler.step()
+            for _ in group:
+                scheduler.step()
""",
    ),
    KnownWrong(
        "groups_reach_over_passes",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Leftover micro-batches of a pass are grouped with the first ones of the next pass. That mixes two
        passes and makes fewer updates than count_updates returns. End each pass with an update of its own.""",
        change="""
-    for epoch in epochs:
+    for epoch in [itertools.chain.from_iterable(epochs)]:
""",
    ),
    KnownWrong(
        "empty_pass_ends_the_training",
        fails=("schedule/rates",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""A pass without micro-batches ends the training, so the passes after it make no update. Such a
        pass comes, for example, from a data filter that removes everything. It makes no update: go on with the next
        pass.""",
        change="""
         stream = iter(epoch)
+        if (first := next(stream, None)) is None:
+            break
+        stream = itertools.chain([first], stream)
""",
    ),
    KnownWrong(
        "rate_moves_every_pass",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule advances once per pass, as for schedules that count epochs. A schedule that counts
        updates then hardly changes the rate. Call scheduler.step() after each update.""",
        change="""
-            scheduler.step()
+        scheduler.step()
""",
    ),
    KnownWrong(
        "rate_moves_first",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule advances before each update. Its first rate is never used, and every update has the
        rate of the next one; torch warns about it once. Call scheduler.step() after optimizer.step().""",
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
        explanation="""The rates are those of the last parameter group. Groups may have different rates. The contract
        asks for the first group's.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates.append(optimizer.param_groups[-1]["lr"])
""",
    ),
    KnownWrong(
        "leftover_moves_no_rate",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule does not advance after the update for leftover micro-batches. count_updates counts
        that update, so a schedule of that length does not reach its end. Call scheduler.step() after every update.""",
        change="""
-            scheduler.step()
+            if len(group) == k:
+                scheduler.step()
""",
    ),
    KnownWrong(
        "schedule_restarts_each_pass",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule starts again in each pass: after the first update of each pass the rate is the same.
        A schedule counts the updates of the whole run. Call scheduler.step() without an argument, which continues the
        count.""",
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
        "counts_its_own_updates",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""scheduler.step(n) sets the rate of update n of this call, so a run that resumes goes back to the
        schedule's first rates. torch keeps this argument for old code only. Call scheduler.step() without an argument:
        the scheduler counts.""",
        change="""
-            scheduler.step()
+            scheduler.step(len(rates))
""",
    ),
    KnownWrong(
        "rate_never_moves",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The rate stays at its first value. Call scheduler.step() once after each update.""",
        change="""
-            scheduler.step()
+            pass
""",
    ),
    KnownWrong(
        "first_rate_reported",
        fails=("schedule/rates",),
        read="labs/lab-04-gradient-accumulation.md#schedule",
        explanation="""The list holds the schedule's first rate for every update. The updates are right, but the log
        shows a constant rate. Read the rate before each update.""",
        change="""
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates.append(scheduler.base_lrs[0])
""",
    ),
    KnownWrong(
        "rate_moves_after_each_pass_too",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule advances once more at the end of each pass, without an update. It counts updates, so
        it ends before the run does. Call scheduler.step() only after updates.""",
        change="""
-            scheduler.step()
+            scheduler.step()
+        scheduler.step()
""",
    ),
    KnownWrong(
        "moves_twice_where_nothing_is_left",
        fails=("schedule/rates", "schedule/moves"),
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""The schedule advances once too often in a pass whose number of micro-batches is a multiple of k,
        as if leftover micro-batches had one more update. Call scheduler.step() only after updates.""",
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
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""All updates of a pass use the same rate, because the schedule advances only after the pass, once
        for each update. The returned rates look right, but only the first was used. Advance between two updates.""",
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
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""Only the first parameter group's rate changes. Another group, such as one without weight decay,
        then keeps its first rate for the whole run. scheduler.step() changes the rates of all groups.""",
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
        read="handbook/gradient-mechanics.md#calls-that-run-once-per-update",
        explanation="""Each pass is read to its end before its first update. Rates and weights are right, but a pass
        that is larger than memory does not fit. Read k micro-batches at a time.""",
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
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""For the small batch the squared mean of the norms is used, not the mean of the squared norms. The
        squared mean is smaller, so the noise is underestimated and the estimate of |G|^2 is biased.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
+    norm_small = gradients.norm(dim=1).mean().item() ** 2
""",
    ),
    KnownWrong(
        "noise_counted_as_signal",
        fails=("noise_scale/signal",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The squared norm of the averaged gradient is used as |G|^2. It also contains tr(S)/B_b, because
        noise does not cancel in a square. With little signal the noise scale is then near the batch size, for any true
        value. Solve the two equations.""",
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
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""Norms are used where the equations need squared norms. Only the expected squared norm is |G|^2 +
        tr(S)/B.""",
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
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The large batch's gradient is computed as the sum of the rows. Each row is the mean over its
        micro-batch, so the large batch's gradient is the mean of the rows. The squared norm of the sum is k^2 times too
        large.""",
        change="""
-    norm_big = gradients.mean(0).square().sum().item()
+    norm_big = gradients.sum(0).square().sum().item()
""",
    ),
    KnownWrong(
        "sizes_swapped",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""B_b and B_s are swapped: the mean of the rows is used for the small batch, and single rows for
        the large one. The estimate of |G|^2 is then too large, and that of the noise is negative.""",
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
        explanation="""The two estimates are returned in the wrong order. The order is (|G|^2, tr(S)).""",
        change="""
-    return signal, noise
+    return noise, signal
""",
    ),
    KnownWrong(
        "mean_over_the_parameters",
        fails=("noise_scale/signal", "noise_scale/noise"),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""Both estimates are too small by the number of parameters P: the squares of a gradient's numbers
        are averaged. A squared norm is their sum.""",
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
        explanation="""The squared norm of one row is used for the small batch. The estimates are then right on average,
        but much noisier than necessary. Take the mean of the squared norms of all k rows.""",
        change="""
-    norm_small = gradients.square().sum(1).mean().item()
+    norm_small = gradients[0].square().sum().item()
""",
    ),
    KnownWrong(
        "negative_signal_cut",
        fails=("noise_scale/signal",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""A negative estimate of |G|^2 is returned as 0. An unbiased estimate of a small square is
        sometimes negative. With those replaced by 0 the estimates are too large on average, and noise_scale averages
        them. Return the estimate unchanged.""",
        change="""
-    return signal, noise
+    return max(signal, 0.0), noise
""",
    ),
    KnownWrong(
        "divided_by_k",
        fails=("noise_scale/noise",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""tr(S) is too small by the factor (k - 1) / k, as when a variance is divided by k although its
        mean comes from the same k rows. With two rows the noise is halved. Divide by k - 1.""",
        change="""
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
-    return signal, noise
+    return signal, small * gradients.var(0, correction=0).sum().item()
""",
    ),
    KnownWrong(
        "noise_of_a_micro_batch",
        fails=("noise_scale/noise",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""tr(S) is computed for a micro-batch's gradient. S is the covariance of one sequence's gradient,
        which is larger by the factor micro_batch. Multiply by it; otherwise the noise scale counts micro-batches, not
        sequences.""",
        change="""
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
-    return signal, noise
+    return signal, gradients.var(0).sum().item()
""",
    ),
    KnownWrong(
        "mean_of_ratios",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The ratios of the steps are averaged. A step whose estimate of |G|^2 is near 0 has a huge ratio,
        and one without signal an infinite one, so a few steps dominate the mean. Average both estimates over the steps,
        then divide once.""",
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
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""Negative estimates of |G|^2 are replaced by 0 before averaging. An unbiased estimate of a small
        square is sometimes negative; without those values the average is too large. Compare the average with 0, not
        each estimate.""",
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
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""Steps with a negative estimate of |G|^2 are left out. An unbiased estimate of a small square is
        sometimes negative, and such values balance those that are too large. Without them the signal is overestimated.
        Average all steps.""",
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
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The result is the ratio of one step. A single step's estimate of |G|^2 is so noisy that it is
        often negative. Average both estimates over all steps.""",
        change="""
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(steps[-1], micro_batch)]
""",
    ),
    KnownWrong(
        "longer_steps_weigh_more",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""Steps with more micro-batches have more weight in the averages. The contract asks for equal
        weights: each step gives one unbiased estimate of the same two numbers.""",
        change="""
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps for _ in gradients]
""",
    ),
    KnownWrong(
        "ratio_upside_down",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""Numerator and denominator are swapped: the result is |G|^2 / tr(S). The noise scale is tr(S) /
        |G|^2, the number of sequences at which noise and signal are equal.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return signal / noise if signal > 0 else math.inf
""",
    ),
    KnownWrong(
        "steps_in_one_batch",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The rows of all steps are used as one large batch. The weights change between steps, so the
        gradients differ for another reason than noise, and that difference is counted as noise. Estimate in each step,
        then average.""",
        change="""
-    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
+    estimates = [noise_estimates(torch.cat(list(steps)), micro_batch)]
""",
    ),
    KnownWrong(
        "mean_of_ratios_of_either_sign",
        fails=("noise_scale/ratio",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The ratios of the steps are averaged, negative ratios included. A step whose estimate of |G|^2 is
        near 0 has a huge ratio of either sign and dominates the mean. Average both estimates over the steps, then
        divide once.""",
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
        explanation="""The noise scale is too small by the factor micro_batch, as when it counts micro-batches. tr(S) is
        the noise of one sequence, so tr(S) / |G|^2 already counts sequences.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return noise / signal / micro_batch if signal > 0 else math.inf
""",
    ),
    KnownWrong(
        "noise_added_up",
        fails=("noise_scale/ratio",),
        read="labs/lab-04-gradient-accumulation.md#noise_scale",
        explanation="""tr(S) is added up over the steps and only |G|^2 is averaged, so the noise scale is too large by
        the number of steps. Average both.""",
        change="""
-    noise = sum(one for _, one in estimates) / len(estimates)
+    noise = sum(one for _, one in estimates)
""",
    ),
    KnownWrong(
        "negative_noise_scale",
        fails=("noise_scale/no-signal",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The noise scale is negative if the averaged estimate of |G|^2 is negative. A batch size cannot be
        negative. Return math.inf: no signal was found.""",
        change="""
-    return noise / signal if signal > 0 else math.inf
+    return noise / signal
""",
    ),
    KnownWrong(
        "size_of_the_signal",
        fails=("noise_scale/no-signal",),
        read="handbook/gradient-mechanics.md#the-gradient-noise-scale",
        explanation="""The noise scale is finite and positive although no signal was found. A negative estimate of |G|^2
        means that its noise is larger than the signal; its absolute value estimates nothing. Return math.inf.""",
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
        "sums like the first parameter": """
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
+                gradient = parameter.grad.to(torch.promote_types(parameters[0].dtype, torch.float32))
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
        "divides by the tokens seen": """
-    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
+    scored = 0
@@
+        before, scored = scored, scored + int((y != -100).sum())
+        for p in model.parameters():
+            if p.grad is not None:
+                p.grad.mul_(before / scored)
         summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
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
        "divides the gradients of the first group alone": """
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
+            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
             loss.backward()
-            total += loss.item()
-        optimizer.step()
+            total += loss.item() / len(group)
+        for parameter in optimizer.param_groups[0]["params"]:
+            if parameter.grad is not None:
+                parameter.grad.div_(len(group))
+        optimizer.step()
""",
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
        "two updates per group": """
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
        "almost rounded up": """
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * int(micro_batches / k + 0.99)
""",
        "each pass has a first micro-batch": """
         stream = iter(epoch)
+        stream = itertools.chain([next(stream)], stream)
""",
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
        "no signal is below 0": """
-    return noise / signal if signal > 0 else math.inf
+    return noise / signal if signal >= 0 else math.inf
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
