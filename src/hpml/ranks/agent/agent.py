"""A task of the step: makes ready, forks the rank, reports its end, and ends it.

    python -m hpml.ranks.agent.agent

The launch is at the addresses in HPML_RANKS_AT, and knows the key in HPML_RANKS_KEY.
"""

import os
import shutil
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection

from hpml.ranks import processes
from hpml.ranks.agent_connection import (
    AT,
    CHANNEL,
    CONTROL,
    KEY,
    OUTPUT,
    STACKS,
    bare,
    connect,
    hear,
    say,
)

LOOK_EVERY = 0.02  # seconds


def main() -> int:
    # scancel and the time limit: leave by way of what is to be done at the end
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    key = bytes.fromhex(os.environ.pop(KEY))
    at = [part.rsplit(":", 1) for part in os.environ.pop(AT).split(",")]
    places = [(host, int(port)) for host, port in at]
    number = int(os.environ["SLURM_PROCID"])
    control = connect(places, key, CONTROL, number)
    say(control, {"says": "importing", "host": socket.gethostname()})
    from hpml.ranks.rank import rank  # seconds: it brings torch along

    assert rank
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]  # where ranks meet, if this is rank 0
    say(control, {"says": "ready", "port": port, "node": int(os.environ["SLURM_NODEID"])})
    while "start" not in (message := hear(control)):
        say(control, {"says": "clock", "at": time.monotonic()})
    ends = [bare(connect(places, key, kind, number)) for kind in (CHANNEL, OUTPUT, STACKS)]
    start = message["start"]
    os.makedirs(start["cwd"], exist_ok=True)
    try:
        _run(control, ends, start["environment"])
    finally:
        shutil.rmtree(start["scratch"], ignore_errors=True)  # the last on this node has all of it
    return 0


def _run(control: Connection, ends: list[socket.socket], environment: dict[str, str]) -> None:
    """Have a rank forked, and report its end, until the launch says that all is over or is gone."""
    pid: int | None = os.fork()
    if pid == 0:
        _become_rank(control, ends, environment)
    for end in ends:
        end.close()
    say(control, {"says": "forked"})
    try:
        while not control.poll(LOOK_EVERY):
            if pid is not None and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                pid = None
                say(control, {"says": "ended", "status": os.waitstatus_to_exitcode(ended[1])})
    except OSError:  # the launch is gone
        pass
    finally:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        processes.kill_descendants()


def _become_rank(
    control: Connection, ends: list[socket.socket], environment: dict[str, str]
) -> None:
    """Never returns."""
    try:
        processes.die_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        control.close()
        from hpml.ranks.rank import rank

        channel, output, stacks = ends
        rank.run(channel, output.detach(), stacks.detach(), environment)
    finally:
        os._exit(70)


if __name__ == "__main__":
    try:
        processes.become_subreaper()
        code = main()
    except (OSError, EOFError) as error:
        code = f"the launch does not answer: {error}"
    sys.exit(code)
