"""Shuts a process into a room of its own: namespaces, empty folders, no capability, no way to any. Linux only.

bubblewrap does this for a program that it starts. A warm process must do it to itself, after a fork, with the same
system calls; it runs inside bubblewrap already, as nobody in particular.
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

PROCESSES = 256  # threads count too; eight ranks with gloo's have about 100
FILES = 256
TMP_MIB = 256  # what fits into /tmp and /dev/shm, each
TMP_FILES = 16384  # each costs the kernel a kilobyte that counts nowhere
SOCKET_BYTES = 425984  # the most that a socket's buffer holds here, which is no process's memory
USER = 1000  # who a submission is, inside

_libc = ctypes.CDLL(None, use_errno=True)

# <linux/sched.h>
_NEW = {"ns": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000} | {
    "pid": 0x20000000,
    "net": 0x40000000,
}
# <sys/mount.h>
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 1 << 12, 1 << 14, 1 << 18
# <sys/prctl.h>
_PDEATHSIG, _DUMPABLE, _SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 4, 22, 24, 38

# Memory that no limit counts, other processes' memory and files, keys that outlive a process, what a kernel's bugs are
# about, and what would slow down another process of the room, the warden too, or get more than a share of the machine.
_REFUSED = {
    "x86_64": {
        *(319, 447, 29, 64, 68, 240),  # memfd_create, memfd_secret, shmget, semget, msgget, mq_open
        *(
            101,
            310,
            311,
            438,
            248,
            249,
            250,
        ),  # ptrace, process_vm_readv, _writev, pidfd_getfd, add_, request_key, keyctl
        *(298, 321, 323, 425, 426, 427),  # perf_event_open, bpf, userfaultfd, io_uring_setup, _enter, _register
        *(
            141,
            142,
            144,
            203,
            314,
            251,
            112,
        ),  # setpriority, sched_setparam, _scheduler, _affinity, _attr, ioprio_set, setsid
    },
    "aarch64": {
        *(279, 447, 194, 190, 186, 180),
        *(117, 270, 271, 438, 217, 218, 219),
        *(241, 280, 282, 425, 426, 427),
        *(140, 118, 119, 122, 274, 30, 157),
    },
}
# Those that may be called with some arguments: (number, which argument, bits of it that matter, values, whether these
# are the allowed ones).
_SOME = {
    machine: (
        (limits, 0, ~0, (0,), True),  # prlimit64: of the process itself; pid 1's limits would be at hand too
        (open_socket, 0, ~0, (1, 2, 10, 16), True),  # socket: unix, inet, inet6, netlink; no namespace shuts in vsock
        (map_memory, 3, 0x21, (0x21,), False),  # mmap: MAP_SHARED | MAP_ANONYMOUS is memory that is nobody's
    )
    for machine, limits, open_socket, map_memory in (("x86_64", 302, 41, 9), ("aarch64", 261, 198, 222))
}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # <linux/audit.h>


def new_namespaces() -> None:
    """Gives this process, which must have one thread, a user namespace of its own, and its next child all others."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", sum(_NEW.values()))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{USER} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{USER} {group} 1")


def furnish() -> None:
    """As the first process of the new namespaces: its own /proc, empty /tmp and /dev/shm, a loopback that is up."""
    _call("mount", None, b"/", None, _REC | _PRIVATE, None)
    _call("mount", b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC, None)
    for folder in (b"/tmp", b"/dev/shm"):
        _call(
            "mount",
            b"tmpfs",
            folder,
            b"tmpfs",
            _NOSUID | _NODEV,
            f"size={TMP_MIB}m,nr_inodes={TMP_FILES},mode=700".encode(),
        )
    _call("mount", b"/dev/null", b"/dev/zero", None, _BIND, None)  # mapped shared, it is memory that is nobody's
    with socket.socket() as one:
        name = struct.pack("16sh", b"lo", 0x41)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(one, 0x8914, name)  # SIOCSIFFLAGS
    for buffer in ("tcp_rmem", "tcp_wmem"):  # without a limit they grow to megabytes
        Path(f"/proc/sys/net/ipv4/{buffer}").write_text(f"4096 131072 {SOCKET_BYTES}")
    socket.sethostname("room")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")  # a new one would bring capabilities


def lock() -> None:
    """Gives up every capability and the way to any; sets limits. Whoever is forked from now on has the same."""
    for capability in range(64):
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # those that this kernel has
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
    _call("capset", header, bytes(24))
    _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    limits = {"CORE": 0, "NPROC": PROCESSES, "NOFILE": FILES, "MSGQUEUE": 0, "MEMLOCK": 2**23, "SIGPENDING": 1024}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    _refuse_calls()
    _call("prctl", _PDEATHSIG, 9, 0, 0, 0)
    hide()


def hide(hidden: bool = True) -> None:
    """Whether processes of the same user may look into this one's memory and files."""
    _call("prctl", _DUMPABLE, int(not hidden), 0, 0, 0)


def _refuse_calls() -> None:
    """A seccomp filter, <linux/filter.h>: of another architecture, the end; of a refused call, EPERM."""
    machine = platform.machine()
    if machine not in _REFUSED:
        raise OSError(f"no list of system calls for {machine}")
    load, equal, above, mask, give = 0x20, 0x15, 0x35, 0x54, 0x06  # LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, ALU|AND|K, RET|K
    allow, refuse, end = 0x7FFF0000, 0x00050001, 0x80000000  # SECCOMP_RET_ALLOW, _ERRNO | EPERM, _KILL_PROCESS
    rules = [(load, 0, 0, 4), (equal, 1, 0, _ARCHITECTURE[machine]), (give, 0, 0, end), (load, 0, 0, 0)]
    rules += [(above, 0, 1, 0x40000000), (give, 0, 0, refuse)]  # x32's numbers
    for number in sorted(_REFUSED[machine]):
        rules += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    for number, argument, bits, values, allowed in _SOME[machine]:
        found, other = (allow, refuse) if allowed else (refuse, allow)
        asked = [(load, 0, 0, 16 + 8 * argument), (mask, 0, 0, bits & 0xFFFFFFFF)]  # the lower half is what counts
        for value in values:
            asked += [(equal, 0, 1, value), (give, 0, 0, found)]
        asked += [(give, 0, 0, other)]
        rules += [(equal, 0, len(asked), number), *asked]
    rules += [(give, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code))
    _call("prctl", _SECCOMP, 2, program, 0, 0)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
