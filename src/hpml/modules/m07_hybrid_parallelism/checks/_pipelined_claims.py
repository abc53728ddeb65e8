"""What the pipeline exercises' claims rest on: gradients, losses, messages, the order of passes.

No claim is about seconds. A rank's order of passes is the parent's record of what it asked for; how
long a pipeline takes in which every rank keeps its order follows from the order alone.
"""

import operator
from collections import Counter
from dataclasses import replace

import torch

from hpml.checks.compare import described, is_number, state_difference
from hpml.checks.contract import CannotJudge, Problem, Run
from hpml.modules.m07_hybrid_parallelism.checks._memory import peaks
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_training import (
    CLOSE,
    Step,
    micro_batches,
    passes,
)
from hpml.predict import pipeline
from hpml.ranks.evidence import Call, RankEvidence
from hpml.trace.computations import Computation, idle_share, live_activations

MORE = 24_000_000  # bytes: what ranks use besides activations, and what allocators round
FORWARD, BACKWARD = 1.0, 2.0  # how long a pass takes, in units of time


# ---- gradients and losses


def whole_batch(run: Run) -> Problem | None:
    """Whether each step's gradients, and the weights at the end, are those of one process."""
    for number, step in enumerate(run.expected["steps"]):
        if problem := wrong_gradients(run, number, step):
            return problem
    for rank, (value, right) in enumerate(zip(run.values, run.expected["states"], strict=True)):
        if found := state_difference(value["state"], right, CLOSE):
            seen = f"after all steps, rank {rank}'s weights differ from those of one process"
            return Problem(f"{seen}: {found}", "weights", found.expected)
    return None


def wrong_gradients(run: Run, number: int, step: Step) -> Problem | None:
    got = [value["gradients"][number] for value in run.values]
    where = in_step(run, number)
    if any(value["changed"][number] for value in run.values):
        rank = [value["changed"][number] for value in run.values].index(True)
        return Problem(f"{where}, rank {rank}'s weights have changed in train_step", "weights")
    none = [rank for rank, gradients in enumerate(got) if not gradients]
    if none and len(none) < run.world_size:
        return Problem(f"{where}, rank {none[-1]}'s parameters have no gradients", "sent_back")
    if none:
        return Problem(f"{where}, no rank's parameters have gradients", "no_backward")
    for rank in reversed(range(run.world_size)):  # gradients come from the last rank
        if found := state_difference(got[rank], step.mixed(rank, step.shares), CLOSE):
            hint, why = mistake(step, rank, got[rank])
            seen = f"{where}, rank {rank}'s gradients are not those of the whole batch"
            return Problem(f"{seen}: {why or found}", hint, "" if why else found.expected)
    return None


def in_step(run: Run, number: int) -> str:
    count = len(run.expected["steps"][number].sizes)
    what = "" if run.expected["whole"] else f" ({count} micro-batch{'es' * (count > 1)})"
    return f"in step {number + 1}{what}"


def mistake(step: Step, rank: int, got: dict[str, torch.Tensor]) -> tuple[str, str]:
    """The usual mistake that explains the gradients: its hint, and what they are."""
    count = len(step.sizes)
    usual = {
        "scaled": ([1.0] * count, "they are the sum over the micro-batches' mean losses"),
        "mean_of_means": (
            [1 / count] * count,
            "each micro-batch counts alike, the smaller one too",
        ),
        "sum": ([float(n) for n in step.sizes], "they are those of the sum over all samples"),
    }
    for alone in range(count) if count > 1 else ():
        for factor in (1.0, 1 / count, step.shares[alone]):
            shares = [factor * (k == alone) for k in range(count)]
            if not state_difference(got, step.mixed(rank, shares), CLOSE):
                return "accumulate", f"they are those of micro-batch {alone} alone"
    for hint, (shares, why) in usual.items():
        if not state_difference(got, step.mixed(rank, shares), CLOSE):
            return hint, why
    right = step.mixed(rank, step.shares)
    products = sum((got[k] * right[k]).sum().item() for k in right if k in got)
    times = products / sum(right[k].square().sum().item() for k in right)
    if not state_difference(got, {k: times * right[k] for k in right}, CLOSE):
        return "factor", f"they are {times:.3g} times those"
    # Gradients are looked at from the last rank on
    return "parity" if rank == len(step.entering) - 1 else "border", ""


def loss_is_returned(run: Run) -> Problem | None:
    last = run.world_size - 1
    for number, step in enumerate(run.expected["steps"]):
        right = sum(s * loss for s, loss in zip(step.shares, step.losses, strict=True))
        got = run.values[last]["losses"][number]
        where, before = in_step(run, number), enumerate(run.expected["steps"][:number])
        if not is_number(got):
            return Problem(f"{where}, rank {last} returned {described(got)}", "loss", "a number")
        if not abs(got - right) <= CLOSE * max(1.0, abs(right)):
            if problem := next(filter(None, (wrong_gradients(run, k, s) for k, s in before)), None):
                return problem  # the weights are others by now, and so is the loss
            alone = [k for k, loss in enumerate(step.losses) if abs(got - loss) <= CLOSE]
            which = f", that of micro-batch {alone[0]} alone" if alone else ""
            seen = f"{where}, rank {last} returned the loss {got:.6g}{which}"
            return Problem(seen, mistake_in_loss(step, got), f"{right:.6g}")
    return None


def mistake_in_loss(step: Step, got: float) -> str:
    """The hint for the mistake that explains a loss: where gradients have it too, theirs."""
    summed, samples = sum(step.losses), sum(map(operator.mul, step.sizes, step.losses))
    usual = {"mean_of_means": summed / len(step.losses), "scaled": summed, "sum": samples}
    for hint, value in usual.items() if len(step.sizes) > 1 else ():
        if abs(got - value) <= CLOSE * max(1.0, abs(value)):
            return hint
    return "loss"


# ---- messages


def one_message_each_way(run: Run) -> Problem | None:
    """Each micro-batch crosses each border between stages once forward and once back."""
    steps = run.expected["steps"]
    for rank in run.evidence.ranks:
        for call in rank.calls:
            if call.operation not in ("send", "recv"):
                line = f" (line {call.line} of your answer)" if call.line else ""
                seen = f"rank {rank.rank} is in {call.operation}{line}, which is not allowed here"
                return Problem(seen, "collective")
        neighbours = {
            peer: way
            for peer, way in ((rank.rank + 1, "forward"), (rank.rank - 1, "back"))
            if 0 <= peer < run.world_size
        }
        sent: dict[int, Counter[int]] = {peer: Counter() for peer in neighbours}
        for call in sends(rank):
            if (peer := call.peer) not in sent:
                return Problem(f"rank {rank.rank} sends to rank {peer}", "neighbours")
            sent[peer][call.nbytes] += 1
        for peer, way in neighbours.items():
            border = max(rank.rank, peer)
            width = steps[0].entering[border].shape[1]
            right = Counter(8 * n * width for step in steps for n in step.sizes)
            noun = "batches" if run.expected["whole"] else "micro-batches"
            if problem := wrong_messages(rank.rank, peer, way, noun, sent[peer], right):
                return problem
    return None


def sends(rank: RankEvidence) -> list[Call]:
    return [call for call in rank.calls if call.operation == "send"]


def wrong_messages(
    rank: int, peer: int, way: str, noun: str, sent: Counter[int], right: Counter[int]
) -> Problem | None:
    if sent == right:
        return None
    seen = f"in all steps, rank {rank} sends {sent.total()} messages {way} to rank {peer}"
    if not sent and way == "back":
        return Problem(seen, "sent_back")
    due = f"{right.total()}, one for each of the {noun}"
    if sent.total() == right.total():
        seen += f", {nbytes(sent)} bytes"
        due = f"{nbytes(right)} bytes"
    if sent.total() >= right.total():
        return Problem(seen, "messages", due)
    left_out = nbytes(sent) < nbytes(right) and noun == "micro-batches"
    return Problem(seen, "passes" if left_out else "whole", due)


def nbytes(messages: Counter[int]) -> int:
    """Of messages, counted by their bytes."""
    return sum(size * count for size, count in messages.items())


def order_of(run: Run, number: int) -> pipeline.Schedule | Problem:
    """Which rank computes which micro-batch when, in a step; or a pass that is of none."""
    step = run.expected["steps"][number]
    where = in_step(run, number)
    micro_batch = {rows: k for k, rows in enumerate(step.parts)}
    orders = []
    for rank in run.evidence.ranks:
        order: list[pipeline.Pass] = []
        for one in passes(rank, run.expected["steps"])[number]:
            if one.rows is not None and one.rows not in micro_batch:
                what = f"computes {len(one.rows)} samples in one {one.kind} pass"
                return Problem(f"{where}, rank {rank.rank} {what}", "whole")
            found = None if one.rows is None else pipeline.Pass(one.kind, micro_batch[one.rows])
            if found is not None and found not in order:  # activations may be computed again
                order.append(found)
        for kind in ("forward", "backward"):
            done = sum(one.kind == kind for one in order)
            if done < len(micro_batch):
                seen = (
                    f"{where}, rank {rank.rank} makes {done} right {kind} pass{'es' * (done != 1)}"
                )
                none = kind == "backward" and not done and rank.rank < run.world_size - 1
                return Problem(seen, "sent_back" if none else "passes", str(len(micro_batch)))
        orders.append(tuple(order))
    return pipeline.Schedule("answer", tuple(orders))


def steps_with_order(run: Run) -> list[int]:
    """The steps whose passes can be known: the first, and those whose weights are right."""
    steps = run.expected["steps"]
    right = 1
    while right < len(steps) and wrong_gradients(run, right - 1, steps[right - 1]) is None:
        right += 1
    return list(range(right))


def no_more_idle_than_the_formula(run: Run) -> Problem | None:
    """Whether ranks that keep this order idle for (p-1)/(m+p-1) of the time, and not more."""
    for number in steps_with_order(run):
        schedule = order_of(run, number)
        if isinstance(schedule, Problem):
            return schedule
        count = len(run.expected["steps"][number].sizes)
        idle = idle_share(pipeline.played(schedule, FORWARD, BACKWARD))
        formula = pipeline.bubble(run.world_size, count)
        if idle > formula + 1e-6:
            where = f"in step {number + 1} ({count} micro-batches on {run.world_size} ranks)"
            seen = f"{where}, ranks that compute in this order idle for {idle:.0%} of the time"
            bound = f"(p-1)/(m+p-1) is {formula:.0%}"
            return Problem(f"{seen}, and {bound}", "flush" if is_flushed(schedule) else "bubble")
    return None


def is_flushed(schedule: pipeline.Schedule) -> bool:
    """Whether each micro-batch comes back to rank 0 before the next one leaves it."""
    order = schedule.orders[0]
    pairs = zip(order[::2], order[1::2], strict=False)
    return all(a.micro_batch == b.micro_batch and a.kind == "forward" for a, b in pairs)


def few_live(run: Run) -> Problem | None:
    """Whether rank r never has the activations of more than p - r micro-batches."""
    for number in steps_with_order(run):
        schedule = order_of(run, number)
        if isinstance(schedule, Problem):
            return schedule
        count = len(run.expected["steps"][number].sizes)
        for rank, live in most_live(schedule).items():
            if live > run.world_size - rank:
                seen = (
                    f"{in_step(run, number)}, rank {rank} of {run.world_size} has the activations"
                )
                return Problem(
                    f"{seen} of {live} micro-batches at one time; p - r is {run.world_size - rank}",
                    "gpipe" if live == count else "warm_up",
                )
    return None


def little_memory(run: Run) -> Problem | CannotJudge | None:
    """The same by the kernel's count, where activations are large."""
    stage = run.stages.get("memory")
    if stage is None:
        return None
    if not isinstance(found := peaks(stage), list):
        return found
    if problem := whole_batch(replace(run, evidence=stage, expected=run.expected["memory"])):
        return problem
    samples = max(run.inputs["memory"][0]["served"][0]["sizes"])
    held = 8 * samples * run.inputs["memory"][0]["wide"]
    for rank, peak in enumerate(found):
        most = (stage.world_size - rank) * held + MORE
        if peak > most:
            live = stage.world_size - rank
            return Problem(
                f"with activations of {held / 1e6:.0f} MB for a micro-batch, rank {rank} of "
                f"{stage.world_size} had {peak / 1e6:.0f} MB at one time; {live} micro-batches and "
                f"{MORE / 1e6:.0f} MB for all else are {most / 1e6:.0f} MB",
                too_many.hint if (too_many := few_live(run)) else "memory",
            )
    return None


def most_live(schedule: pipeline.Schedule) -> dict[int, int]:
    """The most micro-batches whose activations a rank has at one time, by rank."""
    return live_activations(
        Computation(rank, one.kind, one.micro_batch, float(place), place + 1.0)
        for rank, order in enumerate(schedule.orders)
        for place, one in enumerate(order)
    )


def sizes(world_size: int) -> list[list[int]]:
    """The micro-batches of each step: their number is not divisible by p, less than p, and one."""
    return [micro_batches(n) for n in (2 * world_size + 1, max(1, world_size - 1), 1)]
