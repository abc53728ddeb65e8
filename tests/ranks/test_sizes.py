"""What is carried is read from the tensors, whatever a subclass says of itself."""

import sys

import cloudpickle
import pytest
import torch

from hpml.ranks import launch
from hpml.ranks.rank.sizes import measure

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Liar(torch.Tensor):
    """One element, it says; and it takes every function of torch for itself."""

    dtype = shape = layout = None

    def numel(self):
        return 1

    def element_size(self):
        return 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return 1


class Wrapper(torch.Tensor):
    """As large as it likes, with its elements in another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, (1,), dtype=torch.uint8)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def inner(value):
            if isinstance(value, list):
                return [inner(one) for one in value]
            return value.inner if isinstance(value, cls) else value

        return function(*map(inner, args), **(kwargs or {}))


def test_a_lie_is_not_looked_at():
    carried = measure([torch.ones(3, 5).as_subclass(Liar), torch.ones(2)])
    assert (carried.dtype, carried.shape, carried.nbytes) == ("float32", (3, 5), 68)


def test_a_method_replaced_in_torch_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "numel", lambda _: 1)
    monkeypatch.setattr(torch.Tensor, "element_size", lambda _: 1)
    assert measure([torch.ones(7)]).nbytes == 28


@pytest.mark.parametrize(
    ("tensor", "nbytes"),
    [
        (torch.ones(3, dtype=torch.complex64), 24),
        (torch.ones((), dtype=torch.bfloat16), 2),
        (torch.ones(0), 0),
        (torch.ones(1).expand(10), 40),  # as many elements travel
        (torch.eye(1000)[:2].to_sparse(), 2 * 2 * 8 + 2 * 4),  # two places of two indices
    ],
)
def test_sizes_are_in_bytes(tensor, nbytes):
    assert measure([tensor]).nbytes == nbytes


@pytest.mark.parametrize("made", [Liar, Wrapper])
def test_the_ledger_has_what_travels(made):
    def drive():
        import torch.distributed as dist

        mine = torch.full((1000,), float(dist.get_rank()))
        tensor = mine.as_subclass(made) if made is Liar else made(mine)
        dist.group.WORLD.allreduce([tensor]).wait()
        return mine.sum().item()

    evidence = launch(drive, 2)
    assert evidence.values == (1000.0, 1000.0)
    for rank in evidence.ranks:
        assert [call.nbytes for call in rank.calls] == [4000]
