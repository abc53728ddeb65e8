"""The tables of `bench allreduce --columns`: one for each algorithm, by whatever was measured."""

import pytest

from hpml.bench import allreduce_columns as columns


@pytest.fixture
def reported(monkeypatch):
    """Each measurement takes 1 µs for each byte."""
    times = {4: 4e-6, 64: 64e-6}
    monkeypatch.setattr(columns, "on_this_machine", lambda names, of: dict.fromkeys(names, times))
    monkeypatch.setattr(columns.curves, "network", lambda text, ranks: (text, ranks))
    monkeypatch.setattr(
        columns.curves, "measured", lambda network, names, of, longest: dict.fromkeys(names, times)
    )
    monkeypatch.setattr(
        columns.mpi, "mpi_all_reduce_seconds", lambda sizes, *_, **__: [[n * 1e-6] for n in sizes]
    )
    monkeypatch.setattr(columns.mpi, "missing", lambda: None)
    lines = []
    return lambda links: columns.bench(links, lines.append) or lines


def test_without_a_link_there_is_a_table_for_each_algorithm_by_hand_and_for_gloo(reported):
    tables = reported([])
    assert [text.partition("\n")[0].partition(", ")[2] for text in tables] == [
        "by hand: recursive-doubling",
        "by hand: ring",
        "by hand: halving-doubling",
        "Gloo",
    ]
    assert "busbw" in tables[0]


def test_over_a_link_open_mpi_is_there_by_algorithm(reported):
    titles = [text.partition("\n")[0] for text in reported(["1gbit"])]
    assert titles[-1] == "4 ranks, 1gbit, Open MPI: default"
    assert len(titles) == 8


def test_without_open_mpi_it_says_why(reported, monkeypatch):
    monkeypatch.setattr(columns.mpi, "missing", lambda: "mpirun is not installed")
    assert reported(["1gbit"])[-1] == "Open MPI is left out: mpirun is not installed"
