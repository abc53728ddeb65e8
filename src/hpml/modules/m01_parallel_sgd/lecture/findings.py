"""What the lecture on parallel SGD concludes from its measurements.

Each function returns what `hpml.publish.conclude` takes: whether it was seen in this run, the
sentence, and what to say otherwise. All numbers in a sentence are the run's own.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hpml.modules.m01_parallel_sgd.lecture.updates import Update
from hpml.predict.amdahl import Amdahl
from hpml.predict.parallelism import Plan
from hpml.ranks.evidence import Evidence
from hpml.trace.messages import messages

Finding = tuple[bool, str, str]
BUSY = "That can be: the ranks share this machine's cores with other programs."
CLOSE = 1.05  # times the best: not to be told apart


def speed_up(strong: Mapping[int, float], model: Amdahl) -> Finding:
    """Strong scaling: seconds of a step by ranks, and Amdahl's model of what they compute."""
    two, most = strong[1] / strong[2], max(strong)
    share = model.serial_fraction
    seen = f"Two ranks are {two:.1f} times as fast as one"
    sentence = (
        f"**Answer.** {seen}, {most} (simulated) {strong[1] / strong[most]:.1f} times. The update "
        f"is {share:.0%} of the step of one rank and is not shared out: a thousand ranks are at "
        f"most {model.seconds(1) / model.seconds(1000):.1f} times as fast, even if sending took "
        "no time."
    )
    return two > 1 and share > 0, sentence, f"{seen}, {share:.0%} is not shared out. {BUSY}"


def dearest(plans: Sequence[Plan]) -> Finding:
    """Which way of cutting a step sends the most and the least, and which leave ranks idle."""
    sent = {plan.name: plan.sent for plan in plans}
    most, least = max(plans, key=lambda plan: plan.sent), near(sent, 1.001)
    idle = sorted((p for p in plans if p.idle > 0), key=lambda plan: plan.idle, reverse=True)
    shares = listed([f"{plan.idle:.0%} of the time with *{plan.name}*" for plan in idle])
    sentence = (
        f"**Answer.** *{most.name}* sends the most, {most.sent / 1e6:.1f} MB from each rank. "
        f"{listed([f'*{name}*' for name in least])} send{'s' if len(least) == 1 else ''} the "
        f"least, {min(sent.values()) / 1e6:.1f} MB. Each rank is idle {shares}."
    )
    return True, sentence, ""


def same_batch(same: bool, times: float) -> Finding:
    """Steps by the mean and by the sum of four ranks' gradients beside that of one process.

    `same`: the mean gives the step of one process on every rank; `times`: how far the sum goes.
    """
    sentence = (
        "**Answer.** With the mean, every rank makes the step of one process, up to rounding. "
        f"With the sum it makes a step in the same direction, {times:.2f} times as far."
    )
    otherwise = f"mean equal to one process: {same}; the sum goes {times:.2f} times as far."
    return same and math.isclose(times, 4, rel_tol=1e-3), sentence, otherwise


def rules(runs: Mapping[str, Sequence[tuple[float, float]]], diverged: float) -> Finding:
    """Learning-rate rules: points (samples, loss) by run, the first being one worker.

    A run diverges where its loss is above `diverged`, or no number.
    """
    alone, *names = runs
    broken = [n for n in names if not all(loss <= diverged for _, loss in runs[n])]
    ends = {name: runs[name][-1][1] for name in names if name not in broken}
    if not ends:
        return False, "", "every rule diverged."
    best, worst = min(ends, key=ends.__getitem__), max(ends, key=ends.__getitem__)
    one = runs[alone][-1][1]
    breaks = " and ".join(f"*{name}*" for name in broken) or "none"
    sentence = (
        f"**Answer.** Nearest to one worker comes *{best}*, with a loss of {ends[best]:.2f}. One "
        f"worker has {one:.2f} by then: no rule reaches it with a sixteenth of the steps. Farthest "
        f"of those that train is *{worst}* with {ends[worst]:.2f}. What diverges: {breaks}."
    )
    otherwise = f"one worker ends at {one:.2f}, *{best}* at {ends[best]:.2f}; diverged: {breaks}."
    return bool(broken) and ends[best] > one, sentence, otherwise


def waited(evidence: Evidence, rank: int) -> float:
    """Share of a synchronous run that `rank` was in an all-reduce. The run returns its log."""
    log = evidence.values[0]
    calls = [c for c in evidence.ranks[rank].calls if c.operation == "all_reduce"][-len(log) :]
    return sum(call.finished - call.issued for call in calls) / log[-1]["at"]


def gradients_by_worker(evidence: Evidence, workers: int) -> list[int]:
    """How many updates each worker made in an asynchronous run, whose server returns its log."""
    made = [update["worker"] for update in evidence.values[0]]
    return [made.count(worker) for worker in range(workers)]


def without_waiting(together: Evidence, apart: Evidence, slow: int) -> Finding:
    """A synchronous and an asynchronous run of as many gradients, with one slow worker."""
    long, short = (evidence.values[0][-1]["at"] for evidence in (together, apart))
    steps, workers = len(together.values[0]), together.world_size
    counts = gradients_by_worker(apart, workers)
    sentence = (
        f"**Answer.** In {steps} synchronous steps each worker computes {steps} gradients, in "
        f"{1e3 * long:.0f} ms. Without waiting, the {len(apart.values[0])} gradients take "
        f"{1e3 * short:.0f} ms, and the workers computed {', '.join(map(str, counts))} of them."
    )
    otherwise = f"{1e3 * long:.0f} ms with waiting, {1e3 * short:.0f} ms without. {BUSY}"
    return short < long and counts[slow] == min(counts), sentence, otherwise


def staleness(runs: Mapping[str, Sequence[Update]], lowest: float) -> Finding:
    """Asynchronous runs by name: one worker alone first, then others, four equal ones among them.

    `lowest` is the first weight, that of the steeper direction, where the loss is least.
    """
    alone, four = runs["1 worker"], runs["4 workers"]
    late = float(np.mean([update.staleness for update in four]))
    apart = [
        float(np.mean([abs(update.weights[0] - lowest) for update in log[len(log) // 2 :]]))
        for log in (alone, four)
    ]
    seen = (
        f"One worker is {np.mean([update.staleness for update in alone]):.1f} updates late, four "
        f"are {late:.1f}. In the second half of the run their first weight is {apart[0]:.2f} and "
        f"{apart[1]:.2f} away from the best one, on average"
    )
    sentence = (
        f"**Answer.** {seen}: the four make {len(four)} updates in place of {len(alone)}, and "
        "their path swings from side to side."
    )
    held = 2 < late < 4 and apart[1] > 1.5 * apart[0]
    return held, sentence, f"{seen}. Who comes late, and how late, depends on the machine's load."


def in_the_same_time(
    waiting: Mapping[str, Sequence[Update]],
    going_on: Mapping[str, Sequence[Update]],
    excess: Callable[..., float],
) -> Finding:
    """Synchronous and asynchronous runs of several workers, by the same names: who is nearer?

    `excess` is the loss above the least, of the weights. Of each pair both are looked at when the
    quicker one ends: the mean over the last tenth of the updates that were made until then.
    """
    wins, level, loses, seen = [], [], [], []
    for name in going_on:
        if len({update.worker for update in going_on[name]}) == 1:
            continue  # one worker: nothing is stale
        until = min(log[name][-1].at for log in (waiting, going_on))
        ends = [_late_excess(log[name], until, excess) for log in (waiting, going_on)]
        ratio = ends[1] / ends[0]
        (wins if ratio < 0.9 else loses if ratio > 1.1 else level).append(f"*{name}*")
        late = float(np.median([update.staleness for update in going_on[name]]))
        seen.append(
            f"*{name}* {ends[0]:.3f} with waiting, {ends[1]:.3f} without ({until:.1f} s; "
            f"median staleness {late:.0f})"
        )
    numbers = f"loss above the least after the same time: {'; '.join(seen)}"
    sentence = (
        f"**Answer.** Not waiting is ahead with {listed(wins) if wins else 'none'}: more updates "
        f"in the same time. It is behind with {listed(loses) if loses else 'none'}"
        f"{f' and level with {listed(level)}' if level else ''}. "
        f"({numbers[0].upper()}{numbers[1:]}.)"
    )
    held = "*4, one slow*" in wins and "*4 workers*" in loses
    otherwise = f"{numbers}. How late gradients come depends on the machine's load."
    return held, sentence, otherwise


def _late_excess(log: Sequence[Update], until: float, excess: Callable[..., float]) -> float:
    made = [update for update in log if update.at <= until] or log[:1]
    last = made[-max(3, len(made) // 10) :]
    return float(np.mean([excess(*update.weights) for update in last]))


def bytes_of_links(server: Evidence, ring: Evidence, nbytes: float, rate: float) -> Finding:
    """All-reduces of `nbytes` on as many ranks, over links of `rate` bit/s: bytes that came in."""
    ranks = server.world_size
    most, each = (
        max(rank.traffic.received_bytes for rank in evidence.ranks) for evidence in (server, ring)
    )
    due, due_each = (ranks - 1) * nbytes, 2 * (ranks - 1) / ranks * nbytes
    least = [f"{1e3 * 8 * count / rate:.0f} ms" for count in (most, each)]
    fewer = range(2, ranks)
    sums = listed([f"{(p - 1) * nbytes / 1e6:.0f}" for p in fewer])
    parts = listed([f"{2 * (p - 1) / p * nbytes / 1e6:.1f}" for p in fewer])
    sentence = (
        f"**Answer.** Rank 0 receives {most / 1e6:.1f} MB on {ranks} ranks, and sends as much "
        f"again: its link is in use for {least[0]} each way. On the ring no rank receives more "
        f"than {each / 1e6:.1f} MB, {least[1]}. With {listed([str(p) for p in fewer])} ranks it "
        f"is {sums} MB, and on the ring {parts} MB."
    )
    otherwise = f"rank 0 received {most / 1e6:.1f} MB, a rank of the ring {each / 1e6:.1f} MB."
    held = due <= most < 1.2 * due and due_each <= each < 1.2 * due_each
    return held, sentence, otherwise


def crossing(seen: Mapping[str, Evidence]) -> dict[str, tuple[int, float, float]]:
    """Of each algorithm's launch: messages, MB sent in all, MB that node 0 sent to other nodes.

    The messages' bytes are those of the tensors; the last number is the kernel's count.
    """
    found = {}
    for name, evidence in seen.items():
        sent = messages(evidence)
        across = evidence.uplinks[0].sent_bytes / 1e6
        found[name] = len(sent), sum(message.nbytes for message in sent) / 1e6, across
    return found


def least_crossing(found: Mapping[str, tuple[int, float, float]]) -> Finding:
    """What `crossing` found, as the answer to: fewest messages, fewest bytes, fewest across?"""
    fewest = near({name: float(row[0]) for name, row in found.items()}, 1.0)
    between = {name: row[2] for name, row in found.items()}
    few, best = near(between, 1.15), min(between.values())
    total = [row[1] for row in found.values()]
    sentence = (
        f"**Answer.** {listed(fewest).capitalize()} need the fewest messages, "
        f"{found[fewest[0]][0]}. In bytes they are all equal: {total[0]:.0f} MB. "
        f"Between the nodes {listed(few)} send the least, {best:.1f} MB each way, the ring "
        f"{between['ring']:.1f} MB, halving-doubling {between['halving-doubling']:.1f} MB."
    )
    held = max(total) - min(total) < 0.01 * total[0] and "hierarchical" in few and "ring" not in few
    counts = ", ".join(f"{name} {across:.2f}" for name, across in between.items())
    return held, sentence, f"MB between the nodes: {counts}."


def near(values: Mapping[str, float], factor: float) -> list[str]:
    """The names whose value is at most `factor` times the least."""
    least = min(values.values())
    return [name for name, value in values.items() if value <= factor * least]


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
