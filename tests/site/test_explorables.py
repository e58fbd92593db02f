"""Explorables compute Python's numbers, ask before they show, and can be used by keyboard and on a phone."""

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import BrowserContext, Page, expect
from rankzero.figures.content.checkpoints_and_faults import INTERVALS
from rankzero.figures.content.distributed_data_parallel import ring_states
from rankzero.figures.content.input_pipeline import loader_timeline
from rankzero.figures.content.learning_rate_and_schedules import rate_share
from tiers import sampled
from torch.optim import SGD, Adam

from rankzero.curriculum import ROOT
from rankzero.figures.charts import measured_chart, measured_value
from rankzero.figures.registry import all_figures
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.interruptions import Interruptions
from rankzero.ledger.models import PRESETS
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.pipeline_schedule import gpipe, order, replay
from rankzero.ledger.predict import predict, states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES
from rankzero.ledger.segments import even, kept_over_a_step, peak_of_lengths, plain_step
from rankzero.publish.site import npm_packages
from rankzero.publish.site.markdown.explorables import scripts
from rankzero.publish.site.page_names import name_of

NAMES = sorted(scripts())
SAMPLE = ["memory-over-a-step", "formats-range-and-spacing"]  # with sliders, and with buttons
# Settings are drawn from the controls' values, which a page gives as JSON.
SETTINGS = """name => Object.fromEntries(Explorables.made[name].controls.map(
  (control) => [control.name, control.values ?? control.options ?? control.samples]))"""
AXE = "axe.run('figure.moving', {preload: false})"
COMPUTE = "([name, settings]) => settings.map((setting) => Explorables.made[name].compute(setting))"


def file_of(site: Path, name: str) -> str:
    return (site / f"{name_of(ROOT / all_figures()[name].page)}.html").as_uri()


def open_explorable(page: Page, site: Path, name: str) -> Any:
    """Opens the page of a figure and answers its question with no guess. Returns the figure."""
    page.goto(file_of(site, name))
    figure = page.locator(f"figure[data-explorable='{name}']")
    figure.get_by_role("button", name="No guess").click()
    expect(figure.locator(".says")).not_to_be_empty()
    return figure


def settings_and_numbers(page: Page, site: Path, name: str, count: int = 60) -> Iterator[tuple[Any, Any]]:
    """Yields random settings of an explorable's controls with the numbers that the page computes for them."""
    page.goto(file_of(site, name))
    values = page.evaluate(SETTINGS, name)
    draw = random.Random(0)
    settings = [{control: draw.choice(choices) for control, choices in values.items()} for _ in range(count)]
    yield from zip(settings, page.evaluate(COMPUTE, [name, settings]), strict=True)


# -------------------------------------------------------------------------------------------------------- the numbers
def four_moments(model: str, batch: int, length: int, recipe: str, checkpointing: str) -> dict[str, Any]:
    config = PRESETS[model]
    step: dict[str, Any] = {"batch_size": batch, "seq_len": min(length, config.block_size)}
    layout = Layout(checkpointing=checkpointing)
    ledger = predict(config, RECIPES[recipe], OPTIMIZERS["adamw"], layout=layout, **step)
    phase, size = ledger.peak()
    moments = [[size / 1e9 for size in ledger.at(phase).values()] for phase in ("forward ends", "update")]
    return {"peak": size / 1e9, "phase": phase, "length": step["seq_len"], "first and last": moments}


def stages(parameters: int, ranks: int, recipe: str, device: str) -> dict[str, Any]:
    def held(zero: int, ranks: int) -> float:
        return states_per_rank(parameters, RECIPES[recipe], OPTIMIZERS["adamw"], zero=zero, ranks=ranks)

    lines = [[held(zero, 2**power) for power in range(11)] for zero in range(4)]
    return {"lines": lines, "held": [held(zero, ranks) for zero in range(4)]}


def schedules(warmUp: int, decay: int, shown: str) -> dict[str, Any]:  # noqa: N803 - the page's names
    names = ("constant", "step", "linear", "cosine", "WSD")
    lines = {name: [rate_share(name, step / 4, warmUp, decay) for step in range(401)] for name in names}
    return {"lines": lines, "means": {name: sum(line[:-1:4]) / 100 for name, line in lines.items()}}


def segments(blocks: int, length: int, inside: int, plain: str) -> dict[str, Any]:
    lengths = even(blocks, -(-blocks // length))
    kept = kept_over_a_step(lengths, inside)
    return {
        "kept": kept,
        "plain": plain_step(blocks, inside),
        "peak": peak_of_lengths(lengths, inside),
        "segments": len(lengths),
    }


def ring(turn: int, ranks: int, vector: float) -> dict[str, Any]:
    states = ring_states(ranks)
    now = min(turn, len(states) - 1)
    return {"state": [[list(chunk) for chunk in chunks] for chunks in states[now]], "sent": vector * now / ranks}


def roofline(rows: int, width: int, device: str) -> dict[str, Any]:
    (machine,) = (machine for machine in HARDWARE.values() if machine.name == device)
    x = rows * width / (2 * rows + width)
    ridge = machine.peaks[2] / machine.hbm
    return {"x": x, "rate": machine.peaks[2] if x > ridge else x * machine.hbm, "ridge": ridge}


DTYPES = {
    "fp32": (torch.float32, torch.uint32),
    "bf16": (torch.bfloat16, torch.uint16),
    "fp16": (torch.float16, torch.uint16),
    "fp8 e5m2": (torch.float8_e5m2, torch.uint8),
    "fp8 e4m3": (torch.float8_e4m3fn, torch.uint8),
}
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def decoded(format: str, bits: int) -> dict[str, Any]:
    if format == "fp4 e2m1":
        return {"value": E2M1[bits % 8] * (-1.0 if bits % 16 >= 8 else 1.0)}
    dtype, integer = DTYPES[format]
    kept = bits % 2 ** (8 * dtype.itemsize)
    return {"value": torch.tensor([kept], dtype=integer).view(dtype).item(), "kept": kept}


def scaled(scale: int) -> dict[str, Any]:
    sums = dict.fromkeys(("zero", "subnormal", "normal", "inf"), 0.0)
    for power, share, _, _ in measured_chart("precision-below-the-normal-numbers").lines["gradients"]:
        number = torch.tensor(1.5 * 2.0 ** (float(power) + scale), dtype=torch.float64).to(torch.float16).item()
        part = "zero" if number == 0 else "inf" if number == math.inf else "normal" if number >= 2**-14 else "subnormal"
        sums[part] += share
    return {"sums": sums}


def timetable(stages: int, microBatches: int, schedule: str) -> dict[str, Any]:  # noqa: N803
    runs = 2 if schedule == "interleaved" else 1
    count = max(stages, microBatches) if runs == 2 else microBatches
    orders = [order(stage, stages, count, runs) for stage in range(stages)]
    end = replay([gpipe(count)] * stages if schedule == "GPipe" else orders, 1 / runs, 2 / runs)
    return {"end": end, "idle": 1 - 3 * count / end, "count": count}


def ravine(optimizer: str, rate: float, momentum: float, steepness: int) -> dict[str, Any]:
    weights = torch.tensor([-1.0, 0.2], dtype=torch.float64, requires_grad=True)
    stepper: torch.optim.Optimizer = SGD([weights], lr=rate, momentum=momentum if optimizer == "momentum" else 0)
    if optimizer == "Adam":
        stepper = Adam([weights], lr=rate, betas=(float(momentum), 0.999))
    points = [weights.tolist()]
    for _ in range(50):
        weights.grad = weights.detach() * torch.tensor([1.0, steepness], dtype=torch.float64)
        stepper.step()
        points.append(weights.tolist())
    along, across = zip(*points, strict=True)
    return {"along": list(along), "across": list(across), "left": math.hypot(*points[-1]) / math.hypot(-1.0, 0.2)}


def seen(steps: int, names: str) -> dict[str, Any]:
    lines = measured_chart("never-clearing-climbs").lines
    return {"losses": {name: next(loss for step, loss, _, _ in line if step == steps) for name, line in lines.items()}}


def exchanged(buckets: int, link: float, tokens: int) -> dict[str, Any]:
    times = measured_value("ddp-exchange-hidden")
    backward, exchange = times["backward"] * tokens / 16384, times["exchange"] * 50 / link
    # Either backward is slower and only the last bucket waits, or the buckets follow one another from the first on.
    return {"wait": max(exchange / buckets, exchange + backward / buckets - backward)}


def kept_whole(way: str, moment: int) -> dict[str, Any]:
    ways = {"DDP": "not sharded", "one group: the model": "one group"}
    name = ways.get(way, "each a group" if way.endswith("resharded") else "each, kept whole")
    sizes = [size for _, size, _, _ in measured_chart("peak-by-wrapping").lines[name]]
    return {"now": sizes[moment - 1], "peak": max(sizes)}


def interrupted(**setting: float) -> dict[str, Any]:
    def costs(price: float, preempted: float) -> list[float]:
        times = (setting["save"] / 3600, setting["restart"] / 60, 1 / setting["failures"], preempted)
        job = Interruptions(*times, setting["notice"] / 3600)
        return [job.dollars(interval, 100, price) for interval in INTERVALS]

    lines = {"on demand": costs(setting["onDemand"], 0), "spot": costs(setting["spot"], 1 / setting["preemptions"])}
    return {"lines": lines, "lowest": {name: min(line) for name, line in lines.items()}}


def starved(workers: int, load: float, slow: int, step: float, prefetch: int) -> dict[str, Any]:
    rows = loader_timeline(workers, load, step, prefetch, 401, slow)
    share = 1 - 240 * step / (rows[400][2] - rows[160][2])
    if slow == 1:  # the chapter's condition
        assert share == pytest.approx(1 - step / (max(load / workers, step) if workers else load + step), abs=1e-9)
    return {"share": share, "rows": rows[:40]}


PYTHON: dict[str, Callable[..., dict[str, Any]]] = {
    "memory-over-a-step": four_moments,
    "lab-01-four-moments": four_moments,
    "states-per-rank": stages,
    "schedule-shapes": schedules,
    "segments-over-a-step": segments,
    "ring-all-reduce": ring,
    "roofline-of-an-h100": roofline,
    "formats-range-and-spacing": decoded,
    "gradients-and-the-loss-scale": scaled,
    "schedules": timetable,
    "paths-on-a-ravine": ravine,
    "orders-of-the-calls": seen,
    "buckets-over-backward": exchanged,
    "whole-weights-over-a-step": kept_whole,
    "spot-or-on-demand": interrupted,
    "starved-and-fed": starved,
}


def test_every_explorable_is_compared_with_python() -> None:
    assert sorted(PYTHON) == NAMES


@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE))
def test_random_settings_have_the_same_numbers_as_in_python(page: Page, site: Path, name: str) -> None:
    for setting, numbers in settings_and_numbers(page, site, name):
        if "moments" in numbers:
            numbers["first and last"] = [numbers["moments"][0], numbers["moments"][-1]]
        for key, expected in PYTHON[name](**setting).items():
            assert numbers[key] == approximately(expected), (setting, key)


def approximately(value: Any) -> Any:
    """Returns `value` with its floats compared to rounding: JavaScript's cosine may differ in the last digit."""
    if isinstance(value, dict):
        return {key: approximately(part) for key, part in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], list):
        return [approximately(part) for part in value]
    return value if isinstance(value, str | bool) else pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True)


# ----------------------------------------------------------------------------------------------------------- the form
@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE))
def test_a_guess_comes_before_the_plot_and_its_library(page: Page, site: Path, name: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file_of(site, name))
    figure = page.locator(f"figure[data-explorable='{name}']")
    expect(figure.locator(".drawing svg[role=img]")).to_be_visible()
    assert not [url for url in requests if url.endswith("plot.js")]
    field = figure.get_by_role("textbox")
    if field.count():
        field.press("Enter")
        expect(figure.get_by_role("alert")).to_have_text("Write a number, such as 12.")
        field.fill("3")
        field.press("Enter")
    else:
        figure.locator("[data-choice]").first.press("Enter")
    expect(figure.locator(".verdict")).to_contain_text("Answer: ")
    expect(figure.locator(".verdict")).to_be_focused()


@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE))
def test_keys_move_every_control_of_the_plot_and_reset_undoes_them(page: Page, site: Path, name: str) -> None:
    figure = open_explorable(page, site, name)
    first = figure.locator(".says").inner_text()
    drawing = figure.locator(".drawing").inner_html()
    for slider in figure.get_by_role("slider").all():
        before = slider.get_attribute("aria-valuetext")
        at_end = slider.evaluate("slider => slider.value === slider.max")
        slider.press("ArrowLeft" if at_end else "ArrowRight")
        assert slider.get_attribute("aria-valuetext") != before
    for bit in figure.locator(".bit").all()[:1]:  # a number's bits are buttons, which keep the focus
        bit.press("Enter")
        expect(bit).to_be_focused()
        expect(bit).to_have_attribute("aria-pressed", "true")
    assert figure.locator(".drawing").inner_html() != drawing
    figure.get_by_role("button", name="Reset").click()
    expect(figure.locator(".says")).to_have_text(first)


@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE))
def test_on_a_phone_the_plot_fits_and_words_are_readable(site: Path, context: BrowserContext, name: str) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    figure = open_explorable(page, site, name)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert all(svg.bounding_box()["width"] <= 360 for svg in figure.locator(".drawing svg").all())
    within = "answer => answer.getBoundingClientRect().right <= answer.parentElement.getBoundingClientRect().right"
    assert figure.locator(".verdict").evaluate(within)
    sizes = "svg => [...svg.querySelectorAll('text')].map((text) => parseFloat(getComputedStyle(text).fontSize))"
    assert min([13, *(size for svg in figure.locator(".drawing svg").all() for size in svg.evaluate(sizes))]) >= 11


@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE[:1]))
def test_axe_finds_no_violation_in_an_open_explorable(site: Path, context: BrowserContext, name: str) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    open_explorable(page, site, name)
    page.add_script_tag(path=npm_packages.path("axe-core/axe.min.js"))
    assert not page.evaluate(AXE)["violations"]
    page.emulate_media(color_scheme="dark")
    assert not page.evaluate(AXE)["violations"]


def test_without_scripts_the_picture_stays(new_context: Callable[..., BrowserContext], site: Path) -> None:
    context = new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file_of(site, NAMES[0]))
    expect(page.locator(f"figure[data-explorable='{NAMES[0]}'] svg[role=img]")).to_be_visible()
    expect(page.locator(".explorable")).to_have_count(0)
