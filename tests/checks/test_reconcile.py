"""Recorded calls and counted bytes, held against each other."""

from dataclasses import replace

import pytest

from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.reconcile import LEDGER, unreconciled
from hpml.checks.run_check import GENERAL_HINTS, _decide
from hpml.ranks.evidence import Call, Diagnosis, Evidence, RankEvidence, Traffic

BYTES = 400_000


def call(operation, nbytes=BYTES, group=(0, 1), tensor="", finished=1.0):
    return Call(
        1, operation, group, 1, "", (), nbytes, "", 1, 0.0, finished=finished, tensor=tensor
    )


def evidence(calls, sent, received=0):
    traffic = Traffic(sent, 1, received, 1)
    ranks = tuple(RankEvidence(r, "returned", calls=calls, traffic=traffic) for r in (0, 1))
    return Evidence(2, ranks, 1.0)


@pytest.mark.parametrize("sent", [BYTES, BYTES + 7_000, int(1.07 * BYTES)])
def test_calls_and_their_traffic_agree(sent):
    assert unreconciled(evidence((call("all_reduce"),), sent, BYTES)) is None


def test_calls_without_traffic_are_found():
    problem = unreconciled(evidence((call("all_reduce"),), 12_000))
    assert "rank 0's calls send 400000 bytes to other ranks, and 12000 left it" in problem.message
    assert "not all that was recorded has travelled" in problem.message
    assert problem.hint == LEDGER


@pytest.mark.parametrize("sent", [7_000, BYTES - 1, BYTES])
def test_what_nobody_awaited_may_still_be_under_way(sent):
    assert unreconciled(evidence((call("all_reduce", finished=None),), sent, sent)) is None


def test_what_nobody_awaited_accounts_for_its_own_bytes_alone():
    problem = unreconciled(evidence((call("all_reduce", finished=None),), 2 * BYTES))
    assert "which no call accounts for" in problem.message


def test_a_group_of_one_needs_no_traffic_and_accounts_for_none():
    alone = (call("all_reduce", group=(0,)),)
    assert unreconciled(evidence(alone, 7_000)) is None
    assert "which no call accounts for" in unreconciled(evidence(alone, BYTES)).message


def test_traffic_without_calls_is_found():
    assert "no call accounts for" in unreconciled(evidence((call("send", 4),), BYTES)).message


def test_what_was_received_is_acknowledged():
    assert unreconciled(evidence((), 50_000, 10**6)) is None
    assert unreconciled(evidence((), 5_000, 0)) is None
    assert unreconciled(evidence((), 50_000, 0)) is not None


def test_there_is_nothing_to_say_without_a_link_and_alone():
    linked = evidence((call("all_reduce"),), 12_000)
    unlinked = tuple(replace(rank, traffic=None) for rank in linked.ranks)
    assert unreconciled(replace(linked, ranks=unlinked)) is None
    assert unreconciled(replace(linked, world_size=1, ranks=linked.ranks[:1])) is None


def horovods(operation="allreduce", finished=1.0, **more):
    return call(operation, tensor="x", finished=finished, **more)


def test_what_horovod_says_was_sent_must_have_left():
    problem = unreconciled(evidence((horovods(),), BYTES - 1))
    assert "not all that was recorded has travelled" in problem.message
    assert unreconciled(evidence((horovods(),), BYTES)) is None


def test_horovods_own_talk_is_allowed_for_as_long_as_it_takes():
    beside = BYTES + 200_000
    brief = evidence((horovods(),), beside)
    assert "which no call accounts for" in unreconciled(brief).message
    assert unreconciled(replace(brief, seconds=4.0)) is None
    assert unreconciled(evidence((horovods(), *[horovods(nbytes=8)] * 200), beside)) is None


@pytest.mark.parametrize(
    "uncertain", [horovods(finished=None), horovods("allgather"), horovods("grouped_allgather")]
)
def test_a_call_of_horovods_that_may_have_sent_less_accounts_for_traffic_and_asks_for_none(
    uncertain,
):
    assert unreconciled(evidence((uncertain,), 12_000)) is None
    assert unreconciled(evidence((uncertain,), BYTES)) is None


def test_a_rank_without_calls_talks_all_the_same_where_others_have_calls_of_horovods():
    found = evidence((horovods(nbytes=8),), 60_000)
    first, second = found.ranks
    assert unreconciled(replace(found, ranks=(first, replace(second, calls=())))) is None
    assert unreconciled(evidence((), 60_000)) is not None


@pytest.mark.parametrize(("of_calls", "own"), [(True, False), (False, False), (True, True)])
def test_only_claims_about_calls_rest_on_it_and_their_own_problem_comes_first(of_calls, own):
    assert LEDGER in GENERAL_HINTS
    problem = Problem("its own", "start") if own else None
    claim = Claim("it is", 2, lambda run: problem, of_calls=of_calls)
    check = Check("x", "x", (claim,), {"start": "Begin."}, lambda *_: [], lambda *_: None)
    found = evidence((call("all_reduce"),), 12_000)
    run = Run(2, 0, [], None, found, {"first": found, "last": evidence((), 0)})
    result = _decide(check, claim, [run])
    assert result.passed == (not own and not of_calls)
    if not result.passed:
        assert result.hint_key == ("start" if own else LEDGER)


def test_a_launch_that_ended_early_is_not_held_against_its_traffic():
    claim = Claim("calls", 2, lambda run: None, of_calls=True)
    check = Check(id="x", title="X", claims=(claim,), hints={"start": ""}, inputs=None, expect=None)
    fits, early = evidence((call("all_reduce"),), BYTES), evidence((call("all_reduce"),), 12_000)
    run = Run(2, 1, {}, None, fits, {"one": fits, "two": early})
    assert not _decide(check, claim, [run]).passed
    early = replace(early, diagnosis=Diagnosis("hang", "rank 1 waits", (1,)))
    assert _decide(check, claim, [replace(run, stages={"one": fits, "two": early})]).passed
