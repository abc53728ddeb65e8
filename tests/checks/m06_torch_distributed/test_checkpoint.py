"""Exercise checkpoint: what its judges say of a good run, and of one with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks import judge
from hpml.checks.contract import CannotJudge
from hpml.checks.m06_torch_distributed._stopped_training import HELD, PATH, SAVE, SAVED, STATE
from hpml.checks.m06_torch_distributed.checkpoint import BATCH, CHECK, LENGTH, place_of
from hpml.checks.plays import play_once
from hpml.ranks.evidence import Diagnosis

ONE_WRITER, WRITTEN, SAMPLES, SAME, KILLED = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def good(solution):
    """A run whose rank 0 was killed in time: on a busy machine it may have ended by then."""
    source = solution("checkpoint").replace("%%answer", "#", 1)
    for _ in range(10):
        run, fault = play_once(CHECK, source, world_size=2, seed=5)
        assert fault is None
        if run.stages["killed while writing"].ranks[0].end == "killed":
            return run
    pytest.fail("in ten runs, no kill came in time")


def with_values(run, stage, change, rank=0):
    """The run with `change(value)` merged into what one rank returned in a stage."""
    evidence = run.stages[stage]
    ranks = list(evidence.ranks)
    ranks[rank] = replace(ranks[rank], value=ranks[rank].value | change(ranks[rank].value))
    return replace(run, stages={**run.stages, stage: replace(evidence, ranks=tuple(ranks))})


def asked_with(run, rank, change):
    """The run with `change` for the request in which a rank reports that save has returned."""
    evidence = run.stages["train and stop"]
    ranks = list(evidence.ranks)
    asked = [change(each) if each.request == SAVED else each for each in ranks[rank].asked]
    ranks[rank] = replace(ranks[rank], asked=tuple(each for each in asked if each is not None))
    stopped = replace(evidence, ranks=tuple(ranks))
    return replace(run, stages={**run.stages, "train and stop": stopped})


def resumed_with(run, batches):
    """The run whose resumed ranks took these global batches, dealt out in turn."""
    evidence = run.stages["resume"]
    w = evidence.world_size
    ranks = tuple(
        replace(rank, value=rank.value | {"taken": [batch[rank.rank :: w] for batch in batches]})
        for rank in evidence.ranks
    )
    return replace(run, stages={**run.stages, "resume": replace(evidence, ranks=ranks)})


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("checkpoint", solution("checkpoint"), seed=seed)
    assert verdict.passed, verdict


def test_a_good_run_has_no_problems_and_a_kill(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)
    evidence = good.stages["killed while writing"]
    assert (evidence.ranks[0].end, evidence.ranks[0].signal) == ("killed", "SIGKILL")
    assert evidence.killed == 0


def test_it_resumes_on_another_number_of_ranks():
    (resume,) = (stage for stage in CHECK.stages if stage.name == "resume")
    assert [resume.world(world) for world in CHECK.worlds] == [2, 3, 4, 1]


def test_it_stops_where_no_mistake_looks_like_another():
    for seed in range(20):
        steps = CHECK.inputs(seed, 1)["train and stop"][0]["steps"]
        epoch, done = divmod(steps * BATCH, LENGTH)
        assert epoch == 1
        assert done > 2 * BATCH
        # what one rank has taken is neither everything nor everything but a batch
        assert all(done / world not in (done, done - BATCH) for world in (2, 3, 4))


def test_files_of_other_ranks_and_none_at_all_are_said(good):
    def left(files):
        stopped = replace(good.stages["train and stop"], files=files)
        return replace(good, stages={**good.stages, "train and stop": stopped})

    other = ONE_WRITER(left({PATH: 5, "rank1/checkpoint.pt.tmp": 0}))
    assert (other.hint, other.message) == (
        "writers",
        "besides rank 0, rank 1 wrote checkpoint.pt.tmp",
    )
    assert ONE_WRITER(left({f"{PATH}.0": 5})).hint == "no_file"
    assert ONE_WRITER(left({PATH: 5, f"{PATH}.txt": 1, ".tmp/rank1/x": 1})) is None
    assert ONE_WRITER(left(None)).hint == "writers"


@pytest.mark.parametrize("seen", [{}, {PATH: 0}, {"rank1/checkpoint.pt": 5}, None])
def test_a_rank_that_comes_back_early_is_named(good, seen):
    early = asked_with(good, 1, lambda asked: replace(asked, files=seen))
    assert "rank 1" in WRITTEN(early).message
    assert WRITTEN(early).hint == "early"


def test_a_rank_that_never_comes_back_has_no_file_there(good):
    assert WRITTEN(asked_with(good, 1, lambda asked: None)).hint == "early"
    refused = asked_with(good, 1, lambda asked: replace(asked, refused=True))
    assert WRITTEN(refused).hint == "early"


def test_rank_0_is_held_up_from_outside(solution):
    source = solution("checkpoint").replace("%%answer", "#", 1)
    hurries = f"import time\ntime.sleep = lambda *_: None\n{source}"
    run, _ = play_once(CHECK, hurries, world_size=2, seed=5)
    first, other = (
        {asked.request: asked.answered - asked.at for asked in rank.asked}
        for rank in run.stages["train and stop"].ranks
    )
    assert first[SAVE] >= HELD[SAVE]
    assert first[STATE] >= HELD[STATE]
    assert list(other) == [SAVE, SAVED]


def test_where_a_run_resumed_is_told_from_the_samples(good):
    batches, steps = good.expected["batches"], good.expected["steps"]
    order = [sample for batch in batches for sample in batch]
    per_epoch = LENGTH // BATCH

    def from_sample(start):
        rest = order[start:]
        return [rest[at : at + BATCH] for at in range(0, len(rest), BATCH)]

    cases = {
        "position": batches[per_epoch:],
        "epoch": batches[steps - per_epoch :],
        "twice": batches[steps - 1 :],
        "local": from_sample(LENGTH + (steps * BATCH - LENGTH) // 3),
        "order": [list(range(BATCH))],
    }
    for hint, taken in cases.items():
        assert SAMPLES(resumed_with(good, taken)).hint == hint
    assert SAMPLES(resumed_with(good, [])).hint == "position"
    assert SAMPLES(resumed_with(good, batches[2 * per_epoch :])).hint == "local"
    assert SAMPLES(resumed_with(good, batches[steps:-1])).hint == "order"
    assert SAMPLES(resumed_with(good, batches[steps:])) is None


def test_places_are_found_in_any_epoch():
    order = [*torch.randperm(LENGTH).tolist(), *torch.randperm(LENGTH).tolist()]
    for start in (0, 5, LENGTH, LENGTH + 30):
        assert place_of(sorted(order[start : start + BATCH]), order) == divmod(start, LENGTH)
    assert place_of([0] * BATCH, order) is None


@pytest.mark.parametrize(("part", "hint"), [("loaded", "weights"), ("final", "optimizer")])
def test_weights_that_differ_are_blamed_on_the_right_thing(good, part, hint):
    changed = with_values(
        good, "resume", lambda v: {part: v[part] | {"inner.bias": v[part]["inner.bias"] + 1e-6}}
    )
    assert SAME(changed).hint == hint
    assert "inner.bias differs by up to 1e-06" in SAME(changed).message


def test_what_is_left_after_the_kill_counts(good):
    def left(value):
        return with_values(good, "after the kill", lambda _: value)

    assert KILLED(left({"failed": "EOFError: Ran out of input"})).hint == "in_place"
    weights = good.stages["after the kill"].values[0]["loaded"]
    assert KILLED(left({"loaded": {n: t + 0.5 for n, t in weights.items()}})).hint == "torn"
    mixed = {name: tensor + ("bias" in name) for name, tensor in weights.items()}
    assert KILLED(left({"loaded": mixed})).hint == "torn"
    whole = {name: tensor + 1 for name, tensor in weights.items()}
    assert KILLED(left({"loaded": whole})) is None
    assert KILLED(left({"loaded": None})).hint == "torn"


def test_without_a_kill_there_is_no_pass(good):
    evidence = good.stages["killed while writing"]
    ranks = tuple(replace(rank, end="returned", signal=None) for rank in evidence.ranks)
    unharmed = replace(evidence, ranks=ranks, diagnosis=None, killed=None)
    run = replace(good, stages={**good.stages, "killed while writing": unharmed})
    assert KILLED(run).hint == "incomplete"
    crashed = replace(unharmed, diagnosis=Diagnosis("raised", "rank 0 raised KeyError: 'model'"))
    run = replace(good, stages={**good.stages, "killed while writing": crashed})
    assert KILLED(run).message == "rank 0 raised KeyError: 'model'"


def test_where_the_machine_could_not_kill_the_answer_is_not_blamed(good):
    evidence = good.stages["killed while writing"]
    ranks = tuple(replace(rank, end="returned", signal=None) for rank in evidence.ranks)
    reason = "inotify: Too many open files"
    unharmed = replace(evidence, ranks=ranks, diagnosis=None, killed=None, no_kill=reason)
    run = replace(good, stages={**good.stages, "killed while writing": unharmed})
    assert KILLED(run) == CannotJudge(f"this machine cannot watch a folder: {reason}")
    crashed = replace(unharmed, diagnosis=Diagnosis("raised", "rank 0 raised KeyError: 'model'"))
    run = replace(good, stages={**good.stages, "killed while writing": crashed})
    assert KILLED(run).message == "rank 0 raised KeyError: 'model'"


def test_a_rank_that_ends_itself_was_not_killed_while_writing(good):
    by_itself = replace(good.stages["killed while writing"], killed=None)
    run = replace(good, stages={**good.stages, "killed while writing": by_itself})
    assert KILLED(run).hint == "killed"


@pytest.mark.parametrize("how", ["it was removed", "it was written in place"])
def test_a_moment_without_a_whole_file_counts_whatever_is_left(good, how):
    exposed = replace(good.stages["killed while writing"], broken=how)
    run = replace(good, stages={**good.stages, "killed while writing": exposed})
    assert KILLED(run).hint == "in_place"
    assert KILLED(run).message.endswith(how)


def test_it_is_killed_after_a_replacement_that_nothing_in_the_inputs_names():
    (writing,) = (stage for stage in CHECK.stages if stage.kill)
    kills = [writing.kill(seed) for seed in range(40)]
    assert {(kill.replaced, kill.nth) for kill in kills} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_a_resume_that_ends_badly_leaves_the_other_claims(good):
    bad = replace(good.stages["resume"], diagnosis=Diagnosis("hang", "rank 1 waits"))
    run = replace(good, stages={**good.stages, "resume": bad})
    assert SAMPLES(run).hint == SAME(run).hint == "hang"
    assert ONE_WRITER(run) is None
    assert KILLED(run) is None


def test_a_batch_that_begins_an_epoch_is_placed_there_even_where_a_window_before_is_alike():
    order = [*range(LENGTH), *reversed(range(LENGTH))]
    order[LENGTH - 1] = order[LENGTH + BATCH - 1]  # the sample before it is also its last
    begins = sorted(order[LENGTH : LENGTH + BATCH])
    assert place_of(begins, order) == (1, 0)
