"""Claims: each one holds on this machine, pages and registry agree, and the table is what they make."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rankzero.claims import measurements, registry, report, run
from rankzero.claims.claim import Claim, Value, text_of
from rankzero.claims.measurements import Measurement, read_measurements, write_measurements
from rankzero.claims.page_links import bare_figures, claim_links
from rankzero.claims.run import Outcome, can_measure, run_claim, run_claims
from rankzero.claims.table import render
from rankzero.cli.app import app
from rankzero.curriculum import ROOT
from rankzero.errors import UserError
from rankzero.publish.sync import pages

CLAIMS = registry.all_claims()


@pytest.mark.parametrize("slug", [slug for slug, one in CLAIMS.items() if can_measure(one)])
def test_the_claim_holds(slug: str) -> None:
    outcome = run_claim(slug)
    assert not outcome.error
    assert outcome.holds, f"expected {CLAIMS[slug].expected}, measured {outcome.measured}"


def test_every_link_has_its_claim_and_every_claim_its_link() -> None:
    linked = {page: claim_links(page.read_text(encoding="utf-8")) for page in pages()}
    unknown = {f"{page.name}: {slug}" for page, slugs in linked.items() for slug in slugs - CLAIMS.keys()}
    assert not unknown
    unused = {one.slug for one in CLAIMS.values() if one.slug not in linked[ROOT / one.page]}
    assert not unused, "these claims are not linked from the page that they name"


def test_no_figure_stands_alone() -> None:
    assert report.all_bare_figures() == []


def test_the_committed_table_is_not_stale() -> None:
    assert report.write_table(check=True) == [], "run `make claims`"
    kept = read_measurements()
    measurable = {slug for slug, one in CLAIMS.items() if "cuda" not in one.needs}
    assert {slug for slug in measurable if slug not in kept or not kept[slug].counts_for(CLAIMS[slug])} == set()


def test_cuda_claims_show_no_number_that_nobody_measured() -> None:
    kept = read_measurements()
    for slug, one in CLAIMS.items():
        if "cuda" in one.needs and slug not in kept:
            assert f"`{slug}`" in report.TABLE.read_text()
            assert "not measured" in _row_of(slug)


def _row_of(slug: str) -> str:
    return next(line for line in report.TABLE.read_text(encoding="utf-8").splitlines() if f'id="{slug}"' in line)


# ------------------------------------------------------------------------------------------------------- the engine
def make(measured: Value = 3, **facts: Any) -> Claim:
    def measure() -> Value:
        """Hands out a number."""
        return measured

    fields: dict[str, Any] = {"slug": "three-bytes", "page": "README.md", "expected": 3, "unit": "B"} | facts
    return Claim(statement="Three bytes.", measure=measure, **fields)


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
    original = next(one for one in vars(training_loop).values() if isinstance(one, Claim))
    monkeypatch.setattr(training_loop, "again", original, raising=False)
    with pytest.raises(UserError, match="two claims have this slug"):
        registry.all_claims.__wrapped__()
    monkeypatch.setattr(training_loop, "again", make(page="handbook/nowhere.md"))
    with pytest.raises(UserError, match=r"there is no page handbook/nowhere\.md"):
        registry.all_claims.__wrapped__()


def test_an_error_in_a_claim_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> Value:
        """Divides."""
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
    kept = read_measurements(tmp_path)
    assert "| 3 B | 3 | holds | 0.50 |" in render(claims, kept)
    assert "not measured" in render({"three-bytes": make(expected=4)}, kept)
    assert write_measurements(claims, [Outcome("three-bytes", 3, 0.7, True)], tmp_path) == []  # the same value again
    assert write_measurements({}, [], tmp_path)
    assert not read_measurements(tmp_path)


def test_the_newest_measurement_of_several_devices_is_shown(tmp_path: Path) -> None:
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
    ("text", "found"),
    [
        ("It takes 112 GB.", ["112 GB"]),
        ("It takes 16 bytes a parameter, 73 % of it.", ["16 bytes", "73 %"]),
        ("- 24.5 GB a rank", ["24.5 GB"]),
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
def test_the_gate_finds_figures_that_stand_alone(tmp_path: Path, text: str, found: list[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [line.split("'")[1] for line in bare_figures(page)] == found


# --------------------------------------------------------------------------------------------------- the command line
def test_one_claim_shows_how_it_is_measured() -> None:
    result = CliRunner().invoke(app, ["claims", "adamw-state-8-bytes"])
    assert result.exit_code == 0, result.output
    for part in ("8 bytes a parameter", "How: Takes one step", "def adamw_state", "expected  8 ", "verdict   holds"):
        assert part in result.output


def test_an_unknown_claim_gets_the_nearest() -> None:
    result = CliRunner().invoke(app, ["claims", "adamw-state"])
    assert result.exit_code == 2
    assert "there is no claim 'adamw-state'; near it are adamw-state-8-bytes" in " ".join(result.output.split())


def test_measuring_a_page_writes_its_measurements_and_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(measurements.FOLDER, tmp_path / "measurements")
    monkeypatch.setattr(report, "read_measurements", lambda: read_measurements(tmp_path / "measurements"))
    monkeypatch.setattr(
        report,
        "write_measurements",
        lambda claims, outcomes: write_measurements(claims, outcomes, tmp_path / "measurements"),
    )
    monkeypatch.setattr(report, "TABLE", tmp_path / "claims.md")
    monkeypatch.setattr(report, "ROOT", tmp_path)
    result = CliRunner().invoke(app, ["claims", "--page", "training-loop"])
    assert result.exit_code == 0, result.output
    assert "claims hold" in result.output
    assert "wrote claims.md" in result.output
    assert "adamw-state-8-bytes" in (tmp_path / "claims.md").read_text()
    wrong = CliRunner().invoke(app, ["claims", "--page", "nowhere"])
    assert wrong.exit_code == 2
    assert "no page 'nowhere' states a claim" in " ".join(wrong.output.split())
