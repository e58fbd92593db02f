"""Claims of handbook/errata.md, section *Distributed*: the time of an exchange of gradients."""

from collections.abc import Mapping

from rankzero.claims.claim import claim
from rankzero.learn.distributed.collectives import RING
from rankzero.ledger.hardware import HARDWARE

from .shared import GB


def exchange_ms(payload: float, device: str, nodes: int, per_node: int) -> float:
    """Milliseconds in which each rank of a ring sends its part of `payload` bytes; a port per rank between nodes."""
    ranks = nodes * per_node
    bandwidth = HARDWARE[device].bandwidth(ranks, stride=1, per_node=per_node, world_size=ranks)
    return 1000 * RING["all_reduce"](ranks) * payload / bandwidth


@claim(
    "errata-exchange-time",
    "The 14 GB of a 7B model's 16-bit gradients take {expected[16-bit, 2 full nodes]} ms on 16 H100s in two full nodes "
    "(8 ports, 400 GB/s) and {expected[16-bit, 16 nodes]} ms with one rank per node (one port, 50 GB/s). The 1.4 GB of "
    "a 350M model in fp32 take {expected[1.4 GB, four A100s]} ms on four A100s by NVLink (300 GB/s).",
    expected={
        "16-bit, 2 full nodes": 65.625,
        "16-bit, 16 nodes": 525,
        "fp32, 2 full nodes": 131.25,
        "fp32, 16 nodes": 1050,
        "1.4 GB, four A100s": 7,
    },
    unit="ms",
    tolerance=1e-6,
)
def exchange_time() -> Mapping[str, float]:
    """Divides the bytes that a rank of a ring sends by the bandwidth, one way, of the links that the ring uses."""
    times = {
        f"{name}, {place}": exchange_ms(7 * size * GB, "h100", nodes, per_node)
        for name, size in (("16-bit", 2), ("fp32", 4))
        for place, nodes, per_node in (("2 full nodes", 2, 8), ("16 nodes", 16, 1))
    }
    return times | {"1.4 GB, four A100s": exchange_ms(1.4 * GB, "a100", nodes=1, per_node=4)}


@claim(
    "errata-nothing-hidden",
    "Four ranks that compute for 80 ms and then exchange for 7 ms are {expected} times as fast as one rank.",
    expected=3.68,
    unit="times as fast",
    tolerance=0.005,
)
def nothing_hidden() -> float:
    """Divides 4 steps' computation by the time of a step in which nothing of the exchange is hidden."""
    compute = 80.0
    return 4 * compute / (compute + exchange_ms(1.4 * GB, "a100", nodes=1, per_node=4))
