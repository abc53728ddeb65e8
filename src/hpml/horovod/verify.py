"""Check that a Horovod works."""

import os
import sys
import sysconfig
from pathlib import Path

from hpml.errors import UserError
from hpml.horovod import command, two_ranks
from hpml.horovod.flavour import Flavour

FRAMEWORKS = ("torch", "tensorflow")
_LIMIT = 600.0  # seconds for horovodrun, which imports TensorFlow again and again
_PARTS = {"TensorFlow": None, "PyTorch": None, "Gloo": None, "MPI": "mpi", "NCCL": "gpu"}


def verify(flavour: Flavour, log: Path, site: Path | None = None) -> list[str]:
    """Read `horovodrun --check-build`, and sum over two ranks in each framework.

    `site` is a folder with a Horovod that is not installed. Returns what does not work, a line
    each: where mpirun does not start ranks here, Gloo still does. Raises UserError with the reason
    where Horovod cannot be used.
    """
    built = _horovodrun(["--check-build"], log, site)
    for part, optional in _PARTS.items():
        wanted = getattr(flavour, optional) if optional else True
        if wanted and not any(line.strip() == f"[X] {part}" for line in built):
            raise UserError(f"horovod: horovodrun --check-build names no {part}: see {log}")
    for framework in FRAMEWORKS:
        _two_ranks("--gloo", framework, log, site)
    if flavour.mpi:
        try:
            _two_ranks("--mpi", "torch", log, site)
        except UserError as error:
            return [f"mpirun starts no ranks here ({error}); horovodrun does, over Gloo"]
    return []


def check_starts(log: Path) -> None:
    """Start the installed Horovod in each framework, as a job of one rank: some seconds.

    Raises UserError where it does not start.
    """
    for framework in FRAMEWORKS:
        printed: list[str] = []
        program = [sys.executable, two_ranks.__file__, framework]
        status = _run(program, log, None, printed)
        if status or not any(line == f"{two_ranks.DONE} 0 of 1" for line in printed):
            raise UserError(f"horovod: it does not start in {framework} (status {status}): {log}")


def _two_ranks(over: str, framework: str, log: Path, site: Path | None) -> None:
    program = [sys.executable, two_ranks.__file__, framework]
    printed = "\n".join(_horovodrun([over, "-np", "2", "-H", "localhost:2", *program], log, site))
    for rank in range(2):
        if f"{two_ranks.DONE} {rank} of 2" not in printed:
            raise UserError(
                f"horovod: horovodrun {over}, two ranks with {framework}: "
                f"rank {rank} got no sum: see {log}"
            )


def _horovodrun(arguments: list[str], log: Path, site: Path | None) -> list[str]:
    """What horovodrun prints."""
    program = (site / "bin" if site else Path(sysconfig.get_path("scripts"))) / "horovodrun"
    printed: list[str] = []
    if status := _run([program, *arguments], log, site, printed):
        raise UserError(f"horovod: horovodrun {' '.join(arguments[:1])} exits {status}: see {log}")
    return printed


def _run(program: list, log: Path, site: Path | None, printed: list[str]) -> int:
    environment = {n: v for n, v in os.environ.items() if not n.startswith("HOROVOD_")}
    environment["PATH"] = os.pathsep.join(
        (sysconfig.get_path("scripts"), environment.get("PATH", os.defpath))
    )
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if site:
        paths = [str(site), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    try:
        return command.run(
            program, limit=_LIMIT, log=log, environment=environment, on_line=printed.append
        )
    except TimeoutError as error:
        raise UserError(
            f"horovod: {Path(program[0]).name} {program[1]}: {error}: see {log}"
        ) from None
    except OSError as error:
        raise UserError(f"horovod: {program[0]}: {error.strerror}: see {log}") from None
