"""Tiers of tests: a sample of long tests runs in `make test` and `make test-site`, the others in `make prove` only."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], sample: Container[Any]) -> list[Any]:
    """Returns the cases as parameters of a test. Those outside the sample run in `make prove` only."""
    return [case if case in sample else pytest.param(*_values(case), marks=pytest.mark.prove) for case in cases]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
