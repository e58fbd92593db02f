"""Right answers to Lab 04 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "accumulate": {
        "calls forward": """
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss = F.cross_entropy(model.forward(micro_x).flatten(0, 1), micro_y.flatten()) / k
""",
        "autograd.grad, and one division": """
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
-        loss.backward()
-        total += loss.item()
-        for place, parameter in enumerate(parameters):
-            if parameter.grad is not None:
-                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
-                so_far = sums[place]
-                sums[place] = gradient if so_far is None else so_far + gradient
-                parameter.grad = None
+        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten())
+        total += loss.item() / k
+        places = [place for place, parameter in enumerate(parameters) if parameter.requires_grad]
+        found = torch.autograd.grad(loss, [parameters[place] for place in places], allow_unused=True)
+        for place, gradient in zip(places, found):
+            if gradient is not None:
+                wide = gradient.double() if gradient.dtype == torch.float64 else gradient.float()
+                sums[place] = wide / k if sums[place] is None else sums[place].add_(wide / k)
""",
        "sums in a dictionary": """
-    sums: list[Tensor | None] = [None for _ in parameters]
+    found: dict[int, Tensor] = {}
@@
-                so_far = sums[place]
-                sums[place] = gradient if so_far is None else so_far + gradient
-                parameter.grad = None
-    return total, sums
+                found[place] = found.get(place, 0.0) + gradient
+        model.zero_grad()
+    return total, [found.get(place) for place in range(len(parameters))]
""",
    },
    "accumulate_tokens": {
        "passes over what has nothing scored": """
     for x, y in micro_batches:
+        if (y == -100).all():
+            continue
""",
        "a mask instead of ignore_index": """
-        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
+        losses = F.cross_entropy(model(x).transpose(1, 2), y.clamp(min=0), reduction="none")
+        summed = losses.masked_fill(y == -100, 0.0).sum()
""",
    },
    "train_epoch": {
        "one micro-batch ahead": """
-    while group := list(itertools.islice(stream, k)):
+    following = next(stream, None)
+    while following is not None:
+        group = []
+        while following is not None and len(group) < k:
+            group.append(following)
+            following = next(stream, None)
""",
    },
    "clip_once": {
        "one norm of norms": """
-    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norm = math.hypot(*(torch.linalg.vector_norm(gradient.double()).item() for gradient in gradients))
""",
        "all gradients in one call": """
-        for gradient in gradients:
-            gradient.mul_(max_norm / norm)
+        torch._foreach_mul_(gradients, max_norm / norm)
""",
        "a running mean": """
-        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
         count += 1
-    for parameter in model.parameters():
-        if parameter.grad is not None:
-            parameter.grad.div_(count)
+        for parameter in model.parameters():
+            if parameter.grad is not None:
+                parameter.grad.mul_((count - 1) / count)
+        (F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / count).backward()
""",
    },
    "schedule": {
        "integers only": """
-    return epochs * math.ceil(micro_batches / k)
+    return epochs * -(-micro_batches // k)
""",
        "the scheduler tells the rate": """
-            rates.append(optimizer.param_groups[0]["lr"])
+            rates.append(scheduler.get_last_lr()[0])
""",
    },
    "noise_scale": {
        "a named tuple": """
-    return signal, noise
+    return __import__('collections').namedtuple('Estimates', ['signal', 'noise'])(signal, noise)
""",
        "the variance between the rows": """
-    noise = (norm_small - norm_big) / (1 / small - 1 / big)
-    return signal, noise
+    noise = small * gradients.var(0).sum().item()
+    return norm_big - noise / big, noise
""",
    },
}

EQUIVALENT = {
    "the argument is the default": (
        "accumulate: set_to_none left out: model.zero_grad(set_to_none=True)",
        "accumulate_tokens: set_to_none left out: model.zero_grad(set_to_none=True)",
        "accumulate_tokens: ignore_index left out: F.cross_entropy(model(x).flatten(0, 1),…",
        "train_epoch: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
        "clipped_update: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
    ),
    "x and y have k parts, because k divides the batch": (
        "accumulate: strict left out: zip(x.chunk(k), y.chunk(k), strict=True)",
    ),
    "the two statements are independent": (
        "accumulate: swapped: model.zero_grad(set_to_none=True) | parameters, total = (list(model.paramet…",
        "accumulate: swapped: loss.backward() | total += loss.item()",
        "accumulate: swapped: total += loss.item() | for place, parameter in enumerate(param…",
        "accumulate: swapped: gradient = parameter.grad.to(torch.prom… | so_far = sums[place]",
        "accumulate: swapped: sums[place] = gradient if so_far is Non… | parameter.grad = None",
        "accumulate_tokens: swapped: model.zero_grad(set_to_none=True) | scored = sum((int((y != -100).sum()) fo…",
        "accumulate_tokens: swapped: scored = sum((int((y != -100).sum()) fo… | total = 0.0",
        "accumulate_tokens: swapped: (summed / scored).backward() | total += summed.item()",
        "train_epoch: swapped: losses: list[float] = [] | stream = iter(micro_batches)",
        "train_epoch: swapped: optimizer.zero_grad(set_to_none=True) | total = 0.0",
        "train_epoch: swapped: optimizer.step() | losses.append(total)",
        "train_epoch: swapped: loss.backward() | total += loss.item()",
        "clipped_update: swapped: optimizer.zero_grad(set_to_none=True) | count = 0",
        "clipped_update: swapped: F.cross_entropy(model(x).flatten(0, 1),… | count += 1",
        "noise_estimates: swapped: small, big = (micro_batch, len(gradient… | norm_small = gradients.square().sum(1).…",
        "noise_estimates: swapped: norm_small = gradients.square().sum(1).… | norm_big = gradients.mean(0).square().s…",
        "noise_scale: swapped: signal = sum((one for one, _ in estimat… | noise = sum((one for _, one in estimate…",
    ),
    "an update does not change the learning rate": (
        "train_scheduled: swapped: rates.append(optimizer.param_groups[0][… | train_epoch(model, optimizer, group, k)",
    ),
    "a gradient whose norm is the limit is multiplied by 1": ("clip_gradients: comparison replaced: norm > max_norm",),
}
