"""Exercise pack_files: what its judges make of counts and values, right and wrong."""

from dataclasses import replace

import pytest

from hpml.checks.contract import CannotJudge
from hpml.modules.m02_hardware.checks import _packed_folder as packed
from hpml.modules.m02_hardware.checks.pack_files import (
    CHECK,
    OPENING,
    PER_SAMPLE,
    wrong_sample,
)
from hpml.ranks.evidence import Diagnosis

HOLDS, READS, SHARED, REFUSES, LEAVES = (claim.judge for claim in CHECK.claims)


def with_stage(run, stage, **change):
    return replace(run, stages={**run.stages, stage: replace(run.stages[stage], **change)})


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def returning(good, with_value):
    """`returning(stage, run=good, **change)`: with these in what the first rank returned there."""

    def changed(stage, run=good, **change):
        return with_value(run, 0, lambda value: value | change, stage)

    return changed


def with_counts(run, request, change):
    """The run with `change(counts)` at one of the first rank's requests while it reads."""
    ranks = run.stages["read"].ranks
    asked = tuple(
        replace(each, counts=change(each.counts)) if each.request == request else each
        for each in ranks[0].asked
    )
    return with_stage(run, "read", ranks=(replace(ranks[0], asked=asked), *ranks[1:]))


def reading_more(run, more):
    """The run in which the first rank has read so many bytes more when it has taken samples."""
    return with_counts(
        run, packed.TAKEN, lambda counts: replace(counts, read_bytes=counts.read_bytes + more)
    )


def test_a_good_run_has_no_problem_and_a_kill(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)
    assert good.stages["killed"].killed == 0
    # On a busy machine the kill may come when the rank has just returned
    assert good.stages["killed"].ranks[0].end in ("killed", "returned")


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


@pytest.mark.parametrize(
    ("sample", "hint"),
    [
        (["a", 3, "x"], None),
        (["a", 2, "x"], "offset"),
        (["A", 2, "z"], "names"),
        (["int, no pair"], "types"),
    ],
)
def test_what_is_wrong_with_a_sample(sample, hint):
    problem = wrong_sample(sample, [["a", 3, "x"], ["b/c", 4, "y"]], 0)
    assert (problem and problem.hint) == hint


def test_a_sample_is_a_pair_of_text_and_bytes():
    assert packed.shown(("a", b"12"))[:2] == ["a", 2]
    assert packed.shown(["a", memoryview(b"12")]) == packed.shown(("a", bytearray(b"12")))
    assert len(packed.shown(("a", "12"))) == 1
    assert len(packed.shown(b"12")) == 1


def test_without_a_file_nothing_holds(good):
    assert HOLDS(with_stage(good, "pack", files={})).hint == "no_file"


def test_a_little_more_than_its_samples_may_be_read(good):
    assert READS(reading_more(good, packed.TAKES * PER_SAMPLE + 1)).hint == "too_much"
    assert READS(reading_more(good, packed.TAKES * PER_SAMPLE // 2)) is None


def test_nobody_opens_it_before_it_is_asked_for(good):
    early = with_counts(good, packed.OPEN, lambda counts: replace(counts, opened={packed.PACK: 1}))
    assert READS(early).hint == "all_at_start"


def test_where_the_kernel_does_not_count_nobody_loses_points(good):
    run = with_counts(good, packed.TAKEN, lambda counts: replace(counts, read_bytes=None))
    assert isinstance(READS(run), CannotJudge)
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


def test_other_processes_read_the_same(good, returning):
    large = {**good.stages["share"].values[0]["pickled"], "bytes": 2 * OPENING}
    assert SHARED(returning("share", pickled=large)).hint == "pickle"
    hung = with_stage(good, "share", diagnosis=Diagnosis("hang", "rank 0 waits"))
    assert SHARED(hung).hint == REFUSES(hung).hint == "hang"


def test_samples_that_are_wrong_for_everybody_have_one_cause(good, returning):
    samples = good.stages["read"].values[0]["samples"]
    turned = returning("read", samples=samples[::-1])
    assert HOLDS(turned).hint == "order"
    assert READS(reading_more(turned, 10**9)).hint == "order"
    spoiled = {str(place): sample for place, sample in enumerate(samples[::-1])}
    assert SHARED(returning("share", turned, forked=[spoiled, spoiled])).hint == "order"
    some = {place: spoiled[place] for place in list(spoiled)[:3]}
    copied = {"bytes": 9, "samples": some}
    assert SHARED(returning("share", turned, pickled=copied)).hint == "order"
    # A copy that cannot be made is a mistake of its own
    failed = {"failed": "TypeError: cannot pickle"}
    assert SHARED(returning("share", turned, pickled=failed)).hint == "pickle"


@pytest.mark.parametrize(
    ("seen", "hint"),
    [
        ("OSError: bad", "unclear"),
        ("named", None),
    ],
)
def test_a_pack_without_its_end_is_refused_by_name(returning, seen, hint):
    every = {**dict.fromkeys(packed.DAMAGES, "named"), packed.RENAMED: ""}
    problem = REFUSES(returning("share", damaged={**every, "without its last byte": seen}))
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize("seen", ["named", "OSError: bad"])
def test_a_pack_may_have_any_name(returning, seen):
    every = {**dict.fromkeys(packed.DAMAGES, "named"), packed.RENAMED: seen}
    assert REFUSES(returning("share", damaged=every)).hint == "renamed"


def test_what_is_not_reported_is_not_right(good, returning):
    """A drive whose functions an answer has replaced."""
    share = good.stages["share"].values[0]
    one, other = share["forked"]
    assert SHARED(returning("share", forked=[one])).hint == "raised"
    assert (
        SHARED(returning("share", forked=[one, dict(list(other.items())[1:])])).hint == "position"
    )
    assert SHARED(returning("share", pickled={"bytes": 9, "samples": {}})).hint == "pickle"
    assert REFUSES(returning("share", damaged={})).hint == "unclear"


def test_a_pack_that_was_not_whole_for_a_moment(good):
    broken = with_stage(good, "killed", broken="it was written in place")
    assert LEAVES(broken).hint == "in_place"
    nobody = with_stage(good, "killed", killed=None, diagnosis=None)
    assert LEAVES(nobody).hint == "in_place"
    unseen = with_stage(good, "killed", killed=None, diagnosis=None, no_kill="inotify: none left")
    assert isinstance(LEAVES(unseen), CannotJudge)
