from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.cluster.shape import Shape
from hpml.cluster.subnet import Subnet, addresses, choose, hosts_file, interface
from hpml.errors import UserError

NETWORKS = st.builds(
    lambda number, length: Subnet((number, length), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(9, 32),
)


@given(st.lists(NETWORKS, max_size=8), st.text("abc/", min_size=1))
def test_the_chosen_network_is_private_and_nobodys(used, path):
    chosen = choose(Path(path), used)
    assert chosen.prefixlen == 24
    assert chosen.is_private
    assert not any(chosen.overlaps(other) for other in used)


def test_it_is_found_where_nearly_everything_is_taken():
    free = Subnet("10.200.1.0/24")
    assert choose(Path("a"), Subnet("10.0.0.0/8").address_exclude(free)) == free
    with pytest.raises(UserError, match="no free network"):
        choose(Path("a"), [Subnet("10.0.0.0/8")])


def test_clusters_of_two_checkouts_differ_in_interface_and_network():
    a, b = Path("/home/ada/hpml/.hpml/cluster"), Path("/home/bob/hpml/.hpml/cluster")
    assert interface(a) != interface(b)
    assert choose(a, []) != choose(b, [])
    assert len(interface(a)) <= 15  # IFNAMSIZ, with its closing zero


def test_all_have_addresses_of_their_own_that_hosts_names():
    subnet, shape = Subnet("10.1.2.0/24"), Shape(64)
    where = addresses(subnet, shape)
    assert len(set(where.values())) == 65
    assert where["n64"] == "10.1.2.64"
    lines = hosts_file(subnet, shape, "laptop").splitlines()
    assert "10.1.2.64 n64" in lines
    assert "::ffff:10.1.2.64 n64.ipv4" in lines
    assert "10.1.2.254 login laptop" in lines
