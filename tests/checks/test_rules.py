"""What answers may import and use: the notebooks say what the checks have, and ranks refuse it."""

import ast
import importlib
from collections.abc import Iterable

import pytest
import torch

from hpml.answer.enforce import OPERATORS
from hpml.bench.instructors import honest, hostile
from hpml.checks import find, ids, judge
from hpml.checks.contract import imports_as_text
from hpml.checks.kits.ready_made import COLLECTIVES
from hpml.course import schedule
from hpml.course.instructors import paired
from hpml.paths import CHECKOUT
from hpml.ranks import flavour

COURSE = schedule.load()
MODULES = {module.id: module for module in COURSE.modules}


def imports(nodes: Iterable[ast.AST]) -> list[str]:
    """The modules that these statements import."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module)
    return names


@pytest.mark.parametrize("number", MODULES)
def test_the_first_text_of_a_notebook_says_what_its_answers_may_import(number):
    module = MODULES[number]
    cells = paired.read_script(CHECKOUT / module.solution.with_suffix(".py")).cells
    checks = [find(exercise) for exercise in sorted(exercise.id for exercise in module.exercises)]
    paragraphs = [" ".join(text.split()) for text in cells[0].source.split("\n\n")]
    assert imports_as_text(checks) in paragraphs


@pytest.mark.parametrize("exercise", ids())
def test_what_is_said_to_be_allowed_is_all_that_is_not_refused(exercise):
    check = find(exercise)
    judged = COLLECTIVES in check.not_allowed  # refused by judges, and messages are the exercise
    assert judged or "that an answer may import" in check.allowed


@pytest.mark.parametrize("exercise", ids())
def test_a_solution_imports_nothing_else(exercise, solution):
    rules = find(exercise).rules
    found = imports(ast.walk(ast.parse(solution(exercise).replace("%%", "#"))))
    assert [name for name in found if not rules.may_import(name)] == []


@pytest.mark.parametrize("read_all", [hostile.read_all, honest.read_all])
def test_hostile_and_unusual_answers_get_past_their_imports(read_all):
    # An attack that is refused at its imports no longer tries what it was written for.
    for answer in filter(lambda each: each.source, read_all()):
        rules = find(answer.exercise).rules
        statements = ast.parse(f"# {answer.source}").body
        refused = [name for name in imports(statements) if not rules.may_import(name)]
        assert refused == [], answer.name


def test_what_is_refused_by_name_is_there_under_that_name():
    for exercise in ids():
        check = find(exercise)
        if flavour.missing(check.needs):
            continue
        for ready in check.not_allowed:
            for name in ready.names:
                if name.startswith(OPERATORS):
                    space, _, operator = name.removeprefix(OPERATORS).partition(".")
                    assert hasattr(getattr(torch.ops, space), operator)
                    continue
                module, _, last = name.rpartition(".")
                found = getattr(importlib.import_module(module), last)
                # A class of C++ may be called otherwise than it is named in its module.
                own_class = isinstance(found, type) and found.__module__ == module
                assert own_class or getattr(found, "__name__", "") == last


DDP = """%%answer ddp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Wrapped


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes):
        super().__init__()
        self.wrapped = Wrapped(module)

    def forward(self, *inputs):
        return self.wrapped(*inputs)

    def synchronize(self):
        pass
"""


def test_the_verdict_says_what_was_used_and_where_and_what_may_be_used():
    verdict = judge("ddp", DDP, worlds=(1,))
    assert (verdict.status, verdict.earned, verdict.cause) == ("failed", 0, "not allowed")
    assert verdict.headline == (
        "ddp: line 9 of your answer uses DistributedDataParallel; not allowed here: "
        "DistributedDataParallel and its like (fully_shard, replicate); allowed: everything else "
        "that an answer may import, hooks of autograd and collectives too"
    )
    assert {claim.hint_key for claim in verdict.claims} == {"not_allowed"}


def test_the_verdict_says_what_was_imported_and_what_may_be():
    source = "%%answer hello_ranks\nfrom hpml.distributed_environment import read\n"
    verdict = judge("hello_ranks", source, worlds=(1,))
    assert (verdict.earned, verdict.cause) == (0, "not allowed")
    assert verdict.headline == (
        "hello_ranks: line 2 of your answer imports hpml.distributed_environment; an answer may "
        "import Python's standard library, numpy, torch and tqdm"
    )
    assert {claim.hint_key for claim in verdict.claims} == {"import"}
