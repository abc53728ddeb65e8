"""junit.xml is valid, counts right, and has of each claim what a record has."""

import dataclasses
from collections.abc import Callable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import HealthCheck, given, settings

from hpml.grading import junit
from hpml.grading.record import Record

from .conftest import hostile_text

# What the schema of Jenkins' xUnit plugin (junit-10.xsd) allows, of the elements that we use:
# attributes (those marked * are required), and children in their order.
ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, ["testsuite"]),
    "testsuite": (
        {"name*", "tests*", "failures", "errors", "skipped", "time", "timestamp"},
        ["properties", "testcase"],
    ),
    "properties": (set(), ["property"]),
    "property": ({"name*", "value*"}, []),
    "testcase": ({"name*", "classname"}, ["skipped", "error", "failure"]),
    "failure": ({"type", "message"}, []),
    "error": ({"type", "message"}, []),
}


def parsed(records: list[Record]) -> Element:
    """The root of the file, once it has been held to `ALLOWED` and to its own counts."""
    root = ElementTree.fromstring(junit.as_xml(records))
    for element in root.iter():
        attributes, children = ALLOWED[element.tag]
        assert {name.rstrip("*") for name in attributes} >= set(element.attrib)
        assert {name[:-1] for name in attributes if name.endswith("*")} <= set(element.attrib)
        places = [children.index(child.tag) for child in element]
        assert places == sorted(places)
    for suite in [*root, root]:
        assert int(suite.get("tests")) == len(list(suite.iter("testcase")))
        assert int(suite.get("failures")) == len(list(suite.iter("failure")))
        assert int(suite.get("errors")) == len(list(suite.iter("error")))
    return root


def outcomes(root: Element) -> dict[tuple[str, str], tuple[str, str] | None]:
    return {
        (case.get("classname"), case.get("name")): (
            (case[0].tag, case[0].get("type")) if len(case) else None
        )
        for case in root.iter("testcase")
    }


def test_every_claim_is_a_test_case_of_its_person(record: Callable[..., Record]) -> None:
    root = parsed([record("ada", {"ddp": "failed"}), record("bob")])
    assert [suite.get("name") for suite in root] == ["ada", "bob"]
    assert [(s.get("tests"), s.get("failures"), s.get("errors")) for s in root] == [
        ("8", "1", "0"),
        ("8", "0", "0"),
    ]
    failure = root.find("testsuite/testcase/failure")
    assert failure.get("message") == "it came as 3 pieces"
    assert "Hint: Think of the last piece." in failure.text
    known = {
        p.get("name"): p.get("value") for p in root.iterfind("testsuite[1]/properties/property")
    }
    assert (known["earned"], known["points"], known["unsafe"]) == ("43", "45", "false")


def test_missing_is_a_failure_and_not_gradable_an_error(record: Callable[..., Record]) -> None:
    root = parsed([record(status={"ddp": "missing", "global_metrics": "not gradable"})])
    found = outcomes(root)
    assert found["ddp", "the answer as a whole"] == ("failure", "missing")
    assert found["global_metrics", "global_metrics holds this"] == ("error", "not gradable")
    assert found["process_group", "process_group holds this"] is None
    assert root[0].find("properties/property[@name='earned']") is None


def test_a_claim_that_was_not_reached_is_a_failure_of_a_type_of_its_own(
    stopped: Callable[[bool], Record],
) -> None:
    root = parsed([stopped(True)])
    assert outcomes(root) == {
        ("ddp", "ddp holds this"): ("failure", "failed"),
        ("ddp", "ddp holds that"): ("failure", "not reached"),
    }
    last = root.findall("testsuite/testcase/failure")[-1]
    assert last.get("message") == "not judged until the claim above holds"


def test_not_gradable_is_an_error_even_where_each_claim_was_judged(
    record: Callable[..., Record],
) -> None:
    (first, *_) = record().results
    held = record(results=(dataclasses.replace(first, status="not gradable"),))
    assert outcomes(parsed([held]))["process_group", "the answer as a whole"] == (
        "error",
        "not gradable",
    )


def test_a_refused_submission_is_an_error(record: Callable[..., Record]) -> None:
    root = parsed([record(results=(), refused="a.ipynb: a pipe")])
    assert outcomes(root) == {("submission", "can be read"): ("error", "refused")}


@pytest.mark.parametrize("status", ["refused", "not counted"])
def test_what_has_no_mark_is_an_error_and_there_is_no_sum(
    record: Callable[..., Record], status: str
) -> None:
    root = parsed([record(status={"ddp": status})])
    assert outcomes(root)["ddp", "the answer as a whole"] == ("error", status)
    assert root[0].find("properties/property[@name='earned']") is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(text=hostile_text)
def test_any_text_makes_valid_xml(full_of: Callable[[str], Record], text: str) -> None:
    root = parsed([full_of(text)])
    assert root.find("testsuite/testcase/failure") is not None


def test_an_empty_class_is_an_empty_file() -> None:
    assert parsed([]).get("tests") == "0"
