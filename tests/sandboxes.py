"""Sandbox requirement of tests: without a sandbox they are skipped, or fail if RANKZERO_SANDBOX=required."""

import functools
import os

import pytest

from rankzero.grading.sandbox.sandbox_client import why_unavailable


@functools.cache
def needs_sandbox() -> pytest.MarkDecorator:
    """Returns the mark for a file: `pytestmark = needs_sandbox()`."""
    why = why_unavailable()
    if why and os.environ.get("RANKZERO_SANDBOX") == "required":
        raise RuntimeError(f"RANKZERO_SANDBOX=required, but {why}")
    return pytest.mark.skipif(bool(why), reason=why)
