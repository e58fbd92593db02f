"""Signs of the learning rate over the steps."""

from collections.abc import Iterator

from rankzero.triage.record import Record
from rankzero.triage.signs.sign import Sign, sign_if

FEWEST_STEPS = 20
USED_UP = 0.01  # share of the largest rate, below which an update changes next to nothing
PERIODIC = ("CosineAnnealingLR",)  # past its length, its rate rises again


def signs(record: Record) -> Iterator[Sign]:
    """Yields the sign of each trained model."""
    for model in record.models:
        rates = [step.lr for step in model.steps]
        if len(rates) < FEWEST_STEPS or max(rates) <= 0:
            continue
        small = [rate for rate in rates if rate < USED_UP * max(rates)]
        last = max(place for place, rate in enumerate(rates, start=1) if rate >= USED_UP * max(rates))
        used_up = len(rates) - last > len(rates) / 2
        past = [
            entry
            for entry in record.schedules
            if entry["name"] in PERIODIC and entry["length"] and entry["calls"] > 2 * entry["length"]
        ]
        saw = f"below {USED_UP:.0%} of its peak in {len(small)} of {len(rates)} updates"
        if used_up:
            saw = f"below {USED_UP:.0%} of its peak after update {last} of {len(rates)}"
        elif past:
            saw = (
                f"a schedule of length {past[0]['length']} was stepped {past[0]['calls']} times in {len(rates)} updates"
            )
        yield sign_if(
            used_up or bool(past), "learning rate", saw, "a schedule as long as the run", "schedule-in-wrong-unit"
        )
