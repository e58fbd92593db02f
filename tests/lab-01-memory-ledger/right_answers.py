"""Right answers to Lab 01 that differ from the reference, and automatic changes to it that change no behavior."""

# Lines of the reference that several right answers replace.
COUNT = """\
-    block = 3 * C * C + C * C + 2 * 4 * C * C + 2 * C
-    output = 0 if tied else vocab_size * C
-    return vocab_size * C + block_size * C + n_layer * block + C + output
"""
GROW = """\
-    if peak(1) > budget:
-        return 0
-    fits, too_large = 1, 2
-    while peak(too_large) <= budget:
-        fits, too_large = too_large, 2 * too_large
"""
HALVE = """\
-    while too_large - fits > 1:
-        middle = (fits + too_large) // 2
-        if peak(middle) <= budget:
-            fits = middle
-        else:
-            too_large = middle
-    return fits
"""

RIGHT = {
    "parameter_count": {
        "a list of shapes": COUNT
        + """+    block = [(3 * C, C), (C, C), (4 * C, C), (C, 4 * C), (C, 1), (C, 1)]
+    shapes = [(vocab_size, C)] * (2 - tied) + [(block_size, C), (C, 1)] + n_layer * block
+    return sum(rows * columns for rows, columns in shapes)
""",
        "builds the model without memory": COUNT
        + """+    from rankzero.learn.models.gpt import GPT, GPTConfig
+
+    with torch.device("meta"):
+        blocks = [GPT(GPTConfig(vocab_size, block_size, n, 1, hidden_dim)).parameter_count() for n in (1, 2)]
+    one = blocks[1] - blocks[0]
+    return blocks[0] + (n_layer - 1) * one + (not tied) * vocab_size * hidden_dim
""",
    },
    "state_bytes": {
        "a dataclass and a match": """
-    return {
+    from dataclasses import asdict, make_dataclass
+
+    Row = make_dataclass("Row", ["w", "g", "o"])
+    row = Row(weight * n_parameters, gradient * n_parameters, (master + averages * average) * n_parameters + steps)
+    return dict(zip(("weights", "gradients", "optimizer state"), asdict(row).values()))
+    return {
""",
        "a defaultdict": """
-    return {
+    return __import__('collections').defaultdict(int) | {
""",
    },
}

RIGHT["saved_bytes"] = {
    "a set of addresses, and a context of its own": """
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
-    kept = {}
+    state = [*model.parameters(), *model.buffers()]
+    kept = []
@@
-        storage = tensor.untyped_storage()
-        if storage.data_ptr() not in own:
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
+        kept.append(tensor)
@@
-    return sum(storage.nbytes() for storage in kept.values())
+    sizes = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in kept}
+    return sum(sizes.values()) - sum(
+        sizes.pop(one.untyped_storage().data_ptr(), 0) for one in state
+    )
""",
    "gradients switched on, and the graph walked through hooks": """
-    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
+    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
""",
}
RIGHT["largest_micro_batch"] = {
    "bit by bit": GROW
    + HALVE
    + """+    bit, answer = 1, 0
+    while peak(bit) <= budget:
+        bit *= 2
+    while bit := bit // 2:
+        if peak(answer + bit) <= budget:
+            answer += bit
+    return answer
""",
    "recursion": GROW
    + HALVE
    + """+    def between(fits, step, growing):
+        if not step:
+            return fits
+        if peak(fits + step) <= budget:
+            return between(fits + step, step * 2 if growing else step // 2, growing)
+        return between(fits, step // 2, False)
+
+    return between(0, 1, True)
""",
    "bisect": HALVE
    + """+    from bisect import bisect_left
+
+    return bisect_left(range(too_large), True, lo=fits + 1, key=lambda size: peak(size) > budget) - 1
""",
}

EQUIVALENT = {
    "the two statements are independent": (
        "state_bytes: swapped: weight, gradient, master, average = {'f… | averages = {'sgd': 0, 'momentum': 1, 'a…",
        "state_bytes: swapped: averages = {'sgd': 0, 'momentum': 1, 'a… | steps = 4 * n_tensors if optimizer == '…",
        "saved_bytes: swapped: own = {tensor.untyped_storage().data_pt… | kept = {}",
        "largest_micro_batch: swapped: if peak(1) > budget: | fits, too_large = (1, 2)",
    ),
    "the output is freed when the function ends": (
        "saved_bytes: left out: del output",
        "saved_bytes: swapped: del output | return sum((storage.nbytes() for storag…",
    ),
    "no backward pass reads the saved tensors": ("saved_bytes: left out: return tensor",),
}
