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
    watch,
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


class Stage:
    """As much of a PipelineStage as `watch` touches: the third of four stages on two ranks."""

    stage_index, group_size = 2, 2

    def forward_one_chunk(self, micro_batch, args, kwargs=None):
        return ("forward", micro_batch, args, kwargs)

    def backward_one_chunk(self, micro_batch, loss=None):
        return ("backward", micro_batch, loss)


def test_a_watched_stage_does_the_same_and_marks_what_it_computes(monkeypatch):
    marked = []
    monkeypatch.setattr("hpml.trace.computations.mark", marked.append)
    stage = Stage()
    watch(stage)
    assert stage.forward_one_chunk(3, (1,), kwargs={}) == ("forward", 3, (1,), {})
    assert stage.backward_one_chunk(3, loss=0.5) == ("backward", 3, 0.5)
    marks = [(name, float(at)) for at, name in enumerate(marked)]
    assert computations(evidence(marks)) == [
        Computation(0, "forward", 3, 0.0, 1.0, chunk=1),
        Computation(0, "backward", 3, 2.0, 3.0, chunk=1),
    ]


def test_what_never_ends_or_never_began_is_left_out():
    begun = [("forward 0 of chunk 0 ends", 0.5), ("forward 1 of chunk 0 begins", 1.0)]
    assert computations(evidence(begun)) == []


def test_a_rank_idles_before_its_first_and_after_its_last_computation():
    done = [
        Computation(0, "forward", 0, 1.0, 2.0),
        Computation(1, "forward", 0, 2.0, 3.0),
        Computation(1, "backward", 0, 4.0, 5.0),
    ]
    assert idle_shares(done) == {0: 0.75, 1: 0.5}
    assert idle_share(done) == 0.625


def test_an_activation_lives_from_its_forward_pass_to_its_backward_pass():
    kinds = ["forward", "forward", "backward", "forward", "backward", "backward"]
    done = [Computation(0, kind, 0, float(at), at + 1.0) for at, kind in enumerate(kinds)]
    assert live_activations(done) == {0: 2}


def test_somebody_must_compute():
    with pytest.raises(ValueError, match="no rank computed anything"):
        idle_share([])
