"""The part of a step that sets the pace."""

from hpml.predict.bottleneck import finding, largest

FAST = {"load": 0.01, "forward": 0.05, "backward": 0.12, "update": 0.01, "communicate": 0.07}
SLOW = FAST | {"communicate": 0.7}


def test_forward_and_backward_are_one_part():
    step = {"load": 0.08, "forward": 0.06, "backward": 0.06, "update": 0.0, "communicate": 0.1}
    assert largest(step) == "forward and backward"
    assert largest(SLOW) == "communicating"


def test_another_link_is_another_bottleneck():
    held, sentence, _ = finding(FAST, SLOW)
    assert held
    assert "*forward and backward* takes the most, 65% of the step" in sentence


def test_two_parts_that_are_nearly_equal_are_no_finding():
    assert not finding(FAST | {"communicate": 0.16}, SLOW)[0]
    assert not finding(FAST, FAST)[0]
