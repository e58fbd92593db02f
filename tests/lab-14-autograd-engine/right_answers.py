"""Right answers to Lab 14 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "arithmetic": {
        "shares summed at once": """
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    return Value(
+        a.data + b.data, (a, b), lambda g: (unbroadcast(g, a.data.shape), unbroadcast(g, b.data.shape)), "add"
+    )
@@
-    return Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
+    left, right = a.data, b.data
+
+    def vjp(g: Array) -> tuple[Array, Array]:
+        return unbroadcast(np.multiply(g, right), left.shape), unbroadcast(np.multiply(g, left), right.shape)
+
+    return Value(np.multiply(left, right), (a, b), vjp)
""",
        "the power with its case inside vjp": """
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+
+    def vjp(g: Array) -> tuple[Array]:
+        if not exponent:
+            return (np.zeros_like(g),)
+        return (exponent * a.data ** (exponent - 1) * g,)
+
+    return Value(np.power(a.data, exponent), (a,), vjp, "**")
""",
    },
    "nonlinear": {
        "by where, by cosh, by exp again": """
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: (g * np.exp(a.data),), "exp")
@@
-    return Value(data, (a,), lambda g: (g * (1 - data**2),), "tanh")
+    return Value(data, (a,), lambda g: (g * (1 - data) * (1 + data),), "tanh")
@@
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    positive = a.data > 0
+    return Value(np.where(positive, a.data, 0), (a,), lambda g: (np.where(positive, g, 0),), "relu")
""",
    },
    "topological_order": {
        "a stack of nodes that are met twice": """
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    order, expanded, stack = [], set(), [(root, False)]
+    while stack:
+        node, ready = stack.pop()
+        if ready:
+            order.append(node)
+        elif node not in expanded:
+            expanded.add(node)
+            stack.append((node, True))
+            stack += [(parent, False) for parent in node.parents]
+    return order
""",
        "counted uses": """
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    uses, stack = {id(root): 0}, [root]
+    while stack:
+        for parent in stack.pop().parents:
+            if id(parent) not in uses:
+                uses[id(parent)] = 0
+                stack.append(parent)
+            uses[id(parent)] += 1
+    free, order = [root], []
+    while free:
+        node = free.pop()
+        order.append(node)
+        for parent in node.parents:
+            uses[id(parent)] -= 1
+            if not uses[id(parent)]:
+                free.append(parent)
+    order.reverse()
+    return order
""",
    },
    "broadcasting": {
        "axis by axis": """
-    new = gradient.ndim - len(shape)
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    while gradient.ndim > len(shape):
+        gradient = gradient.sum(axis=0)
+    for axis, size in enumerate(shape):
+        if size == 1:
+            gradient = gradient.sum(axis=axis, keepdims=True)
+    return np.asarray(gradient)
@@
-    data = a.data.sum(axis=axis, keepdims=keepdims)
-    kept = a.data.sum(axis=axis, keepdims=True).shape
-    return Value(data, (a,), lambda g: (np.broadcast_to(g.reshape(kept), a.data.shape),), "sum")
+
+    def vjp(g: Array) -> tuple[Array]:
+        if axis is not None and not keepdims:
+            g = np.expand_dims(g, axis)
+        return (np.ones_like(a.data) * g,)
+
+    return Value(np.sum(a.data, axis=axis, keepdims=keepdims), (a,), vjp)
""",
    },
    "backward": {
        "lists of shares": """
-    gradients: dict[Value, Array] = {root: np.ones_like(root.data)}
-    for value in reversed(topological_order(root)):
-        gradient = gradients.pop(value)
-        value.grad = value.grad + gradient
-        if value.vjp is None:
-            continue
-        for parent, share in zip(value.parents, value.vjp(gradient), strict=True):
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
-            gradients[parent] = gradients[parent] + share if parent in gradients else share
+    order = topological_order(root)
+    shares: dict[int, list[Array]] = {id(value): [] for value in order}
+    shares[id(root)].append(np.ones_like(root.data))
+    for value in order[::-1]:
+        total = np.zeros_like(value.data)
+        for share in shares[id(value)]:
+            total += unbroadcast(share, value.data.shape)
+        value.grad += total
+        if value.vjp:
+            for parent, share in zip(value.parents, value.vjp(total), strict=True):
+                shares[id(parent)].append(share)
""",
    },
    "matmul": {
        "reshaped operands": """
-    left = a.data[None, :] if a.data.ndim == 1 else a.data
-    right = b.data[:, None] if b.data.ndim == 1 else b.data
-
-    def vjp(g: Array) -> tuple[Array, Array]:
-        g = np.expand_dims(g, -1) if b.data.ndim == 1 else g
-        g = np.expand_dims(g, -2) if a.data.ndim == 1 else g
-        for_left, for_right = g @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ g
-        return (
-            for_left[..., 0, :] if a.data.ndim == 1 else for_left,
-            for_right[..., 0] if b.data.ndim == 1 else for_right,
-        )
-
-    return Value(a.data @ b.data, (a, b), vjp, "matmul")
+    x, y = a.data, b.data
+    left = x.reshape(1, -1) if x.ndim == 1 else x
+    right = y.reshape(-1, 1) if y.ndim == 1 else y
+    shape = (left @ right).shape
+
+    def vjp(g: Array) -> tuple[Array, Array]:
+        g = g.reshape(shape)
+        one = np.einsum("...nk,...mk->...nm", g, right)
+        other = np.einsum("...nm,...nk->...mk", left, g)
+        return (
+            unbroadcast(one, left.shape).reshape(x.shape),
+            unbroadcast(other, right.shape).reshape(y.shape),
+        )
+
+    return Value(np.matmul(x, y), (a, b), vjp)
""",
    },
    "cross_entropy": {
        "by logaddexp and one-hot rows": """
-    rows = np.arange(len(labels))
-    shifted = logits.data - logits.data.max(axis=1, keepdims=True)
-    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
-
-    def vjp(g: Array) -> tuple[Array]:
-        gradient = np.exp(log_probabilities)
-        gradient[rows, labels] -= 1
-        return (g * gradient / len(labels),)
-
-    return Value(-log_probabilities[rows, labels].mean(), (logits,), vjp, "cross-entropy")
+    x = logits.data
+    right = np.eye(x.shape[1], dtype=x.dtype)[labels]
+    total = np.logaddexp.reduce(x, axis=1)
+    loss = np.mean(total - (x * right).sum(axis=1))
+    return Value(loss, (logits,), lambda g: ((np.exp(x - total[:, None]) - right) * (g / len(x)),))
""",
    },
    "gradient_check": {
        "one flat number after the other": """
-    disagreements = []
-    for number, value in enumerate(values):
-        for place in np.ndindex(value.data.shape):
-            ends = []
-            for sign in (1, -1):
-                moved = [array.copy() for array in arrays]
-                moved[number][place] += sign * step
-                ends.append(float(function(*map(Value, moved)).data))
-            difference = (ends[0] - ends[1]) / (2 * step)
-            disagreements.append(abs(value.grad[place] - difference) / max(1.0, abs(difference)))
-    return float(np.max(disagreements))
+    worst = np.float64(0.0)
+    for value in values:
+        kept = value.data
+        for place in range(kept.size):
+            unit = np.zeros(kept.size)
+            unit[place] = step
+            ends = []
+            for moved in (kept + unit.reshape(kept.shape), kept - unit.reshape(kept.shape)):
+                others = [Value(moved if other is value else other.data) for other in values]
+                ends.append(function(*others).data)
+            difference = (ends[0] - ends[1]) / (2 * step)
+            error = np.abs(value.grad.flat[place] - difference) / np.maximum(1.0, np.abs(difference))
+            worst = np.maximum(worst, error)
+    return worst.item()
""",
    },
    "layer_statistics": {
        "outputs kept, described later": """
-    try:
-        with torch.no_grad():
-            model(*inputs)
-    finally:
-        for handle in handles:
-            handle.remove()
-    return rows
+    try:
+        with torch.inference_mode():
+            model.forward(*inputs) if not model._forward_hooks else model(*inputs)
+    finally:
+        [handle.remove() for handle in reversed(handles)]
+    return list(rows)
""",
    },
    "clip_layer_gradient": {
        "a tensor hook on the output": """
-    def clip(module: nn.Module, grad_output: tuple[Tensor, ...]) -> tuple[Tensor] | None:
-        norm = grad_output[0].norm().item()
-        norms.append(norm)
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
-
-    handle = layer.register_full_backward_pre_hook(clip)
+    def clip(gradient: Tensor) -> Tensor:
+        norm = float(gradient.square().sum().sqrt())
+        norms.append(norm)
+        return gradient * min(1.0, max_norm / norm) if norm else gradient
+
+    def watch(module: nn.Module, arguments: Any, output: Tensor) -> None:
+        output.register_hook(clip)
+
+    handle = layer.register_forward_hook(watch)
""",
    },
    "patch_activations": {
        "torch.where with a mask": """
-        patched = output.clone()
-        patched[:, list(positions)] = replacement[:, list(positions)]
-        return patched
+        chosen = torch.zeros(output.shape[1], dtype=torch.bool)
+        for position in positions:
+            chosen[position] = True
+        return torch.where(chosen[None, :, None], replacement, output)
""",
        "the handle as a context": """
-    try:
-        yield
-    finally:
-        handle.remove()
+    with handle:
+        yield
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "topological_order: swapped: order, seen = ([], {root}) | stack = [(root, iter(root.parents))]",
        "topological_order: swapped: order.append(node) | stack.pop()",
        "topological_order: swapped: seen.add(parent) | stack.append((parent, iter(parent.paren…",
        "sum_over: swapped: data = a.data.sum(axis=axis, keepdims=k… | kept = a.data.sum(axis=axis, keepdims=T…",
        "matmul: swapped: left = a.data[None, :] if a.data.ndim =… | right = b.data[:, None] if b.data.ndim …",
        "cross_entropy: swapped: rows = np.arange(len(labels)) | shifted = logits.data - logits.data.max…",
        "gradient_check: swapped: backward(function(*values)) | disagreements = []",
        "patch_activations: swapped: if positions is None: | patched = output.clone()",
    ),
    "reshape puts the axes of size 1 back": (
        "unbroadcast: keepdims left out: gradient.sum(axis=(*range(new), *repeat…",
    ),
    "every vjp returns one gradient per parent": (
        "backward: strict left out: zip(value.parents, value.vjp(gradient),…",
    ),
    "a norm equal to the limit is multiplied by 1": ("clip_layer_gradient: comparison replaced: norm > max_norm",),
    "the class is given, and no check tests this line of it": (
        "Value: left out: __array_ufunc__ = None",
        "Value: left out: return matmul(self, self.value(other))",
        "Value: left out: return f'Value(data={self.data}, grad={…",
        "Value: dtype left out: np.asarray(other, dtype=self.data.dtype)",
    ),
    "a copy is equal": ("Value: copy left out: array.astype(np.float64, copy=False)",),
    "the two lines are independent": (
        "Value: swapped: self.grad = np.zeros_like(self.data) | self.parents, self.vjp, self.name = (pa…",
    ),
}
