"""How long a learner waits for a verdict, compared with the same ranks under torchrun.

One all_reduce on four ranks: as a script under torchrun, and as a launch from the warm server. Then
the checks themselves, on the course's own solutions, once with four ranks and once whole, as a
learner gets them: at every world size. All are taken in turn in each round, and the table has the
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
from hpml.bench.table import Row, Table, machine_conditions
from hpml.checks import find, judge
from hpml.course import schedule
from hpml.errors import UserError
from hpml.paths import CHECKOUT
from hpml.ranks import launch

WORLD_SIZE = 4
LIMIT = 120.0
WHOLE = "whole, with 1 to 4 ranks"
UNDER_TORCHRUN = "torchrun: one all_reduce, 4 ranks"
SIMPLE, STAGED = "under 0.3 s", "under 0.8 s"  # whole checks: of one launch per play, of several
SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(4)
dist.all_reduce(total)
assert total[0] == dist.get_world_size()
dist.destroy_process_group()
"""


def bench(
    rounds: int = 5, exercises: Sequence[str] = (), say: Callable[[str], None] = print
) -> Table:
    """Measure in `rounds` rounds, the checks of `exercises` (default: all that run on ranks).

    `say` is called after each round. Raises UserError where something fails.
    """
    conditions = machine_conditions()
    conditions["rounds"] = f"{rounds}, after one that is not counted"
    answers = {e: source for e, source in _solutions().items() if not exercises or e in exercises}
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
            base=None if name == UNDER_TORCHRUN else UNDER_TORCHRUN,
            target=_target(name),
        )
        for name, values in measured.items()
    ]
    return Table("How long ranks and verdicts take", rows, conditions)


def _target(name: str) -> str:
    if not name.endswith(WHOLE):
        return ""
    return STAGED if find(name.split()[1]).stages else SIMPLE


def _solutions() -> dict[str, str]:
    """The solution of every exercise that runs on ranks, by exercise id; none in a release."""
    found = {}
    for module in schedule.load().modules:
        script = CHECKOUT / module.solution.with_suffix(".py")
        for answer in learners.read(script) if script.is_file() else ():
            if WORLD_SIZE in find(answer.exercise).worlds:
                found[answer.exercise] = answer.source
    return found


def _round(answers: dict[str, str]) -> list[tuple[str, float]]:
    taken = [
        (UNDER_TORCHRUN, _seconds(_torchrun)),
        ("launch: one all_reduce, 4 ranks", _seconds(_launch)),
    ]
    for exercise, source in answers.items():
        for words, worlds in (("with four ranks", (WORLD_SIZE,)), (WHOLE, None)):
            name = f"check {exercise} {words}"
            taken.append((name, _seconds(lambda e=exercise, s=source, w=worlds: _check(e, s, w))))
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
    if not verdict.passed:
        raise UserError(f"bench check: the solution of {exercise} fails: {verdict.headline}")
