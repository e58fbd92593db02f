"""Right answers to Lab 04 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "accumulate": {
        "calls forward": """
-        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
+        loss = F.cross_entropy(model.forward(micro_x).flatten(0, 1), micro_y.flatten()) / k
""",
    },
    "noise_scale": {
        "a named tuple": """
-    return signal, noise
+    return __import__('collections').namedtuple('Estimates', ['signal', 'noise'])(signal, noise)
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
        "accumulate: swapped: model.zero_grad(set_to_none=True) | total = 0.0",
        "accumulate: swapped: loss.backward() | total += loss.item()",
        "accumulate_tokens: swapped: model.zero_grad(set_to_none=True) | scored = sum((int((y != -100).sum()) fo…",
        "accumulate_tokens: swapped: scored = sum((int((y != -100).sum()) fo… | total = 0.0",
        "accumulate_tokens: swapped: (summed / scored).backward() | total += summed.item()",
        "train_epoch: swapped: losses: list[float] = [] | stream = iter(micro_batches)",
        "train_epoch: swapped: optimizer.zero_grad(set_to_none=True) | total = 0.0",
        "train_epoch: swapped: optimizer.step() | losses.append(total)",
        "train_epoch: swapped: loss.backward() | total += loss.item()",
        "noise_estimates: swapped: small, big = (micro_batch, len(gradient… | norm_small = gradients.square().sum(1).…",
        "noise_estimates: swapped: norm_small = gradients.square().sum(1).… | norm_big = gradients.mean(0).square().s…",
        "noise_scale: swapped: signal = sum((one for one, _ in estimat… | noise = sum((one for _, one in estimate…",
    ),
    "an update does not change the learning rate": (
        "train_scheduled: swapped: rates.append(optimizer.param_groups[0][… | train_epoch(model, optimizer, group, k)",
    ),
    "a gradient whose norm is the limit is multiplied by 1": ("clip_gradients: comparison replaced: norm > max_norm",),
    "no estimate is exactly 0": ("noise_scale: comparison replaced: signal > 0",),
}
