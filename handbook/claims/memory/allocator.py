"""Claims of handbook/memory.md: CUDA's caching allocator."""

import concurrent.futures
import multiprocessing
import os
import unittest.mock
from collections.abc import Callable

import torch

from rankzero.claims.claim import claim

from .shared import (
    ALLOCATOR,
)


def in_a_fresh_process(function: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Runs `function` where no tensor was ever allocated, with the allocator's default settings."""
    context = multiprocessing.get_context("spawn")
    with unittest.mock.patch.dict(os.environ):
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            os.environ.pop(name, None)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(function).result()


def _bytes_of_one_tensor(size: int) -> tuple[int, int]:
    """Allocated and reserved bytes for a tensor of `size` bytes, the cache emptied before."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    after = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    del tensor
    return after[0] - before[0], after[1] - before[1]


def _one_byte() -> dict[str, float]:
    allocated, reserved = _bytes_of_one_tensor(1)
    return {"allocated": allocated, "reserved": reserved}


def _segments() -> dict[str, float]:
    mib = 2**20
    sizes = {"1 MiB": mib, "1 MiB + 1 B": mib + 1, "9 MiB": 9 * mib, "11 MiB": 11 * mib}
    return {name: _bytes_of_one_tensor(size)[1] / mib for name, size in sizes.items()}


def _fragments() -> dict[str, float]:
    mib = 2**20
    torch.cuda.empty_cache()
    tensors = [torch.empty(5 * mib, dtype=torch.uint8, device="cuda") for _ in range(16)]  # 4 in each segment of 20 MiB
    tensors = tensors[::4]
    free, reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    returned = reserved - torch.cuda.memory_reserved()
    tensors.append(torch.empty(20 * mib, dtype=torch.uint8, device="cuda"))
    newly = torch.cuda.memory_reserved() - (reserved - returned)
    return {"free": free / mib, "returned": returned / mib, "newly reserved": newly / mib}


@claim(
    "cuda-one-byte",
    "On CUDA a tensor of 1 byte raises allocated memory by {expected[allocated]} bytes and reserved memory by "
    "{expected[reserved]}.",
    expected={"allocated": 512, "reserved": 2 * 2**20},
    unit="B",
    source=ALLOCATOR,
    needs=("cuda",),
)
def cuda_one_byte() -> dict[str, float]:
    """Asks torch.cuda for both numbers before and after, in a fresh process."""
    return in_a_fresh_process(_one_byte)


@claim(
    "cuda-segments",
    "On CUDA the first tensor of 1 MiB reserves {expected[1 MiB]} MiB, one of a byte more or of 9 MiB reserves 20, "
    "one of 11 MiB {expected[11 MiB]}.",
    expected={"1 MiB": 2, "1 MiB + 1 B": 20, "9 MiB": 20, "11 MiB": 12},
    unit="MiB",
    source=ALLOCATOR,
    needs=("cuda",),
)
def cuda_segments() -> dict[str, float]:
    """Makes one tensor of each size with an empty cache, in a fresh process, and asks what is reserved."""
    return in_a_fresh_process(_segments)


@claim(
    "cuda-fragments",
    "With {expected[free]} MiB free in four gaps of 15, emptying the cache returns nothing, and a tensor of 20 MiB "
    "takes 20 MiB more from the device.",
    expected={"free": 60, "returned": 0, "newly reserved": 20},
    unit="MiB",
    needs=("cuda",),
)
def cuda_fragments() -> dict[str, float]:
    """Makes 16 tensors of 5 MiB in a fresh process, keeps every fourth, empties the cache, and asks for 20 MiB."""
    return in_a_fresh_process(_fragments)
