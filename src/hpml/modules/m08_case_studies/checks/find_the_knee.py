"""Exercise find_the_knee: how many ranks to pay for, by price, deadline and scaling curve.

`bill(job, ranks, rate) -> (hours, money)`, `cheapest(job) -> ranks | None` and
`find_the_knee(job) -> ranks`. The clusters are planted, in the package
`instructors`.
"""

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import BY_CHOICE, Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m08_case_studies.checks._knee_picture import Choice, Job, knee_picture
from hpml.modules.m08_case_studies.checks._returned import exception_in_words, returned

PLAYS = Drawn(__package__, "find_the_knee")
CENT = 0.0051  # money may be rounded to cents or not
ROUNDED = 0.051  # hours that are this near were rounded to a digit or two
FUNCTIONS = {"deadlines": "cheapest", "edges": "cheapest", "knees": "find_the_knee"}  # by claim


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the answer makes of each; for a choice that raises, the exception in words."""

    def asked(jobs: list[Any], ask: Any) -> Any:
        try:
            return [ask(job) for job in jobs]
        except ImportError:
            raise
        except Exception as error:  # what is not written yet costs its own claims' points only
            return {"raised": exception_in_words(error, answer)}

    return {
        "bills": [answer.bill(*case) for case in inputs["bills"]],
        "deadlines": asked(inputs["deadlines"], answer.cheapest),
        "edges": asked(inputs["edges"], answer.cheapest),
        "knees": asked(inputs["knees"], answer.find_the_knee),
    }


def judge_bill(run: Run) -> Problem | None:
    cases, due = run.inputs[0]["bills"], run.expected["bills"]
    told = returned(run, "bills", "bill", len(cases), "bill_shape")
    if isinstance(told, Problem):
        return told
    for got in told:
        if not (isinstance(got, list | tuple) and len(got) == 2 and all(map(is_number, got))):
            return Problem(f"bill returned {described(got)}", "bill_shape", "hours and money")
    for case, (hours, money), right in zip(cases, told, due["right"], strict=True):
        if not (_near(hours, right[0]) and abs(money - right[1]) <= CENT):
            job, ranks, rate = case
            return Problem(
                f"{ranks} ranks at {rate} images/s, {job['per_node']} to a node of "
                f"{job['node_hour']} an hour, {job['images']} images: bill returned "
                f"{hours:.6g} hours and {money:.8g}",
                bill_hint(told, due["right"], due["mistakes"]),
                f"{right[0]:.6g} hours and {right[1]:.2f}",
            )
    return None


def bill_hint(
    told: Sequence[Any], right: Sequence[Any], mistakes: Sequence[tuple[str, Sequence[float]]]
) -> str:
    """The hint for the mistake that explains all bills."""
    pairs = [*zip(told, right, strict=True)]
    if all(_near(got[1], hours) and abs(got[0] - money) <= CENT for got, (hours, money) in pairs):
        return "bill_order"
    if not all(_near(got[0], hours) for got, (hours, _) in pairs):
        near = all(abs(got[0] - hours) < ROUNDED for got, (hours, _) in pairs)
        return "rounded" if near else "bill_hours"
    for hint, wrong in mistakes:
        both = zip(told, wrong, strict=True)
        if all(abs(got[1] - money) <= CENT + 1e-9 * abs(got[1]) for got, money in both):
            return hint
    return "bill"


def judge_cheapest(run: Run) -> Problem | None:
    return judged(run, "deadlines", "cheapest")


def judge_edges(run: Run) -> Problem | None:
    """An answer that is wrong already where a choice is plain gets that hint."""
    problem = judged(run, "edges", "edges")
    if problem and problem.hint == "edges":  # a wrong bill may be all there is
        return judge_cheapest(run) or judge_bill(run) or problem
    return problem and (judge_cheapest(run) or problem)


def judge_knee(run: Run) -> Problem | None:
    return judged(run, "knees", "knee")


def judged(run: Run, claim: str, otherwise: str) -> Problem | None:
    """The first wrong choice, with the hint for the mistake that makes all of these choices."""
    name, jobs, due = FUNCTIONS[claim], run.inputs[0][claim], run.expected[claim]
    told = returned(run, claim, name, len(jobs), "shape")
    if isinstance(told, Problem):
        return told
    for got in told:
        if not is_choice(got):
            return Problem(f"{name} returned {described(got)}", "shape", "a number of ranks")
    for job, got, right, sizes in zip(jobs, told, due["right"], due[BY_CHOICE], strict=True):
        if got != right:
            return Problem(
                f"{name} of a job with {about(name, job)}: {in_words(got, sizes)}",
                next((hint for hint, wrong in due["mistakes"] if wrong == told), otherwise),
                in_words(right, sizes),
            )
    return None


def is_choice(value: Any) -> bool:
    """Whether it is None or a whole number."""
    whole = is_number(value) and math.isfinite(value) and value == int(value)
    return value is None or whole


def about(name: str, job: Job) -> str:
    """What this choice is made from, as the job names it, the measurements by ranks."""
    asked = ("images", "deadline", "node_hour") if name == "cheapest" else ("worth",)
    figures = ", ".join(f"{key} {job[key]}" for key in ("per_node", *asked))
    return f"{figures} and measured {sorted(map(tuple, job['measured']))}"


def in_words(choice: Choice, sizes: dict[int, tuple[int, float, float]]) -> str:
    """A choice: "24 ranks, 3 nodes, 1.52 hours". Not its bill: in a tie it is the right one's."""
    if choice is None or choice not in sizes:
        return "None" if choice is None else f"{choice} ranks, which were not measured"
    nodes, hours, _ = sizes[choice]
    return f"{choice} ranks, {nodes} node{'s' * (nodes > 1)}, {hours:.4g} hours"


def _near(value: float, other: float) -> bool:
    return abs(value - other) <= 1e-6 * abs(other)


CHECK = Check(
    id="find_the_knee",
    title="What to pay for",
    names=("bill", "cheapest", "find_the_knee"),
    to_write="the bill, the cheapest way to meet a deadline, and the knee of a scaling curve",
    allowed=ANYTHING,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    worlds=(1,),
    process_group=False,
    picture=knee_picture,
    claims=(
        Claim("bill: hours, and money for whole nodes", 3, judge_bill),
        Claim("cheapest: in time, for the least money", 4, judge_cheapest),
        Claim("cheapest: None if nothing is in time; of equal bills the sooner", 2, judge_edges),
        Claim("find_the_knee: up to there, added nodes pay", 5, judge_knee),
    ),
    hints={
        "unwritten": "This function is not written yet; what is written has been judged.",
        "start": "First bill: how many nodes do these ranks occupy, and for how long? For the "
        "cheapest way, make a list of all sizes in time with what they cost. For the knee, sort "
        "first, and have one point for each number of nodes.",
        "shape": "Both choices are a number of ranks, a plain int; cheapest may return None.",
        "bill_shape": "bill returns two plain numbers: (hours, money).",
        "bill_order": "Hours first, then money.",
        "bill_hours": "A rate is in images per second, of all ranks together. How many seconds do "
        "all images take, and how many hours is that?",
        "rounded": "Hours are to be right to one in a million: return them as they come out. Money "
        "may be rounded to cents.",
        "bill": "The hours are right. Money is nodes times hours times the price of a node for an "
        "hour.",
        "parts": "That pays for parts of nodes. Nobody rents out half a node: with 4 ranks to a "
        "node, 6 ranks occupy 2 nodes.",
        "floor": "That leaves out a node that is not full. It is paid for as well.",
        "one_more": "That counts one node too many where all nodes are full: with 4 ranks to a "
        "node, 8 ranks occupy 2.",
        "each_rank": "`node_hour` is the price of a whole node, with all ranks that fit on it.",
        "one_node": "That pays for one node, however many there are.",
        "price": "That is node-hours. What does one cost?",
        "hourly": "That is the price of an hour, whatever the run takes. A cluster that is twice "
        "as expensive and done in less than half the time is cheaper.",
        "seconds": "The price is for an hour, and that counts seconds.",
        "all_ranks": "A rate is that of all ranks together, not of each.",
        "fewest": "That is the smallest size in time. A node that is not full costs as much as a "
        "full one, which may be done sooner. And where images fit into memory, more nodes can cost "
        "less.",
        "largest": "That is the largest size, whatever it costs.",
        "fastest": "That is the fastest size, whatever it costs.",
        "no_deadline": "That is the cheapest way without a deadline. Which sizes are in time? "
        "The deadline is in hours.",
        "units": "The deadline is in hours: are yours?",
        "nodes": "Those are nodes. Return ranks.",
        "cheapest": "Take the job above, and write down hours and money of each of its sizes. "
        "Cross out those that are late. Which is the cheapest of the rest?",
        "nothing": "If no size is in time, there is none to pay for: return None.",
        "tie": "Bills are compared in whole cents. Where they are equal, the sooner one is the "
        "better buy: round first, then compare hours.",
        "edges": "Two cases remain: no size is in time (None), and bills that are equal to a cent "
        "(the sooner one). A bill that is some cents less is less.",
        "largest_of_all": "That is the largest size. What does its last step bring?",
        "fastest_of_all": "That is where the curve is highest. Its last nodes may bring little, "
        "and cost as much as the first: a step has to bring at least `worth` of the yardstick for "
        "each node that it adds.",
        "average": "That is the efficiency of all nodes together. The good first ones hide what "
        "the last ones bring. Compare what a step adds with how many nodes it adds.",
        "ratio": "That compares ratios of the whole. From 8 nodes to 9, a ninth node that brings "
        "nothing still leaves 8/9. Compare what is added: images/s over nodes.",
        "yardstick": "The yardstick is what **one** node brings at the smallest number of nodes "
        "measured, and it is the same for all steps.",
        "one_rank": "The yardstick is a node, measured: images/s at the smallest number of nodes, "
        "over that number. A rank that has a node for itself is faster than each of many.",
        "whole_step": "A step may add several nodes. Each of them has to bring enough, on average.",
        "beyond": "That is the size after the step that does not pay. Stop before it.",
        "later": "Beyond the first step that does not pay, you went on, and a later one paid "
        "again, or several together did. The text stops at the first.",
        "ranks": "That counts ranks. Money is for nodes: ranks added to a node that is paid for "
        "already are free.",
        "every_size": "Two sizes on the same number of nodes cost the same for an hour. Only the "
        "faster of them is of interest: one point for each number of nodes.",
        "unsorted": "Measurements are in no order. Sort by nodes before you go up.",
        "fullest": "The full node is not always the fastest: with fewer ranks each has more of the "
        "node's processors and memory. Of one number of nodes, take the fastest size.",
        "full_nodes": "The nodes are right. They need not be full: return the ranks of the fastest "
        "size that was measured on so many nodes.",
        "knee_in_nodes": "Those are nodes. Return ranks.",
        "bill_knee": "That is the cheapest size. The knee is about what added nodes bring.",
        "knee": "Take the job above. Write one line for each number of nodes, "
        "with the rate of its fastest size. Then for each step: images/s added over nodes added, "
        "over images/s of one node in the first line. Where is that below `worth` first?",
        "raised": "Start from the exception: it names a line of your answer. It may be that no "
        "size is in time, or that one number of nodes has several sizes.",
    },
)
