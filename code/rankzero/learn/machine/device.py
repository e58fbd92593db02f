"""Devices to train on: their choice, their seeds and determinism, their peak rates from data sheets."""

import os
import random

import numpy as np
import torch

from rankzero.errors import UserError


def choose_device(name: str = "auto") -> torch.device:
    """Returns the device for `auto` (CUDA, else Apple's MPS, else CPU), `cpu`, `cuda`, `cuda:N` or `mps`.

    UserError where `name` is no device, or a device that this machine does not have.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise UserError(f"device {name!r} is not known: use auto, cpu, cuda, cuda:N or mps.")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError(
                f"device {name} is not there: torch {torch.__version__} sees no CUDA device; use --device cpu."
            )
        if (device.index or 0) >= torch.cuda.device_count():
            raise UserError(
                f"device {name} is not there: this machine has {torch.cuda.device_count()}, counted from cuda:0."
            )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError("device mps is not there: it needs macOS on Apple silicon; use --device cpu.")
    return device


def seed_everything(seed: int, *, deterministic: bool = False) -> None:
    """Seeds Python, NumPy and torch (every device).

    With `deterministic`, torch refuses any operation that has no deterministic version. On CUDA that costs speed, and
    must be set before the first CUDA call, because cuBLAS reads its setting only once.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)


# Dense peaks in FLOP/s from NVIDIA's data sheets, by a part of the name torch reports: (fp32, tf32, bf16 and fp16).
# "H100 80GB HBM3" is the SXM card; the PCIe card is slower and is left out rather than guessed.
PEAKS = {
    "A100": (19.5e12, 156e12, 312e12),
    "H100 80GB HBM3": (67e12, 494.7e12, 989e12),
    "H200": (67e12, 494.7e12, 989e12),
}


def peak_flops(device: torch.device, dtype: torch.dtype = torch.float32) -> float | None:
    """Returns the peak FLOP/s of `device` on dense matrices of `dtype`, from its data sheet; None if unknown."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    for part, (fp32, tf32, half) in PEAKS.items():
        if part in name:
            if dtype in (torch.bfloat16, torch.float16):
                return half
            return tf32 if torch.get_float32_matmul_precision() != "highest" else fp32
    return None


def device_name(device: torch.device) -> str:
    """Returns the device's product name, such as 'NVIDIA H200', or the CPU's model and the number of torch threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return "Apple GPU (MPS)"
    from rankzero.learn.machine.fingerprint import cpu_model

    return f"{cpu_model()}, {torch.get_num_threads()} threads"
