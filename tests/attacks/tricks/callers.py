import sys


def callers_values():
    """What the callers of this answer hold, by their own names for it."""
    frame = sys._getframe(1)
    while frame is not None:
        yield from list(frame.f_locals.values())
        frame = frame.f_back
