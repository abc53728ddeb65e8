"""README.md and CONTRIBUTING.md: the table is the day's, and all that they name is there."""

import dataclasses
import re

import pytest

from hpml.course import schedule
from hpml.course.instructors import build, readme
from hpml.errors import UserError
from hpml.paths import CHECKOUT

PAGES = {page: (CHECKOUT / page).read_text("utf-8") for page in ("README.md", "CONTRIBUTING.md")}
TEXT = PAGES["README.md"]


def test_the_day_is_that_of_course_toml():
    assert readme.with_schedule(TEXT, schedule.load()) == TEXT


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(UserError, match=r"README\.md: the marks"):
        readme.with_schedule("no marks", schedule.load())


def test_every_link_leads_to_a_file_of_the_repository():
    targets = {page: re.findall(r"\]\(([^)#]+)[)#]", text) for page, text in PAGES.items()}
    assert all(targets.values())
    assert [
        (page, t) for page in PAGES for t in targets[page] if not (CHECKOUT / t).is_file()
    ] == []


def test_every_path_that_is_named_is_there():
    folders = "src|tests|notebooks|solutions|exercises|slurm|docs|packages"
    named = {
        path for text in PAGES.values() for path in re.findall(rf"`((?:{folders})/[^\s`]*)", text)
    }
    assert len(named) > 20
    # ID stands for any module's
    assert [
        path for path in sorted(named) if "ID" not in path and not any(CHECKOUT.glob(path))
    ] == []


def test_build_writes_the_table_and_its_check_notices_an_old_one(tmp_path):
    course = dataclasses.replace(schedule.load(), modules=(), root=tmp_path)
    page = tmp_path / "README.md"
    page.write_text(TEXT)
    (finding,) = build.check(course, ())
    assert str(finding) == "README.md: its table is not course.toml's: run ./hpml build"
    assert build.build(course, ()) == []
    assert page.read_text() == readme.with_schedule(TEXT, course) != TEXT
