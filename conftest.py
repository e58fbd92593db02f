"""Which tests run on one worker: those of a file, or, where a file tests every lab, those of a file and a lab."""

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        lab = callspec.params.get("lab") if callspec else None
        item.add_marker(
            pytest.mark.xdist_group(f"{item.path.name}-{item.path.parent.name}-{getattr(lab, 'number', '')}")
        )
