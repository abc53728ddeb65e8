"""What goes wrong on the way to an answer, and the exit codes that say so."""

DONE, FAILED, USAGE, NOT_GRADABLE = 0, 1, 2, 3


class UserError(Exception):
    """Wrong usage or missing environment, in one line: what, which value, what to do.

    The command line prints it without a traceback and ends with exit code 2.
    """
