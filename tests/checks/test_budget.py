"""Budgets: what a run cost against what theory says is enough, and what no network can tell."""

import dataclasses

import pytest
import torch

from hpml.checks import judge, plays, render
from hpml.checks.budget import (
    HEADER,
    SETUP_PER_PEER,
    elapsed,
    over_bytes,
    over_seconds,
)
from hpml.checks.contract import CannotJudge, Check, Claim, Problem
from hpml.network.link import parse_link
from hpml.predict.collectives import all_reduce_bytes
from hpml.ranks.evidence import Evidence, Mark, RankEvidence, Traffic


def evidence(*sent: int, marks: tuple = ((),), link: str | None = "1gbit"):
    """Of ranks that sent so many bytes; `marks` by rank as (name, at) pairs."""
    ranks = [
        RankEvidence(
            rank,
            "returned",
            traffic=Traffic(sent_bytes, 1, 0, 0) if link else None,
            marks=tuple(Mark(*mark) for mark in marks[rank % len(marks)]),
        )
        for rank, sent_bytes in enumerate(sent)
    ]
    found = None if link is None else parse_link(link, len(ranks))
    return Evidence(len(ranks), tuple(ranks), 1.0, link=found, no_link="" if link else "no veth")


def test_bytes_may_exceed_the_bound_by_slack_and_protocol_and_no_more():
    most = int(1.07 * 1e6 + 2 * SETUP_PER_PEER) + HEADER  # one packet
    assert over_bytes(evidence(most, 0, most), [1e6] * 3, "wire") is None
    problem = over_bytes(evidence(most, most + 1, 0), [1e6] * 3, "wire")
    assert problem.hint == "wire"
    assert problem.message.startswith("rank 1 sent 1.10 MB over its link, by the kernel's count")
    assert "1.00 MB are enough, and 1 bytes more than" in problem.message


def test_packets_of_whatever_number_have_headers_that_do_not_count():
    """On a busy machine packets are smaller, and each one is acknowledged: more headers."""
    few, many = Traffic(1_046_000, 700, 0, 0), Traffic(1_000_000 + 66 * 5000, 5000, 0, 0)
    for traffic in (few, many):
        found = evidence(0, 0)
        ranks = tuple(dataclasses.replace(rank, traffic=traffic) for rank in found.ranks)
        assert over_bytes(dataclasses.replace(found, ranks=ranks), [1e6] * 2, "wire") is None


def test_each_rank_has_a_bound_of_its_own():
    assert over_bytes(evidence(5_000_000, 0), [5e6, 0], "wire") is None
    assert over_bytes(evidence(5_000_000, 0), [0, 5e6], "wire") is not None


MINE = ("go", "done")


def timed(seconds: float) -> Evidence:
    """Rank 1 begins 0.1 s late and ends last, `seconds` after rank 0 began."""
    first = (("go", 1.0), ("done", 1.0 + seconds - 0.1))
    last = (("go", 1.1), ("done", 1.0 + seconds))
    return evidence(0, 0, marks=(first, last))


def test_seconds_go_from_the_first_ranks_start_to_the_last_ranks_end():
    assert elapsed(timed(1.24), MINE) == pytest.approx(1.24)


def test_seconds_are_compared_with_the_bytes_time():
    assert over_seconds(evidence(0, 0), 1.24, 1.0, "slow") is None
    problem = over_seconds(evidence(0, 0), 1.26, 1.0, "slow")
    assert problem.message == (
        "it took 1.26 s over 1 Gbit/s; the bytes that must travel take 1.00 s"
    )


def test_what_a_busy_machine_does_to_a_known_good_way_it_may_do_to_the_answer():
    assert over_seconds(evidence(0, 0), 2.4, 1.0, "slow", reference=2.0) is None
    problem = over_seconds(evidence(0, 0), 2.6, 1.0, "slow", reference=2.0)
    assert "2.00 s a known good way" in problem.message
    # A reference that beats the bound, by a burst say, does not tighten it.
    assert over_seconds(evidence(0, 0), 1.2, 1.0, "slow", reference=0.5) is None


def test_of_several_times_the_shortest_counts():
    first = (("go", 1.0), ("done", 2.0), ("go", 3.0), ("done", 3.4), ("go", 5.0), ("done", 7.0))
    last = (("go", 1.1), ("done", 2.1), ("go", 2.9), ("done", 3.5), ("go", 5.0), ("done", 6.0))
    assert elapsed(evidence(0, 0, marks=(first, last)), MINE) == pytest.approx(0.6)
    alone = evidence(0, 0, marks=(first, last[:-2]))
    with pytest.raises(ValueError, match="shorter"):  # ranks must mark alike
        elapsed(alone, MINE)


@pytest.mark.parametrize(
    "ask",
    [lambda e: over_bytes(e, [0, 0], "wire"), lambda e: over_seconds(e, 9.9, 1.0, "slow")],
)
def test_without_a_network_nothing_is_claimed(ask):
    assert ask(evidence(10**9, 10**9, link=None)) == CannotJudge(
        "the network is not emulated on this machine: no veth"
    )


SUM = """%%answer wire
import torch, torch.distributed as dist

def mean(tensor):
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()
"""
GATHER = """%%answer wire
import torch, torch.distributed as dist

def mean(tensor):
    everyones = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, tensor)
    return torch.stack(everyones).mean(0)
"""
NBYTES = 400_000


def _right(run):
    return None if all(value == run.expected for value in run.values) else Problem("no", "wrong")


def _wire(run):
    return over_bytes(
        run.evidence, [all_reduce_bytes(run.world_size, NBYTES)] * run.world_size, "wire"
    )


CHECK = Check(
    id="wire",
    title="The mean over ranks",
    claims=(Claim("it is the mean", 2, _right), Claim("few bytes", 3, _wire)),
    hints={"start": "Think.", "wrong": "Mean?", "wire": "Ring."},
    inputs=lambda seed, world_size: [float(rank) for rank in range(world_size)],
    expect=lambda inputs, world_size: sum(inputs) / world_size,
    drive=lambda answer, value: answer.mean(torch.full((100_000,), value))[7].item(),
    names=("mean",),
    link="1gbit",
)


def test_an_answer_that_sends_too_much_is_told_so_by_the_kernel():
    assert judge(CHECK, SUM).status == "passed"
    verdict = judge(CHECK, GATHER)
    right, wire = verdict.claims
    assert (verdict.status, verdict.earned, right.passed) == ("failed", 2, True)
    assert (wire.hint_key, wire.judged, wire.world_size) == ("wire", True, 3)


@pytest.fixture
def no_network(monkeypatch):
    """As on a machine that cannot emulate one."""
    launch = plays.launch

    def without(*arguments, link=None, **options):
        return dataclasses.replace(launch(*arguments, **options), no_link="namespaces are off")

    monkeypatch.setattr(plays, "launch", without)


def test_without_a_network_the_other_claims_are_judged_and_nothing_is_taken_away(no_network):
    verdict = judge(CHECK, SUM)
    right, wire = verdict.claims
    assert (right.passed, wire.passed, wire.judged, wire.hint) == (True, False, False, "")
    assert (verdict.status, verdict.passed, verdict.nothing_failed) == ("not gradable", False, True)
    assert verdict.headline == "1 of 2 claims hold, 1 cannot be judged here"
    text = render.as_text(verdict)
    assert "? few bytes" in text
    assert "not emulated on this machine: namespaces are off" in text
    assert "?</td><td>few bytes" in render.as_html(verdict)


def test_without_a_network_a_wrong_answer_is_still_wrong(no_network):
    verdict = judge(CHECK, SUM.replace("/ dist", "* dist"))
    assert (verdict.status, verdict.nothing_failed) == ("failed", False)
    assert verdict.headline == "0 of 2 claims hold, 1 cannot be judged here"
