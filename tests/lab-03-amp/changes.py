"""Lab 03: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

STORED = "((nonzero * scale).to(dtype) == 0)"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), max_norm)"
FINITE = "parameter.grad.isfinite().all()"
TARGET = "one.to(target) if"
COPY = "            parameter.copy_(master)\n"
ADD = "    optimizer.step()\n    with torch.no_grad():\n"
ADD += "        for parameter, master in zip(model.parameters(), masters, strict=True):\n" + COPY
HURRIED = {
    "everything below 2**-24 is lost": ("share_lost", STORED, "((nonzero * scale).abs() < 2.0**-24)"),
    "a half of the last number is lost": ("share_lost", STORED, "((nonzero * scale).abs() < 2.0**-25)"),
    "positive gradients only": ("share_lost", "gradient[gradient != 0]", "gradient[gradient > 0]"),
    "the scale is in 16 bits": ("share_lost", "nonzero * scale", "nonzero * torch.tensor(scale).to(dtype)"),
    "infinite is lost too": ("share_lost", "== 0).sum()", "== 0).sum() + (nonzero * scale).to(dtype).isinf().sum()"),
    "a percentage": ("share_lost", "return lost / there", "return 100 * lost / there"),
    "scales the gradients themselves": ("share_lost", "(nonzero * scale)", "gradient.mul_(scale)[gradient != 0]"),
    "by way of fp16": ("cast_inputs", TARGET, "one.to(torch.float16).to(target) if"),
    "parameters are left out": (
        "cast_inputs",
        "isinstance(value, Tensor) and",
        "isinstance(value, Tensor) and not isinstance(value, nn.Parameter) and",
    ),
    "masks are cast": ("cast_inputs", "value.is_floating_point() and", "value.dtype != torch.int64 and"),
    "a new leaf": ("cast_inputs", TARGET, "one.detach().to(target).requires_grad_(one.requires_grad) if"),
    "two 16-bit formats promote to fp32": (
        "cast_inputs",
        "any(casts(one) and one.dtype == torch.float32 for one in args)",
        "len({one.dtype for one in args if casts(one)}) > 1",
    ),
    "the scale has an upper limit": (
        "update_scale",
        "return scale * 2.0, 0",
        "return min(scale * 2.0, 2.0**60), 0",
    ),
    "the scale never grows at an interval of 1": (
        "update_scale",
        "if good_steps + 1 == growth_interval:",
        "if good_steps and good_steps + 1 == growth_interval:",
    ),
    "never above 65536": ("update_scale", "scale * 2.0, 0", "min(65536.0, scale * 2.0), 0"),
    "never above 2**32": ("update_scale", "scale * 2.0, 0", "min(2.0**32, scale * 2.0), 0"),
    "never below fp16's smallest": ("update_scale", "scale * 0.5, 0", "max(scale * 0.5, 2.0**-24), 0"),
    "a tensor": ("update_scale", "return scale * 0.5, 0", "return torch.tensor(scale * 0.5), 0"),
    "counts in floats": ("update_scale", "good_steps + 1\n", "good_steps + 1.0\n"),
    "whole numbers": ("update_scale", "scale * 0.5, 0", "scale // 2, 0"),
    "overflow counts as one": ("update_scale", "scale * 0.5, 0", "scale * 0.5, 1"),
    "the generator passes once": (
        "unscale",
        "    finite = True\n",
        "    finite = all(bool(one.grad.isfinite().all()) for one in parameters if one.grad is not None)\n",
    ),
    "bad gradients go": (
        "unscale",
        "    return finite\n",
        "    for one in () if finite else parameters:\n        one.grad = None\n    return finite\n",
    ),
    "bad gradients become 0": (
        "unscale",
        "            finite = finite",
        "            if not parameter.grad.isfinite().all():\n"
        "                finite = bool(parameter.grad.zero_().any())\n"
        "            finite = finite",
    ),
    "the largest is below fp16's": ("unscale", FINITE, "(parameter.grad.abs() <= 65504).all()"),
    "finite in fp32": ("unscale", FINITE, "parameter.grad.float().isfinite().all()"),
    "mends nan on the way": ("unscale", ".div_(scale)", ".div_(scale).nan_to_num_()"),
    "swaps the memory": ("unscale", "parameter.grad.div_(scale)", "parameter.grad.data = parameter.grad / scale"),
    "asks the loss": ("scaled_step", "    if finite:", "    finite = bool(loss.isfinite())\n    if finite:"),
    "clips each tensor": ("scaled_step", CLIP, "[nn.utils.clip_grad_norm_([p], max_norm) for p in model.parameters()]"),
    "clips each number": ("scaled_step", CLIP, CLIP.replace("norm_(", "value_(")),
    "a 16-bit loss": ("scaled_step", "    (loss * scale)", "    loss = loss.to(low)\n    (loss * scale)"),
    "scaled in 16 bits": ("scaled_step", "(loss * scale)", "(loss.to(low) * scale).float()"),
    "forward in evaluation mode": (
        "scaled_step",
        "    with torch.autocast",
        "    model.eval()\n    model.register_forward_hook(lambda *_: model.train() and None)\n    with torch.autocast",
    ),
    "looks at the norm for nan": (
        "scaled_step",
        "    if finite:\n        " + CLIP,
        "    finite = not " + CLIP + ".isnan()\n    if finite:\n        pass",
    ),
    "the model becomes 16-bit": (
        "scaled_step",
        "    with torch.autocast",
        "    model.to(low)\n    with torch.autocast",
    ),
    "left in evaluation mode": ("scaled_step", "    (loss * scale)", "    model.eval()\n    (loss * scale)"),
    "always 65536": ("scaled_step", "(loss * scale)", "(loss * 65536.0)"),
    "the change is added": (
        "master_weights",
        ADD,
        "    old = [one.detach().clone() for one in masters]\n"
        + ADD.replace("masters, strict", "zip(masters, old), strict").replace(
            "copy_(master)", "add_(master[0] - master[1])"
        ),
    ),
    "cuts digits off instead of rounding": (
        "master_weights",
        "copy_(master)",
        "copy_((master.view(torch.int32) & -(2**16)).view(torch.float32))",
    ),
    "masters are rounded too": ("master_weights", COPY, COPY + "            master.copy_(parameter)\n"),
    "gradients by way of fp16": ("master_weights", "parameter.grad.float()", "parameter.grad.half().float()"),
    "one missing gradient skips all": (
        "master_weights",
        "    optimizer.step()\n    with torch.no_grad()",
        "    if all(one.grad is not None for one in masters):\n        optimizer.step()\n    with torch.no_grad()",
    ),
    "each gradient is clipped alone": (
        "scaled_step",
        "        nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n",
        "        for p in model.parameters():\n            nn.utils.clip_grad_norm_([p], max_norm)\n",
    ),
}

PAIR = "__import__('collections').namedtuple('Pair', ['scale', 'good_steps'])"

RIGHT = {
    "a named tuple": ("update_scale", "return scale, good_steps + 1", f"return {PAIR}(scale, good_steps + 1)"),
    "calls forward": ("scaled_step", "model(x)", "model.forward(x)"),
}

EQUIVALENT = {
    "neither needs the other": (
        "share_lost: swapped: lost += int(((nonzero * scale).to(dtype… | there += nonzero.numel()",
        "scaled_step: swapped: optimizer.zero_grad(set_to_none=True) | with torch.autocast('cpu', dtype=low):",
    ),
    "a power of two moves no finite gradient of a training run out of its range": (
        "unscale: swapped: parameter.grad.div_(scale) | finite = finite and bool(parameter.grad…",
    ),
    "it is the default": ("scaled_step: set_to_none left out: optimizer.zero_grad(set_to_none=True)",),
    "the masters are as many as the parameters": (
        "master_step: strict left out: zip(model.parameters(), masters, strict…",
    ),
}
