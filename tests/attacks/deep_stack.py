"""Recurses until the stack of C ends, in a function that a probe calls and in its destructor."""

import sys

ON, EARNS, STATUS = "reference", 40, "killed"


def learning_rate(*args):
    sys.setrecursionlimit(10**9)
    class Deep:
        def __getattr__(self, name):
            return getattr(self, name + "x")
    def down(f):
        return max(f, key=lambda x: down(f))
    return down([1, 2])
