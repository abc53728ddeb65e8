"""Images/s of eager and compiled steps over batch size, as a picture."""

from typing import TYPE_CHECKING

from hpml.bench.eager_compiled_timings import COMPILED, EAGER, GRAPHS, Timings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drawn(timings: Timings, where: str) -> "Figure":
    """Images/s over batch size, from the slowest round to the quickest; below, the times eager."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7, 5.5), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    batches = list(timings)
    styles = {EAGER: ("o-", "#7f93a8"), COMPILED: ("s-", "#1f4e79"), GRAPHS: ("^--", "#d55e00")}
    for way in next(iter(timings.values())):
        of = [timings[batch][way] for batch in batches]
        style, colour = styles[way]
        rates = [batch / one.median for batch, one in zip(batches, of, strict=True)]
        low = [batch / max(one.seconds) for batch, one in zip(batches, of, strict=True)]
        high = [batch / min(one.seconds) for batch, one in zip(batches, of, strict=True)]
        above.plot(batches, rates, style, color=colour, label=way)
        above.fill_between(batches, low, high, color=colour, alpha=0.2)
        gains = [timings[batch][EAGER].median / timings[batch][way].median for batch in batches]
        below.plot(batches, gains, style, color=colour)
    above.set_xscale("log", base=2)
    above.set_yscale("log")
    above.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    above.yaxis.set_major_formatter("{x:,.0f}")
    above.yaxis.set_minor_formatter(NullFormatter())
    above.set_ylabel("images/s")
    above.legend()
    above.set_title(title(timings))
    below.set_xticks(batches, [str(batch) for batch in batches])
    below.set_xlabel(f"images in a step, {where}")
    below.set_ylabel("times eager")
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def title(timings: Timings) -> str:
    """Where the best compiled way gains most over eager, as a title."""

    def gain(batch: int) -> float:
        of = timings[batch]
        return max(of[EAGER].median / one.median for way, one in of.items() if way != EAGER)

    best = max(timings, key=gain)
    images = f"{best} image{'s' * (best > 1)}"
    if gain(best) <= 1:
        return "Compiling gains nothing here"
    return f"Compiled is up to {gain(best):.2g} times as fast as eager: with {images} in a step"
