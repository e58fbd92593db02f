"""Measures claims in one process: reads a slug and seconds per line of its input, and prints JSON for each.

A claim that is measured quickly is measured three times, so that its value comes with a spread.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

from rankzero.claims.claim import Value
from rankzero.claims.registry import find_claim
from rankzero.claims.run import Outcome, run_claim
from rankzero.claims.toolkit.gpu import SECONDS, free_memory, rehearsing

TIMES, REPEATED_S = 3, 3.0  # a claim that takes less than that is measured again


def middle(values: list[Value]) -> Value:
    """Returns the median, number by number; of yes and no, yes only if all are yes."""
    first = values[0]
    if isinstance(first, bool):
        return all(values)
    if isinstance(first, Mapping):
        return {name: statistics.median(float(value[name]) for value in values) for name in first}  # type: ignore[index]
    return statistics.median(float(value) for value in values)  # type: ignore[arg-type]


def measured(slug: str) -> dict[str, Any]:
    """Returns the claim's values, its digest and its chart, or the error."""
    claim, outcomes = find_claim(slug), [Outcome(slug, None, 0.0, False)]
    begin = time.perf_counter()
    for number in range(1 if rehearsing() else TIMES):
        if number and (outcomes[-1].error or outcomes[-1].seconds > REPEATED_S):
            break
        free_memory()
        outcomes.append(run_claim(slug))
    del outcomes[0]
    found: dict[str, Any] = {"slug": slug, "rehearsal": rehearsing(), "digest": claim.digest}
    found["seconds"] = round(time.perf_counter() - begin, 3)
    if errors := [outcome.error for outcome in outcomes if outcome.error]:
        return found | {"error": errors[0]}
    runs = [outcome.measured for outcome in outcomes if outcome.measured is not None]
    value, chart = middle(runs), outcomes[0].chart
    found |= {"measured": value, "runs": runs, "holds": claim.holds(value)}
    return found | ({"chart": chart.as_json()} if chart else {})


def main() -> None:
    """Answers until the input ends."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a claim prints is no result
    for line in sys.stdin:
        slug, seconds = line.split()
        os.environ[SECONDS] = seconds
        print(json.dumps(measured(slug)), file=results, flush=True)


if __name__ == "__main__":
    main()
