"""Records as one JUnit XML file, for continuous integration and learning platforms.

A test suite per person, a test case per claim. A claim that does not hold is a <failure>, and so is
one that was not judged until another holds (type "not reached") and a missing answer (type
"missing"): not <skipped>, since they cost their points. What has no mark is an <error> with its
status as the type: in JUnit, the test itself could not be done.
"""

from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from hpml.checks.verdict import ClaimResult
from hpml.files.sanitize import cut, short
from hpml.grading.record import Record, Result

LONGEST = 4000  # characters of one text


def as_xml(records: Iterable[Record]) -> bytes:
    """The records as JUnit XML, in UTF-8."""
    root = Element("testsuites", name="hpml grade")
    for record in records:
        _suite(root, record)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.attrib[key]) for suite in root)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in root):.3f}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(root: Element, record: Record) -> None:
    suite = SubElement(root, "testsuite", name=short(record.person))
    properties = SubElement(suite, "properties")
    for name, value in (
        ("name", record.name),
        ("email", record.email),
        ("earned", str(record.earned) if record.has_total else ""),
        ("points", str(record.points)),
        ("digest", record.digest),
        ("layers", ", ".join(record.layers)),
        ("unsafe", str(record.unsafe).lower()),
        *([("core", "true")] if record.core else []),
        *(("note", note) for note in record.notes),
        *(("remark", f"{each.exercise}: {each.remark}") for each in record.results if each.remark),
    ):
        if value:
            SubElement(properties, "property", name=name, value=short(value))
    if record.refused:
        case = SubElement(suite, "testcase", classname="submission", name="can be read")
        _outcome(case, "error", "refused", record.refused, "")
    for result in record.results:
        _cases(suite, result)
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", "0")
    suite.set("time", f"{record.seconds:.3f}")
    if record.graded_at:
        suite.set("timestamp", short(record.graded_at))


def _cases(suite: Element, result: Result) -> None:
    """A case per claim; one more for the whole answer if no claim shows the fault."""
    for claim in result.claims:
        case = SubElement(
            suite, "testcase", classname=short(result.exercise), name=short(claim.name)
        )
        kind = _kind(result, claim)
        if kind is not None:
            hint = f"Hint: {claim.hint}" if claim.hint else ""
            _outcome(case, *kind, claim.message or result.headline, f"{result.headline}\n{hint}")
    unexplained = result.status == "not gradable" and all(claim.judged for claim in result.claims)
    if unexplained or not result.claims:
        case = SubElement(
            suite, "testcase", classname=short(result.exercise), name="the answer as a whole"
        )
        if result.status != "passed":
            tag = "failure" if result.has_mark else "error"
            _outcome(case, tag, result.status, result.headline, "")


def _kind(result: Result, claim: ClaimResult) -> tuple[str, str] | None:
    """Tag and type of a claim's outcome; None if it holds."""
    if claim.passed:
        return None
    if claim.state == "not gradable":
        return "error", "not gradable"
    if claim.state == "not reached":
        return "failure", "not reached"
    return "failure", "missing" if result.status == "missing" else "failed"


def _outcome(case: Element, tag: str, kind: str, message: str, text: str) -> None:
    outcome = SubElement(case, tag, type=kind, message=short(message, 1000))
    outcome.text = cut(text.strip(), LONGEST) or None
