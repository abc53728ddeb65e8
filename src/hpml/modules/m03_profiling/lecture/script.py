"""The course's training script in processes of its own, as from a terminal."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hpml.errors import UserError
from hpml.train.history import History, read_history

LIMIT = 180.0  # seconds


def run(
    options: str,
    *,
    logs: Path | None = None,
    ranks: int = 1,
    environment: Mapping[str, str] | None = None,
) -> History:
    """`./hpml train OPTIONS` on one process, or under torchrun on `ranks`, and what came of it.

    `logs` is the folder of `--tensorboard`; `environment` is added to that of the processes. What
    they print is not shown. Raises UserError with its last line where the script fails, and where
    it takes longer than LIMIT.
    """
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    with tempfile.TemporaryDirectory(prefix="hpml-train-") as folder:
        out = Path(folder) / "history.json"
        command += ["-m", "hpml.train", *shlex.split(options), "--no-progress", "--out", str(out)]
        command += ["--tensorboard", str(logs)] if logs else []
        settings = os.environ | {"OMP_NUM_THREADS": "1"} | dict(environment or {})
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, env=settings
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"train: no end after {LIMIT:.0f} s: is the machine busy?") from None
        if ended.returncode:
            last = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
            raise UserError(f"train: {last[-1]}")
        return read_history(out)
