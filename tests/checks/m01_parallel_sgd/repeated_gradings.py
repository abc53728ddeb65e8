"""Grade one exercise's solution and its wrong answers again and again: is luck in it?

    python tests/checks/m01_parallel_sgd/repeated_gradings.py async_sgd --times 50 --busy 4

Prints, for each answer, how often it passed and with which hints it failed. Ends with 1 where the
solution failed once, a wrong answer passed once, or one failed with another hint than its own.
`--busy` keeps that many processes computing meanwhile. Not a test: it takes minutes.
"""

import argparse
import multiprocessing
import sys
from collections import Counter

from hpml.checks import judge
from hpml.course import schedule, wrong_answers


def spin() -> None:
    while True:
        pass


def hint_of(exercise: str, source: str) -> str:
    """The hint of the first claim that fails, "passed", or the verdict's status."""
    verdict = judge(exercise, source)
    if verdict.status != "failed":
        return verdict.status
    return next(claim.hint_key for claim in verdict.claims if not claim.passed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercise")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    wanted = {"solution": "passed"}
    course = schedule.load()
    solution = wrong_answers.solution(course, options.exercise)
    sources = {"solution": solution}
    for wrong in wrong_answers.read(course, options.exercise):
        sources[wrong.name] = wrong.answer(solution)
        wanted[wrong.name] = wrong.hint
    if options.only:
        sources = {name: sources[name] for name in options.only}
    seen = {name: Counter() for name in sources}
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.busy)]
    for process in busy:
        process.start()
    try:
        for time in range(1, options.times + 1):
            for name, source in sources.items():
                seen[name][hint_of(options.exercise, source)] += 1
            odd = {n: dict(c) for n, c in seen.items() if set(c) != {wanted[n]}}
            print(f"{time} of {options.times}: {odd or 'as they should be'}", flush=True)
    finally:
        for process in busy:
            process.kill()
    for name, count in seen.items():
        print(f"{name:30} wanted {wanted[name]:12} {dict(count)}")
    return int(any(set(count) != {wanted[name]} for name, count in seen.items()))


if __name__ == "__main__":
    sys.exit(main())
