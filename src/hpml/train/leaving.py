"""How a process ends that has used Gloo."""

import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process now, without the interpreter's own end, when all that it had to write is
    written: a thread of Gloo's that is about to let go of a tensor aborts it there, now and then
    ("terminate called without an active exception", https://github.com/pytorch/pytorch/pull/179291)
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
