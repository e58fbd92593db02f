"""Changes to the reference solution, for tests/test_changes.py."""

RUN = "        output = ctx.function(*inputs)\n"
SAVE = "    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])\n"
BACKWARD = "        torch.autograd.backward(output, gradient)\n"
STATE = "    ctx.random_state = torch.get_rng_state()\n"
ENTER = "    with torch.enable_grad(), torch.autocast"
SEGMENT = "        x = checkpoint(run(start, end), x)\n"
PEAK = "        peak = max(peak, before + layer.inside)\n"

HURRIED = {
    "counts runs with gradients only": (
        "runs_per_block",
        "            counts[place] += 1",
        "            counts[place] += torch.is_grad_enabled()",
    ),
    "warms up first": ("runs_per_block", "    try:\n        step()", "    try:\n        step()\n        step()"),
    "a hook on every module, left": (
        "runs_per_block",
        "handles = [block.register_forward_pre_hook",
        "nn.modules.module.register_module_forward_pre_hook(lambda *_: None)\n"
        "    handles = [block.register_forward_pre_hook",
    ),
    "removes other hooks too": (
        "runs_per_block",
        "        for handle in handles:\n            handle.remove()",
        "        for block in blocks:\n            block._forward_pre_hooks.clear()",
    ),
    "swallows the error": ("runs_per_block", "    finally:\n", "    except Exception:\n        pass\n    finally:\n"),
    "counts after the run": (
        "runs_per_block",
        "    return counts\n    ### END",
        "    return [max(1, count) for count in counts]\n    ### END",
    ),
    "keeps the first tensor": (
        "checkpoint",
        "if isinstance(one, Tensor)])",
        "if isinstance(one, Tensor)][:1])",
    ),
    "clones the inputs": ("checkpoint", "[one for one in inputs if", "[one.clone() for one in inputs if"),
    "clears gradients before it backpropagates": (
        "checkpoint",
        BACKWARD,
        "        if isinstance(ctx.function, nn.Module):\n            ctx.function.zero_grad()\n" + BACKWARD,
    ),
    "autocast of a GPU": ("checkpoint", 'torch.is_autocast_enabled("cpu")', "torch.is_autocast_enabled()"),
    "state taken after the run": (
        "checkpoint",
        STATE,
        "    first = function(*inputs)\n    ctx.random_state = torch.get_rng_state()\n    return first\n",
    ),
    "scales by the mean": (
        "checkpoint",
        BACKWARD,
        "        torch.autograd.backward(output, gradient / gradient.numel())\n",
    ),
    "second run in float32": (
        "checkpoint",
        RUN,
        "        output = ctx.function(*inputs).float().double()\n",
    ),
    "always under bf16": ("checkpoint", '"cpu", **ctx.autocast', '"cpu", dtype=torch.bfloat16'),
    "returns gradients of tensors only": (
        "checkpoint",
        "tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)",
        "tuple(one.grad for one in inputs if isinstance(one, Tensor))",
    ),
    "the first input gets none": (
        "checkpoint",
        "tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)",
        "tuple(None if not isinstance(one, Tensor) or one is inputs[0] else one.grad for one in inputs)",
    ),
    "the output is kept": (
        "checkpoint",
        "    return function(*inputs)\n",
        "    ctx.output = function(*inputs) * 1\n    return ctx.output\n",
    ),
    "checkpoints when the input asks only": (
        "checkpoint",
        "    asks = torch",
        "    if not any(isinstance(one, Tensor) and one.requires_grad for one in inputs):\n"
        "        with torch.no_grad():\n            return function(*inputs)\n    asks = torch",
    ),
    "first segment is plain": (
        "segments",
        SEGMENT,
        "        x = run(start, end)(x) if place == 0 else checkpoint(run(start, end), x)\n",
    ),
    "rounds the length up": ("segments", "(place < longer)", "(longer > 0)"),
    "blocks are checkpointed inside": (
        "segments",
        "                x = block(x)",
        "                x = checkpoint(block, x)",
    ),
    "blocks in the wrong order": ("segments", "in blocks[start:end]", "in reversed(blocks[start:end])"),
    "first segment is the fullest": ("segments", "for before in range(segments))", "for before in range(1))"),
    "last segment is the fullest": (
        "segments",
        "for before in range(segments))",
        "for before in range(segments - 1, segments))",
    ),
    "one of two segments at most": ("segments", "range(1, layers + 1)", "range(1, layers // 2 + 2)"),
    "hands out the first one again": ("checkpoint_selective", "kept.pop(0).detach()", "kept[0].detach()"),
    "one list for all calls": (
        "checkpoint_selective",
        "    kept: list[Tensor] = []\n",
        "    kept = globals().setdefault('KEPT', [])\n",
    ),
    "first operation of a kind only": (
        "checkpoint_selective",
        "            if func not in keep:",
        "            if func not in keep or (not again and len(kept) > 2):",
    ),
    "stays under no_grad": (
        "checkpoint_selective",
        "            output = function(*inputs)",
        "            output = function(*inputs).detach()",
    ),
    "leaves out the dearest while it fits": (
        "plan",
        "    best: list[int] | None = None\n",
        "    best: list[int] | None = None\n    chosen = list(range(len(layers)))\n"
        "    for place in sorted(chosen, key=lambda place: -layers[place].flops):\n"
        "        if peak_bytes(layers, [one for one in chosen if one != place]) <= budget:\n"
        "            chosen.remove(place)\n"
        "    if peak_bytes(layers, chosen) <= budget:\n        return chosen\n",
    ),
    "peak of the last layer": ("plan", PEAK, "        peak = before + layer.inside\n"),
    "saved bytes taken for the peak": ("plan", PEAK, "        peak = before + layer.boundary\n"),
    "never the first layer": ("plan", "range(2 ** len(layers))", "range(0, 2 ** len(layers), 2)"),
    "never all layers": ("plan", "range(2 ** len(layers))", "range(2 ** len(layers) - 1)"),
    "places from the last": ("plan", "choice >> place & 1]", "choice >> place & 1][::-1]"),
    "an empty plan for a hopeless budget": (
        "plan",
        '        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")',
        "        return []",
    ),
    "fewer places first": (
        "plan",
        "    for choice in range(2 ** len(layers)):\n",
        "    for choice in sorted(range(2 ** len(layers)), key=int.bit_count):\n"
        "        if best is not None and choice.bit_count() > len(best):\n            break\n",
    ),
}

EQUIVALENT = {
    "attributes of ctx may be set in any order": (
        "checkpoint_forward: swapped: ctx.function = function | ctx.others = [None if isinstance(one, T…",
        "checkpoint_forward: swapped: ctx.others = [None if isinstance(one, T… | ctx.save_for_backward(*[one for one in …",  # noqa: E501
        "checkpoint_forward: swapped: ctx.save_for_backward(*[one for one in … | ctx.random_state = torch.get_rng_state()",  # noqa: E501
        "checkpoint_forward: swapped: ctx.random_state = torch.get_rng_state() | ctx.autocast = {'enabled': torch.is_aut…",  # noqa: E501
    ),
    "neither draws a random number": (
        "checkpoint_backward: swapped: inputs = [next(tensors).detach().requir… | now = torch.get_rng_state()",
        "checkpoint_backward: swapped: torch.set_rng_state(now) | if output.requires_grad:",
    ),
    "two lists of equal length": ("checkpoint_backward: strict left out: zip(ctx.others, ctx.needs_input_grad[2:…",),
    "neither reads the other": (
        "checkpoint_segments: swapped: short, longer = divmod(len(blocks), seg… | start = 0",
        "checkpoint_selective: swapped: kept: list[Tensor] = [] | again = False",
        "plan: swapped: best: list[int] | None = None | least = 0",
    ),
    "a declaration may stand anywhere before the assignment": (
        "checkpoint_selective: swapped: nonlocal again | with KeepOrReuse():",
    ),
    "the first choice that fits sets it": (
        "plan: left out: least = 0",
        "plan: swapped: least = 0 | for choice in range(2 ** len(layers)):",
    ),
    "no two choices cost the same": ("plan: comparison turned: flops < least",),
}
