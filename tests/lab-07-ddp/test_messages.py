"""Lab 07's messages: unequal lengths or dtypes, a wrong rank and a dropped handle are reported with a line."""

from pathlib import Path

import pytest

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.runner import check_file

LAB = find_lab("07")
IN_RING = "        exchange(chunks[(rank - step) % ranks], received)\n"
BY_HAND = """        sending = dist.isend(chunks[(rank - step) % ranks], (rank + 1) % ranks)
        dist.recv(received, {source})
        sending.wait()
"""


def failures(client: LocalProbeClient, folder: Path, name: str, old: str, new: str) -> list[str]:
    """Returns the texts of the failed checks of exercise `name`, with `old` replaced by `new` in the reference."""
    source = LAB.reference.read_text()
    assert old in source
    file = folder / "exercises.py"
    file.write_text(source.replace(old, new, 1))
    client.forget(file)
    chosen = tuple(exercise for exercise in exercises_of(LAB) if exercise.name == name)
    report = check_file(LAB, file, chosen, seed=3, client=client, explain=False)
    return [result.text for result in report.results if result.status not in ("pass", "skipped")]


def test_a_message_of_another_length_names_both_lengths(client: LocalProbeClient, tmp_path: Path) -> None:
    wrong = "received = torch.empty_like(chunks[(rank - step) % ranks])"
    texts = failures(client, tmp_path, "ring_all_reduce", "received = torch.empty_like(chunk)", wrong)
    assert "sends a message of length" in texts[0]
    assert "called at exercises.py, line" in texts[0]
    assert "exchange(chunks[(rank - step) % ranks], received)" in texts[0]
    assert "SIGABRT" not in texts[0]


def test_a_message_received_in_another_dtype_names_both_dtypes(client: LocalProbeClient, tmp_path: Path) -> None:
    wrong = "received = torch.empty(chunk.shape)"
    texts = failures(client, tmp_path, "ring_all_reduce", "received = torch.empty_like(chunk)", wrong)
    assert "sends a message of float64, and rank" in texts[0]
    assert "receives it in a tensor of float32, called at exercises.py, line" in texts[0]
    assert "collective" not in texts[0]


@pytest.mark.parametrize("source", ["rank - 1", "(rank + 1) % ranks"])
def test_a_wrong_rank_in_the_ring_is_named(client: LocalProbeClient, tmp_path: Path, source: str) -> None:
    texts = failures(client, tmp_path, "ring_all_reduce", IN_RING, BY_HAND.format(source=source))
    assert "check's own code" not in texts[0]
    assert "dist.recv(received" in texts[0]


def test_a_dropped_handle_is_a_message_that_was_not_waited_for(client: LocalProbeClient, tmp_path: Path) -> None:
    texts = failures(client, tmp_path, "exchange", "    sending.wait()\n", "    del sending\n")
    assert len(texts) == 1
    assert "without waiting for 1 message" in texts[0]
