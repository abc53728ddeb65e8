"""HTML pages made from records: feedback for a person, and the class for its instructor.

Each page is one file that opens from a disk and loads nothing else. No script in it can run: every
text is escaped, pictures are images in `data:` addresses, and should both fail, the page's
Content-Security-Policy forbids scripts. Records hold no expected values, so neither do pages.
"""

import base64
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from hpml.checks import render
from hpml.checks.verdict import ClaimResult
from hpml.course import page_templates
from hpml.course.schedule import Course
from hpml.files.sanitize import cut
from hpml.grading import marks
from hpml.grading.record import WITHOUT_MARK, Picture, Record, Result, missed

LONGEST = 30_000  # characters of an answer that are shown
PRINTED = 12_000  # of what it printed
MISSED = 10  # exercises in the class's list

_FORMATTER = HtmlFormatter(nowrap=True)


def person_page(record: Record, course: Course) -> str:
    """The page of feedback for one person, as HTML."""
    return _template("person.html.j2").render(
        record=record,
        course=course,
        modules=[
            (module, results)
            for module in course.modules
            if (results := [r for r in record.results if r.module == module.id])
        ],
        passed=sum(result.status == "passed" for result in record.results),
        ungraded=sum(result.status == "not gradable" for result in record.results),
        uncounted=sum(result.status in ("refused", "not counted") for result in record.results),
    )


def class_page(records: Sequence[Record], course: Course, folder: str = "feedback") -> str:
    """The page for the instructor, as HTML: the class in tables, linking to FOLDER/PERSON.html."""
    columns = marks.exercises(records, course)
    return _template("class.html.j2").render(
        records=records,
        course=course,
        folder=folder,
        columns=columns,
        rows=[(record, {r.exercise: r for r in record.results}) for record in records],
        summary=marks.summary(records),
        counts=marks.counts(records, course),
        ungraded=marks.ungraded(records),
        refused=marks.refused(records),
        unsafe=any(record.unsafe for record in records),
        missed=missed(records)[:MISSED],
    )


@cache
def _template(name: str) -> jinja2.Template:
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    # The layout (base.html.j2, with its policy) and style are those of the day's report.
    environment = page_templates.environment("hpml.grading")
    own = resources.files("hpml.grading") / "templates" / "feedback.css"
    style: Any = environment.globals["style"]
    environment.globals.update(
        style=style + Markup("\n" + own.read_text(encoding="utf-8")),
        signs=marks.SIGNS,
        unsafe_words=marks.UNSAFE,
        without_mark=WITHOUT_MARK,
    )
    environment.filters.update(
        code=_code,
        sentence=_sentence,
        image=_image,
        claims=_claims,
        address=lambda person: quote(person, safe=""),
        printed=lambda text: cut(text, PRINTED),
        total=marks.total,
        note=marks.note,
    )
    return environment


def _code(source: str) -> Markup:
    """An answer with the line numbers that messages use: the `%%answer` line is 1."""
    text = cut(source, LONGEST).rstrip("\n")
    first, newline, rest = text.partition("\n")
    if first.startswith("%%"):
        shown = Markup('<span class="magic">{}</span>').format(first) + newline
    else:
        shown, rest = Markup(""), text
    lexer = PythonLexer(stripnl=False)
    shown += Markup(highlight(rest, lexer, _FORMATTER).removesuffix("\n")) if rest else ""
    # Pygments closes its elements at the end of a line and opens them again in the next.
    return Markup("\n").join(
        Markup('<span class="line">{}</span>').format(Markup(line)) for line in shown.split("\n")
    )


def _image(picture: Picture) -> str:
    encoded = base64.b64encode(picture.svg.encode()).decode()
    return f"data:image/svg+xml;base64,{encoded}"


def _claims(result: Result) -> list[tuple[ClaimResult, str, str]]:
    """Each claim with its message and hint; what several share is given once."""
    return render.explained(result.claims, result.cause, expected=False)


def _sentence(text: str) -> str:
    """Capitalize the first letter, unless the text begins with a name from code."""
    word = text.partition(" ")[0]
    return text if "_" in word else text[:1].upper() + text[1:]
