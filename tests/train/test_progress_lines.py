"""What a job's log says while it trains."""

import dataclasses
import io
import re
import sys

import pytest

from hpml.errors import DONE
from hpml.train import progress_lines, run
from hpml.train.__main__ import main
from hpml.train.progress_lines import ProgressLines

SMALL = "--epochs 2 --samples 40 --test-samples 20 --batch-size 20 --threads 1 --widths 4,4,4"
EPOCH = r"epoch {} of 2: loss \d\.\d{{3}}, test accuracy \d+\.\d\d%, \d+\.\d s, \d+ images/s"


@pytest.fixture
def in_a_log(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)


@pytest.mark.usefixtures("in_a_log")
def test_each_epoch_has_a_line_and_the_end_says_where_the_history_is(tmp_path, capfd):
    out = tmp_path / "history.json"
    assert main([*SMALL.split(), "--precision", "fp32", "--out", str(out)]) == DONE
    lines = capfd.readouterr().out.splitlines()
    assert [bool(re.fullmatch(EPOCH.format(n), lines[n - 1])) for n in (1, 2)] == [True, True]
    assert lines[-1] == f"history: {out}"
    assert not any("epoch 3" in line for line in lines)


@pytest.mark.usefixtures("in_a_log")
def test_without_progress_there_is_none(capfd):
    assert main([*SMALL.split(), "--precision", "fp32", "--no-progress"]) == DONE
    assert "epoch 1 of" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("done", "seen", "said"),
    [
        (0, False, ""),
        (8, False, "carries on at the beginning of epoch 9 of 40\n"),
        (0, True, "carries on in the middle of epoch 1 of 40\n"),
    ],
)
def test_a_run_that_carries_on_says_where(done, seen, said, capfd):
    ProgressLines(40, done, seen)
    assert capfd.readouterr().out == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "stopped in epoch 2 of 2: lost"),
        (["--checkpoint", "kept"], "stopped in epoch 2 of 2: saved in kept, --resume carries on"),
    ],
)
def test_a_run_that_was_stopped_says_where_it_is_kept(options, said, monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)
    real = run.train

    def stopped(config):
        history = real(dataclasses.replace(config, epochs=1))
        return dataclasses.replace(history, stopped=True)

    monkeypatch.setattr(run, "train", stopped)
    assert main([*SMALL.split(), "--precision", "fp32", *options]) == 143
    assert capfd.readouterr().out.splitlines()[-1] == said


@pytest.mark.usefixtures("in_a_log")
def test_a_terminal_and_a_notebook_have_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress_lines.is_log()
    monkeypatch.setitem(sys.modules, "ipykernel", io)
    assert not progress_lines.is_log()
    monkeypatch.delitem(sys.modules, "ipykernel")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert not progress_lines.is_log()
