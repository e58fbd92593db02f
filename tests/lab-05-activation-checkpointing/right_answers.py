"""Right answers to Lab 05 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT: dict[str, dict[str, str]] = {}

EQUIVALENT = {
    "attributes of ctx may be set in any order": (
        "checkpoint_forward: swapped: ctx.function = function | ctx.others = [None if isinstance(one, T…",
        "checkpoint_forward: swapped: ctx.others = [None if isinstance(one, T… | ctx.save_for_backward(*[one for one in …",  # noqa: E501
        "checkpoint_forward: swapped: ctx.save_for_backward(*[one for one in … | ctx.random_state = torch.get_rng_state()",  # noqa: E501
        "checkpoint_forward: swapped: ctx.random_state = torch.get_rng_state() | ctx.autocast = {'enabled': torch.is_aut…",  # noqa: E501
    ),
    "these statements draw no random numbers": (
        "checkpoint_backward: swapped: inputs = [next(tensors).detach().requir… | now = torch.get_rng_state()",
        "checkpoint_backward: swapped: torch.set_rng_state(now) | if output.requires_grad:",
    ),
    "two lists of equal length": ("checkpoint_backward: strict left out: zip(ctx.others, ctx.needs_input_grad[2:…",),
    "the two statements are independent": (
        "checkpoint_segments: swapped: short, longer = divmod(len(blocks), seg… | start = 0",
        "checkpoint_selective: swapped: kept: list[Tensor] = [] | again = False",
        "plan: swapped: best: list[int] | None = None | least = 0",
    ),
    "a declaration may stand anywhere before the assignment": (
        "checkpoint_selective: swapped: nonlocal again | with KeepOrReuse():",
    ),
    "the first choice that fits sets the variable": (
        "plan: left out: least = 0",
        "plan: swapped: least = 0 | for choice in range(2 ** len(layers)):",
    ),
    "no two choices cost the same": ("plan: comparison replaced: flops < least",),
}
