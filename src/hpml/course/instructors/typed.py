"""The commands that a class types during a module's core."""

import re

from hpml.course.instructors.core_path import CorePath

_PROGRAMS = ("./hpml", "sbatch", "squeue", "scancel", "sinfo", "eval", "source")
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_EXPLAINED = re.compile(r"\s{2,}|\s+# ")  # what comes after it says what the command does


def commands(path: CorePath) -> tuple[str, ...]:
    """What is typed in a module: the exercises' commands, and those of its core texts.

    Each once, in the lecture's order; a program's bare name in a text is no command.
    """
    texts = [piece.text for section in path.core for piece in section.pieces]
    found = [f"./hpml watch {path.module.exercise_notebook.with_suffix('.py')}"]
    for text in texts:
        for block in _BLOCK.findall(text):
            found += [_EXPLAINED.split(line.strip())[0] for line in block.splitlines()]
        found += [" ".join(code.split()) for code in _CODE.findall(_BLOCK.sub("", text))]
    typed = [each for each in found if each.startswith(_PROGRAMS) and " " in each]
    typed += [f"./hpml hint {exercise.id}" for exercise in path.module.core]
    return tuple(dict.fromkeys(typed))
