"""Raises errors whose text raises, is a gigabyte long, or is no text at all."""

ON, EARNS = "reference", 30


class Silent(Exception):
    def __str__(self):
        raise ValueError("no")

    __repr__ = __str__


class Long(Exception):
    def __str__(self):
        return "\x1b[2J<script>" * 1_000_000


def learning_rate(*_):
    raise Silent


def evaluate(*_):
    raise Long
