"""Horovod's two libraries that send from the processor's memory, on two ranks of this machine."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.frameworks.run import told

SCRIPT = Path(__file__).with_name("horovod_all_reduce.py")
LIMIT = 120.0  # seconds for one library; either takes a few
MARGIN = 1.25  # times as quick: less is not a win, for the quickest of twenty


@dataclass(frozen=True)
class Seconds:
    """Seconds of an all-reduce by its bytes, the quickest of twenty."""

    gloo: dict[int, float]
    mpi: dict[int, float]

    def __str__(self) -> str:
        return "\n".join(
            f"{nbytes:>9,} bytes: Gloo {1e3 * gloo:7.3f} ms, MPI {1e3 * mpi:7.3f} ms: "
            f"{self.winner(nbytes) or 'neither'} is quicker"
            for (nbytes, gloo), mpi in zip(self.gloo.items(), self.mpi.values(), strict=True)
        )

    def winner(self, *sizes: int) -> str:
        """The library that is quicker by more than `MARGIN` at each size; empty without one."""
        ratios = [self.gloo[nbytes] / self.mpi[nbytes] for nbytes in sizes]
        return "MPI" if min(ratios) > MARGIN else "Gloo" if max(ratios) < 1 / MARGIN else ""


def compare() -> Seconds:
    """Time Horovod's all-reduce by Gloo, then by MPI. Raises UserError where one is missing."""
    import horovod.torch as hvd

    if not hvd.mpi_built():
        raise UserError("Horovod was built without MPI here")
    if not shutil.which("mpirun"):
        raise UserError("there is no mpirun here")
    return Seconds(*(_seconds(controller) for controller in ("gloo", "mpi")))


def _seconds(controller: str) -> dict[int, float]:
    seconds = told(SCRIPT, 2, LIMIT, controller=controller)["seconds"]
    return {int(nbytes): taken for nbytes, taken in seconds.items()}
