"""The check of predict_scaling: its model holds by hand, its judges name mistakes."""

import ast
import re

import pytest

from hpml.modules.m08_case_studies.checks._published_jobs import fitted_points, published
from hpml.modules.m08_case_studies.checks.instructors import _scaling_jobs
from hpml.modules.m08_case_studies.checks.instructors._bucketed_step import (
    RIGHT,
    buckets,
    images_per_s,
    ready,
    ring_seconds,
    step_seconds,
)
from hpml.modules.m08_case_studies.checks.instructors._scaling_jobs import (
    ENDS_WITH_COMPUTE,
    NOTHING_LEFT,
    hasty,
    planted,
    tables,
    whole_rate,
)
from hpml.modules.m08_case_studies.checks.instructors._scaling_jobs import (
    IN_THE_TEXT as JOB,
)
from hpml.modules.m08_case_studies.checks.instructors.predict_scaling import inputs, lines
from hpml.paths import CHECKOUT

SEEDS = range(4)


def test_the_worked_example_of_the_text():
    text = (CHECKOUT / "solutions/08_case_studies.py").read_text(encoding="utf-8")
    shown = re.search(
        r"^# job = (\{\n(?:#     .*\n)+# \})", text[text.index("# ## `predict_sc") :], re.M
    )
    assert ast.literal_eval(re.sub(r"^# ", "", shown[1], flags=re.M)) == JOB
    compute = JOB["batch"] / JOB["alone"]
    leaving = buckets(ready(JOB["layers"], compute, RIGHT), JOB["bucket_bytes"], RIGHT)
    assert leaving == [(pytest.approx(1 / 6), 50_000_000), (pytest.approx(0.3), 10_000_000)]
    assert ring_seconds(50_000_000, 8, JOB["network"]) == pytest.approx(0.04515)
    assert step_seconds(JOB, 8) == pytest.approx(0.31015)
    assert images_per_s(JOB, 8) == pytest.approx(1548, abs=0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_decides_a_rule_is_played_whatever_the_seed(seed):
    given = inputs(seed, 1)[0]
    assert [JOB, 8] in given["buckets"]
    assert {8, 5, 3} <= {ranks for _, ranks, net in given["ring"] if net == JOB["network"]}
    assert sum(nbytes for _, nbytes in JOB["layers"][1:]) == JOB["bucket_bytes"]
    assert [NOTHING_LEFT, 8] in given["buckets"]
    assert JOB["layers"][0][1] == NOTHING_LEFT["bucket_bytes"]
    assert [ENDS_WITH_COMPUTE, 8] in given["buckets"]
    assert images_per_s(ENDS_WITH_COMPUTE, 8) == pytest.approx(8 * JOB["alone"])
    for job, points in given["tables"]:
        assert points != sorted(points)
        assert fitted_points(job, points)[0][0] < 2 * job["network"]["per_node"]


def test_a_hasty_table_is_met_best_by_a_share_that_is_to_be_skipped():
    # 31, 93: among their draws are tables for which every share's wait is negative
    for seed in (*range(18), 31, 93):
        table = hasty(seed)
        first, second = fitted_points(table.job, table.points)
        assert table.wait < 0
        assert second[1] == pytest.approx(
            images_per_s(table.job, second[0], table.share, table.wait)
        )
        share, wait = planted(table.job, table.points)
        assert wait >= 0
        assert images_per_s(table.job, first[0], share, wait) == pytest.approx(first[1], rel=1e-3)
        assert images_per_s(table.job, second[0], share, wait) == pytest.approx(second[1], rel=1e-3)


def test_a_table_of_the_whole_rate_is_met_best_by_a_share_of_1():
    for seed in range(20):
        table = whole_rate(seed)
        share, wait = planted(table.job, table.points)
        assert share == 1
        assert wait > 0
        for ranks, rate in fitted_points(table.job, table.points):
            predicted = images_per_s(table.job, ranks, share, wait)
            assert predicted == pytest.approx(rate, rel=4e-3)


def test_the_largest_size_of_the_first_table_has_the_fewest_images_per_second():
    for seed in range(10):
        table = tables(seed)[0]
        node = table.job["network"]["per_node"]
        beyond = [point for point in table.points if point[0] > node]
        assert max(beyond) == min(beyond, key=lambda point: point[1])
        assert 0 < tables(seed)[-1].share < 0.08


def test_points_may_be_sorted_in_place(right_answer, played_here):
    sorts = right_answer.replace("beyond = sorted(", "points.sort(); beyond = sorted(")
    assert sorts != right_answer
    assert not any(played_here(sorts, 1))
    both = sorts.replace("beyond[:2]", "beyond[-2:]")
    assert played_here(both, 1)[3] == "fit"


def test_a_bucket_waits_for_the_one_before_it():
    slow = {**JOB, "network": {**JOB["network"], "across": (0.0, 1.6e9)}}
    assert step_seconds(slow, 8) == pytest.approx(1 / 6 + 0.4375 + 0.0875)


def test_one_rank_communicates_with_nobody():
    assert images_per_s(JOB, 1, 0.01, 5.0) == pytest.approx(JOB["alone"])


def test_share_and_wait_count_across_nodes():
    half = {**JOB["network"], "across": (1e-4, 8e9)}
    assert step_seconds(JOB, 8, 0.5) == pytest.approx(step_seconds({**JOB, "network": half}, 8))
    assert step_seconds(JOB, 4, 0.5) == step_seconds(JOB, 4)
    assert step_seconds(JOB, 8, 1.0, 0.01) == pytest.approx(step_seconds(JOB, 8) + 0.03)


def test_jobs_and_tables_are_fresh_for_every_seed():
    for name in ("ring", "whole", "buckets", "constants", "tables"):
        assert len({repr(inputs(seed, 1)[0][name]) for seed in SEEDS}) == len(SEEDS), name


def test_no_table_shows_its_constants_beside_those_that_are_asked_for():
    """Calls with a share and a wait are of other tables than those that `fit` is given."""
    for seed in SEEDS:
        given = inputs(seed, 1)[0]
        asked = {repr(job) for job, _ in given["tables"]}
        assert not asked & {repr(call[0]) for call in given["constants"]}


def test_two_points_of_a_table_are_met_and_the_others_are_slower():
    for seed in range(10):
        for table in tables(seed):
            fitted = fitted_points(table.job, table.points)
            assert len(fitted) == 2
            for ranks, rate in table.points:
                predicted = images_per_s(table.job, ranks, table.share, table.wait)
                if (ranks, rate) in fitted or ranks == 1:
                    assert rate == pytest.approx(predicted)
                else:
                    assert rate < 0.95 * predicted


def test_a_table_has_one_pair_of_constants():
    assert not any(_scaling_jobs._another_share_fits(t) for seed in range(10) for t in tables(seed))


def test_a_table_shows_the_constants_that_it_was_made_with():
    made = [table for seed in range(10) for table in tables(seed)]
    assert [planted(one.job, one.points) for one in made] == [(one.share, one.wait) for one in made]


@pytest.mark.parametrize("share", [0.01, 0.137, 0.5, 1.0])
def test_a_step_is_the_most_of_its_lines_whatever_the_share(share):
    for table in tables(1):
        for ranks, _ in fitted_points(table.job, table.points):
            most = max(start + sent / share for start, sent in lines(table.job, ranks))
            assert most == pytest.approx(step_seconds(table.job, ranks, share), rel=1e-12)


def test_published_points_that_are_given_are_none_of_those_to_predict():
    for one in published():
        assert not set(one.given) & set(one.unseen)
        assert max(one.given)[0] < min(one.unseen)[0]
        assert len(fitted_points(one.job, one.given)) == 2


def test_the_median_and_the_worst_table_are_held_to_their_limits(right_answer, value_of, problems):
    value, due = value_of(right_answer, 1), [one.unseen[0][1] for one in published()]
    assert len(due) == 8
    for errors, fails in (
        ([0.0] * 8, False),
        ([0.19] * 3 + [0.09] * 5, False),
        ([0.21] + [0.0] * 7, True),
        ([-0.12] * 5 + [0.0] * 3, True),
    ):
        pairs = zip(due, errors, strict=True)
        value["published"] = [[rate * (1 + error)] for rate, error in pairs]
        assert [bool(problem) for problem in problems(value, 1)] == [False] * 4 + [fails]


def test_what_is_not_written_yet_costs_only_its_own_points(right_answer, played_here):
    unwritten = right_answer + "\ndef fit(job, points):\n    raise NotImplementedError\n"
    assert played_here(unwritten, 1) == ["", "", "", "unwritten", "unwritten"]
    nothing = right_answer + "\ndef fit(job, points):\n    pass\n"
    assert played_here(nothing, 1)[3] == "types"
    raising = right_answer + "\ndef images_per_s(job, ranks):\n    return {}[1]\n"
    assert played_here(raising, 1)[:2] == ["", "raised"]


def test_who_knows_the_published_points_by_heart_has_shown_nothing(
    right_answer, value_of, problems
):
    value = value_of(right_answer, 2)
    value["published"] = [[rate for _, rate in one.unseen] for one in published()]
    value["tables"] = [[0.5, 0.0]] * len(value["tables"])
    assert [bool(problem) for problem in problems(value, 2)] == [False, False, False, True, True]


@pytest.mark.parametrize(("factor", "fails"), [(1.0 + 5e-5, False), (1.001, True)])
def test_a_value_may_be_off_by_a_ten_thousandth(right_answer, value_of, problems, factor, fails):
    value = value_of(right_answer, 3)
    for name in ("ring", "whole", "buckets"):
        value[name] = [factor * one for one in value[name]]
    assert [bool(problem) for problem in problems(value, 3)][:3] == [fails] * 3


@pytest.mark.parametrize("odd", [None, True, "1", float("nan"), 10**4000, [1.0]])
def test_what_is_no_number_is_reported(right_answer, value_of, problems, odd):
    value = value_of(right_answer, 1)
    for name in ("ring", "whole", "buckets", "constants"):
        value[name] = [odd] * len(value[name])
    value["tables"], value["published"] = [[odd, odd]] * 5, [[odd]] * len(published())
    assert all(problems(value, 1))


@pytest.mark.parametrize("odd", [None, 3, [], {}, [[]], {"raised": 3}, [1.0] * 3])
def test_what_has_another_shape_is_reported(right_answer, value_of, problems, odd):
    value = value_of(right_answer, 1)
    for name in value.keys() - {"changed"}:
        assert any(problems({**value, name: odd}, 1)), name
    assert all(problems(odd, 1))


def test_no_message_has_what_should_have_been_found(right_answer, value_of, problems):
    value = value_of(right_answer, 2)
    for name in ("ring", "whole", "buckets"):
        value[name] = [1.234e-3] * len(value[name])
    for problem in problems(value, 2)[:3]:
        assert problem.expected
        assert problem.expected not in problem.message
