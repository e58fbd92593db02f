"""Known-wrong solutions of Lab 02, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "nothing_is_trained",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The function returns (0.0, 0.0) for every batch and trains on none. Either the code of a step is
        missing, or it is reached only by a batch without padding. Skip only a batch in which all targets are
        padding.""",
        change="""
-    if not (y != -100).any():
+    if (y == -100).any():
         return 0.0, 0.0
""",
    ),
    KnownWrong(
        "batches_skipped",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""A batch that should train is skipped, such as one with a large loss. The first steps of a run
        have the largest losses, so the run may never start to learn. Skip only a batch in which all targets are
        padding.""",
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
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The returned loss is that of the weights after the update. It is too low, because those weights
        were just fitted to this batch. Return the loss from the forward pass before the update.""",
        change="""
-    return loss.item(), norm
+    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item(), norm
""",
    ),
    KnownWrong(
        "returns_the_graph",
        fails=("train_step/loss", "train_step/edges", "train_step/half"),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""The loss is returned as a tensor. A tensor with a graph keeps that graph in memory as long as the
        loss is kept, so a list of losses keeps one graph per step. Return loss.item(), a Python float.""",
        change="""
-    return loss.item(), norm
+    return loss, norm
""",
    ),
    KnownWrong(
        "norm_as_a_tensor",
        fails=("train_step/loss", "train_step/norm", "train_step/edges"),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The norm is returned as a tensor; the contract asks for a Python float. A tensor stays on its
        device, and json cannot write it into a log. Return norm.item().""",
        change="""
-    return loss.item(), norm
+    return loss.item(), torch.tensor(norm, dtype=torch.float64)
""",
    ),
    KnownWrong(
        "sum_over_tokens",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The loss is the sum over the tokens, not their mean. The gradient is then multiplied by the
        number of real tokens, so larger batches take longer steps. Divide by the number of real tokens.""",
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
        explanation="""Targets of -100 count as token 0 in the loss. The model then learns to predict token 0 where the
        text has ended. Leave padding out of the loss.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten().clamp(min=0))
""",
    ),
    KnownWrong(
        "targets_are_inputs",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The loss compares the logits with `x`, not with `y`. The model then learns to copy the token that
        it reads. Copying is easy, so the loss looks good, but the model does not predict the next token.""",
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
        explanation="""The loss is the average of the sequences' means. A sequence with much padding then counts as much
        as a full one, so each of its tokens counts more. Divide the sum over all real tokens by their number.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    each = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")
+    loss = (each.sum(dim=1) / (y != -100).sum(dim=1).clamp(min=1)).mean()
""",
    ),
    KnownWrong(
        "softmax_before_the_loss",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The loss is computed from probabilities. F.cross_entropy takes logits and applies the softmax
        itself. A second softmax makes all predictions nearly equal, so the loss stays above ln V - 1.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).softmax(-1).flatten(0, 1), y.flatten(), ignore_index=-100)
""",
    ),
    KnownWrong(
        "shifted_twice",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The logits at each position are compared with the target of the next position. `y` is shifted
        already: it holds the token after each `x`. With a second shift the model learns to predict two tokens
        ahead.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x)[:, :-1].flatten(0, 1), y[:, 1:].flatten(), ignore_index=-100)
""",
    ),
    KnownWrong(
        "logits_reshaped",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The logits [B, T, V] are reshaped to [B, V, T]. reshape and view keep the numbers in their order
        in memory, so each target is compared with scores of other positions. Use transpose(1, 2), which swaps the two
        dimensions, or flatten to [B·T, V].""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    logits = model(x)
+    loss = F.cross_entropy(logits.reshape(len(x), logits.shape[-1], -1), y, ignore_index=-100)
""",
    ),
    KnownWrong(
        "logits_not_flattened",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""F.cross_entropy looks for the V scores of a token in the second dimension of the logits. In
        logits [B, T, V] that dimension is T, and the error asks for targets [B, V]. Flatten both:
        model(x).flatten(0, 1) is [B·T, V], and y.flatten() is [B·T].""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x), y, ignore_index=-100)
""",
    ),
    KnownWrong(
        "targets_flattened_alone",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""F.cross_entropy gets B rows of logits and B·T targets. Flatten both: model(x).flatten(0, 1) is
        [B·T, V], one row per token, and y.flatten() is [B·T].""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x), y.flatten(), ignore_index=-100)
""",
    ),
    KnownWrong(
        "logits_flattened_alone",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""F.cross_entropy gets one row of logits per token, and one row of targets per sequence. Flatten
        the targets too: y.flatten() is [B·T].""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y, ignore_index=-100)
""",
    ),
    KnownWrong(
        "none_for_a_gradient",
        fails=("train_step/loss", "train_step/norm", "train_step/update"),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""A parameter whose p.grad is None is used like any other. p.grad is None for a frozen parameter
        and for a layer that this batch did not use. Leave such parameters out of the norm and of the clipping.""",
        change="""
-    gradients = [p.grad for p in model.parameters() if p.grad is not None]
+    gradients = [p.grad for p in model.parameters()]
""",
    ),
    KnownWrong(
        "norm_after_clipping",
        fails=("train_step/norm",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The returned norm is that of the clipped gradient. It is never above max_norm, so a log of it
        shows the limit and hides every spike. Return the norm before clipping.""",
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
        explanation="""The norm is the sum of the norms of the parameters' gradients. The global norm is the norm of one
        vector that holds all numbers: the root of one sum of squares. A sum of norms is larger, so clipping starts too
        early.""",
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
        explanation="""The norm is that of the parameters, not of their gradients. It does not depend on the batch, so a
        limit on it does not detect a bad batch. Compute it from p.grad.""",
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
        larger, so clipping starts too early.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = sum(gradient.abs().sum().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "largest_of_the_norms",
        fails=("train_step/norm", "train_step/clip"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The norm is that of one parameter's gradient, the longest. The global norm is the norm of one
        vector that holds the numbers of all parameters. It is larger, so clipping starts too late.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    norm = max(gradient.norm().item() for gradient in gradients)
""",
    ),
    KnownWrong(
        "first_group_alone",
        fails=("train_step/norm", "train_step/clip"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Only the gradients of the optimizer's first parameter group are in the norm. The optimizer may
        have several groups. The global norm is over all parameters of the model.""",
        change="""
-    gradients = [p.grad for p in model.parameters() if p.grad is not None]
+    gradients = [p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None]
""",
    ),
    KnownWrong(
        "tied_weight_twice_in_the_norm",
        fails=("train_step/norm", "train_step/clip"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient of a tied weight is counted twice in the norm, as in a loop over the modules and
        their own parameters. Two layers may hold the same weight, which has one gradient. model.parameters() returns it
        once.""",
        change="""
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
+    owned = [p.grad for module in model.modules() for p in module.parameters(recurse=False) if p.grad is not None]
+    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in owned))
""",
    ),
    KnownWrong(
        "nothing_moves",
        fails=("train_step/update",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The weights do not move. Either step() is missing, or it finds no gradients: backward() is
        missing or comes after step(), or the gradients are cleared between backward() and step(). torch raises no
        error; the loss of such a run stays constant.""",
        change="""
-    optimizer.step()
""",
    ),
    KnownWrong(
        "multiplied_by_infinity",
        fails=("train_step/update",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""With max_norm=math.inf the weights are infinite or nan after the step, as when every gradient is
        multiplied by max_norm / norm. Multiply only a gradient whose norm is above max_norm.""",
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
        explanation="""The step changes `x` or `y` in place. Both belong to the caller, who may use them again, in the
        next epoch or in an evaluation: the tokens or the padding would be different. Make a new tensor instead.""",
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
        explanation="""A gradient with a norm below max_norm is made longer. If every gradient gets the norm max_norm,
        steps stay long even where the loss is flat. Multiply only a gradient whose norm is above max_norm.""",
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
        not multiplied by max_norm. Multiply by max_norm / norm.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.div_(norm)
""",
    ),
    KnownWrong(
        "each_tensor_clipped",
        fails=("train_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Each parameter's gradient is clipped by its own norm. The parameters are then scaled by different
        factors, so the update points in another direction than the gradient. Multiply all gradients by one factor.""",
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
        explanation="""Each number of the gradient is clipped by itself. That changes only the large numbers, so the
        update points in another direction than the gradient, and the norm may still be above the limit.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.clamp_(-max_norm, max_norm)
""",
    ),
    KnownWrong(
        "clipped_too_late",
        fails=("train_step/clip",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""max_norm has no effect on the update: the gradient is not clipped, or it is clipped after the
        update, or only a copy of it is clipped. One bad batch can then move the weights arbitrarily far. Change p.grad
        before the update.""",
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
        explanation="""The gradient is multiplied by max_norm / (norm + 1e-6), as in torch.nn.utils.clip_grad_norm_. The
        clipped gradient is then shorter than max_norm by about a millionth. That does not harm training, but this
        exercise asks for max_norm / norm exactly.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.mul_(max_norm / (norm + 1e-6))
""",
    ),
    KnownWrong(
        "never_clear",
        fails=("train_step/steps", "train_step/stale"),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""Gradients of earlier batches are part of the update. backward() adds to p.grad, so each update
        follows the sum over all batches so far: the first step is right and every later one is wrong. Clear the
        gradients before the backward pass.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The step runs in evaluation mode. Dropout is off, so the model overfits more, and BatchNorm uses
        averages that no longer change. torch raises no error. Run the model in the mode it has.""",
        change="""
+    model.eval()
     optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "training_mode_forced",
        fails=("train_step/steps", "train_step/mode"),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The step runs in training mode although the caller had the model, or a module of it, in
        evaluation mode. Dropout or a BatchNorm that was switched off on purpose is then on again. Run the model in the
        mode it has.""",
        change="""
+    model.train()
     optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "clear_at_the_end",
        fails=("train_step/stale",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""Gradients from before the step are part of the update. Other code may leave some behind, such as
        a gradient monitor or a step that failed. Clear all gradients right before the backward pass, not only after the
        update.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
@@
     optimizer.step()
+    optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "cleared_to_zero",
        fails=("train_step/stale",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Old gradients are set to 0, not to None. The optimizer skips a parameter whose gradient is None.
        It updates one whose gradient is 0: weight decay and averages of earlier gradients move it, although the batch
        does not use it. Use zero_grad(set_to_none=True).""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
+    optimizer.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "cleared_before_the_return",
        fails=("train_step/edges",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The gradients are cleared although all targets are padding. Such a batch changes nothing,
        gradients included. Return before zero_grad().""",
        change="""
+    optimizer.zero_grad(set_to_none=True)
     if not (y != -100).any():
         return 0.0, 0.0
""",
    ),
    KnownWrong(
        "padding_found_by_a_loss_of_nan",
        fails=("train_step/edges",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""A batch of padding is recognized after the model has run, as by a loss of nan. In training mode
        BatchNorm's averages have then changed, and dropout has drawn random numbers. Look at the targets before the
        model runs.""",
        change="""
-    if not (y != -100).any():
-        return 0.0, 0.0
-    optimizer.zero_grad(set_to_none=True)
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    if math.isnan(loss.item()):
+        return 0.0, 0.0
+    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "padding_makes_nan",
        fails=("train_step/edges",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""A batch in which all targets are padding is used like any other. Its mean loss is 0 / 0, so the
        loss is nan, and an update with nan gradients makes every weight nan. Return (0.0, 0.0) without an update.""",
        change="""
-    if not (y != -100).any():
-        return 0.0, 0.0
""",
    ),
    KnownWrong(
        "padding_still_updates",
        fails=("train_step/edges",),
        read="handbook/optimizers.md#no-gradient-a-gradient-of-zero-a-sparse-gradient",
        explanation="""A batch in which all targets are padding updates the weights. Its gradient is 0, but AdamW also
        moves a weight whose gradient is 0, by its average of earlier gradients and by weight decay. Skip the
        update.""",
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
        explanation="""max_norm / norm is computed for every gradient. Where the gradient is 0, that divides by 0.
        Divide only if the norm is above max_norm.""",
        change="""
-    if norm > max_norm:
+    scale = min(1.0, max_norm / norm)
+    if scale < 1:
""",
    ),
    KnownWrong(
        "float64_assumed",
        fails=("train_step/half",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""The step works in one dtype only. A model may be in float32, in bf16, or have layers of both.
        Create new tensors in the dtype of the tensors that they are combined with, or use Python numbers, which fit
        every dtype.""",
        change="""
-            gradient.mul_(max_norm / norm)
+            gradient.copy_(gradient.view(torch.float64) * (max_norm / norm))
""",
    ),
    KnownWrong(
        "mean_of_batch_means",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The result is the average of the batches' means. A small batch then counts as much as a full one,
        so each of its tokens counts more. Add up the losses and the token counts, and divide once at the end.""",
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
        explanation="""The result is the average of the batches' means. A small batch then counts as much as a full one.
        A batch with padding only at a position has the mean nan there, so the average at that position is nan too. Add
        up losses and token counts, and divide once at the end.""",
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
        explanation="""The result is that of the last batch alone. Add each batch's losses and token counts to the sums
        of the batches before it.""",
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
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The logits [B, T, V] are reshaped to [B, V, T]. reshape and view keep the numbers in their order
        in memory, so each target is compared with scores of other positions. Use transpose(1, 2), which swaps the two
        dimensions.""",
        change="""
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            logits = model(x)
+            losses = F.cross_entropy(logits.reshape(len(x), logits.shape[-1], -1), y, reduction="none")
""",
    ),
    KnownWrong(
        "positions_taken_for_tokens",
        fails=("evaluate/mean", "evaluate/no-graph", "evaluate/mode", "evaluate/grad-mode", "evaluate/undisturbed"),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""F.cross_entropy looks for the V scores of a token in the second dimension of the logits. In
        logits [B, T, V] that dimension is T, and the error asks for targets [B, V]. Move it: model(x).transpose(1, 2)
        is [B, V, T].""",
        change="""
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            losses = F.cross_entropy(model(x), y, ignore_index=-100, reduction="none")
""",
    ),
    KnownWrong(
        "padding_diluted",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Padding is counted among the tokens, with a loss of 0. At a position where half of the sequences
        have ended, the mean is then half of the right one. Count the targets that are not -100.""",
        change="""
-            tokens = tokens + (y != -100).sum(dim=0)
+            tokens = tokens + len(y)
""",
    ),
    KnownWrong(
        "loss_of_0_is_padding",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Tokens with a loss of exactly 0 are not counted, as if they were padding. A model that is very
        sure of a real token has a loss of 0 there, because its probability rounds to 1. Count the targets that are not
        -100.""",
        change="""
-            tokens = tokens + (y != -100).sum(dim=0)
+            tokens = tokens + (losses != 0).sum(dim=0)
""",
    ),
    KnownWrong(
        "zero_for_no_token",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""A position at which all targets are padding gets a number; the contract asks for nan. A loss of 0
        would mean perfect predictions there, and nan means that nothing was measured.""",
        change="""
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return [float(mean) for mean in totals / tokens.clamp(min=1)]
""",
    ),
    KnownWrong(
        "list_of_tensors",
        fails=("evaluate/mean",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The list holds tensors; the contract asks for Python floats. tensor.tolist() turns a tensor into
        a list of floats.""",
        change="""
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return list(totals / tokens)
""",
    ),
    KnownWrong(
        "one_mean_for_all_positions",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""Every position has the same value, the mean over all tokens. Keep a sum and a count for each
        position: add over the batch (dim=0) and not over the positions.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.sum(dtype=torch.float64).expand(y.shape[1])
+            tokens = tokens + (y != -100).sum()
""",
    ),
    KnownWrong(
        "summed_over_positions",
        fails=("evaluate/mean", "evaluate/no-graph", "evaluate/mode", "evaluate/grad-mode", "evaluate/undisturbed"),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The sums have one number per sequence, and batches of different sizes cannot be added. Keep a sum
        for each position: add over the batch (dim=0), which leaves T numbers for every batch.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.sum(dim=1, dtype=torch.float64)
+            tokens = tokens + (y != -100).sum(dim=1)
""",
    ),
    KnownWrong(
        "first_batch_lost",
        fails=("evaluate/mean", "evaluate/no-graph", "evaluate/mode", "evaluate/grad-mode", "evaluate/undisturbed"),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The first batch is missing from the result. A generator yields each batch once: a batch taken
        from it to look at its shape does not come again. Read the shape inside the loop.""",
        change="""
-    totals, tokens = torch.zeros(()), torch.zeros((), dtype=torch.int64)
+    totals = torch.zeros(next(iter(batches))[0].shape[1])
+    tokens = torch.zeros((), dtype=torch.int64)
""",
    ),
    KnownWrong(
        "generator_read_twice",
        fails=("evaluate/mean", "evaluate/no-graph", "evaluate/mode", "evaluate/grad-mode", "evaluate/undisturbed"),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model never ran on the batches, and every loss is 0. A generator yields its batches only
        once: after a first loop that counts the tokens, a second loop gets no batch. Compute both sums in one loop.""",
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
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model runs in the mode it has, which may be training mode. Dropout is then on, so the loss is
        not that of the full model, and BatchNorm uses the batch's statistics and changes its averages. no_grad() only
        stops autograd from saving tensors; eval() changes what layers compute. Use both.""",
        change="""
-    model.eval()
""",
    ),
    KnownWrong(
        "graph_kept",
        fails=("evaluate/no-graph",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Gradients are on while the model runs. The losses are right, but autograd saves the activations
        of each batch for a backward pass that never happens, so evaluation needs as much memory as training. Use
        torch.no_grad(); eval() does not turn gradients off.""",
        change="""
-    with torch.no_grad():
+    with torch.enable_grad():
""",
    ),
    KnownWrong(
        "always_back_to_training",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is in training mode after the call, whatever mode it had. A finished model that is
        evaluated would then answer users with dropout on. Store each module's mode first, and restore it.""",
        change="""
-    for module, training in modes:
-        module.training = training
+    model.train()
""",
    ),
    KnownWrong(
        "eval_mode_left_on",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is in evaluation mode after the call. If the run goes on, it trains without dropout,
        and torch raises no error. Store each module's mode first, and restore it.""",
        change="""
-    for module, training in modes:
-        module.training = training
""",
    ),
    KnownWrong(
        "one_mode_for_all",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""All modules have the mode of the whole model after the call. A module may have a mode of its own:
        in fine-tuning, a BatchNorm often stays in evaluation mode. Store the mode of each of model.modules(), and
        restore it.""",
        change="""
-    for module, training in modes:
-        module.training = training
+    model.train(modes[0][1])
""",
    ),
    KnownWrong(
        "parents_set_it_again",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""A module that is a part of two others has another mode after the call. train() sets the mode of
        a module and of all modules inside it, so its second parent has changed its mode again. Set the attribute of
        each module alone: module.training = training.""",
        change="""
-        module.training = training
+        module.train(training)
""",
    ),
    KnownWrong(
        "everything_unfrozen",
        fails=("evaluate/grad-mode",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""All weights have requires_grad=True after the call, those of frozen layers too. A fine-tuning run
        would then train layers that should stay frozen. torch.no_grad() needs no change to requires_grad.""",
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
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Gradients are off after the call, for the whole program, so every later backward() fails. Use
        torch.no_grad() in a with statement: at its end the setting is as before.""",
        change="""
     model.eval()
+    torch.set_grad_enabled(False)
""",
    ),
    KnownWrong(
        "gradients_switched_on",
        fails=("evaluate/grad-mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Gradients are on after the call, although they were off before. Code inside a no_grad() block
        that calls evaluate would then build graphs. Use torch.no_grad() in a with statement: at its end the setting is
        as before.""",
        change="""
-    for module, training in modes:
+    torch.set_grad_enabled(True)
+    for module, training in modes:
""",
    ),
    KnownWrong(
        "weights_frozen_for_good",
        fails=("evaluate/grad-mode",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""All weights have requires_grad=False after the call, so the next training step fails in
        backward() or trains nothing. torch.no_grad() turns gradients off for a block of code and needs no change to
        requires_grad.""",
        change="""
     model.eval()
+    model.requires_grad_(False)
""",
    ),
    KnownWrong(
        "gradients_cleared",
        fails=("evaluate/undisturbed",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The gradients are cleared by the evaluation. Evaluation creates none, so there is nothing to
        clear. A run that accumulates gradients over several batches loses the gradients that it had so far.""",
        change="""
     model.eval()
+    model.zero_grad()
""",
    ),
    KnownWrong(
        "seeded_to_evaluate",
        fails=("evaluate/undisturbed",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The random generator has another state after the call. Dropout is off in an evaluation, so it
        needs no random numbers and no seed. If every evaluation sets a seed, training draws the same dropout masks
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
        explanation="""The batches are changed in place. They belong to the caller: a second evaluation of the same list
        would see other targets and return other losses. Make a new tensor instead.""",
        change="""
             tokens = tokens + (y != -100).sum(dim=0)
+            y[y == -100] = 0
""",
    ),
    KnownWrong(
        "summed_in_bf16",
        fails=("evaluate/half",),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The losses of a model in bf16 are added up in bf16, which has 8 bits of precision. Once the sum
        is a few hundred times as large as a loss, adding that loss changes nothing, so later batches are lost. Add up
        in float32 or float64.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
+            totals = totals + losses.sum(dim=0)
""",
    ),
    KnownWrong(
        "batch_sums_in_bf16",
        fails=("evaluate/half",),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""The losses of each batch are added up in bf16, and only these sums in a wider dtype. bf16 has 8
        bits of precision, so a batch's sum is off by up to 0.4 %. Widen the losses before the first sum, with
        losses.float() or with dtype=torch.float32 in sum().""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
+            totals = totals + losses.sum(dim=0).double()
""",
    ),
    KnownWrong(
        "nan_counts_as_padding",
        fails=("evaluate/half",),
        read="handbook/loss-functions.md#misleading-loss-values",
        explanation="""Losses of nan are left out, as by nanmean or nan_to_num. A model that computes nan for a real
        token then looks as good as any other. Leave out padding by its target, -100, and let nan reach the mean.""",
        change="""
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            totals = totals + losses.nansum(dim=0, dtype=torch.float64)
+            tokens = tokens + ((y != -100) & ~losses.isnan()).sum(dim=0)
""",
    ),
    KnownWrong(
        "neither_end",
        fails=("learning_rate/warm-up", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The schedule has two mistakes. The rate of step 0 is 0, so the first step changes nothing: use
        step + 1, because steps are counted from 0. After step `total_steps` the rate rises again, because the cosine's
        progress is not limited to 1.""",
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
        explanation="""The rate of step 0 is 0, and each later rate of the warm-up is that of the step before, as with
        step / warmup_steps. The first step changes nothing, and the warm-up ends below the peak. Use step + 1, because
        steps are counted from 0.""",
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
        explanation="""The rate is a tensor; the contract asks for a Python float. Some optimizer settings reject a
        tensor as learning rate, and json cannot write it into a log. math.cos returns a float.""",
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
        read="handbook/learning-rate-and-schedules.md#one-scheduler-step-per-update",
        explanation="""The rate depends on how often the function was called, not on `step`. A resumed run, a plot of
        the schedule, or a second call for one step then gets a wrong rate. Compute the rate from the arguments
        alone.""",
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
        read="handbook/learning-rate-and-schedules.md#three-conventions-of-linear-warm-up",
        explanation="""The warm-up rises by peak / (warmup_steps + 1) per step, so its last step is below the peak. Some
        programs do that; in this exercise the last of the `warmup_steps` steps has the peak. Divide by
        warmup_steps.""",
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
        applies only to the end of the cosine. The warm-up rises from 0 by peak / warmup_steps per step.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return floor + (peak - floor) * (step + 1) / warmup_steps
""",
    ),
    KnownWrong(
        "warm_up_not_below_the_floor",
        fails=("learning_rate/warm-up",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The warm-up never goes below the floor. The floor applies only to the end of the cosine. The
        warm-up rises from 0 by peak / warmup_steps per step, so its first rates may be below the floor.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return max(floor, peak * (step + 1) / warmup_steps)
""",
    ),
    KnownWrong(
        "cosine_from_step_zero",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine's progress is counted from step 0, not from the end of the warm-up. At step
        `warmup_steps` the rate is therefore below the peak. The progress is 0 at step `warmup_steps`.""",
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
        warmup_steps. The last step of the warm-up is warmup_steps - 1: compare with <, not <=.""",
        change="""
-    if step < warmup_steps:
+    if step <= warmup_steps:
""",
    ),
    KnownWrong(
        "floor_on_top",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine starts at peak + floor. It falls from the peak to the floor, so its height is peak -
        floor, not peak.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return floor + peak * 0.5 * (1 + math.cos(math.pi * progress))
""",
    ),
    KnownWrong(
        "quarter_of_a_cosine",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate follows a quarter of a cosine's period, so it falls fastest where it reaches the floor.
        The schedule is half a period, 0.5 * (1 + cos(pi * progress)), which is flat at both ends.""",
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
        explanation="""The cosine takes total_steps steps from the end of the warm-up, so it ends warmup_steps steps too
        late. Divide by total_steps - warmup_steps.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, (step - warmup_steps) / total_steps)
""",
    ),
    KnownWrong(
        "pi_forgotten",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine's angle runs only from 0 to 1, so the rate falls little and does not reach the floor.
        The cosine falls from 1 to -1 over angles from 0 to pi: multiply the progress by pi.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return floor + (peak - floor) * 0.5 * (1 + math.cos(progress))
""",
    ),
    KnownWrong(
        "floor_as_a_share",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The floor is used as a share of the peak: the cosine ends at floor * peak. `floor` is a learning
        rate, like `peak`: end at floor.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "floor_as_a_limit",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate follows a cosine from peak to 0, but never goes below the floor. It reaches the floor
        too early, and every rate between the two ends is too low. Let the cosine fall from peak to floor instead.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return max(floor, peak * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "floor_forgotten",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine falls to 0 instead of to the floor. The last steps then hardly change the weights, and
        a step with rate 0 changes nothing.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak * 0.5 * (1 + math.cos(math.pi * progress))
""",
    ),
    KnownWrong(
        "linear_decay",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate falls along a straight line. The contract asks for a cosine, which stays near the peak
        at the beginning and near the floor at the end.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak + (floor - peak) * progress
""",
    ),
    KnownWrong(
        "cosine_one_step_ahead",
        fails=("learning_rate/cosine",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The cosine is one step ahead: each rate is that of the next step, so the cosine begins below the
        peak. The progress at step `warmup_steps` is 0.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, (step + 1 - warmup_steps) / (total_steps - warmup_steps))
""",
    ),
    KnownWrong(
        "cosine_runs_on",
        fails=("learning_rate/after",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate rises again after step `total_steps`, because the cosine's progress is not limited to 1.
        A run that is continued would then train at a rising rate. Limit the progress to 1.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = (step - warmup_steps) / (total_steps - warmup_steps)
""",
    ),
    KnownWrong(
        "zero_after_the_end",
        fails=("learning_rate/after",),
        read="handbook/learning-rate-and-schedules.md#warm-up-and-cosine-step-by-step",
        explanation="""The rate is 0 after step `total_steps`, so a run that is continued learns nothing. Every later
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
        explanation="""A warm-up of 0 steps makes the function divide by 0. No step is then in the warm-up. Check
        whether the step is in the warm-up before you divide by warmup_steps.""",
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
        read="handbook/optimizers.md#adamw-decoupled-weight-decay",
        explanation="""The weights do not decay. AdamW reduces each weight in each step by lr * weight_decay times the
        weight, and its default weight_decay is 0.01. Adam does not, and neither does AdamW with weight_decay=0.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "optimizer_every_step",
        fails=("overfit_one_batch/losses",),
        read="handbook/training-loop.md#memory-during-a-step",
        explanation="""AdamW starts with empty averages in every step, as a new optimizer does. Each step then moves
        each weight by about the full rate, so the loss does not settle. Create one optimizer before the loop.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
@@
     while len(losses) < max_steps and (not losses or losses[-1] >= target):
+        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "graphs_in_the_list",
        fails=("overfit_one_batch/losses", "overfit_one_batch/gives-up"),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""The list holds tensors; the contract asks for Python floats. A tensor with a graph keeps that
        graph in memory as long as the list exists: one graph per step. Append loss.item().""",
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
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The first loss below the target is missing from the list. The list has one loss per step, that of
        the last step included.""",
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
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""Gradients of earlier steps are part of the update: backward() adds to p.grad, and nothing clears
        it between the steps. The first update is right and every later one is wrong.""",
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
        explanation="""`lr` has no effect: the optimizer uses its default learning rate, which is 0.001 for AdamW. With
        lr=0 the weights must not move. Pass lr to the optimizer.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.AdamW(model.parameters())
""",
    ),
    KnownWrong(
        "overfit_while_clipping",
        fails=("overfit_one_batch/losses",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is clipped. AdamW nearly cancels a factor that is the same in every step, so the
        losses look similar, but they differ from the expected ones. Pass max_norm=math.inf, which clips nothing.""",
        change="""
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
+        loss, _ = train_step(model, optimizer, x, y, 1.0)
""",
    ),
    KnownWrong(
        "plain_sgd",
        fails=("overfit_one_batch/losses",),
        read="handbook/optimizers.md#choosing-an-optimizer",
        explanation="""The optimizer is SGD, which multiplies the gradient by the rate. The contract asks for AdamW,
        whose steps are about as long as the rate for gradients of any size.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "norms_do_not_decay",
        fails=("overfit_one_batch/losses",),
        read="handbook/optimizers.md#which-weights-decay",
        explanation="""Vectors, such as the weights of norms, do not decay. Many recipes do that, but the contract asks
        for one AdamW with default settings, which decays every parameter by lr * 0.01 of its value per step.""",
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
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The update for the last loss is missing: the loss is in the list, but the weights are those
        before its step. The number of updates is then one less than the number of losses. Stop after the update.""",
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
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The losses are right, but the caller's model has its old weights, as when a copy was trained. The
        contract asks to train the given model in place.""",
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
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""One more step is taken after the first loss below the target. Compare each loss with the target
        right after its own step.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and (len(losses) < 2 or losses[-2] >= target):
""",
    ),
    KnownWrong(
        "target_ignored",
        fails=("overfit_one_batch/stops", "overfit_one_batch/below"),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The function takes max_steps steps even when the loss is below the target. A test that could end
        in a second then runs to its limit. Stop after the first loss below the target.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    for _ in range(max_steps):
""",
    ),
    KnownWrong(
        "stops_at_the_target",
        fails=("overfit_one_batch/below",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""A loss that equals the target ends the loop. The contract asks for a loss below the target: stop
        at loss < target, not at <=.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and (not losses or losses[-1] > target):
""",
    ),
    KnownWrong(
        "one_step_at_least",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The function takes one step even with max_steps=0. Compare the number of steps with max_steps
        before the first step.""",
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
        "max_steps_passed_by",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""With max_steps=0 the loop does not end. It takes a step and then asks whether the number of steps
        equals max_steps: 1 is not 0, and later numbers are not either. Ask before the first step, with <.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while True:
         loss, _ = train_step(model, optimizer, x, y, math.inf)
         losses.append(loss)
+        if losses[-1] < target or len(losses) == max_steps:
+            break
""",
    ),
    KnownWrong(
        "one_step_too_many",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The function takes max_steps + 1 steps, as when the number of steps is compared before the
        current step is counted, or with <= instead of <.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) <= max_steps and (not losses or losses[-1] >= target):
""",
    ),
    KnownWrong(
        "gives_up_without_progress",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The training stops early where the loss no longer falls. A loss may rise for a while and then
        fall again, as with dropout. Stop only below the target or after max_steps steps.""",
        change="""
         losses.append(loss)
+        if len(losses) > 20 and min(losses[-10:]) >= min(losses[:-10]):
+            break
""",
    ),
    KnownWrong(
        "overfits_in_eval_mode",
        fails=("overfit_one_batch/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model trains in evaluation mode and stays in it. The test then runs without dropout, which
        the real run has, and a run that goes on with this model has no dropout either. Train the model in the mode it
        has.""",
        change="""
+    model.eval()
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "overfits_in_training_mode",
        fails=("overfit_one_batch/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model trains in training mode although the caller had it in evaluation mode, and it stays in
        training mode. A caller may have turned dropout off to see the loss fall without its noise. Train the model in
        the mode it has.""",
        change="""
+    model.train()
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "overfits_on_old_gradients",
        fails=("overfit_one_batch/mode",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The first update uses gradients from before the call, because they are cleared only after each
        update. Clear all gradients before the first backward pass, or call train_step, which does.""",
        change="""
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+        loss.backward()
+        optimizer.step()
+        optimizer.zero_grad()
+        losses.append(loss.item())
""",
    ),
    KnownWrong(
        "kept_in_memory",
        fails=("checkpoint/file", "checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The state is not in the file but in a variable of the program, which is lost when the process
        ends. A run that resumes in another process finds nothing to load. Write all of the state into the file.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""save_checkpoint leaves no file at `path`. The file has another name, for example with another
        suffix, or it is in another folder, or it is not written. The caller chooses the whole name and expects the file
        there: pass `path` itself to torch.save, and to torch.load in load_checkpoint.""",
        change="""
-    torch.save(state, path)
+    torch.save(state, path.with_suffix(".pt"))
@@
-    state = torch.load(path, weights_only=True)
+    state = torch.load(path.with_suffix(".pt"), weights_only=True)
""",
    ),
    KnownWrong(
        "fixed_name",
        fails=("checkpoint/file", "checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""`path` has no effect: the name of the file is fixed in the code. A second run in the same folder
        then overwrites the first run's checkpoint, and a file that was renamed is not found. Pass `path` to torch.save
        and torch.load.""",
        change="""
-    torch.save(state, path)
+    torch.save(state, "checkpoint.pt")
@@
-    state = torch.load(path, weights_only=True)
+    state = torch.load("checkpoint.pt", weights_only=True)
""",
    ),
    KnownWrong(
        "opens_anything",
        fails=("checkpoint/file",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""load_checkpoint opens files with any content, as with weights_only=False. A pickle can run any
        function when it is opened, so a file from somebody else can run their code. Use weights_only=True: a checkpoint
        needs only tensors and plain values.""",
        change="""
-    state = torch.load(path, weights_only=True)
+    state = torch.load(path, weights_only=False)
""",
    ),
    KnownWrong(
        "whole_objects_pickled",
        fails=("checkpoint/file",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The file holds whole objects, such as the model instead of its state_dict(). Opening a pickled
        object can run code, so weights_only=True refuses the file. It also cannot be opened after its class is moved or
        changed. Save state_dict().""",
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
        "never_overwrites",
        fails=("checkpoint/file", "checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""A file that already exists at `path` is not replaced, so loading returns the first checkpoint
        saved there. A run that saves under one name then goes back to its beginning. Replace the file.""",
        change="""
-    torch.save(state, path)
+    if not path.exists():
+        torch.save(state, path)
""",
    ),
    KnownWrong(
        "one_step_further",
        fails=("checkpoint/step",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""load_checkpoint returns step + 1. With steps counted from 0 and `step` steps taken, the next step
        is number `step`: a run that resumes at step + 1 skips a batch. Return the saved step.""",
        change="""
-    return int(state["step"])
+    return state["step"] + 1
""",
    ),
    KnownWrong(
        "second_file",
        fails=("checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""Part of the state is in a second file beside the checkpoint. When the checkpoint is copied,
        renamed or downloaded, that file stays behind, and the run cannot be resumed. Write everything into one
        file.""",
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
        "buffers_forgotten",
        fails=("checkpoint/buffers",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The parameters are restored and the buffers are not. BatchNorm's averages are buffers: the
        training losses are right, but in evaluation mode the model uses the averages of a new model. Save
        model.state_dict(), which holds both.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The optimizer's state is not saved, or not restored. The first loss after loading is right,
        because it depends on the weights alone. After that the optimizer has empty averages and its own settings, so
        the losses differ from those of the uninterrupted run.""",
        change="""
-        "optimizer": optimizer.state_dict(),
@@
-    optimizer.load_state_dict(state["optimizer"])
""",
    ),
    KnownWrong(
        "settings_not_saved",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The optimizer's averages are restored and its settings are not. A schedule changes the learning
        rate, so the run would go on at the rate with which the new optimizer was created. Save all of
        optimizer.state_dict().""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The optimizer's state is restored, except for the learning rate. A schedule changes the rate, so
        the run would go on at the rate with which the new optimizer was created.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The checkpoint restores only the weights and the step. After loading, the optimizer has empty
        averages and dropout draws other masks, so the losses differ from those of the uninterrupted run. Save four
        things: model, optimizer, random state and step.""",
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
        "tensors_of_the_file",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The parameters are new tensors after loading, as with load_state_dict(assign=True). The optimizer
        was created with the old ones and updates those, so the model no longer learns. Copy the saved values into the
        parameters: load_state_dict without `assign`.""",
        change="""
-    model.load_state_dict(state["model"])
+    model.load_state_dict(state["model"], assign=True)
""",
    ),
    KnownWrong(
        "random_state_forgotten",
        fails=("checkpoint/random",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The state of the random generator is not saved, or not restored. A model with dropout draws other
        masks after loading, so its losses differ from the first step on, although weights and optimizer are right.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The generator starts again from the run's seed. The seed does not say how many numbers have been
        drawn since, so the dropout masks of the first steps come again. Save torch.get_rng_state() and restore it.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The generator is seeded on saving and on loading, and its state is not saved. Saving then changes
        the run that saves: it draws other dropout masks than without saving. Save torch.get_rng_state() and restore
        it.""",
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
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""Saving leaves another file beside the checkpoint, such as a temporary file or a copy of the
        earlier checkpoint. A run that saves every hour fills the disk with such files. Rename a temporary file to
        `path`, and remove it when saving fails.""",
        change="""
-    torch.save(state, path)
+    torch.save(state, path)
+    torch.save(state, path.with_suffix(".tmp"))
""",
    ),
    KnownWrong(
        "temporary_file_overwrites_another",
        fails=("checkpoint/one-file",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The temporary file has a name that another file may have, such as `run.tmp` for `run.pt`, from
        path.with_suffix(). That other file is then lost. Add to the whole name of `path` instead:
        path.with_name(path.name + ".partial").""",
        change="""
-    torch.save(state, path)
+    torch.save(state, path.with_suffix(".tmp"))
+    path.with_suffix(".tmp").replace(path)
""",
    ),
    KnownWrong(
        "checkpoint_consumed",
        fails=("checkpoint/one-file",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""Loading removes the file, changes it, or adds another file. If the run fails soon after it was
        resumed, it may have no checkpoint to start from. Only read the file.""",
        change="""
     state = torch.load(path, weights_only=True)
+    path.unlink()
""",
    ),
    KnownWrong(
        "saved_in_evaluation_mode",
        fails=("checkpoint/undisturbed",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Every module is in evaluation mode after saving. A run that trains then goes on without dropout,
        and torch raises no error. Saving needs no change of mode: state_dict() is the same in both.""",
        change="""
     }
+    model.eval()
""",
    ),
    KnownWrong(
        "saved_then_trained",
        fails=("checkpoint/undisturbed",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Every module is in training mode after saving, whatever mode it had. A BatchNorm that fine-tuning
        keeps in evaluation mode then changes its averages. Saving needs no change of mode: state_dict() is the same in
        both.""",
        change="""
     torch.save(state, path)
+    model.train()
""",
    ),
    KnownWrong(
        "loaded_in_training_mode",
        fails=("checkpoint/undisturbed",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Every module is in training mode after loading, whatever mode it had. A model that is loaded for
        an evaluation then runs with dropout, and torch raises no error. Leave the mode as it is: the caller sets
        it.""",
        change="""
     model.load_state_dict(state["model"])
+    model.train()
""",
    ),
    KnownWrong(
        "loaded_in_evaluation_mode",
        fails=("checkpoint/undisturbed",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Every module is in evaluation mode after loading, whatever mode it had. A run that trains then
        goes on without dropout, and BatchNorm's averages no longer change; torch raises no error. Leave the mode as it
        is.""",
        change="""
     model.load_state_dict(state["model"])
+    model.eval()
""",
    ),
    KnownWrong(
        "clears_to_save",
        fails=("checkpoint/undisturbed",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""Saving clears the gradients. A run that accumulates gradients over several batches loses the
        gradients that it had so far. state_dict() holds no gradients, so there is nothing to clear.""",
        change="""
+    optimizer.zero_grad()
     state = {
""",
    ),
)

HURRIED = {
    "train_step": {
        "one rate for all groups": """
-    optimizer.step()
+    for group in optimizer.param_groups:
+        group["lr"] = optimizer.param_groups[0]["lr"]
+    optimizer.step()
""",
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
        "rounds the loss": """
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and (not losses or round(losses[-1], 6) >= target):
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
