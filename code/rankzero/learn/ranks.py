"""What happens inside one rank: it joins the others, notes its step, and says what it has to say about a failure."""

import datetime
import os
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import MutableSequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rankzero.learn.errors import UserError

# A collective that has waited this long fails. NCCL's first one may compile and connect for a minute.
COLLECTIVE_SECONDS = {"gloo": 10.0, "nccl": 120.0}

_steps: MutableSequence[int] | None = None  # of every rank, shared with the process that started them
_device = torch.device("cpu")


def launched_by_torchrun() -> bool:
    """Whether torchrun, or something that sets the same variables, has started this process as a rank."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def note_step(step: int) -> None:
    """Notes the step that begins, so that a failure of this rank can name it. Costs nothing."""
    if _steps is not None:
        _steps[dist.get_rank()] = step


def share_steps(steps: MutableSequence[int]) -> None:
    """From here on, `note_step` writes into `steps`, one number for each rank."""
    global _steps
    _steps = steps


def rank_device() -> torch.device:
    """The device that this rank has got."""
    return _device


def backend_of(device: torch.device) -> str:
    """NCCL for CUDA devices, gloo for everything else."""
    return "nccl" if device.type == "cuda" else "gloo"


def join(
    device: str = "cpu", *, store: Any = None, rank: int = -1, ranks: int = -1, debug: bool = False
) -> torch.device:
    """Joins the default process group; returns the device of this rank.

    `device` is "auto", "cpu" or "cuda"; each rank of a machine has a CUDA device of its own. Without `store`, `rank`
    and `ranks` the environment that torchrun has made says who and where everybody is. With `debug`, c10d compares what
    the ranks call before each collective.
    """
    local = int(os.environ["LOCAL_RANK"]) if store is None else rank
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if store is None else ranks
    global _device
    _device = place = device_of_rank(device, local, here)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    elif store is not None and "GLOO_SOCKET_IFNAME" not in os.environ:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"  # all ranks are on this machine
    # torch 2.13 announces other names for all_gather_into_tensor and reduce_scatter_tensor; 2.11 has only these.
    warnings.filterwarnings("ignore", message=r".*_single.*", category=FutureWarning)
    backend = backend_of(place)
    limit = datetime.timedelta(seconds=COLLECTIVE_SECONDS[backend])
    if debug:
        dist.set_debug_level(dist.DebugLevel.DETAIL)  # type: ignore[attr-defined]
    # Nobody goes on before all have joined: a rank that is done at once would leave while another still connects.
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
    del os.environ["TORCH_DIST_INIT_BARRIER"]  # a group that a rank makes later may have a shorter limit
    return place


def device_of_rank(name: str, local_rank: int, local_ranks: int) -> torch.device:
    """The device of a rank: "auto" takes CUDA where this machine has one for each of its ranks, else the CPU.

    UserError where there are too few CUDA devices, or where `name` is one that ranks cannot share.
    """
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if devices >= local_ranks else "cpu"
    if name not in ("cpu", "cuda"):
        raise UserError(f"device {name!r} is not for ranks: use auto, cpu or cuda; each rank takes one of its own.")
    if name == "cuda" and devices < local_ranks:
        raise UserError(
            f"{local_ranks} ranks need {local_ranks} CUDA devices, and this machine has {devices}: "
            "use fewer ranks, or --device cpu."
        )
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


# ------------------------------------------------------------------------------------------------------ failures told
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
OURS = str(Path(__file__).parents[1])
LOST = "lost the connection to another rank in a collective"
LONGEST = 500  # characters of an error's first line that a report shows
_FINGERPRINT = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\(SequenceNumber=\d+,? ?OpType=(\w+)"
    r"(?:, TensorShape=\[([\d, ]*)\], TensorDtypes=(\w+))?"
)


def is_consequence(text: str) -> bool:
    """Whether an error only says that another rank is gone, late, or did something else."""
    signs = ("gloo", "Timed out", "timed out", "onnection", "monitoredBarrier", "Monitored Barrier", "NCCL", "store")
    return any(sign in text for sign in signs)


def text_of(error: BaseException) -> str:
    """Its text; nothing if it cannot say."""
    try:
        return str(error)
    except Exception:
        return ""


def summary_of(error: BaseException) -> str:
    """What was raised, in a line: 'ValueError: no such thing'. Of c10d's errors, what a person can use."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text_of(error)).strip()
    calls = [
        f"rank {rank} called {op.lower()}" + (f" of {dtype}[{shape}]" if dtype else "")
        for rank, op, shape, dtype in _FINGERPRINT.findall(text)
    ]
    if calls:
        return "the ranks called different collectives: " + ", ".join(sorted(set(calls)))
    if late := re.search(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier", text):
        return f"waited in a collective that rank {late[1].strip()} did not call"
    if late := re.search(r"Timed out waiting (\d+)ms", text):
        return f"waited {int(late[1]) / 1000:g} s for another rank in a collective"
    if "gloo" in text and ("Connection" in text or "Read error" in text or "Write error" in text):
        return LOST
    if name := re.search(r"gloo.*Unable to find address for: (\S+)", text):
        return f"this machine has no network interface {name[1]!r}: is GLOO_SOCKET_IFNAME right?"
    first = text.splitlines()[0] if text else ""
    first = first if len(first) <= LONGEST else f"{first[:LONGEST]} …"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def place_of(error: BaseException) -> str:
    """Where the user's code raised it: 'train_ddp.py, line 40, in train_step'; empty if nowhere in it."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if is_users(frame.filename)]
    return f"{Path(mine[-1].filename).name}, line {mine[-1].lineno}, in {mine[-1].name}" if mine else ""


def place_in_dump(dump: str) -> tuple[str, bool]:
    """Where a process is by the dump of `faulthandler`: the user's innermost line; and whether it waits for others."""
    frames = re.findall(r'File "(.*?)", line (\d+) in (\S+)', dump)  # the innermost first
    names = [name for _, _, name in frames]
    if "_work" not in names:
        return "sending its value" if "_reply" in names else "", False
    if any(file.endswith("learn/ranks.py") and name == "join" for file, _, name in frames):
        return "joining the others", True
    del frames[names.index("_work") :]  # what runs a rank is nobody's code
    for number, (file, line, name) in enumerate(frames):
        if is_users(file):
            inside = [called for _, _, called in frames[:number] if called not in ("wrapper", "inner", "_wrapped")]
            doing = f"inside {inside[-1]}, called at " if inside else "at "
            waits = any("/torch/distributed/" in one or "/torch/autograd/" in one for one, _, _ in frames[:number])
            return f"{doing}{Path(file).name}, line {line}, in {name}", waits
    return "", False


def is_users(file: str) -> bool:
    """Whether a source file is neither of Python, nor of an installed package, nor of this library."""
    return not file.startswith((*LIBRARIES, OURS, "<frozen"))
