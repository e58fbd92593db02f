"""Worlds of ranks: return values, counts of collectives, and clean reports of a rank's failure."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from agents import free_port
from torch import Tensor
from warm_process import cold_starts
from worlds import SignClock, be_patient, ranks_alive

from rankzero.errors import UserError
from rankzero.learn.distributed import world
from rankzero.learn.distributed.collectives import OPERATIONS, SILENT, CollectiveCounter
from rankzero.learn.distributed.rank import note_step
from rankzero.learn.distributed.tcp_bytes import tcp_bytes_sent
from rankzero.learn.distributed.world import WorldError, WorldTimeoutError, run_world
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.stop_request import finish_step_on_interrupt

ELEMENTS = 300_000
LONG_S = 300.0  # limit of a process that ends by itself


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


def sum_of_ranks(offset: int) -> tuple[int, Tensor]:
    number = torch.tensor([dist.get_rank() + offset])
    dist.all_reduce(number)
    return dist.get_rank(), number


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_rank_returns_its_value(ranks: int) -> None:
    assert [rank for rank, _ in run_world(sum_of_ranks, ranks, 10)] == list(range(ranks))
    assert all(int(total) == sum(range(10, 10 + ranks)) for _, total in run_world(sum_of_ranks, ranks, 10))


def test_a_rank_that_ends_at_once_waits_until_all_ranks_have_connected() -> None:
    for _ in range(8):  # without the barrier after joining, one in twenty worlds of four ranks failed
        assert run_world(dist.get_rank, 4) == [0, 1, 2, 3]


def test_a_lambda_can_run_on_ranks() -> None:
    times = 3
    assert run_world(lambda: dist.get_rank() * times, 2) == [0, 3]


def test_ranks_have_imported_the_compiler_before_their_first_step() -> None:
    # AdamW and fully_shard import the compiler in their first step: 200 modules, 1.5 seconds on every rank.
    assert run_world(lambda: "torch._dynamo" in sys.modules, 1) == [True]


def test_prints_are_shown_with_the_rank(capsys: pytest.CaptureFixture[str]) -> None:
    run_world(lambda: print(f"line of {dist.get_rank()}"), 2)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[rank 1] line of 1", "line of 0"]


def test_rank_0_says_at_once_on_a_terminal_that_ctrl_c_was_received(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def receives_ctrl_c() -> bool:
        with finish_step_on_interrupt("Stopping within 10 steps") as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            return bool(interrupted)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run_world(receives_ctrl_c, 2) == [True, True]
    assert capsys.readouterr().out.count("Stopping within 10 steps. Ctrl-C again stops at once.\n") == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert run_world(receives_ctrl_c, 2) == [True, True]
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------------------------------------ failures
def raises() -> None:
    raise ValueError("no such thing")


def waits(sign: str) -> None:
    Path(sign).touch()
    time.sleep(10**6)


FAILURES: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (raises, r"rank 1 of 3 at step 7: ValueError: no such thing \(test_world.py, line \d+, in raises\)"),
    "exits": (lambda: os._exit(3), "rank 1 of 3 at step 7 ended with exit code 3"),
    "exits as if all were well": (lambda: os._exit(0), "rank 1 of 3 at step 7 ended with exit code 0"),
    "is killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "rank 1 of 3 at step 7 was killed by SIGKILL"),
    "crashes": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "rank 1 of 3 at step 7 was killed by SIGSEGV"),
    "ends early": (lambda: None, "waited for rank 1, which made no matching call"),
    "calls another collective": (lambda: dist.broadcast(torch.ones(4), 0), r"rank 1 called broadcast of Float\[4\]"),
    "sends another shape": (lambda: dist.all_reduce(torch.ones(5)), r"rank 1 called allreduce of Float\[5\]"),
    "sends another type": (lambda: dist.all_reduce(torch.ones(4).double()), r"rank 1 called allreduce of Double\[4\]"),
}


def one_rank_fails(fail: Callable[[], Any]) -> None:
    note_step(7)
    if dist.get_rank() == 1:
        fail()
    else:
        dist.all_reduce(torch.ones(4))


@pytest.mark.parametrize("failure", FAILURES)
def test_the_report_of_a_failure_names_rank_step_and_cause_and_no_process_stays(failure: str) -> None:
    fail, message = FAILURES[failure]
    with pytest.raises(WorldError, match=message) as caught:
        run_world(one_rank_fails, 3, fail, seconds=None, debug="calls" in failure or "sends" in failure)
    assert not isinstance(caught.value, WorldTimeoutError)
    assert "\n  rank 0, step 7: " in str(caught.value) or "rank 0 of 3" in str(caught.value)
    assert ranks_alive() == []


def test_the_report_of_a_world_that_is_late_names_the_line_of_the_rank_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_rank_hangs(sign: str) -> None:
        note_step(7)
        dist.barrier()  # every rank has noted its step
        waits(sign) if dist.get_rank() == 1 else dist.all_reduce(torch.ones(4))

    monkeypatch.setattr(world, "time", SignClock(tmp_path / "hangs"))
    message = "no answer after 3 s: rank 1 of 3 at step 7 was at test_world.py, line .*, in waits"
    with pytest.raises(WorldTimeoutError, match=message) as caught:
        run_world(one_rank_hangs, 3, str(tmp_path / "hangs"), seconds=3, collective_seconds=600)
    assert "\n  rank 0, step 7: " in str(caught.value)
    assert ranks_alive() == []


def test_an_error_whose_text_mentions_connections_is_reported_as_the_cause() -> None:
    def fail() -> None:
        if dist.get_rank() == 1:
            raise ValueError("no connection to the data store: timed out")
        dist.all_reduce(torch.ones(4))

    with pytest.raises(WorldError, match=r"^rank 1 of 2: ValueError: no connection to the data store"):
        run_world(fail, 2)


def test_different_shapes_are_reported_without_debug_too() -> None:
    with pytest.raises(WorldError, match="do all call the same collective, with the same shape"):
        run_world(lambda: dist.all_reduce(torch.ones(10 + dist.get_rank())), 2)


def test_a_user_error_on_a_rank_is_raised_as_a_user_error() -> None:
    def refuse() -> None:
        raise UserError(f"3 rows do not divide by {dist.get_world_size()}.")

    with pytest.raises(UserError, match="3 rows do not divide by 2"):
        run_world(refuse, 2)
    with pytest.raises(UserError, match="0 ranks: use 1 to"):
        run_world(sum_of_ranks, 0, 1)
    with pytest.raises(UserError, match="2 ranks need 2 CUDA devices, and this machine has"):
        run_world(sum_of_ranks, 2 if not torch.cuda.is_available() else 64, 1, device="cuda")


SCRIPT = """
import sys, time
import torch, torch.distributed as dist
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.distributed.world import run_world
def train():
    with finish_step_on_interrupt() as interrupted:
        for step in range(10**6):
            stop = torch.tensor(float(bool(interrupted)))
            dist.all_reduce(stop)
            if step == 3 and dist.get_rank() == 0:
                print("running", flush=True)
            if stop:
                return step > 2
print(run_world(train, 2, seconds=None))
"""


def start_script(tmp_path: Path, start: AbstractContextManager[None]) -> subprocess.Popen[str]:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)  # works without `if __name__ == "__main__"`
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with start:
        process = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout
    assert process.stdout.readline() == "running\n"
    return process


@pytest.mark.real
def test_ctrl_c_reaches_every_rank_once(tmp_path: Path) -> None:
    process = start_script(tmp_path, cold_starts())
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LONG_S)
    assert out == "[True, True]\n"


@pytest.mark.real
def test_ranks_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    process = start_script(tmp_path, nullcontext())
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 3
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=LONG_S)
    assert not alive
    assert list(tmp_path.glob("rankzero-world-*")) == []


# ------------------------------------------------------------------------------------------------------------ counting
def calls_of_all_collectives() -> list[tuple[str, int, int]]:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    x = torch.ones(ranks, 3)
    pair = dist.new_group([0, 1])
    with CollectiveCounter() as counter:
        dist.all_reduce(x)
        dist.broadcast(x.half(), 0)
        dist.all_gather_into_tensor(torch.empty(ranks * ranks, 3), x)
        dist.all_gather([torch.empty(ranks, 3) for _ in range(ranks)], x)
        dist.reduce_scatter_tensor(torch.empty(1, 3), x)
        dist.barrier()
        if rank < 2:
            dist.all_reduce(x.double(), group=pair)
        _ = dist.send(x, (rank + 1) % ranks) if rank == 0 else dist.recv(x, 0) if rank == 1 else None
    return [(record.collective, record.bytes, record.ranks) for record in counter.records]


def test_calls_are_counted_with_the_bytes_of_the_whole_message() -> None:
    first, second, third = run_world(calls_of_all_collectives, 3)
    common = [
        ("all_reduce", 36, 3),
        ("broadcast", 18, 3),
        ("all_gather", 108, 3),
        ("all_gather", 108, 3),
        ("reduce_scatter", 36, 3),
        ("barrier", 0, 3),
    ]
    assert first == [*common, ("all_reduce", 72, 2), ("send", 36, 3)]
    assert second == [*common, ("all_reduce", 72, 2), ("recv", 36, 3)]
    assert third == common


def test_every_operation_of_a_process_group_counts() -> None:
    """An operation that the table lacks counts under its own name, so no message is left out."""
    schemas = {schema.name for schema in torch._C._jit_get_all_schemas()}
    names = {name.split("::")[1] for name in schemas if name.split("::")[0] in ("c10d", "_c10d_functional")}
    assert names - OPERATIONS.keys() - SILENT == {"batch_p2p_ops"}


def calls_by_other_names() -> list[tuple[str, int]]:
    x = torch.ones(2, 3)
    with CollectiveCounter() as counter:
        dist.all_gather_coalesced([[torch.empty(2, 3)] for _ in range(2)], [x])
        torch.distributed._functional_collectives.all_reduce(x, "sum", [0, 1]).sum()
    return [(record.collective, record.bytes) for record in counter.records]


def test_calls_by_other_names_are_counted() -> None:
    assert run_world(calls_by_other_names, 2) == [[("all_gather", 48), ("all_reduce", 24)]] * 2


def counts_of_data_parallelism() -> tuple[dict[str, int], dict[str, int]]:
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    config = GPTConfig(vocab_size=96, block_size=16, n_layer=2, n_head=2, hidden_dim=32)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    sharded = GPT(config)
    for block in sharded.blocks:
        fully_shard(block)
    fully_shard(sharded)
    counts = []
    for model in (DistributedDataParallel(GPT(config)), sharded):
        with CollectiveCounter() as counter:
            model(tokens).sum().backward()
        counts.append(dict(counter.calls) | {f"{name} bytes": size for name, size in counter.bytes.items()})
    return counts[0], counts[1]


def test_calls_of_ddp_and_fsdp_are_counted() -> None:
    config = GPTConfig(vocab_size=96, block_size=16, n_layer=2, n_head=2, hidden_dim=32)
    size = 4 * sum(parameter.numel() for parameter in GPT(config).parameters())
    for replicated, sharded in run_world(counts_of_data_parallelism, 2):
        assert replicated == {"all_reduce": 1, "all_reduce bytes": size}  # one bucket before the rebuild
        assert sharded["reduce_scatter bytes"] == size
        assert sharded["all_gather"] == 5  # root and two blocks in forward, the two blocks in backward
        assert "all_reduce" not in sharded


def sent_by_all_reduce() -> int:
    x = torch.ones(ELEMENTS)
    dist.all_reduce(x)  # opens the connections
    dist.barrier()
    before = tcp_bytes_sent()
    dist.all_reduce(x)
    dist.barrier()
    return tcp_bytes_sent() - before


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts bytes on Linux only")
@pytest.mark.parametrize("ranks", [2, 4])
def test_gloo_sends_the_bytes_of_a_ring(ranks: int) -> None:
    for sent in run_world(sent_by_all_reduce, ranks):
        assert 0 <= sent / (4 * ELEMENTS) - 2 * (ranks - 1) / ranks < 0.02


LATE_RANK = """
import sys
import torch
import torch.distributed as dist
from rankzero.learn.distributed import rank
rank.COLLECTIVE_SECONDS["gloo"] = 0.001
print("imported", flush=True)
rank.join()
if dist.get_rank() == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        print(error)
sys.stdin.read()
"""


@pytest.mark.real
def test_ranks_of_torchrun_wait_for_a_late_rank_longer_than_for_a_collective() -> None:
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}

    def start(rank: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", LATE_RANK],
            env=os.environ | world | {"RANK": rank, "LOCAL_RANK": rank},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with start("0") as first:
        assert first.stdout
        assert first.stdout.readline() == "imported\n"
        with start("1") as late:  # a new process takes more than a millisecond
            out, err = first.communicate()
            _, late_err = late.communicate()
    assert (first.returncode, late.returncode) == (0, 0), err + late_err
    assert "Timed out waiting 1ms" in out
