"""Values are told apart by type, dtype, shape and figures, and the sentence says by which."""

import pytest
import torch

from hpml.checks.compare import Difference, described, difference, is_number, state_difference

ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("got", "seen", "expected"),
    [
        (None, "is None", "a tensor"),
        (1.0, "is 1.0", "a tensor"),
        ([1.0, 2.0], "is a list of 2", "a tensor"),
        ("ones", "is a str", "a tensor"),
        (ONES.double(), "is float64", "float32"),
        (ONES.flatten(), "has shape (6,)", "(2, 3)"),
        (ONES * torch.inf, "has elements that are not finite", ""),
        (ONES * torch.nan, "has elements that are not finite", ""),
        (ONES + 0.5, "differs by up to 0.5", ""),
    ],
)
def test_what_differs_is_named(got, seen, expected):
    found = difference(got, ONES, tolerance=0.1)
    assert found == Difference(seen, expected)
    assert f"it {found}" == f"it {seen}"


def test_the_tolerance_is_relative_to_the_largest_element():
    expected = torch.tensor([1000.0, 0.0])
    assert difference(expected + 0.9, expected, tolerance=1e-3) is None
    assert difference(expected + 1.1, expected, tolerance=1e-3) == Difference(
        "differs by up to 1.1"
    )
    assert difference(ONES + 0.05, ONES) == Difference("differs by up to 0.05")
    assert difference(ONES.clone(), ONES) is None


def test_whole_numbers_and_empty_tensors_are_compared_too():
    assert difference(torch.tensor(3), torch.tensor(3)) is None
    assert difference(torch.tensor(3), torch.tensor(5)) == Difference("differs by up to 2")
    assert difference(torch.empty(0), torch.empty(0)) is None
    assert difference(torch.empty(1), torch.empty(0)) == Difference("has shape (1,)", "(0,)")


def test_states_differ_by_names_first():
    expected = {"a": ONES, "b": ONES}
    assert state_difference({"a": ONES, "b": ONES.clone()}, expected) is None
    assert state_difference({"a": ONES}, expected) == Difference("b is missing")
    assert state_difference(expected | {"module.a": ONES}, expected) == Difference(
        "module.a should not be there"
    )
    assert state_difference(expected | {"b": ONES * 2}, expected) == Difference(
        "b differs by up to 1"
    )
    assert state_difference([ONES], expected) == Difference(
        "it is a list of 1", "a dict of tensors"
    )
    assert state_difference(expected | {"b": ONES[0]}, expected) == Difference(
        "b has shape (3,)", "(2, 3)"
    )


@pytest.mark.parametrize("large", [10**400, -(10**5000)], ids=["400", "5000"])
def test_an_int_that_no_float_can_hold_is_no_number_and_is_not_printed(large):
    assert not is_number(large)
    assert described(large) == "an int beyond a float's range"


def test_numbers_are_ints_and_floats():
    assert all(map(is_number, (0, -3, 2.5, 10**300, float("nan"), float("inf"))))
    assert not any(map(is_number, (True, None, "3", [1.0], 1j)))


def test_values_are_described_shortly():
    assert [described(value) for value in (None, True, 3, (1, 2), {"a": 1}, b"x")] == [
        "None",
        "True",
        "3",
        "a tuple of 2",
        "a dict of 1",
        "a bytes",
    ]
