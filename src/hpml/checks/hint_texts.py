"""Hints as they stand in the checks' files, read without importing them, since checks import torch.

Read are constants: strings, their sums, dicts of them, and names for any, also of another file.
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hpml.checks import registry

STEPS = ("second", "nearly")  # after "start": what to ask oneself, and nearly the lines
GENERAL = "hpml.checks.run_check"
_PACKAGE = Path(__file__).parents[1]


class NotConstant(ValueError):
    """What was to be read is not a constant."""


def general() -> Mapping[str, str]:
    """The hints for a failed launch, where a check has none of its own."""
    return _dict_in(GENERAL, ast.Name("GENERAL_HINTS"))


def of(exercise: str) -> Mapping[str, str]:
    """The hints of an exercise's check, by their keys. UserError for an unknown exercise."""
    module = registry.module_of(exercise)
    try:
        return _dict_in(module, _keyword_of_check(module))
    except NotConstant:  # a check may make them in any way: then it is imported
        return registry.find(exercise).hints


def steps(exercise: str) -> Mapping[str, str]:
    """How to go on, by STEPS: before anything is tried, or when all hints on what failed are read.

    They are in `_steps.py` beside the checks of a module, and no judge names them. Empty where
    nobody has written them yet.
    """
    module = f"{registry.module_of(exercise).rpartition('.')[0]}._steps"
    if not _is_here(module):
        return {}
    found = _named(module, "STEPS")
    return found.get(exercise, {}) if isinstance(found, dict) else {}


def _dict_in(module: str, node: ast.expr) -> dict[str, str]:
    found = _value(module, node)
    if not isinstance(found, dict):
        raise NotConstant(ast.unparse(node))
    return found


def _keyword_of_check(module: str) -> ast.expr:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
            for keyword in node.keywords:
                if keyword.arg == "hints":
                    return keyword.value
    raise NotConstant(f"{module} has no Check(…, hints=…)")


def _value(module: str, node: ast.expr) -> Any:
    """A text, or texts by name, to any depth."""
    if isinstance(node, ast.Name):
        return _named(module, node.id)
    if isinstance(node, ast.Dict):
        found: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            read = _value(module, value)
            found |= read if key is None else {_value(module, key): read}
        return found
    if isinstance(node, ast.Subscript):
        return _value(module, node.value)[_value(module, node.slice)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _value(module, node.left) + _value(module, node.right)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise NotConstant(f"{module}, line {node.lineno}: {ast.unparse(node)}")


def _named(module: str, name: str) -> Any:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return _value(module, node.value)
        elif isinstance(node, ast.ImportFrom) and node.module and _is_here(node.module):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _named(node.module, alias.name)
    raise NotConstant(f"{module}: {name}")


def _is_here(module: str) -> bool:
    return _file(module).is_file()


def _file(module: str) -> Path:
    return _PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_file(module).read_bytes())
