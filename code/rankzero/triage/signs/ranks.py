"""Signs of several ranks: their weights, data, times and collectives, compared with each other."""

from collections.abc import Iterator, Sequence

from rankzero.triage.record import Model, Record
from rankzero.triage.signs.sign import Sign, sign_if

FEWEST_STEPS = 5
EQUAL = 0.9  # share of the steps
SLOWER = 1.6  # times the time of the fastest rank
RARE = 0.2  # share of the steps, the longest ones, that are left out: validation, saving
LEAST_S = 0.002
SAME = 1e-6  # relative difference of two sums of equal weights


def signs(records: Sequence[Record]) -> Iterator[Sign]:
    """Yields the signs of a world of ranks."""
    ranks = sorted((record for record in records if record.ranks > 1), key=lambda record: record.rank)
    if len(ranks) < 2:
        return
    yield from _collectives(ranks, any(record.failure for record in records))
    models = [record.main() for record in ranks]
    if all(model is not None and len(model.steps) >= FEWEST_STEPS for model in models):
        yield from _models([model for model in models if model is not None])


def _collectives(ranks: Sequence[Record], failed: bool) -> Iterator[Sign]:
    numbered = [dict(zip(range(record.collectives, 0, -1), reversed(record.calls), strict=False)) for record in ranks]
    common = set(numbered[0]).intersection(*numbered[1:])
    differing = [number for number in sorted(common) if len({calls[number] for calls in numbered}) > 1]
    counts = [record.collectives for record in ranks]
    stuck = [record for record in ranks if record.in_collective]
    if differing and (stuck or failed):
        last = differing[0]
        saw = f"call {last}: " + "; ".join(
            f"rank {record.rank} {calls[last]}" for record, calls in zip(ranks, numbered, strict=True)
        )
    elif stuck and len(set(counts)) > 1:
        saw = "; ".join(
            f"rank {record.rank}: {record.collectives} calls, "
            f"{'in' if record.in_collective else 'after'} {record.calls[-1]}"
            for record in ranks
            if record.calls
        )
    else:
        yield Sign("collectives of the ranks", f"{counts[0]} calls of each rank", "the same calls on every rank")
        return
    yield Sign("collectives of the ranks", saw, "the same calls on every rank", "ranks-in-different-collectives")


def _models(models: Sequence[Model]) -> Iterator[Sign]:
    steps = list(zip(*(model.steps for model in models), strict=False))
    if all(model.data_parallel for model in models):
        given = [row for row in steps if all(step.batch for step in row)]
        same = [row for row in given if len({step.batch for step in row}) == 1]
        if len(given) >= FEWEST_STEPS:
            yield sign_if(
                len(same) >= EQUAL * len(given),
                "batches of the ranks",
                f"equal on all ranks in {len(same)} of {len(given)} steps",
                "each rank its own",
                "ranks-draw-same-data",
            )
        known = [row for row in steps if all(step.weights is not None for step in row)]
        apart = [row for row in known if not _close([step.weights or 0.0 for step in row])]
        if known:
            yield sign_if(
                len(apart) >= EQUAL * len(known),
                "weights of the ranks",
                f"different after {len(apart)} of {len(known)} updates",
                "equal after every update",
                "ranks-start-apart",
            )
    times = [_usual_mean([step.local_s for step in model.steps if step.local_s is not None]) for model in models]
    slowest, fastest = max(times), min(times)
    yield sign_if(
        slowest > SLOWER * fastest and slowest - fastest > LEAST_S,
        "time of the ranks without waiting",
        ", ".join(f"rank {rank} {seconds * 1000:.1f} ms" for rank, seconds in enumerate(times)),
        f"within {SLOWER} times of each other",
        "straggler",
        f"rank {times.index(slowest)}",
    )


def _usual_mean(seconds: Sequence[float]) -> float:
    """Returns the mean without the longest steps, which may do something else besides."""
    usual = sorted(seconds)[: max(1, round(len(seconds) * (1 - RARE)))]
    return sum(usual) / len(usual) if usual else 0.0


def _close(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= SAME * max(1e-12, *(abs(value) for value in values))
