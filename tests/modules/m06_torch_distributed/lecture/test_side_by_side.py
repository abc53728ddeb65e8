"""A framework is called the quickest only where it is so by more than the margin."""

from hpml.frameworks.run import Outcome
from hpml.modules.m06_torch_distributed.lecture.side_by_side import MARGIN, compare

LINES = {"alone": 0, "DDP": 15, "Horovod": 14, "Keras": 10}


def outcomes(**speeds):
    return {
        name: Outcome(1 if name == "alone" else 2, 32, speed, 0.3) for name, speed in speeds.items()
    }


def test_the_quickest_is_named_beyond_the_margin():
    found = compare(outcomes(alone=1000, DDP=1700, Horovod=1600, Keras=3400), LINES, "alone", "DDP")
    assert (found.held, found.shortest, found.quickest) == (True, ["Keras"], "Keras")
    assert (found.ahead, found.close, found.gain) == (2.0, [], 1.7)


def test_within_the_margin_others_are_close():
    found = compare(outcomes(alone=1000, DDP=1700, Horovod=1600, Keras=900), LINES, "alone", "DDP")
    assert (found.quickest, found.close) == ("DDP", ["Horovod"])
    assert found.ahead < MARGIN


def test_one_process_that_is_quicker_is_not_compared_with_two():
    found = compare(outcomes(alone=9000, DDP=1700, Horovod=100, Keras=100), LINES, "alone", "DDP")
    assert (found.quickest, found.ahead) == ("DDP", 17.0)


def test_other_numbers_of_steps_are_no_comparison():
    found = outcomes(alone=1000, DDP=1700) | {"Keras": Outcome(2, 16, 900, 0.3)}
    assert not compare(found, LINES, "alone", "DDP").held
