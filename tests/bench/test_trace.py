"""./hpml bench trace: the trace that it makes, its readers, its rows."""

import json
from importlib.util import find_spec

import pytest

from hpml.bench import trace as bench
from hpml.bench.repeated_trace import STEPS, record, repeat
from hpml.bench.table import Table
from hpml.errors import UserError
from hpml.trace.profiler.operators import operators
from hpml.trace.profiler.read import read
from hpml.trace.profiler.shares import shares


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "recorded.json"
    record(path)
    return path


@pytest.fixture(scope="module")
def large(recorded):
    path = recorded.with_name("large.json")
    repeat(recorded, path, 2 * 10**6)
    return path


def test_a_trace_is_repeated_with_steps_numbers_and_links_of_their_own(recorded, large):
    once, often = read(recorded), read(large)
    turns = len(often.steps) // STEPS
    assert turns > 2
    assert large.stat().st_size > 2 * 10**6
    assert [step.number for step in often.steps] == [*range(1, 1 + turns * STEPS)]
    assert len(often.links.forward) == turns * len(once.links.forward)
    assert len(often.allocations.at) == turns * len(once.allocations.at)
    counts = {row.name: row.count for row in operators(once)}
    assert {row.name: row.count for row in operators(often)} == {
        name: turns * count for name, count in counts.items()
    }
    assert shares(often).step == pytest.approx(shares(once).step)
    assert shares(often).backward == pytest.approx(shares(once).backward, rel=1e-3)
    ids = [
        e["args"]["Ev Idx"] for e in json.loads(large.read_text())["traceEvents"] if e["ph"] == "i"
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", bench.READERS)
def test_each_reader_reads_it_in_a_process_of_its_own(large, name):
    if name == "holistic" and not find_spec("hta"):
        with pytest.raises(UserError, match=r"HolisticTraceAnalysis.*No module named 'hta'"):
            bench.read_apart(name, large)
        return
    seconds, peak = bench.read_apart(name, large)
    assert seconds > 0
    assert peak > 2 * 10**6


def test_a_reader_that_fails_is_named_with_its_last_line(tmp_path):
    with pytest.raises(UserError, match=r"hpml\.trace: shares, operators: .*is no file"):
        bench.read_apart("hpml", tmp_path / "none.json")


def test_rows_of_a_table_are_compared_with_json_and_a_step_without_profiler(monkeypatch):
    times = {"json": (4.0, 500 * 10**6), "hpml": (2.0, 100 * 10**6)}
    monkeypatch.setattr(bench, "read_apart", lambda name, _: times[name])
    monkeypatch.setattr(bench, "BATCHES", (1,))
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda _: None)
    table = bench.bench(rounds=2, megabytes=1, report=lambda _: None)
    ratios = {row.name: table.ratios(row) for row in table.rows}
    assert ratios["hpml.trace: shares, operators"] == [0.5, 0.5]
    assert ratios["hpml.trace: shares, operators, peak memory"] == [0.2, 0.2]
    assert len(ratios["a step of 1 image, recording"]) == 2
    assert ratios["a step of 1 image, no profiler"] == []
    assert "pip install" in table.conditions["HolisticTraceAnalysis"]
    assert isinstance(table, Table)
