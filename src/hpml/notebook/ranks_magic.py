"""`%%ranks N`: a cluster in a notebook cell."""

import argparse
import ast
import builtins
import shlex
import sys
from collections import Counter
from typing import Any, NoReturn

import cloudpickle
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from hpml.checks.library_frames import folded
from hpml.errors import UserError
from hpml.ranks import memory_limit
from hpml.ranks.evidence import Evidence
from hpml.ranks.flavour import Flavour
from hpml.ranks.parent.launch import launch
from hpml.ranks.parent.watch import Watched

_CELL = "<cell>"
MOST = 1000  # lines of one rank's output that are shown
HOROVOD: dict[str, Flavour] = {"torch": "horovod", "tensorflow": "horovod-tensorflow"}


class RanksFailed(Exception):
    """Not all ranks finished the cell. Shown as one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%ranks: {message}; for example: %%ranks 4 --out losses")


def _parser() -> _Parser:
    parser = _Parser(prog="%%ranks", add_help=False)
    parser.add_argument("world_size", type=int)
    parser.add_argument("--out", default="", help="names to bring back, as lists by rank")
    parser.add_argument("--evidence", default="", help="name for the launch's Evidence")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds")
    parser.add_argument("--link", help="rate of each rank's link, or nodes=2x2,intra=…,inter=…")
    parser.add_argument(
        "--horovod", nargs="?", const="torch", choices=tuple(HOROVOD), help="under which framework"
    )
    parser.add_argument("--tensorflow", action="store_true", help="ranks have TensorFlow")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=int, default=1, help="per rank")
    parser.add_argument("--memory", metavar="SIZE", help="that each rank may use: 600mb, 1.5gb")
    parser.add_argument(
        "--live-tensors", action="store_true", help="in the evidence, by kind: slows each operator"
    )
    parser.add_argument("--live", action="store_true", help="show output as it comes")
    parser.add_argument("--stacks", action="store_true", help="where ranks stood, on a failure")
    parser.add_argument(
        "--no-group",
        action="store_true",
        help="without a process group, and without a network but the ranks' own",
    )
    return parser


def ranks(line: str, cell: str) -> None:
    """Run the cell on N ranks: `%%ranks N [--horovod [tensorflow]] [--tensorflow] [--link RATE]
    [--memory SIZE] [--out NAMES] [--evidence NAME] [--live-tensors] [--env NAME=VALUE ...]
    [--timeout S] [--threads T] [--live] [--stacks] [--no-group]`.

    Each rank has the names that the cell uses from the notebook, `rank` and `world_size`, and,
    unless `--no-group`, torch.distributed with the default group. What a rank prints, and the value
    of the cell's last expression, come back marked with the rank. `--out a,b` brings the variables
    a and b back as lists with one item per rank. The notebook's own variables stay as they are.

    `--horovod` has them talk through Horovod instead, under PyTorch, or under TensorFlow with
    `--horovod tensorflow`: `hvd.init()` was called before the cell. `--env NAME=VALUE` sets a
    variable of the ranks' environment (HOROVOD_FUSION_THRESHOLD=0, say); it may come several times.
    `--tensorflow` has TensorFlow imported in the ranks, in silence, and not in the notebook.

    `--link 1gbit` puts each rank behind a link of that rate, `--link
    nodes=2x2,intra=10gbit,inter=1gbit` on two nodes with a slow link between them.

    `--memory 600mb` lets each rank use so much, beyond what it has when the cell begins. A rank
    that wants more ends the cell, with a sentence of who held what. With it, or `--live-tensors`,
    `evidence.ranks[r].live` has the bytes of tensors by kind.
    """
    shell = InteractiveShell.instance()
    words = shlex.split(line)
    if "--link" in words[:-1]:  # so that -1gbit is a bad rate, not an option
        place = words.index("--link")
        words[place : place + 2] = [f"--link={words[place + 1]}"]
    options = _parser().parse_args(words)
    out = [name for name in options.out.split(",") if name]
    source = f"# %%ranks {line.strip()}\n{cell}"
    names = {} if _is_broken(source) else _names_from(shell.user_ns, source)
    job = cloudpickle.dumps({"source": source, "names": names, "out": out})
    settings = dict(_setting(text) for text in options.env)
    try:
        memory = None if options.memory is None else memory_limit.parse(options.memory)
        evidence = launch(
            _run_cell,
            options.world_size,
            inputs=[job] * options.world_size,
            flavour=_flavour(options.horovod, options.tensorflow),
            environment=lambda rank: settings,
            process_group=not options.no_group,
            timeout=options.timeout,
            link=options.link,
            threads=options.threads,
            memory=memory,
            live=options.live_tensors,
            watched=Watched(_CELL, source, "of the cell"),
            on_output=_Marked() if options.live else None,
        )
    except UserError as error:
        raise UsageError(f"%%ranks: {error}") from None
    if evidence.no_link:
        print(f"The network is not emulated, and nothing limits its rate: {evidence.no_link}.")
    if memory is not None:
        print(_limited(memory, evidence))
    if not options.live:
        _show(evidence)
    if options.evidence:
        shell.user_ns[options.evidence] = evidence
    if evidence.diagnosis is not None:
        if options.stacks:
            for number, text in evidence.diagnosis.stacks.items():
                print(f"rank {number} stood here:\n{folded(text)}\n")
        raise RanksFailed(evidence.diagnosis.sentence)
    for name in out:
        shell.user_ns[name] = [value[name] for value in evidence.values]


def _flavour(horovod: str | None, tensorflow: bool) -> Flavour:
    if horovod:
        return HOROVOD["tensorflow" if tensorflow else horovod]
    return "tensorflow" if tensorflow else "torch"


def _limited(memory: int, evidence: Evidence) -> str:
    allowed = f"Each rank may use {memory_limit.words(memory)}"
    if not evidence.limited:
        return f"{allowed}, and nothing keeps it to that: this system can limit no process."
    counts = "touched" if evidence.limited == memory_limit.GROUP else "allocated, touched or not"
    return f"{allowed}, kept to it by a {evidence.limited}, which counts memory that is {counts}."


def _setting(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given or not name:
        raise UsageError(f"%%ranks: --env {text}: give NAME=VALUE")
    return name, value


def _is_broken(source: str) -> bool:
    """Whether the cell has a syntax error; a rank reports it better."""
    try:
        compile(source, _CELL, "exec")
    except (SyntaxError, ValueError):
        return True
    return False


def _names_from(namespace: dict[str, Any], source: str) -> dict[str, Any]:
    """The notebook's names that the cell uses.

    One that cannot be sent is left out where the cell makes one of that name itself, and else
    raises UsageError.
    """
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    used = {node.id for node in found}
    made = {node.id for node in found if isinstance(node.ctx, ast.Store)}
    hidden = {"In", "Out", "get_ipython", "exit", "quit", "rank", "world_size"} | set(dir(builtins))
    names = {}
    for name in sorted(used - hidden):
        if name not in namespace or name.startswith("_"):
            continue
        try:
            cloudpickle.dumps(namespace[name])
        except Exception:
            if name in made:
                continue
            kind = type(namespace[name]).__name__
            raise UsageError(
                f"%%ranks: {name} is a {kind}, which cannot be sent to ranks: make it in the cell"
            ) from None
        names[name] = namespace[name]
    return names


def _run_cell(job: bytes) -> dict[str, Any]:
    """On a rank: run the cell, show its last expression, return the variables of `--out`."""
    import linecache
    import os
    import warnings

    # PyTorch reports for each profiler with a schedule that a cycle begins without the last one's
    # events, which is what a schedule is for.
    warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle")
    work = cloudpickle.loads(job)
    source = work["source"]
    linecache.cache[_CELL] = (len(source), None, source.splitlines(keepends=True), _CELL)
    namespace = {
        "__name__": "cell",
        **work["names"],
        "rank": int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"]),
        "world_size": int(os.environ.get("WORLD_SIZE") or os.environ["HOROVOD_SIZE"]),
    }
    tree = ast.parse(source, _CELL)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, _CELL, "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), _CELL, "eval"), namespace)
        if value is not None:
            print(repr(value))
    missing = [name for name in work["out"] if name not in namespace]
    if missing:
        raise NameError(f"--out names {', '.join(missing)}, which the cell does not set")
    return {name: namespace[name] for name in work["out"]}


def _show(evidence: Evidence) -> None:
    width = len(str(evidence.world_size - 1))
    for one in evidence.ranks:
        lines = one.stdout.splitlines()
        for text in lines[:MOST]:
            print(f"[{one.rank:>{width}}] {text}")
        if len(lines) > MOST:
            print(f"[{one.rank:>{width}}] … {len(lines) - MOST} more lines are left out here")
        if one.stdout_cut:
            print(f"[{one.rank:>{width}}] … (the rest of its output was dropped)")


class _Marked:
    """Prints whole lines as they come, each with its rank in front; of a rank at most MOST."""

    def __init__(self) -> None:
        self._partial: dict[int, str] = {}
        self._printed: Counter[int] = Counter()

    def __call__(self, rank: int, text: str) -> None:
        *lines, self._partial[rank] = (self._partial.get(rank, "") + text).split("\n")
        for line in lines:
            self._printed[rank] += 1
            if self._printed[rank] > MOST:
                if self._printed[rank] == MOST + 1:
                    print(f"[{rank}] … what follows is left out here", flush=True)
                continue
            # A progress bar redraws its line: print only its last state.
            print(f"[{rank}] {line.rstrip(chr(13)).rsplit(chr(13), 1)[-1]}", flush=True)
        sys.stdout.flush()
