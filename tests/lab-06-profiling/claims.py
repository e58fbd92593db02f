"""Claims of labs/lab-06-profiling.md."""

import contextlib
import functools
import io
import runpy
import statistics
import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, pick, synchronize
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss
from rankzero.claims.toolkit.op_counter import Calls, calls_of
from rankzero.claims.toolkit.starters import starter
from rankzero.curriculum import find_lab
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.profiling.traces import read_trace


def _step_calls(script: str = "") -> Calls:
    """The second step of Lab 02's model, from the starter or from one of the patients."""
    step = starter("06").train_step
    if script:
        step = runpy.run_path(str(find_lab("06").folder / script))["train_step"]
    model = make_model()
    optimizer = AdamW(model.parameters())
    step(model, optimizer, *make_batch(), lambda name: nullcontext())
    return calls_of(lambda: step(model, optimizer, *make_batch(), lambda name: nullcontext()))


@functools.cache
def _profiled(steps: int) -> tuple[dict[str, int], ...]:
    """Calls by name of each of the first steps of training, as torch.profiler counts them."""
    model = make_model()
    optimizer, found = AdamW(model.parameters()), []
    for _ in range(steps):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            starter("06").train_step(model, optimizer, *make_batch())
        found.append({row.key: row.count for row in profiler.key_averages() if row.key.startswith("aten::")})
    return tuple(found)


@claim(
    "lab-06-fractions-add-up",
    "The fractions of four phases and of idle, each measured by itself, add up to {expected} within a millionth.",
    expected=1,
    tolerance=1e-6,
    unit="",
)
def fractions_add_up() -> float:
    """Runs the starter with a small model and adds up what it finds in its own trace."""
    small = ["--hidden-dim=32", "--layers=1", "--heads=2", "--block-size=16", "--batch-size=4", "--device=cpu"]
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            assert starter("06").main([*small, "--active=3", f"--out={folder}"]) == 0
        _, fractions = starter("06").account(read_trace(Path(folder) / "lab-06-001" / "trace.json"))
    return float(sum(fractions.values()))


@claim(
    "lab-06-counted-equals-formula",
    "By PyTorch's counter, a step takes exactly 6N + 12LHQT FLOPs per token, N being the weights in products.",
    expected={"96 characters": 3_982_491_648, "65 characters": 3_964_207_104},
    unit="FLOPs",
)
def counted_equals_formula() -> Mapping[str, float]:
    """Counts forward and backward at B = 12, T = 64. Expected is the formula: N is V · 128 + 4 · 12 · 128²."""
    found = {}
    for vocab_size in (96, 65):
        x, y = (tokens % vocab_size for tokens in make_batch())
        found[f"{vocab_size} characters"] = sum(starter("06").count_flops(make_model(vocab_size=vocab_size), x, y))
    return found


@claim(
    "lab-06-recompute-flops",
    "With each block's forward run again in backward, Lab 02's step takes {expected} FLOPs, 1.2275 times as many.",
    expected=4_888_461_312,
    unit="FLOPs",
)
def recompute_flops() -> float:
    """Counts a step with checkpointed blocks; the recomputation stops at the last tensor that backward needs."""
    model = make_model()
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return float(sum(starter("06").count_flops(model, *make_batch())))


@claim(
    "lab-06-profile-changes-no-loss",
    "Losses of 6 profiled steps that differ from those of Lab 02's loop.",
    expected=0,
    unit="of 6 losses differ",
)
def profile_changes_no_loss() -> float:
    """Trains the same model on the same batches with Lab 02's step, and with this lab's under the profiler."""

    def losses(step: Any) -> list[float]:
        model = make_model()
        optimizer = AdamW(model.parameters())
        return [step(model, optimizer, *make_batch()).item() for _ in range(6)]

    plain = losses(starter("02").train_step)
    with profile(activities=[ProfilerActivity.CPU]):
        profiled = losses(starter("06").train_step)
    return sum(a != b for a, b in zip(plain, profiled, strict=True))


@claim(
    "lab-06-calls-of-a-step",
    "A step of Lab 02's model makes about 2,000 calls of PyTorch operations; the first one about 350 more.",
    expected={"first step": 2352, "second step": 2004},
    tolerance=60,
    unit="calls",
)
def calls_of_a_step() -> Mapping[str, float]:
    """Counts what the profiler records. How an operation is made of others differs a little between processors."""
    first, second, *_ = _profiled(3)
    return {"first step": sum(first.values()), "second step": sum(second.values())}


@claim(
    "lab-06-first-step-makes-state",
    "The first step makes AdamW's state, two averages for each of 27 tensors: {expected[first step]} calls that no "
    "later step has.",
    expected={"first step": 54, "second step": 0},
    unit="calls of aten::zeros_like",
)
def first_step_makes_state() -> Mapping[str, float]:
    """Counts one operation in the first two steps."""
    first, second, *_ = _profiled(3)
    return {"first step": first.get("aten::zeros_like", 0), "second step": second.get("aten::zeros_like", 0)}


@claim(
    "lab-06-reads",
    "Numbers that a step hands to Python: 27 by AdamW's step counts, and 5 more for each of 27 gradients in patient A.",
    expected={"healthy": 27, "patient A": 162},
    unit="reads per step",
)
def reads() -> Mapping[str, float]:
    """Counts aten::_local_scalar_dense in the second step."""
    return {"healthy": _step_calls().reads, "patient A": _step_calls("patient_a.py").reads}


@claim(
    "lab-06-tiny-calls",
    "Operations that reach a kernel in a step: with one loss over the batch, and with one per token as in patient B.",
    expected={"healthy": 625, "patient B": 11_371},
    tolerance=20,
    unit="calls",
)
def tiny_calls() -> Mapping[str, float]:
    """Counts them in the second step."""
    calls = {"healthy": _step_calls(), "patient B": _step_calls("patient_b.py")}
    return {
        who: sum(count for name, count in step.by_name.items() if not name.startswith("profiler"))
        for who, step in calls.items()
    }


def _time_by_phase(script: str = "") -> dict[str, float]:
    """Processor seconds of two warm steps by phase, of the starter or with a patient's code in the loop."""
    code = {"next_batch": starter("06").next_batch, "train_step": starter("06").train_step}
    code |= runpy.run_path(str(find_lab("06").folder / script)) if script else {}
    corpus, options = load_corpus("embedded"), Namespace(batch_size=12, block_size=64, seed=0)
    model = make_model(vocab_size=corpus.vocab_size)
    optimizer = AdamW(model.parameters())
    spent: defaultdict[str, float] = defaultdict(float)

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        spent[name] += time.process_time() - start

    begin = 0.0
    for step in range(3):
        if step == 1:  # the first step warms up
            spent.clear()
            begin = time.process_time()
        with phase("data"):
            x, y = code["next_batch"](corpus, step, options)
        code["train_step"](model, optimizer, x, y, phase)
    spent["idle"] = time.process_time() - begin - sum(spent.values())
    return spent


@claim(
    "lab-06-patients-by-phase",
    "Warm steps by processor time on one thread: in patient A more than a sixth of the step is outside all phases, in "
    "patient C data takes more than 40 %; in patient B and in the healthy step forward and backward take over 80 %.",
    expected={"A: outside": 1, "C: data": 1, "B: both passes": 1, "healthy: both passes": 1},
    unit="",
)
def patients_by_phase() -> Charted:
    """Adds up the processor time of two steps in each phase, after one step to warm up."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        steps = {"healthy": _time_by_phase()}
        steps |= {f"script {name.upper()}": _time_by_phase(f"patient_{name}.py") for name in "abc"}
    finally:
        torch.set_num_threads(threads)
    healthy = steps["healthy"]
    lines: dict[str, list[Point]] = {
        phase: [(run, *3 * (spent[phase] / sum(healthy.values()),)) for run, spent in steps.items()]
        for phase in healthy
    }

    def share(run: str, *phases: str) -> float:
        return sum(steps[run][phase] for phase in phases) / sum(steps[run].values())

    value = {
        "A: outside": int(share("script A", "idle") > 1 / 6),
        "C: data": int(share("script C", "data") > 0.4),
        "B: both passes": int(share("script B", "forward", "backward") > 0.8),
        "healthy: both passes": int(share("healthy", "forward", "backward") > 0.8),
    }
    return Charted(value, Chart("One step by phase", "", "times the healthy step", lines))


@claim(
    "lab-06-hooks-change-nothing",
    "Gradients of Lab 02's model that differ in any bit when hooks watch every block.",
    expected=0,
    unit="of 808,064 gradients differ",
)
def hooks_change_nothing() -> float:
    """Runs backward with and without watch_layers of the starter."""
    plain, watched = make_model(), make_model()
    token_loss(plain, *make_batch()).backward()
    starter("06").watch_layers(watched.blocks, lambda: token_loss(watched, *make_batch()))
    one, other = (torch.cat([p.grad.flatten() for p in m.parameters() if p.grad is not None]) for m in (plain, watched))
    return int((one != other).sum())


@claim(
    "lab-06-read-waits",
    "On a GPU, .item() on the result of a large product takes as long as the product; .detach() takes almost no time.",
    expected={"item": 1, "detach": 0},
    tolerance=0.2,
    unit="of the product's time",
    needs=("cuda",),
)
def read_waits() -> Mapping[str, float]:
    """Queues a product of fp32 matrices [8192, 8192], and times reading one number of it, or leaving it there."""
    a = torch.randn(pick(8192, 64), pick(8192, 64), device=gpu())
    seconds: dict[str, list[float]] = {"item": [], "detach": [], "product": []}
    for _ in range(6):
        for name, waits in seconds.items():
            synchronize()
            begin = time.perf_counter()
            number = (a @ a)[0, 0]
            if name == "product":
                synchronize()
            else:
                number.item() if name == "item" else number.detach()
            waits.append(time.perf_counter() - begin)
    product = statistics.median(seconds["product"][1:])
    return {name: statistics.median(seconds[name][1:]) / product for name in ("item", "detach")}
