"""Rank failures: a raised error in one line, and the line of the user's code where a rank failed or waits."""

import re
import sysconfig
import traceback
from pathlib import Path

STANDARD_LIBRARY = sysconfig.get_path("stdlib")
THIS_LIBRARY = str(Path(__file__).parents[2])
LOST = "lost the connection to another rank"  # in a collective or a message, which errors of gloo do not tell apart
MISSED = "waited for rank"
CALLED_FROM = "called from"
NO_CALL = ", which made no matching call"
NO_END = ", which did not complete the call"
WRAPPERS = ("wrapper", "inner", "_wrapped", "_wrapped_call_impl", "_call_impl")  # torch's, around other functions
LONGEST = 500  # characters of an error's first line in a report
_COLLECTIVE_FINGERPRINT = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\(SequenceNumber=\d+,? ?OpType=(\w+)"
    r"(?:, TensorShape=\[([\d, ]*)\], TensorDtypes=(\w+))?"
)


def is_consequence(error: BaseException) -> bool:
    """Returns whether an error of c10d only reports that another rank is gone, late, or in another collective."""
    name = type(error).__name__
    if name in ("DistBackendError", "DistNetworkError", "DistStoreError"):
        return True
    return name == "RuntimeError" and any(
        sign in text_of(error) for sign in ("/gloo/", "ProcessGroupGloo", "monitoredBarrier", "Monitored Barrier")
    )


def text_of(error: BaseException) -> str:
    """Returns the error's text; empty if its `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return ""


def summary_of(error: BaseException) -> str:
    """Returns the error in a line: 'ValueError: no such thing'. Errors of c10d are reduced to their cause."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text_of(error)).strip()
    calls = [
        f"rank {rank} called {op.lower()}" + (f" of {dtype}[{shape}]" if dtype else "")
        for rank, op, shape, dtype in _COLLECTIVE_FINGERPRINT.findall(text)
    ]
    if calls:
        return "the ranks called different collectives: " + ", ".join(sorted(set(calls)))
    if missed := re.search(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier", text):
        return f"{MISSED} {missed[1].strip()}{NO_CALL}"
    if waited := re.search(r"Timed out waiting (\d+)ms", text):
        return f"waited {int(waited[1]) / 1000:g} s for another rank"
    if "gloo" in text and ("Connection" in text or "Read error" in text or "Write error" in text):
        return LOST
    if name := re.search(r"gloo.*Unable to find address for: (\S+)", text):
        return f"this machine has no network interface {name[1]!r}: is GLOO_SOCKET_IFNAME right?"
    first = re.sub(r"\n\s+but got ", " but got ", text).splitlines()[0] if text else ""  # c10d's text on None
    first = first if len(first) <= LONGEST else f"{first[:LONGEST]} …"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def place_of(error: BaseException) -> str:
    """Returns the user's line that raised it: 'train_ddp.py, line 40, in train_step'; empty without a user's line.

    A note of the error that begins with CALLED_FROM follows.
    """
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [
        frame
        for frame in frames
        if is_users(frame.filename) and frame.name != "__torch_dispatch__"  # of a mode
    ]
    if not user_frames:
        return ""
    innermost = user_frames[-1]
    callers = [note for note in getattr(error, "__notes__", ()) if str(note).startswith(CALLED_FROM)]
    return ", ".join([f"{Path(innermost.filename).name}, line {innermost.lineno}, in {innermost.name}", *callers])


def place_in_dump(dump: str) -> tuple[str, bool]:
    """Returns the user's innermost line in a dump of `faulthandler`, and whether the process waits for other ranks."""
    frames = re.findall(r'File "(.*?)", line (\d+) in (\S+)', dump)  # the innermost first
    names = [name for _, _, name in frames]
    if "_work" not in names:
        return "sending its value" if "_reply" in names else "", False
    if any(file.endswith("distributed/rank.py") and name == "join" for file, _, name in frames):
        return "joining the process group", True
    del frames[names.index("_work") :]  # frames of rank_process.py
    for number, (file, line, name) in enumerate(frames):
        if is_users(file):
            inside = [called for _, _, called in frames[:number] if called not in WRAPPERS]
            doing = f"inside {inside[-1]}, called at " if inside else "at "
            waits = any("/torch/distributed/" in path or "/torch/autograd/" in path for path, _, _ in frames[:number])
            return f"{doing}{Path(file).name}, line {line}, in {name}", waits
    return "", False


def is_complete(dump: str) -> bool:
    """Returns whether a dump of `faulthandler`, which writes it word by word, reaches the frame of `run_rank` or its
    limit of 100 frames, after which it writes three dots."""
    return re.search(r" in run_rank\b|^  \.\.\.$", dump, re.MULTILINE) is not None


def is_users(file: str) -> bool:
    """Returns whether a source file is the user's: not of Python, of an installed package, or of this library."""
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not file.startswith((STANDARD_LIBRARY, THIS_LIBRARY, "<frozen"))
