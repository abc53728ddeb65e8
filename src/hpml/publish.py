"""Results that a notebook publishes for the report.

A published result is an ordinary cell output with one more representation, of a type that only the
report reads. A person at the notebook sees the picture or one line of text; `./hpml run` collects
the same outputs from the executed notebooks onto the report's front page. So everything on the
front page stands in a notebook too, made in the same run.

| type         | content                                                                     |
| ------------ | --------------------------------------------------------------------------- |
| `RESULT`     | {"name", "value", "unit", "caption"}; a figure has no value, and image/png  |
| `SKIP`       | {"what", "why"}: what this machine could not show                           |
| `CONCLUSION` | {"held", "sentence"}: a sentence of the lecture that rests on a measurement |
| `VERDICT`    | `hpml.checks.verdict.Verdict.record()`, put there by a notebook's `check`   |

Within one notebook a later result of the same name replaces the earlier one. A `RESULT` with a
"lead", a sentence, is the figure that the front page begins with; a `SKIP` with "lead" is why there
is none.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULT = "application/vnd.hpml.result+json"
SKIP = "application/vnd.hpml.skip+json"
CONCLUSION = "application/vnd.hpml.conclusion+json"
VERDICT = "application/vnd.hpml.verdict+json"

# Metadata of a drawing on white: JupyterLab marks it, and ./hpml lab darkens it in the dark theme
FIGURE = {"needs_background": "light"}

Number = int | float


def publish(
    name: str, value: Number | str | Mapping[str, Number], *, unit: str = "", caption: str = ""
) -> None:
    """Show a result: one number or text, or several numbers to be compared, by label.

    `name` is a short title ("images per second"), `unit` that of every number, `caption` the
    sentence that explains the numbers. Numbers are rounded where they are shown.

    publish("images per second", {"1 rank": 812.0, "2 ranks": 1534.0}, unit="images/s",
            caption="Two ranks of one thread each, against one.")

    Raises TypeError where a value is neither a plain number nor text (reduce a tensor first),
    ValueError where a number is not finite or there is none.
    """
    plain = dict(value) if isinstance(value, Mapping) else value
    numbers = list(plain.values()) if isinstance(plain, dict) else [plain]
    if not numbers:
        raise ValueError(f"publish {name!r}: no numbers given")
    allowed = (int, float) if isinstance(plain, dict) else (int, float, str)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, allowed):
            raise TypeError(
                f"publish {name!r}: {number!r} is a {type(number).__name__}: give int or float"
            )
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError(f"publish {name!r}: {number} is not finite")
    if isinstance(plain, dict):
        shown = ", ".join(f"{label}: {rounded(number)}" for label, number in plain.items())
    else:
        shown = rounded(plain)
    text = f"{name}: {shown} {unit}".rstrip()
    record = {"name": name, "value": plain, "unit": unit, "caption": caption}
    _display({"text/plain": text, RESULT: record})


def publish_figure(name: str, figure: Figure, caption: str, *, lead: str = "") -> None:
    """Show a matplotlib figure, once, and close it. `caption` describes it in words,
    also for readers who cannot see the picture.

    With `lead`, one sentence with what was measured, the report's front page begins with this
    figure, below that sentence. Only for the lecture of the module that `leads` in course.toml.
    """
    import matplotlib.pyplot as plt

    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=160, bbox_inches="tight", facecolor="white")
    plt.close(figure)  # else the notebook shows it a second time at the end of the cell
    record = {"name": name, "unit": "", "caption": caption} | ({"lead": lead} if lead else {})
    encoded = base64.b64encode(image.getvalue()).decode("ascii")
    _display(
        {
            "text/plain": " ".join(filter(None, [f"[{name}] {caption}", lead])),
            "image/png": encoded,
            RESULT: record,
        },
        metadata={} if _has_photograph(figure) else FIGURE,
    )


def _has_photograph(figure: Figure) -> bool:
    """Whether a part of it is an image in colours, which must not be inverted."""
    return any(image.get_array().ndim == 3 for axes in figure.axes for image in axes.images)


def skip(what: str, why: str, *, lead: bool = False) -> None:
    """Show what was skipped on this machine, and why: "two nodes", "there is no SLURM here".

    With `lead` it was the figure that the report's front page begins with.
    """
    record = {"what": what, "why": why} | ({"lead": True} if lead else {})
    _display({"text/plain": f"Skipped: {what}: {why}", SKIP: record})


def conclude(held: bool, sentence: str, otherwise: str) -> None:
    """Show the sentence that follows from what was measured, as Markdown.

    `held` is computed from the measurement, and so are the numbers in the text. Where it is false
    the reader sees `otherwise`: what was seen in this run instead, and why that can be.

    conclude(ring < naive, f"The ring is {naive / ring:.1f} times as fast.",
             f"Here the ring took {ring:.2f} s, naive {naive:.2f} s: four ranks share two cores.")

    The course is not built with a notebook in which a sentence did not hold.
    Raises TypeError where `held` is not a bool (of a tensor, take `.item()`).
    """
    if type(held).__name__ not in ("bool", "bool_"):  # numpy has one of its own
        raise TypeError(f"conclude: held is {held!r}, a {type(held).__name__}: give a bool")
    held = bool(held)
    text = sentence if held else f"Not seen in this run: {otherwise}"
    record = {"held": held, "sentence": sentence}
    _display({"text/plain": text, "text/markdown": text, CONCLUSION: record})


def rounded(value: Number | str) -> str:
    """A number with three significant digits and its thousands apart; text as it is.

    1534.2 -> "1,534"; 0.91234 -> "0.912"; 7 -> "7".
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _display(bundle: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:  # a plain script shows only the text
        print(bundle["text/plain"])
    else:
        display(bundle, raw=True, metadata=metadata or {})
