"""Dated measurements of claims, kept as JSON under handbook/measurements/, one file for each kind of device.

A measurement holds the value, how long it took, the date, the machine, the versions, and the digest of the claim that
was measured: if the claim has changed since, the measurement no longer counts.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rankzero.claims.claim import Claim, Value, text_of
from rankzero.claims.run import Outcome
from rankzero.curriculum import ROOT
from rankzero.learn.machine.device import device_name
from rankzero.learn.machine.fingerprint import cpu_model, fingerprint

FOLDER = ROOT / "handbook" / "measurements"


@dataclass(frozen=True)
class Measurement:
    """A claim's value, measured on one machine."""

    measured: Value
    seconds: float
    date: str
    machine: str
    versions: str
    digest: str
    runs: tuple[Value, ...] = ()  # every value, where it was measured several times
    chart: dict[str, Any] | None = None  # the fields of a Chart

    def counts_for(self, claim: Claim) -> bool:
        """Returns whether the measured claim is this claim as it is now."""
        return self.digest == claim.digest


def read_measurements(folder: Path = FOLDER) -> dict[str, Measurement]:
    """Returns all measurements by slug; if several devices measured a claim, the latest measurement."""
    measurements: dict[str, Measurement] = {}
    for file in sorted(folder.glob("*.json")):
        for slug, fields in json.loads(file.read_text(encoding="utf-8")).items():
            measurement = Measurement(**fields)
            if slug not in measurements or measurements[slug].date <= measurement.date:
                measurements[slug] = measurement
    return measurements


def unproven(claims: Mapping[str, Claim], kept: Mapping[str, Measurement]) -> dict[str, str]:
    """Returns the reason for each claim that no kept measurement proves, by slug."""
    reasons = {}
    for slug, claim in claims.items():
        if slug not in kept:
            reasons[slug] = "it was never measured"
        elif not kept[slug].counts_for(claim):
            reasons[slug] = "its code or statement has changed since it was measured"
        elif not claim.holds(kept[slug].measured):
            measured = text_of(kept[slug].measured)
            reasons[slug] = f"it expects {text_of(claim.expected)}, and {measured} was measured"
    return reasons


def write_measurements(
    claims: dict[str, Claim],
    outcomes: Iterable[Outcome],
    folder: Path = FOLDER,
    imported: Mapping[str, Measurement] | None = None,
) -> list[Path]:
    """Adds outcomes of this machine and imported measurements, drops claims that are gone, and returns the files.

    A claim that held when it was measured before, and holds now, keeps its entry: a second run changes nothing.
    """
    measured = [outcome for outcome in outcomes if outcome.measured is not None]
    files = []
    for kind in ("cpu", "cuda"):
        file = folder / f"{kind}.json"
        old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        new = {slug: fields for slug, fields in old.items() if slug in claims}
        for outcome in measured:
            slug, claim = outcome.slug, claims[outcome.slug]
            same = slug in old and old[slug]["digest"] == claim.digest
            holds = same and outcome.holds and claim.holds(old[slug]["measured"])
            if ("cuda" in claim.needs) == (kind == "cuda") and not holds:
                new[slug] = _fields(_dated(outcome, claim, kind))
        for slug, measurement in (imported or {}).items():
            if ("cuda" in claims[slug].needs) == (kind == "cuda"):
                new[slug] = _fields(measurement)
        if new != old:
            folder.mkdir(exist_ok=True)
            file.write_text(json.dumps(dict(sorted(new.items())), indent=2) + "\n", encoding="utf-8")
            files.append(file)
    return files


def _fields(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields that hold something."""
    return {name: value for name, value in asdict(measurement).items() if value not in ((), None)}


def _dated(outcome: Outcome, claim: Claim, kind: str) -> Measurement:
    facts = fingerprint()
    machine = f"{cpu_model()}, {facts['cpu_cores']} cores" if kind == "cpu" else device_name(torch.device(kind))
    assert outcome.measured is not None
    return Measurement(
        outcome.measured,
        round(outcome.seconds, 2),
        str(facts["date"])[:10],
        machine,
        f"Python {facts['python']}, torch {facts['torch']}",
        claim.digest,
        chart=outcome.chart.as_json() if outcome.chart else None,
    )
