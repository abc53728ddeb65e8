"""Open MPI's own count of messages: its files are read, and for real where there is an Open MPI."""

import pytest

from hpml.allreduce import mpi
from hpml.errors import UserError
from hpml.modules.m01_parallel_sgd.lecture import mpi_messages
from hpml.modules.m01_parallel_sgd.lecture.mpi_messages import Sent
from hpml.network import available

FILES = (
    "# POINT TO POINT\n"
    "E\t1\t0\t7 bytes\t1 msgs sent\t0,1\n"
    "I\t1\t0\t2000 bytes\t2 msgs sent\t0,2\n"
    "# COLLECTIVES\n"
    "C\t1\t0\t1000 bytes\t1 msgs sent\n"
    "I\t0\t1\t1000 bytes\t1 msgs sent\t0,1\n"
)


def test_of_a_file_the_messages_of_collectives_are_read():
    assert mpi_messages.sorted_lines(FILES) == [Sent(0, 1, 1, 1000), Sent(1, 0, 2, 2000)]


def test_a_ring_sends_to_the_neighbour_only():
    why = mpi.missing() or available.refusal()
    if why:
        pytest.skip(why)
    assert mpi_messages.messages_sent(1_200, 3, "1gbit", "ring") == [
        Sent(rank, (rank + 1) % 3, 4, 1_600) for rank in range(3)
    ]


def test_an_unknown_algorithm_and_files_that_are_not_there_are_errors(monkeypatch):
    with pytest.raises(UserError, match="'butterfly' is not known"):
        mpi_messages.messages_sent(4, 2, "1gbit", "butterfly")
    monkeypatch.setattr(mpi_messages, "missing", lambda: None)
    monkeypatch.setattr(mpi_messages, "run_on_hosts", lambda *_: None)
    with pytest.raises(UserError, match=r"no pml monitoring: no file sent\.0\.prof"):
        mpi_messages.messages_sent(4, 2, "1gbit")
