"""Known-wrong solutions of Lab 05, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

SECOND_RUN = "handbook/recomputation.md#state-that-the-second-run-needs"
SEGMENTS = "handbook/recomputation.md#the-number-of-segments"
KEEP = "handbook/recomputation.md#selective-recomputation"
BUDGET = "handbook/recomputation.md#recomputation-under-a-memory-budget"

# The checks that a checkpoint without usable gradients fails.
NO_GRADIENTS = (
    "checkpoint/gradients",
    "checkpoint/memory",
    "checkpoint/frozen",
    "checkpoint/saved",
    "checkpoint/autocast",
)

ONE_STORE = """All calls share one store for the tensors of their second runs. Backward of one call then gets the
tensors of another call, with another shape or from another step. Make a new store for each call."""

WITHOUT_KEYWORDS = """An operation runs without its keyword arguments, so it computes with their defaults: GELU without
approximate="tanh" is another function. A mode gets them as `kwargs`, which may be None: run
`func(*args, **(kwargs or {}))`."""

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


def off_by_one(name: str, store: str, taken: str) -> KnownWrong:
    """Returns a solution that numbers the tensors of the first run from 1 and those of the second run from 0."""
    explanation = """Backward looks for a tensor under a number that no tensor of the second run has. Number the tensors
    of both runs in the order in which they come to the hooks, and begin with the same number: a first run that counts
    from 1 does not fit a list, or a second run, that counts from 0."""
    change = f"-        return count - 1\n+        return count{store}"
    if taken != "remade.pop(number)":
        change += f"@@\n-        return remade.pop(number)\n+        return {taken}"
    return KnownWrong(name, NO_GRADIENTS, SECOND_RUN, explanation, change)


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
        read="handbook/recomputation.md#the-number-of-segments",
        explanation="""Only runs with gradients on are counted. The first run of a checkpointed block may have gradients
        off, and so has evaluation: these runs cost as much as any other. Count every run.""",
        change="""
-            counts[place] += 1
+            counts[place] += torch.is_grad_enabled()
""",
    ),
    KnownWrong(
        "counted_by_module",
        fails=("runs_per_block/counts",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""A block that is listed twice, as with shared weights, gets two hooks that add to one count, so
        each of its runs counts twice. Let each hook add to the count of its own place.""",
        change="""
-    counts = [0] * len(blocks)
+    counts = {block: 0 for block in blocks}
@@
-            counts[place] += 1
+            counts[module] += 1
@@
-    return counts
+    return [counts[block] for block in blocks]
""",
    ),
    KnownWrong(
        "backward_counted",
        fails=("runs_per_block/counts",),
        read="handbook/recomputation.md#the-number-of-segments",
        explanation="""The number is that of backward passes. A recomputed block runs forward twice and backward once,
        so this number is the same with and without checkpointing. Count forward passes.""",
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
        explanation="""Every run is counted for the last block. A function that is made in a loop reads the loop's
        variable when the function runs; after the loop, the variable has its last value. Make each hook in a function
        that takes the place.""",
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
        explanation="""The modules inside a block are counted too, so each run of a block adds as many as there are
        modules in it. Count the block only.""",
        change="""
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+    inner = [(place, module) for place, block in enumerate(blocks) for module in block.modules()]
+    handles = [module.register_forward_pre_hook(counter(place)) for place, module in inner]
""",
    ),
    KnownWrong(
        "warm_up_first",
        fails=("runs_per_block/step",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The step runs twice: once without hooks and once with them. The counts are right, but the
        gradients of both runs add up, so the caller's next update is too large. Count in the only run.""",
        change="""
+    step()
     handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
""",
    ),
    KnownWrong(
        "forward_replaced",
        fails=("runs_per_block/removed",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""After the call, something is left on the blocks: a hook that was not removed, or a method on a
        block itself that hides the method of its class. It affects every later run. A hook's handle removes the hook
        completely; if you replace a method, delete the attribute afterwards.""",
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
        explanation="""Something that counts stays on the blocks after every call. Each later step then adds to a list
        that no code reads, and each call adds more hooks, so a long run gets slower and slower. Remove every hook.""",
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
        explanation="""The hooks are removed after a step that works, but not after a step that raises an error. An
        out-of-memory error is often caught in a notebook, which then goes on with the same model. Remove the hooks in
        `finally`.""",
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
        "hooks_left_after_ctrl_c",
        fails=("runs_per_block/removed",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""The hooks stay after Ctrl-C in the step, and in a notebook you go on with the same model.
        KeyboardInterrupt is no Exception, so `except Exception` does not catch it. Remove the hooks in `finally`.""",
        change="""
-    finally:
-        for handle in handles:
-            handle.remove()
+    except Exception:
+        for handle in handles:
+            handle.remove()
+        raise
+    for handle in handles:
+        handle.remove()
""",
    ),
    KnownWrong(
        "again_called",
        fails=(
            "repeatable/graph",
            "repeatable/random",
            "repeatable/autocast",
            "repeatable/inputs",
            "repeatable/overwritten",
        ),
        read=SECOND_RUN,
        explanation="""The value that `repeatable` returns is no function: it is the result of a run, or None if
        `return` is missing. The caller calls the value later, in backward. Define an inner function that does the
        second run, and return it without parentheses: `return again`, not `return again()`.""",
        change="""
-    return again
+    return again()
""",
    ),
    KnownWrong(
        "graph_of_the_caller",
        fails=("repeatable/graph", "repeatable/inputs"),
        read=SECOND_RUN,
        explanation="""The second run uses the inputs as they are, still attached to the graph of the layers before. Its
        backward then also runs through those layers, inside the backward that is already running. Detach the
        inputs.""",
        change="""
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value
""",
    ),
    KnownWrong(
        "detached_in_place",
        fails=("repeatable/graph", "repeatable/inputs"),
        read=SECOND_RUN,
        explanation="""The caller's own input is detached from its graph. The layers before it then get no gradient,
        without an error: in a stack of checkpointed blocks only the last block trains. `detach()` returns a new tensor;
        `detach_()` changes the caller's.""",
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
        explanation="""The second run has gradients off, because autograd runs backward in that mode. It makes no graph,
        so autograd keeps no tensors of it. Run it under torch.enable_grad().""",
        change="""
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            with torch.autocast("cpu", **autocast):
""",
    ),
    KnownWrong(
        "runs_at_once",
        fails=("repeatable/graph", "repeatable/random"),
        read=SECOND_RUN,
        explanation="""`repeatable` already runs the function. That run costs a forward pass and draws random numbers,
        so the first run, which comes after it, gets other random numbers. `repeatable` only stores the state.""",
        change="""
     versions = [value._version if isinstance(value, Tensor) else 0 for value in inputs]
+    function(*inputs)
""",
    ),
    KnownWrong(
        "seed_for_the_state",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The second run starts from the generator's seed, where the generator was when the program began.
        By the time of the first run, other draws have changed its state. Store the state instead of the seed.""",
        change="""
-        torch.set_rng_state(random_state)
+        torch.manual_seed(torch.initial_seed())
""",
    ),
    KnownWrong(
        "another_mask",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The second run draws from the generator's current state, so dropout uses another mask. The loss
        then belongs to one network and the gradient to another: training becomes worse without an error. Set the
        generator to the state before the first run.""",
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
        explanation="""The second run leaves the generator as it was, but it draws other numbers than the first run: it
        starts from the state at the time of the second run. It must start from the state before the first run, when
        `repeatable` is called.""",
        change="""
-        torch.set_rng_state(random_state)
""",
    ),
    KnownWrong(
        "generator_left_behind",
        fails=("repeatable/random",),
        read=SECOND_RUN,
        explanation="""The generator is set back for the second run and stays there. Later draws then repeat numbers
        that were used before: the masks of later layers, or of the next step, are not independent. Restore the
        generator's state after the second run.""",
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
        explanation="""The generator's state is restored after a second run that works, but not after one that raises an
        error. If the error is caught, later draws repeat old numbers. Restore the state in `finally`.""",
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
        explanation="""Both runs start from a fixed random state instead of the program's. Their masks agree, but they
        are the same in every step and every layer, and all later draws of the program repeat too. Store the program's
        state, and do not seed.""",
        change="""
+    torch.manual_seed(0)
     random_state = torch.get_rng_state()
""",
    ),
    KnownWrong(
        "autocast_forgotten",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""The second run uses the autocast that is on at its own time. Backward is usually called outside
        autocast, so a first run in bf16 is repeated in fp32: with other numbers, and with the memory and time of fp32.
        Restore the autocast of the first run.""",
        change="""
-            with torch.enable_grad(), torch.autocast("cpu", **autocast):
+            with torch.enable_grad():
""",
    ),
    KnownWrong(
        "autocast_only_switched_on",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""A first run under autocast is repeated under autocast. A first run without autocast is repeated
        under the autocast in which backward is called, if there is one. Switch autocast off for that second run.""",
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
        explanation="""The state of autocast is stored without its dtype. The default on the CPU is bfloat16, so a first
        run in float16 is repeated in bfloat16, with other numbers and other gradients. Store the dtype too.""",
        change="""
-    autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.bfloat16}
""",
    ),
    KnownWrong(
        "autocast_of_the_gpu",
        fails=("repeatable/autocast",),
        read=SECOND_RUN,
        explanation="""The second run never uses autocast, even if the first run used the CPU's. Each kind of device has
        its own autocast: without an argument, torch.is_autocast_enabled() returns whether the GPU's is on. Pass
        "cpu".""",
        change="""
-    autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    autocast = {"enabled": torch.is_autocast_enabled(), "dtype": torch.get_autocast_dtype("cpu")}
""",
    ),
    KnownWrong(
        "inputs_copied",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""The inputs are cloned, which needs memory for a second copy of them. detach() gives a new tensor
        with the same numbers in memory.""",
        change="""
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value.detach().clone().requires_grad_(value.requires_grad)
""",
    ),
    KnownWrong(
        "detached_once",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""The inputs are detached once, and every later run gets the same tensors. A gradient that one run
        leaves in their `.grad` is still there in the next run and adds to its gradient. Detach the inputs in the
        function that `repeatable` returns.""",
        change="""
+    fresh = [v.detach().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v for v in inputs]
     random_state = torch.get_rng_state()
@@
-        fresh = list(inputs)
@@
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
""",
    ),
    KnownWrong(
        "everything_asks",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""Every tensor requires a gradient in the second run. Integer and bool tensors, such as indices and
        masks, cannot require one, so a function that takes one raises an error. Give each tensor the requires_grad of
        its input.""",
        change="""
-                fresh[place] = value.detach().requires_grad_(value.requires_grad)
+                fresh[place] = value.detach().requires_grad_()
""",
    ),
    KnownWrong(
        "nothing_asks",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""No input requires a gradient in the second run. The tensors that autograd keeps depend on which
        inputs require one, so the second run keeps fewer tensors than the first, and they do not match. Give each
        tensor the requires_grad of its input.""",
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
        before a tensor gets them in the wrong places. Keep the order.""",
        change="""
-                return function(*fresh)
+                return function(*sorted(fresh, key=lambda value: not isinstance(value, Tensor)))
""",
    ),
    KnownWrong(
        "tensors_only",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""The second run gets the tensors among the inputs only: numbers, lists and None are missing from
        its arguments. Pass every input in its place.""",
        change="""
-                return function(*fresh)
+                return function(*[value for value in fresh if isinstance(value, Tensor)])
""",
    ),
    KnownWrong(
        "lists_rebuilt",
        fails=("repeatable/inputs",),
        read=SECOND_RUN,
        explanation="""A list among the inputs is replaced by another list with the same contents. The function may
        write into the list, and the caller then reads the original. Pass every input that is not a tensor
        unchanged.""",
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
        explanation="""An input that is overwritten in place before the second run causes no error. A gradient computed
        from the new numbers would be wrong; a copy of the old numbers takes the input's memory a second time. Compare
        `_version`, as autograd does for every tensor that it keeps.""",
        change="""
-                if value._version != versions[place]:
-                    raise RuntimeError(f"input {place} was overwritten by an inplace operation before its second run")
""",
    ),
    KnownWrong(
        "numbers_compared",
        fails=("repeatable/overwritten",),
        read=SECOND_RUN,
        explanation="""Overwriting causes no error if the new numbers equal the old ones. A comparison of numbers also
        needs a copy of each input, which costs the memory that checkpointing saves. `_version` is one number.""",
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
        explanation="""Only inputs that require a gradient are checked for overwriting. The weights' gradients are
        computed from an input whether it requires a gradient or not: check every tensor.""",
        change="""
-                if value._version != versions[place]:
+                if value.requires_grad and value._version != versions[place]:
""",
    ),
    KnownWrong(
        "overwritten_before",
        fails=("repeatable/overwritten",),
        read=SECOND_RUN,
        explanation="""An input that was changed in place before `repeatable` was called raises an error. The second run
        gets the numbers of the first all the same. Compare `_version` with its value at the call, not with 0.""",
        change="""
-                if value._version != versions[place]:
+                if value._version > 0:
""",
    ),
    KnownWrong(
        "output_without_a_graph",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""The output has no graph, as after a run under `torch.no_grad()` or after `detach()`. No tensor
        from inside is kept, but backward has no node from which it could start a second run. Run the function with
        gradients on, under hooks that keep a number in place of each tensor.""",
        change="""
-    with saved_tensors_hooks(number_instead, take):
+    with torch.no_grad():
         return function(*inputs)
""",
    ),
    KnownWrong(
        "first_run_without_a_graph",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""The first run has gradients off, so its output has no graph: backward ends there, and neither
        weights nor inputs get a gradient. The graph must be that of a plain call, without the tensors that it would
        keep.""",
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
        explanation=ONE_STORE,
        change="""
-    remade: dict[int, Tensor] = {}  # those of the second run that backward has not taken yet, by their number
+    remade = globals().setdefault("REMADE", {})
@@
-        if number not in remade:  # also in a second backward
-            remade.clear()  # what a backward through a part of the graph has left
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
        explanation="""PyTorch's own checkpoint is called. It is right, and in your own projects you should use it. Here
        it is switched off, because this exercise builds it.""",
        definitions="""
def checkpoint(function, *inputs):
    return torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)
""",
    ),
    KnownWrong(
        "first_kept_first_used",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""Backward gets other tensors of the second run than those that it needs. In the place of tensor n
        of the first run it needs tensor n of the second run, so both runs must count from the same number. It needs the
        tensors neither in the order of the run nor exactly in reverse: find each by its number.""",
        change="""
-        return remade.pop(number)
+        return remade.pop(min(remade))
""",
    ),
    KnownWrong(
        "found_by_address",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""Backward looks for a tensor by a number that no tensor of the second run has, such as an id or an
        address. The second run makes other objects at other addresses. Both runs pass equal tensors to their hooks in
        the same order: use the place in that order.""",
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
    off_by_one("counted_from_one", "", "remade.pop(number)"),
    off_by_one(
        "list_counted_from_one",
        """
@@
-    remade: dict[int, Tensor] = {}  # those of the second run that backward has not taken yet, by their number
+    remade = []
@@
-        remade[len(remade)] = tensor.detach()
+        remade.append(tensor.detach())
@@
-        if number not in remade:  # also in a second backward
-            remade.clear()  # what a backward through a part of the graph has left
+        if not remade:
""",
        "remade[number]",
    ),
    KnownWrong(
        "nothing_kept_again",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""The tensor that backward needs is missing, because no tensor of the second run was kept. The
        hooks around the first run are not active in backward. The second run needs its own hooks, which keep its
        tensors until backward takes them.""",
        change="""
-            with saved_tensors_hooks(remake, lambda nothing: nothing):
-                again()
+            again()
""",
    ),
    KnownWrong(
        "runs_again_for_one_tensor",
        fails=NO_GRADIENTS,
        read=SECOND_RUN,
        explanation="""Backward needs a tensor before the second run has begun. The second run begins at another tensor,
        such as the last one of the first run, or never. Backward needs the tensors neither in the order of the run nor
        exactly in reverse. If the tensor that it needs is not there, run the function again.""",
        change="""
-        if number not in remade:  # also in a second backward
+        if number == count - 1:
""",
    ),
    KnownWrong(
        "computed_ahead",
        fails=("checkpoint/memory", "checkpoint/frozen", "checkpoint/saved"),
        read=SECOND_RUN,
        explanation="""The second run takes place in forward, and its tensors are kept until backward. All the memory
        that checkpointing saves is then used in another place. Start the second run when backward needs the first
        tensor.""",
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
        explanation="""The function runs once, and autograd keeps all activations. The gradients are right, but no
        memory is saved. Keep a number in place of each tensor, and run the function again in backward.""",
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
        explanation="""The function runs once, and hooks keep the tensors that autograd would keep: in another place, in
        another form, or as they are. That is offloading or compression. Recomputation keeps no tensor from inside and
        runs the function again.""",
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
        explanation="""A copy of the input is kept. It takes the input's bytes a second time for each checkpointed
        block, and an input that is overwritten later causes no error. Keep the input itself.""",
        change="""
-    again = repeatable(function, inputs)
+    again = repeatable(function, tuple(value.clone() if isinstance(value, Tensor) else value for value in inputs))
""",
    ),
    KnownWrong(
        "runs_for_every_tensor",
        fails=("checkpoint/memory", "checkpoint/frozen", "checkpoint/autocast"),
        read=SECOND_RUN,
        explanation="""The function runs again for every tensor that backward needs. One second run computes all of
        them: keep the others until backward takes them.""",
        change="""
-        if number not in remade:  # also in a second backward
-            remade.clear()  # what a backward through a part of the graph has left
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
        explanation="""The random state is stored after the first run instead of before it. The second run then draws
        the numbers that follow, so dropout uses another mask. Store the state before the first run.""",
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
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The first run is in evaluation mode. Its loss is that of the model without dropout, and the
        gradient is that of the model with dropout. Do not change the mode.""",
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
        explanation="""After the first run the generator has the state from before it. Later layers then draw the same
        numbers as this block, so they use the same masks. Only the second run restores the generator's state.""",
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
        explanation="""The gradients are right after loss.backward(), but torch.autograd.grad does not return them:
        backward is called inside backward, and writes the weights' gradients into .grad. PyTorch's reentrant checkpoint
        has this limit too. With hooks on saved tensors, the graph is that of a plain call.""",
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
        explanation="""If the function returns several tensors, only the first is returned. A block that returns its
        keys and values beside its output loses them. Return the function's result unchanged.""",
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
        explanation="""If no input requires a gradient, the function runs once and autograd keeps all tensors inside.
        The gradients are right, since the weights require them, but behind a frozen embedding the first block, or the
        whole model, saves no memory. Checkpoint every call.""",
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
        explanation="""If no input requires a gradient, as behind a frozen embedding, the weights inside get no gradient
        either: the block runs once, without a graph. The loss stops falling, without an error.""",
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
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""After backward the input, or a tensor of the second run, still exists, so the memory of each step
        stays in use. What refers to it lives longer than the graph: a list, a dictionary, the function's module, or a
        reference cycle, such as that of a class which is defined inside `checkpoint`. Keep such tensors only until
        backward has taken them.""",
        change="""
     again = repeatable(function, inputs)
+    function.__dict__["again"] = again
""",
    ),
    KnownWrong(
        "one_store_that_is_emptied",
        fails=("checkpoint/autograd-grad",),
        read=SECOND_RUN,
        explanation=ONE_STORE,
        change="""
-    remade: dict[int, Tensor] = {}  # those of the second run that backward has not taken yet, by their number
+    remade = REMADE
""",
        definitions="REMADE: dict[int, Tensor] = {}",
    ),
    KnownWrong(
        "runs_again_only_if_empty",
        fails=("checkpoint/autograd-grad",),
        read=SECOND_RUN,
        explanation="""The function runs again only if no tensor of a second run is left. A backward through a part of
        the graph leaves some tensors and has taken others, so a second backward does not find those that it needs. If a
        tensor is not there, remove the others and run the function again.""",
        change="""
-        if number not in remade:  # also in a second backward
+        if not remade:
""",
    ),
    KnownWrong(
        "runs_again_only_once",
        fails=("checkpoint/autograd-grad",),
        read=SECOND_RUN,
        explanation="""The function runs again in the first backward only. With retain_graph=True a second backward may
        follow, and the first has taken the tensors. If a tensor is not there, run the function again.""",
        change="""
-    count = 0  # tensors that the first run did not keep
+    count, ran = 0, []
@@
-        if number not in remade:  # also in a second backward
+        if not ran:
+            ran.append(True)
""",
    ),
    wrong_lengths(
        "longer_segments_last",
        "[short] * (segments - longer) + [short + 1] * longer",
        """The lengths are right, but their order is not. When the last segment runs again, the inputs of all segments
        are in memory, so it should be a short segment.""",
    ),
    wrong_lengths(
        "longer_segments_spread",
        "[blocks * i // -segments - blocks * (i + 1) // -segments for i in range(segments)]",
        """The lengths are right, but their order is not: the longer segments are spread over the whole model, as with
        ends at rounded fractions of the number of blocks. All longer segments come first, because more inputs are in
        memory while a later segment runs again.""",
    ),
    wrong_lengths(
        "remainder_in_the_last",
        "[short] * (segments - 1) + [short + longer]",
        """The last segment gets all blocks that are left over. It can be nearly twice as long as the others, and it
        runs again while the inputs of all segments are in memory: this gives the highest peak. Make the first segments
        one block longer instead.""",
    ),
    wrong_lengths(
        "remainder_in_the_first",
        "[short + longer] + [short] * (segments - 1)",
        """The first segment gets all blocks that are left over. If more than one block is left over, the lengths differ
        by more than one. Make as many segments one block longer as there are blocks left over.""",
    ),
    wrong_lengths(
        "remainder_dropped",
        "[short] * segments",
        """Every segment gets blocks // segments blocks, and the blocks that are left over are in no segment. The model
        then has fewer layers than its configuration says.""",
    ),
    wrong_lengths(
        "remainder_in_one_more",
        "[short] * segments + [longer] * (longer > 0)",
        """The blocks that are left over become one more segment. The caller gave the number of segments because memory
        holds that many inputs; this solution keeps one more.""",
    ),
    wrong_lengths(
        "all_rounded_up",
        "[min(-(-blocks // segments), rest) for rest in range(blocks, 0, -blocks // segments)]",
        """Every length is rounded up until no blocks are left. 9 blocks in 4 segments are then 3, 3 and 3: fewer
        segments than the caller gave, or a last segment that is much shorter than the others.""",
    ),
    KnownWrong(
        "blocks_of_the_last_segment",
        fails=("segments/cut", "segments/gradients", "segments/memory", "segments/ends"),
        read=SEGMENTS,
        explanation="""In forward each segment runs its own blocks, but in backward every segment runs the last
        segment's blocks again. A function that is made in a loop reads the loop's variables when it runs, and in
        backward the loop has ended. Make it in a function that takes start and end.""",
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
        explanation="""In backward no block runs again. A function that is made in a loop reads the loop's variables
        when it runs; in backward the loop has ended, and the segment's start is behind the last block. Make it in a
        function that takes start and end.""",
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
        "segments_run_on",
        fails=("segments/cut", "segments/gradients", "segments/ends"),
        read=SEGMENTS,
        explanation="""A segment does not end where the next segment begins: it runs all blocks up to the last. The next
        segment then runs its blocks again, so later blocks run several times in one forward pass. A segment is
        `blocks[start:end]`.""",
        change="""
-            for block in blocks[start:end]:
+            for block in blocks[start:]:
""",
    ),
    KnownWrong(
        "each_block_alone",
        fails=("segments/cut", "segments/memory", "segments/ends"),
        read=SEGMENTS,
        explanation="""Each block is checkpointed by itself, whatever the number of segments. This is right for one
        segment per block only; otherwise it keeps more inputs than the caller asked for. Checkpoint each segment as a
        whole.""",
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
        explanation="""Every segment gets the first input, and only the last segment's output is used. A segment's input
        is the output of the segment before it.""",
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
        explanation="""The last segment runs once and keeps all its tensors. Backward begins there and would recompute
        it first, and PyTorch's checkpoint_sequential keeps it too. But backward first frees the tensors that the loss
        keeps, which are large in a language model: a last segment that is not recomputed is in memory together with
        them.""",
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
        explanation="""Only the last segment runs again. That does not lower the peak: backward begins in the last
        segment and recomputes it while all segments before it still keep their tensors. Checkpoint every segment.""",
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
    KnownWrong(
        "single_blocks_plain",
        fails=("segments/ends",),
        read=SEGMENTS,
        explanation="""A segment of one block runs without checkpoint, so autograd keeps all its tensors. A block keeps
        much more inside than its input. Checkpoint every segment.""",
        change="""
-        x = checkpoint(run(start, start + length), x)
+        x = checkpoint(run(start, start + length), x) if length > 1 else blocks[start](x)
""",
    ),
    wrong_peak(
        "all_inputs_at_the_peak",
        "segments * boundary + lengths[0] * inside",
        """The result fits a peak of all segments' inputs and the longest segment's inside. These are never in memory at
        once: the longest segments come first, and when the first segment runs again, the inputs of the segments after
        it are gone.""",
    ),
    wrong_peak(
        "longest_rounded_down",
        "segments * boundary + layers // segments * inside",
        """The result fits a peak with layers // segments blocks in the segment that runs again, as in the last segment.
        If the division has a remainder, the first segments have one block more, and that block can take more memory
        than the inputs between the first segments and the last.""",
    ),
    wrong_peak(
        "fraction_of_a_block",
        "segments * boundary + layers / segments * inside",
        """The result fits a peak with layers / segments blocks in each segment, which may be a fraction. A segment has
        whole blocks, so the peak falls in steps, and the number of segments with the lowest peak is often another
        one.""",
    ),
    wrong_peak(
        "blocks_before_count",
        "max(sum(lengths[:i]) * boundary + length * inside for i, length in enumerate(lengths))",
        """The result fits a peak with an input for every block before the segment that runs again. Between forward and
        backward there is one input for each segment, not for each block.""",
    ),
    wrong_peak(
        "input_taken_out",
        "max(i * boundary + length * (inside - boundary) for i, length in enumerate(lengths))",
        """The result fits a peak at which the blocks of the segment that runs again keep their inside without their
        input. The input is in memory too, and `inside` includes it.""",
    ),
    wrong_peak(
        "input_on_top",
        "max(i * boundary + length * (inside + boundary) for i, length in enumerate(lengths))",
        """The result fits a peak at which each block of the segment that runs again keeps its input in addition to its
        inside. `inside` includes the input, so it is counted twice.""",
    ),
    wrong_best(
        "always_one_segment",
        "1",
        """The result is 1 for every model, as if each further segment only raised the peak. A further segment adds an
        input, but it also makes segments shorter, and only one segment's inside is in memory at a time.""",
    ),
    wrong_best(
        "blocks_per_segment",
        "segment_lengths(layers, min(range(1, layers + 1), key=peak))[0]",
        """The result is the number of blocks in a segment. Return the number of segments.""",
    ),
    wrong_best(
        "bytes_of_the_peak",
        "min(map(peak, range(1, layers + 1)))",
        """The result is the lowest peak in bytes. Return the number of segments that has this peak.""",
    ),
    *(
        wrong_best(
            f"always_the_root{suffix}",
            f"max(1, {rounded}(layers**0.5))",
            """The result is the square root of the number of layers, which is best only if a block keeps as much as
            its input. A transformer block keeps about 16 times its input, so more and shorter segments have a lower
            peak.""",
        )
        for suffix, rounded in ROUNDINGS.items()
    ),
    *(
        wrong_best(
            f"root_with_the_constant{suffix}",
            f"min(layers, max(1, {rounded}((layers * inside / boundary) ** 0.5)))",
            """The result is that of the formula that sets boundary * s equal to inside * L / s. It can be a few
            segments off: lengths are whole numbers, the inputs after a segment are gone, and a segment's own input is
            part of its inside.""",
        )
        for suffix, rounded in ROUNDINGS.items()
    ),
    wrong_best(
        "as_many_as_layers",
        "layers",
        """The result is one segment per layer. That is best for short models, because a block keeps much more than its
        input. In a deep model the inputs add up, and segments of two or three blocks have a lower peak.""",
    ),
    wrong_best(
        "never_as_many_as_layers",
        "min(range(1, layers), key=peak, default=1)",
        """The result is right unless one segment per layer is best: that number was not tried. range(1, layers) ends at
        layers - 1.""",
    ),
    wrong_best(
        "never_one_segment",
        "min(range(2, layers + 1), key=peak, default=1)",
        """The result is right unless one segment is best: that number was not tried. If a block keeps only its input,
        two layers have the same peak in one segment and in two.""",
    ),
    wrong_best(
        "largest_of_equals",
        "min(range(layers, 0, -1), key=peak)",
        """Of several numbers of segments with the same peak, this is the largest; return the smallest. Each further
        segment keeps one more input between forward and backward, without a lower peak.""",
    ),
    KnownWrong(
        "last_kept_first_used",
        fails=("keep_or_reuse/values", "keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""In the second call an operation gets the kept output of another operation. Backward goes from the
        last operation to the first, but the second call is a forward pass: it needs the outputs in the order in which
        the first call made them.""",
        change="""
-                return kept.pop(0)
+                return kept.pop()
""",
    ),
    KnownWrong(
        "keywords_dropped",
        fails=("keep_or_reuse/values", "keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation=WITHOUT_KEYWORDS,
        change="""
-                return func(*args, **(kwargs or {}))
+                return func(*args)
@@
-            output = func(*args, **(kwargs or {}))
+            output = func(*args)
""",
    ),
    KnownWrong(
        "one_list_for_all",
        fails=("keep_or_reuse/values",),
        read=KEEP,
        explanation="""All functions share one list of kept outputs, so a function can get the outputs of another. In a
        model all blocks run forward before the first block runs again. Make a new list for each function.""",
        change="""
-    kept: list[Tensor] = []
+    kept = globals().setdefault("KEPT", [])
""",
    ),
    KnownWrong(
        "keywords_of_kept_operations_dropped",
        fails=("keep_or_reuse/values",),
        read=KEEP,
        explanation=WITHOUT_KEYWORDS,
        change="""
-            output = func(*args, **(kwargs or {}))
+            output = func(*args)
""",
    ),
    KnownWrong(
        "everything_again",
        fails=("keep_or_reuse/values", "keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""Every operation runs in both calls, whatever `keep` contains. That is full recomputation: the
        matrix products, which take nearly all of the FLOPs, run twice.""",
        definitions="""
def keep_or_reuse(function, keep):
    return function
""",
    ),
    KnownWrong(
        "other_overloads_too",
        fails=("keep_or_reuse/runs",),
        read=KEEP,
        explanation="""Operators are compared without their overload, so `sum.dim_IntList` is kept where `keep` contains
        `sum.default`. Memory then holds outputs that the caller did not ask for. Test `func in keep`.""",
        change="""
-            if func not in keep:
+            if func.overloadpacket not in {one.overloadpacket for one in keep}:
""",
    ),
    KnownWrong(
        "computed_all_the_same",
        fails=("keep_or_reuse/runs",),
        read=KEEP,
        explanation="""In the second call an operation in `keep` gets its kept output and runs as well. This costs the
        memory of keeping the output and the time of computing it. Return the kept output without running the
        operation.""",
        change="""
             if again:
+                func(*args, **(kwargs or {}))
""",
    ),
    KnownWrong(
        "others_kept",
        fails=("keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""Operations in `keep` run twice and others once: the condition is reversed. The expensive
        operations then run twice.""",
        change="""
-            if func not in keep:
+            if func in keep or func not in (torch.ops.aten.addmm.default, torch.ops.aten.gelu.default):
""",
    ),
    KnownWrong(
        "every_output_kept",
        fails=("keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""The outputs of matrix products and GELUs are all kept, whatever `keep` contains. None of them
        runs twice, but more memory is used than the caller asked for.""",
        change="""
-            if func not in keep:
+            if func not in (torch.ops.aten.addmm.default, torch.ops.aten.gelu.default):
""",
    ),
    KnownWrong(
        "whole_result_kept",
        fails=("keep_or_reuse/runs", "keep_or_reuse/memory"),
        read=KEEP,
        explanation="""No operation runs in the second call: it returns the result of the first call. That keeps the
        function's output and no operation's output, so the second call has no tensors that autograd could keep for
        backward.""",
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
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""After the second call the kept outputs still exist. The function refers to them, and the graph
        refers to the function as long as the loss exists, so backward frees nothing. Remove each output when it is
        used.""",
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
        "inputs_cut_off",
        fails=("checkpoint_selective/gradients", "checkpoint_selective/released"),
        read="handbook/recomputation.md#state-that-the-second-run-needs",
        explanation="""The inputs are detached before the call, so backward ends there: the layers before get no
        gradient. `checkpoint` detaches the inputs of the second run itself, and passes their gradients on.""",
        change="""
-    return checkpoint(keep_or_reuse(function, keep), *inputs)
+    cut = [one.detach().requires_grad_(one.requires_grad) if isinstance(one, Tensor) else one for one in inputs]
+    return checkpoint(keep_or_reuse(function, keep), *cut)
""",
    ),
    KnownWrong(
        "keep_ignored",
        fails=("checkpoint_selective/runs", "checkpoint_selective/memory"),
        read=KEEP,
        explanation="""Every operation runs again, whatever `keep` contains. That is full recomputation: the matrix
        products, which take nearly all of the FLOPs, run twice.""",
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
        explanation="""In backward the operations in `keep` run again, and their outputs are kept once more, because the
        second run has no access to the outputs of the first. Both runs must go through the same function that
        keep_or_reuse returned.""",
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
        does not go through the function that keep_or_reuse returned. Pass that function to checkpoint, which then runs
        it twice.""",
        change="""
-    return checkpoint(keep_or_reuse(function, keep), *inputs)
+    return keep_or_reuse(lambda *values: checkpoint(function, *values), keep)(*inputs)
""",
    ),
    KnownWrong(
        "graph_in_the_kept_outputs",
        fails=("checkpoint_selective/released",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""If no backward follows, the kept outputs are never freed. Autograd attaches the graph of the
        first run to a kept output, and the graph refers to the function that keeps the output. Python's garbage
        collector does not find cycles through the graph. Keep detached outputs.""",
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
        explanation="""The layers after the current layer count as if they still kept their bytes from forward. Backward
        has passed them, so they keep nothing.""",
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
        explanation="""The current layer, if it is recomputed, counts with its inside and its boundary. Its input is
        part of its inside, so the input is counted twice.""",
        change="""
-        peak = max(peak, before + layer.inside)
+        peak = max(peak, before + layer.inside + (layer.boundary if place in recomputed else 0))
""",
    ),
    KnownWrong(
        "every_input_counted_twice",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The current layer counts with its inside and its boundary, recomputed or not. Its input is part
        of its inside, so the input is counted twice.""",
        change="""
-        peak = max(peak, before + layer.inside)
+        peak = max(peak, before + layer.inside + layer.boundary)
""",
    ),
    KnownWrong(
        "backward_from_the_first",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The bytes are added from the wrong end: the layers after the current layer count, and those
        before it do not. Backward begins at the last layer, when all layers before it still keep their bytes.""",
        change="""
-    for place, layer in enumerate(layers):
+    for place, layer in reversed([*enumerate(layers)]):
""",
    ),
    KnownWrong(
        "inputs_cost_nothing",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""A recomputed layer counts as if it kept nothing. It keeps its input. With every layer recomputed,
        these inputs are all that is kept between forward and backward, and over many layers they add up.""",
        change="""
-        before += layer.boundary if place in recomputed else layer.inside
+        before += 0 if place in recomputed else layer.inside
""",
    ),
    KnownWrong(
        "largest_always_comes_back",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The result is the bytes that all layers keep, plus the largest inside of a recomputed layer. That
        layer may be an early one: when backward reaches it, the layers after it keep nothing, and its own input is
        counted twice. With a peak that is too high, a plan recomputes layers that would fit.""",
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
        explanation="""The last layer does not count. Backward begins there: the last layer has its whole inside in
        memory, and all layers before it still keep their bytes.""",
        change="""
-    for place, layer in enumerate(layers):
+    for place, layer in enumerate(layers[:-1]):
""",
    ),
    KnownWrong(
        "nothing_comes_back",
        fails=("peak_bytes/peak",),
        read=BUDGET,
        explanation="""The result is the bytes that the layers keep between forward and backward. In backward a
        recomputed layer's inside is in memory again, in addition to the bytes of the layers before it.""",
        definitions="""
def peak_bytes(layers, recomputed):
    return sum(layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers))
""",
    ),
    KnownWrong(
        "no_layers_no_peak",
        fails=("peak_bytes/no-layers",),
        read=BUDGET,
        explanation="""max() of nothing raises a ValueError, so there is no peak without layers. Their peak is 0: start
        from 0, or pass `default=0` to max().""",
        definitions="""
def peak_bytes(layers, recomputed):
    peaks, before = [], 0
    for place, layer in enumerate(layers):
        peaks.append(before + layer.inside)
        before += layer.boundary if place in recomputed else layer.inside
    return max(peaks)
""",
    ),
    KnownWrong(
        "below_the_budget",
        fails=("plan/fits", "plan/cheapest"),
        read=BUDGET,
        explanation="""A plan whose peak equals the budget is rejected. "At most" includes the budget.""",
        change="""
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
+        if (best is None or flops < least) and peak_bytes(layers, places) < budget:
""",
    ),
    KnownWrong(
        "sum_for_the_peak",
        fails=("plan/fits", "plan/cheapest", "plan/refuses"),
        read=BUDGET,
        explanation="""A plan is accepted if the bytes that the layers keep between forward and backward are within the
        budget. In backward a recomputed layer's inside is in memory again, so the peak can be higher than that sum.
        Compare the peak with the budget.""",
        change="""
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
+        kept = sum(layer.boundary if place in places else layer.inside for place, layer in enumerate(layers))
+        if (best is None or flops < least) and kept <= budget:
""",
    ),
    KnownWrong(
        "no_recomputation_refused",
        fails=("plan/fits", "plan/cheapest", "plan/refuses"),
        read=BUDGET,
        explanation="""If everything fits without recomputation, plan raises a ValueError. The best plan is then an
        empty list, and `not []` is True, as `not None` is. Test `best is None`.""",
        change="""
-    if best is None:
+    if not best:
""",
    ),
    KnownWrong(
        "lowest_peak",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The plan has the lowest peak of all choices, whatever the budget is. Bytes below the budget have
        no use, and the plan recomputes more FLOPs for them. Of the choices that fit, take the one with the fewest
        FLOPs.""",
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
        "infinity_too_small",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The search for the fewest FLOPs begins with a number that is meant to be larger than that of any
        plan, such as 10**9. Large layers have more FLOPs, so no plan that fits is taken. Begin with None or
        math.inf.""",
        change="""
-    least = 0
+    least = 10**9
@@
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
+        if flops < least and peak_bytes(layers, places) <= budget:
""",
    ),
    KnownWrong(
        "all_or_nothing",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The plan recomputes either no layer or every layer. For nearly every budget in between, a choice
        of some layers recomputes fewer FLOPs. Try all choices.""",
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
        """The plan is that of a greedy rule: the layer that saves the most bytes per FLOP first, until the plan fits.
        It is close, but not always the least: the last layer taken may save far more than was still needed, and a
        layer's saving lowers the peak only in later layers. Try all choices.""",
    ),
    greedy_plan(
        "cheapest_first",
        "layer.flops",
        """The plan is that of a greedy rule: the layer with the fewest FLOPs first, until the plan fits. Cheap layers
        often save few bytes, so many of them are recomputed where one other layer is enough. Try all choices.""",
    ),
    KnownWrong(
        "fewest_layers",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The plan has the fewest layers that fit, not the fewest FLOPs. One expensive layer may cost more
        than three cheap ones.""",
        change="""
-        flops = sum(layers[place].flops for place in places)
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
-            best, least = places, flops
+        if (best is None or len(places) < least) and peak_bytes(layers, places) <= budget:
+            best, least = places, len(places)
""",
    ),
    KnownWrong(
        "cheapest_of_the_fewest_layers",
        fails=("plan/cheapest",),
        read=BUDGET,
        explanation="""The plan has the fewest layers that fit, and the fewest FLOPs only among these plans. One
        expensive layer may cost more than three cheap ones. Compare the FLOPs of all choices.""",
        change="""
-        flops = sum(layers[place].flops for place in places)
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
-            best, least = places, flops
+        rank = len(places), sum(layers[place].flops for place in places)
+        if (best is None or rank < least) and peak_bytes(layers, places) <= budget:
+            best, least = places, rank
""",
    ),
    greedy_plan(
        "largest_first",
        "layer.boundary - layer.inside",
        """The plan is that of a greedy rule: the layer that saves the most bytes first, until the plan fits. It ignores
        the layer's FLOPs, and several small savings may be cheaper. Try all choices.""",
    ),
    greedy_plan(
        "last_layers_first",
        "-place",
        """Layers are recomputed from the last to the first. Recomputing the last layer does not lower the peak:
        backward begins there, so its inside is in memory again at once, and its FLOPs are spent without need.""",
    ),
    KnownWrong(
        "no_layers_refused",
        fails=("plan/refuses",),
        read=BUDGET,
        explanation="""Without layers, plan raises a ValueError: its own, or that of max() or min() of nothing. There is
        one choice, to recompute nothing. Its peak of 0 bytes is within every budget, so the plan is an empty list.""",
        change="""
-    best: list[int] | None = None
+    largest = max(layer.inside for layer in layers)
+    best: list[int] | None = None
""",
    ),
    KnownWrong(
        "leanest_anyway",
        fails=("plan/refuses",),
        read=BUDGET,
        explanation="""If no choice fits, a plan is returned all the same. The run then starts and fails later for lack
        of memory. Raise a ValueError, which names the problem at once.""",
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
        "counts in train mode only": """
-            counts[place] += 1
+            counts[place] += module.training
""",
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
        "counts complete runs only": """
-    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
+    handles = [block.register_forward_hook(lambda *run, f=counter(n): f(*run[:2])) for n, block in enumerate(blocks)]
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
        "a third run draws on": """
         finally:
+            random_state.copy_(torch.get_rng_state())
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
