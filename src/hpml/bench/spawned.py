"""A check as usually written for nbgrader: the notebook's kernel starts the ranks itself.

`./hpml bench grade` compares with it. `%load_ext hpml.bench.spawned` in a notebook gives
`%%answer`, and a `check` that starts, for each of the check's world sizes and stages, new processes
by torch.multiprocessing.spawn. Each of them imports torch, meets the others through gloo and a file
store, runs the check's own drive on the answer, and leaves in a file what it returned. The kernel
judges that with the check's own claims.

It does less than the rank engine: no ledger, no network and no injected waits, and a claim that
asks for one of them counts as held. There is no diagnosis and no sandbox either.
"""

import contextlib
import io
import logging
import os
import secrets
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from hpml.answer.module import as_module
from hpml.checks import find
from hpml.checks.contract import Check, Problem, Run, Stage
from hpml.ranks import encoding
from hpml.ranks.evidence import Diagnosis, Evidence, RankEvidence

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# nbgrader gives 0 points to a cell with anything on stderr, and spawn logs there whom it ends.
logging.getLogger(mp.spawn.__module__).setLevel(logging.ERROR)

STARTUP = 120.0  # seconds for ranks to import torch, besides the time that the check gives them


class NotHeld(Exception):
    """The answer fails: nbgrader gives 0 points for the exception."""


class _NoLedger(Exception):
    """A claim asks for a rank's calls, which are not recorded here."""


class _Rank(RankEvidence):
    """A rank's evidence without a ledger."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("calls", "marks"):
            raise _NoLedger
        return super().__getattribute__(name)


def check(exercise: str) -> None:
    """Judge this kernel's answer to `exercise`. Raises NotHeld where it fails."""
    from hpml import notebook  # here, so that the ranks need not import IPython

    judge(find(exercise), notebook._answers[exercise].source)


def judge(check: Check, source: str, seed: int | None = None) -> None:
    """Judge an answer's source at all of the check's world sizes, on fresh inputs.

    Raises NotHeld, naming the claim that fails or the ranks' end.
    """
    seed = secrets.randbelow(2**31) if seed is None else seed
    for world_size in check.worlds:
        run = _play(check, source, world_size, seed)
        for claim in check.claims:
            try:
                problem = claim.judge(run)
            except _NoLedger:
                continue
            if isinstance(problem, Problem):
                raise NotHeld(f"world size {world_size}: {claim.name}: {problem.message}")


def _play(check: Check, source: str, world_size: int, seed: int) -> Run:
    inputs = check.inputs(seed, world_size)
    stages = check.stages or (Stage("play", check.drive),)
    found: dict[str, Evidence] = {}
    with tempfile.TemporaryDirectory(prefix="hpml-spawned-") as scratch:
        for number, stage in enumerate(stages):
            given = inputs[stage.name] if check.stages else inputs
            with tempfile.TemporaryDirectory(prefix="hpml-spawned-") as folder:
                torch.save(given, Path(folder, "inputs"))
                ranks = stage.world(world_size)
                arguments = (check.id, number, source, ranks, _free_port(), folder, scratch)
                found[stage.name] = evidence = _launch(arguments, ranks, check.timeout + STARTUP)
            if evidence.diagnosis is not None and not stage.dies:
                raise NotHeld(f"world size {ranks}: {evidence.diagnosis.sentence}")
    expected = check.expect(inputs, world_size)
    return Run(world_size, seed, inputs, expected, evidence, found)


def _launch(arguments: tuple, world_size: int, timeout: float) -> Evidence:
    """Run `_rank` in new processes, and gather what they left."""
    began = time.monotonic()
    context = mp.spawn(_rank, arguments, nprocs=world_size, join=False)
    why = ""
    try:
        while not context.join(timeout=1.0):
            if time.monotonic() - began > timeout:
                why = f"still at work after {timeout:.0f} s"
                break
    except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
        why = str(error).strip().splitlines()[-1]
    for process in context.processes:
        process.kill()
        process.join()
    folder = Path(arguments[-2])
    ranks = tuple(_left(folder, rank, process) for rank, process in enumerate(context.processes))
    ends = {rank.end for rank in ranks}
    kind = next((k for k in ("killed", "raised", "exited") if k in ends), "limit")
    failed = None if ends == {"returned"} else Diagnosis(kind, why)
    return Evidence(world_size, ranks, time.monotonic() - began, failed)


def _left(folder: Path, rank: int, process: Any) -> RankEvidence:
    try:
        value, printed = encoding.decode((folder / f"value{rank}").read_bytes())
        return _Rank(rank, "returned", value, stdout=printed)
    except FileNotFoundError:
        code = process.exitcode
    if code in (-signal.SIGTERM, -signal.SIGKILL):  # by spawn, after another rank failed; or by us
        return _Rank(rank, "ended")
    return _Rank(rank, "killed" if code < 0 else "raised" if code == 1 else "exited")


def _rank(
    rank: int,
    exercise: str,
    stage: int,
    source: str,
    world_size: int,
    port: int,
    folder: str,
    scratch: str,
) -> None:
    check = find(exercise)
    drive = check.stages[stage].drive if check.stages else check.drive
    given = torch.load(Path(folder, "inputs"), weights_only=False)
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # as above: nbgrader would take it for the cell's
    os.chdir(scratch)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    if check.environment is not None:
        os.environ |= check.environment(given, rank, world_size)
    if check.process_group:
        store = dist.FileStore(str(Path(folder, "store")), world_size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        value = drive(as_module(source, f"<{exercise}>"), given[rank])
    if check.process_group:
        dist.barrier()
        dist.destroy_process_group()
    partial = Path(folder, f".value{rank}")
    partial.write_bytes(encoding.encode([value, printed.getvalue()]))
    partial.rename(Path(folder, f"value{rank}"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Give a notebook `%%answer`, as the course does, and this `check`."""
    from hpml import notebook

    shell.register_magic_function(notebook.answer, "cell", "answer")
    shell.push({"check": check})
