"""Exercise prefetch: the next batches are read while the caller computes.

`prefetch(batches, depth)` is an iterator over `batches` whose reader is a thread. How it is seen
what overlaps what, and who is how far ahead: `_served_batches.py`.
"""

import random
from typing import Any

import torch

from hpml.answer.rules import ReadyMade
from hpml.checks.compare import described
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ALL_ELSE
from hpml.modules.m02_hardware.checks._prefetch_picture import prefetch_picture
from hpml.modules.m02_hardware.checks._served_batches import (
    KINDS,
    WITH_NONE,
    ahead,
    computations,
    leave,
    overlap,
    reads,
    serving,
    take_all,
)
from hpml.ranks.evidence import Evidence, RankEvidence

SIZE = 4  # samples of a batch; the last has fewer
RANKS = 2  # side by side, and each alone: one leaves by a break, the other by close()
NO_ITERATOR = ("not an iterator", "__next__")  # Python's messages where it has no next()
TWO_READERS = "generator already executing"  # Python's message of the second one's error
LOADER = ReadyMade("`DataLoader`", ("torch.utils.data.dataloader.DataLoader",))


def new_batches(draw: torch.Generator, number: int) -> list[torch.Tensor]:
    """Float32 (4, 3) each, and a last one of (1, 3)."""
    sizes = [SIZE] * (number - 1) + [1]
    return [torch.randn(size, 3, generator=draw) for size in sizes]


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: the depth, the batches, the error that ends them, how it leaves."""
    found: dict[str, list[dict[str, Any]]] = {stage.name: [] for stage in STAGES}
    kinds = random.Random(seed).sample(sorted(KINDS), RANKS)  # of errors: each rank has another
    for rank in range(RANKS):
        pick = random.Random(f"{seed} {rank}")
        draw = torch.Generator().manual_seed(pick.randrange(2**31))
        depth = rank + 1
        found["overlap"].append({"depth": depth, "batches": new_batches(draw, depth + 4)})
        depth = pick.choice((2, 3, 4)) if rank else 1
        slow = {"depth": depth, "batches": new_batches(draw, depth + 6)}
        found["slow"].append(slow | {"without_next": rank > 0})
        raises = [kinds[rank], f"shard {pick.randrange(10**6)} cannot be read"]
        error = {"depth": depth, "batches": new_batches(draw, depth), "raises": raises}
        found["error"].append(error)
        left = {"takes": 2, "closes": rank % 2 == 1, "depth": pick.choice((1, 2, 3))}
        found["left"].append(left | {"batches": new_batches(draw, 12)})
    return found


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By stage and rank, the batches that the loop should get."""
    return {stage: [rank["batches"] for rank in ranks] for stage, ranks in inputs.items()}


def two(world_size: int) -> int:
    return RANKS


STAGES = (
    Stage("overlap", take_all, two, serve=serving(meets=True)),
    Stage("slow", take_all, two, serve=serving(), looks=True, dies=True),
    Stage("error", take_all, two, serve=serving(), looks=True, dies=True),
    Stage("left", leave, two, serve=serving(), looks=True, dies=True),
)


def alike(got: Any, batch: torch.Tensor) -> bool:
    return isinstance(got, torch.Tensor) and got.shape == batch.shape and torch.equal(got, batch)


def misread(got: list[Any], batches: list[torch.Tensor]) -> Problem | None:
    """What is wrong with the batches that a loop got, if anything is."""
    places = []
    for item in got:
        place = next((n for n, batch in enumerate(batches) if alike(item, batch)), None)
        if place is None:
            number = len(places) + 1
            return Problem(
                f"item {number} of the loop is {described(item)}, which is not a batch", "no_batch"
            )
        places.append(place)
    if places == list(range(len(batches))):
        return None
    numbers = ", ".join(str(place + 1) for place in places)
    message = f"the loop got the batches {numbers or 'none'} of {len(batches)}"
    if len(set(places)) < len(places):
        return Problem(message, "twice")
    return Problem(message, "lost" if places == sorted(places) else "order")


def unexpected(value: dict[str, Any]) -> Problem | None:
    """An error that came out of the loop where the reader had none."""
    if value["error"] is None:
        return None
    kind, message, _ = value["error"]
    hint = "two_readers" if TWO_READERS in message else "raised"
    hint = "iterable" if any(words in message for words in NO_ITERATOR) else hint
    return Problem(f"the loop ended with {kind}: {message}", hint)


def every_batch(run: Run) -> Problem | None:
    for stage in ("overlap", "slow"):
        if problem := fault(run.stages[stage]):
            return problem
        for value, batches in zip(run.stages[stage].values, run.expected[stage], strict=True):
            if problem := unexpected(value) or misread(value["got"], batches):
                return problem
            if value["empty"]:
                seen = f"of an empty list, the loop got {value['empty'][0]}"
                return Problem(seen, "empty", "no batch, and no error")
            if value["with_none"] not in (None, list(WITH_NONE)):
                seen = f"of the list {list(WITH_NONE)}, the loop got {value['with_none']}"[:200]
                return Problem(seen, "none", "the same")
    return None


def overlaps(run: Run) -> Problem | None:
    for rank, given in zip(run.stages["overlap"].ranks, run.inputs["overlap"], strict=True):
        number = len(given["batches"])
        done, busy = reads(rank)[:number], computations(rank)
        if len(done) < number or not busy:
            seen = Problem(f"{len(done)} of {number} batches were read", "lost")
            return every_batch(run) or seen
        for place, read in enumerate(done):
            if place == 0 or any(overlap(read, other) for other in busy):
                continue
            first = busy[0][0]
            if read[1] < first:
                when = "before the caller had its first batch"
                hint = "all_first" if done[-1][1] < first else "first_waits"
            else:
                before = sum(one[1] < read[0] for one in busy)
                when, hint = f"between two of the caller's computations, after {before}", "turns"
            return Problem(
                f"batch {place + 1} was read {when}, and no computation was under way meanwhile",
                hint,
            )
    return None


def bounded(run: Run) -> Problem | None:
    evidence = run.stages["slow"]
    for rank, given in zip(evidence.ranks, run.inputs["slow"], strict=True):
        depth, number = given["depth"], len(given["batches"])
        most = max(ahead(rank, number), default=0)
        if most > depth + 1:
            if (at_once := overlaps(run)) and at_once.hint == "all_first":
                return at_once
            return Problem(
                f"while the caller computed, {most} batches were read that it had not asked for, "
                f"with a depth of {depth}",
                "unbounded",
                f"at most {depth} that wait and one in the reader's hands",
            )
        if most < depth and fault(evidence) is None:
            seen = Problem(
                f"the caller computed for long, and {most} of the next batches were read meanwhile",
                "shallow",
                f"{depth}",
            )
            return every_batch(run) or overlaps(run) or seen  # by turns, none is ahead
    return fault(evidence)


def raises(run: Run) -> Problem | None:
    evidence = run.stages["error"]
    if problem := fault(evidence):
        hint = "swallowed" if problem.hint in ("hang", "limit") else problem.hint
        return Problem(f"after an error of the reader, {problem.message}", hint)
    for value, given, batches in zip(
        evidence.values, run.inputs["error"], run.expected["error"], strict=True
    ):
        kind, message = given["raises"]
        seen = f"the reader raised {kind}"
        if value["error"] is None:
            return Problem(f"{seen}, and the loop ended as if that were the end", "swallowed")
        if value["error"][:2] != [kind, message]:
            found = ": ".join(value["error"][:2])[:100]
            seen = f"{seen}, and the loop ended with {found}"
            if TWO_READERS in found:
                return every_batch(run) or Problem(seen, "two_readers")
            return Problem(seen, "another_error")
        if not value["error"][2]:
            text = f"{seen}, and the loop ended with another {kind}, of the same message"
            return Problem(text, "another_error")
        if problem := misread(value["got"], batches):
            problem = Problem(f"{seen} after {len(batches)} batches: {problem.message}", "early")
            return every_batch(run) or overlaps(run) or problem  # out of order without an error too
    return None


def left_behind(rank: RankEvidence) -> int | CannotJudge:
    """How many tasks a rank has more than before it began to read."""
    counts = [asked.counts for asked in rank.asked if asked.request == "count"]
    if len(counts) < 2 or None in counts or not counts[0].tasks:
        return CannotJudge("this system does not count the threads of a process")
    return counts[-1].tasks - counts[0].tasks


def leaves_none(run: Run) -> Problem | CannotJudge | None:
    for stage, when in (
        ("slow", "the loop had come to its end"),
        ("error", "the reader's error had ended the loop"),
        ("left", ""),
    ):
        evidence: Evidence = run.stages[stage]
        if problem := fault(evidence):
            if stage == "error":
                return raises(run)
            if TWO_READERS in problem.message:
                return every_batch(run) or Problem(problem.message, "two_readers")
            stuck = stage == "left" and problem.hint in ("hang", "limit")
            return Problem(problem.message, "stuck") if stuck else problem
        for rank, given in zip(evidence.ranks, run.inputs[stage], strict=True):
            closes = given.get("closes", False)
            left = "the caller had called close()" if closes else "the caller had left by break"
            if closes and not rank.value["closes"]:
                return Problem("what prefetch returns has no method close()", "no_close")
            found = left_behind(rank)
            if isinstance(found, CannotJudge):
                return found
            if found > 0:
                hint = "after_break" if stage == "left" else "after_the_end"
                return Problem(
                    f"when {when or left}, {found} thread{'s' * (found > 1)} stayed", hint
                )
    return None


CHECK = Check(
    id="prefetch",
    title="Read ahead",
    names=("prefetch",),
    to_write="the iterator and its reader",
    allowed=f"{ALL_ELSE}, `threading`, `queue` and `concurrent.futures` first of all",
    not_allowed=(LOADER,),
    picture=prefetch_picture,
    worlds=(1,),
    process_group=False,
    inputs=inputs,
    expect=expect,
    stages=STAGES,
    claims=(
        Claim("every batch comes once and in order, the last short one too", 3, every_batch),
        Claim("the next batch is read while the caller computes", 4, overlaps),
        Claim("however slow the caller, the reader is depth batches ahead", 3, bounded),
        Claim("an error of the reader reaches the caller, in its place", 2, raises),
        Claim("no thread is left: at the end, after an error, after a break", 3, leaves_none),
    ),
    hints={
        "start": "Two have to work at the same time. Who reads, who hands over, and what does the "
        "one who is faster wait for? A queue with a largest size answers the last question.",
        "no_batch": "What marks the end is for you, not for the caller: it has to be told from a "
        "batch, and to stop the loop.",
        "none": "None may be a batch, and then it cannot mark the end. What is never a batch? An "
        "object() of your own, compared with `is`; or hand over pairs of a kind and an item.",
        "iterable": "next() wants an iterator, and `batches` may be any iterable, such as a list. "
        "iter(batches) makes an iterator of it, and a for loop calls that.",
        "empty": "A data set may be empty. The first thing that the caller takes from the queue is "
        "the end then, as it is the last thing elsewhere: let the same lines handle both.",
        "lost": "When the reader is at the end, batches may still be in the queue. The end has to "
        "come after them, in the same queue.",
        "twice": "Each batch is handed over once. Does the reader put a batch in that it has "
        "already put in, at the end for example?",
        "order": "First in, first out: with one reader and one queue.Queue, batches cannot "
        "overtake each other.",
        "two_readers": "Two threads were in `batches` at the same time: a generator cannot be "
        "advanced by two. One reader is enough; it is the computation that it is to overlap.",
        "turns": "Reading and computing took turns. The read has to go on in another thread, which "
        "begins the next one before the caller asks for it.",
        "first_waits": "One batch was there, and the caller got it only when the next was read "
        "too. Who reads, the caller itself? Or does it wait until the queue is full? Start the "
        "thread, and hand over each batch as soon as it is in the queue.",
        "all_first": "Everything was read before the caller had a batch to compute on: its first "
        "step waits for the whole data set, which must fit in memory too. Start the thread, and "
        "hand over the first batch as soon as it is there.",
        "unbounded": "A reader that is faster than its caller fills the memory. What is it to "
        "wait for when `depth` batches wait? queue.Queue(maxsize) has the answer; "
        "but a maxsize of 0 is no limit at all.",
        "shallow": "`depth` says how far the reader may be ahead. A reader that waits after every "
        "batch cannot even out one slow file.",
        "swallowed": "An exception that leaves a thread's function ends the thread, and nobody "
        "else hears of it. Catch it in the reader, hand it over in the queue, and raise it where "
        "the caller waits.",
        "another_error": "The caller may catch the reader's exception by its type, and needs its "
        "traceback to find the line. Catch it in the "
        "thread in which it is raised, hand over that very object, and raise it where the caller "
        "waits.",
        "early": "The error belongs after the batches that were read before it. If it goes "
        "through the same queue, it comes in its turn.",
        "after_the_end": "A thread ends when its function returns. Which call does yours still "
        "wait in, when there is nothing more to read?",
        "after_break": "After a break nobody takes from the queue any more, and a reader that "
        "waits for room waits for ever. A generator that is dropped or closed runs its `finally`: "
        "say there that it is over, see to it that the reader wakes up and looks, and wait for it "
        "with join(). A daemon thread is only forgotten at the program's end. And an object is not "
        "dropped while a thread holds it, as one does whose `target` is the object's own method.",
        "stuck": "The caller waits for the reader's end, and the reader for room in the queue: "
        "who wakes it up?",
        "no_close": "A generator function gives close() for nothing; a class of your own has to "
        "define it.",
        "hang": "Somebody waits for an item that never comes. What does the reader put into the "
        "queue when there are no more batches?",
    },
)
