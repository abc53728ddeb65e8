"""Switches: what can be turned, what cannot be, and what is turned in words."""

from dataclasses import replace

import pytest

from hpml.errors import UserError
from hpml.train.config import parse
from hpml.train.race.goals import GOALS, goal_named
from hpml.train.race.switches import Switches, in_words, turned


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
def test_with_all_off_the_training_script_gets_what_the_goal_and_the_switches_say(goal):
    config = parse([*goal.training(), *goal.off.training()])
    assert (config.loader, config.memory_format, config.precision) == (
        "images", "contiguous", "fp32",
    )  # fmt: skip
    assert (config.samples, config.widths, config.early_share) == (goal.images, goal.widths, 0)
    assert (config.lr_rule, config.bucket_mib, config.compile) == ("none", None, False)


def test_ranks_share_a_batch_so_that_a_step_learns_the_same():
    config = parse(Switches(ranks=4, batch=256, bucket_mib=25.0, compile=True).training())
    assert (config.batch_size, config.bucket_mib, config.compile) == (64, 25.0, True)


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
@pytest.mark.parametrize("batch", [32, 64, 128, 256, 512, 1024])
def test_all_batches_are_whole_for_powers_of_two(goal, batch):
    assert goal.images % batch == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loader": "files"}, "--loader is 'files', expected one of images, batch, ahead"),
        ({"layout": "nhwc"}, "--layout is 'nhwc', expected one of contiguous, channels_last"),
        ({"precision": "auto"}, "--precision is 'auto', expected one of fp32, bf16"),
        ({"ranks": 0}, "--ranks is 0, expected at least 1"),
        ({"threads": 10**9}, "--threads is 1000000000, expected at most 1024"),
        ({"bucket_mib": -1.0}, "--bucket-mib is -1.0, expected at least 0"),
        ({"lr": float("nan")}, "--lr is nan, expected at least 0"),
        ({"ranks": 3}, "--batch is 256, which 3 ranks cannot share evenly: give a multiple of 3"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wrong, message):
    with pytest.raises(UserError) as refused:
        Switches(**wrong)
    assert str(refused.value) == message


def test_a_goal_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="--goal is 'phone', expected one of laptop, full"):
        goal_named("phone")


def test_what_is_turned_is_said_against_what_was():
    off = Switches()
    on = replace(off, ranks=2, bucket_mib=25.0, compile=True, lr=0.5)
    assert in_words(turned(on, off)) == "ranks 2, bucket 25 MiB, lr 0.5, compile"
    assert in_words(turned(off, on)) == "ranks 1, bucket 0 MiB, lr 0.1, no compile"
    assert in_words(turned(off, off)) == ""
