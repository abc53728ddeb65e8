"""What is known about a launch once it has ended: the only thing a judge may look at.

Everything here is plain data, rebuilt in the parent from a typed encoding. Nothing of it was ever
an object of the rank's process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hpml.network.link import Link

End = Literal["returned", "raised", "exited", "killed", "ended"]
Kind = Literal[
    "hang", "mismatch", "raised", "exited", "killed", "limit", "flood", "memory", "refused"
]
Cause = Literal[
    "", "what arrives", "never waited for", "endless loop", "one rank", "apart", "aborted"
]

ANYONE = -1  # the peer of a `recv` from any source
# They create a group and are not calls of it
MEETING = ("init_process_group", "hvd.init", "TCPStore")


@dataclass(frozen=True)
class Meeting:
    """What a rank asks for where it is to meet the others: to be `rank` of `size`.

    `address` is the place in the rank's own words, "localhost:29500". It leads to `port` of
    `machine`, which is "" where only the network would know, and the same text on all ranks that
    are led to one machine. Of a TCPStore `rank` is 0 for its master, and None for the others.
    """

    rank: int | None
    size: int
    address: str
    machine: str
    port: str


@dataclass(frozen=True)
class Call:
    """One collective or point-to-point call that a rank made, as its ledger has it.

    `index` counts the rank's calls from 1 over all groups, `sequence` from 1 within `group`.
    Times are seconds on one clock that all ranks of a launch share (CLOCK_MONOTONIC), counted from
    the start of the launch. `waited` is when the rank began to wait for the call to complete (for a
    blocking call, right after `issued`), None if it never waited or the call was complete by
    then. `finished` is when the call was complete, as far as the rank noticed; else None.

    A call of Horovod's has the operation as Horovod names it ("allreduce", "grouped_allreduce",
    "allgather", "broadcast", "alltoall", "reducescatter", "join", "barrier"), and in `tensor` the
    name under which ranks find each other's, as Horovod's timeline shows it:
    "allreduce.grad.fc.weight", or "allreduce.noname.3" where none was given. `sequence` then counts
    the calls for that tensor. `hvd.init` is a call too, "hvd.init".

    `reduction`, `root`, `peer` and `tag` are what else must agree between ranks; `detail` is the
    same in words.
    """

    index: int
    operation: str  # as torch.distributed names it: "all_reduce", "broadcast", "send", ...
    group: tuple[int, ...]  # global ranks that take part
    sequence: int
    dtype: str  # "float32", ...; "" where nothing is carried (barrier)
    shape: tuple[int, ...]  # of the first tensor
    nbytes: int  # of all tensors this rank put in
    reduction: str  # "sum", "average", ...; "" where nothing is reduced
    line: int | None  # line of the answer cell that led here
    issued: float
    waited: float | None = None
    finished: float | None = None
    tensor: str = ""  # Horovod's name for it; torch.distributed goes by the order of calls alone
    kept: int = 0  # of nbytes, what it put in for itself: one part of an all-to-all
    root: int | None = None  # global rank, of a broadcast, reduce, gather or scatter
    peer: int | None = None  # of a send or recv, the rank at the other end, or ANYONE
    tag: int = 0  # of a send or recv
    meets: Meeting | None = None  # of a MEETING, where that is known

    @property
    def detail(self) -> str:
        """ "sum", "sum, to 0", "from 0", "to 1, tag 7", "from anyone"; "" where nothing must."""
        other = self.root if self.peer is None else self.peer
        words = [self.reduction] if self.reduction else []
        if other is not None:
            way = "to" if self.operation in ("send", "reduce", "gather") else "from"
            words.append(f"{way} {'anyone' if other == ANYONE else other}")
        return ", ".join(words + ([f"tag {self.tag}"] if self.tag else []))


@dataclass(frozen=True)
class Mark:
    """A moment that a drive named with `hpml.ranks.mark(name)`; same clock as `Call`."""

    name: str
    at: float


@dataclass(frozen=True)
class Counts:
    """What the kernel counts of a rank at one moment, read from outside the rank.

    `tasks` are its threads, and those of all processes below it; in a sandbox also of processes
    whose parent has ended. `read_bytes` is what system calls of these processes have read so far,
    and of children that have been waited for; None where that cannot be seen. What comes through a
    map of memory, or from a socket by recv, is not in it. `opened` is how often each file that the
    launch names was opened so far in the ranks' `cwd`, by whichever rank, by the file's name; None
    where that cannot be seen, the folder is not kept, or no file is named. `processor_seconds` is
    the processor time of all threads of these processes so far, of those that have ended too, and
    of children that have been waited for (to 0.01 s); None where that cannot be seen.
    """

    tasks: int
    read_bytes: int | None = None
    opened: Mapping[str, int] | None = None
    processor_seconds: float | None = None


@dataclass(frozen=True)
class Asked:
    """A request that a rank made with `hpml.ranks.ask`.

    Times are on the clock of `Call`, read in the parent: `at` when the request had come, `answered`
    when its reply was sent, None if it never was. `refused`: the reply was that it is not served.
    `files` as `Evidence.files`, and `counts`, where the launch looks, between the two.
    """

    request: Any
    at: float
    answered: float | None = None
    refused: bool = False
    files: Mapping[str, int] | None = None
    counts: Counts | None = None


@dataclass(frozen=True)
class Raised:
    """An exception that left the drive on one rank. Text only."""

    kind: str  # class name, "RuntimeError"
    message: str
    line: int | None  # innermost line of the answer cell in the traceback
    traceback: str


@dataclass(frozen=True)
class Traffic:
    """What went over one interface from the start of a launch to its end, in bytes and packets.

    As the kernel counts at the interface: with headers, and with what it takes to find and to greet
    each other (some kilobytes per rank). Of large messages, headers are 4.6 % (66 bytes for 1448 of
    payload); but on a fast link TCP hands the kernel bundles of packets, which share one header
    until a network card would cut them up, and the count may then be as little as 0.2 % above the
    payload. The rate limit counts every packet's header.
    """

    sent_bytes: int
    sent_packets: int
    received_bytes: int
    received_packets: int


# What tensors are for, see `hpml.ranks.rank.live`
KINDS = ("parameters", "gradients", "optimizer states", "activations", "other")


@dataclass(frozen=True)
class LiveTensors:
    """Bytes of the tensors that existed on a rank, by kind (KINDS), counted from the storages.

    It is the rank's own word, and not ground for a claim. What was made by another thread than the
    drive's is missing until an operator of the drive's takes it.
    """

    at_peak: Mapping[str, int]  # when all together were most
    highest: Mapping[str, int]  # each kind's own peak, at whatever time

    @classmethod
    def of_page(cls, numbers: Mapping[str, Any]) -> "LiveTensors":
        """What `hpml.ranks.rank.live.Page.read` has returned, with the names of the kinds."""
        return cls(
            *(dict(zip(KINDS, numbers[what], strict=True)) for what in ("at_peak", "highest"))
        )

    @property
    def peak(self) -> int:
        """The most bytes of tensors that existed at one time."""
        return sum(self.at_peak.values())


@dataclass(frozen=True)
class RankEvidence:
    """What one rank left behind.

    `end` is "returned" (then `value` is what the drive returned), "raised" (then `raised` is set),
    "exited" (the process left by itself, `exit_code`), "killed" (by a signal that was not ours,
    `signal`), or "ended" (it was still at work when the launch was ended; see the diagnosis).

    `peak_bytes` is the most memory that the rank held at one time beyond what it was forked with,
    as the kernel counts it (anonymous and shared, without mapped files), read from outside the
    rank. None where the system does not count it. With `launch(count_memory=True)` the count begins
    just before the answer's code and the drive, and blocks that are freed do not stay in it: of
    ranks that allocated 0, 16 and 64 MiB it was within 0.4 MiB, of three steps of a small
    convolutional network in DistributedDataParallel 5 MiB. Otherwise inputs, the process group and
    what the allocator keeps are in it. `set_back`: the rank has set its own peak back, which
    nothing does that is in the course or in a library.
    """

    rank: int
    end: End
    value: Any = None
    raised: Raised | None = None
    exit_code: int | None = None
    signal: str | None = None
    stdout: str = ""
    stdout_cut: bool = False
    calls: tuple[Call, ...] = ()
    marks: tuple[Mark, ...] = ()
    asked: tuple[Asked, ...] = ()  # seen by the parent, which serves them
    seconds: float = 0.0  # from the launch's start to this rank's end
    peak_bytes: int | None = None
    set_back: bool = False
    live: LiveTensors | None = None  # where the launch was asked for it
    traffic: Traffic | None = None  # over its own link, where the launch had one


@dataclass(frozen=True)
class Diagnosis:
    """Why ranks did not all return: one sentence, then the stacks.

    `kind` is "hang" (nothing moves and never will), "mismatch" (ranks in different collectives, or
    in one with different shapes, dtypes, roots), "raised", "exited", "killed", "limit" (still at
    work when the time was up), "flood" (they printed without end), "memory" (there was no more than
    the launch allows a rank), or "refused" (a returned value that cannot be sent).
    `ranks` are the ranks that caused it, as far as that is known. `cause` is a finer kind, where
    the ledger shows one: it names the hint that was earned.

    - "what arrives": a message, and the tensor to receive it into, are of different dtypes, or it
      is longer (a mismatch);
    - "never waited for": a message does not travel, as nobody waited for its isend or irecv (a
      hang);
    - "endless loop": a loop in which nothing changes (a hang);
    - "one rank": a hang where there are no others to wait for;
    - "apart": all ranks have come to where they meet, and do not (a hang);
    - "aborted": a library's own code ended the process, by SIGABRT (killed).
    """

    kind: Kind
    sentence: str
    ranks: tuple[int, ...] = ()
    stacks: dict[int, str] = field(default_factory=dict)
    cause: Cause = ""


@dataclass(frozen=True)
class Evidence:
    """A launch, seen from outside.

    `link` is the network between the ranks, None where none was asked for or where this machine
    cannot emulate it; in the second case `no_link` is the reason. `uplinks` has what each node
    sent to and received from the others, where the link has nodes. `killed` is the rank that the
    launch was told to kill, once it has; `broken`, where its `Kill` names a file, is how that was
    not whole at some moment ("it was removed"). `no_kill` is why this machine cannot see when a
    file is written, where the launch was told to kill; nobody was killed then. `files` are those
    that were in the ranks' `cwd` when all ranks had ended, where the launch looks: the size in
    bytes by path, as the supervisor saw it (`hpml.ranks.supervisor.looking`), None where it does
    not look, or there were too many. `limited` is what has kept each rank to the memory that the
    launch allows it: "control group" or "resource limit"; "" where nothing has.
    """

    world_size: int
    ranks: tuple[RankEvidence, ...]
    seconds: float
    diagnosis: Diagnosis | None = None  # None exactly when every rank returned
    link: Link | None = None
    no_link: str = ""
    uplinks: tuple[Traffic, ...] = ()
    killed: int | None = None
    broken: str = ""
    no_kill: str = ""
    files: Mapping[str, int] | None = None
    limited: str = ""

    @property
    def values(self) -> Sequence[Any]:
        """What each rank's drive returned, by rank."""
        return tuple(rank.value for rank in self.ranks)
