"""What py-spy and cProfile cost, and the table beside torch.profiler."""

import pytest

from hpml.modules.m03_profiling.lecture import python_profilers
from hpml.modules.m03_profiling.lecture.profiling_overhead import OFF, WAYS, Overhead
from hpml.modules.m03_profiling.lecture.python_profilers import (
    C_PROFILE,
    PY_SPY,
    dearest,
    measure,
    table,
)


def rows(**ratios):
    """All ways with these ratios; the others cost nothing."""
    names = [PY_SPY, C_PROFILE, *(way for way in WAYS if way != OFF)]
    known = {"outside": "outside its window", "everything": "with all three"}
    given = {known[name]: ratio for name, ratio in ratios.items()}
    ratios = [(name, given.get(name, 1.0)) for name in names]
    return [Overhead(name, (ratio, 2 * ratio), (1.0, 2.0)) for name, ratio in ratios]


def test_each_profiler_is_measured_beside_none(monkeypatch):
    monkeypatch.setattr(python_profilers, "STRETCH", 0.001)
    calls = []
    found = {one.way: one for one in measure(lambda: calls.append(1), rounds=2)}
    assert C_PROFILE in found
    assert set(found) <= {PY_SPY, C_PROFILE}
    assert all(len(one.seconds) == len(one.off) == 2 for one in found.values())
    assert all(one.ratio > 0 for one in found.values())


def test_py_spy_is_left_out_where_it_may_not_look(monkeypatch, tmp_path):
    refuses = tmp_path / "py-spy"
    refuses.write_text("#!/bin/sh\necho 'Permission Denied: try again with sudo'\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setattr(python_profilers.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(python_profilers, "STRETCH", 0.001)
    with pytest.raises(PermissionError, match="sudo"), python_profilers._py_spy():
        pass
    assert [one.way for one in measure(lambda: None, rounds=1)] == [C_PROFILE]


def test_the_table_has_a_row_for_each_way_and_a_column_for_each_program():
    lines = table({"large": rows(), "small": rows(everything=1.5)}).splitlines()
    assert len(lines) == 1 + len(rows())
    assert lines[0].split() == ["large", "small"]
    cells = "1.00 × (1.00 to 1.00) 1.50 × (1.50 to 1.50)"
    assert " ".join(lines[-1].split()) == f"torch.profiler: with all three {cells}"


@pytest.mark.parametrize(
    ("large", "small", "held"),
    [
        ({"everything": 1.05}, {"everything": 1.8}, True),
        ({"everything": 1.9}, {"everything": 1.8}, False),
        ({}, {"everything": 1.05}, False),
        ({}, {"everything": 1.8, "outside": 1.3}, False),
    ],
)
def test_what_is_concluded(large, small, held):
    found = dearest({"large": rows(**large), "small": rows(**small)})
    assert found.held == held
    assert found.small == pytest.approx(max(small.values(), default=1.0))
    assert found.most_of_large == pytest.approx(max(large.values(), default=1.0))
