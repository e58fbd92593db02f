"""Records and reports of loops that load and train, and the store of their pictures."""

import pytest
import torch

from rankzero.learn.data.slow_store import SlowStore, decoded
from rankzero.learn.profiling.loader_record import Moment, Record, seconds_of
from rankzero.learn.profiling.loader_report import compare_losses


def test_waiting_is_all_time_outside_of_the_steps() -> None:
    first = Moment(0, 0.0, 1.0, 0.0, 1.0, 1.5)
    second = Moment(1, 0.0, 1.2, 1.5, 1.6, 2.5)
    after_a_pause = Moment(0, 3.0, 3.5, 3.5, 4.0, 4.5)
    assert seconds_of([first, second, after_a_pause]) == pytest.approx((4.5, 1.9))


def test_unequal_losses_are_named_with_their_step_and_loader() -> None:
    def record(*values: float) -> Record:
        return Record([torch.tensor([value]) for value in values], [], [])

    assert compare_losses({"a": record(1, 2), "b": record(1, 2)}) == (
        "equal bit for bit: 2 losses with each of 2 loaders"
    )
    verdict = compare_losses({"a": record(1, 2, 3), "b": record(1, 2, 3), "c": record(1, 2.5, 4)})
    assert verdict == "NOT EQUAL from step 2 on with 'c': loss 2.5000 instead of 2.0000"


def test_a_stored_picture_is_the_picture() -> None:
    gray = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    color = torch.randint(256, (1, 3, 16, 16), dtype=torch.uint8)
    for images in (gray, color):
        assert torch.equal(decoded(SlowStore(images, 0).read(0), 16), images[0])
    assert decoded(SlowStore(gray, 0).read(0), 8).shape == (1, 8, 8)
