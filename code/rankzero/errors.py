"""Mistakes and limits that a learner is told about in one sentence, without a traceback."""


class UserError(Exception):
    """A mistake that the user can mend. Its text is one sentence: the value, the file, the way out.

    Programs print it without a traceback and exit with code 2.
    """


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory ran out: torch on CUDA, torch on the CPU, and NumPy each say it differently."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error).lower())
