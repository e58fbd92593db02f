"""Right answers to Lab 02 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "evaluate": {
        "on a copy of the model": """
+    model = __import__('copy').deepcopy(model)
     was_training = model.training
""",
        "calls forward": """
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+            total += F.cross_entropy(model.forward(x).flatten(0, 1), y.flatten(), reduction="sum").item()
""",
        "calls by keyword": """
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+            total += F.cross_entropy(model(tokens=x).flatten(0, 1), y.flatten(), reduction="sum").item()
""",
        "reads the vocabulary size from the model first": """
-            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
+            total += F.cross_entropy(model(x).reshape(-1, model(x[:1]).shape[-1]), y.flatten(), reduction="sum").item()
""",
    },
    "overfit_one_batch": {
        "calls forward": """
-        losses.append(train_step(model, optimizer, x, y))
+        optimizer.zero_grad()
+        loss = F.cross_entropy(model.forward(x).flatten(0, 1), y.flatten())
+        loss.backward()
+        optimizer.step()
+        losses.append(loss.item())
""",
    },
}

EQUIVALENT = {
    "forward reads no gradients": (
        "train_step: swapped: optimizer.zero_grad(set_to_none=True) | loss = F.cross_entropy(model(x).flatten…",
    ),
    "the argument is the default": (
        "train_step: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
        "load_checkpoint: weights_only left out: torch.load(path, weights_only=True)",
    ),
    "the two statements are independent": (
        "evaluate: swapped: model.eval() | total, tokens = (0.0, 0)",
        "evaluate: swapped: total += F.cross_entropy(model(x).flatt… | tokens += y.numel()",
        "overfit_one_batch: swapped: optimizer = torch.optim.AdamW(model.par… | losses: list[float] = []",
        "load_checkpoint: swapped: model.load_state_dict(state['model']) | optimizer.load_state_dict(state['optimi…",
        "load_checkpoint: swapped: optimizer.load_state_dict(state['optimi… | torch.set_rng_state(state['rng'])",
    ),
    "progress is not used in the warm-up": (
        "learning_rate: swapped: if step < warmup_steps: | progress = min(1.0, (step - warmup_step…",
    ),
}
