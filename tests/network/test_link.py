"""What `--link` accepts, and how it refuses the rest."""

import pytest

from hpml.errors import UserError
from hpml.network.link import Link, format_rate, parse_link
from hpml.network.veth import bucket


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1gbit", 10**9), ("100mbit", 10**8), ("2.5gbit", 25 * 10**8), ("100KBIT", 10**5)],
)
def test_a_rate_is_for_every_rank_on_one_switch(text, rate):
    assert parse_link(text, 4) == Link(text, rate)
    assert parse_link(text, 4).uplink is None


def test_nodes_have_a_rate_within_and_one_between():
    link = parse_link("nodes=2x3,intra=10gbit,inter=100mbit", 6)
    assert (link.rate, link.uplink) == (10**10, 10**8)
    assert [link.node(rank) for rank in range(6)] == [0, 0, 0, 1, 1, 1]
    assert parse_link("inter=100mbit,nodes=2x3,intra=10gbit", 6).per_node == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "'0' is not a rate: give a number with kbit, mbit or gbit"),
        ("0gbit", "from 100kbit to 32gbit"),
        ("99kbit", "from 100kbit to 32gbit"),
        ("33gbit", "from 100kbit to 32gbit"),
        ("1gbps", "bytes per second to some"),
        ("-1gbit", "'-1gbit' is not a rate"),
        ("", "'' is not a rate"),
        ("fast", "as in 100mbit"),
        ("nodes=2x2", "give nodes, intra and inter, once each"),
        ("nodes=2x2,intra=1gbit,inter=1gbit,intra=2gbit", "once each"),
        ("nodes=2,intra=1gbit,inter=1gbit", "nodes=2 is not NODESxRANKS"),
        ("nodes=0x4,intra=1gbit,inter=1gbit", "nodes=0x4 is not NODESxRANKS"),
        ("nodes=3x2,intra=1gbit,inter=1gbit", "3 nodes of 2 are 6 ranks, and 4 were asked for"),
        ("nodes=2x2,intra=1gbit,inter=1gbps", "'1gbps' is not a rate"),
    ],
)
def test_anything_else_is_one_line_with_the_remedy(text, message):
    with pytest.raises(UserError) as refused:
        parse_link(text, 4)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rate", [10**5, 10**8, 10**9, 10**10, 32 * 10**9])
def test_a_bundle_of_packets_fits_the_bucket_whole(rate):
    sizes = bucket(rate)
    assert 4096 <= sizes.segment <= 65536
    assert sizes.burst > 1.2 * sizes.segment
    assert sizes.rate == rate / 8


def test_rates_are_formatted_as_people_write_them():
    rates = (10**9, 25 * 10**8, 10**8, 150_000)
    expected = ["1 Gbit/s", "2.5 Gbit/s", "100 Mbit/s", "150 kbit/s"]
    assert [format_rate(rate) for rate in rates] == expected
