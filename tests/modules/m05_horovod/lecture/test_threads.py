"""Settings for threads: each against one thread of the same script."""

import pytest

from hpml.frameworks.run import Outcome
from hpml.modules.m05_horovod.lecture import threads

FOLLOWED = {"serial_keras": "TF_NUM_INTRAOP_THREADS", "serial_torch": "OMP_NUM_THREADS"}


@pytest.fixture
def scripts(monkeypatch):
    """Scripts that are twice as fast with a second thread, if they follow the variable."""

    def run(script, *, images, epochs, environment):
        return Outcome(1, images, 100.0 * int(environment[FOLLOWED[script]]), 0.5)

    monkeypatch.setattr(threads, "run", run)


def test_each_setting_is_compared_with_one_thread_of_its_script(scripts):
    measured = threads.compare()
    assert measured.one == {"serial_keras": 100, "serial_torch": 100}
    assert list(measured.gains.values()) == [2, 1, 2, 2]
    assert measured.held
    assert str(measured).splitlines()[:3] == [
        "serial_keras:    100 images/s with one thread",
        "  TF_NUM_INTRAOP_THREADS=2             2.00 times as fast",
        "  OMP_NUM_THREADS=2                    1.00 times as fast",
    ]


def test_where_nothing_changes_nothing_is_concluded(monkeypatch):
    monkeypatch.setattr(threads, "run", lambda script, **_: Outcome(1, 1, 100.0, 0.5))
    assert not threads.compare().held
