"""Which tests a run plays: what changed always, of the rest those that waited longest."""

from .passed import Passed, mark, read, write
from .turns import Plan, due

KEYS = {f"answer{number}": "key-whole" for number in range(23)}
AFTER = dict.fromkeys(KEYS, "key-engine")  # when something far below all of them has changed


def marks_of(keys):
    return frozenset(mark("answers", name, key) for name, key in keys.items())


def played(turns, *, runs=0, keys=KEYS, marks=frozenset()):
    plan = Plan("turns", turns={"answers": turns}, passed=Passed(runs, marks))
    changed, _, share = due(plan, "answers", keys)
    return set(changed), set(share)


def test_what_was_never_played_is_played():
    assert played({}) == (set(KEYS), set())


def test_nine_runs_play_all_and_no_two_play_much_alike():
    turns = {name: ["key-whole", 0.0] for name in KEYS}
    seen: list[str] = []
    for run in range(1, 10):
        changed, share = played(turns)
        assert not changed
        assert len(share) == 3
        turns |= {name: ["key-whole", float(run)] for name in share}
        seen += share
    assert set(seen) == set(KEYS)


def test_another_key_is_played_whatever_its_turn():
    turns = {name: ["key-whole", 0.0] for name in KEYS} | {"answer7": ["another-whole", 9e9]}
    changed, share = played(turns)
    assert changed == {"answer7"}
    assert len(share) == 3
    assert "answer7" not in share


def test_what_passed_where_it_was_committed_is_played_in_turn_too():
    marks = marks_of({name: key for name, key in KEYS.items() if name != "answer7"})
    seen: set[str] = set()
    for runs in range(11, 20):  # on nine machines that have kept nothing
        changed, share = played({}, runs=runs, marks=marks)
        assert changed == {"answer7"}
        assert len(share) == 3
        seen |= share
    assert seen == KEYS.keys() - {"answer7"}
    assert played({}, keys={"answer1": "another-whole"}, marks=marks) == ({"answer1"}, set())


def test_all_is_all():
    plan = Plan("all", turns={"answers": {name: ["key-whole", 0.0] for name in KEYS}})
    assert due(plan, "answers", KEYS) == (list(KEYS), [], [])


def test_where_the_engine_changed_a_fifth_is_played_and_five_runs_play_all():
    turns = {name: ["key-whole", 1.0] for name in KEYS}
    seen: list[str] = []
    for run in range(2, 7):
        changed, share = played(turns, keys=AFTER)
        below = {name for name in share if turns[name][0] == "key-whole"}
        assert not changed
        assert len(below) == [5, 5, 5, 5, 3][run - 2]
        turns |= {name: ["key-engine", float(run)] for name in below}
        seen += below
    assert sorted(seen) == sorted(KEYS)
    assert played(turns | {"answer7": ["another-whole", 9e9]}, keys=AFTER)[0] == {"answer7"}


def test_what_is_committed_tells_what_passed_whole_from_what_passed_before(tmp_path):
    (tmp_path / "tests").mkdir()
    keys = {"answer1": "key-whole", "answer2": "key"}  # the second is as it was, not its engine
    assert write(tmp_path, Passed(), {"answers": keys})
    plan = Plan("turns", passed=read(tmp_path))
    now = {**keys, "answer2": "key-whole", "answer3": "key-whole"}
    changed, below, share = due(plan, "answers", now)
    assert (changed, below) == (["answer3"], ["answer2"])
    assert set(share) == {"answer1", "answer2"}
    changed, below, _ = due(plan, "answers", {"answer1": "key-engine", "answer2": "other-whole"})
    assert (changed, below) == (["answer2"], ["answer1"])
