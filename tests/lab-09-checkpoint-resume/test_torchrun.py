"""Starter of Lab 09 under torchrun: a rank that is killed, a node that dies, a node that returns with fewer ranks."""

import itertools
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from agents import TORCHRUN, Cluster, eventually, wait_for_end
from starters import TINY, Starter, losses
from warm_process import cold_starts

from rankzero.learn.distributed.sharded_checkpoint import finished_folders, read_folder

LAB09 = Starter("09")
PATIENCE = 600.0  # seconds for several new Pythons at a time on a busy machine
LAST_CALL = 20  # seconds
pytestmark = [pytest.mark.prove, pytest.mark.timeout(3000)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    nodes = Cluster(tmp_path)
    yield nodes
    nodes.close()


def undisturbed(folder: Path, *arguments: str) -> list[tuple[int, float]]:
    """Returns the losses of a run of two ranks that nothing disturbs."""
    assert LAB09.module.main([*TINY, *arguments, "--folder", str(folder)]) == 0
    return losses(folder)


def events(folder: Path) -> list[dict[str, object]]:
    """Returns the whole lines of a run's log, which may be written to at this moment."""
    log = folder / "log.jsonl"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in lines]


def worlds(folder: Path) -> list[int]:
    """Returns the number of ranks of each start of a run."""
    return [int(str(event["ranks"])) for event in events(folder) if event["event"] == "run"]


def newest_step(folder: Path) -> int:
    """Returns the step of the newest finished checkpoint of a run; 0 without one."""
    finished = finished_folders(folder)
    return int(finished[0].name.removeprefix("step-")) if finished else 0


def saves_with(ranks: int, folder: Path) -> bool:
    """Returns whether the newest start of a run has so many ranks and has finished a checkpoint."""
    log = events(folder)
    starts = [place for place, event in enumerate(log) if event["event"] == "run"]
    if not starts or log[starts[-1]]["ranks"] != ranks:
        return False
    begun = [int(str(event["step"])) for event in log[starts[-1] :] if event["event"] == "save"]
    return bool(begun) and newest_step(folder) >= begun[0]


def rank_processes(folder: Path) -> list[psutil.Process]:
    """Returns the processes that train in `folder`, as torchrun has started them."""
    ranks = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if str(folder) in words and "torch.distributed.run" not in words:
            ranks.append(process)
    return ranks


def start_node(
    cluster: Cluster, ranks: int, *arguments: str, nnodes: str = "1", host: bool = True
) -> "subprocess.Popen[str]":
    """Starts torchrun with so many ranks of the starter, as one node of a job; `host`: its agent has the store."""
    # After `last_call_timeout` a world begins without the nodes that may still come.
    options = [f"--nnodes={nnodes}", f"--nproc-per-node={ranks}", "--max-restarts=5", "--rdzv-backend=c10d"]
    options += ["--rdzv-id=job", f"--rdzv-endpoint=localhost:{cluster.port}"]
    options += [f"--rdzv-conf=is_host={int(host)},read_timeout=600,last_call_timeout={LAST_CALL}"]
    # Without the first no node can join a running job of torch 2.13; the second is the time for a save after SIGTERM.
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}
    command = [*TORCHRUN, *options, str(LAB09.lab.starter), *arguments]
    with cold_starts():  # an agent inspects its stack at each look at the rendezvous: seconds in a warm process
        return cluster.run(command, cwd=cluster.folder, OMP_NUM_THREADS="1", **variables)


def test_torchrun_restarts_the_ranks_and_the_run_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    common = [*TINY, "--dropout", "0", "--eval-every", "10"]
    expected = undisturbed(tmp_path / "whole", *common, "--steps", "100")
    folder = tmp_path / "run"
    node = start_node(cluster, 2, *common, "--steps", "100", "--folder", str(folder))
    victim = eventually(lambda: rank_processes(folder)[-1:], "a rank", PATIENCE)[0]
    eventually(lambda: newest_step(folder), "a checkpoint", PATIENCE)
    victim.kill()
    code, output = wait_for_end(node, PATIENCE)
    assert code == 0, output
    assert losses(folder) == expected
    assert worlds(folder) in ([2, 2], [2, 2, 2]), "it was started again"
    # As a machine with fewer devices would: one rank, more steps.
    code, output = wait_for_end(start_node(cluster, 1, *common, "--steps", "110", "--folder", str(folder)), PATIENCE)
    assert code == 0, output
    assert [step for step, _ in losses(folder)] == list(range(1, 111))
    assert worlds(folder)[-2:] == [2, 1]


def test_a_node_dies_and_returns_with_fewer_ranks_while_torchrun_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # 12 sequences divide over 4, 2 and 3 ranks; at this rate the order of sums moves no loss by more than rounding.
    common = [*TINY, "--batch-size", "12", "--dropout", "0", "--lr", "1e-5", "--eval-every", "10", "--keep", "2"]
    arguments = [*common, "--steps", "1000000", "--folder", str(folder)]
    survivor = start_node(cluster, 2, *arguments, nnodes="1:2")
    second = start_node(cluster, 2, *arguments, nnodes="1:2", host=False)
    eventually(lambda: saves_with(4, folder), "a checkpoint of four ranks", PATIENCE)
    complete = newest_step(folder)
    for process in [*psutil.Process(second.pid).children(recursive=True), psutil.Process(second.pid)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()  # all of the node's processes, as in a power failure
    eventually(lambda: saves_with(2, folder), "a checkpoint of the node that is left", PATIENCE)
    third = start_node(cluster, 1, *arguments, nnodes="1:2", host=False)
    eventually(lambda: saves_with(3, folder), "a checkpoint of three ranks", PATIENCE)
    for node in (third, survivor):
        node.terminate()
    outputs = [wait_for_end(node, PATIENCE)[1] for node in (third, survivor)]
    last = newest_step(folder)
    assert read_folder(folder, settings=LAB09.module.LAB_SETTINGS)["step"] == last > complete
    assert f"Stopped by SIGTERM after step {last}, which is saved" in "".join(outputs)
    assert [ranks for ranks, _ in itertools.groupby(worlds(folder))][-3:] == [4, 2, 3]
    expected = undisturbed(tmp_path / "whole", *common, "--steps", str(last))
    resumed = losses(folder)
    assert [step for step, _ in resumed] == list(range(1, last + 1)), "each step is in the log once"
    assert [loss for _, loss in resumed] == pytest.approx([loss for _, loss in expected], abs=1e-4)
