"""`rankzero grade --verify`: a run that was stopped goes on with the same seeds, and only with the same labs."""

from pathlib import Path

import pytest

from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.grading.verify_record import VerifyRecord

LAB = find_lab("02")
KEY = ("02", "attacks", "network")


def test_a_run_goes_on_with_its_seeds_and_without_what_it_has_graded(tmp_path: Path) -> None:
    file = tmp_path / "state" / "verify.jsonl"
    first = VerifyRecord([LAB], resume=False, file=file)
    first.add(KEY, "it got 3 points; expected 0")
    again = VerifyRecord([LAB], resume=True, file=file)
    assert (again.seeds, again.faults) == (first.seeds, {KEY: "it got 3 points; expected 0"})
    assert VerifyRecord([LAB], resume=False, file=file).faults == {}


@pytest.mark.parametrize(
    ("content", "labs", "message"),
    [
        (None, ["02"], "no run to go on with: leave out --resume"),
        ("", ["02"], "cannot be used"),
        ("[1", ["02"], "cannot be used"),
        ("02", ["02", "03"], "start again without --resume"),
    ],
)
def test_a_record_that_does_not_fit_is_named(
    tmp_path: Path, content: str | None, labs: list[str], message: str
) -> None:
    file = tmp_path / "verify.jsonl"
    if content == "02":
        VerifyRecord([LAB], resume=False, file=file)
    elif content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=message):
        VerifyRecord([find_lab(number) for number in labs], resume=True, file=file)
