"""Something to step through, one picture for each step; an all-reduce: who holds what."""

import base64
import io
from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from hpml.publish import FIGURE
from hpml.ranks.evidence import Evidence
from hpml.trace.holdings import Holdings, Sent, holdings
from hpml.trace.ring_picture import draw, summary

WIDGET = "application/vnd.jupyter.widget-view+json"


def step_through(evidence: Evidence) -> None:
    """Show the evidence of `hpml.trace.holdings.watch` in a notebook: the picture of all steps, and
    below it two buttons and a slider that show one step at a time.

    The picture is an output of its own: it stays on pages, in print, and where a notebook is opened
    again, whose kernel no longer has the widget. Raises ValueError as `holdings` does.
    """
    from IPython.display import display

    for bundle in bundles(holdings(evidence)):
        display(bundle, raw=True, metadata=FIGURE)


def show_steps(
    every: Figure,
    summary: str,
    *,
    last: int,
    frame: Callable[[int], Figure],
    sentence: Callable[[int], str],
) -> None:
    """Show `every`, the picture of all steps, in a notebook, and below it the widget that shows one
    step at a time: its `frame(step)` and its `sentence(step)`, for steps from 1 to `last`.
    """
    from IPython.display import display

    shown = widget(last, lambda step: _png(frame(step)), sentence)
    for bundle in _both(every, summary, shown):
        display(bundle, raw=True, metadata=FIGURE)


def bundles(seen: Holdings) -> list[dict[str, object]]:
    """The two outputs: all steps as a picture, and the widget in no other form."""
    every = draw(seen, range(len(seen.states)), title=summary(seen))
    return _both(every, summary(seen), stepper(seen))


def _both(every: Figure, summary: str, widget: Any) -> list[dict[str, object]]:
    picture = base64.b64encode(_png(every)).decode("ascii")
    forms = widget._repr_mimebundle_()
    return [{"text/plain": summary, "image/png": picture}, {WIDGET: forms[WIDGET]}]


def stepper(seen: Holdings) -> object:
    """The widget for an all-reduce."""
    last = max(len(seen.steps), 1)
    return widget(last, lambda step: frame(seen, step), lambda step: sentence(seen, step))


def widget(last: int, frame: Callable[[int], bytes], sentence: Callable[[int], str]) -> object:
    """Previous, next and a slider over the steps; below them a step's sentence, and its picture."""
    import ipywidgets  # loads slowly, and only notebooks show it

    back = ipywidgets.Button(description="previous")
    onward = ipywidgets.Button(description="next")
    slider = ipywidgets.IntSlider(value=1, min=1, max=last, description="step")
    text = ipywidgets.HTML()
    own_size = ipywidgets.Layout(align_self="flex-start")  # and not as wide as the page
    image = ipywidgets.Image(format="png", layout=own_size)
    drawn: dict[int, bytes] = {}

    def show(step: int) -> None:
        if step not in drawn:
            drawn[step] = frame(step)
        text.value, image.value = sentence(step), drawn[step]
        back.disabled, onward.disabled = step == 1, step == last

    def move(by: int) -> None:
        slider.value += by

    show(slider.value)
    slider.observe(lambda change: show(change["new"]), names="value")
    back.on_click(lambda _: move(-1))
    onward.on_click(lambda _: move(1))
    return ipywidgets.VBox([ipywidgets.HBox([back, onward, slider]), text, image])


def frame(seen: Holdings, step: int) -> bytes:
    """The states before and after a step, the first being 1, as a PNG image."""
    return _png(draw(seen, [step - 1, step]))


def sentence(seen: Holdings, step: int) -> str:
    """What happens in a step: "Step 1: rank 0 sends part 0 to rank 1; rank 1 sends ..."."""
    if not seen.steps:
        return summary(seen)
    sent = "; ".join(_clause(one, seen.world_size) for one in seen.steps[step - 1])
    return f"Step {step}: {sent}"


def _clause(one: Sent, world_size: int) -> str:
    what = "part " + ", ".join(map(str, one.parts)) if one.parts else "something"
    if len(one.parts) == world_size:
        what = "all parts"
    lost = "" if one.arrived else ", which never arrives"
    return f"rank {one.sender} sends {what} to rank {one.receiver}{lost}"


def _png(figure: Figure) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    return image.getvalue()
