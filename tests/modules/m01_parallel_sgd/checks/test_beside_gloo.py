"""A passed ring beside Gloo's own: what is shown of a launch, and that it costs no verdict."""

import re
from types import SimpleNamespace

import pytest

from hpml.checks import beside_library
from hpml.checks.render import WIDTH
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.errors import UserError
from hpml.modules.m01_parallel_sgd.checks._beside_gloo import beside_gloo
from hpml.modules.m01_parallel_sgd.checks.ring_all_reduce import CHECK


@pytest.mark.measures  # how often TCP sends a segment twice depends on the load
def test_a_right_ring_sends_what_must_be_sent_and_no_more():
    lines = beside_gloo(CHECK, wrong_answers.solution(schedule.load(), CHECK.id))
    if not lines:
        pytest.skip("no emulated network")
    sent = [int(number) for number in re.findall(r"(\d+) kB", lines[0])]
    assert len(sent) == 2
    assert all(384 <= each < 500 for each in sent), sent  # some are sent twice on a busy machine
    assert lines[1] == (
        "Best of 3, 288 kB on each of 3 ranks, 100 Mbit/s; "
        "2 (p-1)/p of it are 384 kB, and take 31 ms."
    )
    assert all(len(line) <= WIDTH for line in lines)


def test_a_launch_that_fails_shows_nothing():
    assert beside_gloo(CHECK, "def ring_all_reduce(tensor):\n    raise ValueError('late')") == []


@pytest.mark.parametrize("error", [ValueError("odd"), UserError("no room")])
def test_the_verdict_stands_where_it_cannot_be_measured(monkeypatch, error):
    def fails(check, source):
        raise error

    monkeypatch.setattr(beside_library, "find", lambda exercise: SimpleNamespace(beside=fails))
    assert beside_library.beside_library("ring_all_reduce", "") == []
    monkeypatch.setattr(beside_library, "find", lambda exercise: SimpleNamespace(beside=None))
    assert beside_library.beside_library("amdahl", "") == []
