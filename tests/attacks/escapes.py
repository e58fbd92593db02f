"""Asks the kernel for a way out: other namespaces, mounts, another root, keys, and parts of it that had bugs."""

import ctypes
import os

ON, EARNS = "reference", 50

libc = ctypes.CDLL(None)
attempt("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
attempt("bind mount", lambda: libc.mount(b"/", b"/tmp", None, 4096, None))
attempt("remount", lambda: libc.mount(None, b"/usr", None, 32 | 4096, None))
attempt("umount", lambda: libc.umount2(b"/proc", 2))
attempt("umount of /tmp", lambda: libc.umount2(b"/tmp", 2))
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000)):
    attempt(f"unshare {name}", lambda flag=flag: libc.unshare(flag))
attempt("setns", lambda: libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("pivot_root", lambda: system_call(155, b"/", b"/tmp"))
attempt("open_tree", lambda: system_call(428, -100, b"/", 1))
attempt("fsopen", lambda: system_call(430, b"tmpfs", 0))
attempt("setuid", lambda: os.setuid(0))
attempt("keyctl", lambda: system_call(250, 0, -3, 1))
attempt("add_key", lambda: system_call(248, b"user", b"x", b"y", 1, -3))
attempt("io_uring_setup", lambda: system_call(425, 8, None))
attempt("bpf", lambda: system_call(321, 0, None, 0))
attempt("perf_event_open", lambda: system_call(298, None, 0, -1, -1, 0))
attempt("x32", lambda: system_call(0x40000000 + 39))
attempt("socket for virtual machines", lambda: system_call(41, 40, 1, 0))
attempt("packets", lambda: system_call(41, 17, 3, 0))
attempt("crypto sockets", lambda: system_call(41, 38, 5, 0))
attempt("sethostname", lambda: __import__("socket").sethostname("x"))
attempt("kernel's log", lambda: system_call(103, 3, ctypes.create_string_buffer(64), 64))
attempt("reboot", lambda: libc.reboot(0))


def clone():
    child = system_call(56, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return child


attempt("clone with a user namespace", clone)
