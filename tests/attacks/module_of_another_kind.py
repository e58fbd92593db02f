"""Gives its module a class of its own, which raises at each name that is looked up and missing."""

import sys
import types

ON, EARNS, STATUS = "stubs", 0, "killed"


class Odd(types.ModuleType):
    def __getattr__(self, name):
        raise RuntimeError("there is nothing here")


for one in ("train_step", "evaluate", "learning_rate", "overfit_one_batch", "save_checkpoint"):
    globals().pop(one)
sys.modules[__name__].__class__ = Odd
