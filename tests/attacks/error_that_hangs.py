"""Raises an error whose text never comes."""

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5


class Hanging(Exception):
    def __str__(self):
        while True:
            pass

    __repr__ = __float__ = __reduce__ = __str__


def train_step(*_):
    raise Hanging
