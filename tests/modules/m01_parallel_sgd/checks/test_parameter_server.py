"""Exercise parameter_server: what is served, and what its judges say of runs made by hand."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.compare import difference
from hpml.checks.contract import CannotJudge
from hpml.modules.m01_parallel_sgd.checks import parameter_server as exercise
from hpml.network.link import parse_link
from hpml.ranks.evidence import ANYONE, Asked, Call, Traffic

SEED = 4
GRADIENTS, EQUALS, PAIRS, WIRE = (claim.judge for claim in exercise.CHECK.claims)
NAMES = ("gradients", "equals", "pairs", "wire")


def call(operation, peer, ranks=(0, 1)):
    return Call(1, operation, ranks, 1, "float64", (9,), 72, "", 5, 0.0, 0.0, 0.0, peer=peer)


SERVES = (call("send", 1), call("recv", 1))
WORKS = (call("recv", 0), call("send", 0))


@pytest.fixture
def good(hand_made):
    """`good(W)` is a run of a right answer on W ranks."""

    def run_of(world_size):
        inputs = exercise.inputs(SEED, world_size)
        weights = exercise.expect(inputs, world_size)["weights"]
        values = [weights[-1], *[None] * (world_size - 1)]
        run = hand_made(exercise.CHECK, values, seed=SEED)
        ranks = tuple(
            replace(
                rank,
                calls=WORKS if rank.rank else SERVES,
                traffic=traffic(rank, world_size),
                asked=asked_at(weights[:-1]),
            )
            for rank in run.evidence.ranks
        )
        link = parse_link("1gbit", world_size)
        return replace(run, evidence=replace(run.evidence, ranks=ranks, link=link))

    return run_of


def traffic(rank, world_size, factor=1.05):
    peers = 1 if rank.rank else world_size - 1
    sent = int(factor * exercise.STEPS * exercise.NBYTES * peers)
    return Traffic(sent, sent // 1500, sent, sent // 1500)


def asked_at(seen):
    return tuple(Asked({"weights": weights}, 0.0, 0.0) for weights in seen)


def with_rank(run, rank, **changes):
    ranks = tuple(
        replace(one, **changes) if one.rank == rank else one for one in run.evidence.ranks
    )
    return replace(run, evidence=replace(run.evidence, ranks=ranks))


def with_seen(run, rank, seen):
    return with_rank(run, rank, asked=asked_at(seen))


def problems(run):
    judged = zip(NAMES, (claim.judge(run) for claim in exercise.CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


def test_ranks_have_no_samples_and_gradients_are_of_the_weights_asked_for():
    ranks = exercise.inputs(SEED, 2)
    sent, server = exercise.serve(ranks)
    assert [set(each) for each in sent] == [{"weights"}, {"weights"}]
    weights = ranks[0]["weights"]
    (reply,) = server(1, {"weights": weights.float()})
    right = ranks[1]["curvature"] * (weights - ranks[1]["target"])
    assert (reply.rank, difference(reply.value, right, 1e-6)) == (1, None)
    for request in (None, {}, {"weights": weights[1:]}, {"weights": weights.long()}):
        with pytest.raises(ValueError, match="gradients are for weights of shape"):
            server(1, request)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_a_good_run_has_no_problems(good, world_size):
    assert problems(good(world_size)) == {}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_usual_mistakes_are_far_from_the_truth(seed, world_size):
    expected = exercise.expect(exercise.inputs(seed, world_size), world_size)
    for each in expected["mistakes"].values():
        for weights in each:
            assert difference(weights[-1], expected["weights"][-1], 1e-3)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_each_mistake_of_the_server_meets_its_hint(good, world_size):
    run = good(world_size)
    # With two ranks, the sum and a division by one worker are the same.
    for hint, each in run.expected["mistakes"].items():
        for weights in each:
            found = problems(with_rank(run, 0, value=weights[-1]))
            assert found == {"equals": hint}


def test_the_way_counts_and_not_only_the_end(good):
    run = good(2)
    seen = [weights.clone() for weights in run.expected["weights"][:-1]]
    seen[2][1] += 0.1
    changed = with_seen(with_seen(run, 0, seen), 1, seen)
    assert problems(changed) == {"equals": "start"}


def with_one_off(weights):
    weights = weights.clone()
    weights[-1] += 1
    return weights


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda seen: seen[:-1], "steps"),
        (lambda seen: [*seen, seen[-1]], "steps"),
        (lambda seen: [*seen[:-1], with_one_off(seen[-1])], "protocol"),
    ],
)
def test_a_worker_that_computes_on_other_weights_is_found(good, change, hint):
    run = good(3)
    changed = with_seen(run, 2, change(run.expected["weights"][:-1]))
    assert problems(changed) == {"gradients": hint}


@pytest.mark.parametrize(
    "final", [torch.zeros(3), torch.zeros(exercise.ELEMENTS, dtype=torch.float32)]
)
def test_what_is_not_the_weights_is_told_so(good, final):
    assert problems(with_rank(good(2), 0, value=final)) == {"equals": "types"}


@pytest.mark.parametrize(
    ("rank", "calls", "found"),
    [
        (0, (*SERVES, call("barrier", "")), {"pairs": "collective"}),
        (1, (), {"pairs": "collective"}),
        (1, (*WORKS, call("send", 2)), {"pairs": "star"}),
        (1, (call("recv", ANYONE), call("send", 0)), {}),
    ],
)
def test_the_ledger_tells_who_talks_to_whom(good, rank, calls, found):
    assert problems(with_rank(good(3), rank, calls=calls)) == found


@pytest.mark.parametrize(
    ("rank", "factor", "found"),
    [
        (0, 1.05 * (exercise.STEPS + 1) / exercise.STEPS, {}),
        (0, 1.75, {"wire": "wire"}),
        (1, 1.75, {"wire": "wire"}),
        (0, 0.5, {"wire": "few"}),
        (1, 0.0, {"wire": "few"}),
    ],
)
def test_the_kernel_tells_how_much_travelled(good, rank, factor, found):
    run = good(4)
    changed = traffic(run.evidence.ranks[rank], 4, factor)
    assert problems(with_rank(run, rank, traffic=changed)) == found


def test_without_a_network_to_count_on_nothing_is_claimed_of_bytes(good):
    run = good(3)
    for rank in range(3):
        run = with_rank(run, rank, traffic=None)
    run = replace(run, evidence=replace(run.evidence, link=None, no_link="no tbf"))
    assert isinstance(WIRE(run), CannotJudge)
    assert GRADIENTS(run) is EQUALS(run) is PAIRS(run) is None
