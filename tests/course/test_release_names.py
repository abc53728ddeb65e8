"""Every command and every program that a release names, in a text or in a message, is in it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpml.course.instructors.release import File

# What follows "./hpml" where a sentence goes on: "the .venv that ./hpml makes", "run ./hpml again".
PROSE = {"again", "command", "goes", "makes", "runs"}
NAMED = re.compile(r"\./hpml +([a-z]\w*)(?: +([a-z]\w*))?")
STARTED = re.compile(r"-m[\"', ]+(hpml(?:\.\w+)*)")

ASK = """
import json, sys
from importlib.util import find_spec
import typer
from hpml.cli import COMMANDS, application

def starts(name):
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(name + ".__main__")
    except ModuleNotFoundError:
        spec = None
    return spec is not None

tree = {name: typer.main.get_command(application(name)).commands[name] for name in COMMANDS}
commands = {name: sorted(getattr(each, "commands", ())) for name, each in tree.items()}
json.dump({"commands": commands, "starts": [m for m in sys.argv[1:] if starts(m)]}, sys.stdout)
"""


def text_of(path: str, file: File) -> str:
    """A file as it is read: of a notebook, the cells' sources and outputs."""
    if not path.endswith(".ipynb"):
        return file.data.decode("utf-8", "replace")
    cells = json.loads(file.data)["cells"]
    return "\n".join(part for cell in cells for part in strings(cell))


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return ["".join(value)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in strings(each)]


def named(made: Mapping[str, File], pattern: re.Pattern[str]) -> set[tuple[str, Any]]:
    """(path, what `pattern` finds in it) for every file of text."""
    texts = {path: text_of(path, file) for path, file in made.items() if not is_packed(path)}
    return {(path, found) for path, text in texts.items() for found in pattern.findall(text)}


def missing(made: Mapping[str, File], released: Path) -> set[str]:
    """`path: what it names` of all that is not in the release."""
    modules = named(made, STARTED)
    asked = subprocess.run(
        [sys.executable, "-c", ASK, *sorted({module for _, module in modules})],
        cwd=released,
        env={**os.environ, "PYTHONPATH": str(released / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert asked.returncode == 0, asked.stderr
    there = json.loads(asked.stdout)
    lost = {f"{path}: {module}" for path, module in modules if module not in there["starts"]}
    for path, (name, second) in named(made, NAMED):
        group = there["commands"].get(name)
        if name not in PROSE and (group is None or (group and second and second not in group)):
            lost.add(f"{path}: ./hpml {name} {second}".rstrip())
    return lost


def is_packed(path: str) -> bool:
    return path.endswith((".png", ".whl"))


def test_what_a_release_names_is_there(made, released):
    assert len(named(made, NAMED)) > 50
    assert {"hpml.train", "hpml.bench.allreduce_study"} <= {
        name for _, name in named(made, STARTED)
    }
    assert missing(made, released) == set()


def test_a_name_of_what_was_left_out_would_be_noticed(released):
    lines = {
        "srun python -m hpml.bench.instructors.grade": "hpml.bench.instructors.grade",
        '"-m", "hpml.measure"': "hpml.measure",  # a package without a __main__
        "see `./hpml release`": "./hpml release",
        "then ./hpml bench attacks": "./hpml bench attacks",
        "then ./hpml bench fusion": None,
    }
    notebook = {"cells": [{"outputs": [{"text": ["first\n", line]}]} for line in lines]}
    made = {"a.slurm": "\n".join(lines), "b.ipynb": json.dumps(notebook)}
    found = missing({path: File(text.encode()) for path, text in made.items()}, released)
    assert found == {f"{path}: {name}" for path in made for name in lines.values() if name}
