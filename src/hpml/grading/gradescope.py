"""A record in the format of Gradescope's autograder: results.json, one folder per person.

The format: gradescope-autograders.readthedocs.io, "Autograder specifications", "Output format".
Every claim is a test case. Texts are sent as "text", which Gradescope escapes.

Where an exercise has no mark, there is no results.json: a Gradescope mark is always a number, and a
missing file is shown as a failure of the autograder. no_mark.txt gives the reason.
"""

import json
from pathlib import Path
from typing import Any, Literal

from hpml.files.sanitize import cut, short
from hpml.grading.marks import CORE, UNSAFE
from hpml.grading.record import Record, Result, write_whole

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]
LONGEST = 4000  # characters of one test's output


def results(record: Record, visibility: Visibility = "visible") -> dict[str, Any]:
    """The content of results.json. Raises ValueError if an exercise has no mark."""
    if not record.has_total:
        raise ValueError(f"{record.person} has no total yet: an exercise has no mark")
    remarks = [
        f"{UNSAFE}." if record.unsafe else "",
        f"{CORE.capitalize()}." if record.core else "",
        *record.notes,
    ]
    tests = [
        test
        for number, result in enumerate(record.results, 1)
        for test in _tests(result, str(number))
    ]
    return {
        "score": float(record.earned),
        "execution_time": round(record.seconds),
        "output": "\n".join(line for line in remarks if line),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "extra_data": {"person": record.person, "digest": record.digest, "unsafe": record.unsafe},
        "tests": tests,
    }


def write(record: Record, folder: Path, visibility: Visibility = "visible") -> Path:
    """Write FOLDER/PERSON/results.json, or no_mark.txt instead; returns the path."""
    home = folder / record.person
    home.mkdir(parents=True, exist_ok=True)
    marks, none = home / "results.json", home / "no_mark.txt"
    if record.has_total:
        text = json.dumps(results(record, visibility), indent=1, ensure_ascii=False)
        write_whole(marks, text.encode())
        none.unlink(missing_ok=True)
        return marks
    without = [result for result in record.results if not result.has_mark]
    lines = [f"{each.exercise}: {each.status}: {short(each.headline)}\n" for each in without]
    write_whole(none, "".join(lines or [f"refused: {short(record.refused)}\n"]).encode())
    marks.unlink(missing_ok=True)  # of an earlier run
    return none


def _tests(result: Result, number: str) -> list[dict[str, Any]]:
    """A test per claim; one in all where there are none or their points are not the mark."""
    made = sum(claim.earned for claim in result.claims)
    worth = sum(claim.points for claim in result.claims)
    if not result.claims or (made, worth) != (result.earned, result.points):
        why = "" if result.status == "passed" else result.headline
        output = "\n".join(filter(None, (why, result.remark)))
        return [_test(number, result.title, result.earned, result.points, output, result)]
    return [
        _test(
            f"{number}.{place}",
            f"{result.title}: {claim.name}",
            claim.earned,
            claim.points,
            "\n".join(
                part
                for part in (
                    result.headline if place == 1 and result.status != "passed" else "",
                    result.remark if place == 1 else "",
                    f"– {claim.message}" if claim.state == "not reached" else claim.message,
                    f"Hint: {claim.hint}" if claim.hint else "",
                )
                if part
            ),
            result,
        )
        for place, claim in enumerate(result.claims, 1)
    ]


def _test(
    number: str, name: str, earned: int, points: int, output: str, result: Result
) -> dict[str, Any]:
    return {
        "number": number,
        "name": short(name),
        "score": float(earned),
        "max_score": float(points),
        "status": "passed" if earned == points else "failed",
        "output": cut(output, LONGEST),
        "tags": [f"module {result.module}", result.exercise],
    }
