"""What exercise ddp's ranks send for their gradients: how much, in how many messages, and when."""

from collections.abc import Iterable

from hpml.checks.budget import over_bytes
from hpml.checks.contract import CannotJudge, Problem, Run
from hpml.checks.m06_torch_distributed._wrapped_training import STEPS, Net, trained_and_frozen
from hpml.predict.collectives import all_reduce_bytes, broadcast_bytes
from hpml.ranks.evidence import Call, RankEvidence

PADDING = 64  # bytes by which a message may be rounded up


def steps_of(rank: RankEvidence) -> list[tuple[float | None, list[Call]]]:
    """For each step: when backward came to its last gradient, and the calls that carried gradients
    to other ranks."""
    times = {
        name: [asked.at for asked in rank.asked if asked.request == name and not asked.refused]
        for name in ("batch", "factor", "synchronized")
    }
    if not len(times["batch"]) == len(times["synchronized"]) == STEPS:
        raise ValueError(f"rank {rank.rank} took {len(times['batch'])} steps")  # not judged
    return [
        (
            next((last for last in times["factor"] if begin <= last <= end), None),
            gradients_among(
                call for call in rank.calls if begin <= call.issued <= end and len(call.group) > 1
            ),
        )
        for begin, end in zip(times["batch"], times["synchronized"], strict=True)
    ]


def gradients_among(calls: Iterable[Call]) -> list[Call]:
    """All of a step's calls but its broadcasts, which bring buffers, or sums from the one rank that
    has them: at most as many bytes as there are gradients. With more, every rank's gradients are
    among them, and they count."""
    calls = [call for call in calls if call.operation != "barrier"]
    broadcasts = sum(call.nbytes for call in calls if call.operation == "broadcast")
    buffers = sum(buffer.nbytes for buffer in Net().buffers())
    if broadcasts > sum(trained_and_frozen()[0]) + buffers + PADDING * len(calls):
        return calls
    return [call for call in calls if call.operation != "broadcast"]


def travels_once(run: Run) -> Problem | None:
    sizes, frozen = trained_and_frozen()
    tied = max(sizes)
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        for step, (_, calls) in enumerate(steps_of(rank), 1):
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
    sizes, _ = trained_and_frozen()
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        bucket = run.inputs["one model"][rank.rank]["bucket_bytes"]
        # Full buckets: a gradient that does not fit opens the next bucket, so two neighbours
        # together hold more than bucket_bytes.
        most = 2 * sum(sizes) // bucket + 1
        largest = max(bucket, *sizes) + PADDING
        for step, (_, calls) in enumerate(steps_of(rank), 1):
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
                return Problem(
                    f"in step {step}, rank {rank.rank} sent a message of {size} bytes; "
                    f"bucket_bytes is {bucket}, and the largest parameter has {max(sizes)} bytes",
                    "one_bucket",
                )
    return None


def overlaps(run: Run) -> Problem | None:
    sizes, _ = trained_and_frozen()
    ready = sum(sizes) - max(sizes)
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        for step, (last, calls) in enumerate(steps_of(rank), 1):
            if last is None:
                return Problem(
                    f"in step {step}, rank {rank.rank}'s module, the one you were given, got no "
                    "gradients",
                    "unchanged",
                )
            # A tied weight twice and a frozen layer are fewer: what left early may be for show.
            if (carried := sum(call.nbytes for call in calls)) >= 2 * sum(sizes):
                return Problem(
                    f"in step {step}, rank {rank.rank} sent {carried} bytes for its gradients, "
                    f"which have {sum(sizes)}",
                    "bytes",
                )
            early = [call for call in calls if call.issued < last]
            if not early:
                return Problem(
                    f"in step {step}, rank {rank.rank} had sent nothing yet when backward came to "
                    "the last parameter",
                    "after_backward",
                )
            # The largest parameter, the embedding, gets its gradient last. The bucket before it may
            # be open until then.
            if (sent := sum(call.nbytes for call in early)) < ready / 2:
                return Problem(
                    f"in step {step}, rank {rank.rank} had sent {sent} bytes when backward came to "
                    f"the last parameter; gradients of {ready} bytes were ready",
                    "after_backward",
                )
            if waited := [call for call in early if call.waited and call.waited < last]:
                return Problem(
                    f"in step {step}, rank {rank.rank} waited for {len(waited)} messages while "
                    "backward still had gradients to compute",
                    "waiting",
                )
    return None


def as_little_as_a_ring(run: Run) -> Problem | CannotJudge | None:
    """Over the whole launch: rank 0's state is sent once, then the gradients of each step."""
    gradients = STEPS * all_reduce_bytes(run.world_size, sum(trained_and_frozen()[0]))
    # By its names, where a tied weight stands twice: that is how many send it, once in a run
    state = sum(t.numel() * t.element_size() for t in Net().state_dict().values())
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        # A rank that sends too little did not save traffic: it skipped gradients.
        if rank.traffic is not None and rank.traffic.sent_bytes < gradients / 2:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{sent}: gradients cannot be among them", "alone")
    return over_bytes(
        run.stages["one model"],
        [gradients + broadcast_bytes(run.world_size, state)] * run.world_size,
        "wire",
    )
