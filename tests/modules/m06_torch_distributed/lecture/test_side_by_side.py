"""A framework is called the quickest only where it is so by more than the margin."""

from hpml.frameworks.run import Outcome
from hpml.modules.m06_torch_distributed.lecture.side_by_side import finding

LINES = {"alone": 0, "DDP": 15, "Horovod": 14, "Keras": 10}


def outcomes(**speeds):
    return {
        name: Outcome(1 if name == "alone" else 2, 32, speed, 0.3) for name, speed in speeds.items()
    }


def test_the_quickest_is_named_beyond_the_margin():
    found = outcomes(alone=1000, DDP=1700, Horovod=1600, Keras=3400)
    held, sentence, _ = finding(found, LINES, "alone", "DDP")
    assert held
    assert sentence == (
        "Fewest lines: Keras. Quickest: Keras, 2.00 times as quick as the next. DDP has 1.70 times "
        "the images/s of PyTorch alone."
    )


def test_within_the_margin_no_one_is_the_quickest():
    found = outcomes(alone=1000, DDP=1700, Horovod=1600, Keras=900)
    sentence = finding(found, LINES, "alone", "DDP")[1]
    assert "Quickest: no one; DDP and Horovod are within 1.2 times of each other" in sentence


def test_one_process_that_is_quicker_is_not_compared_with_two():
    found = outcomes(alone=9000, DDP=1700, Horovod=100, Keras=100)
    assert "Quickest: DDP, 17.00 times" in finding(found, LINES, "alone", "DDP")[1]


def test_more_than_twice_is_an_error_of_the_measurement():
    found = outcomes(alone=1000, DDP=2100, Horovod=1600, Keras=900)
    sentence = finding(found, LINES, "alone", "DDP")[1]
    assert sentence.endswith("is no gain, but the error of so short a measurement.")


def test_other_numbers_of_steps_are_no_comparison():
    found = outcomes(alone=1000, DDP=1700) | {"Keras": Outcome(2, 16, 900, 0.3)}
    assert not finding(found, LINES, "alone", "DDP")[0]
