"""The check of read_queue: tables of fresh jobs in SLURM's form, and what is to be found there."""

import re
from types import ModuleType

import pytest

from hpml.answer import as_python
from hpml.checks.contract import Run
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m00_your_machine.checks._slurm_tables import _HEADER, Accounted, Queued, cases
from hpml.modules.m00_your_machine.checks.read_queue import CHECK, drive, inputs
from hpml.ranks.evidence import Evidence, RankEvidence

COURSE = schedule.load()
WRONG = wrong_answers.read(COURSE, "read_queue")
SEEDS = range(40)

# What squeue (SLURM 22.05) printed on a virtual cluster.
RECORDED = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
         1_[2-5%2]    course     wrap     root PD       0:00      2 (JobArrayTaskLimit)
                 2    course a long n     root PD       0:00      4 (Priority)
               1_0    course     wrap     root  R       0:01      2 n[1-2]
"""


def found(seed: int) -> list[dict]:
    return [
        {"waiting": case.waiting(), "node_hours": case.node_hours(), "failed": case.failed()}
        for case in cases(seed)
    ]


def hints(value, seed: int = 0) -> list[str]:
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    run = Run(1, seed, inputs(seed, 1), None, evidence, {"play": evidence})
    problems = [claim.judge(run) for claim in CHECK.claims]
    return [problem.hint if problem else "" for problem in problems]


def played(source: str, seed: int) -> list[str]:
    """The hints that an answer gets, played in this process."""
    answer = ModuleType("answer")
    exec(source, vars(answer))
    return hints(drive(answer, inputs(seed, 1)[0]), seed)


def test_lines_are_those_that_squeue_prints():
    lines = [
        Queued("1_[2-5%2]", "wrap", "root", "PD", 0, 2, "JobArrayTaskLimit"),
        Queued("2", "a long name", "root", "PD", 0, 4, "Priority"),
        Queued("1_0", "wrap", "root", "R", 1, 2, "n[1-2]"),
    ]
    assert [_HEADER, *(line.line() for line in lines)] == RECORDED.splitlines()


@pytest.mark.parametrize(
    ("seconds", "squeue", "sacct"),
    [
        (7, "0:07", "00:00:07"),
        (754, "12:34", "00:12:34"),
        (7384, "2:03:04", "02:03:04"),
        (93_784, "1-02:03:04", "1-02:03:04"),
    ],
)
def test_times_are_those_that_slurm_prints(seconds, squeue, sacct):
    assert Queued("1", "a", "b", "R", seconds, 1, "n1").line().split()[5] == squeue
    assert Accounted("1", "a", "COMPLETED", 1, seconds, 0).lines()[0].split("|")[5] == sacct


def test_what_there_is_to_find_in_a_few_jobs_is_counted_by_hand():
    (case, *_) = cases(0)
    jobs = (
        Accounted("5_0", "a", "TIMEOUT", 3, 7200, 2),
        Accounted("5_1", "a", "COMPLETED", 4, 86_400 + 1800, 2),
        Accounted("6", "a", "CANCELLED by 1000", 2, 900, 1),
        Accounted("7", "a", "RUNNING", 9, 900, 1),
        Accounted("8", "a", "FAILED", 1, 0, 1),
    )
    case = type(case)("jo", (), jobs)
    assert case.node_hours() == 3 * 2 + 4 * 24.5 + 2 * 0.25
    assert case.failed() == ["5_0"]


def test_the_texts_excerpt_has_used_the_node_hours_that_the_text_says(solution):
    script = COURSE.module_of("read_queue").solution.with_suffix(".py")
    text = (COURSE.root / script).read_text(encoding="utf-8")
    excerpt = text.split("# ```\n")[1].replace("\n#\n", "\n\n")
    squeue, sacct = re.sub("^# ", "", excerpt, flags=re.MULTILINE).split("\n\n")
    assert squeue.startswith(_HEADER)
    answer = ModuleType("answer")
    exec(as_python(solution("read_queue")), vars(answer))
    read = answer.read_queue(squeue, sacct, "wilhelmina")
    assert read["waiting"] == {
        "359955_[7-9%2]": "JobArrayTaskLimit",
        "360138": "ReqNodeNotAvail, UnavailableNodes:n7",
    }
    assert f"{read['node_hours']:.1f}" == "141.3"
    assert "28 minutes and 39 seconds: 141.3." in text
    assert read["failed"] == ["359955_4"]


def test_every_trap_is_in_every_set_of_jobs():
    for seed in SEEDS:
        given = inputs(seed, 1)[0]
        squeue = "".join(case["squeue"] for case in given)
        sacct = "".join(case["sacct"] for case in given)
        assert any(len(case["user"]) > 8 for case in given)
        assert re.search(r"_\[\d+-\d+%2\]", squeue)
        assert " CG " in squeue
        assert ", UnavailableNodes" in squeue
        assert re.search(r"\|\d-\d\d:", sacct)
        for text in ("CANCELLED by 1000", "RUNNING", "OUT_OF_MEMORY", "NODE_FAIL", ".batch|"):
            assert text in sacct
        for text in ("DEADLINE", "PREEMPTED", "|fine_tune.v2|FAILED", "|batch|COMPLETED"):
            assert text in sacct
        assert found(seed)[-1]["waiting"] == {}
        assert found(seed)[-1]["failed"] == []


def test_what_there_is_to_find_passes_and_is_fresh():
    assert all(hints(found(seed), seed) == ["", "", ""] for seed in SEEDS)
    assert len({str(found(seed)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_answer_gets_its_hint_whatever_the_jobs(wrong, solution):
    source = as_python(wrong.answer(solution("read_queue")))
    for seed in SEEDS:
        assert next(filter(None, played(source, seed)), "") == wrong.hint, seed


@pytest.mark.parametrize("value", [None, 3, [], {}, [None], [{}, {}, {}, {}], "text"])
def test_what_is_no_such_dict_is_said(value):
    assert hints(value) == ["keys"] * 3


def test_lists_and_numbers_of_another_kind_are_said():
    assert hints(found(0)[:1]) == ["keys"] * 3
    assert hints([case | {"rows": 3} for case in found(0)]) == ["keys"] * 3
    odd = [{"waiting": [], "node_hours": "3", "failed": {"4_1"}}] * 4
    assert hints(odd) == ["keys"] * 3
    assert hints([case | {"node_hours": 10**4000} for case in found(0)])[1] == "keys"
    assert hints([case | {"node_hours": float("nan")} for case in found(0)])[1] == "hours"
    assert hints([case | {"failed": case["failed"][::-1]} for case in found(0)])[2] == "order"
