"""Right answers to Lab 06 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "phase_fractions": {
        "a Counter": """
-    fractions: dict[str, float] = {}
+    fractions = __import__('collections').Counter()
""",
    },
    "self_times": {
        "a defaultdict": """
-    found: dict[str, tuple[int, float]] = {}
+    found = __import__('collections').defaultdict(lambda: (0, 0.0))
""",
    },
    "gradient_norm": {
        "norm of norms": """
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    norms = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]
+    return float(torch.stack(norms).norm()) if norms else 0.0
""",
    },
    "note": {
        "a flag instead of handles": """
-    handles: list[Any] = []
+    ended = False
@@
+        if ended:
+            return
         activations.append(wide(output).square().mean().sqrt())
         if output.requires_grad:
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            output.register_hook(lambda gradient: None if ended else gradients.append(wide(gradient).norm()))
@@
-        for handle in handles:
-            handle.remove()
+        nonlocal ended
+        ended = True
+        handle.remove()
@@
-    handles.append(module.register_forward_hook(hook))
+    handle = module.register_forward_hook(hook)
""",
    },
    "watch": {
        "an ExitStack": """
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
-    try:
-        yield log
-    finally:
-        for stop in stops:
-            stop()
+    with __import__("contextlib").ExitStack() as stack:
+        for name, module in modules.items():
+            stack.callback(note(module, *log[name].values()))
+        yield log
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "phase_fractions: swapped: total = sum((end - start for start, end… | fractions: dict[str, float] = {}",
        "phase_fractions: swapped: fractions: dict[str, float] = {} | taken: list[tuple[float, float]] = []",
        "phase_fractions: swapped: taken: list[tuple[float, float]] = [] | covered_before = 0.0",
        "self_times: swapped: steps = sorted(((e['ts'], e['ts'] + e['… | operations = [event for event in events…",
        "self_times: swapped: operations = [event for event in events… | found: dict[str, tuple[int, float]] = {}",
        "diagnose: swapped: steps = sum((event['name'].startswith('… | operations = self_times(events, warmup)",
        "diagnose: swapped: operations = self_times(events, warmup) | if phase_fractions(events, warmup)[1]['…",
        "tiny_share: swapped: total = sum((milliseconds for _, millis… | tiny = sum((milliseconds for calls, mil…",
        "note: swapped: activations.append(wide(output).square(… | if output.requires_grad:",
    ),
    "the sums are the same in another order": (
        "self_times: swapped: if running: | add(op, 1, op['dur'])",
        "self_times: swapped: add(op, 1, op['dur']) | running.append(op)",
    ),
    "no measured float is exactly at a threshold": (
        "diagnose: comparison replaced: phase_fractions(events, warmup)[1]['dat…",
        "diagnose: comparison replaced: tiny_share(operations) > TINY_SHARE",
    ),
}
