"""The sharding benchmark: what its numbers are made of, and each way for real in a tiny run."""

from types import SimpleNamespace

import pytest

from hpml.bench import bubble, shard
from hpml.bench.shard_ways import WAYS, Way
from hpml.errors import UserError
from hpml.paths import CHECKOUT


def evidence(*values, peaks=()):
    ranks = [SimpleNamespace(peak_bytes=peak) for peak in peaks]
    return SimpleNamespace(values=values, ranks=ranks, diagnosis=None, no_link=None)


def test_a_step_is_as_slow_as_its_slowest_rank_and_the_first_does_not_count():
    # Slowest ranks: 9 (not counted), 2, 4, 1; the median of the last three is 2.
    ranks = evidence(([9.0, 2.0, 1.0, 1.0], 1.0), ([9.0, 1.0, 4.0, 1.0], 3.0))
    assert shard.speed(ranks) == shard.BATCH / 2
    assert shard.loss(ranks) == 2.0


def test_the_loss_is_that_of_the_ranks_that_know_it():
    assert shard.loss(evidence(([1.0], None), ([1.0], 2.5))) == 2.5


def test_the_peak_is_that_of_the_rank_that_has_most():
    assert shard.peak(evidence(peaks=(3_000_000, 5_000_000))) == 5.0
    with pytest.raises(UserError, match="does not count"):
        shard.peak(evidence(peaks=(3_000_000, None)))


def test_a_way_that_trains_otherwise_is_refused():
    shard.same_loss({"data parallel": 3.4309, "tensor": 3.4310})
    with pytest.raises(UserError, match=r"is 2\.0000 with fsdp, 3\.0000 with data parallel"):
        shard.same_loss({"data parallel": 3.0, "tensor": 3.0, "fsdp": 2.0})


def test_layouts_take_all_ranks():
    layouts = {way.name: way.layout(4) for way in WAYS}
    assert {each.data * each.pipeline * each.tensor for each in layouts.values()} == {4}
    assert (layouts["tensor"].tensor, layouts["pipeline"].pipeline) == (4, 4)
    two_dimensions = layouts["fsdp × tensor 2"]
    assert (two_dimensions.data, two_dimensions.tensor, two_dimensions.shard) == (2, 2, "fsdp")
    assert layouts["data × tensor 2, exercise"] == layouts["data × tensor 2"]


def test_cases_take_turns_and_become_ratios_of_their_own_network(monkeypatch):
    seconds = {"data parallel": 1.0, "fsdp": 2.0, "fsdp, exercise": 1.6}
    asked = []

    def launched(way, world_size, rate, answer=None, count_memory=False):
        asked.append((way.name, world_size, rate, count_memory))
        assert (answer is not None) == bool(way.exercise)
        slower = seconds[way.name] * (3 if rate and way.name == "fsdp" else 1)
        return evidence(*[([9.0, slower], 1.0)] * world_size, peaks=[10**6 * slower] * world_size)

    monkeypatch.setattr(shard, "launched", launched)
    monkeypatch.setattr(shard, "solutions", lambda root: {"fsdp": "source"})
    monkeypatch.setattr(bubble, "measure", lambda: {4: 0.45})
    ways = [way for way in WAYS if way.name in seconds or way.exercise == "zero1"]  # no answer
    table = shard.bench(rounds=2, world_sizes=[2], ways=ways, report=lambda line: None)
    rows = {row.name: row for row in table.rows}
    assert table.ratios(rows["2 ranks, fsdp"]) == [0.5, 0.5]
    assert table.ratios(rows["2 ranks, 1 Gbit/s, fsdp"]) == pytest.approx([1 / 6] * 2)
    exercise = rows["2 ranks, fsdp, exercise"]
    assert (exercise.base, exercise.target) == ("2 ranks, fsdp", "at least 0.8")
    assert table.ratios(exercise) == pytest.approx([1.25, 1.25])
    assert table.ratios(rows["2 ranks, fsdp: peak of a rank"]) == [2.0, 2.0]
    assert table.ratios(rows["bubble, m = 4: measured"]) == pytest.approx([0.45 / (3 / 7)] * 2)
    # In each round all ways without a network, then all with one, then all for their memory.
    once = asked[: len(asked) // 2]
    assert once * 2 == asked
    assert [name for name, *_ in once] == [name for name, *_ in once[: len(once) // 3]] * 3
    assert [(rate, memory) for _, _, rate, memory in once[:: len(once) // 3]] == [
        (None, False),
        ("1gbit", False),
        (None, True),
    ]


def test_one_way_on_two_ranks_for_real(bench_command, monkeypatch):
    monkeypatch.setattr(shard, "BATCH", 8)
    monkeypatch.setattr(shard, "STEPS", 2)
    monkeypatch.setattr(bubble, "measure", lambda: {4: 0.45})
    table = bench_command("shard", "--rounds", "1", "--ranks", "2", ways=WAYS[:1])
    rows = {row.name: row for row in table.rows}
    assert rows["2 ranks, data parallel"].values[0] > 0
    assert rows["2 ranks, data parallel: peak of a rank"].values[0] > 1  # MB


def test_without_the_course_s_answers_its_exercises_are_left_out(tmp_path):
    assert shard.solutions(tmp_path) == {}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_way_trains_the_same(monkeypatch, way):
    monkeypatch.setattr(shard, "BATCH", 8)
    monkeypatch.setattr(shard, "STEPS", 2)
    answers = shard.solutions(CHECKOUT)
    if way.exercise and way.exercise not in answers:
        pytest.skip("a release has no answers")
    losses = {
        one.name: shard.loss(shard.launched(one, way.least, None, answers.get(one.exercise)))
        for one in (Way("data parallel"), way)
    }
    shard.same_loss(losses)


def test_a_launch_that_fails_is_told_with_its_way():
    (way,) = (way for way in WAYS if way.exercise == "fsdp")
    with pytest.raises(UserError, match=r"bench shard: fsdp, exercise: .*raised"):
        shard.launched(way, 2, None, answer="class FullyShard: pass")


@pytest.mark.measures
def test_four_stages_that_wait_idle_at_least_as_long_as_the_formula_has_it(monkeypatch):
    monkeypatch.setattr(bubble, "STEPS", 1)
    found = bubble.measure(counts=(1, 2))
    # Where the machine is busy they idle longer; never less, for each pass waits for the one before
    assert found[1] >= 0.74
    assert set(found) == {1, 2}
