"""Which tests a run plays: what changed always, of the rest the fifth that waited longest."""

from .turns import Plan, due

KEYS = {f"answer{number}": "key" for number in range(23)}


def played(turns, *, commit="c", keys=KEYS):
    changed, share = due(Plan("turns", commit, turns={"answers": turns}), "answers", keys)
    return set(changed), set(share)


def test_what_was_never_played_is_played():
    assert played({}) == (set(KEYS), set())


def test_five_runs_play_all_and_no_two_play_much_alike():
    turns = {name: ["key", 0.0] for name in KEYS}
    seen: list[str] = []
    for run in range(1, 6):
        changed, share = played(turns, commit=f"commit {run}")
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


def test_commits_draw_differently():
    turns = {name: ["key", 0.0] for name in KEYS}
    drawn = {frozenset(played(turns, commit=str(number))[1]) for number in range(8)}
    assert len(drawn) > 4
    assert played(turns, commit="1") == played(turns, commit="1")


def test_all_is_all():
    plan = Plan("all", turns={"answers": {name: ["key", 0.0] for name in KEYS}})
    assert due(plan, "answers", KEYS) == (list(KEYS), [])
