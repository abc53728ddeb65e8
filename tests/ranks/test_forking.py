"""What is forked for a launch is without the rights that it has itself, or is not there."""

import errno
import os

import pytest

from hpml.network import emulation
from hpml.ranks.inotify import CannotWatch
from hpml.ranks.supervisor import forking


@pytest.mark.parametrize(
    ("network", "apart", "refused"),
    [(None, False, False), (None, True, True), ("a network", False, True), ("one", True, True)],
)
def test_a_rank_that_cannot_leave_a_network_does_not_begin(monkeypatch, network, apart, refused):
    def refuse(*_, **__):
        raise OSError(28, "no more namespaces")

    monkeypatch.setattr(emulation, "enter_nothing", refuse)
    enclosed = []
    if refused:
        with pytest.raises(OSError, match="no more namespaces"):
            forking._leave_network(network, apart, lambda: enclosed.append(1))
    else:
        forking._leave_network(network, apart, lambda: enclosed.append(1))
    assert bool(enclosed) is not refused


def test_the_store_at_which_ranks_meet_has_no_rights(monkeypatch):
    read, write = os.pipe()
    monkeypatch.setattr(forking, "drop_privileges", lambda: os.write(write, b"dropped, "))
    monkeypatch.setattr(forking.rendezvous, "run", lambda _: os.write(write, b"served"))
    os.waitpid(forking._fork_store([], []), 0)
    os.close(write)
    with os.fdopen(read) as said:
        assert said.read() == "dropped, served"


@pytest.mark.parametrize(("free_after", "watches"), [(0, True), (2, True), (9, False)])
def test_a_watch_is_set_up_again_where_the_machine_had_none_left(monkeypatch, free_after, watches):
    tried, slept = [], []
    monkeypatch.setattr(forking.time, "sleep", slept.append)

    def watch():
        tried.append(1)
        if len(tried) <= free_after:
            raise CannotWatch(24, "none left")
        return "a watch"

    if watches:
        assert forking._patiently(watch) == "a watch"
        assert len(slept) == free_after
    else:
        with pytest.raises(CannotWatch, match="none left"):
            forking._patiently(watch)
        assert slept == list(forking.WATCH_WAITS)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "not there"),
        CannotWatch("only Linux reports it"),
        CannotWatch(errno.ENOSYS, "not in this kernel"),
    ],
)
def test_what_will_never_be_there_is_not_waited_for(monkeypatch, error):
    monkeypatch.setattr(forking.time, "sleep", lambda _: pytest.fail("it waited"))

    def watch():
        raise error

    with pytest.raises(type(error)):
        forking._patiently(watch)
