"""How long a learner waits for a verdict, compared with the same ranks under torchrun.

One all_reduce on four ranks: as a script under torchrun, and as a launch from the warm server. Then
the checks themselves, on the course's own solutions: whole, as a learner gets them, and those that
run on ranks also with four ranks alone. And what a learner types, as `hpml.bench.terminal` has it,
where hello_ranks is among the exercises. All are taken in turn in each round, and the table has the
medians over the rounds.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from hpml import answer as learners
from hpml.bench import terminal
from hpml.bench.table import Row, Table, machine_conditions
from hpml.checks import find, judge
from hpml.course import schedule
from hpml.errors import UserError
from hpml.paths import CHECKOUT
from hpml.ranks import flavour, launch

WORLD_SIZE = 4
LIMIT = 120.0
WHOLE, ALONE = "whole, with 1 to 4 ranks", "whole, in one process"
UNDER_TORCHRUN = "torchrun: one all_reduce, 4 ranks"
# Seconds of a whole check, still no wait: of one launch per play, of several; and in modules
# whose checks train, or count what a kernel does.
SIMPLE, STAGED = 0.3, 0.8
LARGER = {"02": 1.0, "03": 1.0, "04": 1.0, "07": 2.0, "08": 1.0}
CORE = 1.0  # at most, on the core path
SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(4)
dist.all_reduce(total)
assert total[0] == dist.get_world_size()
dist.destroy_process_group()
"""


def bench(
    rounds: int = 3, exercises: Sequence[str] = (), say: Callable[[str], None] = print
) -> Table:
    """Measure in `rounds` rounds, the checks of `exercises`, by default of all.

    What this machine cannot run is left out, and named in the conditions. `say` is called after
    each round. Raises UserError for an unknown exercise, and where something fails.
    """
    conditions = machine_conditions()
    conditions["rounds"] = f"{rounds}, after one that is not counted"
    answers = _solutions(exercises)
    lacks = {e: flavour.missing(find(e).needs) for e in answers}
    if left_out := {e: why for e, why in lacks.items() if why}:
        conditions["left out"] = "; ".join(f"{e}: {why}" for e, why in left_out.items())
    answers = {e: source for e, source in answers.items() if e not in left_out}
    measured: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, seconds in _round(answers):
            if number:  # the first one warms everything up
                measured.setdefault(name, []).append(seconds)
        say(f"round {number} of {rounds}" if number else "warmed up")
    rows = [
        Row(
            name,
            values,
            "s",
            base=None if name in (UNDER_TORCHRUN, *terminal.TARGETS) else UNDER_TORCHRUN,
            target=_target(name),
        )
        for name, values in measured.items()
    ]
    return Table("How long ranks and verdicts take", rows, conditions)


def _target(name: str) -> str:
    if not name.endswith((WHOLE, ALONE)):
        return terminal.TARGETS.get(name, "")
    id = name.split()[1]
    for module in schedule.load().modules:
        for exercise in module.exercises:
            if exercise.id == id:
                most = LARGER.get(module.id, STAGED if find(id).stages else SIMPLE)
                return f"under {min(most, CORE) if exercise.core else most:g} s"
    return ""


def _solutions(exercises: Sequence[str]) -> dict[str, str]:
    """Solutions by exercise id: of `exercises`, or of all (none in a release). UserError where one
    has none."""
    for exercise in exercises:
        find(exercise)
    found = {}
    for module in schedule.load().modules:
        script = CHECKOUT / module.solution.with_suffix(".py")
        for answer in learners.read(script) if script.is_file() else ():
            if not exercises or answer.exercise in exercises:
                found[answer.exercise] = answer.source
    if without := [exercise for exercise in exercises if exercise not in found]:
        raise UserError(f"bench check: there is no solution of {without[0]} here")
    return found


def _round(answers: dict[str, str]) -> list[tuple[str, float]]:
    taken = [
        (UNDER_TORCHRUN, _seconds(_torchrun)),
        ("launch: one all_reduce, 4 ranks", _seconds(_launch)),
    ]
    for exercise, source in answers.items():
        ways: dict[str, tuple[int, ...] | None] = {ALONE: None}
        if WORLD_SIZE in find(exercise).worlds:
            ways = {"with four ranks": (WORLD_SIZE,), WHOLE: None}
        for words, worlds in ways.items():
            name = f"check {exercise} {words}"
            taken.append((name, _seconds(lambda e=exercise, s=source, w=worlds: _check(e, s, w))))
    if terminal.EXERCISE in answers:
        taken += terminal.waits(answers[terminal.EXERCISE])
    return taken


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _torchrun() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "one_all_reduce.py")
        script.write_text(SCRIPT)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*torchrun, f"--nproc-per-node={WORLD_SIZE}", str(script)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if ended.returncode:
        raise UserError(f"bench check: torchrun failed: {ended.stderr.strip().splitlines()[-1]}")


def _one_all_reduce() -> float:
    total = torch.ones(4)
    dist.all_reduce(total)
    return total[0].item()


def _launch() -> None:
    evidence = launch(_one_all_reduce, WORLD_SIZE)
    if list(evidence.values) != [WORLD_SIZE] * WORLD_SIZE:
        raise UserError(f"bench check: the launch failed: {evidence.diagnosis}")


def _check(exercise: str, source: str, worlds: tuple[int, ...] | None) -> None:
    verdict = judge(exercise, source, worlds=worlds)
    if not verdict.nothing_failed:  # a job script is judged where there is a SLURM
        raise UserError(f"bench check: the solution of {exercise} fails: {verdict.headline}")
