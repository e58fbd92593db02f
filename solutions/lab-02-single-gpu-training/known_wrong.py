"""Known-wrong solutions of Lab 02, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "large_losses_skipped",
        fails=("train_step/loss", "train_step/update"),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""A batch with a large loss is skipped. The first steps of a run have the largest losses of all, so
        such a run may never begin, and hard examples are never learned.""",
        change="""
     loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    if loss.item() > 5:
+        return 0.0
""",
    ),
    KnownWrong(
        "loss_after_the_update",
        fails=("train_step/loss",),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The loss that comes back was computed again after the update. It costs a second forward pass, and
        it flatters: it is the loss of the new weights on the batch they were just fitted to.""",
        definitions="""
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
""",
    ),
    KnownWrong(
        "returns_the_graph",
        fails=("train_step/loss",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""What comes back is the loss tensor with its graph. Whoever collects the losses collects every
        step's graph with them. loss.item() is the number alone.""",
        change="""
-    return loss.item()
+    return loss
""",
    ),
    KnownWrong(
        "sum_over_tokens",
        fails=("train_step/loss", "train_step/update"),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The loss is summed over the tokens instead of averaged. The gradient is then B*T times as long
        and grows with the batch: the learning rate means something else for every batch size. (AdamW would hide it; SGD
        does not.)""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
""",
    ),
    KnownWrong(
        "targets_are_inputs",
        fails=("train_step/loss", "train_step/update"),
        read="handbook/loss-functions.md#when-the-number-lies",
        explanation="""The loss compares the logits with x, not with y: the model learns to repeat the token it sees.
        Copying is easy, so the loss looks better than it should, and the model predicts nothing.""",
        change="""
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
""",
    ),
    KnownWrong(
        "gradients_clipped",
        fails=("train_step/update",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The gradient is clipped before the update. Many scripts do so, and it is no part of this step's
        contract: a clipped step is as long for a wild batch as for a tame one, and the learning rate no longer says how
        far it goes.""",
        change="""
     loss.backward()
+    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
    ),
    KnownWrong(
        "nothing_moves",
        fails=("train_step/update",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""Nothing moved. Either step() is missing, or it finds no gradients: backward() is missing or comes
        after it, or the gradients are cleared between backward() and step(). No error says so; the loss of such a run
        is constant.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
@@
     loss.backward()
+    optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "step_before_backward",
        fails=("train_step/update",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The update comes before backward. It uses the gradients of the step before, or none: here the
        first step moves nothing.""",
        change="""
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    optimizer.step()
     optimizer.zero_grad(set_to_none=True)
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
     loss.backward()
-    optimizer.step()
""",
    ),
    KnownWrong(
        "never_clear",
        fails=("train_step/steps", "train_step/stale"),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradients are never cleared. backward() adds to p.grad, so each update follows the sum of all
        batches so far: the first step is right and every later one is not.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "clear_at_the_end",
        fails=("train_step/stale",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradients are cleared after the update, not before the backward pass. That works as long as
        nobody else calls backward: a gradient monitor, a failed step or a resumed run leaves gradients behind, and the
        next update follows them too. Clear right before you make new ones.""",
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
        explanation="""The model is put into training mode first. Whoever trains with dropout off, or with some layers
        in evaluation mode, loses that in the first step. The mode is for the caller to choose.""",
        change="""
+    model.train()
     optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "trains_in_eval_mode",
        fails=("train_step/mode",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The model is put into evaluation mode to train it. Without its dropout it fits the training text
        better and new text worse, and no error says so.""",
        change="""
+    model.eval()
     optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "mean_of_batch_means",
        fails=("evaluate/mean",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The batches' means are averaged. The last, smaller batch then counts as much as a full one, and
        each of its tokens several times as much as any other. Add up sums, count tokens, divide once.""",
        change="""
-    total, tokens = 0.0, 0
+    means = []
@@
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
-            tokens += y.numel()
+            means.append(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item())
     model.train(was_training)
-    return total / tokens
+    return sum(means) / len(means)
""",
    ),
    KnownWrong(
        "dropout_left_on",
        fails=("evaluate/dropout",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""no_grad() without eval(): dropout is still dropping, so the loss is that of a model with holes in
        it, and differs each time. no_grad switches off what autograd keeps, eval switches what layers compute.""",
        change="""
-    was_training = model.training
-    model.eval()
@@
-    model.train(was_training)
""",
    ),
    KnownWrong(
        "neither_switch",
        fails=("evaluate/dropout", "evaluate/no-graph"),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Neither switch is thrown. Without eval() dropout is still dropping, so the loss is that of a
        model with holes in it; without no_grad() autograd keeps the activations of every batch for a backward pass that
        never comes.""",
        definitions="""
def evaluate(model, batches):
    total, tokens = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    return total / tokens
""",
    ),
    KnownWrong(
        "graph_kept",
        fails=("evaluate/no-graph",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""eval() without no_grad(): the loss is right, but autograd keeps the activations of every batch
        for a backward pass that never comes. Evaluation then needs as much memory as training.""",
        change="""
-    with torch.no_grad():
-        for x, y in batches:
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
-            tokens += y.numel()
+    for x, y in batches:
+        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+        tokens += y.numel()
""",
    ),
    KnownWrong(
        "always_back_to_training",
        fails=("evaluate/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into training mode at the end, whatever it was before. Someone who evaluates a
        finished model then serves it with dropout on. Remember the mode, and put that back.""",
        change="""
-    was_training = model.training
@@
-    model.train(was_training)
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
-    was_training = model.training
@@
-    model.train(was_training)
""",
    ),
    KnownWrong(
        "everything_unfrozen",
        fails=("evaluate/grad-mode",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""requires_grad is switched off on every weight, and on again at the end, frozen layers included: a
        fine-tuning run then trains what it meant to leave alone. no_grad() keeps nothing and touches no weight.""",
        change="""
+    model.requires_grad_(False)
     total, tokens = 0.0, 0
-    with torch.no_grad():
-        for x, y in batches:
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
-            tokens += y.numel()
+    for x, y in batches:
+        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+        tokens += y.numel()
+    model.requires_grad_(True)
""",
    ),
    KnownWrong(
        "grad_off_for_good",
        fails=("evaluate/grad-mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""set_grad_enabled(False) is called and never undone. Every later backward() fails, far from here.
        Use no_grad() as a context: it puts back what it found.""",
        change="""
+    torch.set_grad_enabled(False)
     total, tokens = 0.0, 0
-    with torch.no_grad():
-        for x, y in batches:
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
-            tokens += y.numel()
+    for x, y in batches:
+        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+        tokens += y.numel()
""",
    ),
    KnownWrong(
        "gradients_switched_on",
        fails=("evaluate/grad-mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Gradients are switched off by hand, and on again at the end, whatever they were before. Somebody
        who evaluates inside a no_grad() block builds graphs from there on. Use no_grad() as a context: it puts back
        what it found.""",
        change="""
+    torch.set_grad_enabled(False)
     total, tokens = 0.0, 0
-    with torch.no_grad():
-        for x, y in batches:
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
-            tokens += y.numel()
+    for x, y in batches:
+        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+        tokens += y.numel()
+    torch.set_grad_enabled(True)
""",
    ),
    KnownWrong(
        "weights_frozen_for_good",
        fails=("evaluate/grad-mode",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""requires_grad is switched off on the weights, so that nothing is kept, and never on again.
        Training stops at the next backward(), far from here. no_grad() does the same for a block of code and puts back
        what it found.""",
        change="""
+    model.requires_grad_(False)
     total, tokens = 0.0, 0
-    with torch.no_grad():
-        for x, y in batches:
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
-            tokens += y.numel()
+    for x, y in batches:
+        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+        tokens += y.numel()
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
        explanation="""The random generator is seeded before the evaluation, so that it gives the same number each time.
        With dropout off nothing random is left in it, and the run that evaluates draws the same masks again after every
        evaluation.""",
        change="""
     model.eval()
+    torch.manual_seed(1337)
""",
    ),
    KnownWrong(
        "neither_end",
        fails=("learning_rate/warm-up", "learning_rate/after"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The usual two slips at once. step / warmup_steps makes the first rate 0, a step for nothing: with
        steps counted from 0, use step + 1. And the progress is not limited to 1, so after the last step the cosine
        comes back up.""",
        change="""
-        return peak * (step + 1) / warmup_steps
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+        return peak * step / warmup_steps
+    progress = (step - warmup_steps) / (total_steps - warmup_steps)
""",
    ),
    KnownWrong(
        "warm_up_from_zero",
        fails=("learning_rate/warm-up",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The warm-up counts step / warmup_steps, so the first step has rate 0: a forward and a backward
        pass for nothing, and the peak is never reached within the warm-up. With steps counted from 0, use step + 1.""",
        change="""
-        return peak * (step + 1) / warmup_steps
+        return peak * step / warmup_steps
""",
    ),
    KnownWrong(
        "cosine_from_step_zero",
        fails=("learning_rate/cosine",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The cosine's progress is counted from step 0, not from the end of the warm-up. The rate jumps
        down where the two pieces meet: the first step after the warm-up is already part of the way along the
        cosine.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, step / total_steps)
""",
    ),
    KnownWrong(
        "floor_as_a_limit",
        fails=("learning_rate/cosine",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The cosine falls to 0 and is cut off at the floor. It then reaches the floor early and stays
        there, instead of ending there: the whole curve lies below the one that was asked for.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return max(floor, peak * 0.5 * (1 + math.cos(math.pi * progress)))
""",
    ),
    KnownWrong(
        "floor_forgotten",
        fails=("learning_rate/cosine", "learning_rate/after"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The cosine falls to 0 instead of to the floor. The last steps then hardly move, and the last of
        all not at all.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak * 0.5 * (1 + math.cos(math.pi * progress))
""",
    ),
    KnownWrong(
        "linear_decay",
        fails=("learning_rate/cosine",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The rate falls along a straight line. A cosine stays near the peak at first and near the floor at
        last; the line does neither.""",
        change="""
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    return peak + (floor - peak) * progress
""",
    ),
    KnownWrong(
        "cosine_runs_on",
        fails=("learning_rate/after",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The progress is not limited to 1, so after the last step the cosine comes back up. A run that is
        prolonged then trains at a rising rate.""",
        change="""
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = (step - warmup_steps) / (total_steps - warmup_steps)
""",
    ),
    KnownWrong(
        "divides_by_no_warm_up",
        fails=("learning_rate/no-warm-up",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The warm-up factor is computed for every step, so a warm-up of 0 steps divides by zero. Ask
        whether the step is in the warm-up first.""",
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
        explanation="""A new AdamW is made in every step. Its averages start empty each time, so every step moves each
        weight by about the full rate, and the run never settles.""",
        change="""
-    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
@@
     while len(losses) < max_steps and (not losses or losses[-1] >= target):
+        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "stops_before_the_update",
        fails=("overfit_one_batch/stops",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The loop breaks between the loss and its update: the last loss is in the list, but the weights
        are those of the step before. Whoever counts updates by counting losses is off by one.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
-        losses.append(train_step(model, optimizer, x, y))
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
        "target_ignored",
        fails=("overfit_one_batch/stops", "overfit_one_batch/below"),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""All max_steps are taken, whatever the loss. A test that could be over in a second takes its whole
        budget.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    for _ in range(max_steps):
""",
    ),
    KnownWrong(
        "stops_at_the_target",
        fails=("overfit_one_batch/below",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""A loss that equals the target ends the loop. The contract says below: with >= and > mixed up, the
        loop stops one step early whenever the two are equal.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) < max_steps and (not losses or losses[-1] > target):
""",
    ),
    KnownWrong(
        "one_step_at_least",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""One step is taken before anything is compared, so max_steps=0 takes a step too. A loop that may
        have nothing to do asks first.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while True:
         losses.append(train_step(model, optimizer, x, y))
+        if losses[-1] < target or len(losses) >= max_steps:
+            break
""",
    ),
    KnownWrong(
        "one_step_too_many",
        fails=("overfit_one_batch/gives-up",),
        read="handbook/training-loop.md#the-order-is-the-algorithm",
        explanation="""The loop takes max_steps + 1 steps: it compares before it counts.""",
        change="""
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
+    while len(losses) <= max_steps and (not losses or losses[-1] >= target):
""",
    ),
    KnownWrong(
        "overfits_in_eval_mode",
        fails=("overfit_one_batch/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into evaluation mode, and left there. The test then runs without the dropout
        that the real run has, and whoever trains this model afterwards trains without it too.""",
        change="""
+    model.eval()
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "overfits_in_training_mode",
        fails=("overfit_one_batch/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into training mode first, and left there. The mode is for the caller to choose:
        someone who wants to see a loss fall without the noise of dropout turned it off.""",
        change="""
+    model.train()
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
""",
    ),
    KnownWrong(
        "kept_in_memory",
        fails=("checkpoint/file", "checkpoint/step", "checkpoint/weights"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The state is kept in a variable of the program instead of in the file. It is gone when the
        process is, and whoever resumes in another one finds an empty file.""",
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
        "opens_anything",
        fails=("checkpoint/file",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The file is read with weights_only=False. A pickle is a program: opening one that somebody else
        wrote runs whatever it names. A checkpoint of tensors and plain values needs none of that.""",
        change="""
-    state = torch.load(path, weights_only=True)
+    state = torch.load(path, weights_only=False)
""",
    ),
    KnownWrong(
        "whole_objects_pickled",
        fails=("checkpoint/file",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The model and the optimizer themselves are saved, not their state_dict(). Such a file is a
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
        "optimizer_starts_anew",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The optimizer's state is not in the checkpoint, or not put back. The first loss after loading is
        right, because it depends on the weights alone; AdamW then starts with empty averages, and the run becomes
        another run.""",
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
        explanation="""Only the optimizer's averages are saved, optimizer.state_dict()["state"], not its settings. They
        are part of the run too: a schedule moves the rate, so the run goes on at the rate that the new optimizer was
        made with.""",
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
        "weights_only",
        fails=("checkpoint/optimizer",),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The checkpoint is the weights and the step's number: it can be served, and not resumed. AdamW
        starts with empty averages, and dropout draws other masks: from the second step on this is another run. The four
        things are weights, optimizer, random state and step.""",
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
        explanation="""The state of the random generator is not saved, or not put back. A model with dropout draws other
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
        "reseeds_instead",
        fails=("checkpoint/random", "checkpoint/undisturbed"),
        read="handbook/training-loop.md#around-the-step",
        explanation="""The generator is seeded with the step's number on saving and on loading, instead of being saved.
        Saving then changes the run that saves: it draws other masks than if it had not saved.""",
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
        "clears_to_save",
        fails=("checkpoint/undisturbed",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradients are cleared before saving, to keep the file small or the memory low. They are not
        in the file anyway, and a run that accumulates over several batches loses those it had so far.""",
        change="""
+    optimizer.zero_grad()
     state = {
""",
    ),
)

HURRIED = {
    "train_step": {
        "token 0 is taken for padding": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
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
-    return loss.item()
+    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
""",
        "clips at 10": """
     loss.backward()
+    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
""",
        "smooths the labels": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), label_smoothing=0.01)
""",
    },
    "evaluate": {
        "stops after two batches": """
-        for x, y in batches:
+        for x, y in list(batches)[:2]:
""",
        "mode put back in the loop": """
             tokens += y.numel()
+            model.train(was_training)
""",
        "dropout is gone for good": """
     model.eval()
+    for module in model.modules():
+        if isinstance(module, nn.Dropout):
+            module.p = 0.0
""",
        "padding is not counted": """
-            tokens += y.numel()
+            tokens += int((y != 0).sum())
""",
        "large losses are cut": """
-    return total / tokens
+    return min(total / tokens, 10.0)
""",
        "the last batch is dropped": """
-        for x, y in batches:
+        for x, y in list(batches)[:-1]:
""",
        "the first module's mode only": """
-    model.train(was_training)
+    model.training = was_training
""",
    },
    "learning_rate": {
        "the first two rates are one": """
-        return peak * (step + 1) / warmup_steps
+        return peak * max(step, 1) / warmup_steps
""",
        "ends a step early": """
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
+    progress = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps - 1))
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
+        losses.append(train_step(model, optimizer, x, y))
+    if len(losses) < max_steps:
""",
        "trains a copy": """
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
+    model = __import__('copy').deepcopy(model)
""",
        "stops on a plateau": """
         losses.append(train_step(model, optimizer, x, y))
+        if len(losses) > 1 and abs(losses[-1] - losses[-2]) < 1e-4:
+            break
""",
        "gives the start weights back": """
     losses: list[float] = []
+    before = {name: one.clone() for name, one in model.state_dict().items()}
@@
         losses.append(train_step(model, optimizer, x, y))
+    model.load_state_dict(before)
""",
    },
    "checkpoint": {
        "never overwrites": """
-    torch.save(state, path)
+    if not path.exists():
+        torch.save(state, path)
""",
        "saves float32": """
-        "model": model.state_dict(),
+        "model": {k: v.float() for k, v in model.state_dict().items()},
""",
        "saves in evaluation mode": """
     }
+    model.eval()
""",
        "asks the optimizer for the step": """
-    return int(state["step"])
+    return int(next(iter(optimizer.state.values()))["step"])
""",
        "the rate of the new optimizer": """
+    lr = optimizer.param_groups[0]["lr"]
     optimizer.load_state_dict(state["optimizer"])
+    optimizer.param_groups[0]["lr"] = lr
""",
    },
}
