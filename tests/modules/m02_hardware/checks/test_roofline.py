"""The check of roofline: its counts against PyTorch's counter, and what its judges make of wrong
ones."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from hpml.modules.m02_hardware.checks import _layer_counts, _roofline_picture, _roofs
from hpml.modules.m02_hardware.checks import roofline as exercise
from hpml.modules.m02_hardware.checks.roofline import CHECK

PRODUCT, CONVOLUTION, CONVOLUTION_BYTES, ELEMENTWISE, BOUND = [c.judge for c in CHECK.claims]
SEED = 5


def values(seed=SEED):
    """What a right answer returns."""
    return CHECK.expect(CHECK.inputs(seed, 1), 1)


def problems(run):
    return [claim.judge(run) for claim in CHECK.claims]


@pytest.fixture
def right(hand_made):
    return hand_made(CHECK, [values()], seed=SEED)


def changed(run, name, change):
    """With `change(call, value)` for what the function `name` returned."""
    value = run.values[0]
    calls = run.inputs[0][name]
    said = [change(call, one) for call, one in zip(calls, value[name], strict=True)]
    rank = replace(run.evidence.ranks[0], value={**value, name: said})
    return replace(run, evidence=replace(run.evidence, ranks=(rank,)))


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 1) != CHECK.inputs(2, 1)


def test_a_right_answer_has_all_points(right):
    assert problems(right) == [None] * 5


@pytest.mark.parametrize("seed", range(6))
def test_flop_are_those_of_the_flop_counter_mode_on_real_layers(seed):
    calls = CHECK.inputs(seed, 1)[0]
    for call in calls["matmul"]:
        left, right = torch.empty(call["m"], call["k"]), torch.empty(call["k"], call["n"])
        with FlopCounterMode(display=False) as counter:
            left.to("meta") @ right.to("meta")
        assert _layer_counts.matmul(call)[0] == counter.get_total_flops()
    for call in calls["conv2d"]:
        filters, groups = call["out_channels"], call["groups"]
        x = torch.empty(call["shape"], device="meta")
        w = torch.empty(filters, call["shape"][1] // groups, *call["kernel"], device="meta")
        with FlopCounterMode(display=False) as counter:
            y = F.conv2d(x, w, None, call["stride"], call["padding"], 1, groups)
        assert _layer_counts.conv2d(call)[0] == counter.get_total_flops()
        assert _layer_counts.outputs(call) == y.shape[2:]
        numbers = x.numel() + w.numel() + y.numel()
        size = getattr(torch, call["dtype"]).itemsize
        assert _layer_counts.conv2d(call)[1] == size * numbers


@pytest.mark.parametrize("seed", range(20))
def test_each_kind_of_mistake_changes_some_count(seed):
    calls = CHECK.inputs(seed, 1)[0]
    for place, table in enumerate((_layer_counts.FLOP_MISTAKES, _layer_counts.BYTE_MISTAKES)):
        for name, mistakes in table.items():
            count = _layer_counts.COUNTED[name]
            due = [count(call)[place] for call in calls[name]]
            for mistake in mistakes:
                assert [count(call, mistake)[place] for call in calls[name]] != due, mistake


@pytest.mark.parametrize("seed", range(20))
def test_every_roof_binds_somewhere_and_no_two_are_close(seed):
    calls = CHECK.inputs(seed, 1)[0]["roofline"]
    binding = [_roofs.bound(call).roof for call in calls]
    assert {"matrix", "vector", "memory"} < set(binding)
    for call in calls:
        *_, second, first = sorted(_roofs.times(call).values())
        assert second < 0.9 * first
        peaks, levels = call["machine"], [call["machine"][level] for level in call["traffic"]]
        assert peaks["matrix"] > 3 * peaks["vector"]
        assert min(levels) == call["machine"]["memory"]
    for mistakes, field in (
        (_roofs.wrong_seconds, "seconds"),
        (_roofs.wrong_intensities, "intensity"),
        (_roofs.wrong_rates, "rate"),
    ):
        for mistake in mistakes(calls[0]):
            due = [getattr(_roofs.bound(call), field) for call in calls]
            assert [mistakes(call)[mistake] for call in calls] != pytest.approx(due), mistake


@pytest.mark.parametrize("name", ["matmul", "conv2d", "elementwise"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_wrong_count_has_the_hint_of_its_mistake(right, name, place):
    tables = (_layer_counts.FLOP_MISTAKES, _layer_counts.BYTE_MISTAKES)
    for mistake in tables[place][name]:

        def wrong(call, value, mistake=mistake):
            said = list(value)
            said[place] = _layer_counts.COUNTED[name](call, mistake)[place]
            return said

        found = [problem for problem in problems(changed(right, name, wrong)) if problem]
        assert len(found) == 1
        assert found[0].hint == mistake


@pytest.mark.parametrize(
    ("field", "wrong"),
    [(1, _roofs.wrong_seconds), (0, _roofs.wrong_intensities), (2, _roofs.wrong_rates)],
)
def test_a_wrong_bound_has_the_hint_of_its_mistake(right, field, wrong):
    for mistake in wrong(right.inputs[0]["roofline"][0]):

        def change(call, value, mistake=mistake):
            return [*value[:field], wrong(call)[mistake], *value[field + 1 :]]

        run = changed(right, "roofline", change)
        assert BOUND(run).hint == mistake
        assert problems(run)[:4] == [None] * 4


def test_every_mistake_has_its_hint():
    named = [*_layer_counts.FLOP_MISTAKES.values(), *_layer_counts.BYTE_MISTAKES.values()]
    call = CHECK.inputs(SEED, 1)[0]["roofline"][0]
    bounds = (_roofs.wrong_seconds, _roofs.wrong_intensities, _roofs.wrong_rates)
    for mistake in [*(m for all_ in named for m in all_), *(m for b in bounds for m in b(call))]:
        assert mistake in CHECK.hints


def test_a_wrong_name_is_named(right):
    run = changed(right, "roofline", lambda call, value: (*value[:3], "memory"))
    assert BOUND(run).hint == "name"
    assert "'memory'" in BOUND(run).message


@pytest.mark.parametrize("value", [None, 3, [1], [1, "2"], [1, None], [1, 10**400], "ab"])
def test_what_is_no_pair_is_said_so(right, value):
    run = changed(right, "matmul", lambda *_: value)
    assert PRODUCT(run).hint == "pair"
    assert PRODUCT(changed(right, "conv2d", lambda *_: value)) is None


@pytest.mark.parametrize("value", [None, [1, 2, 3], [1, 2, 3, None], [1, 2, "3", "memory"]])
def test_what_is_no_bound_is_said_so(right, value):
    assert BOUND(changed(right, "roofline", lambda *_: value)).hint == "four"


def test_numbers_that_are_not_finite_are_wrong(right):
    nan = float("nan")
    assert PRODUCT(changed(right, "matmul", lambda *_: (nan, nan))).hint == "matmul_flops"
    assert BOUND(changed(right, "roofline", lambda call, v: (nan, nan, nan, v[3]))).hint == "roofs"
    assert BOUND(changed(right, "roofline", lambda call, v: (*v[:2], nan, v[3]))).hint == "rate"


def test_one_function_that_is_not_written_keeps_no_other_from_its_points(right):
    run = changed(right, "conv2d", lambda *_: exercise.UNWRITTEN)
    assert [problem and problem.hint for problem in problems(run)] == [
        None,
        "conv2d_flops",
        "conv2d_flops",
        None,
        None,
    ]
    assert "not written" in CONVOLUTION_BYTES(run).message


def test_a_division_by_zero_is_reported_where_nothing_else_is_wrong(right):
    def of_a_copy(call, value):
        return value if call["flops"] else exercise.BY_ZERO

    run = changed(right, "roofline", of_a_copy)
    assert BOUND(run).hint == "copy"
    inverted = changed(
        run, "roofline", lambda call, v: v if v == exercise.BY_ZERO else (1 / v[0], *v[1:])
    )
    assert BOUND(inverted).hint == "inverted"


def test_floats_that_are_whole_are_counts_too(right):
    assert ELEMENTWISE(changed(right, "elementwise", lambda _, v: (float(v[0]), v[1]))) is None
    assert CONVOLUTION(changed(right, "conv2d", lambda _, v: [v[0] + 1, v[1]])).hint == (
        "conv2d_flops"
    )


def test_the_picture_has_the_answers_layers_under_the_roofs_of_a_part(solution):
    picture = CHECK.picture(CHECK, solution("roofline"))
    assert picture.png.startswith(b"\x89PNG")
    assert picture.words.startswith(
        "By your counts, 3 of 5 layers wait for the memory of an H100. product 4096 × 4096 × 4096: "
        "1,365 FLOP per byte, matrix 4096 × 4096 times a vector: 1 FLOP per byte"
    )


@pytest.mark.parametrize("counted", [None, [], [[1, 2, 3]], [[0, 1, 1]] * 5, [[1, 1]] * 5])
def test_what_cannot_be_drawn_is_no_picture(counted):
    with pytest.raises(ValueError, match=r"drawn|shorter|longer"):
        _roofline_picture.drawn(counted)


@pytest.mark.parametrize(("vectors", "intensity"), [(1, 1.0), (4096, 1365.0)])
def test_the_question_has_the_intensities_of_its_answer(vectors, intensity):
    call = {"m": 4096, "k": 4096, "n": vectors, "dtype": "float16"}
    flops, nbytes = _layer_counts.matmul(call)
    assert flops / nbytes == pytest.approx(intensity, rel=1e-3)
