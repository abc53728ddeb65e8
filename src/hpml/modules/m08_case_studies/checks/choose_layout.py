"""Exercise choose_layout: data × tensor × pipeline × sharding, by memory and time.

`nbytes(model, layout)`, `seconds(model, cluster, layout)` and `choose(model, cluster) -> layout` or
None. Models and clusters are drawn (`_layout_cases.py`); the cost model is in `_layout_model.py`.
"""

import math
import random
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m08_case_studies.checks._layout_cases import (
    NARROW,
    all_found,
    cases,
    drawn_cluster,
    drawn_model,
)
from hpml.modules.m08_case_studies.checks._layout_hints import HINTS
from hpml.modules.m08_case_studies.checks._layout_model import (
    DATA_MISTAKES,
    KEYS,
    MEMORY_MISTAKES,
    SLOT_MISTAKES,
    illegal,
    layouts,
    nbytes,
    seconds,
)
from hpml.modules.m08_case_studies.checks._layout_picture import layout_picture
from hpml.modules.m08_case_studies.checks._returned import exception_in_words, returned

EXACT = 1e-4  # of a value: float32 has more than this
FASTEST = 1e-9  # of the best seconds
SEEN = 1e-2  # each mistake changes some call by so much
SAMPLED = 4  # layouts of each model in the calls

Call = list[Any]  # the arguments: model, layout, or model, cluster, layout


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For the only rank: the arguments of each function's calls, by claim."""
    draw = random.Random(seed + 1)
    return [
        {
            "memory": [[model, one] for model, _, one in _calls(draw, memory, MEMORY_MISTAKES)],
            "slots": _calls(draw, _alone, SLOT_MISTAKES),
            "data": _calls(draw, _shared, DATA_MISTAKES),
            "choices": [[case.model, case.cluster] for case in cases(seed)],
        }
    ]


def memory(model: Any, cluster: Any, layout: Any, wrong: str = "") -> float:
    return nbytes(model, layout, wrong)


def _alone(model: Any, cluster: Any, layout: Any, wrong: str = "") -> float:
    """The seconds of layouts of one copy."""
    return seconds(model, cluster, layout, wrong) if layout["data"] == 1 else math.nan


def _shared(model: Any, cluster: Any, layout: Any, wrong: str = "") -> float:
    """The seconds of layouts of several copies."""
    return seconds(model, cluster, layout, wrong) if layout["data"] > 1 else math.nan


def _calls(draw: random.Random, price: Callable[..., float], mistakes: Sequence[str]) -> list[Call]:
    """Layouts of some models, in which each of the mistakes changes something."""
    calls: list[Call] = []
    unseen = set(mistakes)
    models = 0
    while unseen or models < 5:
        model, cluster = drawn_model(draw), drawn_cluster(draw)
        if not models % 3:  # a block of 4 fits into a node of 6, but does not divide it
            model |= {"heads": 24, "width": 24 * 64}
            cluster |= {"per_node": 6, "ranks": 24}
        legal = [
            one for one in layouts(model, cluster) if not math.isnan(price(model, cluster, one))
        ]
        fresh = [[model, cluster, one] for one in draw.sample(legal, min(SAMPLED, len(legal)))]
        shown = {
            wrong
            for wrong in unseen
            for call in fresh
            if abs(price(*call, wrong) / price(*call) - 1) > SEEN
        }
        if shown or models < 5:
            unseen -= shown
            calls += fresh
            models += 1
    return calls


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


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, list[float]]:
    """What each call of a formula should return. The best layouts are in the cases."""
    given = inputs[0]
    return {
        "memory": [nbytes(*call) for call in given["memory"]],
        "slots": [seconds(*call) for call in given["slots"]],
        "data": [seconds(*call) for call in given["data"]],
    }


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EXACT)


def in_words(layout: dict[str, int]) -> str:
    sizes = ", ".join(f"{key} {layout[key]}" for key in KEYS[:4])
    count = layout["micro_batches"]
    return f"{sizes}, {count} micro-batch{'es' if count > 1 else ''}"


def _model_in_words(model: dict[str, int]) -> str:
    size = f"{model['layers']} layers of width {model['width']}"
    return f"{size}, {model['sequences']} sequences of {model['tokens']}"


def judged(
    run: Run, claim: str, name: str, mistakes: Sequence[str], price: Callable[..., float]
) -> Problem | None:
    """The first value of this claim's calls that is wrong, as a Problem; or None."""
    calls, due = run.inputs[0][claim], run.expected[claim]
    got = returned(run, claim, name, len(calls))
    if isinstance(got, Problem):
        return got
    for call, value, right in zip(calls, got, due, strict=True):
        where = f"{name}, {_model_in_words(call[0])}, {in_words(call[-1])}"
        if len(call) == 3:
            where += f" on {call[1]['ranks']} ranks, {call[1]['per_node']} a node"
        if not is_number(value):
            return Problem(f"{where}: {described(value)}, not a number", "types")
        if same(value, right):
            continue
        numbers = all(is_number(one) for one in got)
        hint = next(
            (
                wrong.split(":")[0]
                for wrong in mistakes
                if numbers
                and all(same(g, price(*c, wrong)) for c, g in zip(calls, got, strict=True))
            ),
            claim,
        )
        return Problem(f"{where}: {value:.6g}", hint, f"{right:.6g}")
    return None


def judge_memory(run: Run) -> Problem | None:
    return judged(run, "memory", "nbytes", MEMORY_MISTAKES, nbytes)


def judge_slots(run: Run) -> Problem | None:
    return judged(run, "slots", "seconds", SLOT_MISTAKES, seconds)


def judge_data(run: Run) -> Problem | None:
    problem = judged(run, "data", "seconds", DATA_MISTAKES, seconds)
    return problem and (judge_slots(run) or problem)  # a step with several copies has slots too


def _prices(run: Run) -> Problem | None:
    return judge_memory(run) or judge_slots(run) or judge_data(run)


def _chosen(run: Run) -> list[dict[str, int] | None] | Problem:
    """The answer's layouts, each legal or None; or why they cannot be judged."""
    planted = cases(run.seed)
    got = returned(run, "choices", "choose", len(planted))
    if isinstance(got, Problem):
        return got
    for case, one in zip(planted, got, strict=True):
        if one is None:
            continue
        if not isinstance(one, dict) or not all(
            isinstance(one.get(key), int) and not isinstance(one[key], bool) for key in KEYS
        ):
            return Problem(f"choose returned {described(one)}, not a layout with ints", "types")
        if any(abs(one[key]) > 10**6 for key in KEYS):
            return Problem("choose returned a layout with a size beyond a million", "ranks")
        if wrong := illegal(case.model, case.cluster, one):
            model, cluster = case.model, case.cluster
            where = f"{in_words(one)} for {cluster['ranks']} ranks, {_model_in_words(model)}"
            return Problem(f"not legal: {where}, {model['heads']} heads", wrong)
    return got


def _narrowed(run: Run, got: Sequence[dict[str, int] | None]) -> str | None:
    """How the answer narrows its search, if that explains all that it chose; or None."""
    rest = dict(NARROW)
    for case, one in zip(cases(run.seed), got, strict=True):
        found = all_found(case.model, case.cluster)
        took = None if one is None else seconds(case.model, case.cluster, one)
        for name in list(rest):
            left = [
                other
                for other in NARROW[name](found, case.cluster)
                if other.nbytes <= case.cluster["memory"]
            ]
            due = min((other.seconds for other in left), default=None)
            if (due is None) != (took is None) or (took is not None and not same(took, due)):
                del rest[name]
    return next((name.split(":")[0] for name in rest), None)


def judge_fits(run: Run) -> Problem | None:
    got = _chosen(run)
    if isinstance(got, Problem):
        return got
    pairs = list(zip(cases(run.seed), got, strict=True))
    for case, one in sorted(pairs, key=lambda pair: pair[0].best is None):
        where = f"{_model_in_words(case.model)}, on {case.cluster['ranks']} ranks with "
        where += f"{case.cluster['memory']:.3g} bytes"
        if one is None and case.best is not None:
            hint = _narrowed(run, got) or "gave_up"
            return _prices(run) or Problem(f"{where}: None, and a layout fits", hint)
        if one is not None and (need := nbytes(case.model, one)) > case.cluster["memory"]:
            hint = "none" if case.best is None else "fits"
            seen = f"{where}: {in_words(one)} takes {need:.3g} bytes"
            return judge_memory(run) or Problem(seen, hint)
    return None


def judge_fastest(run: Run) -> Problem | None:
    if problem := judge_fits(run):
        return problem
    got = _chosen(run)
    assert not isinstance(got, Problem)
    for case, one in zip(cases(run.seed), got, strict=True):
        if one is None or case.best is None:
            continue
        took = seconds(case.model, case.cluster, one)
        if took > case.best * (1 + FASTEST):
            narrow = _narrowed(run, got)
            where = f"{_model_in_words(case.model)}, on {case.cluster['ranks']} ranks, "
            where += f"{case.cluster['per_node']} a node: {in_words(one)} takes {took:.4g} s"
            return _prices(run) or Problem(
                where, narrow or "slower", f"a layout that takes {case.best:.4g} s"
            )
    return None


CHECK = Check(
    id="choose_layout",
    title="How to split a model over a cluster",
    names=("nbytes", "seconds", "choose"),
    to_write="the bytes and the seconds of a layout, and the search for the fastest that fits",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
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
