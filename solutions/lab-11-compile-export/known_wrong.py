"""Known-wrong solutions of Lab 11, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

GRAPHS = "handbook/compile-and-export.md#graphs-and-graph-breaks"
RECOMPILES = "handbook/compile-and-export.md#recompilation-and-dynamic-shapes"
BUCKETS = "handbook/compile-and-export.md#buckets-of-lengths"
PAYS = "handbook/compile-and-export.md#when-compiling-pays"
DIGITS = "handbook/compile-and-export.md#differences-in-the-last-digits"
EXPORT = "handbook/compile-and-export.md#export"

KNOWN_WRONG = (
    # ------------------------------------------------------------------------------------------------------ graph_sizes
    KnownWrong(
        "all_nodes_counted",
        fails=("graph_sizes/operations", "graph_sizes/breaks"),
        read=GRAPHS,
        explanation="""Every node of a graph is counted, also its inputs, its weights and its output. These nodes
        compute nothing: only nodes of kind call_function, call_method and call_module are operations.""",
        change="""
-        sizes.append(sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes))
+        sizes.append(len(gm.graph.nodes))
""",
    ),
    KnownWrong(
        "methods_not_counted",
        fails=("graph_sizes/operations", "graph_sizes/breaks"),
        read=GRAPHS,
        explanation="""Operations that are written as methods, such as x.cos(), are left out. They are nodes of kind
        call_method, and compute as much as a call_function.""",
        change="""
-        sizes.append(sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes))
+        sizes.append(sum(node.op == "call_function" for node in gm.graph.nodes))
""",
    ),
    KnownWrong(
        "first_graph_alone",
        fails=("graph_sizes/breaks",),
        read=GRAPHS,
        explanation="""Only the first graph is counted. After a break the compiler captures a further graph and
        calls the backend again: the number of graphs is how a break is seen.""",
        change="""
-    return sizes
+    return sizes[:1]
""",
    ),
    KnownWrong(
        "last_graph_alone",
        fails=("graph_sizes/breaks",),
        read=GRAPHS,
        explanation="""Only the last graph is counted: each call of the backend replaces what the call before noted.
        The backend is called once per graph.""",
        change="""
-    return sizes
+    return sizes[-1:]
""",
    ),
    KnownWrong(
        "one_sum_of_all_graphs",
        fails=("graph_sizes/breaks",),
        read=GRAPHS,
        explanation="""The operations of all graphs are added up. The sum is nearly the same with and without a
        break: the list has one number per graph.""",
        change="""
-    return sizes
+    return [sum(sizes)] if sizes else []
""",
    ),
    KnownWrong(
        "breaks_forbidden",
        fails=("graph_sizes/breaks", "graph_sizes/nothing-left"),
        read=GRAPHS,
        explanation="""With fullgraph=True a break is an error, which ends the call, and so is an exception that the
        function raises. That is how a break is forbidden, not how breaks are counted.""",
        change="""
-        torch.compile(function, backend=backend)(*inputs)
+        torch.compile(function, backend=backend, fullgraph=True)(*inputs)
""",
    ),
    KnownWrong(
        "called_twice",
        fails=("graph_sizes/breaks",),
        read=GRAPHS,
        explanation="""The function runs twice. The second run compiles nothing, so the numbers are right, but what
        the function does beside its graphs, such as drawing random numbers, happens twice.""",
        change="""
-        torch.compile(function, backend=backend)(*inputs)
+        compiled = torch.compile(function, backend=backend)
+        compiled(*inputs)
+        compiled(*inputs)
""",
    ),
    KnownWrong(
        "earlier_compilations_count",
        fails=("graph_sizes/again",),
        read=RECOMPILES,
        explanation="""Earlier compilations change the result. Torch keeps at most 8 compiled variants of one
        function; after the eighth the function runs uncompiled, and no graph is captured.""",
        change="""
-    torch._dynamo.reset()
     try:
""",
    ),
    KnownWrong(
        "compiled_code_stays",
        fails=("graph_sizes/nothing-left",),
        read=RECOMPILES,
        explanation="""The compiled variants of the function stay with the compiler after the call. They count
        toward torch's limit of 8 when the function is compiled by somebody else.""",
        change="""
     finally:
-        torch._dynamo.reset()
+        del backend
""",
    ),
    KnownWrong(
        "reset_only_without_exception",
        fails=("graph_sizes/nothing-left",),
        read=RECOMPILES,
        explanation="""Where the function raises, the reset after the call does not run. A finally clause runs in
        both cases.""",
        change="""
-    try:
-        torch.compile(function, backend=backend)(*inputs)
-    finally:
-        torch._dynamo.reset()
+    torch.compile(function, backend=backend)(*inputs)
+    torch._dynamo.reset()
""",
    ),
    KnownWrong(
        "exceptions_end_here",
        fails=("graph_sizes/nothing-left",),
        read=GRAPHS,
        explanation="""An exception of the function ends in graph_sizes, and the caller sees a result. A function
        that fails early then looks like one that captures nothing.""",
        change="""
-    finally:
-        torch._dynamo.reset()
+    except Exception:
+        pass
+    torch._dynamo.reset()
""",
    ),
    KnownWrong(
        "gradients_switched_off",
        fails=("graph_sizes/nothing-left",),
        read=GRAPHS,
        explanation="""The function runs with gradients off, whatever the caller's mode is. The compiler captures other
        graphs in that mode, so the numbers are not those of the call that was asked about.""",
        change="""
-        torch.compile(function, backend=backend)(*inputs)
+        with torch.no_grad():
+            torch.compile(function, backend=backend)(*inputs)
""",
    ),
    # ----------------------------------------------------------------------------------------------------- compilations
    KnownWrong(
        "reset_in_every_call",
        fails=("compilations/shapes", "compilations/dynamic", "compilations/graphs", "compilations/limit"),
        read=RECOMPILES,
        explanation="""The compiler is reset before every call, so that every call compiles. The question is which
        calls find their guards satisfied by what earlier calls compiled.""",
        change="""
             before = len(graphs)
+            torch._dynamo.reset()
""",
    ),
    KnownWrong(
        "numbers_so_far",
        fails=("compilations/shapes", "compilations/dynamic", "compilations/graphs", "compilations/limit"),
        read=RECOMPILES,
        explanation="""The numbers are those of all calls so far. The number of one call is the difference before
        and after it.""",
        change="""
-            counts.append(len(graphs) - before)
+            counts.append(len(graphs))
""",
    ),
    KnownWrong(
        "warmed_up_first",
        fails=("compilations/shapes", "compilations/dynamic", "compilations/graphs", "compilations/limit"),
        read=RECOMPILES,
        explanation="""A call that is not counted comes first, as in a measurement of time. Here the compilation of
        the first call is what is counted.""",
        change="""
         compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
+        compiled(*calls[0])
""",
    ),
    KnownWrong(
        "false_is_the_default",
        fails=("compilations/shapes", "compilations/dynamic", "compilations/graphs"),
        read=RECOMPILES,
        explanation="""None is treated like False: each shape compiles. With None torch compiles with symbols as
        soon as a size has changed.""",
        change="""
-        compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
+        compiled, counts = torch.compile(function, backend=backend, dynamic=bool(dynamic)), []
""",
    ),
    KnownWrong(
        "always_the_default",
        fails=("compilations/dynamic", "compilations/limit"),
        read=RECOMPILES,
        explanation="""The argument `dynamic` is not passed on. By default torch compiles a second time with symbols
        in place of the sizes that changed; dynamic=False compiles for each shape, dynamic=True uses symbols from
        the first call on.""",
        change="""
-        compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
+        compiled, counts = torch.compile(function, backend=backend), []
""",
    ),
    KnownWrong(
        "begun_where_others_ended",
        fails=("compilations/dynamic",),
        read=RECOMPILES,
        explanation="""Earlier compilations of the function play a part. The compiler remembers which sizes have
        changed, and compiles with symbols at once: the first shape looks cheaper than it is.""",
        change="""
-    torch._dynamo.reset()
     try:
""",
    ),
    KnownWrong(
        "one_per_call_at_most",
        fails=("compilations/graphs",),
        read=GRAPHS,
        explanation="""A call counts as one compilation or none. A function with a break has several graphs, and one
        call may compile all of them.""",
        change="""
-            counts.append(len(graphs) - before)
+            counts.append(int(len(graphs) > before))
""",
    ),
    KnownWrong(
        "limit_lifted",
        fails=("compilations/limit",),
        read=RECOMPILES,
        explanation="""Torch's limit is lifted while counting: every shape compiles. With the limit, which stands in
        every training run, the ninth shape runs uncompiled.""",
        change="""
-        compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
-        for arguments in calls:
-            before = len(graphs)
-            compiled(*arguments)
-            counts.append(len(graphs) - before)
+        compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
+        with torch._dynamo.config.patch(recompile_limit=1000):
+            for arguments in calls:
+                before = len(graphs)
+                compiled(*arguments)
+                counts.append(len(graphs) - before)
""",
    ),
    KnownWrong(
        "variants_stay",
        fails=("compilations/limit",),
        read=RECOMPILES,
        explanation="""The compiled variants of the function stay with the compiler after the last call, and count
        toward the limit of the next code that compiles the function.""",
        change="""
     finally:
-        torch._dynamo.reset()
+        del backend
""",
    ),
    # ------------------------------------------------------------------------------------------------ clip_in_one_graph
    KnownWrong(
        "always_scaled",
        fails=("clip_in_one_graph/values", "clip_in_one_graph/gradients", "clip_in_one_graph/graph"),
        read=GRAPHS,
        explanation="""x is scaled to the limit also where its norm is below it. Small gradients then become large
        ones, and zeros become nan.""",
        change="""
-    factor = torch.where(norm > limit, limit / norm, 1.0)
+    factor = limit / norm
""",
    ),
    KnownWrong(
        "each_number_clipped",
        fails=("clip_in_one_graph/values", "clip_in_one_graph/gradients", "clip_in_one_graph/graph"),
        read=GRAPHS,
        explanation="""Each number is limited by itself. The limit is one of the norm of all numbers together: the
        direction of x stays.""",
        change="""
-    return (x.float() * factor).to(x.dtype)
+    return x.clamp(-limit, limit)
""",
    ),
    KnownWrong(
        "norm_in_bf16",
        fails=("clip_in_one_graph/values", "clip_in_one_graph/gradients"),
        read=DIGITS,
        explanation="""The norm is computed in the dtype of x. In bf16 the norm has 8 bits, an error of up to 0.4 %,
        which all numbers of the result share.""",
        change="""
-    norm = torch.linalg.vector_norm(x.detach().float())
+    norm = torch.linalg.vector_norm(x.detach())
""",
    ),
    KnownWrong(
        "result_in_fp32",
        fails=("clip_in_one_graph/values",),
        read=DIGITS,
        explanation="""The result is fp32 also where x is bf16: it takes twice the memory, and the operations after
        it run in fp32.""",
        change="""
-    return (x.float() * factor).to(x.dtype)
+    return x.float() * factor
""",
    ),
    KnownWrong(
        "gradient_through_the_norm",
        fails=("clip_in_one_graph/gradients",),
        read=GRAPHS,
        explanation="""The gradient flows through the norm too. The number of .item() is a constant for autograd; of
        zeros, the gradient through the norm is even nan in some forms. x.detach() makes the norm a constant.""",
        change="""
-    norm = torch.linalg.vector_norm(x.detach().float())
+    norm = torch.linalg.vector_norm(x.float())
""",
    ),
    KnownWrong(
        "item_breaks_the_graph",
        fails=("clip_in_one_graph/graph",),
        read=GRAPHS,
        explanation="""The graph breaks: a number is read from a tensor, by .item(), float() or an `if`, before the
        graph has run. The code after it is captured again for each branch. torch.where selects without a branch.""",
        change="""
-    norm = torch.linalg.vector_norm(x.detach().float())
-    factor = torch.where(norm > limit, limit / norm, 1.0)
+    norm = torch.linalg.vector_norm(x.detach().float()).item()
+    factor = limit / norm if norm > limit else 1.0
""",
    ),
    # ------------------------------------------------------------------------------------------------------ make_update
    KnownWrong(
        "rate_of_the_first_update",
        fails=("make_update/values", "make_update/once", "make_update/some"),
        read=RECOMPILES,
        explanation="""The rate is read once, and stays in the compiled code or in a tensor that nobody changes. A
        schedule then has no effect, without any error.""",
        change="""
-        compiled(gradients, torch.tensor(rate(calls)))
+        compiled(gradients, torch.tensor(rate(1)))
""",
    ),
    KnownWrong(
        "updates_counted_from_zero",
        fails=("make_update/values", "make_update/once", "make_update/some"),
        read=RECOMPILES,
        explanation="""The first update asks for the rate of step 0. With a warm-up from 0 the first update is lost,
        and every later one comes a step late.""",
        change="""
-        calls += 1
         compiled(gradients, torch.tensor(rate(calls)))
+        calls += 1
""",
    ),
    KnownWrong(
        "uphill",
        fails=("make_update/values", "make_update/once", "make_update/some"),
        read=RECOMPILES,
        explanation="""The gradient is added. It points to where the loss grows: the update subtracts it.""",
        change="""
-                parameter -= learning_rate * gradient
+                parameter += learning_rate * gradient
""",
    ),
    KnownWrong(
        "new_tensors",
        fails=("make_update/values", "make_update/once", "make_update/some"),
        read=RECOMPILES,
        explanation="""The subtraction makes a new tensor, which is dropped: the parameters stay as they are. An
        update in place changes the caller's tensor.""",
        change="""
-                parameter -= learning_rate * gradient
+                parameter = parameter - learning_rate * gradient
""",
    ),
    KnownWrong(
        "rate_is_a_float",
        fails=("make_update/once",),
        read=RECOMPILES,
        explanation="""The rate enters the compiled function as a Python number. Its value is a constant of the
        first graph; when it changes, the function is compiled again, with a symbol in its place. A tensor enters as
        data from the first call on.""",
        change="""
-    def subtract(gradients: list[Tensor | None], learning_rate: Tensor) -> None:
+    def subtract(gradients: list[Tensor | None], learning_rate: float) -> None:
@@
-        compiled(gradients, torch.tensor(rate(calls)))
+        compiled(gradients, rate(calls))
""",
    ),
    KnownWrong(
        "never_compiled",
        fails=("make_update/once",),
        read=RECOMPILES,
        explanation="""Nothing is compiled: the update runs eager, operation after operation.""",
        change="""
-    compiled = torch.compile(subtract, backend=backend)
+    compiled = subtract
""",
    ),
    KnownWrong(
        "one_graph_per_parameter",
        fails=("make_update/once",),
        read=RECOMPILES,
        explanation="""Each parameter is updated by a compiled call of its own: several compilations, and as many
        calls per update. One graph over all parameters leaves the compiler the choice of how to join them.""",
        change="""
-    def subtract(gradients: list[Tensor | None], learning_rate: Tensor) -> None:
-        for parameter, gradient in zip(parameters, gradients, strict=True):
-            if gradient is not None:
-                parameter -= learning_rate * gradient
-
-    compiled = torch.compile(subtract, backend=backend)
+    def subtract(parameter: Tensor, gradient: Tensor, learning_rate: Tensor) -> None:
+        parameter -= learning_rate * gradient
+
+    subtract_compiled = torch.compile(subtract, backend=backend)
+
+    def compiled(gradients: list[Tensor | None], learning_rate: Tensor) -> None:
+        for parameter, gradient in zip(parameters, gradients, strict=True):
+            if gradient is not None:
+                subtract_compiled(parameter, gradient, learning_rate)
""",
    ),
    KnownWrong(
        "every_parameter_has_a_gradient",
        fails=("make_update/some",),
        read=RECOMPILES,
        explanation="""A parameter without a gradient ends the update with an error. Frozen and unused parameters
        have None, and stay as they are.""",
        change="""
-            if gradient is not None:
-                parameter -= learning_rate * gradient
+            parameter -= learning_rate * gradient
""",
    ),
    KnownWrong(
        "rate_of_one_dimension",
        fails=("make_update/some",),
        read=RECOMPILES,
        explanation="""The rate has one dimension, so its product with a gradient of shape [] has shape [1], which does
        not fit into the parameter. torch.tensor(rate) has no dimensions and fits every shape.""",
        change="""
-        compiled(gradients, torch.tensor(rate(calls)))
+        compiled(gradients, torch.tensor([rate(calls)]))
""",
    ),
    # ---------------------------------------------------------------------------------------------------- pad_to_bucket
    KnownWrong(
        "rounded_down",
        fails=("pad_to_bucket/bucket", "pad_to_bucket/no-bucket", "pad_to_bucket/padded", "pad_to_bucket/loss"),
        read=BUCKETS,
        explanation="""The length is rounded down to a bucket: the tokens beyond it are cut off and never trained
        on. A bucket must hold the whole sequence.""",
        change="""
-    fitting = [bucket for bucket in buckets if bucket >= length]
+    fitting = [bucket for bucket in buckets if bucket <= length]
@@
-    return min(fitting)
+    return max(fitting)
""",
    ),
    KnownWrong(
        "a_bucket_that_fits_is_passed_over",
        fails=("pad_to_bucket/bucket", "pad_to_bucket/padded"),
        read=BUCKETS,
        explanation="""A sequence exactly as long as a bucket goes into the next larger one, and the longest
        sequence into none. The comparison must include equality.""",
        change="""
-    fitting = [bucket for bucket in buckets if bucket >= length]
+    fitting = [bucket for bucket in buckets if bucket > length]
""",
    ),
    KnownWrong(
        "first_bucket_that_fits",
        fails=("pad_to_bucket/bucket", "pad_to_bucket/padded"),
        read=BUCKETS,
        explanation="""The first bucket of the list that holds the sequence is taken. The buckets come in any order:
        the smallest of those that hold it has the least padding.""",
        change="""
-    return min(fitting)
+    return fitting[0]
""",
    ),
    KnownWrong(
        "largest_bucket_for_all",
        fails=("pad_to_bucket/bucket", "pad_to_bucket/padded"),
        read=BUCKETS,
        explanation="""Every sequence is padded to the largest bucket: one shape, one compilation, and the most
        padding. The smallest bucket that holds the sequence is meant.""",
        change="""
-    return min(fitting)
+    return max(fitting)
""",
    ),
    KnownWrong(
        "cut_to_the_largest",
        fails=("pad_to_bucket/no-bucket",),
        read=BUCKETS,
        explanation="""A sequence that fits into no bucket is put into the largest, and its end is lost without a
        word. ValueError tells the user to add a bucket.""",
        change="""
-    if not fitting:
-        raise ValueError(f"{length} tokens fit into no bucket: the largest holds {max(buckets, default=0)}")
+    if not fitting:
+        return max(buckets)
""",
    ),
    KnownWrong(
        "error_without_numbers",
        fails=("pad_to_bucket/no-bucket",),
        read=BUCKETS,
        explanation="""The error does not name the length and the largest bucket. Its reader then has to
        search for the number that is too large.""",
        change="""
-        raise ValueError(f"{length} tokens fit into no bucket: the largest holds {max(buckets, default=0)}")
+        raise ValueError("the sequence fits into no bucket")
""",
    ),
    KnownWrong(
        "padding_counts_in_the_loss",
        fails=("pad_to_bucket/padded", "pad_to_bucket/loss"),
        read=BUCKETS,
        explanation="""The padded targets are tokens, not -100: predicting padding counts in the loss. The mean then
        falls with the share of padding, since padding is easy to predict.""",
        change="""
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=padding)
""",
    ),
    KnownWrong(
        "real_targets_left_out",
        fails=("pad_to_bucket/padded", "pad_to_bucket/loss"),
        read=BUCKETS,
        explanation="""Every target equal to `padding` becomes -100, the real ones too. The token that pads may occur
        in the text, and then it counts in the loss: only the new places are -100.""",
        change="""
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    wide = F.pad(targets, (0, missing), value=padding)
+    return F.pad(tokens, (0, missing), value=padding), wide.masked_fill(wide == padding, -100)
""",
    ),
    KnownWrong(
        "padded_on_the_left",
        fails=("pad_to_bucket/padded", "pad_to_bucket/loss"),
        read=BUCKETS,
        explanation="""The padding stands before the tokens. In a causal model every token attends to it, and all
        positions move: on the right, no token sees the padding.""",
        change="""
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    return F.pad(tokens, (missing, 0), value=padding), F.pad(targets, (missing, 0), value=-100)
""",
    ),
    KnownWrong(
        "tokens_of_minus_100",
        fails=("pad_to_bucket/padded", "pad_to_bucket/loss"),
        read=BUCKETS,
        explanation="""The new tokens are -100, which no embedding holds: -100 is for targets alone.""",
        change="""
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    return F.pad(tokens, (0, missing), value=-100), F.pad(targets, (0, missing), value=-100)
""",
    ),
    KnownWrong(
        "padding_is_always_0",
        fails=("pad_to_bucket/padded",),
        read=BUCKETS,
        explanation="""The new tokens are 0, whatever `padding` says. Token 0 is a word in some vocabularies.""",
        change="""
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    return F.pad(tokens, (0, missing)), F.pad(targets, (0, missing), value=-100)
""",
    ),
    # ----------------------------------------------------------------------------------------------------- best_buckets
    KnownWrong(
        "one_bucket_too_many",
        fails=("best_buckets/least", "best_buckets/frequent", "best_buckets/ends"),
        read=BUCKETS,
        explanation="""More than `count` buckets come back. Each bucket is a shape to compile for: `count` limits
        the compilations.""",
        change="""
-    for _ in range(count):
+    for _ in range(count + 1):
""",
    ),
    KnownWrong(
        "longest_has_no_bucket",
        fails=("best_buckets/least", "best_buckets/frequent", "best_buckets/ends"),
        read=BUCKETS,
        explanation="""The longest sequence fits into no bucket. The largest bucket is always the largest length.""",
        change="""
-    return best[-1][1]
+    return best[-1][1][:-1] or [1]
""",
    ),
    KnownWrong(
        "equal_shares",
        fails=("best_buckets/least",),
        read=BUCKETS,
        explanation="""The sorted lengths are cut into parts with as many sequences each. Where lengths lie close
        together a bucket saves little, and where they lie far apart it saves much: the padding decides, not the
        number of sequences.""",
        change="""
-    return best[-1][1]
+    if count >= len(sizes):
+        return sizes
+    ordered = sorted(lengths)
+    return sorted({ordered[-(-len(ordered) * part // count) - 1] for part in range(1, count + 1)})
""",
    ),
    KnownWrong(
        "best_next_bucket",
        fails=("best_buckets/least",),
        read=BUCKETS,
        explanation="""One bucket after the other is added, each where it saves the most by then, and none is moved
        later. The first bucket lies best for two buckets, and is in the way with three.""",
        change="""
-    return best[-1][1]
+    chosen = [sizes[-1]]
+    while len(chosen) < min(count, len(sizes)):
+        options = (sorted([*chosen, size]) for size in sizes if size not in chosen)
+        chosen = min(options, key=lambda some: sum(min(b for b in some if b >= length) for length in lengths))
+    return chosen
""",
    ),
    KnownWrong(
        "each_length_once",
        fails=("best_buckets/frequent",),
        read=BUCKETS,
        explanation="""A length that occurs a hundred times counts as one. The padding is a sum over all sequences.""",
        change="""
-    counts = Counter(lengths)
+    counts = dict.fromkeys(lengths, 1)
""",
    ),
    KnownWrong(
        "exactly_count_buckets",
        fails=("best_buckets/ends",),
        read=BUCKETS,
        explanation="""Exactly `count` buckets are asked for, also where there are fewer different lengths. `count`
        is a limit: with more buckets than lengths, each length has its own.""",
        change="""
-        previous, best = best, [(0, [])]
+        previous, best = best, [(math.inf, [])]
""",
    ),
    KnownWrong(
        "some_lengths_alone_are_tried",
        fails=("best_buckets/many",),
        read=BUCKETS,
        explanation="""To save time, only some of the lengths are tried as buckets: every second or third. The best
        buckets are seldom among them. Sums from the left make each padding one subtraction, and all lengths can be
        tried.""",
        change="""
-    sizes = sorted(counts)
-    sequences, tokens = [0], [0]  # of the first i sizes: how many sequences, how many tokens
-    for size in sizes:
-        sequences.append(sequences[-1] + counts[size])
-        tokens.append(tokens[-1] + counts[size] * size)
+    sizes = sorted(counts)[:: -1 - len(counts) // 100][::-1]
+    sequences, tokens = [0], [0]
+    for size in sizes:
+        sequences.append(sum(length <= size for length in lengths))
+        tokens.append(sum(length for length in lengths if length <= size))
""",
    ),
    # ---------------------------------------------------------------------------------------------------------- timings
    KnownWrong(
        "compiled_before_the_first",
        fails=("timings/first", "timings/medians", "timings/turns"),
        read=PAYS,
        explanation="""The compiled function is called before its first call is timed: what is timed as the first
        call compiles nothing, and compiling looks free.""",
        change="""
-    first = seconds(compiled)
+    compiled()
+    first = seconds(compiled)
""",
    ),
    KnownWrong(
        "compilation_in_the_times",
        fails=("timings/medians",),
        read=PAYS,
        explanation="""The first call, which compiles, is one of the calls whose median is taken. With few rounds
        the median is a mean of a compilation and a call.""",
        change="""
-    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))
+    eager_times, compiled_times = zip(*pairs, strict=True)
+    return Timings(first, statistics.median(eager_times), statistics.median([first, *compiled_times]))
""",
    ),
    KnownWrong(
        "mean_of_the_times",
        fails=("timings/medians",),
        read=PAYS,
        explanation="""The times are averaged. One call that another process delayed moves a mean by as much as it
        was late; a median stays.""",
        change="""
-    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))
+    return Timings(first, *(statistics.mean(times) for times in zip(*pairs, strict=True)))
""",
    ),
    KnownWrong(
        "fastest_call",
        fails=("timings/medians",),
        read=PAYS,
        explanation="""The shortest time of each function is taken, not the median.""",
        change="""
-    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))
+    return Timings(first, *(min(times) for times in zip(*pairs, strict=True)))
""",
    ),
    KnownWrong(
        "eager_and_compiled_exchanged",
        fails=("timings/medians",),
        read=PAYS,
        explanation="""The times of the two functions are exchanged in the result.""",
        change="""
-    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))
+    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))._replace(
+        eager=statistics.median(pair[1] for pair in pairs), compiled=statistics.median(pair[0] for pair in pairs)
+    )
""",
    ),
    KnownWrong(
        "eager_without_a_warm_up",
        fails=("timings/medians", "timings/turns"),
        read=PAYS,
        explanation="""The eager function's first call, which allocates memory, is timed like the others. The
        compiled function then looks faster than it is.""",
        change="""
-    eager()
     pairs = [(seconds(eager), seconds(compiled)) for _ in range(rounds)]
""",
    ),
    KnownWrong(
        "one_after_the_other",
        fails=("timings/turns",),
        read=PAYS,
        explanation="""All eager calls come first, then all compiled calls. A machine that slows down in between, by
        heat or by other work, slows only one of the two. In turns, it slows both.""",
        change="""
-    pairs = [(seconds(eager), seconds(compiled)) for _ in range(rounds)]
+    eager_times = [seconds(eager) for _ in range(rounds)]
+    pairs = [(time, seconds(compiled)) for time in eager_times]
""",
    ),
    # ------------------------------------------------------------------------------------------------------- break_even
    KnownWrong(
        "first_call_does_no_work",
        fails=("break_even/pays", "break_even/never"),
        read=PAYS,
        explanation="""The whole first call counts as a cost. It also does the work of one call, which eager would
        have needed time for too.""",
        change="""
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return 1 + math.ceil(first / (eager - compiled))
""",
    ),
    KnownWrong(
        "first_call_not_counted",
        fails=("break_even/pays", "break_even/never"),
        read=PAYS,
        explanation="""The first call is not one of the calls: the number is that of the later calls alone.""",
        change="""
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return math.ceil((first - eager) / (eager - compiled))
""",
    ),
    KnownWrong(
        "rounded_to_fewer_calls",
        fails=("break_even/pays", "break_even/never"),
        read=PAYS,
        explanation="""The number of calls is rounded down: after that many calls the compiled function has still
        taken more time.""",
        change="""
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return 1 + math.floor((first - eager) / (eager - compiled))
""",
    ),
    KnownWrong(
        "a_fraction_of_a_call",
        fails=("break_even/pays", "break_even/never"),
        read=PAYS,
        explanation="""The number of calls is a fraction, or a float. Calls are whole: the answer is the next whole
        number, as an int.""",
        change="""
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return 1 + (first - eager) / (eager - compiled)
""",
    ),
    KnownWrong(
        "strictly_faster",
        fails=("break_even/pays",),
        read=PAYS,
        explanation="""Equal times do not count as even: where both have taken the same time after n calls, the
        answer is one call late.""",
        change="""
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return 2 + math.floor((first - eager) / (eager - compiled))
""",
    ),
    KnownWrong(
        "never_asked_first",
        fails=("break_even/never",),
        read=PAYS,
        explanation="""A compiled function whose later calls are no faster gives infinity, also where its first call
        took no longer than an eager call: after that one call it is even.""",
        change="""
-    if first <= eager:
-        return 1
-    if compiled >= eager:
-        return math.inf
+    if compiled >= eager:
+        return math.inf
+    if first <= eager:
+        return 1
""",
    ),
    KnownWrong(
        "compiling_always_pays",
        fails=("break_even/never",),
        read=PAYS,
        explanation="""A compiled function that is no faster per call gives a number of calls, or an error of a
        division. It never makes up for its first call.""",
        change="""
-    if compiled >= eager:
-        return math.inf
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return 1 + math.ceil((first - eager) / max(abs(eager - compiled), 1e-9))
""",
    ),
    # ------------------------------------------------------------------------------------------- errors_against_float64
    KnownWrong(
        "eager_is_the_truth",
        fails=("errors_against_float64/errors", "errors_against_float64/bf16", "errors_against_float64/dropout"),
        read=DIGITS,
        explanation="""The compiled result is compared with the eager one, which then has no error at all. Both
        round; only a computation with more digits says which is closer.""",
        change="""
-            exact = copy.deepcopy(model).double()(*exact_inputs)
+            exact = model(*inputs).double()
""",
    ),
    KnownWrong(
        "mean_difference",
        fails=("errors_against_float64/errors", "errors_against_float64/bf16", "errors_against_float64/dropout"),
        read=DIGITS,
        explanation="""The mean of the differences is taken. One wrong number among a million right ones disappears
        in a mean; the largest difference shows it.""",
        change="""
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
+            eager, other = ((run(*inputs).double() - exact).abs().mean().item() for run in (model, compiled))
""",
    ),
    KnownWrong(
        "share_of_the_largest",
        fails=("errors_against_float64/errors", "errors_against_float64/bf16", "errors_against_float64/dropout"),
        read=DIGITS,
        explanation="""The difference is divided by the result's size. The contract asks for the absolute
        difference, as the result's size is known to the caller.""",
        change="""
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
+            size = exact.abs().max()
+            eager, other = (
+                ((run(*inputs).double() - exact).abs().max() / size).item() for run in (model, compiled)
+            )
""",
    ),
    KnownWrong(
        "difference_without_sign_of_size",
        fails=("errors_against_float64/errors", "errors_against_float64/bf16", "errors_against_float64/dropout"),
        read=DIGITS,
        explanation="""The largest difference is taken with its sign: a result that is too small everywhere then has
        a small or a negative error.""",
        change="""
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
+            eager, other = ((run(*inputs).double() - exact).min().item() for run in (model, compiled))
""",
    ),
    KnownWrong(
        "rounded_before_the_difference",
        fails=("errors_against_float64/errors", "errors_against_float64/bf16", "errors_against_float64/dropout"),
        read=DIGITS,
        explanation="""The exact result is rounded to the model's dtype before it is subtracted. The difference then
        has steps as large as the error that is measured.""",
        change="""
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
+            eager, other = (
+                (out - exact.to(out.dtype)).abs().max().item() for out in (model(*inputs), compiled(*inputs))
+            )
""",
    ),
    KnownWrong(
        "token_ids_as_floats",
        fails=("errors_against_float64/errors",),
        read=DIGITS,
        explanation="""All inputs become float64, also token ids. An embedding takes whole numbers: convert inputs
        of floating point alone.""",
        change="""
-            exact_inputs = [x.double() if x.is_floating_point() else x for x in inputs]
+            exact_inputs = [x.double() for x in inputs]
""",
    ),
    KnownWrong(
        "back_to_float32",
        fails=("errors_against_float64/bf16",),
        read=DIGITS,
        explanation="""The model itself is converted to float64 and then to float32. A bf16 model comes back as a
        float32 model. A copy leaves the caller's model alone.""",
        change="""
-            exact = copy.deepcopy(model).double()(*exact_inputs)
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
-            return eager, other
+            results = [run(*inputs).double() for run in (model, compiled)]
+            exact = model.double()(*exact_inputs)
+            model.float()
+            return tuple((result - exact).abs().max().item() for result in results)
""",
    ),
    KnownWrong(
        "dropout_left_on",
        fails=("errors_against_float64/dropout", "errors_against_float64/state"),
        read=DIGITS,
        explanation="""Dropout is on while the results are compared. Each run draws another mask, and the difference
        is that of the masks, a thousand times that of rounding.""",
        change="""
-    model.eval()
     try:
""",
    ),
    KnownWrong(
        "same_seed_for_all_runs",
        fails=("errors_against_float64/dropout", "errors_against_float64/state"),
        read=DIGITS,
        explanation="""The random state is set before each run, and dropout stays on. A compiled model draws its
        masks in another way: the same seed gives other masks. And the caller's random state is lost.""",
        change="""
-    model.eval()
     try:
@@
-            exact = copy.deepcopy(model).double()(*exact_inputs)
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
+            results = []
+            for run, given in ((copy.deepcopy(model).double(), exact_inputs), (model, inputs), (compiled, inputs)):
+                torch.manual_seed(0)
+                results.append(run(*given).double())
+            exact = results[0]
+            eager, other = ((result - exact).abs().max().item() for result in results[1:])
""",
    ),
    KnownWrong(
        "everything_in_train_mode_afterwards",
        fails=("errors_against_float64/state",),
        read=DIGITS,
        explanation="""model.train() at the end puts every module into train mode, also a part that was frozen in
        eval mode.""",
        change="""
-        for module, mode in modes.items():
-            module.training = mode
+        model.train()
""",
    ),
    KnownWrong(
        "eval_mode_stays",
        fails=("errors_against_float64/state",),
        read=DIGITS,
        explanation="""The model stays in eval mode after the comparison: the training goes on without dropout.""",
        change="""
-        for module, mode in modes.items():
-            module.training = mode
+        modes.clear()
""",
    ),
    KnownWrong(
        "modes_lost_by_an_exception",
        fails=("errors_against_float64/state",),
        read=DIGITS,
        explanation="""After an exception of the model, its modules stay in eval mode. A finally clause runs in both
        cases.""",
        change="""
-    try:
-        with torch.no_grad():
-            exact_inputs = [x.double() if x.is_floating_point() else x for x in inputs]
-            exact = copy.deepcopy(model).double()(*exact_inputs)
-            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
-            return eager, other
-    finally:
-        for module, mode in modes.items():
-            module.training = mode
+    with torch.no_grad():
+        exact_inputs = [x.double() if x.is_floating_point() else x for x in inputs]
+        exact = copy.deepcopy(model).double()(*exact_inputs)
+        eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
+    for module, mode in modes.items():
+        module.training = mode
+    return eager, other
""",
    ),
    KnownWrong(
        "gradients_recorded",
        fails=("errors_against_float64/state",),
        read=DIGITS,
        explanation="""The runs record gradients, which keeps the activations of all three in memory. A comparison
        of results needs none: torch.no_grad().""",
        change="""
-        with torch.no_grad():
+        with torch.enable_grad():
""",
    ),
    # -------------------------------------------------------------------------------------------------------- last_rows
    KnownWrong(
        "last_column",
        fails=("last_rows/rows", "last_rows/padding"),
        read=EXPORT,
        explanation="""The last row of each sequence is taken, padding or not: -1 is the end of the tensor, not of
        the sequence.""",
        change="""
-    return hidden.gather(1, index).squeeze(1)
+    return hidden[:, -1]
""",
    ),
    KnownWrong(
        "one_row_too_early",
        fails=("last_rows/rows", "last_rows/padding"),
        read=EXPORT,
        explanation="""The row before the last is taken, and of a sequence of one token the end of the tensor. The
        last token has the index length - 1, counted from 0.""",
        change="""
-    index = (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2])  # [B, 1, C]
+    index = ((lengths - 2) % hidden.shape[1])[:, None, None].expand(-1, 1, hidden.shape[2])
""",
    ),
    KnownWrong(
        "mean_of_the_rows",
        fails=("last_rows/rows", "last_rows/padding"),
        read=EXPORT,
        explanation="""The rows of a sequence are averaged. The row of the last token alone has seen the whole
        sequence, in a causal model.""",
        change="""
-    return hidden.gather(1, index).squeeze(1)
+    mask = torch.arange(hidden.shape[1]) < lengths[:, None]
+    return hidden.masked_fill(~mask[:, :, None], 0).sum(1) / lengths[:, None].to(hidden.dtype)
""",
    ),
    KnownWrong(
        "batch_dimension_lost",
        fails=("last_rows/rows",),
        read=EXPORT,
        explanation="""A batch of one sequence loses its dimension: squeeze() without a dimension drops every
        dimension of size 1.""",
        change="""
-    return hidden.gather(1, index).squeeze(1)
+    return hidden.gather(1, index).squeeze()
""",
    ),
    KnownWrong(
        "lengths_changed",
        fails=("last_rows/rows",),
        read=EXPORT,
        explanation="""The caller's lengths are changed in place. A second use of them reads other rows.""",
        change="""
-    index = (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2])  # [B, 1, C]
+    lengths -= 1
+    index = lengths[:, None, None].expand(-1, 1, hidden.shape[2])
""",
    ),
    KnownWrong(
        "multiplied_by_a_mask",
        fails=("last_rows/padding",),
        read=EXPORT,
        explanation="""The row is selected by a sum over rows times 0 or 1. 0 times nan is nan: one bad number in
        the padding reaches the result. gather and indexing read only what they select.""",
        change="""
-    return hidden.gather(1, index).squeeze(1)
+    mask = torch.arange(hidden.shape[1]) == (lengths - 1)[:, None]
+    return (hidden * mask[:, :, None]).sum(1)
""",
    ),
    KnownWrong(
        "loop_over_rows",
        fails=("last_rows/graph", "last_rows/export"),
        read=EXPORT,
        explanation="""A Python loop over the rows is unrolled when the function is captured, one operation per row:
        the graph holds for one batch size. The lengths are read as numbers, which breaks the graph.""",
        change="""
-    return hidden.gather(1, index).squeeze(1)
+    return torch.stack([rows[length - 1] for rows, length in zip(hidden, lengths.tolist(), strict=True)])
""",
    ),
    KnownWrong(
        "batch_size_is_an_int",
        fails=("last_rows/export",),
        read=EXPORT,
        explanation="""The batch size becomes a number while the function is exported, as len(tensor) does: the
        program holds for the example's batch size alone. tensor.shape[0] stays a symbol.""",
        change="""
-    return hidden.gather(1, index).squeeze(1)
+    return hidden[torch.arange(len(lengths)), lengths - 1]
""",
    ),
    # ----------------------------------------------------------------------------------------------- export_for_serving
    KnownWrong(
        "static_shapes",
        fails=("export_for_serving/shapes", "export_for_serving/eval"),
        read=EXPORT,
        explanation="""The program takes the example's shape alone: without dynamic_shapes, every size is a constant
        of the program, and each other shape is an error.""",
        change="""
-        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: batch}))
+        return torch.export.export(model, example)
""",
    ),
    KnownWrong(
        "only_the_batch_varies",
        fails=("export_for_serving/shapes", "export_for_serving/eval"),
        read=EXPORT,
        explanation="""The batch may vary, the length may not: it has no Dim, and is a constant of the program.""",
        change="""
-        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: batch}))
+        return torch.export.export(model, example, dynamic_shapes=({0: batch}, {0: batch}))
""",
    ),
    KnownWrong(
        "no_upper_limit",
        fails=("export_for_serving/refuses",),
        read=EXPORT,
        explanation="""The program takes larger batches or longer sequences than the range: nothing names its upper
        limit. A longer input then fails only when memory ends, or it gets wrong positions.""",
        change="""
-    batch, length = Dim("batch", min=1, max=max_batch), Dim("length", min=1, max=max_length)
+    batch, length = Dim.AUTO, Dim.AUTO
""",
    ),
    KnownWrong(
        "one_more_than_the_range",
        fails=("export_for_serving/refuses",),
        read=EXPORT,
        explanation="""The upper limit is one too high: Dim's max is the largest size that is allowed, unlike the
        end of Python's range.""",
        change="""
-    batch, length = Dim("batch", min=1, max=max_batch), Dim("length", min=1, max=max_length)
+    batch, length = Dim("batch", min=1, max=max_batch + 1), Dim("length", min=1, max=max_length + 1)
""",
    ),
    KnownWrong(
        "own_size_for_lengths",
        fails=("export_for_serving/refuses",),
        read=EXPORT,
        explanation="""Tokens and lengths have sizes of their own, so the program accepts more sequences than lengths
        and returns too few scores. One Dim in both places makes the program compare the two sizes.""",
        change="""
-        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: batch}))
+        count = Dim("count", min=1, max=max_batch)
+        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: count}))
""",
    ),
    KnownWrong(
        "dropout_exported",
        fails=("export_for_serving/eval",),
        read=EXPORT,
        explanation="""The model is exported in train mode: dropout is an operation of the program, and the same
        request gets another answer each time. The program has no eval() to call later.""",
        change="""
-    model.eval()
     try:
""",
    ),
    KnownWrong(
        "model_stays_in_eval_mode",
        fails=("export_for_serving/eval",),
        read=EXPORT,
        explanation="""The model stays in eval mode after the export: the training goes on without dropout.""",
        change="""
-        for module, mode in modes.items():
-            module.training = mode
+        modes.clear()
""",
    ),
    KnownWrong(
        "train_mode_for_every_module",
        fails=("export_for_serving/eval",),
        read=EXPORT,
        explanation="""model.train() after the export puts every module into train mode, also a part that was in
        eval mode before.""",
        change="""
-        for module, mode in modes.items():
-            module.training = mode
+        model.train()
""",
    ),
)

HURRIED = {
    "graph_sizes": {
        "always one graph": """
-    return sizes
+    return [len(inputs)]
""",
    },
    "compilations": {
        "one compilation for each new shape": """
-    return counts
+    seen = [tuple(x.shape for x in arguments) for arguments in calls]
+    return [int(shape not in seen[:place]) for place, shape in enumerate(seen)]
""",
    },
    "clip_in_one_graph": {
        "changed in place": """
-    return (x.float() * factor).to(x.dtype)
+    return x.mul_(factor)
""",
    },
    "make_update": {
        "an update that does nothing": """
-        compiled(gradients, torch.tensor(rate(calls)))
+        compiled([None for _ in gradients], torch.tensor(rate(calls)))
""",
    },
    "pad_to_bucket": {
        "nothing padded": """
-    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
+    return tokens, targets
""",
    },
    "best_buckets": {
        "the longest length alone": """
-    return best[-1][1]
+    return [max(lengths)]
""",
        "the shortest lengths": """
-    return best[-1][1]
+    return sizes[:count]
""",
    },
    "timings": {
        "one round": """
-    pairs = [(seconds(eager), seconds(compiled)) for _ in range(rounds)]
+    pairs = [(seconds(eager), seconds(compiled))]
""",
    },
    "break_even": {
        "first divided by the gain": """
-    if first <= eager:
-        return 1
-    if compiled >= eager:
-        return math.inf
-    return 1 + math.ceil((first - eager) / (eager - compiled))
+    return first / (eager - compiled)
""",
    },
    "errors_against_float64": {
        "the model itself in float64": """
-            exact = copy.deepcopy(model).double()(*exact_inputs)
+            exact = model.double()(*exact_inputs)
""",
    },
    "last_rows": {
        "the first row": """
-    return hidden.gather(1, index).squeeze(1)
+    return hidden[:, 0]
""",
    },
    "export_for_serving": {
        "an example with a batch of 1": """
-    example = torch.zeros(2, 3, dtype=torch.int64), torch.tensor([3, 2])
+    example = torch.zeros(1, 3, dtype=torch.int64), torch.tensor([3])
""",
        "a function in place of a program": """
-        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: batch}))
+        return model
""",
    },
}
