"""The check of job_script: requests are judged anywhere, what ran where a SLURM has run it."""

import secrets
from dataclasses import replace
from types import ModuleType

import pytest

from hpml.answer import as_python
from hpml.checks.contract import CannotJudge, Run
from hpml.modules.m00_your_machine.checks import _sbatch as sbatch
from hpml.modules.m00_your_machine.checks import _slurm_job as slurm_job
from hpml.modules.m00_your_machine.checks import job_script
from hpml.modules.m00_your_machine.checks._slurm_job import Part, Submission
from hpml.modules.m00_your_machine.checks.job_script import CHECK, inputs, right
from hpml.ranks.evidence import Evidence, RankEvidence

JOB = inputs(3, 1)[0][-1]
ARRAY, WORD = "47", "a1b2"


def run_of(texts: list) -> Run:
    evidence = Evidence(1, (RankEvidence(0, "returned", value=texts),), 0.1)
    return Run(1, 3, inputs(3, 1), inputs(3, 1)[0], evidence, {"play": evidence})


def run_right(change=lambda text: text) -> Run:
    return run_of([change(right(**job)) for job in inputs(3, 1)[0]])


def parts(**changes: str) -> tuple[Part, ...]:
    facts = {
        "ArrayJobId": ARRAY,
        "JobState": "COMPLETED",
        "NumNodes": "2",
        "CPUs/Task": str(JOB["cpus_per_task"]),
        "TimeLimit": f"00:{JOB['minutes']:02}:00",
    } | changes
    return tuple(Part(facts | {"ArrayTaskId": str(part)}) for part in (0, 1))


def lines(part: int) -> list[str]:
    tasks = JOB["tasks_per_node"]
    return [f"{WORD} {part} {rank} n{rank // tasks}" for rank in range(2 * tasks)]


def logs(change=lambda lines: lines) -> dict[str, str]:
    name = f"{JOB['name']}-{ARRAY}"
    return {f"{name}_{part}.log": "\n".join(change(lines(part))) + "\n" for part in (0, 1)}


def ran(files=None, **facts: str) -> Submission:
    """A job that has ended, with those log files; as it should, without arguments."""
    return Submission("", ARRAY, True, parts(**facts), logs() if files is None else files)


@pytest.fixture
def slurm(monkeypatch):
    """`slurm(submission)`: a SLURM in which that becomes of every job; the list of scripts."""
    scripts = []

    def answer(*submissions):
        answers = iter(submissions)

        def submit(script, files, test_only=False):
            scripts.append(script)
            return next(answers)

        monkeypatch.setattr(slurm_job, "submit", submit)
        monkeypatch.setattr(secrets, "token_hex", lambda length: WORD)
        return scripts

    return answer


def submitted(run: Run):
    return CHECK.claims[-1].judge(run)


def test_all_that_was_asked_for_passes_as_parsed_and_as_run(slurm):
    scripts = slurm(ran())
    assert [claim.judge(run_right()) for claim in CHECK.claims] == [None] * 4
    assert scripts == [right(**JOB)]


@pytest.mark.parametrize(
    ("done", "hint", "said"),
    [
        (ran(logs(lambda ls: ls[:1])), "srun", "ran 1 time"),
        (ran(logs(lambda ls: ls * 2)), "once", "ran 4 times"),
        (ran(logs(lambda ls: ls[:1] * len(ls))), "once", "task"),
        (ran(logs(lambda ls: [*ls[1:], WORD])), "once", "not the command's"),
        (ran(logs(lambda ls: [line.replace(" n1", " n0") for line in ls])), "once", "tasks ran"),
        (ran({"other.log": "x"}), "log", "part 0 left no log; there is other.log"),
        (
            ran(logs(lambda _: ["x: no such"]), JobState="FAILED"),
            "failed",
            "part 0 is FAILED; its log ends: x: no such",
        ),
        (ran(NumNodes="1"), "number", "NumNodes=1"),
        (replace(ran(), parts=parts()[:1]), "array", "1 parts ran"),
        (
            replace(ran({}, JobState="RUNNING"), ended=False),
            "limit",
            "part 0 was still running after 90 s",
        ),
    ],
)
def test_what_ran_otherwise_is_said(slurm, done, hint, said):
    slurm(done)
    problem = submitted(run_right())
    assert problem.hint == hint
    assert said in problem.message


@pytest.mark.parametrize(
    "done",
    [
        CannotJudge("no SLURM answers here"),
        replace(ran({}, JobState="PENDING", Reason="Resources"), ended=False),
        ran({}, JobState="NODE_FAIL"),
    ],
)
def test_what_is_not_the_answers_fault_is_not_judged(slurm, done):
    slurm(done)
    assert isinstance(submitted(run_right()), CannotJudge)


def test_a_script_without_srun_is_told_so_where_no_slurm_runs_it(slurm):
    slurm(CannotJudge("no SLURM answers here"), CannotJudge("no SLURM answers here"))
    assert submitted(run_right()).why == "no SLURM answers here"
    without = submitted(run_right(lambda text: text.replace("srun ", "")))
    assert without.why.startswith("no SLURM answers here; no line of the script has srun")


def test_a_refusal_counts_only_where_a_right_script_is_taken(slurm):
    slurm(Submission("sbatch: error: no"), Submission())
    assert submitted(run_right()).hint == "refused"
    slurm(Submission("sbatch: error: no"), Submission("sbatch: error: no"))
    assert isinstance(submitted(run_right()), CannotJudge)


def test_a_script_that_asks_for_something_else_is_never_submitted(slurm):
    scripts = slurm()
    problem = submitted(run_right(lambda text: text.replace("--nodes=", "--nodes=1")))
    assert (problem.hint, scripts) == ("number", [])
    assert problem.message.startswith("not submitted: ")


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("--nodes=2", f"--nodes={'9' * 5000}", "number"),
        ("--array=0-1", "--array=0-9999999999", "array"),
        ("--array=0-1", "--array=0-3999999:2", "array"),
        ("%a", "%999999999a", "log"),
    ],
)
def test_numbers_of_any_size_cost_the_judge_nothing(old, new, hint):
    run = run_right(lambda text: text.replace(old, new))
    problem = next(filter(None, (claim.judge(run) for claim in CHECK.claims[:3])))
    assert problem.hint == hint
    assert len(problem.message) < 6000


def test_the_texts_first_part_of_job_4711_writes_to_the_log_that_the_text_names(solution):
    answer = ModuleType("answer")
    exec(as_python(solution("job_script")), vars(answer))
    options = sbatch.read(answer.job_script("sweep", 3, 2, 1, 5, 4, "hostname")).options
    log = sbatch.log_name(options["output"], name="sweep", array=4711, part=0, job=4712)
    assert log == "sweep-4711_0.log"


def test_a_job_of_one_part_and_one_of_more_than_a_day_are_in_every_draw():
    for seed in range(20):
        jobs = inputs(seed, 1)[0]
        assert any(job["parts"] == 1 for job in jobs)
        assert any(job["minutes"] > 24 * 60 for job in jobs)


@pytest.mark.parametrize("value", [None, 3, ["#!/bin/bash"], b"#!/bin/bash"])
def test_only_a_str_is_a_script(value):
    assert {claim.judge(run_of([value] * 4)).hint for claim in CHECK.claims} == {"text"}


def test_both_ways_to_ask_for_the_parts_log_are_right():
    run = run_right(lambda text: text.replace("\nsrun", "\n#SBATCH --job-name=sweep\nsrun"))
    assert job_script.judge_array(run) is None
    names = [job["name"] for job in inputs(3, 1)[0]]
    texts = [
        right(**job)
        .replace(f"{name}-%A", "%x-%A")
        .replace("#SBATCH --nodes", f"#SBATCH -J {name}\n#SBATCH --nodes")
        for job, name in zip(inputs(3, 1)[0], names, strict=True)
    ]
    assert job_script.judge_array(run_of(texts)) is None
    nameless = [text.replace("-J", "--comment") for text in texts]
    assert job_script.judge_array(run_of(nameless)).hint == "log"


def test_without_a_slurm_the_requests_are_judged_in_their_short_form_too(monkeypatch, tmp_path):
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    monkeypatch.setattr(slurm_job.shutil, "which", lambda *_, **__: None)
    script = """#!/bin/bash
#SBATCH -N {nodes} --ntasks-per-node={tasks_per_node} -c {cpus_per_task} -t {minutes}:00
#SBATCH -a 0-{last} -o {name}-%A_%a.log
srun {command}
"""
    run = run_of([script.format(**job, last=job["parts"] - 1) for job in inputs(3, 1)[0]])
    assert [claim.judge(run) for claim in CHECK.claims[:-1]] == [None] * 3
    assert "no SLURM answers here" in submitted(run).why
