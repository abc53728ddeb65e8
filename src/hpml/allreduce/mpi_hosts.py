"""mpirun on emulated hosts: `mpi_hosts RANKS LINK FOLDER SECONDS [PARAMETER VALUE]… -- COMMAND…`.

Three processes. The first has threads from its imports, and waits. The second, with one thread,
builds the network and stays in the namespace with the switches. The third becomes mpirun, on the
network of rank 0, as process 1 of a process namespace: when it ends, or is killed after SECONDS,
the kernel ends the daemons and ranks that it started.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

from hpml.allreduce.mpi import NO_NETWORK, TOO_LONG
from hpml.network import emulation
from hpml.network.link import parse_link
from hpml.ranks.processes import die_with_parent

# sched.h
CLONE_NEWPID, CLONE_NEWUTS = 0x20000000, 0x04000000

# mpirun calls it in place of ssh: AGENT HOST COMMAND
AGENT = """#!/bin/sh
host=$1; shift
exec nsenter --net="{folder}/$host" unshare --uts sh -c "hostname $host; $*"
"""


def main(arguments: list[str]) -> int:
    """Returns the exit status of mpirun, or NO_NETWORK or TOO_LONG."""
    split = arguments.index("--")
    ranks, link, folder, seconds, *parameters = arguments[:split]
    command = arguments[split + 1 :]
    child = os.fork()
    if child == 0:
        die_with_parent()
        try:
            status = _keep_network(int(ranks), link, folder, float(seconds), parameters, command)
        except emulation.NoNetwork as error:
            print(error, file=sys.stderr, flush=True)
            status = NO_NETWORK
        os._exit(status)
    return _status_of(child)


def _keep_network(
    ranks: int, link: str, folder: str, seconds: float, parameters: list[str], command: list[str]
) -> int:
    built = emulation.build(parse_link(link, ranks), ranks)
    for rank, descriptor in enumerate(built.namespaces):
        Path(folder, emulation.address(rank)).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
    agent = Path(folder, "agent")
    agent.write_text(AGENT.format(folder=folder))
    agent.chmod(0o700)
    emulation.libc_call("unshare", CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        die_with_parent()
        name = emulation.address(0).encode()
        emulation.libc_call("setns", built.namespaces[0], emulation.CLONE_NEWNET)
        emulation.libc_call("unshare", CLONE_NEWUTS)
        emulation.libc_call("sethostname", name, len(name))
        _keep_privileges()
        words = _mpirun(ranks, str(agent), folder, parameters, command)
        # Open MPI refuses root, which here is root in this user namespace only.
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        os.execvpe(words[0], words, os.environ | root)
    late = []

    def end(*_: object) -> None:
        late.append(True)
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    status = _status_of(child)
    return TOO_LONG if late else status


def _mpirun(
    ranks: int, agent: str, folder: str, parameters: list[str], command: list[str]
) -> list[str]:
    hosts = ",".join(f"{emulation.address(rank)}:1" for rank in range(ranks))
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": agent,
        "orte_tmpdir_base": folder,
        "pml": "ob1",
        "btl": "tcp,self",  # never through shared memory
        "btl_tcp_if_include": emulation.INTERFACE,
        "oob_tcp_if_include": emulation.INTERFACE,
        "mpi_yield_when_idle": "1",
        **dict(zip(parameters[::2], parameters[1::2], strict=True)),
    }
    chosen = [word for name, value in settings.items() for word in ("--mca", name, value)]
    return ["mpirun", "-np", str(ranks), "-H", hosts, "--bind-to", "none", *chosen, *command]


def _keep_privileges() -> None:
    """Let nsenter, started by mpirun, enter the ranks' namespaces.

    A program that an ordinary user starts has only ambient capabilities (capabilities(7)).
    """
    pr_cap_ambient, pr_cap_ambient_raise, cap_sys_ptrace, cap_sys_admin = 47, 2, 19, 21
    version_3 = 0x20080522
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; low half, high half
    emulation.libc_call("capget", header, sets)
    sets[2], sets[5] = sets[1], sets[4]
    emulation.libc_call("capset", header, sets)
    for capability in (cap_sys_ptrace, cap_sys_admin):
        emulation.libc_call("prctl", pr_cap_ambient, pr_cap_ambient_raise, capability, 0, 0)


def _status_of(child: int) -> int:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
