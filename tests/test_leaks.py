"""The look for messages that give away what was expected finds them, whatever their wording."""

import pytest
import torch

from hpml.checks.contract import Problem, Run
from hpml.checks.kits.drawn import BY_CHOICE
from hpml.ranks.evidence import Evidence, RankEvidence

from .leaks import leaked


def run_of(expected: object, returned: object = None, inputs: object = None) -> Run:
    evidence = Evidence(1, (RankEvidence(0, "returned", returned),), 0.0)
    return Run(1, 0, inputs, expected, evidence, {"play": evidence})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("the loss is 0.7000; the mean over all samples is 2.3026", {"losses": [1.5, 2.302585]}),
        ("the last loss is 0.7000, without compression 2.3026", [2.302585]),
        ("rank 1 has 12, and 4711 is right", 4711),
        ("the master is 'n002', it is 'n001' in truth", {"master": "n001"}),
        ("rank 0 took 5 samples in 3 epochs, not 24", None),
        ("rank 0 counts 5 samples, there are 7", None),
        ("the value is 3, expected 4", None),
        ("rank 2 returned 7 where it should be 8", None),
    ],
)
def test_a_message_that_gives_it_away_is_found(message: str, expected: object) -> None:
    assert leaked(Problem(message, "sum"), run_of(expected))


def test_so_is_one_that_says_what_its_own_field_has() -> None:
    problem = Problem("it waits on port 20211, and 20212 is the job's", "port", "20212")
    assert leaked(problem, run_of(None)) == "20212"


@pytest.mark.parametrize(
    "run",
    [
        run_of([4711], returned=[{"sum": 4711}]),
        run_of([4711], inputs=[{"length": 4711}]),
        run_of([4711], inputs=["job 4711 waits"]),
        run_of([4712]),
    ],
)
def test_what_went_in_or_came_out_gives_nothing_away(run: Run) -> None:
    assert not leaked(Problem("rank 1 has 4711, and rank 2 has it too", "sum"), run)


def test_what_each_choice_costs_is_said_of_the_answers_own_and_what_is_best_is_not() -> None:
    costs = {"right": [31.25], BY_CHOICE: [{4: 87.5, 8: 31.25}], "mistakes": [("slow", [87.5])]}
    run = run_of({"knees": costs})
    assert not leaked(Problem("4 ranks take 87.5 hours", "slower"), run)
    assert leaked(Problem("8 ranks take 31.25 hours", "slower"), run) == "31.25"


def test_the_words_of_an_exception_are_the_answers_own() -> None:
    said = "ValueError: not enough values to unpack (expected 1, got 0)"
    message = f"a job of 2 ranks: {said}"
    assert not leaked(Problem(message, "nobody"), run_of(None, returned=[{"raised": said}]))
    assert leaked(Problem(message, "nobody"), run_of(None))


def test_a_number_with_commas_is_one_number() -> None:
    problem = Problem("the peak is 1,963,020 bytes", "late", "900,963 bytes at most")
    assert not leaked(problem, run_of(None))
    assert leaked(Problem("the peak is 1,963,020 bytes", "late", "1963020"), run_of(None))


def test_what_is_right_in_an_answers_own_tensor_gives_nothing_away() -> None:
    problem = Problem("grad is [-0.155, 0.1787]", "order", "[-0.155, 0.2345]")
    returned = [{"grads": [torch.tensor([-0.15502, 0.17871])]}]
    assert not leaked(problem, run_of(None, returned=returned))
    assert leaked(problem, run_of(None)) == "-0.155"


def test_a_number_near_an_answers_own_is_not_its_own() -> None:
    run = run_of([4711], returned=[torch.tensor([4709.0, 4713.0])])
    assert leaked(Problem("rank 1 has 4711", "sum"), run) == "4711"
