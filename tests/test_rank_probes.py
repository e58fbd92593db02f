"""Probes that run a learner's code on ranks: replies for code that works, fails, hangs, or differs by rank."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from rankzero.exercises.checks.check import Check, Exercise
from rankzero.exercises.checks.diagnosis import same_answers
from rankzero.exercises.checks.probe_client import LocalProbeClient, Reply
from rankzero.exercises.probes.rank_probes import StuckRanksError, run_on_ranks

PROBES = """
import numpy as np
import torch
import torch.distributed as dist
from rankzero.exercises.probes.rank_probes import run_on_ranks

def total(learner, seed):
    inputs = np.random.default_rng(seed).integers(9, size=(3, 4))

    def rank():
        rows = torch.from_numpy(inputs[dist.get_rank()]).double().requires_grad_()
        (rows * rows).sum().backward()  # a backward pass on each rank
        learner.total(rows.grad)
        return rows.grad.numpy()

    return {"totals": np.stack(run_on_ranks(rank, 3))}

def again(learner, seed):
    return total(learner, seed)

def begins(learner, seed):
    return {"handed bytes": np.frombuffer(learner.begin(seed), np.uint8), "begun": [seed]}

def goes_on(learner, seed, handed):
    return {"sees": list(map(str, learner.kept)), "bytes": handed["handed bytes"].tobytes().decode()}

def waits(learner, seed):
    def rank():
        from rankzero.exercises.probes.collective_waits import SettledCounter
        with SettledCounter() as counter:
            learner.total(torch.ones(3))
        return counter.unwaited

    return {"unwaited": run_on_ranks(rank, 2)}
"""
FIRST = "import torch\nimport torch.distributed as dist\n\n\ndef total(tensor):\n"


class Files(NamedTuple):
    """The files of a lab that a client of probes reads."""

    probes: Path
    checks: Path


def ask(
    client: LocalProbeClient,
    folder: Path,
    body: str,
    name: str = "exercises.py",
    probes: Mapping[str, str] = {"total": "", "again": ""},
) -> dict[str, Reply]:
    """Returns the replies of probes, each with the probe that goes before it, to a file whose `total` has this body."""
    (folder / "probes.py").write_text(PROBES)
    file = folder / name
    file.write_text(FIRST + body)
    client.forget(file)
    (folder / "checks.py").write_text("EXERCISES = ()")
    lab: Any = Files(folder / "probes.py", folder / "checks.py")
    checks = [Check(name, "", 1, name, lambda *_: None, after=after) for name, after in probes.items()]
    exercise = Exercise("total", ("total",), 1, "", "", (), tuple(checks))
    return {check.name: client.ask(lab, file, exercise, check, 5) for check in checks}


def test_all_ranks_get_the_same_sum(client: LocalProbeClient, tmp_path: Path) -> None:
    for reply in ask(client, tmp_path, "    dist.all_reduce(tensor)").values():
        assert reply.status == "answered"
        totals = reply.answers["totals"]
        assert (totals == totals[0]).all()
        assert totals.sum() > 0


def test_a_stub_on_ranks_is_reported_as_a_stub(client: LocalProbeClient, tmp_path: Path) -> None:
    reply = ask(client, tmp_path, "    raise NotImplementedError('total: rankzero hint 07 total')")["total"]
    assert (reply.status, reply.text) == ("todo", "total: rankzero hint 07 total")


FAILURES = {
    "raises": ("1 / 0", "dist.barrier()", "error", "ZeroDivisionError"),
    "exits": ("import os; os._exit(0)", "dist.barrier()", "error", "ended with exit code 0"),
    "leaves": ("return", "dist.barrier()", "error", "waited for rank 1, which made no matching call"),
    "differs": (
        "dist.all_reduce(tensor[:2])",
        "dist.all_reduce(tensor)",
        "error",
        "rank 1 called allreduce of Double[2]",
    ),
    "hangs": ("while True: pass", "dist.barrier()", "timeout", "which never enters it"),
}


# A hang takes its limit, twice. Two hanging files are compared in the tests of Lab 07's known-wrong solutions, too.
@pytest.mark.parametrize(
    "failure", [pytest.param(name, marks=pytest.mark.prove if name == "hangs" else ()) for name in FAILURES]
)
def test_a_failure_names_the_rank_and_the_line(client: LocalProbeClient, tmp_path: Path, failure: str) -> None:
    of_rank_1, of_others, status, words = FAILURES[failure]
    body = f"    if dist.get_rank() == 1:\n        {of_rank_1}\n    else:\n        {of_others}\n"
    replies = ask(client, tmp_path, body)
    assert replies["total"].status == status
    assert words in replies["total"].text
    assert "exercises.py, line" in replies["total"].text
    assert "rank 1" in replies["total"].text
    if status == "timeout":
        assert replies["again"].status == "skipped"
    other = ask(client, tmp_path, "    # another file, other lines\n\n" + body, name="another.py")["total"]
    assert same_answers(replies["total"], other)


def test_a_failure_in_another_function_names_the_line_that_led_to_it(client: LocalProbeClient, tmp_path: Path) -> None:
    body = "    def inside():\n        halve(tensor)\n    inside()\n\n\ndef halve(tensor):\n    return tensor.half_of\n"
    reply = ask(client, tmp_path, body)["total"]
    assert "exercises.py, line 12, in halve, called from line 7, in total)" in reply.text
    assert reply.text.splitlines()[1:] == ["    return tensor.half_of"]


def test_a_changed_argument_is_noted_on_ranks(client: LocalProbeClient, tmp_path: Path) -> None:
    assert ask(client, tmp_path, "    return tensor.zero_()")["total"].notes == {"total tensor changed"}
    assert ask(client, tmp_path, "    return tensor.clone().zero_()")["total"].notes == frozenset()


def test_a_probe_gets_the_answers_of_the_probe_before_it_and_nothing_else(
    client: LocalProbeClient, tmp_path: Path
) -> None:
    body = "    pass\n\n\nkept = []\n\n\ndef begin(seed):\n    kept.append(seed)\n    return b'five'\n"
    reply = ask(client, tmp_path, body, probes={"goes_on": "begins"})["goes_on"]
    assert reply.answers == {"sees": [], "bytes": "five", "begun": [5]}
    failing = body.replace("return b'five'", "return 1 / 0")
    reply = ask(client, tmp_path, failing, probes={"goes_on": "begins"})["goes_on"]
    assert (reply.status, "ZeroDivisionError" in reply.text) == ("error", True)


@pytest.mark.parametrize(
    ("way", "unwaited"),
    [
        ("work.wait()", 0),
        ("work.is_completed()", 1),
        ("while not work.is_completed(): pass", 0),
        ("work.get_future()", 1),
        ("work.get_future().done()", 1),
        ("work.get_future().wait()", 0),
        ("work.get_future().then(lambda future: future.value()).wait()", 0),
        ("torch.futures.wait_all([work.get_future()])", 0),
    ],
)
def test_one_question_is_no_wait(client: LocalProbeClient, tmp_path: Path, way: str, unwaited: int) -> None:
    body = f"    work = dist.all_reduce(tensor, async_op=True)\n    {way}"
    reply = ask(client, tmp_path, body, probes={"waits": ""})["waits"]
    assert reply.answers.get("unwaited") == [unwaited] * 2, reply.text


def receive_from_each_other() -> None:
    dist.recv(torch.ones(1), 1 - dist.get_rank())


def compute_while_the_other_waits() -> float:
    number = torch.ones(1)
    if dist.get_rank() == 0:
        matrix = torch.ones(64, 64, dtype=torch.float64)
        begin = time.process_time()
        while time.process_time() - begin < 1.5:  # far longer than what counts as idle
            matrix @ matrix
        dist.send(number, 1)
    else:
        dist.recv(number, 0)
    return float(number)


def test_ranks_that_wait_for_each_other_are_stuck_long_before_their_limit() -> None:
    with pytest.raises(StuckRanksError, match="the ranks wait for each other forever: every rank waits in recv"):
        run_on_ranks(receive_from_each_other, 2, seconds=1e6, debug=False)  # the limit would never come


def test_a_rank_that_waits_for_one_that_computes_is_not_stuck() -> None:
    assert run_on_ranks(compute_while_the_other_waits, 2, seconds=1e6, debug=False) == [1.0, 1.0]


def test_the_store_of_the_group_sends_no_numbers(client: LocalProbeClient, tmp_path: Path) -> None:
    reply = ask(client, tmp_path, "    dist.distributed_c10d._get_default_store().set('a', str(tensor))")["total"]
    assert reply.status == "error"
    assert "the group's store is not for data" in reply.text
