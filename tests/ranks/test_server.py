"""The process that ranks are forked from: it ends without a word when its parent has ended."""

import select
import socket
import subprocess
import sys

import pytest

SERVE = (
    "import socket, sys; from hpml.ranks.server import server; "
    "server.serve(socket.socket(fileno={}))"
)


@pytest.mark.parametrize("read", [False, True])
def test_a_server_ends_silently_when_its_parent_ends_whether_it_read_the_ready_or_not(read):
    ours, theirs = socket.socketpair()
    with subprocess.Popen(
        [sys.executable, "-c", SERVE.format(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        theirs.close()
        assert select.select([ours], [], [], 120)[0]
        if read:
            assert ours.recv(100) == b"ready\n"
        ours.close()
        assert server.communicate(timeout=300) == (None, "")
    assert server.returncode == 0


def test_a_server_whose_parent_ended_before_it_was_ready_ends_silently():
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        done = subprocess.run(
            [sys.executable, "-c", SERVE.format(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert (done.returncode, done.stderr) == (0, "")
