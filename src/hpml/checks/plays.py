"""The plays of an answer: at each world size, the launches of its stages, one after the other.

Plays at several world sizes run at the same time, to use all cores. But a play whose seconds are
judged (`Check.timed_at`), or with injected waits, runs alone. The results are the same either way:
outcomes come in the order of the plays, and a play that takes longer than PATIENCE is continued
alone, with its whole time limit.
"""

import contextlib
import contextvars
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import torch

from hpml.checks import chatter, seeds
from hpml.checks.contract import Check, Run, Stage
from hpml.checks.nodes import per_node
from hpml.ranks import Evidence, launch
from hpml.ranks.flavour import by_horovod
from hpml.ranks.parent import warm
from hpml.ranks.parent.launch import Pickled
from hpml.ranks.parent.leash import Leash
from hpml.ranks.parent.warm import ServerDied

PATIENCE = 3.0  # seconds after which the first unfinished play runs alone
GRADED_LINK = "10gbit"  # where a stage has none of its own
TOGETHER = 4  # plays at the same time, at most
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}  # a check's ranks compute on the CPU everywhere

# Answers may be judged in several threads, and checks draw from torch's global generator.
_ONE = threading.Lock()

Environment = Callable[[int], Mapping[str, str]]  # of a rank

# The run, and the evidence of the failed stage, if any
Outcome = tuple[Run, Evidence | None]


class MissingName(Exception):
    """The answer does not define what the exercise asks for."""


class ReferenceFailed(RuntimeError):
    """A launch without the answer did not end well: a fault of ours."""


@dataclass(frozen=True)
class Play:
    """A world size; whether waits are injected before some collectives; and whether ranks have
    proxies, so that what is recorded of them is out of the answer's reach."""

    world_size: int
    delayed: bool = False
    proxied: bool = False


def outcomes(
    check: Check, source: str, plays: Sequence[Play], seed: int, *, side_by_side: bool = True
) -> Generator[Outcome, None, None]:
    """One outcome for each of `plays`, in their order, each with inputs of its own from `seed`.

    Raises a play's exception in its turn. Close the iterator to end the running plays. With
    `side_by_side` plays may run at the same time, for a waiting learner; else one at a time.
    """
    sharing = [play for play in plays if side_by_side and _may_share(check, play)]
    sharing = sharing[:TOGETHER] if len(sharing) > 1 else []
    shared: dict[Play, _Shared] = {}
    try:
        for play in sharing:
            # Known before it is started, so that an interrupt at any time ends it
            shared[play] = _Shared(check, source, play, seed)
            shared[play].start()
        if shared:  # the server may take seconds to start; that does not count as slow
            with contextlib.suppress(ServerDied):
                warm.server(check.needs).wait_until_ready()
        patient_until = time.monotonic() + PATIENCE
        for play in plays:
            one = shared.get(play)
            if one is None:
                _end([other for other in shared.values() if not other.done_by(patient_until)])
                yield play_once(
                    check, source, play.world_size, seed, play.delayed, proxied=play.proxied
                )
            else:
                if not one.done_by(patient_until):
                    others = [other for other in shared.values() if other is not one]
                    _end([other for other in others if not other.done_by(0.0)])
                    one.go_on_alone()
                yield one.outcome()
    finally:
        _end(list(shared.values()))


def play_once(
    check: Check,
    source: str,
    world_size: int,
    seed: int,
    delayed: bool = False,
    *,
    proxied: bool = False,
) -> Outcome:
    """One play, run alone. Raises ServerDied if the warm server cannot fork ranks."""
    seed = seeds.of_play(seed, world_size, delayed)
    inputs = _inputs(check, seed, world_size)
    found, fault = _launches_patiently(
        check, source, world_size, seed, inputs, delayed, proxied=proxied
    )
    expected = None if fault is not None else _expected(check, inputs, world_size)
    return _run(Play(world_size, delayed), seed, inputs, expected, found), fault


def _may_share(check: Check, play: Play) -> bool:
    """False if time is judged, or with Horovod, whose threads wake up every millisecond."""
    return check.needs == "torch" and not play.delayed and play.world_size not in check.timed_at


def _end(shared: "Sequence[_Shared]") -> None:
    """End all of them. Unfinished plays are run again in their turn."""
    for one in shared:
        one.cancel()
    for one in shared:
        one.end()


class _Shared:
    """A play in its own thread. The check's functions are called in the thread that made it."""

    def __init__(self, check: Check, source: str, play: Play, seed: int) -> None:
        self._check, self._source, self._play = check, source, play
        self._of_check, self._seed = seed, seeds.of_play(seed, play.world_size, play.delayed)
        self._ended = False
        self._error: BaseException | None = None
        self._found: dict[str, Evidence] = {}
        self._fault: Evidence | None = None
        self._leash = Leash()
        # Not the thread's own end: where join() is interrupted, a thread counts as ended while it
        # runs (Python 3.9 to 3.11, github.com/python/cpython/issues/90882)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to play."""
        try:
            self._inputs = _inputs(self._check, self._seed, self._play.world_size)
        except Exception as error:  # raised in this play's turn
            self._error = error
            return
        # The thread uses this context's warm server
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=[self._go], daemon=True)
        self._thread.start()

    def _go(self) -> None:
        try:
            self._found, self._fault = _launches_patiently(
                self._check,
                self._source,
                self._play.world_size,
                self._seed,
                self._inputs,
                leash=self._leash,
            )
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def done_by(self, deadline: float) -> bool:
        """Wait for its end until `deadline`; returns whether it has ended."""
        if self._thread is not None and not self._ended:
            self._over.wait(max(0.0, deadline - time.monotonic()))
        return self._thread is None or self._over.is_set()

    def go_on_alone(self) -> None:
        self._leash.alone()

    def outcome(self) -> Outcome:
        """Wait for the outcome. Raises the play's exception; runs it again if it was ended."""
        if self._ended:
            return play_once(self._check, self._source, self._play.world_size, self._of_check)
        expected, why = None, None
        if self._error is None:
            try:  # while the ranks are at work
                expected = _expected(self._check, self._inputs, self._play.world_size)
            except Exception as error:
                why = error
        if self._thread is not None:
            self._over.wait()
        if self._error is not None:
            raise self._error
        if self._fault is not None:
            expected = None
        elif why is not None:
            raise why
        run = _run(self._play, self._seed, self._inputs, expected, self._found)
        return run, self._fault

    def cancel(self) -> None:
        if not self._ended:
            self._leash.cancel()

    def end(self) -> None:
        """Wait until its launch has ended. It must be done or cancelled."""
        if self._ended:
            return
        self._ended = True
        if self._thread is not None:
            if self._thread.ident is None:  # interrupted while it was started
                return  # it finds the leash pulled, if it begins after all
            self._over.wait()
            self._thread.join()
        self._leash.close()


def _inputs(check: Check, seed: int, world_size: int) -> Any:
    with _ONE:
        return check.inputs(seed, world_size)


def _expected(check: Check, inputs: Any, world_size: int) -> Any:
    """Compute expected values on one thread: the ranks use the other cores."""
    with _ONE:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return check.expect(inputs, world_size)
        finally:
            torch.set_num_threads(threads)


def _run(play: Play, seed: int, inputs: Any, expected: Any, found: Mapping[str, Evidence]) -> Run:
    last = list(found.values())[-1]
    return Run(play.world_size, seed, inputs, expected, last, found, play.delayed)


def _launches_patiently(*arguments: Any, **options: Any) -> tuple[dict, Evidence | None]:
    """`_launches`, repeated once if the server died before the answer began: it did not do that."""
    try:
        return _launches(*arguments, **options)
    except ServerDied as died:
        if died.began:
            raise
        return _launches(*arguments, **options)


def _launches(
    check: Check,
    source: str,
    world_size: int,
    seed: int,
    inputs: Any,
    delayed: bool = False,
    leash: Leash | None = None,
    *,
    proxied: bool = False,
) -> tuple[dict[str, Evidence], Evidence | None]:
    """The evidence of all stages by name, and of the failed stage, if any."""
    stages = check.stages
    if not stages:
        assert check.drive is not None  # a check has one or the other
        stages = (Stage("play", check.drive, link=check.link, serve=check.serve),)
    found: dict[str, Evidence] = {}
    began = False  # the answer, in an earlier stage
    with tempfile.TemporaryDirectory(prefix="hpml-play-") as scratch:
        for stage in stages:
            ranks = stage.world(world_size)
            if not ranks or (delayed and not stage.with_answer) or not stage.when(inputs, found):
                continue
            flavour = stage.flavour or check.flavour
            given = inputs[stage.name] if check.stages else inputs
            sent, server = stage.serve(given) if stage.serve else (given, None)
            on_links = proxied and _on_links(check, ranks)
            long_cycles = on_links and by_horovod(flavour)
            try:
                evidence = launch(
                    _pickled(stage.drive, check.names if stage.with_answer else None),
                    ranks,
                    answer=source if stage.with_answer else None,
                    answer_name=check.id,
                    rules=check.rules if stage.with_answer else None,
                    inputs=sent,
                    flavour=flavour,
                    process_group=check.process_group,
                    proxied=(proxied or stage.memory) and flavour == "torch" and _by_proxies(check),
                    environment=_environment(check, given, ranks, long_cycles),
                    cwd=scratch if check.shared_folder else None,
                    timeout=check.timeout,
                    link=stage.link or (GRADED_LINK if on_links else None),
                    per_node=per_node(ranks),
                    delays=seeds.derived(seed, "waits") if delayed else None,
                    serve=server,
                    looks=stage.looks,
                    opens=stage.opens,
                    kill=stage.kill and stage.kill(seed),
                    count_memory=stage.memory,
                    leash=leash,
                )
            except ServerDied as died:
                died.began = began or (died.began and stage.with_answer)
                raise
            found[stage.name] = evidence
            began = began or stage.with_answer
            if evidence.diagnosis is not None and not stage.with_answer:
                raise ReferenceFailed(f"{stage.name}: {evidence.diagnosis.sentence}")
            if evidence.diagnosis is not None and not stage.dies:
                return found, evidence
    return found, None


def _by_proxies(check: Check) -> bool:
    """Whether proxies are to make the ranks' groups. Not where a group is what is asked for, and
    values alone are judged: there an answer's own process has to make it."""
    return check.process_group or any(claim.of_calls for claim in check.claims)


def _on_links(check: Check, ranks: int) -> bool:
    """Whether the kernel is to count what ranks send each other, for a claim that rests on it."""
    return ranks > 1 and any(claim.of_calls for claim in check.claims)


def _environment(check: Check, given: Any, ranks: int, long_cycles: bool) -> Environment:
    """What a launch adds to each rank's environment. With `long_cycles`, what Horovod's ranks send
    besides tensors is within what is allowed."""
    of_check = check.environment or (lambda given, rank, ranks: {})
    more = chatter.ENVIRONMENT if long_cycles else {}
    return lambda rank: {**NO_GPU, **of_check(given, rank, ranks), **more}


@cache
def _pickled(drive: Any, names: tuple[str, ...] | None) -> Pickled:
    """`drive` as bytes. With `names` it first raises MissingName if the answer lacks one."""
    if names is None:
        return Pickled.of(drive)

    def guarded(answer: ModuleType, inputs: Any) -> Any:
        missing = [name for name in names if not hasattr(answer, name)]
        if missing:
            raise MissingName(" and ".join(missing))
        return drive(answer, inputs)

    return Pickled.of(guarded)
