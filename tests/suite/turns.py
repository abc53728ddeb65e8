"""Which tests a run plays: all, some in turn, the quick ones, or what a change touches.

Wrong answers, attacks, honest variants and executed notebooks are played *in turn*. A key is a hash
of the answer and of every file that its verdict rests on (import_graph.py); its first half is of
those that it rests on nearly: its check, its module's files, and what these import. A run plays

- each of which the first half has changed since it last passed;
- of those below which the engine has changed, a fifth;
- of the others, a ninth: in both, those that were not played for longest.

So nine runs play all of them, and a change of the engine, on which everything rests, is not a day's
wait. Where a run has a limit, what only has its turn begins in the first two thirds of it. What
passed on this machine is kept in the user's cache folder (kept.py); what passed where the last
commit was made is in tests/passed.txt (passed.py).

A test joins by `pytest.mark.in_turn(kind, name, files, *texts)`, or, where one test plays many, by
the fixture `in_turn`. A file whose tests take long joins by itself, whole. A test that is named on
the command line is always played.
"""

import hashlib
import math
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any, Literal, NamedTuple

import pytest

from .import_graph import ImportGraph
from .order import plain_id
from .passed import Passed, near
from .skips import LEFT_OUT

SHARE = 9  # one in so many is played without a reason
BELOW = 5  # one in so many where something far below it has changed
QUICK = 1.0  # seconds
LONG = 5.0  # seconds of a file's tests
LONG_FILES = "files of long tests"  # a kind
AT_MOST = 120.0  # seconds of --changed, of the three minutes that it may take with all around it
GUESS = 0.5  # seconds of a test that was never timed
# Tests share one run of a notebook, and only the first of them has its seconds. A lecture is too
# long for --changed.
GUESSES = {"lectures": 200.0, "solutions as notebooks": 30.0, "exercises as notebooks": 20.0}
LATE = "no time was left for what only had its turn"
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.forkpty")  # audit events

STYLE = "tests/test_style.py"  # it reads all files


@dataclass(frozen=True)
class Plan:
    """What a run is to play, made once and the same in every worker; plain data."""

    mode: Literal["all", "turns", "quick", "changed"]
    commit: str = ""
    changed: tuple[str, ...] = ()  # files
    workers: int = 1
    turns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # as kept
    passed: Passed = field(default_factory=Passed)  # as committed
    until: float = math.inf  # on the clock: then nothing begins that only has its turn
    times: Mapping[str, tuple[float, bool]] = field(default_factory=dict)  # as kept


class Due(NamedTuple):
    """What of a kind is to be played: names."""

    changed: list[str]  # never passed, or no longer as it is
    below: list[str]  # all that rest on something far below that has changed since
    share: list[str]  # of these and of all others, those whose turn it is


def due(plan: Plan, kind: str, keys: Mapping[str, str]) -> Due:
    """What a run plays of a kind, by the keys of its names."""
    if plan.mode == "all":
        return Due(list(keys), [], [])
    kept = plan.turns.get(kind, {})
    changed, below, others = [], [], []
    times = {}
    for name, key in keys.items():
        last, times[name] = kept.get(name, ("", 0.0))
        if last == key or plan.passed.holds(kind, name, key):
            others.append(name)
        elif near(last) == near(key) or plan.passed.holds(kind, name, near(key)):
            below.append(name)
        else:
            changed.append(name)

    def turn(names: list[str], share: int, of: int) -> list[str]:
        # What was played at the same time is dealt out: the next runs begin with the next part
        dealt = sorted(names, key=_drawn)
        place = {name: (at + plan.passed.runs) % share for at, name in enumerate(dealt)}
        dealt.sort(key=lambda name: (times[name], place[name]))
        return dealt[: math.ceil(of / share)]

    share = turn(below, BELOW, len(keys)) + turn(others, SHARE, len(others))
    return Due(changed, below, share)


def _drawn(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _file_of(item) -> str:
    return item.nodeid.partition("::")[0]


class Turns:
    """Deselects what a run does not play, and notes what it does: see `Plan`."""

    def __init__(self, plan: Plan, graph: ImportGraph) -> None:
        self.plan = plan
        self.graph = graph
        # By kind: of how many, how many were changed, how many came in turn, and how many rest on
        # what has changed below them
        self.counts: dict[str, list[int]] = {}
        self.known: dict[str, dict[str, str]] = {}  # by kind and name: the keys that passed before
        self.left_out = 0
        self.waiting: set[tuple[str, str]] = set()  # kinds and names that only have their turn
        self._starts: list[str] = []
        self._guarded = False
        sys.addaudithook(self._on_event)
        # A process of multiprocessing's that is forked by its server raises no such event
        start = BaseProcess.start

        def noted(process: BaseProcess) -> None:
            self._on_event(STARTS[0], ())
            start(process)

        BaseProcess.start = noted

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event in STARTS:
            self._starts.append(event)
            # In another thread it would end that thread, and the test would wait for it
            if self._guarded and threading.current_thread() is threading.main_thread():
                pytest.skip(f"{LEFT_OUT}it starts a process, or what it shares does")

    # Choosing

    def pytest_collection_modifyitems(self, config, items) -> None:
        if self.plan.mode in ("turns", "all"):
            self._mark_long_files(items)
        keys: dict[str, dict[str, str]] = defaultdict(dict)
        joined: dict[tuple[str, str], list] = defaultdict(list)
        for item in items:
            if mark := item.get_closest_marker("in_turn"):
                kind, name, files, *texts = mark.args
                joined[kind, name].append(item)
                if kind != LONG_FILES:
                    own = self.graph.digest(_file_of(item))
                    keys[kind][name] = self.graph.key(files, own, *texts)
                elif name not in keys[kind]:
                    keys[kind][name] = self.graph.key(files)
        for (kind, name), tests in joined.items():
            for item in tests:  # it has passed when so many have
                item.user_properties.append(("in turn", [kind, name, keys[kind][name], len(tests)]))
        chosen = {kind: self._choose(kind, of_kind) for kind, of_kind in keys.items()}

        def is_chosen(item) -> bool:
            mark = item.get_closest_marker("in_turn")
            return mark is None or mark.args[1] in chosen[mark.args[0]]

        if self.plan.mode == "turns":
            self._keep(config, items, [item for item in items if is_chosen(item)])
        elif self.plan.mode == "quick":
            self._keep(config, items, [item for item in items if self._is_quick(item)])
        elif self.plan.mode == "changed":
            self._keep(config, items, self._near(items))

    def _mark_long_files(self, items: Iterable) -> None:
        files: dict[str, list] = defaultdict(list)
        for item in items:
            if item.get_closest_marker("in_turn") is None and _file_of(item) != STYLE:
                files[_file_of(item)].append(item)
        for file, tests in files.items():
            seconds = sum(self.plan.times.get(plain_id(i.nodeid), (0.0, False))[0] for i in tests)
            key = self.graph.key([file])
            if seconds < LONG and not self.plan.passed.holds(LONG_FILES, file, near(key)):
                continue
            for item in tests:
                item.add_marker(pytest.mark.in_turn(LONG_FILES, file, [file]))

    def _keep(self, config, items: list, kept: list) -> None:
        ids = {item.nodeid for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
        items[:] = kept

    def _choose(self, kind: str, keys: Mapping[str, str]) -> set[str]:
        one = due(self.plan, kind, keys)
        known = self.known.setdefault(kind, {})
        known |= {name: key for name, key in keys.items() if name not in one.changed}
        known |= {name: near(keys[name]) for name in one.below}
        counts = self.counts.setdefault(kind, [0, 0, 0, 0])
        for place, of_kind in enumerate((keys, one.changed, one.share, one.below)):
            counts[place] += len(of_kind)
        self.waiting |= {(kind, name) for name in one.share}
        return {*one.changed, *one.share}

    def _is_late(self, kind: str, name: str) -> bool:
        return (kind, name) in self.waiting and time.time() > self.plan.until

    def choose(self, request, kind: str, keys: Mapping[str, str]) -> list[str]:
        """For a test that plays many: the names that are to be played, which it passes with."""
        if self.plan.mode == "changed":
            changed, below, _ = due(self.plan, kind, keys)
            chosen = changed + below
        else:
            chosen = sorted(n for n in self._choose(kind, keys) if not self._is_late(kind, n))
            if not chosen:
                pytest.skip(f"{LEFT_OUT}{LATE}")
        request.node.user_properties.extend(("in turn", [kind, n, keys[n], 1]) for n in chosen)
        return chosen

    def _is_quick(self, item) -> bool:
        if item.get_closest_marker("in_turn"):
            return False
        seconds, starts = self.plan.times.get(plain_id(item.nodeid), (0.0, False))
        return seconds < QUICK and not starts

    def _near(self, items: Iterable) -> list:
        """What rests on the changed files, the nearest first, for as long as there is time."""
        distances = {STYLE: 0} | self.graph.distances(self.plan.changed)
        reached = []
        for item in items:
            mark = item.get_closest_marker("in_turn")
            files = [_file_of(item), *(mark.args[2] if mark else ())]
            places = [distances[file] for file in files if file in distances]
            if places:
                least = GUESSES.get(mark.args[0], 0.0) if mark else 0.0
                seconds = self.plan.times.get(plain_id(item.nodeid), (GUESS, True))[0]
                seconds = max(seconds, least)
                reached.append((min(places), seconds, item.nodeid, item))
        left, kept = AT_MOST * self.plan.workers, []
        for _, seconds, _, item in sorted(reached, key=lambda one: one[:3]):
            if seconds <= min(left, AT_MOST):
                left -= seconds
                kept.append(item)
        self.left_out = len(reached) - len(kept)
        return kept

    # Watching

    def pytest_runtest_setup(self, item) -> None:
        mark = item.get_closest_marker("in_turn")
        if mark and self._is_late(*mark.args[:2]):
            item.user_properties.clear()  # it proves nothing and disproves nothing
            pytest.skip(f"{LEFT_OUT}{LATE}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._starts.clear()
        self._guarded = self.plan.mode == "quick"
        try:
            return (yield)
        finally:
            self._guarded = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "teardown" and self._starts:
            report.user_properties = [*report.user_properties, ("starts", True)]
        return report

    # Reporting, in a worker to the process that the user started

    def said(self, items: Iterable) -> dict[str, Any]:
        measuring = [plain_id(item.nodeid) for item in items if item.get_closest_marker("measures")]
        return {
            "counts": self.counts,
            "known": self.known,
            "left_out": self.left_out,
            "measuring": measuring,
        }

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["suite"] = self.said(session.items)
