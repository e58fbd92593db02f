"""Usable cores: the affinity of this process and a container's quota, whichever allows less."""

import os
from pathlib import Path

import pytest

from rankzero.learn.machine.cores import usable_cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000\n", 6),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # one and a half
        ("20000 100000\n", 1),
        ("6400000 100000\n", 6),
        ("", 6),
        (None, 6),  # a system without control groups
    ],
)
def test_the_smaller_of_affinity_and_quota_counts(
    quota: str | None, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota, encoding="ascii")
    assert usable_cores(file) == cores


def test_a_system_without_affinity_has_its_number_of_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_cores(tmp_path / "none") == 5
