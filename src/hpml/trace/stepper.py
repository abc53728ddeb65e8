"""An all-reduce to step through: who holds what, one step at a time."""

import base64
import io

from matplotlib.figure import Figure

from hpml.ranks.evidence import Evidence
from hpml.trace.holdings import Holdings, Sent, holdings
from hpml.trace.ring_picture import draw, summary

WIDGET = "application/vnd.jupyter.widget-view+json"
PAUSE = 1500  # milliseconds between two steps while it plays


def step_through(evidence: Evidence) -> None:
    """Show the evidence of `hpml.trace.holdings.watch` in a notebook: the picture of all steps, and
    below it a play button and a slider that show one step at a time.

    The picture is an output of its own: it stays on pages, in print, and where a notebook is opened
    again, whose kernel no longer has the widget. Raises ValueError as `holdings` does.
    """
    from IPython.display import display

    for bundle in bundles(holdings(evidence)):
        display(bundle, raw=True)


def bundles(seen: Holdings) -> list[dict[str, object]]:
    """The two outputs: all steps as a picture, and the widget in no other form."""
    every = draw(seen, range(len(seen.states)), title=summary(seen))
    picture = base64.b64encode(_png(every)).decode("ascii")
    forms = stepper(seen)._repr_mimebundle_()
    return [{"text/plain": summary(seen), "image/png": picture}, {WIDGET: forms[WIDGET]}]


def stepper(seen: Holdings) -> object:
    """The widget: a play button and a slider over the steps, and below them a step's picture."""
    import ipywidgets  # loads slowly, and only notebooks show it

    last = max(len(seen.steps), 1)
    slider = ipywidgets.IntSlider(value=1, min=1, max=last, description="step")
    play = ipywidgets.Play(value=1, min=1, max=last, interval=PAUSE)
    own_size = ipywidgets.Layout(align_self="flex-start")  # and not as wide as the page
    image = ipywidgets.Image(format="png", value=frame(seen, 1), layout=own_size)
    drawn = {1: image.value}

    def show(change: dict) -> None:
        step = change["new"]
        if step not in drawn:
            drawn[step] = frame(seen, step)
        image.value = drawn[step]

    slider.observe(show, names="value")
    ipywidgets.jslink((play, "value"), (slider, "value"))
    return ipywidgets.VBox([ipywidgets.HBox([play, slider]), image])


def frame(seen: Holdings, step: int) -> bytes:
    """The states before and after a step, the first being 1, as a PNG image."""
    return _png(draw(seen, [step - 1, step], title=sentence(seen, step)))


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
