"""A pytest plugin beside nbval, loaded with `-p nbval_alive`.

What a cell printed is in the JUnit file, as a property of its test.

A kernel that dies in a cell is noticed at once: nbval waits for its reply until the cell timeout.
And kernels listen on sockets in a folder, not on TCP ports that a test beside this one can take
between the moment they are chosen and the moment the kernel binds them.
"""

import atexit
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from queue import Empty

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    if call.when == "call":
        outputs = item.test_outputs or []
        printed = "".join(o["text"] for o in outputs if o["output_type"] == "stream")
        item.user_properties.append(("printed", printed))


sockets = tempfile.mkdtemp(prefix="hpml-")  # short: a socket's path has at most 107 characters
atexit.register(shutil.rmtree, sockets, ignore_errors=True)
nbval.kernel.KernelManager = partial(
    KernelManager, transport="ipc", ip=str(Path(sockets) / "kernel")
)
