"""Meshes of fake ranks, of which one exists, and the order of the collectives that it calls."""

import contextlib
import math
import warnings
from collections.abc import Iterator

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.ledger.plan.simulate import fake_world


@contextlib.contextmanager
def one_of(*shape: int, rank: int = 0) -> Iterator[DeviceMesh]:
    """A mesh of fake ranks of which only `rank` exists: its collectives return at once, with no data."""
    with fake_world(math.prod(shape), rank), warnings.catch_warnings(action="ignore"):
        yield init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])


def order(counter: CollectiveCounter) -> str:
    """The collectives as letters: all-gather G, reduce-scatter R, all-reduce A."""
    letters = {"all_gather": "G", "reduce_scatter": "R", "all_reduce": "A"}
    return "".join(letters[record.collective] for record in counter.records)
