"""Which tests a run plays: all, some in turn, the quick ones, or what a change touches.

Wrong answers, attacks, honest variants and executed notebooks are played *in turn*: each whose key
has changed since it last passed, and of the others the fifth that was not played for longest. So
five runs play all of them. A key is a hash of the answer and of every file that its verdict rests
on (import_graph.py), so that a change of the engine is a change of everything. What passed on this
machine is kept in the user's cache folder (kept.py); what passed where the last commit was made is
in tests/passed.txt (passed.py).

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
from typing import Any, Literal

import pytest

from .import_graph import ImportGraph
from .order import plain_id
from .passed import Passed
from .skips import LEFT_OUT

SHARE = 5  # one in so many is played without a reason
QUICK = 1.0  # seconds
LONG = 5.0  # seconds of a file's tests
LONG_FILES = "files of long tests"  # a kind
AT_MOST = 120.0  # seconds of --changed, of the three minutes that it may take with all around it
GUESS = 0.5  # seconds of a test that was never timed
# Tests share one run of a notebook, and only the first of them has its seconds. A lecture is too
# long for --changed.
GUESSES = {"lectures": 200.0, "solutions as notebooks": 30.0, "exercises as notebooks": 20.0}
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
    times: Mapping[str, tuple[float, bool]] = field(default_factory=dict)  # as kept


def due(plan: Plan, kind: str, keys: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Of the names of a kind: those whose key is not that of their last pass, and the share."""
    if plan.mode == "all":
        return list(keys), []
    kept = plan.turns.get(kind, {})

    def when(name: str) -> float:
        key, at = kept.get(name, ("", 0.0))
        if key == keys[name]:
            return at
        return 0.0 if plan.passed.holds(kind, name, keys[name]) else math.nan

    times = {name: when(name) for name in keys}
    changed = [name for name, at in times.items() if math.isnan(at)]
    rest = sorted((name for name in keys if name not in changed), key=_drawn)
    # What was played at the same time is dealt out: the next runs begin with the next fifths
    place = {name: (at + plan.passed.runs) % SHARE for at, name in enumerate(rest)}
    rest.sort(key=lambda name: (times[name], place[name]))
    return changed, rest[: math.ceil(len(rest) / SHARE)]


def _drawn(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _file_of(item) -> str:
    return item.nodeid.partition("::")[0]


class Turns:
    """Deselects what a run does not play, and notes what it does: see `Plan`."""

    def __init__(self, plan: Plan, graph: ImportGraph) -> None:
        self.plan = plan
        self.graph = graph
        # By kind: of how many, how many were changed, and how many came in turn
        self.counts: dict[str, list[int]] = {}
        self.known: dict[str, dict[str, str]] = {}  # by kind and name: the keys that passed before
        self.left_out = 0
        self.began = time.time()
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
            if seconds < LONG and not self.plan.passed.holds(
                LONG_FILES, file, self.graph.key([file])
            ):
                continue
            for item in tests:
                item.add_marker(pytest.mark.in_turn(LONG_FILES, file, [file]))

    def _keep(self, config, items: list, kept: list) -> None:
        ids = {item.nodeid for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
        items[:] = kept

    def _choose(self, kind: str, keys: Mapping[str, str]) -> set[str]:
        changed, share = due(self.plan, kind, keys)
        known = {name: key for name, key in keys.items() if name not in changed}
        self.known.setdefault(kind, {}).update(known)
        counts = self.counts.setdefault(kind, [0, 0, 0])
        for place, count in enumerate((len(keys), len(changed), len(share))):
            counts[place] += count
        return {*changed, *share}

    def choose(self, request, kind: str, keys: Mapping[str, str]) -> list[str]:
        """For a test that plays many: the names that are to be played, which it passes with."""
        if self.plan.mode == "changed":
            chosen = due(self.plan, kind, keys)[0]
        else:
            chosen = sorted(self._choose(kind, keys))
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
