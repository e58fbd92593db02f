"""Right answers to Lab 11 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "graph_sizes": {
        "a class as backend, nodes counted in a loop": """
-    sizes = []
-
-    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
-        sizes.append(sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes))
-        return gm.forward
+    class Backend:
+        def __init__(self) -> None:
+            self.sizes: list[int] = []
+
+        def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> fx.GraphModule:
+            size = 0
+            for node in gm.graph.nodes:
+                if node.op not in ("placeholder", "get_attr", "output"):
+                    size += 1
+            self.sizes += [size]
+            return gm
+
+    backend = Backend()
@@
-        torch.compile(function, backend=backend)(*inputs)
+        torch.compile(function, backend=backend, dynamic=False)(*inputs)
@@
-    return sizes
+    return backend.sizes
""",
    },
    "compilations": {
        "a number that the backend raises": """
-    graphs = []
-
-    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
-        graphs.append(gm)
-        return gm.forward
-
-    torch._dynamo.reset()
-    try:
-        compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
-        for arguments in calls:
-            before = len(graphs)
-            compiled(*arguments)
-            counts.append(len(graphs) - before)
-    finally:
-        torch._dynamo.reset()
-    return counts
+    counts: list[int] = []
+
+    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
+        counts[-1] += 1
+        return gm
+
+    torch.compiler.reset()
+    compiled = torch.compile(function, dynamic=dynamic, backend=backend)
+    try:
+        for arguments in calls:
+            counts.append(0)
+            compiled(*arguments)
+    finally:
+        torch.compiler.reset()
+    return counts
""",
    },
    "clip_in_one_graph": {
        "clamp, without where": """
-    norm = torch.linalg.vector_norm(x.detach().float())
-    factor = torch.where(norm > limit, limit / norm, 1.0)
-    return (x.float() * factor).to(x.dtype)
+    with torch.no_grad():
+        factor = (limit / x.float().square().sum().sqrt()).clamp(max=1.0)
+    return (x.to(torch.float32) * factor).to(x.dtype)
""",
        "the larger of norm and limit": """
-    norm = torch.linalg.vector_norm(x.detach().float())
-    factor = torch.where(norm > limit, limit / norm, 1.0)
-    return (x.float() * factor).to(x.dtype)
+    norm = x.detach().float().norm()
+    return torch.mul(x.float(), limit / norm.clamp(min=limit)).type_as(x)
""",
    },
    "make_update": {
        "sub_ of .data, a tensor that is filled": """
-    calls = 0
-
-    @torch.no_grad()
-    def subtract(gradients: list[Tensor | None], learning_rate: Tensor) -> None:
-        for parameter, gradient in zip(parameters, gradients, strict=True):
-            if gradient is not None:
-                parameter -= learning_rate * gradient
-
-    compiled = torch.compile(subtract, backend=backend)
-
-    def update(gradients: list[Tensor | None]) -> None:
-        nonlocal calls
-        calls += 1
-        compiled(gradients, torch.tensor(rate(calls)))
+    steps, tensor = iter(range(1, 10_000)), torch.zeros((), dtype=torch.float64)
+
+    def subtract(gradients: list[Tensor | None]) -> None:
+        with torch.no_grad():
+            for parameter, gradient in zip(parameters, gradients, strict=True):
+                if gradient is not None:
+                    parameter.sub_((tensor * gradient).to(parameter.dtype))
+
+    compiled = torch.compile(subtract, backend=backend, fullgraph=True)
+
+    def update(gradients: list[Tensor | None]) -> None:
+        tensor.fill_(rate(next(steps)))
+        compiled(gradients)
""",
    },
    "pad_to_bucket": {
        "sorted buckets, new tensors that are filled": """
-    fitting = [bucket for bucket in buckets if bucket >= length]
-    if not fitting:
-        raise ValueError(f"{length} tokens fit into no bucket: the largest holds {max(buckets, default=0)}")
-    return min(fitting)
+    for bucket in sorted(buckets):
+        if length <= bucket:
+            return bucket
+    raise ValueError(f"no bucket for {length} tokens in {buckets}")
@@
-    missing = bucket_of(tokens.shape[1], buckets) - tokens.shape[1]
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    batch, length = tokens.shape
+    size = bucket_of(length, buckets)
+    new_tokens, new_targets = tokens.new_full((batch, size), padding), targets.new_full((batch, size), -100)
+    new_tokens[:, :length], new_targets[:, :length] = tokens, targets
+    return new_tokens, new_targets
""",
    },
    "best_buckets": {
        "recursion with a cache, from the largest bucket down": """
-    return best[-1][1]
+    import functools
+
+    @functools.cache
+    def solve(end: int, left: int) -> tuple[float, tuple[int, ...]]:
+        if end == 0:
+            return 0, ()
+        if left == 0:
+            return math.inf, ()
+        options = []
+        for start in range(end):
+            rest, buckets = solve(start, left - 1)
+            options.append((rest + padding(start, end), (*buckets, sizes[end - 1])))
+        return min(options)
+
+    return list(solve(len(sizes), count)[1])
""",
    },
    "timings": {
        "lists filled in a loop": """
-    def seconds(function: Callable[[], object]) -> float:
-        start = clock()
-        function()
-        return clock() - start
-
-    first = seconds(compiled)
-    eager()
-    pairs = [(seconds(eager), seconds(compiled)) for _ in range(rounds)]
-    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))
+    start = clock()
+    compiled()
+    first = clock() - start
+    eager()
+    times: dict[str, list[float]] = {"eager": [], "compiled": []}
+    for _ in range(rounds):
+        for name, function in (("eager", eager), ("compiled", compiled)):
+            start = clock()
+            function()
+            times[name].append(clock() - start)
+    middle = {name: torch.tensor(some, dtype=torch.float64).quantile(0.5).item() for name, some in times.items()}
+    return Timings(first=first, **middle)
""",
    },
    "break_even": {
        "negative floor division": """
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return 1 - int((eager - first) // (eager - compiled))
""",
    },
    "errors_against_float64": {
        "the float64 copy in eval mode, modes in a list": """
-    modes = {module: module.training for module in model.modules()}
-    model.eval()
-    try:
-        with torch.no_grad():
-            exact_inputs = [x.double() if x.is_floating_point() else x for x in inputs]
-            exact = copy.deepcopy(model).double()(*exact_inputs)
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
-            return eager, other
-    finally:
-        for module, mode in modes.items():
-            module.training = mode
+    exact_model = copy.deepcopy(model).to(torch.float64).eval()
+    before = [(module, module.training) for module in model.modules()]
+    try:
+        model.train(False)
+        with torch.inference_mode():
+            exact = exact_model(*[x.to(torch.float64) if torch.is_floating_point(x) else x for x in inputs])
+            errors = []
+            for run in (model, compiled):
+                errors.append(float(torch.max(torch.abs(exact - run(*inputs).to(torch.float64)))))
+            return errors[0], errors[1]
+    finally:
+        for module, training in before:
+            module.training = training
""",
    },
    "last_rows": {
        "indexing by two tensors": """
-    index = (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2])  # [B, 1, C]
-    return hidden.gather(1, index).squeeze(1)
+    return hidden[torch.arange(hidden.shape[0], device=hidden.device), lengths - 1]
""",
        "a mask that fills, then a sum": """
-    index = (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2])  # [B, 1, C]
-    return hidden.gather(1, index).squeeze(1)
+    places = torch.arange(hidden.shape[1], device=hidden.device)
+    others = places[None, :, None] != (lengths - 1)[:, None, None]
+    return hidden.masked_fill(others, 0).sum(1)
""",
    },
    "export_for_serving": {
        "a deep copy, another example, shapes by dictionary": """
-    example = torch.zeros(2, 3, dtype=torch.int64), torch.tensor([3, 2])
-    modes = {module: module.training for module in model.modules()}
-    model.eval()
-    try:
-        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: batch}))
-    finally:
-        for module, mode in modes.items():
-            module.training = mode
+    served = copy.deepcopy(model).eval()
+    example = torch.ones(4, 4, dtype=torch.int64), torch.full((4,), 4)
+    with torch.no_grad():
+        return torch.export.export(served, example, dynamic_shapes=[{0: batch, 1: length}, {0: batch}])
""",
    },
}

# Changes that `make prove` finds unnoticed although they change nothing, as {why: ("function: change", ...)}
EQUIVALENT: dict[str, tuple[str, ...]] = {}
