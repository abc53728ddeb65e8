"""Records made by hand, of a small course that is there as files."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies

from hpml.checks.verdict import ClaimResult
from hpml.course import schedule
from hpml.grading.record import Picture, Record, Result

COURSE = Path(__file__).parents[2] / "course.toml"

# What a submission may put wherever it may put text: markup that runs, what ends other formats,
# terminal escapes, a character that no file can hold, marks of direction, formulas.
HOSTILE = (
    "</pre></code></title><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "]]></failure><!--",
    "a\0b\x1b[2Jc\x07\x9b31m",
    "\ud800 alone \udfff",
    "\u202eevil\u2066 \ufeff\uffff",
    '=HYPERLINK("http://example.org")',
    "{{ 7 * 7 }}{% raw %}[bold red]",
    'a,b;"c"\r\nd\te',
)
# What a judge expected, in every claim that failed: it must not come out of a record anywhere.
EXPECTED = "4711 pieces"
hostile_text = strategies.lists(
    strategies.sampled_from(HOSTILE) | strategies.text(strategies.characters(), max_size=20),
    max_size=3,
).map("".join)


@pytest.fixture(scope="session")
def course() -> schedule.Course:
    return schedule.load(COURSE)


def _result(exercise: str, module: str, points: int, status: str, **fields: object) -> Result:
    held = {"passed": points, "failed": points - 2}.get(status, 0)
    judged = status != "not gradable"
    answered = status in ("passed", "failed", "not gradable")
    claims = (
        ClaimResult(f"{exercise} holds this", held > 0, points - 2, judged=judged),
        ClaimResult(
            f"{exercise} holds that",
            held == points,
            2,
            "" if held == points else "it came as 3 pieces",
            "" if held == points else "Think of the last piece.",
            "" if held == points else "pieces",
            None if held == points else 2,
            judged,
            EXPECTED,
        ),
    )
    made = {
        "headline": "every claim holds" if status == "passed" else f"what became of {exercise}",
        "claims": claims if answered else (),
        "answer": "" if not answered else f"%%answer {exercise}\nimport torch\n\nx = 1\n",
        "where": "work.ipynb, cell 3",
        "seconds": 1.25,
    }
    made |= {"earned": held}
    return Result(exercise, f"Title of {exercise}", module, status, points, **made | fields)


def _record(person: str = "ada", status: dict[str, str] | None = None, **fields: object) -> Record:
    """Everything of module 06 passed, but for what `status` says."""
    points = {"process_group": 10, "shard_sampler": 10, "ddp": 20, "global_metrics": 5}
    results = tuple(
        _result(exercise, "06", worth, (status or {}).get(exercise, "passed"))
        for exercise, worth in points.items()
    )
    made = {
        "digest": "ab" * 32,
        "layers": ("bubblewrap", "resource limits"),
        "unsafe": False,
        "results": results,
        "name": "Ada Lovelace",
        "email": "ada@example.org",
        "files": ("work.ipynb",),
        "graded_at": "2026-11-21T12:50:42Z",
        "seconds": 5.5,
    }
    return Record(person, **made | fields)


@pytest.fixture
def record() -> Callable[..., Record]:
    """`record(person="ada", status={"ddp": "failed"}, **fields)`: a record of module 06."""
    return _record


@pytest.fixture
def stopped() -> Callable[[bool], Record]:
    """`stopped(True)`: a record of ddp alone, whose second claim waits for its first; with False,
    both wait for the answer to run to its end."""

    def made(one_fails: bool) -> Record:
        until = "the claim above holds" if one_fails else "the answer runs to its end"
        claims = tuple(
            ClaimResult(
                f"ddp holds {which}",
                False,
                10,
                "it came as 3 pieces" if reached else f"not judged until {until}",
                reached=reached,
            )
            for which, reached in (("this", one_fails), ("that", False))
        )
        cause = "claims" if one_fails else "hang"
        result = _result("ddp", "06", 20, "failed", earned=0, claims=claims, cause=cause)
        return _record(results=(result,))

    return made


@pytest.fixture
def full_of() -> Callable[[str], Record]:
    """`full_of(text)`: a record that has `text` wherever a submission or a platform may put one."""

    def made(text: str) -> Record:
        claims = (
            ClaimResult("the name is ours", True, 8),
            ClaimResult("so is this", False, 2, text, text, "hint", 2, expected=EXPECTED),
        )
        ours = _record(status={"ddp": "missing", "global_metrics": "not gradable"})
        first, second, *others = ours.results
        first = dataclasses.replace(
            first, status="failed", earned=8, headline=text, claims=claims, answer=text,
            printed=text, where=text, pictures=(Picture(text, f"<svg>{text}</svg>"),),
        )  # fmt: skip
        return dataclasses.replace(
            ours,
            results=(first, second, *(dataclasses.replace(r, headline=text) for r in others)),
            name=text,
            email=text,
            files=(text,),
            notes=(text,),
            refused=text,
        )

    return made
