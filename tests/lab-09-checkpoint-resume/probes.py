"""Lab 09, probes: they call the learner's code on random inputs, kill it, fail it, and return plain values.

A save is watched where it meets the system: calls of os.fsync and of renames are recorded with the file that they
concern, a limit on the size of files plays a full disk, and forks of this process are killed at every line of a save.
"""

import hashlib
import io
import math
import os
import random
import resource
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from rankzero.exercises.probes.answers import HANDED
from rankzero.exercises.probes.untrusted_values import (
    dict_items,
    is_tensor,
    plain_number,
    plain_numbers,
    tuple_items,
    type_name,
)

MOST_KILLS = 30, 4  # forks that are killed at lines of the learner's file, and at lines of Python's library


def plain(value: Any) -> Any:
    """Returns a state as nested lists: of a tensor its dtype, shape and numbers, of a dict its pairs."""
    if is_tensor(value):
        return [str(value.dtype), list(value.shape), Tensor.tolist(value.detach().reshape(-1).double())]
    if (items := dict_items(value)) is not None:
        return ["dict", [[plain(key), plain(item)] for key, item in items.items()]]
    if type(value) in (list, tuple):
        return [type(value).__name__, [plain(item) for item in value]]
    if type(value) in (bool, str) or value is None:
        return value
    return value if type(value) in (int, float) else f"a {type_name(value)}"


def fingerprint(value: Any) -> str:
    """Returns 16 letters that stand for bytes or for plain values: those of another seed have others."""
    return hashlib.sha256(value if type(value) is bytes else repr(value).encode()).hexdigest()[:16]


def content_of(path: Path) -> str:
    """Returns the fingerprint of a file's content; 'no file' where there is none."""
    return fingerprint(path.read_bytes()) if path.exists() else "no file"


def failure(action: Callable[[], object]) -> str:
    """Returns the type of the exception that `action` raises, and the system's words; 'no error' if it raises none."""
    try:
        action()
    except NotImplementedError:
        raise
    except BaseException as error:
        words = error.strerror if isinstance(error, OSError) else None
        return f"{type_name(error)}: {words}" if type(words) is str else type_name(error)
    return "no error"


def some_bytes(draw: random.Random, low: int = 20_000) -> bytes:
    """Returns random bytes, more than a file object buffers unless `low` is small."""
    return draw.randbytes(draw.randrange(low, 3 * low))


# -------------------------------------------------------------------------------------------------------- save_durably
@contextmanager
def replaced(learner: ModuleType, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    """Replaces functions of `os`, also where the learner's file has imported them by name."""
    originals = {name: getattr(os, name) for name in functions}
    names = {id(function): name for name, function in originals.items()}
    imported = {key: value for key, value in vars(learner).items() if names.get(id(value))}
    try:
        for name, function in functions.items():
            setattr(os, name, function)
        for key, value in imported.items():
            setattr(learner, key, functions[names[id(value)]])
        yield
    finally:
        for name, function in originals.items():
            setattr(os, name, function)
        for key, value in imported.items():
            setattr(learner, key, value)


def watched(events: list[tuple[str, Any]], folder: Path, data: bytes) -> dict[str, Callable[..., Any]]:
    """Returns replacements of the functions that sync and rename; each notes its call in `events`."""

    def syncing(original: Callable[..., Any]) -> Callable[..., Any]:
        def sync(fd: Any) -> None:
            inode = os.fstat(fd if isinstance(fd, int) else fd.fileno()).st_ino
            if _is_folder(fd):
                events.append(("folder", inode == folder.stat().st_ino))
            else:
                whole = [file.read_bytes() == data for file in folder.iterdir() if file.stat().st_ino == inode]
                events.append(("file", (inode, whole == [True])))
            original(fd)

        return sync

    def renaming(original: Callable[..., Any]) -> Callable[..., Any]:
        def rename(src: Any, dst: Any, **options: Any) -> None:
            there = options.get("src_dir_fd")
            inode, parent = os.stat(src, dir_fd=there).st_ino, Path(os.fsdecode(src)).parent
            source = os.fstat(there) if there is not None else parent.stat()
            same = source.st_ino == folder.stat().st_ino
            events.append(("rename", (inode, same, os.fsdecode(src).rsplit("/", 1)[-1])))
            original(src, dst, **options)

        return rename

    originals = {name: getattr(os, name) for name in ("fsync", "fdatasync", "replace", "rename") if hasattr(os, name)}
    return {name: (syncing if "sync" in name else renaming)(function) for name, function in originals.items()}


def open_files() -> int:
    """Returns the number of this process's open files; 0 where the system does not list them."""
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def new_file(draw: random.Random) -> str:
    return f"step-{draw.randrange(10**6)}.{draw.choice(['pt', 'bin', 'ckpt'])}"


def saved(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves a new file, replaces it by a shorter one and by an empty one; returns what is there, and open files."""
    draw, contents, left = random.Random(seed), [], []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / new_file(draw)
        (Path(name) / "other.pt").write_bytes(b"another file")
        before = open_files()
        for data in (some_bytes(draw), some_bytes(draw, 20), b""):
            learner.save_durably(path, data)
            contents.append(content_of(path))
            left.append(sum(1 for _ in Path(name).iterdir()))
        return {"contents": contents, "files": left, "open": open_files() - before}


def order(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Tells which syncs came before and after the rename that made the file; only calls for this file count."""
    draw = random.Random(seed)
    events: list[tuple[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        path, data = Path(name) / new_file(draw), some_bytes(draw, 20)  # so few that Python buffers them
        path.write_bytes(b"older")
        with replaced(learner, watched(events, path.parent, data)):
            learner.save_durably(path, data)
        inode = path.stat().st_ino
    renames = [place for place, (kind, fact) in enumerate(events) if kind == "rename" and fact[0] == inode]
    at = renames[-1] if renames else len(events)
    of_file = [fact[1] for kind, fact in events[:at] if kind == "file" and fact[0] == inode]
    of_folder = [place > at for place, (kind, fact) in enumerate(events) if kind == "folder" and fact]
    return {
        "renames": len(renames),
        "same folder": all(events[place][1][1] for place in renames),
        "partial": all(events[place][1][2].endswith(".partial") for place in renames),
        "file": "synced" if any(of_file) else "synced before all bytes were written" if of_file else "not synced",
        "folder": "synced" if any(of_folder) else "synced before the rename" if of_folder else "not synced",
    }


def _is_folder(file: Any) -> bool:
    """Tells whether an open file or its descriptor is that of a folder."""
    return stat.S_ISDIR(os.fstat(file if isinstance(file, int) else file.fileno()).st_mode)


@contextmanager
def limited(limit: int, soft: int) -> Iterator[None]:
    """Sets a soft limit of this process, such as the size of a file or the number of open files."""
    before, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(limit, (before, hard))


def raising_as(error: BaseException, original: Callable[..., Any], *, folders: bool = False) -> Callable[..., Any]:
    """Returns a function that raises `error`; with `folders` for a folder only, and otherwise calls `original`."""

    def raises(*arguments: Any, **options: Any) -> Any:
        if folders and not _is_folder((arguments or [*options.values()])[0]):
            return original(*arguments, **options)
        raise error

    return raises


def failing(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves on a full disk, and with calls that fail or are interrupted; returns the rest, and open files."""
    draw, ended, contents, left, opened = random.Random(seed), [], [], [], []

    def calls(error: BaseException, *names: str, folders: bool = False) -> AbstractContextManager[None]:
        functions = {name: getattr(os, name) for name in names if hasattr(os, name)}
        return replaced(learner, {name: raising_as(error, was, folders=folders) for name, was in functions.items()})

    broken, syncs = OSError(5, "input/output error"), ("fsync", "fdatasync")
    for failure_of in (
        lambda size: limited(resource.RLIMIT_FSIZE, draw.randrange(1, size)),  # as on a full disk
        lambda _: calls(broken, *syncs),
        lambda _: calls(KeyboardInterrupt(), *syncs),
        lambda _: calls(broken, "replace", "rename"),
        lambda _: limited(resource.RLIMIT_NOFILE, 0),
        lambda _: calls(broken, *syncs, folders=True),
    ):
        with tempfile.TemporaryDirectory() as name:
            path, data, older = Path(name) / new_file(draw), some_bytes(draw), some_bytes(draw, 100)
            path.write_bytes(older)
            before = open_files()
            with failure_of(len(data)):
                ended.append(failure(lambda: learner.save_durably(path, data)))  # noqa: B023
            opened.append(open_files() - before)
            contents.append(content_of(path))
            left.append(sum(1 for _ in Path(name).iterdir()))
    with tempfile.TemporaryDirectory() as name, chdir(name):  # Path("step-1.pt") names no folder
        here = failure(lambda: learner.save_durably(Path("step-1.pt"), b"content"))
    answers = {"ended": ended, "earlier": contents[:-1], "new": contents[-1], "files": left, "open": opened}
    return answers | {"here": here}


def killed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Kills a fork before each line of a save in turn, looks at the file, and saves once more beside what is left."""
    draw, file = random.Random(seed), str(learner.__file__)
    found, ended, again = set(), set(), True
    with tempfile.TemporaryDirectory() as name:
        path, older, data = Path(name) / new_file(draw), some_bytes(draw), some_bytes(draw)
        path.write_bytes(older)
        lines = _lines_run(lambda: learner.save_durably(path, data), 0)
        moments: list[int] = []
        for most, own in zip(MOST_KILLS, (True, False), strict=True):
            runs = {line: at for at, line in enumerate(lines, start=1) if (line[0] == file) is own}  # the last of each
            runs_first = {line: at for at, line in reversed([*enumerate(lines, start=1)]) if line in runs}
            some = sorted({*runs.values(), *runs_first.values()})
            moments += draw.sample(some, min(most, len(some)))
        for moment in moments:
            path.write_bytes(older)
            if (child := os.fork()) == 0:
                with suppress(BaseException):
                    _lines_run(lambda: learner.save_durably(path, data), moment)
                os._exit(0)
            os.waitpid(child, 0)
            content = path.read_bytes() if path.exists() else None
            found.add("missing" if content is None else "whole" if content in (older, data) else "damaged")
            shorter = some_bytes(draw, 100)
            ended.add(failure(lambda: learner.save_durably(path, shorter)))  # noqa: B023
            again &= path.exists() and path.read_bytes() == shorter
        return {"found": ", ".join(sorted(found)), "ended": sorted(ended), "again": again}


def _lines_run(action: Callable[[], object], kill_at: int) -> list[tuple[str, int]]:
    """Returns file and number of each line that `action` runs; before the `kill_at`-th of them, kills this process."""
    lines: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            lines.append((frame.f_code.co_filename, frame.f_lineno))
            if len(lines) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines


DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8)


def some_state(draw: random.Random) -> dict[str, Any]:
    """Returns tensors of several dtypes and shapes, and plain values, in nested containers."""

    def tensor(dtype: torch.dtype) -> Tensor:
        shape = [draw.randrange(1, 6) for _ in range(draw.randrange(1, 4))]
        return torch.tensor([draw.randrange(100) for _ in range(math.prod(shape))], dtype=dtype).view(shape)

    return {
        "weights": {f"layer{number}": tensor(dtype) for number, dtype in enumerate(DTYPES)},
        "numbers": [draw.random(), draw.randrange(10**9), None, True],
        "pair": (f"text {draw.randrange(100)}", tensor(torch.float32)),
        "none of it": {},
    }


# ------------------------------------------------------------------------------------------------------- newest_intact
class Reader:
    """A `read` that notes the names it is called with, and raises an exception for some of the steps."""

    def __init__(self, raises: dict[str, BaseException]) -> None:
        self.raises, self.names = raises, []  # type: ignore[var-annotated]

    def __call__(self, path: Path) -> dict[str, str]:
        self.names.append(path.name if isinstance(path, Path) else f"a {type_name(path)}, no Path")
        if error := self.raises.get(Path(path).name):
            raise error
        return {"read from": str(Path(path).resolve())}


def _answer(returned: Any, folder: Path) -> list[Any]:
    """Returns the step and whether the content is that of the step's file."""
    pair = tuple_items(returned, 2)
    if pair is None:
        return ["None" if returned is None else f"a {type_name(returned)}", False]
    items = dict_items(pair[1]) or {}
    number = plain_number(pair[0])
    return [number, items.get("read from") == str((folder / f"step-{number}.pt").resolve())]


def _make_files(folder: Path, names: list[str], draw: random.Random) -> None:
    """Makes these files in random order; the first has the oldest date, and the second the newest."""
    dates = {name: 10**9 - 1000 * place + draw.randrange(1000) for place, name in enumerate(names)}
    dates[names[0]] = 10**8
    for name in draw.sample(names, len(names)):
        (folder / name).write_bytes(b"content")
        os.utime(folder / name, (dates[name], dates[name]))


def _steps(draw: random.Random, count: int) -> list[int]:
    """Returns steps of 1 to 4 digits, the newest first and 0 last; as texts, one of 90 to 99 comes last."""
    more = draw.sample([*range(200, 900), *range(1000, 1900)], count - 5)
    few = 0, draw.randrange(2, 9), draw.randrange(10, 20), draw.randrange(90, 100), draw.randrange(100, 200)
    return sorted({*few, *more}, reverse=True)


def newest(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Asks for the newest of several intact checkpoints, beside partial files and others."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        steps, read = _steps(draw, draw.randrange(6, 9)), Reader({})
        _make_files(Path(name), [f"step-{step}.pt" for step in steps], draw)
        answer = _answer(learner.newest_intact(Path(name), read), Path(name))
        left = sorted(file.name for file in Path(name).iterdir()) == sorted(f"step-{step}.pt" for step in steps)
        pair = tuple_items(learner.newest_intact(Path(name), lambda path: {}), 2) or (None,)
        return {"answer": answer, "left": left, "empty": plain_number(pair[0])}


def other_names(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Asks for the newest checkpoint beside files with other names."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        step, read = draw.randrange(10, 100), Reader({})
        others = [f"step-{step + 1}.pt.partial", f"step-{step + 2}.txt", "best.pt", f"old-step-{step + 3}.pt"]
        others += [f"step-{step + 4}-ema.pt", f"step-{step + 5}xpt", "step-.pt", f".step-{step + 6}.pt"]
        _make_files(Path(name), [f"step-{step}.pt", *others], draw)
        (Path(name) / "older-run").mkdir()
        (Path(name) / "older-run" / f"step-{step + 7}.pt").write_bytes(b"content")
        return {"answer": _answer(learner.newest_intact(Path(name), read), Path(name)), "read": read.names[:20]}


def damaged_ones(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Asks with ValueErrors for the newest few, with OSErrors, and with ValueErrors for all but step 0."""
    draw = random.Random(seed)
    steps, count = _steps(draw, 7), draw.randrange(2, 4)
    names = [f"step-{step}.pt" for step in steps]
    system = OSError(5, "unreadable"), FileNotFoundError(2, "gone")
    ended, answers, reads, left = [], [], [], []
    for errors, many in (((ValueError("damaged"),), count), (system, count), ((ValueError("damaged"),), 6)):
        with tempfile.TemporaryDirectory() as name:
            _make_files(Path(name), names, draw)
            read = Reader({name: errors[at % len(errors)] for at, name in enumerate(names[:many])})
            returned: list[Any] = [None]
            ended.append(failure(lambda: returned.append(learner.newest_intact(Path(name), read))))  # noqa: B023
            answers.append(_answer(returned[-1], Path(name)))
            reads.append(read.names[:20])
            left.append(sorted(file.name for file in Path(name).iterdir()) == sorted(names))
    return {"ended": ended, "answers": answers, "reads": reads, "left": left}


def nothing_intact(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Asks in an empty folder, a missing folder and a folder of damaged files; then with errors of another kind."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        empty, missing, damaged = (Path(name) / word for word in ("empty", "missing", "damaged"))
        empty.mkdir()
        damaged.mkdir()
        steps = _steps(draw, 6)
        names = [f"step-{step}.pt" for step in steps]
        _make_files(damaged, names, draw)
        reader = Reader(dict.fromkeys(names, ValueError("damaged")))
        answers = [_answer(learner.newest_intact(folder, reader), folder)[0] for folder in (empty, missing, damaged)]
        errors = MemoryError("too large"), KeyError("a bug"), RuntimeError("a bug"), EOFError(), KeyboardInterrupt()
        others = []
        for error in errors:
            _make_files(damaged, names, draw)  # some answers remove them
            read = Reader({names[0]: error})
            others.append(failure(lambda: learner.newest_intact(damaged, read)))  # noqa: B023
        return {"answers": answers, "read": sorted(reader.names[:20]), "others": others}


# ------------------------------------------------------------------------------------------------------ training_state
class Sampler:
    """A sampler whose place is one number."""

    def __init__(self, start: int) -> None:
        self.place = start

    def next(self) -> int:
        self.place = (self.place * 7 + 3) % 10007
        return self.place

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


class Model(nn.Module):
    """A network with dropout, averages of BatchNorm, tied weights, a frozen layer and a layer in bfloat16."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.down.weight = self.up.weight
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.5)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.low = nn.Linear(width, width, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        """[B, width] -> [B, width]"""
        x = self.norm(self.up(x)).relu()
        x = self.frozen(self.drop(self.down(x)))
        return self.low(x.bfloat16()).float()


class Gpus:
    """Two generators that torch takes for those of two GPUs, although there may be none."""

    def __init__(self, start: int) -> None:
        self.generators = tuple(torch.Generator().manual_seed(start + 10**6 * number) for number in (1, 2))

    @contextmanager
    def visible(self) -> Iterator[None]:
        """Shows the generators to torch.cuda's functions."""
        facts: dict[str, Any] = {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "_lazy_init": lambda: None,
        }
        facts |= {"device_count": lambda: 2, "current_device": lambda: 0, "_lazy_call": lambda call, **_: call()}
        facts["default_generators"] = self.generators
        with ExitStack() as stack:
            for module in (torch.cuda, torch.cuda.random):
                for name, fact in facts.items():
                    if hasattr(module, name):
                        stack.enter_context(patch.object(module, name, fact))
            yield

    def draws(self) -> list[float]:
        """Returns the next number of each generator."""
        return [torch.rand(1, generator=generator).item() for generator in self.generators]


class Run:
    """A small run that depends on everything a state must hold; `seed` decides its kind, `start` its values."""

    def __init__(self, seed: int, start: int) -> None:
        draw = random.Random(seed)
        random.seed(start)
        np.random.seed(start)
        torch.manual_seed(start)
        self.width = draw.randrange(3, 7)
        self.model, self.average = Model(self.width), Model(self.width)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        groups: list[dict[str, Any]] = [{"params": trained[:1], "weight_decay": 0.1}, {"params": trained[1:]}]
        if seed % 2:
            self.optimizer: Any = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
        else:
            self.optimizer = torch.optim.AdamW(groups, lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=20)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
        self.sampler = Sampler(start % 10007)
        self.gpus = Gpus(start)

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.model, self.optimizer, self.scheduler, self.scaler, self.average, self.sampler

    def step(self) -> float:
        """Trains one step; returns its loss."""
        scale, shift = 1 + random.random(), np.random.normal()
        generator = torch.Generator().manual_seed(self.sampler.next())
        x = torch.randn(4, self.width, generator=generator) * scale + shift
        self.optimizer.zero_grad()
        loss = (self.model(x) - x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        with torch.no_grad():
            values = self.model.state_dict()
            for name, average in self.average.state_dict().items():
                average.copy_(average + 0.2 * (values[name] - average))
        return loss.item()

    def facts(self) -> dict[str, Any]:
        """Returns the parts of the run as plain values."""
        moments = self.optimizer.state_dict()
        return {
            "model": plain(self.model.state_dict()),
            "moments": plain(moments["state"]),
            "settings": plain(moments["param_groups"]),
            "scheduler": [self.scheduler.last_epoch, plain_numbers(self.scheduler.get_last_lr())],
            "scaler": [self.scaler.get_scale(), self.scaler._get_growth_tracker()],
            "average": plain(self.average.state_dict()),
            "sampler": self.sampler.place,
            "modes": [self.model.training, self.average.training],
            "gradients": sum(parameter.grad is not None for parameter in self.model.parameters()),
        }

    def later(self) -> dict[str, Any]:
        """Returns what the generators draw next, the losses of the next six steps, and how these end."""
        draws = [random.random(), float(np.random.normal()), torch.rand(1).item(), self.gpus.draws()]
        losses: list[float] = []
        ended = failure(lambda: losses.extend(self.step() for _ in range(6)))
        end = [self.scaler.get_scale(), *self.scheduler.get_last_lr()]
        return {"draws": draws, "losses": losses, "end": end, "ended": ended}


STEPS = 5  # before the save: the loss scale has grown once; NumPy keeps the second of a pair of normal numbers
CONTINUED = "model", "moments", "scheduler", "scaler", "average", "sampler", "draws", "losses", "modes", "gradients"


def save_run(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes a state in the middle of a run, hands over its file, and returns what the run does afterwards."""
    run, file = Run(seed, seed), io.BytesIO()
    for _ in range(STEPS):
        run.step()
    with run.gpus.visible():
        state = learner.training_state(1000 + seed % 997, *run.parts)
    torch.save(state, file)
    facts = run.facts() | run.later()
    handed = np.frombuffer(file.getvalue(), np.uint8)
    return {f"{HANDED}file": handed, "continued": [fingerprint(facts[name]) for name in CONTINUED]}


def restore_run(learner: ModuleType, seed: int, saved: dict[str, Any]) -> dict[str, Any]:
    """Loads the file into a run with other values, in a process that has not saved it; returns what that run does."""
    run, data = Run(seed, seed + 1), saved[f"{HANDED}file"].tobytes()
    run.step()  # one, so that the count of steps since the loss scale grew is another one
    refused = ""
    try:
        state = torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:
        refused = " ".join(word for line in str(error).splitlines() for word in line.split() if "GLOBAL" in line)
        refused, state = refused[:120] or type_name(error), torch.load(io.BytesIO(data), weights_only=False)
    with run.gpus.visible():
        step = learner.restore_training_state(state, *run.parts)
    facts = run.facts() | run.later()
    answers = {name: fingerprint(fact) for name, fact in facts.items() if name not in ("draws", "modes", "ended")}
    draws = dict(zip(("python", "numpy", "torch", "cuda"), facts["draws"], strict=True))
    answers |= draws | {"ended": facts["ended"], "refused": refused}
    return answers | {"step": plain_number(step), "type": type_name(step)}


# --------------------------------------------------------------------------------------------------- run_until_stopped
class StepError(RuntimeError):
    """The error of a step or save. An exercise that is not written yet raises another kind of RuntimeError."""


class Loop:
    """Notes the steps and saves of a loop, and sends SIGTERM to this process at a given point."""

    def __init__(self, signals: dict[str, int] | None = None, fails: str = "") -> None:
        self.signals, self.fails = signals or {}, fails
        self.events: list[str] = []
        self.earlier = 0  # signals that the earlier handler got
        self.installed: Any = None

    def _do(self, name: str) -> None:
        self.events.append(f"{name} begins")
        if name == self.fails:
            raise StepError(name)
        for _ in range(self.signals.get(name, 0)):
            os.kill(os.getpid(), signal.SIGTERM)
        self.events[-1] = name if self.events[-1] == f"{name} begins" else self.events[-1]
        if self.events[-1] != name:  # something happened in the middle of it
            self.events.append(f"{name} ends")

    def step(self, number: int) -> None:
        self._do(f"step {plain_number(number)}")

    def save(self, number: int) -> None:
        self._do(f"save {plain_number(number)}")

    def run(self, learner: ModuleType, done: int, last: int, every: int) -> Any:
        """Returns what run_until_stopped returns, or the exception's type; notes the handler that it leaves."""
        before = signal.signal(signal.SIGTERM, self._earlier)
        try:
            return plain_number(learner.run_until_stopped(self.step, self.save, done, last, every))
        except StepError:
            return "RuntimeError"
        finally:
            self.installed = signal.getsignal(signal.SIGTERM)
            signal.signal(signal.SIGTERM, before)

    def _earlier(self, number: int, frame: FrameType | None) -> None:
        self.earlier += 1

    def answers(self, returned: Any) -> list[Any]:
        return [returned, self.events[:60], self.earlier]


def _plan(draw: random.Random) -> tuple[int, int, int]:
    """Returns done, last and every, of which `every` divides neither."""
    every = draw.randrange(3, 6)
    done, last = every * draw.randrange(1, 4) + 1, every * draw.randrange(6, 8) + 2
    return done, last, every


def undisturbed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs without a signal: a random plan, one whose last step `every` divides, one save at the end, and no step."""
    done, last, every = _plan(random.Random(seed))
    plans = [[done, last, every], [0, 2 * every, every], [0, every - 1, every], [last, last, every], [0, 3, 1]]
    plans += [[2 * every, 2 * every, every]]
    return {"plans": plans, "runs": [(loop := Loop()).answers(loop.run(learner, *plan)) for plan in plans]}


def stopped_in_a_step(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sends SIGTERM in a step that no save follows, in one that a save follows, in the last one; once and twice."""
    draw = random.Random(seed)
    done, last, every = _plan(draw)
    multiple = every * (done // every + 2)
    cases = [[multiple + 1, 1], [multiple, 1], [last, 1], [done + 1, 2]]
    loops = [Loop({f"step {step}": times}) for step, times in cases]
    runs = [loop.answers(loop.run(learner, done, last, every)) for loop in loops]
    return {"plan": [done, last, every], "cases": cases, "runs": runs}


def _plan_of(seed: int) -> tuple[int, int, int]:
    return _plan(random.Random(seed))


def stopped_in_a_save(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sends SIGTERM while a checkpoint is written; then in a step and in the save that follows."""
    done, last, every = _plan_of(seed)
    multiple = every * (done // every + 1)
    loops = [
        Loop({f"save {multiple}": 1}),
        Loop({f"step {multiple + 1}": 1, f"save {multiple + 1}": 1}),
        Loop({f"save {last}": 1}),
    ]
    return {"plan": [done, last, every], "runs": [loop.answers(loop.run(learner, done, last, every)) for loop in loops]}


def stopped_anywhere(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sends SIGTERM before each line of the loop in turn; counts runs whose last step is not saved, or saved twice."""
    done, last, every = 3, 6, 4
    file, bad, reached, line = str(learner.__file__), 0, True, 0
    while reached and line < 150:
        line += 1
        reached, loop, seen, inside = False, Loop(), 0, False

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal seen, reached, inside
            if frame.f_code.co_filename != file:
                return None
            if event == "line" and callable(signal.getsignal(signal.SIGTERM)):
                inside = signal.getsignal(signal.SIGTERM) != loop._earlier  # noqa: B023
                seen += inside
                if seen == line and inside and not reached:  # noqa: B023
                    reached = True
                    os.kill(os.getpid(), signal.SIGTERM)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            returned = loop.run(learner, done, last, every)
        finally:
            sys.settrace(before)
        saves = [event for event in loop.events if event.startswith("save")]
        steps = [event for event in loop.events if event.startswith("step")]
        wanted = [f"save {returned}"] if steps else []
        bad += saves[-1:] != wanted or len(saves) != len(set(saves)) or returned != done + len(steps)
    return {"unsaved": bad}


def raising(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs without a step, without an error, and with a step and a save that raise one; each leaves a handler."""
    done, last, every = _plan_of(seed)
    cases = ("", last), ("", done), (f"step {done + 2}", done), (f"save {every * (done // every + 1)}", done)
    loops = [Loop(fails=name) for name, _ in cases]
    runs = [loop.answers(loop.run(learner, at, last, every)) for loop, (_, at) in zip(loops, cases, strict=True)]
    return {"runs": runs, "back": [loop.installed == loop._earlier for loop in loops]}


# ------------------------------------------------------------------------------------------------------------ snapshot
def _live(draw: random.Random) -> dict[str, Any]:
    """Returns a state with parameters, tied tensors, a part of a tensor, a transposed one, and an empty one."""
    rows, columns = draw.randrange(2, 6), draw.randrange(6, 9)
    big = torch.tensor([draw.random() for _ in range(rows * columns)]).view(rows, columns)
    weight = nn.Parameter(big)
    other = [torch.tensor([draw.randrange(50) for _ in range(7)], dtype=dtype) for dtype in DTYPES]
    made = weight * 2  # has a graph
    return {
        "model": {"embedding": weight, "head": weight.detach(), "row": weight.detach()[1], "turned": other[0].double()},
        "optimizer": {"state": {0: {"exp_avg": other[1], "step": 3}}, "groups": [{"lr": 0.1, "params": [0, 1]}]},
        "rest": [*other, big.t(), torch.empty(0), torch.tensor(draw.random()), made],
        "pair": (other[2], "text", None, [draw.random()]),
        "empty": [{}, []],
    }


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def _containers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _containers(part)


def copied(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Tells whether the copy has the same numbers, dtypes, shapes, keys and containers; returns its tensors' types."""
    state = _live(random.Random(seed))
    before = plain(state)
    copy = learner.snapshot(state)
    found = list(_tensors(copy))
    return {
        "copy": fingerprint(plain(copy)),
        "shapes": [list(tensor.shape) for tensor in found],
        "types": sorted({type_name(tensor) for tensor in found}),
        "gradients": sum(tensor.requires_grad for tensor in found),
        "devices": sorted({str(tensor.device) for tensor in found}),
        "unchanged": plain(state) == before and sum(tensor.requires_grad for tensor in _tensors(state)) == 2,
    }


def changed_afterwards(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Changes every live tensor and container after the copy; tells where the copy is as before."""
    state = _live(random.Random(seed))
    before = {key: plain(value) for key, value in state.items()}
    copy = learner.snapshot(state)
    shared = set(_containers(state)) & set(_containers(copy))
    with torch.no_grad():
        for tensor in _tensors(state):
            tensor.add_(1)
    same = {key: plain(copy[key]) == before[key] for key in before}
    state["optimizer"]["groups"][0]["lr"] = 7.0
    state["pair"][3].append(1)
    state["model"].clear()
    contained = not shared and all(plain(copy[key]) == before[key] for key in before if same[key])
    places = {"dicts": same["model"] and same["optimizer"], "lists": same["rest"], "tuples": same["pair"]}
    return places | {"containers": contained}


def tied(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Returns the number of storages and of bytes in the copy of a state with tied tensors, and what stays tied."""
    draw = random.Random(seed)
    model = Model(draw.randrange(3, 9))
    state = {"model": model.state_dict(), "again": dict(model.named_parameters(remove_duplicate=False))}
    copy = learner.snapshot(state)
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in _tensors(copy)}
    whole = torch.arange(draw.randrange(20, 40)).float()
    views = learner.snapshot(
        {"whole": whole, "part": whole[3:9], "turned": whole[:8].view(2, 4).t(), "even": whole[::2]}
    )
    views["whole"].zero_()
    other = learner.snapshot([torch.ones(3), torch.ones(3)])
    return {
        "storages": len(storages),
        "bytes": sum(storages.values()),
        "weights": copy["model"]["up.weight"].data_ptr() == copy["model"]["down.weight"].data_ptr(),
        "part": not any(views[name].any().item() for name in ("part", "turned", "even")),
        "equal but not tied": other[0].data_ptr() != other[1].data_ptr(),
    }


# ----------------------------------------------------------------------------------------------------- BackgroundSaver
HOLD_S = 2.0  # in which save returns on a busy machine; a save that waits for its thread takes as long
WAIT_S = 0.3  # for which a write waits for the next call of save; only with a wrong answer does it wait so long
SLOW_S = 0.15  # for which a write continues after the next save was called; the next save of a wrong answer returns


def background(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves while a gate keeps the write from ending; tells what has happened when save and wait return."""
    gate, written, threads = threading.Event(), [], []

    def write(state: Any) -> None:
        threads.append(threading.get_ident())
        gate.wait(HOLD_S)
        written.append(plain(state))

    saver, other = learner.BackgroundSaver(write), learner.BackgroundSaver(write)
    idle = type_name(saver.wait())
    returned, early = [type_name(saver.save(some_state(random.Random(seed))))], len(written)
    other.wait()
    apart = len(written) == early
    gate.set()
    returned.append(type_name(saver.wait()))
    late = len(written)
    saver.wait()
    return {
        "idle": idle,
        "returned": returned,
        "before": early,
        "apart": apart,
        "after": late,
        "other thread": bool(threads) and threading.get_ident() not in threads,
        "written": fingerprint(written),
    }


def consistent(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Changes the live state after save has returned and before the saver's thread runs its first line."""
    changed, written, shared = threading.Event(), [], set()

    def write(copy: Any) -> None:
        changed.wait(HOLD_S)
        written.append(plain(copy))
        shared.update({*_containers(state)} & {*_containers(copy)})

    def hold(*event: object) -> None:
        sys.settrace(None)
        changed.wait(HOLD_S)

    threading.settrace(hold)  # called in each new thread before its first line
    try:
        saver = learner.BackgroundSaver(write)
        state = some_state(random.Random(seed))
        state["weight"] = nn.Parameter(torch.ones(3))
        state["loss"] = state["weight"].sum()  # has a graph
        before = plain(state)
        saver.save(state)
    finally:
        threading.settrace(None)
    with torch.no_grad():
        for tensor in _tensors(state):
            tensor.add_(1)
    state["numbers"].append(5)
    changed.set()
    saver.wait()
    return {"as it was": written == [before], "copy": not shared}


def one_at_a_time(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Saves several states in a row; each write ends after the next save was called. Returns order and overlap."""
    active, most, order, lock, count = 0, 0, [], threading.Lock(), random.Random(seed).randrange(3, 5)
    called, returned = ([threading.Event() for _ in range(count + 1)] for _ in range(2))

    def write(state: Any) -> None:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        called[state["number"] + 1].wait(WAIT_S)
        returned[state["number"] + 1].wait(SLOW_S)
        with lock:
            active -= 1
            order.append(state["number"])

    take, copies = learner.snapshot, 0

    def snapshot(state: Any) -> Any:
        nonlocal copies
        copies += active  # a copy that is made while an earlier one is written: two are in memory
        return take(state)

    learner.snapshot = snapshot  # type: ignore[attr-defined]
    try:
        saver = learner.BackgroundSaver(write)
        behind = 0  # saves that returned before all earlier writes had ended
        for number in range(count):
            called[number].set()
            saver.save({"number": number, "x": torch.ones(2)})
            behind += len(order) < number
            returned[number].set()
        called[count].set()
        saver.wait()
    finally:
        learner.snapshot = take  # type: ignore[attr-defined]
    return {"most": most, "order": order, "count": count, "behind": behind, "copies": copies}


def errors_of_the_thread(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Fails a write: before a wait, and before the next save; returns which calls raise, and what is written."""
    tried: list[int] = []
    errors = {1: OSError(f"disk {seed % 1000}"), 2: ValueError(f"value {seed % 1000}")}

    def write(state: Any) -> None:
        tried.append(state["fails"])
        if state["fails"]:
            raise errors[state["fails"]]

    def call(action: Callable[[], object]) -> str:
        try:
            action()
        except NotImplementedError:
            raise
        except Exception as error:
            return type_name(error) if error in errors.values() else f"another {type_name(error)}"
        return "no error"

    with patch.object(threading, "excepthook", lambda _: None):
        saver = learner.BackgroundSaver(write)
        at_wait = [call(lambda: saver.save({"fails": 1})), call(saver.wait), call(saver.wait)]
        at_save = [call(lambda: saver.save({"fails": 2})), call(lambda: saver.save({"fails": 0}))]
        between = list(tried)
        at_save += [call(saver.wait), call(lambda: saver.save({"fails": 0})), call(saver.wait)]
    return {"wait": at_wait, "save": at_save, "tried": [between, tried]}
