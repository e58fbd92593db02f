"""Memory meter: the bytes that the processes, files and sockets of a sandbox take together."""

import os
from pathlib import Path

from rankzero.grading.sandbox.namespaces import BUFFER_BYTES

MIB = 2**20
# Kernel memory that one process can take without any count: tables of 65,530 mappings, 64 KiB for each of its pipes.
KERNEL_BYTES = 16 * MIB
MAX_SHARING = 12  # processes whose shared memory is looked for; a lab with eight ranks has the most


def memory_excess(limit: int) -> str:
    """Returns a sentence if the sandbox of this process, its supervisor, takes more than `limit` bytes, or ''.

    Memory that several processes share counts once. Finding it takes milliseconds per process, so it is looked for only
    where the processes would take too much without sharing, and only in the MAX_SHARING largest.
    """
    processes = [entry for entry in os.listdir("/proc") if entry.isdecimal() and entry != "1"]
    taken = KERNEL_BYTES * len(processes)
    taken += sum((disk.f_blocks - disk.f_bfree) * disk.f_frsize for disk in map(os.statvfs, ("/tmp", "/dev/shm")))
    taken += int(Path("/proc/net/sockstat").read_text().split()[2]) * 2 * BUFFER_BYTES
    if taken <= limit:  # many processes are too many before their memory is read
        amounts = {process: _resident_bytes(process) for process in processes}
        if taken + sum(amounts.values()) > limit:
            for process in sorted(amounts, key=amounts.__getitem__)[-MAX_SHARING:]:
                amounts[process] = _own_bytes(process)
        taken += sum(amounts.values())
    return "" if taken <= limit else f"it took more than {limit // MIB} MiB of memory"


def _resident_bytes(process: str) -> int:
    """Returns a process's bytes of memory, without files that it maps. No process can forge them."""
    return _sum_kilobytes(f"/proc/{process}/status", ("RssAnon", "VmPTE", "VmSwap", "HugetlbPages"))


def _own_bytes(process: str) -> int:
    """Returns a process's bytes, where pages of several processes count in equal parts for each of them.

    All bytes of a process that hides itself count.
    """
    try:
        divided = _sum_kilobytes(f"/proc/{process}/smaps_rollup", ("Pss_Anon", "SwapPss"))
    except PermissionError:
        return _resident_bytes(process)
    return divided + _sum_kilobytes(f"/proc/{process}/status", ("VmPTE", "HugetlbPages"))


def _sum_kilobytes(file: str, names: tuple[str, ...]) -> int:
    """Returns the sum of these lines, in bytes; 0 if the process has ended. PermissionError for a hidden process."""
    try:
        lines = [line.split() for line in Path(file).read_text(errors="replace").splitlines()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * sum(int(words[1]) for words in lines if words[:1] and words[0].rstrip(":") in names)
