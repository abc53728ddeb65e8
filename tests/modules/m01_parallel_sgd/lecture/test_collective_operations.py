"""Collectives: as torch.distributed does them, and in terms of each other."""

import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m01_parallel_sgd.lecture import collective_operations as do
from hpml.modules.m01_parallel_sgd.lecture.collectives_picture import before_and_after, collectives
from hpml.ranks import launch

SIZE = 3


@st.composite
def tensors(draw, parts=None):
    """What each of some ranks has: as many parts as ranks, or the number that is given."""
    size = draw(st.integers(1, 5))
    row = st.lists(st.integers(-99, 99), min_size=parts or size, max_size=parts or size)
    return draw(st.lists(row, min_size=size, max_size=size))


@given(tensors())
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(ranks):
    assert do.all_gather(do.reduce_scatter(ranks)) == do.all_reduce(ranks)


@given(tensors())
def test_an_all_reduce_is_a_reduce_and_a_broadcast(ranks):
    assert do.broadcast(do.reduce(ranks)) == do.all_reduce(ranks)


@given(tensors(parts=1))
def test_a_scatter_undoes_a_gather_and_all_gather_is_gather_and_broadcast(ranks):
    assert do.scatter(do.gather(ranks)) == ranks
    assert do.broadcast(do.gather(ranks)) == do.all_gather(ranks)


@given(tensors())
def test_an_all_to_all_undoes_itself(ranks):
    assert do.all_to_all(do.all_to_all(ranks)) == ranks


def given_to(rank):
    return [10 * rank + part for part in range(SIZE)]


def test_they_do_what_torch_distributed_does():
    def with_torch():
        rank = dist.get_rank()
        mine = 10 * rank + torch.arange(SIZE)
        one, root = mine[rank : rank + 1], rank == 0
        out = {name: mine.clone() for name in ("broadcast", "reduce", "all-reduce")}
        dist.broadcast(out["broadcast"], 0)
        dist.reduce(out["reduce"], 0)
        dist.all_reduce(out["all-reduce"])
        for name in ("scatter", "reduce-scatter"):
            out[name] = torch.zeros(1, dtype=torch.int64)
        dist.scatter(out["scatter"], [*mine.split(1)] if root else None)
        dist.reduce_scatter_tensor(out["reduce-scatter"], mine)
        for name in ("gather", "all-gather", "all-to-all"):
            out[name] = torch.zeros(SIZE, dtype=torch.int64)
        dist.gather(one, [*out["gather"].split(1)] if root else None)
        dist.all_gather_into_tensor(out["all-gather"], one)
        dist.all_to_all_single(out["all-to-all"], mine)
        return out

    ranks = launch(with_torch, SIZE).values
    for name, (run, start) in do.COLLECTIVES.items():
        parts = start(SIZE)
        result = run([[given_to(rank)[k] for k in parts[rank]] for rank in range(SIZE)])
        for rank, expected in enumerate(result):
            if expected:  # others have what MPI and torch leave undefined
                assert ranks[rank][name].tolist() == expected, name


def labels(state):
    return [" ".join(piece.label for piece in pieces) for pieces in state]


def test_the_picture_names_parts_and_sums():
    begin, end = before_and_after("reduce-scatter")
    assert labels(begin)[1] == "a1 b1 c1 d1"
    assert labels(end) == ["Σa", "Σb", "Σc", "Σd"]
    assert labels(before_and_after("all-to-all")[1])[2] == "c0 c1 c2 c3"


def test_there_is_a_panel_for_each_collective():
    axes = collectives().axes
    assert [panel.get_title() for panel in axes] == list(do.COLLECTIVES)
    gathered = [text.get_text() for text in axes[list(do.COLLECTIVES).index("gather")].texts]
    assert [text for text in gathered if text[0] in "abcd" and len(text) == 2] == [
        *("a0", "b1", "c2", "d3"),
        *("a0", "b1", "c2", "d3"),
    ]
