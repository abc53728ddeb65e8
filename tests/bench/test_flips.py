"""Repeated gradings: which exercises have a budget, and what counts as a flip."""

import pytest

from hpml.bench.instructors import flips
from hpml.checks import find
from hpml.checks.verdict import ClaimResult, Verdict

HELD, FAILED = ClaimResult("it holds", True, 1), ClaimResult("it fails", False, 1, "seen")
OPEN = ClaimResult("it is open", False, 1, "no network", judged=False)


def verdict(status, *claims):
    return Verdict("ddp", "Data parallel by hand", status, claims, "", 7)


def test_exercises_that_count_bytes_or_seconds_have_a_budget():
    assert all(flips.has_budget(find(name)) for name in ("ddp", "ring_all_reduce", "fsdp"))
    assert not any(flips.has_budget(find(name)) for name in ("hello_ranks", "amdahl"))


def test_what_cannot_be_judged_is_no_flip():
    assert flips.open_only(verdict("not gradable", HELD, OPEN))
    assert not flips.open_only(verdict("failed", HELD, FAILED))
    assert not flips.open_only(verdict("passed", HELD))


def test_the_table_counts_failures_and_names_seeds(monkeypatch):
    verdicts = iter([verdict("passed", HELD), verdict("failed", FAILED), verdict("passed", HELD)])

    def examined(check, source, proxied, delayed):
        return type("Examined", (), {"verdict": next(verdicts)})

    monkeypatch.setattr(flips, "examine", examined)
    lines = []
    table = flips.bench(["ddp"], times=3, busy=0, say=lines.append)
    assert [(row.name, row.values, row.target) for row in table.rows] == [("ddp: failed", [1], "0")]
    assert lines == ["ddp, grading 2, seed 7: seen"]


@pytest.mark.measures
def test_one_right_answer_graded_once_is_no_flip(bench_command):
    table = bench_command("flips", "hello_ranks", "--times", "1", "--busy", "0")
    assert [(row.name, row.values) for row in table.rows] == [("hello_ranks: failed", [0])]


def test_processes_that_compute_are_gone_afterwards():
    import multiprocessing

    with flips.kept_busy(2):
        assert len(multiprocessing.active_children()) >= 2
    assert not multiprocessing.active_children()
