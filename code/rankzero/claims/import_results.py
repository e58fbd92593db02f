"""Import of a GPU session's file: its claims become measurements with the date and the machine of the session."""

import json
from pathlib import Path
from typing import Any

from rankzero.claims.claim import Claim
from rankzero.claims.measurements import FOLDER, Measurement, write_measurements
from rankzero.errors import UserError

FORMAT = 1


def import_results(file: Path, claims: dict[str, Claim], folder: Path = FOLDER) -> tuple[list[str], dict[str, str]]:
    """Writes the measurements in `file`, the gpu.json of a `rankzero gpu`, into `folder`.

    Returns the slugs written, and for each other claim of the file the reason why not. A rehearsal's claims are
    compared and not written. UserError where `file` is not such a file.
    """
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
        if results["format"] != FORMAT:
            raise UserError(f"{file} has format {results['format']}, and this version reads {FORMAT}: run it again.")
        machine = results["machine"]
        found = {slug: _measurement(line, machine) for slug, line in results["claims"].items() if "measured" in line}
        left_out = {slug: line["error"] for slug, line in results["claims"].items() if slug not in found}
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}): name the gpu.json of a `rankzero gpu`.") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is no file of `rankzero gpu` ({type(error).__name__}: {error}).") from None
    for slug, measurement in found.items():
        if slug not in claims:
            left_out[slug] = "there is no such claim now"
        elif not measurement.counts_for(claims[slug]):
            left_out[slug] = "the claim has changed since it was measured"
        elif results["rehearsal"]:
            left_out[slug] = "a rehearsal: in order, and not written"
    taken = {slug: measurement for slug, measurement in found.items() if slug not in left_out}
    write_measurements(claims, [], folder, taken)
    return sorted(taken), left_out


def _measurement(line: dict[str, Any], machine: dict[str, Any]) -> Measurement:
    return Measurement(
        line["measured"],
        line["seconds"],
        machine["date"][:10],
        machine.get("gpu", [machine["cpu"]])[0],
        f"Python {machine['python']}, torch {machine['torch']}, driver {machine['driver'] or 'none'}",
        line["digest"],
        tuple(line["runs"]),
        line.get("chart"),
    )
