"""Exercise sync_sgd: equal to the big batch, and each way to average wrongly meets its own hint."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.compare import difference
from hpml.modules.m01_parallel_sgd.checks import _paths_picture as paths_picture
from hpml.modules.m01_parallel_sgd.checks import sync_sgd as exercise
from hpml.ranks.evidence import Call, Diagnosis

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
            **{start: inputs[0][own].clone() for own, start in exercise.STARTS.items()},
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
    return problems_of(staged(run))


def problems_of(run):
    judged = zip(CLAIMS, (claim.judge(run) for claim in exercise.CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


def test_a_step_of_all_ranks_is_that_of_one_with_all_samples():
    inputs = exercise.draw(SEED, 3)
    shards = [rank["shards"][UNEVEN][0] for rank in inputs]
    together = [torch.cat([shard[part] for shard in shards]) for part in (0, 1)]
    weights = inputs[0]["shared"].clone().requires_grad_()
    x, y = together
    ((x @ weights - y).square() / 2).mean().backward()
    rate = exercise.RATES[1]
    expected = weights.detach() - rate * weights.grad
    assert not difference(exercise.big_batch(inputs[0]["shared"], shards, rate), expected, 1e-12)


def test_the_texts_gradients_of_30_and_10_samples_are_one_of_2():
    zero = torch.zeros(1, dtype=torch.float64)

    def shard(samples, mean):
        x = torch.ones(samples, 1, dtype=torch.float64)
        return [x, torch.full((samples,), -float(mean), dtype=torch.float64)]

    shards = [shard(30, 1), shard(10, 5)]
    alone = [-exercise.big_batch(zero, [one], 1.0).item() for one in shards]
    assert alone == [1, 5]
    assert -exercise.big_batch(zero, shards, 1.0).item() == 2
    assert (sum(alone) / 2, sum(alone)) == (3, 6)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_usual_mistakes_are_far_from_the_truth_and_from_each_other(
    hand_made, with_ranks, seed, world_size
):
    """On every draw, so that no wrong answer passes by luck."""
    good = hand_made(exercise.CHECK, right(world_size, seed), seed=seed, calls=[CALL])
    expected = good.expected
    for kind in exercise.KINDS:
        lone = world_size == 2 and kind == LACKING  # but one rank has samples
        for hint, candidates in expected[kind]["mistakes"].items():
            if (hint == "means" and kind == EVEN) or (lone and hint != "unchanged"):
                continue  # what is not a mistake there
            for weights in candidates:

                def first_step(rank, kind=kind, weights=weights):
                    after = {**rank.value["after"]}
                    after[kind] = [weights, *after[kind][1:]]
                    return replace(rank, value=rank.value | {"after": after})

                run = with_ranks(good, first_step)
                found = {kind: hint}
                if kind == EVEN and hint in ("alone", "unchanged"):
                    found["samples"] = hint  # whatever was called, no gradient has travelled
                assert problems(run) == found


def test_no_shard_and_no_start_is_like_another():
    inputs = exercise.draw(SEED, 4) + exercise.draw(SEED + 1, 4)
    starts = {tuple(rank[own].tolist()) for rank in inputs for own in exercise.STARTS}
    assert len(starts) == 16
    lengths = [len(rank["shards"][UNEVEN][0][1]) for rank in inputs[:4]]
    assert len(set(lengths)) == 4
    lacking = [[len(y) for _, y in rank["shards"][LACKING]] for rank in inputs[:4]]
    # One has none, and then all but one
    assert [[lengths[step] for lengths in lacking].count(0) for step in (0, 1)] == [1, 3]
    assert [0, 0] in lacking
    assert [rank["shards"][UNEVEN][1][1].numel() for rank in inputs[:4]].count(1) == 1


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda value: {}, {}),
        (lambda value: {"start": None}, {"start": "types"}),
        (lambda value: {"start": value["start"].float()}, {"start": "no_sync"}),
        (lambda value: {"start, again": value["start"]}, {"start": "kept"}),
        (
            lambda value: {"after": value["after"] | {EVEN: [None]}},
            {EVEN: "types", "samples": "types"},
        ),
        (lambda value: {"after": value["after"] | {UNEVEN: [torch.zeros(3)]}}, {UNEVEN: "types"}),
    ],
)
def test_changed_values_meet_their_hint(hand_made, change, found):
    values = right(2)
    values[1] |= change(values[1])
    assert problems(hand_made(exercise.CHECK, values, seed=SEED, calls=[CALL])) == found


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


def test_a_rank_without_samples_that_leaves_costs_its_own_claim_alone(hand_made):
    run = staged(hand_made(exercise.CHECK, right(2), seed=SEED, calls=[CALL]))
    left = Diagnosis("hang", "rank 0 waits in all_reduce")
    run.stages[LACKING] = replace(run.stages[LACKING], diagnosis=left)
    assert problems_of(run) == {LACKING: "without_samples"}


def test_samples_are_more_than_the_budget_for_gradients():
    for world_size in (2, 3, 4):
        for rank in exercise.inputs(SEED, world_size)[exercise.FILLED]:
            samples = [t for kind in rank["shards"].values() for shard in kind for t in shard]
            nbytes = sum(8 * tensor.numel() for tensor in samples)
            of_y = sum(8 * tensor.numel() for tensor in samples if tensor.dim() == 1)
            most = exercise.LARGEST * (exercise.STEPS * len(exercise.KINDS[:2]) + 2)
            assert nbytes > 1.5 * most
            assert of_y > 1.25 * most


def test_one_rank_may_do_without_communication(hand_made):
    assert problems(hand_made(exercise.CHECK, right(1), seed=SEED, calls=[])) == {}


@pytest.fixture(scope="module")
def walked():
    """The picture's ranks, and the path of one process with their samples."""
    given = paths_picture.inputs()
    return given, paths_picture.one_process(given)[0]


def test_the_picture_says_whether_ranks_walk_where_one_process_does(walked):
    given, path = walked
    samples = sum(len(own["y"]) for own in given)
    aside = path + torch.linspace(0, 1, len(path), dtype=torch.float64)[:, None] * 3
    bulge = path.clone()
    bulge[1] += 1
    for paths, title in (
        ([path] * 4, f"4 ranks walk where one process with all {samples} samples does"),
        ([path, path, aside, path], "After 10 steps rank 2 is 4.2 away from one process"),
        ([aside] * 4, "After 10 steps all ranks are 4.2 away from one process"),
        ([path, bulge, path, path], "Not all ranks walk where one process"),
    ):
        assert paths_picture.title_of(paths, path, samples).startswith(title)


def test_the_picture_shows_each_ranks_weights_beside_those_of_one_process(walked):
    given, path = walked
    paths = [path + rank for rank in range(4)]
    (axes,) = paths_picture.drawn(paths, given).axes
    lines = {line.get_label(): torch.tensor(line.get_xydata()) for line in axes.lines}
    assert torch.equal(lines["one process, all 180 samples"], path)
    for rank, own in enumerate(given):
        assert torch.equal(lines[f"rank {rank}, {len(own['y'])} samples"], paths[rank])
    crosses = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "x"]
    assert crosses[:4] == [[own["own"].tolist()] for own in given]


def test_the_picture_is_of_what_an_answer_did(solution, monkeypatch):
    seen, draw = [], paths_picture.drawn
    monkeypatch.setattr(
        paths_picture, "drawn", lambda paths, given: seen.append(paths) or draw(paths, given)
    )
    answer, check = solution("sync_sgd"), exercise.CHECK
    assert check.picture(check, answer).png.startswith(b"\x89PNG")
    right, x, y = paths_picture.one_process(paths_picture.inputs())
    assert all(torch.allclose(path, right, rtol=0, atol=1e-9) for path in seen[0])
    # The mean of the ranks' best weights is another place than the best for all samples
    best = torch.linalg.lstsq(x, y[:, None]).solution[:, 0]
    assert (torch.tensor(paths_picture.OPTIMA).mean(0) - best).norm() > 0.5
    with pytest.raises(ValueError, match="not two finite numbers"):
        check.picture(check, answer.replace("/ both[-1]", "/ 0 * both[-1]"))
