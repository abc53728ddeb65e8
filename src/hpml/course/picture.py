"""The pictures in a notebook's outputs: as data: addresses, for pages that load nothing, and with
fewer bytes."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbformat import NotebookNode

KINDS = ("image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp")
FLAT_COLOURS, FLAT = 12, 0.7  # the commonest colours of a drawing, and how much they cover
SMALL_COLOURS, COLOURS = 64, 256  # in a small picture, in any; a plot's text has many greys


def address(data: Mapping[str, str | Sequence[str]]) -> str:
    """The picture in an output's data (nbformat: content by MIME type); "" where there is none."""
    for kind in KINDS:
        if kind in data:
            content = "".join(data[kind])
            if kind == "image/svg+xml":  # the only one that a notebook holds as text
                content = base64.b64encode(content.encode()).decode()
            content = re.sub(r"\s", "", content)
            return f"data:{kind};base64,{content}"
    return ""


def is_drawing(picture: str) -> bool:
    """Whether the picture at a PNG's `address` is few colours on white, as a plot: no photographs.

    Such a picture may be shown with light and dark exchanged.
    """
    from PIL import Image

    start = "data:image/png;base64,"
    if not picture.startswith(start):
        return False
    try:
        image = Image.open(io.BytesIO(base64.b64decode(picture.removeprefix(start)))).convert("RGB")
    except (OSError, ValueError):  # of any kind that a browser may still show
        return False
    image.thumbnail((400, 400), Image.Resampling.NEAREST)  # whose colours are the picture's own
    colours: Any = image.getcolors(image.width * image.height)  # of RGB, and of no more pixels
    counted: list[tuple[int, tuple[int, int, int]]] = sorted(colours, reverse=True)
    flat = sum(pixels for pixels, _ in counted[:FLAT_COLOURS])
    return min(counted[0][1]) >= 240 and flat >= FLAT * image.width * image.height


def small(picture: str, width: int) -> str:
    """The same picture with at most `width` pixels in a row, if its `address` is that of a PNG."""
    from PIL import Image

    start = "data:image/png;base64,"
    if not picture.startswith(start):
        return picture
    image = Image.open(io.BytesIO(base64.b64decode(picture.removeprefix(start)))).convert("RGB")
    image.thumbnail((width, width * 2))
    content = io.BytesIO()
    image.quantize(SMALL_COLOURS).save(content, "PNG", optimize=True)
    return start + base64.b64encode(content.getvalue()).decode()


def lighten(notebook: NotebookNode) -> None:
    """Give every PNG in the outputs a palette of 256 colours, which is a third of the bytes.

    A picture that has one already, or that lets its background shine through, stays as it is.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = _with_palette("".join(data["image/png"]))


def _with_palette(encoded: str) -> str:
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    if image.mode == "P" or image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        return encoded
    content = io.BytesIO()
    image.convert("RGB").quantize(COLOURS).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()
