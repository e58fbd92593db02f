"""Accelerators by their data sheets, and this machine by its measurement: peak FLOP/s, memory, bandwidths.

Peaks come from `learn.machine.device`, measured rates from the file that Lab 00 keeps.

Rates are one way: a sheet's "900 GB/s NVLink" is 450 out and 450 in. The network is one port for each GPU, as in
NVIDIA's DGX machines: 200 Gbit/s InfiniBand with an A100, 400 Gbit/s with an H100 or H200.
"""

import math
from dataclasses import dataclass

from rankzero.errors import UserError
from rankzero.learn.machine.device import PEAKS, choose_device
from rankzero.learn.machine.measured_machine import measured_machine


@dataclass(frozen=True)
class Hardware:
    """One GPU of a cluster. Bytes are decimal, as sheets count: 80 GB = 80 * 10^9."""

    name: str
    peaks: tuple[float, float, float]  # dense FLOP/s: fp32, tf32, bf16
    memory: int  # bytes
    hbm: float  # bytes/s of its memory
    nvlink: float  # bytes/s to other GPUs of the node, one way; 0 where no link is known
    network: float  # bytes/s to other nodes, one way
    source: str

    def flops(self, weight_bytes: int, autocast: bool) -> float:
        """Returns the dense peak FLOP/s for weights of that width: of bf16, or of fp32 without tensor cores."""
        return self.peaks[2] if weight_bytes == 2 or autocast else self.peaks[0]

    def bandwidth(self, ranks: int, stride: int, per_node: int, world_size: int) -> float:
        """Returns the bytes/s, one way, of a rank in a ring of `ranks`, `stride` apart, on nodes of `per_node` GPUs.

        A ring within a node uses NVLink. A ring that leaves the node crosses the network: k ranks of the ring in each
        node make k rings through k ports, whose bandwidths add up, at most to NVLink's. If groups and nodes do not
        divide each other, this is the bandwidth of the worst group, with the fewest ranks in some node.
        """
        span = ranks * stride
        if world_size <= per_node or per_node % span == 0:
            return self.nvlink
        return min(self.nvlink, max(1, math.gcd(span, per_node) // stride) * self.network)


SHEETS = "https://www.nvidia.com/en-us/data-center"
GB = 10**9
MEASURED = "measured"  # the name of this machine's own device
HARDWARE = {
    "a100": Hardware("A100 80 GB SXM", PEAKS["A100"], 80 * GB, 2.039e12, 300e9, 25e9, f"{SHEETS}/a100/"),
    "h100": Hardware("H100 SXM", PEAKS["H100 80GB HBM3"], 80 * GB, 3.35e12, 450e9, 50e9, f"{SHEETS}/h100/"),
    "h200": Hardware("H200 SXM", PEAKS["H200"], 141 * GB, 4.8e12, 450e9, 50e9, f"{SHEETS}/h200/"),
}


def find_hardware(name: str) -> Hardware:
    """Returns the hardware called `name`. UserError for an unknown name, or where this machine was not measured."""
    if name == MEASURED:
        return this_machine()
    if name not in HARDWARE:
        raise UserError(f"there is no hardware {name!r}: use one of {', '.join((*HARDWARE, MEASURED))}.")
    return HARDWARE[name]


def this_machine() -> Hardware:
    """Returns this machine's device by the rates that Lab 00 has measured; its links are not known.

    UserError where there is no measurement, or it is of another machine.
    """
    machine = measured_machine(choose_device())
    fp32 = machine.peaks["fp32"]
    peaks = fp32, machine.peaks.get("tf32", fp32), machine.peaks.get("bf16", fp32)
    source = f"measured by Lab 00 on {machine.date[:10]}"
    return Hardware(machine.name, peaks, machine.memory, machine.bandwidth, 0.0, 0.0, source)
