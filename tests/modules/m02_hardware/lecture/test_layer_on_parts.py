"""A layer on the parts of the hardware table: its counts, and which roof binds where."""

import pytest

from hpml.modules.m02_hardware.lecture import layer_on_parts
from hpml.modules.m02_hardware.lecture.layer_on_parts import Layer, samples_that_hide_an_all_reduce
from hpml.predict.hardware import part


def test_the_first_convolution_is_counted_with_input_weights_and_output():
    layer = layer_on_parts.first_convolution(batch=2)
    places = 2 * 31 * 31
    assert layer.flops == 2 * 9 * 24 * 64 * places
    assert layer.nbytes == 2 * (24 * places + 9 * 24 * 64 + 64 * places)
    assert layer.name == "3×3 convolution, 24 to 64 channels, 2 images"


def test_compute_binds_on_the_v100_and_memory_on_the_h100():
    layer = layer_on_parts.first_convolution()
    assert part("V100").ridge() < layer.intensity < part("H100").ridge()
    held, older, newer, faster = layer_on_parts.bound(layer, "V100", "H100")
    assert held
    assert newer.peak / older.peak == pytest.approx(7.9, abs=0.05)
    assert faster == pytest.approx(4.2, abs=0.05)


def test_where_it_is_not_so_it_is_not_concluded():
    assert not layer_on_parts.bound(Layer("copy", 1, 10), "V100", "H100").held


def test_the_picture_has_two_bars_for_each_part_and_names_what_binds():
    layer = Layer("square", 10**12, 10**10)
    figure = layer_on_parts.picture(layer, ("V100", "H100"), title="bound")
    axes = figure.axes[0]
    microseconds = [bar.get_width() for bar in axes.patches]
    assert microseconds == pytest.approx(
        [1e18 / 125e12, 1e16 / 900e9, 1e18 / 989.4e12, 1e16 / 3350e9]
    )
    assert [text.get_text().strip() for text in axes.texts] == ["memory bandwidth"] * 2
    assert [label.get_text() for label in axes.get_yticklabels()] == ["V100 (2017)", "H100 (2022)"]


def test_samples_hide_an_all_reduce_where_both_take_as_long():
    one = part("V100")
    samples = samples_that_hide_an_all_reduce(one)
    compute = 6 * samples / one.peak()  # seconds for one parameter
    links = 4 / (one.link_gb_s * 1e9)
    assert compute == pytest.approx(links)
    with pytest.raises(ValueError, match="TPU v3: the hardware table has no rate of its links"):
        samples_that_hide_an_all_reduce(part("TPU v3"))


def test_between_nodes_the_rate_is_that_of_the_ports():
    one = part("H100")
    assert samples_that_hide_an_all_reduce(one, 50e9) == pytest.approx(13_192)
    heads, line, older = layer_on_parts.batches(["H100", "P100"]).splitlines()
    assert heads.split() == ["samples", "own", "links", *"8 × 400 Gbit/s 1 × 400 Gbit/s".split()]
    assert line.split() == ["H100", "2022", "1,466", "1,649", "13,192"]
    assert older.split()[2:4] == ["177", "177"]  # its own links are slower than eight ports
