"""What a worker of pytest-xdist had to do when it crashed, as by pytest-timeout, is done by others.

Three things of pytest-xdist 3.8 are put right. A worker in the place of a crashed one is given a
single test, and waits: it runs a test when it knows the next. The test that crashed its worker is
tried again by another, until that one has crashed too. And where two crash at once, the first new
worker to be ready has tests handed to the other one as well, which has not collected any: the run
ends in an INTERNALERROR, which names no test that has failed.
"""

import pytest
from xdist.scheduler import LoadGroupScheduling


class Scheduler(LoadGroupScheduling):
    def _reschedule(self, node) -> None:
        if node not in self.registered_collections:  # it is given tests when it has collected them
            return
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
