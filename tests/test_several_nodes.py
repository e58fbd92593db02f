"""Several nodes: torchrun's agents on this machine meet, fail and restart as handbook/several-nodes.md says.

The files in launch/ run here too: imitations of Slurm's commands and of Kubernetes' variables start the nodes.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import psutil
import pytest
import yaml
from agents import COLLECTIVES, REPORT, TORCHRUN, Cluster, eventually, free_port, wait_for_end
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from rankzero.curriculum import ROOT


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    nodes = Cluster(tmp_path)
    yield nodes
    nodes.close()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0


# -------------------------------------------------------------------------------------------------------------- agents
@pytest.mark.real
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.prove), 2])
def test_two_agents_make_one_world(cluster: Cluster, ranks: int) -> None:
    nodes = [cluster.agent(ranks=ranks) for _ in range(2)]
    assert [wait_for_end(node)[0] for node in nodes] == [0, 0]
    reports = cluster.reports()
    assert [int(report["RANK"]) for report in reports] == list(range(2 * ranks))
    assert [int(report["LOCAL_RANK"]) for report in reports] == 2 * list(range(ranks))
    assert [int(report["GROUP_RANK"]) for report in reports] == [0] * ranks + [1] * ranks
    assert {report["WORLD_SIZE"] for report in reports} == {str(2 * ranks)}
    assert len({report["agent"] for report in reports[:ranks]}) == 1, "a node's ranks follow each other"
    assert len({(report["MASTER_ADDR"], report["MASTER_PORT"]) for report in reports}) == 1
    assert reports[0]["MASTER_PORT"] != str(cluster.port), "the ranks use another port than the agents"


@pytest.mark.prove
def test_the_first_agent_waits_for_a_late_one(cluster: Cluster) -> None:
    first = cluster.agent()
    eventually(lambda: listens(cluster.port), "the first agent's store")
    assert cluster.reports() == []
    assert [wait_for_end(node)[0] for node in (cluster.agent(), first)] == [0, 0]


@pytest.mark.prove
def test_an_agent_may_start_before_the_agent_that_hosts_the_store(cluster: Cluster) -> None:
    early = cluster.agent("--rdzv-conf=is_host=0,read_timeout=250")
    eventually(lambda: "pt_elastic" in [p.name() for p in cluster.processes()], "an agent at work")
    assert [wait_for_end(node)[0] for node in (cluster.agent("--rdzv-conf=is_host=1"), early)] == [0, 0]


# --------------------------------------------------------------------------------------------- agents that do not meet
def wrong_endpoint(cluster: Cluster, address: str, port: int, *conf: str) -> None:
    """An agent that finds no store there names the endpoint and ends."""
    options = ",".join(["read_timeout=1", *conf])
    code, output = wait_for_end(cluster.agent(f"--rdzv-endpoint={address}:{port}", f"--rdzv-conf={options}"))
    assert code == 1
    assert f"timed out after 1000ms while trying to connect to ({address}, {port})" in output
    assert "RendezvousConnectionError" in output
    assert cluster.reports() == []


@pytest.mark.prove
@pytest.mark.real
def test_a_wrong_port_is_named(cluster: Cluster) -> None:
    wrong_endpoint(cluster, "localhost", cluster.port, "is_host=0")


@pytest.mark.prove  # it asks a name server, which may be slow to answer, or may be none
def test_a_wrong_host_is_named(cluster: Cluster) -> None:
    wrong_endpoint(cluster, "nosuchhost.invalid", 29400)


@pytest.mark.prove
def test_agents_with_different_job_ids_do_not_meet(cluster: Cluster) -> None:
    # Opened here, because an agent's store ends with the agent.
    store = TCPStore("localhost", cluster.port, is_master=True, wait_for_workers=False)
    conf = "--rdzv-conf=is_host=0,read_timeout=250,join_timeout=1"
    for node in [cluster.agent(conf, rdzv_id=name) for name in ("one", "two")]:
        code, output = wait_for_end(node)
        assert code == 1
        assert "RendezvousTimeoutError" in output
    assert cluster.reports() == []
    assert store.check(["torch.rendezvous.one", "torch.rendezvous.two"]), "both agents use the same store"


@pytest.mark.real
def test_a_port_in_use_is_named(cluster: Cluster) -> None:
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        port = other.getsockname()[1]
        code, output = wait_for_end(cluster.run([*TORCHRUN, f"--master-port={port}", "--nproc-per-node=1", "none.py"]))
    assert code == 1
    assert f"port: {port}" in output
    assert "address already in use" in output


# ------------------------------------------------------------------------------------------- killed ranks and nodes
@pytest.mark.prove
def test_a_killed_rank_ends_both_agents(cluster: Cluster) -> None:
    cluster.script.write_text(COLLECTIVES)
    nodes = {node.pid: node for node in (cluster.agent(), cluster.agent())}
    victim = cluster.wait_for(2)[1]
    kill(victim["pid"])
    outputs = {pid: wait_for_end(node) for pid, node in nodes.items()}
    assert [code for code, _ in outputs.values()] == [1, 1]
    assert "Signal 9 (SIGKILL)" in outputs[victim["agent"]][1]
    assert f"rank      : {victim['RANK']}" in outputs[victim["agent"]][1]
    assert cluster.processes() == []


@pytest.mark.prove
def test_a_killed_node_ends_the_other_node(cluster: Cluster) -> None:
    cluster.script.write_text(COLLECTIVES)
    nodes = {node.pid: node for node in (cluster.agent(), cluster.agent())}
    victim = cluster.wait_for(2)[0]
    for pid in (victim["agent"], victim["pid"]):  # all of the node's processes, as in a power failure
        kill(pid)
    del nodes[victim["agent"]]
    (survivor,) = nodes.values()
    code, output = wait_for_end(survivor)
    assert code == 1
    assert "Connection closed by peer" in output or "Connection reset by peer" in output
    assert cluster.processes() == []


# ------------------------------------------------------------------------------------------------- restarts, elastic
@pytest.mark.prove
def test_a_restart_starts_all_ranks_again_and_counts_on_the_node_that_failed(cluster: Cluster) -> None:
    nodes = [cluster.agent("--max-restarts=1", "fail-once", "until-retried") for _ in range(2)]
    assert [wait_for_end(node)[0] for node in nodes] == [0, 0]
    reports = cluster.reports()
    assert [report["RANK"] for report in reports] == ["0", "0", "1", "1"], "both ranks were started twice"
    counts = {
        agent: {r["TORCHELASTIC_RESTART_COUNT"] for r in reports if r["agent"] == agent} for agent in agents(reports)
    }
    assert sorted(counts.values(), key=len) == [{"0"}, {"0", "1"}], "a change of members is no restart"


@pytest.mark.prove
def test_an_elastic_job_starts_with_one_node_and_grows(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # otherwise the agents of torch 2.13 deadlock
    first = cluster.agent("--rdzv-conf=last_call_timeout=1", "wait", nnodes="1:2")
    (alone,) = cluster.wait_for(1)
    assert alone["WORLD_SIZE"] == "1"
    second = cluster.agent("--rdzv-conf=last_call_timeout=1", "wait", nnodes="1:2")
    cluster.wait_for(1, "SIGTERM")
    assert [report["WORLD_SIZE"] for report in cluster.wait_for(3) if report != alone] == ["2", "2"]
    for node in (second, first):
        node.terminate()
        wait_for_end(node)


def agents(reports: list[dict[str, Any]]) -> set[int]:
    return {report["agent"] for report in reports}


# ------------------------------------------------------------------------------------------------------------- signals
@pytest.mark.real
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.prove), signal.SIGTERM])
def test_an_agent_forwards_a_signal_and_waits_for_its_ranks(cluster: Cluster, number: signal.Signals) -> None:
    nodes = [cluster.agent("wait", ranks=2) for _ in range(2)]
    cluster.wait_for(4)
    for node in nodes:
        node.send_signal(number)
    assert [wait_for_end(node)[0] for node in nodes] == [1, 1], "torchrun's exit code is always 1"
    assert [report["RANK"] for report in cluster.reports(number.name)] == ["0", "1", "2", "3"]
    assert cluster.processes() == []


@pytest.mark.prove
def test_a_signal_that_torchrun_does_not_handle_kills_it_and_leaves_the_ranks(cluster: Cluster) -> None:
    node = cluster.agent("wait", nnodes="1")
    (rank,) = cluster.wait_for(1)
    node.send_signal(signal.SIGUSR1)
    node.wait()
    assert node.returncode == -signal.SIGUSR1
    assert [process.pid for process in cluster.processes()] == [rank["pid"]]
    assert cluster.reports("SIGUSR1") == []


# --------------------------------------------------------------------------------------------------------------- Slurm
SBATCH = ROOT / "launch" / "slurm" / "train.sbatch"

# Options of sbatch that the file uses, and the form of their values (https://slurm.schedmd.com/sbatch.html).
DOCUMENTED = {
    "job-name": r"[\w.-]+",
    "nodes": r"\d+(-\d+)?",
    "ntasks-per-node": r"\d+",
    "gpus-per-node": r"(\w+:)?\d+",
    "cpus-per-task": r"\d+",
    "time": r"(\d+-)?\d+:\d\d:\d\d",
    "signal": r"([RB]:)?[A-Z0-9]+(@\d+)?",
    "requeue": "",
    "open-mode": r"append|truncate",
    "dependency": r"singleton",
}

# The part of srun that the file needs: the command on each node. Like Slurm, it signals every process.
SRUN = f"""#!{sys.executable}
import os, psutil, signal, subprocess, sys
command = sys.argv[1:]
while command[0].startswith("-"):
    command.pop(0)
nodes = [
    subprocess.Popen(command, env=os.environ | {{"SLURM_NODEID": str(number), "SLURMD_NODENAME": "localhost"}})
    for number in range(int(os.environ["SLURM_JOB_NUM_NODES"]))
]
def to_all(number, frame):
    for node in nodes:
        for process in [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]:
            process.send_signal(number)
signal.signal(signal.SIGTERM, to_all)
sys.exit(max(node.wait() for node in nodes))
"""


def directives() -> dict[str, str]:
    """Returns the #SBATCH options of the file."""
    lines = SBATCH.read_text().splitlines()
    options = [line.removeprefix("#SBATCH --").partition("=") for line in lines if line.startswith("#SBATCH")]
    return {name: value for name, _, value in options}


def sbatch(cluster: Cluster, *arguments: str, gpus: int) -> "subprocess.Popen[str]":
    """Runs the file as Slurm does on the job's first node, with the nodes and tasks of the file's directives."""
    commands = cluster.folder / "bin"
    commands.mkdir(exist_ok=True)
    for name, text in {
        "srun": SRUN,
        "scontrol": '#!/bin/sh\n[ "$1 $2 $3" = "show hostnames here,there" ] && printf "localhost\\nthere\\n"\n',
        "torchrun": f'#!/bin/sh\nexec {" ".join(TORCHRUN)} "$@"\n',
    }.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    return cluster.run(
        ["bash", str(SBATCH), *arguments],
        cwd=cluster.folder,
        PATH=f"{commands}:{os.environ['PATH']}",
        SLURM_JOB_ID=str(free_port()),
        SLURM_JOB_NAME=directives()["job-name"],
        SLURM_JOB_NODELIST="here,there",
        SLURM_JOB_NUM_NODES=directives()["nodes"],
        SLURM_CPUS_PER_TASK=directives()["cpus-per-task"],
        SLURM_GPUS_ON_NODE=str(gpus),
    )


def replace_starter(cluster: Cluster, text: str = REPORT) -> None:
    """Writes a script as Lab 07's starter into a folder that replaces the repository."""
    starter = cluster.folder / "code" / "lab-07-ddp" / "train_ddp.py"
    starter.parent.mkdir(parents=True)
    starter.write_text(text.replace("sys.argv[1]", repr(str(cluster.folder))).replace("sys.argv[2:]", "sys.argv[1:]"))


def test_the_slurm_file_is_bash_and_its_directives_are_documented() -> None:
    subprocess.run(["bash", "-n", SBATCH], check=True)
    lines = SBATCH.read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") or not line for line in lines[:last]), "sbatch stops reading at the first command"
    for name, value in directives().items():
        assert re.fullmatch(DOCUMENTED[name], value), f"--{name}={value}"


def test_the_requests_of_the_slurm_file_agree_with_its_commands() -> None:
    requested, text = directives(), SBATCH.read_text()
    assert requested["ntasks-per-node"] == "1", "one agent per node; torchrun starts the ranks"
    assert int(requested["cpus-per-task"]) % int(requested["gpus-per-node"]) == 0
    assert 64 % (int(requested["nodes"]) * int(requested["gpus-per-node"])) == 0, "the batch must divide by the ranks"
    name, _, seconds = requested["signal"].partition("@")
    assert name == "TERM", "as at scancel: torchrun forwards it, and the starter finishes its step"
    (patience,) = re.findall(r"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=(\d+)", text)
    assert int(patience) < int(seconds), "torchrun must not wait for its ranks beyond the job's end"


@pytest.mark.real
def test_the_slurm_file_runs_on_two_nodes(cluster: Cluster) -> None:
    replace_starter(cluster)
    code, output = wait_for_end(sbatch(cluster, "--steps", "5", gpus=2))
    assert code == 0, output
    reports = cluster.reports()
    assert [report["RANK"] for report in reports] == ["0", "1", "2", "3"]
    assert [report["LOCAL_RANK"] for report in reports] == ["0", "1", "0", "1"]
    assert {report["OMP_NUM_THREADS"] for report in reports} == {str(int(directives()["cpus-per-task"]) // 2)}
    options = ["--batch-size", "64", "--checkpoint", "runs/rankzero.pt", "--steps", "5"]
    assert [report["argv"] for report in reports] == [options] * 4


@pytest.mark.prove
def test_the_slurm_file_resumes_from_its_checkpoint(cluster: Cluster) -> None:
    replace_starter(cluster)
    (cluster.folder / "runs").mkdir()
    (cluster.folder / "runs" / "rankzero.pt").touch()
    assert wait_for_end(sbatch(cluster, gpus=1))[0] == 0
    assert {report["argv"][-1] for report in cluster.reports()} == {"--resume"}


# ------------------------------------------------------------------------------------------ Slurm and Lab 07's starter
STARTER = ROOT / "code" / "lab-07-ddp" / "train_ddp.py"
TINY = ("--batch-size=4", "--hidden-dim=32", "--layers=1", "--heads=2", "--block-size=16", "--eval-every=100000")


@pytest.mark.prove
def test_a_slurm_job_saves_at_its_time_limit_and_the_next_job_resumes(cluster: Cluster) -> None:
    (cluster.folder / "code").symlink_to(ROOT / "code")
    job = sbatch(cluster, *TINY, "--device=cpu", "--steps=1000000", gpus=1)
    assert job.stdout
    while "sent in step 2" not in (line := job.stdout.readline()):
        assert line, "the job ended"
    (srun,) = [process for process in psutil.Process(job.pid).children() if "srun" in " ".join(process.cmdline())]
    srun.terminate()
    code, output = wait_for_end(job)
    assert code == 1
    (step,) = re.findall(r"Stopped by SIGTERM after step (\d+), which is saved", output)
    code, output = wait_for_end(sbatch(cluster, *TINY, "--device=cpu", f"--steps={int(step) + 2}", gpus=1))
    assert code == 0, output
    assert f"run     steps {int(step) + 1} to {int(step) + 2}, batch 4 = 2 x 2" in output


# ---------------------------------------------------------------------------------------------------------- Kubernetes
MANIFEST = ROOT / "launch" / "kubernetes" / "train.yaml"


def manifest() -> tuple[dict[str, Any], dict[str, Any]]:
    service, job = yaml.safe_load_all(MANIFEST.read_text())
    return service, job


def container() -> dict[str, Any]:
    (only,) = manifest()[1]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def pod(cluster: Cluster, index: int, *, gpus: int) -> "subprocess.Popen[str]":
    """Runs the container's command with the variables that Kubernetes sets; the name of pod 0 is localhost."""
    variables = {variable["name"]: variable["value"] for variable in container()["env"]}
    variables |= {"MASTER": "localhost", "PORT": str(cluster.port), "GPUS": str(gpus)}
    variables["JOB_COMPLETION_INDEX"] = str(index)
    torchrun = cluster.folder / "bin" / "torchrun"
    if not torchrun.exists():  # the other pod may be starting it
        torchrun.parent.mkdir()
        torchrun.write_text(f'#!/bin/sh\nexec {" ".join(TORCHRUN)} "$@"\n')
        torchrun.chmod(0o755)
    command = [*container()["command"], *container()["args"]]
    return cluster.run(command, cwd=cluster.folder, PATH=f"{torchrun.parent}:{os.environ['PATH']}", **variables)


@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_the_manifest_follows_the_published_schema(version: str) -> None:
    for resource in manifest():
        kubernetes_validate.validate(resource, version, strict=True)


def test_values_that_the_manifest_repeats_agree() -> None:
    service, job = manifest()
    spec, pods = job["spec"], job["spec"]["template"]["spec"]
    variables = {variable["name"]: variable["value"] for variable in container()["env"]}
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(variables["NODES"])
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pods["subdomain"] == service["metadata"]["name"]
    assert variables["MASTER"] == f"{job['metadata']['name']}-0.{pods['subdomain']}"
    assert container()["resources"]["limits"]["nvidia.com/gpu"] == int(variables["GPUS"])
    assert container()["resources"]["limits"]["cpu"] == int(variables["GPUS"]) * int(variables["OMP_NUM_THREADS"])
    assert spec["backoffLimit"] % spec["completions"] == 0, "one failure ends every pod, and each pod counts"
    assert {mount["name"] for mount in container()["volumeMounts"]} == {volume["name"] for volume in pods["volumes"]}
    assert int(variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < pods["terminationGracePeriodSeconds"]


@pytest.mark.real
def test_two_pods_make_one_world(cluster: Cluster) -> None:
    replace_starter(cluster)
    (cluster.folder / "runs").mkdir()
    nodes = [pod(cluster, index, gpus=2) for index in (1, 0)]
    for node in nodes:
        code, output = wait_for_end(node)
        assert code == 0, output
    reports = cluster.reports()
    assert [report["RANK"] for report in reports] == ["0", "1", "2", "3"]
    assert [report["argv"] for report in reports] == [["--batch-size", "64", "--checkpoint", "runs/rankzero.pt"]] * 4


@pytest.mark.real
@pytest.mark.parametrize("deleted", [pytest.param(0, marks=pytest.mark.prove), 1])
def test_process_1_of_a_deleted_pod_passes_sigterm_to_its_ranks_and_waits(cluster: Cluster, deleted: int) -> None:
    replace_starter(cluster, REPORT.replace("sys.argv[2:]", "['wait']"))
    nodes = pod(cluster, 0, gpus=1), pod(cluster, 1, gpus=1)
    cluster.wait_for(2)
    node = nodes[deleted]
    node.terminate()  # the command's own process, as Kubernetes does: not the rank, and not a shell above torchrun
    assert wait_for_end(node)[0] == 1
    # The other agent may notice that its peer left and end its own rank too, so only this node's rank is asserted.
    assert node.pid in {report["agent"] for report in cluster.reports("SIGTERM")}
