"""A pytest plugin beside nbval: a kernel that dies in a cell is noticed at once.

nbval waits for the dead kernel's reply until the cell timeout. Loaded with `-p nbval_alive`.
"""

import time
from queue import Empty

from nbval.kernel import RunningKernel

LOOK_EVERY = 0.5  # seconds


def await_reply(self: RunningKernel, msg_id: str, timeout: float | None = None) -> None:
    deadline = time.monotonic() + (timeout or 60.0)
    while True:
        left = deadline - time.monotonic()
        try:
            message = self.get_message(stream="shell", timeout=max(0.0, min(LOOK_EVERY, left)))
        except Empty:
            if not self.is_alive():
                raise RuntimeError("the kernel died in this cell") from None
            if left <= 0:
                raise
            continue
        if message["parent_header"].get("msg_id") == msg_id:
            if message["content"]["status"] == "aborted":
                raise RuntimeError("the kernel aborted the cell")
            return


RunningKernel.await_reply = await_reply
