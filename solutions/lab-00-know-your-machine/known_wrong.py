"""Known-wrong solutions of Lab 00, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "multiply_add_counted_once",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""A multiply-add counts as one FLOP. It is a multiplication and an addition: peaks of data
        sheets count both, so must the operation.""",
        change="""
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(math.prod(result) * a[-1], moved)
""",
    ),
    KnownWrong(
        "additions_without_the_first",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Each result takes m multiplications and m - 1 additions, and exactly that is counted. By
        convention it is 2m, because the hardware adds each product to a sum that starts at 0.""",
        change="""
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(math.prod(result) * (2 * a[-1] - 1), moved)
""",
    ),
    KnownWrong(
        "bytes_of_one_operand",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Only one operand's bytes are counted, besides the result's. A product reads both operands
        and writes the result: three matrices.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = math.prod(a) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "result_not_written",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The bytes of the result are missing. The result is written to memory like any other matrix.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype]
""",
    ),
    KnownWrong(
        "result_read_and_written",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The result's bytes count twice, as if it were read before it is written. A product that
        replaces its result writes it once.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + 2 * math.prod(result) * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "four_bytes_always",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Every number counts as 4 bytes. Half of the bytes per number is half of the traffic: the
        dtype decides.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = (math.prod(a) + math.prod(b) + math.prod(result)) * 4
""",
    ),
    KnownWrong(
        "numbers_for_bytes",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Numbers are counted and not bytes: multiply by the bytes per number of the dtype.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = math.prod(a) + math.prod(b) + math.prod(result)
""",
    ),
    KnownWrong(
        "reads_for_every_product",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Bytes are counted as if each multiplication read its two numbers from memory. Each operand
        is read once: that is the least, which tiles come near to.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = 2 * math.prod(result) * a[-1] * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "rows_for_the_inner_size",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The FLOPs are those of n * k results with n products each. Each result is a sum over the
        inner axis, m.""",
        change="""
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(2 * math.prod(result) * a[-2], moved)
""",
    ),
    KnownWrong(
        "flops_as_a_float",
        fails=("cost/matmul",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""A count is returned as a float. FLOPs and bytes are whole numbers, and ints are exact at any
        size.""",
        change="""
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(2.0 * math.prod(result) * a[-1], moved)  # type: ignore[arg-type]
""",
    ),
    KnownWrong(
        "batch_left_out",
        fails=("cost/batch", "cost/out-dtype"),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The FLOPs of one matrix of the batch are counted. A batch of b products has b times the
        FLOPs of one.""",
        change="""
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(2 * a[-2] * b[-1] * a[-1], moved)
""",
    ),
    KnownWrong(
        "batch_of_the_left",
        fails=("cost/batch",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The batch is taken from the left operand alone. Where the right operand has a larger batch,
        the left one is used again for each of its matrices.""",
        change="""
-    result = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
+    result = (*a[:-2], a[-2], b[-1])
""",
    ),
    KnownWrong(
        "broadcast_is_copied",
        fails=("cost/batch", "cost/out-dtype"),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""A matrix that all of the batch share is counted once per batch. It is read once: this is why
        a larger batch has a higher intensity.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    batch = math.prod(result[:-2])
+    numbers = batch * (a[-2] * a[-1] + b[-2] * b[-1])
+    moved = numbers * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "result_in_the_operands_dtype",
        fails=("cost/out-dtype",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The result counts in the operands' dtype. Products of int8 numbers are written as int32,
        four times as wide.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = (math.prod(a) + math.prod(b) + math.prod(result)) * BYTES[dtype]
""",
    ),
    KnownWrong(
        "operands_in_the_results_dtype",
        fails=("cost/out-dtype",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The operands count in the result's dtype. They are read as they are stored, in `dtype`.""",
        change="""
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
+    moved = (math.prod(a) + math.prod(b) + math.prod(result)) * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "any_inner_sizes",
        fails=("cost/out-dtype",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Shapes whose inner sizes differ get a cost. There is no such product: np.matmul raises
        ValueError too.""",
        change="""
-    if a[-1] != b[-2]:
-        raise ValueError(f"the inner sizes of {a} and {b} differ")
""",
    ),
    KnownWrong(
        "elements_of_one_operand",
        fails=("cost/elementwise",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Only the first operand's bytes are counted, besides the result's. Each operand is read.""",
        change="""
-    moved = sum(math.prod(shape) for shape in shapes) * BYTES[dtype] + result * BYTES[out_dtype or dtype]
+    moved = math.prod(shapes[0]) * BYTES[dtype] + result * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "elements_not_written",
        fails=("cost/elementwise",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The bytes of the result are missing. An elementwise operation writes as many numbers as its
        result has.""",
        change="""
-    moved = sum(math.prod(shape) for shape in shapes) * BYTES[dtype] + result * BYTES[out_dtype or dtype]
+    moved = sum(math.prod(shape) for shape in shapes) * BYTES[dtype]
""",
    ),
    KnownWrong(
        "operands_of_the_results_shape",
        fails=("cost/elementwise",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Each operand counts with the numbers of the result. An operand that broadcasts is read with
        the numbers of its own shape.""",
        change="""
-    moved = sum(math.prod(shape) for shape in shapes) * BYTES[dtype] + result * BYTES[out_dtype or dtype]
+    moved = len(shapes) * result * BYTES[dtype] + result * BYTES[out_dtype or dtype]
""",
    ),
    KnownWrong(
        "shape_of_the_first",
        fails=("cost/elementwise",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The result is taken to have the shape of the first operand. It has the shape to which all
        operands broadcast.""",
        change="""
-    result = math.prod(np.broadcast_shapes(*shapes))
+    result = math.prod(shapes[0])
""",
    ),
    KnownWrong(
        "flops_per_operand",
        fails=("cost/elementwise",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The FLOPs are multiplied by the number of operands. `flops` is the number per number of the
        result, whatever was read for it.""",
        change="""
-    return Cost(flops * result, moved)
+    return Cost(flops * result * len(shapes), moved)
""",
    ),
    KnownWrong(
        "bytes_per_flop",
        fails=("roofline/intensity",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Bytes are divided by FLOPs. The intensity is FLOPs per byte: the more, the less memory
        limits the operation.""",
        change="""
-    return cost.flops / cost.bytes
+    return cost.bytes / max(1, cost.flops)
""",
    ),
    KnownWrong(
        "whole_intensity",
        fails=("roofline/intensity",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The intensity is rounded to a whole number. Most elementwise operations have an intensity
        below 1.""",
        change="""
-    return cost.flops / cost.bytes
+    return cost.flops // cost.bytes
""",
    ),
    KnownWrong(
        "higher_of_two_rates",
        fails=("roofline/attainable",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The higher of the two rates is returned. The slower of memory and arithmetic decides: the
        roof is the lower one.""",
        change="""
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    return max(roof.peak, intensity(cost) * roof.bandwidth)
""",
    ),
    KnownWrong(
        "peak_always",
        fails=("roofline/attainable",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The peak is returned for every operation. Below the ridge memory delivers fewer numbers than
        the arithmetic could use.""",
        change="""
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    return roof.peak
""",
    ),
    KnownWrong(
        "memory_without_a_peak",
        fails=("roofline/attainable",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The rate grows with the intensity without end. Above the ridge the peak limits it.""",
        change="""
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    return intensity(cost) * roof.bandwidth
""",
    ),
    KnownWrong(
        "bandwidth_over_intensity",
        fails=("roofline/attainable",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The bandwidth is divided by the intensity. Bytes/s times FLOPs per byte are FLOP/s.""",
        change="""
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    return min(roof.peak, roof.bandwidth / max(1e-9, intensity(cost)))
""",
    ),
    KnownWrong(
        "times_added",
        fails=("roofline/seconds",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The times of arithmetic and memory are added. A device does both at the same time, so the
        least time is the larger of the two.""",
        change="""
-    return max(cost.flops / roof.peak, cost.bytes / roof.bandwidth)
+    return cost.flops / roof.peak + cost.bytes / roof.bandwidth
""",
    ),
    KnownWrong(
        "shorter_of_two_times",
        fails=("roofline/seconds",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The shorter of the two times is returned. The operation is done when its FLOPs and its bytes
        are both done.""",
        change="""
-    return max(cost.flops / roof.peak, cost.bytes / roof.bandwidth)
+    return sorted((cost.flops / roof.peak, cost.bytes / roof.bandwidth))[0]
""",
    ),
    KnownWrong(
        "flops_at_the_peak",
        fails=("roofline/seconds",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The time is that of the FLOPs at the peak. It leaves the bytes out, which take longer below
        the ridge.""",
        change="""
-    return max(cost.flops / roof.peak, cost.bytes / roof.bandwidth)
+    return cost.flops / roof.peak
""",
    ),
    KnownWrong(
        "copy_takes_no_time",
        fails=("roofline/seconds",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""An operation without FLOPs is given no time. A copy takes the time of its bytes.""",
        change="""
-    return max(cost.flops / roof.peak, cost.bytes / roof.bandwidth)
+    return cost.flops / attainable(cost, roof) if cost.flops else 0.0
""",
    ),
    KnownWrong(
        "words_swapped",
        fails=("limit/word",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The two words are swapped. Below the ridge, where there are few FLOPs per byte, memory
        limits the operation.""",
        change="""
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "compute" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "memory"
""",
    ),
    KnownWrong(
        "limit_by_one_flop_per_byte",
        fails=("limit/word",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The limit is derived from the intensity alone, as if every device had the same ridge. Compare
        with peak / bandwidth of this device.""",
        change="""
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "memory" if cost.flops < cost.bytes else "compute"
""",
    ),
    KnownWrong(
        "always_memory",
        fails=("limit/word",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Every operation is limited by memory. Products with many rows are above the ridge.""",
        change="""
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "memory"
""",
    ),
    KnownWrong(
        "ridge_is_memory",
        fails=("limit/ridge",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""At the ridge itself the answer is memory. Memory delivers just enough there, and the peak is
        reached.""",
        change="""
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "memory" if cost.bytes * roof.peak >= cost.flops * roof.bandwidth else "compute"
""",
    ),
    KnownWrong(
        "near_the_ridge_is_memory",
        fails=("limit/ridge",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Operations a little above the ridge count as limited by memory, as they do where numbers are
        rounded before they are compared. Compare products or quotients without rounding.""",
        change="""
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "memory" if cost.flops - 1.5 < cost.bytes * roof.peak / roof.bandwidth else "compute"
""",
    ),
    KnownWrong(
        "ridge_without_dtype",
        fails=("limit/rows",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""The bytes per number are left out: the ridge is in FLOPs per byte, and the matrices are
        counted in numbers.""",
        change="""
-    ridge = roof.peak / roof.bandwidth * BYTES[dtype]  # FLOPs per number instead of per byte
+    ridge = roof.peak / roof.bandwidth
""",
    ),
    KnownWrong(
        "two_bytes_for_every_dtype",
        fails=("limit/rows",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""The formula is that of bf16, whatever the dtype. A number of fp32 has twice the bytes, and
        needs more rows.""",
        change="""
-    ridge = roof.peak / roof.bandwidth * BYTES[dtype]  # FLOPs per number instead of per byte
+    ridge = roof.peak / roof.bandwidth * 2
""",
    ),
    KnownWrong(
        "weights_alone",
        fails=("limit/rows",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""Only the bytes of the weights are counted. Inputs and outputs grow with the rows, and take
        part of what each row gains.""",
        change="""
-    gained = 2 * inner * columns - ridge * (inner + columns)  # 2rmk = ridge * (rm + mk + rk), solved for r
+    gained = 2 * inner * columns
""",
    ),
    KnownWrong(
        "output_not_counted",
        fails=("limit/rows",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""The bytes of the outputs are left out of the intensity: r rows write rk numbers besides the
        rm that they read.""",
        change="""
-    gained = 2 * inner * columns - ridge * (inner + columns)  # 2rmk = ridge * (rm + mk + rk), solved for r
+    gained = 2 * inner * columns - ridge * inner
""",
    ),
    KnownWrong(
        "rows_with_single_flops",
        fails=("limit/rows",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""A multiply-add counts as one FLOP, which doubles the rows that seem to be needed.""",
        change="""
-    gained = 2 * inner * columns - ridge * (inner + columns)  # 2rmk = ridge * (rm + mk + rk), solved for r
+    gained = inner * columns - ridge * (inner + columns)
""",
    ),
    KnownWrong(
        "whole_rows",
        fails=("limit/rows",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""The number of rows is rounded up. The contract asks for the exact solution of the formula, a
        float.""",
        change="""
-    return ridge * inner * columns / gained if gained > 0 else math.inf
+    return float(math.ceil(ridge * inner * columns / gained)) if gained > 0 else math.inf
""",
    ),
    KnownWrong(
        "negative_rows",
        fails=("limit/never",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""A layer that never reaches the ridge gets a negative number of rows, the formula's other
        branch. Return math.inf where the denominator is 0 or less.""",
        change="""
-    return ridge * inner * columns / gained if gained > 0 else math.inf
+    return ridge * inner * columns / gained if gained else math.inf
""",
    ),
    KnownWrong(
        "rows_in_size",
        fails=("limit/never",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""A layer that never reaches the ridge gets the absolute value of the formula. A denominator
        below 0 means that no number of rows is enough: math.inf.""",
        change="""
-    return ridge * inner * columns / gained if gained > 0 else math.inf
+    return ridge * inner * columns / abs(gained) if gained else math.inf
""",
    ),
    KnownWrong(
        "zero_rows_for_never",
        fails=("limit/never",),
        read="handbook/hardware-and-roofline.md#problems",
        explanation="""A layer that never reaches the ridge gets 0 rows, which would mean that it is always above
        it. The answer is math.inf.""",
        change="""
-    return ridge * inner * columns / gained if gained > 0 else math.inf
+    return ridge * inner * columns / gained if gained > 0 else 0.0
""",
    ),
    KnownWrong(
        "mean_of_repeats",
        fails=("measure/median",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The mean of the repeats is returned. One repeat that another program interrupted moves a
        mean as far as it likes, and a median hardly.""",
        change="""
-    return statistics.median(times)
+    return statistics.mean(times)
""",
    ),
    KnownWrong(
        "fastest_repeat",
        fails=("measure/median",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The fastest repeat is returned. It answers another question, how fast the operation can be;
        the contract asks for the median.""",
        change="""
-    return statistics.median(times)
+    return sorted(times)[0]
""",
    ),
    KnownWrong(
        "last_repeat",
        fails=("measure/median",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""One repeat alone decides. A single time tells nothing of its spread: take the median of all.""",
        change="""
-    return statistics.median(times)
+    return times[-1]
""",
    ),
    KnownWrong(
        "sum_of_repeats",
        fails=("measure/median",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The total of all repeats is returned, not the time of one.""",
        change="""
-    return statistics.median(times)
+    return sum(times)
""",
    ),
    KnownWrong(
        "lower_median",
        fails=("measure/median",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""With an even number of repeats, one of the two middle times is returned. The median is the
        mean of both.""",
        change="""
-    return statistics.median(times)
+    return statistics.median_low(times)
""",
    ),
    KnownWrong(
        "times_not_sorted",
        fails=("measure/median",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The middle of the times is taken in the order of measuring. The median is the middle of the
        sorted times.""",
        change="""
-    return statistics.median(times)
+    return times[len(times) // 2]
""",
    ),
    KnownWrong(
        "no_warmup",
        fails=("measure/warmup", "measure/idle"),
        read="handbook/profiling.md#before-you-measure",
        explanation="""No call is made before the first reading. First calls compile, allocate and fill caches, so
        they take longer than all others.""",
        change="""
-    for _ in range(warmup):
-        function()
+    warmup = 0
""",
    ),
    KnownWrong(
        "mean_with_warmup",
        fails=("measure/warmup", "measure/idle"),
        read="handbook/profiling.md#before-you-measure",
        explanation="""Calls of the warm-up are part of the result. They are slow for reasons that never return:
        make them before the first reading.""",
        change="""
-    for _ in range(warmup):
-        function()
@@
-    for _ in range(repeats):
+    for _ in range(warmup + repeats):
""",
    ),
    KnownWrong(
        "one_call_of_warmup",
        fails=("measure/warmup",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""One call of warm-up is made, whatever `warmup` says. Some first calls take several: caches
        fill, clocks rise, a compiler runs at the second call.""",
        change="""
-    for _ in range(warmup):
-        function()
+    if warmup:
+        function()
""",
    ),
    KnownWrong(
        "never_synchronized",
        fails=("measure/synchronize",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The clock is read when the call has returned, and the device still works. The time is that
        of starting the work, hardly more for a large product than for a small one: synchronize before the second
        reading.""",
        change="""
-        synchronize()
-        times.append((clock() - start) / calls)
+        times.append((clock() - start) / calls)
""",
    ),
    KnownWrong(
        "synchronized_before_the_call",
        fails=("measure/synchronize",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The device is synchronized between the first reading and the call. What must be in the time
        is the waiting for this call's work, after it.""",
        change="""
-        start = clock()
-        for _ in range(calls):
-            function()
-        synchronize()
+        start = clock()
+        synchronize()
+        for _ in range(calls):
+            function()
""",
    ),
    KnownWrong(
        "warmup_not_waited_for",
        fails=("measure/idle",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The first reading is made while the device still works on earlier calls. The first repeat
        then contains their work: synchronize before it.""",
        change="""
-        function()
-    synchronize()
-    times = []
+        function()
+    times = []
""",
    ),
    KnownWrong(
        "waits_for_warmup_only",
        fails=("measure/idle",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The device is synchronized before the first reading only after calls of warm-up. It may be
        busy with other work too.""",
        change="""
-        function()
-    synchronize()
-    times = []
+        function()
+    if warmup:
+        synchronize()
+    times = []
""",
    ),
    KnownWrong(
        "waits_for_each_call",
        fails=("measure/calls",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The device is synchronized after each call. Between two calls it then waits for the host,
        which the time should not contain: synchronize once per repeat.""",
        change="""
-            function()
-        synchronize()
-        times.append((clock() - start) / calls)
+            function()
+            synchronize()
+        times.append((clock() - start) / calls)
""",
    ),
    KnownWrong(
        "time_of_all_calls",
        fails=("measure/calls",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The time of all calls of a repeat is returned. Divide it by `calls`: the result is the time
        of one.""",
        change="""
-        times.append((clock() - start) / calls)
+        times.append(clock() - start)
""",
    ),
    KnownWrong(
        "one_call_per_repeat",
        fails=("measure/calls",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""`calls` divides the time, and a repeat has one call. Make as many calls as you divide by.""",
        change="""
-        for _ in range(calls):
-            function()
-        synchronize()
+        function()
+        synchronize()
""",
    ),
    KnownWrong(
        "refused_after_warmup",
        fails=("measure/refuses",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The number of repeats is looked at after calls have been made. Refuse it first: a call may
        take minutes.""",
        change="""
-    if repeats <= 0:
-        raise ValueError(f"repeats is {repeats}: it must be 1 or more")
""",
    ),
    KnownWrong(
        "one_repeat_at_least",
        fails=("measure/refuses",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""A number of repeats below 1 is replaced by 1. A mistake of the caller's should be said, not
        corrected in silence.""",
        change="""
-    if repeats <= 0:
-        raise ValueError(f"repeats is {repeats}: it must be 1 or more")
+    repeats = max(1, repeats)
""",
    ),
    KnownWrong(
        "one_call_more_each_time",
        fails=("enough_calls/doubles",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The number of calls grows by one each time. For a short call that takes forever: the sum of
        the calls grows with the square of the result.""",
        change="""
-        calls *= 2
+        calls += 1
""",
    ),
    KnownWrong(
        "calls_by_division",
        fails=("enough_calls/doubles",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The number of calls is computed from the time of one call. One call is what the clock cannot
        time well: the contract asks for doubling.""",
        change="""
-        calls *= 2
+        calls = math.ceil(least_seconds / max(1e-9, clock() - start))
""",
    ),
    KnownWrong(
        "doubled_by_arithmetic",
        fails=("enough_calls/doubles",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""One call is timed, and the doublings are computed from its time. A coarse clock reads the time
        of one call as 0 or as a whole step, so the result is far off: make each try, and read the clock for it.""",
        change="""
-    while True:
-        start = clock()
-        for _ in range(calls):
-            function()
-        synchronize()
-        if clock() - start >= least_seconds:
-            return calls
-        calls *= 2
+    start = clock()
+    function()
+    synchronize()
+    seconds = max(1e-9, clock() - start)
+    while calls * seconds < least_seconds:
+        calls *= 2
+    return calls
""",
    ),
    KnownWrong(
        "one_doubling_too_many",
        fails=("enough_calls/doubles",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""Twice the number of calls that took long enough is returned.""",
        change="""
-        if clock() - start >= least_seconds:
-            return calls
+        if clock() - start >= least_seconds:
+            return 2 * calls
""",
    ),
    KnownWrong(
        "number_before_the_last",
        fails=("enough_calls/doubles",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The last number that did not take long enough is returned.""",
        change="""
-        if clock() - start >= least_seconds:
-            return calls
+        if clock() - start >= least_seconds:
+            return max(1, calls // 2)
""",
    ),
    KnownWrong(
        "starts_with_two",
        fails=("enough_calls/doubles",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The first try has more than one call. A long operation takes enough time with one.""",
        change="""
-    calls = 1
+    calls = 2
""",
    ),
    KnownWrong(
        "counted_on_a_busy_device",
        fails=("enough_calls/device",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The first reading is made while the device still works on something else, so one call seems
        to take long enough. Synchronize first.""",
        change="""
-    calls = 1
-    synchronize()
+    calls = 1
""",
    ),
    KnownWrong(
        "calls_without_their_work",
        fails=("enough_calls/device",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""The clock is read while the device still works, so more and more calls seem to take no time.
        Synchronize before the second reading.""",
        change="""
-        synchronize()
-        if clock() - start >= least_seconds:
+        if clock() - start >= least_seconds:
""",
    ),
    KnownWrong(
        "stops_at_an_equal_time",
        fails=("enough_calls/coarse-clock",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""A time equal to `least_seconds` does not count as enough. A clock in steps often reads
        exactly that.""",
        change="""
-        if clock() - start >= least_seconds:
-            return calls
+        if clock() - start > least_seconds:
+            return calls
""",
    ),
    KnownWrong(
        "a_time_of_zero_is_enough",
        fails=("enough_calls/coarse-clock",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""A time that the clock reads as 0 ends the search. It means that the calls were shorter than
        a step of the clock: try more.""",
        change="""
-        if clock() - start >= least_seconds:
-            return calls
+        seconds = clock() - start
+        if seconds >= least_seconds or not seconds:
+            return calls
""",
    ),
    KnownWrong(
        "mean_rates",
        fails=("ceilings/fastest",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The mean of the rates is taken for the ceiling. Most operations stay below their roof, so a
        mean is no limit: take the highest rate.""",
        change="""
-    peak = max(sample.cost.flops / sample.seconds for sample in timed)
-    return Roof(peak, max(sample.cost.bytes / sample.seconds for sample in large))
+    peak = statistics.mean(sample.cost.flops / sample.seconds for sample in timed)
+    return Roof(peak, statistics.mean(sample.cost.bytes / sample.seconds for sample in large))
""",
    ),
    KnownWrong(
        "largest_sample",
        fails=("ceilings/fastest",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The ceilings are the rates of the samples with the most FLOPs and the most bytes. The
        largest operation need not be the fastest one.""",
        change="""
-    peak = max(sample.cost.flops / sample.seconds for sample in timed)
-    return Roof(peak, max(sample.cost.bytes / sample.seconds for sample in large))
+    most = max(timed, key=lambda sample: sample.cost.flops)
+    widest = max(large, key=lambda sample: sample.cost.bytes)
+    return Roof(most.cost.flops / most.seconds, widest.cost.bytes / widest.seconds)
""",
    ),
    KnownWrong(
        "rates_of_sums",
        fails=("ceilings/fastest",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""All FLOPs are divided by all seconds, and all bytes too. That is the mean rate of the whole
        run, and no ceiling.""",
        change="""
-    peak = max(sample.cost.flops / sample.seconds for sample in timed)
-    return Roof(peak, max(sample.cost.bytes / sample.seconds for sample in large))
+    seconds = sum(sample.seconds for sample in timed)
+    peak = sum(sample.cost.flops for sample in timed) / seconds
+    return Roof(peak, sum(sample.cost.bytes for sample in large) / seconds)
""",
    ),
    KnownWrong(
        "ceilings_swapped",
        fails=("ceilings/fastest",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Peak and bandwidth are swapped: the first field of Roof is the peak, in FLOP/s.""",
        change="""
-    return Roof(peak, max(sample.cost.bytes / sample.seconds for sample in large))
+    return Roof(max(sample.cost.bytes / sample.seconds for sample in large), peak)
""",
    ),
    KnownWrong(
        "bandwidth_of_a_cache",
        fails=("ceilings/cache",),
        read="handbook/hardware-and-roofline.md#where-the-bytes-are",
        explanation="""The bandwidth is that of the fastest copy, which fits into a cache. Memory is slower: leave
        out what moves no more than `cache_bytes`.""",
        change="""
-    large = [sample for sample in timed if sample.cost.bytes > cache_bytes]
+    large = [sample for sample in timed if sample.cost.bytes]
""",
    ),
    KnownWrong(
        "cache_size_included",
        fails=("ceilings/cache",),
        read="handbook/hardware-and-roofline.md#where-the-bytes-are",
        explanation="""A sample that moves exactly `cache_bytes` counts for the bandwidth. It may fit into the
        cache: only larger ones count.""",
        change="""
-    large = [sample for sample in timed if sample.cost.bytes > cache_bytes]
+    large = [sample for sample in timed if sample.cost.bytes >= cache_bytes]
""",
    ),
    KnownWrong(
        "large_samples_only",
        fails=("ceilings/cache",),
        read="handbook/hardware-and-roofline.md#where-the-bytes-are",
        explanation="""Small samples are left out of the peak too. A product that fits into the cache shows the
        peak best: `cache_bytes` is about the bandwidth.""",
        change="""
-    peak = max(sample.cost.flops / sample.seconds for sample in timed)
+    peak = max(sample.cost.flops / sample.seconds for sample in large)
""",
    ),
    KnownWrong(
        "zero_seconds_as_a_tick",
        fails=("ceilings/untimed",),
        read="handbook/profiling.md#before-you-measure",
        explanation="""Samples of 0 seconds are given a very short time, and become the ceiling. The clock could
        not time them: leave them out.""",
        change="""
-    timed = [sample for sample in samples if sample.seconds > 0]
+    timed = [Sample(sample.cost, max(sample.seconds, 1e-9)) for sample in samples]
""",
    ),
    KnownWrong(
        "roof_of_nothing",
        fails=("ceilings/untimed",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""Where no sample is left, a roof of 0 is returned. Nothing was measured: raise ValueError.""",
        change="""
-    if not large:
-        raise ValueError(f"no timed sample moves more than {cache_bytes} bytes")
+    if not large:
+        return Roof(0.0, 0.0)
""",
    ),
    KnownWrong(
        "one_tile_fits",
        fails=("tile_reads/largest",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""One tile fits into the memory, and not three. A tile of each operand and one of the result
        are there at once.""",
        change="""
-    return math.isqrt(numbers // 3)
+    return math.isqrt(numbers)
""",
    ),
    KnownWrong(
        "two_tiles_fit",
        fails=("tile_reads/largest",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Two tiles fit into the memory. The tile of the result is there too: three.""",
        change="""
-    return math.isqrt(numbers // 3)
+    return math.isqrt(numbers // 2)
""",
    ),
    KnownWrong(
        "tile_by_a_float",
        fails=("tile_reads/largest",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""For a very large memory the tile is too large by 1, as by a square root in floats, which
        have 53 bits. math.isqrt is exact.""",
        change="""
-    return math.isqrt(numbers // 3)
+    return int(math.sqrt(numbers / 3))
""",
    ),
    KnownWrong(
        "a_third_of_the_root",
        fails=("tile_reads/largest",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The square root is divided by 3. A tile of b has b * b numbers: divide by 3 first, then take
        the root.""",
        change="""
-    return math.isqrt(numbers // 3)
+    return max(1, math.isqrt(numbers) // 3)
""",
    ),
    KnownWrong(
        "each_number_once",
        fails=("tile_reads/fits",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Each operand is counted once. A tile of the result reads a strip of each operand, and other
        tiles read the same strips again.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    return rows * inner + inner * columns
""",
    ),
    KnownWrong(
        "tiles_of_the_wrong_axis",
        fails=("tile_reads/fits",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The left operand is counted once per row of tiles, the right one once per column. It is the
        other way around: all tiles beside each other need the same rows of the left operand.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    return rows * inner * math.ceil(rows / tile) + inner * columns * math.ceil(columns / tile)
""",
    ),
    KnownWrong(
        "no_tiles",
        fails=("tile_reads/fits",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The reads are those of a product without tiles: two for each multiplication. With tiles each
        number that is read is used several times.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    return 2 * rows * inner * columns
""",
    ),
    KnownWrong(
        "left_operand_only",
        fails=("tile_reads/fits",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The reads of the right operand are missing.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    return rows * inner * math.ceil(columns / tile)
""",
    ),
    KnownWrong(
        "whole_tiles_at_the_edge",
        fails=("tile_reads/edge",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Tiles at the edge count as whole ones. They are smaller: nothing outside the matrices is
        read.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    n, m, k = (math.ceil(size / tile) for size in (rows, inner, columns))
+    return 2 * n * m * k * tile**2
""",
    ),
    KnownWrong(
        "edge_left_out",
        fails=("tile_reads/edge",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The number of tiles is rounded down. The last tile of a row is smaller, and it is read all
        the same.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    return rows * inner * max(1, columns // tile) + inner * columns * max(1, rows // tile)
""",
    ),
    KnownWrong(
        "fractions_of_tiles",
        fails=("tile_reads/edge",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Reads are divided by the tile's width, as if a part of a tile read the operands in part. A
        tile at the edge reads whole rows: round the number of tiles up.""",
        change="""
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    return 2 * rows * inner * columns // tile
""",
    ),
    KnownWrong(
        "last_inner_tile_only",
        fails=("tiled_matmul/product",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A tile of the result holds the product of the last pair of tiles alone. Along the inner axis
        the products are added.""",
        change="""
-                result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right]
+                result[top:bottom, left:right] = a[top:bottom, start:end] @ b[start:end, left:right]
""",
    ),
    KnownWrong(
        "elementwise_tiles",
        fails=("tiled_matmul/product",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Tiles are multiplied number by number where their shapes allow it. The tile of a product is
        a matrix product, @.""",
        change="""
-                result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right]
+                one, other = a[top:bottom, start:end], b[start:end, left:right]
+                result[top:bottom, left:right] += one * other if one.shape == other.shape else one @ other
""",
    ),
    KnownWrong(
        "inner_axis_of_the_diagonal",
        fails=("tiled_matmul/product",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Only one pair of tiles is multiplied for a tile of the result. Its numbers are sums over the
        whole inner axis.""",
        change="""
-            for start in range(0, m, tile):
+            for start in range(0, min(m, tile), tile):
""",
    ),
    KnownWrong(
        "edge_dropped",
        fails=("tiled_matmul/edge", "tiled_matmul/reads"),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Rows, columns or sums beyond the last whole tile are left out. The tiles at the edge are
        smaller, and belong to the product.""",
        change="""
-    for top in range(0, n, tile):
+    for top in range(0, max(tile, n // tile * tile), tile):
""",
    ),
    KnownWrong(
        "inner_edge_dropped",
        fails=("tiled_matmul/edge", "tiled_matmul/reads"),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The inner axis ends at the last whole tile, so each sum lacks its last terms.""",
        change="""
-            for start in range(0, m, tile):
+            for start in range(0, max(tile, m // tile * tile), tile):
""",
    ),
    KnownWrong(
        "whole_rows_and_columns",
        fails=("tiled_matmul/reads",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A whole strip of an operand is read at once. It does not fit into fast memory: read one tile
        of each operand at a time.""",
        change="""
-            for start in range(0, m, tile):
-                end = min(start + tile, m)
-                result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right]
+            result[top:bottom, left:right] += a[top:bottom, 0:m] @ b[0:m, left:right]
""",
    ),
    KnownWrong(
        "all_read_first",
        fails=("tiled_matmul/reads",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Both matrices are read as a whole before the loops. That is the large memory which a fast
        memory does not have.""",
        change="""
-    (n, m), (_, k) = a.shape, b.shape
+    (n, m), (_, k) = a.shape, b.shape
+    a, b = a[0:n, 0:m], b[0:m, 0:k]  # type: ignore[assignment]
""",
    ),
    KnownWrong(
        "number_by_number",
        fails=("tiled_matmul/reads",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Single numbers are read, or tiles of another size, so that less of what was read is used
        again. Read tiles of `tile` by `tile`.""",
        change="""
-    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
+    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
+    tile = 1
""",
    ),
    KnownWrong(
        "past_the_edge",
        fails=("tiled_matmul/reads",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A read at the edge asks for a whole tile, past the end of the matrix. NumPy cuts it off; a
        device reads foreign memory.""",
        change="""
-                end = min(start + tile, m)
+                end = start + tile
""",
    ),
    KnownWrong(
        "tile_read_twice",
        fails=("tiled_matmul/reads",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A tile is read more than once for the same tile of the result. Keep it while it is needed.""",
        change="""
-                result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right]
+                left_tile = a[top:bottom, start:end] if b.dtype == a.dtype else a[top:bottom, start:end]
+                left_tile = a[top:bottom, start:end]
+                result[top:bottom, left:right] += left_tile @ b[start:end, left:right]
""",
    ),
    KnownWrong(
        "float64_result",
        fails=("tiled_matmul/dtype",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The product of float32 matrices comes back in float64. np.zeros makes float64 unless it is
        told otherwise.""",
        change="""
-    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
+    result = np.zeros((n, k))
""",
    ),
    KnownWrong(
        "dtype_of_the_left",
        fails=("tiled_matmul/dtype",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The product has the dtype of the left operand. np.result_type gives the common dtype of
        both.""",
        change="""
-    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
+    result = np.zeros((n, k), dtype=a.dtype)
""",
    ),
    KnownWrong(
        "one_multiple_too_many",
        fails=("padded_share/padded",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A size that is a multiple already is padded by another one.""",
        change="""
-    return -(-size // multiple) * multiple
+    return (size // multiple + 1) * multiple
""",
    ),
    KnownWrong(
        "rounded_down",
        fails=("padded_share/padded",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The size is rounded down to a multiple. Padding adds: the padded size is never smaller.""",
        change="""
-    return -(-size // multiple) * multiple
+    return max(1, size // multiple) * multiple
""",
    ),
    KnownWrong(
        "nearest_multiple",
        fails=("padded_share/padded",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The nearest multiple is returned, which may be smaller than the size. Padding goes up.""",
        change="""
-    return -(-size // multiple) * multiple
+    return max(1, (2 * size + multiple) // (2 * multiple)) * multiple
""",
    ),
    KnownWrong(
        "rounded_by_a_float",
        fails=("padded_share/large",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A very large size is padded wrongly, as by a division in floats, which have 53 bits. Integer
        division is exact: -(-size // multiple).""",
        change="""
-    return -(-size // multiple) * multiple
+    return math.ceil(size / multiple) * multiple
""",
    ),
    KnownWrong(
        "added_multiple_in_floats",
        fails=("padded_share/large",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""A very large size gets too much or too little padding, as by floats, which have 53 bits. The
        remainder size % multiple is exact.""",
        change="""
-    return -(-size // multiple) * multiple
+    return size + int((multiple - float(size) % multiple) % multiple)
""",
    ),
    KnownWrong(
        "share_of_the_useful",
        fails=("padded_share/share",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The padding is divided by the useful work. The share is that of all work that is done,
        padding included.""",
        change="""
-    return 1 - math.prod(sizes) / done
+    return done / math.prod(sizes) - 1
""",
    ),
    KnownWrong(
        "useful_share",
        fails=("padded_share/share",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The share that is of use is returned. Asked for is the share that is wasted: 1 minus it.""",
        change="""
-    return 1 - math.prod(sizes) / done
+    return math.prod(sizes) / done
""",
    ),
    KnownWrong(
        "shares_added",
        fails=("padded_share/share",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""The shares of the sizes are added up. The useful parts multiply: two halves leave a quarter.""",
        change="""
-    return 1 - math.prod(sizes) / done
+    return sum(1 - size / padded(size, multiple) for size, multiple in zip(sizes, multiples, strict=True))
""",
    ),
    KnownWrong(
        "first_size_only",
        fails=("padded_share/share",),
        read="handbook/hardware-and-roofline.md#tiles-use-a-number-more-than-once",
        explanation="""Only one size counts. Each size of a product is padded, and the work is the product of all.""",
        change="""
-    return 1 - math.prod(sizes) / done
+    return 1 - sizes[0] / padded(sizes[0], multiples[0])
""",
    ),
    KnownWrong(
        "largest_without_sign",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The largest value is taken instead of the largest absolute value. A large negative number
        then leaves the range of int8.""",
        change="""
-    largest = np.abs(x).max(axis=1 if per_row else None, keepdims=True)
+    largest = np.abs(x.max(axis=1 if per_row else None, keepdims=True))
""",
    ),
    KnownWrong(
        "divided_by_128",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The largest value is divided by 128. int8 has no 128: the largest positive number would not
        fit. 127 is symmetric.""",
        change="""
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
-    return np.rint(x / scale).astype(np.int8), scale
+    scale = np.where(largest == 0, 1, largest / 128).astype(np.float32)
+    return np.rint(x / scale).clip(-127, 127).astype(np.int8), scale
""",
    ),
    KnownWrong(
        "divided_by_255",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The scale is that of unsigned numbers, largest / 255, and half of the numbers leave the
        range of int8.""",
        change="""
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
-    return np.rint(x / scale).astype(np.int8), scale
+    scale = np.where(largest == 0, 1, largest / 255).astype(np.float32)
+    return np.rint(x / scale).clip(-127, 127).astype(np.int8), scale
""",
    ),
    KnownWrong(
        "truncated",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""Numbers are cut off toward 0 instead of rounded, as astype does it. The error is twice as
        large, and always in one direction.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return (x / scale).astype(np.int8), scale
""",
    ),
    KnownWrong(
        "multiplied_by_the_scale",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The numbers are multiplied by the scale. q is x / scale, so that q * scale is x again.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return np.rint(x * scale).clip(-127, 127).astype(np.int8), scale
""",
    ),
    KnownWrong(
        "inverse_scale",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The scale returned is 127 / largest, the inverse. x is q * scale.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return np.rint(x / scale).astype(np.int8), (1 / scale).astype(np.float32)
""",
    ),
    KnownWrong(
        "scale_without_axes",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The scale lacks the axis along which the largest value was taken, so it does not broadcast
        as it should: keepdims=True keeps it, with size 1.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return np.rint(x / scale).astype(np.int8), scale.squeeze(axis=1)
""",
    ),
    KnownWrong(
        "q_as_floats",
        fails=("quantize/matrix", "quantize/rows"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""q is whole numbers in a float dtype, four or eight bytes each. The point is one byte per
        number: int8.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return np.rint(x / scale), scale
""",
    ),
    KnownWrong(
        "one_scale_for_all",
        fails=("quantize/rows",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The whole matrix shares one scale although each row should have its own. A large row then
        costs all others their precision.""",
        change="""
-    largest = np.abs(x).max(axis=1 if per_row else None, keepdims=True)
+    largest = np.broadcast_to(np.abs(x).max(), (len(x) if per_row else 1, 1))
""",
    ),
    KnownWrong(
        "scale_per_column",
        fails=("quantize/rows",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The largest value is taken along the wrong axis: each column has a scale, and not each row.""",
        change="""
-    largest = np.abs(x).max(axis=1 if per_row else None, keepdims=True)
+    largest = np.abs(x).max(axis=0 if per_row else None, keepdims=True)
""",
    ),
    KnownWrong(
        "halves_away_from_zero",
        fails=("quantize/ties",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""Numbers halfway between two integers are rounded away from 0, as by hand. np.rint goes to
        the even one, so that halves do not all move in one direction.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return (np.sign(x) * np.floor(np.abs(x / scale) + 0.5)).astype(np.int8), scale
""",
    ),
    KnownWrong(
        "halves_up",
        fails=("quantize/ties",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""Numbers halfway between two integers are rounded up, as by floor(x + 0.5). np.rint goes to
        the even one, so that halves do not all move in one direction.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    return np.floor(x / scale + 0.5).astype(np.int8), scale
""",
    ),
    KnownWrong(
        "zero_by_zero",
        fails=("quantize/zeros",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""Where all numbers are 0, the scale is 0, and 0 / 0 is nan. A scale of 1 gives q = 0 there.""",
        change="""
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
+    scale = (largest / 127).astype(np.float32)
""",
    ),
    KnownWrong(
        "tiny_scale_for_zeros",
        fails=("quantize/zeros",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""Where all numbers are 0, the scale is a tiny number. The contract asks for 1.""",
        change="""
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
+    scale = np.where(largest == 0, 1e-6, largest / 127).astype(np.float32)
""",
    ),
    KnownWrong(
        "row_of_zeros_ends_the_matrix",
        fails=("quantize/zeros",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""One row of zeros changes the scales of all rows. Each row decides for itself: np.where, not
        an if over all.""",
        change="""
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
+    scale = (largest / 127 if largest.all() else np.ones_like(largest)).astype(np.float32)
""",
    ),
    KnownWrong(
        "scale_in_the_dtype_of_x",
        fails=("quantize/kept",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The scale of a float64 matrix is in float64. The contract says float32: the scale is stored
        beside the int8 numbers.""",
        change="""
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
+    scale = np.where(largest == 0, 1, largest / 127).astype(x.dtype)
""",
    ),
    KnownWrong(
        "matrix_made_absolute",
        fails=("quantize/kept",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The caller's matrix is changed in place. A weight that is quantized is often still needed.""",
        change="""
-    return np.rint(x / scale).astype(np.int8), scale
+    q = np.rint(x / scale).astype(np.int8)
+    x[:] = q * scale
+    return q, scale
""",
    ),
    KnownWrong(
        "divided_by_the_scale",
        fails=("quantize/dequantize",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""q is divided by the scale. x was divided by it before: multiply.""",
        change="""
-    return q.astype(np.float32) * scale
+    return q.astype(np.float32) / scale
""",
    ),
    KnownWrong(
        "scale_forgotten",
        fails=("quantize/dequantize",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The integers come back as floats, without their scale.""",
        change="""
-    return q.astype(np.float32) * scale
+    return q.astype(np.float32)
""",
    ),
    KnownWrong(
        "dequantized_to_float64",
        fails=("quantize/dequantize",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The numbers come back in float64, twice the bytes that the contract asks for.""",
        change="""
-    return q.astype(np.float32) * scale
+    return q.astype(np.float64) * scale
""",
    ),
    KnownWrong(
        "columns_and_rows_swapped",
        fails=("int8_matmul/product",),
        read="handbook/hardware-and-roofline.md#the-roofline",
        explanation="""The operands are multiplied in the other order, or transposed. The product of [n, m] and [m,
        k] is [n, k].""",
        change="""
-    sums = a.astype(np.int32) @ b.astype(np.int32)
+    sums = (b.T.astype(np.int32) @ a.T.astype(np.int32)).T[::-1]
""",
    ),
    KnownWrong(
        "double_precision_product",
        fails=("int8_matmul/product",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The product comes back in float64. The contract asks for float32.""",
        change="""
-    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    return sums * a_scale.astype(np.float64) * b_scale
""",
    ),
    KnownWrong(
        "int8_sums",
        fails=("int8_matmul/exact", "int8_matmul/scales"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The products are added in int8, whose largest number is 127: almost every sum wraps around,
        without an error.""",
        change="""
-    sums = a.astype(np.int32) @ b.astype(np.int32)
+    sums = a @ b
""",
    ),
    KnownWrong(
        "int16_sums",
        fails=("int8_matmul/exact", "int8_matmul/scales"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The products are added in int16. Three products of 127 * 127 already exceed its range:
        int32.""",
        change="""
-    sums = a.astype(np.int32) @ b.astype(np.int32)
+    sums = a.astype(np.int16) @ b.astype(np.int16)
""",
    ),
    KnownWrong(
        "float32_sums",
        fails=("int8_matmul/exact",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The products are added in float32, which has 24 bits: long sums are rounded. int32 adds them
        exactly, and in hardware faster.""",
        change="""
-    sums = a.astype(np.int32) @ b.astype(np.int32)
+    sums = a.astype(np.float32) @ b.astype(np.float32)
""",
    ),
    KnownWrong(
        "float16_sums",
        fails=("int8_matmul/exact", "int8_matmul/scales"),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The products are added in a 16-bit float, which has 11 bits and ends at 65,504. int32 adds
        exactly.""",
        change="""
-    sums = a.astype(np.int32) @ b.astype(np.int32)
+    sums = (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float64)
""",
    ),
    KnownWrong(
        "left_scale_only",
        fails=("int8_matmul/scales",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The scale of the right operand is left out. A product of two quantized matrices has both
        scales.""",
        change="""
-    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    return (sums * a_scale.astype(np.float64) + 0 * b_scale).astype(np.float32)
""",
    ),
    KnownWrong(
        "scales_added",
        fails=("int8_matmul/scales",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""The scales are added. (q s) times (p t) is q p times s t: they multiply.""",
        change="""
-    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    product = (sums * (a_scale + b_scale)).astype(np.float32)
+    return product if a_scale.max() != 1 or b_scale.max() != 1 else sums.astype(np.float32)
""",
    ),
    KnownWrong(
        "scaled_in_place",
        fails=("int8_matmul/scales",),
        read="handbook/hardware-and-roofline.md#fewer-bits-fewer-bytes",
        explanation="""An argument is changed in place. The scales of a weight are used in every product.""",
        change="""
-    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    product = (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    b_scale *= a_scale.max()
+    return product
""",
    ),
)

HURRIED = {
    "cost": {
        "a constant intensity": """
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(moved, moved)
""",
        "square matrices only": """
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    return Cost(2 * a[-1] ** 3, 3 * a[-1] ** 2 * BYTES[dtype])
""",
    },
    "roofline": {
        "the ridge for all": """
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    return roof.peak / roof.bandwidth
""",
    },
    "limit": {
        "the words in capitals": """
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "MEMORY" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "COMPUTE"
""",
        "the rows of the page": """
-    return ridge * inner * columns / gained if gained > 0 else math.inf
+    return 345.0
""",
    },
    "measure": {
        "one call, one time": """
-    for _ in range(warmup):
-        function()
-    synchronize()
-    times = []
-    for _ in range(repeats):
-        start = clock()
-        for _ in range(calls):
-            function()
-        synchronize()
-        times.append((clock() - start) / calls)
-    return statistics.median(times)
+    start = clock()
+    function()
+    return clock() - start
""",
    },
    "enough_calls": {
        "a thousand calls": """
-            return calls
+            return 1024
""",
    },
    "ceilings": {
        "the first sample": """
-    peak = max(sample.cost.flops / sample.seconds for sample in timed)
+    peak = timed[0].cost.flops / timed[0].seconds
""",
    },
    "tile_reads": {
        "tiles of 16": """
-    return math.isqrt(numbers // 3)
+    return 16
""",
    },
    "tiled_matmul": {
        "one product of everything": """
-    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
+    return a[0:n, 0:m] @ b[0:m, 0:k]
""",
    },
    "padded_share": {
        "always 64": """
-    return -(-size // multiple) * multiple
+    return -(-size // 64) * 64
""",
    },
    "quantize": {
        "zeros": """
-    return np.rint(x / scale).astype(np.int8), scale
+    return np.zeros_like(x, dtype=np.int8), scale
""",
    },
    "int8_matmul": {
        "without scales": """
-    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    return sums.astype(np.float32)
""",
    },
}
