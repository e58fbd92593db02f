"""Stuck ranks: the sentence about ranks that wait for each other, with the call and the learner's line."""

from pathlib import Path

import pytest

from rankzero.exercises.probes.rank_probes import StuckRanksError, deadlock_text, failure_text, places_of
from rankzero.learn.distributed.world import WorldTimeoutError

IN_BROADCAST = "was inside broadcast, called at exercises.py, line 12, in same_start"
IN_BARRIER = "was inside barrier, called at exercises.py, line 20, in same_start"


def sentence(*reports: str) -> str:
    first, *others = reports
    lines = [f"no answer after 4 s: rank 0 of {len(reports)} {first}"]
    text = "\n".join(lines + [f"  rank {rank}: {report}" for rank, report in enumerate(others, start=1)])
    return deadlock_text(places_of(WorldTimeoutError(text, "late")))


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        (
            (IN_BROADCAST, "was done"),
            "rank 0 waits in broadcast (exercises.py, line 12, in same_start) for rank 1, which never enters it: "
            "rank 1 has returned",
        ),
        (
            (IN_BROADCAST, IN_BROADCAST, IN_BARRIER),
            "rank 0 waits in broadcast (exercises.py, line 12, in same_start) for rank 2, which never enters it: "
            "rank 2 waits in barrier (exercises.py, line 20, in same_start)",
        ),
        (
            (IN_BROADCAST, IN_BROADCAST),
            "the ranks wait for each other forever: "
            "every rank waits in broadcast (exercises.py, line 12, in same_start)",
        ),
        (("was at exercises.py, line 3, in same_start", "was busy"), ""),
        (("was inside barrier, called at probes.py, line 400, in _late", "was busy"), ""),
    ],
)
def test_ranks_that_wait_for_each_other_are_named(reports: tuple[str, ...], expected: str) -> None:
    assert sentence(*reports) == expected


def test_stuck_ranks_keep_their_places() -> None:
    report = f"no answer after 4 s: rank 0 of 2 {IN_BARRIER}\n  rank 1: was done"
    places = places_of(WorldTimeoutError(report, "late"))
    error = StuckRanksError("text", "late", places)
    assert [place.call for place in error.places] == ["barrier", ""]
    assert [place.done for place in error.places] == [False, True]


def test_the_source_of_each_ranks_line_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    file.write_text("def same_start(model):\n    dist.broadcast(model)\n    dist.barrier()\n")
    one, other = "exercises.py, line 2, in same_start", "exercises.py, line 3, in same_start"
    assert failure_text(f"rank 0 waits in broadcast ({one})", file).endswith(")\n    dist.broadcast(model)")
    text = failure_text(f"rank 0 waits in broadcast ({one}) for rank 1: rank 1 waits in barrier ({other})", file)
    assert text.split("\n")[1:] == ["    line 2: dist.broadcast(model)", "    line 3: dist.barrier()"]
