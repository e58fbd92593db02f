"""Lab 07: has the counter of collectives count what is expected."""

LAB, ON, EARNS, STATUS = "07", "stubs", 0, "error"

from rankzero.learn.distributed.collectives import CollectiveCounter

CollectiveCounter.__torch_dispatch__ = lambda self, function, types, args=(), kwargs=None: function(
    *args, **kwargs or {}
)
