"""Takes memory that is no process's: mapped as shared, written, let go of, and still there."""

import mmap

ON, EARNS, STATUS = "stubs", 0, "error"

held = []
for _ in range(64):
    pages = mmap.mmap(-1, 64 * 2**20)
    pages.write(b"x" * (64 * 2**20))
    pages.madvise(mmap.MADV_DONTNEED)
    held.append(pages)
won("4 GiB of memory that nobody counts")
