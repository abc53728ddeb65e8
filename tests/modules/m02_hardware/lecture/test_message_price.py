"""What a message costs besides its bytes, from two ways to send the same."""

import pytest

from hpml.modules.m02_hardware.lecture.message_price import per_message, table
from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence


def sent(slow):
    """Eleven messages of 100 bytes in `slow` seconds, then one of 1100 bytes in one second."""
    ats = [slow / 20] * 11 + [slow + 0.5]
    calls = [
        Call(k, "all_reduce", (0,), k, "", (), 1100 if k == 11 else 100, "", None, at, at, at)
        for k, at in enumerate(ats)
    ]
    ways = (("one by one", 0, slow), ("one buffer", slow, slow + 1))
    marks = [
        Mark(f"{way} {what}", at)
        for way, begin, end in ways
        for what, at in (("begins", begin), ("ends", end))
    ]
    rank = RankEvidence(0, "returned", marks=tuple(marks), calls=tuple(calls))
    return Evidence(1, (rank,), slow + 1)


def test_alpha_is_what_is_left_per_message():
    assert per_message(sent(slow=3.0)) == (True, 11, 3.0, 1.0, pytest.approx(0.2))
    assert not per_message(sent(slow=1.5)).held


def test_the_table_has_messages_bytes_and_time():
    first, second = table(sent(slow=3.0)).splitlines()
    assert first.split() == "one by one 11 all-reduces 1.1 kB 3000.0 ms".split()
    assert second.split() == "one buffer 1 all-reduces 1.1 kB 1000.0 ms".split()
