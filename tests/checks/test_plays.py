"""Plays side by side: what comes out does not depend on what ends first."""

import dataclasses
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import torch

from hpml.checks import judge, plays
from hpml.checks.contract import Check, Claim, Stage
from hpml.checks.plays import Play, outcomes, play_once
from hpml.ranks.evidence import Diagnosis, Evidence, RankEvidence
from hpml.ranks.parent.leash import Cancelled
from hpml.ranks.parent.warm import ServerDied

CHECK = Check(
    id="number",
    title="The world size",
    claims=(Claim("it ran", 1, lambda run: None),),
    hints={"start": "Return."},
    inputs=lambda seed, world_size: [seed] * world_size,
    expect=lambda inputs, world_size: world_size,
    drive=lambda answer, seed: answer.number(seed),
    names=("number",),
)
PLAYS = [Play(world_size) for world_size in (1, 2, 3)]
EASY = "def number(seed):\n    return 1\n"


def evidence(world_size, diagnosis=None):
    ranks = tuple(RankEvidence(rank, "returned", rank) for rank in range(world_size))
    return Evidence(world_size, ranks, 0.0, diagnosis)


@pytest.fixture
def launched(monkeypatch):
    """`launched(work)`: launches do `work(world_size, leash)` instead; returns who was under way,
    as a list of sets: each launch's world size with those that were there when it began."""

    def use(work):
        lock, under_way, seen = threading.Lock(), set(), []

        def launch(drive, world_size, leash=None, **options):
            with lock:
                under_way.add(world_size)
                seen.append(set(under_way))
            try:
                return work(world_size, leash)
            finally:
                with lock:
                    under_way.remove(world_size)

        monkeypatch.setattr(plays, "launch", launch)
        return seen

    return use


def until_cancelled(leash):
    select.select([leash], [], [])
    raise Cancelled


def world_sizes(check, **options):
    with closing(outcomes(check, EASY, PLAYS, 0, **options)) as played:
        return [run.world_size for run, _ in played]


def test_plays_are_under_way_side_by_side_and_come_in_their_order(launched):
    all_there = threading.Barrier(3)

    def work(world_size, leash):
        all_there.wait(60)  # never passed, were they played one by one
        return evidence(world_size)

    launched(work)
    assert world_sizes(CHECK) == [1, 2, 3]


@pytest.mark.parametrize(
    "check",
    [dataclasses.replace(CHECK, timed_at=(2,)), dataclasses.replace(CHECK, timed_at=(1, 2, 3))],
)
def test_where_seconds_are_judged_nothing_else_is_under_way(launched, check):
    two_began = threading.Event()

    def work(world_size, leash):
        if world_size == 2:
            two_began.set()
        else:  # long enough to be met by a launch that does not wait for it
            two_began.wait(0.5)
        return evidence(world_size)

    seen = launched(work)
    assert world_sizes(check) == [1, 2, 3]
    assert all(there == {2} for there in seen if 2 in there)


def test_side_by_side_only_where_it_is_asked_for(launched):
    seen = launched(lambda world_size, leash: evidence(world_size))
    assert world_sizes(CHECK, side_by_side=False) == [1, 2, 3]
    assert seen == [{1}, {2}, {3}]


def test_the_smallest_world_size_is_the_one_reported_whatever_fails_first():
    source = """
import time, torch.distributed as dist

def number(seed):
    world_size = dist.get_world_size()
    if world_size == 2:
        time.sleep(0.3)
    if world_size > 1:
        raise ValueError(f"{world_size} are too many")
    return 1
"""
    headlines = {judge(CHECK, source, seed=1).headline for _ in range(3)}
    assert headlines == {
        "with 2 ranks: ranks 0 and 1 raised ValueError: 2 are too many (line 9 of your answer)"
    }


def test_a_fault_ends_what_is_still_under_way(launched):
    def work(world_size, leash):
        if world_size == 1:
            return evidence(1, Diagnosis("hang", "rank 0 waits"))
        return until_cancelled(leash)

    launched(work)
    threads = threading.active_count()
    assert judge(CHECK, EASY).headline == "with 1 rank: rank 0 waits"
    assert threading.active_count() == threads


@pytest.mark.parametrize("begun", [False, True], ids=["before the thread runs", "once it runs"])
def test_an_interrupt_while_plays_are_started_ends_all_of_them(launched, monkeypatch, begun):
    at_work = threading.Semaphore(0)

    def work(world_size, leash):
        at_work.release()
        return until_cancelled(leash)

    launched(work)
    start, started = threading.Thread.start, []

    def interrupted(thread):
        """The second thread's start is interrupted, before it waits for the thread, or after."""
        started.append(thread)
        if len(started) == 1 or begun:
            start(thread)
        if len(started) == 2:
            for _ in range(2 if begun else 1):
                at_work.acquire(timeout=60)
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world_sizes(CHECK)
    for thread in started[: 2 if begun else 1]:
        thread.join(60)
        assert not thread.is_alive()


def test_an_interrupt_while_plays_are_waited_for_ends_all_of_them(launched):
    main, ended = threading.main_thread().ident, threading.Semaphore(0)

    def work(world_size, leash):
        if world_size == 3:
            time.sleep(0.2)  # until the plays are waited for; sooner is another place, as good
            signal.pthread_kill(main, signal.SIGINT)
        try:
            return until_cancelled(leash)
        finally:
            ended.release()

    launched(work)
    with pytest.raises(KeyboardInterrupt):
        world_sizes(CHECK)
    assert all(ended.acquire(blocking=False) for _ in PLAYS)


def test_a_slow_play_goes_on_alone_with_its_whole_limit_and_the_others_come_again(
    launched, monkeypatch
):
    monkeypatch.setattr(plays, "PATIENCE", 0.0)

    def work(world_size, leash):
        if leash is None:
            return evidence(world_size)
        if world_size > 1:
            return until_cancelled(leash)
        while leash.since > time.monotonic():  # no limit, as long as others are there
            time.sleep(0.001)
        return evidence(world_size)

    seen = launched(work)
    assert world_sizes(CHECK) == [1, 2, 3]
    assert seen[3:] == [{2}, {3}]


def test_a_fault_of_the_check_comes_up_when_its_play_has_its_turn(launched):
    def inputs(seed, world_size):
        if world_size == 2:
            raise KeyError("ours")
        return [seed] * world_size

    def work(world_size, leash):
        return evidence(1, Diagnosis("hang", "rank 0 waits"))

    broken = dataclasses.replace(CHECK, inputs=inputs)
    launched(lambda world_size, leash: evidence(world_size))
    assert "world size 2: KeyError" in judge(broken, EASY).headline
    launched(work)
    assert judge(broken, EASY).headline == "with 1 rank: rank 0 waits"


def test_checks_that_draw_from_the_global_generator_do_not_meet(launched):
    launched(lambda world_size, leash: evidence(world_size))

    def drawn(seed):
        torch.manual_seed(seed)
        time.sleep(0.01)  # another thread draws, if it can
        return torch.rand(1).item()

    check = dataclasses.replace(
        CHECK,
        inputs=lambda seed, world_size: [drawn(seed % 1000), seed % 1000],
        expect=lambda inputs, world_size: drawn(inputs[1]),
    )
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda seed: play_once(check, EASY, 1, seed)[0], range(12)))
    assert [run.inputs[0] for run in runs] == [run.expected for run in runs]


def staged(*stages, **options):
    """A check whose judge is asked nothing."""
    claims = (Claim("it holds", 1, lambda run: None),)
    return Check(
        id="staged",
        title="Stages",
        claims=claims,
        hints={"start": ""},
        inputs=lambda seed, world_size: {stage.name: [0] * world_size for stage in stages},
        expect=lambda inputs, world_size: None,
        stages=stages,
        **options,
    )


REFERENCE = Stage("reference", print, lambda world: 0 if world == 1 else world, with_answer=False)
ANSWERS = Stage("answers", print)


@pytest.mark.parametrize(
    ("world_size", "delayed", "expected"),
    [
        (2, False, {"reference": None, "answers": EASY}),
        (1, False, {"answers": EASY}),
        (2, True, {"answers": EASY}),
    ],
)
def test_a_stage_without_the_answer_is_launched_without_it(
    monkeypatch, world_size, delayed, expected
):
    sources = []

    def launch(drive, world_size, answer=None, rules=None, **options):
        sources.append(answer)
        assert (rules is None) == (answer is None)
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    run, fault = plays.play_once(staged(REFERENCE, ANSWERS), EASY, world_size, 3, delayed)
    assert fault is None
    assert dict(zip(run.stages, sources, strict=True)) == expected


@pytest.mark.parametrize("needed", [True, False])
def test_a_stage_may_depend_on_those_before_it(monkeypatch, needed):
    seen = []

    def when(inputs, found):
        seen.append((set(inputs), list(found)))
        return needed

    monkeypatch.setattr(plays, "launch", lambda *_, **__: evidence(2))
    later = Stage("later", print, when=when)
    run, _ = plays.play_once(staged(ANSWERS, later), EASY, 2, 3)
    assert list(run.stages) == (["answers", "later"] if needed else ["answers"])
    assert seen == [({"answers", "later"}, ["answers"])]


def test_a_reference_that_fails_is_no_fault_of_the_answer(monkeypatch):
    hangs = evidence(2, Diagnosis("hang", "rank 0 waits", (1,)))
    monkeypatch.setattr(plays, "launch", lambda *_, **__: hangs)
    with pytest.raises(plays.ReferenceFailed, match="reference: rank 0 waits"):
        plays.play_once(staged(REFERENCE, ANSWERS), EASY, 2, 3)


@pytest.mark.parametrize("looks", [True, False])
def test_the_files_of_a_stage_that_looks_are_looked_at(monkeypatch, looks):
    asked = []

    def launch(*_, **options):
        asked.append(options["looks"])
        return evidence(1)

    monkeypatch.setattr(plays, "launch", launch)
    plays.play_once(staged(Stage("one", print, looks=looks)), EASY, 1, 3)
    assert asked == [looks]


@pytest.mark.parametrize(
    ("dies_in", "began", "launches", "said"),
    [
        (1, False, 1 + 2, False),  # the reference's supervisor: all again
        (1, True, 1 + 2, False),  # no answer was there to begin
        (2, False, 2 + 2, False),
        (2, True, 2, True),
    ],
)
def test_who_died_before_the_answer_began_is_started_again_and_nobody_else(
    monkeypatch, dies_in, began, launches, said
):
    made = []

    def launch(drive, world_size, **options):
        made.append(world_size)
        if len(made) == dies_in:
            raise ServerDied("went away", began=began)
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    raised = None
    try:
        plays.play_once(staged(REFERENCE, ANSWERS), EASY, 2, 3)
    except ServerDied as died:
        raised = died
    assert len(made) == launches
    assert (raised is not None and raised.began) == said


def test_a_server_that_goes_after_an_earlier_stage_of_the_answer_went_after_it_began(monkeypatch):
    made = []

    def launch(drive, world_size, **options):
        made.append(world_size)
        if len(made) == 2:
            raise ServerDied("is not there")
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    with pytest.raises(ServerDied) as died:
        plays.play_once(staged(ANSWERS, Stage("more", print)), EASY, 2, 3)
    assert died.value.began
    assert len(made) == 2


@pytest.mark.parametrize(
    ("of_calls", "world_size", "proxied", "link"),
    [
        (True, 2, True, plays.GRADED_LINK),
        (True, 1, True, None),
        (True, 2, False, None),
        (False, 2, True, None),
    ],
)
def test_where_a_claim_rests_on_traffic_graded_ranks_are_on_links(
    monkeypatch, of_calls, world_size, proxied, link
):
    links = []

    def launch(drive, world_size, link, **options):
        links.append(link)
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    claims = (Claim("it ran", 1, lambda run: None, of_calls=of_calls),)
    check = dataclasses.replace(CHECK, claims=claims)
    plays.play_once(check, EASY, world_size, 3, proxied=proxied)
    assert links == [link]


@pytest.mark.parametrize(
    ("process_group", "of_calls", "proxied"),
    [(True, False, True), (False, True, True), (False, False, False)],
)
def test_a_group_that_the_answer_starts_is_its_proxys_where_a_claim_rests_on_calls(
    monkeypatch, process_group, of_calls, proxied
):
    seen = []

    def launch(drive, world_size, proxied, **options):
        seen.append(proxied)
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    claims = (Claim("it ran", 1, lambda run: None, of_calls=of_calls),)
    check = dataclasses.replace(CHECK, claims=claims, process_group=process_group)
    plays.play_once(check, EASY, 2, 3, proxied=True)
    plays.play_once(check, EASY, 2, 3, proxied=False)
    assert seen == [proxied, False]


def test_with_horovod_cycles_are_long_where_bytes_are_counted(monkeypatch):
    environments = []

    def launch(drive, world_size, environment, **options):
        environments.append(environment(1))
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    check = dataclasses.replace(
        CHECK,
        claims=(Claim("it ran", 1, lambda run: None, of_calls=True),),
        flavour="horovod",
        environment=lambda *_: {"HOROVOD_CYCLE_TIME": "1", "OTHER": "2"},
    )
    for proxied in (True, False):
        plays.play_once(check, EASY, 2, 3, proxied=proxied)
    assert environments == [
        {"HOROVOD_CYCLE_TIME": "20", "OTHER": "2", "CUDA_VISIBLE_DEVICES": ""},
        {"HOROVOD_CYCLE_TIME": "1", "OTHER": "2", "CUDA_VISIBLE_DEVICES": ""},
    ]


def test_no_launch_of_any_stage_sees_a_gpu(monkeypatch):
    seen = []

    def launch(drive, world_size, environment, **options):
        seen.append(environment(0))
        return evidence(world_size)

    monkeypatch.setattr(plays, "launch", launch)
    plays.play_once(staged(REFERENCE, ANSWERS), EASY, 2, 3)
    assert seen == [{"CUDA_VISIBLE_DEVICES": ""}] * 2
