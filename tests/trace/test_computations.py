"""What ranks computed: from their marks to idle shares and live activations."""

import pytest

from hpml.ranks.evidence import Evidence, Mark, RankEvidence
from hpml.trace.computations import (
    Computation,
    computations,
    computing,
    idle_share,
    idle_shares,
    live_activations,
)


def evidence(*rows):
    ranks = [
        RankEvidence(rank, "returned", marks=tuple(Mark(name, at) for name, at in row))
        for rank, row in enumerate(rows)
    ]
    return Evidence(len(ranks), tuple(ranks), 1.0)


def test_a_computation_goes_from_its_begin_to_its_end_whatever_lies_between(monkeypatch):
    marked = []
    monkeypatch.setattr("hpml.trace.computations.mark", marked.append)
    with computing("forward", 2), computing("backward", 12, chunk=1):
        marked.append("something else")
    marks = [(name, float(at)) for at, name in enumerate(marked)]
    assert computations(evidence([], marks)) == [
        Computation(1, "forward", 2, 0.0, 4.0),
        Computation(1, "backward", 12, 1.0, 3.0, chunk=1),
    ]


def test_what_never_ends_or_never_began_is_left_out():
    begun = [("forward 0 of chunk 0 ends", 0.5), ("forward 1 of chunk 0 begins", 1.0)]
    assert computations(evidence(begun)) == []


def test_a_rank_idles_before_its_first_and_after_its_last_computation():
    done = [
        Computation(0, "forward", 0, 1.0, 2.0),
        Computation(1, "forward", 0, 2.0, 3.0),
        Computation(1, "backward", 0, 3.0, 5.0),
    ]
    assert idle_shares(done) == {0: 0.75, 1: 0.25}
    assert idle_share(done) == 0.5


def test_an_activation_lives_from_its_forward_pass_to_its_backward_pass():
    kinds = ["forward", "forward", "backward", "forward", "backward", "backward"]
    done = [Computation(0, kind, 0, float(at), at + 1.0) for at, kind in enumerate(kinds)]
    assert live_activations(done) == {0: 2}


def test_somebody_must_compute():
    with pytest.raises(ValueError, match="no rank computed anything"):
        idle_share([])
