"""Exercise hvd_compression: what its judges say of a good run, and of one with a change."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.chatter import CYCLE
from hpml.checks.contract import CannotJudge
from hpml.checks.m05_horovod.hvd_compression import CHECK
from hpml.ranks.evidence import Traffic

HALF, WIRE, MEANS, LARGE, WHOLE, TRAINED = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def with_ranks(run, stage, change):
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=tuple(change(rank) for rank in evidence.ranks))
    return replace(run, stages={**run.stages, stage: changed})


def test_a_good_run_has_no_problems(good):
    problems = [claim.judge(good) for claim in CHECK.claims]
    assert [p for p in problems if not isinstance(p, CannotJudge)] == [None] * (
        len(problems) - (good.stages["averages"].link is None)
    )


def test_sums_of_large_values_are_out_of_range_and_their_means_are_not():
    for world_size in (2, 3, 4):
        ranks = CHECK.inputs(3, world_size)["averages"]
        values = [rank["tensors"]["large.grad"] for rank in ranks]
        assert torch.stack(values).half().sum(0).isinf().all()
        assert torch.stack(values).mean(0).half().isfinite().all()


def test_whole_numbers_do_not_survive_half_precision():
    counts = CHECK.inputs(3, 1)["averages"][0]["counts"]
    assert not torch.equal(counts, counts.half().long())


@pytest.mark.parametrize("stage", ["averages", "training"])
def test_what_is_sent_at_full_length_is_told(good, stage):
    def whole(rank):
        calls = [replace(c, dtype="float32") if c.dtype == "float16" else c for c in rank.calls]
        return replace(rank, calls=tuple(calls))

    problem = HALF(with_ranks(good, stage, whole))
    assert problem.hint == "after_reduce"
    assert "as float32" in problem.message
    assert HALF(with_ranks(good, stage, lambda r: replace(r, calls=()))).hint == "no_call"


@pytest.mark.parametrize(("sent", "hint"), [(2_100_000, None), (4_100_000, "wire"), (9, "no_call")])
def test_the_wire_is_counted_by_the_kernel(good, sent, hint):
    evidence = good.stages["averages"]
    if evidence.link is None:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    changed = with_ranks(
        good, "averages", lambda rank: replace(rank, traffic=Traffic(sent, 1, sent, 1))
    )
    problem = WIRE(changed)
    assert (problem and problem.hint) == hint


def test_what_ranks_say_in_every_cycle_is_allowed_for_however_long_it_takes(good):
    evidence = good.stages["averages"]
    if evidence.link is None:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    cycles = 20 / CYCLE
    sent = 2_100_000 + round(600 * cycles)
    changed = with_ranks(
        good, "averages", lambda rank: replace(rank, traffic=Traffic(sent, 1, sent, 1))
    )
    assert WIRE(changed).hint == "wire"
    slow = replace(changed.stages["averages"], seconds=20.0)
    assert WIRE(replace(changed, stages={**changed.stages, "averages": slow})) is None


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        ("weight.grad", lambda t: 2 * t, "sum"),
        ("weight.grad", lambda t: t + 0.1, "mean"),
        ("weight.grad", lambda t: t.half(), "own_type"),
        ("bias.grad", lambda t: t.float(), "own_type"),
        ("bias.grad", lambda t: None, "own_type"),
        ("bias.grad", lambda t: t.flatten(), "mean"),
        ("large.grad", lambda t: t * torch.inf, "overflow"),
    ],
)
def test_what_is_wrong_with_a_mean_is_said(good, with_value, name, change, hint):
    def changed(value):
        means = value["means"]
        return value | {"means": means | {name: change(means[name])}}

    run = with_value(good, 1, changed, "averages")
    judge, other = (LARGE, MEANS) if name == "large.grad" else (MEANS, LARGE)
    assert judge(run).hint == hint
    assert other(run) is None


def test_whole_numbers_and_training_are_held_to_their_results(good, with_value):
    run = with_value(good, 1, lambda v: v | {"counts": v["counts"] + 1}, "averages")
    assert WHOLE(run).hint == "integers"

    def worse(value):
        return value | {"losses": [loss + 1 for loss in value["losses"]]}

    def elsewhere(value):
        return value | {"state": {name: t + 1 for name, t in value["state"].items()}}

    for change in (worse, elsewhere):
        assert TRAINED(with_value(good, 1, change, "training")).hint == "parity"
