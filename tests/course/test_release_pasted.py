"""No function or class of a release, pasted as an answer with its arguments renamed, earns a point.

Tried are all of the release's matter: not the engine, whose functions start processes and whose
answers to an exercise would be none. Each takes the place of one of the solution's functions, with
its arguments in each order, in the exercises whose answers are called on one rank with plain
values. In those with several ranks an answer talks to the engine, and nothing in the course has the
form that they ask for (docs/grading.md names what comes close).
"""

import ast
import contextlib
import copy
import importlib
import inspect
import io
import itertools
import math
import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any

import pytest
import torch
from tqdm import tqdm

from hpml.answer import as_python
from hpml.checks import find, ids
from hpml.checks.contract import Check, Run
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.course.instructors.release import LEFT_OUT
from hpml.paths import CHECKOUT
from hpml.ranks.evidence import Evidence, RankEvidence
from hpml.ranks.memory_limit import limit_mapped

from ..suite.import_graph import check_file

COURSE = schedule.load()
SOURCE = CHECKOUT / "src"
MATTER = ("allreduce", "checks", "data", "frameworks", "measure", "models", "modules", "predict",
          "trace", "train")  # fmt: skip
# Modules that import these are not tried: they draw, or start something
APART = {"tensorflow", "horovod", "lightning", "subprocess", "socket", "matplotlib"}
MEMORY = 2 * 2**30  # bytes of data, beside what is there: numbers may be taken for sizes
CALLS = 1  # of a function, which must show a resemblance before all are made
BRIEFLY, PATIENCE = 0.1, 2.0  # seconds for one call, and for all: solutions take milliseconds
ARGUMENTS = 3  # of functions with so many or fewer, each order is tried
SEED = 1
TOO_LONG = 300.0  # seconds for an exercise


def is_called_plainly(check: Check) -> bool:
    """Whether its answers are called on one rank, with plain values."""
    others = check.process_group or check.stages or check.serve or check.submits
    return check.worlds == (1,) and check.drive is not None and not others


EXERCISES = [name for name in ids() if is_called_plainly(find(name))]


def module_names() -> Iterator[str]:
    """The modules to take from: those that do nothing when they are imported."""
    for path in sorted((SOURCE / "hpml").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[1] not in MATTER or any(part in LEFT_OUT for part in parts):
            continue
        tree = ast.parse(path.read_text())
        imports = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [each.name for each in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        acts = any(isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in tree.body)
        if not acts and not imports & APART:
            yield ".".join(parts).removesuffix(".__init__")


@cache
def pasted() -> tuple[tuple[str, Any], ...]:
    """All functions and classes, by their dotted names."""
    found = []
    for name in module_names():
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if own and (inspect.isfunction(value) or inspect.isclass(value)):
                found.append((f"{name}.{key}", value))
    return tuple(found)


def counts(what: Any) -> range:
    """The numbers of arguments that it can be called with; none where it cannot be told."""
    try:
        parameters = inspect.signature(what).parameters.values()
    except (TypeError, ValueError):
        return range(0)
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind == p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return range(0)
    many = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    least = sum(p.default is p.empty for p in plain)
    return range(least, 99 if many else len(plain) + 1)


class TooSlow(BaseException):
    """It has not ended in time."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Without what is printed. Raises TooSlow after so many seconds."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def resembles(one: Any, other: Any) -> bool:
    """Whether it may be the same answer: numbers that are near, in the same form."""
    if isinstance(one, bool | str | NoneType) or isinstance(other, bool | str | NoneType):
        return bool(type(one) is type(other) and one == other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys()
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(resembles, one, other))
    try:
        return math.isclose(one, other, rel_tol=1e-2)
    except (TypeError, ValueError, OverflowError):
        return type(one) is type(other)


class Trial:
    """An exercise's solution, with something else in one of its places."""

    def __init__(self, exercise: str) -> None:
        self.check = find(exercise)
        self.inputs = self.check.inputs(SEED, 1)
        self.given = copied(self.inputs)
        self.expected = self.check.expect(self.inputs, 1)
        self.solution = ModuleType("answer")
        sys.modules["answer"] = self.solution
        exec(as_python(wrong_answers.solution(COURSE, exercise)), vars(self.solution))

    def points(self, name: str, what: Any, patience: float = TOO_LONG) -> int:
        """With `what` in the place of `name`. Raises TooSlow."""
        answer = ModuleType("answer")
        vars(answer).update(vars(self.solution), **{name: what})
        try:
            with limited(patience):
                value = self.check.drive(answer, self.given()[0])
        except (Exception, SystemExit):
            return 0
        evidence = Evidence(1, (RankEvidence(0, "returned", value),), 0.0)
        run = Run(1, SEED, self.inputs, self.expected, evidence, {"play": evidence})
        return sum(claim.points for claim in self.check.claims if self._holds(claim, run))

    def _holds(self, claim: Any, run: Run) -> bool:
        try:
            return claim.judge(run) is None
        except Exception:  # of what no answer's drive returns
            return False

    def calls(self, name: str) -> list[tuple[Callable[[], list[Any]], Any]]:
        """The first calls of the solution's function: its arguments, and what it returned."""
        right, seen = getattr(self.solution, name), []

        def noted(*given: Any) -> Any:
            arguments = copy.deepcopy(list(given))
            result = right(*given)
            if len(seen) < CALLS:
                seen.append((copied(arguments), copy.deepcopy(result)))
            return result

        with contextlib.suppress(Exception):  # some drives want more than a function
            self.points(name, noted)
        return seen

    def unearned(self, name: str) -> Iterator[str]:
        """What earns a point in the place of `name`."""
        right = getattr(self.solution, name)
        number = counts(right).start
        # A class, and a function that changes what it is given, are tried by the whole drive
        calls = [] if inspect.isclass(right) else self.calls(name)
        without = max(self.points(name, nothing) for nothing in nothings(right))
        for path, what in pasted():
            kinds = inspect.isclass(what), inspect.isclass(right)
            if number not in counts(what) or path in SLOW or kinds == (False, True):
                continue
            orders = itertools.permutations(range(number))
            for order in orders if 1 < number <= ARGUMENTS else [tuple(range(number))]:
                tried = in_order(what, order)
                try:
                    if may_answer(tried, calls) and self.points(name, tried, PATIENCE) > without:
                        yield f"{name}: {path} with arguments {order}"
                except TooSlow:
                    SLOW.add(path)
                    break


def copied(values: list[Any]) -> Callable[[], list[Any]]:
    """What makes copies of them: through bytes where that is possible, which is much faster."""
    try:
        text = pickle.dumps(values)
    except Exception:
        return lambda: copy.deepcopy(values)
    return lambda: pickle.loads(text)


def may_answer(what: Any, calls: list[tuple[Callable[[], list[Any]], Any]]) -> bool:
    """Whether one of the calls returns what resembles the answer; where that is None, whether it
    returns. Raises TooSlow."""
    if not calls:
        return True
    for given, result in calls:
        try:
            with limited(BRIEFLY):
                found = what(*given())
                if result is None or resembles(found, result):
                    return True
        except (Exception, SystemExit):
            continue
    return False


SLOW: set[str] = set()


def nothing_at_all(*_: Any, **__: Any) -> None:
    return None


def zero(*_: Any, **__: Any) -> int:
    return 0


def unwritten(*_: Any, **__: Any) -> None:
    raise NotImplementedError


def nothings(right: Any) -> list[Any]:
    """What answers nothing in the place of `right`: what is earned with it, others have earned."""
    return [nothing_at_all, zero, unwritten] + [
        type(right.__name__, (right,), {method: nothing_at_all})
        for method in (vars(right) if inspect.isclass(right) else ())
        if inspect.isfunction(vars(right)[method])
    ]


def in_order(what: Any, order: tuple[int, ...]) -> Any:
    """`what`, called with its arguments in this order; as it is where that is the one they have."""
    if order == tuple(range(len(order))):
        return what
    return lambda *given: what(*(given[place] for place in order))


def in_a_child(work: Callable[[], str], folder: Path) -> str:
    """What `work` returned in a forked process in `folder`, which ends with all that it started."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.chdir(folder)
            # What its parent has open would else look as if that were alive
            os.closerange(3, write)
            os.closerange(write + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            limit_mapped(os.getpid(), MEMORY)  # a worker that has played half of the suite has 3 GB

            # tqdm has one lock for a process and its children: one that is ended with it keeps it
            tqdm.set_lock(threading.RLock())

            def too_slow(*_: Any) -> None:
                raise TooSlow

            signal.signal(signal.SIGALRM, too_slow)
            # OpenMP's threads do not come along: a child that computes with more than one waits
            # for them forever. Some of what is pasted asks for more.
            torch.set_num_threads(1)
            torch.set_num_threads = zero
            os.write(write, work().encode()[:60_000] or b"-")
        except BaseException:
            os.write(write, traceback.format_exc().encode()[:60_000])
        finally:
            os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read) as said:
            if not select.select([said], [], [], TOO_LONG)[0]:
                return f"it has not ended within {TOO_LONG:g} seconds"
            return (
                said.read()
                or f"it ended with status {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}"
            )
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def tried(exercise: str):
    """An exercise, played again where its check or its solution is another."""
    text = wrong_answers.solution(COURSE, exercise)
    mark = pytest.mark.in_turn("what is pasted", exercise, [check_file(exercise)], text)
    return pytest.param(exercise, marks=mark)


@pytest.mark.parametrize("exercise", [tried(exercise) for exercise in EXERCISES])
def test_nothing_of_a_release_earns_a_point(exercise, tmp_path):
    pasted()

    def work() -> str:
        trial = Trial(exercise)
        return "\n".join(each for name in trial.check.names for each in trial.unearned(name))

    assert in_a_child(work, tmp_path) == "-"


def test_a_child_computes_after_its_parent_has(monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "TOO_LONG", 20.0)

    def total() -> str:
        torch.set_num_threads(2)
        ones = torch.ones(1000, 1000)
        return str(float((ones @ ones).add(1).mean()))

    expected = total()
    assert in_a_child(total, tmp_path) == expected


def test_a_child_has_room_beside_what_its_parent_has(tmp_path):
    held = bytearray(2 * MEMORY)  # pages that are never touched
    assert in_a_child(lambda: str(len(bytearray(2**28))), tmp_path) == str(2**28)
    assert "MemoryError" in in_a_child(lambda: str(len(bytearray(2 * MEMORY))), tmp_path)
    del held


def test_a_child_that_is_ended_with_tqdms_lock_does_not_keep_it(monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "TOO_LONG", 0.5)
    bar = tqdm(range(1), file=io.StringIO())  # which makes the lock

    def hold() -> str:
        tqdm.get_lock().acquire()
        return time.sleep(60) or ""

    assert in_a_child(hold, tmp_path).startswith("it has not ended")
    for lock in bar.get_lock().locks:
        assert lock.acquire(timeout=5)
        lock.release()


def test_a_child_that_is_killed_says_so(tmp_path):
    ended = in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL), tmp_path)
    assert ended == "it ended with status -9"


def test_a_function_that_answers_is_found(monkeypatch, tmp_path):
    def formula(speed, number):
        return speed / number

    monkeypatch.setitem(globals(), "pasted", lambda: (("formula", formula),))
    found = in_a_child(lambda: "\n".join(Trial("amdahl").unearned("efficiency")), tmp_path)
    assert found == "efficiency: formula with arguments (0, 1)"


def test_what_does_not_end_is_ended(monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "TOO_LONG", 0.5)
    assert (
        in_a_child(lambda: time.sleep(60) or "", tmp_path) == "it has not ended within 0.5 seconds"
    )


def test_all_exercises_with_plain_values_are_tried():
    assert len(EXERCISES) > 15
    assert len(pasted()) > 1500
