"""The check of choose_layout: its model holds by hand, its judges name mistakes."""

import random

import pytest

from hpml.modules.m08_case_studies.checks._layout_legal import KEYS, illegal
from hpml.modules.m08_case_studies.checks.choose_layout import CHECK
from hpml.modules.m08_case_studies.checks.instructors._layout_cases import (
    DECISIVE,
    NARROW,
    all_found,
    cases,
    clear,
    decided,
    drawn_cluster,
    drawn_model,
    fastest,
)
from hpml.modules.m08_case_studies.checks.instructors._layout_model import (
    DATA_MISTAKES,
    MEMORY_MISTAKES,
    SLOT_MISTAKES,
    layouts,
    nbytes,
    seconds,
)
from hpml.predict import which_split

SEEDS = range(4)
# As in the exercise's text
MODEL = {"layers": 10, "heads": 8, "width": 1000, "sequences": 16, "tokens": 1000}
CLUSTER = {
    "ranks": 8,
    "per_node": 4,
    "memory": 2e9,
    "flops": 1e14,
    "inside": 100e9,
    "across": 10e9,
}
LAYOUT = {"data": 2, "tensor": 2, "pipeline": 2, "stage": 1, "micro_batches": 4}


def test_the_worked_example_of_the_text():
    assert nbytes(MODEL, LAYOUT) == pytest.approx(740e6)
    step, u = 22.2e-3, 3e-3
    forward, backward = 1.2e-3, 2.4e-3
    assert seconds(MODEL, CLUSTER, LAYOUT) == pytest.approx(25.8e-3)
    after = [2 * u - backward, 2 * u - backward, 4 * (u - backward) + u]
    after += [4 * (2 * u - backward + u - forward)]
    for stage, more in enumerate(after):
        assert seconds(MODEL, CLUSTER, {**LAYOUT, "stage": stage}) == pytest.approx(step + more)
    gathered = 60e6 / 2 * 2 / 5
    assert nbytes(MODEL, {**LAYOUT, "stage": 3}) == pytest.approx(740e6 - 60e6 + gathered)
    assert illegal(MODEL, CLUSTER, LAYOUT) is None


def test_a_pipeline_leaves_the_first_stage_all_its_activations():
    """The text's question, before you start."""

    def activations(pipeline: int) -> float:
        layout = {"data": 1, "tensor": 1, "pipeline": pipeline, "stage": 0, "micro_batches": 8}
        model = {**MODEL, "layers": 8}
        return nbytes(model, layout) - nbytes(model, layout, "activations")

    assert activations(4) == pytest.approx(activations(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_its_model_is_that_of_the_lecture(seed):
    """But for the order of ranks: there data ranks come before stages, here after them."""
    draw = random.Random(seed)
    found = []
    while not found:
        model, cluster = drawn_model(draw), drawn_cluster(draw)
        found = list(layouts(model, cluster))
    theirs = which_split.Transformer(
        model["layers"],
        model["width"],
        model["sequences"] * model["tokens"],
        model["tokens"],
    )
    on = which_split.Cluster(
        cluster["ranks"],
        cluster["per_node"],
        cluster["memory"],
        cluster["flops"],
        cluster["inside"],
        cluster["across"],
    )
    for one in found:
        d, t, p, stage, m = (one[key] for key in KEYS)
        other = which_split.layout(theirs, on, d, p, t, stage, m)
        assert other.nbytes == pytest.approx(nbytes(model, one))
        if d == 1 or p == 1:
            near = cluster["per_node"] % (t * p) == 0
            if p == 1 or near == (cluster["per_node"] % cluster["ranks"] == 0):
                assert other.seconds == pytest.approx(seconds(model, cluster, one))


def test_layouts_are_all_that_are_legal():
    model, cluster = {**MODEL, "heads": 4, "layers": 6}, {**CLUSTER, "ranks": 12}
    sizes = range(1, 17)
    everything = [
        dict(zip(KEYS, (d, t, p, stage, m), strict=True))
        for d in sizes
        for t in sizes
        for p in sizes
        if d * t * p == 12
        for m in sizes
        for stage in range(4)
    ]
    found = list(layouts(model, cluster))
    due = [one for one in everything if illegal(model, cluster, one) is None]
    assert sorted(map(str, found)) == sorted(map(str, due))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"data": 4}, "ranks"),
        ({"data": -2, "tensor": -2}, "ranks"),
        ({"stage": 4}, "stage"),
        ({"stage": -1}, "stage"),
        ({"pipeline": 4, "data": 1}, "layers"),
        ({"micro_batches": 3}, "batch"),
        ({"micro_batches": 16}, "batch"),
    ],
)
def test_what_is_illegal_is_named(change, wrong):
    assert illegal(MODEL, CLUSTER, {**LAYOUT, **change}) == wrong
    assert illegal({**MODEL, "heads": 9}, CLUSTER, LAYOUT) == "heads"


def test_each_mistake_changes_some_call():
    for seed in SEEDS:
        given = CHECK.inputs(seed, 1)[0]
        for wrong in MEMORY_MISTAKES:
            assert any(nbytes(*call, wrong) != nbytes(*call) for call in given["memory"]), wrong
        for name, mistakes in (("slots", SLOT_MISTAKES), ("data", DATA_MISTAKES)):
            for wrong in mistakes:
                assert any(seconds(*c, wrong) != seconds(*c) for c in given[name]), wrong


def test_each_part_of_the_model_decides_somewhere():
    for seed in SEEDS:
        made = cases(seed)
        assert sorted(case.decides for case in made) == sorted([*DECISIVE, "nothing", "nothing"])
        for case in made:
            found = all_found(case.model, case.cluster)
            assert clear(found, case.cluster["memory"])
            best = fastest(found, case.cluster["memory"])
            assert (best is None) == (case.decides == "nothing")
            if best is not None:
                assert decided(case.decides, found, case.model, case.cluster)


def test_clusters_are_fresh_for_every_seed():
    drawn = [CHECK.inputs(seed, 1)[0] for seed in SEEDS]
    assert all(one != other for i, one in enumerate(drawn) for other in drawn[:i])
    draw = random.Random(1)
    assert drawn_model(draw) != drawn_model(draw)
    assert drawn_cluster(draw)["ranks"] <= 24


def test_what_is_not_written_costs_its_own_claims_only(right_answer, played_here):
    source = (
        right_answer + "\n\ndef seconds(model, cluster, layout):\n    raise NotImplementedError\n"
    )
    assert played_here(source, 1)[:3] == ["", "unwritten", "unwritten"]
    source = right_answer + "\n\ndef choose(model, cluster):\n    raise NotImplementedError\n"
    assert played_here(source, 1) == ["", "", "", "unwritten", "unwritten"]


def test_a_choice_by_wrong_seconds_is_traced_to_them(right_answer, played_here):
    source = right_answer.replace("(m + p - 1) * slot", "m * slot")
    assert played_here(source, 1) == ["", "bubble", "bubble", "", "bubble"]


@pytest.mark.parametrize("odd", [None, 3, [], {}, [[]], {"raised": 3}, [{"data": 1}] * 20])
def test_what_has_another_shape_is_reported(right_answer, value_of, problems, odd):
    value = value_of(right_answer, 1)
    for name in value:
        assert any(problems({**value, name: odd}, 1)), name
    assert all(problems(odd, 1))


@pytest.mark.parametrize("odd", [True, 4.0, "4", 10**4000, -1, 0, None])
def test_what_is_no_size_is_no_layout(right_answer, value_of, problems, odd):
    value = value_of(right_answer, 1)
    place = next(at for at, one in enumerate(value["choices"]) if one)
    value["choices"][place] = {**value["choices"][place], "data": odd}
    assert [bool(one) for one in problems(value, 1)] == [False] * 3 + [True] * 2


def test_a_choice_may_be_another_of_the_same_seconds(right_answer, value_of, problems):
    """Stages change nothing where there is one copy."""
    value = value_of(right_answer, 1)
    alone = [one for one in value["choices"] if one and one["data"] == 1]
    for one in alone:
        one["stage"] = 2
    assert alone
    assert not any(problems(value, 1))


def test_no_message_has_what_should_have_been_found(right_answer, value_of, problems):
    value = value_of(right_answer, 2)
    for name in ("memory", "slots", "data"):
        value[name] = [1.234e-3] * len(value[name])
    for problem in problems(value, 2)[:3]:
        assert problem.expected
        assert problem.expected not in problem.message


def test_narrowings_are_no_larger_than_the_search():
    case = next(case for case in cases(0) if case.decides != "nothing")
    found = all_found(case.model, case.cluster)
    for name, narrow in NARROW.items():
        assert all(one in found for one in narrow(found, case.cluster)), name


def test_each_mistake_has_a_hint():
    named = [*MEMORY_MISTAKES, *SLOT_MISTAKES, *DATA_MISTAKES, *NARROW]
    assert {name.split(":")[0] for name in named} <= set(CHECK.hints)
    assert {"ranks", "layers", "heads", "batch", "stage"} <= set(CHECK.hints)
