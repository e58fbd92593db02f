"""Claims of handbook/several-nodes.md: torchrun's agents, each in the place of a node, on this machine."""

import functools
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousTimeout

from rankzero.claims.claim import claim
from rankzero.learn.distributed.world import empty_main_module, process_context

GROWS = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # what lets a node join later, with torch 2.13

# A rank: takes 10 steps and writes each down; what else it does, its command line says. It needs no torch.
SCRIPT = """
import json, os, pathlib, sys, time
folder, how = pathlib.Path(sys.argv[1]), sys.argv[2:]
rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
me = {name: os.environ.get(name) for name in os.environ if name.startswith(("RANK", "WORLD", "MASTER", "GROUP", "OMP"))}
me |= {"RESTART": restart, "agent": os.getppid(), "pid": os.getpid()}
(folder / f".{os.getpid()}").write_text(json.dumps(me))
(folder / f".{os.getpid()}").rename(folder / f"rank-{rank}-{os.getpid()}.json")
saved = folder / "saved"
if "fail" in how and rank == "1" or "exit 3" in how:
    while len(list(folder.glob("rank-*.json"))) < int(os.environ["WORLD_SIZE"]): time.sleep(0.01)
    if restart == "0": sys.exit(3)
for step in range(int(saved.read_text()) if "resume" in how and saved.exists() else 0, 10):
    if "fail at 6" in how and step == 6 and restart == "0": sys.exit(3)
    with (folder / "steps").open("a") as steps: steps.write("x")
    saved.write_text(str(step + 1))
while "wait" in how or "retried" in how and len(list(folder.glob("rank-1-*.json"))) < 2: time.sleep(0.01)
"""


def _torchrun(arguments: list[str], environment: dict[str, str]) -> None:
    """Runs torchrun's command in a process that has torch loaded already."""
    from torch.distributed.run import main

    os.setpgid(0, 0)
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    os.environ.clear()
    os.environ.update(environment)
    main(arguments)


class Nodes:
    """Agents that share a folder and an endpoint."""

    def __init__(self, folder: str, **environment: str) -> None:
        self.folder = Path(folder)
        self.environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        self.environment |= environment
        self.agents: list[BaseProcess] = []
        (self.folder / "script.py").write_text(SCRIPT)
        with socket.socket() as listener:
            listener.bind(("localhost", 0))
            self.port = listener.getsockname()[1]

    def start(self, *how: str, nnodes: str = "2", ranks: int = 1) -> BaseProcess:
        """Starts an agent; what begins with `--` is for torchrun, the rest for the script."""
        options = [option for option in how if option.startswith("--")]
        arguments = [
            f"--nnodes={nnodes}", f"--nproc-per-node={ranks}", "--rdzv-backend=c10d", "--rdzv-id=claims",
            f"--rdzv-endpoint=localhost:{self.port}", *options, str(self.folder / "script.py"), str(self.folder),
            *(option for option in how if not option.startswith("--")),
        ]  # fmt: skip
        agent = process_context("forkserver").Process(target=_torchrun, args=(arguments, self.environment))
        with empty_main_module():
            agent.start()
        self.agents.append(agent)
        return agent

    def ranks(self, count: int = 0, *, patience: float = 60.0) -> list[dict[str, Any]]:
        """Returns the files that the ranks have written, by rank; waits until there are `count`."""
        until = time.monotonic() + patience
        while len(list(self.folder.glob("rank-*.json"))) < count and time.monotonic() < until:
            time.sleep(0.01)
        return [json.loads(file.read_text()) for file in sorted(self.folder.glob("rank-*.json"))]

    def listens(self) -> None:
        """Waits until the first agent hosts the store."""
        for _ in range(3000):
            with socket.socket() as client:
                if client.connect_ex(("localhost", self.port)) == 0:
                    return
            time.sleep(0.01)

    def codes(self) -> list[int]:
        """The agents' exit codes, when all have ended."""
        for agent in self.agents:
            agent.join(60)
        return [agent.exitcode or 0 for agent in self.agents]

    def end(self) -> None:
        """Ends what is left of agents and ranks."""
        for group in [*(agent.pid for agent in self.agents), *(rank["pid"] for rank in self.ranks())]:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for agent in self.agents:
            agent.join()


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ----------------------------------------------------------------------------------------------------- the experiments
def _meeting(nodes: Nodes) -> dict[str, Any]:
    nodes.start("--local-addr=localhost", ranks=2)  # the first, and the one with the store
    nodes.listens()
    nodes.start("--local-addr=127.0.0.1", ranks=2)
    nodes.codes()
    return {"ranks": nodes.ranks(), "first": nodes.agents[0].pid, "port": str(nodes.port)}


def _restart(nodes: Nodes) -> dict[str, Any]:
    for _ in range(2):
        nodes.start("--max-restarts=1", "fail", "retried")
    return {"codes": nodes.codes(), "ranks": nodes.ranks()}


def _failure(nodes: Nodes) -> dict[str, Any]:
    nodes.start("exit 3", nnodes="1")
    return {"codes": nodes.codes()}


def _signal(number: signal.Signals, nodes: Nodes) -> int:
    agent = nodes.start("wait", nnodes="1")
    (rank,) = nodes.ranks(1)
    os.kill(agent.pid or 0, number)
    agent.join(60)
    return int(_alive(rank["pid"]))


def _growth(nodes: Nodes) -> int:
    nodes.start("--rdzv-conf=last_call_timeout=1,read_timeout=2", "wait", nnodes="1:2")
    nodes.ranks(1)
    late = nodes.start("--rdzv-conf=last_call_timeout=1,read_timeout=2", "wait", nnodes="1:2")
    while late.is_alive() and len(nodes.ranks()) < 3:  # one alone, then two
        time.sleep(0.01)
    return max(int(rank["WORLD_SIZE"]) for rank in nodes.ranks())


def _steps(how: str, nodes: Nodes) -> int:
    nodes.start("--max-restarts=1", "fail at 6", how, nnodes="1")
    nodes.codes()
    return len((nodes.folder / "steps").read_text())


@functools.cache
def experiments() -> dict[str, Any]:
    """All of them at once: they mostly wait."""
    todo: dict[str, tuple[Callable[[Nodes], Any], dict[str, str]]] = {
        "meeting": (_meeting, {}),
        "restart": (_restart, {}),
        "failure": (_failure, {}),
        "shared": (_growth, {GROWS: "0"}),
        "own": (_growth, {GROWS: "1"}),
        "again": (functools.partial(_steps, ""), {}),
        "resumed": (functools.partial(_steps, "resume"), {}),
    }
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        todo[number.name] = functools.partial(_signal, number), {}

    def do(name: str) -> Any:
        experiment, environment = todo[name]
        with tempfile.TemporaryDirectory() as folder:
            nodes = Nodes(folder, **environment)
            try:
                return experiment(nodes)
            finally:
                nodes.end()

    with ThreadPoolExecutor(5) as pool:
        return dict(zip(todo, pool.map(do, todo), strict=True))


# ---------------------------------------------------------------------------------------------------------- the claims
@claim(
    "two-agents-one-world",
    "Two agents with two ranks each make one world of four, and a node's ranks follow each other.",
    expected={"node 0, lowest": 0, "node 0, highest": 1, "node 1, lowest": 2, "node 1, highest": 3},
    unit="rank",
)
def two_agents() -> Mapping[str, float]:
    """Starts two agents of torchrun on this machine and reads RANK and GROUP_RANK in each of their ranks."""
    by_node: dict[str, list[int]] = {"0": [], "1": []}
    for rank in experiments()["meeting"]["ranks"]:
        by_node[rank["GROUP_RANK"]].append(int(rank["RANK"]))
    return {
        f"node {node}, {name}": which(ranks)
        for node, ranks in by_node.items()
        for name, which in (("lowest", min), ("highest", max))
    }


@claim(
    "node-ranks-follow-names",
    "Node ranks follow the sorted names of the nodes: the node that came first and hosts the store need not be node 0.",
    expected={"first to come, named localhost": 1, "second, named 127.0.0.1": 0},
    unit="node rank",
)
def node_ranks() -> Mapping[str, float]:
    """Starts the agent that hosts the store, waits until it listens, starts another, and reads GROUP_RANK."""
    meeting = experiments()["meeting"]
    rank_of = {rank["agent"] == meeting["first"]: int(rank["GROUP_RANK"]) for rank in meeting["ranks"]}
    return {"first to come, named localhost": rank_of[True], "second, named 127.0.0.1": rank_of[False]}


@claim(
    "ranks-meet-at-another-port",
    "The ranks meet at another port than the agents: each world takes a free one.",
    expected=True,
    unit="",
)
def another_port() -> bool:
    """Compares MASTER_PORT in four ranks of two agents with the port of their rendezvous endpoint."""
    meeting = experiments()["meeting"]
    ports = {rank["MASTER_PORT"] for rank in meeting["ranks"]}
    return len(ports) == 1 and meeting["port"] not in ports


@claim(
    "torchrun-sets-one-thread",
    "Where OMP_NUM_THREADS is not set and a node has several ranks, torchrun gives each rank one thread.",
    expected=1,
    unit="threads",
)
def one_thread() -> float:
    """Starts two agents with two ranks each, without the variable, and reads it in the ranks."""
    (threads,) = {int(rank["OMP_NUM_THREADS"]) for rank in experiments()["meeting"]["ranks"]}
    return threads


@claim(
    "rendezvous-time-limits",
    "Unless told otherwise, agents wait {expected[join]} s for the smallest number of nodes, then "
    "{expected[last call]} s for more.",
    expected={"join": 600, "last call": 30},
    unit="s",
)
def time_limits() -> Mapping[str, float]:
    """Makes the rendezvous' limits without naming any, and reads them."""
    limits = RendezvousTimeout()
    return {"join": limits.join.total_seconds(), "last call": limits.last_call.total_seconds()}


@claim(
    "torchrun-exit-code-is-one",
    "When a rank fails, torchrun's exit code is {expected}, whatever the rank's was.",
    expected=1,
    unit="",
)
def exit_code() -> float:
    """Lets a rank end with exit code 3 and takes its agent's."""
    (code,) = experiments()["failure"]["codes"]
    return float(code)


@claim(
    "one-failure-restarts-every-rank",
    "With --max-restarts 1, one failed rank of two means four processes in all: every rank starts again.",
    expected=4,
    unit="processes",
)
def restart_all() -> float:
    """Lets rank 1 of two agents fail once, and counts the processes that were started as ranks."""
    return len(experiments()["restart"]["ranks"])


@claim(
    "restart-counts-are-an-agents-own",
    "A restart counts only at the agent whose rank failed: the ranks of one world can see different restart counts.",
    expected={"where the rank failed": 1, "elsewhere": 0},
    unit="restarts",
)
def restart_counts() -> Mapping[str, float]:
    """Lets rank 1 of two agents fail once, and reads TORCHELASTIC_RESTART_COUNT in the ranks that were started last."""
    counts: dict[int, int] = {}
    for rank in experiments()["restart"]["ranks"]:
        counts[rank["agent"]] = max(counts.get(rank["agent"], 0), int(rank["RESTART"]))
    return {"where the rank failed": max(counts.values()), "elsewhere": min(counts.values())}


@claim(
    "restart-without-resume-repeats",
    "A script of 10 steps whose rank fails after 6 takes {expected[starts again]} steps if it does not resume, and 10 "
    "if it does.",
    expected={"starts again": 16, "resumes": 10},
    unit="steps",
)
def repeated_steps() -> Mapping[str, float]:
    """Runs both under torchrun with one restart, each step noted in a file, and counts the notes."""
    return {"starts again": experiments()["again"], "resumes": experiments()["resumed"]}


@claim(
    "usr1-orphans-the-ranks",
    "SIGINT and SIGTERM to an agent end its ranks; SIGUSR1 ends the agent and leaves its rank running.",
    expected={"SIGINT": 0, "SIGTERM": 0, "SIGUSR1": 1},
    unit="ranks alive",
)
def orphans() -> Mapping[str, float]:
    """Starts an agent with one rank, sends the agent the signal, waits for its end and looks for the rank's process."""
    return {name: experiments()[name] for name in ("SIGINT", "SIGTERM", "SIGUSR1")}


@claim(
    "elastic-growth-needs-its-own-store",
    "With torch 2.13 a node that joins a running elastic job gets in only if TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1.",
    expected={"as delivered": 1, "with the variable": 2},
    unit="ranks in the largest world",
)
def growth() -> Mapping[str, float]:
    """Starts an agent with --nnodes 1:2, and when its rank runs, a second one; waits until that is in or gives up."""
    return {"as delivered": experiments()["shared"], "with the variable": experiments()["own"]}
