"""The picture of a micro-benchmark: both panels can be read back."""

import pytest

from hpml.modules.m08_case_studies.lecture.bus_bandwidth_picture import bus_bandwidths


def test_times_are_in_microseconds_and_bus_bandwidth_reaches_the_links_rate():
    perfect = {64: 1e-4, 1_000_000: 1.5 * 8e6 / 1e9}  # the second at the full rate of 1 Gbit/s
    figure = bus_bandwidths({"ring": perfect, "Gloo": {64: 2e-4}}, 4, 1e9, title="a title")
    times, rates = figure.axes
    assert list(times.lines[0].get_ydata()) == pytest.approx([100, 12_000])
    assert list(rates.lines[0].get_ydata()) == pytest.approx([0.00768, 1.0])
    assert list(times.lines[2].get_ydata()) == pytest.approx([0.768, 12_000])  # the bound
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ring", "Gloo"]
    figure.draw_without_rendering()
