"""`%%ranks N`: a cluster in a notebook cell."""

import argparse
import ast
import builtins
import sys
from collections import Counter
from collections.abc import Set as AbstractSet
from typing import Any, NoReturn

import cloudpickle
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from hpml.checks.library_frames import folded
from hpml.errors import UserError
from hpml.notebook import kept_ranks, on_slurm
from hpml.notebook.argument_types import count, seconds, words_of
from hpml.notebook.cell import Cells, NotReceived
from hpml.notebook.kept_ranks import KeptRanks
from hpml.ranks import memory_limit
from hpml.ranks.evidence import Evidence
from hpml.ranks.flavour import Flavour
from hpml.ranks.parent.launch import launch
from hpml.ranks.parent.warm import ServerDied
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
    parser.add_argument("world_size", type=int, nargs="?")
    parser.add_argument(
        "--keep",
        nargs="?",
        const=kept_ranks.DEFAULT,
        metavar="NAME",
        help="let the ranks live on, and go on with those of that name",
    )
    parser.add_argument("--out", default="", help="names to bring back, as lists by rank")
    parser.add_argument("--evidence", default="", help="name for the launch's Evidence")
    parser.add_argument("--timeout", type=seconds, default=60.0, help="seconds")
    parser.add_argument("--link", help="rate of each rank's link, or nodes=2x2,intra=…,inter=…")
    parser.add_argument(
        "--horovod", nargs="?", const="torch", choices=tuple(HOROVOD), help="under which framework"
    )
    parser.add_argument("--tensorflow", action="store_true", help="ranks have TensorFlow")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=count, help="per rank, 1 by default")
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
    on_slurm.add_options(parser)
    return parser


def ranks(line: str, cell: str) -> None:
    """Run the cell on N ranks: `%%ranks N [--keep [NAME]] [--horovod [tensorflow]] [--tensorflow]
    [--link RATE] [--memory SIZE] [--out NAMES] [--evidence NAME] [--live-tensors]
    [--env NAME=VALUE ...] [--timeout S] [--threads T] [--live] [--stacks] [--no-group]
    [--on slurm [--nodes N] [--time T] [--gpus N]]`.

    Each rank has the names that the cell uses from the notebook, `rank` and `world_size`, and,
    unless `--no-group`, torch.distributed with the default group. What a rank prints, and the value
    of the cell's last expression, come back marked with the rank. `--out a,b` brings the variables
    a and b back as lists with one item per rank. The notebook's own variables stay as they are.

    `--keep` lets the ranks live on, and the next `%%ranks N --keep` runs in them: it finds their
    variables, and the process group. A name of the notebook is sent to them again where its value
    there has changed. Links, limits, and all else that ranks are started with, hold as long as they
    live. After an exception they stay, unless a rank waits for another one. `%ranks` lists them,
    `%ranks stop` ends them, and so does the end of the kernel.

    `--horovod` has them talk through Horovod instead, under PyTorch, or under TensorFlow with
    `--horovod tensorflow`: `hvd.init()` was called before the cell. `--env NAME=VALUE` sets a
    variable of the ranks' environment (HOROVOD_FUSION_THRESHOLD=0, say); it may come several times.
    `--tensorflow` has TensorFlow imported in the ranks, in silence, and not in the notebook.

    `--link 1gbit` puts each rank behind a link of that rate, `--link
    nodes=2x2,intra=10gbit,inter=1gbit` on two nodes with a slow link between them.

    `--on slurm` has them on the nodes of a SLURM cluster, on `--nodes N` of them: a step of the
    allocation that the notebook runs in, else one that is asked for with slurm/site.sh's settings
    and given back at the end. `--time` is the allocation's, `--timeout` counts from when the ranks
    begin. With `--gpus 1` each has a GPU, and collectives of CUDA tensors go by NCCL (not tried on
    a GPU yet).

    `--memory 600mb` lets each rank use so much, beyond what it has when the cell begins. A rank
    that wants more ends the cell, with a sentence of who held what. With it, or `--live-tensors`,
    `evidence.ranks[r].live` has the bytes of tensors by kind.
    """
    shell = InteractiveShell.instance()
    options, kept = _options(line)
    out = [name for name in options.out.split(",") if name]
    source = f"# %%ranks {line.strip()}\n{cell}"
    names: dict[str, Any] = {}
    if not _is_broken(source):
        names, made = _names_from(shell.user_ns, source, kept.made if kept else frozenset())
        if kept is not None:
            kept.made |= made
    filename = _CELL
    if kept is not None:
        names = kept.news(names)
        kept.cells += 1
        filename = f"<cell {kept.cells}>"  # a function of an earlier cell has lines of its own
    job = cloudpickle.dumps({"source": source, "filename": filename, "names": names, "out": out})
    evidence = _run(job, options, kept, Watched(filename, source, "of the cell"))
    raised = {one.raised.kind for one in evidence.ranks if one.raised}
    received = NotReceived.__name__ not in raised
    note = kept_ranks.update(kept, received) if kept is not None else ""
    if not options.live:
        _show(evidence)
    if options.evidence:
        shell.user_ns[options.evidence] = evidence
    if evidence.diagnosis is not None:
        if options.stacks:
            for number, text in evidence.diagnosis.stacks.items():
                print(f"rank {number} stood here:\n{folded(text)}\n")
        raise RanksFailed("\n".join(filter(None, (evidence.diagnosis.sentence, note))))
    for name in out:
        shell.user_ns[name] = [value[name] for value in evidence.values]
        if kept is not None:
            kept.came_from_here(name, shell.user_ns[name])


def _options(line: str) -> tuple[argparse.Namespace, KeptRanks | None]:
    """What the line says, and which ranks it goes on with, or starts to keep. Raises UsageError."""
    words = words_of(line, "%%ranks")
    if "--link" in words[:-1]:  # so that -1gbit is a bad rate, not an option
        place = words.index("--link")
        words[place : place + 2] = [f"--link={words[place + 1]}"]
    parser = _parser()
    options = parser.parse_args(words)
    found = None if options.keep is None else kept_ranks.find(options.keep)
    if found is not None and options.world_size is None:
        options.world_size = found.options.world_size
    if options.world_size is None:
        if options.keep and options.keep.isdecimal():
            parser.error(f"give the world size first: %%ranks {options.keep} --keep")
        parser.error("the following arguments are required: world_size")
    if options.keep is None:
        return options, None
    if found is None:
        return options, KeptRanks(options.keep, options)
    found.check(options)
    return options, found


def _run(
    job: bytes, options: argparse.Namespace, kept: KeptRanks | None, watched: Watched
) -> Evidence:
    """Run the cell on ranks that are kept, or on new ones; print how these are limited."""
    inputs = [job] * options.world_size
    on_output = _Marked() if options.live else None
    settings = dict(_setting(text) for text in options.env)
    try:
        on_slurm.check(options)
        if kept is not None and kept.staying.here:
            return kept.staying.again(
                inputs, watched=watched, timeout=options.timeout, on_output=on_output
            )
        memory = None if options.memory is None else memory_limit.parse(options.memory)
        with on_slurm.ranks(options) as leash:
            evidence = launch(
                Cells(),
                options.world_size,
                inputs=inputs,
                flavour=_flavour(options.horovod, options.tensorflow),
                environment=lambda rank: settings,
                process_group=not options.no_group,
                timeout=options.timeout,
                link=options.link,
                threads=1 if options.threads is None else options.threads,
                memory=memory,
                live=options.live_tensors,
                watched=watched,
                on_output=on_output,
                leash=leash,
                staying=None if kept is None else kept.staying,
            )
    except UserError as error:
        raise UsageError(f"%%ranks: {error}") from None
    except KeyboardInterrupt:
        if kept is not None:
            print(kept_ranks.update(kept))
        raise
    except ServerDied as error:
        if kept is None and options.on is None:
            raise
        if kept is None:
            raise RanksFailed(str(error)) from None
        raise RanksFailed(f"{error}\n{kept_ranks.update(kept)}") from None
    if evidence.no_link:
        print(f"The network is not emulated, and nothing limits its rate: {evidence.no_link}.")
    if memory is not None:
        print(_limited(memory, evidence))
    return evidence


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


def _names_from(
    namespace: dict[str, Any], source: str, made_before: AbstractSet[str]
) -> tuple[dict[str, Any], set[str]]:
    """The notebook's names that the cell uses, and the names that it sets itself.

    One that cannot be sent is left out where the cell makes one of that name itself, or one that
    its ranks have run before, and else raises UsageError.
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
            if name in made or name in made_before:
                continue
            kind = type(namespace[name]).__name__
            raise UsageError(
                f"%%ranks: {name} is a {kind}, which cannot be sent to ranks: make it in the cell"
            ) from None
        names[name] = namespace[name]
    return names, made


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
