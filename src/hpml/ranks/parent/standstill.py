"""Whether ranks that have proxies stand still: each waits for another one, without a deadline.

Only then is it known that nobody will go on before another does. A rank with a deadline, an alarm
or a process of its own goes on by itself one day. Seen from outside, in what the kernel shows of
the rank's threads. What is not known to be a wait for others counts as none.

See futex(2), recvfrom(2), proc(5).
"""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT

from hpml.ranks.job import SAMPLE_SIGNAL, STACK_SIGNAL
from hpml.ranks.parent.ledger import RankLog

# futex and recvfrom, by their numbers in the kernel's tables
_CALLS = {"x86_64": ("202", "45"), "aarch64": ("98", "207")}.get(platform.machine())
_MESSAGES = ("send", "recv")
# Handled in every rank: by Python, by the C library, and by the rank
_SIGNALS = {SIGINT, 32, 33, SAMPLE_SIGNAL, STACK_SIGNAL}
_OF_A_RANK = 2  # processes in its namespace: the namespace's first, and the rank


def stand_still(logs: Sequence[RankLog], pids: Sequence[int]) -> bool:
    """Whether all ranks that have not ended wait for each other; `pids` by rank, 0 for one gone.

    True as well where the kernel does not show it of any process.
    """
    return all(
        _by_messages(log, len(logs)) and waits_for_others(pids[log.rank], log.asking)
        for log in logs
        if log.end is None and pids[log.rank]
    )


def _by_messages(log: RankLog, world_size: int) -> bool:
    """Whether all of a rank's open calls are messages, in groups that the engine has made: others
    may have deadlines, which their proxies keep."""
    return all(
        call.finished is not None or (call.operation in _MESSAGES and len(call.group) == world_size)
        for call in log.calls
    )


def waits_for_others(pid: int, asks: bool = False) -> bool:
    """Whether all threads of the rank's process wait for what another process does.

    One of them waits for its proxy's messages, and another one for a reply where the rank `asks`.
    """
    if _CALLS is None:
        return True
    futex, receive = _CALLS
    receiving = 0
    try:
        if _handled(pid) - _SIGNALS or _company(pid):
            return False
        for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
            try:
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                call, *arguments = (task / "syscall").read_text().split()
            except (FileNotFoundError, ProcessLookupError):  # the thread has ended
                continue
            deadline = call == futex and int(arguments[3], 16)
            if state in "RD" or call not in _CALLS or deadline:
                return False
            receiving += call == receive
    except (FileNotFoundError, ProcessLookupError):  # the rank is gone, or nothing is shown
        return True
    except OSError:  # hidden: a process can hide itself, see "dumpable" in prctl(2)
        return False
    return receiving <= 1 + asks


def _handled(pid: int) -> set[int]:
    """The signals that the process has handlers for: a timer may send one."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt:"))
    return {bit + 1 for bit in range(64) if mask >> bit & 1}


def _company(pid: int) -> bool:
    """Whether processes of the rank's own are with it in its process namespace, if it has one."""
    own = os.readlink(f"/proc/{pid}/ns/pid")
    if own == os.readlink("/proc/self/ns/pid"):
        return False
    return sum(_namespace(name) == own for name in os.listdir("/proc")) > _OF_A_RANK


def _namespace(name: str) -> str:
    try:
        return os.readlink(f"/proc/{name}/ns/pid") if name.isdecimal() else ""
    except OSError:
        return ""
