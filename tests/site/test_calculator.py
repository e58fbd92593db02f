"""The ledger calculator computes and shows the same bytes as Python, and refuses impossible settings as Python does."""

import argparse
import contextlib
import functools
import io
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_cases import (
    PREDICT_IN_PAGE,
    Case,
    config_of,
    for_the_page,
    predict_in_python,
    random_cases,
    rows_of,
    sizes_of,
)
from playwright.sync_api import BrowserContext, Page, expect
from tiers import sampled
from typer.testing import CliRunner

from rankzero.cli.app import app
from rankzero.learn.runs.options import positive_int
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.ledger import PHASES, Kind, Ledger, human
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.plan_text import MOMENTS
from rankzero.ledger.predict import largest_micro_batch, predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES
from rankzero.publish.site import npm_packages
from rankzero.publish.site.views.ledger_script import script, sources

CASES = 1500 if "RANKZERO_SEEDS" in os.environ else 600  # `make prove` sets the variable
TRAINING = [kind for kind in Kind if kind is not Kind.KV_CACHE]


@pytest.fixture
def calc(page: Page, site: Path) -> Page:
    """The calculator as it opens, with bars that change at once."""
    page.emulate_media(reduced_motion="reduce")
    page.goto((site / "calculator.html").as_uri())
    return page


# ------------------------------------------------------------------------------------------------------- the formulas
@functools.cache
def cases_and_predictions() -> tuple[list[Case], list[Case]]:
    """Returns random settings, and Python's predictions for them."""
    cases = random_cases(CASES)
    return cases, [predict_in_python(case) for case in cases]


def predict_in_page(page: Page, cases: list[Case], changed: str | None = None) -> list[Case]:
    arguments = [changed, json.dumps([for_the_page(case) for case in cases])]
    predictions: list[Case] = json.loads(page.evaluate(PREDICT_IN_PAGE, arguments))
    return predictions


def test_random_settings_have_the_same_rows_as_in_python_to_the_byte(calc: Page) -> None:
    cases, expected = cases_and_predictions()
    possible = [prediction for prediction in expected if "rows" in prediction]
    assert len(possible) > CASES / 2
    largest = max(int(prediction["peak"][1]) for prediction in possible)
    assert largest > 2**53  # above this, a JavaScript number is not exact
    for case, in_page, in_python in zip(cases, predict_in_page(calc, cases), expected, strict=True):
        assert in_page == in_python, case


@pytest.mark.parametrize(
    "words",
    [
        *(
            "it must be at least 1",
            "attention heads: use a multiple",
            "of even width",
            "heads of keys and values evenly",
        ),
        *(
            "data ranks: there must",
            "tensor ranks: there must",
            "micro-batches in a step",
            "no ZeRO stage",
            "groups of",
        ),
        *(
            "no checkpointing",
            "ranks are more than",
            "heads evenly: use a divisor",
            "share an MLP",
            "parallelism splits",
        ),
        *("a micro-batch of", "this model takes 1 to", "tokens evenly: use a multiple", "more than any machine holds"),
    ],
)
def test_random_settings_cover_every_reason_for_a_refusal(words: str) -> None:
    assert any(words in prediction.get("refused", "") for prediction in cases_and_predictions()[1])


MISTAKES = [
    ('Kept("loss: targets", "1", 1, 8,', 'Kept("loss: targets", "1", 1, 4,'),  # a size
    ('matrix("attention", 3 * C, C, 0)', 'matrix("attention", 2 * C, C, 0)'),
    ('"all it keeps, less B·T·V·bytes"', '"all it keeps"'),  # the words of a formula, without the size
    ("copied, formula, (FORWARD, BEGIN)", "copied, formula, (FORWARD,)"),  # a phase
    ("summed * recipe.accumulator", "numbers * recipe.accumulator"),
    ("3 * C if sizes.casts else C, sizes.compute", "C, sizes.compute"),
    ("numbers = sum(held(weight, layout, 1)", "numbers = sum(held(weight, layout, 2)"),  # a ZeRO stage
    ("if layout.zero < 2 and weight.split", "if layout.zero < 3 and weight.split"),
    ("min(2, blocks)", "2"),  # matters to models of one block
    ("in_loss >= sum(", "in_loss < sum("),
    ("loss // 2", "loss"),
    ("layout.zero == 0 and not recipe.accumulator", "layout.zero == 0"),
    ("numbers + 4 * -(-numbers // EIGHT_BIT_BLOCK)", "numbers + 4 * (numbers // EIGHT_BIT_BLOCK)"),
    ("phase = max(totals, key=lambda name: totals[name])", "phase = PHASES[1]"),
    ("while high - low > 1", "while high - low > 2"),
    ("use a divisor of both.", "use a divisor."),  # a sentence
    ("        self._check_tensor(config)\n", ""),  # a check
]


@pytest.mark.parametrize(("right", "wrong"), sampled(MISTAKES, MISTAKES[:2]))
def test_a_mistake_in_a_formula_changes_a_prediction(calc: Page, right: str, wrong: str) -> None:
    modules = sources()
    assert sum(text.count(right) for text in modules.values()) == 1
    changed = script({name: text.replace(right, wrong) for name, text in modules.items()})
    cases, expected = cases_and_predictions()
    parts = (slice(start, start + 100) for start in range(0, len(cases), 100))
    assert any(predict_in_page(calc, cases[part], changed) != expected[part] for part in parts)


def test_every_refusal_names_the_wrong_field_of_the_form(calc: Page) -> None:
    predictions = cases_and_predictions()[1]
    sentences = sorted({prediction["refused"] for prediction in predictions if "refused" in prediction})
    facts = """sentences => sentences.map((sentence) => {
      const ledger = Ledger(document.getElementById("ledger-facts").textContent);
      return new ledger.UserError(sentence).field;
    })"""
    names = calc.locator("form [name]").evaluate_all("fields => fields.map((field) => field.name)")
    # The form has no field for "shard": its states are always sharded over all ranks.
    assert set(calc.evaluate(facts, sentences)) <= {*map(str, names), "shard"}


@pytest.mark.parametrize("statement", ["with x: y", "x @= y", "yield x", "x[1:2]", "assert x", "f'{x:>5}{y!s}'"])
def test_python_that_cannot_be_translated_is_refused(statement: str) -> None:
    modules = sources()
    modules["ledger/models.py"] += f"\n\ndef parameter_count(x, y):\n    {statement}\n"
    with pytest.raises((NotImplementedError, KeyError)):
        script(modules)


def test_the_form_parses_numbers_as_a_starter_parses_its_options(calc: Page) -> None:
    texts = ["8", " 8 ", "+8", "1_000", "0", "-3", "", "abc", "1.5", "1e3", "8,192", "it's", "10000000000000"]
    read = """texts => texts.map((text) => {
      try { return `${Ledger(document.getElementById("ledger-facts").textContent).positiveInt("x", text)}`; }
      catch (error) { return error.message; }
    })"""
    assert calc.evaluate(read, texts) == [_parsed_by_starters(text) for text in texts]


def _parsed_by_starters(text: str) -> str:
    try:
        return str(positive_int(text))
    except argparse.ArgumentTypeError as error:
        return str(error)


# ----------------------------------------------------------------------------------------------------------- the page
def set_fields(page: Page, **values: Any) -> None:
    for name, value in values.items():
        field = page.locator(f"form [name={name}]")
        if isinstance(value, bool):
            field.set_checked(value)
        elif field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(str(value))
        else:
            field.fill(str(value))


def expected_of(
    model: str | dict[str, Any] = "gpt2",
    recipe: str = "amp",
    optimizer: str = "adamw",
    batch_size: int = 8,
    seq_len: int = 1024,
    memory: int = HARDWARE["h100"].memory,
    **layout: Any,
) -> tuple[Ledger, int]:
    """Returns the ledger and the largest micro-batch that Python predicts."""
    config = PRESETS[model] if isinstance(model, str) else config_of(model)
    how = config, RECIPES[recipe], OPTIMIZERS[optimizer]
    ledger = predict(*how, batch_size=batch_size, seq_len=seq_len, layout=Layout(**layout))
    return ledger, largest_micro_batch(*how, seq_len=seq_len, budget=memory, layout=Layout(**layout))


def test_a_setting_within_a_tenth_of_the_memory_warns_and_lists_settings_that_fit(calc: Page) -> None:
    outcome, advice = calc.locator(".outcome"), calc.locator(".advice")
    expect(outcome).not_to_contain_text("Less than a tenth")
    expect(advice).to_be_hidden()
    calc.get_by_label("One rank has").select_option("own")
    peak = round(float(calc.locator("[data-show=peak]").inner_text().split()[0]))  # GB
    calc.get_by_label("GB of memory").fill(str(peak + 1))
    expect(outcome).to_have_attribute("data-fits", "barely")
    expect(outcome).to_contain_text("Less than a tenth of the memory is free")
    expect(advice.get_by_role("button").first).to_contain_text("micro-batches of 4, 2 of them")
    calc.get_by_label("GB of memory").fill(str(peak - 4))
    expect(outcome).to_have_attribute("data-fits", "no")
    expect(outcome).not_to_contain_text("Less than a tenth")
    for place in range(advice.get_by_role("button").count()):
        address = calc.evaluate("() => location.hash")
        advice.get_by_role("button").nth(place).click()
        expect(outcome).to_have_attribute("data-fits", "yes")
        expect(outcome).to_be_focused()
        expect(advice).to_be_hidden()
        calc.evaluate("address => { location.hash = address }", address)
        expect(outcome).to_have_attribute("data-fits", "no")


def expect_shown(page: Page, ledger: Ledger, largest: int, memory: int = HARDWARE["h100"].memory) -> None:
    """Expects the verdict, the bars and both tables to agree with Python's ledger."""
    phase, peak = ledger.peak()
    verdict = page.locator(".outcome")
    expect(verdict).to_contain_text(f"{human(peak)} at the peak, when {MOMENTS[phase]}")
    room = memory - peak
    expect(verdict).to_contain_text(f"{human(room)} to spare" if room >= 0 else f"{human(-room)} too much")
    words = f"that fits: {largest:,} sequence" if largest else "Not even one sequence fits."
    expect(verdict).to_contain_text(words)
    assert shown_rows(page) == [[row.name, row.formula, f"{row.bytes:,}"] for row in ledger.rows]
    sums = [sum(ledger.at(moment).values()) for moment in PHASES]
    expect(page.locator(".moment .sum > :last-child")).to_have_text([human(size) for size in sums])
    expect(page.locator(".moment.fullest")).to_have_attribute("data-phase", phase)
    unit = {"GB": 1e9, "TB": 1e12, "MB": 1e6, "kB": 1e3}[page.locator("[data-show=unit]").inner_text()]
    expect(page.locator(".moments tfoot td")).to_have_text([f"{size / unit:.2f}" for size in sums])
    for kind in TRAINING:
        sizes = [ledger.at(moment)[kind] for moment in PHASES]
        line = page.locator(".moments tbody tr").filter(has=page.get_by_text(kind.value, exact=True)).locator("td")
        expect(line).to_have_text([f"{size / unit:.2f}" if size else "–" for size in sizes])


def shown_rows(page: Page) -> list[list[str]]:
    script = """rows => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))"""
    rows: list[list[str]] = page.locator(".rows tbody tr:not(:first-child)").evaluate_all(script)
    return rows


def test_the_calculator_opens_with_a_step_that_agrees_with_python(calc: Page) -> None:
    expect_shown(calc, *expected_of())
    parameters = parameter_count(PRESETS["gpt2"])
    expect(calc.locator("[data-show=parameters]")).to_have_text(f"{parameters:,}")
    expect(calc.locator("[data-show=each]")).to_have_text("18")
    expect(calc.locator("[data-show=tokens]")).to_have_text(f"{8 * 1024:,}")


def test_widths_of_bars_are_proportional_to_bytes(calc: Page) -> None:
    ledger, _ = expected_of()
    shares = set()
    for phase in PHASES:
        for kind in TRAINING:
            segment = calc.locator(f'.moment[data-phase="{phase}"] .segment[data-kind="{kind}"]')
            box, size = segment.bounding_box(), ledger.at(phase)[kind]
            assert box is not None
            if size > 10**8:  # narrower bars are mostly border
                shares.add(round(size / box["width"] / 1e6))
            elif not size:
                assert box["width"] == 0
    assert max(shares) - min(shares) <= 1  # MB per pixel


def test_changes_of_model_ranks_and_stage_agree_with_python(calc: Page) -> None:
    set_fields(calc, model="llama-3-8b", recipe="mixed", batch_size=1)
    expect(calc.locator("[name=seq_len]")).to_have_value("8192")  # the model's longest sequence, as before
    expect_shown(calc, *expected_of("llama-3-8b", "mixed", batch_size=1, seq_len=8192))
    set_fields(calc, data=64, zero=3, checkpointing="block")
    split: dict[str, Any] = {"data": 64, "zero": 3, "checkpointing": "block"}
    expect_shown(calc, *expected_of("llama-3-8b", "mixed", batch_size=1, seq_len=8192, **split))
    set_fields(calc, tensor=4, sequence_parallel=True, micro_batches=2, optimizer="adam8bit", zero=1)
    split |= {"tensor": 4, "sequence_parallel": True, "micro_batches": 2, "zero": 1}
    expect_shown(calc, *expected_of("llama-3-8b", "mixed", "adam8bit", 1, 8192, **split))
    set_fields(calc, hardware="own", memory=24)
    expect_shown(calc, *expected_of("llama-3-8b", "mixed", "adam8bit", 1, 8192, 24 * 10**9, **split), 24 * 10**9)


def test_a_changed_size_makes_a_custom_model(calc: Page) -> None:
    calc.locator(".sizes summary").click()
    set_fields(calc, hidden_dim=1536)
    expect(calc.locator("[name=model]")).to_have_value("gpt")
    sizes = sizes_of(PRESETS["gpt2"]) | {"hidden_dim": 1536}
    expect_shown(calc, *expected_of({"family": "gpt"} | sizes))
    set_fields(calc, model="llama", n_kv_head=4, ffn_dim=5000)
    sizes |= {"family": "llama", "n_kv_head": 4, "ffn_dim": 5000}
    expect_shown(calc, *expected_of(sizes))
    set_fields(calc, model="llama-2-7b")
    expect(calc.locator("[name=hidden_dim]")).to_have_value("4096")


SETTINGS: list[dict[str, Any]] = [
    {},
    {"model": "llama-3-70b", "recipe": "mixed", "batch_size": 2, "data": 128, "zero": 3, "checkpointing": "block"},
    {"model": "llama-3-8b", "data": 4, "zero": 2, "micro_batches": 4, "hardware": "a100", "recipe": "bf16-fp32-accum"},
    {"model": "llama-2-7b", "data": 8, "tensor": 8, "sequence_parallel": True, "optimizer": "momentum", "seq_len": 64},
    {"model": "gpt2", "zero": 3, "hardware": "own", "optimizer": "sgd"},  # one rank has nothing to shard
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_shown_command_prints_the_same_numbers(calc: Page, setting: dict[str, Any]) -> None:
    set_fields(calc, **setting)
    command = calc.locator("[data-show=command]").inner_text()
    text = _run(command)
    peak = re.search(r"^peak +(.*)$", text, re.MULTILINE)
    assert peak is not None
    expect(calc.locator(".outcome .peak")).to_have_text(peak[1].replace(" when", " at the peak, when"))
    if setting.get("hardware") != "own":
        largest = re.search(r"largest micro-batch that fits: (.*)$", text, re.MULTILINE)
        assert largest is not None
        expect(calc.locator(".outcome")).to_contain_text("Not even one" if largest[1] == "0 sequences" else largest[1])
    rows = json.loads(_run(f"{command} --json"))["stages"][0]["rows"]
    assert shown_rows(calc) == [[row["name"], row["formula"], f"{row['bytes']:,}"] for row in rows]


@pytest.mark.parametrize("setting", sampled(SETTINGS[:4], SETTINGS[:1]))
def test_the_command_for_a_pipeline_plans_two_stages(calc: Page, setting: dict[str, Any]) -> None:
    set_fields(calc, **setting)
    plan = json.loads(_run(calc.locator("[data-show=pipeline]").inner_text() + " --json"))
    assert len(plan["stages"]) == 2
    assert plan["layout"]["data"] * plan["layout"]["tensor"] == setting.get("data", 1) * setting.get("tensor", 1)


def _run(command: str) -> str:
    name, *arguments = shlex.split(command)
    assert name == "rankzero"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_custom_model_gets_a_program_instead_of_a_command(calc: Page) -> None:
    set_fields(calc, model="llama", data=6, zero=2, tensor=2, sequence_parallel=True)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(calc.locator("[data-show=command]").inner_text(), names)
        exec(calc.locator("[data-show=pipeline]").inner_text(), names)
    assert shown_rows(calc) == [
        [name, formula, f"{int(size):,}"] for _, name, size, formula, _ in rows_of(names["ledger"])
    ]
    names["layout"].check(names["config"])
    assert names["layout"].pipeline == 2


@pytest.mark.parametrize(
    ("setting", "field", "sentence"),
    [
        ({"batch_size": "0"}, "batch_size", "'0' must be a whole number of at least 1."),
        ({"data": "many"}, "data", "'many' must be a whole number of at least 1."),
        ({"seq_len": 4096}, "seq_len", "sequences of 4096 tokens: this model takes 1 to 1024."),
        ({"tensor": 5}, "tensor", "5 tensor ranks cannot share 12 heads evenly: use a divisor of 12."),
        (
            {"sequence_parallel": True},
            "sequence_parallel",
            "sequence parallelism splits what tensor parallelism leaves whole: use 2 tensor ranks or more.",
        ),
        (
            {"model": "gpt", "n_head": 7},
            "hidden_dim",
            "hidden_dim 768 does not divide into 7 attention heads: use a multiple of 7.",
        ),
        ({"hardware": "own", "memory": ""}, "memory", "'' must be a whole number of at least 1."),
    ],
)
def test_a_wrong_value_gets_one_sentence_beside_its_field(
    calc: Page, setting: dict[str, Any], field: str, sentence: str
) -> None:
    set_fields(calc, **setting)
    expect(calc.locator(f"[data-field={field}] .problem")).to_have_text(sentence)
    expect(calc.locator(f"[name={field}]")).to_be_visible()
    expect(calc.locator(f"[name={field}]")).to_have_attribute("aria-invalid", "true")
    expect(calc.locator(".problem:not(:empty)")).to_have_count(1)
    expect(calc.get_by_text("belong to the last valid setting")).to_be_visible()
    memory = 24 * 10**9 if "memory" in setting else HARDWARE["h100"].memory
    expect_shown(calc, *expected_of(memory=memory), memory)
    calc.get_by_role("button", name="Reset").click()
    expect(calc.locator(".problem:not(:empty)")).to_have_count(0)
    expect(calc.get_by_text("belong to the last valid setting")).to_be_hidden()


def test_the_address_holds_the_setting(calc: Page) -> None:
    assert "#" not in calc.url
    set_fields(calc, model="llama-3-8b", recipe="mixed", batch_size=1, data=8, zero=3, tensor=2, sequence_parallel=True)
    setting: dict[str, Any] = {"data": 8, "zero": 3, "tensor": 2, "sequence_parallel": True}
    other = calc.context.new_page()
    other.goto(calc.url)
    expect_shown(other, *expected_of("llama-3-8b", "mixed", batch_size=1, seq_len=8192, **setting))
    assert other.url == calc.url
    other.goto(f"{calc.url.split('#')[0]}#model=gpt&hidden_dim=1536")  # the same page, another address
    sizes = {"family": "gpt"} | sizes_of(PRESETS["gpt2"]) | {"hidden_dim": 1536}
    expect_shown(other, *expected_of(sizes))
    expect(other.locator("[name=hidden_dim]")).to_be_visible()
    other.get_by_role("button", name="Reset").click()
    assert other.url == calc.url.split("#")[0]
    expect_shown(other, *expected_of())


def test_an_unknown_value_in_the_address_is_reported(calc: Page) -> None:
    calc.goto(f"{calc.url}#recipe=fp8&batch_size=4")
    expect(calc.locator("[data-field=recipe] .problem")).to_contain_text("'fp8', which is not an option")
    expect_shown(calc, *expected_of(batch_size=4))


def test_the_keyboard_is_enough(calc: Page) -> None:
    calc.locator("[name=model]").focus()
    calc.keyboard.press("Tab")
    expect(calc.locator(".sizes summary")).to_be_focused()
    for _ in range(3):
        calc.keyboard.press("Tab")
    expect(calc.get_by_label("Micro-batch size", exact=True)).to_be_focused()
    calc.keyboard.type("4")  # replaces the selected text
    expect_shown(calc, *expected_of(batch_size=4))
    calc.keyboard.press("Tab")
    expect(calc.get_by_role("button", name="÷2 Micro-batch size")).to_be_focused()
    calc.keyboard.press("Enter")
    expect_shown(calc, *expected_of(batch_size=2))
    calc.keyboard.press("Tab")
    calc.keyboard.press("Space")
    expect_shown(calc, *expected_of(batch_size=4))


# ------------------------------------------------------------------------------------------------------------ layout
LOOKS = ["", "#model=llama&recipe=mixed&data=1024&zero=3&tensor=4&hardware=own", "#batch_size=none"]


@pytest.mark.parametrize("hash", LOOKS)
@pytest.mark.parametrize("width", sampled([320, 390, 768, 1440], [390]))
def test_no_part_scrolls_sideways(calc: Page, width: int, hash: str) -> None:
    calc.set_viewport_size({"width": width, "height": 844})
    calc.goto(f"{calc.url}{hash}")
    assert calc.evaluate("document.documentElement.scrollWidth") <= width
    beyond = "elements => elements.filter((element) => element.getBoundingClientRect().right > innerWidth + 1).length"
    assert calc.locator(".calculator *:not(.scroll *)").evaluate_all(beyond) == 0


def test_a_wide_window_has_two_columns_and_a_phone_keeps_the_verdict_in_sight(calc: Page) -> None:
    form, results = (calc.locator(name).bounding_box() for name in ("form.setting", ".chart"))
    assert form is not None
    assert results is not None
    assert form["x"] + form["width"] < results["x"]
    calc.set_viewport_size({"width": 390, "height": 844})
    expect(calc.locator(".outcome")).to_be_in_viewport(ratio=0.9)
    expect(calc.locator(".chart")).not_to_be_in_viewport()


@pytest.mark.parametrize("theme", sampled(["light", "dark"], ["dark"]))
@pytest.mark.parametrize("hash", sampled(LOOKS[:2], LOOKS[1:2]))
def test_axe_finds_no_violation(new_context: Callable[..., BrowserContext], site: Path, theme: Any, hash: str) -> None:
    page = new_context(color_scheme=theme).new_page()
    page.goto(f"{(site / 'calculator.html').as_uri()}{hash}")
    page.add_script_tag(path=npm_packages.path("axe-core/axe.min.js"))
    violations = page.evaluate("axe.run('.calculator')")["violations"]
    assert not [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in violations]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colors_of_kinds_contrast_with_the_page(
    new_context: Callable[..., BrowserContext], site: Path, theme: Any
) -> None:
    page = new_context(color_scheme=theme).new_page()
    page.goto((site / "calculator.html").as_uri())
    colors = page.evaluate(
        """() => [document.body, ...document.querySelectorAll(".moments .swatch")].map((element) => {
          const [r, g, b] = getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number);
          return [r, g, b];
        })"""
    )
    patterns = page.locator(".moments .swatch").evaluate_all(
        "elements => elements.map((element) => getComputedStyle(element).backgroundImage)"
    )
    paper, *kinds = (_luminance(color) for color in colors)
    assert len(kinds) == len(set(patterns)) == len(TRAINING)
    assert all((max(kind, paper) + 0.05) / (min(kind, paper) + 0.05) >= 3 for kind in kinds)


def _luminance(color: list[float]) -> float:
    """Returns WCAG's relative luminance of an sRGB color."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_bars_are_animated_unless_the_reader_prefers_reduced_motion(calc: Page) -> None:
    duration = "element => getComputedStyle(element).transitionDuration"
    segment = calc.locator(".segment").first
    assert segment.evaluate(duration) == "0s"
    calc.emulate_media(reduced_motion="no-preference")
    assert segment.evaluate(duration) == "0.35s"


def test_without_scripts_the_page_names_the_command_with_the_same_numbers(
    new_context: Callable[..., BrowserContext], site: Path
) -> None:
    page = new_context(java_script_enabled=False).new_page()
    page.goto((site / "calculator.html").as_uri())
    expect(page.get_by_text("rankzero plan gpt2 prints the same")).to_be_visible()
    expect(page.locator("form.setting")).to_be_hidden()
