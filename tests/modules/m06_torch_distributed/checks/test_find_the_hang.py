"""The check of find_the_hang: its jobs are recorded ones, and its judges tell mistakes apart."""

import json
import re
from types import ModuleType

import pytest

from hpml.answer import as_python
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m06_torch_distributed.checks import _hung_jobs
from hpml.modules.m06_torch_distributed.checks._hung_jobs import hung_jobs, recorded, stands_at
from hpml.modules.m06_torch_distributed.checks.find_the_hang import CHECK, drive, inputs
from hpml.paths import CHECKOUT

WRONG = wrong_answers.read(schedule.load(), "find_the_hang")
SEEDS = range(25)


def right(seed: int) -> list[list]:
    return [[job.rank, job.call, job.line] for job in hung_jobs(seed)]


@pytest.fixture
def problems(hand_made):
    """`problems(value, seed)`: what each claim says of what an answer returned."""
    return lambda value, seed=0: [
        claim.judge(hand_made(CHECK, [value], seed=seed)) for claim in CHECK.claims
    ]


@pytest.fixture
def hints(problems):
    return lambda value, seed=0: [p.hint if p else "" for p in problems(value, seed)]


@pytest.fixture
def in_process(hints):
    """`in_process(source, seed)`: the hints of an answer that is played in this process."""

    def of(source, seed):
        answer = ModuleType("answer")
        exec(source, vars(answer))
        return hints(drive(answer, inputs(seed, 1)[0]), seed)

    return of


def test_the_right_answer_finds_every_hang(solution, in_process):
    source = as_python(solution("find_the_hang"))
    assert all(in_process(source, seed) == ["", "", ""] for seed in SEEDS)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_answer_gets_its_hint_whatever_the_jobs(wrong, solution, in_process):
    source = as_python(wrong.answer(solution("find_the_hang")))
    for seed in SEEDS:
        assert next(filter(None, in_process(source, seed)), "") == wrong.hint, seed


def test_jobs_are_fresh_for_every_seed():
    assert len({json.dumps(inputs(seed, 1)) for seed in SEEDS}) == len(SEEDS)
    for position in range(len(hung_jobs(0))):
        lines = {hung_jobs(seed)[position].line for seed in SEEDS}
        assert len(lines) > len(SEEDS) / 2, position


def test_nothing_of_the_recording_gives_the_rank_away():
    for seed in SEEDS:
        text = json.dumps(inputs(seed, 1))
        assert "--culprit" not in text
        assert "--why" not in text


def test_a_job_with_the_recorded_numbers_is_the_recorded_one():
    """What is replaced is numbers, and nothing else."""
    for name, job in recorded().items():
        for role, log in job["logs"].items():
            ranks = {number: int(number) for number in "0123"}
            assert _hung_jobs._log(log, lambda line: line, ranks) == log, (name, role)
        for role, stack in job["stacks"].items():
            command = re.search(r"train\.py --.*", stack)[0]
            made = _hung_jobs._stack(stack, command, lambda line: line, lambda key: "7")
            assert made == re.sub(r"(?m)^(Process|Thread) \d+", r"\1 7", stack), (name, role)
        for trace in job["traces"].values():
            earlier = {"0": 0, "1": 0}
            assert _hung_jobs._trace(trace, lambda line: line, 4, earlier, 0) == trace


def test_the_recorded_ranks_stand_where_the_script_says():
    for name, job in recorded().items():
        text = job["stacks"].get("2", "") + job["logs"]["2"]
        line = stands_at(job["why"])
        assert f"train.py:{line})" in text or f'train.py", line {line},' in text, name
        assert all(
            f" {job['call']} (" in job["stacks"][rank]
            for rank in "013"
            if "later" not in name and job["stacks"]
        )


def test_recordings_name_no_folder_of_the_machine_that_made_them():
    text = json.dumps(recorded())
    assert str(CHECKOUT) not in text
    assert "/tmp/" not in text
    assert set(re.findall(r'File \\"(/[^/]+/[^/]+)/', text)) <= {"/home/ada", "/usr/lib"}


def test_both_ranks_of_a_pair_are_the_one_that_does_not_come():
    pairs = [job.rank for job in hung_jobs(0) if len(job.stacks) == 2]
    assert {0, 1} <= set(pairs)


@pytest.mark.parametrize("value", [None, 3, [], [None], "text", [[0, "all_reduce"]] * 12])
def test_what_is_no_such_list_is_reported(hints, value):
    assert set(hints(value)) == {"tuple"}


def test_a_bool_is_no_rank_and_a_float_no_line(hints):
    jobs = right(0)
    assert hints([[True, *job[1:]] for job in jobs]) == ["tuple"] * 3
    assert hints([[*job[:2], float(job[2])] for job in jobs]) == ["tuple"] * 3


def test_no_message_has_what_should_have_been_found(problems):
    for seed in SEEDS:
        for problem in problems([[rank + 1, *rest] for rank, *rest in right(seed)], seed):
            assert problem.expected.startswith("rank ")
            assert problem.expected not in problem.message


@pytest.mark.parametrize("seed", range(168, 176))  # lines were equal by chance at 172
def test_no_line_of_the_script_has_the_number_of_a_line_of_a_library(seed: int):
    for job in hung_jobs(seed):
        texts = "\n".join([*job.stacks.values(), job.log])
        found = re.findall(r'([\w.]+\.py)(?::|", line )(\d+)', texts)
        own = {number for file, number in found if file == "train.py"}
        assert own
        assert not own & {number for file, number in found if file != "train.py"}
