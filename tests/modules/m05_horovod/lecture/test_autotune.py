"""The autotuner's log as a table, and what it shows beside the defaults."""

from hpml.modules.m05_horovod.lecture.autotune import finding, table

LOG = "a,b,cycle_time_ms,tensor_fusion_threshold,score\n1,0,5,4,50.0\n1,0,9.681,2.35,20.0\n"


def test_the_last_three_columns_are_shown_one_below_the_other():
    assert table(LOG, 40.0).splitlines() == [
        " cycle_time_ms  tensor_fusion_threshold    score",
        "             5                        4     50.0",
        "         9.681                     2.35     20.0",
        "             1                      128  40.0000  the defaults",
    ]


def test_the_best_point_is_compared_with_the_defaults():
    held, sentence, _ = finding(LOG, 40.0)
    assert held
    assert "a cycle of 5 ms and a buffer of 4 MB: 50.0 bytes per microsecond" in sentence
    assert "2.5 times the worst" in sentence
    assert "1.25 times what the defaults have, 40.0" in sentence


def test_defaults_within_the_margin_are_as_good():
    assert "so little was to be gained" in finding(LOG, 48.0)[1]


def test_defaults_that_are_better_than_all_are_said_to_be():
    assert "The defaults have 60.0, more than all that was tried" in finding(LOG, 60.0)[1]


def test_settings_that_make_no_difference_are_no_conclusion():
    held, _, otherwise = finding("c,t,s\n5,4,50\n9,2,49\n", 50.0)
    assert not held
    assert "no difference" in otherwise
