"""From an answer to a verdict, on a small exercise of this file's own."""

import dataclasses

import pytest
import torch

from hpml.checks import find, judge, plays, render, run_check, seeds
from hpml.checks.contract import Check, Claim, Problem, Stage, fault
from hpml.checks.verdict import ClaimResult, Verdict
from hpml.errors import UserError
from hpml.ranks import flavour, mark
from hpml.ranks.parent.warm import ServerDied

RIGHT = """%%answer total
import torch, torch.distributed as dist

def total(value):
    result = torch.tensor([value])
    dist.all_reduce(result)
    return result
"""


def _sum_is_right(run):
    for rank, value in enumerate(run.values):
        if value != run.expected:
            return Problem(f"rank {rank} has {value}", "wrong", expected=f"the sum {run.expected}")
    return None


def _inputs(seed, world_size):
    return torch.randint(100, (world_size,), generator=torch.manual_seed(seed)).tolist()


CHECK = Check(
    id="total",
    title="The sum over ranks",
    claims=(
        Claim("every rank has the sum", 3, _sum_is_right),
        Claim("it ran", 1, lambda run: None),
    ),
    hints={"start": "Use a collective.", "wrong": "Which collective adds?", "hang": "Who is late?"},
    inputs=_inputs,
    expect=lambda inputs, world_size: sum(inputs),
    drive=lambda answer, value: answer.total(value).item(),
    names=("total",),
)


def test_a_right_answer_gets_every_point():
    verdict = judge(CHECK, RIGHT)
    assert verdict.status == "passed"
    assert (verdict.earned, verdict.points) == (4, 4)


def test_a_claim_that_fails_has_message_hint_and_the_smallest_world_size():
    wrong = RIGHT.replace("dist.all_reduce(result)", "pass")
    verdict = judge(CHECK, wrong, seed=1)
    failed, held = verdict.claims
    assert (verdict.status, verdict.earned) == ("failed", 1)
    assert (failed.hint_key, failed.hint, failed.world_size) == (
        "wrong",
        "Which collective adds?",
        2,
    )
    assert failed.message.startswith("rank ")
    assert failed.expected.startswith("the sum ")
    assert verdict.cause == "claims"
    assert held.passed


def test_a_check_of_one_rank_names_no_number_of_ranks():
    wrong = RIGHT.replace("return result", "return result + 1")
    assert judge(dataclasses.replace(CHECK, worlds=(1,)), wrong).claims[0].world_size is None
    assert judge(CHECK, wrong, worlds=[1]).claims[0].world_size == 1


def test_the_same_seed_gives_the_same_verdict_and_another_seed_other_inputs():
    wrong = RIGHT.replace("dist.all_reduce(result)", "pass")
    assert judge(CHECK, wrong, seed=7) == judge(CHECK, wrong, seed=7)
    assert judge(CHECK, wrong, seed=7).claims != judge(CHECK, wrong, seed=8).claims


@pytest.mark.parametrize(
    ("source", "headline", "hint", "cause"),
    [
        ("", "total: the answer is empty", "start", "unwritten"),
        (
            "%%answer total\n\n",
            "total: your answer does not define total",
            "start",
            "missing name",
        ),
        (
            RIGHT.replace(
                "    result = torch.tensor([value])\n", "    raise NotImplementedError()\n"
            ),
            "total is not written yet: put your code where `raise NotImplementedError()` stands, "
            "line 5 of your answer",
            "start",
            "unwritten",
        ),
        (
            RIGHT.replace("def total(value):", "def total(value:"),
            "with 1 rank: rank 0 raised SyntaxError: '(' was never closed (line 4 of your answer)",
            "syntax",
            "raised",
        ),
        (
            RIGHT.replace("dist.all_reduce(result)", "dist.get_rank() or dist.barrier()"),
            "with 2 ranks: rank 0 waits in barrier (call 1, line 6 of your answer); "
            "rank 1 has made no call at all and returned",
            "hang",
            "hang",
        ),
    ],
)
def test_an_answer_that_cannot_be_judged_gets_a_sentence_and_no_points(
    source, headline, hint, cause
):
    verdict = judge(CHECK, source)
    assert verdict.status == "failed"
    assert verdict.earned == 0
    assert verdict.headline == headline
    assert verdict.cause == cause
    assert {claim.hint_key for claim in verdict.claims} == {hint}
    assert {claim.state for claim in verdict.claims} == {"not reached"}
    assert {claim["reached"] for claim in verdict.record()["claims"]} == {False}
    until = "not judged until the answer runs to its end"
    waits = until if cause in ("hang", "raised") else "nothing to judge yet"
    assert {claim.message for claim in verdict.claims} == {waits}


def test_a_claim_that_rests_on_another_is_not_judged_until_that_one_holds():
    rests = Claim("its mean is right", 2, _sum_is_right)
    check = dataclasses.replace(CHECK, claims=(CHECK.claims[0], rests, CHECK.claims[1]))
    verdict = judge(check, RIGHT.replace("dist.all_reduce(result)", "pass"))
    assert [claim.state for claim in verdict.claims] == ["fails", "not reached", "holds"]
    assert verdict.headline == "1 of 3 claims fails, 1 was not judged"
    assert (verdict.status, verdict.earned, verdict.points) == ("failed", 1, 6)
    text = render.as_text(verdict)
    assert "  – its mean is right" in text
    assert "      not judged until the claim above holds\n" in text
    passed = judge(check, RIGHT)
    assert (passed.status, passed.earned) == ("passed", 6)
    assert "reached" not in passed.lasting_record()["claims"][0]


def test_a_fault_of_the_check_is_not_the_answers():
    def broken(run):
        raise KeyError("ours")

    check = dataclasses.replace(CHECK, claims=(Claim("broken", 2, broken),))
    verdict = judge(check, RIGHT)
    assert verdict.status == "not gradable"
    assert verdict.cause == "ours"
    assert "not your answer's fault: KeyError: 'ours'" in verdict.headline


def test_a_server_that_goes_away_once_costs_the_answer_nothing(monkeypatch):
    launches = []

    def flaky(*args, **kwargs):
        launches.append(args)
        if len(launches) == 1:
            raise ServerDied("gone")
        return original(*args, **kwargs)

    original = plays.launch
    monkeypatch.setattr(plays, "launch", flaky)
    assert judge(CHECK, RIGHT).passed

    def never(*arguments, **options):
        raise ServerDied("gone")

    monkeypatch.setattr(plays, "launch", never)
    assert judge(CHECK, RIGHT).status == "not gradable"


def test_stages_share_a_folder_and_one_may_die():
    def write_and_die(answer, name):
        with open(name, "w") as file:
            file.write("kept")
        raise SystemExit(3)

    def read(answer, name):
        with open(name) as file:
            return file.read()

    check = dataclasses.replace(
        CHECK,
        shared_folder=True,
        drive=None,
        stages=(
            Stage("dies", write_and_die, dies=True),
            Stage("reads", read, world=lambda world_size: world_size + 1),
        ),
        inputs=lambda seed, world: {
            "dies": [f"file {r}" for r in range(world)],
            "reads": ["file 0"] * (world + 1),
        },
        expect=lambda inputs, world: "kept",
        worlds=(1, 2),
    )
    verdict = judge(check, RIGHT)
    assert verdict.passed, verdict.headline


def test_a_stage_on_another_number_of_ranks_says_on_how_many_they_failed():
    def fails(answer, value):
        raise ValueError("no")

    check = dataclasses.replace(
        CHECK,
        drive=None,
        stages=(Stage("again", fails, world=lambda world_size: world_size + 1, dies=True),),
        inputs=lambda seed, world: {"again": list(range(world + 1))},
        expect=lambda inputs, world: None,
        claims=(Claim("it carries on", 1, lambda run: fault(run.stages["again"])),),
        worlds=(1, 2),
    )
    verdict = judge(check, RIGHT)
    words = "with 1 rank: again, with 2 ranks: ranks 0 and 1 raised ValueError: no"
    assert words in render.as_text(verdict)


def test_an_unknown_exercise_is_one_line_with_the_nearest():
    with pytest.raises(UserError, match="no exercise has the id 'dpp': did you mean ddp"):
        find("dpp")


# Right as long as the ranks keep step: each writes its number, and reads the others' soon after.
IN_STEP = """%%answer total
import os, time, torch.distributed as dist, torch

def total(value):
    rank, world = dist.get_rank(), dist.get_world_size()
    with open(f"{world} {rank}", "w") as file:
        file.write(str(value))
    time.sleep(0.02)
    there = [f"{world} {other}" for other in range(world)]
    return torch.tensor(sum(int(open(name).read()) for name in there if os.path.exists(name)))
"""


@pytest.mark.parametrize(
    ("worlds", "launches"),
    [((1, 2, 3), [(1, False), (2, False), (3, True)]), ((2,), [(2, False), (2, True)])],
)
def test_delayed_the_largest_world_waits_on_the_inputs_of_its_seed(monkeypatch, worlds, launches):
    seen = []

    def launch(drive, world_size, **options):
        seen.append((world_size, options["delays"] is not None))
        return play_launch(drive, world_size, **options)

    play_launch = plays.launch
    monkeypatch.setattr(plays, "launch", launch)
    examined = run_check.examine(CHECK, RIGHT, worlds=worlds, seed=7, delayed=True)
    assert examined.verdict.passed
    assert seen == launches
    drawn = _inputs(seeds.of_play(7, worlds[-1], delayed=True), worlds[-1])
    assert examined.evidence.values == (sum(drawn),) * worlds[-1]


def test_an_answer_that_needs_luck_fails_where_ranks_come_late():
    for seed in range(20):  # on a busy machine, the late one may be in time after all
        examined = run_check.examine(CHECK, IN_STEP, worlds=[1, 2], seed=seed, delayed=True)
        if not examined.verdict.passed:
            break
    failed = examined.verdict.claims[0]
    assert failed.message.startswith("when ranks come late: rank ")
    assert failed.world_size == 2
    assert examined.evidence.world_size == 2


def test_an_answer_is_not_blamed_for_a_horovod_that_is_not_there(monkeypatch):
    monkeypatch.setattr(flavour, "missing", lambda _: "Horovod is not installed: build it")
    verdict = judge(dataclasses.replace(CHECK, flavour="horovod"), RIGHT)
    assert verdict.status == "not gradable"
    assert verdict.headline == (
        "total could not be graded, which is not your answer's fault: "
        "ranks with horovod: Horovod is not installed: build it"
    )
    assert not any(claim.judged for claim in verdict.claims)


def test_what_keeps_an_answer_from_being_judged_is_handed_on(monkeypatch):
    def break_down(run):
        raise ZeroDivisionError("ours")

    broken = dataclasses.replace(CHECK, claims=(Claim("x", 1, break_down),))
    examined = run_check.examine(broken, RIGHT, worlds=[1])
    assert examined.verdict.status == "not gradable"
    assert isinstance(examined.error, ZeroDivisionError)
    assert run_check.examine(CHECK, RIGHT, worlds=[1]).error is None


def test_a_stage_may_have_a_flavour_of_its_own(monkeypatch):
    asked = []

    def launch(drive, ranks, **options):
        asked.append(options["flavour"])
        raise ServerDied("no ranks for this test")

    monkeypatch.setattr(plays, "launch", launch)
    stages = (Stage("one", CHECK.drive, flavour="horovod-tensorflow"), Stage("two", CHECK.drive))
    check = dataclasses.replace(CHECK, stages=stages, flavour="horovod")
    inputs = {"inputs": lambda seed, world: {"one": [0], "two": [0]}}
    assert check.needs == "horovod-tensorflow"
    assert CHECK.needs == "torch"
    assert judge(dataclasses.replace(check, **inputs), RIGHT, worlds=[1]).status == "not gradable"
    swapped = dataclasses.replace(check, **inputs, stages=stages[::-1])
    judge(swapped, RIGHT, worlds=[1])
    assert asked == ["horovod-tensorflow"] * 2 + ["horovod"] * 2


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("    return numpy.array(value)", "other cell"),
        ("    return (value", "syntax"),
        ("!pip install numpy", "syntax"),
        ("        return value\n      return 1", "syntax"),
        ("    return value / 0", "raised"),
    ],
)
def test_an_answer_that_needs_another_cell_gets_the_hint_that_it_stands_alone(line, hint):
    own = {"raised": "torchrun sets RANK.", "alone": "Ranks have to talk."}  # as many checks have
    check = dataclasses.replace(CHECK, hints=CHECK.hints | own)
    verdict = judge(check, f"%%answer total\ndef total(value):\n{line}\n", worlds=[2])
    assert (verdict.status, verdict.cause, verdict.earned) == ("failed", "raised", 0)
    assert {claim.hint_key for claim in verdict.claims} == {hint}
    assert {claim.hint for claim in verdict.claims} == {
        (run_check.GENERAL_HINTS | check.hints)[hint]
    }
    if hint != "raised":
        assert "stands alone" in verdict.claims[0].hint


def test_a_verdict_shows_what_the_answer_printed_and_where_it_failed():
    def drive(answer, value):
        mark("small numbers")
        return answer.total(value).item()

    hanging = RIGHT.replace(
        "    return result",
        "    print('<b>rank</b>', dist.get_rank())\n"
        "    dist.get_rank() or dist.barrier()\n    return result",
    )
    verdict = judge(dataclasses.replace(CHECK, drive=drive), hanging, worlds=[2], seed=3)
    assert verdict.cause == "hang"
    assert verdict.shown_at == 2
    assert verdict.case == "small numbers"
    assert verdict.printed == "[0] <b>rank</b> 0\n[1] <b>rank</b> 1"
    assert dict(verdict.lines)[8] == "    dist.get_rank() or dist.barrier()"
    rows = verdict.calls.splitlines()
    assert rows[0] == "rank 0  1 all_reduce  2 ✗ barrier"
    assert verdict.timeline.startswith("<svg")
    assert "timeline" not in verdict.record()
    text, html = render.as_text(verdict, place=lambda n: f"w.py:{n + 30}"), render.as_html(verdict)
    assert "w.py:38 |     dist.get_rank() or dist.barrier()" in text
    assert "the case: small numbers, with 2 ranks" in text
    assert "[0] &lt;b&gt;rank&lt;/b&gt; 0" in html
    assert "<b>rank</b>" not in html


def test_a_right_answer_shows_what_it_printed_and_no_calls():
    loud = RIGHT.replace("    return result", "    print('sum', result.item())\n    return result")
    verdict = judge(CHECK, loud, worlds=[2], seed=3)
    assert verdict.passed
    assert verdict.printed.startswith("[0-1] sum ")
    assert (verdict.calls, verdict.timeline, verdict.case) == ("", "", "")
    assert "printed" not in verdict.lasting_record()


def test_a_flood_is_ended_and_named_as_one():
    flood = RIGHT.replace("    return result", "    while True:\n        print('x' * 1000)")
    verdict = judge(CHECK, flood, worlds=[1])
    assert verdict.headline.startswith("with 1 rank: rank 0 printed more than 16 MiB (line ")
    assert verdict.headline.endswith(" of your answer): a flood, which is cut and ends the launch")
    assert (verdict.cause, verdict.claims[0].hint_key) == ("flood", "flood")
    assert len(verdict.printed.splitlines()) == 21


def test_a_sentence_has_a_length_whatever_name_is_in_it():
    name = 5_000_000 * "x"
    result = ClaimResult("a claim", False, 1, f"{name} is missing", expected=name)
    verdict = Verdict("toy", "Toy", "failed", (result,), f"no {name}", 1)
    assert max(map(len, (result.message, result.expected, verdict.headline))) < 2100
