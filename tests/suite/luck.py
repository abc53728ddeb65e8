"""What a run is worth: bad luck is tried once more, and counted; what was played is kept and said.

A test whose verdict rests on a clock, on resident memory, on a browser or on a daemon carries the
mark `measures`. If nothing else failed, those that did run once more, alone, when all others are
done. What passes then is named in the last lines, and counted in a file that is kept between runs:
three times in twenty runs of the whole suite, and the run is red until it is mended. A test without
the mark is never run again.

In the process that the user started, not in the workers of pytest-xdist.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import kept, minutes, passed
from .kept import AGAIN
from .order import plain_id
from .turns import Plan

RUNS = 20
TOO_OFTEN = 3  # times in so many runs
AT_MOST = 10  # tests that are tried again; if more fail, it was not luck


class Luck:
    def __init__(self, config: pytest.Config, plan: Plan, whole: bool, limit: float) -> None:
        """`whole`: no test was selected by hand. `limit`: seconds, or 0."""
        self.config = config
        self.plan = plan
        self.whole = whole
        self.limit = limit
        self.running: dict[str, float] = {}  # tests, and when they began
        self.seconds: dict[str, float] = defaultdict(float)
        self.starting: set[str] = set()
        self.measuring: set[str] = set()  # ids of tests with the mark
        self.failed: dict[str, bool] = {}  # ids, and whether they measure
        self.turns: dict[str, set[tuple[str, str, str, int]]] = defaultdict(set)  # by test
        self.unpassed: set[str] = set()
        self.ended: set[str] = set()  # else it was cut off, and has proved nothing
        self.counts: dict[str, list[int]] = {}
        self.known: dict[str, dict[str, str]] = {}  # keys that passed before, by kind and name
        self.left_out = 0
        self.stopped = False
        if limit:
            timer = threading.Timer(limit, self._stop)
            timer.daemon = True
            timer.start()

    def _stop(self) -> None:
        self.stopped = True
        os.kill(os.getpid(), signal.SIGINT)

    # Listening

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.running.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = plain_id(report.nodeid)
        self.seconds[test] += getattr(report, "duration", 0.0)
        if "measures" in report.keywords:
            self.measuring.add(test)
        for name, value in report.user_properties:
            if name == "starts":
                self.starting.add(test)
            elif name == "in turn":
                self.turns[test].add(tuple(value))
        if not report.passed:
            self.unpassed.add(test)
        if report.when == "teardown":
            self.ended.add(test)
        if report.failed:
            self.failed[test] = test in self.measuring
            self._name(report)

    def _name(self, report: pytest.TestReport) -> None:
        """Say now what has failed: a run that is killed prints no summary."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and reporter.verbosity <= 0:  # -v names each test as it ends
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash else str(report.longrepr)
            reporter.write_line(f"\nFAILED {report.nodeid} - {_first_line(why)}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        """A worker of pytest-xdist has ended; one that was killed has no output."""
        self.listen(getattr(node, "workeroutput", {}).get("suite", {}))

    def listen(self, said: dict) -> None:
        """What a worker counted. All collect the same tests; each plays its own batches."""
        self.left_out = max(self.left_out, said.get("left_out", 0))
        self.measuring |= set(said.get("measuring", ()))
        for kind, keys in said.get("known", {}).items():
            self.known.setdefault(kind, {}).update(keys)
        for kind, counts in said.get("counts", {}).items():
            self.counts[kind] = list(map(max, self.counts.get(kind, counts), counts))

    # Closing

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session):
        yield
        turns = self.config.pluginmanager.get_plugin("hpml turns")
        if turns is not None:
            self.listen(turns.said(session.items))
        crashed = {test for test in self.failed if test in self.measuring}  # with their worker
        self.failed |= dict.fromkeys(crashed, True)
        lines = [*self._of_the_limit(), *self._of_turns()]
        if self.plan.mode == "changed" and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # no test rests on what has changed
        lucky: list[str] = []
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and AGAIN not in os.environ:
            lucky = self._again()
            if lucky:
                session.exitstatus = pytest.ExitCode.OK
        finished = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if self.whole and finished and AGAIN not in os.environ:
            often = self._count(lucky)
            lines += [f"passed at the second try, alone: {test}" for test in lucky]
            lines += [
                f"{test} was lucky {times} times in the last {RUNS} runs: it has to be mended"
                for test, times in often.items()
            ]
            if often and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            lines += self._write_passed(lucky) if session.exitstatus == pytest.ExitCode.OK else []
        self._keep(lucky)
        if file := self.config.getoption("--minutes"):
            Path(file).write_text(minutes.table(self.seconds, self.starting), encoding="utf-8")
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in lines:
                reporter.write_line(line, yellow=True)

    def _again(self) -> list[str]:
        """The failed tests, if all that failed measure something and all pass at a second try."""
        failed = sorted(self.failed)
        if not failed or not all(self.failed.values()) or len(failed) > AT_MOST:
            return []
        print(f"\nonce more, alone: {', '.join(failed)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *failed]
        ended = subprocess.run(
            command, cwd=self.config.rootpath, env={**os.environ, AGAIN: "1"}, check=False
        )
        return failed if ended.returncode == 0 else []

    def _count(self, lucky: list[str]) -> dict[str, int]:
        """Add this run to those that are kept; how often those that were lucky too often were."""
        with kept.changing("luck.json") as history:
            run = {"commit": self.plan.commit, "at": time.time(), "lucky": lucky}
            history["runs"] = [*history.get("runs", []), run][-RUNS:]
            times = Counter(test for run in history["runs"] for test in run["lucky"])
        return {test: n for test, n in times.items() if n >= TOO_OFTEN and test in lucky}

    def _of_the_limit(self) -> list[str]:
        if not self.stopped:
            return []
        now = time.monotonic()
        running = [f"{test} ({now - at:.0f} s)" for test, at in self.running.items()]
        return [
            f"stopped after {self.limit / 60:.0f} minutes, as was asked; then ran:",
            *(running or ["no test"]),
        ]

    def _of_turns(self) -> list[str]:
        """How many of what is played in turn were played."""
        if self.plan.mode == "changed":
            rest = f"; {self.left_out} more tests do: ./hpml test" if self.left_out else ""
            return [f"played: what rests on {_named(self.plan.changed)}{rest}"]
        if not self.whole or self.plan.mode == "quick":
            return []
        return [
            f"{kind}: {changed + share} of {total} played, {changed} of them new or changed"
            + (f"; {below} rest on an engine that has changed" if below else "")
            for kind, (total, changed, share, below) in sorted(self.counts.items())
        ]

    def _write_passed(self, lucky: list[str]) -> list[str]:
        """Write what has passed, but not in CI, whose checkout goes."""
        if self.plan.mode not in ("all", "turns") or os.environ.get("CI") == "true":
            return []
        if self.config.option.collectonly:
            return []
        if not passed.write(self.config.rootpath, self.plan.passed, self._proven(lucky)):
            return []
        return [f"{passed.FILE} is written anew: commit it with what you changed"]

    def _passed(self, lucky: list[str]) -> set[str]:
        return (self.ended - self.unpassed) | set(lucky)

    def _proven(self, lucky: list[str]) -> dict[str, dict[str, str]]:
        """The keys of what is played in turn, and passed before or now."""
        proven = {kind: dict(keys) for kind, keys in self.known.items()}
        for kind, name, key, whole in self._played(lucky):
            if whole:
                proven.setdefault(kind, {})[name] = key
            else:  # it was skipped
                proven.get(kind, {}).pop(name, None)
        return proven

    def _played(self, lucky: list[str]) -> Iterator[tuple[str, str, str, bool]]:
        """What was played in turn: kind, name, key, and whether all of its tests have passed."""
        right = self._passed(lucky)
        tests: dict[tuple[str, str, str, int], int] = defaultdict(int)
        for test, played in self.turns.items():
            for each in played:
                tests[each] += test in right
        for (kind, name, key, needed), count in tests.items():
            yield kind, name, key, count >= needed

    def _keep(self, lucky: list[str]) -> None:
        right = self._passed(lucky)
        now = time.time()
        if self.turns:
            with kept.changing("turns.json") as turns:
                for kind, name, key, whole in self._played(lucky):
                    if whole:
                        turns.setdefault(kind, {})[name] = [key, now]
                    else:
                        turns.get(kind, {}).pop(name, None)
        with kept.changing("times.json") as times:
            for test, seconds in self.seconds.items():
                if test in right:
                    times[test] = [round(seconds, 3), test in self.starting]
        kept.tidy()


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:200]


def _named(files: tuple[str, ...]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return ", ".join(files[:3]) + more
