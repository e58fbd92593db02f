"""User errors: mistakes that a command reports in one sentence, without a traceback."""


class UserError(Exception):
    """A mistake that the user can fix. Its text is one sentence: the wrong value, the file, the way out.

    Commands and starters print the text alone and exit with code 2. A room defines a subclass only where a caller
    must tell one user error from another. Failures that no user caused (of ranks, of a sandbox) are no user errors.
    """


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory ran out: torch on CUDA, torch on the CPU, and NumPy each say it differently."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error).lower())
