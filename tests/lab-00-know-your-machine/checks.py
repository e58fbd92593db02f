"""Lab 00, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

A judge sees answers only: what a probe returned from the learner's code, and from the reference on the same inputs.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, items_of, mismatch_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

TOLERANCE = 1e-9  # relative; two float64 formulas of a few operations differ by about 1e-15
FLOAT32 = 3e-6  # relative; a few roundings of float32


def near(number: Any, expected: Any, tolerance: float = TOLERANCE) -> bool:
    """Tells whether two numbers agree within a relative tolerance, or are equal in any other way."""
    if type(number) in (int, float) and type(expected) in (int, float) and abs(number) < 1e300:
        return bool(math.isclose(number, expected, rel_tol=tolerance, abs_tol=0.0))
    return equal(number, expected)


def every(name: str, subject: Callable[[Answers, int], str], *, exact: bool = False) -> Judge:
    """Passes if each item of the list `name` is the reference's; `subject` begins the sentence about an item."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for place, (item, wanted) in enumerate(
            zip(items_of(got, name, len(expected[name])), expected[name], strict=True)
        ):
            if not (equal(item, wanted) if exact else near(item, wanted)):
                return f"{subject(expected, place)} {_mismatch(item, wanted)}"
        return None

    return judge


def _mismatch(got: object, expected: object) -> str:
    """Returns 'is 5; expected 6.'; ints of fewer than 16 digits are written with all of these."""
    if type(got) is int and type(expected) is int and max(abs(got), abs(expected)) < 10**15:
        return f"is {got:,}; expected {expected:,}."
    if type(got) is str and type(expected) is float:
        return f"is {shorten(got)}; a number was expected."
    return mismatch_text(got, expected)


def of_case(text: str) -> Callable[[Answers, int], str]:
    """Returns the beginning of a sentence about a case; {} is the case's text."""
    return lambda expected, place: text.format(expected["cases"][place])


def typed(text: str, names: str = "types") -> Judge:
    """Passes if every result has the reference's type."""
    return every(names, of_case(text), exact=True)


# -------------------------------------------------------------------------------------------------------------- costs
is_cost = typed("what {} returns")
flops_and_bytes = all_of(
    is_cost, every("flops", of_case("{}: flops"), exact=True), every("bytes", of_case("{}: bytes"), exact=True)
)
ERRORS = {
    "cost": ("[n, m] @ [m + 1, k]", "a batch [n, m] @ [k, n, k] with m != n", "[n, m] @ [n, m]"),
    "repeats": ("repeats=0", "a negative number of repeats"),
    "ceilings": ("no sample", "an untimed sample", "a sample that moves too little", "a small and an untimed sample"),
}


def raises(kind: str) -> Judge:
    """Passes if each of the wrong inputs raises ValueError."""

    def judge(got: Answers, expected: Answers) -> str | None:
        names = items_of(got, "raised", len(expected["raised"]))
        for case, name, wanted in zip(ERRORS[kind], names, expected["raised"], strict=True):
            if not equal(name, wanted):
                return f"for {case}, the error raised is {shorten(name)}; expected {wanted}."
        return None

    return judge


# ------------------------------------------------------------------------------------------------------------- limits
def values(name: str) -> Judge:
    """Passes if every value is the reference's."""
    return all_of(every("values", of_case(f"for {{}} {name}")), typed(f"for {{}} the type of {name}"))


def words_of_limit(got: Answers, expected: Answers) -> str | None:
    """Every limit is one of two words, and the right one."""
    for place, (word, wanted) in enumerate(
        zip(items_of(got, "values", len(expected["values"])), expected["values"], strict=True)
    ):
        if not equal(word, wanted):
            return f"for {expected['cases'][place]} the limit is {shorten(repr(word), 40)}; expected {wanted!r}."
    return None


rows = all_of(every("values", of_case("{} the number of rows")), typed("{} the type of what came back"))


# ---------------------------------------------------------------------------------------------------------- the timer
def measured(*situations: str) -> Judge:
    """Passes if each measurement gives the reference's seconds, as a float, after the right number of calls."""

    def subject(text: str) -> Callable[[Answers, int], str]:
        return lambda expected, place: f"{situations[place % len(situations)]}, {text}"

    return all_of(
        every("types", subject("the type of what came back"), exact=True),
        every("calls", subject("the number of calls of `function`"), exact=True),
        every("seconds", subject("the result in seconds")),
    )


def with_default_clock(got: Answers, expected: Answers) -> str | None:
    """Without a clock of the caller's, the timer reads one of its own."""
    works = got.get("default clock") is True
    return None if works else "without `clock`, what came back is no time in seconds; expected time.perf_counter's."


def calls_before(got: Answers, expected: Answers) -> str | None:
    """No call before the error."""
    if equal(got.get("calls before"), expected["calls before"]):
        return None
    return f"`function` is called {shorten(got.get('calls before'), 20)} times before the error; expected 0."


def tried_calls(got: Answers, expected: Answers) -> str | None:
    """The function was called for the tries of 1, 2, 4 ... calls, and for nothing else."""
    rows = zip(items_of(got, "calls", len(expected["calls"])), expected["calls"], expected["counts"], strict=True)
    for place, (calls, wanted, count) in enumerate(rows):
        if not equal(calls, wanted):
            tries = ", ".join(str(2**power) for power in range(count.bit_length()))
            return (
                f"{expected['cases'][place]} `function` was called {shorten(calls, 20)} times in all; "
                f"expected tries of {tries} calls, {wanted} in all."
            )
    return None


counted_calls = all_of(
    typed("{} the type of what came back"),
    every("counts", of_case("{} the number of calls"), exact=True),
    tried_calls,
)


# ----------------------------------------------------------------------------------------------------------- ceilings
def roof(got: Answers, expected: Answers) -> str | None:
    """A Roof with the reference's numbers, from samples that stay as they are."""
    if not equal(got.get("type"), "Roof"):
        return f"what came back is of type {shorten(got.get('type'))}; expected Roof."
    for name in ("peak", "bandwidth"):
        if not near(got.get(name), expected[name]):
            return f"the {name} {_mismatch(got.get(name), expected[name])}"
    return None if got.get("kept") is True else "the caller's list of samples is changed."


# -------------------------------------------------------------------------------------------------------------- tiles
exact_counts = all_of(typed("the type of {}"), every("values", of_case("{}"), exact=True))
shares = all_of(every("values", of_case("{}")), typed("the type of {}"))


def array_failure(subject: str, got: object, expected: np.ndarray, tolerance: float = 0.0) -> str | None:
    """Returns a sentence unless `got` has the shape, dtype and numbers of `expected`; names the first wrong number."""
    form = f"{expected.dtype} array of shape {list(expected.shape)}"
    if not isinstance(got, np.ndarray):
        return f"{subject} is {'missing' if got is None else shorten(got)}; expected {form}."
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{subject} is {got.dtype} of shape {shorten(list(got.shape))}; expected {form}."
    size = tolerance * max(1e-30, float(np.abs(expected).max(initial=0)))
    wrong = ~np.isclose(got, expected, rtol=tolerance, atol=size, equal_nan=True)
    if not wrong.any():
        return None
    place = tuple(int(index[0]) for index in np.nonzero(wrong))
    pair = got[place].item(), expected[place].item()
    return f"{subject} at {list(place)} {_mismatch(*pair).rstrip('.')} ({int(wrong.sum())} of {got.size} differ)."


def products(got: Answers, expected: Answers) -> str | None:
    """Every product, by its shape, dtype and numbers."""
    found = items_of(got, "products", len(expected["products"]))
    for case, product, wanted in zip(expected["cases"], found, expected["products"], strict=True):
        tolerance = 1e-5 if wanted.dtype == np.float32 else TOLERANCE
        if failure := array_failure(f"{case}: the product", product, wanted, tolerance):
            return failure
    return None


def reads(got: Answers, expected: Answers) -> str | None:
    """As many numbers of each operand are read as expected, in parts no larger than a tile, within the matrices."""
    count = len(expected["cases"])
    found = zip(*(items_of(got, name, count) for name in ("reads", "largest", "past")), strict=True)
    for place, (numbers, small, past) in enumerate(found):
        case = expected["cases"][place]
        if small is not True:
            return f"{case}: a read takes more numbers than a tile has."
        if not equal(past, 0):
            return f"{case}: a read reaches past the edge of a matrix: its end is larger than the size."
        if not equal(numbers, expected["reads"][place]):
            wanted = " and ".join(f"{number:,}" for number in expected["reads"][place])
            listed = numbers if isinstance(numbers, list) and all(type(n) is int for n in numbers) else []
            text = " and ".join(f"{n:,}" if abs(n) < 10**15 else "?" for n in listed[:2]) or "nothing"
            return f"{case}: numbers read of `a` and of `b`: {text}; expected {wanted}."
    return None


# --------------------------------------------------------------------------------------------------------- fewer bits
def pair_of_arrays(got: Answers, expected: Answers) -> str | None:
    """Two arrays came back, of the right dtypes and shapes."""
    for case, form, wanted in zip(
        expected["cases"], items_of(got, "forms", len(expected["forms"])), expected["forms"], strict=True
    ):
        if not equal(form, wanted):
            text = " and ".join(shorten(part, 40) for part in form[:3]) if isinstance(form, list) else shorten(form, 40)
            return f"{case}: what came back is {text or 'nothing'}; expected {' and '.join(wanted)}."
    return None


def arrays_of(name: str, subject: str, tolerance: float) -> Judge:
    """Passes if each array of the list `name` is the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        found = items_of(got, name, len(expected[name]))
        for case, array, wanted in zip(expected["cases"], found, expected[name], strict=True):
            if failure := array_failure(f"{case}: {subject}", array, wanted, tolerance):
                return failure
        return None

    return judge


def each_scale(got: Answers, expected: Answers) -> str | None:
    """Each scale, with a tolerance that is relative to the scale itself."""
    found = items_of(got, "scales", len(expected["scales"]))
    for case, scale, wanted in zip(expected["cases"], found, expected["scales"], strict=True):
        shape = isinstance(scale, np.ndarray) and (scale.shape, scale.dtype) == (wanted.shape, wanted.dtype)
        ratio = scale / wanted if shape else scale
        if failure := array_failure(f"{case}: scale over the right scale", ratio, np.ones_like(wanted), FLOAT32):
            return failure
    return None


def kept(text: str) -> Judge:
    """Passes if every argument is as before."""

    def judge(got: Answers, expected: Answers) -> str | None:
        flags = items_of(got, "kept", len(expected["kept"]))
        wrong = [case for case, flag in zip(expected["cases"], flags, strict=True) if flag is not True]
        return f"{wrong[0]}: {text}" if wrong else None

    return judge


quantized = all_of(pair_of_arrays, each_scale, arrays_of("q", "q", 0.0))
int8_product = arrays_of("arrays", "the product", FLOAT32)


EXERCISES = (
    Exercise(
        name="cost",
        functions=("matmul_cost", "elementwise_cost"),
        minutes=20,
        difficulty="easy",
        proves="you can say what an operation computes and what it moves, before you run it",
        hints=(
            "Write down the product of a [2, 3] and a [3, 4] matrix by hand. How many multiplications are there, how "
            "many additions, and how many numbers does each of the three matrices have?",
            "np.broadcast_shapes(a[:-2], b[:-2]) gives the batch axes of the result. math.prod of a shape counts its "
            "numbers; for an operand that broadcasts, take its own shape.",
            "flops = 2 * math.prod(result) * a[-1], with result = (*batch, a[-2], b[-1]). Count BYTES[dtype] for each "
            "number of a and b, and BYTES[out_dtype or dtype] for each number of the result.",
        ),
        checks=(
            Check(
                "cost/matmul",
                "counts FLOPs and bytes of a matrix product in each dtype",
                points=4,
                probe="cost_of_matmul",
                judge=flops_and_bytes,
            ),
            Check(
                "cost/batch",
                "counts products of batches, in which an operand may broadcast",
                points=3,
                probe="cost_of_batch",
                judge=flops_and_bytes,
                requires=("cost/matmul",),
            ),
            Check(
                "cost/out-dtype",
                "counts a result in a dtype of its own, and refuses shapes that do not fit",
                points=2,
                probe="cost_with_out_dtype",
                judge=all_of(flops_and_bytes, raises("cost")),
                requires=("cost/matmul",),
            ),
            Check(
                "cost/elementwise",
                "counts FLOPs and bytes of an elementwise operation",
                points=3,
                probe="cost_of_elements",
                judge=flops_and_bytes,
            ),
        ),
    ),
    Exercise(
        name="roofline",
        functions=("intensity", "attainable", "least_seconds"),
        minutes=10,
        difficulty="easy",
        proves="you can bound the speed of an operation by two limits of a device",
        hints=(
            "Each function is one line. Which of the two limits does an operation reach first?",
            "Memory delivers the bytes for intensity * bandwidth FLOP/s. The attainable rate is the smaller of this "
            "rate and the peak; the least time is the larger of two times.",
            "least_seconds is max(flops / peak, bytes / bandwidth). Do not divide by FLOPs: a copy has none.",
        ),
        checks=(
            Check(
                "roofline/intensity",
                "gives FLOPs per byte",
                points=3,
                probe="intensities",
                judge=values("intensity"),
            ),
            Check(
                "roofline/attainable",
                "gives the attainable rate on both sides of the ridge",
                points=4,
                probe="attainable_rates",
                judge=values("attainable"),
                requires=("roofline/intensity",),
            ),
            Check(
                "roofline/seconds",
                "gives the shortest time, also of a copy",
                points=3,
                probe="shortest_times",
                judge=values("least_seconds"),
            ),
        ),
    ),
    Exercise(
        name="limit",
        functions=("limit", "rows_to_reach_ridge"),
        minutes=20,
        difficulty="medium",
        proves="you can tell which resource limits an operation, and when a larger batch changes that",
        hints=(
            "Compare the time of the FLOPs with the time of the bytes. Which is longer below the ridge?",
            "The product of r rows has 2rmk FLOPs and moves rm + mk + rk numbers. Set their ratio equal to the ridge, "
            "in FLOPs per number, and solve for r.",
            "r = R m k / (2 m k - R (m + k)) with R = peak / bandwidth * BYTES[dtype]. Which sign of the denominator "
            "means that no r is enough?",
        ),
        checks=(
            Check(
                "limit/word",
                "names the resource that takes longer",
                points=3,
                probe="limits",
                judge=words_of_limit,
            ),
            Check(
                "limit/ridge",
                "says compute at the ridge itself",
                points=2,
                probe="limits_at_the_ridge",
                judge=words_of_limit,
                requires=("limit/word",),
            ),
            Check(
                "limit/rows",
                "gives the rows that reach the ridge, for any layer and dtype",
                points=4,
                probe="rows_to_ridge",
                judge=rows,
            ),
            Check(
                "limit/never",
                "gives infinity for a layer that never reaches the ridge",
                points=3,
                probe="rows_never",
                judge=rows,
                requires=("limit/rows",),
            ),
        ),
    ),
    Exercise(
        name="measure",
        functions=("measure",),
        minutes=25,
        difficulty="medium",
        proves="you can time an operation on a device that works later than it is called",
        hints=(
            "Write down which calls are in the device's queue at each reading of the clock. The queue must be empty at "
            "all readings.",
            "Warm-up calls, then one synchronization, then for each repeat: read, call `calls` times, synchronize, "
            "read. Why must the synchronization stand before the second reading?",
            "Collect (clock() - start) / calls in a list, and return statistics.median of it. Test repeats <= 0 first.",
        ),
        checks=(
            Check(
                "measure/median",
                "gives the median of the repeats",
                points=4,
                probe="median_of_repeats",
                judge=all_of(measured("with work of very different times"), with_default_clock),
            ),
            Check(
                "measure/warmup",
                "calls the function for warm-up and leaves these times out",
                points=3,
                probe="warmup_left_out",
                judge=measured("with slow first calls"),
                requires=("measure/median",),
            ),
            Check(
                "measure/synchronize",
                "includes the work that a call leaves on the device",
                points=4,
                probe="waits_for_the_device",
                judge=measured("on a device that works after the call has returned"),
                requires=("measure/median",),
            ),
            Check(
                "measure/idle",
                "starts its clock when the device is idle",
                points=2,
                probe="starts_with_an_idle_device",
                judge=measured("with one repeat after a call of warm-up", "with a device that is busy from before"),
                requires=("measure/synchronize",),
            ),
            Check(
                "measure/calls",
                "times several calls in a row and divides by their number",
                points=2,
                probe="several_calls",
                judge=measured("with several calls per reading"),
                requires=("measure/synchronize",),
            ),
            Check(
                "measure/refuses",
                "refuses a number of repeats below 1 before any call",
                points=1,
                probe="refused_repeats",
                judge=all_of(raises("repeats"), calls_before, measured("after the refused calls")),
                requires=("measure/synchronize",),
            ),
        ),
    ),
    Exercise(
        name="enough_calls",
        functions=("enough_calls",),
        minutes=15,
        difficulty="medium",
        proves="you can time an operation that is shorter than a step of the clock",
        hints=(
            "The loop of measure with another end: make the calls, read the clock, and try twice as many calls.",
            "Synchronize once before the first reading, so that earlier work of the device is not measured.",
            "while True: start = clock(); the calls; synchronize(); return calls if clock() - start >= least_seconds; "
            "calls *= 2.",
        ),
        checks=(
            Check(
                "enough_calls/doubles",
                "doubles the calls until they take long enough",
                points=3,
                probe="doubled_calls",
                judge=counted_calls,
            ),
            Check(
                "enough_calls/device",
                "counts the work of these calls, and no other",
                points=3,
                probe="calls_of_a_device",
                judge=counted_calls,
                requires=("enough_calls/doubles",),
            ),
            Check(
                "enough_calls/coarse-clock",
                "works with a clock that reads short times as 0",
                points=2,
                probe="calls_by_a_coarse_clock",
                judge=counted_calls,
                requires=("enough_calls/device",),
            ),
        ),
    ),
    Exercise(
        name="ceilings",
        functions=("ceilings",),
        minutes=15,
        difficulty="medium",
        proves="you can read a device's two limits off measurements",
        hints=(
            "A ceiling is the highest rate that any operation has reached. Which samples may count for which ceiling?",
            "For both ceilings, leave out samples that took no time. For the bandwidth, also leave out samples of "
            "cache_bytes or fewer.",
            "peak = max(flops / seconds of all timed samples); bandwidth = max(bytes / seconds of the large ones). "
            "max of nothing raises ValueError by itself.",
        ),
        checks=(
            Check(
                "ceilings/fastest",
                "takes the highest rate of each kind",
                points=4,
                probe="roof_of_samples",
                judge=roof,
            ),
            Check(
                "ceilings/cache",
                "leaves copies that fit into a cache out of the bandwidth",
                points=3,
                probe="roof_beside_a_cache",
                judge=roof,
                requires=("ceilings/fastest",),
            ),
            Check(
                "ceilings/untimed",
                "leaves out samples of 0 seconds, and refuses to guess",
                points=1,
                probe="roof_without_zeros",
                judge=all_of(roof, raises("ceilings")),
                requires=("ceilings/cache",),
            ),
        ),
    ),
    Exercise(
        name="tile_reads",
        functions=("largest_tile", "tile_reads"),
        minutes=15,
        difficulty="medium",
        proves="you can predict how much a tiled product reads, and which tile is best",
        hints=(
            "Three tiles of b x b numbers must fit. How often is the left operand read, if the result has c columns "
            "of tiles?",
            "Each number of a is read once for each column of tiles of the result, ceil(columns / tile) times.",
            "math.isqrt(n) is the integer square root, exact for ints of any size; math.sqrt is not.",
        ),
        checks=(
            Check(
                "tile_reads/largest",
                "gives the largest of three equal tiles, exactly",
                points=3,
                probe="largest_tiles",
                judge=exact_counts,
            ),
            Check(
                "tile_reads/fits",
                "counts the reads where tiles divide the sizes",
                points=3,
                probe="reads_where_tiles_fit",
                judge=exact_counts,
            ),
            Check(
                "tile_reads/edge",
                "counts the reads where they do not",
                points=2,
                probe="reads_at_the_edge",
                judge=exact_counts,
                requires=("tile_reads/fits",),
            ),
        ),
    ),
    Exercise(
        name="tiled_matmul",
        functions=("tiled_matmul",),
        minutes=30,
        difficulty="hard",
        proves="you can multiply matrices of any size with little fast memory",
        hints=(
            "Write three loops: over the rows of tiles of the result, over its columns of tiles, and over the inner "
            "axis. The innermost loop reads two tiles and multiplies them.",
            "range(0, n, tile) gives the first row of each tile, and min(top + tile, n) the end of its rows.",
            "Inside: result[top:bottom, left:right] += a[top:bottom, start:end] @ b[start:end, left:right], in a "
            "result of zeros with np.result_type(a.dtype, b.dtype).",
        ),
        checks=(
            Check(
                "tiled_matmul/product",
                "multiplies where tiles divide the sizes",
                points=3,
                probe="tiled_where_tiles_fit",
                judge=products,
            ),
            Check(
                "tiled_matmul/edge",
                "multiplies where they do not",
                points=4,
                probe="tiled_at_the_edge",
                judge=products,
                requires=("tiled_matmul/product",),
            ),
            Check(
                "tiled_matmul/reads",
                "reads what a tiled product reads, in parts that fit",
                points=4,
                probe="tiled_at_the_edge",
                judge=reads,
                requires=("tiled_matmul/product",),
            ),
            Check(
                "tiled_matmul/dtype",
                "returns the common dtype of both operands",
                points=1,
                probe="tiled_dtypes",
                judge=products,
                requires=("tiled_matmul/edge",),
            ),
        ),
    ),
    Exercise(
        name="padded_share",
        functions=("padded", "padded_share"),
        minutes=10,
        difficulty="easy",
        proves="you can say what a size that does not fit the hardware costs at most",
        hints=(
            "Which multiple of 64 comes next after 50,257?",
            "Integer division rounds down, so -(-size // multiple) rounds up, without a float.",
            "The share is 1 - math.prod(sizes) / the product of all padded sizes.",
        ),
        checks=(
            Check(
                "padded_share/padded",
                "rounds a size up to a multiple",
                points=2,
                probe="padded_sizes",
                judge=exact_counts,
            ),
            Check(
                "padded_share/large",
                "rounds up exactly where a float would not",
                points=1,
                probe="padded_large_sizes",
                judge=exact_counts,
                requires=("padded_share/padded",),
            ),
            Check(
                "padded_share/share",
                "gives the share of the work that is wasted",
                points=3,
                probe="wasted_shares",
                judge=shares,
                requires=("padded_share/padded",),
            ),
        ),
    ),
    Exercise(
        name="quantize",
        functions=("quantize", "dequantize"),
        minutes=25,
        difficulty="medium",
        proves="you can store a matrix in a quarter of its bytes, and know what that costs",
        hints=(
            "The largest absolute value becomes 127 or -127. What happens where the largest absolute value is 0?",
            "np.abs(x).max(axis=1, keepdims=True) has the shape [n, 1]; with axis=None and keepdims=True it has "
            "[1, 1].",
            "scale = np.where(largest == 0, 1, largest / 127).astype(np.float32), and q = np.rint(x / scale).astype("
            "np.int8).",
        ),
        checks=(
            Check(
                "quantize/matrix",
                "quantizes a matrix with one scale",
                points=3,
                probe="quantized_whole",
                judge=quantized,
            ),
            Check(
                "quantize/rows",
                "quantizes each row with a scale of its own",
                points=3,
                probe="quantized_rows",
                judge=quantized,
            ),
            Check(
                "quantize/ties",
                "rounds numbers halfway between two integers to the even one",
                points=2,
                probe="quantized_ties",
                judge=quantized,
                requires=("quantize/matrix", "quantize/rows"),
            ),
            Check(
                "quantize/zeros",
                "quantizes rows and matrices of zeros",
                points=2,
                probe="quantized_zeros",
                judge=quantized,
                requires=("quantize/matrix", "quantize/rows"),
            ),
            Check(
                "quantize/kept",
                "takes float32 and float64, and leaves the matrix as it is",
                points=1,
                probe="quantized_kept",
                judge=all_of(quantized, kept("the matrix is changed.")),
                requires=("quantize/matrix", "quantize/rows"),
            ),
            Check(
                "quantize/dequantize",
                "gives back the numbers in float32",
                points=1,
                probe="dequantized",
                judge=all_of(arrays_of("arrays", "the result", FLOAT32), kept("an argument is changed.")),
            ),
        ),
    ),
    Exercise(
        name="int8_matmul",
        functions=("int8_matmul",),
        minutes=15,
        difficulty="medium",
        proves="you can multiply in int8 without losing a digit before the end",
        hints=(
            "100 * 100 does not fit into int8. Which dtype must the sums have, and when must the numbers get it?",
            "a.astype(np.int32) @ b.astype(np.int32) is exact. Multiply its result by the scales.",
            "Scales of shapes [n, 1] and [1, k] broadcast over [n, k]: sums * a_scale * b_scale, then "
            ".astype(np.float32).",
        ),
        checks=(
            Check(
                "int8_matmul/product",
                "multiplies small numbers",
                points=1,
                probe="small_int8_products",
                judge=int8_product,
            ),
            Check(
                "int8_matmul/exact",
                "adds long sums of large products exactly",
                points=3,
                probe="large_int8_products",
                judge=int8_product,
                requires=("int8_matmul/product",),
            ),
            Check(
                "int8_matmul/scales",
                "multiplies by the scales of rows and columns, and leaves its arguments as they are",
                points=2,
                probe="scaled_int8_products",
                judge=all_of(int8_product, kept("an argument is changed.")),
                requires=("int8_matmul/product",),
            ),
        ),
    ),
)
