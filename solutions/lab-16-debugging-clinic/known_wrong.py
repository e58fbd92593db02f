"""Known-wrong solutions of Lab 16, and hurried answers, as changes to exercises.py.

Of each patient, one is the patient itself, and the others cure a symptom, or too much.
"""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "never_cleared",
        fails=("cure_01/healthy",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The gradients of all earlier updates are still in `.grad` when the backward pass adds
        new ones: each update uses their sum.""",
        change="""
-        optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "smaller_rate_over_old_gradients",
        fails=("cure_01/healthy",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""A smaller learning rate makes the updates smaller, but they still use the sum of all
        gradients so far: the gradient norm grows as before.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1)
+    optimizer = torch.optim.AdamW(model.parameters(), lr=lr / 10, betas=(0.9, 0.95), weight_decay=0.1)
@@
-        optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "cleared_before_the_update",
        fails=("cure_01/healthy",),
        read="handbook/training-loop.md#the-order-of-the-calls",
        explanation="""The gradients are cleared after the backward pass and before the update, which then
        has no gradient to use: the weights never move.""",
        change="""
         loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
-        optimizer.zero_grad()
         loss.backward()
         norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
+        optimizer.zero_grad()
         optimizer.step()
""",
    ),
    KnownWrong(
        "sum_of_means",
        fails=("cure_02/healthy",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""The gradients of the micro-batches' mean losses are added up and not divided: the
        update uses `accumulate` times the gradient of the batch.""",
        change="""
-            (loss / accumulate).backward()
+            loss.backward()
""",
    ),
    KnownWrong(
        "smaller_rate_for_the_sum",
        fails=("cure_02/healthy",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Dividing the learning rate makes the updates small again, but the gradient is still
        `accumulate` times too large beside weight decay, whose share shrinks with the rate, and in the log.""",
        change="""
-    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-2)
+    optimizer = torch.optim.SGD(model.parameters(), lr=lr / accumulate, momentum=0.9, weight_decay=1e-2)
@@
-            (loss / accumulate).backward()
+            loss.backward()
""",
    ),
    KnownWrong(
        "divided_by_the_batch_size",
        fails=("cure_02/healthy",),
        read="handbook/gradient-mechanics.md#accumulation-over-micro-batches",
        explanation="""Each micro-batch's loss is a mean over its rows already. Divided by the number of
        rows in the batch as well, the gradient is too small by the size of a micro-batch.""",
        change="""
-            (loss / accumulate).backward()
+            (loss / batch_size).backward()
""",
    ),
    KnownWrong(
        "stays_in_eval_mode",
        fails=("cure_03/healthy",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""After the first validation the model stays in evaluation mode: dropout drops nothing
        and BatchNorm's statistics no longer follow the training batches.""",
        change="""
     log: Log = {"loss": [], "val_loss": []}
+    model.train()
     for step in range(1, steps + 1):
-        model.train()
         rows = torch.randint(len(images), (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "validates_in_training_mode",
        fails=("cure_03/healthy",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is in training mode all the time, also in the validation: dropout is on,
        and BatchNorm normalizes with the validation batch and takes it into its running averages.""",
        change="""
-            model.eval()
""",
    ),
    KnownWrong(
        "smaller_rate_in_eval_mode",
        fails=("cure_03/healthy",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""A smaller learning rate overfits later, but the model still trains in evaluation mode
        after the first validation.""",
        change="""
     generator = torch.Generator().manual_seed(seed)
-    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
+    optimizer = torch.optim.SGD(model.parameters(), lr=lr / 10, momentum=0.9)
     log: Log = {"loss": [], "val_loss": []}
+    model.train()
     for step in range(1, steps + 1):
-        model.train()
         rows = torch.randint(len(images), (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "validates_in_train_mode",
        fails=("cure_04/healthy",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is in training mode in the validation: dropout is on, and BatchNorm
        normalizes with the validation batch and takes it into its running averages. `no_grad` changes
        neither.""",
        change="""
-            model.eval()
""",
    ),
    KnownWrong(
        "trains_in_eval_mode",
        fails=("cure_04/healthy",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is in evaluation mode all the time: the validation is right, but dropout
        and BatchNorm's statistics are off in training, too.""",
        change="""
-        model.train()
+        model.eval()
@@
-            model.eval()
""",
    ),
    KnownWrong(
        "dropout_alone_is_off",
        fails=("cure_04/healthy",),
        read="handbook/regularization.md#norms-are-not-regularizers",
        explanation="""Dropout is off in the validation, but BatchNorm still normalizes with the validation
        batch and takes it into its running averages: `model.eval()` switches both.""",
        change="""
         if step % every == 0:
-            model.eval()
             total = 0.0
+            for module in model.modules():
+                if isinstance(module, nn.Dropout):
+                    module.eval()
             with torch.no_grad():
""",
    ),
    KnownWrong(
        "softmax_twice",
        fails=("cure_05/healthy",),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""`cross_entropy` gets probabilities and applies its log-softmax to them: all logits
        lie between 0 and 1, so that the loss cannot fall far.""",
        change="""
-        scores = model(images[rows])  # [B, K], logits
+        scores = model(images[rows]).softmax(dim=-1)  # [B, K]
""",
    ),
    KnownWrong(
        "higher_rate",
        fails=("cure_05/healthy",),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""A higher learning rate does not help: `cross_entropy` still gets probabilities, whose
        log-softmax has a least value far above 0.""",
        change="""
-    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
+    optimizer = torch.optim.Adam(model.parameters(), lr=10 * lr)
@@
-        scores = model(images[rows])  # [B, K], logits
+        scores = model(images[rows]).softmax(dim=-1)  # [B, K]
""",
    ),
    KnownWrong(
        "likelihood_without_log",
        fails=("cure_05/healthy",),
        read="handbook/loss-functions.md#cross-entropy",
        explanation="""`nll_loss` expects log-probabilities. Given probabilities, it returns minus the mean
        probability of the right class, which is negative and has other gradients.""",
        change="""
-        scores = model(images[rows])  # [B, K], logits
-        loss = F.cross_entropy(scores, labels[rows])
+        scores = model(images[rows]).softmax(dim=-1)  # [B, K]
+        loss = F.nll_loss(scores, labels[rows])
""",
    ),
    KnownWrong(
        "epochs_counted_in_batches",
        fails=("cure_06/healthy",),
        read="handbook/learning-rate-and-schedules.md#one-scheduler-step-per-update",
        explanation="""The schedule's length is a number of epochs, but it is stepped per batch: the
        learning rate is 0 after as many batches as there are epochs.""",
        change="""
             optimizer.step()
+            scheduler.step()
             log["loss"].append(loss.item())
-        scheduler.step()
     return log
""",
    ),
    KnownWrong(
        "no_schedule",
        fails=("cure_06/healthy",),
        read="handbook/learning-rate-and-schedules.md#one-scheduler-step-per-update",
        explanation="""Without the schedule the learning rate stays at `lr` to the end: the run learns, but
        not with the rates that were asked for.""",
        change="""
-    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)
@@
-        scheduler.step()
""",
    ),
    KnownWrong(
        "longer_schedule",
        fails=("cure_06/healthy",),
        read="handbook/learning-rate-and-schedules.md#one-scheduler-step-per-update",
        explanation="""The schedule is longer than the run, or shorter: its length must be the number of
        times that it is stepped.""",
        change="""
     optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
-    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)
+    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=10 * epochs)
     log: Log = {"loss": []}
@@
             optimizer.step()
+            scheduler.step()
             log["loss"].append(loss.item())
-        scheduler.step()
     return log
""",
    ),
    KnownWrong(
        "optimizer_before_the_head",
        fails=("cure_07/healthy",),
        read="handbook/tensors-and-modules.md#modules",
        explanation="""The optimizer was made before the new head: it holds the old head's parameters, and
        never moves those of the new one.""",
        change="""
     generator = torch.Generator().manual_seed(seed)
+    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
     model[-1] = head  # in place of the pretrained head
-    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
     log: Log = {"loss": []}
""",
    ),
    KnownWrong(
        "higher_rate_without_the_head",
        fails=("cure_07/healthy",),
        read="handbook/tensors-and-modules.md#modules",
        explanation="""A higher learning rate moves the other layers faster; the new head is still in no
        optimizer.""",
        change="""
     generator = torch.Generator().manual_seed(seed)
+    optimizer = torch.optim.SGD(model.parameters(), lr=10 * lr, momentum=0.9)
     model[-1] = head  # in place of the pretrained head
-    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
     log: Log = {"loss": []}
""",
    ),
    KnownWrong(
        "head_alone",
        fails=("cure_07/healthy",),
        read="handbook/tensors-and-modules.md#modules",
        explanation="""The optimizer has the new head's parameters and no others: the layers below keep
        their weights.""",
        change="""
-    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
+    optimizer = torch.optim.SGD(head.parameters(), lr=lr, momentum=0.9)
""",
    ),
    KnownWrong(
        "features_without_a_graph",
        fails=("cure_08/healthy",),
        read="handbook/gradient-mechanics.md#stopping-a-gradient",
        explanation="""The features reach the head without their graph: the encoder gets no gradient and
        keeps its weights.""",
        change="""
-        features = features.relu()
+        features = features.data.relu()
""",
    ),
    KnownWrong(
        "higher_rate_without_a_graph",
        fails=("cure_08/healthy",),
        read="handbook/gradient-mechanics.md#stopping-a-gradient",
        explanation="""A higher learning rate moves the head faster; the encoder still gets no gradient.""",
        change="""
-    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=lr)
+    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=10 * lr)
@@
-        features = features.relu()
+        features = features.data.relu()
""",
    ),
    KnownWrong(
        "without_relu",
        fails=("cure_08/healthy",),
        read="handbook/gradient-mechanics.md#stopping-a-gradient",
        explanation="""The encoder is trained again, but its output reaches the head as it is: the head's
        input is the positive part of the features.""",
        change="""
-        features = features.relu()
+        features = features
""",
    ),
    KnownWrong(
        "standard_deviation_of_1",
        fails=("cure_09/start", "cure_09/learns"),
        read="handbook/loss-functions.md#the-loss-of-an-untrained-model",
        explanation="""Weights with a standard deviation of 1 make logits so large that the model begins
        with confident wrong answers: the first loss is far above ln V.""",
        change="""
-            nn.init.normal_(parameter, std=0.02)
+            nn.init.normal_(parameter)
""",
    ),
    KnownWrong(
        "smaller_rate_from_large_weights",
        fails=("cure_09/start", "cure_09/learns"),
        read="handbook/loss-functions.md#the-loss-of-an-untrained-model",
        explanation="""A smaller learning rate changes nothing about the first loss, which the initial
        weights decide.""",
        change="""
-            nn.init.normal_(parameter, std=0.02)
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
+            nn.init.normal_(parameter)
+    optimizer = torch.optim.AdamW(model.parameters(), lr=lr / 10, weight_decay=0.01)
""",
    ),
    KnownWrong(
        "all_weights_zero",
        fails=("cure_09/start", "cure_09/learns"),
        read="handbook/loss-functions.md#the-loss-of-an-untrained-model",
        explanation="""All matrices are 0: the first loss is exactly ln V, but every logit is equal and
        every gradient of a matrix is a product with zeros, so that nothing is learned.""",
        change="""
-            nn.init.normal_(parameter, std=0.02)
+            nn.init.normal_(parameter, std=0.0)
""",
    ),
    KnownWrong(
        "pictures_alone_shuffled",
        fails=("cure_10/healthy",),
        read="handbook/engineering-tips.md#three-tests-before-the-first-epoch",
        explanation="""The pictures are in a random order and the labels in the old one: most pictures have
        another picture's label.""",
        change="""
-            y = labels[order[first : first + batch_size]]
+            y = labels[first : first + batch_size]
""",
    ),
    KnownWrong(
        "nothing_shuffled",
        fails=("cure_10/healthy",),
        read="handbook/input-pipeline.md#order-and-random-numbers",
        explanation="""Pictures and labels belong together again, but each epoch draws them in the same
        order, that of the data set.""",
        change="""
-        pictures = images[order]
+        pictures = images
@@
-            y = labels[order[first : first + batch_size]]
+            y = labels[first : first + batch_size]
""",
    ),
    KnownWrong(
        "labels_in_their_own_order",
        fails=("cure_10/healthy",),
        read="handbook/engineering-tips.md#three-tests-before-the-first-epoch",
        explanation="""Pictures and labels are shuffled by different orders: most pictures have another
        picture's label.""",
        change="""
-            y = labels[order[first : first + batch_size]]
+            y = labels[order.flip(0)[first : first + batch_size]]
""",
    ),
    KnownWrong(
        "seeded_in_the_loop",
        fails=("cure_11/healthy",),
        read="handbook/input-pipeline.md#order-and-random-numbers",
        explanation="""The generator begins with the same seed in every step, so that every step draws the
        same batch.""",
        change="""
-    generator = torch.Generator().manual_seed(seed)
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
@@
         model.train()
+        generator = torch.Generator().manual_seed(seed)
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "smaller_rate_on_one_batch",
        fails=("cure_11/healthy",),
        read="handbook/input-pipeline.md#order-and-random-numbers",
        explanation="""A smaller learning rate learns the batch by heart more slowly: every step still draws
        the same batch.""",
        change="""
-    generator = torch.Generator().manual_seed(seed)
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    optimizer = torch.optim.AdamW(model.parameters(), lr=lr / 10)
     val_windows = val_tokens.unfold(0, block_size + 1, block_size)  # [N, T + 1]
@@
         model.train()
+        generator = torch.Generator().manual_seed(seed)
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "a_batch_for_two_steps",
        fails=("cure_11/healthy",),
        read="handbook/input-pipeline.md#order-and-random-numbers",
        explanation="""Steps share batches: a seed that is the same in several steps gives the same draws in
        each of them.""",
        change="""
-    generator = torch.Generator().manual_seed(seed)
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
@@
         model.train()
+        generator = torch.Generator().manual_seed(seed + len(log["loss"]) // 2)
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "targets_are_inputs",
        fails=("cure_12/healthy",),
        read="handbook/training-loop.md#inputs-and-targets",
        explanation="""The targets are the inputs at the same positions: the model is asked to repeat each
        token, not to predict the next one.""",
        change="""
-        targets = windows[:, 1:].flatten()
+        targets = windows[:, :-1].flatten()
""",
    ),
    KnownWrong(
        "targets_rolled",
        fails=("cure_12/healthy",),
        read="handbook/training-loop.md#inputs-and-targets",
        explanation="""The targets are the inputs moved by one position, with the first token of the window
        as the last target: the last position is asked for a token that does not follow.""",
        change="""
-        targets = windows[:, 1:].flatten()
+        targets = windows[:, :-1].roll(-1, dims=1).flatten()
""",
    ),
    KnownWrong(
        "predicts_the_token_before",
        fails=("cure_12/healthy",),
        read="handbook/training-loop.md#inputs-and-targets",
        explanation="""Inputs and targets are exchanged: the model is asked for the token before each input,
        which it has just seen.""",
        change="""
-        inputs = windows[:, :-1]
-        targets = windows[:, 1:].flatten()
+        inputs = windows[:, 1:]
+        targets = windows[:, :-1].flatten()
""",
    ),
    KnownWrong(
        "no_mask",
        fails=("cure_13/healthy",),
        read="handbook/forward-pass.md#from-token-ids-to-logits",
        explanation="""Every position attends to all positions, also to later ones, which hold the tokens
        that it is asked to predict.""",
        change="""
-        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)  # [T, T]
-        scores = scores.masked_fill(hidden, -math.inf)
""",
    ),
    KnownWrong(
        "mask_off_by_one",
        fails=("cure_13/healthy",),
        read="handbook/forward-pass.md#from-token-ids-to-logits",
        explanation="""The mask begins one position too late: each position still attends to the next one,
        whose token is its target.""",
        change="""
-        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)  # [T, T]
+        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(2)  # [T, T]
""",
    ),
    KnownWrong(
        "masked_after_the_softmax",
        fails=("cure_13/healthy",),
        read="handbook/forward-pass.md#from-token-ids-to-logits",
        explanation="""The weights of later positions are set to 0 after the softmax, so that the remaining
        weights of a row do not add up to 1. Scores of -inf before the softmax give weights that do.""",
        change="""
-        scores = scores.masked_fill(hidden, -math.inf)
-        x = x + model["out"](scores.softmax(dim=-1) @ v)
+        attention = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
+        x = x + model["out"](attention @ v)
""",
    ),
    KnownWrong(
        "validates_on_training_rows",
        fails=("cure_14/healthy",),
        read="handbook/input-pipeline.md#training-data-and-validation-data",
        explanation="""The validation rows are training rows: the validation loss measures what the model
        has learned by heart.""",
        change="""
-    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out:]
+    train_rows, val_rows = shuffled[:-held_out], shuffled[:held_out]
""",
    ),
    KnownWrong(
        "trains_on_all_rows",
        fails=("cure_14/healthy",),
        read="handbook/input-pipeline.md#training-data-and-validation-data",
        explanation="""All rows are training rows, so that the validation rows are among them.""",
        change="""
-    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out:]
+    train_rows, val_rows = shuffled, shuffled[-held_out:]
""",
    ),
    KnownWrong(
        "shares_one_row",
        fails=("cure_14/healthy",),
        read="handbook/input-pipeline.md#training-data-and-validation-data",
        explanation="""The two slices meet in the wrong place: one row is in both parts, and another in
        none.""",
        change="""
-    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out:]
+    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out - 1 : -1]
""",
    ),
    KnownWrong(
        "divided_by_the_batches",
        fails=("cure_15/healthy",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The sum over all validation pictures is divided by the number of batches, not by the
        number of pictures.""",
        change="""
-            val_losses.append(sum(sums) / len(val_images))
+            val_losses.append(sum(sums) / len(sums))
""",
    ),
    KnownWrong(
        "graphs_kept",
        fails=("cure_15/memory",),
        read="handbook/engineering-tips.md#memory-that-stays",
        explanation="""The validation losses are kept as tensors with their graphs: each of them keeps the
        activations of a whole validation in memory until the end of the run.""",
        change="""
-            sums = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in batches]
+            sums = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
@@
-    return {"loss": [v.item() for v in losses], "val_loss": val_losses, "memory": memory}
+    return {"loss": [v.item() for v in losses], "val_loss": [v.item() for v in val_losses], "memory": memory}
""",
    ),
    KnownWrong(
        "last_graphs_kept",
        fails=("cure_15/memory",),
        read="handbook/engineering-tips.md#memory-that-stays",
        explanation="""Fewer graphs stay in memory than before, but some validation losses are still tensors
        with a graph behind them.""",
        change="""
             batches = zip(val_images.split(batch_size), val_labels.split(batch_size), strict=True)
-            sums = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in batches]
+            sums = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
             val_losses.append(sum(sums) / len(val_images))
+            val_losses[:-2] = [value.detach() for value in val_losses[:-2]]
             memory.append(memory_mib())
-    return {"loss": [v.item() for v in losses], "val_loss": val_losses, "memory": memory}
+    return {"loss": [v.item() for v in losses], "val_loss": [v.item() for v in val_losses], "memory": memory}
""",
    ),
    KnownWrong(
        "encoded_in_each_step",
        fails=("cure_16/healthy",),
        read="handbook/input-pipeline.md#finding-a-starved-loop",
        explanation="""The text is encoded in every step, although its tokens do not change: the model waits
        for work that was done before.""",
        change="""
     device = next(model.parameters()).device
-    tokens = encode(text)  # [N]
     log: Log = {"loss": [], "waiting": []}
@@
         began = time.perf_counter()
+        tokens = encode(text)  # [N]
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "encoded_in_every_second_step",
        fails=("cure_16/healthy",),
        read="handbook/input-pipeline.md#finding-a-starved-loop",
        explanation="""The text is encoded less often, but still again and again: its tokens do not change
        from step to step.""",
        change="""
     device = next(model.parameters()).device
-    tokens = encode(text)  # [N]
     log: Log = {"loss": [], "waiting": []}
@@
         began = time.perf_counter()
+        tokens = encode(text) if len(log["loss"]) % 2 == 0 else tokens  # [N]
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
""",
    ),
    KnownWrong(
        "half_of_the_text",
        fails=("cure_16/healthy",),
        read="handbook/input-pipeline.md#finding-a-starved-loop",
        explanation="""A shorter text is encoded faster, but the run then trains on other windows: the data
        are not the ones that were asked for.""",
        change="""
-    tokens = encode(text)  # [N]
+    tokens = encode(text[: len(text) // 2])  # [N]
""",
    ),
    KnownWrong(
        "a_row_per_channel",
        fails=("cure_17/healthy",),
        read="handbook/tensors-and-modules.md#shapes-of-a-batch",
        explanation="""The features of a picture are still in several rows, one per channel: the head
        expects all features of a picture in one row.""",
        change="""
-        logits = head(features.flatten(1))
+        logits = head(features.flatten(2))
""",
    ),
    KnownWrong(
        "channels_last",
        fails=("cure_17/healthy",),
        read="handbook/tensors-and-modules.md#shapes-of-a-batch",
        explanation="""Each picture has one row of features, but in another order than the head's: places
        first, then channels.""",
        change="""
-        logits = head(features.flatten(1))
+        logits = head(features.permute(0, 2, 3, 1).flatten(1))
""",
    ),
    KnownWrong(
        "one_row_for_the_batch",
        fails=("cure_17/healthy",),
        read="handbook/tensors-and-modules.md#shapes-of-a-batch",
        explanation="""The features of all pictures are in one row: the first dimension, the batch, must
        stay.""",
        change="""
-        logits = head(features.flatten(1))
+        logits = head(features.flatten())
""",
    ),
    KnownWrong(
        "moved_and_dropped",
        fails=("cure_18/device",),
        read="handbook/tensors-and-modules.md#modules",
        explanation="""`x.to(device)` returns a new tensor; without an assignment x stays where it was. Only
        a module moves in place.""",
        change="""
-        x, y = images[rows].to(device), labels[rows].to(device)
+        x, y = images[rows], labels[rows]
+        x.to(device)
+        y.to(device)
""",
    ),
    KnownWrong(
        "all_on_the_cpu",
        fails=("cure_18/device",),
        read="handbook/tensors-and-modules.md#modules",
        explanation="""The model and the data meet on the CPU: nothing runs on the device that was asked
        for.""",
        change="""
     generator = torch.Generator().manual_seed(seed)
+    device = "cpu"
     model = model.to(device)
""",
    ),
    KnownWrong(
        "losses_as_numbers",
        fails=("cure_18/device",),
        read="handbook/engineering-tips.md#ask-the-device-rarely",
        explanation="""Each loss is read as a Python number in its step, for which the program waits until
        the device is done; the log of the losses is then no tensor on the device.""",
        change="""
-        losses.append(loss.detach())
-    return {"loss": torch.stack(losses)}  # on `device`: reading a number would wait for it
+        losses.append(loss.item())
+    return {"loss": torch.tensor(losses)}  # on `device`: reading a number would wait for it
""",
    ),
    KnownWrong(
        "tensor_of_numbers",
        fails=("cure_19/healthy",),
        read="handbook/tensors-and-modules.md#which-results-need-a-gradient",
        explanation="""The loss is a new tensor, made of numbers: it has no grad_fn, so that backward has
        nowhere to go.""",
        change="""
-            losses.append(F.cross_entropy(model(x), labels[rows]))
-        loss = torch.stack(losses).mean()
+            losses.append(F.cross_entropy(model(x), labels[rows]).item())
+        loss = torch.tensor(losses).mean()
""",
    ),
    KnownWrong(
        "requires_grad_set_by_hand",
        fails=("cure_19/healthy",),
        read="handbook/tensors-and-modules.md#which-results-need-a-gradient",
        explanation="""`requires_grad_` makes backward run, but the loss is a leaf without a history: no
        parameter gets a gradient, and nothing is learned.""",
        change="""
-            losses.append(F.cross_entropy(model(x), labels[rows]))
-        loss = torch.stack(losses).mean()
+            losses.append(F.cross_entropy(model(x), labels[rows]).item())
+        loss = torch.tensor(losses).mean().requires_grad_()
""",
    ),
    KnownWrong(
        "last_view_only",
        fails=("cure_19/healthy",),
        read="handbook/tensors-and-modules.md#which-results-need-a-gradient",
        explanation="""Only one of the views is in the loss that is differentiated: the others cost a
        forward pass and teach nothing.""",
        change="""
-        loss = torch.stack(losses).mean()
+        loss = losses[-1]
""",
    ),
    KnownWrong(
        "data_in_float64",
        fails=("cure_20/healthy",),
        read="handbook/precision.md#range-and-precision-of-a-format",
        explanation="""NumPy's numbers are float64 and torch.from_numpy keeps that: data and weights have
        two dtypes.""",
        change="""
-    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float().to(device)
+    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).to(device)
""",
    ),
    KnownWrong(
        "model_in_float64",
        fails=("cure_20/healthy",),
        read="handbook/precision.md#range-and-precision-of-a-format",
        explanation="""The model is converted to the data's float64, which doubles its memory and makes GPUs
        many times slower: convert the data instead.""",
        change="""
     device = next(model.parameters()).device
-    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float().to(device)
+    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).to(device)
     targets = torch.from_numpy(labels.astype(np.int64)).to(device)
+    model = model.double()
     optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
""",
    ),
    KnownWrong(
        "not_normalized",
        fails=("cure_20/healthy",),
        read="handbook/precision.md#range-and-precision-of-a-format",
        explanation="""The dtypes fit, but the pictures are no longer normalized: mean and standard
        deviation are gone together with the float64.""",
        change="""
-    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float().to(device)
+    images = torch.from_numpy(pictures).float().to(device)
""",
    ),
    KnownWrong(
        "started_apart",
        fails=("cure_21/start", "cure_21/healthy"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""Each rank begins with its own weights. Averaged gradients move all ranks alike, so
        that they stay apart by as much as at the start.""",
        change="""
-    for tensor in model.state_dict().values():
-        dist.broadcast(tensor, src=0)
""",
    ),
    KnownWrong(
        "equal_at_the_end",
        fails=("cure_21/start", "cure_21/healthy"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""The weights are made equal after the training: until then each rank's gradient
        belonged to other weights than those that it moved.""",
        change="""
     rank, world = dist.get_rank(), dist.get_world_size()
-    for tensor in model.state_dict().values():
-        dist.broadcast(tensor, src=0)
     generator = torch.Generator().manual_seed(seed)
@@
         log["weight_sum"].append(sum(parameter.sum().item() for parameter in model.parameters()))
+    for parameter in model.parameters():
+        dist.broadcast(parameter.data, src=0)
     return log
""",
    ),
    KnownWrong(
        "mean_of_the_starts",
        fails=("cure_21/start", "cure_21/healthy"),
        read="handbook/distributed-data-parallel.md#one-average",
        explanation="""All ranks begin with the mean of their random weights, which are smaller than the
        weights of any rank: the mean of K independent numbers has a standard deviation that is smaller by
        the root of K.""",
        change="""
-        dist.broadcast(tensor, src=0)
+        dist.all_reduce(tensor)
+        tensor /= world
""",
    ),
    KnownWrong(
        "mean_of_means",
        fails=("cure_22/healthy",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The mean of the ranks' means is not the mean over all pictures where the ranks have
        parts of different sizes.""",
        change="""
-                total = F.cross_entropy(model(val_images[rank::world]), val_labels[rank::world], reduction="sum")
+                total = F.cross_entropy(model(val_images[rank::world]), val_labels[rank::world])
@@
-            log["val_loss"].append(total.item() / len(val_images))
+            log["val_loss"].append(total.item() / world)
""",
    ),
    KnownWrong(
        "one_rank_validates",
        fails=("cure_22/share",),
        read="handbook/distributed-data-parallel.md#waiting-for-the-slowest-rank",
        explanation="""One rank validates alone, and all others wait for it in the next collective.""",
        change="""
         loss.backward()
-        if step % every == 0:
+        if rank == 0 and step % every == 0:
             with torch.no_grad():
-                total = F.cross_entropy(model(val_images[rank::world]), val_labels[rank::world], reduction="sum")
+                log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
         log["seconds"].append(time.perf_counter() - began)  # before this rank waits for the others
-        if step % every == 0:
-            dist.all_reduce(total)
-            log["val_loss"].append(total.item() / len(val_images))
         for parameter in model.parameters():
""",
    ),
    KnownWrong(
        "every_rank_validates_all",
        fails=("cure_22/share",),
        read="handbook/distributed-data-parallel.md#waiting-for-the-slowest-rank",
        explanation="""Every rank validates all pictures: no rank waits for another, but all of them do the
        whole work, and a run on more ranks is no faster.""",
        change="""
-                total = F.cross_entropy(model(val_images[rank::world]), val_labels[rank::world], reduction="sum")
+                log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
@@
-        if step % every == 0:
-            dist.all_reduce(total)
-            log["val_loss"].append(total.item() / len(val_images))
""",
    ),
    KnownWrong(
        "collective_on_one_rank",
        fails=("cure_23/healthy",),
        read="handbook/distributed-data-parallel.md#logging-and-saving",
        explanation="""One rank calls a collective that the others never call: it waits there for them, and
        they wait for it in the next one.""",
        change="""
-        if step % every == 0:
+        if rank == 0 and step % every == 0:
""",
    ),
    KnownWrong(
        "own_loss_in_the_log",
        fails=("cure_23/healthy",),
        read="handbook/distributed-data-parallel.md#logging-and-saving",
        explanation="""Nothing hangs, but the log has the loss of rank 0's own batch instead of the mean
        over all ranks.""",
        change="""
-        if step % every == 0:
+        if rank == 0 and step % every == 0:
@@
-            dist.all_reduce(mean, group=log_group)
-            log["loss"].append((mean / world).item())
+            log["loss"].append(mean.item())
""",
    ),
    KnownWrong(
        "one_seed_for_all_ranks",
        fails=("cure_24/healthy",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""All ranks draw the same rows: the mean of their gradients is the gradient of one
        rank.""",
        change="""
-    generator = torch.Generator().manual_seed(seed * world + dist.get_rank())
+    generator = torch.Generator().manual_seed(seed)
""",
    ),
    KnownWrong(
        "batch_divided",
        fails=("cure_24/healthy",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""The ranks have different rows now, but each of them only a part of `batch_size`,
        which counts the rows of one rank.""",
        change="""
-    generator = torch.Generator().manual_seed(seed * world + dist.get_rank())
+    generator = torch.Generator().manual_seed(seed)
@@
-        rows = torch.randint(len(images), (batch_size,), generator=generator)
+        rows = torch.randint(len(images), (batch_size,), generator=generator)[dist.get_rank() :: world]
""",
    ),
    KnownWrong(
        "batch_reversed",
        fails=("cure_24/healthy",),
        read="handbook/distributed-data-parallel.md#data-and-random-seeds",
        explanation="""The ranks have the same rows in another order, which gives the same gradient.""",
        change="""
-    generator = torch.Generator().manual_seed(seed * world + dist.get_rank())
+    generator = torch.Generator().manual_seed(seed)
@@
-        rows = torch.randint(len(images), (batch_size,), generator=generator)
+        rows = torch.randint(len(images), (batch_size,), generator=generator).roll(dist.get_rank())
""",
    ),
)

HURRIED = {
    "cure_01": {
        "no gradients at all": """
-        loss.backward()
""",
    },
    "cure_05": {
        "logits of a wrong axis": """
-        scores = model(images[rows])  # [B, K], logits
+        scores = model(images[rows]).softmax(dim=0)  # [B, K]
""",
    },
    "cure_13": {
        "the mask on the wrong side": """
-        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)  # [T, T]
+        hidden = torch.ones_like(scores[0], dtype=torch.bool).tril(-1)  # [T, T]
""",
    },
    "cure_14": {
        "no validation rows of its own": """
-    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out:]
+    train_rows, val_rows = shuffled[:-held_out], shuffled
""",
    },
}
