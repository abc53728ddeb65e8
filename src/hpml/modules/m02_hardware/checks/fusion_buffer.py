"""Exercise fusion_buffer: average many small gradients over the ranks in few large messages.

`average(gradients, buffer_bytes)`, in place, with one all-reduce for each buffer. Which gradients
share one, and when it leaves, follows from the rule of the exercise's text
(`_made_gradients.messages`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from hpml.checks.budget import over_bytes
from hpml.checks.compare import difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ALL_ELSE, COALESCED, DATA_PARALLEL
from hpml.checks.reconcile import PER_CALL
from hpml.modules.m02_hardware.checks._fused_picture import fused_picture
from hpml.modules.m02_hardware.checks._made_gradients import (
    CASES,
    Message,
    drive,
    expect,
    inputs,
    inside,
    messages,
    serve,
)
from hpml.predict.collectives import all_reduce_bytes
from hpml.ranks.evidence import Call, RankEvidence


def averaged(run: Run, case: int) -> Problem | None:
    """Whether each gradient of a case is the mean, and the memory around it is as it was."""
    for rank, value in enumerate(run.values):
        right = run.expected[rank][case]
        got = value[case] if isinstance(value, list) and len(value) == len(CASES) else None
        if not isinstance(got, list):
            raise ValueError(f"rank {rank} went through other cases")  # not judged
        if len(got) != len(right):
            seen = f"{CASES[case]}, rank {rank}: {len(got)} of {len(right)} gradients were taken"
            return Problem(seen, "taken")
        wrong = [n for n in range(len(right)) if difference(got[n], right[n])]
        if wrong:
            return diagnosed(run, case, rank, wrong)
    return None


def diagnosed(run: Run, case: int, rank: int, wrong: list[int]) -> Problem:
    """The problem with the first wrong gradient of a rank, and the usual mistake that explains
    it."""
    number, before = wrong[0], run.inputs[rank]["gradients"][case]
    found = difference(run.values[rank][case][number], run.expected[rank][case][number])
    (own, layout), after = before[number], run.values[rank][case][number]
    seen = f"{CASES[case]}, rank {rank}: gradient {number} of {len(before)} {found}"
    if kind_of(after) != kind_of(own):
        return Problem(seen, "unpack", found.expected)
    same = [n for n in wrong if not difference(run.values[rank][case][n], before[n][0])]
    bases = [each["gradients"][case][number][0] for each in run.inputs]
    total = torch.stack(bases).sum(0)
    if not difference(inside(after, layout), inside(total / run.world_size, layout)):
        hint = "strides"
    elif not difference(inside(after, layout), inside(total, layout)):
        hint = "sum"
    elif is_multiple(inside(after, layout), inside(total, layout)):
        hint = "divisor"
    elif len(same) < len(wrong):
        hint = "strides" if layout != "whole" else "unpack"
    elif not run.evidence.ranks[rank].calls:
        hint = "alone"
    elif all(before[n][1] != "whole" for n in wrong):
        hint = "strides"
    elif wrong == [n for n, each in enumerate(before) if each[1] == "whole" and each[0].numel()]:
        hint = "not_back"  # contiguous ones got other memory
    elif len(same) < sum(inside(*each).numel() > 0 for each in before):
        hint = "last_buffer"
    else:
        hint = "not_back"
    if not difference(after, own):
        seen = f"{CASES[case]}, rank {rank}: gradient {number} of {len(before)} has not changed"
    return Problem(seen, hint, found.expected)


def is_multiple(got: torch.Tensor, total: torch.Tensor) -> bool:
    """Whether all elements of a sum were multiplied by the same positive number."""
    factors = got.double()[total != 0] / total.double()[total != 0]
    alike = factors.numel() > 1 and (factors - factors[0]).abs().max() <= 0.01 * factors[0]
    return bool(alike)


def kind_of(tensor: object) -> object:
    return (tensor.shape, tensor.dtype) if isinstance(tensor, torch.Tensor) else None


def one_dtype(run: Run) -> Problem | None:
    return averaged(run, 0)


def every_other_kind(run: Run) -> Problem | None:
    problems = (averaged(run, case) for case in range(1, len(CASES)))
    return next((problem for problem in problems if problem), None)


@dataclass(frozen=True)
class Taken:
    """What a rank did in one case: when it asked for each gradient (last of all for the one that
    is not there), when it got it, and its messages to other ranks."""

    case: int
    asked: list[float]
    got: list[float]
    calls: list[Call]


def cases_of(rank: RankEvidence) -> Iterator[Taken]:
    """Raises ValueError where a rank has not gone through all cases: then nothing is judged."""
    served = [asked for asked in rank.asked if not asked.refused]
    ends = [n for n, asked in enumerate(served) if asked.request == "averaged"]
    if len(ends) != len(CASES):
        raise ValueError(f"rank {rank.rank} went through {len(ends)} cases")
    for case, (before, end) in enumerate(pairwise([-1, *ends])):
        begin = served[before].answered if before >= 0 else 0.0
        calls = [
            call
            for call in rank.calls
            if begin <= call.issued <= served[end].at
            and len(call.group) > 1
            and call.operation != "barrier"
        ]
        asked = served[before + 1 : end]
        yield Taken(case, [one.at for one in asked], [one.answered for one in asked], calls)


def a_message_for_each_buffer(run: Run) -> Problem | None:
    for rank in run.evidence.ranks if run.world_size > 1 else ():
        for taken in cases_of(rank):
            if problem := packed_otherwise(run, rank.rank, taken):
                return problem
    return None


def packed_otherwise(run: Run, rank: int, taken: Taken) -> Problem | None:
    """Whether a rank's messages in one case are other ones than the rule's, and the usual mistake
    that explains them."""
    given = run.inputs[rank]["gradients"][taken.case]
    buffer_bytes = run.inputs[rank]["buffer_bytes"]
    sent = by_dtype((call.dtype, call.nbytes) for call in taken.calls)
    wanted = sizes(messages(given, buffer_bytes))
    if sent == wanted:
        return None
    of = f"{CASES[taken.case]}, rank {rank}: "
    counts = " and ".join(
        f"{len(each)} message{'s' * (len(each) > 1)} of {name}"
        for name, each in sorted(sent.items())
    )
    seen = f"{of}{counts or 'no message'} for {len(given)} gradients"
    if not sent:
        return Problem(seen, "alone", in_words(wanted))
    if joined := [call.operation for call in taken.calls if "coalesced" in call.operation]:
        return Problem(f"{of}{joined[0]} was called: the packing is yours to write", "messages")
    if any(not call.nbytes for call in taken.calls):
        return Problem(f"{of}a message with nothing in it was sent", "empty")
    nbytes = {name: sum(each) for name, each in sent.items()}
    for name in {**wanted, **nbytes}:
        carried, own = nbytes.get(name, 0), sum(wanted.get(name, []))
        if carried != own:
            text = f"{of}{carried} bytes were sent as {name}; the gradients of {name} have {own}"
            but_the_last = sum(wanted.get(name, [])[:-1])
            hint = "last_buffer" if carried == but_the_last else "bytes"
            return Problem(text, "dtypes" if set(nbytes) != set(wanted) else hint)
    if sum(map(len, sent.values())) == sum(inside(*each).numel() > 0 for each in given):
        return Problem(seen, "messages", in_words(wanted))
    largest = max([buffer_bytes, *(inside(*each).nbytes for each in given)])
    if max(call.nbytes for call in taken.calls) > largest:
        return Problem(f"{seen}, the largest with more bytes than a buffer", "one_buffer")
    mistakes = {
        "exact": "full_leaves",
        "equal": "equal_is_large",
        "too_large": "large_closes",
        "groups": "dtype_closes",
    }
    for hint, rule in mistakes.items():
        if sent == sizes(messages(given, buffer_bytes, **{rule: True})):
            return Problem(seen, hint, in_words(wanted))
    return Problem(seen, "packing", in_words(wanted))


def by_dtype(sent: Iterator[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, nbytes in sent:
        found.setdefault(name, []).append(nbytes)
    return found


def sizes(wanted: dict) -> dict[str, list[int]]:
    """Bytes of each message, by dtype."""
    return {name: [message.nbytes for message in of_dtype] for name, of_dtype in wanted.items()}


def in_words(sent: dict[str, list[int]]) -> str:
    """'3 of float32 (16000, 15996 and 800 bytes)', for each dtype."""
    parts = [
        f"{len(each)} of {name} ({', '.join(map(str, each))} bytes)"
        for name, each in sorted(sent.items())
    ]
    return "; ".join(parts) or "none"


def leaves_at_once(run: Run) -> Problem | None:
    for rank in run.evidence.ranks if run.world_size > 1 else ():
        for taken in cases_of(rank):
            if problem := packed_otherwise(run, rank.rank, taken) or left_late(run, rank, taken):
                return problem
    return None


def left_late(run: Run, rank: RankEvidence, taken: Taken) -> Problem | None:
    """Whether a message left late, or was waited for while there was still something to send."""
    of = f"{CASES[taken.case]}, rank {rank.rank}: "
    given = run.inputs[rank.rank]["gradients"][taken.case]
    rule = messages(given, run.inputs[rank.rank]["buffer_bytes"])
    last = max((call.issued for call in taken.calls), default=0.0)
    waited = [call for call in taken.calls if call.waited is not None and call.waited < last]
    late: list[Message] = []
    for name, of_dtype in rule.items():
        calls = [call for call in taken.calls if call.dtype == name]
        for message, call in zip(of_dtype, calls, strict=True):
            if message.leaves_with is None:
                continue
            # A thread that sends may take a moment: one gradient more is not a delay, unless that
            # came after a pause
            later = taken.asked[message.leaves_with + 2 :]
            if message.waits_for_none:
                later = taken.got[message.leaves_with + 1 :]
            if later and call.issued > later[0]:
                late.append(message)
    if late:
        room = run.inputs[rank.rank]["buffer_bytes"]
        hint = "late"
        if all(message.waits_for_none for message in late):
            hint = "full" if any(message.nbytes == room for message in late) else "large_late"
        return Problem(
            f"{of}{len(late)} of {len(taken.calls)} messages left later than they could: more "
            "gradients were taken in between",
            hint,
        )
    if waited:
        return Problem(
            f"{of}{len(waited)} of {len(taken.calls)} messages were waited for before all had left",
            "waiting",
        )
    return None


def as_little_as_a_ring(run: Run) -> Problem | CannotJudge | None:
    if run.world_size == 1:
        return None
    given = [each for case in run.inputs[0]["gradients"] for each in case]
    least = all_reduce_bytes(run.world_size, sum(inside(*each).nbytes for each in given))
    for rank in run.evidence.ranks:
        if rank.traffic is not None and rank.traffic.sent_bytes < least / 2:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{sent}: too little for all gradients", "alone")
    # Short messages and acknowledgements, of each message to each of the others
    rule = [messages(case, run.inputs[0]["buffer_bytes"]) for case in run.inputs[0]["gradients"]]
    number = sum(len(of_dtype) for case in rule for of_dtype in case.values())
    most = least + PER_CALL * number * (run.world_size - 1)
    return over_bytes(run.evidence, [most] * run.world_size, "wire")


CHECK = Check(
    id="fusion_buffer",
    title="Few large messages",
    names=("average",),
    picture=fused_picture,
    to_write="the buffers, the messages and the way back",
    allowed=ALL_ELSE,
    not_allowed=(DATA_PARALLEL, COALESCED),
    inputs=inputs,
    drive=drive,
    expect=expect,
    serve=serve,
    link="1gbit",
    claims=(
        Claim("every gradient becomes the mean over the ranks, in place", 3, one_dtype),
        Claim("so do strided, empty and large ones, of three dtypes", 2, every_other_kind),
        Claim(
            "each full buffer is one message, and so is each last one",
            3,
            a_message_for_each_buffer,
            of_calls=True,
        ),
        Claim(
            "a full buffer leaves at once, and nothing is waited for before all have left",
            3,
            leaves_at_once,
            of_calls=True,
        ),
        Claim("no rank sends more than a ring needs", 1, as_little_as_a_ring),
    ),
    hints={
        "start": "What do you have to remember of a gradient between the moment when it goes into "
        "a buffer and the moment when the mean comes back? Write it for one dtype first: a list of "
        "the gradients that wait, and their bytes. torch.cat makes the buffer, Tensor.split cuts "
        "it up again.",
        "taken": "gradients is an iterator: each gradient exists once backward has made it. Take "
        "all of them, once, in a for loop.",
        "alone": "These are the rank's own gradients: nothing has come from the others. One "
        "dist.all_reduce for each buffer brings the sum.",
        "sum": "all_reduce adds up. The gradient of the whole batch is the mean of the ranks' "
        "gradients: divide by the world size, once.",
        "divisor": "That is the sum over the ranks, divided by another number than the ranks are. "
        "dist.get_world_size() is how many there are.",
        "not_back": "The buffer is a copy. The optimizer reads the gradients that you were given: "
        "who copies the means back into them? copy_ does. `gradient.data = mean` does not: it "
        "gives the tensor other memory, and leaves the gradient's own as it was.",
        "last_buffer": "Some gradients came back and the last ones did not. When the gradients "
        "end, some buffers are not full. Who sends them?",
        "unpack": "A buffer is cut up as it was packed: the same gradients in the same order, each "
        "with as many elements as it had. Follow one gradient to its place and back.",
        "strides": "A gradient may lie in memory with gaps, or with its rows as columns. flatten, "
        "reshape and contiguous make a copy then, and writing to a copy changes nothing. "
        "Give the mean the gradient's shape, and let the gradient's own copy_ take it: that "
        "writes through the strides.",
        "empty": "A gradient without elements has nothing to send. Look at what is in a buffer "
        "before you send it.",
        "dtypes": "A message has one dtype. bfloat16 that is cast to float32 is twice the bytes, "
        "float64 that is cast to float32 loses half its digits: each dtype has a buffer of its "
        "own.",
        "groups": "A gradient of another dtype is not a reason to send: the buffers of all dtypes "
        "are open at the same time. Look for the one of gradient.dtype in a dict.",
        "bytes": "Each gradient travels once, in its own dtype. numel() counts elements; nbytes "
        "is numel() times element_size().",
        "messages": "One message for each gradient costs a latency each. Let gradients wait until "
        "the next one does not fit.",
        "one_buffer": "A message is larger than it may be. buffer_bytes is the room in a buffer, "
        "in bytes, not in elements: look at what is in it and at the next gradient before that "
        "goes in.",
        "exact": "A gradient that takes exactly the room that is left still fits.",
        "equal": "A gradient of exactly buffer_bytes is not larger than a buffer: an empty one has "
        "room for it. What waits in the open buffer leaves first, as with smaller gradients.",
        "too_large": "A gradient that is larger than a buffer does not go into one: it leaves by "
        "itself. The gradients that wait in the buffer of its dtype go on waiting.",
        "packing": "Go through the rule with pencil and paper: three gradients of 6 kB, and "
        "buffers of 16 kB. Which two travel together, and when?",
        "full": "A buffer that is full to the last byte has nothing to wait for. Look at it once "
        "more after a gradient has gone in, and send it before you take the next one.",
        "large_late": "A gradient larger than a buffer waits for none: send it before the next.",
        "late": "The first buffer is full long before the last gradient is there. Send it in the "
        "for loop, before you take the next gradient: list(gradients) takes all of them first.",
        "waiting": "dist.all_reduce returns when the sum is there; with async_op=True it returns "
        "at once, with a work whose wait() comes later. What can leave before the first wait?",
        "wire": "To average n bytes over p ranks, each rank must send 2 (p-1)/p · n. Everyone's "
        "buffers on every rank are more. Which single collective brings the sum?",
        "mismatch": "Collectives have no names: the third call on one rank meets the third on the "
        "others. All ranks get the gradients in the same order. Does anything in your order of "
        "sending depend on the rank?",
        "hang": "Every rank must send every buffer, the last ones too.",
    },
)
