"""Whose file it is: how learning platforms, nbgrader and plain folders name submissions.

Only the part of a path that the platform wrote identifies a person. The person chose the names
below it, and they are ignored: nobody can hand in a file in another's name.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from hpml.files.sanitize import one_line

LONGEST = 80  # characters of a person's name as a file's
_BYTES = 200  # of the same: file systems allow 255, and an ending comes after it

# Moodle, mod/assign/classes/downloader.php (once in locallib.php): full name with underscores made
# spaces, "_", participant id, "_assignsubmission_", plugin; then "/" (older: "_/") where it makes
# folders, and "_" and the file's name where it does not. A default team has no id.
_MOODLE = re.compile(
    r"(?P<name>[^_]+)(?:_(?P<id>\d+))?_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL
)

# Canvas, lib/content_zipper.rb: sortable name in small letters, of word characters alone,
# "_LATE" where it was, user id, attachment id, the file's name. Marked anonymously, the name and id
# are anon_ and five letters or digits.
_CANVAS = re.compile(
    r"(?P<late_anonymous>LATE_)?(?P<anonymous>anon_[A-Za-z0-9]{5})_\d+_.+"
    r"|(?P<name>\w+?)(?P<late>_LATE)?_(?P<id>\d+)_\d+_.+",
    re.DOTALL,
)

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


@dataclass(frozen=True)
class Owner:
    """A person, as named by a file's path. Equal `key`: same person."""

    key: str
    name: str = ""
    email: str = ""
    late: bool = False  # marked by the platform


def owner(entry: str, stem: str) -> Owner:
    """The owner of a file or folder that lies directly in the folder of a class.

    `entry` is its name, `stem` the same without the ending of a file.
    """
    if found := _MOODLE.fullmatch(entry):
        name = found["name"].strip()
        return Owner(f"{name}_{found['id']}" if found["id"] else name, name=one_line(name))
    if found := _CANVAS.fullmatch(entry):
        if found["anonymous"]:
            return Owner(found["anonymous"], late=bool(found["late_anonymous"]))
        name = found["name"]
        return Owner(f"{name}_{found['id']}", name=one_line(name), late=bool(found["late"]))
    email = stem if _EMAIL.fullmatch(stem) else ""
    return Owner(stem, email=one_line(email))


def safe_names(keys: Iterable[str]) -> dict[str, str]:
    """A file name for each key: letters, digits and `.-_@+`, never empty, hidden or an option.

    No two are equal when case is ignored. They depend only on the set of keys.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in sorted(set(keys)):
        number, ending = 1, ""
        while (name := _fitting(key, ending)).casefold() in taken:
            number += 1
            ending = f"_{number}"
        taken.add(name.casefold())
        names[key] = name
    return names


def _fitting(key: str, ending: str) -> str:
    # NFC, since a combining accent on its own is not a letter.
    name = re.sub(r"[^\w.@+-]+", "_", unicodedata.normalize("NFC", key)).strip("._-+ ")
    name = (name or "unnamed")[: LONGEST - len(ending)]
    while len(name.encode()) > _BYTES:
        name = name[:-1]
    return name.rstrip(".") + ending
