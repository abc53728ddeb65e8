"""Huge pages, as the kernel counts them."""

import subprocess
import sys

import pytest

TAKE_AND_GATHER = """
import re
from pathlib import Path
from hpml.ranks.server import pages
def huge():
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"AnonHugePages: +(\\d+) kB", text)[1])
kept = [bytes([number % 256]) * 2**16 for number in range(1000)]
before, gathered = huge(), pages.collapse()
assert all(kept[n] == bytes([n % 256]) * 2**16 for n in range(1000))
print(before, gathered, huge())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="another processor or system")
def test_what_a_process_holds_is_gathered_and_stays_what_it_was():
    said = subprocess.run(
        [sys.executable, "-c", TAKE_AND_GATHER], capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
    before, gathered, after = map(int, said.stdout.split())
    if gathered == 0:  # before Linux 6.1
        assert after == before
    else:
        assert gathered > 20
        assert after - before >= 0.9 * gathered * 2048 - 2048


def test_elsewhere_nothing_happens(monkeypatch):
    from hpml.ranks.server import pages

    monkeypatch.setattr(sys, "platform", "darwin")
    assert pages.collapse() == 0
