"""Exercise alpha_beta: each misconception meets its own hint, and the link is judged fairly."""

import types

import pytest

from hpml.checks import judge
from hpml.checks.contract import CannotJudge, Run
from hpml.checks.m01_parallel_sgd import _costs as costs
from hpml.checks.m01_parallel_sgd import alpha_beta as exercise
from hpml.link import Link
from hpml.ranks.evidence import Evidence, RankEvidence

CLAIMS = dict(zip(costs.ALGORITHMS, exercise.CHECK.claims, strict=False))
SEED = 5
BUSY = 3e-3  # seconds of latency


def run_of(said, measured=None, *, seed=SEED, borrowed=(), link=True, delayed=False) -> Run:
    """A run in which the functions returned `said`, and over the link what `measured` has."""
    inputs = exercise.inputs(seed, 1)
    formulas = Evidence(1, (RankEvidence(0, "returned", {"said": said, "borrowed": borrowed}),), 0)
    ranks = tuple(RankEvidence(rank, "returned", measured) for rank in range(exercise.RANKS))
    over = Evidence(
        exercise.RANKS,
        ranks,
        0.0,
        link=Link("100mbit", 10**8) if link else None,
        no_link="" if link else "not here",
    )
    stages = {"formulas": formulas, "link": over}
    expected = exercise.expect(inputs, 1)
    return Run(1, seed, inputs, expected, over, stages, delayed)


def right_values(seed=SEED):
    return exercise.expect(exercise.inputs(seed, 1), 1)


def test_the_solution_holds(solution):
    verdict = judge("alpha_beta", solution("alpha_beta"), seed=SEED)
    assert verdict.passed, verdict.headline
    assert verdict.earned == 10


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", costs.ALGORITHMS)
def test_every_mistake_is_found_on_every_draw_with_its_own_hint(seed, name):
    calls = exercise.inputs(seed, 1)["formulas"][0][name]
    mistakes = costs.MISTAKES[name] | {
        hint: make(costs.right(name)) for hint, make in costs.EVERYWHERE.items()
    }
    for hint, formula in mistakes.items():
        run = run_of(right_values(seed) | {name: [formula(*call) for call in calls]}, seed=seed)
        found = {n: claim.judge(run) for n, claim in CLAIMS.items()}
        assert found.pop(name).hint == costs.SHARED_HINTS.get(hint, hint)
        assert set(found.values()) == {None}


def test_a_mistake_of_no_kind_gets_the_algorithms_own_hint():
    run = run_of(right_values() | {"ring_seconds": [7.0] * 9})
    assert CLAIMS["ring_seconds"].judge(run).hint == "ring_seconds"


@pytest.mark.parametrize("value", [None, "3", True, [1.0]])
def test_what_is_no_number_is_told_so(value):
    said = right_values()
    said["tree_seconds"][0] = value
    problem = CLAIMS["tree_seconds"].judge(run_of(said))
    assert problem.hint == "types"
    assert "not a float" in problem.message


def test_who_asks_the_library_has_not_written_it():
    run = run_of(right_values(), borrowed=["hpml.allreduce"])
    assert {claim.judge(run).hint for claim in CLAIMS.values()} == {"library"}


def over_the_link(noise=0.0, of=costs.right) -> dict:
    """What the link's stage brings back: every second measurement is `noise` more than modelled."""
    sizes = exercise.REDUCED
    model = exercise.predictions(costs.right, sizes, BUSY, 8e-8)
    taken = {
        name: [seconds * (1 + noise * (place % 2)) for place, seconds in enumerate(row)]
        for name, row in model.items()
    }
    alpha, beta = exercise.fitted(sizes, taken)
    off = exercise.median_error(exercise.predictions(costs.right, sizes, alpha, beta), taken)
    said = exercise.predictions(of, sizes, alpha, beta)
    return {"off": off, "alpha": alpha, "beta": beta, "taken": taken, "said": said}


def test_the_fit_finds_the_latency_and_the_bandwidth_that_were_there():
    found = over_the_link()
    assert (found["alpha"], found["beta"]) == pytest.approx((BUSY, 8e-8))
    assert found["off"] < 1e-9


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0, 5.0])
def test_a_right_answer_predicts_the_link_however_busy_the_machine_is(noise):
    assert exercise.predicts_the_link(run_of(right_values(), over_the_link(noise))) is None


def test_predictions_that_are_far_off_are_told_with_what_was_measured():
    def half(name):
        return lambda *call: costs.right(name)(*call) / 2

    problem = exercise.predicts_the_link(run_of(right_values(), over_the_link(of=half)))
    assert problem.hint == "off"
    assert "off by 50%" in problem.message
    assert f"{exercise.REDUCED[-1]} bytes: took" in problem.message


def test_without_a_link_nothing_can_be_said_of_it():
    found = exercise.predicts_the_link(run_of(right_values(), over_the_link(), link=False))
    assert found == CannotJudge("the network is not emulated on this machine: not here")


def test_where_ranks_were_made_to_wait_the_link_was_not_measured():
    def nothing(name):
        return lambda *call: 0.0

    run = run_of(right_values(), over_the_link(of=nothing), delayed=True)
    assert exercise.predicts_the_link(run) is None
