"""Linux namespaces: isolates one forked process by system calls, with an empty /tmp and without capabilities.

bubblewrap does the same for a program that it starts. A process that has already imported torch must isolate itself
after a fork. The process runs inside bubblewrap, without any privilege.
"""

import contextlib
import ctypes
import fcntl
import os
import platform
import resource
import socket
import struct
from pathlib import Path

from rankzero.grading.sandbox.seccomp_filter import seccomp_filter

MAX_PROCESSES = 256  # threads count too; eight ranks with gloo's threads are about 100
MAX_OPEN_FILES = 256
TMP_MIB = 256  # the size of /tmp and of /dev/shm, each
TMP_FILES = 16384  # files and folders; each takes a kilobyte of kernel memory, which no limit counts
BUFFER_BYTES = 212992  # the largest buffer of a socket in one direction, which counts as the memory of no process
USER_ID = 1000  # of a submission, in the sandbox

_libc = ctypes.CDLL(None, use_errno=True)

# <linux/sched.h>
_NAMESPACES = {"CLONE_NEWNS": 0x20000, "CLONE_NEWCGROUP": 0x2000000, "CLONE_NEWUTS": 0x4000000}
_NAMESPACES |= {"CLONE_NEWIPC": 0x8000000, "CLONE_NEWUSER": 0x10000000, "CLONE_NEWPID": 0x20000000}
_NAMESPACES |= {"CLONE_NEWNET": 0x40000000}
# <sys/mount.h>
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 1 << 5
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
# <sys/prctl.h>
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41  # <linux/sockios.h>, <linux/if.h>
_SECCOMP_MODE_FILTER = 2


def enter_namespaces() -> None:
    """Moves this process, which must have one thread, and its next child into new namespaces of all kinds."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", sum(_NAMESPACES.values()))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{USER_ID} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{USER_ID} {group} 1")


def set_up_namespaces() -> None:
    """Gives the first process of new namespaces its own /proc, an empty /tmp and /dev/shm, and a loopback interface."""
    _call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    _call("mount", b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)
    size = f"size={TMP_MIB}m,nr_inodes={TMP_FILES},mode=700".encode()
    for folder in (b"/tmp", b"/dev/shm"):
        _call("mount", b"tmpfs", folder, b"tmpfs", _MS_NOSUID | _MS_NODEV, size)
    _call("mount", b"/dev/null", b"/dev/zero", None, _MS_BIND, None)  # shared mappings of it count for no process
    with socket.socket() as interface:
        fcntl.ioctl(interface, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP_RUNNING))
    for buffer in ("tcp_rmem", "tcp_wmem"):  # buffers without a limit grow to megabytes
        Path(f"/proc/sys/net/ipv4/{buffer}").write_text(f"4096 131072 {BUFFER_BYTES}")
    socket.sethostname("sandbox")
    # A new user namespace would bring capabilities; queues of file events would take memory that no limit counts.
    for refused in ("user_namespaces", "inotify_instances", "fanotify_groups"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"/proc/sys/user/max_{refused}").write_text("0")


def fixed_file(path: Path) -> int:
    """Makes an empty file at `path` that no process can change, remove or replace.

    Returns the only file descriptor that can write it.
    """
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    place, read_only = bytes(path), _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    _call("mount", place, place, None, _MS_BIND, None)
    _call("mount", None, place, None, read_only, None)
    return writer


def drop_privileges() -> None:
    """Drops every capability for good, sets limits and installs the seccomp filter. Forked processes inherit them."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for capabilities that this kernel lacks
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
    _call("capset", header, bytes(24))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    limits = {"CORE": 0, "NPROC": MAX_PROCESSES, "NOFILE": MAX_OPEN_FILES, "MSGQUEUE": 0}
    for name, limit in (limits | {"MEMLOCK": 2**23, "SIGPENDING": 1024}).items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    instructions = seccomp_filter(platform.machine())
    code = ctypes.create_string_buffer(b"".join(instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)
    _call("prctl", _PR_SET_PDEATHSIG, 9, 0, 0, 0)
    set_hidden()


def set_hidden(hidden: bool = True) -> None:
    """Sets whether other processes of the same user are refused the memory and the files of this process."""
    _call("prctl", _PR_SET_DUMPABLE, int(not hidden), 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    """Calls a function of the C library. OSError if it fails."""
    if getattr(_libc, name)(*arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
