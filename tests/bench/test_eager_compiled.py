"""Eager against compiled over batch sizes: the arithmetic, table and picture, and tiny runs."""

import csv

import pytest
import torch

from hpml.bench import eager_compiled
from hpml.bench.eager_compiled import main
from hpml.bench.eager_compiled_picture import drawn, title
from hpml.bench.eager_compiled_timings import (
    COMPILED,
    EAGER,
    GRAPHS,
    Timing,
    break_even,
    line,
    write,
)
from hpml.errors import USAGE, UserError

CPU = torch.device("cpu")
TIMINGS = {
    1: {EAGER: Timing([0.02, 0.02, 0.03], 0.0), COMPILED: Timing([0.01, 0.01, 0.01], 10.0)},
    64: {EAGER: Timing([0.2, 0.2, 0.2], 0.0), COMPILED: Timing([0.25, 0.2, 0.2], 10.0)},
}


def test_compiling_pays_after_its_seconds_divided_by_the_gain():
    assert break_even(Timing([0.3], 0.5), Timing([0.2], 20.5)) == pytest.approx(200)


def test_what_is_not_faster_never_pays_and_what_began_sooner_pays_at_once():
    assert break_even(Timing([0.2], 0.5), Timing([0.2], 20.5)) is None
    assert break_even(Timing([0.3], 0.5), Timing([0.2], 0.1)) == 0


def test_a_line_has_speed_gain_first_step_and_break_even():
    of = TIMINGS[1]
    said = line(1, COMPILED, of[COMPILED], of[EAGER])
    assert "100.0 images/s,  2.00 times eager; first step   10.0 s; pays after 1,000 steps" in said
    assert line(1, EAGER, of[EAGER], of[EAGER]).endswith("first step    0.0 s")
    of = TIMINGS[64]
    assert line(64, COMPILED, of[COMPILED], of[EAGER]).endswith("never pays")


def test_the_table_has_a_row_for_each_way_and_batch(tmp_path):
    write(tmp_path / "a.csv", TIMINGS)
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["way"], row["batch"]) for row in rows] == [
        (way, batch) for batch in ("1", "64") for way in (EAGER, COMPILED)
    ]
    assert [row["steps_to_break_even"] for row in rows] == ["", "1000", "", ""]
    assert float(rows[2]["images_per_second"]) == 320


def test_the_title_names_the_batch_with_the_largest_gain():
    assert title(TIMINGS).startswith("Compiled is up to 2 times as fast as eager: with 1 image in")
    assert title({64: TIMINGS[64]}) == "Compiling gains nothing here"


def test_the_picture_has_both_ways_over_batch_size():
    above, below = drawn(TIMINGS, "cpu, 2 threads").axes
    assert [text.get_text() for text in above.get_legend().get_texts()] == [EAGER, COMPILED]
    assert "cpu, 2 threads" in below.get_xlabel()
    assert list(below.lines[1].get_ydata()) == [2.0, 1.0]


def test_cuda_graphs_are_for_gpus():
    assert eager_compiled.ways(CPU) == [EAGER, COMPILED]
    assert eager_compiled.ways(torch.device("cuda")) == [EAGER, COMPILED, GRAPHS]


def test_a_way_with_another_loss_is_refused():
    with pytest.raises(UserError, match=r"the first loss is 2\.40000 with torch\.compile"):
        eager_compiled._same({EAGER: 2.3, COMPILED: 2.4}, 1)
    with pytest.raises(UserError, match="nan"):
        eager_compiled._same({EAGER: 2.3, COMPILED: float("nan")}, 1)


def test_a_tiny_run_leaves_table_and_picture_and_nothing_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(eager_compiled, "SHORTEST", 0.0)
    monkeypatch.setattr(eager_compiled.tempfile, "tempdir", str(tmp_path))
    threads = torch.get_num_threads()
    short = "--batches 2,3 --widths 8 --rounds 1 --device cpu --backend aot_eager --threads 1"
    assert main(["--out", str(tmp_path / "out"), *short.split()]) == 0
    torch.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a training step of the course's network, float32, cpu, 1 thread"
    assert [text.partition("images/s")[0].split()[1] for text in lines[1:]] == ["2,", "2,"] + 2 * [
        "3,"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "eager_compiled.csv",
        "eager_compiled.png",
    ]


def test_both_ways_take_the_same_steps():
    eager, compiled = (
        eager_compiled._step(way, 2, CPU, (8,), "aot_eager") for way in (EAGER, COMPILED)
    )
    for _ in range(3):
        assert eager().item() == pytest.approx(compiled().item(), rel=1e-4)


def test_a_device_that_is_not_there_is_named(tmp_path, capsys):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert main(["--out", str(tmp_path), "--device", "cuda"]) == USAGE
    assert "PyTorch sees no GPU" in capsys.readouterr().err


def test_a_missing_compiler_is_named_with_its_remedy():
    def step():
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found in ...")

    with pytest.raises(UserError, match=r"apt install g\+\+"):
        eager_compiled._first(step, CPU)


def test_any_other_failure_is_not_hidden():
    def step():
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        eager_compiled._first(step, CPU)
