"""Gloo beside MPI: one table, and one line where one of them is missing."""

import shutil

import pytest

from hpml.errors import UserError
from hpml.modules.m05_horovod.lecture import gloo_against_mpi
from hpml.modules.m05_horovod.lecture.gloo_against_mpi import Seconds, finding
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


def test_where_the_order_changes_there_is_no_winner_for_few_bytes():
    found = Seconds({4: 0.4, 4_000: 1.1, 4_000_000: 2.0}, {4: 1.0, 4_000: 0.8, 4_000_000: 1.0})
    held, sentence, _ = finding(found)
    assert held
    assert sentence == (
        "At 4 MB MPI is 2.0 times as quick as Gloo. From 4 to 4,000 bytes the order changes from "
        "size to size: there is no winner."
    )


def test_a_winner_at_all_small_sizes_is_named():
    found = Seconds({4: 0.4, 4_000: 0.5, 4_000_000: 2.0}, {4: 1.0, 4_000: 0.8, 4_000_000: 1.0})
    assert "From 4 to 4,000 bytes Gloo is quicker at each of these sizes." in finding(found)[1]


def test_within_the_margin_mpi_is_not_said_to_be_quicker():
    held, _, otherwise = finding(Seconds({4: 1.0, 4_000_000: 1.1}, {4: 1.0, 4_000_000: 1.0}))
    assert not held
    assert "1.10 times MPI's" in otherwise
    assert "there is no winner" in otherwise


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
