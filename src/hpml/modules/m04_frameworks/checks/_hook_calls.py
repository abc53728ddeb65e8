"""What exercise gradient_hooks' ranks send for their gradients: how much, and when."""

from dataclasses import dataclass

from hpml.checks.budget import HEADERS, SETUP_PER_PEER, no_network
from hpml.checks.contract import CannotJudge, Problem, Run, fault
from hpml.modules.m04_frameworks.checks._hooked_training import (
    MOMENTS,
    PLACES,
    STEPS,
    frozen_bytes,
    ready_at,
    sizes,
)
from hpml.predict.collectives import all_reduce_bytes
from hpml.ranks.evidence import Call, RankEvidence

PADDING = 64  # bytes by which a message may be rounded up
PER_CALL = 1_600  # bytes to each other rank besides payload; 1.4 kB were seen
SLACK = 1.05
LATE = "one rank is late"
TIED = "embed.weight"


@dataclass(frozen=True)
class Step:
    """When backward came to each of PLACES, and the calls that carried gradients to other ranks,
    from the step's beginning to the next one's: what leaves after `finish` is the step's too. Times
    as in `Call`."""

    reached: dict[str, float]
    calls: list[Call]

    @property
    def carried(self) -> int:
        return sum(call.nbytes for call in self.calls)


def steps_of(rank: RankEvidence) -> list[Step]:
    """Raises ValueError where the rank's requests are not those of whole steps."""
    asked = [each for each in rank.asked if not each.refused]
    if not asked or [each.request for each in asked] != [*MOMENTS] * (len(asked) // len(MOMENTS)):
        raise ValueError(f"rank {rank.rank} asked {len(asked)} times")
    found = []
    begun = [each.at for each in asked[:: len(MOMENTS)]]
    for number, start in enumerate(range(0, len(asked), len(MOMENTS))):
        times = {each.request: each.at for each in asked[start : start + len(MOMENTS)]}
        end = begun[number + 1] if number + 1 < len(begun) else float("inf")
        calls = [
            call
            for call in rank.calls
            if times["batch"] <= call.issued < end
            and len(call.group) > 1
            and call.operation != "barrier"
        ]
        found.append(Step({place: times[place] for place in PLACES}, calls))
    return found


def travels_once(run: Run) -> Problem | None:
    due, tied, frozen = sum(sizes().values()), sizes()[TIED], frozen_bytes()
    for rank in run.stages["train"].ranks if run.world_size > 1 else ():
        for number, step in enumerate(steps_of(rank), 1):
            slack = PADDING * len(step.calls)
            more = step.carried - due
            seen = (
                f"in step {number}, rank {rank.rank} put {step.carried} bytes into its collectives"
            )
            if more < 0 or more > slack:
                hint = "bytes" if step.calls else "silent" if number == 1 else "kept"
                if 0 <= more - tied <= slack:
                    seen, hint = f"{seen}; the tied weight has {tied} bytes", "tied"
                elif 0 <= more - frozen <= slack:
                    seen, hint = f"{seen}; the frozen layer has {frozen} bytes", "frozen"
                return Problem(seen, hint, f"{due}, each trained parameter's gradient once")
    return None


def as_little_as_a_ring(run: Run) -> Problem | CannotJudge | None:
    """Over the whole launch, by the kernel's count."""
    evidence, peers = run.stages["train"], run.world_size - 1
    if peers == 0:
        return None
    if missing := no_network(evidence):
        return missing
    due = STEPS * all_reduce_bytes(run.world_size, sum(sizes().values()))
    most = HEADERS * SLACK * due + (SETUP_PER_PEER + PER_CALL * STEPS * len(sizes())) * peers
    found = travels_once(run)
    known = found.hint if found and found.hint != "bytes" else None
    for rank in evidence.ranks:
        sent = rank.traffic.sent_bytes
        seen = f"rank {rank.rank} sent {sent / 1e3:.0f} kB over its link, by the kernel's count"
        # A rank that sends too little did not save traffic: it skipped gradients.
        if sent < due / 2:
            return Problem(f"{seen}: too little for all steps' gradients", known or "alone")
        if sent > most:
            enough = f"{due / 1e3:.0f} kB are enough, {most / 1e3:.0f} kB with what TCP adds"
            return Problem(f"{seen}; {enough}", known or "wire")
    return None


def leave_early(run: Run, stage: str = "train") -> Problem | None:
    """Whether what backward had computed when it came to a place had left by then, and was no more
    than each gradient once: what leaves besides may be for show."""
    due = sum(sizes().values())
    for rank in run.stages[stage].ranks if run.world_size > 1 else ():
        for number, step in enumerate(steps_of(rank), 1):
            of = f"in step {number}, rank {rank.rank}"
            if step.carried > due + frozen_bytes() + PADDING * len(step.calls):
                seen = f"{of} put {step.carried} bytes into its collectives"
                return Problem(seen, "bytes", f"{due}, each trained parameter's gradient once")
            for place, ready in ready_at().items():
                early = (call for call in step.calls if call.issued < step.reached[place])
                if (sent := sum(call.nbytes for call in early)) < ready:
                    return Problem(
                        f"{of} had sent {sent} bytes when backward came to `{place}`; gradients "
                        f"of {ready} bytes were ready",
                        "after_backward",
                    )
    return None


def nobody_waits(run: Run) -> Problem | None:
    """Whether the others came to backward's end while one rank's gradients were not there yet."""
    if LATE not in run.stages:
        return None
    if found := fault(run.stages[LATE]):
        hint = "waiting" if found.hint in ("hang", "limit") else found.hint
        late = run.inputs[LATE][0]["late"]
        seen = f"rank {late} was held up in its backward, and the others did not go on without it"
        return Problem(f"{seen}: {found.message}", hint)
    return waits_in_backward(run) or leave_early(run, LATE)


def waits_in_backward(run: Run) -> Problem | None:
    """A wait may have a deadline, and end by itself when a rank is late."""
    for rank in run.stages["train"].ranks:
        for number, step in enumerate(steps_of(rank), 1):
            last = step.reached[PLACES[-1]]
            if waited := [call for call in step.calls if call.waited and call.waited < last]:
                return Problem(
                    f"in step {number}, rank {rank.rank} waited for {len(waited)} messages while "
                    "backward still had gradients to compute",
                    "waiting",
                )
    return None
