"""Exercise pack_files: what its judges make of counts and values, right and wrong."""

from dataclasses import replace

import pytest

from hpml.checks.contract import CannotJudge
from hpml.checks.m02_hardware import _packed_folder as packed
from hpml.checks.m02_hardware.pack_files import (
    CHECK,
    OPENING,
    OPENS,
    PER_SAMPLE,
    wrong_sample,
)
from hpml.checks.plays import play_once
from hpml.ranks.evidence import Diagnosis

HOLDS, READS, SHARED, REFUSES, LEAVES = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def good(solution):
    source = solution("pack_files").replace("%%answer", "#", 1)
    run, fault = play_once(CHECK, source, world_size=2, seed=5)
    assert fault is None
    return run


def with_stage(run, stage, **change):
    return replace(run, stages={**run.stages, stage: replace(run.stages[stage], **change)})


def with_value(run, stage, change):
    """The run with `change` merged into what the first rank of a stage returned."""
    ranks = run.stages[stage].ranks
    first = replace(ranks[0], value=ranks[0].value | change)
    return with_stage(run, stage, ranks=(first, *ranks[1:]))


def with_counts(run, request, **more):
    """The run with counts that are higher by so much at one of the first rank's requests."""
    ranks = run.stages["read"].ranks
    asked = []
    for each in ranks[0].asked:
        if each.request == request:
            counts = each.counts
            if "read_bytes" in more:
                counts = replace(counts, read_bytes=counts.read_bytes + more["read_bytes"])
            if "opened" in more:
                opened = {**counts.opened}
                opened[packed.PACK] = opened.get(packed.PACK, 0) + more["opened"]
                counts = replace(counts, opened=opened)
            if "unseen" in more:
                counts = replace(counts, **dict.fromkeys(more["unseen"]))
            each = replace(each, counts=counts)
        asked.append(each)
    return with_stage(run, "read", ranks=(replace(ranks[0], asked=tuple(asked)), *ranks[1:]))


def test_a_good_run_has_no_problem_and_a_kill(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)
    assert good.stages["killed"].killed == 0
    assert good.stages["killed"].ranks[0].signal == "SIGKILL"


def test_inputs_are_fresh_for_every_seed_and_readers_have_none_of_them():
    first, second = (CHECK.inputs(seed, 2) for seed in (1, 2))
    assert first["pack"][0]["files"] != second["pack"][0]["files"]
    assert all("files" not in rank for rank in first["read"] + first["share"])


def test_files_are_of_every_kind():
    for seed in range(30):
        files = packed.new_files(seed)
        assert list(files) == sorted(files)
        sizes = [len(content) for content in files.values()]
        assert min(sizes) == 0
        assert sizes[-1] > packed.LARGE - 1  # else a pack could be cut off without a loss
        assert sum(sizes) > 4 * OPENING  # reading it all is seen
        assert any("  " in name for name in files)
        assert not all(name.isascii() for name in files)
        assert any("/" not in name for name in files)


RIGHT = [["a", 3, "x"], ["b/c", 4, "y"]]


@pytest.mark.parametrize(
    ("sample", "hint"),
    [
        (["a", 3, "x"], None),
        (["a", 3, "other"], "offset"),
        (["a", 2, "x"], "offset"),
        (["b/c", 4, "y"], "order"),
        (["A", 3, "x"], "names"),
        (["A", 2, "z"], "names"),
        (["int, no pair"], "types"),
    ],
)
def test_what_is_wrong_with_a_sample(sample, hint):
    problem = wrong_sample(sample, RIGHT, 0)
    assert (problem and problem.hint) == hint


def test_a_sample_is_a_pair_of_text_and_bytes():
    assert packed.shown(("a", b"12"))[:2] == ["a", 2]
    assert packed.shown(["a", memoryview(b"12")]) == packed.shown(("a", bytearray(b"12")))
    assert len(packed.shown(("a", "12"))) == 1
    assert len(packed.shown(b"12")) == 1


def test_one_file_and_no_other(good):
    files = good.stages["pack"].files
    assert HOLDS(with_stage(good, "pack", files={**files, "index": 3})).hint == "one_file"
    assert HOLDS(with_stage(good, "pack", files={})).hint == "no_file"
    assert HOLDS(with_value(good, "read", {"length": 3})).hint == "lost"


def test_bytes_are_the_kernels(good):
    own = sum(good.expected[place][1] for place in good.inputs["read"][0]["takes"])
    assert READS(with_counts(good, packed.OPENED, read_bytes=2 * OPENING)).hint == "all_at_start"
    more = packed.TAKES * PER_SAMPLE + own
    assert READS(with_counts(good, packed.TAKEN, read_bytes=more)).hint == "too_much"
    unseen = with_counts(good, packed.TAKEN, unseen=["read_bytes"])
    assert isinstance(READS(unseen), CannotJudge)


def test_opens_are_the_kernels(good):
    assert READS(with_counts(good, packed.OPEN, opened=1)).hint == "all_at_start"
    assert READS(with_counts(good, packed.TAKEN, opened=2 * OPENS)).hint == "opens"
    ranks = tuple(
        replace(
            rank,
            asked=tuple(
                replace(asked, counts=replace(asked.counts, opened=None)) for asked in rank.asked
            ),
        )
        for rank in good.stages["read"].ranks
    )
    assert isinstance(READS(with_stage(good, "read", ranks=ranks)), CannotJudge)


def test_other_processes_read_the_same(good):
    value = good.stages["share"].values[0]
    spoiled = [{**value["forked"][0], "0": ["x", 0, ""]}, value["forked"][1]]
    assert SHARED(with_value(good, "share", {"forked": spoiled})).hint == "position"
    failed = {"failed": "TypeError: cannot pickle"}
    assert SHARED(with_value(good, "share", {"pickled": failed})).hint == "pickle"
    large = {**value["pickled"], "bytes": 2 * OPENING}
    assert SHARED(with_value(good, "share", {"pickled": large})).hint == "pickle"
    hung = with_stage(good, "share", diagnosis=Diagnosis("hang", "rank 0 waits"))
    assert SHARED(hung).hint == REFUSES(hung).hint == "hang"


def test_samples_that_are_wrong_for_everybody_have_one_cause(good):
    samples = good.stages["read"].values[0]["samples"]
    turned = with_value(good, "read", {"samples": samples[::-1]})
    assert HOLDS(turned).hint == "order"
    own = sum(good.expected[place][1] for place in good.inputs["read"][0]["takes"])
    more = packed.TAKES * PER_SAMPLE + own
    assert READS(with_counts(turned, packed.TAKEN, read_bytes=more)).hint == "order"
    spoiled = {str(place): sample for place, sample in enumerate(samples[::-1])}
    assert SHARED(with_value(turned, "share", {"forked": [spoiled]})).hint == "order"
    copied = {"pickled": {"bytes": 9, "samples": spoiled}}
    assert SHARED(with_value(turned, "share", copied)).hint == "order"
    # A copy that cannot be made is a mistake of its own
    failed = {"pickled": {"failed": "TypeError: cannot pickle"}}
    assert SHARED(with_value(turned, "share", failed)).hint == "pickle"


@pytest.mark.parametrize(
    ("seen", "hint"),
    [
        ("", "cut"),
        ("unnamed: bad", "unclear"),
        ("OSError: bad", "unclear"),
        ("named", None),
    ],
)
def test_a_pack_without_its_end_is_refused_by_name(good, seen, hint):
    damaged = {"without its last byte": seen}
    problem = REFUSES(with_value(good, "share", {"damaged": damaged}))
    assert (problem and problem.hint) == hint


def test_a_pack_that_was_not_whole_for_a_moment(good):
    broken = with_stage(good, "killed", broken="it was written in place")
    assert LEAVES(broken).hint == "in_place"
    nobody = with_stage(good, "killed", killed=None, diagnosis=None)
    assert LEAVES(nobody).hint == "in_place"
    unseen = with_stage(good, "killed", killed=None, diagnosis=None, no_kill="inotify: none left")
    assert isinstance(LEAVES(unseen), CannotJudge)


def test_a_position_that_two_processes_share_is_seen(solution):
    """Whatever the machine is busy with: each seek leaves the other time."""
    source = solution("pack_files").replace("%%answer", "#", 1)
    right = "os.pread(self.file.fileno(), end - start, start)"
    assert right in source
    wrong = source.replace(right, "(self.file.seek(start), self.file.read(end - start))[1]")
    run, fault = play_once(CHECK, wrong, world_size=2, seed=7)
    assert fault is None
    assert SHARED(run).hint == "position"
    assert READS(run) is None
