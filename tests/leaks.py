"""Whether a judge's message gives away what was expected, which is for `Problem.expected` alone.

All of a class has the inputs of one seed, and messages are handed back after grading. So no figure
that an answer should have computed may stand in one, whatever the judge's wording: neither one of
the problem's `expected`, nor one of the run's. Figures that the inputs have, or that the answer
itself returned or printed, tell nobody anything new.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.kits.drawn import BY_CHOICE, MISTAKES

TELLING = 3  # digits or letters; what is shorter is there by chance
# Wording of a target: what is expected has a field of its own
WORDING = re.compile(r"\bexpected\b|\bshould (?:be|have)\b(?! there)|, not [\d('\"]|\bthere are \d")
_FIGURE = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])|'[^']*'|\"[^\"]*\"")


def watched(check: Check, leaks: list[str]) -> Check:
    """`check`, with judges that note in `leaks` every message that gives away what was expected."""

    def watching(claim: Claim) -> Claim:
        def judge(run: Run) -> Problem | CannotJudge | None:
            problem = claim.judge(run)
            if isinstance(problem, Problem) and (found := leaked(problem, run)):
                leaks.append(f"{check.id}, {claim.name}: {found} in {problem.message!r}")
            return problem

        return replace(claim, judge=judge)

    return replace(check, claims=tuple(map(watching, check.claims)))


def leaked(problem: Problem, run: Run) -> str:
    """What the message gives away; empty where it is nothing."""
    evidence = [(rank.value, rank.stdout) for e in run.stages.values() for rank in e.ranks]
    if wording := WORDING.search(_without(problem.message, _leaves(evidence))):
        return wording[0]
    figures = [figure for figure in _figures(problem.message) if _tells(figure)]
    if not figures:
        return ""
    secret = [*_figures(problem.expected), *_leaves(_right(run.expected))]
    known = [*_leaves(run.inputs), *_leaves(evidence)]
    own = [*_elements(evidence)]
    for figure in figures:
        if (
            any(_same(figure, one) for one in secret)
            and not any(_same(figure, one) or _within(figure, one) for one in known)
            and not any(_has(each, figure) for each in own)
        ):
            return figure
    return ""


def _right(expected: Any) -> Any:
    """Without what each possible choice costs, which a message says of the answer's own, and what
    usual mistakes give, which is wrong (`hpml.checks.kits.drawn`)."""
    if not isinstance(expected, Mapping):
        return expected
    aside = (BY_CHOICE, MISTAKES)
    return {key: _right(value) for key, value in expected.items() if key not in aside}


def _figures(text: str) -> list[str]:
    """Its numbers, 1,234 as 1234, and what it quotes."""
    return _FIGURE.findall(re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text))


def _without(message: str, said: Iterator[Any]) -> str:
    """The message without what the answer said itself, such as its own exception."""
    for text in said:
        if isinstance(text, str) and len(text) >= TELLING:
            message = message.replace(text, "")
    return message


def _tells(figure: str) -> bool:
    return len(re.sub(r"e[-+]?\d+$|[^\w]|^0+", "", figure.strip("-+'\"0."))) >= TELLING


def _leaves(value: Any) -> Iterator[Any]:
    """Numbers and texts in plain data. Of tensors those with one element."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, torch.Tensor | np.ndarray):
        if np.prod(value.shape) == 1:
            yield value.item()
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _elements(value: Any) -> Iterator[np.ndarray]:
    """The tensors in plain data, float64."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from _elements(each)
    elif isinstance(value, torch.Tensor):
        yield value.double().numpy()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        yield value.astype(np.float64)


def _has(tensor: np.ndarray, figure: str) -> bool:
    """Whether an element is this number, as far as its digits go."""
    if figure[0] in "'\"":
        return False
    mantissa, _, exponent = figure.partition("e")
    last = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))  # of the last digit
    return bool((np.abs(tensor - float(figure)) <= 0.51 * last).any())


def _same(figure: str, value: Any) -> bool:
    """Whether a message's figure is this value, as far as its digits go."""
    if figure[0] in "'\"":
        return isinstance(value, str) and figure.strip("'\"") == value.strip("'\"")
    try:
        digits = len(re.sub(r"e.*|\D", "", figure).lstrip("0"))
        return f"{float(value):.{digits}g}" == f"{float(figure):.{digits}g}"
    except ValueError:
        return False


def _within(figure: str, value: Any) -> bool:
    return isinstance(value, str) and figure.strip("'\"") in value
