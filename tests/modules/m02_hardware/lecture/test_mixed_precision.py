"""What is concluded from training in float32 and in bfloat16."""

import pytest

from hpml.modules.m02_hardware.lecture import mixed_precision
from hpml.train.history import Epoch, History


def history(accuracy, seconds):
    last = Epoch(
        epoch=1,
        train_loss=1.0,
        train_accuracy=accuracy,
        test_loss=1.0,
        test_accuracy=accuracy,
        lr=0.1,
        seconds=seconds,
        images_per_second=100.0,
    )
    return History({}, "images", True, 1, 1, "cpu", "bfloat16", 10, (last,))


RUNS = {"fp32": history(0.50, 3.0), "bf16": history(0.49, 2.0)}


def test_only_the_precision_differs(monkeypatch):
    configs = []
    monkeypatch.setattr(mixed_precision, "train", configs.append)
    assert list(mixed_precision.compare(samples=7, epochs=2)) == ["fp32", "bf16"]
    one, other = (vars(config) for config in configs)
    assert {name for name in one if one[name] != other[name]} == {"precision"}


def test_accuracy_is_kept_where_the_two_are_close():
    assert mixed_precision.same_accuracy(RUNS)
    assert not mixed_precision.same_accuracy(RUNS | {"bf16": history(0.40, 2.0)})
    assert not mixed_precision.same_accuracy({name: history(0.1, 1.0) for name in RUNS})


@pytest.mark.parametrize(("fast", "held"), [(True, True), (False, False)])
def test_faster_only_with_an_instruction(monkeypatch, fast, held):
    monkeypatch.setattr(mixed_precision, "has_bf16", lambda device: fast)
    assert mixed_precision.quickest_epochs(RUNS) == (held, fast, 3.0, 2.0)


def test_the_picture_has_accuracy_over_seconds():
    (axes,) = mixed_precision.picture(RUNS, title="t").axes
    assert [line.get_xydata().tolist() for line in axes.lines[:2]] == [[[3, 50]], [[2, 49]]]
