"""Gloo beside MPI: one table, and one line where one of them is missing."""

import shutil

import pytest

from hpml.errors import UserError
from hpml.modules.m05_horovod.lecture import gloo_against_mpi
from hpml.modules.m05_horovod.lecture.gloo_against_mpi import Seconds
from hpml.ranks import flavour

needs_horovod = pytest.mark.skipif(
    flavour.missing("horovod") is not None, reason="needs Horovod for PyTorch"
)


def test_each_line_names_the_quicker_one():
    few, many = str(Seconds({4: 0.0005, 4_000_000: 0.002}, {4: 0.0007, 4_000_000: 0.001})).split(
        "\n"
    )
    assert few == "        4 bytes: Gloo   0.500 ms, MPI   0.700 ms: Gloo is quicker"
    assert many == "4,000,000 bytes: Gloo   2.000 ms, MPI   1.000 ms: MPI is quicker"


def test_a_small_difference_has_no_winner():
    found = Seconds({4: 0.0010}, {4: 0.0011})
    assert found.winner(4) == ""
    assert str(found).endswith("neither is quicker")


def test_a_winner_is_quicker_at_each_size():
    found = Seconds({4: 0.4, 4_000: 0.5, 4_000_000: 2.0}, {4: 1.0, 4_000: 0.8, 4_000_000: 1.0})
    assert found.winner(4, 4_000) == "Gloo"
    assert found.winner(4_000_000) == "MPI"
    assert found.winner(4, 4_000, 4_000_000) == ""


@needs_horovod
def test_both_are_timed_at_the_same_sizes(monkeypatch):
    taken = {"gloo": {"4": 0.1, "4000": 0.2}, "mpi": {"4": 0.3, "4000": 0.4}}
    monkeypatch.setattr("horovod.torch.mpi_built", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(
        gloo_against_mpi, "told", lambda *_, controller: {"seconds": taken[controller]}
    )
    assert gloo_against_mpi.compare() == Seconds({4: 0.1, 4000: 0.2}, {4: 0.3, 4000: 0.4})


@needs_horovod
def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("horovod.torch.mpi_built", lambda: False)
    with pytest.raises(UserError, match="Horovod was built without MPI"):
        gloo_against_mpi.compare()
    monkeypatch.setattr("horovod.torch.mpi_built", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="there is no mpirun"):
        gloo_against_mpi.compare()
