"""Seccomp filter: the system calls that a submission may not make."""

import struct

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # <linux/audit.h>

# By name, the numbers on x86_64 and aarch64.
REFUSED_CALLS = {
    # Memory that no limit counts.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "io_setup": (206, 0),
    # Pages that pipes keep after their process has unmapped them, of up to 2 MiB each.
    "vmsplice": (278, 75),
    "tee": (276, 77),
    "splice": (275, 76),
    # Rules of a process for itself, which the kernel keeps and counts for no process.
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    # Other processes' memory and files, and keys that outlive a process.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "add_key": (248, 217),
    "pidfd_getfd": (438, 438),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Large parts of the kernel, in which bugs are frequent.
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Priorities: they slow down the supervisor or other processes, or take more than a share of the machine.
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "setsid": (112, 157),
}
# Calls that depend on one argument: their numbers, the argument's index, its relevant bits, values of these bits, and
# whether these values are allowed (True) or refused (False).
CONDITIONAL_CALLS = (
    ((302, 261), 0, ~0, (0,), True),  # prlimit64: only of the process itself, not of pid 1
    ((41, 198), 0, ~0, (1, 2, 10, 16), True),  # socket: unix, inet, inet6, netlink; no namespace isolates vsock
    ((53, 199), 0, ~0, (1,), True),  # socketpair: unix
    ((54, 208), 2, ~0, (7, 8), False),  # setsockopt: SO_SNDBUF and SO_RCVBUF, buffers above the namespace's limit
    ((72, 25), 1, ~0, (6, 7, 37, 38, 1031), False),  # fcntl: locks of files, without a limit; F_SETPIPE_SZ
    ((157, 167), 0, ~0, (22,), False),  # prctl: PR_SET_SECCOMP
    ((9, 222), 3, 0x21, (0x21,), False),  # mmap: MAP_SHARED | MAP_ANONYMOUS is memory that counts for no process
)

# Instructions and results of a filter, <linux/filter.h> and <linux/seccomp.h>.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # _REFUSE: the call fails with EPERM


def seccomp_filter(machine: str) -> list[bytes]:
    """Returns the filter's instructions for a machine such as "x86_64": a refused call fails with EPERM, and a call of
    another architecture kills the process. OSError for a machine that ARCHITECTURES lacks.
    """
    if machine not in ARCHITECTURES:
        raise OSError(f"no list of system calls for {machine}")
    column = list(ARCHITECTURES).index(machine)
    program = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 1, 0, ARCHITECTURES[machine]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    program += [(_IF_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _REFUSE)]  # the numbers of x32
    for number in sorted(numbers[column] for numbers in REFUSED_CALLS.values()):
        program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    for numbers, index, bits, values, allowed in CONDITIONAL_CALLS:
        listed, other = (_ALLOW, _REFUSE) if allowed else (_REFUSE, _ALLOW)
        test = [(_LOAD, 0, 0, 16 + 8 * index), (_AND, 0, 0, bits & 0xFFFFFFFF)]  # only the lower half counts
        for value in values:
            test += [(_IF_EQUAL, 0, 1, value), (_RETURN, 0, 0, listed)]
        test += [(_RETURN, 0, 0, other)]
        program += [(_IF_EQUAL, 0, len(test), numbers[column]), *test]
    program += [(_RETURN, 0, 0, _ALLOW)]
    return [struct.pack("HBBI", *instruction) for instruction in program]
