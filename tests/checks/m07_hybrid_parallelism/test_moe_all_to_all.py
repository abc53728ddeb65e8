"""Exercise moe_all_to_all: its judges on a good run, and on one with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks import judge
from hpml.checks.m07_hybrid_parallelism import _expert_tokens as tokens
from hpml.checks.m07_hybrid_parallelism.moe_all_to_all import CHECK
from hpml.network.link import Link
from hpml.ranks.evidence import Asked, Traffic

FIT, DROPPED, GRADIENTS, LEARN, ONCE, BYTES = (claim.judge for claim in CHECK.claims)
TIGHT = [number for number, (fits, *_) in enumerate(tokens.CALLS["forward"]) if not fits]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 3, 5)


def changed(run, stage, change):
    """The run with `change(rank's evidence)` in one stage."""
    evidence = run.stages[stage]
    ranks = tuple(change(rank) for rank in evidence.ranks)
    return replace(run, stages={**run.stages, stage: replace(evidence, ranks=ranks)})


def returned(run, outputs):
    """The run in which forward returned `outputs`, [call][rank]."""
    return changed(
        run,
        "forward",
        lambda rank: replace(rank, value=[call[rank.rank] for call in outputs]),
    )


def trained(run, change):
    """The run in which rank 1's first step returned what `change` makes of it."""

    def of_rank(rank):
        if rank.rank != 1:
            return rank
        return replace(rank, value=[{**rank.value[0], **change(rank.value[0])}, *rank.value[1:]])

    return changed(run, "training", of_rank)


@pytest.mark.parametrize("seed", [1, 20_002])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("moe_all_to_all", solution("moe_all_to_all"), seed=seed)
    assert verdict.passed, verdict.headline
    assert verdict.earned == 12


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims[:-1]] == [None] * 5


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_tight_calls_drop_tokens_of_every_kind(seed, world_size):
    ranks = tokens.inputs(seed, world_size)["forward"]
    for number, (fits, *_) in enumerate(tokens.CALLS["forward"]):
        calls, _ = tokens.by_call(ranks, number)
        stays = torch.cat(tokens.kept(calls))
        assert bool(stays.all()) == fits
        taken = torch.tensor(tokens.rows_of(ranks, number)).sum(0)
        assert taken.max() <= calls[0][3]


@pytest.mark.parametrize("mistake", tokens.MISTAKES)
@pytest.mark.parametrize("seed", range(4))
def test_every_mistake_meets_its_hint(good, seed, mistake):
    given = tokens.inputs(seed, 3)
    expected = {"forward": tokens.forward_outputs(given["forward"])}
    run = replace(good, inputs=given, expected=expected)
    run = returned(run, tokens.forward_outputs(given["forward"], mistake))
    of_dropped = mistake in ("capacity", "per_rank", "backwards", "dropped")
    problem = (DROPPED if of_dropped else FIT)(run)
    assert problem.hint == mistake
    assert not problem.expected
    if of_dropped:
        assert FIT(run) is None


def test_rows_in_another_order_are_told_as_that(good):
    outputs = [[y.flip(0) for y in call] for call in good.expected["forward"]]
    assert FIT(returned(good, outputs)).hint == "order"


def test_who_drops_too_many_is_told_so(good):
    outputs = [[y.clone() for y in call] for call in good.expected["forward"]]
    filled = torch.nonzero((outputs[TIGHT[0]][0] != 0).any(1))[:, 0]
    outputs[TIGHT[0]][0][filled[-1]] = 0
    assert DROPPED(returned(good, outputs)).hint == "too_few"


@pytest.mark.parametrize(
    ("value", "hint"),
    [(None, "types"), (torch.zeros(3), "types"), (torch.zeros(1).half(), "types")],
)
def test_what_is_no_output_is_told_so(good, value, hint):
    outputs = [[value for _ in call] for call in good.expected["forward"]]
    assert FIT(returned(good, outputs)).hint == hint


@pytest.mark.parametrize(
    ("change", "judged", "hint"),
    [
        (lambda step: {"x": None}, GRADIENTS, "no_gradient"),
        (lambda step: {"gate": None}, GRADIENTS, "gate_gradient"),
        (lambda step: {"gate": 2 * step["gate"]}, GRADIENTS, "gate_gradient"),
        (lambda step: {"x": 2 * step["x"]}, GRADIENTS, "gradient"),
        (lambda step: {"x": 2 * step["x"], "output": step["x"]}, GRADIENTS, "forward_first"),
        (lambda step: {"x": step["x"].float()}, GRADIENTS, "types"),
        (lambda step: {"experts": [[2 * t for t in e] for e in step["experts"]]}, LEARN, "experts"),
    ],
)
def test_a_wrong_step_is_found(good, change, judged, hint):
    problem = judged(trained(good, change))
    assert problem.hint == hint
    assert "rank 1" in problem.message


def test_experts_that_do_not_learn_are_found(good):
    start = good.inputs["training"][1]["experts"]
    assert LEARN(trained(good, lambda step: {"experts": start})).hint == "unchanged"


def asking(run, change):
    """The run in which rank 1's requests for shifts are what `change(request)` lists."""

    def of_rank(rank):
        if rank.rank != 1:
            return rank
        requests = [
            Asked(new, one.at, one.answered)
            for one in rank.asked
            for new in (change(one.request) if isinstance(one.request, list) else [one.request])
        ]
        return replace(rank, asked=tuple(requests))

    return changed(run, "forward", of_rank)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda request: [request, request], "once"),
        (lambda request: [[*request[:2], request[2] + 1]], "rows"),
        (lambda request: [], "rows"),
    ],
)
def test_how_often_experts_are_applied_is_counted_outside_the_rank(good, change, hint):
    assert ONCE(asking(good, change)).hint == hint


@pytest.mark.parametrize("times", [0.5, 2])
def test_too_few_and_too_many_bytes_are_found(good, times):
    def of_rank(rank):
        enough = tokens.enough_bytes(good.inputs["forward"], "forward")[rank.rank]
        sent = int(times * enough) + (100_000 if times > 1 else 0)
        return replace(rank, traffic=Traffic(sent, 1, sent, 1))

    run = changed(good, "forward", of_rank)
    stages = {
        name: replace(found, link=Link("10gbit", 10**10)) for name, found in run.stages.items()
    }
    problem = BYTES(replace(run, stages=stages))
    assert problem.hint == ("wire" if times > 1 else "parity")


@pytest.mark.parametrize("request_", [["shift", 5, 1], ["shift", "0", 1], ["shift", 0], "gradient"])
def test_a_rank_is_served_its_own_experts_only(request_):
    _, reply = tokens.serve(tokens.inputs(1, 2)["forward"], "forward")
    reply(0, "tokens")
    with pytest.raises(ValueError, match="there is no"):
        reply(0, request_)
