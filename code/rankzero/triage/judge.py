"""Judge: all signs in the records of a run, and the causes that they name, the likeliest first."""

from collections.abc import Sequence
from dataclasses import dataclass

from rankzero.triage.record import Record
from rankzero.triage.signs import costs, data, failures, gradients, layers, losses, modes, ranks, schedules
from rankzero.triage.signs.sign import MECHANISM, Sign

# In this order: a sign that explains others comes before them.
FAMILIES = (failures, gradients, modes, losses, data, schedules, layers, costs)


@dataclass
class Diagnosis:
    """The signs of a run, findings and others."""

    signs: list[Sign]

    def causes(self) -> list[str]:
        """Returns the keys of the causes, the likeliest first; symptoms count only where no mechanism was found."""
        findings = [sign for sign in self.signs if sign.cause]
        direct = [sign for sign in findings if sign.strength == MECHANISM]
        return list(dict.fromkeys(sign.cause for sign in direct or findings))


def judge(records: Sequence[Record]) -> Diagnosis:
    """Returns the diagnosis of a run, from the records of all its processes."""
    found = list(ranks.signs(records))
    for record in sorted(records, key=lambda record: record.rank):
        for family in FAMILIES:
            found += family.signs(record)
    return Diagnosis(_one_each(found))


def _one_each(found: Sequence[Sign]) -> list[Sign]:
    """Returns one sign for each thing looked at: the first finding, or else the first sign."""
    kept: dict[str, Sign] = {}
    for sign in found:
        if sign.looked_at not in kept or (sign.cause and not kept[sign.looked_at].cause):
            kept[sign.looked_at] = sign
    return list(kept.values())
