"""In which order tests begin, and which of them share a worker of pytest-xdist. A pytest plugin.

What takes longest begins first: else one worker is left with it when the others are done. Seconds
are those of the last run on this machine.
"""

import re
from collections import defaultdict

import pytest

SECONDS = 0.3  # of a test that was never timed
# Where nothing was timed yet: groups and files. The cluster mostly waits.
FIRST = (
    "lectures",
    "cluster",
    "tests/test_notebooks.py",
    "horovod",
    "tests/grading/",
    "tests/frameworks/",
)

LECTURES = "lectures"  # the group of tests/test_notebooks.py


class Order:
    def __init__(self, times: dict[str, tuple[float, bool]], *, as_chosen: bool = False) -> None:
        """`times`: seconds of tests by their ids, and whether they start a process.

        With `as_chosen` tests begin in the order in which they come: the nearest to a change.
        """
        self.times = times
        self.as_chosen = as_chosen

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        for item in items:  # before pytest-xdist looks at them
            if item.get_closest_marker("xdist_group") is None and _shares_a_fixture(item):
                item.add_marker(pytest.mark.xdist_group(item.path.stem))
        result = yield  # others leave tests out
        if self.as_chosen:
            return result
        seconds: dict[str, float] = defaultdict(float)
        for item in items:
            seconds[group(item)] += self.times.get(plain_id(item.nodeid), (_guess(item), True))[0]
        items.sort(key=lambda item: -seconds[group(item)])
        return result


def plain_id(nodeid: str) -> str:
    """A test's id without the group that pytest-xdist adds to it."""
    return re.sub(r"(?<=[\w\]])@[^\]]+$", "", nodeid)


def group(item) -> str:
    """What a worker takes at a time: a group, or one test."""
    names = [mark.args[0] for mark in item.iter_markers("xdist_group")]
    return f"@{names[0]}" if names else item.nodeid


def _guess(item) -> float:
    """A test that was never timed: the earlier in FIRST, the longer."""
    for place, first in enumerate(FIRST):
        if group(item) == f"@{first}" or item.nodeid.startswith(first):
            return 1000.0 * (len(FIRST) - place)
    return SECONDS


def _shares_a_fixture(item) -> bool:
    """Whether a fixture of the test is made once for its file, and not for each test."""
    fixtures = getattr(item, "_fixtureinfo", None)
    defined = fixtures.name2fixturedefs.values() if fixtures else ()
    return any(last.scope == "module" for *_, last in defined)
