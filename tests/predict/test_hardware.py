"""The hardware table: units, orders of magnitude, sources, and the ratios drawn from it."""

import pytest

from hpml.modules.m02_hardware.lecture.hardware_picture import flop_per_byte_picture
from hpml.predict import hardware
from hpml.predict.hardware import TYPES, part, parts, with_rates

NARROW_FIRST = ("fp4", "fp8", "fp16", "tf32", "fp32")


def test_every_row_has_a_source_and_where_it_was_looked_up():
    for one in parts():
        assert len(one.source) > 10, one.name
        assert len(one.read_at) > 10, one.name
    assert all(one.name in hardware.sources() for one in parts())


def test_parts_of_the_original_slides_stand_beside_todays():
    names = {one.name for one in parts()}
    assert names >= {"V100", "T4", "TPU v2", "TPU v3", "Xeon 8180", "GC2"}
    assert names >= {"A100", "H100", "H200", "B200", "MI300X", "Grace", "TPU v5p"}
    assert len(names) == len(parts())


def test_figures_are_positive_and_of_the_right_order_of_magnitude():
    for one in parts():
        assert 2015 <= one.year <= 2026
        assert one.kind in ("CPU", "GPU", "TPU", "IPU")
        assert one.tflops
        assert set(one.tflops) <= set(TYPES)
        assert all(0.1 < rate < 10_000 for rate in one.tflops.values()), one.name  # TFLOP/s
        on_chip = one.kind == "IPU"
        assert 50 < one.bandwidth_gb_s < (100_000 if on_chip else 20_000), one.name  # GB/s
        assert one.memory_gb is None or (0.1 if on_chip else 8) < one.memory_gb < 2000
        assert one.link_gb_s is None or 10 < one.link_gb_s < 2000
        assert one.watts is None or 50 < one.watts < 2000


def test_years_are_in_order():
    years = [one.year for one in parts()]
    assert years == sorted(years)


def test_rates_are_dense():
    """With sparsity tensor cores have twice the rate: 16 bits then give 4 times TF32, not 2."""
    for one in parts():
        rates = [one.tflops[name] for name in NARROW_FIRST if name in one.tflops]
        assert rates == sorted(rates, reverse=True), one.name
        for narrow, wide in (("fp4", "fp8"), ("fp8", "fp16"), ("int8", "fp16"), ("fp16", "tf32")):
            if narrow in one.tflops and wide in one.tflops:
                assert one.tflops[narrow] <= 2.1 * one.tflops[wide], one.name
    # what NVIDIA's data sheets print in large figures
    assert part("H100").tflops["fp8"] == pytest.approx(3958 / 2, rel=0.01)
    assert part("B200").tflops["fp4"] == pytest.approx(18_000 / 2)
    sparse = {"A100": 624, "H100": 1979, "H200": 1979, "B200": 4500}
    for name, rate in sparse.items():
        assert part(name).tflops["fp16"] == pytest.approx(rate / 2, rel=0.01)


def test_links_are_counted_in_one_direction():
    for name, both in {"V100": 300, "A100": 600, "H100": 900, "B200": 1800}.items():
        assert part(name).link_gb_s == both / 2


def test_ridge_is_peak_over_bandwidth():
    assert part("V100").peak() == 125e12
    assert part("V100").ridge() == pytest.approx(125e12 / 900e9)
    assert part("H100").ridge(("fp32",)) == pytest.approx(66.9e12 / 3350e9)
    assert part("V100").flops_per_link_byte() == pytest.approx(125e12 / 150e9)
    assert part("TPU v3").flops_per_link_byte() is None


def test_the_highest_of_the_types_counts():
    assert part("TPU v2").peak() == 46e12  # bf16: it has no fp16
    assert part("V100").peak(("fp32", "fp16")) == 125e12


def test_what_is_not_in_the_table_is_named():
    with pytest.raises(ValueError, match="Grace: no rate for fp16, bf16"):
        part("Grace").peak()
    with pytest.raises(ValueError, match="'V1000' is not in the hardware table: P100"):
        part("V1000")
    assert "Grace" not in {one.name for one in with_rates()}


def test_the_table_has_a_line_for_each_part():
    lines = hardware.table().splitlines()
    assert len(lines) == 1 + len(parts())
    assert len({len(line) for line in lines}) == 1
    v100 = next(line for line in lines if line.startswith("V100"))
    cells = "V100 2017 – – – 125 – – 15.7 7.8 16 900 150 300 139"
    assert v100.split() == cells.split()


def test_the_picture_has_a_point_and_a_name_for_each_part():
    figure = flop_per_byte_picture(with_rates(), title="more FLOP per byte")
    memory, links = figure.axes
    names = [text.get_text() for text in memory.texts]
    assert names == [one.name for one in with_rates()]
    assert "TPU v3" not in [text.get_text() for text in links.texts]
    drawn = {text.get_text(): text.xy for text in memory.texts}
    assert drawn["V100"] == (2017, pytest.approx(138.9, abs=0.1))
    assert memory.get_ylabel() == "FLOP per byte"
    assert links.get_xlabel() == "year"


def test_the_steps_of_the_growth_are_told_apart():
    held, memory, links, grows = hardware.steps([*map(part, ("P100", "V100", "H100", "B200"))])
    assert (held, grows) == (True, False)
    assert (memory[0], links[0]) == (pytest.approx(4.7, abs=0.05), pytest.approx(3.1, abs=0.05))
    assert (memory[2], links[2]) == (pytest.approx(1.0, abs=0.05), pytest.approx(1.1, abs=0.05))
    for others in (("P100", "V100", "H100"), ("V100", "A100", "H100", "B200")):
        # The last step of these is a large one; the first of those is not the largest
        assert not hardware.steps([*map(part, others)]).held


def test_in_its_narrowest_float_each_part_does_more_for_a_byte_than_the_one_before():
    shown = [*map(part, ("P100", "V100", "H100", "B200"))]
    assert [hardware.narrowest(one) for one in shown] == ["fp16", "fp16", "fp8", "fp4"]
    ridges = [round(one.ridge(hardware.FLOATS)) for one in shown]
    assert ridges == [29, 139, 591, 1125]
    assert hardware.steps(shown, hardware.FLOATS).grows
    numbers = [round(hardware.flops_per_number(one)) for one in shown]
    assert numbers == [59, 278, 591, 562]  # half a byte each, at last


def test_growth_is_the_ratio_of_two_parts():
    found = hardware.growth(part("P100"), part("B200"))
    assert found.held
    assert [round(times) for times in found[1:]] == [106, 11, 11]
    assert not hardware.growth(part("H100"), part("H200")).held
