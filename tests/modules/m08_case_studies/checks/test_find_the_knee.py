"""The check of find_the_knee: jobs have one right choice, and judges name mistakes."""

import pytest

from hpml.modules.m08_case_studies.checks.find_the_knee import CHECK
from hpml.modules.m08_case_studies.checks.instructors import _knee_cases as cases
from hpml.modules.m08_case_studies.checks.instructors._knee_mistakes import (
    OF_THE_BILL,
    OF_THE_CHEAPEST,
    OF_THE_EDGES,
    OF_THE_KNEE,
)

SEEDS = range(5)
EXAMPLE = {
    "images": 72_000_000,
    "deadline": 4.0,
    "per_node": 4,
    "node_hour": 10.0,
    "worth": 0.7,
    "measured": [(16, 9000.0), (4, 4000.0), (6, 5100.0), (3, 3300.0), (8, 7000.0)],
}


def right(seed: int) -> dict:
    return {
        "bills": [cases.exact_bill(*case) for case in cases.bill_cases(seed)],
        "deadlines": [cases.cheapest(job) for job in cases.deadline_jobs(seed)],
        "edges": [cases.cheapest(job) for job in cases.edge_jobs(seed)],
        "knees": [cases.knee(job) for job in cases.knee_jobs(seed)],
    }


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 1) == CHECK.inputs(1, 1)
    assert CHECK.inputs(1, 1) != CHECK.inputs(2, 1)


def test_the_example_of_the_text():
    assert [cases.exact_bill(EXAMPLE, *point) for point in ((4, 4000.0), (8, 7000.0))] == [
        (5, 50),
        pytest.approx((2.857, 57.14), rel=1e-3),
    ]
    assert cases.exact_bill(EXAMPLE, 6, 5100.0) == pytest.approx((3.92, 78.43), rel=1e-3)
    assert cases.cheapest(EXAMPLE) == 8
    assert cases.gains(EXAMPLE) == [0.75, 0.25]
    assert cases.knee(EXAMPLE) == 8


def test_the_knee_is_before_the_first_step_that_does_not_pay():
    def job(*rates, worth=0.5):
        measured = [(2 * nodes, rate) for nodes, rate in enumerate(rates, 1)]
        return EXAMPLE | {"per_node": 2, "worth": worth, "measured": measured[::-1]}

    assert cases.knee(job(100.0)) == 2
    assert cases.knee(job(100.0, 120.0)) == 2
    assert cases.knee(job(100.0, 190.0, 260.0)) == 6
    assert cases.knee(job(100.0, 190.0, 170.0, 290.0)) == 4
    assert cases.knee(job(100.0, 190.0, 260.0, worth=0.8)) == 4


def test_the_cheapest_in_time_and_of_equal_bills_the_sooner():
    job = EXAMPLE | {"per_node": 2, "measured": [(2, 1000.0), (4, 1999.9999), (8, 3000.0)]}
    assert cases.cheapest(job | {"deadline": 30.0}) == 4
    assert cases.cheapest(job | {"deadline": 7.0}) == 8
    assert cases.cheapest(job | {"deadline": 6.0}) is None


def least_bills(job) -> list[float]:
    return sorted(round(cases.exact_bill(job, *one)[1], 2) for one in job["measured"])[:2]


def test_where_bills_are_equal_the_soonest_size_is_a_dearer_one():
    for seed in SEEDS:
        ties = [job for job in cases.edge_jobs(seed) if len(set(least_bills(job))) == 1]
        assert len(ties) == cases.EDGES[cases.TIED]
        for job in ties:
            soonest, _ = max(job["measured"], key=lambda point: point[1])
            assert soonest == max(job["measured"])[0] != cases.cheapest(job)


def test_who_compares_bills_in_whole_units_earns_nothing_for_ties(right_answer, played_here):
    old = "found.append((money, hours, ranks))"
    assert old in right_answer
    source = right_answer.replace(old, "found.append((round(money), hours, ranks))")
    for seed in SEEDS:
        assert played_here(source, seed)[2] in ("tie", "cheapest")


def test_of_every_mistake_there_is_a_job_that_shows_it():
    for seed in SEEDS:
        for jobs, chosen, mistakes in (
            (cases.deadline_jobs(seed), cases.cheapest, OF_THE_CHEAPEST),
            (cases.edge_jobs(seed), cases.cheapest, OF_THE_EDGES),
            (cases.knee_jobs(seed), cases.knee, OF_THE_KNEE),
        ):
            for name, mistake in mistakes:
                assert any(mistake(job) != chosen(job) for job in jobs), name


def test_hints_of_mistakes_are_those_of_the_check():
    for name, _ in (*OF_THE_BILL, *OF_THE_CHEAPEST, *OF_THE_EDGES, *OF_THE_KNEE):
        assert name in CHECK.hints


@pytest.mark.parametrize(
    ("name", "mistake"), OF_THE_BILL, ids=[str(number) for number in range(len(OF_THE_BILL))]
)
def test_a_wrong_bill_is_named(hints, name, mistake):
    for seed in SEEDS:
        bills = [(cases.exact_bill(*one)[0], mistake(*one)) for one in cases.bill_cases(seed)]
        assert hints(right(seed) | {"bills": bills}, seed) == [name, "", "", ""]


def test_what_is_not_written_yet_costs_only_its_own_points(right_answer, played_here):
    unwritten = "\ndef find_the_knee(job):\n    raise NotImplementedError()\n"
    assert played_here(right_answer + unwritten, 1) == ["", "", "", "unwritten"]
    raising = "\ndef cheapest(job):\n    return {}[1]\n"
    assert played_here(right_answer + raising, 1) == ["", "raised", "raised", ""]


@pytest.mark.parametrize("odd", [None, 3, [], [8] * 3, {"raised": 3}])
def test_what_is_no_list_of_choices_is_reported(hints, odd):
    assert hints(right(0) | {"deadlines": odd, "edges": odd, "knees": odd}) == [
        "",
        "shape",
        "shape",
        "shape",
    ]


def test_a_message_has_the_job_as_it_is_given(problems):
    wrong = right(1)
    wrong["knees"] = [1_000_003] * len(wrong["knees"])
    job = cases.knee_jobs(1)[0]
    message = problems(wrong, 1)[-1].message
    assert str(sorted(job["measured"])) in message
    assert f"worth {job['worth']}" in message


@pytest.mark.parametrize("value", [2.5, "8", [8], True, float("nan"), float("inf")])
def test_what_is_no_number_of_ranks_is_reported(hints, value):
    wrong = right(0)
    wrong["deadlines"][0] = wrong["edges"][0] = wrong["knees"][0] = value
    assert hints(wrong) == ["", "shape", "shape", "shape"]


@pytest.mark.parametrize("value", [None, 3.0, [], (1.0,), (1.0, "2"), (1.0, True)])
def test_a_bill_that_is_no_pair_of_numbers_is_reported(hints, value):
    assert hints(right(0) | {"bills": [value] * cases.BILLS}) == ["bill_shape", "", "", ""]


def test_a_bill_is_right_to_the_cent(hints):
    for cents, expected in ((0.4, ""), (0.9, "bill")):
        bills = [(hours, money + cents / 100) for hours, money in right(1)["bills"]]
        assert hints(right(1) | {"bills": bills}, 1) == [expected, "", "", ""]


def test_a_knee_is_never_none(hints):
    wrong = right(2)
    wrong["knees"][0] = None
    assert hints(wrong, 2) == ["", "", "", "knee"]


def test_no_message_has_what_should_have_been_found(problems):
    value = right(4)
    for claim in ("deadlines", "edges", "knees"):
        value[claim] = [1_000_003] * len(value[claim])
    value["bills"] = [(0.123, 0.456)] * len(value["bills"])
    for problem in problems(value, 4):
        assert problem.expected
        assert problem.expected not in problem.message
        assert "not measured" in problem.message or "bill" in problem.message


@pytest.mark.parametrize(
    "value", [None, [], {"bills": [], "deadlines": [], "edges": [], "knees": 1}]
)
def test_fewer_values_than_calls_are_reported(hints, value):
    assert hints(value) == ["bill_shape", "shape", "shape", "shape"]
