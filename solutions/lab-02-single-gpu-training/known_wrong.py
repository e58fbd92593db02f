"""Known-wrong solutions of Lab 02, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "batches_skipped",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""A batch is skipped that should train: one with a large loss, or one with some padding in it. The
        first steps of a run have the largest losses of all, so such a run may never begin, and hard or short examples
        are never learned.""",
        change="""
     loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    if loss.item() > 5:
+        return 0.0, 0.0
""",
    ),
    KnownWrong(
        "loss_after_the_update",
        fails=(
            "train_step/loss",
            "train_step/steps",
        ),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The loss that comes back is that of the new weights, after the update. It is too good: these
        weights were just fitted to this batch.""",
        change="""
-    return loss.item(), norm
+    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item(), norm
""",
    ),
    KnownWrong(
        "returns_the_graph",
        fails=("train_step/loss",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""The loss comes back as a tensor. A loss with its graph keeps that graph in memory for as long as
        the loss is kept, and a list of losses keeps one graph per step. loss.item() is the number alone.""",
        change="""
-    return loss.item(), norm
+    return loss, norm
""",
    ),
    KnownWrong(
        "norm_as_a_tensor",
        fails=("train_step/loss",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The norm comes back as a tensor, where the contract asks for a Python float. A tensor stays on
        its device, and json, among others, cannot write it into a log. norm.item() is the number.""",
        change="""
-    return loss.item(), norm
+    return loss.item(), torch.tensor(norm, dtype=torch.float64)
""",
    ),
    KnownWrong(
        "sum_over_tokens",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The loss is the sum over the tokens, not their mean. The gradient is then as many times as long
        as there are real tokens, and grows with the batch: larger batches take longer steps.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
""",
    ),
    KnownWrong(
        "padding_counted_as_perfect",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The sum of the losses is divided by all tokens, padding included. A padded target has a loss of
        0, so padding counts as a perfect prediction: the more padding, the lower the loss and the shorter the gradient.
        Divide by the number of real tokens.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="none").mean()
""",
    ),
    KnownWrong(
        "padding_as_token_0",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Targets of -100 are replaced by token 0, and the loss counts them like any other token. The
        model then learns to predict token 0 where there is nothing to predict.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten().clamp(min=0))
""",
    ),
    KnownWrong(
        "targets_are_inputs",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The loss compares the logits with x, not with y: the model learns to repeat the token it sees.
        Copying is easy, so the loss looks better than it should, and the model predicts nothing.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), torch.where(y < 0, y, x).flatten())
""",
    ),
    KnownWrong(
        "mean_of_sequence_means",
        fails=(
            "train_step/loss",
            "train_step/norm",
            "train_step/update",
        ),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The mean over each sequence is averaged over the sequences. A sequence with more padding then
        counts as much as a full one, and each of its tokens more than any other. Divide the sum over all real tokens
        by their number.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    each = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")
+    loss = (each.sum(dim=1) / (y != -100).sum(dim=1).clamp(min=1)).mean()
""",
    ),
    KnownWrong(
        "softmax_before_the_loss",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The loss is computed from probabilities. F.cross_entropy takes logits and applies the softmax
        itself; a second softmax makes all predictions nearly equal, so the loss stays above ln V - 1 however good the
        model is.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).softmax(-1).flatten(0, 1), y.flatten(), ignore_index=-100)
""",
    ),
    KnownWrong(
        "shifted_twice",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The logits at each position are compared with the target of the next position. `y` is shifted
        already: it holds the token after each `x`. The model then learns to predict the token after the next.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x)[:, :-1].flatten(0, 1), y[:, 1:].flatten(), ignore_index=-100)
""",
    ),
    KnownWrong(
        "logits_reshaped",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The logits [B, T, V] are reshaped to [B, V, T]. reshape and view keep the numbers in their order
        in memory, so each target is compared with scores of several positions. transpose(1, 2) exchanges the two
        dimensions.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    logits = model(x)
+    loss = F.cross_entropy(logits.reshape(len(x), logits.shape[-1], -1), y, ignore_index=-100)
""",
    ),
    KnownWrong(
        "none_for_a_gradient",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""A parameter without a gradient has None in p.grad: a frozen one, or one of a layer that this
        batch did not use. It adds nothing to the norm and is not clipped: leave it out.""",
        change="""
-    gradients = [p.grad for p in model.parameters() if p.grad is not None]
+    gradients = [p.grad for p in model.parameters()]
""",
    ),
    KnownWrong(
        "norm_after_clipping",
        fails=("train_step/norm",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm that comes back is that of the clipped gradient. It never exceeds max_norm, so a log of
        it shows the limit and hides every spike.""",
        change="""
-    return loss.item(), norm
+    return loss.item(), min(norm, max_norm)
""",
    ),
    KnownWrong(
        "sum_of_norms",
        fails=(
            "train_step/norm",
            "train_step/clip",
        ),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norms of the parameters' gradients are added up. The global norm is that of one vector with
        all numbers in it: the root of one sum of squares. A sum of norms is larger, so the limit acts too early.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = sum(math.sqrt(gradient.square().sum().item()) for gradient in gradients)
""",
    ),
    KnownWrong(
        "norm_of_the_weights",
        fails=(
            "train_step/norm",
            "train_step/clip",
        ),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is that of the parameters, not of their gradients. It says how large the weights are,
        and a limit on it clips by the size of the model.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = math.sqrt(sum(p.detach().square().sum().item() for p in model.parameters()))
""",
    ),
    KnownWrong(
        "sum_of_absolutes",
        fails=(
            "train_step/norm",
            "train_step/clip",
        ),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is the sum of the absolute values, not the root of the sum of the squares. It is far
        larger, so the limit acts too early.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = sum(gradient.abs().sum().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "largest_of_the_norms",
        fails=("train_step/norm", "train_step/clip"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is that of one parameter's gradient, the longest. The global norm is that of one vector
        with the numbers of all parameters in it, and is longer, so the limit acts too late.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = max(gradient.norm().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "first_group_alone",
        fails=("train_step/norm", "train_step/clip"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The optimizer has several groups of parameters, and the gradients of the first group alone are
        measured. The global norm is over all parameters of the model.""",
        change="""
-    gradients = [p.grad for p in model.parameters() if p.grad is not None]
+    gradients = [p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None]
""",
    ),
    KnownWrong(
        "nothing_moves",
        fails=("train_step/update",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""Nothing moved. Either step() is missing, or it finds no gradients: backward() is missing or
        comes after it, or the gradients are cleared between backward() and step(). No error says so; the loss of such a
        run is constant.""",
        change="""
-    optimizer.step()
""",
    ),
    KnownWrong(
        "multiplied_by_infinity",
        fails=("train_step/update",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""With max_norm=math.inf the weights are infinite or nan after the step, as when every gradient is
        multiplied by max_norm / norm. Only a gradient with a norm above max_norm is multiplied.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    for gradient in gradients:
+        gradient.mul_(max_norm / norm)
""",
    ),
    KnownWrong(
        "targets_overwritten",
        fails=("train_step/update",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The batch is changed in place. It belongs to the caller: the next epoch, or an evaluation of the
        same tensors, sees other tokens and other padding. Make a new tensor instead.""",
        change="""
-    return loss.item(), norm
+    y[y == -100] = 0
+    return loss.item(), norm
""",
    ),
    KnownWrong(
        "always_scaled",
        fails=("train_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""A gradient that is shorter than max_norm is made longer. If every gradient is brought to the
        length max_norm, each batch moves the weights equally far, and steps stay long where the loss is flat.
        Only a norm above max_norm is reduced.""",
        change="""
-    if norm > max_norm:
+    if norm > 0 and math.isfinite(max_norm):
""",
    ),
    KnownWrong(
        "clipped_to_one",
        fails=("train_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""A clipped gradient has the norm 1, whatever max_norm is, as when it is divided by its norm and
        not multiplied by max_norm.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.div_(norm)
""",
    ),
    KnownWrong(
        "each_tensor_clipped",
        fails=("train_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each parameter's gradient is clipped by its own norm. The parameters are then scaled by
        different numbers, so the update has another direction than the gradient. One number scales them all.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    for gradient in gradients:
+        gradient.mul_(min(1.0, max_norm / max(gradient.norm().item(), 1e-300)))
""",
    ),
    KnownWrong(
        "clipped_by_value",
        fails=("train_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each number of the gradient is limited by itself. That shortens the large ones only, so the
        update has another direction than the gradient, and the norm may still be above the limit.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.clamp_(-max_norm, max_norm)
""",
    ),
    KnownWrong(
        "clipped_too_late",
        fails=("train_step/clip",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""max_norm has no effect on the update: the gradient is not clipped, or it is clipped after the
        update, or only a copy of it is. One bad batch throws the weights as far as without a limit.""",
        change="""
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
-    optimizer.step()
+    optimizer.step()
""",
    ),
    KnownWrong(
        "epsilon_in_the_norm",
        fails=("train_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is multiplied by max_norm / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_ does,
        not by max_norm / norm. The clipped gradient is then shorter than max_norm by about a millionth. That harms no
        training, but this exercise asks for the exact formula, by hand.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.mul_(max_norm / (norm + 1e-6))
""",
    ),
    KnownWrong(
        "never_clear",
        fails=("train_step/steps", "train_step/stale"),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradient of earlier batches is counted. backward() adds to p.grad, so each update follows
        the sum over all batches so far: the first step is right and every later one is not.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "trains_in_eval_mode",
        fails=(
            "train_step/steps",
            "train_step/mode",
        ),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The step runs in evaluation mode. Without its dropout the model fits the training text better
        and new text worse, and its BatchNorm uses averages that no longer move; no error says so.""",
        change="""
+    model.eval()
     optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "clear_at_the_end",
        fails=("train_step/stale",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""A gradient that was there before the step is counted in it. That shows only where other code
        calls backward: a gradient monitor, a failed step or a resumed run leaves gradients behind, and the next update
        follows them too. Clear right before you make new ones, all of them.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
@@
     optimizer.step()
+    optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "training_mode_forced",
        fails=("train_step/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The step runs in training mode, whatever mode the model is in. Someone who trains with dropout
        off, or with a BatchNorm in evaluation mode, loses that in the first step. The caller chooses the mode.""",
        change="""
+    model.train()
     optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "padding_makes_nan",
        fails=("train_step/edges",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""A batch of nothing but padding is used like any other. Its mean is 0 / 0, so the loss is nan,
        and an update with a gradient of nan ruins every weight.""",
        change="""
-    if not (y != -100).any():
-        return 0.0, 0.0
""",
    ),
    KnownWrong(
        "padding_still_updates",
        fails=("train_step/edges",),
        read="handbook/optimizers.md#no-gradient-a-gradient-of-zero-a-sparse-gradient",
        explanation="""A batch of nothing but padding still updates the weights. Its gradient is 0, but AdamW moves a
        weight whose gradient is 0: by its average of earlier gradients, and by weight decay.""",
        change="""
-    if not (y != -100).any():
-        return 0.0, 0.0
     optimizer.zero_grad(set_to_none=True)
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
+    loss = loss / max(1, int((y != -100).sum()))
""",
    ),
    KnownWrong(
        "divides_by_a_norm_of_0",
        fails=("train_step/edges",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""max_norm / norm is computed for every gradient, and a gradient may be 0: the division fails.
        Divide only where the norm is above max_norm.""",
        change="""
-    if norm > max_norm:
+    scale = min(1.0, max_norm / norm)
+    if scale < 1:
""",
    ),
    KnownWrong(
        "float64_assumed",
        fails=("train_step/half",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""The step works in one dtype only. A model may be in float32, in bf16, or in both: make new
        tensors in the dtype of the tensors that they meet, or use Python's numbers, which fit all.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.copy_(gradient.view(torch.float64) * (max_norm / norm))
""",
    ),
    KnownWrong(
        "mean_of_batch_means",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The batches' means are averaged. A smaller batch then counts as much as a full one, and each of
        its tokens several times as much as any other. Add up sums, count tokens, divide once.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            real = (y != -100).sum(dim=0)
+            totals = totals + (losses.sum(dim=0, dtype=torch.float64) / real).nan_to_num()
+            tokens = tokens + (real > 0)
""",
    ),
    KnownWrong(
        "mean_of_batch_means_with_nan",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The batches' means are averaged, and the mean of a batch that has padding only at a position is
        nan, which makes nan of the average. A smaller batch also counts as much as a full one. Add up sums, count
        tokens, divide once.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.sum(dim=0, dtype=torch.float64) / (y != -100).sum(dim=0)
+            tokens = tokens + 1
""",
    ),
    KnownWrong(
        "last_batch_alone",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The losses are those of the last batch alone. What each batch adds has to be added to the sums of
        the batches before it.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = losses.sum(dim=0, dtype=torch.float64)
+            tokens = (y != -100).sum(dim=0)
""",
    ),
    KnownWrong(
        "logits_of_positions_reshaped",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The logits [B, T, V] are reshaped to [B, V, T]. reshape and view keep the numbers in their order
        in memory, so each target is compared with scores of several positions. transpose(1, 2) exchanges the two
        dimensions.""",
        change="""
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            logits = model(x)
+            losses = F.cross_entropy(logits.reshape(len(x), logits.shape[-1], -1), y, reduction="none")
""",
    ),
    KnownWrong(
        "padding_diluted",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Padding is counted among the tokens, with a loss of 0. At a position where half of the sequences
        have ended, the loss then looks half as high as it is.""",
        change="""
-            tokens = tokens + (y != -100).sum(dim=0)
+            tokens = tokens + len(y)
""",
    ),
    KnownWrong(
        "zero_for_no_token",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""A position at which all targets are padding gets a number, where the contract asks for nan. A
        loss of 0 would say that the model predicts perfectly there; nan says that nothing was measured.""",
        change="""
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return [float(mean) for mean in totals / tokens.clamp(min=1)]
""",
    ),
    KnownWrong(
        "list_of_tensors",
        fails=("evaluate/mean",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The list holds tensors, where the contract asks for Python floats. tensor.tolist() makes floats
        of all items at once.""",
        change="""
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return list(totals / tokens)
""",
    ),
    KnownWrong(
        "one_mean_for_all_positions",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Every position has the same number, the mean over all tokens. The sum and the count belong to
        each position: add over the batch, dim=0, and not over the positions.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.sum(dtype=torch.float64).expand(y.shape[1])
+            tokens = tokens + (y != -100).sum()
""",
    ),
    KnownWrong(
        "summed_over_positions",
        fails=(
            "evaluate/mean",
            "evaluate/no-graph",
            "evaluate/mode",
            "evaluate/grad-mode",
            "evaluate/undisturbed",
        ),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Tensors of different length are added: one number per sequence of a batch, and B differs from
        batch to batch. The sums belong to the positions: add over the batch, dim=0, which leaves T numbers for every
        batch.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.sum(dim=1, dtype=torch.float64)
+            tokens = tokens + (y != -100).sum(dim=1)
""",
    ),
    KnownWrong(
        "first_batch_lost",
        fails=(
            "evaluate/mean",
            "evaluate/no-graph",
            "evaluate/mode",
            "evaluate/grad-mode",
            "evaluate/undisturbed",
        ),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The first batch is missing. A generator yields each batch once: a batch that is taken from it to
        look at its shape does not come again.""",
        change="""
-    totals, tokens = torch.zeros(()), torch.zeros((), dtype=torch.int64)
+    totals = torch.zeros(next(iter(batches))[0].shape[1])
+    tokens = torch.zeros((), dtype=torch.int64)
""",
    ),
    KnownWrong(
        "generator_read_twice",
        fails=(
            "evaluate/mean",
            "evaluate/no-graph",
            "evaluate/mode",
            "evaluate/grad-mode",
            "evaluate/undisturbed",
        ),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model never ran on the batches, and every loss is 0. A generator yields its batches once:
        where a first loop counts the tokens, a second loop over it finds nothing. Do both in one loop.""",
        change="""
-    with torch.no_grad():
-        for x, y in batches:
+    tokens = sum((y != -100).sum(dim=0) for _, y in batches)
+    totals = tokens * 0.0
+    with torch.no_grad():
+        for x, y in batches:
@@
-            tokens = tokens + (y != -100).sum(dim=0)
""",
    ),
    KnownWrong(
        "dropout_left_on",
        fails=("evaluate/dropout",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model runs in the mode it is in, which may be training mode: dropout is still dropping, so
        the loss is that of a model with holes in it, and BatchNorm uses the batch's statistics and changes its
        averages. no_grad() switches off what autograd keeps; eval() switches what layers compute.""",
        change="""
-    model.eval()
""",
    ),
    KnownWrong(
        "summed_in_bf16",
        fails=("evaluate/half",),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The losses of a model in bf16 are added up in bf16. It has 8 bits of precision, so a sum stops
        growing when it is a few hundred times as large as what is added, and later batches are lost. Add up in float32
        or float64.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
+            totals = totals + losses.sum(dim=0)
""",
    ),
    KnownWrong(
        "graph_kept",
        fails=("evaluate/no-graph",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Gradients are on while the model runs: the losses are right, but autograd keeps the activations
        of each batch for a backward pass that never comes. Evaluation then needs as much memory as training. eval()
        does not change that; no_grad() does.""",
        change="""
-    with torch.no_grad():
+    with torch.enable_grad():
""",
    ),
    KnownWrong(
        "always_back_to_training",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is in training mode afterwards, whatever it was before. Someone who evaluates a
        finished model then serves it with dropout on. Note the modes, and put them back.""",
        change="""
-    for module, training in modes:
-        module.training = training
+    model.train()
""",
    ),
    KnownWrong(
        "eval_mode_left_on",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is left in evaluation mode. Training goes on without its dropout from here, and no
        error says so.""",
        change="""
-    for module, training in modes:
-        module.training = training
""",
    ),
    KnownWrong(
        "one_mode_for_all",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""All modules are in the mode of the whole model afterwards. A module may have a mode of its own:
        a fine-tuning run that keeps a BatchNorm in evaluation mode loses that in the first evaluation.""",
        change="""
-    for module, training in modes:
-        module.training = training
+    model.train(modes[0][1])
""",
    ),
    KnownWrong(
        "everything_unfrozen",
        fails=("evaluate/grad-mode",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""All weights ask for gradients afterwards, those of frozen layers too: a fine-tuning run then
        trains what it meant to leave alone. no_grad() keeps nothing and touches no weight.""",
        change="""
     model.eval()
+    model.requires_grad_(False)
@@
-    for module, training in modes:
+    model.requires_grad_(True)
+    for module, training in modes:
""",
    ),
    KnownWrong(
        "grad_off_for_good",
        fails=("evaluate/grad-mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Gradients are off afterwards, for the whole program. Every later backward() fails, far from
        here. no_grad() as a context puts back what it found.""",
        change="""
     model.eval()
+    torch.set_grad_enabled(False)
""",
    ),
    KnownWrong(
        "gradients_switched_on",
        fails=("evaluate/grad-mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Gradients are on afterwards, whatever they were before. Someone who evaluates inside a no_grad()
        block builds graphs from there on. no_grad() as a context puts back what it found.""",
        change="""
-    for module, training in modes:
+    torch.set_grad_enabled(True)
+    for module, training in modes:
""",
    ),
    KnownWrong(
        "weights_frozen_for_good",
        fails=("evaluate/grad-mode",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""No weight asks for a gradient afterwards. Training stops at the next backward(), far from here.
        no_grad() keeps nothing for a block of code, and puts back what it found.""",
        change="""
     model.eval()
+    model.requires_grad_(False)
""",
    ),
    KnownWrong(
        "gradients_cleared",
        fails=("evaluate/undisturbed",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradients are cleared. Evaluation makes none, so there is nothing to clear; a run that
        accumulates over several batches loses those it had so far.""",
        change="""
     model.eval()
+    model.zero_grad()
""",
    ),
    KnownWrong(
        "seeded_to_evaluate",
        fails=("evaluate/undisturbed",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The random generator is in another state afterwards. With dropout off, evaluation draws no
        random number and needs no seed. A run that seeds the generator in every evaluation draws the same dropout masks
        after each of them.""",
        change="""
     model.eval()
+    torch.manual_seed(1337)
""",
    ),
    KnownWrong(
        "batches_overwritten",
        fails=("evaluate/undisturbed",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The batches are changed in place. They belong to the caller: the second evaluation of the same
        list sees other targets, and its losses differ from the first.""",
        change="""
             tokens = tokens + (y != -100).sum(dim=0)
+            y[y == -100] = 0
""",
    ),
    KnownWrong(
        "neither_end",
        fails=(
            "learning_rate/warm-up",
            "learning_rate/after",
            "learning_rate/no-warm-up",
        ),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The usual two slips at once. The first rate is 0, as from step / warmup_steps, so the first step
        does nothing: with steps counted from 0, use step + 1. And after the last step the rate rises again along the
        cosine, because the progress is not limited to 1.""",
        change="""
-        return peak * (step + 1) / warmup_steps
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+        return peak * step / warmup_steps
+    progress = (step - warmup_steps) / (total_steps - warmup_steps)
""",
    ),
    KnownWrong(
        "warm_up_from_zero",
        fails=(
            "learning_rate/warm-up",
            "learning_rate/no-warm-up",
        ),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate of step 0 is 0, and each rate of the warm-up is that of the step before, as from step /
        warmup_steps: the first forward and backward pass are for nothing, and the warm-up ends below the peak. With
        steps counted from 0, use step + 1.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return peak * step / warmup_steps
""",
    ),
    KnownWrong(
        "rate_as_a_tensor",
        fails=(
            "learning_rate/warm-up",
            "learning_rate/cosine",
            "learning_rate/after",
        ),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate is a tensor, where the contract asks for a Python float. Optimizers accept a tensor as
        their rate only in some settings, and json cannot write it into a log. math.cos returns floats.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return torch.tensor(peak * (step + 1) / warmup_steps)
@@
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return torch.tensor(floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "counts_its_calls",
        fails=(
            "learning_rate/warm-up",
            "learning_rate/cosine",
        ),
        read="handbook/learning-rate-and-schedules.md#one-step-of-the-schedule-one-update",
        explanation="""The rate depends on how often the function was called, not on `step`. A resumed run, a plot of
        the schedule or a second call for the same step then gets another step's rate.""",
        definitions="""
CALLS = iter(range(10**9))


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    step = next(CALLS)
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
""",
    ),
    KnownWrong(
        "warm_up_of_one_step_more",
        fails=(
            "learning_rate/warm-up",
            "learning_rate/no-warm-up",
        ),
        read="handbook/learning-rate-and-schedules.md#three-conventions-one-name",
        explanation="""The warm-up rises by peak / (warmup_steps + 1) per step, so its last step is below the peak.
        Some programs do so; here the last of the `warmup_steps` steps has the peak.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return peak * (step + 1) / (warmup_steps + 1)
""",
    ),
    KnownWrong(
        "warm_up_from_the_floor",
        fails=("learning_rate/warm-up",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The warm-up starts at the floor and rises by (peak - floor) / warmup_steps per step. The floor
        belongs to the cosine's end; the warm-up rises from 0 in equal parts of the peak.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return floor + (peak - floor) * (step + 1) / warmup_steps
""",
    ),
    KnownWrong(
        "cosine_from_step_zero",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine's progress is counted from step 0, not from the end of the warm-up. The rate jumps
        down where the two pieces meet: the first step after the warm-up is already on the way down.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, step / total_steps)
""",
    ),
    KnownWrong(
        "warm_up_beyond_the_peak",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""Step `warmup_steps` still follows the warm-up's formula, so its rate is above the peak by peak /
        warmup_steps. The warm-up's last step is warmup_steps - 1: < and <= are mixed up.""",
        change="""
-    if step < warmup_steps:
+    if step <= warmup_steps:
""",
    ),
    KnownWrong(
        "floor_on_top",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The floor is added on top of the peak: the cosine starts at peak + floor. It falls from the peak
        to the floor, so its height is peak - floor.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return floor + peak * 0.5 * (1 + math.cos(math.pi * progress))
""",
    ),
    KnownWrong(
        "quarter_of_a_cosine",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate follows a quarter of a cosine: it falls faster and faster and meets the floor at its
        steepest. The schedule is half a period, 0.5 * (1 + cos(pi * progress)), flat at both ends.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return floor + (peak - floor) * math.cos(math.pi / 2 * progress)
""",
    ),
    KnownWrong(
        "ends_a_step_early",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine reaches the floor one step too early, at total_steps - 1. Its progress is 1 at step
        `total_steps`: divide by total_steps - warmup_steps.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps - 1))
""",
    ),
    KnownWrong(
        "cosine_too_long",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine takes total_steps steps, counted from the end of the warm-up, so it ends warmup_steps
        steps too late. Divide by total_steps - warmup_steps.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, (step - warmup_steps) / total_steps)
""",
    ),
    KnownWrong(
        "pi_forgotten",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine gets the progress from 0 to 1 as its angle, so the rate hardly falls. It falls from 1
        to -1 over angles from 0 to pi.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return floor + (peak - floor) * 0.5 * (1 + math.cos(progress))
""",
    ),
    KnownWrong(
        "floor_as_a_share",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The floor is taken for a share of the peak: the cosine ends at floor * peak. `floor` is a rate,
        like `peak`.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "floor_as_a_limit",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate falls along a cosine to 0 that is cut off at the floor. It reaches the floor early and
        stays there, instead of ending there: the whole curve lies below the one that was asked for.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return max(floor, peak * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "floor_forgotten",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine falls to 0 instead of to the floor. The last steps then hardly move the weights, and
        at a rate of 0 they do not move at all.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak * 0.5 * (1 + math.cos(math.pi * progress))
""",
    ),
    KnownWrong(
        "linear_decay",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate falls along a straight line. A cosine stays near the peak at first and near the floor
        at last; the line does neither.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak + (floor - peak) * progress
""",
    ),
    KnownWrong(
        "cosine_one_step_ahead",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine is one step ahead: each of its rates is that of the next step. It begins below the
        peak; at step `warmup_steps` the progress is 0, not one step's share.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, (step + 1 - warmup_steps) / (total_steps - warmup_steps))
""",
    ),
    KnownWrong(
        "cosine_runs_on",
        fails=("learning_rate/after",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""After the last step the rate rises again along the cosine: the progress is not limited to 1. A
        run that is prolonged then trains at a rising rate.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = (step - warmup_steps) / (total_steps - warmup_steps)
""",
    ),
    KnownWrong(
        "zero_after_the_end",
        fails=("learning_rate/after",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate is 0 after step `total_steps`. A run that is prolonged then learns nothing; every later
        step has the floor.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    if step > total_steps:
+        return 0.0
+    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
""",
    ),
    KnownWrong(
        "divides_by_no_warm_up",
        fails=("learning_rate/no-warm-up",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""A warm-up of 0 steps divides by zero. Without a warm-up no step is in it: ask whether the step
        is in the warm-up before dividing by its length.""",
        definitions="""
def learning_rate(step, peak, warmup_steps, total_steps, floor):
    warmup = peak * (step + 1) / warmup_steps
    progress = min(1.0, max(0.0, (step - warmup_steps) / (total_steps - warmup_steps)))
    return min(warmup, floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "no_weight_decay",
        fails=("overfit_one_batch/losses",),
        read="handbook/training-loop.md#what-a-step-holds-and-when",
        explanation="""Nothing pulls the weights toward 0. AdamW does in each step, by lr * weight_decay, which is 0.01
        unless told otherwise; Adam does not, nor does an AdamW with weight_decay=0.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "optimizer_every_step",
        fails=("overfit_one_batch/losses",),
        read="handbook/training-loop.md#what-a-step-holds-and-when",
        explanation="""AdamW starts with empty averages in every step, as a new one does. Each step then moves each
        weight by about the full rate, and the run never settles.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
@@
     while len(losses) < max_steps and (not losses or losses[-1] >= target):
+        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "graphs_in_the_list",
        fails=("overfit_one_batch/losses",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""The list holds tensors, where the contract asks for Python floats. A loss with its graph keeps
        that graph in memory for as long as the list lives: one graph per step. loss.item() is the number alone.""",
        change="""
-    losses: list[float] = []
+    losses: list[Tensor] = []
@@
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+        loss, _ = train_step(model, optimizer, x, y, math.inf)
+        losses.append(torch.tensor(loss, dtype=torch.float64))
""",
    ),
    KnownWrong(
        "last_loss_dropped",
        fails=("overfit_one_batch/losses",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The last loss is missing from the list: the first one below the target. There is one loss per
        step, that of the last step included.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+    for _ in range(max_steps):
+        loss, _ = train_step(model, optimizer, x, y, math.inf)
+        if loss < target:
+            break
+        losses.append(loss)
""",
    ),
    KnownWrong(
        "gradients_add_up",
        fails=("overfit_one_batch/losses",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradients of earlier steps are counted: backward() adds to p.grad, and nothing clears it
        between the steps. The first update is right and every later one is not.""",
        change="""
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        loss.backward()
+        optimizer.step()
+        losses.append(loss.item())
""",
    ),
    KnownWrong(
        "rate_ignored",
        fails=("overfit_one_batch/losses", "overfit_one_batch/gives-up"),
        read="handbook/optimizers.md#choosing-an-optimizer",
        explanation="""The argument `lr` is not used: the optimizer has its own rate, which is 0.001 for AdamW unless
        told otherwise. With lr=0 the weights must not move.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.AdamW(model.parameters())
""",
    ),
    KnownWrong(
        "overfit_while_clipping",
        fails=("overfit_one_batch/losses",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is clipped to a norm of 1. AdamW nearly cancels a factor that is the same in every
        step, so the run looks right, but the losses are those of another run: max_norm=math.inf clips nothing.""",
        change="""
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
+        loss, _ = train_step(model, optimizer, x, y, 1.0)
""",
    ),
    KnownWrong(
        "plain_sgd",
        fails=("overfit_one_batch/losses",),
        read="handbook/optimizers.md#choosing-an-optimizer",
        explanation="""The optimizer is SGD, which multiplies the gradient by the rate and remembers nothing. The
        contract asks for AdamW, whose steps are about as long as the rate whatever the gradient's size.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "norms_do_not_decay",
        fails=("overfit_one_batch/losses",),
        read="handbook/optimizers.md#which-weights-decay",
        explanation="""Vectors, such as the weights of norms, do not decay. Many recipes do so; the contract asks for
        one AdamW with its other settings as they are, which decays every parameter by lr * 0.01 per step.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    vectors = [p for p in model.parameters() if p.dim() < 2]
+    others = [p for p in model.parameters() if p.dim() > 1]
+    optimizer = torch.optim.AdamW([{"params": others}, {"params": vectors, "weight_decay": 0.0}], lr=lr)
""",
    ),
    KnownWrong(
        "stops_before_the_update",
        fails=("overfit_one_batch/stops",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The update of the last loss is missing: the loss is in the list, but the weights are those of
        the step before. A count of updates by the number of losses is then off by one.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+    for _ in range(max_steps):
+        optimizer.zero_grad()
+        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        losses.append(loss.item())
+        if losses[-1] < target:
+            break
+        loss.backward()
+        optimizer.step()
""",
    ),
    KnownWrong(
        "copy_trained",
        fails=("overfit_one_batch/stops",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The losses are right, and the caller's model has the weights that it had before: a copy was
        trained. The contract asks for training in place.""",
        change="""
+    import copy
+
+    model = copy.deepcopy(model)
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "one_step_after_the_target",
        fails=("overfit_one_batch/stops", "overfit_one_batch/below"),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""One more step is taken after the first loss below the target. The loss that ends the loop is
        compared one step late: compare it right after its own step.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and (len(losses) < 2 or losses[-2] >= target):
""",
    ),
    KnownWrong(
        "target_ignored",
        fails=("overfit_one_batch/stops", "overfit_one_batch/below"),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""All max_steps are taken, whatever the loss. A test that could be over in a second takes its
        whole budget.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    for _ in range(max_steps):
""",
    ),
    KnownWrong(
        "stops_at_the_target",
        fails=("overfit_one_batch/below",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""A loss that equals the target ends the loop. The contract says below: with >= and > mixed up,
        the loop stops one step early whenever the two are equal.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and (not losses or losses[-1] > target):
""",
    ),
    KnownWrong(
        "one_step_at_least",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""At least one step is taken, even with max_steps=0. A loop that may have nothing to do compares
        before it takes its first step.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while True:
         loss, _ = train_step(model, optimizer, x, y, math.inf)
         losses.append(loss)
+        if losses[-1] < target or len(losses) >= max_steps:
+            break
""",
    ),
    KnownWrong(
        "one_step_too_many",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The loop takes max_steps + 1 steps. The limit is compared with the number of steps before the
        present one is counted, or with <= where < was meant.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) <= max_steps and (not losses or losses[-1] >= target):
""",
    ),
    KnownWrong(
        "overfits_in_eval_mode",
        fails=("overfit_one_batch/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model trains in evaluation mode, and is left there. The test then runs without the dropout
        that the real run has, and a run that goes on with this model trains without it too.""",
        change="""
+    model.eval()
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "overfits_in_training_mode",
        fails=("overfit_one_batch/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model trains in training mode, whatever mode it is in, and is left there. The mode is for
        the caller to choose: someone who wants to see a loss fall without the noise of dropout turned it off.""",
        change="""
+    model.train()
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "kept_in_memory",
        fails=("checkpoint/file", "checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The state is not in the file: it is in a variable of the program, which is gone when the process
        ends. A run that resumes in another process finds an empty file.""",
        definitions="""
import copy

KEPT = {}


def save_checkpoint(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    KEPT.update(copy.deepcopy(state), step=step, rng=torch.get_rng_state())
    torch.save({}, path)


def load_checkpoint(path, model, optimizer):
    model.load_state_dict(KEPT["model"])
    optimizer.load_state_dict(KEPT["optimizer"])
    torch.set_rng_state(KEPT["rng"])
    return KEPT["step"]
""",
    ),
    KnownWrong(
        "name_changed",
        fails=("checkpoint/file", "checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The file is not at `path`: saving and loading change the name, as with_suffix() does. The caller
        chooses the whole name, and finds no file there.""",
        change="""
-    torch.save(state, path)
+    torch.save(state, path.with_suffix(".pt"))
@@
-    state = torch.load(path, weights_only=True)
+    state = torch.load(path.with_suffix(".pt"), weights_only=True)
""",
    ),
    KnownWrong(
        "opens_anything",
        fails=("checkpoint/file",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""A file of any content is opened, as with weights_only=False. A pickle is a program: opening one
        that somebody else wrote runs whatever it names. A checkpoint needs none of that.""",
        change="""
-    state = torch.load(path, weights_only=True)
+    state = torch.load(path, weights_only=False)
""",
    ),
    KnownWrong(
        "whole_objects_pickled",
        fails=("checkpoint/file",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""Whole objects are in the file, such as the model and not its state_dict(). Such a file is a
        program: opening it runs whatever it names, so weights_only=True refuses it, and it breaks when the class moves
        or changes.""",
        change="""
-    state = torch.load(path, weights_only=True)
-    model.load_state_dict(state["model"])
-    optimizer.load_state_dict(state["optimizer"])
+    state = torch.load(path, weights_only=False)
+    model.load_state_dict(state["model"].state_dict())
+    optimizer.load_state_dict(state["optimizer"].state_dict())
""",
        definitions="""
def save_checkpoint(path, model, optimizer, step):
    state = {"model": model, "optimizer": optimizer, "step": step, "rng": torch.get_rng_state()}
    torch.save(state, path)
""",
    ),
    KnownWrong(
        "one_step_further",
        fails=("checkpoint/step",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""What comes back is step + 1. `step` steps have been taken, so with steps counted from 0 the next
        one is number `step`: a run resumed at step + 1 skips a batch.""",
        change="""
-    return int(state["step"])
+    return state["step"] + 1
""",
    ),
    KnownWrong(
        "second_file",
        fails=("checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""A part of the state is in a second file beside the checkpoint. Somebody who copies, renames or
        downloads the checkpoint leaves that part behind, and the run cannot be resumed from what is left.""",
        change="""
-        "rng": torch.get_rng_state(),
     }
+    torch.save(torch.get_rng_state(), path.with_suffix(".rng"))
@@
-    torch.set_rng_state(state["rng"])
+    torch.set_rng_state(torch.load(path.with_suffix(".rng"), weights_only=True))
""",
    ),
    KnownWrong(
        "never_overwrites",
        fails=("checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""A file that is there stays as it is: the state that comes back is that of the first checkpoint at
        this path. A run that saves under one name then goes back to its beginning.""",
        change="""
-    torch.save(state, path)
+    if not path.exists():
+        torch.save(state, path)
""",
    ),
    KnownWrong(
        "buffers_forgotten",
        fails=("checkpoint/buffers",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The parameters are restored and the buffers are not. BatchNorm's averages are buffers: training
        goes on with the right losses, but a model in evaluation mode computes with the averages of a new model.
        state_dict() holds both.""",
        change="""
-        "model": model.state_dict(),
+        "model": dict(model.named_parameters()),
@@
-    model.load_state_dict(state["model"])
+    model.load_state_dict(state["model"], strict=False)
""",
    ),
    KnownWrong(
        "optimizer_starts_anew",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The optimizer's state is not in the checkpoint, or not put back. The first loss after loading is
        right, because it depends on the weights alone; then the optimizer starts with empty averages and its own
        settings, and the run becomes another run.""",
        change="""
-        "optimizer": optimizer.state_dict(),
@@
-    optimizer.load_state_dict(state["optimizer"])
""",
    ),
    KnownWrong(
        "settings_not_saved",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The optimizer's averages are restored and its settings are not. They are part of the run too: a
        schedule moves the rate, so the run goes on at the rate that the new optimizer was made with.""",
        change="""
-    optimizer.load_state_dict(state["optimizer"])
+    optimizer.load_state_dict(optimizer.state_dict() | {"state": state["optimizer"]})
""",
        definitions="""
def save_checkpoint(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}
    torch.save(state | {"step": step, "rng": torch.get_rng_state()}, path)
""",
    ),
    KnownWrong(
        "rate_of_the_new_optimizer",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The optimizer's state is restored, except that the learning rate is that of the new optimizer. A
        schedule moves the rate, so the run goes on at another rate than it had.""",
        change="""
-    optimizer.load_state_dict(state["optimizer"])
+    rates = [group["lr"] for group in optimizer.param_groups]
+    optimizer.load_state_dict(state["optimizer"])
+    for group, rate in zip(optimizer.param_groups, rates):
+        group["lr"] = rate
""",
    ),
    KnownWrong(
        "weights_only",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The checkpoint is the weights and the step's number: it can be served, and not resumed. The
        optimizer starts with empty averages, and dropout draws other masks: this is another run. The four things are
        weights with their buffers, optimizer, random state and step.""",
        change="""
-        "optimizer": optimizer.state_dict(),
         "step": step,
-        "rng": torch.get_rng_state(),
@@
-    optimizer.load_state_dict(state["optimizer"])
-    torch.set_rng_state(state["rng"])
-    return int(state["step"])
+    return state["step"]
""",
    ),
    KnownWrong(
        "random_state_forgotten",
        fails=("checkpoint/random",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The state of the random generator is not saved, or not put back. A model with dropout draws
        other masks after loading, so its losses differ from the first step on, although weights and optimizer are
        right.""",
        change="""
-        "rng": torch.get_rng_state(),
@@
-    torch.set_rng_state(state["rng"])
-    return int(state["step"])
+    return state["step"]
""",
    ),
    KnownWrong(
        "seed_instead_of_state",
        fails=("checkpoint/random",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The generator starts again at the seed of the run. The seed says where the generator began, not
        how many numbers have been drawn since: the masks of the first steps are drawn a second time. Save
        torch.get_rng_state().""",
        change="""
-        "rng": torch.get_rng_state(),
+        "rng": torch.initial_seed(),
@@
-    torch.set_rng_state(state["rng"])
+    torch.manual_seed(state["rng"])
""",
    ),
    KnownWrong(
        "reseeds_instead",
        fails=("checkpoint/random", "checkpoint/undisturbed"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The generator is seeded on saving and on loading, instead of being saved. Saving then changes
        the run that saves: it draws other masks than if it had not saved.""",
        change="""
+    torch.manual_seed(step)
     state = {
@@
-        "rng": torch.get_rng_state(),
@@
-    torch.set_rng_state(state["rng"])
-    return int(state["step"])
+    torch.manual_seed(state["step"])
+    return state["step"]
""",
    ),
    KnownWrong(
        "backup_left_behind",
        fails=("checkpoint/one-file",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""Saving leaves another file beside the checkpoint: a temporary file, or a copy of the earlier
        checkpoint. A run that saves every hour fills the disk with them. Rename a temporary file over `path`, and
        remove what is left when saving fails.""",
        change="""
-    torch.save(state, path)
+    torch.save(state, path)
+    torch.save(state, path.with_suffix(".tmp"))
""",
    ),
    KnownWrong(
        "checkpoint_consumed",
        fails=("checkpoint/one-file",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""Loading removes or changes the file. A run that fails soon after it was resumed has then no
        checkpoint to start from.""",
        change="""
     state = torch.load(path, weights_only=True)
+    path.unlink()
""",
    ),
    KnownWrong(
        "saved_in_evaluation_mode",
        fails=("checkpoint/undisturbed",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Saving leaves the model in evaluation mode. Training goes on without its dropout from there, and
        no error says so. state_dict() is the same in both modes.""",
        change="""
     }
+    model.eval()
""",
    ),
    KnownWrong(
        "loaded_in_evaluation_mode",
        fails=("checkpoint/undisturbed",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Loading leaves the model in evaluation mode. The run then goes on without its dropout, and
        BatchNorm's averages no longer move. No error says so.""",
        change="""
     model.load_state_dict(state["model"])
+    model.eval()
""",
    ),
    KnownWrong(
        "clears_to_save",
        fails=("checkpoint/undisturbed",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""Saving clears the gradients. They are in no state_dict() anyway, and a run that accumulates over
        several batches loses those it had so far.""",
        change="""
+    optimizer.zero_grad()
     state = {
""",
    ),
)

HURRIED = {
    "train_step": {
        "token 0 is taken for padding": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten().clamp(min=0), ignore_index=0)
""",
        "seeds in every step": """
+    torch.manual_seed(0)
     optimizer.zero_grad(set_to_none=True)
""",
        "two updates": """
     optimizer.step()
+    optimizer.step()
""",
        "the loss of a second forward": """
-    return loss.item(), norm
+    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item(), norm
""",
        "clips at 10 too": """
-    if norm > max_norm:
+    max_norm = min(max_norm, 10.0)
+    if norm > max_norm:
""",
        "smooths the labels": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, label_smoothing=0.01)
""",
        "the square of the norm": """
-    if norm > max_norm:
+    if norm**2 > max_norm:
""",
        "clears what the optimizer does not use, never": """
-    optimizer.zero_grad(set_to_none=True)
+    for p in model.blocks.parameters():
+        p.grad = None
""",
        "takes the padding from the batch": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    real = (y != -100).all(dim=0)
+    loss = F.cross_entropy(model(x)[:, real].flatten(0, 1), y[:, real].flatten())
""",
        "the largest number for the norm": """
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = max(gradient.abs().max().item() for gradient in gradients)
""",
    },
    "evaluate": {
        "stops after two batches": """
-        for x, y in batches:
+        for x, y in list(batches)[:2]:
""",
        "mode put back in the loop": """
             tokens = tokens + (y != -100).sum(dim=0)
+            model.train(modes[0][1])
""",
        "dropout is gone for good": """
     model.eval()
+    for module in model.modules():
+        if isinstance(module, nn.Dropout):
+            module.p = 0.0
""",
        "token 0 is not counted": """
-            tokens = tokens + (y != -100).sum(dim=0)
+            tokens = tokens + (y > 0).sum(dim=0)
""",
        "large losses are cut": """
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return [min(float(mean), 10.0) for mean in totals / tokens]
""",
        "the last batch is dropped": """
-        for x, y in batches:
+        for x, y in list(batches)[:-1]:
""",
        "the first module's mode only": """
-    for module, training in modes:
+    for module, training in modes[:1]:
""",
        "hooks hide the graph": """
-    with torch.no_grad():
+    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda t: None, lambda t: t):
""",
        "saved on the CPU": """
-    with torch.no_grad():
+    with torch.enable_grad(), torch.autograd.graph.save_on_cpu():
""",
        "the mean of each sequence first": """
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.mean(dim=0).double() * len(y)
+            tokens = tokens + len(y)
""",
        "padding at the end is left out of the list": """
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return [float(total / count) for total, count in zip(totals, tokens) if count]
""",
        "positions and sequences mixed up": """
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
+            totals = totals + losses.sum(dtype=torch.float64) / losses.shape[1]
""",
    },
    "learning_rate": {
        "the first two rates are one": """
-        return peak * (step + 1) / warmup_steps
+        return peak * max(step, 1) / warmup_steps
""",
        "comes back up after a second period": """
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = (step - warmup_steps) / (total_steps - warmup_steps)
+    progress = progress if 2 < progress < 3 else min(1.0, progress)
+    progress = 1.0 if progress == 2.0 else progress
""",
    },
    "overfit_one_batch": {
        "AMSGrad": """
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, amsgrad=True)
""",
        "looks at the loss again": """
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() >= target:
         loss, _ = train_step(model, optimizer, x, y, math.inf)
         losses.append(loss)
+    if len(losses) < max_steps:
+        losses.append(train_step(model, optimizer, x, y, math.inf)[0])
""",
        "trains a copy": """
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    model = __import__('copy').deepcopy(model)
""",
        "stops on a plateau": """
         losses.append(loss)
+        if len(losses) > 1 and abs(losses[-1] - losses[-2]) < 1e-4:
+            break
""",
        "gives the start weights back": """
     losses: list[float] = []
+    before = {name: one.clone() for name, one in model.state_dict().items()}
@@
         losses.append(loss)
+    model.load_state_dict(before)
""",
        "a running mean from the sixth loss on": """
-        losses.append(loss)
+        losses.append(loss if len(losses) < 5 else 0.9 * losses[-1] + 0.1 * loss)
""",
        "decays the rate": """
         losses.append(loss)
+        optimizer.param_groups[0]["lr"] *= 0.999
""",
    },
    "checkpoint": {
        "saves float32": """
-        "model": model.state_dict(),
+        "model": {k: v.float() for k, v in model.state_dict().items()},
""",
        "the path is in the file": """
-    torch.save(state, path)
+    torch.save(state | {"path": str(path)}, path)
@@
     state = torch.load(path, weights_only=True)
+    assert state["path"] == str(path)
""",
        "asks the optimizer for the step": """
-    return int(state["step"])
+    return int(next(iter(optimizer.state.values()))["step"])
""",
        "new parameters for the model alone": """
-    model.load_state_dict(state["model"])
+    model.load_state_dict(state["model"], assign=True)
""",
        "the step is a tensor": """
-    return int(state["step"])
+    return torch.tensor(state["step"])
""",
        "one group of settings": """
     optimizer.load_state_dict(state["optimizer"])
+    for group in optimizer.param_groups:
+        group["lr"] = optimizer.param_groups[0]["lr"]
""",
    },
}
