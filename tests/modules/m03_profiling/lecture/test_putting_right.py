"""A script is put right in the order of its profile."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hpml.data import load, photos
from hpml.measure.gain import Gain
from hpml.modules.m03_profiling.lecture import putting_right
from hpml.modules.m03_profiling.lecture.putting_right import (
    TURNS,
    Clock,
    PutRight,
    Round,
    Version,
    choose,
    in_turn,
)
from hpml.modules.m03_profiling.lecture.slow_training import FIXES, PHOTOS
from hpml.trace.profiler.shares import Shares
from hpml.trace.profiler.trace import Step, Trace

NOTHING = Shares(**dict.fromkeys(Shares.__dataclass_fields__, 0.0))


def version(fixes=(), item=0.0, **seconds):
    return Version(tuple(fixes), replace(NOTHING, **seconds), item, 2.3, Path("trace"))


SLOW = version(loading=0.6, transforms=0.1, forward=0.1, backward=0.15, other=0.05)


def never(versions):
    raise AssertionError(f"{versions} timed without need")


def test_the_largest_share_is_first():
    assert choose(SLOW, FIXES, never) == "pack"
    transforms = version(transforms=0.5, forward=0.2, backward=0.2, other=0.1)
    assert choose(transforms, FIXES, never) == "whole_batch"


def test_forward_and_backward_have_the_same_fixes_and_are_one_part():
    assert choose(version(loading=0.6, forward=0.2, backward=0.2), FIXES, never) == "pack"
    assert choose(version(loading=0.4, forward=0.3, backward=0.3), FIXES, never) == "threads"


def test_a_part_without_a_fix_left_is_passed_over():
    assert choose(SLOW, ["whole_batch", "no_item"], never) == "whole_batch"


def test_of_several_fixes_the_best_one_is_found_by_trying():
    computing = version(forward=0.5, backward=0.5, fixes=("pack",))
    seconds = {"one_batch": 0.3, "channels_last": 0.2, "bfloat16": 0.4}

    def timed(versions):
        assert versions == [("pack", name) for name in seconds]
        return [(9.0, seconds[fixes[-1]], 0.1) for fixes in versions]

    assert choose(computing, [*seconds, "no_item"], timed) == "channels_last"


def put_right(monkeypatch, in_profile, by_clock, without=()):
    """All rounds, where a version whose last fix is named has these seconds, and others 1."""

    def play(photos, fixes, logs):
        return version(fixes, forward=in_profile.get(fixes[-1], 1.0) if fixes else 1.0)

    def timed(photos, versions, turns):
        return [turns * (by_clock.get((*v, "")[-2] if v else "", 1.0),) for v in versions]

    monkeypatch.setattr(putting_right, "profiled", play)
    monkeypatch.setattr(putting_right, "in_turn", timed)
    return putting_right.put_right(Path("photos"), Path("logs"), without=without)


def test_a_fix_can_be_left_out(monkeypatch):
    done = put_right(monkeypatch, {}, {}, without=["bfloat16"])
    assert {one.fix for one in done.rounds} == set(FIXES) - {"bfloat16"}


def test_a_fix_that_was_slow_in_its_profile_only_is_kept(monkeypatch):
    done = put_right(monkeypatch, {"channels_last": 10.0}, {})
    assert all(one.kept for one in done.rounds)


def test_a_fix_that_makes_it_slower_is_taken_back(monkeypatch):
    seconds = {"channels_last": 10.0, "threads": 1.1}
    done = put_right(monkeypatch, seconds, seconds)
    assert {one.fix for one in done.rounds} == set(FIXES)
    assert [one.fix for one in done.rounds if not one.kept] == ["channels_last"]
    assert set(done.last.fixes) == set(FIXES) - {"channels_last"}
    assert "(taken back)" in str(done)
    assert "taken back" in done.round("channels_last").outcome
    assert str(done).endswith("2.300 to 2.300")


def test_at_the_end_all_versions_are_timed_in_the_same_turns(monkeypatch):
    done = put_right(monkeypatch, {}, {"pack": 0.25})
    assert {len(seconds) for one in done.rounds for seconds in vars(one.gain).values()} == {TURNS}
    assert done.round("pack").gain.factor == 4.0


def test_versions_take_turns_and_a_first_step_is_not_counted(monkeypatch):
    steps = iter(range(100))

    def train(photos, fixes, count, **_):
        assert count == 2
        return SimpleNamespace(seconds=(1e6, float(next(steps))))

    monkeypatch.setattr(putting_right, "train", train)
    assert in_turn(Path("photos"), [(), ("pack",)], 3) == [(0.0, 2.0, 4.0), (1.0, 3.0, 5.0)]


def test_the_clock_has_one_figure_and_its_spread():
    assert str(Clock((2.0, 1.0, 1.6))) == ("1.60 s for 32 images: 20 images/s (3 steps: 16 to 32)")


@pytest.mark.parametrize(
    ("before", "after", "within"),
    [
        (0.9, 0.4, True),  # 2.25 times as fast, where 0.6 of the step allow 2.5
        (1.0, 0.25, False),
        (0.7, 0.25, True),  # recorded, the step took 1/0.7 of its time without a profiler
    ],
)
def test_a_gain_is_held_against_amdahl(before, after, within):
    one = Round("pack", SLOW, SLOW, gain=Gain((before, 9.0, before), (after, 1.0, after)))
    assert one.bound == pytest.approx(2.5)
    assert one.within_bound == within


def test_seconds_in_item_are_those_of_a_mean_step():
    trace = Trace(
        rank=None,
        world_size=None,
        start=np.array([0.0, 0.1, 0.2]),
        duration=np.array([0.02, 0.5, 0.04]),
        name=np.array([1, 0, 1], np.int32),
        category=np.zeros(3, np.int32),
        thread=np.zeros(3, np.int32),
        names=("aten::add", "aten::item"),
        categories=("cpu_op",),
        threads=(("1", "1"),),
        steps=(Step(1, 0.0, 0.15), Step(2, 0.15, 0.3)),
    )
    assert putting_right.item_seconds(trace) == pytest.approx(0.03)


def test_what_is_concluded_is_computed():
    after = version(fixes=("pack",), forward=0.3, backward=0.3)
    fixed = version(fixes=("pack", "threads"), forward=0.3, item=0.001)
    last = replace(fixed, fixes=("pack", "threads", "no_item"))
    done = PutRight(
        (
            Round("pack", SLOW, after, gain=Gain((1.0, 1.0), (0.25, 0.5))),
            Round("threads", after, fixed, gain=Gain((0.25, 0.5), (0.125, 0.25))),
            Round("bfloat16", fixed, fixed, False, Gain((0.125, 0.25), (0.25, 0.5))),
            Round("no_item", fixed, last, gain=Gain((0.125, 0.25), (0.0625, 0.5))),
        )
    )
    first, second, *_ = done.rounds
    assert (first.share, first.left, first.bound) == pytest.approx((0.6, 0.0, 2.5))
    assert (second.part, second.share) == ("forward and backward", 1.0)
    assert (done.best, done.tightest) == (first, first)
    assert (done.gain.least, done.gain.most) == (2.0, 16.0)
    assert [stage.name for stage in done.stages] == [
        "slow script",
        "+ pack",
        "+ threads",
        "+ no_item",
    ]
    assert done.stages[1].time == pytest.approx(0.375)
    assert "no clear difference" in done.round("no_item").outcome
    assert done.item_share == pytest.approx(0.001 / 0.3)


def test_a_version_is_profiled_for_real(tmp_path):
    photos.write(load().train, tmp_path / "photos", PHOTOS, side=48)
    seen = putting_right.profiled(tmp_path / "photos", ("whole_batch",), tmp_path / "logs", timed=2)
    for part in ("loading", "transforms", "forward", "backward", "optimizer"):
        assert getattr(seen.shares, part) > 0
    assert 0 < seen.item < seen.shares.step
    assert seen.clock.images_per_second > 0
    assert len(seen.clock.seconds) == 2
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [seen.trace.name]
