"""Commands typed on a login node, for a notebook's pages on the cluster.

Where a SLURM answers they are run. Otherwise their recorded output from the virtual cluster is
shown, and marked as recorded. To record anew: bring a cluster up, run the notebook's cells, and
write `terminal.transcript` to recorded_commands.json.
"""

import json
import re
import subprocess
import time
from pathlib import Path

from hpml.cluster import queue
from hpml.errors import UserError
from hpml.paths import CHECKOUT

RECORDING = Path(__file__).with_name("recorded_commands.json")
LIMIT = 60.0  # seconds for a command, or for a job to end


class Terminal:
    """A shell on the login node, whose jobs write their logs to build/jobs/terminal.

    `missing` is why nothing is run; empty where a SLURM answers.
    """

    def __init__(self) -> None:
        self.missing = ""
        self.transcript: list[tuple[str, str]] = []
        self._recorded: dict[str, str] = {}
        try:
            self._environment = queue.login_environment(queue.find())
        except UserError as error:
            self.missing = str(error)
            self._recorded = dict(json.loads(RECORDING.read_text(encoding="utf-8")))
            return
        # In the project's folder, which all nodes see.
        self._folder = CHECKOUT / "build" / "jobs" / "terminal"
        self._folder.mkdir(parents=True, exist_ok=True)

    def type(self, command: str) -> None:
        """Run a line of shell and show it with what it prints."""
        self._show(command)

    @property
    def output(self) -> str:
        """What the last command printed."""
        return self.transcript[-1][1]

    def submit(self, command: str) -> str:
        """`type` a line with sbatch in it; the job's number. Raises UserError without one."""
        output = self._show(command)
        number = re.search(r"Submitted batch job (\d+)", output)
        if number is None:
            raise UserError(f"no job came of {command!r}: {output.strip() or 'it printed nothing'}")
        return number[1]

    def wait(self, job: str) -> None:
        """Wait until a job, or all of an array, has left the queue; after a minute, cancel it."""
        if self.missing:
            return
        limit = time.monotonic() + LIMIT
        while self._run(f"squeue --noheader --jobs={job} 2> /dev/null").strip():
            if time.monotonic() > limit:
                self._run(f"scancel {job}")
                print(f"Job {job} has not ended after {LIMIT:g} s, and was cancelled.")
                return
            time.sleep(0.5)

    def _show(self, command: str) -> str:
        output = self._run(command)
        self.transcript.append((command, output))
        recorded = "   # recorded on the virtual cluster" if self.missing else ""
        print(f"$ {command}{recorded}\n{output}")
        return output

    def _run(self, command: str) -> str:
        if self.missing:
            if command not in self._recorded:
                raise UserError(f"no SLURM here, and nothing was recorded of {command!r}")
            return self._recorded[command]
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"{command!r} did not end within {LIMIT:g} s") from None
        return done.stdout
