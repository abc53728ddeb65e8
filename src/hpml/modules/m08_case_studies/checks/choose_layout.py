"""Exercise choose_layout: data × tensor × pipeline × sharding, by memory and time.

`nbytes(model, layout)`, `seconds(model, cluster, layout)` and `choose(model, cluster) -> layout` or
None. Models, clusters and the cost model are planted, in the package `instructors`.
"""

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import BY_CHOICE, Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m08_case_studies.checks._layout_hints import HINTS
from hpml.modules.m08_case_studies.checks._layout_legal import KEYS, illegal
from hpml.modules.m08_case_studies.checks._layout_picture import layout_picture
from hpml.modules.m08_case_studies.checks._returned import exception_in_words, returned

PLAYS = Drawn(__package__, "choose_layout")
EXACT = 1e-4  # of a value: float32 has more than this
FASTEST = 1e-6  # of the best seconds: what is recorded is float32


def drive(answer: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """What each call returns; for a function that raises, the exception in words."""
    from copy import deepcopy

    def asked(calls: list[Any], ask: Callable[..., Any]) -> Any:
        try:
            return [plain(ask(*deepcopy(call))) for call in calls]
        except ImportError:
            raise
        except Exception as error:  # what is not written yet costs its own claims' points only
            return {"raised": exception_in_words(error, answer)}

    def plain(value: Any) -> Any:
        """A layout with numpy's ints as Python's; anything else as it is."""
        if not isinstance(value, dict):
            return value
        return {k: int(v) if hasattr(v, "__index__") else v for k, v in value.items()}

    return {
        "memory": [answer.nbytes(*deepcopy(call)) for call in given["memory"]],
        "slots": asked(given["slots"], answer.seconds),
        "data": asked(given["data"], answer.seconds),
        "choices": asked(given["choices"], answer.choose),
    }


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EXACT)


def explained(
    got: Sequence[float | None], mistakes: Sequence[tuple[str, Sequence[float | None]]]
) -> str | None:
    """The hint of the first mistake that makes all of these values, or None."""
    for hint, wrong in mistakes:
        if all(
            one is other if None in (one, other) else same(one, other)
            for one, other in zip(got, wrong, strict=True)
        ):
            return hint
    return None


def in_words(layout: dict[str, int]) -> str:
    sizes = ", ".join(f"{key} {layout[key]}" for key in KEYS[:4])
    count = layout["micro_batches"]
    return f"{sizes}, {count} micro-batch{'es' if count > 1 else ''}"


def _model_in_words(model: dict[str, int]) -> str:
    size = f"{model['layers']} layers of width {model['width']}"
    return f"{size}, {model['sequences']} sequences of {model['tokens']}"


def judged(run: Run, claim: str, name: str) -> Problem | None:
    """The first value of this claim's calls that is wrong, as a Problem; or None."""
    calls, due = run.inputs[0][claim], run.expected[claim]
    got = returned(run, claim, name, len(calls))
    if isinstance(got, Problem):
        return got
    for call, value, right in zip(calls, got, due["right"], strict=True):
        where = f"{name}, {_model_in_words(call[0])}, {in_words(call[-1])}"
        if len(call) == 3:
            where += f" on {call[1]['ranks']} ranks, {call[1]['per_node']} a node"
        if not is_number(value):
            return Problem(f"{where}: {described(value)}, not a number", "types")
        if same(value, right):
            continue
        hint = claim
        if all(is_number(one) for one in got):
            hint = explained(got, due["mistakes"]) or claim
        return Problem(f"{where}: {value:.6g}", hint, f"{right:.6g}")
    return None


def judge_memory(run: Run) -> Problem | None:
    return judged(run, "memory", "nbytes")


def judge_slots(run: Run) -> Problem | None:
    return judged(run, "slots", "seconds")


def judge_data(run: Run) -> Problem | None:
    problem = judged(run, "data", "seconds")
    return problem and (judge_slots(run) or problem)  # a step with several copies has slots too


def _prices(run: Run) -> Problem | None:
    return judge_memory(run) or judge_slots(run) or judge_data(run)


def _chosen(run: Run) -> list[dict[str, int] | None] | Problem:
    """The answer's layouts, each legal or None; or why they cannot be judged."""
    calls = run.inputs[0]["choices"]
    got = returned(run, "choices", "choose", len(calls))
    if isinstance(got, Problem):
        return got
    for (model, cluster), one in zip(calls, got, strict=True):
        if one is None:
            continue
        if not isinstance(one, dict) or not all(
            isinstance(one.get(key), int) and not isinstance(one[key], bool) for key in KEYS
        ):
            return Problem(f"choose returned {described(one)}, not a layout with ints", "types")
        if len(one) > len(KEYS):
            return Problem(
                f"choose returned a layout with {len(one)} keys", "types", f"{len(KEYS)}"
            )
        if any(abs(one[key]) > 10**6 for key in KEYS):
            return Problem("choose returned a layout with a size beyond a million", "ranks")
        if wrong := illegal(model, cluster, one):
            where = f"{in_words(one)} for {cluster['ranks']} ranks, {_model_in_words(model)}"
            return Problem(f"not legal: {where}, {model['heads']} heads", wrong)
    return got


def _priced(run: Run, got: Sequence[dict[str, int] | None]) -> list[Any]:
    """(bytes, seconds) of each of these layouts; None of None."""
    tables = run.expected["choices"][BY_CHOICE]
    return [
        None if one is None else table[tuple(one[key] for key in KEYS)]
        for table, one in zip(tables, got, strict=True)
    ]


def _narrowed(run: Run, prices: Sequence[Any]) -> str | None:
    """How the answer narrows its search, if that explains all that it chose; or None."""
    took = [price and price[1] for price in prices]
    return explained(took, run.expected["choices"]["mistakes"])


def judge_fits(run: Run) -> Problem | None:
    got = _chosen(run)
    if isinstance(got, Problem):
        return got
    calls, prices, due = run.inputs[0]["choices"], _priced(run, got), run.expected["choices"]
    cases = zip(calls, got, prices, due["right"], strict=True)
    for (model, cluster), one, price, best in sorted(cases, key=lambda case: case[3] is None):
        where = f"{_model_in_words(model)}, on {cluster['ranks']} ranks with "
        where += f"{cluster['memory']:.3g} bytes"
        if one is None and best is not None:
            hint = _narrowed(run, prices) or "gave_up"
            return _prices(run) or Problem(f"{where}: None, and a layout fits", hint)
        if one is not None and price[0] > cluster["memory"]:
            hint = "none" if best is None else "fits"
            seen = f"{where}: {in_words(one)} takes {price[0]:.3g} bytes"
            return judge_memory(run) or Problem(seen, hint)
    return None


def judge_fastest(run: Run) -> Problem | None:
    if problem := judge_fits(run):
        return problem
    got = _chosen(run)
    assert not isinstance(got, Problem)
    calls, prices, due = run.inputs[0]["choices"], _priced(run, got), run.expected["choices"]
    for (model, cluster), one, price, best in zip(calls, got, prices, due["right"], strict=True):
        if one is not None and price[1] > best * (1 + FASTEST):
            where = f"{_model_in_words(model)}, on {cluster['ranks']} ranks, "
            where += f"{cluster['per_node']} a node: {in_words(one)} takes {price[1]:.4g} s"
            return _prices(run) or Problem(
                where,
                _narrowed(run, prices) or "slower",
                f"a layout that takes {best:.4g} s",
            )
    return None


CHECK = Check(
    id="choose_layout",
    title="How to split a model over a cluster",
    names=("nbytes", "seconds", "choose"),
    to_write="the bytes and the seconds of a layout, and the search for the fastest that fits",
    allowed=ANYTHING,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    worlds=(1,),
    process_group=False,
    picture=layout_picture,
    claims=(
        Claim("a rank holds its part of the states, and live activations", 3, judge_memory),
        Claim("a step of one copy is so many slots, with what a slot sends", 3, judge_slots),
        Claim("gradients and parameters travel, and some of it is hidden", 3, judge_data),
        Claim("the choice is legal and fits, and it is None where nothing does", 2, judge_fits),
        Claim("no legal layout that fits is faster", 4, judge_fastest),
    ),
    hints=HINTS,
)
