"""What is concluded from a record, on made-up figures."""

from pathlib import Path

import pytest

from hpml.record import kept, pictures
from hpml.record.kept import Recorded
from hpml.record.training import seconds_to


def made_up(**result) -> Recorded:
    device = {"kind": "cuda", "name": "NVIDIA Moon", "count": 1}
    versions = {"torch": "2.11.0"}
    return Recorded("x", "2026-11-26T10:00:00+00:00", device, {}, versions, result, Path(), False)


def run(recipe: str, *epochs: tuple[float, float], **other) -> dict:
    made = [{"seconds": seconds, "accuracy": accuracy} for seconds, accuracy in epochs]
    common = {"precision": "bf16", "synthetic": False, "packed": False}
    return {"recipe": recipe, "epochs": made} | common | other


def test_where_and_when_it_was_recorded_is_one_line():
    assert made_up().origin == "Recorded on one NVIDIA Moon, 26 November 2026, torch 2.11.0"


def test_seconds_to_an_accuracy_are_those_of_all_epochs_until_then():
    one = run("recipe", (2.0, 0.5), (1.0, 0.91), (1.0, 0.89))
    assert seconds_to(one, 0.9) == 3.0
    assert seconds_to(one, 0.95) is None


def test_the_first_way_to_each_goal_is_named():
    slow, fast = run("wide", (4.0, 0.95)), run("recipe", (2.0, 0.92))
    found = pictures.reached(made_up(runs=[slow, fast, {"failed": "no compiler"}]))
    assert found == (True, {0.9: (2.0, fast), 0.94: (4.0, slow)}, 0.95, False, False)
    assert pictures.reached(made_up(runs=[run("wide", (4.0, 0.95), packed=True)])).packed


@pytest.mark.parametrize(("half", "held"), [(900e12, True), (60e12, False)])
def test_products_in_bfloat16_are_faster_or_not(half, held):
    products = {
        "float32": {"256": 1e12, "8192": 50e12},
        "bfloat16": {"256": 2e12, "8192": half},
        "float8": {"failed": "no kernel"},
    }
    one = made_up(products=products, bytes_per_second={"triad": 3e12})
    assert pictures.products(one)[0] is held
    assert set(pictures.rates_by_type(one)) == {"float32", "bfloat16"}


def test_the_good_loop_keeps_the_device_busier():
    one = made_up(loops={"bad": {"seconds": [0.03] * 3}, "good": {"seconds": [0.01] * 3}})
    facts = {
        "bad": {"busy": 0.006, "kernels": 90.0, "waits": 40.0},
        "good": {"busy": 0.009, "kernels": 60.0, "waits": 0.0},
    }
    found = pictures.loops(one, facts)
    assert (found.held, found.factor, found.starved) == (True, pytest.approx(3), False)
    assert found.busy == pytest.approx({"bad": 0.2, "good": 0.9})
    assert found.waits == {"bad": 40, "good": 0}
    idle = {**facts, "good": {**facts["good"], "busy": 0.005}}
    found = pictures.loops(one, idle)
    assert (found.held, found.starved, found.kernels["good"]) == (True, True, 60)
    busier = {**facts, "bad": {**facts["bad"], "busy": 0.029}}
    assert not pictures.loops(one, busier).held
    unknown = {**facts, "good": {**facts["good"], "busy": float("nan")}}
    found = pictures.loops(one, unknown)
    assert (found.held, found.busy, found.starved) == (True, {}, False)


@pytest.mark.parametrize(("graph", "held"), [(1e-6, True), (5e-6, False), (None, False)])
def test_a_launch_costs_more_than_a_small_kernel_in_a_graph_or_not(graph, held):
    launch = {"asked": 6e-6, "done": 7e-6} | ({} if graph is None else {"graph": graph})
    one = made_up(launch_seconds=launch, bytes_per_second={"triad": 3e12})
    found = pictures.launches(one)
    assert found.held is held
    assert (found.asked, found.in_graph, found.triad) == (7e-6, graph, 3e12)


def test_a_longer_sequence_helps_the_fused_kernel_alone():
    (short, _), (long, bound) = (
        pictures.forward_intensities(64, 64),
        pictures.forward_intensities(4096, 64),
    )
    assert (short, long) == (32, 2048)  # half the tokens, in 16 bits
    assert bound < 4 * 64 / (2 * 6)  # however long


def test_attention_of_the_shipped_record_is_on_both_sides_of_the_ridge():
    found = pictures.attention(kept.read(kept.SHIPPED, "roofline"))
    assert found.held
    assert found.written_intensity < found.ridge < found.fused_intensity
