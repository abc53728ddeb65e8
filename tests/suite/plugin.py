"""The options of a run, its plan, and the parts of this folder as plugins of pytest.

    --all            everything
    --quick          what starts no process and takes less than a second
    --changed        what the files touch that differ from the last commit; where none does, those
                     that the last commit changed; --changed=REV: those that differ from REV
    --limit=MINUTES  stop by then, with what there is; what only has its turn begins before two
                     thirds of it are gone
    --minutes=FILE   also write where the time went, as a table

Without one of these, all but what is played in turn: see turns.py.
"""

import math
import os
import pickle
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from . import kept, passed, skips
from .alone import Alone
from .crashes import Crashes
from .import_graph import ImportGraph
from .kept import AGAIN
from .luck import Luck
from .order import Order
from .orphans import Orphans
from .turns import Plan, Turns

FACTS = "facts.json"
FOR_TURNS = 2 / 3  # of the limit
_PLAN = "hpml_plan"  # for workers of pytest-xdist: the file with the plan


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("hpml", "which tests are played")
    group.addoption("--all", action="store_true", help="Play everything, nothing in turn.")
    group.addoption("--quick", action="store_true", help="What starts nothing, under a second.")
    group.addoption(
        "--changed",
        nargs="?",
        const="",
        metavar="REV",
        help="What a change touches, for at most three minutes (default: since the last commit).",
    )
    group.addoption("--minutes", metavar="FILE", help="Write where the time went.")
    group.addoption("--limit", type=float, default=0.0, metavar="MINUTES", help="Stop by then.")


def configure(config: pytest.Config) -> None:
    """Register this folder's plugins."""
    for line in (
        "measures: its verdict rests on a clock, on memory, on a browser or on a daemon",
        "in_turn(kind, name, files, *texts): played where its key has changed, and in turn",
    ):
        config.addinivalue_line("markers", line)
    # The same examples in each run: no landing fails by another's luck. --all looks for new ones.
    same = not config.getoption("--all")
    settings.register_profile("drawn", settings.default, derandomize=same)
    settings.load_profile("drawn")
    config.pluginmanager.register(skips, "hpml skips")
    worker = getattr(config, "workerinput", None)
    if worker is None:
        graph = ImportGraph(config.rootpath, kept.folder() / FACTS)
        plan = make_plan(config, graph)
        config.pluginmanager.register(_Distributing(plan), "hpml distributing")
        luck = Luck(config, plan, _is_whole(config), 60 * config.getoption("--limit"))
        config.pluginmanager.register(luck, "hpml luck")
        config.pluginmanager.register(Orphans(), "hpml orphans")
        config.pluginmanager.register(Crashes(), "hpml crashes")
    else:
        plan = pickle.loads(Path(worker[_PLAN]).read_bytes())
        graph = ImportGraph(config.rootpath, kept.folder() / FACTS)
        config.pluginmanager.register(Alone(Path(worker[_PLAN]).parent), "hpml alone")
    if worker is not None or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Turns(plan, graph), "hpml turns")
        config.pluginmanager.register(
            Order(plan.times, as_chosen=plan.mode == "changed"), "hpml order"
        )


def make_plan(config: pytest.Config, graph: ImportGraph) -> Plan:
    """The plan of a run, of its options and of what was kept. Raises pytest.UsageError."""
    asked = [name for name in ("all", "quick") if config.getoption(f"--{name}")]
    since = config.getoption("--changed")
    asked += ["changed"] if since is not None else []
    if len(asked) > 1:
        raise pytest.UsageError(f"--{' and --'.join(asked)}: give one of them")
    limit = config.getoption("--limit")
    plan = Plan(
        mode=asked[0] if asked else "turns" if _is_whole(config) else "all",
        commit=_git(graph.root, "rev-parse", "HEAD").strip(),
        workers=config.getoption("numprocesses", None) or 1,
        turns=kept.read("turns.json"),
        passed=passed.read(graph.root),
        times=kept.read("times.json"),
        until=time.time() + FOR_TURNS * 60 * limit if limit else math.inf,
    )
    for file in graph.files:
        graph.edges(file)
    graph.save()  # before the workers read it
    if plan.mode == "changed":
        changed = changed_files(graph.root, since)
        if not changed:
            raise pytest.UsageError(f"--changed: nothing differs from {since or 'HEAD'}")
        plan = replace(plan, changed=changed)
    return plan


def changed_files(root: Path, since: str) -> tuple[str, ...]:
    """The files that differ from a commit; by default from the last one, or those it changed."""
    new = _git(root, "ls-files", "--others", "--exclude-standard").splitlines()
    for base in [since] if since else ["HEAD", "HEAD~1"]:
        differing = {*_git(root, "diff", "--name-only", base).splitlines(), *new}
        if differing:
            return tuple(sorted(differing))
    return ()


def _git(root: Path, *words: str) -> str:
    """What git prints; nothing where it is not there, or this is not a checkout."""
    try:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout
    except OSError:
        return ""


def _is_whole(config: pytest.Config) -> bool:
    """Whether no test was selected by hand."""
    named = config.args_source == pytest.Config.ArgsSource.ARGS
    return not (named or config.option.keyword or config.option.markexpr or AGAIN in os.environ)


class _Distributing:
    """Hands the plan to the workers of pytest-xdist, so that all choose the same tests."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._folder = tempfile.TemporaryDirectory(prefix="hpml-plan-")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node) -> None:
        path = Path(self._folder.name) / "plan"
        if not path.exists():
            path.write_bytes(pickle.dumps(self._plan))
        node.workerinput[_PLAN] = str(path)

    def pytest_unconfigure(self) -> None:
        self._folder.cleanup()
