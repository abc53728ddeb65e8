"""Which tests a run plays: what changed always, of the rest the fifth that waited longest."""

from .passed import Passed, mark
from .turns import Plan, due

KEYS = {f"answer{number}": "key" for number in range(23)}


def played(turns, *, runs=0, keys=KEYS, marks=frozenset()):
    plan = Plan("turns", turns={"answers": turns}, passed=Passed(runs, marks))
    changed, share = due(plan, "answers", keys)
    return set(changed), set(share)


def test_what_was_never_played_is_played():
    assert played({}) == (set(KEYS), set())


def test_five_runs_play_all_and_no_two_play_much_alike():
    turns = {name: ["key", 0.0] for name in KEYS}
    seen: list[str] = []
    for run in range(1, 6):
        changed, share = played(turns)
        assert not changed
        assert len(share) == 5
        turns |= {name: ["key", float(run)] for name in share}
        seen += share
    assert set(seen) == set(KEYS)


def test_another_key_is_played_whatever_its_turn():
    turns = {name: ["key", 0.0] for name in KEYS} | {"answer7": ["another", 9e9]}
    changed, share = played(turns)
    assert changed == {"answer7"}
    assert len(share) == 5
    assert "answer7" not in share


def test_what_passed_where_it_was_committed_is_played_in_turn_too():
    marks = frozenset(mark("answers", name, "key") for name in KEYS if name != "answer7")
    seen: set[str] = set()
    for runs in range(11, 16):  # on five machines that have kept nothing
        changed, share = played({}, runs=runs, marks=marks)
        assert changed == {"answer7"}
        assert len(share) == 5
        seen |= share
    assert seen == KEYS.keys() - {"answer7"}
    assert played({}, keys={"answer1": "another"}, marks=marks) == ({"answer1"}, set())


def test_all_is_all():
    plan = Plan("all", turns={"answers": {name: ["key", 0.0] for name in KEYS}})
    assert due(plan, "answers", KEYS) == (list(KEYS), [])
