"""Which messages an all-reduce of Open MPI sends, as Open MPI counts them itself.

So an algorithm is known by what it does, on a machine of any speed. The count is made by Open MPI's
component `pml monitoring` (`ompi_info --param pml monitoring --level 9`): each rank writes a file
with a line for each rank that it sent to.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from hpml.allreduce.mpi import missing, run_on_hosts, tuned
from hpml.errors import UserError

# A collective's own messages: I, from, to, "N bytes", "N msgs sent", a histogram
_LINE = re.compile(r"^I\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent", re.MULTILINE)


class Sent(NamedTuple):
    """From `source` to `destination`: how many messages, with how many bytes in all."""

    source: int
    destination: int
    messages: int
    nbytes: int


def messages_sent(
    nbytes: int, world_size: int, link: str, algorithm: str = "default", timeout: float = 60.0
) -> list[Sent]:
    """Of one MPI_Allreduce of `nbytes` (float32), sorted by source and destination.

    `link` and `algorithm` as for `hpml.allreduce.mpi.mpi_all_reduce_seconds`, and so the errors.
    """
    counted = {
        "pml": "ob1,monitoring",
        "pml_monitoring_enable": "2",  # a collective's messages apart from the program's own
        "pml_monitoring_enable_output": "3",  # to a file
    }
    counted |= tuned(algorithm)
    if why := missing():
        raise UserError(f"MPI: {why}")
    with tempfile.TemporaryDirectory(prefix=f"hpml-mpi-{os.getpid()}-") as scratch:
        counted["pml_monitoring_filename"] = str(Path(scratch, "sent"))
        program = Path(__file__).with_name("mpi_once.py")
        command = [sys.executable, str(program), str(nbytes)]
        run_on_hosts(command, world_size, link, scratch, counted, timeout)
        files = [Path(scratch, f"sent.{rank}.prof") for rank in range(world_size)]
        if absent := [file.name for file in files if not file.exists()]:
            raise UserError(f"MPI: this Open MPI has no pml monitoring: no file {absent[0]}")
        return sorted_lines("".join(file.read_text() for file in files))


def sorted_lines(text: str) -> list[Sent]:
    """What `text`, the contents of Open MPI's files, has on the messages of collectives."""
    found = [tuple(map(int, match.groups())) for match in _LINE.finditer(text)]
    return [Sent(source, to, count, size) for source, to, size, count in sorted(found)]
