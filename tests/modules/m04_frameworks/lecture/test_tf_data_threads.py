"""Thread settings of tf.data: what trials show, and one trial."""

from dataclasses import replace

import pytest

from hpml.errors import UserError
from hpml.modules.m04_frameworks.lecture import tf_data_threads as threads
from hpml.modules.m04_frameworks.lecture.tf_data_threads import PRIVATE, SETTINGS, SHARED, Tried
from hpml.ranks import flavour

WHY = flavour.missing("tensorflow")


@pytest.fixture
def seen(monkeypatch):
    """Two cores, two calls at once by default, and as many as the pipeline's own pool."""
    monkeypatch.setattr(threads, "usable_cores", lambda: 2.0)
    rates = {1: 1_000.0, 2: 1_900.0, 4: 1_800.0}
    return {s: Tried(s.private or 2, rates[s.private or 2]) for s in SETTINGS}


def test_only_the_pipelines_own_pool_counts(seen):
    assert threads.at_once(seen) == (True, 2, 2, {1: 1, 2: 2, 4: 4})
    assert not threads.at_once(seen | {SHARED[1]: Tried(4, 1.0)}).held
    assert not threads.at_once(seen | {PRIVATE[2]: Tried(3, 1.0)}).held


def test_what_more_threads_are_worth(seen):
    assert threads.gain(seen) == (True, 2, 1.9)
    slow = {s: replace(one, rate=1_000.0) for s, one in seen.items()}
    assert not threads.gain(slow).held
    too_good = seen | {PRIVATE[1]: Tried(2, 9_000.0)}
    assert not threads.gain(too_good).held


def test_the_table_has_a_line_for_each_setting(seen):
    lines = threads.table(seen).splitlines()
    assert len(lines) == 1 + len(SETTINGS)
    assert len({len(line) for line in lines}) == 1
    assert "OMP_NUM_THREADS 4" in lines[4]


@pytest.mark.xdist_group("tensorflow")
@pytest.mark.skipif(WHY is not None, reason=str(WHY))
def test_one_setting_is_tried(monkeypatch):
    monkeypatch.setattr(threads, "IMAGES", 100)
    tried = threads._tried(PRIVATE[0])
    assert tried.at_once == 1
    assert tried.rate > 0


def test_without_tensorflow_one_line_says_so(monkeypatch):
    monkeypatch.setattr(flavour, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^ranks with tensorflow: tensorflow is not installed"):
        threads.compare()
