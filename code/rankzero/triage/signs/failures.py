"""Signs of an error that ended the script: known messages and their causes."""

import re
from collections.abc import Iterator

from rankzero.triage.record import Record
from rankzero.triage.signs.sign import Sign

LONGEST = 200  # characters of a message
# The first cause with a pattern that the message matches is taken.
MESSAGES = {
    "loss-without-graph": (r"does not require grad and does not have a grad_fn",),
    "two-devices": (
        *(r"on the same device", r"different devices?", r"at least two devices", r"not on the expected device"),
        *(r"is on (cpu|cuda|meta)\b", r"is on \w+(:\d)?, different from", r"Unhandled FakeTensor Device"),
    ),
    "wrong-dtype": (
        *(r"same dtype", r"expected scalar type", r"but got \w+Tensor", r"can't be cast", r"expected .* dtype"),
        *(r"not implemented for '\w+'", r"[Ii]nput type \(.*\) and (bias|weight) type"),
    ),
    "second-backward": (r"backward through the graph a second time",),
    "changed-in-place": (r"modified by an inplace operation", r"leaf Variable .* in-place operation"),
    "label-out-of-range": (r"Target -?\d+ is out of bounds", r"index out of range", r"device-side assert"),
    "out-of-memory": (r"out of memory", r"can't allocate memory", r"not enough memory"),
    "ranks-in-different-collectives": (
        *(r"same collective", r"lost the connection to another rank", r"another rank sent more", r"waited for rank"),
        *(r"no answer after", r"[Tt]imed? ?out waiting", r"Watchdog caught"),
    ),
    "wrong-shape": (
        *(r"shapes? cannot be multiplied", r"size mismatch", r"must match", r"must be equal", r"shape .* is invalid"),
        *(r"shapes? .*incompatible", r"[Ee]xpected (input|target|\d-?D)", r"sizes? of tensors?", r"view size"),
    ),
}


def signs(record: Record) -> Iterator[Sign]:
    """Yields the sign of the error that ended a process."""
    failure = record.failure
    if failure:
        first_line = failure.message.strip().split("\n")[0][:LONGEST]
        yield Sign(
            "end of the script", f"{failure.kind}: {first_line}", "no error", cause_of(failure.message), failure.place
        )


def cause_of(message: str) -> str:
    """Returns the key of the cause of an error's message."""
    for cause, patterns in MESSAGES.items():
        if any(re.search(pattern, message) for pattern in patterns):
            return cause
    return "raises"
