"""The check of optimizers: its steps are torch.optim's, and its judges find each mistake."""

from functools import cache
from types import ModuleType
from typing import Any

import pytest
import torch

from hpml.answer import as_python
from hpml.checks.contract import Run
from hpml.modules.m04_frameworks.checks._optimizer_drive import (
    CASES,
    RULES,
    STEPS,
    drive,
    in_a_row,
    tensors,
)
from hpml.modules.m04_frameworks.checks._optimizer_picture import optimizers_picture
from hpml.modules.m04_frameworks.checks.instructors import _optimizer_steps as steps
from hpml.modules.m04_frameworks.checks.instructors.optimizers import pictured
from hpml.modules.m04_frameworks.checks.optimizers import CHECK
from hpml.ranks.evidence import Evidence, RankEvidence

SEEDS = range(2)
MADE = {"NesterovSGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}


@cache
def made(seed: int) -> tuple[Any, Any]:
    """Inputs and expected values."""
    given = CHECK.inputs(seed, 1)
    return given, CHECK.expect(given, 1)


def cases(seed: int) -> dict[str, Any]:
    return made(seed)[0][0]


def run_of(value: Any, seed: int) -> Run:
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    return Run(1, seed, *made(seed), evidence, {"play": evidence})


def hints(value: Any, seed: int = 0) -> list[str]:
    found = [claim.judge(run_of(value, seed)) for claim in CHECK.claims]
    return [problem.hint if problem else "" for problem in found]


def played(source: str, seed: int) -> Any:
    """What an answer's drive returns, in this process."""
    answer = ModuleType("answer")
    answer.__file__ = "<answer>"
    exec(compile(source, "<answer>", "exec"), vars(answer))
    return drive(answer, made(seed)[0][0])


def torch_optim(rule: str, case: dict[str, Any]) -> torch.Tensor:
    """What torch.optim makes of a case: parameters after each step, float64 [STEPS, n]."""
    parameters = [
        torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in case["parameters"]
    ]
    options = case["options"] | ({"nesterov": True} if rule == "NesterovSGD" else {})
    optimizer = MADE[rule](parameters, lr=case["rates"][0], foreach=False, **options)
    after = []
    for gradients, rate in zip(case["gradients"], case["rates"], strict=True):
        optimizer.param_groups[0]["lr"] = rate
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = (
                None if gradient is None else torch.tensor(gradient, dtype=torch.float64)
            )
        optimizer.step()
        after.append(in_a_row(parameters))
    return torch.stack(after)


@pytest.mark.parametrize("rule", RULES)
def test_the_expected_steps_are_those_of_torch_optim(rule):
    for seed in SEEDS:
        for case in cases(seed)[rule].values():
            right = torch.from_numpy(steps.played(rule, case))
            assert torch.allclose(right, torch_optim(rule, case), 1e-12, 1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_every_mistake_can_be_seen_where_it_is_looked_for(rule):
    of = [(steps.OF_THE_STEP[rule], ("plain", "decay")), (steps.OF_MEMORY, ("reused",))]
    of += [(steps.OF_GAPS, ("gaps",)), (steps.OF_RATES, ("rates",))]
    of_sgd, of_adam = {"rate_in_buffer", "keeps_gradient"}, {"one_count"}
    for mistakes, names in of:
        for mistake in mistakes:
            if mistake in (of_sgd if rule != "NesterovSGD" else of_adam):
                continue
            for seed in SEEDS:
                far = []
                for name in names:
                    case = cases(seed)[rule][name]
                    wrong = steps.played(rule, case, mistake)
                    far.append(abs(wrong - steps.played(rule, case))[-1].max())
                assert max(far) > 1e-3, (mistake, seed)


@pytest.mark.parametrize(
    ("rule", "options", "after"),
    [
        ("NesterovSGD", {"momentum": 0.5}, [0.85, 0.375]),
        ("Adam", {"betas": (0.5, 0.5), "eps": 0.0}, [0.9, 0.807]),
    ],
)
def test_the_example_of_the_text(solution, rule, options, after):
    answer: dict = {}
    exec(solution("optimizers").replace("%%answer", "#", 1), answer)
    parameter = torch.ones((), requires_grad=True)
    optimizer = answer[rule]([parameter], lr=0.1, weight_decay=0.0, **options)
    for gradient, due in zip((1.0, 3.0), after, strict=True):
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        assert parameter.item() == pytest.approx(due, abs=5e-4)


def test_inputs_are_fresh_for_every_seed_and_have_what_the_text_names():
    for rule in RULES:
        rows = [str(cases(seed)[rule]["plain"]["parameters"]) for seed in SEEDS]
        assert len(set(rows)) == len(SEEDS)
        for seed in SEEDS:
            some = cases(seed)[rule]
            assert tuple(some) == CASES
            gaps = list(zip(*some["gaps"]["gradients"], strict=True))
            absent = sorted(sum(each is None for each in one) for one in gaps)
            assert absent[:2] == [0, 0]
            assert absent[-1] == STEPS
            assert 4 <= absent[2] < STEPS
            assert len(set(some["rates"]["rates"])) == 3
            assert set(some["plain"]["dtypes"]) == {"float32", "float64"}
            parameters = tensors(some["plain"], some["plain"]["parameters"])
            assert () in [tuple(p.shape) for p in parameters]


def test_what_is_not_written_is_named_and_the_rest_is_judged(solution):
    source = as_python(solution("optimizers"))
    head = source.index("class Adam:")
    stubs = "".join(
        f"class {name}:\n    def __init__(self, *_, **__):\n        raise NotImplementedError()\n"
        for name in ("Adam", "AdamW")
    )
    assert hints(played(source[:head] + stubs, 0)) == ["", *["start"] * 5]
    with pytest.raises(NotImplementedError):
        played(stubs + stubs.replace("AdamW", "NesterovSGD"), 0)


def test_an_exception_is_quoted_with_its_line(solution):
    source = as_python(solution("optimizers")).replace("if p.grad is None:", "if p.grad.isnan():")
    problem = CHECK.claims[0].judge(run_of(played(source, 0), 0))
    assert problem.hint == "raised"
    assert "in line" in problem.message


@pytest.mark.parametrize("odd", [None, 3, torch.zeros(2), torch.zeros(STEPS, 1)])
def test_what_has_another_shape_is_reported(odd):
    value = {
        rule: {name: {"after": odd, "views": odd, "changed": 0} for name in CASES} for rule in RULES
    }
    assert set(hints(value)) == {"in_place"}


def test_the_picture_of_a_right_answer_and_of_one_that_runs_away(solution):
    source = solution("optimizers")
    right = optimizers_picture(CHECK, source)
    away = optimizers_picture(CHECK, source.replace("p.sub_(self.lr *", "p.add_(100 * self.lr *"))
    assert right.png != away.png
    assert right.words == away.words


def test_the_right_paths_of_the_picture_are_those_of_torch_optim():
    from hpml.modules.m04_frameworks.checks._optimizer_picture import valley_of_the_lecture, walk

    def nesterov(params, lr, **options):
        return torch.optim.SGD(params, lr, nesterov=True, **options)

    answer = ModuleType("answer")
    vars(answer).update(MADE | {"NesterovSGD": nesterov})
    for rule, points in walk(answer, valley_of_the_lecture()).items():
        right = torch.tensor(pictured()[rule])
        assert torch.allclose(torch.tensor(points), right, 1e-4, 1e-4)
