"""What an all-reduce sends from one node to the other, counted by the kernel."""

from functools import partial

from hpml.ranks import launch

LINK = "nodes=2x2,intra=10gbit,inter=1gbit"


def leaves_a_node(algorithm: str, length: int = 1_000_000) -> float | None:
    """MB that the busier of two nodes sends when two ranks on each add `length` float32.

    `algorithm` is a name of `hpml.allreduce.algorithms`. None where this machine cannot emulate a
    network.
    """
    evidence = launch(partial(_on_a_rank, algorithm, length), 4, link=LINK)
    return max((uplink.sent_bytes / 1e6 for uplink in evidence.uplinks), default=None)


def _on_a_rank(algorithm: str, length: int) -> None:
    import torch

    from hpml.allreduce.execute import all_reduce

    tensor = torch.ones(length)
    all_reduce(tensor, algorithm, per_node=2)
    assert tensor.eq(4).all()
