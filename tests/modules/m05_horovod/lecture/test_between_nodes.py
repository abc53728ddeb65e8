"""What leaves a node is at least what the algorithm has to send, and the rest is accounted for."""

import pytest

from hpml.modules.m05_horovod.lecture.between_nodes import (
    Leaving,
    leaves_a_node,
    packets_sent_again,
)


@pytest.mark.parametrize(("algorithm", "share"), [("ring", 1.5), ("hierarchical", 1.0)])
def test_a_node_sends_its_share_of_the_tensor(algorithm, share):
    due = share * 4 * 200_000 / 1e6
    left = leaves_a_node(algorithm, 200_000)
    if left is None:
        pytest.skip("no network can be emulated here")
    assert left.sent >= due
    # Headers, packets sent again, and some kilobytes of greetings: nothing else is counted.
    assert left.sent <= due + left.headers + left.repeated + 0.1


def test_what_comes_on_top_has_a_cause():
    left = Leaving(6.9, 6_000, 300)
    assert (left.headers, left.repeated) == (pytest.approx(0.396), pytest.approx(0.4344))


def test_packets_sent_again_are_read_by_name():
    text = "Ip: Forwarding\nIp: 1\nTcp: OutSegs RetransSegs InErrs\nTcp: 900 12 0\n"
    assert packets_sent_again(text) == 12
