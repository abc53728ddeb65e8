"""The autotuner's log as a table."""

from hpml.frameworks.autotune import table


def test_the_last_three_columns_are_shown_one_below_the_other():
    log = "a,b,cycle_time_ms,tensor_fusion_threshold,score\n1,0,5,4,53.33\n1,0,9.681,2.35,39.7\n"
    assert table(log).splitlines() == [
        " cycle_time_ms  tensor_fusion_threshold    score",
        "             5                        4    53.33",
        "         9.681                     2.35     39.7",
    ]
