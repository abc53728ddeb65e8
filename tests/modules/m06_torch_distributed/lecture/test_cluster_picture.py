"""The cluster's links: in the units that are said, and each drawn."""

import pytest

from hpml.modules.m06_torch_distributed.lecture.cluster_links import LINKS, caption
from hpml.modules.m06_torch_distributed.lecture.cluster_picture import LOOKS, cluster, message

RATE = {link.key: link.rate for link in LINKS}


def test_every_link_has_a_source_and_a_look():
    assert sorted(LOOKS) == sorted(RATE)
    assert all(link.source and link.stated for link in LINKS)


def test_rates_are_bytes_per_second_in_one_direction():
    assert RATE["network"] == pytest.approx(50e9)  # 400 Gbit/s
    assert RATE["ddr"] == pytest.approx(307.2e9)
    assert RATE["pcie"] * 2 == pytest.approx(128e9)


def test_the_title_is_computed_from_the_rates():
    assert message().startswith("NVLink in a node carries 9 times as much as a network card")


def test_each_gpu_has_a_network_card_and_each_node_an_nvswitch():
    words = [text.get_text() for text in cluster(nodes=3).axes[0].texts]
    assert words.count("NIC") == sum(text.startswith("GPU") for text in words) == 12
    assert words.count("NVSwitch") == 3
    assert "node 2" in words


def test_a_link_without_a_rate_has_no_bar():
    bars = cluster().axes[1].patches
    assert len(bars) == sum(link.rate is not None for link in LINKS)


def test_the_caption_names_the_machine_the_sources_and_what_has_no_bar():
    words = caption()
    assert "DGX H100" in words
    assert "UPI has no bar" in words
    assert all(link.source in words for link in LINKS)


def test_every_kind_of_link_is_drawn_in_the_nodes_but_the_one_for_comparison():
    styles = {(line.get_color(), line.get_linestyle()) for line in cluster(nodes=1).axes[0].lines}
    drawn = {key for key, (colour, dash, _) in LOOKS.items() if (colour, dash) in styles}
    assert drawn == {link.key for link in LINKS} - {"ethernet"}
