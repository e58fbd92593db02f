"""Messages through a pipe or a socket: four bytes of length, then the message."""

import os
import struct


def read_frame(fd: int) -> bytes | None:
    """One message; None at the end of the stream."""
    head = _read(fd, 4)
    return None if len(head) < 4 else _read(fd, struct.unpack("<I", head)[0])


def write_frame(fd: int, data: bytes) -> None:
    """Writes one message."""
    view = memoryview(struct.pack("<I", len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]


def _read(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (chunk := os.read(fd, min(size - len(data), 2**20))):
        data += chunk
    return bytes(data)
