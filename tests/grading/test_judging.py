"""From a submission to its record, in real sandboxes: whose fault a fault is."""

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpml import answer as answers
from hpml.answer import Answer
from hpml.checks import find
from hpml.checks.contract import Check, Run
from hpml.checks.plays import ReferenceFailed
from hpml.checks.run_check import Examined, _faulty, _not_gradable, examine
from hpml.checks.verdict import ClaimResult, Verdict
from hpml.course import schedule
from hpml.grading import judging
from hpml.grading.judging import Judge, could_not
from hpml.grading.sandbox import MIB, REQUIRED, Limits
from hpml.grading.submission import Submission
from hpml.ranks.evidence import Diagnosis
from hpml.ranks.flavour import order
from hpml.ranks.parent import warm

COURSE = schedule.load()
SECRET = b"s" * 32
SMALL = Limits(memory=1500 * MIB, processes=150, processor=60, wall=100, disk=32 * MIB)
SOLUTIONS = {
    answer.exercise: answer.source
    for module in COURSE.modules
    for answer in answers.read(COURSE.root / module.solution)
}


def handed_in(**sources: str) -> Submission:
    """A submission of these answers, by exercise id; without their `%%answer` lines."""
    return Submission(
        "ada",
        answers={
            exercise: Answer(exercise, f"%%answer {exercise}\n{source}", Path("a.ipynb"), 2, None)
            for exercise, source in sources.items()
        },
    )


def solution(exercise: str) -> str:
    return SOLUTIONS[exercise].partition("\n")[2]


def quickly(exercise: str, source: str, seed: int) -> Examined:
    """At two ranks only."""
    return examine(exercise, source, worlds=[2], seed=seed)


def judged(submission: Submission, *exercises: str, **options):
    judge = Judge(
        COURSE, exercises, **{"secret": SECRET, "limits": SMALL, "examine": quickly} | options
    )
    return judge.record(submission)


RIGHT = solution("hello_ranks")
HALF = "def hello(numbers):\n    return 0.5\n"


@pytest.mark.usefixtures("sandboxed")
def test_right_half_right_stub_and_nothing_in_one_sandbox():
    stub = next(
        answer.source
        for answer in answers.read(COURSE.root / COURSE.module("06").exercise_notebook)
        if answer.exercise == "shard_sampler"
    )
    submission = handed_in(
        hello_ranks=RIGHT,
        global_metrics="def global_metrics(*_, **__):\n    return {}\n",
        shard_sampler=stub.partition("\n")[2],
    )
    exercises = ("hello_ranks", "shard_sampler", "ddp", "global_metrics")
    record = judged(submission, *exercises, examine=Judge.__dataclass_fields__["examine"].default)
    found = {result.exercise: result for result in record.results}
    assert {e: r.status for e, r in found.items()} == {
        "hello_ranks": "passed",
        "shard_sampler": "missing",
        "ddp": "missing",
        "global_metrics": "failed",
    }
    assert record.earned == found["hello_ranks"].points == find("hello_ranks").points
    assert record.points == sum(find(exercise).points for exercise in exercises)
    assert "handed out" in found["shard_sampler"].headline
    assert found["ddp"].headline == "no answer was handed in"
    assert found["hello_ranks"].attempts == 1
    assert set(REQUIRED) <= set(record.layers)
    assert not record.unsafe
    assert record.complete


def test_inputs_are_those_of_the_person_the_exercise_the_submission_and_the_class():
    seen = []

    def examine_nothing(exercise: str, source: str, seed: int) -> Examined:
        seen.append(seed)
        return Examined(Verdict(exercise, "title", "failed", (), "told", seed))

    def seeds(submission: Submission, key: bytes = SECRET) -> list[int]:
        seen.clear()
        options = {"secret": key, "examine": examine_nothing, "unsafe": True}
        judged(submission, "hello_ranks", "read_queue", **options)
        return seen.copy()

    mine = handed_in(hello_ranks=HALF, read_queue=HALF)
    first = seeds(mine)
    assert seeds(mine) == first, "reproducible"
    others = [
        seeds(replace(mine, person="bo")),
        seeds(handed_in(hello_ranks=HALF, read_queue=f"{HALF}\n")),
        seeds(mine, bytes(32)),
    ]
    assert len({seed for each in (first, *others) for seed in each}) == 8


@pytest.mark.parametrize("exercise", ["hello_ranks", "ddp"])
def test_refused_and_not_counted_have_their_reason_and_no_mark(exercise):
    stub = next(
        answer.source
        for module in COURSE.modules
        for answer in answers.read(COURSE.root / module.exercise_notebook)
        if answer.exercise == exercise
    )
    said = {"refused": "a.ipynb was cut off", "not counted": "a.ipynb, cell 3: '%% answer'"}
    unread, uncounted = ({exercise: why} for why in said.values())
    for answered in ({}, {exercise: stub.partition("\n")[2]}):
        for where in ({"unread": unread}, {"uncounted": uncounted, "unread": unread}):
            record = judged(replace(handed_in(**answered), **where), exercise)
            (result,) = record.results
            assert result.status == ("not counted" if "uncounted" in where else "refused")
            assert result.headline == said[result.status]
            assert not result.has_mark
            assert not record.has_total
            assert record.complete


@pytest.mark.usefixtures("sandboxed")
def test_an_answer_that_kills_what_runs_it_is_wrong_and_costs_no_other():
    # Of itself and of all that it can reach: the supervisor is not among them
    kill = f"import os, signal\n{RIGHT}\nos.kill(0, signal.SIGKILL)\n"
    record = judged(
        handed_in(hello_ranks=kill, global_metrics=solution("global_metrics")),
        *("hello_ranks", "global_metrics"),
    )
    killed, other = record.results
    assert (killed.status, killed.earned, killed.attempts) == ("failed", 0, 1)
    assert "killed by SIGKILL" in killed.headline
    assert killed.cause == "killed"
    assert all(not claim.passed for claim in killed.claims)
    assert other.status == "passed"


@pytest.mark.usefixtures("sandboxed")
def test_an_answer_that_takes_too_much_is_wrong_and_the_next_has_a_new_sandbox():
    hog = f"{RIGHT}\nkept = [bytearray(b'x' * 2**20) for _ in range(3000)]\n"
    record = judged(
        handed_in(hello_ranks=hog, global_metrics=solution("global_metrics")),
        *("hello_ranks", "global_metrics"),
    )
    taken, other = record.results
    assert (taken.status, taken.earned) == ("failed", 0)
    assert taken.headline == "the answer was ended: it used more than 1500 MiB of memory"
    assert taken.cause == "killed"
    assert other.status == "passed"


@pytest.mark.usefixtures("sandboxed")
def test_time_that_one_answer_takes_is_not_the_next_one_s():
    burn = "\nimport time\nwhile time.process_time() < 1.5:\n    pass\n"
    exercises = ("hello_ranks", "global_metrics")
    record = judged(
        handed_in(**{exercise: solution(exercise) + burn for exercise in exercises}),
        *exercises,
        limits=replace(SMALL, processor=5),  # two ranks of one answer take 3, of both answers 6
    )
    assert [result.status for result in record.results] == ["passed", "passed"]


def broken(for_all: bool):
    """A grader that fails at an answer, or at all of them."""

    def examine_badly(exercise: str, source: str, seed: int) -> Examined:
        if for_all or "mine" in source:
            fault = RuntimeError("judge broke")
            return Examined(_not_gradable(find(exercise), str(fault), seed), None, fault)
        return quickly(exercise, source, seed)

    return examine_badly


@pytest.mark.usefixtures("sandboxed")
def test_where_the_course_s_own_solution_fails_too_nobody_is_marked_down():
    record = judged(
        handed_in(hello_ranks=f"mine = 1\n{RIGHT}"), "hello_ranks", examine=broken(True)
    )
    (result,) = record.results
    assert (result.status, result.attempts) == ("not gradable", 1)
    assert "not your answer's fault" in result.headline
    assert result.cause == "ours"
    assert not record.complete


@pytest.mark.usefixtures("sandboxed")
def test_where_the_course_s_own_solution_passes_the_fault_is_the_answer_s():
    record = judged(
        handed_in(hello_ranks=f"mine = 1\n{RIGHT}"), "hello_ranks", examine=broken(False)
    )
    (result,) = record.results
    assert (result.status, result.earned) == ("failed", 0)
    assert "RuntimeError" in result.headline
    assert result.cause == "refused"


@pytest.mark.parametrize(
    ("needed", "status", "cause"), [(0.6, "not gradable", "ours"), (0.4, "failed", "limit")]
)
def test_where_time_is_up_for_half_of_the_time_is_too_little_for_the_solution(
    needed, status, cause
):
    """`needed`: the part of the time limit that the course's own solution takes."""
    limit = find("hello_ranks").timeout
    asked = []

    def examine_slowly(exercise, source: str, seed: int) -> Examined:
        check = exercise if isinstance(exercise, Check) else find(exercise)
        asked.append("mine" in source)
        if "mine" in source or needed * limit > check.timeout:
            diagnosis = Diagnosis("limit", f"not done after {check.timeout:g} s")
            ranks = (SimpleNamespace(stdout="", calls=(), raised=None),)
            fault = SimpleNamespace(diagnosis=diagnosis, ranks=ranks, world_size=1)
            return Examined(_faulty(check, Run(1, seed, None, None, fault, {}), fault, seed), fault)
        return Examined(Verdict(check.id, check.title, "passed", (), "every claim holds", seed))

    record = judged(
        handed_in(hello_ranks=f"mine = 1\n{RIGHT}"),
        "hello_ranks",
        examine=examine_slowly,
        unsafe=True,
    )
    (result,) = record.results
    assert (result.status, result.cause, result.attempts) == (status, cause, 1)
    assert asked == [True, False], "the answer has no second try"
    assert f"not done after {limit:g} s" in result.headline
    assert ("own solution was too slow as well" in result.headline) == (cause == "ours")
    state = "not gradable" if cause == "ours" else "not reached"
    assert {claim.state for claim in result.claims} == {state}


def failing(error: Exception, evidence=None, times: int = 1):
    """A grader that meets `error` at the first `times` attempts at an answer with "mine" in it."""
    left = [times]

    def examine_badly(exercise: str, source: str, seed: int) -> Examined:
        if "mine" in source and left[0]:
            left[0] -= 1
            return Examined(_not_gradable(find(exercise), str(error), seed), evidence, error)
        return quickly(exercise, source, seed)

    return examine_badly


PLAYED = SimpleNamespace(ranks=(SimpleNamespace(stdout="", calls=()),), world_size=1)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("error", "evidence", "attempts", "status"),
    [
        (warm.ServerDied("did not start"), None, 2, "passed"),
        (OSError("no space on the grader's disk"), None, 2, "passed"),
        (ReferenceFailed("rank 0 of the reference hangs"), PLAYED, 2, "passed"),
        (warm.ServerDied("went away", began=True), None, 1, "failed"),
        (warm.ServerDied("not there for the second play"), PLAYED, 1, "failed"),
        (TypeError("a judge raised"), PLAYED, 1, "failed"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_there_is_another_attempt_only_where_the_answer_cannot_have_caused_the_fault(
    error, evidence, attempts, status
):
    submission = handed_in(hello_ranks=f"mine = 1\n{RIGHT}")
    (result,) = judged(submission, "hello_ranks", examine=failing(error, evidence)).results
    assert (result.attempts, result.status) == (attempts, status)


@pytest.mark.usefixtures("sandboxed")
def test_a_sandbox_that_ended_under_an_answer_is_its_fault_whatever_the_machine_does():
    """The control is not asked: on a machine that is slow by then, it could fail too."""

    def examine_badly(exercise: str, source: str, seed: int) -> Examined:
        error = warm.ServerDied("went away", began=True)
        return Examined(_not_gradable(find(exercise), str(error), seed), None, error)

    (result,) = judged(handed_in(hello_ranks=RIGHT), "hello_ranks", examine=examine_badly).results
    assert (result.status, result.cause) == ("failed", "killed")


@pytest.mark.usefixtures("sandboxed")
def test_a_control_that_loses_points_can_be_judged_all_the_same():
    """A load that an answer leaves behind may cost it points, and not decide in the answer's
    favour."""
    fault = RuntimeError("judge broke")

    def examine_badly(exercise: str, source: str, seed: int) -> Examined:
        if "mine" in source:
            return Examined(_not_gradable(find(exercise), str(fault), seed), PLAYED, fault)
        return quickly(exercise, f"%%answer hello_ranks\n{HALF}", seed)

    submission = handed_in(hello_ranks=f"mine = 1\n{RIGHT}")
    (result,) = judged(submission, "hello_ranks", examine=examine_badly).results
    assert (result.status, result.cause) == ("failed", "refused")


def in_doubt(*plays: str):
    """A grader to whom a claim of the answer's plays is, in turn: "holds", "fails" or "in doubt";
    of the course's own solution the last of these words decides."""
    of_the_answer, asked = [*plays[:-1]], []

    def examine_doubtfully(exercise: str, source: str, seed: int) -> Examined:
        check = find(exercise)
        mine = "mine" in source
        asked.append("answer" if mine else "solution")
        how = of_the_answer.pop(0) if mine else plays[-1]
        first, *others = [ClaimResult(claim.name, True, claim.points) for claim in check.claims]
        why = "" if how == "holds" else "nobody counts"
        first = replace(first, passed=how == "holds", judged=how != "in doubt", message=why)
        status = {"holds": "passed", "fails": "failed", "in doubt": "not gradable"}[how]
        return Examined(Verdict(check.id, check.title, status, (first, *others), "", seed))

    return examine_doubtfully, asked


def test_what_waits_for_another_claim_in_the_second_play_fails():
    examine, _ = in_doubt("in doubt", "in doubt", "holds")

    def then_waits(exercise: str, source: str, seed: int, plays: list[str]) -> Examined:
        examined = examine(exercise, source, seed)
        plays.append(source)
        if len(plays) < 3:
            return examined
        first, *others = examined.verdict.claims
        claims = (replace(first, judged=True, reached=False, message="not judged until"), *others)
        return Examined(replace(examined.verdict, claims=claims))

    submission = handed_in(global_metrics="mine = 1\n")
    asks = partial(then_waits, plays=[])
    (result,) = judged(submission, "global_metrics", examine=asks, unsafe=True).results
    first = result.claims[0]
    assert (result.status, first.state) == ("failed", "fails")
    assert first.message == "another claim failed when it was played again"


@pytest.mark.parametrize(
    ("plays", "status", "asked"),
    [
        (("in doubt", "in doubt"), "not gradable", ["answer", "solution"]),
        (("in doubt", "holds", "holds"), "passed", ["answer", "solution", "answer"]),
        (("in doubt", "fails", "holds"), "failed", ["answer", "solution", "answer"]),
        (("in doubt", "in doubt", "holds"), "failed", ["answer", "solution", "answer"]),
        (("in doubt", "in doubt", "fails"), "failed", ["answer", "solution", "answer"]),
        (("fails", "holds"), "failed", ["answer"]),
    ],
)
def test_a_doubt_that_the_solution_does_not_raise_is_the_answer_s(plays, status, asked):
    examine, seen = in_doubt(*plays)
    submission = handed_in(global_metrics="mine = 1\n")
    (result,) = judged(submission, "global_metrics", examine=examine, unsafe=True).results
    assert (result.status, seen) == (status, asked)
    held = sum(claim.points for claim in result.claims[1:])
    assert result.earned == held + result.claims[0].points * (status == "passed")
    charged = plays[:2] == ("in doubt", "in doubt") and status == "failed"
    assert ("course's own solution" in result.claims[0].message) == charged


def test_what_the_machine_lacks_is_asked_of_the_solution_once():
    examine, asked = in_doubt("in doubt", "in doubt", "in doubt")
    judge = Judge(COURSE, ["global_metrics"], secret=SECRET, unsafe=True, examine=examine)
    for _ in range(2):
        (result,) = judge.record(handed_in(global_metrics="mine = 1\n")).results
        assert result.status == "not gradable"
    assert asked == ["answer", "solution", "answer"]


def test_what_the_machine_cannot_judge_costs_nothing_where_another_claim_fails():
    examine, _ = in_doubt("in doubt", "in doubt")

    def one_fails(exercise: str, source: str, seed: int) -> Examined:
        verdict = examine(exercise, source, seed).verdict
        first, second, *others = verdict.claims
        second = replace(second, passed=False, message="too little")
        return Examined(replace(verdict, status="failed", claims=(first, second, *others)))

    submission = handed_in(global_metrics="mine = 1\n")
    (result,) = judged(submission, "global_metrics", examine=one_fails, unsafe=True).results
    assert (result.status, result.has_mark) == ("not gradable", False)
    assert [claim.state for claim in result.claims[:2]] == ["not gradable", "fails"]


def test_a_picture_that_cannot_be_drawn_costs_nothing(monkeypatch):
    def broken(*_):
        raise ValueError("times that no clock shows")

    monkeypatch.setattr(judging, "launch_svg", broken)
    evidence = SimpleNamespace(ranks=(SimpleNamespace(calls=(1,)),), world_size=2)
    assert judging._pictures(Examined(None, evidence)) == ()


def test_what_was_refused_and_what_the_grader_failed_at():
    why = "eve.ipynb: not a notebook"
    refused = Submission("eve", refused=why, unread=dict.fromkeys(("hello_ranks", "ddp"), why))
    record = judged(refused, "hello_ranks", "ddp")
    assert [result.status for result in record.results] == ["refused", "refused"]
    assert record.refused == refused.refused
    failed = could_not(Judge(COURSE, ("hello_ranks", "ddp")), refused, "it broke")
    assert [result.status for result in failed.results] == ["not gradable"] * 2
    assert {result.cause for result in failed.results} == {"ours"}
    assert failed.earned == 0
    assert not failed.complete


def test_without_a_sandbox_every_record_says_so():
    record = judged(handed_in(hello_ranks=RIGHT), "hello_ranks", unsafe=True)
    assert record.results[0].status == "passed"
    assert (record.unsafe, record.layers) == (True, ())


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\x1b[2J\x1b[31mPASS", "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}[31mPASS"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),  # escaped where it is written
    ],
)
def test_what_an_answer_prints_is_kept_without_control_characters(text, kept):
    source = solution("global_metrics").replace("import math", f"import math\nprint({text!r})", 1)
    (result,) = judged(handed_in(global_metrics=source), "global_metrics").results
    assert result.status == "passed"
    assert kept in result.printed
    assert result.world_size == 2
    (picture,) = result.pictures
    assert picture.svg.startswith("<svg")
    assert "2 ranks" in picture.title


def test_sandboxes_have_imported_what_is_needed_and_there_is_one_at_a_time(monkeypatch):
    made, now = [], []

    @contextlib.contextmanager
    def sandbox(limits, flavour):
        made.append(flavour)
        now.append(flavour)
        assert len(now) == 1
        server = SimpleNamespace(flavour=flavour)
        yield SimpleNamespace(begin_answer=lambda: True, layers=(), server=server)
        now.clear()

    monkeypatch.setattr(judging, "sandbox", sandbox)
    monkeypatch.setattr(judging, "missing", lambda flavour: None)
    with judging._Boxes(Limits(), unsafe=False) as boxes:
        for needed in ("torch", "torch", "horovod", "torch", "horovod-tensorflow", "horovod"):
            with boxes.one(needed) as box:
                assert order(box.server.flavour) >= order(needed)
        monkeypatch.setattr(judging, "missing", lambda flavour: "not installed")
        boxes.renew()
        with boxes.one("horovod") as box:
            assert box.server.flavour == "torch"
    assert made == ["torch", "horovod", "horovod-tensorflow", "torch"]
    assert not now
