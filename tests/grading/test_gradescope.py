"""results.json is what Gradescope's autograder specification asks for."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from hpml.grading import gradescope
from hpml.grading.record import Record

from .conftest import hostile_text

TEXT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
# "Output format" of gradescope-autograders.readthedocs.io/en/latest/specs. All is optional there
# but a score, at the top or with each test. Nothing else is known to it, so nothing else may be.
SCHEMA = {
    "type": "object",
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": TEXT,
        "test_output_format": TEXT,
        "test_name_format": TEXT,
        "visibility": VISIBILITY,
        "stdout_visibility": VISIBILITY,
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "name_format": TEXT,
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "output_format": TEXT,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": VISIBILITY,
                    "extra_data": {"type": "object"},
                },
                "additionalProperties": False,
            },
        },
    },
    "required": ["score", "tests"],
    "additionalProperties": False,
}


def written(record: Record, folder: Path) -> dict:
    path = gradescope.write(record, folder)
    assert path == folder / record.person / "results.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(data, SCHEMA)
    return data


def test_every_claim_is_a_test_and_they_make_the_score(
    record: Callable[..., Record], tmp_path: Path
) -> None:
    data = written(record(status={"ddp": "failed", "shard_sampler": "missing"}), tmp_path)
    assert data["score"] == 33
    assert sum(test["score"] for test in data["tests"]) == 33
    assert sum(test["max_score"] for test in data["tests"]) == 45
    assert [test["number"] for test in data["tests"]] == [
        "1.1",
        "1.2",
        "2",
        "3.1",
        "3.2",
        "4.1",
        "4.2",
    ]
    missed = data["tests"][4]
    assert (missed["status"], missed["score"], missed["max_score"]) == ("failed", 0, 2)
    assert missed["output"] == "it came as 3 pieces\nHint: Think of the last piece."
    assert missed["tags"] == ["module 06", "ddp"]
    assert data["tests"][3]["status"] == "passed"


def test_a_claim_that_was_not_reached_says_so_and_has_no_points(
    stopped: Callable[[bool], Record], tmp_path: Path
) -> None:
    first, second = written(stopped(True), tmp_path)["tests"]
    assert first["output"].endswith("\nit came as 3 pieces")
    assert second["output"] == "– not judged until the claim above holds"
    assert (second["status"], second["score"], second["max_score"]) == ("failed", 0, 10)


def test_claims_that_do_not_make_the_mark_are_not_sent_as_if_they_did(
    record: Callable[..., Record], tmp_path: Path
) -> None:
    (first, *_) = record().results
    lowered = dataclasses.replace(first, earned=4, status="failed", headline="it raced once")
    data = written(record(results=(lowered,)), tmp_path)
    assert [(test["score"], test["output"]) for test in data["tests"]] == [(4, "it raced once")]


def test_there_is_no_result_where_something_could_not_be_graded(
    record: Callable[..., Record], tmp_path: Path
) -> None:
    gradescope.write(record(), tmp_path)
    path = gradescope.write(record(status={"ddp": "not gradable"}), tmp_path)
    assert path.read_text() == "ddp: not gradable: what became of ddp\n"
    assert [file.name for file in path.parent.iterdir()] == ["no_mark.txt"]
    with pytest.raises(ValueError, match="ada has no total yet"):
        gradescope.results(record(status={"ddp": "not gradable"}))
    gradescope.write(record(), tmp_path)
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize("status", ["refused", "not counted"])
def test_what_was_refused_or_does_not_count_is_no_number(
    record: Callable[..., Record], tmp_path: Path, status: str
) -> None:
    path = gradescope.write(record(status={"ddp": status}), tmp_path)
    assert path.read_text() == f"ddp: {status}: what became of ddp\n"
    none = gradescope.write(record("bob", results=(), refused="b.ipynb: a pipe"), tmp_path)
    assert none.read_text() == "refused: b.ipynb: a pipe\n"
    assert list(tmp_path.rglob("results.json")) == []


def test_unsafe_is_said(record: Callable[..., Record], tmp_path: Path) -> None:
    data = written(record(unsafe=True), tmp_path)
    assert data["output"] == "UNSAFE: graded outside a sandbox."
    assert data["extra_data"]["unsafe"] is True


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(text=hostile_text)
def test_any_text_makes_valid_results(
    full_of: Callable[[str], Record], tmp_path: Path, text: str
) -> None:
    whole = full_of(text)
    data = written(dataclasses.replace(whole, results=whole.results[:3]), tmp_path)
    texts = [data["output"], *(test["output"] for test in data["tests"])]
    assert all(c.isprintable() or c in "\n\t" for c in "".join(texts))
    assert data["output_format"] == data["test_output_format"] == data["test_name_format"] == "text"
