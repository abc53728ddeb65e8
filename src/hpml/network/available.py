"""Whether this machine can emulate a network between ranks, found out by trying."""

from hpml.machine.namespaces import trial

# In a fork, because a process with threads, as importing numpy makes one, may not do this.
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
    """Why it cannot, in a few words; None where it can. A child process tries."""
    return trial(_TRY, timeout=timeout)
