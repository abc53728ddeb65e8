"""Exercise hvd_fusion: its timelines are Horovod's, and its judges tell mistakes apart."""

import json

import pytest

from hpml.modules.m05_horovod.checks import _timeline
from hpml.modules.m05_horovod.checks.hvd_fusion import CHECK, wrong_collectives, wrong_seconds
from hpml.paths import CHECKOUT

SEEDS = range(40)


@pytest.fixture(scope="module")
def read(solution):
    """The right answer's function."""
    names: dict = {}
    exec(solution("hvd_fusion").replace("%%answer", "#", 1), names)
    return names["read_timeline"]


@pytest.fixture
def problems(hand_made):
    """`problems(seed, values)`: what each claim says of these for the seed's timelines."""

    def made(seed, values):
        run = hand_made(CHECK, [values], seed=seed)
        return [claim.judge(run) for claim in CHECK.claims]

    return made


def test_the_right_answer_is_right_for_all_timelines(read):
    for seed in SEEDS:
        for case in _timeline.planted(seed):
            found = read(case.text)
            assert wrong_collectives(case, found["collectives"]) is None, (seed, case.name)
            for key in ("negotiated", "transferred"):
                assert wrong_seconds(case, key, found[key]) is None, (seed, case.name, key)


def test_the_text_names_what_events_may_lack():
    text = " ".join((CHECKOUT / "exercises/05_horovod.py").read_text().replace("# ", "").split())
    for case in _timeline.planted(1):
        for event in [] if case.cut else json.loads(case.text):
            if event.get("name") == "process_name":
                assert ("name" in event["args"]) == (event["pid"] != 0)
            assert ("pid" in event) == (event["ph"] != "i")
    assert "the `process_name` of `pid` 0, which is not a tensor, has no `name`" in text
    assert "an `i` has no `pid`" in text


def test_a_thread_has_a_name_too_in_one_timeline():
    for seed in SEEDS:
        *_, mpi, _ = [case for case in _timeline.planted(seed) if not case.cut]
        named = [event for event in json.loads(mpi.text) if "name" in event.get("args", {})]
        assert {event["name"] for event in named} == {"process_name", "thread_name"}
        assert len(named) == 2 * len(mpi.tensors)


def test_lines_taken_for_events_are_told_that_a_line_holds_many(problems):
    empty = {"collectives": [], "negotiated": 0.0, "transferred": 0}
    assert {problem.hint for problem in problems(3, [empty] * 9)} == {"lost"}
    some = empty | {"negotiated": 1.0}
    assert [problem.hint for problem in problems(3, [some] * 9)][:2] == ["libraries", "libraries"]


def test_whole_timelines_are_json_and_cut_ones_are_not():
    for seed in SEEDS:
        for case in _timeline.planted(seed):
            if case.cut:
                with pytest.raises(json.JSONDecodeError):
                    json.loads(case.text)
            else:
                assert json.loads(case.text)


def test_what_tells_the_mistakes_apart_is_in_every_timeline():
    for seed in SEEDS:
        small, *large = [case for case in _timeline.planted(seed) if not case.cut]
        assert {len(message) > 1 for message in small.collectives} == {True, False}
        for case in large:
            assert case.broadcast
            # Tensors negotiate at the same time, and travel together
            for phases in (lambda p: p.startswith("NEG"), lambda p: p.split("_")[0] in LIBRARIES):
                chosen = case.chosen(phases)
                assert _timeline.covered(chosen) < 0.95 * _timeline.summed(chosen)


LIBRARIES = ("GLOO", "MPI", "NCCL")


def test_intervals_that_overlap_count_once():
    intervals = [
        _timeline.Interval("", "", start, end) for start, end in [(5, 6), (0, 2), (1, 3), (1, 2)]
    ]
    assert _timeline.covered(intervals) == 4
    assert _timeline.summed(intervals) == 6


def test_an_answer_that_returns_something_else_is_told_what_is_wanted(problems):
    for values in ([None] * 7, [], None, [{"collectives": 3}] * 7):
        assert {problem.hint for problem in problems(3, values)} == {"keys"}, values
    odd = {"collectives": [["x"]], "negotiated": True, "transferred": float("nan")}
    hints = [problem.hint for problem in problems(3, [odd] * 7)]
    assert hints == ["names", "pairs", "keys", "names"]
    large = {"collectives": [["x"]], "negotiated": 10**4000, "transferred": 10**4000}
    hints = [problem.hint for problem in problems(3, [large] * 7)]
    assert hints == ["names", "keys", "keys", "names"]


def test_a_timeline_that_cannot_be_read_is_told_with_the_exception(problems, read):
    values = [read(case.text) for case in _timeline.planted(4)]
    values[-1] = {"raised": "ValueError: no"}
    *others, problem = problems(4, values)
    assert others == [None] * 3
    assert "ValueError: no" in problem.message


@pytest.mark.parametrize("key", ["negotiated", "transferred"])
def test_seconds_of_a_timeline_that_was_cut_count_too(problems, read, key):
    values = [read(case.text) for case in _timeline.planted(5)]
    values[-1] = values[-1] | {key: values[-1][key] + 0.001}
    *others, problem = problems(5, values)
    assert others == [None] * 3
    assert problem.hint == "unfinished"


@pytest.mark.measures  # half a second has to be enough to write a timeline
def test_its_timelines_are_like_recorded_ones(read, tmp_path):
    """Horovod itself writes one, and the right answer finds in it what was done."""
    from hpml.ranks import flavour, launch

    if why := flavour.missing("horovod"):
        pytest.skip(why)
    path = tmp_path / "timeline.json"

    def drive():
        import time

        import horovod.torch as hvd
        import torch

        hvd.broadcast(torch.ones(3), 0, name="weights")
        for _ in range(2):
            hvd.grouped_allreduce([torch.ones(5), torch.ones(7)], name="both")
        hvd.allreduce(torch.ones(2), name="alone")
        # What is not written yet when Horovod shuts down is lost: all of this one, at times.
        hvd.allreduce(torch.ones(1), name="last")
        time.sleep(0.5)
        hvd.shutdown()

    settings = {"HOROVOD_TIMELINE": str(path), "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    evidence = launch(drive, 2, flavour="horovod", environment=lambda rank: settings)
    assert evidence.diagnosis is None, evidence.diagnosis
    found = read(path.read_text())
    assert [len(message) for message in found["collectives"][:4]] == [1, 2, 2, 1]
    assert found["collectives"][0] == ["broadcast.weights"]
    assert found["collectives"][3] == ["allreduce.alone"]
    assert found["negotiated"] > 0
    assert found["transferred"] > 0

    recorded = {event["name"] for event in json.loads(path.read_text()) if "name" in event}
    ours = json.loads(_timeline.planted(1)[1].text)  # with Gloo, and cycles marked
    assert recorded <= {event["name"] for event in ours if "name" in event}
    kinds = {(event["ph"], *sorted(event)) for event in json.loads(path.read_text())}
    assert kinds <= {(event["ph"], *sorted(event)) for event in ours}
