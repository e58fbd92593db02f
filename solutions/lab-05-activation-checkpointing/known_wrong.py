"""Known-wrong solutions of Lab 05, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "backward_counted",
        fails=("runs_per_block/counts",),
        read="handbook/memory.md#recompute-what-and-when",
        explanation="""A backward hook counts backward passes. A recomputed block runs forward twice and backward once,
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
        read="handbook/memory.md#how-many-segments",
        explanation="""One hook for all, made in a loop. A function looks up the loop's variable when it runs, and by
        then it is the last one: every run is counted for the last block.""",
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
        "forward_replaced",
        fails=("runs_per_block/removed",),
        read="labs/lab-05-activation-checkpointing.md#exercises",
        explanation="""Each block's forward is replaced by one that counts, and the old one is put back as an attribute
        of the block. That shadows the method of its class for good: the block is not what it was, and a change of the
        class no longer reaches it.""",
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
        explanation="""The hooks are never removed. Each later step goes on counting into a list that nobody reads, and
        each measurement adds more hooks: a slow leak in a long run.""",
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
        explanation="""The hooks are removed after the step, and a step that raises never gets there. Out of memory is
        an error like any other, and it is the one that people catch and go on from.""",
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
        "gradient_ignored",
        fails=("checkpoint/gradients", "checkpoint/frozen", "checkpoint/autocast"),
        read="handbook/backpropagation.md#slopes-multiply-along-a-path",
        explanation="""The second run is backpropagated from its sum, as if the loss's gradient by this output were 1
        everywhere. What arrives from the layers behind is thrown away: the chain rule is cut.""",
        change="""
-        torch.autograd.backward(output, gradient)
+        torch.autograd.backward(output, torch.ones_like(output))
""",
    ),
    KnownWrong(
        "inputs_not_detached",
        fails=("checkpoint/gradients", "checkpoint/memory", "checkpoint/saved"),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""The saved inputs are used as they are, still attached to the graph of the layers before. The
        second backward runs on through those, so they get their gradients there, and the inputs' own gradient is
        missing: the two passes trip over each other.""",
        change="""
-    inputs = [
-        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
-        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
-    ]
+    inputs = [next(tensors) if other is None else other[0] for other in ctx.others]
""",
    ),
    KnownWrong(
        "library_called",
        fails=(
            "checkpoint/gradients",
            "checkpoint/memory",
            "checkpoint/frozen",
            "checkpoint/saved",
            "checkpoint/autocast",
        ),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""PyTorch's own checkpoint is called. It is right, and on the job it is what you should call. Here
        it would prove that you can import: what a second run needs is what these three functions are to show.""",
        definitions="""
def checkpoint(function, *inputs):
    return torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)
""",
    ),
    KnownWrong(
        "no_grad_in_backward",
        fails=(
            "checkpoint/gradients",
            "checkpoint/memory",
            "checkpoint/saved",
            "checkpoint/frozen",
            "checkpoint/autocast",
        ),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Autograd runs backward with gradients off, and the second run is left in that mode. It makes no
        graph, so there is nothing to backpropagate through.""",
        change="""
-    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
+    with torch.autocast("cpu", **ctx.autocast):
@@
-    if output.requires_grad:
-        torch.autograd.backward(output, gradient)
+    torch.autograd.backward(output, gradient)
""",
    ),
    KnownWrong(
        "no_input_gradient",
        fails=("checkpoint/gradients",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Backward fills the gradients of the weights and returns None for the inputs. The layers before
        this one then get none, silently: in a stack of checkpointed blocks only the last one trains.""",
        change="""
-    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
+    return (None,) * len(inputs)
""",
    ),
    KnownWrong(
        "weights_forgotten",
        fails=("checkpoint/gradients", "checkpoint/frozen", "checkpoint/autocast"),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""torch.autograd.grad returns the gradients of what it is asked for, here the inputs, and touches
        no .grad. The weights of every checkpointed block go without, and the optimizer skips them.""",
        change="""
-    if output.requires_grad:
-        torch.autograd.backward(output, gradient)
-    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
+    asking = [one for one in inputs if isinstance(one, Tensor) and one.requires_grad]
+    found = iter(torch.autograd.grad(output, asking, gradient) if asking else ())
+    return tuple(next(found) if isinstance(one, Tensor) and one.requires_grad else None for one in inputs)
""",
    ),
    KnownWrong(
        "weights_of_a_module",
        fails=("checkpoint/gradients",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Gradients are asked for by name: of the inputs, and of function.parameters() if there are any. A
        lambda or a closure over several blocks has no parameters(), and the weights that it uses get nothing. Let
        torch.autograd.backward find them: it follows the graph.""",
        change="""
-    if output.requires_grad:
-        torch.autograd.backward(output, gradient)
-    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
+    weights = list(ctx.function.parameters()) if isinstance(ctx.function, nn.Module) else []
+    asking = [one for one in inputs if isinstance(one, Tensor) and one.requires_grad]
+    found = iter(torch.autograd.grad(output, [*asking, *weights], gradient))
+    answer = tuple(next(found) if isinstance(one, Tensor) and one.requires_grad else None for one in inputs)
+    for weight in weights:
+        gradient = next(found)
+        weight.grad = gradient if weight.grad is None else weight.grad + gradient
+    return answer
""",
    ),
    KnownWrong(
        "graph_kept",
        fails=("checkpoint/autocast", "checkpoint/frozen", "checkpoint/memory", "checkpoint/saved"),
        read="handbook/memory.md#recompute-what-and-when",
        explanation="""Forward runs with gradients on and its graph is kept for backward. Gradients are right, nothing
        runs twice, and every activation is still there: the memory that was to be saved is not.""",
        definitions="""
def checkpoint_forward(ctx, function, inputs):
    with torch.enable_grad():
        ctx.inputs = [
            one.detach().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one for one in inputs
        ]
        ctx.output = function(*ctx.inputs)
    return ctx.output.detach()


def checkpoint_backward(ctx, gradient):
    if ctx.output.requires_grad:
        torch.autograd.backward(ctx.output, gradient)
    return tuple(one.grad if isinstance(one, torch.Tensor) else None for one in ctx.inputs)
""",
    ),
    KnownWrong(
        "plain_call",
        fails=("checkpoint/autocast", "checkpoint/frozen", "checkpoint/memory"),
        read="handbook/memory.md#recompute-what-and-when",
        explanation="""The function is called as it is. Everything is right except the one thing that was asked for:
        autograd keeps all activations, and the block runs once.""",
        change="""
-    asks = torch.empty(0, requires_grad=True)
-    return Recompute.apply(function, asks, *inputs)  # type: ignore[no-any-return]
+    return function(*inputs)
""",
    ),
    KnownWrong(
        "runs_three_times",
        fails=("checkpoint/autocast", "checkpoint/frozen", "checkpoint/memory"),
        read="handbook/memory.md#recompute-what-and-when",
        explanation="""The second run keeps nothing either, so that it needs a third. Each level of nesting adds a run
        of everything inside it: memory falls no further, since the input is all that is kept already, and the time is
        paid twice.""",
        change="""
     torch.set_rng_state(ctx.random_state)
+    with torch.no_grad(), torch.autocast("cpu", **ctx.autocast):
+        ctx.function(*inputs)
+    torch.set_rng_state(ctx.random_state)
""",
    ),
    KnownWrong(
        "another_mask",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""The second run does not put the random generator back, so dropout draws another mask. The loss
        that was reported belongs to one network and the gradient to another: training goes on, only worse, and nothing
        says so.""",
        change="""
-    now = torch.get_rng_state()
-    torch.set_rng_state(ctx.random_state)
@@
-    torch.set_rng_state(now)
""",
    ),
    KnownWrong(
        "first_run_in_evaluation_mode",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The first run is taken for inference, since it keeps nothing, and switched to evaluation mode.
        Its loss is that of the model without dropout; the gradient is that of the model with it.""",
        change="""
-    return function(*inputs)
+    training = getattr(function, "training", None)
+    if training:
+        function.eval()
+    output = function(*inputs)
+    if training:
+        function.train()
+    return output
""",
    ),
    KnownWrong(
        "forked_in_forward",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""torch.random.fork_rng() surrounds the first run too. It puts the generator back when it ends, so
        what follows draws the numbers that this block has drawn: layers one after another drop the same places.""",
        change="""
-    return function(*inputs)
+    with torch.random.fork_rng(devices=[]):
+        return function(*inputs)
""",
    ),
    KnownWrong(
        "generator_left_behind",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""The generator is put back for the second run and then stays there. Whatever draws next repeats
        numbers that were used before: the masks of later layers in the same step, or of the next step, are no longer
        independent.""",
        change="""
-    now = torch.get_rng_state()
@@
-    torch.set_rng_state(now)
""",
    ),
    KnownWrong(
        "seeded_for_both_runs",
        fails=("checkpoint/dropout", "checkpoint/generator"),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Both runs are seeded with the same number, so their masks agree, and are the same in every step
        and every layer. Dropout that always drops the same places trains a smaller network, and every other draw of the
        program repeats too.""",
        change="""
     ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    torch.manual_seed(0)
@@
-    torch.set_rng_state(ctx.random_state)
+    torch.manual_seed(0)
""",
    ),
    KnownWrong(
        "everything_asks",
        fails=("checkpoint/inputs",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Every tensor is made to ask for a gradient in the second run. Indices and masks are no
        floating-point numbers and cannot, so the first block that takes one raises an error.""",
        change="""
-    inputs = [
-        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
-        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
-    ]
+    inputs = [next(tensors).detach().requires_grad_() if other is None else other[0] for other in ctx.others]
""",
    ),
    KnownWrong(
        "first_input_only",
        fails=("checkpoint/inputs",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Only the first input gets its gradient. It works for blocks of one tensor, and fails silently for
        the first block that takes two: cross-attention, a skip connection, rotary tables that are learned.""",
        change="""
-    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
+    tensors = [place for place, one in enumerate(inputs) if isinstance(one, Tensor) and one.requires_grad]
+    return tuple(one.grad if place in tensors[:1] else None for place, one in enumerate(inputs))
""",
    ),
    KnownWrong(
        "tensors_first",
        fails=("checkpoint/inputs",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Inputs are sorted into tensors and others, and handed to the second run in that order. A function
        that takes a number before a tensor gets them swapped.""",
        change="""
-        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
+        next(tensors).detach().requires_grad_(asks)
         for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
+        if other is None
     ]
+    inputs += [other[0] for other in ctx.others if other is not None]
""",
    ),
    KnownWrong(
        "nobody_asks",
        fails=("checkpoint/frozen",),
        read="labs/lab-05-activation-checkpointing.md#break-it",
        explanation="""Nothing is handed to Recompute.apply that asks for a gradient when the input does not. Behind a
        frozen embedding autograd then leaves the node out, and the weights inside never get a gradient. The loss simply
        stops falling.""",
        change="""
-    asks = torch.empty(0, requires_grad=True)
+    asks = torch.empty(0)
""",
    ),
    KnownWrong(
        "plain_when_nobody_asks",
        fails=("checkpoint/frozen",),
        read="labs/lab-05-activation-checkpointing.md#break-it",
        explanation="""When no input asks for a gradient, the function is called plainly. The gradients are right, since
        its weights ask, and so everything inside is kept: behind a frozen embedding the first block, or the whole
        model, saves nothing.""",
        change="""
+    if not any(isinstance(one, Tensor) and one.requires_grad for one in inputs):
+        return function(*inputs)
     asks = torch.empty(0, requires_grad=True)
""",
    ),
    KnownWrong(
        "kept_on_ctx",
        fails=("checkpoint/saved",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""The inputs become attributes of ctx and never pass through save_for_backward. They live as long
        as the loss does, hooks that offload or count saved tensors do not see them, and an input that is overwritten in
        place gives wrong gradients without an error.""",
        change="""
-    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
+    ctx.tensors = [one for one in inputs if isinstance(one, Tensor)]
@@
-    tensors = iter(ctx.saved_tensors)
+    tensors = iter(ctx.tensors)
""",
    ),
    KnownWrong(
        "autocast_forgotten",
        fails=("checkpoint/autocast",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Backward is called outside autocast, as it should be, so the second run is in fp32 although the
        first was in bf16. The gradient is that of another computation, and the second run takes the memory and time of
        fp32.""",
        change="""
-    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
+    with torch.enable_grad():
""",
    ),
    KnownWrong(
        "autocast_without_its_dtype",
        fails=("checkpoint/autocast",),
        read="handbook/memory.md#what-the-second-run-needs",
        explanation="""Whether autocast was on is kept, but not what to. On the CPU it then takes bfloat16, so a forward
        pass in float16 gets a second run in bfloat16: other numbers, and other gradients.""",
        change="""
-    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu")}
""",
    ),
    KnownWrong(
        "blocks_of_the_last_segment",
        fails=("segments/cut", "segments/gradients", "segments/ends"),
        read="handbook/memory.md#how-many-segments",
        explanation="""The function made in the loop looks up `part` when it runs. In forward that is its own segment,
        but in backward the loop is over and `part` is the last: every segment recomputes the last one's blocks. The
        loss is right and nearly all gradients are wrong.""",
        definitions="""
def checkpoint_segments(blocks, x, segments):
    short, longer = divmod(len(blocks), segments)
    start = 0
    for place in range(segments):
        end = start + short + (place < longer)
        part = blocks[start:end]

        def segment(x):
            for block in part:  # noqa: B023
                x = block(x)
            return x

        x = checkpoint(segment, x)
        start = end
    return x
""",
    ),
    KnownWrong(
        "closure_sees_the_end",
        fails=("segments/cut", "segments/gradients", "segments/ends"),
        read="labs/lab-05-activation-checkpointing.md#segments",
        explanation="""The function made in the loop looks start and end up when it runs. In backward it runs after the
        loop, where both are the number of blocks: no block runs again, and the gradient passes each segment as if it
        were not there.""",
        definitions="""
def checkpoint_segments(blocks, x, segments):
    short, longer = divmod(len(blocks), segments)
    start = 0
    for place in range(segments):
        end = start + short + (place < longer)

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
        read="handbook/memory.md#how-many-segments",
        explanation="""Each block is checkpointed alone, whatever number of segments was asked for. That is one good
        policy among several, and it keeps one input a block.""",
        definitions="""
def checkpoint_segments(blocks, x, segments):
    for block in blocks:
        x = checkpoint(block, x)
    return x
""",
    ),
    KnownWrong(
        "last_segment_kept",
        fails=("segments/cut", "segments/memory", "segments/ends"),
        read="handbook/memory.md#how-many-segments",
        explanation="""The last segment runs plainly, because backward begins there and would recompute it at once.
        PyTorch's checkpoint_sequential does so. But between the two runs backward frees what the loss keeps, and in a
        language model that is a lot: keeping the last segment holds both at once.""",
        change="""
-        x = checkpoint(run(start, end), x)
+        x = checkpoint(run(start, end), x) if place < segments - 1 else run(start, end)(x)
""",
    ),
    KnownWrong(
        "longer_segments_last",
        fails=("segments/cut",),
        read="handbook/memory.md#how-many-segments",
        explanation="""The lengths are right and their order is not. The last segment peaks on top of the inputs of all
        others, so it should be a short one.""",
        change="""
-        end = start + short + (place < longer)
+        end = start + short + (place >= segments - longer)
""",
    ),
    KnownWrong(
        "nested_twice",
        fails=("segments/cut", "segments/ends"),
        read="handbook/memory.md#how-many-segments",
        explanation="""The segments are checkpointed, and each block inside as well. A block then runs three times: for
        the loss, for the segment's second run, and for its own. The peak is lower, the price twice as high, and two
        runs were agreed on.""",
        change="""
-                x = block(x)
+                x = checkpoint(block, x)
""",
    ),
    KnownWrong(
        "only_the_last_recomputed",
        fails=("segments/cut", "segments/memory", "segments/ends"),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""Only the last segment is checkpointed, the one next to the loss. It is the one place where
        nothing is saved at the peak: backward begins there, and recomputes it while everything before it is still
        kept.""",
        change="""
-        x = checkpoint(run(start, end), x)
+        last = place == segments - 1 and segments > 1
+        x = checkpoint(run(start, end), x) if last else run(start, end)(x)
""",
    ),
    KnownWrong(
        "remainder_dropped",
        fails=("segments/cut", "segments/gradients"),
        read="handbook/memory.md#how-many-segments",
        explanation="""Every segment gets len(blocks) // segments blocks, and the blocks that are left over never run.
        The model is shallower than its configuration says, and those weights have no gradient.""",
        change="""
-    short, longer = divmod(len(blocks), segments)
-    start = 0
+    size = len(blocks) // segments
     for place in range(segments):
-        end = start + short + (place < longer)
-        x = checkpoint(run(start, end), x)
-        start = end
+        x = checkpoint(run(place * size, (place + 1) * size), x)
""",
    ),
    KnownWrong(
        "remainder_in_one_more",
        fails=("segments/cut", "segments/memory"),
        read="handbook/memory.md#how-many-segments",
        explanation="""Segments of len(blocks) // segments blocks, and what is left over becomes one more segment.
        Somebody asked for so many segments because so many inputs fit; this keeps another.""",
        change="""
-    short, longer = divmod(len(blocks), segments)
-    start = 0
-    for place in range(segments):
-        end = start + short + (place < longer)
-        x = checkpoint(run(start, end), x)
-        start = end
+    size = len(blocks) // segments
+    for start in range(0, len(blocks), size):
+        x = checkpoint(run(start, start + size), x)
""",
    ),
    KnownWrong(
        "remainder_in_the_last",
        fails=("segments/cut",),
        read="handbook/memory.md#how-many-segments",
        explanation="""The last segment takes all that is left over. It can be nearly twice as long as the others, and
        it runs again when the inputs of all segments are still there: the peak is the highest possible.""",
        change="""
-    short, longer = divmod(len(blocks), segments)
-    start = 0
+    size = len(blocks) // segments
     for place in range(segments):
-        end = start + short + (place < longer)
-        x = checkpoint(run(start, end), x)
-        start = end
+        x = checkpoint(run(place * size, len(blocks) if place == segments - 1 else (place + 1) * size), x)
""",
    ),
    KnownWrong(
        "all_inputs_at_the_peak",
        fails=("segments/best",),
        read="handbook/memory.md#how-many-segments",
        explanation="""The peak is taken as all segments' inputs and the longest segment's inside. They never meet: the
        longest comes first, and when it runs again the inputs of those behind it are gone.""",
        definitions="""
def best_segments(layers, boundary, inside):
    return min(range(1, layers + 1), key=lambda segments: segments * boundary + -(-layers // segments) * inside)
""",
    ),
    KnownWrong(
        "always_the_root",
        fails=("segments/best",),
        read="handbook/memory.md#how-many-segments",
        explanation="""The square root of the number of layers is best only where a block keeps as much as its input. A
        transformer block keeps about 16 times its input, and then more, shorter segments have the lower peak.""",
        definitions="""
import math


def best_segments(layers, boundary, inside):
    return max(1, round(math.sqrt(layers)))
""",
    ),
    KnownWrong(
        "as_many_as_layers",
        fails=("segments/best",),
        read="handbook/memory.md#how-many-segments",
        explanation="""A segment a layer, because a block keeps so much more than its input. True of short models. In a
        deep one the inputs add up, and segments of two or three have the lower peak.""",
        definitions="""
def best_segments(layers, boundary, inside):
    return layers
""",
    ),
    KnownWrong(
        "largest_of_equals",
        fails=("segments/best",),
        read="handbook/memory.md#how-many-segments",
        explanation="""Of several numbers of segments with the same peak this takes the largest. Each segment is one
        more node and one more input between forward and backward, for nothing.""",
        change="""
-    return min(range(1, layers + 1), key=peak)
+    return min(range(layers, 0, -1), key=peak)
""",
    ),
    KnownWrong(
        "root_with_the_constant",
        fails=("segments/best",),
        read="handbook/memory.md#how-many-segments",
        explanation="""The formula that sets boundary * s equal to inside * L / s and rounds. It is the right idea and a
        few segments off: lengths are whole numbers, the inputs behind a segment are gone, and its own input counts as
        its inside.""",
        definitions="""
import math


def best_segments(layers, boundary, inside):
    return min(layers, max(1, round(math.sqrt(layers * inside / boundary))))
""",
    ),
    KnownWrong(
        "last_kept_first_used",
        fails=("checkpoint_selective/gradients", "checkpoint_selective/runs", "checkpoint_selective/memory"),
        read="handbook/memory.md#keep-what-is-dear",
        explanation="""The kept outputs are taken from the end of the list. Backward goes from the last operation to the
        first, but the second run is a forward pass: it asks for the first output first.""",
        change="""
-                return kept.pop(0).detach()
+                return kept.pop().detach()
""",
    ),
    KnownWrong(
        "computed_all_the_same",
        fails=("checkpoint_selective/runs",),
        read="handbook/memory.md#keep-what-is-dear",
        explanation="""The second run takes the kept output off the list, and computes it as well. The memory is spent
        and the time is too.""",
        change="""
             if again:
+                func(*args, **(kwargs or {}))
""",
    ),
    KnownWrong(
        "every_output_kept",
        fails=("checkpoint_selective/runs", "checkpoint_selective/memory"),
        read="handbook/memory.md#keep-what-is-dear",
        explanation="""Every operation's output is kept, whatever `keep` says. Nothing is computed twice, and more is
        kept than without checkpointing: outputs that no derivative reads, too.""",
        change="""
-            if func not in keep:
-                return func(*args, **(kwargs or {}))
-            if again:
-                return kept.pop(0).detach()
-            kept.append(func(*args, **(kwargs or {})))
-            return kept[-1]
+            if func is torch.ops.aten.addmm.default or func is torch.ops.aten.gelu.default:
+                if again:
+                    return kept.pop(0).detach()
+                kept.append(func(*args, **(kwargs or {})))
+                return kept[-1]
+            return func(*args, **(kwargs or {}))
""",
    ),
    KnownWrong(
        "everything_again",
        fails=("checkpoint_selective/runs", "checkpoint_selective/memory"),
        read="handbook/memory.md#keep-what-is-dear",
        explanation="""`keep` is not looked at: everything runs again. That is full recomputation, with the matrix
        products, which are nearly all of the FLOPs, done twice.""",
        definitions="""
def checkpoint_selective(function, *inputs, keep):
    return checkpoint(function, *inputs)
""",
    ),
    KnownWrong(
        "others_kept",
        fails=("checkpoint_selective/runs", "checkpoint_selective/memory"),
        read="handbook/memory.md#keep-what-is-dear",
        explanation="""The condition is the wrong way round: what is not in `keep` is kept, and what is in it runs
        again. The policy is turned into its opposite, with the dear operations done twice.""",
        change="""
-            if func not in keep:
+            if func in keep or func not in (torch.ops.aten.addmm.default, torch.ops.aten.gelu.default):
""",
    ),
    KnownWrong(
        "kept_for_good",
        fails=("checkpoint_selective/released",),
        read="handbook/backpropagation.md#who-holds-the-graph",
        explanation="""The kept outputs are read by their number and stay in the list. The list lives in the function,
        the function in the node, and the node as long as somebody holds the loss: backward has passed and frees
        nothing.""",
        change="""
     again = False
+    reused = 0
@@
-                return kept.pop(0).detach()
+                nonlocal reused
+                reused += 1
+                return kept[reused - 1].detach()
""",
    ),
    KnownWrong(
        "input_counted_twice",
        fails=("plan/peak",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""A recomputed layer at work is charged its inside and its boundary. Its input is part of its
        inside, and the same memory: it is counted twice.""",
        change="""
-        peak = max(peak, before + layer.inside)
+        peak = max(peak, before + layer.inside + (layer.boundary if place in recomputed else 0))
""",
    ),
    KnownWrong(
        "inputs_cost_nothing",
        fails=("plan/peak",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""A recomputed layer is taken to keep nothing. It keeps its input: of many layers that adds up, and
        is all there is between forward and backward when everything is recomputed.""",
        change="""
-        before += layer.boundary if place in recomputed else layer.inside
+        before += 0 if place in recomputed else layer.inside
""",
    ),
    KnownWrong(
        "largest_always_comes_back",
        fails=("plan/peak",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""What all layers keep, and the largest recomputed inside on top. The largest may be an early
        layer: when backward reaches it, those behind it are gone, and its own input counts twice. Too careful a bound
        recomputes layers that would fit.""",
        definitions="""
def peak_bytes(layers, recomputed):
    kept = sum(layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers))
    return kept + max((layers[place].inside for place in recomputed), default=0)
""",
    ),
    KnownWrong(
        "last_layer_missed",
        fails=("plan/peak",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""The peak is looked for before each layer and not after the last. That is where backward begins:
        the last layer at work, and everything before it still there.""",
        change="""
-    for place, layer in enumerate(layers):
+    for place, layer in enumerate(layers[:-1]):
""",
    ),
    KnownWrong(
        "nothing_comes_back",
        fails=("plan/peak",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""The peak is taken as what the layers keep between forward and backward. In backward a recomputed
        layer's inside comes back while it works, on top of all that is kept before it.""",
        definitions="""
def peak_bytes(layers, recomputed):
    return sum(layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers))
""",
    ),
    KnownWrong(
        "below_the_budget",
        fails=("plan/fits", "plan/cheapest"),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""A plan whose peak is exactly the budget is turned down. At most means that it fits; the last
        choice that does is lost, and with it a budget that only this choice meets.""",
        change="""
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
+        if (best is None or flops < least) and peak_bytes(layers, places) < budget:
""",
    ),
    KnownWrong(
        "all_or_nothing",
        fails=("plan/cheapest",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""If it does not fit, everything is recomputed: one switch, as many trainers have it. Nearly every
        budget between the two is met by fewer FLOPs.""",
        definitions="""
def plan(layers, budget):
    for places in ([], list(range(len(layers)))):
        if peak_bytes(layers, places) <= budget:
            return places
    raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
""",
    ),
    KnownWrong(
        "best_ratio_first",
        fails=("plan/cheapest",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""Greedy: the most bytes a FLOP first, until it fits. Close, and not the least: the last layer
        taken may save far more than was still needed, and a layer's saving counts only where the peak is behind it.""",
        definitions="""
def ratio(layer):
    return layer.flops / (layer.inside - layer.boundary)


def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: ratio(layers[place])):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
""",
    ),
    KnownWrong(
        "cheapest_first",
        fails=("plan/cheapest",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""Greedy: the layer with the fewest FLOPs first, until it fits. Cheap layers often save little, so
        many of them are recomputed where one would have done.""",
        definitions="""
def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: layers[place].flops):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
""",
    ),
    KnownWrong(
        "fewest_layers",
        fails=("plan/cheapest",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""The fewest layers that fit, instead of the fewest FLOPs. One dear layer may cost more than three
        cheap ones.""",
        change="""
-        flops = sum(layers[place].flops for place in places)
-        if (best is None or flops < least) and peak_bytes(layers, places) <= budget:
-            best, least = places, flops
+        if (best is None or len(places) < least) and peak_bytes(layers, places) <= budget:
+            best, least = places, len(places)
""",
    ),
    KnownWrong(
        "largest_first",
        fails=("plan/cheapest",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""Greedy: the layer that saves the most bytes first, until it fits. It overlooks what the layer
        costs, and that several small savings may be cheaper.""",
        definitions="""
def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: layers[place].boundary - layers[place].inside):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
""",
    ),
    KnownWrong(
        "last_layers_first",
        fails=("plan/cheapest",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""Layers are recomputed from the last backwards. The last saves nothing at the peak, because
        backward begins with it: the FLOPs are spent and the bytes come back at once.""",
        definitions="""
def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: -place):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
""",
    ),
    KnownWrong(
        "leanest_anyway",
        fails=("plan/refuses",),
        read="handbook/memory.md#down-to-a-budget",
        explanation="""When nothing fits, the leanest choice comes back as if it did. The run starts, and dies an hour
        later where a sentence now would have said so.""",
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
        "counts runs with gradients only": """
-            counts[place] += 1
+            counts[place] += torch.is_grad_enabled()
""",
        "warms up first": """
         step()
+        step()
""",
        "a hook on every module, left": """

+    nn.modules.module.register_module_forward_pre_hook(lambda *_: None)
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
    "checkpoint": {
        "keeps the first tensor": """
-    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
+    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)][:1])
""",
        "clones the inputs": """
-    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
+    ctx.save_for_backward(*[one.clone() for one in inputs if isinstance(one, Tensor)])
""",
        "clears gradients before it backpropagates": """
     if output.requires_grad:
+        if isinstance(ctx.function, nn.Module):
+            ctx.function.zero_grad()
""",
        "autocast of a GPU": """
-    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
+    ctx.autocast = {"enabled": torch.is_autocast_enabled(), "dtype": torch.get_autocast_dtype("cpu")}
""",
        "state taken after the run": """
+    first = function(*inputs)
     ctx.random_state = torch.get_rng_state()
+    return first
""",
        "scales by the mean": """
-        torch.autograd.backward(output, gradient)
+        torch.autograd.backward(output, gradient / gradient.numel())
""",
        "second run in float32": """
-        output = ctx.function(*inputs)
+        output = ctx.function(*inputs).float().double()
""",
        "always under bf16": """
-    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
+    with torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
""",
        "returns gradients of tensors only": """
-    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
+    return tuple(one.grad for one in inputs if isinstance(one, Tensor))
""",
        "the first input gets none": """
-    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
+    return tuple(None if not isinstance(one, Tensor) or one is inputs[0] else one.grad for one in inputs)
""",
        "the output is kept": """
-    return function(*inputs)
+    ctx.output = function(*inputs) * 1
+    return ctx.output
""",
        "checkpoints when the input asks only": """
+    if not any(isinstance(one, Tensor) and one.requires_grad for one in inputs):
+        with torch.no_grad():
+            return function(*inputs)
     asks = torch.empty(0, requires_grad=True)
""",
    },
    "segments": {
        "first segment is plain": """
-        x = checkpoint(run(start, end), x)
+        x = run(start, end)(x) if place == 0 else checkpoint(run(start, end), x)
""",
        "rounds the length up": """
-        end = start + short + (place < longer)
+        end = start + short + (longer > 0)
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
-        return max(before * boundary + (short + (before < longer)) * inside for before in range(segments))
+        return max(before * boundary + (short + (before < longer)) * inside for before in range(1))
""",
        "last segment is the fullest": """
-        return max(before * boundary + (short + (before < longer)) * inside for before in range(segments))
+        return max(before * boundary + (short + (before < longer)) * inside for before in [segments - 1])
""",
        "one of two segments at most": """
-    return min(range(1, layers + 1), key=peak)
+    return min(range(1, layers // 2 + 2), key=peak)
""",
    },
    "checkpoint_selective": {
        "hands out the first one again": """
-                return kept.pop(0).detach()
+                return kept[0].detach()
""",
        "one list for all calls": """
-    kept: list[Tensor] = []
+    kept = globals().setdefault('KEPT', [])
""",
        "first operation of a kind only": """
-            if func not in keep:
+            if func not in keep or (not again and len(kept) > 2):
""",
        "stays under no_grad": """
-            output = function(*inputs)
+            output = function(*inputs).detach()
""",
    },
    "plan": {
        "leaves out the dearest while it fits": """
     best: list[int] | None = None
+    chosen = list(range(len(layers)))
+    for place in sorted(chosen, key=lambda place: -layers[place].flops):
+        if peak_bytes(layers, [one for one in chosen if one != place]) <= budget:
+            chosen.remove(place)
+    if peak_bytes(layers, chosen) <= budget:
+        return chosen
""",
        "peak of the last layer": """
-        peak = max(peak, before + layer.inside)
+        peak = before + layer.inside
""",
        "saved bytes taken for the peak": """
-        peak = max(peak, before + layer.inside)
+        peak = before + layer.boundary
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
