"""All files made from records: tables, pages, and exports to other systems."""

from collections.abc import Callable, Sequence
from pathlib import Path

from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.files.sanitize import one_line
from hpml.grading import feedback, gradebook, gradescope, junit, marks
from hpml.grading.record import Record, write_whole


def write_all(records: Sequence[Record], course: Course, out: Path) -> list[Path]:
    """Write marks.csv, index.html, feedback/, gradescope/, junit.xml and gradebook.db into `out`.

    index.html is the instructor's; feedback/ holds a page per person, to hand back. Each file is
    written atomically. If one cannot be written, the others still are, and a UserError at the end
    names it. Returns the files written.
    """
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(name: str, data: bytes) -> None:
        write_whole(out / name, data)
        written.append(out / name)

    def pages() -> None:
        (out / "feedback").mkdir(exist_ok=True)
        for record in records:
            page = feedback.person_page(record, course)
            save(f"feedback/{record.person}.html", page.encode())

    def for_gradescope() -> None:
        for record in records:
            written.append(gradescope.write(record, out / "gradescope"))

    def for_nbgrader() -> None:
        gradebook.write(records, course, out / "gradebook.db")
        written.append(out / "gradebook.db")

    steps: dict[str, Callable[[], None]] = {
        "marks.csv": lambda: save("marks.csv", marks.as_csv(records, course).encode()),
        "feedback": pages,
        "index.html": lambda: save("index.html", feedback.class_page(records, course).encode()),
        "junit.xml": lambda: save("junit.xml", junit.as_xml(records)),
        "gradescope": for_gradescope,
        "gradebook.db": for_nbgrader,
    }
    lost = []
    for name, step in steps.items():
        try:
            step()
        except Exception as error:  # of many kinds; the other files are still written
            lost.append(f"{name} ({one_line(str(error)) or type(error).__name__})")
    if lost:
        raise UserError(
            f"{out}: could not be written: {'; '.join(lost)}: all else is there; mend it and grade "
            "again with --resume"
        )
    return written
