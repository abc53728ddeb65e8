"""What a worker of pytest-xdist had to do when it crashed, as by pytest-timeout, is done by others.

Two things of pytest-xdist 3.8 are put right. A worker in the place of a crashed one is given a
single test, and waits: it runs a test when it knows the next. And the test that crashed its worker
is tried again by another, until that one has crashed too.
"""

import pytest
from xdist.scheduler import LoadGroupScheduling


class Scheduler(LoadGroupScheduling):
    def _reschedule(self, node) -> None:
        super()._reschedule(node)
        few = self._pending_of(self.assigned_work[node]) < 2
        if few and self.workqueue and not node.shutting_down:
            super()._reschedule(node)

    def remove_node(self, node) -> str | None:
        for tests in self.assigned_work[node].values():
            for test, done in tests.items():
                if not done:
                    tests[test] = True
                    super().remove_node(node)
                    return test
        return super().remove_node(node)


class Crashes:
    """In the process that the user started."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config, log):
        return Scheduler(config, log) if config.getvalue("dist") == "loadgroup" else None
