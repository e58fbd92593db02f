"""Right answers to Lab 05 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "runs_per_block": {
        "a Counter by identity": """
-    counts = [0] * len(blocks)
-
-    def counter(place: int) -> Callable[..., None]:
-        def count(module: nn.Module, inputs: Any) -> None:
-            counts[place] += 1
-
-        return count
-
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+    runs = __import__("collections").Counter()
+    note = lambda module, *_: runs.update([id(module)])
+    handles = [block.register_forward_hook(note, always_call=True) for block in dict.fromkeys(blocks)]
@@
-    return counts
+    return [runs[id(block)] for block in blocks]
""",
    },
    "repeatable": {
        "fork_rng around the second run": """
-        now = torch.get_rng_state()
-        torch.set_rng_state(random_state)
-        try:
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
-                return function(*fresh)
-        finally:
-            torch.set_rng_state(now)
+        with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.autocast("cpu", **autocast):
+            torch.set_rng_state(random_state)
+            return function(*fresh)
""",
        "a decorated function": """
-    def again() -> Any:
+    @torch.enable_grad()
+    def again() -> Any:
@@
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            with torch.autocast(device_type="cpu", **autocast):
""",
    },
    "checkpoint": {
        "tensors of the second run with their graph": """
-        remade[len(remade)] = tensor.detach()
+        remade[len(remade)] = tensor
""",
        "a key object for each tensor": """
-    count = 0  # tensors that the first run did not keep
-    remade: dict[int, Tensor] = {}  # those of the second run that backward has not taken yet, by their number
-
-    def number_instead(tensor: Tensor) -> int:
-        nonlocal count
-        count += 1
-        return count - 1
-
-    def remake(tensor: Tensor) -> None:
-        remade[len(remade)] = tensor.detach()
-
-    def take(number: int) -> Tensor:
-        if number not in remade:  # also in a second backward
-            remade.clear()  # what a backward through a part of the graph has left
-            with saved_tensors_hooks(remake, lambda nothing: nothing):
-                again()
-        return remade.pop(number)
+    keys, remade = [], {}
+
+    def number_instead(tensor):
+        keys.append(object())
+        return keys[-1]
+
+    def take(key):
+        if key not in remade:
+            order = iter(keys)
+            with saved_tensors_hooks(lambda tensor: remade.update({next(order): tensor.detach()}), lambda x: x):
+                again()
+        return remade.pop(key)
""",
    },
    "keep_or_reuse": {
        "a deque, emptied from the left": """
-    kept: list[Tensor] = []
+    kept = __import__("collections").deque()
@@
-                return kept.pop(0)
+                return kept.popleft().detach()
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "repeatable: swapped: random_state = torch.get_rng_state() | autocast = {'enabled': torch.is_autocas…",
        "repeatable: swapped: autocast = {'enabled': torch.is_autocas… | versions = [value._version if isinstanc…",
        "repeatable: swapped: for place, value in enumerate(inputs): | now = torch.get_rng_state()",
        "checkpoint: swapped: again = repeatable(function, inputs) | count = 0",
        "checkpoint: swapped: count = 0 | remade: dict[int, Tensor] = {}",
        "keep_or_reuse: swapped: kept: list[Tensor] = [] | again = False",
        "plan: swapped: best: list[int] | None = None | least = 0",
    ),
    "an input that is refused is detached first": (
        "repeatable: swapped: if value._version != versions[place]: | fresh[place] = value.detach().requires_…",
    ),
    "a declaration may stand anywhere before the assignment": (
        "keep_or_reuse: swapped: nonlocal again | with KeepOrReuse():",
    ),
    "the first choice that fits sets the variable": (
        "plan: left out: least = 0",
        "plan: swapped: least = 0 | for choice in range(2 ** len(layers)):",
    ),
    "no two choices cost the same": ("plan: comparison replaced: flops < least",),
}
