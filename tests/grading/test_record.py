"""A record is the same after a round trip through its file; what is none is refused by name."""

import dataclasses
import json
import typing
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from hpml.checks.verdict import Cause, ClaimResult
from hpml.errors import UserError
from hpml.grading import record as records
from hpml.grading.record import Picture, Record, Result

from .conftest import hostile_text

SCHEMA = json.loads(records.SCHEMA.read_text())


@given(text=hostile_text)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_record_reads_back_as_it_was_written(
    tmp_path: Path, full_of: Callable[[str], Record], text: str
) -> None:
    before = full_of(text)
    path = records.write(before, tmp_path)
    assert records.read(path) == before
    assert all(c.isprintable() or c == "\n" for c in path.read_text(encoding="utf-8"))


def _described(
    kind: type,
    schema: dict[str, Any],
    without: Set[str] = frozenset(),
    optional: Set[str] = frozenset(),
) -> None:
    """Every field of a dataclass but those `without`, and no other, is in the schema.

    The `optional` are not in records that were written before there was such a field.
    """
    fields = typing.get_type_hints(kind).keys() - without
    derived = {"points", "earned"} if kind is Record else set()
    assert set(schema["properties"]) == fields | derived
    assert set(schema["required"]) == set(schema["properties"]) - optional
    assert schema["additionalProperties"] is False


def test_the_schema_has_every_field_and_no_other() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    result = SCHEMA["properties"]["results"]["items"]
    _described(Record, SCHEMA, optional={"core", "earlier"})
    _described(Result, result, optional={"world_size", "remark", "digest"})
    claim = result["properties"]["claims"]["items"]
    _described(ClaimResult, claim, without={"expected"}, optional={"reached"})
    _described(Picture, result["properties"]["pictures"]["items"])
    assert set(result["properties"]["status"]["enum"]) == set(typing.get_args(records.Status))
    assert set(result["properties"]["cause"]["enum"]) == set(typing.get_args(Cause))


def test_a_record_from_before_some_fields_is_read(record: Callable[..., Record]) -> None:
    data = record().as_json()
    for result in data["results"]:
        del result["world_size"], result["remark"], result["digest"]
        for claim in result["claims"]:
            del claim["reached"]
    del data["core"], data["earlier"]
    assert records.from_json(data, "here") == record()


def test_the_sums_are_written_too(record: Callable[..., Record]) -> None:
    data = record(status={"ddp": "failed", "global_metrics": "missing"}).as_json()
    assert (data["earned"], data["points"]) == (38, 45)


@pytest.mark.parametrize("status", records.WITHOUT_MARK)
def test_what_has_no_mark_has_no_number(
    record: Callable[..., Record], tmp_path: Path, status: str
) -> None:
    without = record(status={"ddp": status})
    data = json.loads(records.write(without, tmp_path).read_text())
    by_id = {result["exercise"]: result["earned"] for result in data["results"]}
    assert (data["earned"], by_id["ddp"]) == (None, None)
    assert by_id["process_group"] > 0
    read = records.read(tmp_path / "ada.json")
    assert not read.has_total
    assert {result.exercise: result.earned for result in read.results}["ddp"] == 0


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data.pop("person"), "'person' is a required property"),
        (lambda data: data.update(person="../ada"), "person: '../ada' does not match"),
        (lambda data: data.update(person=".."), "person: '..' does not match"),
        (lambda data: data.update(person="ada\x1b[2J"), "person: not a safe name"),
        (lambda data: data.update(unsafe="no"), "unsafe: 'no' is not of type 'boolean'"),
        (lambda data: data.update(format="hpml-record-9"), "format: 'hpml-record-3' was expected"),
        (lambda data: data["results"][2].update(status="great"), "results/2/status: 'great'"),
        (lambda data: data["results"][0].update(earned=-1), "results/0/earned: -1 is less"),
        (lambda data: data["results"][0].update(bonus=5), "'bonus' was unexpected"),
        (
            lambda data: data["results"][1]["claims"][0].pop("judged"),
            "results/1/claims/0: 'judged'",
        ),
    ],
)
def test_what_the_schema_does_not_have_is_refused_by_name(
    record: Callable[..., Record], tmp_path: Path, damage: Callable[[dict], None], says: str
) -> None:
    data = record().as_json()
    damage(data)
    path = tmp_path / "ada.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UserError) as refusal:
        records.read(path)
    assert str(path) in str(refusal.value)
    assert says in str(refusal.value)


@pytest.mark.parametrize("earlier", records.EARLIER)
def test_a_record_of_an_earlier_form_is_refused_in_one_line(
    record: Callable[..., Record], tmp_path: Path, earlier: str
) -> None:
    path = tmp_path / "ada.json"
    path.write_text(json.dumps({**record().as_json(), "format": earlier}))
    with pytest.raises(UserError, match=r"ada\.json: a record of an earlier hpml .*another --out"):
        records.read(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 10**6, b"NaN"])
def test_what_is_not_json_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ada.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"ada\.json: cannot be read as a record"):
        records.read(path)


def test_a_failed_write_leaves_the_file_that_was_there(
    record: Callable[..., Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = records.write(record(), tmp_path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hpml.files.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        records.write(record(name="Another"), tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ada.json"]


def test_the_most_missed_come_first_with_the_claim_that_was_missed(
    record: Callable[..., Record],
) -> None:
    class_ = [
        record("a", {"ddp": "failed", "shard_sampler": "not gradable"}),
        record("b", {"ddp": "failed", "shard_sampler": "failed"}),
        record("c", {"ddp": "missing"}),
        record("d"),
    ]
    assert records.missed(class_) == [
        ("ddp", 2, 3, "ddp holds that"),
        ("shard_sampler", 1, 3, "shard_sampler holds that"),
    ]


def test_what_was_not_reached_is_kept_and_is_not_among_what_was_missed(
    record: Callable[..., Record], stopped: Callable[[bool], Record], tmp_path: Path
) -> None:
    one, none = stopped(True), stopped(False)
    assert records.read(records.write(one, tmp_path)) == one
    assert records.missed([one, one, none]) == [("ddp", 3, 3, "ddp holds this")]
    assert records.missed([one, none, none]) == [("ddp", 3, 3, "an answer that can be judged")]


def test_a_record_with_an_ungradable_part_is_not_complete(record: Callable[..., Record]) -> None:
    assert record().complete
    ungraded = record(status={"ddp": "not gradable"})
    assert not ungraded.complete
    assert dataclasses.replace(ungraded, results=ungraded.results[:2]).complete
