"""Right answers to Lab 02 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "train_step": {
        "one vector of all gradients": """
-    gradients = [p.grad for p in model.parameters() if p.grad is not None]
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    parameters = [p for p in model.parameters() if p.grad is not None]
+    norm = torch.cat([p.grad.flatten() for p in parameters]).norm().item()
+    for p in parameters:
+        p.grad = p.grad * min(1.0, max_norm / max(norm, 1e-300))
""",
        "stays in tensors until the end": """
-    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
-    if norm > max_norm:
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+    norm = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]).norm()
+    scale = (max_norm / norm).clamp(max=1.0)
+    for gradient in gradients:
+        gradient *= scale
@@
-    return loss.item(), norm
+    return loss.item(), norm.item()
""",
        "a mask instead of ignore_index": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    real = y != -100
+    loss = F.cross_entropy(model(x)[real], y[real])
""",
        "log-probabilities by hand": """
-    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
+    real = y != -100
+    chosen = model(x).log_softmax(-1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
+    loss = -torch.where(real, chosen, 0).sum() / real.sum()
""",
        "NumPy's float64": """
-    return loss.item(), norm
+    return __import__('numpy').float64(loss.item()), norm
""",
        "gradients from torch.autograd.grad": """
-    loss.backward()
+    parameters = [p for p in model.parameters() if p.requires_grad]
+    for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
+        p.grad = gradient
""",
    },
    "evaluate": {
        "on a copy of the model": """
+    model = __import__('copy').deepcopy(model)
     modes = [(module, module.training) for module in model.modules()]
""",
        "calls forward": """
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            losses = F.cross_entropy(model.forward(x).transpose(1, 2), y, reduction="none")
""",
        "calls by keyword": """
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            losses = F.cross_entropy(model(tokens=x).transpose(1, 2), y, reduction="none")
""",
        "reads the vocabulary size from the model first": """
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            V = model(x[:1]).shape[-1]
+            losses = F.cross_entropy(model(x).reshape(-1, V), y.flatten(), reduction="none").view(y.shape)
""",
        "inference mode, in float32 from the logits on": """
-    with torch.no_grad():
+    with torch.inference_mode():
@@
-            losses = F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100, reduction="none")  # [B, T]
+            losses = F.cross_entropy(model(x).float().transpose(1, 2), y, reduction="none")
""",
        "loops in Python": """
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
-    for module, training in modes:
-        module.training = training
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+            for row, targets in zip(losses.tolist(), y.tolist()):
+                for position, (loss, target) in enumerate(zip(row, targets)):
+                    sums.setdefault(position, []).extend([loss] if target != -100 else [])
+    for module, training in modes:
+        module.training = training
+    return [sum(of) / len(of) if of else math.nan for of in sums.values()]
@@
-    totals, tokens = torch.zeros(()), torch.zeros((), dtype=torch.int64)
+    sums = {}
""",
        "NumPy": """
-            totals = totals + losses.sum(dim=0, dtype=torch.float64)
-            tokens = tokens + (y != -100).sum(dim=0)
+            rows.append(np.ma.array(losses.double().numpy(), mask=(y == -100).numpy()))
@@
-    totals, tokens = torch.zeros(()), torch.zeros((), dtype=torch.int64)
+    np, rows = __import__('numpy'), []
@@
-    return [float(mean) for mean in totals / tokens]  # 0 / 0 is nan
+    return list(np.ma.concatenate(rows).mean(axis=0).filled(np.nan))
""",
        "each sequence alone": """
-        for x, y in batches:
+        for x, y in ((x[n : n + 1], y[n : n + 1]) for x, y in batches for n in range(len(x))):
""",
    },
    "learning_rate": {
        "in one formula": """
-    if step < warmup_steps:
-        return peak * (step + 1) / warmup_steps
-    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
-    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
+    share = min(1.0, (step + 1) / max(1, warmup_steps))
+    progress = min(1.0, max(0.0, (step - warmup_steps) / (total_steps - warmup_steps)))
+    weight = math.cos(math.pi / 2 * progress) ** 2
+    return share * (floor * (1 - weight) + peak * weight)
""",
    },
    "overfit_one_batch": {
        "calls forward": """
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+        optimizer.zero_grad()
+        loss = F.cross_entropy(model.forward(x).flatten(0, 1), y.flatten())
+        loss.backward()
+        optimizer.step()
+        losses.append(loss.item())
""",
        "a for loop": """
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
+    for _ in range(max_steps):
+        losses.append(train_step(model, optimizer, x, y, float("inf"))[0])
+        if losses[-1] < target:
+            break
""",
        "recursion": """
-    while len(losses) < max_steps and (not losses or losses[-1] >= target):
-        loss, _ = train_step(model, optimizer, x, y, math.inf)
-        losses.append(loss)
-    return losses
+
+    def further(left):
+        if not left:
+            return []
+        loss, _ = train_step(model, optimizer, x, y, math.inf)
+        return [loss] if loss < target else [loss, *further(left - 1)]
+
+    return further(max_steps)
""",
    },
    "checkpoint": {
        "a temporary file, renamed": """
-    torch.save(state, path)
+    partial = path.with_name(path.name + ".partial")
+    try:
+        torch.save(state, partial)
+        partial.replace(path)
+    finally:
+        partial.unlink(missing_ok=True)
""",
        "through a file object": """
-    torch.save(state, path)
+    with open(path, "wb") as file:
+        torch.save(list(state.values()), file)
@@
-    state = torch.load(path, weights_only=True)
+    with open(path, "rb") as file:
+        state = dict(zip(("model", "optimizer", "step", "rng"), torch.load(file, weights_only=True)))
""",
    },
}

EQUIVALENT = {
    "forward reads no gradients": (
        "train_step: swapped: optimizer.zero_grad(set_to_none=True) | loss = F.cross_entropy(model(x).flatten…",
    ),
    "a norm equal to the limit is multiplied by 1": ("train_step: comparison replaced: norm > max_norm",),
    "the argument is the default": (
        "train_step: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
        "train_step: ignore_index left out: F.cross_entropy(model(x).flatten(0, 1),…",
        "evaluate: ignore_index left out: F.cross_entropy(model(x).transpose(1, 2…",
        "load_checkpoint: weights_only left out: torch.load(path, weights_only=True)",
    ),
    "float32 counts up to 16,777,216 tokens exactly": ("evaluate: dtype left out: torch.zeros((), dtype=torch.int64)",),
    "the two statements are independent": (
        "evaluate: swapped: model.eval() | totals, tokens = (torch.zeros(()), torc…",
        "evaluate: swapped: totals = totals + losses.sum(dim=0, dty… | tokens = tokens + (y != -100).sum(dim=0)",
        "overfit_one_batch: swapped: optimizer = torch.optim.AdamW(model.par… | losses: list[float] = []",
        "load_checkpoint: swapped: model.load_state_dict(state['model']) | optimizer.load_state_dict(state['optimi…",
        "load_checkpoint: swapped: optimizer.load_state_dict(state['optimi… | torch.set_rng_state(state['rng'])",
    ),
    "progress is not used in the warm-up": (
        "learning_rate: swapped: if step < warmup_steps: | progress = min(1.0, (step - warmup_step…",
    ),
}
