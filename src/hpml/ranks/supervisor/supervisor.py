"""A launch's supervisor: has the ranks forked, reports how each ended, ends them all.

It ends them when the parent asks or is gone. What it forks, and how: `.forking`.

In a sandbox nothing that an answer writes outlives its launch, except in a folder that the launch
was told to keep.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import time
import traceback
from collections.abc import Sequence
from typing import Any

from hpml.ranks.memory_limit import Limit
from hpml.ranks.processes import (
    all_reaped,
    become_subreaper,
    die_with_parent,
    drain,
    kill_descendants,
)
from hpml.ranks.supervisor import resident
from hpml.ranks.supervisor.forking import FAULT, Launch, fork_all, tell
from hpml.ranks.supervisor.kernel_counts import counts_of
from hpml.ranks.supervisor.looking import files_in_all
from hpml.ranks.supervisor.rank_wall import RankWall

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def supervise(control: socket.socket, fds: list[int], around: RankWall | None) -> None:
    """Fork the ranks, report their ends, end them. Never returns."""
    try:
        os.setsid()
        become_subreaper()
        die_with_parent()
        header = json.loads(control.makefile("r").readline() or "{}")
        launch = fork_all(control, fds, header, around)
        tell(control, {"pids": list(launch.pids), "proxies": list(launch.proxies)})
        _watch_over(launch)
        _end(launch)
    except Exception:  # a defect here, or a machine that is at its end
        traceback.print_exc()
    finally:
        os._exit(0)


def _watch_over(launch: Launch) -> None:
    """Report what happens to the ranks, until the launch is to end.

    Ranks that stay are paused between two runs, in which nothing is counted.
    """
    control, barrier, writings = launch.control, launch.barrier, launch.writings
    kill = launch.header["kill"]
    while True:
        watched: list[Any] = [writings] if kill and writings is not None else []
        if barrier.open:
            watched.append(barrier)
        watched += launch.gates.values()
        counting = launch.header["count_memory"] and not launch.paused
        patience = resident.LOOK_EVERY if counting else None
        readable, _, _ = select.select([control, launch.wake, *watched], [], [], patience)
        for rank in [rank for rank, gate in launch.gates.items() if gate in readable]:
            _let_through(rank, launch)
        if counting:
            for each in launch.counts.values():
                each.look()
        if barrier in readable:
            barrier.look()
            if barrier.failed:
                tell(control, {"failed": barrier.failed})
        looked = writings if writings in readable else None
        if kill and looked is not None and (looked.look() >= kill["nth"] or looked.broken):
            _kill_rank(kill["rank"], launch)
            tell(control, {"killed": kill["rank"]})
            kill = None
        if launch.wake in readable:
            drain(launch.wake)
            _report_ends(launch)
        if control in readable and not _look(launch):
            return


def _let_through(rank: int, launch: Launch) -> None:
    """The rank stands before its drive: from here on its memory counts."""
    gate = launch.gates.pop(rank)
    if gate.is_waiting():
        memory = launch.header["memory"]
        for pid in (pid for pid, of in launch.pids.items() if of == rank and memory is not None):
            launch.limits[rank] = Limit(pid, memory)
        launch.counts[rank].begin()
    gate.open()


def _report_counts(launch: Launch) -> None:
    for rank in launch.pids.values():
        launch.counts[rank].look()
    counts = sorted(launch.counts.items())
    peaks = [count.peak_bytes for _, count in counts]
    set_back = [rank for rank, count in counts if count.set_back]
    live = [page.read() for _, page in sorted(launch.pages.items())]
    limited = {limit.by for limit in launch.limits.values()}
    tell(
        launch.control,
        {
            "peaks": peaks,
            "set_back": set_back,
            "live": list(live) or [None] * len(peaks),
            "limited": limited.pop() if len(limited) == 1 else "",
        },
    )


def _end(launch: Launch) -> None:
    """End all that is left, and report what can only be known then."""
    if not launch.paused:
        _report_counts(launch)
    # Held, since what a rank has for itself ends with it; looked at when nobody writes any more
    held = _hold(_folders(launch)) if launch.header["looks"] else []
    store = [launch.store] if launch.store is not None else []
    for pid in (*launch.pids, *launch.proxies, *launch.firsts, *store):  # usually nothing else
        with contextlib.suppress(ProcessLookupError):  # it is reaped, or a rank has killed it
            os.kill(pid, signal.SIGKILL)
    gone = all_reaped(deadline=time.monotonic() + 0.05) or kill_descendants()
    for limit in launch.limits.values():
        limit.remove()
    if launch.writings is not None:
        launch.writings.look()  # what it did before it was killed
        tell(launch.control, {"broken": launch.writings.broken})
    if launch.header["looks"]:
        left = files_in_all(f"/proc/self/fd/{fd}" for fd in held)
        tell(launch.control, {"left": left})
    if launch.network is not None:
        tell(launch.control, {"traffic": launch.network.traffic()})
    shutil.rmtree(launch.header["scratch"], ignore_errors=True)
    tell(launch.control, {"gone": gone})


def _folders(launch: Launch) -> list[str]:
    """Where ranks are at work, as this process sees it: behind a wall each has a /tmp of its own,
    unless they share a folder that is kept."""
    cwd = launch.header["cwd"]
    if launch.apart and not launch.header["kept"]:
        return [f"/proc/{pid}/root{cwd}" for pid in launch.pids]
    return [cwd]


def _hold(folders: Sequence[str]) -> list[int]:
    """Descriptors of those that are folders, and no links to one."""
    held = []
    for folder in folders:
        with contextlib.suppress(OSError):  # its rank is gone, or has moved it
            held.append(os.open(folder, _FOLDER))
    return held


def _look(launch: Launch) -> bool:
    """Do what the parent asks: look at the files, and at what the kernel counts, for a rank; pause,
    and go on again. False where it wants an end, or is gone."""
    # Whole lines, and all there are: a rank has one open request at a time.
    try:
        lines = launch.control.recv(2**12).split(b"\n")[:-1]
    except ConnectionResetError:
        return False
    for line in lines:
        if line in (b"pause", b"again"):
            _pause(launch) if line == b"pause" else _go_on(launch)
            continue
        if not line.startswith(b"look "):
            return False
        rank = int(line.split()[1])
        pids = [pid for pid, of in launch.pids.items() if of == rank]
        counts = counts_of(pids + launch.firsts[rank : rank + 1], launch.opens)
        files = files_in_all(_folders(launch))
        tell(launch.control, {"looked": rank, "files": files, "counts": counts})
    return bool(lines)


def _pause(launch: Launch) -> None:
    """All ranks have run their drive, and stay: report what was counted."""
    _report_counts(launch)
    if launch.header["rendezvous"]:  # Horovod's threads poll each other, all the time
        _signal(launch, signal.SIGSTOP)
    traffic = {} if launch.network is None else {"traffic": launch.network.traffic()}
    launch.paused = True
    tell(launch.control, {"paused": True, **traffic})


def _go_on(launch: Launch) -> None:
    launch.paused = False
    if launch.header["rendezvous"]:
        _signal(launch, signal.SIGCONT)
    for each in launch.counts.values():
        each.begin_again()


def _signal(launch: Launch, number: signal.Signals) -> None:
    for pid in launch.pids:
        os.kill(pid, number)


def _kill_rank(rank: int, launch: Launch) -> None:
    """Kill it, and what it has forked where it has a process namespace."""
    for pid in (pid for pid, of in launch.pids.items() if of == rank):
        os.kill(pid, signal.SIGKILL)
    for first in launch.firsts[rank : rank + 1]:
        os.kill(first, signal.SIGKILL)


def _report_ends(launch: Launch) -> None:
    pids, proxies, barrier = launch.pids, launch.proxies, launch.barrier
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        status = os.waitstatus_to_exitcode(status)
        rank = pids.get(pid, proxies.get(pid))
        if rank is not None and not barrier.lifted:
            barrier.give_up(rank)
            tell(launch.control, {"failed": barrier.failed})
        if rank is not None and pid in pids:
            launch.counts[rank].ended(1024 * usage.ru_maxrss)
            limit = launch.limits.get(rank)
            out = status < 0 and limit is not None and limit.killed()
            ended = {"rank": pids.pop(pid), "status": status, "out_of_memory": out}
            tell(launch.control, ended)
        elif pid in proxies:  # a rank without its proxy can do nothing more
            del proxies[pid]
            if status == FAULT:
                tell(launch.control, {"failed": f"the proxy of rank {rank} ended"})
            for left in [pid for pid, of in pids.items() if of == rank]:
                if status < 0:  # Gloo's abort is as the rank's own
                    tell(launch.control, {"rank": pids.pop(left), "status": status})
                os.kill(left, signal.SIGKILL)
