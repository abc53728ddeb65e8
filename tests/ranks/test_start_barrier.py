"""What fails before a rank begins is the machine's fault or ours: no answer has run."""

import os
import re

import pytest
import torch.distributed as dist

from hpml.ranks import launch
from hpml.ranks.parent import warm

# A warm server in which something is broken
BROKEN = """
import os, socket, sys
from hpml.ranks.proxy import proxy
from hpml.ranks.server import server
from hpml.ranks.supervisor import forking
ours = forking.drop_privileges
def refuse():
    if {when}:
        {what}
    ours()
forking.drop_privileges = refuse
control = socket.socket(fileno=int(sys.argv[1]))
server.prepare(sys.argv[2])
{also}
server.serve(control)
"""


@pytest.fixture
def broken(monkeypatch):
    servers = []

    def make(what="raise OSError(28, 'no more namespaces')", when="True", also=""):
        main = BROKEN.format(what=what, when=when, also=also)
        monkeypatch.setattr(warm, "_MAIN", main)
        servers.append(warm.WarmServer())
        return warm.using(servers[-1])

    yield make
    for server in servers:
        server.kill()


def leaves_a_file(path):
    with open(path, "a") as file:
        file.write("an answer ran\n")


@pytest.mark.parametrize("proxied", [False, True])
def test_a_rank_that_cannot_be_set_up_is_no_rank_that_left(broken, proxied):
    with broken(), pytest.raises(warm.ServerDied) as died:
        launch(lambda: 1, 2, proxied=proxied)
    assert died.value.began is False
    if not proxied:  # else its proxy may be the first
        assert "could not be set up: OSError: [Errno 28] no more namespaces" in str(died.value)


@pytest.mark.parametrize("what", ["raise OSError(28, 'full')", "os.kill(os.getpid(), 9)"])
def test_where_one_rank_cannot_be_set_up_no_other_begins(broken, tmp_path, what):
    first, ran = str(tmp_path / "first"), str(tmp_path / "ran")
    # Exactly one of the ranks makes the file, and is the one that is refused
    when = f"_only_one({first!r})"
    one = (
        "def _only_one(path):\n"
        "    try:\n"
        "        os.close(os.open(path, os.O_CREAT | os.O_EXCL))\n"
        "        return True\n"
        "    except FileExistsError:\n"
        "        return False\n"
    )
    with broken(what, when, one), pytest.raises(warm.ServerDied) as died:
        launch(leaves_a_file, 3, inputs=[ran] * 3, process_group=False, timeout=20)
    assert died.value.began is False
    assert "could not be set up" in str(died.value)
    assert not os.path.exists(ran)


def test_a_proxy_that_fails_is_not_a_rank_that_was_killed(broken):
    also = "def fails(*_): raise OSError(24, 'no more files')\nproxy._pass_down = fails"
    with broken(when="False", also=also), pytest.raises(warm.ServerDied) as died:
        launch(lambda: 1, 2, proxied=True)
    assert died.value.began is False
    # The proxy's end may be heard first, or that of the rank which it leaves alone.
    assert re.search(r"the proxy of rank \d ended|could not be set up", str(died.value))


def test_an_answer_that_leaves_with_that_code_is_still_an_answer_that_left():
    def drive():
        os._exit(70)

    for proxied in (False, True):
        evidence = launch(drive, 2, proxied=proxied)
        assert evidence.diagnosis.kind == "exited"
        assert "70" in evidence.diagnosis.sentence


def test_ranks_begin_when_all_are_set_up():
    assert launch(dist.get_rank, 4, proxied=True).values == (0, 1, 2, 3)
