"""Run Python on N ranks, and know what happened."""

import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from hpml.answer.rules import Rules
from hpml.errors import UserError
from hpml.network.link import parse_link
from hpml.ranks import flavour as flavours
from hpml.ranks import memory_limit
from hpml.ranks.evidence import Evidence
from hpml.ranks.flavour import Flavour
from hpml.ranks.inputs import dump
from hpml.ranks.job import Job
from hpml.ranks.killing import Kill
from hpml.ranks.parent import warm
from hpml.ranks.parent.leash import Leash
from hpml.ranks.parent.running import Running
from hpml.ranks.parent.serving import Server
from hpml.ranks.parent.staying import Staying, StayingRun
from hpml.ranks.parent.watch import Watched
from hpml.ranks.supervisor.forking import MAX_RANKS, MEETING


@dataclass(frozen=True)
class Pickled:
    """A drive as bytes, for many launches: to pickle it takes up to 25 ms of processor time."""

    data: bytes

    @classmethod
    def of(cls, drive: Callable[..., Any]) -> "Pickled":
        return cls(cloudpickle.dumps(drive))


def launch(
    drive: Callable[..., Any] | Pickled,
    world_size: int,
    *,
    answer: str | None = None,
    answer_name: str = "answer",
    rules: Rules | None = None,
    inputs: Sequence[Any] | None = None,
    flavour: Flavour = "torch",
    process_group: bool = True,
    environment: Callable[[int], Mapping[str, str]] | None = None,
    cwd: str | os.PathLike | None = None,
    timeout: float = 60.0,
    threads: int = 1,
    link: str | None = None,
    per_node: int | None = None,
    delays: int | None = None,
    serve: Server | None = None,
    looks: bool = False,
    opens: Sequence[str] = (),
    kill: Kill | None = None,
    proxied: bool = False,
    count_memory: bool = False,
    memory: int | None = None,
    live: bool = False,
    watched: Watched | None = None,
    on_output: Callable[[int, str], None] | None = None,
    leash: Leash | None = None,
    staying: Staying | None = None,
) -> Evidence:
    """Run `drive` on `world_size` ranks forked from the warm server; return when all have ended.

    Each rank calls `drive(*args)`, with `args` the answer as a module if `answer` (its source) is
    given, then `inputs[rank]` if `inputs` is. The answer is held to `rules`. Drive and inputs are
    sent by value (with an answer, a drive that is launched often as `Pickled.of(drive)`); what the
    drive returns comes back in the typed encoding of `hpml.ranks.encoding`.

    With `process_group` the default group of torch.distributed is there when the drive starts.
    Without, a rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT in its environment, as under torchrun; `environment(rank)` adds to it.

    With `flavour` "horovod" or "horovod-tensorflow" ranks use Horovod and its Gloo:
    `hvd.init()` of horovod.torch, or of horovod.tensorflow, was called when the drive starts
    (another call does nothing more). Without `process_group` the drive calls it. The environment is
    then horovodrun's: HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_LOCAL_RANK and so on, and no RANK or
    MASTER_ADDR; settings as HOROVOD_FUSION_THRESHOLD, HOROVOD_CYCLE_TIME or HOROVOD_TIMELINE are
    given by `environment`. In TensorFlow's flavour tf.keras is Keras 2 (TF_USE_LEGACY_KERAS=1), for
    which Horovod's Keras interface was made. Calls in the evidence have Horovod's names of
    operations, and the name of the `tensor` by which ranks find each other's. With "tensorflow"
    ranks have TensorFlow, and all else as with "torch".

    Ranks run in `cwd` (default: an empty folder, removed at the end, as is their TMPDIR), each
    with `threads` threads. In a sandbox `cwd` is the one folder that ranks have in common and that
    is kept for the next launch; without it each rank has an empty one of its own.
    `on_output(rank, text)` sees their stdout and stderr as it comes. `watched` is the code whose
    lines are reported (default: the answer, or else the file of the drive).

    Without a `process_group`, ranks of flavour "torch" have a network of a loopback interface
    alone, where namespaces can be had.

    With a `link` each rank is on a network of its own behind rate-limited interfaces: "1gbit", or
    "nodes=2x2,intra=10gbit,inter=1gbit" (see `hpml.network`; latency cannot be
    added). They reach each other there, and nothing else. The evidence then has each
    rank's traffic; results are the same as without. Where this machine cannot emulate a network,
    the ranks run without, and `evidence.no_link` is the reason.

    `per_node` ranks are on each node, as launchers' variables have it (LOCAL_RANK, GROUP_RANK,
    HOROVOD_LOCAL_SIZE and so on); by default those of the `link`'s nodes, else all.

    With `delays`, a seed, each rank waits before the drive and now and then before a collective, up
    to 50 ms and 0.2 s in all: code that relies on the ranks' timing then fails.

    With `serve` a rank may `hpml.ranks.ask(request)`, and `serve(rank, request)`, called in this
    process, gives the replies (see `hpml.ranks.parent.serving`). Each request is in the evidence,
    with times that the rank cannot set.

    With `looks` the files in the ranks' `cwd` are in the evidence: those that are there at each
    request, before it is served, and those at the end. Seen from outside the ranks. Where each has
    a folder of its own, the files of all together, by their paths from there. With them comes, at
    each request, what the kernel counts of the rank that asks: `evidence.ranks[r].asked[n].counts`.
    Of files in a `cwd` that is kept, named in `opens`, it also counts how often they are opened.

    With `proxied` a process beside each rank, which the rank cannot reach, makes its calls, records
    them and reports to this process (see `hpml.ranks.proxy`): the calls in the evidence are then
    what was seen, and not what the rank reports of itself. Where namespaces can be had, the rank
    has no network of its own. With flavour "torch" only.

    `evidence.ranks[r].peak_bytes` is the peak of each rank's memory. With `count_memory` ranks are
    set up for that, in some 10 ms: inputs and process group are there before the count begins, and
    freed blocks of 64 KiB or more go back to the kernel at once, which takes time (some 0.3 ms for
    each MB allocated). Gloo's own buffers count where it is in the rank: an all-gather holds its
    result twice more. They do not with `proxied`, nor does what is copied to and from a proxy.

    With `memory` each rank may use so many bytes beyond what it was forked with, counted as by
    `count_memory`: by a control group of its own, else by a resource limit, which counts what is
    mapped, touched or not. `evidence.limited` is which. A rank that wants more ends the launch.

    With `live`, or `memory`, `evidence.ranks[r].live` has the bytes of its tensors by kind:
    parameters, gradients, optimizer states, activations (`hpml.ranks.rank.live`). That takes some
    10 µs for each operator, 10 ms for a training step of the residual network: do not ask for it
    where seconds matter.

    With `kill` a rank is killed while it writes a file (see `hpml.ranks.killing`), which ends the
    launch as any killed rank does.

    With a `leash` another thread may end the launch, which then raises `leash.Cancelled`, and sets
    from when the time limit counts.

    With `staying`, a new one, ranks that have come to the end of the drive stay there, and can run
    it once more, on other inputs (see `hpml.ranks.parent.staying`). Inputs are then needed, and
    neither an answer, nor proxies, nor a server can be had.

    Else nothing outlives the launch. A rank that raises, exits or is killed, ranks in different
    collectives or with different shapes, ranks that wait for what cannot come: each ends the launch
    and is recorded in `evidence.diagnosis`; so does `timeout`, in seconds.

    Raises UserError for invalid arguments and for a flavour that is not installed,
    `warm.ServerDied` where no ranks can be had.
    """
    flavours.check(flavour)
    if proxied and flavour != "torch":
        raise UserError(f"flavour {flavour!r}: only ranks of torch.distributed can have proxies")
    if not 1 <= world_size <= MAX_RANKS:
        raise UserError(f"world size {world_size}: give a number from 1 to {MAX_RANKS}")
    if inputs is not None and len(inputs) != world_size:
        raise UserError(f"{len(inputs)} inputs for {world_size} ranks: give one per rank")
    asked = None if link is None else parse_link(link, world_size)
    if per_node is None:
        per_node = asked.per_node if asked is not None and asked.uplink else world_size
    watched = watched or _watched(drive, answer, answer_name)
    pickled = drive if isinstance(drive, Pickled) else Pickled.of(drive)
    port = _free_port()
    # Made by the supervisor, and removed: it may see another /tmp than this process. A short name,
    # since the ranks' sockets may be in it, whose paths must not be long (104 bytes on macOS).
    server = warm.server(flavour)
    scratch = os.path.join(server.tmp, f"hpml-ranks-{secrets.token_hex(4)}")
    folder = os.path.join(scratch, "work") if cwd is None else server.folder(cwd)
    # On one file system with `cwd`, so that a temporary file can be moved there
    temporary = os.path.join(folder, ".tmp") if cwd and server.sandboxed else scratch
    jobs = [
        Job(
            drive=pickled.data,
            inputs=None if inputs is None else dump(inputs[rank]),
            answer=answer,
            filename=watched.filename,
            rules=rules,
            rank=rank,
            world_size=world_size,
            # A file of one machine's is none of others'
            store="" if server.spread else os.path.join(scratch, MEETING, "store"),
            cwd=folder,
            environment={
                # For files left behind, such as AutoGraph's: removed with the ranks
                "TMPDIR": temporary,
                # Above all of Kineto's levels: it would print when a profiler starts and stops
                "KINETO_LOG_LEVEL": "6",
                **flavours.environment(flavour, rank, world_size, per_node, port),
            },
            extra_environment=dict(environment(rank)) if environment is not None else {},
            flavour=flavour,
            process_group=process_group,
            timeout=timeout,
            threads=threads,
            delays=delays,
            served=serve is not None,
            proxied=proxied,
            count_memory=count_memory or memory is not None,
            limited=memory is not None,
            live=(live or memory is not None) and not flavours.with_tensorflow(flavour),
            stays=staying is not None,
        )
        for rank in range(world_size)
    ]
    run = (Running if staying is None else StayingRun)(
        jobs,
        scratch,
        watched,
        timeout,
        on_output,
        asked,
        server,
        leash,
        serve,
        kept=cwd is not None,
        kill=kill,
        looks=looks,
        opens=opens,
        memory=None if memory is None else memory_limit.check(memory),
    )
    if isinstance(run, StayingRun) and staying is not None:
        return staying.begin(run)
    with run:
        return run.until_ended()


def _watched(drive: Callable | Pickled, answer: str | None, name: str) -> Watched:
    if answer is not None:
        return Watched(f"<{name}>", answer, "of your answer")
    code = getattr(drive, "__code__", None)
    return Watched(code.co_filename if code else "<drive>")


def _free_port() -> int:
    """A free port below the range from which the kernel gives ports to other launches' ranks.

    Others may take ports in the milliseconds until rank 0 listens.
    """
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:  # not Linux
        first = 32768
    for _ in range(100):
        port = first - 1 - secrets.randbelow(max(min(20_000, first - 5_000), 1))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
