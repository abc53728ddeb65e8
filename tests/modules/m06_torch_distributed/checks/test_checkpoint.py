"""Exercise checkpoint: what its judges say of a good run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.contract import CannotJudge
from hpml.checks.plays import play_once
from hpml.modules.m06_torch_distributed.checks._stopped_training import (
    HELD,
    PATH,
    SAVE,
    SAVED,
    STATE,
)
from hpml.modules.m06_torch_distributed.checks.checkpoint import BATCH, CHECK, LENGTH, place_of
from hpml.ranks.evidence import Diagnosis

ONE_WRITER, WRITTEN, SAMPLES, SAME, KILLED = (claim.judge for claim in CHECK.claims)
WRITING = "killed while writing"


@pytest.fixture(scope="module")
def good(played):
    """A run whose rank 0 was killed in time: on a busy machine it may have ended by then."""
    for seed in range(5, 15):
        run = played(CHECK, 2, seed)
        if run.stages[WRITING].ranks[0].end == "killed":
            return run
    pytest.fail("in ten runs, no kill came in time")


def with_stage(run, stage, **fields):
    """The run with these fields in a stage's evidence."""
    return replace(run, stages={**run.stages, stage: replace(run.stages[stage], **fields)})


def asked_with(run, rank, change):
    """The run with `change` for the request in which a rank reports that save has returned."""
    ranks = list(run.stages["train and stop"].ranks)
    asked = [change(each) if each.request == SAVED else each for each in ranks[rank].asked]
    ranks[rank] = replace(ranks[rank], asked=tuple(each for each in asked if each is not None))
    return with_stage(run, "train and stop", ranks=tuple(ranks))


def resumed_with(run, batches):
    """The run whose resumed ranks took these global batches, dealt out in turn."""
    resumed = run.stages["resume"].ranks
    dealt = [[batch[rank.rank :: len(resumed)] for batch in batches] for rank in resumed]
    ranks = (
        replace(rank, value=rank.value | {"taken": taken})
        for rank, taken in zip(resumed, dealt, strict=True)
    )
    return with_stage(run, "resume", ranks=tuple(ranks))


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


def test_files_of_other_ranks_are_named_and_rank_0_may_write_more(good):
    def left(files):
        return with_stage(good, "train and stop", files=files)

    other = ONE_WRITER(left({PATH: 5, "rank1/checkpoint.pt.tmp": 0}))
    assert other.message == "besides rank 0, rank 1 wrote checkpoint.pt.tmp"
    assert ONE_WRITER(left({PATH: 5, f"{PATH}.txt": 1, ".tmp/rank1/x": 1})) is None
    assert ONE_WRITER(left(None)).hint == "writers"


@pytest.mark.parametrize("seen", [{}, {PATH: 0}, {"rank1/checkpoint.pt": 5}, None])
def test_a_rank_that_comes_back_early_is_named(good, seen):
    early = WRITTEN(asked_with(good, 1, lambda asked: replace(asked, files=seen)))
    assert "rank 1" in early.message
    assert early.hint == "early"


def test_a_rank_that_never_comes_back_has_no_file_there(good):
    assert WRITTEN(asked_with(good, 1, lambda asked: None)).hint == "early"
    refused = asked_with(good, 1, lambda asked: replace(asked, refused=True))
    assert WRITTEN(refused).hint == "early"


@pytest.mark.measures
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


def test_no_samples_those_of_a_later_epoch_and_one_batch_less_are_told(good):
    batches, steps = good.expected["batches"], good.expected["steps"]
    assert SAMPLES(resumed_with(good, [])).hint == "position"
    assert SAMPLES(resumed_with(good, batches[2 * LENGTH // BATCH :])).hint == "local"
    assert SAMPLES(resumed_with(good, batches[steps:-1])).hint == "order"
    assert SAMPLES(resumed_with(good, batches[steps:])) is None


def test_an_epoch_that_begins_where_the_resumed_one_did_is_told(good):
    batches, steps = good.expected["batches"], good.expected["steps"]
    per_epoch = LENGTH // BATCH
    later = [*batches[steps : 2 * per_epoch], *batches[steps + per_epoch :]]
    problem = SAMPLES(resumed_with(good, later))
    assert problem.hint == "kept"
    done = steps * BATCH % LENGTH
    assert f"after {done} samples of epoch 1, as it should" in problem.message
    assert f"then epoch 2 began after {done} of its samples" in problem.message
    problem = SAMPLES(resumed_with(good, batches[steps : 2 * per_epoch]))
    assert problem.hint == "kept"
    assert "then no samples of epoch 2 were taken" in problem.message


def test_places_are_found_in_any_epoch():
    order = [*torch.randperm(LENGTH).tolist(), *torch.randperm(LENGTH).tolist()]
    for start in (0, 5, LENGTH, LENGTH + 30):
        assert place_of(sorted(order[start : start + BATCH]), order) == divmod(start, LENGTH)
    assert place_of([0] * BATCH, order) is None


@pytest.mark.parametrize("part", ["loaded", "final"])
def test_weights_that_differ_by_little_are_named(good, with_value, part):
    def off(value):
        return value | {part: value[part] | {"inner.bias": value[part]["inner.bias"] + 1e-6}}

    changed = with_value(good, 0, off, "resume")
    assert "inner.bias differs by up to 1e-06" in SAME(changed).message


def test_what_is_left_after_the_kill_counts(good, with_value):
    def left(value):
        return with_value(good, 0, lambda old: old | value, "after the kill")

    assert KILLED(left({"failed": "EOFError: Ran out of input"})).hint == "in_place"
    weights = good.stages["after the kill"].values[0]["loaded"]
    assert KILLED(left({"loaded": {n: t + 0.5 for n, t in weights.items()}})).hint == "torn"
    mixed = {name: tensor + ("bias" in name) for name, tensor in weights.items()}
    assert KILLED(left({"loaded": mixed})).hint == "torn"
    whole = {name: tensor + 1 for name, tensor in weights.items()}
    assert KILLED(left({"loaded": whole})) is None
    assert KILLED(left({"loaded": None})).hint == "torn"


@pytest.mark.parametrize("no_kill", ["", "inotify: Too many open files"])
def test_without_a_kill_there_is_no_pass_and_a_machine_that_cannot_is_named(good, no_kill):
    ranks = (replace(rank, end="returned", signal=None) for rank in good.stages[WRITING].ranks)
    unharmed = {"ranks": tuple(ranks), "killed": None, "no_kill": no_kill}
    found = KILLED(with_stage(good, WRITING, **unharmed, diagnosis=None))
    if no_kill:
        assert found == CannotJudge(f"this machine cannot watch a folder: {no_kill}")
    else:
        assert found.hint == "incomplete"
    raised = Diagnosis("raised", "rank 0 raised KeyError: 'model'")
    assert (
        KILLED(with_stage(good, WRITING, **unharmed, diagnosis=raised)).message == raised.sentence
    )


def test_a_rank_that_ends_itself_was_not_killed_while_writing(good):
    assert KILLED(with_stage(good, WRITING, killed=None)).hint == "killed"


@pytest.mark.parametrize("how", ["it was removed", "it was written in place"])
def test_a_moment_without_a_whole_file_counts_whatever_is_left(good, how):
    exposed = KILLED(with_stage(good, WRITING, broken=how))
    assert exposed.hint == "in_place"
    assert exposed.message.endswith(how)


def test_it_is_killed_after_a_replacement_that_nothing_in_the_inputs_names():
    (writing,) = (stage for stage in CHECK.stages if stage.kill)
    kills = [writing.kill(seed) for seed in range(40)]
    assert {(kill.replaced, kill.nth) for kill in kills} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_a_resume_that_ends_badly_leaves_the_other_claims(good):
    run = with_stage(good, "resume", diagnosis=Diagnosis("hang", "rank 1 waits"))
    assert SAMPLES(run).hint == SAME(run).hint == "hang"
    assert ONE_WRITER(run) is None
    assert KILLED(run) is None


def test_a_batch_that_begins_an_epoch_is_placed_there_even_where_a_window_before_is_alike():
    order = [*range(LENGTH), *reversed(range(LENGTH))]
    order[LENGTH - 1] = order[LENGTH + BATCH - 1]  # the sample before it is also its last
    begins = sorted(order[LENGTH : LENGTH + BATCH])
    assert place_of(begins, order) == (1, 0)
