"""The plays of an answer: at each world size, the launches of its stages, one after the other.

Plays at several world sizes are under way side by side, so that no core waits; but one whose
seconds are judged (`Check.timed_at`), or in which ranks are made to wait, has the machine to
itself. What comes out is the same either way: plays are handed on in their order, and a play that
takes longer than PATIENCE goes on alone, with its whole time limit before it.
"""

import contextlib
import contextvars
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from hpml.checks.contract import Check, Run, Stage
from hpml.ranks import Evidence, launch, warm
from hpml.ranks.leash import Leash
from hpml.ranks.warm import ServerDied

PATIENCE = 3.0  # seconds after which the first play that is not done gets the machine to itself
TOGETHER = 4  # plays under way at most

# The run, and the evidence of the stage that ended badly, if one did
Outcome = tuple[Run, Evidence | None]


class MissingName(Exception):
    """The answer does not define what the exercise asks for."""


@dataclass(frozen=True)
class Play:
    """What is to be played: a world size, and whether ranks are made to wait now and then."""

    world_size: int
    delayed: bool = False


def outcomes(
    check: Check, source: str, plays: Sequence[Play], seed: int, *, side_by_side: bool = True
) -> Iterator[Outcome]:
    """One outcome for each of `plays`, in their order, whatever ends first.

    Raises what a play raises, when its turn has come. Close the iterator to end what is under way.
    `side_by_side` is for a learner, who waits; without it nothing shares the machine.
    """
    sharing = [play for play in plays if side_by_side and _may_share(check, play)]
    sharing = sharing[:TOGETHER] if len(sharing) > 1 else []
    shared: dict[Play, _Shared] = {}
    try:
        for play in sharing:
            shared[play] = _Shared(check, source, play, seed)
        if shared:  # the server may take seconds to start; no play is slow for that
            with contextlib.suppress(ServerDied):
                warm.server(check.needs).wait_until_ready()
        patient_until = time.monotonic() + PATIENCE
        for play in plays:
            one = shared.get(play)
            if one is None:
                _end([other for other in shared.values() if not other.done_by(patient_until)])
                yield play_once(check, source, play.world_size, seed, play.delayed)
            else:
                if not one.done_by(patient_until):
                    others = [other for other in shared.values() if other is not one]
                    _end([other for other in others if not other.done_by(0.0)])
                    one.go_on_alone()
                yield one.outcome()
    finally:
        _end(list(shared.values()))


def play_once(
    check: Check, source: str, world_size: int, seed: int, delayed: bool = False
) -> Outcome:
    """One play by itself. Raises ServerDied where no ranks can be had."""
    inputs = check.inputs(seed, world_size)
    found, fault = _launches_patiently(check, source, world_size, seed, inputs, delayed)
    expected = None if fault is not None else _expected(check, inputs, world_size)
    return _run(Play(world_size, delayed), seed, inputs, expected, found), fault


def _may_share(check: Check, play: Play) -> bool:
    """Not where time is judged; nor with Horovod, whose threads wake up every millisecond."""
    return check.needs == "torch" and not play.delayed and play.world_size not in check.timed_at


def _end(shared: "Sequence[_Shared]") -> None:
    """End all of them, done or not. What was not done is played anew when its turn comes."""
    for one in shared:
        one.cancel()
    for one in shared:
        one.end()


class _Shared:
    """A play under way in a thread of its own. The check's functions are called by its maker."""

    def __init__(self, check: Check, source: str, play: Play, seed: int) -> None:
        self._check, self._source, self._play, self._seed = check, source, play, seed
        self._ended = False
        self._error: BaseException | None = None
        self._found: dict[str, Evidence] = {}
        self._fault: Evidence | None = None
        self._leash = Leash()
        self._thread: threading.Thread | None = None
        try:
            self._inputs = check.inputs(seed, play.world_size)
        except Exception as error:  # raised when this play's turn has come
            self._error = error
            return
        # With the warm server that was chosen for this context
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

    def done_by(self, deadline: float) -> bool:
        """Whether it has come to its end, after waiting for that until `deadline`."""
        if self._thread is not None and not self._ended:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._thread is None or not self._thread.is_alive()

    def go_on_alone(self) -> None:
        self._leash.alone()

    def outcome(self) -> Outcome:
        """Wait for the end. Raises what kept the play from being; plays it anew if it was ended."""
        if self._ended:
            return play_once(self._check, self._source, self._play.world_size, self._seed)
        expected, why = None, None
        if self._error is None:
            try:  # while the ranks are at work
                expected = _expected(self._check, self._inputs, self._play.world_size)
            except Exception as error:
                why = error
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        if self._fault is not None:
            expected = None
        elif why is not None:
            raise why
        run = _run(self._play, self._seed, self._inputs, expected, self._found)
        return run, self._fault

    def cancel(self) -> None:
        if not self._ended and self._thread is not None and self._thread.is_alive():
            self._leash.cancel()

    def end(self) -> None:
        """Wait until nothing of its launch is there. It was done, or cancelled."""
        if self._ended:
            return
        self._ended = True
        if self._thread is not None:
            self._thread.join()
        self._leash.close()


def _expected(check: Check, inputs: Any, world_size: int) -> Any:
    """On one thread: the ranks have use for the other cores."""
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
    """`_launches`, and once more if the server went away: at first, no fault of the answer's."""
    try:
        return _launches(*arguments, **options)
    except ServerDied:
        return _launches(*arguments, **options)


def _launches(
    check: Check,
    source: str,
    world_size: int,
    seed: int,
    inputs: Any,
    delayed: bool = False,
    leash: Leash | None = None,
) -> tuple[dict[str, Evidence], Evidence | None]:
    """The evidence of all stages by name, and of the stage that ended badly, if one did."""
    stages = check.stages or (Stage("play", check.drive, link=check.link),)
    found: dict[str, Evidence] = {}
    with tempfile.TemporaryDirectory(prefix="hpml-play-") as scratch:
        for stage in stages:
            given = inputs[stage.name] if check.stages else inputs
            ranks = stage.world(world_size)
            environment = None
            if check.environment is not None:

                def environment(rank: int, given: Any = given, ranks: int = ranks) -> dict:
                    return check.environment(given, rank, ranks)

            found[stage.name] = evidence = launch(
                _guarded(stage.drive, check.names),
                ranks,
                answer=source,
                answer_name=check.id,
                inputs=given,
                flavour=stage.flavour or check.flavour,
                process_group=check.process_group,
                environment=environment,
                cwd=scratch,
                timeout=check.timeout,
                link=stage.link,
                delays=seed if delayed else None,
                leash=leash,
            )
            if evidence.diagnosis is not None and not stage.dies:
                return found, evidence
    return found, None


def _guarded(drive: Any, names: tuple[str, ...]) -> Any:
    """`drive`, after a look whether the answer defines what it will be asked for."""

    def guarded(answer: ModuleType, inputs: Any) -> Any:
        missing = [name for name in names if not hasattr(answer, name)]
        if missing:
            raise MissingName(" and ".join(missing))
        return drive(answer, inputs)

    return guarded
