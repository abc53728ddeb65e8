"""torchrun's agents as nodes on this machine: start some, lose one, and let the others go on.

torchrun --nnodes=1:2 starts with two nodes if they come, and is content with one. When a node is
lost the agents that are left end their workers, meet again, and start new ones, which find the last
checkpoint: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpml.errors import UserError

# Seconds. A node that joins after LAST_CALL waits for the next restart; one without a heartbeat for
# SILENT is lost. torchrun's defaults are 30 and 15, for networks slower than one machine's.
LAST_CALL, SILENT = 5, 2


class Node:
    """One agent with its worker, in a session of its own; `log` has their output.

    Their temporary files are beside it.
    """

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = psutil.Popen(
                [sys.executable, "-m", "torch.distributed.run", *words],
                env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(log.parent)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def lose(self) -> None:
        """Kill agent and worker at once, as a power failure would. May be called again."""
        try:
            # Stopped first, so that it starts no worker while its workers are being counted.
            self.process.suspend()
            lost = [*self.process.children(recursive=True), self.process]
        except psutil.NoSuchProcess:
            return
        for process in lost:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(lost, timeout=10)

    def wait(self, limit: float) -> int:
        """The agent's exit code. Raises psutil.TimeoutExpired after `limit` seconds."""
        return self.process.wait(timeout=limit)


@contextmanager
def nodes(count: int, arguments: Sequence[str]) -> Iterator[list[Node]]:
    """`count` nodes of one rank each that run `arguments`; any number of them is enough to go on.

    `arguments` is what torchrun takes last, such as ["-m", "hpml.train", ...]. The ranks meet at
    the first node, which has to stay. Processes still running at the end are killed.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started: list[Node] = []
    with tempfile.TemporaryDirectory(prefix="hpml-nodes-") as folder:
        try:
            for number in range(count):
                words = torchrun_words(count, port, host=number == 0)
                started.append(Node([*words, *arguments], Path(folder) / f"{number}.log"))
            yield started
        finally:
            for node in started:
                node.lose()


@dataclass(frozen=True)
class Loss:
    """A run that lost a node: seconds from its start, torchrun's exit code, the rank's error."""

    lost: float
    ended: float
    exit_code: int
    error: str  # of the rank that was left, on one line


def lose_second_node(arguments: Sequence[str], checkpoint: Path, limit: float = 60.0) -> Loss:
    """Run `arguments` on two nodes, kill the second when `checkpoint` is there, wait for the first.

    Raises UserError where there is no checkpoint after `limit` seconds, and psutil.TimeoutExpired
    where the first node has not ended `limit` seconds after the loss. No process is left.
    """
    with nodes(2, arguments) as (first, second):
        began = time.monotonic()
        while not checkpoint.exists():
            if time.monotonic() > began + limit:
                raise UserError(f"{checkpoint.name} was not written within {limit:g} s")
            time.sleep(0.02)
        second.lose()
        lost = time.monotonic() - began
        code = first.wait(limit)
        ended = time.monotonic() - began
        lines = first.log.read_text().splitlines()
    error = next((line for line in lines if "Error:" in line), "nothing")
    return Loss(lost, ended, code, error.split("] ")[-1].split(". ")[0])


def torchrun_words(most: int, port: int, host: bool) -> list[str]:
    """torchrun's options on one of at most `most` nodes that meet at `port` of this machine.

    The `host` node serves the rendezvous.
    """
    return [
        f"--nnodes=1:{most}",
        "--nproc-per-node=1",
        "--max-restarts=3",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=elastic",
        "--rdzv-conf="
        f"is_host={int(host)},last_call_timeout={LAST_CALL},"
        f"keep_alive_interval={SILENT // 2},keep_alive_max_attempt=2",
        "--local-addr=127.0.0.1",
    ]
