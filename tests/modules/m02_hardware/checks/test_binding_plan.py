"""The check of binding_plan: plans and options of many kinds, right and wrong."""

import types

import pytest

from hpml.modules.m02_hardware.checks import _binding_picture
from hpml.modules.m02_hardware.checks import _srun_step as srun_step
from hpml.modules.m02_hardware.checks import binding_plan as exercise
from hpml.modules.m02_hardware.checks.binding_plan import CHECK
from hpml.modules.m02_hardware.checks.instructors._nodes_to_bind import (
    ALTERNATING,
    SIDE_BY_SIDE,
    SPREAD,
    node,
    siblings,
)
from hpml.modules.m02_hardware.checks.instructors.binding_plan import most_cores

OWN, MOST, DOMAIN, GPU, OPTIONS, THREADS = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def right(solution):
    """`right(seed)` is what the right answer brings back."""
    answer = types.ModuleType("answer")
    exec("#" + solution("binding_plan"), answer.__dict__)
    return lambda seed: exercise.drive(answer, CHECK.inputs(seed, 1)[0])


def run_of(hand_made, right, *, plan=None, options=None, seed=3):
    """The right values with `plan(case, right plan)` and `options(plan's case, right options)`."""
    given, value = CHECK.inputs(seed, 1)[0], right(seed)
    if plan:
        value["plans"] = [plan(*pair) for pair in zip(given["cases"], value["plans"], strict=True)]
    if options:
        value["options"] = [
            options(*pair) for pair in zip(given["plans"], value["options"], strict=True)
        ]
    return hand_made(CHECK, [value], seed=seed)


@pytest.mark.parametrize("seed", range(12))
def test_the_solution_holds_on_every_draw(hand_made, right, seed):
    run = run_of(hand_made, right, seed=seed)
    assert [claim.judge(run) for claim in CHECK.claims] == [None] * 6


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 1) != CHECK.inputs(2, 1)


@pytest.mark.parametrize("seed", range(6))
def test_nodes_of_2_times_64_cores_with_and_without_hyperthreads_are_always_asked(seed):
    cases = CHECK.inputs(seed, 1)[0]["cases"]
    words = [asked["words"] for asked in cases if not asked["gpus"] and not asked["reserved"]]
    for threads in ("1 hardware thread each", "2 hardware threads each"):
        assert any(one.startswith(f"2 × 64 cores with {threads}") for one in words)


def test_nodes_are_numbered_as_linux_numbers_them():
    spread, beside = node(2, 4, 2, 1, SPREAD), node(2, 4, 2, 1, SIDE_BY_SIDE)
    assert [row["cpu"] for row in spread] == [row["cpu"] for row in beside] == list(range(16))
    assert spread[13] == {"cpu": 13, "core": 5, "socket": 1, "numa": 1}
    assert beside[11] == {"cpu": 11, "core": 5, "socket": 1, "numa": 1}
    alternating = node(2, 4, 1, 1, ALTERNATING)
    assert [row["socket"] for row in alternating] == [0, 1] * 4
    assert [row["numa"] for row in node(2, 4, 1, 2, SPREAD)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_scarcest_domain_decides_how_many_cores_there_are():
    asked = {"cpus": node(2, 64, 2, 1, SPREAD), "ranks": 4, "gpus": [], "reserved": [0]}
    assert most_cores(asked) == 31
    assert most_cores(asked | {"ranks": 1}) == 127
    assert most_cores(asked | {"ranks": 2}) == 63
    assert most_cores(asked | {"gpus": [0, 0, 0, 1]}) == 21
    assert most_cores(asked | {"cpus": node(2, 64, 2, 4, SPREAD), "ranks": 2}) == 63


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "change",
    [
        lambda case, plan: [cpus[::-1] for cpus in plan],
        # Any of a core's hardware threads will do.
        lambda case, plan: [
            [siblings(case["cpus"], one)[-1]
             for one in case["cpus"] if one["cpu"] in cpus] for cpus in plan
        ],
    ],
)  # fmt: skip
def test_other_right_plans_are_right(hand_made, right, seed, change):
    run = run_of(hand_made, right, plan=change, seed=seed)
    assert [claim.judge(run) for claim in CHECK.claims] == [None] * 6


def test_ranks_of_a_domain_may_change_places(hand_made, right):
    def swapped(case, plan):
        return plan if case["gpus"] else plan[::-1]

    run = run_of(hand_made, right, plan=swapped)
    assert [claim.judge(run) for claim in CHECK.claims] == [None] * 6


@pytest.mark.parametrize(
    ("plan", "hint"),
    [
        (lambda case, plan: "a map object", "plan_types"),
        (lambda case, plan: plan[1:], "ranks"),
        (lambda case, plan: [[10**30] for _ in plan], "absent"),
        (lambda case, plan: [[cpu, cpu] for cpu, *_ in plan], "shared"),
        (lambda case, plan: [plan[0]] * len(plan) if len(plan) > 1 else [plan[0] * 2], "shared"),
    ],
)
def test_what_is_no_plan_earns_nothing_for_plans(hand_made, right, plan, hint):
    run = run_of(hand_made, right, plan=plan)
    assert {claim(run).hint for claim in (OWN, MOST, DOMAIN, GPU)} == {hint}
    assert OPTIONS(run) is THREADS(run) is None


def test_a_plan_of_one_core_each_is_not_all_there_is(hand_made, right):
    run = run_of(hand_made, right, plan=lambda case, plan: [cpus[:1] for cpus in plan])
    assert MOST(run).hint in ("idle", "first_node")
    assert OWN(run) is None


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda words: "srun", "options_types"),
        (lambda words: [*words, "--tasks-everywhere"], "option"),
        (lambda words: [*words, "--cpus-per-task"], "option"),
        (lambda words: words[1:], "tasks"),
        (lambda words: ["--ntasks-per-node=9", *words[1:]], "tasks"),
        (lambda words: [words[0], words[2]], "bind"),
        (lambda words: [words[0], "--cpu-bind=mask_cpu:all", words[2]], "mask_text"),
        (lambda words: [words[0], "--cpu-bind=mask_cpu:0x1", words[2]], "mask"),
        (lambda words: [*words, "-c", "1"], "exact"),
        (lambda words: [*words, "--hint=nomultithread"], "beside"),
    ],
)
def test_options_that_mean_something_else(hand_made, right, change, hint):
    run = run_of(hand_made, right, options=lambda case, words: change(words))
    assert OPTIONS(run).hint == hint
    assert OWN(run) is MOST(run) is None


@pytest.mark.parametrize("number", ["9" * 5000, "many", "-1", "²"])
def test_any_number_of_threads_is_judged(hand_made, right, number):
    def change(case, words):
        return [*words[:2], f"--export=ALL,OMP_NUM_THREADS={number}"]

    assert THREADS(run_of(hand_made, right, options=change)).hint == "threads"


def test_a_mask_of_any_size_is_judged(hand_made, right):
    def change(case, words):
        return [words[0], "--cpu-bind=mask_cpu:" + "9" * 50_000, words[2]]

    problem = OPTIONS(run_of(hand_made, right, options=change))
    assert problem.hint == "mask"
    assert len(problem.message) < 1000


@pytest.mark.parametrize(
    "words",
    [
        ["--ntasks-per-node=2", "--cpu-bind=mask_cpu:1,2"],
        ["--ntasks-per-node", "2", "--cpu-bind", "mask_cpu:1,2"],
        ["-l", "--ntasks-per-node=2", "--cpu-bind=verbose,mask_cpu:1,2", "-N", "3"],
        ["--ntasks-per-node=2", "--cpu_bind=v,mask_cpu:1,2", "-c24"],
    ],
)
def test_options_are_read_in_the_ways_in_which_srun_takes_them(words):
    step = srun_step.read(words)
    assert step.options["ntasks-per-node"] == "2"
    assert (step.kind, step.masks) == ("mask_cpu", ["1", "2"])
    assert step.has_whole_node(2, 48)


def test_a_step_that_asks_for_cpus_has_just_these():
    assert not srun_step.read(["--cpus-per-task=16"]).has_whole_node(2, 48)
    assert not srun_step.read(["--cpus-per-task=9"]).has_whole_node(5, 48)
    assert not srun_step.read(["--exclusive"]).has_whole_node(2, 48)


def test_the_picture_has_the_answers_plan(solution, monkeypatch, tmp_path):
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    asked = []
    monkeypatch.setattr(
        _binding_picture, "bound_by_slurm", lambda *words: asked.append(words) or ", and bound"
    )
    picture = CHECK.picture(CHECK, solution("binding_plan"))
    ((plan, options),) = asked  # the answer's own, and not whom SLURM would bind unasked
    assert plan == [[1], [0]]
    assert srun_step.read(options).masks == ["0x2", "0x1"]
    assert picture.png.startswith(b"\x89PNG")
    assert picture.words == "Your plan: 4 ranks on 2 × 8 cores, 4 GPUs, and bound"


@pytest.mark.parametrize("options", [["--chdir=/tmp x"], ["--cpu-bind=mask_cpu:1", "; ls"]])
def test_no_slurm_is_asked_with_odd_options(options):
    assert _binding_picture.bound_by_slurm([[1], [0]], options) == ""


def test_the_picture_takes_a_right_plan_on_its_node(solution, right):
    assert [row["core"] for row in _binding_picture.node()] == [*range(16)] * 2
    cores = [core.cpus for core in _binding_picture.machine().cores]
    assert cores[3] == (3, 19)
