"""Multiplications of forward and reverse mode, counted on small functions."""

from dataclasses import replace

from hpml.modules.m04_frameworks.lecture.counted import (
    HIDDEN,
    Cost,
    Counted,
    as_computed,
    cost,
    layers,
    table,
)

COSTS = [
    Cost(1, 1, function=24, forward=72, reverse=72, same=True),
    Cost(4, 1, function=48, forward=576, reverse=144, same=True),
    Cost(1, 4, function=48, forward=144, reverse=432, same=True),
]


def test_the_function_has_the_multiplications_of_its_formula():
    Counted.multiplications = 0
    layers(3, 2)([Counted(1.0)] * 3)
    assert Counted.multiplications == HIDDEN * (3 + 1 + 2)


def test_each_output_depends_on_each_input():
    function, point = layers(4, 2), [0.5, -0.5, 1.0, 0.0]
    before = function([*map(Counted, point)])
    for i in range(4):
        after = function([Counted(x + (i == j)) for j, x in enumerate(point)])
        assert all(float(a) != float(b) for a, b in zip(before, after, strict=True))


def test_what_a_mode_multiplies_is_counted():
    def passes(count):
        return lambda function, point: [function(point) for _ in range(count)]

    counted = cost(4, 1, passes(12), passes(3))
    assert (counted.function, counted.forward, counted.reverse) == (48, 576, 144)
    assert not counted.same
    assert cost(4, 1, passes(2), passes(2)).same


def test_costs_are_those_of_the_theory_or_not():
    assert as_computed(COSTS)
    assert not as_computed([replace(COSTS[0], reverse=73), *COSTS[1:]])
    assert not as_computed([*COSTS[:2], replace(COSTS[2], same=False)])


def test_the_table_has_a_line_for_each_function():
    head, *lines = table(COSTS).splitlines()
    assert "reverse mode" in head
    assert [line.split()[:3] for line in lines] == [[*"11", "24"], [*"41", "48"], [*"14", "48"]]
