"""The record of one graded submission: every table, page and export is made from it.

A record is plain data. On disk it is JSON as `record.schema.json` describes it; it is validated
when it is read, since a folder of records may come from other nodes.

Every text in a record is sanitized when the record is made (`hpml.files.sanitize`), and only then:
code that writes a page or a table escapes for its own format and nothing else. No record contains
an expected value, or a seed that inputs are made from: pages made from records are handed back.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from hpml.checks.verdict import Cause, ClaimResult
from hpml.errors import UserError
from hpml.files import atomic
from hpml.files.sanitize import one_line, plain

FORMAT = "hpml-record-3"
EARLIER = ("hpml-record-1", "hpml-record-2")
SCHEMA = Path(__file__).with_name("record.schema.json")

Status = Literal["passed", "failed", "missing", "refused", "not counted", "not gradable"]
WITHOUT_MARK: tuple[Status, ...] = ("not gradable", "refused", "not counted")  # worst first

JUDGED = "an answer that can be judged"  # among the names of missed claims

LONG_TEXTS = ("answer", "printed", "svg", "message", "hint")  # others: one line
LONGEST_LINE = 2000  # characters


def _safe(entry: Any) -> dict[str, Any]:
    """The sanitized texts of a dataclass, by field."""

    def line(text: str) -> str:
        return one_line(text, LONGEST_LINE)

    safe: dict[str, Any] = {}
    for name, value in ((each.name, getattr(entry, each.name)) for each in fields(entry)):
        if isinstance(value, str):
            safe[name] = plain(value) if name in LONG_TEXTS else line(value)
        elif isinstance(value, tuple) and all(isinstance(text, str) for text in value):
            safe[name] = tuple(map(line, value))
    return safe


def _make_safe(entry: Any) -> None:
    for name, value in _safe(entry).items():
        object.__setattr__(entry, name, value)


@dataclass(frozen=True)
class Picture:
    """A picture of the evidence, as SVG made by us: what each rank did, and when."""

    title: str
    svg: str

    def __post_init__(self) -> None:
        _make_safe(self)


@dataclass(frozen=True)
class Result:
    """One exercise of one person. "missing": no answer, or only the stub; 0 points.

    "refused": a file that may hold the answer could not be read. "not counted": the answer was
    found, and does not count as it stands (two that differ, a misspelt magic). "not gradable": our
    fault. In these three there is no mark: ignore `earned`. The headline is the reason. The claims
    are those of a verdict, without expected values.
    """

    exercise: str
    title: str
    module: str  # its id, "06"
    status: Status
    points: int  # that can be had
    earned: int
    headline: str  # one sentence
    claims: tuple[ClaimResult, ...] = ()
    answer: str = ""  # the source
    where: str = ""  # "ring.ipynb, cell 4"
    # Both are of one run: one that failed, else one in which a claim did, else the last
    printed: str = ""  # what its ranks printed, some lines of each, see `hpml.checks.printed`
    pictures: tuple[Picture, ...] = ()
    attempts: int = 1
    seconds: float = 0.0
    cause: Cause = "claims"  # of the verdict, see `hpml.checks.verdict.Cause`
    world_size: int | None = None  # of the run that `printed` and `pictures` are of
    remark: str = ""  # the instructor's, see `overrides`; no record on disk has one
    digest: str = ""  # of the hand-in that the answer is from, where that is not the record's

    def __post_init__(self) -> None:
        _make_safe(self)
        claims = tuple(replace(claim, **_safe(claim) | {"expected": ""}) for claim in self.claims)
        object.__setattr__(self, "claims", claims)

    @property
    def has_mark(self) -> bool:
        """Whether `earned` is a mark."""
        return self.status not in WITHOUT_MARK


@dataclass(frozen=True)
class Record:
    """One graded submission."""

    person: str
    digest: str  # of the submission, see `Submission.digest`
    layers: tuple[str, ...]  # of the sandbox, those that were active
    unsafe: bool  # graded outside a sandbox, because --unsafe was given
    results: tuple[Result, ...] = ()  # in the order of the course, one per exercise graded
    name: str = ""
    email: str = ""
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""  # why nothing could be read
    graded_at: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    core: bool = False  # the exercises of the core path alone, because --core was given
    earlier: tuple[str, ...] = ()  # digests of what was handed in before, see `hand_ins`
    format: str = field(default=FORMAT)

    def __post_init__(self) -> None:
        _make_safe(self)

    @property
    def points(self) -> int:
        return sum(result.points for result in self.results)

    @property
    def earned(self) -> int:
        return sum(result.earned for result in self.results)

    @property
    def complete(self) -> bool:
        """Whether every exercise could be graded."""
        return all(result.status != "not gradable" for result in self.results)

    @property
    def has_total(self) -> bool:
        """Whether every exercise has a mark, so that their sum is one."""
        return bool(self.results) and all(result.has_mark for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Plain data that `record.schema.json` describes: `earned` is None if it is not a mark."""
        earned = self.earned if self.has_total else None
        record = {**asdict(self), "points": self.points, "earned": earned}
        for result in record["results"]:
            if result["status"] in WITHOUT_MARK:
                result["earned"] = None
            for claim in result["claims"]:
                del claim["expected"]  # which is empty
        return json.loads(json.dumps(record))  # turns tuples into lists


@cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def from_json(data: Any, where: str) -> Record:
    """A record from plain data. Raises UserError, naming `where`, if it breaks the schema."""
    if isinstance(data, dict) and data.get("format") in EARLIER:
        raise UserError(
            f"{where}: a record of an earlier hpml ({data['format']}), with expected values or the "
            "class's seed in it: grade into another --out"
        )
    fault = next(iter(_validator().iter_errors(data)), None)
    if fault is not None:
        at = "/".join(map(str, fault.absolute_path)) or "the record"
        raise UserError(
            f"{where}: not a record of a graded submission: {at}: {fault.message[:120]}"
        )
    results = tuple(
        Result(
            **{
                **result,
                "earned": result["earned"] or 0,
                "claims": tuple(ClaimResult(**claim) for claim in result["claims"]),
                "pictures": tuple(Picture(**picture) for picture in result["pictures"]),
            }
        )
        for result in data["results"]
    )
    if data["person"] != one_line(data["person"]):
        raise UserError(f"{where}: not a record of a graded submission: person: not a safe name")
    kept = {key: value for key, value in data.items() if key not in ("points", "earned")}
    for key in ("layers", "files", "notes", "earlier"):
        kept[key] = tuple(kept.get(key, ()))
    return Record(**{**kept, "results": results})


def write(record: Record, folder: Path) -> Path:
    """Write the record to FOLDER/PERSON.json, atomically."""
    path = folder / f"{record.person}.json"
    text = json.dumps(record.as_json(), indent=1, ensure_ascii=False)
    write_whole(path, text.encode())
    return path


def read(path: Path) -> Record:
    """The record in a file. Raises UserError if it is not one."""
    try:
        data = json.loads(path.read_bytes(), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as a record: {str(error)[:120]}") from None
    return from_json(data, str(path))


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")  # NaN and Infinity, which Python's parser accepts


def read_folder(folder: Path) -> list[Record]:
    """All records of a folder, by person."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, and flush it to the disk."""
    atomic.write_bytes(path, data, durable=True)


def missed(records: Iterable[Record]) -> list[tuple[str, int, int, str]]:
    """Missed exercises, most missed first: (id, missed by, of how many, claim most missed).

    Of those who tried: who has no answer or no mark does not count. Nor do claims that were not
    reached: an answer of which no claim was judged lacks `JUDGED`.
    """
    tried: dict[str, int] = {}
    lost: dict[str, int] = {}
    claims: dict[str, dict[str, int]] = {}
    for record in records:
        for result in record.results:
            if not result.has_mark or result.status == "missing":
                continue
            tried[result.exercise] = tried.get(result.exercise, 0) + 1
            if result.status == "passed":
                continue
            lost[result.exercise] = lost.get(result.exercise, 0) + 1
            of = claims.setdefault(result.exercise, {})
            failed = [claim.name for claim in result.claims if claim.state == "fails"]
            for name in failed or [JUDGED] * bool(result.claims):
                of[name] = of.get(name, 0) + 1
    found = [
        (
            exercise,
            count,
            tried[exercise],
            max(claims[exercise], key=claims[exercise].__getitem__, default=""),
        )
        for exercise, count in lost.items()
    ]
    return sorted(found, key=lambda each: -each[1] / each[2])
