"""./hpml bench check, for real but short: one exercise, one round."""

import json

import pytest
from typer.testing import CliRunner

from hpml.bench import check, terminal
from hpml.cli import bench_command
from hpml.course import schedule
from hpml.errors import UserError


def test_it_measures_torchrun_launch_and_checks_side_by_side(tmp_path):
    file = tmp_path / "check.json"
    options = ["hello_ranks", "mesh_layout", "--rounds", "1", "--json", str(file)]
    ended = CliRunner().invoke(bench_command.app, ["check", *options])
    assert ended.exit_code == 0, ended.output
    written = json.loads(file.read_text())
    names = [row["name"] for row in written["rows"]]
    assert names == [
        "torchrun: one all_reduce, 4 ranks",
        "launch: one all_reduce, 4 ranks",
        "check hello_ranks with four ranks",
        "check hello_ranks whole, with 1 to 4 ranks",
        "check mesh_layout whole, in one process",
        *terminal.TARGETS,
    ]
    torchrun, *others = written["rows"][: -len(terminal.TARGETS)]
    in_terminal = written["rows"][-len(terminal.TARGETS) :]
    assert [row["target"] for row in in_terminal] == list(terminal.TARGETS.values())
    assert all(row["median"] > 0 and row["ratio"] is None for row in in_terminal)
    assert torchrun["ratio"] is None
    assert all(row["ratio"] == row["values"][0] / torchrun["values"][0] for row in others)
    targets = [row["target"] for row in (torchrun, *others)]
    assert targets == ["", "", "", "under 0.3 s", "under 2 s"]
    assert "machine" in written["conditions"]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (f"check ddp {check.WHOLE}", "under 0.8 s"),
        (f"check tensor_parallel {check.WHOLE}", "under 1 s"),  # of the core path
        (f"check fsdp {check.WHOLE}", "under 2 s"),
        (f"check optimizers {check.ALONE}", "under 1 s"),
        ("check ddp with four ranks", ""),
        (check.UNDER_TORCHRUN, ""),
    ],
)
def test_a_whole_check_has_the_target_of_its_module(name, target):
    assert check._target(name) == target


def test_by_default_every_exercise_of_the_course_is_measured():
    course = schedule.load()
    exercises = [exercise.id for module in course.modules for exercise in module.exercises]
    assert sorted(check._solutions(())) == sorted(exercises)


def test_an_exercise_that_is_unknown_or_has_no_solution_is_refused(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="did you mean fsdp"):
        check.bench(exercises=["fspd"])
    monkeypatch.setattr(check, "CHECKOUT", tmp_path)  # as in a release
    with pytest.raises(UserError, match="there is no solution of fsdp here"):
        check.bench(exercises=["fsdp"])


def test_what_the_machine_lacks_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(check.flavour, "missing", lambda needs: f"{needs} is not installed")
    monkeypatch.setattr(check, "_torchrun", lambda: None)
    monkeypatch.setattr(check, "_launch", lambda: None)
    table = check.bench(1, ["hvd_torch"], say=lambda line: None)
    assert not any("hvd_torch" in row.name for row in table.rows)
    assert table.conditions["left out"] == "hvd_torch: horovod is not installed"


def test_a_solution_that_fails_is_no_measurement():
    with pytest.raises(UserError, match="the solution of hello_ranks fails"):
        check._check("hello_ranks", "def hello(number):\n    return None\n", (2,))
