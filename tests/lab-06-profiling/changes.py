"""Lab 06: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

HURRIED = {
    "no warm-up at all": ("phase_fractions", ")[warmup:]", ")"),
    "drops one step too many": ("phase_fractions", ")[warmup:]", ")[warmup + 1 :]"),
    "drops the last steps": ("phase_fractions", ")[warmup:]", ")[: -warmup or None]"),
    "the phases in another order": ("phase_fractions", "for phase in PHASES:", "for phase in sorted(PHASES):"),
    "prefix for the phase's name": ("phase_fractions", "if name == phase]", "if phase in name.lower()]"),
    "the longest step": ("phase_fractions", "statistics.median(end", "max(end"),
    "only the top two levels": ("self_times", "    running: list", "    measured = measured[:40]\n    running: list"),
    "calls are per step": ("self_times", "before[0] + calls,", "before[0] + calls / len(steps),"),
    "the last step is left out": ("self_times", '"))[warmup:]', '"))[warmup:-1]'),
    "attention without heads": ("utilization", "layers * heads * head_dim", "layers * head_dim"),
    "attention of one layer": ("utilization", "12 * layers * heads", "12 * heads"),
    "the first row of the sheet": ("utilization", 'if row["dtype"] == dtype)', "if True)"),
    "rounds to percent": (
        "utilization",
        "return tokens_per_second * token_flops / (devices * dense_peak)",
        "return round(tokens_per_second * token_flops / (devices * dense_peak), 2)",
    ),
    "TFLOP for FLOP": ("utilization", "* 1e12", "* 1e9"),
    "no utilization above 1": (
        "utilization",
        "return model_utilization * (3 + recomputed) / 3",
        "return min(1.0, model_utilization * (3 + recomputed) / 3)",
    ),
    "any data starves": ("diagnose", "> DATA_SHARE", "> 0.01"),
    "any read is a sync": ("diagnose", "/ steps >= SYNCS", "/ steps >= 1"),
    "the largest share wins": ("diagnose", "> TINY_SHARE *", "> 0.5 *"),
    "reads in the warm-up": (
        "diagnose",
        "operations = self_times(events, warmup)",
        "operations = self_times(events, 0)",
    ),
    "always data": ("diagnose", 'return "none of these"', 'return "starved loader"'),
    "norms of weights": ("watch", "[parameter.grad for", "[parameter for"),
    "largest gradient": (
        "watch",
        "math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))",
        "max([gradient.norm().item() for gradient in gradients], default=0.0)",
    ),
    "watches one module": (
        "watch",
        "for name, module in modules.items()]",
        "for name, module in [*modules.items()][:1]]",
    ),
    "mean for root mean square": ("watch", ".square().mean().sqrt()", ".abs().mean()"),
    "one hook stays": ("watch", "for handle in handles:", "for handle in handles[1:]:"),
    "copies to the host": (
        "watch",
        "append(output.detach().square().mean().sqrt())",
        "append(output.detach().square().mean().sqrt().item())",
    ),
    "names that begin like a phase": ("phase_fractions", "if name == phase]", "if name.startswith(phase)]"),
    "the lower of two middle steps": ("phase_fractions", "statistics.median(end", "statistics.median_low(end"),
    "operations of aten only": (
        "self_times",
        'if event.get("cat") == "cpu_op"]',
        'if event.get("cat") == "cpu_op" and event["name"].startswith("aten::")]',
    ),
    "only what ends in its step": (
        "self_times",
        'if any(start <= op["ts"] < end for',
        'if any(start <= op["ts"] and op["ts"] + op["dur"] <= end for',
    ),
    "all after the first measured step": (
        "self_times",
        'if any(start <= op["ts"] < end for start, end in steps)]',
        'if op["ts"] >= steps[0][0]]',
    ),
    "hides an impossible utilization": (
        "utilization",
        "return tokens_per_second * token_flops / (devices * dense_peak)",
        "return min(1.0, tokens_per_second * token_flops / (devices * dense_peak))",
    ),
    "a tensor": ("utilization", "return 6 * (", "import torch\n\n    return torch.tensor(6) * ("),
    "the largest phase starves": (
        "diagnose",
        'if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:',
        'if max((shares := phase_fractions(events, warmup)[1]), key=lambda name: shares[name]) == "data":',
    ),
    "waiting is data": (
        "diagnose",
        '[1]["data"] > DATA_SHARE',
        '[1]["data"] > 1 - 0.5 - phase_fractions(events, warmup)[1]["idle"]',
    ),
    "share of the step": (
        "diagnose",
        "TINY_SHARE * sum(milliseconds for _, milliseconds in operations.values())",
        "TINY_SHARE * phase_fractions(events, warmup)[0] * steps",
    ),
    "the mean of all calls": (
        "diagnose",
        "if tiny > TINY_SHARE * sum(milliseconds for _, milliseconds in operations.values()):",
        "if sum(ms for _, ms in operations.values()) / sum(calls for calls, _ in operations.values()) < TINY_MS:",
    ),
    "warm-up subtracted twice": ("diagnose", "in ranges) - warmup", "in ranges) - 2 * warmup"),
    "a norm that is a tensor": (
        "watch",
        "return math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))",
        "return sum(gradient.square().sum() for gradient in gradients) ** 0.5 if gradients else 0.0",
    ),
    "reads by tolist": (
        "watch",
        "append(output.detach().square().mean().sqrt())",
        "append(output.new_tensor(output.detach().square().mean().sqrt().tolist()))",
    ),
    "while training only": (
        "watch",
        'log[name]["activation"].append(output.detach()',
        'module.training and log[name]["activation"].append(output.detach()',
    ),
    "removes the newest hook": (
        "watch",
        "        for handle in handles:\n            handle.remove()",
        "        for module in modules.values():\n            module._forward_hooks.popitem()",
    ),
    "in evaluation mode": (
        "watch",
        "    handles = [",
        "    for module in modules.values():\n        module.eval()\n    handles = [",
    ),
    "item alone reads": ("diagnose", "aten::_local_scalar_dense", "aten::item"),
}

RIGHT = {
    "a Counter": (
        "phase_fractions",
        "fractions: dict[str, float] = {}",
        "fractions = __import__('collections').Counter()",
    ),
    "a defaultdict": (
        "self_times",
        "found: dict[str, tuple[int, float]] = {}",
        "found = __import__('collections').defaultdict(lambda: (0, 0.0))",
    ),
}

EQUIVALENT = {
    "neither needs the other": (
        "phase_fractions: swapped: total = sum((end - start for start, end… | fractions: dict[str, float] = {}",
        "phase_fractions: swapped: fractions: dict[str, float] = {} | taken: list[tuple[float, float]] = []",
        "phase_fractions: swapped: taken: list[tuple[float, float]] = [] | covered_before = 0.0",
        "self_times: swapped: steps = sorted(((e['ts'], e['ts'] + e['… | operations = [event for event in events…",
        "self_times: swapped: measured = [op for op in operations if … | found: dict[str, tuple[int, float]] = {}",
        "diagnose: swapped: steps = sum((event['name'].startswith('… | operations = self_times(events, warmup)",
        "diagnose: swapped: operations = self_times(events, warmup) | if phase_fractions(events, warmup)[1]['…",
        "diagnose: swapped: if operations.get('aten::_local_scalar_… | tiny = sum((milliseconds for calls, mil…",
        "watch: swapped: log[name]['activation'].append(output.d… | if output.requires_grad:",
    ),
    "sums, in another order": (
        "self_times: swapped: if running: | add(op['name'], 1, op['dur'])",
        "self_times: swapped: add(op['name'], 1, op['dur']) | running.append(op)",
    ),
    "a float that is exactly at a threshold is nobody's concern": (
        "diagnose: comparison turned: phase_fractions(events, warmup)[1]['dat…",
        "diagnose: comparison turned: tiny > TINY_SHARE * sum((milliseconds f…",
        "diagnose: comparison turned: milliseconds / calls < TINY_MS",
    ),
}
