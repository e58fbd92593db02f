"""Probes of Lab 06: each calls the learner's code on synthetic traces and small models, and returns plain values.

Times in the traces are multiples of 0.25 µs, so that sums are exact in any order. Like a real trace, each trace has
details that are easily forgotten: metadata without times, ranges of the GPU with the host's names, an operation with
the name of a phase, step numbers of one and of two digits, and events in random order.
"""

import gc
import random
import warnings
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.exercises.probes.left_behind import Attached, Watch
from rankzero.exercises.probes.untrusted_values import (
    dict_items,
    gradients,
    is_tensor,
    plain_number,
    tuple_items,
    type_name,
)

warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"  # without our lines
warnings.simplefilter("once")

Event = dict[str, Any]
MAIN, LOADER, AUTOGRAD = 7, 11, 13  # threads
KEYS = ("data", "forward", "backward", "optimizer", "idle")


def non_tensor_number(value: Any) -> int | float | str:
    """Returns the value of a plain number, and the type of any other value, including a tensor."""
    number = None if is_tensor(value) else plain_number(value)
    return f"of type {type_name(value)}" if number is None else number


def kind_of(value: Any) -> str:
    """Returns the name of the type; NumPy's float counts as float."""
    return "float" if type(value) is np.float64 else type_name(value)


# ----------------------------------------------------------------------------------------------------- synthetic traces
class Trace:
    """Writes events in the form of torch.profiler; `now` is the time on its clock."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.events, self.now = draw, [], float(draw.randrange(10**9, 2 * 10**9))
        self.first_step = draw.randrange(6, 8)
        self.events.append({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}})
        self.events.append({"ph": "i", "name": "forward", "pid": 1, "tid": MAIN, "ts": self.now, "s": "t"})

    def add(self, name: str, start: float, end: float, tid: int = MAIN, cat: str = "user_annotation") -> None:
        """Adds an event with a beginning and an end."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start}
        self.events.append(event)

    def step(self, number: int, start: float) -> None:
        """Adds the range of a step, from `start` until now, and the GPU's copy of the range, which ends later."""
        name = f"ProfilerStep#{self.first_step + number}"
        self.add(name, start, self.now)
        if number:  # the first step's kernels were not recorded
            self.add(name, start + 40, self.now + 700, 0, "gpu_user_annotation")
        self.now += self.draw.randrange(1, 60)  # time between two steps belongs to no step

    def shuffled(self) -> list[Event]:
        """Returns all events in random order, but the steps newest first, and the first of all at the fourth place.

        Code must sort the steps by time: otherwise it leaves out the newest as warm-up, on every seed.
        """
        self.draw.shuffle(self.events)
        events: list[Event] = self.events
        names = [event["name"] * (event.get("cat") == "user_annotation") for event in events]
        places = [place for place, name in enumerate(names) if name.startswith("ProfilerStep#")]
        *steps, first = sorted((events[place] for place in places), key=lambda step: float(step["ts"]), reverse=True)
        steps.insert(3, first)
        for place, step in zip(places, steps, strict=True):
            events[place] = step
        return events


def plain_steps(
    seed: int, count: int, slow_first: int = 0, ranges_inside: bool = False, absent: str = ""
) -> list[Event]:
    """Returns steps with phases in sequence and a pause before each; the first `slow_first` wait long for data.

    `absent` is a phase without any range.
    """
    draw = random.Random(seed)
    trace = Trace(draw)
    for number in range(count):
        begin = trace.now
        for phase, longest in (("data", 900), ("forward", 2000), ("backward", 4000), ("optimizer", 700)):
            pause = draw.randrange(20, 400) + draw.randrange(4) / 4
            trace.now += pause
            start = trace.now
            length = (draw.randrange(longest // 2, longest) + draw.randrange(4) / 4) * (
                60 if number < slow_first and phase == "data" else 1  # more than of any later step
            )
            if phase == absent:
                trace.add("aten::mm", start, start + length, cat="cpu_op")
                trace.now += length
                continue
            if ranges_inside:  # a module's range with the phase's name, and a range of the optimizer
                trace.add(phase, start + length // 4, start + length // 2)
                trace.add(f"Optimizer.step#AdamW.{phase}", start, start + length)
                trace.add(f"{phase} and the pause before it", start - pause, start + length)
            trace.add(phase, start, start + length)
            trace.add(phase, start + 100, start + length + 900, 0, "gpu_user_annotation")
            trace.add("aten::mm" if number % 2 else phase, start, start + length // 3, cat="cpu_op")
            trace.now += length
        trace.now += draw.randrange(20, 300)
        if draw.random() < 0.3:
            trace.now += 9000  # another process had the processor
        trace.step(number, begin)
    return trace.shuffled()


def overlapping_steps(seed: int, count: int = 7) -> list[Event]:
    """Returns steps in which a thread loads data ahead, across steps, and the optimizer runs inside backward."""
    draw = random.Random(seed)
    trace = Trace(draw)
    for number in range(count):
        begin = trace.now
        trace.now += draw.randrange(50, 200)
        forward = draw.randrange(1000, 2000)
        trace.add("forward", trace.now, trace.now + forward)
        trace.add("data", trace.now - 40, trace.now + draw.randrange(100, 900), LOADER)  # partly or wholly hidden
        trace.now += forward + draw.randrange(20, 90)
        backward = draw.randrange(2000, 4000)
        trace.add("backward", trace.now, trace.now + backward, AUTOGRAD)
        for part in range(3):  # each layer is updated as soon as its gradient is ready
            start = trace.now + backward * (part + 1) // 5
            trace.add("optimizer", start, start + draw.randrange(100, 400), AUTOGRAD)
        trace.now += backward
        trace.add("optimizer", trace.now - 90, trace.now + 150)
        trace.now += draw.randrange(250, 500)
        trace.add("data", trace.now - 60, trace.now + 130, LOADER)  # reaches into the next step
        trace.step(number, begin)
    return trace.shuffled()


# ---------------------------------------------------------------------------------------------------- phase_fractions
def intervals(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Merges random intervals, some nested, some that touch, one twice; and an empty list."""
    draw = random.Random(seed)
    starts = [draw.randrange(1200) / 4 for _ in range(12)]
    given = [(start, start + draw.randrange(4, 160) / 4) for start in starts]
    given += [(400.25, 440), (440, 450.5), (410, 420), (410, 420), (451.25, 460), (500, 600), (510, 520), (530, 590)]
    draw.shuffle(given)
    returned = learner.merged(given)
    results = {"type": type_name(returned), "merged": ends(returned), "given": ends(given)}
    try:
        return results | {"empty": ends(learner.merged([]))}
    except Exception as error:
        return results | {"empty": f"{type_name(error)}: {error}"[:80]}


def ends(pairs: Any) -> list[int | float | None]:
    """Returns start and end of each pair in a flat list, or [None] for another value."""
    if type(pairs) is not list or any(type(pair) not in (tuple, list) for pair in pairs):
        return [None]
    return [plain_number(end) for pair in pairs for end in pair]


def _fractions(learner: ModuleType, events: list[Event], warmup: int) -> dict[str, Any]:
    returned = learner.phase_fractions(events, warmup)
    pair = tuple_items(returned, 2)
    fractions = dict_items(pair[1]) if pair else None
    good = pair is not None and fractions is not None
    fractions = fractions or {}
    return {
        "type": "tuple" if good else type_name(returned),
        "names": sorted(str(key) for key in fractions),
        "step_ms": non_tensor_number(pair[0]) if pair and good else None,
        **{key: non_tensor_number(fractions.get(key)) for key in KEYS},
        "sum": float(
            sum(number for value in fractions.values() if isinstance(number := plain_number(value), int | float))
        ),
        "events": times(events),
    }


def times(events: list[Event]) -> list[int]:
    """Returns a checksum of each event: its number of fields, its start and its duration, which show later changes."""
    return [sum(map(int, (len(event), event.get("ts", 0), event.get("dur", 0)))) % 10_007 for event in events]


def one_after_another(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the fractions of steps with phases in sequence; all steps count."""
    return _fractions(learner, plain_steps(seed, random.Random(seed).randrange(5, 9)), 0)


def absent_phase(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the fractions of steps in which one phase has no range, as data has none where nobody named it."""
    draw = random.Random(seed)
    return _fractions(learner, plain_steps(seed, draw.randrange(3, 7), absent=draw.choice(KEYS[:4])), 0)


def slow_first_steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the fractions without the slow first steps, whose numbers have one digit; later numbers have two.

    With the slow steps in place of others, half of the steps would be slow, and the median another one.
    """
    warmup = random.Random(seed).randrange(2, 4)  # step numbers begin at 6 or 7: those of one and of two digits
    return _fractions(learner, plain_steps(seed, 3 * warmup, slow_first=warmup), warmup)


def ranges_inside(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the fractions of phases that have ranges of the same name inside."""
    return _fractions(learner, plain_steps(seed, 6, ranges_inside=True), 0)


def threads(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the fractions of phases on three threads, some across the borders of steps."""
    warmup = random.Random(seed).randrange(1, 4)
    return _fractions(learner, overlapping_steps(seed, 6 + warmup), warmup)


# --------------------------------------------------------------------------------------------------------- self_times
NAMES = ("aten::linear", "aten::addmm", "aten::mul", "aten::copy_", "autograd::engine::evaluate_function: MulBackward0")


def operations(
    seed: int, depth: int, count: int = 6, two_threads: bool = False, over_borders: bool = False
) -> list[Event]:
    """Returns steps of operations that call operations, in `depth` levels, on one thread or two threads at once.

    With `over_borders`, one operation per step ends after the step, where it calls another and calls one exactly at
    the end of the step; and one begins before the step.
    """
    draw = random.Random(seed)
    trace = Trace(draw)

    def call(start: float, length: int, level: int, tid: int) -> None:
        trace.add(draw.choice(NAMES), start, start + length, tid, "cpu_op")
        if level < depth:
            inner = start + draw.choice((0, 5))  # some begin at the same time as their caller
            while inner + length // 3 <= start + length:
                call(inner, length // 3 - draw.randrange(2), level + 1, tid)
                inner += length // 3 + draw.choice((0, 1, 4))  # some begin without a gap

    for number in range(count):
        begin = trace.now
        for _ in range(4):
            length = draw.randrange(300, 900)
            trace.add("forward", trace.now, trace.now + length)  # a range is not an operation
            call(trace.now, length, 1, MAIN)
            if two_threads:
                call(trace.now + length // 4, length // 2, 1, AUTOGRAD)
            trace.now += length + draw.choice((0, 70))
        if over_borders:
            trace.now += 40
            trace.add("aten::copy_", trace.now - 30, trace.now + 9, cat="cpu_op")
            trace.add("aten::addmm", trace.now, trace.now + 2, cat="cpu_op")
            trace.add("aten::mul", trace.now + 2, trace.now + 7, cat="cpu_op")
        trace.step(number, begin)
        if over_borders:
            trace.add("aten::copy_", trace.now + 10, trace.now + 60, cat="cpu_op")
            trace.now += 40
    return trace.shuffled()


def _self_times(learner: ModuleType, events: list[Event], warmup: int) -> dict[str, Any]:
    returned = learner.self_times(events, warmup)
    items = dict_items(returned)
    rows = {str(name): row for name, row in (items or {}).items()}
    pairs = {
        name: tuple_items(tuple(row) if type(row) is list else row, 2) or (None, None) for name, row in rows.items()
    }
    return {
        "type": type_name(returned) if items is None else "dict",
        "names": sorted(rows),
        "calls": [non_tensor_number(pairs[name][0]) for name in sorted(rows)],
        "ms": [non_tensor_number(pairs[name][1]) for name in sorted(rows)],
        "kinds": sorted({kind_of(pair[0]) for pair in pairs.values()}),
        "events": times(events),
    }


def flat_operations(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the self times of operations that call no other operation."""
    return _self_times(learner, operations(seed, 1, random.Random(seed).randrange(3, 8)), 0)


def nested_operations(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the self times of three levels of operations."""
    return _self_times(learner, operations(seed, depth=3), 0)


def measured_operations(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the self times of two levels without the first steps; some operations cross the border of a step."""
    warmup = random.Random(seed).randrange(1, 4)
    return _self_times(learner, operations(seed, 2, 4 + warmup, over_borders=True), warmup)


def operations_on_threads(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the self times of two levels on two threads, where overlapping operations are not nested."""
    return _self_times(learner, operations(seed, depth=2, two_threads=True), 0)


# -------------------------------------------------------------------------------------------------------- utilization
def formula(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the FLOPs of a random transformer and of PaLM."""
    draw = random.Random(seed)
    parameters = draw.randrange(10**6, 10**9)
    shape = {"layers": draw.randrange(2, 40), "heads": draw.randrange(2, 20), "head_dim": 16 * draw.randrange(1, 9)}
    flops = learner.palm_flops(
        parameters=parameters, looked_up=parameters // draw.randrange(5, 20), seq_len=draw.randrange(256, 2048), **shape
    )
    palm = learner.palm_flops(540_350_000_000, 0, 118, 48, 256, 2048)
    return {"type": kind_of(flops), "flops": non_tensor_number(flops), "palm": plain_number(palm)}


def utilization(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the MFU of random devices, with dense and sparse rows of the data sheet."""
    draw = random.Random(seed)
    sheet: list[dict[str, Any]] = [
        {"dtype": "fp32", "tflops": draw.randrange(20, 70), "sparsity": False},
        {"dtype": "tf32", "tflops": draw.randrange(300, 990), "sparsity": True},
        {"dtype": "bf16", "tflops": draw.randrange(1000, 2000), "sparsity": True},
        {"dtype": "fp8", "tflops": draw.randrange(2000, 4000), "sparsity": True},
    ]
    rate, flops, devices = draw.uniform(1e3, 2e4), draw.randrange(10**9, 10**10), draw.randrange(2, 65)
    palm = [{"dtype": "bf16", "tflops": 275, "sparsity": False}]
    draw.shuffle(sheet)
    before = [sorted(map(str, row.items())) for row in sheet]
    dense = learner.mfu(rate, flops, devices, sheet, "fp32")
    return {
        "type": kind_of(dense),
        "sheet": [sorted(map(str, row.items())) for row in sheet] == before,
        "dense": non_tensor_number(dense),
        "sparse": plain_number(learner.mfu(rate, flops, devices, sheet, "bf16")),
        "tf32": plain_number(learner.mfu(rate, flops, devices, sheet, "tf32")),
        "one": plain_number(learner.mfu(rate, flops, 1, sheet, "bf16")),
        "impossible": plain_number(learner.mfu(1e9, flops, devices, sheet, "bf16")),
        "palm": plain_number(
            learner.mfu(238_300, 6 * 540_350_000_000 + 12 * 118 * 48 * 256 * 2048, 6144, palm, "bf16")
        ),
    }


def hardware(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the HFU with none, a part and all of the forward pass recomputed, and for an impossible MFU."""
    draw = random.Random(seed)
    share, part, wrong = draw.uniform(0.1, 0.6), draw.uniform(0.3, 0.9), draw.uniform(0.8, 2.0)
    cases = [(share, 0.0), (share, part), (share, 1.0), (wrong, 1.0)]
    return {"share": share, "hfu": [non_tensor_number(learner.hfu(*arguments)) for arguments in cases]}


# ---------------------------------------------------------------------------------------------------------- tiny_share
def shares(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the shares of random operations, of operations that are all or never tiny, and of none."""
    draw = random.Random(seed)

    def operations(short: int, long: int) -> dict[str, tuple[int, float]]:
        """Calls of 1 to 15 µs, and calls of 25 to 400 µs; the operation with most calls is not tiny."""
        counts = [draw.randrange(3, 40) for _ in range(short + long)]
        each = [draw.uniform(0.001, 0.015) for _ in range(short)] + [draw.uniform(0.025, 0.4) for _ in range(long)]
        rows = [(calls, calls * milliseconds) for calls, milliseconds in zip(counts, each, strict=True)]
        rows += [(300, 300 * draw.uniform(0.021, 0.03))] * bool(long)
        rows += [(1, 0.02)] * bool(long)  # exactly TINY_MS
        rows += [(1, draw.uniform(0.005, 0.015))] * bool(short)  # less than TINY_MS in all calls together
        draw.shuffle(rows)
        return {f"aten::op{number}": row for number, row in enumerate(rows)}

    cases = [operations(draw.randrange(2, 6), draw.randrange(2, 6)), operations(3, 0), operations(0, 3), {}]
    cases.append({"aten::empty": (3, 0.0)})
    before = [dict(case) for case in cases]
    shares: list[int | float | str] = []
    kinds: set[str] = set()
    for case in cases:
        try:
            share = learner.tiny_share(case)
        except ZeroDivisionError:
            shares.append("an error (ZeroDivisionError)")
            continue
        shares.append(non_tensor_number(share))
        kinds.add(kind_of(share))
    return {"type": " or ".join(sorted(kinds)), "shares": shares, "unchanged": cases == before}


# ----------------------------------------------------------------------------------------------------------- diagnose
def case(seed: int, warmup: int = 2, *, first: dict[str, int], **later: int) -> list[Event]:
    """Returns a trace whose first steps have the settings `first` and whose later steps have the settings `later`.

    `data`: µs of waiting for data; `ahead`: µs of loading in another thread; `reads`: numbers copied to Python; `calls`
    of an operation of `each` µs, and one more of `long` µs; `work`: µs in two large operations, which a layer calls;
    `pause`: µs without operations. The steps' numbers begin at 94 or later and end above 99.
    """
    trace = Trace(random.Random(seed))
    trace.first_step += 88
    for number in range(warmup + 5):
        settings = {"data": 60, "ahead": 0, "reads": 0, "calls": 20, "each": 5, "long": 0, "work": 4000, "pause": 50}
        settings |= first if number < warmup else later
        begin = trace.now
        trace.add("data", begin, begin + settings["ahead"], LOADER)
        trace.add("data", begin, begin + settings["data"])
        trace.now += settings["data"]
        for phase, part in (("forward", 3), ("backward", 1)):
            start = trace.now
            length = settings["work"] * part // 4
            trace.add("aten::linear", start, start + length, cat="cpu_op")
            trace.add("aten::mm", start + 50, start + length - 50, cat="cpu_op")
            trace.now += length
            for _ in range(settings["calls"] // 2):
                trace.add("aten::mul", trace.now, trace.now + settings["each"], cat="cpu_op")
                trace.now += settings["each"]
            trace.add(phase, start, trace.now)
        for place in range(settings["reads"]):
            outer = "aten::item" if place % 4 else "mine::read"  # an operation of an extension
            trace.add(outer, trace.now, trace.now + 9, cat="cpu_op")
            trace.add("aten::_local_scalar_dense", trace.now + 3, trace.now + 7, cat="cpu_op")
            trace.now += 10
        if settings["long"]:
            trace.add("aten::mul", trace.now, trace.now + settings["long"], cat="cpu_op")
        trace.now += settings["long"] + settings["pause"]
        trace.step(number, begin)
    return trace.shuffled()


def causes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Diagnoses traces of every kind, far from the thresholds; the first steps are misleading and do not count."""
    draw = random.Random(seed)
    slow_start = {"data": 200_000}
    data, reads = draw.randrange(18_000, 24_000), draw.randrange(150, 200)
    calls, few, many = draw.randrange(110, 140), draw.randrange(80, 95), draw.randrange(120, 180)
    tiny = {"calls": calls, "work": 12 * calls}
    busy_start = {"calls": 150, "reads": 400, "work": 400}
    cases = {
        "starved": case(seed, first={"work": 90_000}, data=data),
        "starved, reads": case(seed, first={}, data=data, reads=reads),
        "starved, tiny": case(seed, first={}, data=data, **tiny),
        "reads": case(seed, first=slow_start, reads=reads),
        "more reads": case(seed, first=slow_start, reads=2 * reads),
        "fewer reads": case(seed, first=slow_start, reads=draw.randrange(135, 140)),
        "just enough reads": case(seed, first=slow_start, reads=100),
        "reads, tiny": case(seed, first=slow_start, reads=draw.randrange(110, 131), **tiny),
        "tiny": case(seed, first=slow_start, **tiny),
        "tiny, five reads": case(seed, first=slow_start, reads=5, **tiny),
        "half tiny": case(seed, first=slow_start, calls=calls, work=6 * calls),
        "tiny, long pauses": case(seed, first=slow_start, **tiny, pause=17 * calls),
        "third tiny": case(seed, first=slow_start, calls=calls, each=15, work=30 * calls),
        "nothing but tiny": case(seed, first=slow_start, calls=calls, work=400),
        "nothing": case(seed, first=slow_start),
        "nothing, after a slow start": case(seed, first=busy_start),
        "loads ahead": case(seed, first={}, ahead=draw.randrange(3200, 3900)),
        "five reads": case(seed, first={}, reads=5),
        "few reads": case(seed, first={}, reads=few),
        "many reads": case(seed, first={}, reads=55),
        "some reads": case(seed, first={}, reads=30),
        "many, not tiny": case(seed, first={}, calls=many, each=45),
        "many, one long": case(seed, first={}, calls=120, each=10, long=draw.randrange(1500, 1800), work=400),
        "tiny, little time": case(seed, first={}, calls=calls, each=3, work=15 * calls),
        "data leads": case(seed, first={}, data=draw.randrange(3400, 3700)),
        "idle, some data": case(seed, first={}, data=draw.randrange(2800, 3200), pause=5000),
    }
    order = draw.sample([*cases], len(cases))  # so that the place of a trace tells nothing about its answer
    answers = {f"trace {place}": learner.diagnose(cases[name], 2) for place, name in enumerate(order)}
    return {"order": order} | {place: text if type(text) is str else type_name(text) for place, text in answers.items()}


def named(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the learner's diagnoses of the three scripts."""
    diagnoses = dict_items(learner.patients()) or {}
    return {name: str(diagnoses.get(name, "")) for name in ("patient_a", "patient_b", "patient_c")}


# -------------------------------------------------------------------------------------------------------------- watch
class Small(nn.Module):
    """Embedding, a layer that is used twice, an output layer and one that is never called.

    Widths vary with the seed.
    """

    def __init__(self, seed: int, fails: str = "", dtype: torch.dtype = torch.float64) -> None:
        """`fails`: the text of the error that forward raises, or ""."""
        super().__init__()
        draw = random.Random(seed)
        width = draw.randrange(5, 9)
        torch.manual_seed(seed)
        self.embedding, self.shared = nn.Embedding(9, width), nn.Linear(width, width)
        self.head, self.never = nn.Linear(width, 4), nn.Linear(3, 3)
        self.fails = fails
        self.to(dtype)
        with torch.no_grad():
            self.shared.bias.add_(2.0)  # so that the outputs' mean is far from 0

    def forward(self, ids: Tensor) -> Tensor:
        """[B, T] -> [B, T, 4]"""
        x = self.embedding(ids)
        once = self.shared(x).tanh()
        twice = self.shared(once)
        if self.fails:
            raise ArithmeticError(self.fails)
        out: Tensor = self.head(twice + once)
        return out


def batch(seed: int) -> Tensor:
    """Returns random token ids, int64 [B, T]."""
    draw = random.Random(seed)
    return torch.randint(9, (draw.randrange(2, 7), draw.randrange(2, 5)), generator=torch.Generator().manual_seed(seed))


def loss_of(model: nn.Module, seed: int, times: int = 1) -> Tensor:
    """Returns a scalar with its graph, whose gradients are neither small nor equal; the batch has `times` the rows."""
    out: Tensor = model(batch(seed).repeat(times, 1))
    return (out * torch.arange(1.0, 5.0, dtype=out.dtype)).square().mean()


def notes(log: Any, name: str, kind: str) -> list[int | float | None]:
    """Returns the recorded numbers, or [None] if there is no list."""
    try:
        recorded = log[name][kind]
    except (KeyError, TypeError):
        return [None]
    return [plain_number(value) for value in recorded] if type(recorded) is list else [None]


def gradient_norms(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns gradient norms: after and before backward, of a part, of a frozen part, and with a layer used twice.

    The output layer is frozen after backward, so its gradient counts.
    """
    model = Small(seed)
    before = learner.gradient_norm(model)
    model.embedding.weight.requires_grad_(False)
    (1000 * loss_of(model, seed)).backward()
    model.head.requires_grad_(False)
    tied = nn.Sequential(model.shared, nn.Tanh(), model.shared)
    width = model.shared.in_features
    other = nn.Linear(width, width, dtype=torch.float64)
    other.weight = model.shared.weight
    pair = nn.Sequential(model.shared, other)
    modules = {"whole": model, "part": model.head, "tied": tied, "pair": pair, "frozen": model.embedding}
    kept = gradients(model)
    norms = {"before": before} | {name: learner.gradient_norm(module) for name, module in modules.items()}
    types = {kind_of(norm) for norm in norms.values()}
    unchanged = bool(np.array_equal(kept, gradients(model), equal_nan=True))
    numbers = {name: plain_number(norm) for name, norm in norms.items()}
    return {"type": " or ".join(sorted(types)), "unchanged": unchanged} | numbers


def narrow_norms(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns norms of gradients in float16, whose squares overflow, in bfloat16, and of both beside float32."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    dtypes = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
    layers = {name: nn.Linear(draw.randrange(5, 40), draw.randrange(5, 40)).to(dtype) for name, dtype in dtypes.items()}
    for layer in layers.values():
        for parameter in layer.parameters():
            parameter.grad = (300 + 200 * torch.rand(parameter.shape)).to(parameter.dtype)
    layers["mixed"] = nn.ModuleList(layers.values())  # type: ignore[assignment]
    return {name: plain_number(learner.gradient_norm(layer)) for name, layer in layers.items()}


LISTS = ("activation", "gradient")


class Noted:
    """Two lists for each of several modules, filled by the learner's `note` while the `with` block runs."""

    def __init__(self, learner: ModuleType, **modules: nn.Module) -> None:
        self.log: dict[str, dict[str, list[Any]]] = {name: {kind: [] for kind in LISTS} for name in modules}
        self._note, self._modules = learner.note, modules

    def __enter__(self) -> dict[str, dict[str, list[Any]]]:
        lists = self.log
        self._stops = [self._note(module, *lists[name].values()) for name, module in self._modules.items()]
        return lists

    def __exit__(self, *error: object) -> None:
        for stop in self._stops:
            stop()


def noted(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Notes three steps: with a module that is called twice, an output without a gradient, and two backwards."""
    model = Small(seed)
    model.embedding.weight.requires_grad_(False)
    model.head.eval()  # as in fine-tuning of the other layers
    modules = {"in": model.embedding, "twice": model.shared, "out": model.head, "never": model.never}
    with Noted(learner, **modules) as log:
        loss_of(model, seed).backward()
        loss = loss_of(model, seed + 1)
        loss.backward(retain_graph=True)
        (3 * loss).backward()
        loss_of(model, seed + 2).backward()
    return {f"{kind} of {name}": notes(log, name, kind) for name in modules for kind in LISTS}


def narrow_notes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Notes a layer in float16, whose squares overflow, and one in bfloat16."""
    torch.manual_seed(seed)
    found: dict[str, Any] = {}
    for name, dtype in {"float16": torch.float16, "bfloat16": torch.bfloat16}.items():
        layer, x = nn.Linear(8, 8).to(dtype), torch.randn(5, 8).to(dtype)
        with torch.no_grad():
            layer.bias.fill_(700)
        with Noted(learner, layer=layer) as log:
            (400 * layer(x)).float().sum().backward()
        found |= {f"{kind} in {name}": notes(log, "layer", kind) for kind in LISTS}
    return found


def after_the_end(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts what is added after noting has ended: by a backward of two noted forwards, and by another step."""
    draw = random.Random(seed)
    model = Small(seed)
    attached = Attached(model)
    for _ in range(draw.randrange(1, 20)):
        model.head.register_forward_hook(lambda *_: None)
    activations: list[Any] = []
    norms: list[Any] = []
    stop = learner.note(model.head, activations, norms)
    for _ in range(draw.randrange(1, 20)):
        model.head.register_forward_hook(lambda *_: None)
    loss_of(model, seed).backward()
    pending = loss_of(model, seed) + loss_of(model, seed + 1)
    stop()
    counts = [len(activations), len(norms)]
    left = attached.more()
    pending.backward()
    counts.append(len(norms))
    loss_of(model, seed).backward()
    return {"counts": [*counts, len(activations), len(norms)], "left": left}


def without_backward(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Notes a forward pass under no_grad."""
    model = Small(seed)
    with Noted(learner, out=model.head) as log, torch.no_grad():
        model(batch(seed))
    return {"activation": notes(log, "out", "activation"), "gradient": notes(log, "out", "gradient")}


def watched(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Watches two steps of four modules, one under two names, one never called; returns what the dictionary holds."""
    model = Small(seed)
    modules = {"in": model.embedding, "twice": model.shared, "out": model.head, "never": model.never}
    modules["again"] = model.head
    names = random.Random(seed).sample([*modules], len(modules))
    given = {name: modules[name] for name in names}
    with learner.watch(given) as log:
        loss_of(model, seed).backward()
        loss_of(model, seed + 1).backward()
    items = dict_items(log)
    keys = {name: sorted(map(str, dict_items(items[name]) or {})) for name in items or {} if items}
    return {
        "type": "dict" if items is not None else type_name(log),
        "names": sorted(map(str, keys)),
        "keys": [keys[name] for name in sorted(keys)],
        "given": [*given] == names,
        **{f"{kind} of {name}": notes(log, name, kind) for name in modules for kind in LISTS},
    }


def removal(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts hooks and records after a `with` block that ended normally, by an error or by Ctrl-C; also if nested."""
    draw = random.Random(seed)
    model, failing = Small(seed), Small(seed, fails=f"no {draw.randrange(10**9)}")
    attached, to_failing = Attached(model), Attached(failing)

    def others(target: Small) -> None:
        for _ in range(draw.randrange(1, 20)):
            target.head.register_forward_hook(lambda *_: None)

    others(model)
    with learner.watch({"out": model.head, "twice": model.shared, "again": model.head}) as log:
        others(model)  # hooks that were added later
        with learner.watch({"out": model.head}):
            loss_of(model, seed).backward()
        loss_of(model, seed).backward()
    left = attached.more()
    before = len(notes(log, "out", "activation"))
    loss_of(model, seed).backward()
    others(failing)
    raised = "nothing"
    try:
        with learner.watch({"out": failing.head, "twice": failing.shared}):
            loss_of(failing, seed)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"[:80]
    left_by_error = to_failing.more()
    with suppress(KeyboardInterrupt), learner.watch({"out": failing.head}):
        raise KeyboardInterrupt
    return {
        "left": left,
        "noted": before,
        "noted after": len(notes(log, "out", "activation")),
        "left after an exception": left_by_error,
        "left after Ctrl-C": to_failing.more(),
        "raised": raised,
    }


def undisturbed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns loss, gradients, modes and the next random number of a noted step.

    Also the error and the gradients of a step in which another module changes a noted output in place.
    """
    model = Small(seed)
    model.head.eval()
    with Noted(learner, first=model.embedding, twice=model.shared, out=model.head):
        loss = loss_of(model, seed)
        loss.backward()
    layer, raised = nn.Linear(3, 3), ""
    with Noted(learner, layer=layer):
        try:
            nn.ReLU(inplace=True)(layer(torch.ones(2, 3) + seed % 7)).sum().backward()
        except RuntimeError as error:
            raised = str(error)[:100].partition(". ")[0]
    return {
        "in place": raised,
        "gradients in place": gradients(layer),
        "loss": loss.item(),
        "gradients": gradients(model),
        "random": torch.rand(1).item(),
        "training": [module.training for module in model.modules()],
    }


class Copies(TorchFunctionMode):
    """Counts the copies of a tensor's numbers to the host, without those of item(), and calls that give its storage."""

    count = 0
    kinds: tuple[Any, ...] = (Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.cpu, Tensor.__dlpack__)
    kinds += (Tensor.data_ptr, Tensor.storage, Tensor.untyped_storage)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        by_name = str in map(type, (*args[1:2], (kwargs or {}).get("device")))
        self.count += func in self.kinds or (func is Tensor.to and by_name)
        return func(*args, **(kwargs or {}))


class Reads(TorchDispatchMode):
    """Counts the single numbers that are copied from a tensor to Python."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def kept(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Counts the notes by kind, the reads that wait for a number, and for another model the bytes that are kept."""
    model, other = Small(seed), Small(seed)
    with Copies() as copies, Reads() as reads, Noted(learner, twice=model.shared, out=model.head) as log:
        torch.autograd.grad(loss_of(model, seed), [*model.parameters()], create_graph=True, allow_unused=True)
        waits = reads.count + copies.count
    with Watch() as watch, Noted(learner, twice=other.shared, out=other.head):
        loss_of(other, seed, times=250).backward()
        gradients_of = [parameter.grad for parameter in other.parameters()]
        if held := watch.bytes_but(*gradients_of, states=0):
            gc.collect()  # slow, and needed only for tensors in reference cycles
            held = watch.bytes_but(*gradients_of, states=0)
    lists: list[Any] = []
    with suppress(KeyError, TypeError):
        lists = [log[name][kind] for name in log for kind in ("activation", "gradient")]
    entries = [value for values in lists if type(values) is list for value in values]
    tensors = [value for value in entries if is_tensor(value)]
    return {
        "entries": len(entries),
        "tensors": len(tensors),
        "scalars": sum(value.dim() == 0 for value in tensors),
        "graphs": sum(value.requires_grad for value in tensors),
        "held": held,
        "waits": waits,
        "activation": notes(log, "out", "activation"),
    }
