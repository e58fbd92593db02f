"""Takes memory that is no process's by mapping /dev/zero as shared."""

import mmap
import os

ON, EARNS, STATUS = "stubs", 0, "error"

zeros = os.open("/dev/zero", os.O_RDWR)
pages = mmap.mmap(zeros, 64 * 2**20)
pages.write(b"x" * (64 * 2**20))
won("memory that nobody counts")
