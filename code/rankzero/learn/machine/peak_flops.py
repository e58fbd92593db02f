"""Peak FLOP/s as the reference of a utilization: given, measured by Lab 00, read from a data sheet, or measured now."""

import timeit

import torch

from rankzero.learn.machine.device import peak_flops
from rankzero.learn.machine.measured_machine import kept_peak


def reference_peak(device: torch.device, given: float | None = None) -> tuple[float, str] | None:
    """Returns the FLOP/s of dense fp32 products and their source in words; None where this device has none."""
    if given:
        return given, "given"
    if measured := kept_peak(device):
        return measured[0], f"measured by Lab 00 on {measured[1]}"
    if listed := peak_flops(device):
        return listed, "data sheet"
    if device.type == "cpu":
        return measured_peak(), f"measured: large products, threads: {torch.get_num_threads()}"
    return None


def measured_peak(size: int = 1024, times: int = 12) -> float:
    """Returns the FLOP/s of the fastest of `times` fp32 products of [size, size] on this CPU, 2 size³ FLOPs each."""
    a, b = torch.ones(size, size), torch.ones(size, size)
    return 2 * size**3 / min(timeit.repeat(lambda: a @ b, number=1, repeat=times))
