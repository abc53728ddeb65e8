"""The page of a class: where it is now, large enough to be read from three metres.

One HTML file without scripts, that loads nothing and has itself loaded again every few seconds.
"""

import re

from markupsafe import Markup, escape

from hpml.course import page_templates
from hpml.course.instructors.class_now import ACTIVE, LONG, Now
from hpml.course.schedule import Course


def write(course: Course, now: Now, every: float) -> str:
    """The page as HTML, which a browser loads again after `every` seconds."""
    environment = page_templates.environment("hpml.course.instructors")
    environment.filters["with_code"] = _with_code
    return environment.get_template("class_page.html.j2").render(
        course=course,
        now=now,
        every=max(round(every), 1),
        active_minutes=ACTIVE.seconds // 60,
        long_minutes=LONG.seconds // 60,
        not_read=not_read(now),
        by_the_clock=by_the_clock(now),
    )


def by_the_clock(now: Now) -> str:
    """Where the core path should be, and where the class is, in a sentence."""
    planned = f"By the clock {now.over} of {len(now.core)} core exercises are over"
    if now.middle is None:
        return f"{planned}."
    return f"{planned}; half of the class has done {now.middle} or more."


def not_read(now: Now) -> str:
    """What was in the folder and is not shown, in a sentence; "" without any."""
    counted = [
        f"{number} {what}{'' if number == 1 else 's'}"
        for number, what in ((now.ignored, "line"), (now.unread, "file"))
        if number
    ]
    if not counted:
        return ""
    return f"Not read: {' and '.join(counted)}, too long, cut short, or not written by a check."


def _with_code(text: str) -> Markup:
    """Markdown's `code` as HTML's; all else as it is written."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
