"""Exercise alpha_beta: what its judges say of a good run, and of one with a change."""

from dataclasses import replace

import pytest

from hpml.allreduce import schedule
from hpml.checks.contract import CannotJudge, Run
from hpml.modules.m01_parallel_sgd.checks import alpha_beta
from hpml.modules.m01_parallel_sgd.checks.alpha_beta import ALGORITHMS, CHECK, SIZES
from hpml.predict.collectives import Cost, all_reduce_seconds
from hpml.ranks.evidence import Evidence, Mark, RankEvidence

NAIVE, TREE, RING, HALVING, CURVE = [claim.judge for claim in CHECK.claims]
OF = dict(zip(ALGORITHMS, (NAIVE, TREE, RING, HALVING), strict=True))
ALPHA, BETA = 1e-4, 8e-8  # of the runs made by hand: seconds, seconds per byte


@pytest.fixture
def right(hand_made):
    """A run at which every function is right, without measurements."""
    inputs = CHECK.inputs(7, 2)
    said = CHECK.expect(inputs, 2)
    value = {"said": said, "terms": {}}
    return hand_made(CHECK, [value] * 2, seed=7)


@pytest.mark.parametrize(
    ("name", "messages", "gigabytes"),
    [
        ("naive", 2046, 2046.0),
        ("tree", 20, 20.0),
        ("ring", 2046, 1.998),
        ("halving_doubling", 20, 1.998),
    ],
)
def test_the_texts_1024_ranks_send_what_the_text_says(name, messages, gigabytes):
    algorithm = ALGORITHMS[name]
    assert all_reduce_seconds(algorithm, 4, 1024, Cost(1, 0)) == messages
    assert all_reduce_seconds(algorithm, 1e9, 1024, Cost(0, 1e-9)) == pytest.approx(
        gigabytes, rel=1e-3
    )


@pytest.mark.parametrize("nbytes", [1, 1e3, 1e9])
@pytest.mark.parametrize("ranks", [2, 4, 16, 1024])
def test_halving_doubling_is_never_slower_than_the_ring(nbytes, ranks):
    took = [
        all_reduce_seconds(algorithm, nbytes, ranks, Cost(1e-5, 1e-9, 1e-10))
        for algorithm in ("halving-doubling", "ring")
    ]
    assert took[0] <= took[1] * (1 + 1e-9)


def changed(run, name, change):
    """With `change(case, said)` for what rank 1's function said of each case."""
    value = run.values[1]
    cases = alpha_beta.cases_of(name, run.inputs["formulas"][0]["cases"])
    said = [change(case, said) for case, said in zip(cases, value["said"][name], strict=True)]
    ranks = [
        run.evidence.ranks[0],
        replace(run.evidence.ranks[1], value={**value, "said": {**value["said"], name: said}}),
    ]
    return replace(run, evidence=replace(run.evidence, ranks=tuple(ranks)))


def test_the_closed_form_is_right(right):
    assert [claim.judge(right) for claim in CHECK.claims] == [None] * 5


@pytest.mark.parametrize("name", ["naive", "ring", "halving_doubling"])
def test_the_factors_of_alpha_and_beta_are_those_of_the_schedules_busiest_rank(right, name):
    cases = alpha_beta.cases_of(name, right.inputs["formulas"][0]["cases"])
    for (nbytes, ranks, *_), (_, messages, sent, added) in zip(
        cases, right.expected[name], strict=True
    ):
        if ranks > 16:
            continue
        plan = schedule(ALGORITHMS[name], ranks)
        loads = plan.loads()
        assert messages == sum(load.messages for load in loads)
        assert sent == pytest.approx(sum(load.parts for load in loads) * nbytes / plan.parts)
        assert added == pytest.approx(sum(load.added for load in loads) * nbytes / plan.parts)


@pytest.mark.parametrize("name", list(ALGORITHMS))
@pytest.mark.parametrize(("factor", "hint"), [(1, "latency"), (2, "bytes"), (3, "added")])
def test_each_factor_is_held_by_itself(right, name, factor, hint):
    def off(case, said):
        said = list(said)
        said[factor] *= 0.9 if case[1] == 12 or case[1] == 16 else 1
        return said

    problem = OF[name](changed(right, name, off))
    assert problem.hint == hint
    assert problem.message.startswith(name)
    others = [judge for other, judge in OF.items() if other != name]
    assert [judge(changed(right, name, off)) for judge in others] == [None] * 3


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        ("ring", lambda case, said: [s + (case[1] == 1) for s in said], "one_rank"),
        ("naive", lambda case, said: [2 * said[0], *said[1:]], "sum"),
        ("naive", lambda case, said: [None, *said[1:]], "types"),
        ("naive", lambda case, said: [10**400, *said[1:]], "types"),
        ("naive", lambda case, said: [float("nan"), *said[1:]], "sum"),
        ("naive", lambda case, said: [said[0], float("nan"), *said[2:]], "one_rank"),
    ],
)
def test_what_is_wrong_besides_the_factors_has_hints_of_its_own(right, name, change, hint):
    assert OF[name](changed(right, name, change)).hint == hint


def measured(off=1.0, ranks=4, link="100mbit", delayed=False, told=1.0):
    """A run with marks as the model has them, but `off` times as long; the answer's functions say
    `told` times what the closed form says."""
    from hpml.network.link import parse_link

    inputs = CHECK.inputs(3, ranks)
    names = inputs["formulas"][0]["measured"]
    expected = CHECK.expect(inputs, ranks)
    terms = {
        name: [
            [
                told
                * alpha_beta.all_reduce_seconds(ALGORITHMS[name], n, ranks, alpha_beta.Cost(*unit))
                for unit in ((1, 0, 0), (0, 1, 0))
            ]
            for n in SIZES
        ]
        for name in names
    }
    spans = {"α": 2 * ALPHA, "β": 5 * ALPHA + 4 * SIZES[0] * BETA}
    for name in names:
        for nbytes, (messages, sent) in zip(SIZES, terms[name], strict=True):
            spans[f"{name} {nbytes}"] = off * (messages * ALPHA + sent * BETA) / told
    marks, now = [], 0.0
    for name, span in spans.items():
        marks += [Mark(name, now), Mark(f"{name} done", now + span)]
        now += span
    value = {"said": expected, "terms": terms}
    found = tuple(RankEvidence(r, "returned", value, marks=tuple(marks)) for r in range(ranks))
    evidence = Evidence(ranks, found, 1.0, link=parse_link(link, ranks) if link else None)
    stages = {"measured": evidence, "formulas": evidence}
    return Run(ranks, 3, inputs, expected, evidence, stages, delayed)


def test_alpha_and_beta_come_from_the_marks():
    assert alpha_beta.measured_cost(measured().stages["measured"]) == pytest.approx((ALPHA, BETA))


@pytest.mark.parametrize("ranks", [3, 4])
def test_what_is_measured_may_be_off_by_15_percent(ranks):
    assert CURVE(measured(ranks=ranks)) is None
    assert CURVE(measured(ranks=ranks, told=1.14)) is None
    problem = CURVE(measured(ranks=ranks, told=1.17))
    assert problem.hint == "curve"
    assert problem.message.startswith("naive of 64 kB and 192 kB took")


@pytest.mark.parametrize("ranks", [3, 4])
def test_where_a_busy_machine_is_far_from_the_closed_form_that_is_what_counts(ranks):
    assert CURVE(measured(ranks=ranks, off=1.8)) is None
    assert CURVE(measured(ranks=ranks, off=1.8, told=0.9)) is None
    assert CURVE(measured(ranks=ranks, off=1.8, told=0.8)).hint == "curve"
    assert CURVE(measured(ranks=ranks, off=1.8, told=1.7)).hint == "curve"


def test_nothing_is_claimed_of_late_ranks_or_without_a_network():
    assert CURVE(measured(told=2.0, delayed=True)) is None
    assert CURVE(measured(told=2.0, ranks=2)) is None
    assert isinstance(CURVE(measured(told=2.0, link=None)), CannotJudge)
