"""An exception that an answer raised in one of several cases, in words that name its line.

Where a drive goes on with its next case, the engine sees no exception that it could report.
"""

from types import ModuleType


def in_words(error: Exception, answer: ModuleType) -> str:
    """ "KeyError: 'RANK' (line 20 of your answer)": the innermost of the answer's lines."""
    first, _, _ = str(error).partition("\n")
    words = f"{type(error).__name__}: {first}"[:200]
    file = getattr(answer, "__file__", None)
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    named = line is None or " of your answer" in words
    return words if named else f"{words} (line {line} of your answer)"
