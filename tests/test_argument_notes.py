"""Argument notes: a failure names an argument that was changed, or an iterator that was read after its end."""

from pathlib import Path

import pytest

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.runner import check_file
from rankzero.exercises.probes.argument_notes import note_text


def failures(client: LocalProbeClient, folder: Path, lab: str, name: str, old: str, new: str) -> list[str]:
    """Returns the texts of the failed checks of exercise `name`, with `old` replaced by `new` in the reference."""
    curriculum_lab = find_lab(lab)
    source = curriculum_lab.reference.read_text()
    assert old in source
    file = folder / "exercises.py"
    file.write_text(source.replace(old, new, 1))
    client.forget(file)
    chosen = tuple(exercise for exercise in exercises_of(curriculum_lab) if exercise.name == name)
    report = check_file(curriculum_lab, file, chosen, seed=3, client=client, explain=False)
    return [result.text for result in report.results if result.status not in ("pass", "skipped")]


def test_an_iterator_that_was_read_twice_is_named(client: LocalProbeClient, tmp_path: Path) -> None:
    old = "    closed: list[list[nn.Parameter]] = []\n"
    texts = failures(client, tmp_path, "07", "make_buckets", old, f"    print(len(list(parameters)))\n{old}")
    assert "make_buckets read the iterator `parameters` again after its end" in texts[0]


@pytest.mark.parametrize(("statement", "named"), [("y += 0", True), ("y = y + 0", False)])
def test_a_changed_argument_is_named(client: LocalProbeClient, tmp_path: Path, statement: str, named: bool) -> None:
    old = "    loss = F.cross"
    texts = failures(client, tmp_path, "02", "train_step", old, f"    {statement}\n    loss = 1.5 * F.cross")
    assert texts
    assert ("train_step changed its argument `y`, which is the caller's." in texts[0]) is named


def test_an_argument_that_was_changed_before_an_error_is_named(client: LocalProbeClient, tmp_path: Path) -> None:
    texts = failures(client, tmp_path, "02", "train_step", "    loss.backward()", "    y.add_(0)\n    loss.backward()")
    sentence, source = texts[0].split("\n")
    assert "modified by an inplace operation" in sentence
    assert sentence.endswith("`y`, which is the caller's.")
    assert source.strip() == "loss.backward()"


def test_an_argument_whose_data_were_replaced_is_named(client: LocalProbeClient, tmp_path: Path) -> None:
    old = "    return [one.to(target) if casts(one) else one for one in args]\n"
    new = """    for one in args:
        if casts(one):
            one.data = one.data.to(target)
    return list(args)
"""
    texts = failures(client, tmp_path, "03", "cast_inputs", old, new)
    assert len(texts) == 1
    assert texts[0].endswith("cast_inputs changed its argument `args`, which is the caller's.")


@pytest.mark.parametrize(
    ("lab", "name", "old"),
    [
        ("02", "train_step", "    return loss.item(), norm\n"),
        ("02", "learning_rate", "    return floor + "),
        ("07", "reduce_bucket", "    return finish\n"),
    ],
)
def test_a_missing_return_is_named(client: LocalProbeClient, tmp_path: Path, lab: str, name: str, old: str) -> None:
    texts = failures(client, tmp_path, lab, name, old, old.replace("return", "_ ="))
    assert all(text.count("`return`") == 1 for text in texts), texts
    instead = " instead of a function" if name == "reduce_bucket" else ""
    assert f"{name} returned None{instead}: is a `return` missing" in texts[0]
    assert not any("form that the probe gives" in text for text in texts)


def test_a_function_that_is_called_where_it_is_to_be_returned_is_named(
    client: LocalProbeClient, tmp_path: Path
) -> None:
    texts = failures(client, tmp_path, "07", "reduce_bucket", "    return finish\n", "    return finish()\n")
    assert "or is the function called where it is returned, as in `return f()`?" in texts[0]
    texts = failures(client, tmp_path, "05", "repeatable", "    return again\n", "    return again()\n")
    assert "on what your code returned). A function is expected: return the function without calling it." in texts[0]


def test_a_hook_that_is_none_is_named(client: LocalProbeClient, tmp_path: Path) -> None:
    source = find_lab("05").reference.read_text()
    body = source[source.index("def runs_per_block") : source.index("def repeatable")]
    (begin, end) = (body.index(marker) for marker in ("### BEGIN", "### END"))
    new = """handles = [block.register_forward_pre_hook((lambda: None)()) for block in blocks]
    try:
        step()
    finally:
        for handle in handles:
            handle.remove()
    return []
    """
    texts = failures(client, tmp_path, "05", "runs_per_block", body[begin:end], new)
    assert "is not callable. torch called None: a function that the code gave to torch, such as a hook" in texts[0]


def test_what_the_reference_changes_too_is_not_named(client: LocalProbeClient, tmp_path: Path) -> None:
    texts = failures(client, tmp_path, "08", "clip", "gradient.mul_(max_norm / norm)", "gradient.mul_(2)")
    assert texts
    assert "changed its argument" not in " ".join(texts)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("save_durably", "        raise\n", "        return\n"),  # is to return None
        ("snapshot", "return type(value)([", "return list(["),  # its recursion returns None for a None in the state
    ],
)
def test_a_none_that_is_right_is_not_named(
    client: LocalProbeClient, tmp_path: Path, name: str, old: str, new: str
) -> None:
    texts = failures(client, tmp_path, "09", name, old, new)
    assert texts
    assert not any("returned None" in text for text in texts)


def test_a_forged_note_is_left_out() -> None:
    assert note_text(frozenset({"f x changed", "f <b> changed", "f - gone", "f x praised", "x" * 10**5})) == (
        " f changed its argument `x`, which is the caller's."
    )


def test_a_function_without_an_annotation_may_return_nothing(client: LocalProbeClient, tmp_path: Path) -> None:
    old = "def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, step: int) -> None:\n"
    new = "def save_checkpoint(path, model, optimizer, step):\n    step += 1\n"
    texts = failures(client, tmp_path, "02", "checkpoint", old, new)
    assert texts
    assert not any("returned None" in text for text in texts), texts
