"""Ranks as torchrun has them: plain processes with Gloo, and nothing of this project.

As a script: `plain.py PROGRAM WORLD_SIZE RESULT` runs `go()` of a program on each rank.
"""

import os
import pickle
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
LIMIT = 120  # seconds, on a busy machine


def plain(program: str, world_size: int) -> list[Any]:
    """What `go()` of programs/<program>.py returns on each of `world_size` plain ranks."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result")
        command = [sys.executable, __file__, str(PROGRAMS / f"{program}.py"), str(world_size)]
        done = subprocess.run([*command, str(result)], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        return [pickle.loads(Path(f"{result}{rank}").read_bytes()) for rank in range(world_size)]


def _main(program: str, world_size: int, result: str) -> int:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    pids = []
    for rank in range(world_size):
        if pid := os.fork():
            pids.append(pid)
            continue
        status = 1
        try:
            signal.alarm(LIMIT)  # which ends the process
            store = dist.FileStore(f"{result}-store", world_size)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
            value = runpy.run_path(program)["go"]()
            Path(f"{result}{rank}").write_bytes(pickle.dumps(value))
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        os._exit(status)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in pids)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
