"""The report of a day: a front page and a page for every executed notebook.

Plain files that open from a disk, without internet and without scripts. The front page shows only
what the notebooks published (`hpml.publish`) in this run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jinja2

from hpml.course import page, page_templates, picture
from hpml.course.execute import CellRun, NotebookRun
from hpml.course.run import CourseRun, Kind, page_name
from hpml.course.schedule import Exercise, Module
from hpml.doctor import Fact
from hpml.files import atomic
from hpml.publish import RESULT, SKIP, VERDICT, rounded

REASONS = 3  # in the summary, of exercises that did not pass; the others are in their table


@dataclass(frozen=True)
class Location:
    """A place in the report: a page, and a cell on it."""

    module: Module
    kind: Kind
    index: int

    @property
    def page(self) -> str:
        return f"{page_name(self.module, self.kind)}.html"

    @property
    def address(self) -> str:
        return f"{self.page}#cell-{self.index}"

    @property
    def words(self) -> str:
        return f"module {self.module.id}, {self.kind} notebook"


@dataclass(frozen=True)
class Result:
    """A published result: a figure (`picture`, a data: address), one value, or several by label."""

    name: str
    value: Any
    unit: str
    caption: str
    picture: str
    place: Location
    lead: str = ""  # the sentence above it, where the front page begins with it

    @property
    def is_drawing(self) -> bool:
        return picture.is_drawing(self.picture)


@dataclass(frozen=True)
class Skip:
    what: str
    why: str
    place: Location | None = None
    lead: bool = False


@dataclass(frozen=True)
class Lead:
    """What the front page begins with: a figure, or why this run has none."""

    title: str
    result: Result | None
    why: str = ""


@dataclass(frozen=True)
class Failure:
    """A cell that failed, or a notebook whose kernel did not start (`cell` is None)."""

    place: Location
    cell: CellRun | None
    error: str
    not_run: int  # cells after it
    kernel_log: str


@dataclass
class Collected:
    """What the notebooks of a run published, and what failed."""

    results: list[Result] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    verdicts: dict[str, tuple[dict[str, Any], Location]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def collect(run: CourseRun) -> Collected:
    """Everything published, skipped, judged and failed, in the order of the day.

    Verdicts are those of the solution notebooks: a lecture may show a wrong answer on purpose.
    """
    found = Collected()
    for module in run.modules:
        for kind, notebook in module.notebooks.items():
            results: dict[str, Result] = {}
            for index, cell in enumerate(notebook.notebook.cells):
                place = Location(module.module, kind, index)
                for data in (output.get("data", {}) for output in cell.get("outputs", [])):
                    if RESULT in data:
                        results[data[RESULT]["name"]] = _result(data, place)
                    if SKIP in data:
                        found.skips.append(_skip(data[SKIP], place))
                    if VERDICT in data and kind == "solution":
                        found.verdicts[data[VERDICT]["exercise"]] = (data[VERDICT], place)
            found.results += results.values()
            if notebook.status == "failed":
                found.failures.append(_failure(notebook, module.module, kind))
    ran = {module.module.id for module in run.modules}
    found.skips += [
        Skip(f"Module {module.id}, {module.title}", "not asked for in this run")
        for module in run.course.modules
        if module.id not in ran
    ]
    return found


def write(run: CourseRun, facts: Iterable[Fact], out: Path) -> Path:
    """Write the report of `run`, complete or interrupted, to `out`; returns the front page."""
    out.mkdir(parents=True, exist_ok=True)
    found = collect(run)
    templates = _templates()
    for module in run.modules:
        for kind, notebook in module.notebooks.items():
            shown = templates.get_template("notebook.html.j2").render(
                run=run,
                module=module.module,
                kind=kind,
                notebook=notebook,
                cells=page.cells(notebook, _links(run, notebook, out)),
                pages=_pages(run),
                here=f"{page_name(module.module, kind)}.html",
            )
            _write(out / f"{page_name(module.module, kind)}.html", shown)
    front = out / "index.html"
    by_id = {module.module.id: module for module in run.modules}
    leading = lead(run, found)
    shown = templates.get_template("index.html.j2").render(
        run=run,
        found=found,
        facts=list(facts),
        schedule=[(module, by_id.get(module.id)) for module in run.course.modules],
        exercises=_exercises(run, found),
        summary=summary(run, found),
        lead=leading,
        others=[one for one in found.results if leading is None or one is not leading.result],
    )
    _write(front, shown)
    return front


def lead(run: CourseRun, found: Collected) -> Lead | None:
    """What the front page begins with: a figure of the lecture of the module that `leads`, or in a
    few words why there is none. None for a course without such a module.
    """
    module = run.course.leading
    if module is None:
        return None
    its = Location(module, "lecture", 0).page
    for result in found.results:
        if result.lead and result.picture and result.place.page == its:
            return Lead(module.leads, result)
    lecture = next((one.notebooks["lecture"] for one in run.modules if one.module == module), None)
    skipped = [
        skip.why for skip in found.skips if skip.lead and skip.place and skip.place.page == its
    ]
    of = f"the lecture of module {module.id}"
    if lecture is None:
        why = f"module {module.id} was not asked for"
    elif skipped:
        why = skipped[-1].rstrip(".")
    elif lecture.status == "failed":
        why = f"{of} failed before it"
    elif lecture.status != "ran":
        why = f"{of} did not come so far"
    else:
        why = f"{of} did not publish it"
    return Lead(module.leads, None, why)


def all_well(run: CourseRun, found: Collected) -> bool:
    """Whether every cell ran, and every exercise was checked and passed as far as can be judged.

    On a laptop no SLURM answers, and a claim that needs one is named in the summary as not judged.
    """
    checked = all(_nothing_failed(record) for *_, record, _ in _exercises(run, found))
    return checked and all(notebook.status == "ran" for notebook in run.notebooks)


def _nothing_failed(record: dict[str, Any] | None) -> bool:
    """Whether at least one claim of a verdict's record could be judged, and all such hold."""
    judged = [claim["passed"] for claim in (record or {}).get("claims", ()) if claim["judged"]]
    return bool(judged) and all(judged)


def summary(run: CourseRun, found: Collected) -> str:
    """A few sentences: how much ran, how much passed, how long it took, and what did not pass."""
    ran = sum(cell.status == "ran" for notebook in run.notebooks for cell in notebook.cells)
    cells = sum(len(notebook.cells) for notebook in run.notebooks)
    parts = [f"{ran} of {cells} cells ran" if ran < cells else f"All {cells} cells ran"]
    exercises = _exercises(run, found)
    if exercises:
        passed = sum(
            record is not None and record["status"] == "passed" for *_, record, _ in exercises
        )
        parts.append(f"{passed} of {len(exercises)} exercises passed")
    words = ", ".join(parts) + f", in {duration(run.seconds)}."
    reasons: dict[str, list[str]] = {}
    for module, exercise, record, _ in exercises:
        if not record or record["status"] != "passed":
            why = _why_not_passed(run, found, module, record).rstrip(".")
            reasons.setdefault(why, []).append(exercise.id)
    shown = list(reasons.items())[:REASONS]
    words += "".join(f" {', '.join(ids)}: {why}." for why, ids in shown)
    if more := sum(map(len, reasons.values())) - sum(len(ids) for _, ids in shown):
        words += f" {more} more did not pass: see the report's exercises."
    return words + (" The run was interrupted." if run.interrupted else "")


def _why_not_passed(
    run: CourseRun, found: Collected, module: Module, record: dict[str, Any] | None
) -> str:
    if record:
        not_judged = [claim["message"] for claim in record["claims"] if not claim["judged"]]
        reasons = [record["headline"].rstrip("."), *dict.fromkeys(not_judged)]
        return ": ".join(filter(None, reasons)) or record["status"]
    solution = next(one.notebooks["solution"] for one in run.modules if one.module is module)
    its = f"the solution notebook of module {module.id}"
    if solution.status == "failed":
        return f"not checked, because {its} failed"
    if solution.status != "ran":
        return f"not checked, because {its} did not run to its end"
    skipped = [
        skip.why
        for skip in found.skips
        if skip.place and skip.place.module is module and skip.place.kind == "solution"
    ]
    return f"not checked: {'; '.join(dict.fromkeys(skipped))}" if skipped else "not checked"


def duration(seconds: float) -> str:
    """Format seconds: 0.4 s, 38 s, 7 min 12 s, 1 h 03 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _exercises(
    run: CourseRun, found: Collected
) -> list[tuple[Module, Exercise, dict[str, Any] | None, Location | None]]:
    return [
        (module.module, exercise, *found.verdicts.get(exercise.id, (None, None)))
        for module in run.modules
        if "solution" in module.notebooks
        for exercise in module.module.exercises
    ]


def _result(data: dict[str, Any], place: Location) -> Result:
    record = data[RESULT]
    unit, caption = record.get("unit", ""), record.get("caption", "")
    shown, above = picture.address(data), record.get("lead", "")
    return Result(record["name"], record.get("value"), unit, caption, shown, place, above)


def _skip(record: dict[str, Any], place: Location) -> Skip:
    return Skip(record["what"], record["why"], place, bool(record.get("lead")))


def _failure(notebook: NotebookRun, module: Module, kind: Kind) -> Failure:
    cell = notebook.failed
    not_run = sum(other.status == "not run" for other in notebook.cells)
    error = cell.error if cell else notebook.error
    place = Location(module, kind, cell.index if cell else 0)
    return Failure(place, cell, error, not_run, notebook.kernel_log)


def _pages(run: CourseRun) -> list[tuple[str, str]]:
    """(relative address, name) of every page, in the order of the day."""
    return [
        (f"{page_name(module.module, kind)}.html", f"{module.module.id} {kind}")
        for module in run.modules
        for kind in module.notebooks
    ]


def _links(run: CourseRun, notebook: NotebookRun, out: Path) -> Callable[[str], str]:
    """A function that maps links: to a notebook, its page; to another file, its path here."""
    pages: dict[Path, str] = {}
    for module in run.modules:
        for kind, other in module.notebooks.items():
            pages[other.path.resolve()] = f"{page_name(module.module, kind)}.html"

    def follow(url: str) -> str:
        parts = urlsplit(url)
        target = (notebook.path.parent / unquote(parts.path)).resolve()
        address = pages.get(target) or page.relative_link(target, out.resolve())
        return f"{address}#{parts.fragment}" if parts.fragment else address

    return follow


@cache
def _templates() -> jinja2.Environment:
    environment = page_templates.environment()
    environment.filters.update(duration=_unbroken_duration, rounded=rounded)
    return environment


def _unbroken_duration(seconds: float) -> str:
    return duration(seconds).replace(" ", "\N{NO-BREAK SPACE}")


def _write(path: Path, text: str) -> None:
    atomic.write_text(path, text)  # an open browser never loads half a report
