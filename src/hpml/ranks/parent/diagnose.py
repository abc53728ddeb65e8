"""From the ranks' ledgers to one sentence about what went wrong.

`Agreement` sees each call; where it finds a difference, the launch asks `mismatch`. Where nothing
has moved for a while it asks `hang`, or `endless_loop`; once a rank has ended without returning,
`fault` or `out_of_memory`; where ranks printed too much, `flood`; when time is up, `limit`. These
are pure functions of the logs.

`lines_of` names the code whose lines a sentence has: "of your answer".
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpml.ranks import memory_limit
from hpml.ranks.evidence import ANYONE, MEETING, Call, Cause, Diagnosis, Kind, Raised
from hpml.ranks.parent import groups, meetings, messages, phrases, words
from hpml.ranks.parent.ledger import MAX_OUTPUT, MAX_PRINTED, RankLog

# Operations to which each rank may bring its own shape and dtype
_DATA_MAY_DIFFER = {"barrier", "all_to_all", "all_to_all_single", "scatter"} | {
    "allgather",  # Horovod's: the first dimension may be each rank's own
    "grouped_allgather",
    "alltoall",
    "join",
}
# Parts of what Gloo and Horovod raise when another rank is gone
_CONSEQUENCES = (
    "connection closed by peer",
    "connection reset",
    "broken pipe",
    "gloo",
    "timed out",
    "horovod has been shut down",
)


class Agreement:
    """The ranks' calls by their place in each group: a cheap first check at every call."""

    def __init__(self) -> None:
        self._first: dict[tuple, Call] = {}
        self._messages = messages.Meetings()

    def broken_by(self, rank: int, call: Call) -> bool:
        """Whether `rank`'s `call` differs from the first one that a rank made at its place; of a
        message, whether it does not fit where it arrives."""
        if call.peer is not None:
            met = self._messages.add(rank, call)
            return met is not None and not messages.fits(*met)
        if call.operation in MEETING:
            return False
        first = self._first.setdefault((call.group, call.tensor, call.sequence), call)
        return any(
            getattr(first, what) != getattr(call, what)
            for what in ("operation", "shape", "dtype", "detail")
        )


def mismatch(logs: Sequence[RankLog], lines_of: str) -> Diagnosis | None:
    """A message that does not fit where it arrives; or ranks of one group whose k-th calls are not
    the same collective on the same kind of data."""
    if found := _message_mismatch(logs, lines_of):
        return found
    by_place: dict[tuple, dict[int, Call]] = defaultdict(dict)
    for log in logs:
        for call in log.calls:
            if call.peer is None and call.operation not in MEETING:
                by_place[call.group, call.tensor, call.sequence][log.rank] = call
    for (group, _, _), calls in sorted(by_place.items(), key=lambda item: item[0][2]):
        if len(calls) < 2 or any(rank not in group for rank in calls):
            continue
        operations = {call.operation for call in calls.values()}
        if len(operations) > 1:
            sentence = "ranks are in different collectives: " + _listing(
                calls, lambda call: f"in {phrases.named(call, lines_of)}"
            )
            return Diagnosis("mismatch", sentence, _odd_ones(calls, lambda c: c.operation))
        operation = operations.pop()
        for what, key in (
            ("shapes", lambda c: c.shape),
            ("dtypes", lambda c: c.dtype),
            ("operations or roots", lambda c: c.detail),
        ):
            if what != "operations or roots" and operation in _DATA_MAY_DIFFER:
                continue
            if len({key(call) for call in calls.values()}) > 1:
                named = phrases.operation(next(iter(calls.values())))
                sentence = f"ranks bring different {what} to {named}: " + _listing(
                    calls, lambda call: f"{phrases.brings(call)} ({phrases.place(call, lines_of)})"
                )
                return Diagnosis("mismatch", sentence, _odd_ones(calls, key))
    return None


def _message_mismatch(logs: Sequence[RankLog], lines_of: str) -> Diagnosis | None:
    found = messages.first_misfit(logs)
    if found is None:
        return None
    place, sent, received = found
    sentence = (
        f"a message does not fit where it arrives: rank {place.sender} sends "
        f"{phrases.tensor(sent)} to rank {place.receiver} ({phrases.place(sent, lines_of)}), "
        f"which receives into {phrases.tensor(received)} ({phrases.place(received, lines_of)})"
    )
    ranks = tuple(sorted({place.sender, place.receiver}))
    return Diagnosis("mismatch", sentence, ranks, cause="what arrives")


def can_complete(log: RankLog, logs: Sequence[RankLog], call: Call | None = None) -> bool:
    """Whether every rank that `call` needs has made its part, so that only the network is left.

    `call` is by default the one that `log`'s rank waits for.
    """
    call = call or log.pending
    if call is None:
        return False
    if call.meets is not None:
        return meetings.can_meet(call, logs)
    by_rank = {other.rank: other for other in logs}
    if call.peer is not None:
        return _has_its_other_side(log.rank, call, by_rank)
    return all(
        any(_is_same(c, call) for c in by_rank[rank].calls) or _has_joined(by_rank[rank])
        for rank in call.group
        if rank in by_rank
    )


def _has_its_other_side(rank: int, call: Call, by_rank: dict[int, RankLog]) -> bool:
    """Whether what `rank` sends will be received, or what it receives has been sent.

    Messages between two ranks match in order; those to a rank that also receives from any source
    match by count.
    """
    peer, sending = call.peer, call.operation == "send"
    if peer not in by_rank and (sending or peer != ANYONE):
        return False  # a rank that does not exist
    receiver = peer if sending and peer is not None else rank
    messages_there = [
        (other, c)
        for other, log in by_rank.items()
        for c in log.calls
        if c.peer is not None and c.tag == call.tag
    ]
    received = [c for other, c in messages_there if other == receiver and c.operation == "recv"]
    sent = [
        (other, c) for other, c in messages_there if c.operation == "send" and c.peer == receiver
    ]
    if any(c.peer == ANYONE for c in received):
        if sending:
            return len(received) > sum(c.finished is not None for _, c in sent)
        if peer == ANYONE:
            return len(sent) > received.index(call)
        return any(c.finished is None for other, c in sent if other == peer)
    if sending:
        return sum(c.peer == rank for c in received) >= call.sequence
    return sum(other == peer for other, _ in sent) >= call.sequence


def _is_same(one: Call, other: Call) -> bool:
    """Whether they are two ranks' parts of one collective."""
    return all(
        getattr(one, what) == getattr(other, what)
        for what in ("sequence", "group", "operation", "tensor")
    )


def _has_joined(log: RankLog) -> bool:
    """Whether the rank takes part in whatever the others do: it waits in Horovod's join."""
    pending = log.pending
    return pending is not None and pending.operation == "join"


def hang(logs: Sequence[RankLog], lines_of: str) -> Diagnosis:
    """Nothing moves: which ranks wait for what, and which will never come.

    `log.line` is the last known line of a rank that is in no collective.
    """
    waiting = [log for log in logs if log.end is None and log.waiting is not None]
    elsewhere = [log for log in logs if log.end is None and log.waiting is None]
    asking = [log for log in elsewhere if log.asking]
    grouping = [log for log in elsewhere if log.grouping]
    elsewhere = [log for log in elsewhere if not log.asking and not log.grouping]
    left = [log for log in logs if log.end is not None]
    lost = [found for log in waiting if (found := messages.never_waited_for(log, logs))]
    apart = meetings.apart(logs)
    waits = meetings.asked(logs, lines_of) if apart else phrases.waits(waiting, lines_of)
    parts = [*_lost(lost, lines_of), *waits, *groups.made(grouping, lines_of)]
    parts += phrases.asks(asking, lines_of)
    parts += [*phrases.stuck(elsewhere, lines_of), *phrases.left(left, waiting, lines_of)]
    if not apart and _groups_differ(logs):
        for group, ranks in words.by(
            [log for log in logs if log.calls], lambda r: r.calls[-1].group
        ):
            members = words.ranks(group) if len(group) < len(logs) else "all ranks"
            parts.append(f"the group of {words.ranks(ranks)}'s last call is {members}")
    if lost:
        ranks = tuple(sorted({rank for rank, _ in lost}))
        return Diagnosis("hang", "; ".join(parts), ranks, cause="never waited for")
    parts += groups.broken(logs)
    causes = groups.missing(logs) or [log.rank for log in (*elsewhere, *left)]
    sends = {log.pending.operation for log in waiting if log.pending is not None}
    if not causes and sends == {"send"}:
        parts.append("everybody sends and nobody receives")
    elif not causes and sends and sends == {"recv"}:
        parts.append("everybody receives and nobody sends")
    cause: Cause = "apart" if apart else "one rank" if len(logs) == 1 else ""
    if apart or not causes:
        causes = [log.rank for log in (grouping or waiting or asking)]
    return Diagnosis("hang", "; ".join(parts), tuple(causes), cause=cause)


def all_meet(logs: Sequence[RankLog]) -> bool:
    """Whether every rank waits where it is to meet the others."""
    return all(log.pending is not None and log.pending.operation in MEETING for log in logs)


def _lost(lost: Sequence[tuple[int, Call]], lines_of: str) -> list[str]:
    """The first of the calls that nobody waited for, and how many more there are."""
    if not lost:
        return []
    rank, call = min(lost, key=lambda each: each[1].issued)
    operation = "isend" if call.operation == "send" else "irecv"
    more = f", and {len(lost) - 1} more" if lost[1:] else ""
    where = f"({phrases.place(call, lines_of)})"
    return [f"rank {rank}'s {operation} {call.detail} {where} was never waited for{more}"]


def endless_loop(logs: Sequence[RankLog], looping: Sequence[RankLog], lines_of: str) -> Diagnosis:
    """Ranks found in a loop in which nothing changes."""
    parts = []
    for line, ranks in words.by(looping, lambda log: log.line):
        parts.append(
            f"{words.ranks(ranks)} {words.form(ranks, 'loops', 'loop')} for ever"
            f"{words.at_line(line, lines_of)}, where nothing changes any more"
        )
    others = [log for log in logs if log.end is None and log not in looping]
    parts += phrases.waits([log for log in others if log.waiting is not None], lines_of)
    ranks = tuple(log.rank for log in looping)
    return Diagnosis("hang", "; ".join(parts), ranks, cause="endless loop")


def limit(logs: Sequence[RankLog], lines_of: str, seconds: float) -> Diagnosis:
    """The time is up and ranks are still at work; those that print all the time, if there are."""
    at_work = [log for log in logs if log.end is None]
    if flooded := flood(at_work, lines_of, MAX_OUTPUT):
        return flooded
    waiting = [log for log in logs if log.end is None and log.waiting is not None]
    working = [log for log in logs if log.end is None and log.waiting is None]
    grouping = [log for log in working if log.grouping]
    working = [log for log in working if not log.grouping]
    parts = groups.made(grouping, lines_of)
    for (line, call), ranks in words.by(working, lambda log: (log.line, log.open)):
        where = words.at_line(line, lines_of)
        still = f", its {phrases.named(call, lines_of)} not complete" if call else ""
        parts.append(
            f"{words.ranks(ranks)} {words.form(ranks, 'was', 'were')} still at work{where}{still}"
        )
    parts += phrases.waits(waiting, lines_of)
    if waiting or grouping:  # else nobody misses those who have left
        parts += phrases.left([log for log in logs if log.end is not None], waiting, lines_of)
    causes = tuple(log.rank for log in (working or grouping or waiting))
    return Diagnosis("limit", f"not done after {seconds:g} s: " + "; ".join(parts), causes)


def flood(logs: Sequence[RankLog], lines_of: str, most: int = MAX_PRINTED) -> Diagnosis | None:
    """Ranks that print without end: more than `most` bytes so far."""
    flooding = [log for log in logs if log.printed > most]
    if not flooding:
        return None
    parts = [
        f"{words.ranks(ranks)} printed more than {most // 2**20} MiB"
        + words.in_line(line, lines_of)
        for line, ranks in words.by(flooding, lambda log: log.line)
    ]
    sentence = f"{'; '.join(parts)}: a flood, which is cut and ends the launch"
    return Diagnosis("flood", sentence, tuple(log.rank for log in flooding))


def lost_others(logs: Sequence[RankLog]) -> bool:
    """Whether ranks have ended badly, and all of these because others are gone."""
    ended = [log for log in logs if log.end not in (None, "returned")]
    return bool(ended) and all(log.end == "raised" and _is_consequence(log) for log in ended)


def fault(logs: Sequence[RankLog], lines_of: str) -> Diagnosis | None:
    """Why ranks ended without returning, the cause first; None if all returned."""
    ended = [log for log in logs if log.end not in (None, "returned")]
    if not ended:
        return None
    if any(log.end == "killed" for log in ended) and (found := _message_mismatch(logs, lines_of)):
        return found  # Gloo ends the process then
    causes = [log for log in ended if log.end in ("exited", "killed")]
    causes = causes or [log for log in ended if not _is_consequence(log)] or ended
    first = min(causes, key=lambda log: log.ended_at or 0.0)
    # The first one's way comes first
    alike: dict[str, list[RankLog]] = {phrases.ended(first, lines_of): []}
    for log in causes:
        alike.setdefault(phrases.ended(log, lines_of), []).append(log)
    parts = [
        f"{words.ranks([log.rank for log in those])} "
        f"{phrases.ended(those[0], lines_of, many=len(those) > 1)}"
        for those in alike.values()
    ]
    same = alike[phrases.ended(first, lines_of)]
    still = [log for log in logs if log.end is None]
    if _is_consequence(first):  # a rank that returned may be the cause
        parts += phrases.left([log for log in logs if log.end == "returned"], causes, lines_of)
    parts += phrases.waits([log for log in still if log.waiting is not None], lines_of)
    victims = [log for log in ended if log not in causes]
    for call, ranks in words.by(victims, lambda log: phrases.last_call(log, lines_of)):
        parts.append(f"{words.ranks(ranks)} lost the connection in {call}")
    kind: Kind = "raised"
    if first.refused is not None:
        kind = "refused"
    elif first.end == "exited" or first.end == "killed":
        kind = first.end
    aborted: Cause = "aborted" if kind == "killed" and first.signal == "SIGABRT" else ""
    return Diagnosis(kind, "; ".join(parts), tuple(log.rank for log in same), cause=aborted)


def out_of_memory(
    logs: Sequence[RankLog], lines_of: str, allowed: int, pages: Sequence[Mapping[str, Any] | None]
) -> Diagnosis | None:
    """Ranks that wanted more memory than `allowed`, in bytes, and who held what; or None.

    `pages` are what `hpml.ranks.rank.live.Page.read` has returned, by rank.
    """
    by_rank = dict(enumerate(pages))
    out = [log for log in logs if log.out_of_memory or (log.raised and _no_memory(log.raised))]
    if not out:
        return None
    parts = []
    for (where, held), ranks in words.by(
        out, lambda log: phrases.ran_out(log, by_rank.get(log.rank), lines_of)
    ):
        its, it = words.form(ranks, ("its", "it"), ("their", "each of them"))
        ran_out = f"{words.ranks(ranks)} ran out of {its} {memory_limit.words(allowed)}{where}"
        parts.append(f"{ran_out}: {it} held {held}" if held else ran_out)
    others = [log for log in logs if log not in out and by_rank.get(log.rank)]
    for held, ranks in words.by(others, lambda log: phrases.held(by_rank[log.rank] or {})):
        parts.append(f"{words.ranks(ranks)} {words.form(ranks, 'held', 'each held')} {held}")
    return Diagnosis("memory", "; ".join(parts), tuple(log.rank for log in out))


def _no_memory(raised: Raised) -> bool:
    return memory_limit.was_refused(raised.kind, raised.message)


def _is_consequence(log: RankLog) -> bool:
    text = log.raised.message.lower() if log.raised else ""
    return any(sign in text for sign in _CONSEQUENCES)


def _groups_differ(logs: Sequence[RankLog]) -> bool:
    return len({log.calls[-1].group for log in logs if log.calls}) > 1


def _listing(calls: Mapping[int, Call], tell: Callable[[Call], str]) -> str:
    return words.listing(words.alike({rank: tell(calls[rank]) for rank in sorted(calls)}))


def _odd_ones(calls: dict[int, Call], key: Callable[[Call], object]) -> tuple[int, ...]:
    """The ranks that differ from most of the others; all of them where there is no majority."""
    groups = [ranks for _, ranks in words.alike({rank: key(c) for rank, c in calls.items()})]
    largest = max(groups, key=len)
    if sum(len(ranks) == len(largest) for ranks in groups) > 1:
        return tuple(sorted(calls))
    return tuple(sorted(set(calls) - set(largest)))
