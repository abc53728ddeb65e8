"""What a real SLURM binds ranks to is what a plan's options mean, and the check knows when."""

import re
import types
from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m02_hardware.checks import _srun_step as srun_step
from hpml.modules.m02_hardware.checks.instructors._nodes_to_bind import SPREAD, node

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]

OUTSIDE = "CPU binding outside of job step allocation"


@pytest.fixture(scope="module")
def answer():
    found = types.ModuleType("answer")
    exec("#" + wrong_answers.solution(schedule.load(), "binding_plan"), found.__dict__)
    return found


def bound(cluster, options: list[str]) -> tuple[dict[int, str], str]:
    """The CPUs of each rank of a step in a job that has a node to itself; and what srun reports."""
    words = ["salloc", "--exclusive", "--nodes=1", "srun", *options, "--label"]
    ended = cluster.run(*words, "grep", "Cpus_allowed_list", "/proc/self/status")
    lines = re.findall(r"^(\d+): Cpus_allowed_list:\s+(\S+)", ended.stdout, re.M)
    return {int(rank): cpus for rank, cpus in lines}, ended.stderr


@pytest.mark.parametrize(
    ("ranks", "reserved", "expected"), [(2, [], {0: "0", 1: "1"}), (1, [0], {0: "1"})]
)
def test_a_plan_becomes_what_slurm_binds(cluster, answer, ranks, reserved, expected):
    plan = answer.binding_plan(node(1, 2, 1, 1, SPREAD), ranks, (), reserved)
    assert bound(cluster, answer.srun_options(plan))[0] == expected


def test_masks_are_by_rank(cluster, answer):
    assert bound(cluster, answer.srun_options([[1], [0]]))[0] == {0: "1", 1: "0"}
    assert bound(cluster, answer.srun_options([[0, 1], [0]]))[0] == {0: "0-1", 1: "0"}


def test_a_step_is_not_bound_unasked(cluster):
    assert bound(cluster, ["--ntasks-per-node=2"])[0] == {0: "0-1", 1: "0-1"}


@pytest.mark.parametrize("more", [[], ["--cpus-per-task=1"], ["--exclusive"], ["--exact"]])
@pytest.mark.parametrize("plan", [[[1]], [[1], [0]]])
def test_the_check_knows_when_slurm_declines_a_mask(cluster, answer, plan, more):
    options = [*answer.srun_options(plan), *more]
    cpus, said = bound(cluster, options)
    if srun_step.read(options).has_whole_node(len(plan), 2):
        assert cpus == {rank: str(one) for rank, (one,) in enumerate(plan)}
    elif len(plan) == 1:
        assert (cpus, OUTSIDE in said) == ({}, True)


def test_the_picture_of_an_answer_says_what_slurm_bound(cluster, answer):
    script = (
        "import sys\n"
        "from hpml.modules.m02_hardware.checks._binding_picture import bound_by_slurm as b\n"
        "print(b([[1], [0]], sys.argv[1:]))"
    )
    lines = cluster.output("python", "-c", script, *answer.srun_options([[1], [0]]))
    assert lines[-1] == (
        "For two CPUs with GPUs in the other order your plan is [[1], [0]]: "
        "the SLURM here bound rank 0 to CPU 1, rank 1 to CPU 0"
    )


def test_the_job_script_prints_who_is_bound_where(cluster):
    options = ["--cpu-bind=mask_cpu:0x2,0x1", "--export=ALL,OMP_NUM_THREADS=1"]
    folder = cluster.project()
    words = ["--wait", f"--chdir={folder}", "--output=binding.log", "slurm/02_binding.slurm"]
    cluster.output("sbatch", *words, *options)
    lines = (Path(folder) / "binding.log").read_text().splitlines()
    assert sorted(lines) == [
        "0: rank 0 of 2 on n1: CPUs 1, cores 1, NUMA nodes 0, threads 1",
        "1: rank 1 of 2 on n1: CPUs 0, cores 1, NUMA nodes 0, threads 1",
    ]


def test_the_roofline_of_each_node_is_a_line(cluster):
    folder = cluster.project()
    words = ["--wait", f"--chdir={folder}", "--output=roofline.log", "--cpus-per-task=1"]
    cluster.output("sbatch", *words, "slurm/02_roofline.slurm", "--seconds", "0.02", timeout=120)
    lines = sorted((Path(folder) / "roofline.log").read_text().splitlines())
    number = r"\d+(\.\d)?"
    for name, line in zip(("n1", "n2"), lines, strict=True):
        shape = (
            rf"{name}: on cpu, 1 thread: float32 {number}.* GFLOP/s; triad {number} GB/s; ridge .*"
        )
        assert re.fullmatch(shape, line)
