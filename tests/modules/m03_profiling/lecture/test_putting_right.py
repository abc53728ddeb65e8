"""A script is put right in the order of its profile."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpml.data import load, photos
from hpml.modules.m03_profiling.lecture import putting_right
from hpml.modules.m03_profiling.lecture.putting_right import PutRight, Round, Version, choose
from hpml.modules.m03_profiling.lecture.slow_training import FIXES, PHOTOS
from hpml.trace.profiler.shares import Shares
from hpml.trace.profiler.trace import Step, Trace

NOTHING = Shares(**dict.fromkeys(Shares.__dataclass_fields__, 0.0))


def version(rate=100.0, fixes=(), item=0.0, **seconds):
    return Version(tuple(fixes), replace(NOTHING, **seconds), rate, item, 2.3, Path("trace"))


SLOW = version(loading=0.6, transforms=0.1, forward=0.1, backward=0.15, other=0.05)


def never(fixes):
    raise AssertionError(f"{fixes} tried without need")


def test_the_largest_share_is_first():
    assert choose(SLOW, FIXES, never) == ("pack", {})
    transforms = version(transforms=0.5, forward=0.2, backward=0.2, other=0.1)
    assert choose(transforms, FIXES, never)[0] == "whole_batch"


def test_forward_and_backward_have_the_same_fixes_and_are_one_part():
    assert choose(version(loading=0.6, forward=0.2, backward=0.2), FIXES, never)[0] == "pack"
    assert choose(version(loading=0.4, forward=0.3, backward=0.3), FIXES, never)[0] == "threads"


def test_a_part_without_a_fix_left_is_passed_over():
    assert choose(SLOW, ["whole_batch", "no_item"], never)[0] == "whole_batch"


def test_of_several_fixes_the_best_one_is_found_by_trying():
    computing = version(forward=0.5, backward=0.5, fixes=("pack",))
    rates = {"one_batch": 120.0, "channels_last": 150.0, "bfloat16": 90.0}
    fix, tried = choose(computing, [*rates, "no_item"], lambda fixes: rates[fixes[-1]])
    assert (fix, tried) == ("channels_last", rates)


def put_right(monkeypatch, profiled, again, without=()):
    """All rounds, where a version whose last fix is named has these images/s, and others 100."""

    def rate(rates, fixes):
        return rates.get(fixes[-1], 100.0) if fixes else 100.0

    def play(photos, fixes, logs):
        return version(rate=rate(profiled, fixes), fixes=fixes)

    monkeypatch.setattr(putting_right, "profiled", play)
    monkeypatch.setattr(putting_right, "_rate", lambda photos, fixes: rate(again, fixes))
    return putting_right.put_right(Path("photos"), Path("logs"), without=without)


def test_a_fix_can_be_left_out(monkeypatch):
    done = put_right(monkeypatch, {}, {}, without=["bfloat16"])
    assert {one.fix for one in done.rounds} == set(FIXES) - {"bfloat16"}


def test_a_fix_that_was_slow_only_once_is_kept(monkeypatch):
    done = put_right(monkeypatch, {"channels_last": 10.0}, {})
    assert all(one.kept for one in done.rounds)


def test_a_fix_that_makes_it_slower_is_taken_back(monkeypatch):
    rates = {"channels_last": 10.0, "threads": 90.0}
    done = put_right(monkeypatch, rates, rates)
    assert {one.fix for one in done.rounds} == set(FIXES)
    assert [one.fix for one in done.rounds if not one.kept] == ["channels_last"]
    assert set(done.last.fixes) == set(FIXES) - {"channels_last"}
    assert "(taken back)" in str(done)
    assert str(done).endswith("2.300 to 2.300")


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
    after = version(rate=300.0, fixes=("pack",), forward=0.3, backward=0.3)
    fixed = version(rate=900.0, fixes=("pack", "threads"), forward=0.3, item=0.001)
    last = replace(fixed, fixes=("pack", "threads", "no_item"))
    bf16 = Round("bfloat16", fixed, replace(fixed, images_per_second=450.0), {})
    done = PutRight(
        (
            Round("pack", SLOW, after, {}),
            Round("threads", after, fixed, {}),
            bf16,
            Round("no_item", fixed, last, {}),
        )
    )
    first, second, *_ = done.rounds
    assert (first.share, first.left, first.gain) == pytest.approx((0.6, 0.0, 3.0))
    assert first.clear
    assert (second.part, second.share) == ("forward and backward", 1.0)
    assert (done.best, done.gain) == (first, 9.0)
    assert (bf16.kept, bf16.clear) == (False, False)
    assert done.item_share == pytest.approx(0.001 / 0.3)


def test_a_version_is_profiled_for_real(tmp_path):
    photos.write(load().train, tmp_path / "photos", PHOTOS, side=48)
    seen = putting_right.profiled(tmp_path / "photos", ("whole_batch",), tmp_path / "logs")
    for part in ("loading", "transforms", "forward", "backward", "optimizer"):
        assert getattr(seen.shares, part) > 0
    assert 0 < seen.item < seen.shares.step
    assert seen.images_per_second > 0
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [seen.trace.name]
