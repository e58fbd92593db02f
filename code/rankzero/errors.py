"""User errors: mistakes that a command reports in one sentence, without a traceback."""


class UserError(Exception):
    """A mistake that the user can fix. Its text is one sentence: the wrong value, the file, the way out.

    Commands and starters print the text alone and exit with code 2. A room defines a subclass only where a caller
    must distinguish its user errors. Failures that no user caused (of ranks, of a sandbox) are not user errors.
    """


def out_of_memory(error: BaseException) -> bool:
    """Returns whether memory ran out, which torch on CUDA, torch on the CPU and NumPy report by different errors."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error).lower())
