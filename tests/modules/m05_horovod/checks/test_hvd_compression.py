"""Exercise hvd_compression: what its judges say of a good run with one change."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.chatter import CYCLE
from hpml.modules.m05_horovod.checks.hvd_compression import CHECK
from hpml.ranks.evidence import Traffic

HALF, WIRE, MEANS, LARGE, _, TRAINED = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def test_sums_of_large_values_are_out_of_range_and_their_means_are_not():
    for world_size in (2, 3, 4):
        ranks = CHECK.inputs(3, world_size)["averages"]
        values = [rank["tensors"]["large.grad"] for rank in ranks]
        assert torch.stack(values).half().sum(0).isinf().all()
        assert torch.stack(values).mean(0).half().isfinite().all()


def test_whole_numbers_do_not_survive_half_precision():
    counts = CHECK.inputs(3, 1)["averages"][0]["counts"]
    assert not torch.equal(counts, counts.half().long())


def test_training_is_held_to_half_precision_too(good, with_ranks):
    def whole(rank):
        calls = [replace(c, dtype="float32") if c.dtype == "float16" else c for c in rank.calls]
        return replace(rank, calls=tuple(calls))

    problem = HALF(with_ranks(good, whole, "training"))
    assert problem.hint == "after_reduce"
    assert "in the stage training" in problem.message
    assert "as float32" in problem.message


@pytest.fixture
def sending(good, with_ranks):
    """`sending(n)`: the good run, but each rank's link carried n bytes, within a second."""
    evidence = good.stages["averages"]
    if evidence.link is None:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    quick = replace(good, stages={**good.stages, "averages": replace(evidence, seconds=1.0)})
    return lambda sent: with_ranks(
        quick, lambda rank: replace(rank, traffic=Traffic(sent, 1, sent, 1)), "averages"
    )


@pytest.mark.parametrize(("sent", "hint"), [(2_100_000, None), (4_100_000, "wire"), (9, "no_call")])
def test_the_wire_is_counted_by_the_kernel(sending, sent, hint):
    problem = WIRE(sending(sent))
    assert (problem and problem.hint) == hint


def test_what_ranks_say_in_every_cycle_is_allowed_for_however_long_it_takes(sending):
    changed = sending(2_100_000 + round(600 * 20 / CYCLE))
    assert WIRE(changed).hint == "wire"
    slow = replace(changed.stages["averages"], seconds=20.0)
    assert WIRE(replace(changed, stages={**changed.stages, "averages": slow})) is None


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        ("weight.grad", lambda t: t + 0.1, "mean"),
        ("bias.grad", lambda t: None, "own_type"),
        ("bias.grad", lambda t: t.flatten(), "mean"),
        ("large.grad", lambda t: t + 1000, "mean"),
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


def test_training_is_held_to_its_results(good, with_value):
    def worse(value):
        return value | {"losses": [loss + 1 for loss in value["losses"]]}

    def elsewhere(value):
        return value | {"state": {name: t + 1 for name, t in value["state"].items()}}

    for change in (worse, elsewhere):
        assert TRAINED(with_value(good, 1, change, "training")).hint == "parity"
