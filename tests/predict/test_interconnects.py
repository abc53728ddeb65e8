"""Links by name, and the network that they make."""

import pytest

from hpml.errors import UserError
from hpml.predict import interconnects
from hpml.predict.hardware import part
from hpml.predict.interconnects import INSIDE, cost_of, inside_of, nodes


def test_a_rate_is_in_bits_and_a_cost_in_bytes():
    assert cost_of("25gbit").beta == pytest.approx(8 / 25e9)
    assert cost_of(" 100Mbit ").beta == pytest.approx(8 / 1e8)
    assert cost_of("10gbit").alpha == interconnects.NET


def test_names_are_those_of_links_inside_a_node():
    assert cost_of("NVLink2") == INSIDE["nvlink2"]
    assert inside_of("V100") == "nvlink2"
    assert inside_of("K80") == "pcie3"


@pytest.mark.parametrize("wrong", ["fast", "25", "0gbit", "25gbps", "-1gbit", ""])
def test_other_words_are_refused_with_examples(wrong):
    with pytest.raises(UserError, match="give a rate such as 25gbit or 100mbit, or nvlink1"):
        cost_of(wrong)


def test_nvlink_is_as_fast_as_in_the_table_of_processors():
    for name, gpu in (("nvlink1", "P100"), ("nvlink2", "V100"), ("nvlink4", "H100")):
        assert pytest.approx(part(gpu).link_gb_s * 1e9) == 1 / INSIDE[name].beta


def test_one_rank_in_each_node_has_no_link_inside():
    inside, between = cost_of("pcie3"), cost_of("25gbit")
    assert [level.cost for level in nodes(1, inside, between).levels] == [between]
    assert [level.ranks for level in nodes(8, inside, between).levels] == [8, None]
