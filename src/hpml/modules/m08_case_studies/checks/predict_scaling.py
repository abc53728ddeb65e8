"""Exercise predict_scaling: images/s at N ranks from few figures, with overlap computed.

`all_reduce_seconds(nbytes, ranks, network)`, `images_per_s(job, ranks, share, wait)` and
`fit(job, points) -> (share, wait)`. Jobs are planted, in the package `instructors`; the last claim
is about published tables (`_published_jobs.py`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m08_case_studies.checks._returned import exception_in_words, returned
from hpml.modules.m08_case_studies.checks._scaling_picture import scaling_picture

PLAYS = Drawn(__package__, "predict_scaling")
EXACT = 1e-4  # of a value: float32 has more than this
MET = 0.005  # of a measured images/s: a share to 1 % meets it
NEAR = 0.02  # of the rate: how far off a share may be
MEDIAN, WORST = 0.10, 0.20  # of the published images/s


def drive(answer: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """What each call returns; for a function that raises, the exception in words."""
    from copy import deepcopy

    changed: list[str] = []  # claims for which a function left its arguments other than it got them

    def asked(claim: str, ask: Callable[..., Any]) -> Any:
        calls = [deepcopy(call) for call in given[claim]]
        try:
            return [ask(*call) for call in calls]
        except ImportError:
            raise
        except Exception as error:  # what is not written yet costs its own claims' points only
            return {"raised": exception_in_words(error, answer)}
        finally:
            if sorted(repr(calls)) != sorted(repr(given[claim])):  # points may be sorted in place
                changed.append(claim)

    def predicted(job: Any, points: Any, ranks: list[int]) -> list[Any]:
        share, wait = answer.fit(deepcopy(job), points)
        return [answer.images_per_s(deepcopy(job), p, share, wait) for p in ranks]

    return {
        "ring": [answer.all_reduce_seconds(*deepcopy(call)) for call in given["ring"]],
        "whole": asked("whole", answer.images_per_s),
        "buckets": asked("buckets", answer.images_per_s),
        "constants": asked("constants", answer.images_per_s),
        "tables": asked("tables", answer.fit),
        "published": asked("published", predicted),
        "changed": changed,
    }


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EXACT, abs_tol=1e-12)


def explained(got: Sequence[float], mistakes: Sequence[Any], asked: Sequence[bool]) -> str | None:
    """The hint of the first mistake that returns just these values where asked, or None."""
    for hint, wrong in mistakes:
        if all(same(g, w) for g, w, one in zip(got, wrong, asked, strict=True) if one):
            return hint
    return None


def judge_ring(run: Run) -> Problem | None:
    calls, due = run.inputs[0]["ring"], run.expected["ring"]
    got = returned(run, "ring", "all_reduce_seconds", len(calls))
    if isinstance(got, Problem):
        return got
    for (nbytes, ranks, network), seconds, right in zip(calls, got, due["right"], strict=True):
        where = f"all_reduce_seconds of {nbytes} bytes, {ranks} ranks, {network['per_node']} a node"
        if not is_number(seconds):
            return Problem(f"{where}: {described(seconds)}, not a number", "types")
        if same(seconds, right):
            continue
        if ranks == 1:
            return Problem(f"{where}: {seconds:.4g} s", "alone", "0 s")
        hint = all(is_number(value) for value in got) and explained(
            got, due["mistakes"], [call[1] > 1 for call in calls]
        )
        return Problem(f"{where}: {seconds:.6g} s", hint or "ring", f"{right:.6g} s")
    return None


def judged_curve(run: Run, claim: str, otherwise: str) -> Problem | None:
    """The first images/s of this claim's calls that is wrong, as a Problem; or None."""
    calls = [(*call, 1.0, 0.0)[:4] for call in run.inputs[0][claim]]  # job, ranks, share, wait
    due = run.expected[claim]
    got = returned(run, claim, "images_per_s", len(calls))
    if isinstance(got, Problem):
        return got
    for (job, ranks, share, wait), rate, right in zip(calls, got, due["right"], strict=True):
        with_constants = f", share {share:g}, wait {wait:g}" * (claim == "constants")
        where = f"images_per_s at {ranks} ranks, {job['network']['per_node']} a node"
        where += f"{with_constants}, alone {job['alone']:g} images/s"
        if not is_number(rate):
            return Problem(f"{where}: {described(rate)}, not a number", "types")
        if not same(rate, right):
            numbers = all(is_number(value) for value in got)
            hint = explained(got, due["mistakes"], [True] * len(got)) if numbers else None
            if numbers and all(map(_is_rounded, got, due["right"])):
                hint = "rounded"
            return Problem(f"{where}: {rate:.6g}", hint or otherwise, f"{right:.6g}")
    return None


def _is_rounded(rate: float, right: float) -> bool:
    """Whether it is the right images/s as a whole number, up or down."""
    return float(rate).is_integer() and abs(rate - right) <= 1


def judge_whole(run: Run) -> Problem | None:
    problem = judged_curve(run, "whole", "step")
    return problem and (judge_ring(run) or problem)  # a step follows from its all-reduce


def judge_buckets(run: Run) -> Problem | None:
    problem = judged_curve(run, "buckets", "buckets")
    return problem and (judge_whole(run) or problem)


def judge_fit(run: Run) -> Problem | None:
    """The constants do what they should, and `fit` finds those that were planted."""
    problem = judged_curve(run, "constants", "constants") or judge_found(run)
    return problem and (judge_buckets(run) or _in_place(run) or problem)


def _in_place(run: Run) -> Problem | None:
    """That `fit` changed what it was given: it calls images_per_s many times with the same job."""
    value = run.values[0]
    changed = value.get("changed") if isinstance(value, dict) else None
    if not isinstance(changed, list) or "tables" not in changed:
        return None
    return Problem("after fit, its job or its points are no longer what they were", "in_place")


def judge_found(run: Run) -> Problem | None:
    calls, due = run.inputs[0]["tables"], run.expected["tables"]
    got = returned(run, "tables", "fit", len(calls))
    if isinstance(got, Problem):
        return replace(got, hint="fit_raised") if got.hint == "raised" else got
    for (job, _), (planted, fitted), pair in zip(calls, due, got, strict=True):
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(is_number, pair)):
            return Problem(f"fit returned {described(pair)}, not a share and a wait", "types")
        share, wait = pair
        found = f"fit returned share {share:.4g} and wait {wait:.4g} s"
        if _near(share, planted[1]) and _near(wait, planted[0]):
            return Problem(found, "swapped")
        if not (0 < share <= 1 and 0 <= wait < 1e3):
            return Problem(found, "range", "a share above 0 up to 1, a wait from 0")
        for ranks, measured, lines in fitted:
            step = max(start + sent / share for start, sent in lines) + wait * math.log2(ranks)
            rate = ranks * job["batch"] / step
            if not abs(rate / measured - 1) <= MET:
                with_it = f"{found}; with them the model gives {rate:.5g} images/s at {ranks} ranks"
                hint = "fit"
                if _shares_found([share for (share, _), _ in due], got):
                    hint = "wait_of_share"
                elif wait == 0 and any(pair[1] for pair in got):
                    hint = "cut_off"
                return Problem(f"{with_it}, and the table has {measured:.5g}", hint)
        if not abs(share - planted[0]) <= NEAR:
            return Problem(found, "fit", "share {:.2f} and wait {:.4g} s".format(*planted))
    return None


def _shares_found(planted: Sequence[float], got: Sequence[Any]) -> bool:
    """Whether the answer has the share of each table; of one it may have it by chance."""
    pairs = [pair for pair in got if isinstance(pair, list | tuple) and len(pair) == 2]
    return len(pairs) == len(got) and all(
        is_number(share) and math.isclose(share, right)
        for right, (share, _) in zip(planted, pairs, strict=True)
    )


def _near(value: float, planted: float) -> bool:
    return abs(value - planted) <= NEAR * planted


def judge_published(run: Run) -> Problem | None:
    """The published tables are always the same: an answer that has them by heart shows nothing."""
    if problem := judge_fit(run):
        return problem
    tables = run.expected["published"]
    got = returned(run, "published", "fit, then images_per_s", len(tables))
    if isinstance(got, Problem):
        return got
    errors: list[tuple[float, str, float]] = []  # (error, what was predicted, published)
    for (name, unseen), rates in zip(tables, got, strict=True):
        if not isinstance(rates, list) or len(rates) != len(unseen):
            return Problem(f"{name}: {described(rates)} came back", "types")
        for (ranks, measured), rate in zip(unseen, rates, strict=True):
            where = f"{name}, {ranks} GPUs"
            if not is_number(rate) or math.isnan(rate):
                return Problem(f"{where}: {described(rate)}, not a number", "types")
            seen = f"{where}: {rate:.4g} images/s predicted"
            errors.append((abs(rate / measured - 1), seen, measured))
    errors.sort()
    limit, (error, seen, measured) = WORST, errors[-1]
    if error <= WORST and errors[len(errors) // 2][0] > MEDIAN:
        limit, (error, seen, measured) = MEDIAN, errors[len(errors) // 2]
        seen = f"half of the tables are farther off than this one: {seen}"
    return None if error <= limit else Problem(seen, "published", f"{measured:g}, to {limit:.0%}")


CHECK = Check(
    id="predict_scaling",
    title="A scaling curve before it is paid for",
    names=("all_reduce_seconds", "images_per_s", "fit"),
    to_write="the model of a step, and the fit of its two unknown constants",
    allowed=ANYTHING,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    worlds=(1,),
    process_group=False,
    picture=scaling_picture,
    claims=(
        Claim("an all-reduce pays for messages and for bytes", 2, judge_ring),
        Claim("with one bucket, all communication follows compute", 2, judge_whole),
        Claim("buckets travel while backward computes, one after the other", 5, judge_buckets),
        Claim("two points give share and wait, whatever the others say", 3, judge_fit),
        Claim("published images/s that it has not seen, to 10 % in the median", 2, judge_published),
    ),
    hints={
        "start": "Begin with all_reduce_seconds; it is judged before the others are written. Then "
        "images_per_s for one bucket, on paper: which moments does a step have?",
        "unwritten": "This function is not written yet; what is written has been judged.",
        "types": "Return plain numbers: seconds, images/s, and from fit a tuple (share, wait).",
        "bits": "Sizes are in bytes, a network's rate is in bit/s. How many bits has a byte?",
        "alpha": "Each message pays α. A ring passes parts on in steps, one message in each: count "
        "the steps of p ranks until everybody has the sum.",
        "factor": "A rank does not send all n bytes in each step, but one of p parts. How many "
        "bytes does it send over all steps?",
        "half": "That is half of it: the sums are made on the way round, and then they go round "
        "once more.",
        "level": "A ring is as slow as its slowest link. If all ranks are on one node, each link "
        "is inside; as soon as there is one rank more, some link goes across.",
        "alone": "One rank has nobody to send to.",
        "ring": "2(p-1) messages, one after the other, of n/p bytes each. Take α and the rate from "
        "`inside` or `across`, and put in p = 2 by hand.",
        "rounded": "Right but for the rounding: values are to be right to 0.01 %, so return them "
        "as they come out.",
        "linear": "That is what the ranks compute, as if communication cost nothing. Which "
        "gradients leave here? Those that do not fill a bucket leave too.",
        "one_rank": "That is what one rank adds. All ranks work at the same time, each on images "
        "of its own.",
        "efficiency": "That is the efficiency, a fraction of perfect scaling. Wanted are images "
        "per second of all ranks together.",
        "seconds": "These are the seconds of a step. How many images have all ranks trained on in "
        "it?",
        "global": "`batch` is the images of each rank. More ranks, more images in a step; what one "
        "rank computes stays.",
        "perfect": "Your communication begins before there is anything to send. The first gradient "
        "is ready when backward has passed a layer, and the last one when backward is over: what "
        "can hide the bucket that leaves then?",
        "added": "Your communication begins when backward has ended. A bucket that is full leaves "
        "at once, while backward goes on with the layers before it.",
        "remainder": "Gradients are missing: those that do not fill a bucket. They leave too, when "
        "backward is over.",
        "order": "Backward begins with the last layer. Which gradients are ready first?",
        "queue": "Two buckets do not travel at the same time: one that is ready waits until the "
        "one before it has left the network.",
        "thirds": "Forward takes a third of a step's compute and backward two thirds. When is the "
        "first gradient ready?",
        "by_flop": "Backward spends most time on layers with most FLOP, not on those with most "
        "parameters: they are different ones.",
        "full": "A bucket that has exactly `bucket_bytes` is full: it leaves with the layer that "
        "brought it there. The text's example has one, after its last layer.",
        "empty": "When backward is over, nothing may be left in the bucket. Then there is no "
        "all-reduce, and no α to pay for.",
        "closes": "A bucket leaves with the layer that fills it: add the gradients first, then "
        "look whether the bucket is full. It may be larger than `bucket_bytes`, other than the "
        "buckets of the lecture.",
        "step": "With one bucket, a step is compute, then one all-reduce of all gradients, and "
        "takes as long as both. All ranks train on ranks · batch images in it.",
        "buckets": "Walk from the last layer to the first with three figures: the moment at which "
        "this layer's gradients are ready, the bytes in the open bucket, and the moment at which "
        "the network is free. The step is over when backward is over and the network is free.",
        "no_share": "`share` changes nothing in yours: across nodes, share · rate is what the "
        "all-reduce gets.",
        "share": "`share` is a fraction of the rate across nodes: 0.5 is half the bit/s.",
        "inside": "`share` is of the network across nodes. The links inside a node are as given.",
        "no_wait": "`wait` changes nothing in yours: a step takes wait · log2(ranks) longer.",
        "wait": "One `wait` for each doubling of the ranks: 3 for 8 ranks, none for one.",
        "constants": "The step without constants is right. With them: the rate across nodes is "
        "multiplied by share, and wait · log2(ranks) is added when everything else is over.",
        "range": "A share is a fraction, not a percentage: above 1 it is more than the network "
        "has. And a wait below 0 is time given back: leave out such pairs.",
        "swapped": "The share first, then the wait.",
        "wait_of_share": "The share is right, and the wait is not: with this share, the first of "
        "the two points leaves one wait, in seconds and for one doubling of the ranks.",
        "cut_off": "A wait of 0 in place of a negative one does not meet the first of the two "
        "points: with this share the network alone takes too long. Skip such shares.",
        "fit": "Which points did you fit to? Only the two smallest sizes of more than one node "
        "count, wherever they stand: in a node nothing goes across, and what was fitted to all can "
        "predict nothing. For a given share, the first of the two leaves one wait; which share "
        "meets the second?",
        "in_place": "A dict or a list that you are given is the caller's own: what you write into "
        "it is there in the next call too, so that a share counts twice. Make a new one, such as "
        "{**network, ...}.",
        "published": "Planted tables are met, this one is not. Its points are measured, so no pair "
        "meets both exactly: take, of all shares with a wait from 0 on, the one that comes "
        "nearest.",
        "fit_raised": "Start from the exception. Which two points did `fit` take? The one rank and "
        "the sizes within a node are not among them. Shares go from 0.01 to 1.00. And for which of "
        "them does it keep a wait?",
        "raised": "Start from the exception. ranks may be 1, a bucket may be larger than the "
        "model, and points come as (ranks, images/s).",
    },
)
