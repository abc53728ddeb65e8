"""The cores that mpirun gives to ranks, asked of the ranks themselves."""

import os
import shutil

import pytest

from hpml.errors import UserError
from hpml.modules.m05_horovod.lecture import binding
from hpml.modules.m05_horovod.lecture.binding import cores_by_rank, per_socket

needs_two_cores = pytest.mark.skipif(
    not shutil.which("mpirun") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Open MPI and two cores",
)


def test_ranks_are_shared_out_over_the_sockets():
    assert per_socket(2, 1) == "--map-by ppr:2:socket --bind-to socket"
    assert per_socket(2, 2) == "--map-by ppr:1:socket --bind-to socket"
    assert per_socket(3, 2) == "--map-by ppr:2:socket --bind-to socket"


@needs_two_cores
def test_unbound_ranks_have_every_core():
    assert cores_by_rank(["--bind-to", "none"]) == [sorted(os.sched_getaffinity(0))] * 2


@needs_two_cores
def test_bound_ranks_have_cores_of_their_own():
    first, second = cores_by_rank(["--map-by", "core", "--bind-to", "core"])
    assert first
    assert second
    assert not set(first) & set(second)


@needs_two_cores
def test_mpi_in_this_process_does_not_stop_mpirun():
    """As after hvd.init() in a notebook: MPI sets its variables in C, where os.environ has none."""
    os.putenv("OMPI_MCA_ess", "singleton")
    try:
        assert len(cores_by_rank()) == 2
    finally:
        os.unsetenv("OMPI_MCA_ess")


@needs_two_cores
def test_what_mpirun_declines_is_a_user_error():
    with pytest.raises(UserError, match=r"^mpirun --bind-to nowhere: "):
        cores_by_rank(["--bind-to", "nowhere"])


def test_without_mpirun_there_is_a_user_error(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="mpirun: there is none here"):
        cores_by_rank()


@needs_two_cores
def test_an_mpirun_that_takes_too_long_is_a_user_error(monkeypatch):
    monkeypatch.setattr(binding, "LIMIT", 0.001)
    with pytest.raises(UserError, match=r"^mpirun: not done after 0\.001 s"):
        cores_by_rank()
