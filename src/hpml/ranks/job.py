"""What the parent gives a rank to do, and the signals by which it is asked where it stands."""

import signal
from dataclasses import dataclass, field

from hpml.answer.rules import Rules
from hpml.ranks.flavour import Flavour

# Signals that neither training scripts nor schedulers use for themselves
STACK_SIGNAL = signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
SAMPLE_SIGNAL = signal.SIGRTMIN + 6 if hasattr(signal, "SIGRTMIN") else signal.SIGWINCH

LONG = 30 * 86_400.0  # seconds in which nobody ends ranks that stay
MOST_WITHOUT_CORE = 2  # times its limit, that a launch may take longer on a busy machine


@dataclass(frozen=True)
class Job:
    """All that one rank needs to know. Made and pickled by the parent."""

    drive: bytes  # cloudpickle of the function
    inputs: bytes | None  # this rank's, as `hpml.ranks.inputs` pickles them
    answer: str | None  # source of the answer cell
    filename: str  # under which its lines are reported
    rank: int
    world_size: int
    store: str  # file of the rendezvous; "" where ranks meet at MASTER_ADDR
    cwd: str
    environment: dict[str, str] = field(default_factory=dict)  # as every rank has it
    extra_environment: dict[str, str] = field(default_factory=dict)  # the caller's, comes last
    flavour: Flavour = "torch"
    process_group: bool = True
    timeout: float = 60.0  # seconds; the parent ends the launch then
    threads: int = 1
    delays: int | None = None  # the seed of waits before its calls, where there are any
    rules: Rules | None = None  # that the answer is held to
    served: bool = False  # it may ask
    proxied: bool = False  # its process groups are those of a proxy
    count_memory: bool = False  # from just before its drive
    live: bool = False  # count its tensors by kind
    limited: bool = False  # in its memory
    stays: bool = False  # after its drive, to run it once more

    @property
    def gloo_timeout(self) -> float:
        """Seconds after which Gloo gives up waiting for another rank: never before the parent, who
        knows which rank is to blame."""
        if self.stays:  # each run has a time limit of its own
            return LONG
        return (1 + MOST_WITHOUT_CORE) * self.timeout + 30.0


@dataclass(frozen=True)
class Again:
    """What a rank that has stayed needs to run its drive once more. Made and pickled by the parent.

    `afresh`: no call that was made so far belongs to one to come.
    """

    inputs: bytes  # this rank's, as `hpml.ranks.inputs` pickles them
    filename: str  # under which the lines of this run are reported
    afresh: bool
