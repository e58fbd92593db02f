"""Right answers to Lab 15 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "sgd_step": {
        "new tensors, copied into the parameter": """
-    g = gradient.add(parameter, alpha=weight_decay)
-    if momentum:
-        if "momentum_buffer" not in state:
-            state["momentum_buffer"] = g.clone()
-        else:
-            state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening)
-        buffer = state["momentum_buffer"]
-        g = g.add(buffer, alpha=momentum) if nesterov else buffer
-    parameter.add_(g, alpha=-lr)
+    g = gradient.clone()
+    if weight_decay != 0:
+        g = g + weight_decay * parameter.detach()
+    step = g
+    if momentum != 0:
+        old = state.get("momentum_buffer")
+        state["momentum_buffer"] = g if old is None else momentum * old + (1 - dampening) * g
+        step = g + momentum * state["momentum_buffer"] if nesterov else state["momentum_buffer"]
+    parameter.data = parameter.data - lr * step
""",
        "through data": """
-    parameter.add_(g, alpha=-lr)
+    parameter.data -= lr * g
""",
    },
    "adam_step": {
        "as torch orders it": """
-    m_hat = m / (1 - betas[0] ** state["step"])
-    v_hat = v / (1 - betas[1] ** state["step"])
-    parameter.sub_(lr * m_hat / (v_hat.sqrt() + eps))
+    first, second = (1 - beta ** state["step"] for beta in betas)
+    parameter.addcdiv_(m, (v.sqrt() / second**0.5).add_(eps), value=-lr / first)
""",
        "new averages in every step": """
-    if not state:
-        state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
-    g = gradient + weight_decay * parameter
-    state["step"] += 1
-    m = state["exp_avg"].mul_(betas[0]).add_(g, alpha=1 - betas[0])
-    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
+    g = gradient.add(parameter, alpha=weight_decay)
+    m = betas[0] * state.get("exp_avg", 0 * g) + (1 - betas[0]) * g
+    v = betas[1] * state.get("exp_avg_sq", torch.zeros_like(g)) + (1 - betas[1]) * g**2
+    state["step"] = state.get("step", 0) + 1
+    state["exp_avg"], state["exp_avg_sq"] = m.detach(), v.detach()
""",
    },
    "adamw_step": {
        "the decay as a difference": """
-    parameter.mul_(1 - lr * weight_decay)
+    parameter -= lr * weight_decay * parameter
""",
        "the decay after the step, by the old numbers": """
-    parameter.mul_(1 - lr * weight_decay)
-    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
+    old = parameter.detach().clone()
+    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps, weight_decay=0.0)
+    parameter.sub_(lr * weight_decay * old)
""",
    },
    "optimizer_step": {
        "states made by hand, autograd switched by set_grad_enabled": """
-    with torch.no_grad():
-        for group in groups:
-            settings = {name: value for name, value in group.items() if name != "params"}
-            for parameter in group["params"]:
-                if parameter.grad is not None:
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+    before = torch.is_grad_enabled()
+    torch.set_grad_enabled(False)
+    try:
+        for group in groups:
+            settings = dict(group)
+            parameters = settings.pop("params")
+            for parameter in parameters:
+                gradient = parameter.grad
+                if gradient is None:
+                    continue
+                if parameter not in states:
+                    states[parameter] = {}
+                rule(parameter, gradient, states[parameter], **settings)
+    finally:
+        torch.set_grad_enabled(before)
""",
    },
    "newton_schulz": {
        "products in another order": """
-        gram = x @ x.T
-        x = a * x + (b * gram + c * gram @ gram) @ x
+        cubed = x @ x.mT @ x
+        x = a * x + b * cubed + c * (x @ x.mT) @ cubed
""",
        "addmm, as torch has it": """
-        gram = x @ x.T
-        x = a * x + (b * gram + c * gram @ gram) @ x
+        gram = torch.mm(x, x.t())
+        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
""",
        "transposed by a call of itself": """
-    tall = matrix.shape[0] > matrix.shape[1]
-    x = matrix.T if tall else matrix
-    x = x / x.norm().clamp(min=1e-7)
+    tall = False
+    if matrix.size(0) > matrix.size(1):
+        return newton_schulz(matrix.T, steps).T
+    x = matrix / max(matrix.norm().item(), 1e-7)
""",
    },
    "muon_step": {
        "products and sums in place of lerp": """
-    buffer = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
-    buffer.lerp_(gradient, 1 - momentum)
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    buffer = state.get("momentum_buffer", torch.zeros_like(gradient))
+    buffer = momentum * buffer + (1 - momentum) * gradient
+    state["momentum_buffer"] = buffer
+    direction = (1 - momentum) * gradient + momentum * buffer if nesterov else buffer
+    update = newton_schulz(direction, steps=steps)
""",
    },
    "muon_parameters": {
        "identities in a set": """
-    excluded = set(head.parameters())
-    for module in model.modules():
-        if isinstance(module, nn.Embedding):
-            excluded.update(module.parameters())
-    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
-    matrices = [parameter for parameter in trained if parameter.ndim == 2 and parameter not in excluded]
-    return matrices, [parameter for parameter in trained if parameter.ndim != 2 or parameter in excluded]
+    layers = [head, *(layer for layer in model.modules() if isinstance(layer, nn.Embedding))]
+    excluded = {id(parameter) for layer in layers for parameter in layer.parameters()}
+    lists: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
+    for _, parameter in model.named_parameters():
+        if parameter.requires_grad:
+            lists[len(parameter.shape) != 2 or id(parameter) in excluded].append(parameter)
+    return lists
""",
    },
    "update_average": {
        "products and sums, through data": """
-    kept = min(decay, (1 + step) / (10 + step))
-    with torch.no_grad():
-        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
-        for copied, buffer in zip(average.buffers(), model.buffers(), strict=True):
-            copied.copy_(buffer)
+    kept = decay if (1 + step) / (10 + step) > decay else (1 + step) / (10 + step)
+    means, numbers = dict(average.named_parameters()), dict(model.named_parameters())
+    for name in means:
+        means[name].data = kept * means[name].data + (1 - kept) * numbers[name].data.to(means[name].dtype)
+    for (_, copied), (_, buffer) in zip(average.named_buffers(), model.named_buffers(), strict=True):
+        copied.data = buffer.data.clone().to(copied.dtype)
""",
    },
    "clip_adaptively": {
        "norms over the last axes": """
-        units = 1 if parameter.ndim < 2 else len(parameter)
-        weight, gradient = (tensor.detach().reshape(units, -1) for tensor in (parameter, parameter.grad))
-        limit = clipping * weight.norm(dim=1).clamp(min=eps)
-        norm = gradient.norm(dim=1)
-        factor = torch.where(norm > limit, limit / norm, 1.0).to(gradient.dtype)
-        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
-        clipped += int((norm > limit).sum())
+        axes = tuple(range(min(1, max(0, parameter.ndim - 1)), parameter.ndim))
+        with torch.no_grad():
+            weight = parameter.square().sum(axes, keepdim=True).sqrt()
+            norm = parameter.grad.square().sum(axes, keepdim=True).sqrt()
+            limit = clipping * torch.clamp(weight, min=eps)
+            above = norm > limit
+            parameter.grad.copy_(torch.where(above, parameter.grad * (limit / norm), parameter.grad))
+        clipped += above.sum().item()
""",
        "row by row": """
-        units = 1 if parameter.ndim < 2 else len(parameter)
-        weight, gradient = (tensor.detach().reshape(units, -1) for tensor in (parameter, parameter.grad))
-        limit = clipping * weight.norm(dim=1).clamp(min=eps)
-        norm = gradient.norm(dim=1)
-        factor = torch.where(norm > limit, limit / norm, 1.0).to(gradient.dtype)
-        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
-        clipped += int((norm > limit).sum())
+        pairs = [(parameter.data, parameter.grad)] if parameter.ndim < 2 else zip(parameter.data, parameter.grad)
+        for weight, gradient in pairs:
+            limit, norm = clipping * max(weight.norm().item(), eps), gradient.norm().item()
+            if norm > limit:
+                gradient *= limit / norm
+                clipped += 1
""",
    },
    "range_test": {
        "copies of every tensor": """
-    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
+    weights = {name: value.clone() for name, value in model.state_dict().items()}
+    before = (weights, copy.deepcopy(optimizer.state_dict()))
@@
-            losses.append(float(train_step()))
-            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
-                break
+            loss = train_step()
+            losses.append(loss)
+            if not math.isfinite(loss) or loss > stop * min(losses):
+                return losses
""",
    },
    "suggested_rate": {
        "with NumPy": """
-    mean, smooth = 0.0, []
-    for k, loss in enumerate(losses, start=1):
-        if not math.isfinite(loss):
-            break
-        mean = smoothing * mean + (1 - smoothing) * loss
-        smooth.append(mean / (1 - smoothing**k))
-    trends = {
-        rates[k]: (smooth[k + 1] - smooth[k - 1]) / math.log(rates[k + 1] / rates[k - 1])
-        for k in range(1, len(smooth) - 1)
-    }
-    best = min(trends, key=trends.__getitem__, default=None)
-    return best if best is not None and trends[best] < 0 else None
+    finite = torch.tensor([*losses, math.nan], dtype=torch.float64).isfinite().logical_not().nonzero()[0].item()
+    if finite < 3:
+        return None
+    k = torch.arange(finite, dtype=torch.float64)
+    shares = torch.tril(torch.tensor(smoothing, dtype=torch.float64) ** (k[:, None] - k).clamp(min=0))
+    smooth = shares @ torch.tensor(losses[:finite], dtype=torch.float64) / shares.sum(1)
+    logs = torch.tensor(rates[:finite], dtype=torch.float64).log()
+    trends = (smooth[2:] - smooth[:-2]) / (logs[2:] - logs[:-2])
+    place = int(trends.argmin())
+    return rates[place + 1] if trends[place] < -1e-12 else None
""",
    },
    "should_prune": {
        "the two directions apart": """
-    sign = 1 if direction == "minimize" else -1
-    own = [sign * value for value in trial["validation"].values() if not math.isnan(value)]
-    if not own:
-        return True
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
-    return bool(others) and min(own) > statistics.median(others)
+    own = [value for value in trial["validation"].values() if value == value]
+    if len(own) == 0:
+        return True
+    others = sorted(value for values in complete if (value := values.get(step, math.nan)) == value)
+    if not others:
+        return False
+    middle = (others[(len(others) - 1) // 2] + others[len(others) // 2]) / 2
+    return max(own) < middle if direction == "maximize" else min(own) > middle
""",
    },
    "best_configuration": {
        "lists of pairs, compared as dicts": """
-    values: dict[Any, dict[int, float]] = {}
-    for trial in sorted(trials, key=lambda trial: trial["number"]):
-        value = trial["validation"].get(budget, math.nan)
-        if trial["state"] == "complete" and trial["seed"] in seeds and math.isfinite(value):
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
-    sign = 1 if direction == "minimize" else -1
-    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) == len(set(seeds))}
-    if not complete:
-        return None
-    best = min(complete, key=lambda key: sign * statistics.mean(complete[key]))
-    spread = statistics.stdev(complete[best]) if len(complete[best]) > 1 else 0.0
-    return {"parameters": dict(best), "mean": statistics.mean(complete[best]), "spread": spread}
+    counting = [
+        trial
+        for trial in trials
+        if trial["state"] == "complete" and math.isfinite(trial["validation"].get(budget, math.inf))
+    ]
+    found: list[tuple[float, float, dict[str, Any]]] = []
+    for trial in counting:
+        same = [other for other in counting if other["parameters"] == trial["parameters"]]
+        numbers = []
+        for seed in seeds:
+            runs = [other for other in same if other["seed"] == seed]
+            if runs:
+                numbers.append(max(runs, key=lambda run: run["number"])["validation"][budget])
+        if len(numbers) == len(seeds):
+            mean = sum(numbers) / len(numbers)
+            squares = sum((number - mean) ** 2 for number in numbers)
+            found.append((mean, math.sqrt(squares / max(1, len(numbers) - 1)), trial["parameters"]))
+    if not found:
+        return None
+    chosen = (max if direction == "maximize" else min)(found, key=lambda row: row[0])
+    return {"parameters": chosen[2], "mean": chosen[0], "spread": chosen[1]}
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "adam_step: swapped: if not state: | g = gradient + weight_decay * parameter",
        "adam_step: swapped: g = gradient + weight_decay * parameter | state['step'] += 1",
        "adam_step: swapped: state['step'] += 1 | m = state['exp_avg'].mul_(betas[0]).add…",
        "adam_step: swapped: m = state['exp_avg'].mul_(betas[0]).add… | v = state['exp_avg_sq'].mul_(betas[1]).…",
        "adam_step: swapped: v = state['exp_avg_sq'].mul_(betas[1]).… | m_hat = m / (1 - betas[0] ** state['ste…",
        "adam_step: swapped: m_hat = m / (1 - betas[0] ** state['ste… | v_hat = v / (1 - betas[1] ** state['ste…",
        "newton_schulz: swapped: a, b, c = (3.4445, -4.775, 2.0315) | tall = matrix.shape[0] > matrix.shape[1]",
        "muon_step: swapped: update = newton_schulz(gradient.lerp(bu… | parameter.mul_(1 - lr * weight_decay)",
        "muon_parameters: swapped: for module in model.modules(): | trained = [parameter for parameter in m…",
        "update_average: swapped: for mean, parameter in zip(average.para… | for copied, buffer in zip(average.buffe…",
        "clip_adaptively: swapped: if parameter.grad is None: | units = 1 if parameter.ndim < 2 else le…",
        "clip_adaptively: swapped: limit = clipping * weight.norm(dim=1).c… | norm = gradient.norm(dim=1)",
        "clip_adaptively: swapped: parameter.grad.detach().mul_(factor.vie… | clipped += int((norm > limit).sum())",
        "range_test: swapped: before = copy.deepcopy((model.state_dic… | modes = [(layer, layer.training) for la…",
        "range_test: swapped: modes = [(layer, layer.training) for la… | losses: list[float] = []",
        "should_prune: swapped: if step < warmup_steps: | sign = 1 if direction == 'minimize' els…",
        "should_prune: swapped: if not own: | others = [sign * values[step] for value…",
        "best_configuration: swapped: for trial in sorted(trials, key=lambda … "
        "| sign = 1 if direction == 'minimize' els…",
        "best_configuration: swapped: sign = 1 if direction == 'minimize' els… "
        "| complete = {key: list(by_seed.values())…",
    ),
    "a value that is not finite ends the loop before the mean is read again": (
        "suggested_rate: swapped: if not math.isfinite(loss): | mean = smoothing * mean + (1 - smoothin…",
    ),
    "a square matrix has two equal sides": ("newton_schulz: comparison replaced: matrix.shape[0] > matrix.shape[1]",),
    "both models have the same parameters and buffers": (
        "update_average: strict left out: zip(average.parameters(), model.paramet…",
        "update_average: strict left out: zip(average.buffers(), model.buffers(),…",
    ),
    "all smoothed losses are multiplied by one number": ("suggested_rate: operator replaced: 1 - smoothing",),
}
