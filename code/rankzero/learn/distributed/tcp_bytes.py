"""Bytes that really leave a process through its TCP connections, as Linux counts them. Gloo's messages go there."""

import os
import socket
import struct
import sys

from rankzero.errors import UserError

_TCP_INFO, _BYTES_SENT = 11, 200  # Linux, include/uapi/linux/tcp.h: struct tcp_info, tcpi_bytes_sent (since 4.19),
# followed by tcpi_bytes_retrans: what was sent again, as happens on a busy machine


def tcp_bytes_sent() -> int:
    """Payload bytes that the open TCP connections of this process have sent since they were made.

    Take the difference around a collective, after a barrier. UserError where the system is not Linux.
    """
    if sys.platform != "linux":
        raise UserError(f"bytes of a connection are counted on Linux only, not on {sys.platform}.")
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256)
        except OSError:  # no TCP, or closed since it was listed
            continue
        if len(info) >= _BYTES_SENT + 16:
            sent, again = struct.unpack_from("QQ", info, _BYTES_SENT)
            total += sent - again
    return total
