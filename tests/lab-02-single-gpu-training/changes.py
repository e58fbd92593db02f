"""Lab 02: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

LOSS = "F.cross_entropy(model(x).flatten(0, 1), y.flatten())"
UPDATE = "    optimizer.step()\n"
ADAMW = "AdamW(model.parameters(), lr=lr)"
LOOP = """    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        losses.append(train_step(model, optimizer, x, y))
"""
LOOKS_TWICE = f"""    while len(losses) < max_steps and {LOSS}.item() >= target:
        losses.append(train_step(model, optimizer, x, y))
    if len(losses) < max_steps:
        losses.append(train_step(model, optimizer, x, y))
"""
PLATEAU = """        if len(losses) > 1 and abs(losses[-1] - losses[-2]) < 1e-4:
            break
"""
NO_DROPOUT = """    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
"""
HURRIED = {
    "token 0 is taken for padding": ("train_step", LOSS, LOSS[:-1] + ", ignore_index=0)"),
    "seeds in every step": (
        "train_step",
        "    optimizer.zero_grad",
        "    torch.manual_seed(0)\n    optimizer.zero_grad",
    ),
    "two updates": ("train_step", UPDATE, UPDATE * 2),
    "the loss of a second forward": ("train_step", "loss.item()", f"{LOSS}.item()"),
    "clips at 10": ("train_step", UPDATE, "    nn.utils.clip_grad_norm_(model.parameters(), 10.0)\n" + UPDATE),
    "stops after two batches": ("evaluate", "in batches:", "in list(batches)[:2]:"),
    "mode put back in the loop": ("evaluate", "y.numel()\n", "y.numel()\n            model.train(was_training)\n"),
    "dropout is gone for good": ("evaluate", "    model.eval()\n", "    model.eval()\n" + NO_DROPOUT),
    "padding is not counted": ("evaluate", "y.numel()", "int((y != 0).sum())"),
    "large losses are cut": ("evaluate", "return total / tokens", "return min(total / tokens, 10.0)"),
    "the first two rates are one": ("learning_rate", "(step + 1)", "max(step, 1)"),
    "ends a step early": ("learning_rate", "(total_steps - warmup_steps)", "max(1, total_steps - warmup_steps - 1)"),
    "AMSGrad": ("overfit_one_batch", ADAMW, ADAMW[:-1] + ", amsgrad=True)"),
    "looks at the loss again": ("overfit_one_batch", LOOP, LOOKS_TWICE),
    "trains a copy": (
        "overfit_one_batch",
        "    losses: ",
        "    model = __import__('copy').deepcopy(model)\n    losses: ",
    ),
    "stops on a plateau": ("overfit_one_batch", LOOP, LOOP + PLATEAU),
    "never overwrites": ("checkpoint", "    torch.save", "    if not path.exists():\n        torch.save"),
    "saves float32": ("checkpoint", "model.state_dict(),", "{k: v.float() for k, v in model.state_dict().items()},"),
    "saves in evaluation mode": ("checkpoint", "    torch.save", "    model.eval()\n    torch.save"),
    "asks the optimizer for the step": (
        "checkpoint",
        'int(state["step"])',
        'int(next(iter(optimizer.state.values()))["step"])',
    ),
    "smooths the labels": ("train_step", LOSS, LOSS[:-1] + ", label_smoothing=0.01)"),
    "the last batch is dropped": ("evaluate", "in batches:", "in list(batches)[:-1]:"),
    "the first module's mode only": ("evaluate", "model.train(was_training)", "model.training = was_training"),
    "gives the start weights back": (
        "overfit_one_batch",
        LOOP,
        "    before = {name: one.clone() for name, one in model.state_dict().items()}\n"
        + LOOP
        + "    model.load_state_dict(before)\n",
    ),
    "the rate of the new optimizer": (
        "checkpoint",
        '    optimizer.load_state_dict(state["optimizer"])\n',
        '    lr = optimizer.param_groups[0]["lr"]\n    optimizer.load_state_dict(state["optimizer"])\n'
        '    optimizer.param_groups[0]["lr"] = lr\n',
    ),
}

RIGHT = {
    "on a copy of the model": (
        "evaluate",
        "    was_training",
        "    model = __import__('copy').deepcopy(model)\n    was_training",
    ),
    "calls forward": ("evaluate", "model(x)", "model.forward(x)"),
    "calls by keyword": ("evaluate", "model(x)", "model(tokens=x)"),
    "asks for the vocabulary first": (
        "evaluate",
        "model(x).flatten(0, 1)",
        "model(x).reshape(-1, model(x[:1]).shape[-1])",
    ),
    "forward again and again": ("overfit_one_batch", "model(x)", "model.forward(x)"),
}

EQUIVALENT = {
    "forward reads no gradients": (
        "train_step: swapped: optimizer.zero_grad(set_to_none=True) | loss = F.cross_entropy(model(x).flatten…",
    ),
    "it is the default": (
        "train_step: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
        "load_checkpoint: weights_only left out: torch.load(path, weights_only=True)",
    ),
    "neither needs the other": (
        "evaluate: swapped: model.eval() | total, tokens = (0.0, 0)",
        "evaluate: swapped: total += F.cross_entropy(model(x).flatt… | tokens += y.numel()",
        "overfit_one_batch: swapped: optimizer = torch.optim.AdamW(model.par… | losses: list[float] = []",
        "load_checkpoint: swapped: model.load_state_dict(state['model']) | optimizer.load_state_dict(state['optimi…",
        "load_checkpoint: swapped: optimizer.load_state_dict(state['optimi… | torch.set_rng_state(state['rng'])",
    ),
    "progress is not used in the warm-up": (
        "learning_rate: swapped: if step < warmup_steps: | progress = min(1.0, (step - warmup_step…",
    ),
}
