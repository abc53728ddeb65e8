"""Ranks with TensorFlow and without Horovod."""

import importlib.util

import pytest

from hpml.checks.contract import LIBRARIES
from hpml.errors import UserError
from hpml.ranks import flavour, launch

WHY = flavour.missing("tensorflow")


@pytest.mark.xdist_group("tensorflow")
@pytest.mark.skipif(WHY is not None, reason=str(WHY))
def test_ranks_have_tensorflow_and_torchs_processes():
    def drive():
        import os
        import sys

        import tensorflow as tf
        import torch
        import torch.distributed as dist

        total = torch.ones(1)
        dist.all_reduce(total)
        numbers = tf.data.Dataset.range(0, 6, 2)
        return {
            "sum": total.item(),
            "numbers": [int(number) for number in numbers.as_numpy_iterator()],
            "rank": os.environ["RANK"],
            "horovod": "horovod" in sys.modules,
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        }

    evidence = launch(drive, 2, flavour="tensorflow", timeout=90)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    assert [value["rank"] for value in evidence.values] == ["0", "1"]
    for rank, value in zip(evidence.ranks, evidence.values, strict=True):
        assert value["sum"] == 2.0
        assert value["numbers"] == [0, 2, 4]
        assert not value["horovod"]
        assert value["threads"] == 1
        assert rank.stdout == ""


def test_what_is_missing_is_named_in_one_line(monkeypatch):
    there = importlib.util.find_spec
    without = {"tensorflow"}
    monkeypatch.setattr(flavour, "find_spec", lambda name: None if name in without else there(name))
    assert flavour.missing("torch") is None
    assert flavour.missing("tensorflow").startswith("tensorflow is not installed")
    with pytest.raises(UserError, match=r"ranks with tensorflow: tensorflow is not installed"):
        launch(lambda: None, 1, flavour="tensorflow")
    without.add("horovod")
    for needs in ("horovod", "horovod-tensorflow"):
        assert flavour.missing(needs) == "Horovod is not installed: ./hpml horovod"


def test_tensorflow_does_not_need_horovod(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(flavour, "find_spec", lambda name: name != "horovod" and there(name))
    assert flavour.missing("tensorflow") == WHY


def test_every_flavour_has_its_libraries_and_its_place():
    assert tuple(LIBRARIES) == flavour.FLAVOURS
    assert [name for name in flavour.FLAVOURS if flavour.by_horovod(name)] == [
        "horovod",
        "horovod-tensorflow",
    ]
    for name, libraries in LIBRARIES.items():
        assert ("tensorflow" in libraries) == flavour.with_tensorflow(name)
        assert ("horovod" in libraries) == flavour.by_horovod(name)
