"""Gloo beside MPI: one table, and one line where one of them is missing."""

import shutil

import pytest

from hpml.errors import UserError
from hpml.frameworks import gloo_against_mpi
from hpml.frameworks.gloo_against_mpi import Seconds
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
