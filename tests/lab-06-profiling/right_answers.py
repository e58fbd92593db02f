"""Right answers to Lab 06 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "phase_fractions": {
        "a Counter": """
-    fractions: dict[str, float] = {}
+    fractions = __import__('collections').Counter()
""",
    },
    "self_times": {
        "a defaultdict": """
-    found: dict[str, tuple[int, float]] = {}
+    found = __import__('collections').defaultdict(lambda: (0, 0.0))
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
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
    "the sums are the same in another order": (
        "self_times: swapped: if running: | add(op['name'], 1, op['dur'])",
        "self_times: swapped: add(op['name'], 1, op['dur']) | running.append(op)",
    ),
    "no measured float is exactly at a threshold": (
        "diagnose: comparison replaced: phase_fractions(events, warmup)[1]['dat…",
        "diagnose: comparison replaced: tiny > TINY_SHARE * sum((milliseconds f…",
        "diagnose: comparison replaced: milliseconds / calls < TINY_MS",
    ),
}
