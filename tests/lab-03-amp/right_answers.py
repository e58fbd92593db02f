"""Right answers to Lab 03 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "update_scale": {
        "a named tuple": """
-    return scale, good_steps + 1
+    return __import__('collections').namedtuple('Pair', ['scale', 'good_steps'])(scale, good_steps + 1)
""",
    },
    "scaled_step": {
        "calls forward": """
-        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        loss = F.cross_entropy(model.forward(x).flatten(0, 1), y.flatten())
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "share_lost: swapped: lost += int(((nonzero * scale).to(dtype… | there += nonzero.numel()",
        "scaled_step: swapped: optimizer.zero_grad(set_to_none=True) | with torch.autocast('cpu', dtype=low):",
    ),
    "division by a power of two leaves finite gradients of a training run in range": (
        "unscale: swapped: parameter.grad.div_(scale) | finite = finite and bool(parameter.grad…",
    ),
    "the argument is the default": ("scaled_step: set_to_none left out: optimizer.zero_grad(set_to_none=True)",),
    "there are as many masters as parameters": (
        "master_step: strict left out: zip(model.parameters(), masters, strict…",
    ),
}
