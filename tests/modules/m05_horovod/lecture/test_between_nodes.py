"""What leaves a node is at least what the algorithm has to send, and the rest is accounted for."""

import pytest

from hpml.modules.m05_horovod.lecture.between_nodes import (
    Leaving,
    finding,
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


def test_what_comes_on_top_is_said_with_its_cause():
    ring, levels = Leaving(6.4, 5_000, 0), Leaving(4.2, 3_000, 0)
    held, sentence, _ = finding(ring, levels, 6.0, 4.0)
    assert held
    assert "6.4 MB leave a node, of which 6.0 MB are due" in sentence
    assert "the ring's 5,000 packets have 0.33 MB of headers" in sentence
    assert "again" not in sentence
    _, sentence, _ = finding(Leaving(6.9, 6_000, 300), levels, 6.0, 4.0)
    assert "TCP sent 300 and 0 packets again, at most 0.43 and 0.00 MB" in sentence


def test_a_hierarchical_all_reduce_that_sends_as_much_is_not_said_to_send_less():
    held, _, otherwise = finding(Leaving(6.4, 5_000, 0), Leaving(6.4, 5_000, 0), 6.0, 4.0)
    assert not held
    assert otherwise.startswith("the hierarchical one did not send less")


def test_packets_sent_again_are_read_by_name():
    text = "Ip: Forwarding\nIp: 1\nTcp: OutSegs RetransSegs InErrs\nTcp: 900 12 0\n"
    assert packets_sent_again(text) == 12
