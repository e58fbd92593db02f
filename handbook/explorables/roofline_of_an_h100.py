"""Explorable: a layer on the roofline of a GPU, by its rows and its width."""

from rankzero.ledger.hardware import HARDWARE


def intensity(rows: int, width: int) -> float:
    """Returns FLOPs per byte of `rows` rows times a bf16 matrix [width, width]: two reads and a write, 2 bytes each."""
    return 2 * rows * width**2 / (2 * (2 * rows * width + width**2))


def attainable(intensity: float, peak: float, bandwidth: float) -> float:
    """Returns the roof at an intensity: FLOP/s that neither the peak nor the memory's bandwidth forbids."""
    return min(peak, intensity * bandwidth)


FORMULAS = (intensity, attainable)
DATA = {machine.name: {"peak": machine.peaks[2], "bandwidth": machine.hbm} for machine in HARDWARE.values()}
