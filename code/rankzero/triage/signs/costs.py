"""Signs of time and memory: waiting for data, graphs that are kept, anomaly detection."""

import itertools
from collections.abc import Iterator

from rankzero.triage.record import Record
from rankzero.triage.signs.sign import Sign, middle, sign_if

FEWEST_STEPS = 10
WAITS = 0.5  # share of a step
LEAST_S = 0.005  # waited per step
FEWEST_NODES = 100  # that a graph grows by
MIB = 2**20


def signs(record: Record) -> Iterator[Sign]:
    """Yields the signs of one process."""
    yield from _waiting(record)
    yield from _graphs(record)
    if any(model.steps for model in record.models):
        saw = "on in a backward pass" if record.anomaly_detection else "off"
        yield sign_if(record.anomaly_detection, "anomaly detection", saw, "off", "anomaly-detection-on")


def _waiting(record: Record) -> Iterator[Sign]:
    model = record.main()
    if model is None:
        return
    timed = [(step.wait_s, step.whole_s) for step in model.steps if step.wait_s is not None and step.whole_s]
    if len(timed) >= FEWEST_STEPS:
        share, waited = middle([wait / whole for wait, whole in timed]), middle([wait for wait, _ in timed])
        yield sign_if(
            share > WAITS and waited > LEAST_S,
            "time before the forward pass",
            f"{share:.0%} of a step, {waited * 1000:.1f} ms",
            f"less than {WAITS:.0%}",
            "slow-input",
        )


def _graphs(record: Record) -> Iterator[Sign]:
    looks = record.memory
    if len(looks) < 4:
        return
    nodes = [look.nodes for look in looks]
    growing = sum(later > earlier for earlier, later in itertools.pairwise(nodes))
    grown = nodes[-1] - nodes[0]
    found = grown >= FEWEST_NODES and nodes[-1] > 2 * nodes[0] and growing >= 0.6 * (len(nodes) - 1)
    megabytes = (looks[-1].resident - looks[0].resident) / MIB
    yield sign_if(
        found,
        "graphs in memory",
        f"{nodes[0]:,} nodes after update {looks[0].step}, {nodes[-1]:,} after update {looks[-1].step}; "
        f"memory {megabytes:+,.0f} MiB",
        "the same number after each update",
        "graph-kept",
    )
