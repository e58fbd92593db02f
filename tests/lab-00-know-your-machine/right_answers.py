"""Right answers to Lab 00 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "cost": {
        "shapes of arrays that take no memory": """
-    result = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
-    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
-    return Cost(2 * math.prod(result) * a[-1], moved)
+    batch = np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))
+    count = 1
+    for size in (*batch, a[-2], b[-1]):
+        count *= size
+    read = BYTES[dtype] * math.prod(a) + BYTES[dtype] * math.prod(b)
+    width = BYTES[dtype] if out_dtype is None else BYTES[out_dtype]
+    return Cost(flops=count * (a[-1] + b[-2]), bytes=read + count * width)
""",
    },
    "roofline": {
        "by the two times": """
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    return cost.flops / least_seconds(cost, roof)
@@
-    return max(cost.flops / roof.peak, cost.bytes / roof.bandwidth)
+    at_peak, moving = cost.flops / roof.peak, cost.bytes / roof.bandwidth
+    return at_peak if at_peak > moving else moving
""",
        "above or below the ridge": """
-    return min(roof.peak, intensity(cost) * roof.bandwidth)
+    ridge = roof.peak / roof.bandwidth
+    return roof.peak if cost.flops > ridge * cost.bytes else roof.bandwidth * cost.flops / cost.bytes
""",
    },
    "limit": {
        "by the attainable rate, and by inverse intensities": """
-    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
+    return "compute" if attainable(cost, roof) >= roof.peak else "memory"
@@
-    ridge = roof.peak / roof.bandwidth * BYTES[dtype]  # FLOPs per number instead of per byte
-    gained = 2 * inner * columns - ridge * (inner + columns)  # 2rmk = ridge * (rm + mk + rk), solved for r
-    return ridge * inner * columns / gained if gained > 0 else math.inf
+    numbers = roof.peak * BYTES[dtype] / roof.bandwidth
+    inverse = 2 / numbers - 1 / inner - 1 / columns
+    if 2 * inner * columns <= numbers * (inner + columns):
+        return float("inf")
+    return 1 / inverse
""",
    },
    "measure": {
        "synchronized before each reading": """
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
+    def now() -> float:
+        synchronize()
+        return clock()
+
+    [function() for _ in range(warmup)]
+    times = np.empty(repeats)
+    for place in range(repeats):
+        start = now()
+        for _ in range(calls):
+            function()
+        times[place] = now() - start
+    return float(np.median(times) / calls)
""",
        "the end of a repeat is the start of the next": """
-    times = []
-    for _ in range(repeats):
-        start = clock()
-        for _ in range(calls):
-            function()
-        synchronize()
-        times.append((clock() - start) / calls)
-    return statistics.median(times)
+    readings = [clock()]
+    while len(readings) <= repeats:
+        for _ in range(calls):
+            function()
+        synchronize()
+        readings.append(clock())
+    ordered = sorted(end - start for start, end in zip(readings, readings[1:], strict=False))
+    middle = (ordered[(repeats - 1) // 2] + ordered[repeats // 2]) / 2
+    return middle / calls
""",
    },
    "enough_calls": {
        "by recursion": """
-    calls = 1
-    synchronize()
-    while True:
-        start = clock()
-        for _ in range(calls):
-            function()
-        synchronize()
-        if clock() - start >= least_seconds:
-            return calls
-        calls *= 2
+    def attempt(calls: int) -> int:
+        synchronize()
+        start = clock()
+        [function() for _ in range(calls)]
+        synchronize()
+        return calls if not clock() - start < least_seconds else attempt(calls << 1)
+
+    return attempt(1)
""",
    },
    "ceilings": {
        "in one loop": """
-    timed = [sample for sample in samples if sample.seconds > 0]
-    large = [sample for sample in timed if sample.cost.bytes > cache_bytes]
-    if not large:
-        raise ValueError(f"no timed sample moves more than {cache_bytes} bytes")
-    peak = max(sample.cost.flops / sample.seconds for sample in timed)
-    return Roof(peak, max(sample.cost.bytes / sample.seconds for sample in large))
+    rates, speeds = [], []
+    for sample in samples:
+        if sample.seconds:
+            rates.append(sample.cost.flops / sample.seconds)
+            if sample.cost.bytes > cache_bytes:
+                speeds.append(sample.cost.bytes / sample.seconds)
+    return Roof(bandwidth=max(speeds), peak=max(rates))
""",
    },
    "tile_reads": {
        "by search, and by integer division": """
-    return math.isqrt(numbers // 3)
+    low, high = 1, 2
+    while 3 * high * high <= numbers:
+        low, high = high, 2 * high
+    while high - low > 1:
+        middle = (low + high) // 2
+        low, high = (middle, high) if 3 * middle * middle <= numbers else (low, middle)
+    return low
@@
-    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
+    down, across = (rows + tile - 1) // tile, (columns + tile - 1) // tile
+    return inner * (rows * across + columns * down)
""",
    },
    "tiled_matmul": {
        "the inner axis backwards, tiles of the result on their own": """
-    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
-    for top in range(0, n, tile):
-        bottom = min(top + tile, n)
-        for left in range(0, k, tile):
-            right = min(left + tile, k)
-            for start in range(0, m, tile):
-                end = min(start + tile, m)
-                result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right]
-    return result
+    parts = lambda size: [slice(start, min(size, start + tile)) for start in range(0, size, tile)]  # noqa: E731
+    result = np.empty((n, k), np.promote_types(a.dtype, b.dtype))
+    for column in parts(k):
+        for row in parts(n):
+            part = np.zeros((row.stop - row.start, column.stop - column.start), result.dtype)
+            for inner in reversed(parts(m)):
+                one, other = a[row, inner], b[inner, column]
+                part = part + np.einsum("ij,jk->ik", one, other)
+            result[row, column] = part
+    return result
""",
    },
    "padded_share": {
        "by the remainder": """
-    return -(-size // multiple) * multiple
+    return size + -size % multiple
@@
-    done = math.prod(padded(size, multiple) for size, multiple in zip(sizes, multiples, strict=True))
-    return 1 - math.prod(sizes) / done
+    useful = 1.0
+    for place, size in enumerate(sizes):
+        useful *= size / padded(size, multiples[place])
+    return 1 - useful
""",
    },
    "quantize": {
        "in float64, row by row": """
-    largest = np.abs(x).max(axis=1 if per_row else None, keepdims=True)
-    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
-    return np.rint(x / scale).astype(np.int8), scale
+    rows = list(x) if per_row else [x]
+    scales = [max(float(row.max()), -float(row.min())) / 127 or 1.0 for row in rows]
+    scale = np.array(scales, dtype=np.float32).reshape(-1, 1)
+    return np.around(np.divide(x, scale, dtype=np.float64)).astype("int8"), scale
@@
-    return q.astype(np.float32) * scale
+    return np.multiply(q, scale, dtype=np.float32)
""",
    },
    "int8_matmul": {
        "sums in int64, scales in float32": """
-    sums = a.astype(np.int32) @ b.astype(np.int32)
-    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
+    sums = np.matmul(a, b, dtype=np.int64)
+    return sums.astype(np.float32) * (a_scale * b_scale)
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "matmul_cost: swapped: if a[-1] != b[-2]: | result = (*np.broadcast_shapes(a[:-2], …",
        "measure: swapped: synchronize() | times = []",
        "enough_calls: swapped: calls = 1 | synchronize()",
    ),
    "max of nothing raises ValueError too": (
        "ceilings: left out: if not large:",
        "ceilings: swapped: if not large: | peak = max((sample.cost.flops / sample.…",
        "ceilings: left out: raise ValueError(f'no timed sample move…",
    ),
    "both arguments have one length": ("padded_share: strict left out: zip(sizes, multiples, strict=True)",),
    "nobody changes a cost after it is made": (
        "Cost: frozen left out: dataclass(frozen=True)",
        "Roof: frozen left out: dataclass(frozen=True)",
        "Sample: frozen left out: dataclass(frozen=True)",
    ),
    "the class is given, and the probes use one of their own": (
        "Stored: left out: self._data = data",
        "Stored: swapped: self._data = data | self.shape, self.dtype, self.reads = (d…",
        "Stored: left out: self.shape, self.dtype, self.reads = (d…",
        "Stored: swapped: read = np.array(self._data[part]) | self.reads += read.size",
        "Stored: left out: self.reads += read.size",
        "Stored: swapped: self.reads += read.size | return read",
        "Stored: left out: return read",
        "Stored: operator replaced: self.reads += read.size",
    ),
}
