"""Pictures of answers about several ranks; and the library's own analysis as a second opinion."""

import pytest

from hpml.modules.m03_profiling.checks import _overlap_cases, _side_by_side, _straggler_cases
from hpml.modules.m03_profiling.checks._overlap_truth import KEYS, truth
from hpml.modules.m03_profiling.checks._side_by_side import traces_of
from hpml.modules.m03_profiling.checks.find_the_straggler import CHECK as STRAGGLER
from hpml.modules.m03_profiling.checks.overlap import CHECK as OVERLAP
from hpml.trace.profiler.communication import communication
from hpml.trace.profiler.straggler import straggler


def test_the_picture_names_the_answers_straggler(solution):
    picture = STRAGGLER.picture(STRAGGLER, solution("find_the_straggler"))
    case = _straggler_cases.cases(7)[0]
    assert picture.png.startswith(b"\x89PNG")
    assert (
        picture.words == f"You name rank {case.straggler}, late since step {case.since} in loading"
    )


def test_the_picture_has_the_answers_figures(solution):
    picture = OVERLAP.picture(OVERLAP, solution("overlap"))
    assert picture.png.startswith(b"\x89PNG")
    for made in _overlap_cases.cases(7)[2].ranks:
        right = truth(made)[1]
        shares = [right[key] / sum(right.values()) for key in KEYS]
        found = picture.words.split("; ")[made.rank].replace("%", "").replace(",", "").split()
        numbers = [int(word) for word in found if word.isdecimal()][-3:]
        assert numbers == pytest.approx([100 * share for share in shares], abs=1.01)


@pytest.mark.parametrize("returned", [None, 3, [[{}]], (1, 2), (99, 7, ["loading"])])
def test_an_answer_that_returns_something_else_has_no_picture(returned, monkeypatch):
    monkeypatch.setattr(_side_by_side, "asked", lambda check, source, ranks: returned)
    for check in (STRAGGLER, OVERLAP):
        with pytest.raises(ValueError, match=r".+"):
            check.picture(check, "")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_library_divides_the_communication_alike(seed):
    """Without what it counts otherwise: loading as computing, long calls as communication."""
    _, two, three, _, nccl, *_ = _overlap_cases.cases(seed)
    for case in (two, three, nccl):
        for made, other in zip(case.ranks, communication(traces_of(case.ranks)), strict=True):
            mine = [sum(step[key] for step in truth(made)) for key in KEYS]
            theirs = [other.hidden, other.waited, other.transferred]
            assert theirs == pytest.approx(mine, abs=0.02 * sum(mine)), (case.name, made.rank)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_library_names_the_same_stragglers_in_recorded_jobs(seed):
    for case in _straggler_cases.cases(seed):
        if case.recorded:
            found = straggler(traces_of(case.ranks))
            assert found.rank == case.straggler
            assert case.straggler is None or (found.since, found.phase) == (
                case.since,
                case.phases[0],
            )
