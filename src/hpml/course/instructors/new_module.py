"""The skeleton of a module: its place in course.toml, its two scripts, its folder of the library.

`./hpml build` then makes its notebooks, and `./hpml course new` its exercises, one by one.
"""

import re
from pathlib import Path

from hpml.course import schedule
from hpml.course.instructors import paired, where_next
from hpml.course.instructors.new_exercise import all_or_nothing
from hpml.course.schedule import Course
from hpml.errors import UserError

ENTRY = """
[[module]]
id = "{id}"
name = "{name}"
title = "{title}"
slot = "after the day"
minutes = 45
asks = "What does it ask?"
exercises = []
"""
LECTURE = """\
# %% [markdown]
# # {id} {title}
#
# What does it ask?

# %%
# %load_ext hpml
from hpml.publish import conclude
"""
SOLUTION = """\
# %% [markdown]
# # {id} {title}: exercises
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check
"""
STEPS = '"""How to go on, by exercise: the hints after "start"."""\n\nSTEPS = {{}}\n'
ABOUT = '"""{about}"""\n'


def create(course: Course, number: str, name: str) -> list[Path]:
    """Write the skeleton at the end of the course; returns the files, relative to its root.

    Raises UserError, with nothing written, if the number or the name is taken or cannot be one, or
    if a file cannot be written.
    """
    number, title = number.zfill(2), name.replace("_", " ").capitalize()
    last = course.modules[-1].id if course.modules else "-1"
    if not re.fullmatch(r"\d\d", number) or int(number) <= int(last):
        raise UserError(f"module {number!r}: give it two digits, after {last}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(f"module {name!r}: a name is lower_case_words")
    if any(module.name == name for module in course.modules):
        raise UserError(f"module {name!r} is there already: choose another name")
    folder = Path("src/hpml/modules", f"m{number}_{name}")
    texts = {
        Path("notebooks", f"{number}_{name}.py"): LECTURE,
        Path("solutions", f"{number}_{name}.py"): SOLUTION,
        folder / "__init__.py": ABOUT.format(about=f"Module {number}, {title.lower()}."),
        folder / "checks/__init__.py": ABOUT.format(about=f"The checks of module {number}."),
        folder / "checks/_steps.py": STEPS,
        folder / "lecture/__init__.py": ABOUT.format(
            about=f"What only the lecture of module {number} shows happen."
        ),
    }
    if there := [path for path in texts if (course.root / path).exists()]:
        raise UserError(f"{there[0]} is there already: choose another name, or remove it")
    listed = course.root / "course.toml"
    entry = ENTRY.format(id=number, name=name, title=title)
    with all_or_nothing(course.root, (*texts, Path("course.toml"))):
        paired.write(listed, listed.read_text(encoding="utf-8") + entry)
        course = schedule.load(listed)
        module = course.module(number)
        for path, text in texts.items():
            made = text.format(id=number, title=title)
            if path.parent.name in ("notebooks", "solutions"):
                links = where_next.text(course, module, lecture=path.parent.name == "notebooks")
                made += "\n# %% [markdown]\n" + _commented(links)
            paired.write(course.root / path, made)
    return [*texts, Path("course.toml")]


def _commented(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
