"""What the lecture concludes from all-reduces that it timed and counted, beside the α–β model.

As in `findings.py`. Times are those of the ranks of one machine that may have fewer
cores: they are shown beside the model, and nothing is asked of them that rests on the cores.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hpml.modules.m01_parallel_sgd.lecture.findings import BUSY, CLOSE, Finding, listed, near
from hpml.predict.draw import Series

FAR = 1.5  # times the model: to be seen in the plot
Panel = Mapping[str, Series]
Sent = tuple[int, int, int, int]  # source, destination, messages, bytes


def quickest(
    predicted: Mapping[str, Callable[[float], float]], small: int, large: int, even: float
) -> Finding:
    """Which algorithms the α–β model calls the quickest for `small` and for `large` bytes.

    `even` is α/β: the bytes for which both parts of a message cost the same.
    """
    at = {n: {name: model(n) for name, model in predicted.items()} for n in (small, large)}
    best = {n: near(times, CLOSE) for n, times in at.items()}
    last = {n: max(times, key=times.__getitem__) for n, times in at.items()}
    parts = [
        f"for {small / 1e3:.0f} kB {listed(best[small])} ({1e3 * min(at[small].values()):.1f} ms, "
        f"and {last[small]} {1e3 * at[small][last[small]]:.1f} ms)",
        f"for {large / 1e6:.0f} MB {listed(best[large])} ({1e3 * min(at[large].values()):.0f} ms, "
        f"and {last[large]} {1e3 * at[large][last[large]]:.0f} ms)",
    ]
    sentence = (
        f"By the model the quickest are {parts[0]}; {parts[1]}. A message of "
        f"{even / 1e3:.0f} kB costs as much for α as for its bytes: well below that the rate of "
        "the network does not count."
    )
    return True, sentence, ""


def adding(gamma: float, beta: float) -> Finding:
    """Seconds to add one byte up on a rank, beside those to send one."""
    seen = f"To add up costs γ = {1e9 * gamma:.2f} ns per byte, to send {1e9 * beta:.1f} ns"
    held = gamma < 0.1 * beta
    return held, f"{seen}, {beta / gamma:.0f} times as much: γ is left out below.", f"{seen}."


def across_nodes(predicted: Mapping[str, Callable[[float], float]], nbytes: int) -> Finding:
    """A ring and the hierarchical way on nodes with a slow link between them, by the model."""
    ring, best = predicted["ring"](nbytes), predicted["hierarchical"](nbytes)
    times = f"a ring {1e3 * ring:.0f} ms"
    seen = f"hierarchical takes {1e3 * best:.0f} ms for {nbytes / 1e6:.0f} MB, {times}"
    return best < ring, f"Across nodes, by the model, {seen}.", f"{seen}, by the model."


def measured_first(panel: Panel, small: int, large: int) -> Finding:
    """Which algorithms were first and last in a panel, beside those that the model has first."""
    parts, agrees = [], {}
    for n, unit in ((small, f"{small / 1e3:.0f} kB"), (large, f"{large / 1e6:.0f} MB")):
        taken = {name: one.measured[n] for name, one in panel.items() if n in one.measured}
        model = {name: panel[name].model(n) for name in taken}
        first, last = (pick(taken, key=taken.__getitem__) for pick in (min, max))
        said = near(model, CLOSE)
        agrees[n] = first in said
        parts.append(
            f"for {unit} {first} ({_ms(taken[first])}), and last {last} "
            f"({_ms(taken[last])}; model {_ms(model[last])}). The model has "
            f"{listed(said)} first"
        )
    seen = f"measured first is {parts[0]}. Measured first is {parts[1]}"
    return agrees[large], f"**Answer**: {seen}.", f"{seen}. {BUSY}"


def errors(panel: Panel, sizes: Sequence[int]) -> dict[int, float]:
    """By size, how far the model is from the measured time: the median over the algorithms."""
    ratios = {n: ratios_to_model(panel, n) for n in sizes}
    return {
        n: float(np.median([abs(1 / ratio - 1) for ratio in by_name.values()]))
        for n, by_name in ratios.items()
        if by_name
    }


def ratios_to_model(panel: Panel, nbytes: int) -> dict[str, float]:
    """Measured time over the model's, by algorithm."""
    return {
        name: one.measured[nbytes] / one.model(nbytes)
        for name, one in panel.items()
        if one.model and nbytes in one.measured
    }


def model_error(
    panels: Mapping[str, Panel], sizes: Sequence[int], messages: Mapping[str, int], cores: float
) -> Finding:
    """How far the model is from the points of each panel: at the least size, and from 1 MB on.

    `messages`: how many each algorithm sends in all; `cores`: those that the ranks share.
    """
    least, parts, worst, ratios = min(sizes), [], [], []
    for name, panel in panels.items():
        worst.append(max(error for n, error in errors(panel, sizes).items() if n >= 1e6))
        small = ratios_to_model(panel, least)
        low, high = (pick(small, key=small.__getitem__) for pick in (min, max))
        ratios += small.values()
        parts.append(
            f"{name}: from 1 MB on the model is off by at most {worst[-1]:.0%} (median over the "
            f"algorithms), and for {least / 1e3:.0f} kB measured times are {small[low]:.2g} "
            f"({low}) to {small[high]:.2g} ({high}) times the model's"
        )
    seen = "; ".join(parts)
    reasons = []
    if max(ratios) > FAR:
        counts = listed([f"{count} with {name}" for name, count in messages.items()])
        reasons.append(
            " Points above their line: the model counts the messages that follow one another, with "
            f"a core for each rank. Here {cores:g} cores do the work of all messages: {counts}."
        )
    if min(ratios) < 1 / FAR:
        reasons.append(
            " Points below their line: α came out too high. Its ping-pong was made at another "
            "time, and whatever else the machine did then is in it (see its ±)."
        )
    return max(worst) < 0.4, f"{seen}.{''.join(reasons)}", f"{seen}. {BUSY}"


def own_choice(own: Mapping[int, Sequence[Sent]], known: Mapping[str, Sequence[Sent]]) -> Finding:
    """Which algorithm the default of Open MPI follows, by the messages of each pair of ranks.

    `own`: what the default sends, by bytes; `known`: what the algorithms send, for any bytes.
    """
    parts, found = [], []
    for nbytes, sent in own.items():
        same = followed(sent, known)
        found.append(same)
        mine = [(messages, size) for source, _, messages, size in sent if source == 0]
        size = f"{nbytes / 1e6:g} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:g} kB"
        parts.append(
            f"for {size} those of {listed([f'`{name}`' for name in same] or ['none'])} (rank 0 "
            f"sends {sum(count for count, _ in mine)} messages, "
            f"{sum(size for _, size in mine) / nbytes:g} times its bytes)"
        )
    seen = f"The messages of Open MPI's own choice are {listed(parts)}"
    return all(map(bool, found)), f"**Answer.** {seen}.", f"{seen}."


def followed(sent: Sequence[Sent], known: Mapping[str, Sequence[Sent]]) -> list[str]:
    """The names in `known` with as many messages from each rank to each other as in `sent`."""

    def pairs(messages: Sequence[Sent]) -> list[tuple[int, int, int]]:
        return [(source, to, count) for source, to, count, _ in messages]

    return [name for name, other in known.items() if pairs(other) == pairs(sent)]


def noise(series: Mapping[str, Series], one: str, other: str, nbytes: int) -> Finding:
    """Two names of Open MPI for the same messages: how far apart are their times?"""
    taken = [series[f"Open MPI, {name}"].measured[nbytes] for name in (one, other)]
    apart = max(taken) / min(taken)
    sentence = (
        f"For {nbytes / 1e3:g} kB *{one}* and *{other}* send the same messages, and their points "
        f"are a factor of {apart:.2g} apart: at that size a smaller difference means nothing."
    )
    return True, sentence, ""


def below_bound(series: Panel, bound: Callable[[float], float]) -> Finding:
    """Points that are quicker than the link's rate allows."""
    points = [
        f"{name} {n / 1e3:g} kB"
        for name, one in series.items()
        for n, seconds in one.measured.items()
        if seconds < 0.95 * bound(n)
    ]
    if not points:
        return True, "No point is clearly below 1 ×.", ""
    sentence = (
        f"Below 1 ×: {listed(points)}. That is the emulation: a link that has been idle lets "
        "some kilobytes pass at once before it keeps to its rate."
    )
    return True, sentence, ""


def _ms(seconds: float) -> str:
    return f"{float(f'{1e3 * seconds:.3g}'):g} ms"
