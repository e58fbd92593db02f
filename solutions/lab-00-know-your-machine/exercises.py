"""Lab 00, exercises: bytes and FLOPs of an operation, its limit, a correct timer, tiles, and int8.

Eleven exercises, in the order of the page; later ones call earlier ones. Replace the lines that raise
NotImplementedError; keep the signatures. The classes Cost, Roof, Sample and Stored are given: read them first. Sizes
are in numbers, costs in FLOPs and bytes, times in seconds. A float is Python's float, an array is a NumPy array.

    rankzero check 00                  # all of them
    rankzero check 00 measure          # one
    rankzero hint 00 measure           # when stuck
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]

# Bytes per number, by dtype.
BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int32": 4}


@dataclass(frozen=True)
class Cost:
    """The work of one operation: FLOPs, and the bytes that it reads and writes. Given: nothing to write."""

    flops: int
    bytes: int


@dataclass(frozen=True)
class Roof:
    """The two limits of a device: FLOP/s of its arithmetic, bytes/s of its memory. Given: nothing to write."""

    peak: float
    bandwidth: float


@dataclass(frozen=True)
class Sample:
    """One measurement: the cost of an operation, and the seconds that it took. Given: nothing to write."""

    cost: Cost
    seconds: float


class Stored:
    """A matrix in slow memory, which counts the numbers that are read from it. Given: nothing to write.

    `stored[i0:i1, k0:k1]` reads the part with rows i0 to i1 - 1 and columns k0 to k1 - 1, and returns it as an array.
    """

    def __init__(self, data: Array) -> None:
        self._data = data
        self.shape, self.dtype, self.reads = data.shape, data.dtype, 0

    def __getitem__(self, part: Any) -> Array:
        read = np.array(self._data[part])
        self.reads += read.size
        return read


# --------------------------------------------------------------------------------------------------- costs and limits
def matmul_cost(a: Shape, b: Shape, dtype: str, out_dtype: str | None = None) -> Cost:
    """The cost of a matrix product of operands of shapes `a` and `b`, [..., n, m] and [..., m, k].

    Each of the n * k results of a matrix takes m multiplications and m additions: 2 FLOPs per pair of numbers. The
    axes in front are a batch of matrices, and broadcast as in np.matmul. Each operand is read once, with the numbers
    that its own shape has, and the result [..., n, k] is written once. The operands are in `dtype`, the result in
    `out_dtype`, or in `dtype` where it is None; BYTES has the bytes per number. Both counts are ints.

    ValueError if the inner sizes m of the two shapes differ. matmul_cost((2, 3), (3, 4), "fp32") is Cost(48, 104).
    Read: handbook/hardware-and-roofline.md, "The roofline"
    """
    ### BEGIN SOLUTION
    if a[-1] != b[-2]:
        raise ValueError(f"the inner sizes of {a} and {b} differ")
    result = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    moved = (math.prod(a) + math.prod(b)) * BYTES[dtype] + math.prod(result) * BYTES[out_dtype or dtype]
    return Cost(2 * math.prod(result) * a[-1], moved)
    ### END SOLUTION


def elementwise_cost(shapes: Sequence[Shape], flops: int, dtype: str, out_dtype: str | None = None) -> Cost:
    """The cost of an elementwise operation with operands of `shapes`, which broadcast to the shape of the result.

    `flops` is the number of FLOPs per number of the result. Each operand is read once, with the numbers that its own
    shape has; the result is written once. `dtype` and `out_dtype` are as in matmul_cost. A scalar has the shape ().

    elementwise_cost([(2, 3), (3,)], 1, "fp32") is Cost(6, 60): 6 + 3 numbers read, 6 written.
    """
    ### BEGIN SOLUTION
    result = math.prod(np.broadcast_shapes(*shapes))
    moved = sum(math.prod(shape) for shape in shapes) * BYTES[dtype] + result * BYTES[out_dtype or dtype]
    return Cost(flops * result, moved)
    ### END SOLUTION


def intensity(cost: Cost) -> float:
    """The arithmetic intensity of an operation, in FLOPs per byte. The operation moves at least one byte.

    intensity(Cost(48, 96)) is 0.5.
    Read: handbook/hardware-and-roofline.md, "The roofline"
    """
    ### BEGIN SOLUTION
    return cost.flops / cost.bytes
    ### END SOLUTION


def attainable(cost: Cost, roof: Roof) -> float:
    """The highest rate that an operation of this cost can reach, in FLOP/s.

    With Roof(peak=100.0, bandwidth=10.0) it is 5.0 for Cost(48, 96), and 100.0 for Cost(4800, 96).
    """
    ### BEGIN SOLUTION
    return min(roof.peak, intensity(cost) * roof.bandwidth)
    ### END SOLUTION


def least_seconds(cost: Cost, roof: Roof) -> float:
    """The shortest time that an operation of this cost can take, in seconds. Loads and arithmetic overlap.

    A copy has 0 FLOPs and takes the time of its bytes. With Roof(peak=100.0, bandwidth=10.0) it is 9.6 for
    Cost(48, 96), and 48.0 for Cost(4800, 96).
    """
    ### BEGIN SOLUTION
    return max(cost.flops / roof.peak, cost.bytes / roof.bandwidth)
    ### END SOLUTION


def limit(cost: Cost, roof: Roof) -> str:
    """Returns the limit of an operation: "memory" if its bytes take longer than its FLOPs, else "compute".

    At the ridge, where both take the same time, the peak is reached: "compute".
    Read: handbook/hardware-and-roofline.md, "The roofline"
    """
    ### BEGIN SOLUTION
    return "memory" if cost.bytes * roof.peak > cost.flops * roof.bandwidth else "compute"
    ### END SOLUTION


def rows_to_reach_ridge(inner: int, columns: int, dtype: str, roof: Roof) -> float:
    """The number of rows, r, with which a product [r, inner] @ [inner, columns] has the intensity of the ridge.

    A closed formula, without a search: a float that is not rounded. All three matrices are in `dtype`. math.inf if no
    number of rows reaches the ridge, because inputs and outputs alone move too many bytes.

    For inner = columns = 4096, bf16 and the ridge of an H100 it is 345.0; for inner = columns = 512 it is math.inf.
    Read: handbook/hardware-and-roofline.md, "Problems"
    """
    ### BEGIN SOLUTION
    ridge = roof.peak / roof.bandwidth * BYTES[dtype]  # FLOPs per number instead of per byte
    gained = 2 * inner * columns - ridge * (inner + columns)  # 2rmk = ridge * (rm + mk + rk), solved for r
    return ridge * inner * columns / gained if gained > 0 else math.inf
    ### END SOLUTION


# ---------------------------------------------------------------------------------------------------------- the timer
def measure(
    function: Callable[[], object],
    *,
    warmup: int,
    repeats: int,
    synchronize: Callable[[], None],
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The median time of a call of `function`, in seconds.

    A call may return before its work is done: the device works later, one call after the other, and `synchronize()`
    returns once all work is done. First `function` is called `warmup` times, which may be 0, and not timed: first
    calls compile, allocate and fill caches. All work so far is done before the first reading of `clock`. Then it is
    timed `repeats` times: each time `calls` calls in a row and their work, one synchronization at the end. A time is
    divided by `calls`; the result is the median of the times. No other call is made.

    ValueError, before any call, if `repeats` is 0 or less. With a clock that goes 3.0, 1.0 and 2.0 seconds forward
    in three repeats of 10 calls, the result is 0.2.
    Read: handbook/profiling.md, "Before you measure"
    """
    ### BEGIN SOLUTION
    if repeats <= 0:
        raise ValueError(f"repeats is {repeats}: it must be 1 or more")
    for _ in range(warmup):
        function()
    synchronize()
    times = []
    for _ in range(repeats):
        start = clock()
        for _ in range(calls):
            function()
        synchronize()
        times.append((clock() - start) / calls)
    return statistics.median(times)
    ### END SOLUTION


def enough_calls(
    function: Callable[[], object],
    *,
    least_seconds: float,
    synchronize: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """The number of calls that take `least_seconds` or more together, so that the clock's steps hardly matter.

    Tries 1, 2, 4, 8 ... calls in a row, each time with the work of these calls alone, and returns the first number
    that took at least `least_seconds`. A clock may go in steps: a short time may be read as 0.0.

    If each call takes 3 ms of work, 20 ms need 8 calls.
    """
    ### BEGIN SOLUTION
    calls = 1
    synchronize()
    while True:
        start = clock()
        for _ in range(calls):
            function()
        synchronize()
        if clock() - start >= least_seconds:
            return calls
        calls *= 2
    ### END SOLUTION


def ceilings(samples: Sequence[Sample], cache_bytes: int) -> Roof:
    """The roof of a device from measurements of operations on it.

    The peak is the highest FLOP/s of any sample. The bandwidth is the highest bytes/s of the samples that move more
    than `cache_bytes`: operations that move less may find their numbers in a cache, which is faster than memory.
    Samples of 0.0 seconds, which the clock was too coarse to time, are left out.

    ValueError if no sample is left for the peak, or none for the bandwidth.
    Read: handbook/hardware-and-roofline.md, "The roofline"
    """
    ### BEGIN SOLUTION
    timed = [sample for sample in samples if sample.seconds > 0]
    large = [sample for sample in timed if sample.cost.bytes > cache_bytes]
    if not large:
        raise ValueError(f"no timed sample moves more than {cache_bytes} bytes")
    peak = max(sample.cost.flops / sample.seconds for sample in timed)
    return Roof(peak, max(sample.cost.bytes / sample.seconds for sample in large))
    ### END SOLUTION


# -------------------------------------------------------------------------------------------------------------- tiles
def largest_tile(numbers: int) -> int:
    """The width of the largest square tile of which three fit into a fast memory for `numbers` numbers, exactly.

    One tile of each operand and one of the result are in fast memory at once. `numbers` is 3 or more; the result is an
    int. For 12 numbers it is 2, for 26 it is 2, for 27 it is 3.
    Read: handbook/hardware-and-roofline.md, "Tiles use a number more than once"
    """
    ### BEGIN SOLUTION
    return math.isqrt(numbers // 3)
    ### END SOLUTION


def tile_reads(rows: int, inner: int, columns: int, tile: int) -> int:
    """The numbers that a tiled product [rows, inner] @ [inner, columns] reads: those of tiled_matmul below.

    A formula, without loops over tiles. The sizes need not be multiples of `tile`; at the edge a tile is smaller, and
    nothing outside the matrices is read. The result is an int.

    For 5, 2, 3 and tiles of 2 it is 38: the left operand is read twice, the right one three times.
    """
    ### BEGIN SOLUTION
    return rows * inner * math.ceil(columns / tile) + inner * columns * math.ceil(rows / tile)
    ### END SOLUTION


def tiled_matmul(a: Stored, b: Stored, tile: int) -> Array:
    """The product of matrices [n, m] and [m, k], tile by tile, as an array [n, k] of their common dtype.

    The result consists of tiles of `tile` by `tile` numbers, smaller at the edge. For each of them: read one tile of
    `a` and the tile of `b` that belongs to it, add their product (`@`) to the tile of the result, and go on along the
    inner axis. The two tiles are dropped before the next two are read, so a number is read again for each tile of the
    result that needs it. Nothing larger than a tile is read, and no read reaches past the edge.
    """
    ### BEGIN SOLUTION
    (n, m), (_, k) = a.shape, b.shape
    result = np.zeros((n, k), dtype=np.result_type(a.dtype, b.dtype))
    for top in range(0, n, tile):
        bottom = min(top + tile, n)
        for left in range(0, k, tile):
            right = min(left + tile, k)
            for start in range(0, m, tile):
                end = min(start + tile, m)
                result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right]
    return result
    ### END SOLUTION


def padded(size: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is `size` or more. Both are 1 or more; exact for ints of any size.

    padded(50257, 64) is 50304, and padded(4096, 128) is 4096.
    Read: handbook/hardware-and-roofline.md, "Tiles use a number more than once"
    """
    ### BEGIN SOLUTION
    return -(-size // multiple) * multiple
    ### END SOLUTION


def padded_share(sizes: Sequence[int], multiples: Sequence[int]) -> float:
    """The share of a product's work that is wasted if each of its sizes is padded to a multiple.

    `sizes` are those of a product, such as (n, m, k), and `multiples` has a number per size. The work is proportional
    to the product of the sizes. The share is that of the work done: 0.25 if 3 of 4 FLOPs are of use.

    padded_share((3, 8), (4, 8)) is 0.25, and padded_share((3, 3), (4, 4)) is 0.4375.
    """
    ### BEGIN SOLUTION
    done = math.prod(padded(size, multiple) for size, multiple in zip(sizes, multiples, strict=True))
    return 1 - math.prod(sizes) / done
    ### END SOLUTION


# --------------------------------------------------------------------------------------------------------- fewer bits
def quantize(x: Array, per_row: bool) -> tuple[Array, Array]:
    """A float matrix [n, m] as int8 numbers and their scale: x is about q * scale.

    The scale is the largest absolute value divided by 127: of each row if `per_row`, with the shape [n, 1], else of
    the whole matrix, with the shape [1, 1]; it is in float32. A scale would be 0 where all its numbers are 0: there it
    is 1. q is x / scale, rounded to the nearest integer, and to the even one of two that are equally near, as np.rint
    does; it is in int8 and between -127 and 127. `x`, in float32 or float64, stays as it is.

    quantize(np.array([[1.0, -2.54]]), per_row=False) is ([[50, -127]], [[0.02]]).
    Read: handbook/hardware-and-roofline.md, "Fewer bits, fewer bytes"
    """
    ### BEGIN SOLUTION
    largest = np.abs(x).max(axis=1 if per_row else None, keepdims=True)
    scale = np.where(largest == 0, 1, largest / 127).astype(np.float32)
    return np.rint(x / scale).astype(np.int8), scale
    ### END SOLUTION


def dequantize(q: Array, scale: Array) -> Array:
    """The numbers that int8 numbers [n, m] and their scale, [n, 1] or [1, 1], stand for, in float32."""
    ### BEGIN SOLUTION
    return q.astype(np.float32) * scale
    ### END SOLUTION


def int8_matmul(a: Array, a_scale: Array, b: Array, b_scale: Array) -> Array:
    """The product of two quantized matrices, [n, m] and [m, k], as float32 [n, k].

    `a` and `b` are int8. `a_scale` is [n, 1] or [1, 1], `b_scale` is [1, k] or [1, 1], both float32. The products are
    added in int32, which is exact, and the sums are multiplied by both scales at the end. The arguments stay as they
    are.

    a = [[100, 100]], b = [[100], [100]] and scales of 0.5 give [[5000.0]].
    """
    ### BEGIN SOLUTION
    sums = a.astype(np.int32) @ b.astype(np.int32)
    return (sums * a_scale.astype(np.float64) * b_scale).astype(np.float32)
    ### END SOLUTION
