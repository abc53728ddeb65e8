"""What the lecture on parallel SGD concludes from its measurements.

Each function returns what `hpml.publish.conclude` takes: whether it was seen in this run, the
sentence, and what to say otherwise. All numbers in a sentence are the run's own.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hpml.parallel_sgd.updates import Update
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
    most, least = (pick(plans, key=lambda plan: plan.sent) for pick in (max, min))
    idle = sorted((p for p in plans if p.idle > 0), key=lambda plan: plan.idle, reverse=True)
    shares = _listed([f"{plan.idle:.0%} of the time with *{plan.name}*" for plan in idle])
    sentence = (
        f"**Answer.** *{most.name}* sends the most, {most.sent / 1e6:.1f} MB from each rank. "
        f"*{least.name}* sends the least, {least.sent / 1e6:.1f} MB. Each rank is idle {shares}."
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


def bytes_of_links(server: Evidence, ring: Evidence, nbytes: float, rate: float) -> Finding:
    """All-reduces of `nbytes` on as many ranks, over links of `rate` bit/s: bytes that came in."""
    ranks = server.world_size
    most, each = (
        max(rank.traffic.received_bytes for rank in evidence.ranks) for evidence in (server, ring)
    )
    due, due_each = (ranks - 1) * nbytes, 2 * (ranks - 1) / ranks * nbytes
    least = [f"{1e3 * 8 * count / rate:.0f} ms" for count in (most, each)]
    fewer = range(2, ranks)
    sums = _listed([f"{(p - 1) * nbytes / 1e6:.0f}" for p in fewer])
    parts = _listed([f"{2 * (p - 1) / p * nbytes / 1e6:.1f}" for p in fewer])
    sentence = (
        f"**Answer.** Rank 0 receives {most / 1e6:.1f} MB on {ranks} ranks, and sends as much "
        f"again: its link is in use for {least[0]} each way. On the ring no rank receives more "
        f"than {each / 1e6:.1f} MB, {least[1]}. With {_listed([str(p) for p in fewer])} ranks it "
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
    fewest = _near({name: float(row[0]) for name, row in found.items()}, 1.0)
    between = {name: row[2] for name, row in found.items()}
    few, best = _near(between, 1.15), min(between.values())
    total = [row[1] for row in found.values()]
    sentence = (
        f"**Answer.** {_listed(fewest).capitalize()} need the fewest messages, "
        f"{found[fewest[0]][0]}. In bytes they are all equal: {total[0]:.0f} MB. "
        f"Between the nodes {_listed(few)} send the least, {best:.1f} MB each way, the ring "
        f"{between['ring']:.1f} MB, halving-doubling {between['halving-doubling']:.1f} MB."
    )
    held = max(total) - min(total) < 0.01 * total[0] and "hierarchical" in few and "ring" not in few
    counts = ", ".join(f"{name} {across:.2f}" for name, across in between.items())
    return held, sentence, f"MB between the nodes: {counts}."


def quickest(
    predicted: Mapping[str, Callable[[float], float]], small: int, large: int, even: float
) -> Finding:
    """Which algorithms the α–β model calls the quickest for `small` and for `large` bytes.

    `even` is α/β: the bytes for which both parts of a message cost the same.
    """
    at = {n: {name: model(n) for name, model in predicted.items()} for n in (small, large)}
    best = {n: _near(times, CLOSE) for n, times in at.items()}
    last = {n: max(times, key=times.__getitem__) for n, times in at.items()}
    parts = [
        f"for {small / 1e3:.0f} kB {_listed(best[small])} ({1e3 * min(at[small].values()):.1f} ms, "
        f"and {last[small]} {1e3 * at[small][last[small]]:.1f} ms)",
        f"for {large / 1e6:.0f} MB {_listed(best[large])} ({1e3 * min(at[large].values()):.0f} ms, "
        f"and {last[large]} {1e3 * at[large][last[large]]:.0f} ms)",
    ]
    sentence = (
        f"**Answer**, by the model: quickest {parts[0]}; {parts[1]}. A message of "
        f"{even / 1e3:.0f} kB costs as much for α as for its bytes: well below that the rate of "
        "the network does not count."
    )
    return True, sentence, ""


def across_nodes(predicted: Mapping[str, Callable[[float], float]], nbytes: int) -> Finding:
    """A ring and the hierarchical way on nodes with a slow link between them, by the model."""
    ring, best = predicted["ring"](nbytes), predicted["hierarchical"](nbytes)
    times = f"a ring {1e3 * ring:.0f} ms"
    seen = f"hierarchical takes {1e3 * best:.0f} ms for {nbytes / 1e6:.0f} MB, {times}"
    return best < ring, f"Across nodes, by the model, {seen}.", f"{seen}, by the model."


def errors(panel: Mapping[str, object], sizes: Sequence[int]) -> dict[int, float]:
    """By size, how far the model is from the measured time: the median over the algorithms."""
    return {
        n: float(
            np.median(
                [
                    abs(one.model(n) / one.measured[n] - 1)
                    for one in panel.values()
                    if one.model and n in one.measured
                ]
            )
        )
        for n in sizes
    }


def model_error(found: Mapping[int, float]) -> Finding:
    """What `errors` found, small against large."""
    least, most = min(found), max(found)
    sentence = (
        f"Where all links have one rate, from 1 MB on the model is off by at most "
        f"{max(error for n, error in found.items() if n >= 1e6):.0%} (median over the algorithms). "
        f"At {least / 1e3:.0f} kB it is off by {found[least]:.0%}: four ranks on few cores take "
        "turns there, and the ping-pong had a core for each rank."
    )
    held = max(error for n, error in found.items() if n >= 1e6) < 0.3 and found[least] > found[most]
    numbers = ", ".join(f"{n / 1e3:.0f} kB: {error:.0%}" for n, error in found.items())
    return held, sentence, f"the model is off by {numbers}. {BUSY}"


def own_choice(default: float, ring: float) -> Finding:
    """Seconds of Open MPI's default and of its ring, for 1 MB over links that are the limit."""
    seen = f"For 1 MB Open MPI's default takes {1e3 * default:.0f} ms, its ring {1e3 * ring:.0f} ms"
    sentence = (
        f"{seen}. The table behind the default was measured on other clusters: on your own, "
        "measure, and choose."
    )
    return default > CLOSE * ring, sentence, f"{seen}. {BUSY}"


def _near(values: Mapping[str, float], factor: float) -> list[str]:
    """The names whose value is at most `factor` times the least."""
    least = min(values.values())
    return [name for name, value in values.items() if value <= factor * least]


def _listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
