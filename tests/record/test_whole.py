"""The whole list on this processor, with torch and numpy alone; and the pictures of it."""

import json
import re

import matplotlib.pyplot as plt
import pytest

from hpml.allreduce import micro_benchmark
from hpml.modules.m03_profiling.lecture import timeline_picture
from hpml.record import kept, pictures, plan

# Made once; the whole list has a limit of its own
pytestmark = [pytest.mark.xdist_group("record"), pytest.mark.timeout(1700)]

NAMES = [one.name for one in plan.PLAN]


def test_the_python_is_as_bare_as_it_should_be(bare):
    names = {path.name for path in bare.site.iterdir()}
    assert {"torch", "numpy"} <= names
    assert not names & {"typer", "rich", "psutil", "msgspec", "matplotlib", "hpml"}


def test_each_measurement_has_a_line_and_a_small_file(recording):
    folder, printed = recording
    for number, name in enumerate(NAMES, 1):
        assert re.search(
            rf"(?m)^{number}/{len(NAMES)} {name}: .+\n(?:    .+\n)*    done in \d+ s$", printed
        )
        assert kept.read(folder, name).result
    assert max(path.stat().st_size for path in folder.iterdir()) <= kept.LARGEST


def test_a_file_says_what_when_and_with_what_and_no_place_of_this_machine(recording, bare):
    folder, _ = recording
    for name in NAMES:
        text = (folder / f"{name}.json").read_text()
        content = json.loads(text)
        assert content["command"] == "hpml record --device cpu"
        assert content["versions"]["torch"]
        assert content["machine"]["cores"] >= 1
        assert content["device"]["kind"] == "cpu"
        for place in (folder, bare.home, bare.site):
            assert str(place) not in text, name


def test_training_is_measured_in_each_way(recording):
    both = ("training", "compiled")
    runs = [run for name in both for run in kept.read(recording[0], name).result["runs"]]
    ways = {(run["recipe"], run["precision"], run["compiled"]) for run in runs}
    assert len(ways) == len(runs) == 5
    for run in runs:
        assert run["images_per_second"] > 0
        assert len(run["epochs"]) == 1


def test_the_answers_hold_on_one_rank_and_on_two(recording):
    result = kept.read(recording[0], "answers").result
    assert len(result) == 10
    assert {name: facts for name, facts in result.items() if "failed" in facts} == {}


def test_each_job_script_ran_or_says_what_it_lacks(recording):
    result = kept.read(recording[0], "job_scripts").result
    assert len(result) == 11
    assert "record_gpu.slurm" not in result
    for script, one in result.items():
        if "left_out" in one:
            assert "05_" in script
            assert "no Horovod" in one["left_out"]
            continue
        # What a script imports beyond torch and numpy it says in its last line
        assert one["code"] == 0 or "No module named" in one["output"][-1], one


def test_what_was_recorded_is_drawn_in_lectures(recording, monkeypatch):
    monkeypatch.setenv(kept.OWN, str(recording[0]))
    one = kept.recorded("roofline")
    assert one.own
    assert "on this site" in one.origin
    figure = pictures.roofline_picture(one, title="T")
    lines = figure.axes[0].get_lines()
    assert {line.get_label() for line in lines} == {"float32", "bfloat16"}
    low, high = figure.axes[0].get_ylim()
    assert high >= 10 * low
    assert lines[0].get_xdata().tolist() == [128, 256, 512, 1024]
    assert type(pictures.products(one).held) is bool

    steps = kept.recorded("steps")
    traces = pictures.traces(steps)
    assert sorted(traces) == ["bad", "good"]
    for trace in traces.values():
        assert len(trace.steps) == 10
        assert timeline_picture.picture(trace, levels=3).axes
    facts = {name: pictures.on_device(trace) for name, trace in traces.items()}
    found = pictures.loops(steps, facts)
    assert found.factor > 0
    assert found.busy == {}

    training = kept.recorded("training")
    (axes,) = pictures.training_picture(training).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "recipe, bf16",
        "wide, bf16",
        "recipe, fp32",
    ]
    found = pictures.reached(training)
    assert (found.held, found.first, found.synthetic) == (False, {}, True)

    by_size = {int(n): s for n, s in kept.recorded("all_reduce").result["seconds"].items()}
    assert micro_benchmark.table(by_size, ranks=2)
    plt.close("all")
