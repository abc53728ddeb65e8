"""./hpml bench allreduce, for real but short: one slow link, one round, few sizes."""

import dataclasses

import pytest

from hpml.bench import allreduce
from hpml.errors import UserError
from hpml.network.link import parse_link

QUIET = {"report": lambda line: None}


def test_every_algorithm_has_its_rows_and_none_beats_the_bound(bench_command, monkeypatch):
    monkeypatch.setattr(
        allreduce.mpi, "missing", lambda: "mpirun is not installed: apt install openmpi-bin"
    )
    sizes = {4: 2, 10_000: 2, 250_000: 2}
    monkeypatch.setattr(allreduce, "FITTED", (4, 250_000))
    options = ["--rounds", "1", "--link", "10mbit"]
    table = bench_command("allreduce", *options, sizes=sizes, worlds=[2])
    rows = {row.name: row for row in table.rows}
    where = "10 Mbit/s, 2 ranks"
    assert rows[f"{where}: bound"].values == [10]
    for name in ("naive", "tree", "ring", "halving-doubling", "hierarchical", "Gloo"):
        for size in ("4 B", "10 kB", "250 kB"):
            (ratio,) = table.ratios(rows[f"{where}, {size}: {name}"])
            # No link lets more through than its rate, but for one burst of 5 kB.
            assert 0 < ratio < (1.05 if size == "250 kB" else 3)
        assert rows[f"{where}: error of the model, {name}"].values[0] >= 0
        assert table.cells[f"{where}\n10 kB"][name].row is rows[f"{where}, 10 kB: {name}"]
    assert table.conditions["MPI"].startswith("left out: mpirun is not installed")
    assert not any("MPI" in name for name in rows)


def test_mpi_is_beside_them_where_there_is_one(monkeypatch):
    asked = []

    def pretended(sizes, world_size, link, repeats, timeout):
        asked.append((sizes, world_size, link, repeats))
        return [[0.008] * count for count in repeats]

    monkeypatch.setattr(allreduce.mpi, "missing", lambda: None)
    monkeypatch.setattr(allreduce.mpi, "mpi_all_reduce_seconds", pretended)
    table = allreduce.bench(1, ["10mbit"], {4: 2, 10_000: 1}, [2], **QUIET)
    assert asked == [([4, 10_000], 2, "10mbit", [2, 1])]
    cell = table.cells["10 Mbit/s, 2 ranks\n10 kB"]["MPI"]
    assert cell.took == "8 ms"
    assert cell.row.values == [pytest.approx(10)]  # 80 kbit in 8 ms
    assert table.ratios(cell.row) == [pytest.approx(1)]


def test_targets_are_set_for_sixteen_megabytes_on_four_ranks_at_a_gigabit():
    taken = dict.fromkeys([*allreduce.ALGORITHMS, "Gloo"], 0.25)
    measured = {n: taken | {"ring": 0.2} for n in allreduce.SIZES}
    rows = allreduce.beside_targets(parse_link("1gbit", 4), 4, [measured])
    share, gloo, ring, *errors = rows
    assert (share.values, share.target) == ([pytest.approx(0.96)], "at least 0.90")  # 24 MB, 0.2 s
    assert (gloo.values, gloo.target) == ([250], "")
    assert (ring.values, ring.base, ring.target) == ([200], gloo.name, "at most 1.05")
    assert [row.target for row in errors] == ["under 15"] * len(allreduce.ALGORITHMS) + [""]
    for link, world_size in (("100mbit", 4), ("1gbit", 3)):
        other = allreduce.beside_targets(parse_link(link, world_size), world_size, [measured])
        assert not any(row.target for row in other)


def test_the_model_is_judged_where_it_was_not_fitted():
    seconds = {n: {"ring": 1e-4 + 1e-8 * n} for n in (*allreduce.FITTED, 1_000_000)}
    assert allreduce.model_error(seconds, "ring") == pytest.approx(0, abs=1e-9)
    seconds[1_000_000]["ring"] *= 0.8
    assert allreduce.model_error(seconds, "ring") == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("link", "world_size", "bound"),
    [
        ("1gbit", 4, 1e9),
        ("nodes=2x2,intra=10gbit,inter=1gbit", 4, 1.5e9),  # n bytes each way for 1.5 n counted
        ("nodes=2x2,intra=1gbit,inter=10gbit", 4, 1e9),
        ("nodes=1x4,intra=1gbit,inter=1gbit", 4, 1e9),
    ],
)
def test_the_bound_is_that_of_the_narrowest_link(link, world_size, bound):
    assert allreduce.bound_rate(parse_link(link, world_size), world_size) == pytest.approx(bound)


def test_a_link_with_nodes_is_measured_with_as_many_ranks_as_it_has():
    assert allreduce.worlds_of("nodes=3x2,intra=10gbit,inter=1gbit", [2, 3]) == [6]
    assert allreduce.worlds_of("1gbit", [2, 3]) == [2, 3]
    for wrong in ("nodes=3x2,intra=10gbit", "nodes=3,intra=1gbit,inter=1gbit", "fast"):
        with pytest.raises(UserError, match="link"):
            allreduce.worlds_of(wrong, [2, 3])


def test_without_a_network_there_is_nothing_to_measure(monkeypatch):
    launch = allreduce.launch

    def without(*arguments, link=None, **options):
        return dataclasses.replace(launch(*arguments, **options), no_link="namespaces are off")

    monkeypatch.setattr(allreduce, "launch", without)
    monkeypatch.setattr(allreduce.mpi, "missing", lambda: "no MPI")
    with pytest.raises(UserError, match="no network can be emulated here: namespaces are off"):
        allreduce.bench(1, ["1gbit"], {4: 1}, [2], **QUIET)
