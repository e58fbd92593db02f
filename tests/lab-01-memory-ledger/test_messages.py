"""Messages of Lab 01's checks: they say which sizes make the bytes that are too many or too few."""

import pytest

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load

CHECKS = load(find_lab("01").checks)
SIZES = {"vocab_size": 21_322, "block_size": 3_898, "hidden_dim": 336, "batch_size": 6, "tensors": 1_353}
RIGHT = 10**9 + 7  # a prime

MESSAGES = {
    "a product": (RIGHT + 3_898 * 336, RIGHT, "That is 1,309,728 too many: block_size · hidden_dim."),
    "a square": (RIGHT - 336**2, RIGHT, "That is 112,896 too few: hidden_dim²."),
    "a multiple": (RIGHT + 4 * 1_353, RIGHT, "That is 5,412 too many: 4 · tensors."),
    "no product": (RIGHT + 1_361, RIGHT, "That is 1,361 too many."),
    "a factor": (RIGHT, 6 * RIGHT, "The expected number is 6 times as large, and batch_size is 6."),
    "another factor": (5 * RIGHT, RIGHT, "That is 5 times the expected number."),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_wrong_count_is_explained_by_the_sizes_that_make_the_difference(name: str) -> None:
    got, expected, ending = MESSAGES[name]
    judge = CHECKS.whole_number("bytes", "the count")
    assert judge({"bytes": got}, SIZES | {"bytes": expected}).endswith(f". {ending}")
