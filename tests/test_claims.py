"""Claims: each claim holds, pages and registry agree, and the table shows the recorded measurements.

`make test` compares every recorded measurement with its claim. It measures again the claims that have changed and a
sample of each page: the claims that take less than QUICK_S, or the quickest claim. `make prove` measures all claims.
"""

import importlib
import inspect
import json
import shutil
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from draft_labs import is_left_out
from typer.testing import CliRunner

from rankzero.claims import measurements, registry, run, table
from rankzero.claims.claim import Claim, Value, claim, text_of
from rankzero.claims.digest import digest
from rankzero.claims.measurements import Measurement, read_measurements, unproven, write_measurements
from rankzero.claims.page_links import bare_figures, claim_links, differing_numbers, figures_without_proof
from rankzero.claims.run import Outcome, can_measure, run_claim, run_claims
from rankzero.claims.table import render
from rankzero.cli.app import app
from rankzero.curriculum import ROOT
from rankzero.errors import UserError
from rankzero.publish.sync import pages

CLAIMS = {slug: claim for slug, claim in registry.all_claims().items() if not is_left_out(ROOT / claim.page)}


RECORDED = read_measurements()
QUICK_S, SLOW_S = 0.1, 3.0  # recorded seconds; only `make prove` measures a page whose quickest claim is slow


def shares_work(part: Any) -> bool:
    """Tells whether a claim's function uses a cached function, which makes its recorded time depend on the order."""
    function = inspect.unwrap(part)
    if function is not part and hasattr(part, "cache_info"):
        return True
    code = getattr(function, "__code__", None)
    if code is None or not function.__module__.startswith("rankzero.claims."):
        return False
    parts = [function.__globals__.get(name) for name in names_of(code)]
    return any(shares_work(part) for part in parts if callable(part) and part is not function)


CLOCKS = {"perf_counter", "monotonic", "process_time", "thread_time"}


def takes_time(part: Any) -> bool:
    """Tells whether a claim's function reads a clock, itself or in a function that it calls."""
    function = inspect.unwrap(part)
    code = getattr(function, "__code__", None)
    if code is None or not function.__module__.startswith("rankzero.claims."):
        return False
    names = names_of(code)
    parts = [function.__globals__.get(name) for name in names]
    return not CLOCKS.isdisjoint(names) or any(takes_time(p) for p in parts if callable(p) and p is not function)


def parameter(slug: str) -> Any:
    """Returns the claim as a parameter: what a busy machine could change runs alone."""
    return pytest.param(slug, marks=pytest.mark.real if takes_time(CLAIMS[slug].measure) else ())


def names_of(code: CodeType) -> list[str]:
    """Returns the names that a function and the functions inside it look up."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in names_of(constant)]
    return [*code.co_names, *inner]


def sample() -> list[str]:
    """Returns the slugs of changed claims and of each page's quick claims."""
    chosen = [slug for slug in unproven(CLAIMS, RECORDED) if can_measure(CLAIMS[slug])]
    by_page: dict[str, list[str]] = {}
    for slug, entry in CLAIMS.items():
        if slug in RECORDED and slug not in chosen and can_measure(entry) and not shares_work(entry.measure):
            by_page.setdefault(entry.page, []).append(slug)
    for slugs in by_page.values():
        quickest = min(slugs, key=lambda slug: RECORDED[slug].seconds)
        limit = max(QUICK_S, min(RECORDED[quickest].seconds, SLOW_S))
        chosen += [slug for slug in slugs if RECORDED[slug].seconds < QUICK_S or (slug == quickest and limit < SLOW_S)]
    return chosen


SAMPLE = sample()


def assert_holds(slug: str) -> None:
    outcome = run_claim(slug)
    assert not outcome.error
    assert outcome.holds, f"expected {CLAIMS[slug].expected}, measured {outcome.measured}"


@pytest.mark.parametrize("slug", [parameter(slug) for slug in SAMPLE])
def test_the_claim_holds(slug: str) -> None:
    assert_holds(slug)


@pytest.mark.prove
@pytest.mark.parametrize("slug", [slug for slug, entry in CLAIMS.items() if can_measure(entry) and slug not in SAMPLE])
def test_the_slow_claim_holds(slug: str) -> None:
    assert_holds(slug)


def test_every_recorded_measurement_belongs_to_its_present_claim_and_holds() -> None:
    wrong = {slug: reason for slug, reason in unproven(CLAIMS, RECORDED).items() if "cuda" not in CLAIMS[slug].needs}
    assert not wrong, "run `make claims`"


def test_the_sample_covers_most_pages_in_less_than_40_seconds() -> None:
    pages_in_sample = {CLAIMS[slug].page for slug in SAMPLE}
    assert len(pages_in_sample) > 0.9 * len({entry.page for entry in CLAIMS.values()})
    changed = unproven(CLAIMS, RECORDED)
    assert sum(RECORDED[slug].seconds for slug in SAMPLE if slug not in changed) < 40


def test_every_link_has_a_claim_and_every_claim_has_a_link() -> None:
    linked = {page: claim_links(page.read_text(encoding="utf-8")) for page in pages()}
    unknown = {
        f"{page.name}: {slug}" for page, slugs in linked.items() for slug in slugs - registry.all_claims().keys()
    }
    assert not unknown
    unused = {entry.slug for entry in CLAIMS.values() if entry.slug not in linked[ROOT / entry.page]}
    assert not unused, "these claims are not linked from the page that they name"


def test_every_figure_has_proof_and_every_linked_number_agrees_with_its_claim() -> None:
    assert figures_without_proof() == []


def test_the_committed_table_is_not_stale() -> None:
    assert table.write_table(check=True) == [], "run `make claims`"


def test_a_cuda_claim_without_a_measurement_is_shown_as_not_measured() -> None:
    for slug, entry in CLAIMS.items():
        if "cuda" in entry.needs and slug not in RECORDED:
            assert f"`{slug}`" in registry.TABLE.read_text()
            assert "not measured" in _row_of(slug)


def _row_of(slug: str) -> str:
    return next(line for line in registry.TABLE.read_text(encoding="utf-8").splitlines() if f'id="{slug}"' in line)


# ------------------------------------------------------------------------------------------------------- the engine
def make(measured: Value = 3, **facts: Any) -> Claim:
    def measure() -> Value:
        """Returns a number."""
        return measured

    fields: dict[str, Any] = {"slug": "three-bytes", "page": "README.md", "expected": 3, "unit": "B"}
    return Claim(**(fields | {"statement": "Three bytes."} | facts), measure=measure)


@pytest.mark.parametrize(
    ("expected", "tolerance", "measured", "holds"),
    [
        (3, 0, 3, True),
        (3, 0, 4, False),
        (3.0, 0.1, 3.05, True),
        (3.0, 0.1, 3.2, False),
        (3.0, 0.1, float("nan"), False),
        (True, 0, True, True),
        (True, 0, False, False),
        (1, 0, True, False),
        (True, 0, 1, False),
        ({"a": 1.0, "b": 2.0}, 0.1, {"a": 1.05, "b": 2.0}, True),
        ({"a": 1.0, "b": 2.0}, 0.1, {"a": 1.05, "b": 2.2}, False),
        ({"a": 1.0, "b": 2.0}, 0.1, {"a": 1.0}, False),
        ({"a": 1.0}, 0, 1.0, False),
        (1.0, 0, {"a": 1.0}, False),
    ],
)
def test_a_claim_holds_within_its_tolerance(expected: Value, tolerance: float, measured: Value, holds: bool) -> None:
    assert make(expected=expected, tolerance=tolerance).holds(measured) is holds


def test_a_claim_without_a_docstring_or_with_a_bad_slug_is_refused() -> None:
    with pytest.raises(match="needs a docstring that says how"):
        Claim("a", "b", page="README.md", expected=1, unit="", measure=lambda: 1)
    with pytest.raises(match="'Not A Slug'"):
        make(slug="Not A Slug")


def test_two_claims_may_not_share_a_slug_and_pages_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    training_loop = importlib.import_module("rankzero.claims.content.training_loop")
    original = next(value for value in vars(training_loop).values() if isinstance(value, Claim))
    monkeypatch.setattr(training_loop, "again", original, raising=False)
    with pytest.raises(UserError, match="two claims have this slug"):
        registry.all_claims.__wrapped__()
    monkeypatch.setattr(training_loop, "again", make(page="handbook/nowhere.md"))
    with pytest.raises(UserError, match=r"there is no page handbook/nowhere\.md"):
        registry.all_claims.__wrapped__()


def test_an_error_in_a_claim_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> Value:
        """Divides by zero."""
        return 1 / 0

    monkeypatch.setattr(run, "find_claim", lambda slug: Claim("a", "b", "c", 1, "", breaks))
    outcome = run_claim("a")
    assert (outcome.holds, outcome.measured) == (False, None)
    assert outcome.error == "ZeroDivisionError: division by zero"


def test_claims_run_side_by_side_in_processes() -> None:
    slugs = list(CLAIMS)[:2]
    assert {outcome.slug for outcome in run_claims(slugs, jobs=2) if outcome.holds} == set(slugs)


def test_a_measurement_counts_only_for_the_claim_that_was_measured(tmp_path: Path) -> None:
    claims = {"three-bytes": make()}
    write_measurements(claims, [Outcome("three-bytes", 3, 0.5, True)], tmp_path)
    recorded = read_measurements(tmp_path)
    assert "| 3 B | 3 | holds | 0.50 |" in render(claims, recorded)
    assert "not measured" in render({"three-bytes": make(expected=4)}, recorded)
    assert write_measurements(claims, [Outcome("three-bytes", 3, 0.7, True)], tmp_path) == []  # the same value again
    assert write_measurements({}, [], tmp_path)
    assert not read_measurements(tmp_path)


def test_missing_outdated_and_wrong_measurements_prove_no_claim() -> None:
    claims = {name: make(slug=name) for name in ("proven", "changed", "missing", "wrong")}
    digests = {"proven": claims["proven"].digest, "changed": "0" * 12, "wrong": claims["wrong"].digest}
    recorded = {
        slug: Measurement(4 if slug == "wrong" else 3, 0.1, "2026-01-01", "a machine", "versions", digest)
        for slug, digest in digests.items()
    }
    assert unproven(claims, recorded) == {
        "changed": "its code or statement has changed since it was measured",
        "missing": "it was never measured",
        "wrong": "it expects 3, and 4 was measured",
    }


def test_a_change_of_a_claims_code_or_its_helpers_changes_the_digest(tmp_path: Path) -> None:
    sources = {"shared": "SIZE = 3\n", "helper": "from .shared import SIZE\n\ndef half():\n    return SIZE / 2\n"}
    sources["claims"] = "from .helper import half\n\n@mark\ndef bytes_of():\n    return 2 * half()\n"

    def digest_with(**changes: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, source in (sources | changes).items():
            (folder / f"{name}.py").write_text(source)
        module: dict[str, Any] = {"__name__": "claims", "half": None, "mark": lambda function: function}
        text = (folder / "claims.py").read_text().replace("from .helper import half\n", "\n")
        exec(compile(text, folder / "claims.py", "exec"), module)
        return digest(("three bytes", 3), module["bytes_of"])

    before = digest_with()
    claim_changed = digest_with(claims=sources["claims"].replace("2 *", "3 *"))
    helper_changed = digest_with(helper=sources["helper"].replace("/ 2", "/ 4"))
    constant_changed = digest_with(shared="SIZE = 4\n")
    assert len({before, claim_changed, helper_changed, constant_changed}) == 4
    assert digest_with(helper=sources["helper"].replace("():\n", '():\n    """Half."""\n')) == before
    assert digest_with(claims=sources["claims"].replace("@mark\n", "")) == before


def test_a_statement_takes_its_numbers_from_the_expected_values() -> None:
    def measure() -> Value:
        """Returns a number."""
        return 3

    measure.__code__ = measure.__code__.replace(co_filename=str(ROOT / "handbook/claims/memory/states.py"))
    facts = {"expected": {"fp32, all": 4096, "bf16": 2.125}, "unit": "B"}
    stated = claim("a", "{expected[fp32, all]} and {expected[bf16]:.1f}, {not one}", **facts)(measure)
    assert stated.statement == "4,096 and 2.1, {not one}"
    assert stated.page == "handbook/memory.md"
    assert claim("a", "{expected} bytes", expected=8.0, unit="B")(measure).statement == "8 bytes"
    for wrong in ("{expected}", "{expected[fp16]}"):
        with pytest.raises(UserError, match="names no number of `expected`"):
            claim("a", wrong, **facts)(measure)


def test_the_newest_measurement_of_several_devices_is_read(tmp_path: Path) -> None:
    for name, date, value in (("cpu", "2026-01-01", 1), ("cuda", "2026-02-01", 2)):
        fields = vars(Measurement(value, 0.0, date, "a machine", "versions", "digest"))
        (tmp_path / f"{name}.json").write_text(json.dumps({"a": fields}))
    assert read_measurements(tmp_path)["a"].measured == 2


def test_text_of_a_value() -> None:
    assert [text_of(value) for value in (None, True, 1234567, 1.23456789, {"a": 1, "b": 0.5})] == [
        "not measured",
        "yes",
        "1,234,567",
        "1.23457",
        "a: 1, b: 0.5",
    ]


# ------------------------------------------------------------------------------------------------ figures in the text
@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("It takes 112 GB.", ["112 GB"]),
        ("It takes 16 bytes per parameter, 73 % of it.", ["16 bytes", "73 %"]),
        ("- 24.5 GB per rank", ["24.5 GB"]),
        ("| a | b |\n|---|---|\n| x | 3.08 MiB |", ["3.08 MiB"]),
        ("It takes [112 GB](claims.md#x).", []),
        ("It takes [112 GB](https://arxiv.org/abs/1910.02054).", []),
        ("It takes [112 GB](memory.md).", ["112 GB"]),
        ("Suppose 80 GB. <!-- given -->", []),
        ("Type `112 GB` or $112 GB$.", []),
        ("12 layers, lab 02, 3 heads", []),
        ("```python\nprint(1)\n#> 112 GB\n```\nIt takes 112 GB.", []),
        ("```python\nprint(1)\n#> 112 GB\n```\n## Next\n\nIt takes 112 GB.", ["112 GB"]),
        ("<!-- excerpt: recorded/a.txt -->\n```text\npeak 9 MiB\n```\n\n## Next\n\nIt takes 9 MiB.", []),
    ],
)
def test_figures_without_proof_are_found(tmp_path: Path, text: str, figures: list[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [line.split("'")[1] for line in bare_figures(page)] == figures


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("8 bytes", []),
        ("9 bytes", ["9"]),
        ("26.4 MB, 25.1 MiB, 26,364,420 B", []),
        ("26.5 MB", ["26.5"]),
        ("8 of 12 layers, as in Lab 02", []),
        ("half of 14 layers", ["14"]),
        ("10⁻⁷ or 4/3", []),
    ],
)
def test_a_number_in_a_link_must_be_a_number_of_its_claim(tmp_path: Path, text: str, wrong: list[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"First.\n\nIt takes [{text}](claims.md#three-bytes), and 77 B [elsewhere](claims.md#other).\n")
    stated = make(expected={"state": 8, "activations": 26_364_420}, statement="Of 12 layers.")
    differing = differing_numbers(page, {"three-bytes": stated})
    assert [line.split("'")[1] for line in differing] == wrong
    assert all(line.startswith("page.md:3: ") and "8, activations: 26,364,420" in line for line in differing)


# --------------------------------------------------------------------------------------------------- the command line
def test_the_command_shows_how_a_claim_is_measured() -> None:
    result = CliRunner().invoke(app, ["claims", "adamw-state-8-bytes"])
    assert result.exit_code == 0, result.output
    for part in ("8 bytes per parameter", "How: Takes one step", "def adamw_state", "expected  8 ", "verdict   holds"):
        assert part in result.output


def test_the_error_for_an_unknown_claim_names_the_nearest_claim() -> None:
    result = CliRunner().invoke(app, ["claims", "adamw-state"])
    assert result.exit_code == 2
    assert "there is no claim 'adamw-state'; near it are adamw-state-8-bytes" in " ".join(result.output.split())


def test_measuring_a_page_writes_its_measurements_and_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(measurements.FOLDER, tmp_path / "measurements")
    monkeypatch.setattr(table, "read_measurements", lambda: read_measurements(folder))
    monkeypatch.setattr(
        measurements, "write_measurements", lambda claims, outcomes: write_measurements(claims, outcomes, folder)
    )
    monkeypatch.setattr(table, "TABLE", tmp_path / "claims.md")
    result = CliRunner().invoke(app, ["claims", "--page", "how-to-read", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "claims hold" in result.output
    assert "claims.md" in result.output
    assert "adamw-state-8-bytes" in (tmp_path / "claims.md").read_text()
    changed = CliRunner().invoke(app, ["claims", "--page", "how-to-read", "--changed"])
    assert changed.exit_code == 0, changed.output
    assert "0 of 0 claims hold" in changed.output
    wrong = CliRunner().invoke(app, ["claims", "--page", "nowhere"])
    assert wrong.exit_code == 2
    assert "no page 'nowhere' states a claim" in " ".join(wrong.output.split())
