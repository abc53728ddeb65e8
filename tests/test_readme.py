"""README.md: its table is the day's, and its links lead somewhere."""

import dataclasses
import re

import pytest

from hpml.course import build, readme, schedule
from hpml.errors import UserError
from hpml.paths import CHECKOUT

TEXT = (CHECKOUT / "README.md").read_text(encoding="utf-8")


def test_the_day_is_that_of_course_toml():
    assert readme.with_schedule(TEXT, schedule.load()) == TEXT


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(UserError, match=r"README\.md: the marks"):
        readme.with_schedule("no marks", schedule.load())


def test_every_link_and_picture_leads_to_a_file_of_the_repository():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(targets) >= 5
    missing = [target for target in targets if not (CHECKOUT / target).is_file()]
    assert not missing


def test_build_writes_the_table_and_its_check_notices_an_old_one(tmp_path):
    course = dataclasses.replace(schedule.load(), modules=(), root=tmp_path)
    page = tmp_path / "README.md"
    page.write_text(TEXT)
    (finding,) = build.check(course, ())
    assert str(finding) == "README.md: its table is not course.toml's: run ./hpml build"
    assert build.build(course, ()) == []
    assert page.read_text() == readme.with_schedule(TEXT, course) != TEXT
