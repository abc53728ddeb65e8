"""The autotuner's log as a table, and what it shows beside the defaults."""

from hpml.modules.m05_horovod.lecture.autotune import found, table

LOG = "a,b,cycle_time_ms,tensor_fusion_threshold,score\n1,0,5,4,50.0\n1,0,9.681,2.35,20.0\n"


def test_the_last_three_columns_are_shown_one_below_the_other():
    assert table(LOG, 40.0).splitlines() == [
        " cycle_time_ms  tensor_fusion_threshold    score",
        "             5                        4     50.0",
        "         9.681                     2.35     20.0",
        "             1                      128  40.0000  the defaults",
    ]


def test_the_best_point_is_compared_with_the_worst_and_the_defaults():
    best = found(LOG, 40.0)
    assert best == (2, 5, 4, 50, 20, 40)
    assert best.held
    assert [(one.beats, one.beaten) for one in (best, found(LOG, 48.0), found(LOG, 60.0))] == [
        (True, False),
        (False, False),  # within the margin
        (False, True),
    ]


def test_settings_that_make_no_difference_are_not_a_conclusion():
    assert not found("c,t,s\n5,4,50\n9,2,49\n", 50.0).held
