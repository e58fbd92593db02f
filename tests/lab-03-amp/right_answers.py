"""Right answers to Lab 03 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "share_lost": {
        "counts what is left": """
-        nonzero = gradient[gradient != 0]
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
-        there += nonzero.numel()
+        before, after = gradient.count_nonzero(), gradient.mul(scale).to(dtype).count_nonzero()
+        lost += (before - after).item()
+        there += before.item()
""",
    },
    "cast_inputs": {
        "by a table of dtypes": """
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return torch.is_tensor(value) and value.dtype in (torch.float32, torch.bfloat16, torch.float16)
""",
    },
    "update_scale": {
        "a named tuple": """
-    return scale, good_steps + 1, overflows
+    names = ["scale", "good_steps", "overflows"]
+    return __import__("collections").namedtuple("State", names)(scale, good_steps + 1, overflows)
""",
        "at least the interval": """
-    if good_steps + 1 == growth_interval:
+    if good_steps + 1 >= growth_interval:
""",
    },
    "unscale": {
        "all gradients in one call": """
-    not_finite: list[int] = []
-    divided: set[int] = set()
-    for position, parameter in enumerate(parameters):
-        if parameter.grad is None:
-            continue
-        if id(parameter) not in divided:
-            divided.add(id(parameter))
-            parameter.grad.div_(scale)
-        if not parameter.grad.isfinite().all():
-            not_finite.append(position)
-    return not_finite
+    every = list(parameters)
+    distinct = {id(one): one.grad for one in every if one.grad is not None}
+    if distinct:
+        torch._foreach_mul_(list(distinct.values()), 1 / scale)
+    return [i for i, one in enumerate(every) if one.grad is not None and not (one.grad * 0 == 0).all()]
""",
    },
    "scaled_step": {
        "calls forward": """
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+            loss = F.cross_entropy(model.forward(x).flatten(0, 1), y.flatten())
""",
        "torch's scaler scales": """
-        (loss * scale / len(micro_batches)).backward()
+        torch.amp.GradScaler("cpu", init_scale=scale).scale(loss / len(micro_batches)).backward()
""",
        "clips to the scaled limit, then divides": """
-    updated = not unscale(model.parameters(), scale)
-    if updated:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
-        optimizer.step()
+    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm * scale)
+    updated = not unscale(model.parameters(), scale) and bool(norm.isfinite())
+    if updated:
+        optimizer.step()
""",
    },
    "master_weights": {
        "a copy of the model": """
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return list(__import__("copy").deepcopy(model).float().parameters())
""",
        "all weights in one call": """
-        for parameter, master in zip(model.parameters(), masters, strict=True):
-            parameter.copy_(master)
+        torch._foreach_copy_(list(model.parameters()), list(masters))
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "share_lost: swapped: lost += int(((nonzero * scale).to(dtype… | there += nonzero.numel()",
        "unscale: swapped: not_finite: list[int] = [] | divided: set[int] = set()",
        "unscale: swapped: divided.add(id(parameter)) | parameter.grad.div_(scale)",
        "scaled_step: swapped: optimizer.zero_grad(set_to_none=True) | total = 0.0",
        "scaled_step: swapped: (loss * scale / len(micro_batches)).bac… | total += loss.item()",
    ),
    "the argument is the default": ("scaled_step: set_to_none left out: optimizer.zero_grad(set_to_none=True)",),
    "there are as many masters as parameters": (
        "master_step: strict left out: zip(model.parameters(), masters, strict…",
    ),
}
