"""Exercise alpha_beta: predict the cost of four all-reduce algorithms.

`naive`, `tree`, `ring` and `halving_doubling`, each `(nbytes, ranks, alpha, beta, gamma) ->
seconds`.
"""

import itertools
import math
import random
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.allreduce.algorithms import schedule
from hpml.allreduce.execute import run as run_steps
from hpml.allreduce.transfers import Schedule
from hpml.checks.budget import elapsed, no_network
from hpml.checks.compare import described, is_number
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ANYTHING
from hpml.predict.collectives import Cost, all_reduce_seconds
from hpml.ranks import mark
from hpml.ranks.evidence import Evidence

ALGORITHMS = {
    "naive": "naive",
    "tree": "tree",
    "ring": "ring",
    "halving_doubling": "halving-doubling",
}
RANKS = (1, 2, 3, 4, 5, 8, 16)  # in each run; larger numbers are drawn
MEASURED_AT = (3, 4)  # ranks: with two, the four costs hardly differ
SIZES = (64_000, 192_000)  # bytes: each part is much larger than a link's burst
TRAIN = 4  # consecutive messages of the smaller size
WITHIN = 0.15  # of the measured seconds


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, the same for each rank: the all-reduces to measure, as plans by name; cases
    (nbytes, ranks, alpha, beta, gamma), and the names of what was measured."""
    draw = random.Random(seed)
    # Drawn, so that no table has them
    larger = [draw.randint(9, 15), draw.randint(65, 127), draw.randint(1025, 2047)]
    powers = [1 << draw.randint(5, 8), 1 << draw.randint(9, 11)]  # some count in loops
    cases = [
        [
            draw.randrange(1, 10 ** draw.randrange(1, 10)),
            ranks,
            10 ** draw.uniform(-6, -3),
            10 ** draw.uniform(-11, -7),
            10 ** draw.uniform(-11, -9),
        ]
        for ranks in sorted([*RANKS, *larger, *powers])
    ]
    measured = list(ALGORITHMS) if world_size in MEASURED_AT else []
    if world_size & (world_size - 1) and measured:
        measured.remove("halving_doubling")
    plans = {name: schedule(ALGORITHMS[name], world_size) for name in measured}
    return {
        "measured": [plans] * world_size,
        "formulas": [{"cases": cases, "measured": measured}] * world_size,
    }


def cases_of(name: str, cases: list[Any]) -> list[Any]:
    """The function's cases: for halving-doubling, only those with a power of two of ranks."""
    return [case for case in cases if name != "halving_doubling" or not case[1] & (case[1] - 1)]


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Each function's value for each case, and with α, β or γ = 1 and the others 0."""
    said: dict[str, list[list[Any]]] = {}
    for name in ALGORITHMS:
        cost = getattr(answer, name)
        said[name] = []
        for nbytes, ranks, *abc in cases_of(name, inputs["cases"]):
            mark(f"{name}({nbytes!r}, {ranks!r}, α, β, γ)")
            units = [cost(nbytes, ranks, *unit) for unit in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
            said[name].append([cost(nbytes, ranks, *abc), *units])
    found = {"said": said, "terms": {}}
    for name in inputs["measured"]:
        cost, ranks = getattr(answer, name), dist.get_world_size()
        found["terms"][name] = [
            [cost(nbytes, ranks, 1, 0, 0), cost(nbytes, ranks, 0, 1, 0)] for nbytes in SIZES
        ]
    return found


def measure(plans: dict[str, Schedule]) -> None:
    """Set marks around all-reduces on the link, `name nbytes`, and around the messages that α and β
    are measured with, `α` and `β`; each is followed by its ` done`. No answer is there."""
    word = zeros(4)
    messages = [zeros(SIZES[0]) for _ in range(TRAIN)]
    for _ in range(2):
        run_steps(plans["naive"], word.clone())  # connects
    for repeat in range(10):
        between("α", lambda: there_and_back([word], word))
        if repeat % 5 == 0:
            between("β", lambda: there_and_back(messages, word))
    for nbytes in SIZES:
        for name, plan in plans.items():
            tensor = zeros(nbytes)
            between(f"{name} {nbytes}", lambda t=tensor, p=plan: run_steps(p, t))


def zeros(nbytes: int) -> torch.Tensor:
    """One-dimensional."""
    return torch.zeros(nbytes // 4, dtype=torch.float32)


def between(name: str, work: Callable[[], None]) -> None:
    dist.barrier()
    mark(name)
    work()
    mark(f"{name} done")


def there_and_back(messages: list[torch.Tensor], answer: torch.Tensor) -> None:
    """Send `messages` from rank 0 to rank 1, in order, then the short `answer` back."""
    rank = dist.get_rank()
    if rank == 0:
        for message in messages:
            dist.send(message, 1)
        dist.recv(answer, 1)
    elif rank == 1:
        for message in messages:
            dist.recv(message, 0)
        dist.send(answer, 0)


def expect(
    inputs: dict[str, list[dict[str, Any]]], world_size: int
) -> dict[str, list[list[float]]]:
    """For each function and case: the seconds, and the factors of α, β and γ."""

    def of(name: str, nbytes: int, ranks: int, *abc: float) -> list[float]:
        costs = (Cost(*abc), Cost(1, 0, 0), Cost(0, 1, 0), Cost(0, 0, 1))
        return [all_reduce_seconds(ALGORITHMS[name], nbytes, ranks, cost) for cost in costs]

    return {
        name: [of(name, *case) for case in cases_of(name, inputs["formulas"][0]["cases"])]
        for name in ALGORITHMS
    }


def closed_form(name: str) -> Callable[[Run], Problem | None]:
    """The judge of one function: each factor separately, so that it can name the wrong one."""

    def judge(run: Run) -> Problem | None:
        cases = cases_of(name, run.inputs["formulas"][0]["cases"])
        for value in run.values:
            if problem := wrong_cost(name, cases, value["said"][name], run.expected[name]):
                return problem
        return None

    return judge


def wrong_cost(
    name: str, cases: list[Any], said: list[list[Any]], right: list[list[float]]
) -> Problem | None:
    for (nbytes, ranks, *_), told, expected in zip(cases, said, right, strict=True):
        of = f"{name}(nbytes={nbytes}, ranks={ranks}, …)"
        for got in told:
            if not is_number(got):
                return Problem(f"{of}: it returned {described(got)}, not seconds", "types")
        for factor, words in enumerate(FACTORS, 1):
            if same(told[factor], expected[factor]):
                continue
            if ranks == 1:
                seen = f"{told[factor]:g} {words}, and there is nobody else"
                return Problem(f"{of}: {seen}", "one_rank")
            rows = zip(cases, said, right, strict=True)
            counts = [(n, p, s[factor], r[factor]) for (n, p, *_), s, r in rows if p > 1]
            return Problem(
                f"{of}: {count(told[factor])} {words}",
                misconception(name, factor, counts),
                count(expected[factor]),
            )
        if not same(told[0], expected[0]):
            return Problem(f"{of}: {told[0]:.6g} s", "sum", f"{expected[0]:.6g} s")
    return None


FACTORS = (
    "messages, one after the other (the factor of alpha)",
    "bytes of these messages (the factor of beta)",
    "bytes added up by the busiest rank (the factor of gamma)",
)


def count(number: float) -> str:
    """As text: all digits of whole numbers, else two after the point."""
    return f"{round(number, 2):.15g}"


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=0.0)


def misconception(name: str, factor: int, counts: list[tuple[int, int, Any, float]]) -> str:
    """The hint for a wrong factor: the usual mistake that explains it in every case.

    `counts` has, for each case: bytes, ranks, the answer's factor, the right factor.
    """

    def everywhere(mistake: Callable[[int, int, float], float]) -> bool:
        return all(is_number(said) and same(said, mistake(n, p, r)) for n, p, said, r in counts)

    if factor == 3:
        return "added"
    if everywhere(lambda n, p, right: right / 2):
        return "one_way"
    if factor == 1:
        levels = (math.log2, lambda p: p.bit_length() - 1, lambda p: math.ceil(math.log(p)))
        uneven = any(everywhere(lambda n, p, right, of=of: 2 * of(p)) for of in levels)
        return "levels" if name == "tree" and uneven else "latency"
    if name == "naive" and everywhere(lambda n, p, right: 2 * n):
        return "root"
    parts = (lambda n, p: n // p, lambda n, p: -(-n // p))
    if any(everywhere(lambda n, p, right, of=of: 2 * (p - 1) * of(n, p)) for of in parts):
        return "whole"
    if everywhere(lambda n, p, right: 2 * right):
        return "bytes"
    if all(is_number(said) and said > right * (1 + 1e-9) for _, _, said, right in counts):
        return {"ring": "parts", "halving_doubling": "halves"}.get(name, "bytes")
    return "bytes"


def predicts_the_curve(run: Run) -> Problem | CannotJudge | None:
    """Each function, with the measured α and β, is within 15 % of the measured seconds.

    On a busy machine the closed form may be farther off than that; then it is within 15 % of what
    the closed form says.
    """
    # With injected waits before calls, the waits would be measured.
    if run.world_size not in MEASURED_AT or run.delayed:
        return no_seconds(run)
    measured = run.stages["measured"]
    if missing := no_network(measured):
        return missing
    alpha, beta = measured_cost(measured)
    for name in run.inputs["formulas"][0]["measured"]:
        took = [elapsed(measured, pair(f"{name} {nbytes}")) for nbytes in SIZES]
        model = [
            all_reduce_seconds(ALGORITHMS[name], nbytes, run.world_size, Cost(alpha, beta))
            for nbytes in SIZES
        ]
        right = took if error(model, took) <= WITHIN else model
        for value in run.values:
            terms = value["terms"][name]
            if not all(is_number(term) for term in itertools.chain.from_iterable(terms)):
                return Problem(f"{name} does not return a number", "types")
            said = [messages * alpha + nbytes * beta for messages, nbytes in terms]
            if not error(said, right) <= WITHIN * (1 + 1e-6):
                seconds, predicted = (
                    " and ".join(f"{t * 1e3:.1f} ms" for t in times) for times in (took, said)
                )
                first = closed_form(name)(run)
                return Problem(
                    f"{name} of 64 kB and 192 kB took {seconds}; with what was measured between "
                    f"two ranks, your function says {predicted}",
                    first.hint if first else "curve",
                )
    return None


def no_seconds(run: Run) -> Problem | None:
    """A Problem where a function returns no number of seconds: such predict nothing anywhere."""
    for value in run.values:
        for name, costs in value["said"].items():
            numbers = [*itertools.chain.from_iterable(costs)]
            if not all(is_number(each) and math.isfinite(each) for each in numbers):
                return Problem(f"{name} does not return a number", "types")
    return None


def measured_cost(measured: Evidence) -> tuple[float, float]:
    """α from a short message and its answer, β from a train of long ones, in the same launch."""
    alpha = elapsed(measured, pair("α")) / 2
    train = elapsed(measured, pair("β")) - (TRAIN + 1) * alpha
    return alpha, train / (TRAIN * SIZES[0])


def pair(name: str) -> tuple[str, str]:
    return name, f"{name} done"


def error(said: list[float], took: list[float]) -> float:
    """The median of the relative errors."""
    return median(abs(s / t - 1) for s, t in zip(said, took, strict=True))


CHECK = Check(
    id="alpha_beta",
    title="What an all-reduce costs",
    names=tuple(ALGORITHMS),
    to_write="the four formulas",
    allowed=ANYTHING,
    inputs=inputs,
    expect=expect,
    stages=(
        Stage(
            "measured",
            measure,
            world=lambda world_size: world_size if world_size in MEASURED_AT else 0,
            with_answer=False,
            link="100mbit",
        ),
        Stage("formulas", drive),
    ),
    timed_at=MEASURED_AT,
    claims=(
        Claim("naive: everything through rank 0's link", 2, closed_form("naive")),
        Claim("tree: up a binomial tree and down again", 2, closed_form("tree")),
        Claim("ring: parts around a ring, twice", 2, closed_form("ring")),
        Claim(
            "halving-doubling: half, a quarter, ... and back", 2, closed_form("halving_doubling")
        ),
        Claim("they predict what is measured over a slow link", 2, predicts_the_curve),
    ),
    hints={
        "start": "Draw 4 ranks. Which of them has most to do? Count three things there: "
        "messages, one after the other (times alpha); the bytes of these messages (times beta); "
        "bytes that it adds up (times gamma). What is sent while something else is received "
        "counts once.",
        "latency": "Each message pays its latency, and a step cannot begin before the last one is "
        "over: count the messages that the busiest rank sends or receives one after the other. A "
        "ring has 2 (p-1) steps, whatever the parts' size.",
        "levels": "In each step of a tree as many ranks again take part: 1, 2, 4, ... With 5 ranks "
        "that takes 3 steps. The number of steps is a whole number: log2, rounded up. "
        "(p - 1).bit_length() has no rounding errors.",
        "one_way": "That is half of it. The sum is made by adding up, and then everybody gets it: "
        "there and back.",
        "root": "The others may send at the same time, but rank 0 has one link: what arrives there "
        "arrives one after the other, n bytes from each of the p-1 others. The sum leaves the same "
        "way.",
        "parts": "A ring sends parts: in each of the 2 (p-1) steps a rank sends n/p bytes.",
        "halves": "What is sent gets less in each step: n/2, n/4, n/8, ... They add up to "
        "(p-1)/p · n. On the way back they double again.",
        "bytes": "The bytes of the messages that follow one another on the busiest rank: what it "
        "sends while it receives counts once, and the bytes of other ranks do not count. beta is "
        "in seconds per byte.",
        "whole": "Only whole bytes are counted. A p-th of n need not be a whole number: it is "
        "n / p, and n // p leaves the rest out.",
        "added": "One addition for each byte that arrives to be added, and none on the way back: "
        "naive adds p-1 tensors, all on rank 0; a tree one in each step up; ring and "
        "halving-doubling share the work, (p-1)/p · n on each rank.",
        "one_rank": "One rank has the sum already: no message, no byte, nothing to add.",
        "sum": "The three parts are right by themselves, and their sum is not: "
        "seconds = messages · alpha + bytes · beta + added · gamma.",
        "types": "Return the seconds as a number, in every case.",
        "curve": "Measured is an all-reduce over links of 100 Mbit/s, with alpha and beta from "
        "messages between two of the ranks. Compare the two sizes: does the time grow with the "
        "bytes as your beta part does?",
        "raised": "Start from the exception: it names a line of your answer. ranks may be 1, and "
        "nbytes no multiple of ranks.",
        "hang": "These are formulas: they send nothing.",
    },
)
