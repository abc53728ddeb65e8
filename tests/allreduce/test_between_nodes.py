"""What leaves a node is at least what the algorithm has to send."""

import pytest

from hpml.allreduce.between_nodes import leaves_a_node


@pytest.mark.parametrize(("algorithm", "share"), [("ring", 1.5), ("hierarchical", 1.0)])
def test_a_node_sends_its_share_of_the_tensor(algorithm, share):
    length = 200_000
    sent = leaves_a_node(algorithm, length)
    if sent is None:
        pytest.skip("no network can be emulated here")
    # Packets that are lost are sent again: there is no upper bound to test.
    assert sent >= share * 4 * length / 1e6
