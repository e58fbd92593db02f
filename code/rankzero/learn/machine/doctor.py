"""Doctor: an examination of this machine for what the labs need, in plain words."""

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import torch

from rankzero.learn.data.images import import_torchvision
from rankzero.learn.distributed.world import WorldError, run_world
from rankzero.learn.machine.device import choose_device, device_name, peak_flops
from rankzero.learn.machine.fingerprint import cpu_model

GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One examined subject. `verdict` is `ok`, `limit` (labs run, with less) or `problem` (something will fail)."""

    subject: str
    verdict: str
    text: str


def examine() -> list[Finding]:
    """Examines Python, the libraries against their pins, the devices and the tools that labs use."""
    return [_python(), *_libraries(), _torchvision(), _processor(), _accelerator(), _ranks(), _compiler(), _git()]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", "ok", f"{version} in {sys.prefix}")


def _libraries() -> Iterator[Finding]:
    try:
        pins = [re.fullmatch(r"(\S+)==(\S+)", line) for line in importlib.metadata.requires("rankzero") or []]
    except importlib.metadata.PackageNotFoundError:
        yield Finding("libraries", "limit", f"torch {torch.__version__}; rankzero is not installed: no pins are known")
        return
    mismatches = []
    for name, pinned in [(pin[1], pin[2]) for pin in pins if pin]:
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            mismatches.append(f"{name} is missing")
            continue
        if installed.split("+")[0] != pinned:
            mismatches.append(f"{name} is {installed}, tested with {pinned}")
    if mismatches:
        yield Finding("libraries", "limit", f"{'; '.join(mismatches)}. `pip install -r requirements.txt` fixes it.")
    else:
        yield Finding("libraries", "ok", f"torch {torch.__version__} and all others as pinned in requirements.txt")


def _torchvision() -> Finding:
    try:
        module, repaired = import_torchvision()
    except ImportError as error:
        text = f"{error}. Labs with images need it; `pip install -r requirements.txt` installs it."
        return Finding("torchvision", "limit" if isinstance(error, ModuleNotFoundError) else "problem", text)
    if not repaired:
        return Finding("torchvision", "ok", f"{module.__version__} loads beside torch {torch.__version__}")
    text = (
        f"{module.__version__} was built for another torch than {torch.__version__}, so a plain `import torchvision` "
        "fails at torchvision::nms. The labs fix this themselves: datasets, transforms and models work, box "
        "operators such as nms do not."
    )
    return Finding("torchvision", "limit", text)


def _processor() -> Finding:
    memory = psutil.virtual_memory()
    text = (
        f"{cpu_model()}, {psutil.cpu_count()} cores ({torch.get_num_threads()} torch threads), "
        f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB memory free"
    )
    if memory.available < 2 * GIB:
        return Finding("CPU", "limit", f"{text}. Labs expect 2 GiB free: close something, or use smaller batches.")
    return Finding("CPU", "ok", text)


def _accelerator() -> Finding:
    device = choose_device()
    if device.type == "cpu":
        text = f"none that torch {torch.__version__} can use. Every lab runs on the CPU; CUDA measurements need a GPU."
        if torch.version.cuda is None and shutil.which("nvidia-smi"):
            return Finding("GPU", "problem", f"an NVIDIA driver is here, but this torch is a CPU build: {text}")
        return Finding("GPU", "limit", text)
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    peak = peak_flops(device)
    rate = f"fp32 peak {peak / 1e12:g} TFLOP/s" if peak else "its peak FLOP/s is not known here, so no MFU is shown"
    return Finding("GPU", "ok", f"{count} x {device_name(device)}; {rate}")


def _ranks() -> Finding:
    if not torch.distributed.is_available():
        return Finding("ranks", "problem", "this torch has no torch.distributed: labs with several ranks will not run")
    try:
        run_world(_all_reduce, 2)
    except ModuleNotFoundError as error:
        return Finding("ranks", "limit", f"{error.name} is missing: start ranks with torchrun, or install it")
    except WorldError as error:
        text = f"two processes here cannot communicate over gloo, so labs with ranks will not run: {error}"
        return Finding("ranks", "problem", text)
    backends = ["gloo"] * torch.distributed.is_gloo_available() + ["nccl"] * torch.distributed.is_nccl_available()
    text = f"two processes have just exchanged a message over gloo; backends of this torch: {', '.join(backends)}"
    return Finding("ranks", "ok", text)


def _all_reduce() -> None:
    torch.distributed.all_reduce(torch.ones(1))


def _compiler() -> Finding:
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if compiler:
        return Finding("C++ compiler", "ok", f"{compiler}, so torch.compile works on the CPU")
    return Finding("C++ compiler", "limit", "none found: torch.compile will not work on the CPU (install g++)")


def _git() -> Finding:
    if shutil.which("git"):
        return Finding("git", "ok", "runs record the commit they were made with")
    return Finding("git", "limit", "not found: runs cannot record the commit they were made with")
