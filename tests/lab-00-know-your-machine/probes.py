"""Probes of Lab 00: each calls the learner's code on random inputs, and returns its results as plain values.

No probe reads a real clock, with one exception: `median_of_repeats` calls the timer once with its default clock. The
timer's clock and device are simulated, so that a check asserts no seconds of this machine.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from rankzero.exercises.probes.untrusted_values import kind_text, plain_number, tuple_items, type_name

Array = np.ndarray
Shape = tuple[int, ...]


def plain_array(value: Any) -> Any:
    """Returns a copy of an array of numbers; for anything else, its type as a text."""
    if type(value) is np.ndarray and value.dtype.kind in "fiu":
        return np.array(value, order="C")
    return kind_text(value)


def raised_by(call: Callable[[], Any]) -> str:
    """Returns the name of the error that the call raises, 'ValueError' for its subclasses too; 'nothing' for none."""
    try:
        call()
    except ValueError:
        return "ValueError"
    except Exception as error:
        return type_name(error)
    return "nothing"


# -------------------------------------------------------------------------------------------------------------- costs
def costs(calls: Iterable[tuple[str, Callable[[], Any]]]) -> dict[str, Any]:
    """Returns, for each call, its text, the type of what came back, and FLOPs and bytes."""
    answers: dict[str, list[Any]] = {"cases": [], "types": [], "flops": [], "bytes": []}
    for case, call in calls:
        cost = call()
        answers["cases"].append(case)
        known = type_name(cost) == "Cost"
        kinds = f"Cost of {type_name(cost.flops)} and {type_name(cost.bytes)}" if known else kind_text(cost)
        answers["types"].append(kinds)
        answers["flops"].append(plain_number(cost.flops) if known else None)
        answers["bytes"].append(plain_number(cost.bytes) if known else None)
    return answers


def matmul_costs(
    learner: ModuleType, cases: Iterable[tuple[Shape, Shape, str, str | None]]
) -> Iterable[tuple[str, Callable[[], Any]]]:
    for a, b, dtype, out in cases:
        text = f"matmul_cost({a}, {b}, {dtype!r}" + (f", {out!r})" if out else ")")
        yield text, lambda a=a, b=b, dtype=dtype, out=out: learner.matmul_cost(a, b, dtype, out)  # type: ignore[misc]


def sizes(draw: random.Random, count: int) -> list[int]:
    """Returns different sizes of axes, above 1."""
    return draw.sample(range(2, 40), count)


def cost_of_matmul(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Products of two matrices, in every dtype, one of them a row."""
    draw, cases = random.Random(seed), []
    for dtype in ("fp64", "fp32", "bf16", "fp16", "fp8"):
        n, m, k = sizes(draw, 3)
        cases.append(((n, m), (m, k), dtype, None))
    m, k = sizes(draw, 2)
    cases.append(((1, m), (m, k), "bf16", None))
    return costs(matmul_costs(learner, cases))


def cost_of_batch(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Products of batches of matrices, which broadcast."""
    draw = random.Random(seed)
    n, m, k, batch, heads = sizes(draw, 5)
    cases: list[tuple[Shape, Shape, str, str | None]] = [
        ((batch, n, m), (batch, m, k), "fp32", None),
        ((batch, heads, n, m), (batch, heads, m, k), "bf16", None),
        ((batch, n, m), (m, k), "fp32", None),
        ((batch, 1, n, m), (heads, m, k), "fp16", None),
        ((n, m), (heads, batch, m, k), "fp64", None),
    ]
    return costs(matmul_costs(learner, cases))


def cost_with_out_dtype(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Products whose result has another dtype, and one with inner sizes that differ."""
    draw = random.Random(seed)
    n, m, k, batch = sizes(draw, 4)
    cases: list[tuple[Shape, Shape, str, str | None]] = [
        ((n, m), (m, k), "int8", "int32"),
        ((batch, n, m), (m, k), "bf16", "fp32"),
        ((k, n), (n, m), "fp32", "bf16"),
    ]
    answers = costs(matmul_costs(learner, cases))
    pairs = (((n, m), (m + 1, k)), ((batch, n, m), (k, n, k)), ((n, m), (n, m)))
    wrong = [raised_by(lambda a=a, b=b: learner.matmul_cost(a, b, "fp32")) for a, b in pairs]  # type: ignore[misc]
    return answers | {"raised": wrong}


def cost_of_elements(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Elementwise operations with one, two and four operands, of one shape and of shapes that broadcast."""
    draw = random.Random(seed)
    n, m, k = sizes(draw, 3)
    cases: list[tuple[list[Shape], int, str, str | None]] = [
        ([(n, m)], draw.randrange(2, 12), "fp32", None),
        ([(n, m), (n, m)], 1, "bf16", None),
        ([(n, m), (m,)], draw.randrange(2, 5), "fp16", None),
        ([(n, 1), (1, m)], 1, "fp32", None),
        ([(k, n, m), ()], 1, "fp64", None),
        ([(n, m)] * 4, 14, "fp32", None),
        ([(n, m), (n, 1)], 0, "int8", "fp32"),
        ([(m, n)], 1, "fp32", "int8"),
    ]

    def calls() -> Iterable[tuple[str, Callable[[], Any]]]:
        for shapes, flops, dtype, out in cases:
            text = f"elementwise_cost({shapes}, {flops}, {dtype!r}" + (f", {out!r})" if out else ")")
            yield text, lambda s=shapes, f=flops, d=dtype, o=out: learner.elementwise_cost(s, f, d, o)  # type: ignore[misc]

    return costs(calls())


# ------------------------------------------------------------------------------------------------------------- limits
def roofs_and_costs(learner: ModuleType, seed: int, count: int = 8) -> list[tuple[Any, Any]]:
    """Returns pairs of a cost and a roof: half of them below the ridge and half above it, and one copy."""
    draw, pairs = random.Random(seed), []
    for number in range(count):
        roof = learner.Roof(round(draw.uniform(50, 500), 2), round(draw.uniform(1, 20), 2))
        moved = draw.randrange(100, 1000)
        factor = draw.uniform(1.5, 40) if number % 2 else 1 / draw.uniform(1.5, 40)
        pairs.append((learner.Cost(max(1, round(moved * factor * roof.peak / roof.bandwidth)), moved), roof))
    return [*pairs, (learner.Cost(0, draw.randrange(100, 1000)), pairs[0][1])]


def of_pairs(learner: ModuleType, seed: int, function: Callable[[Any, Any], Any]) -> dict[str, Any]:
    answers: dict[str, list[Any]] = {"cases": [], "values": [], "types": []}
    for cost, roof in roofs_and_costs(learner, seed):
        value = function(cost, roof)
        text = f"Cost({cost.flops}, {cost.bytes}) and Roof({roof.peak}, {roof.bandwidth})"
        answers["cases"].append(text)
        answers["values"].append(plain_number(value) if type(value) is not str else value)
        answers["types"].append("float" if type_name(value) == "float64" else type_name(value))
    return answers


def intensities(learner: ModuleType, seed: int) -> dict[str, Any]:
    return of_pairs(learner, seed, lambda cost, roof: learner.intensity(cost))


def attainable_rates(learner: ModuleType, seed: int) -> dict[str, Any]:
    return of_pairs(learner, seed + 1, lambda cost, roof: learner.attainable(cost, roof))


def shortest_times(learner: ModuleType, seed: int) -> dict[str, Any]:
    return of_pairs(learner, seed + 2, lambda cost, roof: learner.least_seconds(cost, roof))


def limits(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Operations away from the ridge, in a random order."""
    answers = of_pairs(learner, seed + 3, lambda cost, roof: learner.limit(cost, roof))
    order = random.Random(seed).sample(range(9), 9)
    return {name: [values[place] for place in order] for name, values in answers.items()}


def limits_at_the_ridge(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Operations at the ridge exactly, in powers of two, and with one FLOP less or more, in a random order."""
    draw, answers = random.Random(seed), {"cases": [], "values": [], "types": []}  # type: ignore[var-annotated]
    for more in [*draw.choices((-1, 0, 1), k=12), 0]:
        ridge, moved = 2 ** draw.randrange(2, 9), 2 ** draw.randrange(8, 16)
        roof = learner.Roof(float(ridge * 2**30), float(2**30))
        cost = learner.Cost(ridge * moved + more, moved)
        value = learner.limit(cost, roof)
        answers["cases"].append(f"{cost.flops} FLOPs and {moved} bytes, where the ridge is at {ridge} FLOP/B,")
        answers["values"].append(value if type(value) is str else plain_number(value))
        answers["types"].append(type_name(value))
    return answers


def rows_of_cases(learner: ModuleType, cases: Sequence[tuple[int, int, str, float]]) -> dict[str, Any]:
    answers: dict[str, list[Any]] = {"cases": [], "values": [], "types": []}
    for inner, columns, dtype, ridge in cases:
        roof = learner.Roof(ridge * 1e9, 1e9)
        value = learner.rows_to_reach_ridge(inner, columns, dtype, roof)
        answers["cases"].append(f"for inner = {inner}, columns = {columns}, {dtype} and a ridge at {ridge:.4g} FLOP/B,")
        answers["values"].append(plain_number(value))
        answers["types"].append("float" if type_name(value) == "float64" else type_name(value))
    return answers


def rows_to_ridge(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Layers that reach the ridge, square and not, in several dtypes."""
    draw, cases = random.Random(seed), []
    for dtype, width in (("bf16", 2), ("fp32", 4), ("int8", 1), ("bf16", 2), ("fp64", 8)):
        inner, columns = draw.sample(range(300, 9000), 2)
        highest = 2 * inner * columns / (inner + columns) / width  # the ridge that no number of rows reaches
        cases.append((inner, columns, dtype, highest * draw.uniform(0.05, 0.95)))
    return rows_of_cases(learner, cases)


def rows_never(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Layers of which some never reach the ridge; of one, the ridge is the highest intensity exactly."""
    draw, cases = random.Random(seed), []
    for _ in range(6):
        inner, columns = draw.sample(range(100, 3000), 2)
        highest = inner * columns / (inner + columns)
        cases.append((inner, columns, "bf16", highest * draw.choice((0.4, 0.8, 1.3, 3.0))))
    size = 2 ** draw.randrange(5, 12)
    cases.append((size, size, "bf16", size / 2))
    return rows_of_cases(learner, draw.sample(cases, len(cases)))


# ---------------------------------------------------------------------------------------------------------- the timer
class Device:
    """A simulated device. A call takes `host` seconds, and its work is done later, one call's after the other's.

    With `returns_late` a call returns when its work is done, as on a CPU. `clock` is in steps of `tick`. After 5,000
    calls each call takes an hour, so that no timer runs forever.
    """

    def __init__(self, work: Sequence[float], host: float, tick: float = 0.0, *, returns_late: bool = False) -> None:
        self.work, self.host, self.tick, self.returns_late = work, host, tick, returns_late
        self.now = self.free = 1000.0
        self.calls = self.readings = 0

    def __call__(self) -> None:
        self.now += self.host if self.calls < 5000 else 3600.0
        self.free = max(self.free, self.now) + self.work[min(self.calls, len(self.work) - 1)]
        self.calls += 1
        if self.returns_late:
            self.synchronize()
        if self.calls > 6000:
            raise RuntimeError("the function is called more than 6,000 times")

    def synchronize(self) -> None:
        self.now = max(self.now, self.free)

    def clock(self) -> float:
        self.readings += 1
        return self.now // self.tick * self.tick if self.tick else self.now


def timed(learner: ModuleType, device: Device, **options: Any) -> Any:
    return learner.measure(device, synchronize=device.synchronize, clock=device.clock, **options)


def repeats_of(learner: ModuleType, device: Device, answers: dict[str, Any], **options: Any) -> None:
    """Measures once on the device, and adds the result and the number of calls to the answers."""
    value = timed(learner, device, **options)
    answers.setdefault("seconds", []).append(plain_number(value))
    answers.setdefault("types", []).append("float" if type_name(value) == "float64" else type_name(value))
    answers.setdefault("calls", []).append(device.calls)


def spread(draw: random.Random, count: int) -> list[float]:
    """Returns times of which some are several times as long as most, as on a machine with other programs."""
    times = [draw.uniform(0.8, 1.2) * draw.choice((1, 1, 1, 7)) for _ in range(count)]
    times[draw.randrange(count)] = draw.uniform(20, 40)
    return times


def median_of_repeats(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A device that works while it is called; odd and even numbers of repeats."""
    draw, answers = random.Random(seed), {}  # type: ignore[var-annotated]
    for repeats in (draw.choice((5, 7, 9)), draw.choice((4, 6, 8)), 2, 1):
        times = spread(draw, repeats)
        if repeats == 2:
            times = [1.0, draw.uniform(2, 3)]
        repeats_of(learner, Device(times, 0.0, returns_late=True), answers, warmup=0, repeats=repeats)
    real = learner.measure(lambda: None, warmup=0, repeats=3, synchronize=lambda: None)
    return answers | {"default clock": type_name(real) in ("float", "float64") and 0 <= real < 60}


def warmup_left_out(learner: ModuleType, seed: int) -> dict[str, Any]:
    """First calls that take long, and more of them than repeats."""
    draw, answers = random.Random(seed), {}  # type: ignore[var-annotated]
    for _ in range(3):
        repeats, warmup = draw.randrange(2, 5), draw.randrange(5, 9)
        work = [draw.uniform(10, 50) for _ in range(warmup)] + [draw.uniform(1, 2) for _ in range(repeats)]
        device = Device(work, draw.uniform(0.01, 0.02), returns_late=True)
        repeats_of(learner, device, answers, warmup=warmup, repeats=repeats)
    return answers


def waits_for_the_device(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Calls that return long before their work is done."""
    draw, answers = random.Random(seed), {}  # type: ignore[var-annotated]
    for _ in range(3):
        repeats = draw.choice((3, 5, 7))
        work = [draw.uniform(2, 3) for _ in range(repeats)]
        repeats_of(learner, Device(work, draw.uniform(0.01, 0.05)), answers, warmup=0, repeats=repeats)
    return answers


def starts_with_an_idle_device(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One repeat after a call of warm-up, or after work that the device still has from before."""
    draw, answers = random.Random(seed), {}  # type: ignore[var-annotated]
    for warmup in (1, 0):
        device = Device([draw.uniform(2, 5) for _ in range(warmup + 1)], 0.01)
        device.free += draw.uniform(10, 20)
        repeats_of(learner, device, answers, warmup=warmup, repeats=1)
    return answers


def several_calls(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Several calls per reading, whose host time is hidden behind the work of earlier calls."""
    draw, answers = random.Random(seed), {}  # type: ignore[var-annotated]
    for _ in range(3):
        repeats, calls = draw.choice((3, 5)), draw.randrange(3, 12)
        work = [draw.uniform(1, 3) for _ in range(repeats * calls)]
        repeats_of(learner, Device(work, draw.uniform(0.4, 0.9)), answers, warmup=0, repeats=repeats, calls=calls)
    return answers


def refused_repeats(learner: ModuleType, seed: int) -> dict[str, Any]:
    """No repeat, and a negative number of them; then a measurement that is fine."""
    draw = random.Random(seed)
    answers: dict[str, Any] = {"raised": []}
    device = Device([draw.uniform(1, 3)], 0.1)
    for repeats in (0, -draw.randrange(1, 5)):
        answers["raised"].append(raised_by(lambda n=repeats: timed(learner, device, warmup=2, repeats=n)))  # type: ignore[misc]
    answers["calls before"] = device.calls
    repeats_of(learner, device, answers, warmup=0, repeats=draw.randrange(1, 4))
    return answers


def counted_calls(learner: ModuleType, devices: Iterable[tuple[Device, float]]) -> dict[str, Any]:
    answers: dict[str, list[Any]] = {"cases": [], "counts": [], "types": [], "calls": []}
    for device, least in devices:
        count = learner.enough_calls(device, least_seconds=least, synchronize=device.synchronize, clock=device.clock)
        answers["cases"].append(f"with {device.work[0]:.4g} s of work per call and at least {least:.4g} s,")
        answers["counts"].append(plain_number(count))
        answers["types"].append(type_name(count))
        answers["calls"].append(device.calls)
    return answers


def doubled_calls(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Calls whose work is done at once, of different lengths."""
    draw = random.Random(seed)
    cases = [(Device([0.0], draw.uniform(0.001, 0.01)), draw.uniform(0.02, 0.3)) for _ in range(4)]
    return counted_calls(learner, [*cases, (Device([0.0], 0.5), 0.4), (Device([0.0], 0.25), 0.9)])


def calls_of_a_device(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Calls that return before their work is done, on a device that still works when it begins."""
    draw, cases = random.Random(seed), []
    for _ in range(4):
        device = Device([draw.uniform(0.001, 0.01)], 1e-5)
        device.free += draw.uniform(1, 2)
        cases.append((device, draw.uniform(0.02, 0.3)))
    return counted_calls(learner, cases)


def calls_by_a_coarse_clock(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A clock in steps of 1/64 s, which reads most short times as 0."""
    draw = random.Random(seed)
    devices = [(Device([draw.uniform(0.0005, 0.003)], 1e-5, 1 / 64), draw.choice((1, 2, 3)) / 64) for _ in range(5)]
    return counted_calls(learner, devices)


# ----------------------------------------------------------------------------------------------------------- ceilings
CACHE = 32 * 2**20


def samples_of(learner: ModuleType, draw: random.Random, count: int, *, zeros: int = 0) -> list[Any]:
    """Returns samples in a random order: products, copies in memory, faster copies in a cache, and untimed ones."""
    peak, bandwidth, samples = draw.uniform(1e10, 1e14), draw.uniform(1e9, 1e12), []
    for _ in range(count):
        flops, moved = draw.randrange(10**8, 10**10), draw.randrange(2 * CACHE, 20 * CACHE)
        samples.append(learner.Sample(learner.Cost(flops, moved // 40), flops / peak * draw.uniform(1, 3)))
        seconds = moved / bandwidth * draw.uniform(1, 3)
        samples.append(learner.Sample(learner.Cost(draw.choice((0, moved // 4)), moved), seconds))
        small = draw.randrange(CACHE // 100, CACHE)
        samples.append(learner.Sample(learner.Cost(0, small), small / bandwidth / draw.uniform(2, 8)))
    for _ in range(zeros):
        samples.append(learner.Sample(learner.Cost(10**6, 4 * CACHE), 0.0))
    draw.shuffle(samples)
    return samples


def roof_of(learner: ModuleType, samples: Sequence[Any], cache: int = CACHE) -> dict[str, Any]:
    kept = list(samples)
    roof = learner.ceilings(samples, cache)
    known = type_name(roof) == "Roof"
    return {
        "type": type_name(roof),
        "peak": plain_number(roof.peak) if known else None,
        "bandwidth": plain_number(roof.bandwidth) if known else None,
        "kept": list(samples) == kept,
    }


def roof_of_samples(learner: ModuleType, seed: int) -> dict[str, Any]:
    """All samples but those in the cache: neither limit is met by most of them."""
    draw = random.Random(seed)
    return roof_of(learner, samples_of(learner, draw, draw.randrange(4, 9)), 0)


def roof_beside_a_cache(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Copies in a cache, some of exactly its size, are faster than those in memory."""
    draw = random.Random(seed)
    samples = samples_of(learner, draw, draw.randrange(4, 9))
    fastest = max(sample.cost.bytes / sample.seconds for sample in samples)
    samples.append(learner.Sample(learner.Cost(0, CACHE), CACHE / fastest / 3))
    draw.shuffle(samples)
    return roof_of(learner, samples)


def roof_without_zeros(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Samples of 0 seconds, and samples from which no roof can be told."""
    draw = random.Random(seed)
    answers = roof_of(learner, samples_of(learner, draw, draw.randrange(3, 6), zeros=3))
    small = learner.Sample(learner.Cost(10**6, CACHE // 2), 0.5)
    untimed = learner.Sample(learner.Cost(10**6, 4 * CACHE), 0.0)
    cases: tuple[list[Any], ...] = ([], [untimed], [small], [small, untimed])
    return answers | {"raised": [raised_by(lambda s=case: learner.ceilings(s, CACHE)) for case in cases]}  # type: ignore[misc]


# -------------------------------------------------------------------------------------------------------------- tiles
def counts(calls: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns texts, numbers and types of what functions returned."""
    answers: dict[str, list[Any]] = {"cases": [], "values": [], "types": []}
    for case, value in calls:
        answers["cases"].append(case)
        answers["values"].append(plain_number(value))
        answers["types"].append(type_name(value))
    return answers


def largest_tiles(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Memories in which three tiles just fit, or just do not, small and very large."""
    draw = random.Random(seed)
    numbers = [3, draw.randrange(4, 12)]
    for low, high in ((3, 60), (3, 60), (100, 2000), (10**8, 10**9)):
        tile = draw.randrange(low, high)
        numbers += [3 * tile**2, 3 * tile**2 - 1, 3 * tile**2 + draw.randrange(1, 3)]
    return counts((f"largest_tile({n})", learner.largest_tile(n)) for n in draw.sample(numbers, len(numbers)))


def reads_where_tiles_fit(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sizes that are multiples of the tile, all different."""
    draw, calls = random.Random(seed), []
    for _ in range(5):
        tile = draw.randrange(2, 17)
        n, m, k = (tile * factor for factor in draw.sample(range(2, 12), 3))
        calls.append((f"tile_reads({n}, {m}, {k}, {tile})", learner.tile_reads(n, m, k, tile)))
    return counts(calls)


def reads_at_the_edge(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sizes that are no multiples of the tile, tiles of 1, and tiles that are larger than a matrix."""
    draw, calls = random.Random(seed), []
    for number in range(8):
        n, m, k = draw.sample(range(2, 90), 3)
        tile = (1, 100, draw.randrange(2, 40))[min(number, 2)]
        calls.append((f"tile_reads({n}, {m}, {k}, {tile})", learner.tile_reads(n, m, k, tile)))
    return counts(calls)


class Watched:
    """A stored matrix that notes the numbers of each read, and whether a read reaches past an edge."""

    def __init__(self, data: Array) -> None:
        self._data = data
        self.shape, self.dtype = data.shape, data.dtype
        self.reads = self.largest = self.past = 0

    def __getitem__(self, part: Any) -> Array:
        parts = part if type(part) is tuple else (part,)
        for axis, place in enumerate(parts):
            size = self.shape[axis] if axis < len(self.shape) else 0
            if type(place) is slice and place.stop is not None and place.stop > size:
                self.past += 1
        read = np.array(self._data[part])
        self.reads += read.size
        self.largest = max(self.largest, read.size)
        return read


def tiled(learner: ModuleType, seed: int, cases: Iterable[tuple[int, int, int, int, str, str]]) -> dict[str, Any]:
    """Multiplies stored matrices of each case; answers the products, and what was read."""
    answers: dict[str, list[Any]] = {name: [] for name in ("cases", "products", "reads", "largest", "past")}
    draw = np.random.default_rng(seed)
    for n, m, k, tile, left, right in cases:
        a, b = draw.standard_normal((n, m)).astype(left), draw.standard_normal((m, k)).astype(right)
        stored = Watched(a), Watched(b)
        product = learner.tiled_matmul(*stored, tile)
        answers["cases"].append(f"[{n}, {m}] @ [{m}, {k}] in tiles of {tile}")
        answers["products"].append(plain_array(product))
        answers["reads"].append([matrix.reads for matrix in stored])
        answers["largest"].append(max(matrix.largest for matrix in stored) <= tile * tile)
        answers["past"].append(sum(matrix.past for matrix in stored))
    return answers


def tiled_where_tiles_fit(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw, cases = random.Random(seed), []
    for _ in range(3):
        tile = draw.randrange(2, 6)
        n, m, k = (tile * factor for factor in draw.sample(range(1, 6), 3))
        cases.append((n, m, k, tile, "float64", "float64"))
    return tiled(learner, seed, cases)


def tiled_at_the_edge(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw, cases = random.Random(seed), []
    for number in range(5):
        n, m, k = draw.sample(range(2, 20), 3)
        tile = (1, 30, draw.randrange(2, 9))[min(number, 2)]
        cases.append((n, m, k, tile, "float64", "float64"))
    cases.append((7, 11, 5, 3, "float64", "float64"))
    return tiled(learner, seed, cases)


def tiled_dtypes(learner: ModuleType, seed: int) -> dict[str, Any]:
    n, m, k = random.Random(seed).sample(range(3, 12), 3)
    dtypes = (("float32", "float32"), ("float32", "float64"), ("float64", "float32"))
    return tiled(learner, seed, [(n, m, k, 3, left, right) for left, right in dtypes])


def padded_sizes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sizes below, at and above a multiple; the answer of a very large size is what was added to it."""
    draw, calls = random.Random(seed), []
    for _ in range(6):
        multiple = draw.randrange(2, 200)
        size = draw.randrange(1, 40) * multiple + draw.choice((-1, 0, 1, multiple // 2))
        calls.append((f"padded({size}, {multiple})", learner.padded(size, multiple)))
    for size, multiple in ((1, draw.randrange(2, 300)), (draw.randrange(1, 99), 1)):
        calls.append((f"padded({size}, {multiple})", learner.padded(size, multiple)))
    return counts(calls)


def padded_large_sizes(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw, calls = random.Random(seed), []
    for _ in range(6):
        multiple = draw.randrange(50, 200)
        size = draw.randrange(10**17, 10**18) * multiple + draw.randrange(1, multiple)
        added = learner.padded(size, multiple)
        text = f"padded(size, {multiple}) - size, for a size of {len(str(size))} digits,"
        calls.append((text, added - size if type(added) is int else added))
    return counts(calls)


def wasted_shares(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One, two and three sizes; some need no padding."""
    draw, calls = random.Random(seed), []
    for number in range(7):
        count = number % 3 + 1
        multiples = [draw.choice((1, 8, 16, 64, 128, 3, 10)) for _ in range(count)]
        sizes_of = [multiple * draw.randrange(1, 9) + draw.choice((0, 1, multiple // 2)) for multiple in multiples]
        pair: tuple[Any, Any] = (tuple(sizes_of), tuple(multiples)) if number % 2 else (sizes_of, multiples)
        calls.append((f"padded_share({pair[0]}, {pair[1]})", learner.padded_share(*pair)))
    return counts(calls)


# --------------------------------------------------------------------------------------------------------- fewer bits
def quantized(learner: ModuleType, matrices: Sequence[tuple[str, Array, bool]]) -> dict[str, Any]:
    """Quantizes each matrix; answers q and scale of each, and whether the matrix is as before."""
    answers: dict[str, list[Any]] = {"cases": [], "forms": [], "q": [], "scales": [], "kept": []}
    with np.errstate(all="ignore"):
        for text, matrix, per_row in matrices:
            before = matrix.copy()
            returned = learner.quantize(matrix, per_row)
            pair = tuple_items(returned, 2)
            q, scale = (plain_array(item) for item in pair) if pair else (None, None)
            answers["cases"].append(f"{text}, shape {list(matrix.shape)}, per_row={per_row}")
            answers["forms"].append([kind_text(item) for item in pair] if pair else [kind_text(returned)])
            answers["q"].append(q)
            answers["scales"].append(scale)
            answers["kept"].append(bool(np.array_equal(matrix, before, equal_nan=True)))
    return answers


def normal(draw: np.random.Generator, dtype: str = "float32") -> Array:
    """Returns a matrix whose rows have different sizes of numbers."""
    n, m = (int(size) for size in draw.integers(3, 12, 2))
    spread_of_rows = 10.0 ** draw.uniform(-3, 3, (n, 1))
    return np.asarray(draw.standard_normal((n, m)) * spread_of_rows).astype(dtype)


def quantized_whole(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    matrices = [normal(draw) * np.float32(factor) for factor in (1, 1e-3)]
    negative = -np.abs(normal(draw))
    return quantized(
        learner, [("a matrix", matrix, False) for matrix in matrices] + [("a negative matrix", negative, False)]
    )


def quantized_rows(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    square = draw.standard_normal((5, 5)).astype("float32") * np.arange(1, 6, dtype="float32")[:, None]
    return quantized(learner, [("a matrix", normal(draw), True), ("a square matrix", square, True)])


def quantized_ties(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Numbers halfway between two integers times the scale, a power of two."""
    draw = np.random.default_rng(seed)
    matrices = []
    for power in draw.integers(-6, 6, 2):
        halves = (draw.integers(-120, 120, (4, 6)) + 0.5).astype("float32")
        halves[:, 0] = 127
        matrices.append((f"halves times 2**{power}", halves * np.float32(2.0**power), bool(power % 2)))
    return quantized(learner, matrices)


def quantized_zeros(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    rows = normal(draw)
    rows[int(draw.integers(len(rows)))] = 0
    zeros = np.zeros((int(draw.integers(2, 5)), 3), "float32")
    return quantized(learner, [("a row of zeros", rows, True), ("zeros only", zeros, False), ("zeros", zeros, True)])


def quantized_kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """In float64 too: dtypes and shapes of q and scale, and a matrix that stays as it is."""
    draw = np.random.default_rng(seed)
    matrices = [(dtype, normal(draw, dtype), per_row) for dtype in ("float32", "float64") for per_row in (True, False)]
    return quantized(learner, matrices)


def dequantized(learner: ModuleType, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    answers: dict[str, list[Any]] = {"cases": [], "arrays": [], "kept": []}
    for rows in (True, False):
        n, m = (int(size) for size in draw.integers(3, 9, 2))
        q = draw.integers(-127, 128, (n, m)).astype(np.int8)
        scale = draw.uniform(0.01, 2, (n if rows else 1, 1)).astype(np.float32)
        before = q.copy(), scale.copy()
        answers["cases"].append(f"dequantize of shapes {[n, m]} and {list(scale.shape)}")
        answers["arrays"].append(plain_array(learner.dequantize(q, scale)))
        answers["kept"].append(bool((q == before[0]).all() and (scale == before[1]).all()))
    return answers


def int8_products(learner: ModuleType, cases: Iterable[tuple[Array, Array, Array, Array]]) -> dict[str, Any]:
    answers: dict[str, list[Any]] = {"cases": [], "arrays": [], "kept": []}
    for arrays in cases:
        before = [array.copy() for array in arrays]
        product = learner.int8_matmul(*arrays)
        answers["cases"].append("int8_matmul of shapes " + ", ".join(str(list(array.shape)) for array in arrays))
        answers["arrays"].append(plain_array(product))
        answers["kept"].append(all((array == old).all() for array, old in zip(arrays, before, strict=True)))
    return answers


def small_int8_products(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Numbers so small that no sum leaves the range of int8, with scales of 1."""
    draw, cases, one = np.random.default_rng(seed), [], np.ones((1, 1), np.float32)
    for _ in range(3):
        n, m, k = (int(size) for size in draw.choice(np.arange(2, 8), 3, replace=False))
        a, b = (draw.integers(-3, 4, shape).astype(np.int8) for shape in ((n, m), (m, k)))
        cases.append((a, one, b, one))
    return int8_products(learner, cases)


def large_int8_products(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums that leave the range of int16; and long sums of large products that nearly cancel.

    Only exact additions give the small numbers that are left. No sum leaves the range of int32.
    """
    draw, one = np.random.default_rng(seed), np.ones((1, 1), np.float32)
    n, m, k = (int(size) for size in draw.choice(np.arange(4, 12), 3, replace=False))
    cases = [tuple(draw.integers(90, 128, shape).astype(np.int8) for shape in ((n, m), (m, k)))]
    half = int(draw.integers(90_000, 120_000))
    first, right = draw.integers(120, 128, (2, half)), draw.integers(120, 128, (half, 3))
    second = first - (draw.random((2, half)) < 0.01)
    cases.append(
        (np.concatenate([first, -second], axis=1).astype(np.int8), np.concatenate([right, right]).astype("i1"))
    )
    return int8_products(learner, [(a, one, b, one) for a, b in cases])


def scaled_int8_products(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Scales of one number, per row of the left operand, and per column of the right one."""
    draw, cases = np.random.default_rng(seed), []
    for rows, columns in ((False, False), (True, False), (False, True), (True, True)):
        n, m, k = (int(size) for size in draw.choice(np.arange(2, 9), 3, replace=False))
        a, b = (draw.integers(-127, 128, shape).astype(np.int8) for shape in ((n, m), (m, k)))
        a_scale = draw.uniform(0.01, 2, (n if rows else 1, 1)).astype(np.float32)
        b_scale = draw.uniform(0.01, 2, (1, k if columns else 1)).astype(np.float32)
        cases.append((a, a_scale, b, b_scale))
    assert all(math.prod(case[0].shape) for case in cases)
    return int8_products(learner, cases)
