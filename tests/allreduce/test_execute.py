"""All algorithms on real ranks: the sum, in place, whatever the tensor's length, form and dtype."""

import pytest
import torch

from hpml.allreduce import ALGORITHMS, execute
from hpml.ranks import launch

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
LENGTHS = (0, 1, 2, 5, 1000)


def whole(rank: int, length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small whole numbers, so that sums are exact in every dtype and order."""
    return ((torch.arange(length) * (rank + 1)) % 7).to(dtype)


def total(world_size: int, length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return sum(whole(rank, length, dtype) for rank in range(world_size))


@pytest.mark.parametrize("large", [execute.LARGE, 0], ids=["whole", "in halves"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_rank_has_the_sum_of_every_kind_of_tensor(world_size, large):
    def drive(inputs):
        import torch

        from hpml.allreduce import ALGORITHMS, all_reduce, execute

        execute.LARGE = large
        made = {}
        for algorithm in (*ALGORITHMS, "recursive-doubling"):
            for name, tensor in inputs.items():
                mine = tensor.clone()
                all_reduce(mine, algorithm)
                made[f"{algorithm}, {name}"] = mine
            square = inputs["float32, 35"].reshape(5, 7).clone()
            all_reduce(square.T, algorithm)  # not contiguous, and only this view is given
            made[f"{algorithm}, transposed"] = square
            weight = torch.nn.Parameter(inputs["float32, 35"].clone())
            all_reduce(weight, algorithm)
            made[f"{algorithm}, parameter"] = weight.detach()
            scalar = torch.tensor(float(inputs["float32, 35"][1]))
            all_reduce(scalar, algorithm)
            made[f"{algorithm}, scalar"] = scalar
        return made

    names = {f"{str(d).removeprefix('torch.')}, {n}": (n, d) for d in DTYPES for n in LENGTHS}
    names["float32, 35"] = (35, torch.float32)
    inputs = [
        {name: whole(rank, *kind) for name, kind in names.items()} for rank in range(world_size)
    ]
    expected = {name: total(world_size, *kind) for name, kind in names.items()}
    expected["transposed"] = total(world_size, 35).reshape(5, 7)
    expected["parameter"] = total(world_size, 35)
    expected["scalar"] = total(world_size, 35)[1]

    evidence = launch(drive, world_size, inputs=inputs)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    for made in evidence.values:
        assert made.keys() == {
            f"{a}, {name}" for a in (*ALGORITHMS, "recursive-doubling") for name in expected
        }
        for name, tensor in made.items():
            wanted = expected[name.partition(", ")[2]]
            assert tensor.dtype == wanted.dtype, name
            assert torch.equal(tensor, wanted), name


def test_ranks_agree_to_the_last_bit_and_on_the_sum_but_for_rounding():
    def drive(tensor):
        from hpml.allreduce import ALGORITHMS, all_reduce

        made = {}
        for algorithm in ALGORITHMS:
            made[algorithm] = tensor.clone()
            all_reduce(made[algorithm], algorithm, per_node=2)
        return made

    generator = torch.Generator().manual_seed(1)
    inputs = [torch.rand(1001, generator=generator) for _ in range(4)]
    evidence = launch(drive, 4, inputs=inputs, delays=7)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    for algorithm in ALGORITHMS:
        first, *others = [made[algorithm] for made in evidence.values]
        torch.testing.assert_close(first, sum(inputs))
        assert all(torch.equal(first, other) for other in others), algorithm


def crossings(evidence) -> int:
    """How many messages went from one half of four ranks to the other."""
    return sum(
        call.operation == "send" and (rank.rank < 2) != (call.peer < 2)
        for rank in evidence.ranks
        for call in rank.calls
    )


def test_nodes_are_those_of_the_launch_unless_they_are_given():
    def drive(inputs):
        import torch

        from hpml.allreduce import all_reduce

        all_reduce(torch.ones(8), "hierarchical", **inputs)

    nodes = launch(drive, 4, inputs=[{}] * 4, link="nodes=2x2,intra=10gbit,inter=1gbit")
    evidence = launch(drive, 4, inputs=[{"per_node": 2}] * 4)
    alone = launch(drive, 4, inputs=[{}] * 4)
    assert crossings(evidence) == 8  # 2 rings over 2 nodes, 2 steps, 2 messages in each
    assert crossings(alone) == 12  # one ring: 6 steps, 2 of its messages
    if not nodes.no_link:
        assert crossings(nodes) == 8


def test_a_large_tensor_goes_in_two_halves():
    def drive(length):
        import torch

        from hpml.allreduce import all_reduce

        tensor = torch.ones(length)
        all_reduce(tensor, "ring")
        return tensor.sum().item()

    length = execute.LARGE // 4 + 1
    evidence = launch(drive, 2, inputs=[length, length])
    assert list(evidence.values) == [2 * length] * 2
    sent = [call.nbytes for call in evidence.ranks[0].calls if call.operation == "send"]
    assert len(sent) == 4
    assert sum(sent) == 4 * length
