"""When a launch that gets nowhere is ended: the time limit, and a machine that stood still."""

from hpml.ranks.ledger import RankLog
from hpml.ranks.watch import Watch, Watched


def test_time_in_which_the_machine_stood_still_is_not_the_ranks():
    watch = Watch([RankLog(0, 0.0)], Watched("<drive>"), 5.0, [], 0.0, False, "torch", None)
    assert watch.look(0.1) is None
    assert watch.look(60.0) is None
    looks = [watch.look(60.0 + step / 10) for step in range(1, 49)]
    assert set(looks) == {None}
    late = [watch.look(64.8 + step / 10) for step in range(1, 4)]
    assert late[-1].kind == "limit"
