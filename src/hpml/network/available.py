"""Whether this machine can emulate a network between ranks: a child process tries."""

from hpml.machine.namespaces import trial

# In a fork: importing numpy starts threads, and a process with threads may not unshare users.
_TRY = """
import os, sys
from hpml.network.link import parse_link
from hpml.network import emulation
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    emulation.build(parse_link("nodes=2x1,intra=10gbit,inter=1gbit", 2), 2)
except emulation.NoNetwork as error:
    print(error, file=sys.stderr, flush=True)
    os._exit(1)
os._exit(0)
"""


def refusal(timeout: float = 60.0) -> str | None:
    """Why this machine cannot emulate a network, in a few words; None where it can."""
    return trial(_TRY, timeout=timeout)
