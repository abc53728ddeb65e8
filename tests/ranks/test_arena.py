"""Places in the shared memory are given out once at a time, and read only where they can be."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.ranks.rank.arena import ALIGNED, Arena, Full, Places, aligned

SIZE = 64 * ALIGNED


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10 * ALIGNED)), max_size=60))
def test_no_two_places_overlap_and_all_that_is_given_back_can_be_had_again(steps):
    places, taken = Places(SIZE), []
    for give_back, number in steps:
        if give_back and taken:
            places.give_back(*taken.pop(number % len(taken)))
            continue
        try:
            taken.append((places.take(number), number))
        except Full:
            assert sum(aligned(nbytes) for _, nbytes in taken) + aligned(number) > SIZE // 4
        spans = sorted((offset, offset + aligned(nbytes)) for offset, nbytes in taken)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        assert all(begin >= 0 and end <= SIZE for begin, end in spans)
    for one in taken:
        places.give_back(*one)
    assert places.take(SIZE) == 0


def test_a_tensor_lies_in_the_memory_itself():
    arena = Arena(SIZE)
    arena.tensor(torch.float32, (2, 3), ALIGNED).fill_(7.0)
    assert arena.tensor(torch.float32, (6,), ALIGNED).tolist() == [7.0] * 6
    assert arena.tensor(torch.float32, (), ALIGNED).item() == 7.0
    assert arena.tensor(torch.bool, (0, 4), SIZE).shape == (0, 4)


@pytest.mark.parametrize(
    ("shape", "offset"),
    [
        ((1,), -ALIGNED),
        ((1,), SIZE),
        ((1,), 4),  # not aligned
        ((SIZE // 4 + 1,), 0),
        ((2**62, 2**62), 0),
        ((-1,), 0),
        ((-2, -2), 0),
    ],
)
def test_a_place_that_is_not_wholly_inside_is_refused(shape, offset):
    with pytest.raises(ValueError, match=r"tensor|elements"):
        Arena(SIZE).tensor(torch.float32, shape, offset)
