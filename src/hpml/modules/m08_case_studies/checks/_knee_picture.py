"""The picture of an answer to find_the_knee: its choices on one cluster's curve and bills."""

import io
from typing import Any

from hpml.answer import as_python
from hpml.checks.compare import is_number
from hpml.checks.contract import Check, Picture
from hpml.checks.kits.drawn import Drawn
from hpml.ranks import launch

Job = dict[str, Any]
Choice = int | None

LIMIT = 10.0  # seconds
# Nothing of this is judged. Four nodes are fastest with 14 ranks; six of them hardly pay, and the
# step to eight would pay again.
SHOWN: Job = {
    "images": 115_000_000,
    "deadline": 9.0,
    "per_node": 4,
    "node_hour": 12.0,
    "worth": 0.7,
    "measured": [
        (16, 4750.0),
        (4, 1400.0),
        (24, 5900.0),
        (2, 740.0),
        (8, 2600.0),
        (14, 4850.0),
        (32, 8000.0),
        (12, 3700.0),
        (6, 2050.0),
    ],
}
RAISED = "raised"
YOURS, LATE = "#D55E00", "0.9"


def knee_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: left the curve, with what each step's nodes bring, right the bills.

    Raises ValueError where the answer chooses nothing that can be drawn.
    """
    from matplotlib.figure import Figure

    calls = [[SHOWN, ranks, rate] for ranks, rate in SHOWN["measured"]]
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"bills": calls, "deadlines": [SHOWN], "edges": [], "knees": [SHOWN]}],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    told, due = evidence.values[0], Drawn(__package__, check.id).pictured()
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curve(left, first(told["knees"]), due)
    _draw_bills(right, told["bills"], first(told["deadlines"]), due)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        "A cluster that is not judged. Left: images/s over nodes, and beside each step what a node "
        "of it brings, over what one brings at first; dashed is a node that brings just enough. "
        "Right: your bill of each size over hours; grey is too late. Rings: what you chose"
    )
    return Picture(image.getvalue(), words)


def first(told: Any) -> Any:
    """The first of the choices; RAISED where the answer's function raised instead."""
    return told[0] if isinstance(told, list) else RAISED


def chosen(choice: Any) -> Choice:
    """The choice, if it is a size that was measured; else None."""
    return int(choice) if is_number(choice) and choice in dict(SHOWN["measured"]) else None


def knee_in_words(choice: Any, due: dict[str, Any]) -> str:
    size = chosen(choice)
    if choice == RAISED:
        return "No knee: find_the_knee raised"
    if size is None:
        return "Your knee is not a size that was measured"
    nodes = due["sizes"][size][0]
    words = f"Your knee: {size} ranks on {nodes} node{'s' * (nodes > 1)}"
    steps = dict(zip((ranks for *_, ranks in due["curve"]), due["gains"], strict=False))
    if size == due["knee"]:
        return f"{words}. The next bring {steps[size]:.2f} each"
    return f"{words}. Nodes pay up to {due['knee']} ranks"


def cheapest_in_words(choice: Any, due: dict[str, Any]) -> str:
    size = chosen(choice)
    if choice == RAISED:
        return "No size: cheapest raised"
    if size is None:
        return "In time: none" if choice is None else "Yours is not a size that was measured"
    _, hours, money = due["sizes"][size]
    words = f"Your size: {size} ranks, {hours:.1f} h, {money:.0f}"
    if hours > SHOWN["deadline"]:
        return f"{words}: too late"
    return words if size == due["cheapest"] else f"{words}; a cheaper one is in time"


def _draw_curve(axes: Any, choice: Any, due: dict[str, Any]) -> None:
    points, sizes = due["curve"], due["sizes"]
    on_curve = {ranks for *_, ranks in points}
    rest = [(r, rate) for r, rate in SHOWN["measured"] if r not in on_curve]
    axes.plot(
        [sizes[ranks][0] for ranks, _ in rest],
        [rate for _, rate in rest],
        "x",
        color="0.4",
        label="slower, on as many nodes",
    )
    nodes, rates = [point[0] for point in points], [point[1] for point in points]
    axes.plot(nodes, rates, "o-", color="#0072B2", label="fastest of so many nodes")
    enough = SHOWN["worth"] * rates[0] / nodes[0]
    for number, gain in enumerate(due["gains"]):
        ends = nodes[number : number + 2]
        just = [rates[number], rates[number] + enough * (ends[1] - ends[0])]
        label = f"a node brings {SHOWN['worth']}" if number == 0 else None
        axes.plot(ends, just, "--", color="0.3", linewidth=1, label=label)
        middle = sum(ends) / 2, sum(rates[number : number + 2]) / 2
        pays = gain >= SHOWN["worth"]
        side = {"xytext": (-4, 7), "ha": "right"} if pays else {"xytext": (4, -14), "ha": "left"}
        axes.annotate(f"{gain:.2f}", middle, textcoords="offset points", **side)
    if (size := chosen(choice)) is not None:
        _ring(axes, sizes[size][0], dict(SHOWN["measured"])[size])
    axes.set(xlabel="nodes", ylabel="images/s of all ranks", ylim=(0, 1.12 * max(rates)))
    axes.set_xticks(nodes)
    axes.set_title(knee_in_words(choice, due), fontsize=10)
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(alpha=0.3)


def _draw_bills(axes: Any, told: list[Any], choice: Any, due: dict[str, Any]) -> None:
    right = [due["sizes"][ranks][1:] for ranks, _ in SHOWN["measured"]]
    most = 1.3 * max(hours for hours, _ in right)
    axes.axvspan(SHOWN["deadline"], most, color=LATE)
    labels = sorted(zip(right, SHOWN["measured"], strict=True))
    for number, (at, (ranks, _)) in enumerate(labels):  # above and below in turn
        place = (0, 10 if number % 2 else -20)
        axes.annotate(str(ranks), at, xytext=place, textcoords="offset points", ha="center")
    axes.plot(*zip(*right, strict=True), "o", color="#0072B2", label="a size (number: ranks)")
    yours = [got for got in told if _is_bill(got)]
    if len(yours) < len(told) or any(
        abs(mine - its) > 1e-3 * its
        for got, bill in zip(yours, right, strict=True)
        for mine, its in zip(got, bill, strict=True)
    ):
        low, high = 0.8 * min(hours for hours, _ in right), 1.35 * max(bill for _, bill in right)
        near = [got for got in yours if low < got[0] < most and 0 <= got[1] < high]
        label = "your bill" if near else "your bills are out of the picture"
        axes.plot([x for x, _ in near], [y for _, y in near], "k+", markersize=11, label=label)
    if (size := chosen(choice)) is not None:
        _ring(axes, *due["sizes"][size][1:])
    ticks = [hours for hours in (1, 2, 4, 8, 16, 32) if hours < most]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(hours) for hours in ticks])
    axes.set_xlim(0.8 * min(hours for hours, _ in right), most)
    axes.set(xlabel="hours of the run; grey: too late", ylabel="money")
    axes.set_ylim(0, 1.35 * max(money for _, money in right))
    axes.set_title(cheapest_in_words(choice, due), fontsize=10)
    axes.legend(fontsize=8, loc="upper right")
    axes.grid(alpha=0.3)


def _ring(axes: Any, *at: float) -> None:
    look = {"markerfacecolor": "none", "markeredgecolor": YOURS, "markeredgewidth": 2.5}
    axes.plot(*at, "o", markersize=17, label="your choice", **look)


def _is_bill(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(is_number, value))
