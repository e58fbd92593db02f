"""TCP bytes: what a process sends through its TCP connections, which carry gloo's messages, as Linux counts them."""

import os
import socket
import struct
import sys

from rankzero.errors import UserError

# Linux, include/uapi/linux/tcp.h: struct tcp_info, tcpi_bytes_sent (since 4.19), followed by tcpi_bytes_retrans, the
# bytes that were sent again, as happens on a busy machine.
_TCP_INFO, _BYTES_SENT = 11, 200


def tcp_bytes_sent() -> int:
    """Returns the payload bytes that the open TCP connections of this process have sent since they were opened.

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
            sent, retransmitted = struct.unpack_from("QQ", info, _BYTES_SENT)
            total += sent - retransmitted
    return total
