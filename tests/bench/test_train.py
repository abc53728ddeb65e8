"""The training benchmark: which runs it asks for, and what it makes of them."""

import pytest

from hpml.bench import train
from hpml.errors import UserError
from hpml.train.history import Epoch, History


def history(speed: float, accuracy: float = 0.9, seconds: float = 60.0) -> History:
    last = Epoch(1, 1.0, 0.8, 0.5, accuracy, 0.1, seconds, speed)
    return History({}, "SYNTHETIC images", True, 1, 1, "cpu", "float32", 10, (last,))


def test_short_runs_take_turns_and_become_ratios(monkeypatch):
    asked = []

    def run(ranks, options, limit=0.0):
        threads = int(options[options.index("--threads") + 1])
        asked.append((ranks, threads, "--seed" in options))
        return history(100.0 * ranks * threads)

    monkeypatch.setattr(train, "run", run)
    table = train.bench(None, rounds=2, seeds=[0, 1], threads=2, say=lambda line: None)
    short = [(ranks, threads) for ranks, threads, full in asked if not full]
    assert short == [(1, 1), (1, 2), (2, 1)] * 2
    assert sum(full for _, _, full in asked) == 2
    rows = {row.name: row for row in table.rows}
    assert table.ratios(rows["2 ranks × 1 thread"]) == [2.0, 2.0]
    assert rows["full run: test accuracy"].values == pytest.approx([90.0, 90.0])
    assert rows["full run: training"].values == pytest.approx([1.0, 1.0])
    assert "in bfloat16, 2 threads" in table.conditions["matrix product"]
    assert "SYNTHETIC" in table.conditions["data"] or "CIFAR" in table.conditions["data"]


def test_no_seeds_no_full_run_and_a_short_one_for_real(bench_command, monkeypatch):
    short = "--epochs 2 --samples 64 --test-samples 20 --batch-size 16 --widths 8,8,8"
    monkeypatch.setattr(train, "SHORT_RUN", short.split())
    monkeypatch.setattr(train, "LAYOUTS", ((1, 1),))
    table = bench_command("train", "--rounds", "1", "--seeds", "0")
    (row,) = table.rows
    assert (row.name, row.values[0] > 0) == ("1 rank × 1 thread", True)


def test_a_run_that_fails_is_told_in_its_own_last_line():
    with pytest.raises(UserError, match=r"bench train: .*--epochs is 0"):
        train.run(1, ["--epochs", "0"], limit=120)


@pytest.mark.measures
def test_a_run_that_takes_too_long_is_ended():
    with pytest.raises(UserError, match="not done after 0 s"):
        train.run(1, ["--epochs", "1"], limit=0.1)
