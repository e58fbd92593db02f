"""Units of handbook/errata.md, and bytes per state of a ledger."""

from rankzero.ledger.ledger import Kind, Ledger

GB, GIB = 10**9, 2**30


def states(ledger: Ledger) -> dict[str, int]:
    """Bytes of weights, gradients and optimizer state by row; step counts, a few bytes per tensor, left out."""
    wanted = (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
    return {row.name: row.bytes for row in ledger.rows if row.kind in wanted and row.name != "step counts"}
