"""When gradients leave: what is read from a ledger, and what hooks hide."""

from dataclasses import replace

import pytest

from hpml.modules.m04_frameworks.lecture.gradients_leaving import (
    AVERAGED,
    BEGIN,
    END,
    Step,
    equal_layers,
    hidden,
    quickest_step,
)
from hpml.modules.m04_frameworks.lecture.gradients_leaving_picture import leaving_picture
from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence

MIB = 2**20


def call(issued: float, finished: float | None, operation: str = "all_reduce") -> Call:
    shape = {"group": (0, 1), "sequence": 1, "dtype": "float32", "shape": (1,), "reduction": ""}
    moments = {"line": None, "issued": issued, "finished": finished}
    return Call(index=1, operation=operation, nbytes=MIB, **shape, **moments)


HOOKED = Step(0.3, 0.4, (call(0.1, 0.2), call(0.2, 0.29), call(0.3, 0.4)))
PLAIN = Step(0.3, 0.6, (call(0.3001, 0.4), call(0.4, 0.5), call(0.5, 0.6)))


def test_what_leaves_and_what_arrives_is_counted():
    assert (len(HOOKED.left), len(HOOKED.arrived)) == (3, 2)
    assert (len(PLAIN.left), len(PLAIN.arrived)) == (0, 0)
    never = replace(HOOKED, calls=(call(0.1, None),))
    assert not never.arrived


def test_hooks_that_hide_messages_are_seen():
    assert hidden(PLAIN, HOOKED)
    assert (HOOKED.wait, PLAIN.wait) == (pytest.approx(0.1), pytest.approx(0.3))


@pytest.mark.parametrize(
    "hooked",
    [
        replace(HOOKED, calls=(*HOOKED.calls[:2], call(0.35, 0.4))),  # one leaves late
        replace(HOOKED, ended=0.3, calls=tuple(call(0.29, 0.4) for _ in range(3))),  # none arrives
        replace(HOOKED, averaged=0.7),  # waits longer than the plain way
    ],
)
def test_hooks_that_hide_nothing_are_seen(hooked):
    assert not hidden(PLAIN, hooked)


def test_a_plain_way_that_sends_early_hides_messages_too():
    assert not hidden(HOOKED, HOOKED)


def test_the_quickest_step_is_taken_and_its_clock_begins_with_backward():
    def rank(number):
        marks, calls = [], []
        for start, length in ((5.0, 2.0), (10.0, 1.0)):
            marks += [Mark(BEGIN, start), Mark(END, start + 0.5), Mark(AVERAGED, start + length)]
            calls += [call(start + 0.1, start + 0.2), call(start + 0.1, None, "barrier")]
        return RankEvidence(number, "returned", calls=tuple(calls), marks=tuple(marks))

    step = quickest_step(Evidence(2, (rank(0), rank(1)), 12.0))
    assert (step.ended, step.averaged) == (0.5, 1.0)
    (one,) = step.calls
    assert (one.issued, one.finished) == pytest.approx((0.1, 0.2))


def test_all_ranks_have_the_same_layers_and_batches_of_their_own():
    (one, left), (other, right) = equal_layers(0), equal_layers(1)
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(bool((a == b).all()) for a, b in pairs)
    assert not bool((left == right).any())
    assert {parameter.nbytes for parameter in one.parameters()} == {MIB}


def test_the_picture_has_a_panel_for_each_way():
    figure = leaving_picture({"plain": PLAIN, "hooks": HOOKED}, title="message")
    assert len(figure.axes) == 2
    assert [axes.get_ylabel() for axes in figure.axes] == ["plain", "hooks"]
    assert figure.axes[-1].get_xlabel().endswith("(ms)")
