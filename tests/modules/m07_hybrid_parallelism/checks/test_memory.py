"""What a claim about memory rests on: the kernel's count of a stage's ranks, or no judgement."""

import sys
from dataclasses import replace

import pytest

from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Stage
from hpml.checks.plays import play_once
from hpml.modules.m07_hybrid_parallelism.checks import _memory as memory
from hpml.ranks.evidence import Evidence, RankEvidence

MIB = 2**20
ANSWER = "import torch\n\ndef hold(mebibytes):\n    torch.ones(mebibytes * 2**18)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts it on Linux")
@pytest.mark.parametrize("proxied", [False, True])
def test_a_stage_with_memory_has_the_peaks_of_its_ranks(proxied):
    check = Check(
        id="holding",
        title="Holding",
        claims=(Claim("it ran", 1, lambda run: None),),
        hints={"start": "Hold."},
        inputs=lambda seed, world_size: {"play": [32, 0][:world_size]},
        expect=lambda inputs, world_size: None,
        stages=(Stage("play", lambda answer, inputs: answer.hold(inputs), memory=True),),
    )
    run, fault = play_once(check, ANSWER, 2, 1, proxied=proxied)
    assert fault is None
    first, second = memory.peaks(run.evidence)
    assert 31 * MIB < first < 34 * MIB
    assert second < 2 * MIB


def test_what_the_system_does_not_count_cannot_be_judged():
    ranks = (RankEvidence(0, "returned", peak_bytes=5), RankEvidence(1, "returned"))
    assert isinstance(memory.peaks(Evidence(2, ranks, 1.0)), CannotJudge)
    counted = replace(ranks[1], peak_bytes=7)
    assert memory.peaks(Evidence(2, (ranks[0], counted), 1.0)) == [5, 7]


def test_a_rank_that_sets_its_peak_back_is_a_problem():
    ranks = (RankEvidence(0, "returned", peak_bytes=5, set_back=True),)
    found = memory.peaks(Evidence(1, ranks, 1.0))
    assert isinstance(found, Problem)
    assert "rank 0" in found.message
