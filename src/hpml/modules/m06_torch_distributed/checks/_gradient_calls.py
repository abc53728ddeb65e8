"""What exercise ddp's ranks send for their gradients: how much, in how many messages, and when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest

from hpml.checks.budget import over_bytes
from hpml.checks.contract import CannotJudge, Problem, Run
from hpml.modules.m06_torch_distributed.checks._wrapped_training import (
    PLACES,
    STEPS,
    before_the_middle,
    buckets_of,
    net_on,
    trained_and_frozen,
)
from hpml.predict.collectives import all_reduce_bytes, broadcast_bytes
from hpml.ranks.evidence import Call, Evidence, RankEvidence

PADDING = 64  # bytes by which a message may be rounded up


@dataclass(frozen=True)
class Step:
    """When backward came to the factors (None if it never did), when it had returned, and when
    `synchronize` had; and the calls that carried gradients to other ranks. Times as in `Call`."""

    middle: float | None
    last: float | None
    over: float
    end: float
    calls: list[Call]


def steps_of(rank: RankEvidence, world_size: int) -> list[Step]:
    times = {
        name: [asked.at for asked in rank.asked if asked.request == name and not asked.refused]
        for name in ("batch", "backward", "synchronized", *PLACES)
    }
    # Where there are more batches than steps, these follow the last step
    moments = [times["batch"][:STEPS], times["backward"], times["synchronized"]]
    if [len(each) for each in moments] != [STEPS] * len(moments):
        raise ValueError(f"rank {rank.rank} took {len(times['batch'])} steps")  # not judged

    def first(place: str, begin: float, end: float) -> float | None:
        return next((at for at in times[place] if begin <= at <= end), None)

    return [
        Step(
            first("middle", begin, end),
            first("last", begin, end),
            over,
            end,
            gradients_among(
                world_size,
                (
                    call
                    for call in rank.calls
                    if begin <= call.issued <= end and len(call.group) > 1
                ),
            ),
        )
        for begin, over, end in zip(*moments, strict=True)
    ]


def gradients_among(world_size: int, calls: Iterable[Call]) -> list[Call]:
    """All of a step's calls but its broadcasts, which bring buffers, or sums from the one rank that
    has them: at most as many bytes as there are gradients. With more, every rank's gradients are
    among them, and they count."""
    calls = [call for call in calls if call.operation != "barrier"]
    broadcasts = sum(call.nbytes for call in calls if call.operation == "broadcast")
    buffers = sum(buffer.nbytes for buffer in net_on(world_size).buffers())
    if broadcasts > sum(trained_and_frozen(world_size)[0]) + buffers + PADDING * len(calls):
        return calls
    return [call for call in calls if call.operation != "broadcast"]


def not_awaited(rank: RankEvidence, world_size: int, step: int) -> bool:
    """Whether `synchronize` returned in this step, from 0, before its messages were complete."""
    one = steps_of(rank, world_size)[step]
    return any(call.finished is None or call.finished > one.end for call in one.calls)


def travels_once(run: Run) -> Problem | None:
    sizes, frozen = trained_and_frozen(run.world_size)
    tied = max(sizes)
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        for step, calls in enumerate((one.calls for one in steps_of(rank, run.world_size)), 1):
            carried = sum(call.nbytes for call in calls)
            more = carried - sum(sizes)
            slack = PADDING * len(calls)
            seen = (
                f"in step {step}, rank {rank.rank} sent {carried} bytes; the gradients of all "
                f"parameters that are trained, each once, are {sum(sizes)} bytes"
            )
            if more < 0:
                return Problem(seen, "bytes")
            if 0 <= more - tied <= slack:
                return Problem(f"{seen}, and the tied weight's are {tied} of them", "tied")
            if 0 <= more - frozen <= slack:
                return Problem(f"{seen}, and the frozen layer has {frozen} bytes", "frozen")
            if more > slack:
                return Problem(seen, "bytes")
    return None


def few_messages(run: Run) -> Problem | None:
    sizes, _ = trained_and_frozen(run.world_size)
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        bucket = run.inputs["one model"][rank.rank]["bucket_bytes"]
        buckets = buckets_of(sizes, bucket)
        # Full buckets: a gradient that does not fit opens the next bucket, so two neighbours
        # together hold more than bucket_bytes.
        most = 2 * sum(sizes) // bucket + 1
        largest = max(bucket, *sizes) + PADDING
        for step, calls in enumerate((one.calls for one in steps_of(rank, run.world_size)), 1):
            if not calls:
                return Problem(f"in step {step}, rank {rank.rank} sent no gradients", "alone")
            if (carried := sum(call.nbytes for call in calls)) < sum(sizes):
                seen = f"in step {step}, rank {rank.rank} sent {carried} bytes of its gradients"
                return Problem(f"{seen}, which have {sum(sizes)}", "bytes")
            if len(calls) > most:
                return Problem(
                    f"in step {step}, rank {rank.rank} sent {len(calls)} messages for {len(sizes)} "
                    f"parameters; with full buckets of {bucket} bytes, {most} are enough",
                    "messages",
                )
            if (size := max(call.nbytes for call in calls)) > largest:
                more = travels_once(run)  # of which buckets may be too large
                return Problem(
                    f"in step {step}, rank {rank.rank} sent a message of {size} bytes; "
                    f"bucket_bytes is {bucket}, and the largest parameter has {max(sizes)} bytes",
                    more.hint if more else "one_bucket",
                )
            # What else travels, such as who used what, is small
            sent = [call.nbytes for call in calls if call.nbytes > PADDING]
            if (place := first_unlike(sent, buckets)) is not None:
                more = travels_once(run)
                seen, due = (f"{each[place]} bytes" if place < len(each) else "nothing"
                             for each in (sent, buckets))  # fmt: skip
                return Problem(
                    f"in step {step}, rank {rank.rank}'s bucket {place + 1} has {seen}",
                    more.hint if more else "rule",
                    due,
                )
    return None


def first_unlike(sent: Sequence[int], buckets: Sequence[int]) -> int | None:
    """Which message is not the bucket of that place, perhaps rounded up; None if all are."""
    for place, (got, due) in enumerate(zip_longest(sent, buckets, fillvalue=-1)):
        if not 0 <= got - due <= PADDING:
            return place
    return None


def overlaps(run: Run) -> Problem | None:
    by_rule = few_messages(run) is None
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        bucket = run.inputs["one model"][rank.rank]["bucket_bytes"] if by_rule else None
        for number, step in enumerate(steps_of(rank, run.world_size), 1):
            of = f"in step {number}, rank {rank.rank}"
            if problem := for_show(run, step, of):
                more = travels_once(run)
                return replace(problem, hint=more.hint) if more else problem
            if problem := left_late(run, step, of, bucket):
                return problem
    return None


def for_show(run: Run, step: Step, of: str) -> Problem | None:
    """More than each gradient once: what left early may have been of no use. A frozen layer is too
    little to hide that, and has a claim of its own."""
    sizes, frozen = trained_and_frozen(run.world_size)
    carried = sum(call.nbytes for call in step.calls)
    if carried > sum(sizes) + frozen + PADDING * len(step.calls):
        return Problem(
            f"{of} sent {carried} bytes for its gradients, which have {sum(sizes)}: what left "
            "early may be none of them",
            "bytes",
        )
    return None


def left_late(run: Run, step: Step, of: str, bucket: int | None) -> Problem | None:
    """Whether too little had left when backward came to a place: less than all buckets of so many
    bytes that were complete; where buckets are of another kind, None, less than a part."""
    sizes, _ = trained_and_frozen(run.world_size)
    too_late = "late" if any(call.issued < step.over for call in step.calls) else "after_backward"
    if sum(call.nbytes for call in step.calls) < sum(sizes):  # what left early was too little
        too_late = "bytes"
    # The largest parameter, the embedding, gets its gradient last. A bucket may be open where
    # backward comes to a place: of those before the middle, one of two has left.
    places = (
        ("a layer in the middle", step.middle, before_the_middle(run.world_size), 3),
        ("the last parameter", step.last, sum(sizes) - max(sizes), 2),
    )
    for place, at, ready, part in places:
        if at is None:
            return Problem(f"{of}'s module, the one you were given, got no gradients", "unchanged")
        if at > step.over:
            return Problem(
                f"{of} computed the gradient of {place} when backward was over", "after_backward"
            )
        early = [call for call in step.calls if call.issued < at]
        if not early:
            return Problem(f"{of} had sent nothing yet when backward came to {place}", too_late)
        if (sent := sum(call.nbytes for call in early)) < ready / part:
            return Problem(
                f"{of} had sent {sent} bytes when backward came to {place}; gradients of {ready} "
                "bytes were ready",
                too_late,
            )
        complete = complete_of(buckets_of(sizes, bucket), ready) if bucket else 0
        if sent < complete:
            return Problem(
                f"{of} had sent {sent} bytes when backward came to {place}; buckets of {complete} "
                "bytes were complete",
                too_late,
            )
        # By a thread of the answer's own, or by backward itself: from outside they look alike, and
        # the exercise asks for neither.
        if waited := [call for call in early if call.waited and call.waited < at]:
            return Problem(
                f"{of} waited for {len(waited)} message{'s' * (len(waited) > 1)} while backward "
                "still had gradients to compute",
                "waiting",
            )
    return None


def complete_of(buckets: Sequence[int], ready: int) -> int:
    """The bytes of those buckets that are complete when gradients of so many bytes are there."""
    return max(filled for filled in accumulate(buckets, initial=0) if filled <= ready)


def as_little_as_a_ring(evidence: Evidence) -> Problem | CannotJudge | None:
    """Over the whole launch: rank 0's state is sent once, then the gradients of each step."""
    ranks = evidence.world_size
    gradients = STEPS * all_reduce_bytes(ranks, sum(trained_and_frozen(ranks)[0]))
    # By its names, where a tied weight stands twice: that is how many send it, once in a run
    state = sum(t.numel() * t.element_size() for t in net_on(ranks).state_dict().values())
    for rank in evidence.ranks if ranks > 1 else ():
        # A rank that sends too little did not save traffic: it skipped gradients.
        if rank.traffic is not None and rank.traffic.sent_bytes < gradients / 2:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{sent}: too little for all steps' gradients", "alone")
    return over_bytes(evidence, [gradients + broadcast_bytes(ranks, state)] * ranks, "wire")
