"""Exercise sync_sgd: equal to the big batch, and each way to average wrongly meets its own hint."""

from dataclasses import replace

import pytest
import torch

from hpml.checks import judge
from hpml.checks.compare import difference
from hpml.checks.m01_parallel_sgd import sync_sgd as exercise
from hpml.checks.run_check import examine
from hpml.ranks.evidence import Call

SEED = 4
EVEN, UNEVEN, LACKING = exercise.KINDS
CLAIMS = ("start", EVEN, UNEVEN, LACKING, "samples")
CALL = Call(1, "all_reduce", (0, 1), 1, "float64", (7,), 56, "sum", 5, 0.0, 0.0, 0.0)


def right(world_size, seed=SEED):
    """What a right answer's ranks bring back."""
    inputs = exercise.draw(seed, world_size)
    expected = exercise.expect(exercise.inputs(seed, world_size), world_size)
    return [
        {
            "start": inputs[0]["own"].clone(),
            "after": {kind: list(expected[kind]["after"]) for kind in exercise.KINDS},
        }
        for _ in range(world_size)
    ]


def staged(run):
    """The run with what each stage's ranks bring back, of values that have everything."""
    ranks = run.evidence.ranks
    filled = replace(run.evidence, ranks=ranks)
    lacking = replace(
        run.evidence,
        ranks=tuple(
            replace(rank, value={"after": {LACKING: rank.value["after"][LACKING]}})
            for rank in ranks
        ),
    )
    stages = {exercise.FILLED: filled} | ({LACKING: lacking} if run.world_size > 1 else {})
    return replace(run, stages=stages)


def problems(run):
    run = staged(run)
    judged = zip(CLAIMS, (claim.judge(run) for claim in exercise.CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("sync_sgd", solution("sync_sgd"), seed=seed)
    assert verdict.passed, verdict.headline
    assert verdict.earned == 10


OTHER_WAYS = {
    "two all-reduces, and the gradient of autograd": """
    weights.requires_grad_()
    loss = (x @ weights - y).square().sum() / 2
    loss.backward()
    samples = torch.tensor(float(len(y)), dtype=torch.float64)
    dist.all_reduce(weights.grad)
    dist.all_reduce(samples)
    return (weights - learning_rate * weights.grad / samples).detach()
""",
    "gathered gradients and counts, in place": """
    mine = torch.cat([x.T @ (x @ weights - y), torch.tensor([len(y)], dtype=torch.float64)])
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    total = torch.stack(parts).sum(0)
    weights -= learning_rate * total[:-1] / total[-1]
    return weights
""",
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_any_way_to_the_same_step_is_right(way):
    source = f"""
import torch
import torch.distributed as dist

def start(weights):
    box = [weights]
    dist.broadcast_object_list(box, src=0)
    return box[0]

def step(weights, x, y, learning_rate):{OTHER_WAYS[way]}"""
    verdict = judge("sync_sgd", source, seed=SEED)
    assert verdict.passed, [claim.message for claim in verdict.claims]


@pytest.mark.parametrize("seed", [3, 4])
def test_the_solution_holds_where_ranks_come_late(solution, seed):
    verdict = examine("sync_sgd", solution("sync_sgd"), worlds=(4,), seed=seed, delayed=True)
    assert verdict.verdict.passed


def test_a_step_of_all_ranks_is_that_of_one_with_all_samples():
    inputs = exercise.draw(SEED, 3)
    shards = [rank["shards"][UNEVEN][0] for rank in inputs]
    together = [torch.cat([shard[part] for shard in shards]) for part in (0, 1)]
    weights = inputs[0]["shared"].clone().requires_grad_()
    x, y = together
    ((x @ weights - y).square() / 2).mean().backward()
    expected = weights.detach() - exercise.LEARNING_RATE * weights.grad
    assert not difference(exercise.big_batch(inputs[0]["shared"], shards), expected, 1e-12)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_usual_mistakes_are_far_from_the_truth_and_from_each_other(hand_made, seed, world_size):
    """On every draw, so that no wrong answer passes by luck."""
    expected = exercise.expect(exercise.inputs(seed, world_size), world_size)
    for kind in exercise.KINDS:
        lone = world_size == 2 and kind == LACKING  # but one rank has samples
        for hint, candidates in expected[kind]["mistakes"].items():
            if (hint == "means" and kind == EVEN) or (lone and hint != "unchanged"):
                continue  # what is no mistake there
            for weights in candidates:
                values = right(world_size, seed)
                for value in values:
                    value["after"][kind][0] = weights
                run = hand_made(exercise.CHECK, values, seed=seed, calls=[CALL])
                found = {kind: hint}
                if kind == EVEN and hint in ("alone", "unchanged"):
                    found["samples"] = hint  # whatever was called, no gradient has travelled
                assert problems(run) == found


def test_no_shard_and_no_start_is_like_another():
    inputs = exercise.draw(SEED, 4) + exercise.draw(SEED + 1, 4)
    starts = {tuple(rank["own"].tolist()) for rank in inputs}
    assert len(starts) == 8
    lengths = [len(rank["shards"][UNEVEN][0][1]) for rank in inputs[:4]]
    assert len(set(lengths)) == 4
    lacking = [[len(y) for _, y in rank["shards"][LACKING]] for rank in inputs[:4]]
    assert lacking.count([0, 0]) == 1


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda value, own: {}, {}),
        (lambda value, own: {"start": own}, {"start": "no_sync"}),
        (lambda value, own: {"start": None}, {"start": "types"}),
        (lambda value, own: {"start": value["start"].float()}, {"start": "no_sync"}),
        (
            lambda value, own: {"after": value["after"] | {EVEN: [None]}},
            {EVEN: "types", "samples": "types"},
        ),
        (
            lambda value, own: {"after": value["after"] | {UNEVEN: [torch.zeros(3)]}},
            {UNEVEN: "types"},
        ),
        (
            lambda value, own: {
                "after": value["after"] | {LACKING: [w * torch.nan for w in value["after"][EVEN]]}
            },
            {LACKING: "nan"},
        ),
    ],
)
def test_changed_values_meet_their_hint(hand_made, change, found):
    values = right(2)
    own = exercise.draw(SEED, 2)[1]["own"]
    values[1] |= change(values[1], own)
    assert problems(hand_made(exercise.CHECK, values, seed=SEED, calls=[CALL])) == found


def test_the_mean_of_all_starts_is_told_apart(hand_made):
    values = right(3)
    mean = torch.stack([rank["own"] for rank in exercise.draw(SEED, 3)]).mean(0)
    for value in values:
        value["start"] = mean
    run = hand_made(exercise.CHECK, values, seed=SEED, calls=[CALL])
    assert problems(run) == {"start": "start_mean"}


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([CALL] * 7, {}),
        ([CALL] * 9, {}),
        ([], {"samples": "alone"}),
        ([CALL] * 6 + [replace(CALL, nbytes=20_000)], {"samples": "samples"}),
    ],
)
def test_the_ledger_tells_what_travelled(hand_made, calls, found):
    assert problems(hand_made(exercise.CHECK, right(2), seed=SEED, calls=calls)) == found


def test_calls_for_show_are_no_gradients_that_travelled(hand_made):
    values = right(3)
    for value in values:
        value["after"][EVEN] = [torch.zeros_like(weights) for weights in value["after"][EVEN]]
    run = hand_made(exercise.CHECK, values, seed=SEED, calls=[CALL] * 7)
    assert problems(run) == {EVEN: "start", "samples": "start"}


def test_samples_are_more_than_the_budget_for_gradients():
    for world_size in (2, 3, 4):
        for rank in exercise.inputs(SEED, world_size)[exercise.FILLED]:
            samples = [t for kind in rank["shards"].values() for shard in kind for t in shard]
            nbytes = sum(8 * tensor.numel() for tensor in samples)
            most = exercise.LARGEST * (exercise.STEPS * len(exercise.KINDS[:2]) + 1)
            assert nbytes > 1.5 * most


def test_one_rank_may_do_without_communication(hand_made):
    assert problems(hand_made(exercise.CHECK, right(1), seed=SEED, calls=[])) == {}


def edited(solution, old, new):
    source = solution("sync_sgd")
    assert source.count(old) == 1
    return source.replace(old, new)


def test_a_rank_without_samples_that_leaves_costs_its_own_claim_alone(solution):
    leaves = "    if len(y) == 0:\n        return weights\n    gradient = x.T"
    verdict = judge("sync_sgd", edited(solution, "    gradient = x.T", leaves), worlds=(1, 2))
    assert verdict.earned == 9
    (claim,) = [claim for claim in verdict.claims if not claim.passed]
    assert claim.hint_key == "without_samples"
    assert "waits in all_reduce" in claim.message


def test_a_rank_without_samples_that_raises_hears_of_its_shapes(solution):
    raises = "    gradient = x.T @ (x @ weights - y) + 0 * y[0]"
    old = "    gradient = x.T @ (x @ weights - y)"
    verdict = judge("sync_sgd", edited(solution, old, raises), worlds=(2,), seed=SEED)
    assert {c.hint_key for c in verdict.claims if not c.passed} == {"empty"}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("(x @ weights - y)", "(x @ weights.float() - y)", "two dtypes"),
        ("(x @ weights - y)", "(x @ weights - z)", "other cell"),
        ("(x @ weights - y)", "(x @ weights - y[:, 0])", "raised"),
        ("torch.cat([gradient, samples])", "torch.cat([gradient, samples]).float()", "rounding"),
    ],
)
def test_the_hint_is_of_what_was_raised_or_rounded(solution, old, new, hint):
    verdict = judge("sync_sgd", edited(solution, old, new), worlds=(1,), seed=SEED)
    assert {c.hint_key for c in verdict.claims if not c.passed} == {hint}
