"""What was never judged is not wrong: claims in building order, and how a headline counts them."""

import pytest

from hpml.checks.verdict import ClaimResult, in_building_order, outcome

CROP = ClaimResult("crops", False, 2, "3 are no crops", "Pad first.", "crop", 2)


def repeated(name: str) -> ClaimResult:
    """A claim whose judge could not look, since "crops" does not hold."""
    return ClaimResult(name, False, 4, CROP.message, CROP.hint, CROP.hint_key, CROP.world_size)


def other(name: str) -> ClaimResult:
    return ClaimResult(name, False, 1, "the labels are another's", "Which index?", "labels", 2)


def held(name: str) -> ClaimResult:
    return ClaimResult(name, True, 1)


def shown(claims):
    return [(claim.state, claim.message) for claim in in_building_order(claims)]


def test_a_claim_that_repeats_the_reason_of_the_one_above_was_not_reached():
    waits = ("not reached", "not judged until the claim above holds")
    claims = [held("runs"), CROP, repeated("anew"), repeated("fast")]
    assert shown(claims) == [("holds", ""), ("fails", CROP.message), waits, waits]
    first, second, _, last = in_building_order(claims)
    assert (first, second) == tuple(claims[:2])  # what was judged stays as it is
    assert (last.earned, last.points, last.judged) == (0, 4, True)
    assert (last.hint, last.hint_key) == ("", "")


@pytest.mark.parametrize("between", [held("labels"), other("labels")])
def test_a_claim_that_is_not_the_one_above_is_named(between):
    _, _, last = shown([CROP, between, repeated("fast")])
    assert last == ("not reached", 'not judged until "crops" holds')


def test_a_claim_with_a_reason_of_its_own_fails():
    at_three = ClaimResult("anew", False, 4, CROP.message, CROP.hint, CROP.hint_key, 3)
    seen = ClaimResult("anew", False, 4, CROP.message, CROP.hint, CROP.hint_key, 2, expected="5")
    hinted = ClaimResult("anew", False, 4, CROP.message, "Keep it.", "kept", 2)
    for claim in (at_three, seen, hinted, other("labels")):
        assert in_building_order([CROP, claim]) == (CROP, claim)


def test_a_claim_that_this_machine_cannot_judge_waits_for_no_other():
    open_ = [ClaimResult(name, False, 1, "no counter here", judged=False) for name in "ab"]
    assert in_building_order(open_) == tuple(open_)


LATER = ClaimResult("later", False, 4, "not judged until the claim above holds", reached=False)
OPEN = ClaimResult("open", False, 1, "no counter here", judged=False)


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ([held("a"), held("b")], ("passed", "every claim holds")),
        ([held("a"), CROP], ("failed", "1 of 2 claims hold")),
        ([held("a"), OPEN], ("not gradable", "1 of 2 claims hold, 1 cannot be judged here")),
        ([CROP, LATER], ("failed", "1 of 2 claims fails, 1 was not judged")),
        ([CROP, *[LATER] * 4], ("failed", "1 of 5 claims fails, 4 were not judged")),
        (
            [held("a"), CROP, other("b"), LATER, LATER, OPEN],
            ("failed", "2 of 6 claims fail, 2 were not judged, 1 cannot be judged here"),
        ),
        (
            [LATER, OPEN],
            ("failed", "0 of 2 claims fail, 1 was not judged, 1 cannot be judged here"),
        ),
    ],
)
def test_a_headline_counts_as_wrong_only_what_was_judged(claims, found):
    assert outcome(claims) == found
