"""Known-wrong solutions of Lab 05, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

SECOND_RUN = "handbook/recomputation.md#what-the-second-run-needs"
SEGMENTS = "handbook/recomputation.md#how-many-segments"
KEEP = "handbook/recomputation.md#keep-what-is-expensive-to-recompute"
BUDGET = "handbook/recomputation.md#down-to-a-budget"

# What a checkpoint without usable gradients fails.
NO_GRADIENTS = (
    "checkpoint/gradients",
    "checkpoint/memory",
    "checkpoint/frozen",
    "checkpoint/saved",
    "checkpoint/autocast",
)

ROUNDINGS = {"": "round", "_rounded_down": "math.floor", "_rounded_up": "math.ceil"}


def wrong_lengths(name: str, lengths: str, explanation: str) -> KnownWrong:
    """Returns a solution whose segment_lengths returns the expression `lengths`."""
    change = f"-    return [short + 1] * longer + [short] * (segments - longer)\n+    return {lengths}"
    return KnownWrong(name, ("segment_lengths/lengths",), SEGMENTS, explanation, change)


def wrong_peak(name: str, peak: str, explanation: str) -> KnownWrong:
    """Returns a solution whose best_segments minimizes the expression `peak` instead of the peak."""
    right = "max(before * boundary + length * inside for before, length in enumerate(lengths))"
    return KnownWrong(
        name, ("segments/best",), SEGMENTS, explanation, f"-        return {right}\n+        return {peak}"
    )


def wrong_best(name: str, best: str, explanation: str) -> KnownWrong:
    """Returns a solution whose best_segments returns the expression `best`."""
    change = f"-    return min(range(1, layers + 1), key=peak)\n+    return {best}"
    return KnownWrong(name, ("segments/best",), SEGMENTS, explanation, change, "import math")


def greedy_plan(name: str, key: str, explanation: str) -> KnownWrong:
    """Returns a solution that recomputes layers in ascending order of the expression `key` until the peak fits."""
    definitions = f"""
def plan(layers, budget):
    def key(place):
        layer = layers[place]
        return {key}

    places = []
    for place in sorted(range(len(layers)), key=key):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {{budget}} bytes.")
    return sorted(places)
"""
    return KnownWrong(name, ("plan/cheapest",), BUDGET, explanation, definitions=definitions)


KNOWN_WRONG = (
    KnownWrong(
        "runs_with_gradients_only",
        fails=("runs_per_block/counts",),
        read="handbook/recomputation.md#how-many-segments",
        explanation="""Only runs with gradients on count. The first run of a checkpointed block may take place without
        gradients, and so does evaluation: those runs cost as much as any other.""",
        change="""
-            counts[place] += 1
+            counts[place] += torch.is_grad_enabled()
""",
    ),
    KnownWrong(
        "backward_counted",
        fails=("runs_per_block/counts",),
        read="handbook/recomputation.md#how-many-segments",
        explanation="""The number is that of backward passes. A recomputed block runs forward twice and backward once,
        so this number is the same with and without checkpointing, and the recomputation stays invisible.""",
        change="""
-        def count(module: nn.Module, inputs: Any) -> None:
+        def count(module, before, after):
@@
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+    handles = [block.register_full_backward_hook(counter(place)) for place, block in enumerate(blocks)]
""",
    ),
    KnownWrong(
        "last_place_counted",
        fails=("runs_per_block/counts",),
        read=SEGMENTS,
        explanation="""Every run is counted for the last block. A function made in a loop looks up the loop's variable
        when it runs, and by then the variable has its last value.""",
        change="""
-    counts = [0] * len(blocks)
+    counts, handles = [0] * len(blocks), []
+    for place, block in enumerate(blocks):

-    def counter(place: int) -> Callable[..., None]:
@@
-        return count
-
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+        handles.append(block.register_forward_pre_hook(count))
""",
    ),
    KnownWrong(
        "inner_modules_counted",
        fails=("runs_per_block/counts",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""The modules inside a block count as well as the block itself: each run adds as many as there are
        modules in it.""",
        change="""
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+    inner = [(place, module) for place, block in enumerate(blocks) for module in block.modules()]
+    handles = [module.register_forward_pre_hook(counter(place)) for place, module in inner]
""",
    ),
    KnownWrong(
        "forward_replaced",
        fails=("runs_per_block/removed",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""After the call, something is left on the blocks: a hook that nobody removed, or a method of a
        block's own that hides the method of its class. It stays for every later run of the block. A hook's handle
        removes the hook completely; code that replaces a method must delete the attribute again.""",
        change="""
-    def counter(place: int) -> Callable[..., None]:
-        def count(module: nn.Module, inputs: Any) -> None:
+    def counted(forward, place):
+        def run(*inputs):
             counts[place] += 1
+            return forward(*inputs)

-        return count
+        return run

-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+    forwards = [block.forward for block in blocks]
+    for place, block in enumerate(blocks):
+        block.forward = counted(block.forward, place)
@@
-        for handle in handles:
-            handle.remove()
+        for block, forward in zip(blocks, forwards, strict=True):
+            block.forward = forward
""",
    ),
    KnownWrong(
        "hooks_left",
        fails=("runs_per_block/removed",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""Something that counts stays on the blocks after every call. Each later step goes on counting
        into a list that nobody reads, and each measurement adds more: a slow leak in a long run.""",
        change="""
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
-    try:
-        step()
-    finally:
-        for handle in handles:
-            handle.remove()
+    for place, block in enumerate(blocks):
+        block.register_forward_pre_hook(counter(place))
+    step()
""",
    ),
    KnownWrong(
        "hooks_left_after_an_error",
        fails=("runs_per_block/removed",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""Everything is removed after a step that works, and nothing after a step that raises an error.
        Out of memory is an error like any other, and people catch it and go on in a notebook.""",
        change="""
-    try:
-        step()
-    finally:
-        for handle in handles:
-            handle.remove()
+    step()
+    for handle in handles:
+        handle.remove()
""",
    ),
    KnownWrong(
        "graph_of_the_caller",
        fails=("repeatable/graph", "repeatable/inputs"),
        read=SECOND_RUN,
        explanation="""The second run uses the inputs as they are, still attached to the graph of the layers before.
        Its backward runs on through those layers, inside the backward that is already under way.""",
        change="""
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value
""",
    ),
    KnownWrong(
        "detached_in_place",
        fails=("repeatable/graph",),
        read=SECOND_RUN,
        explanation="""The caller's own input is detached from its graph. The layers before it then get no gradient,
        silently: in a stack of checkpointed blocks only the last one trains.""",
        change="""
+                    raise RuntimeError(f"input {place} was overwritten by an inplace operation before its second run")
+                required = value.requires_grad
+                fresh[place] = value.detach_().requires_grad_(required)
-                    raise RuntimeError(f"input {place} was overwritten by an inplace operation before its second run")
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
""",
    ),
    KnownWrong(
        "no_grad_in_the_second_run",
        fails=("repeatable/graph",),
        read=SECOND_RUN,
        explanation="""Autograd runs backward with gradients off, and the second run takes place in that mode. It
        makes no graph, so autograd keeps nothing and there is nothing to backpropagate through.""",
        change="""
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            with torch.autocast("cpu", **autocast):
""",
    ),
    KnownWrong(
        "runs_at_once",
        fails=("repeatable/graph", "repeatable/random"),
        read=SECOND_RUN,
        explanation="""The function already runs when the second run is noted. That run costs a forward pass and draws
        random numbers, so the first run that follows gets others.""",
        change="""
     versions = [value._version if isinstance(value, Tensor) else 0 for value in inputs]
+    function(*inputs)
""",
    ),
    KnownWrong(
        "seed_for_the_state",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The second run starts from the seed of the generator, which is where the generator was when the
        program began. By the time of the first run other draws have moved it on; its state says how far.""",
        change="""
-        torch.set_rng_state(random_state)
+        torch.manual_seed(torch.initial_seed())
""",
    ),
    KnownWrong(
        "another_mask",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The second run draws from wherever the generator is by then, so dropout drops other numbers.
        The loss that was reported belongs to one network and the gradient to another: training goes on, only worse,
        and nothing says so.""",
        change="""
-        now = torch.get_rng_state()
-        torch.set_rng_state(random_state)
-        try:
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
-                return function(*fresh)
-        finally:
-            torch.set_rng_state(now)
+        with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            return function(*fresh)
""",
    ),
    KnownWrong(
        "state_taken_too_late",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The second run leaves the generator as it was and still drops other numbers than the first: it
        starts from the state at the time of the second run. The state that counts is the one before the first run,
        when the run is noted.""",
        change="""
-        torch.set_rng_state(random_state)
""",
    ),
    KnownWrong(
        "generator_left_behind",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The generator is set back for the second run and stays there. Whatever draws next repeats
        numbers that were used before: the masks of later layers, or of the next step, are no longer independent.""",
        change="""
-        now = torch.get_rng_state()
@@
-        try:
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
-                return function(*fresh)
-        finally:
-            torch.set_rng_state(now)
+        with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            return function(*fresh)
""",
    ),
    KnownWrong(
        "generator_left_behind_after_an_error",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""Where the second run works, the generator ends where it was. Where it raises an error, the
        generator stays at the state that was set back, and what is drawn after the error is caught repeats old
        numbers.""",
        change="""
-        try:
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
-                return function(*fresh)
-        finally:
-            torch.set_rng_state(now)
+        with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            output = function(*fresh)
+        torch.set_rng_state(now)
+        return output
""",
    ),
    KnownWrong(
        "seeded_for_both_runs",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""Both runs start from a random state of the exercise's own instead of the program's. Their masks
        agree, and are the same in every step and every layer; every other draw of the program repeats too.""",
        change="""
+    torch.manual_seed(0)
     random_state = torch.get_rng_state()
""",
    ),
    KnownWrong(
        "autocast_forgotten",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""The second run takes place under whatever autocast is on at the time. Backward is called
        outside autocast, as it should be, so a run that was in bf16 is repeated in fp32: other numbers, and the
        memory and time of fp32.""",
        change="""
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            with torch.enable_grad():
""",
    ),
    KnownWrong(
        "autocast_only_switched_on",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""A run that was noted under autocast is repeated under it. A run that was noted without autocast
        is repeated under whatever autocast backward is called in: it must be switched off there.""",
        change="""
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            noted = torch.autocast("cpu", **autocast) if autocast["enabled"] else torch.enable_grad()
+            with torch.enable_grad(), noted:
""",
    ),
    KnownWrong(
        "autocast_without_its_dtype",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""The state of autocast is noted, but not its dtype. On the CPU the default is bfloat16, so a
        run in float16 is repeated in bfloat16: other numbers, and other gradients.""",
        change="""
-    autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.bfloat16}
""",
    ),
    KnownWrong(
        "autocast_of_the_gpu",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""The second run is always without autocast, also where the first was under the CPU's. Each kind of
        device has an autocast of its own: without an argument, torch.is_autocast_enabled() says whether the GPU's is
        on.""",
        change="""
-    autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    autocast = {"enabled": torch.is_autocast_enabled(), "dtype": torch.get_autocast_dtype("cpu")}
""",
    ),
    KnownWrong(
        "everything_asks",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""Every tensor is made to require a gradient in the second run. Indices and masks are no
        floating-point numbers and cannot, so the first block that takes one raises an error.""",
        change="""
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value.detach().requires_grad_()
""",
    ),
    KnownWrong(
        "nothing_asks",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""No input requires a gradient in the second run. What the function's operations keep depends on
        what their inputs require, so this run keeps fewer tensors than the first, and those of the first have no
        match.""",
        change="""
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value.detach()
""",
    ),
    KnownWrong(
        "tensors_first",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""The second run gets the tensors first and then the other inputs. A function that takes a number
        before a tensor gets them swapped.""",
        change="""
-                return function(*fresh)
+                return function(*sorted(fresh, key=lambda value: not isinstance(value, Tensor)))
""",
    ),
    KnownWrong(
        "tensors_only",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""The second run gets the tensors among the inputs and nothing else: numbers, lists and None are
        missing from its arguments.""",
        change="""
-                return function(*fresh)
+                return function(*[value for value in fresh if isinstance(value, Tensor)])
""",
    ),
    KnownWrong(
        "lists_rebuilt",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""A list among the inputs arrives as another list with the same contents. What is no tensor goes to
        the function unchanged: it may fill the list that the caller holds.""",
        change="""
                 fresh[place] = value.detach().requires_grad_(value.requires_grad)
+            elif isinstance(value, list):
+                fresh[place] = list(value)
""",
    ),
    KnownWrong(
        "overwriting_unnoticed",
        fails=("repeatable/overwritten",),
        read=SECOND_RUN,
        explanation="""An input that was overwritten in place before the second run goes unnoticed. Computed from
        the new numbers, the gradient would be wrong without an error; a copy of the old numbers takes the input's
        memory a second time. Autograd itself compares `_version` for every tensor that it keeps.""",
        change="""
-                if value._version != versions[place]:
-                    raise RuntimeError(f"input {place} was overwritten by an inplace operation before its second run")
""",
    ),
    KnownWrong(
        "numbers_compared",
        fails=("repeatable/overwritten",),
        read=SECOND_RUN,
        explanation="""Overwriting goes unnoticed where the new numbers equal the old ones. To compare
        numbers, a copy of each input is kept, and that costs the memory which checkpointing saves; `_version` is one
        number.""",
        change="""
-    versions = [value._version if isinstance(value, Tensor) else 0 for value in inputs]
+    versions = [value.clone() if isinstance(value, Tensor) else 0 for value in inputs]
@@
-                if value._version != versions[place]:
+                if not torch.equal(value, versions[place]):
""",
    ),
    KnownWrong(
        "frozen_inputs_unguarded",
        fails=("repeatable/overwritten",),
        read=SECOND_RUN,
        explanation="""Only inputs that require a gradient are guarded against being overwritten. The weights'
        gradients are computed from an input whether it requires one or not.""",
        change="""
-                if value._version != versions[place]:
+                if value._version != versions[place] and value.requires_grad:
""",
    ),
    KnownWrong(
        "first_run_without_a_graph",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""The first run takes place without gradients, so its output has no graph: backward ends there,
        and neither weights nor inputs get a gradient. The graph must be that of a plain call; only the tensors that
        it keeps are left out.""",
        change="""
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        with torch.no_grad():
+            output = function(*inputs)
+    return output.requires_grad_(torch.is_grad_enabled())
""",
    ),
    KnownWrong(
        "one_store_for_all",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""All calls share one store for the tensors of their second runs. Backward of one call gets the
        tensors of another, of another shape or another step.""",
        change="""
-    remade: dict[int, Tensor] = {}  # those of the second run that backward has not taken yet, by their number
+    remade = globals().setdefault("REMADE", {})
@@
-        if not remade:
-            with saved_tensors_hooks(remake, lambda nothing: nothing):
+        if number not in remade:
+            made = iter(range(10**6))
+            with saved_tensors_hooks(lambda tensor: remade.__setitem__(next(made), tensor.detach()), lambda x: x):
@@
-        return remade.pop(number)
+        return remade[number]
""",
    ),
    KnownWrong(
        "library_called",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""PyTorch's own checkpoint is called. It is right, and on the job it is what you should call.
        Here it is switched off: this exercise is to show how it works.""",
        definitions="""
def checkpoint(function, *inputs):
    return torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)
""",
    ),
    KnownWrong(
        "first_kept_first_used",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""Backward gets other tensors of the second run than those that it asks for. It takes them
        neither in the order in which the run made them nor exactly the other way round: of several in one operation,
        in any order. Only a number, or another name for each, tells which tensor is asked for.""",
        change="""
-        return remade.pop(number)
+        return remade.pop(min(remade))
""",
    ),
    KnownWrong(
        "found_by_address",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""Backward asks for a tensor by a large number that no tensor of the second run has: an id or an
        address. The second run makes other objects at other addresses. Both runs hand their hooks equal tensors in
        the same order: the number in that order is the same.""",
        change="""
-        nonlocal count
-        count += 1
-        return count - 1
+        return id(tensor)
@@
-        remade[len(remade)] = tensor.detach()
+        remade[id(tensor)] = tensor.detach()
""",
    ),
    KnownWrong(
        "nothing_kept_again",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""The tensor that backward asks for is not there: nothing was kept of the second run. The hooks
        around the first run are not active in backward. The second run needs hooks of its own, which keep its tensors
        until backward takes them.""",
        change="""
-            with saved_tensors_hooks(remake, lambda nothing: nothing):
-                again()
+            again()
""",
    ),
    KnownWrong(
        "computed_ahead",
        fails=("checkpoint/memory", "checkpoint/frozen", "checkpoint/saved"),
        read=SECOND_RUN,
        explanation="""The second run takes place in forward, and its tensors wait for backward. All that
        checkpointing was to save is kept, in another place.""",
        change="""
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        output = function(*inputs)
+    with saved_tensors_hooks(remake, lambda nothing: nothing):
+        again()
+    return output
""",
    ),
    KnownWrong(
        "kept_by_autograd",
        fails=("checkpoint/memory", "checkpoint/frozen", "checkpoint/autocast"),
        read=SECOND_RUN,
        explanation="""The function runs once, and autograd keeps all activations. Gradients are right, and no memory
        is saved.""",
        change="""
-    with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+    return function(*inputs)
""",
    ),
    KnownWrong(
        "moved_to_the_host",
        fails=("checkpoint/memory", "checkpoint/frozen", "checkpoint/saved", "checkpoint/autocast"),
        read=SECOND_RUN,
        explanation="""The function runs once, and what autograd would keep is kept by hooks: in another place, in
        another form, or as it is. That is offloading or compression. Recomputation keeps nothing from inside; it runs
        the function again.""",
        definitions="""
def checkpoint(function, *inputs):
    with torch.autograd.graph.save_on_cpu():
        return function(*inputs)
""",
    ),
    KnownWrong(
        "input_copied",
        fails=("checkpoint/memory", "checkpoint/saved"),
        read=SECOND_RUN,
        explanation="""A copy of the input is kept. It takes the bytes of the input a second time for each
        checkpointed block, and an input that is overwritten afterwards goes unnoticed. The input itself can be kept:
        nobody else needs it to be elsewhere.""",
        change="""
-    again = repeatable(function, inputs)
+    again = repeatable(function, tuple(value.clone() if isinstance(value, Tensor) else value for value in inputs))
""",
    ),
    KnownWrong(
        "runs_for_every_tensor",
        fails=("checkpoint/memory", "checkpoint/frozen", "checkpoint/autocast"),
        read=SECOND_RUN,
        explanation="""The function runs again for every tensor that backward asks for. One second run makes them all:
        keep the others until backward takes them.""",
        change="""
-        if not remade:
-            with saved_tensors_hooks(remake, lambda nothing: nothing):
-                again()
-        return remade.pop(number)
+        remade.clear()
+        with saved_tensors_hooks(remake, lambda nothing: nothing):
+            again()
+        return remade[number]
""",
    ),
    KnownWrong(
        "noted_after_the_run",
        fails=("checkpoint/dropout",),
        read=SECOND_RUN,
        explanation="""The random state is noted after the first run instead of before it. The second run then draws
        the numbers that follow, and dropout drops other places.""",
        change="""
-    again = repeatable(function, inputs)
     count = 0  # tensors that the first run did not keep
@@
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        output = function(*inputs)
+    again = repeatable(function, inputs)
+    return output
""",
    ),
    KnownWrong(
        "first_run_in_evaluation_mode",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The first run takes place in evaluation mode. Its loss is that of the model without dropout;
        the gradient is that of the model with it.""",
        change="""
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        training = getattr(function, "training", None)
+        if training:
+            function.eval()
+        output = function(*inputs)
+        if training:
+            function.train()
+        return output
""",
    ),
    KnownWrong(
        "forked_in_forward",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read=SECOND_RUN,
        explanation="""After the first run the generator is where it was before it. What follows draws the numbers
        that this block has drawn: layers one after another drop the same places. Only the second run must leave the
        generator where it was.""",
        change="""
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        with torch.random.fork_rng(devices=[]):
+            return function(*inputs)
""",
    ),
    KnownWrong(
        "inside_the_graph_of_a_node",
        fails=("checkpoint/inputs", "checkpoint/autograd-grad"),
        read=SECOND_RUN,
        explanation="""The gradients are right after loss.backward(), but torch.autograd.grad does not get them:
        backward is called inside backward, and writes the weights' gradients into .grad. PyTorch's reentrant
        checkpoint has this limit. Hooks on saved tensors leave the graph of a plain call in place.""",
        definitions="""
class Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, asks, *inputs):
        ctx.others = [None if isinstance(value, Tensor) else (value,) for value in inputs]
        ctx.save_for_backward(*[value for value in inputs if isinstance(value, Tensor)])
        ctx.function, ctx.state = function, torch.get_rng_state()
        ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
        return function(*inputs)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = iter(ctx.saved_tensors)
        inputs = [
            next(tensors).detach().requires_grad_(asks) if other is None else other[0]
            for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
        ]
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
            output = ctx.function(*inputs)
        torch.set_rng_state(now)
        torch.autograd.backward(output, gradients[0])
        return None, None, *[value.grad if isinstance(value, Tensor) else None for value in inputs]


def checkpoint(function, *inputs):
    return Node.apply(function, torch.empty(0, requires_grad=True), *inputs)
""",
    ),
    KnownWrong(
        "first_output_only",
        fails=("checkpoint/inputs",),
        read=SECOND_RUN,
        explanation="""Of a function that returns several tensors only the first comes back. A block that returns its
        keys and values beside its output loses them.""",
        change="""
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        output = function(*inputs)
+    return output if isinstance(output, Tensor) else output[0]
""",
    ),
    KnownWrong(
        "plain_when_nobody_asks",
        fails=("checkpoint/frozen",),
        read="labs/lab-05-activation-checkpointing.md#break-it",
        explanation="""When no input requires a gradient, the function runs once and everything inside is kept. The
        gradients are right, since its weights require them; but behind a frozen embedding the first block, or the
        whole model, saves nothing.""",
        change="""
     again = repeatable(function, inputs)
+    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
+        return function(*inputs)
""",
    ),
    KnownWrong(
        "nobody_asks",
        fails=("checkpoint/frozen",),
        read="labs/lab-05-activation-checkpointing.md#break-it",
        explanation="""Behind a frozen embedding no input requires a gradient, and the weights inside get none either:
        the block runs once, without a graph. The loss simply stops falling.""",
        change="""
     again = repeatable(function, inputs)
+    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
+        with torch.no_grad():
+            return function(*inputs)
""",
    ),
    KnownWrong(
        "kept_past_backward",
        fails=("checkpoint/saved",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""After backward the input, or what the second run made, still exists. As long as something holds
        it, each step's memory stays until then: a list, a dictionary or the module of the function outlives the
        graph.""",
        change="""
     again = repeatable(function, inputs)
+    function.__dict__["again"] = again
""",
    ),
    wrong_lengths(
        "longer_segments_last",
        "[short] * (segments - longer) + [short + 1] * longer",
        """The lengths are right and their order is not. The last segment peaks on top of the inputs of all others, so
        it should be a short one.""",
    ),
    wrong_lengths(
        "remainder_in_the_last",
        "[short] * (segments - 1) + [short + longer]",
        """The last segment takes all that is left over. It can be nearly twice as long as the others, and it runs
        again when the inputs of all segments are still there: the peak is the highest possible.""",
    ),
    wrong_lengths(
        "remainder_in_the_first",
        "[short + longer] + [short] * (segments - 1)",
        """The first segment takes all that is left over. Lengths then differ by more than one where more than one
        block is left over.""",
    ),
    wrong_lengths(
        "remainder_dropped",
        "[short] * segments",
        """Every segment gets len(blocks) // segments blocks, and the blocks that are left over are in none. The model
        is shallower than its configuration says.""",
    ),
    wrong_lengths(
        "remainder_in_one_more",
        "[short] * segments + [longer] * (longer > 0)",
        """What is left over becomes one more segment. The number of segments was asked for because so many inputs fit;
        this keeps another.""",
    ),
    wrong_lengths(
        "all_rounded_up",
        "[min(-(-blocks // segments), rest) for rest in range(blocks, 0, -blocks // segments)]",
        """Every length is rounded up until the blocks are used up. 9 blocks in 4 segments are then 3, 3 and 3: fewer
        segments than asked for, or a last one that is much shorter.""",
    ),
    KnownWrong(
        "blocks_of_the_last_segment",
        fails=("segments/cut", "segments/gradients", "segments/memory", "segments/ends"),
        read=SEGMENTS,
        explanation="""In forward each segment runs its own blocks, in backward every segment runs the last one's
        again. A function that is made in a loop looks up the loop's variables when it runs, and in backward the loop
        is over.""",
        definitions="""
def checkpoint_segments(blocks, x, segments):
    start = 0
    for length in segment_lengths(len(blocks), segments):
        part = blocks[start : start + length]

        def segment(x):
            for block in part:  # noqa: B023
                x = block(x)
            return x

        x = checkpoint(segment, x)
        start += length
    return x
""",
    ),
    KnownWrong(
        "closure_sees_the_end",
        fails=("segments/cut", "segments/gradients", "segments/memory", "segments/ends"),
        read="labs/lab-05-activation-checkpointing.md#segments",
        explanation="""In backward no block runs again. A function that is made in a loop looks up where its segment
        begins when it runs; in backward the loop is over, and no block is left behind that place.""",
        definitions="""
def checkpoint_segments(blocks, x, segments):
    start = 0
    for length in segment_lengths(len(blocks), segments):
        end = start + length

        def segment(y):
            for block in blocks[start:end]:  # noqa: B023
                y = block(y)
            return y

        x = checkpoint(segment, x)
        start = end
    return x
""",
    ),
    KnownWrong(
        "each_block_alone",
        fails=("segments/cut", "segments/memory", "segments/ends"),
        read=SEGMENTS,
        explanation="""Each block runs again by itself, whatever number of segments was asked for. That is one good
        policy among several, and it keeps one input per block.""",
        definitions="""
def checkpoint_segments(blocks, x, segments):
    for block in blocks:
        x = checkpoint(block, x)
    return x
""",
    ),
    KnownWrong(
        "each_from_the_first_input",
        fails=("segments/cut", "segments/gradients", "segments/memory", "segments/ends"),
        read=SEGMENTS,
        explanation="""Every segment gets the first input, and only the last one's output is used. A segment's input is
        the output of the segment before it.""",
        change="""
-        x = checkpoint(run(start, start + length), x)
+        output = checkpoint(run(start, start + length), x)
@@
-    return x
+    return output
""",
    ),
    KnownWrong(
        "last_segment_kept",
        fails=("segments/cut", "segments/memory", "segments/ends"),
        read=SEGMENTS,
        explanation="""The last segment runs once and keeps everything inside. Backward begins there and would
        recompute it at once, and PyTorch's checkpoint_sequential keeps it too. But between the two runs backward
        frees what the loss keeps, and in a language model that is a lot: keeping the last segment holds both at
        once.""",
        change="""
-    for length in segment_lengths(len(blocks), segments):
-        x = checkpoint(run(start, start + length), x)
-        start += length
+    for place, length in enumerate(segment_lengths(len(blocks), segments)):
+        segment = run(start, start + length)
+        x = checkpoint(segment, x) if place < segments - 1 else segment(x)
+        start += length
""",
    ),
    KnownWrong(
        "only_the_last_recomputed",
        fails=("segments/cut", "segments/memory", "segments/ends"),
        read=BUDGET,
        explanation="""Only the last segment runs again, the one next to the loss. It is the one place where nothing
        is saved at the peak: backward begins there, and recomputes it while everything before it is still kept.""",
        change="""
-    for length in segment_lengths(len(blocks), segments):
-        x = checkpoint(run(start, start + length), x)
-        start += length
+    for place, length in enumerate(segment_lengths(len(blocks), segments)):
+        last = place == segments - 1 and segments > 1
+        x = checkpoint(run(start, start + length), x) if last else run(start, start + length)(x)
+        start += length
""",
    ),
    wrong_peak(
        "all_inputs_at_the_peak",
        "segments * boundary + lengths[0] * inside",
        """The result fits a peak of all segments' inputs and the longest segment's inside. These are never in memory
        at once: the longest segment comes first, and when it runs again the inputs of those after it are gone.""",
    ),
    wrong_peak(
        "longest_rounded_down",
        "segments * boundary + layers // segments * inside",
        """The result fits a peak with layers // segments blocks in the segment at work, as the last one has. Where
        the lengths do not divide evenly the first segments have one block more, and that block can take more than the
        inputs between the two.""",
    ),
    wrong_peak(
        "fraction_of_a_block",
        "segments * boundary + layers / segments * inside",
        """The result fits a peak with layers / segments blocks in each segment, a fraction. A segment has whole
        blocks: the peak falls in steps, and the number of segments that the formula finds is often not at the edge
        of a step.""",
    ),
    wrong_peak(
        "blocks_before_count",
        "max(sum(lengths[:i]) * boundary + length * inside for i, length in enumerate(lengths))",
        """The result fits a peak with an input for every block before the segment at work. Between forward and
        backward there is one input for each segment, not for each block.""",
    ),
    wrong_peak(
        "input_taken_out",
        "max(i * boundary + length * (inside - boundary) for i, length in enumerate(lengths))",
        """The result fits a peak at which the blocks of the segment at work hold their inside without their input. The
        input is in memory like everything else that is kept, and `inside` includes it.""",
    ),
    wrong_peak(
        "input_on_top",
        "max(i * boundary + length * (inside + boundary) for i, length in enumerate(lengths))",
        """The result fits a peak at which each block of the segment at work holds its input on top of its inside.
        `inside` includes the input: it is counted twice.""",
    ),
    wrong_best(
        "always_one_segment",
        "1",
        """The result is 1 for every model: what was minimized grows with each further segment. The inputs count in it,
        and what shorter segments save does not: only one segment's inside is there at a time, and a shorter one has
        less.""",
    ),
    wrong_best(
        "blocks_per_segment",
        "segment_lengths(layers, min(range(1, layers + 1), key=peak))[0]",
        """The result is the number of blocks in a segment, not the number of segments.""",
    ),
    wrong_best(
        "bytes_of_the_peak",
        "min(map(peak, range(1, layers + 1)))",
        """The result is the lowest peak in bytes, not the number of segments that has it.""",
    ),
    *(
        wrong_best(
            f"always_the_root{suffix}",
            f"max(1, {rounded}(layers**0.5))",
            """The square root of the number of layers is best only where a block keeps as much as its input. A
            transformer block keeps about 16 times its input, and then more, shorter segments have the lower peak.""",
        )
        for suffix, rounded in ROUNDINGS.items()
    ),
    *(
        wrong_best(
            f"root_with_the_constant{suffix}",
            f"min(layers, max(1, {rounded}((layers * inside / boundary) ** 0.5)))",
            """The result is that of the formula that sets boundary * s equal to inside * L / s. It is the right idea
            and a few segments off: lengths are whole numbers, the inputs after a segment are gone, and a segment's
            own input counts as its inside.""",
        )
        for suffix, rounded in ROUNDINGS.items()
    ),
    wrong_best(
        "as_many_as_layers",
        "layers",
        """One segment per layer, because a block keeps so much more than its input. True of short models. In a deep
        one the inputs add up, and segments of two or three blocks have the lower peak.""",
    ),
    wrong_best(
        "never_as_many_as_layers",
        "min(range(1, layers), key=peak, default=1)",
        """The result is right except where a segment for each layer is best: that number was not tried. range(1,
        layers) ends before layers.""",
    ),
    wrong_best(
        "never_one_segment",
        "min(range(2, layers + 1), key=peak, default=1)",
        """The result is right except where one segment is best: that number was not tried. With a block that keeps
        only its input, two layers peak equally high in one segment and in two.""",
    ),
    wrong_best(
        "largest_of_equals",
        "min(range(layers, 0, -1), key=peak)",
        """Of several numbers of segments with the same peak this is the largest; the smallest was asked for. Each
        segment is one more input between forward and backward, for nothing.""",
    ),
    KnownWrong(
        "last_kept_first_used",
        fails=("keep_or_reuse/values", "keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""In the second call an operation gets the kept output of another one. Backward goes from the
        last operation to the first, but the second call is a forward pass: it needs the outputs in the order in which
        the first call made them.""",
        change="""
-                return kept.pop(0)
+                return kept.pop()
""",
    ),
    KnownWrong(
        "one_list_for_all",
        fails=("keep_or_reuse/values",),
        read=KEEP,
        explanation="""All functions share what is kept: where two take turns, one gets the outputs of the other. A
        model has many blocks, and all run forward before the first runs again.""",
        change="""
-    kept: list[Tensor] = []
+    kept = globals().setdefault("KEPT", [])
""",
    ),
    KnownWrong(
        "everything_again",
        fails=("keep_or_reuse/values", "keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""Every operation runs in both calls, whatever `keep` says. That is full recomputation, with the
        matrix products, which are nearly all of the FLOPs, done twice.""",
        definitions="""
def keep_or_reuse(function, keep):
    return function
""",
    ),
    KnownWrong(
        "computed_all_the_same",
        fails=("keep_or_reuse/runs",),
        read=KEEP,
        explanation="""In the second call an operation in keep gets its kept output and runs as well. The memory is
        spent, and so is the time.""",
        change="""
             if again:
+                func(*args, **(kwargs or {}))
""",
    ),
    KnownWrong(
        "others_kept",
        fails=("keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""Operations in `keep` run twice and others once: the condition is the wrong way round. The
        expensive operations are done twice.""",
        change="""
-            if func not in keep:
+            if func in keep or func not in (torch.ops.aten.addmm.default, torch.ops.aten.gelu.default):
""",
    ),
    KnownWrong(
        "every_output_kept",
        fails=("keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""Matrix products and GELUs are kept alike, whatever `keep` says. Nothing of them is computed
        twice, and more is kept than was asked for.""",
        change="""
-            if func not in keep:
+            if func not in (torch.ops.aten.addmm.default, torch.ops.aten.gelu.default):
""",
    ),
    KnownWrong(
        "whole_result_kept",
        fails=("keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""Nothing runs in the second call: it returns the result of the first. That keeps the function's
        output and no operation's, so autograd finds nothing in the second call that it could keep for backward.""",
        definitions="""
def keep_or_reuse(function, keep):
    results = []

    def run(*inputs):
        if results:
            return results.pop()
        results.append(function(*inputs))
        return results[0]

    return run
""",
    ),
    KnownWrong(
        "kept_for_good",
        fails=("keep_or_reuse/memory",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""After the second call the kept outputs still exist. The function holds them, and the graph
        holds the function as long as somebody holds the loss: backward has passed and frees nothing.""",
        change="""
     again = False
+    reused = 0
@@
-                return kept.pop(0)
+                nonlocal reused
+                reused += 1
+                return kept[reused - 1]
""",
    ),
    KnownWrong(
        "keep_ignored",
        fails=("checkpoint_selective/runs", "checkpoint_selective/memory"),
        read=KEEP,
        explanation="""Everything runs again, whatever `keep` says. That is full recomputation, with the matrix
        products, which are nearly all of the FLOPs, done twice.""",
        definitions="""
def checkpoint_selective(function, *inputs, keep):
    return checkpoint(function, *inputs)
""",
    ),
    KnownWrong(
        "kept_by_autograd_too",
        fails=("checkpoint_selective/runs", "checkpoint_selective/memory"),
        read=KEEP,
        explanation="""Each operation runs once, and autograd keeps all activations: nothing is recomputed. Operations
        that are not in `keep` must run again.""",
        definitions="""
def checkpoint_selective(function, *inputs, keep):
    return keep_or_reuse(function, keep)(*inputs)
""",
    ),
    KnownWrong(
        "memory_for_each_run",
        fails=("checkpoint_selective/runs", "checkpoint_selective/released"),
        read=KEEP,
        explanation="""In backward the operations in `keep` run again, and their outputs are kept once more: nothing
        remembers the first run. Both runs must go through the same function that keep_or_reuse returned.""",
        change="""
-    return checkpoint(keep_or_reuse(function, keep), *inputs)
+    return checkpoint(lambda *values: keep_or_reuse(function, keep)(*values), *inputs)
""",
    ),
    KnownWrong(
        "second_run_outside",
        fails=("checkpoint_selective/runs", "checkpoint_selective/released"),
        read=KEEP,
        explanation="""In backward the operations in `keep` run again, although their outputs are kept: the second run
        does not go through the function that keep_or_reuse returned. checkpoint runs that function twice only if it
        is what checkpoint was given.""",
        change="""
-    return checkpoint(keep_or_reuse(function, keep), *inputs)
+    return keep_or_reuse(lambda *values: checkpoint(function, *values), keep)(*inputs)
""",
    ),
    KnownWrong(
        "graph_in_the_kept_outputs",
        fails=("checkpoint_selective/released",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""Where no backward follows, the kept outputs are never freed: autograd writes the graph of the
        first run on a kept output, and the graph holds the function that holds the output. Python's garbage collector
        does not see into the graph. Keep outputs detached.""",
        definitions="""
def checkpoint_selective(function, *inputs, keep):
    kept, again = [], []

    class KeepOrReuse(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func not in keep:
                return func(*args, **(kwargs or {}))
            if again:
                return kept.pop(0).detach()
            kept.append(func(*args, **(kwargs or {})))
            return kept[-1]

    def run(*inputs):
        with KeepOrReuse():
            output = function(*inputs)
        again.append(True)
        return output

    return checkpoint(run, *inputs)
""",
    ),
    KnownWrong(
        "layers_after_count",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The layers after the one at work count as if they still kept what they kept in forward.
        Backward has passed them, and they hold nothing.""",
        definitions="""
def peak_bytes(layers, recomputed):
    kept = [layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers)]
    return max(sum(kept) - held + layer.inside for held, layer in zip(kept, layers, strict=True))
""",
    ),
    KnownWrong(
        "input_counted_twice",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""A recomputed layer at work counts with its inside and its boundary. Its input is part of its
        inside, and the same memory: it is counted twice.""",
        change="""
-        peak = max(peak, before + layer.inside)
+        peak = max(peak, before + layer.inside + (layer.boundary if place in recomputed else 0))
""",
    ),
    KnownWrong(
        "every_input_counted_twice",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""Every layer at work counts with its inside and its boundary, recomputed or not. Its input is part
        of its inside, and the same memory: it is counted twice.""",
        change="""
-        peak = max(peak, before + layer.inside)
+        peak = max(peak, before + layer.inside + layer.boundary)
""",
    ),
    KnownWrong(
        "backward_from_the_first",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""What is held is added up from the wrong end: while a layer is at work, the layers after it count
        and those before it do not. Backward begins at the last layer, when all before it is still kept.""",
        change="""
-    for place, layer in enumerate(layers):
+    for place, layer in reversed([*enumerate(layers)]):
""",
    ),
    KnownWrong(
        "inputs_cost_nothing",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""A recomputed layer counts as if it kept nothing. It keeps its input: over many layers that adds
        up, and is all there is between forward and backward when everything is recomputed.""",
        change="""
-        before += layer.boundary if place in recomputed else layer.inside
+        before += 0 if place in recomputed else layer.inside
""",
    ),
    KnownWrong(
        "largest_always_comes_back",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The result is what all layers keep, and the largest recomputed inside on top. The largest may
        be an early layer: when backward reaches it, those after it are gone, and its own input counts twice. A bound
        that is too high recomputes layers that would fit.""",
        definitions="""
def peak_bytes(layers, recomputed):
    kept = sum(layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers))
    return kept + max((layers[place].inside for place in recomputed), default=0)
""",
    ),
    KnownWrong(
        "last_layer_missed",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The last layer does not count. Backward begins there: the last layer at work, and everything
        before it still there.""",
        change="""
-    for place, layer in enumerate(layers):
+    for place, layer in enumerate(layers[:-1]):
""",
    ),
    KnownWrong(
        "nothing_comes_back",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The result is what the layers keep between forward and backward. In backward a recomputed
        layer's inside comes back while it works, on top of all that is kept before it.""",
        definitions="""
def peak_bytes(layers, recomputed):
    return sum(layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers))
""",
    ),
    KnownWrong(
        "below_the_budget",
        fails=("plan/fits", "plan/cheapest"),
        read=BUDGET,
        explanation="""A plan whose peak is exactly the budget is turned down. At most means that it fits.""",
        change="""
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
+        if (best is None or flops < least) and peak_bytes(layers, places) < budget:
""",
    ),
    KnownWrong(
        "sum_for_the_peak",
        fails=("plan/fits", "plan/cheapest", "plan/refuses"),
        read=BUDGET,
        explanation="""A plan counts as fitting if what the layers keep between forward and backward is within the
        budget. In backward a recomputed layer's inside comes back, and the peak is higher than that sum.""",
        change="""
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
+        kept = sum(layer.boundary if place in places else layer.inside for place, layer in enumerate(layers))
+        if (best is None or flops < least) and kept <= budget:
""",
    ),
    KnownWrong(
        "lowest_peak",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The plan has the lowest peak of all, whatever the budget is. Bytes below the budget are worth
        nothing, and each of them costs FLOPs.""",
        change="""
-        flops = sum(layers[place].flops for place in places)
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
-            best, least = places, flops
+        rank = peak_bytes(layers, places), sum(layers[place].flops for place in places)
+        if (best is None or rank < least) and rank[0] <= budget:
+            best, least = places, rank
""",
    ),
    KnownWrong(
        "all_or_nothing",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""Either nothing is recomputed or everything: one switch, as many trainers have it. Nearly every
        budget between the two is met by fewer FLOPs.""",
        definitions="""
def plan(layers, budget):
    for places in ([], list(range(len(layers)))):
        if peak_bytes(layers, places) <= budget:
            return places
    raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
""",
    ),
    greedy_plan(
        "best_ratio_first",
        "layer.flops / (layer.inside - layer.boundary)",
        """The plan is that of a greedy rule: the most bytes per FLOP first, until it fits. Close, and not the least:
        the last layer taken may save far more than was still needed, and a layer's saving counts only where the
        peak is after it.""",
    ),
    greedy_plan(
        "cheapest_first",
        "layer.flops",
        """The plan is that of a greedy rule: the layer with the fewest FLOPs first, until it fits. Cheap layers often
        save little, so many of them are recomputed where one would do.""",
    ),
    KnownWrong(
        "fewest_layers",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The plan has the fewest layers that fit, not the fewest FLOPs. One expensive layer may cost
        more than three cheap ones.""",
        change="""
-        flops = sum(layers[place].flops for place in places)
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
-            best, least = places, flops
+        if (best is None or len(places) < least) and peak_bytes(layers, places) <= budget:
+            best, least = places, len(places)
""",
    ),
    greedy_plan(
        "largest_first",
        "layer.boundary - layer.inside",
        """The plan is that of a greedy rule: the layer that saves the most bytes first, until it fits. It leaves out
        what the layer costs, and that several small savings may be cheaper.""",
    ),
    greedy_plan(
        "last_layers_first",
        "-place",
        """Layers are recomputed from the last backwards. The last saves nothing at the peak, because backward begins
        with it: the FLOPs are spent and the bytes come back at once.""",
    ),
    KnownWrong(
        "leanest_anyway",
        fails=("plan/refuses",),
        read=BUDGET,
        explanation="""When nothing fits, a plan comes back as if it did. The run starts, and fails an hour later for
        lack of memory, where a sentence now would have said so.""",
        definitions="""
def plan(layers, budget):
    choices = [[p for p in range(len(layers)) if choice >> p & 1] for choice in range(2 ** len(layers))]
    fitting = [places for places in choices if peak_bytes(layers, places) <= budget]
    return min(
        fitting or [min(choices, key=lambda places: peak_bytes(layers, places))],
        key=lambda places: sum(layers[place].flops for place in places),
    )
""",
    ),
)

HURRIED = {
    "runs_per_block": {
        "warms up first": """
         step()
+        step()
""",
        "a hook on every module, left": """

+    for block in blocks:
+        for module in block.modules():
+            module.register_forward_pre_hook(lambda *_: None)
     handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
""",
        "removes other hooks too": """
-        for handle in handles:
-            handle.remove()
+        for block in blocks:
+            block._forward_pre_hooks.clear()
""",
        "swallows the error": """
         step()
+    except Exception:
+        pass
""",
        "counts after the run": """
-    return counts
+    return [max(1, count) for count in counts]
""",
    },
    "repeatable": {
        "keeps copies of the inputs": """
     random_state = torch.get_rng_state()
+    inputs = tuple(value.clone() if isinstance(value, Tensor) else value for value in inputs)
""",
        "second run in training mode": """
-                return function(*fresh)
+                return function.train()(*fresh)
""",
        "state noted after a draw": """
     random_state = torch.get_rng_state()
+    torch.rand(1)
""",
        "second run in float64": """
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value.detach().double().requires_grad_(value.requires_grad)
""",
        "leaves gradients on": """
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
-                return function(*fresh)
+            torch.set_grad_enabled(True)
+            with torch.autocast("cpu", **autocast):
+                return function(*fresh)
""",
        "any error for an overwritten input": """
-                    raise RuntimeError(f"input {place} was overwritten by an inplace operation before its second run")
+                    raise ValueError(f"input {place} was overwritten by an inplace operation before its second run")
""",
        "weights are guarded too": """
     versions = [value._version if isinstance(value, Tensor) else 0 for value in inputs]
+    weights = list(function.parameters()) if isinstance(function, nn.Module) else []
+    before = [weight._version for weight in weights]
@@
         fresh = list(inputs)
+        if [weight._version for weight in weights] != before:
+            raise RuntimeError("a weight was overwritten")
""",
    },
    "checkpoint": {
        "hooks of the second run keep its graph in place": """
-        remade[len(remade)] = tensor.detach()
+        remade[len(remade)] = tensor.clone().double()
""",
        "only modules are recomputed": """
     again = repeatable(function, inputs)
+    if not isinstance(function, nn.Module):
+        return function(*inputs)
""",
        "the output is kept": """
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        output = function(*inputs)
+    remade[-1] = (output[0] if isinstance(output, tuple) else output).detach().clone()
+    return output
""",
        "evaluation mode is not recomputed": """
     again = repeatable(function, inputs)
+    if getattr(function, "training", True):
+        return function(*inputs)
""",
        "a scaled output": """
     with saved_tensors_hooks(number_instead, take):
-        return function(*inputs)
+        return function(*inputs) * 1.0
""",
        "the second run comes one step late": """
-            with saved_tensors_hooks(remake, lambda nothing: nothing):
-                again()
+            with saved_tensors_hooks(remake, lambda nothing: nothing):
+                function(*inputs)
""",
    },
    "segment_lengths": {
        "one longer segment only": """
-    return [short + 1] * longer + [short] * (segments - longer)
+    return [short + 1] * min(1, longer) + [short] * (segments - min(1, longer))
""",
        "a tuple": """
-    return [short + 1] * longer + [short] * (segments - longer)
+    return tuple([short + 1] * longer + [short] * (segments - longer))
""",
        "floats": """
-    short, longer = divmod(blocks, segments)
-    return [short + 1] * longer + [short] * (segments - longer)
+    return [blocks / segments] * segments
""",
    },
    "segments": {
        "first segment is plain": """
-        x = checkpoint(run(start, start + length), x)
+        x = run(start, start + length)(x) if start == 0 else checkpoint(run(start, start + length), x)
""",
        "blocks are checkpointed inside": """
-                x = block(x)
+                x = checkpoint(block, x)
""",
        "blocks in the wrong order": """
-            for block in blocks[start:end]:
+            for block in reversed(blocks[start:end]):
""",
        "first segment is the fullest": """
-        return max(before * boundary + length * inside for before, length in enumerate(lengths))
+        return lengths[0] * inside
""",
        "one of two segments at most": """
-    return min(range(1, layers + 1), key=peak)
+    return min(range(1, layers // 2 + 2), key=peak)
""",
    },
    "keep_or_reuse": {
        "hands out the first one again": """
-                return kept.pop(0)
+                return kept[0]
""",
        "first operation of a kind only": """
-            if func not in keep:
+            if func not in keep or (not again and len(kept) > 0):
""",
        "keeps copies": """
-            kept.append(output.detach())
+            kept.append(output.detach().float())
""",
        "without keyword arguments": """
-                return func(*args, **(kwargs or {}))
+                return func(*args)
""",
        "compares names": """
-            if func not in keep:
+            if str(func) not in map(str, keep) or "gelu" in str(func):
""",
    },
    "checkpoint_selective": {
        "stays under no_grad": """
-    return checkpoint(keep_or_reuse(function, keep), *inputs)
+    return checkpoint(lambda *values: keep_or_reuse(function, keep)(*values).detach(), *inputs)
""",
    },
    "peak_bytes": {
        "peak of the last layer": """
-        peak = max(peak, before + layer.inside)
+        peak = before + layer.inside
""",
        "saved bytes taken for the peak": """
-        peak = max(peak, before + layer.inside)
+        peak = before + layer.boundary
""",
    },
    "plan": {
        "leaves out the most expensive while it fits": """
     best: list[int] | None = None
+    chosen = list(range(len(layers)))
+    for place in sorted(chosen, key=lambda place: -layers[place].flops):
+        if peak_bytes(layers, [one for one in chosen if one != place]) <= budget:
+            chosen.remove(place)
+    if peak_bytes(layers, chosen) <= budget:
+        return chosen
""",
        "never the first layer": """
-    for choice in range(2 ** len(layers)):
+    for choice in range(0, 2 ** len(layers), 2):
""",
        "never all layers": """
-    for choice in range(2 ** len(layers)):
+    for choice in range(2 ** len(layers) - 1):
""",
        "places from the last": """
-        places = [place for place in range(len(layers)) if choice >> place & 1]
+        places = [place for place in range(len(layers)) if choice >> place & 1][::-1]
""",
        "an empty plan for a hopeless budget": """
-        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
+        return []
""",
        "fewer places first": """
-    for choice in range(2 ** len(layers)):
+    for choice in sorted(range(2 ** len(layers)), key=int.bit_count):
+        if best is not None and choice.bit_count() > len(best):
+            break
""",
    },
}
