"""Cost of a run: whole nodes, the knee, and the picture."""

import pytest

from hpml.modules.m08_case_studies.lecture.run_cost import cost_picture, gains, knee, sizes
from hpml.predict.published_scaling import table

IMAGES = 90 * 1_281_167
TCP, RDMA = (sizes(table(f"azure-v100-resnet50-{network}"), IMAGES) for network in ("tcp", "rdma"))


def test_nodes_are_paid_for_as_a_whole():
    priced = sizes(table("azure-v100-resnet50-tcp"), IMAGES, node_hour=10.0)
    assert [one.nodes for one in priced] == [1, 2, 4, 8]
    for one, unpriced in zip(priced, TCP, strict=True):
        assert one.hours == pytest.approx(IMAGES / one.images_per_s / 3600)
        assert one.cost == pytest.approx(10 * one.nodes * one.hours) == 10 * unpriced.cost


def test_of_the_sizes_on_a_node_the_fastest_counts():
    rows = [row for row in table("azure-v100-resnet50-tcp") if row.nodes == 1]
    assert sizes(rows[::-1], IMAGES)[0].ranks == 4
    assert sizes(rows[:3], IMAGES)[0].ranks == 3


def test_the_knee_is_before_the_first_step_that_does_not_pay():
    assert gains(TCP)[0] < 0.5 < gains(RDMA)[0]
    assert (knee(TCP).nodes, knee(RDMA).nodes) == (1, 8)
    assert knee(TCP, worth=0).nodes == 8
    assert knee(RDMA[:1]).nodes == 1


def test_the_picture_has_units_and_a_mark_for_each_knee():
    axes = cost_picture({"TCP": TCP, "RDMA": RDMA}, "title", "EUR").axes[0]
    assert "hours" in axes.get_xlabel()
    assert axes.get_ylabel() == "cost (EUR)"
    assert len(axes.lines) == 4
