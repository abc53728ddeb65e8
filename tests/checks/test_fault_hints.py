"""A hint is shown where it was earned: by the diagnosis, or by the exception."""

import pytest

from hpml.checks.contract import fault
from hpml.checks.fault_hints import hint_key
from hpml.checks.run_check import GENERAL_HINTS
from hpml.ranks.evidence import Call, Diagnosis, Evidence, Raised, RankEvidence

OWN = {"raised": "A shard can be empty.", "hang": "Not under an `if rank`.", "killed": "Too long."}


def failed(kind, cause="", raised=None):
    end = "raised" if raised else "ended"
    return Evidence(
        1, (RankEvidence(0, end, raised=raised),), 0.1, Diagnosis(kind, "", (0,), {}, cause)
    )


@pytest.mark.parametrize(
    ("kind", "message", "key"),
    [
        ("NameError", "name 'x' is not defined", "other cell"),
        ("UnboundLocalError", "cannot access local variable 'x'", "no value yet"),
        ("SyntaxError", "invalid syntax", "syntax"),
        ("NoSuchRank", "send to rank -1: there is no such rank", "no such rank"),
        ("RuntimeError", "addmv input tensors must have the same dtype", "two dtypes"),
        ("RuntimeError", "expected scalar type Float but found Double", "two dtypes"),
        ("RuntimeError", "result type Float can't be cast to Long", "two dtypes"),
        ("RuntimeError", "The size of tensor a (3) must match", "raised"),
        ("IndexError", "index 0 is out of bounds", "raised"),
    ],
)
def test_an_exception_names_its_hint(kind, message, key):
    evidence = failed("raised", raised=Raised(kind, message, 4, ""))
    assert hint_key(evidence, OWN) == key
    assert key in GENERAL_HINTS


def test_a_check_that_speaks_of_dtypes_keeps_its_own_hint():
    evidence = failed("raised", raised=Raised("RuntimeError", "the same dtype", 4, ""))
    assert hint_key(evidence, {"raised": "matmul takes one dtype."}) == "raised"


def test_an_exception_outside_the_answer_has_the_checks_own_hint():
    evidence = failed("raised", raised=Raised("NameError", "name 'x' is not defined", None, ""))
    assert hint_key(evidence, OWN) == "raised"


NO_GROUP = "Default process group has not been initialized, please make sure to call it."


@pytest.mark.parametrize(
    ("message", "finished", "key"),
    [(NO_GROUP, None, "hang"), (NO_GROUP, 0.2, "raised"), ("no", None, "raised")],
)
def test_a_rank_without_a_group_for_which_others_wait_has_never_joined(message, finished, key):
    joining = Call(1, "init_process_group", (0, 1), 1, "", (), 0, "", 4, 0.1, None, finished)
    waits = RankEvidence(0, "ended", calls=(joining,))
    raised = RankEvidence(1, "raised", raised=Raised("ValueError", message, None, ""))
    evidence = Evidence(2, (waits, raised), 1.0, Diagnosis("raised", "no", (1,)))
    assert hint_key(evidence, OWN) == key


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("hang", "never waited for"),
        ("hang", "endless loop"),
        ("hang", "one rank"),
        ("mismatch", "what arrives"),
        ("killed", "aborted"),
    ],
)
def test_a_cause_that_the_ledger_shows_comes_before_the_usual_one(kind, cause):
    own = {key: text for key, text in OWN.items() if key != "killed"}
    assert hint_key(failed(kind, cause), own) == cause
    assert hint_key(failed(kind), own) == kind
    assert cause in GENERAL_HINTS
    assert fault(failed(kind, cause)).hint == cause


def test_a_check_of_one_rank_alone_has_its_own_hint_for_a_hang():
    assert hint_key(failed("hang", "one rank"), OWN, most_ranks=1) == "hang"
