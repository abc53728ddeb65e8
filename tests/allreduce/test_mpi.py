"""MPI's algorithms over emulated links, for real where there is an Open MPI."""

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from hpml.allreduce import mpi
from hpml.errors import UserError
from hpml.network import available
from hpml.predict.collectives import all_reduce_bytes, seconds

from ..waiting import until


@pytest.fixture
def open_mpi():
    why = mpi.missing() or available.refusal()
    if why:
        pytest.skip(why)


def left_over() -> list[str]:
    """Command lines of processes that a measurement of this process started."""
    lines = [
        " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
    ]
    return [line for line in lines if f"hpml-mpi-{os.getpid()}-" in line]


@pytest.mark.usefixtures("open_mpi")
def test_ranks_are_on_hosts_of_their_own_behind_the_link():
    nbytes = 100_000
    few, many = mpi.mpi_all_reduce_seconds([4, nbytes], 3, "10mbit", "ring", repeats=[4, 2])
    assert (len(few), len(many)) == (4, 2)
    # No faster than the link lets bytes through, but for the bursts that it lets through at once
    assert min(many) > 0.7 * seconds(all_reduce_bytes(3, nbytes), 10e6)
    assert min(few) > 0
    assert left_over() == []


@pytest.mark.usefixtures("open_mpi")
def test_what_takes_too_long_is_ended_with_all_its_processes():
    with pytest.raises(UserError, match="longer than 4 s and was ended"):
        mpi.mpi_all_reduce_seconds([10_000_000], 2, "1mbit", repeats=5, timeout=4)
    assert left_over() == []


@pytest.mark.usefixtures("open_mpi")
def test_whoever_is_killed_takes_the_others_along():
    with ThreadPoolExecutor(1) as pool:
        measured = pool.submit(mpi.mpi_all_reduce_seconds, [10_000_000], 2, "1mbit", timeout=60)
        until(lambda: sum("mpi_rank.py" in line for line in left_over()) >= 4, "mpirun and ranks")
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended, as a zombie too
                if "hpml.allreduce.mpi_hosts" in child.cmdline():
                    child.kill()
        with pytest.raises(UserError, match="mpirun ended with -9"):
            measured.result(timeout=30)
    until(lambda: not left_over(), "the end of all ranks", 30)


def test_an_algorithm_that_open_mpi_has_not_is_refused():
    with pytest.raises(UserError, match="'butterfly' is not known: give default, basic_linear"):
        mpi.mpi_all_reduce_seconds([4], 2, "1gbit", "butterfly")


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (None, "mpirun is not installed"),
        ("mpirun (Open MPI) 5.0.7\n", "mpirun is mpirun (Open MPI) 5.0.7: what is used here"),
        ("HYDRA build details:\n", "mpirun is HYDRA build details"),
        ("", "mpirun is silent"),
    ],
)
def test_another_mpi_or_none_is_a_reason_in_words(monkeypatch, printed, why):
    monkeypatch.setattr(
        mpi.shutil, "which", lambda program: printed if printed is None else program
    )
    monkeypatch.setattr(mpi.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(mpi, "_output", lambda *command: printed)
    assert why in mpi.missing()
    with pytest.raises(UserError, match=r"^MPI: mpirun is "):
        mpi.mpi_all_reduce_seconds([4], 2, "1gbit")


def test_mpirun_is_asked_for_ranks_by_nobody_around(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    environment = mpi._environment()
    assert not any(name.startswith(("SLURM_", "OMPI_")) for name in environment)
    assert environment["PYTHONPATH"].endswith("elsewhere")
