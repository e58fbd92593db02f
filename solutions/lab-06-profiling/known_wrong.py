"""Known-wrong solutions of Lab 06, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

WARM_UP = "handbook/profiling.md#before-you-measure"
TRACE = "handbook/profiling.md#reading-a-trace"
FRACTIONS = "handbook/profiling.md#one-step-as-fractions"
CAUSE = "handbook/profiling.md#from-symptom-to-cause"
MFU = "handbook/mfu.md#mfu-and-hfu"
HOOKS = "handbook/backpropagation.md#hooks-that-look-and-hooks-that-change"

PALM_FLOPS = "6 * (parameters - looked_up) + 12 * layers * heads * head_dim * seq_len"
HFU = "model_utilization * (3 + recomputed) / 3"


def wrong_flops(name: str, flops: str, explanation: str) -> KnownWrong:
    """Returns a solution whose palm_flops returns the expression `flops`."""
    change = f"-    return {PALM_FLOPS}\n+    return {flops}"
    return KnownWrong(name, ("utilization/formula",), MFU, explanation, change)


def wrong_hfu(name: str, utilization: str, explanation: str) -> KnownWrong:
    """Returns a solution whose hfu returns the expression `utilization`."""
    return KnownWrong(name, ("utilization/hfu",), MFU, explanation, f"-    return {HFU}\n+    return {utilization}")


def wrong_patient(name: str, patient: str, found: str, explanation: str) -> KnownWrong:
    """Returns a solution that finds `found` in patient a, b or c."""
    right = {"a": "sync every step", "b": "many tiny ops", "c": "starved loader"}[patient]
    pair = f'"patient_{patient}": "{{}}"'
    line = '    return {"patient_a": "sync every step", "patient_b": "many tiny ops", "patient_c": "starved loader"}'
    change = f"-{line}\n+{line.replace(pair.format(right), pair.format(found))}"
    return KnownWrong(name, (f"patients/{patient}",), CAUSE, explanation, change)


KNOWN_WRONG = (
    KnownWrong(
        "ends_with_the_last_one",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""Two overlapping intervals are joined into one that ends where the second interval ends. If the
        second interval lies inside the first, that end is too early. The end is the later of both ends.""",
        change="""
-            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
+            whole[-1] = (whole[-1][0], end)
""",
    ),
    KnownWrong(
        "sorts_what_it_is_given",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""The function changes the caller's list. Code that uses the list at the same time, or relies on
        its order, gets another list than before. `sorted(intervals)` makes a new list.""",
        change="""
+    intervals.sort()
     whole: list[tuple[float, float]] = []
-    for start, end in sorted(intervals):
+    for start, end in intervals:
""",
    ),
    KnownWrong(
        "touching_kept_apart",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""An interval that begins exactly where the one before it ends is kept apart. Nothing lies between
        the two: a gap of length 0 is no gap. Join them into one interval.""",
        change="""
-        if whole and start <= whole[-1][1]:
+        if whole and start < whole[-1][1]:
""",
    ),
    KnownWrong(
        "whole_numbers",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""Starts and ends lose their fractions. The times of a trace are microseconds with decimals: an
        operation of half a microsecond disappears, and a gap of half a microsecond closes.""",
        change="""
-    for start, end in sorted(intervals):
+    for start, end in sorted((int(start), int(end)) for start, end in intervals):
""",
    ),
    KnownWrong(
        "an_interval_expected",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""An empty list has no interval to read, so the function raises an error. A phase without any range
        gives such a list. It covers no time: return an empty list.""",
        change="""
-    whole: list[tuple[float, float]] = []
+    whole = [sorted(intervals)[0]]
""",
    ),
    KnownWrong(
        "small_gaps_closed",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""Intervals with a gap shorter than 1 between them are joined. That rule is for whole numbers,
        where 4 follows 3; times have fractions, and no interval covers the gap.""",
        change="""
-        if whole and start <= whole[-1][1]:
+        if whole and start <= whole[-1][1] + 1:
""",
    ),
    KnownWrong(
        "sorted_by_end",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""The intervals are sorted by their ends. A long interval that begins early and ends late then
        comes after the intervals inside it, which are already in the result. Sorted by their starts, an interval comes
        before those that lie inside it.""",
        change="""
-    for start, end in sorted(intervals):
+    for start, end in sorted(intervals, key=lambda interval: interval[1]):
""",
    ),
    KnownWrong(
        "sorted_by_end_extended_to_the_front",
        fails=("merged/merged",),
        read=FRACTIONS,
        explanation="""The intervals are sorted by their ends, and only the last interval of the result is extended. A
        long interval that begins early can overlap several intervals of the result. Sorted by their starts, each
        interval can overlap the last one only.""",
        change="""
-    for start, end in sorted(intervals):
+    for start, end in sorted(intervals, key=lambda interval: interval[1]):
@@
-            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
+            whole[-1] = (min(whole[-1][0], start), end)
""",
    ),
    KnownWrong(
        "counts_the_gpus_copies",
        fails=("phase_fractions/sequence", "phase_fractions/step-time"),
        read=TRACE,
        explanation="""Ranges of the kind "gpu_user_annotation" count too. A GPU's trace has each range twice: once on
        the host, and once from its first kernel to its last, which ends later. Select events by their kind.""",
        change="""
-    ranges = [event for event in events if event.get("cat") == "user_annotation"]
-    spans = [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in ranges]
+    spans = [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in events if event["ph"] == "X"]
""",
    ),
    KnownWrong(
        "idle_between_steps",
        fails=("phase_fractions/sequence",),
        read=FRACTIONS,
        explanation="""The fraction of idle is computed from the time between steps. That time is not measured. Idle
        time lies inside the steps, where no phase runs. The fractions have to add up to 1.""",
        change="""
-    fractions["idle"] = (total - covered_before) / total
+    fractions["idle"] = sum(after - before for (_, before), (after, _) in zip(steps, steps[1:])) / total
""",
    ),
    KnownWrong(
        "mean_of_fractions",
        fails=("phase_fractions/sequence",),
        read=FRACTIONS,
        explanation="""The fractions are computed for each step and then averaged, so a short step has the same weight
        as a long step. Divide each phase's time in all measured steps by the total time of these steps.""",
        change="""
-            max(0, min(end, step_end) - max(start, step_start))
+            max(0, min(end, step_end) - max(start, step_start)) / (step_end - step_start) / len(steps)
@@
-        fractions[phase] = (covered - covered_before) / total
+        fractions[phase] = covered - covered_before
@@
-    fractions["idle"] = (total - covered_before) / total
+    fractions["idle"] = 1 - covered_before
""",
    ),
    KnownWrong(
        "forgets_warm_up",
        fails=("phase_fractions/warm-up", "phase_fractions/threads", "phase_fractions/step-time"),
        read=WARM_UP,
        explanation="""The first steps count too. They load libraries, make the optimizer's state and fill caches, so
        they are slower than later steps, and of few profiled steps they are a large part. Leave out the first `warmup`
        steps.""",
        change="""
-    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
+    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))
""",
    ),
    KnownWrong(
        "steps_in_the_order_of_events",
        fails=("phase_fractions/warm-up", "phase_fractions/threads", "phase_fractions/step-time"),
        read=WARM_UP,
        explanation="""The steps stay in the order of the events, which need not be that of time, so other steps than
        the first are left out as warm-up. Sort the steps by time.""",
        change="""
-    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
+    steps = [(start, end) for name, start, end in spans if name.startswith("ProfilerStep#")][warmup:]
""",
    ),
    KnownWrong(
        "sorts_steps_by_name",
        fails=("phase_fractions/warm-up", "phase_fractions/threads", "phase_fractions/step-time"),
        read=WARM_UP,
        explanation="""The steps are sorted by name, so other steps than the first are left out as warm-up. As text,
        "ProfilerStep#10" comes before "ProfilerStep#9". Sort the steps by time.""",
        change="""
-    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
+    by_name = sorted(span for span in spans if span[0].startswith("ProfilerStep#"))
+    steps = [(start, end) for _, start, end in by_name][warmup:]
""",
    ),
    KnownWrong(
        "absent_phase_missing",
        fails=("phase_fractions/absent",),
        read=FRACTIONS,
        explanation="""A phase without any range is missing from the dictionary. A trace without named loading has no
        `data` range: its fraction is 0.0, and code that reads the dictionary expects all five names.""",
        change="""
-    return statistics.median(end - start for start, end in steps) / 1000, fractions
+    present = {name: fraction for name, fraction in fractions.items() if fraction or name == "idle"}
+    return statistics.median(end - start for start, end in steps) / 1000, present
""",
    ),
    KnownWrong(
        "counts_nested_twice",
        fails=("phase_fractions/nested", "phase_fractions/threads"),
        read=FRACTIONS,
        explanation="""The durations of all ranges are added. A range inside another range of the same phase then counts
        twice, and so does time in which two threads run phases: the fractions add up to more than 1, or idle is too
        small. Merge the ranges first.""",
        change="""
-    taken: list[tuple[float, float]] = []
-    covered_before = 0.0
     for phase in PHASES:
-        taken += [(start, end) for name, start, end in spans if name == phase]
+        taken = [(start, end) for name, start, end in spans if name == phase]
         covered = sum(
             max(0, min(end, step_end) - max(start, step_start))
-            for start, end in merged(taken)
+            for start, end in taken
             for step_start, step_end in steps
         )
-        fractions[phase] = (covered - covered_before) / total
-        covered_before = covered
-    fractions["idle"] = (total - covered_before) / total
+        fractions[phase] = covered / total
+    fractions["idle"] = 1 - sum(fractions.values())
""",
    ),
    KnownWrong(
        "names_that_contain_a_phase",
        fails=("phase_fractions/nested",),
        read=TRACE,
        explanation="""A range counts for a phase if its name begins with the phase's name, or contains it. Other
        ranges, such as "data and the pause before it", then count too. Compare the whole name.""",
        change="""
-        taken += [(start, end) for name, start, end in spans if name == phase]
+        taken += [(start, end) for name, start, end in spans if name.startswith(phase)]
""",
    ),
    KnownWrong(
        "each_phase_by_itself",
        fails=("phase_fractions/threads",),
        read=FRACTIONS,
        explanation="""Two phases that run at the same time both get that time. Data that a thread loads while the model
        computes costs the step nothing; counted in full, it makes idle too small or negative. Each instant belongs to
        one phase.""",
        change="""
-    taken: list[tuple[float, float]] = []
-    covered_before = 0.0
     for phase in PHASES:
-        taken += [(start, end) for name, start, end in spans if name == phase]
+        taken = [(start, end) for name, start, end in spans if name == phase]
@@
-        fractions[phase] = (covered - covered_before) / total
-        covered_before = covered
-    fractions["idle"] = (total - covered_before) / total
+        fractions[phase] = covered / total
+    fractions["idle"] = 1 - sum(fractions.values())
""",
    ),
    KnownWrong(
        "hidden_work_first",
        fails=("phase_fractions/threads",),
        read=FRACTIONS,
        explanation="""Where several phases run at once, the time goes to the last of them in PHASES. Loading that is
        hidden behind the model's work then seems to take time, and the model seems faster than it is. The time goes to
        the first of them in PHASES.""",
        change="""
-    for phase in PHASES:
+    for phase in reversed(PHASES):
""",
    ),
    KnownWrong(
        "not_cut_at_the_border",
        fails=("phase_fractions/threads",),
        read=FRACTIONS,
        explanation="""A range counts with its whole length for the step in which it begins. If it extends past the end
        of the step, it includes time that is not measured, or the time of another step. Cut each range at the borders
        of the steps.""",
        change="""
-        taken += [(start, end) for name, start, end in spans if name == phase]
-        covered = sum(
-            max(0, min(end, step_end) - max(start, step_start))
-            for start, end in merged(taken)
-            for step_start, step_end in steps
-        )
+        taken += [
+            (start, end)
+            for name, start, end in spans
+            if name == phase and any(step_start <= start < step_end for step_start, step_end in steps)
+        ]
+        covered = sum(end - start for start, end in merged(taken))
""",
    ),
    KnownWrong(
        "only_what_begins_in_a_step",
        fails=("phase_fractions/threads",),
        read=FRACTIONS,
        explanation="""A range that begins before a measured step does not count, although it reaches into the step. The
        step's first part is then idle or another phase's. Cut all ranges at the borders of the steps.""",
        change="""
-        taken += [(start, end) for name, start, end in spans if name == phase]
+        ours = [(start, end) for name, start, end in spans if name == phase]
+        taken += [(start, end) for start, end in ours if any(first <= start < last for first, last in steps)]
""",
    ),
    KnownWrong(
        "one_thread_only",
        fails=("phase_fractions/threads",),
        read=TRACE,
        explanation="""Ranges count only if they are on the thread of the steps. On a GPU, backward runs on a thread of
        autograd, and a loader may have its own thread: their time is counted as idle. Count the ranges of all
        threads.""",
        change="""
     ranges = [event for event in events if event.get("cat") == "user_annotation"]
+    thread = next(event["tid"] for event in ranges if event["name"].startswith("ProfilerStep#"))
+    ranges = [event for event in ranges if event["tid"] == thread]
""",
    ),
    KnownWrong(
        "mean_of_the_steps",
        fails=("phase_fractions/step-time",),
        read=WARM_UP,
        explanation="""The step time is the mean. One step that was slowed down by another program can move the mean
        far; the median is the time of a usual step.""",
        change="""
-    return statistics.median(end - start for start, end in steps) / 1000, fractions
+    return statistics.mean(end - start for start, end in steps) / 1000, fractions
""",
    ),
    KnownWrong(
        "median_with_warm_up",
        fails=("phase_fractions/step-time",),
        read=WARM_UP,
        explanation="""The step time is the median of all steps, the first steps included. These are slower, and the
        fewer steps are profiled, the more they move the median. Use the measured steps, as for the fractions.""",
        change="""
-    return statistics.median(end - start for start, end in steps) / 1000, fractions
+    every = [end - start for name, start, end in spans if name.startswith("ProfilerStep#")]
+    return statistics.median(every) / 1000, fractions
""",
    ),
    *(
        KnownWrong(
            f"{which}_of_the_two_in_the_middle",
            fails=("phase_fractions/step-time",),
            read=WARM_UP,
            explanation="""The step time is that of one step. For an even number of steps, two are in the middle, and
            the median is the mean of both. torch.median returns the lower one, and the item len(steps) // 2 of the
            sorted list is the upper one. Use statistics.median.""",
            change=f"""
-    return statistics.median(end - start for start, end in steps) / 1000, fractions
+    return statistics.median_{which}(end - start for start, end in steps) / 1000, fractions
""",
        )
        for which in ("low", "high")
    ),
    KnownWrong(
        "step_in_seconds",
        fails=("phase_fractions/step-time",),
        read=TRACE,
        explanation="""The step time is in seconds instead of milliseconds. The times of a trace are in microseconds, in
        whatever unit its viewer shows them.""",
        change="""
-    return statistics.median(end - start for start, end in steps) / 1000, fractions
+    return statistics.median(end - start for start, end in steps) / 1e6, fractions
""",
    ),
    KnownWrong(
        "follows_for_inside",
        fails=("self_times/flat",),
        read=TRACE,
        explanation="""An operation that begins exactly when another operation ends is counted as a part of it. It is
        not: no part of it lies inside the other operation.""",
        change="""
-        while running and (running[-1]["tid"] != op["tid"] or running[-1]["ts"] + running[-1]["dur"] <= op["ts"]):
+        while running and (running[-1]["tid"] != op["tid"] or running[-1]["ts"] + running[-1]["dur"] < op["ts"]):
""",
    ),
    KnownWrong(
        "last_call_wins",
        fails=("self_times/flat",),
        read=TRACE,
        explanation="""Of several calls of an operation, only the last counts. A matrix product is called dozens of
        times in a step: add up the calls and the times of all of them.""",
        change="""
-        if running:
-            add(running[-1], 0, -op["dur"])
-        add(op, 1, op["dur"])
+        if any(start <= op["ts"] < end for start, end in steps):
+            found[op["name"]] = (1, op["dur"] / 1000)
""",
    ),
    KnownWrong(
        "microseconds_for_milliseconds",
        fails=("self_times/flat",),
        read=TRACE,
        explanation="""The times are in microseconds, the unit of the trace. Divide by 1,000 for milliseconds.""",
        change="""
-            found[op["name"]] = (before[0] + calls, before[1] + microseconds / 1000)
+            found[op["name"]] = (before[0] + calls, before[1] + microseconds)
""",
    ),
    KnownWrong(
        "ranges_for_operations",
        fails=("self_times/flat",),
        read=TRACE,
        explanation="""Ranges are counted as operations. The range of a phase contains all its operations; counted as an
        operation, it also adds the time between them. Operations have the kind "cpu_op".""",
        change="""
-    operations = [event for event in events if event.get("cat") == "cpu_op"]
+    operations = [e for e in events if e.get("cat") == "cpu_op" or (e["name"] in PHASES and e["ph"] == "X")]
""",
    ),
    KnownWrong(
        "grandchildren_subtracted",
        fails=("self_times/nested",),
        read=TRACE,
        explanation="""The time of every operation inside an operation is subtracted from it, also of those that its
        callees call. That time is already part of the callees, so it is subtracted twice: a self time is too small or
        negative. Subtract only the operations that it calls directly.""",
        change="""
-        if running:
-            add(running[-1], 0, -op["dur"])
+        for outer in running:
+            add(outer, 0, -op["dur"])
""",
    ),
    KnownWrong(
        "leaves_only",
        fails=("self_times/nested",),
        read=TRACE,
        explanation="""Operations that call others get a self time of 0. A caller's own work, such as checks and the
        choice of a kernel, takes time too: without it the sum of self times is smaller than the time in which
        operations ran.""",
        change="""
-    running: list[Event] = []  # the innermost last
-    for op in sorted(operations, key=lambda op: (op["tid"], op["ts"], -op["dur"])):
-        while running and (running[-1]["tid"] != op["tid"] or running[-1]["ts"] + running[-1]["dur"] <= op["ts"]):
-            running.pop()
-        if running:
-            add(running[-1], 0, -op["dur"])
-        add(op, 1, op["dur"])
-        running.append(op)
+    operations.sort(key=lambda op: (op["tid"], op["ts"], -op["dur"]))
+    for op, after in zip(operations, [*operations[1:], None], strict=True):
+        calls_another = after and after["tid"] == op["tid"] and after["ts"] < op["ts"] + op["dur"]
+        add(op, 1, 0 if calls_another else op["dur"])
""",
    ),
    KnownWrong(
        "total_for_self",
        fails=("self_times/nested",),
        read=TRACE,
        explanation="""The result is total time. An operation's total time includes the operations that it calls, so the
        same instant counts at each level, and the sum is several times the step. Sorted by it, a table has the callers
        at the top. Subtract the time of the operations that it calls directly.""",
        change="""
-        if running:
-            add(running[-1], 0, -op["dur"])
""",
    ),
    KnownWrong(
        "first_steps_counted",
        fails=("self_times/measured",),
        read=WARM_UP,
        explanation="""The operations of the first steps count too. Calls and times per step then depend on the number
        of profiled steps, and the slow first steps have the most weight. Leave out the first `warmup` steps.""",
        change="""
-    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
+    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))
""",
    ),
    KnownWrong(
        "only_what_ends_in_its_step",
        fails=("self_times/measured",),
        read=TRACE,
        explanation="""An operation that begins in a measured step and ends after it does not count. Operations that
        extend past the end of a step then count in no step. An operation counts where it begins.""",
        change="""
-        if any(start <= op["ts"] < end for start, end in steps):
+        if any(start <= op["ts"] and op["ts"] + op["dur"] <= end for start, end in steps):
""",
    ),
    KnownWrong(
        "end_of_the_step_included",
        fails=("self_times/measured",),
        read=TRACE,
        explanation="""An operation that begins exactly at the end of a step counts for that step. No part of it lies
        inside the step. Where one step ends and the next begins at once, it would belong to both. Compare with
        `start <= ts < end`.""",
        change="""
-        if any(start <= op["ts"] < end for start, end in steps):
+        if any(start <= op["ts"] <= end for start, end in steps):
""",
    ),
    KnownWrong(
        "only_measured_calls_subtracted",
        fails=("self_times/measured",),
        read=TRACE,
        explanation="""An operation that ends after its step contains the time of the operations that it calls there.
        These do not count themselves, but their durations are subtracted all the same. Find the caller of every
        operation first, and select the measured operations then.""",
        change="""
-    found: dict[str, tuple[int, float]] = {}
+    operations = [op for op in operations if any(start <= op["ts"] < end for start, end in steps)]
+    found: dict[str, tuple[int, float]] = {}
""",
    ),
    KnownWrong(
        "threads_mixed",
        fails=("self_times/threads",),
        read=TRACE,
        explanation="""Operations that another thread runs at the same time are counted as parts of an operation. They
        only overlap: an operation calls others on its own thread. Compare operations of the same thread only.""",
        change="""
-    for op in sorted(operations, key=lambda op: (op["tid"], op["ts"], -op["dur"])):
-        while running and (running[-1]["tid"] != op["tid"] or running[-1]["ts"] + running[-1]["dur"] <= op["ts"]):
+    for op in sorted(operations, key=lambda op: (op["ts"], -op["dur"])):
+        while running and running[-1]["ts"] + running[-1]["dur"] <= op["ts"]:
""",
    ),
    wrong_flops(
        "forward_only",
        "2 * (parameters - looked_up) + 4 * layers * heads * head_dim * seq_len",
        """The result is 2N + 4LHQT, the FLOPs of the forward pass. Training also runs backward, which takes twice as
        many: one product for the weights' gradients and one for the inputs'.""",
    ),
    wrong_flops(
        "looked_up_multiplied",
        "6 * parameters + 12 * layers * heads * head_dim * seq_len",
        """Embeddings that are only looked up are counted. A lookup multiplies nothing. In a small model with a large
        vocabulary they are most of the parameters, and the utilization is far too high. Subtract `looked_up`.""",
    ),
    wrong_flops(
        "mask_discounted",
        "6 * (parameters - looked_up) + 6 * layers * heads * head_dim * seq_len",
        """Attention is halved because the mask hides half of it. A kernel may skip that half, but published numbers use
        the formula without this discount: use the whole of 12LHQT.""",
    ),
    wrong_flops(
        "multiply_add_once",
        "3 * (parameters - looked_up) + 6 * layers * heads * head_dim * seq_len",
        """A multiply-add is counted as one FLOP. Data sheets count it as two, one multiplication and one addition;
        otherwise the utilization is half of what others report.""",
    ),
    wrong_flops(
        "recomputation_in_the_model",
        "8 * (parameters - looked_up) + 16 * layers * heads * head_dim * seq_len",
        """The forward pass counts twice, as a run with full activation checkpointing executes it: 8N instead of 6N. The
        model needs it once. Recomputed operations are work of the hardware and belong to HFU; in MFU, a run that
        recomputes more would score higher.""",
    ),
    wrong_flops(
        "without_attention",
        "6 * (parameters - looked_up)",
        """Only the weights are counted. Attention also multiplies queries by keys and probabilities by values, 12LHQT
        FLOPs per token: a small part in a wide model with short sequences, and the largest part if sequences are
        long.""",
    ),
    wrong_flops(
        "attention_runs_forward_only",
        "6 * (parameters - looked_up) + 4 * layers * heads * head_dim * seq_len",
        """The result is 6N + 4LHQT: the weights count for forward and backward, attention only for forward. The
        backward of its two products takes twice their FLOPs: 12LHQT in all.""",
    ),
    wrong_flops(
        "heads_counted_twice",
        "6 * (parameters - looked_up) + 12 * layers * heads**2 * head_dim * seq_len",
        """The number of heads counts twice in attention: 12LH²QT. Q is the width of one head, so HQ is the width of the
        model. If you use the model's width for Q, leave out H.""",
    ),
    wrong_flops(
        "one_head",
        "6 * (parameters - looked_up) + 12 * layers * head_dim * seq_len",
        """Attention counts for one head per layer: the factor H is missing from 12LHQT.""",
    ),
    wrong_flops(
        "one_layer",
        "6 * (parameters - looked_up) + 12 * heads * head_dim * seq_len",
        """Attention counts for one layer only: the factor L is missing from 12LHQT.""",
    ),
    wrong_flops(
        "length_squared",
        "6 * (parameters - looked_up) + 12 * layers * heads * head_dim * seq_len**2",
        """Attention counts with the square of the sequence length. That is its cost for a whole sequence. The formula
        is per token, and one token attends to T tokens.""",
    ),
    wrong_flops(
        "flops_of_a_sequence",
        "(6 * (parameters - looked_up) + 12 * layers * heads * head_dim * seq_len) * seq_len",
        """The result is the FLOPs of a whole sequence, T times those of one token. The formula is per token.""",
    ),
    KnownWrong(
        "every_peak_halved",
        fails=("utilization/mfu",),
        read=MFU,
        explanation="""Every peak is halved. Only rows with sparsity have twice the dense rate. The peak of fp32 has no
        sparsity, so its MFU is twice too high.""",
        change="""
-    dense_peak = row["tflops"] * 1e12 / (2 if row["sparsity"] else 1)
+    dense_peak = row["tflops"] * 1e12 / 2
""",
    ),
    KnownWrong(
        "halved_if_any_row_is_sparse",
        fails=("utilization/mfu",),
        read=MFU,
        explanation="""Every peak of a data sheet is halved if one of its rows has sparsity. Each row says for itself
        whether its rate is twice the dense rate. Test the row of the run's dtype.""",
        change="""
-    dense_peak = row["tflops"] * 1e12 / (2 if row["sparsity"] else 1)
+    dense_peak = row["tflops"] * 1e12 / (2 if any(row["sparsity"] for row in sheet) else 1)
""",
    ),
    KnownWrong(
        "largest_peak",
        fails=("utilization/mfu",),
        read=MFU,
        explanation="""The largest number of the data sheet is taken. It is the peak of the narrowest dtype, which this
        run does not use. The peak of a run is that of the dtype in which it multiplies.""",
        change="""
-    row = next(row for row in sheet if row["dtype"] == dtype)
+    row = max(sheet, key=lambda row: row["tflops"])
""",
    ),
    KnownWrong(
        "rate_of_all_peak_of_one",
        fails=("utilization/mfu",),
        read=MFU,
        explanation="""The rate of all devices is divided by the peak of one device. With 64 devices the result is 64
        times too high, often above 1. Multiply the peak by the number of devices.""",
        change="""
-    return tokens_per_second * token_flops / (devices * dense_peak)
+    return tokens_per_second * token_flops / dense_peak
""",
    ),
    KnownWrong(
        "sparse_peak",
        fails=("utilization/mfu",),
        read=MFU,
        explanation="""The number of the data sheet is taken as it is. A row "with sparsity" is for matrices of which
        half is zero, at twice the dense rate. Training multiplies dense matrices: against the sparse peak, no run
        exceeds one half.""",
        change="""
-    dense_peak = row["tflops"] * 1e12 / (2 if row["sparsity"] else 1)
+    dense_peak = row["tflops"] * 1e12
""",
    ),
    wrong_hfu(
        "always_four_thirds",
        "model_utilization * 4 / 3",
        """The factor is 4/3, whatever is recomputed. That is right if the whole forward pass runs again. A run that
        recomputes the share r of it executes (3 + r)/3 of the model's FLOPs.""",
    ),
    wrong_hfu(
        "four_thirds_for_any_part",
        "model_utilization * (4 / 3 if recomputed else 1)",
        """The factor is 4/3 if anything is recomputed. That is right if the whole forward pass runs again. A run that
        recomputes the share r of it executes (3 + r)/3 of the model's FLOPs.""",
    ),
    wrong_hfu(
        "forward_is_the_step",
        "model_utilization * (1 + recomputed)",
        """A forward pass that runs again counts as a whole step. It is one third of a step: backward takes the other
        two thirds.""",
    ),
    wrong_hfu(
        "hardware_does_less",
        "model_utilization * 3 / (3 + recomputed)",
        """Numerator and denominator are swapped. Recomputed operations are work for the hardware and not for the model,
        so HFU is never below MFU.""",
    ),
    wrong_hfu(
        "backward_as_long_as_forward",
        "model_utilization * (2 + recomputed) / 2",
        """Backward counts as much as forward, so forward is half of a step. Backward takes twice the FLOPs of forward,
        one product for the weights' gradients and one for the inputs': forward is one third.""",
    ),
    wrong_hfu(
        "capped_at_one",
        "min(1.0, model_utilization * (3 + recomputed) / 3)",
        """A utilization above 1 is returned as 1. It is impossible, so it shows that the rate, the peak or the formula
        is wrong; limited to 1, it looks like a perfect run. Return it as it is.""",
    ),
    KnownWrong(
        "weighted_by_calls",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""Each operation's time is multiplied by its calls. The milliseconds in `operations` are already
        the sum over all calls.""",
        change="""
-    total = sum(milliseconds for _, milliseconds in operations.values())
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    total = sum(calls * milliseconds for calls, milliseconds in operations.values())
+    tiny = sum(calls * ms for calls, ms in operations.values() if ms / calls < TINY_MS)
""",
    ),
    KnownWrong(
        "tiny_in_microseconds",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""Microseconds are compared with TINY_MS, which is in milliseconds. No call is shorter than 0.02
        µs, so no operation is tiny.""",
        change="""
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    tiny = sum(milliseconds for calls, milliseconds in operations.values() if 1000 * milliseconds / calls < TINY_MS)
""",
    ),
    KnownWrong(
        "all_calls_together",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""The time of all calls of an operation is compared with TINY_MS. 300 calls of 5 µs take 1.5 ms
        together, but each call is tiny. Divide the time by the calls.""",
        change="""
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds < TINY_MS)
""",
    ),
    KnownWrong(
        "share_of_the_names",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""The result is the number of tiny operations over the number of all operations. It says nothing
        about time: one operation of a hundred may take nearly all of it. Divide self times.""",
        change="""
-    total = sum(milliseconds for _, milliseconds in operations.values())
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    total = len(operations)
+    tiny = sum(milliseconds / calls < TINY_MS for calls, milliseconds in operations.values())
""",
    ),
    KnownWrong(
        "tiny_at_the_limit",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""An operation whose calls take exactly TINY_MS counts as tiny. Tiny operations take less.""",
        change="""
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls <= TINY_MS)
""",
    ),
    KnownWrong(
        "share_of_the_calls",
        fails=("tiny_share/share",),
        read=CAUSE,
        explanation="""The result is the share of calls that are tiny, not the share of time. A healthy step makes
        hundreds of tiny calls that take little time together. Divide self times.""",
        change="""
-    total = sum(milliseconds for _, milliseconds in operations.values())
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    total = sum(calls for calls, _ in operations.values())
+    tiny = sum(calls for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
""",
    ),
    KnownWrong(
        "no_time_at_all",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""If no operation has any self time, the function divides by 0. A trace of steps without
        operations, for example of a loader alone, gives 0.0.""",
        change="""
-    return tiny / total if total else 0.0
+    return tiny / total
""",
    ),
    KnownWrong(
        "no_time_in_operations",
        fails=("tiny_share/share",),
        read=TRACE,
        explanation="""The share of no operations is 0.0, but if there are operations and each of them has a self time
        of 0, the function divides by 0. Test the sum of the self times, not the dictionary.""",
        change="""
-    return tiny / total if total else 0.0
+    return tiny / total if operations else 0.0
""",
    ),
    KnownWrong(
        "tiny_ops_first",
        fails=("diagnose/starved", "diagnose/sync"),
        read=CAUSE,
        explanation="""The result is tiny operations although data starves the step, or numbers are read often. A step
        that waits for data most of the time stays as slow if its operations get larger. Test the causes in the order of
        the docstring.""",
        change="""
+    if tiny_share(operations) > TINY_SHARE:
+        return "many tiny ops"
     if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
""",
    ),
    KnownWrong(
        "reads_first",
        fails=("diagnose/starved",),
        read=CAUSE,
        explanation="""The result is reads although data starves the step. A step that waits for data most of the time
        stays as slow if it reads fewer numbers. Test the causes in the order of the docstring.""",
        change="""
+    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= SYNCS:
+        return "sync every step"
     if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
""",
    ),
    KnownWrong(
        "warm_up_diagnosed",
        fails=("diagnose/starved", "diagnose/sync", "diagnose/tiny"),
        read=WARM_UP,
        explanation="""The first steps are diagnosed together with the measured steps. They open files, start threads
        and make the optimizer's state, which slows them and no later step. Leave out the first `warmup` steps.""",
        change="""
     ranges = [event for event in events if event.get("cat") == "user_annotation"]
+    warmup = 0
""",
    ),
    KnownWrong(
        "item_for_every_read",
        fails=("diagnose/sync",),
        read=TRACE,
        explanation="""Calls of aten::item are counted. An extension or tolist can hand numbers to Python without
        aten::item, but every read ends in aten::_local_scalar_dense: count its calls.""",
        change="""
-    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= SYNCS:
+    if operations.get("aten::item", (0, 0.0))[0] / steps >= SYNCS:
""",
    ),
    KnownWrong(
        "warm_up_in_the_divisor",
        fails=("diagnose/sync",),
        read=WARM_UP,
        explanation="""The calls of the measured steps are divided by the number of all steps, the first steps included,
        so the calls per step are too few. Subtract `warmup` from the number of steps.""",
        change="""
-    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges) - warmup
+    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges)
""",
    ),
    KnownWrong(
        "ranges_of_the_gpu_are_steps",
        fails=("diagnose/sync",),
        read=TRACE,
        explanation="""A range of the GPU with a step's name counts as one more step. The number of steps is then about
        twice too large, and the calls per step are half of the right number. Select events by their kind.""",
        change="""
-    ranges = [event for event in events if event.get("cat") == "user_annotation"]
+    ranges = [event for event in events if event["ph"] == "X"]
""",
    ),
    KnownWrong(
        "steps_counted_by_their_numbers",
        fails=("diagnose/sync",),
        read=TRACE,
        explanation="""The number of steps is taken from the largest number in the steps' names. These numbers go on
        from earlier profiles and need not begin at 0, so the calls per step are far too few. Count the ranges of
        the steps.""",
        change="""
-    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges) - warmup
+    numbers = [int(event["name"][13:]) for event in ranges if event["name"].startswith("ProfilerStep#")]
+    steps = max(numbers) + 1 - warmup
""",
    ),
    KnownWrong(
        "more_than_the_limit",
        fails=("diagnose/sync",),
        read=CAUSE,
        explanation="""Exactly SYNCS calls per step are not diagnosed. "At least" includes the limit.""",
        change="""
-    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= SYNCS:
+    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps > SYNCS:
""",
    ),
    KnownWrong(
        "totals_judged",
        fails=("diagnose/tiny",),
        read=TRACE,
        explanation="""Total times are compared, not self times. Large operations count again in each operation that
        calls them, so the share of tiny operations is too small. Use `self_times`.""",
        change="""
-    operations = self_times(events, warmup)
+    begin = sorted(event["ts"] for event in ranges if event["name"].startswith("ProfilerStep#"))[warmup]
+    operations: dict[str, tuple[int, float]] = {}
+    for op in events:
+        if op.get("cat") == "cpu_op" and op["ts"] >= begin:
+            calls, milliseconds = operations.get(op["name"], (0, 0.0))
+            operations[op["name"]] = (calls + 1, milliseconds + op["dur"] / 1000)
""",
    ),
    KnownWrong(
        "half_for_a_fifth",
        fails=("diagnose/tiny",),
        read=CAUSE,
        explanation="""Tiny operations are diagnosed only if their share of the self time is far above TINY_SHARE. A
        fifth of the time in very short calls is already a fifth that a fix can gain. Compare with TINY_SHARE.""",
        change="""
-    if tiny_share(operations) > TINY_SHARE:
+    if tiny_share(operations) > 0.5:
""",
    ),
    KnownWrong(
        "calls_of_all_steps",
        fails=("diagnose/none",),
        read=CAUSE,
        explanation="""The calls of all measured steps are compared with a limit for one step. With twice as many
        profiled steps a healthy run exceeds it. Divide the calls by the number of measured steps.""",
        change="""
-    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= SYNCS:
+    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] >= SYNCS:
""",
    ),
    KnownWrong(
        "largest_phase_starves",
        fails=("diagnose/none",),
        read=CAUSE,
        explanation="""Data that takes more time than any other phase is called starving, whatever its share. The
        largest of four phases may take a third of the step. The limit is DATA_SHARE.""",
        change="""
-    if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
+    if max((shares := phase_fractions(events, warmup)[1]), key=lambda name: shares[name]) == "data":
""",
    ),
    KnownWrong(
        "hidden_loading_counts",
        fails=("diagnose/none",),
        read=FRACTIONS,
        explanation="""All time spent on data counts, also data that another thread loads while the model computes.
        Loading ahead is the fix for a starved step, and here it is diagnosed as the cause. Use the fraction of
        `phase_fractions`.""",
        change="""
-    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges) - warmup
+    measured = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
+    steps = len(measured)
+    data = sum(event["dur"] for event in ranges if event["name"] == "data" and event["ts"] >= measured[0][0])
     operations = self_times(events, warmup)
-    if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
+    if data > DATA_SHARE * sum(end - start for start, end in measured):
""",
    ),
    KnownWrong(
        "item_counted_twice",
        fails=("diagnose/none",),
        read=TRACE,
        explanation="""Calls of aten::item and of aten::_local_scalar_dense are added. aten::item calls
        aten::_local_scalar_dense, so each number that Python reads counts twice.""",
        change="""
-    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= SYNCS:
+    names = ("aten::item", "aten::_local_scalar_dense")
+    if sum(operations.get(name, (0, 0.0))[0] for name in names) / steps >= SYNCS:
""",
    ),
    KnownWrong(
        "many_for_tiny",
        fails=("diagnose/none",),
        read=CAUSE,
        explanation="""Many calls are diagnosed as tiny calls. A large model has many operations, and each may be long.
        Tiny operations are the cause if their share of the self time is above TINY_SHARE.""",
        change="""
         return "many tiny ops"
+    if sum(calls for calls, _ in operations.values()) / steps > 100:
+        return "many tiny ops"
""",
    ),
    wrong_patient(
        "idle_is_not_data",
        "a",
        "starved loader",
        """Patient A's step has long stretches in which no operation runs, as in a step that waits for data. But they
        are idle and not in the phase `data`: they come after the backward pass, and each ends when a number is handed
        to Python. Look at the calls of aten::_local_scalar_dense.""",
    ),
    wrong_patient(
        "calls_are_not_reads",
        "b",
        "sync every step",
        """Patient B makes thousands of calls, but none of them hands a number to Python: count
        aten::_local_scalar_dense. Most of the calls take far less than 0.02 ms of self time, and there are several
        times as many as tokens.""",
    ),
    wrong_patient(
        "python_makes_no_ops",
        "c",
        "many tiny ops",
        """Patient C's time is not in operations, tiny or not. It is in the phase `data`, in which plain Python runs and
        no operation of PyTorch.""",
    ),
    KnownWrong(
        "children_counted_again",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""Parameters of inner modules count several times, once for each module around them.
        `module.parameters()` already returns the parameters of all inner modules, each once.""",
        change="""
-    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    inner = [parameter for part in module.modules() for parameter in part.parameters()]
+    gradients = [parameter.grad for parameter in inner if parameter.grad is not None]
""",
    ),
    KnownWrong(
        "every_parameter_has_a_gradient",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""A parameter without a gradient is not skipped. `.grad` is None before the first backward, after
        `zero_grad`, and always for a frozen parameter.""",
        change="""
-    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    gradients = [parameter.grad for parameter in module.parameters()]
""",
    ),
    KnownWrong(
        "frozen_parameters_left_out",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""Parameters that do not require a gradient are left out. A parameter that was frozen after the
        backward pass still has its gradient, which clipping would count. Test `.grad`, not `requires_grad`.""",
        change="""
-    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
+    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
""",
    ),
    KnownWrong(
        "gradients_clipped",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""The gradients are scaled down to a norm of 1 by the measurement. The returned norm is right, but
        the gradients have changed, and the optimizer would take a smaller step. Measure without clipping.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return nn.utils.clip_grad_norm_(module.parameters(), 1.0).item()
""",
    ),
    KnownWrong(
        "always_in_float32",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""Gradients in float64 are converted to float32 before they are squared, which rounds them to 24
        bits. Compute in the gradients' own dtype or a wider one: double() is right for all.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return math.sqrt(sum(gradient.float().square().sum().item() for gradient in gradients))
""",
    ),
    KnownWrong(
        "mean_of_squares",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""The result is a root mean square: the size of a typical number of the gradient. The norm that
        clipping uses is the root of the sum of squares. Do not divide by the number of elements.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    numbers = sum(gradient.numel() for gradient in gradients)
+    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients) / max(1, numbers))
""",
    ),
    KnownWrong(
        "no_root",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""The result is the square of the norm: if the loss is doubled, it is four times as large. Take the
        square root.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return sum((gradient.double().square().sum().item() for gradient in gradients), 0.0)
""",
    ),
    KnownWrong(
        "shared_weight_counted_twice",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""A layer that is used in two places counts twice. It has one gradient, the sum over both places,
        so its parameters count once.""",
        change="""
-    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    parameters = [parameter for _, parameter in module.named_parameters(remove_duplicate=False)]
+    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
""",
    ),
    KnownWrong(
        "tied_weight_counted_twice",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""A parameter that two modules share, such as the weight of a GPT's embedding and output layer,
        counts twice. It is one parameter with one gradient; `module.parameters()` returns it once.""",
        change="""
-    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    own = [parameter for part in module.modules() for parameter in part.parameters(recurse=False)]
+    gradients = [parameter.grad for parameter in own if parameter.grad is not None]
""",
    ),
    KnownWrong(
        "sum_of_norms",
        fails=("gradient_norm/norm",),
        read=HOOKS,
        explanation="""The norms of the parameters' gradients are added. Norms of the parts of a vector do not add up,
        but their squares do: parts of norms 3 and 4 make a vector of norm 5. Add the squares, then take the root.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return sum((gradient.norm().item() for gradient in gradients), 0.0)
""",
    ),
    KnownWrong(
        "squares_overflow",
        fails=("gradient_norm/narrow",),
        read=HOOKS,
        explanation="""The squares of float16 gradients are computed in float16, whose largest number is 65,504: a
        gradient of 300 makes the norm infinite. bfloat16 does not overflow, but its sums keep 8 bits. Convert gradients
        before you square them.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
""",
    ),
    KnownWrong(
        "norm_by_flattening",
        fails=("gradient_norm/narrow",),
        read=HOOKS,
        explanation="""The gradients are concatenated in the widest dtype among them. If all have one narrow dtype, it
        stays narrow: the squares of float16 overflow, and bfloat16 keeps 8 bits. Convert gradients before you square
        them.""",
        change="""
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    joined = torch.cat([gradient.flatten() for gradient in gradients]) if gradients else torch.zeros(1)
+    return float(joined.square().sum().sqrt().item())
""",
    ),
    KnownWrong(
        "every_output_needs_a_gradient",
        fails=("note/activation", "note/gradient"),
        read=HOOKS,
        explanation="""The forward pass raises an error if an output needs no gradient, as that of a frozen layer or any
        output under no_grad: a hook cannot be registered on such a tensor. Test `output.requires_grad` first.""",
        change="""
-        if output.requires_grad:
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+        handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
""",
    ),
    KnownWrong(
        "last_call_only",
        fails=("note/activation", "note/end"),
        read=HOOKS,
        explanation="""Each call of the module replaces the note of the call before. Two calls in a step, or two steps,
        then leave one note, and a difference between them is lost. Append a note for each call.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        activations[:] = [wide(output).square().mean().sqrt()]
""",
    ),
    KnownWrong(
        "norm_for_mean",
        fails=("note/activation",),
        read=HOOKS,
        explanation="""The activation's note is the L2 norm, which grows with the number of elements. A wide layer then
        seems to have larger outputs than a narrow one, and twice the batch looks like an explosion. The root mean
        square does not depend on the number of elements.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(wide(output).norm())
""",
    ),
    KnownWrong(
        "outputs_kept_whole",
        fails=("note/activation",),
        read=HOOKS,
        explanation="""The notes are the whole outputs. Outputs are activations, which often take most of the memory.
        Keep one number of each output.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(output.detach())
""",
    ),
    KnownWrong(
        "spread_for_size",
        fails=("note/activation",),
        read=HOOKS,
        explanation="""The activation's note is the standard deviation, which subtracts the mean first. A layer whose
        outputs are all near 100 then looks like a layer whose outputs are near 0. Large outputs overflow whatever their
        mean is: note the root mean square.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(wide(output).std())
""",
    ),
    KnownWrong(
        "first_backward_only",
        fails=("note/gradient",),
        read=HOOKS,
        explanation="""Of several backward passes through one output, only the first is noted. With retain_graph, or
        with several losses from one forward, backward passes the same output again. Note each of them.""",
        change="""
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            seen: list[int] = []
+
+            def once(gradient: Tensor) -> None:
+                if not seen:
+                    gradients.append(wide(gradient).norm())
+                seen.append(1)
+
+            handles.append(output.register_hook(once))
""",
    ),
    KnownWrong(
        "gradient_of_the_input",
        fails=("note/gradient", "note/end", "note/undisturbed"),
        read=HOOKS,
        explanation="""The gradient's note is that of the module's input, which is the output of the module before. A
        full backward hook receives two gradients: `grad_input`, of the module's inputs, and `grad_output`, of its
        outputs. Note the gradient of the output.""",
        change="""
-        if output.requires_grad:
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
@@
     handles.append(module.register_forward_hook(hook))
+
+    def backward_hook(module: nn.Module, grad_input: Any, grad_output: Any) -> None:
+        if grad_input and grad_input[0] is not None:
+            gradients.append(wide(grad_input[0]).norm())
+
+    warnings.simplefilter("ignore")  # torch warns where no input needs a gradient
+    handles.append(module.register_full_backward_hook(backward_hook))
""",
        definitions="""
import warnings
""",
    ),
    KnownWrong(
        "gradient_of_the_weights",
        fails=("note/gradient",),
        read=HOOKS,
        explanation="""The gradient's note is that of the module's weights, not of its output. The weights' gradient is
        the sum over all calls of the module. Note the gradient of each output.""",
        change="""
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            weight = next(module.parameters())
+            if weight.requires_grad:
+                handles.append(weight.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
""",
    ),
    KnownWrong(
        "root_mean_square_for_both",
        fails=("note/gradient",),
        read=HOOKS,
        explanation="""The gradient's note is its root mean square instead of its L2 norm. The norm is the root of the
        sum of squares, not of their mean.""",
        change="""
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            note_gradient = lambda gradient: gradients.append(wide(gradient).square().mean().sqrt())
+            handles.append(output.register_hook(note_gradient))
""",
    ),
    KnownWrong(
        "hook_because_of_the_weights",
        fails=("note/no-backward",),
        read=HOOKS,
        explanation="""The output gets a hook because the module has weights that train. Under no_grad its output has no
        graph all the same, and register_hook raises an error there: an evaluation ends the run. Ask the output whether
        it requires a gradient.""",
        change="""
-        if output.requires_grad:
+        if any(parameter.requires_grad for parameter in module.parameters()):
""",
    ),
    KnownWrong(
        "computed_in_the_outputs_dtype",
        fails=("note/narrow",),
        read=HOOKS,
        explanation="""Notes of a float16 layer are computed in float16, where the square of 300 is infinite. Those of a
        bfloat16 layer have 8 bits. Convert the tensor to float32 before you square it.""",
        change="""
-        return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))
+        return tensor.detach()
""",
    ),
    KnownWrong(
        "everybodys_hooks_removed",
        fails=("note/end",),
        read=HOOKS,
        explanation="""At the end all hooks of the module are removed, also those of other code, such as a profiler or
        FSDP. Remove only the hooks that you have registered, by their handles.""",
        change="""
         for handle in handles:
             handle.remove()
+        module._forward_hooks.clear()
""",
    ),
    KnownWrong(
        "hooks_left",
        fails=("note/end",),
        read=HOOKS,
        explanation="""The hooks stay after the end. Each later forward pass runs them, and each later watch adds more
        hooks: the run gets slower with every step, and the lists keep growing. Remove every hook by its handle.""",
        change="""
-        for handle in handles:
-            handle.remove()
+        return None
""",
    ),
    KnownWrong(
        "pending_backward_noted",
        fails=("note/end",),
        read=HOOKS,
        explanation="""A backward pass after the end still adds notes: removing the module's forward hook does not
        remove hooks on outputs that wait for their gradient. A hook on an output has its own handle; a module's
        backward hook stays in graphs that exist already.""",
        change="""
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            output.register_hook(lambda gradient: gradients.append(wide(gradient).norm()))
""",
    ),
    KnownWrong(
        "last_pending_output_only",
        fails=("note/end",),
        read=HOOKS,
        explanation="""Only the hook of the last output is removed at the end. If several outputs wait for their
        gradient, as with two forward passes before one backward, the other hooks still add notes. Keep the handles
        of all outputs in a list.""",
        change="""
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            handles[1:] = [output.register_hook(lambda gradient: gradients.append(wide(gradient).norm()))]
""",
    ),
    KnownWrong(
        "graph_in_the_notes",
        fails=("note/nothing-kept",),
        read=HOOKS,
        explanation="""The notes are computed with autograd, so each note has a graph that leads back to the activations
        of its step. They stay in memory as long as the note does, and memory grows with every step. Detach the output
        first.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(output.to(torch.promote_types(output.dtype, torch.float32)).square().mean().sqrt())
""",
    ),
    KnownWrong(
        "graph_in_the_gradients_notes",
        fails=("note/nothing-kept",),
        read=HOOKS,
        explanation="""The notes of gradients are computed without detaching the gradient. Under create_graph=True, as
        for a penalty on the gradient, it has a graph, and each note keeps that graph in memory. Detach it first.""",
        change="""
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            dtype = torch.promote_types(output.dtype, torch.float32)
+            handles.append(output.register_hook(lambda gradient: gradients.append(gradient.to(dtype).norm())))
""",
    ),
    KnownWrong(
        "outputs_kept_aside",
        fails=("note/nothing-kept",),
        read=HOOKS,
        explanation="""The notes are right, but the outputs from which they are computed are still in memory after the
        step. Some object keeps them, or views of them. Activations often take most of the memory: keep only the
        notes.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        handle = type("Kept", (), {"remove": lambda self: None})()
+        handle.output = output.detach()
+        handles.append(handle)
+        activations.append(wide(output).square().mean().sqrt())
""",
    ),
    KnownWrong(
        "waits_in_the_hook",
        fails=("note/no-wait",),
        read=HOOKS,
        explanation="""Each note is converted to a Python number in the hook, so Python waits until the device has
        computed it, in every module and every step. The monitor then slows down the run. Keep the scalar tensor: code
        that reads it later waits once.""",
        change="""
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(wide(output).square().mean().sqrt().item())
""",
    ),
    KnownWrong(
        "full_backward_hook",
        fails=("note/undisturbed",),
        read=HOOKS,
        explanation="""A full backward hook is registered on the module. Torch then makes the module's output a view,
        and an operation that changes this view in place, such as nn.ReLU(inplace=True), raises an error. A hook on the
        output itself, output.register_hook, does not change the output.""",
        change="""
-        if output.requires_grad:
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))

     def stop() -> None:
+        on.clear()
         for handle in handles:
             handle.remove()

     handles.append(module.register_forward_hook(hook))
+    on = [True]
+
+    def backward_hook(module, grad_input, grad_output):
+        if on:
+            gradients.append(wide(grad_output[0]).norm())
+
+    warnings.simplefilter("ignore")  # torch warns where no input needs a gradient
+    handles.append(module.register_full_backward_hook(backward_hook))
""",
        definitions="""
import warnings
""",
    ),
    KnownWrong(
        "module_in_eval",
        fails=("note/undisturbed",),
        read=HOOKS,
        explanation="""The module is in evaluation mode afterwards, so the run with notes has no dropout there and
        normalizes with running statistics. A monitor that changes the run measures another run. Leave the mode.""",
        change="""
     handles.append(module.register_forward_hook(hook))
+    module.eval()
""",
    ),
    KnownWrong(
        "all_under_the_last_name",
        fails=("watch/notes",),
        read=HOOKS,
        explanation="""All notes are under one name. A function that is made in a loop reads the loop's variable when
        the function runs; after the loop, the variable has its last value. Give each function its own lists.""",
        change="""
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
+    last = log[[*modules][-1]]
+    stops = [note(module, last["activation"], last["gradient"]) for module in modules.values()]
""",
    ),
    KnownWrong(
        "one_name_for_each_module",
        fails=("watch/notes",),
        read=HOOKS,
        explanation="""A module that has two names is noted under one of them. A dictionary from modules to names keeps
        one name for each module. Go through the names, and call `note` for each.""",
        change="""
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
+    names = {module: name for name, module in modules.items()}
+    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for module, name in names.items()]
""",
    ),
    KnownWrong(
        "lists_shared_by_all_names",
        fails=("watch/notes",),
        read=HOOKS,
        explanation="""All names share the same two lists, so each name has the notes of every module. dict.fromkeys
        gives all keys the same value. Make new lists for each name.""",
        change="""
-    log: dict[str, dict[str, list[Tensor]]] = {name: {"activation": [], "gradient": []} for name in modules}
+    log: dict[str, dict[str, list[Tensor]]] = dict.fromkeys(modules, {"activation": [], "gradient": []})
""",
    ),
    KnownWrong(
        "names_appear_when_called",
        fails=("watch/notes",),
        read=HOOKS,
        explanation="""A module that is never called is missing from the dictionary. Code that reads the dictionary
        expects two lists for each name: an empty list means that no output was noted.""",
        change="""
         yield log
     finally:
         for stop in stops:
             stop()
+        for name in [name for name in log if not log[name]["activation"]]:
+            del log[name]
""",
    ),
    KnownWrong(
        "errors_swallowed",
        fails=("watch/removed",),
        read=HOOKS,
        explanation="""An exception in the block is suppressed. The code around the block then continues as if the step
        had worked. Clean up in `finally`, which lets the exception pass.""",
        change="""
         yield log
+    except Exception:
+        pass
""",
    ),
    KnownWrong(
        "removed_only_if_all_went_well",
        fails=("watch/removed",),
        read=HOOKS,
        explanation="""The hooks stay after an exception in the block, for example an out-of-memory error or Ctrl-C,
        after which you go on with the same model in a notebook. Remove them in `finally`, which always runs.""",
        change="""
-    try:
-        yield log
-    finally:
-        for stop in stops:
-            stop()
+    yield log
+    for stop in stops:
+        stop()
""",
    ),
    KnownWrong(
        "removed_after_exceptions_only",
        fails=("watch/removed",),
        read=HOOKS,
        explanation="""The hooks stay after Ctrl-C in the block, and in a notebook you go on with the same model.
        KeyboardInterrupt is no Exception, so `except Exception` does not catch it. Remove the hooks in `finally`.""",
        change="""
-    finally:
-        for stop in stops:
-            stop()
+    except Exception:
+        for stop in stops:
+            stop()
+        raise
+    for stop in stops:
+        stop()
""",
    ),
    KnownWrong(
        "one_stop_for_each_module",
        fails=("watch/removed",),
        read=HOOKS,
        explanation="""The hooks of a module that has two names are not all removed. A dictionary from modules to the
        functions that end the notes keeps one function for each module, and `note` was called twice. Keep these
        functions in a list.""",
        change="""
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
+    stops = {module: note(module, *log[name].values()) for name, module in modules.items()}
@@
-        for stop in stops:
+        for stop in stops.values():
""",
    ),
    KnownWrong(
        "never_stopped",
        fails=("watch/removed",),
        read=HOOKS,
        explanation="""The notes do not end with the block. Each later forward pass adds to them, and each later watch
        adds more hooks.""",
        change="""
-        for stop in stops:
-            stop()
+        stops.clear()
""",
    ),
)

HURRIED = {
    "merged": {
        "pairs that lie inside are lost": """
-        if whole and start <= whole[-1][1]:
+        if whole and end <= whole[-1][1]:
""",
        "a set of pairs": """
-    for start, end in sorted(intervals):
+    for start, end in set(intervals):
""",
        "a tuple": """
-    return whole
+    return tuple(whole)
""",
    },
    "phase_fractions": {
        "no warm-up at all": """
-    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
+    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))
""",
        "drops one step too many": """
-    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
+    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup + 1 :]
""",
        "drops the last steps": """
-    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
+    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[: -warmup or None]
""",
        "the phases in another order": """
-    for phase in PHASES:
+    for phase in sorted(PHASES):
""",
        "prefix for the phase's name": """
-        taken += [(start, end) for name, start, end in spans if name == phase]
+        taken += [(start, end) for name, start, end in spans if phase in name.lower()]
""",
        "the longest step": """
-    return statistics.median(end - start for start, end in steps) / 1000, fractions
+    return max(end - start for start, end in steps) / 1000, fractions
""",
    },
    "self_times": {
        "only the top two levels": """

+    operations = operations[:40]
     running: list[Event] = []  # the innermost last
""",
        "calls are per step": """
-            found[op["name"]] = (before[0] + calls, before[1] + microseconds / 1000)
+            found[op["name"]] = (before[0] + calls / len(steps), before[1] + microseconds / 1000)
""",
        "the last step is left out": """
-    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
+    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:-1]
""",
        "operations of aten only": """
-    operations = [event for event in events if event.get("cat") == "cpu_op"]
+    operations = [event for event in events if event.get("cat") == "cpu_op" and event["name"].startswith("aten::")]
""",
        "all after the first measured step": """
-        if any(start <= op["ts"] < end for start, end in steps):
+        if op["ts"] >= steps[0][0]:
""",
    },
    "utilization": {
        "the first row of the sheet": """
-    row = next(row for row in sheet if row["dtype"] == dtype)
+    row = next(row for row in sheet if True)
""",
        "rounds to percent": """
-    return tokens_per_second * token_flops / (devices * dense_peak)
+    return round(tokens_per_second * token_flops / (devices * dense_peak), 2)
""",
        "TFLOP for FLOP": """
-    dense_peak = row["tflops"] * 1e12 / (2 if row["sparsity"] else 1)
+    dense_peak = row["tflops"] * 1e9 / (2 if row["sparsity"] else 1)
""",
        "hides an impossible utilization": """
-    return tokens_per_second * token_flops / (devices * dense_peak)
+    return min(1.0, tokens_per_second * token_flops / (devices * dense_peak))
""",
        "a tensor": """
-    return 6 * (parameters - looked_up) + 12 * layers * heads * head_dim * seq_len
+    import torch
+
+    return torch.tensor(6) * (parameters - looked_up) + 12 * layers * heads * head_dim * seq_len
""",
    },
    "tiny_share": {
        "a percentage": """
-    return tiny / total if total else 0.0
+    return 100 * tiny / total if total else 0.0
""",
        "operations for time": """
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    tiny = sum(total / len(operations) for calls, ms in operations.values() if ms / calls < TINY_MS)
""",
        "an int for nothing": """
-    return tiny / total if total else 0.0
+    return tiny / total if total else 0
""",
        "the mean of all calls": """
-    tiny = sum(milliseconds for calls, milliseconds in operations.values() if milliseconds / calls < TINY_MS)
+    mean = total / max(1, sum(calls for calls, _ in operations.values()))
+    tiny = total if mean < TINY_MS else 0.0
""",
    },
    "diagnose": {
        "share of the step": """
-    if tiny_share(operations) > TINY_SHARE:
+    if tiny_share(operations) * sum(ms for _, ms in operations.values()) > (
+        TINY_SHARE * phase_fractions(events, warmup)[0] * steps
+    ):
""",
        "any data starves": """
-    if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
+    if phase_fractions(events, warmup)[1]["data"] > 0.01:
""",
        "any read is a sync": """
-    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= SYNCS:
+    if operations.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps >= 1:
""",
        "reads in the warm-up": """
-    operations = self_times(events, warmup)
+    operations = self_times(events, 0)
""",
        "always data": """
-    return "none of these"
+    return "starved loader"
""",
        "waiting is data": """
-    if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
+    if phase_fractions(events, warmup)[1]["data"] > 1 - 0.5 - phase_fractions(events, warmup)[1]["idle"]:
""",
        "warm-up subtracted twice": """
-    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges) - warmup
+    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges) - 2 * warmup
""",
    },
    "gradient_norm": {
        "norms of weights": """
-    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    gradients = [parameter for parameter in module.parameters() if parameter.grad is not None]
""",
        "largest gradient": """
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return max([gradient.norm().item() for gradient in gradients], default=0.0)
""",
        "a norm that is a tensor": """
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return sum(gradient.double().square().sum() for gradient in gradients) ** 0.5 if gradients else 0.0
""",
        "squares in place": """
-    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
+    return math.sqrt(sum(gradient.square_().double().sum().item() for gradient in gradients))
""",
        "an integer zero": """
     gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
+    if not gradients:
+        return 0
""",
    },
    "note": {
        "mean for root mean square": """
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(wide(output).abs().mean())
""",
        "reads by tolist": """
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(output.new_tensor(wide(output).square().mean().sqrt().tolist()))
""",
        "while training only": """
-        activations.append(wide(output).square().mean().sqrt())
+        module.training and activations.append(wide(output).square().mean().sqrt())
""",
        "removes the newest hook": """
-        for handle in handles:
-            handle.remove()
+        module._forward_hooks.popitem()
""",
        "in evaluation mode": """
     handles.append(module.register_forward_hook(hook))
+    module.eval()
""",
        "retains the gradient": """
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            output.retain_grad()
+            handles.append(output.register_hook(lambda gradient: gradients.append(output.grad or gradient.norm())))
""",
        "changes the output": """
-        activations.append(wide(output).square().mean().sqrt())
+        activations.append(wide(output).square().mean().sqrt())
+        return output + torch.rand(1) * 0
""",
        "float64 from float32": """
-            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm())))
+            handles.append(output.register_hook(lambda gradient: gradients.append(wide(gradient).norm().item())))
""",
    },
    "watch": {
        "watches one module": """
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
+    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in [*modules.items()][:2]]
""",
        "one hook stays": """
-        for stop in stops:
+        for stop in stops[1:]:
""",
        "lists the wrong way round": """
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
+    stops = [note(module, log[name]["gradient"], log[name]["activation"]) for name, module in modules.items()]
""",
        "takes the modules out": """
-    stops = [note(module, log[name]["activation"], log[name]["gradient"]) for name, module in modules.items()]
+    stops = []
+    while modules:
+        name, module = modules.popitem()
+        stops.append(note(module, log[name]["activation"], log[name]["gradient"]))
""",
        "plain numbers at the end": """
         for stop in stops:
             stop()
+        for lists in log.values():
+            lists.update({kind: lists[kind][:1] for kind in lists})
""",
    },
}
