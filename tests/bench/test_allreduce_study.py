"""What the study of all-reduce leaves behind, and what it makes of nodes."""

import csv

import pytest

from hpml.allreduce import ALGORITHMS
from hpml.allreduce.timing import LIBRARY
from hpml.bench import allreduce_study
from hpml.bench.allreduce_study import Network
from hpml.measure.comm import Fit
from hpml.ranks import launch

FAST, SLOW = Fit(1e-5, 1e-10, 0, 0), Fit(3e-5, 8e-9, 0, 0)


def test_the_study_leaves_a_table_and_a_figure(tmp_path):
    def drive(folder):
        from hpml.bench import allreduce_study

        allreduce_study.PING_PONG = (4, 256, 100_000)
        return allreduce_study.main(["--out", folder, "--sizes", "4,40000", "--repeats", "2"])

    evidence = launch(drive, 2, inputs=[str(tmp_path)] * 2)
    assert list(evidence.values) == [0, 0]
    assert "2 ranks, 2 on each node, gloo" in evidence.ranks[0].stdout
    assert "within a node: α = " in evidence.ranks[0].stdout
    assert evidence.ranks[1].stdout == ""
    with (tmp_path / "all_reduce.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["bytes"]) for row in rows] == [
        (name, nbytes) for nbytes in ("4", "40000") for name in (*ALGORITHMS, "gloo")
    ]
    for row in rows:
        least, middle, most = (
            float(row[name]) for name in ("least_seconds", "seconds", "most_seconds")
        )
        assert 0 < least <= middle <= most
        assert (row["predicted_seconds"] == "") == (row["algorithm"] == "gloo")
    assert (tmp_path / "all_reduce.png").read_bytes().startswith(b"\x89PNG")


def test_one_rank_is_too_few(capsys):
    assert allreduce_study.main(["--out", "nowhere"]) == 2
    assert "wants 2 ranks at least" in capsys.readouterr().err


def gathered(monkeypatch, hosts):
    def gather(into, _):
        into[:] = hosts

    monkeypatch.setattr(allreduce_study.dist, "get_world_size", lambda: len(hosts))
    monkeypatch.setattr(allreduce_study.dist, "all_gather_object", gather)


@pytest.mark.parametrize(("hosts", "count"), [("aaaa", 4), ("aabb", 2), ("abc", 1), ("aabbcc", 2)])
def test_nodes_are_those_with_one_host_name(monkeypatch, hosts, count):
    gathered(monkeypatch, list(hosts))
    assert allreduce_study.ranks_per_node() == count


@pytest.mark.parametrize("hosts", ["aab", "abab", "abb", "abba"])
def test_uneven_nodes_are_refused(monkeypatch, hosts):
    gathered(monkeypatch, list(hosts))
    with pytest.raises(allreduce_study.UserError, match="give each node as many"):
        allreduce_study.ranks_per_node()


def test_predictions_know_within_from_across():
    apart = Network(4, 1, None, SLOW, 0.0)
    assert apart.predicted("ring", 1e6) == pytest.approx(6 * 3e-5 + 1.5e6 * 8e-9)
    assert apart.least(1e6) == pytest.approx(1.5e6 * 8e-9)
    together = Network(4, 4, FAST, None, 0.0)
    assert together.predicted("ring", 1e6) == pytest.approx(6 * 1e-5 + 1.5e6 * 1e-10)
    both = Network(4, 2, FAST, SLOW, 0.0)
    assert both.predicted("ring", 1e6) == pytest.approx(6 * 3e-5 + 1.5e6 * 8e-9)
    assert both.predicted("hierarchical", 1e6) == pytest.approx(
        2 * 1e-5 + 1e6 * 1e-10 + 2 * 3e-5 + 1e6 * 8e-9
    )
    assert both.least(1e6) == pytest.approx(1e6 * 8e-9)


def test_the_librarys_own_is_drawn_without_a_model():
    taken = {name: [1e-3] for name in [*ALGORITHMS, LIBRARY]}
    seconds = {4: taken, 1_000: taken}
    figure = allreduce_study.drawn(Network(4, 2, FAST, SLOW, 0.0), seconds, "gloo")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *ALGORITHMS,
        "gloo's own",
        "less than the link allows",
    ]
    assert figure.axes[0].get_title() == "2 nodes × 2 ranks"
