"""Faults of a step, and the counters that name them. Nothing here depends on how long it took."""

from dataclasses import replace

import pytest
import torch

from hpml.models.residual import ResidualNetwork
from hpml.modules.m02_hardware.lecture import slowed_step
from hpml.modules.m02_hardware.lecture.slowed_step import FAULTS, Counters, Setting, Trial, diagnose

SOUND = Counters(
    seconds={"load": 0.01, "forward": 0.04, "backward": 0.09, "update": 0.01},
    processor=1.9,
    waiting=0.02,
    number=4,
    stride=1,
)


def slower(times, **changes):
    return replace(SOUND, seconds={k: times * v for k, v in SOUND.seconds.items()}, **changes)


SEEN = {
    "loader": replace(SOUND, seconds=SOUND.seconds | {"load": 0.15}, processor=1.2),
    "threads": slower(1.9, processor=1.0),
    "precision": slower(4, number=8),
    "layout": slower(1.3, stride=1024),
    "neighbour": slower(2, processor=1.0, waiting=0.6),
}


@pytest.mark.parametrize("name", SEEN)
def test_each_fault_has_counters_of_its_own(name):
    assert diagnose(SEEN[name], SOUND) == name


def test_a_sound_step_has_no_fault():
    assert diagnose(SOUND, SOUND) == "nothing"


def test_a_kernel_that_does_not_count_waiting():
    assert diagnose(replace(SEEN["loader"], waiting=None), SOUND) == "loader"


def trial(**changes):
    seen = SEEN | changes
    return Trial(SOUND, {c: (f, seen[f.name]) for c, f in zip("ABCDE", FAULTS, strict=True)})


def test_every_fault_is_named_and_slower():
    found = trial().found
    assert found.held
    assert found.names["B"] == "threads"
    assert max(found.times, key=found.times.get) == "precision"
    assert found.times["precision"] == pytest.approx(4)


def test_a_fault_that_is_not_found_or_slows_nothing_does_not_hold():
    found = trial(neighbour=slower(2)).found
    assert (found.held, found.right, found.slower) == (False, 4, 5)
    assert not trial(threads=slower(1.02, processor=1.0)).found.held


def test_the_layout_may_cost_nothing():
    found = trial(layout=slower(1.02, stride=1024)).found
    assert (found.held, found.right, found.slower) == (True, 5, 4)


def test_the_table_hides_the_names_and_the_answers_have_them():
    table, answers = str(trial()), trial().answers
    assert not any(fault.name in table for fault in FAULTS)
    assert all(fault.name in answers for fault in FAULTS)
    assert "| A | loader | 1.9 × |" in answers


@pytest.mark.parametrize(
    ("setting", "number", "stride"),
    [
        (Setting(), 4, 1),
        (Setting(dtype=torch.float64), 8, 1),
        (Setting(layout=torch.contiguous_format), 4, 1024),
        (Setting(one_by_one=True), 4, 1),
    ],
)
def test_what_reaches_the_convolutions_is_seen(setting, number, stride):
    images = torch.randint(0, 255, (2, 3, 32, 32), dtype=torch.uint8)
    model = ResidualNetwork((8, 8)).to(dtype=setting.dtype, memory_format=setting.layout)
    seen = slowed_step._watch(model)
    model(slowed_step._prepare(images, setting))
    assert [max(counted) for counted in seen] == [number, stride]


def test_why_a_neighbour_costs_more_than_its_core():
    beside = replace(slower(20), waiting=1.0, waits=200.0, processor=1.0)
    assert trial(neighbour=beside).found.beside == (200, pytest.approx(beside.whole / 200))
    for other in (replace(beside, waits=None), replace(slower(2), waiting=1.0, waits=9.0)):
        assert trial(neighbour=other).found.beside is None


def test_waiting_is_the_second_number_of_every_thread(tmp_path, monkeypatch):
    for thread, text in {"1": "5 2000000000 9", "2": "7 500000000 3"}.items():
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text)
    monkeypatch.setattr(slowed_step, "TASKS", tmp_path)
    assert slowed_step._waited() == (2.5, 12)
    monkeypatch.setattr(slowed_step, "TASKS", tmp_path / "nothing")
    assert slowed_step._waited() == (None, None)


def test_the_neighbour_ends_with_the_step(monkeypatch):
    started = []
    popen = slowed_step.subprocess.Popen
    monkeypatch.setattr(
        slowed_step.subprocess,
        "Popen",
        lambda *args, **more: started.append(popen(*args, **more)) or started[0],
    )
    with slowed_step._neighbour():
        assert started[0].poll() is None
    assert started[0].poll() is not None


def test_a_trial_here_has_every_fault_by_letter(monkeypatch):
    seen = []
    monkeypatch.setattr(slowed_step, "_counters", lambda s, steps: seen.append(s) or SOUND)
    monkeypatch.setattr(slowed_step, "usable_cores", lambda: 2)
    found = slowed_step.measure()
    assert sorted(found.slowed) == ["A", "B", "C", "D", "E"]
    assert seen[0] == Setting()
    assert {fault.name for fault, _ in found.slowed.values()} == set(SEEN)
    monkeypatch.setattr(slowed_step, "usable_cores", lambda: 1)
    assert "threads" not in {fault.name for fault, _ in slowed_step.measure().slowed.values()}
